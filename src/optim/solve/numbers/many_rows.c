/* Many fits of a model made of operators: the rows of a fit are copied to a fixed buffer, and the recording of the model over that buffer is
 * replayed. There is one recording per number of rows; with many different numbers, rows are padded with copies of the last one, whose residuals are
 * ignored. */
#include "gradus/trace.h"
#include "optim/solve/numbers/many_fits.h"
#include "optim/vector/layout.h"
#include "tensor/tensor_internal.h"

#include <string.h>

#define RECORDINGS 32 /* per thread */
#define LENGTHS    16 /* different numbers of rows from which on rows are padded */

typedef struct recording {
    struct state *state;
    int64_t rows, per_row; /* residuals of a row; 0: not known yet */
    gd_traced *traced;
    char *data; /* the tables of these rows, one after the other */
    size_t bytes;
} recording;

/* Buffers of a thread. */
typedef struct state {
    gd_ctx *ctx;
    gd_many_rows *all;
    void *model;
    bool opened;
    gd_tensor **param, **j; /* [count] */
    double *room;
    size_t room_bytes;
    recording kept[RECORDINGS], *now;
    int next;
    int64_t rows; /* of the fit under way */
} state;

static const gd_rows *rows_of(const state *s) { return s->all->of->rows; }

static size_t row_bytes(const gd_tensor *t) { return (size_t)(t->numel / t->size[0]) * gd__item_size(t); }

/* The model at the rows in the buffer. */
static gd_tensor *call_model(void *user, gd_tensor *const *in, int count)
{
    const recording *rec = user;
    const state *s = rec->state;
    const gd_rows *rows = rows_of(s);
    gd_tensor *data[64];
    const char *from = rec->data;
    (void)count;
    for (int k = 0; k < rows->columns; k++) {
        const gd_tensor *t = s->all->table[k];
        int64_t size[GD_MAX_DIMS];
        memcpy(size, t->size, sizeof size);
        size[0] = rec->rows;
        if (!(data[k] = gd_traced_input(s->ctx, t->dtype, t->ndim, size, from))) return NULL;
        from += (row_bytes(t) * (size_t)rec->rows + 7) / 8 * 8;
    }
    gd_tensor *r = rows->residuals(s->model, in, data, 0);
    if (!r && !gd_error(s->ctx)) gd_fail(s->ctx, GD_CALLBACK, "least squares: the residuals are NULL");
    return r ? gd_reshape(gd_drop_names(r), 1, &r->numel) : NULL;
}

static void forget(recording *rec, gd_ctx *ctx)
{
    gd_traced_free(rec->traced);
    gd__free(ctx, rec->data, rec->bytes);
    *rec = (recording){0};
}

static recording *recording_for(state *s, int64_t rows)
{
    for (int i = 0; i < RECORDINGS; i++)
        if (s->kept[i].traced && s->kept[i].rows == rows) return &s->kept[i];
    recording *rec = &s->kept[s->next];
    s->next = (s->next + 1) % RECORDINGS;
    forget(rec, s->ctx);
    *rec = (recording){.state = s, .rows = rows, .bytes = 8};
    for (int k = 0; k < rows_of(s)->columns; k++)
        rec->bytes += (row_bytes(s->all->table[k]) * (size_t)rows + 7) / 8 * 8;
    rec->data = gd__calloc(s->ctx, rec->bytes);
    rec->traced = rec->data ? gd_trace(s->ctx, call_model, rec, NULL) : NULL;
    if (rec->traced) return rec;
    forget(rec, s->ctx);
    return NULL;
}

/* Rows first .. first + count - 1 of the tables, the last one repeated if the recording has more. */
static void fill_rows(const state *s, int64_t first, int64_t count)
{
    char *to = s->now->data;
    for (int k = 0; k < rows_of(s)->columns; k++) {
        const gd_tensor *t = s->all->table[k];
        size_t bytes = row_bytes(t);
        const char *from = (const char *)gd_data(t) + (size_t)first * bytes;
        memcpy(to, from, bytes * (size_t)count);
        for (int64_t i = count; i < s->now->rows; i++)
            memcpy(to + (size_t)i * bytes, from + (size_t)(count - 1) * bytes, bytes);
        to += (bytes * (size_t)s->now->rows + 7) / 8 * 8;
    }
}

static double *room_for(state *s, int64_t count)
{
    size_t bytes = (size_t)count * sizeof(double);
    if (bytes <= s->room_bytes) return s->room;
    gd__free(s->ctx, s->room, s->room_bytes);
    s->room_bytes = 0;
    if ((s->room = gd__alloc(s->ctx, bytes))) s->room_bytes = bytes;
    return s->room;
}

