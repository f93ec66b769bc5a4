/* Every allocation of this layer fails once: no crash, no leak, and the context goes on afterwards. */
#include "module/support.h"

#include <unistd.h>

#include "module/module_internal.h"
#include "tensor/device.h"

/* A scenario returns true when all of it worked.  It opens no scope of its own unless it must, and releases what it
 * made whatever failed. */
typedef bool (*scenario)(gd_ctx *ctx);

/* Where a scenario runs: outside every scope; in a scope, as user code mostly does; in so many scopes that the next one
 * needs memory. */
typedef enum surroundings { NO_SCOPE, IN_A_SCOPE, IN_MANY_SCOPES } surroundings;

static size_t enter(gd_ctx *ctx, surroundings where)
{
    if (where != NO_SCOPE) gd_scope_begin(ctx);
    while (where == IN_MANY_SCOPES && ctx->scope.depth < ctx->scope.mark_capacity) gd_scope_begin(ctx);
    return ctx->scope.depth;
}

static void leave(gd_ctx *ctx, size_t scopes)
{
    while (scopes--) gd_scope_end(ctx);
}

/* Fills the list of the innermost scope, so that the next object needs memory for its place; not counted. */
static void fill_scope(gd_ctx *ctx)
{
    memory *m = ctx->allocator.user, before = *m;
    m->fail_at = 0;
    while (ctx->scope.depth && (!ctx->scope.capacity || ctx->scope.count < ctx->scope.capacity))
        gd_scalar(ctx, GD_F64, 0);
    m->fail_at = before.fail_at;
    m->requests = before.requests;
}

/* Runs a scenario with the k-th allocation failing, k = 1, 2, ..., until none fails. */
static void fail_each(scenario run, surroundings where)
{
    int64_t k = 0;
    for (bool done = false; !done; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        assert_non_null(ctx);
        size_t scopes = enter(ctx, where);
        m.fail_at = m.requests + k + 1;
        bool worked = run(ctx);
        done = !m.failed;
        m.fail_at = 0;
        if (!worked && done) fail_msg("failed without a failing allocation: %s", gd_error_text(ctx));
        if (gd_error(ctx) != (done ? GD_OK : GD_NOMEM))
            fail_msg("allocation %lld: recorded %s: %s", (long long)k + 1, gd_status_name(gd_error(ctx)),
                     gd_error_text(ctx));
        gd_clear_error(ctx);
        leave(ctx, scopes);
        if (gd_ctx_live(ctx))
            fail_msg("%lld objects alive after allocation %lld failed", (long long)gd_ctx_live(ctx),
                     (long long)k + 1);
        /* the same context does it all when there is memory again */
        scopes = enter(ctx, where);
        if (!run(ctx)) fail_msg("after allocation %lld failed: %s", (long long)k + 1, gd_error_text(ctx));
        leave(ctx, scopes);
        assert_int_equal(gd_ctx_live(ctx), 0);
        gd_ctx_free(ctx);
        if (m.blocks)
            fail_msg("%lld blocks left after allocation %lld failed", (long long)m.blocks, (long long)k + 1);
    }
    print_message("%lld allocations\n", (long long)k - 1);
}

static int64_t many(const char *text) { return (int64_t)strlen(text); }

#define TRY(expression) \
    if (!(expression)) goto out
#define TRY_OK(expression) TRY((expression) == GD_OK)

/* ---- classes and dispatch ---- */

static gd_object *answer(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)argument, (void)kwargs, (void)user;
    return gd_instance_new(gd_class_object(gd_object_ctx(functional)), NULL, NULL);
}

static gd_object *method(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    return answer(self, NULL, kwargs, user);
}

