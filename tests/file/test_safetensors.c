/* The safetensors reader and writer in memory, without tensors.
 *
 * fixtures/{package,dtypes,nothing}.safetensors were written by the Python package safetensors 0.8.0 (NumPy
 * 2.4.6, ml_dtypes 0.6.0): package with safetensors.numpy.save_file, dtypes with safetensors.serialize of one
 * tensor of each dtype it takes (element bytes 0, 1, 2, ..., shape [8]), nothing with save_file({}).
 * corpus/safetensors is what fuzz_safetensors.c found, minimised. */
#include "file_context.h"
#include "in_memory.h"
#include "file/safetensors.h"
#include "support/corpus.h"

/* ---- a file from its parts ---- */

static unsigned char file[4096];

static size_t build(uint64_t length, const char *header, size_t data)
{
    memcpy(file, &length, 8);
    memcpy(file + 8, header, strlen(header));
    memset(file + 8 + strlen(header), 0, data);
    return 8 + strlen(header) + data;
}

static gd_safetensors *parse(const char *header, size_t data)
{
    return parse_in_memory(ctx, file, build(strlen(header), header, data));
}

/* A header as gradus writes it, sealed. */
static gd_safetensors *parse_own(const char *header, size_t data)
{
    size_t size = build(strlen(header), header, data);
    assert_true(gd__safetensors_seal(file, size - data));
    return parse_in_memory(ctx, file, size);
}

#define SHORT "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

/* ---- what the format allows ---- */

static void a_tensor_has_name_dtype_shape_and_bytes(void **state)
{
    (void)state;
    gd_safetensors *f = parse("{\"a\":{\"shape\":[2,3],\"data_offsets\":[4,10],\"dtype\":\"U8\"},"
                              "\"b\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
                              10);
    assert_non_null(f);
    assert_int_equal(f->count, 2);
    assert_string_equal(f->entry[0].name, "a");
    assert_int_equal(f->entry[0].dtype, GD_U8);
    assert_int_equal(f->entry[0].ndim, 2);
    assert_int_equal(f->entry[0].shape[1], 3);
    assert_int_equal(f->entry[0].size, 6);
    assert_int_equal(f->entry[1].ndim, 0);
    assert_int_equal(f->entry[1].dtype, GD_F32);
    assert_ptr_equal((const char *)f->entry[0].data, (const char *)f->entry[1].data + 4);
    assert_int_equal(f->by_offset[0], 1);
    assert_int_equal(f->by_offset[1], 0);
    assert_false(f->own);
    gd__safetensors_free(f);
}

static void headers_may_be_empty_padded_and_hold_metadata(void **state)
{
    (void)state;
    gd_safetensors *f = parse("{}", 0);
    assert_non_null(f);
    assert_int_equal(f->count, 0);
    gd__safetensors_free(f);
    f = parse("{\"__metadata__\":{\"k\":\"v\",\"empty\":\"\"}," SHORT "}      ", 8);
    assert_non_null(f);
    assert_int_equal(f->meta_count, 2);
    assert_string_equal(f->meta[0].key, "k");
    assert_string_equal(f->meta[0].value, "v");
    assert_string_equal(f->meta[1].value, "");
    gd__safetensors_free(f);
}

static void empty_tensors_may_lie_anywhere_between_others(void **state)
{
    (void)state;
    gd_safetensors *f = parse("{\"z\":{\"dtype\":\"F32\",\"shape\":[0,9],\"data_offsets\":[8,8]}," SHORT ","
                              "\"y\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}",
                              8);
    assert_non_null(f);
    gd__safetensors_free(f);
}

