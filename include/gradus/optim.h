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
 * A step asks the objective for loss and gradient when a link needs them, takes the update through the links and
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

/* Residuals given by ranges of rows, for tables that are long: what is made from a range is used and forgotten before the next,
 * and ranges run side by side on the threads of the context.  Results have the same bits on any number of them. */
typedef struct gd_rows {
    int64_t count; /* rows */
    gd_tensor *const
        *data;   /* tables on the CPU with `count` rows along their first axis; borrowed; NULL: none */
    int columns; /* how many tables */
    void *user;
    /* What a thread needs for itself, given its context, and its end; NULL: `user` is all.  NULL from open, with the error
     * recorded in ctx, fails. */
    void *(*open)(void *user, gd_ctx *ctx);
    void (*close)(void *state);
    /* The residuals of the rows from `first` on, as many as data[i] has: any number a row, made with operators.  Parameters and
     * tables are tensors of one context, that of the thread, and no tensor of another context may meet them; tables have the
     * names of their axes but no labels.  It may run on several threads at once and draws no random numbers. */
    gd_tensor *(*residuals)(void *state, gd_tensor *const *params, gd_tensor *const *data, int64_t first);
    /* Whose ranks share the rows, borrowed; NULL: this process has them all.  `count` is that of all ranks, `data` has the rows that
     * gd_rows_share gives this one, or all of them; `first` counts from the first of all.  What ranks make of their rows is joined in the order of the
     * rows: the same bits with any number of ranks, and where there are more than 1024 rows as alone.  MISMATCH: a rank has another
     * `count`, or is elsewhere with its parameters. */
    gd_world *world;
} gd_rows;

/* Which of `count` rows the tables of this rank have: *own of them from *first on.  Rows are cut where gd_rows are: ranks
 * have multiples of 1024 rows, as alike as that allows.  world NULL: all of them. */
void gd_rows_share(const gd_world *world, int64_t count, int64_t *first, int64_t *own);

/* A loss over the rows of a batch, given by ranges of them.  A microbatch is a fixed number of rows (the last may have fewer); every
 * microbatch is evaluated by itself, by the rank of `world` that gd_world_share gives it to, and the gradients and losses of all are added
 * in one order over their numbers (gd_microbatches): equal microbatches give equal bits with any number of ranks, and alone.
 *
 *     static gd_tensor *mean_loss(void *user, int64_t first, int64_t count)
 *     {
 *         return gd_mean(gd_square(gd_slice(user, "0", first, first + count, 1)), NULL, false);
 *     }
 *     gd_batch batch = {.rows = 256, .microbatch = 32, .user = p, .loss = mean_loss};
 *     gd_status status = gd_minimize(&p, 1, &(gd_objective){.batch = &batch}, "lbfgs", NULL, NULL);
 *
 * Every rank has the same parameters, and a context whose generator is at the same place (gd_seed): inside the function random
 * operators draw from a stream of the microbatch and the evaluation.  Where a rank fails all get its error; where they differ in rows,
 * microbatch, generator or, at the first evaluation, in the parameters, MISMATCH names who. */
typedef struct gd_batch {
    int64_t rows;       /* of the whole batch, on all ranks together */
    int64_t microbatch; /* rows of a microbatch; 0: all of them */
    gd_world *world;    /* NULL: this process has all microbatches; borrowed */
    gd_reduce how;      /* FAST: sums of the ranks in any order, which promises nothing about bits */
    bool sums; /* `loss` gives sums over its rows; else the mean, which counts by how many rows it has */
    void *user;
    /* The loss of some rows of the batch, made of operators: a number, or a vector, which means residuals: the sum of the squares of
     * all rows is minimised.  One element of several rows is a number, whatever its shape; of one row a vector of one element is
     * a residual.  It runs once for each microbatch of this rank, in their order. */
    gd_tensor *(*loss)(void *user, int64_t first, int64_t count);
} gd_batch;

/* Either `loss`, a function made of operators (a vector means residuals: their sum of squares is minimised; one element is the
 * loss itself, whatever its shape; a single residual is what `residuals` gives), and autograd does the rest; or callbacks that fill numbers themselves.  Callbacks see the parameters where they are and
 * write into tensors like them.  Any of them fails by returning NULL or a status (record why with gd_fail). */
