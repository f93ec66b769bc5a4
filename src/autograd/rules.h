/* Gradient rules: one function per operator, placed by ops.def.
 *
 * A rule reads the gradient of the outputs and sets the gradient of those inputs that need one, using operators only,
 * so that it can be differentiated again.  It runs inside a scope and frees nothing. */
#ifndef GD_AUTOGRAD_RULES_H
#define GD_AUTOGRAD_RULES_H

#include "gradus/autograd.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

typedef struct gd_pullback {
    gd_node *node;
    gd_tensor *const
        *grad;        /* gradient of each output; NULL where nothing flowed back (several outputs only) */
    const bool *need; /* which inputs want a gradient */
    gd_tensor **set;  /* to be filled: gradient of each input */
    struct gd_walk *walk;
    gd_tensor *room; /* split: memory for the gradients of its pieces; NULL: any */
} gd_pullback;

typedef void (*gd_rule_fn)(gd_pullback *p);
/* The gradient of custom values: sets p->set; p->grad[k] is NULL where nothing flowed back. */
typedef gd_status (*gd_own_rule)(void *user, gd_pullback *p);
/* Makes `out`, which have no history, depend on the inputs.  `destroy` ends `user` with the graph, or at once if nothing is recorded, also
 * on failure. */
GD_NODISCARD gd_status gd__own_node(gd_tensor *const *inputs, int count, gd_tensor *const *out, int nout,
                                    gd_own_rule rule, void *user, void (*destroy)(void *user));
extern const gd_rule_fn gd__rules[]; /* by operator */

/* The only gradient of an operator with one output. */
static inline gd_tensor *gd__g(const gd_pullback *p) { return p->grad[0]; }
static inline bool gd__need(const gd_pullback *p, int k) { return p->need[k]; }
static inline int64_t gd__attr(const gd_pullback *p, int k) { return p->node->i[k]; }
static inline double gd__attr_f(const gd_pullback *p, int k) { return p->node->f[k]; }
/* Input k, without names: rules work by position, the engine puts names and labels back.  Its values exist only if ops.def
 * says that the rule needs them; its shape always does. */
gd_tensor *gd__in(const gd_pullback *p, int k);
/* Output k with its history, without names, only if ops.def says OUT or there are several outputs. */
gd_tensor *gd__out(const gd_pullback *p, int k);
/* Gradient of output k, zeros where nothing flowed back. */
gd_tensor *gd__g_or_zero(const gd_pullback *p, int k);

/* If the gradient of input k is wanted: memory shaped like it to be written and set, so that pieces of one tensor
 * (gd__split) need not be put together afterwards.  NULL: anywhere. */
gd_tensor *gd__room(const gd_pullback *p, int k);

static inline void gd__set(gd_pullback *p, int k, gd_tensor *grad) { p->set[k] = grad; }

/* Is a kernel of the CPU that is no part of the graph enough: nobody differentiates the gradient again, nothing is recorded?  Of f32
 * and f64, which have the bits of the operators one by one; halves are rounded by each of them. */
static inline bool gd__once(const gd_pullback *p, const gd_tensor *of)
{
    gd_ctx *ctx = p->node->ctx;
    return of && (of->dtype == GD_F32 || of->dtype == GD_F64) && of->storage->device == ctx->cpu &&
           !gd_grad_enabled(ctx) && !ctx->recorder;
}

/* Zeros of input k's shape. */
gd_tensor *gd__zeros_in(const gd_pullback *p, int k);

/* Sums g over the axes that were broadcast, back to the shape and axes of `like` (a possible ghost). */
gd_tensor *gd__unbroadcast(gd_tensor *g, const gd_tensor *like);

#define OP(name, ...) void gd__grad_##name(gd_pullback *p);
#define OP0(name, ...)
#include "tensor/ops.def"

#endif
