/* Messages and collectives of NCCL, see plugin.h. */
#include "plugin.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- errors ---- */

static gd_status driver_told(gd_endpoint *e, const char *what, CUresult code)
{
    const char *text = NULL;
    if (code == CUDA_SUCCESS) return GD_OK;
    (void)nccl_of(e)->api.cuGetErrorString(code, &text);
    return e->host->fail(e->ctx, GD_DEVICE, "world 'nccl': %s: %s", what, text ? text : "unknown error");
}

/* The others cannot go on either: gd_transport.given_up tells why. */
static gd_status broken(gd_endpoint *e, gd_status status)
{
    nccl_of(e)->broken = true;
    return e->host->fail(e->ctx, status, "%s", nccl_of(e)->why);
}

/* Waits until NCCL has taken what it was given, which for the first time means connecting to the others. */
static gd_status settled(gd_endpoint *e, const char *what, ncclResult_t code)
{
    nccl_state *s = nccl_of(e);
    double begun = nccl_seconds();
    while (code == ncclInProgress) {
        if (nccl_seconds() - begun > e->timeout) {
            (void)snprintf(s->why, sizeof s->why, "world 'nccl': %s: rank %d waited %lld ms for the others",
                           what, e->rank, (long long)(1e3 * e->timeout));
            return broken(e, GD_STATE);
        }
        ncclResult_t asked = s->api.ncclCommGetAsyncError(s->comm, &code);
        if (asked != ncclSuccess) code = asked;
        if (code == ncclInProgress) nccl_pause();
    }
    if (code == ncclSuccess) return GD_OK;
    const char *more = s->api.ncclGetLastError(s->comm);
    (void)snprintf(
        s->why, sizeof s->why, "world 'nccl': %s: %s%s%.200s%s", what, s->api.ncclGetErrorString(code),
        more && *more ? ": " : "", more ? more : "",
        code == ncclInvalidUsage ? " (every rank needs a GPU of its own; the world 'mpi' shares one)" : "");
    return broken(e, GD_DEVICE);
}

/* ---- giving work to NCCL ---- */

#define TRY(what, call)                                                 \
    do {                                                                \
        gd_status status_ = driver_told(e, what, nccl_of(e)->api.call); \
        if (status_) return status_;                                    \
    } while (0)

/* Behind what the device has queued so far. */
static gd_status begin(gd_endpoint *e)
{
    nccl_state *s = nccl_of(e);
    TRY("entering the GPU's context", cuCtxSetCurrent(s->context));
    TRY("recording an event", cuEventRecord(s->ready, s->device->backend->stream(s->device)));
    TRY("waiting for an event", cuStreamWaitEvent(s->stream, s->ready, 0));
    return GD_OK;
}

static gd_status finish(gd_endpoint *e, const char *what, ncclResult_t code)
{
    nccl_state *s = nccl_of(e);
    gd_status status = settled(e, what, code);
    if (status) return status;
    TRY("recording an event", cuEventRecord(s->done, s->stream));
    return GD_OK;
}

/* ---- bytes of the host, where there is no MPI: through a buffer on the GPU ---- */

static bool is_staged(const nccl_state *s, const gd_message *m) { return m->device != s->device; }
static bool goes_under(const nccl_state *s, const gd_message *m)
{
    return is_staged(s, m) && s->under.transport;
}

static void *bytes_of(const nccl_state *s, const gd_message *m)
{
    return is_staged(s, m) ? (void *)(uintptr_t)m->request : m->data;
}

static gd_status stage(gd_endpoint *e, gd_message *m, bool upload)
{
    nccl_state *s = nccl_of(e);
    const gd_backend *gpu = s->device->backend;
    if (!is_staged(s, m)) return GD_OK;
    void *buffer = gpu->alloc(s->device, m->bytes);
    m->request = (uint64_t)(uintptr_t)buffer;
    if (!buffer) return GD_NOMEM;
    return upload ? gpu->upload(s->device, buffer, m->data, m->bytes) : GD_OK;
}

static void unstage(gd_endpoint *e, gd_message *m)
{
    nccl_state *s = nccl_of(e);
    if (!is_staged(s, m) || !m->request) return;
    s->device->backend->free(s->device, bytes_of(s, m), m->bytes);
    m->request = 0;
}

