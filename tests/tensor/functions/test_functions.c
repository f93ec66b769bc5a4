/* Vector functions against points that MPFR 4.2 or (gamma functions) mpmath computed with 200 bits or more, what IEEE 754 says of special
 * values, and each other on every instruction set. */
#include "support/support.h"
#include "base/rng.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/source_kernels.h"
#include "tensor/elementwise.h"
#include "points.h"

#include <math.h>

static const gd_vec_table *const tables[] = {
    &gd__vec_base,
#ifdef GD_HAVE_AVX2
    &gd__vec_avx2,
#endif
#ifdef GD_HAVE_AVX512
    &gd__vec_avx512,
#endif
};

static bool runs_here(const gd_vec_table *table)
{
#ifdef GD_HAVE_AVX2
    if (table == &gd__vec_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#ifdef GD_HAVE_AVX512
    if (table == &gd__vec_avx512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
#endif
    return table == &gd__vec_base;
}

static double in_f64(const gd_vec_table *table, gd_op_id op, double x, double y)
{
    double out;
    table->map[op][GD_AS_F64](&out, &x, &y, NULL, 1, &y); /* y: the order of polygamma */
    return out;
}

static double in_f32(const gd_vec_table *table, gd_op_id op, double x, double y)
{
    float out, a = (float)x, b = (float)y;
    table->map[op][GD_AS_F32](&out, &a, &b, NULL, 1, &y);
    return (double)out;
}

/* How far apart in units of the last of `digits` binary digits, subnormal below 2^least. */
static double units(double got, double want, int digits, int least)
{
    int exponent;
    (void)frexp(want, &exponent);
    if (exponent - 1 < least) exponent = least + 1;
    return fabs(got - want) / ldexp(1, exponent - digits);
}

/* gelu loses a digit to its last product. */
static double bound(gd_op_id op) { return op == GD_OP_gelu ? 2.1 : op == GD_OP_polygamma ? 1.6 : 1.5; }

static void functions_are_within_their_bounds_of_the_true_values(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int i = 0; i < COUNT_OF(points) && runs_here(tables[t]); i++) {
            const point *p = &points[i];
            double got = in_f64(tables[t], p->op, p->x, p->y), far = units(got, p->of_f64, 53, -1022);
            if (got != p->of_f64 && !(far <= bound(p->op)))
                fail_msg("%s: %s(%a, %a) is %a, not %a: %g ULP", tables[t]->isa, gd__ops[p->op].name, p->x,
                         p->y, got, p->of_f64, far);
            if (isnan(p->of_f32)) continue;
            got = in_f32(tables[t], p->op, p->x, p->y);
            far = units(got, p->of_f32, 24, -126);
            if (got != (double)(float)p->of_f32 && !(far <= 1))
                fail_msg("%s: %s(%a, %a) in f32 is %a, not %a: %g ULP", tables[t]->isa, gd__ops[p->op].name,
                         p->x, p->y, got, p->of_f32, far);
        }
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void special_values_are_those_of_the_standard(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int i = 0; i < COUNT_OF(specials) && runs_here(tables[t]); i++) {
            const special *s = &specials[i];
            double wide = in_f64(tables[t], s->op, s->x, s->y), narrow = in_f32(tables[t], s->op, s->x, s->y);
            if (!same(wide, s->result) || !same(narrow, s->result))
                fail_msg("%s: %s(%g, %g) is %g, in f32 %g, not %g", tables[t]->isa, gd__ops[s->op].name, s->x,
                         s->y, wide, narrow, s->result);
        }
}

/* Mostly of order one; some huge, tiny, or special. */
static double any_number(uint64_t *seed)
{
    static const double some[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-310, 1e-40, 0.5, 3};
    double x = random_unit(seed) - 0.5;
    switch (random_below(seed, 6)) {
    case 0: return some[random_below(seed, COUNT_OF(some))];
    case 1: return ldexp(x, (int)random_below(seed, 2000) - 1000);
    case 2: return ldexp(x, (int)random_below(seed, 200) - 100);
    default: return x * 20;
    }
}

static void every_instruction_set_gives_the_same_bits(void **state)
{
    (void)state;
    enum { N = 2003 };
    static double x[2][N], want[N], got[N];
    static float narrow[2][N];
    uint64_t seed = 5;
    for (int k = 0; k < 2 * GD_OP_COUNT; k++) {
        int op = k / 2, slope = k % 2; /* the operator, and its gradient in one pass */
        bool here = slope ? gd__has_slope((gd_op_id)op)
                          : gd__ops[op].kind == GD_KIND_MAP && gd__ops[op].inputs < 3 &&
                                gd__vec_base.map[op][GD_AS_F64];
        if (op == GD_OP_bessel_j) continue; /* of a whole number, and the same function everywhere */
        for (int i = 0; here && i < 2 * N; i++)
            narrow[i % 2][i / 2] = (float)(x[i % 2][i / 2] = any_number(&seed));
        for (int way = 0; here && way < 4; way++)
            for (int t = 0; t < COUNT_OF(tables) && runs_here(tables[t]); t++) {
                int wide = way % 2;
                const double setting[2] = {op == GD_OP_polygamma ? way / 2 : way < 2 ? 2.3 : -0.7, 5};
                memset(got, 0, sizeof got);
                gd_vec_fn fn = slope ? tables[t]->slopes[op][wide]
                                     : tables[t]->map[op][wide ? GD_AS_F64 : GD_AS_F32];
                fn(got, wide ? (void *)x[0] : narrow[0], wide ? (void *)x[1] : narrow[1], NULL, N, setting);
                if (!t) memcpy(want, got, sizeof want);
                for (int i = 0; i < N; i++) {
                    double a = wide ? want[i] : (double)((float *)want)[i],
                           b = wide ? got[i] : (double)((float *)got)[i];
                    if (!same(a, b))
                        fail_msg("%s(%a, %a) of f%d is %a, and %a with %s", gd__ops[op].name,
                                 wide ? x[0][i] : (double)narrow[0][i], wide ? x[1][i] : (double)narrow[1][i],
                                 wide ? 64 : 32, a, b, tables[t]->isa);
                }
            }
    }
}

/* Number 2 k and 2 k + 1 are those of block k of base/rng.h, whatever the instruction set and wherever a call begins. */
static void random_numbers_are_those_of_their_blocks(void **state)
{
    (void)state;
    enum { N = 701 };
    const uint64_t key = 0x123456789abcdef5, first = 0xfffffff0; /* blocks pass 2^32 */
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int way = 0; way < 5 && runs_here(tables[t]); way++) {
            int kind = way < 3 ? 0 : way - 2;
            double scale = way == 0 ? 0x1p53 : way == 1 ? 0x1p24 : 0x1p8, wide[N];
            float narrow[N];
            uint64_t bits[N];
            tables[t]->sources->random_f64(wide, key, first, N, kind, scale);
            tables[t]->sources->random_f32(narrow, key, first, N, kind, scale);
            tables[t]->sources->random_u64(bits, key, first, N);
            for (uint64_t i = 0; i < N; i++) {
                uint32_t w[4], v[4];
                double pair[2];
                gd__philox(key, first + i / 2, w);
                gd__philox(key, first + i, v);
                gd__random_pair(kind, scale, w, pair);
                if (!same(wide[i], pair[i % 2]) || narrow[i] != (float)pair[i % 2] ||
                    bits[i] != ((uint64_t)v[0] << 32 | v[1]))
                    fail_msg("%s: number %d of kind %d is %a, %a, not %a", tables[t]->isa, (int)i, kind,
                             wide[i], (double)narrow[i], pair[i % 2]);
            }
        }
}

/* Whatever number a call begins at. */
static void steps_are_first_plus_multiples(void **state)
{
    (void)state;
    enum { N = 333 };
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int n = 1; n <= N && runs_here(tables[t]); n += 83) {
            double wide[N];
            float narrow[N];
            tables[t]->sources->steps_f64(wide, 0.3, 0.7, 16384, n);
            tables[t]->sources->steps_f32(narrow, 0.3, 0.7, 16384, n);
            for (int i = 0; i < n; i++) {
                double want = 0.3 + (16384 + i) * 0.7;
                if (wide[i] != want || narrow[i] != (float)want)
                    fail_msg("%s: step %d is %a, not %a", tables[t]->isa, i, wide[i], want);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_are_within_their_bounds_of_the_true_values),
        cmocka_unit_test(special_values_are_those_of_the_standard),
        cmocka_unit_test(every_instruction_set_gives_the_same_bits),
        cmocka_unit_test(random_numbers_are_those_of_their_blocks),
        cmocka_unit_test(steps_are_first_plus_multiples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
