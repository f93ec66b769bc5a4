/* Tables on a device: one kernel a pass over all members, reductions joined on the device and left there.
 *
 * The tables (chunks, pointers, inputs) lie on the device and are sent again only when they change; what is the same for
 * all members goes with the launch.  Nothing waits for the device, except programs that keep scalars.
 * A set whose tables are all on one device collects its launches first: they can then run as one graph. */
#include "program/dialect.h"
#include "program/execute.h"

#include <math.h>
#include <string.h>

#define THREADS 256

struct gd_device_start {
    gd_launch launch;
    union {
        gd_table_launch pass;
        gd_join_launch join;
        gd_join_all_launch all;
    } args;
};

/* A block on the device with what it last held. */
typedef struct mirror {
    void *device;
    char *sent;
    size_t bytes;
    bool known;
} mirror;

struct gd_device_table {
    void **kernel;                       /* one a pass */
    int32_t (*common)[GD_LAUNCH_COMMON]; /* one list a pass: what goes with the launch */
    int *common_count;
    void *join_chunks, *join_all;
    mirror last_chunks, reduce_chunks, first, pointer, input;
    void *partial, *reduced;
    size_t partial_bytes, reduced_bytes;
    bool common_settings;
    int passes;
    int columns; /* of the table of inputs */
    int32_t column[GD_MAX_UNIFORMS];
    double *row; /* [members, columns] */
    size_t row_bytes;
};

/* ---- memory ---- */

static gd_status mirror_send(gd_device *device, mirror *m, const void *data, size_t bytes)
{
    gd_ctx *ctx = device->ctx;
    m->bytes = bytes;
    if (!m->device) m->device = device->backend->alloc(device, bytes ? bytes : 1);
    if (!m->sent) m->sent = gd__alloc(ctx, bytes);
    if (!m->device || !m->sent) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    if (bytes == 0 || (m->known && !memcmp(m->sent, data, bytes))) return GD_OK;
    memcpy(m->sent, data, bytes);
    gd_status status = device->backend->upload(device, m->device, m->sent, bytes);
    m->known = !status;
    return status;
}

static void mirror_free(gd_device *device, mirror *m)
{
    if (m->device) device->backend->free(device, m->device, m->bytes);
    gd__free(device->ctx, m->sent, m->bytes);
}

void gd__device_table_free(gd_exec *x)
{
    gd_device_table *u = x->on_device;
    if (!u) return;
    gd_device *device = x->device;
    mirror *const all[] = {&u->last_chunks, &u->reduce_chunks, &u->first, &u->pointer, &u->input};
    for (int i = 0; i < 5; i++) mirror_free(device, all[i]);
    if (u->partial) device->backend->free(device, u->partial, u->partial_bytes);
    if (u->reduced) device->backend->free(device, u->reduced, u->reduced_bytes);
    gd__free(device->ctx, u->kernel, (size_t)u->passes * sizeof *u->kernel);
    gd__free(device->ctx, u->common, (size_t)u->passes * sizeof *u->common);
    gd__free(device->ctx, u->common_count, (size_t)u->passes * sizeof *u->common_count);
    gd__free(device->ctx, u->row, u->row_bytes);
    gd__free(device->ctx, u, sizeof *u);
    x->on_device = NULL;
}

/* ---- making ---- */

static bool same_settings(const gd_exec *x)
{
    for (int u = 0; u < x->p->uniforms; u++) {
        if (x->p->uniform[u].kind != GD_U_SETTING) continue;
        for (int m = 1; m < x->members; m++) {
            double a = x->input[u], b = x->input[m * x->p->uniforms + u];
            if (a != b && !(isnan(a) && isnan(b))) return false;
        }
    }
    return true;
}

static gd_status list_common(gd_exec *x, gd_device_table *u, int level)
{
    int32_t list[GD_MAX_INSTRS];
    int count = gd__table_common(x->p, &x->pass[level], u->common_settings, list);
    if (count > GD_LAUNCH_COMMON)
        return gd_fail(x->device->ctx, GD_INTERNAL, "a program has %d scalars, too many for a launch", count);
    memcpy(u->common[level], list, (size_t)count * sizeof *list);
    u->common_count[level] = count;
    return GD_OK;
}

static gd_status make_kernels(gd_exec *x, gd_device_table *u)
{
    gd_ctx *ctx = x->device->ctx;
    gd_status status = GD_OK;
    for (int level = 0; level < u->passes && !status; level++) status = list_common(x, u, level);
    for (int level = 0; level < u->passes && !status; level++) {
        gd_text text = {.ctx = ctx};
        gd__emit_table(x->p, &x->pass[level], x->device->backend->dialect, "rule_pass", u->common_settings,
                       &text);
        u->kernel[level] = text.failed ? NULL
                                       : x->device->backend->program(x->device, text.data, "rule_pass");
        if (!u->kernel[level]) status = gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
        gd__text_free(&text);
    }
    if (!status && u->passes > 1) {
        gd_text text = {.ctx = ctx};
        gd__emit_joins(x->device->backend->dialect, &text);
        u->join_chunks = text.failed ? NULL
                                     : x->device->backend->program(x->device, text.data, "join_chunks");
        u->join_all = text.failed ? NULL : x->device->backend->program(x->device, text.data, "join_all");
        if (!u->join_chunks || !u->join_all) status = gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
        gd__text_free(&text);
    }
    return status;
}

