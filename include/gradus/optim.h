/* gradus/optim.h: optimizers made of links.
 *
 *     static gd_tensor *loss(void *user) { gd_tensor *p = user; return gd_sum(gd_square(p), NULL, false); }
 *
 *     gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1) | adam | lr(0.1)"));
 *     gd_status status = gd_optimizer_add(opt, "p", p);
 *     gd_objective objective = {.loss = loss, .user = p};
 *     for (int i = 0; i < 100 && !status; i++) status = gd_optimizer_step(opt, &objective, NULL);
 *     gd_optimizer_free(opt);
 *
 * A step evaluates the objective when a link needs loss or gradient, passes the update through the links and
 * subtracts it from the parameters.  Without an objective it uses the gradients that gd_backward left on them. */
#ifndef GRADUS_OPTIM_H
#define GRADUS_OPTIM_H

#include "gradus/chain.h"
#include "gradus/file.h"
#include "gradus/link.h"
#include "gradus/module.h"
#include "gradus/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what is minimised ---- */

/* Residuals by ranges of rows, for long tables: the results of a range are used and freed before the next, and ranges run in
 * parallel on the threads of the context.  Results have the same bits for any number of threads. */
typedef struct gd_rows {
    int64_t count; /* rows */
    gd_tensor *const
        *data;   /* tables on the CPU with `count` rows along their first axis; borrowed; NULL: none */
    int columns; /* how many tables */
    void *user;
    /* Creates and frees the state of a thread, given its context; NULL: `user` is passed instead.  open returns NULL with the
     * error recorded in ctx on failure. */
    void *(*open)(void *user, gd_ctx *ctx);
    void (*close)(void *state);
    /* The residuals of the rows from `first` on, as many as data[i] has: any number per row, made with operators.  Parameters and
     * tables are tensors of the thread's context and must not be combined with tensors of other contexts; tables have the
     * names of their axes but no labels.  It may run on several threads at once and must draw no random numbers. */
    gd_tensor *(*residuals)(void *state, gd_tensor *const *params, gd_tensor *const *data, int64_t first);
    /* The world whose ranks share the rows, borrowed; NULL: this process has all rows.  `count` is the total of all ranks; `data` has
     * the rows that gd_rows_share gives to this rank, or all rows; `first` counts from the first row of all.  Results of the ranks are
     * joined in the order of the rows: the same bits for any number of ranks, and for more than 1024 rows as in one process.  MISMATCH: a
     * rank has a different `count` or different parameters. */
    gd_world *world;
    /* `residuals` does the same for every range (it may use `first` only to look something up that does not change the result): it is
     * recorded in the first ranges and replayed in the others (gradus/trace.h), with the same bits.  Functions that cannot be traced run
     * each time. */
    bool traced;
} gd_rows;

/* The rows of `count` that belong to this rank: *own of them from *first on.  Ranks have multiples of 1024 rows, as
 * evenly as that allows.  world NULL: all rows. */
void gd_rows_share(const gd_world *world, int64_t count, int64_t *first, int64_t *own);

/* A loss over the rows of a batch, by ranges of rows.  A microbatch is a fixed number of rows (the last may have fewer).  Each
 * microbatch is evaluated separately, by the rank of `world` that gd_world_share assigns, and gradients and losses are added in
 * one fixed order (gd_microbatches): equal microbatches give equal bits for any number of ranks, including one.
 *
 *     static gd_tensor *mean_loss(void *user, int64_t first, int64_t count)
 *     {
 *         return gd_mean(gd_square(gd_slice(user, "0", first, first + count, 1)), NULL, false);
 *     }
 *     gd_batch batch = {.rows = 256, .microbatch = 32, .user = p, .loss = mean_loss};
 *     gd_status status = gd_minimize(&p, 1, &(gd_objective){.batch = &batch}, "lbfgs", NULL, NULL);
 *
 * All ranks need the same parameters and the same state of the context's generator (gd_seed): inside the function random
 * operators draw from a stream of the microbatch and the evaluation.  If a rank fails all ranks return its error.  MISMATCH names the
 * ranks that differ in rows, microbatch, generator or, at the first evaluation, parameters. */
