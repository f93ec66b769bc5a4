/* Archives of tensors, in safetensors files.
 *
 * fixtures/package.safetensors was written by the Python package safetensors 0.8.0, see test_safetensors.c
 * for how. Checked once the other way round: safetensors.numpy.load_file reads the file that
 * every_dtype_and_shape_comes_back_as_it_was writes and gives the same names, dtypes, shapes and elements. */
#define _GNU_SOURCE /* memmem */
#include "file_context.h"
#include "in_memory.h"
#include "file/archive.h"
#include "file/safetensors.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* ---- the collection ---- */

static void tensors_stand_in_the_order_they_were_put(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "t%d", i * 37 % 100);
        gd_tensor *t = gd_scalar(ctx, GD_F64, i);
        assert_int_equal(gd_archive_put(a, name, t), GD_OK);
        gd_release(t);
    }
    assert_int_equal(gd_archive_count(a), 100);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "t%d", i * 37 % 100);
        assert_string_equal(gd_archive_name(a, i), name);
        assert_true(gd_item(gd_archive_get(a, i)) == i);
        assert_ptr_equal(gd_archive_find(a, name), gd_archive_get(a, i));
    }
    assert_null(gd_archive_find(a, "t100"));
    assert_null(gd_archive_find(a, NULL));
    assert_null(gd_archive_get(a, -1));
    assert_null(gd_archive_name(a, 100));
    assert_int_equal(gd_error(ctx), GD_OK);
    gd_archive_free(a);
    gd_archive_free(NULL);
}

static void an_archive_holds_a_reference_not_a_copy(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_zeros(ctx, GD_F32, 1, (int64_t[]){3});
    assert_int_equal(gd_archive_put(a, "t", t), GD_OK);
    assert_int_equal(gd_fill(t, 7), GD_OK);
    gd_scope_end(ctx);
    double values[3];
    assert_int_equal(gd_read_f64(gd_archive_find(a, "t"), values, 3), GD_OK);
    assert_true(values[0] == 7 && values[2] == 7);
    gd_archive_free(a);
}

