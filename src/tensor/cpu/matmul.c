/* The matrix product on the CPU: [..., m, k] x [..., k, n] -> [..., m, n].
 *
 * Both operands have the same number of axes and the same batch sizes; any strides (0 for a broadcast batch).  The rows of
 * the result are adjacent, its batches may have any stride.
 * The result is cut into tiles whose sizes depend only on m, n and k, and each tile is one single-threaded call, so
 * the bits do not depend on the number of threads:
 *
 *          n                     tall m: rows are cut          small m, n and long k: k is cut and
 *      +--------+                wide n: columns are cut       the partial products are added in order
 *    m | 0 |  1 |
 *      | 2 |  3 |                many small matrices: several per task
 *      +--------+
 */
#include "tensor/cpu/blas.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/dense.h"

#include <limits.h>
#include <string.h>

#ifdef GD_HAVE_BLAS
#include <cblas.h>
#endif

#define TINY      32    /* multiply-adds up to which plain loops are faster than a call */
#define TASK      1.5e5 /* a task should cost at least this many multiply-adds, about 2.5 us */
#define ROWS_MIN  64    /* rows of a tile; larger tiles are faster, smaller ones keep more threads busy */
#define ROWS_MAX  512
#define COLS_MIN  128 /* columns of a tile */
#define COLS_MAX  2048
#define SLABS     16   /* slabs of k */
#define DEPTH_MIN 2048 /* length of a slab of k */
#define DEEP_MAX  256  /* rows and columns of a result up to which k is cut */
#define CROWD     4    /* from this many matrices on, no cuts are needed to keep threads busy */

typedef struct tile {
    int64_t m, n, k;
    const void *a, *b;
    void *c;
    int64_t a_row, a_col, b_row, b_col, ldc;
} tile;

/* A batch of matrices with its strides. */
typedef struct stack {
    char *data;
    int64_t row, col;
    int64_t step[GD_MAX_DIMS]; /* of the batch axes */
} stack;

typedef struct product {
    void (*multiply)(const tile *t);
    size_t item; /* bytes of an element */
    int64_t m, n, k, batches;
    int64_t rows, cols, depth;  /* of a tile */
    int64_t down, across, deep; /* tiles along m, n, k */
    int64_t group;              /* matrices per task */
    bool blas;                  /* tiles may be passed to it */
    int batch_dims;
    int64_t batch[GD_MAX_DIMS];
    stack a, b, c;
    char *slabs;           /* partial products if k is cut */
    const gd_tensor *bias; /* added to every row; NULL: nothing is */
    const gd_vec_table *vec;
    bool light; /* too small for a second thread */
} product;

static bool is_tiny(const tile *t) { return (double)t->m * (double)t->n * (double)t->k <= TINY; }

/* How BLAS may read a matrix in place: rows or columns contiguous. */
typedef struct layout {
    bool transposed;
    int ld;
} layout;

static bool blas_layout(int64_t rows, int64_t cols, int64_t row, int64_t col, layout *out)
{
    int64_t ld, least;
    if (col == 1 || cols == 1) {
        out->transposed = false;
        least = cols > 1 ? cols : 1;
        ld = rows == 1 ? least : row;
    } else {
        out->transposed = true;
        least = rows > 1 ? rows : 1;
        ld = col;
        if (row != 1 && rows != 1) return false;
    }
    out->ld = (int)ld;
    return ld >= least && ld <= INT_MAX && rows <= INT_MAX && cols <= INT_MAX;
}

#ifdef GD_HAVE_BLAS
/* Zeroes the matrix that a product is added to.  BLAS does the same for a factor of 0, but one number at a time on some processors. */
static void clear_rows(void *c, int64_t rows, size_t bytes, size_t step)
{
    if (bytes == step) bytes *= (size_t)rows, rows = 1;
    for (int64_t i = 0; i < rows; i++) memset((char *)c + (size_t)i * step, 0, bytes);
}
#endif

