/* Lists of tensors seen as one long vector, for line searches and quasi-Newton links.
 *
 *   tensors   [  a  ][ b ][      c      ]       a list, in the order of the parameters
 *   vector    [--------------------------]      the same numbers in one tensor: a row of a history, a column of a matrix
 *   spans     [---][-][--][----][----][--]      pieces of one tensor and one task
 *
 * If all tensors are contiguous f32 or f64 on the CPU the work is plain loops over spans, on all threads, with the
 * same bits on any number of them; elsewhere it is operators. */
#ifndef GD_OPTIM_VECTOR_LAYOUT_H
#define GD_OPTIM_VECTOR_LAYOUT_H

#include "gradus/link.h"
#include "optim/other_ranks.h"
#include "tensor/tensor_internal.h"

#define GD_PIECE_BYTES 16384 /* of a vector: several spans stay in cache while a history is read */

/* Bounds of elements of the dtype of a loop; a step of 0: one number for all, else 1. */
typedef struct gd_edges {
    const void *low, *high;
    int64_t low_step, high_step;
} gd_edges;

typedef struct gd_vector_loops {
    double (*dot)(const void *x, const void *y, int64_t n);
    double (*apart)(const void *x, const void *y, int64_t n);   /* sum of squares of x - y */
    double (*sum)(const void *x, const void *y, int64_t n);     /* of magnitudes; y is not used */
    double (*largest)(const void *x, const void *y, int64_t n); /* magnitude; NaN wins; y is not used */
    /* of every row with x and with y */
    void (*dots)(const void *const *rows, int count, const void *x, const void *y, int64_t n, double *out);
    void (*move)(void *o, const void *x, const void *u, double a, int64_t n); /* o = x - a u */
    void (*scale)(void *o, const void *x, double a, int64_t n);
    void (*free_part)(void *o, const void *x, const uint8_t *side,
                      int64_t n); /* o = x, 0 where side is not */
    /* s = p - before_p, y = g - before_g, then before = now; most: the largest magnitudes of s and y; far: NULL, or where s
     * and y go too, not through the caches: addresses that are a multiple of 64 */
    void (*pair)(void *s, void *y, void *before_p, void *before_g, const void *p, const void *g, int64_t n,
                 double most[2], void *const *far);
    /* o = c x + sum of coef row; past: o does not go into the caches */
    void (*combine)(void *o, const void *x, double c, const void *const *rows, const double *coef, int count,
                    int64_t n, bool past);
    /* is an element below its low bound or above its high one?  NaN is neither */
    bool (*outside)(const void *x, const gd_edges *edges, int64_t n);
    /* o = x - a u from the first element on, as long as that is further than far (|x| + |o|) from the bounds: returns the number of elements */
    int64_t (*move_inside)(void *o, const void *x, const void *u, double a, double far, const gd_edges *edges,
                           int64_t n);
    void (*rank_two)(void *row, double s_row, double z_row, const void *s, const void *z, const double c[3],
                     int64_t n);
} gd_vector_loops;

/* The loops for a context's instruction set. */
const gd_vector_loops *gd__loops_for(const gd_ctx *ctx, gd_dtype dtype);
/* For f32 and f64, one table per instruction set. */
extern const gd_vector_loops gd__vector_loops_base[2], gd__vector_loops_avx2[2], gd__vector_loops_avx512[2];

/* A piece of the vector. */
typedef struct gd_span {
    int tensor;
    int64_t begin; /* in the tensor */
    int64_t at;    /* in the vector */
    int64_t size;
} gd_span;

/* While functions of a link run over this process's shards of every tensor of their lists (gd_ctx.own_lists): sums over a list are those of
 * all processes, span by span as in one process. Shards begin at spans of the whole. */
typedef struct gd_own_lists {
    int count; /* tensors of every list */
    int64_t *
        first; /* [count] the first span of each that is this process's, among the spans of the whole; owned by its maker */
    int64_t spans; /* of the whole */
    const gd_ranks *ranks;
    gd_optimizer *optimizer;
} gd_own_lists;

#define GD_SPAN 16384 /* elements of a task; part of the results: sums are added span by span */

/* The layout of a list of tensors in the vector.  plain: all of them contiguous, of one dtype f32 or f64, on the CPU. */
typedef struct gd_layout {
    gd_ctx *ctx;
    gd_tensor *const *like;
    int count;
    int64_t total;
    bool plain;
    gd_dtype dtype; /* of the vector: the widest of the list */
    gd_device *device;
    size_t item;
    const gd_vector_loops *loops; /* for vectors of the layout; NULL: not on the CPU */
    const gd_own_lists *own;      /* tensors are shards of others; NULL: they are whole */
    gd_span *span;
    int spans;
    gd_span first[4]; /* span points here when there are few */
} gd_layout;

