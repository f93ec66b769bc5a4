/* gradus/base.h: the context that everything lives in, errors, memory, scopes.
 *
 *     gd_ctx *ctx = gd_ctx_new(NULL);
 *     gd_tensor *x = gd_ones(ctx, GD_F64, 1, (int64_t[]){3});
 *     if (gd_error(ctx)) puts(gd_error_text(ctx));
 *     gd_release(x);
 *     gd_ctx_free(ctx);
 *
 * One context a thread, which needs GD_STEP_STACK bytes of stack for steps (192 KB, version.h); distinct contexts run in
 * parallel.  Nothing in the library prints, aborts or exits.
 * After fork() the child may go on with the context of the thread that forked, if that thread was not inside one of the
 * context's operations; workers are started anew when they are needed.  Contexts of other threads are of no use in the child,
 * and what lies on a GPU does not survive: keep to the CPU there, or fork before the first tensor on a GPU.
 * NULL may be given wherever there is a pointer, so a program checks once, at its end.  A function whose own handle (the
 * first it takes) is NULL does nothing: a status is ARGUMENT, a handle NULL, a number 0 or NAN, a gd_value negative, a flag
 * false.  It has no context to record that in; the context keeps the first error, which says why the handle was NULL.  With
 * a handle, NULL in another place where something is needed is an error that is recorded.  A verb that fails while the context
 * keeps an error returns the status of that one.  What is consumed is taken also then.
 *
 * Every comment says who owns a thing in one of three words:
 *   new       A tensor, module, instance, list or whatever else has a gd_..._keep belongs to the innermost scope and dies
 *             with it unless it is kept; outside every scope it is yours to release.  What has no gd_..._keep (a context,
 *             link, linear operator, optimizer, archive) no scope knows: you end it with its gd_..._free or _release.
 *   borrowed  valid while its owner is
 *   consumed  taken from you */
#ifndef GRADUS_BASE_H
#define GRADUS_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The compiler warns where a result is not looked at, and checks arguments against a format. */
#if defined(__GNUC__)
#define GD_NODISCARD    __attribute__((warn_unused_result))
#define GD_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define GD_NODISCARD
#define GD_PRINTF(f, a)
#endif

/* Every status with its short text: the enum, gd_status_name and the tests come from this list. */
#define GD_STATUS_LIST(X)                                \
    X(OK, "ok")                                          \
    X(NOMEM, "out of memory")                            \
    X(ARGUMENT, "bad argument")                          \
    X(SHAPE, "shapes do not fit")                        \
    X(DTYPE, "wrong dtype")                              \
    X(AXIS, "no such axis")                              \
    X(LABEL, "labels do not fit")                        \
    X(INDEX, "index out of range")                       \
    X(VALUE, "value out of range")                       \
    X(OVERFLOW, "size overflows")                        \
    X(SINGULAR, "matrix is singular or not definite")    \
    X(GRAPH, "gradient graph misused")                   \
    X(DEVICE, "device not available")                    \
    X(TYPE, "wrong type")                                \
    X(ATTRIBUTE, "no such attribute")                    \
    X(NOT_IMPLEMENTED, "not implemented for this class") \
    X(CYCLE, "cycle")                                    \
    X(IO, "input or output failed")                      \
    X(FORMAT, "malformed data")                          \
    X(MISMATCH, "state does not match")                  \
    X(PARSE, "cannot parse")                             \
    X(STATE, "not possible in this state")               \
    X(CALLBACK, "a user function failed")                \
    X(INTERRUPTED, "interrupted")                        \
    X(INTERNAL, "internal error")

/* What a function that may fail returns: GD_OK, which is 0, or why it failed. */
typedef enum gd_status {
#define GD_STATUS_ENUM(name, text) GD_##name,
    GD_STATUS_LIST(GD_STATUS_ENUM)
#undef GD_STATUS_ENUM
        GD_STATUS_COUNT
} gd_status;

/* The name of a status, such as "SHAPE".  Borrowed, static. */
const char *gd_status_name(gd_status status);

typedef struct gd_ctx gd_ctx; /* what everything lives in: memory, threads, random numbers, the first error */

/* The one allocator contract.  new_size 0 frees; old NULL allocates; otherwise resizes.  Memory must be aligned to 64
 * bytes.  Returns NULL when there is no memory (never when freeing).  old_size is what was asked for `old`. */
typedef void *(*gd_alloc_fn)(void *user, void *old, size_t old_size, size_t new_size);

/* An allocator: the function, and what it is given as `user`. */
typedef struct gd_allocator {
    gd_alloc_fn fn;
    void *user;
} gd_allocator;

/* File operations as a table, so that tests can make the k-th one fail.  Each returns -1 with errno set on failure.
 * `read` and `write` may be partial as in POSIX. */