static void names_that_cannot_be_are_refused(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    gd_tensor *t = gd_scalar(ctx, GD_F64, 1);
    assert_int_equal(gd_archive_put(a, "x", t), GD_OK);
    assert_int_equal(gd_archive_put(a, "x", t), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "archive_put: there is a tensor 'x' already");
    assert_int_equal(gd_archive_put(a, "__metadata__", t), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "the format keeps the name '__metadata__' for itself");
    assert_int_equal(gd_archive_put(a, "\xff", t), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "is not UTF-8");
    assert_int_equal(gd_archive_put(a, NULL, t), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no name given");
    assert_int_equal(gd_archive_put(a, "y", NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no tensor given");
    assert_int_equal(gd_archive_put(NULL, "y", t), GD_ARGUMENT);
    assert_int_equal(gd_archive_count(a), 1);
    gd_release(t);
    gd_archive_free(a);
}

static void texts_are_set_replaced_and_removed(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    char key[16];
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(gd_archive_set_meta(a, key, "old"), GD_OK);
    }
    assert_int_equal(gd_archive_set_meta(a, "k3", "new"), GD_OK);
    assert_int_equal(gd_archive_set_meta(a, "k5", NULL), GD_OK);
    assert_int_equal(gd_archive_set_meta(a, "not there", NULL), GD_OK);
    assert_int_equal(gd_archive_meta_count(a), 19);
    assert_string_equal(gd_archive_get_meta(a, "k3"), "new");
    assert_null(gd_archive_get_meta(a, "k5"));
    assert_string_equal(gd_archive_meta_key(a, 5), "k6");
    assert_string_equal(gd_archive_meta_text(a, 5), "old");
    assert_null(gd_archive_meta_key(a, 19));
    assert_null(gd_archive_meta_text(a, -1));
    assert_int_equal(gd_archive_set_meta(a, "gradus.mine", "x"), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "begins with 'gradus.', which is taken");
    assert_int_equal(gd_archive_set_meta(a, "k", "\xc3"), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "not UTF-8");
    assert_int_equal(gd_archive_set_meta(a, NULL, "x"), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no key given");
    gd_archive_free(a);
}

/* ---- when it is asked for ---- */

enum { LONG = 40000 }; /* three chunks of checksums, the last one shorter */

static void put_new(gd_archive *a, const char *name, gd_tensor *t)
{
    assert_int_equal(gd_archive_put(a, name, t), GD_OK);
    gd_release(t);
}

/* A byte, numbers of other sizes behind each other, and a long one; the path is valid for a while. */
static const char *file_with_four(void)
{
    gd_archive *a = gd_archive_new(ctx);
    put_new(a, "byte", gd_full(ctx, GD_U8, 1, (int64_t[]){3}, 9));
    put_new(a, "long", gd_arange(ctx, GD_F32, 0, LONG, 1));
    put_new(a, "half", gd_full(ctx, GD_BF16, 2, (int64_t[]){2, 2}, 1.5));
    put_new(a, "true", gd_full(ctx, GD_BOOL, 1, (int64_t[]){5}, 1));
    assert_int_equal(gd_archive_set_meta(a, "k", "v"), GD_OK);
    const char *path = in_folder("four.safetensors");
    assert_int_equal(gd_archive_save(a, path), GD_OK);
    gd_archive_free(a);
    return path;
}

static void tensors_are_read_when_they_are_asked_for(void **state)
{
    (void)state;
    const char *path = file_with_four();
    gd_archive *all = gd_archive_load(ctx, path), *some = gd__archive_open(ctx, path);
    assert_int_equal(gd_archive_count(some), 4);
    assert_string_equal(gd_archive_get_meta(some, "k"), "v");
    for (int64_t i = 3; i >= 0; i--) { /* also back in the file, and twice */
        gd_archive_unread file;
        assert_string_equal(gd_archive_name(some, i), gd_archive_name(all, i));
        assert_int_equal(gd__archive_unread(some, i, &file), i != 3); /* bytes of a bool are looked at */
        gd_tensor *want = gd_archive_get(all, i), *got = gd_archive_find(some, gd_archive_name(all, i));
        assert_non_null(got);
        assert_int_equal(gd_numel(got), gd_numel(want));
        assert_memory_equal(gd_data(got), gd_data(want),
                            (size_t)gd_numel(want) * gd_dtype_size(gd_tensor_dtype(want)));
        assert_ptr_equal(gd_archive_get(some, i), got);
        assert_false(gd__archive_unread(some, i, &file));
    }
    gd_archive_free(some);
    gd_archive_free(all);
    assert_null(gd__archive_open(ctx, in_folder("nothing")));
    expect_error(ctx, GD_IO, "cannot open");
    assert_null(gd__archive_open(ctx, NULL));
    expect_error(ctx, GD_ARGUMENT, "no path given");
}

/* The last two of three chunks, then the first; the checksums of all tell. */
static gd_status read_in_parts(gd_archive *a, float *numbers)
{
    gd_archive_unread file;
    uint64_t sum[3];
    assert_true(gd__archive_unread(a, 1, &file));
    assert_true(file.dtype == GD_F32 && file.ndim == 1 && file.size[0] == LONG);
    gd_status status = gd__archive_read_part(a, 1, GD_CHECKSUM_CHUNK, LONG - GD_CHECKSUM_CHUNK,
                                             numbers + GD_CHECKSUM_CHUNK, sum + 1);
    if (!status) status = gd__archive_read_part(a, 1, 0, GD_CHECKSUM_CHUNK, numbers, sum);
    return status ? status : gd__archive_check(a, 1, sum, 3);
}

static void parts_of_a_tensor_are_checked_together(void **state)
{
    (void)state;
    const char *path = file_with_four();
    static float numbers[LONG];
    gd_archive *a = gd__archive_open(ctx, path);
    assert_int_equal(read_in_parts(a, numbers), GD_OK);
    for (int i = 0; i < LONG; i++) assert_true(numbers[i] == (float)i);
    gd_archive_free(a);
    size_t size;
    unsigned char *file = get_file(path, &size);
    const float last = LONG - 1;
    unsigned char *place = memmem(file, size, &last, sizeof last);
    *place ^= 1;
    put_file(path, file, size);
    a = gd__archive_open(ctx, path);
    assert_int_equal(read_in_parts(a, numbers), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "four.safetensors': tensor 'long' is damaged");
    assert_non_null(gd_archive_find(a, "half")); /* which is not */
    assert_null(gd_archive_find(a, "long"));
    expect_error(ctx, GD_FORMAT, "four.safetensors': tensor 'long' is damaged");
    gd_archive_free(a);
    free(file);
}

/* ---- there and back ---- */

static void expect_same(const gd_tensor *a, const gd_tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(gd_tensor_dtype(a), gd_tensor_dtype(b));
    assert_int_equal(gd_ndim(a), gd_ndim(b));
    for (int i = 0; i < gd_ndim(a); i++) {
        assert_int_equal(gd_size(a, i), gd_size(b, i));
        const char *left = gd_axis_name(a, i), *right = gd_axis_name(b, i);
        assert_true(left ? right && strcmp(left, right) == 0 : !right);
        for (int64_t j = 0; j < gd_size(a, i); j++) {
            left = gd_axis_label(a, i, j), right = gd_axis_label(b, i, j);
            assert_true(left ? right && strcmp(left, right) == 0 : !right);
        }
    }
    size_t bytes = (size_t)gd_numel(a) * gd_dtype_size(gd_tensor_dtype(a));
    char *left = malloc(bytes + 1), *right = malloc(bytes + 1);
    assert_int_equal(gd_read(a, left, bytes), GD_OK);
    assert_int_equal(gd_read(b, right, bytes), GD_OK);
    assert_memory_equal(left, right, bytes);
    free(left);
    free(right);
}

/* Saves, loads and compares everything; frees the archive. */
static void expect_round_trip(gd_archive *a, const char *path)
{
    if (gd_archive_save(a, path)) fail_msg("%s", gd_error_text(ctx));
    gd_archive *b = gd_archive_load(ctx, path);
    if (!b) fail_msg("%s", gd_error_text(ctx));
    assert_int_equal(gd_archive_count(a), gd_archive_count(b));
    for (int64_t i = 0; i < gd_archive_count(a); i++) {
        assert_string_equal(gd_archive_name(a, i), gd_archive_name(b, i));
        expect_same(gd_archive_get(a, i), gd_archive_get(b, i));
    }
    assert_int_equal(gd_archive_meta_count(a), gd_archive_meta_count(b));
    for (int64_t i = 0; i < gd_archive_meta_count(a); i++) {
        assert_string_equal(gd_archive_meta_key(a, i), gd_archive_meta_key(b, i));
        assert_string_equal(gd_archive_meta_text(a, i), gd_archive_meta_text(b, i));
    }
    gd_archive_free(b);
    gd_archive_free(a);
}

static void put(gd_archive *a, const char *name, gd_tensor *t)
{
    if (gd_archive_put(a, name, t)) fail_msg("%s: %s", name, gd_error_text(ctx));
}

static void every_dtype_and_shape_comes_back_as_it_was(void **state)
{
    (void)state;
    static const struct {
        int ndim;
        int64_t shape[GD_MAX_DIMS];
    } shapes[] = {{0, {0}}, {1, {5}}, {1, {0}}, {2, {2, 3}}, {3, {2, 0, 3}}, {8, {1, 2, 1, 3, 1, 1, 2, 1}}};
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    for (int dtype = GD_DTYPE_COUNT; dtype-- > 0;) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            double values[12];
            for (int j = 0; j < 12; j++) values[j] = dtype == GD_BOOL ? j % 2 : j;
            char name[32];
            snprintf(name, sizeof name, "%s/%zu", gd_dtype_name((gd_dtype)dtype), i);
            put(a, name, gd_from_f64(ctx, (gd_dtype)dtype, shapes[i].ndim, shapes[i].shape, values));
        }
    }
    gd_scope_end(ctx);
    expect_round_trip(a, in_folder("dtypes"));
}

static void every_bit_of_a_number_is_kept(void **state)
{
    (void)state;
    static const uint32_t bits[] = {0x7fc01234, 0xffc00001, 0x7f800000, 0x80000000, 0x00000001, 0x7f800001};
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    put(a, "nan", gd_from_data(ctx, GD_F32, 1, (int64_t[]){6}, bits));
    gd_scope_end(ctx);
    expect_round_trip(a, in_folder("bits"));
}

static void axis_names_and_labels_are_kept(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_rename(gd_ones(ctx, GD_F32, 3, (int64_t[]){2, 3, 1}), "batch, _, feature");
    put(a, "named", t);
    put(a, "labelled", gd_with_labels(t, "1", (const char *[]){"a", "\xc3\xb6l", "quote \" \\ \n"}));
    put(a, "both", gd_with_labels(t, "batch", (const char *[]){"x", ""}));
    put(a, "plain", gd_drop_names(t));
    gd_scope_end(ctx);
    assert_string_equal(gd_axis_label(gd_archive_find(a, "labelled"), 1, 2), "quote \" \\ \n");
    expect_round_trip(a, in_folder("axes"));
}

static void names_and_texts_may_hold_any_character(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    put(a, "", gd_scalar(ctx, GD_F32, 1));
    put(a, "layer/0.weight:\"\\\n\t\x01 \xe2\x9c\x93", gd_scalar(ctx, GD_F64, 2));
    gd_scope_end(ctx);
    assert_int_equal(gd_archive_set_meta(a, "\"\\\x02", "{\"json\": [1, \"\xe2\x9c\x93\"]}"), GD_OK);
    assert_int_equal(gd_archive_set_meta(a, "", ""), GD_OK);
    expect_round_trip(a, in_folder("characters"));
}

static void an_empty_archive_is_a_file_too(void **state)
{
    (void)state;
    expect_round_trip(gd_archive_new(ctx), in_folder("empty"));
}

static void views_are_saved_as_they_read(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_reshape(gd_arange(ctx, GD_F64, 0, 24, 1), 2, (int64_t[]){4, 6});
    put(a, "turned", gd_transpose(t, 0, 1));
    put(a, "part", gd_slice(t, "1", 1, 6, 2));
    put(a, "spread", gd_expand(gd_scalar(ctx, GD_F32, 3), 2, (int64_t[]){2, 2}));
    gd_scope_end(ctx);
    expect_round_trip(a, in_folder("views"));
}

static void loading_inside_a_scope_outlives_it(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    put(a, "t", gd_rename(gd_ones(ctx, GD_F32, 1, (int64_t[]){2}), "k"));
    assert_int_equal(gd_archive_save(a, in_folder("scope")), GD_OK);
    gd_archive_free(a);
    a = gd_archive_load(ctx, in_folder("scope"));
    gd_scope_end(ctx);
    assert_non_null(a);
    assert_string_equal(gd_axis_name(gd_archive_find(a, "t"), 0), "k");
    gd_archive_free(a);
}

/* ---- files of others, and of gradus in earlier times ---- */

static gd_archive *load_fixture(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, GD_TEST_DIR "/file/fixtures/%s.safetensors", name);
    return gd_archive_load(ctx, path);
}

