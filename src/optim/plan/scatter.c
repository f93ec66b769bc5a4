/* Gradients that are summed over the ranks while the backward pass goes on, each rank keeping what it owns.
 *
 *     backward   leaf d is complete   leaf c, b: the bucket is full      leaf a    | step
 *     waiting    [ d ]                [ d c b ] -> packed rank by rank             |
 *     under way                       reduce_scatter ............................ wait
 *     kept                                                                         stretches of d, c, b, a
 *
 * A gradient leaves its parameter as soon as it is complete; those that wait are at most a bucket, as are those under way, two.  A
 * tensor larger than a bucket goes in portions: the k-th part of every rank's stretch. */
#include "autograd/ready.h"
#include "optim/plan/share.h"
#include "tensor/elementwise.h"

#include <string.h>

#define FLYING 2
#define MOST   64 /* tensors of a bucket */

typedef struct portion {
    int param;       /* its number */
    gd_tensor *grad; /* owned, lies as the parameter; NULL once packed */
    int part, parts;
    bool adds; /* to what is there already */
} portion;

typedef struct bucket {
    portion item[MOST];
    int count;
    gd_tensor *all, *own; /* packed; this rank's stretch of the sum; owned */
    int64_t *cuts;
    gd_exchange *work;
} bucket;

struct gd_scatter {
    gd_ready ready;
    bucket waiting, flying[FLYING];
    int first, count;
    int64_t bytes; /* that wait */
    gd_tensor **list;
    int room;
};

/* ---- where a portion lies ---- */

static void range_of(const gd_optimizer *o, const portion *q, int rank, int64_t *from, int64_t *to)
{
    const int64_t *cut = o->param[q->param].cut;
    int64_t length = cut[rank + 1] - cut[rank];
    *from = cut[rank] + length * q->part / q->parts;
    *to = cut[rank] + length * (q->part + 1) / q->parts;
}

static int64_t cut_portions(const gd_optimizer *o, const bucket *b, int ranks)
{
    int64_t from, to;
    b->cuts[0] = 0;
    for (int r = 0; r < ranks; r++) {
        b->cuts[r + 1] = b->cuts[r];
        for (int i = 0; i < b->count; i++) {
            range_of(o, &b->item[i], r, &from, &to);
            b->cuts[r + 1] += to - from;
        }
    }
    return b->cuts[ranks];
}

static void pack(const gd_optimizer *o, const bucket *b, int ranks)
{
    size_t item = gd__item_size(b->all);
    char *at = b->all->data;
    int64_t from, to;
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < b->count; i++) {
            range_of(o, &b->item[i], r, &from, &to);
            size_t bytes = (size_t)(to - from) * item;
            if (bytes) memcpy(at, b->item[i].grad->data + (size_t)from * item, bytes);
            at += bytes;
        }
}

/* ---- a bucket ---- */

static void empty(gd_optimizer *o, bucket *b)
{
    for (int i = 0; i < b->count; i++) gd__release(b->item[i].grad);
    gd__release(b->all);
    gd__release(b->own);
    gd__free(o->ctx, b->cuts, b->cuts ? (size_t)(gd_world_size(o->share->world) + 1) * sizeof *b->cuts : 0);
    *b = (bucket){0};
}

/* This rank's part of a sum goes where it is kept. */
static gd_status keep(gd_optimizer *o, const portion *q, char *sum)
{
    int64_t from, to, first = o->param[q->param].cut[gd_world_rank(o->share->world)];
    range_of(o, q, gd_world_rank(o->share->world), &from, &to);
    gd_tensor *kept = o->param[q->param].own_grad;
    char *at = kept->data + (size_t)(from - first) * gd__item_size(kept);
    if (!q->adds || from == to) {
        if (to > from) memcpy(at, sum, (size_t)(to - from) * gd__item_size(kept));
        return GD_OK;
    }
    gd_scope_begin(o->ctx);
    gd_tensor *a = gd__share_memory(o->ctx, kept->dtype, at, to - from);
    gd_tensor *b = gd__share_memory(o->ctx, kept->dtype, sum, to - from);
    gd_status status = a && b ? gd_add_into(a, b, 1) : gd_error(o->ctx);
    gd_scope_end(o->ctx);
    return status;
}

static gd_status land(gd_optimizer *o)
{
    gd_scatter *s = o->share->scatter;
    bucket *b = &s->flying[s->first++ % FLYING];
    s->count--;
    gd_status status = b->work ? gd_world_wait(b->work) : gd_error(o->ctx);
    o->share->told = o->share->told || status;
    char *at = b->own ? b->own->data : NULL;
    for (int i = 0; i < b->count && !status; i++) {
        int64_t from, to;
        range_of(o, &b->item[i], gd_world_rank(o->share->world), &from, &to);
        status = keep(o, &b->item[i], at);
        at += (size_t)(to - from) * gd__item_size(b->own);
    }
    empty(o, b);
    return status;
}

