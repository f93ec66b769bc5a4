/* The collectives: checks, messages of each stage, and their processing. */
#include "world/world_internal.h"

#include <string.h>

/* Elements [*from, *from + *count) of `total` are slice s; cut at multiples of 16, so that vectors stay whole. */
static void slice_of(const gd_exchange *k, int s, int64_t *from, int64_t *count)
{
    int size = k->world->end.size;
    if (k->small) { /* every rank computes all of it */
        *from = 0;
        *count = k->host->numel;
        return;
    }
    if (k->what.cuts) {
        *from = k->what.cuts[s];
        *count = k->what.cuts[s + 1] - *from;
        return;
    }
    int64_t total = k->host->numel, blocks = (total + 15) / 16;
    if (k->what.kind == GD_REDUCE_SCATTER) { /* a shard each, of equal length */
        *count = total / size;
        *from = *count * s;
        return;
    }
    gd__share(s, size, blocks, from, count);
    int64_t end = (*from + *count) * 16;
    *from *= 16;
    *count = (end < total ? end : total) - (*from < total ? *from : total);
}

static bool has_out(const gd_exchange *k)
{
    return k->what.kind == GD_ALL_GATHER || k->what.kind == GD_REDUCE_SCATTER ||
           k->what.kind == GD_ALL_TO_ALL;
}

static bool sums_up(const gd_exchange *k)
{
    return k->what.kind == GD_ALL_REDUCE || k->what.kind == GD_REDUCE_SCATTER;
}

/* Does the transport implement it? */
static bool by_transport(const gd_exchange *k)
{
    const gd_transport *t = k->world->end.transport;
    bool on_device = k->at != gd__cpu(k->world->ctx);
    switch (k->what.kind) {
    case GD_ALL_REDUCE:
        return t->sum && k->what.how == GD_REDUCE_FAST && !k->what.microbatches &&
               k->partial == k->what.tensor->dtype;
    case GD_ALL_GATHER: return t->gather && on_device && k->host && !k->what.cuts;
    case GD_BROADCAST: return t->spread && on_device;
    default: return false;
    }
}

static int64_t microbatches_of(const gd_exchange *k)
{
    return k->what.microbatches ? k->what.microbatches->total : k->world->end.size;
}

static void subtrees_of(const gd_exchange *k, int rank, gd_tree *tree)
{
    int64_t first, count;
    gd__share(rank, k->world->end.size, microbatches_of(k), &first, &count);
    gd__tree_of(tree, microbatches_of(k), first, count);
}

/* ---- before ---- */

static gd_status check_tensor(gd_ctx *ctx, const char *what, gd_tensor *t, bool written)
{
    if (!t) return gd__null(ctx, "world: the tensor is NULL");
    if (t->head.ctx != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "%s: the tensor is of a different context than the world", what);
    if (!t->storage) return gd_fail(ctx, GD_ARGUMENT, "%s: the tensor has no elements of its own", what);
    return written ? gd__writable(what, t) : GD_OK;
}

/* Do they cover all elements? */
static gd_status check_ends(const gd_exchange *k, const char *what, const int64_t *cuts, int64_t whole)
{
    int size = k->world->end.size;
    bool fits = !cuts[0] && cuts[size] == whole;
    for (int r = 0; r < size; r++) fits = fits && cuts[r] <= cuts[r + 1];
    if (fits) return GD_OK;
    return gd_fail(k->world->ctx, GD_VALUE, "%s: the cuts do not go from 0 to %lld", what, (long long)whole);
}

/* Is the tensor as long as this rank's shard? */
static gd_status check_cuts(gd_exchange *k, const char *what, int64_t whole, int64_t part)
{
    const int64_t *cuts = k->what.cuts;
    int rank = k->world->end.rank;
    gd_status status = check_ends(k, what, cuts, whole);
    if (status) return status;
    if (part == cuts[rank + 1] - cuts[rank]) return GD_OK;
    return gd_fail(k->world->ctx, GD_SHAPE, "%s: rank %d has %lld elements, the cuts give it %lld", what,
                   rank, (long long)part, (long long)(cuts[rank + 1] - cuts[rank]));
}

