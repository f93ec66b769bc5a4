/* libFuzzer target: any bytes as a chain, and as a schedule.
 *
 *   ./dev fuzz chain 60 */
#include "chain_property.h"
#include "gradus/schedule.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_schedule(gd_ctx *ctx, const char *text)
{
    gd_schedule s, again;
    char print[1024];
    if (gd_schedule_parse(ctx, text, &s)) {
        if (gd_error(ctx) != GD_PARSE) abort();
        gd_clear_error(ctx);
        return;
    }
    if (gd_schedule_check(ctx, &s)) abort();
    if (gd_schedule_print(&s, print, sizeof print) >= (int)sizeof print) abort();
    if (gd_schedule_parse(ctx, print, &again) || !gd_schedule_equal(&s, &again)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    const char *fault = chain_fault(ctx, text);
    if (fault) {
        fprintf(stderr, "%s\n", fault);
        abort();
    }
    check_schedule(ctx, text);
    free(text);
    return 0;
}
