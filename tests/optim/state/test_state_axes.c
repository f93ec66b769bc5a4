/* State meets its parameter by the names of axes and the labels of elements, as values of modules do; by position where one side has
 * none.  What would run here with the elements in another order runs as it would have run there. */
#include "gradus/file.h"
#include "optim/optim_support.h"

#include <unistd.h>

static const char path[] = "test_state_axes.safetensors";

/* w [3 x 3] with a name and labels for each axis, order[k] being the element of the first run that stands k-th here. */
typedef struct table {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *w, *target;
} table;

static const char *const names[] = {"row", "col"};
static const char *const letters[2][3] = {{"a", "b", "c"}, {"x", "y", "z"}};
static const double start[3][3] = {{0.5, -2, 1.5}, {3, 0.25, -0.75}, {1, -1, 0.125}};

static gd_tensor *labelled(gd_ctx *ctx, bool turned, const int *order, bool values)
{
    double v[9];
    const char *label[2][3];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int row = order[turned ? k : i], col = order[turned ? i : k];
            v[i * 3 + k] = values ? start[row][col] : 0.3 * (row + 1) * (col - 1.5);
        }
    gd_tensor *t = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){3, 3}, v);
    for (int i = 0; i < 2; i++) {
        int axis = turned ? 1 - i : i;
        for (int k = 0; k < 3; k++) label[axis][k] = letters[axis][order[k]];
        t = gd_rename_axis(gd_with_labels(t, i ? "1" : "0", label[axis]), i ? "1" : "0", names[axis]);
    }
    return t;
}

/* A different curvature for each element, by its labels. */
static gd_tensor *loss(void *user)
{
    table *t = user;
    gd_tensor *d = gd_sub(t->w, t->target);
    return gd_sum(gd_mul(gd_square(d), gd_add_scalar(gd_square(t->target), 0.5)), NULL, false);
}

static table open_table(gd_ctx *ctx, const char *chain, bool turned, const int *order)
{
    table t = {.ctx = ctx};
    t.w = gd_require_grad(labelled(ctx, turned, order, true));
    t.target = labelled(ctx, turned, order, false);
    gd_link *link = gd_chain(ctx, chain);
    t.o = link ? gd_optimizer_new(ctx, link) : NULL;
    if (!t.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    OK(gd_optimizer_add(t.o, "w", t.w));
    return t;
}

static void close_table(table *t) { gd_optimizer_free(t->o); }

static void steps(table *t, int count)
{
    for (int i = 0; i < count; i++)
        OK(gd_optimizer_step(t->o, &(gd_objective){.loss = loss, .user = t}, NULL));
}

static void values_of(const table *t, bool turned, const int *order, double out[3][3])
{
    double v[9];
    OK(gd_read_f64(t->w, v, 9));
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) out[order[turned ? k : i]][order[turned ? i : k]] = v[i * 3 + k];
}

static void set_values(const table *t, bool turned, const int *order, double from[3][3])
{
    double v[9];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) v[i * 3 + k] = from[order[turned ? k : i]][order[turned ? i : k]];
    OK(gd_write_f64(t->w, v, 9));
}

static const int as_it_was[3] = {0, 1, 2}, another[3] = {2, 0, 1};

/* Three steps there, three here: the bits of six steps there. */
static void goes_on(gd_ctx *ctx, const char *chain, bool turned, const int *order)
{
    double whole[3][3], resumed[3][3];
    gd_scope_begin(ctx);
    table a = open_table(ctx, chain, false, as_it_was), b = open_table(ctx, chain, turned, order);
    steps(&a, 3);
    OK(gd_optimizer_save(a.o, path));
    values_of(&a, false, as_it_was, whole);
    set_values(&b, turned, order, whole);
    if (gd_optimizer_load(b.o, path, true)) fail_msg("%s: %s", chain, gd_error_text(ctx));
    steps(&a, 3);
    steps(&b, 3);
    values_of(&a, false, as_it_was, whole);
    values_of(&b, turned, order, resumed);
    for (int i = 0; i < 9; i++)
        if (whole[i / 3][i % 3] != resumed[i / 3][i % 3])
            fail_msg("%s, %s: element %d is %.17g, not %.17g", chain, turned ? "turned" : "in place", i,
                     resumed[i / 3][i % 3], whole[i / 3][i % 3]);
    close_table(&a);
    close_table(&b);
    gd_scope_end(ctx);
}

