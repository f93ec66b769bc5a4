/* L D L^T of a sparse matrix, row by row of L: each is a triangular solve with the rows above it (Davis, "Direct Methods for Sparse
 * Linear Systems", 2006, chapter 4).  The pattern is found once, for all values and shifts. */
#include "optim/solve/numbers/sparse.h"

#include <math.h>
#include <string.h>

#define NONE (-1)

static bool make(gd_ctx *ctx, gd_sparse_factor *l)
{
    size_t n = (size_t)l->n;
    return (l->order = gd__calloc(ctx, n * sizeof *l->order)) &&
           (l->place = gd__calloc(ctx, n * sizeof *l->place)) &&
           (l->parent = gd__calloc(ctx, n * sizeof *l->parent)) &&
           (l->start = gd__calloc(ctx, (n + 1) * sizeof *l->start)) &&
           (l->diagonal = gd__calloc(ctx, n * sizeof *l->diagonal)) &&
           (l->above = gd__calloc(ctx, (n + 1) * sizeof *l->above)) &&
           (l->work = gd__calloc(ctx, n * sizeof *l->work)) &&
           (l->stack = gd__calloc(ctx, n * sizeof *l->stack)) &&
           (l->flag = gd__calloc(ctx, n * sizeof *l->flag)) &&
           (l->filled = gd__calloc(ctx, n * sizeof *l->filled));
}

void gd__sparse_end(gd_sparse_factor *l)
{
    gd_ctx *ctx = l->ctx;
    size_t n = (size_t)l->n, kept = l->above ? (size_t)l->above[n] : 0;
    if (!ctx) return;
    gd__free(ctx, l->row, (size_t)l->entries * sizeof *l->row);
    gd__free(ctx, l->value, (size_t)l->entries * sizeof *l->value);
    gd__free(ctx, l->above_row, kept * sizeof *l->above_row);
    gd__free(ctx, l->element, kept * sizeof *l->element);
    gd__free(ctx, l->order, n * sizeof *l->order);
    gd__free(ctx, l->place, n * sizeof *l->place);
    gd__free(ctx, l->parent, n * sizeof *l->parent);
    gd__free(ctx, l->start, (n + 1) * sizeof *l->start);
    gd__free(ctx, l->diagonal, n * sizeof *l->diagonal);
    gd__free(ctx, l->above, (n + 1) * sizeof *l->above);
    gd__free(ctx, l->work, n * sizeof *l->work);
    gd__free(ctx, l->stack, n * sizeof *l->stack);
    gd__free(ctx, l->flag, n * sizeof *l->flag);
    gd__free(ctx, l->filled, n * sizeof *l->filled);
    *l = (gd_sparse_factor){0};
}

/* ---- the pattern ---- */

/* The columns in which row k of J^T J has elements above its diagonal, in L's order, into out (NULL: counted only). */
static int64_t column_above(gd_sparse_factor *l, const gd_csr *j, int32_t k, int32_t *out)
{
    int64_t count = 0, c = l->order[k];
    l->flag[k] = k;
    for (int64_t d = j->down[c]; d < j->down[c + 1]; d++)
        for (int64_t e = j->start[j->row[d]]; e < j->start[j->row[d] + 1]; e++) {
            int32_t i = l->place[j->column[e]];
            if (i >= k || l->flag[i] == k) continue;
            l->flag[i] = k;
            if (out) out[count] = i;
            count++;
        }
    if (out) out[count] = k;
    return count + 1;
}

static void forget_flags(gd_sparse_factor *l)
{
    for (int32_t k = 0; k < l->n; k++) l->flag[k] = NONE;
}

static gd_status pattern_above(gd_sparse_factor *l, const gd_csr *j)
{
    forget_flags(l);
    for (int32_t k = 0; k < l->n; k++) l->above[k + 1] = l->above[k] + column_above(l, j, k, NULL);
    size_t kept = (size_t)l->above[l->n];
    l->above_row = gd__alloc(l->ctx, kept * sizeof *l->above_row);
    l->element = gd__alloc(l->ctx, kept * sizeof *l->element);
    if (!l->above_row || !l->element) return GD_NOMEM;
    forget_flags(l);
    for (int32_t k = 0; k < l->n; k++) column_above(l, j, k, l->above_row + l->above[k]);
    return GD_OK;
}

