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
    bool scoped; /* wrap makes new tensors, as users' functions do; else owned ones */
    void *user;
    gd_link *link;         /* target = "closure" */
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
    } * hook;
    int hooks;
    const gd_step_extra *extra;
    struct gd_attr *stored; /* what links put into the storage */
    int stores;
    bool search_failed, skipped, not_finite;
    bool flat;    /* a search began where the gradient is 0 */
    bool endless; /* the longest step that a search would take was still downhill */
} gd_step_share;

void gd__share_clear(gd_ctx *ctx, gd_step_share *share); /* frees what it holds */

struct gd_var {
    gd_ctx *ctx;
    gd_optimizer *optimizer;
    gd_var *parent;
    int count;
    gd_tensor *const *params; /* borrowed */
    gd_tensor *const *keys;   /* whose state links use: the parameters, unless states are given explicitly */
    gd_closure *closure;
    gd_tensor *loss, *loss_approx; /* owned */
    gd_tensor **grad;              /* owned array of owned tensors, or NULL */
    gd_tensor **update;            /* the same; NULL: the gradient */
    gd_step_share *share;
    gd_link *curved; /* the last link that ran and has a Hessian; borrowed */
    int64_t step;
    double *last_lrs;
    bool grad_history;
    bool update_is_grad; /* no update yet */
    bool is_last, nested_is_last, stop, skip, held;
    int8_t terminate; /* -1: nobody said */
    int pendings;
    gd_pending pending[GD_MAX_PENDING]; /* last: only the used part is ever written */
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
void gd__tensors_free(gd_ctx *ctx, gd_tensor **t,
                      int count); /* releases entries and the array; NULL is fine */
/* Owned tensors become new ones: the innermost scope's, or the caller's.  All of them or, when there is no memory, none. */
gd_status gd__give_out(gd_ctx *ctx, gd_tensor **t, int count);
void gd__var_init(gd_var *var, gd_optimizer *optimizer, gd_ctx *ctx, gd_tensor *const *params, int count);
void gd__var_clear(gd_var *var);

/* Owned references of all in a new list; NULL for NULL, or with NOMEM recorded. */
gd_tensor **gd__tensors_share(gd_ctx *ctx, gd_tensor *const *t, int count);
/* Owned copies of all in a new list, without history; NULL with the error recorded. */
gd_tensor **gd__tensors_copy(gd_ctx *ctx, gd_tensor *const *t, int count);
/* Brings the entries of an owned list into the order of their parameters' names and labels, then checks them as below. */
gd_status gd__fit_like(gd_ctx *ctx, const char *what, gd_tensor **t, gd_tensor *const *params, int count);
/* SHAPE unless every tensor is shaped like its parameter and on its device. */
gd_status gd__check_like(gd_ctx *ctx, const char *what, gd_tensor *const *t, gd_tensor *const *params,
                         int count);

/* On failure everything is released and NULL. */
/* True when the objective itself has products with its Hessian, and no link has changed it. */
bool gd__var_gives_products(const gd_var *var);
gd_status gd__closure_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads);
gd_closure *gd__closure_push(gd_var *var);
/* Like the public functions of these names, but what they make, or fn makes, is owned by the caller whatever the scope. */
gd_status gd__var_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
gd_status gd__var_inner_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
gd_status gd__var_wrap_closure(gd_var *var, gd_wrap_fn fn, void *user);
gd_status gd__var_save_params(gd_var *var, gd_tensor **copies);
/* Entries of tensors are owned: each is released and a new one put in its place. */
gd_status gd__link_transform(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                             gd_tensor *const *grads, gd_var *var, int count);
gd_status gd__objective_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss,
                             gd_tensor **grads);

/* ---- plans: what a flush runs ---- */

typedef struct gd_plan gd_plan;

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
    gd_tensor *const *const *hole; /* what children that are no rules made, in the order of their calls */
    int holes;
    int count;
    gd_sink sink;
    bool input_is_grad;
    double loss;
    bool *not_finite; /* set when a norm or sum is not finite; may be NULL */
} gd_run_args;

/* Runs the rules.  When a rule calls a child that is no rule and whose result is not among the holes, the run computes
 * only the child's input, into output, changes no state, and gives the child in *child; otherwise *child is NULL.  Without
 * child, that is an error. */
gd_status gd__run_rules(const gd_run_args *args, gd_link **child);
/* What rules read besides the update. */
typedef struct gd_needs {
    bool grad, loss;
} gd_needs;
gd_needs gd__rules_need(const gd_pending *pending, int pendings);
/* After a run that failed: true when it showed that the rules read more than was known.  Then *had says what, the error is
 * cleared and the run is to be made again with it. */
bool gd__rules_need_more(gd_ctx *ctx, const gd_pending *pending, int pendings, gd_needs *had);
void gd__plans_free(gd_ctx *ctx, gd_plan *plans);
/* The programs that steps of a chain run for parameters of a dtype: what is built in.  Only the passes that rules make. */
gd_status gd__plan_programs(gd_ctx *ctx, const char *chain, gd_dtype dtype,
                            gd_status (*visit)(void *user, const gd_program *p, const gd_pass *pass),
                            void *user);

/* Builds the program of some links for one parameter (its structural settings count). */
typedef struct gd_build {
    gd_ctx *ctx;
    gd_optimizer *optimizer;
    const gd_pending *pending;
    int pendings;
    gd_tensor *param, *key;
    gd_dtype input_dtype, grad_dtype;
    int holes; /* children's results that are there */
    bool input_is_grad;
    gd_sink sink;
    gd_link *child; /* out: the program makes the input of this child, which is no rule */
} gd_build;
gd_program *gd__build(gd_build *build); /* new; NULL on failure */