static void expect_values(const gd_archive *a, const char *name, gd_dtype dtype, int ndim,
                          const double *values)
{
    gd_tensor *t = gd_archive_find(a, name);
    assert_non_null(t);
    assert_int_equal(gd_tensor_dtype(t), dtype);
    assert_int_equal(gd_ndim(t), ndim);
    double got[8];
    assert_int_equal(gd_read_f64(t, got, gd_numel(t)), GD_OK);
    for (int64_t i = 0; i < gd_numel(t); i++) assert_true(got[i] == values[i]);
}

static void a_file_of_the_python_package_loads(void **state)
{
    (void)state;
    gd_archive *a = load_fixture("package");
    if (!a) fail_msg("%s", gd_error_text(ctx));
    const double quarters[] = {-0.5, -0.25, 0, 0.25, 0.5, 0.75};
    assert_int_equal(gd_archive_count(a), 10);
    expect_values(a, "f64", GD_F64, 2, quarters);
    expect_values(a, "f32", GD_F32, 2, quarters);
    expect_values(a, "f16", GD_F16, 1, quarters);
    expect_values(a, "bf16", GD_BF16, 1, quarters);
    expect_values(a, "i64", GD_I64, 1, (double[]){-0x1p62, 7});
    expect_values(a, "i32", GD_I32, 2, (double[]){-0x1p30, 7});
    expect_values(a, "u8", GD_U8, 1, (double[]){0, 1, 255});
    expect_values(a, "bool", GD_BOOL, 1, (double[]){1, 0, 1});
    expect_values(a, "scalar", GD_F32, 0, (double[]){2.5});
    expect_values(a, "empty", GD_F32, 2, NULL);
    assert_int_equal(gd_size(gd_archive_find(a, "empty"), 1), 3);
    assert_int_equal(gd_archive_meta_count(a), 2);
    assert_string_equal(gd_archive_get_meta(a, "format"), "np");
    assert_string_equal(gd_archive_get_meta(a, "note"), "gr\xc3\xb6\xc3\x9f"
                                                        "e \"quoted\" \\ \xe2\x9c\x93");
    expect_round_trip(a, in_folder("package"));
}

