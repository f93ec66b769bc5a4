/* npy files: the reader and writer in memory, then with tensors.
 *
 * fixtures/NAME.npy were written by NumPy 2.4.6 (numpy.lib.format.write_array): le_ and be_ hold
 * arange(6).reshape(2, 3) - 2 (unsigned ones without the - 2) in that byte order and dtype, bool holds the
 * same > 0, fortran and fortran_be hold arange(24).reshape(2, 3, 4) in Fortran order.  corpus/npy is what
 * fuzz_npy.c found, minimised. Checked once the other way round: numpy.load reads what gd_npy_save writes,
 * every dtype and shape used below, and gives equal arrays of equal dtype. */
#include "file_context.h"
#include "gradus/file.h"
#include "file/from_memory.h"
#include "support/corpus.h"

#include <math.h>

/* ---- headers in memory ---- */

static unsigned char file[1024];

/* A file of a version with this header and zeros as elements. */
static size_t build(int version, const char *header, size_t data)
{
    size_t length = strlen(header), at = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (unsigned char)version;
    file[7] = 0;
    for (size_t i = 8; i < at; i++) file[i] = (unsigned char)(length >> 8 * (i - 8));
    memcpy(file + at, header, length);
    memset(file + at + length, 0, data);
    return at + length + data;
}

#define HEADER(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"

static const struct {
    const char *header;
    size_t data;
    gd_dtype dtype;
    int ndim;
    int64_t last; /* size of the last axis */
} wellformed[] = {
    {HEADER("'<f4'", "False", "(2, 3)"), 24, GD_F32, 2, 3},
    {HEADER("'<f8'", "True", "(2, 3)") "   \n", 48, GD_F64, 2, 3},
    {HEADER("'f4'", "False", "(1,)"), 4, GD_F32, 1, 1},
    {HEADER("'=f4'", "False", "(1 ,)"), 4, GD_F32, 1, 1},
    {HEADER("'|u1'", "False", "(3L, 2L)"), 6, GD_U8, 2, 2},
    {HEADER("'|i1'", "False", "(3,)"), 3, GD_I32, 1, 3},
    {HEADER("'>u4'", "False", "(2,2,)"), 16, GD_I64, 2, 2},
    {HEADER("'<f2'", "False", "(0, 9)"), 0, GD_F16, 2, 9},
    {HEADER("'|b1'", "False", "(1,1,1,1,1,1,1,2)"), 2, GD_BOOL, 8, 2},
    {"{\"shape\":(4,),\"descr\":\"<i4\",\"fortran_order\":False}", 16, GD_I32, 1, 4},
};

static void headers_that_numpy_writes_are_read_in_every_version(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wellformed / sizeof *wellformed; i++) {
        for (int version = 1; version <= 3; version++) {
            gd_npy npy;
            assert_int_equal(
                parse_npy(ctx, file, build(version, wellformed[i].header, wellformed[i].data), &npy), GD_OK);
            assert_int_equal(npy.dtype, wellformed[i].dtype);
            assert_int_equal(npy.ndim, wellformed[i].ndim);
            assert_int_equal(npy.shape[npy.ndim - 1], wellformed[i].last);
            assert_int_equal(npy.data_size, wellformed[i].data);
        }
    }
}

