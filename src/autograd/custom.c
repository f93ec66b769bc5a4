/* Values with a gradient of the caller's own, and the leaves of a value. */
#include "autograd/rules.h"
#include "autograd/walk.h"

/* The function of a gd_custom node, in its first attribute; node.c frees it. */
typedef struct custom {
    gd_node_user node;
    gd_ctx *ctx;
    gd_custom_gradient gradient; /* or */
    gd_own_rule rule;
    void *user;
    void (*destroy)(void *user);
} custom;

static void end_custom(gd_node_user *user)
{
    custom *c = (custom *)user;
    if (c->destroy) c->destroy(c->user);
    gd__free(c->ctx, c, sizeof *c);
}

gd_tensor *gd_custom(gd_tensor *value, gd_tensor *const *inputs, int count, gd_custom_gradient gradient,
                     void *user, void (*destroy)(void *user))
{
    gd_ctx *ctx = gd_tensor_ctx(value);
    custom *c = NULL;
    gd_tensor *out = NULL;
    if (!value || !gd__given("custom", inputs, count)) goto done;
    if (count < 1 || !gradient) {
        (void)gd_fail(ctx, GD_ARGUMENT, "custom: %s",
                      gradient ? "there are no inputs" : "the gradient is NULL");
        goto done;
    }
    if (!gd_dtype_is_float(value->dtype)) {
        (void)gd_fail(ctx, GD_DTYPE, "custom: a value of dtype %s has no gradient",
                      gd_dtype_name(value->dtype));
        goto done;
    }
    out = gd__alias(value);
    c = out ? gd__alloc(ctx, sizeof *c) : NULL;
    if (!c) {
        gd_release(out);
        out = NULL;
        goto done;
    }
    *c = (custom){{end_custom}, ctx, gradient, NULL, user, destroy};
    gd_attrs attrs = {.ni = 1, .i = {(int64_t)(intptr_t)c}};
    gd_status status = gd__record(GD_OP_custom, inputs, count, &attrs, &out, 1);
    if (out->node && !status) return out; /* the node has it */
    gd__free(ctx, c, sizeof *c);
    if (status) {
        gd_release(out);
        out = NULL;
    }
done:
    if (destroy) destroy(user);
    return out;
}

gd_status gd__own_node(gd_tensor *const *inputs, int count, gd_tensor *const *out, int nout, gd_own_rule rule,
                       void *user, void (*destroy)(void *user))
{
    gd_ctx *ctx = out[0]->head.ctx;
    custom *c = gd__alloc(ctx, sizeof *c);
    if (!c) {
        destroy(user);
        return GD_NOMEM;
    }
    *c = (custom){{end_custom}, ctx, NULL, rule, user, destroy};
    gd_attrs attrs = {.ni = 1, .i = {(int64_t)(intptr_t)c}};
    gd_status status = gd__record(GD_OP_custom, inputs, count, &attrs, out, nout);
    if (!out[0]->node) end_custom(&c->node); /* else the node has it */
    return status;
}

void gd__grad_custom(gd_pullback *p)
{
    custom *c = (custom *)(intptr_t)gd__attr(p, 0);
    uint64_t pass = c->ctx->pass;
    gd_status status = c->rule ? c->rule(c->user, p) : c->gradient(c->user, gd__g(p), p->need, p->set);
    /* a nested backward pass has renumbered nodes that both visit */
    for (size_t i = 0; p->walk && pass != c->ctx->pass && i < p->walk->count;
         i += p->walk->item[i].node->nout)
        p->walk->item[i].node->slot = i;
    if (status && !gd_error(c->ctx))
        (void)gd_fail(c->ctx, status, "custom: the gradient failed without saying why");
    for (int k = 0; k < p->node->nin && !status; k++)
        if (p->set[k]) p->set[k] = gd__nameless(p->set[k]);
}

static int add_leaf(gd_tensor **leaves, int count, int most, gd_tensor *t)
{
    if (t->node || !t->leaf_grad) return count;
    for (int i = 0; i < count && i < most; i++)
        if (leaves[i] == t) return count;
    if (count < most) leaves[count] = t;
    return count + 1;
}

int gd_leaves(gd_tensor *t, gd_tensor **leaves, int most)
{
    if (!t || (most > 0 && !leaves)) {
        (void)gd__null(gd_tensor_ctx(t), "leaves: the tensor or the list is NULL");
        return -1;
    }
    if (!t->node) return add_leaf(leaves, 0, most, t);
    gd_ctx *ctx = t->head.ctx;
    gd_walk w = {.ctx = ctx};
    const gd_node *spent;
    int count = 0;
    gd_status status = gd__walk_collect(&w, t->node, &spent);
    for (size_t i = 0; i < w.count && !status; i += w.item[i].node->nout)
        for (int k = 0; k < w.item[i].node->nin; k++)
            count = add_leaf(leaves, count, most, w.item[i].node->in[k]);
    gd__walk_free(&w);
    if (spent && !gd_error(ctx))
        (void)gd_fail(ctx, GD_GRAPH, "leaves: the graph of '%s' was freed by a backward pass",
                      gd__ops[spent->op].name);
    return status ? -1 : count;
}