static void expect_version1(const gd_archive *a)
{
    if (!a) fail_msg("%s", gd_error_text(ctx));
    static unsigned char bytes[20000];
    assert_int_equal(gd_archive_count(a), 3);
    expect_values(a, "w", GD_F64, 2, (double[]){1, -2, 0.5, 3, 1e-9, 7});
    assert_string_equal(gd_axis_name(gd_archive_find(a, "w"), 1), "col");
    assert_int_equal(gd_numel(gd_archive_find(a, "none")), 0);
    assert_int_equal(gd_read(gd_archive_find(a, "long"), bytes, sizeof bytes), GD_OK);
    for (int i = 0; i < 20000; i++) assert_int_equal(bytes[i], i % 251);
    assert_string_equal(gd_archive_get_meta(a, "key"), "text");
}

/* version1.safetensors was written before sums were of chunks.  Sums of both formats are from the formula in Python. */
static void files_of_format_1_load_and_are_checked_and_saved_as_format_2(void **state)
{
    (void)state;
    size_t size, written;
    unsigned char *data = get_file(GD_TEST_DIR "/file/fixtures/version1.safetensors", &size);
    gd_archive *a = load_fixture("version1");
    expect_version1(a);
    const char *path = in_folder("version1");
    assert_int_equal(gd_archive_save(a, path), GD_OK);
    gd_archive_free(a);
    unsigned char *now = get_file(path, &written);
    assert_int_equal(written, size);
    assert_non_null(memmem(data, size, "6478dc82f7386cda", 16));
    assert_null(memmem(now, size, "6478dc82f7386cda", 16));
    assert_non_null(memmem(now, size, "e3a4165284e8329f", 16));
    assert_non_null(memmem(now, size, "\"gradus.format\":\"2\"", 19));
    assert_non_null(a = gd_archive_load(ctx, path));
    expect_version1(a);
    gd_archive_free(a);
    for (int format = 1; format <= 2; format++) {
        unsigned char *file = format == 1 ? data : now;
        file[size - 100] ^= 4; /* in the second chunk of "long" */
        put_file(path, file, size);
        assert_null(gd_archive_load(ctx, path));
        expect_error(ctx, GD_FORMAT, "tensor 'long' is damaged: its checksum is ");
    }
    free(data);
    free(now);
}

