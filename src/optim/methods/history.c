/* The history of L-BFGS and L-SR1: the last pairs s = change of the parameters, y = change of the update.
 *
 *   s_history, y_history   [most + 1, n]  rings of rows; one row is always free: a new pair is written there before it is
 *                                         known whether it will be taken
 *   gram                   [3, most + 1, most + 1] in f64: products of rows s s, s y and y y
 *
 * All later work is done in the small space of these products: an update costs one reading of the history for the
 * products with it, and one for the combination.  All of it is state of the link: s_history, y_history, gram, pairs,
 * newest, and a parameter's previous_params and previous_update. */
#include "optim/methods/history.h"

#include "optim/step/objective/bounds.h"

#include <math.h>
#include <string.h>

/* The numbers that decide whether a pair is accepted. */
typedef struct gd_pair_rules {
    double ptol, gtol, sy_tol; /* NAN: none */
    bool ptol_restart, gtol_restart;
    char damping; /* 0: none, 'p' Powell, 'd' double */
} gd_pair_rules;

/* Results of one pass over the history. Sums of a span: for each row its products with u (the update), y and s (the new
 * pair), then the largest of |s| and |y|. */
enum { SU, SY, SS, YU, YY, YS, PRODUCTS };

static size_t partial_size(const gd_history *h) { return (size_t)h->rows * PRODUCTS + 2; }
static size_t room_bytes(const gd_history *h)
{
    return (2 * (size_t)h->rows + partial_size(h)) * sizeof(double);
}

static double gram_at(const gd_history *h, const double *m, int i, int j)
{
    return m[gd__history_row(h, i) * h->rows + gd__history_row(h, j)];
}

/* ---- opening ---- */

gd_tensor *gd__history_held(gd_history *h, const char *name, const gd_layout *like, int ndim,
                            const int64_t *size, bool *made)
{
    gd_tensor *t = gd_link_global_tensor(h->link, name);
    bool fits = t && t->ndim == ndim && t->dtype == like->dtype;
    for (int i = 0; i < ndim && fits; i++) fits = t->size[i] == size[i];
    if (fits && t->storage->device == like->device) return t;
    if (gd_error(like->ctx)) return NULL;
    *made = *made || !fits;
    t = fits ? gd__copy_on(t, like->device) : gd__layout_tensor(like, ndim, size);
    gd_status status = t ? gd_link_set_global_tensor(h->link, name, t) : GD_NOMEM;
    gd__release(t);
    return status ? NULL : t;
}

/* update: the tensors it is opened for, of which this rank may have only its shards; NULL: for inspection, whole. */
static gd_status history_open(gd_history *h, gd_link *link, gd_var *var, gd_tensor *const *update, bool own,
                              bool uses_ss)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int most = (int)gd_link_real(link, "history_size", NULL);
    *h = (gd_history){
        .link = link, .params = gd_var_params(var), .most = most, .rows = most + 1, .uses_ss = uses_ss};
    gd_status status = gd__layout_init(&h->layout, ctx, h->params, gd_var_count(var));
    if (status) return status;
    gd_layout host = {.ctx = ctx, .device = gd__cpu(ctx), .dtype = GD_F64};
    bool made = false;
    const int64_t size[2] = {h->rows, h->layout.total};
    h->width = h->layout.total;
    h->own = own;
    if (own || (update && gd__history_is_shared(link, var) && gd__plain(&h->layout, update)))
        h->shared = var->optimizer;
    if (h->shared) gd__history_find_columns(h);
    h->s = h->shared ? gd__history_columns(h, "s_history", &made)
                     : gd__history_held(h, "s_history", &h->layout, 2, size, &made);
    h->y = h->shared ? gd__history_columns(h, "y_history", &made)
                     : gd__history_held(h, "y_history", &h->layout, 2, size, &made);
    h->gram = gd__history_held(h, "gram", &host, 3, (int64_t[]){3, h->rows, h->rows}, &made);
    h->s_dots = gd_link_memory(link, room_bytes(h)); /* zeros */
    if (!h->s || !h->y || !h->gram || !h->s_dots) return gd_error(ctx);
    /* memory for the counts now: they must be in the same block later */
    h->kept_pairs = gd_link_global(link, "pairs", 0);
    h->kept_newest = gd_link_global(link, "newest", 0);
    if (!h->kept_pairs || !h->kept_newest) return gd_error(ctx);
    if (made) *h->kept_pairs = 0;
    h->y_dots = h->s_dots + h->rows;
    h->sums = h->y_dots + h->rows;
    h->ss = (double *)(void *)h->gram->data;
    h->sy = h->ss + h->rows * h->rows;
    h->yy = h->sy + h->rows * h->rows;
    h->pairs = (int)*h->kept_pairs;
    h->newest = (int)*h->kept_newest;
    /* a checkpoint is untrusted data: indices are kept inside the ring */
    if (h->pairs < 0 || h->pairs > most || h->newest < 0 || h->newest > most) h->pairs = h->newest = 0;
    return GD_OK;
}

