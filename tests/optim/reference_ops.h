/* References of the links that optimizers are written with as text. */
#ifndef GD_TESTS_OPTIM_REFERENCE_OPS_H
#define GD_TESTS_OPTIM_REFERENCE_OPS_H

#include "reference.h"

/* ---- sources ---- */

static void to_seven(moment_of *x) { EACH(i) x->u[i] = 0.7; }

static void to_gradient(moment_of *x) { EACH(i) x->u[i] = x->g[i]; }

static void to_nothing_else(moment_of *x) { (void)x; }

static void gradient_beside_sign(moment_of *x) { EACH(i) x->u[i] = sign_of(x->g[i]) * fabs(x->g[i]); }

static void doubled(moment_of *x) { EACH(i) x->u[i] *= 2; }

/* ---- maps ---- */

static void exponential_of(moment_of *x) { EACH(i) x->u[i] *= exp(-fabs(x->u[i])); }

static void square_over_gradient(moment_of *x)
{
    EACH(i)
    {
        double g = x->u[i];
        x->u[i] = g == 0 ? NAN : 0.5 * (fabs(g) * fabs(g)) / g;
    }
}

/* u becomes log-like nonsense for elements below 0: sqrt is NaN there, and 0.25 in its place. */
static void nan_becomes_a_quarter(moment_of *x) { EACH(i) x->u[i] = x->u[i] < 0 ? 0.25 : sqrt(x->u[i]); }

/* 1 / 0 and -1 / 0 */
static void infinities(moment_of *x) { EACH(i) x->u[i] = 0.3 - 0.7; }

static void power_of_magnitude(moment_of *x) { EACH(i) x->u[i] *= pow(fabs(x->u[i]), 0.5); }

static void power_of_chain(moment_of *x) { EACH(i) x->u[i] = pow(2, x->u[i]) - 1; }

static void sign_of_parameter(moment_of *x) { EACH(i) x->u[i] = copysign(x->p[i], x->u[i]); }

static void above_only(moment_of *x) { EACH(i) x->u[i] = x->u[i] > 0.1 ? x->u[i] : 0.01; }

static void below_parameter(moment_of *x) { EACH(i) x->u[i] = x->u[i] < x->p[i] ? x->u[i] : 2 * x->u[i]; }

/* ---- averages ---- */

static void averages(moment_of *x, double beta, double power, double *v, double *m)
{
    EACH(i)
    {
        v[i] = beta * v[i] + (1 - beta) * pow(fabs(x->u[i]), power);
        m[i] = beta * m[i] + (1 - beta) * x->u[i];
    }
}

static void variance_added(moment_of *x)
{
    averages(x, 0.9, 2, x->s[0], x->s[1]);
    EACH(i) x->u[i] += x->s[0][i] - x->s[1][i] * x->s[1][i];
}

/* the largest so far, of third powers */
static void largest_variance_added(moment_of *x)
{
    averages(x, 0.9, 3, x->s[0], x->s[1]);
    EACH(i)
    {
        x->s[2][i] = fmax(x->s[2][i], x->s[0][i] - pow(fabs(x->s[1][i]), 3));
        x->u[i] += x->s[2][i];
    }
}

static void deviation_added(moment_of *x)
{
    averages(x, 0.9, 2, x->s[0], x->s[1]);
    EACH(i)
    {
        double v = fmax(0, x->s[0][i] - x->s[1][i] * x->s[1][i]);
        x->u[i] += sqrt(v) / sqrt(1 - pow(0.9, x->t));
    }
}

static void divided_by_largest_root(moment_of *x)
{
    averages(x, 0.9, 2, x->s[0], x->s[1]);
    EACH(i)
    {
        x->s[2][i] = fmax(x->s[2][i], x->s[0][i]);
        x->u[i] /= sqrt(x->s[2][i]) / sqrt(1 - pow(0.9, x->t)) + 1e-3;
    }
}

