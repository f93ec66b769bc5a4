/* Sums of products over chosen axes: gd_contract by names, gd_einsum by letters or names.
 *
 * Every axis of every operand gets a number, equal numbers for axes that are iterated together.  Operands are joined from
 * left to right; joining two is one matrix product over the indices that are no longer needed,
 *
 *     left  [both needed | left only | both, done]     -> [batch, rows, inner]
 *     right [both needed | both, done | right only]    -> [batch, inner, columns]
 *
 * or, if no index is summed yet, one broadcast multiplication. All of it is recorded operators, so no gradient rule is needed. */
#include "tensor/linalg.h"
#include "base/text/ascii.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

#include <stdlib.h>
#include <string.h>

#define MOST_KEYS 64 /* different axes in one contraction: bits of a set */

typedef uint64_t keys; /* a set of axis numbers */

/* An operand: its tensor and the numbers of its axes. */
typedef struct term {
    gd_tensor *t;
    int key[GD_MAX_DIMS];
} term;

/* The facts about one axis number. */
typedef struct key_info {
    const char *text; /* letter or name, not terminated */
    int length;
    int operand; /* the first that has it, -1: none yet */
    int64_t size;
    gd_axis_source source; /* gives the name and labels of the result's axis */
} key_info;

typedef struct contraction {
    const char *what;
    gd_ctx *ctx;
    int count;
    term *operand;
    int known;
    key_info info[MOST_KEYS];
    int out_ndim;
    int out[GD_MAX_DIMS];
} contraction;

static keys bit(int key) { return (keys)1 << key; }

static keys keys_of(const term *a)
{
    keys set = 0;
    for (int i = 0; i < a->t->ndim; i++) set |= bit(a->key[i]);
    return set;
}

/* The number of a letter or name, a new one if it has not been seen; -1 with an error when there are too many. */
static int key_of(contraction *c, const char *text, int length)
{
    for (int k = 0; k < c->known; k++)
        if (c->info[k].length == length && !strncmp(c->info[k].text, text, (size_t)length)) return k;
    if (c->known == MOST_KEYS) {
        (void)gd_fail(c->ctx, GD_SHAPE, "%s: more than %d different axes", c->what, MOST_KEYS);
        return -1;
    }
    c->info[c->known] = (key_info){.text = text, .length = length, .operand = -1};
    return c->known++;
}

/* ---- steps on one operand; terms hold nameless tensors here ---- */

/* Axes in a different order. */
static void reorder(term *a, const int *order)
{
    int key[GD_MAX_DIMS];
    bool same = true;
    for (int i = 0; a->t && i < a->t->ndim; i++) {
        key[i] = a->key[order[i]];
        same = same && order[i] == i;
    }
    if (!a->t || same) return;
    memcpy(a->key, key, sizeof key);
    a->t = gd_permute(a->t, order);
}

/* Sums over the axes whose numbers are not in `needed`. */
static void sum_unneeded(term *a, keys needed)
{
    unsigned mask = 0;
    int n = 0;
    for (int i = 0; a->t && i < a->t->ndim; i++) {
        if (needed & bit(a->key[i]))
            a->key[n++] = a->key[i];
        else
            mask |= 1u << i;
    }
    if (!a->t || !mask) return;
    gd_dtype dtype = a->t->dtype;
    a->t = gd__sum_axes(a->t, mask, false);
    if (a->t && a->t->dtype != dtype) a->t = gd_cast(a->t, dtype); /* sums of small integers are wider */
}

/* A number that an operand has twice: its diagonal, as the last axis. */
static void take_diagonals(term *a)
{
    for (int i = 0; a->t && i < a->t->ndim; i++)
        for (int j = i + 1; a->t && j < a->t->ndim; j++) {
            if (a->key[i] != a->key[j]) continue;
            int order[GD_MAX_DIMS], n = 0, last = a->t->ndim - 1;
            for (int k = 0; k <= last; k++)
                if (k != i && k != j) order[n++] = k;
            order[n++] = i;
            order[n++] = j;
            reorder(a, order);
            a->t = gd_diagonal(a->t);
            i = 0; /* the axes have moved: search again from the first pair */
            j = 0;
        }
}