typedef struct gd_objective {
    void *user;
    gd_tensor *(*loss)(void *user);
    gd_status (*value)(void *user, double *loss);
    gd_status (*gradient)(void *user, double *loss, gd_tensor *const *grads);
    gd_status (*hvp)(
        void *user, gd_tensor *const *v,
        gd_tensor *const *out);          /* products with the Hessian, in place of autograd's; may be NULL */
    gd_tensor *(*residuals)(void *user); /* a vector made of operators; may be NULL */
    /* Residuals r [m] and their Jacobian j [m, n] over all elements of the parameters in their order, in place of autograd's; new;
     * may be NULL */
    gd_status (*jacobian)(void *user, gd_tensor **j, gd_tensor **r);
    /* The losses [k] of k points [k, n] in place of the parameters, all elements of a point in their order, for links that evaluate
     * many at once (gd_var_evaluate_many); may be NULL */
    gd_tensor *(*values)(void *user, gd_tensor *points);
    /* The same by ranges of rows, borrowed; may be NULL.  Alone it is enough for links that need values, gradients or
     * Jacobians; beside `loss` Jacobians of many rows are made of it. */
    const gd_rows *rows;
    /* A loss by ranges of rows in place of all of the above but `hvp`, borrowed: links have its values, gradients and products
     * with its Hessian, no graph; may be NULL */
    const gd_batch *batch;
    /* Constraints, for chains with nlp or augmented_lagrangian: numbers or vectors made of operators that are to be 0, and to be at
     * most 0; may be NULL */
    gd_tensor *(*equal)(void *user);
    gd_tensor *(*below)(void *user);
    /* As `gradient`, and keeps what it was computed by: products of `hvp` are of the evaluation that was kept last, at the parameters
     * it was made at.  Links that want products ask for it once a step, and for no other gradient.  NULL: `hvp` evaluates where
     * the parameters are, every time, and nobody counts it */
    gd_status (*gradient_kept)(void *user, double *loss, gd_tensor *const *grads);
    /* `loss` does the same work each time: it is recorded and replayed, with the same bits (gradus/trace.h says what that asks of it).
     * Parameters and captured tensors may change in place; what it captures may not be replaced by other tensors.  Evaluations whose
     * graph a link asks for run the function. */
    bool traced;
} gd_objective;

/* What a step did.  Numerical events are data, not errors. */
typedef struct gd_step_info {
    double loss; /* the first evaluation inside the step; NAN if there was none */
    bool has_loss;
    bool finite;              /* loss and, where they were looked at, gradients were finite */
    bool search_failed;       /* a line search or trust region found no better point */
    bool skipped;             /* a link skipped the update */
    bool terminate;           /* a termination link says stop */
    int64_t step;             /* steps done, this one included */
    int64_t evals;            /* evaluations so far */
    int64_t constraint_evals; /* of the constraints so far: once per point where they are needed */
    double
        kkt; /* with bounds: the largest element of x - P(x - gradient) where the step began, P being the way into the
                    bounds; with constraints that of the Lagrangian; NAN: neither, or nothing asked for the gradient */
    double
        violation; /* with constraints: the largest |equal| or positive below where the step began; else NAN */
    int detached_params; /* parameters whose module has replaced or deleted them: gd_optimizer_rebind takes the new ones */
} gd_step_info;

/* ---- optimizers ---- */

/* Takes a chain (consumed, also on failure).  New; NULL for an empty or NULL chain. */
gd_optimizer *gd_optimizer_new(gd_ctx *ctx, gd_link *chain);
void gd_optimizer_free(gd_optimizer *optimizer);            /* with its chain and state; NULL is fine */
gd_ctx *gd_optimizer_ctx(const gd_optimizer *optimizer);    /* borrowed */
gd_link *gd_optimizer_chain(const gd_optimizer *optimizer); /* borrowed */
/* What element-wise links keep their state in unless their own setting "state" says otherwise, before there is any: GD_BF16 and
 * GD_F16, rounded by chance, halve it; GD_U8 stands for codes of eight bits in blocks of 256 (parameters of fewer than 4096
 * elements, or not in the order of their axes: f32).  GD_DTYPE_COUNT, the default: f64 for f64 parameters, else f32.  Arithmetic is in f32 (f64 for f64 parameters)
 * in any case.  docs/state.md compares them. */
