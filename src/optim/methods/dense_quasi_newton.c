/* Dense quasi-Newton links: what all methods share. */
#include "gradus/link/quasi_newton.h"
#include "gradus/link/hessian.h"
#include "optim/step/objective/bounds.h"
#include "optim/vector/layout.h"
#include "tensor/linalg.h"
#include "tensor/op.h"
#include "tensor/shape.h"

#include <string.h>

/* The data of a method, and the internals behind them. */
typedef struct inside {
    gd_dense seen;
    gd_layout layout;
    const gd_dense_method *method;
} inside;

static const gd_layout *layout_of(const gd_dense *d) { return &((const inside *)d)->layout; }
static const gd_dense_method *method_of(const gd_dense *d) { return ((const inside *)d)->method; }

/* Elements of the matrix. */
static int64_t extent_of(const gd_dense *d) { return method_of(d)->diagonal ? d->n : d->n * d->n; }

#define ROWS 32 /* of a task */

/* Matrix and vectors are the link's own: on the CPU, contiguous and of one dtype, whatever the device and dtype of the parameters. */
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
    gd_tensor *column = gd__reshape(x, 2, (int64_t[]){d->n, 1}),
              *row = gd__reshape(z, 2, (int64_t[]){1, d->n});
    return column && row ? gd__add_product(d->matrix, column, row, a) : gd_error(layout_of(d)->ctx);
}

gd_status gd_dense_rank_two(gd_dense *d, gd_tensor *x, gd_tensor *z, double a, double b, double c)
{
    if (!d || !d->matrix || !x || !z) return refused(x, z);
    double w = d->weight;
    /* a failed product is not used as a coefficient */
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
    return right ? gd__add_product(d->matrix, gd_transpose(both, 0, 1), right, w)
                 : gd_error(layout_of(d)->ctx);
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
    if (!plain(d)) {
        gd_attrs by = {.nf = 1, .f = {factor}};
        gd_status status = gd__execute(GD_OP_mul_scalar, &d->matrix, 1, &by, &d->matrix, 1);
        gd__touch(d->matrix);
        return status;
    }
    row_job j = {.d = d, .c = {factor}, .fn = scale_row};
    each_row(&j);
    gd__touch(d->matrix);
    return GD_OK;
}

/* The diagonal of a matrix, seen in place. */
static gd_tensor *diagonal_of(gd_dense *d)
{
    return gd__slice(gd__reshape(d->matrix, 1, &d->matrix->numel), 0, 0, d->n, d->n + 1);
}

gd_status gd_dense_shift(gd_dense *d, double a)
{
    if (!d || !d->matrix) return refused(NULL, NULL);
    gd_ctx *ctx = layout_of(d)->ctx;
    if (gd_error(ctx)) return gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *diagonal = diagonal_of(d), *sum = gd_add_scalar(diagonal, d->weight * a);
    gd_status status = assigned(d, diagonal, sum);
    gd_scope_end(ctx);
    d->taken = true;
    return status;
}

gd_status gd_dense_set(gd_dense *d, gd_tensor *value)
{
    if (!d || !d->matrix || !value) return refused(value, value);
    if (d->weight != 1) value = gd_vector_sum(gd_mul_scalar(d->matrix, 1 - d->weight), d->weight, value);
    d->taken = true;
    return assigned(d, d->matrix, value);
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
    if (method_of(d)->diagonal) {
        *gd_link_scalar(d->link, d->key, "pairs") = 0;
        return gd_fill(d->matrix, value);
    }
    if (plain(d)) {
        row_job j = {.d = d, .c = {value}, .fn = identity_row};
        each_row(&j);
        gd__touch(d->matrix);
        *gd_link_scalar(d->link, d->key, "pairs") = 0;
        return GD_OK;
    }
    gd_tensor *diagonal = diagonal_of(d);
    gd_status status = gd_fill(d->matrix, 0);
    if (!status) status = diagonal ? gd_fill(diagonal, value) : gd_error(layout_of(d)->ctx);
    *gd_link_scalar(d->link, d->key, "pairs") = 0;
    return status;
}

/* The matrix before the first pair. */
static double first_scale(const gd_dense *d)
{
    const gd_setting *scale = gd_link_get(d->link, "init_scale", NULL);
    double hessian = scale->kind == GD_SET_REAL ? scale->real : 1;
    return d->inverse ? 1 / hessian : hessian;
}

