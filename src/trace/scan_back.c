/* The gradient of a loop: a loop backwards. */
#include "trace/trace_scan.h"

#include <string.h>

/* ---- one step back ---- */

/* Inputs and outputs of a step back; NULL: none. */
typedef struct flow {
    gd_tensor *state[GD_SCAN_MOST]; /* gradients of the states after the step; then of those before it */
    gd_tensor **captured;           /* of captured tensors, so far */
} flow;

/* The backward pass of the body, for the same set of gradients in every step. */
typedef struct pull {
    gd_ctx *ctx;
    gd_scan_core *core;   /* of the loop forwards */
    gd_tensor **captured; /* owned; as are the references */
    int captures, ys;     /* ys: results that are not states */
    int alias[GD_SCAN_MOST];
    bool x_wanted[GD_SCAN_MOST], x_comes[GD_SCAN_MOST];
    bool *comes;                                          /* captured, then states: is there a gradient? */
    bool y_comes[GD_SCAN_MOST], kept_comes[GD_SCAN_MOST]; /* of results and of kept states */
} pull;

static void end_pull(void *user)
{
    pull *q = user;
    for (int i = 0; i < q->captures && q->captured; i++) gd__release(q->captured[i]);
    gd__free(q->ctx, q->captured, (size_t)q->captures * sizeof *q->captured + 1);
    gd__free(q->ctx, q->comes, (size_t)(q->captures + GD_SCAN_MOST));
    gd__core_release(q->core);
    gd__free(q->ctx, q, sizeof *q);
}

/* Data of a step back: tensors of the body and their incoming gradients. */
typedef struct gates {
    gd_tensor **tensor, **grad;
    int count;
} gates;

static void add_gate(gates *g, gd_tensor *tensor, gd_tensor *grad)
{
    if (!grad || !gd__wants_grad(tensor)) return;
    g->tensor[g->count] = tensor;
    g->grad[g->count++] = grad;
}

static gd_status open_gates(void *user, gd_pullback *p)
{
    const gates *g = user;
    for (int k = 0; k < g->count; k++)
        if (p->need[k]) p->set[k] = g->grad[k];
    return GD_OK;
}

static void keep_gates(void *user) { (void)user; }

/* A leaf, or with `again`, for second derivatives, a tensor that only the body reads. */
static gd_tensor *leaf_of(gd_tensor *t, bool again)
{
    if (!gd__is_float(t)) return t;
    if (again && gd__wants_grad(t)) return gd__reshape(t, t->ndim, t->size);
    t = gd__alias(t);
    return t ? gd_require_grad(t) : NULL;
}

typedef struct back_step {
    pull *q;
    gd_tensor *const *kept, *const *x; /* states before the step, slices */
    gd_tensor *const *y_grad,
        *const *kept_grad; /* of results that are not states, of the states before; NULL entries: none */
    gd_tensor **x_grad;    /* to be filled */
    gd_tensor *leaf[2 * GD_SCAN_MOST];
    gates gates;
} back_step;

static gd_status run_body(back_step *s, const flow *f, bool again)
{
    pull *q = s->q;
    gd_scan_core *core = q->core;
    gd_tensor *next[GD_SCAN_MOST] = {NULL}, *y[GD_SCAN_MOST] = {NULL};
    for (int k = 0; k < core->states; k++)
        if (!(s->leaf[k] = leaf_of(s->kept[k], again))) return gd_error(q->ctx);
    for (int i = 0; i < core->xs; i++) {
        gd_tensor *x = q->x_wanted[i] ? leaf_of(s->x[i], again) : s->x[i];
        if (!(s->leaf[core->states + i] = x)) return gd_error(q->ctx);
    }
    gd_status status = core->step(core->user, s->leaf, s->leaf + core->states, next, y);
    for (int k = 0; k < core->states && !status; k++) {
        if (!next[k]) return gd_error(q->ctx) ? gd_error(q->ctx) : GD_CALLBACK;
        add_gate(&s->gates, next[k], f->state[k]);
    }
    for (int j = 0, n = 0; j < core->ys && !status; j++)
        if (q->alias[j] < 0 && y[j]) add_gate(&s->gates, y[j], s->y_grad[n++]);
    for (int k = 0; k < core->states && !status; k++) add_gate(&s->gates, s->leaf[k], s->kept_grad[k]);
    for (int c = 0; c < q->captures && !status; c++) add_gate(&s->gates, q->captured[c], f->captured[c]);
    return status;
}

