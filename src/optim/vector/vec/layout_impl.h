/* The loops over vectors of one dtype.  No include guard: vec/layout.c includes it once for f32 and once for f64, with
 *
 *     SUFFIX                 of the functions
 *     T                      type of the elements
 *     LOAD, STORE, STREAM    eight of them as f64, and back: through the caches or past them
 *     LOAD_FOUR, STORE_FOUR  four of them
 *     MULADD                 a * b + c of f64 numbers that were loaded
 *     MAGNITUDE_MASK         all bits of an element but its sign
 *
 * and undefines these. */

static double NAME(dot)(const void *x_, const void *y_, int64_t n)
{
    const T *x = x_, *y = y_;
    wide a = {0}, b = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        a += LOAD(x + i) * LOAD(y + i);
        b += LOAD(x + i + 8) * LOAD(y + i + 8);
    }
    if (i < n) {
        TAIL(x, i, n - i);
        TAIL(y, i, n - i);
        a += LOAD(x_tail) * LOAD(y_tail);
        b += LOAD(x_tail + 8) * LOAD(y_tail + 8);
    }
    a += b;
    return add_lanes(&a);
}

static double NAME(apart)(const void *x_, const void *y_, int64_t n)
{
    const T *x = x_, *y = y_;
    wide a = {0}, b = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        wide d = LOAD(x + i) - LOAD(y + i), e = LOAD(x + i + 8) - LOAD(y + i + 8);
        a += d * d;
        b += e * e;
    }
    if (i < n) {
        TAIL(x, i, n - i);
        TAIL(y, i, n - i);
        wide d = LOAD(x_tail) - LOAD(y_tail), e = LOAD(x_tail + 8) - LOAD(y_tail + 8);
        a += d * d;
        b += e * e;
    }
    a += b;
    return add_lanes(&a);
}

static double NAME(sum)(const void *x_, const void *y_, int64_t n)
{
    const T *x = x_;
    (void)y_;
    wide a = {0}, b = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        a += MAGNITUDE(LOAD(x + i));
        b += MAGNITUDE(LOAD(x + i + 8));
    }
    if (i < n) {
        TAIL(x, i, n - i);
        a += MAGNITUDE(LOAD(x_tail));
        b += MAGNITUDE(LOAD(x_tail + 8));
    }
    a += b;
    return add_lanes(&a);
}

static double NAME(largest)(const void *x_, const void *y_, int64_t n)
{
    const T *x = x_;
    (void)y_;
    whole a = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) ENLARGE(a, MAGNITUDE_BITS(LOAD(x + i)));
    if (i < n) {
        TAIL(x, i, n - i);
        ENLARGE(a, MAGNITUDE_BITS(LOAD(x_tail)));
    }
    int64_t most = a[0];
    for (int k = 1; k < 8; k++) most = a[k] > most ? a[k] : most;
    double value;
    memcpy(&value, &most, sizeof value);
    return value;
}

/* Adds the products of the elements from `at` on, fewer than sixteen, one after the other. */
static void NAME(dots_end)(const void *const *rows, int count, const T *x, const T *y, int64_t at, int64_t n,
                           double *out)
{
    pair both[LANES], *sum = (pair *)(void *)out;
    int few = (int)(n - at), r = 0;
    if (few <= 0) return;
    for (int k = 0; k < few; k++) both[k] = (pair){(double)x[at + k], (double)y[at + k]};
    for (; r + 4 <= count; r += 4) {
        const T *a = (const T *)rows[r] + at, *b = (const T *)rows[r + 1] + at;
        const T *c = (const T *)rows[r + 2] + at, *d = (const T *)rows[r + 3] + at;
        pair s[4];
        memcpy(s, sum + r, sizeof s);
        for (int k = 0; k < few; k++) {
            s[0] += (pair){(double)a[k], (double)a[k]} * both[k];
            s[1] += (pair){(double)b[k], (double)b[k]} * both[k];
            s[2] += (pair){(double)c[k], (double)c[k]} * both[k];
            s[3] += (pair){(double)d[k], (double)d[k]} * both[k];
        }
        memcpy(sum + r, s, sizeof s);
    }
    for (; r < count; r++) {
        const T *a = (const T *)rows[r] + at;
        pair s;
        memcpy(&s, sum + r, sizeof s);
        for (int k = 0; k < few; k++) s += (pair){(double)a[k], (double)a[k]} * both[k];
        memcpy(sum + r, &s, sizeof s);
    }
}

