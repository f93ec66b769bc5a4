/* Combinations of the last updates:
 *
 *   averaging           their mean
 *   weighted_averaging sum of weight times update, divided by their number; weights from the oldest to the newest; with fewer
 *                       updates than weights, the last weights
 *   median_averaging    their median, element by element; of an even number the mean of the two in the middle
 *   previous            the update as it was n steps ago; until then the first one
 *
 * State: history, a ring of updates, one per row.  A change of history_size begins a new history.  Cost: reads the history;
 * the median sorts it by exchanges, history_size^2 / 2 of them. */
#include "gradus/link.h"

#define SIZE GD_INT_NEEDED("history_size", 1, 1e6, "updates to look back on, this one included")

static const gd_field fields[] = {SIZE, GD_TARGET};
static const gd_field weighted_fields[] = {
    {.name = "weights", .kinds = GD_SET_LIST, .help = "of the updates, from the oldest to the newest"},
    GD_TARGET};
static const gd_field previous_fields[] = {GD_INT("n", 1, 1, 1e6, "steps to look back"), GD_TARGET};

static const gd_slot slots[] = {{"history", 0}};
static const char *const scalars[] = {"count"};

/* The last updates of a parameter: row[0 .. count), the newest first. */
typedef struct past {
    gd_tensor **row;
    int count;
} past;

static bool is_previous(const gd_link *link) { return gd_link_class_of(link)->fields == previous_fields; }

static bool is_weighted(const gd_link *link) { return gd_link_class_of(link)->fields == weighted_fields; }

static int64_t size_of(const gd_link *link, const gd_tensor *key)
{
    if (is_weighted(link)) return gd_link_get(link, "weights", key)->list_count;
    if (is_previous(link)) return (int64_t)gd_link_real(link, "n", key) + 1;
    return (int64_t)gd_link_real(link, "history_size", key);
}

/* Rows of the ring: two at least, so that it never has the shape of a parameter and cannot be taken for one by its names. */
static int64_t rows_of(int64_t size) { return size < 2 ? 2 : size; }

/* The ring of a parameter; a new one if its size has changed. */
static gd_tensor *ring_of(gd_link *link, gd_tensor *key, int64_t size, double *count)
{
    int64_t shape[2] = {rows_of(size), gd_numel(key)};
    gd_init zeros = {.kind = GD_INIT_ZEROS,
                     .tensor = gd_expand(gd_reshape(key, 2, (int64_t[]){1, shape[1]}), 2, shape)};
    if (!zeros.tensor) return NULL;
    gd_tensor *ring = gd_link_state_from(link, key, "history", zeros);
    if (!ring || gd_size(ring, 0) == shape[0]) return ring;
    if (gd_link_set_state(link, key, "history", NULL)) return NULL;
    *count = 0;
    return gd_link_state_from(link, key, "history", zeros);
}

/* Puts x into the ring and returns its contents. */
static gd_status push(gd_link *link, gd_tensor *key, gd_tensor *x, past *out)
{
    gd_ctx *ctx = gd_link_ctx(link);
    int64_t size = size_of(link, key), numel = gd_numel(x);
    double *count = gd_link_scalar(link, key, "count");
    gd_tensor *ring = count ? ring_of(link, key, size, count) : NULL;
    if (!ring) return gd_error(ctx);
    int64_t newest = (int64_t)*count % size;
    gd_status status = gd_assign(gd_index(ring, "0", newest), gd_reshape(x, 1, &numel));
    if (status) return status;
    *count += 1;
    out->count = (int)(*count < (double)size ? *count : (double)size);
    out->row = gd_link_scratch(link, out->count);
    for (int i = 0; out->row && i < out->count; i++)
        out->row[i] = gd_index(ring, "0", (newest - i + size) % size);
    return out->row ? gd_error(ctx) : GD_NOMEM;
}

/* ---- combinations ---- */

typedef gd_tensor *(*combine_fn)(const gd_link *link, const gd_tensor *key, past *p);

