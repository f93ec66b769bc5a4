/* The history of L-BFGS and L-SR1 inside bounds: products and directions over the elements that no bound holds. */
#include "optim/methods/history.h"
#include "optim/step/objective/bounds.h"

#include <math.h>
#include <string.h>

/* Products over the free elements: of all rows with each other and with the update. */
typedef struct free_job {
    gd_history *h;
    gd_var *var;
    gd_tensor *const *update;
    double *partial; /* [spans][2 pairs][2 pairs + 1] */
} free_job;

#define FREE_BYTES 4096 /* of a row: all of them stay in cache */

/* The next row whose products with those of a pair are used: without products s s, later y and the update. */
static int next_row(const gd_history *h, int row, int rows)
{
    return row + 1 >= rows || h->uses_ss ? row + 1 : row + 2;
}

static void free_piece(const free_job *j, const gd_span *span, double *sum, char *room)
{
    const gd_history *h = j->h;
    const gd_layout *l = &h->layout;
    int rows = 2 * h->pairs;
    const uint8_t *side = gd__bounds_sides(j->var, h->params[span->tensor]);
    if (side) side += span->begin;
    for (int i = 0; i <= rows; i++) {
        const void *from =
            i == rows
                ? gd__in_list(l, j->update, span)
                : gd__in_vector(l, gd__history_at(h, i % 2 ? h->y : h->s, gd__history_row(h, i / 2)), span);
        if (side)
            l->loops->free_part(room + (size_t)i * FREE_BYTES, from, side, span->size);
        else
            memcpy(room + (size_t)i * FREE_BYTES, from, (size_t)span->size * l->item);
    }
    for (int i = 0; i < rows; i += 2) {
        const void *list[2 * GD_SOME_PAIRS];
        const char *s = room + (size_t)i * FREE_BYTES, *y = s + FREE_BYTES;
        double two[4 * GD_SOME_PAIRS], *of = sum + i * (rows + 1);
        for (int at = h->uses_ss ? i : i + 1; at <= rows;) {
            int n = 0, row[2 * GD_SOME_PAIRS];
            for (; n < 2 * GD_SOME_PAIRS && at <= rows; at = next_row(h, at, rows)) {
                list[n] = room + (size_t)at * FREE_BYTES;
                row[n++] = at;
            }
            l->loops->dots(list, n, s, y, span->size, two);
            for (int k = 0; k < n; k++) of[row[k]] += two[2 * k], of[rows + 1 + row[k]] += two[2 * k + 1];
        }
    }
}

static void free_span(void *arg, const gd_span *span, int64_t index)
{
    const free_job *j = arg;
    size_t rows = 2 * (size_t)j->h->pairs, size = rows * (rows + 1);
    int64_t most = FREE_BYTES / (int64_t)j->h->layout.item;
    double *block = j->partial + (size_t)index * (size + (rows + 1) * FREE_BYTES / sizeof(double));
    for (int64_t at = 0; at < span->size; at += most) {
        gd_span piece = {span->tensor, span->begin + at, span->at + at,
                         span->size - at < most ? span->size - at : most};
        free_piece(j, &piece, block, (char *)(block + size));
    }
}

static gd_status free_plain(gd_history *h, gd_var *var, gd_tensor *const *update, double *sum)
{
    gd_ctx *ctx = h->layout.ctx;
    size_t rows = 2 * (size_t)h->pairs, size = rows * (rows + 1),
           each = size + (rows + 1) * FREE_BYTES / sizeof(double),
           bytes = (size_t)h->layout.spans * each * sizeof(double);
    free_job j = {.h = h, .var = var, .update = update, .partial = gd__alloc(ctx, bytes)};
    if (!j.partial) return GD_NOMEM;
    for (int i = 0; i < h->layout.spans; i++) memset(j.partial + (size_t)i * each, 0, size * sizeof(double));
    gd__each_span(&h->layout, free_span, &j);
    for (int i = 0; i < h->layout.spans; i++)
        for (size_t k = 0; k < size; k++) sum[k] += j.partial[(size_t)i * each + k];
    gd__free(ctx, j.partial, bytes);
    return GD_OK;
}

