/* Lanes: the operations of a tape for many problems at once.
 *
 *     slot of a value    problem 0 | problem 1 | ... | problem 15
 *
 * A step is the vector kernel of its operator over a slot, so every problem has the same bits as alone: kernels compute each
 * element by itself.  Sums and copies within a problem are operations of the tape already.  Loads collect a number from each
 * problem's memory, stores scatter it. */
#ifndef GD_TRACE_MANY_LANES_H
#define GD_TRACE_MANY_LANES_H

#include "trace/tape.h"

#define GD_LANE_COUNT 16
#define GD_LANE_SLOT  (GD_LANE_COUNT * sizeof(double)) /* bytes */

typedef struct gd_lane_step {
    gd_vec_fn fn;           /* NULL: a load or a store */
    uint32_t to, x, y, z;   /* slots, in bytes */
    int32_t buffer, offset; /* of a load to `to`, or a store from there */
    uint8_t item;           /* bytes of a number there */
    bool stores;
    double f[2]; /* settings of the kernel */
} gd_lane_step;

typedef struct gd_lane_number {
    uint32_t to;
    gd_tape_type type;
    double value;
} gd_lane_number;

typedef struct gd_lanes {
    gd_ctx *ctx;
    gd_lane_step *step;
    gd_lane_number *number; /* in slots of their own, filled once */
    bool *stored;           /* by buffer: do steps store there? */
    int steps, numbers, step_room, number_room, buffers;
    size_t room; /* bytes of all slots */
} gd_lanes;

/* The whole body as one tape, not to be run.  NULL, with the reason in `why`: not possible, or no memory. */
gd_tape *gd__whole_tape(const gd_replay *p, char *why, size_t size);
/* The whole body as lanes.  NULL: it cannot be one tape, see `why`; or there is no memory, with no error. */
gd_lanes *gd__lanes_new(const gd_replay *p, char *why, size_t size);
void gd__lanes_free(gd_lanes *lanes); /* NULL is fine */
/* Copies the constants of the tape into the memory of a thread. */
void gd__lanes_prepare(const gd_lanes *lanes, char *room);
/* `count` problems, at most GD_LANE_COUNT: buffer b of problem i is at base[b] + i * by[b]. */
void gd__lanes_run(const gd_lanes *lanes, char *const *base, const ptrdiff_t *by, int count, char *room);

#endif
