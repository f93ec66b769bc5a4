/* The inside of plans; see plan.c. */
#ifndef GD_OPTIM_PLAN_PLAN_H
#define GD_OPTIM_PLAN_PLAN_H

#include "program/execute.h"
#include "optim/plan/run.h"
#include "optim/ranks/share.h"

/* Parameters whose programs are equal, and the state that their arrays and uniform inputs refer to. */
typedef struct gd_plan_group {
    gd_exec *run; /* in the plan's set */
    int members;
    int *position; /* of a member in the list of parameters */
    int64_t numel;
    gd_entry **array_entry;   /* [members, arrays], NULL except for state */
    gd_entry **uniform_entry; /* [members, uniforms], NULL except for what an entry holds */
} gd_plan_group;

/* A uniform input that is filled for every run: a step count, the loss, a scalar, a key, a random number. */
typedef struct gd_run_input {
    gd_plan_group *group;
    gd_link *owner;
    gd_uniform_kind kind;
    int uniform, index;
    bool ahead; /* a step count that this run raises */
} gd_run_input;

/* Properties of a parameter that must match for a plan to fit. */
typedef struct gd_param_signature {
    const gd_tensor *param, *key;
    int64_t numel;
    const gd_device *device;
    int dtypes;
} gd_param_signature;

/* A link whose step count a run raises, and how many of the parameters it keeps something for. */
typedef struct gd_counted {
    gd_link *link;
    int served;
} gd_counted;

struct gd_plan {
    gd_plan *next;
    int pendings, holes, count;
    gd_sink sink;
    bool input_is_grad;
    gd_link *child; /* the run computes the input of this child, which is not a rule */
    gd_param_signature *params;
    gd_counted *counted; /* whose step counts a run raises */
    int counts, every_runs, run_room;
    gd_run_input *every_run;
    gd_exec_set set;      /* table k runs group k; room for count */
    gd_plan_group *group; /* the same */
    /* the counts of the optimizer, and of changes to leaves, at the last refresh; 0: never */
    uint64_t structure, form, numbers, slots, changes;
    bool fresh;  /* as of `slots`: there is state that was never written */
    bool shared; /* other ranks run other elements, see share.h */
    bool stores; /* there are scalars that its programs keep */
    bool
        in_order; /* its programs depend on axes or positions, and the memory of parameters is not in the order of their axes */
    gd_pending pending[GD_MAX_PENDING];
};

/* The plan for these arguments, made if there is none.  Borrowed from the optimizer; without one, end with gd__plans_free. */
gd_plan *gd__plan_for(const gd_run_args *args);
/* A plan for inspection, not for running: programs, members, passes and kernels.  New; NULL on failure. */
gd_plan *gd__plan_look(const gd_run_args *args);

#endif
