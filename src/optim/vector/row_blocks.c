#include "optim/vector/row_blocks.h"

#include "base/observer.h"
#include "base/team.h"
#include "file/safetensors.h"
#include "gradus/autograd.h"
#include "gradus/dlpack.h"
#include "optim/vector/jacobian.h"
#include "optim/vector/triangle.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"
#include "trace/trace_internal.h"
#include "world/world_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define QR_NUMBERS 4096 /* rows of a block that are reduced to its triangle at a time */
/* Kinds of passes. */
enum { LOSS, TRIANGLE, SECOND, CURVATURE, PRODUCT, KINDS };

#define MOST_RECORDED (2 * KINDS) /* over whole blocks, and over the last one */

/* The data of a thread. */
typedef struct member {
    gd_ctx *ctx;
    /* lists one after the other: leaves, owned; rows of the tables and the direction of second derivatives, of the scope of a block */
    gd_tensor **param, **data, **v;
    void *state; /* result of rows->open, or rows->user */
    bool opened;
    double **column;         /* [n + 1] */
    int64_t failed;          /* the shard; -1: none */
    gd_trace_set recorded;   /* of tables that are traced */
    gd_tensor **leaf, **out; /* [count], [count + 2] */
    int64_t first, rows;     /* of the block under way */
    int64_t per_row[2];      /* residuals of a row, in whole blocks and in the last one */
} member;

struct gd_blocks {
    gd_ctx *ctx;
    const gd_rows *rows;
    gd_tensor *const *params;
    int count;
    int64_t n, blocks, shards, residuals;
    int64_t own, ours; /* the first shard of this rank, and how many it has */
    int64_t first_row; /* of this rank's tables */
    gd_team *team;
    member *member;
    double *x; /* [n] the parameters */
    const gd_vector_loops *loops;
};

/* Computations on the residuals of a block, for these leaves: the same for every block, so that they can be recorded.  v: the
 * direction of second derivatives, one tensor per parameter. */
typedef gd_status (*derive_fn)(const gd_blocks *b, gd_tensor *r, gd_tensor *const *params,
                               gd_tensor *const *v, gd_tensor **out);

/* A sum over all rows. */
typedef struct pass {
    gd_blocks *b;
    int kind;
    const double *v; /* the direction of second derivatives, or NULL */
    size_t room;     /* numbers of a sum */
    double *sums;    /* [shards, room + 1]; the last: the number of residuals */
    _Atomic int64_t next;
    _Atomic bool stop;
} pass;

typedef struct pass_kind {
    const char *name;
    derive_fn derive;
    gd_status (*take)(const pass *p, member *w, gd_tensor *const *out, double *sum); /* adds to a sum */
    int outputs; /* of derive; 0: one per parameter */
    bool graph;  /* of the residuals */
} pass_kind;

static const pass_kind kinds[KINDS];

/* ---- members ---- */

/* Copies names of axes to a different context; labels are dropped. */
static gd_tensor *named_like(gd_tensor *t, const gd_tensor *like)
{
    gd_ctx *ctx = t->head.ctx;
    if (!like->axes) return t;
    char text[512];
    size_t used = 0;
    for (int i = 0; i < like->ndim && used < sizeof text; i++) {
        const char *name = gd__name(like, i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? ", " : "", name ? name : "_");
    }
    return used < sizeof text ? gd_rename(t, text)
                              : gd__refuse(ctx, GD_OVERFLOW, "rows: names of axes too long");
}

/* A leaf of the member's own. */
static gd_tensor *leaf_like(member *w, const gd_tensor *param)
{
    gd_tensor *t = gd_empty(w->ctx, param->dtype, param->ndim, param->size);
    t = t ? named_like(t, param) : NULL;
    return t ? gd_require_grad(gd_is_leaf(t) ? t : gd_detach(t)) : NULL;
}