/* The gradients by states, slices and captured tensors. */
static gd_status pull_back(back_step *s, flow *f, bool again, gd_tensor **asked, gd_tensor **grad)
{
    pull *q = s->q;
    gd_scan_core *core = q->core;
    int n = 0;
    for (int i = 0; i < core->states + core->xs; i++)
        if (gd__is_float(s->leaf[i]) && (i < core->states || q->x_wanted[i - core->states]))
            asked[n++] = s->leaf[i];
    for (int c = 0; c < q->captures; c++) asked[n++] = q->captured[c];
    gd_tensor *gate = gd_scalar(q->ctx, GD_F32, 0);
    gd_status status = gate ? gd__own_node(s->gates.tensor, s->gates.count, &gate, 1, open_gates, &s->gates,
                                           keep_gates)
                            : gd_error(q->ctx);
    int flags = GD_RETAIN_GRAPH | GD_ALLOW_UNUSED | GD_STOP_AT_INPUTS | (again ? GD_CREATE_GRAPH : 0);
    if (!status) status = gd_grad(gate, NULL, asked, n, flags, grad);
    if (status) return status;
    n = 0;
    for (int k = 0; k < core->states; k++) f->state[k] = gd__is_float(s->leaf[k]) ? grad[n++] : NULL;
    for (int i = 0; i < core->xs; i++)
        s->x_grad[i] = q->x_wanted[i] && gd__is_float(s->leaf[core->states + i]) ? grad[n++] : NULL;
    for (int c = 0; c < q->captures; c++) f->captured[c] = grad[n++];
    return GD_OK;
}

/* f: in and out. */
static gd_status step_back(back_step *s, flow *f)
{
    pull *q = s->q;
    gd_ctx *ctx = q->ctx;
    const gd_scan_core *core = q->core;
    bool again = gd_grad_enabled(ctx);
    size_t room = (size_t)(2 * core->states + core->xs + core->ys + q->captures);
    gd_tensor **list = gd__alloc(ctx, 4 * room * sizeof *list);
    if (!list) return GD_NOMEM;
    s->gates = (gates){list, list + room, 0};
    int previous = gd_enable_grad_begin(ctx);
    gd_status status = run_body(s, f, again);
    if (!status && s->gates.count) status = pull_back(s, f, again, list + 2 * room, list + 3 * room);
    if (!status && !s->gates.count) {
        memset(f->state, 0, sizeof f->state);
        for (int i = 0; i < core->xs; i++) s->x_grad[i] = NULL;
    }
    gd_enable_grad_end(ctx, previous);
    gd__free(ctx, list, 4 * room * sizeof *list);
    return status;
}

/* ---- all steps back ---- */

typedef struct backward {
    gd_ctx *ctx;
    const gd_scan_back *back;
    gd_scan_core *core;
    gd_pullback *p;
    pull *q;
    flow flow;
    int64_t left;                                            /* steps */
    gd_tensor *kept[GD_SCAN_MOST], *kept_grad[GD_SCAN_MOST]; /* lists */
    gd_tensor *const *y_grad;                                /* lists; NULL: none */
    int ys;                                                  /* that are not states */
    gd_tensor **x_grad;                                      /* [step][x] of the steps that ran alone */
} backward;

static int64_t x_place(const gd_scan_core *core, int i, int64_t step)
{
    return core->back[i] ? core->steps - 1 - step : step;
}

/* Where the results that are not states are: back[] of each. */
static int64_t y_place(const backward *b, int n, int64_t step)
{
    const gd_scan_core *core = b->core;
    for (int j = 0; j < core->ys; j++)
        if (b->back->alias[j] < 0 && n-- == 0)
            return core->back[core->xs + j] ? core->steps - 1 - step : step;
    return step;
}

static gd_tensor *at(gd_tensor *list, int64_t place) { return list ? gd_index(list, "0", place) : NULL; }

static gd_status run_alone(backward *b)
{
    const gd_scan_core *core = b->core;
    int64_t t = b->left - 1;
    gd_tensor *kept[GD_SCAN_MOST], *x[GD_SCAN_MOST], *y_grad[GD_SCAN_MOST], *kept_grad[GD_SCAN_MOST];
    for (int k = 0; k < core->states; k++) {
        kept[k] = at(b->kept[k], t);
        kept_grad[k] = at(b->kept_grad[k], t);
    }
    for (int i = 0; i < core->xs; i++) x[i] = at(b->back->x[i], x_place(core, i, t));
    for (int n = 0; n < b->ys; n++) y_grad[n] = at(b->y_grad[n], y_place(b, n, t));
    if (gd_error(b->ctx)) return gd_error(b->ctx);
    back_step s = {.q = b->q,
                   .kept = kept,
                   .x = x,
                   .y_grad = y_grad,
                   .kept_grad = kept_grad,
                   .x_grad = b->x_grad + t * core->xs};
    b->left--;
    return step_back(&s, &b->flow);
}

