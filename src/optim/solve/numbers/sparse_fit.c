/* Fits of residuals made of operators whose Jacobian has few elements: their places come from the graph, their values from products J v of
 * columns that share no row, which go through the graph together (Curtis, Powell & Reid 1974).  Steps are those of numbers/. */
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/solve/numbers/numbers.h"
#include "optim/solve/numbers/reads.h"
#include "optim/solve/solve_fit.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <stdio.h>

#define SMALL_PARAMS  100 /* below, a dense Jacobian is cheap */
#define SMALL_NUMBERS 2e6
#define MOST_ENTRIES  1e7 /* the search takes at most 160 MB, and a second on a dense problem */
#define FILLED        0.1 /* of the elements, from which on a dense one is better */

typedef struct sparse_fit {
    gd_ctx *ctx;
    gd_tensor *const *params;
    int count;
    gd_tensor *(*fn)(void *user);
    void *user;
    int64_t n;
    gd_tensor *r; /* residuals at the last point, with history; owned */
    gd_reads reads;
    int32_t *group, groups;
    double *seed, *product; /* [n], [m] */
    gd_tensor **list;       /* [2 count] */
} sparse_fit;

static gd_status residuals_here(sparse_fit *s)
{
    gd_ctx *ctx = s->ctx;
    gd__release(s->r);
    s->r = NULL;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *r = s->fn(s->user);
    gd_status status = r ? GD_OK : gd__lsq_no_residuals(ctx);
    if (!status && s->reads.m && r->numel != s->reads.m)
        status = gd_fail(ctx, GD_SHAPE, "least squares: %lld residuals, there were %lld before",
                         (long long)r->numel, (long long)s->reads.m);
    s->r = status ? NULL : gd__reshape(gd_drop_names(r), 1, &r->numel);
    gd__own(s->r);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status ? status : gd_error(ctx);
}

static gd_status residual(void *user, const double *x, double *r)
{
    sparse_fit *s = user;
    gd_status status = gd__list_write(s->params, s->count, x);
    if (!status) status = residuals_here(s);
    return status ? status : gd_read_f64(s->r, r, s->reads.m);
}

/* The elements of x that belong to the parameters. */
static void round_to_params(void *user, double *x)
{
    sparse_fit *s = user;
    if (gd__list_write(s->params, s->count, x) || gd__list_read(s->params, s->count, x))
        return; /* recorded: the next call fails */
}

/* J v of one group by the gradient J^T u with history in u. */
static gd_status product_of(sparse_fit *s, gd_tensor *u, gd_tensor *const *grads)
{
    gd_tensor **v = s->list + s->count, *sum = NULL, *out = NULL;
    gd_scope_begin(s->ctx);
    gd_status status = gd__list_from(s->params, s->count, s->seed, v);
    for (int i = 0; i < s->count && !status; i++) {
        gd_tensor *term = gd_sum(gd_mul(gd_drop_names(grads[i]), v[i]), NULL, false);
        sum = sum ? gd_add(sum, term) : term;
        if (!sum) status = gd_error(s->ctx);
    }
    if (!status) status = gd_grad(sum, NULL, &u, 1, GD_RETAIN_GRAPH, &out);
    if (!status) status = gd_read_f64(out, s->product, s->reads.m);
    gd_scope_end(s->ctx);
    return status;
}

