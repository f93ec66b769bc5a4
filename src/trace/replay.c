/* Replays: kernels over memory that was planned once. */
#include "trace/trace_scan.h"
#include "trace/tape.h"
#include "trace/trace_loop.h"
#include "trace/device/on_device.h"
#include "trace/many/lanes.h"

#include <string.h>

/* ---- making ---- */

typedef struct list {
    void *to; /* the address of a pointer */
    size_t bytes;
} list;

/* All that a replay allocates beside its arena and its results. */
static int lists_of(gd_replay *p, list *all)
{
    size_t buffers = (size_t)p->r->buffers, operands = (size_t)p->r->operands, calls = (size_t)p->r->calls;
    int n = 0;
    all[n++] = (list){&p->storage, buffers * sizeof *p->storage};
    all[n++] = (list){&p->look, operands * sizeof *p->look};
    all[n++] = (list){&p->list, operands * sizeof *p->list};
    all[n++] = (list){&p->looks, operands * sizeof *p->looks};
    all[n++] = (list){&p->at, (buffers + 1) * sizeof *p->at};
    all[n++] = (list){&p->prologue, calls * sizeof *p->prologue};
    all[n++] = (list){&p->body, calls * sizeof *p->body};
    all[n++] = (list){&p->unit, calls * sizeof *p->unit};
    all[n++] = (list){&p->writer, buffers * sizeof *p->writer};
    all[n++] = (list){&p->begins, buffers * sizeof *p->begins};
    all[n++] = (list){&p->ends, buffers * sizeof *p->ends};
    all[n++] = (list){&p->base, buffers * sizeof *p->base};
    all[n++] = (list){&p->version, buffers * sizeof *p->version};
    all[n++] = (list){&p->watched, buffers * sizeof *p->watched};
    all[n++] = (list){&p->memory, buffers * sizeof *p->memory};
    all[n++] = (list){&p->holders, buffers * sizeof *p->holders};
    all[n++] = (list){&p->result, (size_t)p->r->outputs * sizeof *p->result};
    all[n++] = (list){&p->place, buffers * sizeof *p->place};
    all[n++] = (list){&p->brief_out, (size_t)p->r->outputs * sizeof *p->brief_out};
    all[n++] = (list){&p->scan, calls * sizeof *p->scan};
    all[n++] = (list){&p->axes, (size_t)p->r->outputs * sizeof *p->axes};
    return n;
}

#define LISTS 21

static bool make_lists(gd_replay *p)
{
    list all[LISTS];
    int n = lists_of(p, all);
    for (int i = 0; i < n; i++) {
        void *block = gd__quiet_alloc(p->ctx, all[i].bytes);
        if (!block) return false;
        memset(block, 0, all[i].bytes);
        memcpy(all[i].to, &block, sizeof block);
    }
    return true;
}

static void drop_result(gd_replay *p, int i)
{
    gd__release(p->result[i]);
    p->result[i] = NULL;
}

void gd__replay_free(gd_replay *p)
{
    if (!p) return;
    gd__lanes_free(p->lanes);
    for (int i = 0; i < p->units; i++) {
        gd__tape_free(p->unit[i].tape);
        gd__loop_free(p->unit[i].loop);
        gd__fused_free(p->ctx, p->unit[i].fused);
    }
    for (int i = 0; i < p->r->outputs && p->result; i++) drop_result(p, i);
    for (int b = 0; b < p->r->buffers && p->memory; b++) gd__release(p->memory[b]);
    for (int i = 0; i < p->r->calls && p->scan && p->shares; i++)
        if (p->scan[i]) gd__scan_release(p->scan[i]);
    for (int i = 0; i < p->r->outputs && p->axes && p->shares; i++) gd__axes_release(p->axes[i]);
    gd__on_device_free(p);
    if (p->device == p->ctx->cpu) gd__free(p->ctx, p->arena, p->arena_bytes);
    gd_recording *r = p->shares ? NULL : p->r;
    list all[LISTS];
    int n = lists_of(p, all);
    for (int i = 0; i < n; i++) {
        void *block;
        memcpy(&block, all[i].to, sizeof block);
        gd__free(p->ctx, block, all[i].bytes);
    }
    gd__recording_free(r);
    gd__free(p->ctx, p, sizeof *p);
}

