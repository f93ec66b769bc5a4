/* Public loops: the remaining steps if a loop is not one call, and loops of loops if its states are too large to be kept. */
#include "trace/trace_scan.h"

#include <math.h>
#include <string.h>

/* ---- with operators ---- */

static gd_status no_state(const gd_scan_core *core, gd_tensor *const *next, gd_tensor *const *y)
{
    for (int k = 0; k < core->states; k++)
        if (!next[k]) return gd_fail(core->ctx, GD_CALLBACK, "scan: the step gave no state %d", k);
    for (int j = 0; j < core->ys; j++)
        if (!y[j]) return gd_fail(core->ctx, GD_CALLBACK, "scan: the step gave no result %d", j);
    return GD_OK;
}

/* list: results by index, then by number. */
static gd_status run_rest(gd_scan_core *core, gd_scan_outcome *how, gd_tensor *const *xs, gd_tensor **list)
{
    gd_tensor *y[GD_SCAN_MOST], *next[GD_SCAN_MOST];
    gd_status status = GD_OK;
    for (int s = 0; s < how->steps && !status; s++) {
        status = no_state(core, how->next, how->y[s]);
        for (int j = 0; j < core->ys; j++)
            list[j * core->steps + gd__scan_place(core, core->xs + j, s)] = how->y[s][j];
    }
    for (int64_t t = how->steps; t < core->steps && !status; t++) {
        status = gd__scan_step(core, t, how->next, xs, next, y);
        if (!status) status = no_state(core, next, y);
        memcpy(how->next, next, sizeof next);
        for (int j = 0; j < core->ys; j++)
            list[j * core->steps + gd__scan_place(core, core->xs + j, t)] = y[j];
    }
    return status;
}

static gd_status run_first(gd_scan_core *core, gd_scan_outcome *how, gd_tensor *const *state,
                           gd_tensor *const *xs)
{
    if (how->steps) return GD_OK;
    gd_status status = gd__scan_step(core, 0, state, xs, how->next, how->y[0]);
    how->steps = 1;
    int n = 0;
    while (n < GD_SCAN_MOST && how->y[0][n]) n++;
    if (core->ys < 0) core->ys = n;
    return status;
}

static gd_status run_left(gd_scan_core *core, gd_scan_outcome *how, gd_tensor *const *state,
                          gd_tensor *const *xs, gd_tensor **last, gd_tensor **ys)
{
    gd_status status = run_first(core, how, state, xs);
    if (status) return status;
    size_t bytes = (size_t)core->steps * (size_t)core->ys * sizeof(gd_tensor *) + 1;
    gd_tensor **list = gd__calloc(core->ctx, bytes);
    if (!list) return GD_NOMEM;
    status = run_rest(core, how, xs, list);
    for (int k = 0; k < core->states && !status; k++) last[k] = how->next[k];
    for (int j = 0; j < core->ys && !status; j++)
        if (!(ys[j] = gd_stack(list + j * core->steps, (int)core->steps, 0, NULL)))
            status = gd_error(core->ctx);
    gd__free(core->ctx, list, bytes);
    return status;
}

gd_status gd__scan_all(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs, size_t most_bytes,
                       gd_tensor **last, gd_tensor **ys)
{
    gd_scan_outcome how;
    gd_status status = gd__scan_pieces(core, state, xs, most_bytes, last, ys, &how);
    return status || how.taken ? status : run_left(core, &how, state, xs, last, ys);
}

/* ---- in pieces ---- */

/* A piece is a step of a loop over all pieces. */
static gd_status whole_step(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                            gd_tensor **y)
{
    gd_scan_core *core = user;
    return core->step(core->user, state, x, next, y);
}

static void end_core(void *user) { gd__core_release(user); }

static gd_scan_core *part_of(gd_scan_core *core, gd_scan_step step, void *user, void (*destroy)(void *),
                             int64_t steps)
{
    gd_scan_core *part = gd__alloc(core->ctx, sizeof *part);
    if (!part) {
        destroy(user);
        return NULL;
    }
    *part = *core;
    part->refs = 1;
    part->step = step;
    part->user = user;
    part->destroy = destroy;
    part->steps = steps;
    return part;
}

typedef struct pieces {
    gd_ctx *ctx;
    gd_scan_core *core;
    int64_t length;
} pieces;

static void end_pieces(void *user)
{
    pieces *p = user;
    gd__core_release(p->core);
    gd__free(p->ctx, p, sizeof *p);
}

