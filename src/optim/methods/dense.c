/* Dense quasi-Newton links: what all methods share. */
#include "gradus/quasi_newton.h"
#include "gradus/autograd.h"
#include "optim/step/optimizer.h"
#include "optim/vector/layout.h"
#include "tensor/shape.h"

#include <string.h>

/* What a method sees, and what is behind it. */
typedef struct inside {
    gd_dense seen;
    gd_layout layout;
} inside;

static const gd_layout *layout_of(const gd_dense *d) { return &((const inside *)d)->layout; }

#define ROWS 32 /* of a task */

/* Matrix and vectors are the link's own: on the CPU contiguous and of one dtype, whatever the parameters are. */
static bool plain(const gd_dense *d) { return layout_of(d)->loops != NULL; }

static void *row_of(const gd_dense *d, int64_t row)
{
    return d->matrix->data + (size_t)row * (size_t)d->n * layout_of(d)->item;
}

static double element(const gd_dense *d, const gd_tensor *x, int64_t i)
{
    return layout_of(d)->dtype == GD_F64 ? ((const double *)(const void *)x->data)[i]
                                         : (double)((const float *)(const void *)x->data)[i];
}

/* ---- loops over rows ---- */

typedef struct row_job {
    gd_dense *d;
    gd_tensor *x, *z, *out;
    double c[3];
    void (*fn)(struct row_job *j, int64_t row);
} row_job;

static void run_rows(void *arg, int64_t index)
{
    row_job *j = arg;
    int64_t end = (index + 1) * ROWS < j->d->n ? (index + 1) * ROWS : j->d->n;
    for (int64_t row = index * ROWS; row < end; row++) j->fn(j, row);
}

static void each_row(row_job *j)
{
    int64_t n = j->d->n;
    if (n * n >= 65536)
        gd__parallel(layout_of(j->d)->ctx, (n + ROWS - 1) / ROWS, run_rows, j);
    else
        for (int64_t row = 0; row < n; row++) j->fn(j, row);
}

static void times_row(row_job *j, int64_t row)
{
    gd_dense *d = j->d;
    double sum = layout_of(d)->loops->dot(row_of(d, row), j->x->data, d->n);
    if (layout_of(d)->dtype == GD_F64)
        ((double *)(void *)j->out->data)[row] = sum;
    else
        ((float *)(void *)j->out->data)[row] = (float)sum;
}

static void rank_two_row(row_job *j, int64_t row)
{
    gd_dense *d = j->d;
    layout_of(d)->loops->rank_two(row_of(d, row), element(d, j->x, row), element(d, j->z, row), j->x->data,
                                  j->z->data, j->c, d->n);
}

static void outer_row(row_job *j, int64_t row)
{
    gd_dense *d = j->d;
    const void *z = j->z->data;
    double coef = j->c[0] * element(d, j->x, row);
    layout_of(d)->loops->combine(row_of(d, row), row_of(d, row), 1, &z, &coef, 1, d->n, false);
}

static void scale_row(row_job *j, int64_t row)
{
    gd_dense *d = j->d;
    layout_of(d)->loops->scale(row_of(d, row), row_of(d, row), j->c[0], d->n);
}

/* ---- for methods ---- */

/* Something is NULL. */
static gd_status refused(const gd_tensor *x, const gd_tensor *z)
{
    return gd__null(gd_tensor_ctx(x ? x : z), "dense: a matrix or vector is NULL");
}

static gd_status assigned(gd_dense *d, gd_tensor *to, gd_tensor *value)
{
    return value ? gd_assign(to, value) : gd_error(layout_of(d)->ctx);
}

gd_status gd_dense_times(gd_dense *d, gd_tensor *x, gd_tensor *out)
{
    if (!d || !d->matrix || !x || !out) return refused(x, out);
    if (!plain(d)) return assigned(d, out, gd_matmul(d->matrix, x));
    row_job j = {.d = d, .x = x, .out = out, .fn = times_row};
    each_row(&j);
    return GD_OK;
}

