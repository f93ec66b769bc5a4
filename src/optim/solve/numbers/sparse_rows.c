/* A Jacobian by rows, and its transpose. */
#include "optim/solve/numbers/sparse.h"

static size_t entries(const gd_csr *j) { return (size_t)j->start[j->m]; }

gd_status gd__csr_begin(gd_ctx *ctx, gd_csr *j)
{
    size_t n = (size_t)j->n;
    j->down = gd__calloc(ctx, (n + 1) * sizeof *j->down);
    j->row = gd__calloc(ctx, entries(j) * sizeof *j->row);
    j->at = gd__calloc(ctx, entries(j) * sizeof *j->at);
    if (!j->down || !j->row || !j->at) return GD_NOMEM;
    for (int64_t e = 0; e < j->start[j->m]; e++) j->down[j->column[e] + 1]++;
    for (int64_t c = 0; c < j->n; c++) j->down[c + 1] += j->down[c];
    /* down[c] runs to the end of its column, which is the beginning of the next: moved back below */
    for (int64_t i = 0; i < j->m; i++)
        for (int64_t e = j->start[i]; e < j->start[i + 1]; e++) {
            int64_t to = j->down[j->column[e]]++;
            j->row[to] = (int32_t)i;
            j->at[to] = e;
        }
    for (int64_t c = j->n; c > 0; c--) j->down[c] = j->down[c - 1];
    j->down[0] = 0;
    return GD_OK;
}

void gd__csr_end(gd_ctx *ctx, gd_csr *j)
{
    gd__free(ctx, j->down, ((size_t)j->n + 1) * sizeof *j->down);
    if (j->row) gd__free(ctx, j->row, entries(j) * sizeof *j->row);
    if (j->at) gd__free(ctx, j->at, entries(j) * sizeof *j->at);
    j->down = NULL, j->row = NULL, j->at = NULL;
}

void gd__csr_times(const gd_csr *j, const double *value, const double *v, double *out)
{
    for (int64_t i = 0; i < j->m; i++) {
        double sum = 0;
        for (int64_t e = j->start[i]; e < j->start[i + 1]; e++) sum += value[e] * v[j->column[e]];
        out[i] = sum;
    }
}

void gd__csr_transposed(const gd_csr *j, const double *value, const double *u, double *out)
{
    for (int64_t c = 0; c < j->n; c++) {
        double sum = 0;
        for (int64_t e = j->down[c]; e < j->down[c + 1]; e++) sum += value[j->at[e]] * u[j->row[e]];
        out[c] = sum;
    }
}

gd_status gd__csr_groups(gd_ctx *ctx, const gd_csr *j, int32_t **group, int32_t *groups)
{
    size_t bytes = (size_t)j->n * sizeof(int32_t);
    int32_t *taken = gd__alloc(ctx, bytes), *of = gd__alloc(ctx, bytes);
    *groups = 0;
    *group = of;
    for (int64_t c = 0; c < j->n && taken && of; c++) taken[c] = of[c] = -1;
    for (int64_t c = 0; c < j->n && taken && of; c++) {
        for (int64_t d = j->down[c]; d < j->down[c + 1]; d++)
            for (int64_t e = j->start[j->row[d]]; e < j->start[j->row[d] + 1]; e++)
                if (of[j->column[e]] >= 0) taken[of[j->column[e]]] = (int32_t)c;
        int32_t g = 0;
        while (taken[g] == (int32_t)c) g++;
        of[c] = g;
        if (g >= *groups) *groups = g + 1;
    }
    gd__free(ctx, taken, bytes);
    return taken && of ? GD_OK : GD_NOMEM;
}