static gd_status open_member(gd_blocks *b, member *w)
{
    const gd_rows *rows = b->rows;
    gd_status status = GD_OK;
    gd_scope_begin(w->ctx);
    for (int i = 0; i < b->count && !status; i++) {
        gd_tensor *t = leaf_like(w, b->params[i]);
        if (t) w->param[i] = gd_keep(t);
        status = t ? GD_OK : gd_error(w->ctx);
    }
    gd_scope_end(w->ctx);
    w->state = rows->user;
    if (!status && rows->open) {
        w->state = rows->open(rows->user, w->ctx);
        w->opened = w->state != NULL;
        if (!w->opened) status = gd_fail(w->ctx, GD_CALLBACK, "rows: nothing was opened");
    }
    return status ? status : gd_error(w->ctx);
}

static void close_member(const gd_blocks *b, member *w)
{
    gd__trace_set_free(&w->recorded);
    if (w->opened && b->rows->close) b->rows->close(w->state);
    for (int i = 0; i < b->count && w->param; i++) gd_release(w->param[i]);
}

static size_t pointers(const gd_blocks *b)
{
    return (size_t)(4 * b->count + b->rows->columns + 2) + (size_t)b->n + 1;
}
static size_t member_bytes(const gd_blocks *b) { return (size_t)gd__team_count(b->team) * sizeof(member); }
static size_t list_bytes(const gd_blocks *b)
{
    return (size_t)gd__team_count(b->team) * pointers(b) * sizeof(void *);
}

/* Lists of all members lie one after the other, the first member has them. */
static gd_status make_members(gd_blocks *b)
{
    if (!(b->member = gd__calloc(b->ctx, member_bytes(b)))) return GD_NOMEM;
    void **list = gd__calloc(b->ctx, list_bytes(b));
    if (!list) return GD_NOMEM;
    for (int i = 0; i < gd__team_count(b->team); i++, list += pointers(b)) {
        member *w = &b->member[i];
        w->ctx = gd__team_member(b->team, i);
        w->param = (gd_tensor **)list;
        w->data = w->param + b->count;
        w->v = w->data + b->rows->columns;
        w->leaf = w->v + b->count;
        w->out = w->leaf + b->count;
        w->column = (double **)(void *)(w->out + b->count + 2);
        gd__trace_set_init(&w->recorded, w->ctx, MOST_RECORDED, false);
        gd_status status = open_member(b, w);
        if (status) return gd__team_tell(b->team, i);
    }
    return GD_OK;
}

static int64_t blocks_of(int64_t rows) { return (rows + GD_BLOCK_ROWS - 1) / GD_BLOCK_ROWS; }
static int64_t shards_of(int64_t rows)
{
    int64_t blocks = blocks_of(rows);
    return blocks < GD_ROW_SHARDS ? blocks : GD_ROW_SHARDS;
}

/* The row that a shard begins with; of the one behind the last: how many there are. */
static int64_t row_of(int64_t rows, int64_t shard)
{
    int64_t row = blocks_of(rows) * shard / shards_of(rows) * GD_BLOCK_ROWS;
    return row < rows ? row : rows;
}

void gd_rows_share(const gd_world *world, int64_t count, int64_t *first, int64_t *own)
{
    if (!first || !own) return;
    *first = 0;
    *own = count > 0 ? count : 0;
    if (!world || count <= 0) return;
    int64_t shard, shards;
    gd_world_share(world, shards_of(count), &shard, &shards);
    *first = row_of(count, shard);
    *own = row_of(count, shard + shards) - *first;
}

gd_status gd__blocks_check(gd_ctx *ctx, const gd_rows *rows)
{
    int64_t first, own;
    gd_rows_share(rows->world, rows->count, &first, &own);
    if (rows->world && gd_world_ctx(rows->world) != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "rows: the world is of a different context than the parameters");
    if (!rows->residuals) return gd_fail(ctx, GD_ARGUMENT, "rows: no function for the residuals");
    if (rows->count <= 0) return gd_fail(ctx, GD_SHAPE, "rows: there are none");
    for (int i = 0; i < rows->columns; i++) {
        const gd_tensor *t = rows->data ? rows->data[i] : NULL;
        if (!t) return gd_fail(ctx, GD_ARGUMENT, "rows: table %d is NULL", i);
        if (t->storage->device != gd__cpu(ctx))
            return gd_fail(ctx, GD_DEVICE, "rows: table %d is not on the CPU", i);
        if (t->ndim < 1 || (t->size[0] != own && t->size[0] != rows->count))
            return gd_fail(ctx, GD_SHAPE, "rows: table %d has not %lld rows", i, (long long)own);
    }
    return GD_OK;
}

