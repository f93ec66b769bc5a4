/* Values of the command line, and the IDX files they may come from. */
#include "support/corpus.h"
#include "support/support.h"

#include "base/ctx.h"
#include "base/system.h"
#include "file/idx.h"
#include "table/value.h"
#include "file/input.h"
#include "gradus/file.h"

#include <sys/resource.h>
#include <unistd.h>

static memory counted;
static gd_ctx *ctx;
static char folder[64];

static int start(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/gradus_value_XXXXXX");
    if (!mkdtemp(folder) || chdir(folder)) return -1;
    ctx = context(&counted, 1, NULL);
    gd_scope_begin(ctx);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    gd_scope_end(ctx);
    end_context(ctx, &counted);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static gd_tensor *value(const char *text)
{
    gd_tensor *t = gd__value_parse(ctx, "--param p", text, GD_F64, NULL);
    if (!t) fail_msg("%s: %s", text, gd_error_text(ctx));
    return t;
}

static void refused(const char *text, const char *error)
{
    if (gd__value_parse(ctx, "--param p", text, GD_F64, NULL)) fail_msg("'%s' is accepted", text);
    if (strcmp(gd_error_text(ctx), error) != 0)
        fail_msg("'%s' gives\n  %s, want\n  %s", text, gd_error_text(ctx), error);
    gd_clear_error(ctx);
}

static const char *in_folder(const char *name)
{
    static char path[2][256];
    static int next;
    char *p = path[next++ % 2];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

static const char *put(const char *name, const void *data, size_t size)
{
    const char *path = in_folder(name);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    return path;
}

static gd_tensor *from_file(const char *path, const char *part)
{
    char text[300];
    snprintf(text, sizeof text, "@%s%s", path, part);
    return value(text);
}

static void numbers_and_lists_are_read(void **state)
{
    (void)state;
    assert_values(value("3.5"), 3.5);
    assert_int_equal(gd_ndim(value("-1e-3")), 0);
    assert_values(value("[-1.1, 2.5]"), -1.1, 2.5);
    assert_shape(value("[1,2,3]"), 3);
    assert_values(value(" [ [1, 2] , [3, 4], [5,6] ] "), 1, 2, 3, 4, 5, 6);
    assert_shape(value("[[1,2],[3,4],[5,6]]"), 3, 2);
    assert_shape(value("[[[[[[[[1]]]]]]]]"), 1, 1, 1, 1, 1, 1, 1, 1);
    assert_shape(value("[]"), 0);
    assert_shape(value("[[],[]]"), 2, 0);
    gd_tensor *t = gd__value_parse(ctx, "--param p", "[0.1]", GD_F32, NULL);
    assert_int_equal(gd_tensor_dtype(t), GD_F32);
}

static void arrays_are_made(void **state)
{
    (void)state;
    assert_shape(value("zeros(3,4)"), 3, 4);
    assert_values(value("ones(3)"), 1, 1, 1);
    assert_values(value("-2*ones( 2 )"), -2, -2);
    assert_values(value("eye(2)"), 1, 0, 0, 1);
    assert_shape(value("eye(2,3)"), 2, 3);
    assert_int_equal(gd_ndim(value("zeros()")), 0);
    assert_shape(value("randn(0)"), 0);
    gd_seed(ctx, 5);
    gd_tensor *a = value("randn(3,4)");
    gd_seed(ctx, 5);
    gd_tensor *b = value("2*randn(3,4)");
    for (int64_t i = 0; i < 12; i++) {
        int64_t at[] = {i / 4, i % 4};
        assert_true(2 * gd_at(a, at) == gd_at(b, at));
    }
}

static void mistakes_are_pointed_at(void **state)
{
    (void)state;
    refused("", "--param p: column 1: a value expected, the end found");
    refused(
        "abc",
        "--param p: column 1: a number, a list, @FILE, zeros(..), ones(..), rand(..), randn(..) or eye(..) expected");
    refused(
        "zeroes(3)",
        "--param p: column 1: a number, a list, @FILE, zeros(..), ones(..), rand(..), randn(..) or eye(..) "
        "expected, did you mean 'zeros'?");
    refused("1 2", "--param p: column 3: nothing more expected, '2' found");
    refused("[1,2", "--param p: column 5: ',' or ']' expected");
    refused("[1,]", "--param p: column 4: a number expected, ']' found");
    refused("[1,x]", "--param p: column 4: a number expected, 'x]' found");
    refused("[1,2]]", "--param p: column 6: nothing more expected, ']' found");
    refused("[[1,2],[3]]", "--param p: column 8: a ragged list: 1 parts here, 2 in the list before");
    refused("[[1,2],3]", "--param p: column 8: a ragged list: a list expected here");
    refused("[1,[2]]", "--param p: column 4: a ragged list: a number expected here");
    refused("[[[1]],[]]", "--param p: column 8: a ragged list: an empty list among lists");
    refused("[[[[[[[[[1]]]]]]]]]", "--param p: column 9: more than 8 lists deep");
    refused("zeros", "--param p: column 6: '(' expected");
    refused("zeros(-1)", "--param p: column 7: a size is a whole number from 0");
    refused("zeros(1.5)", "--param p: column 7: a size is a whole number from 0");
    refused("zeros(1e6,1e6)", "--param p: column 1: an array of 1e+12 elements is too large");
    refused("zeros(2", "--param p: column 8: ',' or ')' expected");
    refused("eye()", "--param p: column 1: eye takes 1 to 2 sizes");
    refused(
        "2*3",
        "--param p: column 3: a number, a list, @FILE, zeros(..), ones(..), rand(..), randn(..) or eye(..) expected");
    refused("zeros(1,1,1,1,1,1,1,1,1)", "--param p: column 23: more than 8 sizes");
}

static void files_are_loaded(void **state)
{
    (void)state;
    gd_tensor *m = gd_from_data(ctx, GD_I32, 2, (int64_t[]){2, 2}, (int32_t[]){1, 2, 3, 4});
    assert_int_equal(gd_npy_save(m, in_folder("m.npy")), GD_OK);
    gd_tensor *t = from_file(in_folder("m.npy"), "");
    assert_int_equal(gd_tensor_dtype(t), GD_F64);
    assert_values(t, 1, 2, 3, 4);
    const char *table = put("t.csv", "a,b\n1,2\n3,4\n", 12);
    assert_shape(from_file(table, ""), 2, 2);
    assert_values(from_file(table, ":b"), 2, 4);
    assert_shape(from_file(table, ":b"), 2);
    gd_archive *archive = gd_archive_new(ctx);
    assert_int_equal(gd_archive_put(archive, "weight", m), GD_OK);
    assert_int_equal(gd_archive_save(archive, in_folder("one.safetensors")), GD_OK);
    assert_int_equal(gd_archive_put(archive, "bias", m), GD_OK);
    assert_int_equal(gd_archive_save(archive, in_folder("two.safetensors")), GD_OK);
    gd_archive_free(archive);
    assert_values(from_file(in_folder("one.safetensors"), ""), 1, 2, 3, 4);
    assert_values(from_file(in_folder("two.safetensors"), ":bias"), 1, 2, 3, 4);
    char text[300];
    snprintf(text, sizeof text, "@%s:wieght", in_folder("two.safetensors"));
    assert_null(gd__value_parse(ctx, "--data W", text, GD_F64, NULL));
    assert_non_null(strstr(gd_error_text(ctx), "has no tensor 'wieght', did you mean 'weight'?"));
    gd_clear_error(ctx);
    snprintf(text, sizeof text, "@%s", in_folder("two.safetensors"));
    assert_null(gd__value_parse(ctx, "--data W", text, GD_F64, NULL));
    assert_non_null(strstr(gd_error_text(ctx), "has 2 tensors, choose one with"));
    gd_clear_error(ctx);
}

static void missing_files_and_columns_are_named(void **state)
{
    (void)state;
    char text[300];
    snprintf(text, sizeof text, "@%s", in_folder("missing.npy"));
    assert_null(gd__value_parse(ctx, "--data W", text, GD_F64, NULL));
    assert_int_equal(gd_error(ctx), GD_IO);
    gd_clear_error(ctx);
    snprintf(text, sizeof text, "@%s:c", put("t.csv", "a,b\n1,2\n", 8));
    assert_null(gd__value_parse(ctx, "--data W", text, GD_F64, NULL));
    assert_non_null(strstr(gd_error_text(ctx), "no column 'c', the columns are a, b"));
    gd_clear_error(ctx);
    assert_null(gd__value_parse(ctx, "--data W", "@", GD_F64, NULL));
    assert_true(gd_error(ctx) != GD_OK);
    gd_clear_error(ctx);
}

/* ---- IDX ---- */

/* Those bytes as the file "a" of the folder, which is where the suite runs. */
static gd_tensor *idx_in(gd_ctx *c, const void *bytes, size_t size, size_t limit)
{
    FILE *f = fopen("a", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    c->input_limit = limit;
    gd_tensor *t = gd__idx_load(c, "a", NULL);
    c->input_limit = 0;
    return t;
}

static gd_tensor *idx_of(const void *bytes, size_t size, size_t limit)
{
    return idx_in(ctx, bytes, size, limit);
}

static void idx_elements_become_tensors(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 2, 253, 254, 255};
    gd_tensor *t = idx_of(bytes, sizeof bytes, 1000);
    assert_int_equal(gd_tensor_dtype(t), GD_U8);
    assert_shape(t, 2, 3);
    assert_values(t, 0, 1, 2, 253, 254, 255);
    static const unsigned char i8[] = {0, 0, 9, 1, 0, 0, 0, 3, 128, 0, 127};
    assert_values(idx_of(i8, sizeof i8, 1000), -128, 0, 127);
    static const unsigned char i16[] = {0, 0, 11, 1, 0, 0, 0, 2, 255, 253, 1, 44};
    assert_values(idx_of(i16, sizeof i16, 1000), -3, 300);
    static const unsigned char i32[] = {0, 0, 12, 1, 0, 0, 0, 2, 128, 0, 0, 0, 0, 0, 0, 5};
    assert_values(idx_of(i32, sizeof i32, 1000), -2147483648.0, 5);
    static const unsigned char f32[] = {0, 0, 13, 1, 0, 0, 0, 2, 63, 0, 0, 0, 191, 192, 0, 0};
    assert_values(idx_of(f32, sizeof f32, 1000), 0.5, -1.5);
    static const unsigned char f64[] = {0, 0, 14, 1, 0, 0, 0, 1, 64, 10, 0, 0, 0, 0, 0, 0};
    assert_values(idx_of(f64, sizeof f64, 1000), 3.25);
}

static void malformed_idx_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[16];
        size_t size;
        const char *error;
    } cases[] = {
        {{0}, 0, "a: not an IDX file"},
        {{1, 0, 8, 1}, 4, "a: not an IDX file"},
        {{0, 0, 7, 1, 0, 0, 0, 0}, 8, "a: IDX element type 0x07 is not known"},
        {{0, 0, 8, 9}, 4, "a: 9 axes, at most 8 are possible"},
        {{0, 0, 8, 2, 0, 0, 0, 1}, 8, "a: cut off inside the IDX header"},
        {{0, 0, 8, 1, 0, 0, 0, 2, 1}, 9, "a: 1 bytes of elements, the header wants 2"},
        {{0, 0, 8, 1, 0, 0, 0, 1, 1, 2}, 10, "a: 2 bytes of elements, the header wants 1"},
        {{0, 0, 14, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
         16,
         "a: the product of the sizes overflows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(idx_of(cases[i].bytes, cases[i].size, 1000));
        assert_error(ctx, GD_FORMAT, cases[i].error);
    }
}

/* corpus/idx/own13 on were written by Python's gzip module. */
static gd_tensor *from_corpus(const char *name, size_t limit)
{
    char path[1024], bytes[8192];
    snprintf(path, sizeof path, GD_TEST_DIR "/file/corpus/idx/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    return idx_of(bytes, size, limit);
}

/* No block above a megabyte. */
static void *small_blocks(void *user, void *old, size_t old_size, size_t new_size)
{
    (void)user;
    return new_size > 1 << 20 ? NULL : gd__system_alloc(NULL, old, old_size, new_size);
}

/* A file of `size` bytes, zero behind its header, packed. */
static void pack_file(const char *path, const void *header, size_t header_size, off_t size)
{
    char command[300];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(header, 1, header_size, f), header_size);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate(path, size), 0);
    snprintf(command, sizeof command, "gzip -f %s", path);
    assert_int_equal(system(command), 0);
}

/* A few thousand bytes that unpack to 64 MB, behind a header that wants 4: refused before a megabyte is unpacked. */
static void gzip_is_unpacked_no_further_than_its_header_wants(void **state)
{
    (void)state;
    char npy[129], place[64] = "/tmp/gradus_bomb_XXXXXX", path[128], packed[140];
    snprintf(npy, sizeof npy, "%-128s", "\x93NUMPY\1?v?{'descr':'|u1','fortran_order':False,'shape':(4,)}");
    npy[7] = npy[9] = 0;
    npy[127] = '\n';
    const struct {
        const char *name;
        const void *header;
        size_t size;
    } kinds[] = {{"bomb.idx", "\0\0\x08\x01\0\0\0\x04", 8}, {"bomb.npy", npy, 128}};
    gd_options options = gd_options_default();
    options.allocator = (gd_allocator){small_blocks, NULL};
    options.pool = false;
    gd_ctx *small = gd_ctx_new(&options);
    assert_non_null(mkdtemp(place));
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, "%s/%s", place, kinds[k].name);
        snprintf(packed, sizeof packed, "%s.gz", path);
        pack_file(path, kinds[k].header, kinds[k].size, (off_t)kinds[k].size + 4);
        gd_tensor *t = gd__value_load(small, "v", packed, NULL);
        if (!t && strstr(gd_error_text(small), "without zlib")) skip();
        if (!t) fail_msg("%s: %s", packed, gd_error_text(small));
        assert_int_equal(gd_numel(t), 4);
        gd_release(t);
        pack_file(path, kinds[k].header, kinds[k].size, 1 << 26);
        assert_null(gd__value_load(small, "v", packed, NULL));
        assert_non_null(strstr(gd_error_text(small), "bytes that its header wants"));
        assert_int_equal(gd_error(small), GD_FORMAT);
        gd_clear_error(small);
        unlink(packed);
    }
    rmdir(place);
    gd_ctx_free(small);
}

