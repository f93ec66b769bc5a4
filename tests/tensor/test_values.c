/* Values of every operator, dtype and layout against long double references; conversions of halves one by
 * one; f32 exp, log and tanh to 2 ULP over the whole range; f64 ones to 1 ULP or 2 epsilons, gelu to 4 into its tail. */
#include "support/op_cases.h"
#include "support/op_references.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>

/* ---- the table of cases ---- */

/* The smallest positive number: errors of subnormal results are counted in it. */
static long double smallest_of(gd_dtype dtype)
{
    return dtype == GD_F64   ? 0x1p-1074L
           : dtype == GD_F32 ? 0x1p-149L
           : dtype == GD_F16 ? 0x1p-24L
                             : 0x1p-133L;
}

/* What a dtype makes of a number. */
static long double held(gd_dtype dtype, long double v)
{
    char item[8];
    encode_item(dtype, v, item);
    return decode_item(dtype, item);
}

static void compare(const op_case *c, layout l, gd_dtype dtype, const gd_tensor *t, const array *got,
                    const array *want)
{
    gd_dtype out = gd_tensor_dtype(t);
    bool same = got->ndim == want->ndim;
    for (int i = 0; same && i < got->ndim; i++) same = got->size[i] == want->size[i];
    if (!same) {
        char text[512];
        gd_format(t, text, sizeof text);
        fail_msg("%s, %s, %s: wrong shape: %s", c->name, layout_names[l], gd_dtype_name(dtype), text);
    }
    long double eps = epsilon_of(out) * (c->error > 0 ? (long double)c->error : 2);
    for (int64_t i = 0; i < got->numel; i++) {
        long double w = gd_dtype_is_float(out) ? want->v[i] : held(out, want->v[i]);
        long double scale = want->scale ? want->scale[i] : fabsl(w);
        bool close = got->v[i] == w || (isnan(got->v[i]) && isnan(w)) ||
                     fabsl(got->v[i] - w) <= eps * scale + 2 * smallest_of(out);
        if (!close)
            fail_msg("%s, %s, %s: element %" PRId64 " is %.17Lg, should be %.17Lg (%.3Lg epsilons)", c->name,
                     layout_names[l], gd_dtype_name(dtype), i, got->v[i], w,
                     fabsl(got->v[i] - w) / (epsilon_of(out) * scale));
    }
}

static void check_case(gd_ctx *ctx, const op_case *c, layout l, gd_dtype dtype, uint64_t seed)
{
    case_inputs inputs;
    gd_scope_begin(ctx);
    assert_true(case_build(&inputs, ctx, c, l, dtype, seed, false, true));
    gd_tensor *t = case_apply(&inputs, ctx, inputs.leaf);
    if (!t || gd_error(ctx))
        fail_msg("%s, %s, %s: %s", c->name, layout_names[l], gd_dtype_name(dtype), gd_error_text(ctx));
    array got = array_of(t), want = {0};
    if (c->reference) {
        c->reference(inputs.value, &want);
        compare(c, l, dtype, t, &got, &want);
        array_free(&want);
    } else {
        const char *fault = c->holds(inputs.value, &got, epsilon_of(gd_tensor_dtype(t)));
        if (fault) fail_msg("%s, %s, %s: %s", c->name, layout_names[l], gd_dtype_name(dtype), fault);
    }
    array_free(&got);
    case_free(&inputs);
    gd_scope_end(ctx);
}

static void values_agree_with_long_double_references(void **state)
{
    (void)state;
    int64_t checks = 0;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        for (layout l = 0; l < LAYOUTS; l++)
            for (gd_dtype d = 0; d < GD_DTYPE_COUNT && case_has_layout(c, l); d++)
                for (uint64_t seed = 0; seed < 4 && (c->dtypes >> d & 1); seed++, checks++)
                    check_case(ctx, c, l, d, seed * 1000 + (uint64_t)k);
    }
    print_message("%" PRId64 " results compared\n", checks);
    end_context(ctx, NULL);
}