static void every_dtype_of_the_format_is_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        unsigned bits;
        gd_dtype dtype;
    } all[] = {
        {"BOOL", 8, GD_BOOL},
        {"U8", 8, GD_U8},
        {"I8", 8, GD_I32},
        {"I16", 16, GD_I32},
        {"U16", 16, GD_I32},
        {"F16", 16, GD_F16},
        {"BF16", 16, GD_BF16},
        {"I32", 32, GD_I32},
        {"U32", 32, GD_I64},
        {"F32", 32, GD_F32},
        {"F64", 64, GD_F64},
        {"I64", 64, GD_I64},
        {"U64", 64, GD_I64},
        {"C64", 64, GD_DTYPE_COUNT},
        {"F8_E4M3", 8, GD_F32},
        {"F8_E5M2", 8, GD_F32},
        {"F8_E8M0", 8, GD_F32},
        {"F8_E4M3FNUZ", 8, GD_F32},
        {"F8_E5M2FNUZ", 8, GD_F32},
        {"F6_E2M3", 6, GD_DTYPE_COUNT},
        {"F6_E3M2", 6, GD_DTYPE_COUNT},
        {"F4", 4, GD_DTYPE_COUNT},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char header[200];
        snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%u]}}",
                 all[i].name, all[i].bits / 2);
        gd_safetensors *f = parse(header, all[i].bits / 2);
        assert_non_null(f);
        assert_string_equal(f->entry[0].dtype_name, all[i].name);
        assert_int_equal(f->entry[0].dtype, all[i].dtype);
        gd__safetensors_free(f);
    }
}

/* ---- what it does not ---- */

