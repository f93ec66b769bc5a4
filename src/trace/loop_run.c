/* Running loops: block by block, tasks in parallel. */
#include "program/element.h"
#include "tensor/cpu/reduce.h"
#include "trace/trace_loop.h"

#include <string.h>

/* ---- operands ---- */

static const gd_rows_table *rows_of(const gd_loop *loop)
{
    return &gd__vec(loop->ctx->cpu)->rows[loop->dtype == GD_F32 ? GD_AS_F32 : GD_AS_F64];
}

static void put_truth(const gd_loop *loop, char *to, const char *from, const gd_runs *u)
{
    float *single = (float *)(void *)to;
    double *twice = (double *)(void *)to;
    for (int64_t o = 0; o < u->outer; o++)
        for (int64_t r = 0; r < u->rows; r++, single += u->n, twice += u->n) {
            const char *row = from + o * u->far + r * u->apart;
            for (int64_t k = 0; k < u->n && loop->dtype == GD_F32; k++) single[k] = row[k * u->step] != 0;
            for (int64_t k = 0; k < u->n && loop->dtype != GD_F32; k++) twice[k] = row[k * u->step] != 0;
        }
}

/* Moves `by` elements on along axis d. */
static int64_t move_on(const gd_loop_array *a, int64_t *index, int d, int64_t by)
{
    int64_t at = by * a->stride[d];
    index[d] += by;
    for (; d > 0 && index[d] == a->size[d]; d--) {
        index[d] = 0;
        index[d - 1]++;
        at += a->stride[d - 1] - a->size[d] * a->stride[d];
    }
    return at;
}

/* Elements first to first + n of the result of an embedding whose operand is not a range of it. */
static char *pad_out(const gd_loop *loop, const gd_loop_array *a, const char *base, int64_t first, int64_t n,
                     char *to)
{
    const gd_operand *x = a->from, *out = a->to;
    const int64_t *begin = a->embed->attrs.i, *by = begin + x->ndim;
    int64_t item = (int64_t)gd_dtype_size(loop->dtype), last = x->ndim - 1;
    for (int64_t done = 0, run; done < n; done += run) {
        int64_t rest = first + done, column = rest % out->size[last], at = 0;
        bool inside = true;
        run = out->size[last] - column < n - done ? out->size[last] - column : n - done;
        rest /= out->size[last];
        for (int64_t d = last; d-- > 0; rest /= out->size[d]) {
            int64_t apart = rest % out->size[d] - begin[d], k = apart / by[d];
            inside = inside && apart >= 0 && k < x->size[d] && k * by[d] == apart;
            at += k * x->stride[d];
        }
        const char *from = base + a->offset + (inside ? at : 0) * item;
        int64_t size = inside ? x->size[last] : 0;
        rows_of(loop)->padded(to + done * item, run, a->embed->attrs.f[0], from, size, x->stride[last],
                              begin[last] - column, by[last]);
    }
    return to;
}

/* The offset of element i, in elements. */
static int64_t lies_at(const gd_loop_array *a, int64_t i)
{
    int64_t at = 0;
    for (int d = a->ndim; d-- > 0; i /= a->size[d]) at += i % a->size[d] * a->stride[d];
    return at;
}

/* So many whole runs along axis d that are left and wanted, `inner` elements each. */
static int64_t whole_runs(const gd_loop_array *a, const int64_t *index, int d, int64_t wanted, int64_t inner)
{
    int64_t left = a->size[d] - index[d];
    return left < wanted / inner ? left : wanted / inner;
}

/* Elements first to first + n of an operand broadcast to the axes of the result: runs along the last axis, and as many
 * of them at once as the two axes before have. */
