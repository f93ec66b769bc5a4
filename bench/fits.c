/* Least squares beyond one dense fit: many parameters of which each residual reads two, and a thousand small fits. */
#include "bench.h"
#include "count.h"
#include "gradus/lsq.h"
#include "small/bundle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- sparse: r = x_a^2 - x_b - y over neighbours, or over pairs drawn at random ---- */

typedef struct pairs {
    gd_ctx *ctx;
    int64_t m, n, *start, *column;
    double *x, *y;
    char how[48]; /* gd_lsq_result.linear */
} pairs;

static gd_status pair_residuals(void *user, const double *x, double *r)
{
    const pairs *p = user;
    for (int64_t i = 0; i < p->m; i++)
        r[i] = x[p->column[2 * i]] * x[p->column[2 * i]] - x[p->column[2 * i + 1]] - p->y[i];
    return GD_OK;
}

static gd_status pair_jacobian(void *user, const double *x, double *value)
{
    const pairs *p = user;
    for (int64_t i = 0; i < p->m; i++) value[2 * i] = 2 * x[p->column[2 * i]], value[2 * i + 1] = -1;
    return GD_OK;
}

static void fit_pairs(void *arg)
{
    pairs *p = arg;
    for (int64_t i = 0; i < p->n; i++) p->x[i] = 1.5;
    gd_lsq_problem problem = {.residuals = p->m,
                              .params = p->n,
                              .user = p,
                              .residual = pair_residuals,
                              .jacobian = pair_jacobian,
                              .row_start = p->start,
                              .column = p->column};
    gd_lsq_result fit;
    if (gd_lsq_solve(p->ctx, &problem, p->x, NULL, &fit) || !fit.solve.converged) bench_check(p->ctx);
    memcpy(p->how, fit.linear, sizeof p->how);
    gd_lsq_result_clear(&fit);
}

static void make_pairs(pairs *p, bool random)
{
    uint32_t seed = 5;
    p->start[0] = 0;
    for (int64_t i = 0; i < p->m; i++) {
        int64_t a = i % p->n, b = (a + 1) % p->n;
        while (random) {
            seed = seed * 1664525u + 1013904223u;
            b = (int64_t)((double)(seed >> 8) / (1 << 24) * (double)p->n);
            if (b != a) break;
        }
        p->start[i + 1] = 2 * (i + 1);
        p->column[2 * i] = a < b ? a : b;
        p->column[2 * i + 1] = a < b ? b : a;
        double at = 1 + (double)p->column[2 * i] / (double)p->n,
               bt = 1 + (double)p->column[2 * i + 1] / (double)p->n;
        p->y[i] = at * at - bt;
    }
}

/* ---- bundle adjustment ---- */

#define TOLERANCE 1e-10 /* of the loss, for both */

static gd_status bundle_residuals(void *user, const double *x, double *r)
{
    const bundle *b = user;
    const double *points = x + b->cameras * BUNDLE_CAMERA;
    for (int64_t i = 0; i < b->seen; i++)
        bench_bundle_seen(x + b->camera[i] * BUNDLE_CAMERA, points + b->point[i] * BUNDLE_POINT,
                          b->at + 2 * i, r + 2 * i, NULL, NULL);
    for (int64_t i = 0; i < b->cameras * BUNDLE_CAMERA; i++)
        r[2 * b->seen + i] = bench_bundle_prior((int)(i % BUNDLE_CAMERA)) * (x[i] - b->start[i]);
    return GD_OK;
}

static gd_status bundle_jacobian(void *user, const double *x, double *value)
{
    const bundle *b = user;
    const double *points = x + b->cameras * BUNDLE_CAMERA;
    for (int64_t i = 0; i < b->seen; i++, value += 2 * (BUNDLE_CAMERA + BUNDLE_POINT)) {
        double r[2], c[2 * BUNDLE_CAMERA], p[2 * BUNDLE_POINT];
        bench_bundle_seen(x + b->camera[i] * BUNDLE_CAMERA, points + b->point[i] * BUNDLE_POINT,
                          b->at + 2 * i, r, c, p);
        for (int k = 0; k < 2; k++) {
            double *row = value + k * (BUNDLE_CAMERA + BUNDLE_POINT);
            memcpy(row, c + k * BUNDLE_CAMERA, BUNDLE_CAMERA * sizeof *row);
            memcpy(row + BUNDLE_CAMERA, p + k * BUNDLE_POINT, BUNDLE_POINT * sizeof *row);
        }
    }
    for (int64_t i = 0; i < b->cameras * BUNDLE_CAMERA; i++)
        *value++ = bench_bundle_prior((int)(i % BUNDLE_CAMERA));
    return GD_OK;
}

