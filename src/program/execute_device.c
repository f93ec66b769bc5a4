/* Tables on a device: one kernel per pass over all members; reductions are joined on the device and stay there.
 *
 * The tables (chunks, pointers, inputs) are kept on the device and sent again only when they change; values equal for all
 * members are arguments of the launch.  Nothing waits for the device, except programs that keep scalars.
 * Along axes one kernel writes partial results per tile, and a second one per sum joins them.
 * A set whose tables are all on one device collects its launches first: they can then run as one graph. */
#include "program/dialect.h"
#include "program/element.h"
#include "program/execute.h"

#include <math.h>
#include <string.h>

struct gd_device_start {
    gd_launch launch;
    union {
        gd_table_launch pass;
        gd_join_launch join;
        gd_join_all_launch all;
        gd_along_launch along;
    } args;
};

/* A block on the device with its last contents. */
typedef struct mirror {
    void *device;
    char *sent;
    size_t bytes;
    bool known;
} mirror;

/* A sum along axes: where its partial results and its results are. */
typedef struct device_sum {
    mirror chunks, place;
    int64_t count; /* of the chunks */
} device_sum;

typedef struct device_pass {
    void *kernel;
    int32_t common[GD_LAUNCH_COMMON]; /* instructions whose values go with the launch */
    int common_count;
    mirror chunks;
    mirror first;    /* where it reduces: the first chunk of every member */
    mirror along_at; /* along axes: where the partial results of every member and sum begin */
    device_sum *sum; /* [sums] */
    int sums;
} device_pass;

struct gd_device_table {
    device_pass *pass; /* [passes] */
    void *join_chunks, *join_all, *join_along;
    mirror pointer, input, size;
    void *partial, *reduced, *along, *scratch;
    size_t partial_bytes, reduced_bytes, along_bytes, scratch_bytes;
    int common; /* what all members have the same, see program.h */
    int passes;
    int columns; /* of the table of inputs */
    int32_t column[GD_MAX_UNIFORMS];
    double *row; /* [members, columns] */
    size_t row_bytes;
};

#define RESULTS 64 /* of a sum along axes that a block joins */

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

static void pass_free(gd_device *device, device_pass *pass)
{
    mirror_free(device, &pass->chunks);
    mirror_free(device, &pass->first);
    mirror_free(device, &pass->along_at);
    for (int s = 0; s < pass->sums; s++) {
        mirror_free(device, &pass->sum[s].chunks);
        mirror_free(device, &pass->sum[s].place);
    }
    gd__free(device->ctx, pass->sum, (size_t)pass->sums * sizeof *pass->sum);
}

void gd__device_table_free(gd_exec *x)
{
    gd_device_table *u = x->on_device;
    if (!u) return;
    gd_device *device = x->device;
    for (int i = 0; u->pass && i < u->passes; i++) pass_free(device, &u->pass[i]);
    mirror *const all[] = {&u->pointer, &u->input, &u->size};
    for (int i = 0; i < 3; i++) mirror_free(device, all[i]);
    const struct {
        void *block;
        size_t bytes;
    } rooms[] = {{u->partial, u->partial_bytes},
                 {u->reduced, u->reduced_bytes},
                 {u->along, u->along_bytes},
                 {u->scratch, u->scratch_bytes}};
    for (int i = 0; i < 4; i++)
        if (rooms[i].block) device->backend->free(device, rooms[i].block, rooms[i].bytes);
    gd__free(device->ctx, u->pass, (size_t)u->passes * sizeof *u->pass);
    gd__free(device->ctx, u->row, u->row_bytes);
    gd__free(device->ctx, u, sizeof *u);
    x->on_device = NULL;
}

/* ---- making ---- */

