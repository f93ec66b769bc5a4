/* What the suites of traced functions share. */
#ifndef GD_TESTS_TRACE_SUPPORT_H
#define GD_TESTS_TRACE_SUPPORT_H

#include "gradus/trace.h"
#include "support/support.h"

static inline bool explained(const gd_traced *f, const char *part)
{
    static char text[8192];
    (void)gd_explain_trace(f, text, sizeof text);
    return strstr(text, part) != NULL;
}

static inline bool replays(const gd_traced *f) { return explained(f, "replayed"); }

/* The bits of two tensors, shapes and dtypes too. */
static inline bool same_bits(const gd_tensor *a, const gd_tensor *b)
{
    if (!a || !b || gd_tensor_dtype(a) != gd_tensor_dtype(b) || gd_ndim(a) != gd_ndim(b)) return false;
    for (int i = 0; i < gd_ndim(a); i++)
        if (gd_size(a, i) != gd_size(b, i)) return false;
    size_t bytes = (size_t)gd_numel(a) * gd_dtype_size(gd_tensor_dtype(a));
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    bool same = gd_read(a, x, bytes) == GD_OK && gd_read(b, y, bytes) == GD_OK && !memcmp(x, y, bytes);
    free(x);
    free(y);
    return same;
}

/* Value and gradient as gd_grad has them, in the innermost scope. */
static inline gd_status eager_gradient(gd_function function, void *user, gd_tensor *const *inputs, int count,
                                       gd_tensor **value, gd_tensor **grads)
{
    gd_tensor *leaf[8];
    for (int i = 0; i < count; i++) leaf[i] = gd_require_grad(gd_detach(inputs[i]));
    gd_tensor *out = function(user, leaf, count);
    if (!out) return gd_error(gd_tensor_ctx(inputs[0])) ? gd_error(gd_tensor_ctx(inputs[0])) : GD_CALLBACK;
    if (value) *value = gd_detach(out);
    return gd_grad(out, NULL, leaf, count, 0, grads);
}

#endif
