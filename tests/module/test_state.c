/* State dicts: what is in them, loading strictly and partly, files. */
#include "module/support.h"

#include <unistd.h>

#include "module/module_internal.h"
#include "tensor/device.h"

static gd_tensor *twice(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    return gd_mul_scalar(gd_module_get_tensor(owner, "w"), 2);
}

/* w (parameter), basis (buffer), n (plain), inner { w }, x (virtual, saved), y (virtual, not saved) */
static gd_module *model(gd_ctx *ctx, double value)
{
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_no_grad(cls, "basis"));
    gd_module *m = gd_module_new(cls), *inner = gd_module_new(cls);
    ok(gd_module_set_parameter(m, "w", gd_full(ctx, GD_F64, 2, (int64_t[]){2, 3}, value)));
    ok(gd_module_set_tensor(m, "basis", gd_full(ctx, GD_F32, 1, (int64_t[]){2}, value + 1)));
    ok(gd_module_set_int(m, "n", 3));
    ok(gd_module_set_parameter(inner, "w", gd_full(ctx, GD_F64, 0, NULL, value + 2)));
    ok(gd_module_set_module(m, "inner", inner));
    gd_virtual_options options = gd_virtual_defaults();
    options.fn = twice;
    options.persist = true;
    ok(gd_virtual_create(m, "x", &options));
    options.persist = false;
    ok(gd_virtual_create(m, "y", &options));
    return m;
}

static void expect_model(gd_module *m, double value)
{
    double w[6];
    for (int i = 0; i < 6; i++) w[i] = value;
    expect_values_at(gd_module_get_tensor(m, "w"), 6, w, 0, __FILE__, __LINE__);
    expect_values(gd_module_get_tensor(m, "basis"), value + 1, value + 1);
    expect_values(gd_module_get_tensor(m, "inner.w"), value + 2);
}

#define expect_archive(archive, ...)                                       \
    do {                                                                   \
        const char *names_[] = {__VA_ARGS__};                              \
        int64_t count_ = (int64_t)(sizeof names_ / sizeof *names_);        \
        assert_int_equal(gd_archive_count(archive), count_);               \
        for (int64_t i_ = 0; i_ < count_; i_++)                            \
            assert_string_equal(gd_archive_name(archive, i_), names_[i_]); \
    } while (0)

