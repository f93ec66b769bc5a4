/* Element functions of the CUDA kernels (backends/cuda/kernels/common.cu), translated by the host's C++ compiler, against long
 * double: where a formula loses digits it does so on every machine. */
#include "cuda/host_gpu.h"

#include <math.h>

#define SOURCE GD_TEST_DIR "/../backends/cuda/kernels/common.cu"

static long double normal(long double x) { return 0.5L * erfcl(-x * sqrtl(0.5L)); }
static long double gelu(long double x) { return x * normal(x); }
static long double gelu_slope(long double x)
{
    return normal(x) + x * expl(-0.5L * x * x) / sqrtl(2 * acosl(-1));
}

/* Allowed: epsilons of the result's own size.  Slopes make those of y^2 / 2 of the rounding in it, and pass through 0 at -0.75. */
static const struct {
    const char *name;
    long double (*reference)(long double x);
    double low, high, f32, f64;
} rows[] = {
    {"d_gelu", gelu, -36, -3, 0, 6},
    {"d_gelu", gelu, -6, 6, 40, 6},
    {"d_gelu_slope", gelu_slope, -6, -1, 60, 60},
    {"d_gelu_slope", gelu_slope, -0.5, 6, 8, 8},
    {"d_erfc", erfcl, -3, 3, 8, 8},
};

static char *read_source(void)
{
    static char text[65536];
    FILE *f = fopen(SOURCE, "r");
    assert_non_null(f);
    size_t used = fread(text, 1, sizeof text - 4096, f);
    assert_true(used > 0 && feof(f));
    fclose(f);
    text[used] = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char add[400];
        snprintf(add, sizeof add,
                 "extern \"C\" float f32_%zu(float x) { return %s(x); }\n"
                 "extern \"C\" double f64_%zu(double x) { return %s(x); }\n",
                 i, rows[i].name, i, rows[i].name);
        assert_true(strlen(text) + strlen(add) < sizeof text);
        strcat(text, add);
    }
    return text;
}

static void compare(size_t i, float (*f32)(float), double (*f64)(double))
{
    enum { POINTS = 4000 };
    double worst[2] = {0}, at[2] = {0};
    for (int k = 0; k < POINTS; k++) {
        double x = rows[i].low + (rows[i].high - rows[i].low) * fmod(0.6180339887498949 * (double)(k + 1), 1);
        float narrow = (float)x;
        long double want[2] = {rows[i].reference((long double)narrow), rows[i].reference((long double)x)};
        long double got[2] = {(long double)f32(narrow), (long double)f64(x)};
        for (int w = 0; w < 2; w++) {
            double eps = w ? 0x1p-52 : 0x1p-23,
                   error = (double)(fabsl(got[w] - want[w]) / fabsl(want[w])) / eps;
            if (!(error <= worst[w])) worst[w] = error, at[w] = x;
        }
    }
    if ((rows[i].f32 > 0 && !(worst[0] <= rows[i].f32)) || !(worst[1] <= rows[i].f64))
        fail_msg("%s in [%g, %g]: %.3g epsilons of f32 at %g, %.3g of f64 at %g", rows[i].name, rows[i].low,
                 rows[i].high, worst[0], at[0], worst[1], at[1]);
}

static void functions_keep_their_digits(void **state)
{
    (void)state;
    if (!host_can_compile()) skip();
    void *library = host_translate(read_source());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char name[32];
        float (*f32)(float);
        double (*f64)(double);
        snprintf(name, sizeof name, "f32_%zu", i);
        void *found = dlsym(library, name);
        assert_non_null(found);
        memcpy(&f32, &found, sizeof found);
        snprintf(name, sizeof name, "f64_%zu", i);
        found = dlsym(library, name);
        assert_non_null(found);
        memcpy(&f64, &found, sizeof found);
        compare(i, f32, f64);
    }
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_keep_their_digits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
