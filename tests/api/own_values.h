/* The part of test_new.c about functions that need values of their own: what they are called with, and the calls.  It goes on
 * with what stands before its place there. */
#ifndef GD_TEST_API_OWN_VALUES_H
#define GD_TEST_API_OWN_VALUES_H

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
    gd_tensor *image, *vector, *column, *leaf, *squares, *index, *indices, *mask, *labelled;
    gd_object *functional;
    gd_link *newton, *bfgs, *lbfgs, *spsa, *mezo;
    gd_archive *packed; /* the state of the optimizer */
} more;

static char file_folder[] = "/tmp/gradus_new_XXXXXX";
static char tensors_path[64], array_path[64], optimizer_path[64], model_path[64], fit_path[64];

static void make_more(void)
{
    gd_ctx *ctx = C;
    more.image = gd_ones(ctx, GD_F64, 4, (int64_t[]){1, 2, 3, 3});
    more.vector = VECTOR(ctx, 1, 2);
    more.column = MATRIX(ctx, 2, 1, 1, 2);
    more.leaf = gd_require_grad(VECTOR(ctx, 1, 2));
    more.squares = gd_square(more.leaf);
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
    gd_release(more.column);
    gd_release(more.leaf);
    gd_release(more.squares);
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

/* A stream of one column, new at each call. */
static struct ArrowArrayStream *some_stream(void)
{
    static const double x[] = {1, 2};
    static const void *buffers[] = {NULL, x};
    static made_stream rows;
    static gd_arrow_stream stream;
    rows = (made_stream){.columns = 1, .batches = 1, .rows = {2}, .fail_at = MADE_BATCHES};
    rows.column[0] = (gd_arrow_schema){.format = "g", .name = "x"};
    rows.array[0][0] = (gd_arrow_array){.length = 2, .n_buffers = 2, .buffers = buffers};
    stream = made(&rows);
    return (struct ArrowArrayStream *)&stream;
}

FILLS(gd_hvp, 1, cubes, NULL, &T, 1, &T, out)
GIVES(gd_jvp, squares, NULL, &T, 1, &T)
FILLS(gd_jacobian, 1, squares, NULL, &T, 1, out)
FILLS(gd_jacobian_of, 1, more.squares, &more.leaf, 1, out)
GIVES(gd_hessian, cubes, NULL, &T, 1)
FILLS(gd_traced_sparsity, 2, world.traced, GD_TRACED_JACOBIAN, &T, 1, &out[0], &out[1])
GIVES(gd_squeeze, more.image, "0")
GIVES(gd_index_select, T, "0", more.index)
GIVES(gd_index_label, more.labelled, "i", "b")
GIVES(gd_align, more.labelled, more.labelled)
GIVES(gd_contract, more.labelled, more.labelled, "j")
GIVES(gd_einsum, "ij,jk->ik", (gd_tensor *[]){T, T}, 2)
GIVES(gd_dot, more.vector, more.vector)
GIVES(gd_outer, more.vector, more.vector)
GIVES(gd_conv2d, more.image, more.image, NULL, 1, 0)
GIVES(gd_conv2d_with, more.image, more.image, NULL, NULL)
GIVES(gd_max_pool2d, more.image, 2, 1, 0)
GIVES(gd_avg_pool2d, more.image, 2, 1, 0)
GIVES(gd_layer_norm, T, "1", more.vector, more.vector, 1e-5)
GIVES(gd_embedding, T, more.index)
GIVES(gd_dropout, T, 0.5)
GIVES(gd_cross_entropy, T, more.index)
GIVES(gd_where, more.mask, T, T)
GIVES(gd_bit_not, more.indices)
GIVES(gd_bit_and, more.indices, more.indices)
GIVES(gd_bit_or, more.indices, more.indices)
GIVES(gd_bit_xor, more.indices, more.indices)
GIVES(gd_shift_left, more.indices, more.indices)
GIVES(gd_shift_right, more.indices, more.indices)
GIVES(gd_gather, T, "0", more.indices)
GIVES(gd_scatter_add, T, "0", more.indices, T)
GIVES(gd_get, T, &(gd_key){.kind = GD_KEY_INDEX, .index = more.indices}, 1)
GIVES(gd_put, T, &(gd_key){.kind = GD_KEY_INDEX, .index = more.indices}, 1, T)
GIVES(gd_world_open, C, "self", NULL)
GIVES(gd_linop_diagonal, more.vector)
GIVES(gd_linop_low_rank, T, more.vector)
GIVES(gd_linop_gram, T, more.vector)
GIVES(gd_linop_scaled, gd_linop_retain(world.linop), 2)
GIVES(gd_linop_shifted, gd_linop_retain(world.linop), 2)
GIVES(gd_linop_composed, gd_linop_retain(world.linop), gd_linop_retain(world.linop))
GIVES(gd_linop_matvec, world.linop, more.vector)
GIVES(gd_projected_cg, world.linop, more.vector, NULL, NULL, 1, 1e-6, 10, NULL)
GIVES(gd_linop_rmatvec, world.linop, more.vector)
GIVES(gd_linop_solve, world.linop, more.vector)
GIVES(gd_linop_congruent, world.linop, more.vector)
GIVES(gd_link_with, C, "adam", NULL, 0)
GIVES(gd_chain_of, C, (gd_link *[]){gd_link_retain(world.link)}, 1)
static void own_gd_fit_new(void)
{
    gd_table *table = some_measurements(C);
    gd_fit_spec spec = some_fit_spec(table);
    gd_fit *fit = table ? gd_fit_new(C, &spec) : NULL;
    gd_table_free(table);
    note(FIT, fit);
}
static void own_gd_fit_by(void)
{
    gd_table *table = some_measurements(C);
    gd_fit_spec spec = some_fit_spec(table);
    gd_table *fits = table ? gd_fit_by(C, &spec, (const char *const[]){"t", NULL}) : NULL;
    gd_table_free(table);
    note(TABLE, fits);
}
static void own_gd_fit_by_plot(void)
{
    static const char *const by[] = {"t", NULL};
    gd_table *table = some_measurements(C);
    gd_fit_spec spec = some_fit_spec(table);
    gd_table *fits = table ? gd_fit_by(C, &spec, by) : NULL;
    gd_plot *plot = fits ? gd_fit_by_plot(C, &spec, by, fits, NULL, NULL) : NULL;
    gd_table_free(table);
    gd_table_free(fits);
    note(PLOT, plot);
}
static void own_gd_fit_load(void)
{
    gd_status saved = gd_fit_save(world.fit, fit_path);
    gd_fit *fit = saved ? NULL : gd_fit_load(C, fit_path);
    note(FIT, fit);
}
static void own_gd_fit_predict(void)
{
    gd_table *table = some_measurements(C);
    gd_tensor *bands = table ? gd_fit_predict(world.fit, table) : NULL;
    gd_table_free(table);
    note(TENSOR, bands);
}
GIVES(gd_expr_parse, C, "2*x", NULL)
GIVES(gd_trace, C, some_traced, NULL, NULL)
GIVES(gd_train, C, world.table, (const gd_train_spec[]){some_recipe()})
GIVES(gd_model_load, C, model_path)
GIVES(gd_model_predict_rows, world.model, more.column)
GIVES(gd_table_load, C, array_path, NULL)
GIVES(gd_table_from_arrow, C, some_stream(), NULL, 0)
GIVES(gd_table_load_all, C, (const char *const[]){array_path}, 1, NULL)
GIVES(gd_table_matrix, world.table, NULL, 0)
GIVES(gd_table_select, world.table, (const char *const[]){"x1"}, 1)
GIVES(gd_table_select_rows, world.table, more.index)
GIVES(gd_optimizer_new, C, gd_chain(C, "adam | lr(0.1)"))
GIVES(gd_sequential_new, C, (gd_module *[]){gd_module_retain(world.module)}, 1)
GIVES(gd_instance_new, gd_class_object(C), NULL, NULL)
GIVES(gd_invoke, more.functional, gd_tensor_object(T), NULL)
GIVES(gd_archive_load, C, tensors_path)
GIVES(gd_archive_load_tensor, C, tensors_path, "w")
GIVES(gd_npy_load, C, array_path)
GIVES(gd_module_export, world.module, "w")
GIVES(gd_virtual_new, world.module, "another", some_block("gd_virtual_options"))
GIVES(gd_conv1d_new, C, 2, 2, 2, NULL)
GIVES(gd_dropout_layer_new, C, 0.5)
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

static gd_status sine(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                      gd_tensor **y)
{
    (void)x;
    next[0] = gd_sin(gd_mul(state[0], user));
    y[0] = gd_square(next[0]);
    return GD_OK;
}
static void own_gd_scan(void)
{
    gd_tensor *last[1], *ys[1];
    gd_scan_body body = {.step = sine, .user = T, .states = 1, .ys = 1};
    got.failed = gd_scan(C, &body, &T, NULL, 6, last, ys) != GD_OK;
    note(TENSOR, last[0]);
    note(TENSOR, ys[0]);
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
    gd_lsq_result r;
    got.failed = gd_least_squares(&T, 1, residuals, T, NULL, &r) != GD_OK;
    gd_tensor *const held[] = {r.covariance, r.standard_errors, r.active, r.undetermined};
    for (int i = 0; i < COUNT_OF(held); i++) note(TENSOR, held[i]);
}

#endif
