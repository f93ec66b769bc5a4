/* Kernels of pooling.h for T, with NAME(name) and WHOLE, the integer of its size.
 *
 * Windows of a row are computed together, position by position of the window: column x * stride + shift of the image for window x.
 * A maximum is NaN if one of its numbers is; its gradient goes to the first of equal ones. */

/* The windows first..last-1 of a row whose position `x` is in the image. */
static void NAME(seen)(const gd_pooling *p, int64_t x, int64_t *first, int64_t *last)
{
    int64_t shift = x - p->padding, end = p->width - 1 - shift;
    *first = shift < 0 ? (-shift + p->stride - 1) / p->stride : 0;
    *last = end < 0 ? 0 : end / p->stride + 1;
    if (*last > p->across) *last = p->across;
    if (*first > *last) *first = *last;
}

/* The rows of the image in windows of row `line`: first..last-1. */
static void NAME(rows_seen)(const gd_pooling *p, int64_t line, int64_t *first, int64_t *last)
{
    int64_t top = line * p->stride - p->padding;
    *first = top < 0 ? 0 : top;
    *last = top + p->size < p->height ? top + p->size : p->height;
}

/* `count` windows from that one on, in the order of the result: its plane, row and column. */
typedef struct NAME(run) {
    const T *plane;
    int64_t y, x, count;
} NAME(run);

/* The values at position (a, b) of the windows, -infinity outside the image. */
static void NAME(numbers_at)(const gd_pooling *p, NAME(run) r, int64_t a, int64_t b, T *restrict to)
{
    int64_t s = p->stride, first, last, shift = b - p->padding;
    NAME(seen)(p, b, &first, &last);
    while (r.count) {
        int64_t i = r.y * s + a - p->padding, end = r.x + r.count < p->across ? r.x + r.count : p->across;
        int64_t left = r.x > first ? r.x : first, right = last < end ? last : end;
        if (i < 0 || i >= p->height || left >= right) left = right = end;
        T *out = to - r.x;
        const T *row = r.plane + i * p->width + shift;
        for (int64_t k = r.x; k < left; k++) out[k] = -(T)INFINITY;
        if (s == 2)
            for (int64_t k = left; k < right; k++) out[k] = row[2 * k];
        else
            for (int64_t k = left; k < right; k++) out[k] = row[k * s];
        for (int64_t k = right; k < end; k++) out[k] = -(T)INFINITY;
        to += end - r.x;
        r.count -= end - r.x;
        r.x = 0;
        if (++r.y == p->down) r.y = 0, r.plane += p->height * p->width;
    }
}

/* Their maxima, and in `place` the first position of each in the window. */
static void NAME(highest_of)(const gd_pooling *p, const NAME(run) * r, T *restrict best,
                             WHOLE *restrict place)
{
    T v[SOME];
    for (int64_t x = 0; x < r->count; x++) best[x] = -(T)INFINITY;
    for (int64_t a = 0, k = 0; a < p->size; a++)
        for (int64_t b = 0; b < p->size; b++, k++) {
            NAME(numbers_at)(p, *r, a, b, v);
            if (place)
                for (int64_t x = 0; x < r->count; x++) {
                    WHOLE take = (v[x] > best[x]) | ((v[x] != v[x]) & (best[x] == best[x]));
                    best[x] = take ? v[x] : best[x];
                    place[x] = take ? (WHOLE)k : place[x];
                }
            else
                for (int64_t x = 0; x < r->count; x++)
                    best[x] = ((v[x] > best[x]) | (v[x] != v[x])) ? v[x] : best[x];
        }
}

/* Moves to the windows after the run, at most SOME of `left`. */
static void NAME(next_run)(const gd_pooling *p, NAME(run) * r, int64_t left)
{
    for (r->x += r->count; r->x >= p->across; r->x -= p->across)
        if (++r->y == p->down) r->y = 0, r->plane += p->height * p->width;
    r->count = left < SOME ? left : SOME;
}

static void NAME(highest_planes)(const gd_pooling *p, const T *plane, int64_t planes, T *out)
{
    NAME(run) r = {.plane = plane};
    for (int64_t left = planes * p->down * p->across; left > 0; left -= r.count, out += r.count) {
        NAME(next_run)(p, &r, left);
        NAME(highest_of)(p, &r, out, NULL);
    }
}

static void NAME(highest_grad_planes)(const gd_pooling *p, const T *plane, int64_t planes, const T *g, T *to)
{
    T best[SOME];
    WHOLE place[SOME];
    NAME(run) r = {.plane = plane};
    int32_t row[SOME], column[SOME]; /* of each place of the window, where it has few */
    int64_t places = p->size * p->size;
    for (int64_t k = 0; k < places && k < SOME; k++)
        row[k] = (int32_t)(k / p->size), column[k] = (int32_t)(k % p->size);
    memset(to, 0, (size_t)(planes * p->height * p->width) * sizeof(T));
    for (int64_t left = planes * p->down * p->across; left > 0; left -= r.count, g += r.count) {
        NAME(next_run)(p, &r, left);
        for (int64_t k = 0; k < r.count; k++) place[k] = -1;
        NAME(highest_of)(p, &r, best, place);
        T *pixels = to + (r.plane - plane);
        int64_t y = r.y, x = r.x;
        for (int64_t k = 0; k < r.count; k++) {
            int64_t top = y * p->stride - p->padding, beside = x * p->stride - p->padding, at = place[k], a,
                    b;
            if (at < 0) /* all are -infinity: the first */
                a = top < 0 ? -top : 0, b = beside < 0 ? -beside : 0;
            else if (at < SOME)
                a = row[at], b = column[at];
            else
                a = at / p->size, b = at % p->size;
            pixels[(top + a) * p->width + beside + b] += g[k];
            if (++x < p->across) continue;
            x = 0;
            if (++y == p->down) y = 0, pixels += p->height * p->width;
        }
    }
}

