/* Bad input of every kind: the status, a text that names the operator, nothing leaked, nothing crashed. */
#include "support/op_cases.h"

#include <inttypes.h>
#include <math.h>

/* What the rows of the table work with. */
typedef struct tensors {
    gd_ctx *ctx;
    gd_tensor *matrix;  /* f64 [2, 3] */
    gd_tensor *square;  /* f64 [3, 3] */
    gd_tensor *vector;  /* f64 [3] */
    gd_tensor *number;  /* f64 [] */
    gd_tensor *none;    /* f64 [0, 3] */
    gd_tensor *image;   /* f64 [1, 2, 3, 3] */
    gd_tensor *single;  /* f32 [3] */
    gd_tensor *index;   /* i64 [2]: 0, 7 */
    gd_tensor *whole;   /* i32 [3] */
    gd_tensor *truth;   /* bool [3] */
    gd_tensor *huge;    /* f64 [2^31, 2^31], expanded from one element */
    gd_tensor *zero;    /* f64 [2, 2] of zeros */
    gd_tensor *part[2]; /* f64 [2, 3] and [2, 4] */
} tensors;

static bool make(tensors *t, gd_ctx *ctx)
{
    *t = (tensors){.ctx = ctx};
    t->matrix = MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6);
    t->square = MATRIX(ctx, 3, 3, 4, 1, 0, 1, 5, 2, 0, 2, 6);
    t->vector = VECTOR(ctx, 1, 2, 3);
    t->number = gd_scalar(ctx, GD_F64, 1);
    t->none = gd_zeros(ctx, GD_F64, 2, (int64_t[]){0, 3});
    t->image = gd_ones(ctx, GD_F64, 4, (int64_t[]){1, 2, 3, 3});
    t->single = gd_ones(ctx, GD_F32, 1, (int64_t[]){3});
    t->index = INDEX(ctx, 0, 7);
    t->whole = gd_ones(ctx, GD_I32, 1, (int64_t[]){3});
    t->truth = gd_ones(ctx, GD_BOOL, 1, (int64_t[]){3});
    t->huge = gd_expand(t->number, 2, (int64_t[]){(int64_t)1 << 31, (int64_t)1 << 31});
    t->zero = gd_zeros(ctx, GD_F64, 2, (int64_t[]){2, 2});
    t->part[0] = t->matrix;
    t->part[1] = gd_zeros(ctx, GD_F64, 2, (int64_t[]){2, 4});
    return gd_error(ctx) == GD_OK;
}

#define SHAPE(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define BIG       ((int64_t)1 << 40)
#define AT(t)     ((gd_key){.kind = GD_KEY_INDEX, .index = t})
#define NUMBER(n) ((gd_key){.kind = GD_KEY_NUMBER, .start = n})
#define REST      ((gd_key){.kind = GD_KEY_REST})
#define NEW       ((gd_key){.kind = GD_KEY_NEW})
#define KEY(...)  (gd_key[]){__VA_ARGS__}, (int)(sizeof((gd_key[]){__VA_ARGS__}) / sizeof(gd_key))

