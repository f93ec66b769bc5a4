/* gradus fit --intervals bootstrap: fits of resampled rows, distributed over contexts on separate threads.
 *
 * A context and its tensors belong to one thread, so each has copies of the columns and its own expression.  Resample k is the same on
 * every worker. */
#include "base/system.h"
#include "fit/fit_job.h"
#include "gradus/autograd.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define MOST_WORKERS 64
#define WORTH        64 /* resamples per worker */

typedef struct worker {
    gd_fit *job; /* that of the caller, or `copy` */
    gd_fit copy;
    const gd_lsq_options *options;
    gd_lsq_result fit; /* settings for resampling */
    bool own;          /* the copy, in its own context */
    int64_t first, number;
    double *out;
    uint64_t seed;
    bool of_residuals;
    int workers; /* of all */
    gd_status status;
    char text[512];
} worker;

/* ---- a copy of a job in a different context ---- */

static gd_tensor *copy_of(gd_ctx *ctx, gd_tensor *t)
{
    int64_t shape[GD_MAX_DIMS];
    for (int i = 0; i < gd_ndim(t); i++) shape[i] = gd_size(t, i);
    return gd_from_f64(ctx, GD_F64, gd_ndim(t), shape, gd_data(t));
}

static gd_status copy_values(gd_fit *to, const gd_fit *from)
{
    gd_ctx *ctx = to->ctx;
    for (int i = 0; i < to->names; i++) {
        gd_tensor *t = i < to->params ? from->param[i] : from->value[i];
        to->name[i] = from->name[i]; /* interned by the other context, which lives longer */
        if (!t) continue;
        gd_tensor *copy = copy_of(ctx, t);
        if (i < to->params)
            to->param[i] = copy;
        else
            to->value[i] = copy;
        if (!copy || (i < to->params && !gd_require_grad(copy))) return gd_error(ctx);
    }
    for (; to->x_errors.count < from->x_errors.count; to->x_errors.count++) {
        to->x_errors.at[to->x_errors.count] = from->x_errors.at[to->x_errors.count];
        if (!(to->x_errors.value[to->x_errors.count] = copy_of(ctx,
                                                               from->x_errors.value[to->x_errors.count])))
            return gd_error(ctx);
    }
    if (!(to->y = copy_of(ctx, from->y))) return gd_error(ctx);
    return !from->scale || (to->scale = copy_of(ctx, from->scale)) ? GD_OK : gd_error(ctx);
}

/* Only the data that residuals need. */
static gd_status copy_job(gd_fit *to, const gd_fit *from)
{
    gd_options one = gd_options_default();
    one.threads = 1;
    one.vocabulary = from->ctx->vocabulary;
    gd_ctx *ctx = gd_ctx_new(&one);
    if (!ctx) return GD_NOMEM;
    *to = (gd_fit){.ctx = ctx,
                   .spec = from->spec,
                   .watch = from->watch,
                   .y_name = from->y_name,
                   .params = from->params,
                   .names = from->names,
                   .element.count = from->element.count};
    gd__fit_listen(to, ctx, true);
    to->name_bytes = from->name_bytes;
    to->name = gd__calloc(ctx, to->name_bytes);
    to->value = gd__calloc(ctx, to->name_bytes);
    to->param = gd__calloc(ctx, to->name_bytes);
    if (!to->name || !to->value || !to->param) return GD_NOMEM;
    gd_status status = copy_values(to, from);
    if (status) return status;
    to->model = gd__fit_parse_model(to, ctx, from->form);
    for (int i = to->params; i < to->names && to->model; i++)
        if (to->value[i] && !gd__fit_is_noisy(to, i)) gd_expr_fix(to->model, i);
    return to->model ? GD_OK : gd_error(ctx);
}

/* ---- work ---- */

#define SOME 64 /* at a time: progress is shown after each */

/* Resamples first, ... of the worker. */
static gd_status resample_some(worker *w, int64_t first, int64_t number)
{
    gd_fit *j = w->job;
    return gd_lsq_resample(j->param, j->params, gd__fit_residuals, j, w->options, &w->fit, w->of_residuals,
                           w->seed, w->first + first, number, w->out + first * j->element.count);
}

