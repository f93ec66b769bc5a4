/* Random directions that are never stored, derivatives along them, and estimates from them. */
#include "gradus/link/estimate.h"
#include "optim/step/optimizer.h"
#include "optim/vector/layout.h"
#include "optim/vector/origin.h"
#include "tensor/device.h"
#include "tensor/item.h"
#include "tensor/shape.h"

#include <math.h>

static bool usable(const gd_link *link, const gd_var *var)
{
    return link && var && gd_link_class_of(link)->data_size >= sizeof(gd_directions) &&
           gd_link_has_field(link, "n_samples") && gd_link_has_field(link, "formula");
}

static gd_status refused(const gd_link *link, const gd_var *var)
{
    return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var),
                    "directions: no link with their settings, or no step");
}

/* One direction at a time. */
typedef struct walk {
    gd_link *link;
    gd_var *var;
    gd_layout layout;
    gd_rng *rng;
    uint64_t *offset; /* first block of each parameter */
    uint64_t blocks;  /* of a direction: two numbers each */
    uint64_t first;   /* block where the current direction starts */
    gd_random_kind kind;
    bool sphere;
    double factor;   /* of the numbers of the generator */
    gd_origin start; /* not kept: moves in place */
    double here;     /* device of the parameters, in place */
    gd_status (*value)(gd_var *var, double *value);
} walk;

static gd_status walk_open(walk *w, gd_link *link, gd_var *var)
{
    *w = (walk){
        .link = link, .var = var, .rng = gd__link_rng(link), .factor = 1, .value = gd_var_inner_value};
    gd_status status = gd__layout_init(&w->layout, gd_var_ctx(var), gd_var_params(var), gd_var_count(var));
    if (status) return status;
    size_t count = (size_t)w->layout.count;
    if (!(w->offset = gd__alloc_array(w->layout.ctx, count, sizeof *w->offset))) return GD_NOMEM;
    for (size_t i = 0; i < count; i++) {
        w->offset[i] = w->blocks;
        w->blocks += ((uint64_t)w->layout.like[i]->numel + 1) / 2;
    }
    const char *d = gd_link_get(link, "distribution", NULL)->string;
    w->sphere = *d == 's';
    w->kind = *d == 'r' ? GD_RANDOM_SIGN : *d == 'u' ? GD_RANDOM_UNIFORM : GD_RANDOM_NORMAL;
    return GD_OK;
}

static void walk_close(walk *w)
{
    gd__origin_free(&w->start);
    gd__free(w->layout.ctx, w->offset, (size_t)w->layout.count * sizeof *w->offset);
    gd__layout_free(&w->layout);
}

/* ---- the numbers ---- */

/* n elements of the direction from `begin` (even) in a parameter. */
static void numbers(const walk *w, int parameter, int64_t begin, int64_t n, double *z)
{
    for (int64_t k = 0; k < n; k += 2) {
        uint32_t word[4];
        double pair[2];
        gd__philox(w->rng->key, w->first + w->offset[parameter] + (uint64_t)(begin + k) / 2, word);
        gd__random_pair((int)w->kind, 0x1p53, word, pair);
        for (int64_t j = k; j < n && j < k + 2; j++)
            z[j] = w->kind == GD_RANDOM_UNIFORM ? (2 * pair[j - k] - 1) * 1.7320508075688772 : pair[j - k];
    }
}

#define PIECE 512

/* On a sphere a direction is a gaussian one of length sqrt n. */
static void set_direction(walk *w, uint64_t first)
{
    w->first = first;
    w->factor = 1;
    if (!w->sphere) return;
    double square = 0, z[PIECE];
    for (int i = 0; i < w->layout.count; i++)
        for (int64_t at = 0, n = w->layout.like[i]->numel; at < n; at += PIECE) {
            int64_t m = n - at < PIECE ? n - at : PIECE;
            numbers(w, i, at, m, z);
            for (int64_t k = 0; k < m; k++) square += z[k] * z[k];
        }
    if (square > 0) w->factor = sqrt((double)w->layout.total / square);
}

/* ---- adding a multiple of the direction ---- */

typedef struct add_job {
    const walk *w;
    gd_tensor *const *to, *const *from;
    double c;
    const double *each; /* a factor for every parameter, or NULL */
} add_job;

static double amount(const add_job *j, int parameter)
{
    return j->c * j->w->factor * (j->each ? j->each[parameter] : 1);
}

static void add_span(void *arg, const gd_span *s, int64_t index)
{
    (void)index;
    const add_job *j = arg;
    const gd_layout *l = &j->w->layout;
    double z[PIECE], c = amount(j, s->tensor);
    for (int64_t at = 0; at < s->size; at += PIECE) {
        int64_t n = s->size - at < PIECE ? s->size - at : PIECE;
        numbers(j->w, s->tensor, s->begin + at, n, z);
        if (l->dtype == GD_F64) {
            double *to = (double *)gd__in_list(l, j->to, s) + at;
            const double *from = (const double *)gd__in_list(l, j->from, s) + at;
            for (int64_t k = 0; k < n; k++) to[k] = from[k] + c * z[k];
        } else {
            float *to = (float *)gd__in_list(l, j->to, s) + at;
            const float *from = (const float *)gd__in_list(l, j->from, s) + at;
            for (int64_t k = 0; k < n; k++) to[k] = (float)((double)from[k] + c * z[k]);
        }
    }
}

