/* Reverse mode.
 *
 * All nodes the output depends on are visited, the latest first, and each passes the gradient of its outputs to its inputs by its
 * rule. A split may have a common buffer: one tensor for the gradients of its pieces, lent to the rules that make them. */
#include "autograd/ready.h"
#include "autograd/rules.h"
#include "autograd/walk.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"

const gd_rule_fn gd__rules[GD_OP_COUNT] = {
#define OP(name, ...)  gd__grad_##name,
#define OP0(name, ...) NULL,
#include "tensor/ops.def"
};

/* ---- interface of rules ---- */

gd_tensor *gd__in(const gd_pullback *p, int k) { return gd__nameless(p->node->in[k]); }

gd_tensor *gd__out(const gd_pullback *p, int k)
{
    gd_node *node = p->node;
    gd_tensor *out = node->out[k] ? gd__bare(node->out[k]) : NULL;
    if (!out) return NULL;
    if (!node->ctx->grad_off) {
        gd__node_retain(out->node = node);
        out->output = (uint16_t)k;
    }
    return out;
}

gd_tensor *gd__g_or_zero(const gd_pullback *p, int k)
{
    if (p->grad[k]) return p->grad[k];
    return p->node->out[k] ? gd__nameless(gd_zeros_like(p->node->out[k])) : NULL;
}

gd_tensor *gd__zeros_in(const gd_pullback *p, int k)
{
    gd_tensor *g = p->grad[0];
    gd_tensor *zeros = gd__new(g->storage->device, g->dtype, p->node->in[k]->ndim, p->node->in[k]->size);
    return gd__run1(GD_OP_fill, NULL, 0, &(gd_attrs){.nf = 1}, zeros);
}

/* Each piece of the buffer is lent once, to the first gradient; a second one is added in different memory. */
static gd_tensor *room_for(gd_walk *w, const gd_tensor *t)
{
    gd_node *node = gd__stops_at(w, t) ? NULL : t->node;
    gd_visit *e = node ? &w->item[node->slot] : NULL, *own = e + t->output;
    if (!e || own->grad || own->lent) return NULL;
    if (node->op == GD_OP_permute) {
        int order[GD_MAX_DIMS];
        gd_tensor *inner = room_for(w, node->in[0]);
        for (int i = 0; i < node->ni; i++) order[i] = (int)node->i[i];
        return inner ? gd_permute(inner, order) : NULL;
    }
    if (node->op != GD_OP_split) return NULL;
    if (!e->room) {
        e->room = gd__new_laid_like(node->out[0]->storage->device, node->in[0]);
        gd__own(e->room);
    }
    gd_tensor *piece = e->room ? gd__piece_view(e->room, t->output) : NULL;
    own->lent = piece != NULL;
    return piece;
}

gd_tensor *gd__room(const gd_pullback *p, int k)
{
    return p->walk && p->node->ctx->grad_off ? room_for(p->walk, p->node->in[k]) : NULL;
}

/* ---- requested gradients ---- */

static void mark_useful(gd_walk *w)
{
    for (size_t i = w->count; i-- > 0;) {
        gd_visit *e = &w->item[i];
        if (e->output) continue;
        for (int k = 0; k < e->node->nin && !e->useful; k++) e->useful = gd__leads_on(w, e->node->in[k]);
        bool inner = !(w->flags & GD_STOP_AT_INPUTS);
        for (int k = 0; k < w->inputs && !e->useful && inner; k++) e->useful = w->input[k]->node == e->node;
    }
}

/* ---- arriving gradients ---- */