/* All resamples of a worker; the worker of the job's own context shows the approximate progress of all. */
static void *resample(void *user)
{
    worker *w = user;
    gd_fit *j = w->job;
    int64_t some = w->own ? w->number : SOME;
    for (int64_t done = 0; done < w->number && !w->status; done += some) {
        w->status = resample_some(w, done, some < w->number - done ? some : w->number - done);
        if (!w->own) gd__fit_tell(j, "resample", (done + some) * w->workers, j->how.resamples, j->fit.rss);
    }
    if (w->status && w->own) (void)snprintf(w->text, sizeof w->text, "%s", gd_error_text(j->ctx));
    return NULL;
}

static void end_worker(worker *w)
{
    if (!w->own || !w->copy.ctx) return;
    gd_ctx *ctx = w->copy.ctx;
    gd_release(w->fit.active);
    gd__fit_close(&w->copy);
    gd_ctx_free(ctx);
}

/* Divides resamples from..to equally. */
static void share(worker *w, int count, int64_t number, int64_t n, double *out)
{
    for (int i = 0; i < count; i++) {
        w[i].first = number * i / count;
        w[i].number = number * (i + 1) / count - w[i].first;
        w[i].out = out + w[i].first * n;
    }
}

/* The work of workers 1, 2, ... on threads, that of 0 here. */
static void run_all(worker *w, int count)
{
    pthread_t thread[MOST_WORKERS];
    bool started[MOST_WORKERS] = {false};
    for (int i = 1; i < count; i++) started[i] = gd__thread_start(&thread[i], resample, &w[i]);
    (void)resample(&w[0]);
    for (int i = 1; i < count; i++) {
        if (started[i])
            (void)pthread_join(thread[i], NULL);
        else
            (void)resample(&w[i]); /* no thread available */
    }
}

static gd_status first_failure(gd_ctx *ctx, const worker *w, int count)
{
    for (int i = 0; i < count; i++) {
        if (!w[i].status) continue;
        if (w[i].own && w[i].status != GD_NOMEM && !gd_error(ctx))
            (void)gd_fail(ctx, w[i].status, "%s", w[i].text);
        return w[i].status;
    }
    return GD_OK;
}

gd_status gd__fit_resample(gd_fit *j, const gd_lsq_options *o, double *samples)
{
    int64_t most = j->how.resamples / WORTH;
    int count = (int)fmin(fmin(gd_ctx_threads(j->ctx), MOST_WORKERS), fmax((double)most, 1));
    worker *w = gd__calloc(j->ctx, MOST_WORKERS * sizeof *w);
    if (!w) return GD_NOMEM;
    /* a function is called by its own thread; data on a device belong to one context */
    if (j->spec.function) count = 1;
    if (gd_tensor_device(j->y) != gd_device_get(j->ctx, "cpu")) count = 1;
    w[0].job = j;
    w[0].fit = j->fit;
    gd__fit_tell(j, "resample", 0, j->how.resamples, NAN);
    for (int i = 1; i < count; i++) {
        w[i].own = true;
        w[i].job = &w[i].copy;
        if (copy_job(&w[i].copy, j) ||
            !(w[i].fit.active = gd_from_f64(
                  w[i].copy.ctx, GD_F64, 1, &j->element.count,
                  j->element.active))) { /* too little memory for more workers: the existing ones do all */
            end_worker(&w[i]);
            count = i;
        }
    }
    share(w, count, j->how.resamples, j->element.count, samples);
    for (int i = 0; i < count; i++)
        w[i].workers = count, w[i].options = o, w[i].fit.scale = j->fit.scale, w[i].seed = j->spec.seed,
        w[i].of_residuals = j->how.of_residuals;
    run_all(w, count);
    gd__fit_tell_end(j);
    gd_status status = first_failure(j->ctx, w, count);
    for (int i = 1; i < count; i++) end_worker(&w[i]);
    gd__free(j->ctx, w, MOST_WORKERS * sizeof *w);
    return status;
}