gd_status gd_dense_times_transposed(gd_dense *d, gd_tensor *x, gd_tensor *out)
{
    if (!d || !d->matrix || !x || !out) return refused(x, out);
    return assigned(d, out, gd_matmul(x, d->matrix));
}

double gd_dense_dot(gd_dense *d, gd_tensor *x, gd_tensor *y)
{
    if (!d || !d->matrix || !x || !y) return NAN;
    if (plain(d)) return layout_of(d)->loops->dot(x->data, y->data, d->n);
    gd_tensor *sum = gd_dot(x, y);
    return sum ? gd_item(sum) : NAN;
}

static gd_status add_outer(gd_dense *d, gd_tensor *x, gd_tensor *z, double a)
{
    if (a == 0) return GD_OK;
    gd_tensor *product = gd_outer(x, z);
    return product ? gd_add_into(d->matrix, product, a) : gd_error(layout_of(d)->ctx);
}

gd_status gd_dense_rank_two(gd_dense *d, gd_tensor *x, gd_tensor *z, double a, double b, double c)
{
    if (!d || !d->matrix || !x || !z) return refused(x, z);
    double w = d->weight;
    /* a product that failed is no coefficient */
    if (gd_error(layout_of(d)->ctx)) return gd_error(layout_of(d)->ctx);
    d->taken = true;
    if (plain(d)) {
        row_job j = {.d = d, .x = x, .z = z, .c = {w * a, w * b, w * c}, .fn = rank_two_row};
        each_row(&j);
        gd__touch(d->matrix);
        return GD_OK;
    }
    /* [x z] [a b; b c] [x z]^T, added at once: all of it or nothing */
    gd_tensor *both = gd_stack((gd_tensor *[]){x, z}, 2, 0, NULL);
    gd_tensor *middle = gd_from_f64(layout_of(d)->ctx, layout_of(d)->dtype, 2, (int64_t[]){2, 2},
                                    (double[]){a, b, b, c});
    gd_tensor *right = gd_matmul(gd_to_device(middle, layout_of(d)->device), both);
    gd_tensor *sum = gd_matmul(gd_transpose(both, 0, 1), right);
    return sum ? gd_add_into(d->matrix, sum, w) : gd_error(layout_of(d)->ctx);
}

gd_status gd_dense_outer(gd_dense *d, double a, gd_tensor *x, gd_tensor *z)
{
    if (!d || !d->matrix || !x || !z) return refused(x, z);
    if (gd_error(layout_of(d)->ctx)) return gd_error(layout_of(d)->ctx);
    d->taken = true;
    if (!plain(d)) return add_outer(d, x, z, d->weight * a);
    row_job j = {.d = d, .x = x, .z = z, .c = {d->weight * a}, .fn = outer_row};
    each_row(&j);
    gd__touch(d->matrix);
    return GD_OK;
}

gd_status gd_dense_scale(gd_dense *d, double factor)
{
    if (!d || !d->matrix) return refused(NULL, NULL);
    if (gd_error(layout_of(d)->ctx)) return gd_error(layout_of(d)->ctx);
    factor = 1 + d->weight * (factor - 1);
    d->taken = true;
    if (!plain(d)) return assigned(d, d->matrix, gd_mul_scalar(d->matrix, factor));
    row_job j = {.d = d, .c = {factor}, .fn = scale_row};
    each_row(&j);
    gd__touch(d->matrix);
    return GD_OK;
}

gd_status gd_dense_add(gd_dense *d, gd_tensor *x, double a, gd_tensor *z)
{
    if (!d || !d->matrix || !x || !z) return refused(x, z);
    if (!plain(d)) return gd_add_into(x, z, a);
    layout_of(d)->loops->combine(x->data, x->data, 1, (const void *const[]){z->data}, &a, 1, d->n, false);
    return GD_OK;
}

/* ---- state ---- */

static void identity_row(row_job *j, int64_t row)
{
    char *of = row_of(j->d, row);
    memset(of, 0, (size_t)j->d->n * layout_of(j->d)->item);
    if (layout_of(j->d)->dtype == GD_F64)
        ((double *)(void *)of)[row] = j->c[0];
    else
        ((float *)(void *)of)[row] = (float)j->c[0];
}

