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
    int64_t chunks, tasks;
} gd_work;

typedef struct gd_gpu_group gd_gpu_group; /* see plan_gpu.c */

typedef struct gd_plan_group {
    gd_program *p;
    gd_device *device;
    int members;
    int *position; /* of a member in the list of parameters */
    int64_t numel;
    gd_entry **array_entry;   /* [members, arrays], NULL but for state */
    gd_entry **uniform_entry; /* [members, uniforms], NULL but for what an entry holds */
    bool *ahead;              /* [uniforms] a step count that this run raises */
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
    gd_gpu_group *gpu; /* NULL on the CPU and before the first run */
} gd_plan_group;

/* What makes a plan fit a parameter. */
typedef struct gd_param_signature {
    const gd_tensor *param, *key;
    int64_t numel;
    const gd_device *device;
    int dtypes;
} gd_param_signature;

struct gd_plan {
    gd_plan *next;
    int pendings, holes, count, groups;
    gd_sink sink;
    bool input_is_grad;
    gd_link *child; /* the run makes the input of this child, which is no rule */
    gd_param_signature *params;
    int *group_of, *member_of; /* where a parameter is */
    gd_plan_group *group;      /* room for count */
    uint64_t stamp, numbers;
    gd_pending pending[GD_MAX_PENDING];
};

/* The plan for these arguments, made if there is none.  Borrowed from the optimizer; without one, end with gd__plans_free. */
gd_plan *gd__plan_for(const gd_run_args *args);
/* A plan that can be looked at but not run: programs, members, passes and kernels.  New; NULL on failure. */
gd_plan *gd__plan_look(const gd_run_args *args);

/* ---- groups on a GPU ---- */

void gd__gpu_free(gd_plan_group *g);
/* Sends what changed: pointers and inputs are filled on the host. */
gd_status gd__gpu_prepare(gd_plan_group *g);
gd_status gd__gpu_pass(gd_plan_group *g, int level);
/* Joins chunks, and members too where a reduction is over all and all are here. */
gd_status gd__gpu_join(gd_plan_group *g, int level, bool all_here);
gd_status gd__gpu_fetch_reduced(gd_plan_group *g);
gd_status gd__gpu_send_reduced(gd_plan_group *g);

#endif
