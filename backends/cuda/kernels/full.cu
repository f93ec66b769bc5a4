/* The other operators.  Defined before: DT, the dtype, and the family of kernels that is wanted (see plugin.h); with
 * COPIES and SUMS also SRC, the dtype read. */
typedef Compute<DT>::type C;
typedef Memory<DT>::type M;

struct Args {
    i64 n;                 /* threads' worth of work */
    const void *in[4];
    void *out, *more;
    i64 i[16];
    double f[2];
    int ndim;
    i64 size[8], from[8], to[8]; /* strided copies */
    int *trouble;
    int op;
    const void *list[32]; /* addresses of pieces */
};

#if defined(SUMS) || defined(REDUCTIONS)
/* ---- reductions over [outer, reduced, inner] in chunks of rows, always in the same order.  R says what is joined: none() is
 * joined with nothing, at() an element, put() stores the value of a chunk.
 * i: reduced, inner, chunk, chunks, groups of columns; then what R asks for ---- */

/* inner > 1: a block joins `chunk` rows of 32 neighbouring columns, eight rows at a time. */
template <class R> __device__ inline void reduce_columns(const Args &A)
{
    __shared__ typename R::V part[8][33];
    i64 reduced = A.i[0], inner = A.i[1], chunk = A.i[2], chunks = A.i[3], groups = A.i[4];
    int lane = threadIdx.x & 31, row = threadIdx.x >> 5;
    for (i64 b = blockIdx.x; b < A.n; b += gridDim.x) {
        i64 g = b % groups, c = b / groups % chunks, o = b / groups / chunks, column = g * 32 + lane;
        i64 first = c * chunk, last = first + chunk < reduced ? first + chunk : reduced;
        typename R::V v = R::none(A);
        if (column < inner) {
#pragma unroll 4
            for (i64 r = first + row; r < last; r += 8) v = R::join(A, v, R::at(A, o, r, column));
        }
        part[row][lane] = v;
        __syncthreads();
        if (row == 0 && column < inner) {
            for (int k = 1; k < 8; k++) v = R::join(A, v, part[k][lane]);
            R::put(A, (o * chunks + c) * inner + column, v);
        }
        __syncthreads();
    }
}

/* inner == 1: a block joins one chunk of one row. */
template <class R> __device__ inline void reduce_rows(const Args &A)
{
    __shared__ typename R::V part[256];
    i64 reduced = A.i[0], chunk = A.i[2], chunks = A.i[3];
    for (i64 b = blockIdx.x; b < A.n; b += gridDim.x) {
        i64 c = b % chunks, o = b / chunks, first = c * chunk;
        i64 last = first + chunk < reduced ? first + chunk : reduced;
        typename R::V v = R::none(A);
        for (i64 r = first + threadIdx.x; r < last; r += 256) v = R::join(A, v, R::at(A, o, r, 0));
        part[threadIdx.x] = v;
        __syncthreads();
        for (int width = 128; width; width /= 2) {
            if (threadIdx.x < width) part[threadIdx.x] = R::join(A, part[threadIdx.x], part[threadIdx.x + width]);
            __syncthreads();
        }
        if (threadIdx.x == 0) R::put(A, b, part[0]);
        __syncthreads();
    }
}

#define PLACE(A, o, r, column) (((o) * (A).i[0] + (r)) * (A).i[1] + (column))
#define REDUCTION(name, R)                                                            \
    extern "C" __global__ void name##_columns(const Args A) { reduce_columns<R>(A); } \
    extern "C" __global__ void name##_rows(const Args A) { reduce_rows<R>(A); }
#endif

#ifdef SUMS
/* From SRC to DT. */
struct Sum {
    typedef C V;
    static __device__ C none(const Args &) { return 0; }
    static __device__ C join(const Args &, C a, C b) { return a + b; }
    static __device__ C at(const Args &A, i64 o, i64 r, i64 column)
    {
        return load<SRC>(((const typename Memory<SRC>::type *)A.in[0])[PLACE(A, o, r, column)]);
    }
    static __device__ void put(const Args &A, i64 at, C v) { ((M *)A.out)[at] = store<DT>(v); }
};
REDUCTION(sum, Sum)
#endif