static gd_status check_out(gd_exchange *k, const char *what)
{
    const gd_tensor *t = k->what.tensor, *out = k->what.out;
    int64_t size = k->world->end.size;
    bool gather = k->what.kind == GD_ALL_GATHER;
    if (!t) {
        int rank = k->world->end.rank;
        const gd_microbatches *g = k->what.microbatches;
        int64_t numel = 1;
        for (int i = 0; g && i < g->ndim; i++) numel *= g->size[i];
        if (g) return check_cuts(k, what, numel, out->numel);
        return check_cuts(k, what, out->numel, k->what.cuts[rank + 1] - k->what.cuts[rank]);
    }
    int64_t whole = gather ? out->numel : t->numel, part = gather ? t->numel : out->numel;
    if (out->dtype != t->dtype)
        return gd_fail(k->world->ctx, GD_DTYPE, "%s: the result is %s and the tensor %s", what,
                       gd_dtype_name(out->dtype), gd_dtype_name(t->dtype));
    if (k->what.kind == GD_ALL_TO_ALL) {
        const int64_t *own = k->what.cuts + k->world->end.rank, *back = k->what.out_cuts + k->world->end.rank;
        gd_status status = check_ends(k, what, k->what.cuts, t->numel);
        if (!status) status = check_ends(k, what, k->what.out_cuts, out->numel);
        if (status || own[1] - own[0] == back[1] - back[0]) return status;
        return gd_fail(k->world->ctx, GD_MISMATCH, "%s: what rank %d keeps has %lld elements and %lld", what,
                       k->world->end.rank, (long long)(own[1] - own[0]), (long long)(back[1] - back[0]));
    }
    if (k->what.cuts) return check_cuts(k, what, whole, part);
    if (whole == part * size) return GD_OK;
    return gd_fail(k->world->ctx, GD_SHAPE,
                   "%s: the tensor has %lld elements, the result %lld, with %lld ranks", what,
                   (long long)t->numel, (long long)out->numel, (long long)size);
}

static gd_status check_microbatches(const gd_exchange *k)
{
    gd_microbatches *g = k->what.microbatches;
    bool scatter = k->what.kind == GD_REDUCE_SCATTER;
    const gd_tensor *t = scatter ? k->what.out : k->what.tensor;
    bool fits = g->world == k->world && t->dtype == g->dtype && (scatter || t->ndim == g->ndim);
    const gd_device *cpu = gd__cpu(k->world->ctx), *device = t->storage->device;
    if (device != g->at && device != cpu && g->at != cpu)
        return gd_fail(k->world->ctx, GD_DEVICE, "microbatches: the result is on %s and the sum on %s",
                       device->name, g->at->name);
    for (int i = 0; fits && !scatter && i < t->ndim; i++) fits = t->size[i] == g->size[i];
    if (!fits)
        return gd_fail(k->world->ctx, GD_SHAPE,
                       "microbatches: the result has a different shape, dtype or world than the sum");
    if (g->failed) return g->failed;
    if (g->added == g->count) return gd__microbatches_settle(g);
    return gd_fail(k->world->ctx, GD_STATE,
                   "microbatches: %lld of the %lld microbatches of rank %d are there", (long long)g->added,
                   (long long)g->count, k->world->end.rank);
}