/* The matrix with the first pair: y y / s y as Hessian (Nocedal & Wright 2006, 6.20). */
static double pair_scale(gd_dense *d)
{
    double yy = gd_dense_dot(d, d->y, d->y);
    double scale = d->inverse ? d->sy / yy : yy / d->sy;
    bool automatic = gd_link_get(d->link, "init_scale", NULL)->kind == GD_SET_STRING;
    return automatic && isfinite(scale) && scale > 0 ? scale : first_scale(d);
}

/* A new matrix in a slot.  Borrowed. */
static gd_tensor *make_matrix(gd_dense *d, const char *slot)
{
    gd_tensor *m = gd__layout_tensor(layout_of(d), method_of(d)->diagonal ? 1 : 2, (int64_t[]){d->n, d->n});
    gd_status status = m ? gd_link_set_state(d->link, d->key, slot, m) : gd_error(layout_of(d)->ctx);
    gd__release(m);
    return status ? NULL : gd_link_state(d->link, d->key, slot);
}

/* The tensor of a slot; *again: it was just made. */
static gd_tensor *matrix_in(gd_dense *d, const char *slot, bool *anew)
{
    gd_tensor *m = gd_link_has_state(d->link, d->key, slot) ? gd_link_state(d->link, d->key, slot) : NULL;
    *anew = !m || m->numel != extent_of(d);
    return *anew ? make_matrix(d, slot) : m;
}

gd_status gd_dense_use(gd_dense *d, const char *slot)
{
    if (!d || !d->matrix || !slot) return refused(NULL, NULL);
    bool anew;
    gd_tensor *other = matrix_in(d, slot, &anew);
    if (!other) return gd_error(layout_of(d)->ctx);
    d->matrix = other;
    if (!strcmp(slot, "matrix") || (!anew && d->pairs > 0)) return GD_OK;
    gd_status status = set_identity(d, 1);
    *gd_link_scalar(d->link, d->key, "pairs") = (double)d->pairs;
    return status;
}

static gd_status dense_open(inside *in, gd_link *link, gd_var *var, const gd_dense_method *method,
                            gd_tensor *const *params, int count)
{
    gd_dense *d = &in->seen;
    gd_ctx *ctx = gd_link_ctx(link);
    double beta = gd_link_real(link, "beta", NULL);
    bool anew = false;
    *in = (inside){
        .seen = {.link = link, .var = var, .key = params[0], .tol = gd_link_real(link, "tol", NULL)},
        .method = method};
    d->weight = isnan(beta) ? 1 : 1 - beta;
    d->inverse = gd_link_has_field(link, "inverse") ? gd_link_flag(link, "inverse") : !method->hessian;
    gd_status status = gd__layout_init(&in->layout, ctx, params, count);
    if (status) return status;
    d->n = layout_of(d)->total;
    if (!gd_link_scalar(link, d->key, "pairs") || !(d->matrix = matrix_in(d, "matrix", &anew)))
        return gd_error(ctx);
    return anew ? set_identity(d, first_scale(d)) : GD_OK;
}

static void dense_close(inside *in)
{
    gd__release(in->seen.s);
    gd__release(in->seen.y);
    gd__release(in->seen.z);
    gd__layout_free(&in->layout);
}

/* x becomes the change since `slot` was written, and the slot the old x; *first if there was none. */
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

/* A method with its own restarts counts steps since the last one, others all steps. */
static bool restarts(const gd_dense *d)
{
    const gd_setting *s = gd_link_get(d->link, "restart_interval", NULL);
    bool own = method_of(d)->restart != NULL;
    int64_t every = s->kind == GD_SET_STRING ? d->n + !own : s->kind == GD_SET_REAL ? (int64_t)s->real : 0;
    return every > 0 && (d->link->step + !own) % every == 0;
}

static double largest(gd_dense *d, gd_tensor *x)
{
    if (plain(d)) return layout_of(d)->loops->largest(x->data, NULL, d->n);
    gd_tensor *most = gd_vector_most(gd_abs(x));
    return most ? gd_item(most) : NAN;
}

/* Calls the method and releases its intermediate tensors. */
static gd_status asked(gd_dense *d, gd_dense_fn fn)
{
    gd_scope_begin(layout_of(d)->ctx);
    gd_status status = fn(d);
    gd_scope_end(layout_of(d)->ctx);
    return status;
}

