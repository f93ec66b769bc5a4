/* A device that is none, for tests of the boundary between library and plugins: memory that the host may not touch, plain
 * kernels, no compiler.
 *
 * Its memory lies in an arena whose pages are closed to the process but while the device itself works on them: whoever
 * reads or writes a tensor's data without asking the device dies with a signal, as on a GPU.  Operators run on the host's
 * plain kernels with their pages open; a few it does not have, so that the host runs them on copies; programs likewise.
 * A stream is a number (int64_t) of the caller's that the device raises with each piece of work. */
#define _GNU_SOURCE
#include "tensor/device.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE     ((uintptr_t)4096)
#define ARENA    ((size_t)1 << 34)
#define SMALLEST 8 /* blocks are powers of two from 2^8 bytes */
#define CLASSES  26

/* A block that is free: noted outside the arena, which is closed. */
typedef struct hole {
    struct hole *next;
    char *data;
} hole;

typedef struct plain_state {
    char *arena;
    size_t used; /* of the arena; blocks behind that were never given out */
    hole *free[CLASSES];
    int64_t own, *stream; /* pieces of work queued on its own stream; the one in use */
} plain_state;

static plain_state *state_of(gd_device *device) { return device->state; }

/* Opens or closes the pages of some bytes. */
static void guard(const void *data, size_t bytes, int protection)
{
    uintptr_t first = (uintptr_t)data / PAGE * PAGE, end = ((uintptr_t)data + bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes) (void)mprotect((char *)(uintptr_t)data - ((uintptr_t)data - first), end - first, protection);
}

static int class_of(size_t bytes)
{
    int class = 0;
    while (class < CLASSES && ((size_t)1 << (class + SMALLEST)) < bytes) class ++;
    return class;
}

static void *plain_alloc(gd_device *device, size_t bytes)
{
    plain_state *s = state_of(device);
    int class = class_of(bytes);
    hole *reused = class < CLASSES ? s->free[class] : NULL;
    if (reused) {
        char *data = reused->data;
        s->free[class] = reused->next;
        device->host->free(device->ctx, reused, sizeof *reused);
        return data;
    }
    size_t size = (size_t)1 << (class + SMALLEST);
    if (class == CLASSES || size > ARENA - s->used) {
        (void)device->host->fail(device->ctx, GD_NOMEM, "%s: no memory for %zu bytes", device->name, bytes);
        return NULL;
    }
    s->used += size;
    return s->arena + s->used - size;
}

/* Where there is no memory to note it the block is lost until the device is closed. */
static void plain_free(gd_device *device, void *data, size_t bytes)
{
    plain_state *s = state_of(device);
    int class = class_of(bytes);
    hole *h = device->host->alloc(device->ctx, sizeof *h);
    if (!h) return;
    *h = (hole){.next = s->free[class], .data = data};
    s->free[class] = h;
}

static void queue(gd_device *device) { ++*state_of(device)->stream; }

static gd_status upload(gd_device *device, void *to, const void *host, size_t bytes)
{
    queue(device);
    guard(to, bytes, PROT_READ | PROT_WRITE);
    memcpy(to, host, bytes);
    guard(to, bytes, PROT_NONE);
    return GD_OK;
}

static gd_status download(gd_device *device, void *host, const void *from, size_t bytes)
{
    queue(device);
    guard(from, bytes, PROT_READ);
    memcpy(host, from, bytes);
    guard(from, bytes, PROT_NONE);
    return GD_OK;
}

static gd_status plain_sync(gd_device *device)
{
    (void)device;
    return GD_OK;
}

static gd_status use_stream(gd_device *device, void *stream)
{
    if (!stream) return device->host->fail(device->ctx, GD_ARGUMENT, "%s: the stream is NULL", device->name);
    state_of(device)->stream = stream;
    return GD_OK;
}

static void *stream_of(const gd_device *device) { return ((const plain_state *)device->state)->stream; }

static void guard_operands(const gd_call *call, int protection)
{
    for (int i = 0; i < call->nin + call->nout; i++) {
        const gd_tensor *t = i < call->nin ? call->in[i] : call->out[i - call->nin];
        guard(t->storage->data, t->storage->bytes, protection);
    }
}

static gd_status plain_run(gd_device *device, const gd_call *call)
{
    queue(device);
    guard_operands(call, PROT_READ | PROT_WRITE);
    gd_status status = device->host->plain(device->ctx, call);
    guard_operands(call, PROT_NONE);
    return status;
}

/* One of each kind of work. */
static bool plain_has(gd_op_id op)
{
    switch (op) {
    case GD_OP_exp:
    case GD_OP_mul:
    case GD_OP_where:
    case GD_OP_sum:
    case GD_OP_softmax:
    case GD_OP_layer_norm:
    case GD_OP_cat:
    case GD_OP_index_add:
    case GD_OP_matmul:
    case GD_OP_svd:
    case GD_OP_solve: return false;
    default: return true;
    }
}

static void plain_close(gd_device *device)
{
    plain_state *s = state_of(device);
    if (!s) return;
    for (int class = 0; class < CLASSES; class ++)
        for (hole *h; (h = s->free[class]);) {
            s->free[class] = h->next;
            device->host->free(device->ctx, h, sizeof *h);
        }
    (void)munmap(s->arena, ARENA);
    device->host->free(device->ctx, s, sizeof *s);
    device->state = NULL;
}

static const gd_backend backend = {
    .name = "gpu",
    .alloc = plain_alloc,
    .free = plain_free,
    .upload = upload,
    .download = download,
    .sync = plain_sync,
    .use_stream = use_stream,
    .stream = stream_of,
    .run = plain_run,
    .has = plain_has,
    .close = plain_close,
};

/* ---- what the library looks for ---- */

__attribute__((visibility("default"))) int gd_plugin_count(gd_ctx *ctx);
__attribute__((visibility("default"))) bool gd_plugin_describe(int index, char *text, size_t size);
__attribute__((visibility("default"))) gd_status gd_plugin_open(gd_device *device);

int gd_plugin_count(gd_ctx *ctx)
{
    (void)ctx;
    return 1;
}

bool gd_plugin_describe(int index, char *text, size_t size)
{
    (void)snprintf(text, size, "plain kernels on guarded memory, for tests");
    return index == 0;
}

gd_status gd_plugin_open(gd_device *device)
{
    if (device->host->layout != GD_PLUGIN_LAYOUT)
        return device->host->fail(device->ctx, GD_DEVICE, "%s: the plugin is of another version than gradus",
                                  device->name);
    if (device->index > 0)
        return device->host->fail(device->ctx, GD_DEVICE, "device '%s': there is 1", device->name);
    plain_state *s = device->host->alloc(device->ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    *s = (plain_state){.used = 0};
    s->stream = &s->own;
    s->arena = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->arena == MAP_FAILED) {
        device->host->free(device->ctx, s, sizeof *s);
        return device->host->fail(device->ctx, GD_NOMEM, "%s: no room for its memory", device->name);
    }
    device->state = s;
    device->backend = &backend;
    return GD_OK;
}