GD_NODISCARD gd_status gd_optimizer_state_dtype(gd_optimizer *optimizer, gd_dtype dtype);

/* Adds one parameter to the first group, under a name that checkpoints use (unique).  The optimizer holds a reference.
 * Parameters are leaves of a floating dtype; those that do not want gradients are skipped by steps.  Their elements fill
 * their memory (SHAPE: it has gaps), in the order of their axes or another (channels last): element-wise links go through memory as it
 * lies, without copies where the gradient lies the same way, and sums over it have the last digits of that order. */
GD_NODISCARD gd_status gd_optimizer_add(gd_optimizer *optimizer, const char *name, gd_tensor *param);
/* A group with settings of its own: "lr=0.1, momentum=0.5" (NULL: none).  Gives its number in *group if not NULL. */
GD_NODISCARD gd_status gd_optimizer_add_group(gd_optimizer *optimizer, const char *const *names,
                                              gd_tensor *const *params, int count, const char *settings,
                                              int *group);
/* The same with settings as values instead of text: numbers, flags, schedules, none, and strings, whatever is in them. */
GD_NODISCARD gd_status gd_optimizer_add_group_with(gd_optimizer *optimizer, const char *const *names,
                                                   gd_tensor *const *params, int count,
                                                   const gd_link_option *settings, int settings_count,
                                                   int *group);
/* Such settings for a group that is there, besides those it has: all of them or, on failure, none. */
GD_NODISCARD gd_status gd_optimizer_group_settings(gd_optimizer *optimizer, int group,
                                                   const gd_link_option *settings, int count);
/* All parameters of a module tree whose dotted names match the glob (NULL: all). */
GD_NODISCARD gd_status gd_optimizer_add_module(gd_optimizer *optimizer, gd_module *module, const char *glob,
                                               const char *settings);
/* The module its parameters were taken from; borrowed, held by the optimizer.  NULL: none was given, or two. */
gd_module *gd_optimizer_model(const gd_optimizer *optimizer);
/* Takes the tensors that a module has now for the parameters of their names, with groups, settings and state: after an
 * attribute was assigned again.  Until then the optimizer goes on with the tensor that the module had before, warns at its next
 * step, and gd_step_info counts it in detached_params.  Parameters of other names stay.  ATTRIBUTE when the module has none of them,
 * SHAPE when one has other sizes, axis names or labels than before; nothing changes then. */
GD_NODISCARD gd_status gd_optimizer_rebind(gd_optimizer *optimizer, gd_module *module);
/* Does a parameter match a selection?  A selection is a glob of names ("*.bias") or a condition
 *     axes>=2    numel<1000    axis=channels    label=channels.red    label=*.red
 * (< <= > >= = !=; globs for names of axes and labels), "not" before one, and several of them joined by "," or "and", which
 * bind closer, or by "or".  A backslash takes the next character of a name as it is.  name NULL: no name, which only * matches; t
 * NULL: no axes.  yes NULL: only the text is looked at.  PARSE: what does not fit, and where. */
GD_NODISCARD gd_status gd_select(gd_ctx *ctx, const char *selection, const char *name, const gd_tensor *t,
                                 bool *yes);
/* Gives the parameters that a selection (gd_select) matches settings of their own: the --group option.  They keep what their groups say
 * besides, and where both say something, also by a schedule, what comes later wins; so settings of selections that
 * overlap add up.
 * Those of the first group, and of a group of which only some match, leave it for a new one.  ATTRIBUTE: none matches. */
GD_NODISCARD gd_status gd_optimizer_regroup(gd_optimizer *optimizer, const char *selection,
                                            const char *settings);
/* The same with settings as values (gd_optimizer_add_group_with). */
GD_NODISCARD gd_status gd_optimizer_regroup_with(gd_optimizer *optimizer, const char *selection,
                                                 const gd_link_option *settings, int count);
