/* Executing programs on the CPU, and what is common to all devices; see execute.h. */
#include "base/narrow.h"
#include "program/dialect.h"
#include "program/element.h"
#include "program/execute.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define CHUNK            16384 /* elements of a piece in the last pass */
#define SUM_CHUNK        4096  /* and in a pass that reduces, or makes random numbers */
#define DEVICE_CHUNK     4096  /* on a device, where many blocks at once make up for small pieces */
#define DEVICE_SUM_CHUNK 8192
#define TASK             32768  /* elements worth a thread */
#define PART             262144 /* elements of this process between two calls of gd_exec_run.ready */

static bool on_cpu(const gd_exec *x) { return x->device == x->device->ctx->cpu; }

bool gd__exec_by_host(const gd_exec *x) { return on_cpu(x) || !x->device->backend->program; }

/* ---- making ---- */

/* Not if a reduction was deferred to a later pass. */
static bool does_something(const gd_pass *pass) { return pass->last || pass->stores || pass->reductions; }

gd_status gd__exec_passes(gd_exec *x, bool interpret)
{
    gd_ctx *ctx = x->device->ctx;
    x->passes = gd__program_passes(x->p);
    size_t passes = (size_t)x->passes;
    x->pass = gd__calloc(ctx, passes * sizeof *x->pass);
    x->kernel = gd__calloc(ctx, passes * sizeof *x->kernel);
    x->how = gd__calloc(ctx, passes * sizeof *x->how);
    if (!x->pass || !x->kernel || !x->how) return GD_NOMEM;
    for (int i = 0; i < x->passes; i++) {
        gd__program_pass(x->p, i, &x->pass[i]);
        x->how[i] = GD_EXEC_INTERPRETER;
        if (!interpret && on_cpu(x) && does_something(&x->pass[i]))
            x->kernel[i] = gd__kernel_for(ctx, x->p, &x->pass[i], &x->how[i]);
    }
    return GD_OK;
}

/* Elements of a member in a space. */
static int64_t space_numel(const gd_exec *x, int m, uint16_t along)
{
    return gd__axes_numel(x->p, x->size ? x->size + m * x->p->axes : NULL, along, x->numel[m]);
}

gd_status gd__work_make(const gd_exec *x, int64_t size, uint16_t along, gd_work *w)
{
    gd_ctx *ctx = x->device->ctx;
    for (int m = 0; m < x->members; m++) w->chunks += (space_numel(x, m, along) + size - 1) / size;
    w->chunk = gd__alloc_array(ctx, (size_t)w->chunks, sizeof *w->chunk);
    w->task = gd__alloc_array(ctx, (size_t)w->chunks + 1, sizeof *w->task);
    if (!w->chunk || !w->task) return GD_NOMEM;
    int64_t at = 0, filled = TASK;
    for (int m = 0; m < x->members; m++)
        for (int64_t start = 0, numel = space_numel(x, m, along); start < numel; start += size) {
            int64_t n = numel - start < size ? numel - start : size;
            if (filled >= TASK) {
                w->task[w->tasks++] = at;
                filled = 0;
            }
            filled += n;
            w->chunk[at++] = (gd_chunk){.start = start, .n = n, .member = m};
        }
    w->task[w->tasks] = at;
    return GD_OK;
}

static bool needs_buffer(const gd_pass *pass) { return pass->randoms || pass->views || pass->sums; }

const gd_work *gd__work_of(const gd_exec *x, int i)
{
    const gd_pass *pass = &x->pass[i];
    if (pass->sums || pass->along != x->p->full) return &x->own[i];
    return pass->kind == GD_PASS_REDUCE ? &x->reduce : &x->last;
}