int64_t gd_limited_memory_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    if (!link || !params || count < 1) return 0;
    int64_t n, item = gd__vector_item(params, count, &n),
               rows = (int64_t)gd_link_real(link, "history_size", NULL) + 1;
    return gd_link_slot_bytes(2, params, count) + 2 * rows * n * item +
           3 * rows * rows * (int64_t)sizeof(double);
}

static void history_close(gd_history *h) { gd__layout_free(&h->layout); }

/* ---- products ---- */

typedef struct dots_job {
    gd_history *h;
    gd_tensor *const *update, *const *before_p, *const *before_u;
    bool pair, dots; /* a new pair is considered; products with the update are wanted */
    bool made;       /* the new pair is already in its row */
    int fresh;       /* its row */
    int oldest; /* the first of the other pairs: 1 if the oldest pair goes when the new one is accepted */
    double *partial; /* [spans][rows * PRODUCTS + 2] */
} dots_job;

#define LONG_BYTES ((size_t)1 << 25)

/* Vectors too long to stay in a cache. */
static bool is_long(const gd_layout *l) { return (size_t)l->total * l->item > LONG_BYTES; }

/* A piece of the vector: the update and the new pair stay in cache while the rows of the others are read. */
typedef struct piece_job {
    const dots_job *j;
    gd_span span;
    const void *u, *s, *y; /* s, y: NULL without a pair */
    double *partial;
} piece_job;

/* Some rows, and where their pieces of s and y are in turn. */
typedef struct some_rows {
    int count, row[GD_SOME_PAIRS];
    const void *piece[2 * GD_SOME_PAIRS];
} some_rows;

static void add_row(const piece_job *w, some_rows *some, int row)
{
    const gd_history *h = w->j->h;
    bool fresh = w->j->pair && row == w->j->fresh;
    size_t at = ((size_t)row * (size_t)h->width + (size_t)w->span.at) * h->layout.item;
    some->piece[2 * some->count] = fresh ? w->s : h->s->data + at;
    some->piece[2 * some->count + 1] = fresh ? w->y : h->y->data + at;
    some->row[some->count++] = row;
}

/* Adds the products of some rows with x and y; `of` is their offset for s; for y it is YU more. */
static void add_products(const piece_job *w, const some_rows *some, const void *x, int of_x, const void *y,
                         int of_y)
{
    double four[4 * GD_SOME_PAIRS];
    w->j->h->layout.loops->dots(some->piece, 2 * some->count, x, y, w->span.size, four);
    for (int i = 0; i < some->count; i++) {
        double *out = w->partial + some->row[i] * PRODUCTS;
        out[SU + of_x] += four[4 * i];
        out[YU + of_x] += four[4 * i + 2];
        if (of_y == of_x) continue;
        out[SU + of_y] += four[4 * i + 1];
        out[YU + of_y] += four[4 * i + 3];
    }
}

static void some_products(const piece_job *w, const some_rows *some)
{
    const dots_job *j = w->j;
    if (!j->pair)
        add_products(w, some, w->u, SU, w->u, SU);
    else if (!j->dots)
        add_products(w, some, w->s, SS, w->y, SY);
    else
        add_products(w, some, w->u, SU, w->y, SY);
    if (j->pair && j->dots && j->h->uses_ss) add_products(w, some, w->s, SS, w->s, SS);
}

static double larger(double a, double b) { return b <= a || a != a ? a : b; }

/* This rank may have only its shard of the previous values and of the update. */
static void *before_at(const dots_job *j, gd_tensor *const *list, const gd_span *s)
{
    return j->h->shared ? gd__history_own_at(j->h, list, s) : gd__in_list(&j->h->layout, list, s);
}

static void *update_at(const gd_history *h, gd_tensor *const *list, const gd_span *s)
{
    return h->own ? gd__history_own_at(h, list, s) : gd__in_list(&h->layout, list, s);
}

/* The new pair.  Long vectors: the pair is computed in a buffer, used for its products, and written to its rows without
 * reading them first. */