/* Products of `count` rows, a constant, with x and y; n: a multiple of sixteen. */
static inline __attribute__((always_inline)) void
NAME(dots_of)(const void *const *rows, int count, const T *x, const T *y, int64_t n, double *out)
{
    wide sum[2 * GROUP] = {{0}};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int r = 0; r < count; r++) ASK((const T *)rows[r] + i);
        for (int k = 0; k < LANES; k += 8) {
            wide xv = LOAD(x + i + k), yv = LOAD(y + i + k);
            for (int r = 0; r < count; r++) {
                wide a = LOAD((const T *)rows[r] + i + k);
                sum[2 * r] = MULADD(a, xv, sum[2 * r]);
                sum[2 * r + 1] = MULADD(a, yv, sum[2 * r + 1]);
            }
        }
    }
    for (int r = 0; r < 2 * count; r++) out[r] = add_lanes(&sum[r]);
}

static void NAME(dots)(const void *const *rows, int count, const void *x, const void *y, int64_t n,
                       double *out)
{
    int64_t whole_blocks = n & ~(int64_t)(LANES - 1);
    int r = whole_blocks ? 0 : count;
    if (!whole_blocks) memset(out, 0, 2 * (size_t)count * sizeof *out);
    for (; r + GROUP <= count; r += GROUP) NAME(dots_of)(rows + r, GROUP, x, y, whole_blocks, out + 2 * r);
    for (; r + 2 <= count; r += 2) NAME(dots_of)(rows + r, 2, x, y, whole_blocks, out + 2 * r);
    for (; r < count; r++) NAME(dots_of)(rows + r, 1, x, y, whole_blocks, out + 2 * r);
    NAME(dots_end)(rows, count, x, y, whole_blocks, n, out);
}

static void NAME(move)(void *o_, const void *x_, const void *u_, double a_, int64_t n)
{
    T *o = o_, a = (T)a_;
    const T *x = x_, *u = u_;
    for (int64_t i = 0; i < n; i++) o[i] = x[i] - a * u[i];
}

static void NAME(scale)(void *o_, const void *x_, double a_, int64_t n)
{
    T *o = o_, a = (T)a_;
    const T *x = x_;
    for (int64_t i = 0; i < n; i++) o[i] = a * x[i];
}

static void NAME(free_part)(void *o_, const void *x_, const uint8_t *side, int64_t n)
{
    enum { WIDTH = 64 / sizeof(T) };
    typedef uint8_t flags __attribute__((vector_size(WIDTH), aligned(1), may_alias));
    T *o = o_;
    const T *x = x_;
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        NAME(bits) held = __builtin_convertvector(*(const flags *)(const void *)(side + i), NAME(bits)), kept;
        memcpy(&kept, x + i, sizeof kept);
        kept &= held == 0;
        memcpy(o + i, &kept, sizeof kept);
    }
    for (; i < n; i++) o[i] = side[i] ? 0 : x[i];
}

static double NAME(most_of)(NAME(bits) * lanes)
{
    __typeof__((*lanes)[0]) most = 0;
    for (unsigned k = 0; k < 64 / sizeof(T); k++) most = (*lanes)[k] > most ? (*lanes)[k] : most;
    T value;
    memcpy(&value, &most, sizeof value);
    return (double)value;
}