/* STATUS, expression, start of the text */
#define BAD_CALLS(X)                                                                                         \
    /* dtypes that do not meet */                                                                            \
    X(DTYPE, gd_where(t->vector, t->vector, t->vector), "where: the condition is f64, not bool")             \
    X(DTYPE, gd_cast(t->vector, GD_DTYPE_COUNT), "cast: dtype number 8 does not exist")                      \
    X(DTYPE, gd_zeros(t->ctx, (gd_dtype)77, SHAPE(3)), "zeros: dtype number 77 does not exist")              \
    X(DTYPE, gd_exp(t->whole), "exp: needs a floating dtype, got i32; cast it first")                        \
    X(DTYPE, gd_neg(t->truth), "neg: bool has no arithmetic; cast it first")                                 \
    X(DTYPE, gd_max(t->truth, NULL, false), "max: bool has no order; use any, all or cast")                  \
    X(DTYPE, gd_rand(t->ctx, GD_I32, SHAPE(3)), "rand: needs a floating dtype, got i32")                     \
    X(DTYPE, gd_index_select(t->vector, "0", t->vector), "index_select: the index is f64, not an integer")   \
    X(DTYPE, gd_gather(t->vector, "0", t->truth), "gather: the index is bool, not an integer")               \
    X(DTYPE, gd_scatter_add(t->vector, "0", INDEX(t->ctx, 0), t->single),                                    \
      "scatter_add: the values must have x's dtype")                                                         \
    X(DTYPE, gd_cross_entropy(t->matrix, VECTOR(t->ctx, 0, 1)),                                              \
      "cross_entropy: the classes are f64, not integers")                                                    \
    X(DTYPE, gd_cholesky(gd_cast(t->square, GD_I64)), "cholesky: needs a floating dtype")                    \
    X(DTYPE, gd_dropout(t->whole, 0.5), "dropout: needs a floating dtype")                                   \
    /* axes */                                                                                               \
    X(AXIS, gd_sum(t->matrix, "2", false), "sum: no axis '2' in [2, 3]")                                     \
    X(AXIS, gd_mean(t->matrix, "batch", false), "mean: no axis 'batch' in [2, 3]")                           \
    X(AXIS, gd_sum(t->number, "0", false), "sum: no axis '0' in []")                                         \
    X(AXIS, gd_softmax(t->number, NULL), "softmax: needs one axis")                                          \
    X(AXIS, gd_permute(t->matrix, (int[]){0, 0}), "permute: axis 0 at place 1 is no permutation of 2 axes")  \
    X(AXIS, gd_permute(t->matrix, (int[]){0, 5}), "permute: axis 5 at place 1 is no permutation of 2 axes")  \
    X(AXIS, gd_transpose(t->matrix, 0, 2), "transpose: axes 0 and 2 of 2")                                   \
    X(AXIS, gd_unsqueeze(t->matrix, 4, NULL), "unsqueeze: position 4 in 2 axes")                             \
    X(AXIS, gd_stack((gd_tensor *[]){t->vector}, 1, 3, NULL), "stack: position 3 in 1 axes")                 \
    X(AXIS, gd_slice(t->matrix, "x", 0, 1, 1), "slice: no axis 'x' in [2, 3]")                               \
    X(AXIS, gd_cat(t->part, 2, "5"), "cat: no axis '5' in [2, 3]")                                           \
    X(AXIS, gd_flip(t->matrix, "7"), "flip: no axis '7'")                                                    \
    X(AXIS, gd_layer_norm(t->matrix, "q", NULL, NULL, 1e-5), "layer_norm: no axis 'q'")                      \
    X(AXIS, gd_contract(t->matrix, t->matrix, "k"), "contract: no axis 'k'")                                 \
    /* shapes */                                                                                             \
    X(SHAPE, gd_add(t->matrix, VECTOR(t->ctx, 1, 2)), "add: axis 1 has 3 on the left and 2 on the right")    \
    X(SHAPE, gd_reshape(t->matrix, SHAPE(4, 2)), "reshape: 6 elements of [2, 3] do not fill the new shape")  \
    X(SHAPE, gd_reshape(t->matrix, SHAPE(-1, -1)), "reshape: ")                                              \
    X(SHAPE, gd_reshape(t->matrix, SHAPE(-1, 4)), "reshape: ")                                               \
    X(SHAPE, gd_reshape(t->matrix, 9, (int64_t[9]){0}), "reshape: 9 dimensions; a tensor has 0 to 8")        \
    X(SHAPE, gd_reshape(t->matrix, 1, NULL), "reshape: ")                                                    \
    X(SHAPE, gd_zeros(t->ctx, GD_F64, 9, (int64_t[9]){0}), "zeros: 9 dimensions; a tensor has 0 to 8")       \
    X(SHAPE, gd_zeros(t->ctx, GD_F64, -1, NULL), "zeros: -1 dimensions")                                     \
    X(SHAPE, gd_zeros(t->ctx, GD_F64, SHAPE(3, -2)), "zeros: axis 1 has size -2")                            \
    X(SHAPE, gd_from_data(t->ctx, GD_F64, 2, NULL, NULL), "from_data: 2 dimensions")                         \
    X(SHAPE, gd_linspace(t->ctx, GD_F64, 0, 1, -3), "linspace: axis 0 has size -3")                          \
    X(SHAPE, gd_permutation(t->ctx, -1), "permutation: axis 0 has size -1")                                  \
    X(SHAPE, gd_eye(t->ctx, GD_F64, -1, 2), "eye: axis 0 has size -1")                                       \
    X(SHAPE, gd_expand(t->matrix, SHAPE(2, 4)), "expand: axis 1 has size 3, cannot become 4")                \
    X(SHAPE, gd_expand(t->matrix, SHAPE(3)), "expand: from 2 axes to 1")                                     \
    X(SHAPE, gd_expand(t->matrix, 9, (int64_t[9]){0}), "expand: from 2 axes to 9")                           \
    X(SHAPE, gd_squeeze(t->matrix, "0"), "squeeze: axis 0 has size 2")                                       \
    X(SHAPE, gd_cat((gd_tensor *[]){t->matrix, t->vector}, 2, "0"),                                          \
      "cat: piece 1 is [3], piece 0 is [2, 3]")                                                              \
    X(SHAPE, gd_cat(t->part, 2, "0"), "cat: piece 1 is [2, 4], piece 0 is [2, 3]; only axis 0 may differ")   \
    X(SHAPE, gd_stack(t->part, 2, 0, NULL), "stack: piece 1 is [1, 2, 4], piece 0 is [1, 2, 3]")             \
    X(SHAPE, gd_max(t->none, "0", false), "max: nothing to choose from")                                     \
    X(SHAPE, gd_argmin(t->none, NULL, false), "argmin: nothing to choose from")                              \
    X(SHAPE, gd_tril(t->vector, 0), "tril: needs a matrix, got 1 axes")                                      \
    X(SHAPE, gd_triu(t->number, 0), "triu: needs a matrix, got 0 axes")                                      \
    X(SHAPE, gd_diagonal(t->vector), "diagonal: needs a matrix, got 1 axes")                                 \
    X(SHAPE, gd_index_select(t->matrix, "0", gd_cast(t->zero, GD_I64)),                                      \
      "index_select: the index has 2 axes, not 1")                                                           \
    X(SHAPE, gd_gather(t->matrix, "0", t->index),                                                            \
      "gather: index [2] does not fit [2, 3] on the axes other than 0")                                      \
    X(SHAPE, gd_scatter_add(t->vector, "0", t->index, t->vector), "scatter_add: the values must have")       \
    X(SHAPE, gd_matmul(t->matrix, t->matrix),                                                                \
      "matmul: the left has 3 columns, the right 2 rows; shapes [2, 3]")                                     \
    X(SHAPE, gd_matmul(t->number, t->matrix), "matmul: needs a vector or matrix, got 0 axes")                \
    X(SHAPE, gd_dot(t->matrix, t->vector), "dot: needs vectors, got [2, 3]")                                 \
    X(SHAPE, gd_outer(t->number, t->vector), "outer: needs vectors, got []")                                 \
    X(SHAPE, gd_cholesky(t->matrix), "cholesky: needs a square matrix, got [2, 3]")                          \
    X(SHAPE, gd_inverse(t->vector), "inverse: needs a matrix, got 1 axes")                                   \
    X(SHAPE, gd_logdet(t->matrix), "logdet: needs a square matrix, got [2, 3]")                              \
    X(SHAPE, gd_solve(t->square, VECTOR(t->ctx, 1, 2)), "solve: the matrix has 3 rows, the right side 2")    \
    X(SHAPE, gd_conv2d(t->image, t->matrix, NULL, 1, 0),                                                     \
      "conv2d: the weight must be [out, in, height, width]")                                                 \
    X(SHAPE, gd_conv2d(t->matrix, t->image, NULL, 1, 0),                                                     \
      "conv2d: needs [batch, channel, height, width], got [2, 3]")                                           \
    X(SHAPE, gd_max_pool2d(t->image, 9, 1, 0),                                                               \
      "max_pool2d: a window of 9 x 9 does not fit an image of 3 x 3")                                        \
    X(SHAPE, gd_cross_entropy(t->vector, t->index),                                                          \
      "cross_entropy: needs logits [n, classes] and classes [n]")                                            \
    X(SHAPE, gd_layer_norm(t->matrix, "1", t->zero, NULL, 1e-5), "layer_norm: a weight or bias of [2, 2]")   \
    X(SHAPE, gd_embedding(t->number, t->index), "embedding: table [] with index [2]")                        \
    /* values */                                                                                             \
    X(VALUE, gd_clamp(t->vector, 2, 1), "clamp: low 2 is above high 1")                                      \
    X(VALUE, gd_clamp(t->vector, NAN, 1), "clamp: low nan is above high 1")                                  \
    X(VALUE, gd_slice(t->vector, "0", 0, 1, 0), "slice: the step is 0")                                      \
    X(VALUE, gd_slice(t->vector, "0", 0, 1, INT64_MIN), "slice: the step is -9223372036854775808")           \
    X(VALUE, gd_pad(t->vector, (int64_t[]){-1}, (int64_t[]){0}, 0), "pad: -1 before and 0 after axis 0")     \
    X(VALUE, gd_arange(t->ctx, GD_F64, 0, 1, 0), "arange: from 0 to 1 in steps of 0")                        \
    X(VALUE, gd_arange(t->ctx, GD_F64, 0, NAN, 1), "arange: from 0 to nan in steps of 1")                    \
    X(VALUE, gd_arange(t->ctx, GD_F64, 0, 1e300, 1), "arange: from 0 to 1e+300 in steps of 1")               \
    X(VALUE, gd_norm(t->vector, 0, NULL, false), "norm: p is 0, must be above 0")                            \
    X(VALUE, gd_norm(t->vector, NAN, NULL, false), "norm: p is nan, must be above 0")                        \
    X(VALUE, gd_dropout(t->vector, 1), "dropout: p is 1, must be at least 0 and below 1")                    \
    X(VALUE, gd_conv2d(t->image, t->image, NULL, 0, 0), "conv2d: a window of 3 pixels, stride 0, padding 0") \
    X(VALUE, gd_avg_pool2d(t->image, 0, 1, 0), "avg_pool2d: a window of 0 x 0")                              \
    X(VALUE, gd_layer_norm(t->matrix, "1", NULL, NULL, -1), "layer_norm: eps is -1")                         \
    /* places */                                                                                             \
    X(INDEX, gd_index(t->vector, "0", 3), "index: 3 on axis 0 of size 3")                                    \
    X(INDEX, gd_index(t->vector, "0", -4), "index: -4 on axis 0 of size 3")                                  \
    X(INDEX, gd_index(t->none, "0", 0), "index: 0 on axis 0 of size 0")                                      \
    X(INDEX, gd_index_select(t->vector, "0", t->index), "index_select: index 7 at place 1 is not in 0 to 2") \
    X(INDEX, gd_gather(t->vector, "0", INDEX(t->ctx, -1)), "gather: index -1 at place 0 is not in 0 to 2")   \
    X(INDEX, gd_scatter_add(t->vector, "0", t->index, VECTOR(t->ctx, 1, 1)),                                 \
      "scatter_add: index 7 at place 1")                                                                     \
    X(INDEX, gd_embedding(t->matrix, t->index), "embedding: index 7 at place 1 is not in 0 to 1")            \
    X(INDEX, gd_cross_entropy(t->matrix, t->index), "cross_entropy: index 7 at place 1 is not in 0 to 2")    \
    X(INDEX, gd_get(t->vector, KEY(AT(t->index))), "get: index 7 is out of range: axis 0 has 3 elements")    \
    X(INDEX, gd_get(t->vector, KEY(NUMBER(-4))), "get: index -4 is out of range: axis 0 has 3 elements")     \
    X(INDEX, gd_get(t->vector, KEY(NUMBER(0), NUMBER(0))),                                                   \
      "get: the key takes 2 axes, the tensor has 1: [3]")                                                    \
    X(INDEX, gd_get(t->vector, KEY(REST, REST)), "get: '...' stands 2 times")                                \
    X(INDEX, gd_get(t->matrix, KEY(AT(INDEX(t->ctx, 0, 1)), AT(INDEX(t->ctx, 0, 1, 2)))),                    \
      "get: indices of 2 and 3 elements on an axis do not broadcast")                                        \
    X(DTYPE, gd_get(t->vector, KEY(AT(t->vector))), "get: an index is f64, not an integer or a mask")        \
    X(INDEX, gd_get(t->matrix, KEY(AT(t->truth))),                                                           \
      "get: the mask has 3 elements on its axis 0, the tensor 2")                                            \
    X(SHAPE, gd_get(t->vector, KEY(NEW, NEW, NEW, NEW, NEW, NEW, NEW, NEW)), "get: the result would have 9") \
    X(VALUE, gd_get(t->vector, KEY((gd_key){.kind = GD_KEY_SLICE})), "get: the step of a slice is 0")        \
    X(VALUE, gd_get(t->vector, KEY((gd_key){.kind = (gd_key_kind)9})), "get: no kind 9 of a part")           \
    X(ARGUMENT, gd_get(t->vector, KEY(AT(NULL))), "index: an index is NULL")                                 \
    X(SHAPE, gd_put(t->matrix, KEY(AT(INDEX(t->ctx, 0, 1, 1))), t->matrix),                                  \
      "put: values [2, 3] do not broadcast to the chosen elements [3, 3]")                                   \
    X(LABEL, gd_index_label(t->vector, "0", "a"), "index_label: axis 0 has no label 'a'")                    \
    /* sizes that overflow or are beyond any memory */                                                       \
    X(OVERFLOW, gd_zeros(t->ctx, GD_F64, SHAPE(BIG, BIG)),                                                   \
      "zeros: the sizes multiply to more than 2^63 bytes")                                                   \
    X(OVERFLOW, gd_empty(t->ctx, GD_F64, SHAPE(BIG, BIG, 0)),                                                \
      "empty: the sizes multiply to more than 2^63 bytes")                                                   \
    X(OVERFLOW, gd_zeros(t->ctx, GD_F64, SHAPE((int64_t)1 << 62)),                                           \
      "zeros: the sizes multiply to more than 2^63 bytes")                                                   \
    X(OVERFLOW, gd_expand(t->number, SHAPE(BIG, BIG)), "expand: the sizes multiply to more than 2^63")       \
    X(OVERFLOW, gd_eye(t->ctx, GD_F64, BIG, BIG), "eye: the sizes multiply")                                 \
    X(OVERFLOW, gd_exp(t->huge), "exp: 4611686018427387904 elements of f64 need more than 2^63 bytes")       \
    X(OVERFLOW, gd_add(t->huge, t->huge), "add: 4611686018427387904 elements of f64 need more than")         \
    X(OVERFLOW, gd_copy(t->huge), "copy: 4611686018427387904 elements")                                      \
    X(OVERFLOW, gd_outer(gd_expand(t->number, SHAPE(BIG)), gd_expand(t->number, SHAPE(BIG))),                \
      "outer: the sizes")                                                                                    \
    X(OVERFLOW, gd_cat((gd_tensor *[]){t->huge, t->huge}, 2, "0"),                                           \
      "cat: the sizes multiply to more than 2^63 bytes")                                                     \
    X(OVERFLOW, gd_pad(gd_cast(t->vector, GD_U8), (int64_t[]){1}, (int64_t[]){1}, 300),                      \
      "pad: 300 does not fit into u8")                                                                       \
    X(VALUE, gd_pad(t->vector, (int64_t[]){INT64_MAX}, (int64_t[]){1}, 0),                                   \
      "pad: 9223372036854775807 before")                                                                     \
    X(NOMEM, gd_zeros(t->ctx, GD_F64, SHAPE(BIG, 64)), "out of memory")                                      \
    X(NOMEM, gd_pad(t->vector, (int64_t[]){BIG}, (int64_t[]){0}, 0), "out of memory")                        \
    X(NOMEM, gd_arange(t->ctx, GD_F64, 0, 1e15, 1), "out of memory")                                         \
    /* matrices */                                                                                           \
    X(SINGULAR, gd_inverse(t->zero), "inverse: ")                                                            \
    X(SINGULAR, gd_solve(t->zero, VECTOR(t->ctx, 1, 2)), "solve: the matrix is singular")                    \
    X(SINGULAR, gd_triangular_solve(t->zero, VECTOR(t->ctx, 1, 2), true, false, false),                      \
      "triangular_solve: ")                                                                                  \
    X(SINGULAR, gd_cholesky(MATRIX(t->ctx, 2, 2, 1, 2, 2, 1)), "cholesky: ")                                 \
    /* devices */                                                                                            \
    X(DEVICE, gd_to_device(t->vector, gd_device_get(t->ctx, "gpu:77")), "device 'gpu:77'")                   \
    /* einsum texts */                                                                                       \
    X(SHAPE, gd_einsum("ij,j", (gd_tensor *[]){t->vector, t->matrix}, 2), "einsum: ")                        \
    X(ARGUMENT, gd_einsum("i", (gd_tensor *[]){t->vector, t->vector}, 2), "einsum: 1 terms for 2 operands")  \
    X(AXIS, gd_einsum("i->j", (gd_tensor *[]){t->vector}, 1),                                                \
      "einsum: 'j' is in the output, but in no operand")

