/* The head of every counted object, and the scope stack.
 *
 *   ctx->scope.item:   [ t0 t1 t2 | t3 t4 | t5 ]      marks: 0, 3, 5
 *                        outer      inner   innermost
 *
 * A scope owns one reference of each of its objects.  An object knows its slot (index + 1, 0 = owned by the caller), so
 * releasing it early empties the slot.  Kept objects slide down into the scope below when their scope ends.  An object
 * that was given to scopes more than once (a function that returned its argument) has several slots: it knows the highest,
 * and how many more there are below.  That a slot is kept is the lowest bit of its pointer. */
#ifndef GD_BASE_OBJECT_H
#define GD_BASE_OBJECT_H

#include "gradus/base.h"

typedef struct gd_class gd_class;

/* What the core needs to free an object; its class (dispatch) belongs to a higher layer. */
typedef struct gd_object_type {
    const char *name;
    void (*destroy)(void *object); /* frees the object itself too */
} gd_object_type;

typedef struct gd_object {
    const gd_object_type *type;
    gd_ctx *ctx;
    const gd_class *cls; /* runtime class for dispatch, NULL = the class of the type */
    uint32_t refs;
    uint32_t slot;     /* 1 + index in the scope stack; 0: owned by the caller */
    uint32_t retained; /* references the user took with gd_retain and has not given back */
    uint32_t more;     /* slots besides the highest */
} gd_object;

/* Initialises an object with one reference, owned by the innermost scope if there is one, else by the caller.
 * On failure (no memory for the slot) nothing is owned and the caller frees the block itself. */
gd_status gd__object_init(gd_ctx *ctx, void *object, const gd_object_type *type);

/* The same, owned by the caller whatever the scope: for references held by the library. */
void gd__object_init_owned(gd_ctx *ctx, void *object, const gd_object_type *type);

/* Gives a reference that the caller owns to the innermost scope: what was owned is now *new*.  If there is no scope it
 * stays the caller's.  On failure (no memory for the slot) the reference is released.  NULL is fine. */
gd_status gd__scope_take(void *object);

static inline void gd__retain(void *object) /* NULL is fine, also below */
{
    if (object) ((gd_object *)object)->refs++;
}
void gd__destroy(gd_object *object); /* which has no references left */
static inline void gd__release(void *object)
{
    if (object && !--((gd_object *)object)->refs) gd__destroy(object);
}

/* The same for references of the user.  A release beyond what was retained gives up the first reference, the scope's if
 * a scope has it, so an object may be released early although others (a graph) still hold it. */
void gd__user_retain(void *object);
void gd__user_release(void *object);

/* Moves an object of the innermost scope one scope out; others stay where they are.  NULL is fine. */
void gd__keep(void *object);

/* Ends the innermost scope and moves an object of it one scope out; returns the object.  NULL is fine. */
void *gd__scope_leave(gd_ctx *ctx, void *object);

/* A scope in which nothing is recorded for gradients. */
void gd__aside_begin(gd_ctx *ctx);
void gd__aside_end(gd_ctx *ctx);
/* Ends it; the object moves out as in gd__scope_leave. */
void *gd__aside_leave(gd_ctx *ctx, void *object);

/* Gives the caller its own reference: the one of the innermost scope, or a new one.  NULL is fine. */
void gd__own(void *object);
/* The same for a new object: outside every scope its first reference belongs to the caller already. */
void gd__own_made(void *object);

#endif