static bool same_inputs(const gd_exec *x, gd_uniform_kind kind)
{
    for (int u = 0; u < x->p->uniforms; u++) {
        if (x->p->uniform[u].kind != kind) continue;
        for (int m = 1; m < x->members; m++) {
            double a = x->input[u], b = x->input[m * x->p->uniforms + u];
            if (a != b && !(isnan(a) && isnan(b))) return false;
        }
    }
    return true;
}

static int common_of(const gd_exec *x)
{
    return (same_inputs(x, GD_U_SETTING) ? GD_COMMON_SETTINGS : 0) |
           (same_inputs(x, GD_U_STEP) ? GD_COMMON_STEPS : 0);
}

static gd_status list_common(gd_exec *x, gd_device_table *u, int i)
{
    int32_t list[GD_MAX_INSTRS];
    int count = gd__table_common(x->p, &x->pass[i], u->common, list);
    if (count > GD_LAUNCH_COMMON)
        return gd_fail(x->device->ctx, GD_INTERNAL, "a program has %d scalars, too many for a launch", count);
    memcpy(u->pass[i].common, list, (size_t)count * sizeof *list);
    u->pass[i].common_count = count;
    return GD_OK;
}

/* NULL, with the error recorded: a kernel of a source that has been written. */
static void *kernel_of(gd_device *device, const gd_text *text, const char *name)
{
    return text->failed ? NULL : device->backend->program(device, text->data, name);
}

static gd_status make_joins(gd_exec *x, gd_device_table *u)
{
    gd_text text = {.ctx = x->device->ctx};
    gd__emit_joins(x->device->backend->dialect, &text);
    bool good = true;
    if (x->p->reductions) {
        u->join_chunks = kernel_of(x->device, &text, "join_chunks");
        u->join_all = u->join_chunks ? kernel_of(x->device, &text, "join_all") : NULL;
        good = u->join_all != NULL;
    }
    if (good && x->along_places) {
        u->join_along = kernel_of(x->device, &text, "join_along");
        good = u->join_along != NULL;
    }
    gd__text_free(&text);
    return good ? GD_OK : gd_error(x->device->ctx) ? gd_error(x->device->ctx) : GD_NOMEM;
}

static gd_status make_kernels(gd_exec *x, gd_device_table *u)
{
    gd_ctx *ctx = x->device->ctx;
    gd_status status = GD_OK;
    for (int i = 0; i < u->passes && !status; i++) status = list_common(x, u, i);
    for (int i = 0; i < u->passes && !status; i++) {
        gd_text text = {.ctx = ctx};
        gd__emit_table(x->p, &x->pass[i], x->device->backend->dialect, "rule_pass", u->common, &text);
        u->pass[i].kernel = kernel_of(x->device, &text, "rule_pass");
        if (!u->pass[i].kernel) status = gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
        gd__text_free(&text);
    }
    return status || u->passes == 1 ? status : make_joins(x, u);
}

/* Chunks that other processes run have no elements here, and keep their numbers. */
static gd_status send_chunks(gd_exec *x, mirror *m, const gd_work *work)
{
    gd_ctx *ctx = x->device->ctx;
    size_t bytes = (size_t)work->chunks * sizeof(gd_table_chunk);
    gd_table_chunk *list = gd__alloc(ctx, bytes);
    if (!list) return GD_NOMEM;
    for (int64_t c = 0; c < work->chunks; c++)
        list[c] = (gd_table_chunk){.start = work->chunk[c].start,
                                   .n = gd__exec_is_elsewhere(x, &work->chunk[c]) ? 0 : work->chunk[c].n,
                                   .member = work->chunk[c].member};
    gd_status status = mirror_send(x->device, m, list, bytes);
    gd__free(ctx, list, bytes);
    return status;
}

/* first[m]: the first chunk of member m. */
static gd_status send_first(gd_exec *x, mirror *there, const gd_work *work)
{
    gd_ctx *ctx = x->device->ctx;
    size_t bytes = (size_t)(x->members + 1) * sizeof(int64_t);
    int64_t *first = gd__alloc(ctx, bytes), c = 0;
    if (!first) return GD_NOMEM;
    for (int m = 0; m <= x->members; m++) {
        while (c < work->chunks && work->chunk[c].member < m) c++;
        first[m] = c;
    }
    gd_status status = mirror_send(x->device, there, first, bytes);
    gd__free(ctx, first, bytes);
    return status;
}