static bool classes(gd_ctx *ctx)
{
    gd_object *f = NULL, *x = NULL, *y = NULL, *z = NULL;
    bool done = false;
    gd_class *functional, *base, *a, *b, *c, *kinds[40];
    TRY(functional = gd_class_functional(ctx));
    TRY(base = gd_class_new(ctx, "F", &functional, 1));
    TRY(a = gd_class_new(ctx, "A", NULL, 0));
    TRY(b = gd_class_new(ctx, "B", &a, 1));
    TRY(c = gd_class_new(ctx, "C", (gd_class *[]){b, a}, 2));
    TRY_OK(gd_class_add_method(a, "run", method, NULL));
    TRY_OK(gd_register(base, a, answer, NULL));
    TRY(f = gd_instance_new(base, NULL, NULL));
    TRY(x = gd_instance_new(c, NULL, NULL));
    TRY(y = gd_invoke(f, x, GD_KWARGS(gd_int_argument("k", 1))));
    TRY(z = gd_call_method(x, "run", NULL));
    for (int i = 0; i < 40; i++) { /* the tables grow */
        TRY(kinds[i] = gd_class_new(ctx, "K", i ? &kinds[i - 1] : &a, 1));
        TRY_OK(gd_register(base, kinds[i], answer, NULL));
        gd_object *k = gd_instance_new(kinds[i], NULL, NULL);
        TRY(k);
        bool allowed = gd_allows(f, k);
        gd_object_release(k);
        TRY(allowed);
    }
    done = true;
out:
    gd_object_release(z);
    gd_object_release(y);
    gd_object_release(x);
    gd_object_release(f);
    return done;
}

/* ---- modules ---- */

static gd_class *net_class(gd_ctx *ctx)
{
    gd_class *base = gd_class_module(ctx), *cls = base ? gd_class_new(ctx, "Net", &base, 1) : NULL;
    return cls && gd_class_no_grad(cls, "basis, mask") == GD_OK ? cls : NULL;
}

static bool attributes(gd_ctx *ctx)
{
    gd_module *m = NULL, *child = NULL;
    gd_tensor *t = NULL, *named = NULL, *copy = NULL;
    bool done = false;
    int number = 0;
    gd_class *cls = net_class(ctx);
    TRY(cls);
    TRY(m = gd_module_new(cls));
    TRY(child = gd_module_new(cls));
    TRY(t = VECTOR(ctx, 1, 2));
    TRY(named = gd_rename(t, "row"));
    TRY_OK(gd_module_set_parameter(m, "w", named));
    TRY_OK(gd_module_set_tensor(m, "basis", t));
    TRY_OK(gd_module_set_tensor(m, "w", t)); /* replaces */
    TRY_OK(gd_module_set_parameter(child, "w", t));
    TRY_OK(gd_module_set_module(m, "child", child));
    TRY_OK(gd_module_set_tensor(m, "child.mask", t));
    TRY_OK(gd_module_set_int(m, "i", 1));
    TRY_OK(gd_module_set_real(m, "r", 1));
    TRY_OK(gd_module_set_string(m, "s", "a"));
    TRY_OK(gd_module_set_string(m, "s", "b"));
    TRY_OK(gd_module_set_pointer(m, "p", &number, NULL));
    TRY_OK(gd_module_delete(m, "r"));
    TRY(copy = gd_module_export(m, "child.w"));
    TRY(gd_module_get_tensor(m, "child.tensor:w"));
    done = true;
out:
    gd_release(copy);
    gd_release(named);
    gd_release(t);
    gd_module_release(child);
    gd_module_release(m);
    return done;
}

/* A tree of three modules; NULL when there is no memory. */
static gd_module *small_tree(gd_ctx *ctx)
{
    gd_class *cls = net_class(ctx);
    gd_module *m = cls ? gd_module_new(cls) : NULL;
    gd_tensor *t = m ? VECTOR(ctx, 1, 2, 3) : NULL;
    const char *names[] = {"left", "left.deep"};
    bool fine = t && gd_module_set_parameter(m, "w", t) == GD_OK;
    for (int i = 0; i < 2 && fine; i++) {
        gd_module *part = gd_module_new(cls);
        fine = part && gd_module_set_parameter(part, "w", t) == GD_OK &&
               gd_module_set_tensor(part, "basis", t) == GD_OK &&
               gd_module_set_module(m, names[i], part) == GD_OK;
        gd_module_release(part);
    }
    gd_release(t);
    if (fine) return m;
    gd_module_release(m);
    return NULL;
}