#ifdef REDUCTIONS
struct Product {
    typedef C V;
    static __device__ C none(const Args &) { return 1; }
    static __device__ C join(const Args &, C a, C b) { return a * b; }
    static __device__ C at(const Args &A, i64 o, i64 r, i64 column) { return load<DT>(((const M *)A.in[0])[PLACE(A, o, r, column)]); }
    static __device__ void put(const Args &A, i64 at, C v) { ((M *)A.out)[at] = store<DT>(v); }
};
REDUCTION(prod, Product)

/* i[5]: any, else all; bytes */
struct Truth {
    typedef bool V;
    static __device__ bool none(const Args &A) { return !A.i[5]; }
    static __device__ bool join(const Args &A, bool a, bool b) { return A.i[5] ? a || b : a && b; }
    static __device__ bool at(const Args &A, i64 o, i64 r, i64 column) { return ((const u8 *)A.in[0])[PLACE(A, o, r, column)] != 0; }
    static __device__ void put(const Args &A, i64 at, bool v) { ((u8 *)A.out)[at] = v; }
};
REDUCTION(truth, Truth)

/* Where the largest is, i[5]: the smallest; the first of equal ones, the first NaN before all.  Of all i[6] elements, or of those
 * whose places are in in[1]. */
struct Best {
    C value;
    i64 place; /* -1: none */
};
struct Extreme {
    typedef Best V;
    static __device__ Best none(const Args &) { return {0, -1}; }
    static __device__ bool before(const Args &A, const Best &a, const Best &b)
    {
        if (b.place < 0 || a.place < 0) return b.place < 0;
        bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        if (a_nan != b_nan) return a_nan;
        if (a_nan || a.value == b.value) return a.place < b.place;
        return A.i[5] ? a.value < b.value : a.value > b.value;
    }
    static __device__ Best join(const Args &A, Best a, Best b) { return before(A, a, b) ? a : b; }
    static __device__ Best at(const Args &A, i64 o, i64 r, i64 column)
    {
        i64 place = A.in[1] ? ((const i64 *)A.in[1])[PLACE(A, o, r, column)] : r;
        return {load<DT>(((const M *)A.in[0])[(o * A.i[6] + place) * A.i[1] + column]), place};
    }
    static __device__ void put(const Args &A, i64 at, Best v) { ((i64 *)A.out)[at] = v.place; }
};
REDUCTION(extreme, Extreme)
#endif

#ifdef SPLITS
__device__ inline void part_in_two(float x, u16 *high, u16 *low)
{
    u16 h = float_to_bf16(x);
    if ((h & 0x7fff) == 0x7f80) h = (u16)(__float_as_uint(x) >> 16); /* rounded up to infinity, or it */
    float rest = x - bf16_to_float(h);
    *high = h;
    *low = rest == rest ? float_to_bf16(rest) : 0;
}

/* x is nearly out + more, both bf16; what is not finite stays whole.  All are at multiples of 16 bytes. */
extern "C" __global__ void split(const Args A)
{
    struct alignas(16) From { float v[4]; };
    struct alignas(8) To { u16 v[4]; };
    i64 wide = A.n / 4;
    EACH(t, wide)
    {
        From x = ((const From *)A.in[0])[t];
        To high, low;
#pragma unroll
        for (int k = 0; k < 4; k++) part_in_two(x.v[k], &high.v[k], &low.v[k]);
        ((To *)A.out)[t] = high;
        ((To *)A.more)[t] = low;
    }
    for (i64 t = wide * 4 + threadIdx.x; blockIdx.x == 0 && t < A.n; t += blockDim.x)
        part_in_two(((const float *)A.in[0])[t], (u16 *)A.out + t, (u16 *)A.more + t);
}
#endif

#ifdef RESULTS
/* ---- one result a thread: i = outer, reduced, inner ---- */

/* i[3]: from the end */
extern "C" __global__ void cumsum(const Args A)
{
    EACH(t, A.n)
    {
        i64 o = t / A.i[2], k = t % A.i[2], at = o * A.i[1] * A.i[2] + k, step = A.i[2];
        if (A.i[3]) {
            at += (A.i[1] - 1) * step;
            step = -step;
        }
        C sum = 0;
        for (i64 r = 0; r < A.i[1]; r++, at += step) ((C *)A.out)[at] = sum += ((const C *)A.in[0])[at];
    }
}

#endif

