#include "support/support.h"

/* here those of the C library are meant */
#undef strtod
#undef vsnprintf
#undef fprintf

#include "base/ctx.h"

#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>

/* ---- the locale: CTest runs suites again as locale/..., with GD_TEST_LOCALE set ---- */

__attribute__((constructor)) static void take_locale(void)
{
    const char *name = getenv("GD_TEST_LOCALE");
    if (!name || setlocale(LC_ALL, name)) return;
    fprintf(stderr, "skipped: there is no locale %s (localedef and the package locales make it)\n", name);
    exit(77);
}

int test_share(void)
{
    const char *share = getenv("GD_TEST_SHARE");
    return share ? atoi(share) : 1;
}

int emulated_share(void)
{
#ifdef GD_TEST_EMULATED
    return test_share();
#else
    return 1;
#endif
}

/* Puts the thread into the C locale; returns the one it was in, for uselocale. */
static locale_t enter_c_locale(void)
{
    static locale_t c;
    if (!c) c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    assert_true(c != (locale_t)0);
    return uselocale(c);
}

double point_strtod(const char *text, char **end)
{
    locale_t before = enter_c_locale();
    double value = strtod(text, end);
    (void)uselocale(before);
    return value;
}

/* A function of the C library that takes a va_list, with a decimal point. */
#define POINT(call)                     \
    locale_t before = enter_c_locale(); \
    va_list args;                       \
    va_start(args, format);             \
    int result = call;                  \
    va_end(args);                       \
    (void)uselocale(before);            \
    return result

int point_snprintf(char *out, size_t size, const char *format, ...)
{
    POINT(vsnprintf(out, size, format, args));
}

int point_vsnprintf(char *out, size_t size, const char *format, va_list args)
{
    locale_t own = enter_c_locale();
    int length = vsnprintf(out, size, format, args);
    uselocale(own);
    return length;
}

int point_fprintf(FILE *file, const char *format, ...) { POINT(vfprintf(file, format, args)); }

int point_fscanf(FILE *file, const char *format, ...) { POINT(vfscanf(file, format, args)); }

int point_sscanf(const char *text, const char *format, ...) { POINT(vsscanf(text, format, args)); }

/* ---- memory ---- */

static void *counted(void *user, void *old, size_t old_size, size_t new_size)
{
    memory *m = user;
    if (new_size) m->requests++;
    if (new_size > m->largest) m->largest = new_size;
    if (new_size >> 40) return NULL; /* no machine has that much; sanitizers would stop */
    if (new_size && m->fail_at && (m->requests == m->fail_at || (m->fail_on && m->requests > m->fail_at))) {
        m->failed = true;
        return NULL;
    }
    void *block = gd__system_alloc(NULL, old, old_size, new_size);
    if (old) {
        m->bytes -= (int64_t)old_size;
        m->blocks--;
    }
    if (block) {
        m->bytes += (int64_t)new_size;
        m->blocks++;
    }
    if (m->bytes > m->most) m->most = m->bytes;
    return block;
}

gd_allocator memory_allocator(memory *m) { return (gd_allocator){counted, m}; }

/* ---- contexts ---- */

gd_ctx *context(memory *m, int threads, const char *isa)
{
    gd_options options = gd_options_default();
    options.threads = threads;
    options.isa = isa;
    options.seed = 7;
    if (m) {
        options.allocator = memory_allocator(m);
        options.pool = false;
    }
    return gd_ctx_new(&options);
}

void end_context(gd_ctx *ctx, const memory *m)
{
    int64_t live = gd_ctx_live(ctx);
    gd_ctx_free(ctx);
    if (live) fail_msg("%" PRId64 " objects are still alive", live);
    if (m && (m->bytes || m->blocks))
        fail_msg("%" PRId64 " bytes in %" PRId64 " blocks are still there", m->bytes, m->blocks);
}

static memory of_test;

memory *test_memory(void) { return &of_test; }

int begin_test(void **state)
{
    of_test = (memory){0};
    *state = context(&of_test, 1, NULL);
    return *state ? 0 : -1;
}

int end_test(void **state)
{
    assert_no_error(*state);
    end_context(*state, &of_test);
    return 0;
}

