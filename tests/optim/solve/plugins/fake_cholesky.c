/* A plugin that pretends to be SuiteSparse: plain Cholesky of a dense matrix.  GD_FAKE_CHOLESKY says what goes wrong. */
#include "optim/solve/numbers/cholesky_plugin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct fake {
    gd_outer_factor copy;
    double *l; /* [n, n] */
    int factors;
} fake;

static bool goes_wrong(const char *what)
{
    const char *said = getenv("GD_FAKE_CHOLESKY");
    return said && !strcmp(said, what);
}

static gd_status out_of_memory(const fake *f)
{
    return f->copy.host->fail(f->copy.ctx, GD_NOMEM, "sparse least squares: out of memory in the fake");
}

static gd_status factor(void *state, const double *value, const double *scale, const bool *fixed,
                        double shift, bool *definite)
{
    fake *f = state;
    int64_t n = f->copy.n;
    *definite = false;
    if (goes_wrong("factor") && f->factors == 1) return out_of_memory(f);
    if (f->factors++ == 1 && goes_wrong("indefinite")) return GD_OK;
    memset(f->l, 0, (size_t)(n * n) * sizeof *f->l);
    for (int64_t i = 0; i < f->copy.m; i++)
        for (int64_t a = f->copy.start[i]; a < f->copy.start[i + 1]; a++)
            for (int64_t b = f->copy.start[i]; b < f->copy.start[i + 1]; b++) {
                int64_t p = f->copy.column[a], q = f->copy.column[b];
                if (!fixed || (!fixed[p] && !fixed[q]))
                    f->l[p * n + q] += value[a] / scale[p] * (value[b] / scale[q]);
            }
    for (int64_t k = 0; k < n; k++) {
        f->l[k * n + k] += shift + (fixed && fixed[k]);
        for (int64_t p = 0; p < k; p++) f->l[k * n + k] -= f->l[k * n + p] * f->l[k * n + p];
        if (!(f->l[k * n + k] > 0)) return GD_OK;
        f->l[k * n + k] = sqrt(f->l[k * n + k]);
        for (int64_t i = k + 1; i < n; i++) {
            for (int64_t p = 0; p < k; p++) f->l[i * n + k] -= f->l[i * n + p] * f->l[k * n + p];
            f->l[i * n + k] /= f->l[k * n + k];
        }
    }
    *definite = true;
    return GD_OK;
}

static gd_status solve(void *state, double *x)
{
    const fake *f = state;
    int64_t n = f->copy.n;
    if (goes_wrong("solve") && f->factors > 2) return out_of_memory(f);
    for (int64_t k = 0; k < n; k++) {
        for (int64_t p = 0; p < k; p++) x[k] -= f->l[k * n + p] * x[p];
        x[k] /= f->l[k * n + k];
    }
    for (int64_t k = n - 1; k >= 0; k--) {
        for (int64_t p = k + 1; p < n; p++) x[k] -= f->l[p * n + k] * x[p];
        x[k] /= f->l[k * n + k];
    }
    return GD_OK;
}

static void end(void *state)
{
    fake *f = state;
    gd_outer_factor c = f->copy;
    c.host->free(c.ctx, f, sizeof *f + (size_t)(c.n * c.n) * sizeof(double));
}

#ifndef EMPTY
EXPORT gd_status gd_plugin_cholesky(gd_outer_factor *c, bool *fits);
EXPORT gd_status gd_plugin_cholesky(gd_outer_factor *c, bool *fits)
{
    if (c->layout != GD_CHOLESKY_LAYOUT || goes_wrong("version"))
        return c->host->fail(c->ctx, GD_DEVICE, "the SuiteSparse plugin is of another version of gradus");
    fake *f = c->host->alloc(c->ctx, sizeof *f + (size_t)(c->n * c->n) * sizeof(double));
    if (!f) return GD_NOMEM;
    *f = (fake){.l = (double *)(void *)(f + 1)};
    c->state = f, c->factor = factor, c->solve = solve, c->close = end;
    memcpy(c->title, "fake 1.0", sizeof "fake 1.0");
    f->copy = *c;
    if (goes_wrong("open")) return out_of_memory(f);
    *fits = !goes_wrong("large");
    return GD_OK;
}
#else
/* It has another symbol. */
typedef struct functions {
    gd_status (*factor)(void *state, const double *value, const double *scale, const bool *fixed,
                        double shift, bool *definite);
    gd_status (*solve)(void *state, double *x);
    void (*close)(void *state);
} functions;
EXPORT functions gd_plugin_nothing(void);
EXPORT functions gd_plugin_nothing(void) { return (functions){factor, solve, end}; }
#endif
