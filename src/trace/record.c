/* Recording the computation of a function.
 *
 * The recording replaces the CPU's backend: its `run` calls the real one and notes the call. It never fails: without memory for a
 * note, the recording is dropped, and the function continues. */
#include "trace/record.h"
#include "trace/trace_scan.h"

#include <stdio.h>
#include <string.h>

void *gd__quiet_alloc(gd_ctx *ctx, size_t size)
{
    gd_status before = gd_error(ctx);
    void *block = gd__alloc(ctx, size);
    if (!block && !before) gd_clear_error(ctx);
    return block;
}

bool gd__quiet_reserve(gd_ctx *ctx, void *array, int count, int *room, size_t item, int least)
{
    if (count < *room) return true;
    int wanted = *room ? *room * 2 : least;
    void *old, *block = gd__quiet_alloc(ctx, (size_t)wanted * item);
    if (!block) return false;
    memcpy(&old, array, sizeof old);
    if (old) memcpy(block, old, (size_t)count * item);
    gd__free(ctx, old, (size_t)*room * item);
    memcpy(array, &block, sizeof block);
    *room = wanted;
    return true;
}

bool gd__record_reserve(gd_recording *r, void *array, int count, int *room, size_t item)
{
    bool done = gd__quiet_reserve(r->ctx, array, count, room, item, 32);
    r->no_memory = r->no_memory || !done;
    return done;
}

static void say_why_not(gd_recording *r, const char *format, const char *name)
{
    if (r->refused) return;
    r->refused = true;
    char text[sizeof r->reason];
    (void)snprintf(text, sizeof text, format, name);
    memcpy(r->reason, text, sizeof text);
}

/* ---- buffers ---- */

/* By the serial too: a long function has many storages at few addresses. */
static size_t hash_of(const gd_storage *storage, uint64_t serial)
{
    uint64_t h = ((uint64_t)(uintptr_t)storage + serial * 0xff51afd7ed558ccdu) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32);
}

static void fill_places(gd_recording *r)
{
    if (r->place_room) memset(r->place, 0, (size_t)r->place_room * sizeof *r->place);
    for (int k = 0; k < r->buffers; k++) {
        size_t at = hash_of(r->buffer[k].storage, r->buffer[k].serial) & (size_t)(r->place_room - 1);
        while (r->place[at]) at = (at + 1) & (size_t)(r->place_room - 1);
        r->place[at] = k + 1;
    }
}

static bool grow_places(gd_recording *r)
{
    int room = r->place_room ? r->place_room * 2 : 64;
    int *place = gd__quiet_alloc(r->ctx, (size_t)room * sizeof *place);
    if (!place) {
        r->no_memory = true;
        return false;
    }
    gd__free(r->ctx, r->place, (size_t)r->place_room * sizeof *place);
    r->place = place;
    r->place_room = room;
    fill_places(r);
    return true;
}

/* -1: not met yet. Addresses are reused; serials are not. */
static int find_buffer(const gd_recording *r, const gd_storage *storage)
{
    if (!r->place_room) return -1;
    for (size_t at = hash_of(storage, storage->serial) & (size_t)(r->place_room - 1); r->place[at];
         at = (at + 1) & (size_t)(r->place_room - 1)) {
        const gd_buffer *b = &r->buffer[r->place[at] - 1];
        if (b->storage == storage && b->serial == storage->serial) return r->place[at] - 1;
    }
    return -1;
}

static int add_buffer(gd_recording *r, const gd_buffer *b)
{
    if (2 * (r->buffers + 1) > r->place_room && !grow_places(r)) return -1;
    if (!gd__record_reserve(r, &r->buffer, r->buffers, &r->buffer_room, sizeof *b)) return -1;
    r->buffer[r->buffers] = *b;
    size_t at = hash_of(b->storage, b->serial) & (size_t)(r->place_room - 1);
    while (r->place[at]) at = (at + 1) & (size_t)(r->place_room - 1);
    r->place[at] = r->buffers + 1;
    return r->buffers++;
}

static void let_go(gd_storage *captured)
{
    captured->recorded--;
    gd__storage_release(captured);
}

/* ---- looks ---- */

static void end_look(void *storage) { gd__storage_release(storage); }

gd_tensor *gd__record_look(gd_tensor *t)
{
    gd_tensor *look = gd__alias(t);
    if (!look) return NULL;
    gd_storage *storage = look->storage;
    look->storage = NULL;
    if (gd__storage_over(look, storage->device, t->data, storage->read_only, end_look, storage)) {
        gd__storage_release(storage);
        return NULL;
    }
    return look;
}