#define TENSOR(dtype, shape, offsets) \
    "{\"a\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static const struct {
    const char *header;
    size_t data;
    gd_status status;
    const char *text;
} malformed[] = {
    {"", 0, GD_FORMAT, "does not begin with '{'"},
    {"[]", 0, GD_FORMAT, "does not begin with '{'"},
    {" {}", 0, GD_FORMAT, "does not begin with '{'"},
    {"{", 0, GD_FORMAT, "the header is not JSON: line 1, column 1"},
    {"{}x", 0, GD_FORMAT, "the header is not JSON: line 1, column 3: end of file expected near 'x'"},
    {"{" SHORT "," SHORT "}", 8, GD_FORMAT, "duplicate object key near '\"a\"'"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, GD_FORMAT, "duplicate object key"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, GD_FORMAT, "duplicate object key"},
    {"{\"a\\u0000\":1}", 0, GD_FORMAT, "NUL"},
    {"{\"\xff\":1}", 0, GD_FORMAT, "unable to decode byte 0xff"},
    {"{\"__metadata__\":[]}", 0, GD_FORMAT, "__metadata__ is not an object"},
    {"{\"__metadata__\":null}", 0, GD_FORMAT, "__metadata__ is not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, GD_FORMAT, "__metadata__: 'k' is not a text"},
    {"{\"a\":1}", 0, GD_FORMAT, "tensor 'a' has no dtype"},
    {"{\"a\":{}}", 0, GD_FORMAT, "tensor 'a' has no dtype"},
    {TENSOR("7", "[1]", "[0,4]"), 4, GD_FORMAT, "tensor 'a' has no dtype"},
    {TENSOR("\"F33\"", "[1]", "[0,4]"), 4, GD_FORMAT, "tensor 'a' has an unknown dtype 'F33'"},
    {TENSOR("\"f32\"", "[1]", "[0,4]"), 4, GD_FORMAT, "tensor 'a' has an unknown dtype 'f32'"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, GD_FORMAT, "tensor 'a' has no shape"},
    {TENSOR("\"F32\"", "{}", "[0,4]"), 4, GD_FORMAT, "tensor 'a' has no shape"},
    {TENSOR("\"F32\"", "[-1]", "[0,4]"), 4, GD_FORMAT, "size 0 of the shape is not a number of elements"},
    {TENSOR("\"F32\"", "[1,1.0]", "[0,4]"), 4, GD_FORMAT, "size 1 of the shape is not a number of elements"},
    {TENSOR("\"F32\"", "[\"1\"]", "[0,4]"), 4, GD_FORMAT, "size 0 of the shape is not a number of elements"},
    {TENSOR("\"F32\"", "[9223372036854775808]", "[0,4]"), 4, GD_FORMAT, "too big integer"},
    {TENSOR("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, GD_SHAPE,
     "tensor 'a' has 9 axes, at most 8 are possible"},
    {TENSOR("\"F32\"", "[4294967296,4294967297]", "[0,4]"), 4, GD_FORMAT,
     "the product of the sizes overflows"},
    {TENSOR("\"F64\"", "[9223372036854775807]", "[0,4]"), 4, GD_FORMAT, "the product of the sizes overflows"},
    {TENSOR("\"F4\"", "[3]", "[0,1]"), 1, GD_FORMAT, "F4 elements end inside a byte"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, GD_FORMAT,
     "data_offsets are not two increasing numbers"},
    {TENSOR("\"F32\"", "[1]", "[0]"), 4, GD_FORMAT, "data_offsets are not two increasing numbers"},
    {TENSOR("\"F32\"", "[1]", "[0,4,8]"), 4, GD_FORMAT, "data_offsets are not two increasing numbers"},
    {TENSOR("\"F32\"", "[1]", "[-4,0]"), 4, GD_FORMAT, "data_offsets are not two increasing numbers"},
    {TENSOR("\"F32\"", "[1]", "[4,0]"), 4, GD_FORMAT, "data_offsets are not two increasing numbers"},
    {TENSOR("\"F32\"", "[1]", "[0.0,4]"), 4, GD_FORMAT, "data_offsets are not two increasing numbers"},
    {TENSOR("\"F32\"", "[2]", "[0,4]"), 4, GD_FORMAT, "data_offsets span 4 bytes, shape and dtype need 8"},
    {TENSOR("\"F32\"", "[]", "[0,0]"), 0, GD_FORMAT, "data_offsets span 0 bytes, shape and dtype need 4"},
    {TENSOR("\"F32\"", "[1]", "[4,8]"), 8, GD_FORMAT,
     "tensor 'a' begins at byte 4 of the data, the one before ends at 0"},
    {"{" SHORT ",\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, GD_FORMAT,
     "tensor 'b' begins at byte 4 of the data, the one before ends at 8"},
    {"{" SHORT ",\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9,10]}}", 10, GD_FORMAT,
     "tensor 'b' begins at byte 9 of the data, the one before ends at 8"},
    {"{" SHORT ",\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, GD_FORMAT,
     "tensor 'b' begins at byte 0 of the data, the one before ends at 8"},
    {"{" SHORT "}", 7, GD_FORMAT, "cut off: 7 bytes of data, the tensors need 8"},
    {"{" SHORT "}", 9, GD_FORMAT, "1 bytes of data belong to no tensor"},
    {"{}", 1, GD_FORMAT, "1 bytes of data belong to no tensor"},
    {"{\"__metadata__\":{\"gradus.format\":\"1\"}}", 0, GD_FORMAT,
     "its checksum is not where gradus writes it"},
};

static void malformed_headers_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        assert_null(parse(malformed[i].header, malformed[i].data));
        expect_error(ctx, malformed[i].status, malformed[i].text);
    }
}

static void a_length_that_cannot_be_is_refused(void **state)
{
    (void)state;
    assert_null(parse_in_memory(ctx, file, 0));
    expect_error(ctx, GD_FORMAT, "cut off: 0 bytes, not even a header length");
    assert_null(parse_in_memory(ctx, file, 7));
    expect_error(ctx, GD_FORMAT, "cut off: 7 bytes");
    assert_null(parse_in_memory(ctx, file, build(3, "{}", 0)));
    expect_error(ctx, GD_FORMAT, "cut off: a header of 3 bytes in a file of 10");
    assert_null(parse_in_memory(ctx, file, build(100000001, "{}", 0)));
    expect_error(ctx, GD_FORMAT, "a header of 100000001 bytes, at most 100000000 are allowed");
    assert_null(parse_in_memory(ctx, file, build(UINT64_MAX, "{}", 0)));
    expect_error(ctx, GD_FORMAT, "a header of 18446744073709551615 bytes");
    assert_null(parse_in_memory(ctx, file, build(100000000, "{}", 0)));
    expect_error(ctx, GD_FORMAT, "cut off: a header of 100000000 bytes in a file of 10");
}

