/* What holds for any text in the place of an optimizer's saved structure: loading it succeeds or is refused with a reason, and
 * afterwards the optimizer takes its own state back and steps.  The fuzzer and the replay of its corpus check it. */
#ifndef GD_TESTS_OPTIM_STATE_PROPERTY_H
#define GD_TESTS_OPTIM_STATE_PROPERTY_H

#include "gradus/gradus.h"

#include <string.h>

typedef struct state_trial {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
    gd_archive *good;
} state_trial;

static inline gd_tensor *state_bowl(void *user) { return gd_sum(gd_square(user), NULL, false); }

static inline gd_status state_step(state_trial *t)
{
    return gd_optimizer_step(t->o, &(gd_objective){.loss = state_bowl, .user = t->p}, NULL);
}

/* False when it cannot be made. */
static inline bool state_begin(state_trial *t, gd_ctx *ctx)
{
    *t = (state_trial){.ctx = ctx};
    t->p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){1, -2, 0.5}));
    t->o = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1) | adam(amsgrad=true) | lbfgs | lr(0.1)"));
    t->good = gd_archive_new(ctx);
    if (!t->p || !t->o || !t->good || gd_optimizer_add(t->o, "p", t->p)) return false;
    if (gd_optimizer_schedule(t->o, 0, "lr", "linear(0.1, 0.01, 5)")) return false;
    return !state_step(t) && !state_step(t) && !gd_optimizer_pack(t->o, t->good, NULL);
}

static inline void state_end(state_trial *t)
{
    gd_archive_free(t->good);
    gd_optimizer_free(t->o);
    gd_release(t->p);
}

/* What is wrong; NULL: nothing. */
static inline const char *state_fault(state_trial *t, const char *text)
{
    gd_archive *crafted = gd_archive_new(t->ctx);
    for (int64_t i = 0; i < gd_archive_count(t->good); i++)
        if (gd_archive_put(crafted, gd_archive_name(t->good, i), gd_archive_get(t->good, i))) return "put";
    const char *fault = NULL;
    /* what is no text is refused before it gets to the optimizer */
    if (!gd_archive_set_meta(crafted, "optimizer", text))
        for (int strict = 0; strict < 2 && !fault; strict++) {
            gd_status status = gd_optimizer_unpack(t->o, crafted, NULL, strict);
            if (status != gd_error(t->ctx)) fault = "another error is recorded than returned";
            if (status && strlen(gd_error_text(t->ctx)) < 10) fault = "no reason is given";
            gd_clear_error(t->ctx);
        }
    gd_clear_error(t->ctx);
    gd_archive_free(crafted);
    if (!fault && gd_optimizer_unpack(t->o, t->good, NULL, true)) fault = gd_error_text(t->ctx);
    if (!fault && state_step(t)) fault = gd_error_text(t->ctx);
    return fault;
}

#endif