/* The matrix becomes value times the identity. */
static gd_status set_identity(gd_dense *d, double value)
{
    if (plain(d)) {
        row_job j = {.d = d, .c = {value}, .fn = identity_row};
        each_row(&j);
        gd__touch(d->matrix);
        *gd_link_scalar(d->link, d->key, "pairs") = 0;
        return GD_OK;
    }
    gd_tensor *diagonal = gd__slice(gd__reshape(d->matrix, 1, &d->matrix->numel), 0, 0, d->n, d->n + 1);
    gd_status status = gd_fill(d->matrix, 0);
    if (!status) status = diagonal ? gd_fill(diagonal, value) : gd_error(layout_of(d)->ctx);
    *gd_link_scalar(d->link, d->key, "pairs") = 0;
    return status;
}

/* What the matrix is before the first pair. */
static double first_scale(const gd_dense *d)
{
    const gd_setting *scale = gd_link_get(d->link, "init_scale", NULL);
    double hessian = scale->kind == GD_SET_REAL ? scale->real : 1;
    return d->inverse ? 1 / hessian : hessian;
}

/* What it becomes with it: y y / s y as Hessian (Nocedal & Wright 2006, 6.20). */
static double pair_scale(gd_dense *d)
{
    double yy = gd_dense_dot(d, d->y, d->y);
    double scale = d->inverse ? d->sy / yy : yy / d->sy;
    bool automatic = gd_link_get(d->link, "init_scale", NULL)->kind == GD_SET_STRING;
    return automatic && isfinite(scale) && scale > 0 ? scale : first_scale(d);
}

static gd_status make_matrix(gd_dense *d)
{
    gd_ctx *ctx = layout_of(d)->ctx;
    gd_tensor *m = gd__layout_tensor(layout_of(d), 2, (int64_t[]){d->n, d->n});
    gd_status status = m ? gd_link_set_state(d->link, d->key, "matrix", m) : gd_error(ctx);
    gd__release(m);
    d->matrix = status ? NULL : gd_link_state(d->link, d->key, "matrix");
    if (!status && !d->matrix) status = gd_error(ctx);
    return status ? status : set_identity(d, first_scale(d));
}

static gd_status dense_open(inside *in, gd_link *link, gd_tensor *const *params, int count)
{
    gd_dense *d = &in->seen;
    gd_ctx *ctx = gd_link_ctx(link);
    double beta = gd_link_real(link, "beta", NULL);
    *in = (inside){.seen = {.link = link, .key = params[0], .tol = gd_link_real(link, "tol", NULL)}};
    d->weight = isnan(beta) ? 1 : 1 - beta;
    d->inverse = !gd_link_has_field(link, "inverse") || gd_link_flag(link, "inverse");
    gd_status status = gd__layout_init(&in->layout, ctx, params, count);
    if (status) return status;
    d->n = layout_of(d)->total;
    if (!gd_link_scalar(link, d->key, "pairs")) return gd_error(ctx);
    if (gd_link_has_state(link, d->key, "matrix")) d->matrix = gd_link_state(link, d->key, "matrix");
    if (!d->matrix || d->matrix->numel != d->n * d->n) status = make_matrix(d);
    return status;
}

static void dense_close(inside *in)
{
    gd__release(in->seen.s);
    gd__release(in->seen.y);
    gd__release(in->seen.z);
    gd__layout_free(&in->layout);
}

/* x becomes the change since `slot` was written, and the slot what x was; *first when there was none. */
static gd_status difference(gd_dense *d, const char *slot, gd_tensor *const *list, gd_tensor **out,
                            bool *first)
{
    gd_ctx *ctx = layout_of(d)->ctx;
    gd_tensor *now = gd__layout_tensor(layout_of(d), 1, &d->n), *before = NULL;
    gd_status status = now ? gd__list_to_vector(layout_of(d), list, now) : gd_error(ctx);
    if (!status && gd_link_has_state(d->link, d->key, slot)) before = gd_link_state(d->link, d->key, slot);
    *first = !before || before->numel != d->n;
    if (!status && *first)
        status = gd_link_set_state(d->link, d->key, slot, now);
    else if (!status) {
        gd_scope_begin(ctx);
        gd_tensor *copy = gd_copy(now);
        status = copy ? gd_dense_add(d, now, -1, before) : gd_error(ctx);
        if (!status) status = gd_assign(before, copy);
        gd_scope_end(ctx);
    }
    *out = now;
    return status;
}

