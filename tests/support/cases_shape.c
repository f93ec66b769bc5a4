/* Shape operators, indexing, joining, copies. */
#include "support/op_cases.h"
#include "support/op_references.h"
#include "tensor/device.h"
#include "tensor/shape.h"

#include <math.h>

#define APPLY_X(name, expression)                                     \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                 \
        (void)ctx;                                                    \
        gd_tensor *x = in[0];                                         \
        return expression;                                            \
    }

/* ---- the same elements in the same order, another shape ---- */

static void same_elements(const array *x, int ndim, const int64_t *size, array *out)
{
    *out = array_new(ndim, size);
    memcpy(out->v, x->v, (size_t)x->numel * sizeof *x->v);
}

static void ref_same(const array *in, array *out) { same_elements(in, in->ndim, in->size, out); }
static void ref_flat(const array *in, array *out) { same_elements(in, 1, &in->numel, out); }
static void ref_pairs(const array *in, array *out)
{
    same_elements(in, 3, (int64_t[]){in->numel / (in->size[1] * in->size[2]), 1, in->size[1] * in->size[2]},
                  out);
}
static void ref_squeezed(const array *in, array *out)
{
    same_elements(in, 2, (int64_t[]){in->size[0], in->size[2]}, out);
}
static void ref_squeezed_all(const array *in, array *out)
{
    int64_t size[GD_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < in->ndim; i++)
        if (in->size[i] != 1) size[n++] = in->size[i];
    same_elements(in, n, size, out);
}
static void ref_unsqueezed(const array *in, array *out)
{
    same_elements(in, 3, (int64_t[]){in->size[0], 1, in->size[1]}, out);
}

APPLY_X(reshape_flat, gd_reshape(x, 1, (int64_t[]){gd_numel(x)}))
APPLY_X(reshape_guess, gd_reshape(x, 3, (int64_t[]){-1, 1, gd_size(x, 1) * gd_size(x, 2)}))
APPLY_X(squeeze_one, gd_squeeze(x, "1"))
APPLY_X(squeeze_all, gd_squeeze(x, NULL))
APPLY_X(unsqueeze, gd_unsqueeze(x, 1, "new"))
APPLY_X(copy, gd_copy(x))
APPLY_X(contiguous, gd_contiguous(x))
APPLY_X(detach, gd_detach(x))
APPLY_X(rename, gd_rename(x, "p, _"))
APPLY_X(rename_axis, gd_rename_axis(x, "0", "p"))
APPLY_X(drop_names, gd_drop_names(x))
APPLY_X(with_labels, gd_with_labels(x, "1", (const char *[]){"a", "b", "c"}))
/* through f32 and back: the numbers and steps of the grid are exact there */
APPLY_X(cast_f32, gd_cast(gd_cast(x, GD_F32), GD_F64))
APPLY_X(cast_i32, gd_cast(gd_cast(x, GD_I32), GD_F64))
APPLY_X(cast_bool, gd_cast(gd_cast(x, GD_BOOL), GD_F64))

static void ref_truncated(const array *in, array *out)
{
    ref_same(in, out);
    for (int64_t i = 0; i < out->numel; i++) out->v[i] = truncl(out->v[i]);
}

static void ref_truth(const array *in, array *out)
{
    ref_same(in, out);
    for (int64_t i = 0; i < out->numel; i++) out->v[i] = out->v[i] != 0;
}

/* A second device: the CPU's kernels under another name, memory of its own. */
static const char other_key;

static void *other_make(gd_ctx *ctx)
{
    gd_device *cpu = gd_device_get(ctx, "cpu"), *other = gd__alloc(ctx, sizeof *other);
    if (!cpu || !other) {
        gd__free(ctx, other, sizeof *other);
        return NULL;
    }
    *other = *cpu;
    snprintf(other->name, sizeof other->name, "other");
    return other;
}

static void other_destroy(gd_ctx *ctx, void *device) { gd__free(ctx, device, sizeof(gd_device)); }

static gd_tensor *apply_to_device(gd_ctx *ctx, gd_tensor *const *in)
{
    gd_device *other = gd__extension(ctx, &other_key, other_make, other_destroy);
    return gd_to_device(gd_square(gd_to_device(in[0], other)), gd_device_get(ctx, "cpu"));
}