static gd_status check(gd_exchange *k)
{
    gd_ctx *ctx = k->world->ctx;
    const gd_collective *c = &k->what;
    const char *what = gd__collective_name((int)c->kind);
    bool out = has_out(k), each = c->kind == GD_ALL_TO_ALL;
    if ((unsigned)c->kind > GD_ALL_TO_ALL)
        return gd_fail(ctx, GD_VALUE, "world: there is no collective %d", (int)c->kind);
    if (c->kind == GD_BARRIER) return GD_OK;
    bool scattered = c->kind == GD_REDUCE_SCATTER && c->cuts && c->microbatches && !c->tensor;
    bool placed = c->kind == GD_ALL_GATHER && c->cuts && !c->tensor;
    gd_status status = placed || scattered ? GD_OK : check_tensor(ctx, what, c->tensor, !out);
    if (!status && each && (!c->cuts || !c->out_cuts))
        status = gd__null(ctx, "all_to_all: the cuts are NULL");
    if (!status && c->cuts && !out) status = gd_fail(ctx, GD_ARGUMENT, "%s: it takes no cuts", what);
    if (!status && out) status = check_tensor(ctx, what, c->out, true);
    if (!status && out) status = check_out(k, what);
    if (!status && c->microbatches)
        status = c->kind == GD_ALL_REDUCE || scattered
                     ? check_microbatches(k)
                     : gd_fail(ctx, GD_ARGUMENT, "%s: it takes no microbatches%s", what,
                               c->kind == GD_REDUCE_SCATTER ? " beside a tensor, or without cuts" : "");
    if (status || placed) return status;
    if (c->kind == GD_BROADCAST && (c->root < 0 || c->root >= k->world->end.size))
        return gd_fail(ctx, GD_VALUE, "broadcast: there is no rank %d among %d", c->root, k->world->end.size);
    if (sums_up(k) && (unsigned)c->how > GD_REDUCE_FAST)
        return gd_fail(ctx, GD_VALUE, "%s: there is no sum of kind %d", what, (int)c->how);
    k->partial = gd__partial_dtype(scattered ? c->out->dtype : c->tensor->dtype);
    if (sums_up(k) && k->partial == GD_DTYPE_COUNT)
        return gd_fail(ctx, GD_DTYPE, "%s: there are no sums of %s", what, gd_dtype_name(c->tensor->dtype));
    return GD_OK;
}

/* ---- memory ---- */

/* The device of messages: all tensors are there, or copies of them. */
static gd_device *place_of(const gd_exchange *k)
{
    const gd_tensor *t = k->what.tensor ? k->what.tensor : k->what.out, *out = k->what.out;
    gd_device *device = t->storage->device;
    if (k->what.microbatches) return k->what.microbatches->at;
    if (out && out->storage->device != device) return gd__cpu(k->world->ctx);
    return gd__world_place(k->world, device);
}

static bool in_place(const gd_exchange *k, const gd_tensor *t)
{
    return t->storage->device == k->at && gd__contiguous(t);
}

/* The tensor itself if its memory can be used, else a copy in row-major order. */
static gd_tensor *reachable(const gd_exchange *k, gd_tensor *t)
{
    if (!in_place(k, t)) return gd__copy_at(k->at, t, t->dtype);
    gd__retain(t);
    return t;
}

static gd_tensor *new_owned(gd_device *device, gd_dtype dtype, int ndim, const int64_t *size)
{
    gd_ctx *ctx = device->ctx;
    gd__aside_begin(ctx);
    gd_tensor *t = gd__new(device, dtype, ndim, size);
    gd__own(t);
    gd__aside_end(ctx);
    return t;
}

/* This rank's tensor as its only microbatch. */
static bool take_tensor(gd_exchange *k)
{
    gd_tensor *sum = k->host;
    if (k->partial != k->what.tensor->dtype || k->what.kind == GD_REDUCE_SCATTER)
        sum = gd__copy_at(k->at, k->what.tensor, k->partial); /* sums are made in it */
    else
        gd__retain(sum);
    subtrees_of(k, k->world->end.rank, &k->own);
    k->own.node[0].sum = sum;
    return sum != NULL;
}

/* Only once all ranks agree: the microbatches are empty then. */
static void take_microbatches(gd_exchange *k)
{
    gd_microbatches *g = k->what.microbatches;
    if (!g) return;
    k->own = g->tree;
    g->tree.count = 0;
    g->added = 0;
}

