/* Pending collectives: their stages, waiting, and failure. */
#include "base/text/number.h"
#include "world/world_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define IDLE_SECONDS   0.05 /* between two reads of the clock */
#define SAY_SECONDS    2.5  /* between two reports to other ranks that this rank waits */
#define REMARK_SECONDS 10   /* of waiting, after which a message names the missing rank */

/* ---- making ---- */

static int fingerprint_room(const gd_world *w) { return w->end.size > 1 ? 2 * w->end.size : 2; }

gd_exchange *gd__exchange_new(gd_world *world)
{
    gd_ctx *ctx = world->ctx;
    gd_exchange *work = gd__calloc(ctx, sizeof *work);
    if (!work) return NULL;
    work->world = world;
    work->room = fingerprint_room(world);
    work->message = gd__calloc(ctx, (size_t)work->room * sizeof *work->message);
    work->sheet = gd__calloc(ctx, (size_t)world->end.size * sizeof *work->sheet);
    if (work->message && work->sheet) return work;
    gd__exchange_free(work);
    return NULL;
}

/* Resets it. */
static void renew(gd_exchange *work)
{
    gd__exchange_drop_data(work);
    *work = (gd_exchange){
        .world = work->world, .message = work->message, .room = work->room, .sheet = work->sheet};
}

static gd_exchange *take_idle(gd_world *w)
{
    gd_exchange *work = w->idle;
    if (!work) return gd__exchange_new(w);
    w->idle = work->next;
    return work;
}

static int idle_of(const gd_world *w)
{
    int count = 0;
    for (const gd_exchange *k = w->idle; k; k = k->next) count++;
    return count;
}

static void keep_idle(gd_world *w, gd_exchange *work)
{
    work->next = w->idle;
    w->idle = work;
}

void gd__exchange_free(gd_exchange *work)
{
    gd_world *w = work->world;
    gd__exchange_drop_data(work);
    gd__free(w->ctx, work->message, (size_t)work->room * sizeof *work->message);
    gd__free(w->ctx, work->sheet, (size_t)w->end.size * sizeof *work->sheet);
    gd__free(w->ctx, work, sizeof *work);
}

gd_status gd__world_reserve(gd_world *w, int count)
{
    w->reserved = count;
    for (int there = idle_of(w); there != count; there += there < count ? 1 : -1) {
        gd_exchange *work = there < count ? gd__exchange_new(w) : take_idle(w);
        if (!work) return GD_NOMEM;
        if (there < count)
            keep_idle(w, work);
        else
            gd__exchange_free(work);
    }
    return GD_OK;
}

/* ---- messages ---- */

static void clear_messages(gd_exchange *work)
{
    for (int i = 0; i < work->messages; i++)
        if (!work->message[i].done) work->world->end.transport->cancel(&work->world->end, &work->message[i]);
    work->messages = 0;
}

gd_status gd__message(gd_exchange *work, int peer, bool sends, int part, void *data, size_t bytes)
{
    gd_endpoint *e = &work->world->end;
    if (!bytes || peer == e->rank) return GD_OK;
    if (work->messages == work->room) return gd_fail(e->ctx, GD_INTERNAL, "world: no room for a message");
    gd_message *m = &work->message[work->messages++];
    *m = (gd_message){.from = sends ? e->rank : peer,
                      .to = sends ? peer : e->rank,
                      .part = part,
                      .op = work->op,
                      .device = work->stage < GD_FIRST ? NULL : work->at,
                      .data = data,
                      .bytes = bytes,
                      .sends = sends};
    return gd__transport_status(work, e->transport->post(e, m));
}

/* ---- failure ---- */

/* Or the recorded error, if this rank was the one that failed. */
static gd_status over(gd_world *w)
{
    (void)!gd_fail(w->ctx, GD_STATE, "%s", w->why);
    return gd_error(w->ctx);
}

static gd_status give_up(gd_world *w)
{
    w->over = true;
    w->end.transport->give_up(&w->end, w->why);
    return over(w);
}

