/* A world of processes that an MPI launcher started.  MPI 3.1 functions only, called from the thread that opened the world
 * (MPI_THREAD_FUNNELED).  Messages of one collective between two ranks have one tag: MPI keeps their order. */
#include "world/transport.h"

#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define TAGS   32767 /* and one for notes: MPI promises no more */
#define BLOCK  (1 << 20)

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into its message");

/* What is known of another rank; times of its notes, 0: there was none. */
typedef struct peer {
    double waits, left;
} peer;

typedef struct state {
    MPI_Comm comm;
    bool started; /* MPI, by us */
    int64_t idle; /* calls since a message was done */
    peer *peer;
} state;

static state *state_of(gd_endpoint *e) { return e->state; }

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gd_status told(gd_endpoint *e, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS) return GD_OK;
    MPI_Error_string(code, text, &length);
    return e->host->fail(e->ctx, GD_IO, "world 'mpi': %s: %s", what, text);
}

/* A program that keeps its own MPI may end it before the world, and no function of MPI may be called then. */
static bool is_over(void)
{
    int over = 0;
    MPI_Finalized(&over);
    return over;
}

static gd_status refuse_over(gd_endpoint *e)
{
    return e->host->fail(
        e->ctx, GD_STATE,
        "world 'mpi': the program has ended MPI (MPI_Finalize) before the world (gd_world_free)");
}

static void keep(gd_message *m, MPI_Request request) { memcpy(&m->request, &request, sizeof request); }

static MPI_Request request_of(const gd_message *m)
{
    MPI_Request request;
    memcpy(&request, &m->request, sizeof request);
    return request;
}

/* ---- messages ---- */

/* One element of it is all the bytes: MPI counts in int. */
static int whole(size_t bytes, MPI_Datatype *type)
{
    MPI_Datatype block, blocks;
    int count = (int)(bytes / BLOCK), rest = (int)(bytes % BLOCK);
    int code = MPI_Type_contiguous(BLOCK, MPI_BYTE, &block);
    if (code) return code;
    code = MPI_Type_contiguous(count, block, &blocks);
    MPI_Type_free(&block);
    if (code) return code;
    MPI_Aint at[] = {0, (MPI_Aint)count * BLOCK};
    code = MPI_Type_create_struct(2, (int[]){1, rest}, at, (MPI_Datatype[]){blocks, MPI_BYTE}, type);
    MPI_Type_free(&blocks);
    return code ? code : MPI_Type_commit(type);
}

static gd_status mpi_post(gd_endpoint *e, gd_message *m)
{
    if (is_over()) return refuse_over(e);
    MPI_Comm comm = state_of(e)->comm;
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request = MPI_REQUEST_NULL;
    bool large = m->bytes > INT_MAX;
    int count = large ? 1 : (int)m->bytes, tag = (int)(m->op % TAGS);
    int code = large ? whole(m->bytes, &type) : MPI_SUCCESS;
    if (!code)
        code = m->sends ? MPI_Isend(m->data, count, type, m->to, tag, comm, &request)
                        : MPI_Irecv(m->data, count, type, m->from, tag, comm, &request);
    if (large && type != MPI_BYTE) MPI_Type_free(&type); /* goes when the message is done */
    keep(m, request);
    return told(e, m->sends ? "sending" : "receiving", code);
}

#define LAST_WORDS 0.2 /* seconds that what was sent before leaving may take */

static bool mpi_test(gd_endpoint *e, gd_message *m)
{
    state *s = e->state;
    MPI_Request request = request_of(m);
    int done = 0;
    if (is_over()) return false;
    if (told(e, "moving bytes", MPI_Test(&request, &done, MPI_STATUS_IGNORE))) return false;
    keep(m, request);
    m->done = done;
    if (done) s->idle = 0;
    double left = done ? 0 : s->peer[m->sends ? m->to : m->from].left;
    return left <= 0 || seconds_now() - left < LAST_WORDS;
}

static void mpi_cancel(gd_endpoint *e, gd_message *m)
{
    MPI_Request request = request_of(m);
    (void)e;
    if (request == MPI_REQUEST_NULL || is_over()) return;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
}