static inline __typeof__(((NAME(bits)){0})[0]) NAME(bits_of)(T x)
{
    __typeof__(((NAME(bits)){0})[0]) bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* most: the largest magnitudes of s and y; far: NULL, or a second destination, written past the caches */
static void NAME(pair)(void *s_, void *y_, void *before_p_, void *before_g_, const void *p_, const void *g_,
                       int64_t n, double most[2], void *const *far)
{
    enum { WIDTH = 64 / sizeof(T) };
    T *s = s_, *y = y_, *bp = before_p_, *bg = before_g_;
    const T *p = p_, *g = g_;
    T *far_s = far ? far[0] : NULL, *far_y = far ? far[1] : NULL;
    NAME(bits) of_s = {0}, of_y = {0};
    int64_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        ASK_NEXT(p + i, 0);
        ASK_NEXT(g + i, 0);
        ASK_NEXT(bp + i, 0);
        ASK_NEXT(bg + i, 0);
        NAME(values) pi, gi, bpi, bgi, si, yi;
        memcpy(&pi, p + i, sizeof pi);
        memcpy(&gi, g + i, sizeof gi);
        memcpy(&bpi, bp + i, sizeof bpi);
        memcpy(&bgi, bg + i, sizeof bgi);
        si = pi - bpi;
        yi = gi - bgi;
        memcpy(s + i, &si, sizeof si);
        memcpy(y + i, &yi, sizeof yi);
        memcpy(bp + i, &pi, sizeof pi);
        memcpy(bg + i, &gi, sizeof gi);
        if (!far) {
            ASK_NEXT(s + i, 1);
            ASK_NEXT(y + i, 1);
        } else {
            stream_line(far_s + i, &si);
            stream_line(far_y + i, &yi);
        }
        ENLARGE(of_s, (NAME(bits))si & MAGNITUDE_MASK);
        ENLARGE(of_y, (NAME(bits))yi & MAGNITUDE_MASK);
    }
    for (; i < n; i++) {
        T si = p[i] - bp[i], yi = g[i] - bg[i];
        s[i] = si;
        y[i] = yi;
        bp[i] = p[i];
        bg[i] = g[i];
        if (far) far_s[i] = si, far_y[i] = yi;
        __typeof__(of_s[0]) s_bits = NAME(bits_of)(si) & MAGNITUDE_MASK,
                            y_bits = NAME(bits_of)(yi) & MAGNITUDE_MASK;
        if (s_bits > of_s[0]) of_s[0] = s_bits;
        if (y_bits > of_y[0]) of_y[0] = y_bits;
    }
    if (far) STREAM_END();
    most[0] = NAME(most_of)(&of_s);
    most[1] = NAME(most_of)(&of_y);
}

/* o = c x + sum_r coef[r] row[r], in f64, rounded once at the end.  o may be x.  past: o is too long to stay in a cache, and need
 * not be read before it is written. */
static inline __attribute__((always_inline)) void NAME(combine_blocks)(T *o, const T *x, double c,
                                                                       const void *const *rows,
                                                                       const double *coef, int count,
                                                                       int64_t n, bool past)
{
    for (int64_t i = 0; i < n; i += LANES) {
        wide first = c * LOAD(x + i), second = c * LOAD(x + i + 8);
        int r = 0;
        for (; r + 4 <= count; r += 4) {
            const T *a = (const T *)rows[r] + i, *b = (const T *)rows[r + 1] + i;
            const T *d = (const T *)rows[r + 2] + i, *e = (const T *)rows[r + 3] + i;
            ASK(a);
            ASK(b);
            ASK(d);
            ASK(e);
            FOUR(first, 0);
            FOUR(second, 8);
        }
        for (; r < count; r++) {
            const T *a = (const T *)rows[r] + i;
            ASK(a);
            first += coef[r] * LOAD(a);
            second += coef[r] * LOAD(a + 8);
        }
        if (past) {
            STREAM(o + i, first);
            STREAM(o + i + 8, second);
        } else {
            STORE(o + i, first);
            STORE(o + i + 8, second);
        }
    }
    if (past) STREAM_END();
}

static void NAME(combine)(void *o_, const void *x_, double c, const void *const *rows, const double *coef,
                          int count, int64_t n, bool past)
{
    T *o = o_;
    const T *x = x_;
    int64_t whole_blocks = n & ~(int64_t)(LANES - 1);
    bool stream = past && (uintptr_t)o % 64 == 0;
    if (stream && count == USUAL)
        NAME(combine_blocks)(o, x, c, rows, coef, USUAL, whole_blocks, true);
    else if (stream)
        NAME(combine_blocks)(o, x, c, rows, coef, count, whole_blocks, true);
    else
        NAME(combine_blocks)(o, x, c, rows, coef, count, whole_blocks, false);
    int64_t i = whole_blocks;
    for (; i + 4 <= n; i += 4) {
        four sum = c * LOAD_FOUR(x + i);
        int r = 0;
        for (; r + 4 <= count; r += 4) {
            const T *a = (const T *)rows[r] + i, *b = (const T *)rows[r + 1] + i;
            const T *d = (const T *)rows[r + 2] + i, *e = (const T *)rows[r + 3] + i;
            sum += (coef[r] * LOAD_FOUR(a) + coef[r + 1] * LOAD_FOUR(b)) +
                   (coef[r + 2] * LOAD_FOUR(d) + coef[r + 3] * LOAD_FOUR(e));
        }
        for (; r < count; r++) sum += coef[r] * LOAD_FOUR((const T *)rows[r] + i);
        STORE_FOUR(o + i, sum);
    }
    for (; i < n; i++) {
        double sum = c * (double)x[i];
        int r = 0;
        for (; r + 4 <= count; r += 4) {
            const T *a = rows[r], *b = rows[r + 1], *d = rows[r + 2], *e = rows[r + 3];
            sum += (coef[r] * (double)a[i] + coef[r + 1] * (double)b[i]) +
                   (coef[r + 2] * (double)d[i] + coef[r + 3] * (double)e[i]);
        }
        for (; r < count; r++) sum += coef[r] * (double)((const T *)rows[r])[i];
        o[i] = (T)sum;
    }
}