/* By a program of a big-endian machine that wrote numbers as they lie in memory. */
static void a_big_endian_file_is_refused_as_such(void **state)
{
    (void)state;
    assert_null(parse_in_memory(ctx, file, build(__builtin_bswap64(2), "{}", 0)));
    expect_error(ctx, GD_FORMAT, "written big-endian: safetensors files are little-endian");
}

/* ---- what gradus adds ---- */

#define OWN(notes, tensors) \
    "{\"__metadata__\":{\"gradus.header\":\"0123456789abcdef\",\"gradus.format\":\"1\"" notes "}" tensors "}"
#define NOTE(name, text) ",\"gradus.tensor:" name "\":\"" text "\""
#define SUM              "\\\"sum\\\":\\\"0000000000000000\\\""

static const struct {
    const char *header;
    const char *text;
} damaged[] = {
    {OWN("", "," SHORT), "1 tensors, but notes on 0"},
    {OWN(NOTE("a", "{" SUM "}") NOTE("b", "{" SUM "}"), "," SHORT), "1 tensors, but notes on 2"},
    {OWN(NOTE("b", "{" SUM "}"), "," SHORT), "no note on tensor 'a'"},
    {OWN(NOTE("a", ""), "," SHORT), "the note on a tensor is not JSON"},
    {OWN(NOTE("a", "{}"), "," SHORT), "tensor 'a' has no checksum"},
    {OWN(NOTE("a", "[]"), "," SHORT), "tensor 'a' has no checksum"},
    {OWN(NOTE("a", "{\\\"sum\\\":1}"), "," SHORT), "tensor 'a' has no checksum"},
    {OWN(NOTE("a", "{" SUM ",\\\"axes\\\":[]}"), "," SHORT), "tensor 'a': the axes do not fit the shape"},
    {OWN(NOTE("a", "{" SUM ",\\\"axes\\\":{}}"), "," SHORT), "tensor 'a': the axes do not fit the shape"},
    {OWN(NOTE("a", "{" SUM ",\\\"axes\\\":[3]}"), "," SHORT), "tensor 'a': axis 0 is malformed"},
    {OWN(NOTE("a", "{" SUM ",\\\"axes\\\":[{\\\"name\\\":3}]}"), "," SHORT),
     "tensor 'a': axis 0 is malformed"},
    {OWN(NOTE("a", "{" SUM ",\\\"axes\\\":[{\\\"labels\\\":3}]}"), "," SHORT),
     "tensor 'a': axis 0 is malformed"},
    {OWN(NOTE("a", "{" SUM ",\\\"axes\\\":[{\\\"labels\\\":[\\\"x\\\"]}]}"), "," SHORT),
     "tensor 'a': axis 0 has 1 labels for 2 elements"},
    {OWN(NOTE("a", "{" SUM ",\\\"axes\\\":[{\\\"labels\\\":[\\\"x\\\",1]}]}"), "," SHORT),
     "tensor 'a': axis 0: label 1 is not a text"},
    {"{\"__metadata__\":{\"gradus.header\":\"0123456789abcdef\",\"gradus.format\":\"3\"}," SHORT "}",
     "format version '3', this gradus reads 1 and 2"},
    {"{\"__metadata__\":{\"gradus.header\":\"0123456789abcdef\"}," SHORT "}",
     "format version 'none', this gradus reads 1 and 2"},
};

static void malformed_notes_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        assert_null(parse_own(damaged[i].header, 8));
        expect_error(ctx, GD_FORMAT, damaged[i].text);
    }
}