/* ---- optimizers ---- */

typedef struct gd_group_setting {
    const char *key; /* interned */
    gd_setting value;
    gd_schedule schedule; /* of kind INVALID: none */
    bool shapes;          /* a link reads it when its program is made */
    bool whole;           /* a link takes only whole numbers: those of a schedule are snapped to them */
} gd_group_setting;

typedef struct gd_group {
    gd_group_setting *setting;
    int settings, room;
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
    gd_table table; /* from tensors to numbers of parameters */
    gd_module *model;
    bool several_models; /* then there is none */
    gd_group *group;
    int groups, group_room;
    gd_group all;     /* for the groups that do not say otherwise */
    int keys;         /* settings in groups and in all: 0, and links' own settings are in force */
    bool mixed;       /* as of `settled`: parameters may have different settings */
    uint64_t settled; /* `numbers` when the settings in force were last looked at */
    gd_attr *attr;
    int attrs;
    int64_t step, evals;
    int64_t held; /* steps that let nothing through: schedules do not count them */
    bool should_terminate;
    unsigned hinted;      /* hints that were given (var.c) */
    bool stepping;        /* inside a step: parameters and links stay as they are */
    bool no_fusion;       /* for tests: a pass for every link */
    bool interpret;       /* for tests: no kernels */
    gd_dtype state_dtype; /* GD_DTYPE_COUNT: as the parameter, but at least f32 */
    uint64_t stamp;       /* changes when plans are no longer right; from 1 */
    uint64_t numbers;     /* changes with every number in a setting */
    uint64_t moves;       /* the context's when state last followed its parameters */
    gd_dtype vectors;     /* what vectors of all parameters were computed in then */
    uint64_t drops;       /* the context's when dropped parameters were last counted */
    int dropped;          /* parameters that modules have replaced or deleted */
    bool capture;         /* see gd_optimizer_capture */
    int64_t replays;
    int runs;           /* of plans in the current step */
    gd_plan *last_plan; /* of them, borrowed */
    struct {
        gd_plan *plan; /* what the last step without objective was, if the next can be the same; borrowed */
        uint64_t changes, stamp;
    } again;
    int most_pending;   /* links that fit into a program */
    gd_tensor **active; /* params of the current step */
    int active_capacity;
    gd_plan *plans;
    gd_closure *closures;
    gd_tensor *first_loss; /* owned; what the step returns */
    gd_hook_fn watch;      /* called at the end of every step, NULL: nothing is */
    void *watch_user;
    bool careful;  /* flags that are left open count as set: searches go downhill, first steps are short */
    bool steepest; /* and the next search is along the gradient: the last one failed */
    struct gd_memo *memo; /* evaluations remembered; NULL: none, the objective may change from step to step */
};

/* A flag of a link, or where it is left open whether the run is a careful one. */
bool gd__open_flag(const gd_link *link, const char *name);
/* An error while a step is under way. */
gd_status gd__not_stepping(gd_optimizer *optimizer, const char *what);
/* A copy on a device; new, owned. */
gd_tensor *gd__copy_on(gd_tensor *t, gd_device *device);
/* What vectors of all parameters are computed in: f64 where one of them is f64, else f32. */
gd_dtype gd__vectors_dtype(const gd_optimizer *optimizer);
/* Brings state to the devices and dtypes that parameters have been moved to; it stays where it is when that fails. */
gd_status gd__state_follow(gd_optimizer *optimizer);
/* Number of a parameter, -1 if it is not one. */
int gd__param_index(const gd_optimizer *optimizer, const gd_tensor *param);
gd_status gd__set_attr(gd_optimizer *optimizer, const char *name, double value, gd_tensor *tensor);
void gd__group_free(gd_ctx *ctx, gd_group *group);
/* The setting of a key in a group (also one that is not in the optimizer yet), made if it is not there. */
gd_group_setting *gd__group_key(gd_optimizer *optimizer, gd_group *group, const char *key);
/* Do the links that have such a setting take this value, and those of a schedule if there is one? */
gd_status gd__group_check(gd_optimizer *optimizer, const char *key, const gd_setting *value,
                          const gd_schedule *schedule);
/* Must follow every change of groups: which group, whose setting, which number. */
void gd__groups_changed(gd_optimizer *optimizer);
/* Do a link that is to join the chain, and those below it, take what groups and schedules have for them? */
gd_status gd__groups_fit(gd_optimizer *optimizer, gd_link *child);
/* After the chain got other links: what settings do to them. */
void gd__groups_look_again(gd_optimizer *optimizer);
/* Before a step: schedules say their numbers, and settings that links have once a step are the same for all parameters. */
gd_status gd__settings_begin(gd_optimizer *optimizer);
/* Does some link read this setting when its program is made? */
bool gd__shapes(const gd_link *link, const char *key);

/* Reads "lr=0.1, amsgrad=true" and calls fn for each pair. */
gd_status gd__settings_parse(gd_ctx *ctx, const char *text,
                             gd_status (*fn)(void *user, const char *key, const gd_setting *value),
                             void *user);

/* Every link of a tree, parents first.  Paths are like "1:adam.0:clip_value": number and class of each child on the way. */
typedef gd_status (*gd_visit_fn)(void *user, gd_link *link, const char *path);
gd_status gd__visit_links(gd_link *link, const char *path, gd_visit_fn fn, void *user);

#endif