static bool given_up(gd_world *w)
{
    const char *why = w->over ? NULL : w->end.transport->given_up(&w->end);
    if (why) {
        w->over = true;
        (void)snprintf(w->why, sizeof w->why, "%s", why);
    }
    return w->over;
}

gd_status gd__transport_status(gd_exchange *work, gd_status status)
{
    gd_world *w = work->world;
    bool usage = status == GD_DTYPE || status == GD_OVERFLOW; /* every rank gets this error itself */
    if (!status || usage) return status;
    if (given_up(w)) return over(w);
    (void)snprintf(w->why, sizeof w->why, "%s: rank %d: %.400s", gd__collective_name((int)work->what.kind),
                   w->end.rank, gd_error(w->ctx) ? gd_error_text(w->ctx) : gd_status_name(status));
    (void)give_up(w);
    return status;
}

static gd_status left_by(gd_exchange *work, const gd_message *m)
{
    gd_world *w = work->world;
    if (given_up(w)) return over(w); /* and that is why it left */
    (void)snprintf(w->why, sizeof w->why, "%s: rank %d has left the world",
                   gd__collective_name((int)work->what.kind), m->sends ? m->to : m->from);
    return give_up(w);
}

/* Is a message from it pending?  A message to oneself is the transport's own collective: of all. */
static bool is_awaited(const gd_exchange *work, int r)
{
    int own = work->world->end.rank;
    for (int i = 0; i < work->messages; i++) {
        const gd_message *m = &work->message[i];
        int other = m->sends ? m->to : m->from;
        if (!m->done && (other == r || (other == own && r != own))) return true;
    }
    return false;
}

/* Waiting ranks report this often. */
static double period(const gd_world *w) { return fmin(SAY_SECONDS, w->timeout / 4); }

/* Has it reported within so many seconds that it waits? */
static bool waits_too(gd_world *w, int r, double within)
{
    const gd_transport *t = w->end.transport;
    return t->heard && t->heard(&w->end, r) < within;
}

/* The collective whose turn it is. */
static gd_exchange *in_turn(gd_exchange *work)
{
    for (gd_exchange *k = work->world->first; k && work->stage == GD_QUEUED; k = k->next)
        if (k->stage < GD_FINISHED) work = k;
    return work;
}

static bool misses_somebody(gd_exchange *work, double within)
{
    gd_world *w = work->world;
    work = in_turn(work);
    for (int r = 0; r < w->end.size; r++)
        if (is_awaited(work, r) && !waits_too(w, r, within)) return true;
    return false;
}

/* Each rank with pending messages; ranks that wait themselves only if all of them do. */
static void name_missing(gd_exchange *work, const char *waited, double seconds, double within, char *out,
                         size_t size)
{
    gd_world *w = work->world;
    bool one = misses_somebody(work, within);
    const char *sign = "rank ";
    work = in_turn(work);
    int used = gd__format(out, size, "%s: rank %d %s %g seconds for ",
                          gd__collective_name((int)work->what.kind), w->end.rank, waited, seconds);
    for (int r = 0; r < w->end.size && used < (int)size; r++) {
        if (!is_awaited(work, r) || (one && waits_too(w, r, within))) continue;
        used += snprintf(out + used, size - (size_t)used, "%s%d", sign, r);
        sign = ", rank ";
    }
}

static gd_status too_late(gd_exchange *work, double seconds)
{
    gd_world *w = work->world;
    name_missing(work, "waited", seconds, w->timeout / 2, w->why, sizeof w->why);
    return give_up(w);
}

/* One line is enough: of the lowest rank that is not missing itself. */
static bool is_speaker(gd_exchange *work)
{
    gd_world *w = work->world;
    if (!misses_somebody(work, 2 * period(w))) return false;
    work = in_turn(work);
    for (int r = 0; r < w->end.rank; r++)
        if (!is_awaited(work, r) || waits_too(w, r, 2 * period(w))) return false;
    return true;
}