typedef struct gd_batch {
    int64_t rows;       /* of the whole batch, on all ranks together */
    int64_t microbatch; /* rows of a microbatch; 0: all of them */
    gd_world *world;    /* NULL: this process has all microbatches; borrowed */
    gd_reduce how;      /* FAST: sums of the ranks in any order, without equal bits */
    bool sums; /* `loss` returns a sum over its rows; else a mean, which is weighted by its number of rows */
    void *user;
    /* The loss of some rows of the batch, made of operators: a number, or a vector of residuals whose sum of squares over
     * all rows is minimised.  One element for several rows is a number, whatever its shape; for one row a vector of one element is
     * a residual.  It runs once per microbatch of this rank, in order. */
    gd_tensor *(*loss)(void *user, int64_t first, int64_t count);
} gd_batch;

/* One evaluation by one callback: everything that an objective has at a point.  A request is a sum of these. */
typedef enum gd_want {
    GD_WANT_LOSS = 1,
    GD_WANT_GRADIENT = 2,
    GD_WANT_EQUAL = 4,
    GD_WANT_BELOW = 8,
    GD_WANT_EQUAL_JACOBIAN = 16,
    GD_WANT_BELOW_JACOBIAN = 32,
    GD_WANT_HESSIAN = 64,
    GD_WANT_RESIDUALS = 128,
    GD_WANT_RESIDUAL_JACOBIAN = 256
} gd_want;

/* Results that gd_objective.evaluate computes in a call. */
typedef struct gd_request {
    unsigned wanted; /* a sum of gd_want, all of them in gd_objective.gives */
    /* False: the parameters have the values of the call before, so work done then serves again */
    bool new_point;
    /* HESSIAN: of weight * loss + multipliers * (equal, below); multipliers: one per constraint, borrowed; NULL: all are 0 */
    double weight;
    const double *multipliers;
    int64_t multiplier_count;
} gd_request;

/* The results of a call, NULL before it; new or borrowed.  n counts the elements of all parameters that want gradients, in order.
 * Quantities that are wanted and stay NULL are an error; others are ignored. */
typedef struct gd_answer {
    gd_tensor *loss;              /* one element */
    gd_tensor *gradient;          /* n elements */
    gd_tensor *equal, *below;     /* one element per constraint */
    gd_tensor *equal_jacobian;    /* [constraints, n] */
    gd_tensor *below_jacobian;    /* [constraints, n] */
    gd_tensor *hessian;           /* [n, n], symmetric */
    gd_tensor *residuals;         /* [m] */
    gd_tensor *residual_jacobian; /* [m, n] */
} gd_answer;

/* Either `loss`, a function made of operators, which autograd differentiates.  A vector is residuals whose sum of squares is
 * minimised; one element is the loss, whatever its shape (a single residual goes into `residuals`).  Or callbacks that compute the
 * numbers: they read the current parameters and write into tensors of the same shapes.  `value` or `values` alone is
 * enough: links that ask for gradients or products with the Hessian get central differences inside the bounds (gd_difference_gradient), and
 * so do constraints that are numbers.  A callback fails by returning NULL or a status (record the reason with gd_fail). */