#define REAL        float
#define LOCAL(name) name##_f32
#define GEMM        cblas_sgemm
#define GEMV        cblas_sgemv
#define DENSE_GEMM  gd__dense_gemm_f32
#include "tensor/cpu/matmul_impl.h"
#undef REAL
#undef LOCAL
#undef GEMM
#undef GEMV
#undef DENSE_GEMM

#define REAL        double
#define LOCAL(name) name##_f64
#define GEMM        cblas_dgemm
#define GEMV        cblas_dgemv
#define DENSE_GEMM  gd__dense_gemm_f64
#include "tensor/cpu/matmul_impl.h"
#undef REAL
#undef LOCAL
#undef DENSE_GEMM

/* Unsigned: integers wrap around. */
#define REAL        uint64_t
#define LOCAL(name) name##_i64
#include "tensor/cpu/matmul_impl.h"

/* ---- the plan: how a product is cut ---- */

/* Multiply-adds, plus the cost of reading operands that are used only a few times. */
static double cost(double m, double n, double k) { return m * n * k + 8 * k * (m + n); }

static int64_t pieces(int64_t size, int64_t piece) { return size == 0 ? 0 : (size - 1) / piece + 1; }

/* A size cut into `count` pieces, rounded up to whole vectors and kept within bounds. */
static int64_t piece_of(int64_t size, int64_t count, int64_t least, int64_t most)
{
    if (count < pieces(size, most)) count = pieces(size, most);
    int64_t piece = (pieces(size, count) + 15) / 16 * 16;
    if (piece < least) piece = least;
    if (piece > most) piece = most;
    return piece < size ? piece : size;
}

/* The longer side is cut in two, further where it is very long; with a small result and a long k, k is cut. */
static void cut_one(product *p, double work)
{
    if (work < 2 * TASK) return;
    bool dense = p->c.row == p->n;
    if (dense && p->batches == 1 && p->m <= DEEP_MAX && p->n <= DEEP_MAX && p->k >= 2 * DEPTH_MIN) {
        p->depth = piece_of(p->k, SLABS, DEPTH_MIN, INT_MAX);
        return;
    }
    int64_t count = p->batches < CROWD ? 2 : 1;
    /* If writing the result is most of the memory traffic, one thread writes adjacent rows: the next operator splits its input
     * into ranges of rows too, so each thread finds its range in its own cache. */
    bool broad = p->m >= 2 * ROWS_MIN && p->m * p->n >= p->k * (p->m + p->n);
    bool wide = p->n > p->m && !broad;
    p->rows = piece_of(p->m, wide ? 1 : count, ROWS_MIN, ROWS_MAX);
    p->cols = piece_of(p->n, wide ? count : 1, COLS_MIN, COLS_MAX);
}

static void cut(product *p)
{
    double work = cost((double)p->m, (double)p->n, (double)p->k);
    p->rows = p->m;
    p->cols = p->n;
    p->depth = p->k;
    cut_one(p, work);
    p->down = pieces(p->m, p->rows);
    p->across = pieces(p->n, p->cols);
    p->deep = p->k ? pieces(p->k, p->depth) : 1;
    p->group = work < TASK ? (int64_t)(TASK / (work + 64)) + 1 : 1;
    p->light = work * (double)p->batches < 4 * TASK;
}

/* ---- running it ---- */

