/* Optimizer steps: every step finds other gradients, as in training. */
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct model {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[PEER_TENSORS], *grad[2][PEER_TENSORS]; /* two sets in turn */
    int count, turn, steps;
    double check;
} model;

/* The links of a rule; in bf16 what it remembers is bf16 too, as in the other systems. */
static const char *chain_of(const char *rule, bool half)
{
    if (!strcmp(rule, "adamw"))
        return half ? "clip_norm(1, dim=\"global\") | adam(state=\"bf16\") | weight_decay(0.01) | lr(1e-3)"
                    : "clip_norm(1, dim=\"global\") | adam | weight_decay(0.01) | lr(1e-3)";
    if (!strcmp(rule, "seven"))
        return "clip_value(1) | weight_decay(1e-3) | lr(2) | adam | weight_decay(0.01) | clip_value(10) | lr(1e-3)";
    if (!strcmp(rule, "lion")) return "lion | weight_decay(0.01) | lr(1e-3)";
    return "adam | lr(1e-3)";
}

static void step(void *job)
{
    model *m = job;
    gd_status status = GD_OK;
    m->turn = !m->turn;
    for (int i = 0; i < m->count && !status; i++) status = gd_set_grad(m->p[i], m->grad[m->turn][i]);
    if (status || gd_optimizer_step(m->o, NULL, NULL)) gradus_check(m->ctx);
}

static void *open_step(void)
{
    model *m = gradus_memory(sizeof *m);
    long sizes[PEER_TENSORS];
    bool half = !strcmp(peer_word("dtype", "f32"), "bf16");
    gd_ctx *ctx = m->ctx = gradus_context();
    m->count = peer_sizes(sizes);
    m->o = gd_optimizer_new(ctx, gd_chain(ctx, chain_of(peer_word("rule", ""), half)));
    for (int i = 0; i < m->count; i++) {
        char name[16];
        int64_t size = sizes[i];
        (void)snprintf(name, sizeof name, "p%d", i);
        m->p[i] = gd_require_grad(gd_full(ctx, half ? GD_BF16 : GD_F32, 1, &size, 0.5));
        for (int k = 0; k < 2; k++) m->grad[k][i] = gd_full_like(m->p[i], 1e-3);
        if (gd_optimizer_add(m->o, name, m->p[i])) break;
    }
    gradus_check(ctx);
    for (int i = 0; i < 3; i++) step(m);
    m->check = fabs(gd_at(m->p[0], (int64_t[]){0}));
    return m;
}

static void check_step(void *job, peer_result *out) { out->check = ((model *)job)->check; }

static void close_step(void *job)
{
    model *m = job;
    gd_optimizer_free(m->o);
    gradus_end(m->ctx);
    free(m);
}

const peer_kind gradus_step = {"step", open_step, step, check_step, close_step};

/* ---- a function of two numbers, gradient and step ---- */

typedef struct valley {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
} valley;

static gd_tensor *loss(void *user)
{
    gd_tensor *x = gd_index(user, "0", 0), *y = gd_index(user, "0", 1);
    gd_tensor *high = gd_mul_scalar(gd_square(gd_sub(y, gd_square(x))), 100);
    return gd_add(gd_square(gd_add_scalar(gd_neg(x), 1)), high);
}

static void *open_rosenbrock(void)
{
    valley *v = gradus_memory(sizeof *v);
    v->ctx = gradus_context();
    v->o = gd_optimizer_new(v->ctx, gd_chain(v->ctx, "adam | lr(0.01)"));
    v->p = gd_require_grad(gd_from_f64(v->ctx, GD_F64, 1, (int64_t[]){2}, (double[]){-1.1, 2.5}));
    if (gd_optimizer_add(v->o, "p", v->p)) gradus_check(v->ctx);
    return v;
}

static void run_rosenbrock(void *job)
{
    valley *v = job;
    if (gd_optimizer_step(v->o, &(gd_objective){.loss = loss, .user = v->p}, NULL)) gradus_check(v->ctx);
}

static void close_rosenbrock(void *job)
{
    valley *v = job;
    gd_optimizer_free(v->o);
    gradus_end(v->ctx);
    free(v);
}

const peer_kind gradus_rosenbrock = {"rosenbrock", open_rosenbrock, run_rosenbrock, NULL, close_rosenbrock};