static gd_status send_tiles(gd_exec *x, mirror *m, const gd_pass *pass, const gd_work *work)
{
    gd_ctx *ctx = x->device->ctx;
    size_t bytes = (size_t)work->chunks * sizeof(gd_table_tile);
    gd_table_tile *list = gd__alloc(ctx, bytes);
    if (!list) return GD_NOMEM;
    gd__tiles_table(x, pass, work, list);
    gd_status status = mirror_send(x->device, m, list, bytes);
    gd__free(ctx, list, bytes);
    return status;
}

/* The results of sum s of a pass, cut into chunks, and where their partial results begin: at[s, members]. */
static gd_status send_sum(gd_exec *x, const gd_pass *pass, device_sum *sum, int s, const int64_t *at)
{
    gd_ctx *ctx = x->device->ctx;
    size_t bytes = (size_t)x->members * sizeof(gd_along_place);
    gd_along_place *place = gd__alloc(ctx, bytes);
    gd_work work = {0};
    gd_status status = place ? gd__work_make(x, RESULTS, x->p->instr[pass->sum[s]].along, &work) : GD_NOMEM;
    if (!status) gd__along_places(x, pass, s, at, place);
    if (!status) status = send_chunks(x, &sum->chunks, &work);
    if (!status) status = mirror_send(x->device, &sum->place, place, bytes);
    sum->count = work.chunks;
    gd__work_free(ctx, &work);
    gd__free(ctx, place, bytes);
    return status;
}

static gd_status send_sums(gd_exec *x, const gd_pass *pass, device_pass *on)
{
    gd_ctx *ctx = x->device->ctx;
    size_t sums = (size_t)pass->sums, count = sums * (size_t)x->members;
    int64_t *at = gd__alloc(ctx, 2 * count * sizeof *at), *turned = at ? at + count : NULL;
    on->sum = gd__calloc(ctx, sums * sizeof *on->sum);
    on->sums = on->sum ? pass->sums : 0;
    gd_status status = at && on->sum ? GD_OK : GD_NOMEM;
    if (!status) (void)gd__partials_place(x, pass, at);
    for (size_t i = 0; i < count && !status; i++)
        turned[i % (size_t)x->members * sums + i / (size_t)x->members] = at[i];
    if (!status) status = mirror_send(x->device, &on->along_at, turned, count * sizeof *turned);
    for (int s = 0; s < pass->sums && !status; s++) status = send_sum(x, pass, &on->sum[s], s, at);
    gd__free(ctx, at, 2 * count * sizeof *at);
    return status;
}

static gd_status send_pass(gd_exec *x, int i)
{
    const gd_pass *pass = &x->pass[i];
    const gd_work *work = gd__work_of(x, i);
    device_pass *on = &x->on_device->pass[i];
    gd_status status = pass->sums ? send_tiles(x, &on->chunks, pass, work)
                                  : send_chunks(x, &on->chunks, work);
    if (!status && pass->reductions) status = send_first(x, &on->first, work);
    return status || !pass->sums ? status : send_sums(x, pass, on);
}

static gd_status make_room(gd_device *device, size_t bytes, void **room)
{
    *room = device->backend->alloc(device, bytes ? bytes : 1);
    return *room ? GD_OK : gd_error(device->ctx) ? gd_error(device->ctx) : GD_NOMEM;
}

