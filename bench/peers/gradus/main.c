/* Chains of links on the problems of problem.h, and the table of kinds. */
#include "problem_parts.h"
#include "solve.h"
#include "work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void *gradus_memory(size_t size)
{
    void *made = calloc(1, size);
    if (!made) exit(1);
    return made;
}

gd_ctx *gradus_context(void)
{
    gd_options options = gd_options_default();
    options.threads = peer_threads();
    gd_ctx *ctx = gd_ctx_new(&options);
    if (!ctx) exit(1);
    gd_scope_begin(ctx);
    return ctx;
}

void gradus_check(gd_ctx *ctx)
{
    if (!gd_error(ctx)) return;
    fprintf(stderr, "gradus: %s\n", gd_error_text(ctx));
    exit(1);
}

void gradus_end(gd_ctx *ctx)
{
    gradus_check(ctx);
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
}

/* ---- problems ---- */

typedef struct run {
    problem *p;
    gd_tensor *x;
} run;

static gd_status gradient(void *user, double *loss, gd_tensor *const *grads)
{
    run *r = user;
    *loss = problem_evaluate(r->p, gd_data(r->x), gd_data_mut(grads[0]));
    return GD_OK;
}

static bool go_on(void *user, const gd_progress *progress)
{
    (void)progress;
    return !problem_over(user);
}

static gd_status set_bounds(gd_optimizer *o, gd_tensor *x, const problem *p)
{
    gd_link *box = gd_link_child_at(gd_optimizer_chain(o), 0);
    gd_status status = gd_link_set_for(box, x, "low", gd_setting_list(problem_low(p), problem_size(p)));
    return status ? status
                  : gd_link_set_for(box, x, "high", gd_setting_list(problem_high(p), problem_size(p)));
}

static double minimize(problem *p, double *x)
{
    gd_ctx *ctx = gradus_context();
    int64_t n = problem_size(p);
    run r = {p, gd_require_grad(gd_from_f64(ctx, GD_F64, 1, &n, x))};
    gd_solve_options options = gd_solve_defaults();
    gd_solve_result result;
    options.max_steps = 100000;
    options.max_evals = PROBLEM_EVALS - 100;
    options.gradient_tol = solve_tolerance(p);
    options.callback = go_on;
    options.callback_user = p;
    const char *chain = problem_low(p) ? "box | " GD_DEFAULT_CHAIN : GD_DEFAULT_CHAIN;
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    gd_status status = gd_optimizer_add(o, "x", r.x);
    if (!status && problem_low(p)) status = set_bounds(o, r.x, p);
    if (!status)
        status = gd_minimize_with(o, &(gd_objective){.gradient = gradient, .user = &r}, &options, &result);
    if (!status) status = gd_read_f64(r.x, x, n);
    gd_optimizer_free(o);
    gradus_end(ctx);
    return status ? NAN : result.loss;
}

static double fit(problem *p, double *x)
{
    gd_lsq_result result;
    gd_status status = gd_least_squares(problem_params(p), problem_size(p), problem_operators, p, NULL,
                                        &result);
    for (int i = 0; i < problem_size(p); i++) x[i] = gd_item(problem_params(p)[i]);
    gd_lsq_result_clear(&result);
    return status ? NAN : result.rss;
}

static double solve(problem *p, const char *method, double *x)
{
    (void)method;
    return problem_rows(p) ? fit(p, x) : minimize(p, x);
}

int main(void)
{
    const peer_kind more[] = {
        gradus_step,     gradus_rosenbrock, gradus_mlp,     gradus_conv, gradus_transformer,
        gradus_gradient, gradus_product,    gradus_hessian, gradus_fit,  {0}};
    return solve_main(gd_version(), solve, more);
}
