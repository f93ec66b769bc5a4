/* A world of processes that an MPI launcher started.  MPI 3.1 functions only, called from the thread that opened the world
 * (MPI_THREAD_FUNNELED).  Messages of one collective between two ranks have one tag: MPI keeps their order. */
#include "world/transport.h"

#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
#define TAGS   32768 /* the least that MPI promises */
#define BLOCK  (1 << 20)

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into its message");

typedef struct state {
    MPI_Comm comm;
    bool started; /* MPI, by us */
    int64_t idle; /* calls since a message was done */
} state;

static state *state_of(gd_endpoint *e) { return e->state; }

static gd_status told(gd_endpoint *e, const char *what, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    if (code == MPI_SUCCESS) return GD_OK;
    MPI_Error_string(code, text, &length);
    return e->host->fail(e->ctx, GD_IO, "world 'mpi': %s: %s", what, text);
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

static bool mpi_test(gd_endpoint *e, gd_message *m)
{
    MPI_Request request = request_of(m);
    int done = 0;
    if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    keep(m, request);
    m->done = done;
    if (done) state_of(e)->idle = 0;
    return true;
}

static void mpi_cancel(gd_endpoint *e, gd_message *m)
{
    MPI_Request request = request_of(m);
    (void)e;
    if (request == MPI_REQUEST_NULL) return;
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

/* MPI moves bytes only inside its functions: never long, and longer where nothing comes. */
static void mpi_idle(gd_endpoint *e, double seconds)
{
    (void)seconds;
    if (state_of(e)->idle++ < 1000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* ---- the end ---- */

/* What is missing will not come: no process can go on, and the launcher ends them all. */
static void mpi_give_up(gd_endpoint *e, const char *text)
{
    (void)fprintf(stderr, "gradus: %s\n", text);
    (void)fflush(stderr);
    MPI_Abort(state_of(e)->comm, 1);
}

static const char *mpi_given_up(gd_endpoint *e) { return (void)e, NULL; }

static void mpi_close(gd_endpoint *e)
{
    state *s = e->state;
    MPI_Comm_free(&s->comm);
    if (s->started) MPI_Finalize();
    e->host->free(e->ctx, s, sizeof *s);
}

static const gd_transport transport = {.post = mpi_post,
                                       .test = mpi_test,
                                       .cancel = mpi_cancel,
                                       .sum = mpi_sum,
                                       .idle = mpi_idle,
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
    int on = 0, over = 0, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&over);
    if (over)
        return e->host->fail(
            e->ctx, GD_STATE,
            "world 'mpi': MPI has ended in this process, and starts once: keep the world open");
    MPI_Initialized(&on);
    int code = on ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    s->started = !on && !code;
    if (code) return told(e, "starting", code);
    if (level >= MPI_THREAD_FUNNELED) return GD_OK;
    if (s->started) MPI_Finalize();
    return e->host->fail(e->ctx, GD_STATE, "world 'mpi': MPI was started without MPI_THREAD_FUNNELED");
}

static gd_status join(gd_endpoint *e, state *s)
{
    gd_status status = start(e, s);
    if (status) return status;
    int code = MPI_Comm_dup(MPI_COMM_WORLD, &s->comm); /* messages of the program's own do not meet ours */
    if (!code) code = MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN);
    if (!code) code = MPI_Comm_rank(s->comm, &e->rank);
    if (!code) code = MPI_Comm_size(s->comm, &e->size);
    if (code && s->started) MPI_Finalize();
    return told(e, "joining", code);
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
