/* libFuzzer target: any bytes as an expression, evaluated and differentiated on small arrays.
 *
 *   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_expr
 *   build/fuzz/fuzz/fuzz_expr -max_len=256 NEW_FOLDER tests/expr/corpus/expr */
#include "expr/expr_internal.h"
#include "gradus/autograd.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NAMES = 5 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    static const char *const names[NAMES] = {"x", "y", "v", "A", "B"};
    static gd_tensor *values[NAMES];
    if (!ctx) {
        gd_options options = gd_options_default();
        options.threads = 1;
        ctx = gd_ctx_new(&options);
        const int64_t shapes[NAMES][2] = {{0, 0}, {0, 0}, {3, 0}, {2, 3}, {3, 2}};
        const int ndim[NAMES] = {0, 0, 1, 2, 2};
        for (int i = 0; i < NAMES; i++)
            values[i] = gd_require_grad(gd_randn(ctx, GD_F64, ndim[i], shapes[i]));
    }
    if (size > 4096) return 0;
    char *text = malloc(size + 1);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    gd_expr *e = gd__expr_parse_form(ctx, text, &(gd_expr_options){.names = names, .count = NAMES},
                                     GD_EXPR_EQUATION);
    if ((e != NULL) != (gd_error(ctx) == GD_OK)) abort();
    gd_scope_begin(ctx);
    gd_tensor *t = e ? gd_expr_eval(e, values, GD_F64) : NULL;
    if ((t != NULL) != (gd_error(ctx) == GD_OK)) abort();
    if (t && gd_tensor_dtype(t) != GD_F64) abort();
    gd_clear_error(ctx);
    gd_expr_free(e);
    gd_scope_end(ctx);
    if (gd_ctx_live(ctx) != NAMES) abort();
    free(text);
    return 0;
}
