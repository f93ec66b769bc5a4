/* The inside of plans; see plan.c. */
#ifndef GD_OPTIM_PLAN_H
#define GD_OPTIM_PLAN_H

#include "optim/optimizer.h"

typedef struct gd_chunk {
    int64_t start, n;
    int member;
} gd_chunk;

typedef struct gd_work {
    gd_chunk *chunk;
    int64_t *task; /* first chunk of each task, one more at the end */
    int64_t chunks, tasks, used_tasks;
} gd_work;

typedef struct gd_plan_group {
    gd_program *p;
    gd_device *device;
    int members;
    int *position; /* of a member in the list of parameters */
    int64_t numel;
    gd_entry **array_entry;   /* [members, arrays], NULL but for state */
    gd_entry **uniform_entry; /* [members, uniforms] */
    gd_pass *pass;
    gd_kernel_fn *kernel; /* NULL: interpret */
    gd_executor *how;
    gd_work last, reduce;
    char **pointer;  /* [members, arrays] */
    double *input;   /* [members, uniforms] */
    double *reduced; /* [members, reductions] */
    double *scalar;  /* [members, scalar_room] */
    double *stored;  /* [members, uniforms] */
    double *value;   /* [instructions] */
    double *partial; /* [chunks, reductions of a pass] */
    int scalar_room;
    int64_t partial_room;
} gd_plan_group;

/* What makes a plan fit a parameter. */
typedef struct gd_param_signature {
    const gd_tensor *param;
    int64_t numel;
    const gd_device *device;
    int dtypes;
} gd_param_signature;

struct gd_plan {
    gd_plan *next;
    gd_pending pending[GD_MAX_PENDING];
    int pendings;
    gd_sink sink;
    bool input_is_grad;
    int count, groups;
    gd_param_signature *params;
    gd_plan_group *group; /* room for count */
    uint64_t stamp, numbers;
};

gd_param_signature gd__signature(const gd_run_args *args, int i);
bool gd__own_settings(const gd_run_args *args, int i);

#endif