/* The gradient that arrives at t, with t's axes. */
static gd_status deliver(gd_walk *w, gd_tensor *t, gd_tensor *g)
{
    if (!gd__same_shape(g, t)) {
        char a[256], b[256];
        return gd_fail(w->ctx, GD_SHAPE, "backward: a gradient of shape %s arrived at %s",
                       gd__shape_text(g, a, sizeof a), gd__shape_text(t, b, sizeof b));
    }
    bool stops = gd__stops_at(w, t);
    if (t->node && !stops) return gd__accumulate(&w->item[t->node->slot + t->output].grad, g);
    if (!w->input) {
        /* a leaf's gradient is its own, contiguous memory: users change it in place, optimizers stream it */
        if (!t->grad && (!gd__contiguous(g) || g->storage->refs > 1 || g->head.refs > 1)) g = gd_copy(g);
        g = g ? gd__relabel_like(g, t) : NULL;
        gd_tensor *sum = t->grad;
        gd__retain(sum);
        gd_status status = g ? gd__accumulate(&sum, g) : GD_NOMEM;
        gd__put_grad(t, sum);
        return status;
    }
    gd_status status = GD_OK;
    for (int i = 0; i < w->inputs && !status; i++)
        if (w->input[i] == t ||
            (stops && t->node && w->input[i]->node == t->node && w->input[i]->output == t->output))
            status = gd__accumulate(&w->result[i], g);
    return status;
}

/* Inner tensors requested in gd_grad: their gradient is complete when their node is reached. */
static gd_status collect_inner(gd_walk *w, gd_visit *e)
{
    gd_status status = GD_OK;
    for (int i = 0; i < w->inputs && !status && !(w->flags & GD_STOP_AT_INPUTS); i++) {
        gd_tensor *t = w->input[i];
        if (t->node == e->node && e[t->output].grad)
            status = gd__accumulate(&w->result[i], e[t->output].grad);
    }
    return status;
}

static gd_status check_versions(const gd_node *node)
{
    int k = gd__changed(node);
    if (k < 0) return GD_OK;
    if (k < node->nin)
        return gd_fail(
            node->ctx, GD_GRAPH,
            "backward: operand %d of '%s' was changed in place after it was used; its old values are needed",
            k, gd__ops[node->op].name);
    return gd_fail(node->ctx, GD_GRAPH,
                   "backward: the result of '%s' was changed in place; its old values are needed",
                   gd__ops[node->op].name);
}

#define MAX_DIRECT 16

/* Calls the rule of one node and delivers what it sets. */
static gd_status apply_rule(gd_walk *w, gd_visit *e)
{
    gd_ctx *ctx = w->ctx;
    gd_node *node = e->node;
    int nin = node->nin, nout = node->nout;
    gd_tensor *direct[MAX_DIRECT], **set = direct;
    bool direct_need[MAX_DIRECT], *need = direct_need;
    size_t bytes = (size_t)(nin + nout) * (sizeof *set + sizeof *need);
    if (nin + nout > MAX_DIRECT) {
        if (!(set = gd__alloc(ctx, bytes))) return GD_NOMEM;
        need = (bool *)(set + nin + nout);
    }
    gd_tensor **grad = set + nin;
    for (int k = 0; k < nin; k++) {
        set[k] = NULL;
        need[k] = gd__leads_on(w, node->in[k]);
    }
    gd_status status = check_versions(node);
    gd_scope_begin(ctx);
    for (int k = 0; k < nout && !status; k++) grad[k] = gd__nameless(e[k].grad);
    if (!status) {
        gd__rules[node->op](
            &(gd_pullback){.node = node, .grad = grad, .need = need, .set = set, .walk = w, .room = e->room});
        status = gd_error(ctx);
    }
    for (int k = 0; k < nin && !status; k++)
        if (need[k] && set[k]) status = deliver(w, node->in[k], set[k]);
    gd_scope_end(ctx);
    if (set != direct) gd__free(ctx, set, bytes);
    return status;
}

/* Has a gradient arrived at any output? */
static bool arrived(const gd_visit *e)
{
    for (int k = 0; k < e->node->nout; k++)
        if (e[k].grad) return true;
    return false;
}

static void let_go(gd_tensor **t)
{
    if (*t) gd__release(*t);
    *t = NULL;
}

