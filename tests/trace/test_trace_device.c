/* Random graphs, traced on a device that is none: memory of the host, operators of the CPU, fused kernels interpreted step by step by
 * those, and graphs that are lists of calls with the addresses that they had.  Which calls are put together, in which order they run,
 * what is stored and where: values, gradients and products have the bits of the function.
 *
 * GD_TRACE_GRAPHS: how many graphs, 400 where it is not set. */
#include "random_graph.h"

#include "tensor/device.h"

#define MOST_OPERANDS 16
#define MOST_ITEMS    4000
#define MOST_FUSIONS  20000

/* A call or a launch of a graph. */
typedef struct item {
    bool fused;
    gd_call call;
    gd_attrs attrs;
    gd_tensor t[MOST_OPERANDS], *list[MOST_OPERANDS];
    gd_storage storage[MOST_OPERANDS];
    const gd_fusion *fusion;
    gd_fused_launch args;
} item;

typedef struct tape {
    item *item;
    int count;
} tape;

typedef struct other {
    gd_device device;
    gd_device *cpu;
    gd_fusion *fusion[MOST_FUSIONS];
    int fusions;
    tape *capturing;
    bool spoiled;
    int64_t blocks, graphs, launches, fused, captured;
} other;

static other *other_of(gd_device *device) { return device->state; }

static void *other_alloc(gd_device *device, size_t bytes)
{
    other_of(device)->blocks++;
    void *block = malloc(bytes);
    assert_non_null(block);
    memset(block, 0x5a, bytes);
    return block;
}

static void other_free(gd_device *device, void *data, size_t bytes)
{
    other_of(device)->blocks--;
    memset(data, 0xa5, bytes);
    free(data);
}

static gd_status spoils(gd_device *device)
{
    other *o = other_of(device);
    o->spoiled = o->spoiled || o->capturing;
    return o->capturing ? gd_fail(device->ctx, GD_DEVICE, "a copy while something is captured") : GD_OK;
}

static gd_status other_copy(gd_device *device, void *to, const void *from, size_t bytes)
{
    gd_status status = spoils(device);
    if (!status) memcpy(to, from, bytes);
    return status;
}

static gd_status other_sync(gd_device *device)
{
    (void)device;
    return GD_OK;
}

static item *next_item(other *o)
{
    assert_true(o->capturing->count < MOST_ITEMS);
    return &o->capturing->item[o->capturing->count++];
}

static void note(other *o, const gd_call *call)
{
    item *n = next_item(o);
    int all = call->nin + call->nout;
    assert_true(all <= MOST_OPERANDS);
    memset(n, 0, sizeof *n);
    n->attrs = *call->attrs;
    for (int i = 0; i < all; i++) {
        n->t[i] = i < call->nin ? *call->in[i] : *call->out[i - call->nin];
        n->storage[i] = *n->t[i].storage;
        n->t[i].storage = &n->storage[i];
        n->list[i] = &n->t[i];
    }
    n->call = *call;
    n->call.attrs = &n->attrs;
    n->call.in = n->list;
    n->call.out = n->list + call->nin;
}

static gd_status other_run(gd_device *device, const gd_call *call)
{
    other *o = other_of(device);
    if (!o->capturing) return o->cpu->backend->run(o->cpu, call);
    note(o, call);
    return GD_OK;
}

/* ---- fused kernels ---- */

static void *other_fuse(gd_device *device, const gd_fusion *fusion)
{
    other *o = other_of(device);
    assert_true(o->fusions < MOST_FUSIONS);
    gd_fusion *copy = malloc(sizeof *copy);
    assert_non_null(copy);
    *copy = *fusion;
    return o->fusion[o->fusions++] = copy;
}

/* Operand of a step, seen with the sizes of the launch, or as one row. */
static void look_at(other *o, const gd_fusion *f, const gd_fused_launch *a, int in, char *const *made,
                    gd_tensor *t, gd_storage *storage)
{
    gd_read_way way = in < 0 ? GD_READ_DENSE : f->read[in].way;
    gd_dtype dtype = in < 0 ? f->step[-1 - in].out : f->read[in].dtype;
    void *data = in < 0 ? (void *)made[-1 - in] : (void *)(uintptr_t)a->in[in];
    *storage = (gd_storage){.ctx = o->device.ctx, .device = o->cpu, .data = data, .refs = 1};
    *t = (gd_tensor){
        .head = {.ctx = o->device.ctx, .refs = 1}, .dtype = dtype, .storage = storage, .data = data};
    t->ndim = (uint8_t)(a->ndim ? a->ndim : 1);
    t->numel = a->n;
    int64_t dense = 1;
    for (int d = t->ndim; d-- > 0;) {
        t->size[d] = a->ndim ? a->size[d] : a->n;
        t->stride[d] = way == GD_READ_ONE ? 0 : way == GD_READ_DENSE ? dense : a->stride[in][d];
        dense *= t->size[d];
    }
    assert_int_equal(dense, a->n);
}

