/* Trees of modules: nesting, lists, exporting, freezing, moving. */
#include "module/support.h"

#include "module/module_internal.h"
#include "tensor/device.h"

/* A second device that works as the CPU does, so that moves can be seen without a GPU. */
static gd_device second_device(gd_ctx *ctx, const char *name)
{
    gd_device device = *gd_device_get(ctx, "cpu");
    snprintf(device.name, sizeof device.name, "%s", name);
    return device;
}

static gd_module *container(gd_ctx *ctx) { return gd_module_new(gd_class_module(ctx)); }

static gd_tensor *labelled(gd_ctx *ctx)
{
    gd_tensor *t = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6});
    return gd_with_labels(gd_rename(t, "row, _"), "row", (const char *[]){"up", "down"});
}

/* ---- nesting ---- */

/* root: w, left { w, deep { w } }, right { w } */
static gd_module *tree(gd_ctx *ctx)
{
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_no_grad(cls, "basis"));
    gd_module *part[4];
    for (int i = 0; i < 4; i++) {
        part[i] = gd_module_new(cls);
        ok(gd_module_set_parameter(part[i], "w", VECTOR(ctx, i + 1)));
        ok(gd_module_set_tensor(part[i], "basis", VECTOR(ctx, 10 * (i + 1))));
    }
    ok(gd_module_set_module(part[0], "left", part[1]));
    ok(gd_module_set_module(part[1], "deep", part[2]));
    ok(gd_module_set_module(part[0], "right", part[3]));
    return part[0];
}

static void nested_modules_are_reached_by_dotted_paths(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    expect_values(gd_module_get_tensor(m, "left.deep.w"), 3);
    assert_ptr_equal(gd_module_get_tensor(m, "left.deep.tensor:w"), gd_module_get_tensor(m, "left.deep.w"));
    ok(gd_module_set_int(m, "left.deep.size", 5));
    int64_t size;
    ok(gd_module_get_int(gd_module_get_module(m, "left.deep"), "size", &size));
    assert_int_equal(size, 5);
    ok(gd_module_set_tensor(m, "right.w", VECTOR(ctx, 8)));
    expect_values(gd_module_get_tensor(gd_module_get_module(m, "right"), "w"), 8);
    ok(gd_module_delete(m, "left.deep.w"));
    assert_false(gd_module_has(m, "left.deep.w"));
    assert_false(gd_module_has(m, "nowhere.deep.w"));
    gd_scope_end(ctx);
}

static void errors_name_the_place(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    assert_null(gd_module_get_tensor(m, "left.deep.weihgt"));
    expect_error(ctx, GD_ATTRIBUTE, "module 'Net.left.deep': no attribute 'weihgt'");
    assert_null(gd_module_get_tensor(m, "left.depe.w"));
    expect_error(ctx, GD_ATTRIBUTE, "module 'Net.left': no attribute 'depe'");
    assert_null(gd_module_get_tensor(m, "w.x"));
    expect_error(ctx, GD_TYPE, "module 'Net': attribute 'w' is a tensor, not a module");
    int64_t n;
    assert_int_equal(gd_module_get_int(m, "lfet.n", &n), GD_ATTRIBUTE);
    expect_error(ctx, GD_ATTRIBUTE, "'lfet'");
    assert_int_equal(gd_module_set_tensor(m, "lfet.w", VECTOR(ctx, 1)), GD_ATTRIBUTE);
    expect_error(ctx, GD_ATTRIBUTE, "'lfet'");
    gd_module *deep = gd_module_get_module(m, "left.deep");
    char name[100];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < 5; i++) { /* very long places lose their beginning */
        gd_module *next = container(ctx);
        ok(gd_module_set_module(deep, name, next));
        deep = next;
    }
    assert_null(gd_module_get_tensor(deep, "w"));
    expect_error(ctx, GD_ATTRIBUTE, "module '...");
    gd_scope_end(ctx);
}

