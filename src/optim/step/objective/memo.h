/* Evaluations that may be asked for again, for objectives that are functions of the parameters alone. */
#ifndef GD_OPTIM_STEP_MEMO_H
#define GD_OPTIM_STEP_MEMO_H

#include "optim/step/optimizer.h"

typedef struct gd_memo gd_memo;

/* Values known at an earlier point of the parameters. */
typedef struct gd_point {
    gd_tensor **copy;     /* what they were; owned, as is all below */
    uint32_t *version;    /* of their storages then: graphs made there are checked against these */
    gd_tensor *loss;      /* without history; NULL: nothing is known */
    gd_tensor **grad;     /* without history; entries NULL: not known */
    gd_tensor *graph;     /* what the objective's loss returned, with its history; NULL: not kept */
    gd_tensor *residuals; /* the same of its residuals, if they are a different function */
    gd_tensor
        *constraint[2]; /* equal and below, without history; NULL: there are none, or nothing is known */
    gd_tensor *constraint_graph[2]; /* the same with their history; NULL: not kept */
    bool constraints;               /* are those known? */
    double value;                   /* of the loss */
    int64_t step;                   /* of the memo, when it was first known */
} gd_point;

/* For these parameters, from a step of the optimizer on.  New; NULL on no memory. */
gd_memo *gd__memo_new(gd_ctx *ctx, gd_tensor *const *params, int count, int64_t step);
void gd__memo_free(gd_memo *memo); /* NULL is fine */
/* Of a step; NULL where there is none, or not for these parameters. */
gd_memo *gd__memo_of(const gd_var *var);
bool gd__memo_is_for(const gd_memo *memo, const gd_var *var); /* these parameters? */
/* What is known for the parameters as they are, or NULL.  They count as unchanged since then: their versions are set back,
 * so that graphs made there serve again. */
gd_point *gd__memo_find(gd_memo *memo);
/* The same, with the versions as they are: for a memo beside which something else may keep graphs. */
gd_point *gd__memo_look(gd_memo *memo);
/* A point for the parameters as they are, where nothing is known yet; it takes the place of one that hardly serves again.
 * NULL where there is no memory: then it is not remembered. */
gd_point *gd__memo_place(gd_memo *memo);
/* Remembers an evaluation; grads: NULL, or all of them.  On no memory nothing is known there. */
void gd__memo_keep(gd_memo *memo, gd_point *point, gd_tensor *loss, gd_tensor *const *grads);
/* Remembers constraints with their history; either may be NULL.  On no memory they are not known there. */
void gd__memo_keep_constraints(gd_memo *memo, gd_point *point, gd_tensor *const *constraint);
bool gd__memo_has_gradient(const gd_memo *memo, const gd_point *point);
void gd__memo_drop_graphs(gd_point *point);
/* A gradient was asked for here (graph: with its history, or residuals with theirs): the first time in a step that is where
 * the step begins. */
void gd__memo_note(gd_memo *memo, const gd_point *point, const gd_var *var, bool graph);
/* Has anything asked the objective for a gradient? */
bool gd__memo_met_gradients(const gd_memo *memo);
/* Will the graph of an evaluation be asked for again?  After a value alone it will if the point is accepted, in a chain that
 * used gradients in this step or the one before; after a gradient in a chain that uses their graphs. */
bool gd__memo_wants_graph(const gd_memo *memo, const gd_var *var, bool gradient);
/* A value is wanted at a new point, and no graph can be kept: should its gradient be computed too?  Yes for the first trial
 * of a step, while first trials are accepted: the next step begins there, with that gradient. */
bool gd__memo_ahead(gd_memo *memo, const gd_var *var);
/* A step is about to be called where the parameters are now. */
void gd__memo_arrive(gd_memo *memo);
/* Will the step after this one begin with an evaluation where this one ends?  It will if this one began with one where it was
 * called: not where a link moves the parameters first. */
bool gd__memo_serves(const gd_memo *memo, int64_t step);

#endif