static gd_status take_pair(gd_dense *d)
{
    const gd_dense_method *method = method_of(d);
    double s = largest(d, d->s), y = largest(d, d->y);
    double *pairs = gd_link_scalar(d->link, d->key, "pairs");
    d->sy = gd_dense_dot(d, d->s, d->y);
    if (!isfinite(s) || !isfinite(y) || !isfinite(d->sy)) return gd_error(layout_of(d)->ctx);
    d->pairs = (int64_t)*pairs;
    if (restarts(d)) return method->restart ? asked(d, method->restart) : set_identity(d, pair_scale(d));
    if (s < gd_link_real(d->link, "ptol", NULL))
        return gd_link_flag(d->link, "ptol_restart") ? set_identity(d, first_scale(d)) : GD_OK;
    if (y < gd_link_real(d->link, "gtol", NULL)) return GD_OK;
    gd_status status = *pairs == 0 ? set_identity(d, pair_scale(d)) : GD_OK;
    if (!status && !(d->z = gd__layout_tensor(layout_of(d), 1, &d->n))) status = gd_error(layout_of(d)->ctx);
    if (!status) status = asked(d, method->pair);
    /* a first pair that was left out gives no scale, unless its product is usable */
    if (d->taken || d->sy > 0 || *pairs > 0) *pairs += 1;
    return status;
}

static gd_status update_group(gd_link *link, gd_var *var, gd_tensor *const *params, gd_tensor *const *update,
                              int count, const gd_dense_method *method)
{
    inside d;
    bool first_s = true, first_y = true;
    gd_status status = dense_open(&d, link, var, method, params, count);
    if (!status) status = difference(&d.seen, "previous_params", params, &d.seen.s, &first_s);
    if (!status) status = difference(&d.seen, "previous_update", update, &d.seen.y, &first_y);
    if (!status && !(d.seen.u = gd_link_state(link, d.seen.key, "previous_update")))
        status = gd_error(gd_link_ctx(link));
    if (!status && !first_s && !first_y) status = take_pair(&d.seen);
    dense_close(&d);
    return status;
}

/* One matrix for all, or one for each. */
static int group_size(gd_link *link, gd_var *var)
{
    return gd_link_flag(link, "concat_params") ? gd_var_count(var) : 1;
}

/* The numbers of matrices and of vectors. */
static int64_t bytes_of(const gd_link *link, gd_tensor *const *params, int count, int matrices, int vectors)
{
    if (!link || !params || count < 1) return 0;
    int64_t bytes = 0;
    int each = gd_link_flag(link, "concat_params") ? count : 1;
    for (int i = 0; i < count; i += each) {
        int64_t n, item = gd__vector_item(params + i, each, &n);
        bytes += (matrices * n * n + vectors * n) * item;
    }
    return bytes;
}

int64_t gd_dense_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return link ? bytes_of(link, params, count, gd_link_class_of(link)->slot_count - 2, 2) : 0;
}

int64_t gd_diagonal_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return bytes_of(link, params, count, 0, 3);
}

gd_status gd_dense_update(gd_link *link, gd_var *var, const gd_dense_method *method)
{
    if (!link || !var || !method || !method->pair)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "dense: no link, step or method");
    gd_tensor *const *params = gd_var_params(var), *const *update = gd_var_read_update(var);
    int count = gd_var_count(var), each = group_size(link, var);
    if (!update) return gd_error(gd_var_ctx(var));
    update = gd__bounds_learnt(var, update);
    gd_status status = GD_OK;
    bool due = link->step % (int64_t)gd_link_real(link, "update_freq", NULL) == 0;
    for (int i = 0; i < count && due && !status; i += each)
        status = update_group(link, var, params + i, update + i, each, method);
    if (!status) link->step++;
    return status;
}

/* ---- apply ---- */

/* u / b; an element with b = 0 stays. */
static gd_tensor *divided(gd_tensor *u, gd_tensor *b)
{
    gd_tensor *none = gd_eq(b, gd_zeros_like(b));
    return gd_div(u, gd_where(none, gd_ones_like(b), b));
}

/* A^-1 u, or u itself if there is none. */
static gd_tensor *solved(gd_dense *d, gd_tensor *matrix, gd_tensor *u)
{
    if (method_of(d)->diagonal) return divided(u, matrix);
    gd_ctx *ctx = layout_of(d)->ctx;
    gd_linop *b = gd_linop_dense(matrix);
    gd_tensor *x = b ? gd_linop_solve(b, u) : NULL;
    gd_linop_release(b);
    if (x || gd_error(ctx) != GD_SINGULAR) return x;
    gd_clear_error(ctx);
    return u;
}