/* Memory for results of reductions, and between passes. */
static gd_status make_rooms(gd_exec *x, gd_device_table *u)
{
    gd_status status = GD_OK;
    if (x->p->reductions) {
        u->partial_bytes = (size_t)x->partial_room * sizeof(double);
        u->reduced_bytes = (size_t)x->members * (size_t)x->p->reductions * sizeof(double);
        status = make_room(x->device, u->partial_bytes, &u->partial);
        if (!status) status = make_room(x->device, u->reduced_bytes, &u->reduced);
    }
    if (status || !x->p->axes) return status;
    u->along_bytes = (size_t)x->along_room * sizeof(double);
    u->scratch_bytes = x->scratch_bytes;
    status = make_room(x->device, u->along_bytes, &u->along);
    if (!status) status = make_room(x->device, u->scratch_bytes, &u->scratch);
    if (!status) gd__scratch_place(x, u->scratch);
    size_t sizes = (size_t)x->members * (size_t)x->p->axes * sizeof *x->size;
    return status ? status : mirror_send(x->device, &u->size, x->size, sizes);
}

static gd_status make(gd_exec *x)
{
    gd_ctx *ctx = x->device->ctx;
    gd_device_table *u = gd__calloc(ctx, sizeof *u);
    if (!u) return GD_NOMEM;
    x->on_device = u;
    u->passes = x->passes;
    u->common = common_of(x);
    u->columns = gd__table_inputs(x->p, u->common, u->column);
    u->row_bytes = (size_t)x->members * (size_t)u->columns * sizeof *u->row;
    u->pass = gd__calloc(ctx, (size_t)u->passes * sizeof *u->pass);
    u->row = gd__alloc(ctx, u->row_bytes);
    gd_status status = u->pass && u->row ? make_kernels(x, u) : GD_NOMEM;
    for (int i = 0; i < x->passes && !status; i++) status = send_pass(x, i);
    return status ? status : make_rooms(x, u);
}

/* Values that are equal for all tensors are arguments of each launch; the table has the values that differ. */
static gd_status send_inputs(gd_exec *x, gd_device_table *u)
{
    for (int m = 0; m < x->members; m++)
        for (int k = 0; k < u->columns; k++)
            u->row[m * u->columns + k] = x->input[m * x->p->uniforms + u->column[k]];
    return u->columns ? mirror_send(x->device, &u->input, u->row, u->row_bytes) : GD_OK;
}