/* Long before the timeout, a waiting rank reports which rank it waits for. */
static bool remark(gd_exchange *work, double waited)
{
    gd_world *w = work->world;
    char text[200];
    if (waited < fmin(REMARK_SECONDS, w->timeout / 2) || !is_speaker(work)) return false;
    name_missing(work, "has waited", floor(waited + 0.5) >= 1 ? floor(waited + 0.5) : waited, 2 * period(w),
                 text, sizeof text);
    gd_tell(w->ctx, "%s; after %g seconds it gives up", text, w->timeout);
    return true;
}

/* ---- pending collectives, in the order of their start ---- */

static void append(gd_world *w, gd_exchange *work)
{
    work->next = NULL;
    *w->last = work;
    w->last = &work->next;
}

static void unlink_exchange(gd_world *w, gd_exchange *work)
{
    gd_exchange **at = &w->first;
    while (*at != work) at = &(*at)->next;
    *at = work->next;
    w->last = &w->first;
    while (*w->last) w->last = &(*w->last)->next;
}

/* ---- stages ---- */

static gd_status next_stage(gd_exchange *work);

bool gd__all_compare(const gd_world *w)
{
    return w->end.size > 1 && w->end.size <= GD_FINGERPRINT_ALL && !w->end.transport->in_order;
}

static gd_status post_fingerprint(gd_exchange *work)
{
    gd_endpoint *e = &work->world->end;
    gd_status status = GD_OK;
    bool all = gd__all_compare(work->world);
    for (int r = 0; r < e->size && all && !status; r++)
        status = gd__message(work, r, true, 0, &work->mine, sizeof work->mine);
    if (e->rank > 0 && !all) return gd__message(work, 0, true, 0, &work->mine, sizeof work->mine);
    for (int r = 0; r < e->size && !status; r++)
        status = gd__message(work, r, false, 0, &work->sheet[r], sizeof *work->sheet);
    return status;
}

static gd_status post_verdict(gd_exchange *work)
{
    gd_endpoint *e = &work->world->end;
    gd_status status = GD_OK;
    bool all = gd__all_compare(work->world);
    if (e->rank > 0 && !all) return gd__message(work, 0, false, 1, &work->verdict, sizeof work->verdict);
    gd__fingerprint_judge(work);
    for (int r = 1; r < e->size && !all && !status; r++)
        status = gd__message(work, r, true, 1, &work->verdict, sizeof work->verdict);
    return status;
}

/* The verdict, once nothing is left to do. */
static gd_status conclude(gd_exchange *work)
{
    gd_world *w = work->world;
    w->failed = work->verdict.status != GD_OK;
    if (!w->failed) return gd__exchange_deliver(work);
    gd_status status = gd_fail(w->ctx, (gd_status)work->verdict.status, "%s", work->verdict.text);
    w->told = w->ctx->errors;
    return status;
}

/* ---- ranks at different collectives ---- */

/* The number of started collectives; after an error, no more until the caller has seen it. */
static gd_status post_counts(gd_exchange *work)
{
    gd_world *w = work->world;
    gd_status status = GD_OK;
    w->unseen = work;
    work->mine.total = w->ops;
    for (int r = 0; r < w->end.size && !status; r++) {
        status = gd__message(work, r, true, 2, &work->mine.total, sizeof work->mine.total);
        if (!status) status = gd__message(work, r, false, 2, &work->sheet[r].total, sizeof work->mine.total);
    }
    return status;
}

static bool is_filling(const gd_world *w) { return w->filler->stage < GD_FINISHED; }

