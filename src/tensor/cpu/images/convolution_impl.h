/* Kernels of convolution.h for T.  Included by vec/conv_kernels.c once per type, with T, NAME(name), VECTOR (bytes of a vector) and
 * FMA(a, b, c) of vectors. */

typedef T NAME(vector) __attribute__((vector_size(VECTOR)));
typedef T NAME(loose) __attribute__((vector_size(VECTOR), aligned(sizeof(T)), may_alias));

enum {
    NAME(WIDTH) = VECTOR / sizeof(T),
    NAME(LANES) = 64 / sizeof(T), /* chains of a sum over pixels */
    NAME(VECTORS) = 64 / VECTOR
};

/* ---- copies ---- */

/* One row of a phase: column x < columns of the copy is x * stride + shift of the image's row. */
static void NAME(copy_row)(const gd_conv_copy *c, const T *restrict row, int64_t shift, int64_t columns,
                           T *restrict to)
{
    int64_t first = shift < 0 ? (-shift + c->stride - 1) / c->stride : 0;
    int64_t last = shift < c->width ? (c->width - 1 - shift) / c->stride + 1 : 0;
    if (last > columns) last = columns;
    if (first > last) first = last;
    for (int64_t x = 0; x < first; x++) to[x] = 0;
    if (c->stride == 1)
        for (int64_t x = first; x < last; x++) to[x] = row[x + shift];
    else if (c->stride == 2)
        for (int64_t x = first; x < last; x++) to[x] = row[x * 2 + shift];
    else
        for (int64_t x = first; x < last; x++) to[x] = row[x * c->stride + shift];
    if (columns < c->pitch) columns = c->pitch;
    for (int64_t x = last; x < columns; x++) to[x] = 0;
}

/* A tile of every channel and phase, of one image; `step` elements from plane to plane. */
static void NAME(copy_tile)(const gd_conv_copy *c, const T *image, const gd_conv_tile *t, T *to, int64_t step)
{
    int64_t shift = t->left * c->stride + c->origin[1], wide = t->columns > c->pitch ? t->columns : c->pitch;
    for (int64_t k = 0; k < c->channels * c->phases[0] * c->phases[1]; k++) {
        int64_t b = k % c->phases[1], a = k / c->phases[1] % c->phases[0];
        const T *plane = image + k / c->phases[1] / c->phases[0] * c->height * c->width;
        for (int64_t r = 0; r < t->rows; r++) {
            int64_t i = (t->top + r) * c->stride + a + c->origin[0];
            T *row = to + k * step + r * c->pitch;
            if (i < 0 || i >= c->height)
                memset(row, 0, (size_t)wide * sizeof(T));
            else
                NAME(copy_row)(c, plane + i * c->width, b + shift, t->columns, row);
        }
    }
}

/* ---- correlation ---- */

static void NAME(pack)(void *to_, const void *w_, int64_t outputs, int64_t taps, int64_t step,
                       const int64_t *place)
{
    T *to = to_;
    const T *w = w_;
    for (int64_t o = 0; o < outputs; o += GD_CONV_BLOCK) {
        int64_t used = outputs - o < GD_CONV_BLOCK ? outputs - o : GD_CONV_BLOCK, block = block_of(used);
        for (int64_t t = 0; t < taps; t++, to += block)
            for (int64_t i = 0; i < block; i++) to[i] = i < used ? w[(o + i) * step + place[t]] : 0;
    }
}

/* `m` outputs at `n` vectors of positions. */
static inline __attribute__((always_inline)) void NAME(tile)(const int m, const int n, const gd_conv_phase *p,
                                                             const T *weights, const T *copy, const T *start,
                                                             T *out, int64_t stride)
{
    NAME(vector) sum[8 * 8];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) sum[i * n + j] = (NAME(vector)){0} + start[i];
    for (int64_t t = 0; t < p->taps; t++, weights += m) {
        const NAME(loose) *from = (const NAME(loose) *)(const void *)(copy + p->offset[t]);
        NAME(vector) x[8];
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) x[j] = from[j];
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            NAME(vector) w = (NAME(vector)){0} + weights[i];
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) sum[i * n + j] = FMA(w, x[j], sum[i * n + j]);
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            *(NAME(loose) *)(void *)(out + i * stride + j * NAME(WIDTH)) = sum[i * n + j];
}