static char *matrix_at(const product *p, const stack *s, int64_t index)
{
    int64_t offset = 0;
    if (p->batch_dims == 1) return s->data + index * s->step[0] * (int64_t)p->item;
    for (int i = p->batch_dims; i-- > 0;) {
        offset += index % p->batch[i] * s->step[i];
        index /= p->batch[i];
    }
    return s->data + offset * (int64_t)p->item;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* While the rows, from column `left` of the result on, are still in a cache. */
static void add_bias(const product *p, void *c, int64_t rows, int64_t columns, int64_t left)
{
    for (int64_t i = 0; i < rows; i++)
        if (p->item == sizeof(float))
            p->vec->add_f32((float *)c + i * p->c.row, (const float *)(const void *)p->bias->data + left,
                            columns);
        else
            p->vec->add_f64((double *)c + i * p->c.row, (const double *)(const void *)p->bias->data + left,
                            columns);
}

/* Of one column and one row: each row of the result is a multiple of the row, or a single column of the column. */
static bool multiply_vectors(const product *p, const tile *t)
{
    gd_spaced_fn times = p->item == sizeof(float) ? p->vec->spaced[GD_OP_mul][GD_AS_F32]
                                                  : p->vec->spaced[GD_OP_mul][GD_AS_F64];
    if (p->k != 1 || !p->blas || !times) return false;
    if (t->n == 1 && t->ldc == 1)
        times(t->c, t->a, t->a_row, t->b, 0, t->m);
    else
        for (int64_t i = 0; i < t->m; i++)
            times((char *)t->c + i * t->ldc * (int64_t)p->item,
                  (const char *)t->a + i * t->a_row * (int64_t)p->item, 0, t->b, t->b_col, t->n);
    return true;
}

/* Tile number `index` of matrix `batch`. */
static void run_tile(const product *p, int64_t batch, int64_t index)
{
    int64_t slab = index % p->deep, j = index / p->deep % p->across, i = index / p->deep / p->across;
    int64_t top = i * p->rows, left = j * p->cols, front = slab * p->depth, item = (int64_t)p->item;
    tile t = {.m = smaller(p->rows, p->m - top),
              .n = smaller(p->cols, p->n - left),
              .k = smaller(p->depth, p->k - front),
              .a_row = p->a.row,
              .a_col = p->a.col,
              .b_row = p->b.row,
              .b_col = p->b.col,
              .ldc = p->deep > 1 ? p->n : p->c.row};
    t.a = matrix_at(p, &p->a, batch) + (top * p->a.row + front * p->a.col) * item;
    t.b = matrix_at(p, &p->b, batch) + (front * p->b.row + left * p->b.col) * item;
    if (p->deep > 1)
        t.c = p->slabs + slab * p->m * p->n * item;
    else
        t.c = matrix_at(p, &p->c, batch) + (top * p->c.row + left) * item;
    if (!multiply_vectors(p, &t)) p->multiply(&t);
    if (p->bias && p->deep == 1) add_bias(p, t.c, t.m, t.n, left);
}

static void run_task(void *arg, int64_t task)
{
    const product *p = arg;
    int64_t tiles = p->down * p->across * p->deep;
    if (tiles > 1) {
        run_tile(p, task / tiles, task % tiles);
        return;
    }
    int64_t end = smaller((task + 1) * p->group, p->batches);
    for (int64_t batch = task * p->group; batch < end; batch++) run_tile(p, batch, 0);
}

static gd_status run_product(gd_ctx *ctx, product *p, gd_dtype dtype)
{
    size_t bytes = (size_t)(p->deep * p->m * p->n) * p->item;
    int64_t tiles = p->down * p->across * p->deep,
            tasks = tiles > 1 ? tiles * p->batches : pieces(p->batches, p->group);
    gd_status status = p->blas ? gd__blas_reserve(ctx, tasks) : GD_OK;
    if (status) return status;
    if (p->deep > 1 && !(p->slabs = gd__alloc(ctx, bytes))) return GD_NOMEM;
#ifdef GD_BLAS_SHARED
    openblas_set_num_threads(1);
#endif
    (p->light ? gd__parallel_light : gd__parallel)(ctx, tasks, run_task, p);
    if (p->deep == 1) return GD_OK;
    if (dtype == GD_F32)
        add_slabs_f32(p->c.data, p->slabs, p->deep, p->m * p->n);
    else if (dtype == GD_F64)
        add_slabs_f64(p->c.data, p->slabs, p->deep, p->m * p->n);
    else
        add_slabs_i64(p->c.data, p->slabs, p->deep, p->m * p->n);
    gd__free(ctx, p->slabs, bytes);
    if (p->bias) add_bias(p, p->c.data, p->m, p->n, 0);
    return GD_OK;
}

/* ---- operands ---- */

static stack stack_of(const gd_tensor *t)
{
    stack s = {.data = t->data, .row = t->stride[t->ndim - 2], .col = t->stride[t->ndim - 1]};
    memcpy(s.step, t->stride, sizeof s.step);
    return s;
}

/* Operands that BLAS cannot read in place are copied; a broadcast batch is copied once. */
static gd_status readable(const gd_tensor *t, stack *s)
{
    int n = t->ndim;
    layout in_place;
    if (blas_layout(t->size[n - 2], t->size[n - 1], s->row, s->col, &in_place)) return GD_OK;
    gd_tensor from = *t;
    from.numel = 1;
    for (int i = 0; i < n; i++) {
        if (i < n - 2 && t->stride[i] == 0) from.size[i] = 1;
        from.numel *= from.size[i];
    }
    gd_tensor *copy = gd__new(t->storage->device, t->dtype, n, from.size);
    if (!copy) return GD_NOMEM;
    gd_status status = gd__copy_into(copy, &from);
    *s = stack_of(copy);
    for (int i = 0; i < n - 2; i++)
        if (from.size[i] == 1) s->step[i] = 0;
    return status;
}

typedef void (*multiply_fn)(const tile *t);

static multiply_fn multiply_for(gd_dtype dtype)
{
    return dtype == GD_F32 ? multiply_f32 : dtype == GD_F64 ? multiply_f64 : multiply_i64;
}

/* The stride between rows of the result; a single row may have any stride. */
static int64_t row_step(const gd_tensor *c)
{
    int64_t rows = c->size[c->ndim - 2], columns = c->size[c->ndim - 1];
    return rows == 1 ? columns : c->stride[c->ndim - 2];
}

/* c = a b, and the bias added to its rows if there is one. */
static gd_status product_into(gd_device *device, const gd_tensor *a, const gd_tensor *b,
                              const gd_tensor *bias, const gd_tensor *c)
{
    int n = c->ndim;
    if (c->numel == 0) return GD_OK;
    tile whole = {c->size[n - 2],   c->size[n - 1],   a->size[n - 1],   a->data,          b->data,    c->data,
                  a->stride[n - 2], a->stride[n - 1], b->stride[n - 2], b->stride[n - 1], row_step(c)};
    if (is_tiny(&whole) && c->numel == whole.m * whole.n && !bias) {
        multiply_for(c->dtype)(&whole);
        return GD_OK;
    }
    product p = {.item = gd__item_size(c), .m = whole.m, .n = whole.n, .k = whole.k, .batch_dims = n - 2};
    p.batches = c->numel / (p.m * p.n);
    p.multiply = multiply_for(c->dtype);
    p.bias = bias;
    p.vec = gd__vec(device);
    memcpy(p.batch, c->size, sizeof p.batch);
    p.a = stack_of(a);
    p.b = stack_of(b);
    p.c = stack_of(c);
    p.c.row = whole.ldc;
    cut(&p);
    gd_status status = GD_OK;
    p.blas = !is_tiny(&whole) && c->dtype != GD_I64;
    if (p.blas) {
        status = readable(a, &p.a);
        if (!status) status = readable(b, &p.b);
    }
    return status ? status : run_product(device->ctx, &p, c->dtype);
}

gd_status gd__cpu_matmul(gd_device *device, const gd_call *call)
{
    return product_into(device, call->in[0], call->in[1], NULL, call->out[0]);
}

/* ---- sums with products ---- */

#define PIECE 65536 /* numbers of a task */

typedef struct blend {
    const gd_tensor *c, *out;
    double beta, alpha;
} blend;

#define BLEND(name, real)                                                                       \
    static void name(const blend *b, int64_t first, int64_t last)                               \
    {                                                                                           \
        const real *c = (const real *)(const void *)b->c->data;                                 \
        real *out = (real *)(void *)b->out->data, beta = (real)b->beta, alpha = (real)b->alpha; \
        for (int64_t i = first; i < last; i++) out[i] = beta * c[i] + alpha * out[i];           \
    }
BLEND(blend_f32, float)
BLEND(blend_f64, double)

static void blend_piece(void *arg, int64_t task)
{
    const blend *b = arg;
    int64_t first = task * PIECE, last = smaller(first + PIECE, b->out->numel);
    if (b->out->dtype == GD_F32)
        blend_f32(b, first, last);
    else
        blend_f64(b, first, last);
}

static void add_up(gd_device *device, blend *b)
{
    gd__parallel(device->ctx, pieces(b->c->numel, PIECE), blend_piece, b);
}

#define SLAB 64 /* rows of a matrix that is added to in place */

/* If c is also the result: some rows at a time. */
static gd_status add_in_place(gd_device *device, const gd_call *call)
{
    gd_tensor a = *call->in[1], c = *call->out[0];
    int64_t rows = c.size[0], n = c.size[1], item = (int64_t)gd__item_size(&c);
    gd_tensor *room = gd__new(device, c.dtype, 2, (int64_t[]){smaller(rows, SLAB), n});
    if (!room) return GD_NOMEM;
    gd_status status = GD_OK;
    for (int64_t row = 0; row < rows && !status; row += SLAB) {
        a.data = call->in[1]->data + row * a.stride[0] * item;
        c.data = call->out[0]->data + row * n * item;
        a.size[0] = c.size[0] = room->size[0] = smaller(SLAB, rows - row);
        a.numel = a.size[0] * a.size[1];
        c.numel = room->numel = c.size[0] * n;
        status = product_into(device, &a, call->in[2], NULL, room);
        blend b = {&c, room, call->attrs->f[0], call->attrs->f[1]};
        if (!status) add_up(device, &b);
        if (!status) memcpy(c.data, room->data, (size_t)(c.numel * item));
    }
    gd__release(room);
    return status;
}

/* beta c + alpha a b, with c in order. */
gd_status gd__cpu_addmm(gd_device *device, const gd_call *call)
{
    if (call->in[0]->data == call->out[0]->data && call->out[0]->ndim == 2) return add_in_place(device, call);
    gd_status status = product_into(device, call->in[1], call->in[2], NULL, call->out[0]);
    blend b = {call->in[0], call->out[0], call->attrs->f[0], call->attrs->f[1]};
    if (!status) add_up(device, &b);
    return status;
}

static gd_tensor turned(const gd_tensor *t)
{
    gd_tensor other = *t;
    other.size[0] = t->size[1];
    other.size[1] = t->size[0];
    other.stride[0] = t->stride[1];
    other.stride[1] = t->stride[0];
    return other;
}

/* x w^T + b: x [rows, in], w [out, in], b [out]. */
gd_status gd__cpu_linear(gd_device *device, const gd_call *call)
{
    gd_tensor w = turned(call->in[1]);
    return product_into(device, call->in[0], &w, call->in[2], call->out[0]);
}

/* g [rows, out], x [rows, in], w [out, in]: g w, g^T x and the sums of g's columns. */
gd_status gd__cpu_linear_grad(gd_device *device, const gd_call *call)
{
    gd_tensor *g = call->in[0], across = turned(g);
    gd_attrs sides = {.ni = 5, .i = {1, g->size[0], g->size[1], 0, 0}};
    gd_call sum = {GD_OP_sum, 1, 1, &g, &call->out[2], &sides};
    gd_status status = product_into(device, g, call->in[2], NULL, call->out[0]);
    if (!status) status = product_into(device, &across, call->in[1], NULL, call->out[1]);
    return status ? status : gd__cpu_sum(device, &sum);
}