/* May nodes be freed one by one?  Not if the pass may still find changed values: then it leaves the graph as it was. */
static bool frees_on_the_way(const gd_walk *w)
{
    if (w->flags & (GD_RETAIN_GRAPH | GD_CREATE_GRAPH)) return false;
    for (size_t i = 0; i < w->count; i += w->item[i].node->nout)
        if (w->item[i].useful && gd__changed(w->item[i].node) >= 0) return false;
    return true;
}

static gd_status step_back(gd_walk *w, gd_visit *e)
{
    gd_status status = GD_OK;
    if (arrived(e)) {
        status = collect_inner(w, e);
        if (!status) status = apply_rule(w, e);
        for (int k = 0; k < e->node->nout; k++) let_go(&e[k].grad);
        let_go(&e->room);
    }
    if (w->waiting && !status) status = gd__ready_done(w, e->node);
    return status;
}

/* Saved tensors of a node are freed as soon as its rule has run.  The nodes themselves go last: they are reached through their users' inputs. */
static gd_status walk_back(gd_walk *w)
{
    bool retain = w->flags & (GD_RETAIN_GRAPH | GD_CREATE_GRAPH), early = frees_on_the_way(w);
    gd_status status = GD_OK;
    for (size_t i = 0; i < w->count && !retain; i++) w->item[i].node->refs++;
    for (size_t i = 0; i < w->count && !status; i += w->item[i].node->nout) {
        gd_visit *e = &w->item[i];
        if (e->useful) status = step_back(w, e);
        if (early && !status) gd__node_spend(e->node);
    }
    for (size_t i = 0; i < w->count && !retain && !status; i++) gd__node_spend(w->item[i].node);
    for (size_t i = 0; i < w->count && !retain; i++) gd__node_release(w->item[i].node);
    return status;
}

/* The seed, or a one for a single element. */
static gd_tensor *seed_of(gd_tensor *output, gd_tensor *seed)
{
    char a[256], b[256];
    if (seed) {
        if (!(seed = gd__aligned_to("backward", seed, output))) return NULL;
        if (gd__same_shape(seed, output) && seed->dtype == output->dtype) return gd__nameless(seed);
        return gd__refuse(output->head.ctx, GD_SHAPE, "backward: the seed is %s %s, the output %s %s",
                          gd_dtype_name(seed->dtype), gd__shape_text(seed, a, sizeof a),
                          gd_dtype_name(output->dtype), gd__shape_text(output, b, sizeof b));
    }
    if (output->numel == 1) return gd__nameless(gd_ones_like(output));
    (void)gd_fail(output->head.ctx, GD_SHAPE,
                  "backward: the output has shape %s; give a seed or reduce it to one element",
                  gd__shape_text(output, a, sizeof a));
    return NULL;
}

static gd_status start(gd_walk *w, gd_tensor *output, gd_tensor *seed)
{
    gd_tensor *g = seed_of(output, seed);
    if (!g) return gd_error(w->ctx) ? gd_error(w->ctx) : GD_NOMEM;
    if (!output->node) { /* a leaf: the seed is its gradient, in memory of its own */
        g = gd__asked_for(w, output) ? gd_copy(g) : NULL;
        return g ? deliver(w, output, g) : gd_error(w->ctx);
    }
    const gd_node *spent;
    gd_status status = gd__walk_collect(w, output->node, &spent);
    if (spent)
        return gd_fail(
            w->ctx, GD_GRAPH,
            "backward: the graph of '%s' was freed by an earlier backward; pass GD_RETAIN_GRAPH there",
            gd__ops[spent->op].name);
    if (status) return status;
    mark_useful(w);
    bool told = w->input ? w->each != NULL : w->ctx->ready != NULL;
    if (told && (status = gd__ready_count(w))) return status;
    status = gd__accumulate(&w->item[output->node->slot + output->output].grad, g);
    return status ? status : walk_back(w);
}