/* Sends the reason of the failure to collectives that other ranks have started and this rank has not. */
static gd_status even_out(gd_exchange *work)
{
    gd_world *w = work->world;
    gd_exchange *filler = w->filler;
    int64_t most = w->ops;
    for (int r = 0; r < w->end.size; r++)
        if (r != w->end.rank && work->sheet[r].total > most) most = work->sheet[r].total;
    if (most == w->ops) return GD_OK;
    filler->op = w->ops;
    filler->end = w->ops = most;
    filler->stage = GD_QUEUED;
    gd__sheet_fill(filler);
    filler->mine.fills = true;
    filler->mine.failed = work->verdict.status;
    memcpy(filler->mine.why, work->verdict.text, sizeof filler->mine.why - 1);
    append(w, filler);
    return w->end.transport->in_order ? GD_OK : next_stage(filler);
}

/* The next number of a filler, or its end. */
static gd_status next_filled(gd_exchange *filler)
{
    bool more = ++filler->op < filler->end;
    filler->stage = more ? GD_FINGERPRINT : GD_FINISHED;
    if (more) return post_fingerprint(filler);
    unlink_exchange(filler->world, filler);
    return GD_OK;
}

/* A stage is complete: starts the next one. */
static gd_status next_stage(gd_exchange *work)
{
    work->messages = 0;
    if (++work->stage == GD_FINGERPRINT) return post_fingerprint(work);
    if (work->stage == GD_VERDICT) return post_verdict(work);
    if (work == work->world->filler) return next_filled(work);
    if (work->stage == GD_COUNT && work->verdict.uneven) return post_counts(work);
    gd_status status = work->stage == GD_FIRST && work->verdict.uneven ? even_out(work) : GD_OK;
    if (work->stage == GD_COUNT) work->stage = GD_FIRST;
    if (work->stage == GD_FIRST && work->verdict.status) work->stage = GD_FINISHED;
    if (work->stage == GD_FINISHED) return status ? status : conclude(work);
    return gd__exchange_post(work);
}

/* Tests what is not done; *all: nothing is left. */
static gd_status test_messages(gd_exchange *work, bool *all, bool *moved)
{
    gd_endpoint *e = &work->world->end;
    const gd_ctx *ctx = work->world->ctx;
    uint64_t errors = ctx->errors;
    *all = true;
    for (int i = 0; i < work->messages; i++) {
        gd_message *m = &work->message[i];
        if (m->done) continue;
        if (!e->transport->test(e, m))
            return ctx->errors == errors ? left_by(work, m) : gd__transport_status(work, gd_error(ctx));
        *moved |= m->done;
        *all &= m->done;
    }
    return GD_OK;
}

/* Advances without waiting. *moved: something was done. */
static void advance(gd_exchange *work, bool *moved)
{
    bool all = true;
    while (work->stage < GD_FINISHED && all) {
        work->status = test_messages(work, &all, moved);
        if (work->stage == GD_COUNT && is_filling(work->world)) return; /* for a different one still */
        if (!work->status && all) work->status = next_stage(work);
        if (work->status) work->stage = GD_FINISHED;
    }
}

/* Advances all pending collectives. Data of one move only after those of earlier ones, so that all ranks pass sums to their transport in
 * the same order; fingerprints need not wait for that, except if messages have no names. */
static void progress(gd_world *w, bool *moved)
{
    bool in_order = w->end.transport->in_order;
    for (gd_exchange *k = w->first, *next; k; k = next) {
        if (k->stage < GD_FINISHED) advance(k, moved);
        next = k->next; /* a filler that has ended keeps it */
        if (k->stage < (in_order ? GD_FINISHED : GD_FIRST)) return;
    }
}

/* ---- starting and waiting ---- */

static gd_exchange *spare_of(gd_world *w)
{
    gd_exchange *work = w->spare;
    w->spare = NULL;
    return work;
}

/* It cannot take part: its sheet has the reason, so the others do not wait forever. */
static void refuse(gd_exchange *work, gd_status status)
{
    gd__exchange_drop_data(work);
    work->mine.failed = (int32_t)(status ? status : GD_INTERNAL);
    const gd_ctx *ctx = work->world->ctx;
    (void)snprintf(work->mine.why, sizeof work->mine.why, "%s",
                   gd_error(ctx) ? gd_error_text(ctx) : gd_status_name(status));
}