static gd_tensor *mean_of(const gd_link *link, const gd_tensor *key, past *p)
{
    (void)link, (void)key;
    gd_tensor *sum = p->row[0];
    for (int i = 1; i < p->count; i++) sum = gd_add(sum, p->row[i]);
    return gd_mul_scalar(sum, 1.0 / p->count);
}

static gd_tensor *weighted_mean_of(const gd_link *link, const gd_tensor *key, past *p)
{
    const gd_setting *weights = gd_link_get(link, "weights", key);
    gd_tensor *sum = NULL;
    for (int i = 0; i < p->count; i++) {
        gd_tensor *term = gd_mul_scalar(p->row[i], weights->list[weights->list_count - 1 - i] / p->count);
        sum = i ? gd_add(sum, term) : term;
    }
    return sum;
}

static gd_tensor *oldest_of(const gd_link *link, const gd_tensor *key, past *p)
{
    (void)link, (void)key;
    return gd_copy(p->row[p->count - 1]);
}

/* Odd-even exchanges: after count rounds the rows are in order, element by element. */
static gd_tensor *median_of(const gd_link *link, const gd_tensor *key, past *p)
{
    (void)link, (void)key;
    for (int round = 0; round < p->count; round++)
        for (int i = round % 2; i + 1 < p->count; i += 2) {
            gd_tensor *low = gd_minimum(p->row[i], p->row[i + 1]),
                      *high = gd_maximum(p->row[i], p->row[i + 1]);
            p->row[i] = low;
            p->row[i + 1] = high;
        }
    gd_tensor *middle = p->row[p->count / 2];
    return p->count % 2 ? middle : gd_mul_scalar(gd_add(middle, p->row[p->count / 2 - 1]), 0.5);
}

static gd_status combined(const gd_transform *t, combine_fn combine)
{
    for (int i = 0; i < t->count; i++) {
        gd_tensor *x = t->tensors[i];
        past p;
        int64_t shape[GD_MAX_DIMS];
        gd_status status = push(t->link, t->keys[i], x, &p);
        if (status) return status;
        for (int k = 0; k < gd_ndim(x); k++) shape[k] = gd_size(x, k);
        t->tensors[i] = gd_reshape(combine(t->link, t->keys[i], &p), gd_ndim(x), shape);
        if (!t->tensors[i]) return gd_error(gd_link_ctx(t->link));
    }
    return GD_OK;
}

static gd_status averaging_apply(const gd_transform *t) { return combined(t, mean_of); }

static gd_status weighted_apply(const gd_transform *t) { return combined(t, weighted_mean_of); }

static gd_status median_apply(const gd_transform *t) { return combined(t, median_of); }

static gd_status previous_apply(const gd_transform *t) { return combined(t, oldest_of); }

static int64_t history_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += rows_of(size_of(link, params[i])) * gd_numel(params[i]) *
                 (int64_t)gd_dtype_size(gd_tensor_dtype(params[i]));
    return bytes;
}

#define AVERAGING(NAME, SUMMARY, FORMULA, EXAMPLE, FIELDS, APPLY) \
    GD_LINK(momentum, NAME, .summary = SUMMARY, .formula = FORMULA, .example = EXAMPLE, \
            .cost = "a pass over the updates it keeps, history_size of them", GD_FIELDS(FIELDS), \
            GD_SLOTS(slots), GD_SCALARS(scalars), .apply_tensors = APPLY, \
            .state_bytes = history_bytes, .traits.reads_only = true, .spread = GD_SPREAD_FLAT);

AVERAGING(averaging, "the mean of the last updates", "(u_1 + ... + u_n) / n, n = history_size",
          "averaging(10) | lr(0.1)", fields, averaging_apply)
AVERAGING(weighted_averaging, "a weighted mean of the last updates", "(w_1 u_1 + ... + w_n u_n) / n",
          "weighted_averaging([0.1, 0.3, 1]) | lr(0.1)", weighted_fields, weighted_apply)
AVERAGING(median_averaging, "the median of the last updates", "median of u_1 ... u_n, n = history_size",
          "median_averaging(5) | lr(0.1)", fields, median_apply)
AVERAGING(previous, "the update as it was some steps ago", "u of n steps ago", "previous(2) | lr(0.01)",
          previous_fields, previous_apply)
