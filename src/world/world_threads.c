/* A world of threads: n contexts of one process that exchange messages in shared memory, and the world of one.
 *
 * A send is put on the list of the receiving rank; its receive copies the bytes while the sender waits, so nothing is buffered. */
#include "base/system.h"
#include "base/team.h"
#include "world/world_internal.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct seat {
    gd_message *first; /* sends for this rank that it has not taken yet */
    uint64_t seen;     /* the value of `changes` last seen by its idle; its own */
    char why[512];     /* copy of the meeting's, its own */
    double said;       /* the time of its last report that it waits */
    bool left;
} seat;

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t changes;
    int size;
    char why[512]; /* the failure of a rank; "": none */
    seat seat[];
} meeting;

static void announce(meeting *t)
{
    t->changes++;
    pthread_cond_broadcast(&t->changed);
}

static gd_status threads_post(gd_endpoint *e, gd_message *m)
{
    meeting *t = e->state;
    if (!m->sends) return GD_OK; /* searched in test */
    pthread_mutex_lock(&t->lock);
    gd_message **at = &t->seat[m->to].first;
    while (*at) at = &(*at)->next;
    *at = m;
    announce(t);
    pthread_mutex_unlock(&t->lock);
    return GD_OK;
}

static gd_message *take_send(seat *s, const gd_message *wanted)
{
    for (gd_message **at = &s->first; *at; at = &(*at)->next) {
        gd_message *m = *at;
        if (m->from != wanted->from || m->op != wanted->op || m->part != wanted->part) continue;
        *at = m->next;
        m->busy = true;
        return m;
    }
    return NULL;
}

static bool receive(meeting *t, gd_endpoint *e, gd_message *m)
{
    gd_message *sent = take_send(&t->seat[e->rank], m);
    if (!sent) return !t->seat[m->from].left;
    pthread_mutex_unlock(&t->lock);
    memcpy(m->data, sent->data, m->bytes);
    pthread_mutex_lock(&t->lock);
    sent->busy = false;
    sent->taken = m->done = true;
    announce(t);
    return true;
}

static bool threads_test(gd_endpoint *e, gd_message *m)
{
    meeting *t = e->state;
    bool possible = true;
    pthread_mutex_lock(&t->lock);
    if (!m->sends)
        possible = receive(t, e, m);
    else if (m->taken)
        m->done = true;
    else
        possible = m->busy || !t->seat[m->to].left;
    pthread_mutex_unlock(&t->lock);
    return possible;
}

