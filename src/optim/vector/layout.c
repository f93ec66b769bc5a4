/* Lists of tensors seen as one long vector. */
#include "optim/vector/layout.h"
#include "gradus/autograd.h"
#include "program/element.h"
#include "tensor/device.h"
#include "tensor/shape.h"

#include <stddef.h>
#include <string.h>

#define IN_LINE 65536 /* for shorter vectors, waking threads costs more than it saves */

const gd_vector_loops *gd__loops_for(const gd_ctx *ctx, gd_dtype dtype)
{
    return &(*GD_BY_ISA(ctx, gd__vector_loops))[dtype == GD_F64];
}

/* ---- layouts ---- */

static gd_status make_spans(gd_layout *l)
{
    int64_t spans = 0, at = 0;
    for (int i = 0; i < l->count; i++) spans += (l->like[i]->numel + GD_SPAN - 1) / GD_SPAN;
    l->span = l->first;
    if (spans > (int64_t)(sizeof l->first / sizeof *l->first) &&
        !(l->span = gd__alloc_array(l->ctx, (size_t)spans, sizeof *l->span)))
        return GD_NOMEM;
    for (int i = 0; i < l->count; i++)
        for (int64_t begin = 0, n = l->like[i]->numel; begin < n; begin += GD_SPAN) {
            int64_t size = n - begin < GD_SPAN ? n - begin : GD_SPAN;
            l->span[l->spans++] = (gd_span){.tensor = i, .begin = begin, .at = at, .size = size};
            at += size;
        }
    return GD_OK;
}

int64_t gd__list_numel(gd_tensor *const *list, int count)
{
    int64_t n = 0;
    for (int i = 0; i < count; i++) n += list[i]->numel;
    return n;
}

gd_dtype gd__list_dtype(gd_tensor *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i]->dtype == GD_F64) return GD_F64;
    return count ? GD_F32 : GD_F64;
}

int64_t gd__vector_item(gd_tensor *const *like, int count, int64_t *total)
{
    *total = gd__list_numel(like, count);
    return (int64_t)gd_dtype_size(gd__list_dtype(like, count));
}

gd_status gd__not_own(gd_ctx *ctx)
{
    return gd_fail(ctx, GD_INTERNAL,
                   "a link spreads as a vector, and adds up other lists than of all its tensors");
}

gd_status gd__layout_init(gd_layout *l, gd_ctx *ctx, gd_tensor *const *like, int count)
{
    gd_device *cpu = gd__cpu(ctx);
    memset(l, 0, offsetof(gd_layout, first));
    l->ctx = ctx;
    l->like = like;
    l->count = count;
    l->dtype = gd__list_dtype(like, count);
    l->device = count ? like[0]->storage->device : cpu;
    l->total = gd__list_numel(like, count);
    l->item = gd_dtype_size(l->dtype);
    l->plain = l->device == cpu;
    if (l->plain) l->loops = gd__loops_for(ctx, l->dtype);
    for (int i = 0; i < count && l->plain; i++) l->plain = gd__plain_tensor(l, like[i]);
    l->own = ctx->own_lists;
    if (l->own && (!l->plain || count != l->own->count)) return gd__not_own(ctx);
    return l->plain ? make_spans(l) : GD_OK;
}

void gd__layout_free(gd_layout *l)
{
    if (l->span != l->first) gd__free(l->ctx, l->span, (size_t)l->spans * sizeof *l->span);
    l->span = NULL;
    l->spans = 0;
}

typedef struct span_job {
    const gd_layout *layout;
    void (*fn)(void *, const gd_span *, int64_t);
    void *arg;
} span_job;

static void run_span(void *arg, int64_t index)
{
    span_job *job = arg;
    job->fn(job->arg, &job->layout->span[index], index);
}

void gd__each_span(const gd_layout *l, void (*fn)(void *, const gd_span *, int64_t), void *arg)
{
    span_job job = {.layout = l, .fn = fn, .arg = arg};
    if (l->total >= IN_LINE)
        gd__parallel(l->ctx, l->spans, run_span, &job);
    else
        for (int i = 0; i < l->spans; i++) fn(arg, &l->span[i], i);
}

