/* Launches of a traced function as one graph.
 *
 * While something is captured, the stream notes what is queued on it.  Memory that kernels ask for meanwhile comes from blocks that
 * wait in the pool, and stays the graph's, because each of its launches writes there; a driver that is asked for memory would make
 * that a part of the graph.  Work that waits for the device, or copies from the host, ends the capture with its reason. */
#include "plugin.h"

#include <stdio.h>
#include <string.h>

typedef struct block {
    void *data;
    size_t bytes;
    bool busy;
} block;

struct cuda_graph {
    CUgraphExec ready;
    block *block; /* that the graph has */
    int blocks, room;
    bool troubles;       /* it may meet an index out of range */
    bool trouble_before; /* while it is captured */
    char why[120];       /* it is no graph; empty: it may become one */
};

static void refuse(cuda_graph *g, const char *format, const char *what)
{
    if (!g->why[0]) (void)snprintf(g->why, sizeof g->why, format, what);
}

gd_status cuda_not_captured(gd_device *device, const char *what)
{
    cuda_graph *g = cuda_of(device)->capturing;
    if (!g) return GD_OK;
    refuse(g, "%s is part of it", what);
    return device->host->fail(device->ctx, GD_DEVICE, "%s: a graph cannot have %s", device->name, what);
}

/* ---- memory ---- */

static bool remember(gd_device *device, cuda_graph *g, void *data, size_t bytes, bool busy)
{
    if (g->blocks == g->room) {
        int room = g->room ? 2 * g->room : 16;
        bool quiet = device->ctx->status == GD_OK;
        block *more = device->host->alloc(device->ctx, (size_t)room * sizeof *more);
        if (!more) {
            if (quiet) device->ctx->status = GD_OK;
            refuse(g, "there is no memory for %s", "it");
            return false;
        }
        if (g->blocks) memcpy(more, g->block, (size_t)g->blocks * sizeof *more);
        device->host->free(device->ctx, g->block, (size_t)g->room * sizeof *more);
        g->block = more;
        g->room = room;
    }
    g->block[g->blocks++] = (block){data, bytes, busy};
    return true;
}

void *cuda_graph_take(gd_device *device, size_t bytes)
{
    cuda_graph *g = cuda_of(device)->capturing;
    for (int k = 0; k < g->blocks; k++)
        if (!g->block[k].busy && g->block[k].bytes == bytes) {
            g->block[k].busy = true;
            return g->block[k].data;
        }
    void *data = cuda_pool_take(device, bytes);
    if (!data) {
        refuse(g, "a kernel asks for memory that %s",
               device->ctx->pool_on ? "does not wait in the pool" : "a context without a pool has not");
        (void)device->host->fail(device->ctx, GD_NOMEM, "%s: no block of %zu bytes waits for a graph",
                                 device->name, bytes);
        return NULL;
    }
    if (remember(device, g, data, bytes, true)) return data;
    cuda_of(device)->capturing = NULL;
    cuda_free(device, data, bytes);
    cuda_of(device)->capturing = g;
    (void)device->host->fail(device->ctx, GD_NOMEM, "%s: no memory for a graph", device->name);
    return NULL;
}

bool cuda_graph_give(gd_device *device, void *data, size_t bytes)
{
    cuda_graph *g = cuda_of(device)->capturing;
    for (int k = 0; k < g->blocks; k++)
        if (g->block[k].data == data) {
            g->block[k].busy = false;
            return true;
        }
    return remember(device, g, data, bytes, false);
}

static void free_graph(gd_device *device, void *graph)
{
    cuda_state *s = cuda_of(device);
    cuda_graph *g = graph;
    (void)s->api.cuCtxSetCurrent(s->context);
    if (g->ready) {
        (void)s->api.cuGraphExecDestroy(g->ready);
        s->graphs--;
    }
    if (!s->graphs) cuda_places_unpin(device);
    for (int k = 0; k < g->blocks; k++) cuda_free(device, g->block[k].data, g->block[k].bytes);
    device->host->free(device->ctx, g->block, (size_t)g->room * sizeof *g->block);
    device->host->free(device->ctx, g, sizeof *g);
}

/* ---- capturing ---- */

static bool say(gd_device *device, char *why, size_t size, const char *call, CUresult result)
{
    const cuda_api *api = &cuda_of(device)->api;
    const char *text = NULL;
    if (api->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "unknown";
    (void)snprintf(why, size, "%s failed: %s (CUDA error %d)", call, text, (int)result);
    return false;
}

static bool begin(gd_device *device, char *why, size_t size)
{
    cuda_state *s = cuda_of(device);
    bool quiet = device->ctx->status == GD_OK;
    cuda_graph *g = device->host->alloc(device->ctx, sizeof *g);
    if (!g) {
        if (quiet) device->ctx->status = GD_OK;
        (void)snprintf(why, size, "there is no memory for it");
        return false;
    }
    memset(g, 0, sizeof *g);
    CUresult result = s->api.cuCtxSetCurrent(s->context);
    if (result == CUDA_SUCCESS)
        result = s->api.cuStreamBeginCapture_v2(s->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    if (result != CUDA_SUCCESS) {
        device->host->free(device->ctx, g, sizeof *g);
        return say(device, why, size, "cuStreamBeginCapture", result);
    }
    g->trouble_before = s->troubled_possible;
    s->troubled_possible = false;
    s->capturing = g;
    return true;
}

/* The graph that was there before takes other arguments where its kernels are the same; else a new one is made ready. */
static bool make_ready(gd_device *device, cuda_graph *g, CUgraph noted, cuda_graph *before, char *why,
                       size_t size)
{
    cuda_state *s = cuda_of(device);
    CUgraphExecUpdateResultInfo info;
    memset(&info, 0, sizeof info);
    if (before && s->api.cuGraphExecUpdate_v2(before->ready, noted, &info) == CUDA_SUCCESS) {
        g->ready = before->ready;
        before->ready = NULL;
        return true;
    }
    CUresult result = s->api.cuGraphInstantiateWithFlags(&g->ready, noted, 0);
    if (result != CUDA_SUCCESS) {
        g->ready = NULL;
        return say(device, why, size, "cuGraphInstantiate", result);
    }
    s->graphs++;
    return true;
}

static bool end(gd_device *device, void **graph, char *why, size_t size)
{
    cuda_state *s = cuda_of(device);
    cuda_graph *g = s->capturing, *before = *graph;
    CUgraph noted = NULL;
    s->capturing = NULL;
    g->troubles = s->troubled_possible;
    s->troubled_possible = g->trouble_before;
    *graph = NULL;
    CUresult result = s->api.cuStreamEndCapture(s->stream, &noted);
    bool made = result == CUDA_SUCCESS && noted && !g->why[0];
    if (g->why[0])
        (void)snprintf(why, size, "%s", g->why);
    else if (!made)
        (void)say(device, why, size, "cuStreamEndCapture", result);
    if (made) made = make_ready(device, g, noted, before, why, size);
    if (noted) (void)s->api.cuGraphDestroy(noted);
    if (before) free_graph(device, before);
    if (made)
        *graph = g;
    else
        free_graph(device, g);
    return made;
}

static gd_status launch(gd_device *device, void *graph)
{
    cuda_state *s = cuda_of(device);
    const cuda_graph *g = graph;
    gd_status status = cuda_enter(device);
    if (status) return status;
    CUDA_TRY(device, cuGraphLaunch(g->ready, s->stream));
    s->troubled_possible = s->troubled_possible || g->troubles;
    return GD_OK;
}

const gd_capturing cuda_capturing = {.begin = begin, .end = end, .launch = launch, .free = free_graph};