/* 64 MB of text in a few kilobytes, with room for no more than a limit of half a megabyte asks for. */
static void tables_are_unpacked_no_further_than_the_limit(void **state)
{
    (void)state;
    char place[64] = "/tmp/gradus_bomb_XXXXXX", path[128];
    gd_options options = gd_options_default();
    options.allocator = (gd_allocator){small_blocks, NULL};
    options.pool = false;
    gd_ctx *small = gd_ctx_new(&options);
    assert_non_null(mkdtemp(place));
    snprintf(path, sizeof path, "%s/bomb.csv", place);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 1 << 14; i++)
        for (int k = 0; k < 1 << 7; k++) assert_true(fputs("1.5,2.5,3.5,4.5,5.5,6.5,7.5,8.5\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    small->input_limit = 500000;
    assert_null(gd__value_load(small, "v", path, NULL));
    assert_non_null(
        strstr(gd_error_text(small), "bomb.csv: has more than 500000 bytes; .max_bytes allows more"));
    gd_clear_error(small);
    char command[300];
    snprintf(command, sizeof command, "gzip %s", path);
    assert_int_equal(system(command), 0);
    strcat(path, ".gz");
    assert_null(gd__value_load(small, "v", path, NULL));
    if (!strstr(gd_error_text(small), "without zlib"))
        assert_non_null(
            strstr(gd_error_text(small), "unpacks to more than 500000 bytes; .max_bytes allows more"));
    assert_int_equal(gd_error(small), GD_FORMAT);
    unlink(path);
    rmdir(place);
    gd_ctx_free(small);
}

/* A quarter of the memory, and less where the system allows this process less. */
static void the_limit_fits_the_machine(void **state)
{
    (void)state;
    uint64_t machine = gd__memory_bytes(), limit = gd__input_limit(ctx);
    struct rlimit before, less;
    assert_true(machine > 1 << 24);
    assert_true(limit == machine / 4);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    less = before;
    less.rlim_cur = (rlim_t)(machine - machine / 8);
    if (before.rlim_cur != RLIM_INFINITY || setrlimit(RLIMIT_AS, &less))
        skip(); /* sanitizers need the whole of it */
    assert_true(gd__input_limit(ctx) == less.rlim_cur / 4);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

static void gzip_is_unpacked(void **state)
{
    (void)state;
    gd_tensor *t = from_corpus("own13", 1000);
    if (!t && strstr(gd_error_text(ctx), "without zlib")) skip();
    assert_values(t, 0, 1, 2, 253, 254, 255);
    assert_values(from_corpus("own16", 1000), 0, 1, 2, 253, 254, 255);
    assert_null(from_corpus("own14", 1000));
    assert_error(ctx, GD_FORMAT, "a: the gzip data is cut off");
    assert_null(from_corpus("own15", 1000));
    assert_error(ctx, GD_FORMAT, "a: bytes follow the gzip data");
    assert_null(from_corpus("own17", 100000));
    assert_error(ctx, GD_FORMAT, "a: IDX element type 0x00 is not known");
}

static void idx_files_are_known_by_their_name(void **state)
{
    (void)state;
    assert_true(gd__idx_is_path("a/train-images-idx3-ubyte.gz"));
    assert_true(gd__idx_is_path("t10k-labels-idx1-ubyte"));
    assert_true(gd__idx_is_path("x.idx"));
    assert_true(gd__idx_is_path("x.idx.gz"));
    assert_false(gd__idx_is_path("x.npy"));
    assert_false(gd__idx_is_path(".gz"));
    static const unsigned char bytes[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
    assert_values(from_file(put("x.idx", bytes, sizeof bytes), ""), 7, 9);
}

static void read_idx(gd_ctx *own, const corpus_file *file)
{
    gd_tensor *t = idx_in(own, file->data, file->size, 1 << 20);
    assert_true((t != NULL) == (gd_error(own) == GD_OK));
    gd_clear_error(own);
}

static void the_corpus_is_read_without_harm(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/file/corpus/idx", 11, read_idx);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const char *texts[] = {"[[1,2],[3,4],[5,6]]", "0.1*randn(3,4)", NULL, NULL};
    char csv[300], idx[300];
    snprintf(csv, sizeof csv, "@%s:b", put("t.csv", "a,b\n1,2\n3,4\n", 12));
    static const unsigned char bytes[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
    snprintf(idx, sizeof idx, "@%s", put("x.idx", bytes, sizeof bytes));
    texts[2] = csv;
    texts[3] = idx;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        for (int64_t k = 1;; k++) {
            memory m = {0};
            gd_ctx *own = context(&m, 1, NULL);
            m.fail_at = m.requests + k;
            gd_tensor *t = gd__value_parse(own, "p", texts[i], GD_F32, NULL);
            bool done = !m.failed;
            assert_true(done == (t != NULL));
            if (!t) assert_int_equal(gd_error(own), GD_NOMEM);
            gd_release(t);
            end_context(own, &m);
            if (done) break;
        }
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_and_lists_are_read),
        TEST(arrays_are_made),
        TEST(mistakes_are_pointed_at),
        TEST(files_are_loaded),
        TEST(missing_files_and_columns_are_named),
        TEST(idx_elements_become_tensors),
        TEST(malformed_idx_files_are_refused),
        TEST(gzip_is_unpacked),
        TEST(tables_are_unpacked_no_further_than_the_limit),
        TEST(the_limit_fits_the_machine),
        TEST(gzip_is_unpacked_no_further_than_its_header_wants),
        TEST(idx_files_are_known_by_their_name),
        TEST(the_corpus_is_read_without_harm),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