static char *spread_out(const gd_loop *loop, const gd_loop_array *a, const char *base, int64_t first,
                        int64_t n, char *to)
{
    int64_t index[GD_MAX_DIMS + 1] = {0}, at = 0, rest = first;
    int64_t item = (int64_t)gd_dtype_size(a->dtype), wide = (int64_t)gd_dtype_size(loop->dtype);
    int last = a->ndim - 1;
    for (int d = a->ndim; d-- > 0; rest /= a->size[d]) {
        index[d] = rest % a->size[d];
        at += index[d] * a->stride[d];
    }
    for (int64_t done = 0, count; done < n; done += count) {
        gd_runs u = {.outer = 1, .rows = 1, .n = n - done};
        int axis = last;
        if (last >= 0) {
            u.n = whole_runs(a, index, last, n - done, 1);
            u.step = a->stride[last];
        }
        if (last > 0 && !index[last] && u.n == a->size[last]) {
            u.rows = whole_runs(a, index, last - 1, n - done, u.n);
            u.apart = a->stride[--axis];
        }
        if (axis > 0 && axis < last && !index[axis] && u.rows == a->size[axis]) {
            u.outer = whole_runs(a, index, axis - 1, n - done, u.rows * u.n);
            u.far = a->stride[--axis];
        }
        count = u.outer * u.rows * u.n;
        if (a->dtype == GD_BOOL)
            put_truth(loop, to + done * wide, base + a->offset + at * item, &u);
        else
            rows_of(loop)->runs(to + done * wide, base + a->offset + at * item, &u);
        if (axis >= 0)
            at += move_on(a, index, axis, axis == last ? u.n : axis == last - 1 ? u.rows : u.outer);
    }
    return to;
}

static void read_numbers(gd_loop_region *r, char *const *base)
{
    for (int k = 0; k < r->pass->used_count; k++) {
        const gd_instr *in = &r->program->instr[r->pass->used[k]];
        if (in->op != GD_I_UNIFORM) continue;
        const gd_loop_scalar *s = &r->scalar[in->index];
        const char *from = base[s->buffer] + s->offset;
        float single;
        if (s->dtype == GD_F32) {
            memcpy(&single, from, sizeof single);
            r->number[k] = (double)single;
        } else
            memcpy(&r->number[k], from, sizeof *r->number);
    }
}

/* ---- a block ---- */

typedef struct gd_loop_job {
    const gd_loop *loop;
    char *const *base;
} gd_loop_job;

static bool is_row(const gd_loop_region *r, const gd_loop_array *a, gd_dtype dtype)
{
    int last = a->ndim - 1;
    return r->row && last >= 0 && a->size[last] == r->row && a->stride[last] == 1 && a->dtype == dtype;
}

/* What a task has gathered last: elements first to first + n of a region. */
typedef struct gd_loop_gathered {
    const gd_loop_region *region;
    int64_t first, n;
} gd_loop_gathered;

/* Are the elements of the room those that are wanted, as the operand repeats itself? */
static bool is_there(const gd_loop_gathered *last, const gd_loop_region *r, const gd_loop_array *a,
                     int64_t first, int64_t n)
{
    return a->period && last->region == r && n <= last->n && (first - last->first) % a->period == 0;
}

/* A piece of a region: elements first to first + n of the domain, in a block that begins at `start`. */
static void run_piece(const gd_loop_job *j, const gd_loop_region *r, int64_t start, int64_t first, int64_t n,
                      char *room, gd_loop_gathered *last)
{
    char *array[GD_MAX_ARRAYS];
    double none[GD_MAX_REDUCTIONS];
    int64_t item = (int64_t)gd_dtype_size(j->loop->dtype);
    for (int k = 0; k < r->arrays; k++) {
        const gd_loop_array *a = &r->array[k];
        char *base = j->base[a->buffer];
        if (a->gathered) {
            array[k] = a->embed ? pad_out(j->loop, a, base, first + a->shift, n, room + a->room)
                       : is_row(r, a, j->loop->dtype) ? base + a->offset + lies_at(a, first + a->shift) * item
                       : is_there(last, r, a, first, n)
                           ? room + a->room
                           : spread_out(j->loop, a, base, first + a->shift, n, room + a->room);
        } else if (a->whole)
            array[k] = room + a->room + (first - start) * item;
        else
            array[k] = base + a->offset + first * item;
    }
    *last = (gd_loop_gathered){r, first, n};
    if (r->kernel)
        r->kernel(first, n, array, r->number, none);
    else
        gd__interpret(r->program, r->pass, first, n, array, r->number, none);
}