static long double squared(long double x, long double y, long double z) { return (void)y, (void)z, x * x; }
static void ref_squared(const array *in, array *out) { ref_map(in, 1, squared, out); }

/* ---- views by index arithmetic ---- */

#define PICK(name, axes, shape, offset)                                             \
    static int64_t from_##name(const array *x, const int64_t *i, const void *user)  \
    {                                                                               \
        (void)user;                                                                 \
        (void)x;                                                                    \
        (void)i;                                                                    \
        return offset;                                                              \
    }                                                                               \
    static void ref_##name(const array *x, array *out)                              \
    {                                                                               \
        ref_pick(x, axes, (int64_t[]){EXPAND shape, 0}, from_##name, NULL, 0, out); \
    }
#define EXPAND(...)  __VA_ARGS__
#define AT2(a, b)    ((a)*x->size[1] + (b))
#define AT3(a, b, c) (((a)*x->size[1] + (b)) * x->size[2] + (c))
#define S(k)         x->size[k]

APPLY_X(permute, gd_permute(x, (int[]){2, 0, -2}))
PICK(permute, 3, (S(2), S(0), S(1)), AT3(i[1], i[2], i[0]))
APPLY_X(turned, gd_transpose(x, 0, -1))
PICK(turned, 3, (S(2), S(1), S(0)), AT3(i[2], i[1], i[0]))
APPLY_X(expand, gd_expand(x, 3, (int64_t[]){2, 3, -1}))
PICK(expand, 3, (2, 3, S(1)), i[2])
APPLY_X(slice_step, gd_slice(x, "1", 1, INT64_MAX, 2))
PICK(slice_step, 2, (S(0), S(1) / 2), AT2(i[0], 1 + 2 * i[1]))
APPLY_X(slice_back, gd_slice(x, "1", -1, INT64_MIN, -2))
PICK(slice_back, 2, (S(0), (S(1) + 1) / 2), AT2(i[0], S(1) - 1 - 2 * i[1]))
APPLY_X(index, gd_index(x, "1", -2))
PICK(index, 1, (S(0)), AT2(i[0], S(1) - 2))
APPLY_X(index_label, gd_index_label(gd_with_labels(x, "1", (const char *[]){"a", "b", "c", "d"}), "1", "c"))
PICK(index_label, 1, (S(0)), AT2(i[0], 2))
APPLY_X(flip, gd_flip(x, "0, 2"))
PICK(flip, 3, (S(0), S(1), S(2)), AT3(S(0) - 1 - i[0], i[1], S(2) - 1 - i[2]))
APPLY_X(flip_all, gd_flip(x, NULL))
PICK(flip_all, 3, (S(0), S(1), S(2)), AT3(S(0) - 1 - i[0], S(1) - 1 - i[1], S(2) - 1 - i[2]))
APPLY_X(tril, gd_tril(x, 0))
PICK(tril, 3, (S(0), S(1), S(2)), i[2] <= i[1] ? AT3(i[0], i[1], i[2]) : -1)
APPLY_X(triu, gd_triu(x, 1))
PICK(triu, 3, (S(0), S(1), S(2)), i[2] >= i[1] + 1 ? AT3(i[0], i[1], i[2]) : -1)
APPLY_X(diagonal, gd_diagonal(x))
PICK(diagonal, 2, (S(0), S(1) < S(2) ? S(1) : S(2)), AT3(i[0], i[1], i[1]))

APPLY_X(pad, gd_pad(x, (int64_t[]){1, 0}, (int64_t[]){0, 2}, 3))
static int64_t from_pad(const array *x, const int64_t *i, const void *user)
{
    (void)user;
    return i[0] < 1 || i[1] >= S(1) ? -1 : AT2(i[0] - 1, i[1]);
}
static void ref_pad(const array *x, array *out)
{
    ref_pick(x, 2, (int64_t[]){S(0) + 1, S(1) + 2}, from_pad, NULL, 3, out);
}

/* Aligned to [col, new, row]. */
static gd_tensor *apply_align(gd_ctx *ctx, gd_tensor *const *in)
{
    gd_tensor *like = gd_rename(gd_ones(ctx, GD_F64, 3, (int64_t[]){1, 1, 1}), "q, new, p");
    return gd_align(gd_rename(in[0], "p, q"), like);
}
PICK(align, 3, (S(1), 1, S(0)), AT2(i[2], i[0]))

/* ---- picking and placing by index ---- */

#define ROW(k) (int64_t) in[1].v[k]

static gd_tensor *apply_index_select(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_index_select(in[0], "1", in[1]);
}
static int64_t from_index_select(const array *x, const int64_t *i, const void *user)
{
    const array *in = user;
    return AT3(i[0], ROW(i[1]), i[2]);
}
static void ref_index_select(const array *in, array *out)
{
    ref_pick(in, 3, (int64_t[]){in->size[0], in[1].numel, in->size[2]}, from_index_select, in, 0, out);
}

static gd_tensor *apply_gather(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_gather(in[0], "1", in[1]);
}
static gd_tensor *apply_gather_small(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_gather(in[0], "1", gd_cast(in[1], GD_U8));
}
static int64_t from_gather(const array *x, const int64_t *i, const void *user)
{
    const array *in = user;
    return AT2(i[0], ROW(array_offset(&in[1], i)));
}
static void ref_gather(const array *in, array *out) { ref_pick(in, 2, in[1].size, from_gather, in, 0, out); }

static gd_tensor *apply_scatter_add(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_scatter_add(in[0], "1", in[1], in[2]);
}
static void ref_scatter_add(const array *in, array *out)
{
    ref_same(in, out);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t k = 0; k < out->numel; k++) out->scale[k] = 8;
    int64_t i[GD_MAX_DIMS] = {0};
    for (int64_t k = 0; k < in[1].numel; k++, (void)array_next(&in[1], i))
        out->v[i[0] * in->size[1] + ROW(k)] += in[2].v[k];
}

