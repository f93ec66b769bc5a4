/* Bundle-like least squares: columns that fall into small blocks of which no two share a row, such as the points of a bundle adjustment,
 * are eliminated block by block, which leaves a dense matrix of the other columns, such as cameras (Schur's complement; Triggs et
 * al. 2000, Bundle Adjustment - A Modern Synthesis).
 *
 *     | H  W' | | e |     S = F - sum over blocks of W_b (H_b + shift)^-1 W_b',  H block diagonal
 *     | W  F  | | f |
 *
 * The blocks are found from the structure: columns with the same rows are one block, and small blocks with few neighbours are taken if no
 * neighbour was taken (a maximal independent set).  S is factored as L D L' in panels. */
#include "optim/solve/numbers/sparse.h"

#include "optim/vector/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NONE       (-1)
#define MOST_BLOCK 8    /* columns of a block that is eliminated */
#define MOST_REST  3000 /* remaining columns */
#define PANEL      48

/* ---- finding the blocks ---- */

typedef struct search {
    gd_ctx *ctx;
    const gd_csr *j;
    uint64_t *key;                  /* [n] hashes of rows */
    int32_t *atom, *order, *size;   /* [n] of a column; columns by key; columns of an atom */
    int32_t *first, *degree, *mark; /* [n] first column of an atom, neighbours */
    uint8_t *state;                 /* [n] of an atom: 1 eliminated, 2 a neighbour of such */
    int32_t atoms;
} search;

typedef struct keyed {
    uint64_t key;
    int32_t column;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->column < y->column ? -1 : x->column > y->column;
}

static bool same_rows(const gd_csr *j, int32_t a, int32_t b)
{
    int64_t count = j->down[a + 1] - j->down[a];
    return count == j->down[b + 1] - j->down[b] &&
           !memcmp(j->row + j->down[a], j->row + j->down[b], (size_t)count * sizeof *j->row);
}

/* Columns with the same rows become one atom. */
static gd_status find_atoms(search *s)
{
    const gd_csr *j = s->j;
    size_t n = (size_t)j->n;
    keyed *list = gd__alloc(s->ctx, n * sizeof *list);
    if (!list) return GD_NOMEM;
    for (int32_t c = 0; c < (int32_t)n; c++) {
        uint64_t key = 1469598103934665603u;
        for (int64_t d = j->down[c]; d < j->down[c + 1]; d++)
            key = (key ^ (uint64_t)j->row[d]) * 1099511628211u;
        list[c] = (keyed){key, c};
    }
    qsort(list, n, sizeof *list, by_key);
    for (size_t k = 0; k < n; k++) {
        int32_t c = list[k].column;
        bool joins = k && list[k - 1].key == list[k].key && same_rows(j, list[k - 1].column, c);
        if (!joins) s->first[s->atoms++] = c;
        s->atom[c] = s->atoms - 1;
        s->size[s->atoms - 1]++;
    }
    gd__free(s->ctx, list, n * sizeof *list);
    return GD_OK;
}

/* Visits each neighbour of an atom once: counts, or blocks them. */
static int32_t neighbours(search *s, int32_t a, bool block)
{
    const gd_csr *j = s->j;
    int32_t c = s->first[a], count = 0;
    for (int64_t d = j->down[c]; d < j->down[c + 1]; d++)
        for (int64_t e = j->start[j->row[d]]; e < j->start[j->row[d] + 1]; e++) {
            int32_t other = s->atom[j->column[e]];
            if (other == a || s->mark[other] == a) continue;
            s->mark[other] = a;
            count++;
            if (block) s->state[other] = 2;
        }
    return count;
}

static void forget_marks(search *s)
{
    for (int64_t a = 0; a < s->j->n; a++) s->mark[a] = NONE;
}