static void adam_without_its_name(moment_of *x)
{
    EACH(i)
    {
        double g = x->u[i];
        x->s[0][i] = 0.9 * x->s[0][i] + 0.1 * g;
        x->s[1][i] = 0.999 * x->s[1][i] + 0.001 * g * g;
        x->u[i] = 2 * x->s[0][i] / (sqrt(x->s[1][i]) + 1e-8) * sqrt(1 - pow(0.999, x->t)) /
                  (1 - pow(0.9, x->t));
    }
}

/* ---- accumulators: what is kept is multiplied by 1 - decay after use ---- */

static void product(moment_of *x)
{
    EACH(i)
    {
        double before = x->t == 1 ? 1 : x->s[0][i];
        x->u[i] = before * (1 + 0.01 * x->u[i]);
        x->s[0][i] = 0.9 * x->u[i];
    }
}

static void fading_sum(moment_of *x)
{
    EACH(i)
    {
        double sum = x->s[0][i] + x->u[i];
        x->s[0][i] = 0.75 * sum;
        x->u[i] = sum;
    }
}

/* a mean whose weights fade with age: 1, 0.75, 0.75^2, ... */
static void fading_mean(moment_of *x)
{
    double weights = 0;
    for (int age = 0; age < x->t; age++) weights += pow(0.75, age);
    fading_sum(x);
    EACH(i) x->u[i] /= weights;
}

static void fading_largest(moment_of *x)
{
    EACH(i)
    {
        double most = fmax(x->s[0][i], x->u[i]);
        x->s[0][i] = 0.75 * most;
        x->u[i] = most;
    }
}

static void fading_smallest(moment_of *x)
{
    EACH(i)
    {
        double least = fmin(x->s[0][i], x->u[i]);
        x->s[0][i] = 0.75 * least;
        x->u[i] = least;
    }
}

/* ---- several chains ---- */

static void weighted(moment_of *x, double divisor)
{
    double *m = x->s[0];
    EACH(i)
    {
        m[i] = 0.9 * m[i] + 0.1 * x->u[i];
        x->u[i] = (3 * m[i] + 0.5 * x->u[i] + 2 * 0.25) / divisor;
    }
}

static void weighted_sums(moment_of *x) { weighted(x, 1); }

static void weighted_means(moment_of *x) { weighted(x, 5.5); }

static void sum_with_number(moment_of *x) { EACH(i) x->u[i] = 0.125 + x->u[i] + sign_of(x->u[i]); }

/* ---- norms and projections ---- */

static double norm_of_order(const double *x, int k, double order)
{
    double sum = 0;
    EACH_OF(i, k)
    {
        double a = fabs(x[i]);
        sum = isinf(order) ? fmax(sum, a) : sum + pow(a, order);
    }
    return isinf(order) ? sum : pow(sum, 1 / order);
}

/* s[1] gets the direction: the average of updates */
static void into_average(moment_of *x) { EACH(i) x->s[1][i] = x->s[0][i] = 0.9 * x->s[0][i] + 0.1 * x->u[i]; }

static void average_with_norm_of_update(moment_of *x)
{
    into_average(x);
    for (int k = 0; k < TENSORS; k++) {
        double factor = norm_of_order(x->u, k, 2) / fmax(norm_of_order(x->s[1], k, 2), 1e-6);
        EACH_OF(i, k) x->u[i] = x->s[1][i] * factor;
    }
}

static void update_with_largest_of_average(moment_of *x)
{
    into_average(x);
    for (int k = 0; k < TENSORS; k++) {
        double factor = norm_of_order(x->s[1], k, INFINITY) / fmax(norm_of_order(x->u, k, INFINITY), 1e-6);
        EACH_OF(i, k) x->u[i] *= factor;
    }
}

static void average_with_norm_of_all(moment_of *x)
{
    into_average(x);
    double factor = norm_in(x->u, 0, N) / fmax(norm_in(x->s[1], 0, N), 1e-6);
    EACH(i) x->u[i] = x->s[1][i] * factor;
}

