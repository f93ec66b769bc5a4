/* Rows over processes; see row_parts.h. */
#include "train/run/row_parts.h"

#include "gradus/autograd.h"
#include "world/world_internal.h"

#include <string.h>

/* ---- parts ---- */

static gd_status cut_part(gd_trainer *t, gd_tensor **x)
{
    int64_t first, count, rows = *x ? gd_size(*x, 0) : 0;
    if (!*x) return GD_OK;
    gd__measure_share(&t->point, rows, &first, &count);
    gd__aside_begin(t->ctx);
    gd_tensor *part = gd_keep(gd_copy(gd_slice(*x, "0", first, first + count, 1)));
    gd__aside_end(t->ctx);
    if (!part) return gd_error(t->ctx);
    gd_release(*x);
    *x = part;
    return GD_OK;
}

gd_status gd__part_keep(gd_trainer *t)
{
    gd_status status = cut_part(t, &t->x);
    t->parted = !status;
    return status ? status : cut_part(t, &t->check_x);
}

static void free_taken(gd_trainer *t)
{
    gd_release(t->taken);
    gd__free(t->ctx, t->place, t->place ? t->place_bytes : 0);
    t->taken = NULL;
    t->place = NULL;
}

void gd__part_free(gd_trainer *t)
{
    free_taken(t);
    t->parted = false;
}

/* ---- an epoch ---- */

/* Which rank sends which rows to which rank: depends on the order alone, so it is equal on every rank. */
typedef struct passage {
    int64_t rows, count;      /* of the epoch; of those that are taken here */
    int64_t *cuts, *out_cuts; /* [ranks + 1]: of rows that leave and come */
    int64_t *leaves;          /* rows of this rank's part, those for rank 0 first */
    int64_t *comes;           /* of each taken row the place among those that come */
    int32_t *taker;           /* of each place in the order */
} passage;

/* t->place: for each position in the order, the index among the taken rows; -1: a different rank's. */
static void find_takers(gd_trainer *t, passage *p)
{
    const gd_recipe *r = &t->point.recipe;
    int size = gd_world_size(t->point.world), own = gd_world_rank(t->point.world);
    int64_t batch = r->batch ? r->batch : p->rows;
    for (int64_t at = 0; at < p->rows; at += batch) {
        int64_t length = at + batch < p->rows ? batch : p->rows - at;
        int64_t microbatches = (length + r->microbatch - 1) / r->microbatch;
        for (int64_t i = 0; i < length; i++) {
            int taker = gd__sharer(size, microbatches, i / r->microbatch);
            p->taker[at + i] = taker;
            t->place[at + i] = taker == own ? p->count++ : -1;
        }
    }
}

/* The rank whose part has a row, see gd__measure_share. */
static int keeper_of(const gd_trainer *t, int64_t rows, int64_t row)
{
    int64_t pieces = (rows + GD_MEASURE_ROWS - 1) / GD_MEASURE_ROWS;
    return gd__sharer(gd_world_size(t->point.world), pieces, row / GD_MEASURE_ROWS);
}

/* From how many for each rank to where those of each begin. */
static void add_up(int64_t *cuts, int ranks)
{
    for (int r = 0; r < ranks; r++) cuts[r + 1] += cuts[r];
}

/* From where those of each rank end to where they begin. */
static void begin_again(int64_t *cuts, int ranks)
{
    memmove(cuts + 1, cuts, (size_t)ranks * sizeof *cuts);
    cuts[0] = 0;
}

/* How many go from here to each rank and come from each; then which, both in the order of the epoch. */
static void find_rows(const gd_trainer *t, passage *p)
{
    int size = gd_world_size(t->point.world), own = gd_world_rank(t->point.world);
    int64_t first, count;
    gd__measure_share(&t->point, p->rows, &first, &count);
    for (int64_t i = 0; i < p->rows; i++) {
        int keeper = keeper_of(t, p->rows, t->order[i]), taker = p->taker[i];
        p->cuts[taker + 1] += keeper == own;
        p->out_cuts[keeper + 1] += taker == own;
    }
    add_up(p->cuts, size);
    add_up(p->out_cuts, size);
    for (int64_t i = 0; i < p->rows; i++) {
        int keeper = keeper_of(t, p->rows, t->order[i]), taker = p->taker[i];
        if (keeper == own) p->leaves[p->cuts[taker]++] = t->order[i] - first;
        if (taker == own) p->comes[t->place[i]] = p->out_cuts[keeper]++;
    }
    begin_again(p->cuts, size);
    begin_again(p->out_cuts, size);
}

static gd_tensor *selected(gd_trainer *t, gd_tensor *from, const int64_t *index, int64_t count)
{
    return gd_index_select(from, "0",
                           gd_to_device(gd_from_data(t->ctx, GD_I64, 1, &count, index), t->device));
}

/* Each row goes where it is wanted, once.  status: how it went so far; who fails tells the others. */
static gd_status pass_rows(gd_trainer *t, passage *p, gd_status status)
{
    int64_t shape[GD_MAX_DIMS], width = 1;
    memcpy(shape, gd_shape(t->x), (size_t)gd_ndim(t->x) * sizeof *shape);
    for (int i = 1; i < gd_ndim(t->x); i++) width *= shape[i];
    gd_collective what = {.kind = GD_ALL_TO_ALL, .name = "rows", .failed = status};
    if (!status) {
        int size = gd_world_size(t->point.world);
        what.tensor = selected(t, t->x, p->leaves, p->cuts[size]);
        shape[0] = p->count;
        what.out = gd_empty_on(t->device, gd_tensor_dtype(t->x), gd_ndim(t->x), shape);
        for (int r = 0; r <= size; r++) p->cuts[r] *= width;
        for (int r = 0; r <= size; r++) p->out_cuts[r] *= width;
        what.cuts = p->cuts;
        what.out_cuts = p->out_cuts;
    }
    status = gd__world_call(t->point.world, &what);
    if (status) return status;
    t->taken = gd_keep(selected(t, what.out, p->comes, p->count));
    return t->taken ? GD_OK : gd_error(t->ctx);
}

gd_status gd__part_take(gd_trainer *t, int64_t rows)
{
    if (!t->parted) return GD_OK;
    gd_ctx *ctx = t->ctx;
    size_t ranks = (size_t)gd_world_size(t->point.world) + 1;
    size_t bytes = (2 * ranks + 2 * (size_t)rows) * sizeof(int64_t), takers = (size_t)rows * sizeof(int32_t);
    free_taken(t);
    t->place_bytes = (size_t)rows * sizeof *t->place;
    t->place = gd__alloc(ctx, t->place_bytes);
    passage p = {.rows = rows, .cuts = gd__calloc(ctx, bytes), .taker = gd__alloc(ctx, takers)};
    gd_status status = t->place && p.cuts && p.taker ? GD_OK : GD_NOMEM;
    if (!status) {
        p.out_cuts = p.cuts + ranks;
        p.leaves = p.out_cuts + ranks;
        p.comes = p.leaves + rows;
        find_takers(t, &p);
        find_rows(t, &p);
    }
    gd__aside_begin(ctx);
    gd_no_grad_begin(ctx);
    status = pass_rows(t, &p, status);
    gd_no_grad_end(ctx);
    gd__aside_end(ctx);
    gd__free(ctx, p.cuts, p.cuts ? bytes : 0);
    gd__free(ctx, p.taker, p.taker ? takers : 0);
    return status;
}

gd_tensor *gd__part_rows(gd_trainer *t, int64_t at, int64_t count)
{
    int64_t from = t->place[at];
    return gd_slice(t->taken, "0", from, from + count, 1);
}
