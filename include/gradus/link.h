/* gradus/link.h: for authors of links.
 *
 * A link is one stage of an optimizer's step.  Most links are element-wise and only define a rule; the engine fuses the rules of
 * adjacent links into one pass over memory, on any device:
 *
 *     static gd_value lr_rule(gd_rule *r, gd_value update) { return gd_rule_mul(r, update, gd_rule_setting(r, "lr")); }
 *
 *     static const gd_field lr_fields[] = {GD_REAL("lr", 1e-3, -INFINITY, INFINITY, "step size")};
 *     GD_LINK(step_size, lr, .summary = "multiplies by a step size", GD_FIELDS(lr_fields), .rule = lr_rule);
 *
 * To use links with typed options, see gradus/links.h.  Links that need numbers (norms of other tensors, line searches, factorisations) define step, or update and apply, and
 * ask the gd_var for loss, gradient and update.
 *
 * The headers in gradus/link/ are for authors of links, too.  This header includes four of them: rules (gradus/link/rule.h), the gd_var
 * (gradus/link/var.h), lists of tensors (gradus/link/list.h) and linear operators (gradus/link/linop.h).  The others help families of links:
 * line searches (line.h), searches among many minima (search.h), trust regions and Krylov methods (trust_region.h), Hessians (hessian.h),
 * quasi-Newton methods (quasi_newton.h), estimates of gradients (estimate.h), stand-ins for parameters (projection.h), batches of
 * matrices (matrices.h); plugin.h makes a link a plugin of the program. */
#ifndef GRADUS_LINK_H
#define GRADUS_LINK_H

#include "gradus/link/linop.h"
#include "gradus/link/list.h"
#include "gradus/link/rule.h"
#include "gradus/link/var.h"
#include "gradus/schedule.h"
#include "gradus/tensor.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ---- */

/* Types of values, as bits: a field lists those that it takes. */
typedef enum gd_setting_kind {
    GD_SET_NONE = 1,
    GD_SET_REAL = 2, /* integers too */
    GD_SET_BOOL = 4,
    GD_SET_STRING = 8,
    GD_SET_LIST = 16, /* of reals */
    GD_SET_CHAIN = 32 /* a child: kept in the link's children, the setting itself has no value */
} gd_setting_kind;

/* A value of a setting. */
typedef struct gd_setting {
    gd_setting_kind kind;
    double real; /* REAL, and BOOL as 0 or 1 */
    const gd_schedule
        *schedule;      /* REAL: computes the number for each step; owned by the link.  NULL: constant */
    const char *string; /* STRING; interned in the context */
    const double *list; /* LIST; owned by the link */
    int list_count;
} gd_setting;

/* Makes values of each type. */
static inline gd_setting gd_setting_none(void)
{
    const gd_setting s = {GD_SET_NONE, 0, NULL, NULL, NULL, 0};
    return s;
}
static inline gd_setting gd_setting_real(double value)
{
    const gd_setting s = {GD_SET_REAL, value, NULL, NULL, NULL, 0};
    return s;
}
static inline gd_setting gd_setting_bool(bool value)
{
    const gd_setting s = {GD_SET_BOOL, value ? 1.0 : 0.0, NULL, NULL, NULL, 0};
    return s;
}
static inline gd_setting gd_setting_string(const char *value)
{
    const gd_setting s = {GD_SET_STRING, 0, NULL, value, NULL, 0};
    return s;
}
static inline gd_setting gd_setting_list(const double *values, int count)
{
    const gd_setting s = {GD_SET_LIST, 0, NULL, NULL, values, count};
    return s;
}

/* The description of a setting, for the chain parser, range checks, help, documentation and printing. */
typedef struct gd_field {
    const char *name;
    unsigned kinds;      /* allowed gd_setting_kind bits */
    gd_setting fallback; /* default; kind 0: must be given */
    double low, high;    /* of a REAL, both allowed */
    bool integer;        /* a REAL must be whole */
    const char *choices; /* of a STRING: "zeros|update"; NULL: any */
    bool
        variadic; /* a CHAIN field that takes any number of children, given by position; if it takes numbers too,
                            each becomes a child `fill` */
    bool structural;  /* changes the program, not only a number in it (BOOL, STRING and NONE always do) */
    bool whole;       /* one value for all parameters, even if the class reads its settings per parameter */
    bool selection;   /* a STRING is a selection of parameters, see gd_select: for gd_link_selects */
    const char *only; /* the reason why only the default is accepted; NULL: every value is */
    const char *help;
} gd_field;

/* Fields of a link, by kind: a number with name, default, range and help; NEEDED: without a default; OR_NONE: none by default;
 * INT: whole numbers; FLAG: true or false; CHOICE: one of some words; SELECTION: which parameters; CHILD: a chain, CHILDREN: any
 * number of them. */