typedef struct bad_call {
    gd_status status;
    const char *code, *text;
} bad_call;

/* Runs row `number`: a switch over all of them. */
static const gd_tensor *call_row(const tensors *t, int number)
{
    int row = 0;
#define RUN(STATUS, expression, text) \
    if (row++ == number) return expression;
    BAD_CALLS(RUN)
    return NULL;
}

static const bad_call bad_calls[] = {
#define ROW(STATUS, expression, start) {GD_##STATUS, #expression, start},
    BAD_CALLS(ROW)};

/* False, with a message, when the row did not end as it should. */
static bool check_row(int number, gd_ctx *ctx)
{
    const bad_call *row = &bad_calls[number];
    tensors t;
    gd_scope_begin(ctx);
    assert_true(make(&t, ctx));
    int64_t live = gd_ctx_live(ctx);
    gd_scope_begin(ctx);
    const gd_tensor *result = call_row(&t, number);
    bool right = !result && gd_error(ctx) == row->status &&
                 !strncmp(gd_error_text(ctx), row->text, strlen(row->text));
    if (!right)
        print_error("%s\n    wanted %s: %s\n    got %s: %s%s\n", row->code, gd_status_name(row->status),
                    row->text, gd_status_name(gd_error(ctx)), gd_error_text(ctx),
                    result ? " (a tensor came back)" : "");
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), live);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    return right;
}