static void make_pair(piece_job *w, char room[2][GD_PIECE_BYTES])
{
    const dots_job *j = w->j;
    const gd_history *h = j->h;
    const gd_layout *l = &h->layout;
    int64_t n = w->span.size;
    void *row[2] = {gd__in_vector(l, gd__history_at(h, h->s, j->fresh), &w->span),
                    gd__in_vector(l, gd__history_at(h, h->y, j->fresh), &w->span)};
    bool far = is_long(l) && !j->made && ((uintptr_t)row[0] | (uintptr_t)row[1]) % 64 == 0;
    void *s = far ? room[0] : row[0], *y = far ? room[1] : row[1];
    double *most = w->partial + h->rows * PRODUCTS, here[2];
    if (j->made) {
        here[0] = l->loops->largest(s, NULL, n);
        here[1] = l->loops->largest(y, NULL, n);
    } else
        l->loops->pair(s, y, before_at(j, j->before_p, &w->span), before_at(j, j->before_u, &w->span),
                       gd__in_list(l, h->params, &w->span), w->u, n, here, far ? row : NULL);
    most[0] = larger(most[0], here[0]);
    most[1] = larger(most[1], here[1]);
    w->s = s;
    w->y = y;
}

static void piece_products(piece_job *w)
{
    const dots_job *j = w->j;
    const gd_history *h = j->h;
    _Alignas(64) char room[2][GD_PIECE_BYTES];
    some_rows some;
    some.count = 0;
    if (j->pair) {
        make_pair(w, room);
        add_row(w, &some, j->fresh);
    }
    for (int k = j->oldest, row = gd__history_row(h, k); k < h->pairs; k++) {
        if (some.count == GD_SOME_PAIRS) {
            some_products(w, &some);
            some.count = 0;
        }
        add_row(w, &some, row);
        row = row + 1 == h->rows ? 0 : row + 1;
    }
    if (some.count) some_products(w, &some);
}

static void span_products(void *arg, const gd_span *span, int64_t index)
{
    const dots_job *j = arg;
    const gd_layout *l = &j->h->layout;
    int64_t most = GD_PIECE_BYTES / (int64_t)l->item;
    for (int64_t at = span->at < 0 ? span->size : 0; at < span->size; at += most) {
        piece_job w = {.j = j, .span = *span, .partial = j->partial + (size_t)index * partial_size(j->h)};
        w.span.begin += at;
        w.span.at += at;
        w.span.size = span->size - at < most ? span->size - at : most;
        w.u = update_at(j->h, j->update, &w.span);
        piece_products(&w);
    }
}

/* A short vector has one span: nothing is joined. Sums that start at 0 do not become -0. */
static void products_of_one_span(dots_job *j, double *sum)
{
    memset(sum, 0, partial_size(j->h) * sizeof *sum);
    j->partial = sum;
    span_products(j, j->h->layout.span, 0);
}

/* Plain loops: one reading of the history on all threads. */
static gd_status products_plain(dots_job *j, double *sum)
{
    gd_history *h = j->h;
    gd_ctx *ctx = h->layout.ctx;
    size_t size = partial_size(h), bytes = (size_t)h->layout.spans * size * sizeof(double);
    if (h->layout.spans == 1 && !h->shared) {
        products_of_one_span(j, sum);
        return GD_OK;
    }
    if (!(j->partial = gd__calloc(ctx, bytes))) return GD_NOMEM;
    gd__each_span(&h->layout, span_products, j);
    gd_status status = h->shared ? h->shared->shared.call->join(h->shared, j->partial,
                                                                (int64_t)((size_t)h->layout.spans * size))
                                 : GD_OK;
    memset(sum, 0, size * sizeof *sum);
    for (int i = 0; i < h->layout.spans; i++) {
        const double *partial = j->partial + (size_t)i * size;
        for (size_t k = 0; k < size - 2; k++) sum[k] += partial[k];
        sum[size - 2] = larger(sum[size - 2], partial[size - 2]);
        sum[size - 1] = larger(sum[size - 1], partial[size - 1]);
    }
    gd__free(ctx, j->partial, bytes);
    return status;
}

/* [rows] = matrix x, into every PRODUCTS-th number of sum. */
static gd_status times(const gd_history *h, gd_tensor *matrix, gd_tensor *x, int product, double *sum)
{
    gd_tensor *out = gd_matmul(matrix, x);
    double *values = gd__alloc_array(h->layout.ctx, (size_t)h->rows, sizeof *values);
    gd_status status = out && values ? gd_read_f64(out, values, h->rows) : gd_error(h->layout.ctx);
    for (int i = 0; i < h->rows && !status; i++) sum[i * PRODUCTS + product] = values[i];
    gd__free(h->layout.ctx, values, (size_t)h->rows * sizeof *values);
    return status;
}