gd_exchange *gd_world_start(gd_world *world, const gd_collective *what)
{
    if (!world) return NULL;
    gd__not_recorded(world->ctx, "it exchanges tensors with other processes");
    if (!what) return gd__none(gd__null(world->ctx, "world: the collective is NULL"));
    if (given_up(world)) return gd__none(over(world));
    const gd_verdict *unseen = world->unseen ? &world->unseen->verdict : NULL;
    if (unseen) return gd__none(gd_fail(world->ctx, (gd_status)unseen->status, "%s", unseen->text));
    gd_exchange *work = take_idle(world);
    bool made = work != NULL;
    if (!made && !(work = spare_of(world))) return NULL;
    work->spare = !made;
    work->what = *what;
    work->op = world->ops++;
    work->stage = GD_QUEUED;
    work->verdict.status = GD_OK;
    gd__sheet_fill(work);
    work->what.name = NULL; /* the sheet has the error */
    if (!made || what->failed) work->what.tensor = work->what.out = NULL;
    gd_status status = !made ? GD_NOMEM : what->failed ? what->failed : gd__exchange_prepare(work);
    if (status) refuse(work, status);
    append(world, work);
    bool moved = false;
    if (!world->end.transport->in_order) work->status = next_stage(work);
    if (work->status) work->stage = GD_FINISHED;
    progress(world, &moved);
    return work;
}

static void end_exchange(gd_exchange *work)
{
    gd_world *w = work->world;
    if (w->unseen == work) w->unseen = NULL;
    clear_messages(work);
    unlink_exchange(w, work);
    bool spare = work->spare;
    if (!spare && idle_of(w) >= w->reserved) {
        gd__exchange_free(work);
        return;
    }
    renew(work);
    if (spare)
        w->spare = work;
    else
        keep_idle(w, work);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Rank 0 reports first, so that there is one message.  If all ranks that it waits for wait themselves, they get time to report. */
static double patience(gd_exchange *work)
{
    double timeout = work->world->timeout;
    if (!misses_somebody(work, timeout / 2)) return 2 * timeout + 1;
    return work->world->end.rank ? 1.25 * timeout + 0.25 : timeout;
}

static void say_waiting(gd_world *w, double now)
{
    if (!w->end.transport->say_waiting || now - w->said < period(w)) return;
    w->said = now;
    w->end.transport->say_waiting(&w->end);
}

static gd_status wait_for(gd_exchange *work)
{
    gd_world *w = work->world;
    double begun = seconds_now();
    bool told = false;
    while (work->stage < GD_FINISHED) {
        bool moved = false;
        gd_stage before = work->stage;
        progress(w, &moved);
        double now = seconds_now();
        if (work->stage != before || moved) begun = now;
        if (work->stage == GD_FINISHED) break;
        if (given_up(w)) return over(w);
        if (now - begun > period(w)) say_waiting(w, now);
        told = told || remark(work, now - begun);
        if (now - begun > w->timeout && now - begun > patience(work)) return too_late(work, w->timeout);
        if (!moved) w->end.transport->idle(&w->end, IDLE_SECONDS < w->timeout ? IDLE_SECONDS : w->timeout);
    }
    return work->status;
}

bool gd__exchange_is_over(gd_exchange *work)
{
    bool moved = false;
    if (work->stage < GD_FINISHED) progress(work->world, &moved);
    return work->stage == GD_FINISHED || given_up(work->world);
}

gd_status gd_world_wait(gd_exchange *work)
{
    if (!work) return GD_ARGUMENT;
    gd_status status = work->world->over && work->stage < GD_FINISHED ? over(work->world) : wait_for(work);
    /* ends collectives that others have started before this rank continues or leaves */
    if (work->world->unseen == work && is_filling(work->world) && !work->world->over)
        (void)!wait_for(work->world->filler);
    if (work->mine.failed) status = (gd_status)work->mine.failed;
    end_exchange(work);
    return status;
}