int begin_scoped_test(void **state)
{
    if (begin_test(state)) return -1;
    gd_scope_begin(*state);
    return 0;
}

int end_scoped_test(void **state)
{
    gd_scope_end(*state);
    return end_test(state);
}

void fail_each_allocation(int threads, bool (*scenario)(gd_ctx *ctx))
{
    for (int64_t k = 1, failed = 1; failed; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, threads, NULL);
        gd_scope_begin(ctx);
        m.fail_at = m.requests + k;
        bool worked = scenario(ctx);
        failed = m.failed;
        if (!worked) assert_int_equal(gd_error(ctx), GD_NOMEM);
        gd_scope_end(ctx);
        end_context(ctx, &m);
        assert_true(worked || failed);
    }
}

void assert_no_error_at(gd_ctx *ctx, const char *file, int line)
{
    if (!gd_error(ctx)) return;
    print_error("error %s: %s\n", gd_status_name(gd_error(ctx)), gd_error_text(ctx));
    _fail(file, line);
}

void expect_error_at(gd_ctx *ctx, gd_status status, const char *part, const char *file, int line)
{
    gd_status got = gd_error(ctx);
    if (got != status || !strstr(gd_error_text(ctx), part)) {
        print_error("expected %s with \"%s\", got %s: \"%s\"\n", gd_status_name(status), part,
                    gd_status_name(got), gd_error_text(ctx));
        _fail(file, line);
    }
    gd_clear_error(ctx);
}

void assert_error_at(gd_ctx *ctx, gd_status status, const char *text, const char *file, int line)
{
    bool right = gd_error(ctx) == status && strncmp(gd_error_text(ctx), text, strlen(text)) == 0;
    if (!right) {
        print_error("wanted %s: %s...\n   got %s: %s\n", gd_status_name(status), text,
                    gd_status_name(gd_error(ctx)), gd_error_text(ctx));
        _fail(file, line);
    }
    gd_clear_error(ctx);
}

void assert_values_at(const gd_tensor *t, const double *want, int64_t count, double tolerance,
                      const char *file, int line)
{
    if (!t || gd_numel(t) != count) {
        print_error("wanted %" PRId64 " elements, got %" PRId64 "\n", count, t ? gd_numel(t) : -1);
        _fail(file, line);
    }
    array got = array_of(t);
    for (int64_t i = 0; i < count; i++) {
        long double difference = fabsl(got.v[i] - (long double)want[i]);
        bool same = (isnan(want[i]) && isnan(got.v[i])) || got.v[i] == (long double)want[i] ||
                    difference <= (long double)tolerance * (1 + fabsl((long double)want[i]));
        if (same) continue;
        print_error("element %" PRId64 ": wanted %.17g, got %.17Lg\n", i, want[i], got.v[i]);
        _fail(file, line);
    }
    array_free(&got);
}

void assert_shape_at(const gd_tensor *t, const int64_t *shape, int ndim, const char *file, int line)
{
    bool same = t && gd_ndim(t) == ndim;
    for (int i = 0; same && i < ndim; i++) same = gd_size(t, i) == shape[i];
    if (same) return;
    print_error("the tensor has %d axes:", gd_ndim(t));
    for (int i = 0; t && i < gd_ndim(t); i++) print_error(" %" PRId64, gd_size(t, i));
    print_error("\n");
    _fail(file, line);
}

/* ---- numbers ---- */

uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

double random_unit(uint64_t *state) { return (double)(random_bits(state) >> 11) * 0x1p-53; }

int64_t random_below(uint64_t *state, int64_t limit)
{
    return (int64_t)(random_bits(state) % (uint64_t)limit);
}

/* The number with `bits` significant bits next to v, exponent not below `lowest` (of the last bit). */
static long double rounded(long double v, int bits, int lowest)
{
    if (v == 0 || !isfinite(v)) return v;
    int exponent;
    frexpl(v, &exponent);
    int last = exponent - bits;
    if (last < lowest) last = lowest;
    return ldexpl(rintl(ldexpl(v, -last)), last);
}

