/* Covariances of a fit on numbers, by the factor of its Jacobian at the end:
 *
 *     C = A^-1 or A^-1 B A^-1,   A = sum a_i J_i J_i^T,   B = sum b_i J_i J_i^T
 *
 * squares: C = A^-1, a = 1; HC3 (MacKinnon & White 1985): a = 1, b_i = (r_i / (1 - h_i))^2, h_i the leverage J_i^T A^-1 J_i; another loss:
 * a = psi', b = psi^2 at r / s, and the mean of psi' in place of psi' where A is not definite. */
#include "gradus/autograd.h"
#include "optim/solve/numbers/numbers.h"
#include "optim/solve/solve_robust.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FLAT     1e-8  /* singular values of the scaled Jacobian, by the largest, that count as zero */
#define FLAT_LDL 1e-13 /* the same of pivots of its square */
#define ALL      2000  /* parameters up to which the whole covariance is computed */

typedef struct spread {
    gd_numbers *p;
    double *a, *b;          /* [m] weights of A and B; NULL: ones, no B */
    double *column, *unit;  /* [n] */
    double *rows;           /* [m] */
    double *more;           /* [3 n] of conjugate gradients, if there is no factor */
    bool *flat;             /* [n] not determined */
    double *z, *z_diagonal; /* the inverse at the pattern of L */
    double factor;
    int64_t rank;
    char *says;
} spread;

/* ---- A ---- */

/* R with R^T R = A into the triangle; false where A is not definite. */
static bool root(gd_numbers *p, const double *weight)
{
    int64_t n = p->n, width = n + 1;
    double *t = p->a.triangle;
    memset(t, 0, (size_t)(n * width) * sizeof *t);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t c = 0; c < n; c++) {
            double x = p->fixed[c] ? 0 : weight[i] * p->j[i * n + c] / p->scale[c];
            for (int64_t k = c; k < n && x != 0; k++)
                t[c * width + k] += x * (p->fixed[k] ? 0 : p->j[i * n + k] / p->scale[k]);
        }
    for (int64_t c = 0; c < n; c++) {
        if (p->fixed[c]) t[c * width + c] = 1;
        for (int64_t k = 0; k < c; k++)
            for (int64_t e = c; e < n; e++) t[c * width + e] -= t[k * width + c] * t[k * width + e];
        if (!(t[c * width + c] > FLAT_LDL)) return false;
        double pivot = sqrt(t[c * width + c]);
        for (int64_t e = c; e < n; e++) t[c * width + e] /= pivot;
    }
    return true;
}

/* The factor of A; false where it is not definite. */
static gd_status factor(spread *s, bool *definite)
{
    gd_numbers *p = s->p;
    *definite = true;
    if (!p->a.sparse && s->a) {
        *definite = root(p, s->a);
        return GD_OK;
    }
    gd_status status = gd__damped_needs_factor(&p->a);
    if (!status && (!p->a.reduced || !p->a.factored))
        status = gd__damped_set(&p->a, p->j, p->scale, p->r, p->fixed);
    if (status || !p->a.factored) return status;
    gd__sparse_normal(&p->a.ldl, &p->a.j, p->j, p->scale, s->a, p->fixed);
    *definite = gd__sparse_factor(&p->a.ldl, 0, FLAT_LDL) == 0;
    return GD_OK;
}