static void a_dtype_that_gradus_does_not_have_is_named(void **state)
{
    (void)state;
    assert_null(load_fixture("dtypes"));
    expect_error(ctx, GD_DTYPE,
                 "dtypes.safetensors': tensor 'complex64' has dtype C64, which gradus does not have");
}

/* The same file, written by the Python package: complex numbers and four-bit floats beside it do not matter. */
static void a_tensor_loads_from_a_file_with_others_that_do_not(void **state)
{
    (void)state;
    static const double words[8] = {0x0100, 0x0302, 0x0504, 0x0706, 0x0908, 0x0B0A, 0x0D0C, 0x0F0E};
    double got[8];
    gd_tensor *t = gd_archive_load_tensor(ctx, GD_TEST_DIR "/file/fixtures/dtypes.safetensors", "int16");
    if (!t) fail_msg("%s", gd_error_text(ctx));
    assert_int_equal(gd_read_f64(t, got, 8), GD_OK);
    for (int i = 0; i < 8; i++) assert_true(got[i] == words[i]);
    gd_release(t);
}

static void any_set_byte_of_a_bool_is_true(void **state)
{
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"BOOL\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    unsigned char file[200] = {sizeof header - 1};
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + 8 + sizeof header - 1, "\x00\x01\x02\xff", 4);
    put_file(in_folder("bools"), file, 8 + sizeof header - 1 + 4);
    gd_archive *a = gd_archive_load(ctx, in_folder("bools"));
    assert_non_null(a);
    unsigned char bytes[4];
    assert_int_equal(gd_read(gd_archive_find(a, "a"), bytes, 4), GD_OK);
    assert_memory_equal(bytes, "\x00\x01\x01\x01", 4);
    gd_archive_free(a);
}

