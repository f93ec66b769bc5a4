/* gradus/link/rule.h: rules, the computation of element-wise links, which the engine fuses and runs on any device.
 *
 * A rule is called once with symbolic values and builds a small program.  The programs of adjacent links
 * become one pass over memory, on the CPU and on a GPU:
 *
 *     static gd_value shrink(gd_rule *r, gd_value update)
 *     {
 *         return gd_rule_mul(r, update, gd_rule_const(r, 0.5));
 *     }
 *
 * It is the .rule of a gd_link_class (gradus/link.h). */
#ifndef GRADUS_RULE_H
#define GRADUS_RULE_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_rule gd_rule; /* the program under construction */

/* A value in a rule: one number per element, or one per tensor (a setting, a step count, a norm, and all arithmetic on
 * those, which runs once per step in f64).  Negative: the rule failed. */
typedef int32_t gd_value;

/* Inputs. */
gd_value gd_rule_const(gd_rule *r, double value);
gd_value gd_rule_largest(gd_rule *r); /* the largest finite number of the parameter's dtype */
gd_value gd_rule_setting(gd_rule *r, const char *name); /* REAL settings; per parameter */
gd_value gd_rule_step(gd_rule *r);  /* applications of this link to this parameter, from 1 */
gd_value gd_rule_numel(gd_rule *r); /* elements of the tensor */
gd_value gd_rule_param(gd_rule *r); /* the parameter */
gd_value gd_rule_grad(gd_rule *r);  /* the gradient, even if the update has changed */
gd_value gd_rule_loss(gd_rule *r);  /* needs .traits.uses_loss in the class */

/* Random numbers, one per element, new at every step; they do not depend on device, threads or the way of running.  They are a
 * function of the seed (the link's if it has a GD_SEED setting that is a number, else the context's), the link's place in
 * the chain, the parameter's name, its step count and the number of earlier calls in the rule. */
gd_value gd_rule_random(gd_rule *r, gd_random_kind kind);

/* Settings that determine the structure of the rule: read when the program is built, once per set of values. */
bool gd_rule_flag(gd_rule *r, const char *name);
bool gd_rule_is_none(gd_rule *r, const char *name);
bool gd_rule_is(gd_rule *r, const char *name, const char *string);
double gd_rule_number(gd_rule *r, const char *name);
const double *gd_rule_list(gd_rule *r, const char *name, int *count); /* borrowed; NULL, 0: it is no list */

/* The tensor a program is built for: its axes from 0, those below 0 counted from the last.  A rule that uses these is built
 * for every shape.  An axis that does not exist has size 0. */
int gd_rule_ndim(gd_rule *r);
int64_t gd_rule_size(gd_rule *r, int axis);
/* A set of axes as a mask of bits, axis i being 1u << i: those in a setting, a number or a list of numbers; all others if the
 * flag `inverse` (may be NULL) is set.  Axes that do not exist are skipped. */
unsigned gd_rule_axes(gd_rule *r, const char *field, const char *inverse);

/* State: declared in the class by name, zeros at first.  Reads give the old value until the slot is set, then the
 * new one; the last value set is kept.  state_or gives `first` the first time: the parameter, the gradient, a constant or an
 * expression of them. */
gd_value gd_rule_state(gd_rule *r, const char *slot);
gd_value gd_rule_state_or(gd_rule *r, const char *slot, gd_value first);
void gd_rule_set(gd_rule *r, const char *slot, gd_value value);
gd_value gd_rule_fresh(gd_rule *r, const char *slot); /* 1 the first time, then 0 */
/* Gives the slot the parameter's shape without these axes, such as one number per row.  Call it before the slot is read or
 * set; the class has GD_SLOT_PARTIAL. */
void gd_rule_slot_without(gd_rule *r, const char *slot, unsigned axes);

/* One number per parameter, kept between steps: declared in the class as a scalar. */
gd_value gd_rule_scalar(gd_rule *r, const char *name);
void gd_rule_set_scalar(gd_rule *r, const char *name, gd_value value);

/* Arithmetic: every operator of real numbers that gradus/tensor.h lists, by its name and with its meaning there; comparisons give
 * 1 or 0.  Some have a shorter name. */