static void axes_are_read_from_the_note(void **state)
{
    (void)state;
    const char *header = OWN(
        NOTE("a",
             "{" SUM ",\\\"axes\\\":[{\\\"name\\\":\\\"time\\\",\\\"labels\\\":[\\\"x\\\",\\\"y\\\"]}]}"),
        "," SHORT);
    gd_safetensors *f = parse_own(header, 8);
    assert_non_null(f);
    assert_true(f->own);
    assert_int_equal(f->meta_count, 0);
    assert_string_equal(gd__safetensors_axis(&f->entry[0], 0), "time");
    assert_string_equal(gd__safetensors_label(&f->entry[0], 0, 1), "y");
    assert_int_equal(gd__safetensors_check(f, &f->entry[0], f->entry[0].data), GD_FORMAT);
    expect_error(ctx, GD_FORMAT, "tensor 'a' is damaged: its checksum is ");
    gd__safetensors_free(f);
}

/* ---- the checksum ---- */

static void a_checksum_sees_every_change_of_a_byte_and_of_the_length(void **state)
{
    (void)state;
    unsigned char data[100];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i * 7);
    for (size_t size = 0; size <= sizeof data; size++) {
        uint64_t sum = gd__checksum(0, data, size);
        assert_true(sum != gd__checksum(1, data, size));
        if (size) assert_true(sum != gd__checksum(0, data, size - 1));
        for (size_t i = 0; i < size; i++) {
            for (int flip = 1; flip < 256; flip++) {
                data[i] ^= (unsigned char)flip;
                if (gd__checksum(0, data, size) == sum) fail_msg("byte %zu of %zu, change %d", i, size, flip);
                data[i] ^= (unsigned char)flip;
            }
        }
    }
    /* zeros at the end count */
    memset(data, 0, sizeof data);
    for (size_t size = 1; size < sizeof data; size++)
        assert_true(gd__checksum(0, data, size) != gd__checksum(0, data, size + 1));
}

static void checksums_stay_what_files_hold(void **state)
{
    (void)state;
    /* from the same formula written independently in Python integers */
    char text[GD_SAFETENSORS_SUM_SIZE];
    gd__checksum_text(gd__checksum(0, "", 0), text);
    assert_string_equal(text, "0000000000000000");
    gd__checksum_text(gd__checksum(0, "gradus", 6), text);
    assert_string_equal(text, "579e54379bf4cd4f");
    unsigned char bytes[77];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)i;
    gd__checksum_text(gd__checksum(5, bytes, sizeof bytes), text);
    assert_string_equal(text, "a0309ae22627f7bf");
}

/* 80000 bytes: 5, 3 and 2 chunks of elements of 1, 2 and 4 bytes; sums from the formula in Python integers. */
static void a_tensors_checksum_is_one_of_its_chunks_checksums(void **state)
{
    (void)state;
    static const struct {
        size_t item;
        const char *sum;
    } cases[] = {{1, "749646665576f6de"}, {2, "eaa652fd65ca27d9"}, {4, "ffb0cfa2f41672f0"}};
    static unsigned char data[80000];
    char text[GD_SAFETENSORS_SUM_SIZE];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(i % 251);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        size_t item = cases[c].item, step = item * GD_CHECKSUM_CHUNK;
        gd__checksum_text(gd__tensor_sum(data, sizeof data, item), text);
        assert_string_equal(text, cases[c].sum);
        /* what is in which chunk counts */
        for (size_t at = 0; at < sizeof data; at += step) {
            data[at] ^= 1;
            gd__checksum_text(gd__tensor_sum(data, sizeof data, item), text);
            assert_string_not_equal(text, cases[c].sum);
            data[at] ^= 1;
        }
        size_t rest = sizeof data - step < step ? sizeof data - step : step;
        uint64_t first = gd__checksum(0, data, step), second = gd__checksum(0, data + step, rest);
        assert_true(gd__checksum(gd__checksum(0, &first, 8), &second, 8) !=
                    gd__checksum(gd__checksum(0, &second, 8), &first, 8));
        assert_true(gd__tensor_sum(data, step + rest, item) ==
                    gd__checksum(gd__checksum(0, &first, 8), &second, 8));
    }
    assert_true(gd__tensor_sum(data, 0, 4) == 0);
}