static gd_status make_rooms(gd_exec *x)
{
    gd_ctx *ctx = x->device->ctx;
    size_t members = (size_t)x->members, arrays = (size_t)x->p->arrays, uniforms = (size_t)x->p->uniforms;
    size_t reductions = (size_t)x->p->reductions;
    for (int i = 0; i < x->passes; i++) {
        if (x->pass[i].scalars > x->scalar_room) x->scalar_room = x->pass[i].scalars;
        size_t bytes = gd__buffer_bytes(&x->pass[i]);
        if (bytes > x->buffer_bytes) x->buffer_bytes = bytes;
        int64_t partials = gd__work_of(x, i)->chunks * x->pass[i].reductions;
        if (partials > x->partial_room) x->partial_room = partials;
    }
    x->pointer = gd__calloc(ctx, members * arrays * sizeof *x->pointer);
    x->input = gd__calloc(ctx, members * uniforms * sizeof *x->input);
    x->reduced = gd__calloc(ctx, members * reductions * sizeof *x->reduced);
    x->scalar = gd__calloc(ctx, members * (size_t)x->scalar_room * sizeof *x->scalar);
    x->stored = gd__calloc(ctx, members * uniforms * sizeof *x->stored);
    x->value = gd__calloc(ctx, (size_t)x->p->count * sizeof *x->value);
    x->partial = gd__calloc(ctx, (size_t)x->partial_room * sizeof *x->partial);
    x->buffer = gd__alloc(ctx, (size_t)ctx->threads * x->buffer_bytes);
    bool all = x->pointer && x->input && x->reduced && x->scalar && x->stored && x->value && x->partial &&
               x->buffer;
    if (!all) return GD_NOMEM;
    gd__program_list_uniforms(x->p, x->pass, x->passes, &x->needed, x->value);
    return gd__axes_rooms(x);
}

gd_status gd__exec_members(gd_exec *x, int members, int64_t *numel, int64_t *size)
{
    bool cpu = gd__exec_by_host(x);
    int64_t chunk = cpu ? CHUNK : DEVICE_CHUNK, sum_chunk = cpu ? SUM_CHUNK : DEVICE_SUM_CHUNK;
    uint16_t full = x->p->full;
    x->members = members;
    x->numel = numel;
    x->size = size;
    for (int u = 0; u < x->p->uniforms; u++) x->stores_scalars |= x->p->uniform[u].store >= 0;
    for (int r = 0; r < x->p->reductions; r++)
        x->reduces_each |= x->p->instr[x->p->reduction[r]].extent == GD_EACH;
    for (int i = 0; i < x->passes && cpu; i++)
        if (x->pass[i].last && needs_buffer(&x->pass[i])) chunk = SUM_CHUNK;
    x->own = gd__calloc(x->device->ctx, (size_t)x->passes * sizeof *x->own);
    gd_status status = x->own ? gd__work_make(x, chunk, full, &x->last) : GD_NOMEM;
    if (!status && x->p->levels) status = gd__work_make(x, sum_chunk, full, &x->reduce);
    for (int i = 0; i < x->passes && !status; i++) {
        const gd_pass *pass = &x->pass[i];
        if (pass->sums)
            status = gd__tiles_make(x, pass, &x->own[i]);
        else if (pass->along != full)
            status = gd__work_make(x, sum_chunk, pass->along, &x->own[i]);
    }
    return status ? status : make_rooms(x);
}

void gd__work_free(gd_ctx *ctx, gd_work *w)
{
    gd__free(ctx, w->chunk, (size_t)w->chunks * sizeof *w->chunk);
    gd__free(ctx, w->task, (size_t)(w->chunks + 1) * sizeof *w->task);
}

void gd__exec_free(gd_exec *x)
{
    gd_ctx *ctx = x->device->ctx;
    size_t members = (size_t)x->members, arrays = (size_t)x->p->arrays, uniforms = (size_t)x->p->uniforms;
    size_t passes = (size_t)x->passes, reductions = (size_t)x->p->reductions;
    gd__device_table_free(x);
    gd__axes_free(x);
    for (size_t i = 0; x->own && i < passes; i++) gd__work_free(ctx, &x->own[i]);
    gd__free(ctx, x->own, passes * sizeof *x->own);
    gd__work_free(ctx, &x->last);
    gd__work_free(ctx, &x->reduce);
    gd__free(ctx, x->numel, members * sizeof *x->numel);
    gd__free(ctx, x->own_from, members * sizeof *x->own_from);
    gd__free(ctx, x->own_to, members * sizeof *x->own_to);
    gd__free(ctx, x->pass, passes * sizeof *x->pass);
    gd__free(ctx, x->kernel, passes * sizeof *x->kernel);
    gd__free(ctx, x->how, passes * sizeof *x->how);
    gd__free(ctx, x->pointer, members * arrays * sizeof *x->pointer);
    gd__free(ctx, x->input, members * uniforms * sizeof *x->input);
    gd__free(ctx, x->reduced, members * reductions * sizeof *x->reduced);
    gd__free(ctx, x->scalar, members * (size_t)x->scalar_room * sizeof *x->scalar);
    gd__free(ctx, x->stored, members * uniforms * sizeof *x->stored);
    gd__free(ctx, x->value, (size_t)x->p->count * sizeof *x->value);
    gd__free(ctx, x->partial, (size_t)x->partial_room * sizeof *x->partial);
    gd__free(ctx, x->buffer, (size_t)ctx->threads * x->buffer_bytes);
    gd__program_free(x->p);
}