static void average_half_way_to_norm_of_update(moment_of *x)
{
    into_average(x);
    for (int k = 0; k < TENSORS; k++) {
        double own = norm_of_order(x->s[1], k, 2), other = norm_of_order(x->u, k, 2);
        EACH_OF(i, k) x->u[i] = x->s[1][i] * (0.5 * own + 0.5 * other) / fmax(own, 1e-6);
    }
}

static void orthogonal_to_parameter(moment_of *x)
{
    for (int k = 0; k < TENSORS; k++) {
        double along = 0, square = 0;
        EACH_OF(i, k)
        {
            along += x->u[i] * x->p[i];
            square += x->p[i] * x->p[i];
        }
        EACH_OF(i, k) x->u[i] -= along / square * x->p[i];
    }
}

static const reference ops_references[] = {
    {"fill(0.7)", to_seven, 0.01},
    {"sign | grad", to_gradient, 0.05},
    {"sign | update_to_none", to_gradient, 0.05},
    {"clone | identity", to_nothing_else, 0.05},
    {"mul(2) | grad_to_none", doubled, 0.05},
    {"sign | mul([grad | abs])", gradient_beside_sign, 0.05},
    {"mul([abs | negate | exp])", exponential_of, 0.05},
    {"rdiv([abs | pow(2)]) | mul(0.5)", square_over_gradient, 0.05},
    {"sqrt | nan_to_num(nan=0.25)", nan_becomes_a_quarter, 0.01},
    {"sum([sub(grad) | rdiv(1) | nan_to_num(posinf=0.3)], [sub(grad) | rdiv(-1) | nan_to_num(neginf=-0.7)])",
     infinities, 0.01},
    {"mul(pow_modules(abs, 0.5))", power_of_magnitude, 0.05},
    {"pow_modules(2, identity) | sub(1)", power_of_chain, 0.05},
    {"rcopy_sign(params)", sign_of_parameter, 0.0137},
    {"threshold(0.1, 0.01, true)", above_only, 0.05},
    {"threshold(params, mul(2), false)", below_parameter, 0.05},
    {"add(centered_ema_squared(0.9))", variance_added, 0.05},
    {"add(centered_ema_squared(0.9, amsgrad=true, pow=3))", largest_variance_added, 0.005},
    {"add(centered_sqrt_ema_squared(0.9, debiased=true))", deviation_added, 0.05},
    {"div([sqrt_ema_squared(0.9, amsgrad=true, debiased=true) | add(1e-3)])", divided_by_largest_root, 0.05},
    {"div_modules(ema(0.9), [sqrt_ema_squared(0.999) | add(1e-8)]) | debias(0.9, 0.999, alpha=2)",
     adam_without_its_name, 0.02},
    {"mul(0.01) | add(1) | accumulate_product(0.1)", product, 0.05},
    {"accumulate_sum(0.25)", fading_sum, 0.02},
    {"accumulate_mean(0.25)", fading_mean, 0.05},
    {"accumulate_maximum(0.25)", fading_largest, 0.01},
    {"accumulate_minimum(0.25)", fading_smallest, 0.01},
    {"weighted_sum(ema(0.9), identity, 0.25, weights=[3, 0.5, 2])", weighted_sums, 0.02},
    {"weighted_mean(ema(0.9), identity, 0.25, weights=[3, 0.5, 2])", weighted_means, 0.05},
    {"sum(0.125, identity, sign)", sum_with_number, 0.0137},
    {"graft_to_update(ema(0.9))", average_with_norm_of_update, 0.05},
    {"graft(ema(0.9), ord=inf)", update_with_largest_of_average, 0.05},
    {"rgraft(ema(0.9), tensorwise=false)", average_with_norm_of_all, 0.05},
    {"graft_modules(ema(0.9), identity, strength=0.5)", average_half_way_to_norm_of_update, 0.05},
    {"gram_schmidt(params)", orthogonal_to_parameter, 0.05},
};

#endif