#define GD_REAL(n, d, lo, hi, h)                                                                  \
    {                                                                                             \
        .name = n, .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = d}, .low = lo, \
        .high = hi, .help = h                                                                     \
    }
#define GD_REAL_NEEDED(n, lo, hi, h)                                      \
    {                                                                     \
        .name = n, .kinds = GD_SET_REAL, .low = lo, .high = hi, .help = h \
    }
#define GD_REAL_OR_NONE(n, lo, hi, h)                                                                \
    {                                                                                                \
        .name = n, .kinds = GD_SET_REAL | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}, .low = lo, \
        .high = hi, .help = h                                                                        \
    }
/* A number; none switches off what it is for. */
#define GD_REAL_OR_OFF(n, d, lo, hi, h)                                                              \
    {                                                                                                \
        .name = n, .kinds = GD_SET_REAL | GD_SET_NONE, .fallback = {.kind = GD_SET_REAL, .real = d}, \
        .low = lo, .high = hi, .help = h                                                             \
    }
#define GD_INT(n, d, lo, hi, h)                                                                   \
    {                                                                                             \
        .name = n, .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = d}, .low = lo, \
        .high = hi, .integer = true, .help = h                                                    \
    }
#define GD_INT_NEEDED(n, lo, hi, h)                                                        \
    {                                                                                      \
        .name = n, .kinds = GD_SET_REAL, .low = lo, .high = hi, .integer = true, .help = h \
    }
#define GD_INT_OR_NONE(n, lo, hi, h)                                                                 \
    {                                                                                                \
        .name = n, .kinds = GD_SET_REAL | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}, .low = lo, \
        .high = hi, .integer = true, .help = h                                                       \
    }
#define GD_FLAG(n, d, h)                                                                         \
    {                                                                                            \
        .name = n, .kinds = GD_SET_BOOL, .fallback = {.kind = GD_SET_BOOL, .real = d}, .help = h \
    }
/* A flag of other systems that cannot be changed here: any value but the default is an error that says why. */
#define GD_FIXED_FLAG(n, d, why)                                                                    \
    {                                                                                               \
        .name = n, .kinds = GD_SET_BOOL, .fallback = {.kind = GD_SET_BOOL, .real = d}, .only = why, \
        .help = "fixed: " why                                                                       \
    }
/* A flag that is left open: false in plain steps, true under gd_minimize. */
#define GD_OPEN_FLAG(n, h)                                                                          \
    {                                                                                               \
        .name = n, .kinds = GD_SET_BOOL | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}, .help = h \
    }
#define GD_CHOICE(n, d, c, h)                                                                              \
    {                                                                                                      \
        .name = n, .kinds = GD_SET_STRING, .fallback = {.kind = GD_SET_STRING, .string = d}, .choices = c, \
        .help = h                                                                                          \
    }
#define GD_CHOICE_OR_NONE(n, c, h)                                                                        \
    {                                                                                                     \
        .name = n, .kinds = GD_SET_STRING | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}, .choices = c, \
        .help = h                                                                                         \
    }
#define GD_SELECTION(n, h)                                              \
    {                                                                   \
        .name = n, .kinds = GD_SET_STRING, .selection = true, .help = h \
    }
#define GD_CHILD(n, h)                                                                               \
    {                                                                                                \
        .name = n, .kinds = GD_SET_CHAIN | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}, .help = h \
    }
#define GD_CHILD_NEEDED(n, h)                       \
    {                                               \
        .name = n, .kinds = GD_SET_CHAIN, .help = h \
    }
#define GD_CHILDREN(n, h)                                             \
    {                                                                 \
        .name = n, .kinds = GD_SET_CHAIN, .variadic = true, .help = h \
    }
/* A number or a chain, for gd_rule_operand; OPERANDS: any number of them, all children. */
#define GD_OPERAND(n, h)                                                                              \
    {                                                                                                 \
        .name = n, .kinds = GD_SET_REAL | GD_SET_CHAIN, .low = -INFINITY, .high = INFINITY, .help = h \
    }
#define GD_OPERAND_OR_NONE(n, h)                                                                         \
    {                                                                                                    \
        .name = n, .kinds = GD_SET_REAL | GD_SET_CHAIN | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}, \
        .low = -INFINITY, .high = INFINITY, .help = h                                                    \
    }
#define GD_OPERANDS(n, h)                                                                   \
    {                                                                                       \
        .name = n, .kinds = GD_SET_REAL | GD_SET_CHAIN, .low = -INFINITY, .high = INFINITY, \
        .variadic = true, .help = h                                                         \
    }