void gd__execs_free(gd_exec_set *set)
{
    if (set->graph) set->device->backend->forget(set->device, set->graph);
    gd__launches_free(set->ctx, &set->launches);
    for (int i = 0; i < set->tables; i++) gd__exec_free(&set->table[i]);
}

/* ---- sets ---- */

/* The k-th reduction over all members; -1: there are fewer. */
static int over_all(const gd_program *p, int k)
{
    for (int r = 0; r < p->reductions; r++)
        if (p->instr[p->reduction[r]].extent == GD_ALL && k-- == 0) return r;
    return -1;
}

static const gd_instr *over_all_instr(const gd_program *p, int k)
{
    int r = over_all(p, k);
    return r < 0 ? NULL : &p->instr[p->reduction[r]];
}

/* Programs of a set reduce the same over all members, whatever else they do. */
static bool reduce_alike(const gd_program *p, const gd_program *q)
{
    bool same = true, more = true;
    for (int k = 0; same && more; k++) {
        const gd_instr *a = over_all_instr(p, k), *b = over_all_instr(q, k);
        same = !a == !b && (!a || a->op == b->op);
        more = a != NULL;
    }
    return same;
}

/* Tables whose programs have different earlier sums must still reach it in the same pass. */
void gd__execs_align(gd_exec_set *set)
{
    for (int i = 1; i < set->tables; i++)
        if (!reduce_alike(set->table[i].p, set->table[0].p)) return;
    for (int k = 0; over_all_instr(set->table[0].p, k); k++) {
        int level = 0;
        for (int i = 0; i < set->tables; i++) {
            const gd_instr *in = over_all_instr(set->table[i].p, k);
            if (in->level > level) level = in->level;
        }
        for (int i = 0; i < set->tables; i++) {
            gd_program *p = set->table[i].p;
            if (over_all_instr(p, k)->level < level) gd__program_delay(p, over_all(p, k), level);
        }
    }
}

/* The device that all tables are on, if it can join their reductions. */
static gd_device *only_device(const gd_exec_set *set)
{
    gd_device *device = set->table[0].device;
    const gd_program *p = set->table[0].p;
    bool only = set->tables <= GD_DEVICE_TABLES;
    for (int i = 0; i < set->tables && only; i++) {
        const gd_program *q = set->table[i].p;
        only = set->table[i].device == device && !gd__exec_by_host(&set->table[i]);
        for (int k = 0; only && over_all(p, k) >= 0; k++)
            only = p->reductions == q->reductions && over_all(p, k) == over_all(q, k);
    }
    return only ? device : NULL;
}

gd_status gd__execs_join(gd_exec_set *set)
{
    set->device = only_device(set);
    for (int i = 0; i < set->tables; i++)
        if (set->table[i].p->levels > set->levels) set->levels = set->table[i].p->levels;
    for (int i = 1; i < set->tables; i++)
        if (!reduce_alike(set->table[i].p, set->table[0].p))
            return gd_fail(
                set->ctx, GD_NOT_IMPLEMENTED,
                "a norm over all parameters meets parameters whose settings shape the chain differently");
    return GD_OK;
}

/* ---- a pass ---- */

typedef struct pass_run {
    gd_exec *x;
    const gd_pass *pass;
    gd_kernel_fn kernel;
    const gd_work *work;
    int64_t scalars;      /* from those of a member to those of the next */
    int64_t first, end;   /* tasks */
    _Atomic int64_t next; /* the one that is next */
} pass_run;

