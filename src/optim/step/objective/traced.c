/* Objectives that are recorded once and replayed.
 *
 * An optimizer keeps the recordings of its last objective. The parameters are captured by the objective, in place. */
#include "optim/step/objective/traced.h"
#include "gradus/autograd.h"
#include "trace/trace_internal.h"

#define MOST_SHAPES 8

struct gd_traced_objective {
    gd_trace_set set;
    gd_tensor *(*loss)(void *user);
    void *user;
    gd_var *var; /* of the evaluation that runs */
    int flags;
};

void gd__traced_objective_free(gd_optimizer *o)
{
    if (!o->asked.traced) return;
    gd__trace_set_free(&o->asked.traced->set);
    gd__free(o->ctx, o->asked.traced, sizeof *o->asked.traced);
    o->asked.traced = NULL;
}

static gd_traced_objective *recordings_of(gd_optimizer *o, const gd_objective *objective)
{
    gd_traced_objective *t = o->asked.traced;
    if (t && t->loss == objective->loss && t->user == objective->user) return t;
    gd__traced_objective_free(o);
    if (!(t = gd__calloc(o->ctx, sizeof *t))) return NULL;
    t->loss = objective->loss;
    t->user = objective->user;
    gd__trace_set_init(&t->set, o->ctx, MOST_SHAPES, false);
    return o->asked.traced = t;
}

/* The function, as eval_autograd of closure.c runs it. */
static gd_status evaluate_traced(void *user, gd_tensor *const *params, int count, gd_tensor **outputs)
{
    (void)params;
    gd_traced_objective *t = user;
    gd_ctx *ctx = t->set.ctx;
    int previous = gd_enable_grad_begin(ctx);
    if (!t->flags) gd_no_grad_begin(ctx);
    gd_tensor *result = t->loss(t->user);
    gd_status status = gd__derive(t->var, result, t->flags, false, outputs, t->flags ? outputs + 1 : NULL);
    gd_enable_grad_end(ctx, previous);
    for (int i = 0; i <= count * (t->flags != 0) && !status; i++) status = gd__scope_take(outputs[i]);
    return status;
}

/* Recorded, or evaluated. */
static gd_tensor *const *called_at_length(gd_traced_objective *t, gd_var *var, int kind)
{
    const gd_evaluation what = {.name = kind ? "gradient" : "value",
                                .kind = kind,
                                .body = evaluate_traced,
                                .user = t,
                                .outputs = kind ? 1 + var->count : 1,
                                .brief = true,
                                .direct = true};
    t->var = var;
    t->flags = kind;
    return gd__trace_call(&t->set, &what, var->params, var->count);
}

gd_status gd__traced_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_traced_objective *t = recordings_of(var->optimizer, c->objective);
    int kind = flags & GD_EVAL_BACKWARD;
    if (!t) return GD_NOMEM;
    gd_tensor *const *outputs = gd__trace_briefly(&t->set, kind, var->params, var->count);
    if (!outputs && !(outputs = called_at_length(t, var, kind))) return gd_error(var->ctx);
    gd__retain(*loss = outputs[0]);
    for (int i = 0; i < var->count && kind && grads; i++) gd__retain(grads[i] = outputs[1 + i]);
    return GD_OK;
}
