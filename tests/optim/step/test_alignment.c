/* Wherever one tensor is put into the place of another, they meet by name and label; only assignment is by place.  A table of
 * the functions that take two such tensors: each is given a tensor with its axes and labels in another order, with an axis
 * of another name, and with other labels. */
#include "gradus/gradus.h"
#include "support/support.h"
#include "tensor/device.h"

enum { ROWS = 2, COLUMNS = 3, COUNT = 6 };

typedef struct world {
    gd_ctx *ctx;
    gd_tensor *p; /* [i=2, j=3], labelled, 1 to 6 */
    gd_tensor *v; /* what is put in */
    double got[COUNT];
} world;

static gd_status read(world *w, const gd_tensor *t)
{
    return t ? gd_read_f64(t, w->got, COUNT) : gd_error(w->ctx);
}

static gd_tensor *leaf(world *w) { return gd_require_grad(gd_copy(w->p)); }

/* ---- the functions; what each gives is a p^b v ---- */

static gd_status assign(world *w)
{
    gd_tensor *to = gd_zeros_like(w->p);
    gd_status status = gd_assign(to, w->v);
    return status ? status : read(w, to);
}

static gd_status add_into(world *w)
{
    gd_tensor *to = gd_zeros_like(w->p);
    gd_status status = gd_add_into(to, w->v, 2);
    return status ? status : read(w, to);
}

static gd_status set_grad(world *w)
{
    gd_tensor *x = leaf(w);
    gd_status status = gd_set_grad(x, w->v);
    return status ? status : read(w, gd_grad_of(x));
}

static gd_status backward_seed(world *w)
{
    gd_tensor *x = leaf(w);
    gd_status status = gd_backward(gd_square(x), w->v, 0);
    return status ? status : read(w, gd_grad_of(x));
}

static gd_status grad_seed(world *w)
{
    gd_tensor *x = leaf(w), *g = NULL;
    gd_status status = gd_grad(gd_square(x), w->v, &x, 1, 0, &g);
    return status ? status : read(w, g);
}

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

static gd_status hvp(world *w)
{
    gd_tensor *out = NULL;
    gd_status status = gd_hvp(cubes, NULL, &w->p, 1, &w->v, &out);
    return status ? status : read(w, out);
}

static gd_status jvp(world *w) { return read(w, gd_jvp(squares, NULL, &w->p, 1, &w->v)); }

static gd_status keyed_apply(world *w)
{
    gd_link *lr = gd_chain(w->ctx, "lr(2)");
    gd_tensor *t = w->v;
    gd_status status = gd_link_keyed_apply(lr, &t, &w->p, NULL, NULL, 1);
    gd_link_release(lr);
    return status ? status : read(w, t);
}

static gd_status transform(world *w)
{
    gd_link *chain = gd_chain(w->ctx, "lr(2) | lr(3)");
    gd_tensor *t = w->v;
    gd_status status = gd_link_transform(chain, &t, &w->p, NULL, NULL, 1);
    gd_link_release(chain);
    return status ? status : read(w, t);
}

/* ---- links that are functions of tensors, by hand ---- */

static gd_status twice(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) t->tensors[i] = gd_mul_scalar(t->tensors[i], 2);
    return GD_OK;
}

static gd_status gradients(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) t->tensors[i] = gd_copy(t->grads[i]);
    return GD_OK;
}

static gd_status remember(const gd_transform *t)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++)
        status = gd_link_set_state(t->link, t->keys[i], "seen", t->tensors[i]);
    return status;
}

static gd_tensor *answer; /* of the link below */

static gd_status reply(const gd_transform *t)
{
    t->tensors[0] = answer;
    return GD_OK;
}

static const gd_slot seen_slots[] = {{.name = "seen"}};
static const gd_link_class
    twice_class = {.name = "twice", .apply_tensors = twice},
    twice_vector = {.name = "twice_vector", .apply_tensors = twice, .traits.concat_params = true},
    gradients_class = {.name = "gradients", .apply_tensors = gradients, .traits.uses_grad = true},
    reply_class = {.name = "reply", .apply_tensors = reply},
    remember_class = {
        .name = "remember", GD_SLOTS(seen_slots), .update_tensors = remember, .apply_tensors = twice};