gd_status gd__device_send(gd_exec *x)
{
    if (x->on_device && x->on_device->common != common_of(x)) gd__device_table_free(x);
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

/* Starts a kernel with the arguments in *s, or appends it to the list. */
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

gd_status gd__device_pass(gd_exec *x, int i, gd_launches *list)
{
    gd_device_table *u = x->on_device;
    const device_pass *on = &u->pass[i];
    const gd_work *work = gd__work_of(x, i);
    gd_device_start own, *s = next_start(x->device->ctx, list, &own);
    if (!s) return GD_NOMEM;
    gd_table_launch *a = &s->args.pass;
    *a = (gd_table_launch){.chunk = on->chunks.device,
                           .chunks = work->chunks,
                           .pointer = u->pointer.device,
                           .input = u->input.device,
                           .reduced = u->reduced,
                           .partial = u->partial,
                           .size = u->size.device,
                           .along = u->along,
                           .along_at = on->along_at.device};
    /* reductions are not among the common ones: zeros are passed instead */
    gd__program_uniforms(&x->needed, 0, x->pass[i].level, x->input, x->reduced, x->value);
    for (int k = 0; k < on->common_count; k++) a->common[k] = x->value[on->common[k]];
    return start(x->device, list, s,
                 (gd_launch){.kernel = on->kernel,
                             .bytes = sizeof *a,
                             .threads = gd__table_threads(x->p, &x->pass[i]),
                             .blocks = work->chunks});
}

static gd_status join_sum(gd_exec *x, int i, int s, gd_launches *list)
{
    gd_device_table *u = x->on_device;
    const device_sum *sum = &u->pass[i].sum[s];
    const gd_instr *in = &x->p->instr[x->pass[i].sum[s]];
    gd_tiling t = gd__tiling(x->p, in);
    gd_device_start own, *begin = next_start(x->device->ctx, list, &own);
    if (!begin) return GD_NOMEM;
    unsigned others = x->pass[i].along & ~(unsigned)(t.inner | (t.columns_kept ? t.next : 0));
    begin->args.along = (gd_along_launch){.chunk = sum->chunks.device,
                                          .chunks = sum->count,
                                          .place = sum->place.device,
                                          .along = u->along,
                                          .pointer = u->pointer.device,
                                          .size = u->size.device,
                                          .arrays = x->p->arrays,
                                          .array = in->place,
                                          .axes = x->p->axes,
                                          .others = others,
                                          .kept = in->along,
                                          .max = in->op == GD_I_MAXIMUM_ALONG,
                                          .wide = x->p->compute == GD_F64};
    return start(x->device, list, begin,
                 (gd_launch){.kernel = u->join_along,
                             .bytes = sizeof(gd_along_launch),
                             .threads = GD_THREADS,
                             .blocks = sum->count});
}

gd_status gd__device_join(gd_exec *x, int i, gd_launches *list)
{
    gd_device_table *u = x->on_device;
    const gd_pass *pass = &x->pass[i];
    gd_status status = GD_OK;
    for (int k = 0; k < pass->sums && !status; k++) status = join_sum(x, i, k, list);
    for (int k = 0; k < pass->reductions && !status; k++) {
        gd_device_start own, *s = next_start(x->device->ctx, list, &own);
        if (!s) return GD_NOMEM;
        s->args.join = (gd_join_launch){.partial = u->partial,
                                        .reduced = u->reduced,
                                        .first = u->pass[i].first.device,
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
                                   .threads = GD_THREADS,
                                   .blocks = x->members});
    }
    return status;
}

gd_status gd__device_join_all(gd_exec *table, int tables, int r, gd_launches *list)
{
    const gd_program *p = table->p;
    gd_device_start own, *s = next_start(table->device->ctx, list, &own);
    if (!s) return GD_NOMEM;
    s->args.all = (gd_join_all_launch){.tables = tables,
                                       .reductions = p->reductions,
                                       .number = r,
                                       .max = p->instr[p->reduction[r]].op == GD_I_MAXIMUM};
    for (int i = 0; i < tables; i++) {
        s->args.all.reduced[i] = table[i].on_device->reduced;
        s->args.all.members[i] = table[i].members;
    }
    return start(table->device, list, s,
                 (gd_launch){.kernel = table->on_device->join_all,
                             .bytes = sizeof(gd_join_all_launch),
                             .threads = GD_THREADS,
                             .blocks = 1});
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

/* For what the host must know: numbers kept per parameter, and norms over tables on several devices. */
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

static size_t partials_of(const gd_exec *x, int pass)
{
    return (size_t)(gd__work_of(x, pass)->chunks * x->pass[pass].reductions) * sizeof(double);
}

/* For other processes: partial sums of the chunks that this one has run, and 0 elsewhere. */
gd_status gd__device_fetch_partials(gd_exec *x, int i)
{
    const gd_work *work = gd__work_of(x, i);
    size_t columns = (size_t)x->pass[i].reductions, bytes = partials_of(x, i);
    gd_status status = bytes
                           ? x->device->backend->download(x->device, x->partial, x->on_device->partial, bytes)
                           : GD_OK;
    for (int64_t c = 0; c < work->chunks && !status; c++)
        if (gd__exec_is_elsewhere(x, &work->chunk[c]))
            memset(x->partial + (size_t)c * columns, 0, columns * sizeof(double));
    return status;
}

gd_status gd__device_send_partials(gd_exec *x, int i)
{
    size_t bytes = partials_of(x, i);
    return bytes ? x->device->backend->upload(x->device, x->on_device->partial, x->partial, bytes) : GD_OK;
}