/* ---- joining two operands ---- */

/* Fills `order` with the axes of a whose number is in the set, from index n on; returns the index after the last. */
static int pick(const term *a, keys set, int *order, int n)
{
    for (int i = 0; i < a->t->ndim; i++)
        if (set & bit(a->key[i])) order[n++] = i;
    return n;
}

/* The same, in the order of the axes of `like`. */
static int pick_like(const term *a, const term *like, keys set, int *order, int n)
{
    for (int i = 0; i < like->t->ndim; i++)
        for (int j = 0; (set & bit(like->key[i])) && j < a->t->ndim; j++)
            if (a->key[j] == like->key[i]) order[n++] = j;
    return n;
}

static int64_t product_of(const int64_t *size, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= size[i];
    return n;
}

static gd_tensor *shaped(gd_tensor *t, int ndim, const int64_t *size)
{
    if (!t || (t->ndim == ndim && !memcmp(t->size, size, (size_t)ndim * sizeof *size))) return t;
    return gd__reshape(t, ndim, size);
}

static bool too_many(const contraction *c, int axes)
{
    if (axes <= GD_MAX_DIMS) return false;
    (void)gd_fail(c->ctx, GD_SHAPE, "%s: a product on the way has %d axes, more than %d", c->what, axes,
                  GD_MAX_DIMS);
    return true;
}

/* No number is summed: [left axes, right's own axes] by broadcasting. */
static void multiply(const contraction *c, term *a, term *b)
{
    keys left = keys_of(a), right = keys_of(b);
    int order[GD_MAX_DIMS], n = a->t->ndim, shared = pick_like(b, a, left, order, 0);
    int all = n + pick(b, ~left, order, shared) - shared;
    int64_t wide[GD_MAX_DIMS], other[GD_MAX_DIMS];
    if (!too_many(c, all))
        reorder(b, order);
    else
        b->t = NULL;
    for (int i = 0, j = 0; b->t && i < all; i++) {
        bool here = i >= n || (right & bit(a->key[i]));
        wide[i] = i < n ? a->t->size[i] : 1;
        other[i] = here ? b->t->size[j] : 1;
        if (i >= n) a->key[i] = b->key[j];
        j += here;
    }
    a->t = b->t ? gd_mul(shaped(a->t, all, wide), shaped(b->t, all, other)) : NULL;
}

/* Sums over the numbers in `done` with one matrix product. */
static void multiply_matrices(const contraction *c, term *a, term *b, keys done)
{
    keys left = keys_of(a), right = keys_of(b), batch = left & right & ~done;
    int order[GD_MAX_DIMS], other[GD_MAX_DIMS];
    int shared = pick(a, batch, order, 0), rows = pick(a, ~right, order, shared);
    (void)pick(a, done, order, rows);
    int inner = pick_like(b, a, done, other, pick_like(b, a, batch, other, 0));
    int end = pick(b, ~left, other, inner), out = rows + end - inner;
    reorder(a, order);
    reorder(b, other);
    if (!a->t || !b->t || too_many(c, out)) {
        a->t = NULL;
        return;
    }
    int64_t size[GD_MAX_DIMS], batches = product_of(a->t->size, 0, shared),
                               depth = product_of(a->t->size, rows, a->t->ndim);
    int64_t m = product_of(a->t->size, shared, rows), n = product_of(b->t->size, inner, end);
    memcpy(size, a->t->size, sizeof size);
    for (int i = rows; i < out; i++) {
        size[i] = b->t->size[inner + i - rows];
        a->key[i] = b->key[inner + i - rows];
    }
    int skip = shared ? 0 : 1;
    gd_tensor *x = shaped(a->t, 3 - skip, (int64_t[]){batches, m, depth} + skip);
    gd_tensor *y = shaped(b->t, 3 - skip, (int64_t[]){batches, depth, n} + skip);
    a->t = shaped(gd__product(x, y), out, size);
}

