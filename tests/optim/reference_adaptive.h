/* References of the adaptive links. */
#ifndef GD_TESTS_OPTIM_REFERENCE_ADAPTIVE_H
#define GD_TESTS_OPTIM_REFERENCE_ADAPTIVE_H

#include "reference.h"

/* Dozat 2016, algorithm 2 with constant momentum. */
static void nadam(moment_of *x)
{
    double b1 = 0.9, b2 = 0.999, *m = x->s[0], *v = x->s[1];
    int t = x->t;
    EACH(i)
    {
        double g = x->u[i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        double look = b1 * m[i] / (1 - pow(b1, t + 1)) + (1 - b1) * g / (1 - pow(b1, t));
        x->u[i] = look / (sqrt(v[i] / (1 - pow(b2, t))) + 1e-8);
    }
}

/* The same with its schedule of momenta, mu_t = b1 (1 - 0.96^(t/250) / 2), the rate as a setting. */
static void nadam_scheduled(moment_of *x)
{
    double b1 = 0.9, b2 = 0.999, psi = 0.004, *m = x->s[0], *v = x->s[1];
    double mu = b1 * (1 - 0.5 * pow(0.96, x->t * psi)), next = b1 * (1 - 0.5 * pow(0.96, (x->t + 1) * psi));
    x->k[0] = (x->t == 1 ? 1 : x->k[0]) * mu;
    EACH(i)
    {
        double g = x->u[i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        double look = next * m[i] / (1 - x->k[0] * next) + (1 - mu) * g / (1 - x->k[0]);
        x->u[i] = look / (sqrt(v[i] / (1 - pow(b2, x->t))) + 1e-8);
    }
}

/* Liu et al. 2020, algorithm 2; it has no eps. */
static void radam_with(moment_of *x, double b2, double corrected, double raw)
{
    double b1 = 0.9, *m = x->s[0], *v = x->s[1], power = pow(b2, x->t), most = 2 / (1 - b2) - 1;
    double rho = most - 2 * x->t * power / (1 - power);
    EACH(i)
    {
        double g = x->u[i];
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        double m_hat = m[i] / (1 - pow(b1, x->t));
        x->u[i] = m_hat;
        if (rho <= 5) continue;
        double r = sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho));
        double l = raw > 0 ? sqrt(1 - power) / (sqrt(v[i]) + raw)
                           : 1 / (sqrt(v[i] / (1 - power)) + corrected);
        x->u[i] = m_hat * r * l;
    }
}

static void radam(moment_of *x) { radam_with(x, 0.9, 1e-3, 0); }

static void radam_raw(moment_of *x) { radam_with(x, 0.9, 0, 1e-3); }