/* Forgets a parameter and its state. */
GD_NODISCARD gd_status gd_optimizer_remove(gd_optimizer *optimizer, const char *name);
/* Its parameters in the order they were added, and its groups. */
int gd_optimizer_count(const gd_optimizer *optimizer);
gd_tensor *gd_optimizer_param(const gd_optimizer *optimizer, int index); /* borrowed */
/* Borrowed; NULL: there is none of that number. */
const char *gd_optimizer_param_name(const gd_optimizer *optimizer, int index);
int gd_optimizer_groups(const gd_optimizer *optimizer); /* how many */
/* A number for every link that has such a setting, in one group (-1: in all, also those added later, but for groups with a
 * value or schedule of their own, which keep it; VALUE: every group has).  It takes the place of a schedule.  A link that has one
 * value for the whole step refuses, at the step, groups that disagree. */
GD_NODISCARD gd_status gd_optimizer_set(gd_optimizer *optimizer, int group, const char *key, double value);
/* A schedule for a setting, as text: "warmup(100, cosine(0.1, 0.001, 1000))"; a function of the step from 0, where steps
 * that let no update through (gradient_accumulation) do not count.  -1: for all groups, also those added later, but for
 * groups with a value or schedule of their own, which keep it; VALUE: every group has.  PARSE: a value of the schedule, at
 * whatever step, is none that the setting takes; a whole-number setting takes only whole values.
 * A setting that a link reads where it begins (a first radius) has the number of that step. */
GD_NODISCARD gd_status gd_optimizer_schedule(gd_optimizer *optimizer, int group, const char *key,
                                             const char *schedule);
/* The same for the parameters that a selection matches.  Those of a group of which only some match leave it for a group of their
 * own with the same settings.  ATTRIBUTE: none matches. */
GD_NODISCARD gd_status gd_optimizer_schedule_matching(gd_optimizer *optimizer, const char *selection,
                                                      const char *key, const char *schedule);
/* Takes the setting or schedule of a group back (-1: of all of them, and what was set for all).  ATTRIBUTE: there is none. */
GD_NODISCARD gd_status gd_optimizer_unset(gd_optimizer *optimizer, int group, const char *key);
/* Ends a schedule; the number of the last step stays.  ATTRIBUTE: there is none. */
GD_NODISCARD gd_status gd_optimizer_unschedule(gd_optimizer *optimizer, int group, const char *key);

/* One step.  objective NULL: the gradients are on the parameters.  info may be NULL (reading a loss from a GPU waits).
 * STATE for an optimizer without parameters; GRAPH where a loss made of operators depends on none of them.  Warned of: the first
 * step where no parameter wants gradients, or without an objective none has one; a learning rate below 0.
 * On failure (an evaluation, a hook, memory, wrong use) the parameters are as before, bit for bit but for the link mezo,
 * and the step is not counted; links that had run already keep what they learnt, as from a step of length zero.  Loss and gradients
 * that are not finite are no failure: docs/outcomes.md says what each family of links makes of them.
 * Of several processes see gd_optimizer_distribute: where what moves their bytes fails while parameters are on their way, these are
 * partly changed.  The error says so, and steps, saving and gd_optimizer_evaluate are refused from then on, STATE, until
 * the optimizer is loaded or reset. */
GD_NODISCARD gd_status gd_optimizer_step(gd_optimizer *optimizer, const gd_objective *objective,
                                         gd_step_info *info);
/* The same with a loss already known and named numbers for links (gd_var_storage). */
typedef struct gd_step_extra {
    gd_tensor *loss;
    const char *const *names;
    const double *values;
    int count;
} gd_step_extra;
GD_NODISCARD gd_status gd_optimizer_step_with(gd_optimizer *optimizer, const gd_objective *objective,
                                              const gd_step_extra *extra, gd_step_info *info);
/* From now on (or, with on false, no longer) a step without an objective leaves parameters that have no gradient out, where it
 * else takes zeros for it: neither they nor their state, their step counts or what weight decay would do to them change, and norms
 * over all parameters are over the others.  Links that have one vector of all parameters (lbfgs) begin anew when it gets another length. */
