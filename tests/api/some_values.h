/* A value of every type that a public function takes, for calls with NULL in one place: valid where a handle is meant,
 * plausible elsewhere.  A new handle type needs its some_TYPE here; the compiler says so. */
#ifndef GD_TESTS_SOME_VALUES_H
#define GD_TESTS_SOME_VALUES_H

#include "support/support.h"

#include <gradus/gradus.h>

/* A public function, called with values from here: tools/gen/gen_null_calls writes the table. */
typedef struct null_call {
    const char *name;
    void (*call)(void);
    const char *pointers; /* a digit a parameter: can it be NULL? */
    const char *handles;  /* is it a handle? */
    bool gives;           /* does it return a handle, or fill a list of them? */
} null_call;

/* One of everything, made once; each call happens in a child process and may do with its copy what it likes. */
static struct {
    gd_ctx *ctx;
    gd_tensor *tensor;
    gd_module *module;
    gd_class *cls;
    gd_virtual *virtual_tensor;
    gd_named *named;
    gd_archive *archive;
    gd_load_report *report;
    gd_link *link, *held;
    gd_optimizer *optimizer;
    gd_linop *linop;
    gd_states *states;
    gd_var *var;
    gd_rule *rule;
    gd_world *alone;
    gd_microbatches *microbatches;
    gd_expr *expr;
    gd_plot *plot;
    gd_table *table;
    gd_traced *traced;
    gd_fit *fit;
    gd_model *model;
    bool lends; /* what is counted is lent, not given */
} world;

static gd_tensor *some_traced(void *user, gd_tensor *const *x, int count)
{
    (void)user;
    return count ? gd_sum(gd_square(x[0]), NULL, false) : NULL;
}

static gd_ctx *some_gd_ctx(void) { return world.ctx; }
static gd_tensor *some_gd_tensor(void) { return world.lends ? world.tensor : gd_retain(world.tensor); }
static gd_device *some_gd_device(void) { return gd_tensor_device(world.tensor); }
static gd_class *some_gd_class(void) { return world.cls; }
static gd_module *some_gd_module(void) { return world.lends ? world.module : gd_module_retain(world.module); }
static gd_object *some_gd_object(void) { return gd_module_object(some_gd_module()); }
static gd_virtual *some_gd_virtual(void)
{
    return world.lends ? world.virtual_tensor : gd_virtual_retain(world.virtual_tensor);
}
static gd_named *some_gd_named(void) { return world.named; }
static gd_archive *some_gd_archive(void) { return world.archive; }
static gd_load_report *some_gd_load_report(void) { return world.report; }
static gd_link *some_gd_link(void) { return world.link; }
static gd_optimizer *some_gd_optimizer(void) { return world.optimizer; }
static gd_linop *some_gd_linop(void) { return world.lends ? world.linop : gd_linop_retain(world.linop); }
static gd_states *some_gd_states(void) { return world.states; }
static gd_var *some_gd_var(void) { return world.var; }
static gd_rule *some_gd_rule(void) { return world.rule; }
static gd_world *some_gd_world(void) { return world.alone; }
static gd_microbatches *some_gd_microbatches(void) { return world.microbatches; }
static gd_expr *some_gd_expr(void) { return world.expr; }
static gd_plot *some_gd_plot(void) { return world.plot; }
static gd_table *some_gd_table(void) { return world.table; }
static gd_traced *some_gd_traced(void) { return world.traced; }
static gd_fit *some_gd_fit(void) { return world.fit; }
static gd_model *some_gd_model(void) { return world.model; }
static gd_exchange *some_gd_exchange(void)
{
    return gd_world_start(world.alone, &(gd_collective){.kind = GD_BARRIER});
}

/* Arrays have room and entries for more than the counts that some_number gives. */
enum { SOME_LENGTH = 4, SOME_BLOCKS = 8, SOME_BYTES = 8192 };

/* The lists that were given, and what stood in them. */
static struct {
    void *list[SOME_BLOCKS][SOME_LENGTH], *item[SOME_BLOCKS];
    int used;
} given;