static gd_status send_chunks(gd_exec *x, mirror *m, const gd_work *work)
{
    gd_ctx *ctx = x->device->ctx;
    size_t bytes = (size_t)work->chunks * sizeof(gd_table_chunk);
    gd_table_chunk *list = gd__alloc(ctx, bytes);
    if (!list) return GD_NOMEM;
    for (int64_t c = 0; c < work->chunks; c++)
        list[c] = (gd_table_chunk){
            .start = work->chunk[c].start, .n = work->chunk[c].n, .member = work->chunk[c].member};
    gd_status status = mirror_send(x->device, m, list, bytes);
    gd__free(ctx, list, bytes);
    return status;
}

/* first[m]: the first chunk of member m in the reducing passes. */
static gd_status send_first(gd_exec *x, gd_device_table *u)
{
    gd_ctx *ctx = x->device->ctx;
    size_t bytes = (size_t)(x->members + 1) * sizeof(int64_t);
    int64_t *first = gd__alloc(ctx, bytes), c = 0;
    if (!first) return GD_NOMEM;
    for (int m = 0; m <= x->members; m++) {
        while (c < x->reduce.chunks && x->reduce.chunk[c].member < m) c++;
        first[m] = c;
    }
    gd_status status = mirror_send(x->device, &u->first, first, bytes);
    gd__free(ctx, first, bytes);
    return status;
}

static gd_status make_room(gd_device *device, size_t bytes, void **room)
{
    *room = device->backend->alloc(device, bytes ? bytes : 1);
    return *room ? GD_OK : gd_error(device->ctx) ? gd_error(device->ctx) : GD_NOMEM;
}

static gd_status make(gd_exec *x)
{
    gd_ctx *ctx = x->device->ctx;
    gd_device_table *u = gd__calloc(ctx, sizeof *u);
    if (!u) return GD_NOMEM;
    x->on_device = u;
    u->passes = x->passes;
    u->common_settings = same_settings(x);
    u->columns = gd__table_inputs(x->p, u->common_settings, u->column);
    u->row_bytes = (size_t)x->members * (size_t)u->columns * sizeof *u->row;
    u->kernel = gd__calloc(ctx, (size_t)u->passes * sizeof *u->kernel);
    u->common = gd__calloc(ctx, (size_t)u->passes * sizeof *u->common);
    u->common_count = gd__calloc(ctx, (size_t)u->passes * sizeof *u->common_count);
    u->row = gd__alloc(ctx, u->row_bytes);
    bool room = u->kernel && u->common && u->common_count && u->row;
    gd_status status = room ? make_kernels(x, u) : GD_NOMEM;
    if (!status) status = send_chunks(x, &u->last_chunks, &x->last);
    if (!status && x->p->levels) {
        status = send_chunks(x, &u->reduce_chunks, &x->reduce);
        if (!status) status = send_first(x, u);
        u->partial_bytes = (size_t)x->partial_room * sizeof(double);
        u->reduced_bytes = (size_t)x->members * (size_t)x->p->reductions * sizeof(double);
        if (!status) status = make_room(x->device, u->partial_bytes, &u->partial);
        if (!status) status = make_room(x->device, u->reduced_bytes, &u->reduced);
    }
    return status;
}

/* What is the same for all tensors goes with each launch: the table is for what differs. */
static gd_status send_inputs(gd_exec *x, gd_device_table *u)
{
    for (int m = 0; m < x->members; m++)
        for (int k = 0; k < u->columns; k++)
            u->row[m * u->columns + k] = x->input[m * x->p->uniforms + u->column[k]];
    return u->columns ? mirror_send(x->device, &u->input, u->row, u->row_bytes) : GD_OK;
}

gd_status gd__exec_send(gd_exec *x)
{
    if (gd__exec_by_host(x)) return GD_OK;
    if (x->on_device && x->on_device->common_settings != same_settings(x)) gd__device_table_free(x);
    gd_status status = x->on_device ? GD_OK : make(x);
    if (status) {
        gd__device_table_free(x);
        return status;
    }
    size_t pointers = (size_t)x->members * (size_t)x->p->arrays * sizeof *x->pointer;
    status = mirror_send(x->device, &x->on_device->pointer, x->pointer, pointers);
    return status ? status : send_inputs(x, x->on_device);
}

/* ---- running ---- */

/* The next place of a list, or the one given. */
static gd_device_start *next_start(gd_ctx *ctx, gd_launches *list, gd_device_start *own)
{
    if (!list) return own;
    if (list->count == list->room) {
        size_t old = (size_t)list->room, room = old ? 2 * old : 8, size = sizeof *list->start;
        gd_device_start *more = gd__realloc(ctx, list->start, old * size, room * size);
        if (!more) return NULL;
        list->start = more;
        list->room = (int)room;
    }
    return &list->start[list->count];
}