/* Takes the portions over.  A rank without memory starts the collective all the same, which tells the others. */
static gd_status fly(gd_optimizer *o, bucket *from)
{
    gd_scatter *s = o->share->scatter;
    int ranks = gd_world_size(o->share->world), rank = gd_world_rank(o->share->world);
    gd_status status = s->count == FLYING ? land(o) : GD_OK;
    if (status) return status;
    bucket *b = &s->flying[(s->first + s->count++) % FLYING];
    *b = *from;
    *from = (bucket){0};
    gd_dtype dtype = b->item[0].grad->dtype;
    b->cuts = gd__alloc_array(o->ctx, (size_t)ranks + 1, sizeof *b->cuts);
    int64_t numel = b->cuts ? cut_portions(o, b, ranks) : 0,
            own = b->cuts ? b->cuts[rank + 1] - b->cuts[rank] : 0;
    gd__aside_begin(o->ctx);
    gd__own(b->all = b->cuts ? gd__new(gd__cpu(o->ctx), dtype, 1, &numel) : NULL);
    gd__own(b->own = b->all ? gd__new(gd__cpu(o->ctx), dtype, 1, &own) : NULL);
    gd__aside_end(o->ctx);
    gd_collective what = {
        .kind = GD_REDUCE_SCATTER, .cuts = b->cuts, .name = o->param[b->item[0].param].name};
    if (b->own) {
        pack(o, b, ranks);
        what.tensor = b->all;
        what.out = b->own;
    } else
        what.failed = GD_NOMEM;
    for (int i = 0; i < b->count; i++) {
        gd__release(b->item[i].grad);
        b->item[i].grad = NULL;
    }
    b->work = gd_world_start(o->share->world, &what);
    return GD_OK;
}

/* One tensor that is more than a bucket. */
static gd_status fly_portions(gd_optimizer *o, portion q)
{
    int64_t bytes = q.grad->numel * (int64_t)gd__item_size(q.grad), most = o->share->options.bucket;
    gd_status status = GD_OK;
    q.parts = (int)((bytes + most - 1) / most);
    for (q.part = 0; q.part < q.parts && !status; q.part++) {
        bucket b = {.item = {q}, .count = 1};
        gd__retain(q.grad);
        status = fly(o, &b);
        if (status) empty(o, &b);
    }
    gd__release(q.grad);
    return status;
}

static gd_status fly_waiting(gd_optimizer *o)
{
    gd_scatter *s = o->share->scatter;
    gd_status status = s->waiting.count ? fly(o, &s->waiting) : GD_OK;
    s->bytes = 0;
    return status;
}

/* ---- a gradient is there ---- */

/* Where this rank keeps its stretch; like the parameter where it owns all of it. */
static gd_status make_kept(gd_optimizer *o, gd_param *p, gd_dtype dtype)
{
    int rank = gd_world_rank(o->share->world);
    int64_t own = p->cut[rank + 1] - p->cut[rank];
    if (p->own_grad && p->own_grad->dtype == dtype) return GD_OK;
    gd__aside_begin(o->ctx);
    gd_tensor *t = own == p->tensor->numel ? gd__new_laid(p->tensor, dtype)
                                           : gd__new(gd__cpu(o->ctx), dtype, 1, &own);
    gd__own(t);
    gd__aside_end(o->ctx);
    if (!t) return gd_error(o->ctx);
    gd__release(p->own_grad);
    p->own_grad = t;
    p->summed = false;
    return GD_OK;
}

static gd_status take_gradient(void *user, gd_tensor *leaf)
{
    gd_optimizer *o = user;
    int index = gd__param_index(o, leaf);
    if (index < 0 || !leaf->grad) return GD_OK;
    gd_scatter *s = o->share->scatter;
    gd_status status = gd__share_own(o);
    gd_param *p = &o->param[index];
    if (!status) status = make_kept(o, p, leaf->grad->dtype);
    if (status) return status;
    portion q = {.param = index, .parts = 1, .adds = p->summed};
    q.grad = leaf->grad;
    if (gd__laid_alike(q.grad, leaf))
        gd__retain(q.grad);
    else if (!(q.grad = gd__copy_laid(q.grad, leaf)))
        return gd_error(o->ctx);
    gd__put_grad(leaf, NULL);
    p->summed = true;
    int64_t bytes = q.grad->numel * (int64_t)gd__item_size(q.grad), most = o->share->options.bucket;
    bool fits = s->bytes + bytes <= most && s->waiting.count < MOST &&
                (!s->waiting.count || s->waiting.item[0].grad->dtype == q.grad->dtype);
    if (!fits) status = fly_waiting(o);
    if (!status && bytes > most) return fly_portions(o, q);
    if (status) {
        gd__release(q.grad);
        return status;
    }
    s->waiting.item[s->waiting.count++] = q;
    s->bytes += bytes;
    return GD_OK;
}