static void **some_list(void *item)
{
    int i = given.used++ % SOME_BLOCKS;
    given.item[i] = item;
    for (int k = 0; k < SOME_LENGTH; k++) given.list[i][k] = item;
    return given.list[i];
}

static const char **some_texts(void)
{
    static const char *texts[SOME_LENGTH] = {"r", "s", "t", "u"};
    return texts;
}

/* What a parameter of this name is usually given. */
static const char *some_text(const char *parameter)
{
    static const char *const known[][2] = {
        {"axes", "0"},        {"axis", "0"},        {"chain", "lr(0.1)"}, {"field", "momentum"},
        {"function", "relu"}, {"glob", "*"},        {"key", "lr"},        {"path", "/nonexistent/file"},
        {"schedule", "0.1"},  {"settings", "lr=1"}, {"slot", "velocity"}, {"spec", "ij,jk->ik"},
        {"text", "lr(0.1)"},  {"names", "r, s"},
    };
    for (int i = 0; i < COUNT_OF(known); i++)
        if (!strcmp(known[i][0], parameter)) return known[i][1];
    return "some";
}

static double some_number(const char *parameter)
{
    static const struct {
        const char *name;
        double value;
    } known[] = {
        {"axis", 0}, {"index", 0}, {"group", 0},     {"ndim", 2},    {"flags", 0},         {"dtype", GD_F64},
        {"size", 2}, {"bytes", 8}, {"keep_dims", 0}, {"padding", 0}, {"status", GD_VALUE},
    };
    for (int i = 0; i < COUNT_OF(known); i++)
        if (!strcmp(known[i].name, parameter)) return known[i].value;
    return 1;
}

/* Callbacks that fail without saying why. */
static void *no_result(void) { return NULL; }
#define some_function (void (*)(void)) no_result

static gd_tensor *some_loss(void *user) { return gd_sum(gd_square(user), NULL, false); }

static gd_tensor *some_materializer(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    return gd_module_get_tensor(owner, "w");
}

