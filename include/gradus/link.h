/* gradus/link.h: for authors of links.
 *
 * A link is one step of an optimizer.  Most are element-wise and only say their rule; the engine fuses the rules of
 * neighbouring links into one pass over memory and runs it anywhere:
 *
 *     static gd_value lr_rule(gd_rule *r, gd_value update) { return gd_rule_mul(r, update, gd_rule_setting(r, "lr")); }
 *
 *     static const gd_field lr_fields[] = {GD_REAL("lr", 1e-3, -INFINITY, INFINITY, "step size")};
 *     const gd_link_class gd_link_lr = {.name = "lr", GD_FIELDS(lr_fields), .rule = lr_rule};
 *
 * Whoever only uses links finds each with typed options in gradus/links.h.  Links that need numbers (norms of other tensors, line searches, factorisations) define step, or update and apply, and
 * ask the gd_var for loss, gradient and update.  Rules are in gradus/rule.h, the gd_var in gradus/var.h, lists of
 * tensors in gradus/list.h, linear operators in gradus/linop.h; this header includes them.  What whole families of links share
 * has headers of its own: line searches (gradus/line.h), searches among many minima (search.h), trust regions and Krylov methods (trust_region.h), Hessians
 * (hessian.h), quasi-Newton methods (quasi_newton.h), estimates of gradients (estimate.h). */
#ifndef GRADUS_LINK_H
#define GRADUS_LINK_H

#include "gradus/linop.h"
#include "gradus/list.h"
#include "gradus/rule.h"
#include "gradus/schedule.h"
#include "gradus/tensor.h"
#include "gradus/var.h"

#include <math.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- settings ---- */

/* Kinds of values, as bits: a field says which of them it takes. */
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
        *schedule;      /* REAL: makes the number, step by step; owned by the link.  NULL: it stays */
    const char *string; /* STRING; interned in the context */
    const double *list; /* LIST; owned by the link */
    int list_count;
} gd_setting;

/* Values by what they are. */
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

