#define _REENTRANT 1 /* for lgamma_r of macOS */
#include "base/special.h"

#include <math.h>

double gd__lgamma(double x)
{
    int sign; /* lgamma() would write the sign to a global variable */
    return lgamma_r(x, &sign);
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

/* ---- distributions: Student's t and F by the incomplete beta function, chi-square by the incomplete gamma function ---- */

/* The continued fraction of the incomplete beta function, by the method of Lentz (1976). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double value = d;
    for (int m = 1; m < 1000; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        double before = value;
        for (int k = 0; k < 2; k++) {
            double term = k ? odd : even;
            d = 1 + term * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term / c;
            if (fabs(c) < tiny) c = tiny;
            value *= d * c;
        }
        if (fabs(value - before) <= 1e-16 * fabs(value)) break;
    }
    return value;
}

/* I_x(a, b). */
static double regular_beta(double a, double b, double x)
{
    if (x <= 0) return 0;
    if (x >= 1) return 1;
    double front = exp(gd__lgamma(a + b) - gd__lgamma(a) - gd__lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double gd__student_cdf(double t, double dof)
{
    double tail = 0.5 * regular_beta(dof / 2, 0.5, dof / (dof + t * t));
    return t > 0 ? 1 - tail : tail;
}

static double normal_cdf(double z, double unused) { return (void)unused, 0.5 * erfc(-z * sqrt(0.5)); }

/* Bisection on a scale that reaches any t: robust, and fast enough for one call per run. */
static double quantile(double (*cdf)(double, double), double level, double dof)
{
    double want = 0.5 + level / 2, low = 0, high = 1;
    while (cdf(high, dof) < want && high < 1e300) high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-15 * high; i++) {
        double middle = (low + high) / 2;
        if (cdf(middle, dof) < want)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

double gd__student_quantile(double level, double dof)
{
    return dof > 0 ? quantile(gd__student_cdf, level, dof) : INFINITY;
}

double gd__normal_quantile(double level) { return quantile(normal_cdf, level, 0); }

double gd__f_tail(double x, double dof1, double dof2)
{
    if (!(x > 0)) return 1;
    return regular_beta(dof2 / 2, dof1 / 2, dof2 / (dof2 + dof1 * x));
}

/* P(a, x) by its series, for x < a + 1. */
static double gamma_series(double a, double x)
{
    double term = 1 / a, sum = term;
    for (double k = a + 1; term > 1e-17 * sum; k++) sum += term *= x / k;
    return sum * exp(a * log(x) - x - gd__lgamma(a));
}

/* Q(a, x) by its continued fraction, Lentz's method, for x >= a + 1. */
static double gamma_fraction(double a, double x)
{
    const double tiny = 1e-300;
    double b = x + 1 - a, c = 1 / tiny, d = 1 / b, value = d;
    for (int i = 1; i < 10000; i++) {
        double an = -i * (i - a);
        b += 2;
        d = an * d + b;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = b + an / c;
        if (fabs(c) < tiny) c = tiny;
        value *= d * c;
        if (fabs(d * c - 1) <= 1e-16) break;
    }
    return value * exp(a * log(x) - x - gd__lgamma(a));
}

double gd__chi_square_tail(double x, double dof)
{
    double a = dof / 2, half = x / 2;
    if (!(half > 0)) return 1;
    if (isinf(half)) return 0;
    return half < a + 1 ? 1 - gamma_series(a, half) : gamma_fraction(a, half);
}
