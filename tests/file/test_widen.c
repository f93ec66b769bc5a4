/* Files of other programs: element types that gradus widens, one tensor out of many. */
#include "file_context.h"
#include "gradus/file.h"
#include "gradus/tensor.h"

#include <fcntl.h>
#include <math.h>

/* Writes a safetensors file of one row after the other: header text and elements. */
static void write_file(const char *path, const char *header, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint64_t length = strlen(header);
    assert_int_equal(fwrite(&length, 1, 8, f), 8);
    assert_int_equal(fwrite(header, 1, length, f), length);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

typedef struct sample {
    const char *dtype;
    unsigned bytes; /* of an element */
    gd_dtype wide;
    int count;
    uint64_t bits[8];
    double value[8]; /* by the OCP and ONNX tables of eight-bit floats */
} sample;

static const sample samples[] = {
    {"I8", 1, GD_I32, 5, {0, 1, 0x7F, 0x80, 0xFF}, {0, 1, 127, -128, -1}},
    {"I16", 2, GD_I32, 5, {0, 1, 0x7FFF, 0x8000, 0xFFFF}, {0, 1, 32767, -32768, -1}},
    {"U16", 2, GD_I32, 5, {0, 1, 0x7FFF, 0x8000, 0xFFFF}, {0, 1, 32767, 32768, 65535}},
    {"U32", 4, GD_I64, 4, {0, 1, 0x80000000, 0xFFFFFFFF}, {0, 1, 2147483648.0, 4294967295.0}},
    {"U64", 8, GD_I64, 4, {0, 1, 0x100000000, 0x4000000000000000}, {0, 1, 4294967296.0, 0x1p62}},
    {"F8_E4M3",
     1,
     GD_F32,
     8,
     {0x38, 0xB8, 0x7E, 0x08, 0x01, 0x7F, 0xFF, 0x80},
     {1, -1, 448, 0x1p-6, 0x1p-9, NAN, NAN, -0.0}},
    {"F8_E5M2",
     1,
     GD_F32,
     8,
     {0x3C, 0xBC, 0x7B, 0x04, 0x01, 0x7D, 0x7C, 0xFC},
     {1, -1, 57344, 0x1p-14, 0x1p-16, NAN, INFINITY, -INFINITY}},
    {"F8_E8M0", 1, GD_F32, 5, {0x7F, 0x80, 0x00, 0xFE, 0xFF}, {1, 2, 0x1p-127, 0x1p127, NAN}},
    {"F8_E4M3FNUZ", 1, GD_F32, 6, {0x40, 0xC0, 0x7F, 0x01, 0x80, 0xFF}, {1, -1, 240, 0x1p-10, NAN, -240}},
    {"F8_E5M2FNUZ", 1, GD_F32, 6, {0x40, 0xC0, 0x7F, 0x01, 0x80, 0xFF}, {1, -1, 57344, 0x1p-17, NAN, -57344}},
};

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void other_element_types_load_as_wider_ones(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof samples / sizeof *samples; k++) {
        const sample *s = &samples[k];
        char header[256], data[64];
        for (unsigned i = 0; i < 8; i++) memcpy(data + i * s->bytes, &s->bits[i], s->bytes);
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%u]}}",
                 s->dtype, 8 * s->bytes);
        const char *path = in_folder("wide.safetensors");
        write_file(path, header, data, 8 * s->bytes);
        gd_archive *archive = gd_archive_load(ctx, path);
        if (!archive) fail_msg("%s: %s", s->dtype, gd_error_text(ctx));
        double got[8];
        gd_tensor *t = gd_archive_find(archive, "t");
        assert_int_equal(gd_tensor_dtype(t), s->wide);
        assert_int_equal(gd_size(t, 0), 2);
        assert_int_equal(gd_read_f64(t, got, 8), GD_OK);
        for (int i = 0; i < s->count; i++)
            if (!same(got[i], s->value[i]))
                fail_msg("%s 0x%llx: %g, want %g", s->dtype, (unsigned long long)s->bits[i], got[i],
                         s->value[i]);
        gd_archive_free(archive);
    }
}