/* Finds the incoming gradients; true if they are the same as before. */
static bool note_pattern(backward *b)
{
    pull *q = b->q;
    bool same = true;
    for (int i = 0; i < q->captures + b->core->states; i++) {
        bool comes = i < q->captures ? b->flow.captured[i] != NULL : b->flow.state[i - q->captures] != NULL;
        same = same && q->comes[i] == comes;
        q->comes[i] = comes;
    }
    for (int i = 0; i < b->core->xs && b->left < b->core->steps; i++)
        q->x_comes[i] = b->x_grad[b->left * b->core->xs + i] != NULL;
    return same;
}

/* May the remaining steps be one loop? */
static bool loops(const backward *b)
{
    const pull *q = b->q;
    int states = 0, xs = b->core->states + b->core->xs;
    for (int i = 0; i < q->captures + b->core->states; i++) states += q->comes[i];
    for (int j = 0; j < b->ys; j++) xs += q->y_comes[j];
    for (int k = 0; k < b->core->states; k++) xs += q->kept_comes[k];
    return b->left >= GD_SCAN_LEAST && states <= GD_SCAN_MOST && xs <= GD_SCAN_MOST;
}

/* ---- the equal steps, as a loop ---- */

/* A step of the backward loop: its states are the incoming gradients, captured tensors first. */
static gd_status loop_step(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                           gd_tensor **y)
{
    pull *q = user;
    const gd_scan_core *core = q->core;
    gd_tensor *y_grad[GD_SCAN_MOST] = {NULL}, *kept_grad[GD_SCAN_MOST] = {NULL}, *x_grad[GD_SCAN_MOST];
    flow f = {.captured = gd__calloc(q->ctx, (size_t)q->captures * sizeof(gd_tensor *) + 1)};
    if (!f.captured) return GD_NOMEM;
    int n = 0, of = core->states + core->xs;
    for (int i = 0; i < q->captures; i++) f.captured[i] = q->comes[i] ? state[n++] : NULL;
    for (int k = 0; k < core->states; k++) f.state[k] = q->comes[q->captures + k] ? state[n++] : NULL;
    for (int j = 0; j < q->ys; j++) y_grad[j] = q->y_comes[j] ? x[of++] : NULL;
    for (int k = 0; k < core->states; k++) kept_grad[k] = q->kept_comes[k] ? x[of++] : NULL;
    back_step s = {
        .q = q, .kept = x, .x = x + core->states, .y_grad = y_grad, .kept_grad = kept_grad, .x_grad = x_grad};
    gd_status status = step_back(&s, &f);
    n = 0;
    for (int i = 0; i < q->captures && !status; i++)
        if (q->comes[i]) next[n++] = f.captured[i];
    for (int k = 0; k < core->states && !status; k++)
        if (q->comes[q->captures + k]) next[n++] = f.state[k];
    n = 0;
    for (int i = 0; i < core->xs && !status; i++)
        if (q->x_comes[i]) y[n++] = x_grad[i];
    gd__free(q->ctx, f.captured, (size_t)q->captures * sizeof(gd_tensor *) + 1);
    return status;
}

/* The slice of a list that the first `left` steps read. */
static gd_tensor *part_of(const backward *b, gd_tensor *list, bool back)
{
    int64_t steps = b->core->steps;
    return back ? gd_slice(list, "0", steps - b->left, steps, 1) : gd_slice(list, "0", 0, b->left, 1);
}

/* The lists that a step back reads, and in which direction. */
static gd_status list_inputs(backward *b, gd_scan_core *loop, gd_tensor **xs)
{
    const gd_scan_core *core = b->core;
    pull *q = b->q;
    int n = 0;
    for (int k = 0; k < core->states; k++, n++) {
        loop->back[n] = true;
        xs[n] = part_of(b, b->kept[k], false);
    }
    for (int i = 0; i < core->xs; i++, n++) {
        loop->back[n] = !core->back[i];
        xs[n] = part_of(b, b->back->x[i], core->back[i]);
    }
    for (int j = 0; j < b->ys; j++) {
        bool back = y_place(b, j, 0) != 0;
        if (!q->y_comes[j]) continue;
        loop->back[n] = !back;
        xs[n++] = part_of(b, b->y_grad[j], back);
    }
    for (int k = 0; k < core->states; k++) {
        if (!q->kept_comes[k]) continue;
        loop->back[n] = true;
        xs[n++] = part_of(b, b->kept_grad[k], false);
    }
    loop->xs = n;
    for (int i = 0, m = 0; i < core->xs; i++)
        if (q->x_comes[i]) loop->back[loop->xs + m++] = !core->back[i];
    return gd_error(b->ctx);
}

