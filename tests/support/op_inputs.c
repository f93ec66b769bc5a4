/* Operands of the operator cases: numbers from a domain, laid out in memory as a layout says. */
#include "support/op_cases.h"
#include "tensor/tensor_internal.h"

#include <math.h>

const char *const layout_names[LAYOUTS] = {"contiguous", "strided", "broadcast",
                                           "empty",      "single",  "labelled"};

/* ---- shapes ---- */

typedef struct shape {
    int ndim;
    int64_t size[GD_MAX_DIMS];
    char name[GD_MAX_DIMS][16];
} shape;

static shape parse_shape(const char *text)
{
    shape s = {0};
    int used;
    long long size;
    while (sscanf(text, " %15[a-z]=%lld%n", s.name[s.ndim], &size, &used) == 2) {
        s.size[s.ndim++] = size;
        text += used;
    }
    return s;
}

static const char *shape_text(const operand_spec *spec, layout l, bool large)
{
    if (large && spec->large) return spec->large;
    switch (l) {
    case BROADCAST: return spec->broadcast && !large ? spec->broadcast : spec->shape;
    case EMPTY: return spec->empty;
    case SINGLE: return spec->single;
    default: return spec->shape;
    }
}

/* True where the broadcast layout is an expansion that case_apply does. */
static bool expands(const operand_spec *spec, layout l, bool large)
{
    if (l != BROADCAST) return false;
    return !spec->broadcast || (large && strcmp(spec->broadcast, spec->shape) != 0);
}

gd_dtype case_dtype(const op_case *c) { return c->dtypes & 1 << GD_F64 ? GD_F64 : GD_I64; }

bool case_has_layout(const op_case *c, layout l)
{
    if (c->operands == 0) return l == CONTIGUOUS;
    for (int k = 0; k < c->operands; k++)
        if (!shape_text(&c->in[k], l, false)) return false;
    return true;
}

/* ---- numbers ---- */

static void shuffle(long double *v, int64_t n, uint64_t *state)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = random_below(state, i + 1);
        long double swap = v[i];
        v[i] = v[j];
        v[j] = swap;
    }
}

/* n different numbers, at least 0.6 / n of the range apart. */
static void distinct(long double *v, int64_t n, double low, double high, uint64_t *state)
{
    for (int64_t i = 0; i < n; i++)
        v[i] = (long double)(low + (high - low) * ((double)i + 0.3 + 0.4 * random_unit(state)) / (double)n);
    shuffle(v, n, state);
}

/* Matrices on the last two axes: noise plus a diagonal. */
static void matrices(array *a, domain d, uint64_t *state)
{
    int64_t rows = a->size[a->ndim - 2], columns = a->size[a->ndim - 1];
    for (int64_t at = 0; at < a->numel; at += rows * columns) {
        long double *m = a->v + at;
        long double noise = d == REGULAR ? 0.5L : 0.3L;
        for (int64_t i = 0; i < rows * columns; i++)
            m[i] = noise * (long double)(2 * random_unit(state) - 1) / (long double)(rows > 8 ? rows : 1);
        bool symmetric = d == DEFINITE || (d == SPREAD && rows == columns);
        for (int64_t i = 0; i < rows && symmetric; i++)
            for (int64_t j = 0; j < i && j < columns; j++) m[i * columns + j] = m[j * columns + i];
        for (int64_t i = 0; i < rows && i < columns; i++)
            m[i * columns + i] += d == DEFINITE   ? 2.0L
                                  : d == SPREAD   ? 1.5L * (long double)(i + 1)
                                  : d == TRIANGLE ? 1.5L
                                                  : 2.0L + 0.25L * (long double)i;
    }
}

static void fill_domain(array *a, const operand_spec *spec, gd_dtype dtype, uint64_t *state)
{
    bool whole = !gd_dtype_is_float(dtype);
    switch (spec->domain) {
    case FEW:
        for (int64_t i = 0; i < a->numel; i++) a->v[i] = (long double)random_below(state, 3) - 1;
        break;
    case GRID:
        for (int64_t i = 0; i < a->numel; i++) a->v[i] = ((long double)random_below(state, 257) - 128) / 64;
        break;
    case PLACES:
        for (int64_t i = 0; i < a->numel; i++) a->v[i] = (long double)random_below(state, spec->limit);
        break;
    case TRUTH:
        for (int64_t i = 0; i < a->numel; i++) a->v[i] = (long double)random_below(state, 2);
        break;
    case DEFINITE:
    case SPREAD:
    case TRIANGLE:
    case REGULAR: matrices(a, spec->domain, state); break;
    case POSITIVE: distinct(a->v, a->numel, 0.3, 2.3, state); break;
    case INSIDE: distinct(a->v, a->numel, -0.8, 0.8, state); break;
    case LOW_TAIL: distinct(a->v, a->numel, -6, -3, state); break;
    case ABOVE_ONE: distinct(a->v, a->numel, -0.7, 2, state); break;
    default:
        distinct(a->v, a->numel, -2, 2, state);
        for (int64_t i = 0; i < a->numel; i++)
            if (fabsl(a->v[i]) < 0.05L) a->v[i] = a->v[i] < 0 ? -0.05L + a->v[i] / 4 : 0.05L + a->v[i] / 4;
        if (spec->domain == WITH_ZERO && a->numel) a->v[0] = 0;
        break;
    }
    for (int64_t i = 0; i < a->numel; i++) {
        /* what the dtype holds; integers from the same domains */
        char item[8];
        long double v = whole ? truncl(a->v[i] * 4) : a->v[i];
        if (spec->domain == PLACES || spec->domain == TRUTH || spec->domain == FEW) v = a->v[i];
        if (whole && spec->domain == POSITIVE) v = 1 + fabsl(v);
        if (dtype == GD_U8 || dtype == GD_BOOL) v = fabsl(v);
        encode_item(dtype, v, item);
        a->v[i] = decode_item(dtype, item);
    }
}