static void make_looks(gd_replay *p)
{
    const gd_recording *r = p->r;
    for (int b = 0; b < r->buffers; b++)
        p->storage[b] = (gd_storage){
            .ctx = p->ctx, .device = p->device, .bytes = r->buffer[b].bytes, .refs = 1};
    for (int k = 0; k < r->operands; k++) {
        const gd_operand *o = &r->operand[k];
        gd_tensor *t = &p->look[k];
        t->head = (gd_object){.ctx = p->ctx, .refs = 1};
        t->dtype = o->dtype;
        t->ndim = o->ndim;
        t->rows = o->rows;
        t->numel = o->numel;
        t->storage = &p->storage[o->buffer];
        memcpy(t->size, o->size, sizeof t->size);
        memcpy(t->stride, o->stride, sizeof t->stride);
        p->list[k] = t;
        p->at[o->buffer + 1]++;
    }
    for (int b = 0; b < r->buffers; b++) p->at[b + 1] += p->at[b];
    for (int k = r->operands; k-- > 0;) p->looks[--p->at[r->operand[k].buffer + 1]] = k;
    /* each count was decremented to its start */
    for (int b = 0; b < r->buffers; b++) p->at[b] = p->at[b + 1];
    p->at[r->buffers] = r->operands;
}

void gd__replay_place(gd_replay *p, int buffer, char *base)
{
    p->storage[buffer].data = p->base[buffer] = base;
    for (int i = p->at[buffer]; i < p->at[buffer + 1]; i++) {
        int k = p->looks[i];
        p->look[k].data = base + p->r->operand[k].offset;
    }
}

static void place_looks(gd_replay *p)
{
    const gd_recording *r = p->r;
    for (int b = 0; b < r->buffers; b++) {
        const gd_buffer *buffer = &r->buffer[b];
        if (buffer->origin == GD_ORIGIN_CAPTURED)
            gd__replay_place(p, b, buffer->storage->data);
        else if (buffer->origin == GD_ORIGIN_MADE && !p->memory[b] && p->place[b] < p->arena_bytes)
            gd__replay_place(p, b, p->arena + p->place[b]);
        else if (buffer->origin == GD_ORIGIN_MADE && !buffer->bytes)
            gd__replay_place(
                p, b,
                (char *)p
                    ->storage); /* nothing is read there, but kernels may pass it to memcpy, which does not accept NULL */
        if (buffer->origin == GD_ORIGIN_MADE) continue;
        bool given = buffer->origin == GD_ORIGIN_INPUT;
        p->watched[p->watches++] = (gd_watch){.buffer = b,
                                              .input = given ? buffer->input : -1,
                                              .offset = buffer->offset,
                                              .storage = given ? NULL : buffer->storage};
    }
}

/* ---- results ---- */

static gd_tensor *bytes_of(gd_replay *p, size_t bytes)
{
    gd_tensor *t = gd__new(p->device, GD_U8, 1, (int64_t[]){(int64_t)bytes});
    gd__own(t);
    return t;
}

static gd_tensor *result_in(gd_tensor *memory, const gd_operand *o, gd_axes *axes)
{
    gd_tensor *t = gd__bare(memory);
    if (!t) return NULL;
    gd__own(t);
    t->dtype = o->dtype;
    t->ndim = o->ndim;
    t->rows = o->rows;
    t->numel = o->numel;
    t->data = memory->data + o->offset;
    memcpy(t->size, o->size, sizeof t->size);
    memcpy(t->stride, o->stride, sizeof t->stride);
    if (axes) gd__axes_retain(t->axes = axes);
    return t;
}

/* New memory for the outputs in a buffer: at first, or because the old ones are still referenced. */
static gd_status renew(gd_replay *p, int buffer)
{
    const gd_recording *r = p->r;
    gd__aside_begin(p->ctx);
    gd_tensor *memory = bytes_of(p, r->buffer[buffer].bytes);
    gd_status status = memory ? GD_OK : GD_NOMEM;
    for (int i = 0; i < r->outputs && !status; i++) {
        if (r->output[i].buffer != buffer) continue;
        gd_tensor *t = result_in(memory, &r->output[i], p->axes[i]);
        if (t) {
            drop_result(p, i);
            p->result[i] = t;
        } else
            status = GD_NOMEM;
    }
    gd__aside_end(p->ctx);
    if (status) { /* results may be in either: all are recomputed */
        gd__release(memory);
        p->ready = false;
        return status;
    }
    gd__release(p->memory[buffer]);
    p->memory[buffer] = memory;
    p->version[buffer] = gd__version(memory);
    gd__replay_place(p, buffer, memory->data);
    return GD_OK;
}

