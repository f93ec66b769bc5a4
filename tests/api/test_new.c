/* Every function of every public header that gives handles, called outside every scope and inside one, and with each of its
 * allocations failing: what is new belongs to the innermost scope and dies with it, or is the caller's to end, as base.h says;
 * nothing is left behind.  The calls are made from the headers by tools/gen/gen_null_calls; those that need other values than
 * tests/api/some_values.h has stand here.  A function that gives a handle and is neither seen to give something new nor known
 * to lend it, here or by its comment, fails the test, and so does one whose comment says new and that is listed as lending. */
#include "table/arrow_made.h"
#include "api/some_values.h"
#include "tensor/dlpack_support.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what was given ---- */

typedef enum kind {
    TENSOR,
    MODULE,
    OBJECT,
    VIRTUAL,
    NAMED,
    REPORT, /* have a gd_..._keep */
    ARCHIVE,
    LINK,
    LINOP,
    OPTIMIZER,
    STATES,
    VAR,
    WORLD,
    EXCHANGE,
    MICROBATCHES,
    EXPR,
    PLOT,
    TABLE,
    TRACED,
    FIT,
    MODEL,
    OTHER
} kind;

enum { MOST_GIVEN = 64 };

static struct {
    kind kind[MOST_GIVEN];
    void *handle[MOST_GIVEN];
    int count;
    bool failed; /* the call said so */
} got;

static void note(kind k, void *handle)
{
    if (!handle || k == OTHER || got.count == MOST_GIVEN) return;
    got.kind[got.count] = k;
    got.handle[got.count++] = handle;
}

#define KIND_OF(pointer)                   \
    _Generic((pointer), gd_tensor *        \
             : TENSOR, gd_module *         \
             : MODULE, gd_object *         \
             : OBJECT, gd_virtual *        \
             : VIRTUAL, gd_named *         \
             : NAMED, gd_load_report *     \
             : REPORT, gd_archive *        \
             : ARCHIVE, gd_link *          \
             : LINK, gd_linop *            \
             : LINOP, gd_optimizer *       \
             : OPTIMIZER, gd_states *      \
             : STATES, gd_var *            \
             : VAR, gd_world *             \
             : WORLD, gd_exchange *        \
             : EXCHANGE, gd_microbatches * \
             : MICROBATCHES, gd_expr *     \
             : EXPR, gd_plot *             \
             : PLOT, gd_table *            \
             : TABLE, gd_traced *          \
             : TRACED, gd_fit *            \
             : FIT, gd_model *             \
             : MODEL, default              \
             : OTHER)

static void end_handle(kind k, void *handle)
{
    switch (k) {
    case TENSOR: gd_release(handle); break;
    case MODULE: gd_module_release(handle); break;
    case OBJECT: gd_object_release(handle); break;
    case VIRTUAL: gd_virtual_release(handle); break;
    case NAMED: gd_named_release(handle); break;
    case REPORT: gd_load_report_release(handle); break;
    case ARCHIVE: gd_archive_free(handle); break;
    case LINK: gd_link_release(handle); break;
    case LINOP: gd_linop_release(handle); break;
    case OPTIMIZER: gd_optimizer_free(handle); break;
    case STATES: gd_states_free(handle); break;
    case VAR: gd_var_free(handle); break;
    case WORLD: gd_world_free(handle); break;
    case EXCHANGE: (void)!gd_world_wait(handle); break;
    case MICROBATCHES: gd_microbatches_free(handle); break;
    case EXPR: gd_expr_free(handle); break;
    case PLOT: gd_plot_free(handle); break;
    case TABLE: gd_table_free(handle); break;
    case TRACED: gd_traced_free(handle); break;
    case FIT: gd_fit_free(handle); break;
    case MODEL: gd_model_free(handle); break;
    case OTHER: break;
    }
}

static bool dies_with_scopes(kind k) { return k <= REPORT; }

#define IS_NULL(i)            false
#define GAVE_STATUS(status)   (void)(got.failed = (status) != GD_OK)
#define GAVE_TEXT(text)       (void)(text)
#define GAVE_POINTER(pointer) note(KIND_OF(pointer), (void *)(uintptr_t)(pointer))

#include "new_functions.h"
#pragma GCC diagnostic ignored "-Wformat-security" /* texts without arguments */
#include "null_calls.h"