static bool trees(gd_ctx *ctx)
{
    gd_device *cpu = gd_device_get(ctx, "cpu"), other;
    gd_named *lists[4] = {0};
    bool done = false;
    gd_module *m = cpu ? small_tree(ctx) : NULL;
    TRY(m);
    other = *cpu; /* works as the CPU does */
    TRY(lists[0] = gd_module_parameters(m, "*w"));
    TRY(lists[1] = gd_module_buffers(m, NULL));
    TRY(lists[2] = gd_module_modules(m, "l*"));
    TRY(lists[3] = gd_module_export_all(m));
    TRY_OK(gd_module_freeze(m));
    TRY_OK(gd_module_unfreeze(m));
    TRY_OK(gd_module_to(m, GD_F32));
    TRY_OK(gd_module_to_device(m, &other));
    TRY_OK(gd_module_cpu(m));
    TRY_OK(gd_module_to(m, GD_F64));
    done = true;
out:
    if (m) { /* whole tree or nothing: all of one dtype and on one device */
        gd_tensor *w = gd_module_get_tensor(m, "w"), *deep = gd_module_get_tensor(m, "left.deep.basis");
        assert_int_equal(gd_tensor_dtype(w), gd_tensor_dtype(deep));
        assert_ptr_equal(gd_tensor_device(w), gd_tensor_device(deep));
        assert_ptr_equal(gd_module_device(m), gd_tensor_device(deep));
    }
    for (int i = 0; i < 4; i++) gd_named_release(lists[i]);
    gd_module_release(m);
    return done;
}

/* An instance that changes wherever its module goes. */
static gd_object *renewed(gd_object *object, gd_device *device, gd_dtype dtype, void *user)
{
    (void)device, (void)dtype, (void)user;
    return gd_instance_new((gd_class *)(uintptr_t)gd_object_class(object), NULL, NULL);
}

static bool objects(gd_ctx *ctx)
{
    gd_device *cpu = gd_device_get(ctx, "cpu"), other;
    gd_class *cls = cpu ? gd_class_new(ctx, "Grid", NULL, 0) : NULL;
    gd_module *m = NULL;
    gd_object *grid = NULL, *before = NULL;
    gd_tensor *t = NULL;
    bool done = false;
    TRY(cls);
    other = *cpu;
    TRY_OK(gd_class_on_move(cls, renewed, NULL));
    TRY(m = small_tree(ctx));
    TRY(grid = gd_instance_new(cls, NULL, NULL));
    TRY(t = VECTOR(ctx, 1, 2));
    TRY_OK(gd_module_set_object(m, "grid", grid));
    TRY_OK(gd_module_set_object(m, "left.grid", grid));
    TRY_OK(gd_module_set_object(m, "left.tensor", gd_tensor_object(t)));
    before = gd_module_get_object(m, "grid");
    TRY_OK(gd_module_to_device(m, &other));
    before = NULL;
    TRY_OK(gd_module_cpu(m));
    TRY(gd_module_get_object(m, "left.grid") && gd_module_get_object(m, "grid"));
    done = true;
out:
    if (before)
        assert_ptr_equal(gd_module_get_object(m, "grid"), before); /* a move that failed has moved nothing */
    gd_release(t);
    gd_object_release(grid);
    gd_module_release(m);
    return done;
}

/* ---- virtual tensors ---- */

static gd_tensor *twice(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    return gd_mul_scalar(gd_module_get_tensor(owner, "w"), 2);
}

static gd_tensor *more(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    return gd_add_scalar(gd_mul_scalar(gd_module_get_tensor(owner, "twice"), 2), 1);
}

static gd_object *thrice(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    (void)kwargs, (void)user;
    gd_module *m = gd_object_module(self);
    return gd_tensor_object(gd_mul_scalar(gd_module_get_tensor(m, "w"), gd_module_has(m, "absent") ? 1 : 3));
}