/* Settings that the core reads in every class that has them:
 *   GD_TARGET         of rules and functions of tensors: what the link reads and what its result replaces.  "update": the
 *                     update; "grad": the gradient; "closure": every later gradient of the objective;
 *                     "params_direct": the parameters, set to the result; "params_difference": the parameters, with the
 *                     update set to their difference to the result; "update_difference": the update minus the link's result
 *   GD_UPDATE_FREQ    of the same: update_rule or update_tensors runs at steps 0, n, 2 n ... of the link, apply always;
 *                     a class with updates_always is called at every step and reads it itself
 *   GD_INNER          of functions of tensors: a chain that the tensors pass after update and before apply.  A rule
 *                     calls it explicitly: gd_rule_child(r, "inner", u)
 *   GD_CONCAT_PARAMS  of functions of tensors whose class says concat_params: whether all parameters are one vector
 *   GD_POWER          the power of a second moment, a square by default: gd_rule_power(r, x, gd_rule_number(r, "pow"))
 *   GD_SEED           gd_link_random draws from the link's own stream
 *   GD_STATE_IN       of rules with state: its storage type.  "auto": the optimizer's state dtype (gd_optimizer_state_dtype);
 *                     "f32"; "bf16", "f16": rounded by chance; "8bit": codes of eight bits, in blocks of 256 with a scale each
 *                     (parameters of fewer than 4096 elements: f32); "8bit+feedback": the rounding error is stored too, in a second set
 *                     of codes.  Every rule has this setting unless all its state is GD_SLOT_EXACT; GD_WIDE_STATE_IN if the
 *                     rest is GD_SLOT_WIDE
 * gd_var_last_lrs gives a setting "lr" of the last link to the link before it. */
#define GD_POWER                                                                                        \
    {                                                                                                   \
        .name = "pow", .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = 2}, .low = 1e-3, \
        .high = 100, .structural = true, .help = "power of the second moment"                           \
    }
#define GD_NORM_ORDER                                                                                   \
    {                                                                                                   \
        .name = "ord", .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = 2}, .low = 1e-3, \
        .high = INFINITY, .structural = true, .help = "order of the norm"                               \
    }
#define GD_UPDATE_FREQ(h)   GD_INT("update_freq", 1, 1, 1e9, h)
#define GD_INNER(h)         GD_CHILD("inner", h)
#define GD_CONCAT_PARAMS(h) GD_FLAG("concat_params", true, h)
#define GD_SEED(h)          GD_INT_OR_NONE("seed", -9e15, 9e15, h)
#define GD_STATE_IN \
    GD_CHOICE("state", "auto", "auto|f32|bf16|f16|8bit|8bit+feedback", "what the state is kept in")
#define GD_WIDE_STATE_IN GD_CHOICE("state", "auto", "auto|f32|bf16|f16", "what the state is kept in")
#define GD_TARGET                                                                                          \
    GD_CHOICE("target", "update", "update|grad|closure|params_direct|params_difference|update_difference", \
              "what the link reads and sets")

/* ---- classes ---- */

/* A state slot: one tensor per parameter.  Rules store it as the setting GD_STATE_IN says, or else in the optimizer's state dtype
 * (gd_optimizer_state_dtype). */
enum {
    GD_SLOT_SQUARE = 8, /* means of squares (with a setting GD_POWER: of that power): links that rotate the
              update rotate it as such */
    GD_SLOT_WIDE = 16,  /* also read as a tensor (gd_link_state): never codes of eight bits */
    GD_SLOT_POSITIVE =
        32, /* never negative, as squares are: all codes of eight bits are used for such numbers */
    GD_SLOT_PARTIAL =
        4, /* a rule may give it the parameter's shape without some axes (gd_rule_slot_without) */
    GD_SLOT_ONLINE = 1, /* depends on the previous evaluation: forgotten by reset_for_online */
    GD_SLOT_EXACT = 2   /* always has the parameter's dtype, because differences are computed from it */
};
typedef struct gd_slot {
    const char *name;
    unsigned flags;
} gd_slot;

/* A slot for each axis that a parameter may have, and their names. */
#define GD_AXIS_NAMES(name)                                                                    \
    {                                                                                          \
        name "_0", name "_1", name "_2", name "_3", name "_4", name "_5", name "_6", name "_7" \
    }
#define GD_AXIS_SLOTS(name)                                                                         \
    {name "_0", 0}, {name "_1", 0}, {name "_2", 0}, {name "_3", 0}, {name "_4", 0}, {name "_5", 0}, \
        {name "_6", 0},                                                                             \
    {                                                                                               \
        name "_7", 0                                                                                \
    }

/* The arguments of update and apply of a tensor-wise link, lists of tensors.  All borrowed.  With concat_params each list has
 * one tensor: all elements as a vector. */
typedef struct gd_transform {
    gd_link *link;
    gd_var *var; /* may be NULL when used by hand */
    int count;
    int key_count; /* with concat_params the number of all parameters, else count */
    gd_tensor *const *params;
    gd_tensor *const *
        keys; /* the keys of state and settings (gd_link_state): the parameters; one vector of all uses the first
                  parameter */
    gd_tensor *const *grads; /* may be NULL unless the class uses them */
    gd_tensor *loss;         /* may be NULL unless the class uses it */
    gd_tensor **
        tensors; /* apply writes into them, or replaces entries by new tensors of the same shapes; update only
                                reads.  They are copies unless the class has reads_only */
    const struct gd_call_args *call; /* for the core */
} gd_transform;