/* a becomes the product of a and b, summed over indices that are not needed later. */
static void join(const contraction *c, term *a, term *b, keys needed)
{
    sum_unneeded(a, needed | keys_of(b));
    if (!a->t) return;
    sum_unneeded(b, needed | keys_of(a));
    if (!b->t) {
        a->t = NULL;
        return;
    }
    keys done = keys_of(a) & keys_of(b) & ~needed;
    if (done)
        multiply_matrices(c, a, b, done);
    else
        multiply(c, a, b);
}

/* ---- the whole ---- */

static gd_status size_error(const contraction *c, const key_info *info, int operand, int64_t size)
{
    long long x = (long long)info->size, y = (long long)size;
    if (c->count == 2 && operand != info->operand)
        return gd_fail(c->ctx, GD_SHAPE, "%s: axis '%.*s' has %lld on the left and %lld on the right",
                       c->what, info->length, info->text, x, y);
    return gd_fail(c->ctx, GD_SHAPE, "%s: axis '%.*s' has %lld in operand %d and %lld in operand %d", c->what,
                   info->length, info->text, x, info->operand, y, operand);
}

/* Checks sizes, brings labels into one order, remembers the sources of names, then removes names and takes diagonals. */
static gd_status prepare(contraction *c, int k)
{
    term *a = &c->operand[k];
    for (int i = 0; i < a->t->ndim; i++) {
        key_info *info = &c->info[a->key[i]];
        if (info->operand < 0) {
            info->operand = k;
            info->size = a->t->size[i];
            info->source = (gd_axis_source){a->t, i};
            continue;
        }
        if (info->size != a->t->size[i]) return size_error(c, info, k, a->t->size[i]);
        gd_tensor *first = info->source.from;
        a->t = gd__match_labels(c->what, first, info->source.axis, a->t, i);
        if (!a->t) return gd_error(c->ctx);
        if (!gd__name(first, info->source.axis) && !gd__labels(first, info->source.axis))
            info->source = (gd_axis_source){a->t, i};
    }
    a->t = gd__nameless(a->t);
    take_diagonals(a);
    return a->t ? GD_OK : gd_error(c->ctx);
}

/* The axes in the order of the output, with their names. */
static gd_tensor *finish(const contraction *c, term *a)
{
    keys wanted = 0;
    gd_axis_source source[GD_MAX_DIMS];
    for (int i = 0; i < c->out_ndim; i++) {
        wanted |= bit(c->out[i]);
        source[i] = c->info[c->out[i]].source;
    }
    sum_unneeded(a, wanted);
    int order[GD_MAX_DIMS];
    for (int i = 0; a->t && i < c->out_ndim; i++)
        for (int j = 0; j < a->t->ndim; j++)
            if (a->key[j] == c->out[i]) order[i] = j;
    reorder(a, order);
    return gd__with_axes(a->t, source);
}

static gd_tensor *contracted(contraction *c)
{
    gd_tensor *first = c->operand[0].t;
    for (int k = 0; k < c->count; k++)
        if (prepare(c, k)) return NULL;
    for (int k = 1; k < c->count && c->operand[0].t; k++) {
        keys needed = 0;
        for (int i = 0; i < c->out_ndim; i++) needed |= bit(c->out[i]);
        for (int later = k + 1; later < c->count; later++) needed |= keys_of(&c->operand[later]);
        join(c, &c->operand[0], &c->operand[k], needed);
    }
    if (!c->operand[0].t) return NULL;
    gd_tensor *out = finish(c, &c->operand[0]);
    return out == first ? gd__same(out) : out;
}

/* ---- by names ---- */