/* A view is resolved to its memory. */
static gd_storage *looked_at(const gd_recording *r, gd_storage *storage)
{
    while (storage->foreign && storage->serial > r->serial && find_buffer(r, storage) < 0) {
        const gd_foreign *f = (const gd_foreign *)storage;
        if (f->release != end_look) break;
        storage = f->user;
    }
    return storage;
}

/* The buffer of a storage, from its first use on; -1: no memory. */
static int buffer_of(gd_recording *r, gd_storage *storage)
{
    storage = looked_at(r, storage);
    int k = find_buffer(r, storage);
    if (k >= 0) return k;
    bool captured = storage->serial <= r->serial;
    if (!captured && storage->foreign) say_why_not(r, "%s takes memory of others while it runs", "it");
    gd_buffer b = {.origin = captured ? GD_ORIGIN_CAPTURED : GD_ORIGIN_MADE,
                   .moving = captured && storage->foreign, /* other processes can write there unnoticed */
                   .storage = storage,
                   .serial = storage->serial,
                   .version = storage->version,
                   .base = storage->data,
                   .bytes = storage->bytes};
    k = add_buffer(r, &b);
    if (k >= 0 && captured) {
        storage->refs++;
        storage->recorded++;
    }
    return k;
}

static gd_operand look_of(const gd_recording *r, const gd_tensor *t, int buffer)
{
    gd_operand o = {.buffer = buffer,
                    .dtype = t->dtype,
                    .ndim = t->ndim,
                    .rows = t->rows,
                    .offset = t->numel ? t->data - r->buffer[buffer].base : 0,
                    .numel = t->numel};
    memcpy(o.size, t->size, (size_t)t->ndim * sizeof *o.size);
    memcpy(o.stride, t->stride, (size_t)t->ndim * sizeof *o.stride);
    return o;
}

/* ---- calls ---- */

static gd_recorded *add_call(gd_recording *r)
{
    if (!gd__record_reserve(r, &r->call, r->calls, &r->call_room, sizeof *r->call)) return NULL;
    gd_recorded *call = &r->call[r->calls++];
    *call = (gd_recorded){.first = r->operands};
    return call;
}

static bool add_operand(gd_recording *r, const gd_operand *o)
{
    if (!gd__record_reserve(r, &r->operand, r->operands, &r->operand_room, sizeof *o)) return false;
    r->operand[r->operands++] = *o;
    return true;
}

/* The bytes of a whole buffer. */
static gd_operand whole(const gd_recording *r, int buffer)
{
    int64_t bytes = (int64_t)r->buffer[buffer].bytes;
    return (gd_operand){
        .buffer = buffer, .dtype = GD_U8, .ndim = 1, .numel = bytes, .size = {bytes}, .stride = {1}};
}

/* What is in a buffer now, on the host; NULL: it could not be had, with no error recorded. */
static char *bytes_in(gd_recording *r, const gd_buffer *b)
{
    char *data = gd__quiet_alloc(r->ctx, b->bytes);
    gd_status before = gd_error(r->ctx);
    if (data && r->device != r->ctx->cpu) {
        if (!r->device->backend->download(r->device, data, b->base, b->bytes)) return data;
        gd__free(r->ctx, data, b->bytes);
        if (!before) gd_clear_error(r->ctx);
        return NULL;
    }
    if (data) memcpy(data, b->base, b->bytes);
    return data;
}

/* The present contents of a buffer are a constant, from the next call on. */
static void note_data(gd_recording *r, int buffer)
{
    gd_buffer *b = &r->buffer[buffer];
    bool here = r->device == r->ctx->cpu;
    if (!b->bytes || (here && b->data && !memcmp(r->call[b->data - 1].data, b->base, b->bytes))) return;
    gd_operand all = whole(r, buffer);
    char *data = bytes_in(r, b);
    bool known = data && b->data && !memcmp(r->call[b->data - 1].data, data, b->bytes);
    gd_recorded *call = data && !known ? add_call(r) : NULL;
    if (!call || !add_operand(r, &all)) {
        gd__free(r->ctx, data, b->bytes);
        if (call) r->calls--;
        r->no_memory = r->no_memory || !known;
        return;
    }
    call->kind = GD_CALL_DATA;
    call->nout = 1;
    call->data = data;
    call->bytes = b->bytes;
    b->data = r->calls;
}