static void a_number_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    uint64_t big[3] = {1, 2, (uint64_t)1 << 63};
    const char *path = in_folder("big.safetensors");
    write_file(path, "{\"t\":{\"dtype\":\"U64\",\"shape\":[3],\"data_offsets\":[0,24]}}", big, sizeof big);
    assert_null(gd_archive_load(ctx, path));
    expect_error(ctx, GD_VALUE, "tensor 't': element 2 of U64 does not fit i64");
    assert_null(gd_archive_load_tensor(ctx, path, "t"));
    expect_error(ctx, GD_VALUE, "does not fit i64");
}

/* ---- one tensor ---- */

static int64_t bytes_read;

static int64_t counting_read(void *user, int fd, void *data, size_t size)
{
    (void)user;
    int64_t got = gd__posix_files.read(NULL, fd, data, size);
    if (got > 0) bytes_read += got;
    return got;
}

#define LARGE "1073741824"

/* A gigabyte of one tensor, complex numbers of another, then the three numbers that are wanted. */
static const char *make_large(void)
{
    const char *path = in_folder("large.safetensors");
    static const float wanted[3] = {1.5f, -2, 3};
    const char *header =
        "{\"large\":{\"dtype\":\"U8\",\"shape\":[" LARGE "],\"data_offsets\":[0," LARGE "]},"
        "\"odd\":{\"dtype\":\"C64\",\"shape\":[2],\"data_offsets\":[" LARGE ",1073741840]},"
        "\"few\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[1073741840,1073741852]}}";
    write_file(path, header, "", 0);
    off_t data = 8 + (off_t)strlen(header);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, wanted, sizeof wanted, data + 1073741840), sizeof wanted);
    close(fd);
    return path;
}

static void one_tensor_is_read_without_the_others(void **state)
{
    (void)state;
    const char *path = make_large();
    gd_file_ops files = gd__posix_files;
    files.read = counting_read;
    gd_ctx *own = make_ctx(&files, NULL);
    bytes_read = 0;
    gd_tensor *t = gd_archive_load_tensor(own, path, "few");
    if (!t) fail_msg("%s", gd_error_text(own));
    double got[3];
    assert_int_equal(gd_read_f64(t, got, 3), GD_OK);
    assert_true(got[0] == 1.5 && got[1] == -2 && got[2] == 3);
    assert_true(bytes_read < 10000);
    gd_release(t);
    assert_null(gd_archive_load_tensor(own, path, "odd"));
    expect_error(own, GD_DTYPE, "tensor 'odd' has dtype C64, which gradus does not have");
    assert_null(gd_archive_load_tensor(own, path, "none"));
    expect_error(own, GD_ARGUMENT, "no tensor 'none'");
    assert_null(gd_archive_load_tensor(own, path, NULL));
    expect_error(own, GD_ARGUMENT, "3 tensors, and no name given");
    assert_true(bytes_read < 10000);
    gd_ctx_free(own);
}

/* Where the operations cannot skip, what lies in between is read: the same tensor. */
static void operations_without_skip_read_what_they_pass_over(void **state)
{
    (void)state;
    static const int32_t data[4] = {1, 2, 3, 4};
    const char *path = in_folder("two.safetensors");
    write_file(path,
               "{\"a\":{\"dtype\":\"I32\",\"shape\":[3],\"data_offsets\":[0,12]},"
               "\"b\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
               data, sizeof data);
    gd_file_ops files = gd__posix_files;
    files.skip = NULL;
    gd_ctx *own = make_ctx(&files, NULL);
    gd_tensor *t = gd_archive_load_tensor(own, path, "b");
    assert_non_null(t);
    assert_true(gd_item(t) == 4);
    gd_release(t);
    gd_ctx_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_element_types_load_as_wider_ones),
        cmocka_unit_test(a_number_that_does_not_fit_is_refused),
        cmocka_unit_test(one_tensor_is_read_without_the_others),
        cmocka_unit_test(operations_without_skip_read_what_they_pass_over),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
