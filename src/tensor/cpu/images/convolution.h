/* Convolutions without unfolded copies: a thread copies a tile of an image with its padding, so that each tap of the window
 * reads one run of memory, and correlates it with the weights.
 *
 *     copy of a channel              the result, of the same pitch; columns beyond `columns` are dropped
 *     +-------------------+          +-----------------+..+
 *     | 0  0  0  0  0  0  |          | row 0           |  |
 *     | 0  image          |          | row 1           |  |
 *     | 0                 |          +-----------------+..+
 *     +-------------------+          result[q] = sum over taps of weight[tap] * copy[offset[tap] + q]
 *
 * With a stride, pixels whose rows and columns leave the same remainder are a separate plane (a phase), so that runs stay contiguous.
 * The gradient of the image is the same: a correlation of the result's gradient, one for each phase of the image.
 *
 * A number is one chain of fused multiply-adds over the taps (weights: over the pixels, in as many chains as a cache line has
 * numbers), so bits depend neither on the instruction set nor on how work is cut among threads. */
#ifndef GD_TENSOR_CPU_IMAGES_CONVOLUTION_H
#define GD_TENSOR_CPU_IMAGES_CONVOLUTION_H

#include <stdbool.h>
#include <stdint.h>

enum {
    GD_CONV_BLOCK = 8, /* output channels together: their weights are packed tap by tap */
    GD_CONV_PAST = 16  /* positions computed beyond the last one: less than a vector */
};

/* Positions are computed tile by tile: a band of rows and a span of columns of an image. */
typedef struct gd_conv_grid {
    int64_t rows, columns; /* positions of an image */
    int64_t band, bands, span, spans;
} gd_conv_grid;

typedef struct gd_conv_tile {
    int64_t image, top, left, rows, columns;
} gd_conv_tile;

static inline gd_conv_tile gd__conv_tile_at(const gd_conv_grid *g, int64_t unit)
{
    gd_conv_tile t = {.image = unit / (g->bands * g->spans)};
    t.top = unit / g->spans % g->bands * g->band;
    t.left = unit % g->spans * g->span;
    t.rows = g->rows - t.top < g->band ? g->rows - t.top : g->band;
    t.columns = g->columns - t.left < g->span ? g->columns - t.left : g->span;
    return t;
}

/* How tiles of an image are copied: row r, column x of a phase (a, b) are row (top + r) * stride + a + origin[0] and column
 * (left + x) * stride + b + origin[1] of the image, zeros outside. */
typedef struct gd_conv_copy {
    int64_t channels, height, width;
    int64_t stride, phases[2], origin[2];
    int64_t pitch; /* of the copy's rows */
} gd_conv_copy;

/* The elements of a result whose rows and columns leave one remainder. */
typedef struct gd_conv_phase {
    int64_t taps;
    const int64_t *offset; /* of each tap in the copy */
    const char *weights;   /* packed: [block][tap][output of the block] */
    int64_t first[2];      /* row and column of the result for position (0, 0); may be outside */
} gd_conv_phase;

/* y = start + correlation of x with the weights. */
typedef struct gd_correlation {
    gd_conv_copy from;
    const char *x;
    char *y;
    const char *start; /* one number per output; NULL: 0 */
    int64_t batch, outputs, height, width;
    gd_conv_grid grid;
    int64_t stride;   /* from one position to the next in the result */
    int64_t reach[2]; /* rows and columns that taps read ahead */
    int64_t phases;
    const gd_conv_phase *phase;
    int64_t tasks, bytes; /* scratch of a task */
    char *scratch;
} gd_correlation;

/* Gradients of weights: sums over positions of g[output] * copy[offset[tap]]. */
typedef struct gd_conv_sums {
    gd_conv_copy from, seed; /* of x and of g, which have the same pitch */
    const char *x, *g;
    int64_t batch, outputs, taps;
    const int64_t *offset;
    gd_conv_grid grid;
    int64_t reach[2];
    int64_t images, groups; /* a unit is a tile of a group of images */
    int64_t slabs, parts;   /* units of a slab are summed one after the other; parts of the outputs */
    int64_t bytes;
    char *scratch, *sums; /* sums: [slab][output][tap] */
    bool careful;         /* contains infinity or NaN: numbers beyond the columns must not be read */
} gd_conv_sums;

typedef struct gd_conv_table {
    void (*pack)(void *to, const void *w, int64_t outputs, int64_t taps, int64_t step, const int64_t *place);
    void (*correlate)(void *arg, int64_t task); /* of gd_correlation */
    void (*sum)(void *arg, int64_t task);       /* of gd_conv_sums */
} gd_conv_table;

/* Numbers after a copy that may be read. */
static inline int64_t gd__conv_slack(int64_t pitch, const int64_t reach[2])
{
    return (reach[0] + 1) * pitch + 2 * reach[1] + GD_CONV_PAST;
}

/* The elements of a copy, without slack. */
static inline int64_t gd__conv_copy_size(const gd_conv_copy *c, int64_t rows)
{
    return c->channels * c->phases[0] * c->phases[1] * rows * c->pitch;
}

/* f32 and f64 */
extern const gd_conv_table gd__conv_base[2], gd__conv_avx2[2], gd__conv_avx512[2];

#endif