/* A kernel reads it, or writes only some elements: elements not written by a kernel were written by the host. */
static void note_use(gd_recording *r, int buffer, bool reads)
{
    gd_buffer *b = &r->buffer[buffer];
    if (b->origin != GD_ORIGIN_MADE) return;
    if (b->by_host || (reads && !b->written)) note_data(r, buffer);
}

static bool note_random(gd_recording *r, gd_recorded *call)
{
    if ((uint64_t)call->attrs.i[1] != r->rng.key || r->ctx->rng.key != r->rng.key) {
        say_why_not(r, "%s draws from a generator that is not the context's", "it");
        return false;
    }
    call->attrs.i[1] = 0;
    call->attrs.i[2] = (int64_t)((uint64_t)call->attrs.i[2] - r->rng.counter);
    return true;
}

/* Captures a kernel's inputs before it runs, because it may overwrite them. */
static bool note_inputs(gd_recording *r, const gd_call *call, gd_operand *look)
{
    for (int i = 0; i < call->nin + call->nout; i++) {
        const gd_tensor *t = i < call->nin ? call->in[i] : call->out[i - call->nin];
        if (t->storage->device != r->device) {
            say_why_not(r, "it runs a loop on %s, its inputs are elsewhere", t->storage->device->name);
            return false;
        }
        int buffer = buffer_of(r, t->storage);
        if (buffer < 0) return false;
        look[i] = look_of(r, t, buffer);
        note_use(r, buffer, i < call->nin);
    }
    return !r->no_memory;
}

static bool writes_elsewhere(gd_recording *r, const gd_call *call, const gd_operand *look)
{
    for (int i = call->nin; i < call->nin + call->nout; i++) {
        const gd_buffer *b = &r->buffer[look[i].buffer];
        if (b->origin == GD_ORIGIN_MADE) continue;
        say_why_not(r,
                    b->origin == GD_ORIGIN_INPUT
                        ? "it changes an input in place (%s)"
                        : "it changes a tensor in place that was made outside of it (%s)",
                    gd__ops[call->op].name);
        return true;
    }
    return false;
}

/* Its operation: a kernel, or a loop. */
static void note_work(gd_recorded *call, const gd_call *c, struct gd_scan_call *scan)
{
    if (scan) {
        call->kind = GD_CALL_SCAN;
        call->scan = gd__scan_retain(scan);
        return;
    }
    call->kind = GD_CALL_KERNEL;
    call->op = c->op;
    call->attrs.ni = c->attrs->ni;
    call->attrs.nf = c->attrs->nf;
    memcpy(call->attrs.i, c->attrs->i, (size_t)c->attrs->ni * sizeof *c->attrs->i);
    memcpy(call->attrs.f, c->attrs->f, (size_t)c->attrs->nf * sizeof *c->attrs->f);
}

static void note_call(gd_recording *r, const gd_call *c, const gd_operand *look, struct gd_scan_call *scan)
{
    gd_recorded *call = add_call(r);
    if (!call) return;
    note_work(call, c, scan);
    bool moving = !scan && c->op == GD_OP_random;
    for (int i = 0; i < c->nin + c->nout; i++) {
        if (!add_operand(r, &look[i])) return;
        moving = moving || r->buffer[look[i].buffer].moving;
    }
    call->nin = c->nin;
    call->nout = c->nout;
    for (int i = c->nin; i < c->nin + c->nout; i++) {
        gd_buffer *b = &r->buffer[look[i].buffer];
        b->moving = moving;
        b->written = true;
        b->by_host = false;
        b->data = 0;
    }
    if (!scan && c->op == GD_OP_random) (void)note_random(r, call);
}

#define MOST_DIRECT 16

/* Runs on the previous backend: an enclosing recording gets the call, too. */
static gd_status run_real(gd_recording *r, gd_device *device, const gd_call *call)
{
    gd_recorded_device *d = &r->through[device != r->device];
    if (!r->outer) return gd__device_run_by(d->real, device, call);
    gd_ctx *ctx = r->ctx;
    ctx->recorder = &r->outer->hooks;
    device->backend = d->real;
    gd_status status = gd__device_run(device, call);
    device->backend = &d->backend;
    ctx->recorder = &r->hooks;
    return status;
}

