/* Kernels of pooling.h for T, with NAME(name) and WHOLE, the integer of its size.
 *
 * Windows of a row are computed side by side, place by place of the window: column x * stride + shift of the image for window x.
 * A maximum is NaN if one of its numbers is; its gradient goes to the first of equal ones. */

/* Windows first..last-1 of a row have their place `x` in the image. */
static void NAME(seen)(const gd_pooling *p, int64_t x, int64_t *first, int64_t *last)
{
    int64_t shift = x - p->padding, end = p->width - 1 - shift;
    *first = shift < 0 ? (-shift + p->stride - 1) / p->stride : 0;
    *last = end < 0 ? 0 : end / p->stride + 1;
    if (*last > p->across) *last = p->across;
    if (*first > *last) *first = *last;
}

/* The rows of the image that windows of row `line` see: first..last-1. */
static void NAME(rows_seen)(const gd_pooling *p, int64_t line, int64_t *first, int64_t *last)
{
    int64_t top = line * p->stride - p->padding;
    *first = top < 0 ? 0 : top;
    *last = top + p->size < p->height ? top + p->size : p->height;
}

/* Windows w..w+count-1 of a plane, whole rows or part of one: what place (a, b) of the window has, -infinity outside the image. */
static void NAME(numbers_at)(const gd_pooling *p, const T *plane, int64_t w, int64_t count, int64_t a, int64_t b,
                             T *restrict to)
{
    int64_t s = p->stride, first, last, shift = b - p->padding;
    NAME(seen)(p, b, &first, &last);
    for (int64_t done = 0; done < count;) {
        int64_t y = (w + done) / p->across, x = (w + done) % p->across, i = y * s + a - p->padding;
        int64_t end = x + count - done < p->across ? x + count - done : p->across, left = x > first ? x : first;
        int64_t right = last < end ? last : end;
        bool inside = i >= 0 && i < p->height && left < right;
        T *out = to + done - x;
        if (!inside) left = right = end;
        const T *row = plane + i * p->width + shift;
        for (int64_t k = x; k < left; k++) out[k] = -(T)INFINITY;
        if (s == 2)
            for (int64_t k = left; k < right; k++) out[k] = row[2 * k];
        else
            for (int64_t k = left; k < right; k++) out[k] = row[k * s];
        for (int64_t k = right; k < end; k++) out[k] = -(T)INFINITY;
        done += end - x;
    }
}

/* Their maxima, and with `place` where in the window they are first. */
static void NAME(highest_of)(const gd_pooling *p, const T *plane, int64_t w, int64_t count, T *restrict best,
                             WHOLE *restrict place)
{
    T v[SOME];
    for (int64_t x = 0; x < count; x++) best[x] = -(T)INFINITY;
    for (int64_t k = 0; k < p->size * p->size; k++) {
        NAME(numbers_at)(p, plane, w, count, k / p->size, k % p->size, v);
        if (place)
            for (int64_t x = 0; x < count; x++) {
                WHOLE take = (v[x] > best[x]) | ((v[x] != v[x]) & (best[x] == best[x]));
                best[x] = take ? v[x] : best[x];
                place[x] = take ? (WHOLE)k : place[x];
            }
        else
            for (int64_t x = 0; x < count; x++)
                best[x] = (v[x] > best[x]) | (v[x] != v[x]) ? v[x] : best[x];
    }
}

static void NAME(highest_plane)(const gd_pooling *p, const T *plane, T *out)
{
    for (int64_t w = 0, all = p->down * p->across; w < all; w += SOME)
        NAME(highest_of)(p, plane, w, all - w < SOME ? all - w : SOME, out + w, NULL);
}

static void NAME(highest_grad_plane)(const gd_pooling *p, const T *plane, const T *g, T *to)
{
    T best[SOME];
    WHOLE place[SOME];
    for (int64_t w = 0, all = p->down * p->across; w < all; w += SOME) {
        int64_t count = all - w < SOME ? all - w : SOME, y = w / p->across, x = w % p->across;
        for (int64_t k = 0; k < count; k++) place[k] = -1;
        NAME(highest_of)(p, plane, w, count, best, place);
        for (int64_t k = 0; k < count; k++) {
            int64_t top = y * p->stride - p->padding, left = x * p->stride - p->padding, at = place[k];
            int64_t a = at / p->size, b = at - a * p->size;
            if (at < 0) a = top < 0 ? -top : 0, b = left < 0 ? -left : 0; /* all are -infinity: the first */
            to[(top + a) * p->width + left + b] += g[w + k];
            if (++x == p->across) x = 0, y++;
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

/* The gradient of one row of pixels: those of the windows' rows that see it are added first. */
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

#define PLANES(name, body)                                                                           \
    static void NAME(name)(void *arg, int64_t task)                                                  \
    {                                                                                                \
        const gd_pooling *p = arg;                                                                   \
        int64_t end = (task + 1) * p->group < p->planes ? (task + 1) * p->group : p->planes;         \
        for (int64_t k = task * p->group; k < end; k++) body                                         \
    }
#define IMAGE   ((const T *)(const void *)p->x + k * p->height * p->width)
#define WINDOWS ((const T *)(const void *)p->g + k * p->down * p->across)
#define POOLED  ((T *)(void *)p->to + k * p->down * p->across)
#define PIXELS  ((T *)(void *)p->to + k * p->height * p->width)
PLANES(highest, {
    NAME(highest_plane)(p, IMAGE, POOLED);
})
PLANES(mean, {
    for (int64_t y = 0; y < p->down; y++) NAME(mean_row)(p, IMAGE, y, POOLED + y * p->across);
})
PLANES(highest_grad, {
    memset(PIXELS, 0, (size_t)(p->height * p->width) * sizeof(T));
    NAME(highest_grad_plane)(p, IMAGE, WINDOWS, PIXELS);
})
PLANES(mean_grad, {
    for (int64_t i = 0; i < p->height; i++) NAME(mean_grad_row)(p, WINDOWS, i, PIXELS + i * p->width);
})
#undef PLANES
#undef IMAGE
#undef WINDOWS
#undef POOLED
#undef PIXELS