static const struct {
    const char *header;
    size_t data;
    gd_status status;
    const char *text;
} malformed[] = {
    {"", 0, GD_FORMAT, "header, column 1: '{' expected"},
    {"[]", 0, GD_FORMAT, "header, column 1: '{' expected"},
    {"{", 0, GD_FORMAT, "header, column 2: a text expected"},
    {"{}", 0, GD_FORMAT, "needs descr, fortran_order and shape"},
    {"{'descr': '<f4', 'shape': (1,)}", 4, GD_FORMAT, "needs descr, fortran_order and shape"},
    {"{'descr': '<f4', 'descr': '<f4'}", 4, GD_FORMAT, "header: 'descr' twice"},
    {"{'size': 3}", 4, GD_FORMAT, "header: unknown key 'size'"},
    {"{'descr' '<f4'}", 4, GD_FORMAT, "':' expected"},
    {"{'descr': '<f4' 'shape': (1,)}", 4, GD_FORMAT, "',' or '}' expected"},
    {"{'descr: 1}", 4, GD_FORMAT, "column 3: the end of the text expected"},
    {"{'a_key_that_is_much_too_long_to_be_one': 1}", 4, GD_FORMAT, "a short plain text expected"},
    {"{'de\\scr': '<f4'}", 4, GD_FORMAT, "a short plain text expected"},
    {HEADER("'<f4'", "False", "(1,)") "x", 4, GD_FORMAT, "nothing more expected"},
    {HEADER("'<f4'", "0", "(1,)"), 4, GD_FORMAT, "True or False expected"},
    {HEADER("'<f4'", "Fals", "(1,)"), 4, GD_FORMAT, "True or False expected"},
    {HEADER("'<f4'", "False", "[1]"), 4, GD_FORMAT, "'(' expected"},
    {HEADER("'<f4'", "False", "(1)"), 4, GD_FORMAT, "',' in a tuple of one expected"},
    {HEADER("'<f4'", "False", "(,)"), 4, GD_FORMAT, "a size expected"},
    {HEADER("'<f4'", "False", "(-1,)"), 4, GD_FORMAT, "a size expected"},
    {HEADER("'<f4'", "False", "(1.0,)"), 4, GD_FORMAT, "',' or ')' expected"},
    {HEADER("'<f4'", "False", "(1 2)"), 4, GD_FORMAT, "',' or ')' expected"},
    {HEADER("'<f4'", "False", "(9223372036854775808,)"), 4, GD_FORMAT, "a size that fits 63 bits expected"},
    {HEADER("'<f4'", "False", "(9223372036854775807,)"), 4, GD_FORMAT, "the product of the sizes overflows"},
    {HEADER("'|u1'", "False", "(4294967296,4294967296)"), 4, GD_FORMAT, "the product of the sizes overflows"},
    {HEADER("'|i1'", "False", "(4611686018427387904,)"), 4, GD_FORMAT, "the product of the sizes overflows"},
    {HEADER("'<f4'", "False", "(1,1,1,1,1,1,1,1,1)"), 4, GD_SHAPE, "more than 8 axes"},
    {HEADER("'<f4'", "False", "(2,)"), 7, GD_FORMAT, "cut off: 7 bytes of elements, the shape needs 8"},
    {HEADER("'<f4'", "False", "(2,)"), 9, GD_FORMAT, "1 bytes follow the elements"},
    {HEADER("4", "False", "(1,)"), 4, GD_FORMAT, "a text expected"},
    {HEADER("'|O'", "False", "(1,)"), 8, GD_DTYPE, "Python objects cannot be read"},
    {HEADER("'O8'", "False", "(1,)"), 8, GD_DTYPE, "Python objects cannot be read"},
    {HEADER("[('x', '<f4')]", "False", "(1,)"), 4, GD_DTYPE, "records (a structured dtype) cannot be read"},
    {HEADER("'<u8'", "False", "(1,)"), 8, GD_DTYPE, "gradus has no dtype for '<u8'"},
    {HEADER("'<c8'", "False", "(1,)"), 8, GD_DTYPE, "gradus has no dtype for '<c8'"},
    {HEADER("'<f16'", "False", "(1,)"), 16, GD_DTYPE, "gradus has no dtype for '<f16'"},
    {HEADER("'<U2'", "False", "(1,)"), 8, GD_DTYPE, "gradus has no dtype for '<U2'"},
    {HEADER("''", "False", "(1,)"), 8, GD_DTYPE, "gradus has no dtype for ''"},
    {HEADER("'<'", "False", "(1,)"), 8, GD_DTYPE, "gradus has no dtype for '<'"},
    {HEADER("'<f'", "False", "(1,)"), 8, GD_DTYPE, "gradus has no dtype for '<f'"},
    {HEADER("'<f44'", "False", "(1,)"), 8, GD_DTYPE, "gradus has no dtype for '<f44'"},
};

