/* The context: what would be global elsewhere. */
#ifndef GD_BASE_CTX_H
#define GD_BASE_CTX_H

#include "base/object.h"
#include "base/rng.h"

#define GD_POOL_CLASSES 8 /* blocks of 64 << 0..7 bytes */
#define GD_MIN_MARKS    16
#define GD_LARGE_BLOCKS 32

typedef struct gd_thread_pool gd_thread_pool;
typedef struct gd_intern gd_intern;

/* Data of an upper layer in the context; freed in reverse order with the context. */
typedef struct gd_extension {
    const void *key; /* address of a constant that names the extension */
    void *data;
    void (*destroy)(gd_ctx *ctx, void *data);
    struct gd_extension *next;
} gd_extension;

typedef struct gd_pool_block {
    struct gd_pool_block *next;
} gd_pool_block;

typedef struct gd_large_block {
    void *block;
    size_t size;
} gd_large_block;

/* Where a scope begins. */
typedef struct gd_scope_mark {
    size_t count, used; /* objects, and bytes of the room */
} gd_scope_mark;

struct gd_ctx {
    gd_allocator allocator;
    gd_file_ops files;
    gd_status status;
    bool pool_on;
    bool compile;
    uint8_t grad_off; /* depth of gd_no_grad */
    int threads;
    uint64_t
        input_limit; /* bytes that one input of a program may have in memory; 0: a limit from the machine */
    gd_pool_block *pool[GD_POOL_CLASSES];
    struct {
        gd_large_block item[GD_LARGE_BLOCKS]; /* in the order of their release */
        int count;
        size_t bytes;
        size_t used, most; /* bytes of large blocks in use, and the most there were */
    } large; /* freed blocks with their pages: a fresh one would cost a page fault every 4 KiB */
    int64_t live;
    struct {
        gd_object **item;
        size_t count, capacity;
        gd_scope_mark *mark;
        size_t depth, mark_capacity;
        size_t lost;                             /* scopes begun without memory for their mark */
        gd_scope_mark first_marks[GD_MIN_MARKS]; /* so that an outermost scope is never lost */
        char *room; /* memory that dies with scopes, see gd__scope_room; NULL: nobody has asked yet */
        size_t used;
    } scope;
    uint64_t sequence; /* numbers graph nodes in the order they are made */
    uint64_t pass;     /* numbers graph traversals */
    uint64_t layouts;  /* counts changes of dtype, device and order of elements of a tensor's memory */
    uint64_t
        changes; /* counts changes of gradients on leaves, of which leaves want them, of the memory of tensors; from 1 */
    uint64_t
        structure; /* changes of the attributes of modules and of the memory of tensors; see trace/trace_internal.h */
    uint64_t storages;            /* tensors made during a recording: their serials */
    struct gd_recorder *recorder; /* the recorder of operators, see tensor/tensor_internal.h; NULL: none */
    gd_rng rng;
    gd_thread_pool *workers;
    void *cpu; /* the CPU gd_device, made on first use */
    gd_intern *names;
    gd_extension *extensions;
    const struct gd_own_lists *own_lists; /* lists have shards of their tensors, see optim/vector/layout.h */
    struct gd_ready *ready; /* called when the gradient of a leaf is complete, see autograd/ready.h */
    const char *isa;
    char *compiler;
    char *cache_dir;
    void (*warn)(void *, const char *);
    void *warn_user;
    void (*tell)(void *, const char *);
    void *tell_user;
    const gd_vocabulary *vocabulary; /* see base/spelling.h; NULL: as in C */
    const gd_observer *observer;     /* called by long operators; borrowed, may be NULL */
    int64_t warnings;
    uint64_t errors; /* recorded so far */
    char error[1024];
    char warning[512];
};

/* An error recorded since `before` was GD_OK is prefixed with `what`: "gather: index 7 ..." inside cross_entropy
 * becomes "cross_entropy: index 7 ...".  Out of memory is not prefixed. */
void gd__blame(gd_ctx *ctx, gd_status before, const char *what);

/* An argument is NULL: `what` names it ("optimizer: the parameter is NULL"). Returns the recorded error, which is the cause of the
 * NULL, else records ARGUMENT.  ctx may be NULL too. */
gd_status gd__null(gd_ctx *ctx, const char *what);

/* Results of a builder after an error: gd__none if the error is already recorded, gd__refuse records it. */
static inline void *gd__none(gd_status status)
{
    (void)status;
    return NULL;
}
#define gd__refuse(...) gd__none(gd_fail(__VA_ARGS__))

/* Memory.  Sizes are remembered by the caller; gd__free takes what gd__alloc was given.  A failed gd__alloc records
 * NOMEM.  gd__calloc zeroes. */
void *gd__alloc(gd_ctx *ctx, size_t size);
void *gd__calloc(gd_ctx *ctx, size_t size);
void *gd__realloc(gd_ctx *ctx, void *old, size_t old_size, size_t new_size);
void gd__free_block(gd_ctx *ctx, void *block, size_t size);
/* NULL is fine. */
static inline void gd__free(gd_ctx *owner, void *block, size_t size)
{
    if (block) gd__free_block(owner, block, size);
}
char *gd__strdup(gd_ctx *ctx, const char *text);
void gd__strfree(gd_ctx *ctx, char *text);

/* Memory for `need` bytes in an array, given as the address of its pointer, that has *bytes: if that is too little, it moves to a block
 * at least twice as large. */
bool gd__grow(gd_ctx *ctx, void *array, size_t *bytes, size_t need);
/* Memory for one more item in an array of `count` items with capacity *capacity. */
bool gd__reserve(gd_ctx *ctx, void *array, int count, int *capacity, size_t item);

/* count * size, or NULL with OVERFLOW recorded. */
void *gd__alloc_array(gd_ctx *ctx, size_t count, size_t size);

/* Small memory of the innermost scope, a multiple of 16 like all addresses of it, without an object: *out is NULL if there is none of
 * it, and an object must hold the memory.  False: NOMEM, recorded. */
#define GD_SCOPE_ROOM 8192
bool gd__scope_room(gd_ctx *ctx, size_t bytes, void **out);

/* One copy of each string a context has seen: equal names are equal pointers.  NULL on no memory. */
const char *gd__intern(gd_ctx *ctx, const char *text, size_t length);

/* Finds an upper layer's block, or makes it with `make` (NULL on failure, error recorded). */
void *gd__extension(gd_ctx *ctx, const void *key, void *(*make)(gd_ctx *), void (*destroy)(gd_ctx *, void *));
void *gd__extension_find(gd_ctx *ctx, const void *key);

/* Runs fn(arg, i) for every i < count on the context's threads and the caller; returns when all are done. */
void gd__parallel(gd_ctx *ctx, int64_t count, void (*fn)(void *arg, int64_t index), void *arg);
/* The same of a few microseconds of work: threads that are awake help, but none is woken, which takes longer. */
void gd__parallel_light(gd_ctx *ctx, int64_t count, void (*fn)(void *arg, int64_t index), void *arg);

/* Ends the threads; gd__parallel starts them when there is work. */
void gd__threads_stop(gd_ctx *ctx);

/* The default tables. */
void *gd__system_alloc(void *user, void *old, size_t old_size, size_t new_size);
extern const gd_file_ops gd__posix_files;

#endif
