/* gradus/base.h: the context that everything lives in, errors, memory, scopes.
 *
 *     gd_ctx *ctx = gd_ctx_new(NULL);
 *     gd_tensor *x = gd_ones(ctx, GD_F64, 1, (int64_t[]){3});
 *     if (gd_error(ctx)) puts(gd_error_text(ctx));
 *     gd_release(x);
 *     gd_ctx_free(ctx);
 *
 * A context is for one thread at a time, which needs GD_STEP_STACK bytes of stack for steps (192 KB, version.h).  Different
 * contexts run in parallel.  The library never prints, aborts or exits.
 * After fork() the child may use the context of the thread that forked, if that thread was not inside one of the context's
 * operations; worker threads are restarted when they are needed.  The child cannot use the contexts of other threads, nor
 * memory on a GPU: stay on the CPU there, or fork before the first tensor on a GPU.
 * Every pointer may be NULL, so a program checks for errors once, at its end.  A function whose handle (its first argument)
 * is NULL does nothing and returns ARGUMENT, NULL, 0 or NAN, a negative gd_value, or false.  It records no error, as it has no
 * context; the error that made the handle NULL is still in the context.  If the handle is given, NULL for another required
 * argument is an error and recorded.  A function that fails while an error is recorded returns the status of that error.
 * Consumed arguments are consumed on failure too.
 *
 * Every comment states the ownership in one of three words:
 *   new       If the type has a gd_..._keep (tensors, modules, instances, lists), the object belongs to the innermost scope
 *             and is freed with it unless it is kept; outside every scope you release it.  Types without gd_..._keep
 *             (contexts, links, linear operators, optimizers, archives) are not in scopes: free them with gd_..._free or _release.
 *   borrowed  valid as long as its owner
 *   consumed  the function takes over your reference */
#ifndef GRADUS_BASE_H
#define GRADUS_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The compiler warns if a result is ignored, and checks arguments against a format. */
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

/* The result of a function that may fail: GD_OK, which is 0, or the reason. */
typedef enum gd_status {
#define GD_STATUS_ENUM(name, text) GD_##name,
    GD_STATUS_LIST(GD_STATUS_ENUM)
#undef GD_STATUS_ENUM
        GD_STATUS_COUNT
} gd_status;

/* The name of a status, such as "SHAPE".  Borrowed, static. */
const char *gd_status_name(gd_status status);

typedef struct gd_ctx
    gd_ctx; /* memory, threads, random numbers and the first error of all objects made in it */

/* Frees if new_size is 0, allocates if old is NULL, otherwise resizes.  Memory must be aligned to 64 bytes.  Returns NULL
 * if there is no memory (never when freeing).  old_size is the size with which `old` was allocated. */
typedef void *(*gd_alloc_fn)(void *user, void *old, size_t old_size, size_t new_size);

/* An allocator: the function and its `user` argument. */
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
                int64_t bytes); /* moves forward or back without reading; NULL: skipped bytes are read */
    void *user;
} gd_file_ops;

/* How errors and warnings write settings.  {max_steps} in the format of gd_fail and gd_warn is the member max_steps of a spec:
 * ".max_steps" for a program in C, "--steps" for a user of the shell. */
typedef struct gd_vocabulary {
    const char *before, *after;    /* around a name: "--" and "" */
    char join;                     /* in the place of each _ of a name: '-' */
    const char *const (*names)[2]; /* {"max_steps", "--steps"}: members written differently; ends with NULL */
} gd_vocabulary;

