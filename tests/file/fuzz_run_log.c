/* libFuzzer target: any bytes as a trace file, of two kinds of numbers.
 *
 *   ./dev fuzz trace 60 */
#include "file/run_log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    static const char *const keys[] = {"loss", "val_loss"};
    if (!ctx) ctx = gd_ctx_new(NULL);
    char *text = malloc(size + 1);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    for (int k = 0; k < 2; k++) {
        gd_run_log trace = {.ctx = ctx};
        gd_status status = gd__run_log_parse(ctx, "run.jsonl", text, size, keys[k], &trace);
        if (status != gd_error(ctx)) abort();
        double sum = 0; /* the sanitizer looks whether all is there */
        for (size_t i = 0; i < trace.count && !status; i++) {
            sum += trace.step[i] + trace.loss[i] + trace.evals[i] + trace.epoch[i];
            if (trace.x) sum += trace.x[i] + trace.y[i];
        }
        if (!status && trace.x && (!trace.y || strlen(trace.axis[0]) >= sizeof trace.axis[0])) abort();
        if (sum == 12345.678) abort();
        gd_clear_error(ctx);
        gd__run_log_free(&trace);
    }
    free(text);
    return 0;
}