/* ---- layouts ---- */

static gd_tensor *contiguous(gd_ctx *ctx, gd_dtype dtype, const array *a)
{
    size_t item = gd_dtype_size(dtype);
    char *data = malloc((size_t)a->numel * item + 1);
    if (!data) abort();
    for (int64_t i = 0; i < a->numel; i++) encode_item(dtype, a->v[i], data + (size_t)i * item);
    gd_tensor *t = gd_from_data(ctx, dtype, a->ndim, a->size, data);
    free(data);
    return t;
}

/* The middle one of three. */
static gd_tensor *strided_single(gd_ctx *ctx, gd_dtype dtype, const array *a)
{
    array three = array_new(1, (int64_t[]){3});
    three.v[0] = three.v[2] = gd_dtype_is_float(dtype) ? (long double)NAN : 1;
    three.v[1] = a->v[0];
    gd_tensor *t = gd_index(contiguous(ctx, dtype, &three), "0", 1);
    array_free(&three);
    return t;
}

/* base[in reversed axis order, the last 2 n + 1 long], seen through a slice and a permutation. */
static gd_tensor *strided(gd_ctx *ctx, gd_dtype dtype, const array *a, uint64_t *state)
{
    if (a->ndim == 0) return strided_single(ctx, dtype, a);
    int n = a->ndim, order[GD_MAX_DIMS];
    bool backwards = random_below(state, 2);
    int64_t size[GD_MAX_DIMS], rows = a->size[0], index[GD_MAX_DIMS] = {0};
    for (int j = 0; j < n; j++) {
        size[j] = a->size[n - 1 - j];
        order[j] = n - 1 - j;
    }
    size[n - 1] = 2 * rows + 1;
    array base = array_new(n, size);
    for (int64_t i = 0; i < base.numel; i++) base.v[i] = gd_dtype_is_float(dtype) ? (long double)NAN : 1;
    if (a->numel) do {
            int64_t at[GD_MAX_DIMS];
            for (int j = 0; j < n; j++) at[j] = index[n - 1 - j];
            at[n - 1] = backwards ? 2 * rows - 1 - 2 * index[0] : 1 + 2 * index[0];
            base.v[array_offset(&base, at)] = a->v[array_offset(a, index)];
        } while (array_next(a, index));
    gd_tensor *t = contiguous(ctx, dtype, &base);
    t = backwards ? gd_slice(t, "-1", 2 * rows - 1, 0, -2) : gd_slice(t, "-1", 1, 2 * rows + 1, 2);
    array_free(&base);
    return gd_permute(t, order);
}

/* Labels l0, l1, ... on the axis, or in falling order. */
static gd_tensor *with_labels(gd_tensor *t, const char *axis, bool falling)
{
    int at = gd_axis_find(t, axis);
    int64_t n = gd_size(t, at);
    char(*text)[24] = calloc((size_t)n + 1, sizeof *text);
    const char **label = calloc((size_t)n + 1, sizeof *label);
    if (!text || !label) abort();
    for (int64_t i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "l%lld", (long long)(falling ? n - 1 - i : i));
        label[i] = text[i];
    }
    gd_tensor *out = t ? gd_with_labels(t, axis, label) : NULL;
    free(text);
    free(label);
    return out;
}

/* Names on every axis, labels on the first; with `scramble` axes reversed and labels falling. */
static gd_tensor *labelled(gd_ctx *ctx, gd_dtype dtype, const array *a, const shape *s, bool scramble)
{
    if (a->ndim == 0) return contiguous(ctx, dtype, a);
    array mixed = array_new(a->ndim, a->size);
    int n = a->ndim;
    for (int j = 0; j < n && scramble; j++) mixed.size[j] = a->size[n - 1 - j];
    int64_t index[GD_MAX_DIMS] = {0};
    if (a->numel) do {
            int64_t at[GD_MAX_DIMS];
            for (int j = 0; j < n; j++) at[j] = scramble ? index[n - 1 - j] : index[j];
            if (scramble) at[n - 1] = a->size[0] - 1 - index[0];
            mixed.v[array_offset(&mixed, at)] = a->v[array_offset(a, index)];
        } while (array_next(a, index));
    char names[GD_MAX_DIMS * 18] = "";
    for (int j = 0; j < n; j++) {
        strcat(names, s->name[scramble ? n - 1 - j : j]);
        strcat(names, j < n - 1 ? ", " : "");
    }
    gd_tensor *t = gd_rename(contiguous(ctx, dtype, &mixed), names);
    array_free(&mixed);
    return t ? with_labels(t, s->name[0], scramble) : NULL;
}