/* Rows of few windows: one window after the other. */
static void NAME(mean_few)(const gd_pooling *p, const T *plane, int64_t line, T *out)
{
    int64_t top, bottom;
    NAME(rows_seen)(p, line, &top, &bottom);
    for (int64_t x = 0; x < p->across; x++) {
        int64_t left = x * p->stride - p->padding, right = left + p->size;
        if (left < 0) left = 0;
        if (right > p->width) right = p->width;
        T sum = 0;
        for (int64_t i = top; i < bottom; i++)
            for (int64_t j = left; j < right; j++) sum += plane[i * p->width + j];
        out[x] = sum / (T)(p->size * p->size);
    }
}

static void NAME(mean_row)(const gd_pooling *p, const T *plane, int64_t line, T *restrict out)
{
    int64_t top, bottom, s = p->stride;
    T count = (T)(p->size * p->size);
    if (p->across < FEW) {
        NAME(mean_few)(p, plane, line, out);
        return;
    }
    NAME(rows_seen)(p, line, &top, &bottom);
    for (int64_t x = 0; x < p->across; x++) out[x] = 0;
    for (int64_t i = top; i < bottom; i++)
        for (int64_t k = 0; k < p->size; k++) {
            int64_t first, last;
            NAME(seen)(p, k, &first, &last);
            const T *restrict row = plane + i * p->width + k - p->padding;
            if (s == 2)
                for (int64_t x = first; x < last; x++) out[x] += row[2 * x];
            else
                for (int64_t x = first; x < last; x++) out[x] += row[x * s];
        }
    for (int64_t x = 0; x < p->across; x++) out[x] /= count;
}

/* The gradient of one row of pixels: those of the rows of windows that contain it are added first. */
static void NAME(mean_grad_row)(const gd_pooling *p, const T *g, int64_t i, T *restrict to)
{
    int64_t s = p->stride, end = i + p->padding, first = end - p->size + 1;
    first = first > 0 ? (first + s - 1) / s : 0;
    int64_t last = end / s + 1 < p->down ? end / s + 1 : p->down;
    T share = 1 / (T)(p->size * p->size), sum[SOME];
    memset(to, 0, (size_t)p->width * sizeof(T));
    for (int64_t left = 0; left < p->across; left += SOME) {
        int64_t count = p->across - left < SOME ? p->across - left : SOME;
        for (int64_t x = 0; x < count; x++) sum[x] = 0;
        for (int64_t y = first; y < last; y++)
            for (int64_t x = 0; x < count; x++) sum[x] += g[y * p->across + left + x];
        for (int64_t x = 0; x < count; x++) sum[x] *= share;
        for (int64_t k = 0; k < p->size; k++) {
            int64_t from, until, shift = left * s + k - p->padding;
            NAME(seen)(p, k, &from, &until);
            from = from > left ? from - left : 0;
            until = until - left < count ? until - left : count;
            if (s == 1)
                for (int64_t x = from; x < until; x++) to[x + shift] += sum[x];
            else
                for (int64_t x = from; x < until; x++) to[x * s + shift] += sum[x];
        }
    }
}

/* ---- tasks: groups of planes ---- */

#define PLANES                                                                                            \
    const gd_pooling *p = arg;                                                                            \
    int64_t first = task * p->group, count = p->planes - first < p->group ? p->planes - first : p->group; \
    int64_t pixels = first * p->height * p->width, windows = first * p->down * p->across;

static void NAME(highest)(void *arg, int64_t task)
{
    PLANES
    NAME(highest_planes)(p, (const T *)(const void *)p->x + pixels, count, (T *)(void *)p->to + windows);
}

static void NAME(mean)(void *arg, int64_t task)
{
    PLANES
    const T *x = (const T *)(const void *)p->x + pixels;
    T *to = (T *)(void *)p->to + windows;
    for (int64_t k = 0; k < count * p->down; k++)
        NAME(mean_row)(p, x + k / p->down * p->height * p->width, k % p->down, to + k * p->across);
}

static void NAME(highest_grad)(void *arg, int64_t task)
{
    PLANES
    NAME(highest_grad_planes)
    (p, (const T *)(const void *)p->x + pixels, count, (const T *)(const void *)p->g + windows,
     (T *)(void *)p->to + pixels);
}

static void NAME(mean_grad)(void *arg, int64_t task)
{
    PLANES
    const T *g = (const T *)(const void *)p->g + windows;
    T *to = (T *)(void *)p->to + pixels;
    for (int64_t k = 0; k < count * p->height; k++)
        NAME(mean_grad_row)(p, g + k / p->height * p->down * p->across, k % p->height, to + k * p->width);
}
#undef PLANES
