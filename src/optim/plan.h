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
typedef struct gd_gpu_start gd_gpu_start;

/* Launches of a run, collected to be started together. */
typedef struct gd_gpu_list {
    gd_gpu_start *start;
    int count, room;
} gd_gpu_list;

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
    gd_device *gpu; /* all groups are on this one; NULL: they are not */
    gd_gpu_list list;
    void *graph; /* what the device remembers of the list, see gd_optimizer_capture */
    gd_pending pending[GD_MAX_PENDING];
};

/* The plan for these arguments, made if there is none.  Borrowed from the optimizer; without one, end with gd__plans_free. */
gd_plan *gd__plan_for(const gd_run_args *args);
/* A plan that can be looked at but not run: programs, members, passes and kernels.  New; NULL on failure. */
gd_plan *gd__plan_look(const gd_run_args *args);

/* ---- groups on a GPU ---- */

void gd__gpu_free(gd_plan_group *g);
#define GD_GPU_GROUPS 16 /* most groups whose norms are joined on the device */

/* Sends what changed: pointers and inputs are filled on the host. */
gd_status gd__gpu_prepare(gd_plan_group *g);
/* These start kernels; with a list they are only noted there, for gd__gpu_run. */
gd_status gd__gpu_pass(gd_plan_group *g, int level, gd_gpu_list *list);
/* Joins the chunks of each member. */
gd_status gd__gpu_join(gd_plan_group *g, int level, gd_gpu_list *list);
/* Joins the members of all groups, which are on one device, where a reduction is over all. */
gd_status gd__gpu_join_all(gd_plan_group *group, int groups, int level, gd_gpu_list *list);
/* Starts what was noted; with a graph, as one. */
gd_status gd__gpu_run(gd_device *device, gd_gpu_list *list, void **graph);
void gd__gpu_list_free(gd_ctx *ctx, gd_gpu_list *list);
gd_status gd__gpu_fetch_reduced(gd_plan_group *g);
gd_status gd__gpu_send_reduced(gd_plan_group *g);

/* ---- steps like the last one ---- */

/* After a step without objective: could the next one run the same plan with no more than other step counts? */
bool gd__plan_repeats(const gd_plan *plan);
/* Runs a plan again for which all that its tables hold is as it was. */
gd_status gd__plan_again(gd_optimizer *optimizer, gd_plan *plan, bool *not_finite);

#endif