/* ---- reductions ---- */

typedef double (*reduce_fn)(const void *x, const void *y, int64_t n);

typedef struct reduce_job {
    const gd_layout *layout;
    gd_tensor *const *x, *const *y;
    reduce_fn fn;
    double *partial;
} reduce_job;

static void reduce_span(void *arg, const gd_span *s, int64_t index)
{
    reduce_job *job = arg;
    const gd_layout *l = job->layout;
    if (l->own) index = l->own->first[s->tensor] + s->begin / GD_SPAN;
    job->partial[index] = job->fn(gd__in_list(l, job->x, s), gd__in_list(l, job->y, s), s->size);
}

static double add(double a, double b) { return a + b; }
static double larger(double a, double b) { return b <= a || a != a ? a : b; }

static gd_status reduce(const gd_layout *l, gd_tensor *const *x, gd_tensor *const *y, reduce_fn fn,
                        double (*join)(double, double), double *out)
{
    double few[8] = {0}, *partial = few;
    int64_t spans = l->own ? l->own->spans : l->spans;
    gd_status status = GD_OK;
    if (spans > 8 && !(partial = gd__calloc(l->ctx, (size_t)spans * sizeof *partial))) return GD_NOMEM;
    reduce_job job = {.layout = l, .x = x, .y = y, .fn = fn, .partial = partial};
    gd__each_span(l, reduce_span, &job);
    if (l->own && spans) status = l->own->ranks->join(l->own->optimizer, partial, spans);
    *out = 0;
    for (int64_t i = 0; i < spans; i++) *out = i ? join(*out, partial[i]) : partial[i];
    if (partial != few) gd__free(l->ctx, partial, (size_t)spans * sizeof *partial);
    return status;
}

typedef gd_tensor *(*measure_fn)(gd_tensor *x, gd_tensor *y);

static gd_tensor *dot_of(gd_tensor *x, gd_tensor *y) { return gd_sum(gd_mul(x, y), NULL, false); }
static gd_tensor *apart_of(gd_tensor *x, gd_tensor *y)
{
    return gd_sum(gd_square(gd_sub(x, y)), NULL, false);
}
static gd_tensor *sum_of(gd_tensor *x, gd_tensor *y)
{
    (void)y;
    return gd_sum(gd_abs(x), NULL, false);
}
static gd_tensor *largest_of(gd_tensor *x, gd_tensor *y)
{
    (void)y;
    return gd_max(gd_abs(x), NULL, false);
}

/* The same with operators, in the layout's dtype. */
static gd_status measure(const gd_layout *l, gd_tensor *const *x, gd_tensor *const *y, measure_fn fn,
                         double (*join)(double, double), double *out)
{
    *out = 0;
    gd_status status = l->own ? gd__not_own(l->ctx) : GD_OK;
    gd_no_grad_begin(l->ctx);
    for (int i = 0; i < l->count && !status; i++) {
        if (!x[i]->numel) continue;
        gd_scope_begin(l->ctx);
        gd_tensor *a = gd_cast(gd_drop_names(x[i]), l->dtype), *b = gd_cast(gd_drop_names(y[i]), l->dtype);
        gd_tensor *value = fn(a, b);
        if (value)
            *out = join(*out, gd_item(value));
        else
            status = gd_error(l->ctx);
        gd_scope_end(l->ctx);
    }
    gd_no_grad_end(l->ctx);
    return status;
}

gd_status gd__list_dot(const gd_layout *l, gd_tensor *const *x, gd_tensor *const *y, double *out)
{
    if (gd__plain(l, x) && gd__plain(l, y)) return reduce(l, x, y, l->loops->dot, add, out);
    return measure(l, x, y, dot_of, add, out);
}

gd_status gd__list_apart(const gd_layout *l, gd_tensor *const *x, gd_tensor *const *y, double *out)
{
    if (gd__plain(l, x) && gd__plain(l, y)) return reduce(l, x, y, l->loops->apart, add, out);
    return measure(l, x, y, apart_of, add, out);
}

