/* Damped linear least squares: dense by QR; sparse by Schur's complement, a plugin or L D L^T of the normal equations with one refinement,
 * or by LSMR. */
#include "gradus/autograd.h"
#include "optim/solve/numbers/numbers.h"
#include "optim/vector/linear_model.h"

#include <math.h>
#include <string.h>

#define MOST_ENTRIES 12000000 /* of L */
#define MOST_WORK    4e9
#define PLUGIN_PAYS  1e6   /* multiplications of a factor beyond which that of a plugin is faster */
#define SMALL_WORK   2e6   /* m n^2 up to which the plain QR here is faster than that of tensors */
#define TINY         1e-13 /* pivots of a matrix with ones on its diagonal */
#define LEAST_SHIFT  1e-11 /* of a matrix that a plugin finds indefinite by rounding */
#define MOST_SHIFTS  8

static gd_status begin_factor(gd_damped *a)
{
    gd_status status = gd__sparse_begin(a->ctx, &a->j, MOST_ENTRIES, MOST_WORK, &a->ldl, &a->factored);
    if (!status && !a->factored) gd__sparse_end(&a->ldl);
    return status;
}

gd_status gd__damped_needs_factor(gd_damped *a)
{
    return a->reduced && !a->factored && !a->ldl.ctx ? begin_factor(a) : GD_OK;
}

const char *gd__damped_name(const gd_damped *a)
{
    if (!a->sparse) return "QR";
    if (a->reduced) return "Schur complement";
    return a->outside ? a->plugin.title : a->factored ? "LDL" : "LSMR";
}

static gd_status begin_sparse(gd_damped *a, const gd_lsq_problem *problem)
{
    a->j = (gd_csr){.m = a->m, .n = a->n, .start = problem->row_start, .column = problem->column};
    gd_status status = gd__csr_begin(a->ctx, &a->j);
    if (!status) status = gd__schur_begin(a->ctx, &a->j, &a->schur, &a->reduced);
    if (!status && !a->reduced) status = begin_factor(a);
    if (!status && !a->reduced && (!a->factored || (double)a->ldl.weight > PLUGIN_PAYS))
        status = gd__cholesky_begin(a->ctx, a->m, a->n, a->j.start, a->j.column, MOST_ENTRIES, MOST_WORK,
                                    &a->plugin, &a->outside);
    a->room_bytes = sizeof(double) *
                    (size_t)(a->factored || a->reduced || a->outside ? a->m + 2 * a->n : 2 * a->m + 6 * a->n);
    return status;
}

gd_status gd__damped_begin(gd_ctx *ctx, const gd_lsq_problem *problem, gd_damped *a)
{
    *a = (gd_damped){.ctx = ctx,
                     .m = problem->residuals,
                     .n = problem->params,
                     .sparse = problem->row_start != NULL,
                     .tol = 1e-10};
    a->entries = a->sparse ? problem->row_start[a->m] : a->m * a->n;
    gd_status status = GD_OK;
    if (a->sparse)
        status = begin_sparse(a, problem);
    else {
        a->room_bytes = sizeof(double) * (size_t)(a->m * (a->n + 1));
        a->triangle_bytes = sizeof(double) * (size_t)(2 * a->n * (a->n + 1));
        if (!(a->triangle = gd__alloc(ctx, a->triangle_bytes))) return GD_NOMEM;
        a->turned = a->triangle + a->n * (a->n + 1);
    }
    if (!status && !(a->room = gd__alloc(ctx, a->room_bytes))) status = GD_NOMEM;
    return status;
}

void gd__damped_end(gd_damped *a)
{
    if (!a->ctx) return;
    if (a->sparse) {
        gd__csr_end(a->ctx, &a->j);
        gd__sparse_end(&a->ldl);
        gd__schur_end(&a->schur);
        gd__cholesky_end(&a->plugin);
    }
    if (a->room) gd__free(a->ctx, a->room, a->room_bytes);
    if (a->triangle) gd__free(a->ctx, a->triangle, a->triangle_bytes);
    *a = (gd_damped){0};
}

void gd__damped_times(const gd_damped *a, const double *value, const double *v, double *out)
{
    if (a->sparse) {
        gd__csr_times(&a->j, value, v, out);
        return;
    }
    for (int64_t i = 0; i < a->m; i++) {
        double sum = 0;
        for (int64_t c = 0; c < a->n; c++) sum += value[i * a->n + c] * v[c];
        out[i] = sum;
    }
}