/* One setting of a link: what the chain parser, range checks, help, docs and printing know about it. */
typedef struct gd_field {
    const char *name;
    unsigned kinds;      /* allowed gd_setting_kind bits */
    gd_setting fallback; /* default; kind 0: must be given */
    double low, high;    /* of a REAL, both allowed */
    bool integer;        /* a REAL must be whole */
    const char *choices; /* of a STRING: "zeros|update"; NULL: any */
    bool
        variadic; /* a CHAIN field that takes any number of children, given by position; where it takes numbers
                            too, each becomes a child `fill` */
    bool structural; /* changes the program, not only a number in it (BOOL, STRING and NONE always do) */
    bool whole;      /* one value for all parameters although the class reads others for each */
    bool selection;  /* a STRING is a selection of parameters, see gd_select: for gd_link_selects */
    const char *
        only; /* why no value but the default is taken, where chains of other systems write it; NULL: any is */
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
/* A flag that is left open: false in plain steps, true where gd_minimize runs them. */
#define GD_OPEN_FLAG(n, h)                                                                          \
    {                                                                                               \
        .name = n, .kinds = GD_SET_BOOL | GD_SET_NONE, .fallback = {.kind = GD_SET_NONE}, .help = h \
    }
#define GD_CHOICE(n, d, c, h)                                                                              \
    {                                                                                                      \
        .name = n, .kinds = GD_SET_STRING, .fallback = {.kind = GD_SET_STRING, .string = d}, .choices = c, \
        .help = h                                                                                          \
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
/* A number or a chain, for gd_rule_operand; OPERANDS: any number of them, children all. */
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

/* Settings that the core itself reads, wherever a class has one of that name; written with these they have the meaning that
 * stands here.
 *   GD_TARGET         of rules and functions of tensors: what the link takes and what its result becomes.  "update": the
 *                     update; "grad": the gradient; "closure": every gradient that the objective gives from here on;
 *                     "params_direct": the parameters, set to the result; "params_difference": the parameters, the update
 *                     is what leads to the result; "update_difference": the update, less what the link makes of it
 *   GD_UPDATE_FREQ    of the same: update_rule or update_tensors runs at steps 0, n, 2 n ... of the link, apply always;
 *                     a class with updates_always is called at every step and reads it itself
 *   GD_INNER          of functions of tensors: a chain through which the tensors go after update and before apply.  A rule
 *                     calls it where it belongs: gd_rule_child(r, "inner", u)
 *   GD_CONCAT_PARAMS  of functions of tensors whose class says concat_params: whether all parameters are one vector
 *   GD_POWER          the power of a second moment, a square by default: gd_rule_power(r, x, gd_rule_number(r, "pow"))
 *   GD_SEED           gd_link_random draws from a stream of the link's own
 *   GD_STATE_IN       of rules with state: what it is kept in.  "auto": the optimizer's state dtype (gd_optimizer_state_dtype);
 *                     "f32"; "bf16", "f16": rounded by chance; "8bit": codes of eight bits, in blocks of 256 with a scale each
 *                     (parameters of fewer than 4096 elements: f32); "8bit+feedback": what these leave out is kept too, in codes of
 *                     its own.  Every rule whose state is not all GD_SLOT_EXACT has
 *                     it; GD_WIDE_STATE_IN where all the rest is GD_SLOT_WIDE
 * A setting "lr" of the last link is what gd_var_last_lrs tells the link before it. */
#define GD_POWER                                                                                        \
    {                                                                                                   \
        .name = "pow", .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = 2}, .low = 1e-3, \
        .high = 100, .structural = true, .help = "power of the second moment"                           \
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

/* A state slot: a tensor a parameter.  Rules keep theirs as the setting GD_STATE_IN says, or else in the optimizer's state dtype
 * (gd_optimizer_state_dtype). */
enum {
    GD_SLOT_SQUARE =
        8, /* means of squares (with a setting GD_POWER: of that power): links that turn the space of the update turn
              it as such */
    GD_SLOT_WIDE = 16,     /* also read as a tensor (gd_link_state): never codes of eight bits */
    GD_SLOT_POSITIVE = 32, /* never negative, as squares are: codes of eight bits are all for such numbers */
    GD_SLOT_PARTIAL =
        4, /* a rule may give it the parameter's shape without some axes (gd_rule_slot_without) */
    GD_SLOT_ONLINE = 1, /* depends on the previous evaluation: forgotten by reset_for_online */
    GD_SLOT_EXACT =
        2 /* has the parameter's dtype whatever the optimizer's state dtype: differences are taken with it */
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

/* A transform of lists of tensors: what update and apply of a tensor-wise link see.  All borrowed.  With concat_params
 * there is one of each: all elements as a vector. */
typedef struct gd_transform {
    gd_link *link;
    gd_var *var; /* may be NULL when used by hand */
    int count;
    int key_count; /* with concat_params the number of all parameters, else count */
    gd_tensor *const *params;
    gd_tensor *const *
        keys; /* whose state it is, for gd_link_state and settings: the parameters; one vector of all has its state with the
                  first */
    gd_tensor *const *grads; /* may be NULL unless the class uses them */
    gd_tensor *loss;         /* may be NULL unless the class uses it */
    gd_tensor **
        tensors; /* apply writes into them, or replaces entries by new tensors of the same shapes; update only
                                reads.  They are the link's own unless its class says reads_only */
    const struct gd_call_args *call; /* the core's */
} gd_transform;

/* Arrays of a class, counted by the compiler: {.name = "lr", GD_FIELDS(lr_fields), .rule = lr_rule}. */
#define GD_FIELDS(array)  .fields = array, .field_count = (int)(sizeof(array) / sizeof *(array))
#define GD_SLOTS(array)   .slots = array, .slot_count = (int)(sizeof(array) / sizeof *(array))
#define GD_SCALARS(array) .scalars = array, .scalar_count = (int)(sizeof(array) / sizeof *(array))

/* How the work of a link spreads over several processes.  Where its rule serves, a link is FLAT and need not say so. */
typedef enum gd_spread {
    GD_SPREAD_FLAT = 1, /* element by element: any process may have any piece of a tensor */
    GD_SPREAD_TENSOR, /* tensor by tensor: sums along axes, factorisations of a parameter.  Functions of tensors are called for
                         the tensors of one process alone: what they keep is state of parameters, they draw no random
                         numbers, and results have the dtype of what came in */
    GD_SPREAD_VECTOR, /* all parameters as one vector: element by element but for dot products and evaluations.  Functions of tensors
                         of a link that needs no objective are called with what one process has of each tensor: sums are
                         taken by gd_list_dot and gd_list_norm (orders 1, 2, infinity) over lists of all of them, what is kept is state of
                         parameters, how large one is its key tells, and as above they draw nothing and keep dtypes */
    GD_SPREAD_WHOLE   /* every process does all of it: matrices over all parameters, decisions */
} gd_spread;

/* What a link is: its settings and state, its texts for help and documentation, and the functions that do its work.  One of the
 * groups marked Either and Or is filled; everything else may be left out. */
typedef struct gd_link_class {
    const char *name;
    const char *family;
    const char *summary;
    const char *formula;
    const char *paper;
    const char *cost;    /* work and memory beyond what the core knows: passes and state of rules */
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
    const char *target; /* of a class without the setting GD_TARGET: what it takes and sets; NULL: "update" */
    bool (*element_wise)(
        const gd_link *link); /* false: with these settings the tensors functions serve; NULL: always */
    bool (*along_axes)(
        const gd_link
            *link); /* the rule reduces along axes with these settings: it spreads by tensors; NULL: never */

    /* Or: lists of tensors. */
    gd_status (*update_tensors)(const gd_transform *t);
    gd_status (*apply_tensors)(const gd_transform *t);

    /* Or: the whole step. */
    gd_status (*step)(gd_link *link, gd_var *var);
    gd_status (*update)(gd_link *link, gd_var *var);
    gd_status (*apply)(gd_link *link, gd_var *var);

    /* Or: chains over parameters of their own.  The number of the child that takes a parameter, -1: its update stays as it is.
     * Each child is a step of its own for its parameters: norms over all of them, line searches and Hessians are of these
     * alone; where one skips its step, its parameters stay.  Children that are rules, without norms over all parameters, fuse. */
    int (*part)(const gd_link *link, const gd_tensor *param);

    /* With a step that is gd_link_step_projected: what its child steps over (gradus/projection.h), for gd_explain. */
    const struct gd_projection *projection;

    /* Or: no link at all but a name for a chain, which a text expands to.  $NAME stands for the setting NAME as it was given;
     * links are left out where the setting before a colon is 0, false or none, with ! where it is not:
     *     .preset = "momentum: heavy_ball($momentum) | !plain: clip_value(1) | lr($lr)" */
    const char *preset;

    /* Around any transform: before it reads anything, after it has set its target. */
    gd_status (*pre_step)(gd_link *link, gd_var *var);
    gd_status (*post_step)(gd_link *link, gd_var *var);

    gd_status (*check)(gd_link *link); /* settings that do not fit together */
    /* Bytes of state that a link which is no rule comes to hold for these parameters, children aside: what gd_explain says
     * before there is any.  NULL: those of every slot, like its parameter. */
    int64_t (*state_bytes)(const gd_link *link, gd_tensor *const *params, int count);
    gd_linop *(*hessian)(gd_link *link, gd_var *var);
    /* What to evaluate with in place of a parameter (gd_optimizer_evaluate): an average, say.  New or borrowed, like the
     * parameter; the parameter itself: there is nothing better yet; NULL: it failed. */
    gd_tensor *(*evaluated)(gd_link *link, gd_tensor *param);
    void (*reset)(gd_link *link);
    void (*reset_for_online)(gd_link *link);
    void (*destroy)(gd_link *link);
    /* What data holds is not saved unless the class has both of these.  pack runs before the link is saved and puts it into
     * link-wide state (gd_link_global, gd_link_set_global_tensor); unpack gets a link with what was saved there and a zeroed
     * block of data, and fills that.  Where unpack fails nothing is loaded. */
    gd_status (*pack)(gd_link *link);
    gd_status (*unpack)(gd_link *link);
    gd_spread spread;          /* of what is not its rule; 0: WHOLE, the one that is always right */
    bool uses_grad, uses_loss; /* functions of tensors get them; of a rule it is seen by itself */
    bool concat_params;
    bool
        updates_always; /* update_tensors runs at every step; it reads update_freq itself, for a part of its work */
    bool
        reads_only; /* apply_tensors replaces entries of tensors and never writes into one: it is given them without a
                        copy, the gradient itself perhaps */
    bool
        whole_settings; /* functions of tensors that read their settings once for all parameters, not by key */
    bool
        own_settings; /* a class with step, update or apply that reads its settings for each parameter: they may differ */
    bool
        keeps_history; /* its matrices are those of gradus/quasi_newton.h, of which each of several ranks may keep some columns */
    bool
        no_child_hessian; /* the children's parameters are not this link's: do not look for a Hessian there */
    bool
        needs_closure; /* evaluates the objective: a step without one is refused, and when one fails the optimizer puts
                           the parameters back */
    bool
        acts_first; /* it moves the parameters or changes the objective before that is asked: gradients that were evaluated before the
                       step would be of other parameters, or of another objective */
    bool
        moves_params; /* it may move the parameters itself in a step that fails later: the optimizer puts them back */
    bool
        restores_params; /* it needs a closure, but itself brings back parameters that it moved, also when it fails: the
                             optimizer keeps no copy of them */
} gd_link_class;

/* The classes there are: gd_link_classes()[0 .. count). */
const gd_link_class *const *gd_link_classes(int *count);
const gd_link_class *gd_link_class_find(const char *name); /* of the built-in ones; NULL if there is none */
/* The presets, which are names for chains: the same. */
const gd_link_class *const *gd_link_presets(int *count);
/* Adds a user's class to a context: chain texts there know it.  The class must outlive the context. */
GD_NODISCARD gd_status gd_link_class_register(gd_ctx *ctx, const gd_link_class *cls);
/* How a link spreads with the settings it has, its children aside; 0 for NULL. */
gd_spread gd_link_spread(const gd_link *link);
/* May a process run the link, children and all, over its own pieces of tensors and know nothing of the others?  It is a
 * rule with no norm or other sum over elements and no random numbers.  False for NULL, and where its rule cannot be made. */
bool gd_link_is_local(gd_link *link);
/* Does it change what an evaluation gives before the objective is asked?  By its class (acts_first), or with the target
 * "params_direct" or "closure"; its children are not looked at.  Where one does, a step gets an objective, not gradients of
 * an evaluation before it. */
bool gd_link_acts_first(const gd_link *link);
/* "flat", "tensor", "vector", "whole". */
const char *gd_spread_name(gd_spread spread);

/* ---- link instances ---- */

/* A link with default settings.  New.  ARGUMENT: a preset is no link, gd_chain makes its links. */
gd_link *gd_link_new(gd_ctx *ctx, const gd_link_class *cls);

/* A setting by name for gd_link_with, made by the functions below; what is not given (NAN, NULL, GD_OPEN) is none, or the
 * link does without. */
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
/* The link where there is one, else the number. */
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
/* A link of a class that the context knows, or the chain of a preset, with these settings and the defaults of the rest: what gradus/links.h does for
 * every built-in link with typed options.  Children are consumed, also on failure.  New; NULL with ATTRIBUTE, TYPE or VALUE
 * recorded for a setting, ARGUMENT where one that is needed was not given or a child is NULL. */
gd_link *gd_link_with(gd_ctx *ctx, const char *name, const gd_link_option *options, int count);

/* One reference more; NULL is fine. */
gd_link *gd_link_retain(gd_link *link);
/* One reference less; NULL is fine.  A link in a chain or optimizer belongs to it: releasing one that was not retained
 * does nothing. */
void gd_link_release(gd_link *link);
/* What it was made with, and its block of data_size bytes.  Borrowed. */
gd_ctx *gd_link_ctx(const gd_link *link);
const gd_link_class *gd_link_class_of(const gd_link *link);
void *gd_link_data(gd_link *link);

/* The link's own settings.  ATTRIBUTE: no such field; TYPE, VALUE: it does not take this.  Strings and lists are copied. */
GD_NODISCARD gd_status gd_link_set(gd_link *link, const char *field, gd_setting value); /* any but a child */
GD_NODISCARD gd_status gd_link_set_real(gd_link *link, const char *field, double value);
GD_NODISCARD gd_status gd_link_set_bool(gd_link *link, const char *field, bool value);
GD_NODISCARD gd_status gd_link_set_string(gd_link *link, const char *field, const char *value);
GD_NODISCARD gd_status gd_link_set_none(gd_link *link, const char *field);
GD_NODISCARD gd_status gd_link_set_list(gd_link *link, const char *field, const double *values, int count);
/* A number that changes with the step: that of the link's optimizer, counted as gd_optimizer_schedule does.  Outside one it
 * is that of step 0.  PARSE: a value of the schedule, at whatever step, is none that the setting takes. */
GD_NODISCARD gd_status gd_link_set_schedule(gd_link *link, const char *field, const gd_schedule *schedule);
/* child is consumed, also on failure; a variadic field takes one more child.  STATE: the child is in a chain already.
 * CYCLE: the link is below the child. */
GD_NODISCARD gd_status gd_link_set_child(gd_link *link, const char *field, gd_link *child);
/* Link-local setting for one parameter: above groups and defaults. */
GD_NODISCARD gd_status gd_link_set_for(gd_link *link, gd_tensor *param, const char *field, gd_setting value);
/* The same for several parameters from text: "momentum=0.5, lerp=true". */
GD_NODISCARD gd_status gd_link_set_group(gd_link *link, gd_tensor *const *params, int count,
                                         const char *settings);

/* Takes such a setting back (field NULL: all of the parameter's).  ATTRIBUTE: there is none. */
GD_NODISCARD gd_status gd_link_unset_for(gd_link *link, gd_tensor *param, const char *field);

/* The setting in force: the one accessor that every link reads through.  Link-local is above the parameter's group, that
 * above what all groups have, that above the link's own; schedules have said the number of the step.
 * param NULL: the one value for the whole step, for what belongs to no parameter (a damping, a line search's c1): that of
 * the first parameter.  Parameters that disagree are refused by name, VALUE: before the step for classes with step, update
 * or apply, concat_params or whole_settings, and for fields with `whole`; else when it is read, and the step fails.
 * Outside an optimizer: the link's own.  Borrowed, until a setting is changed; NULL, and ATTRIBUTE recorded: no such field. */
const gd_setting *gd_link_get(const gd_link *link, const char *field, const gd_tensor *param);
double gd_link_real(const gd_link *link, const char *field,
                    const gd_tensor *param); /* NAN where it is none */
bool gd_link_flag(const gd_link *link,
                  const char *field); /* one that is left open: true where gd_minimize runs it */
bool gd_link_is(const gd_link *link, const char *field, const char *string);
bool gd_link_is_none(const gd_link *link, const char *field);
bool gd_link_has_field(const gd_link *link, const char *field); /* does its class have such a setting? */
/* Does a parameter match the selection that a setting is?  Its name is the one it has in the link's optimizer. */
bool gd_link_selects(const gd_link *link, const char *field, const gd_tensor *param);

/* Children in the order of their fields, those of one variadic field in the order given.  Borrowed. */
int gd_link_children(const gd_link *link);
gd_link *gd_link_child_at(const gd_link *link, int index);
gd_link *gd_link_child(const gd_link *link, const char *field); /* NULL if it is none */

/* Per-parameter state, made on first use: zeros like the parameter.  Borrowed; NULL on failure. */
gd_tensor *gd_link_state(gd_link *link, gd_tensor *param, const char *slot);
/* The same with another first value, which need not have the parameter's shape or dtype. */
typedef enum gd_init_kind { GD_INIT_ZEROS, GD_INIT_COPY, GD_INIT_CONSTANT, GD_INIT_FUNCTION } gd_init_kind;
typedef struct gd_init {
    gd_init_kind kind;
    gd_tensor *
        tensor; /* COPY: of the parameter, its gradient, ...; ZEROS and CONSTANT: shaped like this, or NULL */
    double value;                                     /* CONSTANT */
    gd_tensor *(*make)(void *user, gd_tensor *param); /* FUNCTION: new */
    void *user;
} gd_init;
gd_tensor *gd_link_state_from(gd_link *link, gd_tensor *param, const char *slot, gd_init init);
bool gd_link_has_state(const gd_link *link, const gd_tensor *param, const char *slot); /* made already? */
/* Replaces it by a copy of value; NULL forgets it.  A value with the parameter's axes meets it by name and label.  State of a
 * rule, and what has the parameter's shape, is refused when its names (AXIS) or labels (LABEL) are others; state of a rule
 * also when its shape is (SHAPE). */
GD_NODISCARD gd_status gd_link_set_state(gd_link *link, gd_tensor *param, const char *slot, gd_tensor *value);
double *gd_link_scalar(gd_link *link, gd_tensor *param, const char *name); /* 0 on first use */
/* Updates of the link so far: of rules and functions of tensors. */
int64_t gd_link_steps(const gd_link *link);
/* Those that a parameter was part of, which is what its rule counts for it (gd_rule_step): fewer where it was added later, frozen,
 * or had no gradient and was left out.  Setting them is for state that comes from elsewhere; other parameters keep theirs.  VALUE: fewer
 * than none. */
int64_t gd_link_steps_of(const gd_link *link, const gd_tensor *param);
GD_NODISCARD gd_status gd_link_set_steps_of(gd_link *link, gd_tensor *param, int64_t steps);
/* Link-wide state, by any name; saved with the optimizer.  The address holds until the link is reset. */
double *gd_link_global(gd_link *link, const char *name, double first);
/* The same by value: `first` where nothing was kept yet; and kept. */
double gd_link_kept(const gd_link *link, const char *name, double first);
GD_NODISCARD gd_status gd_link_keep(gd_link *link, const char *name, double value);
bool gd_link_has_global(const gd_link *link, const char *name);
gd_tensor *gd_link_global_tensor(gd_link *link, const char *name); /* borrowed; NULL if there is none */
GD_NODISCARD gd_status gd_link_set_global_tensor(gd_link *link, const char *name, gd_tensor *value);
/* Random numbers of this link, shaped like `like` and on its device: from its own stream when it has a GD_SEED setting that
 * is a number, else from the context's.  ARGUMENT: no such kind.  New. */
gd_tensor *gd_link_random(gd_link *link, gd_random_kind kind, gd_tensor *like);
/* The same for a list, with its names and labels, by the name of a distribution: "normal" or "gaussian", "rademacher", "uniform" in
 * [-1, 1], "sphere" of radius 1 of all elements together.  ARGUMENT: no such name.  New. */
#define GD_DISTRIBUTIONS "normal|gaussian|rademacher|uniform|sphere"
GD_NODISCARD gd_status gd_link_random_list(gd_link *link, const char *distribution, gd_tensor *const *like,
                                           int count, gd_tensor **out);
/* Is the next step of the link one at which update_tensors runs, by its setting update_freq?  For pre_step. */
bool gd_link_is_due(const gd_link *link);
/* Forgets the state of all links of its optimizer but of itself and those around and below it. */
void gd_link_reset_others(gd_link *link);

/* Zeroed memory for the rest of the step, for anything; and an array of count NULLs.  Borrowed, freed with the innermost
 * scope: that of the step. */
void *gd_link_memory(gd_link *link, size_t bytes);
gd_tensor **gd_link_scratch(gd_link *link, int count);
/* For gd_link_class.state_bytes: so many slots like the parameters. */
int64_t gd_link_slot_bytes(int slots, gd_tensor *const *params, int count);

void gd_link_reset(gd_link *link);            /* forgets all state, of children too */
void gd_link_reset_for_online(gd_link *link); /* forgets what depends on the previous evaluation */

/* ---- links that run a chain in another space ---- */

/* For apply_tensors: the child of that setting on tensors with the shapes of t->tensors, a NULL for each that is to be left out.
 * It takes them for update and gradient and keeps its state for the same parameters.  Entries are replaced by new ones; without
 * a child nothing happens. */
GD_NODISCARD gd_status gd_transform_child(const gd_transform *t, const char *field, gd_tensor **tensors);
/* A slot of a link below, as t->tensors[index] is shaped, for one that turns the space it runs in: new, NULL without an error
 * where nothing is kept yet; and put back.  Slots of other shapes are none of these. */
gd_tensor *gd_transform_below(const gd_transform *t, const gd_link *below, const char *slot, int index);
GD_NODISCARD gd_status gd_transform_set_below(const gd_transform *t, gd_link *below, const char *slot,
                                              int index, gd_tensor *value);

/* ---- links that scale the update ---- */

/* For apply_tensors: every tensor times a number. */
GD_NODISCARD gd_status gd_transform_scale(const gd_transform *t, double factor);
/* For update_tensors: products of s = change of the parameters and y = change of `list` (t->tensors, t->grads) since the last
 * call; first: there was none.  Keeps both in the slots GD_CHANGE_SLOTS, which the class must have. */
typedef struct gd_change {
    double ss, sy, yy;
    bool first;
} gd_change;
#define GD_CHANGE_SLOTS \
    {"previous_params", GD_SLOT_ONLINE}, { "previous_update", GD_SLOT_ONLINE }
GD_NODISCARD gd_status gd_transform_change(const gd_transform *t, gd_tensor *const *list, gd_change *out);

/* ---- running links ---- */

/* A whole step of the link or chain, or its halves: update learns from the var, apply sets its update. */
GD_NODISCARD gd_status gd_link_step(gd_link *link, gd_var *var);
GD_NODISCARD gd_status gd_link_update(gd_link *link, gd_var *var);
GD_NODISCARD gd_status gd_link_apply(gd_link *link, gd_var *var);
/* The Hessian (approximation) of the link or of one of its children; two are an error.  New or NULL. */
gd_linop *gd_link_hessian(gd_link *link, gd_var *var);

/* The update after the link's setting `inner`, where it has one, as a vector.  New; NULL on failure. */
gd_tensor *gd_link_update_vector(gd_link *link, gd_var *var);

/* Transforms by hand, keyed by params, on any tensors like them, which meet them by name and label, as gradients do.  Update
 * may be called several times before apply.  Settings are those of the parameters where they are in an optimizer, else the
 * link's.  The loss is one number or NULL. */
GD_NODISCARD gd_status gd_link_keyed_update(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                                            gd_tensor *const *grads, gd_tensor *loss, int count);
/* Entries of tensors are replaced by new ones. */
GD_NODISCARD gd_status gd_link_keyed_apply(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                                           gd_tensor *const *grads, gd_tensor *loss, int count);
/* The same with states that the caller keeps instead of the link, one a tensor, and the link's own settings; those that
 * have one value for the whole step are the ones in force. */
typedef struct gd_states gd_states;
gd_states *gd_states_new(gd_link *link, int count);                       /* new; holds the link */
void gd_states_free(gd_states *states);                                   /* NULL is fine */
gd_tensor *gd_states_get(gd_states *states, int index, const char *slot); /* borrowed; NULL if not made yet */
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