static gd_status run_loop(backward *b, gd_tensor **x_list)
{
    pull *q = b->q;
    gd_scan_core *loop = gd__calloc(b->ctx, sizeof *loop);
    if (!loop) return GD_NOMEM;
    *loop = (gd_scan_core){.ctx = b->ctx,
                           .refs = 1,
                           .step = loop_step,
                           .user = q,
                           .destroy = end_pull,
                           .ys = -1,
                           .steps = b->left};
    b->q = NULL; /* the loop has it */
    gd_tensor *state[GD_SCAN_MOST], *last[GD_SCAN_MOST], *ys[GD_SCAN_MOST], *xs[4 * GD_SCAN_MOST];
    int n = 0;
    for (int i = 0; i < q->captures; i++)
        if (q->comes[i]) state[n++] = b->flow.captured[i];
    for (int k = 0; k < b->core->states; k++)
        if (q->comes[q->captures + k]) state[n++] = b->flow.state[k];
    loop->states = n;
    b->q = q;
    gd_status status = list_inputs(b, loop, xs);
    b->q = NULL;
    if (!status) status = gd__scan_all(loop, state, xs, GD_SCAN_BYTES, last, ys);
    n = 0;
    for (int i = 0; i < q->captures && !status; i++)
        if (q->comes[i]) b->flow.captured[i] = last[n++];
    for (int k = 0; k < b->core->states && !status; k++)
        if (q->comes[q->captures + k]) b->flow.state[k] = last[n++];
    n = 0;
    for (int i = 0; i < b->core->xs && !status; i++) x_list[i] = q->x_comes[i] ? ys[n++] : NULL;
    gd__core_release(loop);
    if (!status) b->left = 0;
    return status;
}

/* ---- the rule ---- */

static gd_status make_pull(backward *b)
{
    const gd_scan_core *core = b->core;
    int given = core->states + core->xs;
    pull *q = gd__calloc(b->ctx, sizeof *q);
    if (!q) return GD_NOMEM;
    q->ctx = b->ctx;
    q->core = gd__core_retain(b->back->core);
    q->ys = b->ys;
    memcpy(q->alias, b->back->alias, sizeof q->alias);
    q->captures = b->p->node->nin - given;
    q->captured = gd__calloc(b->ctx, (size_t)q->captures * sizeof *q->captured + 1);
    q->comes = gd__calloc(b->ctx, (size_t)(q->captures + GD_SCAN_MOST));
    b->q = q;
    if (!q->captured || !q->comes) return GD_NOMEM;
    for (int c = 0; c < q->captures; c++) gd__retain(q->captured[c] = b->p->node->in[given + c]);
    for (int i = 0; i < core->xs; i++) q->x_wanted[i] = b->p->need[core->states + i];
    for (int j = 0; j < b->ys; j++) q->y_comes[j] = b->y_grad[j] != NULL;
    for (int k = 0; k < core->states; k++) q->kept_comes[k] = b->kept_grad[k] != NULL;
    return GD_OK;
}

/* The kept states, with their history if derivatives of derivatives are wanted. */
static gd_status take_kept(backward *b)
{
    gd_node *node = b->p->node;
    for (int k = 0; k < b->core->states; k++) {
        gd_tensor *t = b->kept[k] = gd__alias(b->back->kept[k]);
        if (!t) return gd_error(b->ctx);
        if (b->ctx->grad_off) continue;
        gd__node_retain(t->node = node);
        t->output = (uint16_t)(b->core->states + k);
    }
    return GD_OK;
}

/* Gradients of the last states: from their readers, then from readers of the list of all states. */
static gd_status begin_flow(backward *b)
{
    const gd_scan_core *core = b->core;
    for (int k = 0; k < core->states; k++) {
        gd_tensor *last = b->p->grad[k], *all = b->p->grad[core->states + k];
        b->kept_grad[k] = all;
        gd_tensor *end = all ? gd_index(all, "0", core->steps) : NULL;
        b->flow.state[k] = last && end ? gd_add(last, end) : last ? last : end;
    }
    b->y_grad = b->p->grad + 2 * core->states;
    for (int j = 0; j < core->ys; j++) b->ys += b->back->alias[j] < 0;
    return gd_error(b->ctx);
}