void gd__damped_transposed(const gd_damped *a, const double *value, const double *u, double *out)
{
    if (a->sparse) {
        gd__csr_transposed(&a->j, value, u, out);
        return;
    }
    memset(out, 0, (size_t)a->n * sizeof *out);
    for (int64_t i = 0; i < a->m; i++)
        for (int64_t c = 0; c < a->n; c++) out[c] += value[i * a->n + c] * u[i];
}

/* ---- QR ---- */

/* Householder's reflections on the columns of [A, -r], each of m elements; R with its right side to the triangle, row by row. */
static void reflect(gd_damped *a, int64_t k)
{
    int64_t m = a->m, n = a->n;
    double *v = a->room + k * m, below = gd__numbers_product(v, v, k + 1, m);
    if (below == 0) return;
    double length = sqrt(v[k] * v[k] + below), head = v[k] > 0 ? v[k] + length : v[k] - length;
    double diagonal = v[k] > 0 ? -length : length, norm2 = head * head + below;
    v[k] = head;
    for (int64_t c = k + 1; c <= n; c++) {
        double *w = a->room + c * m, dot = gd__numbers_product(v, w, k, m) * (2 / norm2);
        int64_t i = k;
        for (; i + 4 <= m; i += 4)
            *(gd_four *)(void *)(w + i) -= dot * *(const gd_four *)(const void *)(v + i);
        for (; i < m; i++) w[i] -= dot * v[i];
    }
    v[k] = diagonal;
}

static void fill_columns(gd_damped *a)
{
    for (int64_t c = 0; c < a->n; c++) {
        double factor = a->fixed && a->fixed[c] ? 0 : 1 / a->scale[c], *to = a->room + c * a->m;
        const double *from = a->value + c;
        if (factor == 0)
            memset(to, 0, (size_t)a->m * sizeof *to);
        else
            for (int64_t i = 0, n = a->n; i < a->m; i++, from += n) to[i] = *from * factor;
    }
    for (int64_t i = 0; i < a->m; i++) a->room[a->n * a->m + i] = -a->r[i];
}

/* By the kernels of tensors, which take several rows and threads at a time. */
static gd_status triangle_of_tensors(gd_damped *a, int64_t rows)
{
    gd_scope_begin(a->ctx);
    gd_no_grad_begin(a->ctx);
    int64_t shape[] = {a->n + 1, a->m};
    gd_tensor *all = gd_transpose(gd_from_f64(a->ctx, GD_F64, 2, shape, a->room), 0, 1);
    gd_tensor *matrix = gd_slice(all, "1", 0, a->n, 1), *side = gd_index(all, "1", a->n);
    gd_tensor *t = matrix && side ? gd__triangle(gd_contiguous(matrix), gd_contiguous(side)) : NULL;
    gd_status status = t ? gd_read_f64(t, a->triangle, rows * (a->n + 1)) : gd_error(a->ctx);
    gd_no_grad_end(a->ctx);
    gd_scope_end(a->ctx);
    return status;
}

/* R over a row with `weight` in column i alone, by Givens rotations; extra [n + 1] is used up. */
static void rotate(double *r, int64_t n, int64_t i, double weight, double *extra)
{
    int64_t width = n + 1;
    memset(extra, 0, (size_t)width * sizeof *extra);
    extra[i] = weight;
    for (int64_t k = i; k < n; k++) {
        if (extra[k] == 0) continue;
        double *row = r + k * width, length = sqrt(row[k] * row[k] + extra[k] * extra[k]);
        if (!(length > 1e-140 && length < 1e140))
            length = hypot(row[k], extra[k]); /* squares may underflow */
        if (length == 0) continue;
        double c = row[k] / length, s = extra[k] / length;
        for (int64_t p = k; p <= n; p++) {
            double top = row[p];
            row[p] = c * top + s * extra[p];
            extra[p] = c * extra[p] - s * top;
        }
    }
}

static gd_status decompose(gd_damped *a)
{
    int64_t m = a->m, n = a->n, rows = m < n ? m : n, width = n + 1;
    fill_columns(a);
    memset(a->triangle, 0, (size_t)(n * width) * sizeof *a->triangle);
    gd_status status = GD_OK;
    if ((double)m * (double)n * (double)n > SMALL_WORK)
        status = triangle_of_tensors(a, rows);
    else {
        for (int64_t k = 0; k < rows; k++) reflect(a, k);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = i; c <= n; c++) a->triangle[i * width + c] = a->room[c * m + i];
    }
    /* a fixed column, all zeros, is an equation s = 0: without it the row would be lost */
    for (int64_t c = 0; c < n && a->fixed && !status; c++)
        if (a->fixed[c]) rotate(a->triangle, n, c, 1, a->room);
    return status;
}

