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

/* The first tensor has one axis: half of it.  The second: a velocity; s: that. */
static void split(moment_of *x)
{
    EACH(i)
    {
        double *v = &x->s[0][i];
        *v = 0.8 * *v + x->u[i];
        x->u[i] = 0.05 * (i < begin[1] ? 0.5 * x->u[i] : *v);
    }
}

/* Links that only look on. */
static void plain(moment_of *x) { EACH(i) x->u[i] *= 0.05; }

/* Battiti 1989, section 3; k: step size, last loss. */
static void bold_driver(moment_of *x)
{
    double *a = &x->k[0], *last = &x->k[1];
    *a = x->t == 1 ? 2 : x->loss < *last ? 1.01 * *a : 0.02 * *a;
    *last = x->loss;
    EACH(i) x->u[i] *= *a;
}

static void fill_loss(moment_of *x) { EACH(i) x->u[i] = 2 * x->loss * x->u[i]; }

static void mul_by_loss(moment_of *x) { EACH(i) x->u[i] *= 0.5 * fmax(x->loss, 1); }

static void div_by_loss(moment_of *x) { EACH(i) x->u[i] /= 2 * fmax(x->loss, 1); }

static void ratio_to_last(moment_of *x)
{
    EACH(i)
    {
        double now = fabs(x->u[i]), before = x->s[0][i];
        x->s[0][i] = now;
        x->u[i] *= x->t == 1 ? now : before / fmax(now, 0.1);
    }
}

/* Parameters shorter than 3 count as that long, each tensor by itself. */
static void to_params(moment_of *x)
{
    for (int k = 0; k < TENSORS; k++) {
        double own = norm_in(x->u, begin[k], begin[k + 1]), norm = norm_in(x->p, begin[k], begin[k + 1]);
        EACH_OF(i, k) x->u[i] *= fmax(norm, 3) / own;
    }
}

/* The norm of all from 0.1 to 1 over 8 steps. */
static void warmup_norm(moment_of *x)
{
    double norm = norm_in(x->u, 0, N), most = 0.1 + 0.9 * (x->t - 1) / 8.0;
    EACH(i) if (x->t <= 9 && norm > most) x->u[i] *= most / norm;
}

/* The Hessian along the last step of both tensors; s: parameters, gradient. */
static void hessian_along(moment_of *x)
{
    double length = 0;
    EACH(i) length += (x->p[i] - x->s[0][i]) * (x->p[i] - x->s[0][i]);
    EACH(i)
    {
        double y = (x->u[i] - x->s[1][i]) / sqrt(length);
        x->s[0][i] = x->p[i];
        x->s[1][i] = x->u[i];
        x->u[i] -= 0.05 * y;
    }
}

/* A step that would lead up is left out. */
static void never_up(moment_of *x)
{
    double there[N], g[N];
    EACH(i) there[i] = x->p[i] - 0.9 * x->u[i];
    bool up = !(loss_at(there, g) <= x->loss);
    EACH(i) x->u[i] = up ? 0 : 0.9 * x->u[i];
}

/* or taken the other way */
static void opposite_of_up(moment_of *x)
{
    double there[N], g[N];
    EACH(i) there[i] = x->p[i] - 1.3 * x->u[i];
    double factor = loss_at(there, g) <= x->loss ? 1.3 : -1.3;
    EACH(i) x->u[i] *= factor;
}

/* The gradient of three steps ago, or the first one. */
static void three_ago(moment_of *x)
{
    EACH(i)
    {
        double now = x->u[i];
        for (int k = 0; k < 3 && x->t == 1; k++) x->s[k][i] = now;
        x->u[i] = x->s[2][i];
        x->s[2][i] = x->s[1][i];
        x->s[1][i] = x->s[0][i];
        x->s[0][i] = now;
    }
}

/* In single precision: the gradient and each result are rounded to it. */
static void in_single(moment_of *x)
{
    EACH(i)
    {
        float g = (float)x->u[i], sum = g + 0.3F;
        x->u[i] = sum;
    }
}

static void one_vector(moment_of *x)
{
    double norm = norm_in(x->u, 0, N);
    EACH(i) x->u[i] /= norm;
}

/* Every element by its own norm. */
static void each_by_itself(moment_of *x) { EACH(i) x->u[i] = sign_of(x->u[i]); }

static void momentum(moment_of *x) { EACH(i) x->u[i] = x->s[0][i] = 0.8 * x->s[0][i] + x->u[i]; }