/* The numbers of a tensor: in place, or copied to the buffer.  NULL on failure. */
static const double *numbers_of(state *s, const gd_tensor *t)
{
    if (t->dtype == GD_F64 && gd__contiguous(t)) return gd_data(t);
    double *all = room_for(s, t->numel);
    return all && !gd_read_f64(t, all, t->numel) ? all : NULL;
}

/* The residuals, of the recording's rows. */
static gd_tensor *residuals_at(state *s, const double *x)
{
    int count = s->all->of->like_count;
    for (int k = 0; k < count; k++) {
        gd_tensor *t = s->param[k]; /* created here: no other reference exists */
        if (t->dtype == GD_F64) {
            memcpy(t->data, x, (size_t)t->numel * sizeof *x);
            gd__touch(t);
        } else if (gd_write_f64(t, x, t->numel))
            return NULL;
        x += t->numel;
    }
    return gd_traced_value(s->now->traced, s->param, count);
}

static gd_status residual(void *user, const double *x, double *r)
{
    state *s = user;
    gd_tensor *t = residuals_at(s, x);
    if (!t) return gd_error(s->ctx);
    if (t->numel != s->now->per_row * s->now->rows)
        return gd_fail(s->ctx, GD_SHAPE, "least squares: the number of residuals changed");
    const double *all = numbers_of(s, t);
    if (!all) return gd_error(s->ctx);
    memcpy(r, all, (size_t)(s->rows * s->now->per_row) * sizeof *r);
    return GD_OK;
}

/* A block of columns [rows][width] into rows of n elements. */
static void put_columns(const double *block, int64_t rows, int64_t width, double *to, int64_t n)
{
    for (int64_t i = 0; i < rows && width > 1; i++)
        memcpy(to + i * n, block + i * width, (size_t)width * sizeof *to);
    for (const double *end = block + rows; width == 1 && block < end; block++, to += n) *to = *block;
}

static gd_status jacobian(void *user, const double *x, double *values)
{
    state *s = user;
    int count = s->all->of->like_count;
    int64_t m = s->rows * s->now->per_row, n = s->all->params, at = 0;
    (void)x; /* residuals were computed there */
    gd_status status = gd_traced_jacobian(s->now->traced, s->param, count, s->j);
    for (int k = 0; k < count && !status; k++) {
        gd_tensor *j = s->j[k];
        int64_t width = s->param[k]->numel;
        const double *all = numbers_of(s, j);
        if (!all) status = gd_error(s->ctx);
        if (!status) put_columns(all, m, width, values + at, n);
        at += width;
    }
    return status;
}

static int64_t filled_up(const gd_many_rows *all, int64_t rows)
{
    int64_t unit = 1;
    while (all->pads && rows / unit >= 8) unit *= 2;
    return (rows + unit - 1) / unit * unit;
}

static gd_status problem_of(void *user, int64_t fit, gd_lsq_problem *out)
{
    state *s = user;
    const gd_lsq_many *of = s->all->of;
    s->rows = of->first[fit + 1] - of->first[fit];
    *out = (gd_lsq_problem){.params = s->all->params, .user = s, .residual = residual, .jacobian = jacobian};
    if (!s->rows) return gd_fail(s->ctx, GD_SHAPE, "least squares: fit %lld has no rows", (long long)fit);
    if (!(s->now = recording_for(s, filled_up(s->all, s->rows)))) return gd_error(s->ctx);
    fill_rows(s, of->first[fit], s->rows);
    if (!s->now->per_row) { /* the first evaluation gives the number per row */
        gd_tensor *t = gd_traced_value(s->now->traced, s->param, of->like_count);
        if (!t) return gd_error(s->ctx);
        if (!t->numel || t->numel % s->now->rows)
            return gd_fail(s->ctx, GD_SHAPE, "least squares: %lld residuals of %lld rows",
                           (long long)t->numel, (long long)s->now->rows);
        s->now->per_row = t->numel / s->now->rows;
    }
    out->residuals = s->rows * s->now->per_row;
    return GD_OK;
}

/* ---- a thread ---- */

static void close_state(void *user)
{
    state *s = user;
    int count = s->all->of->like_count;
    for (int i = 0; i < RECORDINGS; i++) forget(&s->kept[i], s->ctx);
    if (s->opened && rows_of(s)->close) rows_of(s)->close(s->model);
    for (int k = 0; k < count && s->param; k++) gd_release(s->param[k]);
    gd__free(s->ctx, s->param, 2 * (size_t)count * sizeof *s->param);
    gd__free(s->ctx, s->room, s->room_bytes);
    gd__free(s->ctx, s, sizeof *s);
}