static void malformed_headers_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        gd_npy npy;
        assert_true(parse_npy(ctx, file, build(1, malformed[i].header, malformed[i].data), &npy));
        expect_error(ctx, malformed[i].status, malformed[i].text);
    }
}

static void what_comes_before_the_header_is_checked(void **state)
{
    (void)state;
    gd_npy npy;
    size_t size = build(1, HEADER("'<f4'", "False", "(1,)"), 4);
    for (size_t cut = 0; cut < size; cut++) {
        assert_int_equal(parse_npy(ctx, file, cut, &npy), GD_FORMAT);
        expect_error(ctx, GD_FORMAT, cut < 10 ? "npy: not a NumPy file" : "npy: cut off");
    }
    for (int i = 0; i < 6; i++) {
        file[i] ^= 1;
        assert_int_equal(parse_npy(ctx, file, size, &npy), GD_FORMAT);
        expect_error(ctx, GD_FORMAT, "npy: not a NumPy file");
        file[i] ^= 1;
    }
    size = build(4, "{}", 0);
    assert_int_equal(parse_npy(ctx, file, size, &npy), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "npy version 4.0, known are 1.0, 2.0 and 3.0");
    size = build(2, "{}", 0);
    assert_int_equal(parse_npy(ctx, file, 11, &npy), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "cut off in the header");
    file[11] = 1;
    assert_int_equal(parse_npy(ctx, file, size, &npy), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "a header of 16777218 bytes, at most 1000000 are read");
    file[11] = 0;
    file[10] = 1;
    assert_int_equal(parse_npy(ctx, file, size, &npy), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "cut off in the header");
}

static void the_largest_written_header_fits_and_is_aligned(void **state)
{
    (void)state;
    int64_t shape[GD_MAX_DIMS];
    for (int i = 0; i < GD_MAX_DIMS; i++) shape[i] = INT64_MAX;
    for (int ndim = 0; ndim <= GD_MAX_DIMS; ndim++) {
        char out[GD_NPY_WRITTEN];
        size_t size = gd__npy_print(GD_BOOL, ndim, shape, out);
        assert_true(size <= sizeof out);
        assert_int_equal(size % 64, 0);
        assert_int_equal(out[size - 1], '\n');
    }
}

static void parse_and_unpack(gd_ctx *own, const corpus_file *found)
{
    gd_npy npy;
    gd_status status = parse_npy(own, found->data, found->size, &npy);
    assert_int_equal(status, gd_error(own));
    gd_clear_error(own);
    if (status) return;
    void *out = malloc(npy.count * gd_dtype_size(npy.dtype) + 1);
    gd__npy_unpack(&npy, found->data + npy.data_at, out);
    free(out);
}

static void the_fuzzers_corpus_is_parsed_without_harm(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/file/corpus/npy", 21, parse_and_unpack);
}

/* ---- files of NumPy ---- */

static gd_tensor *load_fixture(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, GD_TEST_DIR "/file/fixtures/%s.npy", name);
    return gd_npy_load(ctx, path);
}