static void threads_cancel(gd_endpoint *e, gd_message *m)
{
    meeting *t = e->state;
    if (!m->sends) return;
    pthread_mutex_lock(&t->lock);
    while (m->busy) pthread_cond_wait(&t->changed, &t->lock); /* its bytes are being copied */
    for (gd_message **at = &t->seat[m->to].first; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    pthread_mutex_unlock(&t->lock);
}

static void threads_idle(gd_endpoint *e, double seconds)
{
    meeting *t = e->state;
    seat *own = &t->seat[e->rank];
    pthread_mutex_lock(&t->lock);
    if (own->seen == t->changes) gd__cond_wait_for(&t->changed, &t->lock, seconds);
    own->seen = t->changes;
    pthread_mutex_unlock(&t->lock);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void threads_say_waiting(gd_endpoint *e)
{
    meeting *t = e->state;
    pthread_mutex_lock(&t->lock);
    t->seat[e->rank].said = seconds_now();
    pthread_mutex_unlock(&t->lock);
}

static double threads_heard(gd_endpoint *e, int rank)
{
    meeting *t = e->state;
    pthread_mutex_lock(&t->lock);
    double said = t->seat[rank].said;
    pthread_mutex_unlock(&t->lock);
    return said > 0 ? seconds_now() - said : INFINITY;
}

static void threads_give_up(gd_endpoint *e, const char *text)
{
    meeting *t = e->state;
    pthread_mutex_lock(&t->lock);
    if (!t->why[0]) (void)snprintf(t->why, sizeof t->why, "%s", text);
    announce(t);
    pthread_mutex_unlock(&t->lock);
}

static const char *threads_given_up(gd_endpoint *e)
{
    meeting *t = e->state;
    seat *own = &t->seat[e->rank];
    pthread_mutex_lock(&t->lock);
    memcpy(own->why, t->why, sizeof own->why);
    pthread_mutex_unlock(&t->lock);
    return own->why[0] ? own->why : NULL;
}

static void threads_close(gd_endpoint *e)
{
    meeting *t = e->state;
    pthread_mutex_lock(&t->lock);
    t->seat[e->rank].left = true;
    announce(t);
    pthread_mutex_unlock(&t->lock);
}

static const gd_transport transport_threads = {.post = threads_post,
                                               .test = threads_test,
                                               .cancel = threads_cancel,
                                               .idle = threads_idle,
                                               .say_waiting = threads_say_waiting,
                                               .heard = threads_heard,
                                               .give_up = threads_give_up,
                                               .given_up = threads_given_up,
                                               .close = threads_close};

/* ---- the world of one: no message is ever posted ---- */

static void self_give_up(gd_endpoint *e, const char *text) { (void)e, (void)text; }
static const char *self_given_up(gd_endpoint *e) { return (void)e, NULL; }
static void self_close(gd_endpoint *e) { (void)e; }

static bool self_reaches(gd_endpoint *e, const gd_device *device) { return (void)e, device != NULL; }

const gd_transport gd__transport_self = {
    .reaches = self_reaches, .give_up = self_give_up, .given_up = self_given_up, .close = self_close};

/* ---- running ---- */

typedef struct job {
    meeting *meeting;
    gd_ctx *ctx; /* of this rank */
    int rank;
    const char *name;
    const gd_world_options *options;
    gd_world_fn fn;
    void *user;
    gd_status status;
    pthread_t thread;
    bool started, given_up; /* given_up: caused by others */
} job;

static void *run_rank(void *arg)
{
    job *j = arg;
    gd_endpoint end = {.transport = &transport_threads,
                       .ctx = j->ctx,
                       .rank = j->rank,
                       .size = j->meeting->size,
                       .about = "threads of this process",
                       .state = j->meeting};
    gd_world *world = gd__world_over(&end, j->name, j->options);
    j->status = world ? gd__world_lend(world, j->fn, j->user) : gd_error(j->ctx);
    j->given_up = world && world->over;
    gd_world_free(world);
    return NULL;
}

static meeting *meeting_new(gd_ctx *ctx, int size)
{
    meeting *t = gd__calloc(ctx, sizeof *t + (size_t)size * sizeof(seat));
    if (!t) return NULL;
    pthread_mutex_init(&t->lock, NULL);
    gd__patient_cond_init(&t->changed);
    t->size = size;
    return t;
}

static void meeting_free(gd_ctx *ctx, meeting *t)
{
    if (!t) return;
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    gd__free(ctx, t, sizeof *t + (size_t)t->size * sizeof(seat));
}

/* A rank without a thread counts as left: the others need not wait for it. */
static void start_rank(job *j)
{
    j->started = gd__thread_start(&j->thread, run_rank, j);
    if (j->started) return;
    gd_endpoint end = {.rank = j->rank, .state = j->meeting};
    threads_close(&end);
    j->status = gd_fail(j->ctx, GD_NOMEM, "out of memory: no thread for a rank");
}

/* The first rank that failed by itself; ranks that waited for it only report that it left. */
static const job *first_failed(const job *jobs, int count)
{
    const job *found = NULL;
    for (int i = count - 1; i >= 0; i--)
        if (jobs[i].status && (!found || !jobs[i].given_up || found->given_up)) found = &jobs[i];
    return found;
}

static gd_status tell_failure(gd_ctx *ctx, const job *j)
{
    if (!j) return GD_OK;
    const char *text = gd_error(j->ctx) ? gd_error_text(j->ctx) : gd_status_name(j->status);
    return gd_fail(ctx, j->status, "rank %d: %s", j->rank, text);
}

static gd_status run_team(gd_ctx *ctx, gd_team *team, job *jobs, const job *like, int count)
{
    for (int i = 0; i < count; i++) {
        jobs[i] = *like;
        jobs[i].rank = i;
        jobs[i].ctx = gd__team_member(team, i);
        start_rank(&jobs[i]);
    }
    for (int i = 0; i < count; i++)
        if (jobs[i].started) pthread_join(jobs[i].thread, NULL);
    return tell_failure(ctx, first_failed(jobs, count));
}

gd_status gd__run_threads(gd_ctx *ctx, int count, const char *name, const gd_world_options *options,
                          gd_world_fn fn, void *user)
{
    meeting *t = meeting_new(ctx, count);
    gd_team *team = t ? gd__team_of(ctx, count) : NULL;
    job *jobs = team ? gd__alloc_array(ctx, (size_t)count, sizeof *jobs) : NULL;
    job like = {.meeting = t, .name = name, .options = options, .fn = fn, .user = user};
    gd_status status = jobs ? run_team(ctx, team, jobs, &like, count) : gd_error(ctx);
    if (jobs) gd__free(ctx, jobs, (size_t)count * sizeof *jobs);
    gd__team_free(team);
    meeting_free(ctx, t);
    return status;
}