/* Bounds of eight elements from one on; one number for all is repeated eight times. */
#define EDGES(edges)                                                        \
    const T *low = (edges)->low, *high = (edges)->high;                     \
    T all_low[8], all_high[8];                                              \
    for (int k = 0; k < 8; k++) all_low[k] = low[0], all_high[k] = high[0]; \
    if (!(edges)->low_step) low = all_low;                                  \
    if (!(edges)->high_step) high = all_high;                               \
    int64_t low_by = (edges)->low_step ? 8 : 0, high_by = (edges)->high_step ? 8 : 0

static bool NAME(outside)(const void *x_, const gd_edges *edges, int64_t n)
{
    const T *x = x_;
    int64_t i = 0;
    if (n <= 0) return false;
    EDGES(edges);
    /* by the signs of differences, because compilers split vectors to compare them; -0 and NaN are checked again */
    while (i + 8 <= n) {
        whole signs = {0};
        int64_t begin = i;
        const T *block_low = low, *block_high = high;
        for (int64_t end = n - i > 1024 ? i + 1024 : n; i + 8 <= end; i += 8) {
            wide v = LOAD(x + i);
            signs |= (whole)(v - LOAD(low)) | (whole)(LOAD(high) - v);
            low += low_by, high += high_by;
        }
        int64_t any = 0;
        for (int k = 0; k < 8; k++) any |= signs[k];
        for (int64_t k = 0; any < 0 && k < i - begin; k++) {
            int64_t at_low = low_by ? k : 0, at_high = high_by ? k : 0;
            if (x[begin + k] < block_low[at_low] || x[begin + k] > block_high[at_high]) return true;
        }
    }
    for (int k = 0; i < n; i++, k++)
        if (x[i] < low[k] || x[i] > high[k]) return true;
    return false;
}

static int64_t NAME(move_inside)(void *o_, const void *x_, const void *u_, double a, double far,
                                 const gd_edges *edges, int64_t n)
{
    T *o = o_;
    const T *x = x_, *u = u_;
    int64_t i = 0;
    if (n <= 0) return 0;
    EDGES(edges);
    for (; i + 8 <= n; i += 8) {
        wide from = LOAD(x + i), now = from - a * LOAD(u + i),
             edge = far * (MAGNITUDE(from) + MAGNITUDE(now));
        /* negative if there is more room than the edge; values that are not finite stay so */
        whole signs = (whole)(edge - (now - LOAD(low))) & (whole)(edge - (LOAD(high) - now));
        int64_t all = -1;
        for (int k = 0; k < 8; k++) all &= signs[k];
        if (all >= 0) break;
        STORE(o + i, now);
        low += low_by, high += high_by;
    }
    return i;
}
#undef EDGES

/* One row of A += a s s^T + b (s z^T + z s^T) + d z z^T, with s and z at the row's number; A stays symmetric to the bit. */
static void NAME(rank_two)(void *row_, double s_row, double z_row, const void *s_, const void *z_,
                           const double c[3], int64_t n)
{
    T *restrict row = row_;
    const T *restrict s = s_, *restrict z = z_;
    double a = c[0], b = c[1], d = c[2];
    for (int64_t i = 0; i < n; i++) {
        double si = (double)s[i], zi = (double)z[i];
        double change = (a * (s_row * si) + b * (s_row * zi + z_row * si)) + d * (z_row * zi);
        row[i] = (T)((double)row[i] + change);
    }
}
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef STREAM
#undef LOAD_FOUR
#undef STORE_FOUR
#undef MULADD
#undef MAGNITUDE_MASK
