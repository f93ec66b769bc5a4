/* One evaluation of one shape of inputs: run, recorded twice, replayed. */
#include "trace/entry.h"

#include <stdio.h>
#include <string.h>

#define MOST_RESTARTS 8

/* ---- layout of inputs ---- */

/* The first input in the storage of this one, and the offset of this one from it, in bytes. */
static int place_in_storage(gd_tensor *const *inputs, int i, int64_t *offset)
{
    const gd_tensor *t = inputs[i];
    *offset = 0;
    for (int j = 0; j < i; j++) {
        if (inputs[j]->storage != t->storage) continue;
        *offset = t->numel && inputs[j]->numel ? t->data - inputs[j]->data : 0;
        return j;
    }
    return i;
}

static gd_signature signature_of(gd_tensor *const *inputs, int i)
{
    const gd_tensor *t = inputs[i];
    gd_signature s = {.device = t->storage->device, .dtype = t->dtype, .ndim = t->ndim, .axes = t->axes};
    s.shares = place_in_storage(inputs, i, &s.offset);
    memcpy(s.size, t->size, (size_t)t->ndim * sizeof *s.size);
    memcpy(s.stride, t->stride, (size_t)t->ndim * sizeof *s.stride);
    return s;
}

static bool same_place(const gd_signature *s, gd_tensor *const *inputs, int i, bool direct)
{
    int64_t offset;
    /* inputs of the function are views of separate memory */
    return !direct || (s->shares == place_in_storage(inputs, i, &offset) && s->offset == offset);
}

bool gd__trace_fits(const gd_trace_entry *e, const gd_evaluation *what, gd_tensor *const *inputs, int count)
{
    if (e->what.kind != what->kind || e->inputs != count) return false;
    for (int i = 0; i < count; i++) {
        const gd_signature *s = &e->signature[i];
        const gd_tensor *t = inputs[i];
        if (s->dtype != t->dtype || s->ndim != t->ndim || s->device != t->storage->device) return false;
        for (int d = 0; d < s->ndim; d++)
            if (s->size[d] != t->size[d] || s->stride[d] != t->stride[d]) return false;
        if (s->axes != t->axes && !gd__axes_alike(s->axes, t->axes, s->ndim)) return false;
        if (!same_place(s, inputs, i, what->direct)) return false;
    }
    return true;
}

/* ---- life ---- */

static size_t last_bytes(const gd_trace_entry *e) { return (size_t)e->what.outputs * sizeof *e->last; }

gd_trace_entry *gd__trace_entry_new(gd_ctx *ctx, const gd_evaluation *what, gd_tensor *const *inputs,
                                    int count)
{
    gd_trace_entry *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    e->ctx = ctx;
    e->what = *what;
    e->last = gd__calloc(ctx, last_bytes(e));
    e->inputs = count;
    e->signature = gd__calloc(ctx, (size_t)count * sizeof *e->signature);
    e->brief = gd__calloc(ctx, (size_t)count * sizeof *e->brief);
    if (!e->last || !e->signature || !e->brief) {
        gd__trace_entry_free(e);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        e->signature[i] = signature_of(inputs, i);
        if (e->signature[i].axes) gd__axes_retain(e->signature[i].axes);
    }
    return e;
}

gd_trace_entry *gd__trace_entry_share(const gd_trace_entry *from, gd_ctx *ctx, void *user)
{
    gd_evaluation what = from->what;
    what.user = user;
    gd_trace_entry *e = gd__trace_entry_new(ctx, &what, NULL, 0);
    bool made = e && gd__cpu(ctx);
    if (made) {
        size_t count = (size_t)from->inputs;
        gd__free(ctx, e->signature, 0);
        gd__free(ctx, e->brief, 0);
        e->signature = gd__calloc(ctx, count * sizeof *e->signature);
        e->brief = gd__calloc(ctx, count * sizeof *e->brief);
        e->inputs = from->inputs;
        made = e->signature && e->brief;
    }
    for (int i = 0; i < from->inputs && made; i++) {
        e->signature[i] = from->signature[i];
        e->signature[i].device = ctx->cpu;
        e->signature[i].axes = NULL;
        if (from->signature[i].axes)
            made = (e->signature[i].axes = gd__axes_copy(ctx, from->signature[i].axes)) != NULL;
    }
    if (made) made = (e->replay = gd__replay_share(from->replay, ctx)) != NULL;
    if (made) {
        e->compile = from->compile;
        e->state = GD_TRACE_REPLAYS;
        e->structure = ctx->structure;
        return e;
    }
    if (e) gd__trace_entry_free(e);
    return NULL;
}

