/* libFuzzer target: any bytes as a program of rules, up to the limits of one, on every executor.
 *
 *   ./dev fuzz program 60 */
#include "program/axes_property.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const isas[] = {"base", "avx2", "avx512"};
    static gd_ctx *ctx[COUNT_OF(isas)];
    for (int k = 0; k < COUNT_OF(isas); k++)
        if (!ctx[k]) ctx[k] = context(NULL, 1 + k, isas[k]);
    /* a compiler takes a thousand times as long as the rest: the replay of the corpus has it */
    const char *fault = program_fault(ctx, COUNT_OF(isas), NULL, data, size);
    if (!fault) return 0;
    fprintf(stderr, "%s\n", fault);
    abort();
}
