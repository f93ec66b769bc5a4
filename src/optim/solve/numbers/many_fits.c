/* gd_least_squares_many: the fits of a list, shared by threads. */
#include "base/team.h"
#include "optim/solve/numbers/many_fits.h"

#include <math.h>

typedef struct many {
    gd_ctx *ctx;
    const gd_lsq_many *of;
    const gd_lsq_options *options;
    double *x;
    gd_lsq_one *out;
    gd_team *team;
    struct member {
        void *state;
        bool opened;
    } * member;
} many;

static double *part(double *all, int64_t fit, int64_t size) { return all ? all + fit * size : NULL; }

static void copy_numbers(gd_tensor *t, double *to, int64_t count)
{
    if (!to) return;
    for (int64_t i = 0; i < count; i++) to[i] = t ? ((const double *)gd_data(t))[i] : NAN;
}

/* One fit on a thread. */
static void fit_one(many *all, gd_ctx *ctx, void *state, int64_t i)
{
    const gd_lsq_many *of = all->of;
    int64_t n = of->params;
    gd_lsq_options o = *all->options;
    gd_lsq_problem problem = {0};
    gd_lsq_result r = {0};
    o.covariance = of->errors || of->covariance;
    if (of->low) o.low = of->low + i * n;
    if (of->high) o.high = of->high + i * n;
    gd_scope_begin(ctx);
    gd_status status = of->problem(state, i, &problem);
    if (!status && problem.params != n)
        status = gd_fail(ctx, GD_SHAPE, "fit %lld has %lld parameters, not %lld", (long long)i,
                         (long long)problem.params, (long long)n);
    if (!status) status = gd_lsq_solve(ctx, &problem, all->x + i * n, &o, &r);
    all->out[i] = (gd_lsq_one){.status = status,
                               .reason = status ? GD_STOP_ERROR : r.solve.reason,
                               .converged = !status && r.solve.converged,
                               .residuals = r.residuals,
                               .dof = r.dof,
                               .free = r.free,
                               .rank = r.rank,
                               .steps = r.solve.steps,
                               .evals = r.solve.evals,
                               .loss = status ? NAN : r.solve.loss,
                               .rss = status ? NAN : r.rss,
                               .sigma = status ? NAN : r.sigma,
                               .scale = status ? NAN : r.scale};
    copy_numbers(status ? NULL : r.standard_errors, part(of->errors, i, n), n);
    copy_numbers(status ? NULL : r.covariance, part(of->covariance, i, n * n), n * n);
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
}

/* Adjacent fits, so that data are read in order. */
static void run_share(void *user, int64_t index)
{
    many *all = user;
    gd_ctx *ctx = gd__team_member(all->team, (int)index);
    int64_t count = gd__team_count(all->team), fits = all->of->fits;
    for (int64_t i = fits * index / count; i < fits * (index + 1) / count; i++) {
        fit_one(all, ctx, all->member[index].state, i);
        gd_status status = all->out[i].status;
        if (status == GD_NOMEM || status == GD_INTERRUPTED) return; /* stays recorded: the call fails */
        gd_clear_error(ctx);
    }
}

static gd_status open_members(many *all)
{
    size_t bytes = (size_t)gd__team_count(all->team) * sizeof *all->member;
    if (!(all->member = gd__calloc(all->ctx, bytes))) return GD_NOMEM;
    for (int i = 0; i < gd__team_count(all->team); i++) {
        gd_ctx *ctx = gd__team_member(all->team, i);
        all->member[i].state = all->of->user;
        if (!all->of->open) continue;
        all->member[i].state = all->of->open(all->of->user, ctx);
        all->member[i].opened = all->member[i].state != NULL;
        if (!all->member[i].opened) {
            gd_fail(ctx, GD_CALLBACK, "least squares: nothing was opened");
            return gd__team_tell(all->team, i);
        }
    }
    return GD_OK;
}

static gd_status run_all(many *all)
{
    gd_status status = open_members(all);
    if (!status) gd__team_run(all->team, run_share, all);
    for (int i = 0; i < gd__team_count(all->team); i++) {
        if (gd_error(gd__team_member(all->team, i)) && !status) status = gd__team_tell(all->team, i);
        gd_clear_error(gd__team_member(all->team, i));
    }
    for (int i = 0; all->member && i < gd__team_count(all->team); i++) {
        if (all->member[i].opened && all->of->close) all->of->close(all->member[i].state);
    }
    gd__free(all->ctx, all->member, (size_t)gd__team_count(all->team) * sizeof *all->member);
    return status;
}

static gd_status check_many(gd_ctx *ctx, const gd_lsq_many *m, const gd_lsq_options *o)
{
    if (m->fits < 0 || (!m->rows && (!m->problem || m->params <= 0)))
        return gd_fail(ctx, GD_ARGUMENT, "least squares: %lld fits of %lld parameters need a problem or rows",
                       (long long)m->fits, (long long)m->params);
    if (o->solve.callback || o->names || o->chosen || o->rows)
        return gd_fail(ctx, GD_ARGUMENT,
                       "least squares: many fits take no callback, names, rows or chosen elements");
    return gd__lsq_check_options(ctx, o);
}

gd_status gd_least_squares_many(gd_ctx *ctx, const gd_lsq_many *given, const gd_lsq_options *options,
                                double *x, gd_lsq_one *out)
{
    gd_lsq_options defaults = gd_lsq_defaults();
    if (!ctx) return GD_ARGUMENT;
    if (gd_error(ctx)) return gd_error(ctx);
    if (!given || !x || !out)
        return gd_fail(ctx, GD_ARGUMENT, "least squares: no fits, no starts or no place for results");
    if (!options) options = &defaults;
    gd_status status = check_many(ctx, given, options);
    if (status || !given->fits) return status;
    gd_lsq_many by_rows = *given;
    gd_many_rows rows = {0};
    if (given->rows) status = gd__many_rows(ctx, given, &rows, &by_rows);
    many all = {.ctx = ctx, .of = given->rows ? &by_rows : given, .options = options, .x = x, .out = out};
    if (!status && !(all.team = gd__team_new(ctx, given->fits))) status = gd_error(ctx);
    if (!status) status = run_all(&all);
    if (all.team) gd__team_free(all.team);
    gd__many_rows_end(ctx, &rows);
    return status;
}