typedef struct gd_objective {
    void *user;
    gd_tensor *(*loss)(void *user);
    gd_status (*value)(void *user, double *loss);
    gd_status (*gradient)(void *user, double *loss, gd_tensor *const *grads);
    gd_status (*hvp)(void *user, gd_tensor *const *v,
                     gd_tensor *const *out); /* products with the Hessian, instead of autograd; may be NULL */
    gd_tensor *(*residuals)(void *user);     /* a vector made of operators; may be NULL */
    /* Residuals r [m] and their Jacobian j [m, n] over all elements of the parameters in their order, instead of autograd; new;
     * may be NULL.  Alone it is enough: the loss is the sum of squares, its gradient 2 j^T r */
    gd_status (*jacobian)(void *user, gd_tensor **j, gd_tensor **r);
    /* The losses [k] of k points [k, n], each with all elements of the parameters in their order, for links that evaluate
     * many points at once (gd_var_evaluate_many); may be NULL */
    gd_tensor *(*values)(void *user, gd_tensor *points);
    /* Residuals by ranges of rows, borrowed; may be NULL.  Alone it is enough for links that need values, gradients or
     * Jacobians; together with `loss` it is used for Jacobians of many rows. */
    const gd_rows *rows;
    /* A loss by ranges of rows instead of all members above except `hvp`, borrowed; may be NULL.  It has values, gradients and
     * Hessian products, but no graph */
    const gd_batch *batch;
    /* Constraints, for chains with nlp or augmented_lagrangian: numbers or vectors, constrained to equal 0, and to be at most 0; those that
     * are not made of operators are differentiated by differences; may be NULL */
    gd_tensor *(*equal)(void *user);
    gd_tensor *(*below)(void *user);
    /* As `gradient`, and keeps its evaluation: `hvp` then uses the evaluation kept last, at its parameters.  Links that need
     * products call it once per step, and no other gradient.  NULL: `hvp` evaluates at the current parameters each time, and is not
     * counted as an evaluation */
    gd_status (*gradient_kept)(void *user, double *loss, gd_tensor *const *grads);
    /* `loss` does the same work each time, so it is recorded and replayed with the same bits (gradus/trace.h lists the conditions).
     * Parameters and captured tensors may change in place, but captured tensors must not be replaced.  Evaluations whose graph
     * a link needs run the function. */
    bool traced;
    /* All quantities by one callback, instead of all members above except `user`, `hvp` and `values`; may be NULL.  `gives` is a sum of gd_want
     * with LOSS or RESIDUALS: what it computes.  Values whose derivatives are not in `gives` must be made of operators, and autograd
     * differentiates them; those whose derivatives are may be plain numbers (gd_from_f64).  All values are wanted in the first call at a
     * point, so one simulation serves loss and constraints; first derivatives follow in one call for all that have them, at the same point.
     * HESSIAN needs GRADIENT and the Jacobians of the constraints that are given.  gd_solve_result.evals counts calls with new_point,
     * constraint_evals calls that want constraints.  ARGUMENT: members that exclude each other, or `gives` without values. */
    gd_status (*evaluate)(void *user, const gd_request *request, gd_answer *out);
    unsigned gives;
    /* The name of a constraint for messages: that of `below`, else of `equal`, from 0; borrowed until the next call.  NULL, or if it returns
     * NULL: its number */
    const char *(*constraint_name)(void *user, bool below, int64_t index);
} gd_objective;

/* The outcome of a step.  Numerical events are data, not errors. */
typedef struct gd_step_info {
    double loss; /* the first evaluation inside the step; NAN if there was none */
    bool has_loss;
    bool finite;              /* loss and, if computed, gradients were finite */
    bool search_failed;       /* a line search or trust region found no better point */
    bool skipped;             /* a link skipped the update */
    bool terminate;           /* a termination link requests the end */
    int64_t step;             /* steps done, including this one */
    int64_t evals;            /* evaluations so far */
    int64_t constraint_evals; /* of the constraints so far, at most one per point (with `evaluate`: calls) */
    double
        kkt; /* with bounds: the largest element of x - P(x - gradient) at the start of the step, P the projection
                    onto the bounds; with constraints that of the Lagrangian; NAN: neither, or no gradient was computed */
    double
        violation; /* with constraints: the largest |equal| or positive below at the start of the step; else NAN */
    int detached_params; /* parameters that their module has replaced or deleted: see gd_optimizer_rebind */
} gd_step_info;

/* ---- optimizers ---- */

/* Makes an optimizer of a chain (consumed, on failure too).  New; NULL for an empty or NULL chain. */
gd_optimizer *gd_optimizer_new(gd_ctx *ctx, gd_link *chain);
void gd_optimizer_free(gd_optimizer *optimizer);            /* with its chain and state; NULL is fine */
gd_ctx *gd_optimizer_ctx(const gd_optimizer *optimizer);    /* borrowed */
gd_link *gd_optimizer_chain(const gd_optimizer *optimizer); /* borrowed */
/* Sets the dtype of new state of element-wise links without a setting "state".  GD_BF16 and GD_F16, with stochastic rounding, halve
 * the memory; GD_U8 means codes of eight bits in blocks of 256 (f32 for parameters of fewer than 4096 elements or with permuted
 * strides).  GD_DTYPE_COUNT, the default: f64 for f64 parameters, else f32.  Arithmetic is always in f32, for f64 parameters in f64.
 * docs/state.md compares them. */