/* The last result of the function itself. */
static void forget_last(gd_trace_entry *e)
{
    for (int i = 0; i < e->what.outputs && e->last; i++) {
        gd__release(e->last[i]);
        e->last[i] = NULL;
    }
}

static void forget_recordings(gd_trace_entry *e)
{
    gd__recording_free(e->recorded);
    if (e->replay && e->replay->shared) { /* other threads replay it, too */
        e->replay->retired = *e->retired;
        *e->retired = e->replay;
    } else
        gd__replay_free(e->replay);
    e->recorded = NULL;
    e->replay = NULL;
}

void gd__trace_entry_free(gd_trace_entry *e)
{
    forget_last(e);
    forget_recordings(e);
    for (int i = 0; i < e->inputs && e->signature; i++)
        if (e->signature[i].axes) gd__axes_release(e->signature[i].axes);
    gd__free(e->ctx, e->signature, (size_t)e->inputs * sizeof *e->signature);
    gd__free(e->ctx, e->brief, (size_t)e->inputs * sizeof *e->brief);
    gd__free(e->ctx, e->last, last_bytes(e));
    gd__free(e->ctx, e, sizeof *e);
}

static void give_up(gd_trace_entry *e, const char *why)
{
    forget_recordings(e);
    e->state = GD_TRACE_REFUSED;
    (void)snprintf(e->reason, sizeof e->reason, "%s", why);
}

/* Recorded again from the next call on: modules have different tensors, or data that the host read have changed. */
static void restart(gd_trace_entry *e)
{
    bool served = e->replay && e->replay->runs > 2;
    forget_recordings(e);
    e->state = GD_TRACE_SEEN;
    e->restarts = served ? 0 : e->restarts + 1;
    if (e->restarts > MOST_RESTARTS)
        give_up(e, "modules, or captured tensors that the host reads, change from call to call");
}

/* ---- evaluating ---- */

static gd_status evaluate(gd_trace_entry *e, gd_tensor *const *inputs)
{
    gd_status status = e->what.body(e->what.user, inputs, e->inputs, e->last);
    for (int i = 0; i < e->what.outputs; i++) {
        if (status)
            e->last[i] = NULL;
        else
            gd__own(e->last[i]);
    }
    return status;
}

static gd_status run_function(gd_trace_entry *e, gd_tensor *const *inputs)
{
    forget_last(e);
    gd_scope_begin(e->ctx);
    gd_status status = evaluate(e, inputs);
    gd_scope_end(e->ctx);
    return status;
}

/* *made: NULL if nothing can be recorded now, without memory. */
static gd_status run_recorded(gd_trace_entry *e, gd_tensor *const *inputs, gd_recording **made)
{
    gd_ctx *ctx = e->ctx;
    forget_last(e);
    gd_scope_begin(ctx);
    size_t bytes = (size_t)e->inputs * sizeof *inputs;
    gd_tensor **look = e->what.direct ? NULL : gd__alloc(ctx, bytes);
    bool seen = e->what.direct || look;
    for (int i = 0; i < e->inputs && look && seen; i++) seen = (look[i] = gd__record_look(inputs[i])) != NULL;
    gd_tensor *const *given = look ? look : inputs;
    gd_recording *r = seen ? gd__record_begin(ctx, given, e->inputs) : NULL;
    gd_status status = seen ? evaluate(e, given) : gd_error(ctx);
    if (r) gd__record_end(r, e->last, status ? 0 : e->what.outputs);
    if (r && (status || (r->no_memory && !r->refused))) {
        gd__recording_free(r);
        r = NULL;
    }
    *made = r;
    gd__free(ctx, look, bytes);
    gd_scope_end(ctx);
    return status;
}

/* After the second recording: a replay must give the bits of the function's last result. */
static void begin_to_replay(gd_trace_entry *e, gd_recording *second, gd_tensor *const *inputs, gd_rng before)
{
    gd_ctx *ctx = e->ctx;
    if (gd__record_outdated(e->recorded)) { /* data read by the host have changed: compares with the next */
        restart(e);
        if (e->state == GD_TRACE_SEEN) {
            e->recorded = second;
            e->state = GD_TRACE_RECORDED;
        } else
            gd__recording_free(second);
        return;
    }
    bool agree = gd__recordings_agree(e->recorded, second, e->reason, sizeof e->reason);
    gd__recording_free(second);
    if (!agree) {
        forget_recordings(e);
        e->state = GD_TRACE_REFUSED;
        return;
    }
    e->replay = gd__replay_new(e->recorded, e->compile);
    e->recorded = NULL;
    e->state = e->replay ? GD_TRACE_REPLAYS : GD_TRACE_SEEN;
    if (!e->replay) return;
    gd_rng after = ctx->rng;
    ctx->rng = before;
    bool same = false;
    bool fails = gd__replay_run(e->replay, inputs) || gd__replay_compare(e->replay, e->last, &same),
         other = !fails && !same;
    bool drew = ctx->rng.counter == after.counter;
    ctx->rng = after;
    if (fails) {
        gd_clear_error(ctx);
        restart(e);
    } else if (other || !drew)
        give_up(
            e,
            "what it computes does not follow from its operators: it depends on something that replays do not see");
}