static void expect_values(gd_tensor *t, gd_dtype dtype, int ndim, const int64_t *shape, const double *values)
{
    if (!t) fail_msg("%s", gd_error_text(ctx));
    assert_int_equal(gd_tensor_dtype(t), dtype);
    assert_int_equal(gd_ndim(t), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(gd_size(t, i), shape[i]);
    double got[64];
    assert_int_equal(gd_read_f64(t, got, gd_numel(t)), GD_OK);
    for (int64_t i = 0; i < gd_numel(t); i++) assert_true(got[i] == values[i]);
}

static void every_dtype_and_byte_order_of_numpy_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        gd_dtype dtype;
        double first;
    } files[] = {
        {"le_f2", GD_F16, -2}, {"le_f4", GD_F32, -2}, {"le_f8", GD_F64, -2}, {"le_i1", GD_I32, -2},
        {"le_i2", GD_I32, -2}, {"le_i4", GD_I32, -2}, {"le_i8", GD_I64, -2}, {"le_u1", GD_U8, 0},
        {"le_u2", GD_I32, 0},  {"le_u4", GD_I64, 0},  {"be_f2", GD_F16, -2}, {"be_f4", GD_F32, -2},
        {"be_f8", GD_F64, -2}, {"be_i2", GD_I32, -2}, {"be_i4", GD_I32, -2}, {"be_i8", GD_I64, -2},
        {"be_u2", GD_I32, 0},  {"be_u4", GD_I64, 0},  {"v2", GD_F64, -2},    {"v3", GD_F64, -2},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        double values[6];
        for (int j = 0; j < 6; j++) values[j] = files[i].first + j;
        gd_tensor *t = load_fixture(files[i].name);
        expect_values(t, files[i].dtype, 2, (int64_t[]){2, 3}, values);
        gd_release(t);
    }
    gd_tensor *t = load_fixture("bool");
    expect_values(t, GD_BOOL, 2, (int64_t[]){2, 3}, (double[]){0, 0, 0, 1, 1, 1});
    gd_release(t);
}

static void unsigned_numbers_keep_their_large_values(void **state)
{
    (void)state;
    size_t size = build(1, HEADER("'>u4'", "False", "(2,)"), 8);
    memcpy(file + size - 8, "\xff\xff\xff\xfe\x80\x00\x00\x00", 8);
    put_file(in_folder("large.npy"), file, size);
    gd_tensor *t = gd_npy_load(ctx, in_folder("large.npy"));
    expect_values(t, GD_I64, 1, (int64_t[]){2}, (double[]){4294967294.0, 2147483648.0});
    gd_release(t);
}

static void fortran_order_is_turned_into_rows(void **state)
{
    (void)state;
    double values[24];
    for (int i = 0; i < 24; i++) values[i] = i;
    gd_tensor *t = load_fixture("fortran");
    expect_values(t, GD_F32, 3, (int64_t[]){2, 3, 4}, values);
    gd_release(t);
    t = load_fixture("fortran_be");
    expect_values(t, GD_I32, 3, (int64_t[]){2, 3, 4}, values);
    gd_release(t);
}

static void scalars_vectors_and_empty_arrays_are_read(void **state)
{
    (void)state;
    gd_tensor *t = load_fixture("scalar");
    expect_values(t, GD_F64, 0, NULL, (double[]){2.5});
    gd_release(t);
    t = load_fixture("vector");
    expect_values(t, GD_F64, 1, (int64_t[]){3}, (double[]){0, 1, 2});
    gd_release(t);
    t = load_fixture("empty");
    expect_values(t, GD_F32, 2, (int64_t[]){0, 3}, NULL);
    gd_release(t);
}

static void arrays_that_gradus_cannot_hold_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text;
    } refused[] = {
        {"refused_uint64", "refused_uint64.npy': gradus has no dtype for '<u8'"},
        {"refused_complex", "gradus has no dtype for '<c8'"},
        {"refused_text", "gradus has no dtype for '<U2'"},
        {"refused_bytes", "gradus has no dtype for '|S2'"},
        {"refused_date", "gradus has no dtype for '<M8[D]'"},
        {"refused_longdouble", "gradus has no dtype for '<f16'"},
        {"refused_record", "records (a structured dtype) cannot be read"},
        {"refused_object", "Python objects cannot be read"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_null(load_fixture(refused[i].name));
        expect_error(ctx, GD_DTYPE, refused[i].text);
    }
}