static int64_t solve_dense(gd_damped *a, double lambda, double *s)
{
    int64_t n = a->n, width = n + 1, lost = 0;
    memcpy(a->turned, a->triangle, (size_t)(n * width) * sizeof *a->turned);
    for (int64_t i = 0; i < n && lambda > 0; i++)
        rotate(a->turned, n, i, sqrt(lambda), a->room); /* its columns are overwritten */
    double largest = 0;
    for (int64_t k = 0; k < n; k++) largest = fmax(largest, fabs(a->turned[k * width + k]));
    for (int64_t k = n - 1; k >= 0; k--) {
        const double *row = a->turned + k * width;
        double sum = row[n];
        bool flat = !(fabs(row[k]) > 1e-15 * (double)n * largest);
        for (int64_t c = k + 1; c < n; c++) sum -= row[c] * s[c];
        s[k] = flat ? 0 : sum / row[k];
        lost += flat && !(a->fixed && a->fixed[k]);
    }
    return lost;
}

/* ---- sparse ---- */

/* The residual of the normal equations at s, -A^T (A s + r) - lambda s. */
static void remainder_of(gd_damped *a, double lambda, const double *s, double *ms, double *ns, double *out)
{
    for (int64_t i = 0; i < a->n; i++) ns[i] = s[i] / a->scale[i];
    gd__csr_times(&a->j, a->value, ns, ms);
    for (int64_t i = 0; i < a->m; i++) ms[i] = -(ms[i] + a->r[i]);
    gd__csr_transposed(&a->j, a->value, ms, out);
    for (int64_t i = 0; i < a->n; i++)
        out[i] = a->fixed && a->fixed[i] ? 0 : out[i] / a->scale[i] - lambda * s[i];
}

/* A plugin does not say which columns it cannot determine: they move little with a small shift.  *lost: more than were wanted. */
static gd_status factor_outside(gd_damped *a, double lambda, int64_t *lost)
{
    bool definite = false;
    gd_status status = GD_OK;
    double shift = lambda;
    for (*lost = 0; !status && !definite && *lost < MOST_SHIFTS; *lost += !definite) {
        status = a->plugin.factor(a->plugin.state, a->value, a->scale, a->fixed, shift, &definite);
        shift = fmax(100 * shift, LEAST_SHIFT);
    }
    if (status || definite) return status;
    return gd_fail(a->ctx, GD_VALUE,
                   "sparse least squares: %s cannot factor a matrix that is positive definite",
                   a->plugin.title);
}

static gd_status factor_sparse(gd_damped *a, double lambda, int64_t *lost)
{
    if (a->outside) return factor_outside(a, lambda, lost);
    *lost = a->reduced ? gd__schur_factor(&a->schur, lambda, TINY) : gd__sparse_factor(&a->ldl, lambda, TINY);
    return GD_OK;
}

static gd_status solve_factored(gd_damped *a, double lambda, double *s, int64_t *lost)
{
    double *ms = a->room, *ns = ms + a->m, *left = ns + a->n;
    gd_status status = factor_sparse(a, lambda, lost);
    memset(s, 0, (size_t)a->n * sizeof *s);
    for (int turns = 0; turns < 2 && !status; turns++) {
        remainder_of(a, lambda, s, ms, ns, left);
        if (a->outside)
            status = a->plugin.solve(a->plugin.state, left);
        else if (a->reduced)
            gd__schur_solve(&a->schur, left);
        else
            gd__sparse_solve(&a->ldl, left);
        for (int64_t i = 0; i < a->n && !status; i++) s[i] += left[i];
    }
    return status;
}

gd_status gd__damped_set(gd_damped *a, const double *value, const double *scale, const double *r,
                         const bool *fixed)
{
    a->value = value, a->scale = scale, a->r = r, a->fixed = fixed;
    if (!a->sparse) return decompose(a);
    if (a->reduced) return gd__schur_normal(&a->schur, &a->j, value, scale, fixed);
    if (a->factored && !a->outside) gd__sparse_normal(&a->ldl, &a->j, value, scale, NULL, fixed);
    return GD_OK;
}

gd_status gd__damped_solve(gd_damped *a, double lambda, double *s, int64_t *lost)
{
    int64_t unwanted, *to = lost ? lost : &unwanted;
    if (a->sparse && (a->reduced || a->outside || a->factored)) return solve_factored(a, lambda, s, to);
    *to = a->sparse ? 0 : solve_dense(a, lambda, s);
    if (a->sparse)
        gd__lsmr(&a->j, a->value, a->scale, a->fixed, a->r, sqrt(lambda), a->tol, 20 * a->n + 100, a->room,
                 s);
    return GD_OK;
}