/* Entries of lists that the function has replaced. */
static void note_lists(void)
{
    for (int i = 0; i < SOME_BLOCKS && i < given.used && !got.failed; i++) {
        kind k = given.item[i] == world.tensor ? TENSOR : given.item[i] == world.report ? REPORT : OTHER;
        for (int n = 0; n < SOME_LENGTH; n++)
            if (given.list[i][n] != given.item[i]) note(k, given.list[i][n]);
    }
}

#include "api/own_values.h" /* functions that need values of their own */

/* ---- the calls ---- */

typedef struct own_call {
    const char *name;
    void (*call)(void);
} own_call;

static const own_call own_calls[] = {
    {"gd_hvp", own_gd_hvp},
    {"gd_jvp", own_gd_jvp},
    {"gd_jacobian", own_gd_jacobian},
    {"gd_jacobian_of", own_gd_jacobian_of},
    {"gd_hessian", own_gd_hessian},
    {"gd_traced_sparsity", own_gd_traced_sparsity},
    {"gd_from_dlpack", own_gd_from_dlpack},
    {"gd_from_dlpack_unversioned", own_gd_from_dlpack_unversioned},
    {"gd_squeeze", own_gd_squeeze},
    {"gd_index_select", own_gd_index_select},
    {"gd_index_label", own_gd_index_label},
    {"gd_align", own_gd_align},
    {"gd_contract", own_gd_contract},
    {"gd_einsum", own_gd_einsum},
    {"gd_dot", own_gd_dot},
    {"gd_outer", own_gd_outer},
    {"gd_conv2d", own_gd_conv2d},
    {"gd_conv2d_with", own_gd_conv2d_with},
    {"gd_max_pool2d", own_gd_max_pool2d},
    {"gd_avg_pool2d", own_gd_avg_pool2d},
    {"gd_layer_norm", own_gd_layer_norm},
    {"gd_embedding", own_gd_embedding},
    {"gd_dropout", own_gd_dropout},
    {"gd_cross_entropy", own_gd_cross_entropy},
    {"gd_where", own_gd_where},
    {"gd_bit_not", own_gd_bit_not},
    {"gd_bit_and", own_gd_bit_and},
    {"gd_bit_or", own_gd_bit_or},
    {"gd_bit_xor", own_gd_bit_xor},
    {"gd_shift_left", own_gd_shift_left},
    {"gd_shift_right", own_gd_shift_right},
    {"gd_gather", own_gd_gather},
    {"gd_scatter_add", own_gd_scatter_add},
    {"gd_get", own_gd_get},
    {"gd_put", own_gd_put},
    {"gd_world_open", own_gd_world_open},
    {"gd_linop_diagonal", own_gd_linop_diagonal},
    {"gd_linop_low_rank", own_gd_linop_low_rank},
    {"gd_linop_gram", own_gd_linop_gram},
    {"gd_covariance", own_gd_covariance},
    {"gd_distances", own_gd_distances},
    {"gd_map_stacked", own_gd_map_stacked},
    {"gd_scan", own_gd_scan},
    {"gd_linop_scaled", own_gd_linop_scaled},
    {"gd_linop_shifted", own_gd_linop_shifted},
    {"gd_linop_composed", own_gd_linop_composed},
    {"gd_linop_matvec", own_gd_linop_matvec},
    {"gd_projected_cg", own_gd_projected_cg},
    {"gd_linop_rmatvec", own_gd_linop_rmatvec},
    {"gd_linop_solve", own_gd_linop_solve},
    {"gd_linop_congruent", own_gd_linop_congruent},
    {"gd_var_inner_evaluate_at", own_gd_var_inner_evaluate_at},
    {"gd_directions_estimate", own_gd_directions_estimate},
    {"gd_directions_estimate_in_place", own_gd_directions_estimate_in_place},
    {"gd_least_norm", own_gd_least_norm},
    {"gd_dense_hessian", own_gd_dense_hessian},
    {"gd_limited_memory_hessian", own_gd_limited_memory_hessian},
    {"gd_krylov_at", own_gd_krylov_at},
    {"gd_link_with", own_gd_link_with},
    {"gd_chain_of", own_gd_chain_of},
    {"gd_expr_parse", own_gd_expr_parse},
    {"gd_trace", own_gd_trace},
    {"gd_train", own_gd_train},
    {"gd_model_load", own_gd_model_load},
    {"gd_model_predict_rows", own_gd_model_predict_rows},
    {"gd_table_load", own_gd_table_load},
    {"gd_table_from_arrow", own_gd_table_from_arrow},
    {"gd_fit_new", own_gd_fit_new},
    {"gd_fit_by", own_gd_fit_by},
    {"gd_fit_by_plot", own_gd_fit_by_plot},
    {"gd_fit_load", own_gd_fit_load},
    {"gd_fit_predict", own_gd_fit_predict},
    {"gd_table_load_all", own_gd_table_load_all},
    {"gd_table_matrix", own_gd_table_matrix},
    {"gd_table_select", own_gd_table_select},
    {"gd_table_select_rows", own_gd_table_select_rows},
    {"gd_optimizer_new", own_gd_optimizer_new},
    {"gd_sequential_new", own_gd_sequential_new},
    {"gd_instance_new", own_gd_instance_new},
    {"gd_invoke", own_gd_invoke},
    {"gd_archive_load", own_gd_archive_load},
    {"gd_archive_load_tensor", own_gd_archive_load_tensor},
    {"gd_npy_load", own_gd_npy_load},
    {"gd_module_export", own_gd_module_export},
    {"gd_virtual_new", own_gd_virtual_new},
    {"gd_conv1d_new", own_gd_conv1d_new},
    {"gd_dropout_layer_new", own_gd_dropout_layer_new},
    {"gd_conv2d_new", own_gd_conv2d_new},
    {"gd_mlp_new", own_gd_mlp_new},
    {"gd_module_load", own_gd_module_load},
    {"gd_optimizer_load_report", own_gd_optimizer_load_report},
    {"gd_optimizer_unpack_report", own_gd_optimizer_unpack_report},
    {"gd_var_inner_evaluate", own_gd_var_inner_evaluate},
    {"gd_var_constraints", own_gd_var_constraints},
    {"gd_var_free_mask", own_gd_var_free_mask},
    {"gd_link_hessian", own_gd_link_hessian},
    {"gd_link_keyed_apply", own_gd_link_keyed_apply},
    {"gd_link_random_list", own_gd_link_random_list},
    {"gd_states_apply", own_gd_states_apply},
    {"gd_transform_child", own_gd_transform_child},
    {"gd_transform_below", own_gd_transform_below},
    {"gd_least_squares", own_gd_least_squares},
};

