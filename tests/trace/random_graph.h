/* Functions put together of operators, views and branches of the graph by a seed. */
#ifndef GD_TESTS_RANDOM_GRAPH_H
#define GD_TESTS_RANDOM_GRAPH_H

#include "trace_support.h"

#define MOST_NODES 24

typedef struct graph {
    gd_ctx *ctx;
    uint64_t seed;
    gd_dtype dtype;
    gd_tensor *captured;
    int64_t rows, columns;
} graph;

static inline gd_tensor *unary(gd_tensor *x, int64_t which)
{
    switch (which) {
    case 0: return gd_neg(x);
    case 1: return gd_square(x);
    case 2: return gd_tanh(x);
    case 3: return gd_sin(x);
    case 4: return gd_cos(x);
    case 5: return gd_exp(gd_mul_scalar(gd_tanh(x), 0.5));
    case 6: return gd_log(gd_add_scalar(gd_square(x), 1));
    case 7: return gd_sqrt(gd_add_scalar(gd_square(x), 0.25));
    case 8: return gd_sigmoid(x);
    case 9: return gd_softplus(x);
    case 10: return gd_abs(x);
    case 11: return gd_relu(x);
    case 12: return gd_reciprocal(gd_add_scalar(gd_square(x), 1));
    case 13: return gd_mul_scalar(x, 0.7);
    case 14: return gd_add_scalar(x, -0.3);
    case 15: return gd_pow_scalar(gd_add_scalar(gd_abs(x), 0.5), 1.7);
    case 16: return gd_pow_scalar(x, 2);
    case 17: return gd_clamp(x, -1, 1.5);
    case 18: return gd_erf(x);
    case 19: return gd_atan(x);
    default: return gd_gelu(x);
    }
}

static inline gd_tensor *binary(gd_tensor *a, gd_tensor *b, int64_t which)
{
    switch (which) {
    case 0: return gd_add(a, b);
    case 1: return gd_sub(a, b);
    case 2: return gd_mul(a, b);
    case 3: return gd_div(a, gd_add_scalar(gd_square(b), 1));
    case 4: return gd_minimum(a, b);
    case 5: return gd_maximum(a, b);
    case 6: return gd_where(gd_gt(a, b), gd_mul_scalar(a, 2), b);
    case 7: return gd_lerp(a, b, gd_sigmoid(a));
    default: return gd_fma(a, b, a);
    }
}

/* Every element with the one behind it, and with none for the last. */
static inline gd_tensor *neighbours(gd_tensor *x, int64_t n, const int64_t *size)
{
    gd_tensor *flat = gd_reshape(x, 1, &n);
    if (n < 2) return x;
    gd_tensor *a = gd_slice(flat, "0", 0, n - 1, 1), *b = gd_slice(flat, "0", 1, n, 1);
    gd_tensor *d = gd_sub(gd_square(a), gd_mul_scalar(b, 0.5));
    return gd_reshape(gd_pad(d, (int64_t[]){0}, (int64_t[]){1}, 0.25), 2, size);
}

/* Rows but the last and but the first, and a row of zeros. */
static inline gd_tensor *between_rows(const graph *g, gd_tensor *x)
{
    gd_tensor *a = gd_slice(x, "0", 0, g->rows - 1, 1), *b = gd_slice(x, "0", 1, g->rows, 1);
    return gd_pad(gd_mul(gd_tanh(a), gd_add_scalar(b, 2)), (int64_t[]){1, 0}, (int64_t[]){0, 0}, 0);
}

/* Something of the shape [rows, columns] again. */
static inline gd_tensor *reshaped(const graph *g, gd_tensor *x, int64_t which)
{
    int64_t size[2] = {g->rows, g->columns}, n = g->rows * g->columns, turned[2] = {g->columns, g->rows};
    switch (which) {
    case 0: return gd_add(x, gd_sum(x, "0", true));
    case 1: return gd_sub(x, gd_mean(x, "1", true));
    case 2: return gd_reshape(gd_transpose(x, 0, 1), 2, size);
    case 3: return gd_transpose(gd_reshape(x, 2, turned), 0, 1);
    case 4: return gd_reshape(gd_flip(gd_reshape(x, 1, &n), "0"), 2, size);
    case 5: return gd_softmax(x, "1");
    case 6: return gd_mul_scalar(gd_cumsum(x, "0"), 0.5);
    case 7: return gd_mul_scalar(gd_matmul(x, gd_matmul(gd_transpose(x, 0, 1), x)), 0.1);
    case 8:
        return g->rows < 2
                   ? x
                   : gd_cat((gd_tensor *[]){gd_slice(x, "0", 1, g->rows, 1), gd_slice(x, "0", 0, 1, 1)}, 2,
                            "0");
    case 9: return gd_add(x, gd_max(x, "1", true));
    case 10: return gd_expand(gd_sum(gd_tanh(x), "0", true), 2, size);
    case 11: return gd_add(x, gd_index(x, "0", g->rows - 1));
    case 12: return gd_sub(x, gd_logsumexp(x, "1", true));
    case 13: return neighbours(x, n, size);
    case 14: return g->rows < 2 ? x : between_rows(g, x);
    case 15: return gd_add(x, gd_mul_scalar(gd_sum(gd_square(x), NULL, false), 1e-3));
    case 16: return gd_mul(x, gd_sum(gd_sigmoid(x), "1", true));
    case 17: return gd_where(gd_gt(x, gd_mean(x, "0", true)), x, gd_neg(x));
    default: return gd_mul(x, gd_detach(gd_sigmoid(x)));
    }
}

static inline gd_tensor *build(void *user, gd_tensor *const *in, int count)
{
    const graph *g = user;
    uint64_t state = g->seed;
    gd_tensor *node[MOST_NODES + 4];
    int n = 0;
    for (int i = 0; i < count; i++) node[n++] = in[i];
    if (random_below(&state, 2)) node[n++] = g->captured;
    int64_t most = 1 + random_below(&state, MOST_NODES - 4);
    for (int64_t k = 0; k < most; k++) {
        gd_tensor *a = node[random_below(&state, n)], *b = node[random_below(&state, n)];
        int64_t what = random_below(&state, 10);
        node[n] = what < 4   ? unary(a, random_below(&state, 21))
                  : what < 7 ? binary(a, b, random_below(&state, 9))
                             : reshaped(g, a, random_below(&state, 19));
        if (!node[n++]) return NULL;
    }
    gd_tensor *sum = gd_mean(gd_square(node[n - 1]), NULL, false);
    return gd_add(sum, gd_sum(gd_tanh(node[random_below(&state, n)]), NULL, false));
}

/* An input: numbers in [-2, 2). */
static inline gd_tensor *numbers(const graph *g, uint64_t *state)
{
    int64_t n = g->rows * g->columns;
    double *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = 4 * random_unit(state) - 2;
    gd_tensor *t = gd_from_f64(g->ctx, g->dtype, 2, (int64_t[]){g->rows, g->columns}, v);
    free(v);
    return t;
}

static inline void wrong(const graph *g, const char *what, int call)
{
    fail_msg("%s of graph %llu (%s [%lld, %lld]) differs in call %d", what, (unsigned long long)g->seed,
             gd_dtype_name(g->dtype), (long long)g->rows, (long long)g->columns, call + 1);
}

#endif