/* Numbers the axes: shared names get the number of the left axis; contracted numbers are left out of the result. */
static gd_status number_by_name(contraction *c, gd_tensor *a, gd_tensor *b, const bool *chosen, bool every)
{
    c->known = a->ndim + b->ndim;
    keys both = 0;
    for (int i = 0; i < a->ndim; i++) c->operand[0].key[i] = i;
    for (int j = 0; j < b->ndim; j++) {
        const char *name = gd__name(b, j);
        int i = name ? gd_axis_find(a, name) : -1;
        c->operand[1].key[j] = i < 0 ? a->ndim + j : i;
        if (i >= 0) both |= bit(i);
    }
    for (int i = 0; i < a->ndim; i++) {
        if (every || !chosen[i]) continue;
        char axis[64], shape[256];
        if (!gd__name(a, i)) return gd_fail(c->ctx, GD_AXIS, "contract: axis %d has no name", i);
        if (!(both & bit(i)))
            return gd_fail(c->ctx, GD_AXIS, "contract: no axis %s in %s", gd__axis_text(a, i, axis),
                           gd__shape_text(b, shape, sizeof shape));
    }
    for (int k = 0; k < c->known; k++) {
        const char *name = k < a->ndim ? gd__name(a, k) : gd__name(b, k - a->ndim);
        c->info[k] = (key_info){
            .text = name ? name : "?", .length = name ? (int)strlen(name) : 1, .operand = -1};
        bool done = k < a->ndim ? (every ? (both & bit(k)) != 0 : chosen[k])
                                : c->operand[1].key[k - a->ndim] != k;
        if (done) continue;
        if (c->out_ndim == GD_MAX_DIMS)
            return gd_fail(c->ctx, GD_SHAPE, "contract: the result has more than %d axes", GD_MAX_DIMS);
        c->out[c->out_ndim++] = k;
    }
    return GD_OK;
}

gd_tensor *gd_contract(gd_tensor *a, gd_tensor *b, const char *axes)
{
    if (!gd__given2("contract", a, b) || !gd__can_multiply("contract", a, b)) return NULL;
    int list[GD_MAX_DIMS], count = gd__parse_axes("contract", a, axes, list);
    if (count < 0) return NULL;
    bool chosen[GD_MAX_DIMS] = {false}, every = !axes || !*axes;
    for (int i = 0; i < count; i++) chosen[list[i]] = true;
    gd_dtype dtype = gd__promoted(a->dtype, b->dtype);
    gd_ctx *ctx = a->head.ctx;
    gd_scope_begin(ctx);
    a = gd_cast(a, dtype);
    b = gd_cast(b, dtype);
    if (!a || !b) return gd__scope_leave(ctx, NULL);
    term operand[2] = {{.t = a}, {.t = b}};
    contraction c = {.what = "contract", .ctx = ctx, .count = 2, .operand = operand};
    gd_tensor *out = number_by_name(&c, a, b, chosen, every) == GD_OK ? contracted(&c) : NULL;
    return gd__scope_leave(ctx, out);
}

/* ---- einsum: reading the text ---- */

typedef struct reader {
    contraction *c;
    const char *spec; /* the whole text */
    bool names;       /* words instead of letters */
} reader;

/* One term of the text, from `at` up to the next ',', "->" or the end. */
static const char *term_end(const char *at)
{
    while (*at && *at != ',' && !(at[0] == '-' && at[1] == '>')) at++;
    return at;
}

/* True if there is a blank inside, not only around. */
static bool has_words(const char *at, const char *end)
{
    while (at < end && gd__is_space(*at)) at++;
    while (end > at && gd__is_space(end[-1])) end--;
    for (; at < end; at++)
        if (gd__is_space(*at)) return true;
    return false;
}

/* Words when some term has a blank inside, or when every operand is at most a vector and has a term of more letters. */
static bool uses_names(const char *spec, gd_tensor *const *operands, int count)
{
    bool thin = true, longer = false, output = false;
    for (int i = 0; i < count; i++) thin = thin && operands[i]->ndim <= 1;
    for (const char *at = spec;;) {
        const char *end = term_end(at);
        int letters = 0;
        if (has_words(at, end)) return true;
        for (const char *p = at; p < end; p++) letters += !gd__is_space(*p);
        longer = longer || (!output && letters > 1);
        if (!*end) return thin && longer;
        output = *end == '-';
        at = end + (output ? 2 : 1);
    }
}