/* Lend what they give, without saying it beside their prototypes. */
static const char *const lending[] = {
    "gd_require_grad",   "gd_link_state_from",   "gd_kwargs_object", "gd_kwargs_tensor",
    "gd_virtual_device", "gd_link_keyed_update", "gd_states_update",
};

static bool is_one_of(const char *name, const char *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(list[i], name)) return true;
    return false;
}

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

static const char *word_of(const char *name)
{
    for (int i = 0; i < COUNT_OF(new_functions); i++)
        if (!strcmp(new_functions[i].name, name)) return new_functions[i].word;
    return "";
}

static bool lends(const char *name)
{
    return !strcmp(word_of(name), "borrowed") || is_one_of(name, lending, COUNT_OF(lending));
}

/* Keeping is what scopes are left with; classes, devices and contexts are nobody's to end but a context's own. */
static bool is_left_out(const null_call *f)
{
    return (!f->gives && strcmp(f->name, "gd_least_squares") != 0) || ends_in(f->name, "_keep") ||
           ends_in(f->name, "_ctx") || !strncmp(f->name, "gd_class_", 9) || !strcmp(f->name, "gd_ctx_new");
}

static void (*call_of(const null_call *f))(void)
{
    for (int i = 0; i < COUNT_OF(own_calls); i++)
        if (!strcmp(own_calls[i].name, f->name)) return own_calls[i].call;
    return f->call;
}

/* ---- one call, in a child process ---- */

typedef struct trial {
    const null_call *function;
    bool scoped;
    int64_t fail_at; /* which of its allocations; 0: none */
    memory m;
    bool happened;
    const char *wrong;
    char text[256];
} trial;

static trial now;

static void complain(const char *wrong)
{
    if (now.wrong) return;
    now.wrong = wrong;
    snprintf(now.text, sizeof now.text, "%.255s", gd_error_text(C));
}

/* Is it one of those that the call was given?  (Links and operators are counted: one may be given back with a reference.) */
static bool was_there(kind k, const void *handle)
{
    const void *const there[] = {world.tensor,
                                 world.module,
                                 world.virtual_tensor,
                                 world.named,
                                 world.report,
                                 more.image,
                                 more.vector,
                                 more.labelled,
                                 more.functional,
                                 gd_tensor_object(world.tensor),
                                 gd_module_object(world.module)};
    for (int i = 0; i < COUNT_OF(there) && dies_with_scopes(k); i++)
        if (there[i] == handle) return true;
    return false;
}