GD_NODISCARD gd_status gd_optimizer_skip_missing(gd_optimizer *optimizer, bool on);
/* From now on (or, with on false, no longer) a step without an objective runs as one CUDA graph: made at its first run,
 * replayed after that with the step counts and settings of the day, the same bits as without.  Gradients may lie in other
 * memory each time; what gathering them costs the host is saved too where they stay, that is, are written in place.  For
 * chains of element-wise links and parameters that are all on one GPU: NOT_IMPLEMENTED names a link that is not, DEVICE
 * a parameter that is elsewhere.  Steps that cannot be replayed (with an objective, say) run as they did. */
GD_NODISCARD gd_status gd_optimizer_capture(gd_optimizer *optimizer, bool on);
int64_t gd_optimizer_replays(const gd_optimizer *optimizer); /* steps that ran as a graph so far */
/* Forgets the gradients on the parameters, or sets those that are there to zero where they lie: for captured steps. */
void gd_optimizer_zero_grad(gd_optimizer *optimizer);
GD_NODISCARD gd_status gd_optimizer_zero_grad_in_place(gd_optimizer *optimizer);
/* Steps done and evaluations made; whether a termination link has said stop; attributes that links have set. */
int64_t gd_optimizer_steps(const gd_optimizer *optimizer);
int64_t gd_optimizer_evals(const gd_optimizer *optimizer);
bool gd_optimizer_should_terminate(const gd_optimizer *optimizer);
double gd_optimizer_attr(const gd_optimizer *optimizer, const char *name, double otherwise);
gd_tensor *gd_optimizer_attr_tensor(const gd_optimizer *optimizer, const char *name); /* borrowed or NULL */
void gd_optimizer_reset(gd_optimizer *optimizer); /* forgets all state; parameters stay */
/* Sets the parameters to what links recommend to evaluate with (the average of ema_weights, swa and asgd, the x of
 * schedule_free; of several links the last), and with on false back, bit for bit.  Meanwhile steps, saving and changes of
 * the parameters' list are refused, STATE.  Twice the same is once; without such links nothing changes. */
GD_NODISCARD gd_status gd_optimizer_evaluate(gd_optimizer *optimizer, bool on);

/* ---- several processes ---- */

/* What of an optimizer is kept by one rank each. */
typedef enum gd_shard {
    GD_SHARD_NONE,     /* nothing: every rank has all, and does all of a step */
    GD_SHARD_STATE,    /* state of links, and the work of steps */
    GD_SHARD_GRADIENTS /* and gradients: those that gd_backward makes, and of a gd_batch over the same world */
} gd_shard;

/* Start from gd_distribute_defaults(). */
typedef struct gd_distribute_options {
    gd_shard shard;   /* NONE */
    gd_reduce reduce; /* how the ranks' gradients are summed: EXACT, which GRADIENTS always are */
    bool joined;      /* gradients on the parameters are the same on every rank already (false) */
    int64_t bucket;   /* bytes that travel at a time: 25 MB */
} gd_distribute_options;

gd_distribute_options gd_distribute_defaults(void); /* as the comments above say */