/* Rows side by side, the last may be shorter; short ones in tiles, whose sums are added up in the same order. */
static void sum_rows(const gd_rows_table *by, int fold, char *to, const char *from, int64_t row, int64_t n,
                     int64_t item)
{
    int64_t tile = row > GD_TILE_LONG ? row : GD_TILE_ROWS * row;
    for (int64_t i = 0; i < n; i += tile, to += tile / row * item) {
        int64_t left = tile < n - i ? tile : n - i;
        if (row > GD_TILE_LONG)
            by->row[fold](to, from + i * item, 1, left);
        else
            by->short_rows[fold](to, from + i * item, left / row, row);
    }
}

/* Whole rows, as in cpu/normalise.c. */
static void exponentials(const gd_loop *loop, const gd_loop_end *e, char *out, const char *from,
                         int64_t start, int64_t n)
{
    size_t item = gd_dtype_size(loop->dtype);
    gd_reduction v = {.vec = gd__vec(loop->ctx->cpu),
                      .rows = rows_of(loop),
                      .in = from,
                      .out = out + e->offset +
                             (e->op == GD_OP_logsumexp ? start / e->reduced : start) * (int64_t)item,
                      .outer = n / e->reduced,
                      .reduced = e->reduced,
                      .inner = 1,
                      .type = loop->dtype == GD_F32 ? GD_AS_F32 : GD_AS_F64,
                      .dtype = loop->dtype,
                      .item = item,
                      .step = item,
                      .f = e->scale,
                      .op = e->op};
    gd__exponentials_of_rows(&v);
}

/* Sums of a block, as in cpu/reduce.c: stored for their chunk, or as the result if there is one chunk. */
static void sum_block(const gd_loop *loop, const gd_loop_end *e, char *out, const char *from, int64_t start,
                      int64_t n)
{
    const gd_rows_table *by = rows_of(loop);
    int64_t item = (int64_t)gd_dtype_size(loop->dtype);
    char *to = e->partial ? e->partial : out + e->offset;
    if (e->fold == GD_LOOP_EXPONENTIALS) {
        exponentials(loop, e, out, from, start, n);
        return;
    }
    if (e->inner == 1) {
        int64_t row = e->chunks > 1 ? GD_LOOP_PIECE : e->reduced;
        sum_rows(by, e->fold, to + start / row * item, from, row, n, item);
        return;
    }
    int64_t chunk = e->chunks > 1 ? 128 : e->reduced;
    to += start / (chunk * e->inner) * e->inner * item;
    by->columns[e->fold](to, from, e->inner, n / e->inner, e->inner);
}

static void store_truth(const gd_loop *loop, char *to, const char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = loop->dtype == GD_F32 ? ((const float *)(const void *)from)[i] != 0
                                      : ((const double *)(const void *)from)[i] != 0;
}

static void run_block(const gd_loop_job *j, const gd_loop_domain *d, int64_t block, char *room,
                      gd_loop_gathered *last_piece)
{
    const gd_loop *loop = j->loop;
    int64_t start = block * d->block, end = start + d->block < d->numel ? start + d->block : d->numel;
    for (int i = d->region; i < d->region + d->regions; i++) {
        const gd_loop_region *r = &loop->region[i];
        int64_t first = r->first > start ? r->first : start, last = r->last < end ? r->last : end;
        for (int64_t n; first < last; first += n) {
            n = last - first < GD_LOOP_PIECE ? last - first : GD_LOOP_PIECE;
            if (r->row && r->row - (first + r->row_shift) % r->row < n)
                n = r->row - (first + r->row_shift) % r->row;
            run_piece(j, r, start, first, n, room, last_piece);
        }
    }
    for (int k = 0; k < d->ends; k++) {
        const gd_loop_end *e = &d->end[k];
        if (e->sums)
            sum_block(loop, e, j->base[e->buffer], room + e->room, start, end - start);
        else
            store_truth(loop, j->base[e->buffer] + e->offset + start, room + e->room, end - start);
    }
}