#define GD_RULE_UNARY(X)  GD_UNARY_REALS(X) X(not )
#define GD_RULE_BINARY(X) GD_BINARY_REALS(X) X(and) X(or) X(min) X(max)

/* Arithmetic of one number.
 *   not  1 if a is 0 */
#define GD_RULE_UNARY_PROTOTYPE(name) gd_value gd_rule_##name(gd_rule *r, gd_value a);
GD_RULE_UNARY(GD_RULE_UNARY_PROTOTYPE)
#undef GD_RULE_UNARY_PROTOTYPE

/* Arithmetic of two numbers.
 *   and  a != 0 and b != 0
 *   or   a != 0 or b != 0
 *   min  the smaller
 *   max  the larger */
#define GD_RULE_BINARY_PROTOTYPE(name) gd_value gd_rule_##name(gd_rule *r, gd_value a, gd_value b);
GD_RULE_BINARY(GD_RULE_BINARY_PROTOTYPE)
#undef GD_RULE_BINARY_PROTOTYPE

gd_value gd_rule_where(gd_rule *r, gd_value c, gd_value a, gd_value b);      /* a where c is not 0, else b */
gd_value gd_rule_lerp(gd_rule *r, gd_value a, gd_value b, gd_value weight);  /* a + weight * (b - a) */
gd_value gd_rule_clamp(gd_rule *r, gd_value x, gd_value low, gd_value high); /* min(max(x, low), high) */

/* |x|^power and its inverse for x >= 0; computed without pow if power is 1 or 2. */
gd_value gd_rule_power(gd_rule *r, gd_value x, double power);
gd_value gd_rule_root(gd_rule *r, gd_value x, double power);
/* slot = beta slot + (1 - beta) x, as a + (1 - beta)(x - a); returns the new average. */
gd_value gd_rule_average(gd_rule *r, const char *slot, gd_value x, gd_value beta);
/* 1 - beta^t: the divisor that corrects an average that starts at zero. */
gd_value gd_rule_bias(gd_rule *r, gd_value beta);

/* Reductions: each is a separate pass before the rest.  GD_ALL reduces over all parameters together. */
typedef enum gd_extent { GD_EACH, GD_ALL } gd_extent;
gd_value gd_rule_sum(gd_rule *r, gd_value x, gd_extent extent);
gd_value gd_rule_max_over(gd_rule *r, gd_value x, gd_extent extent);
gd_value gd_rule_norm(gd_rule *r, gd_value x, double p, gd_extent extent); /* p > 0 or INFINITY */
gd_value gd_rule_count(gd_rule *r, gd_extent extent);                      /* number of elements */

/* One random number per tensor, with GD_ALL one for all: uniform in [0, 1), new at every step, as reproducible as
 * gd_rule_random.  It needs no pass. */
gd_value gd_rule_draw(gd_rule *r, gd_extent extent);

/* Reductions along axes: one result per position on the other axes, which elements read as a value.  Along no
 * axis longer than 1 it is x itself.  count_along: the product of the sizes. */
gd_value gd_rule_sum_along(gd_rule *r, gd_value x, unsigned axes);
gd_value gd_rule_max_along(gd_rule *r, gd_value x, unsigned axes);
gd_value gd_rule_norm_along(gd_rule *r, gd_value x, double p, unsigned axes);
gd_value gd_rule_count_along(gd_rule *r, unsigned axes);

/* The rule of a child chain applied to x, in the same program.  A child that is not element-wise splits the pass:
 * it gets x as tensors, and a second pass continues with its result. */
gd_value gd_rule_child(gd_rule *r, const char *field, gd_value x);
gd_value gd_rule_child_at(gd_rule *r, int child, gd_value x);
int gd_rule_children(gd_rule *r);
bool gd_rule_has_child(gd_rule *r, const char *field);
/* The value of a setting that is a number or a chain (GD_OPERAND): the number, or the chain applied to x. */
gd_value gd_rule_operand(gd_rule *r, const char *field, gd_value x);

#ifdef __cplusplus
}
#endif
#endif
