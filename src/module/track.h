/* Which attributes a computation read, so that a memoised value is computed again only when one of them has changed.
 *
 * While a virtual tensor is computed a tracker is on the registry's stack.  Every read of an attribute through the
 * module functions is noted in all trackers on the stack, so a virtual tensor that reads a second one depends on the reads of
 * that one. */
#ifndef GD_MODULE_TRACK_H
#define GD_MODULE_TRACK_H

#include "base/ctx.h"
#include "gradus/module.h"

typedef struct gd_weak gd_weak;

/* One attribute as it was when it was read. */
typedef struct gd_dependency {
    gd_weak *module;
    const char *name; /* interned; "": which attributes it has and what they are */
    uint64_t stamp;   /* of the assignment; 0: there was no such attribute */
    uint32_t version; /* of a tensor's storage */
    bool wants_grad;  /* did the tensor? */
} gd_dependency;

typedef struct gd_dependencies {
    gd_dependency *item;
    int count, capacity;
} gd_dependencies;

typedef struct gd_tracker {
    struct gd_tracker *outer;
    const gd_virtual *computing;
    bool remembers; /* is this for a memoised value? */
    bool too_wide;  /* something changed while it was computed */
    bool failed;    /* no memory to note a read */
    gd_dependencies read;
} gd_tracker;

void gd__tracker_push(gd_ctx *ctx, gd_tracker *tracker);
void gd__tracker_pop(gd_ctx *ctx, gd_tracker *tracker);

void gd__note_read(gd_module *module, const char *name, size_t length);
/* Notes a read of the list of attributes of a module; the same with all tensors of a module and its children. */
void gd__note_names(gd_module *module);
void gd__note_tree(gd_module *root);
/* Notes again what a memoised value read, for the trackers around it.  NOMEM. */
gd_status gd__note_again(gd_ctx *ctx, const gd_dependencies *read);

/* Is every attribute as it was? */
bool gd__unchanged(const gd_dependencies *read);
void gd__dependencies_free(gd_ctx *ctx, gd_dependencies *read);

/* Can gradients still be computed through t?  False when a backward pass has used up a part of its history (or, to
 * bound the cost, when the history is very large). */
bool gd__history_alive(gd_ctx *ctx, const gd_tensor *t);

#endif
