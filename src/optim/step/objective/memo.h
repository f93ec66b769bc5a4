/* Evaluations that may be reused, for objectives that are functions of the parameters alone. */
#ifndef GD_OPTIM_STEP_MEMO_H
#define GD_OPTIM_STEP_MEMO_H

#include "optim/step/optimizer.h"

typedef struct gd_memo gd_memo;

/* Values known at an earlier point of the parameters. */
typedef struct gd_point {
    gd_tensor **copy;     /* their values; owned, like all below */
    uint32_t *version;    /* versions of their storages then: graphs made there are checked against these */
    gd_tensor *loss;      /* without graph; NULL: not known */
    gd_tensor **grad;     /* without history; entries NULL: not known */
    gd_tensor *graph;     /* the result of the objective's loss, with its graph; NULL: not kept */
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
/* Of a step; NULL if there is none, or not for these parameters. */
gd_memo *gd__memo_of(const gd_var *var);
bool gd__memo_is_for(const gd_memo *memo, const gd_var *var); /* these parameters? */
/* The record for the present parameters, or NULL. They count as unchanged since then: their versions are set back, so that graphs
 * made there are valid again. */
gd_point *gd__memo_find(gd_memo *memo);
/* The same, with the versions as they are: if graphs may be kept outside the memo. */
gd_point *gd__memo_look(gd_memo *memo);
/* A new record for the present parameters; it replaces one that will hardly be used again.
 * NULL if there is no memory: then it is not remembered. */
gd_point *gd__memo_place(gd_memo *memo);
/* Remembers an evaluation; grads: NULL, or all of them.  On no memory nothing is known there. */
void gd__memo_keep(gd_memo *memo, gd_point *point, gd_tensor *loss, gd_tensor *const *grads);
/* Remembers constraints with their history; either may be NULL.  On no memory they are not known there. */
void gd__memo_keep_constraints(gd_memo *memo, gd_point *point, gd_tensor *const *constraint);
bool gd__memo_has_gradient(const gd_memo *memo, const gd_point *point);
void gd__memo_drop_graphs(gd_point *point);
/* A gradient was requested here (graph: with its graph, or residuals with theirs): the first request in a step is at its start. */
void gd__memo_note(gd_memo *memo, const gd_point *point, const gd_var *var, bool graph);
/* Was a gradient of the objective requested? */
bool gd__memo_met_gradients(const gd_memo *memo);
/* Will the graph of an evaluation be needed again? After a value alone, yes if the point is accepted, in a chain that used gradients
 * in this step or the previous one; after a gradient, in a chain that uses their graphs. */
bool gd__memo_wants_graph(const gd_memo *memo, const gd_var *var, bool gradient);
/* A value is needed at a new point, and no graph can be kept: should its gradient be computed too?  Yes for the first trial
 * of a step, while first trials are accepted: the next step begins there, with that gradient. */
bool gd__memo_ahead(gd_memo *memo, const gd_var *var);
/* A step is about to start at the present parameters. */
void gd__memo_arrive(gd_memo *memo);
/* Will the next step begin with an evaluation at the end of this one? Yes if this one began with one at its start: not if a link
 * moves the parameters first. */
bool gd__memo_serves(const gd_memo *memo, int64_t step);

#endif