/* Starts a kernel whose arguments stand in *s, or leaves it in the list. */
static gd_status start(gd_device *device, gd_launches *list, gd_device_start *s, gd_launch launch)
{
    if (!launch.blocks) return GD_OK;
    s->launch = launch;
    if (list) {
        list->count++;
        return GD_OK;
    }
    s->launch.args = &s->args;
    return device->backend->launch(device, &s->launch);
}

gd_status gd__device_pass(gd_exec *x, int level, gd_launches *list)
{
    gd_device_table *u = x->on_device;
    const gd_pass *pass = &x->pass[level];
    const mirror *chunks = pass->last ? &u->last_chunks : &u->reduce_chunks;
    const gd_work *work = pass->last ? &x->last : &x->reduce;
    gd_device_start own, *s = next_start(x->device->ctx, list, &own);
    if (!s) return GD_NOMEM;
    gd_table_launch *a = &s->args.pass;
    *a = (gd_table_launch){.chunk = chunks->device,
                           .chunks = work->chunks,
                           .pointer = u->pointer.device,
                           .input = u->input.device,
                           .reduced = u->reduced,
                           .partial = u->partial};
    /* reductions are not among the common ones: zeros stand in for them */
    gd__program_uniforms(x->p, level, x->input, x->reduced, x->value);
    for (int k = 0; k < u->common_count[level]; k++) a->common[k] = x->value[u->common[level][k]];
    return start(
        x->device, list, s,
        (gd_launch){
            .kernel = u->kernel[level], .bytes = sizeof *a, .threads = THREADS, .blocks = work->chunks});
}

gd_status gd__device_join(gd_exec *x, int level, gd_launches *list)
{
    gd_device_table *u = x->on_device;
    const gd_pass *pass = &x->pass[level];
    gd_status status = GD_OK;
    for (int k = 0; k < pass->reductions && !status; k++) {
        gd_device_start own, *s = next_start(x->device->ctx, list, &own);
        if (!s) return GD_NOMEM;
        s->args.join = (gd_join_launch){.partial = u->partial,
                                        .reduced = u->reduced,
                                        .first = u->first.device,
                                        .members = x->members,
                                        .reductions = x->p->reductions,
                                        .number = pass->reduction[k],
                                        .column = k,
                                        .columns = pass->reductions,
                                        .max = x->p->instr[x->p->reduction[pass->reduction[k]]].op ==
                                               GD_I_MAXIMUM};
        status = start(x->device, list, s,
                       (gd_launch){.kernel = u->join_chunks,
                                   .bytes = sizeof(gd_join_launch),
                                   .threads = THREADS,
                                   .blocks = x->members});
    }
    return status;
}

gd_status gd__device_join_all(gd_exec *table, int tables, int level, gd_launches *list)
{
    const gd_program *p = table->p;
    const gd_pass *pass = &table->pass[level];
    gd_status status = GD_OK;
    for (int k = 0; k < pass->reductions && !status; k++) {
        const gd_instr *in = &p->instr[p->reduction[pass->reduction[k]]];
        if (in->extent != GD_ALL) continue;
        gd_device_start own, *s = next_start(table->device->ctx, list, &own);
        if (!s) return GD_NOMEM;
        s->args.all = (gd_join_all_launch){.tables = tables,
                                           .reductions = p->reductions,
                                           .number = pass->reduction[k],
                                           .max = in->op == GD_I_MAXIMUM};
        for (int i = 0; i < tables; i++) {
            s->args.all.reduced[i] = table[i].on_device->reduced;
            s->args.all.members[i] = table[i].members;
        }
        status = start(table->device, list, s,
                       (gd_launch){.kernel = table->on_device->join_all,
                                   .bytes = sizeof(gd_join_all_launch),
                                   .threads = THREADS,
                                   .blocks = 1});
    }
    return status;
}

#define DIRECT 64

gd_status gd__launch_all(gd_device *device, gd_launches *list, void **graph)
{
    gd_status status = GD_OK;
    gd_launch launch[DIRECT];
    bool together = graph && device->backend->replay && list->count <= DIRECT;
    for (int i = 0; i < list->count && !status; i++) {
        list->start[i].launch.args = &list->start[i].args;
        if (together)
            launch[i] = list->start[i].launch;
        else
            status = device->backend->launch(device, &list->start[i].launch);
    }
    return together ? device->backend->replay(device, graph, launch, list->count) : status;
}

void gd__launches_free(gd_ctx *ctx, gd_launches *list)
{
    gd__free(ctx, list->start, (size_t)list->room * sizeof *list->start);
}

/* For what the host must know: numbers kept a parameter, and norms over tables on several devices. */
gd_status gd__device_fetch_reduced(gd_exec *x)
{
    gd_device_table *u = x->on_device;
    return u->reduced ? x->device->backend->download(x->device, x->reduced, u->reduced, u->reduced_bytes)
                      : GD_OK;
}

gd_status gd__device_send_reduced(gd_exec *x)
{
    gd_device_table *u = x->on_device;
    return u->reduced ? x->device->backend->upload(x->device, u->reduced, x->reduced, u->reduced_bytes)
                      : GD_OK;
}
