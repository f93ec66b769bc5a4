/* gd_scan: the first steps, and all of them as one call if they are equal. */
#include "trace/trace_scan.h"
#include "base/system.h"

#include <stdio.h>
#include <string.h>

#define TRIED 3 /* steps that run with operators: one unrecorded, two recorded */

typedef struct attempt {
    gd_ctx *ctx;
    gd_scan_core *core;
    gd_scan_outcome *how;
    gd_tensor *first[GD_SCAN_MOST], *xs[GD_SCAN_MOST]; /* without gaps */
    gd_tensor *state[GD_SCAN_MOST], *x[GD_SCAN_MOST];  /* of the step */
    int alias[GD_SCAN_MOST];                           /* the state that a result equals; -1: none */
    int stored;                                        /* results that are not states */
    gd_recording *recorded[2];
    gd_tensor **captured; /* that want gradients, owned */
    int captures, capture_room;
} attempt;

/* ---- cores ---- */

gd_scan_core *gd__core_retain(gd_scan_core *core)
{
    core->refs++;
    return core;
}

void gd__core_release(gd_scan_core *core)
{
    if (--core->refs) return;
    if (core->destroy) core->destroy(core->user);
    gd__free(core->ctx, core, sizeof *core);
}

/* ---- one step with operators ---- */

static bool stops(attempt *a, const char *why)
{
    if (!a->how->reason[0]) (void)snprintf(a->how->reason, sizeof a->how->reason, "%s", why);
    return false;
}

int64_t gd__scan_place(const gd_scan_core *core, int list, int64_t step)
{
    return core->back[list] ? core->steps - 1 - step : step;
}

static gd_status take_slices(const gd_scan_core *core, gd_tensor *const *xs, int64_t step, gd_tensor **x)
{
    for (int i = 0; i < core->xs; i++)
        if (!(x[i] = gd_index(xs[i], "0", gd__scan_place(core, i, step)))) return gd_error(core->ctx);
    return GD_OK;
}

/* Missing results are NULL. */
static gd_status run_step(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                          gd_tensor **y)
{
    memset(next, 0, GD_SCAN_MOST * sizeof *next);
    memset(y, 0, GD_SCAN_MOST * sizeof *y);
    gd_status status = core->step(core->user, state, x, next, y);
    if (!status) status = gd_error(core->ctx);
    if (status && !gd_error(core->ctx))
        (void)gd_fail(core->ctx, status, "scan: the step failed without saying why");
    return status;
}

static int count_of(gd_tensor *const *y)
{
    int n = 0;
    while (n < GD_SCAN_MOST && y[n]) n++;
    return n;
}

gd_status gd__scan_step(gd_scan_core *core, int64_t step, gd_tensor *const *state, gd_tensor *const *xs,
                        gd_tensor **next, gd_tensor **y)
{
    gd_tensor *x[GD_SCAN_MOST];
    gd_status status = take_slices(core, xs, step, x);
    return status ? status : run_step(core, state, x, next, y);
}

/* An alias with the history of t. */
static gd_tensor *look_at(gd_tensor *t)
{
    gd_tensor *look = gd__record_look(t);
    if (!look) return NULL;
    if (t->node && !t->head.ctx->grad_off) {
        gd__node_retain(look->node = t->node);
        look->output = t->output;
    } else if (t->leaf_grad && gd__record(GD_OP_reshape, &t, 1, &(gd_attrs){0}, &look, 1))
        return NULL;
    return look;
}

/* ---- checks of a step ---- */

static bool same_place(const gd_tensor *a, const gd_tensor *b)
{
    return a == b ||
           (a->storage == b->storage && a->data == b->data && a->dtype == b->dtype && a->node == b->node &&
            a->output == b->output && gd__same_shape(a, b) && gd__laid_alike(a, b) && a->numel);
}

static int alias_of(const attempt *a, const gd_tensor *y)
{
    for (int k = 0; k < a->core->states; k++)
        if (same_place(y, a->how->next[k])) return k;
    return -1;
}

static bool plain(const attempt *a, const gd_tensor *t)
{
    return t->storage && t->storage->device == a->ctx->cpu && !t->axes;
}

static bool same_kind(const gd_tensor *a, const gd_tensor *b)
{
    return a->dtype == b->dtype && gd__same_shape(a, b);
}