static void utf8_is_told_from_other_bytes(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "a",
                                       "\xc3\xb6l",
                                       "\xe2\x9c\x93",
                                       "\xf0\x9f\x98\x80",
                                       "\xed\x9f\xbf",
                                       "\xf4\x8f\xbf\xbf",
                                       "\xef\xbf\xbf"};
    static const char *const wrong[] = {"\x80",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xc3",
                                        "\xc3z",
                                        "\xe0\x9f\xbf",
                                        "\xed\xa0\x80",
                                        "\xe2\x9c",
                                        "\xf0\x8f\xbf\xbf",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xff",
                                        "\xf0\x9f\x98"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) assert_true(gd__is_utf8(good[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_false(gd__is_utf8(wrong[i]));
}

/* ---- writing ---- */

static const gd_safetensors_item items[] = {
    {.name = "small", .dtype = GD_BOOL, .ndim = 1, .shape = (int64_t[]){3}, .sum = 1},
    {.name = "\xc3\xb6l \"\\\n",
     .dtype = GD_F64,
     .ndim = 2,
     .shape = (int64_t[]){1, 2},
     .sum = 0xffffffffffffffff},
    {.name = "half", .dtype = GD_BF16, .ndim = 0, .sum = 3},
    {.name = "", .dtype = GD_I64, .ndim = 1, .shape = (int64_t[]){0}, .sum = 4},
};
#define ITEMS (sizeof items / sizeof *items)

static void written_headers_are_aligned_and_read_back(void **state)
{
    (void)state;
    const gd_safetensors_meta meta[] = {{"key", "text"}, {"other", ""}};
    size_t order[ITEMS], size;
    char *header;
    assert_int_equal(gd__safetensors_write(ctx, items, ITEMS, meta, 2, order, &header, &size), GD_OK);
    assert_int_equal(size % 8, 0);
    gd_safetensors *f = gd__safetensors_header(ctx, "test", header, size - 8, size + 16 + 2 + 3);
    assert_non_null(f);
    assert_true(f->own);
    for (size_t i = 0; i < ITEMS; i++) {
        char sum[GD_SAFETENSORS_SUM_SIZE];
        gd__checksum_text(items[i].sum, sum);
        assert_string_equal(f->entry[i].name, items[i].name);
        assert_int_equal(f->entry[i].dtype, items[i].dtype);
        assert_int_equal(f->entry[i].ndim, items[i].ndim);
        for (int axis = 0; axis < items[i].ndim; axis++)
            assert_int_equal(f->entry[i].shape[axis], items[i].shape[axis]);
        assert_string_equal(f->entry[i].sum, sum);
        if (f->entry[i].size) assert_int_equal(f->entry[i].offset % gd_dtype_size(items[i].dtype), 0);
    }
    assert_int_equal(f->meta_count, 2);
    assert_string_equal(f->meta[0].key, "key");
    assert_string_equal(f->meta[0].value, "text");
    gd__safetensors_free(f);
    gd__free(ctx, header, size);
}

static void a_header_beyond_the_limit_is_not_written(void **state)
{
    (void)state;
    size_t length = 100000000, size;
    char *text = malloc(length + 1), *header;
    memset(text, 'x', length);
    text[length] = 0;
    const gd_safetensors_meta meta[] = {{"key", text}};
    assert_int_equal(gd__safetensors_write(ctx, NULL, 0, meta, 1, NULL, &header, &size), GD_VALUE);
    expect_error(ctx, GD_VALUE, "at most 100000000 are allowed");
    free(text);
}

static void no_memory_at_any_allocation_is_reported(void **state)
{
    (void)state;
    for (int k = 1, done = 0; !done; k++) {
        memory m = {0};
        gd_ctx *small = make_ctx(NULL, &m);
        m.fail_at = m.requests + k;
        size_t order[ITEMS], size = 0;
        char *header = NULL;
        gd_safetensors *f = NULL;
        if (!gd__safetensors_write(small, items, ITEMS, NULL, 0, order, &header, &size))
            f = gd__safetensors_header(small, "test", header, size - 8, size + 16 + 2 + 3);
        if (!f) expect_error(small, GD_NOMEM, "out of memory");
        done = f && !m.failed;
        gd__free(small, header, size);
        gd__safetensors_free(f);
        end_context(small, &m);
    }
}

/* ---- files of others, and the fuzzer's ---- */

static unsigned char *get_fixture(const char *name, size_t *size)
{
    char path[512];
    snprintf(path, sizeof path, GD_TEST_DIR "/file/fixtures/%s", name);
    return get_file(path, size);
}

static void files_of_the_python_package_are_read(void **state)
{
    (void)state;
    size_t size;
    unsigned char *data = get_fixture("nothing.safetensors", &size);
    gd_safetensors *f = parse_in_memory(ctx, data, size);
    assert_non_null(f);
    assert_int_equal(f->count, 0);
    gd__safetensors_free(f);
    free(data);
    data = get_fixture("dtypes.safetensors", &size);
    f = parse_in_memory(ctx, data, size);
    assert_non_null(f);
    assert_int_equal(f->count, 20);
    for (size_t i = 0; i < f->count; i++) {
        const unsigned char *bytes = f->entry[i].data;
        for (size_t j = 0; j < f->entry[i].size; j++) assert_int_equal(bytes[j], j);
    }
    gd__safetensors_free(f);
    free(data);
}

/* As it is and with a right checksum. */
static void parse_twice(gd_ctx *own, const corpus_file *found)
{
    for (int sealed = 0; sealed < 2; sealed++) {
        gd_safetensors *f = parse_in_memory(own, found->data, found->size);
        assert_true((f == NULL) == (gd_error(own) != GD_OK));
        for (size_t i = 0; f && i < f->count; i++)
            if (gd__safetensors_check(f, &f->entry[i], f->entry[i].data)) assert_true(f->own);
        gd__safetensors_free(f);
        gd_clear_error(own);
        uint64_t length = 0;
        if (found->size >= 8) memcpy(&length, found->data, 8);
        if (found->size >= 8 && length <= found->size - 8)
            gd__safetensors_seal(found->data, 8 + (size_t)length);
    }
}

static void the_fuzzers_corpus_is_parsed_without_harm(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/file/corpus/safetensors", 21, parse_twice);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_has_name_dtype_shape_and_bytes),
        cmocka_unit_test(headers_may_be_empty_padded_and_hold_metadata),
        cmocka_unit_test(empty_tensors_may_lie_anywhere_between_others),
        cmocka_unit_test(every_dtype_of_the_format_is_recognised),
        cmocka_unit_test(malformed_headers_are_refused_with_the_reason),
        cmocka_unit_test(a_length_that_cannot_be_is_refused),
        cmocka_unit_test(a_big_endian_file_is_refused_as_such),
        cmocka_unit_test(malformed_notes_are_refused_with_the_reason),
        cmocka_unit_test(axes_are_read_from_the_note),
        cmocka_unit_test(a_checksum_sees_every_change_of_a_byte_and_of_the_length),
        cmocka_unit_test(checksums_stay_what_files_hold),
        cmocka_unit_test(a_tensors_checksum_is_one_of_its_chunks_checksums),
        cmocka_unit_test(utf8_is_told_from_other_bytes),
        cmocka_unit_test(written_headers_are_aligned_and_read_back),
        cmocka_unit_test(a_header_beyond_the_limit_is_not_written),
        cmocka_unit_test(no_memory_at_any_allocation_is_reported),
        cmocka_unit_test(files_of_the_python_package_are_read),
        cmocka_unit_test(the_fuzzers_corpus_is_parsed_without_harm),
    };
    return cmocka_run_group_tests_name("file/safetensors", tests, start, stop);
}
