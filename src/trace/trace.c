/* Traced functions: the choice of a recording for a call, and the kinds of evaluations. */
#include "trace/trace_internal.h"
#include "autograd/walk.h"
#include "base/system.h"
#include "trace/entry.h"

#include <stdio.h>
#include <string.h>

/* ---- sets of recordings ---- */

static const gd_shortcut no_shortcut = {.count = -1, .vectors = -1};

static gd_shortcut *without_shortcut(void) { return (gd_shortcut *)(uintptr_t)&no_shortcut; }

void gd__trace_set_init(gd_trace_set *set, gd_ctx *ctx, int most, bool check)
{
    const char *how = gd__trusted_env("GRADUS_TRACE");
    *set = (gd_trace_set){.ctx = ctx,
                          .most = most,
                          .check = check || (how && !strcmp(how, "check")),
                          .brief = without_shortcut()};
    set->off = how && !strcmp(how, "off");
}

void gd__trace_set_free(gd_trace_set *set)
{
    for (int k = 0; k < set->count; k++) gd__trace_entry_free(set->entry[k]);
    while (set->retired) {
        gd_replay *next = set->retired->retired;
        gd__replay_free(set->retired);
        set->retired = next;
    }
    gd__free(set->ctx, set->entry, (size_t)set->room * sizeof *set->entry);
    set->entry = NULL;
    set->count = set->room = 0;
}

static gd_trace_entry *to_front(gd_trace_set *set, int k)
{
    gd_trace_entry *e = set->entry[k];
    if (k) memmove(set->entry + 1, set->entry, (size_t)k * sizeof e);
    set->entry[0] = e;
    return e;
}

static gd_trace_entry *entry_for(gd_trace_set *set, const gd_evaluation *what, gd_tensor *const *inputs,
                                 int count)
{
    for (int k = 0; k < set->count; k++)
        if (gd__trace_fits(set->entry[k], what, inputs, count)) return to_front(set, k);
    if (set->shares)
        return gd__refuse(
            set->ctx, GD_STATE,
            "traced function: there was no recording of the %s for such inputs when it was shared",
            what->name);
    if (!gd__reserve(set->ctx, &set->entry, set->count, &set->room, sizeof *set->entry)) return NULL;
    gd_trace_entry *e = gd__trace_entry_new(set->ctx, what, inputs, count);
    if (!e) return NULL;
    e->compile = set->compile;
    e->retired = &set->retired;
    /* an entry in use by an outer call stays */
    if (set->count >= set->most && !set->depth) gd__trace_entry_free(set->entry[--set->count]);
    set->entry[set->count] = e;
    return to_front(set, set->count++);
}

/* ---- the short way ---- */

static inline bool is_free(const gd_short_output *out)
{
    return out->tensor->head.refs == 1 && out->storage->refs == 2;
}

static inline bool is_quiet(const gd_shortcut *s)
{
    const gd_ctx *ctx = s->ctx;
    return ctx->structure == s->structure && !ctx->recorder && !ctx->status;
}

static inline bool alike(const gd_short_input *s, const gd_tensor *t)
{
    return t && s->dtype == t->dtype && s->ndim == t->ndim && s->device == t->storage->device &&
           s->axes == t->axes;
}

static inline int run_short(gd_shortcut *s)
{
    s->runs++;
    return s->run(s->base, s->slot, s->kernel, s->setting);
}

/* May it be taken: inputs and context are as they were, results are nobody's?  Then the tape finds the inputs. */
static inline bool is_short(const gd_shortcut *s, gd_tensor *const *inputs, int count)
{
    bool same = is_quiet(s);
    for (int k = 0; k < s->outputs && same; k++) same = is_free(&s->out[k]);
    for (int i = 0; i < count && same; i++) {
        const gd_short_input *in = &s->in[i];
        same = alike(in, inputs[i]);
        for (int d = 0; d < in->ndim && same; d++)
            same = in->size[d] == inputs[i]->size[d] && in->stride[d] == inputs[i]->stride[d];
    }
    for (int i = 0; i < count && same; i++) *s->in[i].base = inputs[i]->data - s->in[i].offset;
    return same;
}