/* After a step: do states and results have the layout of the previous step? */
static bool fits(attempt *a, int step)
{
    gd_scan_core *core = a->core;
    gd_tensor *const *next = a->how->next, *const *y = a->how->y[step];
    for (int k = 0; k < core->states; k++) {
        if (!next[k]) return stops(a, "a state is not there");
        if (!plain(a, next[k])) return stops(a, "a state has names, or is not on the CPU");
        if (!same_kind(next[k], a->first[k])) return stops(a, "a state changes shape or dtype");
        if (!gd__contiguous(next[k]))
            return stops(a, "a state has gaps in memory, or its axes in a different order");
    }
    if (core->ys < 0) core->ys = count_of(y);
    if (count_of(y) != core->ys) return stops(a, "the number of results changes");
    for (int j = 0; j < core->ys; j++) {
        int alias = core->back[core->xs + j] ? -1 : alias_of(a, y[j]);
        if (!plain(a, y[j])) return stops(a, "a result has names, or is not on the CPU");
        if (step && (!same_kind(y[j], a->how->y[0][j]) || alias != a->alias[j]))
            return stops(a, "a result changes from step to step");
        if (!step) a->stored += (a->alias[j] = alias) < 0;
    }
    return true;
}

static bool startable(attempt *a, gd_tensor *const *state, gd_tensor *const *xs)
{
    const gd_scan_core *core = a->core;
    const char *how = gd__trusted_env("GRADUS_TRACE");
    if (how && !strcmp(how, "off")) return stops(a, "GRADUS_TRACE=off");
    if (core->steps < GD_SCAN_LEAST) return stops(a, "it has only a few steps");
    if (!core->states) return stops(a, "it has no states");
    for (int k = 0; k < core->states; k++)
        if (!plain(a, state[k])) return stops(a, "a state has names, or is not on the CPU");
    for (int i = 0; i < core->xs; i++)
        if (!plain(a, xs[i])) return stops(a, "a list has names, or is not on the CPU");
    return true;
}

static gd_tensor *without_gaps(gd_tensor *t) { return gd__contiguous(t) ? t : gd_copy(t); }

static gd_status take_inputs(attempt *a, gd_tensor *const *state, gd_tensor *const *xs)
{
    for (int k = 0; k < a->core->states; k++)
        if (!(a->first[k] = a->state[k] = without_gaps(state[k]))) return gd_error(a->ctx);
    for (int i = 0; i < a->core->xs; i++)
        if (!(a->xs[i] = without_gaps(xs[i]))) return gd_error(a->ctx);
    return GD_OK;
}

/* ---- the first steps ---- */

static gd_status run_plain(attempt *a, int step)
{
    gd_status status = take_slices(a->core, a->xs, step, a->x);
    if (!status) status = run_step(a->core, a->state, a->x, a->how->next, a->how->y[step]);
    if (!status) a->how->steps = step + 1;
    return status;
}

static bool usable(attempt *a, gd_recording *r)
{
    if (!r || r->no_memory) return stops(a, "there is no memory");
    if (r->refused) return stops(a, r->reason);
    if (r->drawn) return stops(a, "it draws random numbers");
    bool guarded = r->guarded;
    for (int b = 0; b < r->buffers; b++) guarded = guarded || r->buffer[b].guarded;
    return !guarded || stops(a, "the host reads a tensor");
}

static void end_recording(attempt *a, gd_recording *r, int step, bool went)
{
    gd_tensor *out[2 * GD_SCAN_MOST];
    int n = 0;
    for (int k = 0; k < a->core->states; k++) out[n++] = a->how->next[k];
    for (int j = 0; j < a->core->ys; j++)
        if (a->alias[j] < 0) out[n++] = a->how->y[step][j];
    gd__record_end(r, out, went ? n : 0);
}