#if defined(EXPONENTIALS) && DT < 4
/* ---- rows: a warp a row (o, k), whose elements lie `inner` apart; sums in f64.  i = outer, reduced, inner.  A row of up to
 * 32 * H elements is read once and held in registers; H is chosen by the length of rows ---- */

#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define ALL      0xffffffffu

__device__ inline int lane() { return (int)(threadIdx.x & 31); }

__device__ inline double warp_sum(double v)
{
    for (int width = 16; width; width /= 2) v += __shfl_xor_sync(ALL, v, width);
    return v;
}

__device__ inline C warp_max(C v)
{
    for (int width = 16; width; width /= 2) v = d_max(v, (C)__shfl_xor_sync(ALL, v, width));
    return v;
}

/* One row as a lane sees it: elements lane, lane + 32, ... */
template <int H> struct Row {
    const M *data;
    i64 step;
    int count;
    bool held;
    C v[H];
    __device__ Row(const void *base, i64 first, i64 step_, i64 count_) : data((const M *)base + first), step(step_), count((int)count_)
    {
        held = count <= 32 * H;
        if (!held) return;
#pragma unroll
        for (int k = 0; k < H; k++) {
            int r = lane() + 32 * k;
            v[k] = r < count ? load<DT>(data[r * step]) : (C)0;
        }
    }
};

/* Runs the body with x the element of row X at place r; and with y that of row Y. */
#define EACH_IN(X, r, x, body)                                                     \
    if (X.held) {                                                                  \
        _Pragma("unroll") for (int k_ = 0; k_ < H; k_++) {                         \
            int r = lane() + 32 * k_;                                              \
            if (r < X.count) { C x = X.v[k_]; body; }                              \
        }                                                                          \
    } else                                                                         \
        for (int r = lane(); r < X.count; r += 32) { C x = load<DT>(X.data[r * X.step]); body; }
#define EACH_IN2(X, Y, r, x, y, body)                                              \
    if (X.held) {                                                                  \
        _Pragma("unroll") for (int k_ = 0; k_ < H; k_++) {                         \
            int r = lane() + 32 * k_;                                              \
            if (r < X.count) { C x = X.v[k_], y = Y.v[k_]; body; }                 \
        }                                                                          \
    } else                                                                         \
        for (int r = lane(); r < X.count; r += 32) {                               \
            C x = load<DT>(X.data[r * X.step]), y = load<DT>(Y.data[r * Y.step]);  \
            body;                                                                  \
        }
#define EACH_ROW(b) \
    for (i64 b = (i64)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; b < A.n; b += (i64)gridDim.x * (blockDim.x / 32))
#define FIRST(b) (A.i[2] == 1 ? b * A.i[1] : b / A.i[2] * A.i[1] * A.i[2] + b % A.i[2])
/* Columns that row b of a matrix of i[4] rows sees: up to its own number, counted from the end; all where i[4] is 0. */
#define SEEN(b) (A.i[4] ? A.i[1] - A.i[4] + remainder_of(b, A.i[4]) + 1 : A.i[1])
/* A kernel NAME for each length of rows out of NAME_rows<H>. */
#define BY_LENGTH(name)                                        \
    extern "C" __global__ void name(const Args A)              \
    {                                                          \
        if (A.i[1] <= 256) name##_rows<8>(A);                  \
        else if (A.i[1] <= 384) name##_rows<12>(A);            \
        else name##_rows<16>(A);                               \
    }

__device__ inline i64 remainder_of(i64 a, i64 b)
{
    return a < 0xffffffffLL ? (i64)((unsigned)a % (unsigned)b) : a % b;
}

__device__ inline void zero_rest(const Args &A, int count, M *out)
{
    for (int r = count + lane(); r < (int)A.i[1]; r += 32) out[r * A.i[2]] = (M)0;
}

/* Each exponential is computed once. */
template <int H> __device__ inline void softmax_held(const Args &A, Row<H> &X, C scale, C shift, M *out)
{
    C sum = 0;
#pragma unroll
    for (int k = 0; k < H; k++) {
        X.v[k] = lane() + 32 * k < X.count ? d_exp(X.v[k] * scale - shift) : (C)0;
        sum += X.v[k];
    }
    C part = (C)1 / (C)warp_sum((double)sum);
    EACH_IN(X, r, e, out[r * A.i[2]] = store<DT>(e * part))
    zero_rest(A, X.count, out);
}