static void times_a(spread *s, const double *x, double *out)
{
    gd_numbers *p = s->p;
    for (int64_t i = 0; i < p->n; i++) s->unit[i] = p->fixed[i] ? 0 : x[i] / p->scale[i];
    gd__damped_times(&p->a, p->j, s->unit, s->rows);
    for (int64_t i = 0; i < p->m && s->a; i++) s->rows[i] *= s->a[i];
    gd__damped_transposed(&p->a, p->j, s->rows, out);
    for (int64_t i = 0; i < p->n; i++) out[i] = p->fixed[i] ? 0 : out[i] / p->scale[i];
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* x = A^-1 x by conjugate gradients. */
static void solve_by_products(spread *s, double *x)
{
    int64_t n = s->p->n;
    double *r = s->more, *d = r + n, *ad = d + n;
    memcpy(r, x, (size_t)n * sizeof *r);
    memcpy(d, x, (size_t)n * sizeof *d);
    memset(x, 0, (size_t)n * sizeof *x);
    double size = dot(r, r, n), end = 1e-26 * size;
    for (int64_t k = 0; k < 20 * n + 100 && size > end; k++) {
        times_a(s, d, ad);
        double bent = dot(d, ad, n), was = size;
        if (!(bent > 0)) return;
        for (int64_t i = 0; i < n; i++) x[i] += was / bent * d[i], r[i] -= was / bent * ad[i];
        size = dot(r, r, n);
        for (int64_t i = 0; i < n; i++) d[i] = r[i] + size / was * d[i];
    }
}

static void solve_triangle(const gd_numbers *p, const double *t, double *x)
{
    int64_t n = p->n, width = n + 1;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < i; k++) x[i] -= t[k * width + i] * x[k];
        x[i] = p->fixed[i] || t[i * width + i] == 0 ? 0 : x[i] / t[i * width + i];
    }
    for (int64_t i = n; i-- > 0;) {
        for (int64_t k = i + 1; k < n; k++) x[i] -= t[i * width + k] * x[k];
        x[i] = p->fixed[i] || t[i * width + i] == 0 ? 0 : x[i] / t[i * width + i];
    }
}

/* x = A^-1 x, in parameters scaled by the columns. */
static void solve_scaled(spread *s, double *x)
{
    gd_numbers *p = s->p;
    for (int64_t i = 0; i < p->n; i++)
        if (p->fixed[i]) x[i] = 0;
    if (!p->a.sparse)
        solve_triangle(p, p->a.triangle, x);
    else if (p->a.factored)
        gd__sparse_solve(&p->a.ldl, x);
    else
        solve_by_products(s, x);
}

/* ---- determined parameters ---- */

/* Columns of R that are independent, by pivoted orthogonalisation; the matrix is overwritten. */
static int64_t count_rank(double *t, const bool *fixed, int64_t n, int64_t width)
{
    int64_t rank = 0;
    double first = 0;
    for (; rank < n; rank++) {
        double most = 0;
        int64_t best = -1;
        for (int64_t c = 0; c < n; c++) {
            double sum = 0;
            for (int64_t i = 0; i < n && !fixed[c]; i++) sum += t[i * width + c] * t[i * width + c];
            if (sum > most) most = sum, best = c;
        }
        first = fmax(first, most);
        if (best < 0 || !(sqrt(most) > FLAT * sqrt(first))) break;
        for (int64_t c = 0; c < n; c++) {
            double along = 0;
            for (int64_t i = 0; i < n; i++) along += t[i * width + c] * t[i * width + best];
            along /= most;
            for (int64_t i = 0; i < n && c != best; i++) t[i * width + c] -= along * t[i * width + best];
        }
        for (int64_t i = 0; i < n; i++) t[i * width + best] = 0;
    }
    return rank;
}

/* An element is not determined if its variance relative to that of orthogonal columns exceeds 1 / FLAT^2: A is damped so little that only flat
 * directions are affected. */
static void find_flat_dense(spread *s)
{
    gd_numbers *p = s->p;
    int64_t n = p->n, width = n + 1;
    double largest = 0, smallest = INFINITY;
    bool any = false;
    for (int64_t i = 0; i < n; i++) {
        if (p->fixed[i]) continue;
        largest = fmax(largest, fabs(p->a.triangle[i * width + i]));
        smallest = fmin(smallest, fabs(p->a.triangle[i * width + i]));
    }
    if (smallest > 1e-4 * largest) return; /* far from flat: R would have to grow by n^2 times that */
    (void)!gd__damped_solve(&p->a, 1e-24, s->column, NULL); /* QR does not fail */
    for (int64_t i = 0; i < n; i++) {
        memset(s->column, 0, (size_t)n * sizeof *s->column);
        s->column[i] = 1;
        if (p->fixed[i]) continue;
        solve_triangle(p, p->a.turned, s->column);
        any = (s->flat[i] = s->column[i] > 1 / (FLAT * FLAT)) || any;
    }
    if (!any) return;
    memcpy(p->a.turned, p->a.triangle, (size_t)(n * width) * sizeof *p->a.turned);
    s->rank = count_rank(p->a.turned, p->fixed, n, width);
}