/* All positions for `m` outputs. */
#define STRIP(m, n)                                                                                         \
    static void NAME(strip_##m)(const gd_conv_phase *p, const T *weights, const T *copy, int64_t count,     \
                                const T *start, T *out, int64_t stride)                                     \
    {                                                                                                       \
        int64_t q = 0, wide = (n)*NAME(WIDTH);                                                              \
        for (; q + wide - NAME(WIDTH) < count; q += wide)                                                   \
            NAME(tile)(m, n, p, weights, copy + q, start, out + q, stride);                                 \
        for (; q + NAME(WIDTH) < count; q += 2 * NAME(WIDTH))                                               \
            NAME(tile)(m, 2, p, weights, copy + q, start, out + q, stride);                                 \
        for (; q < count; q += NAME(WIDTH)) NAME(tile)(m, 1, p, weights, copy + q, start, out + q, stride); \
    }
STRIP(8, TILES_8)
STRIP(4, TILES_4)
STRIP(2, TILES_2)
STRIP(1, TILES_1)
#undef STRIP

/* Copies rows of one output from the strip to the result. */
static void NAME(write)(const gd_correlation *c, const gd_conv_phase *p, const T *from, const gd_conv_tile *t,
                        T *plane)
{
    int64_t s = c->stride, left = p->first[1] + t->left * s, first = left < 0 ? (-left + s - 1) / s : 0;
    int64_t last = left < c->width ? (c->width - 1 - left) / s + 1 : 0;
    if (last > t->columns) last = t->columns;
    for (int64_t r = 0; r < t->rows; r++, from += c->from.pitch) {
        int64_t i = (t->top + r) * s + p->first[0];
        if (i < 0 || i >= c->height) continue;
        T *restrict to = plane + i * c->width + left;
        if (s == 1)
            for (int64_t x = first; x < last; x++) to[x] = from[x];
        else
            for (int64_t x = first; x < last; x++) to[x * s] = from[x];
    }
}

static void NAME(correlate_block)(const gd_correlation *c, const gd_conv_phase *p, int64_t o, const T *copy,
                                  const gd_conv_tile *t, T *strip, T *image)
{
    int64_t used = c->outputs - o < GD_CONV_BLOCK ? c->outputs - o : GD_CONV_BLOCK;
    int64_t count = t->rows * c->from.pitch, stride = count + GD_CONV_PAST;
    const T *weights = (const T *)(const void *)p->weights + o * p->taps;
    T start[GD_CONV_BLOCK] = {0};
    for (int64_t i = 0; i < used && c->start; i++) start[i] = ((const T *)(const void *)c->start)[o + i];
    switch (block_of(used)) {
    case 8: NAME(strip_8)(p, weights, copy, count, start, strip, stride); break;
    case 4: NAME(strip_4)(p, weights, copy, count, start, strip, stride); break;
    case 2: NAME(strip_2)(p, weights, copy, count, start, strip, stride); break;
    default: NAME(strip_1)(p, weights, copy, count, start, strip, stride); break;
    }
    for (int64_t i = 0; i < used; i++)
        NAME(write)(c, p, strip + i * stride, t, image + (o + i) * c->height * c->width);
}

