/* State that goes from one chain into another, what a program learns about it, and data that only a link can read. */
#include "optim/optim_support.h"

#include <unistd.h>

static const char path[] = "test_state_match.safetensors";

/* Three steps of a chain, saved. */
static problem saved_problem(gd_ctx *ctx, const char *chain)
{
    problem x = open_problem(ctx, chain);
    for (int i = 0; i < 3; i++) OK(step_without(&x, NULL));
    OK(gd_optimizer_save(x.o, path));
    return x;
}

static gd_link *link_named(gd_link *link, const char *cls, int *skip)
{
    if (!strcmp(gd_link_class_of(link)->name, cls) && (*skip)-- == 0) return link;
    for (int i = 0; i < gd_link_children(link); i++) {
        gd_link *found = link_named(gd_link_child_at(link, i), cls, skip);
        if (found) return found;
    }
    return NULL;
}

static gd_link *nth(const problem *x, const char *cls, int n)
{
    gd_link *link = link_named(gd_optimizer_chain(x->o), cls, &n);
    assert_non_null(link);
    return link;
}

static void assert_same_state(gd_link *a, const problem *x, gd_link *b, const problem *y, const char *slot)
{
    assert_true(gd_link_has_state(a, x->p, slot) && gd_link_has_state(b, y->p, slot));
    assert_memory_equal(gd_data(gd_link_state(a, x->p, slot)), gd_data(gd_link_state(b, y->p, slot)), 16);
}

static void links_are_matched_by_class_and_order(void **state)
{
    static const struct {
        const char *file, *here, *cls;
        int there, at; /* which link of that class in the file belongs to which here */
        const char *slot;
    } cases[] = {
        {"adam | lr(0.1)", "clip_norm(1) | adam | lr(0.1)", "adam", 0, 0, "exp_avg"},
        {"clip_norm(1) | adam | lr(0.1)", "adam | lr(0.1)", "adam", 0, 0, "exp_avg"},
        {"adam", "adam | lr(0.1)", "adam", 0, 0, "exp_avg"},
        {"adam | lr(0.1)", "lr(0.1) | adam", "adam", 0, 0, "exp_avg"},
        {"ema(0.5) | ema(0.9) | lr(0.1)", "clip_value(1) | ema | ema | lr(0.1)", "ema", 0, 0, "velocity"},
        {"ema(0.5) | ema(0.9) | lr(0.1)", "clip_value(1) | ema | ema | lr(0.1)", "ema", 1, 1, "velocity"},
        {"ema(0.5) | lr(2) | ema(0.9)", "lr(2) | ema", "ema", 1, 0, "velocity"},
        {"adam(inner=[lr(2) | ema]) | lr(0.1)", "lr(1) | adam(inner=ema) | lr(0.1)", "ema", 0, 0,
         "velocity"}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        problem x = saved_problem(CTX(state), cases[i].file), y = open_problem(CTX(state), cases[i].here);
        assert_int_equal(gd_optimizer_load(y.o, path, true), GD_MISMATCH);
        gd_clear_error(x.ctx);
        OK(gd_optimizer_load(y.o, path, false));
        assert_same_state(nth(&x, cases[i].cls, cases[i].there), &x, nth(&y, cases[i].cls, cases[i].at), &y,
                          cases[i].slot);
        assert_int_equal(gd_optimizer_steps(y.o), 3);
        OK(step_without(&y, NULL));
        close_problem(&x);
        close_problem(&y);
    }
}

/* Loaded into a longer chain, the links that were there go on as they would have. */
static void a_chain_with_a_link_more_goes_on_with_the_same_bits(void **state)
{
    problem x = saved_problem(CTX(state), "adam | lr(0.1)"),
            y = open_problem(CTX(state), "lr(1) | adam | lr(0.3)");
    OK(gd_optimizer_load(y.o, path, false));
    OK(gd_assign(y.p, x.p));
    OK(gd_assign(y.q, x.q));
    for (int i = 0; i < 3; i++) {
        OK(step_without(&x, NULL));
        OK(step_without(&y, NULL));
    }
    assert_memory_equal(gd_data(x.p), gd_data(y.p), 16);
    close_problem(&x);
    close_problem(&y);
}

static bool has_name(const gd_load_report *r, gd_load_problem kind, const char *name)
{
    for (int64_t i = 0; i < gd_load_report_count(r, kind); i++)
        if (!strcmp(gd_load_report_name(r, kind, i), name)) return true;
    return false;
}