/* ---- messages ---- */

static gd_status nccl_post(gd_endpoint *e, gd_message *m)
{
    nccl_state *s = nccl_of(e);
    if (goes_under(s, m)) return s->under.transport->post(&s->under, m);
    gd_status status = stage(e, m, m->sends);
    m->next = NULL;
    *s->last = m;
    s->last = &m->next;
    return status;
}

/* All that was posted is one group: NCCL's messages wait for each other otherwise. */
static gd_status send_group(gd_endpoint *e)
{
    nccl_state *s = nccl_of(e);
    gd_message *m = s->waiting;
    gd_status status = m ? begin(e) : GD_OK;
    s->waiting = NULL;
    s->last = &s->waiting;
    if (!m || status) return status;
    ncclResult_t code = s->api.ncclGroupStart(), ended;
    for (; m && code == ncclSuccess; m = m->next)
        code = m->sends ? s->api.ncclSend(bytes_of(s, m), m->bytes, ncclUint8, m->to, s->comm, s->stream)
                        : s->api.ncclRecv(bytes_of(s, m), m->bytes, ncclUint8, m->from, s->comm, s->stream);
    ended = s->api.ncclGroupEnd();
    return finish(e, "messages", code == ncclSuccess || code == ncclInProgress ? ended : code);
}

/* Has somebody left? */
static bool is_sound(nccl_state *s)
{
    ncclResult_t code = ncclSuccess;
    if (s->api.ncclCommGetAsyncError(s->comm, &code) != ncclSuccess) code = ncclInternalError;
    s->broken |= code != ncclSuccess && code != ncclInProgress;
    return !s->broken;
}

static bool nccl_test(gd_endpoint *e, gd_message *m)
{
    nccl_state *s = nccl_of(e);
    if (goes_under(s, m)) return s->under.transport->test(&s->under, m);
    if (s->broken || send_group(e)) return false;
    if (s->api.cuCtxSetCurrent(s->context)) return false;
    CUresult code = s->api.cuEventQuery(s->done);
    if (code == CUDA_ERROR_NOT_READY) return is_sound(s);
    if (code != CUDA_SUCCESS) return false;
    s->idle = 0;
    if (is_staged(s, m) && !m->sends &&
        s->device->backend->download(s->device, m->data, bytes_of(s, m), m->bytes))
        return false;
    unstage(e, m);
    m->done = true;
    return true;
}

/* What NCCL has been given cannot be taken back: the others would wait for it. */
static void nccl_cancel(gd_endpoint *e, gd_message *m)
{
    nccl_state *s = nccl_of(e);
    gd_message **at = &s->waiting;
    if (goes_under(s, m)) {
        s->under.transport->cancel(&s->under, m);
        return;
    }
    while (*at && *at != m) at = &(*at)->next;
    if (*at) {
        *at = m->next;
        for (s->last = &s->waiting; *s->last;) s->last = &(*s->last)->next;
        unstage(e, m);
    } else {
        s->broken = true;
    }
}

/* ---- collectives of its own ---- */

static bool type_of(gd_dtype dtype, ncclDataType_t *type)
{
    switch (dtype) {
    case GD_F32: return *type = ncclFloat32, true;
    case GD_F64: return *type = ncclFloat64, true;
    case GD_I32: return *type = ncclInt32, true;
    case GD_I64: return *type = ncclInt64, true;
    default: return false;
    }
}

static gd_status nccl_sum(gd_endpoint *e, gd_message *m, gd_dtype dtype)
{
    nccl_state *s = nccl_of(e);
    ncclDataType_t type;
    if (goes_under(s, m)) return s->under.transport->sum(&s->under, m, dtype);
    if (!type_of(dtype, &type))
        return e->host->fail(e->ctx, GD_DTYPE, "world 'nccl': no fast sum of this dtype");
    gd_status status = stage(e, m, true);
    if (!status) status = begin(e);
    if (status) return status;
    void *data = bytes_of(s, m);
    size_t count = m->bytes / (type == ncclFloat64 || type == ncclInt64 ? 8 : 4);
    return finish(e, "all_reduce",
                  s->api.ncclAllReduce(data, data, count, type, ncclSum, s->comm, s->stream));
}

