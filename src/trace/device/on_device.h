/* Replays of functions whose tensors are on a device.
 *
 * Kernels are the device's: the bits are those of operators there.  Neighbouring element-wise operators of one shape are one kernel
 * where the device writes such (gd_backend.fuse).  A run that is repeated with everything in the same place is captured as one graph
 * where the device has graphs (gd_backend.capture); numbers that the host brings, and random numbers, which differ from run to run,
 * are made before it. */
#ifndef GD_TRACE_DEVICE_ON_DEVICE_H
#define GD_TRACE_DEVICE_ON_DEVICE_H

#include "trace/replay.h"

#define GD_DEVICE_LINE  256 /* buffers begin at multiples of so many bytes, as those of the device do */
#define GD_TRACE_GRAPHS 4   /* places of inputs, captured tensors and results that are remembered */

/* Neighbouring calls as one kernel. */
typedef struct gd_fused {
    gd_fusion f;
    void *kernel;
    gd_fused_launch args;
    int read[GD_FUSED_READS], store[GD_FUSED_STEPS]; /* operands */
} gd_fused;

typedef struct gd_placed_graph {
    char **base;   /* of each buffer's bytes */
    uint64_t used; /* 0: never */
    bool seen;     /* a run has been there */
    bool fits;     /* the graph is for these places */
    void *graph;
} gd_placed_graph;

typedef struct gd_on_device {
    int heads;    /* units that run before the graph */
    bool plain;   /* there will be no graph */
    int failures; /* of captures, one after the other */
    char why[160];
    gd_placed_graph graph[GD_TRACE_GRAPHS];
    char **bases;
    uint64_t clock;
    int64_t captured, launched;
} gd_on_device;

/* As gd__replay_group.  False: no memory, with no error recorded. */
bool gd__on_device_group(gd_replay *p);
/* The calls from place `first` of the body on, in the order in which they are to run: fills units.  order: room for all of them. */
void gd__on_device_fuse(gd_replay *p, int first, int *order, uint8_t *mark, int *uses);
void gd__fused_free(gd_ctx *ctx, gd_fused *fused); /* NULL is fine */
GD_NODISCARD gd_status gd__fused_run(gd_replay *p, gd_fused *fused);
/* The arena; NULL: no memory, with no error recorded. */
char *gd__on_device_room(gd_replay *p);
void gd__on_device_free(gd_replay *p); /* with the arena; on the CPU nothing */
GD_NODISCARD gd_status gd__on_device_body(gd_replay *p);

#endif