/* Arrays of a class, counted by the compiler: GD_LINK(step_size, lr, GD_FIELDS(lr_fields), .rule = lr_rule). */
#define GD_FIELDS(array)  .fields = array, .field_count = (int)(sizeof(array) / sizeof *(array))
#define GD_SLOTS(array)   .slots = array, .slot_count = (int)(sizeof(array) / sizeof *(array))
#define GD_SCALARS(array) .scalars = array, .scalar_count = (int)(sizeof(array) / sizeof *(array))

/* How the work of a link is split over several processes.  Rules are FLAT and need not set it. */
typedef enum gd_spread {
    GD_SPREAD_FLAT = 1, /* element by element: any process may have any piece of a tensor */
    GD_SPREAD_TENSOR, /* tensor by tensor: sums along axes, factorisations of a parameter.  Functions of tensors get the
                         tensors of one process only: they keep nothing but state of parameters, draw no random numbers,
                         and return the dtype that they got */
    GD_SPREAD_VECTOR, /* all parameters as one vector: element by element except dot products and evaluations.  Functions of
                         tensors of a link without objective get the shard that one process has of each tensor: they sum
                         with gd_list_dot and gd_list_norm (orders 1, 2, infinity) over all of them, keep nothing but state of
                         parameters, take sizes from the key, draw no random numbers and keep dtypes */
    GD_SPREAD_WHOLE /* every process does all the work: matrices over all parameters, decisions */
} gd_spread;

/* Properties of the functions of a class.  All false: they read and write only their tensors and the state. */
typedef struct gd_link_traits {
    bool uses_grad, uses_loss; /* functions of tensors get them; for rules it is found automatically */
    bool concat_params;        /* functions of tensors get all parameters as one vector */
    bool updates_always;       /* update_tensors runs at every step; it reads update_freq itself */
    /* apply_tensors replaces entries of tensors and never writes into one: it gets them without a copy, possibly the gradient
     * itself */
    bool reads_only;
    bool whole_settings; /* functions of tensors read settings once for all parameters, not by key */
    bool own_settings;   /* step, update or apply read settings per parameter, so they may differ */
    bool
        keeps_history; /* its matrices are those of gradus/link/quasi_newton.h; ranks may keep some of their columns each */
    bool
        no_child_hessian; /* the children's parameters are not this link's: a Hessian is not searched there */
    /* Evaluates the objective: a step without one is refused, and if an evaluation fails the optimizer restores the parameters. */
    bool needs_closure;
    /* Moves the parameters or changes the objective before the first evaluation: gradients from before the step would belong to
     * different parameters, or to a different objective. */
    bool acts_first;
    bool moves_params; /* moves the parameters itself: if the step fails later, the optimizer restores them */
    /* Needs a closure and restores parameters that it moved, on failure too: the optimizer keeps no copy of them. */
    bool restores_params;
} gd_link_traits;

/* A class of links: settings, state, texts for help and documentation, functions.  Exactly one of the groups marked Either and
 * Or is set; all other members are optional.  The struct stays flat, except for traits, because users initialize it by
 * name: parts would only put a second name before every member. */