static void bad_calls_say_what_is_wrong(void **state)
{
    (void)state;
    int wrong = 0;
    for (int i = 0; i < COUNT_OF(bad_calls); i++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        wrong += !check_row(i, ctx);
        end_context(ctx, &m);
    }
    print_message("%d bad calls\n", COUNT_OF(bad_calls));
    assert_int_equal(wrong, 0);
}

/* Once more with gradients on: recording must not leak either. */
static void bad_calls_leak_nothing_with_a_graph(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(bad_calls); i++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        tensors t;
        gd_scope_begin(ctx);
        assert_true(make(&t, ctx));
        gd_tensor *floats[] = {t.matrix, t.square, t.vector, t.number, t.none,
                               t.image,  t.single, t.zero,   t.part[1]};
        for (int k = 0; k < COUNT_OF(floats); k++) assert_non_null(gd_require_grad(floats[k]));
        assert_null(call_row(&t, i));
        gd_scope_end(ctx);
        end_context(ctx, &m);
    }
}

/* ---- the table of cases with something wrong ---- */

static bool allows_null(const op_case *c, int operand)
{
    return !strncmp(c->name, "layer_norm", 10) ||
           ((!strcmp(c->name, "conv2d") || !strcmp(c->name, "conv2d_with")) && operand == 2);
}

