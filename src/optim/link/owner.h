/* The optimizer as links know it: parameters, groups with their settings and schedules, attributes, and the counters that show
 * changes.
 *
 * Belongs here: data that links read from their optimizer.  Does not: how a step runs (step/), plans (plan/), closures. */
#ifndef GD_OPTIM_LINK_OWNER_H
#define GD_OPTIM_LINK_OWNER_H

#include "gradus/optim.h"
#include "gradus/schedule.h"
#include "optim/link/link_internal.h"
#include "optim/other_ranks.h"

typedef struct gd_group_setting {
    const char *key; /* interned */
    gd_setting value;
    bool shapes; /* a link reads it when its program is made */
    bool whole;  /* a link takes only whole numbers: values of a schedule are rounded to them */
} gd_group_setting;

typedef struct gd_group {
    gd_group_setting *setting;
    int settings, room;
} gd_group;

typedef struct gd_param {
    gd_tensor *tensor; /* retained */
    gd_tensor
        *aside; /* its values for steps while it holds others for evaluation; owned, NULL: it does not */
    char *name;
    int group;
    const gd_device *device; /* device and dtype at the last move of its state */
    gd_dtype dtype;
    int form;              /* at its last check, see optimizer_step.c */
    gd_tensor *low, *high; /* bounds, f64 on the host, of one element or as many; owned, NULL: none */
    int64_t bounded_in;    /* the attempt of the optimizer that set the bounds; 0: none */
    uint64_t inside;       /* 1 + its version when it was last seen inside them; 0: it was not */
    uint8_t *side;         /* of each element, see step/bounds.h; owned, NULL: it has no bounds */
    int64_t *
        cut; /* [ranks + 1] elements cut[r] ... cut[r + 1] - 1 are rank r's, see ranks/share.h; owned or NULL */
    int ranks;
    bool undivided;      /* one rank owns all of it, whatever its size: a link works on whole tensors */
    gd_tensor *own_grad; /* this rank's shard of its gradient, see ranks/scatter.c; owned or NULL ... */
    bool summed;         /* ... and it has the sum of this step, or will have it */
} gd_param;

typedef struct gd_attr {
    const char *name; /* interned */
    double value;
    gd_tensor *tensor;
} gd_attr;

typedef struct gd_plan gd_plan;       /* plan/plan.h */
typedef struct gd_share gd_share;     /* ranks/share.h */
typedef struct gd_closure gd_closure; /* step/var.h */

/* Groups of parameters, and the settings in force. */
typedef struct gd_groups {
    gd_group *list;
    int count, room;
    gd_group all;     /* for groups without their own value */
    int keys;         /* settings in groups and in all: 0, and links' own settings are in force */
    bool mixed;       /* as of `settled`: parameters may have different settings */
    bool scheduled;   /* a link has a schedule of its own */
    uint64_t settled; /* `numbers` of the optimizer at the last check of the settings in force */
} gd_groups;

/* The result of the last check of the parameters. */
typedef struct gd_looked {
    gd_tensor **active; /* parameters that want gradients */
    gd_tensor **grad;   /* their gradients, borrowed; after them in the same block */
    int count, room;
    int dropped;                          /* parameters that modules have replaced or deleted */
    bool streams;                         /* every gradient exists, and programs can read it in place */
    bool skips;                           /* those without a gradient are not in it */
    bool uphill;                          /* the warning about a learning rate below 0 was given */
    uint64_t changes, layouts, structure; /* the counters at that time */
    uint64_t numbers;                     /* at the check of the signs of learning rates */
} gd_looked;

/* An optimizer that several processes share. */
typedef struct gd_shared {
    gd_share *share;      /* NULL: alone */
    const gd_ranks *call; /* requests to other ranks for state and lists; NULL: alone */
    bool alone;           /* this rank works alone on the tensors it owns: shards cannot be gathered */
    bool own_elements;    /* links keep only this rank's shard of a parameter */
    bool partial;         /* a step failed while parameters were being sent between ranks */
} gd_shared;