gd_status gd__list_sum(const gd_layout *l, gd_tensor *const *x, double *out)
{
    if (gd__plain(l, x)) return reduce(l, x, x, l->loops->sum, add, out);
    return measure(l, x, x, sum_of, add, out);
}

gd_status gd__list_largest(const gd_layout *l, gd_tensor *const *x, double *out)
{
    if (gd__plain(l, x)) return reduce(l, x, x, l->loops->largest, larger, out);
    return measure(l, x, x, largest_of, larger, out);
}

/* ---- maps ---- */

typedef struct map_job {
    const gd_layout *layout;
    gd_tensor *const *o, *const *x, *const *y;
    double a, b;
    bool from_vector, to_vector;
    void *vector;
} map_job;

static void move_span(void *arg, const gd_span *s, int64_t index)
{
    (void)index;
    map_job *j = arg;
    const gd_layout *l = j->layout;
    l->loops->move(gd__in_list(l, j->o, s), gd__in_list(l, j->x, s), gd__in_list(l, j->y, s), j->a, s->size);
}

static void scale_span(void *arg, const gd_span *s, int64_t index)
{
    (void)index;
    map_job *j = arg;
    const gd_layout *l = j->layout;
    l->loops->scale(gd__in_list(l, j->o, s), gd__in_list(l, j->x, s), j->a, s->size);
}

static void combine_span(void *arg, const gd_span *s, int64_t index)
{
    (void)index;
    map_job *j = arg;
    const gd_layout *l = j->layout;
    const void *row = gd__in_list(l, j->y, s);
    l->loops->combine(gd__in_list(l, j->o, s), gd__in_list(l, j->x, s), j->a, &row, &j->b, 1, s->size, false);
}

static void copy_span(void *arg, const gd_span *s, int64_t index)
{
    (void)index;
    map_job *j = arg;
    const gd_layout *l = j->layout;
    void *list = gd__in_list(l, j->x, s), *vector = gd__in_vector(l, j->vector, s);
    memcpy(j->to_vector ? vector : list, j->to_vector ? list : vector, (size_t)s->size * l->item);
}

static void touch_all(const gd_layout *l, gd_tensor *const *t)
{
    for (int i = 0; i < l->count; i++) gd__touch(t[i]);
}

gd_status gd__list_move(const gd_layout *l, gd_tensor *const *o, gd_tensor *const *x, gd_tensor *const *u,
                        double a)
{
    if (gd__plain(l, o) && gd__plain(l, x) && gd__plain(l, u)) {
        map_job job = {.layout = l, .o = o, .x = x, .y = u, .a = a};
        gd__each_span(l, move_span, &job);
        touch_all(l, o);
        return GD_OK;
    }
    gd_status status = GD_OK;
    for (int i = 0; i < l->count && !status; i++) {
        if (o[i] != x[i]) status = gd_assign(o[i], x[i]);
        if (!status) status = gd_add_into(o[i], u[i], -a);
    }
    return status;
}

gd_status gd__list_new(const gd_layout *l, gd_tensor **out, bool zeros)
{
    for (int i = 0; i < l->count; i++) {
        out[i] = zeros ? gd_zeros_like(l->like[i]) : gd__new_like(l->like[i], l->like[i]->dtype);
        if (!out[i]) return gd_error(l->ctx);
    }
    return GD_OK;
}

gd_status gd__list_scaled(const gd_layout *l, gd_tensor *const *x, double a, gd_tensor **out)
{
    gd_status status = GD_OK;
    if (gd__plain(l, x)) {
        status = gd__list_new(l, out, false);
        map_job job = {.layout = l, .o = out, .x = x, .a = a};
        if (!status) gd__each_span(l, scale_span, &job);
        return status;
    }
    gd_no_grad_begin(l->ctx);
    for (int i = 0; i < l->count && !status; i++)
        if (!(out[i] = gd_mul_scalar(x[i], a))) status = gd_error(l->ctx);
    gd_no_grad_end(l->ctx);
    return status;
}