/* The gradient of list i: of the steps in the loop, then of those that ran alone.  Each was added to zeros separately. */
static gd_tensor *list_gradient(const backward *b, int i, gd_tensor *list, int64_t alone)
{
    const gd_scan_core *core = b->core;
    int64_t steps = core->steps, looped = steps - alone;
    size_t bytes = (size_t)(alone + 1) * sizeof(gd_tensor *);
    gd_tensor **piece = gd__alloc(b->ctx, bytes), *whole = NULL;
    int n = 0;
    if (!piece) return NULL;
    const gd_tensor *x = b->back->x[i];
    if (looped && !list) {
        int64_t size[GD_MAX_DIMS];
        memcpy(size, x->size, sizeof size);
        size[0] = looped;
        list = gd_zeros(b->ctx, x->dtype, x->ndim, size);
    }
    if (looped && !core->back[i]) piece[n++] = list;
    for (int64_t k = 0; k < alone; k++) {
        int64_t t = core->back[i] ? steps - 1 - k : looped + k;
        gd_tensor *g = b->x_grad[t * core->xs + i];
        if (!g) g = gd_zeros(b->ctx, x->dtype, x->ndim - 1, x->size + 1);
        piece[n++] = g ? gd_unsqueeze(g, 0, NULL) : NULL;
    }
    if (looped && core->back[i]) piece[n++] = list;
    if (!gd_error(b->ctx)) whole = n == 1 ? piece[0] : gd_cat(piece, n, "0");
    gd__free(b->ctx, piece, bytes);
    return whole && steps > 1 ? gd_add_scalar(whole, 0) : whole;
}

static gd_status give_gradients(backward *b, gd_tensor *const *x_list, int64_t alone)
{
    const gd_scan_core *core = b->core;
    gd_pullback *p = b->p;
    int given = core->states + core->xs;
    for (int k = 0; k < core->states; k++)
        if (p->need[k]) p->set[k] = b->flow.state[k];
    for (int i = 0; i < core->xs; i++)
        if (p->need[core->states + i]) p->set[core->states + i] = list_gradient(b, i, x_list[i], alone);
    for (int c = given; c < p->node->nin; c++)
        if (p->need[c]) p->set[c] = b->flow.captured[c - given];
    return gd_error(b->ctx);
}

/* Steps run alone until the same gradients come before and after one. */
static gd_status run_backward(backward *b)
{
    gd_tensor *x_list[GD_SCAN_MOST] = {NULL};
    gd_status status = take_kept(b);
    if (!status) status = begin_flow(b);
    if (!status) status = make_pull(b);
    int64_t alone = 0;
    if (!status) (void)note_pattern(b);
    for (bool same = false; b->left && !status;) {
        bool one = same && loops(b);
        status = one ? run_loop(b, x_list) : run_alone(b);
        alone += !one;
        if (!status && !one) same = note_pattern(b);
    }
    return status ? status : give_gradients(b, x_list, alone);
}

static gd_status go_back(void *user, gd_pullback *p)
{
    const gd_scan_back *back = user;
    gd_scan_core *core = back->core;
    gd_ctx *ctx = core->ctx;
    int captures = p->node->nin - core->states - core->xs;
    size_t bytes = (size_t)captures * sizeof(gd_tensor *) + 1,
           slices = (size_t)(core->steps * core->xs) * sizeof(gd_tensor *) + 1;
    backward b = {.ctx = ctx, .back = back, .core = core, .p = p, .left = core->steps};
    b.flow.captured = gd__calloc(ctx, bytes);
    b.x_grad = gd__calloc(ctx, slices);
    gd_status status = b.flow.captured && b.x_grad ? run_backward(&b) : GD_NOMEM;
    if (b.q) end_pull(b.q);
    gd__free(ctx, b.x_grad, slices);
    gd__free(ctx, b.flow.captured, bytes);
    return status;
}

static void end_back(void *user)
{
    gd_scan_back *back = user;
    gd_ctx *ctx = back->core->ctx;
    for (int i = 0; i < back->core->xs; i++) gd__release(back->x[i]);
    for (int k = 0; k < back->core->states; k++) gd__release(back->kept[k]);
    gd__core_release(back->core);
    gd__free(ctx, back, sizeof *back);
}

gd_status gd__scan_depend(gd_scan_back *back, gd_tensor *const *inputs, int count, gd_tensor *const *out,
                          int outs, gd_status status)
{
    if (!status) return gd__own_node(inputs, count, out, outs, go_back, back, end_back);
    end_back(back);
    return status;
}