/* i[3]: 0 logsumexp, 1 softmax, 2 log_softmax; of f[0] x */
template <int H> __device__ inline void exponentials_rows(const Args &A)
{
    EACH_ROW(b)
    {
        Row<H> X(A.in[0], FIRST(b), A.i[2], SEEN(b));
        C scale = (C)A.f[0], most = (C)-INFINITE;
        EACH_IN(X, r, x, most = d_max(most, x))
        most = warp_max(most) * scale;
        C shift = most == (C)INFINITE || most == (C)-INFINITE ? (C)0 : most;
        if (A.i[3] == 1 && X.held) {
            softmax_held(A, X, scale, shift, (M *)A.out + FIRST(b));
            continue;
        }
        double sum = 0;
        EACH_IN(X, r, x, sum += (double)d_exp(x * scale - shift))
        sum = warp_sum(sum);
        double log_sum = A.i[3] == 1 ? 0 : log(sum) + (double)shift;
        if (A.i[3] == 0) {
            if (lane() == 0) ((M *)A.out)[b] = store<DT>((C)log_sum);
            continue;
        }
        M *out = (M *)A.out + FIRST(b);
        C part = (C)(1 / sum);
        EACH_IN(X, r, x, out[r * A.i[2]] = store<DT>(A.i[3] == 2 ? (C)((double)x - log_sum)
                                                                 : d_exp(x * scale - shift) * part))
        zero_rest(A, X.count, out);
    }
}
BY_LENGTH(exponentials)

/* f[0] y (g - sum g y); y is 0 where i[4] says that nothing is seen */
template <int H> __device__ inline void softmax_grad_rows(const Args &A)
{
    EACH_ROW(b)
    {
        i64 first = FIRST(b), seen = SEEN(b);
        Row<H> G(A.in[0], first, A.i[2], seen), Y(A.in[1], first, A.i[2], seen);
        M *out = (M *)A.out + first;
        double dot = 0;
        EACH_IN2(G, Y, r, g, y, dot += (double)(g * y))
        C d = (C)warp_sum(dot), scale = (C)A.f[0];
        EACH_IN2(G, Y, r, g, y, out[r * A.i[2]] = store<DT>(scale * y * (g - d)))
        zero_rest(A, G.count, out);
    }
}
BY_LENGTH(softmax_grad)

/* f[0]: eps */
template <int H> __device__ inline void moments(const Row<H> &X, double eps, C *mean, C *rate)
{
    double sum = 0, squares = 0;
    C n = (C)X.count;
    EACH_IN(X, r, x, sum += (double)x)
    C m = *mean = (C)warp_sum(sum) / n;
    EACH_IN(X, r, x, squares += (double)((x - m) * (x - m)))
    *rate = (C)1 / d_sqrt((C)warp_sum(squares) / n + (C)eps);
}

template <int H> __device__ inline void standardize_rows(const Args &A)
{
    EACH_ROW(b)
    {
        i64 first = FIRST(b);
        Row<H> X(A.in[0], first, A.i[2], A.i[1]);
        M *out = (M *)A.out + first;
        C mean, rate;
        moments(X, A.f[0], &mean, &rate);
        EACH_IN(X, r, x, out[r * A.i[2]] = store<DT>((x - mean) * rate))
    }
}
BY_LENGTH(standardize)

/* rate (g - mean g - y mean g y), y the standardized in[1] */
template <int H> __device__ inline void standardize_grad_rows(const Args &A)
{
    EACH_ROW(b)
    {
        i64 first = FIRST(b);
        Row<H> G(A.in[0], first, A.i[2], A.i[1]), X(A.in[1], first, A.i[2], A.i[1]);
        M *out = (M *)A.out + first;
        C mean, rate, n = (C)A.i[1];
        moments(X, A.f[0], &mean, &rate);
        double sum = 0, along = 0;
        EACH_IN2(G, X, r, g, x, sum += (double)g; along += (double)(g * (x - mean) * rate))
        C m = (C)warp_sum(sum) / n, a = (C)warp_sum(along) / n;
        EACH_IN2(G, X, r, g, x, out[r * A.i[2]] = store<DT>(rate * (g - m - (x - mean) * rate * a)))
    }
}
BY_LENGTH(standardize_grad)

