/* Many problems of one traced function: see gd_traced_batch.
 *
 * The first ones are ordinary calls, until there is a replay; if its body fits into lanes, tasks run the others in groups of
 * GD_LANE_COUNT. Results of a group are written in place, or, if a result does not fill its buffer, through memory of the task. */
#include "gradus/autograd.h"
#include "trace/entry.h"
#include "trace/many/lanes.h"

#include <stdio.h>
#include <string.h>

typedef struct batch {
    gd_traced *t;
    gd_ctx *ctx;
    gd_evaluation what;
    gd_tensor *const *inputs;
    const bool *same;
    int count;
    int64_t problems;
    gd_tensor **out;
    gd_tensor **row; /* the inputs of a problem */
} batch;

static bool is_same(const batch *b, int i) { return b->same && b->same[i]; }

/* ---- one by one ---- */

static bool make_outputs(batch *b, gd_tensor *const *results)
{
    for (int k = 0; k < b->what.outputs; k++) {
        const gd_tensor *one = results[k];
        int64_t size[GD_MAX_DIMS];
        int map[GD_MAX_DIMS] = {-1};
        if (one->ndim == GD_MAX_DIMS)
            return gd__refuse(b->ctx, GD_SHAPE, "traced_batch: a result has %d axes already", one->ndim) !=
                   NULL;
        size[0] = b->problems;
        for (int d = 0; d < one->ndim; d++) {
            size[d + 1] = one->size[d];
            map[d + 1] = d;
        }
        gd_tensor *out = gd__new_checked(one->storage->device, "traced_batch", one->dtype, one->ndim + 1,
                                         size);
        if (!(b->out[k] = gd__mapped(out, one, map))) return false;
        gd__own(b->out[k]); /* until the call is over */
    }
    return true;
}

/* Problem i of a batched tensor, without names. */
static gd_tensor *problem_of(const gd_tensor *all, int64_t i)
{
    gd_tensor *t = gd__bare(all);
    if (!t) return NULL;
    t->ndim--;
    t->numel = 1;
    for (int d = 0; d < t->ndim; d++) {
        t->size[d] = all->size[d + 1];
        t->stride[d] = all->stride[d + 1];
        t->numel *= t->size[d];
    }
    t->data += i * all->stride[0] * (int64_t)gd__item_size(all);
    return t;
}

static gd_status keep_results(batch *b, int64_t i, gd_tensor *const *results)
{
    if (!b->out[0] && !make_outputs(b, results)) return gd_error(b->ctx);
    for (int k = 0; k < b->what.outputs; k++) {
        gd_tensor *to = problem_of(b->out[k], i);
        if (!to) return gd_error(b->ctx);
        if (!gd__same_shape(to, results[k]) || to->dtype != results[k]->dtype)
            return gd_fail(b->ctx, GD_SHAPE, "traced_batch: results of problem %lld have another shape",
                           (long long)i);
        gd_status status = gd__copy_into(to, results[k]);
        if (status) return status;
    }
    return GD_OK;
}

static gd_status run_one(batch *b, int64_t i)
{
    gd_status status = GD_OK;
    gd_scope_begin(b->ctx);
    gd_no_grad_begin(b->ctx);
    for (int k = 0; k < b->count && !status; k++) {
        b->row[k] = is_same(b, k) ? b->inputs[k] : gd_index(b->inputs[k], "0", i);
        if (!b->row[k]) status = gd_error(b->ctx);
    }
    gd_no_grad_end(b->ctx);
    gd_tensor *const *results = status ? NULL : gd__trace_call(&b->t->set, &b->what, b->row, b->count);
    if (!status) status = results ? keep_results(b, i, results) : gd_error(b->ctx);
    gd_scope_end(b->ctx);
    return status;
}

/* ---- in lanes ---- */

typedef struct job {
    const batch *b;
    const gd_replay *p;
    const gd_lanes *lanes;
    char **base; /* [buffers] of problem 0; NULL: in the room of a task */
    ptrdiff_t *by;
    int64_t first, groups, tasks;
    char *room;
    size_t task_room, scratch; /* bytes; scratch: of the results of one problem */
} job;

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* The whole buffer, row-major, and its only result. */
static bool is_whole(const gd_replay *p, int output)
{
    const gd_operand *o = &p->r->output[output];
    int64_t dense[GD_MAX_DIMS];
    gd__row_major(o->ndim, o->size, dense);
    bool whole = !o->offset && (size_t)o->numel * gd_dtype_size(o->dtype) == p->r->buffer[o->buffer].bytes;
    for (int d = 0; d < o->ndim && whole; d++) whole = o->size[d] == 1 || o->stride[d] == dense[d];
    for (int i = 0; i < p->r->outputs && whole; i++)
        whole = i == output || p->r->output[i].buffer != o->buffer;
    return whole;
}

