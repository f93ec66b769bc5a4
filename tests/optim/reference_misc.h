/* References of links that belong to no large family. */
#ifndef GD_TESTS_OPTIM_REFERENCE_MISC_H
#define GD_TESTS_OPTIM_REFERENCE_MISC_H

#include "reference.h"

/* The gradient of exp(f). */
static void exp_homotopy(moment_of *x) { EACH(i) x->u[i] *= exp(x->loss); }

/* Zhang et al. 2019, algorithm 1, around gradient descent with momentum; s: velocity, slow weights. */
static void lookahead(moment_of *x)
{
    EACH(i)
    {
        double *v = &x->s[0][i], *slow = &x->s[1][i];
        if (x->t == 1) *slow = x->p[i];
        *v = 0.8 * *v + x->u[i];
        x->u[i] = 0.03 * *v;
        if (x->t % 4) continue;
        *slow += 0.6 * (x->p[i] - x->u[i] - *slow);
        x->u[i] = x->p[i] - *slow;
    }
}

/* Defazio et al. 2024, equations 3 to 5, with RMSprop's scaling; s: z, x, squares.  Parameters are y. */
static void schedule_free(moment_of *x)
{
    double lr = 0.03, beta = 0.8, c = 1.0 / x->t;
    EACH(i)
    {
        double *z = &x->s[0][i], *average = &x->s[1][i], *v = &x->s[2][i];
        if (x->t == 1) *z = *average = x->p[i];
        *v = 0.99 * *v + 0.01 * x->u[i] * x->u[i];
        *z -= lr * x->u[i] / (sqrt(*v) + 1e-8);
        *average = (1 - c) * *average + c * *z;
        x->u[i] = x->p[i] - ((1 - beta) * *z + beta * *average);
    }
}

/* Links that only look on. */
static void plain(moment_of *x) { EACH(i) x->u[i] *= 0.05; }

static const reference misc_references[] = {
    {"lookahead([heavy_ball(0.8, ema_init=\"zeros\") | lr(0.03)], 4, 0.6)", lookahead, 1},
    {"schedule_free([rmsprop], 0.03, 0.8)", schedule_free, 1},
    {"lr(0.05) | ema_weights", plain, 1},
    {"lr(0.05) | swa(3, 2)", plain, 1},
    {"exp_homotopy", exp_homotopy, 1e-4},
};

#endif