static gd_status apply_by(world *w, const gd_link_class *cls, gd_tensor *tensor, gd_tensor *grad)
{
    gd_link *link = gd_link_new(w->ctx, cls);
    gd_status status = gd_link_keyed_apply(link, &tensor, &w->p, grad ? &grad : NULL, NULL, 1);
    gd_link_release(link);
    return status ? status : read(w, tensor);
}

static gd_status tensors_apply(world *w) { return apply_by(w, &twice_class, w->v, NULL); }
static gd_status vector_apply(world *w) { return apply_by(w, &twice_vector, w->v, NULL); }
static gd_status tensors_grads(world *w) { return apply_by(w, &gradients_class, w->p, w->v); }

static gd_status tensors_result(world *w)
{
    answer = w->v;
    return apply_by(w, &reply_class, w->p, NULL);
}

static gd_status tensors_update(world *w)
{
    gd_link *link = gd_link_new(w->ctx, &remember_class);
    gd_tensor *t = w->v;
    gd_status status = gd_link_keyed_update(link, &t, &w->p, NULL, NULL, 1);
    if (!status) status = read(w, gd_link_state(link, w->p, "seen"));
    gd_link_release(link);
    return status;
}

static gd_status states_apply(world *w)
{
    gd_link *link = gd_link_new(w->ctx, &twice_vector);
    gd_states *states = gd_states_new(link, 1);
    gd_tensor *t = w->v;
    gd_status status = gd_states_apply(states, &t, &w->p, NULL, NULL);
    gd_states_free(states);
    gd_link_release(link);
    return status ? status : read(w, t);
}

/* ---- state ---- */

static gd_status set_state_of(world *w, gd_link *link, const char *slot)
{
    gd_status status = gd_link_set_state(link, w->p, slot, w->v);
    if (!status) status = read(w, gd_link_state(link, w->p, slot));
    gd_link_release(link);
    return status;
}

static gd_status set_rule_state(world *w) { return set_state_of(w, gd_chain(w->ctx, "adam"), "exp_avg"); }
static gd_status set_state(world *w) { return set_state_of(w, gd_link_new(w->ctx, &remember_class), "seen"); }

static gd_status state_from(world *w)
{
    gd_link *link = gd_link_new(w->ctx, &remember_class);
    gd_init init = {.kind = GD_INIT_COPY, .tensor = w->v};
    gd_tensor *state = gd_link_state_from(link, w->p, "seen", init);
    gd_status status = state ? read(w, state) : gd_error(w->ctx);
    gd_link_release(link);
    return status;
}

/* ---- inside a step ---- */

static struct {
    world *w;
    gd_status (*fn)(world *w, gd_var *var);
} inside;

static gd_status probe_step(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var_skip_update(var);
    return inside.fn(inside.w, var);
}

static const gd_link_class probe_class = {.name = "probe", .step = probe_step};

static gd_tensor *loss(void *user)
{
    gd_tensor *x = user;
    return gd_sum(gd_mul(gd_square(x), x), NULL, false);
}

static gd_status in_a_step(world *w, gd_status (*fn)(world *w, gd_var *var))
{
    gd_tensor *x = leaf(w);
    inside.w = w;
    inside.fn = fn;
    gd_optimizer *o = gd_optimizer_new(w->ctx, gd_link_new(w->ctx, &probe_class));
    gd_status status = gd_optimizer_add(o, "x", x);
    if (!status) status = gd_optimizer_step(o, &(gd_objective){.loss = loss, .user = x}, NULL);
    gd_optimizer_free(o);
    return status;
}

static gd_status set_update_in(world *w, gd_var *var)
{
    gd_status status = gd_var_set_update(var, &w->v);
    return status ? status : read(w, gd_var_update(var)[0]);
}

static gd_status set_grad_in(world *w, gd_var *var)
{
    gd_status status = gd_var_set_grad(var, &w->v);
    return status ? status : read(w, gd_var_grad(var)[0]);
}