static void a_null_operand_gives_null(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    for (int i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        for (int k = 0; k < c->operands; k++) {
            if (allows_null(c, k)) continue;
            case_inputs inputs;
            gd_scope_begin(ctx);
            assert_true(case_build(&inputs, ctx, c, CONTIGUOUS, case_dtype(c), 1, false, false));
            gd_tensor *leaf[MAX_OPERANDS];
            memcpy(leaf, inputs.leaf, sizeof leaf);
            leaf[k] = NULL;
            if (case_apply(&inputs, ctx, leaf))
                fail_msg("%s made something of NULL (operand %d)", c->name, k);
            /* with another operand there is a context to tell */
            if (c->operands > 1 && gd_error(ctx) != GD_ARGUMENT && strncmp(c->name, "index_add", 9) &&
                strncmp(c->name, "index_put", 9))
                fail_msg("%s: operand %d is NULL: %s: %s", c->name, k, gd_status_name(gd_error(ctx)),
                         gd_error_text(ctx));
            gd_clear_error(ctx);
            gd_scope_end(ctx);
            assert_int_equal(gd_ctx_live(ctx), 0);
        }
    }
    end_context(ctx, &m);
}

static void a_dtype_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    int refused = 0, wrong = 0;
    for (int i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        for (gd_dtype d = 0; d < GD_DTYPE_COUNT && c->operands; d++) {
            if (c->dtypes >> d & 1) continue;
            case_inputs inputs;
            gd_scope_begin(ctx);
            assert_true(case_build(&inputs, ctx, c, CONTIGUOUS, d, 1, false, false));
            gd_tensor *out = case_apply(&inputs, ctx, inputs.leaf);
            if (out) {
                gd_scope_end(ctx);
                continue; /* a case may cast its operands */
            }
            size_t length = strcspn(c->name, "/");
            bool mixed = !strcmp(c->name, "tan/small") || !strcmp(c->name, "acosh") ||
                         !strcmp(c->name, "to_device") || !strcmp(c->name, "custom") ||
                         !strcmp(c->name, "conv2d_with"); /* call others, too */
            bool named = !strncmp(gd_error_text(ctx), c->name, length) && gd_error_text(ctx)[length] == ':';
            refused++;
            if (gd_error(ctx) != GD_DTYPE || (!named && !mixed)) {
                print_error("%s, %s: %s: %s\n", c->name, gd_dtype_name(d), gd_status_name(gd_error(ctx)),
                            gd_error_text(ctx));
                wrong++;
            }
            gd_clear_error(ctx);
            gd_scope_end(ctx);
            assert_int_equal(gd_ctx_live(ctx), 0);
        }
    }
    print_message("%d refused\n", refused);
    assert_true(refused > 150);
    assert_int_equal(wrong, 0);
    end_context(ctx, &m);
}