static gd_status record(gd_trace_entry *e, gd_tensor *const *inputs)
{
    gd_recording *r;
    gd_rng before = e->ctx->rng;
    gd_status status = run_recorded(e, inputs, &r);
    if (status || !r) return status;
    if (r->refused) {
        give_up(e, r->reason);
        gd__recording_free(r);
    } else if (e->state == GD_TRACE_RECORDED && e->structure == e->ctx->structure)
        begin_to_replay(e, r, inputs, before);
    else {
        gd__recording_free(e->recorded);
        e->recorded = r;
        e->state = GD_TRACE_RECORDED;
        e->structure = e->ctx->structure;
    }
    return GD_OK;
}

static gd_status run_beside(gd_trace_entry *e, gd_tensor *const *inputs, gd_rng before)
{
    gd_rng after = e->ctx->rng;
    e->ctx->rng = before;
    gd_status status = run_function(e, inputs);
    bool same = false;
    if (!status) status = gd__replay_compare(e->replay, e->last, &same);
    same = same && e->ctx->rng.counter == after.counter;
    if (status || same) return status;
    return gd_fail(
        e->ctx, GD_MISMATCH,
        "trace: a replay of the %s has other bits than the function: something that it depends on has changed "
        "and is no input, captured tensor or gd_traced_input",
        e->what.name);
}

/* A kernel failed, as in the function, which gives a better error; or data read by the host have changed. */
static gd_tensor *const *run_instead(gd_trace_entry *e, gd_tensor *const *inputs, gd_status status)
{
    if (status)
        gd_clear_error(e->ctx);
    else
        restart(e);
    return run_function(e, inputs) ? NULL : e->last;
}

static gd_tensor *const *run_checked(gd_trace_entry *e, gd_tensor *const *inputs)
{
    gd_rng before = e->ctx->rng;
    gd_status status = gd__replay_run(e->replay, inputs);
    if (status || e->replay->stale) return run_instead(e, inputs, status);
    return run_beside(e, inputs, before) ? NULL : e->replay->result;
}

static gd_tensor *const *run_otherwise(gd_trace_entry *e, gd_tensor *const *inputs, bool check)
{
    gd_ctx *ctx = e->ctx;
    bool quiet = !ctx->recorder && !gd_error(ctx);
    if (e->state >= GD_TRACE_RECORDED && e->state < GD_TRACE_REFUSED && e->structure != ctx->structure)
        restart(e);
    if (quiet && check && e->state == GD_TRACE_REPLAYS) return run_checked(e, inputs);
    bool records = quiet && (e->state == GD_TRACE_SEEN || e->state == GD_TRACE_RECORDED);
    gd_status status = records ? record(e, inputs) : run_function(e, inputs);
    if (!status && e->state == GD_TRACE_NEW) e->state = GD_TRACE_SEEN;
    return status ? NULL : e->last;
}

gd_tensor *const *gd__trace_run(gd_trace_entry *e, gd_tensor *const *inputs, bool check)
{
    const gd_ctx *ctx = e->ctx;
    bool ready = e->state == GD_TRACE_REPLAYS && !check && e->structure == ctx->structure && !ctx->recorder &&
                 !ctx->status;
    if (!ready) return run_otherwise(e, inputs, check);
    gd_status status = gd__replay_run(e->replay, inputs);
    if (status || e->replay->stale) return run_instead(e, inputs, status);
    if (*e->last) forget_last(e); /* as large as the results of the replay; until here it may be an input */
    return e->replay->result;
}

gd_shortcut *gd__trace_shortcut(gd_trace_entry *e)
{
    if (e->state != GD_TRACE_REPLAYS) return NULL;
    for (int i = 0; i < e->inputs; i++) {
        const gd_signature *x = &e->signature[i];
        e->brief[i] = (gd_short_input){.dtype = x->dtype,
                                       .ndim = (uint8_t)x->ndim,
                                       .device = x->device,
                                       .axes = x->axes,
                                       .size = x->size,
                                       .stride = x->stride};
    }
    gd_shortcut *s = gd__replay_shortcut(e->replay, e->inputs, e->brief);
    if (!s) return NULL;
    s->structure = e->structure;
    s->kind = e->what.kind;
    s->count = e->inputs;
    return s;
}