/* x, weight, bias; more: mean and rate of each row.  inner is 1 */
template <int H> __device__ inline void layer_norm_rows(const Args &A)
{
    const M *weight = (const M *)A.in[1], *bias = (const M *)A.in[2];
    EACH_ROW(b)
    {
        Row<H> X(A.in[0], b * A.i[1], 1, A.i[1]);
        M *out = (M *)A.out + b * A.i[1];
        C mean, rate;
        moments(X, A.f[0], &mean, &rate);
        if (lane() == 0) {
            ((C *)A.more)[2 * b] = mean;
            ((C *)A.more)[2 * b + 1] = rate;
        }
        EACH_IN(X, r, x, out[r] = store<DT>((x - mean) * rate * load<DT>(weight[r]) + load<DT>(bias[r])))
    }
}
BY_LENGTH(layer_norm)

/* g, x, weight, stats: rate (h - mean h - y mean h y), h = g weight */
template <int H> __device__ inline void layer_norm_grad_rows(const Args &A)
{
    const M *weight = (const M *)A.in[2];
    const C *stats = (const C *)A.in[3];
    EACH_ROW(b)
    {
        Row<H> G(A.in[0], b * A.i[1], 1, A.i[1]), X(A.in[1], b * A.i[1], 1, A.i[1]);
        M *out = (M *)A.out + b * A.i[1];
        C mean = stats[2 * b], rate = stats[2 * b + 1], n = (C)A.i[1];
        double sum = 0, along = 0;
        EACH_IN2(G, X, r, g, x, C h = g * load<DT>(weight[r]); sum += (double)h;
                 along += (double)(h * (x - mean) * rate))
        C m = (C)warp_sum(sum) / n, a = (C)warp_sum(along) / n;
        EACH_IN2(G, X, r, g, x,
                 out[r] = store<DT>(rate * (g * load<DT>(weight[r]) - m - (x - mean) * rate * a)))
    }
}
BY_LENGTH(layer_norm_grad)

/* g, x, stats: sums over a chunk of rows of g y and of g, 32 columns per block.  i: rows, columns, 1, chunk, chunks, groups of
 * columns; out[chunk][2][columns] */
extern "C" __global__ void layer_norm_sums(const Args A)
{
    __shared__ C part[2][8][33];
    const M *g = (const M *)A.in[0], *x = (const M *)A.in[1];
    const C *stats = (const C *)A.in[2];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (i64 b = blockIdx.x; b < A.n; b += gridDim.x) {
        i64 column = b % A.i[5] * 32 + lane, c = b / A.i[5], first = c * A.i[3];
        i64 last = first + A.i[3] < A.i[0] ? first + A.i[3] : A.i[0];
        C weight = 0, bias = 0;
        if (column < A.i[1]) {
#pragma unroll 4
            for (i64 r = first + warp; r < last; r += 8) {
                C v = load<DT>(g[r * A.i[1] + column]);
                bias += v;
                weight += v * (load<DT>(x[r * A.i[1] + column]) - stats[2 * r]) * stats[2 * r + 1];
            }
        }
        part[0][warp][lane] = weight;
        part[1][warp][lane] = bias;
        __syncthreads();
        if (warp < 2 && column < A.i[1]) {
            C sum = 0;
            for (int k = 0; k < 8; k++) sum += part[warp][k][lane];
            ((C *)A.out)[(2 * c + warp) * A.i[1] + column] = sum;
        }
        __syncthreads();
    }
}

/* The chunks of layer_norm_sums together; a thread a sum.  i: columns, chunks */
extern "C" __global__ void layer_norm_join(const Args A)
{
    EACH(t, A.n)
    {
        i64 which = t / A.i[0], column = t % A.i[0];
        C sum = 0;
#pragma unroll 8
        for (i64 c = 0; c < A.i[1]; c++) sum += ((const C *)A.in[0])[(2 * c + which) * A.i[0] + column];
        ((M *)(which ? A.more : A.out))[column] = store<DT>(sum);
    }
}
#endif

#ifdef PIECES
/* ---- copies of 16 bytes at a time; sizes and strides count pieces ---- */

extern "C" __global__ void copy_pieces(const Args A)
{
    struct alignas(16) Piece { unsigned v[4]; };
    EACH(t, A.n)
    {
        unsigned rest = (unsigned)t;
        i64 from = 0, to = 0;
        for (int d = A.ndim - 1; d > 0; d--) {
            unsigned s = (unsigned)A.size[d], q = rest / s, k = rest - q * s;
            rest = q;
            from += k * A.from[d];
            to += k * A.to[d];
        }
        from += rest * A.from[0];
        to += rest * A.to[0];
        ((Piece *)A.out)[to] = ((const Piece *)A.in[0])[from];
    }
}