/* Verbs that return a status. */
static void verbs_return_what_they_record(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = VECTOR(ctx, 1, 2), *q, *r, *s;
    assert_int_equal(gd_assign(NULL, x), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "assign: an operand is NULL");
    assert_int_equal(gd_assign(x, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "assign: an operand is NULL");
    assert_int_equal(gd_add_into(x, NULL, 1), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "add_into: an operand is NULL");
    assert_int_equal(gd_add_into(x, VECTOR(ctx, 1, 2, 3), 1), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "add");
    assert_int_equal(gd_fill(NULL, 1), GD_ARGUMENT);
    assert_int_equal(gd_write_f64(NULL, NULL, 0), GD_ARGUMENT);
    assert_int_equal(gd_read(NULL, NULL, 0), GD_ARGUMENT);
    assert_int_equal(gd_read_f64(NULL, NULL, 0), GD_ARGUMENT);
    assert_int_equal(gd_split(NULL, "0", 1, &q, 1), GD_ARGUMENT);
    assert_int_equal(gd_qr(NULL, &q, &r), GD_ARGUMENT);
    assert_int_equal(gd_qr(x, &q, &r), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "qr: needs a matrix, got 1 axes");
    assert_int_equal(gd_eigh(MATRIX(ctx, 1, 2, 1, 2), &q, &r), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "eigh: needs a square matrix, got [1, 2]");
    assert_int_equal(gd_svd(gd_cast(MATRIX(ctx, 1, 2, 1, 2), GD_I32), &q, &s, &r), GD_DTYPE);
    assert_error(ctx, GD_DTYPE, "svd: needs a floating dtype");
    assert_int_equal(gd_backward(NULL, NULL, 0), GD_ARGUMENT);
    assert_int_equal(gd_set_requires_grad(NULL, true), GD_ARGUMENT);
    assert_int_equal(gd_set_grad(NULL, x), GD_ARGUMENT);
    assert_null(gd_require_grad(NULL));
    assert_null(gd_grad_of(NULL));
    gd_zero_grad(NULL);
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

/* Tensors of two contexts do not mix. */
static void operands_of_two_contexts_are_refused(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *a = context(&m, 1, NULL), *b = context(&m, 1, NULL);
    gd_tensor *x = VECTOR(a, 1, 2), *y = VECTOR(b, 1, 2);
    assert_null(gd_add(x, y));
    assert_error(a, GD_DEVICE, "add: ");
    assert_null(gd_to_device(x, gd_device_get(b, "cpu")));
    gd_clear_error(a);
    gd_clear_error(b);
    gd_release(x);
    gd_release(y);
    end_context(a, NULL);
    end_context(b, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_calls_say_what_is_wrong),
        cmocka_unit_test(bad_calls_leak_nothing_with_a_graph),
        cmocka_unit_test(a_null_operand_gives_null),
        cmocka_unit_test(a_dtype_that_does_not_fit_is_refused),
        cmocka_unit_test(verbs_return_what_they_record),
        cmocka_unit_test(operands_of_two_contexts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