static void state_follows_names_and_labels(void **state)
{
    static const char *const chains[] = {"adam(amsgrad=true) | lr(0.1)",
                                         "heavy_ball | lr(0.01)",
                                         "nag | lr(0.01)",
                                         "rmsprop(centered=true) | lr(0.1)",
                                         "lion | lr(0.1)",
                                         "rprop",
                                         "adan | lr(0.1)",
                                         "adagrad | lr(0.5)",
                                         "ema(0.9) | adam | lr(0.1)",
                                         "adam | ema_weights | lr(0.1)",
                                         "heavy_ball | save_best | lr(0.01)",
                                         "adam | lr(0.1)",
                                         "div_modules(ema, rmsprop) | lr(0.01)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        goes_on(CTX(state), chains[i], false, as_it_was);
        goes_on(CTX(state), chains[i], false, another);
        goes_on(CTX(state), chains[i], true, as_it_was);
        goes_on(CTX(state), chains[i], true, another);
    }
}

/* Gradients that never change: each step of adam is lr, whatever the gradient; with the moments of another element it is not. */
static gd_tensor *slopes(void *user)
{
    return gd_sum(gd_mul(((gd_tensor **)user)[0], ((gd_tensor **)user)[1]), NULL, false);
}

static gd_tensor *pair_of(gd_ctx *ctx, double a, double b, const char *first, const char *second)
{
    gd_tensor *t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){a, b});
    return first ? gd_with_labels(t, "0", (const char *[]){first, second}) : t;
}

static gd_optimizer *adam_of(gd_tensor *p)
{
    gd_optimizer *o = gd_optimizer_new(gd_tensor_ctx(p), gd_chain(gd_tensor_ctx(p), "adam(eps=0) | lr(0.1)"));
    OK(gd_optimizer_add(o, "p", p));
    return o;
}

/* One step from (2, 1) with slopes 1 and 9, saved. */
static void save_pair(gd_ctx *ctx, const char *first, const char *second)
{
    gd_tensor *p[] = {gd_require_grad(pair_of(ctx, 2, 1, first, second)), pair_of(ctx, 1, 9, NULL, NULL)};
    gd_optimizer *o = adam_of(p[0]);
    OK(gd_optimizer_step(o, &(gd_objective){.loss = slopes, .user = p}, NULL));
    OK(gd_optimizer_save(o, path));
    gd_optimizer_free(o);
}

static void steps_are_those_of_the_element_with_the_label(void **state)
{
    gd_scope_begin(CTX(state));
    gd_ctx *ctx = CTX(state);
    double v[2];
    save_pair(ctx, "a", "b");
    gd_tensor *p[] = {gd_require_grad(pair_of(ctx, 0.9, 1.9, "b", "a")), pair_of(ctx, 9, 1, NULL, NULL)};
    gd_optimizer *o = adam_of(p[0]);
    OK(gd_optimizer_load(o, path, true));
    OK(gd_optimizer_step(o, &(gd_objective){.loss = slopes, .user = p}, NULL));
    OK(gd_read_f64(p[0], v, 2));
    assert_true(fabs(v[0] - 0.8) < 1e-12 && fabs(v[1] - 1.8) < 1e-12);
    gd_optimizer_free(o);
    gd_scope_end(CTX(state));
}

static void other_labels_and_names_are_refused(void **state)
{
    gd_scope_begin(CTX(state));
    gd_ctx *ctx = CTX(state);
    double before[2], after[2];
    save_pair(ctx, "a", "b");
    gd_tensor *p = gd_require_grad(pair_of(ctx, 0.9, 1.9, "b", "c"));
    gd_optimizer *o = adam_of(p);
    OK(gd_read_f64(p, before, 2));
    for (int strict = 0; strict < 2; strict++) {
        assert_int_equal(gd_optimizer_load(o, path, strict), GD_MISMATCH);
        assert_non_null(strstr(gd_error_text(ctx), "p has other labels here than in the file"));
        gd_clear_error(ctx);
    }
    OK(gd_read_f64(p, after, 2));
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(gd_optimizer_steps(o), 0);
    gd_optimizer_free(o);
    table a = open_table(ctx, "adam", false, as_it_was);
    steps(&a, 1);
    OK(gd_optimizer_save(a.o, path));
    close_table(&a);
    a = open_table(ctx, "adam", false, as_it_was);
    gd_optimizer *other = gd_optimizer_new(ctx, gd_chain(ctx, "adam"));
    OK(gd_optimizer_add(other, "w", gd_require_grad(gd_rename(gd_detach(a.w), "row, column"))));
    assert_int_equal(gd_optimizer_load(other, path, false), GD_MISMATCH);
    assert_non_null(strstr(gd_error_text(ctx), "w has axes"));
    gd_clear_error(ctx);
    gd_optimizer_free(other);
    close_table(&a);
    gd_scope_end(CTX(state));
}