static gd_status hvp_in(world *w, gd_var *var)
{
    gd_tensor *out = NULL;
    gd_status status = gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &w->v, &out);
    return status ? status : read(w, out);
}

static gd_status changed(void *user, gd_var *var, bool backward, gd_tensor **value, gd_tensor **grads)
{
    world *w = user;
    gd_status status = gd_var_inner_evaluate(var, value, NULL);
    if (backward) grads[0] = w->v;
    return status;
}

static gd_status wrap_in(world *w, gd_var *var)
{
    gd_status status = gd_var_wrap_closure(var, changed, w);
    gd_tensor *const *grad = status ? NULL : gd_var_grad(var);
    return status ? status : grad ? read(w, grad[0]) : gd_error(w->ctx);
}

static gd_status var_set_update(world *w) { return in_a_step(w, set_update_in); }
static gd_status var_set_grad(world *w) { return in_a_step(w, set_grad_in); }
static gd_status var_hvp(world *w) { return in_a_step(w, hvp_in); }
static gd_status var_wrap_closure(world *w) { return in_a_step(w, wrap_in); }

static const struct {
    const char *name;
    gd_status (*fn)(world *w);
    double factor;
    int power; /* of p */
} table[] = {
    {"assign", assign, 1, 0},
    {"add_into", add_into, 2, 0},
    {"set_grad", set_grad, 1, 0},
    {"backward", backward_seed, 2, 1},
    {"grad", grad_seed, 2, 1},
    {"hvp", hvp, 6, 1},
    {"jvp", jvp, 2, 1},
    {"link_keyed_apply", keyed_apply, 2, 0},
    {"link_transform", transform, 6, 0},
    {"link_keyed_apply of tensors", tensors_apply, 2, 0},
    {"link_keyed_apply of a vector", vector_apply, 2, 0},
    {"link_keyed_apply with gradients", tensors_grads, 1, 0},
    {"the result of a link", tensors_result, 1, 0},
    {"link_keyed_update", tensors_update, 1, 0},
    {"states_apply", states_apply, 2, 0},
    {"link_set_state of a rule", set_rule_state, 1, 0},
    {"link_set_state", set_state, 1, 0},
    {"link_state_from", state_from, 1, 0},
    {"var_set_update", var_set_update, 1, 0},
    {"var_set_grad", var_set_grad, 1, 0},
    {"var_hvp", var_hvp, 6, 1},
    {"var_wrap_closure", var_wrap_closure, 1, 0},
};

/* ---- the tensors ---- */

static gd_tensor *labelled(gd_tensor *t, const char *names, const char *const *first,
                           const char *const *second)
{
    return gd_with_labels(gd_with_labels(gd_rename(t, names), "0", first), "1", second);
}

static const char *const rows[] = {"x", "y"}, *const columns[] = {"a", "b", "c"};

static world open_world(gd_ctx *ctx)
{
    gd_scope_begin(ctx);
    gd_tensor *p = labelled(MATRIX(ctx, ROWS, COLUMNS, 1, 2, 3, 4, 5, 6), "i, j", rows, columns);
    return (world){.ctx = ctx, .p = p};
}

/* Runs a row with one form of v, whose elements in the order of p are 10 to 60. */
static void expect_met(world *w, int row, gd_tensor *v, const char *form)
{
    w->v = v;
    gd_status status = table[row].fn(w);
    if (status) print_error("%s: %s: %s\n", table[row].name, form, gd_error_text(w->ctx));
    assert_int_equal(status, GD_OK);
    for (int k = 0; k < COUNT; k++) {
        double want = table[row].factor * (table[row].power ? k + 1 : 1) * 10 * (k + 1);
        if (w->got[k] != want)
            print_error("%s: %s: element %d is %g, not %g\n", table[row].name, form, k, w->got[k], want);
        assert_true(w->got[k] == want);
    }
}

static void expect_refused(world *w, int row, gd_tensor *v, gd_status wanted)
{
    w->v = v;
    gd_status status = table[row].fn(w);
    if (status != wanted) print_error("%s: %s\n", table[row].name, gd_status_name(status));
    assert_int_equal(status, wanted);
    gd_clear_error(w->ctx);
}

