/* Every function of every public header that gives handles, called outside every scope and inside one, and with each of its
 * allocations failing: what is new belongs to the innermost scope and dies with it, or is the caller's to end, as base.h says;
 * nothing is left behind.  The calls are made from the headers by tools/gen_null_calls; those that need other values than
 * tests/api/some_values.h has stand here.  A function that gives a handle and is neither seen to give something new nor known
 * to lend it, here or by its comment, fails the test, and so does one whose comment says new and that is listed as lending. */
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
    GRAINS,
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

#define KIND_OF(pointer)               \
    _Generic((pointer), gd_tensor *    \
             : TENSOR, gd_module *     \
             : MODULE, gd_object *     \
             : OBJECT, gd_virtual *    \
             : VIRTUAL, gd_named *     \
             : NAMED, gd_load_report * \
             : REPORT, gd_archive *    \
             : ARCHIVE, gd_link *      \
             : LINK, gd_linop *        \
             : LINOP, gd_optimizer *   \
             : OPTIMIZER, gd_states *  \
             : STATES, gd_var *        \
             : VAR, gd_world *         \
             : WORLD, gd_exchange *    \
             : EXCHANGE, gd_grains *   \
             : GRAINS, default         \
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
    case GRAINS: gd_grains_free(handle); break;
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

/* ---- functions that need values of their own ---- */

static gd_tensor *cubes(void *user, gd_tensor *const *x, int count)
{
    (void)user, (void)count;
    return gd_sum(gd_mul(gd_square(x[0]), x[0]), NULL, false);
}

static gd_tensor *squares(void *user, gd_tensor *const *x, int count)
{
    (void)user, (void)count;
    return gd_square(x[0]);
}

static gd_tensor *residuals(void *user) { return gd_reshape(gd_add_scalar(user, -1), 1, (int64_t[]){4}); }

static gd_object *handled(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)functional, (void)kwargs, (void)user;
    return gd_tensor_object(gd_square(gd_object_tensor(argument)));
}

static gd_object *method(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    (void)kwargs, (void)user;
    return gd_tensor_object(gd_square(gd_module_get_tensor(gd_object_module(self), "w")));
}

#define T world.tensor
#define C world.ctx
#define GIVES(function, ...)                                              \
    static void own_##function(void)                                      \
    {                                                                     \
        __typeof__(function(__VA_ARGS__)) result = function(__VA_ARGS__); \
        note(KIND_OF(result), (void *)(uintptr_t)result);                 \
    }
/* The same for functions that fill a list: `out` are its entries. */
#define FILLS(function, entries, ...)                                            \
    static void own_##function(void)                                             \
    {                                                                            \
        gd_tensor *out[4] = {0};                                                 \
        got.failed = function(__VA_ARGS__) != GD_OK;                             \
        for (int i = 0; i < (entries) && !got.failed; i++) note(TENSOR, out[i]); \
    }

/* What those of the world do not serve for; made and ended with it. */
static struct {
    gd_tensor *image, *vector, *index, *indices, *mask, *labelled;
    gd_object *functional;
    gd_link *newton, *bfgs, *lbfgs, *spsa, *mezo;
    gd_archive *packed; /* the state of the optimizer */
} more;

static char tensors_path[64], array_path[64], optimizer_path[64];