static gd_blocks *blocks_here(gd_ctx *ctx, const gd_rows *rows, gd_tensor *const *params, int count)
{
    if (gd__blocks_check(ctx, rows)) return NULL;
    gd_blocks *b = gd__calloc(ctx, sizeof *b);
    if (!b) return NULL;
    *b = (gd_blocks){.ctx = ctx, .rows = rows, .params = params, .count = count};
    b->n = gd__list_numel(params, count);
    b->loops = gd__loops_for(ctx, GD_F64);
    b->blocks = blocks_of(rows->count);
    b->ours = b->shards = shards_of(rows->count);
    gd_world_share(rows->world, b->shards, &b->own, &b->ours);
    b->first_row = row_of(rows->count, b->own);
    b->x = gd__alloc_array(ctx, (size_t)b->n, sizeof *b->x);
    b->team = b->x ? gd__team_new(ctx, b->ours ? b->ours : 1) : NULL;
    if (b->team && !make_members(b)) return b;
    gd__blocks_free(b);
    return NULL;
}

/* A rank that cannot begin reports to the ranks that would wait for it. */
gd_blocks *gd__blocks_new(const gd_rows *rows, gd_tensor *const *params, int count)
{
    gd_ctx *ctx = params[0]->head.ctx;
    gd_blocks *b = blocks_here(ctx, rows, params, count);
    if (!b && rows->world && gd_world_ctx(rows->world) == ctx)
        (void)!gd_world_agree(rows->world, gd_error(ctx) ? gd_error(ctx) : GD_NOMEM);
    return b;
}

void gd__blocks_free(gd_blocks *b)
{
    if (!b) return;
    for (int i = 0; b->member && i < gd__team_count(b->team); i++) close_member(b, &b->member[i]);
    if (b->member) gd__free(b->ctx, b->member[0].param, list_bytes(b));
    if (b->team) gd__free(b->ctx, b->member, member_bytes(b));
    gd__team_free(b->team);
    if (b->x) gd__free(b->ctx, b->x, (size_t)b->n * sizeof *b->x);
    gd__free(b->ctx, b, sizeof *b);
}

int64_t gd__blocks_residuals(const gd_blocks *b) { return b->residuals; }

/* ---- a block ---- */

/* Rows first .. of every table, as tensors of the member's context over the same memory. */
static gd_status look_at_rows(const gd_blocks *b, member *w, int64_t first, int64_t rows)
{
    for (int i = 0; i < b->rows->columns; i++) {
        const gd_tensor *t = b->rows->data[i];
        int64_t size[GD_MAX_DIMS];
        memcpy(size, t->size, sizeof size);
        size[0] = rows;
        int64_t at = t->size[0] == b->rows->count ? first : first - b->first_row;
        gd_tensor *view = gd_from_memory(gd__cpu(w->ctx), t->dtype, t->ndim, size, t->stride,
                                         t->data + at * t->stride[0] * (int64_t)gd__item_size(t),
                                         GD_READ_ONLY, NULL, NULL);
        if (!(w->data[i] = view ? named_like(view, t) : NULL)) return gd_error(w->ctx);
    }
    return GD_OK;
}

