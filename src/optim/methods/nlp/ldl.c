/* Symmetric indefinite factorisation with partial pivoting (Bunch & Kaufman 1977; Golub & Van Loan 4.4.4).
 *
 * A pivot is one element or a block of two whose determinant is negative, so every block counts as one positive and one
 * negative eigenvalue (Sylvester).  The interior point needs these signs after every factorisation: they show whether a step is a
 * descent direction.  Plain loops over columns, which the compiler turns into vectors; one thread, so the bits are always the same. */
#include "optim/methods/nlp/ldl.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

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

/* Swaps rows and columns p < q of the remaining matrix from column k on. */
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

/* How many columns the pivot at k has, 0: the column is zero; *with: the second row of the pivot. */
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

/* ---- in blocks ---- */

/* Large matrices do not fit in a cache: the columns of a panel are brought up to date one by one, all others at the end of the panel
 * (as in LAPACK's dlasyf).  D L' of the panel is kept in the upper triangle. */
#define LARGE 192
#define PANEL 32
#define ROWS  256 /* of the panel at a time: they stay in the cache */

typedef double two __attribute__((vector_size(16)));

/* Column j of the remaining matrix from row k on, updated by columns p..k-1, into w. */
static void update_column(const gd_ldl *f, int64_t p, int64_t k, int64_t j, double *w)
{
    for (int64_t i = k; i < j; i++) w[i] = column(f, i)[j];
    memcpy(w + j, column(f, j) + j, (size_t)(f->n - j) * sizeof *w);
    for (int64_t c = p; c < k; c++) {
        const double *l = column(f, c);
        double t = column(f, j)[c];
        if (t != 0)
            for (int64_t i = k; i < f->n; i++) w[i] -= t * l[i];
    }
}

/* Swaps rows of the panel before column k, or swaps them back. */
static void swap_rows(gd_ldl *f, int64_t p, int64_t k, int64_t at, int64_t with)
{
    for (int64_t c = p; c < k; c++) exchange(&column(f, c)[at], &column(f, c)[with]);
}

/* choose_pivot, of columns that are up to date: w has k, and *with if it was looked at. */
static int choose_in_panel(const gd_ldl *f, int64_t p, int64_t k, double *w, double *other, int64_t *with)
{
    int64_t r = k;
    double here = fabs(w[k]), below = 0, row = 0;
    *with = k;
    for (int64_t i = k + 1; i < f->n; i++)
        if (fabs(w[i]) > below) below = fabs(w[r = i]);
    if (!(fmax(here, below) > 0)) return 0;
    if (here >= ALPHA * below) return 1;
    update_column(f, p, k, r, other);
    for (int64_t i = k; i < f->n; i++)
        if (i != r) row = fmax(row, fabs(other[i]));
    if (here >= ALPHA * below * (below / row)) return 1;
    *with = r;
    return fabs(other[r]) >= ALPHA * row ? 1 : 2;
}

static void finish_one(gd_ldl *f, int64_t k, const double *w)
{
    double *l = column(f, k), d = w[k];
    l[k] = d;
    for (int64_t i = k + 1; i < f->n; i++) {
        l[i] = d != 0 ? w[i] / d : 0;
        column(f, i)[k] = w[i];
    }
    f->positive += d > 0;
    f->negative += d < 0;
}

static void finish_two(gd_ldl *f, int64_t k, const double *w0, const double *w1)
{
    double *l0 = column(f, k), *l1 = column(f, k + 1), b = w0[k + 1];
    double d0 = w0[k] / b, d1 = w1[k + 1] / b, scale = 1 / (d0 * d1 - 1);
    l0[k] = w0[k], l0[k + 1] = b, l1[k + 1] = w1[k + 1];
    for (int64_t i = k + 2; i < f->n; i++) {
        l0[i] = scale * (d1 * w0[i] - w1[i]) / b;
        l1[i] = scale * (d0 * w1[i] - w0[i]) / b;
        column(f, i)[k] = w0[i];
        column(f, i)[k + 1] = w1[i];
    }
    f->positive++;
    f->negative++;
}