static void make_more(void)
{
    gd_ctx *ctx = C;
    more.image = gd_ones(ctx, GD_F64, 4, (int64_t[]){1, 2, 3, 3});
    more.vector = VECTOR(ctx, 1, 2);
    more.index = INDEX(ctx, 0, 1);
    more.indices = gd_from_data(ctx, GD_I64, 2, (int64_t[]){2, 2}, (int64_t[]){0, 1, 1, 0});
    more.mask = gd_from_f64(ctx, GD_BOOL, 2, (int64_t[]){2, 2}, (double[]){0, 1, 1, 0});
    gd_scope_begin(ctx);
    more.labelled = gd_keep(gd_with_labels(gd_rename(T, "i, j"), "i", (const char *[]){"a", "b"}));
    gd_scope_end(ctx);
    gd_class *base = gd_class_functional(ctx), *cls = gd_class_new(ctx, "Square", &base, 1);
    more.functional = gd_instance_new(cls, NULL, NULL);
    more.newton = gd_chain(ctx, "newton");
    more.bfgs = gd_chain(ctx, "bfgs");
    more.spsa = gd_chain(ctx, "spsa");
    more.mezo = gd_chain(ctx, "mezo");
    more.lbfgs = gd_chain(ctx, "lbfgs");
    more.packed = gd_archive_new(ctx);
    if (gd_optimizer_pack(world.optimizer, more.packed, NULL) ||
        gd_register(cls, gd_class_tensor(ctx), handled, NULL) ||
        gd_register(world.cls, gd_class_tensor(ctx), handled, NULL) ||
        gd_class_add_method(world.cls, "some", method, NULL))
        fail_msg("%s", gd_error_text(ctx));
}

static void end_more(void)
{
    gd_release(more.image);
    gd_release(more.vector);
    gd_release(more.index);
    gd_release(more.indices);
    gd_release(more.mask);
    gd_release(more.labelled);
    gd_object_release(more.functional);
    gd_link_release(more.newton);
    gd_link_release(more.bfgs);
    gd_link_release(more.spsa);
    gd_link_release(more.mezo);
    gd_link_release(more.lbfgs);
    gd_archive_free(more.packed);
}

/* Nobody's memory: the capsules have no deleter. */
static double capsule_number[1];
static dl_versioned a_capsule = {.major = 1, .tensor = {capsule_number, 1, 0, 0, 2, 64, 1, NULL, NULL, 0}};
static dl_plain a_plain_capsule = {.tensor = {capsule_number, 1, 0, 0, 2, 64, 1, NULL, NULL, 0}};

FILLS(gd_hvp, 1, cubes, NULL, &T, 1, &T, out)
GIVES(gd_jvp, squares, NULL, &T, 1, &T)
FILLS(gd_jacobian, 1, squares, NULL, &T, 1, out)
GIVES(gd_hessian, cubes, NULL, &T, 1)
GIVES(gd_squeeze, more.image, "0")
GIVES(gd_index_select, T, "0", more.index)
GIVES(gd_index_label, more.labelled, "i", "b")
GIVES(gd_align, more.labelled, more.labelled)
GIVES(gd_contract, more.labelled, more.labelled, "j")
GIVES(gd_einsum, "ij,jk->ik", (gd_tensor *[]){T, T}, 2)
GIVES(gd_dot, more.vector, more.vector)
GIVES(gd_outer, more.vector, more.vector)
GIVES(gd_conv2d, more.image, more.image, NULL, 1, 0)
GIVES(gd_max_pool2d, more.image, 2, 1, 0)
GIVES(gd_avg_pool2d, more.image, 2, 1, 0)
GIVES(gd_layer_norm, T, "1", more.vector, more.vector, 1e-5)
GIVES(gd_embedding, T, more.index)
GIVES(gd_dropout, T, 0.5)
GIVES(gd_cross_entropy, T, more.index)
GIVES(gd_where, more.mask, T, T)
GIVES(gd_gather, T, "0", more.indices)
GIVES(gd_scatter_add, T, "0", more.indices, T)
GIVES(gd_world_open, C, "self", NULL)
GIVES(gd_linop_diagonal, more.vector)
GIVES(gd_linop_low_rank, T, more.vector)
GIVES(gd_linop_gram, T, more.vector)
GIVES(gd_linop_scaled, gd_linop_retain(world.linop), 2)
GIVES(gd_linop_shifted, gd_linop_retain(world.linop), 2)
GIVES(gd_linop_composed, gd_linop_retain(world.linop), gd_linop_retain(world.linop))
GIVES(gd_linop_matvec, world.linop, more.vector)
GIVES(gd_cauchy_point, world.linop, more.vector, NULL, NULL, 1, NULL)
GIVES(gd_projected_cg, world.linop, more.vector, NULL, NULL, 1, 1e-6, 10, NULL)
GIVES(gd_linop_rmatvec, world.linop, more.vector)
GIVES(gd_linop_solve, world.linop, more.vector)
GIVES(gd_linop_congruent, world.linop, more.vector)
GIVES(gd_link_with, C, "adam", NULL, 0)
GIVES(gd_chain_of, C, (gd_link *[]){gd_link_retain(world.link)}, 1)
GIVES(gd_optimizer_new, C, gd_chain(C, "adam | lr(0.1)"))
GIVES(gd_sequential_new, C, (gd_module *[]){gd_module_retain(world.module)}, 1)
GIVES(gd_instance_new, gd_class_object(C), NULL, NULL)
GIVES(gd_invoke, more.functional, gd_tensor_object(T), NULL)
GIVES(gd_archive_load, C, tensors_path)
GIVES(gd_archive_load_tensor, C, tensors_path, "w")
GIVES(gd_npy_load, C, array_path)
GIVES(gd_module_export, world.module, "w")
GIVES(gd_virtual_new, world.module, "another", some_block("gd_virtual_options"))
GIVES(gd_conv2d_new, C, 2, 2, 2, NULL)
GIVES(gd_from_dlpack, C, (struct DLManagedTensorVersioned *)&a_capsule)
GIVES(gd_from_dlpack_unversioned, C, (struct DLManagedTensor *)&a_plain_capsule)
GIVES(gd_mlp_new, C, (int64_t[]){2, 3, 1}, 3, NULL)