static void NAME(correlate)(void *arg, int64_t task)
{
    const gd_correlation *c = arg;
    int64_t units = c->batch * c->grid.bands * c->grid.spans, end = (task + 1) * units / c->tasks;
    int64_t slack = gd__conv_slack(c->from.pitch, c->reach), tall = c->grid.band + c->reach[0];
    T *copy = (T *)(void *)(c->scratch + task * c->bytes);
    T *strip = copy + gd__conv_copy_size(&c->from, tall) + slack;
    memset(strip - slack, 0, (size_t)slack * sizeof(T));
    for (int64_t u = task * units / c->tasks; u < end; u++) {
        gd_conv_tile t = gd__conv_tile_at(&c->grid, u), seen = t;
        seen.rows += c->reach[0];
        seen.columns += c->reach[1];
        const T *x = (const T *)(const void *)c->x +
                     t.image * c->from.channels * c->from.height * c->from.width;
        T *y = (T *)(void *)c->y + t.image * c->outputs * c->height * c->width;
        NAME(copy_tile)(&c->from, x, &seen, copy, tall * c->from.pitch);
        for (int64_t k = 0; k < c->phases; k++)
            for (int64_t o = 0; o < c->outputs; o += GD_CONV_BLOCK)
                NAME(correlate_block)(c, &c->phase[k], o, copy, &t, strip, y);
    }
}

/* ---- gradients of weights ---- */

/* The sum of LANES numbers: halves are added until one is left. */
static inline T NAME(total)(const NAME(vector) * sum)
{
    NAME(vector)
    v = NAME(VECTORS) == 4   ? (sum[0] + sum[2]) + (sum[1] + sum[3])
        : NAME(VECTORS) == 2 ? sum[0] + sum[1]
                             : sum[0];
    return FOLD(v);
}

/* Adds sums over `count` positions, a multiple of LANES, of m outputs and n taps. */
static inline __attribute__((always_inline)) void NAME(dots)(const int m, const int n, const T *g,
                                                             int64_t step, const T *copy,
                                                             const int64_t *offset, int64_t count, T *to,
                                                             int64_t stride)
{
    enum { V = NAME(VECTORS) };
    NAME(vector) sum[4 * 4 * V] = {{0}};
    for (int64_t q = 0; q < count; q += NAME(LANES)) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            NAME(vector) seed[4];
#pragma GCC unroll 4
            for (int i = 0; i < m; i++)
                seed[i] = *(const NAME(loose) *)(const void *)(g + i * step + q + v * NAME(WIDTH));
#pragma GCC unroll 4
            for (int j = 0; j < n; j++) {
                NAME(vector) x = *(const NAME(loose) *)(const void *)(copy + offset[j] + q + v * NAME(WIDTH));
#pragma GCC unroll 4
                for (int i = 0; i < m; i++)
                    sum[(i * n + j) * V + v] = FMA(seed[i], x, sum[(i * n + j) * V + v]);
            }
        }
    }
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) to[i * stride + j] += NAME(total)(&sum[(i * n + j) * V]);
}

#define DOTS(name, m, n)                                                                                  \
    static void NAME(name)(const T *g, int64_t step, const T *copy, const int64_t *offset, int64_t count, \
                           T *to, int64_t stride)                                                         \
    {                                                                                                     \
        NAME(dots)(m, n, g, step, copy, offset, count, to, stride);                                       \
    }
DOTS(dots_many, DOT_ROWS, DOT_TAPS)
DOTS(dots_rows, DOT_ROWS, 1)
DOTS(dots_taps, 1, DOT_TAPS)
DOTS(dots_one, 1, 1)
#undef DOTS

/* Sums of `m` outputs, `count` numbers each, with every tap. */
static void NAME(sum_taps)(const gd_conv_sums *s, int64_t m, const T *g, int64_t count, const T *copy, T *to)
{
    int64_t i = 0, n = s->taps, many = n / DOT_TAPS * DOT_TAPS;
    for (; i + DOT_ROWS <= m; i += DOT_ROWS, g += DOT_ROWS * count, to += DOT_ROWS * n) {
        for (int64_t t = 0; t < many; t += DOT_TAPS)
            NAME(dots_many)(g, count, copy, s->offset + t, count, to + t, n);
        for (int64_t t = many; t < n; t++) NAME(dots_rows)(g, count, copy, s->offset + t, count, to + t, n);
    }
    for (; i < m; i++, g += count, to += n) {
        for (int64_t t = 0; t < many; t += DOT_TAPS)
            NAME(dots_taps)(g, count, copy, s->offset + t, count, to + t, n);
        for (int64_t t = many; t < n; t++) NAME(dots_one)(g, count, copy, s->offset + t, count, to + t, n);
    }
}