static void find_flat_sparse(spread *s)
{
    gd_numbers *p = s->p;
    const gd_sparse_factor *l = &p->a.ldl;
    for (int32_t k = 0; k < l->n; k++) {
        if (!isinf(l->diagonal[k])) continue;
        gd__sparse_null(l, k, s->column);
        double largest = 0;
        for (int64_t i = 0; i < p->n; i++) largest = fmax(largest, fabs(s->column[i]));
        for (int64_t i = 0; i < p->n; i++) s->flat[i] = s->flat[i] || fabs(s->column[i]) > 1e-4 * largest;
        s->rank--;
    }
}

static void name_flat(spread *s)
{
    const gd_numbers *p = s->p;
    int named = 0, at = 0;
    int64_t all = 0;
    for (int64_t i = 0; i < p->n; i++) all += s->flat[i];
    at = snprintf(s->says, GD_LSQ_TEXT, "the residuals do not determine ");
    for (int64_t i = 0; i < p->n && named < 4 && at < GD_LSQ_TEXT - 80; i++) {
        if (!s->flat[i]) continue;
        const char *name = p->options->names ? p->options->names[i] : NULL;
        at += name ? snprintf(s->says + at, GD_LSQ_TEXT - (size_t)at, "%s%.40s", named ? ", " : "", name)
                   : snprintf(s->says + at, GD_LSQ_TEXT - (size_t)at, "%selement %lld", named ? ", " : "",
                              (long long)i);
        named++;
    }
    if (all > named)
        snprintf(s->says + at, GD_LSQ_TEXT - (size_t)at, " and %lld more", (long long)(all - named));
}

/* ---- weights ---- */

/* An element of A^-1 at rows of L, by the columns of J. */
static double inverse_at(const spread *s, int64_t a, int64_t b)
{
    const gd_sparse_factor *l = &s->p->a.ldl;
    int32_t i = l->place[a], k = l->place[b];
    if (i == k) return s->z_diagonal[i];
    if (i < k) {
        int32_t c = i;
        i = k, k = c;
    }
    int64_t low = l->start[k], high = l->start[k + 1];
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (l->row[middle] < i)
            low = middle + 1;
        else
            high = middle;
    }
    return low < l->start[k + 1] && l->row[low] == i ? s->z[low] : 0;
}

static double leverage(spread *s, int64_t row)
{
    const gd_numbers *p = s->p;
    double sum = 0;
    if (p->a.sparse) {
        const gd_csr *j = &p->a.j;
        for (int64_t e = j->start[row]; e < j->start[row + 1]; e++)
            for (int64_t d = j->start[row]; d < j->start[row + 1]; d++) {
                int64_t a = j->column[e], b = j->column[d];
                if (p->fixed[a] || p->fixed[b]) continue;
                sum += p->j[e] / p->scale[a] * p->j[d] / p->scale[b] * inverse_at(s, a, b);
            }
        return sum;
    }
    int64_t n = p->n, width = n + 1;
    for (int64_t i = 0; i < n; i++) {
        double x = p->fixed[i] ? 0 : p->j[row * n + i] / p->scale[i], pivot = p->a.triangle[i * width + i];
        for (int64_t k = 0; k < i; k++) x -= p->a.triangle[k * width + i] * s->unit[k];
        s->unit[i] = p->fixed[i] || pivot == 0 ? 0 : x / pivot;
        sum += s->unit[i] * s->unit[i];
    }
    return sum;
}

static gd_status weigh_hc3(spread *s)
{
    gd_numbers *p = s->p;
    if (p->a.sparse && !p->a.factored)
        return gd_fail(p->ctx, GD_NOT_IMPLEMENTED,
                       "least squares: hc3 needs the factor of J^T J, which is too large here");
    for (int64_t i = 0; i < p->m; i++) {
        double kept = 1 - leverage(s, i);
        s->b[i] = kept > 1e-10 ? p->r[i] / kept * (p->r[i] / kept) : 0;
    }
    s->factor = 1;
    return GD_OK;
}

/* psi' and psi^2; A falls back to the mean where it is not definite. */
static gd_status weigh_loss(spread *s, int64_t dof, bool *definite)
{
    gd_numbers *p = s->p;
    int64_t counted = p->m - p->options->weightless;
    double mean = -(double)p->options->weightless;
    for (int64_t i = 0; i < p->m; i++) {
        double z = p->r[i] / p->loss_scale;
        s->b[i] = pow(z * gd_lsq_loss_weight(p->loss, z), 2);
        mean += s->a[i] = gd__robust_bend(p->loss, z);
    }
    s->factor = p->loss_scale * p->loss_scale * (double)counted / (double)dof;
    gd_status status = factor(s, definite);
    if (status || (*definite && (p->a.factored || !p->a.sparse))) return status;
    for (int64_t i = 0; i < p->m; i++) s->a[i] = mean / (double)counted;
    return mean > 0 ? factor(s, definite) : GD_OK;
}

