/* Fused optimizer programs: kernels from emitted source, each started with one struct of arguments, alone or as a graph.
 *
 * A graph is a chain of kernel nodes.  Arguments are copied into the node when they are set and belong to the launches
 * after that: nothing on the host has to stay until the GPU has read it. */
#include "plugin.h"

#include <string.h>

void *cuda_program(gd_device *device, const char *source, const char *name)
{
    CUfunction kernel = NULL;
    return cuda_kernel(device, name, source, name, &kernel) ? NULL : kernel;
}

gd_status cuda_program_launch(gd_device *device, const gd_launch *launch)
{
    return cuda_launch(device, launch->kernel, launch->blocks, launch->threads, 0, (void *[]){launch->args});
}

/* ---- graphs ---- */

typedef struct node {
    CUgraphNode node;
    gd_launch launch; /* with a copy of the arguments */
} node;

typedef struct graph {
    CUgraph graph;
    CUgraphExec ready;
    size_t bytes;
    int count;
    node node[];
} graph;

void cuda_forget(gd_device *device, void *made)
{
    cuda_state *s = cuda_of(device);
    graph *g = made;
    if (g->ready) (void)s->api.cuGraphExecDestroy(g->ready);
    if (g->graph) (void)s->api.cuGraphDestroy(g->graph);
    device->host->free(device->ctx, g, g->bytes);
}

static CUDA_KERNEL_NODE_PARAMS params_of(const gd_launch *l, void **args)
{
    args[0] = l->args;
    return (CUDA_KERNEL_NODE_PARAMS){.func = l->kernel,
                                     .gridDimX = (unsigned)l->blocks,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = (unsigned)l->threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = args};
}

static gd_status fill_graph(gd_device *device, graph *g)
{
    CUDA_TRY(device, cuGraphCreate(&g->graph, 0));
    for (int i = 0; i < g->count; i++) {
        void *args[1];
        CUDA_KERNEL_NODE_PARAMS params = params_of(&g->node[i].launch, args);
        CUDA_TRY(device, cuGraphAddKernelNode_v2(&g->node[i].node, g->graph, i ? &g->node[i - 1].node : NULL,
                                                 i > 0, &params));
    }
    CUDA_TRY(device, cuGraphInstantiateWithFlags(&g->ready, g->graph, 0));
    return GD_OK;
}

/* One block: the nodes, then their arguments. */
static gd_status make_graph(gd_device *device, const gd_launch *launch, int count, graph **made)
{
    size_t bytes = sizeof(graph) + (size_t)count * sizeof(node);
    for (int i = 0; i < count; i++) bytes += launch[i].bytes;
    graph *g = device->host->alloc(device->ctx, bytes);
    if (!g) return GD_NOMEM;
    memset(g, 0, bytes);
    g->bytes = bytes;
    g->count = count;
    char *args = (char *)&g->node[count];
    for (int i = 0; i < count; i++) {
        g->node[i].launch = launch[i];
        g->node[i].launch.args = memcpy(args, launch[i].args, launch[i].bytes);
        args += launch[i].bytes;
    }
    gd_status status = fill_graph(device, g);
    if (status)
        cuda_forget(device, g);
    else
        *made = g;
    return status;
}

static bool fits(const graph *g, const gd_launch *launch, int count)
{
    bool same = g->count == count;
    for (int i = 0; i < count && same; i++) {
        const gd_launch *a = &g->node[i].launch, *b = &launch[i];
        same = a->kernel == b->kernel && a->blocks == b->blocks && a->threads == b->threads &&
               a->bytes == b->bytes;
    }
    return same;
}

static gd_status set_args(gd_device *device, graph *g, int i, const void *now)
{
    gd_launch *l = &g->node[i].launch;
    if (!memcmp(l->args, now, l->bytes)) return GD_OK;
    memcpy(l->args, now, l->bytes);
    void *args[1];
    CUDA_KERNEL_NODE_PARAMS params = params_of(l, args);
    CUDA_TRY(device, cuGraphExecKernelNodeSetParams_v2(g->ready, g->node[i].node, &params));
    return GD_OK;
}

gd_status cuda_replay(gd_device *device, void **made, const gd_launch *launch, int count)
{
    graph *g = *made;
    gd_status status = GD_OK;
    if (g && !fits(g, launch, count)) {
        cuda_forget(device, g);
        *made = g = NULL;
    }
    if (!g) status = make_graph(device, launch, count, &g);
    *made = g;
    for (int i = 0; i < count && !status; i++) status = set_args(device, g, i, launch[i].args);
    if (status) { /* some arguments may not be what the copies say */
        if (g) cuda_forget(device, g);
        *made = NULL;
        return status;
    }
    CUDA_TRY(device, cuGraphLaunch(g->ready, cuda_of(device)->stream));
    return GD_OK;
}