static void any_set_byte_of_a_bool_is_true(void **state)
{
    (void)state;
    size_t size = build(1, HEADER("'|b1'", "False", "(4,)"), 4);
    memcpy(file + size - 4, "\x00\x01\x02\xff", 4);
    put_file(in_folder("bools.npy"), file, size);
    gd_tensor *t = gd_npy_load(ctx, in_folder("bools.npy"));
    assert_non_null(t);
    unsigned char bytes[4];
    assert_int_equal(gd_read(t, bytes, 4), GD_OK);
    assert_memory_equal(bytes, "\x00\x01\x01\x01", 4);
    gd_release(t);
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    size_t size;
    unsigned char *data = get_file(GD_TEST_DIR "/file/fixtures/be_f4.npy", &size);
    for (size_t cut = 0; cut < size; cut++) {
        put_file(in_folder("cut.npy"), data, cut);
        assert_null(gd_npy_load(ctx, in_folder("cut.npy")));
        expect_error(ctx, GD_FORMAT, "cut.npy'");
    }
    free(data);
}

static void a_file_that_is_not_there_or_no_file_is_refused(void **state)
{
    (void)state;
    assert_null(gd_npy_load(ctx, in_folder("missing.npy")));
    expect_error(ctx, GD_IO, "missing.npy': cannot open: No such file or directory");
    assert_null(gd_npy_load(ctx, test_folder));
    expect_error(ctx, GD_IO, "Is a directory");
    assert_null(gd_npy_load(ctx, NULL));
    expect_error(ctx, GD_ARGUMENT, "no path given");
}

/* ---- our own files ---- */

static void expect_same(gd_tensor *a, gd_tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(gd_tensor_dtype(a), gd_tensor_dtype(b));
    assert_int_equal(gd_ndim(a), gd_ndim(b));
    for (int i = 0; i < gd_ndim(a); i++) assert_int_equal(gd_size(a, i), gd_size(b, i));
    size_t bytes = (size_t)gd_numel(a) * gd_dtype_size(gd_tensor_dtype(a));
    char left[1024], right[1024];
    assert_true(bytes <= sizeof left);
    assert_int_equal(gd_read(a, left, bytes), GD_OK);
    assert_int_equal(gd_read(b, right, bytes), GD_OK);
    assert_memory_equal(left, right, bytes);
}

static void every_dtype_and_shape_comes_back_as_it_was(void **state)
{
    (void)state;
    static const struct {
        int ndim;
        int64_t shape[GD_MAX_DIMS];
    } shapes[] = {{0, {0}}, {1, {5}}, {1, {0}}, {2, {2, 3}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 3, 1, 1, 2, 1}}};
    for (int dtype = 0; dtype < GD_DTYPE_COUNT; dtype++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            double values[12];
            for (int j = 0; j < 12; j++) values[j] = dtype == GD_BOOL ? j % 2 : j;
            gd_tensor *t = gd_from_f64(ctx, (gd_dtype)dtype, shapes[i].ndim, shapes[i].shape, values);
            assert_non_null(t);
            gd_status status = gd_npy_save(t, in_folder("own.npy"));
            if (dtype == GD_BF16) {
                assert_int_equal(status, GD_DTYPE);
                expect_error(ctx, GD_DTYPE, "own.npy': NumPy has no bf16; cast to f32 first");
            } else {
                assert_int_equal(status, GD_OK);
                gd_tensor *back = gd_npy_load(ctx, in_folder("own.npy"));
                expect_same(t, back);
                gd_release(back);
            }
            gd_release(t);
        }
    }
}

static void a_view_is_saved_as_it_reads(void **state)
{
    (void)state;
    gd_scope_begin(ctx);
    gd_tensor *t = gd_transpose(gd_reshape(gd_arange(ctx, GD_F32, 0, 6, 1), 2, (int64_t[]){2, 3}), 0, 1);
    assert_int_equal(gd_npy_save(t, in_folder("view.npy")), GD_OK);
    expect_same(t, gd_npy_load(ctx, in_folder("view.npy")));
    gd_scope_end(ctx);
}

