/* Student's t by the incomplete beta function. */
#include "cli/commands/student.h"

#include <math.h>

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
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double gd__student_cdf(double t, double dof)
{
    double tail = 0.5 * regular_beta(dof / 2, 0.5, dof / (dof + t * t));
    return t > 0 ? 1 - tail : tail;
}

/* Bisection on a scale where any t is reached: sure, and fast enough for one call a run. */
double gd__student_quantile(double level, double dof)
{
    if (!(dof > 0)) return INFINITY;
    double want = 0.5 + level / 2, low = 0, high = 1;
    while (gd__student_cdf(high, dof) < want && high < 1e300) high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-15 * high; i++) {
        double middle = (low + high) / 2;
        if (gd__student_cdf(middle, dof) < want)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}