/* The results of the last run are neither referenced nor changed. */
static inline bool untouched(const gd_replay *p, int output)
{
    int b = p->r->output[output].buffer;
    const gd_storage *storage = p->memory[b]->storage;
    return p->result[output]->head.refs == 1 && storage->refs == p->holders[b] &&
           (storage->version == p->version[b] || p->r->buffer[b].moving);
}

/* New memory if the old one is still referenced.  The prologue's values are then lost, also if they were changed. */
static gd_status renew_held(gd_replay *p)
{
    const gd_recording *r = p->r;
    for (int i = 0; i < r->outputs; i++) {
        int b = r->output[i].buffer;
        if (p->result[i] && untouched(p, i)) continue;
        bool held = !p->result[i] || p->result[i]->head.refs != 1 ||
                    p->memory[b]->storage->refs != p->holders[b];
        gd_status status = held ? renew(p, b) : GD_OK;
        if (status) return status;
        p->ready = p->ready && r->buffer[b].moving;
    }
    return GD_OK;
}

static inline gd_status look_at_results(gd_replay *p)
{
    for (int i = 0; i < p->r->outputs; i++)
        if (!p->result[i] || !untouched(p, i)) return renew_held(p);
    return GD_OK;
}

/* Memory of all results.  False: there is none. */
static bool make_results(gd_replay *p)
{
    const gd_recording *r = p->r;
    bool made = true;
    for (int b = 0; b < r->buffers; b++) p->holders[b] = 1;
    for (int i = 0; i < r->outputs; i++) p->holders[r->output[i].buffer]++;
    for (int i = 0; i < r->outputs && made; i++) {
        int b = r->output[i].buffer;
        if (!p->memory[b]) made = renew(p, b) == GD_OK;
    }
    return made;
}

gd_replay *gd__replay_new(gd_recording *r, gd_trace_compile compile)
{
    gd_replay *p = gd__record_copies(r) ? gd__quiet_alloc(r->ctx, sizeof *p) : NULL;
    if (!p) {
        gd__recording_free(r);
        return NULL;
    }
    *p = (gd_replay){.ctx = r->ctx, .r = r, .compile = compile, .device = r->device};
    gd_status before = gd_error(p->ctx);
    bool made = make_lists(p);
    for (int i = 0; i < r->calls; i++)
        if (r->call[i].scan) gd__scan_compile(r->call[i].scan, compile);
    for (int i = 0; i < r->calls && made; i++) p->scan[i] = r->call[i].scan;
    for (int i = 0; i < r->outputs && made; i++) p->axes[i] = r->axes[i];
    if (made) make_looks(p);
    if (made && make_results(p) && gd__replay_plan(p)) {
        place_looks(p);
        return p;
    }
    if (!before) gd_clear_error(p->ctx);
    gd__replay_free(p);
    return NULL;
}

/* ---- for other threads ---- */

static void copy_plan(gd_replay *p, const gd_replay *from)
{
    const gd_recording *r = p->r;
    size_t buffers = (size_t)r->buffers;
    memcpy(p->prologue, from->prologue, (size_t)from->prologues * sizeof *p->prologue);
    memcpy(p->body, from->body, (size_t)from->bodies * sizeof *p->body);
    memcpy(p->writer, from->writer, buffers * sizeof *p->writer);
    memcpy(p->begins, from->begins, buffers * sizeof *p->begins);
    memcpy(p->ends, from->ends, buffers * sizeof *p->ends);
    memcpy(p->place, from->place, buffers * sizeof *p->place);
    p->prologues = from->prologues;
    p->bodies = from->bodies;
}

/* Units, loops and names with what is written while they run.  False: no memory. */
static bool share_parts(gd_replay *p, const gd_replay *from)
{
    const gd_recording *r = p->r;
    bool made = true;
    for (int i = 0; i < r->outputs && made; i++)
        if (from->axes[i]) made = (p->axes[i] = gd__axes_copy(p->ctx, from->axes[i])) != NULL;
    for (int i = 0; i < r->calls && made; i++)
        if (from->scan[i]) made = (p->scan[i] = gd__scan_share(from->scan[i], p->ctx)) != NULL;
    for (; p->units < from->units && made; p->units++) {
        const gd_unit *u = &from->unit[p->units];
        gd_unit *own = &p->unit[p->units];
        *own = (gd_unit){.first = u->first, .count = u->count};
        if (u->tape) made = (own->tape = gd__tape_share(u->tape, p->ctx)) != NULL;
        if (u->loop) made = (own->loop = gd__loop_share(u->loop, p->ctx)) != NULL;
    }
    return made;
}