static bool virtuals(gd_ctx *ctx)
{
    gd_module *m = NULL;
    gd_virtual *v = NULL;
    gd_tensor *t = NULL, *values[4] = {0}, *copy = NULL;
    bool done = false;
    gd_class *cls = net_class(ctx);
    TRY(cls);
    TRY_OK(gd_class_add_method(cls, "make", thrice, NULL));
    TRY(m = gd_module_new(cls));
    TRY(t = VECTOR(ctx, 1, 2));
    TRY_OK(gd_module_set_parameter(m, "w", t));
    gd_virtual_options options = gd_virtual_defaults();
    options.fn = twice;
    options.memoise = true;
    TRY_OK(gd_virtual_create(m, "twice", &options));
    options.fn = more;
    options.dtype = GD_F64;
    TRY_OK(gd_virtual_create(m, "more", &options));
    options.fn = NULL;
    options.method = "make";
    options.memoise = false;
    TRY(v = gd_virtual_new(m, "thrice", &options));
    TRY_OK(gd_module_set_virtual(v));
    TRY(values[0] = gd_virtual_value(v));
    TRY(values[1] = gd_virtual_value(gd_module_get_virtual(m, "more")));
    TRY(values[2] = gd_virtual_value(gd_module_get_virtual(m, "more"))); /* remembered */
    TRY(gd_module_get_tensor(m, "more"));
    TRY_OK(gd_fill(gd_module_get_tensor(m, "w"), 4));
    TRY_OK(gd_virtual_to(v, GD_F16, NULL));
    TRY(values[3] = gd_virtual_value(v));
    TRY(copy = gd_module_export(m, "more"));
    TRY_OK(gd_module_delete(m, "twice"));
    done = true;
out:
    for (int i = 0; i < 4; i++) gd_release(values[i]);
    gd_release(copy);
    gd_release(t);
    gd_virtual_release(v);
    gd_module_release(m);
    return done;
}

/* ---- state ---- */

static bool states(gd_ctx *ctx)
{
    gd_module *from = small_tree(ctx), *to = from ? small_tree(ctx) : NULL;
    gd_archive *archive = NULL;
    gd_load_report *report = NULL;
    gd_tensor *one = NULL;
    bool done = false;
    char path[64];
    snprintf(path, sizeof path, "gradus_test_oom_%ld.safetensors", (long)getpid());
    TRY(to);
    TRY_OK(gd_module_set_int(to, "left.w", 1)); /* unexpected in the state */
    TRY(archive = gd_module_state(from));
    gd_load_options options = gd_load_defaults();
    options.partial = true;
    TRY_OK(gd_module_load_state(to, archive, &options, &report));
    TRY(many(gd_load_report_text(report)) > 0);
    TRY_OK(gd_module_save(from, path));
    TRY_OK(gd_module_load(from, path, NULL, NULL));
    TRY(one = gd_archive_load_tensor(ctx, path, "left.deep.basis"));
    done = true;
out:
    gd_release(one);
    gd_load_report_release(report);
    gd_archive_free(archive);
    gd_module_release(to);
    gd_module_release(from);
    unlink(path);
    return done;
}

/* ---- layers ---- */

static bool call(gd_module *m, gd_tensor *x)
{
    gd_tensor *y = m && x ? gd_module_call(m, x) : NULL;
    gd_release(y);
    return y != NULL;
}