/* Seconds of a fit from the start; *loss: the sum of squares at its end. */
static double fit_bundle(gd_ctx *ctx, bundle *b, double *x, double *loss)
{
    gd_lsq_problem problem = {.residuals = b->residuals,
                              .params = b->params,
                              .user = b,
                              .residual = bundle_residuals,
                              .jacobian = bundle_jacobian,
                              .row_start = b->row_start,
                              .column = b->column};
    gd_lsq_options options = gd_lsq_defaults();
    gd_lsq_result fit;
    options.covariance = false;
    options.solve.loss_tol = TOLERANCE;
    memcpy(x, b->start, (size_t)b->params * sizeof *x);
    double begun = bench_now();
    if (gd_lsq_solve(ctx, &problem, x, &options, &fit) || !fit.solve.converged) bench_check(ctx);
    double took = bench_now() - begun;
    *loss = fit.rss;
    gd_lsq_result_clear(&fit);
    return took;
}

/* The fastest of some runs in turn. */
static void report_bundle(gd_ctx *ctx)
{
    bundle *b = bench_bundle(50, 5000, 10);
    double *x = b ? malloc((size_t)b->params * sizeof *x) : NULL, loss = NAN, ours = INFINITY;
    report r = {.name = "bundle adjustment: 50 cameras, 5,000 points, 50,000 observations (Schur)",
                .unit = "ms"};
#ifdef GD_BENCH_CERES
    double cost = NAN, other = INFINITY;
    int steps;
    for (int k = 0; k < 5 && x; k++) {
        ours = fmin(ours, fit_bundle(ctx, b, x, &loss));
        memcpy(x, b->start, (size_t)b->params * sizeof *x);
        other = fmin(other, bench_bundle_ceres(b, TOLERANCE, x, &cost, &steps));
    }
    r.against = "Ceres, SPARSE_SCHUR:", r.other = 1e3 * other, r.ratio_limit = 1 / 1.5;
#else
    for (int k = 0; k < 5 && x; k++) ours = fmin(ours, fit_bundle(ctx, b, x, &loss));
#endif
    r.value = 1e3 * ours;
    bench_report(r);
#ifdef GD_BENCH_CERES
    bench_report((report){.name = "the same: relative difference of the two minima",
                          .value = fabs(loss / cost - 1),
                          .unit = "",
                          .limit = 1e-8});
#endif
    free(x);
    bench_bundle_free(b);
}

void bench_sparse(void)
{
    pairs p = {.ctx = bench_context(1), .m = 100000, .n = 10000};
    p.start = malloc((size_t)(p.m + 1) * sizeof *p.start);
    p.column = malloc((size_t)(2 * p.m) * sizeof *p.column);
    p.y = malloc((size_t)p.m * sizeof *p.y);
    p.x = malloc((size_t)p.n * sizeof *p.x);
    if (p.start && p.column && p.y && p.x)
        for (int random = 0; random < 2; random++) {
            make_pairs(&p, random);
            char name[120];
            double time = bench_time(fit_pairs, &p);
            (void)snprintf(name, sizeof name, "1e5 residuals x 1e4 parameters, %s (%s)",
                           random ? "random pairs" : "neighbours", p.how);
            bench_report((report){.name = name, .value = 1e3 * time, .unit = "ms", .limit = 1000});
        }
    free(p.start);
    free(p.column);
    free(p.y);
    free(p.x);
    report_bundle(p.ctx);
    gd_ctx_free(p.ctx);
}

/* ---- many: a exp(-b t) + c, 20 points each ---- */

#define FITS   1000
#define POINTS 20

typedef struct decays {
    gd_ctx *ctx;
    gd_tensor *table[2], *like[3];
    int64_t first[FITS + 1];
    double x[3 * FITS], errors[3 * FITS];
    gd_lsq_one out[FITS];
} decays;

static gd_tensor *decay(void *state, gd_tensor *const *p, gd_tensor *const *column, int64_t first)
{
    (void)state, (void)first;
    return gd_sub(gd_add(gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], column[0])))), p[2]), column[1]);
}