static gd_tensor *apply_index_add(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    return gd__index_add(in[0], 0, in[1], in[2]);
}
static void ref_index_add(const array *in, array *out)
{
    ref_same(in, out);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t k = 0; k < out->numel; k++) out->scale[k] = 8;
    for (int64_t k = 0; k < in[2].numel; k++)
        out->v[ROW(k / in->size[1]) * in->size[1] + k % in->size[1]] += in[2].v[k];
}

/* Of values for one place the last counts. */
static gd_tensor *apply_index_put(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd__index_put(in[0], 0, in[1], in[2]);
}
static gd_tensor *apply_put(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_key key[2] = {{.kind = GD_KEY_INDEX, .index = in[1]}, {.kind = GD_KEY_REST}};
    return gd_put(in[0], key, 2, in[2]);
}
static gd_tensor *apply_put_into(gd_ctx *ctx, gd_tensor *const *in)
{
    gd_key key[1] = {{.kind = GD_KEY_INDEX, .index = gd_add_scalar(in[1], -(double)gd_size(in[0], 0))}};
    gd_tensor *out = gd_detach(gd_copy(in[0]));
    return gd_put_into(out, key, 1, in[2]) == GD_OK && gd_error(ctx) == GD_OK ? out : NULL;
}
static void ref_index_put(const array *in, array *out)
{
    ref_same(in, out);
    for (int64_t k = 0; k < in[2].numel; k++)
        out->v[ROW(k / in->size[1]) * in->size[1] + k % in->size[1]] = in[2].v[k];
}

/* x[i, ::-1, i - n] of an index of two axes: those stand in front. */
static gd_tensor *apply_get(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *behind = gd_add_scalar(in[1], -(double)gd_size(in[0], 2));
    gd_key key[3] = {{.kind = GD_KEY_INDEX, .index = in[1]},
                     {GD_KEY_SLICE, INT64_MAX, INT64_MIN, -1, NULL},
                     {.kind = GD_KEY_INDEX, .index = behind}};
    return gd_get(in[0], key, 3);
}
static int64_t from_get(const array *x, const int64_t *i, const void *user)
{
    const array *in = user;
    int64_t at = ROW(i[0] * in[1].size[1] + i[1]);
    return AT3(at, S(1) - 1 - i[2], at);
}
static void ref_get(const array *in, array *out)
{
    ref_pick(in, 3, (int64_t[]){in[1].size[0], in[1].size[1], in->size[1]}, from_get, in, 0, out);
}

