/* The inside of optimizers, step variables, closures and plans. */
#ifndef GD_OPTIM_OPTIMIZER_H
#define GD_OPTIM_OPTIMIZER_H

#include "gradus/optim.h"
#include "gradus/schedule.h"
#include "optim/link.h"

/* ---- closures: the objective, possibly seen through links ---- */

enum { GD_EVAL_BACKWARD = 1, GD_EVAL_HISTORY = 2, GD_EVAL_GRAPH = 4 };

typedef struct gd_closure gd_closure;
struct gd_closure {
    /* *loss and grads[0..count) are owned references; grads is NULL without BACKWARD. */
    gd_status (*eval)(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads);
    gd_closure *below; /* NULL for the objective itself */
    const gd_objective *objective;
    gd_reformulate_fn reformulate;
    gd_wrap_fn wrap;
    void *user;
    gd_link *link; /* target = "closure" */
    gd_closure *next_made; /* all closures of a step, freed at its end */
};

/* ---- the variable of a step ---- */

/* How a pending link is applied. */
typedef enum gd_mode { GD_MODE_STEP, GD_MODE_UPDATE, GD_MODE_APPLY } gd_mode;

typedef struct gd_pending {
    gd_link *link; /* borrowed */
    gd_mode mode;
} gd_pending;

#define GD_MAX_PENDING 64

/* Things a var and its clones share. */
typedef struct gd_step_share {
    struct {
        gd_hook_fn fn;
        void *user;
    } *hook;
    int hooks;
    const gd_step_extra *extra;
    bool search_failed, skipped, not_finite;
} gd_step_share;

struct gd_var {
    gd_ctx *ctx;
    gd_optimizer *optimizer;
    gd_var *parent;
    int count;
    gd_tensor *const *params; /* borrowed */
    gd_closure *closure;
    gd_tensor *loss, *loss_approx; /* owned */
    gd_tensor **grad;              /* owned array of owned tensors, or NULL */
    bool grad_history;
    gd_tensor **update;            /* the same; NULL: the gradient */
    bool update_is_grad;           /* no update yet */
    gd_pending pending[GD_MAX_PENDING];
    int pendings;
    gd_step_share *share;
    int64_t step;
    double *last_lrs;
    bool is_last, nested_is_last, stop, skip;
    int8_t terminate; /* -1: nobody said */
};

/* What a flush does with the value at the end of the pending rules. */
typedef enum gd_sink {
    GD_SINK_UPDATE, /* becomes var->update */
    GD_SINK_PARAMS, /* is subtracted from the parameters */
    GD_SINK_NOTHING /* only state changes count */
} gd_sink;

gd_status gd__var_flush(gd_var *var, gd_sink sink);
/* Appends a fusable link. */
gd_status gd__var_append(gd_var *var, gd_link *link, gd_mode mode);
/* Loss and gradient if not there yet; flags as closures take. */
gd_status gd__var_need_grad(gd_var *var, bool history);
gd_tensor **gd__tensors_new(gd_ctx *ctx, int count); /* zeroed array */
void gd__tensors_free(gd_ctx *ctx, gd_tensor **t, int count); /* releases entries and the array; NULL is fine */
void gd__var_init(gd_var *var, gd_optimizer *optimizer, gd_ctx *ctx, gd_tensor *const *params, int count);
void gd__var_clear(gd_var *var);

gd_status gd__closure_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads);
gd_closure *gd__closure_push(gd_var *var);
gd_status gd__objective_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads);

/* ---- plans: what a flush runs ---- */

typedef struct gd_plan gd_plan;

/* Everything a flush works on. */
typedef struct gd_run_args {
    gd_ctx *ctx;
    gd_optimizer *optimizer; /* may be NULL */
    const gd_pending *pending;
    int pendings;
    gd_tensor *const *params;
    gd_tensor *const *input; /* the incoming update: contiguous tensors */
    gd_tensor *const *grad;  /* NULL unless a rule reads it */
    gd_tensor **output;      /* GD_SINK_UPDATE: filled with new tensors */
    int count;
    gd_sink sink;
    bool input_is_grad;
    double loss;
} gd_run_args;

gd_status gd__run_rules(const gd_run_args *args);
bool gd__rules_use_grad(const gd_pending *pending, int pendings);
bool gd__rules_use_loss(const gd_pending *pending, int pendings);
void gd__plans_free(gd_ctx *ctx, gd_plan *plans);
gd_status gd__plan_programs(gd_ctx *ctx, const char *chain, gd_dtype dtype,
                            gd_status (*visit)(void *user, const gd_program *p, const gd_pass *pass), void *user);

/* Builds the program of some links for one parameter (its structural settings count). */
typedef struct gd_build {
    gd_ctx *ctx;
    gd_optimizer *optimizer;
    const gd_pending *pending;
    int pendings;
    gd_tensor *param;
    gd_dtype input_dtype, grad_dtype, state_dtype;
    bool input_is_grad;
    gd_sink sink;
} gd_build;
gd_program *gd__build(const gd_build *build); /* new; NULL on failure */
void gd__program_free(gd_program *p);

/* ---- optimizers ---- */

typedef struct gd_group_setting {
    const char *key; /* interned */
    gd_setting value;
    gd_schedule schedule; /* of kind INVALID: none */
} gd_group_setting;

typedef struct gd_group {
    gd_group_setting *setting;
    int settings;
} gd_group;

typedef struct gd_param {
    gd_tensor *tensor; /* retained */
    char *name;
    int group;
} gd_param;

typedef struct gd_attr {
    const char *name; /* interned */
    double value;
    gd_tensor *tensor;
} gd_attr;

struct gd_optimizer {
    gd_ctx *ctx;
    gd_link *chain;
    gd_param *param;
    int count, capacity;
    int32_t *table; /* open addressing: hash of the tensor's address to its number + 1 */
    int table_size;
    gd_group *group;
    int groups;
    gd_attr *attr;
    int attrs;
    int64_t step, evals;
    bool should_terminate;
    uint64_t group_stamp; /* changes with every group setting */
    gd_tensor **active;   /* params of the current step */
    gd_tensor **grads;    /* gradients of a step without closure; borrowed */
    int active_capacity;
    gd_plan *plans;
    gd_closure *closures;
    gd_tensor *first_loss; /* owned; what the step returns */
};

/* Number of a parameter, -1 if it is not one. */
int gd__param_index(const gd_optimizer *optimizer, const gd_tensor *param);
const gd_setting *gd__group_setting(const gd_optimizer *optimizer, const gd_tensor *param, const char *key);
gd_status gd__set_attr(gd_optimizer *optimizer, const char *name, double value, gd_tensor *tensor);

/* Reads "lr=0.1, amsgrad=true" and calls fn for each pair. */
gd_status gd__settings_parse(gd_ctx *ctx, const char *text,
                             gd_status (*fn)(void *user, const char *key, const gd_setting *value), void *user);

/* Every link of a tree, parents first. */
typedef gd_status (*gd_visit_fn)(void *user, gd_link *link, const char *path);
gd_status gd__visit_links(gd_link *link, const char *path, gd_visit_fn fn, void *user);

#endif