/* The pivot at k of the panel that begins at p; how many columns it has. */
static int panel_pivot(gd_ldl *f, int64_t p, int64_t k)
{
    double *w = f->work, *other = f->work + f->n;
    int64_t with;
    update_column(f, p, k, k, w);
    int size = choose_in_panel(f, p, k, w, other, &with);
    int64_t at = k + (size == 2);
    if (with != at && size) {
        swap_symmetric(f, k, at, with);
        swap_rows(f, p, k, at, with);
        for (int64_t c = p; c < k; c++) exchange(&column(f, at)[c], &column(f, with)[c]);
        exchange(&w[at], &w[with]);
        exchange(&other[at], &other[with]);
    }
    f->pivot[k] = size == 2 ? -1 - with : with;
    if (size == 2) {
        f->pivot[k + 1] = f->pivot[k];
        finish_two(f, k, w, other);
        return 2;
    }
    finish_one(f, k, with == k ? w : other);
    f->zero += size == 0;
    return 1;
}

/* One remaining element minus its product of the panel p..e-1. */
static double less_panel(const gd_ldl *f, int64_t p, int64_t e, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t c = p; c < e; c++) sum += column(f, c)[i] * column(f, j)[c];
    return column(f, j)[i] - sum;
}

/* Rows i..i+3 of columns j..j+3. */
static void update_tile(gd_ldl *f, int64_t p, int64_t e, int64_t i, int64_t j)
{
    two sum[4][2] = {{{0}}};
    for (int64_t c = p; c < e; c++) {
        two l0, l1;
        memcpy(&l0, column(f, c) + i, sizeof l0);
        memcpy(&l1, column(f, c) + i + 2, sizeof l1);
        for (int q = 0; q < 4; q++) {
            double t = column(f, j + q)[c];
            sum[q][0] += l0 * (two){t, t};
            sum[q][1] += l1 * (two){t, t};
        }
    }
    for (int q = 0; q < 4; q++)
        for (int h = 0; h < 2; h++) {
            two x;
            memcpy(&x, column(f, j + q) + i + 2 * h, sizeof x);
            x -= sum[q][h];
            memcpy(column(f, j + q) + i + 2 * h, &x, sizeof x);
        }
}

static bool reads_panel(const gd_ldl *f, int64_t p, int64_t e, int64_t j, int64_t count)
{
    for (int64_t q = j; q < j + count; q++)
        for (int64_t c = p; c < e; c++)
            if (column(f, q)[c] != 0) return true;
    return false;
}

/* Rows from..to-1 of up to four columns from j on. */
static void update_columns(gd_ldl *f, int64_t p, int64_t e, int64_t j, int64_t from, int64_t to)
{
    int64_t count = f->n - j < 4 ? f->n - j : 4, i = from > j + count ? from : j + count;
    if (!reads_panel(f, p, e, j, count)) return;
    for (int64_t q = j; q < j + count; q++) /* the corner on the diagonal */
        for (int64_t r = q > from ? q : from; r < j + count && r < to; r++)
            column(f, q)[r] = less_panel(f, p, e, r, q);
    for (; count == 4 && i + 4 <= to; i += 4) update_tile(f, p, e, i, j);
    for (; i < to; i++)
        for (int64_t q = j; q < j + count; q++) column(f, q)[i] = less_panel(f, p, e, i, q);
}

static void factor_in_blocks(gd_ldl *f)
{
    for (int64_t p = 0, e; p < f->n; p = e) {
        for (e = p; e < f->n && e < p + PANEL;) e += panel_pivot(f, p, e);
        for (int64_t from = e; from < f->n; from += ROWS) {
            int64_t to = from + ROWS < f->n ? from + ROWS : f->n;
            for (int64_t j = e; j < to; j += 4) update_columns(f, p, e, j, from, to);
        }
        /* solves swap one pivot after the other: rows of earlier columns are swapped back */
        for (int64_t k = e - 1; k > p; k--) {
            bool block = f->pivot[k] < 0; /* its second column: pivots are visited from the end */
            int64_t first = block ? k - 1 : k;
            swap_rows(f, p, first, k, block ? -1 - f->pivot[k] : f->pivot[k]);
            k = first;
        }
    }
}

void gd__ldl_factor(gd_ldl *f)
{
    f->positive = f->negative = f->zero = 0;
    if (f->work && f->n >= LARGE) {
        factor_in_blocks(f);
        return;
    }
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