/* Blocks of all domains run in parallel: they read the same memory. */
static void run_task(void *arg, int64_t task)
{
    const gd_loop_job *j = arg;
    const gd_loop *loop = j->loop;
    char *room = (char *)(((uintptr_t)loop->room + loop->task_room * (size_t)task + 63) & ~(uintptr_t)63);
    int64_t at[GD_LOOP_DOMAINS], to[GD_LOOP_DOMAINS];
    gd_loop_gathered gathered = {NULL, 0, 0};
    for (int i = 0; i < loop->domains; i++) {
        at[i] = loop->domain[i].blocks * task / loop->tasks;
        to[i] = loop->domain[i].blocks * (task + 1) / loop->tasks;
    }
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < loop->domains; i++) {
            if (at[i] == to[i]) continue;
            run_block(j, &loop->domain[i], at[i]++, room, &gathered);
            more = true;
        }
    }
}

/* Chunks pairwise, as join_chunks of cpu/reduce.c. */
static void join_sums(const gd_loop *loop, const gd_loop_end *e, char *out)
{
    const gd_rows_table *by = rows_of(loop);
    int64_t bytes = e->inner * (int64_t)gd_dtype_size(loop->dtype);
    for (int64_t row = 0; row < e->outer; row++) {
        char *p = e->partial + row * e->chunks * bytes;
        for (int64_t width = 1; width < e->chunks; width *= 2)
            for (int64_t c = 0; c + width < e->chunks; c += 2 * width)
                by->join[e->fold](p + c * bytes, p + (c + width) * bytes, e->inner);
        memcpy(out + e->offset + row * bytes, p, (size_t)bytes);
    }
}

/* ---- compiling ---- */

/* Nanoseconds, roughly: of an interpreted instruction per element, beyond its compiled cost; of a compiler. */
#define INTERPRETED    0.15
#define COMPILES       150e6
#define LEAST_COMPILED 512 /* elements of a region */
#define LOOK_AFTER     1

#define TOGETHER GD_KERNELS_TOGETHER

/* The regions that are worth a kernel and have none, at most TOGETHER, and what interpreting all took in a run. */
static int compilable(const gd_replay *p, gd_loop_region **region, double *time)
{
    int count = 0;
    *time = 0;
    for (int k = 0; k < p->units; k++)
        for (int i = 0; p->unit[k].loop && i < p->unit[k].loop->regions; i++) {
            gd_loop_region *r = &p->unit[k].loop->region[i];
            if (r->kernel) continue;
            *time += (double)(r->last - r->first) * r->program->count * INTERPRETED;
            if (r->last - r->first >= LEAST_COMPILED && count < TOGETHER) region[count++] = r;
        }
    return count;
}

static void compile(const gd_replay *p, gd_loop_region *const *region, int count, bool stored)
{
    gd_kernel_wish wish[TOGETHER];
    for (int i = 0; i < count; i++) wish[i] = (gd_kernel_wish){region[i]->program, region[i]->pass, NULL};
    gd__kernels_for(p->ctx, wish, count, stored);
    for (int i = 0; i < count; i++) region[i]->kernel = wish[i].fn;
}

void gd__loops_consider(gd_replay *p)
{
    gd_loop_region *region[TOGETHER];
    double time;
    int count = compilable(p, region, &time);
    bool never = !count || !p->ctx->compile || p->compile == GD_TRACE_INTERPRET;
    if (never || p->compile == GD_TRACE_AT_ONCE || time * (double)p->bodies_run > count * COMPILES) {
        p->settled = true;
        if (!never) compile(p, region, count, false);
    } else if (!p->looked && p->bodies_run >= LOOK_AFTER) {
        p->looked = true;
        compile(p, region, count, true);
    }
    p->bodies_run++;
}

void gd__loop_run(gd_loop *loop, char *const *base)
{
    gd_loop_job j = {loop, base};
    int64_t elements = 0;
    for (int i = 0; i < loop->regions; i++) read_numbers(&loop->region[i], base);
    for (int i = 0; i < loop->domains; i++) elements += loop->domain[i].numel;
    gd__run_tasks(loop->ctx, elements, loop->tasks, run_task, &j);
    for (int i = 0; i < loop->domains; i++)
        for (int k = 0; k < loop->domain[i].ends; k++) {
            const gd_loop_end *e = &loop->domain[i].end[k];
            if (e->partial) join_sums(loop, e, base[e->buffer]);
        }
}