/* H s of the function above: w + 0.9 cos(3 p) on the diagonal, 0.1 everywhere. */
static void bowl_product(const double *p, const double *s, double *out)
{
    double sum = 0;
    EACH(i) sum += s[i];
    EACH(i) out[i] = (bowl_weight[i] + 0.9 * cos(3 * p[i])) * s[i] + 0.1 * sum;
}

/* u = lr g - (s - mu H s), with mu |s| / |y| every `every` steps where that is not 0. */
static void matrix_momentum(moment_of *x, int every)
{
    double s[N], hs[N], y[N];
    EACH(i)
    {
        s[i] = x->t > 1 ? x->p[i] - x->s[0][i] : 0;
        y[i] = x->g[i] - x->s[1][i];
        x->s[0][i] = x->p[i];
        x->s[1][i] = x->g[i];
    }
    bowl_product(x->p, s, hs);
    if (every && x->t > 1 && (x->t - 2) % every == 0) x->k[0] = norm_in(s, 0, N) / norm_in(y, 0, N);
    EACH(i) x->u[i] = 0.05 * x->u[i] - (s[i] - (every ? x->k[0] : 1) * 0.2 * hs[i]);
}

static void plain_matrix_momentum(moment_of *x) { matrix_momentum(x, 0); }
static void adaptive_matrix_momentum(moment_of *x) { matrix_momentum(x, 1); }
static void seldom_matrix_momentum(moment_of *x) { matrix_momentum(x, 3); }

/* v' = 0.8 v + g; u = 0.03 (g + 0.8 v') + 0.2 v' / |v'| - 0.2 v / |v| + 0.03 0.1 (p + 0.2 v / |v|) */
static void msam_ahead(moment_of *x)
{
    double v[N], before = norm_in(x->s[0], 0, N);
    EACH(i) v[i] = 0.8 * x->s[0][i] + x->u[i];
    double now = norm_in(v, 0, N);
    EACH(i)
    {
        double old = before > 0 ? 0.2 * x->s[0][i] / before : 0;
        x->u[i] = 0.03 * (x->u[i] + 0.8 * v[i]) + 0.2 * v[i] / now - old + 0.003 * (x->p[i] + old);
        x->s[0][i] = v[i];
    }
}

static const reference misc_references[] = {
    {"msam(0.03, 0.8, 0.2, 0.1, nesterov=true)", msam_ahead, 1},
    {"matrix_momentum(0.05, 0.2)", plain_matrix_momentum, 1},
    {"matrix_momentum(0.05, 0.2, adaptive=true)", adaptive_matrix_momentum, 1},
    {"matrix_momentum(0.05, 0.2, adaptive=true, adapt_freq=3)", seldom_matrix_momentum, 1},
    {"to([add(0.3)], \"f32\")", in_single, 0.05},
    {"vector_projection(normalize)", one_vector, 0.01},
    {"scalar_projection(normalize)", each_by_itself, 0.01},
    {"vector_projection([heavy_ball(0.8, ema_init=\"zeros\")], false)", momentum, 0.02},
    {"scalar_projection([heavy_ball(0.8, ema_init=\"zeros\")], true, false, false)", momentum, 0.02},
    {"view_as_real(heavy_ball(0.8, ema_init=\"zeros\"))", momentum, 0.02},
    {"lookahead([heavy_ball(0.8, ema_init=\"zeros\") | lr(0.03)], 4, 0.6)", lookahead, 1},
    {"schedule_free([rmsprop], 0.03, 0.8)", schedule_free, 1},
    {"split(\"axes>=2\", heavy_ball(0.8, ema_init=\"zeros\"), mul(0.5)) | lr(0.05)", split, 1},
    {"lr(0.05) | ema_weights", plain, 1},
    {"lr(0.05) | swa(3, 2)", plain, 1},
    {"exp_homotopy", exp_homotopy, 1e-4},
    {"previous(3)", three_ago, 0.05},
    {"bold_driver(2, 1.01, 0.02)", bold_driver, 1},
    {"mul(fill_loss(2))", fill_loss, 0.01},
    {"mul_by_loss(0.5, 1, false)", mul_by_loss, 0.01},
    {"div_by_loss(2, 1)", div_by_loss, 0.1},
    {"mul(last_absolute_ratio(\"prev\", 0.1))", ratio_to_last, 0.1},
    {"graft_to_params(true, eps=3)", to_params, 0.01},
    {"warmup_norm_clip(8, 0.1, 1)", warmup_norm, 0.1},
    {"sub([hpu_estimate | lr(0.05)])", hessian_along, 0.1},
    {"lr(0.9) | negate_on_loss_increase", never_up, 1},
    {"lr(1.3) | negate_on_loss_increase(true)", opposite_of_up, 0.01},
};

#endif