/* ---- update ---- */

static int64_t restart_interval(const gd_dense *d)
{
    const gd_setting *s = gd_link_get(d->link, "restart_interval", NULL);
    return s->kind == GD_SET_STRING ? d->n + 1 : s->kind == GD_SET_REAL ? (int64_t)s->real : 0;
}

static double largest(gd_dense *d, gd_tensor *x)
{
    if (plain(d)) return layout_of(d)->loops->largest(x->data, NULL, d->n);
    gd_tensor *most = gd_vector_most(gd_abs(x));
    return most ? gd_item(most) : NAN;
}

static gd_status take_pair(gd_dense *d, gd_dense_fn fn)
{
    double s = largest(d, d->s), y = largest(d, d->y);
    int64_t interval = restart_interval(d);
    double *pairs = gd_link_scalar(d->link, d->key, "pairs");
    d->sy = gd_dense_dot(d, d->s, d->y);
    if (!isfinite(s) || !isfinite(y) || !isfinite(d->sy)) return gd_error(layout_of(d)->ctx);
    if (interval && (d->link->step + 1) % interval == 0) return set_identity(d, pair_scale(d));
    if (s < gd_link_real(d->link, "ptol", NULL))
        return gd_link_flag(d->link, "ptol_restart") ? set_identity(d, first_scale(d)) : GD_OK;
    if (y < gd_link_real(d->link, "gtol", NULL)) return GD_OK;
    gd_status status = *pairs == 0 ? set_identity(d, pair_scale(d)) : GD_OK;
    if (!status && !(d->z = gd__layout_tensor(layout_of(d), 1, &d->n))) status = gd_error(layout_of(d)->ctx);
    if (!status) status = fn(d);
    /* a first pair that was left out gives no scale either, unless it could have */
    if (d->taken || d->sy > 0 || *pairs > 0) *pairs += 1;
    return status;
}

static gd_status update_group(gd_link *link, gd_tensor *const *params, gd_tensor *const *update, int count,
                              gd_dense_fn fn)
{
    inside d;
    bool first_s = true, first_y = true;
    gd_status status = dense_open(&d, link, params, count);
    if (!status) status = difference(&d.seen, "previous_params", params, &d.seen.s, &first_s);
    if (!status) status = difference(&d.seen, "previous_update", update, &d.seen.y, &first_y);
    if (!status && !first_s && !first_y) status = take_pair(&d.seen, fn);
    dense_close(&d);
    return status;
}

/* One matrix for all, or one for each. */
static int group_size(gd_link *link, gd_var *var)
{
    return gd_link_flag(link, "concat_params") ? gd_var_count(var) : 1;
}

/* The matrix, and both ends of the pair as vectors. */
int64_t gd_dense_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    if (!link || !params || count < 1) return 0;
    int64_t bytes = 0;
    int each = gd_link_flag(link, "concat_params") ? count : 1;
    for (int i = 0; i < count; i += each) {
        int64_t n, item = gd__vector_item(params + i, each, &n);
        bytes += (n * n + 2 * n) * item;
    }
    return bytes;
}

gd_status gd_dense_update(gd_link *link, gd_var *var, gd_dense_fn fn)
{
    if (!link || !var || !fn)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "dense: no link, step or method");
    gd_tensor *const *params = gd_var_params(var), *const *update = gd_var_read_update(var);
    int count = gd_var_count(var), each = group_size(link, var);
    if (!update) return gd_error(gd_var_ctx(var));
    gd_status status = GD_OK;
    bool due = link->step % (int64_t)gd_link_real(link, "update_freq", NULL) == 0;
    for (int i = 0; i < count && due && !status; i += each)
        status = update_group(link, params + i, update + i, each, fn);
    if (!status) link->step++;
    return status;
}

