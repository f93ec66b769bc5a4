/* Structure of derivatives: from a recording as one tape, operation by operation.
 *
 * A value depends on the input elements of its operands; truth and whole numbers have no derivatives.  Rows are elements of
 * a result.  The Jacobian's structure is that of the value, the Hessian's that of the gradient. */
#include "trace/entry.h"
#include "trace/many/lanes.h"

#define MOST_BYTES ((size_t)256 << 20) /* of all sets */

/* Numbers at places of a buffer. */
typedef struct places {
    int64_t low, items; /* bytes of the first one; one for every four bytes from there on */
    int64_t *number;    /* 1 + it; 0: none */
} places;

typedef struct finder {
    gd_ctx *ctx;
    const gd_trace_entry *e;
    const gd_replay *p;
    const gd_tape *tape;
    int by;          /* inputs */
    int64_t columns; /* their elements */
    size_t words;    /* of a set */
    uint64_t *set;   /* of each value */
    places *column;  /* by buffer: of inputs, the columns */
    places *stored;  /* by buffer: of results, the values that are stored */
} finder;

static size_t set_bytes(const finder *f) { return (size_t)f->tape->values * f->words * sizeof *f->set; }

static bool make_tables(finder *f)
{
    size_t buffers = (size_t)f->p->r->buffers;
    if (set_bytes(f) > MOST_BYTES) {
        (void)gd_fail(f->ctx, GD_NOT_IMPLEMENTED,
                      "traced_sparsity: %d operations on %lld elements are too many", f->tape->values,
                      (long long)f->columns);
        return false;
    }
    f->column = gd__calloc(f->ctx, buffers * sizeof *f->column);
    f->stored = f->column ? gd__calloc(f->ctx, buffers * sizeof *f->stored) : NULL;
    f->set = f->stored ? gd__calloc(f->ctx, set_bytes(f) + 1) : NULL;
    return f->set != NULL;
}

static void free_places(const finder *f, places *all)
{
    int buffers = f->p->r->buffers;
    for (int b = 0; b < buffers && all; b++)
        gd__free(f->ctx, all[b].number, (size_t)all[b].items * sizeof *all[b].number);
    gd__free(f->ctx, all, (size_t)buffers * sizeof *all);
}

static void free_tables(const finder *f)
{
    free_places(f, f->column);
    free_places(f, f->stored);
    gd__free(f->ctx, f->set, set_bytes(f) + 1);
}

/* Room for numbers at places low .. high. */
static bool make_places(finder *f, places *p, int64_t low, int64_t high)
{
    p->number = gd__calloc(f->ctx, (size_t)((high - low) / 4 + 1) * sizeof *p->number);
    p->items = p->number ? (high - low) / 4 + 1 : 0;
    p->low = low;
    return p->number != NULL;
}

/* NULL: nothing is there. */
static int64_t *at_place(const places *p, int64_t place)
{
    int64_t i = (place - p->low) / 4;
    return place >= p->low && i < p->items ? &p->number[i] : NULL;
}

static int64_t number_at(const places *p, int64_t place)
{
    const int64_t *number = at_place(p, place);
    return number ? *number - 1 : -1;
}

/* Calls `at` with the byte offset and the number of each element. */
static void each_element(finder *f, int buffer, int64_t offset, gd_dtype dtype, int ndim, const int64_t *size,
                         const int64_t *stride, int64_t first, void (*at)(finder *, int, int64_t, int64_t))
{
    int64_t index[GD_MAX_DIMS] = {0}, item = (int64_t)gd_dtype_size(dtype), n = 1;
    for (int d = 0; d < ndim; d++) n *= size[d];
    for (int64_t k = 0; k < n; k++) {
        int64_t place = offset;
        for (int d = 0; d < ndim; d++) place += index[d] * stride[d] * item;
        at(f, buffer, place, first + k);
        for (int d = ndim; d-- > 0 && ++index[d] == size[d];) index[d] = 0;
    }
}