/* The same of one vector alone. */
static inline bool fits_vector(const gd_shortcut *s, const gd_tensor *x)
{
    if (!alike(&s->input, x) || s->extent != x->size[0] || s->stride != x->stride[0]) return false;
    *s->input.base = x->data - s->input.offset;
    return true;
}

#define FEW_APART 4

/* Of an evaluation that looks at its inputs where they are. */
static inline bool are_apart(gd_tensor *const *inputs, int count)
{
    for (int i = 1; i < count; i++)
        for (int j = 0; j < i; j++)
            if (inputs[i]->storage == inputs[j]->storage) return false;
    return count <= FEW_APART;
}

gd_tensor *const *gd__trace_briefly(gd_trace_set *set, int kind, gd_tensor *const *inputs, int count)
{
    gd_shortcut *s = set->brief;
    if (s->kind != kind || s->count != count) return NULL;
    bool same = s->vectors == 1
                    ? is_quiet(s) && is_free(&s->value) && is_free(&s->grad) && fits_vector(s, inputs[0])
                    : are_apart(inputs, count) && is_short(s, inputs, count);
    if (!same) return NULL;
    (void)run_short(s);
    return s->results;
}

gd_tensor *const *gd__trace_call(gd_trace_set *set, const gd_evaluation *what, gd_tensor *const *inputs,
                                 int count)
{
    set->brief = without_shortcut(); /* it may belong to the removed one */
    bool last = set->count && gd__trace_fits(set->entry[0], what, inputs, count);
    gd_trace_entry *e = last ? set->entry[0] : entry_for(set, what, inputs, count);
    if (!e) return NULL;
    e->what.user = what->user; /* may be on the caller's stack: it need not outlive this call */
    if (set->shares) e->structure = set->ctx->structure; /* modules belong to the other context */
    if (set->off && e->state == GD_TRACE_NEW) {
        e->state = GD_TRACE_REFUSED;
        (void)snprintf(e->reason, sizeof e->reason, "GRADUS_TRACE=off");
    }
    set->depth++;
    gd_tensor *const *outputs = gd__trace_run(e, inputs, set->check);
    set->depth--;
    bool may = outputs && what->brief && !set->check && (!what->direct || are_apart(inputs, count));
    gd_shortcut *brief = may ? gd__trace_shortcut(e) : NULL;
    if (brief) set->brief = brief;
    return outputs;
}

/* ---- functions ---- */

gd_trace_options gd_trace_defaults(void) { return (gd_trace_options){.shapes = 16}; }

gd_traced *gd_trace(gd_ctx *ctx, gd_function function, void *user, const gd_trace_options *options)
{
    if (!ctx) return NULL;
    gd_trace_options o = options ? *options : gd_trace_defaults();
    if (!function) return gd__none(gd__null(ctx, "trace: the function is NULL"));
    if (o.shapes < 1) return gd__refuse(ctx, GD_VALUE, "trace: shapes is %d, must be at least 1", o.shapes);
    if (o.by < 0) return gd__refuse(ctx, GD_VALUE, "trace: by is %d, must be 0 or more", o.by);
    gd_traced *t = gd__calloc(ctx, sizeof *t);
    if (!t) return NULL;
    t->function = function;
    t->user = user;
    t->by = o.by;
    gd__trace_set_init(&t->set, ctx, o.shapes, o.check);
    t->set.compile = o.compile;
    return t;
}

void gd_traced_free(gd_traced *t)
{
    if (!t) return;
    gd_ctx *ctx = t->set.ctx;
    int others = atomic_load(&t->shared_by);
    if (others) {
        (void)gd_fail(ctx, GD_STATE,
                      "traced_free: %d functions of gd_traced_share still replay it: free those first",
                      others);
        return;
    }
    gd__trace_set_free(&t->set);
    if (t->shares) atomic_fetch_sub(&t->shares->shared_by, 1); /* from here on that one may go */
    gd__free(ctx, t, sizeof *t);
}

