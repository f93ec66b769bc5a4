/* Operators that a backend lacks: their operands are copied to the host, the plain kernels run, and the results are
 * copied back.  Slow but correct; gd_device_host_calls counts them. */
#include "tensor/device.h"

#define MOST_DIRECT 16

/* A host view of a tensor: the same shape and strides over a copy of the memory it spans. */
typedef struct staging {
    gd_tensor t;
    gd_storage storage;
    char *block;
    const char *first; /* of the memory it spans, on the device */
    size_t bytes;
} staging;

/* From the lowest to the highest element. */
static void span_of(const gd_tensor *t, staging *w)
{
    int64_t low = 0, high = t->numel ? 1 : 0, item = (int64_t)gd_dtype_size(t->dtype);
    for (int i = 0; i < t->ndim && t->numel; i++) {
        int64_t reach = (t->size[i] - 1) * t->stride[i];
        if (reach < 0) low += reach;
        if (reach > 0) high += reach;
    }
    w->first = t->data ? t->data + low * item : NULL;
    w->bytes = (size_t)((high - low) * item);
}

/* A CPU tensor for kernels, over the same memory. */
static void staging_begin(gd_ctx *ctx, const gd_tensor *t, staging *w)
{
    w->t = *t;
    w->storage = *t->storage;
    w->storage.device = gd__cpu(ctx);
    w->t.storage = &w->storage;
    /* kernels expect an address, even without elements */
    if (!w->t.data) w->t.data = (char *)&w->storage;
}

static gd_status staging_make(gd_device *device, gd_tensor *t, staging *w, bool fetch)
{
    gd_ctx *ctx = device->ctx;
    staging_begin(ctx, t, w);
    span_of(t, w);
    if (!w->bytes) return GD_OK;
    if (!(w->block = gd__alloc(ctx, w->bytes))) return GD_NOMEM;
    w->t.data = w->block + (t->data - w->first);
    return fetch ? device->backend->download(device, w->block, w->first, w->bytes) : GD_OK;
}

/* device NULL: the host can access the memory directly. */
static gd_status run_on_copies(gd_ctx *ctx, gd_device *device, const gd_call *call, staging *copies,
                               gd_tensor **list)
{
    gd_status status = GD_OK;
    gd_device *cpu = gd__cpu(ctx);
    int all = call->nin + call->nout;
    for (int i = 0; i < all && !status; i++) {
        bool result = i >= call->nin;
        gd_tensor *t = result ? call->out[i - call->nin] : call->in[i];
        /* a result with gaps keeps the contents of the gaps */
        if (device)
            status = staging_make(device, t, &copies[i], !result || !gd__contiguous(t));
        else
            staging_begin(ctx, t, &copies[i]);
        list[i] = &copies[i].t;
    }
    gd_call here = *call;
    here.in = list;
    here.out = list + call->nin;
    if (!status) status = cpu->backend->run(cpu, &here);
    for (int i = call->nin; i < all && !status; i++)
        if (copies[i].bytes)
            status = device->backend->upload(device, (char *)(uintptr_t)copies[i].first, copies[i].block,
                                             copies[i].bytes);
    return status;
}

static gd_status run_here(gd_ctx *ctx, gd_device *device, const gd_call *call)
{
    int all = call->nin + call->nout;
    staging few[MOST_DIRECT] = {{.bytes = 0}}, *copies = few;
    gd_tensor *list_of_few[MOST_DIRECT], **list = list_of_few;
    size_t bytes = (size_t)all * (sizeof *copies + sizeof *list);
    if (all > MOST_DIRECT) {
        if (!(copies = gd__calloc(ctx, bytes))) return GD_NOMEM;
        list = (gd_tensor **)(copies + all);
    }
    gd_status status = gd__cpu(ctx) ? run_on_copies(ctx, device, call, copies, list) : GD_NOMEM;
    for (int i = 0; i < all; i++) gd__free(ctx, copies[i].block, copies[i].bytes);
    if (copies != few) gd__free(ctx, copies, bytes);
    return status;
}

static gd_status run_on_host(gd_device *device, const gd_call *call)
{
    device->host_calls++;
    return run_here(device->ctx, device, call);
}

gd_status gd__device_run_by(const gd_backend *b, gd_device *device, const gd_call *call)
{
    return b->has && !b->has(call->op) ? run_on_host(device, call) : b->run(device, call);
}

gd_status gd__device_run(gd_device *device, const gd_call *call)
{
    return gd__device_run_by(device->backend, device, call);
}

gd_status gd__plain_run(gd_ctx *ctx, const gd_call *call) { return run_here(ctx, NULL, call); }