static void a_module_cannot_be_put_inside_itself(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    assert_int_equal(gd_module_set_module(m, "self", m), GD_CYCLE);
    expect_error(ctx, GD_CYCLE, "module 'Net': assigning 'self' would put the module inside itself");
    assert_int_equal(gd_module_set_module(gd_module_get_module(m, "left.deep"), "up", m), GD_CYCLE);
    expect_error(ctx, GD_CYCLE, "'Net.left.deep'");
    assert_false(gd_module_has(m, "left.deep.up"));
    assert_int_equal(gd_module_set_module(m, "none", NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no module");
    gd_scope_end(ctx);
}

static void a_child_outlives_the_scope_and_dies_with_its_parent(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *parent = container(ctx);
    gd_scope_begin(ctx);
    gd_module *child = container(ctx);
    ok(gd_module_set_tensor(child, "w", VECTOR(ctx, 1)));
    ok(gd_module_set_module(parent, "child", child));
    gd_scope_end(ctx);
    expect_values(gd_module_get_tensor(parent, "child.w"), 1);
    ok(gd_module_set_int(parent, "child", 1)); /* replaced: the child is gone */
    assert_int_equal(gd_ctx_live(ctx), 1);
    gd_module_release(parent);
}

static void a_child_may_be_released_early_inside_a_scope(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *parent = container(ctx);
    gd_scope_begin(ctx);
    gd_module *child = container(ctx);
    ok(gd_module_set_module(parent, "child", child));
    gd_module_release(child); /* the parent holds it still */
    gd_scope_end(ctx);
    ok(gd_module_set_int(parent, "child.n", 1));
    gd_module_release(parent);
}

static void a_child_in_two_places_is_listed_once(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx), *shared = container(ctx);
    ok(gd_module_set_parameter(shared, "w", VECTOR(ctx, 1)));
    ok(gd_module_set_module(m, "first", shared));
    ok(gd_module_set_module(m, "second", shared));
    gd_named *all = gd_module_parameters(m, NULL);
    assert_int_equal(gd_named_count(all), 1);
    assert_string_equal(gd_named_name(all, 0), "first.w");
    assert_ptr_equal(gd_module_get_tensor(m, "first.w"), gd_module_get_tensor(m, "second.w"));
    ok(gd_module_delete(m, "first"));
    expect_values(gd_module_get_tensor(m, "second.w"), 1);
    gd_scope_end(ctx);
}

static void deep_trees_do_not_need_a_deep_stack(void **state)
{
    gd_ctx *ctx = CTX(state);
    enum { DEPTH = 20000 };
    gd_module *inner = container(ctx);
    gd_scope_begin(ctx);
    ok(gd_module_set_parameter(inner, "w", VECTOR(ctx, 1)));
    for (int i = 0; i < DEPTH; i++) {
        gd_scope_begin(ctx);
        gd_module *outer = container(ctx);
        /* attach without the walk of a growing tree: the new module is on the outside */
        ok(gd__attribute_put(outer, "x", &(gd_attribute){.kind = GD_ATTRIBUTE_MODULE, .module = inner}));
        gd_module_keep(outer);
        gd_scope_end(ctx);
        gd__own(outer);
        inner = outer;
    }
    gd_scope_end(ctx);
    gd_named *all = gd_module_parameters(inner, NULL);
    assert_int_equal(gd_named_count(all), 1);
    assert_int_equal(strlen(gd_named_name(all, 0)), 2 * DEPTH + 1);
    gd_named_release(all);
    ok(gd_module_freeze(inner));
    gd_module_release(inner);
}

/* ---- lists ---- */

#define expect_names(list, ...)                                                                            \
    do {                                                                                                   \
        const char *names_[] = {__VA_ARGS__};                                                              \
        int64_t count_ = (int64_t)(sizeof names_ / sizeof *names_);                                        \
        const gd_named *list_ = list;                                                                      \
        assert_non_null(list_);                                                                            \
        assert_int_equal(gd_named_count(list_), count_);                                                   \
        for (int64_t i_ = 0; i_ < count_; i_++) assert_string_equal(gd_named_name(list_, i_), names_[i_]); \
    } while (0)

static void lists_walk_the_tree_in_order(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    expect_names(gd_module_parameters(m, NULL), "w", "left.w", "left.deep.w", "right.w");
    expect_names(gd_module_buffers(m, NULL), "basis", "left.basis", "left.deep.basis", "right.basis");
    gd_named *modules = gd_module_modules(m, NULL);
    expect_names(modules, "", "left", "left.deep", "right");
    assert_ptr_equal(gd_named_module(modules, 0), m);
    assert_ptr_equal(gd_named_module(modules, 2), gd_module_get_module(m, "left.deep"));
    assert_null(gd_named_tensor(modules, 0));
    gd_named *parameters = gd_module_parameters(m, NULL);
    assert_string_equal(gd_named_registered(parameters, 2), "left.deep.tensor:w");
    assert_ptr_equal(gd_named_find(parameters, "right.w"), gd_module_get_tensor(m, "right.w"));
    assert_null(gd_named_find(parameters, "nowhere"));
    assert_null(gd_named_name(parameters, 4));
    assert_null(gd_named_module(parameters, 0));
    gd_scope_end(ctx);
}

static void a_list_holds_what_it_lists(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_named *all = gd_named_keep(gd_module_parameters(tree(ctx), NULL));
    gd_scope_end(ctx); /* the tree is gone */
    expect_values(gd_named_find(all, "left.w"), 2);
    gd_named_release(all);
}

static void globs_select_by_name(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    expect_names(gd_module_parameters(m, "left.*"), "left.w", "left.deep.w");
    expect_names(gd_module_parameters(m, "*.w"), "left.w", "left.deep.w", "right.w");
    expect_names(gd_module_parameters(m, "?"), "w");
    expect_names(gd_module_parameters(m, "[lr]*t.w"), "left.w", "right.w");
    expect_names(gd_module_modules(m, "l*"), "left", "left.deep");
    expect_names(gd_module_buffers(m, "*deep*"), "left.deep.basis");
    assert_int_equal(gd_named_count(gd_module_parameters(m, "nothing*")), 0);
    assert_null(gd_module_parameters(m, "left[.w"));
    expect_error(ctx, GD_PARSE, "pattern 'left[.w': column 5: '[' does not end");
    assert_int_equal(gd_named_count(gd_module_parameters(m, "\\[x")),
                     0); /* an escaped bracket opens no set */
    gd_scope_end(ctx);
}

static void the_glob_matcher_has_no_surprises(void **state)
{
    (void)state;
    static const struct {
        const char *glob, *text;
        bool match;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "a.b.c", true},
        {"a*c", "abbc", true},
        {"a*c", "abcb", false},
        {"*a*b*", "xaxbx", true},
        {"*a*b*", "xbxax", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"?", "", false},
        {"[abc]", "b", true},
        {"[abc]", "d", false},
        {"[a-c]x", "bx", true},
        {"[!a-c]", "d", true},
        {"[!a-c]", "b", false},
        {"[]]", "]", true},
        {"[a-]", "-", true},
        {"[!]]", "]", false},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"a\\?", "a?", true},
        {"**", "abc", true},
        {"a**b", "ab", true},
        {"*.weight", "0.weight", true},
        {"*.weight", "weight", false},
        {".*", ".hidden", true},
        {"[\\]a]", "]", true},
        {"*?", "", false},
        {"abc", "ab", false},
        {"ab", "abc", false},
        {"*aab", "aaaab", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (gd_glob_match(cases[i].glob, cases[i].text) != cases[i].match)
            fail_msg("glob '%s' on '%s'", cases[i].glob, cases[i].text);
    /* many stars on a long text end quickly */
    char text[4001], glob[201];
    memset(text, 'a', 4000);
    text[4000] = 0;
    for (int i = 0; i < 200; i++) glob[i] = i % 2 ? '*' : 'a';
    glob[200] = 0;
    glob[199] = 'b';
    assert_false(gd_glob_match(glob, text));
}

/* ---- exporting ---- */

static void an_export_is_detached_and_nothing_changes_it(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_no_grad(cls, "basis"));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    ok(gd_module_set_parameter(m, "weight", labelled(ctx)));
    ok(gd_module_set_tensor(m, "basis", VECTOR(ctx, 7)));
    gd_tensor *weight = gd_module_export(m, "weight"),
              *basis = gd_module_export(m, "basis"); /* both kinds alike */
    assert_false(gd_requires_grad(weight));
    assert_true(gd_is_leaf(weight));
    assert_string_equal(gd_axis_name(weight, 0), "row"); /* the same axes */
    assert_string_equal(gd_axis_label(weight, 0, 0), "up");
    ok(gd_fill(gd_module_get_tensor(m, "weight"), 0)); /* an optimizer's step */
    ok(gd_module_set_tensor(m, "basis", VECTOR(ctx, 8)));
    expect_values(weight, 1, 2, 3, 4, 5, 6);
    expect_values(basis, 7);
    gd_scope_end(ctx);
}

