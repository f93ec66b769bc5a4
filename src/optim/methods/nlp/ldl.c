/* Symmetric indefinite factorisation with partial pivoting (Bunch & Kaufman 1977; Golub & Van Loan 4.4.4).
 *
 * A pivot is one element or a block of two whose determinant is negative, so every block counts as one positive and one
 * negative eigenvalue (Sylvester).  The interior point asks for these signs after every factorisation: they tell whether a step
 * is one of descent.  Plain loops over columns, which the compiler turns into vectors; one thread, so the bits are always the same. */
#include "optim/methods/nlp/ldl.h"

#include <math.h>

#define ALPHA 0.6403882032022076 /* (1 + sqrt(17)) / 8 bounds the growth of elements */

static double *column(const gd_ldl *f, int64_t j) { return f->a + j * f->n; }

/* The row of the largest element below the diagonal of column k. */
static int64_t largest_below(const gd_ldl *f, int64_t k)
{
    const double *c = column(f, k);
    int64_t at = k + 1;
    for (int64_t i = k + 2; i < f->n; i++)
        if (fabs(c[i]) > fabs(c[at])) at = i;
    return at;
}

/* The largest off-diagonal element of row and column r, from column k on. */
static double largest_in_row(const gd_ldl *f, int64_t k, int64_t r)
{
    double most = 0;
    for (int64_t j = k; j < r; j++) most = fmax(most, fabs(column(f, j)[r]));
    for (int64_t i = r + 1; i < f->n; i++) most = fmax(most, fabs(column(f, r)[i]));
    return most;
}

static void exchange(double *a, double *b)
{
    double t = *a;
    *a = *b;
    *b = t;
}

/* Rows and columns p < q of what is left from column k on change places. */
static void swap_symmetric(gd_ldl *f, int64_t k, int64_t p, int64_t q)
{
    double *cp = column(f, p), *cq = column(f, q);
    for (int64_t i = q + 1; i < f->n; i++) exchange(&cp[i], &cq[i]);
    for (int64_t i = p + 1; i < q; i++) exchange(&cp[i], &column(f, i)[q]);
    exchange(&cp[p], &cq[q]);
    if (p > k) exchange(&column(f, k)[p], &column(f, k)[q]); /* the first column of a block of two */
}

static void eliminate_one(gd_ldl *f, int64_t k)
{
    double *l = column(f, k), d = l[k];
    for (int64_t j = k + 1; j < f->n; j++) {
        double *c = column(f, j), t = l[j] / d;
        if (t != 0)
            for (int64_t i = j; i < f->n; i++) c[i] -= t * l[i];
        l[j] = t;
    }
}

static void eliminate_two(gd_ldl *f, int64_t k)
{
    double *l0 = column(f, k), *l1 = column(f, k + 1), b = l0[k + 1];
    double d0 = l0[k] / b, d1 = l1[k + 1] / b, scale = 1 / (d0 * d1 - 1);
    for (int64_t j = k + 2; j < f->n; j++) {
        double *c = column(f, j);
        double t0 = scale * (d1 * l0[j] - l1[j]) / b, t1 = scale * (d0 * l1[j] - l0[j]) / b;
        for (int64_t i = j; i < f->n; i++) c[i] -= t0 * l0[i] + t1 * l1[i];
        l0[j] = t0;
        l1[j] = t1;
    }
}

/* How many columns the pivot at k has, 0: the column is zero; *with: the row that takes part. */
static int choose_pivot(const gd_ldl *f, int64_t k, int64_t *with)
{
    double here = fabs(column(f, k)[k]), below = 0;
    *with = k;
    int64_t r = k;
    if (k + 1 < f->n) below = fabs(column(f, k)[r = largest_below(f, k)]);
    if (!(fmax(here, below) > 0)) return 0;
    if (here >= ALPHA * below) return 1;
    double row = largest_in_row(f, k, r);
    if (here >= ALPHA * below * (below / row)) return 1;
    *with = r;
    return fabs(column(f, r)[r]) >= ALPHA * row ? 1 : 2;
}

void gd__ldl_factor(gd_ldl *f)
{
    f->positive = f->negative = f->zero = 0;
    for (int64_t k = 0; k < f->n;) {
        int64_t with, at;
        int size = choose_pivot(f, k, &with);
        at = k + (size == 2);
        if (with != at && size) swap_symmetric(f, k, at, with);
        f->pivot[k] = size == 2 ? -1 - with : with;
        if (size == 2) {
            f->pivot[k + 1] = f->pivot[k];
            f->positive++;
            f->negative++;
            eliminate_two(f, k);
        } else if (size == 1) {
            if (column(f, k)[k] > 0)
                f->positive++;
            else
                f->negative++;
            eliminate_one(f, k);
        } else
            f->zero++;
        k += size == 2 ? 2 : 1;
    }
}

/* The inverse of the block at k times its elements of b. */
static void divide_two(const gd_ldl *f, int64_t k, double *b)
{
    double off = column(f, k)[k + 1], d0 = column(f, k)[k] / off, d1 = column(f, k + 1)[k + 1] / off;
    double det = d0 * d1 - 1, b0 = b[k] / off, b1 = b[k + 1] / off;
    b[k] = (d1 * b0 - b1) / det;
    b[k + 1] = (d0 * b1 - b0) / det;
}

static void forward(const gd_ldl *f, double *b)
{
    for (int64_t k = 0; k < f->n;) {
        int size = f->pivot[k] < 0 ? 2 : 1;
        int64_t with = size == 2 ? -1 - f->pivot[k] : f->pivot[k];
        exchange(&b[k + size - 1], &b[with]);
        for (int64_t c = k; c < k + size; c++)
            for (int64_t i = k + size; i < f->n; i++) b[i] -= column(f, c)[i] * b[c];
        if (size == 2)
            divide_two(f, k, b);
        else
            b[k] /= column(f, k)[k];
        k += size;
    }
}

void gd__ldl_solve(const gd_ldl *f, double *b)
{
    forward(f, b);
    for (int64_t k = f->n - 1; k >= 0;) {
        int size = f->pivot[k] < 0 ? 2 : 1;
        int64_t first = k - size + 1, with = size == 2 ? -1 - f->pivot[k] : f->pivot[k];
        for (int64_t c = first; c <= k; c++)
            for (int64_t i = k + 1; i < f->n; i++) b[c] -= column(f, c)[i] * b[i];
        exchange(&b[k], &b[with]);
        k = first - 1;
    }
}