GD_NODISCARD gd_status gd_optimizer_state_dtype(gd_optimizer *optimizer, gd_dtype dtype);

/* Adds one parameter to the first group, under a unique name for checkpoints.  The optimizer holds a reference.
 * Parameters are leaves of a floating dtype; steps skip those that want no gradients.  Their memory has no
 * gaps (SHAPE) and any order of axes (such as channels last): element-wise links pass over memory in its order, without copies if the
 * gradient has the same strides, and sums are in that order. */
GD_NODISCARD gd_status gd_optimizer_add(gd_optimizer *optimizer, const char *name, gd_tensor *param);
/* A group with settings of its own: "lr=0.1, momentum=0.5" (NULL: none).  Stores its number in *group if not NULL. */
GD_NODISCARD gd_status gd_optimizer_add_group(gd_optimizer *optimizer, const char *const *names,
                                              gd_tensor *const *params, int count, const char *settings,
                                              int *group);
/* The same with settings as values instead of text: numbers, flags, schedules, none, and strings with any characters. */
GD_NODISCARD gd_status gd_optimizer_add_group_with(gd_optimizer *optimizer, const char *const *names,
                                                   gd_tensor *const *params, int count,
                                                   const gd_link_option *settings, int settings_count,
                                                   int *group);
/* Adds such settings to an existing group: all of them or, on failure, none. */
GD_NODISCARD gd_status gd_optimizer_group_settings(gd_optimizer *optimizer, int group,
                                                   const gd_link_option *settings, int count);
/* All parameters of a module tree whose dotted names match the glob (NULL: all). */
GD_NODISCARD gd_status gd_optimizer_add_module(gd_optimizer *optimizer, gd_module *module, const char *glob,
                                               const char *settings);
/* The module of its parameters; borrowed, held by the optimizer.  NULL: none was given, or more than one. */
gd_module *gd_optimizer_model(const gd_optimizer *optimizer);
/* Replaces parameters by the module's current tensors of the same names; groups, settings and state stay.  Call it after assigning
 * a new tensor to an attribute.  Until then the optimizer updates the old tensor, warns at its next step, and
 * gd_step_info counts it in detached_params.  Other parameters stay.  ATTRIBUTE if the module has none of them, SHAPE if one
 * has different sizes, axis names or labels; nothing changes then. */
GD_NODISCARD gd_status gd_optimizer_rebind(gd_optimizer *optimizer, gd_module *module);
/* Does a parameter match a selection?  A selection is a glob of names ("*.bias") or a condition
 *     axes>=2    numel<1000    axis=channels    label=channels.red    label=*.red
 * (< <= > >= = !=; globs for names of axes and labels), "not" before one, and several of them joined by "," or "and", which
 * bind closer, or by "or".  A backslash takes the next character of a name as it is.  name NULL: no name, which only * matches; t
 * NULL: no axes.  yes NULL: only the text is checked.  PARSE: a syntax error and its place. */
GD_NODISCARD gd_status gd_select(gd_ctx *ctx, const char *selection, const char *name, const gd_tensor *t,
                                 bool *yes);
/* Sets settings for the parameters that match a selection (gd_select), as the option --group does.  Their other settings stay; of
 * two values for one setting, also schedules, the later wins.  Settings of overlapping selections are thus combined.
 * Parameters move to a new group if they are in the first group or only part of their group matches.  ATTRIBUTE: none matches. */
GD_NODISCARD gd_status gd_optimizer_regroup(gd_optimizer *optimizer, const char *selection,
                                            const char *settings);
/* The same with settings as values (gd_optimizer_add_group_with). */
GD_NODISCARD gd_status gd_optimizer_regroup_with(gd_optimizer *optimizer, const char *selection,
                                                 const gd_link_option *settings, int count);