typedef struct gd_link_class {
    const char *name;
    const char *family;
    const char *summary;
    const char *formula;
    const char *paper;
    const char *cost;    /* work and memory beyond passes and state of rules, which the core computes */
    const char *example; /* a chain with the link in it */
    const gd_field *fields;
    int field_count;
    const gd_slot *slots;
    int slot_count;
    const char *const *scalars; /* names of per-parameter numbers */
    int scalar_count;
    size_t data_size; /* zeroed block for the link's own use, gd_link_data */

    /* Either: element-wise.  update_rule only sets state; rule returns the new update. */
    void (*update_rule)(gd_rule *r, gd_value update);
    gd_value (*rule)(gd_rule *r, gd_value update);
    const char *target; /* of a class without the setting GD_TARGET: what it reads and sets; NULL: "update" */
    bool (*element_wise)(
        const gd_link *link); /* false: these settings need the functions of tensors; NULL: always true */
    bool (*along_axes)(
        const gd_link *
            link); /* true: with these settings the rule reduces along axes, and the link is split by tensors; NULL: never */

    /* Or: lists of tensors. */
    gd_status (*update_tensors)(const gd_transform *t);
    gd_status (*apply_tensors)(const gd_transform *t);

    /* Or: the whole step. */
    gd_status (*step)(gd_link *link, gd_var *var);
    gd_status (*update)(gd_link *link, gd_var *var);
    gd_status (*apply)(gd_link *link, gd_var *var);

    /* Or: children for different parameters.  The number of the child that a parameter goes to; -1: its update stays as it is.
     * Each child makes a separate step for its parameters: norms, line searches and Hessians are over these only.  If a child
     * skips its step, its parameters stay.  Children that are rules without norms over all parameters are fused. */
    int (*part)(const gd_link *link, const gd_tensor *param);

    /* If step is gd_link_step_projected: the projection of its child (gradus/link/projection.h), for gd_explain. */
    const struct gd_projection *projection;

    /* Or: a preset: a name for the chain in this text.  $NAME is the value of the setting NAME;
     * a link after `SETTING:` is omitted if the setting is 0, false or none, after `!SETTING:` if it is not:
     *     .preset = "momentum: heavy_ball($momentum) | !plain: clip_value(1) | lr($lr)" */
    const char *preset;

    /* Called before the transform reads anything, and after it has set its target. */
    gd_status (*pre_step)(gd_link *link, gd_var *var);
    gd_status (*post_step)(gd_link *link, gd_var *var);

    gd_status (*check)(gd_link *link); /* refuses settings that contradict each other */
    /* Bytes of state for these parameters, of a link that is no rule, without its children: for gd_explain before the first step.
     * NULL: every slot is as large as its parameter. */
    int64_t (*state_bytes)(const gd_link *link, gd_tensor *const *params, int count);
    gd_linop *(*hessian)(gd_link *link, gd_var *var);
    /* The tensor to evaluate with in place of a parameter (gd_optimizer_evaluate), such as an average.  New or borrowed, with
     * the parameter's shape; the parameter itself if there is no better one yet; NULL on failure. */
    gd_tensor *(*evaluated)(gd_link *link, gd_tensor *param);
    void (*reset)(gd_link *link);
    void (*reset_for_online)(gd_link *link);
    void (*destroy)(gd_link *link);
    /* `data` is saved only if the class has both of these.  pack runs before the link is saved and copies `data` into
     * link-wide state (gd_link_global, gd_link_set_global_tensor); unpack gets a link with that state and a zeroed block of
     * data, and fills it.  If unpack fails nothing is loaded. */
    gd_status (*pack)(gd_link *link);
    gd_status (*unpack)(gd_link *link);
    gd_spread spread;      /* of its functions other than the rule; 0: WHOLE, which is always correct */
    gd_link_traits traits; /* what its functions do */
} gd_link_class;

/* Defines gd_link_NAME, the class of a link with its family and name and the given members. */
#define GD_LINK(family_, name_, ...) \
    const gd_link_class gd_link_##name_ = {.name = #name_, .family = #family_, __VA_ARGS__}