static void the_state_has_parameters_buffers_and_persistent_references(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = model(ctx, 1);
    gd_archive *archive = gd_module_state(m);
    expect_archive(archive, "w", "basis", "_x_ref",
                   "inner.w"); /* no plain values, no "_y_ref", no values of x and y */
    assert_int_equal(gd_numel(gd_archive_find(archive, "_x_ref")), 0);
    assert_int_equal(gd_tensor_dtype(gd_archive_find(archive, "_x_ref")), GD_F32);
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

static void loading_sets_every_tensor_and_keeps_handles(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *from = model(ctx, 1), *to = model(ctx, 10);
    gd_archive *archive = gd_module_state(from);
    gd_tensor *handle = gd_module_get_tensor(to, "w");
    gd_load_report *report;
    ok(gd_module_load_state(to, archive, NULL, &report));
    expect_model(to, 1);
    assert_ptr_equal(gd_module_get_tensor(to, "w"), handle);
    assert_true(gd_requires_grad(handle));
    assert_int_equal(gd_load_report_loaded(report), 4);
    assert_string_equal(gd_load_report_text(report), "");
    ok(gd_fill(gd_module_get_tensor(from, "w"), 5)); /* values were copied */
    expect_model(to, 1);
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

static void a_strict_load_reports_all_that_differs_and_changes_nothing(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *from = model(ctx, 1), *to = model(ctx, 10);
    ok(gd_module_set_parameter(from, "extra", VECTOR(ctx, 1)));                        /* unexpected */
    ok(gd_module_set_parameter(to, "inner.more", VECTOR(ctx, 1)));                     /* missing */
    ok(gd_module_set_tensor(from, "basis", gd_zeros(ctx, GD_F32, 1, (int64_t[]){3}))); /* another shape */
    ok(gd_module_set_parameter(from, "inner.w", gd_scalar(ctx, GD_F32, 1)));           /* another dtype */
    gd_archive *archive = gd_module_state(from);
    gd_load_report *report;
    assert_int_equal(gd_module_load_state(to, archive, NULL, &report), GD_MISMATCH);
    const char *text = gd_load_report_text(report);
    assert_non_null(strstr(text, "missing 'inner.more'"));
    assert_non_null(strstr(text, "unexpected 'extra'"));
    assert_non_null(strstr(text, "'basis' has shape [3] in the state and [2] here"));
    assert_non_null(strstr(text, "'inner.w' is f32 in the state and f64 here"));
    expect_error(ctx, GD_MISMATCH, "module 'Net': the state does not match: 'basis' has shape");
    const char *names[GD_LOAD_PROBLEMS] = {"inner.more", "extra", "basis", "inner.w"};
    for (int kind = 0; kind < GD_LOAD_PROBLEMS; kind++) {
        assert_int_equal(gd_load_report_count(report, (gd_load_problem)kind), 1);
        assert_string_equal(gd_load_report_name(report, (gd_load_problem)kind, 0), names[kind]);
        assert_null(gd_load_report_name(report, (gd_load_problem)kind, 1));
    }
    assert_int_equal(gd_load_report_loaded(report), 0);
    expect_model(to, 10);
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

static void a_partial_load_takes_what_is_there(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *from = model(ctx, 1), *to = model(ctx, 10);
    ok(gd_module_set_parameter(from, "extra", VECTOR(ctx, 1)));
    ok(gd_module_set_parameter(to, "inner.more", VECTOR(ctx, 7)));
    gd_archive *archive = gd_module_state(from);
    gd_load_options options = gd_load_defaults();
    options.partial = true;
    gd_load_report *report;
    ok(gd_module_load_state(to, archive, &options, &report));
    expect_model(to, 1);
    expect_values(gd_module_get_tensor(to, "inner.more"), 7);
    assert_string_equal(gd_load_report_text(report), "missing 'inner.more'; unexpected 'extra'");
    assert_int_equal(gd_load_report_loaded(report), 4);
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

static void a_wrong_shape_or_dtype_fails_a_partial_load_too(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *from = model(ctx, 1), *to = model(ctx, 10);
    ok(gd_module_to(from, GD_F32));
    gd_archive *archive = gd_module_state(from);
    gd_load_options options = gd_load_defaults();
    options.partial = true;
    assert_int_equal(gd_module_load_state(to, archive, &options, NULL), GD_MISMATCH);
    expect_error(ctx, GD_MISMATCH, "'w' is f32 in the state and f64 here");
    expect_model(to, 10);
    options.cast = true; /* unless casts are wanted */
    ok(gd_module_load_state(to, archive, &options, NULL));
    expect_model(to, 1);
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(to, "w")), GD_F64);
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

static void other_axis_names_or_labels_are_a_wrong_shape(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *from = gd_module_new(gd_class_module(ctx)), *to = gd_module_new(gd_class_module(ctx));
    gd_tensor *square = gd_full(ctx, GD_F64, 2, (int64_t[]){2, 2}, 1);
    ok(gd_module_set_tensor(from, "w", gd_rename(square, "row, column")));
    ok(gd_module_set_tensor(to, "w", gd_rename(square, "column, row")));
    gd_archive *archive = gd_module_state(from);
    assert_int_equal(gd_module_load_state(to, archive, NULL, NULL), GD_MISMATCH);
    expect_error(ctx, GD_MISMATCH, "'w' has shape [row=2, column=2] in the state and [column=2, row=2] here");
    ok(gd_module_set_tensor(to, "w", square)); /* anonymous here: fits, and stays anonymous */
    ok(gd_module_load_state(to, archive, NULL, NULL));
    assert_null(gd_axis_name(gd_module_get_tensor(to, "w"), 0));
    gd_archive_free(archive);
    gd_tensor *row = gd_rename(VECTOR(ctx, 1, 2), "row");
    ok(gd_module_set_tensor(from, "w", gd_with_labels(row, "row", (const char *[]){"a", "b"})));
    ok(gd_module_set_tensor(to, "w", gd_with_labels(row, "row", (const char *[]){"b", "a"})));
    archive = gd_module_state(from);
    assert_int_equal(gd_module_load_state(to, archive, NULL, NULL), GD_MISMATCH);
    expect_error(ctx, GD_MISMATCH, "other labels");
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

static void a_state_goes_to_the_device_of_the_module(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = *gd_device_get(ctx, "cpu");
    gd_scope_begin(ctx);
    gd_module *from = model(ctx, 1), *to = model(ctx, 10);
    ok(gd_module_to_device(to, &other));
    gd_archive *archive = gd_module_state(from);
    ok(gd_module_load_state(to, archive, NULL, NULL));
    assert_ptr_equal(gd_tensor_device(gd_module_get_tensor(to, "w")), &other);
    expect_model(to, 1);
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

static void a_memoised_value_notices_a_load(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *from = model(ctx, 1), *to = model(ctx, 10);
    gd_virtual_options options = gd_virtual_defaults();
    options.fn = twice;
    options.memoise = true;
    ok(gd_virtual_create(to, "z", &options));
    assert_true(gd_at(gd_module_get_tensor(to, "z"), (int64_t[]){0, 0}) == 20);
    gd_archive *archive = gd_module_state(from);
    ok(gd_module_load_state(to, archive, NULL, NULL));
    assert_true(gd_at(gd_module_get_tensor(to, "z"), (int64_t[]){0, 0}) == 2);
    gd_archive_free(archive);
    gd_scope_end(ctx);
}

/* ---- files ---- */

static const char *temporary(char path[64])
{
    snprintf(path, 64, "gradus_test_state_%ld.safetensors", (long)getpid());
    return path;
}

static void saving_and_loading_gives_the_same_bits(void **state)
{
    gd_ctx *ctx = CTX(state);
    char path[64];
    gd_scope_begin(ctx);
    gd_module *from = model(ctx, 1), *to = model(ctx, 10);
    gd_tensor *odd = gd_randn(ctx, GD_F64, 2, (int64_t[]){2, 3});
    ok(gd_module_set_parameter(from, "w", gd_rename(odd, "row, _")));
    ok(gd_module_save(from, temporary(path)));
    ok(gd_module_load(to, path, NULL, NULL));
    assert_memory_equal(gd_data(gd_module_get_tensor(to, "w")), gd_data(odd), 6 * sizeof(double));
    expect_values(gd_module_get_tensor(to, "inner.w"), 3);
    gd_archive *archive = gd_archive_load(ctx, path);
    expect_archive(archive, "w", "basis", "_x_ref", "inner.w");
    assert_string_equal(gd_axis_name(gd_archive_find(archive, "w"), 0), "row"); /* names are in the file */
    gd_archive_free(archive);
    unlink(path);
    gd_scope_end(ctx);
}

static void a_file_that_is_not_there_is_an_io_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = model(ctx, 1);
    gd_load_report *report;
    assert_int_equal(gd_module_load(m, "not/there.safetensors", NULL, &report), GD_IO);
    expect_error(ctx, GD_IO, "not/there.safetensors");
    assert_null(report);
    assert_int_equal(gd_module_save(m, "not/there.safetensors"), GD_IO);
    expect_error(ctx, GD_IO, "not/there");
    expect_model(m, 1);
    assert_int_equal(gd_module_load_state(m, NULL, NULL, NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no state");
    gd_scope_end(ctx);
}

static void a_report_outside_every_scope_is_the_callers(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = gd_module_new(gd_class_module(ctx));
    gd_archive *archive = gd_archive_new(ctx);
    gd_load_report *report;
    ok(gd_module_load_state(m, archive, NULL, &report));
    assert_int_equal(gd_load_report_loaded(report), 0);
    gd_load_report_release(report);
    gd_archive_free(archive);
    gd_module_release(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_state_has_parameters_buffers_and_persistent_references),
        TEST(loading_sets_every_tensor_and_keeps_handles),
        TEST(a_strict_load_reports_all_that_differs_and_changes_nothing),
        TEST(a_partial_load_takes_what_is_there),
        TEST(a_wrong_shape_or_dtype_fails_a_partial_load_too),
        TEST(other_axis_names_or_labels_are_a_wrong_shape),
        TEST(a_state_goes_to_the_device_of_the_module),
        TEST(a_memoised_value_notices_a_load),
        TEST(saving_and_loading_gives_the_same_bits),
        TEST(a_file_that_is_not_there_is_an_io_error),
        TEST(a_report_outside_every_scope_is_the_callers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