/* Removes a parameter and its state. */
GD_NODISCARD gd_status gd_optimizer_remove(gd_optimizer *optimizer, const char *name);
/* Its parameters in the order they were added, and its groups. */
int gd_optimizer_count(const gd_optimizer *optimizer);
gd_tensor *gd_optimizer_param(const gd_optimizer *optimizer, int index); /* borrowed */
/* Borrowed; NULL: there is none of that number. */
const char *gd_optimizer_param_name(const gd_optimizer *optimizer, int index);
int gd_optimizer_groups(const gd_optimizer *optimizer); /* how many */
/* Sets a number for every link with such a setting, in one group (-1: in all groups, also later ones, except groups with a
 * value or schedule of their own; VALUE: every group has one).  It replaces a schedule.  A link that has one value for the whole
 * step returns an error at the step if groups disagree. */
GD_NODISCARD gd_status gd_optimizer_set(gd_optimizer *optimizer, int group, const char *key, double value);
/* Sets a schedule as text: "warmup(100, cosine(0.1, 0.001, 1000))", a function of the step from 0.  Steps without an update
 * (gradient_accumulation) do not count.  -1: for all groups, also later ones, except groups with a value or schedule of their own;
 * VALUE: every group has one.  PARSE: the setting does not accept a value of the schedule, at any step; a whole-number setting
 * accepts only whole values.
 * A setting that a link reads once (a first radius) has the number of that step. */
GD_NODISCARD gd_status gd_optimizer_schedule(gd_optimizer *optimizer, int group, const char *key,
                                             const char *schedule);
/* The same for the parameters that a selection matches.  If only part of a group matches, the matching
 * parameters move to a new group with the same settings.  ATTRIBUTE: none matches. */
GD_NODISCARD gd_status gd_optimizer_schedule_matching(gd_optimizer *optimizer, const char *selection,
                                                      const char *key, const char *schedule);
/* Removes the setting or schedule of a group (-1: of every group, and those set for all).  ATTRIBUTE: there is none. */
GD_NODISCARD gd_status gd_optimizer_unset(gd_optimizer *optimizer, int group, const char *key);
/* Ends a schedule; the number of the last step stays.  ATTRIBUTE: there is none. */
GD_NODISCARD gd_status gd_optimizer_unschedule(gd_optimizer *optimizer, int group, const char *key);

/* One step.  objective NULL: uses the gradients of the parameters.  info may be NULL (reading a loss from a GPU waits).
 * STATE for an optimizer without parameters; GRAPH if a loss made of operators depends on none of them.  Warnings: no parameter
 * wants gradients, or at a first step without objective none has one; a learning rate below 0.
 * On failure (an evaluation, a hook, memory, wrong use) the parameters are restored bit for bit (the link mezo: up to rounding)
 * and the step is not counted; links that had run already keep their new state, as after a step of length zero.  Loss and gradients
 * that are not finite are no failure: docs/outcomes.md describes the reaction of each family of links.
 * With several processes (gd_optimizer_distribute), a failure of the transport while parameters are gathered leaves them partially
 * updated.  The error says so, and steps, saving and gd_optimizer_evaluate return STATE until the optimizer is loaded or
 * reset. */
GD_NODISCARD gd_status gd_optimizer_step(gd_optimizer *optimizer, const gd_objective *objective,
                                         gd_step_info *info);
/* The same with a known loss and named numbers for links (gd_var_storage). */
typedef struct gd_step_extra {
    gd_tensor *loss;
    const char *const *names;
    const double *values;
    int count;
} gd_step_extra;
GD_NODISCARD gd_status gd_optimizer_step_with(gd_optimizer *optimizer, const gd_objective *objective,
                                              const gd_step_extra *extra, gd_step_info *info);
/* Turned on, a step without an objective skips parameters without a gradient, which otherwise count as zero gradients: neither
 * they nor their state nor their step counts change, weight decay does not apply, and norms are over the other parameters.  Links
 * with one vector of all parameters (lbfgs) restart if its length changes. */
GD_NODISCARD gd_status gd_optimizer_skip_missing(gd_optimizer *optimizer, bool on);
/* Turned on, a step without an objective runs as one CUDA graph: captured at its first run, then replayed with current step
 * counts and settings, with the same bits.  Gradients may be in different memory each time; steps are cheaper for the host if they
 * are written in place.  For chains of element-wise links and parameters on one GPU: NOT_IMPLEMENTED names a link that is not
 * element-wise, DEVICE a parameter that is not on the GPU.  Steps that cannot be replayed, such as those with an objective, run
 * normally. */