/* Bytes of an element of the vector of a list, and how many there are. */
int64_t gd__vector_item(gd_tensor *const *like, int count, int64_t *total);
GD_NODISCARD gd_status gd__layout_init(gd_layout *layout, gd_ctx *ctx, gd_tensor *const *like, int count);
gd_status gd__not_own(gd_ctx *ctx); /* a sum over a list that cannot be summed over all processes */
void gd__layout_free(gd_layout *layout);
/* True when the list can be used with the plain loops of this layout. */
static inline bool gd__plain_tensor(const gd_layout *l, const gd_tensor *t)
{
    return t->dtype == l->dtype && t->storage->device == l->device && (t->rows || gd__contiguous(t));
}
static inline bool gd__plain(const gd_layout *l, gd_tensor *const *list)
{
    bool plain = l->plain;
    for (int i = 0; i < l->count && plain; i++)
        plain = gd__plain_tensor(l, list[i]) && list[i]->numel == l->like[i]->numel;
    return plain;
}
/* Runs fn for every span, on all threads when the vector is long. */
void gd__each_span(const gd_layout *layout, void (*fn)(void *arg, const gd_span *span, int64_t index),
                   void *arg);

/* The elements of a span in a list, and in a vector. */
static inline void *gd__in_list(const gd_layout *l, gd_tensor *const *list, const gd_span *s)
{
    return list[s->tensor]->data + (size_t)s->begin * l->item;
}
static inline void *gd__in_vector(const gd_layout *l, void *vector, const gd_span *s)
{
    return (char *)vector + (size_t)s->at * l->item;
}

/* ---- lists ---- */

GD_NODISCARD gd_status gd__list_dot(const gd_layout *l, gd_tensor *const *x, gd_tensor *const *y,
                                    double *out);
/* The square of the 2-norm of x - y. */
GD_NODISCARD gd_status gd__list_apart(const gd_layout *l, gd_tensor *const *x, gd_tensor *const *y,
                                      double *out);
GD_NODISCARD gd_status gd__list_sum(const gd_layout *l, gd_tensor *const *x, double *out); /* of magnitudes */
GD_NODISCARD gd_status gd__list_largest(const gd_layout *l, gd_tensor *const *x, double *out); /* magnitude */
/* o = x - a u, into tensors that are there. */
GD_NODISCARD gd_status gd__list_move(const gd_layout *l, gd_tensor *const *o, gd_tensor *const *x,
                                     gd_tensor *const *u, double a);
/* out[i] = a x[i]: new tensors of the current scope. */
GD_NODISCARD gd_status gd__list_scaled(const gd_layout *l, gd_tensor *const *x, double a, gd_tensor **out);
/* out[i] = c x[i] + d y[i]: new tensors of the current scope. */
GD_NODISCARD gd_status gd__list_combined(const gd_layout *l, gd_tensor *const *x, double c,
                                         gd_tensor *const *y, double d, gd_tensor **out);
/* New tensors like the list's: not set, or zeros. */
GD_NODISCARD gd_status gd__list_new(const gd_layout *l, gd_tensor **out, bool zeros);

/* ---- between lists, vectors and numbers ---- */

int64_t gd__list_numel(gd_tensor *const *list, int count);
/* The dtype of a vector of all elements: the widest of the list, at least f32, as half floats are too short for sums of products. */
gd_dtype gd__list_dtype(gd_tensor *const *list, int count);
/* All elements as f64 numbers [numel], rounded to the tensors' dtypes when written. */
GD_NODISCARD gd_status gd__list_read(gd_tensor *const *list, int count, double *x);
GD_NODISCARD gd_status gd__list_write(gd_tensor *const *list, int count, const double *x);
/* New nameless tensors with dtypes, devices and shapes of `like` that hold such numbers. */
GD_NODISCARD gd_status gd__list_from(gd_tensor *const *like, int count, const double *x, gd_tensor **out);

/* gd_list_vector in memory of its own, of any dtype.  New. */
gd_tensor *gd__vector_copy(gd_ctx *ctx, gd_tensor *const *list, int count, gd_dtype dtype);
/* Copies the list into a vector [total] of the layout's dtype and device (written in place), and back. */
GD_NODISCARD gd_status gd__list_to_vector(const gd_layout *l, gd_tensor *const *x, gd_tensor *vector);
GD_NODISCARD gd_status gd__vector_to_list(const gd_layout *l, gd_tensor *vector, gd_tensor *const *x);
/* A new tensor of these sizes, zeros, with the layout's dtype and device; owned by the caller. */
gd_tensor *gd__layout_tensor(const gd_layout *l, int ndim, const int64_t *size);

#endif