static void note_column(finder *f, int buffer, int64_t place, int64_t number)
{
    int64_t *at = at_place(&f->column[buffer], place);
    if (at) *at = 1 + number;
}

static int64_t elements_of(const gd_signature *s)
{
    int64_t n = 1;
    for (int d = 0; d < s->ndim; d++) n *= s->size[d];
    return n;
}

static bool note_input(finder *f, int buffer, int input, int64_t offset)
{
    const gd_signature *s = &f->e->signature[input];
    int64_t first = 0, low = offset, high = offset, item = (int64_t)gd_dtype_size(s->dtype);
    for (int i = 0; i < input; i++) first += elements_of(&f->e->signature[i]);
    for (int d = 0; d < s->ndim && elements_of(s); d++) {
        int64_t by = (s->size[d] - 1) * s->stride[d] * item;
        if (by < 0)
            low += by;
        else
            high += by;
    }
    if (!make_places(f, &f->column[buffer], low, high)) return false;
    each_element(f, buffer, offset, s->dtype, s->ndim, s->size, s->stride, first, note_column);
    return true;
}

static bool note_inputs(finder *f)
{
    bool made = true;
    for (int b = 0; b < f->p->r->buffers && made; b++) {
        const gd_buffer *buffer = &f->p->r->buffer[b];
        if (buffer->origin == GD_ORIGIN_INPUT && buffer->input < f->by)
            made = note_input(f, b, buffer->input, buffer->offset);
    }
    return made;
}

static bool note_stores(finder *f)
{
    for (int i = 0; i < f->tape->stores; i++) {
        const gd_tape_store *s = &f->tape->store[i];
        places *list = &f->stored[s->buffer];
        if (!list->number && !make_places(f, list, 0, (int64_t)f->p->r->buffer[s->buffer].bytes))
            return false;
        int64_t *at = at_place(list, s->offset);
        if (at) *at = 1 + s->value;
    }
    return true;
}

static void add_set(finder *f, int32_t value, int32_t operand)
{
    if (operand < 0) return;
    for (size_t w = 0; w < f->words; w++)
        f->set[(size_t)value * f->words + w] |= f->set[(size_t)operand * f->words + w];
}

static void follow_operations(finder *f)
{
    for (int32_t k = 0; k < f->tape->values; k++) {
        const gd_tape_value *v = &f->tape->value[k];
        bool number = v->type == GD_TAPE_F64 || v->type == GD_TAPE_F32;
        if (!number || v->op == GD_TAPE_NUMBER) continue;
        if (v->op == GD_TAPE_LOAD) {
            int64_t c = number_at(&f->column[v->a], v->b);
            if (c >= 0) f->set[(size_t)k * f->words + (size_t)c / 64] |= (uint64_t)1 << c % 64;
            continue;
        }
        add_set(f, k, v->a);
        add_set(f, k, v->b);
        add_set(f, k, v->c);
    }
}

/* ---- the result ---- */

typedef struct entries {
    finder f; /* first: functions for elements get it */
    int64_t *row, *column, count;
} entries;

static void put_row(finder *f, int buffer, int64_t place, int64_t number)
{
    entries *out = (entries *)f;
    int64_t value = number_at(&f->stored[buffer], place);
    for (int64_t c = 0; c < f->columns && value >= 0; c++) {
        if (!(f->set[(size_t)value * f->words + (size_t)c / 64] >> c % 64 & 1)) continue;
        if (out->row) {
            out->row[out->count] = number;
            out->column[out->count] = c;
        }
        out->count++;
    }
}

static void put_rows(entries *out, int first, int last)
{
    int64_t row = 0;
    out->count = 0;
    for (int k = first; k < last; k++) {
        const gd_operand *o = &out->f.p->r->output[k];
        each_element(&out->f, o->buffer, o->offset, o->dtype, o->ndim, o->size, o->stride, row, put_row);
        row += o->numel;
    }
}