/* The same where the copy holds infinity or NaN, which times the zeros beyond the columns would not be 0: of each tap, only the values
 * inside the window are copied to `clean`. */
static void NAME(sum_clean)(const gd_conv_sums *s, int64_t m, const T *g, int64_t count, const T *copy,
                            int64_t images, const gd_conv_tile *tile, T *clean, T *to)
{
    const int64_t here = 0, pitch = s->from.pitch, tall = s->grid.band + s->reach[0];
    for (int64_t t = 0; t < s->taps; t++) {
        memset(clean, 0, (size_t)count * sizeof(T));
        for (int64_t r = 0; r < images * tall; r++)
            if (r % tall < tile->rows)
                memcpy(clean + r * pitch, copy + s->offset[t] + r * pitch, (size_t)tile->columns * sizeof(T));
        for (int64_t i = 0; i < m; i++)
            NAME(dots_one)(g + i * count, count, clean, &here, count, to + i * s->taps + t, s->taps);
    }
}

/* One tile of some images: their copies, then the sums of outputs first..last-1. */
static void NAME(sum_unit)(const gd_conv_sums *s, int64_t unit, int64_t first, int64_t last, T *x, T *g,
                           T *clean, T *to)
{
    gd_conv_tile t = gd__conv_tile_at(&s->grid, unit), seen = t;
    int64_t image = t.image * s->images, m = last - first, tall = s->grid.band + s->reach[0];
    int64_t images = s->batch - image < s->images ? s->batch - image : s->images;
    int64_t piece = tall * s->from.pitch;
    int64_t count = (images * piece + NAME(LANES) - 1) / NAME(LANES) * NAME(LANES);
    gd_conv_copy some = s->seed;
    some.channels = m;
    seen.rows += s->reach[0];
    seen.columns += s->reach[1];
    memset(g, 0, (size_t)(m * count) * sizeof(T));
    for (int64_t k = 0; k < images; k++) {
        const T *from = (const T *)(const void *)s->x, *seed = (const T *)(const void *)s->g;
        from += (image + k) * s->from.channels * s->from.height * s->from.width;
        seed += ((image + k) * s->outputs + first) * s->seed.height * s->seed.width;
        NAME(copy_tile)(&s->from, from, &seen, x + k * piece, s->images * piece);
        NAME(copy_tile)(&some, seed, &t, g + k * piece, count);
    }
    if (s->careful)
        NAME(sum_clean)(s, m, g, count, x, images, &t, clean, to);
    else
        NAME(sum_taps)(s, m, g, count, x, to);
}

static void NAME(sum)(void *arg, int64_t task)
{
    const gd_conv_sums *s = arg;
    int64_t slab = task / s->parts, part = task % s->parts, units = s->groups * s->grid.bands * s->grid.spans;
    int64_t first = part * s->outputs / s->parts, last = (part + 1) * s->outputs / s->parts;
    int64_t end = (slab + 1) * units / s->slabs, room = s->images * (s->grid.band + s->reach[0]);
    int64_t copied = gd__conv_copy_size(&s->from, room) + gd__conv_slack(s->from.pitch, s->reach);
    T *x = (T *)(void *)(s->scratch + task * s->bytes), *clean = x + copied;
    T *g = clean + room * s->from.pitch + NAME(LANES);
    T *to = (T *)(void *)s->sums + (slab * s->outputs + first) * s->taps;
    memset(x, 0, (size_t)copied * sizeof(T));
    memset(to, 0, (size_t)((last - first) * s->taps) * sizeof(T));
    for (int64_t u = slab * units / s->slabs; u < end; u++)
        NAME(sum_unit)(s, u, first, last, x, g, clean, to);
}