static void tensors_meet_by_name_and_label(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    for (int row = 0; row < COUNT_OF(table); row++) {
        world w = open_world(ctx);
        gd_tensor *plain = MATRIX(ctx, ROWS, COLUMNS, 10, 20, 30, 40, 50, 60);
        expect_met(&w, row, plain, "without names"); /* by place */
        expect_met(&w, row, labelled(plain, "i, j", rows, columns), "as it is");
        gd_tensor *turned = labelled(gd_copy(gd_transpose(plain, 0, 1)), "j, i", columns, rows);
        bool by_place = table[row].fn == assign;
        if (by_place)
            expect_refused(&w, row, turned, GD_AXIS);
        else
            expect_met(&w, row, turned, "axes turned");
        gd_tensor *mixed = MATRIX(ctx, ROWS, COLUMNS, 60, 40, 50, 30, 10, 20); /* y before x; c, a, b */
        expect_met(&w, row,
                   labelled(mixed, "i, j", (const char *[]){"y", "x"}, (const char *[]){"c", "a", "b"}),
                   "labels in another order");
        gd_tensor *both = MATRIX(ctx, COLUMNS, ROWS, 60, 30, 40, 10, 50, 20);
        both = labelled(both, "j, i", (const char *[]){"c", "a", "b"}, (const char *[]){"y", "x"});
        if (!by_place) expect_met(&w, row, both, "both");
        gd_scope_end(ctx);
    }
    end_context(ctx, &m);
}

static void what_does_not_meet_is_refused(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    for (int row = 0; row < COUNT_OF(table); row++) {
        world w = open_world(ctx);
        gd_tensor *plain = MATRIX(ctx, ROWS, COLUMNS, 10, 20, 30, 40, 50, 60);
        expect_refused(&w, row, labelled(plain, "i, j", rows, (const char *[]){"a", "b", "d"}), GD_LABEL);
        expect_refused(&w, row, gd_rename(plain, "i, k"), GD_AXIS);
        gd_scope_end(ctx);
    }
    end_context(ctx, &m);
}

static void a_gradient_on_another_device_is_refused(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_device other = *gd_device_get(ctx, "cpu");
    snprintf(other.name, sizeof other.name, "gpu:7");
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 1, 2)), *g = gd_empty_on(&other, GD_F64, 1, (int64_t[]){2});
    assert_int_equal(gd_set_grad(x, g), GD_DEVICE);
    assert_error(ctx, GD_DEVICE, "set_grad: the gradient is on gpu:7, the tensor on cpu");
    assert_null(gd_grad_of(x));
    gd_release(g);
    gd_release(x);
    end_context(ctx, &m);
}

static void state_of_another_form_is_the_links_affair(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    world w = open_world(ctx);
    gd_link *link = gd_link_new(ctx, &remember_class), *adam = gd_chain(ctx, "adam");
    gd_tensor *gram = gd_rename(MATRIX(ctx, 3, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9), "j, k");
    assert_int_equal(gd_link_set_state(link, w.p, "seen", gram), GD_OK);
    assert_string_equal(gd_axis_name(gd_link_state(link, w.p, "seen"), 1), "k");
    gd_tensor *sums = gd_sum(w.p, "j", false);
    assert_int_equal(gd_link_set_state(link, w.p, "seen", sums), GD_OK);
    assert_int_equal(gd_ndim(gd_link_state(link, w.p, "seen")), 1);
    /* that of a rule is like its parameter */
    assert_int_equal(gd_link_set_state(adam, w.p, "exp_avg", VECTOR(ctx, 1, 2)), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "adam: the state is [2], its parameter [i=2, j=3]");
    gd_link_release(adam);
    gd_link_release(link);
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_meet_by_name_and_label),
        cmocka_unit_test(what_does_not_meet_is_refused),
        cmocka_unit_test(state_of_another_form_is_the_links_affair),
        cmocka_unit_test(a_gradient_on_another_device_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