/* Options of a context.  Start from gd_options_default(). */
typedef struct gd_options {
    gd_allocator allocator;   /* fn NULL: the C library's */
    const gd_file_ops *files; /* NULL: POSIX; borrowed for the life of the context */
    int threads;              /* 0: GRADUS_THREADS or the number of cores.  Results never depend on it. */
    uint64_t seed;            /* of the context's generator */
    bool pool;    /* keep freed blocks for reuse (at most 512 MiB of large ones); off in sanitizer builds */
    bool compile; /* may run the system compiler for fused programs (an empty GRADUS_CC turns it off) */
    const char *compiler;  /* NULL: GRADUS_CC or "cc" */
    const char *cache_dir; /* NULL: GRADUS_CACHE, or a private folder under XDG_CACHE_HOME / HOME */
    const char *isa;       /* NULL: the best the CPU has; "base", "avx2", "avx512" for tests */
    void (*warn)(void *user, const char *text); /* called for every warning, or NULL */
    void *warn_user;
    void (*tell)(void *user, const char *text); /* called for text that links such as `print` show, or NULL */
    void *tell_user;
    const gd_vocabulary *vocabulary; /* NULL: as in C; borrowed for the life of the context */
} gd_options;

gd_options gd_options_default(void); /* the options of gd_ctx_new(NULL) */

/* Makes a context; NULL options are the defaults.  New.  NULL only if there is no memory. */
gd_ctx *gd_ctx_new(const gd_options *options);

/* Frees the context.  Every tensor and module made in it must be released before (gd_ctx_live counts them). */
void gd_ctx_free(gd_ctx *ctx);

/* Objects (tensors, modules, graphs) of this context that are still alive. */
int64_t gd_ctx_live(const gd_ctx *ctx);

/* Gives the memory that the context keeps for reuse back to the system.  Without this call it keeps at most 24 MiB, 1/16 of the
 * most that was in use at one time, or half of what is in use now, whichever is most, and never more than 512 MiB. */
void gd_ctx_trim(gd_ctx *ctx);

int gd_ctx_threads(const gd_ctx *ctx); /* number of threads it computes with, including the caller's */

/* The first error since the last gd_clear_error, GD_OK if none; the text names operator, axes and sizes. */
gd_status gd_error(const gd_ctx *ctx);
const char *gd_error_text(const gd_ctx *ctx);
void gd_clear_error(gd_ctx *ctx);

/* Records an error and returns `status`.  An error that is recorded already stays, and its status is returned.  User callbacks may
 * call it too.  {name} in the format is a setting, see gd_vocabulary. */
gd_status gd_fail(gd_ctx *ctx, gd_status status, const char *format, ...) GD_PRINTF(3, 4);

/* Warnings: records one; the text of the last one ("" if none); their number. */
void gd_warn(gd_ctx *ctx, const char *format, ...) GD_PRINTF(2, 3);
const char *gd_warning_text(const gd_ctx *ctx);
int64_t gd_warning_count(const gd_ctx *ctx);

/* Passes a message of at most 2000 characters to the context's `tell`, for links that show values. */
void gd_tell(gd_ctx *ctx, const char *format, ...) GD_PRINTF(2, 3);

/* Callbacks of a call that may take long.  Any member may be NULL.  All are called on the thread of that call, which borrows
 * the struct.
 *
 *   progress     how much is done: "data.csv", "MB", 12 of 80.  what NULL: the work has no name; total 0: unknown; loss NAN: none;
 *                unit NULL: this work has ended
 *   interrupted  called often; true ends the call with INTERRUPTED
 *   message      a remark for the user */
typedef struct gd_observer {
    void (*progress)(void *user, const char *what, const char *unit, int64_t done, int64_t total,
                     double loss);
    bool (*interrupted)(void *user);
    void (*message)(void *user, const char *text);
    void *user;
} gd_observer;

/* A long operator (ode in expressions) calls the observer's `interrupted` while it computes, on its thread.  Borrowed until a
 * different observer is set; NULL: none. */
void gd_ctx_observe(gd_ctx *ctx, const gd_observer *observer);

/* ---- objects and scopes ----
 * Tensors and modules are counted references.  Inside a scope, new objects belong to the scope and are freed with it, so
 * expressions need no frees.  gd_keep moves an object one scope out (to you, if there is no outer scope).  Your functions that
 * the library calls (losses, handlers, methods, links) run in a scope of the library. */

/* Each gd_scope_begin needs its gd_scope_end.  A failed begin (no memory) still counts as begun. */
void gd_scope_begin(gd_ctx *ctx);
void gd_scope_end(gd_ctx *ctx);

#ifdef __cplusplus
}
#endif
#endif
