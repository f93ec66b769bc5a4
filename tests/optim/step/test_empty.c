/* Parameters without elements, through the table of links: alone they make a step of nothing, and beside others they
 * change nothing. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

#define STEPS 3

typedef struct run {
    gd_tensor *p, *empty, *flat; /* [2], [0], [3, 0]; NULL: not there */
} run;

/* Residuals: p - 1, a product of its elements, and what there is of the others. */
static gd_tensor *residuals(void *user)
{
    run *r = user;
    gd_tensor *part[4];
    int count = 0;
    if (r->p) {
        part[count++] = gd_add_scalar(r->p, -1);
        part[count++] = gd_mul(gd_slice(r->p, "0", 0, 1, 1), gd_slice(r->p, "0", 1, 2, 1));
    }
    if (r->empty) part[count++] = gd_mul_scalar(r->empty, 2);
    if (r->flat) part[count++] = gd_reshape(gd_square(r->flat), 1, (int64_t[]){0});
    return gd_cat(part, count, "0");
}

static gd_tensor *zeros(gd_ctx *ctx, int ndim, const int64_t *size)
{
    return gd_require_grad(gd_zeros(ctx, GD_F64, ndim, size));
}

/* A few steps; where p ends is stored in x.  False when a step fails. */
static bool minimise(const char *chain, bool with_p, bool with_others, double x[2])
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compile = false;
    options.seed = 5;
    gd_ctx *ctx = gd_ctx_new(&options);
    run r = {.p = with_p ? gd_require_grad(VECTOR(ctx, 1.75, 0.5)) : NULL};
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    if (r.p) OK(gd_optimizer_add(o, "p", r.p));
    if (with_others) {
        r.empty = zeros(ctx, 1, (int64_t[]){0});
        r.flat = zeros(ctx, 2, (int64_t[]){3, 0});
        OK(gd_optimizer_add(o, "empty", r.empty));
        OK(gd_optimizer_add(o, "flat", r.flat));
    }
    gd_status status = GD_OK;
    for (int i = 0; i < STEPS && !status; i++)
        status = gd_optimizer_step(o, &(gd_objective){.loss = residuals, .user = &r}, NULL);
    if (status) print_error("%s: %s\n", chain, gd_error_text(ctx));
    gd_clear_error(ctx);
    if (r.p) OK(gd_read_f64(r.p, x, 2));
    gd_optimizer_free(o);
    gd_release(r.p);
    gd_release(r.empty);
    gd_release(r.flat);
    end_context(ctx, NULL);
    return !status;
}

static int complaints, links;

static void check_link(const gd_link_class *cls, const char *text)
{
    (void)cls;
    double x[2] = {0}, y[2] = {0};
    links++;
    complaints += !minimise(text, false, true, x);
    bool good = minimise(text, true, false, x), as_well = minimise(text, true, true, y);
    complaints += good != as_well;
    if (!memcmp(x, y, sizeof x)) return;
    print_error("%s: (%.17g, %.17g) alone, (%.17g, %.17g) beside parameters without elements\n", text, x[0],
                x[1], y[0], y[1]);
    complaints++;
}

static void parameters_without_elements_change_nothing(void **state)
{
    (void)state;
    each_link_text(check_link);
    assert_true(links * test_share() > 60);
    assert_int_equal(complaints, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(parameters_without_elements_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