/* ---- results ---- */

/* Column i of the covariance into s->column. */
static void column(spread *s, int64_t i)
{
    gd_numbers *p = s->p;
    int64_t n = p->n;
    memset(s->column, 0, (size_t)n * sizeof *s->column);
    s->column[i] = 1;
    solve_scaled(s, s->column);
    if (s->b) {
        for (int64_t k = 0; k < n; k++) s->unit[k] = p->fixed[k] ? 0 : s->column[k] / p->scale[k];
        gd__damped_times(&p->a, p->j, s->unit, s->rows);
        for (int64_t k = 0; k < p->m; k++) s->rows[k] *= s->b[k];
        gd__damped_transposed(&p->a, p->j, s->rows, s->column);
        for (int64_t k = 0; k < n; k++) s->column[k] = p->fixed[k] ? 0 : s->column[k] / p->scale[k];
        solve_scaled(s, s->column);
    }
    for (int64_t k = 0; k < n; k++) {
        s->column[k] *= s->factor / (p->scale[i] * p->scale[k]);
        if (s->flat[i] || s->flat[k]) s->column[k] = p->fixed[i] || p->fixed[k] ? 0 : INFINITY;
    }
}

/* For the chosen elements, or all. */
static gd_status covariance(spread *s, gd_lsq_result *out)
{
    gd_numbers *p = s->p;
    const int64_t *chosen = p->options->chosen;
    int64_t count = chosen ? p->options->chosen_count : p->n, n = p->n;
    bool some = p->a.sparse && (s->b || !p->a.factored) &&
                n > ALL; /* only the errors computed from columns */
    size_t bytes = sizeof(double) * (size_t)count * (size_t)count, error_bytes = sizeof(double) * (size_t)n;
    bool whole = chosen || n <= ALL || !p->a.sparse;
    double *all = whole ? gd__alloc(p->ctx, bytes) : NULL, *errors = gd__alloc(p->ctx, error_bytes);
    if (errors && (all || !whole)) {
        for (int64_t i = 0; i < n; i++)
            errors[i] = s->z_diagonal && !s->b && !p->fixed[i]
                            ? sqrt(s->factor * s->z_diagonal[p->a.ldl.place[i]]) / p->scale[i]
                            : NAN;
        bool by_column = chosen && !s->z_diagonal && !some;
        for (int64_t i = 0; by_column && i < n; i++) {
            column(s, i);
            errors[i] = sqrt(s->column[i]);
        }
        for (int64_t i = 0; whole && i < count; i++) {
            int64_t c = chosen ? chosen[i] : i;
            column(s, c);
            for (int64_t k = 0; k < count; k++) all[i * count + k] = s->column[chosen ? chosen[k] : k];
            errors[c] = sqrt(s->column[c]);
        }
        for (int64_t i = 0; i < n; i++) errors[i] = p->fixed[i] ? NAN : s->flat[i] ? INFINITY : errors[i];
        if (whole) out->covariance = gd_from_f64(p->ctx, GD_F64, 2, (int64_t[]){count, count}, all);
        out->standard_errors = gd_from_f64(p->ctx, GD_F64, 1, &n, errors);
    }
    if (all) gd__free(p->ctx, all, bytes);
    if (errors) gd__free(p->ctx, errors, error_bytes);
    return out->standard_errors && (out->covariance || !whole) ? GD_OK : gd_error(p->ctx);
}

/* room: [n] of 64 bits each */
static gd_tensor *flags(const gd_numbers *p, void *room, const bool *flat)
{
    int32_t *flag = room;
    for (int64_t i = 0; i < p->n; i++) flag[i] = flat ? flat[i] : gd__numbers_active(p, i);
    return gd_from_data(p->ctx, GD_I32, 1, &p->n, flag);
}

