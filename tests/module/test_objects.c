/* Objects that are neither tensor nor module, as attributes: they move with the module where their class says how. */
#include "module/support.h"

#include "tensor/device.h"

/* A user's struct that is on a device and has a dtype. */
typedef struct grid {
    gd_device *device;
    gd_dtype dtype;
    int *alive;
} grid;

static void grid_destroy(void *pointer)
{
    grid *g = pointer;
    --*g->alive;
    free(g);
}

static gd_object *grid_new(gd_class *cls, gd_device *device, gd_dtype dtype, int *alive)
{
    grid *g = calloc(1, sizeof *g);
    *g = (grid){device, dtype, alive};
    ++*alive;
    gd_object *object = gd_instance_new(cls, g, grid_destroy);
    if (!object) grid_destroy(g);
    return object;
}

typedef struct moving {
    int calls, fail_at;
} moving;

static gd_object *grid_move(gd_object *object, gd_device *device, gd_dtype dtype, void *user)
{
    moving *m = user;
    const grid *g = gd_instance_pointer(object);
    if (++m->calls == m->fail_at) {
        (void)gd_fail(gd_object_ctx(object), GD_DEVICE, "no room for the grid");
        return NULL;
    }
    gd_device *to = device ? device : g->device;
    gd_dtype with = dtype == GD_DTYPE_COUNT ? g->dtype : dtype;
    if (to == g->device && with == g->dtype) return object;
    return grid_new((gd_class *)(uintptr_t)gd_object_class(object), to, with, g->alive);
}

typedef struct world {
    gd_ctx *ctx;
    gd_device *cpu, other;
    gd_class *cls;
    moving m;
    int alive;
} world;

static void begin_world(world *w, void **state)
{
    gd_ctx *ctx = CTX(state);
    *w = (world){.ctx = ctx, .cpu = gd_device_get(ctx, "cpu")};
    w->other = *w->cpu;
    snprintf(w->other.name, sizeof w->other.name, "gpu:7");
    gd_class *base = gd_class_new(ctx, "OnDevice", NULL, 0);
    w->cls = gd_class_new(ctx, "Grid", &base, 1);
    ok(gd_class_on_move(base, grid_move, &w->m)); /* those below inherit it */
    gd_scope_begin(ctx);
}

static const grid *grid_at(gd_module *m, const char *name)
{
    return gd_instance_pointer(gd_module_get_object(m, name));
}

static void an_object_follows_its_module(void **state)
{
    world w;
    begin_world(&w, state);
    gd_module *m = gd_module_new(gd_class_module(w.ctx)), *child = gd_module_new(gd_class_module(w.ctx));
    gd_object *g = grid_new(w.cls, w.cpu, GD_F64, &w.alive);
    ok(gd_module_set_module(m, "child", child));
    ok(gd_module_set_object(m, "child.grid", g));
    ok(gd_module_set_object(m, "same", g));
    assert_ptr_equal(gd_module_get_object(m, "child.grid"), g); /* it was right already */
    assert_int_equal(gd_module_kind(m, "same"), GD_ATTRIBUTE_OBJECT);
    ok(gd_module_to_device(m, &w.other));
    assert_ptr_equal(grid_at(m, "child.grid")->device, &w.other);
    assert_ptr_equal(gd_module_get_object(m, "child.grid"), gd_module_get_object(m, "same")); /* stays one */
    assert_ptr_equal(((const grid *)gd_instance_pointer(g))->device, w.cpu); /* ours is as it was */
    ok(gd_module_to(m, GD_F32));
    assert_int_equal(grid_at(m, "same")->dtype, GD_F32);
    assert_ptr_equal(grid_at(m, "same")->device, &w.other);
    ok(gd_module_set_object(m, "late", g)); /* what is assigned is moved to the module's device */
    assert_ptr_equal(grid_at(m, "late")->device, &w.other);
    gd_scope_end(w.ctx);
    assert_int_equal(w.alive, 0);
}

