/* Windows of images: unfold2d copies them out, fold2d adds them back.
 *
 * The image is [batch, channel, height, width]; the windows are, with k a place in the window and l a window,
 *   layout 0   [channel, k, batch, l]     one matrix [channel k, batch l] for a convolution
 *   layout 1   [batch, channel, l, k]     windows are contiguous for a pooling
 * attrs.i = window height, window width, stride, padding, image height, image width, layout, what is added to the stride
 * along the width, pixels that a window skips along height and width;
 * attrs.f[0] = the value of the padding (unfold2d).  A plane (batch, channel) belongs to one thread. */
#include "tensor/cpu/cpu.h"

#include <string.h>

typedef struct windows {
    int64_t batch, channels, height, width;
    int64_t tall, wide, padding, stride[2], dilation[2]; /* of the window */
    int64_t down, across;                                /* windows in a plane */
    int64_t step_batch, step_channel, step_place, step_window;
    const char *from;
    char *to;
    const void *fill;
    size_t item;
    gd_dtype dtype;
    int64_t group; /* planes a task */
} windows;

static windows windows_of(const gd_call *call, const gd_tensor *image, const gd_tensor *columns)
{
    const int64_t *i = call->attrs->i;
    windows w = {.batch = image->size[0], .channels = image->size[1], .height = i[4], .width = i[5]};
    w.tall = i[0];
    w.wide = i[1];
    w.padding = i[3];
    for (int k = 0; k < 2; k++) {
        w.stride[k] = i[2] + (k ? i[7] : 0);
        w.dilation[k] = i[8 + k] + 1;
    }
    w.down = (w.height + 2 * w.padding - 1 - (w.tall - 1) * w.dilation[0]) / w.stride[0] + 1;
    w.across = (w.width + 2 * w.padding - 1 - (w.wide - 1) * w.dilation[1]) / w.stride[1] + 1;
    bool together = i[6];
    int64_t places = w.tall * w.wide, count = w.down * w.across;
    w.step_window = together ? places : 1;
    w.step_place = together ? 1 : w.batch * count;
    w.step_channel = together ? places * count : places * w.batch * count;
    w.step_batch = together ? w.channels * places * count : count;
    w.from = call->in[0]->data;
    w.to = call->out[0]->data;
    w.item = gd__item_size(columns);
    w.dtype = columns->dtype;
    w.group = GD_MICROBATCH / (places * count + 1) + 1;
    return w;
}

/* One row of windows at position (y, x) of the window: windows first..last-1 have it inside the image, at `image` and on. */
typedef struct row {
    int64_t column; /* where window 0 is, in elements from the plane's first */
    int64_t image;  /* where window `first` reads, in elements from the plane's first */
    int64_t first, last;
} row;

static row row_at(const windows *w, int64_t y, int64_t x, int64_t line)
{
    row r = {.column = (y * w->wide + x) * w->step_place + line * w->across * w->step_window};
    int64_t stride = w->stride[1], at = line * w->stride[0] - w->padding + y * w->dilation[0];
    int64_t before = w->padding - x * w->dilation[1], after = w->width - 1 + before;
    if (at < 0 || at >= w->height) return r;
    if (before > 0) r.first = (before + stride - 1) / stride;
    if (after >= 0) r.last = after / stride + 1;
    if (r.last > w->across) r.last = w->across;
    if (r.first > r.last) r.first = r.last;
    r.image = at * w->width + r.first * stride - before;
    return r;
}

#define UNFOLD(TYPE)                                                                      \
    static void unfold_##TYPE(const windows *w, const void *from, void *to)               \
    {                                                                                     \
        TYPE fill;                                                                        \
        memcpy(&fill, w->fill, sizeof fill);                                              \
        for (int64_t k = 0; k < w->tall * w->wide * w->down; k++) {                       \
            row r = row_at(w, k / w->down / w->wide, k / w->down % w->wide, k % w->down); \
            TYPE *out = (TYPE *)to + r.column;                                            \
            const TYPE *in = (const TYPE *)from + r.image;                                \
            int64_t step = w->step_window, i = 0;                                         \
            for (; i < r.first; i++) out[i * step] = fill;                                \
            for (; i < r.last; i++) out[i * step] = in[(i - r.first) * w->stride[1]];     \
            for (; i < w->across; i++) out[i * step] = fill;                              \
        }                                                                                 \
    }
UNFOLD(uint8_t)
UNFOLD(uint16_t)
UNFOLD(uint32_t)
UNFOLD(uint64_t)

#define FOLD(TYPE)                                                                        \
    static void fold_##TYPE(const windows *w, const void *from, void *to)                 \
    {                                                                                     \
        memset(to, 0, (size_t)(w->height * w->width) * sizeof(TYPE));                     \
        for (int64_t k = 0; k < w->tall * w->wide * w->down; k++) {                       \
            row r = row_at(w, k / w->down / w->wide, k / w->down % w->wide, k % w->down); \
            const TYPE *in = (const TYPE *)from + r.column;                               \
            TYPE *out = (TYPE *)to + r.image;                                             \
            for (int64_t i = r.first; i < r.last; i++)                                    \
                out[(i - r.first) * w->stride[1]] += in[i * w->step_window];              \
        }                                                                                 \
    }
FOLD(float)
FOLD(double)
FOLD(uint64_t)

static void unfold_plane(const windows *w, const char *from, char *to)
{
    switch (w->item) {
    case 1: unfold_uint8_t(w, from, to); break;
    case 2: unfold_uint16_t(w, from, to); break;
    case 4: unfold_uint32_t(w, from, to); break;
    default: unfold_uint64_t(w, from, to); break;
    }
}

static void fold_plane(const windows *w, const char *from, char *to)
{
    if (w->dtype == GD_F32)
        fold_float(w, from, to);
    else if (w->dtype == GD_F64)
        fold_double(w, from, to);
    else
        fold_uint64_t(w, from, to);
}

static void run_planes(void *arg, int64_t task)
{
    const windows *w = arg;
    int64_t end = (task + 1) * w->group, planes = w->batch * w->channels, item = (int64_t)w->item;
    for (int64_t p = task * w->group; p < end && p < planes; p++) {
        int64_t image = p * w->height * w->width * item;
        int64_t column = (p / w->channels * w->step_batch + p % w->channels * w->step_channel) * item;
        if (w->fill)
            unfold_plane(w, w->from + image, w->to + column);
        else
            fold_plane(w, w->from + column, w->to + image);
    }
}

static gd_status run_windows(gd_ctx *ctx, windows *w)
{
    gd__parallel(ctx, (w->batch * w->channels + w->group - 1) / w->group, run_planes, w);
    return GD_OK;
}

gd_status gd__cpu_unfold2d(gd_device *device, const gd_call *call)
{
    const gd_tensor *image = call->in[0], *columns = call->out[0];
    if (columns->numel == 0) return GD_OK;
    windows w = windows_of(call, image, columns);
    gd_tensor *fill = gd__new(device, columns->dtype, 0, NULL); /* freed with the scope of the call */
    gd_status status = fill ? gd_fill(fill, call->attrs->f[0]) : GD_NOMEM;
    if (status) return status;
    w.fill = fill->data;
    return run_windows(device->ctx, &w);
}

gd_status gd__cpu_fold2d(gd_device *device, const gd_call *call)
{
    gd_tensor *image = call->out[0];
    if (image->numel == 0) return GD_OK;
    windows w = windows_of(call, image, call->in[0]);
    return run_windows(device->ctx, &w);
}