/* Small atoms, those with few neighbours first. */
static void choose_atoms(search *s)
{
    int32_t most = 0, at = 0;
    forget_marks(s);
    for (int32_t a = 0; a < s->atoms; a++) {
        s->degree[a] = neighbours(s, a, false);
        if (s->degree[a] > most) most = s->degree[a];
    }
    /* by counting: `mark` has where the atoms of a degree go */
    memset(s->mark, 0, (size_t)s->j->n * sizeof *s->mark);
    for (int32_t a = 0; a < s->atoms; a++) s->mark[s->degree[a]]++;
    for (int32_t d = 0; d <= most; d++) {
        int32_t count = s->mark[d];
        s->mark[d] = at;
        at += count;
    }
    for (int32_t a = 0; a < s->atoms; a++) s->order[s->mark[s->degree[a]]++] = a;
    forget_marks(s);
    for (int32_t k = 0; k < s->atoms; k++) {
        int32_t a = s->order[k];
        if (s->state[a] || s->size[a] > MOST_BLOCK) continue;
        s->state[a] = 1;
        neighbours(s, a, true);
    }
}

/* ---- the layout ---- */

static bool make_search(search *s)
{
    size_t n = (size_t)s->j->n;
    return (s->atom = gd__calloc(s->ctx, n * sizeof *s->atom)) &&
           (s->order = gd__calloc(s->ctx, n * sizeof *s->order)) &&
           (s->size = gd__calloc(s->ctx, n * sizeof *s->size)) &&
           (s->first = gd__calloc(s->ctx, n * sizeof *s->first)) &&
           (s->degree = gd__calloc(s->ctx, n * sizeof *s->degree)) &&
           (s->mark = gd__calloc(s->ctx, n * sizeof *s->mark)) && (s->state = gd__calloc(s->ctx, n));
}

static void drop_search(search *s)
{
    size_t n = (size_t)s->j->n;
    int32_t *const lists[] = {s->atom, s->order, s->size, s->first, s->degree, s->mark};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) gd__free(s->ctx, lists[i], n * sizeof **lists);
    gd__free(s->ctx, s->state, n);
}

void gd__schur_end(gd_schur *s)
{
    gd_ctx *ctx = s->ctx;
    if (!ctx) return;
    size_t n = (size_t)s->n, rest = (size_t)s->rest;
    gd__free(ctx, s->place, n * sizeof *s->place);
    gd__free(ctx, s->block, ((size_t)s->blocks + 1) * sizeof *s->block);
    gd__free(ctx, s->near, (size_t)s->nears * sizeof *s->near);
    gd__free(ctx, s->column, n * sizeof *s->column);
    gd__free(ctx, s->alone, (size_t)s->alones * sizeof *s->alone);
    gd__free(ctx, s->w, (size_t)s->widths * sizeof *s->w);
    gd__free(ctx, s->h, 2 * (size_t)s->blocks * MOST_BLOCK * MOST_BLOCK * sizeof *s->h);
    gd__free(ctx, s->s, 2 * rest * rest * sizeof *s->s);
    gd__free(ctx, s->room, s->room_numbers * sizeof *s->room);
    gd__free(ctx, s->local, rest * sizeof *s->local);
    *s = (gd_schur){0};
}