/* Room for the messages of a stage and for the slices of other ranks. */
static bool make_inbox(gd_exchange *k)
{
    const gd_endpoint *e = &k->world->end;
    int64_t from, count, subtrees = 0;
    gd_tree tree;
    slice_of(k, e->rank, &from, &count);
    for (int r = 0; r < e->size; r++) {
        if (r == e->rank) continue;
        subtrees_of(k, r, &tree);
        subtrees += tree.count;
    }
    if (subtrees > 0 && count > 0 &&
        !(k->inbox = new_owned(k->at, k->partial, 1, (int64_t[]){subtrees * count})))
        return false;
    subtrees_of(k, e->rank, &tree);
    size_t need = (size_t)(subtrees + (int64_t)tree.count * (e->size - 1)), room = (size_t)k->room;
    if (need <= room) return true;
    gd_message *more = gd__realloc(e->ctx, k->message, room * sizeof *more, need * sizeof *more);
    if (!more) return false;
    k->message = more;
    k->room = (int)need;
    return true;
}

/* ---- a few numbers, on the sheets ---- */

/* The position of a rank's shard in the gathered tensor. */
static char *shard_of(const gd_exchange *k, int r, size_t *bytes)
{
    size_t item = gd__item_size(k->host_out);
    int64_t each = k->host_out->numel / k->world->end.size;
    int64_t from = k->what.cuts ? k->what.cuts[r] : each * r;
    *bytes = (size_t)(k->what.cuts ? k->what.cuts[r + 1] - from : each) * item;
    return k->host_out->data + (size_t)from * item;
}

/* Bytes contributed by a rank, from the agreed description. */
static size_t payload_of(const gd_exchange *k, int rank)
{
    size_t bytes = k->host ? (size_t)k->host->numel * gd__item_size(k->host) : 0;
    if (k->what.kind == GD_BROADCAST) return rank == k->what.root ? bytes : 0;
    if (k->what.kind == GD_ALL_GATHER) return (void)shard_of(k, rank, &bytes), bytes;
    gd_tree tree;
    if (bytes > GD_PAYLOAD || microbatches_of(k) > GD_PAYLOAD * (int64_t)k->world->end.size)
        return GD_PAYLOAD + 1;
    subtrees_of(k, rank, &tree);
    return (size_t)tree.count * (size_t)k->host->numel * gd_dtype_size(k->partial);
}

static bool is_small(const gd_exchange *k)
{
    bool fits = gd__all_compare(k->world) && !by_transport(k) && k->what.kind != GD_REDUCE_SCATTER &&
                k->what.kind != GD_ALL_TO_ALL;
    for (int r = 0; r < k->world->end.size && fits; r++) fits = payload_of(k, r) <= GD_PAYLOAD;
    return fits;
}

static void write_payload(gd_exchange *k)
{
    int rank = k->world->end.rank;
    size_t bytes = payload_of(k, rank);
    char *to = k->mine.payload, *from = k->host ? k->host->data : NULL;
    if (!bytes) return;
    if (k->what.kind == GD_ALL_GATHER && !from) from = shard_of(k, rank, &bytes);
    if (!sums_up(k)) {
        memcpy(to, from, bytes);
        return;
    }
    const gd_tree *own = k->what.microbatches ? &k->what.microbatches->tree : &k->own;
    for (int i = 0; i < own->count; i++, to += bytes / (size_t)own->count)
        memcpy(to, ((gd_tensor *)own->node[i].sum)->data, bytes / (size_t)own->count);
}

/* Copies the data of other ranks to their places. */
static void read_payloads(gd_exchange *k)
{
    const gd_endpoint *e = &k->world->end;
    char *at = sums_up(k) && k->inbox ? k->inbox->data : k->host ? k->host->data : NULL;
    for (int r = 0; r < e->size; r++) {
        size_t bytes = payload_of(k, r);
        if (k->what.kind == GD_ALL_GATHER) at = shard_of(k, r, &bytes);
        if (r == e->rank || !bytes) continue;
        memcpy(at, k->sheet[r].payload, bytes);
        if (sums_up(k)) at += bytes;
    }
}

static gd_tensor *new_like(gd_device *device, const gd_tensor *like)
{
    return new_owned(device, like->dtype, like->ndim, like->size);
}