static void load_pair(gd_ctx *ctx, const char *first, const char *second)
{
    double v[2];
    gd_tensor *p[] = {gd_require_grad(pair_of(ctx, 1.9, 0.9, first, second)), pair_of(ctx, 1, 9, NULL, NULL)};
    gd_optimizer *o = adam_of(p[0]);
    OK(gd_optimizer_load(o, path, true));
    OK(gd_optimizer_step(o, &(gd_objective){.loss = slopes, .user = p}, NULL));
    OK(gd_read_f64(p[0], v, 2));
    assert_true(fabs(v[0] - 1.8) < 1e-12 && fabs(v[1] - 0.8) < 1e-12);
    gd_optimizer_free(o);
}

/* By position: no labels on one side, or a file that says nothing of axes, as older ones. */
static void without_labels_state_is_met_by_position(void **state)
{
    gd_scope_begin(CTX(state));
    gd_ctx *ctx = CTX(state);
    save_pair(ctx, NULL, NULL);
    load_pair(ctx, "b", "a");
    save_pair(ctx, "a", "b");
    load_pair(ctx, NULL, NULL);
    gd_archive *archive = gd_archive_load(ctx, path);
    const char *json = gd_archive_get_meta(archive, "optimizer"), *axes = strstr(json, ", \"axes\": ");
    assert_non_null(axes);
    char old[4000];
    snprintf(old, sizeof old, "%.*s%s", (int)(axes - json), json, strstr(axes, ", \"group\""));
    OK(gd_archive_set_meta(archive, "optimizer", old));
    OK(gd_archive_save(archive, path));
    gd_archive_free(archive);
    load_pair(ctx, "b", "a");
    gd_scope_end(CTX(state));
}

/* Sums over places, codes of blocks of elements and vectors over all parameters cannot follow; nothing is changed. */
static void state_that_cannot_follow_is_refused(void **state)
{
    gd_scope_begin(CTX(state));
    static const char *const chains[] = {"shampoo | lr(0.1)",   "soap | lr(0.1)",
                                         "adafactor | lr(0.1)", "lbfgs | lr(0.1)",
                                         "bfgs | lr(0.1)",      "full_matrix_adagrad | lr(0.1)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        table a = open_table(CTX(state), chains[i], false, as_it_was),
              b = open_table(CTX(state), chains[i], false, another);
        steps(&a, 3);
        OK(gd_optimizer_save(a.o, path));
        if (gd_optimizer_load(b.o, path, false) != GD_MISMATCH) fail_msg("%s was loaded", chains[i]);
        assert_non_null(strstr(gd_error_text(a.ctx), "cannot follow"));
        gd_clear_error(a.ctx);
        assert_int_equal(gd_optimizer_steps(b.o), 0);
        steps(&b, 1);
        table c = open_table(CTX(state), chains[i], false, as_it_was);
        OK(gd_optimizer_load(c.o, path, true));
        close_table(&a);
        close_table(&b);
        close_table(&c);
    }
    gd_scope_end(CTX(state));
}

static void lists_for_one_parameter_are_refused(void **state)
{
    gd_scope_begin(CTX(state));
    gd_ctx *ctx = CTX(state);
    const double low[9] = {-9, -8, -7, -6, -5, -4, -3, -2, -1};
    table a = open_table(ctx, "box | lr(0.1)", false, as_it_was),
          b = open_table(ctx, "box | lr(0.1)", false, another);
    OK(gd_link_set_for(gd_link_child_at(gd_optimizer_chain(a.o), 0), a.w, "low", gd_setting_list(low, 9)));
    steps(&a, 1);
    OK(gd_optimizer_save(a.o, path));
    assert_int_equal(gd_optimizer_load(b.o, path, true), GD_MISMATCH);
    assert_non_null(strstr(gd_error_text(ctx), "the list low"));
    gd_clear_error(ctx);
    close_table(&a);
    close_table(&b);
    gd_scope_end(CTX(state));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(state_follows_names_and_labels),      CASE(steps_are_those_of_the_element_with_the_label),
        CASE(other_labels_and_names_are_refused),  CASE(without_labels_state_is_met_by_position),
        CASE(state_that_cannot_follow_is_refused), CASE(lists_for_one_parameter_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