static void fit_decays(void *arg)
{
    decays *d = arg;
    for (int i = 0; i < 3 * FITS; i++) d->x[i] = 1;
    gd_rows rows = {.count = FITS * POINTS, .data = d->table, .columns = 2, .residuals = decay};
    gd_lsq_many many = {.fits = FITS,
                        .rows = &rows,
                        .like = d->like,
                        .like_count = 3,
                        .first = d->first,
                        .errors = d->errors};
    if (gd_least_squares_many(d->ctx, &many, NULL, d->x, d->out)) bench_check(d->ctx);
}

typedef struct peer_fits {
    const char *name;
    void (*run)(long fits);
} peer_fits;

static void run_peer(void *arg)
{
    const peer_fits *peer = arg;
    peer->run(FITS);
}

/* Microseconds of a fit beside those of the libraries that the program was built with, in turn. */
static void report_beside(const char *name, bench_fn ours, void *arg)
{
    static const struct {
        const char *find, *against;
        double ratio;
    } peers[] = {{"gsl-fit", "GSL, one after the other:", 1}, {"minpack-fit", "MINPACK, no errors:", 0}};
    bool any = false;
    for (size_t k = 0; k < sizeof peers / sizeof *peers; k++) {
        peer_fits peer = {peers[k].find, bench_count_find(peers[k].find)};
        double time, other;
        if (!peer.run) continue;
        bench_compare(ours, arg, run_peer, &peer, &time, &other);
        bench_report((report){.name = any ? "the same" : name,
                              .value = 1e6 / FITS * time,
                              .unit = "us",
                              .against = peers[k].against,
                              .other = 1e6 / FITS * other,
                              .ratio_limit = peers[k].ratio});
        any = true;
    }
    if (!any) bench_report((report){.name = name, .value = 1e6 / FITS * bench_time(ours, arg), .unit = "us"});
}

/* The same in instructions, which other work on the machine does not change. */
static void report_counted(void)
{
    static const struct {
        const char *name, *text, *peer, *against;
        double limit, ratio;
    } rows[] = {{"fit-many", "the same, by callgrind", "gsl-fit", "GSL:", 200e3, 1},
                {"fit-many", "the same", "minpack-fit", "MINPACK, no errors:", 0, 0},
                {"fit-callbacks", "one fit by callbacks, with errors", "gsl-fit", "GSL:", 200e3, 1}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        double count = bench_instructions(rows[k].name, 100),
               other = count > 0 ? bench_instructions(rows[k].peer, 100) : 0;
        if (!(count > 0)) continue;
        bench_report((report){.name = rows[k].text,
                              .value = count,
                              .unit = "instructions",
                              .against = other > 0 ? rows[k].against : NULL,
                              .other = other,
                              .limit = rows[k].limit,
                              .ratio_limit = rows[k].ratio});
    }
    if (*bench_missing_peers())
        bench_note("not compared with, for they were not there at build time:", bench_missing_peers());
}

void bench_many(void)
{
    static decays d;
    static double t[FITS * POINTS], y[FITS * POINTS];
    uint32_t seed = 11;
    int64_t rows = FITS * POINTS;
    d.ctx = bench_context(1);
    for (int i = 0; i < FITS * POINTS; i++) {
        double f = (double)(i / POINTS) / FITS;
        seed = seed * 1664525u + 1013904223u;
        t[i] = 5.0 * (i % POINTS) / POINTS;
        y[i] = (2 + f) * exp(-(0.8 + 0.4 * f) * t[i]) + 0.5 + 0.1 * ((double)(seed >> 8) / (1 << 24) - 0.5);
    }
    for (int64_t i = 0; i <= FITS; i++) d.first[i] = i * POINTS;
    d.table[0] = gd_from_f64(d.ctx, GD_F64, 1, &rows, t);
    d.table[1] = gd_from_f64(d.ctx, GD_F64, 1, &rows, y);
    for (int k = 0; k < 3; k++) d.like[k] = gd_scalar(d.ctx, GD_F64, 1);
    bench_check(d.ctx);
    report_beside("a fit of 20 points and 3 parameters, of 1000, with errors, one thread", fit_decays, &d);
    report_counted();
    for (int k = 0; k < 2; k++) gd_release(d.table[k]);
    for (int k = 0; k < 3; k++) gd_release(d.like[k]);
    gd_ctx_free(d.ctx);
}