static void act(void)
{
    int64_t live = gd_ctx_live(C);
    bool borrowed = lends(now.function->name);
    given.used = got.count = 0;
    got.failed = false;
    if (now.scoped) gd_scope_begin(C);
    now.m.failed = false;
    now.m.fail_at = now.fail_at ? now.m.requests + now.fail_at : 0;
    call_of(now.function)();
    now.m.fail_at = 0;
    now.happened = now.m.failed;
    note_lists();
    if (!now.fail_at && !got.count && !borrowed) complain("gave nothing");
    if (!now.fail_at && got.count && gd_error(C)) complain("gave something and recorded an error");
    if (now.happened && gd_error(C) && gd_error(C) != GD_NOMEM)
        complain("failed for want of memory with another error");
    gd_clear_error(C);
    bool retains = ends_in(now.function->name, "_retain");
    for (int i = 0; i < got.count; i++)
        if (was_there(got.kind[i], got.handle[i]) && !borrowed && !retains) {
            complain("gave back what it was given");
            borrowed = true; /* ending it would end the world's */
        }
    for (int i = 0; i < got.count && !borrowed; i++)
        if (!now.scoped || !dies_with_scopes(got.kind[i]) || retains) end_handle(got.kind[i], got.handle[i]);
    if (now.scoped) gd_scope_end(C);
    /* more may be alive: state of links, what a step remembers; in the end it goes with its owner or is found left behind */
    if (!borrowed && gd_ctx_live(C) < live) complain("took away what was there before");
}

static gd_status act_in_step(gd_link *link, gd_var *var)
{
    (void)link;
    world.var = var;
    gd_var_skip_update(var);
    gd_var_note_constraints(var, 0, 0, 0, true, false);
    act();
    world.var = NULL;
    return GD_OK;
}
static const gd_link_class step_class = {.name = "step_with_calls", .step = act_in_step};

/* A var lives only inside a step, where the library's scope is the outer one. */
static bool is_of_a_step(const char *name)
{
    static const char *const others[] = {
        "gd_link_hessian",           "gd_link_hessian_matrix", "gd_link_hessian_products",
        "gd_link_hessian_times",     "gd_link_update_vector",  "gd_dense_hessian",
        "gd_limited_memory_hessian", "gd_directions_estimate", "gd_directions_estimate_in_place"};
    return !strncmp(name, "gd_var_", 7) || is_one_of(name, others, COUNT_OF(others));
}

static gd_status act_in_transform(const gd_transform *t)
{
    gd_tensor *list = t->tensors[0];
    gd_status status = gd_transform_child(t, "child", &list);
    the_transform = t;
    if (!status) act();
    return status;
}
static const gd_field child_fields[] = {GD_CHILD_NEEDED("child", "runs on the update")};
static const gd_link_class transform_class = {
    .name = "transform_with_calls", GD_FIELDS(child_fields), .apply_tensors = act_in_transform};

static void try_in_transform(void)
{
    gd_link *link = gd_link_new(C, &transform_class);
    gd_tensor *t = T;
    if (gd_link_set_child(link, "child", gd_chain(C, "heavy_ball(0.9)")) ||
        gd_link_keyed_apply(link, &t, &T, NULL, NULL, 1))
        complain("the transform fails");
    gd_release(t);
    gd_link_release(link);
}

static void try_in_step(void)
{
    gd_optimizer *o = gd_optimizer_new(C, gd_link_new(C, &step_class));
    gd_objective objective = {.loss = residuals, .user = T, .equal = residuals, .below = residuals};
    if (gd_optimizer_add(o, "p", T) || gd_optimizer_step(o, &objective, NULL)) complain("the step fails");
    gd_optimizer_free(o);
}

static void try_once(bool scoped, int64_t fail_at)
{
    now = (trial){.function = now.function, .scoped = scoped, .fail_at = fail_at};
    make_world(&now.m);
    make_more();
    world.lends = true;
    if (is_of_a_step(now.function->name)) {
        now.scoped = true;
        try_in_step();
    } else if (!strncmp(now.function->name, "gd_transform_", 13)) {
        now.scoped = true;
        try_in_transform();
    } else
        act();
    if (!now.wrong && now.fail_at == 0 && lends(now.function->name) &&
        !strcmp(word_of(now.function->name), "new"))
        complain("is listed as lending, but its comment says new");
    end_more();
    world.lends = false;
    end_world();
    if (!now.wrong && (now.m.blocks || now.m.bytes)) now.wrong = "left memory behind";
}