static bool on_host(const walk *w, gd_tensor *const *list)
{
    for (int i = 0; i < w->layout.count; i++)
        if (list[i]->storage->device != gd__cpu(w->layout.ctx) || !gd__contiguous(list[i])) return false;
    return true;
}

/* A parameter of any dtype, without memory of its size: computed in f64, then rounded once. */
static void add_items(const add_job *j, int i)
{
    gd_tensor *to = j->to[i];
    const gd_tensor *from = j->from[i];
    double z[PIECE], c = amount(j, i);
    for (int64_t at = 0; at < to->numel; at += PIECE) {
        int64_t n = to->numel - at < PIECE ? to->numel - at : PIECE;
        numbers(j->w, i, at, n, z);
        for (int64_t k = 0; k < n; k++)
            gd__set_float_item(to->data, to->dtype, at + k,
                               gd__float_item(from->data, from->dtype, at + k) + c * z[k]);
    }
}

#define THERE (1 << 20) /* elements at a time on other devices */

/* n elements of the direction from `begin` (even) in a parameter, as a tensor. */
static gd_tensor *as_tensor(const walk *w, int i, int64_t begin, int64_t n)
{
    gd_tensor *like = w->layout.like[i];
    gd_rng at = {.key = w->rng->key, .counter = w->first + w->offset[i] + (uint64_t)begin / 2};
    gd_dtype dtype = like->dtype == GD_F64 ? GD_F64 : GD_F32;
    gd_tensor *z = gd__random(like->storage->device, &at, gd_link_class_of(w->link)->name, w->kind, dtype, 1,
                              &n);
    if (w->kind == GD_RANDOM_UNIFORM)
        z = gd_mul_scalar(gd_add_scalar(gd_mul_scalar(z, 2), -1), 1.7320508075688772);
    return z;
}

static gd_tensor *piece_of(gd_tensor *t, int64_t begin, int64_t n, bool whole)
{
    if (whole) return gd_drop_names(gd_detach(t));
    gd_tensor *vector = gd__reshape(gd_drop_names(gd_detach(t)), 1, &t->numel);
    return vector ? gd__slice(vector, 0, begin, n, 1) : NULL;
}

/* Tensors with permuted strides have no pieces. */
static bool is_whole(const add_job *j, int i)
{
    return !gd__contiguous(j->to[i]) || !gd__contiguous(j->from[i]);
}

/* A piece of a parameter on another device, or all of it, by operators: computed in the wider dtype, then rounded once. */
static gd_status add_piece(const add_job *j, int i, int64_t begin, double sign)
{
    gd_ctx *ctx = j->w->layout.ctx;
    bool whole = is_whole(j, i);
    int64_t left = j->to[i]->numel - begin, n = whole || left < THERE ? left : THERE;
    gd__aside_begin(ctx);
    gd_tensor *z = as_tensor(j->w, i, begin, n), *from = piece_of(j->from[i], begin, n, whole),
              *to = piece_of(j->to[i], begin, n, whole), *sum = NULL;
    if (whole && z && to) z = gd__reshape(z, to->ndim, to->size);
    if (z && from) sum = gd_add(gd_cast(from, gd_tensor_dtype(z)), gd_mul_scalar(z, sign * amount(j, i)));
    gd_status status = sum && to ? gd_assign(to, sum) : gd_error(ctx);
    gd__aside_end(ctx);
    return status;
}

/* All pieces, or none if they are changed in place. */
static gd_status add_there(const add_job *j, int i, double sign)
{
    gd_status status = GD_OK;
    int64_t most = is_whole(j, i) ? j->to[i]->numel : THERE;
    for (int64_t at = 0; at < j->to[i]->numel && !status; at += most) {
        status = add_piece(j, i, at, sign);
        for (int64_t back = 0; status && j->to == j->from && back < at; back += most)
            (void)!add_piece(j, i, back, -sign);
    }
    return status;
}

/* to = from + c z: for all parameters or, if from is to and it fails, for none. */
static gd_status add(const walk *w, gd_tensor *const *to, gd_tensor *const *from, double c,
                     const double *each)
{
    add_job j = {.w = w, .to = to, .from = from, .c = c, .each = each};
    int count = w->layout.count;
    gd_status status = GD_OK;
    if (gd__plain(&w->layout, to) && gd__plain(&w->layout, from))
        gd__each_span(&w->layout, add_span, &j);
    else if (on_host(w, to) && on_host(w, from))
        for (int i = 0; i < count; i++) add_items(&j, i);
    else
        for (int i = 0; i < count && !status; i++) {
            status = add_there(&j, i, 1);
            for (int k = 0; status && to == from && k < i; k++) (void)!add_there(&j, k, -1);
        }
    for (int i = 0; i < count; i++) gd__touch(to[i]);
    return status;
}

