/* One evaluation of one shape of inputs. */
#ifndef GD_TRACE_ENTRY_H
#define GD_TRACE_ENTRY_H

#include "trace/replay.h"
#include "trace/trace_internal.h"

typedef enum gd_trace_state {
    GD_TRACE_NEW,      /* it never ran */
    GD_TRACE_SEEN,     /* it ran: one-time objects exist */
    GD_TRACE_RECORDED, /* it was recorded once */
    GD_TRACE_REPLAYS,
    GD_TRACE_REFUSED
} gd_trace_state;

/* The layout of an input in a recording. */
typedef struct gd_signature {
    const gd_device *device;
    gd_dtype dtype;
    int ndim;
    int shares;     /* the first input in the same storage: itself, or an earlier one */
    int64_t offset; /* from that one's first element, in bytes */
    int64_t size[GD_MAX_DIMS], stride[GD_MAX_DIMS];
    gd_axes *axes; /* owned */
} gd_signature;

typedef struct gd_trace_entry {
    gd_ctx *ctx;
    gd_evaluation what;
    gd_trace_compile compile;
    gd_trace_state state;
    int inputs;
    gd_signature *signature;
    gd_short_input *brief;  /* of each input */
    gd_recording *recorded; /* the first of two */
    gd_replay *replay;
    gd_replay **retired; /* of the set: list of retired replays that other threads use */
    gd_tensor **last;    /* results of the function itself, owned until the next call */
    uint64_t structure;  /* of the context, when it was recorded */
    int restarts;        /* recordings dropped before use, because modules or memory had changed */
    char reason[240];    /* why it is refused */
} gd_trace_entry;

gd_trace_entry *gd__trace_entry_new(gd_ctx *ctx, const gd_evaluation *what, gd_tensor *const *inputs,
                                    int count);
void gd__trace_entry_free(gd_trace_entry *e);
/* The same for a traced function of a different context that only replays.  NULL: no memory. */
gd_trace_entry *gd__trace_entry_share(const gd_trace_entry *from, gd_ctx *ctx, void *user);
/* Is it for this evaluation and inputs like these? */
bool gd__trace_fits(const gd_trace_entry *e, const gd_evaluation *what, gd_tensor *const *inputs, int count);
/* Replays, or evaluates and records.  The outputs are borrowed until the next call; NULL on failure. */
gd_tensor *const *gd__trace_run(gd_trace_entry *e, gd_tensor *const *inputs, bool check);
/* The fast path of a function's replay, after a successful one; NULL: none. */
gd_shortcut *gd__trace_shortcut(gd_trace_entry *e);
/* A paragraph about it; returns its length, as snprintf. */
int gd__trace_describe(const gd_trace_entry *e, char *out, size_t size);

#endif