/* Addresses of a chunk's elements: values not in memory are computed into the buffer. */
static char *const *place_arrays(const pass_run *r, const gd_chunk *chunk, const double *scalar, char *buffer,
                                 char *const *operand, char **array)
{
    const gd_exec *x = r->x;
    int arrays = x->p->arrays;
    memcpy(array, x->pointer + chunk->member * arrays, (size_t)arrays * sizeof *array);
    for (int k = 0; chunk->start && k < arrays; k++)
        if (array[k] && x->p->array[k].dtype != GD_U8)
            array[k] += chunk->start * (int64_t)gd_dtype_size(x->p->array[k].dtype);
    if (buffer)
        (void)gd__make_inputs(x, r->pass, chunk->member, chunk->start, chunk->n, scalar, buffer, array);
    for (int s = 0; s < r->pass->sums; s++) array[x->p->instr[r->pass->sum[s]].place] = operand[s];
    return array;
}

/* The kernel over one chunk; operand: where a pass along axes stores its summands. */
static void run_kernel(const pass_run *r, const gd_chunk *chunk, char *buffer, char *const *operand,
                       double *out)
{
    const gd_exec *x = r->x;
    const double *scalar = x->scalar + chunk->member * r->scalars;
    char *own[GD_MAX_ARRAYS], *const *array = x->pointer + chunk->member * x->p->arrays;
    if (chunk->start || buffer) array = place_arrays(r, chunk, scalar, buffer, operand, own);
    if (r->kernel)
        r->kernel(chunk->start, chunk->n, array, scalar, out);
    else
        gd__interpret(x->p, r->pass, chunk->start, chunk->n, array, scalar, out);
}

static void run_piece(const void *user, const gd_chunk *piece, char *buffer, char *const *operand)
{
    run_kernel(user, piece, buffer, operand, NULL);
}

static void run_chunk(const pass_run *r, int64_t c, char *buffer)
{
    const gd_chunk *chunk = &r->work->chunk[c];
    if (gd__exec_is_elsewhere(r->x, chunk)) return;
    if (r->pass->sums) {
        gd__run_tile(r->x, r->pass, chunk, buffer, run_piece, r);
        return;
    }
    if (r->pass->reductions || !buffer) {
        run_kernel(r, chunk, buffer, NULL, r->x->partial + c * r->pass->reductions);
        return;
    }
    gd_chunk piece = *chunk;
    for (int64_t end = chunk->start + chunk->n; piece.start < end; piece.start += GD_PIECE) {
        piece.n = end - piece.start < GD_PIECE ? end - piece.start : GD_PIECE;
        run_kernel(r, &piece, buffer, NULL, NULL);
    }
}

static void run_task(void *arg, int64_t task)
{
    const pass_run *r = arg;
    task += r->first;
    for (int64_t c = r->work->task[task]; c < r->work->task[task + 1]; c++) run_chunk(r, c, NULL);
}

/* Tasks of one thread after the other, if each needs its own buffer. */
static void run_tasks(void *arg, int64_t thread)
{
    pass_run *r = arg;
    char *buffer = r->x->buffer + (size_t)thread * r->x->buffer_bytes;
    for (int64_t task; (task = atomic_fetch_add(&r->next, 1)) < r->end;)
        for (int64_t c = r->work->task[task]; c < r->work->task[task + 1]; c++) run_chunk(r, c, buffer);
}

static void run_all_tasks(gd_ctx *ctx, pass_run *r)
{
    int64_t tasks = r->end - r->first;
    r->next = r->first;
    if (tasks == 1 && !needs_buffer(r->pass))
        run_task(r, 0);
    else if (!needs_buffer(r->pass))
        gd__parallel(ctx, tasks, run_task, r);
    else
        gd__parallel(ctx, tasks < ctx->threads ? tasks : ctx->threads, run_tasks, r);
}

static bool same_numbers(const double *a, const double *b, int count)
{
    for (int i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a)) return false;
    return true;
}

/* Has a member the same inputs as the one before? */
static bool like_before(const gd_exec *x, int m)
{
    const double *input = x->input + m * x->p->uniforms;
    return same_numbers(input, input - x->p->uniforms, x->p->uniforms);
}