static void replaced_and_deleted_objects_are_released(void **state)
{
    world w;
    begin_world(&w, state);
    gd_module *m = gd_module_new(gd_class_module(w.ctx));
    gd_object *g = grid_new(w.cls, w.cpu, GD_F64, &w.alive), *h = grid_new(w.cls, w.cpu, GD_F64, &w.alive);
    ok(gd_module_set_object(m, "grid", g));
    gd_object_release(g);
    assert_int_equal(w.alive, 2); /* the module holds it */
    ok(gd_module_set_object(m, "grid", h));
    assert_int_equal(w.alive, 1);
    ok(gd_module_set_int(m, "grid", 3));
    ok(gd_module_set_object(m, "grid", h));
    ok(gd_module_delete(m, "grid"));
    assert_null(gd_module_get_object(m, "grid"));
    expect_error(w.ctx, GD_ATTRIBUTE, "no attribute 'grid'");
    gd_object_release(h);
    assert_int_equal(w.alive, 0);
    gd_scope_end(w.ctx);
}

/* Each of three objects fails to move once: everything is where it was, tensors too. */
static void an_object_that_cannot_move_leaves_the_whole_tree(void **state)
{
    world w;
    begin_world(&w, state);
    gd_module *m = gd_module_new(gd_class_module(w.ctx)), *child = gd_module_new(gd_class_module(w.ctx));
    ok(gd_module_set_parameter(m, "w", VECTOR(w.ctx, 1, 2)));
    ok(gd_module_set_module(m, "child", child));
    static const char *const names[] = {"a", "child.b", "child.c"};
    for (int i = 0; i < 3; i++)
        ok(gd_module_set_object(m, names[i], grid_new(w.cls, w.cpu, GD_F64, &w.alive)));
    for (int k = 1; k <= 3; k++) {
        w.m = (moving){.fail_at = k};
        assert_int_equal(gd_module_to_device(m, &w.other), GD_DEVICE);
        expect_error(w.ctx, GD_DEVICE, "no room for the grid");
        w.m = (moving){.fail_at = k};
        assert_int_equal(gd_module_to(m, GD_F32), GD_DEVICE);
        expect_error(w.ctx, GD_DEVICE, "no room for the grid");
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(grid_at(m, names[i])->device, w.cpu);
            assert_int_equal(grid_at(m, names[i])->dtype, GD_F64);
        }
        assert_ptr_equal(gd_tensor_device(gd_module_get_tensor(m, "w")), w.cpu);
        assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(m, "w")), GD_F64);
        assert_ptr_equal(gd_module_device(child), w.cpu);
        assert_int_equal(w.alive, 3);
    }
    gd_scope_end(w.ctx);
    assert_int_equal(w.alive, 0);
}

static void tensors_modules_and_plain_instances_are_objects_too(void **state)
{
    world w;
    begin_world(&w, state);
    gd_module *m = gd_module_new(gd_class_module(w.ctx)), *child = gd_module_new(gd_class_module(w.ctx));
    gd_tensor *t = gd_require_grad(VECTOR(w.ctx, 1, 2));
    ok(gd_module_set_object(m, "t", gd_tensor_object(t)));
    assert_true(gd_module_has(m, "tensor:t") && gd_module_get_tensor(m, "t") != t); /* owned by value */
    ok(gd_module_set_object(m, "child", gd_module_object(child)));
    assert_ptr_equal(gd_module_get_module(m, "child"), child);
    assert_ptr_equal(gd_module_get_object(m, "child"), gd_module_object(child));
    gd_object *plain = gd_instance_new(gd_class_object(w.ctx), NULL,
                                       NULL); /* its class says nothing of moving */
    ok(gd_module_set_object(m, "plain", plain));
    ok(gd_module_to_device(m, &w.other));
    assert_ptr_equal(gd_module_get_object(m, "plain"), plain);
    ok(gd_module_set_int(m, "n", 1));
    assert_null(gd_module_get_object(m, "n"));
    expect_error(w.ctx, GD_TYPE, "attribute 'n' is an int, not an object");
    assert_int_equal(gd_module_set_object(m, "none", NULL), GD_ARGUMENT);
    expect_error(w.ctx, GD_ARGUMENT, "no object of this context given for 'none'");
    assert_int_equal(gd_class_on_move(gd_class_module(w.ctx), grid_move, NULL), GD_TYPE);
    expect_error(w.ctx, GD_TYPE, "move by themselves");
    gd_scope_end(w.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_object_follows_its_module),
        TEST(replaced_and_deleted_objects_are_released),
        TEST(an_object_that_cannot_move_leaves_the_whole_tree),
        TEST(tensors_modules_and_plain_instances_are_objects_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