static gd_tensor *call_function(const gd_traced *t, gd_tensor *const *inputs, int count)
{
    if (!t->function)
        return gd__refuse(
            t->set.ctx, GD_STATE,
            "traced function: a recording that is shared replays no more: a kernel failed, or a captured "
            "tensor that the function reads on the host has changed");
    gd_tensor *out = t->function(t->user, inputs, count);
    if (!out && !gd_error(t->set.ctx))
        (void)gd_fail(t->set.ctx, GD_CALLBACK, "trace: the function returned NULL");
    return out;
}

/* A result without graph that is not an input, so that nothing else changes it. */
static gd_tensor *bare_result(gd_tensor *out) { return gd_detach(out); }

static gd_status value_body(void *user, gd_tensor *const *inputs, int count, gd_tensor **outputs)
{
    gd_traced *t = user;
    gd_no_grad_begin(t->set.ctx);
    outputs[0] = bare_result(call_function(t, inputs, count));
    gd_no_grad_end(t->set.ctx);
    return outputs[0] ? GD_OK : gd_error(t->set.ctx);
}

static gd_status gradient_body(void *user, gd_tensor *const *inputs, int count, gd_tensor **outputs)
{
    gd_traced *t = user;
    gd_ctx *ctx = t->set.ctx;
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **leaf = gd__alloc(ctx, bytes);
    bool made = leaf != NULL;
    int previous = gd_enable_grad_begin(ctx);
    int by = gd__traced_by(t, count);
    for (int i = 0; i < count && made; i++) {
        leaf[i] = gd__alias(inputs[i]);
        if (i < by) leaf[i] = gd_require_grad(leaf[i]);
        made = leaf[i] != NULL;
    }
    gd_tensor *out = made ? call_function(t, leaf, count) : NULL;
    gd_status status = out ? gd_grad(out, NULL, leaf, by, 0, outputs + 1) : gd_error(ctx);
    if (!status && !(outputs[0] = bare_result(out))) status = gd_error(ctx);
    gd_enable_grad_end(ctx, previous);
    gd__free(ctx, leaf, bytes);
    return status;
}

/* The function of its first inputs. */
typedef struct of_first {
    const gd_traced *t;
    gd_tensor *const *inputs; /* all of them */
    int count;
} of_first;

static gd_tensor *called_again(void *user, gd_tensor *const *inputs, int count)
{
    const of_first *f = user;
    gd_ctx *ctx = f->t->set.ctx;
    if (count == f->count) return call_function(f->t, inputs, count);
    size_t bytes = (size_t)f->count * sizeof *inputs;
    gd_tensor **all = gd__alloc(ctx, bytes);
    if (!all) return NULL;
    memcpy(all, f->inputs, bytes);
    memcpy(all, inputs, (size_t)count * sizeof *inputs);
    gd_tensor *out = call_function(f->t, all, f->count);
    gd__free(ctx, all, bytes);
    return out;
}

/* Inputs, then vectors. */
static gd_status hvp_body(void *user, gd_tensor *const *inputs, int count, gd_tensor **outputs)
{
    const gd_traced *t = user;
    int by = gd__traced_by(t, count / 2);
    of_first f = {t, inputs, count - by};
    return gd_hvp(called_again, &f, inputs, by, inputs + f.count, outputs);
}

static gd_status jacobian_body(void *user, gd_tensor *const *inputs, int count, gd_tensor **outputs)
{
    of_first f = {user, inputs, count};
    return gd_jacobian(called_again, &f, inputs, gd__traced_by(f.t, count), outputs);
}

static gd_status hessian_body(void *user, gd_tensor *const *inputs, int count, gd_tensor **outputs)
{
    of_first f = {user, inputs, count};
    outputs[0] = gd_hessian(called_again, &f, inputs, gd__traced_by(f.t, count));
    return outputs[0] ? GD_OK : gd_error(f.t->set.ctx);
}