gd_tensor *gd__history_vector(const gd_history *h, gd_tensor *const *list)
{
    gd_tensor *v = gd__layout_tensor(&h->layout, 1, &h->layout.total);
    if (v && gd__list_to_vector(&h->layout, list, v)) {
        gd__release(v);
        v = NULL;
    }
    return v;
}

/* The new pair into its rows, and the previous values replaced. */
static gd_status write_pair(dots_job *j, gd_tensor *u, gd_tensor *s, gd_tensor *y)
{
    gd_history *h = j->h;
    gd_tensor *p = gd__history_vector(h, h->params), *bp = gd__history_vector(h, j->before_p),
              *bu = gd__history_vector(h, j->before_u);
    gd_status status = p && bp && bu ? gd_assign(s, gd_sub(p, bp)) : gd_error(h->layout.ctx);
    if (!status) status = gd_assign(y, gd_sub(u, bu));
    for (int i = 0; i < h->layout.count && !status; i++) {
        status = gd_assign(j->before_p[i], h->params[i]);
        if (!status) status = gd_assign(j->before_u[i], j->update[i]);
    }
    gd__release(p);
    gd__release(bp);
    gd__release(bu);
    return status;
}

/* The new pair and its products, with operators. */
static gd_status pair_by_operators(dots_job *j, gd_tensor *u, double *sum)
{
    gd_history *h = j->h;
    const gd_layout *l = &h->layout;
    gd_tensor *s = gd_index(h->s, "0", j->fresh), *y = gd_index(h->y, "0", j->fresh);
    gd_status status = s && y ? GD_OK : gd_error(l->ctx);
    if (!status && !j->made) status = write_pair(j, u, s, y);
    double *most = sum + h->rows * PRODUCTS;
    if (!status && l->total) {
        most[0] = gd_item(gd_vector_most(gd_abs(s)));
        most[1] = gd_item(gd_vector_most(gd_abs(y)));
        status = gd_error(l->ctx);
    }
    if (!status) status = times(h, h->s, y, SY, sum);
    if (!status) status = times(h, h->y, y, YY, sum);
    if (!status && h->uses_ss) status = times(h, h->s, s, SS, sum);
    if (!status && h->uses_ss) status = times(h, h->y, s, YS, sum);
    return status;
}

static gd_status products_by_operators(dots_job *j, double *sum)
{
    gd_history *h = j->h;
    gd_ctx *ctx = h->layout.ctx;
    memset(sum, 0, partial_size(h) * sizeof *sum);
    gd__aside_begin(ctx);
    gd_tensor *u = gd__history_vector(h, j->update);
    gd_status status = u ? GD_OK : gd_error(ctx);
    if (!status && j->pair) status = pair_by_operators(j, u, sum);
    if (!status && j->dots) status = times(h, h->s, u, SU, sum);
    if (!status && j->dots) status = times(h, h->y, u, YU, sum);
    gd__release(u);
    gd__aside_end(ctx);
    return status;
}

static gd_status products(dots_job *j, double *sum)
{
    gd_history *h = j->h;
    bool plain = h->own || gd__plain(&h->layout, j->update);
    if (j->pair && !h->shared)
        plain = plain && gd__plain(&h->layout, j->before_p) && gd__plain(&h->layout, j->before_u);
    gd_status status = plain ? products_plain(j, sum) : products_by_operators(j, sum);
    for (int i = 0; i < h->rows && j->dots && !status; i++) {
        h->s_dots[i] = sum[i * PRODUCTS + SU];
        h->y_dots[i] = sum[i * PRODUCTS + YU];
    }
    return status;
}

static gd_status history_dots(gd_history *h, gd_tensor *const *update)
{
    dots_job j = {.h = h, .update = update, .dots = true};
    return products(&j, h->sums);
}

/* ---- pairs ---- */

static void set_gram(double *m, int rows, int i, int j, double value, bool symmetric)
{
    m[i * rows + j] = value;
    if (symmetric) m[j * rows + i] = value;
}

/* Products of the new row with the others; s_new y_old only if s s is used too. */
static void keep_products(gd_history *h, const dots_job *j, const double *sum)
{
    for (int k = 0; k <= h->pairs; k++) {
        int row = k < h->pairs ? gd__history_row(h, k) : j->fresh;
        const double *of = sum + row * PRODUCTS;
        set_gram(h->sy, h->rows, row, j->fresh, of[SY], false);
        set_gram(h->yy, h->rows, row, j->fresh, of[YY], true);
        if (!h->uses_ss) continue;
        set_gram(h->ss, h->rows, row, j->fresh, of[SS], true);
        set_gram(h->sy, h->rows, j->fresh, row, of[YS], false);
    }
}