/* From now on steps of this optimizer are made by all ranks of a world together: every rank calls this, and then every step, with
 * an optimizer of the same chain over equal parameters.  NULL options are the defaults.  Who sums gradients:
 *
 *     gd_optimizer_step(opt, NULL, ..)   the gradients on the parameters are this rank's share (of a mean, each row's by the
 *                                        number of all rows): the step adds those of all ranks, and leaves the sums there, with
 *                                        STATE and EXACT those of the elements that this rank owns.  With `joined` it adds
 *                                        nothing: they are sums already (gd_microbatches_sum).  With GRADIENTS they leave
 *                                        the parameters in gd_backward, as soon as each is complete, are summed on the way, and
 *                                        used up by the step
 *     with an objective                  it gives every rank the same loss and gradient, as a gd_objective whose batch has this
 *                                        world does; nothing is added here
 *
 * Parameters are the same on all ranks after every step, bit for bit as one process has them that is given the same gradients:
 * norms and sums over all elements are joined as there.  With STATE and GRADIENTS a rank keeps state for the shards of
 * parameters that it owns, cut at multiples of 16384 elements (whole tensors, where a rule reduces along axes), and computes those;
 * some links that are no rules, and what lies on several devices, every rank has whole; gd_explain says which.  Saving, loading
 * and gd_optimizer_evaluate are for all ranks together then too.
 *
 * NOT_IMPLEMENTED at steps with GRADIENTS: parameters on several devices, gd_optimizer_skip_missing.
 * MISMATCH on every rank, by name, where parameters, their values (gd_module_broadcast makes them equal), shapes, dtypes or order, the
 * chain, settings of groups, options, steps done or generators differ; and at a later step, where one of them has changed settings,
 * schedules, groups or its chain, or steps another optimizer, and the others have not.
 * A rank that fails in a step tells the others: all get its error, at the latest in their next step, and the parameters of those whose
 * step it was are as before; gradients that were to be summed may be sums already.  Where others have made a step that it has not, all
 * are told at the one after, MISMATCH, which step each is at: load a checkpoint.  Parameters are partly changed only where a rank
 * leaves, or the transport fails, while they are gathered (gd_optimizer_step); the world is given up then.
 * The world is borrowed, and must be there as long as steps are made; NULL in its place ends it, every rank having all state again. */
GD_NODISCARD gd_status gd_optimizer_distribute(gd_optimizer *optimizer, gd_world *world,
                                               const gd_distribute_options *options);

/* ---- looking inside ---- */

/* How a step runs, as text: which links share a pass over memory and which break it, for each pass what it reads and
 * writes and the bytes of that an element, how it is executed (built in, compiled, interpreted and why), the memory of the
 * state; with source the emitted C too.  As snprintf; -1 when it fails.  Nothing is run; works before the first step. */
int gd_explain(gd_optimizer *optimizer, bool source, char *out, size_t size);

/* ---- state on disk ---- */

/* Everything but the parameters themselves: state of links, their settings and step counts, groups and schedules,
 * counters, attributes, generators (the context's too).  Saving at a step, loading into a fresh optimizer of the same
 * chain over equal parameters and going on gives the same bits as never stopping.  Atomic and durable, see file.h.
 * Where ranks share state (gd_optimizer_distribute) all of them call it: each writes what it keeps into its place of one file, the
 * file of one process, in a folder that all of them see, else IO, and of one name, else MISMATCH.  Any number of ranks loads it. */
GD_NODISCARD gd_status gd_optimizer_save(gd_optimizer *optimizer, const char *path);
/* Matches parameters by their names; settings become those of the file.  Strict: links by their places, and what is missing
 * or unexpected is an error too, not only another shape or dtype.  Not strict: links by class and order, so that `adam | lr`
 * loads into `clip_norm | adam | lr`; what is missing or unexpected stays as it is, with a warning that names it.  MISMATCH
 * says what; nothing changes when it fails.  Where ranks share state all of them call it: each reads what it will keep, and all
 * fail where one does. */
GD_NODISCARD gd_status gd_optimizer_load(gd_optimizer *optimizer, const char *path, bool strict);
/* The same, for programs: *report, where it is wanted (else NULL), is new and has everything that did not match by name,
 * "link 1:adam", "parameter w", "tensor w/1:adam/exp_avg", also when that was no error, and then there is no warning. */
GD_NODISCARD gd_status gd_optimizer_load_report(gd_optimizer *optimizer, const char *path, bool strict,
                                                gd_load_report **report);
/* The same in an archive, which may hold other things too; prefix (NULL: none) goes before every name.  The archive
 * shares the state's memory: what steps change before it is saved is saved changed.  Where ranks share state all of them call
 * it; only the archive of rank 0 has what is shared, and has room for all of it (gd_optimizer_save_in needs none). */
GD_NODISCARD gd_status gd_optimizer_pack(gd_optimizer *optimizer, gd_archive *archive, const char *prefix);
/* gd_optimizer_pack and gd_archive_save in one, for a checkpoint of model and optimizer.  Where ranks share state all of them call
 * it with equal archives, and it writes as gd_optimizer_save does: each rank what it keeps, rank 0 the rest.  Not for a second
 * saving: the archive has the names already (ARGUMENT). */
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
