/* Sparse Cholesky by CHOLMOD of SuiteSparse (Chen, Davis, Hager & Rajamanickam 2008), in the order of AMD (Amestoy, Davis & Duff 2004).
 *
 * CHOLMOD factors B B^T + beta I of a matrix B by columns.  J by rows is J^T by columns, so B = [J^T / scale, F] has J's own pattern;
 * F is diagonal with a one for each fixed element, whose row of J^T is zero.  Pattern, order and room of the factor are found once. */
#include "optim/solve/numbers/cholesky_plugin.h"

#include <cholmod.h>
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct state {
    gd_ctx *ctx;
    const gd_host *host;
    int64_t m, n, entries; /* entries of J */
    cholmod_common common;
    cholmod_sparse *b;
    cholmod_factor *l;
    cholmod_dense *x, *y, *e, *side; /* room of solutions; the right side */
} state;

static gd_status failed(state *s)
{
    return s->host->fail(s->ctx, GD_NOMEM, "sparse least squares: out of memory in CHOLMOD");
}

static void end(void *data)
{
    state *s = data;
    cholmod_l_free_dense(&s->x, &s->common);
    cholmod_l_free_dense(&s->y, &s->common);
    cholmod_l_free_dense(&s->e, &s->common);
    cholmod_l_free_dense(&s->side, &s->common);
    cholmod_l_free_factor(&s->l, &s->common);
    cholmod_l_free_sparse(&s->b, &s->common);
    cholmod_l_finish(&s->common);
    s->host->free(s->ctx, s, sizeof *s);
}

static gd_status factor(void *data, const double *value, const double *scale, const bool *fixed, double shift,
                        bool *definite)
{
    state *s = data;
    const SuiteSparse_long *row = s->b->i;
    double *to = s->b->x, beta[2] = {shift, 0};
    for (int64_t k = 0; k < s->entries; k++) to[k] = fixed && fixed[row[k]] ? 0 : value[k] / scale[row[k]];
    for (int64_t k = 0; k < s->n; k++) to[s->entries + k] = fixed && fixed[k] ? 1 : 0;
    cholmod_l_factorize_p(s->b, beta, NULL, 0, s->l, &s->common);
    *definite = s->common.status == CHOLMOD_OK && s->l->minor == (size_t)s->n;
    return s->common.status < CHOLMOD_OK ? failed(s) : GD_OK;
}

static gd_status solve(void *data, double *x)
{
    state *s = data;
    double *side = s->side->x;
    for (int64_t k = 0; k < s->n; k++) side[k] = x[k];
    if (!cholmod_l_solve2(CHOLMOD_A, s->l, s->side, NULL, &s->x, NULL, &s->y, &s->e, &s->common))
        return failed(s);
    for (int64_t k = 0; k < s->n; k++) x[k] = ((const double *)s->x->x)[k];
    return GD_OK;
}

/* [J^T, F] with room for its values. */
static bool make_matrix(state *s, const gd_outer_factor *c)
{
    s->b = cholmod_l_allocate_sparse((size_t)s->n, (size_t)(s->m + s->n), (size_t)(s->entries + s->n), 1, 1,
                                     0, CHOLMOD_REAL, &s->common);
    s->side = s->b ? cholmod_l_zeros((size_t)s->n, 1, CHOLMOD_REAL, &s->common) : NULL;
    if (!s->side) return false;
    SuiteSparse_long *start = s->b->p, *row = s->b->i;
    double *value = s->b->x;
    for (int64_t i = 0; i <= s->m; i++) start[i] = c->start[i];
    for (int64_t k = 0; k < s->entries; k++) row[k] = c->column[k];
    for (int64_t k = 0; k < s->n; k++) {
        row[s->entries + k] = k;
        start[s->m + k + 1] = s->entries + k + 1;
    }
    for (int64_t k = 0; k < s->entries + s->n; k++) value[k] = 1;
    return true;
}

/* One order, so that the bits do not depend on which others are installed. */
static void choose_order(cholmod_common *common)
{
    common->print = 0;
    common->nmethods = 1;
    common->method[0].ordering = CHOLMOD_AMD;
    common->postorder = 1;
    common->quick_return_if_not_posdef = 1;
}

EXPORT gd_status gd_plugin_cholesky(gd_outer_factor *c, bool *fits);
EXPORT gd_status gd_plugin_cholesky(gd_outer_factor *c, bool *fits)
{
    if (c->layout != GD_CHOLESKY_LAYOUT || c->host->layout != GD_PLUGIN_LAYOUT)
        return c->host->fail(c->ctx, GD_DEVICE, "the SuiteSparse plugin is of another version of gradus");
    state *s = c->host->alloc(c->ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    *s = (state){.ctx = c->ctx, .host = c->host, .m = c->m, .n = c->n, .entries = c->start[c->m]};
    cholmod_l_start(&s->common);
    choose_order(&s->common);
    c->state = s, c->factor = factor, c->solve = solve, c->close = end;
    (void)snprintf(c->title, sizeof c->title, "CHOLMOD %d.%d.%d", CHOLMOD_MAIN_VERSION, CHOLMOD_SUB_VERSION,
                   CHOLMOD_SUBSUB_VERSION);
    if (make_matrix(s, c)) s->l = cholmod_l_analyze(s->b, &s->common);
    if (!s->l) return failed(s); /* the caller closes it */
    *fits = s->common.lnz <= (double)c->most && s->common.fl <= c->work;
    return GD_OK;
}