static gd_status give_entries(entries *out, int first, int last, gd_tensor **rows, gd_tensor **columns)
{
    put_rows(out, first, last);
    gd_tensor *row = gd__new(gd__cpu(out->f.ctx), GD_I64, 1, &out->count);
    gd_tensor *column = row ? gd__new(row->storage->device, GD_I64, 1, &out->count) : NULL;
    if (!column) {
        gd_release(row);
        return gd_error(out->f.ctx);
    }
    out->row = (int64_t *)(void *)row->data;
    out->column = (int64_t *)(void *)column->data;
    put_rows(out, first, last);
    *rows = row;
    *columns = column;
    return GD_OK;
}

static gd_status find_entries(entries *out, int first, int last, gd_tensor **rows, gd_tensor **columns)
{
    finder *f = &out->f;
    bool made = make_tables(f) && note_inputs(f) && note_stores(f);
    if (made) follow_operations(f);
    gd_status status = made ? give_entries(out, first, last, rows, columns) : gd_error(f->ctx);
    free_tables(f);
    return status;
}

#define MOST_CALLS 8 /* recordings may be dropped without memory */

/* Evaluates until it replays. */
static gd_trace_entry *recorded(gd_traced *t, const gd_evaluation *what, gd_tensor *const *inputs, int count)
{
    gd_trace_set *set = &t->set;
    for (int call = 0; call < MOST_CALLS; call++) {
        gd_scope_begin(set->ctx);
        bool done = gd__trace_call(set, what, inputs, count) != NULL;
        gd_scope_end(set->ctx);
        if (!done) return NULL;
        gd_trace_entry *e = set->entry[0];
        if (e->state == GD_TRACE_REPLAYS) return e;
        if (e->state == GD_TRACE_REFUSED)
            return gd__refuse(set->ctx, GD_NOT_IMPLEMENTED, "traced_sparsity: not traced: %s", e->reason);
    }
    return gd__refuse(set->ctx, GD_NOT_IMPLEMENTED, "traced_sparsity: there is no recording");
}

gd_status gd_traced_sparsity(gd_traced *t, gd_traced_kind kind, gd_tensor *const *inputs, int count,
                             gd_tensor **rows, gd_tensor **columns)
{
    if (rows) *rows = NULL;
    if (columns) *columns = NULL;
    if (!t) return GD_ARGUMENT;
    gd_ctx *ctx = t->set.ctx;
    if (!gd__traced_usable(t, "traced_sparsity", inputs, count)) return gd_error(ctx);
    if (!rows || !columns || !count)
        return gd__null(ctx, "traced_sparsity: no inputs, or no place for the entries");
    bool second = kind == GD_TRACED_HESSIAN;
    if (kind != GD_TRACED_JACOBIAN && !second)
        return gd_fail(ctx, GD_ARGUMENT,
                       "traced_sparsity: kind is %d, must be that of the Jacobian or Hessian", (int)kind);
    const gd_evaluation what = gd__traced_evaluation(t, second ? GD_TRACED_GRADIENT : GD_TRACED_VALUE, count);
    gd_trace_entry *e = recorded(t, &what, inputs, count);
    if (!e) return gd_error(ctx);
    char why[160];
    gd_tape *tape = gd__whole_tape(e->replay, why, sizeof why);
    if (!tape) tape = gd__whole_tape(e->replay, why, sizeof why); /* memory may have been insufficient */
    if (!tape) return gd_fail(ctx, GD_NOT_IMPLEMENTED, "traced_sparsity: %s", why);
    entries out = {.f = {.ctx = ctx, .e = e, .p = e->replay, .tape = tape, .by = gd__traced_by(t, count)}};
    for (int i = 0; i < out.f.by; i++) out.f.columns += inputs[i]->numel;
    out.f.words = (size_t)(out.f.columns + 63) / 64;
    gd_status status = find_entries(&out, second, what.outputs, rows, columns);
    gd__tape_free(tape);
    return status;
}
