/* Operands that are not dense: columns and rows that broadcast, columns of a matrix, matrices whose rows are columns of memory.  Results
 * are those of each element alone, bit for bit. */
#include "support/own_context.h"
#include "support/support.h"

#include <math.h>

enum { ROWS = 67, COLUMNS = 130, APART = 3 };

typedef struct operand {
    const char *what;
    int64_t down, across; /* strides in memory of the element (r, c) */
} operand;

/* Views of ROWS x COLUMNS. */
static const operand operands[] = {
    {"dense", COLUMNS, 1},
    {"a row", 0, 1},
    {"a column", 1, 0},
    {"one number", 0, 0},
    {"every third element", COLUMNS *APART, APART},
    {"the columns of memory", 1, ROWS},
};

static gd_tensor *view_of(const operand *o, gd_tensor *source)
{
    int64_t shape[2] = {ROWS, COLUMNS}, size = o->down * (ROWS - 1) + o->across * (COLUMNS - 1) + 1;
    if (o->across == APART) {
        gd_tensor *all = gd_reshape(gd_slice(source, "0", 0, ROWS * COLUMNS * APART, 1), 2,
                                    (int64_t[]){ROWS, COLUMNS * APART});
        return gd_slice(all, "1", 0, COLUMNS * APART, APART);
    }
    gd_tensor *used = gd_slice(source, "0", 0, size, 1);
    if (o->across == ROWS) return gd_transpose(gd_reshape(used, 2, (int64_t[]){COLUMNS, ROWS}), 0, 1);
    if (o->down == 1) used = gd_reshape(used, 2, (int64_t[]){ROWS, 1});
    return o->down == COLUMNS ? gd_reshape(used, 2, shape) : gd_expand(used, 2, shape);
}

static double rounded(gd_dtype dtype, double x) { return dtype == GD_F32 ? (double)(float)x : x; }

static double combined(int op, double a, double b)
{
    return op == 0 ? a + b : op == 1 ? a - b : op == 2 ? a * b : a / b;
}

static gd_tensor *combine(int op, gd_tensor *a, gd_tensor *b)
{
    return op == 0 ? gd_add(a, b) : op == 1 ? gd_sub(a, b) : op == 2 ? gd_mul(a, b) : gd_div(a, b);
}

static gd_tensor *numbers(gd_dtype dtype, double *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) x[i] = rounded(dtype, random_unit(&seed) + 0.5);
    return gd_from_f64(ctx, dtype, 1, &n, x);
}

static void every_pair_of_layouts_gives_the_numbers_of_its_elements(void **state)
{
    (void)state;
    enum { N = ROWS * COLUMNS * APART };
    static double x[N], y[N], got[ROWS * COLUMNS];
    for (int wide = 0; wide < 2; wide++)
        for (int i = 0; i < COUNT_OF(operands); i++)
            for (int k = 0; k < COUNT_OF(operands); k++)
                for (int op = 0; op < 4; op++) {
                    gd_dtype dtype = wide ? GD_F64 : GD_F32;
                    const operand *p = &operands[i], *q = &operands[k];
                    gd_scope_begin(ctx);
                    gd_tensor *a = view_of(p, numbers(dtype, x, N, 1)),
                              *b = view_of(q, numbers(dtype, y, N, 2));
                    assert_int_equal(gd_read_f64(combine(op, a, b), got, ROWS * COLUMNS), GD_OK);
                    for (int64_t r = 0; r < ROWS; r++)
                        for (int64_t c = 0; c < COLUMNS; c++) {
                            double want = rounded(dtype, combined(op, x[r * p->down + c * p->across],
                                                                  y[r * q->down + c * q->across]));
                            if (got[r * COLUMNS + c] != want)
                                fail_msg("%s and %s, operation %d, (%d, %d): %.17g, not %.17g", p->what,
                                         q->what, op, (int)r, (int)c, got[r * COLUMNS + c], want);
                        }
                    gd_scope_end(ctx);
                }
}