static bool layers(gd_ctx *ctx)
{
    gd_tensor *x = NULL, *image = NULL, *index = NULL, *with = NULL;
    gd_module *m[6] = {0};
    bool done = false;
    TRY(x = gd_ones(ctx, GD_F32, 2, (int64_t[]){3, 4}));
    TRY(image = gd_ones(ctx, GD_F32, 4, (int64_t[]){1, 2, 3, 3}));
    TRY(index = gd_zeros(ctx, GD_I64, 1, (int64_t[]){2}));
    TRY(m[0] = gd_attention_new(ctx, 4, 2, &(gd_attention_options){.causal = true, .bias = true}));
    TRY(call(m[0], x));
    TRY(with = gd_module_call_with(m[0], x, GD_KWARGS(gd_int_argument("causal", 0))));
    TRY(m[1] = gd_layer_norm_new(ctx, 4, NULL));
    TRY(call(m[1], x));
    TRY(m[2] = gd_mlp_new(ctx, (int64_t[]){4, 3, 2}, 3, NULL));
    TRY(call(m[2], x));
    TRY(m[3] = gd_conv2d_new(ctx, 2, 2, 2, NULL));
    TRY(call(m[3], image));
    TRY(m[4] = gd_embedding_new(ctx, 3, 2, NULL));
    TRY(call(m[4], index));
    TRY(m[5] = gd_sequential_new(ctx, NULL, 0));
    TRY_OK(gd_sequential_add(m[5], gd_linear_new(ctx, 4, 2, NULL)));
    TRY_OK(gd_sequential_add(m[5], gd_activation_new(ctx, "relu")));
    TRY(call(m[5], x));
    done = true;
out:
    for (int i = 0; i < 6; i++) gd_module_release(m[i]);
    gd_release(with);
    gd_release(x);
    gd_release(image);
    gd_release(index);
    return done;
}

static bool layer_classes(gd_ctx *ctx)
{
    return gd_class_linear(ctx) && gd_class_conv2d(ctx) && gd_class_layer_norm(ctx) &&
           gd_class_embedding(ctx) && gd_class_attention(ctx) && gd_class_activation(ctx) &&
           gd_class_mlp(ctx) && gd_class_sequential(ctx);
}

/* One object of each kind, each where its place in the scope's list must be made. */
static bool makers(gd_ctx *ctx)
{
    gd_class *object = gd_class_object(ctx), *cls = gd_class_module(ctx);
    gd_object *instance = NULL;
    gd_module *m = NULL;
    gd_virtual *v = NULL;
    gd_named *named = NULL;
    gd_archive *archive = NULL;
    gd_load_report *report = NULL;
    gd_virtual_options options = gd_virtual_defaults();
    options.fn = twice;
    bool done = false;
    TRY(object && cls);
    fill_scope(ctx);
    TRY(instance = gd_instance_new(object, NULL, NULL));
    fill_scope(ctx);
    TRY(m = gd_module_new(cls));
    fill_scope(ctx);
    TRY(v = gd_virtual_new(m, "v", &options));
    fill_scope(ctx);
    TRY(named = gd_module_modules(m, NULL));
    TRY(archive = gd_archive_new(ctx));
    fill_scope(ctx);
    TRY_OK(gd_module_load_state(m, archive, NULL, &report));
    done = true;
out:
    gd_load_report_release(report);
    gd_archive_free(archive);
    gd_named_release(named);
    gd_virtual_release(v);
    gd_module_release(m);
    gd_object_release(instance);
    return done;
}

#define EVERYWHERE(run)                                             \
    static void run##_survive_every_failed_allocation(void **state) \
    {                                                               \
        (void)state;                                                \
        fail_each(run, NO_SCOPE);                                   \
        fail_each(run, IN_A_SCOPE);                                 \
        fail_each(run, IN_MANY_SCOPES);                             \
    }

EVERYWHERE(classes)
EVERYWHERE(attributes)
EVERYWHERE(trees)
EVERYWHERE(objects)
EVERYWHERE(virtuals)
EVERYWHERE(states)
EVERYWHERE(layers)
EVERYWHERE(layer_classes)
EVERYWHERE(makers)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_survive_every_failed_allocation),
        cmocka_unit_test(attributes_survive_every_failed_allocation),
        cmocka_unit_test(trees_survive_every_failed_allocation),
        cmocka_unit_test(objects_survive_every_failed_allocation),
        cmocka_unit_test(virtuals_survive_every_failed_allocation),
        cmocka_unit_test(states_survive_every_failed_allocation),
        cmocka_unit_test(layers_survive_every_failed_allocation),
        cmocka_unit_test(layer_classes_survive_every_failed_allocation),
        cmocka_unit_test(makers_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