/* Places: remaining columns have their number, eliminated columns NONE - their number inside their block. */
static gd_status lay_columns(gd_schur *s, const search *f)
{
    int32_t blocks = 0;
    for (int32_t a = 0; a < f->atoms; a++) blocks += f->state[a] == 1;
    s->place = gd__calloc(s->ctx, (size_t)s->n * sizeof *s->place);
    s->column = gd__calloc(s->ctx, (size_t)s->n * sizeof *s->column);
    s->block = gd__calloc(s->ctx, ((size_t)blocks + 1) * sizeof *s->block);
    int32_t *of = gd__calloc(s->ctx, ((size_t)f->atoms + 1) * sizeof *of);
    gd_status status = s->place && s->column && s->block && of ? GD_OK : GD_NOMEM;
    s->blocks = s->block ? blocks : 0;
    int32_t next = 0, at = 0;
    for (int32_t a = 0; a < f->atoms && !status; a++) {
        if (f->state[a] != 1) continue;
        of[a] = next;
        s->block[next++] = (gd_schur_block){.first = at, .lead = f->first[a]};
        at += f->size[a];
    }
    for (int32_t c = 0; c < s->n && !status; c++) {
        int32_t a = f->atom[c];
        if (f->state[a] != 1) {
            s->place[c] = s->rest;
            s->column[at + s->rest++] = c;
            continue;
        }
        gd_schur_block *b = &s->block[of[a]];
        s->place[c] = NONE - b->size;
        s->column[b->first + b->size++] = c;
    }
    s->eliminated = at;
    gd__free(s->ctx, of, ((size_t)f->atoms + 1) * sizeof *of);
    return status;
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

/* The columns that a block shares rows with: into near (NULL: only counted). */
static int32_t beside(gd_schur *s, const gd_csr *j, int32_t b, int32_t *near)
{
    int32_t c = s->block[b].lead, count = 0;
    for (int64_t d = j->down[c]; d < j->down[c + 1]; d++)
        for (int64_t e = j->start[j->row[d]]; e < j->start[j->row[d] + 1]; e++) {
            int32_t f = s->place[j->column[e]];
            if (f < 0 || s->local[f] == b) continue;
            s->local[f] = b;
            if (near) near[count] = f;
            count++;
        }
    if (near) qsort(near, (size_t)count, sizeof *near, by_number);
    return count;
}

static void forget_local(gd_schur *s)
{
    for (int32_t f = 0; f < s->rest; f++) s->local[f] = NONE;
}

/* Rows without an eliminated column. */
static int64_t rows_alone(const gd_schur *s, const gd_csr *j, int64_t *out)
{
    int64_t count = 0;
    for (int64_t i = 0; i < j->m; i++) {
        bool alone = true;
        for (int64_t e = j->start[i]; e < j->start[i + 1] && alone; e++) alone = s->place[j->column[e]] >= 0;
        if (alone && out) out[count] = i;
        count += alone;
    }
    return count;
}

/* Is elimination worth it?  The dense rest must not cost much more than the blocks, and be the smaller of the two. */
static bool is_bundle(const gd_schur *s, double work)
{
    double rest = (double)s->rest;
    return s->blocks > 1 && s->rest > 0 && s->rest <= MOST_REST && 3 * (int64_t)s->rest <= s->n &&
           rest * rest * rest / 3 <= 4 * work + 1e6;
}

static gd_status lay_blocks(gd_schur *s, const gd_csr *j, bool *fits)
{
    double work = 0;
    int32_t widest = 0;
    if (s->rest > MOST_REST) return GD_OK;
    if (!(s->local = gd__calloc(s->ctx, (size_t)s->rest * sizeof *s->local)))
        return s->rest ? GD_NOMEM : GD_OK;
    forget_local(s);
    for (int32_t b = 0; b < s->blocks; b++) {
        gd_schur_block *k = &s->block[b];
        k->nears = beside(s, j, b, NULL);
        k->near = s->nears;
        k->w = s->widths;
        s->nears += k->nears;
        s->widths += (int64_t)k->nears * k->size;
        work += (double)k->nears * k->nears * k->size;
        if (k->nears > widest) widest = k->nears;
    }
    if (!is_bundle(s, work)) {
        s->nears = s->widths = 0;
        return GD_OK;
    }
    size_t rest = (size_t)s->rest, kept = (size_t)s->nears, widths = (size_t)s->widths;
    s->nears = s->widths = 0; /* kept for the results */
    if ((s->near = gd__alloc(s->ctx, (kept + !kept) * sizeof *s->near))) s->nears = (int64_t)(kept + !kept);
    if ((s->w = gd__alloc(s->ctx, (widths + !widths) * sizeof *s->w)))
        s->widths = (int64_t)(widths + !widths);
    s->h = gd__alloc(s->ctx, 2 * (size_t)s->blocks * MOST_BLOCK * MOST_BLOCK * sizeof *s->h);
    s->s = gd__alloc(s->ctx, 2 * rest * rest * sizeof *s->s);
    s->room_numbers = (size_t)s->n + rest * (PANEL + 3) + (size_t)widest * (MOST_BLOCK + 2);
    s->room = gd__alloc(s->ctx, s->room_numbers * sizeof *s->room);
    int64_t alones = rows_alone(s, j, NULL);
    if ((s->alone = gd__alloc(s->ctx, (size_t)(alones + !alones) * sizeof *s->alone)))
        s->alones = alones + !alones;
    if (!s->near || !s->w || !s->h || !s->s || !s->room || !s->alone) return GD_NOMEM;
    s->rows_alone = rows_alone(s, j, s->alone);
    forget_local(s);
    for (int32_t b = 0; b < s->blocks; b++) beside(s, j, b, s->near + s->block[b].near);
    *fits = true;
    return GD_OK;
}

gd_status gd__schur_begin(gd_ctx *ctx, const gd_csr *j, gd_schur *out, bool *fits)
{
    search f = {.ctx = ctx, .j = j};
    *out = (gd_schur){.ctx = ctx, .n = (int32_t)j->n};
    *fits = false;
    gd_status status = make_search(&f) ? find_atoms(&f) : GD_NOMEM;
    if (!status) {
        choose_atoms(&f);
        status = lay_columns(out, &f);
    }
    if (!status) status = lay_blocks(out, j, fits);
    drop_search(&f);
    if (!*fits || status) gd__schur_end(out);
    return status;
}

/* ---- values ---- */

/* The elements of a row, scaled: of its block into e [size], of the rest with their places into f; returns their number. */
static int32_t read_row(const gd_schur *s, const gd_csr *j, const double *value, const double *inverse,
                        int64_t i, double *e, double *f, int32_t *at)
{
    int32_t count = 0;
    for (int64_t k = j->start[i]; k < j->start[i + 1]; k++) {
        int64_t c = j->column[k];
        double a = value[k] * inverse[c];
        int32_t p = s->place[c];
        if (p < 0)
            e[NONE - p] = a;
        else {
            f[count] = a;
            at[count++] = p;
        }
    }
    return count;
}

static void add_rest(gd_schur *s, const double *f, const int32_t *at, int32_t count)
{
    for (int32_t a = 0; a < count; a++) {
        double *row = s->s + (int64_t)at[a] * s->rest, x = f[a];
        for (int32_t b = 0; b <= a; b++) row[at[b]] += x * f[b];
    }
}

gd_status gd__schur_normal(gd_schur *s, const gd_csr *j, const double *value, const double *scale,
                           const bool *fixed)
{
    double *inverse = s->room, *f = inverse + s->n, e[MOST_BLOCK];
    int32_t *at = gd__alloc(s->ctx, (size_t)s->rest * sizeof *at);
    if (!at) return GD_NOMEM;
    for (int32_t c = 0; c < s->n; c++) inverse[c] = fixed && fixed[c] ? 0 : 1 / scale[c];
    memset(s->s, 0, (size_t)s->rest * (size_t)s->rest * sizeof *s->s);
    memset(s->w, 0, (size_t)s->widths * sizeof *s->w);
    for (int32_t b = 0; b < s->blocks; b++) {
        const gd_schur_block *k = &s->block[b];
        double *h = s->h + (int64_t)b * MOST_BLOCK * MOST_BLOCK, *w = s->w + k->w;
        memset(h, 0, MOST_BLOCK * MOST_BLOCK * sizeof *h);
        for (int32_t t = 0; t < k->nears; t++) s->local[s->near[k->near + t]] = t;
        for (int64_t d = j->down[k->lead]; d < j->down[k->lead + 1]; d++) {
            int32_t count = read_row(s, j, value, inverse, j->row[d], e, f, at);
            for (int32_t p = 0; p < k->size; p++) {
                for (int32_t q = 0; q <= p; q++) h[p * MOST_BLOCK + q] += e[p] * e[q];
                for (int32_t q = 0; q < count; q++) w[(int64_t)p * k->nears + s->local[at[q]]] += e[p] * f[q];
            }
            add_rest(s, f, at, count);
        }
        for (int32_t p = 0; p < k->size; p++)
            if (fixed && fixed[s->column[k->first + p]]) h[p * MOST_BLOCK + p] = 1;
    }
    for (int64_t r = 0; r < s->rows_alone; r++)
        add_rest(s, f, at, read_row(s, j, value, inverse, s->alone[r], e, f, at));
    for (int32_t p = 0; p < s->rest; p++)
        if (fixed && fixed[s->column[s->eliminated + p]]) s->s[(int64_t)p * s->rest + p] = 1;
    gd__free(s->ctx, at, (size_t)s->rest * sizeof *at);
    return GD_OK;
}

/* ---- factors ---- */

/* L of a small block, its pivots inverted: INFINITY if it is left out, which solves it as 0. Returns how many were left out. */
static int64_t factor_block(const double *h, int32_t size, double shift, double tiny, double *l)
{
    int64_t lost = 0;
    for (int32_t p = 0; p < size; p++) {
        double *row = l + p * MOST_BLOCK, pivot = h[p * MOST_BLOCK + p] + shift;
        for (int32_t q = 0; q < p; q++) {
            double x = h[p * MOST_BLOCK + q];
            for (int32_t k = 0; k < q; k++) x -= row[k] * l[q * MOST_BLOCK + k];
            row[q] = x * l[q * MOST_BLOCK + q];
            pivot -= row[q] * row[q];
        }
        bool good = pivot > tiny;
        lost += !good;
        row[p] = good ? 1 / sqrt(pivot) : 0;
    }
    return lost;
}

/* x = L^-1 x over rows of `count` numbers each, [size, count]. */
static void forward_block(const double *l, int32_t size, double *x, int64_t count)
{
    for (int32_t p = 0; p < size; p++) {
        double *to = x + p * count, pivot = l[p * MOST_BLOCK + p];
        for (int32_t q = 0; q < p; q++) {
            const double a = l[p * MOST_BLOCK + q], *from = x + q * count;
            for (int64_t t = 0; t < count; t++) to[t] -= a * from[t];
        }
        for (int64_t t = 0; t < count; t++) to[t] *= pivot;
    }
}

static void backward_block(const double *l, int32_t size, double *x)
{
    for (int32_t p = size - 1; p >= 0; p--) {
        for (int32_t k = p + 1; k < size; k++) x[p] -= l[k * MOST_BLOCK + p] * x[k];
        x[p] *= l[p * MOST_BLOCK + p];
    }
}

/* S -= T' T with T = L^-1 W', at the places of the block, in pieces whose places follow each other. */
static void subtract_block(gd_schur *s, const gd_schur_block *k, const double *l,
                           const gd_vector_loops *loops, double *s_now)
{
    int32_t count = k->nears, size = k->size;
    double *t = s->room + s->n + (int64_t)s->rest * (PANEL + 3), *row = t + (int64_t)count * size,
           coef[MOST_BLOCK];
    const int32_t *near = s->near + k->near;
    const void *rows[MOST_BLOCK];
    memcpy(t, s->w + k->w, (size_t)(count * size) * sizeof *t);
    forward_block(l, size, t, count);
    for (int32_t p = 0; p < size; p++) rows[p] = t + (int64_t)p * count;
    for (int32_t i = 0; i < count; i++) {
        double *to = s_now + (int64_t)near[i] * s->rest;
        for (int32_t p = 0; p < size; p++) coef[p] = t[(int64_t)p * count + i];
        loops->combine(row, rows[0], coef[0], rows + 1, coef + 1, size - 1, i + 1, false);
        for (int32_t q = 0; q <= i;) {
            int32_t end = q + 1;
            double *at = to + near[q] - q;
            while (end <= i && near[end] == near[end - 1] + 1) end++;
            for (; q < end; q++) at[q] -= row[q];
        }
    }
}

/* L D L' of the lower triangle in place, D on the diagonal, in panels of columns: a panel is factored alone, and all its columns are then
 * applied together to the rest. */
static int64_t factor_rest(gd_schur *s, double *a, double tiny, const gd_vector_loops *loops)
{
    int64_t n = s->rest, lost = 0;
    double *turned = s->room + s->n, coef[PANEL]; /* the panel, a row per column */
    double *d = turned + n * PANEL;               /* the pivots, 0 where one is left out */
    const void *rows[PANEL];
    for (int64_t from = 0; from < n; from += PANEL) {
        int64_t to = from + PANEL < n ? from + PANEL : n;
        for (int64_t k = from; k < to; k++) {
            double *row = a + k * n, pivot = row[k];
            for (int64_t q = from; q < k; q++) pivot -= row[q] * row[q] * d[q];
            bool good = pivot > tiny;
            lost += !good;
            row[k] = good ? pivot : INFINITY;
            d[k] = good ? pivot : 0;
            for (int64_t i = k + 1; i < n; i++) {
                double *other = a + i * n, x = other[k];
                for (int64_t q = from; q < k; q++) x -= other[q] * row[q] * d[q];
                other[k] = good ? x / pivot : 0;
            }
        }
        for (int64_t k = from; k < to; k++) {
            rows[k - from] = turned + (k - from) * n;
            for (int64_t i = to; i < n; i++) turned[(k - from) * n + i - to] = a[i * n + k];
        }
        for (int64_t i = to; i < n; i++) {
            for (int64_t k = from; k < to; k++) coef[k - from] = -a[i * n + k] * d[k];
            loops->combine(a + i * n + to, a + i * n + to, 1, rows, coef, (int)(to - from), i - to + 1,
                           false);
        }
    }
    return lost;
}

int64_t gd__schur_factor(gd_schur *s, double shift, double tiny)
{
    size_t all = (size_t)s->rest * (size_t)s->rest, block = MOST_BLOCK * MOST_BLOCK;
    const gd_vector_loops *loops = gd__loops_for(s->ctx, GD_F64);
    double *now = s->s + all, *l = s->h + (size_t)s->blocks * block;
    int64_t lost = 0;
    memcpy(now, s->s, all * sizeof *now);
    for (int64_t k = 0; k < s->rest; k++) now[k * s->rest + k] += shift;
    for (int32_t b = 0; b < s->blocks; b++) {
        lost += factor_block(s->h + (size_t)b * block, s->block[b].size, shift, tiny, l + (size_t)b * block);
        subtract_block(s, &s->block[b], l + (size_t)b * block, loops, now);
    }
    return lost + factor_rest(s, now, tiny, loops);
}

void gd__schur_solve(const gd_schur *s, double *x)
{
    size_t all = (size_t)s->rest * (size_t)s->rest, block = MOST_BLOCK * MOST_BLOCK;
    const double *a = s->s + all, *l = s->h + (size_t)s->blocks * block;
    double *f = s->room + s->n, e[MOST_BLOCK];
    int64_t n = s->rest;
    for (int64_t k = 0; k < n; k++) f[k] = x[s->column[s->eliminated + k]];
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t b = 0; b < s->blocks; b++) { /* pass 0: f -= W H^-1 e; pass 1: e = H^-1 (e - W' f) */
            const gd_schur_block *k = &s->block[b];
            const int32_t *near = s->near + k->near;
            for (int32_t p = 0; p < k->size; p++) {
                const double *w = s->w + k->w + (int64_t)p * k->nears;
                e[p] = x[s->column[k->first + p]];
                for (int32_t t = 0; t < k->nears && pass; t++) e[p] -= w[t] * f[near[t]];
            }
            forward_block(l + (size_t)b * block, k->size, e, 1);
            backward_block(l + (size_t)b * block, k->size, e);
            for (int32_t p = 0; p < k->size; p++) {
                const double *w = s->w + k->w + (int64_t)p * k->nears;
                if (pass) x[s->column[k->first + p]] = e[p];
                for (int32_t t = 0; t < k->nears && !pass; t++) f[near[t]] -= w[t] * e[p];
            }
        }
        if (pass) break;
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < i; k++) f[i] -= a[i * n + k] * f[k];
        for (int64_t i = 0; i < n; i++) f[i] /= a[i * n + i];
        for (int64_t i = n - 1; i >= 0; i--)
            for (int64_t k = 0; k < i; k++) f[k] -= a[i * n + k] * f[i];
    }
    for (int64_t k = 0; k < n; k++) x[s->column[s->eliminated + k]] = f[k];
}