/* ---- derivatives ---- */

/* Parameters to x + a z. */
static gd_status go_to(walk *w, double a)
{
    gd_tensor *const *params = w->layout.like;
    gd_status status = w->start.kept ? add(w, params, w->start.value, a, NULL)
                                     : add(w, params, params, a - w->here, NULL);
    if (!status) w->here = a;
    return status;
}

static gd_status go_back(walk *w)
{
    return w->start.kept ? gd__origin_return(&w->start) : w->here != 0 ? go_to(w, 0) : GD_OK;
}

/* The derivative along the current direction; parameters are back afterwards, also on failure. */
static gd_status derivative(walk *w, double f0, double *out)
{
    const gd_difference *d = gd_link_difference(w->link);
    double h = gd_link_real(w->link, "h", NULL);
    gd_status status = GD_OK;
    *out = 0;
    for (int k = 0; k < d->points && !status; k++) {
        double f = f0;
        if (d->at[k] != 0) {
            status = go_to(w, d->at[k] * h);
            if (!status) status = w->value(w->var, &f);
        }
        *out += d->weight[k] * f / h;
    }
    gd_status back = go_back(w);
    return status ? status : back;
}

static uint64_t take(const walk *w)
{
    return gd__rng_take(w->rng, w->blocks * (uint64_t)gd_link_real(w->link, "n_samples", NULL));
}

static gd_status sampled_gradient(walk *w, uint64_t base, double f0, gd_tensor **grads)
{
    int samples = (int)gd_link_real(w->link, "n_samples", NULL);
    gd_status status = gd__list_new(&w->layout, grads, true);
    for (int s = 0; s < samples && !status; s++) {
        double slope = 0;
        set_direction(w, base + (uint64_t)s * w->blocks);
        status = derivative(w, f0, &slope);
        if (!status) status = add(w, grads, grads, slope / samples, NULL);
    }
    return status;
}

static gd_status estimate_with(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads, bool in_place)
{
    if (!usable(link, var) || !loss || !grads) return refused(link, var);
    walk w;
    double f0 = NAN;
    gd_status status = walk_open(&w, link, var);
    if (!status && !in_place) status = gd__origin_keep(&w.start, w.layout.ctx, w.layout.like, w.layout.count);
    if (!status && gd_link_difference(link)->at[0] == 0) {
        status = gd_var_inner_evaluate(var, loss, NULL);
        if (!status) f0 = gd_item(*loss);
    }
    const gd_directions *data = gd_link_data(link);
    bool fixed = in_place || gd_link_flag(link, "pre_generate");
    if (!status) status = sampled_gradient(&w, fixed ? data->first : take(&w), f0, grads);
    walk_close(&w);
    return status;
}

gd_status gd_directions_estimate(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    return estimate_with(link, var, loss, grads, false);
}

gd_status gd_directions_estimate_in_place(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    return estimate_with(link, var, loss, grads, true);
}

/* The directions of this step. */
gd_status gd_directions_draw(gd_link *link, gd_var *var)
{
    if (!usable(link, var)) return refused(link, var);
    walk w;
    gd_status status = walk_open(&w, link, var);
    if (!status) ((gd_directions *)gd_link_data(link))->first = take(&w);
    walk_close(&w);
    return status;
}

/* ---- mezo as the whole step ---- */

/* All derivatives at x, then x -= lr D z for each direction again. */
gd_status gd_directions_step(gd_link *link, gd_var *var)
{
    if (!usable(link, var)) return refused(link, var);
    walk w;
    uint64_t base = ((const gd_directions *)gd_link_data(link))->first;
    int samples = (int)gd_link_real(link, "n_samples", NULL);
    double f0 = NAN, *slope = gd__alloc_array(gd_var_ctx(var), (size_t)samples, sizeof *slope);
    gd_status status = walk_open(&w, link, var);
    if (!slope) status = GD_NOMEM;
    w.value = gd_var_evaluate_at;
    if (!status && gd_link_difference(link)->at[0] == 0) {
        f0 = gd_var_loss_value(var, false);
        status = gd_error(w.layout.ctx);
    }
    bool finite = true;
    for (int s = 0; s < samples && !status; s++) {
        set_direction(&w, base + (uint64_t)s * w.blocks);
        status = derivative(&w, f0, &slope[s]);
        finite = finite && isfinite(slope[s]);
    }
    for (int s = 0; s < samples && !status && finite; s++) {
        set_direction(&w, base + (uint64_t)s * w.blocks);
        status = add(&w, w.layout.like, w.layout.like, -slope[s] / samples, gd_var_last_lrs(var));
    }
    if (!status && !finite) gd_var_note_skipped(var);
    walk_close(&w);
    gd__free(gd_var_ctx(var), slope, (size_t)samples * sizeof *slope);
    gd_var_skip_update(var);
    gd_var_stop(var);
    return status;
}