/* x[..., None, mask] */
static gd_tensor *apply_get_mask(gd_ctx *ctx, gd_tensor *const *in)
{
    gd_tensor *mask = gd_from_data(ctx, GD_BOOL, 1, (int64_t[]){4}, (uint8_t[]){1, 0, 1, 1});
    gd_key key[3] = {{.kind = GD_KEY_REST},
                     {.kind = GD_KEY_NEW},
                     {.kind = GD_KEY_INDEX, .index = gd_to_device(mask, gd_tensor_device(in[0]))}};
    return gd_get(in[0], key, 3);
}
static int64_t from_get_mask(const array *x, const int64_t *i, const void *user)
{
    (void)user;
    return AT2(i[0], i[2] + (i[2] > 0));
}
static void ref_get_mask(const array *in, array *out)
{
    ref_pick(in, 3, (int64_t[]){in->size[0], 1, 3}, from_get_mask, in, 0, out);
}

/* ---- joining and cutting ---- */

static gd_tensor *apply_cat(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_cat((gd_tensor *[]){in[0], in[1], in[0]}, 3, "1");
}
static void ref_cat(const array *in, array *out)
{
    int64_t a = in->size[1], b = in[1].size[1], n = 2 * a + b;
    *out = array_new(2, (int64_t[]){in->size[0], n});
    for (int64_t k = 0; k < out->numel; k++) {
        int64_t i = k / n, j = k % n;
        out->v[k] = j < a ? in->v[i * a + j] : j < a + b ? in[1].v[i * b + j - a] : in->v[i * a + j - a - b];
    }
}

/* More parts than fit in the tables on the stack. */
#define PARTS 70
static gd_tensor *apply_cat_many(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *part[PARTS];
    for (int k = 0; k < PARTS; k++) part[k] = in[k % 2];
    return gd_cat(part, PARTS, "0");
}
static void ref_cat_many(const array *in, array *out)
{
    int64_t a = in[0].numel, b = in[1].numel;
    *out = array_new(2, (int64_t[]){PARTS / 2 * (in[0].size[0] + in[1].size[0]), in->size[1]});
    for (int64_t k = 0; k < out->numel; k++)
        out->v[k] = k % (a + b) < a ? in[0].v[k % (a + b)] : in[1].v[k % (a + b) - a];
}

static gd_tensor *apply_stack(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_stack((gd_tensor *[]){in[0], in[1]}, 2, -1, "pair");
}
static void ref_stack(const array *in, array *out)
{
    *out = array_new(3, (int64_t[]){in->size[0], in->size[1], 2});
    for (int64_t k = 0; k < out->numel; k++) out->v[k] = in[k % 2].v[k / 2];
}

/* The pieces in falling order, joined again. */
static gd_tensor *apply_split(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *piece[200] = {NULL}, *back[200];
    int count = (int)((gd_size(in[0], 1) + 1) / 2);
    if (gd_split(in[0], "1", 2, piece, COUNT_OF(piece))) return NULL;
    for (int k = 0; k < count; k++) back[k] = piece[count - 1 - k];
    return gd_cat(back, count, "1");
}
static int64_t from_split(const array *x, const int64_t *i, const void *user)
{
    (void)user;
    int64_t odd = S(1) % 2, j = i[1] - odd;
    return j < 0 ? AT2(i[0], S(1) - 1) : AT2(i[0], S(1) - odd - 2 - j / 2 * 2 + j % 2);
}
static void ref_split(const array *x, array *out) { ref_pick(x, 2, x->size, from_split, NULL, 0, out); }

/* x^2, computed without history, with its gradient. */
static gd_status square_gradient(void *x, gd_tensor *grad, const bool *need, gd_tensor **grads)
{
    if (need[0]) grads[0] = gd_mul(gd_mul_scalar(gd_drop_names(x), 2), grad);
    return gd_error(gd_tensor_ctx(x));
}
static void let_go(void *x) { gd_release(x); }
static gd_tensor *apply_custom(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    return gd_custom(gd_detach(gd_square(in[0])), in, 1, square_gradient, gd_retain(in[0]), let_go);
}

/* ---- the table ---- */