gd_status gd__exec_send(gd_exec *x, bool inputs)
{
    if (!gd__exec_by_host(x)) return gd__device_send(x);
    if (!inputs) return GD_OK;
    x->alike = true;
    for (int m = 1; m < x->members && x->alike; m++) x->alike = like_before(x, m);
    if (x->alike) gd__program_uniforms(&x->needed, 0, 0, x->input, x->reduced, x->value);
    return GD_OK;
}

static void take_scalars(const gd_exec *x, const gd_pass *pass, double *scalar)
{
    for (int k = 0; k < pass->scalars; k++) scalar[k] = x->value[pass->used[k]];
}

static void fill_members(gd_exec *x, const gd_pass *pass)
{
    const gd_program *p = x->p;
    int from = x->alike ? x->needed.steady : 0;
    for (int m = 0; m < x->members; m++) {
        const double *input = x->input + m * p->uniforms, *reduced = x->reduced + m * p->reductions;
        if (m == 0 || !(x->alike || like_before(x, m)) ||
            !same_numbers(reduced, reduced - p->reductions, p->reductions))
            gd__program_uniforms(&x->needed, from, pass->level, input, reduced, x->value);
        take_scalars(x, pass, x->scalar + (int64_t)m * x->scalar_room);
        for (int u = 0; pass->last && x->stores_scalars && u < p->uniforms; u++)
            if (p->uniform[u].store >= 0) x->stored[m * p->uniforms + u] = x->value[p->uniform[u].store];
    }
}

/* The uniform values of a pass. Usually all members have the same ones, and those of the first are used for all. Returns their stride
 * between members. */
static int fill_scalars(gd_exec *x, const gd_pass *pass)
{
    bool stores = pass->last && x->stores_scalars;
    if (!pass->scalars && !stores) return 0;
    if (!x->alike || (x->reduces_each && pass->level) || stores) {
        fill_members(x, pass);
        return x->scalar_room;
    }
    gd__program_uniforms(&x->needed, x->needed.steady, pass->level, x->input, x->reduced, x->value);
    take_scalars(x, pass, x->scalar);
    return 0;
}

/* ---- copies: a device that cannot run programs has them interpreted here ---- */

/* Values that are on the host anyway. */
static bool is_own(const gd_array *a) { return a->kind == GD_ARRAY_RANDOM || a->kind == GD_ARRAY_SCRATCH; }

static size_t bytes_of(const gd_exec *x, int i)
{
    int arrays = x->p->arrays;
    const gd_array *a = &x->p->array[i % arrays];
    if (a->dtype == GD_U8) return (size_t)gd__coded_bytes(x->numel[i / arrays]);
    return (size_t)space_numel(x, i / arrays, a->along) * gd_dtype_size(a->dtype);
}

/* This process's shard of an array: the number of bytes, and their offset from the pointer. */
typedef struct extent {
    ptrdiff_t from;
    size_t bytes;
} extent;

static extent extent_of(const gd_exec *x, int i)
{
    int m = i / x->p->arrays;
    bool coded = x->p->array[i % x->p->arrays].dtype == GD_U8;
    extent all = {.from = coded ? -(ptrdiff_t)gd__coded_before(x->numel[m]) : 0, .bytes = bytes_of(x, i)};
    if (!x->share || (!x->own_from[m] && x->own_to[m] == x->numel[m])) return all;
    size_t item = gd_dtype_size(x->p->array[i % x->p->arrays].dtype);
    return (extent){.from = (ptrdiff_t)((size_t)x->own_from[m] * item),
                    .bytes = (size_t)(x->own_to[m] - x->own_from[m]) * item};
}

static char *moved(char *pointer, ptrdiff_t bytes)
{
    return (char *)((uintptr_t)pointer + (uintptr_t)bytes); /* a shard has no address of the whole */
}