static void a_file_that_is_not_there_or_no_file_is_refused(void **state)
{
    (void)state;
    assert_null(gd_archive_load(ctx, in_folder("missing")));
    expect_error(ctx, GD_IO, "missing': cannot open: No such file or directory");
    assert_null(gd_archive_load(ctx, test_folder));
    expect_error(ctx, GD_IO, "Is a directory");
    assert_null(gd_archive_load(ctx, NULL));
    expect_error(ctx, GD_ARGUMENT, "no path given");
    assert_null(gd_archive_load(ctx, GD_TEST_DIR "/file/fixtures/le_f4.npy"));
    expect_error(ctx, GD_FORMAT, "le_f4.npy': a header of ");
}

static void a_label_that_is_not_text_is_not_saved(void **state)
{
    (void)state;
    gd_archive *a = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_with_labels(gd_ones(ctx, GD_F32, 1, (int64_t[]){2}), "0",
                                  (const char *[]){"good", "\xff"});
    assert_non_null(t);
    put(a, "t", t);
    gd_scope_end(ctx);
    assert_int_equal(gd_archive_save(a, in_folder("label")), GD_VALUE);
    expect_error(ctx, GD_VALUE, "save: tensor 't': label 1 of axis 0 is not UTF-8");
    gd_archive_free(a);
}

/* ---- damage ---- */

/* Two tensors, names, labels, texts: everything a file can have. */
static gd_archive *make_small(gd_ctx *c, double value)
{
    gd_archive *a = gd_archive_new(c);
    gd_tensor *plain = gd_full(c, GD_F64, 1, (int64_t[]){3}, value);
    gd_tensor *named = plain ? gd_rename(plain, "k") : NULL;
    gd_tensor *labelled = named ? gd_with_labels(named, "k", (const char *[]){"a", "b", "c"}) : NULL;
    gd_tensor *mask = gd_full(c, GD_BOOL, 1, (int64_t[]){5}, 1);
    char text[32];
    snprintf(text, sizeof text, "%g", value);
    bool done = a && labelled && mask && !gd_archive_put(a, "mask", mask) &&
                !gd_archive_put(a, "weight", labelled) && !gd_archive_set_meta(a, "value", text);
    gd_release(plain);
    gd_release(named);
    gd_release(labelled);
    gd_release(mask);
    if (done) return a;
    gd_archive_free(a);
    return NULL;
}

static gd_status save_small(gd_ctx *c, double value, const char *path)
{
    gd_archive *a = make_small(c, value);
    gd_status status = a ? gd_archive_save(a, path) : GD_NOMEM;
    gd_archive_free(a);
    return status;
}

/* The value of a complete file of save_small; -1 when it does not load, -2 when its parts do not belong
 * together. */
static double load_small(gd_ctx *c, const char *path)
{
    gd_archive *a = gd_archive_load(c, path);
    if (!a) return -1;
    double values[3], value = -2;
    gd_tensor *weight = gd_archive_find(a, "weight");
    const char *text = gd_archive_get_meta(a, "value");
    if (gd_archive_count(a) == 2 && text && weight && !gd_read_f64(weight, values, 3) &&
        values[0] == values[2] && values[0] == strtod(text, NULL) && gd_axis_index(weight, 0, "b") == 1)
        value = values[0];
    gd_archive_free(a);
    return value;
}

static void a_file_cut_at_any_byte_is_refused(void **state)
{
    (void)state;
    assert_int_equal(save_small(ctx, 5, in_folder("whole")), GD_OK);
    size_t size;
    unsigned char *data = get_file(in_folder("whole"), &size);
    for (size_t cut = 0; cut < size; cut++) {
        put_file(in_folder("cut"), data, cut);
        assert_null(gd_archive_load(ctx, in_folder("cut")));
        expect_error(ctx, GD_FORMAT, "cut'");
    }
    data[size] = 0;
    put_file(in_folder("cut"), data, size + 1);
    assert_null(gd_archive_load(ctx, in_folder("cut")));
    expect_error(ctx, GD_FORMAT, "1 bytes of data belong to no tensor");
    free(data);
}