gd_status gd_dense_solve(gd_dense *d, gd_tensor *x, gd_tensor *out)
{
    if (!d || !d->matrix || !x || !out) return refused(x, out);
    return assigned(d, out, solved(d, d->matrix, x));
}

/* Some elements are held: the free block of the Hessian. */
static gd_status multiply_free(gd_dense *d, gd_tensor *const *u, gd_tensor *mask, gd_tensor **out)
{
    gd_ctx *ctx = layout_of(d)->ctx;
    gd_scope_begin(ctx);
    gd_tensor *block = gd_hessian_free(d->matrix, mask, d->inverse),
              *from = gd_mul(gd_list_vector(u, layout_of(d)->count), mask),
              *to = !block || !from ? NULL
                    : d->inverse    ? gd_matmul(block, from)
                                    : solved(d, block, from);
    gd_status status = to ? gd__vector_to_list(layout_of(d), to, out) : gd_error(ctx);
    gd_scope_end(ctx);
    return status;
}

static gd_status multiply(gd_dense *d, gd_tensor *const *u, gd_tensor **out)
{
    gd_ctx *ctx = layout_of(d)->ctx;
    gd_scope_begin(ctx);
    gd_tensor *from = gd__layout_tensor(layout_of(d), 1, &d->n), *to = NULL;
    gd_status status = from ? gd__list_to_vector(layout_of(d), u, from) : gd_error(ctx);
    bool product = d->inverse && !method_of(d)->diagonal;
    if (!status && product) {
        to = gd__layout_tensor(layout_of(d), 1, &d->n);
        status = to ? gd_dense_times(d, from, to) : gd_error(ctx);
    } else if (!status && !(to = d->inverse ? gd_mul(d->matrix, from) : solved(d, d->matrix, from)))
        status = gd_error(ctx);
    if (!status) status = gd__vector_to_list(layout_of(d), to, out);
    if (product) gd__release(to);
    gd__release(from);
    gd_scope_end(ctx);
    return status;
}

static gd_status apply_group(gd_link *link, gd_var *var, const gd_dense_method *method,
                             gd_tensor *const *params, gd_tensor *const *u, int count, gd_tensor **out)
{
    inside d;
    gd_tensor *mask = gd__bounds_vector(var, params, count);
    gd_status status = dense_open(&d, link, NULL, method, params, count);
    bool none = !status && *gd_link_scalar(link, d.seen.key, "pairs") == 0;
    double sum = 0;
    if (none && gd_link_flag(link, "scale_first")) status = gd__list_sum(&d.layout, u, &sum);
    if (none && !status && sum > 1 && isfinite(sum))
        status = gd__list_scaled(&d.layout, u, 1 / sum, out);
    else if (!status) {
        status = gd__list_new(&d.layout, out, false);
        if (!status)
            status = mask && !method->diagonal ? multiply_free(&d.seen, u, mask, out)
                                               : multiply(&d.seen, u, out);
    }
    dense_close(&d);
    return status;
}

gd_status gd_dense_apply(gd_link *link, gd_var *var, const gd_dense_method *method)
{
    if (!link || !var || !method)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "dense: no link, step or method");
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
        status = apply_group(link, var, method, params + i, u + i, each, out + i);
    for (int i = 0; i < count && inner; i++) gd__release(list[i]);
    return status ? status : gd_var_set_update(var, out);
}

/* The matrix as an operator. */
static gd_linop *operator_of(gd_dense *d)
{
    gd_tensor *m = d->matrix;
    if (method_of(d)->diagonal) return gd_linop_diagonal(d->inverse ? divided(gd_ones_like(m), m) : m);
    if (method_of(d)->unsymmetric) m = gd_mul_scalar(gd_add(m, gd_transpose(m, 0, 1)), 0.5);
    return d->inverse ? gd_linop_dense_inverse(m) : gd_linop_dense(m);
}

gd_linop *gd_dense_hessian(gd_link *link, gd_var *var, const gd_dense_method *method)
{
    if (!link || !var || !method) return NULL;
    int count = gd_var_count(var);
    if (group_size(link, var) < count)
        return gd__refuse(gd_var_ctx(var), GD_NOT_IMPLEMENTED,
                          "%s: a Hessian of all parameters needs concat_params",
                          gd_link_class_of(link)->name);
    inside d;
    gd_linop *op = NULL;
    gd_scope_begin(gd_var_ctx(var));
    if (!dense_open(&d, link, var, method, gd_var_params(var), count)) op = operator_of(&d.seen);
    dense_close(&d);
    gd_scope_end(gd_var_ctx(var));
    return op;
}