static bool make_memory(gd_exchange *k)
{
    gd_tensor *t = k->what.tensor, *out = k->what.out, *result = out ? out : t;
    k->at = place_of(k);
    if (t && !(k->host = reachable(k, t))) return false;
    bool has_contents = !t || in_place(k, result);
    if (out && !(k->host_out = has_contents ? reachable(k, out) : new_like(k->at, out))) return false;
    bool elsewhere = result->storage->device != k->at;
    if (elsewhere && !gd__contiguous(result) && !(k->staging = new_like(result->storage->device, result)))
        return false;
    k->small = is_small(k);
    bool made = !sums_up(k) || by_transport(k) || (make_inbox(k) && (k->what.microbatches || take_tensor(k)));
    if (made && k->small) write_payload(k);
    return made;
}

gd_status gd__exchange_prepare(gd_exchange *k)
{
    gd_status status = check(k);
    if (status || k->what.kind == GD_BARRIER) {
        k->what.tensor = k->what.out = NULL;
        return status;
    }
    if (!has_out(k)) k->what.out = NULL;
    if (k->what.tensor) gd__retain(k->what.tensor);
    if (k->what.out) gd__retain(k->what.out);
    if (make_memory(k)) return GD_OK;
    return gd_error(k->world->ctx) ? gd_error(k->world->ctx) : GD_NOMEM;
}

void gd__exchange_drop_data(gd_exchange *k)
{
    for (int i = 0; i < k->own.count; i++) gd__release(k->own.node[i].sum);
    k->own.count = 0;
    gd__release(k->host);
    gd__release(k->host_out);
    gd__release(k->staging);
    gd__release(k->inbox);
    gd__release(k->what.tensor);
    gd__release(k->what.out);
    k->host = k->host_out = k->staging = k->inbox = k->what.tensor = k->what.out = NULL;
}

/* ---- sums ---- */

/* Slices of this rank's subtrees to their owners, those of the others that this rank owns into the inbox. */
static gd_status post_slices(gd_exchange *k)
{
    const gd_endpoint *e = &k->world->end;
    size_t item = gd_dtype_size(k->partial);
    int64_t from, count;
    gd_status status = GD_OK;
    for (int s = 0; s < e->size; s++) {
        slice_of(k, s, &from, &count);
        for (int i = 0; i < k->own.count && !status; i++) {
            gd_tensor *sum = k->own.node[i].sum;
            status = gd__message(k, s, true, 2 + i, sum->data + (size_t)from * item, (size_t)count * item);
        }
    }
    slice_of(k, e->rank, &from, &count);
    char *at = k->inbox ? k->inbox->data : NULL;
    for (int r = 0; r < e->size; r++) {
        gd_tree tree;
        subtrees_of(k, r, &tree);
        for (int i = 0; i < tree.count && r != e->rank && !status; i++, at += (size_t)count * item)
            status = gd__message(k, r, false, 2 + i, at, (size_t)count * item);
    }
    return status;
}

typedef struct slices {
    const gd_exchange *work;
    int64_t count, joins; /* elements; joins to come */
    gd_tensor result;     /* where the last of them goes */
    bool straight;        /* it can: no dtype is in between */
    gd_status status;
} slices;

/* Some elements of a tensor in row-major order, as a struct of its own that owns nothing. */
static gd_tensor piece_of(const gd_tensor *t, char *at, int64_t count)
{
    gd_tensor piece = *t;
    piece.ndim = 1;
    piece.numel = piece.size[0] = count;
    piece.stride[0] = 1;
    piece.data = at;
    piece.axes = NULL;
    piece.node = NULL;
    piece.grad = NULL;
    return piece;
}

static bool lies_in(const gd_tensor *t, const char *at)
{
    return t && at >= t->data && at < t->data + (size_t)t->numel * gd__item_size(t);
}

/* A slice is in the inbox or in one of this rank's sums. */
static gd_tensor slice_at(const gd_exchange *k, char *at, int64_t count)
{
    const gd_tensor *whole = k->inbox;
    for (int i = 0; i < k->own.count && !lies_in(whole, at); i++) whole = k->own.node[i].sum;
    return piece_of(whole, at, count);
}