static void keep_counts(gd_history *h)
{
    *h->kept_pairs = h->pairs;
    *h->kept_newest = h->newest;
}

static bool restarts(const gd_pair_rules *r, double s, double y)
{
    return (r->ptol_restart && s < r->ptol) || (r->gtol_restart && y < r->gtol);
}

/* A limit of NAN accepts everything; a value of NAN is always rejected. */
static bool takes(const gd_pair_rules *r, double s, double y, double sy)
{
    if (!isfinite(s) || !isfinite(y) || !isfinite(sy)) return false;
    if (s < r->ptol || y < r->gtol) return false;
    return isnan(r->sy_tol) || sy > r->sy_tol;
}

static gd_status first_time(gd_history *h, gd_tensor *const *update)
{
    gd_status status = GD_OK;
    for (int i = 0; i < h->layout.count && !status && h->shared; i++) {
        status = gd__history_keep(h, i, "previous_params", h->params[i], false);
        if (!status) status = gd__history_keep(h, i, "previous_update", update[i], h->own);
    }
    for (int i = 0; i < h->layout.count && !status && !h->shared; i++) {
        status = gd_link_set_state(h->link, h->params[i], "previous_params", h->params[i]);
        if (!status) status = gd_link_set_state(h->link, h->params[i], "previous_update", update[i]);
    }
    return status;
}

/* Damping: a pair with too little curvature is moved towards the initial matrix of the history, sigma I
 * (1 without pairs).  Powell (1978), with that matrix as in Wang, Ma, Goldfarb & Liu (2017):
 *     s y < 0.2 sigma s s:  y = theta y + (1 - theta) sigma s,  theta = 0.8 sigma s s / (sigma s s - s y)
 * double (Goldfarb, Ren & Bahamou 2020): the same for s against y y / sigma first, then for y. */
static double bend(double sy, double square) { return sy < 0.2 * square ? 0.8 * square / (square - sy) : 1; }

static gd_status damp(dots_job *j, const gd_pair_rules *rules, double *sum)
{
    gd_history *h = j->h;
    gd_ctx *ctx = h->layout.ctx;
    double sy = sum[j->fresh * PRODUCTS + SY], sigma = 1;
    if (h->pairs)
        sigma = gram_at(h, h->yy, h->pairs - 1, h->pairs - 1) / gram_at(h, h->sy, h->pairs - 1, h->pairs - 1);
    if (!isfinite(sigma) || sigma <= 0 || !isfinite(sy)) return GD_OK;
    gd__aside_begin(ctx);
    gd_tensor *s = gd_index(h->s, "0", j->fresh), *y = gd_index(h->y, "0", j->fresh);
    double change = 0;
    gd_status status = s && y ? GD_OK : gd_error(ctx);
    if (!status && rules->damping == 'd') {
        double theta = bend(sy, sum[j->fresh * PRODUCTS + YY] / sigma);
        change += 1 - theta;
        if (theta < 1)
            status = gd_assign(s, gd_add(gd_mul_scalar(s, theta), gd_mul_scalar(y, (1 - theta) / sigma)));
        if (!status) sy = gd_item(gd_dot(s, y));
    }
    if (!status) {
        double theta = bend(sy, sigma * gd_item(gd_dot(s, s)));
        change += 1 - theta;
        if (theta < 1)
            status = gd_assign(y, gd_add(gd_mul_scalar(y, theta), gd_mul_scalar(s, (1 - theta) * sigma)));
    }
    gd__aside_end(ctx);
    if (!status) status = gd_error(ctx);
    j->made = true;
    return status || change == 0 ? status : products(j, sum);
}