/* The function's result for a block, as a vector. */
static gd_tensor *residuals_of(const gd_blocks *b, member *w, gd_tensor *const *params,
                               gd_tensor *const *data)
{
    gd_ctx *ctx = w->ctx;
    gd_tensor *r = b->rows->residuals(w->state, params, data, w->first);
    if (gd_error(ctx)) return NULL;
    if (!r) return gd__refuse(ctx, GD_CALLBACK, "least squares: the function returned NULL");
    if (!gd_dtype_is_float(r->dtype))
        return gd__refuse(ctx, GD_DTYPE, "least squares: residuals of dtype %s, need a floating one",
                          gd_dtype_name(r->dtype));
    if (r->numel % w->rows || r->head.ctx != ctx)
        return gd__refuse(ctx, GD_SHAPE, "least squares: %lld residuals for %lld rows", (long long)r->numel,
                          (long long)w->rows);
    w->per_row[w->rows < GD_BLOCK_ROWS] = r->numel / w->rows;
    return gd__reshape(gd_drop_names(r), 1, &r->numel);
}

/* Outputs are new. */
static gd_status evaluate_block(const pass *p, member *w, gd_tensor *const *params, gd_tensor *const *data,
                                gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = w->ctx;
    int previous = gd_enable_grad_begin(ctx);
    if (!kinds[p->kind].graph) gd_no_grad_begin(ctx);
    gd_tensor *r = residuals_of(p->b, w, params, data);
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    gd_status status = r ? kinds[p->kind].derive(p->b, r, params, v, out) : gd_error(ctx);
    gd_no_grad_end(ctx);
    return status;
}

typedef struct block_call {
    const pass *p;
    member *w;
} block_call;

/* The same on leaves over the inputs of a recording. */
static gd_status evaluate_inputs(void *user, gd_tensor *const *in, int count, gd_tensor **out)
{
    const block_call *c = user;
    const gd_blocks *b = c->p->b;
    gd_status status = GD_OK;
    int previous = gd_enable_grad_begin(c->w->ctx);
    for (int i = 0; i < b->count && !status; i++)
        if (!(c->w->leaf[i] = gd_require_grad(gd__alias(in[i])))) status = gd_error(c->w->ctx);
    gd_enable_grad_end(c->w->ctx, previous);
    if (status) return status;
    (void)count;
    return evaluate_block(c->p, c->w, c->w->leaf, in + b->count, in + b->count + b->rows->columns, out);
}

/* Recorded in the first blocks, replayed in the others.  Borrowed until the next call. */
static gd_tensor *const *replay_block(const pass *p, member *w)
{
    const gd_blocks *b = p->b;
    if (gd__is_interrupted(w->ctx->observer))
        return gd__refuse(w->ctx, GD_INTERRUPTED, "least squares: interrupted");
    block_call call = {p, w};
    const pass_kind *kind = &kinds[p->kind];
    const gd_evaluation what = {.name = kind->name,
                                .kind = p->kind,
                                .body = evaluate_inputs,
                                .user = &call,
                                .outputs = kind->outputs ? kind->outputs : b->count};
    return gd__trace_call(&w->recorded, &what, w->param, b->count + b->rows->columns + (p->v ? b->count : 0));
}

static gd_status run_block(const pass *p, member *w, int64_t block, double *sum)
{
    const gd_blocks *b = p->b;
    gd_tensor *const *out = w->out;
    w->first = block * GD_BLOCK_ROWS;
    w->rows = b->rows->count - w->first < GD_BLOCK_ROWS ? b->rows->count - w->first : GD_BLOCK_ROWS;
    gd_scope_begin(w->ctx);
    gd_status status = look_at_rows(b, w, w->first, w->rows);
    if (!status && p->v) status = gd__list_from(w->param, b->count, p->v, w->v);
    if (!status && b->rows->traced)
        status = (out = replay_block(p, w)) ? GD_OK : gd_error(w->ctx);
    else if (!status)
        status = evaluate_block(p, w, w->param, w->data, w->v, w->out);
    if (!status) {
        sum[p->room] += (double)(w->per_row[w->rows < GD_BLOCK_ROWS] * w->rows);
        status = kinds[p->kind].take(p, w, out, sum);
    }
    gd_scope_end(w->ctx);
    return status;
}

/* ---- a pass ---- */

