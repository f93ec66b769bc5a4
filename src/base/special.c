#include "base/special.h"

#include <math.h>

double gd__lgamma(double x)
{
    int sign; /* lgamma() would write it to a global */
    return lgamma_r(x, &sign);
}

double gd__mod(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/* ---- polygamma ---- */

static double factorial(int n)
{
    double f = 1;
    for (int i = 2; i <= n; i++) f *= i;
    return f;
}

/* d^n/dt^n cot(t): the polynomial in c = cot(t) with P_0 = c, P_{k+1} = -(1 + c^2) P_k'. */
static double cot_derivative(int n, double t)
{
    double p[GD_POLYGAMMA_ORDERS + 2] = {0, 1}, c = cos(t) / sin(t), value = 0;
    for (int k = 0; k < n; k++) {
        double next[GD_POLYGAMMA_ORDERS + 2] = {0};
        for (int i = 1; i <= k + 1; i++) {
            next[i - 1] -= i * p[i];
            next[i + 1] -= i * p[i];
        }
        for (int i = 0; i <= k + 2; i++) p[i] = next[i];
    }
    for (int i = n + 1; i >= 0; i--) value = value * c + p[i];
    return value;
}

/* B_2, B_4, ... */
static const double bernoulli[] = {1.0 / 6,       -1.0 / 30,       1.0 / 42,       -1.0 / 30,
                                   5.0 / 66,      -691.0 / 2730,   7.0 / 6,        -3617.0 / 510,
                                   43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};

/* The expansion at infinity, for x above 15 + n.  Without its sign for n > 0. */
static double far_away(int n, double x)
{
    double square = x * x, tail = 0;
    /* B_2k (2k + n - 1)! / (2k)! / x^(2k + n), from the smallest */
    for (int k = (int)(sizeof bernoulli / sizeof *bernoulli); k >= 1; k--) {
        double rising = n ? 1 : 1.0 / (2 * k); /* (2k + n - 1)! / (2k)! */
        for (int i = 2 * k + 1; i < 2 * k + n; i++) rising *= i;
        tail = (tail + bernoulli[k - 1] * rising) / square;
    }
    if (n == 0) return log(x) - 0.5 / x - tail;
    return (factorial(n - 1) + factorial(n) * 0.5 / x + tail) / pow(x, n);
}

double gd__polygamma(int n, double x)
{
    const double pi = 3.14159265358979323846;
    if (x == INFINITY) return n ? 0 : INFINITY;
    if (!(x > -INFINITY) || (x <= 0 && x == floor(x))) return NAN;
    if (x <
        0) { /* psi_n(x) = (-1)^n psi_n(1 - x) - pi d^n/dx^n cot(pi x); cot has the period of whole numbers */
        double mirrored = gd__polygamma(n, 1 - x);
        return (n % 2 ? -mirrored : mirrored) - pow(pi, n + 1) * cot_derivative(n, pi * (x - floor(x)));
    }
    double below = 0, sign = n == 0  ? 1
                             : n % 2 ? 1
                                     : -1; /* sum of 1 / x^(n + 1) up to where the expansion holds */
    for (; x < 15 + n; x += 1) below += n ? pow(x, -(n + 1)) : 1 / x;
    return n == 0 ? far_away(0, x) - below : sign * (far_away(n, x) + factorial(n) * below);
}