static void exporting_what_is_not_there_or_no_tensor_is_an_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = gd_module_new(module_class(ctx, "Net"));
    ok(gd_module_set_int(m, "n", 1));
    assert_null(gd_module_export(m, "weight"));
    expect_error(ctx, GD_ATTRIBUTE, "module 'Net': no attribute 'weight'");
    assert_null(gd_module_export(m, "n"));
    expect_error(ctx, GD_TYPE, "module 'Net': attribute 'n' is an int, not a tensor");
    gd_module_release(m);
}

static void export_all_has_every_tensor_of_the_tree_by_dotted_name(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    ok(gd_module_set_int(m, "n", 3));
    gd_named *all = gd_named_keep(gd_module_export_all(m));
    expect_names(all, "w", "basis", "left.w", "left.basis", "left.deep.w", "left.deep.basis", "right.w",
                 "right.basis");
    ok(gd_fill(gd_module_get_tensor(m, "left.deep.w"), 0));
    gd_scope_end(ctx);
    expect_values(gd_named_find(all, "left.deep.w"), 3);
    expect_values(gd_named_find(all, "left.deep.basis"), 30);
    assert_false(gd_requires_grad(gd_named_find(all, "w")));
    gd_named_release(all);
}

static void an_export_outside_every_scope_is_the_callers(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = container(ctx);
    gd_tensor *t = VECTOR(ctx, 1, 2);
    ok(gd_module_set_tensor(m, "w", t));
    gd_release(t);
    gd_tensor *copy = gd_module_export(m, "w");
    gd_module_release(m);
    expect_values(copy, 1, 2);
    gd_release(copy);
}