static bool open_params(state *s)
{
    const gd_lsq_many *of = s->all->of;
    for (int k = 0; k < of->like_count; k++) {
        const gd_tensor *like = of->like[k];
        gd_tensor *t = gd_zeros(s->ctx, like->dtype, like->ndim, like->size);
        if (!t || !(s->param[k] = gd_keep(gd_require_grad(t)))) return false;
    }
    return true;
}

static void *open_state(void *user, gd_ctx *ctx)
{
    gd_many_rows *all = user;
    state *s = gd__calloc(ctx, sizeof *s);
    if (!s) return NULL;
    *s = (state){.ctx = ctx, .all = all};
    int count = all->of->like_count;
    gd_scope_begin(ctx);
    s->param = gd__calloc(ctx, 2 * (size_t)count * sizeof *s->param);
    s->j = s->param + count;
    bool ok = s->param && open_params(s);
    s->model = rows_of(s)->user;
    if (ok && rows_of(s)->open) {
        s->model = rows_of(s)->open(rows_of(s)->user, ctx);
        ok = s->opened = s->model != NULL;
    }
    gd_scope_end(ctx);
    if (ok) return s;
    close_state(s);
    return NULL;
}

/* ---- the tables ---- */

static gd_status check_rows(gd_ctx *ctx, const gd_lsq_many *of)
{
    const gd_rows *rows = of->rows;
    if (!rows->residuals || !of->like || of->like_count <= 0 || !of->first || rows->columns > 64 ||
        rows->world)
        return gd_fail(
            ctx, GD_ARGUMENT,
            "least squares: rows of many fits need residuals, parameters like theirs, where fits begin, at most 64 tables, and no world");
    for (int k = 0; k < of->like_count; k++)
        if (!of->like[k] || !gd_dtype_is_float(of->like[k]->dtype))
            return gd_fail(ctx, GD_ARGUMENT, "least squares: parameter %d is NULL or not floating", k);
    for (int64_t i = 0; i < of->fits; i++)
        if (of->first[i] < 0 || of->first[i + 1] < of->first[i] || of->first[i + 1] > rows->count)
            return gd_fail(ctx, GD_SHAPE, "least squares: fit %lld has rows %lld to %lld of %lld",
                           (long long)i, (long long)of->first[i], (long long)of->first[i + 1],
                           (long long)rows->count);
    for (int k = 0; k < rows->columns; k++) {
        const gd_tensor *t = rows->data ? rows->data[k] : NULL;
        if (!t || t->ndim < 1 || t->size[0] < rows->count || t->storage->device != gd__cpu(ctx))
            return gd_fail(ctx, GD_SHAPE,
                           "least squares: table %d is NULL, not on the CPU or has less than %lld rows", k,
                           (long long)rows->count);
    }
    return GD_OK;
}

/* Are there too many lengths for a recording each? */
static bool many_lengths(const gd_lsq_many *of)
{
    int64_t seen[LENGTHS];
    int count = 0;
    for (int64_t i = 0; i < of->fits; i++) {
        int64_t rows = of->first[i + 1] - of->first[i];
        int k = 0;
        while (k < count && seen[k] != rows) k++;
        if (k < count) continue;
        if (count == LENGTHS) return true;
        seen[count++] = rows;
    }
    return false;
}

gd_status gd__many_rows(gd_ctx *ctx, const gd_lsq_many *of, gd_many_rows *rows, gd_lsq_many *out)
{
    gd_status status = check_rows(ctx, of);
    if (status) return status;
    *rows = (gd_many_rows){
        .of = of, .pads = many_lengths(of), .params = gd__list_numel(of->like, of->like_count)};
    out->user = rows;
    out->open = open_state;
    out->close = close_state;
    out->problem = problem_of;
    out->params = rows->params;
    rows->table = gd__calloc(ctx, ((size_t)of->rows->columns + 1) * sizeof *rows->table);
    if (!rows->table) return GD_NOMEM;
    gd_scope_begin(ctx);
    for (int k = 0; k < of->rows->columns && !status; k++) {
        gd_tensor *t = gd_contiguous(of->rows->data[k]);
        if (!(rows->table[k] = t ? gd_retain(t) : NULL)) status = gd_error(ctx);
    }
    gd_scope_end(ctx);
    return status;
}

void gd__many_rows_end(gd_ctx *ctx, gd_many_rows *rows)
{
    if (!rows->table) return;
    for (int k = 0; k < rows->of->rows->columns; k++) gd_release(rows->table[k]);
    gd__free(ctx, rows->table, ((size_t)rows->of->rows->columns + 1) * sizeof *rows->table);
    rows->table = NULL;
}