gd_evaluation gd__traced_evaluation(gd_traced *t, gd_traced_kind kind, int count)
{
    int by = gd__traced_by(t, count);
    switch (kind) {
    case GD_TRACED_GRADIENT:
        return (gd_evaluation){.name = "gradient",
                               .kind = (int)kind,
                               .body = gradient_body,
                               .user = t,
                               .outputs = 1 + by,
                               .brief = by == count};
    case GD_TRACED_HVP:
        return (gd_evaluation){.name = "Hessian product",
                               .kind = (int)kind,
                               .body = hvp_body,
                               .user = t,
                               .outputs = gd__traced_by(t, count / 2)};
    case GD_TRACED_JACOBIAN:
        return (gd_evaluation){
            .name = "Jacobian", .kind = (int)kind, .body = jacobian_body, .user = t, .outputs = by};
    case GD_TRACED_HESSIAN:
        return (gd_evaluation){
            .name = "Hessian", .kind = (int)kind, .body = hessian_body, .user = t, .outputs = 1};
    default:
        return (gd_evaluation){
            .name = "value", .kind = GD_TRACED_VALUE, .body = value_body, .user = t, .outputs = 1};
    }
}

bool gd__traced_usable(const gd_traced *t, const char *what, gd_tensor *const *inputs, int count)
{
    gd_ctx *ctx = t->set.ctx;
    if (count < t->by)
        return gd__refuse(ctx, GD_ARGUMENT, "%s: %d inputs, derivatives are by the first %d", what, count,
                          t->by) != NULL;
    if (count < 0 || (count && !inputs))
        return gd__refuse(ctx, GD_ARGUMENT, "%s: %d inputs, or none are given", what, count) != NULL;
    for (int i = 0; i < count; i++) {
        if (!inputs[i]) return gd__none(gd__null(ctx, "traced function: an input is NULL")) != NULL;
        if (inputs[i]->head.ctx != ctx)
            return gd__refuse(ctx, GD_ARGUMENT, "%s: input %d is of a different context", what, i) != NULL;
    }
    return true;
}

gd_tensor *gd_traced_value(gd_traced *t, gd_tensor *const *inputs, int count)
{
    if (!t || !gd__traced_usable(t, "traced_value", inputs, count)) return NULL;
    const gd_evaluation what = gd__traced_evaluation(t, GD_TRACED_VALUE, count);
    gd_tensor *const *outputs = gd__trace_call(&t->set, &what, inputs, count);
    return outputs ? outputs[0] : NULL;
}

static gd_status give_gradient(gd_tensor *const *outputs, int count, gd_tensor **value, gd_tensor **grads)
{
    if (value) *value = outputs[0];
    for (int i = 0; i < count; i++) grads[i] = outputs[1 + i];
    return GD_OK;
}

/* A separate function: else its registers would be saved on the fast path, too. */
__attribute__((noinline)) static gd_status long_gradient(gd_traced *t, gd_tensor *const *inputs, int count,
                                                         gd_tensor **value, gd_tensor **grads)
{
    if (value) *value = NULL;
    for (int i = 0; i < count && grads; i++) grads[i] = NULL;
    if (!t) return GD_ARGUMENT;
    gd_ctx *ctx = t->set.ctx;
    if (!gd__traced_usable(t, "traced_gradient", inputs, count)) return gd_error(ctx);
    if (!grads || !count) return gd__null(ctx, "traced_gradient: no inputs, or no place for their gradients");
    const gd_evaluation what = gd__traced_evaluation(t, GD_TRACED_GRADIENT, count);
    gd_tensor *const *outputs = gd__trace_call(&t->set, &what, inputs, count);
    return outputs ? give_gradient(outputs, gd__traced_by(t, count), value, grads) : gd_error(ctx);
}

/* The fast path for more than one vector. */
__attribute__((noinline)) static gd_status wide_gradient(gd_traced *t, gd_tensor *const *inputs, int count,
                                                         gd_tensor **value, gd_tensor **grads)
{
    gd_shortcut *s = t->set.brief;
    if (!is_short(s, inputs, count)) return long_gradient(t, inputs, count, value, grads);
    for (int i = 0; i < count; i++) grads[i] = s->out[1 + i].tensor;
    if (value) *value = s->out->tensor;
    return (gd_status)run_short(s);
}

/* Every instruction up to run_short is counted: see bench/trace/trace.c.  The functions called are tail calls, so that no registers are
 * saved. */