/* The elimination tree, and how many elements each column of L has: column i has one in row k where k is reached from an element
 * (i', k) by way of i. */
static void count_columns(gd_sparse_factor *l)
{
    forget_flags(l);
    memset(l->filled, 0, (size_t)l->n * sizeof *l->filled);
    for (int32_t k = 0; k < l->n; k++) {
        l->parent[k] = NONE;
        l->flag[k] = k;
        for (int64_t e = l->above[k]; e < l->above[k + 1] - 1; e++)
            for (int32_t i = l->above_row[e]; l->flag[i] != k; i = l->parent[i]) {
                if (l->parent[i] == NONE) l->parent[i] = k;
                l->filled[i]++;
                l->flag[i] = k;
            }
    }
    l->weight = 0;
    for (int32_t k = 0; k < l->n; k++) {
        l->start[k + 1] = l->start[k] + l->filled[k];
        l->weight += l->filled[k] * l->filled[k];
    }
}

gd_status gd__sparse_begin(gd_ctx *ctx, const gd_csr *j, int64_t most, double work, gd_sparse_factor *out,
                           bool *fits)
{
    *out = (gd_sparse_factor){.ctx = ctx, .n = (int32_t)j->n};
    *fits = false;
    if (!make(ctx, out)) return GD_NOMEM;
    gd_status status = gd__min_degree(ctx, j, most, out->order, fits);
    if (status || !*fits) return status;
    for (int32_t k = 0; k < out->n; k++) out->place[out->order[k]] = k;
    if ((status = pattern_above(out, j))) return status;
    count_columns(out);
    *fits = out->start[out->n] <= most && (double)out->weight <= work;
    if (!*fits) return GD_OK;
    out->entries = out->start[out->n];
    out->row = gd__alloc(ctx, (size_t)out->entries * sizeof *out->row);
    out->value = gd__alloc(ctx, (size_t)out->entries * sizeof *out->value);
    return !out->entries || (out->row && out->value) ? GD_OK : GD_NOMEM;
}

/* ---- values ---- */

void gd__sparse_normal(gd_sparse_factor *l, const gd_csr *j, const double *value, const double *scale,
                       const double *weight, const bool *fixed)
{
    for (int32_t k = 0; k < l->n; k++) {
        int64_t c = l->order[k], first = l->above[k], last = l->above[k + 1] - 1;
        bool none = fixed && fixed[c];
        for (int64_t d = j->down[c]; d < j->down[c + 1] && !none; d++) {
            int64_t i = j->row[d];
            double a = value[j->at[d]] / scale[c] * (weight ? weight[i] : 1);
            if (a != 0)
                for (int64_t e = j->start[i]; e < j->start[i + 1]; e++) {
                    int32_t to = l->place[j->column[e]];
                    if (to <= k) l->work[to] += a * value[e];
                }
        }
        for (int64_t e = first; e <= last; e++) {
            int32_t i = l->above_row[e];
            int64_t other = l->order[i];
            l->element[e] = fixed && fixed[other] ? 0 : l->work[i] / scale[other];
            l->work[i] = 0;
        }
        if (none) l->element[last] = 1;
    }
}

/* The columns of L that row k has elements in, in an order for a solve: descendants first. Returns their start in l->stack. */
static int32_t reach(gd_sparse_factor *l, int32_t k)
{
    int32_t top = l->n;
    l->flag[k] = k;
    for (int64_t e = l->above[k]; e < l->above[k + 1] - 1; e++) {
        int32_t depth = 0;
        for (int32_t i = l->above_row[e]; l->flag[i] != k; i = l->parent[i]) {
            l->stack[depth++] = i;
            l->flag[i] = k;
        }
        while (depth > 0) l->stack[--top] = l->stack[--depth];
    }
    return top;
}