/* The numbers of a term's letters or words in key[]; how many, or -1.  Stores their texts if asked to. */
static int read_term(const reader *r, const char *at, const char *end, int *key)
{
    int n = 0;
    while (true) {
        while (at < end && gd__is_space(*at)) at++;
        if (at == end) return n;
        int length = 1;
        if (r->names)
            while (at + length < end && !gd__is_space(at[length])) length++;
        gd_ctx *ctx = r->c->ctx;
        if (!r->names && !gd__is_letter(*at)) {
            (void)gd_fail(ctx, GD_PARSE, "einsum: column %d: unexpected '%c'", (int)(at - r->spec) + 1, *at);
            return -1;
        }
        if (n == GD_MAX_DIMS) {
            (void)gd_fail(ctx, GD_SHAPE, "einsum: column %d: a term with more than %d axes",
                          (int)(at - r->spec) + 1, GD_MAX_DIMS);
            return -1;
        }
        if ((key[n++] = key_of(r->c, at, length)) < 0) return -1;
        at += length;
    }
}

static int named_axis(const gd_tensor *t, const key_info *info)
{
    for (int i = 0; i < t->ndim; i++) {
        const char *name = gd__name(t, i);
        if (name && !strncmp(name, info->text, (size_t)info->length) && !name[info->length]) return i;
    }
    return -1;
}

/* Is each of n words the name of a different axis? */
static bool names_all_axes(const contraction *c, const gd_tensor *t, const int *key, int n)
{
    unsigned named = 0;
    for (int i = 0; i < n; i++) {
        int axis = named_axis(t, &c->info[key[i]]);
        if (axis < 0 || named >> axis & 1) return false;
        named |= 1u << axis;
    }
    return true;
}

/* Numbers for the axes of an operand: by name if all words are its names, otherwise by position. */
static gd_status number_operand(const reader *r, int k, const int *key, int n)
{
    contraction *c = r->c;
    term *a = &c->operand[k];
    char shape[256];
    if (n != a->t->ndim)
        return gd_fail(c->ctx, GD_SHAPE, "einsum: term %d has %d axes, operand %s has %d", k, n,
                       gd__shape_text(a->t, shape, sizeof shape), (int)a->t->ndim);
    bool by_name = r->names &&
                   names_all_axes(c, a->t, key, n); /* `j j` is a diagonal, whatever the axes are called */
    for (int i = 0; i < n; i++) a->key[by_name ? named_axis(a->t, &c->info[key[i]]) : i] = key[i];
    return GD_OK;
}

static int compare_info(const void *a, const void *b)
{
    const key_info *x = *(const key_info *const *)a, *y = *(const key_info *const *)b;
    int shorter = x->length < y->length ? x->length : y->length,
        order = strncmp(x->text, y->text, (size_t)shorter);
    return order ? order : x->length - y->length;
}

/* Without "->": what appears once, in alphabetical order. */
static gd_status implicit_output(contraction *c)
{
    int uses[MOST_KEYS] = {0}, n = 0;
    const key_info *once[MOST_KEYS];
    for (int k = 0; k < c->count; k++)
        for (int i = 0; i < c->operand[k].t->ndim; i++) uses[c->operand[k].key[i]]++;
    for (int k = 0; k < c->known; k++)
        if (uses[k] == 1) once[n++] = &c->info[k];
    if (n > GD_MAX_DIMS)
        return gd_fail(c->ctx, GD_SHAPE, "einsum: the result has %d axes, more than %d", n, GD_MAX_DIMS);
    qsort(once, (size_t)n, sizeof(const key_info *), compare_info);
    for (int i = 0; i < n; i++) c->out[i] = (int)(once[i] - c->info);
    c->out_ndim = n;
    return GD_OK;
}