/* *fine: it was recorded, and may be run again. */
static gd_status run_recorded(attempt *a, int step, bool *fine)
{
    const gd_scan_core *core = a->core;
    gd_tensor *in[2 * GD_SCAN_MOST];
    *fine = false;
    gd_status status = take_slices(core, a->xs, step, a->x);
    for (int i = 0; i < core->states + core->xs && !status; i++) {
        in[i] = look_at(i < core->states ? a->how->next[i] : a->x[i - core->states]);
        if (!in[i]) status = gd_error(a->ctx);
    }
    if (status) return status;
    memcpy(a->state, in, (size_t)core->states * sizeof *in);
    memcpy(a->x, in + core->states, (size_t)core->xs * sizeof *in);
    gd_recording *r = gd__record_inside(a->ctx, in, core->states + core->xs);
    status = run_step(a->core, a->state, a->x, a->how->next, a->how->y[step]);
    bool went = !status && fits(a, step);
    if (r) end_recording(a, r, step, went);
    a->recorded[step - 1] = r;
    if (!status) a->how->steps = step + 1;
    *fine = went && usable(a, r);
    return status;
}

/* *fine: two of them are recorded, and are equal. */
static gd_status run_first(attempt *a, bool *fine)
{
    gd_status status = run_plain(a, 0);
    *fine = !status && fits(a, 0);
    for (int step = 1; step < TRIED && *fine && !status; step++) status = run_recorded(a, step, fine);
    char why[sizeof a->how->reason];
    if (!status && *fine && !gd__recordings_agree(a->recorded[0], a->recorded[1], why, sizeof why))
        *fine = stops(a, why);
    return status;
}

/* ---- dependencies ---- */

static gd_status add_capture(attempt *a, gd_tensor *t)
{
    for (int i = 0; i < a->captures; i++)
        if (a->captured[i] == t ||
            (t->node && a->captured[i]->node == t->node && a->captured[i]->output == t->output))
            return GD_OK;
    if (!gd__reserve(a->ctx, &a->captured, a->captures, &a->capture_room, sizeof *a->captured))
        return GD_NOMEM;
    gd__retain(a->captured[a->captures++] = t);
    return GD_OK;
}

static bool is_given(const attempt *a, gd_tensor *const *leaf, const gd_tensor *t)
{
    for (int i = 0; i < a->core->states + a->core->xs; i++)
        if (leaf[i] == t) return true;
    return false;
}

/* Tensors from outside of the step that the result depends on. */
static gd_status look_back(attempt *a, gd_tensor *result, gd_tensor *const *leaf, uint64_t begun)
{
    gd_walk w = {.ctx = a->ctx};
    const gd_node *spent;
    if (!result->node)
        return result->leaf_grad && !is_given(a, leaf, result) ? add_capture(a, result) : GD_OK;
    if (result->node->sequence <= begun) return add_capture(a, result);
    gd_status status = gd__walk_collect(&w, result->node, &spent);
    if (spent)
        status = gd_fail(a->ctx, GD_GRAPH, "scan: the graph of '%s' was freed by a backward pass",
                         gd__ops[spent->op].name);
    for (size_t i = 0; i < w.count && !status; i += w.item[i].node->nout) {
        const gd_node *node = w.item[i].node;
        if (node->sequence <= begun) continue;
        for (int k = 0; k < node->nin && !status; k++) {
            gd_tensor *t = node->in[k];
            bool outside = t->node ? t->node->sequence <= begun : t->leaf_grad && !is_given(a, leaf, t);
            if (outside) status = add_capture(a, t);
        }
    }
    gd__walk_free(&w);
    return status;
}

/* The step again, from leaves: other tensors that it reaches are captured. */
static gd_status find_captured(attempt *a)
{
    const gd_scan_core *core = a->core;
    gd_tensor *leaf[2 * GD_SCAN_MOST], *next[GD_SCAN_MOST], *y[GD_SCAN_MOST];
    gd_status status = GD_OK;
    for (int i = 0; i < core->states + core->xs && !status; i++) {
        gd_tensor *t = gd__alias(i < core->states ? a->state[i] : a->x[i - core->states]);
        leaf[i] = t && gd__is_float(t) ? gd_require_grad(t) : t;
        if (!leaf[i]) status = gd_error(a->ctx);
    }
    uint64_t begun = a->ctx->sequence;
    if (!status) status = run_step(a->core, leaf, leaf + core->states, next, y);
    for (int k = 0; k < core->states && !status; k++)
        status = next[k] ? look_back(a, next[k], leaf, begun) : GD_OK;
    for (int j = 0; j < core->ys && !status; j++) status = y[j] ? look_back(a, y[j], leaf, begun) : GD_OK;
    return status;
}

