/* The kernels of cpu/row_kernels.h for one type T; vec/row_kernels.c includes this text for each. */

/* ---- folds ---- */

#define FOLD_SUM(a, b)  ((a) + (b))
#define FOLD_PROD(a, b) ((a) * (b))
#define SQUARE(a)       ((a) * (a))
/* NaN wins on either side */
#define FOLD_MAX(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define FOLD_MIN(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))

/* Rows of n numbers, n known to the compiler: their results stay in registers. */
#define FEW_COLUMNS(fold, of, n)                                                     \
    {                                                                                \
        T few[n];                                                                    \
        for (int k = 0; k < n; k++) few[k] = of(x[k]);                               \
        for (int64_t r = 1; r < rows; r++)                                           \
            for (int k = 0; k < n; k++) few[k] = fold(few[k], of(x[r * apart + k])); \
        for (int k = 0; k < n; k++) acc[k] = few[k];                                 \
        return;                                                                      \
    }

/* Four rows at a time: each is a run of memory that processors fetch ahead. */
#define COLUMNS(name, fold, of)                                                               \
    static void NAME(columns_##name)(void *acc_, const void *x_, int64_t apart, int64_t rows, \
                                     int64_t columns)                                         \
    {                                                                                         \
        const T *restrict x = x_;                                                             \
        T *restrict acc = acc_;                                                               \
        switch (columns) {                                                                    \
        case 1: FEW_COLUMNS(fold, of, 1)                                                      \
        case 2: FEW_COLUMNS(fold, of, 2)                                                      \
        case 3: FEW_COLUMNS(fold, of, 3)                                                      \
        case 4: FEW_COLUMNS(fold, of, 4)                                                      \
        default: break;                                                                       \
        }                                                                                     \
        for (int64_t k = 0; k < columns; k++) acc[k] = of(x[k]);                              \
        int64_t r = 1;                                                                        \
        for (; r + 4 <= rows; r += 4) {                                                       \
            const T *restrict y = x + r * apart;                                              \
            for (int64_t k = 0; k < columns; k++) {                                           \
                T a = acc[k];                                                                 \
                const T b = of(y[k]), c = of(y[k + apart]), d = of(y[k + 2 * apart]),         \
                        e = of(y[k + 3 * apart]);                                             \
                a = fold(a, b);                                                               \
                a = fold(a, c);                                                               \
                a = fold(a, d);                                                               \
                acc[k] = fold(a, e);                                                          \
            }                                                                                 \
        }                                                                                     \
        for (; r < rows; r++) {                                                               \
            const T *restrict y = x + r * apart;                                              \
            for (int64_t k = 0; k < columns; k++) acc[k] = fold(acc[k], of(y[k]));            \
        }                                                                                     \
    }                                                                                         \
    static void NAME(join_##name)(void *acc_, const void *x_, int64_t columns)                \
    {                                                                                         \
        const T *restrict x = x_;                                                             \
        T *restrict acc = acc_;                                                               \
        for (int64_t k = 0; k < columns; k++) acc[k] = fold(acc[k], x[k]);                    \
    }

/* Rows in sixteen lanes; some rows together, as one alone would wait for its own sums.  The lanes are joined pairwise. */
typedef T NAME(vector) __attribute__((vector_size(GD_REGISTER)));
typedef T NAME(loose) __attribute__((vector_size(GD_REGISTER), aligned(sizeof(T)), may_alias));
enum {
    NAME(PARTS) = LANES * sizeof(T) / GD_REGISTER, /* vectors of a row's lanes */
    NAME(TOGETHER) = NAME(PARTS) < 8 ? 8 / NAME(PARTS) : 1
};

#define LANES_OF(name, of)                                                                                   \
    static inline __attribute__((always_inline)) void NAME(lanes_##name)(const int rows, T *out, const T *x, \
                                                                         int64_t n)                          \
    {                                                                                                        \
        enum { V = NAME(PARTS), W = GD_REGISTER / sizeof(T) };                                               \
        NAME(vector) sum[8 * V] = {{0}};                                                                     \
        int64_t i = 0;                                                                                       \
        for (; i + LANES <= n; i += LANES)                                                                   \
            _Pragma("GCC unroll 8") for (int r = 0; r < rows; r++)                                           \
                _Pragma("GCC unroll 8") for (int v = 0; v < V; v++)                                          \
            {                                                                                                \
                const NAME(vector) y = *(const NAME(loose) *)(const void *)(x + r * n + i + v * W);          \
                sum[r * V + v] += of(y);                                                                     \
            }                                                                                                \
        for (int r = 0; r < rows; r++) {                                                                     \
            T lane[LANES];                                                                                   \
            memcpy(lane, &sum[r * V], sizeof lane);                                                          \
            for (int k = 0; i + k < n; k++) lane[k] += of(x[r * n + i + k]);                                 \
            for (int width = LANES / 2; width; width /= 2)                                                   \
                for (int k = 0; k < width; k++) lane[k] += lane[k + width];                                  \
            out[r] = lane[0];                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void NAME(row_##name)(void *out_, const void *x_, int64_t rows, int64_t n)                        \
    {                                                                                                        \
        const T *x = x_;                                                                                     \
        T *out = out_;                                                                                       \
        int64_t r = 0;                                                                                       \
        for (; r + NAME(TOGETHER) <= rows; r += NAME(TOGETHER))                                              \
            NAME(lanes_##name)(NAME(TOGETHER), out + r, x + r * n, n);                                       \
        for (; r < rows; r++) NAME(lanes_##name)(1, out + r, x + r * n, n);                                  \
    }

static void NAME(row_prod)(void *out_, const void *x_, int64_t rows, int64_t n)
{
    const T *restrict x = x_;
    T *restrict out = out_;
    for (int64_t r = 0; r < rows; r++, x += n) {
        T lane[WIDE];
        for (int k = 0; k < WIDE; k++) lane[k] = 1;
        int64_t i = 0;
        for (; i + WIDE <= n; i += WIDE)
            for (int k = 0; k < WIDE; k++) lane[k] *= x[i + k];
        for (int k = 0; i + k < n; k++) lane[k] *= x[i + k];
        for (int width = WIDE / 2; width; width /= 2)
            for (int k = 0; k < width; k++) lane[k] *= lane[k + width];
        out[r] = lane[0];
    }
}

/* The order changes no extreme, nor does an element that is seen twice: the last ones of a row.  NaNs, which no comparison sees, are
 * noted apart. */
typedef BITS NAME(mask) __attribute__((vector_size(GD_REGISTER)));

#define ROW_EXTREME(name, beyond)                                                                            \
    static inline __attribute__((always_inline)) void NAME(look_##name)(NAME(mask) * best, NAME(mask) * nan, \
                                                                        NAME(vector) y)                      \
    {                                                                                                        \
        const NAME(mask) more = y beyond(NAME(vector)) * best;                                               \
        *best = ((NAME(mask))y & more) | (*best & ~more);                                                    \
        *nan |= y != y;                                                                                      \
    }                                                                                                        \
    static void NAME(row_##name)(void *out_, const void *x_, int64_t rows, int64_t n)                        \
    {                                                                                                        \
        enum { W = GD_REGISTER / sizeof(T), ALL = 4 * W };                                                   \
        const T *x = x_;                                                                                     \
        T *out = out_;                                                                                       \
        for (int64_t r = 0; r < rows; r++, x += n) {                                                         \
            const NAME(mask) none = (NAME(mask))((NAME(vector)){0} + (T)NAME(begin_##name));                 \
            NAME(mask) best[4] = {none, none, none, none}, nan[2] = {{0}};                                   \
            T lane[W], most = (T)NAME(begin_##name);                                                         \
            BITS bad[W], some = 0;                                                                           \
            int64_t i = 0;                                                                                   \
            for (; i + ALL <= n; i += ALL)                                                                   \
                _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) NAME(look_##name)(                       \
                    &best[k], &nan[k % 2], *(const NAME(loose) *)(const void *)(x + i + k * W));             \
            for (; i + W <= n; i += W)                                                                       \
                NAME(look_##name)(&best[0], &nan[0], *(const NAME(loose) *)(const void *)(x + i));           \
            if (i && i < n)                                                                                  \
                NAME(look_##name)(&best[1], &nan[1], *(const NAME(loose) *)(const void *)(x + n - W));       \
            for (int k = 1; k < 4; k++) NAME(look_##name)(&best[0], &nan[0], (NAME(vector))best[k]);         \
            nan[0] |= nan[1];                                                                                \
            memcpy(lane, &best[0], sizeof lane);                                                             \
            memcpy(bad, &nan[0], sizeof bad);                                                                \
            for (int k = 0; k < W; k++) most = lane[k] beyond most ? lane[k] : most, some |= bad[k];         \
            for (; i < n && n < W; i++) most = x[i] beyond most ? x[i] : most, some |= x[i] != x[i];         \
            out[r] = some ? (T)NAN : most;                                                                   \
        }                                                                                                    \
    }

/* As in a row: `begin` turns -0 into 0 in a sum, lanes without elements change nothing. */
#define SHORT_ROWS(name, fold, of)                                                                        \
    static void NAME(short_rows_##name)(void *out_, const void *x, int64_t rows, int64_t n)               \
    {                                                                                                     \
        T tile[GD_TILE_LONG][GD_TILE_ROWS], *restrict out = out_;                                         \
        NAME(turn)(tile, GD_TILE_ROWS, x, n, rows, n);                                                    \
        for (int64_t k = 0; k < n; k++)                                                                   \
            for (int64_t r = 0; r < rows; r++) tile[k][r] = of(tile[k][r]);                               \
        for (int64_t r = 0; r < rows; r++) tile[0][r] = fold((T)NAME(begin_##name), tile[0][r]);          \
        for (int width = LANES / 2; width; width /= 2)                                                    \
            for (int k = 0; k < width && k + width < n; k++)                                              \
                for (int r = 0; r < GD_TILE_ROWS; r++) tile[k][r] = fold(tile[k][r], tile[k + width][r]); \
        for (int64_t r = 0; r < rows; r++) out[r] = tile[0][r];                                           \
    }

/* Rows of up to four numbers by loops of constant length. */
static void NAME(turn)(void *to_, int64_t to_apart, const void *from_, int64_t from_apart, int64_t rows,
                       int64_t columns)
{
    T *restrict to = to_;
    const T *restrict from = from_;
#define FEW(n)                                                                  \
    if (columns == n && from_apart == n) {                                      \
        for (int64_t r = 0; r < rows; r++)                                      \
            for (int c = 0; c < n; c++) to[c * to_apart + r] = from[r * n + c]; \
        return;                                                                 \
    }
    FEW(2)
    FEW(3)
    FEW(4)
#undef FEW
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r++) to[c * to_apart + r] = from[r * from_apart + c];
}

static const T NAME(begin_sum) = 0, NAME(begin_squares) = 0, NAME(begin_prod) = 1,
               NAME(begin_max) = -INFINITY, NAME(begin_min) = INFINITY;
COLUMNS(sum, FOLD_SUM, )
COLUMNS(squares, FOLD_SUM, SQUARE)
COLUMNS(prod, FOLD_PROD, )
COLUMNS(max, FOLD_MAX, )
COLUMNS(min, FOLD_MIN, )
LANES_OF(sum, )
LANES_OF(squares, SQUARE)
SHORT_ROWS(sum, FOLD_SUM, )
SHORT_ROWS(squares, FOLD_SUM, SQUARE)
SHORT_ROWS(prod, FOLD_PROD, )
SHORT_ROWS(max, FOLD_MAX, )
SHORT_ROWS(min, FOLD_MIN, )
ROW_EXTREME(max, >)
ROW_EXTREME(min, <)

/* Indices are stored as wide as T, for vectorisation: row numbers of a chunk, which are small. */
static inline __attribute__((always_inline)) void NAME(places_of)(const int count, T *acc, int64_t *place,
                                                                  const T *x, int64_t apart, int64_t rows,
                                                                  int64_t first, T sign)
{
    T best[WIDE], at[WIDE];
    for (int k = 0; k < count; k++) best[k] = sign * x[k], at[k] = 0;
    for (int64_t r = 1; r < rows; r++) {
        const T *restrict y = x + r * apart;
        T now = (T)r;
        for (int k = 0; k < count; k++) {
            T b = sign * y[k], old = best[k];
            int better = ((b > old) | (b != b)) & (old == old);
            best[k] = better ? b : old;
            at[k] = better ? now : at[k];
        }
    }
    for (int k = 0; k < count; k++) acc[k] = sign * best[k];
    for (int k = 0; k < count; k++) place[k] = first + (int64_t)at[k];
}

static void NAME(places)(void *acc_, int64_t *restrict place, const void *x_, int64_t apart, int64_t rows,
                         int64_t columns, int64_t first, double sign_)
{
    const T *restrict x = x_, sign = (T)sign_;
    T *restrict acc = acc_;
    int64_t c = 0;
    for (; c + WIDE <= columns; c += WIDE)
        NAME(places_of)(WIDE, acc + c, place + c, x + c, apart, rows, first, sign);
    switch (columns - c) {
    case 0: break;
    case 1: NAME(places_of)(1, acc + c, place + c, x + c, apart, rows, first, sign); break;
    case 2: NAME(places_of)(2, acc + c, place + c, x + c, apart, rows, first, sign); break;
    case 3: NAME(places_of)(3, acc + c, place + c, x + c, apart, rows, first, sign); break;
    case 4: NAME(places_of)(4, acc + c, place + c, x + c, apart, rows, first, sign); break;
    default: NAME(places_of)((int)(columns - c), acc + c, place + c, x + c, apart, rows, first, sign);
    }
}

/* ---- exponentials ---- */

static void NAME(exp_columns)(void *to_, int64_t to_apart, const void *x_, int64_t apart, int64_t rows,
                              int64_t columns, double scale_, const double *shift_, double *restrict sum)
{
    const T *restrict x = x_, scale = (T)scale_;
    T *restrict to = to_, shift[GD_STRIP], part[GD_STRIP], thrown[GD_STRIP];
    for (int64_t c = 0; c < columns; c++) shift[c] = (T)-shift_[c];
    for (int64_t first = 0; first < rows; first += ADDED) {
        int64_t last = rows - first < ADDED ? rows : first + ADDED;
        for (int64_t c = 0; c < columns; c++) part[c] = 0;
        for (int64_t r = first; r < last; r++) {
            const T *restrict y = x + r * apart;
            T *restrict z = to ? to + r * to_apart : thrown;
            for (int64_t c = 0; c < columns; c++) z[c] = F(exp)(scale * y[c] + shift[c]);
            for (int64_t c = 0; c < columns; c++) part[c] += z[c];
        }
        for (int64_t c = 0; c < columns; c++) sum[c] += (double)part[c];
    }
}

static void NAME(scale_columns)(void *to_, int64_t apart, int64_t rows, int64_t columns,
                                const double *factor_)
{
    T *restrict to = to_, factor[GD_STRIP];
    for (int64_t c = 0; c < columns; c++) factor[c] = (T)factor_[c];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[r * apart + c] *= factor[c];
}

static void NAME(shift_columns)(void *to_, int64_t to_apart, const void *x_, int64_t apart, int64_t rows,
                                int64_t columns, const double *term_)
{
    const T *restrict x = x_;
    T *restrict to = to_, term[GD_STRIP];
    for (int64_t c = 0; c < columns; c++) term[c] = (T)term_[c];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[r * to_apart + c] = x[r * apart + c] + term[c];
}

static void NAME(shifts)(double *restrict shift, const void *acc_, int64_t columns, double scale)
{
    const T *restrict acc = acc_;
    for (int64_t c = 0; c < columns; c++) {
        double most = scale * (double)acc[c];
        shift[c] = ((most - most == 0) | (most != most)) ? most : 0;
    }
}

static void NAME(logs)(double *restrict to, const double *restrict sum, const double *restrict shift,
                       int64_t columns)
{
    for (int64_t c = 0; c < columns; c++) to[c] = (double)F(log)((T)sum[c]) + shift[c];
}

static void NAME(from_f64)(void *to_, const double *restrict x, int64_t n, int64_t step)
{
    T *restrict to = to_;
    for (int64_t i = 0; i < n; i++) to[i * step] = (T)x[i];
}

#define BLOCK 1024

static double NAME(exp_row)(void *to_, const void *x_, int64_t n, double scale_, double shift_)
{
    const T *restrict x = x_, scale = (T)scale_, shift = (T)-shift_;
    T *restrict to = to_, thrown[BLOCK], part;
    double sum = 0;
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t count = n - i < BLOCK ? n - i : BLOCK;
        T *restrict z = to ? to + i : thrown;
        for (int64_t k = 0; k < count; k++) z[k] = F(exp)(scale * x[i + k] + shift);
        NAME(row_sum)(&part, z, 1, count);
        sum += (double)part;
    }
    return sum;
}

static void NAME(scale_row)(void *to_, int64_t n, double factor_)
{
    T *restrict to = to_, factor = (T)factor_;
    for (int64_t i = 0; i < n; i++) to[i] *= factor;
}

static void NAME(shift_row)(void *to_, const void *x_, int64_t n, double term_)
{
    const T *restrict x = x_, term = (T)term_;
    T *restrict to = to_;
    for (int64_t i = 0; i < n; i++) to[i] = x[i] + term;
}

static void NAME(softmax_grad)(void *to_, const void *g_, const void *y_, int64_t apart, int64_t rows,
                               int64_t columns, double factor)
{
    const T *restrict g = g_, *restrict y = y_;
    T *restrict to = to_;
    double dot[GD_STRIP];
    for (int64_t c = 0; c < columns; c++) dot[c] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) dot[c] += (double)g[r * apart + c] * (double)y[r * apart + c];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[r * apart + c] = (T)(factor * (double)y[r * apart + c] * ((double)g[r * apart + c] - dot[c]));
}

static void NAME(less_shares)(void *to_, const void *g_, const void *y_, const void *share_, int64_t across,
                              int64_t n)
{
    const T *restrict g = g_, *restrict y = y_, *restrict share = share_, one = *share;
    T *restrict to = to_;
    if (across)
        for (int64_t i = 0; i < n; i++) to[i] = g[i] - F(exp)(y[i]) * share[i];
    else
        for (int64_t i = 0; i < n; i++) to[i] = g[i] - F(exp)(y[i]) * one;
}

/* ---- sums of rows in f64: sixteen lanes, then the lanes pairwise ---- */

#define ADD_UP(lane)                               \
    for (int width = LANES / 2; width; width /= 2) \
        for (int k = 0; k < width; k++) (lane)[k] += (lane)[k + width];

static void NAME(softmax_grad_row)(void *to_, const void *g_, const void *y_, int64_t n, double factor)
{
    const T *restrict g = g_, *restrict y = y_;
    T *restrict to = to_;
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += (double)g[i + k] * (double)y[i + k];
    for (int k = 0; i + k < n; k++) lane[k] += (double)g[i + k] * (double)y[i + k];
    ADD_UP(lane)
    double dot = lane[0];
    for (i = 0; i < n; i++) to[i] = (T)(factor * (double)y[i] * ((double)g[i] - dot));
}

static void NAME(moments)(const void *x_, int64_t n, double eps, double *mean, double *rate)
{
    const T *restrict x = x_;
    double lane[LANES] = {0}, square[LANES] = {0};
    int64_t i = 0;
    if (n < LANES) {
        for (; i < n; i++) lane[0] += (double)x[i];
        *mean = lane[0] / (double)n;
        for (i = 0; i < n; i++) square[0] += ((double)x[i] - *mean) * ((double)x[i] - *mean);
        *rate = 1 / sqrt(square[0] / (double)n + eps);
        return;
    }
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += (double)x[i + k];
    for (int k = 0; i + k < n; k++) lane[k] += (double)x[i + k];
    ADD_UP(lane)
    double m = lane[0] / (double)n;
    for (i = 0; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) square[k] += ((double)x[i + k] - m) * ((double)x[i + k] - m);
    for (int k = 0; i + k < n; k++) square[k] += ((double)x[i + k] - m) * ((double)x[i + k] - m);
    ADD_UP(square)
    *mean = m;
    *rate = 1 / sqrt(square[0] / (double)n + eps);
}

static void NAME(standardize)(void *to_, const void *x_, int64_t n, double mean, double rate,
                              const void *weight_, const void *bias_)
{
    const T *restrict x = x_, *restrict weight = weight_, *restrict bias = bias_;
    T *restrict to = to_;
    if (weight)
        for (int64_t i = 0; i < n; i++)
            to[i] = (T)(((double)x[i] - mean) * rate * (double)weight[i] + (double)bias[i]);
    else
        for (int64_t i = 0; i < n; i++) to[i] = (T)(((double)x[i] - mean) * rate);
}

static void NAME(standardize_grad)(void *to_, const void *g_, const void *x_, int64_t n, double mean,
                                   double rate, const void *weight_)
{
    const T *restrict g = g_, *restrict x = x_, *restrict weight = weight_;
    T *restrict to = to_;
    double h[LANES] = {0}, hy[LANES] = {0}, count = (double)n;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double v = weight ? (double)g[i + k] * (double)weight[i + k] : (double)g[i + k];
            h[k] += v;
            hy[k] += v * ((double)x[i + k] - mean) * rate;
        }
    for (int k = 0; i + k < n; k++) {
        double v = weight ? (double)g[i + k] * (double)weight[i + k] : (double)g[i + k];
        h[k] += v;
        hy[k] += v * ((double)x[i + k] - mean) * rate;
    }
    ADD_UP(h)
    ADD_UP(hy)
    double along = hy[0] / count, level = h[0] / count;
    if (weight)
        for (i = 0; i < n; i++) {
            double y = ((double)x[i] - mean) * rate;
            to[i] = (T)(rate * ((double)g[i] * (double)weight[i] - level - y * along));
        }
    else
        for (i = 0; i < n; i++) {
            double y = ((double)x[i] - mean) * rate;
            to[i] = (T)(rate * ((double)g[i] - level - y * along));
        }
}

static void NAME(norm_sums)(double *restrict weight, double *restrict bias, const void *g_, const void *x_,
                            int64_t n, double mean, double rate)
{
    const T *restrict g = g_, *restrict x = x_;
    for (int64_t i = 0; i < n; i++) {
        bias[i] += (double)g[i];
        weight[i] += (double)g[i] * ((double)x[i] - mean) * rate;
    }
}

/* Sums of few columns stay in registers. */
static void NAME(running)(void *to_, const void *x_, int64_t step, int64_t rows, int64_t columns)
{
    const T *restrict x = x_;
    T *restrict to = to_;
#define FEW(n)                                                          \
    if (columns == n) {                                                 \
        T sum[n] = {0};                                                 \
        for (int64_t r = 0; r < rows; r++, x += step, to += step)       \
            for (int c = 0; c < n; c++) to[c] = sum[c] = sum[c] + x[c]; \
        return;                                                         \
    }
    FEW(1)
    FEW(2)
    FEW(3)
    FEW(4)
#undef FEW
    for (int64_t c = 0; c < columns && rows; c++) to[c] = 0 + x[c];
    for (int64_t r = 1; r < rows; r++) {
        const T *restrict before = to;
        x += step, to += step;
        for (int64_t c = 0; c < columns; c++) to[c] = before[c] + x[c];
    }
}

/* The same of each of some rows, from its first or its last element on. */
static void NAME(running_rows)(void *to_, const void *x_, int64_t rows, int64_t n, bool reverse)
{
    const T *restrict x = x_;
    T *restrict to = to_;
#define FEW(length)                                                     \
    if (n == length && !reverse) {                                      \
        for (int64_t r = 0; r < rows; r++, x += length, to += length) { \
            T sum = 0;                                                  \
            for (int k = 0; k < length; k++) to[k] = sum = sum + x[k];  \
        }                                                               \
        return;                                                         \
    }
    FEW(2)
    FEW(3)
    FEW(4)
#undef FEW
    for (int64_t r = 0; r < rows; r++, x += n, to += n) {
        T sum = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t at = reverse ? n - 1 - k : k;
            to[at] = sum = sum + x[at];
        }
    }
}

#undef FOLD_SUM
#undef FOLD_PROD
#undef SQUARE
#undef FOLD_MAX
#undef FOLD_MIN
#undef FEW_COLUMNS
#undef COLUMNS
#undef SHORT_ROWS
#undef ROW_EXTREME
#undef LANES_OF
#undef ADD_UP
#undef BLOCK

/* ---- copies ---- */

/* Constant lengths and steps let the compiler vectorise it. */
static inline __attribute__((always_inline)) void NAME(few_runs)(T *restrict to, const T *restrict from,
                                                                 const gd_runs *u, int n)
{
    for (int64_t o = 0; o < u->outer; o++, from += u->far) {
        const T *restrict row = from;
        for (int64_t r = 0; r < u->rows; r++, row += u->apart, to += n)
            for (int k = 0; k < n; k++) to[k] = row[k * u->step];
    }
}

static void NAME(one_run)(T *restrict to, const T *restrict from, int64_t n, int64_t step)
{
    if (step == 0) {
        const T value = *from;
        for (int64_t k = 0; k < n; k++) to[k] = value;
    } else if (step == 1)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (step == 2)
        for (int64_t k = 0; k < n; k++) to[k] = from[k * 2];
    else
        for (int64_t k = 0; k < n; k++) to[k] = from[k * step];
}

static void NAME(runs)(void *to_, const void *from_, const gd_runs *u)
{
    T *restrict to = to_;
    const T *restrict from = from_;
    switch (u->n) {
    case 1:
        for (int64_t o = 0; o < u->outer; o++, to += u->rows, from += u->far)
            NAME(one_run)(to, from, u->rows, u->apart);
        return;
    case 2: NAME(few_runs)(to, from, u, 2); return;
    case 3: NAME(few_runs)(to, from, u, 3); return;
    case 4: NAME(few_runs)(to, from, u, 4); return;
    case 8: NAME(few_runs)(to, from, u, 8); return;
    default: break;
    }
    for (int64_t o = 0; o < u->outer; o++, from += u->far) {
        const T *restrict row = from;
        for (int64_t r = 0; r < u->rows; r++, row += u->apart, to += u->n)
            NAME(one_run)(to, row, u->n, u->step);
    }
}

static void NAME(padded)(void *to_, int64_t n, double fill_, const void *from_, int64_t size, int64_t step,
                         int64_t begin, int64_t by)
{
    T *restrict to = to_;
    const T *restrict from = from_, fill = (T)fill_;
    int64_t k = begin < 0 ? (by - 1 - begin) / by : 0, end = begin < n ? (n - 1 - begin) / by + 1 : 0;
    if (end > size) end = size;
    int64_t first = k < end ? begin + k * by : n;
    for (int64_t i = 0; i < first; i++) to[i] = fill;
    if (k >= end) return;
    to += first;
    from += k * step;
    n -= first;
    end -= k;
    if (by == 1 && step == 1)
        memcpy(to, from, (size_t)end * sizeof *to);
    else if (by == 2 && 2 * end <= n)
        for (int64_t i = 0; i < end; i++) to[2 * i] = from[i * step], to[2 * i + 1] = fill;
    else
        for (int64_t i = 0; i < end; i++) {
            to[i * by] = from[i * step];
            for (int64_t j = 1; j < by && i * by + j < n; j++) to[i * by + j] = fill;
        }
    for (int64_t i = end * by; i < n; i++) to[i] = fill;
}