static gd_status history_update(gd_history *h, gd_tensor *const *update, const gd_pair_rules *rules,
                                bool with_dots)
{
    gd_ctx *ctx = h->layout.ctx;
    int count = h->layout.count;
    for (int i = 0; i < count; i++)
        if (!gd_link_has_state(h->link, h->params[i], "previous_params")) {
            gd_status status = first_time(h, update);
            return status || !with_dots ? status : history_dots(h, update);
        }
    gd_tensor **before = gd_link_scratch(h->link, 2 * count);
    double *sum = h->sums;
    gd_status status = GD_OK;
    if (!before) return gd_error(ctx);
    for (int i = 0; i < count && !status; i++) {
        before[i] = gd__history_previous(h, i, "previous_params");
        before[count + i] = gd__history_previous(h, i, "previous_update");
        if (!before[i] || !before[count + i]) status = gd_error(ctx);
    }
    dots_job j = {.h = h,
                  .update = update,
                  .before_p = before,
                  .before_u = before + count,
                  .pair = true,
                  .dots = with_dots,
                  .fresh = (h->newest + 1) % h->rows,
                  .oldest = h->pairs == h->most};
    if (!status) status = products(&j, sum);
    if (!status && rules->damping) status = damp(&j, rules, sum);
    const double *most = sum + h->rows * PRODUCTS;
    if (!status && restarts(rules, most[0], most[1]))
        h->pairs = 0;
    else if (!status && takes(rules, most[0], most[1], sum[j.fresh * PRODUCTS + SY])) {
        keep_products(h, &j, sum);
        h->newest = j.fresh;
        h->pairs += h->pairs < h->most;
    } else if (!status && j.oldest && with_dots)
        status = history_dots(h, update); /* the oldest pair stays */
    if (!status) keep_counts(h);
    return status;
}

/* ---- combinations ---- */

typedef struct combine_job {
    gd_history *h;
    gd_tensor *const *update, *const *out;
    double c;
    const double *coef; /* those of s, then those of y */
} combine_job;

static void combine_span(void *arg, const gd_span *span, int64_t index)
{
    (void)index;
    combine_job *j = arg;
    gd_history *h = j->h;
    const gd_layout *l = &h->layout;
    if (span->at < 0) return;
    void *out = update_at(h, j->out, span);
    const void *from = update_at(h, j->update, span);
    double c = j->c;
    bool past = is_long(l) && h->pairs <= GD_SOME_PAIRS;
    for (int at = 0; at == 0 || at < 2 * h->pairs; at += 2 * GD_SOME_PAIRS) {
        const void *rows[2 * GD_SOME_PAIRS];
        int n = 0;
        for (; n < 2 * GD_SOME_PAIRS && at + n < 2 * h->pairs; n++) {
            bool y = at + n >= h->pairs;
            int row = gd__history_row(h, y ? at + n - h->pairs : at + n);
            rows[n] = gd__in_vector(l, gd__history_at(h, y ? h->y : h->s, row), span);
        }
        l->loops->combine(out, from, c, rows, j->coef + at, n, span->size, past);
        from = out;
        c = 1;
    }
}

/* matrix^T coef for coefficients by pair. */
static gd_tensor *weighted_rows(const gd_history *h, gd_tensor *matrix, const double *coef)
{
    gd_ctx *ctx = h->layout.ctx;
    gd_tensor *w = gd_zeros(ctx, GD_F64, 1, (int64_t[]){h->rows});
    for (int k = 0; w && k < h->pairs; k++) ((double *)(void *)w->data)[gd__history_row(h, k)] = coef[k];
    return gd_matmul(gd_to_device(gd_cast(w, h->layout.dtype), h->layout.device), matrix);
}

static gd_status combine_by_operators(combine_job *j, gd_tensor **out)
{
    gd_history *h = j->h;
    gd_ctx *ctx = h->layout.ctx;
    gd__aside_begin(ctx);
    gd_tensor *u = gd__history_vector(h, j->update), *sum = gd_mul_scalar(u, j->c);
    if (h->pairs) {
        sum = gd_add(sum, weighted_rows(h, h->s, j->coef));
        sum = gd_add(sum, weighted_rows(h, h->y, j->coef + h->pairs));
    }
    gd_status status = sum ? gd__vector_to_list(&h->layout, sum, out) : gd_error(ctx);
    gd__release(u);
    gd__aside_end(ctx);
    return status;
}

gd_status gd__history_combine(gd_history *h, gd_tensor *const *update, double c, const double *cs,
                              const double *cy, gd_tensor **out)
{
    gd_ctx *ctx = h->layout.ctx;
    size_t n = (size_t)h->pairs;
    bool apart = n && cy != cs + n; /* otherwise they are already adjacent */
    double *both = apart ? gd__alloc_array(ctx, 2 * n, sizeof *both) : NULL;
    gd_status status = apart && !both ? GD_NOMEM
                       : h->own       ? gd__history_own_new(h, out)
                                      : gd__list_new(&h->layout, out, false);
    if (!status) {
        if (apart) {
            memcpy(both, cs, n * sizeof *cs);
            memcpy(both + n, cy, n * sizeof *cy);
        }
        combine_job j = {.h = h, .update = update, .out = out, .c = c, .coef = apart ? both : cs};
        if (h->own || gd__plain(&h->layout, update)) {
            gd__each_span(&h->layout, combine_span, &j);
            if (h->shared && !h->own)
                status = h->shared->shared.call->gather(h->shared, h->params, out, h->layout.count);
        } else
            status = combine_by_operators(&j, out);
    }
    if (apart) gd__free(ctx, both, 2 * n * sizeof *both);
    return status;
}