static gd_status mpi_sum(gd_endpoint *e, gd_message *m, gd_dtype dtype)
{
    static const struct {
        gd_dtype dtype;
        int bytes;
    } known[] = {{GD_F32, 4}, {GD_F64, 8}, {GD_I32, 4}, {GD_I64, 8}};
    MPI_Datatype types[] = {MPI_FLOAT, MPI_DOUBLE, MPI_INT32_T, MPI_INT64_T};
    MPI_Request request = MPI_REQUEST_NULL;
    if (is_over()) return refuse_over(e);
    for (int i = 0; i < 4; i++) {
        size_t count = m->bytes / (size_t)known[i].bytes;
        if (known[i].dtype != dtype) continue;
        if (count > INT_MAX)
            return e->host->fail(e->ctx, GD_OVERFLOW,
                                 "world 'mpi': a fast sum has at most %d elements, use an exact one",
                                 INT_MAX);
        int code = MPI_Iallreduce(MPI_IN_PLACE, m->data, (int)count, types[i], MPI_SUM, state_of(e)->comm,
                                  &request);
        keep(m, request);
        return told(e, "adding", code);
    }
    return e->host->fail(e->ctx, GD_DTYPE, "world 'mpi': no fast sum of this dtype");
}

/* ---- notes: that a rank waits, that it leaves, that it has said why nobody can go on ---- */

static const char waits = 'w', leaves = 'l', gives_up = 'g';

static void note(gd_endpoint *e, const char *what)
{
    MPI_Request request;
    for (int r = 0; r < e->size && !is_over(); r++)
        if (r != e->rank && MPI_Isend(what, 1, MPI_BYTE, r, TAGS, state_of(e)->comm, &request) == MPI_SUCCESS)
            MPI_Request_free(&request);
}