static void own_gd_module_load(void)
{
    gd_load_report *report = NULL;
    got.failed = gd_module_load(world.module, tensors_path, NULL, &report) != GD_OK;
    note(REPORT, report);
}

static void own_gd_optimizer_load_report(void)
{
    gd_load_report *report = NULL;
    got.failed = gd_optimizer_load_report(world.optimizer, optimizer_path, true, &report) != GD_OK;
    note(REPORT, report);
}

static void own_gd_optimizer_unpack_report(void)
{
    gd_load_report *report = NULL;
    got.failed = gd_optimizer_unpack_report(world.optimizer, more.packed, NULL, true, &report) != GD_OK;
    note(REPORT, report);
}

/* Inside a closure that a link has changed. */
static gd_status changed(void *user, gd_var *var, bool backward, gd_tensor **value, gd_tensor **grads)
{
    (void)user;
    gd_status status = gd_var_inner_evaluate(var, value, backward ? grads : NULL);
    return status;
}

static void own_gd_var_inner_evaluate(void)
{
    gd_tensor *loss = NULL, *grad = NULL;
    got.failed = gd_var_wrap_closure(world.var, changed, NULL) || gd_var_evaluate(world.var, &loss, &grad);
    if (!got.failed) note(TENSOR, loss), note(TENSOR, grad);
}

static void own_gd_var_constraints(void)
{
    gd_tensor *equal = NULL, *below = NULL;
    got.failed = gd_var_constraints(world.var, &equal, &below) != GD_OK;
    if (!got.failed) note(TENSOR, equal), note(TENSOR, below);
}

/* Between equal bounds all elements are held. */
static void own_gd_var_free_mask(void)
{
    gd_tensor *const *p = gd_var_params(world.var);
    got.failed = gd_var_set_bounds(world.var, p, p) != GD_OK;
    note(TENSOR, got.failed ? NULL : gd_var_free_mask(world.var));
}

static void own_gd_link_hessian(void)
{
    gd_linop *hessian = gd_link_update(more.newton, world.var) ? NULL
                                                               : gd_link_hessian(more.newton, world.var);
    note(LINOP, hessian);
}

/* What a changed closure makes of the parameters and itself. */
static void note_changed(gd_status status)
{
    gd_tensor *loss = NULL, *grad = NULL;
    got.failed = status || gd_var_evaluate(world.var, &loss, &grad);
    if (!got.failed) note(TENSOR, loss), note(TENSOR, grad);
}