gd_status gd__history_matrices(gd_history *h, gd_tensor **s, gd_tensor **y)
{
    gd_ctx *ctx = h->layout.ctx;
    gd_tensor *order = gd_zeros(ctx, GD_I64, 1, (int64_t[]){h->pairs});
    for (int k = 0; order && k < h->pairs; k++) ((int64_t *)(void *)order->data)[k] = gd__history_row(h, k);
    order = order ? gd_to_device(order, h->layout.device) : NULL;
    *s = gd_index_select(h->s, "0", order);
    *y = gd_index_select(h->y, "0", order);
    return *s && *y ? GD_OK : gd_error(ctx);
}

static gd_linop *history_identity(const gd_history *h)
{
    gd_tensor *one = gd__layout_tensor(&h->layout, 1, &h->layout.total);
    gd_linop *op = one && gd_fill(one, 1) == GD_OK ? gd_linop_diagonal(one) : NULL;
    gd__release(one);
    return op;
}

/* ---- the link ---- */

static gd_status history_first(gd_history *h, gd_tensor *const *update, gd_tensor **out)
{
    double sum = 0;
    if (h->own) return gd__history_own_first(h, update, gd_link_flag(h->link, "scale_first"), out);
    gd_status status = gd_link_flag(h->link, "scale_first") ? gd__list_sum(&h->layout, update, &sum) : GD_OK;
    double scale = sum > 1 && isfinite(sum) ? 1 / sum : 1;
    return status ? status : gd__list_scaled(&h->layout, update, scale, out);
}

static gd_pair_rules pair_rules(const gd_link *link)
{
    const gd_setting *damping = gd_link_get(link, "damping", NULL);
    bool curvature = gd_link_has_field(link, "sy_tol");
    return (gd_pair_rules){.ptol = gd_link_real(link, "ptol", NULL),
                           .gtol = gd_link_real(link, "gtol", NULL),
                           .sy_tol = curvature ? gd_link_real(link, "sy_tol", NULL) : NAN,
                           .ptol_restart = gd_link_flag(link, "ptol_restart"),
                           .gtol_restart = gd_link_flag(link, "gtol_restart"),
                           .damping = damping->kind == GD_SET_STRING ? *damping->string : '\0'};
}

static bool due(gd_link *link) { return link->step % (int64_t)gd_link_real(link, "update_freq", NULL) == 0; }

/* The update after the inner chain: new references in list. */
static gd_status through_inner(gd_link *link, gd_var *var, gd_tensor *const *update, gd_tensor **list)
{
    int count = gd_var_count(var);
    for (int i = 0; i < count; i++) {
        gd__retain(update[i]);
        list[i] = update[i];
    }
    return gd__link_transform(gd_link_child(link, "inner"), list, gd_var_params(var), gd_var_grad(var), var,
                              count);
}

/* Numbers from..n of a row of the ring, in their order from its oldest, which is at `first`. */
static inline void in_order(const gd_history *h, const double *ring, int first, int from, double *out)
{
    int n = h->pairs, end = h->rows - first < n ? h->rows - first : n, i = from;
    for (; i < end; i++) out[i] = ring[first + i];
    for (; i < n; i++) out[i] = ring[first + i - h->rows];
}

/* The products of the pairs in their order, in new memory, followed by `more` zeros. */
static double *pairs_of(const gd_history *h, bool with_dots, size_t more, gd_pairs *p)
{
    int n = h->pairs;
    size_t square = (size_t)n * (size_t)n, squares = h->uses_ss ? 3 : 2;
    double *room = gd_link_memory(h->link, (squares * square + 2 * (size_t)n + more) * sizeof *room);
    if (!room) return NULL;
    double *sy = room, *yy = sy + square, *su = yy + square, *yu = su + n, *ss = yu + n;
    int first = gd__history_row(h, 0), row = first;
    for (int i = 0; i < n; i++) {
        in_order(h, h->sy + row * h->rows, first, h->uses_ss ? 0 : i, sy + i * n);
        in_order(h, h->yy + row * h->rows, first, i, yy + i * n);
        for (int k = 0; k < i; k++) yy[i * n + k] = yy[k * n + i];
        if (h->uses_ss) in_order(h, h->ss + row * h->rows, first, 0, ss + i * n);
        if (with_dots) su[i] = h->s_dots[row], yu[i] = h->y_dots[row];
        row = row + 1 == h->rows ? 0 : row + 1;
    }
    *p = (gd_pairs){.count = n, .ss = h->uses_ss ? ss : NULL, .sy = sy, .yy = yy, .su = su, .yu = yu};
    return h->uses_ss ? ss + square : ss;
}