GD_NODISCARD gd_status gd_optimizer_capture(gd_optimizer *optimizer, bool on);
int64_t gd_optimizer_replays(const gd_optimizer *optimizer); /* steps run as a graph so far */
/* Clears the gradients of the parameters, or sets existing ones to zero in place (for captured steps). */
void gd_optimizer_zero_grad(gd_optimizer *optimizer);
GD_NODISCARD gd_status gd_optimizer_zero_grad_in_place(gd_optimizer *optimizer);
/* Steps and evaluations so far; whether a termination link has requested the end; attributes that links have set. */
int64_t gd_optimizer_steps(const gd_optimizer *optimizer);
int64_t gd_optimizer_evals(const gd_optimizer *optimizer);
bool gd_optimizer_should_terminate(const gd_optimizer *optimizer);
double gd_optimizer_attr(const gd_optimizer *optimizer, const char *name, double otherwise);
gd_tensor *gd_optimizer_attr_tensor(const gd_optimizer *optimizer, const char *name); /* borrowed or NULL */
void gd_optimizer_reset(gd_optimizer *optimizer); /* clears all state; parameters stay */
/* Sets the parameters to the values for evaluation (the average of ema_weights, swa and asgd, the x of schedule_free; of
 * several links the last), and with on false back, bit for bit.  In between, steps, saving and changes of the list of parameters
 * return STATE.  A repeated call does nothing; without such links nothing changes. */
GD_NODISCARD gd_status gd_optimizer_evaluate(gd_optimizer *optimizer, bool on);

/* ---- several processes ---- */

/* The data of an optimizer that is sharded over ranks. */
typedef enum gd_shard {
    GD_SHARD_NONE,     /* nothing: every rank has everything and makes the whole step */
    GD_SHARD_STATE,    /* state of links, and the work of steps */
    GD_SHARD_GRADIENTS /* also gradients, of gd_backward and of a gd_batch over the same world */
} gd_shard;

/* Start from gd_distribute_defaults(). */
typedef struct gd_distribute_options {
    gd_shard shard;   /* NONE */
    gd_reduce reduce; /* how the ranks' gradients are summed (EXACT; always for GRADIENTS) */
    bool joined;      /* gradients on the parameters are the same on every rank already (false) */
    int64_t bucket;   /* bytes per message bucket: 25 MB */
} gd_distribute_options;

gd_distribute_options gd_distribute_defaults(void); /* as the comments above say */

/* Distributes the steps of this optimizer over all ranks of a world: every rank calls this function and then every step, with
 * an optimizer of the same chain over equal parameters.  NULL options are the defaults.  Gradients are summed as follows:
 *
 *     gd_optimizer_step(opt, NULL, ..)   the parameters have this rank's gradients (for a mean, each row divided by the total
 *                                        number of rows): the step adds those of all ranks and stores the sums there, with
 *                                        STATE and EXACT for the elements that this rank owns.  With `joined` it adds nothing:
 *                                        they are sums already (gd_microbatches_sum).  With GRADIENTS, gd_backward sends each
 *                                        gradient as soon as it is complete; they are summed on the way and consumed by the
 *                                        step
 *     with an objective                  it gives every rank the same loss and gradient, as a gd_objective whose batch has this
 *                                        world does; nothing is added
 *
 * After every step all ranks have the same parameters, with the bits of one process that gets the same gradients: norms and
 * sums over all elements are joined in the same order.  With STATE and GRADIENTS a rank owns shards of parameters, cut at multiples
 * of 16384 elements (whole tensors if a rule reduces along axes), and keeps state and computes for them.  State of some links that
 * are no rules, and of parameters on several devices, is on every rank; gd_explain lists it.  All ranks must then call saving,
 * loading and gd_optimizer_evaluate together.
 *
 * NOT_IMPLEMENTED at steps with GRADIENTS: parameters on several devices, gd_optimizer_skip_missing.
 * MISMATCH on every rank, naming the difference, if parameters, their values (gd_module_broadcast makes them equal), shapes, dtypes or
 * order, the chain, settings of groups, options, step counts or generators differ; and at a later step, if only some ranks have changed
 * settings, schedules, groups or the chain, or step a different optimizer.
 * If a rank fails in a step, all ranks get its error, at the latest in their next step; in that step parameters are restored, but
 * gradients may be sums already.  If other ranks have completed the step, the next one returns MISMATCH on all ranks with the step of
 * each: load a checkpoint.  Parameters are partially updated only if a rank leaves or the transport fails while they are gathered
 * (gd_optimizer_step); the world then fails.
 * The world is borrowed and must live as long as steps are made; world NULL ends the distribution, and every rank has all state again. */