/* Every change of every byte, in memory; the file itself for one change a byte. */
static void a_file_with_any_byte_changed_is_refused(void **state)
{
    (void)state;
    assert_int_equal(save_small(ctx, 5, in_folder("whole")), GD_OK);
    size_t size;
    unsigned char *data = get_file(in_folder("whole"), &size);
    for (size_t i = 0; i < size; i++) {
        unsigned char was = data[i];
        for (int change = 1; change < 256; change++) {
            data[i] = (unsigned char)(was ^ change);
            gd_safetensors *f = parse_in_memory(ctx, data, size);
            gd_status status = f ? GD_OK : GD_FORMAT;
            for (size_t j = 0; f && j < f->count && !status; j++)
                status = gd__safetensors_check(f, &f->entry[j], f->entry[j].data);
            gd__safetensors_free(f);
            if (!status) fail_msg("byte %zu changed by %d is not noticed", i, change);
            expect_error(ctx, GD_FORMAT, "safetensors: ");
        }
        data[i] = (unsigned char)(was ^ (1 << i % 8));
        put_file(in_folder("changed"), data, size);
        assert_null(gd_archive_load(ctx, in_folder("changed")));
        expect_error(ctx, GD_FORMAT, "changed'");
        data[i] = was;
    }
    free(data);
}

static void a_failed_save_leaves_the_old_file(void **state)
{
    (void)state;
    const char *path = in_folder("kept");
    static const int errors[] = {ENOSPC, EIO};
    for (int e = 0; e < 2; e++) {
        for (int k = 1, done = 0; !done; k++) {
            assert_int_equal(save_small(ctx, 1, path), GD_OK);
            faults f = {.at = k, .error = errors[e]};
            gd_file_ops files = faulty_files(&f);
            gd_ctx *faulty = make_ctx(&files, NULL);
            gd_status status = save_small(faulty, 2, path);
            bool renamed = strstr(gd_error_text(faulty), "durable") != NULL;
            if (status) expect_error(faulty, GD_IO, strerror(errors[e]));
            assert_true(load_small(ctx, path) == (status && !renamed ? 1 : 2));
            assert_int_equal(temporary_files(), 0);
            assert_int_equal(f.open, 0);
            done = f.calls < k;
            gd_ctx_free(faulty);
        }
    }
}

static void an_error_at_any_call_of_a_load_is_reported(void **state)
{
    (void)state;
    const char *path = in_folder("read");
    assert_int_equal(save_small(ctx, 1, path), GD_OK);
    for (int k = 1, done = 0; !done; k++) {
        faults f = {.at = k, .error = EIO};
        gd_file_ops files = faulty_files(&f);
        gd_ctx *faulty = make_ctx(&files, NULL);
        double value = load_small(faulty, path);
        if (value < 0) expect_error(faulty, GD_IO, "Input/output error");
        assert_int_equal(f.open, 0);
        assert_int_equal(gd_ctx_live(faulty), 0);
        done = f.calls < k;
        gd_ctx_free(faulty);
    }
}

static void interruptions_and_partial_calls_are_no_errors(void **state)
{
    (void)state;
    const char *path = in_folder("pieces");
    for (int k = 1; k < 40; k++) {
        faults f = {.at = k, .error = k % 2 ? EINTR : 0, .lasting = k % 2 == 0};
        gd_file_ops files = faulty_files(&f);
        gd_ctx *faulty = make_ctx(&files, NULL);
        assert_int_equal(save_small(faulty, k, path), GD_OK);
        f.calls = 0;
        assert_true(load_small(faulty, path) == k);
        gd_ctx_free(faulty);
    }
}

