/* References of clipping, signs and weight decay. */
#ifndef GD_TESTS_OPTIM_REFERENCE_BOUNDS_H
#define GD_TESTS_OPTIM_REFERENCE_BOUNDS_H

#include "reference.h"

/* A norm that may be 0.9 times the last one at most, where the last one falls by no more than 1.05 in a step. */
static void norm_growth(moment_of *x, int from, int to, double *last)
{
    double norm = norm_in(x->u, from, to), most;
    if (x->t == 1) *last = norm;
    most = 0.9 * fmax(*last, 1e-4);
    for (int i = from; i < to && norm > most; i++) x->u[i] *= most / norm;
    *last = fmax(fmin(norm, most), *last / 1.05);
}

static void clip_norm_growth(moment_of *x)
{
    for (int k = 0; k < TENSORS; k++) norm_growth(x, begin[k], begin[k + 1], &x->k[k]);
}

static void clip_global_norm_growth(moment_of *x) { norm_growth(x, 0, N, x->k); }

/* Elements that may be 0.8 times their last magnitude plus nothing, or that plus 0.01, whichever is less. */
static void clip_value_growth(moment_of *x)
{
    EACH(i)
    {
        double size = fabs(x->u[i]), *last = &x->s[0][i];
        if (x->t == 1) *last = size;
        double from = fmax(*last, 1e-3), most = fmin(0.8 * from, from + 0.01);
        x->u[i] = clip(x->u[i], most);
        *last = fmax(fmin(size, most), *last / 1.1);
    }
}

static void sign_consistency_mask(moment_of *x)
{
    EACH(i)
    {
        double now = sign_of(x->u[i]);
        if (now * x->s[0][i] < 0) x->u[i] = 0;
        x->s[0][i] = now;
    }
}

/* The part of Rprop that takes steps back; s: the sign that counts, the last update. */
static void backtrack(moment_of *x)
{
    EACH(i)
    {
        double now = sign_of(x->u[i]);
        bool turned = now * x->s[0][i] < 0;
        if (turned) x->u[i] = -x->s[1][i];
        x->s[0][i] = turned ? 0 : now;
        x->s[1][i] = x->u[i];
    }
}

/* arXiv 2510.12402, algorithm 1: decay where update and parameter have one sign; here of p |p|. */
static void cautious_decay(moment_of *x)
{
    EACH(i) if (x->u[i] * x->p[i] > 0) x->u[i] += 0.1 * x->p[i] * fabs(x->p[i]);
}

static void sign_decay(moment_of *x) { EACH(i) if (x->u[i] * x->p[i] > 0) x->u[i] += 0.1 * sign_of(x->p[i]); }

/* The share of elements of a tensor where momentum and gradient agree divides their mask. */
static void consistency(moment_of *x)
{
    for (int k = 0; k < TENSORS; k++) {
        double agree = 0;
        EACH_OF(i, k)
        {
            x->s[0][i] = 0.9 * x->s[0][i] + x->u[i];
            x->u[i] = x->s[0][i] * x->g[i] > 0;
            agree += x->u[i];
        }
        EACH_OF(i, k) x->u[i] /= fmax(agree / (begin[k + 1] - begin[k]), 1e-6);
    }
}

static const reference bounds_references[] = {
    {"clip_norm_growth(mul=0.9, max_decay=1.05)", clip_norm_growth, 0.1},
    {"clip_norm_growth(mul=0.9, max_decay=1.05, parameterwise=false)", clip_global_norm_growth, 0.1},
    {"clip_value_growth(0.01, 0.8, 1e-3, 1.1)", clip_value_growth, 0.1},
    {"mul(sign_consistency_mask)", sign_consistency_mask, 0.4},
    {"backtrack_on_sign_change", backtrack, 0.4},
    {"cautious_weight_decay(0.1, 3)", cautious_decay, 0.1},
    {"cautious_weight_decay(0.1, 1)", sign_decay, 0.1},
    {"heavy_ball(ema_init=\"zeros\") | update_gradient_sign_consistency(normalize=true)", consistency, 0.01},
};

#endif