/* Memory of its own for anything else that is pointed to: zeros but for what zeros do not describe. */
static void *some_block(const char *type)
{
    static _Alignas(64) unsigned char blocks[SOME_BLOCKS][SOME_BYTES];
    static int used;
    void *block = memset(blocks[used++ % SOME_BLOCKS], 0, SOME_BYTES);
#define IS(name, ...)                        \
    if (!strcmp(type, #name)) {              \
        name value = __VA_ARGS__;            \
        memcpy(block, &value, sizeof value); \
    }
    IS(gd_options, gd_options_default())
    IS(gd_objective, {.loss = some_loss, .user = world.tensor})
    IS(gd_solve_options, gd_solve_defaults())
    IS(gd_lsq_options, gd_lsq_defaults())
    IS(gd_load_options, gd_load_defaults())
    IS(gd_schedule, gd_schedule_constant(1))
    IS(gd_plateau, gd_plateau_start(1, 0.5, 1))
    IS(gd_link_class, *gd_link_class_find("lr"))
    IS(gd_virtual_options, gd_virtual_defaults())
    IS(gd_world_options, gd_world_defaults())
#undef IS
    if (!strcmp(type, "gd_virtual_options")) ((gd_virtual_options *)block)->fn = some_materializer;
    if (!strcmp(type, "int64_t"))
        for (int i = 0; i < SOME_LENGTH; i++) ((int64_t *)block)[i] = 2;
    if (!strcmp(type, "int")) ((int *)block)[1] = 1;
    return block;
}

/* A line of four points; table: of t and y. */
static gd_fit_spec some_fit_spec(gd_table *table)
{
    static const gd_fit_param params[] = {{.name = "a", .start = 1}, {.name = "b", .start = 1}};
    gd_fit_spec spec = gd_fit_defaults();
    spec.model = "a*t + b";
    spec.table = table;
    spec.params = params;
    spec.param_count = 2;
    return spec;
}

static gd_table *some_measurements(gd_ctx *ctx)
{
    static const double t[] = {0, 1, 2, 3}, y[] = {1, 3.1, 4.9, 7};
    gd_table *table = gd_table_new(ctx, "measured");
    if (gd_table_add_numbers(table, "t", t, 4, 1, NULL, NULL) ||
        gd_table_add_numbers(table, "y", y, 4, 1, NULL, NULL)) {
        gd_table_free(table);
        return NULL;
    }
    return table;
}

/* Trains x2 on x1 of the table in no time. */
static gd_train_spec some_recipe(void)
{
    gd_train_spec s = gd_train_defaults();
    s.target = "x2";
    s.model = "linear";
    s.validation = 0;
    s.epochs = 1;
    return s;
}

/* m: its memory is counted; NULL: not. */
static void make_world(memory *m)
{
    gd_options options = gd_options_default();
    options.threads = 1; /* a forked child has no others */
    options.compile = false;
    if (m) options.allocator = memory_allocator(m), options.pool = false;
    gd_ctx *ctx = world.ctx = gd_ctx_new(&options);
    world.tensor = gd_require_grad(MATRIX(ctx, 2, 2, 2, 1, 1, 2));
    world.cls = gd_class_new(ctx, "Some", (gd_class *[]){gd_class_sequential(ctx)}, 1);
    world.module = gd_module_new(world.cls);
    gd_status failed = gd_module_set_tensor(world.module, "w", world.tensor);
    world.virtual_tensor = gd_virtual_new(world.module, "v", some_block("gd_virtual_options"));
    world.named = gd_module_parameters(world.module, NULL);
    world.archive = gd_module_state(world.module);
    failed |= gd_module_load_state(world.module, world.archive, NULL, &world.report);
    world.link = gd_chain(ctx, "heavy_ball(0.9)");
    world.held = gd_chain(ctx, "heavy_ball(0.9)");
    world.states = gd_states_new(world.held, 1);
    world.optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "heavy_ball(0.9) | lr(0.1)"));
    failed |= gd_optimizer_add(world.optimizer, "p", world.tensor);
    world.linop = gd_linop_dense(world.tensor);
    world.alone = gd_world_open(ctx, "self", NULL);
    world.microbatches = gd_microbatches_new(world.alone, world.tensor, 1);
    world.expr = gd_expr_parse(world.ctx, "2*x", NULL);
    world.traced = gd_trace(world.ctx, some_traced, NULL, NULL);
    world.plot = gd_plot_new(world.ctx, "some", "x", "y");
    world.table = gd_table_new(world.ctx, "some");
    failed |= gd_table_add(world.table, "x", world.tensor);
    gd_table *measured = some_measurements(ctx);
    gd_fit_spec spec = some_fit_spec(measured);
    world.fit = gd_fit_new(ctx, &spec);
    gd_table_free(measured);
    failed |= gd_fit_run(world.fit);
    gd_train_spec recipe = some_recipe();
    world.model = gd_train(ctx, world.table, &recipe);
    if (failed || gd_error(ctx)) fail_msg("%s", gd_error_text(ctx));
}

static void end_world(void)
{
    gd_microbatches_free(world.microbatches);
    gd_expr_free(world.expr);
    gd_traced_free(world.traced);
    gd_plot_free(world.plot);
    gd_fit_free(world.fit);
    gd_table_free(world.table);
    gd_model_free(world.model);
    gd_world_free(world.alone);
    gd_linop_release(world.linop);
    gd_optimizer_free(world.optimizer);
    gd_states_free(world.states);
    gd_link_release(world.held);
    gd_link_release(world.link);
    gd_load_report_release(world.report);
    gd_archive_free(world.archive);
    gd_named_release(world.named);
    gd_virtual_release(world.virtual_tensor);
    gd_module_release(world.module);
    gd_release(world.tensor);
    gd_ctx_free(world.ctx);
}

#endif
