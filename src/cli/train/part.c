/* Rows over processes; see part.h. */
#include "cli/train/part.h"

#include "gradus/autograd.h"
#include "world/world.h"

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

/* t->place: of each place in the order, which of the taken rows it is; -1: another rank's.  How many are taken. */
static int64_t find_places(gd_trainer *t, int64_t rows)
{
    const gd_recipe *r = &t->point.recipe;
    int64_t batch = r->batch ? r->batch : rows, count = 0, first, grains;
    memset(t->place, -1, t->place_bytes);
    for (int64_t at = 0; at < rows; at += batch) {
        int64_t length = at + batch < rows ? batch : rows - at;
        gd_world_share(t->point.world, (length + r->grain - 1) / r->grain, &first, &grains);
        int64_t end = (first + grains) * r->grain;
        for (int64_t i = first * r->grain; i < end && i < length; i++) t->place[at + i] = count++;
    }
    return count;
}

typedef struct part {
    int64_t first, count; /* rows of a rank */
    int64_t found;        /* of them that are taken here */
    gd_tensor *rows;
} part;

static part part_of(const gd_trainer *t, int rank, int64_t rows)
{
    int64_t pieces = (rows + GD_MEASURE_ROWS - 1) / GD_MEASURE_ROWS, first, count;
    gd__share(rank, gd_world_size(t->point.world), pieces, &first, &count);
    int64_t end = (first + count) * GD_MEASURE_ROWS;
    part p = {.first = first * GD_MEASURE_ROWS < rows ? first * GD_MEASURE_ROWS : rows};
    p.count = (end < rows ? end : rows) - p.first;
    return p;
}

/* The part of a rank comes; index [most]: room.  to: of each taken row its place among those that came before and these. */
static gd_status take_from(gd_trainer *t, int rank, int64_t rows, part *p, int64_t *index, int64_t *to,
                           int64_t *came)
{
    gd_ctx *ctx = t->ctx;
    int64_t shape[GD_MAX_DIMS] = {p->count};
    memcpy(shape + 1, gd_shape(t->x) + 1, (size_t)(gd_ndim(t->x) - 1) * sizeof *shape);
    if (!p->count) return GD_OK;
    bool own = rank == gd_world_rank(t->point.world);
    gd_scope_begin(ctx); /* the part of a rank is forgotten before the next one comes */
    gd_tensor *all = own ? t->x : gd_empty_on(t->device, gd_tensor_dtype(t->x), gd_ndim(t->x), shape);
    gd_status status = gd_world_broadcast(t->point.world, all, rank);
    for (int64_t i = 0; i < rows && !status; i++) {
        if (t->place[i] < 0 || t->order[i] < p->first || t->order[i] >= p->first + p->count) continue;
        index[p->found++] = t->order[i] - p->first;
        to[t->place[i]] = (*came)++;
    }
    bool some = !status && p->found;
    gd_tensor *wanted = some ? gd_to_device(gd_from_data(ctx, GD_I64, 1, &p->found, index), t->device) : NULL;
    p->rows = gd__scope_leave(ctx, some ? gd_index_select(all, "0", wanted) : NULL);
    return some && !p->rows ? gd_error(ctx) : status;
}

/* All that came, in the order in which it is used.  New. */
static gd_tensor *in_order(gd_trainer *t, const part *parts, int ranks, const int64_t *to, int64_t count)
{
    gd_tensor **list = gd__calloc(t->ctx, (size_t)ranks * sizeof *list), *all = NULL;
    int used = 0;
    for (int r = 0; list && r < ranks; r++)
        if (parts[r].rows) list[used++] = parts[r].rows;
    gd_tensor *index = gd_to_device(gd_from_data(t->ctx, GD_I64, 1, &count, to), t->device);
    if (list && used) all = gd_index_select(gd_cat(list, used, "0"), "0", index);
    gd__free(t->ctx, list, list ? (size_t)ranks * sizeof *list : 0);
    return all;
}

static gd_status take_all(gd_trainer *t, int64_t rows, int64_t count, part *parts, int64_t *room)
{
    int ranks = gd_world_size(t->point.world);
    int64_t came = 0;
    gd_status status = GD_OK;
    for (int r = 0; r < ranks && !status; r++) {
        parts[r] = part_of(t, r, rows);
        status = take_from(t, r, rows, &parts[r], room, room + rows, &came);
    }
    if (status || !count) return status;
    t->taken = gd_keep(in_order(t, parts, ranks, room + rows, count));
    return t->taken ? GD_OK : gd_error(t->ctx);
}

gd_status gd__part_take(gd_trainer *t, int64_t rows)
{
    if (!t->parted) return GD_OK;
    size_t lists = 2 * (size_t)rows * sizeof(int64_t),
           parts = (size_t)gd_world_size(t->point.world) * sizeof(part);
    free_taken(t);
    t->place_bytes = (size_t)rows * sizeof *t->place;
    t->place = gd__alloc(t->ctx, t->place_bytes);
    int64_t *room = gd__alloc(t->ctx, lists);
    part *each = gd__calloc(t->ctx, parts);
    gd__aside_begin(t->ctx);
    gd_no_grad_begin(t->ctx);
    gd_status status = t->place && room && each ? GD_OK : GD_NOMEM;
    if (!status) status = take_all(t, rows, find_places(t, rows), each, room);
    gd_no_grad_end(t->ctx);
    gd__aside_end(t->ctx);
    gd__free(t->ctx, room, room ? lists : 0);
    gd__free(t->ctx, each, each ? parts : 0);
    return status;
}

gd_tensor *gd__part_rows(gd_trainer *t, int64_t at, int64_t count)
{
    int64_t from = t->place[at];
    return gd_slice(t->taken, "0", from, from + count, 1);
}