static gd_status run(gd_walk *w, gd_tensor *output, gd_tensor *seed)
{
    gd_ctx *ctx = w->ctx;
    if (gd_error(ctx)) return gd_error(ctx); /* the first error sticks: the graph may have holes */
    uint8_t grad_off = ctx->grad_off;
    ctx->grad_off = w->flags & GD_CREATE_GRAPH ? 0 : 1;
    gd_scope_begin(ctx);
    gd_status status = start(w, output, seed);
    gd__walk_free(w);
    gd__ready_free(w);
    gd_scope_end(ctx);
    ctx->grad_off = grad_off;
    return status;
}

gd_status gd_backward(gd_tensor *output, gd_tensor *seed, int flags)
{
    if (!output) return GD_ARGUMENT;
    gd_ctx *ctx = output->head.ctx;
    gd__not_recorded(ctx, "it leaves gradients on tensors (gd_backward)");
    if (!gd__wants_grad(output))
        return gd_fail(ctx, GD_GRAPH,
                       "backward: the output does not depend on any tensor that wants gradients");
    gd_walk w = {.ctx = ctx, .flags = flags};
    return run(&w, output, seed);
}

/* Restores names, makes zeros for unreached inputs, moves references to the caller's scope. */
static gd_status finish_grad(gd_tensor *input, int flags, gd_tensor **grad)
{
    gd_tensor *owned = *grad, *out;
    if (!owned)
        out = flags & GD_ALLOW_UNUSED ? NULL : gd_zeros_like(input);
    else {
        out = gd__alias(owned);
        if (out && owned->node) {
            gd__node_retain(out->node = owned->node);
            out->output = owned->output;
        }
        if (out && out->axes != input->axes) {
            gd_tensor *named = gd__relabel_like(out, input);
            if (named != out) gd_release(out);
            out = named;
        }
        gd__release(owned);
    }
    *grad = out;
    return out || (!owned && flags & GD_ALLOW_UNUSED) ? GD_OK : GD_NOMEM;
}

gd_status gd_grad(gd_tensor *output, gd_tensor *seed, gd_tensor *const *inputs, int count, int flags,
                  gd_tensor **grads)
{
    if (count > 0 && (!inputs || !grads))
        return gd__null(gd_tensor_ctx(output), "grad: the inputs or results are NULL");
    for (int i = 0; i < count; i++) grads[i] = NULL;
    if (!output || !gd__given("grad", inputs, count)) return GD_ARGUMENT;
    gd_walk w = {.ctx = output->head.ctx, .input = inputs, .inputs = count, .result = grads, .flags = flags};
    gd_status status = run(&w, output, seed);
    uint8_t grad_off = w.ctx->grad_off;
    if (!(flags & GD_CREATE_GRAPH)) w.ctx->grad_off = 1;
    for (int i = 0; i < count && !status; i++) status = finish_grad(inputs[i], flags, &grads[i]);
    w.ctx->grad_off = grad_off;
    for (int i = 0; i < count && status; i++) {
        gd__release(grads[i]);
        grads[i] = NULL;
    }
    return status;
}

gd_status gd__grad_each(gd_tensor *output, gd_tensor *seed, gd_tensor *const *inputs, int count,
                        gd_each_fn fn, void *user)
{
    gd_ctx *ctx = output->head.ctx;
    gd_tensor **results = gd__calloc(ctx, (size_t)count * sizeof *results);
    if (!results) return GD_NOMEM;
    gd_walk w = {.ctx = ctx, .input = inputs, .inputs = count, .result = results, .each = fn, .user = user};
    gd_status status = run(&w, output, seed);
    if (!status) status = gd__hand_on(&w, NULL); /* those of no operand: of the output itself */
    for (int i = 0; i < count; i++) gd__release(results[i]);
    gd__free(ctx, results, (size_t)count * sizeof *results);
    return status;
}