static bool is_direct(const job *j, int output)
{
    return j->lanes->stored[j->p->r->output[output].buffer] && is_whole(j->p, output);
}

static void place_buffers(job *j)
{
    const gd_replay *p = j->p;
    for (int k = 0; k < p->r->buffers; k++) {
        j->base[k] = p->base[k];
        j->by[k] = 0;
    }
    for (int i = 0; i < p->watches; i++) {
        const gd_watch *w = &p->watched[i];
        if (w->input < 0) continue;
        const gd_tensor *in = j->b->inputs[w->input];
        j->base[w->buffer] = in->data - w->offset;
        if (!is_same(j->b, w->input)) j->by[w->buffer] = in->stride[0] * (ptrdiff_t)gd__item_size(in);
    }
    for (int k = 0; k < p->r->outputs; k++) {
        int b = p->r->output[k].buffer;
        if (!j->lanes->stored[b] || !j->base[b]) continue;
        j->by[b] = (ptrdiff_t)p->r->buffer[b].bytes;
        j->base[b] = is_direct(j, k) ? j->b->out[k]->data : NULL;
        if (!j->base[b]) j->scratch += p->r->buffer[b].bytes;
    }
}

static void copy_elements(char *to, const char *from, const gd_operand *o)
{
    size_t item = gd_dtype_size(o->dtype);
    int64_t index[GD_MAX_DIMS] = {0}, at = 0;
    for (int64_t n = 0; n < o->numel; n++, to += item) {
        memcpy(to, from + at * (int64_t)item, item);
        for (int d = o->ndim; d-- > 0;) {
            at += o->stride[d];
            if (++index[d] < o->size[d]) break;
            at -= o->stride[d] * o->size[d];
            index[d] = 0;
        }
    }
}

/* Results that the steps did not store in place: in task memory, or the same for all problems. */
static void copy_results(const job *j, char *const *base, int64_t first, int count)
{
    const gd_replay *p = j->p;
    for (int k = 0; k < p->r->outputs; k++) {
        const gd_operand *o = &p->r->output[k];
        if (is_direct(j, k)) continue;
        bool stored = j->lanes->stored[o->buffer];
        size_t bytes = (size_t)o->numel * gd_dtype_size(o->dtype);
        for (int i = 0; i < count; i++) {
            const char *from = base[o->buffer] + (stored ? i * j->by[o->buffer] : 0) + o->offset;
            copy_elements(j->b->out[k]->data + (size_t)(first + i) * bytes, from, o);
        }
    }
}

static void run_task(void *arg, int64_t task)
{
    const job *j = arg;
    int buffers = j->p->r->buffers;
    char *room = j->room + (size_t)task * j->task_room, *scratch = room + rounded(j->lanes->room);
    char **base = (char **)(void *)(scratch + rounded(j->scratch * GD_LANE_COUNT));
    gd__lanes_prepare(j->lanes, room);
    for (int b = 0; b < buffers; b++) {
        base[b] = j->base[b];
        if (base[b] || !j->by[b]) continue;
        base[b] = scratch;
        scratch += (size_t)j->by[b] * GD_LANE_COUNT;
    }
    for (int64_t g = j->groups * task / j->tasks; g < j->groups * (task + 1) / j->tasks; g++) {
        int64_t at = j->first + g * GD_LANE_COUNT, left = j->b->problems - at;
        int count = left < GD_LANE_COUNT ? (int)left : GD_LANE_COUNT;
        for (int b = 0; b < buffers; b++)
            if (j->base[b]) base[b] = j->base[b] + at * j->by[b];
        gd__lanes_run(j->lanes, base, j->by, count, room);
        copy_results(j, base, at, count);
    }
}

#define TASKS_OF_A_THREAD 4

static gd_status run_groups(batch *b, gd_replay *p, int64_t first)
{
    job j = {.b = b, .p = p, .lanes = p->lanes, .first = first};
    size_t list = (size_t)p->r->buffers * (sizeof *j.base + sizeof *j.by), bytes = 0;
    j.groups = (b->problems - first + GD_LANE_COUNT - 1) / GD_LANE_COUNT;
    j.tasks = (int64_t)b->ctx->threads * TASKS_OF_A_THREAD;
    if (b->ctx->threads < 2) j.tasks = 1;
    if (j.tasks > j.groups) j.tasks = j.groups;
    j.base = gd__alloc(b->ctx, list);
    if (j.base) {
        j.by = (ptrdiff_t *)(void *)(j.base + p->r->buffers);
        place_buffers(&j);
        j.task_room = rounded(p->lanes->room) + rounded(j.scratch * GD_LANE_COUNT) +
                      rounded((size_t)p->r->buffers * sizeof *j.base);
        bytes = j.task_room * (size_t)j.tasks;
        j.room = gd__alloc(b->ctx, bytes);
    }
    if (j.room) {
        gd__run_tasks(b->ctx, (b->problems - first) * p->lanes->steps, j.tasks, run_task, &j);
        p->runs += b->problems - first;
    }
    gd_status status = j.room ? GD_OK : gd_error(b->ctx);
    gd__free(b->ctx, j.room, bytes);
    gd__free(b->ctx, j.base, list);
    return status;
}