/* The last byte that a read may be at, behind its first. */
static int64_t extent_of(const gd_fusion *f, const gd_fused_launch *a, int k)
{
    int64_t last = f->read[k].way == GD_READ_DENSE ? a->n - 1 : 0;
    for (int d = 0; d < a->ndim && f->read[k].way == GD_READ_STRIDED; d++)
        last += (a->size[d] - 1) * a->stride[k][d];
    return (last + 1) * (int64_t)gd_dtype_size(f->read[k].dtype);
}

/* Threads run in any order: what one writes no other reads or writes. */
static void check_overlaps(const gd_fusion *f, const gd_fused_launch *a)
{
    for (int s = 0; s < f->steps; s++) {
        if (f->step[s].store < 0) continue;
        const char *to = a->out[f->step[s].store];
        int64_t bytes = a->n * (int64_t)gd_dtype_size(f->step[s].out);
        for (int k = 0; k < f->reads; k++) {
            const char *from = a->in[k];
            if (from < to + bytes && to < from + extent_of(f, a, k))
                fail_msg("a fused kernel writes where it reads");
        }
        for (int k = 0; k < f->stores; k++)
            if (k != f->step[s].store && (const char *)a->out[k] >= to &&
                (const char *)a->out[k] < to + bytes)
                fail_msg("a fused kernel writes two results to one place");
    }
}

static gd_status run_fused(other *o, const gd_fusion *f, const gd_fused_launch *a)
{
    char *made[GD_FUSED_STEPS];
    gd_status status = GD_OK;
    check_overlaps(f, a);
    for (int k = 0; k < f->steps; k++) {
        const gd_fused_step *s = &f->step[k];
        gd_tensor t[4], *in[3] = {&t[0], &t[1], &t[2]}, *out = &t[3];
        gd_storage storage[4];
        gd_attrs attrs = {.nf = 2, .f = {a->f[k][0], a->f[k][1]}};
        assert_non_null(made[k] = calloc((size_t)a->n, 8));
        for (int i = 0; i < s->nin; i++) {
            look_at(o, f, a, s->in[i], made, &t[i], &storage[i]);
            assert_int_equal(t[i].dtype, i ? s->other : s->first);
        }
        look_at(o, f, a, -1 - k, made, out, &storage[3]);
        const gd_call call = {.op = s->op, .nin = s->nin, .nout = 1, .in = in, .out = &out, .attrs = &attrs};
        if (!status) status = o->cpu->backend->run(o->cpu, &call);
        if (s->store >= 0) memcpy(a->out[s->store], made[k], (size_t)a->n * gd_dtype_size(s->out));
    }
    for (int k = 0; k < f->steps; k++) free(made[k]);
    o->fused++;
    return status;
}

static gd_status other_launch(gd_device *device, const gd_launch *launch)
{
    other *o = other_of(device);
    assert_int_equal(launch->bytes, sizeof(gd_fused_launch));
    if (!o->capturing) return run_fused(o, launch->kernel, launch->args);
    item *n = next_item(o);
    n->fused = true;
    n->fusion = launch->kernel;
    memcpy(&n->args, launch->args, sizeof n->args);
    return GD_OK;
}

/* ---- graphs ---- */

static void free_tape(gd_device *device, void *made)
{
    tape *t = made;
    other_of(device)->graphs--;
    free(t->item);
    free(t);
}

static bool begin(gd_device *device, char *why, size_t size)
{
    (void)why, (void)size;
    other *o = other_of(device);
    assert_null(o->capturing);
    assert_non_null(o->capturing = calloc(1, sizeof *o->capturing));
    assert_non_null(o->capturing->item = malloc(MOST_ITEMS * sizeof(item)));
    o->spoiled = false;
    o->graphs++;
    return true;
}

static bool end(gd_device *device, void **made, char *why, size_t size)
{
    other *o = other_of(device);
    if (*made) free_tape(device, *made);
    *made = o->capturing;
    o->capturing = NULL;
    if (!o->spoiled) {
        o->captured++;
        return true;
    }
    free_tape(device, *made);
    *made = NULL;
    snprintf(why, size, "it copies");
    return false;
}

static gd_status launch_tape(gd_device *device, void *made)
{
    other *o = other_of(device);
    const tape *t = made;
    gd_status status = GD_OK;
    for (int k = 0; k < t->count && !status; k++)
        status = t->item[k].fused ? run_fused(o, t->item[k].fusion, &t->item[k].args)
                                  : o->cpu->backend->run(o->cpu, &t->item[k].call);
    o->launches++;
    return status;
}