/* In the received one of the two: this rank's own may be a user's gradient. The last sum is written to its destination, which saves a
 * pass over memory. */
static void *join_slices(void *user, void *left, void *right)
{
    slices *s = user;
    gd_tensor a = slice_at(s->work, left, s->count), b = slice_at(s->work, right, s->count);
    gd_tensor *out = lies_in(s->work->inbox, left) ? &a : &b;
    if (!--s->joins && s->straight) out = &s->result;
    if (!s->status) s->status = gd__add_partial(out, &a, &b);
    return out->data;
}

/* The whole tree over this rank's slice, from the subtrees of all in the order of their microbatches: where its sum is. */
static char *finish_slice(gd_exchange *k, int64_t from, slices *s)
{
    const gd_endpoint *e = &k->world->end;
    int64_t count = s->count;
    size_t item = gd_dtype_size(k->partial);
    char *at = k->inbox ? k->inbox->data : NULL;
    gd_tree all = {0}, tree;
    s->joins = k->own.count - 1 + (k->inbox ? k->inbox->numel / count : 0);
    for (int r = 0; r < e->size; r++) {
        bool own = r == e->rank;
        subtrees_of(k, r, &tree);
        for (int i = 0; i < tree.count; i++) {
            gd_tensor *sum = own ? k->own.node[i].sum : NULL;
            tree.node[i].sum = own ? sum->data + (size_t)from * item : at;
            if (!own) at += (size_t)count * item;
            gd__tree_push(&all, microbatches_of(k), tree.node[i], join_slices, s);
        }
    }
    return all.node[0].sum;
}

/* After all slices have arrived: copies this rank's into the result, which is the only rounding of a sum. */
static gd_status settle_slice(gd_exchange *k)
{
    int64_t from, count;
    slice_of(k, k->world->end.rank, &from, &count);
    if (!count) return GD_OK;
    bool scatter = k->what.kind == GD_REDUCE_SCATTER;
    const gd_tensor *result = scatter ? k->host_out : k->host;
    char *at = result->data + (scatter ? 0 : from) * (int64_t)gd__item_size(result);
    slices s = {.work = k,
                .count = count,
                .result = piece_of(result, at, count),
                .straight = result->dtype == k->partial};
    char *made = finish_slice(k, from, &s);
    if (s.status || made == at) return s.status;
    gd_tensor sum = slice_at(k, made, count);
    return gd__copy_into(&s.result, &sum);
}

static gd_status post_result(gd_exchange *k)
{
    const gd_endpoint *e = &k->world->end;
    gd_status status = GD_OK;
    size_t item = gd__item_size(k->host);
    for (int r = 0; r < e->size && !status; r++) {
        int64_t from, count, own, length;
        slice_of(k, r, &from, &count);
        slice_of(k, e->rank, &own, &length);
        status = gd__message(k, r, true, 1, k->host->data + (size_t)own * item, (size_t)length * item);
        if (!status)
            status = gd__message(k, r, false, 1, k->host->data + (size_t)from * item, (size_t)count * item);
    }
    return status;
}

static gd_status post_to_transport(gd_exchange *k)
{
    gd_endpoint *e = &k->world->end;
    if (k->stage != GD_FIRST || !k->host->numel) return GD_OK;
    gd_message *m = &k->message[k->messages++];
    int from = k->what.kind == GD_BROADCAST ? k->what.root : e->rank;
    *m = (gd_message){.from = from, .to = e->rank, .op = k->op, .data = k->host->data};
    m->device = k->at;
    m->bytes = (size_t)k->host->numel * gd__item_size(k->host);
    if (k->what.kind == GD_ALL_GATHER)
        return gd__transport_status(k, e->transport->gather(e, m, k->host_out->data));
    return gd__transport_status(k, k->what.kind == GD_BROADCAST ? e->transport->spread(e, m)
                                                                : e->transport->sum(e, m, k->host->dtype));
}

