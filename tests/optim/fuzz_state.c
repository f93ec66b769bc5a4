/* libFuzzer target: any bytes as the saved structure of an optimizer.
 *
 *   ./dev fuzz state 60 */
#include "state_property.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    state_trial t;
    const char *fault = state_begin(&t, ctx) ? state_fault(&t, text) : "no optimizer";
    if (fault) {
        fprintf(stderr, "%s\n", fault);
        abort();
    }
    state_end(&t);
    free(text);
    return 0;
}
