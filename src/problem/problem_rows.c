/* Rows by microbatches; see problem_rows.h. */
#include "problem/problem_rows.h"

#include "gradus/autograd.h"

#include <math.h>
#include <string.h>

#define MICROBATCHES 8 /* of all rows, with several processes */

/* The expression over some rows. */
static gd_tensor *value_of_rows(void *user, int64_t first, int64_t count)
{
    gd_problem_rows *g = user;
    gd_problem *p = g->problem;
    for (int i = 0; i < p->count; i++) {
        g->value[i] = p->value[i];
        if (g->cut[i]) g->value[i] = gd_slice(p->value[i], "0", first, first + count, 1);
        if (!g->value[i]) return NULL;
    }
    return gd_expr_eval(g->expr, g->value, p->spec.dtype);
}

void gd__problem_rows_close(gd_problem_rows *g)
{
    if (!g->problem) return;
    gd_ctx *ctx = g->problem->ctx;
    gd_expr_free(g->expr);
    gd__free(ctx, g->value, g->value ? g->bytes : 0);
    gd__free(ctx, g->cut, g->cut ? g->bytes : 0);
    g->problem->rows = NULL;
    *g = (gd_problem_rows){0};
}

/* ---- cutting ---- */

static gd_status cut(gd_problem_rows *g, const char *name)
{
    gd_problem *p = g->problem;
    int i = p->params;
    while (i < p->count && strcmp(p->name[i], name) != 0) i++;
    if (i == p->count)
        return gd_fail(p->ctx, GD_ARGUMENT, "{split}: there is no {data} of the name '%.60s'", name);
    const gd_tensor *t = p->value[i];
    if (gd_ndim(t) == 0)
        return gd_fail(p->ctx, GD_SHAPE, "{split}: '%.60s' is one number: it has no rows", name);
    if (g->batch.rows && gd_size(t, 0) != g->batch.rows)
        return gd_fail(p->ctx, GD_SHAPE, "{split}: '%.60s' has %lld rows, others have %lld", name,
                       (long long)gd_size(t, 0), (long long)g->batch.rows);
    if (gd_size(t, 0) == 0) return gd_fail(p->ctx, GD_SHAPE, "{split}: '%.60s' has no rows", name);
    g->batch.rows = gd_size(t, 0);
    g->cut[i] = true;
    return GD_OK;
}

static gd_status read_again(gd_problem_rows *g)
{
    gd_problem *p = g->problem;
    g->expr = gd__problem_expression(p, NULL, p->spec.expression);
    for (int i = p->params; i < p->count && g->expr; i++)
        if (!g->cut[i]) gd_expr_fix(g->expr, i);
    return g->expr ? GD_OK : gd_error(p->ctx);
}

/* ---- sum or mean ---- */

/* A row has one residual. */
static double loss_number(gd_tensor *value, bool residuals)
{
    if (residuals && value) value = gd_square(value);
    gd_tensor *loss = residuals ? gd_sum(value, NULL, false) : gd__problem_loss_of(value);
    return loss ? gd_item(loss) : NAN;
}

/* Is the loss of all rows the sum of those of the microbatches, or their mean?  Tested at the start of the parameters. */
static gd_status find_meaning(gd_problem_rows *g)
{
    gd_problem *p = g->problem;
    gd_batch *b = &g->batch;
    double sum = 0, mean = 0, near = p->spec.dtype == GD_F64 ? 1e-9 : 1e-4, size = 0;
    gd_scope_begin(p->ctx);
    gd_no_grad_begin(p->ctx);
    gd_tensor *value = gd__problem_value(p);
    bool vector = value && gd_ndim(value) > 0 && (gd_numel(value) != 1 || b->rows == 1);
    double whole = loss_number(value, vector);
    for (int64_t at = 0; at < b->rows && !gd_error(p->ctx); at += b->microbatch) {
        int64_t rows = b->rows - at < b->microbatch ? b->rows - at : b->microbatch;
        gd_scope_begin(p->ctx);
        double one = loss_number(value_of_rows(g, at, rows), vector);
        gd_scope_end(p->ctx);
        sum += one;
        mean += one * (double)rows / (double)b->rows;
        size += fabs(one);
    }
    gd_no_grad_end(p->ctx);
    gd_scope_end(p->ctx);
    if (gd_error(p->ctx)) return gd_error(p->ctx);
    if (!isfinite(whole)) return gd_fail(p->ctx, GD_VALUE, "{split}: the loss is %g at the start", whole);
    bool adds = fabs(sum - whole) <= near * size, averages = fabs(mean - whole) <= near * size && !vector;
    if (adds && averages && size == 0 && b->microbatch < b->rows)
        return gd_fail(
            p->ctx, GD_VALUE,
            "{split}: the loss is 0 in all rows at the start: whether it is a sum or a mean cannot be seen");
    if (!adds && !averages)
        return gd_fail(
            p->ctx, GD_VALUE,
            "{split}: the loss is neither a sum nor a mean over the rows: %.6g at the start, the microbatches have %.6g or "
            "%.6g",
            whole, sum, mean);
    b->sums = !averages;
    return GD_OK;
}

gd_status gd__problem_rows_open(gd_problem *p, const gd_words *names, gd_world *world, int64_t microbatch,
                                gd_problem_rows *out)
{
    *out = (gd_problem_rows){.problem = p};
    gd_batch *b = &out->batch;
    out->bytes = (size_t)p->count * sizeof *out->value;
    out->value = gd__calloc(p->ctx, out->bytes);
    out->cut = gd__calloc(p->ctx, out->bytes);
    gd_status status = out->value && out->cut ? GD_OK : GD_NOMEM;
    for (int i = 0; i < names->count && !status; i++) status = cut(out, names->word[i]);
    if (status) return status;
    b->microbatch = microbatch >= 0 ? microbatch : world ? (b->rows + MICROBATCHES - 1) / MICROBATCHES : 0;
    p->rows = out;
    if (!b->microbatch) {
        b->rows = 0;
        return GD_OK;
    }
    b->world = world;
    b->user = out;
    b->loss = value_of_rows;
    status = read_again(out);
    return status ? status : find_meaning(out);
}
