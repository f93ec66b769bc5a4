/* Evaluations that are recorded once and replayed: recordings by kind of evaluation and layout of the inputs. */
#ifndef GD_TRACE_TRACE_INTERNAL_H
#define GD_TRACE_TRACE_INTERNAL_H

#include "gradus/trace.h"

#include <stdatomic.h>

/* One evaluation, with operators, in the innermost scope: fills the outputs, new. */
typedef gd_status (*gd_trace_body)(void *user, gd_tensor *const *inputs, int count, gd_tensor **outputs);

typedef struct gd_evaluation {
    const char *name; /* "gradient" */
    int kind;         /* does not match recordings of other kinds */
    gd_trace_body body;
    void *user;
    int outputs;
    bool brief;  /* the caller takes the fast path, if there is one */
    bool direct; /* the body also reads the inputs in place, as an objective reads its parameters */
} gd_evaluation;

typedef struct gd_trace_set {
    gd_ctx *ctx;
    bool check, off;
    bool shares; /* recordings of a set of a different context: nothing is evaluated or recorded */
    gd_trace_compile compile;
    int most, count, room, depth;
    struct gd_trace_entry **entry; /* the most recently used first */
    struct gd_replay *retired;     /* retired, but replayed by other threads */
    struct gd_shortcut *brief;     /* the fast path of that one, if it has one and nothing is compared */
} gd_trace_set;

/* check and off by GRADUS_TRACE too. */
void gd__trace_set_init(gd_trace_set *set, gd_ctx *ctx, int most, bool check);
void gd__trace_set_free(gd_trace_set *set);
/* Replays, or evaluates and records.  The outputs are borrowed until the next call for the set; NULL on failure. */
gd_tensor *const *gd__trace_call(gd_trace_set *set, const gd_evaluation *what, gd_tensor *const *inputs,
                                 int count);

/* The same for an evaluation of that kind that is `direct`, where its replay is one tape and nothing but numbers has changed since; NULL: not
 * now. */
gd_tensor *const *gd__trace_briefly(gd_trace_set *set, int kind, gd_tensor *const *inputs, int count);

/* ---- traced functions ---- */

struct gd_traced {
    gd_function function; /* NULL: it replays the recordings of a different one */
    void *user;
    int by; /* derivatives with respect to so many inputs; 0: all */
    gd_trace_set set;
    gd_traced *shares;    /* the one whose recordings it replays, or NULL */
    atomic_int shared_by; /* so many replay its own, in any thread */
};

/* An evaluation of a function with so many inputs, vectors included. */
gd_evaluation gd__traced_evaluation(gd_traced *t, gd_traced_kind kind, int count);
/* The number of inputs with derivatives. */
static inline int gd__traced_by(const gd_traced *t, int inputs) { return t->by ? t->by : inputs; }
/* Do these inputs fit the function?  False with the error recorded. */
bool gd__traced_usable(const gd_traced *t, const char *what, gd_tensor *const *inputs, int count);

#endif
