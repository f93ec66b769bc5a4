/* Running operators and recording the graph. */
#include "tensor/device.h"
#include "tensor/tensor_internal.h"

#include <string.h>

const gd_op gd__ops[GD_OP_COUNT] = {
#define ROW(name, nin, nout, kind, needs, takes, differentiable) \
    {#name, nin, nout, GD_KIND_##kind, GD_NEEDS_##needs, GD_TAKES_##takes, differentiable},
#define OP(name, nin, nout, kind, needs, takes, batch, reads) ROW(name, nin, nout, kind, needs, takes, true)
#define OP0(name, nin, nout, kind, needs, takes)              ROW(name, nin, nout, kind, needs, takes, false)
#include "tensor/ops.def"
};

#define GHOST_BYTES 4096 /* inputs larger than this are not kept alive only for their shape */

/* ---- nodes ---- */

void gd__node_retain(gd_node *node)
{
    if (node) node->refs++;
}

void gd__node_spend(gd_node *node)
{
    for (int i = 0; i < node->nin; i++) {
        if (node->in[i]) gd__release(node->in[i]);
        node->in[i] = NULL;
    }
    for (int i = 0; i < node->nout; i++) {
        if (node->out[i]) gd__release(node->out[i]);
        node->out[i] = NULL;
    }
    node->spent = true;
}

/* A long chain of nodes is freed in a loop: `sequence` of a dead node links it to the next one to free, so that a deep
 * graph needs no deep recursion. */
void gd__node_release(gd_node *node)
{
    if (!node || --node->refs) return;
    gd_node *dead = node;
    node->slot = 0;
    while (dead) {
        gd_node *n = dead;
        dead = (gd_node *)(uintptr_t)n->slot;
        for (int i = 0; i < n->nin; i++) {
            gd_tensor *t = n->in[i];
            if (!t) continue;
            /* the last holder of an inner tensor: take over its node before the tensor dies */
            gd_node *inner = t->head.refs == 1 ? t->node : NULL;
            if (inner) t->node = NULL;
            gd__release(t);
            n->in[i] = NULL;
            if (inner && --inner->refs == 0) {
                inner->slot = (size_t)(uintptr_t)dead;
                dead = inner;
            }
        }
        gd__node_spend(n);
        gd_node_user *user = n->op == GD_OP_custom ? (gd_node_user *)(intptr_t)n->i[0] : NULL;
        if (user) user->end(user);
        n->ctx->live--;
        gd__free(n->ctx, n, n->bytes);
    }
}

/* A tensor of the same shape and history whose values are gone. */
static gd_tensor *ghost_of(gd_tensor *t)
{
    gd_tensor *ghost = gd__alias(t);
    if (!ghost) return NULL;
    gd__own_made(ghost);
    gd__storage_release(ghost->storage);
    ghost->storage = NULL;
    ghost->data = NULL;
    gd__node_retain(ghost->node = t->node);
    ghost->output = t->output;
    return ghost;
}

static gd_node *node_new(gd_ctx *ctx, gd_op_id op, int nin, const gd_attrs *attrs, int nout)
{
    size_t held = (size_t)(nin + nout);
    size_t bytes = sizeof(gd_node) + held * (sizeof(gd_tensor *) + sizeof(uint32_t)) +
                   (size_t)attrs->ni * sizeof(int64_t);
    gd_node *node = gd__alloc(ctx, bytes);
    if (!node) return NULL;
    *node = (gd_node){.ctx = ctx,
                      .refs = 1,
                      .op = (uint8_t)op,
                      .nout = (uint8_t)nout,
                      .ni = (uint8_t)attrs->ni,
                      .nf = (uint8_t)attrs->nf,
                      .nin = nin,
                      .sequence = ++ctx->sequence,
                      .f = {attrs->f[0], attrs->f[1]},
                      .bytes = bytes};
    node->in = (gd_tensor **)(node + 1);
    node->out = node->in + nin;
    node->i = (int64_t *)(node->in + held);
    node->version = (uint32_t *)(node->i + attrs->ni);
    node->out_version = node->version + nin;
    memset(node->in, 0, held * sizeof *node->in);
    memcpy(node->i, attrs->i, (size_t)attrs->ni * sizeof *node->i);
    ctx->live++;
    return node;
}

bool gd__wants_grad(const gd_tensor *t) { return t->leaf_grad || t->node; }

bool gd_is_shared(const gd_tensor *t)
{
    if (!t || !t->storage) return false;
    const gd_tensor *at = t;
    while (at->node && gd__ops[at->node->op].kind == GD_KIND_VIEW) {
        const gd_tensor *base = at->node->in[0];
        if (!base || !base->storage)
            return t->storage->refs > 1; /* the references of a ghost's original are unknown */
        if (base->head.refs > 1) return true;
        at = base;
    }
    return !at->node && (at->head.refs > 1 || (at == t && t->storage->refs > 1));
}

static gd_status save_input(gd_node *node, int k, gd_tensor *t, uint8_t needs)
{
    node->version[k] = gd__version(t);
    bool needed = k < 3 && (needs >> k & 1);
    bool large = (size_t)t->numel * gd__item_size(t) > GHOST_BYTES;
    if (!needed && large && !t->leaf_grad && t->storage) {
        node->in[k] = ghost_of(t);
        return node->in[k] ? GD_OK : GD_NOMEM;
    }
    gd__retain(t);
    node->in[k] = t;
    return GD_OK;
}

gd_status gd__record(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs, gd_tensor *const *out,
                     int nout)
{
    gd_ctx *ctx = out[0]->head.ctx;
    if (ctx->grad_off || !gd__ops[op].differentiable) return GD_OK;
    bool wanted = false;
    for (int i = 0; i < nin && !wanted; i++) wanted = gd__wants_grad(in[i]);
    if (!wanted) return GD_OK;
    gd_node *node = node_new(ctx, op, nin, attrs, nout);
    if (!node) return GD_NOMEM;
    uint8_t needs = gd__ops[op].needs;
    gd_status status = GD_OK;
    for (int i = 0; i < nin && !status; i++) status = save_input(node, i, in[i], needs);
    bool saved = needs & GD_NEEDS_OUT || gd__ops[op].outputs != 1;
    for (int i = 0; i < nout && !status && saved; i++) {
        node->out_version[i] = gd__version(out[i]);
        if ((node->out[i] = gd__alias(out[i])))
            gd__own_made(node->out[i]);
        else
            status = GD_NOMEM;
    }
    for (int i = 0; i < nout && !status; i++) {
        out[i]->node = node;
        out[i]->output = (uint16_t)i;
        node->refs++;
    }
    gd__node_release(node);
    return status;
}

/* ---- running ---- */

/* The dtype a FULL kernel computes in. */
static gd_dtype compute_dtype(gd_dtype dtype)
{
    switch (dtype) {
    case GD_F16:
    case GD_BF16: return GD_F32;
    case GD_I32:
    case GD_U8:
    case GD_BOOL: return GD_I64;
    default: return dtype;
    }
}

/* t with the dtype and layout a FULL kernel takes; t itself if it fits. */
static gd_tensor *prepared(gd_tensor *t, gd_dtype dtype, bool any_layout)
{
    if (t->dtype == dtype && (any_layout || gd__contiguous(t))) return t;
    gd_tensor *copy = gd__new(t->storage->device, dtype, t->ndim, t->size);
    return copy && gd__copy_into(copy, t) == GD_OK ? copy : NULL;
}

static gd_status same_device(gd_op_id op, gd_tensor *const *in, int nin, gd_device *device)
{
    if (op == GD_OP_to_device) return GD_OK;
    for (int i = 0; i < nin; i++)
        if (in[i]->storage->device != device)
            return gd_fail(device->ctx, GD_DEVICE, "%s: one operand is on %s, a second on %s",
                           gd__ops[op].name, in[i]->storage->device->name, device->name);
    return GD_OK;
}

/* The dtype of a FULL kernel's operand or result. */
static gd_dtype kernel_dtype(const gd_device *device, gd_op_id op, gd_dtype dtype)
{
    uint8_t takes = gd__ops[op].takes,
            narrow = gd_dtype_is_float(dtype) ? GD_TAKES_HALVES | GD_TAKES_SUMMED : GD_TAKES_SMALL;
    bool as_it_is = takes == GD_TAKES_ANY || (takes & device->backend->narrow & narrow) > GD_TAKES_INTS;
    return as_it_is ? dtype : compute_dtype(dtype);
}

/* Products write strided rows, all other kernels write everything in order. */
static bool placed(const gd_call *call, const gd_tensor *out)
{
    return gd__contiguous(out) || (call->op == GD_OP_matmul && gd__matrix_in_place(out, true));
}

/* Nothing to convert or to copy: most calls. */
static bool ready(const gd_device *device, const gd_call *call, bool any_layout)
{
    for (int i = 0; i < call->nin; i++) {
        const gd_tensor *t = call->in[i];
        if (kernel_dtype(device, call->op, t->dtype) != t->dtype || !(any_layout || gd__contiguous(t)))
            return false;
    }
    for (int i = 0; i < call->nout; i++)
        if (kernel_dtype(device, call->op, call->out[i]->dtype) != call->out[i]->dtype ||
            !placed(call, call->out[i]))
            return false;
    return true;
}

#define MAX_DIRECT 64

/* FULL kernels get contiguous operands of a compute dtype; results are cast back. */
static gd_status execute_full(gd_device *device, gd_call call)
{
    gd_ctx *ctx = device->ctx;
    bool any_layout = gd__ops[call.op].kind == GD_KIND_LAID;
    if (ready(device, &call, any_layout)) return gd__device_run(device, &call);
    gd_tensor *direct[MAX_DIRECT], **in = direct, *out[GD_MAX_OUTPUTS];
    size_t bytes = (size_t)call.nin * sizeof *in;
    if (call.nin > MAX_DIRECT && !(in = gd__alloc(ctx, bytes))) return GD_NOMEM;
    gd_status status = GD_OK;
    gd_scope_begin(ctx);
    for (int i = 0; i < call.nin && !status; i++) {
        in[i] = prepared(call.in[i], kernel_dtype(device, call.op, call.in[i]->dtype), any_layout);
        if (!in[i]) status = GD_NOMEM;
    }
    for (int i = 0; i < call.nout && !status; i++) {
        gd_dtype dtype = kernel_dtype(device, call.op, call.out[i]->dtype);
        out[i] = call.out[i];
        if (dtype != out[i]->dtype || !placed(&call, out[i]))
            out[i] = gd__new(device, dtype, out[i]->ndim, out[i]->size);
        if (!out[i]) status = GD_NOMEM;
    }
    gd_tensor *const *wanted = call.out;
    call.in = in;
    call.out = out;
    if (!status) status = gd__device_run(device, &call);
    for (int i = 0; i < call.nout && !status; i++)
        if (out[i] != wanted[i]) status = gd__copy_into(wanted[i], out[i]);
    gd_scope_end(ctx);
    if (in != direct) gd__free(ctx, in, bytes);
    return status;
}

gd_status gd__execute(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs,
                      gd_tensor *const *out, int nout)
{
    gd_device *device = out[0]->storage->device;
    gd_status status = same_device(op, in, nin, device);
    if (status) return status;
    gd_call call = {.op = op, .nin = nin, .nout = nout, .in = in, .out = out, .attrs = attrs};
    return gd__ops[op].kind >= GD_KIND_FULL ? execute_full(device, call) : gd__device_run(device, &call);
}

gd_status gd__run(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs, gd_tensor *const *out,
                  int nout)
{
    gd_status status = gd__execute(op, in, nin, attrs, out, nout);
    return status ? status : gd__record(op, in, nin, attrs, out, nout);
}

gd_tensor *gd__run1(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs, gd_tensor *out)
{
    if (out && gd__run(op, in, nin, attrs, &out, 1) == GD_OK) return out;
    /* a result of an impossible size: gd__new does not know the operator */
    gd_ctx *ctx = nin ? in[0]->head.ctx : NULL;
    if (!out && ctx && !strncmp(ctx->error, "new: ", 5)) gd__blame(ctx, GD_OK, gd__ops[op].name);
    gd_release(out);
    return NULL;
}
