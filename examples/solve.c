/* The same curve y = a exp(-b t) + c three ways: as a least-squares fit with errors of its parameters, and as a loss
 * minimised by two chains.
 *
 *     ./solve
 *
 * Shows: gd_least_squares, gd_minimize, stopping rules and reasons. */
#include <stdio.h>

#include <gradus/gradus.h>

static const double seconds[] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5};
static const double degrees[] = {3.02, 2.31, 1.82, 1.48, 1.19, 1.01, 0.87, 0.76, 0.71, 0.64, 0.62, 0.58};
enum { COUNT = sizeof seconds / sizeof *seconds };

typedef struct cooling {
    gd_tensor *p[3]; /* a, b, c */
    gd_tensor *t, *y;
} cooling;

/* A vector of residuals: both solvers take it, one as it is, the other as its sum of squares. */
static gd_tensor *residuals(void *user)
{
    cooling *c = user;
    gd_tensor *model = gd_add(gd_mul(c->p[0], gd_exp(gd_neg(gd_mul(c->p[1], c->t)))), c->p[2]);
    return gd_sub(model, c->y);
}

static gd_status start(cooling *c)
{
    for (int i = 0; i < 3; i++) {
        gd_status status = gd_fill(c->p[i], 1);
        if (status) return status;
    }
    return GD_OK;
}

static gd_status fit(cooling *c)
{
    gd_lsq_result r;
    double error[3];
    gd_status status = start(c);
    if (!status) status = gd_least_squares(c->p, 3, residuals, c, NULL, &r);
    if (status) return status;
    status = gd_read_f64(r.standard_errors, error, 3);
    printf("least squares: %lld evaluations, rss %.6f, %s\n", (long long)r.solve.evals, r.rss,
           gd_stop_text(r.solve.reason));
    for (int i = 0; i < 3; i++) printf("    %c = %.5f +- %.5f\n", 'a' + i, gd_item(c->p[i]), error[i]);
    gd_lsq_result_clear(&r);
    return status;
}

static gd_status minimize(cooling *c, const char *chain)
{
    gd_solve_result r;
    gd_status status = start(c);
    if (!status)
        status = gd_minimize(c->p, 3, &(gd_objective){.loss = residuals, .user = c}, chain, NULL, &r);
    if (status) return status;
    printf("%s: %lld evaluations, loss %.6f, %s\n", chain, (long long)r.evals, r.loss,
           gd_stop_text(r.reason));
    return GD_OK;
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    cooling c = {.t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){COUNT}, seconds),
                 .y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){COUNT}, degrees)};
    for (int i = 0; i < 3; i++) c.p[i] = gd_require_grad(gd_scalar(ctx, GD_F64, 1));
    gd_status status = gd_error(ctx);
    if (!status) status = fit(&c);
    if (!status) status = minimize(&c, "lbfgs | strong_wolfe");
    if (!status) status = minimize(&c, "levenberg_marquardt(gauss_newton)");
    if (status) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
    return status != GD_OK;
}
