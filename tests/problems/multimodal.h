/* Twelve functions with many minima, and how often other programs find the lowest.
 *
 * Those whose optimum is the origin elsewhere are shifted: a method that samples around 0 must not profit.  `others`: of 50 seeds with
 * 2000 n evaluations each, those that came within 1e-4 max(1, |minimum|): SciPy's differential_evolution, and CMA-ES with restarts
 * (pycma, twice the population each time, sigma 0.3 of the domain, from random points). */
#ifndef GD_PROBLEMS_MULTIMODAL_H
#define GD_PROBLEMS_MULTIMODAL_H

#include <math.h>

#define MULTIMODAL_MOST 10 /* elements */
#define PI              3.14159265358979323846

enum { OTHER_DE, OTHER_CMA, OTHERS };

typedef struct multimodal {
    const char *name;
    int n;
    double (*f)(const double *x);
    double low[2], high[2]; /* the second for all elements but the first */
    double minimum, at[MULTIMODAL_MOST];
    int others[OTHERS];
} multimodal;

static inline double sqr(double x) { return x * x; }

static double branin(const double *x)
{
    return sqr(x[1] - 5.1 / (4 * PI * PI) * sqr(x[0]) + 5 / PI * x[0] - 6) +
           10 * (1 - 1 / (8 * PI)) * cos(x[0]) + 10;
}

static double goldstein_price(const double *x)
{
    double a = x[0], b = x[1];
    double left = 1 + sqr(a + b + 1) * (19 - 14 * a + 3 * a * a - 14 * b + 6 * a * b + 3 * b * b);
    return left * (30 + sqr(2 * a - 3 * b) * (18 - 32 * a + 12 * a * a + 48 * b - 36 * a * b + 27 * b * b));
}

static double camel(const double *x)
{
    double a = sqr(x[0]), b = sqr(x[1]);
    return (4 - 2.1 * a + a * a / 3) * a + x[0] * x[1] + (4 * b - 4) * b;
}

static double hartmann(const double *x)
{
    static const double c[4] = {1, 1.2, 3, 3.2};
    static const double a[4][6] = {{10, 3, 17, 3.5, 1.7, 8},
                                   {0.05, 10, 17, 0.1, 8, 14},
                                   {3, 3.5, 1.7, 10, 17, 8},
                                   {17, 8, 0.05, 10, 0.1, 14}};
    static const double q[4][6] = {{0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886},
                                   {0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991},
                                   {0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.665},
                                   {0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381}};
    double f = 0;
    for (int k = 0; k < 4; k++) {
        double sum = 0;
        for (int i = 0; i < 6; i++) sum += a[k][i] * sqr(x[i] - q[k][i]);
        f -= c[k] * exp(-sum);
    }
    return f;
}

static double shekel(const double *x)
{
    static const double a[10][4] = {{4, 4, 4, 4}, {1, 1, 1, 1}, {8, 8, 8, 8}, {6, 6, 6, 6}, {3, 7, 3, 7},
                                    {2, 9, 2, 9}, {5, 5, 3, 3}, {8, 1, 8, 1}, {6, 2, 6, 2}, {7, 3.6, 7, 3.6}};
    static const double c[10] = {0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5};
    double f = 0;
    for (int k = 0; k < 10; k++) {
        double sum = c[k];
        for (int i = 0; i < 4; i++) sum += sqr(x[i] - a[k][i]);
        f -= 1 / sum;
    }
    return f;
}

static double shubert(const double *x)
{
    double a = 0, b = 0;
    for (int k = 1; k <= 5; k++) {
        a += k * cos((k + 1) * x[0] + k);
        b += k * cos((k + 1) * x[1] + k);
    }
    return a * b;
}

static const double rastrigin_at[5] = {1.623, -1.08, 2.227, -0.625, 1.449};
static const double ackley_at[10] = {10.387,  -6.914, 14.254, -3.998, 9.273,
                                     -12.386, 5.112,  13.173, -8.749, 3.08};
static const double griewank_at[5] = {190.2, -126.6, 261, -73.2, 169.8};