int64_t gd__sparse_factor(gd_sparse_factor *l, double shift, double tiny)
{
    int64_t lost = 0;
    forget_flags(l);
    memset(l->filled, 0, (size_t)l->n * sizeof *l->filled);
    for (int32_t k = 0; k < l->n; k++) {
        int32_t top = reach(l, k);
        int64_t last = l->above[k + 1] - 1;
        for (int64_t e = l->above[k]; e < last; e++) l->work[l->above_row[e]] = l->element[e];
        double pivot = l->element[last] + shift;
        for (; top < l->n; top++) {
            int32_t i = l->stack[top];
            double x = l->work[i];
            int64_t end = l->start[i] + l->filled[i]++;
            l->work[i] = 0;
            for (int64_t e = l->start[i]; e < end; e++) l->work[l->row[e]] -= l->value[e] * x;
            double factor = x / l->diagonal[i];
            pivot -= factor * x;
            l->row[end] = k;
            l->value[end] = factor;
        }
        bool good = pivot > tiny;
        lost += !good;
        l->diagonal[k] = good ? pivot : INFINITY;
        /* a pivot that is left out does not affect later rows: x / INFINITY is 0, and its column must not change others */
    }
    return lost;
}

void gd__sparse_solve(const gd_sparse_factor *l, double *x)
{
    double *w = l->work;
    for (int32_t k = 0; k < l->n; k++) w[k] = x[l->order[k]];
    for (int32_t k = 0; k < l->n; k++)
        for (int64_t e = l->start[k]; e < l->start[k + 1]; e++) w[l->row[e]] -= l->value[e] * w[k];
    for (int32_t k = l->n - 1; k >= 0; k--) {
        double sum = w[k] / l->diagonal[k];
        for (int64_t e = l->start[k]; e < l->start[k + 1]; e++) sum -= l->value[e] * w[l->row[e]];
        w[k] = sum;
    }
    for (int32_t k = 0; k < l->n; k++) {
        x[l->order[k]] = w[k];
        w[k] = 0;
    }
}

void gd__sparse_null(const gd_sparse_factor *l, int32_t k, double *out)
{
    double *w = l->work;
    memset(out, 0, (size_t)l->n * sizeof *out);
    w[k] = 1;
    for (int32_t i = k - 1; i >= 0; i--) {
        double sum = 0;
        for (int64_t e = l->start[i]; e < l->start[i + 1]; e++) sum -= l->value[e] * w[l->row[e]];
        w[i] = sum;
    }
    for (int32_t i = 0; i <= k; i++) {
        out[l->order[i]] = w[i];
        w[i] = 0;
    }
}

void gd__sparse_inverse(gd_sparse_factor *l, double *z, double *z_diagonal)
{
    double *w = l->work;
    int32_t *at = l->flag; /* place of a row in column k, NONE elsewhere */
    forget_flags(l);
    for (int32_t k = l->n - 1; k >= 0; k--) {
        int64_t first = l->start[k], count = l->start[k + 1] - first;
        const int32_t *row = l->row + first;
        const double *value = l->value + first;
        for (int64_t i = 0; i < count; i++) at[row[i]] = (int32_t)i, l->filled[i] = 0, w[i] = 0;
        /* w = Z value over the rows of column k: every pair of them is an element of L */
        for (int64_t i = 0; i < count; i++) {
            int32_t c = row[i];
            w[i] += z_diagonal[c] * value[i];
            for (int64_t e = l->start[c]; e < l->start[c + 1]; e++) {
                int32_t other = at[l->row[e]];
                if (other == NONE) continue;
                w[other] += z[e] * value[i];
                w[i] += z[e] * value[other];
            }
        }
        double sum = 1 / l->diagonal[k];
        for (int64_t i = 0; i < count; i++) {
            z[first + i] = -w[i];
            sum += value[i] * w[i];
            at[row[i]] = NONE;
            w[i] = 0;
        }
        z_diagonal[k] = sum;
    }
}