static void host_reads(gd_recorder *hooks, const gd_tensor *t, const char *what);
static void host_writes(gd_recorder *hooks, const gd_tensor *t, const char *what);

/* The CPU is the host of a function whose inputs are on a device. */
static gd_status run_on_host(gd_recording *r, gd_device *cpu, const gd_call *call)
{
    const char *name = gd__ops[call->op].name;
    if (call->op == GD_OP_random) say_why_not(r, "it draws random numbers on the CPU (%s)", name);
    for (int i = 0; i < call->nin; i++) host_reads(&r->hooks, call->in[i], name);
    gd_status status = run_real(r, cpu, call);
    for (int i = 0; i < call->nout; i++) host_writes(&r->hooks, call->out[i], name);
    return status;
}

/* A kernel (device) or a loop (scan), noted. */
static gd_status run_noted(gd_recording *r, gd_device *device, const gd_call *call, struct gd_scan_call *scan)
{
    gd_operand few[MOST_DIRECT], *look = few;
    size_t bytes = (size_t)(call->nin + call->nout) * sizeof *look;
    if (call->nin + call->nout > MOST_DIRECT) look = gd__quiet_alloc(r->ctx, bytes);
    r->no_memory = r->no_memory || !look;
    bool seen = look && note_inputs(r, call, look) && !writes_elsewhere(r, call, look);
    r->depth++;
    gd_status status = scan ? gd__scan_run(scan, call->in, call->out) : run_real(r, device, call);
    r->depth--;
    if (seen && !status) note_call(r, call, look, scan);
    if (status) say_why_not(r, "%s fails", scan ? "a loop" : gd__ops[call->op].name);
    if (look != few) gd__free(r->ctx, look, bytes);
    return status;
}

static bool hears(const gd_recording *r) { return !r->depth && !r->refused && !r->no_memory; }

static gd_status run(gd_device *device, const gd_call *call)
{
    gd_recording *r = (gd_recording *)device->ctx->recorder;
    if (!hears(r)) return run_real(r, device, call);
    return device == r->device ? run_noted(r, device, call, NULL) : run_on_host(r, device, call);
}

gd_status gd__record_scan(struct gd_scan_call *scan, gd_tensor *const *in, int nin, gd_tensor *const *out,
                          int nout)
{
    gd_recording *r = (gd_recording *)out[0]->head.ctx->recorder;
    if (!r || !hears(r)) return gd__scan_run(scan, in, out);
    return run_noted(r, NULL, &(gd_call){.nin = nin, .nout = nout, .in = in, .out = out}, scan);
}

/* ---- work of the host ---- */

static void host_reads(gd_recorder *hooks, const gd_tensor *t, const char *what)
{
    gd_recording *r = (gd_recording *)hooks;
    if (r->outer && !r->depth) host_reads(&r->outer->hooks, t, what);
    if (!hears(r) || !t->storage || !t->numel) return;
    gd_storage *storage = looked_at(r, t->storage);
    int buffer = storage->serial > r->serial ? find_buffer(r, storage) : buffer_of(r, storage);
    if (buffer < 0) return; /* made by the host, and no kernel has seen it */
    gd_buffer *b = &r->buffer[buffer];
    if (b->origin == GD_ORIGIN_INPUT)
        say_why_not(r, "it reads an input on the host (%s)", what);
    else if (b->origin == GD_ORIGIN_MADE && b->moving)
        say_why_not(r, "it reads on the host what it computed from an input or from random numbers (%s)",
                    what);
    else if (b->origin == GD_ORIGIN_CAPTURED && b->moving)
        say_why_not(r, "it reads memory of others on the host, which may change at any time (%s)", what);
    else if (b->origin == GD_ORIGIN_CAPTURED)
        b->guarded = true;
    else if (
        b->written) /* what only the host wrote does not follow from captured tensors but by reads of its own */
        r->guarded = true;
}

static void host_writes(gd_recorder *hooks, const gd_tensor *t, const char *what)
{
    gd_recording *r = (gd_recording *)hooks;
    if (r->outer && !r->depth) host_writes(&r->outer->hooks, t, what);
    if (!hears(r) || !t->storage) return;
    int buffer = buffer_of(r, t->storage);
    if (buffer < 0) return;
    gd_buffer *b = &r->buffer[buffer];
    if (b->origin == GD_ORIGIN_INPUT)
        say_why_not(r, "it changes an input in place (%s)", what);
    else if (b->origin == GD_ORIGIN_CAPTURED)
        say_why_not(r, "it changes a tensor in place that was made outside of it (%s)", what);
    else
        b->by_host = true;
}