static double *sum_of(const pass *p, int64_t shard) { return p->sums + (size_t)shard * (p->room + 1); }
static size_t sums_size(const pass *p) { return (size_t)p->b->shards * (p->room + 1) * sizeof *p->sums; }

static void run_member(void *arg, int64_t index)
{
    pass *p = arg;
    gd_blocks *b = p->b;
    member *w = &b->member[index];
    int64_t s;
    while (!p->stop && (s = p->next++) < b->own + b->ours) {
        int64_t end = b->blocks * (s + 1) / b->shards;
        gd_status status = GD_OK;
        for (int64_t block = b->blocks * s / b->shards; block < end && !status; block++)
            status = run_block(p, w, block, sum_of(p, s));
        if (!status) continue;
        w->failed = s;
        p->stop = true;
    }
}

/* The failure of the earliest rows. */
static gd_status outcome(gd_blocks *b)
{
    int first = -1;
    for (int i = 0; i < gd__team_count(b->team); i++) {
        const member *w = &b->member[i];
        if (w->failed >= 0 && (first < 0 || w->failed < b->member[first].failed)) first = i;
    }
    gd_status status = first < 0 ? GD_OK : gd__team_tell(b->team, first);
    for (int i = 0; i < gd__team_count(b->team); i++) gd_clear_error(b->member[i].ctx);
    return status;
}

/* The shards of this rank. */
static gd_status run_own(pass *p)
{
    gd_blocks *b = p->b;
    gd_status status = gd__list_read(b->params, b->count, b->x);
    for (int i = 0; i < gd__team_count(b->team) && !status; i++) {
        b->member[i].failed = -1;
        if (gd__list_write(b->member[i].param, b->count, b->x)) status = gd__team_tell(b->team, i);
    }
    if (status || !(p->sums = gd__calloc(b->ctx, sums_size(p)))) return status ? status : GD_NOMEM;
    p->next = b->own;
    gd__team_run(b->team, run_member, p);
    return outcome(b);
}

/* Sums over other rows, or at other parameters, are not joined. */
static void name_sums(const gd_blocks *b, char *name, size_t size)
{
    uint64_t where = gd__checksum(0, b->x, (size_t)b->n * sizeof *b->x);
    (void)snprintf(name, size, "%lld rows, parameters %016llx", (long long)b->rows->count,
                   (unsigned long long)where);
}

/* The results of all ranks: each sends its own to the others. */
static gd_status gather_sums(pass *p, gd_status failed)
{
    gd_blocks *b = p->b;
    char name[80];
    name_sums(b, name, sizeof name);
    gd_world *world = b->rows->world;
    int size = gd_world_size(world);
    int64_t each = (int64_t)p->room + 1, total = b->shards * each;
    int64_t *cuts = gd__alloc_array(b->ctx, (size_t)size + 1, sizeof *cuts), first, count = 0;
    gd__aside_begin(b->ctx);
    gd_tensor *all = !cuts || failed
                         ? NULL
                         : gd_from_memory(gd__cpu(b->ctx), GD_F64, 1, &total, NULL, p->sums, 0, NULL, NULL);
    if (!all && !failed) failed = GD_NOMEM;
    for (int r = 0; r < size && cuts; r++) {
        gd__share(r, size, b->shards, &first, &count);
        cuts[r] = first * each;
        cuts[r + 1] = (first + count) * each;
    }
    gd_exchange *work = gd_world_start(
        world,
        &(gd_collective){.kind = GD_ALL_GATHER, .out = all, .cuts = cuts, .failed = failed, .name = name});
    gd_status status = work ? gd_world_wait(work) : gd_error(b->ctx);
    gd__aside_end(b->ctx);
    gd__free(b->ctx, cuts, cuts ? ((size_t)size + 1) * sizeof *cuts : 0);
    return failed ? failed : status;
}

/* The caller frees p->sums, also after an error. */
static gd_status run_pass(pass *p)
{
    gd_blocks *b = p->b;
    gd_status status = run_own(p);
    if (b->rows->world) status = gather_sums(p, status);
    b->residuals = 0;
    for (int64_t s = 0; s < b->shards && !status; s++) b->residuals += (int64_t)sum_of(p, s)[p->room];
    return status;
}

