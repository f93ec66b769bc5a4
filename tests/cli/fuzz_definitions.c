/* libFuzzer target: any bytes as the definitions of --def, used by an expression and without one.
 *
 *   ./dev fuzz definitions 60 */
#include "expr/expr_internal.h"
#include "gradus/autograd.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(gd_ctx *ctx, const char *defined, const char *text, gd_tensor *x)
{
    static const char *const names[] = {"x"};
    const gd_expr_options options = {.names = names, .count = 1, .definitions = defined, .file = "defs.txt"};
    gd_expr *e = gd_expr_parse(ctx, text, &options);
    if ((e != NULL) != (gd_error(ctx) == GD_OK)) abort();
    gd_scope_begin(ctx);
    gd_tensor *t = e ? gd_expr_eval(e, &x, GD_F64) : NULL;
    if ((t != NULL) != (gd_error(ctx) == GD_OK)) abort();
    gd_clear_error(ctx);
    gd_expr_free(e);
    gd_scope_end(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    static gd_tensor *x;
    if (!ctx) {
        gd_options options = gd_options_default();
        options.threads = 1;
        ctx = gd_ctx_new(&options);
        x = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){1, 2, 0.5});
    }
    if (size > 1024) return 0;
    char *text = malloc(size + 1);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    use(ctx, text, "x", x);
    use(ctx, text, "sum(f(x)) + c", x);
    use(ctx, text, "g(f(x), c) + a", x);
    if (gd_ctx_live(ctx) != 1) abort();
    free(text);
    return 0;
}