static gd_status make_inverse(spread *s)
{
    gd_numbers *p = s->p;
    if (!p->a.factored) return GD_OK;
    s->z = gd__alloc(p->ctx, (size_t)p->a.ldl.entries * sizeof *s->z);
    s->z_diagonal = gd__alloc(p->ctx, (size_t)p->n * sizeof *s->z_diagonal);
    if ((p->a.ldl.entries && !s->z) || !s->z_diagonal) return GD_NOMEM;
    gd__sparse_inverse(&p->a.ldl, s->z, s->z_diagonal);
    return GD_OK;
}

/* True if the Schur complement of the last step shows that all parameters are determined. */
static gd_status is_regular(gd_numbers *p, bool *regular)
{
    if (!p->a.reduced) return GD_OK;
    gd_status status = gd__damped_set(&p->a, p->j, p->scale, p->r, p->fixed);
    *regular = !status && gd__schur_factor(&p->a.schur, 0, FLAT_LDL) == 0;
    return status;
}

static gd_status describe_fit(spread *s, gd_lsq_result *out)
{
    gd_numbers *p = s->p;
    bool robust = p->loss_scale > 0, hc3 = p->options->errors == GD_LSQ_HC3, definite = true, known = false;
    gd_status status = p->options->covariance ? GD_OK : is_regular(p, &known);
    if (!status && !known) status = factor(s, &definite);
    if (status) return status;
    s->rank = out->free;
    if (known)
        ; /* there is no L, and nothing undetermined */
    else if (!p->a.sparse)
        find_flat_dense(s);
    else if (p->a.factored)
        find_flat_sparse(s);
    out->rank = s->rank;
    if (s->rank < out->free && (gd_stop_converged(p->reason) || p->reason == GD_STOP_STUCK)) {
        p->reason = GD_STOP_UNDETERMINED;
        name_flat(s);
    }
    out->undetermined = flags(p, s->column, s->flat);
    out->active = flags(p, s->column, NULL);
    if (!out->undetermined || !out->active) return gd_error(p->ctx);
    if (!p->options->covariance) return GD_OK;
    double sigma = p->options->sigma > 0 ? p->options->sigma : out->sigma;
    s->factor = sigma * sigma;
    if (robust) {
        s->a = s->rows + p->m, s->b = s->a + p->m;
        status = weigh_loss(s, out->dof, &definite);
        for (int64_t i = 0; i < p->n && !definite; i++) s->flat[i] = !p->fixed[i];
    } else if (!status && (p->a.factored || hc3))
        status = make_inverse(s);
    if (!status && hc3 && !robust) {
        s->b = s->rows + p->m;
        status = weigh_hc3(s);
    }
    return status ? status : covariance(s, out);
}

gd_status gd__numbers_result(gd_numbers *p, gd_lsq_result *out)
{
    spread s = {.p = p, .says = out->says};
    size_t bytes = sizeof(double) * (size_t)(5 * p->n + 3 * p->m) + (size_t)p->n;
    if (!(s.column = gd__calloc(p->ctx, bytes))) return GD_NOMEM;
    s.unit = s.column + p->n;
    s.more = s.unit + p->n;
    s.rows = s.more + 3 * p->n;
    s.flat = (bool *)(s.rows + 3 * p->m);
    out->free = p->n;
    (void)snprintf(out->linear, sizeof out->linear, "%s", gd__damped_name(&p->a));
    memset(p->scale, 0, (size_t)p->n * sizeof *p->scale);
    for (int64_t e = 0; e < p->entries; e++) {
        int64_t c = p->a.sparse ? p->a.j.column[e] : e % p->n;
        p->scale[c] += p->j[e] * p->j[e];
    }
    for (int64_t i = 0; i < p->n; i++) {
        p->scale[i] = p->scale[i] > 0 ? sqrt(p->scale[i]) : 1;
        p->fixed[i] = gd__numbers_active(p, i) != 0;
        out->free -= p->fixed[i];
    }
    out->dof = p->m - p->options->weightless - out->free;
    if (!(p->loss_scale > 0)) out->sigma = out->dof > 0 ? sqrt(out->rss / (double)out->dof) : NAN;
    gd_status status = describe_fit(&s, out);
    if (s.z) gd__free(p->ctx, s.z, (size_t)p->a.ldl.entries * sizeof *s.z);
    if (s.z_diagonal) gd__free(p->ctx, s.z_diagonal, (size_t)p->n * sizeof *s.z_diagonal);
    gd__free(p->ctx, s.column, bytes);
    return status;
}