/* The objective of the last steps. */
typedef struct gd_asked {
    gd_closure *closures;
    bool one_number;                    /* its last result was one element */
    struct gd_traced_objective *traced; /* recordings, if the objective requests them, or NULL */
    struct gd_evaluator *evaluator;     /* of an objective with a single callback, or NULL */
    gd_tensor *first_loss;              /* owned; the result of the step */
    gd_tensor **spare;                  /* a list for gradients that no step has, of NULLs; NULL: none */
    int spares;                         /* its length */
    struct gd_memo
        *memo; /* remembered evaluations; NULL: none, because the objective may change from step to step */
    bool flat_constraints; /* the constraints are numbers: their second derivatives are not known */
    bool exact, estimated; /* derivatives that links got, from the objective and from its values */
} gd_asked;

/* What line searches keep from step to step. */
typedef struct gd_searching {
    bool careful;   /* unset flags count as set: searches go downhill, first steps are short */
    bool steepest;  /* and the next search is along the gradient: the last one failed */
    bool moved;     /* a search has found a lower point */
    double shorter; /* the length of the first trial suggested by the last search; 0: none */
    double
        gain; /* the largest possible decrease of the last failed search, from slope and curvature along it; NAN: not known */
} gd_searching;

/* For tests. */
typedef struct gd_optimizer_tests {
    bool no_fusion;   /* a pass for every link */
    bool interpret;   /* no kernels */
    bool always_look; /* checks even if no counter has changed, and fails if something has changed */
} gd_optimizer_tests;

struct gd_optimizer {
    gd_ctx *ctx;
    gd_link *chain;
    gd_param *param;
    int count, capacity;
    gd_map table; /* from tensors to numbers of parameters */
    gd_module *model;
    bool several_models; /* then there is none */
    bool stand_ins;      /* a link has made such */
    gd_groups grouping;
    gd_attr *attr;
    int attrs;
    int64_t step, evals, constraint_evals;
    int64_t held; /* steps without a result (accumulation): schedules do not count them */
    bool should_terminate;
    int64_t kept;         /* evaluations that the objective has kept for products */
    unsigned hinted;      /* hints that were given (var.c) */
    bool stepping;        /* inside a step: parameters and links stay as they are */
    bool evaluating;      /* see gd_optimizer_evaluate: parameters are not those of steps */
    gd_dtype state_dtype; /* GD_DTYPE_COUNT: as the parameter, but at least f32 */
    /* counters of changes, from 1 */
    uint64_t structure; /* inputs of plans: links, parameters, settings that shape programs */
    uint64_t numbers;   /* those and the numbers in settings */
    uint64_t slots;     /* memory of state, and which slots are fresh */
    uint64_t form;      /* which parameters want gradients, dtypes, devices: found by the check */
    gd_dtype vectors;   /* the dtype of vectors of all parameters at that time */
    bool bounded;       /* parameters have bounds */
    int64_t attempts;   /* steps begun, from 1, including failed ones */
    uint64_t sides;     /* counts how often the held elements were determined */
    bool capture;       /* see gd_optimizer_capture */
    bool skips_missing; /* see gd_optimizer_skip_missing */
    int64_t replays;
    int most_pending; /* links that fit into a program */
    gd_looked looked;
    struct {
        uint64_t structure; /* as of which */
        bool without, with_closure;
    } moves; /* a failing step could leave parameters changed */
    gd_plan *plans;
    gd_shared shared;
    gd_asked asked;
    gd_searching searching;
    gd_hook_fn watch; /* called at the end of every step, or NULL */
    void *watch_user;
    gd_optimizer_tests test;
};