/* Every instruction set has its own kernels. */
static void values_agree_on_every_instruction_set(void **state)
{
    (void)state;
    static const char *const sets[] = {"base", "avx2", "avx512"};
    for (int i = 0; i < COUNT_OF(sets); i++) {
        gd_ctx *ctx = context(NULL, 1, sets[i]);
        for (int k = 0; k < elementwise_cases.count; k++) {
            const op_case *c = &elementwise_cases.row[k];
            for (gd_dtype d = 0; d < GD_DTYPE_COUNT; d++)
                if (c->dtypes >> d & 1) check_case(ctx, c, CONTIGUOUS, d, (uint64_t)k);
        }
        end_context(ctx, NULL);
    }
}

/* ---- views at random ---- */

typedef struct view {
    gd_tensor *t;
    array value;
} view;

/* A tensor and the array it shows, each step done to both. */
static view random_view(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *size, uint64_t *seed)
{
    /* axes in a random order in memory, each maybe cut with a step, maybe expanded */
    int order[GD_MAX_DIMS], back[GD_MAX_DIMS];
    for (int i = 0; i < ndim; i++) order[i] = i;
    for (int i = ndim - 1; i > 0; i--) {
        int j = (int)random_below(seed, i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    int64_t base[GD_MAX_DIMS], first[GD_MAX_DIMS], step[GD_MAX_DIMS];
    for (int i = 0; i < ndim; i++) {
        int axis = order[i];
        back[axis] = i;
        step[i] = random_below(seed, 5) - 2;
        if (size[axis] == 0) step[i] = 1;
        int64_t jump = step[i] < 0 ? -step[i] : step[i], span = size[axis] ? (size[axis] - 1) * jump : 0;
        base[i] = step[i] == 0 ? 1 : span + 1 + random_below(seed, 2);
        if (size[axis] == 0) base[i] = random_below(seed, 3);
        first[i] = step[i] < 0 ? span : 0;
    }
    array whole = array_new(ndim, base), value = array_new(ndim, size);
    for (int64_t i = 0; i < whole.numel; i++) whole.v[i] = (long double)(random_below(seed, 41) - 20);
    size_t item = gd_dtype_size(dtype);
    char *data = malloc((size_t)whole.numel * item + 1);
    assert_non_null(data);
    for (int64_t i = 0; i < whole.numel; i++) encode_item(dtype, whole.v[i], data + (size_t)i * item);
    gd_tensor *t = gd_from_data(ctx, dtype, ndim, base, data);
    free(data);
    for (int i = 0; i < ndim; i++) {
        char axis[2] = {(char)('0' + i), 0};
        int64_t n = size[order[i]];
        if (step[i] > 0) t = gd_slice(t, axis, 0, n ? (n - 1) * step[i] + 1 : 0, step[i]);
        if (step[i] < 0) t = gd_slice(t, axis, first[i], INT64_MIN, step[i]);
    }
    t = gd_permute(t, back);
    t = gd_expand(t, ndim, size);
    assert_no_error(ctx);
    int64_t index[GD_MAX_DIMS] = {0};
    if (value.numel) do {
            int64_t at[GD_MAX_DIMS];
            for (int i = 0; i < ndim; i++) at[i] = step[i] == 0 ? 0 : first[i] + index[order[i]] * step[i];
            value.v[array_offset(&value, index)] = whole.v[array_offset(&whole, at)];
        } while (array_next(&value, index));
    array_free(&whole);
    return (view){t, value};
}

static long double plus(long double x, long double y, long double z) { return (void)z, x + y; }

static void random_views_read_copy_and_broadcast_right(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    uint64_t seed = 5;
    for (int round = 0; round < 4000; round++) {
        gd_scope_begin(ctx);
        gd_dtype dtype = (gd_dtype[]){GD_F32, GD_F64, GD_BF16, GD_I32}[random_below(&seed, 4)];
        int ndim = (int)random_below(&seed, 6), less = (int)random_below(&seed, ndim + 1);
        int64_t size[GD_MAX_DIMS], right[GD_MAX_DIMS];
        for (int i = 0; i < ndim; i++) size[i] = random_below(&seed, round % 50 ? 4 : 5) + (round % 7 != 0);
        for (int i = 0; i < ndim - less; i++) right[i] = random_below(&seed, 3) ? size[less + i] : 1;
        view a = random_view(ctx, dtype, ndim, size, &seed),
             b = random_view(ctx, dtype, ndim - less, right, &seed);
        array operand[2] = {a.value, b.value}, want;
        ref_map(operand, 2, plus, &want);
        static const op_case sum_case = {.name = "add of views"}, copy_case = {.name = "copy of a view"};
        gd_tensor *sum = gd_add(a.t, b.t), *copy = gd_copy(a.t);
        assert_no_error(ctx);
        array got = array_of(sum), copied = array_of(copy);
        compare(&sum_case, STRIDED, dtype, sum, &got, &want);
        compare(&copy_case, STRIDED, dtype, copy, &copied, &a.value);
        /* assignment into a view changes that view */
        gd_tensor *target = gd_copy(a.t);
        assert_int_equal(gd_assign(target, b.t), GD_OK);
        array zero = array_new(ndim, size), assigned, seen = array_of(target);
        ref_map((array[]){zero, b.value}, 2, plus, &assigned);
        compare(&copy_case, STRIDED, dtype, target, &seen, &assigned);
        array all[] = {got, copied, zero, assigned, seen, want, a.value, b.value};
        for (int i = 0; i < COUNT_OF(all); i++) array_free(&all[i]);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* ---- halves ---- */

static gd_tensor *cast_of(gd_ctx *ctx, gd_dtype from, const void *data, int64_t n, gd_dtype to)
{
    gd_tensor *t = gd_cast(gd_from_data(ctx, from, 1, &n, data), to);
    assert_non_null(t);
    return t;
}

static void every_half_becomes_the_right_float(void **state)
{
    (void)state;
    static uint16_t all[65536];
    for (int i = 0; i < 65536; i++) all[i] = (uint16_t)i;
    gd_dtype halves[] = {GD_F16, GD_BF16};
    static const char *const sets[] = {"base", "avx2", "avx512"};
    for (int s = 0; s < COUNT_OF(sets); s++) {
        gd_ctx *ctx = context(NULL, 1, sets[s]);
        gd_scope_begin(ctx);
        for (int h = 0; h < 2; h++) {
            const float *got = gd_data(cast_of(ctx, halves[h], all, 65536, GD_F32));
            for (int i = 0; i < 65536; i++) {
                float want = (float)decode_item(halves[h], &all[i]);
                bool same = isnan(want) ? isnan(got[i]) : !memcmp(&want, &got[i], 4);
                if (!same)
                    fail_msg("%s %04x: %g, should be %g", gd_dtype_name(halves[h]), i, (double)got[i],
                             (double)want);
            }
        }
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

static float next_float(float f, int steps)
{
    int32_t bits;
    memcpy(&bits, &f, 4);
    bits += steps;
    memcpy(&f, &bits, 4);
    return f;
}

/* Rounding is monotone, so it is right everywhere when it is right at every half, at every midpoint and
 * beside it. */
static void floats_round_to_the_nearest_half(void **state)
{
    (void)state;
    gd_dtype halves[] = {GD_F16, GD_BF16};
    static float in[65536 * 8];
    static const char *const sets[] = {"base", "avx2", "avx512"};
    for (int s = 0; s < COUNT_OF(sets); s++) {
        gd_ctx *ctx = context(NULL, 1, sets[s]);
        for (int h = 0; h < 2; h++) {
            int64_t n = 0;
            uint16_t last = halves[h] == GD_F16 ? 0x7C00 : 0x7F80;
            for (uint16_t k = 0; k < last; k++) {
                uint16_t up = (uint16_t)(k + 1);
                float low = (float)decode_item(halves[h], &k), high = (float)decode_item(halves[h], &up);
                if (up == last) high = halves[h] == GD_F16 ? 65536.0f : 3.0e38f;
                float middle = (float)(((double)low + (double)high) / 2);
                float four[4] = {low, next_float(middle, -1), middle, next_float(middle, 1)};
                for (int i = 0; i < 4; i++) {
                    in[n++] = four[i];
                    in[n++] = -four[i];
                }
            }
            float special[] = {INFINITY, -INFINITY, NAN, 65519.996f, 65520.0f, FLT_MAX, -FLT_MAX, 1e-45f};
            memcpy(in + n, special, sizeof special);
            n += COUNT_OF(special);
            gd_scope_begin(ctx);
            const uint16_t *got = gd_data(cast_of(ctx, GD_F32, in, n, halves[h]));
            for (int64_t i = 0; i < n; i++) {
                uint16_t want;
                encode_item(halves[h], (long double)in[i], &want);
                bool same = isnan(in[i]) ? isnan(decode_item(halves[h], &got[i])) : got[i] == want;
                if (!same)
                    fail_msg("%a as %s: %04x, should be %04x", (double)in[i], gd_dtype_name(halves[h]),
                             got[i], want);
            }
            gd_scope_end(ctx);
        }
        end_context(ctx, NULL);
    }
}

static gd_tensor *twice_plus(gd_tensor *a, gd_tensor *b) { return (void)b, gd_add_scalar(a, 2.25); }
static gd_tensor *times(gd_tensor *a, gd_tensor *b) { return (void)b, gd_mul_scalar(a, -0.37); }
static gd_tensor *times_nan(gd_tensor *a, gd_tensor *b)
{
    uint64_t bits = 0x7FFFFFFFFFFFFFFF; /* one that carries something */
    double nan;
    memcpy(&nan, &bits, sizeof nan);
    return (void)b, gd_mul_scalar(a, nan);
}
static gd_tensor *negative(gd_tensor *a, gd_tensor *b) { return (void)b, gd_neg(a); }
static gd_tensor *squared(gd_tensor *a, gd_tensor *b) { return (void)b, gd_square(a); }
static gd_tensor *root(gd_tensor *a, gd_tensor *b) { return (void)b, gd_sqrt(a); }
static gd_tensor *rectified(gd_tensor *a, gd_tensor *b) { return (void)b, gd_relu(a); }
static gd_tensor *rectified_grad(gd_tensor *a, gd_tensor *b)
{
    gd_tensor *in[2] = {a, b}, *out = gd_empty(gd_tensor_ctx(a), gd_tensor_dtype(a), 1, gd_shape(a));
    return gd__run1(GD_OP_relu_grad, in, 2, &(gd_attrs){0}, out);
}

/* Operators that take halves as they lie: the result of f32, rounded, whatever the layout. */
static void halves_give_what_f32_gives_rounded(void **state)
{
    (void)state;
    typedef gd_tensor *function(gd_tensor *, gd_tensor *);
    static function *const functions[] = {gd_add,    gd_sub,   gd_mul,  gd_div, twice_plus, times,
                                          times_nan, negative, squared, root,   rectified,  rectified_grad};
    static const char *const sets[] = {"base", "avx2", "avx512"};
    static const gd_dtype halves[] = {GD_F16, GD_BF16};
    static const int64_t sizes[] = {0, 1, 7, 8, 9, 33, 1000, 65536};
    static uint16_t all[65536], other[65536];
    for (int i = 0; i < 65536; i++) { /* every half there is, each beside some other one */
        all[i] = (uint16_t)((unsigned)i * 40503u + 3);
        other[i] = (uint16_t)((unsigned)i * 25717u + 12345);
    }
    for (int k = 0; k < COUNT_OF(functions) * 2 * COUNT_OF(sets) * COUNT_OF(sizes); k++) {
        function *f = functions[k % COUNT_OF(functions)];
        int rest = k / COUNT_OF(functions);
        gd_dtype dtype = halves[rest % 2];
        int64_t n = sizes[rest / 2 % COUNT_OF(sizes)];
        gd_ctx *ctx = context(NULL, 2, sets[rest / 2 / COUNT_OF(sizes)]);
        gd_scope_begin(ctx);
        gd_tensor *a = gd_from_data(ctx, dtype, 1, &n, all), *b = gd_from_data(ctx, dtype, 1, &n, other);
        gd_tensor *got = f(a, b), *turned = gd_flip(f(gd_flip(a, "0"), gd_flip(b, "0")), "0"),
                  *want = gd_cast(f(gd_cast(a, GD_F32), gd_cast(b, GD_F32)), dtype);
        assert_no_error(ctx);
        assert_int_equal(gd_tensor_dtype(got), dtype);
        array x = array_of(got), y = array_of(turned), z = array_of(want);
        assert_int_equal(x.numel, n);
        for (int64_t i = 0; i < n; i++)
            if ((x.v[i] != z.v[i] || y.v[i] != z.v[i] || signbit(x.v[i]) != signbit(z.v[i])) &&
                !(isnan(x.v[i]) && isnan(y.v[i]) && isnan(z.v[i])))
                fail_msg("function %d of %04x and %04x in %s: %Lg, turned %Lg, should be %Lg",
                         k % COUNT_OF(functions), all[i], other[i], gd_dtype_name(dtype), x.v[i], y.v[i],
                         z.v[i]);
        array_free(&x);
        array_free(&y);
        array_free(&z);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* ---- f32 functions over the whole range ---- */

static double ulp_error(float got, double want)
{
    float nearest = (float)want;
    if (got == nearest) return 0;
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (!isfinite(nearest) || !isfinite(got)) {
        /* a finite neighbour of infinity is one step away */
        return (nearest == INFINITY && got == FLT_MAX) || (nearest == -INFINITY && got == -FLT_MAX)
                   ? 1
                   : INFINITY;
    }
    int exponent;
    frexp(want, &exponent);
    double ulp = ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
    return fabs((double)got - want) / ulp;
}

static void sweep(const char *name, const char *isa, gd_tensor *(*op)(gd_tensor *),
                  double (*reference)(double), double limit)
{
    enum { CHUNK = 1 << 16, STRIDE = 1009 }; /* an odd step passes through every pattern of low bits */
    static float x[CHUNK];
    double worst = 0;
    float at = 0;
    gd_ctx *ctx = context(NULL, 1, isa);
    uint64_t bits = 0;
    while (bits < (uint64_t)1 << 32) {
        int64_t n = 0;
        for (; n < CHUNK && bits < (uint64_t)1 << 32; n++, bits += STRIDE) {
            uint32_t low = (uint32_t)bits;
            memcpy(&x[n], &low, 4);
        }
        gd_scope_begin(ctx);
        const float *y = gd_data(op(gd_from_data(ctx, GD_F32, 1, &n, x)));
        for (int64_t i = 0; i < n; i++) {
            double error = ulp_error(y[i], reference((double)x[i]));
            if (error > worst) {
                worst = error;
                at = x[i];
            }
        }
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
    if (worst > limit) fail_msg("%s (%s): %.2f ULP at %a", name, isa ? isa : "widest", worst, (double)at);
    print_message("%s (%s): at most %.2f ULP\n", name, isa ? isa : "widest", worst);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double softplus(double x) { return x > 40 ? x : log1p(exp(x)); }
static double gelu(double x) { return 0.5 * x * erfc(-x * sqrt(0.5)); }

static void f32_exp_log_tanh_are_within_2_ulp(void **state)
{
    (void)state;
    static const char *const sets[] = {"base", "avx2", "avx512"};
    for (int i = 0; i < COUNT_OF(sets); i++) {
        sweep("exp", sets[i], gd_exp, exp, 2);
        sweep("log", sets[i], gd_log, log, 2);
        sweep("tanh", sets[i], gd_tanh, tanh, 2);
    }
    sweep("expm1", NULL, gd_expm1, expm1, 2);
    sweep("log1p", NULL, gd_log1p, log1p, 2);
    sweep("sigmoid", NULL, gd_sigmoid, sigmoid, 2);
    sweep("softplus", NULL, gd_softplus, softplus, 2);
    sweep("gelu", NULL, gd_gelu, gelu, 2);
    sweep("erf", NULL, gd_erf, erf, 2);
}

/* ---- f64 functions against long double ---- */

#ifdef GD_TEST_EMULATED
enum { POINTS = 8000 };
#else
enum { POINTS = 40000 };
#endif

static long double sigmoid_l(long double x) { return 1 / (1 + expl(-x)); }
static long double gelu_l(long double x) { return 0.5L * x * erfcl(-x * sqrtl(0.5L)); }

/* Error of a f64 result in units of its last place, or in epsilons times its size. */
static double error_of(double got, long double want, bool places)
{
    int exponent;
    if (got == (double)want || (isnan(got) && isnan(want))) return 0;
    frexpl(want, &exponent);
    long double ulp = ldexpl(1, exponent - 53 < -1074 ? -1074 : exponent - 53);
    return (double)(fabsl((long double)got - want) / (places ? ulp : (long double)DBL_EPSILON * fabsl(want)));
}

/* Points spread evenly over [low, high), and when `powers`, at all powers of two between 2^low and 2^high. */
static void sweep_f64(const char *name, const char *isa, gd_tensor *(*op)(gd_tensor *),
                      long double (*reference)(long double), double low, double high, bool powers,
                      bool places, double limit)
{
    static double x[POINTS];
    int64_t n = POINTS;
    double worst = 0, at = 0;
    for (int64_t i = 0; i < n; i++) {
        double golden = fmod(0.6180339887498949 * (double)(i + 1),
                             1); /* no two points share their low bits */
        double v = low + (high - low) * golden;
        x[i] = powers ? exp2(v) : v;
    }
    gd_ctx *ctx = context(NULL, 1, isa);
    gd_scope_begin(ctx);
    const double *y = gd_data(op(gd_from_data(ctx, GD_F64, 1, &n, x)));
    for (int64_t i = 0; i < n; i++) {
        double error = error_of(y[i], reference((long double)x[i]), places);
        if (error > worst) {
            worst = error;
            at = x[i];
        }
    }
    gd_scope_end(ctx);
    end_context(ctx, NULL);
    if (!(worst <= limit)) fail_msg("%s (%s): %.2f at %a", name, isa ? isa : "widest", worst, at);
}

static void f64_exp_and_log_are_within_1_ulp_tanh_and_sigmoid_within_2_epsilons(void **state)
{
    (void)state;
    static const char *const sets[] = {"base", "avx2", "avx512"};
    for (int i = 0; i < COUNT_OF(sets); i++) {
        sweep_f64("exp", sets[i], gd_exp, expl, -746, 710, false, true, 1);
        sweep_f64("exp", sets[i], gd_exp, expl, -1, 1, false, true, 1);
        sweep_f64("log", sets[i], gd_log, logl, -1074, 1024, true, true, 1);
        sweep_f64("log", sets[i], gd_log, logl, 0.5, 2, false, true, 1);
        sweep_f64("tanh", sets[i], gd_tanh, tanhl, -25, 25, false, false, 2);
        sweep_f64("tanh", sets[i], gd_tanh, tanhl, -60, 0, true, false, 2);
        sweep_f64("sigmoid", sets[i], gd_sigmoid, sigmoid_l, -700, 40, false, false, 2);
    }
}

/* erfc alone is off by 2.5 in the GNU C library; an argument rounded once would make it 16 at -5 and 480 at -25 */
static void f64_gelu_keeps_its_digits_in_the_lower_tail(void **state)
{
    (void)state;
    sweep_f64("gelu", NULL, gd_gelu, gelu_l, -8, 8, false, false, 4);
    sweep_f64("gelu", NULL, gd_gelu, gelu_l, -36, -8, false, false, 4);
}

/* ---- values with a meaning of their own ---- */

#define NUMBERS_OF(...) VECTOR(ctx, __VA_ARGS__)

static void nan_and_infinity_go_where_they_should(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = NUMBERS_OF(NAN, INFINITY, -INFINITY, 0, -0.0), *y = NUMBERS_OF(1, NAN, 1, NAN, 1);
    assert_values(gd_isfinite(x), 0, 0, 0, 1, 1);
    assert_values(gd_sign(x), NAN, 1, -1, 0, 0);
    assert_values(gd_relu(x), NAN, INFINITY, 0, 0, 0);
    assert_values(gd_clamp(x, -1, 1), NAN, 1, -1, 0, 0);
    assert_values(gd_minimum(x, y), NAN, NAN, -INFINITY, NAN, 0);
    assert_values(gd_maximum(y, x), NAN, NAN, 1, NAN, 1);
    assert_values(gd_sigmoid(x), NAN, 1, 0, 0.5, 0.5);
    assert_values(gd_softplus(x), NAN, INFINITY, 0, log(2), log(2));
    assert_values(gd_tanh(x), NAN, 1, -1, 0, 0);
    assert_values(gd_exp(x), NAN, INFINITY, 0, 1, 1);
    assert_values(gd_log(NUMBERS_OF(NAN, INFINITY, -1, 0)), NAN, INFINITY, NAN, -INFINITY);
    assert_values(gd_argmax(y, NULL, false), 1);
    assert_values(gd_argmin(y, NULL, false), 1);
    assert_values(gd_max(y, NULL, false), NAN);
    assert_values(gd_logical_not(x), 0, 0, 0, 1, 1);
    gd_tensor *low = NUMBERS_OF(-INFINITY, -INFINITY), *high = NUMBERS_OF(INFINITY, 0);
    assert_values(gd_logsumexp(low, NULL, false), -INFINITY);
    assert_values(gd_logsumexp(high, NULL, false), INFINITY);
    assert_values(gd_logsumexp(NUMBERS_OF(1000, 1000), NULL, false), 1000 + log(2));
    assert_values(gd_softmax(NUMBERS_OF(-1000, 0, -INFINITY), "0"), 0, 1, 0);
    assert_values(gd_cast(gd_cast(x, GD_I64), GD_F64), 0, 0x1p63, -0x1p63, 0, 0);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void integers_wrap_and_sums_of_small_ones_are_i64(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *u = gd_from_data(ctx, GD_U8, 1, (int64_t[]){3}, (uint8_t[]){250, 3, 200});
    assert_values(gd_add(u, u), 244, 6, 144);
    assert_values(gd_neg(u), 6, 253, 56);
    assert_values(gd_sum(u, NULL, false), 453);
    assert_int_equal(gd_tensor_dtype(gd_sum(u, NULL, false)), GD_I64);
    assert_values(gd_prod(u, NULL, false), 150000);
    assert_int_equal(gd_tensor_dtype(gd_cumsum(u, "0")), GD_I64);
    int64_t large[] = {INT64_MAX, INT64_MIN};
    gd_tensor *l = gd_from_data(ctx, GD_I64, 1, (int64_t[]){2}, large);
    const int64_t *sum = gd_data(gd_add(l, l));
    assert_int_equal(sum[0], -2);
    assert_int_equal(sum[1], 0);
    const int64_t *negative = gd_data(gd_neg(l));
    assert_true(negative[1] == INT64_MIN);
    const int64_t *moved = gd_data(gd_add_scalar(l, 1e300));
    assert_true(moved[1] == -1);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* Rows of every length up to three blocks of the search, with equals, infinities and NaNs at any place; a straight loop says
 * which is the first. */
static int64_t first_extreme(const double *x, int64_t n, bool lowest)
{
    int64_t at = 0;
    for (int64_t i = 1; i < n && x[at] == x[at]; i++)
        if (x[i] != x[i] || (lowest ? x[i] < x[at] : x[i] > x[at])) at = i;
    return at;
}

static void the_first_of_equals_is_found_in_rows_of_any_length(void **state)
{
    (void)state;
    static double x[3100];
    uint32_t seed = 1;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int64_t n = 1; n <= 3100; n += n < 40 ? 1 : 61)
        for (int kind = 0; kind < 4; kind++) {
            for (int64_t i = 0; i < n; i++) {
                seed = seed * 1664525 + 1013904223;
                x[i] = kind == 3 ? -INFINITY : (double)(seed >> 29) - 4;
            }
            if (kind == 1) x[seed % (uint32_t)n] = NAN;
            if (kind == 2) x[seed % (uint32_t)n] = seed & 1 ? INFINITY : -INFINITY;
            for (int d = 0; d < 2; d++) {
                gd_tensor *t = gd_from_f64(ctx, d ? GD_F64 : GD_F32, 1, &n, x);
                gd_tensor *high = gd_argmax(t, NULL, false), *low = gd_argmin(t, NULL, false);
                assert_int_equal(gd_item(high), first_extreme(x, n, false));
                assert_int_equal(gd_item(low), first_extreme(x, n, true));
                gd_release(t);
                gd_release(high);
                gd_release(low);
            }
        }
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_agree_with_long_double_references),
        cmocka_unit_test(values_agree_on_every_instruction_set),
        cmocka_unit_test(random_views_read_copy_and_broadcast_right),
        cmocka_unit_test(every_half_becomes_the_right_float),
        cmocka_unit_test(floats_round_to_the_nearest_half),
        cmocka_unit_test(halves_give_what_f32_gives_rounded),
        cmocka_unit_test(f32_exp_log_tanh_are_within_2_ulp),
        cmocka_unit_test(f64_exp_and_log_are_within_1_ulp_tanh_and_sigmoid_within_2_epsilons),
        cmocka_unit_test(f64_gelu_keeps_its_digits_in_the_lower_tail),
        cmocka_unit_test(nan_and_infinity_go_where_they_should),
        cmocka_unit_test(the_first_of_equals_is_found_in_rows_of_any_length),
        cmocka_unit_test(integers_wrap_and_sums_of_small_ones_are_i64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