/* Kingma & Ba 2015, algorithm 2, with eps beside the magnitude. */
static void adamax(moment_of *x)
{
    double *m = x->s[0], *n = x->s[1];
    EACH(i)
    {
        double g = x->u[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        n[i] = fmax(0.999 * n[i], fabs(g) + 1e-8);
        x->u[i] = m[i] / (1 - pow(0.9, x->t)) / n[i];
    }
}

/* Zhuang et al. 2020, algorithm 2. */
static void adabelief(moment_of *x)
{
    double *m = x->s[0], *s = x->s[1], eps = 1e-4;
    EACH(i)
    {
        double g = x->u[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        s[i] = 0.999 * s[i] + 0.001 * (g - m[i]) * (g - m[i]) + eps;
        x->u[i] = m[i] / (1 - pow(0.9, x->t)) / (sqrt(s[i] / (1 - pow(0.999, x->t))) + eps);
    }
}

/* Zaheer et al. 2018, algorithm 2. */
static void yogi_with(moment_of *x, double first, bool debiased)
{
    double *m = x->s[0], *v = x->s[1];
    EACH(i)
    {
        double g = x->u[i], before = x->t == 1 ? first : v[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = before - 0.001 * sign_of(before - g * g) * g * g;
        double m_hat = debiased ? m[i] / (1 - pow(0.9, x->t)) : m[i],
               v_hat = debiased ? v[i] / (1 - pow(0.999, x->t)) : v[i];
        x->u[i] = m_hat / (sqrt(v_hat) + 1e-3);
    }
}

static void yogi(moment_of *x) { yogi_with(x, 0, false); }

static void yogi_debiased(moment_of *x) { yogi_with(x, 1e-6, true); }

/* Zeiler 2012, algorithm 1. */
static void adadelta(moment_of *x)
{
    double *v = x->s[0], *d = x->s[1];
    EACH(i)
    {
        double g = x->u[i];
        v[i] = 0.9 * v[i] + 0.1 * g * g;
        x->u[i] = sqrt(d[i] + 1e-6) / sqrt(v[i] + 1e-6) * g;
        d[i] = 0.9 * d[i] + 0.1 * x->u[i] * x->u[i];
    }
}

/* Pagliardini, Ablin & Grangier 2024, algorithm 1 without the warm-ups. */
static void ademamix(moment_of *x)
{
    double *m1 = x->s[0], *m2 = x->s[1], *v = x->s[2];
    EACH(i)
    {
        double g = x->u[i];
        m1[i] = 0.9 * m1[i] + 0.1 * g;
        m2[i] = 0.9999 * m2[i] + 0.0001 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        x->u[i] = (m1[i] / (1 - pow(0.9, x->t)) + 5 * m2[i]) / (sqrt(v[i] / (1 - pow(0.999, x->t))) + 1e-8);
    }
}

/* Taniguchi et al. 2024, algorithm 2: g_0 only gives v_0. */
static void adopt(moment_of *x)
{
    double *m = x->s[0], *v = x->s[1];
    EACH(i)
    {
        double g = x->u[i];
        if (x->t == 1) {
            v[i] = g * g;
            x->u[i] = 0;
            continue;
        }
        m[i] = 0.9 * m[i] + 0.1 * clip(g / fmax(sqrt(v[i]), 1e-6), pow(x->t - 1, 0.25));
        v[i] = 0.9999 * v[i] + 0.0001 * g * g;
        x->u[i] = m[i];
    }
}

/* Bernstein et al. 2018, algorithm 2. */
static void signum(moment_of *x)
{
    EACH(i)
    {
        x->s[0][i] = 0.9 * x->s[0][i] + 0.1 * x->u[i];
        x->u[i] = sign_of(x->s[0][i]);
    }
}

/* You et al. 2020, algorithm 2 with phi the identity: the ratio of each layer. */
static void lamb(moment_of *x)
{
    double *m = x->s[0], *v = x->s[1], wd = 0.1;
    EACH(i)
    {
        double g = x->u[i];
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.999 * v[i] + 0.001 * g * g;
        x->u[i] = m[i] / (1 - pow(0.9, x->t)) / (sqrt(v[i] / (1 - pow(0.999, x->t))) + 1e-6) + wd * x->p[i];
    }
    for (int k = 0; k < TENSORS; k++) {
        double ratio = norm_in(x->p, begin[k], begin[k + 1]) / norm_in(x->u, begin[k], begin[k + 1]);
        EACH_OF(i, k) x->u[i] *= ratio;
    }
}

/* You, Gitman & Ginsburg 2017, algorithm 1; the learning rate, which is constant, outside of the velocity. */
static void lars(moment_of *x)
{
    double eta = 0.1, wd = 0.05, *v = x->s[0];
    for (int k = 0; k < TENSORS; k++) {
        double w = norm_in(x->p, begin[k], begin[k + 1]), g = norm_in(x->u, begin[k], begin[k + 1]);
        double local = eta * w / (g + wd * w);
        EACH_OF(i, k) x->u[i] = v[i] = 0.9 * v[i] + local * (x->u[i] + wd * x->p[i]);
    }
}

/* Mishchenko & Defazio 2024, algorithm 4; k: d, r; s: m, v, s, x_0. */
static void prodigy(moment_of *x)
{
    double b1 = 0.9, b2 = 0.999, b3 = sqrt(b2), d0 = 1e-2, *m = x->s[0], *v = x->s[1], *s = x->s[2],
           *p0 = x->s[3];
    if (x->t == 1) {
        x->k[0] = d0;
        memcpy(p0, x->p, sizeof x->s[3]);
    }
    double d = x->k[0], dlr = d * sqrt(1 - pow(b2, x->t)) / (1 - pow(b1, x->t)), size = 0, along = 0;
    EACH(i)
    {
        double g = x->u[i];
        m[i] = b1 * m[i] + (1 - b1) * d * g;
        v[i] = b2 * v[i] + (1 - b2) * d * d * g * g;
        s[i] = b3 * s[i] + d / d0 * dlr * g;
        size += fabs(s[i]);
        along += g * (p0[i] - x->p[i]);
        x->u[i] = dlr * m[i] / (sqrt(v[i]) + d * 1e-8);
    }
    x->k[1] = b3 * x->k[1] + d / d0 * dlr * along;
    x->k[0] = fmax(d, x->k[1] / size);
}

/* Ivgi, Hinder & Carmon 2023, equation 2, over elements from..to; k: r and G. */
static void dog_over(moment_of *x, int from, int to, double *k)
{
    double *p0 = x->s[0], moved[N];
    for (int i = from; i < to; i++) {
        if (x->t == 1) p0[i] = x->p[i];
        moved[i] = x->p[i] - p0[i];
    }
    if (x->t == 1) k[0] = 0.01 * (1 + norm_in(p0, from, to));
    k[0] = fmax(k[0], norm_in(moved, from, to));
    k[1] += pow(norm_in(x->u, from, to), 2);
    for (int i = from; i < to; i++) x->u[i] *= k[0] / sqrt(k[1] + 1e-8);
}

static void dog(moment_of *x) { dog_over(x, 0, N, x->k); }

static void layerwise_dog(moment_of *x)
{
    for (int k = 0; k < TENSORS; k++) dog_over(x, begin[k], begin[k + 1], x->k + 2 * k);
}

static const reference adaptive_references[] = {
    {"nadam", nadam, 0.05},
    {"nadam(momentum_decay=0.004)", nadam_scheduled, 0.05},
    {"radam(beta2=0.9, eps=1e-3)", radam, 0.05},
    {"radam(beta2=0.9, eps=1e-3, eps_at=\"raw\")", radam_raw, 0.05},
    {"adamax", adamax, 0.05},
    {"adabelief(eps=1e-4)", adabelief, 0.05},
    {"yogi", yogi, 0.02},
    {"yogi(initial_accumulator_value=1e-6, debiased=true)", yogi_debiased, 0.02},
    {"adadelta", adadelta, 1},
    {"ademamix", ademamix, 0.02},
    {"adopt", adopt, 0.05},
    {"signum", signum, 0.0137},
    {"adam(eps=1e-6, eps_at=\"corrected\") | weight_decay(0.1) | trust_ratio", lamb, 0.02},
    {"trust_ratio(0.1, weight_decay=0.05) | heavy_ball(ema_init=\"zeros\")", lars, 0.5},
    {"prodigy(d0=1e-2)", prodigy, 1},
    {"dog(0.01)", dog, 1},
    {"dog(0.01, tensorwise=true)", layerwise_dog, 1},
};

#endif