/* ---- freezing ---- */

static void freeze_turns_off_gradients_of_all_parameters_of_the_tree(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    ok(gd_module_freeze(m));
    gd_named *all = gd_module_parameters(m, NULL);
    assert_int_equal(gd_named_count(all), 4); /* still parameters */
    for (int i = 0; i < 4; i++) assert_false(gd_requires_grad(gd_named_tensor(all, i)));
    ok(gd_module_unfreeze(m));
    for (int i = 0; i < 4; i++) assert_true(gd_requires_grad(gd_named_tensor(all, i)));
    gd_scope_end(ctx);
}

static void freezing_leaves_buffers_alone(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    ok(gd_module_unfreeze(m));
    gd_named *buffers = gd_module_buffers(m, NULL);
    for (int i = 0; i < 4; i++) assert_false(gd_requires_grad(gd_named_tensor(buffers, i)));
    gd_scope_end(ctx);
}

static void tensors_of_a_dtype_without_gradients_are_buffers(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    int64_t parameters = gd_named_count(gd_module_parameters(m, NULL));
    for (int dtype = 0; dtype < GD_DTYPE_COUNT; dtype++) {
        gd_tensor *t = gd_zeros(ctx, (gd_dtype)dtype, 1, (int64_t[]){2});
        ok(gd_module_set_tensor(m, "right.index", t));
        bool parameter = gd_dtype_is_float((gd_dtype)dtype);
        assert_int_equal(gd_module_has(m, "right.tensor:index"), parameter);
        assert_int_equal(gd_module_has(m, "right.buffer:index"), !parameter);
        assert_int_equal(gd_named_count(gd_module_parameters(m, NULL)), parameters + parameter);
        ok(gd_module_freeze(m));
        ok(gd_module_unfreeze(m));
        assert_true(gd_requires_grad(gd_module_get_tensor(m, "w")));
        assert_int_equal(gd_requires_grad(gd_module_get_tensor(m, "right.index")), parameter);
    }
    gd_scope_end(ctx);
}