/* The array that results when axis 0 of a (of size 1) is expanded to `size`. */
static array expanded(const array *a, int64_t size)
{
    int64_t full[GD_MAX_DIMS];
    memcpy(full, a->size, sizeof full);
    full[0] = size;
    array out = array_new(a->ndim, full);
    for (int64_t i = 0; i < out.numel; i++) out.v[i] = a->v[i % a->numel];
    return out;
}

bool case_build(case_inputs *inputs, gd_ctx *ctx, const op_case *c, layout l, gd_dtype dtype, uint64_t seed,
                bool large, bool with_values)
{
    *inputs = (case_inputs){.c = c, .layout = l, .large = large};
    uint64_t state = seed;
    bool made = true;
    for (int k = 0; k < c->operands; k++) {
        const operand_spec *spec = &c->in[k];
        gd_dtype own = spec->domain == PLACES ? GD_I64 : spec->domain == TRUTH ? GD_BOOL : dtype;
        shape s = parse_shape(shape_text(spec, l, large));
        bool expand = expands(spec, l, large) && s.ndim;
        int64_t first = s.size[0];
        if (expand) s.size[0] = 1;
        array a = array_new(s.ndim, s.size);
        fill_domain(&a, spec, own, &state);
        gd_tensor *t = l == STRIDED    ? strided(ctx, own, &a, &state)
                       : l == LABELLED ? labelled(ctx, own, &a, &s, c->scramble && k)
                                       : contiguous(ctx, own, &a);
        inputs->leaf[k] = t;
        made = made && t;
        if (with_values && expand) {
            inputs->value[k] = expanded(&a, first);
            array_free(&a);
        } else if (with_values)
            inputs->value[k] = a;
        else
            array_free(&a);
    }
    return made;
}

/* A copy of the whole storage, seen with the same sizes, strides and start. */
static gd_tensor *clone(gd_ctx *ctx, const gd_tensor *t)
{
    int64_t items = (int64_t)(t->storage->bytes / gd_dtype_size(t->dtype));
    gd_tensor *whole = gd_from_data(ctx, t->dtype, 1, &items, t->storage->data),
              *view = whole ? gd__bare(whole) : NULL;
    if (!view) return NULL;
    view->ndim = t->ndim;
    view->numel = t->numel;
    memcpy(view->size, t->size, sizeof view->size);
    memcpy(view->stride, t->stride, sizeof view->stride);
    view->data += t->data - t->storage->data;
    return view;
}

bool case_clone(case_inputs *to, gd_ctx *ctx, const case_inputs *from)
{
    *to = (case_inputs){.c = from->c, .layout = from->layout, .large = from->large};
    bool made = true;
    for (int k = 0; k < from->c->operands; k++) made = (to->leaf[k] = clone(ctx, from->leaf[k])) && made;
    return made;
}

void case_free(case_inputs *inputs)
{
    for (int k = 0; k < MAX_OPERANDS; k++) array_free(&inputs->value[k]);
}

gd_tensor *case_apply(const case_inputs *inputs, gd_ctx *ctx, gd_tensor *const *leaf)
{
    const op_case *c = inputs->c;
    gd_tensor *in[MAX_OPERANDS] = {NULL};
    for (int k = 0; k < c->operands; k++) {
        in[k] = leaf[k];
        if (!expands(&c->in[k], inputs->layout, inputs->large)) continue;
        shape s = parse_shape(shape_text(&c->in[k], inputs->layout, inputs->large));
        if (s.ndim) in[k] = gd_expand(leaf[k], s.ndim, s.size);
    }
    return c->apply(ctx, in);
}

gd_tensor *case_moved(gd_tensor *t, gd_device *device)
{
    int n = gd_ndim(t), order[GD_MAX_DIMS], back[GD_MAX_DIMS];
    const int64_t *stride = gd_strides(t);
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = 1; i < n; i++) /* largest stride first */
        for (int j = i; j > 0; j--) {
            int64_t a = stride[order[j]], b = stride[order[j - 1]];
            if ((a < 0 ? -a : a) <= (b < 0 ? -b : b)) break;
            int swap = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    for (int i = 0; i < n; i++) back[order[i]] = i;
    return gd_permute(gd_to_device(gd_contiguous(gd_permute(t, order)), device), back);
}