static gd_status nccl_gather(gd_endpoint *e, gd_message *m, void *out)
{
    nccl_state *s = nccl_of(e);
    gd_status status = begin(e);
    if (status) return status;
    return finish(e, "all_gather",
                  s->api.ncclAllGather(m->data, out, m->bytes, ncclUint8, s->comm, s->stream));
}

static gd_status nccl_spread(gd_endpoint *e, gd_message *m)
{
    nccl_state *s = nccl_of(e);
    gd_status status = begin(e);
    if (status) return status;
    return finish(e, "broadcast",
                  s->api.ncclBroadcast(m->data, m->data, m->bytes, ncclUint8, m->from, s->comm, s->stream));
}

static bool nccl_reaches(gd_endpoint *e, const gd_device *device) { return device == nccl_of(e)->device; }

/* ---- waiting and the end ---- */

static void nccl_idle(gd_endpoint *e, double seconds)
{
    nccl_state *s = nccl_of(e);
    if (s->under.transport)
        s->under.transport->idle(&s->under, seconds);
    else if (s->idle++ < 1000)
        sched_yield();
    else
        nccl_pause();
}

/* What is missing will not come: no process can go on. */
static void nccl_give_up(gd_endpoint *e, const char *text)
{
    nccl_state *s = nccl_of(e);
    if (s->under.transport) {
        s->under.transport->give_up(&s->under, text);
        return;
    }
    (void)fprintf(stderr, "gradus: %s\n", text);
    (void)fflush(stderr);
    _exit(1);
}

static const char *nccl_given_up(gd_endpoint *e) { return nccl_of(e)->why[0] ? nccl_of(e)->why : NULL; }

/* Notes go as the host's bytes do; without MPI nobody hears anything. */
static void nccl_say_waiting(gd_endpoint *e)
{
    gd_endpoint *under = &nccl_of(e)->under;
    if (under->transport) under->transport->say_waiting(under);
}

static double nccl_heard(gd_endpoint *e, int rank)
{
    gd_endpoint *under = &nccl_of(e)->under;
    return under->transport ? under->transport->heard(under, rank) : INFINITY;
}

static void end_comm(gd_endpoint *e)
{
    nccl_state *s = nccl_of(e);
    ncclResult_t code = s->broken ? ncclInternalError : s->api.ncclCommFinalize(s->comm);
    double begun = nccl_seconds();
    while (code == ncclInProgress && nccl_seconds() - begun < e->timeout) {
        nccl_pause();
        if (s->api.ncclCommGetAsyncError(s->comm, &code) != ncclSuccess) code = ncclInternalError;
    }
    (void)(code == ncclSuccess ? s->api.ncclCommDestroy(s->comm) : s->api.ncclCommAbort(s->comm));
}

static void nccl_close(gd_endpoint *e)
{
    nccl_state *s = nccl_of(e);
    if (s->context) (void)s->api.cuCtxSetCurrent(s->context);
    if (s->comm) end_comm(e);
    if (s->ready) (void)s->api.cuEventDestroy_v2(s->ready);
    if (s->done) (void)s->api.cuEventDestroy_v2(s->done);
    if (s->stream) (void)s->api.cuStreamDestroy_v2(s->stream);
    if (s->context) (void)s->api.cuDevicePrimaryCtxRelease_v2(s->ordinal);
    if (s->under.transport) s->under.transport->close(&s->under);
    nccl_api_close(&s->api);
    e->host->free(e->ctx, s, sizeof *s);
}

static const gd_transport transport = {.post = nccl_post,
                                       .test = nccl_test,
                                       .cancel = nccl_cancel,
                                       .sum = nccl_sum,
                                       .gather = nccl_gather,
                                       .spread = nccl_spread,
                                       .reaches = nccl_reaches,
                                       .in_order = true,
                                       .idle = nccl_idle,
                                       .give_up = nccl_give_up,
                                       .given_up = nccl_given_up,
                                       .say_waiting = nccl_say_waiting,
                                       .heard = nccl_heard,
                                       .close = nccl_close};