static bool depends(const attempt *a)
{
    bool any = a->captures > 0;
    for (int k = 0; k < a->core->states; k++) any = any || gd__wants_grad(a->first[k]);
    for (int i = 0; i < a->core->xs; i++) any = any || gd__wants_grad(a->xs[i]);
    return any && gd_grad_enabled(a->ctx);
}

/* ---- all steps ---- */

typedef struct whole {
    gd_scan_call *scan;
    gd_tensor **in; /* operands */
    size_t bytes;
    int inputs;
    gd_tensor *out[3 * GD_SCAN_MOST]; /* last states, kept states, results */
    bool keeps;
} whole;

/* A list of so many tensors like t. */
static gd_tensor *list_of(const attempt *a, const gd_tensor *t, int64_t count)
{
    int64_t size[GD_MAX_DIMS + 1] = {count};
    memcpy(size + 1, t->size, (size_t)t->ndim * sizeof *size);
    return t->ndim < GD_MAX_DIMS ? gd__new_checked(a->ctx->cpu, "scan", t->dtype, t->ndim + 1, size) : NULL;
}

static gd_status make_results(const attempt *a, whole *w)
{
    const gd_scan_core *core = a->core;
    int states = core->states, n = 2 * states;
    for (int k = 0; k < states; k++) {
        gd_tensor *like = a->first[k];
        gd_tensor *kept = w->keeps ? list_of(a, like, core->steps + 1)
                                   : gd__new(a->ctx->cpu, like->dtype, like->ndim, like->size);
        if (!kept) return gd_error(a->ctx);
        w->out[k] = w->out[states + k] = kept;
        if (w->keeps && !(w->out[k] = gd__piece_view(kept, core->steps))) return gd_error(a->ctx);
    }
    for (int j = 0; j < core->ys; j++)
        if (a->alias[j] < 0 && !(w->out[n++] = list_of(a, a->how->y[0][j], core->steps)))
            return gd_error(a->ctx);
    return GD_OK;
}

/* The bytes of a storage. */
static gd_tensor *storage_bytes(const attempt *a, gd_storage *storage)
{
    int64_t bytes = (int64_t)storage->bytes;
    gd_tensor *t = gd__new_over(a->ctx->cpu, "scan", GD_U8, 1, &bytes);
    if (!t) return NULL;
    t->storage = storage;
    t->data = storage->data;
    storage->refs++;
    return t;
}

static gd_status list_operands(const attempt *a, whole *w)
{
    const gd_recording *r = w->scan->body->r;
    int given = a->core->states + a->core->xs;
    w->bytes = (size_t)(given + w->scan->captured) * sizeof *w->in;
    if (!(w->in = gd__alloc(a->ctx, w->bytes))) return GD_NOMEM;
    for (int k = 0; k < a->core->states; k++) w->in[k] = a->first[k];
    for (int i = 0; i < a->core->xs; i++) w->in[a->core->states + i] = a->xs[i];
    for (int c = 0; c < w->scan->captured; c++)
        if (!(w->in[given + c] = storage_bytes(a, r->buffer[w->scan->capture[c]].storage)))
            return gd_error(a->ctx);
    w->inputs = given + w->scan->captured;
    return GD_OK;
}

static gd_status make_whole(attempt *a, whole *w)
{
    const gd_scan_core *core = a->core;
    bool back[2 * GD_SCAN_MOST];
    int n = core->xs;
    memcpy(back, core->back, (size_t)core->xs * sizeof *back);
    for (int j = 0; j < core->ys; j++)
        if (a->alias[j] < 0) back[n++] = core->back[core->xs + j];
    w->keeps = depends(a) || a->stored < core->ys;
    gd_scan_shape shape = {.states = core->states,
                           .xs = core->xs,
                           .ys = a->stored,
                           .steps = core->steps,
                           .keeps = w->keeps,
                           .back = back};
    w->scan = gd__scan_new(a->recorded[0], &shape);
    a->recorded[0] = NULL;
    if (!w->scan) return gd_fail(a->ctx, GD_NOMEM, "scan: out of memory");
    gd_status status = list_operands(a, w);
    if (!status) status = make_results(a, w);
    if (!status)
        status = gd__record_scan(w->scan, w->in, w->inputs, w->out + core->states, core->states + a->stored);
    return status;
}