gd_replay *gd__replay_share(gd_replay *from, gd_ctx *ctx)
{
    gd_status before = gd_error(ctx);
    gd_replay *p = gd__cpu(ctx) ? gd__quiet_alloc(ctx, sizeof *p) : NULL;
    if (!p) return NULL;
    *p = (gd_replay){.ctx = ctx,
                     .r = from->r,
                     .compile = from->compile,
                     .shares = true,
                     .settled = true,
                     .device = ctx->cpu};
    bool made = make_lists(p);
    if (made) {
        make_looks(p);
        copy_plan(p, from);
        made = share_parts(p, from) && make_results(p);
    }
    if (made && from->arena_bytes) {
        made = (p->arena = gd__quiet_alloc(ctx, from->arena_bytes)) != NULL;
        if (made) p->arena_bytes = from->arena_bytes;
    }
    if (made) {
        place_looks(p);
        from->shared = true;
        return p;
    }
    if (!before) gd_clear_error(ctx);
    gd__replay_free(p);
    return NULL;
}

/* ---- running ---- */

static gd_status run_kernel(gd_replay *p, const gd_recorded *c)
{
    gd_call call = {.op = c->op,
                    .nin = c->nin,
                    .nout = c->nout,
                    .in = p->list + c->first,
                    .out = p->list + c->first + c->nin,
                    .attrs = &c->attrs};
    if (c->op != GD_OP_random) return gd__device_run(p->device, &call);
    gd_attrs attrs = c->attrs;
    attrs.i[1] = (int64_t)p->ctx->rng.key;
    attrs.i[2] = (int64_t)((uint64_t)attrs.i[2] + p->ctx->rng.counter);
    call.attrs = &attrs;
    return gd__device_run(p->device, &call);
}

gd_status gd__replay_calls(gd_replay *p, const int *calls, int count)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        const gd_recorded *c = &p->r->call[calls[i]];
        if (c->kind == GD_CALL_KERNEL)
            status = run_kernel(p, c);
        else if (c->kind == GD_CALL_SCAN)
            status = gd__scan_run(p->scan[calls[i]], p->list + c->first, p->list + c->first + c->nin);
        else if (p->device != p->ctx->cpu)
            status = p->device->backend->upload(p->device, p->look[c->first].data,
                                                c->kind == GD_CALL_DATA ? c->data : c->source, c->bytes);
        else
            memcpy(p->look[c->first].data, c->kind == GD_CALL_DATA ? c->data : c->source, c->bytes);
    }
    return status;
}

static void note_change(gd_replay *p, gd_watch *w)
{
    const gd_buffer *buffer = &p->r->buffer[w->buffer];
    p->stale = p->stale || (p->runs && (buffer->guarded || p->r->guarded));
    p->ready = false;
    w->version = w->storage->version;
}

/* A captured tensor with references only from recordings was replaced: the function reads a different one now. */
static inline bool is_gone(const gd_replay *p, const gd_storage *captured)
{
    return captured->refs == captured->recorded && !p->shares; /* other threads do not check references */
}

/* Updates addresses of inputs and captured tensors, and finds changed captured ones. */
static inline void look_around(gd_replay *p, gd_tensor *const *inputs)
{
    for (int i = 0; i < p->watches; i++) {
        gd_watch *w = &p->watched[i];
        char *base = w->input < 0 ? w->storage->data : inputs[w->input]->data - w->offset;
        if (base != p->storage[w->buffer].data || base != p->base[w->buffer])
            gd__replay_place(p, w->buffer, base);
        if (w->input < 0 && w->version != w->storage->version) note_change(p, w);
        if (w->input < 0 && is_gone(p, w->storage)) p->stale = true;
    }
}

static void touch_results(gd_replay *p)
{
    for (int i = 0; i < p->r->outputs; i++) {
        int b = p->r->output[i].buffer;
        gd_storage *storage = p->memory[b]->storage;
        p->version[b] = storage->version = ++storage->last;
    }
}

gd_status gd__replay_prologue(gd_replay *p) { return gd__replay_calls(p, p->prologue, p->prologues); }