/* ---- apply ---- */

/* B x = u, or u itself where there is no solution. */
static gd_tensor *solved(gd_dense *d, gd_tensor *u)
{
    gd_ctx *ctx = layout_of(d)->ctx;
    gd_linop *b = gd_linop_dense(d->matrix);
    gd_tensor *x = b ? gd_linop_solve(b, u) : NULL;
    gd_linop_release(b);
    if (x || gd_error(ctx) != GD_SINGULAR) return x;
    gd_clear_error(ctx);
    return u;
}

static gd_status multiply(gd_dense *d, gd_tensor *const *u, gd_tensor **out)
{
    gd_ctx *ctx = layout_of(d)->ctx;
    gd_scope_begin(ctx);
    gd_tensor *from = gd__layout_tensor(layout_of(d), 1, &d->n), *to = NULL;
    gd_status status = from ? gd__list_to_vector(layout_of(d), u, from) : gd_error(ctx);
    if (!status && d->inverse) {
        to = gd__layout_tensor(layout_of(d), 1, &d->n);
        status = to ? gd_dense_times(d, from, to) : gd_error(ctx);
    } else if (!status && !(to = solved(d, from)))
        status = gd_error(ctx);
    if (!status) status = gd__vector_to_list(layout_of(d), to, out);
    if (d->inverse) gd__release(to);
    gd__release(from);
    gd_scope_end(ctx);
    return status;
}

static gd_status apply_group(gd_link *link, gd_tensor *const *params, gd_tensor *const *u, int count,
                             gd_tensor **out)
{
    inside d;
    gd_status status = dense_open(&d, link, params, count);
    bool none = !status && *gd_link_scalar(link, d.seen.key, "pairs") == 0;
    double sum = 0;
    if (none && gd_link_flag(link, "scale_first")) status = gd__list_sum(&d.layout, u, &sum);
    if (none && !status && sum > 1 && isfinite(sum))
        status = gd__list_scaled(&d.layout, u, 1 / sum, out);
    else if (!status) {
        status = gd__list_new(&d.layout, out, false);
        if (!status) status = multiply(&d.seen, u, out);
    }
    dense_close(&d);
    return status;
}

gd_status gd_dense_apply(gd_link *link, gd_var *var)
{
    if (!link || !var) return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "dense: no link or step");
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *const *params = gd_var_params(var), *const *u = gd_var_read_update(var);
    int count = gd_var_count(var), each = group_size(link, var);
    gd_link *inner = gd_link_child(link, "inner");
    gd_tensor **out = gd_link_scratch(link, 2 * count);
    if (!u || !out) return gd_error(ctx);
    gd_tensor **list = out + count;
    for (int i = 0; i < count && inner; i++) {
        gd__retain(u[i]);
        list[i] = u[i];
    }
    gd_status status = inner ? gd__link_transform(inner, list, params, gd_var_grad(var), var, count) : GD_OK;
    if (inner) u = list;
    for (int i = 0; i < count && !status; i += each)
        status = apply_group(link, params + i, u + i, each, out + i);
    for (int i = 0; i < count && inner; i++) gd__release(list[i]);
    return status ? status : gd_var_set_update(var, out);
}

gd_linop *gd_dense_hessian(gd_link *link, gd_var *var)
{
    if (!link || !var) return NULL;
    int count = gd_var_count(var);
    if (group_size(link, var) < count)
        return gd__refuse(gd_var_ctx(var), GD_NOT_IMPLEMENTED,
                          "%s: a Hessian of all parameters needs concat_params",
                          gd_link_class_of(link)->name);
    inside d;
    gd_linop *op = NULL;
    if (!dense_open(&d, link, gd_var_params(var), count))
        op = d.seen.inverse ? gd_linop_dense_inverse(d.seen.matrix) : gd_linop_dense(d.seen.matrix);
    dense_close(&d);
    return op;
}