/* Pieces of i[0] times 16 bytes from anywhere, one after the other. */
extern "C" __global__ void copy_list(const Args A)
{
    struct alignas(16) Piece { unsigned v[4]; };
    unsigned each = (unsigned)A.i[0];
    EACH(t, A.n)
    {
        unsigned piece = (unsigned)t / each, at = (unsigned)t - piece * each;
        ((Piece *)A.out)[t] = ((const Piece *)A.list[piece])[at];
    }
}
#endif

#ifdef COPIES
/* ---- copies: out[to] = cast(in[from]) over a common shape ---- */

__device__ inline M converted(Memory<SRC>::type x)
{
    typedef Compute<SRC>::type S;
    S v = load<SRC>(x);
    C w;
    if (SRC < 4 && DT >= 4 && DT != 7) { /* towards zero, cut to the range; NaN becomes 0 */
        double d = (double)v;
        w = (C)(d >= 9223372036854775807.0 ? 0x7fffffffffffffffLL
                : d <= -9223372036854775808.0 ? (-0x7fffffffffffffffLL - 1) : d != d ? 0 : (i64)d);
    } else if (DT == 7) w = (C)(v != 0);
    else w = (C)v;
    return store<DT>(w);
}

extern "C" __global__ void copy_strided(const Args A)
{
    EACH(t, A.n)
    {
        i64 rest = t, from = 0, to = 0;
        for (int d = A.ndim - 1; d >= 0; d--) {
            i64 k;
            if (A.n < 0x7fffffff) {
                unsigned s = (unsigned)A.size[d], q = (unsigned)rest / s;
                k = (unsigned)rest - q * s;
                rest = q;
            } else {
                k = rest % A.size[d];
                rest /= A.size[d];
            }
            from += k * A.from[d];
            to += k * A.to[d];
        }
        ((M *)A.out)[to] = converted(((const Memory<SRC>::type *)A.in[0])[from]);
    }
}

/* Everything in order: four numbers per thread. */
extern "C" __global__ void copy_dense(const Args A)
{
    struct alignas(sizeof(Memory<SRC>::type) * 4) From { Memory<SRC>::type v[4]; };
    struct alignas(sizeof(M) * 4) To { M v[4]; };
    EACH(t, A.n)
    {
        From x = ((const From *)A.in[0])[t];
        To y;
#pragma unroll
        for (int k = 0; k < 4; k++) y.v[k] = converted(x.v[k]);
        ((To *)A.out)[t] = y;
    }
}
#endif

#ifdef FILLS
extern "C" __global__ void fill(const Args A)
{
    M v = store<DT>(DT == 7 ? (C)(A.f[0] != 0) : (C)A.f[0]);
    EACH(t, A.n) ((M *)A.out)[t] = v;
}

/* ---- triangles: i = rows, columns, diagonal, lower ---- */

extern "C" __global__ void tri(const Args A)
{
    EACH(t, A.n)
    {
        i64 column = t % A.i[1], row = t / A.i[1] % A.i[0];
        bool kept = A.i[3] ? column <= row + A.i[2] : column >= row + A.i[2];
        ((M *)A.out)[t] = kept ? ((const M *)A.in[0])[t] : (M)0;
    }
}

#endif

#ifdef PLACES
/* ---- picking: i = axis size of x, inner, index count along the axis ---- */

__device__ inline i64 checked(const Args &A, i64 k, i64 size)
{
    if (k >= 0 && k < size) return k;
    if (atomicCAS(&A.trouble[0], 0, 1) == 0) A.trouble[1] = A.op;
    return 0;
}

extern "C" __global__ void index_select(const Args A)
{
    const i64 *index = (const i64 *)A.in[1];
    EACH(t, A.n)
    {
        i64 k = t % A.i[1], r = t / A.i[1] % A.i[2], o = t / A.i[1] / A.i[2];
        ((M *)A.out)[t] = ((const M *)A.in[0])[(o * A.i[0] + checked(A, index[r], A.i[0])) * A.i[1] + k];
    }
}