static gd_status jacobian(void *user, const double *x, double *values)
{
    sparse_fit *s = user;
    const gd_reads *a = &s->reads;
    (void)x; /* residuals were asked for there */
    gd_ctx *ctx = s->ctx;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *u = gd_require_grad(gd_zeros_like(s->r));
    gd_status status = u ? gd_grad(s->r, u, s->params, s->count, GD_CREATE_GRAPH, s->list) : gd_error(ctx);
    for (int32_t g = 0; g < s->groups && !status; g++) {
        for (int64_t c = 0; c < s->n; c++) s->seed[c] = s->group[c] == g;
        status = product_of(s, u, s->list);
        for (int64_t i = 0; i < a->m && !status; i++)
            for (int64_t e = a->start[i]; e < a->start[i + 1]; e++)
                if (s->group[a->column[e]] == g) values[e] = s->product[i];
    }
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

/* ---- is it worth it? ---- */

/* Residuals, counted as one evaluation, and the elements they read; *found false: a dense Jacobian is better. */
static gd_status find_structure(sparse_fit *s, bool *found)
{
    *found = false;
    gd_status status = residuals_here(s);
    if (status) return status;
    double all = (double)s->r->numel * (double)s->n;
    if (all < SMALL_NUMBERS || !gd_dtype_is_float(s->r->dtype) || s->n > INT32_MAX || s->r->numel > INT32_MAX)
        return GD_OK;
    double most = fmin(FILLED * all, MOST_ENTRIES);
    status = gd__reads_find(s->r, s->params, s->count, s->n, (int64_t)most, &s->reads, found);
    *found = *found && (double)s->reads.entries <= most;
    return status;
}

static gd_status make_groups(sparse_fit *s)
{
    gd_csr j = {.m = s->reads.m, .n = s->n, .start = s->reads.start, .column = s->reads.column};
    gd_status status = gd__csr_begin(s->ctx, &j);
    if (!status) status = gd__csr_groups(s->ctx, &j, &s->group, &s->groups);
    gd__csr_end(s->ctx, &j);
    if (status) return status;
    s->seed = gd__calloc(s->ctx, (size_t)(s->n + s->reads.m) * sizeof *s->seed);
    s->list = gd__calloc(s->ctx, 2 * (size_t)s->count * sizeof *s->list);
    s->product = s->seed + s->n;
    return s->seed && s->list ? GD_OK : GD_NOMEM;
}

/* Names of elements for messages: that of the parameter, with an index if it has several elements. */
static void name_elements(const sparse_fit *s, const gd_lsq_options *o, char *text, const char **name)
{
    int64_t at = 0;
    for (int k = 0; k < s->count; k++)
        for (int64_t i = 0; i < s->params[k]->numel; i++, at++, text += GD_NAME_ROOM) {
            char plain[16];
            snprintf(plain, sizeof plain, "p%d", k);
            const char *of = o->names && o->names[k] ? o->names[k] : plain;
            if (s->params[k]->numel == 1)
                snprintf(text, GD_NAME_ROOM, "%.30s", of);
            else
                snprintf(text, GD_NAME_ROOM, "%.30s[%lld]", of, (long long)i);
            name[at] = text;
        }
}

static gd_status solve_numbers(sparse_fit *s, const gd_lsq_options *options, gd_lsq_result *result)
{
    size_t n = (size_t)s->n, bytes = n * (sizeof(double) + sizeof(char *) + GD_NAME_ROOM);
    double *x = gd__alloc(s->ctx, bytes);
    if (!x) return GD_NOMEM;
    const char **name = (const char **)(x + n);
    gd_lsq_options o = *options;
    name_elements(s, options, (char *)(name + n), name);
    o.names = name;
    gd_lsq_problem problem = {.residuals = s->reads.m,
                              .params = s->n,
                              .user = s,
                              .residual = residual,
                              .jacobian = jacobian,
                              .row_start = s->reads.start,
                              .column = s->reads.column};
    gd_status status = gd__list_read(s->params, s->count, x);
    if (!status) status = gd__numbers_solve(s->ctx, &problem, x, &o, round_to_params, result);
    gd_status back = gd__list_write(s->params, s->count, x);
    gd__free(s->ctx, x, bytes);
    return status ? status : back;
}

gd_status gd__sparse_fit(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user), void *user,
                         const gd_lsq_options *options, gd_lsq_result *result, bool *done)
{
    sparse_fit s = {.ctx = params[0]->head.ctx,
                    .params = params,
                    .count = count,
                    .fn = residuals,
                    .user = user,
                    .n = gd__list_numel(params, count)};
    *done = false;
    if (s.n < SMALL_PARAMS || options->rows) return GD_OK;
    gd_status status = find_structure(&s, done);
    if (!status && *done) status = make_groups(&s);
    if (!status && *done) status = solve_numbers(&s, options, result);
    if (status) *done = true;
    gd__release(s.r);
    gd__free(s.ctx, s.group, (size_t)s.n * sizeof *s.group);
    gd__free(s.ctx, s.seed, (size_t)(s.n + s.reads.m) * sizeof *s.seed);
    gd__free(s.ctx, s.list, 2 * (size_t)count * sizeof *s.list);
    gd__reads_free(s.ctx, &s.reads);
    return status;
}