static gd_status moved(void *user, gd_var *var, bool backward, gd_tensor **value, gd_tensor **grads)
{
    (void)user;
    return gd_var_inner_evaluate_at(var, 1, gd_var_params(var), value, backward ? grads : NULL);
}

static gd_status sampled(void *user, gd_var *var, bool backward, gd_tensor **value, gd_tensor **grads)
{
    gd_status status = gd_var_inner_evaluate(var, value, NULL);
    if (!backward || status) return status;
    return user == more.spsa ? gd_directions_estimate(user, var, value, grads)
                             : gd_directions_estimate_in_place(user, var, value, grads);
}

static void own_gd_var_inner_evaluate_at(void) { note_changed(gd_var_wrap_closure(world.var, moved, NULL)); }
static void own_gd_directions_estimate(void)
{
    note_changed(gd_var_wrap_closure(world.var, sampled, more.spsa));
}
static void own_gd_directions_estimate_in_place(void)
{
    note_changed(gd_var_wrap_closure(world.var, sampled, more.mezo));
}
GIVES(gd_least_norm, T, more.vector)

static gd_linop *no_pairs_yet(gd_link *link, const gd_pairs *p, gd_tensor *s, gd_tensor *y)
{
    (void)link, (void)p, (void)s, (void)y;
    return NULL;
}

GIVES(gd_dense_hessian, more.bfgs, world.var, &(gd_dense_method){.unsymmetric = true})
GIVES(gd_limited_memory_hessian, more.lbfgs, world.var, &(gd_limited_memory){.hessian = no_pairs_yet})

static void own_gd_krylov_at(void)
{
    gd_tensor *x = NULL, *ax = NULL;
    gd_krylov *k = gd_krylov_new(world.linop, more.vector, NULL);
    got.failed = gd_krylov_at(k, INFINITY, &x, &ax) != GD_OK;
    gd_krylov_free(k);
    if (!got.failed) note(TENSOR, x), note(TENSOR, ax);
}

static void own_gd_link_keyed_apply(void)
{
    gd_tensor *t = T;
    got.failed = gd_link_keyed_apply(world.link, &t, &T, &T, NULL, 1) != GD_OK;
    if (!got.failed) note(TENSOR, t);
}

static void own_gd_link_random_list(void)
{
    gd_tensor *t = NULL;
    got.failed = gd_link_random_list(world.link, "sphere", &T, 1, &t) != GD_OK;
    if (!got.failed) note(TENSOR, t);
}

/* ---- inside a transform ---- */

static const gd_transform *the_transform;

static void own_gd_transform_child(void)
{
    gd_tensor *t = T;
    got.failed = gd_transform_child(the_transform, "child", &t) != GD_OK;
    if (!got.failed) note(TENSOR, t);
}

/* The child has kept something by then. */
static void own_gd_transform_below(void)
{
    gd_link *child = gd_link_child(the_transform->link, "child");
    gd_tensor *kept = gd_transform_below(the_transform, child, "velocity", 0);
    if (kept) note(TENSOR, kept);
}

static gd_tensor *doubled(void *user, gd_tensor *stack, const int *entry, int entries)
{
    (void)user, (void)entry, (void)entries;
    return gd_mul_scalar(stack, 2);
}

static void own_gd_map_stacked(void)
{
    gd_tensor *t = T;
    got.failed = gd_map_stacked(&t, 1, NULL, doubled, NULL) != GD_OK;
    if (!got.failed) note(TENSOR, t);
}

static void own_gd_states_apply(void)
{
    gd_tensor *t = T;
    got.failed = gd_states_apply(world.states, &t, &T, &T, NULL) != GD_OK;
    if (!got.failed) note(TENSOR, t);
}

/* Of residuals that end with a scope of their own. */
static void own_gd_covariance(void)
{
    gd_scope_begin(C);
    gd_tensor *r = residuals(T), *c = r ? gd_keep(gd_covariance(r, &T, 1, NULL, 1)) : NULL;
    gd_scope_end(C);
    got.failed = !c;
    if (c) note(TENSOR, c);
}