static void note_traced_input(gd_recording *r, const gd_tensor *t, const void *data)
{
    int buffer = buffer_of(r, t->storage);
    gd_recorded *call = buffer < 0 ? NULL : add_call(r);
    gd_operand all = buffer < 0 ? (gd_operand){.buffer = 0} : whole(r, buffer);
    if (!call || !add_operand(r, &all)) {
        r->no_memory = true;
        return;
    }
    call->kind = GD_CALL_INPUT;
    call->nout = 1;
    call->source = data;
    call->bytes = r->buffer[buffer].bytes;
    gd_buffer *b = &r->buffer[buffer];
    b->moving = b->written = true;
    b->by_host = false;
}

static void host_input(gd_recorder *hooks, const gd_tensor *t, const void *data)
{
    gd_recording *r = (gd_recording *)hooks;
    if (r->outer && !r->depth) host_input(&r->outer->hooks, t, data);
    if (!r->depth && !r->refused && !r->no_memory && t->numel) note_traced_input(r, t, data);
}

/* Numbers of a gd_traced_input that go to the device do so in each run. */
static bool brings_input(gd_recording *r, const gd_tensor *from, const gd_tensor *to)
{
    int buffer = find_buffer(r, looked_at(r, from->storage));
    if (buffer < 0 || !r->buffer[buffer].moving || r->buffer[buffer].by_host) return false;
    for (int i = r->calls; i-- > 0;) {
        const gd_recorded *c = &r->call[i];
        if (c->kind != GD_CALL_INPUT || r->operand[c->first].buffer != buffer) continue;
        if (c->bytes != (size_t)to->numel * gd__item_size(to)) return false;
        note_traced_input(r, to, c->source);
        return true;
    }
    return false;
}

static void host_moves(gd_recorder *hooks, const gd_tensor *from, const gd_tensor *to)
{
    gd_recording *r = (gd_recording *)hooks;
    if (r->outer && !r->depth) host_moves(&r->outer->hooks, from, to);
    if (!hears(r) || !from->numel) return;
    const gd_device *cpu = r->ctx->cpu, *there = to->storage->device;
    char what[64];
    (void)snprintf(what, sizeof what, "from %s to %s", from->storage->device->name, there->name);
    if (r->device == cpu || (there != r->device && there != cpu))
        say_why_not(r, "it moves tensors between devices, %s", what);
    else if (there == cpu)
        host_reads(hooks, from, what);
    else if (!brings_input(r, from, to)) {
        host_reads(hooks, from, what);
        host_writes(hooks, to, what);
    }
}

static void host_refuses(gd_recorder *hooks, const char *why)
{
    gd_recording *r = (gd_recording *)hooks;
    if (r->outer && !r->depth) host_refuses(&r->outer->hooks, why);
    if (!r->depth) say_why_not(r, "%s", why);
}

/* ---- begin and end ---- */

static void add_inputs(gd_recording *r, gd_tensor *const *inputs, int count)
{
    for (int i = 0; i < count && !r->no_memory; i++) {
        gd_storage *storage = inputs[i]->storage;
        if (find_buffer(r, storage) >= 0) continue; /* two inputs in one memory: the first has its address */
        if (storage->device != r->device) {
            char names[64];
            (void)snprintf(names, sizeof names, "%s and %s", r->device->name, storage->device->name);
            say_why_not(r, "its inputs are on two devices, %s", names);
        }
        gd_buffer b = {.origin = GD_ORIGIN_INPUT,
                       .moving = true,
                       .input = i,
                       .storage = storage,
                       .serial = storage->serial,
                       .base = storage->data,
                       .bytes = storage->bytes,
                       .offset = inputs[i]->numel ? inputs[i]->data - storage->data : 0};
        if (add_buffer(r, &b) < 0) r->no_memory = true;
    }
}

gd_recording *gd__record_begin(gd_ctx *ctx, gd_tensor *const *inputs, int count)
{
    return ctx->recorder ? NULL : gd__record_inside(ctx, inputs, count);
}

/* Kernels of a device pass through the recording; operators that it does not have are seen before the host runs them. */
static void watch_device(gd_recorded_device *d, gd_device *device)
{
    *d = (gd_recorded_device){.device = device, .backend = *device->backend, .real = device->backend};
    d->backend.run = run;
    d->backend.has = NULL;
    device->backend = &d->backend;
}