#define FLAT(domain)                                                                    \
    {                                                                                   \
        domain, "row=2 col=3", NULL, "row=0 col=3", "row=1 col=1", "row=300 col=400", 0 \
    }
#define WIDE(domain)                                                                    \
    {                                                                                   \
        domain, "row=2 col=5", NULL, "row=0 col=5", "row=1 col=3", "row=300 col=399", 0 \
    }
#define CUBE(domain)                                                                 \
    {                                                                                \
        domain, "row=2 mid=2 col=3", NULL, "row=0 mid=2 col=3", "row=1 mid=1 col=1", \
            "row=40 mid=20 col=150", 0                                               \
    }
#define BATCH(domain)                                                                      \
    {                                                                                      \
        domain, "batch=2 row=3 col=3", NULL, "batch=0 row=3 col=3", "batch=1 row=1 col=1", \
            "batch=3 row=200 col=200", 0                                                   \
    }

#define CASE1(title, operator, fn, operand, derivatives, allowed)                                         \
    {                                                                                                     \
        .name = title, .op = GD_OP_##operator, .apply = apply_##fn, .reference = ref_##fn, .operands = 1, \
        .in = {operand}, .dtypes = allowed, .order = derivatives                                          \
    }
#define KEEPS(title, operator, fn, ref, operand, derivatives, allowed)                               \
    {                                                                                                \
        .name = title, .op = GD_OP_##operator, .apply = apply_##fn, .reference = ref, .operands = 1, \
        .in = {operand}, .dtypes = allowed, .order = derivatives                                     \
    }
#define F64_ONLY (1 << GD_F64)