static gd_status fetch_copies(const gd_exec *x, const gd_pass *pass, char **copy)
{
    gd_status status = GD_OK;
    for (int i = 0; i < x->members * x->p->arrays && !status; i++) {
        int k = i % x->p->arrays;
        extent e = extent_of(x, i);
        if (!((pass->loads | pass->stores) >> k & 1) || !e.bytes || is_own(&x->p->array[k])) continue;
        char *data = gd__alloc(x->device->ctx, e.bytes);
        if (!data) return GD_NOMEM;
        if (pass->loads >> k & 1)
            status = x->device->backend->download(x->device, data, moved(x->pointer[i], e.from), e.bytes);
        copy[i] = moved(data, -e.from);
    }
    return status;
}

static gd_status send_copies(const gd_exec *x, const gd_pass *pass, char **copy)
{
    gd_status status = GD_OK;
    for (int i = 0; i < x->members * x->p->arrays && !status; i++) {
        extent e = extent_of(x, i);
        if (copy[i] && pass->stores >> i % x->p->arrays & 1)
            status = x->device->backend->upload(x->device, moved(x->pointer[i], e.from),
                                                moved(copy[i], e.from), e.bytes);
    }
    return status;
}

static gd_status run_on_copies(pass_run *r)
{
    gd_exec *x = r->x;
    gd_ctx *ctx = x->device->ctx;
    size_t count = (size_t)(x->members * x->p->arrays);
    char **there = x->pointer, **copy = gd__calloc(ctx, count * sizeof *copy);
    gd_status status = copy ? fetch_copies(x, r->pass, copy) : GD_NOMEM;
    if (!status) {
        for (size_t i = 0; i < count; i++)
            if (is_own(&x->p->array[i % (size_t)x->p->arrays])) copy[i] = there[i];
        x->pointer = copy;
        run_all_tasks(ctx, r);
        x->pointer = there;
        for (size_t i = 0; i < count; i++)
            if (is_own(&x->p->array[i % (size_t)x->p->arrays])) copy[i] = NULL;
        status = send_copies(x, r->pass, copy);
        x->device->host_calls++;
    }
    for (size_t i = 0; copy && i < count; i++) {
        extent e = extent_of(x, (int)i);
        if (copy[i]) gd__free(ctx, moved(copy[i], e.from), e.bytes);
    }
    gd__free(ctx, copy, count * sizeof *copy);
    return status;
}

static pass_run pass_of(gd_exec *x, int i)
{
    pass_run r = {.x = x, .pass = &x->pass[i], .kernel = x->kernel[i], .work = gd__work_of(x, i)};
    r.end = r.work->tasks;
    return r;
}

static gd_status walk_pass(gd_exec *x, int i)
{
    pass_run r = pass_of(x, i);
    r.scalars = fill_scalars(x, r.pass);
    if (!on_cpu(x)) return run_on_copies(&r);
    run_all_tasks(x->device->ctx, &r);
    return GD_OK;
}

/* ---- reductions ---- */

static double join(int op, double a, double b)
{
    if (op == GD_I_SUM) return a + b;
    return a != a ? a : b > a || b != b ? b : a;
}

static double nothing(int op) { return op == GD_I_SUM ? 0 : -INFINITY; }

/* Chunk results of a member, pairwise. */
static double join_chunks(gd_exec *x, const gd_pass *pass, int k, int64_t first, int64_t count, int op)
{
    double *p = x->partial + first * pass->reductions + k;
    int64_t step = pass->reductions;
    for (int64_t width = 1; width < count; width *= 2)
        for (int64_t c = 0; c + width < count; c += 2 * width)
            p[c * step] = join(op, p[c * step], p[(c + width) * step]);
    return count ? p[0] : nothing(op);
}

/* The partial sums of chunks of other processes. */
static gd_status fetch_partials(gd_exec *x, int i)
{
    int64_t count = gd__work_of(x, i)->chunks * x->pass[i].reductions;
    return count ? x->share->join(x->share->user, x->partial, count) : GD_OK;
}

static void join_on_cpu(gd_exec *x, int i)
{
    const gd_pass *pass = &x->pass[i];
    const gd_work *work = gd__work_of(x, i);
    for (int k = 0; k < pass->reductions; k++) {
        int number = pass->reduction[k], op = x->p->instr[x->p->reduction[number]].op;
        int64_t c = 0;
        for (int m = 0; m < x->members; m++) {
            int64_t first = c;
            while (c < work->chunks && work->chunk[c].member == m) c++;
            x->reduced[m * x->p->reductions + number] = join_chunks(x, pass, k, first, c - first, op);
        }
    }
}