/* The states of the steps that ran must be among those of the loop. */
static bool same_states(const attempt *a, const whole *w)
{
    bool same = true;
    for (int k = 0; k < a->core->states && w->keeps && same; k++) {
        const gd_tensor *kept = w->out[a->core->states + k], *t = a->how->next[k];
        size_t bytes = (size_t)t->numel * gd__item_size(t);
        same = !bytes || !memcmp(kept->data + TRIED * bytes, t->data, bytes);
    }
    return same;
}

/* Records the dependencies of the results. */
static gd_status add_history(attempt *a, whole *w)
{
    const gd_scan_core *core = a->core;
    int given = core->states + core->xs, count = given + a->captures;
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **in = gd__alloc(a->ctx, bytes);
    gd_scan_back *back = in ? gd__calloc(a->ctx, sizeof *back) : NULL;
    gd_status status = back ? GD_OK : GD_NOMEM;
    if (back) {
        memcpy(in, a->first, (size_t)core->states * sizeof *in);
        memcpy(in + core->states, a->xs, (size_t)core->xs * sizeof *in);
        if (a->captures) memcpy(in + given, a->captured, (size_t)a->captures * sizeof *in);
        back->core = gd__core_retain(a->core);
        memcpy(back->alias, a->alias, sizeof back->alias);
        for (int i = 0; i < core->xs; i++) gd__retain(back->x[i] = a->xs[i]);
        for (int k = 0; k < core->states && !status; k++) {
            back->kept[k] = gd__alias(w->out[core->states + k]);
            if (back->kept[k])
                gd__own(back->kept[k]);
            else
                status = gd_error(a->ctx);
        }
        status = gd__scan_depend(back, in, count, w->out, 2 * core->states + a->stored, status);
    }
    gd__free(a->ctx, in, bytes);
    return status;
}

static gd_status give_results(const attempt *a, const whole *w, gd_tensor **last, gd_tensor **ys)
{
    const gd_scan_core *core = a->core;
    int n = 2 * core->states;
    for (int j = 0; j < core->ys; j++) {
        ys[j] = a->alias[j] < 0 ? w->out[n++]
                                : gd_slice(w->out[core->states + a->alias[j]], "0", 1, core->steps + 1, 1);
        if (!ys[j]) return gd_error(a->ctx);
    }
    for (int k = 0; k < core->states; k++) last[k] = w->out[k];
    return GD_OK;
}

static gd_status run_whole(attempt *a, gd_tensor **last, gd_tensor **ys)
{
    whole w = {.keeps = false};
    gd_status status = make_whole(a, &w);
    if (!status && !same_states(a, &w)) {
        gd__not_recorded(a->ctx, "the steps of a loop depend on something that replays do not see");
        (void)stops(a, "its steps depend on something that replays do not see");
    } else if (!status) {
        if (depends(a)) status = add_history(a, &w);
        if (!status) status = give_results(a, &w, last, ys);
        a->how->taken = !status;
    }
    gd__free(a->ctx, w.in, w.bytes);
    if (w.scan) gd__scan_release(w.scan);
    return status;
}

static gd_status attempt_all(attempt *a, gd_tensor **last, gd_tensor **ys)
{
    gd_recording *outer = (gd_recording *)a->ctx->recorder;
    gd_record_mark mark;
    bool fine = gd__record_mark(outer, &mark);
    if (!fine) return GD_OK;
    gd_status status = run_first(a, &fine);
    if (!status && fine && gd_grad_enabled(a->ctx)) status = find_captured(a);
    if (!status && fine) {
        gd__record_rewind(outer, &mark);
        status = run_whole(a, last, ys);
    }
    gd__record_unmark(outer, &mark);
    for (int i = 0; i < 2; i++) gd__recording_free(a->recorded[i]);
    for (int i = 0; i < a->captures; i++) gd__release(a->captured[i]);
    gd__free(a->ctx, a->captured, (size_t)a->capture_room * sizeof *a->captured);
    return status;
}

gd_status gd__scan_try(gd_scan_core *core, gd_tensor *const *state, gd_tensor *const *xs, gd_tensor **last,
                       gd_tensor **ys, gd_scan_outcome *how)
{
    attempt a = {.ctx = core->ctx, .core = core, .how = how};
    *how = (gd_scan_outcome){.taken = false};
    if (!startable(&a, state, xs)) return GD_OK;
    gd_status status = take_inputs(&a, state, xs);
    return status ? status : attempt_all(&a, last, ys);
}