gd_recording *gd__record_inside(gd_ctx *ctx, gd_tensor *const *inputs, int count)
{
    gd_device *cpu = gd__cpu(ctx);
    gd_recording *r = cpu ? gd__quiet_alloc(ctx, sizeof *r) : NULL;
    if (!r) return NULL;
    *r = (gd_recording){.hooks = {host_reads, host_writes, host_input, host_refuses, host_moves},
                        .ctx = ctx,
                        .device = count ? inputs[0]->storage->device : cpu,
                        .serial = ctx->storages,
                        .structure = ctx->structure,
                        .rng = ctx->rng,
                        .outer = (gd_recording *)ctx->recorder,
                        .active = true};
    add_inputs(r, inputs, count);
    watch_device(&r->through[0], r->device);
    if (r->device != cpu) watch_device(&r->through[1], cpu);
    ctx->recorder = &r->hooks;
    return r;
}

static void note_outputs(gd_recording *r, gd_tensor *const *outputs, int count)
{
    r->output = gd__quiet_alloc(r->ctx, (size_t)count * sizeof *r->output);
    r->axes = gd__quiet_alloc(r->ctx, (size_t)count * sizeof(gd_axes *));
    r->outputs = count;
    if (r->axes) memset(r->axes, 0, (size_t)count * sizeof(gd_axes *));
    r->no_memory = r->no_memory || !r->output || !r->axes;
    for (int i = 0; i < count && !r->no_memory && !r->refused; i++) {
        if (outputs[i]->storage->device != r->device) {
            char names[64];
            (void)snprintf(names, sizeof names, "%s, its inputs are on %s", outputs[i]->storage->device->name,
                           r->device->name);
            say_why_not(r, "its result is on %s", names);
            return;
        }
        int buffer = buffer_of(r, outputs[i]->storage);
        if (buffer < 0) return;
        note_use(r, buffer, true);
        r->output[i] = look_of(r, outputs[i], buffer);
        gd__axes_retain(r->axes[i] = outputs[i]->axes);
    }
}

void gd__record_end(gd_recording *r, gd_tensor *const *outputs, int count)
{
    gd_ctx *ctx = r->ctx;
    for (int k = 0; k < 2; k++)
        if (r->through[k].device) r->through[k].device->backend = r->through[k].real;
    ctx->recorder = r->outer ? &r->outer->hooks : NULL;
    r->outer = NULL;
    r->active = false;
    if (!count) return;
    if (ctx->rng.key != r->rng.key) say_why_not(r, "%s seeds the generator", "it");
    if (ctx->structure != r->structure)
        say_why_not(r, "%s changes an attribute of a module, or the memory of a tensor", "it");
    r->drawn = ctx->rng.counter - r->rng.counter;
    if (!r->refused && !r->no_memory) note_outputs(r, outputs, count);
}

bool gd__record_outdated(const gd_recording *r)
{
    for (int k = 0; k < r->buffers; k++) {
        const gd_buffer *b = &r->buffer[k];
        if (b->origin == GD_ORIGIN_CAPTURED && (b->guarded || r->guarded) &&
            b->version != b->storage->version)
            return true;
    }
    return false;
}

/* A dense view of the same shape on a different buffer. */
static gd_operand dense_like(const gd_operand *o, int buffer)
{
    gd_operand dense = *o;
    dense.buffer = buffer;
    dense.offset = 0;
    dense.rows = true;
    gd__row_major(o->ndim, o->size, dense.stride);
    return dense;
}

/* At the end of a run an output is copied into memory of its own, without gaps.  False: no memory. */
static bool copy_output(gd_recording *r, int output, bool moving)
{
    gd_operand from = r->output[output];
    gd_buffer b = {.origin = GD_ORIGIN_MADE,
                   .moving = moving,
                   .written = true,
                   .bytes = (size_t)from.numel * gd_dtype_size(from.dtype)};
    if (!gd__record_reserve(r, &r->buffer, r->buffers, &r->buffer_room, sizeof b)) return false;
    r->buffer[r->buffers] = b;
    gd_operand to = dense_like(&from, r->buffers++);
    gd_recorded *call = add_call(r);
    if (!call || !add_operand(r, &from) || !add_operand(r, &to)) return false;
    call->op = GD_OP_copy;
    call->nin = call->nout = 1;
    r->output[output] = to;
    return true;
}