enum { MOST_FAILURES = 24 };

static int try_function(void)
{
    for (int scoped = 0; scoped < 2; scoped++) {
        try_once(scoped, 0);
        bool more_to_fail = !now.wrong;
        for (int64_t k = 1, n = 0; more_to_fail && n < MOST_FAILURES; n++, k += n < 12 ? 1 : n) {
            try_once(scoped, k);
            more_to_fail = now.happened && !now.wrong;
        }
        if (!now.wrong) continue;
        print_error("%s, %s a scope, allocation %d failing: %s: %s\n", now.function->name,
                    scoped ? "inside" : "outside", (int)now.fail_at, now.wrong, now.text);
        return 1;
    }
    return 0;
}

static bool goes_well(const null_call *f)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    now = (trial){.function = f};
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        for (int s = 0; s < COUNT_OF(fatal); s++)
            signal(fatal[s], SIG_DFL); /* cmocka's would go on with the parent's tests */
        int wrong = try_function();
        fflush(NULL);
        _exit(wrong);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) print_error("%s crashed\n", f->name);
    return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void what_is_new_belongs_to_the_innermost_scope_or_to_the_caller(void **state)
{
    (void)state;
    int wrong = 0, tried = 0;
    for (int i = 0; i < COUNT_OF(null_calls); i++) {
        if (is_left_out(&null_calls[i])) continue;
        tried++;
        wrong += !goes_well(&null_calls[i]);
    }
    print_message("%d functions\n", tried);
    if (wrong) fail_msg("%d functions go wrong", wrong);
}

/* Every function that a comment calls new is among those tried. */
static void every_comment_that_says_new_is_about_a_function_that_is_tried(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(new_functions); i++) {
        bool tried = strcmp(new_functions[i].word, "new") != 0;
        for (int k = 0; k < COUNT_OF(null_calls) && !tried; k++)
            tried = !strcmp(null_calls[k].name, new_functions[i].name) &&
                    (!is_left_out(&null_calls[k]) || ends_in(null_calls[k].name, "_ctx"));
        if (!tried && strcmp(new_functions[i].name, "gd_ctx_new") != 0)
            fail_msg("%s is not tried", new_functions[i].name);
    }
}

/* Large inputs whose values a rule does not need are held by shape alone. */
static void a_graph_made_outside_every_scope_leaves_nothing_behind(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_tensor *x = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){1 << 16}));
    for (int i = 0; i < 3; i++) {
        gd_tensor *y = gd_exp(x), *z = gd_add_scalar(y, 1), *loss = gd_sum(z, NULL, false);
        assert_int_equal(gd_backward(loss, NULL, 0), GD_OK);
        gd_zero_grad(x);
        gd_release(y);
        gd_release(z);
        gd_release(loss);
        assert_int_equal(gd_ctx_live(ctx), 1);
    }
    gd_release(x);
    end_context(ctx, &m);
}

static int make_files(void **state)
{
    (void)state;
    if (!mkdtemp(file_folder)) return 1;
    snprintf(tensors_path, sizeof tensors_path, "%s/tensors.safetensors", file_folder);
    snprintf(array_path, sizeof array_path, "%s/array.npy", file_folder);
    snprintf(model_path, sizeof model_path, "%s/model.safetensors", file_folder);
    snprintf(optimizer_path, sizeof optimizer_path, "%s/optimizer.safetensors", file_folder);
    snprintf(fit_path, sizeof fit_path, "%s/fit.safetensors", file_folder);
    make_world(NULL);
    int failed = gd_module_save(world.module, tensors_path) || gd_npy_save(world.tensor, array_path) ||
                 gd_model_save(world.model, model_path) | gd_optimizer_save(world.optimizer, optimizer_path);
    end_world();
    return failed;
}

static int remove_files(void **state)
{
    (void)state;
    (void)unlink(tensors_path);
    (void)unlink(array_path);
    (void)unlink(optimizer_path);
    (void)unlink(model_path);
    (void)unlink(fit_path);
    return rmdir(file_folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_new_belongs_to_the_innermost_scope_or_to_the_caller),
        cmocka_unit_test(a_graph_made_outside_every_scope_leaves_nothing_behind),
        cmocka_unit_test(every_comment_that_says_new_is_about_a_function_that_is_tried),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
