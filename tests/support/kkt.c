#include "support/kkt.h"

#include <math.h>
#include <string.h>

#define ROWS_MOST 64

/* Columns of what multipliers weigh, of length 1; the right side is - grad f. */
typedef struct columns_of {
    int n, count;
    double a[KKT_MOST][KKT_MOST], b[KKT_MOST], m[KKT_MOST];
    double gap[KKT_MOST]; /* what m is worth: the distance from the bound of what the column holds */
} columns_of;

/* grad f and the gradients of the constraints by fourth-order differences. */
static void differences(const kkt_problem *p, const double *x, double *g, double (*j)[KKT_MOST])
{
    static const double weight[4] = {1.0 / 12, -8.0 / 12, 8.0 / 12, -1.0 / 12}, at[4] = {-2, -1, 1, 2};
    double y[KKT_MOST], f, c[ROWS_MOST];
    int m = p->equal + p->below;
    memcpy(y, x, (size_t)p->n * sizeof *y);
    for (int i = 0; i < p->n; i++) {
        double h = 1e-4 * fmax(fabs(x[i]), 1e-2);
        g[i] = 0;
        for (int r = 0; r < m; r++) j[r][i] = 0;
        for (int k = 0; k < 4; k++) {
            y[i] = x[i] + at[k] * h;
            p->values(p->user, y, &f, c);
            g[i] += weight[k] * f / h;
            for (int r = 0; r < m; r++) j[r][i] += weight[k] * c[r] / h;
        }
        y[i] = x[i];
    }
}

/* Only where the distance, by the length of the column, is at most `near`. */
static void add_column(columns_of *s, const double *column, double sign, double distance, double near)
{
    double length = 0;
    for (int i = 0; i < s->n; i++) length = hypot(length, column[i]);
    if (!(length > 0) || s->count == KKT_MOST || distance > near * length) return;
    s->gap[s->count] = fmax(distance, 0) / length;
    for (int i = 0; i < s->n; i++) s->a[s->count][i] = sign * column[i] / length;
    s->count++;
}

static double dot(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Least squares over the columns in `in`, by Gram and Schmidt done twice; dependent columns get 0. */
static void solve_passive(const columns_of *s, const int *in, int count, double *m)
{
    static double q[KKT_MOST][KKT_MOST], r[KKT_MOST][KKT_MOST];
    double left[KKT_MOST];
    memcpy(left, s->b, sizeof left);
    for (int k = 0; k < count; k++) {
        memcpy(q[k], s->a[in[k]], sizeof q[k]);
        for (int c = 0; c < k; c++) r[c][k] = 0;
        for (int turn = 0; turn < 2; turn++)
            for (int c = 0; c < k; c++) {
                double t = dot(q[c], q[k], s->n);
                r[c][k] += t;
                for (int i = 0; i < s->n; i++) q[k][i] -= t * q[c][i];
            }
        double length = sqrt(dot(q[k], q[k], s->n));
        r[k][k] = length > 1e-11 ? length : 0;
        for (int i = 0; i < s->n; i++) q[k][i] = r[k][k] > 0 ? q[k][i] / length : 0;
    }
    for (int k = count - 1; k >= 0; k--) {
        double t = dot(q[k], left, s->n);
        for (int c = k + 1; c < count; c++) t -= r[k][c] * m[c];
        m[k] = r[k][k] > 0 ? t / r[k][k] : 0;
    }
}

static void residual_of(const columns_of *s, double *r)
{
    memcpy(r, s->b, (size_t)s->n * sizeof *r);
    for (int k = 0; k < s->count; k++)
        for (int i = 0; i < s->n; i++) r[i] -= s->a[k][i] * s->m[k];
}

/* Lawson & Hanson 1974, chapter 23. */
static void nonnegative_least_squares(columns_of *s)
{
    int in[KKT_MOST], count = 0;
    int is_in[KKT_MOST] = {0};
    double r[KKT_MOST], m[KKT_MOST];
    memset(s->m, 0, sizeof s->m);
    for (int turn = 0; turn < 4 * KKT_MOST; turn++) {
        int best = -1;
        double most = 1e-12 * sqrt(dot(s->b, s->b, s->n));
        residual_of(s, r);
        for (int k = 0; k < s->count; k++)
            if (!is_in[k] && dot(s->a[k], r, s->n) > most) most = dot(s->a[k], r, s->n), best = k;
        if (best < 0 || count == s->n) return;
        in[count++] = best, is_in[best] = 1;
        for (;;) {
            double step = 1;
            int out = -1, kept = 0;
            solve_passive(s, in, count, m);
            for (int k = 0; k < count; k++) {
                double to = s->m[in[k]] / fmax(s->m[in[k]] - m[k], 1e-300);
                if (m[k] <= 0 && to < step) step = to, out = in[k];
            }
            for (int k = 0; k < count; k++) s->m[in[k]] += step * (m[k] - s->m[in[k]]);
            if (out < 0) break;
            s->m[out] = 0;
            for (int k = 0; k < count; k++) {
                if (s->m[in[k]] > 0)
                    in[kept++] = in[k];
                else
                    s->m[in[k]] = 0, is_in[in[k]] = 0;
            }
            count = kept;
        }
    }
}

double kkt_residual(const kkt_problem *p, const double *x, double near)
{
    static columns_of s;
    static double j[ROWS_MOST][KKT_MOST];
    double g[KKT_MOST], f, c[ROWS_MOST], r[KKT_MOST], size = 1, most = 0;
    memset(&s, 0, sizeof s);
    s.n = p->n;
    p->values(p->user, x, &f, c);
    differences(p, x, g, j);
    for (int i = 0; i < p->n; i++) s.b[i] = -g[i], size = fmax(size, fabs(g[i]));
    for (int k = 0; k < p->equal + p->below; k++) {
        if (k < p->equal) add_column(&s, j[k], -1, 0, near);
        add_column(&s, j[k], 1, k < p->equal ? 0 : -c[k], near);
    }
    for (int i = 0; i < p->n; i++) {
        double e[KKT_MOST] = {0}, by = near * fmax(1, fabs(x[i]));
        e[i] = 1;
        add_column(&s, e, -1, x[i] - p->low[i], by);
        add_column(&s, e, 1, p->high[i] - x[i], by);
    }
    nonnegative_least_squares(&s);
    residual_of(&s, r);
    for (int i = 0; i < p->n; i++) most = fmax(most, isnan(r[i]) ? INFINITY : fabs(r[i]));
    most /= size;
    for (int k = 0; k < s.count; k++) most = fmax(most, s.m[k] * s.gap[k] / fmax(1, fabs(f)));
    return most;
}