static gd_status run_part(gd_scan_core *core, int64_t steps, gd_tensor *const *state, gd_tensor *const *xs,
                          gd_tensor **last, gd_tensor **ys)
{
    gd_scan_core *part = part_of(core, whole_step, gd__core_retain(core), end_core, steps);
    gd_status status = part ? gd__scan_all(part, state, xs, SIZE_MAX, last, ys) : GD_NOMEM;
    if (part) {
        core->ys = part->ys;
        gd__core_release(part);
    }
    return status;
}

static gd_status piece_step(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                            gd_tensor **y)
{
    const pieces *p = user;
    return run_part(p->core, p->length, state, x, next, y);
}

/* Slice from..to of a list, as pieces if their length is above 0. */
static gd_tensor *piece_of(gd_tensor *list, int64_t from, int64_t to, int64_t length)
{
    int64_t size[GD_MAX_DIMS + 1] = {(to - from) / (length ? length : 1), length};
    gd_tensor *part = gd_slice(list, "0", from, to, 1);
    if (!part || !length) return part;
    if (part->ndim == GD_MAX_DIMS) return gd__refuse(list->head.ctx, GD_SHAPE, "scan: too many axes");
    memcpy(size + 2, part->size + 1, (size_t)(part->ndim - 1) * sizeof *size);
    return gd_reshape(part, part->ndim + 1, size);
}

static gd_tensor *rejoined(const gd_scan_core *core, int j, gd_tensor *list, gd_tensor *rest)
{
    int64_t size[GD_MAX_DIMS] = {list->size[0] * list->size[1]};
    memcpy(size + 1, list->size + 2, (size_t)(list->ndim - 2) * sizeof *size);
    gd_tensor *flat = gd_reshape(list, list->ndim - 1, size);
    if (!flat || !rest) return flat;
    bool back = core->back[core->xs + j];
    return gd_cat((gd_tensor *[]){back ? rest : flat, back ? flat : rest}, 2, "0");
}

typedef struct halves {
    gd_tensor *x[2][GD_SCAN_MOST], *y[2][GD_SCAN_MOST], *middle[GD_SCAN_MOST];
} halves;

static gd_status run_pieces(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs, int64_t length,
                            halves *h, gd_tensor **last, gd_tensor **ys)
{
    gd_ctx *ctx = core->ctx;
    int64_t count = core->steps / length, rest = core->steps - count * length;
    for (int i = 0; i < core->xs; i++) {
        int64_t from = core->back[i] ? rest : 0, other = core->back[i] ? 0 : count * length;
        h->x[0][i] = piece_of(xs[i], from, from + count * length, length);
        h->x[1][i] = rest ? piece_of(xs[i], other, other + rest, 0) : NULL;
    }
    if (gd_error(ctx)) return gd_error(ctx);
    pieces *p = gd__alloc(ctx, sizeof *p);
    if (!p) return GD_NOMEM;
    *p = (pieces){ctx, gd__core_retain(core), length};
    gd_scan_core *all = part_of(core, piece_step, p, end_pieces, count);
    gd_status status = all ? gd__scan_all(all, state, h->x[0], SIZE_MAX, h->middle, h->y[0]) : GD_NOMEM;
    if (all) core->ys = all->ys;
    if (all) gd__core_release(all);
    if (!status && rest) status = run_part(core, rest, h->middle, h->x[1], last, h->y[1]);
    for (int k = 0; k < core->states && !rest; k++) last[k] = h->middle[k];
    for (int j = 0; j < core->ys && !status; j++)
        if (!(ys[j] = rejoined(core, j, h->y[0][j], rest ? h->y[1][j] : NULL))) status = gd_error(ctx);
    return status;
}

/* Would too much be kept for the gradient? */
static bool too_large(const gd_scan_core *core, gd_tensor *const *state, size_t most_bytes)
{
    double bytes = 0;
    for (int k = 0; k < core->states; k++)
        bytes += (double)((size_t)state[k]->numel * gd__item_size(state[k]));
    return core->steps >= GD_SCAN_LEAST * GD_SCAN_LEAST && gd_grad_enabled(core->ctx) &&
           bytes * (double)core->steps > (double)most_bytes;
}

gd_status gd__scan_pieces(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs,
                          size_t most_bytes, gd_tensor **last, gd_tensor **ys, gd_scan_outcome *how)
{
    if (!too_large(core, state, most_bytes)) return gd__scan_try(core, state, xs, last, ys, how);
    *how = (gd_scan_outcome){.taken = true};
    halves *h = gd__calloc(core->ctx, sizeof *h);
    if (!h) return GD_NOMEM;
    gd_status status = run_pieces(core, state, xs, (int64_t)ceil(sqrt((double)core->steps)), h, last, ys);
    gd__free(core->ctx, h, sizeof *h);
    return status;
}