static other *open_other(gd_ctx *ctx, bool captures)
{
    static const gd_capturing graphs = {begin, end, launch_tape, free_tape};
    static gd_backend backends[2];
    gd_backend *b = &backends[captures];
    *b = (gd_backend){.name = "gpu",
                      .alloc = other_alloc,
                      .free = other_free,
                      .upload = other_copy,
                      .download = other_copy,
                      .sync = other_sync,
                      .run = other_run,
                      .fuse = other_fuse,
                      .launch = other_launch};
    if (captures) b->capture = &graphs;
    other *o = calloc(1, sizeof *o);
    assert_non_null(o);
    o->cpu = gd_device_get(ctx, "cpu");
    o->device = (gd_device){.backend = b, .ctx = ctx, .name = "other", .state = o};
    return o;
}

static void close_other(other *o)
{
    assert_int_equal(o->blocks, 0);
    assert_int_equal(o->graphs, 0);
    for (int k = 0; k < o->fusions; k++) free(o->fusion[k]);
    free(o);
}

/* ---- graphs of operators ---- */

static void one_call(const graph *g, gd_traced *f, gd_tensor *const *in, gd_tensor *const *v, int call,
                     bool second)
{
    void *user = (void *)(uintptr_t)g;
    gd_tensor *value = NULL, *grad[2], *got = NULL, *got_grad[2], *want[2], *product[2];
    assert_int_equal(eager_gradient(build, user, in, 2, &value, grad), GD_OK);
    assert_int_equal(gd_traced_gradient(f, in, 2, &got, got_grad), GD_OK);
    assert_no_error(g->ctx);
    if (!same_bits(got, value)) wrong(g, "value", call);
    for (int i = 0; i < 2; i++)
        if (!same_bits(got_grad[i], grad[i])) wrong(g, "gradient", call);
    if (!second) return;
    assert_int_equal(gd_hvp(build, user, in, 2, v, want), GD_OK);
    assert_int_equal(gd_traced_hvp(f, in, 2, v, product), GD_OK);
    assert_no_error(g->ctx);
    for (int i = 0; i < 2; i++)
        if (!same_bits(product[i], want[i])) wrong(g, "product", call);
}

enum { CALLS = 10 };

/* Two sets of inputs take turns in memory of their own, with new numbers each time. */
static void one_graph(gd_ctx *ctx, other *o, uint64_t seed, bool second)
{
    uint64_t state = seed;
    graph g = {.ctx = ctx, .seed = random_bits(&state)};
    g.dtype = random_below(&state, 3) ? GD_F64 : GD_F32;
    g.rows = 1 + random_below(&state, 9);
    g.columns = 1 + random_below(&state, 12);
    gd_scope_begin(ctx);
    gd_tensor *in[2][2], *v[2];
    g.captured = gd_to_device(numbers(&g, &state), &o->device);
    for (int i = 0; i < 2; i++) {
        v[i] = gd_to_device(numbers(&g, &state), &o->device);
        for (int k = 0; k < 2; k++) in[k][i] = gd_to_device(numbers(&g, &state), &o->device);
    }
    gd_traced *f = gd_trace(ctx, build, &g, NULL);
    for (int call = 0; call < CALLS; call++) {
        gd_tensor *const *now = in[call > 5 && call % 2];
        gd_scope_begin(ctx);
        for (int i = 0; i < 2; i++) assert_int_equal(gd_assign(now[i], numbers(&g, &state)), GD_OK);
        if (call == 5) assert_int_equal(gd_fill(g.captured, 0.25), GD_OK);
        one_call(&g, f, now, v, call, second);
        gd_scope_end(ctx);
    }
    if (explained(f, "not traced") || !explained(f, "on other")) {
        char text[4000];
        (void)gd_explain_trace(f, text, sizeof text);
        fail_msg("graph %llu: %s", (unsigned long long)g.seed, text);
    }
    gd_traced_free(f);
    gd_scope_end(ctx);
}

static void random_graphs(bool captures, uint64_t first)
{
    const char *text = getenv("GD_TRACE_GRAPHS");
    int64_t count = (text ? atoll(text) : 400) / test_share() / 2 + 3;
    gd_ctx *ctx = context(NULL, 1, NULL);
    other *o = open_other(ctx, captures);
    for (int64_t k = 0; k < count; k++) one_graph(ctx, o, first + (uint64_t)k, k % 3 == 0);
    print_message("%lld fused kernels, %lld runs of them, %lld graphs, %lld launches\n",
                  (long long)o->fusions, (long long)o->fused, (long long)o->captured, (long long)o->launches);
    assert_true(o->fusions > 2 * count && o->fused > 10 * count);
    assert_true(captures ? o->launches > 2 * count : !o->launches);
    close_other(o);
    end_context(ctx, NULL);
}

static void fused_kernels_have_the_bits_of_operators(void **state)
{
    (void)state, random_graphs(false, 7000);
}
static void graphs_have_the_bits_of_operators(void **state) { (void)state, random_graphs(true, 8000); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_kernels_have_the_bits_of_operators),
        cmocka_unit_test(graphs_have_the_bits_of_operators),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