extern "C" __global__ void gather(const Args A)
{
    const i64 *index = (const i64 *)A.in[1];
    EACH(t, A.n)
    {
        i64 k = t % A.i[1], o = t / A.i[1] / A.i[2];
        ((M *)A.out)[t] = ((const M *)A.in[0])[(o * A.i[0] + checked(A, index[t], A.i[0])) * A.i[1] + k];
    }
}

/* Adding at indices without atomics, so that the order is fixed: a thread owns a column (outer, inner) and walks the
 * index.  i[3]: the index is as large as the values (scatter_add), else one for all columns (index_add). */
extern "C" __global__ void add_at(const Args A)
{
    const i64 *index = (const i64 *)A.in[1];
    const C *values = (const C *)A.in[2];
    C *out = (C *)A.out;
    EACH(t, A.n)
    {
        i64 k = t % A.i[1], o = t / A.i[1];
        for (i64 r = 0; r < A.i[2]; r++) {
            i64 at = (o * A.i[2] + r) * A.i[1] + k;
            i64 place = checked(A, index[A.i[3] ? at : r], A.i[0]);
            out[(o * A.i[0] + place) * A.i[1] + k] += values[at];
        }
    }
}

/* The same for a table with few rows: a block owns a row (outer, place) and 256 of its columns, looks through the index
 * for its own place, and adds what it finds in the order of the index.  i[4]: groups of columns */
extern "C" __global__ void add_rows(const Args A)
{
    __shared__ int list[256], count[8];
    const i64 *index = (const i64 *)A.in[1];
    const C *values = (const C *)A.in[2];
    C *out = (C *)A.out;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    for (i64 b = blockIdx.x; b < A.n; b += gridDim.x) {
        i64 k = b % A.i[4] * 256 + threadIdx.x, place = b / A.i[4] % A.i[0], o = b / A.i[4] / A.i[0];
        i64 to = (o * A.i[0] + place) * A.i[1] + k;
        C sum = k < A.i[1] ? out[to] : (C)0;
        for (i64 first = 0; first < A.i[2]; first += 256) {
            i64 r = first + threadIdx.x;
            bool here = r < A.i[2] && checked(A, index[r], A.i[0]) == place;
            unsigned who = __ballot_sync(0xffffffffu, here);
            if (lane == 0) count[warp] = __popc(who);
            __syncthreads();
            int before = 0, all = 0;
            for (int w = 0; w < 8; w++) {
                if (w < warp) before += count[w];
                all += count[w];
            }
            if (here) list[before + __popc(who & ((1u << lane) - 1))] = (int)threadIdx.x;
            __syncthreads();
            if (k < A.i[1])
                for (int j = 0; j < all; j++) sum += values[(o * A.i[2] + first + list[j]) * A.i[1] + k];
            __syncthreads();
        }
        if (k < A.i[1]) out[to] = sum;
    }
}

/* Putting at an index of which the last counts where two are equal.  First who that is, for each place: 1 and its number in the
 * index, or 0; then they alone write. */
extern "C" __global__ void last_at(const Args A)
{
    const i64 *index = (const i64 *)A.in[1];
    EACH(t, A.n)
    {
        i64 place = checked(A, index[t], A.i[0]);
        if (place == index[t]) atomicMax((unsigned long long *)A.out + place, (unsigned long long)t + 1);
    }
}

extern "C" __global__ void put_at(const Args A)
{
    const i64 *index = (const i64 *)A.in[1];
    const unsigned long long *last = (const unsigned long long *)A.in[0];
    EACH(t, A.n)
    {
        i64 k = t % A.i[1], r = t / A.i[1] % A.i[2], o = t / A.i[1] / A.i[2], place = index[r];
        if (place >= 0 && place < A.i[0] && last[place] == (unsigned long long)r + 1)
            ((M *)A.out)[(o * A.i[0] + place) * A.i[1] + k] = ((const M *)A.in[2])[t];
    }
}

#endif

#if defined(RANDOM) && DT < 4
/* ---- random numbers: base/rng.h stands before this.  i = kind, key, first block ---- */