/* ---- devices and dtypes ---- */

static void a_module_starts_on_the_cpu(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = container(ctx);
    assert_ptr_equal(gd_module_device(m), gd_device_get(ctx, "cpu"));
    gd_module_release(m);
}

static void to_device_moves_the_whole_tree_and_its_gradients(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = second_device(ctx, "gpu:7");
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    gd_tensor *handle = gd_module_get_tensor(m, "left.deep.w");
    ok(gd_backward(gd_sum(gd_square(handle), NULL, false), NULL, 0));
    ok(gd_module_to_device(m, &other));
    gd_named *modules = gd_module_modules(m, NULL), *parameters = gd_module_parameters(m, NULL);
    gd_named *buffers = gd_module_buffers(m, NULL);
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(gd_module_device(gd_named_module(modules, i)), &other);
        assert_ptr_equal(gd_tensor_device(gd_named_tensor(parameters, i)), &other);
        assert_ptr_equal(gd_tensor_device(gd_named_tensor(buffers, i)), &other);
    }
    assert_ptr_equal(gd_module_get_tensor(m, "left.deep.w"), handle); /* the same tensor, elsewhere */
    assert_true(gd_requires_grad(handle));
    expect_values(handle, 3);
    assert_ptr_equal(gd_tensor_device(gd_grad_of(handle)), &other);
    expect_values(gd_grad_of(handle), 6);
    ok(gd_module_cpu(m));
    assert_ptr_equal(gd_tensor_device(handle), gd_device_get(ctx, "cpu"));
    assert_ptr_equal(gd_module_device(m), gd_device_get(ctx, "cpu"));
    gd_scope_end(ctx);
}

static void what_is_assigned_is_moved_to_the_modules_device(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = second_device(ctx, "gpu:7");
    gd_scope_begin(ctx);
    gd_module *m = container(ctx), *child = tree(ctx);
    ok(gd_module_to_device(m, &other));
    gd_tensor *source = labelled(ctx);
    ok(gd_module_set_parameter(m, "weight", source));
    gd_tensor *weight = gd_module_get_tensor(m, "weight");
    assert_ptr_equal(gd_tensor_device(weight), &other);
    assert_ptr_equal(gd_tensor_device(source), gd_device_get(ctx, "cpu"));
    assert_string_equal(gd_axis_label(weight, 0, 1), "down");
    ok(gd_module_set_module(m, "child", child)); /* a module is moved with all it has */
    assert_ptr_equal(gd_module_device(child), &other);
    assert_ptr_equal(gd_tensor_device(gd_module_get_tensor(m, "child.left.deep.basis")), &other);
    gd_tensor *snapshot = gd_module_export(m, "weight");
    assert_ptr_equal(gd_tensor_device(snapshot), &other);
    gd_scope_end(ctx);
}

static void without_a_gpu_there_is_a_device_error_and_nothing_changes(void **state)
{
    gd_ctx *ctx = CTX(state);
    if (gd_gpu_count(ctx) > 0) skip();
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    assert_int_equal(gd_module_gpu(m, -1), GD_DEVICE);
    expect_error(ctx, GD_DEVICE, "gpu");
    assert_int_equal(gd_module_gpu(m, 1), GD_DEVICE);
    expect_error(ctx, GD_DEVICE, "gpu:1");
    assert_int_equal(gd_module_to_device(m, NULL), GD_DEVICE);
    expect_error(ctx, GD_DEVICE, "no device");
    assert_ptr_equal(gd_module_device(gd_module_get_module(m, "left.deep")), gd_device_get(ctx, "cpu"));
    expect_values(gd_module_get_tensor(m, "left.deep.w"), 3);
    gd_scope_end(ctx);
}

/* Fails the k-th move of bytes, as a full GPU would. */
static gd_status failing_upload(gd_device *device, void *to, const void *from, size_t bytes)
{
    int64_t *left = device->state;
    if (--*left < 0) return gd_fail(device->ctx, GD_DEVICE, "upload failed");
    memcpy(to, from, bytes);
    return GD_OK;
}