/* ---- joining ---- */

static gd_status open_gpu(gd_endpoint *e)
{
    nccl_state *s = nccl_of(e);
    int gpus = 0;
    char name[16];
    TRY("starting the driver", cuInit(0));
    TRY("counting GPUs", cuDeviceGetCount(&gpus));
    if (!gpus) return e->host->fail(e->ctx, GD_DEVICE, "world 'nccl': there is no GPU");
    (void)snprintf(name, sizeof name, "gpu:%d", nccl_gpu_of(e, gpus));
    s->device = e->host->device(e->ctx, name);
    if (!s->device) return GD_DEVICE;
    TRY("finding the GPU", cuDeviceGet(&s->ordinal, s->device->index));
    TRY("opening the GPU", cuDevicePrimaryCtxRetain(&s->context, s->ordinal));
    TRY("opening the GPU", cuCtxSetCurrent(s->context));
    TRY("making a stream", cuStreamCreate(&s->stream, CU_STREAM_NON_BLOCKING));
    TRY("making an event", cuEventCreate(&s->ready, CU_EVENT_DISABLE_TIMING));
    TRY("making an event", cuEventCreate(&s->done, CU_EVENT_DISABLE_TIMING));
    return GD_OK;
}

static gd_status connect_ranks(gd_endpoint *e)
{
    nccl_state *s = nccl_of(e);
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0; /* so that who does not come is noticed */
    memset(&id, 0, sizeof id);
    if (e->rank == 0 && s->api.ncclGetUniqueId(&id) != ncclSuccess)
        return e->host->fail(e->ctx, GD_DEVICE, "world 'nccl': NCCL gives no id (%s)",
                             s->api.ncclGetLastError(NULL));
    gd_status status = nccl_share_id(e, s, &id);
    if (status) return status;
    status = settled(e, "joining", s->api.ncclCommInitRankConfig(&s->comm, e->size, id, e->rank, &config));
    nccl_forget_id(e);
    return status;
}

static gd_status join(gd_endpoint *e)
{
    nccl_state *s = nccl_of(e);
    char why[200], version[32];
    if (!nccl_api_open(&s->api, why, sizeof why))
        return e->host->fail(e->ctx, GD_DEVICE, "world 'nccl': %s", why);
    gd_status status = nccl_compare_call(e, s);
    if (!status) status = open_gpu(e);
    if (!status) status = connect_ranks(e);
    if (status) return status;
    nccl_version(&s->api, version, sizeof version);
    (void)snprintf(e->about, sizeof e->about, "%s on %s%s%.80s", version, s->device->name,
                   s->under.transport ? ", bytes of the host by " : "",
                   s->under.transport ? s->under.about : "");
    return GD_OK;
}

EXPORT gd_status gd_plugin_join(gd_endpoint *e);
EXPORT gd_status gd_plugin_join(gd_endpoint *e)
{
    if (e->host->layout != GD_PLUGIN_LAYOUT || e->layout != GD_WORLD_LAYOUT)
        return e->host->fail(e->ctx, GD_DEVICE,
                             "world 'nccl': the plugin was built for another version of gradus");
    nccl_state *s = e->host->alloc(e->ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    memset(s, 0, sizeof *s);
    s->last = &s->waiting;
    e->state = s;
    gd_status status = join(e);
    if (status)
        nccl_close(e);
    else
        e->transport = &transport;
    return status;
}

EXPORT bool gd_plugin_describe_world(char *text, size_t size);
EXPORT bool gd_plugin_describe_world(char *text, size_t size)
{
    nccl_api api;
    char version[32];
    int gpus = 0;
    bool there = nccl_api_open(&api, text, size);
    if (there && (api.cuInit(0) != CUDA_SUCCESS || api.cuDeviceGetCount(&gpus) != CUDA_SUCCESS || !gpus)) {
        (void)snprintf(text, size, "there is no GPU");
        there = false;
    }
    if (there) {
        nccl_version(&api, version, sizeof version);
        (void)snprintf(text, size, "%s, %d GPU%s", version, gpus, gpus == 1 ? "" : "s");
    }
    nccl_api_close(&api);
    return there;
}