static void our_bytes_are_those_of_numpy(void **state)
{
    (void)state;
    gd_tensor *t = load_fixture("le_f4");
    assert_int_equal(gd_npy_save(t, in_folder("same.npy")), GD_OK);
    gd_release(t);
    size_t ours, theirs;
    unsigned char *a = get_file(in_folder("same.npy"), &ours);
    unsigned char *b = get_file(GD_TEST_DIR "/file/fixtures/le_f4.npy", &theirs);
    assert_int_equal(ours, theirs);
    assert_memory_equal(a, b, ours);
    free(a);
    free(b);
}

static void saving_no_tensor_or_to_no_path_is_refused(void **state)
{
    (void)state;
    assert_int_equal(gd_npy_save(NULL, in_folder("x.npy")), GD_ARGUMENT);
    gd_tensor *t = gd_scalar(ctx, GD_F32, 1);
    assert_int_equal(gd_npy_save(t, NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no path given");
    assert_int_equal(gd_npy_save(t, in_folder("nowhere/x.npy")), GD_IO);
    expect_error(ctx, GD_IO, "nowhere/x.npy': cannot open its folder");
    gd_release(t);
}

/* A view is saved and a Fortran file loaded: both take memory of their own. */
static bool use_memory(gd_ctx *small)
{
    gd_tensor *row = gd_from_data(small, GD_F32, 2, (int64_t[]){2, 3}, (float[]){0, 1, 2, 3, 4, 5});
    gd_tensor *turned = gd_transpose(row, 0, 1);
    bool saved = turned && gd_npy_save(turned, in_folder("memory.npy")) == GD_OK;
    gd_release(turned);
    gd_release(row);
    if (!saved) return false;
    gd_tensor *back = gd_npy_load(small, in_folder("memory.npy"));
    gd_tensor *fortran = gd_npy_load(small, GD_TEST_DIR "/file/fixtures/fortran_be.npy");
    bool loaded = back && fortran;
    gd_release(back);
    gd_release(fortran);
    return loaded;
}

static void no_memory_at_any_allocation_is_reported(void **state)
{
    (void)state;
    for (int k = 1, done = 0; !done; k++) {
        assert_true(k < 10000);
        memory m = {0};
        gd_ctx *small = make_ctx(NULL, &m);
        gd_scope_begin(small); /* what scopes themselves need is not for this test */
        gd_scope_end(small);
        m.fail_at = m.requests + k;
        bool worked = use_memory(small);
        if (!worked) expect_error(small, GD_NOMEM, "out of memory");
        done = worked && !m.failed;
        end_context(small, &m);
        assert_int_equal(temporary_files(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_that_numpy_writes_are_read_in_every_version),
        cmocka_unit_test(malformed_headers_are_refused_with_the_reason),
        cmocka_unit_test(what_comes_before_the_header_is_checked),
        cmocka_unit_test(the_largest_written_header_fits_and_is_aligned),
        cmocka_unit_test(the_fuzzers_corpus_is_parsed_without_harm),
        cmocka_unit_test(every_dtype_and_byte_order_of_numpy_is_read),
        cmocka_unit_test(unsigned_numbers_keep_their_large_values),
        cmocka_unit_test(fortran_order_is_turned_into_rows),
        cmocka_unit_test(scalars_vectors_and_empty_arrays_are_read),
        cmocka_unit_test(arrays_that_gradus_cannot_hold_are_refused_by_name),
        cmocka_unit_test(any_set_byte_of_a_bool_is_true),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
        cmocka_unit_test(a_file_that_is_not_there_or_no_file_is_refused),
        cmocka_unit_test(every_dtype_and_shape_comes_back_as_it_was),
        cmocka_unit_test(a_view_is_saved_as_it_reads),
        cmocka_unit_test(our_bytes_are_those_of_numpy),
        cmocka_unit_test(saving_no_tensor_or_to_no_path_is_refused),
        cmocka_unit_test(no_memory_at_any_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("file/npy", tests, start, stop);
}