static const op_case rows[] = {
    KEEPS("reshape/flat", reshape, reshape_flat, ref_flat, CUBE(ANY), 2, EVERYTHING),
    KEEPS("reshape/guess", reshape, reshape_guess, ref_pairs, CUBE(ANY), 2, EVERYTHING),
    {.name = "squeeze",
     .op = GD_OP_reshape,
     .apply = apply_squeeze_one,
     .reference = ref_squeezed,
     .operands = 1,
     .in = {{ANY, "row=2 one=1 col=3", NULL, "row=0 one=1 col=3", "row=1 one=1 col=1",
             "row=300 one=1 col=400", 0}},
     .dtypes = EVERYTHING,
     .order = 2},
    {.name = "squeeze/all",
     .op = GD_OP_reshape,
     .apply = apply_squeeze_all,
     .reference = ref_squeezed_all,
     .operands = 1,
     .in = {{ANY, "row=2 one=1 col=3", NULL, "row=0 one=1 col=3", "row=1 one=1 col=1",
             "row=300 one=1 col=400", 0}},
     .dtypes = EVERYTHING,
     .order = 2},
    KEEPS("unsqueeze", reshape, unsqueeze, ref_unsqueezed, FLAT(ANY), 2, EVERYTHING),
    KEEPS("copy", copy, copy, ref_same, CUBE(ANY), 2, EVERYTHING),
    KEEPS("contiguous", relabel, contiguous, ref_same, CUBE(ANY), 2, EVERYTHING),
    {.name = "detach",
     .op = NO_OPERATOR,
     .apply = apply_detach,
     .reference = ref_same,
     .operands = 1,
     .in = {CUBE(ANY)},
     .dtypes = EVERYTHING},
    KEEPS("rename", relabel, rename, ref_same, FLAT(ANY), 2, EVERYTHING),
    KEEPS("rename_axis", relabel, rename_axis, ref_same, FLAT(ANY), 2, EVERYTHING),
    KEEPS("drop_names", relabel, drop_names, ref_same, FLAT(ANY), 2, EVERYTHING),
    {.name = "with_labels",
     .op = GD_OP_relabel,
     .apply = apply_with_labels,
     .reference = ref_same,
     .operands = 1,
     .in = {{ANY, "row=2 col=3", NULL, "row=0 col=3", NULL, NULL, 0}},
     .dtypes = EVERYTHING,
     .order = 2},
    {.name = "cast/f32",
     .op = GD_OP_cast,
     .apply = apply_cast_f32,
     .reference = ref_same,
     .operands = 1,
     .in = {FLAT(GRID)},
     .dtypes = EVERYTHING,
     .order = 2,
     .eps = 0x1p-8},
    KEEPS("cast/i32", cast, cast_i32, ref_truncated, FLAT(ANY), 0, EVERYTHING),
    KEEPS("cast/bool", cast, cast_bool, ref_truth, FLAT(FEW), 0, EVERYTHING),
    KEEPS("to_device", to_device, to_device, ref_squared, FLAT(ANY), 2, NUMBERS),
    CASE1("permute", permute, permute, CUBE(ANY), 2, EVERYTHING),
    CASE1("transpose", permute, turned, CUBE(ANY), 2, EVERYTHING),
    {.name = "expand",
     .op = GD_OP_expand,
     .apply = apply_expand,
     .reference = ref_expand,
     .operands = 1,
     .in = {{ANY, "one=1 col=3", NULL, "one=1 col=0", "one=1 col=1", "one=1 col=30000", 0}},
     .dtypes = EVERYTHING,
     .order = 2},
    CASE1("slice/step", slice, slice_step, WIDE(ANY), 2, EVERYTHING),
    CASE1("slice/back", slice, slice_back, WIDE(ANY), 2, EVERYTHING),
    CASE1("index", slice, index, WIDE(ANY), 2, EVERYTHING),
    {.name = "index_label",
     .op = GD_OP_slice,
     .apply = apply_index_label,
     .reference = ref_index_label,
     .operands = 1,
     .in = {{ANY, "row=2 col=4", NULL, "row=0 col=4", "row=1 col=4", "row=30000 col=4", 0}},
     .dtypes = EVERYTHING,
     .order = 2},
    CASE1("flip", slice, flip, CUBE(ANY), 2, EVERYTHING),
    CASE1("flip/all", slice, flip_all, CUBE(ANY), 2, EVERYTHING),
    CASE1("tril", tri, tril, BATCH(ANY), 2, EVERYTHING),
    CASE1("triu", tri, triu, BATCH(ANY), 2, EVERYTHING),
    CASE1("diagonal", slice, diagonal, BATCH(ANY), 2, EVERYTHING),
    CASE1("pad", embed, pad, FLAT(ANY), 2, EVERYTHING),
    CASE1("align", permute, align, FLAT(ANY), 2, EVERYTHING),
    KEEPS("custom", custom, custom, ref_squared, FLAT(ANY), 2, FLOATS),
    CASE1("split", slice, split, WIDE(ANY), 2, EVERYTHING),
    {.name = "index_select",
     .op = GD_OP_index_select,
     .apply = apply_index_select,
     .reference = ref_index_select,
     .operands = 2,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {{ANY, "row=2 mid=3 col=2", NULL, "row=0 mid=3 col=2", "row=1 mid=3 col=1",
             "row=40 mid=30 col=100", 0},
            {PLACES, "pick=4", NULL, "pick=4", "pick=1", "pick=50", 3}}},
    {.name = "gather",
     .op = GD_OP_gather,
     .apply = apply_gather,
     .reference = ref_gather,
     .operands = 2,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {{ANY, "row=3 col=2", NULL, "row=0 col=2", "row=1 col=2", "row=300 col=400", 0},
            {PLACES, "row=3 pick=4", NULL, "row=0 pick=4", "row=1 pick=1", "row=300 pick=400", 2}}},
    {.name = "gather/u8",
     .op = GD_OP_gather,
     .apply = apply_gather_small,
     .reference = ref_gather,
     .operands = 2,
     .dtypes = FLOATS,
     .order = 2,
     .in = {{ANY, "row=3 col=2", NULL, "row=0 col=2", "row=1 col=2", "row=300 col=400", 0},
            {PLACES, "row=3 pick=4", NULL, "row=0 pick=4", "row=1 pick=1", "row=300 pick=400", 2}}},
    {.name = "scatter_add",
     .op = GD_OP_scatter_add,
     .apply = apply_scatter_add,
     .reference = ref_scatter_add,
     .operands = 3,
     .dtypes = NUMBERS,
     .order = 2,
     .in = {{ANY, "row=3 col=2", NULL, "row=0 col=2", "row=1 col=2", "row=300 col=400", 0},
            {PLACES, "row=3 pick=4", NULL, "row=0 pick=4", "row=1 pick=1", "row=300 pick=400", 2},
            {ANY, "row=3 pick=4", NULL, "row=0 pick=4", "row=1 pick=1", "row=300 pick=400", 0}}},
    {.name = "index_add",
     .op = GD_OP_index_add,
     .apply = apply_index_add,
     .reference = ref_index_add,
     .operands = 3,
     .dtypes = NUMBERS,
     .order = 2,
     .in = {{ANY, "row=3 col=2", NULL, "row=3 col=0", "row=3 col=1", "row=300 col=400", 0},
            {PLACES, "pick=4", NULL, "pick=4", "pick=1", "pick=350", 3},
            {ANY, "pick=4 col=2", NULL, "pick=4 col=0", "pick=1 col=1", "pick=350 col=400", 0}}},
    {.name = "index_put",
     .op = GD_OP_index_put,
     .apply = apply_index_put,
     .reference = ref_index_put,
     .operands = 3,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {{ANY, "row=3 col=2", NULL, "row=3 col=0", "row=3 col=1", "row=300 col=400", 0},
            {PLACES, "pick=4", NULL, "pick=4", "pick=1", "pick=350", 3},
            {ANY, "pick=4 col=2", NULL, "pick=4 col=0", "pick=1 col=1", "pick=350 col=400", 0}}},
    {.name = "put",
     .op = GD_OP_index_put,
     .apply = apply_put,
     .reference = ref_index_put,
     .operands = 3,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {{ANY, "row=3 col=2", NULL, "row=3 col=0", "row=3 col=1", "row=300 col=400", 0},
            {PLACES, "pick=4", NULL, "pick=4", "pick=1", "pick=350", 3},
            {ANY, "pick=4 col=2", NULL, "pick=4 col=0", "pick=1 col=1", "pick=350 col=400", 0}}},
    {.name = "put_into",
     .op = GD_OP_index_put,
     .apply = apply_put_into,
     .reference = ref_index_put,
     .operands = 3,
     .dtypes = EVERYTHING,
     .order = 0,
     .in = {{ANY, "row=3 col=2", NULL, "row=3 col=0", "row=3 col=1", "row=300 col=400", 0},
            {PLACES, "pick=4", NULL, "pick=4", "pick=1", "pick=350", 3},
            {ANY, "pick=4 col=2", NULL, "pick=4 col=0", "pick=1 col=1", "pick=350 col=400", 0}}},
    {.name = "get",
     .op = GD_OP_index_select,
     .apply = apply_get,
     .reference = ref_get,
     .operands = 2,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {{ANY, "row=3 mid=2 col=3", NULL, "row=3 mid=0 col=3", "row=3 mid=1 col=3",
             "row=3 mid=40000 col=3", 0},
            {PLACES, "near=2 far=2", NULL, "near=2 far=2", "near=1 far=1", "near=2 far=2", 3}}},
    {.name = "get/mask",
     .op = GD_OP_index_select,
     .apply = apply_get_mask,
     .reference = ref_get_mask,
     .operands = 1,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {{ANY, "row=3 col=4", NULL, "row=0 col=4", "row=1 col=4", "row=30000 col=4", 0}}},
    {.name = "cat",
     .op = GD_OP_cat,
     .apply = apply_cat,
     .reference = ref_cat,
     .operands = 2,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {FLAT(ANY), {ANY, "row=2 col=2", NULL, "row=0 col=2", "row=1 col=1", "row=300 col=100", 0}}},
    {.name = "cat/many",
     .op = GD_OP_cat,
     .apply = apply_cat_many,
     .reference = ref_cat_many,
     .operands = 2,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {{ANY, "row=1 col=2", NULL, "row=0 col=2", "row=1 col=1", "row=5 col=400", 0},
            {ANY, "row=1 col=2", NULL, "row=0 col=2", "row=1 col=1", "row=7 col=400", 0}}},
    {.name = "stack",
     .op = GD_OP_cat,
     .apply = apply_stack,
     .reference = ref_stack,
     .operands = 2,
     .dtypes = EVERYTHING,
     .order = 2,
     .in = {FLAT(ANY), FLAT(ANY)}},
};

const op_case_table shape_cases = {rows, COUNT_OF(rows)};