static uint16_t to_f16(long double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    if (isnan(value)) return 0x7E00;
    long double v = fabsl(rounded(value, 11, -24));
    if (v >= 65520) return sign | 0x7C00;
    if (v < 0x1p-14L) return (uint16_t)(sign | (uint16_t)(v * 0x1p24L));
    int exponent = ilogbl(v);
    return (uint16_t)(sign | (uint16_t)((exponent + 14) * 1024 + (int)ldexpl(v, 10 - exponent)));
}

static long double from_f16(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    long double v = exponent == 31 ? (fraction ? (long double)NAN : (long double)INFINITY)
                    : exponent     ? ldexpl(1024 + fraction, exponent - 25)
                                   : ldexpl(fraction, -24);
    return bits & 0x8000 ? -v : v;
}

/* A bf16 is the upper half of the f32 that it equals. */
static uint16_t to_bf16(long double value)
{
    if (isnan(value)) return 0x7FC0;
    float f = (float)rounded(value, 8, -133);
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return (uint16_t)(bits >> 16);
}

static long double from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, 4);
    return (long double)f;
}

void encode_item(gd_dtype dtype, long double value, void *out)
{
    switch (dtype) {
    case GD_F32: *(float *)out = (float)value; break;
    case GD_F64: *(double *)out = (double)value; break;
    case GD_F16: *(uint16_t *)out = to_f16(value); break;
    case GD_BF16: *(uint16_t *)out = to_bf16(value); break;
    case GD_I32: *(int32_t *)out = (int32_t)(int64_t)value; break;
    case GD_I64: *(int64_t *)out = (int64_t)value; break;
    case GD_U8: *(uint8_t *)out = (uint8_t)(int64_t)value; break;
    default: *(uint8_t *)out = value != 0; break;
    }
}

long double decode_item(gd_dtype dtype, const void *item)
{
    switch (dtype) {
    case GD_F32: return (long double)*(const float *)item;
    case GD_F64: return (long double)*(const double *)item;
    case GD_F16: return from_f16(*(const uint16_t *)item);
    case GD_BF16: return from_bf16(*(const uint16_t *)item);
    case GD_I32: return *(const int32_t *)item;
    case GD_I64: return *(const int64_t *)item;
    default: return *(const uint8_t *)item;
    }
}

long double epsilon_of(gd_dtype dtype)
{
    return dtype == GD_F64    ? (long double)DBL_EPSILON
           : dtype == GD_F32  ? (long double)FLT_EPSILON
           : dtype == GD_F16  ? 0x1p-10L
           : dtype == GD_BF16 ? 0x1p-7L
                              : 0;
}

/* ---- arrays ---- */

array array_new(int ndim, const int64_t *size)
{
    array a = {.ndim = ndim, .numel = 1};
    for (int i = 0; i < ndim; i++) a.numel *= a.size[i] = size[i];
    a.v = calloc((size_t)a.numel + 1, sizeof *a.v);
    if (!a.v) abort();
    return a;
}

void array_free(array *a)
{
    free(a->v);
    free(a->scale);
    *a = (array){0};
}

bool array_next(const array *a, int64_t *index)
{
    for (int i = a->ndim; i-- > 0;) {
        if (++index[i] < a->size[i]) return true;
        index[i] = 0;
    }
    return false;
}

int64_t array_offset(const array *a, const int64_t *index)
{
    int64_t offset = 0;
    for (int i = 0; i < a->ndim; i++) offset = offset * a->size[i] + index[i];
    return offset;
}

long double array_broadcast(const array *a, const int64_t *index, int ndim)
{
    int64_t offset = 0;
    for (int i = 0; i < a->ndim; i++)
        offset = offset * a->size[i] + (a->size[i] == 1 ? 0 : index[ndim - a->ndim + i]);
    return a->v[offset];
}

array array_of(const gd_tensor *t)
{
    array a = array_new(gd_ndim(t), gd_shape(t));
    size_t item = gd_dtype_size(gd_tensor_dtype(t)), bytes = (size_t)a.numel * item;
    char *data = malloc(bytes + 1);
    if (!data) abort();
    assert_int_equal(gd_read(t, data, bytes), GD_OK);
    for (int64_t i = 0; i < a.numel; i++) a.v[i] = decode_item(gd_tensor_dtype(t), data + (size_t)i * item);
    free(data);
    return a;
}