static void a_failed_move_changes_nothing(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = second_device(ctx, "gpu:7");
    gd_backend backend = *other.backend;
    backend.upload = failing_upload;
    other.backend = &backend;
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    gd_named *parameters = gd_module_parameters(m, NULL), *modules = gd_module_modules(m, NULL);
    for (int64_t budget = 0; budget < 8; budget++) { /* 4 parameters and 4 buffers */
        int64_t left = budget;
        other.state = &left;
        assert_int_equal(gd_module_to_device(m, &other), GD_DEVICE);
        expect_error(ctx, GD_DEVICE, "upload failed");
        for (int i = 0; i < 4; i++) {
            assert_ptr_equal(gd_tensor_device(gd_named_tensor(parameters, i)), gd_device_get(ctx, "cpu"));
            assert_ptr_equal(gd_module_device(gd_named_module(modules, i)), gd_device_get(ctx, "cpu"));
        }
    }
    int64_t left = 8;
    other.state = &left;
    ok(gd_module_to_device(m, &other));
    ok(gd_module_cpu(m));
    gd_scope_end(ctx);
}

static void to_casts_floating_tensors_and_leaves_the_others(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = tree(ctx);
    ok(gd_module_set_tensor(m, "index", gd_arange(ctx, GD_I64, 0, 3, 1)));
    gd_tensor *handle = gd_module_get_tensor(m, "left.w");
    ok(gd_backward(gd_sum(gd_square(handle), NULL, false), NULL, 0));
    ok(gd_module_to(m, GD_F32));
    assert_int_equal(gd_tensor_dtype(handle), GD_F32);
    assert_int_equal(gd_tensor_dtype(gd_grad_of(handle)), GD_F32);
    expect_values(gd_grad_of(handle), 4);
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(m, "right.basis")), GD_F32);
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(m, "index")), GD_I64);
    assert_true(gd_requires_grad(handle));
    assert_int_equal(gd_module_to(m, GD_I32), GD_DTYPE);
    expect_error(ctx, GD_DTYPE, "floating dtype, not i32");
    gd_scope_end(ctx);
}

static void a_move_is_a_change_that_an_old_graph_notices(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    ok(gd_module_set_parameter(m, "w", VECTOR(ctx, 3)));
    gd_tensor *loss = gd_sum(gd_square(gd_module_get_tensor(m, "w")), NULL, false);
    ok(gd_module_to(m, GD_F32));
    assert_int_not_equal(gd_backward(loss, NULL, 0), GD_OK);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nested_modules_are_reached_by_dotted_paths),
        TEST(errors_name_the_place),
        TEST(a_module_cannot_be_put_inside_itself),
        TEST(a_child_outlives_the_scope_and_dies_with_its_parent),
        TEST(a_child_may_be_released_early_inside_a_scope),
        TEST(a_child_in_two_places_is_listed_once),
        TEST(deep_trees_do_not_need_a_deep_stack),
        TEST(lists_walk_the_tree_in_order),
        TEST(a_list_holds_what_it_lists),
        TEST(globs_select_by_name),
        TEST(the_glob_matcher_has_no_surprises),
        TEST(an_export_is_detached_and_nothing_changes_it),
        TEST(exporting_what_is_not_there_or_no_tensor_is_an_error),
        TEST(export_all_has_every_tensor_of_the_tree_by_dotted_name),
        TEST(an_export_outside_every_scope_is_the_callers),
        TEST(freeze_turns_off_gradients_of_all_parameters_of_the_tree),
        TEST(freezing_leaves_buffers_alone),
        TEST(tensors_of_a_dtype_without_gradients_are_buffers),
        TEST(a_module_starts_on_the_cpu),
        TEST(to_device_moves_the_whole_tree_and_its_gradients),
        TEST(what_is_assigned_is_moved_to_the_modules_device),
        TEST(without_a_gpu_there_is_a_device_error_and_nothing_changes),
        TEST(a_failed_move_changes_nothing),
        TEST(to_casts_floating_tensors_and_leaves_the_others),
        TEST(a_move_is_a_change_that_an_old_graph_notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