static gd_status post_sum(gd_exchange *k)
{
    if (k->stage == GD_FIRST) {
        take_microbatches(k);
        return k->small ? GD_OK : post_slices(k);
    }
    gd_status status = settle_slice(k);
    return status || k->small || k->what.kind != GD_ALL_REDUCE ? status : post_result(k);
}

/* ---- the others ---- */

/* A binomial tree: relative to the root, rank v receives from v without its lowest bit. */
static gd_status post_broadcast(gd_exchange *k)
{
    const gd_endpoint *e = &k->world->end;
    int size = e->size, v = (e->rank - k->what.root + size) % size;
    size_t bytes = (size_t)k->host->numel * gd__item_size(k->host);
    if (k->stage == GD_FIRST)
        return v ? gd__message(k, ((v & (v - 1)) + k->what.root) % size, false, 0, k->host->data, bytes)
                 : GD_OK;
    gd_status status = GD_OK;
    for (int bit = 1; bit < size && !(v & bit) && !status; bit *= 2)
        if (v + bit < size)
            status = gd__message(k, (v + bit + k->what.root) % size, true, 0, k->host->data, bytes);
    return status;
}

static gd_status post_gather(gd_exchange *k)
{
    const gd_endpoint *e = &k->world->end;
    size_t bytes, length;
    gd_status status = GD_OK;
    if (k->stage != GD_FIRST) return GD_OK;
    char *own = shard_of(k, e->rank, &bytes);
    if (bytes && k->host) {
        gd_tensor to = piece_of(k->host_out, own, k->host->numel);
        gd_tensor from = piece_of(k->host, k->host->data, k->host->numel);
        status = gd__copy_into(&to, &from);
    }
    for (int r = 0; r < e->size && !status && !k->small; r++) {
        char *at = shard_of(k, r, &length);
        status = gd__message(k, r, true, 0, own, bytes);
        if (!status) status = gd__message(k, r, false, 0, at, length);
    }
    return status;
}

/* Some elements as bytes. */
static char *elements(const gd_tensor *t, const int64_t *cuts, int r, size_t *bytes)
{
    size_t item = gd__item_size(t);
    *bytes = (size_t)(cuts[r + 1] - cuts[r]) * item;
    return t->data + (size_t)cuts[r] * item;
}

static gd_status post_to_each(gd_exchange *k)
{
    const gd_endpoint *e = &k->world->end;
    const int64_t *cuts = k->what.cuts, *out_cuts = k->what.out_cuts;
    size_t sent, got;
    if (k->stage != GD_FIRST) return GD_OK;
    char *own = elements(k->host, cuts, e->rank, &sent), *to = elements(k->host_out, out_cuts, e->rank, &got);
    gd_tensor from = piece_of(k->host, own, cuts[e->rank + 1] - cuts[e->rank]);
    gd_tensor stays = piece_of(k->host_out, to, from.numel);
    gd_status status = sent ? gd__copy_into(&stays, &from) : GD_OK;
    for (int r = 0; r < e->size && !status; r++) {
        char *mine = elements(k->host, cuts, r, &sent), *theirs = elements(k->host_out, out_cuts, r, &got);
        status = gd__message(k, r, true, 0, mine, sent);
        if (!status) status = gd__message(k, r, false, 0, theirs, got);
    }
    return status;
}

gd_status gd__exchange_post(gd_exchange *k)
{
    if (k->what.kind == GD_BARRIER) return GD_OK;
    if (by_transport(k)) return post_to_transport(k);
    if (k->small && k->stage == GD_FIRST) read_payloads(k);
    switch (k->what.kind) {
    case GD_BROADCAST: return k->small ? GD_OK : post_broadcast(k);
    case GD_ALL_GATHER: return post_gather(k);
    case GD_ALL_TO_ALL: return post_to_each(k);
    default: return post_sum(k);
    }
}

/* ---- after ---- */