GD_NODISCARD gd_status gd_optimizer_distribute(gd_optimizer *optimizer, gd_world *world,
                                               const gd_distribute_options *options);

/* ---- looking inside ---- */

/* Describes a step as text: the passes over memory and their links; per pass what it reads and writes, bytes per element and how
 * it runs (built in, compiled, interpreted and why); the memory of the state; with source also the generated C.  Writes as
 * snprintf; -1 on failure.  Nothing runs; works before the first step. */
int gd_explain(gd_optimizer *optimizer, bool source, char *out, size_t size);

/* ---- state on disk ---- */

/* Saves everything except the parameters: state of links, settings and step counts, groups and schedules, counters,
 * attributes, generators (also the context's).  An optimizer of the same chain over equal parameters that loads it continues
 * with the same bits as one that never stopped.  Atomic and durable, see file.h.
 * With sharded state (gd_optimizer_distribute) all ranks call it, and each writes its shards into one file, with the contents that one
 * process writes.  IO: the folder is not shared; MISMATCH: paths differ.  Any number of ranks can load it. */
GD_NODISCARD gd_status gd_optimizer_save(gd_optimizer *optimizer, const char *path);
/* Loads a saved state.  Parameters are matched by name; settings become those of the file.  Strict: links are matched by
 * position, and missing or unexpected parts are errors, as are different shapes or dtypes.  Not strict: links are matched by class
 * and order, so that `adam | lr` loads into `clip_norm | adam | lr`; missing or unexpected parts stay as they are, with a warning
 * that names them.  MISMATCH describes the difference; nothing changes on failure.  With sharded state all ranks call it: each reads
 * its shards, and all fail if one does. */
GD_NODISCARD gd_status gd_optimizer_load(gd_optimizer *optimizer, const char *path, bool strict);
/* The same without the warning.  *report (report may be NULL) is new and lists everything that did not match by name,
 * "link 1:adam", "parameter w", "tensor w/1:adam/exp_avg", even if that was no error. */
GD_NODISCARD gd_status gd_optimizer_load_report(gd_optimizer *optimizer, const char *path, bool strict,
                                                gd_load_report **report);
/* Puts the state into an archive, which may have other contents; prefix (NULL: none) goes before every name.  The archive
 * shares the state's memory: later steps change it until it is saved.  With sharded state all ranks call it; only the archive of
 * rank 0 gets the shards, and needs memory for all of them (gd_optimizer_save_in needs none). */
GD_NODISCARD gd_status gd_optimizer_pack(gd_optimizer *optimizer, gd_archive *archive, const char *prefix);
/* gd_optimizer_pack and gd_archive_save in one, for a checkpoint of model and optimizer.  With sharded state all ranks call it with
 * equal archives; each writes its shards, rank 0 the rest.  An archive can be used once: the names are then taken (ARGUMENT). */
GD_NODISCARD gd_status gd_optimizer_save_in(gd_optimizer *optimizer, gd_archive *archive, const char *prefix,
                                            const char *path);
GD_NODISCARD gd_status gd_optimizer_unpack(gd_optimizer *optimizer, const gd_archive *archive,
                                           const char *prefix, bool strict);
GD_NODISCARD gd_status gd_optimizer_unpack_report(gd_optimizer *optimizer, const gd_archive *archive,
                                                  const char *prefix, bool strict, gd_load_report **report);

#ifdef __cplusplus
}
#endif
#endif