static double rastrigin(const double *x)
{
    double f = 50;
    for (int i = 0; i < 5; i++)
        f += sqr(x[i] - rastrigin_at[i]) - 10 * cos(2 * PI * (x[i] - rastrigin_at[i]));
    return f;
}

static double ackley(const double *x)
{
    double squares = 0, waves = 0;
    for (int i = 0; i < 10; i++) {
        squares += sqr(x[i] - ackley_at[i]) / 10;
        waves += cos(2 * PI * (x[i] - ackley_at[i])) / 10;
    }
    return 20 + exp(1) - 20 * exp(-0.2 * sqrt(squares)) - exp(waves);
}

static double griewank(const double *x)
{
    double sum = 0, product = 1;
    for (int i = 0; i < 5; i++) {
        sum += sqr(x[i] - griewank_at[i]) / 4000;
        product *= cos((x[i] - griewank_at[i]) / sqrt(i + 1));
    }
    return sum - product + 1;
}

static double levy(const double *x)
{
    double f = sqr(sin(PI * (1 + (x[0] - 1) / 4))), last = (x[7] - 1) / 4;
    for (int i = 0; i < 7; i++) {
        double w = 1 + (x[i] - 1) / 4;
        f += sqr(w - 1) * (1 + 10 * sqr(sin(PI * w + 1)));
    }
    return f + sqr(last) * (1 + sqr(sin(2 * PI * (1 + last))));
}

static double schwefel(const double *x)
{
    double f = 2094.9144363621604;
    for (int i = 0; i < 5; i++) f -= x[i] * sin(sqrt(fabs(x[i])));
    return f;
}

static double michalewicz(const double *x)
{
    double f = 0;
    for (int i = 0; i < 5; i++) f -= sin(x[i]) * pow(sin((i + 1) * sqr(x[i]) / PI), 20);
    return f;
}

static const multimodal multimodals[] = {
    {"Branin", 2, branin, {-5, 0}, {10, 15}, 0.3978873577297, {3.14159265, 2.275}, {50, 50}},
    {"Goldstein-Price", 2, goldstein_price, {-2, -2}, {2, 2}, 3, {0, -1}, {50, 50}},
    {"Six-hump camel", 2, camel, {-3, -2}, {3, 2}, -1.03162845349, {0.0898420131, -0.712656403}, {50, 50}},
    {"Hartmann 6",
     6,
     hartmann,
     {0, 0},
     {1, 1},
     -3.322368011416,
     {0.201689511, 0.150010692, 0.476873974, 0.27533243, 0.311651617, 0.657300534},
     {27, 48}},
    {"Shekel 10",
     4,
     shekel,
     {0, 0},
     {10, 10},
     -10.53640981669,
     {4.00074653, 4.00059293, 3.9996634, 3.9995098},
     {35, 49}},
    {"Shubert", 2, shubert, {-10, -10}, {10, 10}, -186.730908831, {-7.08350641, 4.85805688}, {50, 47}},
    {"Rastrigin 5",
     5,
     rastrigin,
     {-5.12, -5.12},
     {5.12, 5.12},
     0,
     {1.623, -1.08, 2.227, -0.625, 1.449},
     {37, 11}},
    {"Ackley 10",
     10,
     ackley,
     {-32.768, -32.768},
     {32.768, 32.768},
     0,
     {10.387, -6.914, 14.254, -3.998, 9.273, -12.386, 5.112, 13.173, -8.749, 3.08},
     {30, 50}},
    {"Griewank 5", 5, griewank, {-600, -600}, {600, 600}, 0, {190.2, -126.6, 261, -73.2, 169.8}, {0, 10}},
    {"Levy 8", 8, levy, {-10, -10}, {10, 10}, 0, {1, 1, 1, 1, 1, 1, 1, 1}, {50, 50}},
    {"Schwefel 5",
     5,
     schwefel,
     {-500, -500},
     {500, 500},
     0,
     {420.968746, 420.968746, 420.968746, 420.968746, 420.968746},
     {44, 8}},
    {"Michalewicz 5",
     5,
     michalewicz,
     {0, 0},
     {PI, PI},
     -4.687658179088,
     {2.20290552, 1.57079633, 1.28499157, 1.92305847, 1.72046977},
     {17, 14}},
};

#endif
