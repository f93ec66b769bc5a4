/* Progress for the caller of a fit.  Its callbacks run on its own thread only; other threads read its last answer. */
#include "base/observer.h"
#include "fit/fit_job.h"
#include "world/world_internal.h"

static bool is_caller(const gd_fit_watch *w) { return pthread_equal(w->thread, pthread_self()); }

static bool is_interrupted(void *user)
{
    gd_fit_watch *w = user;
    if (is_caller(w) && gd__is_interrupted(w->observer)) atomic_store(&w->interrupted, true);
    return atomic_load(&w->interrupted);
}

/* Work after the end of the solver is no longer interrupted. */
static bool is_asked_to_end(void *user)
{
    gd_fit_watch *w = user;
    return !atomic_load(&w->ending) && is_interrupted(w);
}

void gd__fit_watch(gd_fit *j)
{
    j->watch = &j->own_watch;
    j->watch->asks = (gd_observer){.interrupted = is_asked_to_end, .user = j->watch};
    atomic_store(&j->watch->ending, false);
    j->watch->observer = j->spec.observer;
    j->watch->thread = pthread_self();
    j->watch->unit = NULL;
    atomic_store(&j->watch->interrupted, false);
}

bool gd__fit_interrupted(const gd_fit *j) { return is_interrupted(j->watch); }

void gd__fit_listen(const gd_fit *j, gd_ctx *ctx, bool yes)
{
    /* processes end between two steps, together */
    gd_ctx_observe(ctx, yes && !j->spec.world && !j->stopping ? &j->watch->asks : NULL);
}

bool gd__fit_all_interrupted(gd_fit *j)
{
    return gd__world_any(j->ctx, j->spec.world, gd__fit_interrupted(j));
}

void gd__fit_tell(const gd_fit *j, const char *unit, int64_t done, int64_t total, double loss)
{
    gd_fit_watch *w = j->watch;
    if (!is_caller(w)) return;
    w->unit = unit;
    w->done = done;
    w->total = total;
    w->loss = loss;
    gd__progress(w->observer, NULL, unit, done, total, loss);
}

void gd__fit_tell_again(const gd_fit *j)
{
    const gd_fit_watch *w = j->watch;
    if (is_caller(w) && w->unit) gd__progress(w->observer, NULL, w->unit, w->done, w->total, w->loss);
}

void gd__fit_tell_end(const gd_fit *j)
{
    if (!is_caller(j->watch)) return;
    j->watch->unit = NULL;
    gd__progress_end(j->watch->observer);
}