static gd_tensor *some_equation(void *user, gd_tensor *const *x)
{
    (void)user;
    return gd_square(x[0]);
}

static void own_gd_distances(void)
{
    gd_scope_begin(C);
    gd_tensor *x = gd_ones(C, GD_F64, 1, (int64_t[]){3}), *d = NULL;
    gd_distance points = {.equation = some_equation, .x = &x, .sigma = &x, .count = 1};
    if (x) d = gd_keep(gd_distances(&points));
    gd_scope_end(C);
    got.failed = !d;
    if (d) note(TENSOR, d);
}

/* Results that hold tensors: those of a fit. */
static void own_gd_least_squares(void)
{
    gd_fit_result r;
    got.failed = gd_least_squares(&T, 1, residuals, T, NULL, &r) != GD_OK;
    gd_tensor *const held[] = {r.covariance, r.standard_errors, r.active, r.undetermined};
    for (int i = 0; i < COUNT_OF(held); i++) note(TENSOR, held[i]);
}

/* ---- the calls ---- */

typedef struct own_call {
    const char *name;
    void (*call)(void);
} own_call;

static const own_call own_calls[] = {
    {"gd_hvp", own_gd_hvp},
    {"gd_jvp", own_gd_jvp},
    {"gd_jacobian", own_gd_jacobian},
    {"gd_hessian", own_gd_hessian},
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
    {"gd_max_pool2d", own_gd_max_pool2d},
    {"gd_avg_pool2d", own_gd_avg_pool2d},
    {"gd_layer_norm", own_gd_layer_norm},
    {"gd_embedding", own_gd_embedding},
    {"gd_dropout", own_gd_dropout},
    {"gd_cross_entropy", own_gd_cross_entropy},
    {"gd_where", own_gd_where},
    {"gd_gather", own_gd_gather},
    {"gd_scatter_add", own_gd_scatter_add},
    {"gd_world_open", own_gd_world_open},
    {"gd_linop_diagonal", own_gd_linop_diagonal},
    {"gd_linop_low_rank", own_gd_linop_low_rank},
    {"gd_linop_gram", own_gd_linop_gram},
    {"gd_covariance", own_gd_covariance},
    {"gd_distances", own_gd_distances},
    {"gd_map_stacked", own_gd_map_stacked},
    {"gd_linop_scaled", own_gd_linop_scaled},
    {"gd_linop_shifted", own_gd_linop_shifted},
    {"gd_linop_composed", own_gd_linop_composed},
    {"gd_linop_matvec", own_gd_linop_matvec},
    {"gd_cauchy_point", own_gd_cauchy_point},
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
    {"gd_optimizer_new", own_gd_optimizer_new},
    {"gd_sequential_new", own_gd_sequential_new},
    {"gd_instance_new", own_gd_instance_new},
    {"gd_invoke", own_gd_invoke},
    {"gd_archive_load", own_gd_archive_load},
    {"gd_archive_load_tensor", own_gd_archive_load_tensor},
    {"gd_npy_load", own_gd_npy_load},
    {"gd_module_export", own_gd_module_export},
    {"gd_virtual_new", own_gd_virtual_new},
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
    snprintf(tensors_path, sizeof tensors_path, "gradus_test_new_%ld.safetensors", (long)getpid());
    snprintf(array_path, sizeof array_path, "gradus_test_new_%ld.npy", (long)getpid());
    snprintf(optimizer_path, sizeof optimizer_path, "gradus_test_new_%ld.optimizer", (long)getpid());
    make_world(NULL);
    int failed = gd_module_save(world.module, tensors_path) || gd_npy_save(world.tensor, array_path) ||
                 gd_optimizer_save(world.optimizer, optimizer_path);
    end_world();
    return failed;
}

static int remove_files(void **state)
{
    (void)state;
    (void)unlink(tensors_path);
    (void)unlink(array_path);
    (void)unlink(optimizer_path);
    return 0;
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
