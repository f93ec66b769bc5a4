/* Contour lines by marching squares.
 *
 * The curve z == level crosses an edge of the grid where the level is between the values at its ends.  Each cell joins the edges it
 * crosses in pairs, so every crossed edge has at most two partners, one on either side, and the curves are found by walking
 * from partner to partner.  Edges: 2 * (row * columns + column) + 0 to the right, + 1 downwards. */
#include "plot/plot_internal.h"

#include <math.h>
#include <string.h>

typedef struct grid {
    gd_ctx *ctx;
    const double *z;
    int columns, rows;
    double level;
    int (*partner)[2]; /* of each edge, -1: none */
    bool *done;
    size_t edges;
    double *xy; /* of the line being walked */
    size_t points;
    size_t xy_bytes;
} grid;

static double value(const grid *g, int column, int row)
{
    return g->z[(size_t)row * (size_t)g->columns + (size_t)column];
}

static int edge(const grid *g, int column, int row, int down)
{
    return 2 * (row * g->columns + column) + down;
}

static void join(grid *g, int a, int b)
{
    g->partner[a][g->partner[a][0] >= 0] = b;
    g->partner[b][g->partner[b][0] >= 0] = a;
}

/* Joins the crossed edges of one cell.  With four crossings the mean of the corners decides the pairing. */
static void cell(grid *g, int column, int row)
{
    double a = value(g, column, row), b = value(g, column + 1, row);
    double c = value(g, column + 1, row + 1), d = value(g, column, row + 1);
    if (!isfinite(a) || !isfinite(b) || !isfinite(c) || !isfinite(d)) return;
    int top = edge(g, column, row, 0), left = edge(g, column, row, 1);
    int bottom = edge(g, column, row + 1, 0), right = edge(g, column + 1, row, 1);
    bool above[4] = {a > g->level, b > g->level, c > g->level, d > g->level};
    int crossed[4], count = 0;
    if (above[0] != above[1]) crossed[count++] = top;
    if (above[1] != above[2]) crossed[count++] = right;
    if (above[2] != above[3]) crossed[count++] = bottom;
    if (above[3] != above[0]) crossed[count++] = left;
    if (count == 2) {
        join(g, crossed[0], crossed[1]);
    } else if (count == 4) {
        bool centre = (a + b + c + d) / 4 > g->level;
        join(g, top, centre == above[0] ? right : left);
        join(g, bottom, centre == above[0] ? left : right);
    }
}

/* The point where the curve crosses an edge. */
static void crossing(const grid *g, int e, double out[2])
{
    int column = e / 2 % g->columns, row = e / 2 / g->columns, down = e % 2;
    double a = value(g, column, row), b = value(g, column + !down, row + down);
    double t = (g->level - a) / (b - a);
    out[0] = column + (down ? 0 : t);
    out[1] = row + (down ? t : 0);
}

static bool add_point(grid *g, int e)
{
    if (!gd__grow(g->ctx, &g->xy, &g->xy_bytes, (g->points + 1) * 2 * sizeof *g->xy)) return false;
    crossing(g, e, g->xy + 2 * g->points++);
    g->done[e] = true;
    return true;
}

/* The unvisited partner; -1 where it ends. */
static int onward(const grid *g, int e)
{
    for (int k = 0; k < 2; k++)
        if (g->partner[e][k] >= 0 && !g->done[g->partner[e][k]]) return g->partner[e][k];
    return -1;
}

/* The curve from an edge on, to its other end or back to the start. */
static bool walk(grid *g, int start)
{
    g->points = 0;
    int last = start;
    for (int e = start; e >= 0; e = onward(g, e)) {
        if (!add_point(g, e)) return false;
        last = e;
    }
    bool around = g->points > 2 && (g->partner[last][0] == start || g->partner[last][1] == start);
    return !around || add_point(g, start);
}

gd_status gd__contour(gd_ctx *ctx, const double *z, int columns, int rows, double level,
                      void (*line)(void *user, const double *xy, size_t points), void *user)
{
    grid g = {.ctx = ctx, .z = z, .columns = columns, .rows = rows, .level = level};
    g.edges = 2 * (size_t)columns * (size_t)rows;
    g.partner = gd__alloc_array(ctx, g.edges, sizeof *g.partner);
    g.done = gd__calloc(ctx, g.edges);
    gd_status status = g.partner && g.done ? GD_OK : GD_NOMEM;
    if (!status) memset(g.partner, 0xFF, g.edges * sizeof *g.partner);
    for (int row = 0; row + 1 < rows && !status; row++)
        for (int column = 0; column + 1 < columns; column++) cell(&g, column, row);
    /* open curves from their ends first, then closed ones */
    for (int closed = 0; closed < 2 && !status; closed++) {
        for (size_t e = 0; e < g.edges && !status; e++) {
            if (g.done[e] || g.partner[e][0] < 0 || (!closed && g.partner[e][1] >= 0)) continue;
            if (!walk(&g, (int)e))
                status = GD_NOMEM;
            else
                line(user, g.xy, g.points);
        }
    }
    gd__free(ctx, g.partner, g.edges * sizeof *g.partner);
    gd__free(ctx, g.done, g.edges);
    gd__free(ctx, g.xy, g.xy_bytes);
    return status;
}