/* The result is on a different device than the data of messages; one of the two is the CPU. */
static gd_status carry(gd_exchange *k, gd_tensor *to, const gd_tensor *host)
{
    gd_device *device = to->storage->device;
    gd_tensor *flat = k->staging ? k->staging : to;
    size_t bytes = (size_t)host->numel * gd__item_size(host);
    gd_status status = k->at == gd__cpu(k->world->ctx)
                           ? device->backend->upload(device, flat->data, host->data, bytes)
                           : k->at->backend->download(k->at, flat->data, host->data, bytes);
    return status || flat == to ? status : gd__copy_into(to, flat);
}

gd_status gd__exchange_deliver(gd_exchange *k)
{
    if (k->what.kind == GD_BARRIER) return GD_OK;
    gd_tensor *to = k->what.out ? k->what.out : k->what.tensor, *host = k->what.out ? k->host_out : k->host;
    gd_status status = GD_OK;
    if (to->storage->device != k->at)
        status = to->numel ? carry(k, to, host) : GD_OK;
    else if (host != to)
        status = gd__copy_into(to, host);
    gd__touch(to);
    return status;
}

/* ---- one call each ---- */

gd_status gd__world_call(gd_world *world, const gd_collective *what)
{
    gd_exchange *work = gd_world_start(world, what);
    if (work) return gd_world_wait(work);
    return world ? gd_error(world->ctx) : GD_ARGUMENT;
}

gd_status gd_world_all_reduce(gd_world *world, gd_tensor *tensor, gd_reduce how)
{
    return gd__world_call(world, &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = tensor, .how = how});
}

gd_status gd_world_reduce_scatter(gd_world *world, gd_tensor *tensor, gd_tensor *out)
{
    return gd__world_call(world, &(gd_collective){.kind = GD_REDUCE_SCATTER, .tensor = tensor, .out = out});
}

gd_status gd_world_all_gather(gd_world *world, gd_tensor *tensor, gd_tensor *out)
{
    return gd__world_call(world, &(gd_collective){.kind = GD_ALL_GATHER, .tensor = tensor, .out = out});
}

gd_status gd_world_all_to_all(gd_world *world, gd_tensor *tensor, const int64_t *cuts, gd_tensor *out,
                              const int64_t *out_cuts)
{
    return gd__world_call(
        world, &(gd_collective){
                   .kind = GD_ALL_TO_ALL, .tensor = tensor, .cuts = cuts, .out = out, .out_cuts = out_cuts});
}

gd_status gd_world_broadcast(gd_world *world, gd_tensor *tensor, int root)
{
    return gd__world_call(world, &(gd_collective){.kind = GD_BROADCAST, .tensor = tensor, .root = root});
}

gd_status gd_world_barrier(gd_world *world)
{
    return gd__world_call(world, &(gd_collective){.kind = GD_BARRIER});
}

gd_status gd_world_agree(gd_world *world, gd_status status)
{
    bool known = world && world->failed && world->ctx->status && world->told == world->ctx->errors;
    if (status && known) return status;
    return gd__world_call(world, &(gd_collective){.kind = GD_BARRIER, .failed = status});
}

/* ---- joint decisions ---- */

int gd__world_any(gd_ctx *ctx, gd_world *world, int bits)
{
    if (!world) return bits;
    gd__aside_begin(ctx);
    gd_tensor *of_all = gd_from_data(ctx, GD_I64, 1, (int64_t[]){2}, (int64_t[]){bits & 1, bits >> 1});
    gd_status status = gd_world_all_reduce(world, of_all, GD_REDUCE_EXACT);
    const int64_t *count = status ? NULL : gd_data(of_all);
    if (count) bits = (count[0] > 0) | (count[1] > 0) << 1;
    gd__aside_end(ctx);
    return bits;
}

double gd__world_first(gd_ctx *ctx, gd_world *world, double number)
{
    if (!world) return number;
    gd__aside_begin(ctx);
    gd_tensor *of_all = gd_scalar(ctx, GD_F64, number);
    if (!gd_world_broadcast(world, of_all, 0)) number = gd_item(of_all);
    gd__aside_end(ctx);
    return number;
}
