/* Random numbers in programs: element i of a tensor has number i of the stream of its key, step and place in the rule,
 * whoever runs the program.  The expected numbers come from the reference form of the generator. */
#include "program/execute.h"
#include "program/random_program.h"
#include "support/op_references.h"

enum { MEMBERS = 3 };
static const int64_t sizes[MEMBERS] = {1, 5000, 40001};
static const double keys[MEMBERS] = {3, 9007199254740991, 123456789012345};

/* Number i of a stream, by the definitions and the functions of the C library. */
static double expected(gd_random_kind kind, gd_dtype dtype, double key, double step, int stream, int64_t i)
{
    uint64_t k = (uint64_t)key;
    uint32_t w[4],
        counter[4] = {(uint32_t)(i / 2), (uint32_t)((uint64_t)i / 2 >> 32), (uint32_t)step, (uint32_t)stream};
    ref_philox(counter, (uint32_t[]){(uint32_t)k, (uint32_t)(k >> 32)}, w);
    const uint32_t *half = w + 2 * (i % 2);
    double u = ldexp((double)w[0], -32) + ldexp((double)(w[1] >> 11), -53),
           v = ldexp((double)w[2], -32) + ldexp((double)(w[3] >> 11), -53);
    if (kind == GD_RANDOM_SIGN) return half[0] >> 31 ? 1 : -1;
    if (kind == GD_RANDOM_UNIFORM)
        return dtype == GD_F32 ? ldexp((double)(half[0] >> 8), -24) : i % 2 ? v : u;
    double r = sqrt(-2 * log1p(-u)), angle = 2 * M_PI * v;
    return i % 2 ? r * sin(angle) : r * cos(angle);
}

/* Stores the sum of a load and random numbers into an array, as a table of three tensors. */
static void run_table(gd_ctx *ctx, gd_random_kind kind, gd_dtype dtype, double step, bool interpret,
                      tensors *made)
{
    gd_program *p = gd__calloc(ctx, sizeof *p);
    assert_non_null(p);
    *p = (gd_program){.ctx = ctx, .compute = dtype};
    int32_t in = add_array(p, dtype);
    p->array[in].store = add_op(p, GD_I_add, add_load(p, in), add_random(p, kind, 5), -1);
    assert_int_equal(gd__program_verify(p), GD_OK);
    gd_exec x = {.p = p, .device = gd_device_get(ctx, "cpu")};
    gd_exec_set set = {.ctx = ctx, .table = &x, .tables = 1};
    int64_t *numel = gd__alloc(ctx, sizeof sizes);
    assert_non_null(memcpy(numel, sizes, sizeof sizes));
    assert_int_equal(gd__exec_passes(&x, interpret), GD_OK);
    assert_int_equal(gd__exec_members(&x, MEMBERS, numel, NULL), GD_OK);
    assert_int_equal(gd__execs_join(&set), GD_OK);
    for (int m = 0; m < MEMBERS; m++) {
        made[m] = make_tensors(p, sizes[m], 1);
        memset(made[m].array[in], 0, made[m].bytes[in]);
        x.pointer[m * p->arrays + in] = made[m].array[in];
        x.input[m * p->uniforms] = keys[m];
        x.input[m * p->uniforms + 1] = step;
    }
    gd_exec_run run = {0};
    assert_int_equal(gd__execs_run(&set, &run), GD_OK);
    gd__execs_free(&set);
}

static void random_numbers_are_those_of_the_generator(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 2, NULL);
    for (int kind = GD_RANDOM_UNIFORM; kind <= GD_RANDOM_SIGN; kind++)
        for (gd_dtype dtype = GD_F32; dtype <= GD_F64; dtype++) {
            tensors t[MEMBERS];
            run_table(ctx, (gd_random_kind)kind, dtype, 17, false, t);
            double eps = kind != GD_RANDOM_NORMAL ? 0
                         : dtype == GD_F32        ? 1e-7
                                                  : 4e-15; /* 2 pi v is rounded here */
            for (int m = 0; m < MEMBERS; m++) {
                for (int64_t i = 0; i < sizes[m]; i++) {
                    double want = expected((gd_random_kind)kind, dtype, keys[m], 17, 5, i),
                           got = get_number(t[m].array[0], dtype, i);
                    if (!(fabs(got - want) <= eps * (1 + fabs(want))))
                        fail_msg("kind %d, tensor %d, number %lld: %.17g, not %.17g", kind, m, (long long)i,
                                 got, want);
                }
                free_tensors(&t[m]);
            }
        }
    end_context(ctx, NULL);
}

static void random_numbers_have_the_same_bits_however_they_are_made(void **state)
{
    (void)state;
    static const char *const isas[] = {NULL, "base", "avx2", "none"};
    for (int kind = GD_RANDOM_UNIFORM; kind <= GD_RANDOM_SIGN; kind++)
        for (gd_dtype dtype = GD_F32; dtype <= GD_F64; dtype++) {
            tensors want[MEMBERS];
            gd_ctx *first = context(NULL, 1, NULL);
            run_table(first, (gd_random_kind)kind, dtype, 2, true, want);
            for (int way = 0; way < 8; way++) {
                tensors got[MEMBERS];
                gd_ctx *ctx = context(NULL, 1 + way % 4, isas[way % 4]);
                run_table(ctx, (gd_random_kind)kind, dtype, 2, way >= 4, got);
                for (int m = 0; m < MEMBERS; m++) {
                    assert_memory_equal(got[m].array[0], want[m].array[0], want[m].bytes[0]);
                    free_tensors(&got[m]);
                }
                end_context(ctx, NULL);
            }
            for (int m = 0; m < MEMBERS; m++) free_tensors(&want[m]);
            end_context(first, NULL);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_numbers_are_those_of_the_generator),
        cmocka_unit_test(random_numbers_have_the_same_bits_however_they_are_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