/* An error during a step, or while parameters hold values for evaluation. */
gd_status gd__not_stepping(gd_optimizer *optimizer, const char *what);
/* An error where a step has left parameters partly changed. */
gd_status gd__refuse_partial(gd_optimizer *optimizer, const char *what);
/* A copy on a device; new, owned. */
static inline gd_tensor *gd__copy_on(gd_tensor *t, gd_device *device)
{
    return gd__own_copy(t, t->dtype, device);
}
/* The dtype in which vectors of all parameters are computed: f64 if one of them is f64, else f32. */
gd_dtype gd__vectors_dtype(const gd_optimizer *optimizer);
/* Brings state to the devices and dtypes that parameters have been moved to; on failure it is unchanged. */
gd_status gd__state_follow(gd_optimizer *optimizer);
/* Number of a parameter, -1 if it is not one. */
int gd__param_index(const gd_optimizer *optimizer, const gd_tensor *param);
/* The parameter that a tensor stands in for, however deep, NULL: for all of them; the tensor itself if it is not a stand-in. */
static inline const gd_tensor *gd__param_behind(const gd_optimizer *o, const gd_tensor *t)
{
    const gd_stand_in *s = NULL;
    while (o->stand_ins && t && (s = gd__stands_for(o->chain, t))) t = s->param;
    return t;
}
gd_status gd__set_attr(gd_optimizer *optimizer, const char *name, double value, gd_tensor *tensor);
void gd__group_free(gd_ctx *ctx, gd_group *group);
/* Warns if several given learning rates multiply. */
void gd__warn_of_rates(const gd_optimizer *optimizer);
/* Adds a parameter to a group, checked; takes all from number `count` on out again. */
gd_status gd__param_add(gd_optimizer *optimizer, const char *name, gd_tensor *param, int group);
void gd__params_truncate(gd_optimizer *optimizer, int count);
/* Frees the bounds and cuts of a parameter. */
void gd__param_drop(gd_param *param);
/* The setting of a key in a group (also one that is not in the optimizer yet), made if it is not there. */
gd_group_setting *gd__group_key(gd_optimizer *optimizer, gd_group *group, const char *key);
/* Do the links that have such a setting take this value, and all those of its schedule? */
gd_status gd__group_check(gd_optimizer *optimizer, const char *key, const gd_setting *value);
/* Does a group, or the settings of all groups, set this? */
bool gd__groups_have(const gd_optimizer *optimizer, const char *key);
/* Must follow every change of parameters, groups, links and their settings; structure: of more than a number that programs
 * read when they run.  The optimizer may be NULL. */
void gd__optimizer_changed(gd_optimizer *optimizer, bool structure);
/* Do a new link of the chain, and those below it, accept the settings of groups and schedules? */
gd_status gd__groups_fit(gd_optimizer *optimizer, gd_link *child);
/* After a change of the chain: applies settings to its links. */
void gd__groups_look_again(gd_optimizer *optimizer);
/* The step that schedules count: without steps that had no result. */
static inline int64_t gd__schedule_step(const gd_optimizer *optimizer)
{
    return optimizer->step - optimizer->held;
}
/* Before a step: evaluates schedules, and checks that settings which links read once per step are equal for all parameters. */
gd_status gd__settings_begin(gd_optimizer *optimizer);
/* Is a field read, does some link read a setting, when programs are made? */
bool gd__field_shapes(const gd_field *field);
bool gd__shapes(const gd_link *link, const char *key);

/* Every link of a tree, parents first.  Paths are like "1:adam.0:clip_value": number and class of each child on the way. */
typedef gd_status (*gd_visit_fn)(void *user, gd_link *link, const char *path);
gd_status gd__visit_links(gd_link *link, const char *path, gd_visit_fn fn, void *user);

/* Computes `found` if needed: it is read at every step, and valid while the optimizer's structure is. */
void gd__find_facts(gd_link *link);
static inline const gd_link *gd__facts_of(gd_link *link)
{
    if (!link->optimizer || link->found.structure != link->optimizer->structure) gd__find_facts(link);
    return link;
}
/* True when the link and all below it are element-wise and may be fused. */
static inline bool gd__fusable(gd_link *link) { return gd__facts_of(link)->found.fuses; }

#endif