static double *reduced_at(gd_exec_set *set, int i, int k)
{
    gd_exec *x = &set->table[set->table_of[i]];
    return &x->reduced[set->member_of[i] * x->p->reductions + over_all(x->p, k)];
}

/* Reductions over all members: in the order of the set, whatever the tables. */
static void join_all(gd_exec_set *set, int k, int op)
{
    double all = nothing(op);
    for (int i = 0; i < set->count; i++) all = join(op, all, *reduced_at(set, i, k));
    for (int i = 0; i < set->count; i++) *reduced_at(set, i, k) = all;
}

/* Not checked on a device, which would have to wait. */
static bool all_finite(const gd_exec *x, const gd_pass *pass)
{
    for (int k = 0; k < pass->reductions; k++)
        for (int m = 0; m < x->members; m++) {
            double value = x->reduced[m * x->p->reductions + pass->reduction[k]];
            if (!isfinite(value) && x->numel[m])
                return false; /* the largest of no elements is not a number either */
        }
    return true;
}

/* A pass of one table, its chunks joined. */
static gd_status run_pass(gd_exec *x, int i, gd_launches *list, gd_exec_run *run)
{
    const gd_pass *pass = &x->pass[i];
    if (!does_something(pass)) return GD_OK;
    bool shared = x->share && pass->reductions;
    if (!gd__exec_by_host(x)) {
        gd_status status = gd__device_pass(x, i, list);
        if (!status && shared) status = gd__device_fetch_partials(x, i);
        if (!status && shared) status = fetch_partials(x, i);
        if (!status && shared) status = gd__device_send_partials(x, i);
        return status ? status : gd__device_join(x, i, list);
    }
    if (pass->sums) (void)gd__partials_place(x, pass, x->along_at);
    if (shared) memset(x->partial, 0, (size_t)x->partial_room * sizeof *x->partial);
    gd_status status = walk_pass(x, i);
    if (!status && shared) status = fetch_partials(x, i);
    if (status) return status;
    if (pass->reductions) join_on_cpu(x, i);
    bool finite = all_finite(x, pass);
    if (pass->sums) finite = gd__join_along(x, pass) && finite;
    if (!finite) run->not_finite = true;
    return GD_OK;
}

/* The passes of a table at one level: all must run before the next level. */
static gd_status run_level(gd_exec *x, int level, gd_launches *list, gd_exec_run *run)
{
    gd_status status = GD_OK;
    for (int i = 0; i < x->passes && !status; i++)
        if (x->pass[i].level == level) status = run_pass(x, i, list, run);
    return status;
}

/* Members of tables on several devices are joined by the host. */
static gd_status join_members(gd_exec_set *set, int level)
{
    gd_status status = GD_OK;
    const gd_program *p = set->table[0].p;
    for (int i = 0; i < set->tables && !status; i++)
        if (!gd__exec_by_host(&set->table[i])) status = gd__device_fetch_reduced(&set->table[i]);
    for (int k = 0; over_all(p, k) >= 0 && !status; k++)
        if (over_all_instr(p, k)->level == level + 1) join_all(set, k, over_all_instr(p, k)->op);
    for (int i = 0; i < set->tables && !status; i++)
        if (!gd__exec_by_host(&set->table[i])) status = gd__device_send_reduced(&set->table[i]);
    return status;
}

/* Reductions over all members. */
static gd_status join_level(gd_exec_set *set, int level, gd_launches *list)
{
    const gd_program *p = set->table[0].p;
    gd_status status = GD_OK;
    bool any = false;
    for (int k = 0; over_all(p, k) >= 0 && !status; k++) {
        if (over_all_instr(p, k)->level != level + 1) continue;
        any = true;
        if (set->device) status = gd__device_join_all(set->table, set->tables, over_all(p, k), list);
    }
    return any && !set->device ? join_members(set, level) : status;
}

