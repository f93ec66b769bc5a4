/* The reference of higher_order_newton: Taylor's terms of the bowl written out, minimised by ever so many short steps down the gradient
 * of the model. */
#ifndef GD_TESTS_OPTIM_REFERENCE_HIGHER_ORDER_H
#define GD_TESTS_OPTIM_REFERENCE_HIGHER_ORDER_H

#include "reference.h"

#include <math.h>

/* d^k f / d p_i^k of the part of each element; the rest is (sum p)^2 / 20. */
static double own_derivative(const double *p, int i, int k)
{
    switch (k) {
    case 2: return bowl_weight[i] + 0.9 * cos(3 * p[i]);
    case 3: return -2.7 * sin(3 * p[i]);
    default: return -8.1 * cos(3 * p[i]);
    }
}

/* The model at p + d; its gradient in out.  weight: of |d|^(order + 1) / (order + 1). */
static double taylor_at(const double *p, const double *g, const double *d, int order, double weight,
                        double *out)
{
    double value = 0, sum = 0, square = 0;
    EACH(i) sum += d[i], square += d[i] * d[i];
    double norm = sqrt(square);
    EACH(i)
    {
        double power = d[i], factorial = 1;
        out[i] = g[i] + (order > 1 ? 0.1 * sum : 0) + weight * pow(norm, order - 1) * d[i];
        value += g[i] * d[i];
        for (int k = 2; k <= order; k++) {
            factorial *= k;
            out[i] += own_derivative(p, i, k) * power * k / factorial;
            power *= d[i];
            value += own_derivative(p, i, k) * power / factorial;
        }
    }
    return value + (order > 1 ? 0.05 * sum * sum : 0) + weight * pow(norm, order + 1) / (order + 1);
}

static double minimum_of_taylor(const double *p, const double *g, int order, double radius, bool box,
                                double *d)
{
    double out[N], change = 1;
    EACH(i) d[i] = 0;
    for (int round = 0; round < 200000 && change > 0; round++) {
        (void)taylor_at(p, g, d, order, box ? 0 : 1 / radius, out);
        change = 0;
        EACH(i)
        {
            double to = d[i] - 0.04 * out[i];
            if (box) to = clip(to, radius);
            change = fmax(change, fabs(to - d[i]));
            d[i] = to;
        }
    }
    return taylor_at(p, g, d, order, box ? 0 : 1 / radius, out);
}

/* k[0]: the radius, 0 at first. */
static void higher_order(moment_of *x, int order, double init, bool box)
{
    double d[N], there[N], g[N], most = 0, rho = 0;
    if (x->k[0] == 0) x->k[0] = init;
    for (int tries = 0; tries < 10; tries++) {
        double promised = -minimum_of_taylor(x->p, x->g, order, x->k[0], box, d);
        most = 0;
        EACH(i) there[i] = x->p[i] + d[i], most = box ? fmax(most, fabs(d[i])) : hypot(most, d[i]);
        rho = (x->loss - loss_at(there, g)) / promised;
        if (rho < 1e-4)
            x->k[0] *= 0.25;
        else if (rho > 0.99 && most >= 0.99 * x->k[0])
            x->k[0] *= 3.5;
        if (rho > 1e-6) break;
    }
    EACH(i) x->u[i] = rho > 1e-6 ? -d[i] : 0;
}

static void higher_2(moment_of *x) { higher_order(x, 2, 0.1, true); }
static void higher_3(moment_of *x) { higher_order(x, 3, 0.2, true); }
static void higher_4(moment_of *x) { higher_order(x, 4, 1, true); }
static void proximal_3(moment_of *x) { higher_order(x, 3, 1, false); }
static void proximal_2(moment_of *x) { higher_order(x, 2, 0.5, false); }

static const reference higher_order_references[] = {
    {"higher_order_newton", higher_4, 0.05},
    {"higher_order_newton(3, init=0.2)", higher_3, 0.05},
    {"higher_order_newton(2, init=0.1)", higher_2, 0.05},
    {"higher_order_newton(3, trust_method=\"proximal\")", proximal_3, 0.05},
    {"higher_order_newton(2, trust_method=\"proximal\", init=0.5)", proximal_2, 0.05},
};

#endif