extern "C" __global__ void random_numbers(const Args A)
{
    EACH(t, (A.n + 1) / 2)
    {
        unsigned w[4];
        double pair[2], scale = DT == 1 ? 9007199254740992.0 : DT == 0 ? 16777216.0 : DT == 2 ? 2048.0 : 256.0;
        gd__philox((u64)A.i[1], (u64)A.i[2] + (u64)t, w);
        gd__random_pair((int)A.i[0], scale, w, pair);
        ((M *)A.out)[2 * t] = store<DT>((C)pair[0]);
        if (2 * t + 1 < A.n) ((M *)A.out)[2 * t + 1] = store<DT>((C)pair[1]);
    }
}
#endif

#ifdef PLACES_OF
/* Addresses of the matrices of a batch: size and from are its axes and their steps in bytes. */
extern "C" __global__ void places(const Args A)
{
    EACH(t, A.n)
    {
        i64 rest = t, at = 0;
        for (int d = A.ndim - 1; d >= 0; d--) {
            at += rest % A.size[d] * A.from[d];
            rest /= A.size[d];
        }
        ((const char **)A.out)[t] = (const char *)A.in[0] + at;
    }
}
#endif

#ifdef WINDOWS
/* ---- windows of images, as cpu/images/unfold.c: i = batch, channels, height, width, tall, wide, stride, padding, down, across,
 * together, stride along the width, dilation along height and width ---- */

/* Where a number of the columns is. */
static __device__ i64 column_at(const Args &A, i64 b, i64 channel, i64 place, i64 window)
{
    i64 places = A.i[4] * A.i[5], count = A.i[8] * A.i[9];
    return A.i[10] ? ((b * A.i[1] + channel) * count + window) * places + place
                   : ((channel * places + place) * A.i[0] + b) * count + window;
}

extern "C" __global__ void unfold2d(const Args A)
{
    i64 across = A.i[9], down = A.i[8], places = A.i[4] * A.i[5];
    M fill_value = store<DT>((C)A.f[0]);
    EACH(t, A.n) /* t = ((batch * channels + channel) * places + place) * windows + window */
    {
        i64 window = t % (down * across), rest = t / (down * across);
        i64 place = rest % places, plane = rest / places;
        i64 y = window / across * A.i[6] - A.i[7] + place / A.i[5] * A.i[12];
        i64 x = window % across * A.i[11] - A.i[7] + place % A.i[5] * A.i[13];
        bool inside = y >= 0 && y < A.i[2] && x >= 0 && x < A.i[3];
        i64 to = column_at(A, plane / A.i[1], plane % A.i[1], place, window);
        ((M *)A.out)[to] = inside ? ((const M *)A.in[0])[(plane * A.i[2] + y) * A.i[3] + x] : fill_value;
    }
}

extern "C" __global__ void fold2d(const Args A)
{
    i64 across = A.i[9], down = A.i[8];
    EACH(t, A.n) /* a pixel */
    {
        i64 x = t % A.i[3], y = t / A.i[3] % A.i[2], plane = t / A.i[3] / A.i[2];
        C sum = 0;
        for (i64 ky = 0; ky < A.i[4]; ky++) {
            i64 top = y + A.i[7] - ky * A.i[12];
            if (top < 0 || top % A.i[6] || top / A.i[6] >= down) continue;
            for (i64 kx = 0; kx < A.i[5]; kx++) {
                i64 left = x + A.i[7] - kx * A.i[13];
                if (left < 0 || left % A.i[11] || left / A.i[11] >= across) continue;
                sum += ((const C *)A.in[0])[column_at(A, plane / A.i[1], plane % A.i[1], ky * A.i[5] + kx,
                                                      top / A.i[6] * across + left / A.i[11])];
            }
        }
        ((C *)A.out)[t] = sum;
    }
}

#endif

#ifdef PRODUCTS
/* ---- products of integers, which cuBLAS has none of: i = rows, columns, inner; strides of a and b in from and to as
 * batch, row, column ---- */

extern "C" __global__ void integer_product(const Args A)
{
    EACH(t, A.n)
    {
        i64 column = t % A.i[1], row = t / A.i[1] % A.i[0], b = t / A.i[1] / A.i[0];
        const C *x = (const C *)A.in[0] + b * A.from[0] + row * A.from[1];
        const C *y = (const C *)A.in[1] + b * A.to[0] + column * A.to[2];
        C sum = 0;
        for (i64 k = 0; k < A.i[2]; k++) sum += x[k * A.from[2]] * y[k * A.to[1]];
        ((C *)A.out)[t] = sum;
    }
}
#endif