typedef struct gd_file_ops {
    int (*open)(void *user, const char *path, int flags, unsigned mode);
    int64_t (*read)(void *user, int fd, void *data, size_t size);
    int64_t (*write)(void *user, int fd, const void *data, size_t size);
    int64_t (*size)(void *user, int fd);
    int (*sync)(void *user, int fd);
    int (*close)(void *user, int fd);
    int (*rename)(void *user, const char *from, const char *to);
    int (*unlink)(void *user, const char *path);
    int (*skip)(void *user, int fd,
                int64_t bytes); /* moves on without reading, or back; NULL: what is passed over is read */
    void *user;
} gd_file_ops;

/* What a context is made with.  Start from gd_options_default(). */
typedef struct gd_options {
    gd_allocator allocator;   /* fn NULL: the C library's */
    const gd_file_ops *files; /* NULL: POSIX; borrowed for the life of the context */
    int threads;              /* 0: GRADUS_THREADS or the number of cores.  Results never depend on it. */
    uint64_t seed;            /* of the context's generator */
    bool pool;    /* keep freed blocks for reuse (at most 512 MiB of large ones); off in sanitizer builds */
    bool compile; /* may the system compiler be run for fused programs? (GRADUS_CC= empty turns it off) */
    const char *compiler;  /* NULL: GRADUS_CC or "cc" */
    const char *cache_dir; /* NULL: GRADUS_CACHE, or a private folder under XDG_CACHE_HOME / HOME */
    const char *isa;       /* NULL: the best the CPU has; "base", "avx2", "avx512" for tests */
    void (*warn)(void *user, const char *text); /* called for every warning, or NULL */
    void *warn_user;
    void (*tell)(void *user, const char *text); /* called for what links are asked to print, or NULL */
    void *tell_user;
} gd_options;

gd_options gd_options_default(void); /* what gd_ctx_new(NULL) takes */

/* Makes a context; NULL options are the defaults.  New.  NULL only when there is no memory. */
gd_ctx *gd_ctx_new(const gd_options *options);

/* Frees the context.  Every tensor and module made in it must be released before (gd_ctx_live counts them). */
void gd_ctx_free(gd_ctx *ctx);

/* Objects (tensors, modules, graphs) of this context that are still alive. */
int64_t gd_ctx_live(const gd_ctx *ctx);

int gd_ctx_threads(const gd_ctx *ctx); /* how many it computes with, the calling one included */

/* The first error since the last gd_clear_error, GD_OK if none; the text names operator, axes and sizes. */
gd_status gd_error(const gd_ctx *ctx);
const char *gd_error_text(const gd_ctx *ctx);
void gd_clear_error(gd_ctx *ctx);

/* Records an error and returns `status`; where one is recorded already, that stays, and its status is returned.  For user callbacks
 * too. */
gd_status gd_fail(gd_ctx *ctx, gd_status status, const char *format, ...) GD_PRINTF(3, 4);

/* Warnings: the text of the last one ("" if none) and how many there were. */
void gd_warn(gd_ctx *ctx, const char *format, ...) GD_PRINTF(2, 3);
const char *gd_warning_text(const gd_ctx *ctx);
int64_t gd_warning_count(const gd_ctx *ctx);

/* Hands a message of at most 2000 characters to the context's `tell`: for links that exist to show something. */
void gd_tell(gd_ctx *ctx, const char *format, ...) GD_PRINTF(2, 3);

/* How a call that may take long talks to its caller.  Any member may be NULL.  All are called on the thread of that call, which
 * borrows the struct.
 *
 *   progress     how far the work is: "data.csv", "MB", 12 of 80.  what NULL: the work has no name; total 0: not known; loss NAN:
 *                there is none; unit NULL: this work has ended
 *   interrupted  asked often; true ends the call with INTERRUPTED
 *   message      a remark for the person who waits */
typedef struct gd_observer {
    void (*progress)(void *user, const char *what, const char *unit, int64_t done, int64_t total,
                     double loss);
    bool (*interrupted)(void *user);
    void (*message)(void *user, const char *text);
    void *user;
} gd_observer;

/* An operator that works long (ode in expressions) asks `interrupted` of the observer while it computes, on the thread that does.
 * Borrowed until a different one takes its place; NULL: none. */
void gd_ctx_observe(gd_ctx *ctx, const gd_observer *observer);

/* ---- objects and scopes ----
 * Tensors and modules are counted references.  Inside a scope, what is new belongs to the scope and dies with it, so
 * expressions need no frees.  gd_keep moves an object one scope out (to you, where there is no outer scope).  Functions of
 * yours that the library calls (losses, handlers, methods, links) run in a scope of the library's. */

/* Each gd_scope_begin needs its gd_scope_end.  A failed begin (no memory) still counts as begun. */
void gd_scope_begin(gd_ctx *ctx);
void gd_scope_end(gd_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