/* The same for a link whose rule is NAME_rule, with its texts and the other members. */
#define GD_RULE_LINK(family_, name_, summary_, formula_, example_, ...) \
    GD_LINK(family_, name_, .summary = summary_, .formula = formula_, .example = example_, .rule = name_##_rule, __VA_ARGS__)

/* All built-in classes: gd_link_classes()[0 .. count). */
const gd_link_class *const *gd_link_classes(int *count);
const gd_link_class *gd_link_class_find(const char *name); /* of the built-in ones; NULL if there is none */
/* All presets, which are names for chains. */
const gd_link_class *const *gd_link_presets(int *count);
/* Adds a user's class to a context, for chain texts.  The class must outlive the context. */
GD_NODISCARD gd_status gd_link_class_register(gd_ctx *ctx, const gd_link_class *cls);
/* How a link with its settings is split over processes, without its children; 0 for NULL. */
gd_spread gd_link_spread(const gd_link *link);
/* True if a process can run the link and its children over its own shards without communication: a rule without norms or
 * other sums over elements and without random numbers.  False for NULL, and if its rule cannot be built. */
bool gd_link_is_local(gd_link *link);
/* True if it changes the result of an evaluation before the first one: its class has acts_first, or its target is
 * "params_direct" or "closure"; children are not considered.  A step with such a link needs an objective, not gradients of an
 * earlier evaluation. */
bool gd_link_acts_first(const gd_link *link);
/* "flat", "tensor", "vector", "whole". */
const char *gd_spread_name(gd_spread spread);

/* ---- link instances ---- */

/* A link with default settings.  New.  ARGUMENT: a preset is no link; use gd_chain. */
gd_link *gd_link_new(gd_ctx *ctx, const gd_link_class *cls);

/* A setting by name for gd_link_with, made by the functions below.  NAN, NULL and GD_OPEN mean none, or the default. */
typedef struct gd_link_option {
    const char *field;
    gd_setting value;         /* kind 0: not given */
    gd_link *const *children; /* of a CHAIN */
    gd_link *child;           /* the same for one */
    int child_count;
} gd_link_option;

#define GD_OPEN (-1) /* a flag that is left open */

/* Any value but a link. */
static inline gd_link_option gd_any_option(const char *field, gd_setting value)
{
    const gd_link_option o = {field, value, NULL, NULL, 0};
    return o;
}
/* NAN: none. */
static inline gd_link_option gd_number_option(const char *field, double value)
{
    return gd_any_option(field, value == value ? gd_setting_real(value) : gd_setting_none());
}
/* True or false. */
static inline gd_link_option gd_flag_option(const char *field, bool value)
{
    return gd_any_option(field, gd_setting_bool(value));
}
/* 0, 1 or GD_OPEN. */
static inline gd_link_option gd_open_option(const char *field, int value)
{
    return gd_any_option(field, value == GD_OPEN ? gd_setting_none() : gd_setting_bool(value != 0));
}
/* NULL: none. */
static inline gd_link_option gd_string_option(const char *field, const char *value)
{
    return gd_any_option(field, value ? gd_setting_string(value) : gd_setting_none());
}
/* A link, consumed; NULL: none. */
static inline gd_link_option gd_child_option(const char *field, gd_link *child)
{
    const gd_link_option o = {field, {GD_SET_CHAIN, 0, NULL, NULL, NULL, 0}, NULL, child, child ? 1 : 0};
    return o;
}
/* The link if it is not NULL, else the number. */
static inline gd_link_option gd_operand_option(const char *field, double number, gd_link *link)
{
    return link ? gd_child_option(field, link) : gd_number_option(field, number);
}
/* Links for a variadic setting, consumed. */
static inline gd_link_option gd_children_option(const char *field, gd_link *const *children, int count)
{
    const gd_link_option o = {field, {GD_SET_CHAIN, 0, NULL, NULL, NULL, 0}, children, NULL, count};
    return o;
}
/* A link of a class that the context knows, or the chain of a preset, with these settings and defaults for the rest.  gradus/links.h
 * has a typed version for every built-in link.  Children are consumed, on failure too.  New; NULL with ATTRIBUTE, TYPE or VALUE
 * recorded for a setting, ARGUMENT if a required one is missing or a child is NULL. */
gd_link *gd_link_with(gd_ctx *ctx, const char *name, const gd_link_option *options, int count);

/* One reference more; NULL is fine. */
gd_link *gd_link_retain(gd_link *link);
/* One reference less; NULL is fine.  A link in a chain or optimizer belongs to it: releasing one that was not retained
 * does nothing. */
void gd_link_release(gd_link *link);
/* Its context, its class, and its block of data_size bytes.  Borrowed. */
gd_ctx *gd_link_ctx(const gd_link *link);
const gd_link_class *gd_link_class_of(const gd_link *link);
void *gd_link_data(gd_link *link);

/* The link's own settings.  ATTRIBUTE: no such field; TYPE, VALUE: it does not accept the value.  Strings and lists are copied. */
GD_NODISCARD gd_status gd_link_set(gd_link *link, const char *field, gd_setting value); /* any but a child */
GD_NODISCARD gd_status gd_link_set_real(gd_link *link, const char *field, double value);
GD_NODISCARD gd_status gd_link_set_bool(gd_link *link, const char *field, bool value);
GD_NODISCARD gd_status gd_link_set_string(gd_link *link, const char *field, const char *value);
GD_NODISCARD gd_status gd_link_set_none(gd_link *link, const char *field);
GD_NODISCARD gd_status gd_link_set_list(gd_link *link, const char *field, const double *values, int count);
/* A number that changes with the step of the link's optimizer, counted as gd_optimizer_schedule does.  Outside an optimizer
 * it is that of step 0.  PARSE: the setting does not accept a value of the schedule, at any step. */
GD_NODISCARD gd_status gd_link_set_schedule(gd_link *link, const char *field, const gd_schedule *schedule);
/* child is consumed, also on failure; a variadic field takes one more child.  STATE: the child is in a chain already.
 * CYCLE: the link is below the child. */
GD_NODISCARD gd_status gd_link_set_child(gd_link *link, const char *field, gd_link *child);
/* A link-local setting for one parameter: it overrides groups and defaults. */
GD_NODISCARD gd_status gd_link_set_for(gd_link *link, gd_tensor *param, const char *field, gd_setting value);
/* The same for several parameters from text: "momentum=0.5, lerp=true". */
GD_NODISCARD gd_status gd_link_set_group(gd_link *link, gd_tensor *const *params, int count,
                                         const char *settings);

/* Removes such a setting (field NULL: all of the parameter's).  ATTRIBUTE: there is none. */
GD_NODISCARD gd_status gd_link_unset_for(gd_link *link, gd_tensor *param, const char *field);

/* The setting in force, as every link reads it.  Precedence: link-local, the parameter's group, all groups, the link's own;
 * schedules are evaluated at the current step.
 * param NULL: one value for the whole step, for settings that belong to no parameter (a damping, a line search's c1): that of
 * the first parameter.  If parameters disagree the error names them, VALUE: before the step for classes with step, update
 * or apply, concat_params or whole_settings, and for fields with `whole`; else when it is read, and the step fails.
 * Outside an optimizer: the link's own.  Borrowed, until a setting is changed; NULL, and ATTRIBUTE recorded: no such field. */
const gd_setting *gd_link_get(const gd_link *link, const char *field, const gd_tensor *param);
double gd_link_real(const gd_link *link, const char *field, const gd_tensor *param); /* NAN if it is none */
bool gd_link_flag(const gd_link *link, const char *field); /* a flag left open is true under gd_minimize */
bool gd_link_is(const gd_link *link, const char *field, const char *string);
bool gd_link_is_none(const gd_link *link, const char *field);
bool gd_link_has_field(const gd_link *link, const char *field); /* does its class have the setting? */
/* Does a parameter match the selection in a setting?  Its name is that in the link's optimizer. */
bool gd_link_selects(const gd_link *link, const char *field, const gd_tensor *param);

/* Children in the order of their fields, those of one variadic field in the order given.  Borrowed. */
int gd_link_children(const gd_link *link);
gd_link *gd_link_child_at(const gd_link *link, int index);
gd_link *gd_link_child(const gd_link *link, const char *field); /* NULL if it is none */

/* Per-parameter state, created on first use: zeros with the parameter's shape.  Borrowed; NULL on failure. */
gd_tensor *gd_link_state(gd_link *link, gd_tensor *param, const char *slot);
/* The same with a different initial value, of any shape and dtype. */
typedef enum gd_init_kind { GD_INIT_ZEROS, GD_INIT_COPY, GD_INIT_CONSTANT, GD_INIT_FUNCTION } gd_init_kind;
typedef struct gd_init {
    gd_init_kind kind;
    gd_tensor *tensor; /* COPY: of the parameter, its gradient, ...; ZEROS and CONSTANT: the shape, or NULL */
    double value;      /* CONSTANT */
    gd_tensor *(*make)(void *user, gd_tensor *param); /* FUNCTION: new */
    void *user;
} gd_init;
gd_tensor *gd_link_state_from(gd_link *link, gd_tensor *param, const char *slot, gd_init init);
bool gd_link_has_state(const gd_link *link, const gd_tensor *param, const char *slot); /* was it created? */
/* Replaces it with a copy of value; NULL removes it.  A value with the parameter's axes meets it by name and label.  State of a
 * rule, and state with the parameter's shape, must have its names (AXIS) and labels (LABEL); state of a rule also its shape
 * (SHAPE). */
GD_NODISCARD gd_status gd_link_set_state(gd_link *link, gd_tensor *param, const char *slot, gd_tensor *value);
double *gd_link_scalar(gd_link *link, gd_tensor *param, const char *name); /* 0 on first use */
/* Updates of the link so far: of rules and functions of tensors. */
int64_t gd_link_steps(const gd_link *link);
/* The updates that included a parameter, as its rule counts them (gd_rule_step): fewer if it was added later, frozen, or
 * had no gradient.  Set it together with imported state; other parameters keep theirs.  VALUE: a negative
 * number. */
int64_t gd_link_steps_of(const gd_link *link, const gd_tensor *param);
GD_NODISCARD gd_status gd_link_set_steps_of(gd_link *link, gd_tensor *param, int64_t steps);
/* Link-wide state by name, saved with the optimizer.  The address is valid until the link is reset. */
double *gd_link_global(gd_link *link, const char *name, double first);
/* Reads the value, `first` if there is none yet; and sets it. */
double gd_link_kept(const gd_link *link, const char *name, double first);
GD_NODISCARD gd_status gd_link_keep(gd_link *link, const char *name, double value);
bool gd_link_has_global(const gd_link *link, const char *name);
gd_tensor *gd_link_global_tensor(gd_link *link, const char *name); /* borrowed; NULL if there is none */
GD_NODISCARD gd_status gd_link_set_global_tensor(gd_link *link, const char *name, gd_tensor *value);
/* Random numbers of this link, shaped like `like` and on its device: from its own stream if it has a GD_SEED setting that
 * is a number, else from the context's.  ARGUMENT: no such kind.  New. */
gd_tensor *gd_link_random(gd_link *link, gd_random_kind kind, gd_tensor *like);
/* The same for a list, with its names and labels, by the name of a distribution: "normal" or "gaussian", "rademacher", "uniform" in
 * [-1, 1], "sphere" of radius 1 of all elements together.  ARGUMENT: no such name.  New. */
#define GD_DISTRIBUTIONS "normal|gaussian|rademacher|uniform|sphere"
GD_NODISCARD gd_status gd_link_random_list(gd_link *link, const char *distribution, gd_tensor *const *like,
                                           int count, gd_tensor **out);
/* True if update_tensors runs at the next step of the link, by its setting update_freq.  For pre_step. */
bool gd_link_is_due(const gd_link *link);
/* Clears the state of all links of its optimizer except itself, its ancestors and descendants. */
void gd_link_reset_others(gd_link *link);

/* Zeroed memory for the rest of the step; and an array of count NULLs.  Borrowed, freed with the innermost scope, that of
 * the step. */
void *gd_link_memory(gd_link *link, size_t bytes);
gd_tensor **gd_link_scratch(gd_link *link, int count);
/* For gd_link_class.state_bytes: the bytes of that number of slots with the parameters' shapes. */
int64_t gd_link_slot_bytes(int slots, gd_tensor *const *params, int count);

void gd_link_reset(gd_link *link);            /* clears all state, of children too */
void gd_link_reset_for_online(gd_link *link); /* clears state that depends on the previous evaluation */

/* ---- links that run a chain in a different space ---- */

/* For apply_tensors: runs the child of that setting on tensors with the shapes of t->tensors; NULL entries are left out.  The child
 * uses them as update and gradient and keeps state for the same parameters.  Entries are replaced by new ones; without a child
 * nothing happens. */
GD_NODISCARD gd_status gd_transform_child(const gd_transform *t, const char *field, gd_tensor **tensors);
/* Gets and sets a slot of a link below with the shape of t->tensors[index], for links that rotate the space of a child: new,
 * NULL without an error if there is no state yet or it has a different shape. */
gd_tensor *gd_transform_below(const gd_transform *t, const gd_link *below, const char *slot, int index);
GD_NODISCARD gd_status gd_transform_set_below(const gd_transform *t, gd_link *below, const char *slot,
                                              int index, gd_tensor *value);

/* ---- links that scale the update ---- */

/* For apply_tensors: every tensor times a number. */
GD_NODISCARD gd_status gd_transform_scale(const gd_transform *t, double factor);
/* For update_tensors: products of s = change of the parameters and y = change of `list` (t->tensors, t->grads) since the last
 * call; first: there was no earlier call.  Keeps both in the slots GD_CHANGE_SLOTS, which the class must have. */
typedef struct gd_change {
    double ss, sy, yy;
    bool first;
} gd_change;
#define GD_CHANGE_SLOTS \
    {"previous_params", GD_SLOT_ONLINE}, { "previous_update", GD_SLOT_ONLINE }
GD_NODISCARD gd_status gd_transform_change(const gd_transform *t, gd_tensor *const *list, gd_change *out);

/* ---- running links ---- */

/* A whole step of the link or chain, or its halves: update changes the state, apply sets the update. */
GD_NODISCARD gd_status gd_link_step(gd_link *link, gd_var *var);
GD_NODISCARD gd_status gd_link_update(gd_link *link, gd_var *var);
GD_NODISCARD gd_status gd_link_apply(gd_link *link, gd_var *var);
/* The Hessian (approximation) of the link or of one of its children; more than one is an error.  New or NULL. */
gd_linop *gd_link_hessian(gd_link *link, gd_var *var);

/* The update after the link's setting `inner`, if it has one, as a vector.  New; NULL on failure. */
gd_tensor *gd_link_update_vector(gd_link *link, gd_var *var);

/* Runs a transform by hand on tensors with the parameters' shapes, which meet them by name and label, as gradients do.  State is
 * kept per parameter.  Update may be called several times before apply.  Settings are those of the parameters if they are in an
 * optimizer, else the link's.  The loss is one number or NULL. */
GD_NODISCARD gd_status gd_link_keyed_update(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                                            gd_tensor *const *grads, gd_tensor *loss, int count);
/* Entries of tensors are replaced by new ones. */
GD_NODISCARD gd_status gd_link_keyed_apply(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                                           gd_tensor *const *grads, gd_tensor *loss, int count);
/* The same with states that the caller owns, one per tensor, and the link's own settings; settings with one value for the
 * whole step are those in force. */
typedef struct gd_states gd_states;
gd_states *gd_states_new(gd_link *link, int count); /* new; holds the link */
void gd_states_free(gd_states *states);             /* NULL is fine */
gd_tensor *gd_states_get(gd_states *states, int index,
                         const char *slot); /* borrowed; NULL if there is none yet */
GD_NODISCARD gd_status gd_states_update(gd_states *states, gd_tensor **tensors, gd_tensor *const *params,
                                        gd_tensor *const *grads, gd_tensor *loss);
GD_NODISCARD gd_status gd_states_apply(gd_states *states, gd_tensor **tensors, gd_tensor *const *params,
                                       gd_tensor *const *grads, gd_tensor *loss);
/* A whole chain on any tensors, keyed by params: update and apply, as `inner` does.  Entries of tensors are replaced by new
 * ones; on failure they are as before. */
GD_NODISCARD gd_status gd_link_transform(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                                         gd_tensor *const *grads, gd_var *var, int count);

#ifdef __cplusplus
}
#endif
#endif