gd_status gd_traced_gradient(gd_traced *t, gd_tensor *const *inputs, int count, gd_tensor **value,
                             gd_tensor **grads)
{
    if (!t || !inputs) return long_gradient(t, inputs, count, value, grads);
    gd_shortcut *s = t->set.brief;
    if (s->vectors != count || !grads)
        return s->count == count && grads ? wide_gradient(t, inputs, count, value, grads)
                                          : long_gradient(t, inputs, count, value, grads);
    if (!is_quiet(s) || !is_free(&s->value) || !is_free(&s->grad))
        return long_gradient(t, inputs, count, value, grads);
    if (value) *value = s->value.tensor;
    grads[0] = s->grad.tensor;
    if (!fits_vector(s, inputs[0])) return long_gradient(t, inputs, count, value, grads);
    return (gd_status)run_short(s);
}

/* Separate outputs, one per input. */
static gd_status give(const gd_traced *t, gd_tensor *const *outputs, int count, gd_tensor **out)
{
    for (int i = 0; i < count && outputs; i++) out[i] = outputs[i];
    return outputs ? GD_OK : gd_error(t->set.ctx);
}

#define FEW 16

gd_status gd_traced_hvp(gd_traced *t, gd_tensor *const *inputs, int count, gd_tensor *const *v,
                        gd_tensor **out)
{
    for (int i = 0; i < count && out; i++) out[i] = NULL;
    if (!t) return GD_ARGUMENT;
    gd_ctx *ctx = t->set.ctx;
    int by = gd__traced_by(t, count);
    if (!gd__traced_usable(t, "traced_hvp", inputs, count) || !gd__traced_usable(t, "traced_hvp", v, by))
        return gd_error(ctx);
    if (!out || !count) return gd__null(ctx, "traced_hvp: no inputs, or no place for the products");
    size_t bytes = (size_t)(count + by) * sizeof *inputs;
    gd_tensor *few[2 * FEW], **both = few;
    if (count > FEW && !(both = gd__alloc(ctx, bytes))) return GD_NOMEM;
    memcpy(both, inputs, (size_t)count * sizeof *inputs);
    memcpy(both + count, v, (size_t)by * sizeof *inputs);
    const gd_evaluation what = gd__traced_evaluation(t, GD_TRACED_HVP, count + by);
    gd_status status = give(t, gd__trace_call(&t->set, &what, both, count + by), by, out);
    if (both != few) gd__free(ctx, both, bytes);
    return status;
}

gd_status gd_traced_jacobian(gd_traced *t, gd_tensor *const *inputs, int count, gd_tensor **out)
{
    for (int i = 0; i < count && out; i++) out[i] = NULL;
    if (!t) return GD_ARGUMENT;
    if (!gd__traced_usable(t, "traced_jacobian", inputs, count)) return gd_error(t->set.ctx);
    if (!out || !count)
        return gd__null(t->set.ctx, "traced_jacobian: no inputs, or no place for the Jacobians");
    const gd_evaluation what = gd__traced_evaluation(t, GD_TRACED_JACOBIAN, count);
    return give(t, gd__trace_call(&t->set, &what, inputs, count), gd__traced_by(t, count), out);
}

gd_tensor *gd_traced_hessian(gd_traced *t, gd_tensor *const *inputs, int count)
{
    if (!t || !gd__traced_usable(t, "traced_hessian", inputs, count)) return NULL;
    if (!count) return gd__none(gd__null(t->set.ctx, "traced_hessian: no inputs"));
    const gd_evaluation what = gd__traced_evaluation(t, GD_TRACED_HESSIAN, count);
    gd_tensor *const *outputs = gd__trace_call(&t->set, &what, inputs, count);
    return outputs ? outputs[0] : NULL;
}

gd_tensor *gd_traced_input(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, const void *data)
{
    if (!ctx) return NULL;
    gd_tensor *t = gd_from_data(ctx, dtype, ndim, shape, data);
    if (t && ctx->recorder) ctx->recorder->input(ctx->recorder, t, data);
    return t;
}

int gd_explain_trace(const gd_traced *t, char *out, size_t size)
{
    if (out && size) out[0] = 0;
    if (!t) return 0;
    int length = 0;
    for (int k = 0; k < t->set.count; k++) {
        size_t used = (size_t)length < size ? (size_t)length : size;
        length += gd__trace_describe(t->set.entry[k], out ? out + used : NULL, out ? size - used : 0);
    }
    return length;
}