static gd_status read_output(const reader *r, const char *at)
{
    contraction *c = r->c;
    const char *end = term_end(at);
    if (*end)
        return gd_fail(c->ctx, GD_PARSE, "einsum: column %d: the output is one term",
                       (int)(end - r->spec) + 1);
    int known = c->known;
    c->out_ndim = read_term(r, at, end, c->out);
    if (c->out_ndim < 0) return gd_error(c->ctx);
    for (int i = 0; i < c->out_ndim; i++) {
        const key_info *info = &c->info[c->out[i]];
        if (c->out[i] >= known)
            return gd_fail(c->ctx, GD_AXIS, "einsum: '%.*s' is in the output, but in no operand",
                           info->length, info->text);
        for (int j = 0; j < i; j++)
            if (c->out[j] == c->out[i])
                return gd_fail(c->ctx, GD_AXIS, "einsum: '%.*s' is twice in the output", info->length,
                               info->text);
    }
    return GD_OK;
}

static gd_status read_spec(const reader *r)
{
    contraction *c = r->c;
    const char *at = r->spec, *end = at;
    for (int k = 0; k < c->count; k++) {
        int key[GD_MAX_DIMS], n;
        end = term_end(at);
        if ((n = read_term(r, at, end, key)) < 0) return gd_error(c->ctx);
        gd_status status = number_operand(r, k, key, n);
        if (status) return status;
        if (k + 1 < c->count && *end != ',')
            return gd_fail(c->ctx, GD_ARGUMENT, "einsum: %d terms for %d operands", k + 1, c->count);
        at = end + 1;
    }
    if (*end == ',')
        return gd_fail(c->ctx, GD_ARGUMENT, "einsum: more than %d terms for %d operands", c->count, c->count);
    return *end ? read_output(r, end + 2) : implicit_output(c);
}

/* The words of the output as axis names. */
static gd_tensor *named_by_words(const contraction *c, gd_tensor *out)
{
    size_t bytes = 1, used = 0;
    for (int i = 0; i < c->out_ndim; i++) bytes += (size_t)c->info[c->out[i]].length + 1;
    char *text = out ? gd__alloc(c->ctx, bytes) : NULL;
    if (!text) return NULL;
    for (int i = 0; i < c->out_ndim; i++) {
        const key_info *info = &c->info[c->out[i]];
        memcpy(text + used, info->text, (size_t)info->length);
        used += (size_t)info->length;
        text[used++] = ',';
    }
    text[used] = 0;
    out = gd_rename(out, text);
    gd__free(c->ctx, text, bytes);
    return out;
}

static gd_tensor *einsum_on(contraction *c, const char *spec, gd_tensor *const *operands)
{
    reader r = {.c = c, .spec = spec, .names = uses_names(spec, operands, c->count)};
    gd_dtype dtype = operands[0]->dtype;
    for (int i = 1; i < c->count; i++) dtype = gd__promoted(dtype, operands[i]->dtype);
    for (int i = 0; i < c->count; i++)
        if (!(c->operand[i].t = gd_cast(operands[i], dtype))) return NULL;
    if (read_spec(&r)) return NULL;
    gd_tensor *out = contracted(c);
    return r.names ? named_by_words(c, out) : out;
}

gd_tensor *gd_einsum(const char *spec, gd_tensor *const *operands, int count)
{
    if (count <= 0 || !operands || !gd__given("einsum", operands, count)) return NULL;
    gd_ctx *ctx = operands[0]->head.ctx;
    if (!spec) return gd__refuse(ctx, GD_ARGUMENT, "einsum: no text");
    gd_tensor *factor = operands[0]; /* one that is not bool, if any */
    for (int i = 1; i < count && factor->dtype == GD_BOOL; i++) factor = operands[i];
    if (!gd__can_multiply("einsum", factor, factor)) return NULL;
    contraction c = {.what = "einsum", .ctx = ctx, .count = count};
    c.operand = gd__alloc_array(ctx, (size_t)count, sizeof *c.operand);
    if (!c.operand) return NULL;
    gd_scope_begin(ctx);
    gd_tensor *out = einsum_on(&c, spec, operands);
    gd__scope_leave(ctx, out);
    gd__free(ctx, c.operand, (size_t)count * sizeof *c.operand);
    return out;
}