/* ---- the public function ---- */

static bool fits(gd_ctx *ctx, const gd_scan_body *b, gd_tensor *const *state, gd_tensor *const *xs,
                 int64_t steps, gd_tensor **last, gd_tensor **ys)
{
    const int counts[] = {b->states, b->xs, b->ys};
    if (!b->step) return gd__none(gd__null(ctx, "scan: the step is NULL")) != NULL;
    for (int i = 0; i < 3; i++)
        if (counts[i] < (i == 2 ? -1 : 0) || counts[i] > GD_SCAN_MOST)
            return gd__refuse(ctx, GD_VALUE, "scan: %d states, lists or results; at most %d", counts[i],
                              GD_SCAN_MOST) != NULL;
    if (!b->states || steps < 1)
        return gd__refuse(ctx, GD_VALUE, "scan: %d states and %lld steps; at least one of each", b->states,
                          (long long)steps) != NULL;
    if (!state || !last || (b->xs && !xs) || (b->ys && !ys))
        return gd__none(gd__null(ctx, "scan: a list of tensors is NULL")) != NULL;
    for (int i = 0; i < b->states + b->xs; i++) {
        const gd_tensor *t = i < b->states ? state[i] : xs[i - b->states];
        if (!t) return gd__none(gd__null(ctx, "scan: a tensor is NULL")) != NULL;
        if (t->head.ctx != ctx)
            return gd__refuse(ctx, GD_ARGUMENT, "scan: a tensor of a different context") != NULL;
        if (i >= b->states && (!t->ndim || t->size[0] != steps))
            return gd__refuse(ctx, GD_SHAPE, "scan: list %d has %lld slices, there are %lld steps",
                              i - b->states, t->ndim ? (long long)t->size[0] : 0, (long long)steps) != NULL;
    }
    return true;
}

/* The same value as a tensor of its own, because a step may return one twice, or one of its inputs. */
static gd_tensor *fresh(gd_tensor *t)
{
    if (t->leaf_grad && !t->node) return gd__reshape(t, t->ndim, t->size);
    gd_tensor *own = gd__alias(t);
    if (!own || !t->node) return own;
    gd__node_retain(own->node = t->node);
    own->output = t->output;
    return own;
}

static gd_status run_scoped(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs,
                            size_t most_bytes, gd_tensor **last, gd_tensor **ys)
{
    gd_ctx *ctx = core->ctx;
    gd_scope_begin(ctx);
    gd_status status = gd__scan_all(core, state, xs, most_bytes, last, ys);
    for (int i = 0; i < core->states + (core->ys < 0 ? 0 : core->ys); i++) {
        gd_tensor **t = i < core->states ? &last[i] : &ys[i - core->states];
        *t = status ? NULL : gd_keep(fresh(*t));
        if (!status && !*t) status = gd_error(ctx);
    }
    gd_scope_end(ctx);
    return status;
}

gd_status gd_scan(gd_ctx *ctx, const gd_scan_body *body, gd_tensor *const *state, gd_tensor *const *xs,
                  int64_t steps, gd_tensor **last, gd_tensor **ys)
{
    for (int k = 0; body && last && k < body->states && body->states <= GD_SCAN_MOST; k++) last[k] = NULL;
    int most = body && body->ys < 0 ? GD_SCAN_MOST : body ? body->ys : 0;
    for (int j = 0; ys && j < most && most <= GD_SCAN_MOST; j++) ys[j] = NULL;
    if (!ctx) return GD_ARGUMENT;
    if (!body) return gd__null(ctx, "scan: the body is NULL");
    gd_scan_core *core = gd_error(ctx) || !fits(ctx, body, state, xs, steps, last, ys)
                             ? NULL
                             : gd__calloc(ctx, sizeof *core);
    if (!core) {
        if (body->destroy) body->destroy(body->user);
        return gd_error(ctx);
    }
    *core = (gd_scan_core){.ctx = ctx,
                           .refs = 1,
                           .step = body->step,
                           .user = body->user,
                           .destroy = body->destroy,
                           .states = body->states,
                           .xs = body->xs,
                           .ys = body->ys,
                           .steps = steps};
    memset(core->back, body->backwards, sizeof core->back);
    gd_status status = run_scoped(core, state, xs, body->most_bytes ? body->most_bytes : GD_SCAN_BYTES, last,
                                  ys);
    gd__core_release(core);
    return status;
}
