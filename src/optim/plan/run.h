/* Running rules over lists of tensors: the interface of plans for callers that run links.
 *
 * Belongs here: the arguments of a run.  Does not: data kept between runs (plan.h), how programs run (program/execute.h). */
#ifndef GD_OPTIM_PLAN_RUN_H
#define GD_OPTIM_PLAN_RUN_H

#include "optim/rule/build.h"

/* Everything a flush works on. */
typedef struct gd_run_args {
    gd_ctx *ctx;
    gd_optimizer *optimizer; /* may be NULL */
    const gd_pending *pending;
    int pendings;
    gd_tensor *const *params;
    gd_tensor *const *keys;        /* whose state and settings are used */
    gd_tensor *const *input;       /* the incoming update: contiguous tensors like the parameters */
    gd_tensor *const *grad;        /* the same; NULL unless a rule reads it */
    gd_tensor *const *output;      /* GD_SINK_UPDATE: new tensors like the parameters, to be filled */
    gd_tensor *const *const *hole; /* what children that are not rules made, in the order of their calls */
    int holes;
    int count;
    gd_sink sink;
    bool input_is_grad;
    bool leaves; /* parameters and input are those of the optimizer's last check */
    bool shards; /* input, and the gradient where it is that, have what this rank owns of them, see share.h */
    bool keeps;  /* output has only shards too: nothing is gathered */
    bool has_loss; /* a rule is known to read the loss, and the loss is known */
    double loss;
    bool *not_finite; /* set when a norm or sum is not finite; may be NULL */
} gd_run_args;

/* Runs the rules.  When a rule calls a child that is not a rule and whose result is not among the holes, the run computes
 * only the child's input, into output, changes no state, and gives the child in *child; otherwise *child is NULL.  Without
 * child, that is an error. */
gd_status gd__run_rules(const gd_run_args *args, gd_link **child);
/* For optimizers that always check: something changed, but its counter was not raised. */
gd_status gd__missed_change(gd_ctx *ctx);
void gd__plans_free(gd_ctx *ctx, gd_plan *plans);
/* The programs that steps of a chain run for parameters of a dtype: what is built in.  Only the passes that rules make. */
gd_status gd__plan_programs(gd_ctx *ctx, const char *chain, gd_dtype dtype,
                            gd_status (*visit)(void *user, const gd_program *p, const gd_pass *pass),
                            void *user);

#endif