/* The replay of the call before, if many problems can run through it together. */
static gd_replay *laned(const batch *b)
{
    gd_trace_set *set = &b->t->set;
    gd_trace_entry *e = set->count && !set->check && !set->depth && !b->ctx->recorder ? set->entry[0] : NULL;
    gd_replay *p = e && e->state == GD_TRACE_REPLAYS ? e->replay : NULL;
    if (!p || !p->ready || p->stale) return NULL;
    if (p->on) (void)snprintf(p->why_no_lanes, sizeof p->why_no_lanes, "they are on %s", p->device->name);
    for (int k = 0; k < b->what.outputs; k++)
        if (b->out[k]->storage->device != b->ctx->cpu) return NULL;
    if (!p->lanes && !p->why_no_lanes[0]) {
        p->lanes = p->r->drawn ? NULL : gd__lanes_new(p, p->why_no_lanes, sizeof p->why_no_lanes);
        if (p->r->drawn) memcpy(p->why_no_lanes, "it draws random numbers", sizeof "it draws random numbers");
    }
    return p->lanes ? p : NULL;
}

static gd_status run_all(batch *b)
{
    gd_status status = GD_OK;
    for (int64_t i = 0; i < b->problems && !status; i++) {
        status = run_one(b, i);
        gd_replay *p = !status && i + 1 < b->problems ? laned(b) : NULL;
        if (p) return run_groups(b, p, i + 1);
    }
    return status;
}

/* ---- the call ---- */

static bool find_problems(batch *b)
{
    b->problems = -1;
    for (int i = 0; i < b->count; i++) {
        const gd_tensor *t = b->inputs[i];
        if (is_same(b, i)) continue;
        if (!t->ndim)
            return gd__refuse(b->ctx, GD_SHAPE, "traced_batch: input %d has no axis of problems", i) != NULL;
        if (b->problems >= 0 && b->problems != t->size[0])
            return gd__refuse(b->ctx, GD_SHAPE, "traced_batch: input %d has %lld problems, others %lld", i,
                              (long long)t->size[0], (long long)b->problems) != NULL;
        b->problems = t->size[0];
    }
    if (b->problems < 1) return gd__refuse(b->ctx, GD_SHAPE, "traced_batch: there are no problems") != NULL;
    return true;
}

static gd_status check_call(const gd_traced *t, gd_traced_kind kind, gd_tensor *const *inputs, int count,
                            gd_tensor **out)
{
    gd_ctx *ctx = t->set.ctx;
    if (!gd__traced_usable(t, "traced_batch", inputs, count)) return gd_error(ctx);
    if (!out || !count) return gd__null(ctx, "traced_batch: no inputs, or no place for the results");
    if ((unsigned)kind > GD_TRACED_HESSIAN)
        return gd_fail(ctx, GD_ARGUMENT, "traced_batch: unknown kind %d", (int)kind);
    if (kind == GD_TRACED_HVP && (t->by ? count < 2 * t->by : count % 2))
        return gd_fail(ctx, GD_ARGUMENT, "traced_batch: %d inputs and vectors, not as many of both", count);
    return GD_OK;
}

/* The results go to the caller's scope; on failure there are none. */
static gd_status hand_over(batch *b, gd_status status)
{
    int given = 0;
    for (; given < b->what.outputs && !status; given++) status = gd__scope_take(b->out[given]);
    for (int k = 0; k < b->what.outputs && status; k++) {
        if (k >= given) gd__release(b->out[k]);
        b->out[k] = NULL;
    }
    return status;
}

gd_status gd_traced_batch(gd_traced *t, gd_traced_kind kind, gd_tensor *const *inputs, int count,
                          const bool *same, gd_tensor **out)
{
    if (!t) return GD_ARGUMENT;
    gd_status status = check_call(t, kind, inputs, count, out);
    if (status) return status;
    batch b = {.t = t,
               .ctx = t->set.ctx,
               .what = gd__traced_evaluation(t, kind, count),
               .inputs = inputs,
               .same = same,
               .count = count,
               .out = out};
    for (int k = 0; k < b.what.outputs; k++) out[k] = NULL;
    if (!find_problems(&b)) return gd_error(b.ctx);
    size_t bytes = (size_t)count * sizeof *b.row;
    if (!(b.row = gd__alloc(b.ctx, bytes))) return GD_NOMEM;
    status = run_all(&b);
    gd__free(b.ctx, b.row, bytes);
    return hand_over(&b, status);
}