static void end_pass(const pass *p)
{
    if (p->sums) gd__free(p->b->ctx, p->sums, sums_size(p));
}

/* The sum over all shards. */
static gd_status add_up(pass *p, double *out)
{
    gd_status status = run_pass(p);
    for (size_t k = 0; k < p->room && !status; k++) {
        out[k] = 0;
        for (int64_t s = 0; s < p->b->shards; s++) out[k] += sum_of(p, s)[k];
    }
    end_pass(p);
    return status;
}

static void add_numbers(double *sum, const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) sum[i] += x[i];
}

/* ---- results of a block ---- */

/* f64, one after the other; of the scope. */
static gd_tensor *numbers(gd_tensor *t) { return t ? gd_contiguous(gd_cast(gd_detach(t), GD_F64)) : NULL; }

static gd_status derive_loss(const gd_blocks *b, gd_tensor *r, gd_tensor *const *params, gd_tensor *const *v,
                             gd_tensor **out)
{
    (void)b, (void)params, (void)v;
    return (out[0] = numbers(r)) ? GD_OK : gd_error(r->head.ctx);
}

static gd_status take_loss(const pass *p, member *w, gd_tensor *const *out, double *sum)
{
    (void)w;
    sum[0] += p->b->loops->dot(gd_data(out[0]), gd_data(out[0]), out[0]->numel);
    return GD_OK;
}

/* Columns, which lie one after the other, and residuals that can be overwritten. */
static gd_status derive_triangle(const gd_blocks *b, gd_tensor *r, gd_tensor *const *params,
                                 gd_tensor *const *v, gd_tensor **out)
{
    (void)v;
    out[0] = numbers(gd__jacobian_columns(r, params, b->count));
    out[1] = gd_copy(numbers(r));
    return out[0] && out[1] ? GD_OK : gd_error(r->head.ctx);
}

/* Behind the triangle is the sum of squares. */
static gd_status take_triangle(const pass *p, member *w, gd_tensor *const *out, double *sum)
{
    const gd_blocks *b = p->b;
    int64_t n = b->n, wide = n + 1, m = out[1]->numel,
            at_once = QR_NUMBERS / wide < 32 ? 32 : QR_NUMBERS / wide;
    double *column = gd_data_mut(out[0]), *last = gd_data_mut(out[1]);
    if (!column || !last) return gd_error(w->ctx);
    sum[wide * wide] += b->loops->dot(last, last, m);
    for (int64_t at = 0; at < m; at += at_once) {
        for (int64_t k = 0; k < n; k++) w->column[k] = column + k * m + at;
        w->column[n] = last + at;
        gd__triangle_add(b->loops, sum, wide, w->column, m - at < at_once ? m - at : at_once);
    }
    return GD_OK;
}

static gd_status derive_zeros(gd_tensor *const *params, int count, gd_tensor **out)
{
    for (int i = 0; i < count; i++)
        if (!(out[i] = gd_zeros_like(params[i]))) return gd_error(params[i]->head.ctx);
    return GD_OK;
}

static gd_status derive_second(const gd_blocks *b, gd_tensor *r, gd_tensor *const *params,
                               gd_tensor *const *v, gd_tensor **out)
{
    gd_tensor *y = gd__second_along_list(r, params, v, b->count);
    if (y) return gd_grad(r, y, params, b->count, GD_RETAIN_GRAPH, out);
    gd_status status = gd_error(r->head.ctx);
    return status ? status : derive_zeros(params, b->count, out);
}

/* The product of the whole Hessian with v. */
static gd_status derive_product(const gd_blocks *b, gd_tensor *r, gd_tensor *const *params,
                                gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = r->head.ctx;
    if (!gd_requires_grad(r)) return derive_zeros(params, b->count, out);
    gd_tensor **grads = gd__calloc(ctx, (size_t)b->count * sizeof *grads);
    if (!grads) return GD_NOMEM;
    int previous = gd_enable_grad_begin(ctx);
    gd_status status = gd__squares_gradient(r, params, b->count, grads);
    gd_enable_grad_end(ctx, previous);
    if (!status) status = gd__squares_product_list(grads, params, b->count, v, out);
    gd__free(ctx, grads, (size_t)b->count * sizeof *grads);
    return status;
}