static void read_notes(gd_endpoint *e)
{
    state *s = e->state;
    int there = !is_over();
    while (there) {
        MPI_Status from;
        char what = 0;
        if (MPI_Iprobe(MPI_ANY_SOURCE, TAGS, s->comm, &there, &from) != MPI_SUCCESS || !there) return;
        if (MPI_Recv(&what, 1, MPI_BYTE, from.MPI_SOURCE, TAGS, s->comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (what == gives_up) MPI_Abort(s->comm, 1); /* a launcher may end nobody */
        peer *p = &s->peer[from.MPI_SOURCE];
        *(what == leaves ? &p->left : &p->waits) = seconds_now();
    }
}

static void mpi_say_waiting(gd_endpoint *e) { note(e, &waits); }

static double mpi_heard(gd_endpoint *e, int rank)
{
    double at = state_of(e)->peer[rank].waits;
    return at > 0 ? seconds_now() - at : INFINITY;
}

static void pause_shortly(void) { nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL); }

/* MPI moves bytes only inside its functions: never long, and longer where nothing comes. */
static void mpi_idle(gd_endpoint *e, double seconds)
{
    (void)seconds;
    if (state_of(e)->idle++ < 1000) {
        sched_yield();
        return;
    }
    read_notes(e);
    pause_shortly();
}

/* ---- the end ---- */

/* Whoever still waits for this rank hears of it.  All do the same, so that no note stays unread; MPI_Finalize would wait as well. */
static void take_leave(gd_endpoint *e)
{
    state *s = e->state;
    double begun = seconds_now();
    bool all = false;
    note(e, &leaves);
    while (!all && seconds_now() - begun < e->timeout) {
        read_notes(e);
        all = true;
        for (int r = 0; r < e->size; r++) all = all && (r == e->rank || s->peer[r].left > 0);
        if (!all) pause_shortly();
    }
}

/* What is missing will not come: no process can go on, and the launcher ends them all. */
static void mpi_give_up(gd_endpoint *e, const char *text)
{
    if (is_over()) return; /* nobody waits for this process any more, and it may go on without the world */
    (void)fprintf(stderr, "gradus: %s\n", text);
    (void)fflush(stderr);
    note(e, &gives_up);
    MPI_Abort(state_of(e)->comm, 1);
}

static const char *mpi_given_up(gd_endpoint *e) { return (void)e, NULL; }

static void mpi_close(gd_endpoint *e)
{
    state *s = e->state;
    bool over = is_over();
    if (s->started && !over) take_leave(e);
    if (!over) MPI_Comm_free(&s->comm);
    if (s->started && !over) MPI_Finalize();
    e->host->free(e->ctx, s->peer, (size_t)e->size * sizeof *s->peer);
    e->host->free(e->ctx, s, sizeof *s);
}

static const gd_transport transport = {.post = mpi_post,
                                       .test = mpi_test,
                                       .cancel = mpi_cancel,
                                       .sum = mpi_sum,
                                       .idle = mpi_idle,
                                       .say_waiting = mpi_say_waiting,
                                       .heard = mpi_heard,
                                       .give_up = mpi_give_up,
                                       .given_up = mpi_given_up,
                                       .close = mpi_close};

/* ---- joining ---- */

static void describe(char *text, size_t size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(version, &length);
    (void)snprintf(text, size, "%.*s", (int)strcspn(version, ",\n"), version);
}

static gd_status start(gd_endpoint *e, state *s)
{
    int on = 0, level = MPI_THREAD_SINGLE;
    if (is_over())
        return e->host->fail(
            e->ctx, GD_STATE,
            "world 'mpi': MPI has ended in this process, and starts once: keep the world open");
    MPI_Initialized(&on);
    int code = on ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    s->started = !on && !code;
    if (code) return told(e, "starting", code);
    if (level >= MPI_THREAD_FUNNELED) return GD_OK;
    if (s->started) MPI_Finalize();
    return e->host->fail(
        e->ctx, GD_STATE,
        "world 'mpi': MPI was started without MPI_THREAD_FUNNELED: the program's MPI_Init(argc, "
        "argv) must be MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level)");
}

/* Messages of the program's own do not meet ours.  All processes come here; who waits for one that does not cannot take that back,
 * and ends as at any time-out. */
static int duplicate(const gd_endpoint *e, MPI_Comm *comm)
{
    MPI_Request request;
    int done = 0, rank = 0, code = MPI_Comm_idup(MPI_COMM_WORLD, comm, &request);
    double begun = seconds_now();
    for (int64_t tries = 0; !code && !done; tries++) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (code || done) break;
        if (seconds_now() - begun > e->timeout) {
            long tenths = lround(10 * e->timeout); /* a point in every locale */
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            (void)fprintf(
                stderr,
                "gradus: world 'mpi': rank %d waited %ld.%ld seconds for all processes to open the world\n",
                rank, tenths / 10, tenths % 10);
            (void)fflush(stderr);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        if (tries < 1000)
            sched_yield();
        else
            pause_shortly();
    }
    return code;
}

static gd_status join(gd_endpoint *e, state *s)
{
    gd_status status = start(e, s);
    if (status) return status;
    int code = duplicate(e, &s->comm);
    if (!code) code = MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
    if (!code) code = MPI_Comm_rank(s->comm, &e->rank);
    if (!code) code = MPI_Comm_size(s->comm, &e->size);
    status = told(e, "joining", code);
    if (!status && !(s->peer = e->host->alloc(e->ctx, (size_t)e->size * sizeof *s->peer))) status = GD_NOMEM;
    for (int r = 0; r < e->size && !status; r++) s->peer[r] = (peer){0};
    if (status && s->started) MPI_Finalize();
    return status;
}

EXPORT gd_status gd_plugin_join(gd_endpoint *e);
EXPORT gd_status gd_plugin_join(gd_endpoint *e)
{
    if (e->host->layout != GD_PLUGIN_LAYOUT || e->layout != GD_WORLD_LAYOUT)
        return e->host->fail(e->ctx, GD_DEVICE,
                             "world 'mpi': the plugin was built for another version of gradus");
    state *s = e->host->alloc(e->ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    *s = (state){0};
    gd_status status = join(e, s);
    if (status) {
        e->host->free(e->ctx, s, sizeof *s);
        return status;
    }
    describe(e->about, sizeof e->about);
    e->state = s;
    e->transport = &transport;
    return GD_OK;
}

EXPORT bool gd_plugin_describe_world(char *text, size_t size);
EXPORT bool gd_plugin_describe_world(char *text, size_t size)
{
    describe(text, size);
    return true;
}