bool gd__record_copies(gd_recording *r)
{
    for (int i = 0; i < r->outputs && !r->no_memory; i++) {
        const gd_buffer *b = &r->buffer[r->output[i].buffer];
        if (b->origin != GD_ORIGIN_MADE && !copy_output(r, i, b->moving)) break;
    }
    return !r->no_memory;
}

/* An output that fills its own buffer. */
static bool is_apart(const gd_recording *r, int output)
{
    const gd_operand *o = &r->output[output];
    const gd_buffer *b = &r->buffer[o->buffer];
    int64_t dense[GD_MAX_DIMS];
    gd__row_major(o->ndim, o->size, dense);
    bool whole = b->origin == GD_ORIGIN_MADE && b->written && b->moving && !o->offset &&
                 (size_t)o->numel * gd_dtype_size(o->dtype) == b->bytes;
    for (int d = 0; d < o->ndim && whole; d++) whole = o->size[d] == 1 || o->stride[d] == dense[d];
    for (int i = 0; i < r->outputs && whole; i++) whole = i == output || r->output[i].buffer != o->buffer;
    return whole;
}

bool gd__record_apart(gd_recording *r)
{
    for (int i = 0; i < r->outputs && !r->no_memory; i++)
        if (!is_apart(r, i) && !copy_output(r, i, true)) break;
    return !r->no_memory;
}

/* ---- going back ---- */

bool gd__record_mark(gd_recording *r, gd_record_mark *mark)
{
    *mark = (gd_record_mark){.buffers = 0};
    if (!r) return true;
    mark->buffer = gd__quiet_alloc(r->ctx, (size_t)r->buffers * sizeof *r->buffer + 1);
    if (!mark->buffer) return false;
    if (r->buffers) memcpy(mark->buffer, r->buffer, (size_t)r->buffers * sizeof *r->buffer);
    mark->buffers = r->buffers;
    mark->operands = r->operands;
    mark->calls = r->calls;
    mark->refused = r->refused;
    mark->no_memory = r->no_memory;
    mark->guarded = r->guarded;
    return true;
}

void gd__record_unmark(gd_recording *r, gd_record_mark *mark)
{
    if (r) gd__free(r->ctx, mark->buffer, (size_t)mark->buffers * sizeof *mark->buffer + 1);
    mark->buffer = NULL;
}

static void forget_call(gd_recording *r, gd_recorded *call)
{
    gd__free(r->ctx, call->data, call->bytes);
    if (call->scan) gd__scan_release(call->scan);
}

void gd__record_rewind(gd_recording *r, const gd_record_mark *mark)
{
    if (!r) return;
    for (int k = mark->buffers; k < r->buffers; k++)
        if (r->buffer[k].origin == GD_ORIGIN_CAPTURED) let_go(r->buffer[k].storage);
    for (int i = mark->calls; i < r->calls; i++) forget_call(r, &r->call[i]);
    if (mark->buffers) memcpy(r->buffer, mark->buffer, (size_t)mark->buffers * sizeof *r->buffer);
    r->buffers = mark->buffers;
    r->operands = mark->operands;
    r->calls = mark->calls;
    r->refused = mark->refused;
    r->no_memory = mark->no_memory;
    r->guarded = mark->guarded;
    fill_places(r);
}

void gd__recording_free(gd_recording *r)
{
    if (!r) return;
    gd_ctx *ctx = r->ctx;
    for (int k = 0; k < r->buffers; k++)
        if (r->buffer[k].origin == GD_ORIGIN_CAPTURED) let_go(r->buffer[k].storage);
    for (int i = 0; i < r->calls; i++) forget_call(r, &r->call[i]);
    for (int i = 0; i < r->outputs && r->axes; i++)
        if (r->axes[i]) gd__axes_release(r->axes[i]);
    gd__free(ctx, r->axes, (size_t)r->outputs * sizeof(gd_axes *));
    gd__free(ctx, r->output, (size_t)r->outputs * sizeof *r->output);
    gd__free(ctx, r->buffer, (size_t)r->buffer_room * sizeof *r->buffer);
    gd__free(ctx, r->operand, (size_t)r->operand_room * sizeof *r->operand);
    gd__free(ctx, r->call, (size_t)r->call_room * sizeof *r->call);
    gd__free(ctx, r->place, (size_t)r->place_room * sizeof *r->place);
    gd__free(ctx, r, sizeof *r);
}