static void a_program_reads_what_was_missing_and_what_was_not_used(void **state)
{
    problem x = saved_problem(CTX(state), "adam | ema | lr(0.1)"),
            y = open_problem(CTX(state), "clip_norm(1) | adam | lr(0.1)");
    gd_load_report *report = NULL;
    gd_scope_begin(x.ctx);
    int64_t warnings = gd_warning_count(x.ctx);
    OK(gd_optimizer_load_report(y.o, path, false, &report));
    assert_int_equal(gd_load_report_count(report, GD_LOAD_MISSING), 1);
    assert_true(has_name(report, GD_LOAD_MISSING, "link 0:clip_norm"));
    assert_true(has_name(report, GD_LOAD_UNEXPECTED, "link 1:ema"));
    assert_true(has_name(report, GD_LOAD_UNEXPECTED, "tensor p/1:ema/velocity"));
    assert_int_equal(gd_load_report_loaded(report), 4); /* two averages of two parameters */
    assert_non_null(strstr(gd_load_report_text(report), "missing 'link 0:clip_norm'"));
    assert_int_equal(gd_warning_count(x.ctx), warnings);
    gd_load_report_release(report);
    /* who asks for no report is warned */
    OK(gd_optimizer_load(y.o, path, false));
    assert_int_equal(gd_warning_count(x.ctx), warnings + 1);
    /* strict: an error, and the report still says what */
    assert_int_equal(gd_optimizer_load_report(y.o, path, true, &report), GD_MISMATCH);
    assert_error(x.ctx, GD_MISMATCH, "optimizer state: missing: link 0:clip_norm, link 1:adam");
    assert_true(has_name(report, GD_LOAD_MISSING, "link 1:adam"));
    gd_load_report_release(report);
    gd_scope_end(x.ctx);
    close_problem(&x);
    close_problem(&y);
}

/* ---- data ---- */

/* A link that keeps a number and a tensor where only it can see them. */
typedef struct counted_data {
    double seen;
    gd_tensor *last; /* owned */
} counted_data;

static bool refuse;

static void counted_destroy(gd_link *link)
{
    counted_data *d = gd_link_data(link);
    gd_release(d->last);
    *d = (counted_data){0};
}

static gd_status counted_step(gd_link *link, gd_var *var)
{
    counted_data *d = gd_link_data(link);
    gd_release(d->last);
    d->last = gd_retain(gd_copy(gd_var_grad(var)[0]));
    d->seen += 1;
    return gd_var_set_attr(var, "seen", d->seen);
}

static gd_status counted_pack(gd_link *link)
{
    const counted_data *d = gd_link_data(link);
    double *seen = gd_link_global(link, "seen", 0);
    if (!seen) return GD_NOMEM;
    *seen = d->seen;
    return gd_link_set_global_tensor(link, "last", d->last);
}

static gd_status counted_unpack(gd_link *link)
{
    counted_data *d = gd_link_data(link);
    assert_true(d->seen == 0 && !d->last); /* a block of its own */
    if (refuse) return gd_fail(gd_link_ctx(link), GD_FORMAT, "counted: not what it was");
    d->seen = *gd_link_global(link, "seen", 0);
    gd_tensor *last = gd_link_global_tensor(link, "last");
    d->last = last ? gd_retain(last) : NULL;
    return GD_OK;
}

static const gd_link_class counted_class = {.name = "counted",
                                            .data_size = sizeof(counted_data),
                                            .step = counted_step,
                                            .pack = counted_pack,
                                            .unpack = counted_unpack,
                                            .destroy = counted_destroy};

static void data_of_a_link_is_saved_and_comes_back(void **state)
{
    gd_ctx *ctx = CTX(state);
    OK(gd_link_class_register(ctx, &counted_class));
    refuse = false;
    problem x = saved_problem(ctx, "counted | lr(0.1)"), y = open_problem(ctx, "lr(1) | counted | lr(0.1)");
    OK(gd_optimizer_load(y.o, path, false));
    counted_data *from = gd_link_data(nth(&x, "counted", 0)), *to = gd_link_data(nth(&y, "counted", 0));
    assert_true(from->seen == 3 && to->seen == 3);
    assert_memory_equal(gd_data(to->last), gd_data(from->last), 16);
    OK(step_without(&y, NULL));
    assert_true(gd_optimizer_attr(y.o, "seen", 0) == 4);
    /* what cannot be unpacked changes nothing */
    refuse = true;
    assert_int_equal(gd_optimizer_load(y.o, path, false), GD_FORMAT);
    assert_error(ctx, GD_FORMAT, "counted: not what it was");
    to = gd_link_data(nth(&y, "counted", 0));
    assert_true(to->seen == 4 && gd_optimizer_steps(y.o) == 4);
    close_problem(&x);
    close_problem(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(links_are_matched_by_class_and_order),
        CASE(a_chain_with_a_link_more_goes_on_with_the_same_bits),
        CASE(a_program_reads_what_was_missing_and_what_was_not_used),
        CASE(data_of_a_link_is_saved_and_comes_back),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return failed;
}