/* Each sum along axes is computed by one process. */
static gd_status agree_on_finite(const gd_exec_set *set, gd_exec_run *run)
{
    bool sums = false;
    for (int i = 0; i < set->tables; i++)
        for (int k = 0; k < set->table[i].passes; k++) sums = sums || set->table[i].pass[k].sums;
    double not_finite = run->not_finite;
    const gd_exec_share *share = set->table[0].share;
    gd_status status = sums ? share->join(share->user, &not_finite, 1) : GD_OK;
    run->not_finite = not_finite != 0;
    return status;
}

/* ---- the last pass, part by part ---- */

/* The last pass of a table, if it only processes elements; -1: it runs as a whole. */
static int only_pass(const gd_exec *x)
{
    int only = -1;
    for (int i = 0; i < x->passes; i++) {
        if (x->pass[i].level != x->p->levels || !does_something(&x->pass[i])) continue;
        if (only >= 0) return -1;
        only = i;
    }
    const gd_pass *pass = &x->pass[only < 0 ? 0 : only];
    bool plain = on_cpu(x) && !pass->sums && !pass->reductions && pass->along == x->p->full;
    return plain ? only : -1;
}

/* Tasks with elements of the requested members. */
static void walk_on(gd_exec *x, int pass)
{
    pass_run r = pass_of(x, pass);
    r.scalars = x->stride;
    r.first = x->walked;
    while (x->walked < r.work->tasks && r.work->chunk[r.work->task[x->walked]].member < x->wanted)
        x->walked++;
    r.end = x->walked;
    if (r.end > r.first) run_all_tasks(x->device->ctx, &r);
}

static gd_status begin_parts(gd_exec_set *set, gd_exec_run *run)
{
    gd_status status = GD_OK;
    for (int i = 0; i < set->tables && !status; i++) {
        gd_exec *x = &set->table[i];
        int pass = only_pass(x);
        x->walked = x->wanted = 0;
        if (pass < 0)
            status = run_level(x, x->p->levels, NULL, run);
        else
            x->stride = fill_scalars(x, &x->pass[pass]);
    }
    return status ? status : agree_on_finite(set, run);
}

static void run_parts(gd_exec_set *set, const gd_exec_run *run)
{
    int64_t elements = 0;
    for (int i = 0; i < set->count; i++) {
        gd_exec *x = &set->table[set->table_of[i]];
        int m = set->member_of[i], pass;
        x->wanted = m + 1;
        elements += x->own_to[m] - x->own_from[m];
        if (elements < PART && i + 1 < set->count) continue;
        for (int k = 0; k < set->tables; k++)
            if ((pass = only_pass(&set->table[k])) >= 0) walk_on(&set->table[k], pass);
        run->ready(run->user, i + 1);
        elements = 0;
    }
}

/* Launches are collected where one device does all of them, and no other process takes part. */
gd_status gd__execs_run(gd_exec_set *set, gd_exec_run *run)
{
    if (set->tables) gd__not_recorded(set->table[0].device->ctx, "it runs a step of an optimizer");
    gd_launches *list = set->device && !set->table[0].share ? &set->launches : NULL;
    if (list) list->count = 0;
    gd_status status = GD_OK;
    for (int level = 0; level < set->levels && !status; level++) {
        for (int i = 0; i < set->tables && !status; i++)
            if (level < set->table[i].p->levels) status = run_level(&set->table[i], level, list, run);
        if (!status) status = join_level(set, level, list);
    }
    if (!status && run->ready) {
        status = begin_parts(set, run);
        if (!status) run_parts(set, run);
        return status;
    }
    for (int i = 0; i < set->tables && !status; i++)
        status = run_level(&set->table[i], set->table[i].p->levels, list, run);
    if (!status && set->tables && set->table[0].share) status = agree_on_finite(set, run);
    if (status || !list) return status;
    status = gd__launch_all(set->device, list, run->replay ? &set->graph : NULL);
    run->replayed = run->replay && set->graph && !status;
    return status;
}

/* A device computes kept scalars only for itself: repeats that here. */
gd_status gd__exec_fetch_stored(gd_exec *x)
{
    if (gd__exec_by_host(x) || !x->stores_scalars) return GD_OK;
    gd_status status = gd__device_fetch_reduced(x);
    if (!status) (void)fill_scalars(x, &x->pass[x->passes - 1]);
    return status;
}