/* The direction of the method, or the update before the first pair. */
static gd_status direction(gd_history *h, const gd_limited_memory *m, gd_tensor *const *update,
                           gd_tensor **out)
{
    if (!h->pairs) return history_first(h, update, out);
    gd_pairs p;
    double c = 1, *cs = pairs_of(h, true, 2 * (size_t)h->pairs, &p);
    if (!cs) return gd_error(h->layout.ctx);
    gd_status status = m->direction(h->link, &p, &c, cs, cs + h->pairs);
    return status ? status : gd__history_combine(h, update, c, cs, cs + h->pairs, out);
}

/* Are there pairs, and do all have the curvature that directions inside bounds require? */
static bool curves(const gd_history *h)
{
    bool all = h->pairs > 0;
    for (int k = 0; k < h->pairs && all; k++)
        all = gram_at(h, h->sy, k, k) > GD_FLAT_PAIR * gram_at(h, h->yy, k, k);
    return all;
}

static gd_status limited_memory(gd_link *link, gd_var *var, bool update, bool apply,
                                const gd_limited_memory *m)
{
    if (!link || !var || !m || !m->direction)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var),
                        "limited memory: no link, step or method");
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    bool inner = gd_link_child(link, "inner") != NULL, bounded = gd__bounded(var), held = false;
    /* half a step leaves the update unchanged */
    bool own = update && apply && !bounded && gd__history_is_shared(link, var);
    gd_tensor *const *u = own ? gd__var_own_update(var) : gd_var_read_update(var);
    gd_tensor *const *learnt = own ? u : gd__bounds_learnt(var, u);
    gd_tensor **out = gd_link_scratch(link, 2 * count);
    if (!u || !out || (bounded && gd__bounds_hold(var, &held))) return gd_error(ctx);
    gd_history h;
    gd_status status = history_open(&h, link, var, bounded ? NULL : u, own, m->uses_ss);
    gd_pair_rules rules = pair_rules(link);
    bool dots = false;
    if (!status && update && due(link)) {
        dots = apply && !inner && !held; /* if no element is held, the products with the update serve */
        status = history_update(&h, learnt, &rules, dots);
    }
    if (!status && update) link->step++;
    if (!status && apply && inner) {
        status = through_inner(link, var, u, out + count);
        u = out + count;
    }
    bool within = bounded && (held || !curves(&h));
    if (!status && apply && !dots && h.pairs && !within) status = history_dots(&h, u);
    if (!status && apply)
        status = within ? gd__history_direction_within(&h, var, m, u, out) : direction(&h, m, u, out);
    for (int i = 0; i < count && u == out + count; i++) gd__release(out[count + i]);
    history_close(&h);
    if (status || !apply) return status;
    return own ? gd__var_set_own_update(var, gd__tensors_share(ctx, out, count))
               : gd_var_set_update(var, out);
}

gd_status gd_limited_memory_step(gd_link *link, gd_var *var, const gd_limited_memory *method)
{
    return limited_memory(link, var, true, true, method);
}

gd_status gd_limited_memory_update(gd_link *link, gd_var *var, const gd_limited_memory *method)
{
    return limited_memory(link, var, true, false, method);
}

gd_status gd_limited_memory_apply(gd_link *link, gd_var *var, const gd_limited_memory *method)
{
    return limited_memory(link, var, false, true, method);
}

gd_linop *gd_limited_memory_hessian(gd_link *link, gd_var *var, const gd_limited_memory *method)
{
    if (!link || !var || !method || !method->hessian) return NULL;
    gd_ctx *ctx = gd_var_ctx(var);
    gd_history h;
    gd_pairs p;
    gd_linop *op = NULL;
    gd_tensor *s = NULL, *y = NULL;
    gd_scope_begin(ctx);
    gd_status status = history_open(&h, link, var, NULL, false, method->uses_ss);
    if (!status && !h.pairs)
        op = history_identity(&h);
    else if (!status && pairs_of(&h, false, 0, &p) && !gd__history_matrices(&h, &s, &y))
        op = method->hessian(link, &p, s, y);
    history_close(&h);
    gd_scope_end(ctx);
    return op;
}