gd_status gd__replay_body(gd_replay *p)
{
    gd_status status = GD_OK;
    if (p->on) return gd__on_device_body(p);
    if (!p->settled) gd__loops_consider(p);
    for (int i = 0; i < p->units && !status; i++) {
        const gd_unit *u = &p->unit[i];
        if (u->tape)
            gd__tape_run(u->tape, p->base);
        else if (u->loop)
            gd__loop_run(u->loop, p->base);
        else
            status = gd__replay_calls(p, p->body + u->first, u->count);
    }
    return status;
}

gd_status gd__replay_run(gd_replay *p, gd_tensor *const *inputs)
{
    p->runs += p->brief.runs;
    p->brief.runs = 0;
    look_around(p, inputs);
    if (p->stale) return GD_OK;
    gd_status status = look_at_results(p);
    if (!status && !p->ready) {
        status = gd__replay_prologue(p);
        p->ready = !status;
    }
    if (!status) status = gd__replay_body(p);
    if (status) return status;
    p->ctx->rng.counter += p->r->drawn;
    touch_results(p);
    p->runs++;
    return GD_OK;
}

/* ---- the fast path ---- */

/* New in each run, in memory without other references, so its version can stay. */
static bool gives_shortly(const gd_replay *p, int output)
{
    int b = p->r->output[output].buffer;
    return p->r->buffer[b].moving && p->holders[b] == 2 && p->memory[b]->storage->refs == 2 &&
           p->result[output]->head.refs == 1;
}

static void see_vector(gd_shortcut *s, int inputs)
{
    bool vector = inputs == 1 && s->in->ndim == 1 && s->outputs == 2;
    s->vectors = vector ? 1 : -1;
    if (!vector) return;
    s->input = *s->in;
    s->extent = *s->in->size;
    s->stride = *s->in->stride;
    s->value = s->out[0];
    s->grad = s->out[1];
}

gd_shortcut *gd__replay_shortcut(gd_replay *p, int inputs, gd_short_input *in)
{
    gd_tape *t = p->units == 1 ? p->unit->tape : NULL;
    if (!t || !p->ready || p->stale || p->r->drawn || p->watches > inputs) return NULL;
    gd_shortcut *s = &p->brief;
    if (!gd__tape_settled(t, s)) return NULL;
    for (int i = 0; i < p->r->outputs; i++) {
        if (!gives_shortly(p, i)) return NULL;
        p->brief_out[i] = (gd_short_output){p->result[i], p->memory[p->r->output[i].buffer]->storage};
    }
    for (int i = 0; i < inputs; i++) in[i].base = p->unused;
    for (int i = 0; i < p->watches; i++) {
        const gd_watch *w = &p->watched[i];
        if (w->input < 0) return NULL;
        in[w->input].base = &p->base[w->buffer];
        in[w->input].offset = w->offset;
    }
    s->ctx = p->ctx;
    s->in = in;
    s->out = p->brief_out;
    s->outputs = p->r->outputs;
    s->results = p->result;
    s->base = p->base;
    s->runs = 0;
    see_vector(s, inputs);
    return s;
}

/* ---- comparing ---- */

static bool same_bits(const gd_tensor *a, const gd_tensor *b)
{
    if (a->dtype != b->dtype || !gd__same_shape(a, b)) return false;
    size_t item = gd__item_size(a);
    int64_t index[GD_MAX_DIMS] = {0};
    for (int64_t n = 0; n < a->numel; n++) {
        int64_t x = 0, y = 0;
        for (int i = 0; i < a->ndim; i++) {
            x += index[i] * a->stride[i];
            y += index[i] * b->stride[i];
        }
        if (memcmp(a->data + x * (int64_t)item, b->data + y * (int64_t)item, item) != 0) return false;
        for (int i = a->ndim; i-- > 0 && ++index[i] == a->size[i];) index[i] = 0;
    }
    return true;
}

gd_status gd__replay_compare(const gd_replay *p, gd_tensor *const *outputs, bool *same)
{
    gd_status status = GD_OK;
    *same = true;
    for (int i = 0; i < p->r->outputs && !status && *same; i++) {
        gd_scope_begin(p->ctx);
        const gd_tensor *a = gd_to_device(p->result[i], p->ctx->cpu),
                        *b = gd_to_device(outputs[i], p->ctx->cpu);
        if (!a || !b)
            status = gd_error(p->ctx);
        else
            *same = same_bits(a, b);
        gd_scope_end(p->ctx);
    }
    return status;
}