/* One tensor per parameter, one number per element. */
static gd_status take_list(const pass *p, member *w, gd_tensor *const *out, double *sum)
{
    const gd_blocks *b = p->b;
    double *x = gd__alloc_array(w->ctx, (size_t)b->n, sizeof *x);
    gd_status status = x ? gd__list_read(out, b->count, x) : GD_NOMEM;
    if (!status) add_numbers(sum, x, b->n);
    gd__free(w->ctx, x, (size_t)b->n * sizeof *x);
    return status;
}

static gd_status derive_curvature(const gd_blocks *b, gd_tensor *r, gd_tensor *const *params,
                                  gd_tensor *const *v, gd_tensor **out)
{
    (void)v;
    gd_ctx *ctx = r->head.ctx;
    out[0] = gd_requires_grad(r) ? numbers(gd__squares_curvature(r, params, b->count))
                                 : gd_zeros(ctx, GD_F64, 2, (int64_t[]){b->n, b->n});
    return out[0] ? GD_OK : gd_error(ctx);
}

static gd_status take_curvature(const pass *p, member *w, gd_tensor *const *out, double *sum)
{
    (void)w;
    add_numbers(sum, gd_data(out[0]), p->b->n * p->b->n);
    return GD_OK;
}

/* ---- passes ---- */

static const pass_kind kinds[KINDS] = {
    [LOSS] = {"residuals", derive_loss, take_loss, 1, false},
    [TRIANGLE] = {"Jacobian", derive_triangle, take_triangle, 2, true},
    [SECOND] = {"second derivatives", derive_second, take_list, 0, true},
    [CURVATURE] = {"curvature", derive_curvature, take_curvature, 1, true},
    [PRODUCT] = {"Hessian product", derive_product, take_list, 0, true},
};

gd_status gd__blocks_loss(gd_blocks *b, double *loss)
{
    return add_up(&(pass){.b = b, .kind = LOSS, .room = 1}, loss);
}

gd_status gd__blocks_second(gd_blocks *b, const double *v, double *out)
{
    return add_up(&(pass){.b = b, .kind = SECOND, .v = v, .room = (size_t)b->n}, out);
}

gd_status gd__blocks_curvature(gd_blocks *b, double *out)
{
    return add_up(&(pass){.b = b, .kind = CURVATURE, .room = (size_t)(b->n * b->n)}, out);
}

gd_status gd__blocks_product(gd_blocks *b, const double *v, double *out)
{
    return add_up(&(pass){.b = b, .kind = PRODUCT, .v = v, .room = (size_t)b->n}, out);
}

gd_status gd__blocks_triangle(gd_blocks *b, gd_tensor **triangle, double *loss)
{
    gd_ctx *ctx = b->ctx;
    int64_t wide = b->n + 1;
    pass p = {.b = b, .kind = TRIANGLE, .room = (size_t)(wide * wide + 1)};
    *triangle = NULL;
    *loss = NAN;
    gd_status status = run_pass(&p);
    size_t room = (size_t)(wide * wide) * sizeof(double);
    double *square = status ? NULL : gd__alloc(ctx, room);
    if (square) {
        double f = 0;
        for (int64_t s = 0; s < b->shards; s++) {
            const double *other = sum_of(&p, s);
            f += other[wide * wide];
            if (s) gd__triangle_join(b->loops, p.sums, other, wide, square, b->member[0].column);
        }
        *loss = f;
        gd__aside_begin(ctx);
        *triangle = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){wide, wide}, p.sums);
        if (*triangle) gd__own(*triangle);
        gd__aside_end(ctx);
        gd__free(ctx, square, room);
    }
    end_pass(&p);
    return status || *triangle ? status : gd_error(ctx);
}