static void no_memory_at_any_allocation_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    const char *path = in_folder("memory");
    for (int k = 1, done = 0; !done; k++) {
        assert_true(k < 10000);
        assert_int_equal(save_small(ctx, 1, path), GD_OK);
        memory m = {0};
        gd_ctx *small = make_ctx(NULL, &m);
        m.fail_at = m.requests + k;
        gd_status status = save_small(small, 2, path);
        double value = status ? -1 : load_small(small, path);
        if (value < 0)
            expect_error(small, GD_NOMEM, "out of memory");
        else
            assert_true(value == 2);
        done = !m.failed;
        end_context(small, &m);
        assert_true(load_small(ctx, path) == (status ? 1 : 2));
        assert_int_equal(temporary_files(), 0);
    }
}

/* ---- death ---- */

/* Saves 1, 2, 1, 2, ... until it is killed. */
static void save_until_killed(const char *path)
{
    gd_ctx *c = make_ctx(NULL, NULL);
    for (int i = 0; c && !save_small(c, 1 + i % 2, path);) i++;
    _exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void a_save_killed_at_any_moment_leaves_a_complete_file(void **state)
{
    (void)state;
    const char *path = in_folder("killed");
    assert_int_equal(save_small(ctx, 1, path), GD_OK);
    double before = now();
    for (int i = 0; i < 10; i++) assert_int_equal(save_small(ctx, 1 + i % 2, path), GD_OK);
    double one = (now() - before) / 10;
    int left_over = 0, seen[3] = {0};
    srand(1);
    for (int i = 0; i < 1000; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_until_killed(path);
        /* the child needs a moment to start; then anywhere within a few saves */
        double wait = 2e-4 + 4 * one * rand() / RAND_MAX;
        struct timespec delay = {.tv_nsec = (long)(wait < 0.02 ? wait * 1e9 : 2e7)};
        nanosleep(&delay, NULL);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        double value = load_small(ctx, path);
        if (value != 1 && value != 2) fail_msg("after kill %d: %g %s", i, value, gd_error_text(ctx));
        seen[(int)value]++;
        left_over += temporary_files();
    }
    print_message(
        "1000 kills: %d times the first content, %d the second; %d hit a save half way; %.2f ms a save\n",
        seen[1], seen[2], left_over, 1e3 * one);
    assert_true(left_over > 0); /* some did hit a save */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_stand_in_the_order_they_were_put),
        cmocka_unit_test(an_archive_holds_a_reference_not_a_copy),
        cmocka_unit_test(names_that_cannot_be_are_refused),
        cmocka_unit_test(texts_are_set_replaced_and_removed),
        cmocka_unit_test(tensors_are_read_when_they_are_asked_for),
        cmocka_unit_test(parts_of_a_tensor_are_checked_together),
        cmocka_unit_test(every_dtype_and_shape_comes_back_as_it_was),
        cmocka_unit_test(every_bit_of_a_number_is_kept),
        cmocka_unit_test(axis_names_and_labels_are_kept),
        cmocka_unit_test(names_and_texts_may_hold_any_character),
        cmocka_unit_test(an_empty_archive_is_a_file_too),
        cmocka_unit_test(views_are_saved_as_they_read),
        cmocka_unit_test(loading_inside_a_scope_outlives_it),
        cmocka_unit_test(a_file_of_the_python_package_loads),
        cmocka_unit_test(a_dtype_that_gradus_does_not_have_is_named),
        cmocka_unit_test(a_tensor_loads_from_a_file_with_others_that_do_not),
        cmocka_unit_test(any_set_byte_of_a_bool_is_true),
        cmocka_unit_test(a_file_that_is_not_there_or_no_file_is_refused),
        cmocka_unit_test(a_label_that_is_not_text_is_not_saved),
        cmocka_unit_test(a_file_cut_at_any_byte_is_refused),
        cmocka_unit_test(a_file_with_any_byte_changed_is_refused),
        cmocka_unit_test(files_of_format_1_load_and_are_checked_and_saved_as_format_2),
        cmocka_unit_test(a_failed_save_leaves_the_old_file),
        cmocka_unit_test(an_error_at_any_call_of_a_load_is_reported),
        cmocka_unit_test(interruptions_and_partial_calls_are_no_errors),
        cmocka_unit_test(no_memory_at_any_allocation_is_reported_and_nothing_leaks),
        cmocka_unit_test(a_save_killed_at_any_moment_leaves_a_complete_file),
    };
    return cmocka_run_group_tests_name("file/archive", tests, start, stop);
}
