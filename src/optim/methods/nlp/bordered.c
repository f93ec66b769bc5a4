/* Properties of W and J from one factorisation of [W + t I, J'; J, -d I].
 *
 * Its inertia is (n, m, 0) where W + t I + J'J / d is positive definite, which for a small d is where W + t I is on the null space of
 * J, whatever the rank of J: no basis of the null space is needed. */
#include "optim/methods/nlp/interior_point.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define BISECTIONS 40
#define POWERS     4
#define TINY       1e-12 /* of d, by the size of J'J relative to W */

int64_t gd__bordered_room(int64_t n, int64_t m) { return (n + m) * (n + m) + 4 * (n + m); }

static gd_ldl over(double *room, int64_t order)
{
    double *rest = room + order * order; /* pivots, a vector of the caller, the work */
    return (gd_ldl){.n = order, .a = room, .pivot = (int64_t *)(void *)rest, .work = rest + 2 * order};
}

static double largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) most = fmax(most, fabs(x[i]));
    return most;
}

typedef struct bordered {
    int64_t n, m;
    const double *w, *j; /* w NULL: the identity */
    const bool *held;
    double d;
} bordered;

static bool is_held(const bordered *q, int64_t i) { return q->held && q->held[i]; }

/* Held elements have a row of the identity. */
static void factor(const bordered *q, double t, gd_ldl *f)
{
    int64_t n = q->n, order = n + q->m;
    memset(f->a, 0, (size_t)(order * order) * sizeof *f->a);
    for (int64_t c = 0; c < n; c++) {
        double *column = f->a + c * order;
        column[c] = 1;
        if (is_held(q, c)) continue;
        for (int64_t i = c; i < n && q->w; i++) column[i] = is_held(q, i) ? 0 : q->w[c * n + i];
        column[c] += q->w ? t : 0;
        for (int64_t i = 0; i < q->m; i++) column[n + i] = q->j[i * n + c];
    }
    for (int64_t i = 0; i < q->m; i++) f->a[(n + i) * order + n + i] = -q->d;
    gd__ldl_factor(f);
}

static bool is_convex(const bordered *q, double t, gd_ldl *f)
{
    factor(q, t, f);
    return f->positive == q->n && f->negative == q->m;
}

/* Inverse iteration where the matrix is nearly singular. */
static bool follow(const bordered *q, const gd_ldl *f, double *d, double *b)
{
    for (int64_t i = 0; i < q->n; i++)
        d[i] = is_held(q, i) ? 0 : (i % 2 ? -1 : 1) / (1 + 0.1 * (double)(i % 7));
    for (int k = 0; k < POWERS; k++) {
        memset(b, 0, (size_t)(q->n + q->m) * sizeof *b);
        memcpy(b, d, (size_t)q->n * sizeof *b);
        gd__ldl_solve(f, b);
        double length = 0;
        for (int64_t i = 0; i < q->n; i++) length = hypot(length, b[i]);
        if (!isfinite(length) || !(length > 0)) return false;
        for (int64_t i = 0; i < q->n; i++) d[i] = b[i] / length;
    }
    return true;
}

bool gd__falling_direction(int64_t n, int64_t m, const double *w, const double *j, const bool *held,
                           double tol, double *d, double *room)
{
    double size = fmax(1, largest(w, n * n)), slope = largest(j, n * m);
    bordered q = {
        .n = n, .m = m, .w = w, .j = j, .held = held, .d = TINY * fmax(slope * slope, DBL_MIN) / size};
    gd_ldl f = over(room, n + m);
    double low = tol * size, high = size * (double)(n + 1);
    if (!n || is_convex(&q, low, &f)) return false;
    for (int k = 0; k < BISECTIONS && high > 1.05 * low; k++) {
        double middle = sqrt(low * high);
        if (is_convex(&q, middle, &f))
            high = middle;
        else
            low = middle;
    }
    return is_convex(&q, high, &f) && follow(&q, &f, d, room + (n + m) * (n + m) + n + m);
}

void gd__least_norm(int64_t n, int64_t m, const double *j, const double *r, double *y, double *room)
{
    double slope = largest(j, n * m);
    bordered q = {.n = n, .m = m, .j = j, .d = 1e-10 * slope * slope};
    gd_ldl f = over(room, n + m);
    double *b = room + (n + m) * (n + m) + n + m;
    memset(y, 0, (size_t)m * sizeof *y);
    if (!(slope > 0)) return;
    factor(&q, 0, &f);
    /* the second solve removes the error of the small d (a proximal step) */
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n; i++) {
            b[i] = -r[i];
            for (int64_t c = 0; c < m; c++) b[i] -= j[c * n + i] * y[c];
        }
        memset(b + n, 0, (size_t)m * sizeof *b);
        gd__ldl_solve(&f, b);
        for (int64_t i = 0; i < m; i++) y[i] += b[n + i];
    }
}