/* ---- steps ---- */

static gd_status land_all(gd_optimizer *o, gd_status status)
{
    while (o->share->scatter->count) {
        gd_status landed = land(o);
        if (!status) status = landed;
    }
    return status;
}

/* Zeros where no rank has one. */
static gd_status zeros_for(gd_optimizer *o, gd_param *p)
{
    gd_status status = make_kept(o, p, p->tensor->dtype);
    return status ? status : gd_fill(p->own_grad, 0);
}

gd_status gd__scatter_take(gd_optimizer *o, gd_tensor *const *params, int count, gd_tensor *const **list)
{
    gd_scatter *s = o->share->scatter;
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) status = take_gradient(o, params[i]); /* set by hand */
    if (!status) status = fly_waiting(o);
    status = land_all(o, status);
    if (!status && s->room < count) {
        gd_tensor **more = gd__realloc(o->ctx, s->list, (size_t)s->room * sizeof *more,
                                       (size_t)count * sizeof *more);
        if (!more) return GD_NOMEM;
        s->list = more;
        s->room = count;
    }
    for (int i = 0; i < count && !status; i++) {
        gd_param *p = &o->param[gd__param_index(o, params[i])];
        if (!p->summed) status = zeros_for(o, p);
        s->list[i] = p->own_grad;
    }
    *list = s->list;
    return status;
}

void gd__scatter_forget(gd_optimizer *o)
{
    if (!o->share->scatter) return;
    (void)!land_all(o, GD_OK);
    empty(o, &o->share->scatter->waiting);
    o->share->scatter->bytes = 0;
    for (int i = 0; i < o->count; i++) o->param[i].summed = false;
}

gd_tensor **gd__scatter_whole(gd_optimizer *o, gd_tensor *const *params, gd_tensor *const *stretches,
                              int count)
{
    gd_tensor **whole = gd__calloc(o->ctx, (size_t)count * sizeof *whole);
    gd_status status = whole ? GD_OK : GD_NOMEM;
    gd__aside_begin(o->ctx);
    for (int i = 0; i < count && !status; i++) {
        int64_t from, to;
        size_t item = gd__item_size(stretches[i]);
        bool shared = gd__share_of(o, params[i], &from, &to);
        if (shared && to - from == params[i]->numel) {
            gd__retain(whole[i] = stretches[i]);
            continue;
        }
        gd__own(whole[i] = gd__new_laid(params[i], stretches[i]->dtype));
        if (!whole[i]) status = gd_error(o->ctx);
        if (!status && shared && to > from)
            memcpy(whole[i]->data + (size_t)from * item, stretches[i]->data, (size_t)(to - from) * item);
    }
    if (!status) status = gd__share_gather(o, params, whole, count);
    gd__aside_end(o->ctx);
    if (!status) return whole;
    for (int i = 0; whole && i < count; i++) gd__release(whole[i]);
    gd__free(o->ctx, whole, (size_t)count * sizeof *whole);
    return NULL;
}

/* ---- life ---- */

gd_scatter *gd__scatter_new(gd_optimizer *o)
{
    gd_scatter *s = gd__calloc(o->ctx, sizeof *s);
    if (!s) return NULL;
    s->ready = (gd_ready){.fn = take_gradient, .user = o};
    gd__ready_add(o->ctx, &s->ready);
    return s;
}

void gd__scatter_free(gd_optimizer *o)
{
    gd_scatter *s = o->share->scatter;
    if (!s) return;
    gd__ready_remove(o->ctx, &s->ready);
    (void)!land_all(o, GD_OK); /* they read memory that goes now */
    gd__free(o->ctx, s->list, (size_t)s->room * sizeof *s->list);
    empty(o, &s->waiting);
    for (int i = 0; i < o->count; i++) {
        gd__release(o->param[i].own_grad);
        o->param[i].own_grad = NULL;
        o->param[i].summed = false;
    }
    gd__free(o->ctx, s, sizeof *s);
    o->share->scatter = NULL;
}