/* On other devices: rows, and the update below them, times the mask, times themselves. */
static gd_status free_by_operators(gd_history *h, gd_var *var, gd_tensor *const *update, double *sum)
{
    gd_ctx *ctx = h->layout.ctx;
    int64_t n = h->layout.total, rows = 2 * h->pairs;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *u = gd__history_vector(h, update), *mask = gd_ones(ctx, GD_F64, 1, &n), *s = NULL, *y = NULL;
    gd_status status = u && mask ? gd__history_matrices(h, &s, &y) : gd_error(ctx);
    int64_t at = 0;
    for (int i = 0; i < h->layout.count && !status; i++) {
        const uint8_t *side = gd__bounds_sides(var, h->params[i]);
        for (int64_t k = 0; k < h->params[i]->numel; k++, at++)
            if (side && side[k]) ((double *)(void *)mask->data)[at] = 0;
    }
    gd_tensor *pairs = status ? NULL : gd_stack((gd_tensor *[]){s, y}, 2, 1, NULL);
    pairs = gd_reshape(pairs, 2, (int64_t[]){rows, n});
    gd_tensor *all = pairs ? gd_cat((gd_tensor *[]){pairs, gd_reshape(u, 2, (int64_t[]){1, n})}, 2, "0")
                           : NULL;
    all = all ? gd_mul(all, gd_to_device(gd_cast(mask, h->layout.dtype), h->layout.device)) : NULL;
    gd_tensor *gram = all ? gd_matmul(gd_slice(all, "0", 0, rows, 1), gd_transpose(all, 0, 1)) : NULL;
    status = gram ? gd_read_f64(gram, sum, rows * (rows + 1)) : gd_error(ctx);
    gd__release(u);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

/* The products of those pairs that have curvature over the free elements; which[k] is the number of the k-th of them. */
static gd_status free_pairs(gd_history *h, gd_var *var, gd_tensor *const *update, gd_pairs *p, int *which)
{
    int n = h->pairs, rows = 2 * n, kept = 0;
    size_t size = (size_t)rows * (size_t)(rows + 1), square = (size_t)n * (size_t)n;
    double *sum = gd_link_memory(h->link, (size + 3 * square + 2 * (size_t)n) * sizeof *sum);
    if (!sum) return gd_error(h->layout.ctx);
    gd_status status = gd__plain(&h->layout, update) ? free_plain(h, var, update, sum)
                                                     : free_by_operators(h, var, update, sum);
    double *ss = sum + size, *sy = ss + square, *yy = sy + square, *su = yy + square, *yu = su + n;
#define AT(i, j) sum[(i) < (j) ? (i) * (rows + 1) + (j) : (j) * (rows + 1) + (i)]
    for (int k = 0; k < n; k++)
        if (AT(2 * k, 2 * k + 1) > GD_FLAT_PAIR * AT(2 * k + 1, 2 * k + 1)) which[kept++] = k;
    for (int i = 0; i < kept; i++) {
        int a = 2 * which[i];
        for (int j = 0; j < kept; j++) {
            int b = 2 * which[j];
            ss[i * kept + j] = AT(a, b);
            sy[i * kept + j] = AT(a, b + 1);
            yy[i * kept + j] = AT(a + 1, b + 1);
        }
        su[i] = AT(a, rows);
        yu[i] = AT(a + 1, rows);
    }
#undef AT
    *p = (gd_pairs){.count = kept, .ss = ss, .sy = sy, .yy = yy, .su = su, .yu = yu};
    return status;
}

/* Before the first pair: the gradient, shortened by its projected length; if every element has two bounds it is not shortened,
 * because they limit it. */
static gd_status first_within(gd_history *h, gd_var *var, gd_tensor *const *update, gd_tensor **out)
{
    double sum = var->share->kkt_sum;
    bool shorten = gd_link_flag(h->link, "scale_first") && !var->share->boxed && sum > 1 && isfinite(sum);
    return gd__list_scaled(&h->layout, update, shorten ? 1 / sum : 1, out);
}

gd_status gd__history_direction_within(gd_history *h, gd_var *var, const gd_limited_memory *m,
                                       gd_tensor *const *update, gd_tensor **out)
{
    int n = h->pairs;
    gd_pairs p = {0};
    double c = 1, *coef = gd_link_memory(h->link, (4 * (size_t)n + 1) * sizeof *coef);
    int *which = gd_link_memory(h->link, ((size_t)n + 1) * sizeof *which);
    gd_tensor **masked = gd_link_scratch(h->link, h->layout.count);
    if (!coef || !which || !masked) return gd_error(h->layout.ctx);
    bool is_masked = var->masked && update == var->update;
    gd_status status = is_masked ? GD_OK : gd__bounds_mask(var, update, masked);
    gd_tensor *const *free_part = is_masked ? update : masked;
    if (!status && n) status = free_pairs(h, var, free_part, &p, which);
    if (status || !p.count) return status ? status : first_within(h, var, free_part, out);
    double *cs = coef + 2 * n, *cy = cs + p.count;
    status = m->direction(h->link, &p, &c, cs, cy);
    for (int k = 0; k < p.count; k++) coef[which[k]] = cs[k], coef[n + which[k]] = cy[k];
    if (!status) status = gd__history_combine(h, free_part, c, coef, coef + n, out);
    return status ? status : gd__bounds_mask_here(var, out);
}