gd_status gd__list_combined(const gd_layout *l, gd_tensor *const *x, double c, gd_tensor *const *y, double d,
                            gd_tensor **out)
{
    gd_status status = GD_OK;
    if (gd__plain(l, x) && gd__plain(l, y)) {
        status = gd__list_new(l, out, false);
        map_job job = {.layout = l, .o = out, .x = x, .y = y, .a = c, .b = d};
        if (!status) gd__each_span(l, combine_span, &job);
        return status;
    }
    gd_no_grad_begin(l->ctx);
    for (int i = 0; i < l->count && !status; i++) {
        out[i] = gd_copy(gd_mul_scalar(x[i], c));
        status = out[i] ? gd_add_into(out[i], y[i], d) : gd_error(l->ctx);
    }
    gd_no_grad_end(l->ctx);
    return status;
}

/* ---- vectors ---- */

gd_tensor *gd__layout_tensor(const gd_layout *l, int ndim, const int64_t *size)
{
    gd_scope_begin(l->ctx);
    gd_tensor *t = gd_empty_on(l->device, l->dtype, ndim, size);
    if (t && gd_fill(t, 0)) t = NULL;
    if (t) gd__own(t);
    gd_scope_end(l->ctx);
    return t;
}

static gd_status copy_spans(const gd_layout *l, gd_tensor *const *x, gd_tensor *vector, bool to_vector)
{
    map_job job = {.layout = l, .x = x, .vector = vector->data, .to_vector = to_vector};
    gd__each_span(l, copy_span, &job);
    if (to_vector)
        gd__touch(vector);
    else
        touch_all(l, x);
    return GD_OK;
}

static gd_status copy_pieces(const gd_layout *l, gd_tensor *const *x, gd_tensor *vector, bool to_vector)
{
    gd_status status = GD_OK;
    int64_t at = 0;
    for (int i = 0; i < l->count && !status; i++) {
        gd_scope_begin(l->ctx);
        int64_t n = x[i]->numel;
        gd_tensor *bare = gd_detach(gd_drop_names(x[i])), *piece = gd__slice(vector, 0, at, n, 1);
        if (to_vector)
            bare = bare ? gd__reshape(bare, 1, &n) : NULL;
        else
            piece = piece ? gd__reshape(piece, x[i]->ndim, x[i]->size) : NULL;
        if (!bare || !piece)
            status = gd_error(l->ctx);
        else
            status = to_vector ? gd_assign(piece, bare) : gd_assign(x[i], piece);
        at += n;
        gd_scope_end(l->ctx);
    }
    return status;
}

gd_status gd__list_to_vector(const gd_layout *l, gd_tensor *const *x, gd_tensor *vector)
{
    return gd__plain(l, x) ? copy_spans(l, x, vector, true) : copy_pieces(l, x, vector, true);
}

gd_status gd__vector_to_list(const gd_layout *l, gd_tensor *vector, gd_tensor *const *x)
{
    return gd__plain(l, x) ? copy_spans(l, x, vector, false) : copy_pieces(l, x, vector, false);
}

/* ---- numbers ---- */

gd_status gd__list_read(gd_tensor *const *list, int count, double *x)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; x += list[i++]->numel)
        status = gd_read_f64(list[i], x, list[i]->numel);
    return status;
}

gd_status gd__list_write(gd_tensor *const *list, int count, const double *x)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; x += list[i++]->numel)
        if (list[i]->numel) status = gd_write_f64(list[i], x, list[i]->numel);
    return status;
}

gd_status gd__list_from(gd_tensor *const *like, int count, const double *x, gd_tensor **out)
{
    for (int i = 0; i < count; i++) {
        gd_tensor *t = like[i];
        out[i] = gd_empty_on(t->storage->device, t->dtype, t->ndim, t->size);
        if (!out[i]) return gd_error(t->head.ctx);
    }
    return gd__list_write(out, count, x);
}