/* Copies of transposed matrices, alone and in a stack, in every size of an element; sizes that no block divides. */
static void copies_of_turned_matrices_have_their_elements(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{1, 16, 16}, {1, 17, 16}, {1, 67, 130},
                                       {3, 33, 19}, {2, 5, 40},  {1, 300, 18}};
    static const gd_dtype dtypes[] = {GD_F64, GD_F32, GD_I64, GD_BF16, GD_U8};
    static double x[40000], got[40000];
    for (int d = 0; d < COUNT_OF(dtypes); d++)
        for (int s = 0; s < COUNT_OF(sizes); s++) {
            const int64_t *n = sizes[s];
            for (int64_t i = 0; i < n[0] * n[1] * n[2]; i++) x[i] = (double)(i * 7 % 251);
            gd_scope_begin(ctx);
            gd_tensor *t = gd_cast(gd_from_f64(ctx, GD_F64, 3, n, x), dtypes[d]);
            gd_tensor *copy = gd_copy(gd_transpose(t, 1, 2));
            assert_int_equal(gd_read_f64(gd_cast(copy, GD_F64), got, n[0] * n[1] * n[2]), GD_OK);
            for (int64_t i = 0; i < n[0]; i++)
                for (int64_t r = 0; r < n[1]; r++)
                    for (int64_t c = 0; c < n[2]; c++)
                        assert_true(got[(i * n[2] + c) * n[1] + r] == x[(i * n[1] + r) * n[2] + c]);
            gd_scope_end(ctx);
        }
}

/* Between all dtypes of floats, dense, into every second place and backwards. */
static void conversions_are_those_of_each_element(void **state)
{
    (void)state;
    enum { N = 50001 };
    static const gd_dtype dtypes[] = {GD_F64, GD_F32, GD_BF16, GD_F16};
    static double x[N], got[N], back[N];
    uint64_t seed = 3;
    for (int i = 0; i < N; i++) x[i] = 64 * (double)random_below(&seed, 8) + (double)random_below(&seed, 32);
    for (int from = 0; from < COUNT_OF(dtypes); from++)
        for (int to = 0; to < COUNT_OF(dtypes); to++) {
            gd_scope_begin(ctx);
            gd_tensor *t = gd_cast(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, x), dtypes[from]);
            gd_tensor *cast = gd_cast(t, dtypes[to]), *flipped = gd_cast(gd_flip(t, "0"), dtypes[to]);
            assert_int_equal(gd_read_f64(gd_cast(cast, GD_F64), got, N), GD_OK);
            assert_int_equal(gd_read_f64(gd_cast(flipped, GD_F64), back, N), GD_OK);
            for (int i = 0; i < N; i++)
                if (dtypes[from] != GD_BF16 && dtypes[to] != GD_BF16)
                    assert_true(got[i] == x[i] && back[N - 1 - i] == x[i]);
                else
                    assert_true(fabs(got[i] - x[i]) <= x[i] / 256 && back[N - 1 - i] == got[i]);
            gd_scope_end(ctx);
        }
}

/* Without a gradient squares are not written to memory: the sums are the same. */
static void norms_have_the_same_bits_with_and_without_a_gradient(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{7, 1, 5},    {200, 3, 1},  {70, 17, 1},
                                       {3, 9000, 1}, {1, 9001, 3}, {3, 129, 200}};
    static double x[80000], with[80000], without[80000];
    for (int wide = 0; wide < 2; wide++)
        for (int s = 0; s < COUNT_OF(sizes); s++)
            for (int spread = 0; spread < 2; spread++) {
                int64_t all = sizes[s][0] * sizes[s][1] * sizes[s][2];
                gd_scope_begin(ctx);
                gd_tensor *flat = numbers(wide ? GD_F64 : GD_F32, x, all, 5),
                          *t = gd_reshape(flat, 3, sizes[s]);
                gd_tensor *leaf = gd_require_grad(gd_copy(t));
                gd_tensor *a = spread ? gd_variance(t, "1", 1, false) : gd_norm(t, 2, "1", false);
                gd_tensor *b = spread ? gd_variance(leaf, "1", 1, false) : gd_norm(leaf, 2, "1", false);
                int64_t n = gd_numel(a);
                assert_int_equal(gd_read_f64(a, without, n), GD_OK);
                assert_int_equal(gd_read_f64(b, with, n), GD_OK);
                for (int64_t i = 0; i < n; i++)
                    assert_true(with[i] == without[i] || (isnan(with[i]) && isnan(without[i])));
                gd_scope_end(ctx);
            }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_pair_of_layouts_gives_the_numbers_of_its_elements),
        TEST(copies_of_turned_matrices_have_their_elements),
        TEST(conversions_are_those_of_each_element),
        TEST(norms_have_the_same_bits_with_and_without_a_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
