/* Traced functions on the CUDA plugin without a GPU: element-wise operators as one kernel, which go through NVRTC and, translated by the
 * host's C++ compiler, have the bits of operators one by one; and launches as one graph, on a driver that only pretends.  There no
 * kernel runs: all numbers are 0, and memory is that of the host. */
#include "cuda/host_gpu.h"

#include "cuda/pretended.h"
#include "trace/trace_support.h"

#include "base/kernel_cache.h"
#include "base/vmath.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"
#include "trace/device/on_device.h"

static gd_cache cache;
static cuda_api real; /* only NVRTC is there on a machine without a driver */

static int prepare(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    print_message("nothing is compiled: libnvrtc keeps memory when it is closed\n");
#else
    char why[256];
    if (!cuda_api_open(&real, why, sizeof why) && !cuda_api_library(&real, 'N', why, sizeof why))
        print_message("%s: nothing is compiled\n", why);
#endif
    return gd__cache_open_passing(&cache) ? 0 : -1;
}

static int clean_up(void **state)
{
    (void)state;
    gd__cache_close(&cache);
    cuda_api_close(&real);
    return 0;
}

/* ---- random fusions ---- */

enum { ELEMENTS = 3 * 5 * 7 };

static bool is_map(int op) { return gd__ops[op].kind == GD_KIND_MAP || gd__ops[op].kind == GD_KIND_TEST; }

/* Operators of floats whose settings may be any numbers. */
static bool may_stand(int op)
{
    return (op == GD_OP_copy || op == GD_OP_cast || (is_map(op) && cuda_has((gd_op_id)op))) &&
           op != GD_OP_polygamma && op != GD_OP_bessel_j && gd__ops[op].takes != GD_TAKES_INTS;
}

static int any_op(uint64_t *random)
{
    int op;
    do op = (int)random_below(random, GD_OP_COUNT);
    while (!may_stand(op));
    return op;
}

static gd_dtype dtype_of(const gd_fusion *f, int in)
{
    return in < 0 ? f->step[-1 - in].out : f->read[in].dtype;
}

/* A step before of that dtype, or something in memory. */
static int any_operand(uint64_t *random, gd_fusion *f, gd_dtype dtype)
{
    for (int tries = 0; tries < 4 && f->steps; tries++) {
        int k = (int)random_below(random, f->steps);
        if (f->step[k].out == dtype) return -1 - k;
    }
    if (f->reads == GD_FUSED_READS)
        for (int k = 0; k < f->reads; k++)
            if (f->read[k].dtype == dtype) return k;
    if (f->reads == GD_FUSED_READS) return GD_FUSED_READS;
    f->read[f->reads].dtype = dtype;
    f->read[f->reads].way = (gd_read_way)random_below(random, 3);
    return f->reads++;
}

static bool add_step(uint64_t *random, gd_fusion *f, gd_dtype dtype, gd_dtype second)
{
    int op = any_op(random);
    gd_fused_step s = {.op = (gd_op_id)op, .nin = gd__ops[op].inputs, .out = dtype, .store = -1};
    if (s.op == GD_OP_copy || s.op == GD_OP_cast) s.nin = 1;
    for (int k = 0; k < s.nin; k++) {
        gd_dtype wanted = s.op == GD_OP_cast              ? (random_below(random, 2) ? second : GD_BOOL)
                          : s.op == GD_OP_where && k == 0 ? GD_BOOL
                                                          : dtype;
        if ((s.in[k] = any_operand(random, f, wanted)) == GD_FUSED_READS) return false;
    }
    s.first = dtype_of(f, s.in[0]);
    s.other = s.nin > 1 ? dtype_of(f, s.in[1]) : s.first;
    if (gd__ops[op].kind == GD_KIND_TEST) s.out = GD_BOOL;
    if (random_below(random, 2)) s.store = f->stores++;
    f->step[f->steps++] = s;
    return true;
}

static void make_fusion(uint64_t *random, gd_fusion *f, gd_dtype dtype, int steps)
{
    static const gd_dtype seconds[] = {GD_F32, GD_F64, GD_BF16, GD_F16};
    *f = (gd_fusion){.steps = 0};
    while (f->steps < steps)
        if (!add_step(random, f, dtype, seconds[random_below(random, 4)])) break;
    gd_fused_step *last = &f->step[f->steps - 1];
    if (last->store < 0) last->store = f->stores++;
}

/* ---- NVRTC ---- */

/* For a virtual architecture: without the assembler, three times as fast. */
static bool compiles(const char *source, const char *what)
{
    static const char *const options[] = {"--gpu-architecture=compute_90", "-std=c++17", "--fmad=false",
                                          "-default-device"};
    char log[4000] = "";
    size_t length = 0;
    nvrtcProgram program = NULL;
    assert_int_equal(real.nvrtcCreateProgram(&program, source, "gradus.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    nvrtcResult result = real.nvrtcCompileProgram(program, 4, options);
    if (result && !real.nvrtcGetProgramLogSize(program, &length) && length < sizeof log)
        (void)real.nvrtcGetProgramLog(program, log);
    if (result) print_error("%s: %s\n", what, log);
    (void)real.nvrtcDestroyProgram(&program);
    return result == NVRTC_SUCCESS;
}

static void fused_kernels_compile(void **state)
{
    (void)state;
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16, GD_F16};
    uint64_t random = 5;
    int failures = 0;
    char source[CUDA_SOURCE_SIZE];
    if (!real.nvrtcCompileProgram) skip();
    for (int k = 0; k < 16; k++) {
        gd_fusion f;
        make_fusion(&random, &f, dtypes[k % 4], k < 4 ? GD_FUSED_STEPS : 12);
        assert_true(cuda_fuse_source(&f, source, sizeof source) > 0);
        failures += !compiles(source, gd_dtype_name(dtypes[k % 4]));
    }
    assert_int_equal(failures, 0);
}

/* All operators that may be fused, each in a fusion of its own kind of operands. */
static void every_operator_may_be_fused(void **state)
{
    (void)state;
    char source[CUDA_SOURCE_SIZE];
    for (int op = 0; op < GD_OP_COUNT; op++) {
        if (!is_map(op) || !cuda_has((gd_op_id)op)) continue;
        gd_fusion f = {.steps = 1, .reads = 3, .stores = 1};
        for (int k = 0; k < 3; k++) f.read[k].dtype = op == GD_OP_where && !k ? GD_BOOL : GD_F32;
        f.step[0] = (gd_fused_step){.op = (gd_op_id)op,
                                    .nin = gd__ops[op].inputs,
                                    .in = {0, 1, 2},
                                    .first = f.read[0].dtype,
                                    .other = GD_F32,
                                    .out = gd__ops[op].kind == GD_KIND_TEST ? GD_BOOL : GD_F32};
        if (!cuda_fuse_source(&f, source, sizeof source)) fail_msg("%s is not fused", gd__ops[op].name);
    }
    gd_fusion f = {.steps = 1, .stores = 1};
    f.step[0] = (gd_fused_step){.op = GD_OP_sum, .nin = 1};
    assert_int_equal(cuda_fuse_source(&f, source, sizeof source), 0);
}

/* ---- bits, by the host's compiler ---- */

static void put_source(gd_text *text, const char *source, const char *name, int number)
{
    static const char *const names[] = {"fused", "map_strided", "map_contiguous", "map_rows"};
    for (int i = 0; i < COUNT_OF(names); i++)
        gd__text_put(text, "#undef %s\n#define %s %s_%d\n", names[i], names[i], names[i], number);
    gd__text_put(text, "namespace of_%d {\n%s\nHOST_ENTRY(%s_%d)\n}\n", number, source, name, number);
    gd__text_put(
        text, "#undef FIRST\n#undef DT\n#undef OUT\n#undef NIN\n#undef EXPR\n#undef FUNCTION\n#undef EACH\n"
              "#undef WIDE\n#undef PLACE\n");
}

static host_entry_fn entry_of(void *library, const char *name, int number)
{
    char symbol[64];
    host_entry_fn entry;
    snprintf(symbol, sizeof symbol, "host_%s_%d", name, number);
    void *found = dlsym(library, symbol);
    assert_non_null(found);
    memcpy(&entry, &found, sizeof found);
    return entry;
}

/* Elements of any dtype: numbers with several digits, and truths. */
static void fill_block(uint64_t *random, void *block, gd_dtype dtype)
{
    for (int i = 0; i < ELEMENTS; i++) {
        double x = (random_unit(random) - 0.4) * 6;
        if (dtype == GD_F32) ((float *)block)[i] = (float)x;
        if (dtype == GD_F64) ((double *)block)[i] = x;
        if (dtype == GD_F16) ((uint16_t *)block)[i] = gd__f32_to_f16((float)x);
        if (dtype == GD_BF16) ((uint16_t *)block)[i] = gd__f32_to_bf16((float)x);
        if (dtype == GD_BOOL) ((uint8_t *)block)[i] = x > 0;
    }
}

typedef struct sample {
    gd_fusion f;
    gd_fused_launch args;
    char *read[GD_FUSED_READS], *got[GD_FUSED_STEPS], *want[GD_FUSED_STEPS];
    int map[GD_FUSED_STEPS]; /* number of the operator's own kernel; -1: none */
} sample;

static void make_sample(uint64_t *random, sample *s, gd_dtype dtype)
{
    static const int64_t sizes[] = {3, 5, 7}, strides[3][3] = {{1, 3, 15}, {0, 7, 1}, {35, 0, 7}};
    make_fusion(random, &s->f, dtype, 10);
    s->args = (gd_fused_launch){.n = ELEMENTS, .ndim = 3};
    memcpy(s->args.size, sizes, sizeof sizes);
    for (int k = 0; k < s->f.reads; k++) {
        assert_non_null(s->read[k] = calloc(ELEMENTS, 8));
        fill_block(random, s->read[k], s->f.read[k].dtype);
        s->args.in[k] = s->read[k];
        memcpy(s->args.stride[k], strides[random_below(random, 3)], sizeof strides[0]);
    }
    for (int k = 0; k < s->f.steps; k++) {
        assert_non_null(s->got[k] = calloc(ELEMENTS, 8));
        assert_non_null(s->want[k] = calloc(ELEMENTS, 8));
        if (s->f.step[k].store >= 0) s->args.out[s->f.step[k].store] = s->got[k];
        s->args.f[k][0] = random_unit(random);
        s->args.f[k][1] = 1 + random_unit(random);
    }
}

/* Strides of an operand of a step. */
static const void *operand_of(const sample *s, int in, int64_t stride[8])
{
    static const int64_t dense[] = {35, 7, 1};
    memset(stride, 0, 8 * sizeof *stride);
    bool ordered = in < 0 || s->f.read[in].way == GD_READ_DENSE;
    if (ordered)
        memcpy(stride, dense, sizeof dense);
    else if (s->f.read[in].way == GD_READ_STRIDED)
        memcpy(stride, s->args.stride[in], sizeof dense);
    return in < 0 ? s->want[-1 - in] : s->read[in];
}

/* Copies and casts, by the CPU's operators. */
static void move_elements(gd_ctx *ctx, const sample *s, int k)
{
    const gd_fused_step *step = &s->f.step[k];
    int64_t stride[8];
    const char *from = operand_of(s, step->in[0], stride);
    size_t item = gd_dtype_size(step->first);
    char *flat = calloc(ELEMENTS, 8);
    assert_non_null(flat);
    for (int i = 0; i < ELEMENTS; i++)
        memcpy(flat + (size_t)i * item,
               from + (i / 35 * stride[0] + i / 7 % 5 * stride[1] + i % 7 * stride[2]) * (int64_t)item, item);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_cast(gd_from_data(ctx, step->first, 1, (int64_t[]){ELEMENTS}, flat), step->out);
    assert_int_equal(gd_read(t, s->want[k], ELEMENTS * gd_dtype_size(step->out)), GD_OK);
    gd_scope_end(ctx);
    free(flat);
}

static void run_steps(gd_ctx *ctx, const sample *s, void *library)
{
    for (int k = 0; k < s->f.steps; k++) {
        const gd_fused_step *step = &s->f.step[k];
        if (s->map[k] < 0) {
            move_elements(ctx, s, k);
            continue;
        }
        cuda_map_args a = {.n = ELEMENTS, .ndim = 3, .out = s->want[k]};
        memcpy(a.size, s->args.size, sizeof a.size);
        for (int i = 0; i < step->nin; i++) a.in[i] = operand_of(s, step->in[i], a.stride[i]);
        memcpy(a.f, s->args.f[k], sizeof a.f);
        entry_of(library, "map_strided", s->map[k])(&a, 2, 32);
    }
}

static void free_sample(sample *s)
{
    for (int k = 0; k < s->f.reads; k++) free(s->read[k]);
    for (int k = 0; k < s->f.steps; k++) {
        free(s->got[k]);
        free(s->want[k]);
    }
}

/* Each result is rounded as if it were stored: the bits of one kernel per operator. */
static void fused_kernels_have_the_bits_of_operators(void **state)
{
    (void)state;
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16, GD_F16};
    enum { SAMPLES = 8 };
    sample *all = calloc(SAMPLES, sizeof *all);
    uint64_t random = 11;
    int number = 0, stores = 0;
    char source[CUDA_SOURCE_SIZE];
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_text text = {.ctx = ctx};
    assert_non_null(all);
    for (int i = 0; i < SAMPLES; i++) {
        sample *s = &all[i];
        make_sample(&random, s, dtypes[i % 4]);
        assert_true(cuda_fuse_source(&s->f, source, sizeof source) > 0);
        put_source(&text, source, "fused", i);
        for (int k = 0; k < s->f.steps; k++) {
            const gd_fused_step *step = &s->f.step[k];
            s->map[k] = -1;
            if (!is_map((int)step->op)) continue;
            gd_dtype dtype = step->op == GD_OP_where ? step->other : step->first;
            assert_true(cuda_map_source(step->op, step->nin, step->first, dtype, step->out, source,
                                        sizeof source) > 0);
            s->map[k] = SAMPLES + number++;
            put_source(&text, source, "map_strided", s->map[k]);
        }
    }
    assert_false(text.failed);
    void *library = host_translate(text.data);
    for (int i = 0; i < SAMPLES; i++) {
        sample *s = &all[i];
        run_steps(ctx, s, library);
        entry_of(library, "fused", i)(&s->args, 3, 32);
        for (int k = 0; k < s->f.steps; k++) {
            if (s->f.step[k].store < 0) continue;
            stores++;
            if (memcmp(s->got[k], s->want[k], ELEMENTS * gd_dtype_size(s->f.step[k].out)) != 0)
                fail_msg("fusion %d, step %d (%s)", i, k, gd__ops[s->f.step[k].op].name);
        }
        free_sample(s);
    }
    assert_true(stores > 20);
    dlclose(library);
    gd__text_free(&text);
    free(all);
    end_context(ctx, NULL);
}

/* ---- graphs ---- */

typedef struct state {
    gd_ctx *ctx;
    gd_device *gpu;
    gd_tensor *captured;
    double number;
} state;

static gd_tensor *zeros(gd_device *gpu, int64_t n)
{
    return gd_to_device(gd_zeros(gpu->ctx, GD_F64, 1, &n), gpu);
}

static gd_tensor *total(gd_tensor *x) { return gd_sum(x, NULL, false); }

/* x^2 c + exp(x) in one kernel, their sum in others. */
static gd_tensor *function(void *user, gd_tensor *const *in, int count)
{
    const state *s = user;
    (void)count;
    return total(gd_add(gd_mul(gd_square(in[0]), s->captured), gd_exp(in[0])));
}

static gd_tensor *with_factor(void *user, gd_tensor *const *in, int count)
{
    const state *s = user;
    (void)count;
    gd_tensor *m = gd_mul(gd_reshape(in[0], 2, (int64_t[]){-1, 1}),
                          gd_reshape(s->captured, 2, (int64_t[]){1, -1}));
    return total(gd_cholesky(m));
}

/* Products of heads that lie side by side: lists of addresses. */
static gd_tensor *with_heads(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    gd_tensor *x = gd_reshape(in[0], 5, (int64_t[]){2, 4, 3, 6, 8}), *part[3];
    if (gd__split(gd_permute(x, (int[]){2, 0, 3, 1, 4}), 3, part)) return NULL;
    return total(gd_matmul(gd_matmul(part[0], gd_transpose(part[1], 2, 3)), part[2]));
}

static gd_tensor *with_index(void *user, gd_tensor *const *in, int count)
{
    const state *s = user;
    (void)count;
    return total(gd_index_select(gd_square(in[0]), "0", s->captured));
}

static gd_tensor *with_host(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    return total(gd_gather(in[0], "0", gd_argsort(gd_square(in[0]), "0", false)));
}

static gd_tensor *with_numbers(void *user, gd_tensor *const *in, int count)
{
    state *s = user;
    (void)count;
    gd_tensor *number = gd_to_device(gd_traced_input(s->ctx, GD_F64, 0, NULL, &s->number), s->gpu);
    return total(gd_mul(gd_dropout(gd_square(in[0]), 0.5), gd_exp(number)));
}

typedef struct bench {
    state s;
    gd_device gpu;
    gd_traced *t;
} bench;

static void begin_bench(bench *b, gd_function f, gd_ctx *ctx)
{
    cuda_api api;
    fake_fill(&api);
    fake_reset(1);
    assert_int_equal(open_fake(ctx, &b->gpu, 0, &api), GD_OK);
    gd_scope_begin(ctx);
    b->s = (state){.ctx = ctx, .gpu = &b->gpu, .captured = zeros(&b->gpu, 8)};
    b->t = gd_trace(ctx, f, &b->s, NULL);
}

static void end_bench(bench *b)
{
    gd_ctx *ctx = b->s.ctx;
    gd_traced_free(b->t);
    gd_scope_end(ctx);
    close_fake(&b->gpu);
    end_context(ctx, NULL);
    assert_int_equal(fake.out_of_context, 0);
    assert_int_equal(fake.wrong_in_capture, 0);
    assert_true(fake_is_clean());
}

static gd_ctx *pooled(void)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.cache_dir = cache.path;
    options.pool = true;
    return gd_ctx_new(&options);
}

/* A call; what the device was asked for is in fake.done. */
static gd_tensor *call(bench *b, gd_tensor *x)
{
    gd_tensor *value, *grad;
    fake.done.count = 0;
    assert_int_equal(gd_traced_gradient(b->t, &x, 1, &value, &grad), GD_OK);
    return grad;
}

static void assert_alike(const fake_list *a, const fake_list *b)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        assert_string_equal(a->item[i].name, b->item[i].name);
        assert_int_equal(a->item[i].blocks, b->item[i].blocks);
    }
}

/* The third call replays plainly, the fourth makes a graph, the others launch it: the same kernels in the same order. */
static void launches_become_one_graph(void **unused)
{
    (void)unused;
    bench b;
    begin_bench(&b, function, pooled());
    gd_tensor *x = zeros(&b.gpu, 8);
    for (int k = 0; k < 3; k++) (void)call(&b, x);
    assert_int_equal(fake.captures, 0);
    int64_t launches = fake.launches;
    static fake_list graph;
    for (int k = 0; k < 4; k++) {
        (void)call(&b, x);
        assert_int_equal(fake.captures, 1);
        assert_int_equal(fake.replays, k + 1);
        assert_int_equal(fake.launches, launches); /* nothing but the graph */
        if (!k) graph = fake.done;
        assert_alike(&fake.done, &graph);
    }
    int fused = 0;
    for (int i = 0; i < graph.count; i++)
        for (int p = 0; p < FAKE_POINTERS && !strcmp(graph.item[i].name, "fused"); p++)
            fused += graph.item[i].in[p] == x->data;
    assert_true(fused > 0);
    assert_true(explained(b.t, "as one graph: made 1 times, launched 4 times"));
    assert_true(explained(b.t, "kernels as one of 8 elements"));
    end_bench(&b);
}

/* The kernels of a graph are those of a plain replay. */
static void a_graph_has_the_launches_of_a_plain_replay(void **unused)
{
    (void)unused;
    static fake_list lists[2];
    for (int plain = 0; plain < 2; plain++) {
        bench b;
        begin_bench(&b, function, pooled());
        gd_backend without = *b.gpu.backend;
        const gd_backend *with = b.gpu.backend;
        without.capture = NULL;
        if (plain) b.gpu.backend = &without;
        gd_tensor *x = zeros(&b.gpu, 8);
        for (int k = 0; k < 6; k++) (void)call(&b, x);
        lists[plain] = fake.done;
        assert_int_equal(fake.replays, plain ? 0 : 3);
        assert_int_equal(explained(b.t, "no graph: gpu:0 has no graphs"), plain);
        gd_traced_free(b.t);
        b.t = NULL;
        b.gpu.backend = with;
        end_bench(&b);
    }
    assert_alike(&lists[0], &lists[1]);
}

/* Inputs that take turns have a graph each; further ones replace the oldest, whose graph takes the new arguments. */
static void swapped_inputs_have_graphs_of_their_own(void **unused)
{
    (void)unused;
    for (int refused = 0; refused < 2; refused++) {
        bench b;
        begin_bench(&b, function, pooled());
        fake.refuse_updates = refused;
        gd_tensor *x[2 + GD_TRACE_GRAPHS];
        for (int i = 0; i < COUNT_OF(x); i++) x[i] = zeros(&b.gpu, 8);
        for (int k = 0; k < 12; k++) (void)call(&b, x[k % 2]);
        assert_int_equal(fake.captures, 2);
        assert_int_equal(fake.replays,
                         12 - 2 - 2); /* the first two calls run the function, two replays are plain */
        for (int i = 2; i < COUNT_OF(x); i++)
            for (int k = 0; k < 2; k++) (void)call(&b, x[i]);
        assert_int_equal(fake.captures, COUNT_OF(x));
        assert_int_equal(fake.exec_updates, refused ? 0 : COUNT_OF(x) - GD_TRACE_GRAPHS);
        for (int p = 0, found = 0; p < FAKE_POINTERS; p++) {
            found += fake.done.item[0].in[p] == x[COUNT_OF(x) - 1]->data;
            if (p == FAKE_POINTERS - 1)
                assert_true(found > 0 || strcmp(fake.done.item[0].name, "fused") != 0);
        }
        /* always elsewhere: never a graph */
        int64_t captures = fake.captures;
        for (int i = 0; i < 6; i++) (void)call(&b, zeros(&b.gpu, 8));
        assert_int_equal(fake.captures, captures);
        end_bench(&b);
    }
}

static void results_that_are_kept_get_a_graph_for_their_memory(void **unused)
{
    (void)unused;
    bench b;
    begin_bench(&b, function, pooled());
    gd_tensor *x = zeros(&b.gpu, 8);
    for (int k = 0; k < 5; k++) (void)call(&b, x);
    gd_tensor *kept = call(&b, x);
    gd_retain(kept);
    int64_t replays = fake.replays;
    assert_ptr_not_equal(call(&b, x)->data, kept->data); /* plain: new memory */
    assert_int_equal(fake.replays, replays);
    (void)call(&b, x);
    assert_int_equal(fake.replays, replays + 1);
    gd_release(kept);
    end_bench(&b);
}

/* What the host brings, and random numbers, go before the graph, each time. */
static void numbers_of_the_host_go_before_the_graph(void **unused)
{
    (void)unused;
    bench b;
    begin_bench(&b, with_numbers, pooled());
    gd_tensor *x = zeros(&b.gpu, 8);
    for (int k = 0; k < 8; k++) {
        (void)call(&b, x); /* the number is 0, as all memory is */
        if (k < 4) continue;
        assert_string_equal(fake.done.item[0].name, "random_numbers");
        assert_int_equal(fake.captures, 1);
        assert_int_equal(fake.replays, k - 2);
    }
    end_bench(&b);
}

/* Each runs plainly, with the reason. */
static void work_that_no_graph_can_have_runs_plainly(void **unused)
{
    (void)unused;
    static const struct {
        gd_function f;
        bool pool;
        const char *why;
    } rows[] = {
        {with_host, true, "no graph: the host runs argsort"},
        {with_factor, true, "no graph: a factorisation, which waits for its result is part of it"},
        {function, false, "no graph: a kernel asks for memory that a context without a pool has not"}};
    for (int k = 0; k < COUNT_OF(rows); k++) {
        bench b;
        gd_ctx *ctx = pooled();
        ctx->pool_on = rows[k].pool;
        begin_bench(&b, rows[k].f, ctx);
        /* the order of one element is 0, as all memory is */
        gd_tensor *x = zeros(&b.gpu, k == 0 ? 1 : k == 1 ? 8 : 1 << 20);
        b.s.captured = zeros(&b.gpu, gd_size(x, 0));
        for (int i = 0; i < 8; i++) (void)call(&b, x);
        assert_no_error(ctx);
        assert_int_equal(fake.replays, 0);
        char text[2000];
        (void)gd_explain_trace(b.t, text, sizeof text);
        if (!strstr(text, rows[k].why)) fail_msg("%s", text);
        end_bench(&b);
    }
}

/* A kernel of the graph may meet an index out of range in each of its launches. */
static void a_graph_reports_an_index_out_of_range(void **unused)
{
    (void)unused;
    bench b;
    begin_bench(&b, with_index, pooled());
    b.s.captured = gd_to_device(gd_zeros(b.s.ctx, GD_I64, 1, (int64_t[]){3}), &b.gpu);
    gd_tensor *x = zeros(&b.gpu, 8);
    double number[8];
    for (int k = 0; k < 6; k++) assert_int_equal(gd_read_f64(call(&b, x), number, 8), GD_OK);
    assert_true(fake.replays > 1);
    gd_tensor *grad = call(&b, x);
    int *trouble = (int *)(uintptr_t)cuda_of(&b.gpu)->trouble;
    trouble[0] = 1;
    trouble[1] = GD_OP_index_select;
    assert_int_equal(gd_read_f64(grad, number, 8), GD_INDEX);
    assert_error(b.s.ctx, GD_INDEX, "index_select: an index was out of range");
    gd_clear_error(b.s.ctx);
    end_bench(&b);
}

/* Lists of addresses that a graph reads stay, and may go when it is gone. */
static void a_graph_keeps_its_lists_of_addresses(void **unused)
{
    (void)unused;
    bench b;
    begin_bench(&b, with_heads, pooled());
    gd_tensor *x = zeros(&b.gpu, (int64_t)2 * 4 * 3 * 6 * 8);
    for (int k = 0; k < 6; k++) (void)call(&b, x);
    assert_true(fake.listed > 0);
    assert_true(fake.replays > 1);
    assert_int_equal(cuda_of(&b.gpu)->graphs, 1);
    gd_traced_free(b.t);
    b.t = NULL;
    assert_int_equal(cuda_of(&b.gpu)->graphs, 0);
    end_bench(&b);
}

/* Whatever call of the driver or allocation fails, a call replays plainly or fails, the next one is right, and nothing is left. */
static void fail_at_each(bool on_host)
{
    int64_t points = 0, plain = 0;
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_options options = gd_options_default();
        options.threads = 1;
        options.cache_dir = cache.path;
        options.allocator = memory_allocator(&m);
        options.pool = !on_host; /* it would have the memory */
        bench b;
        begin_bench(&b, function, gd_ctx_new(&options));
        gd_tensor *x = zeros(&b.gpu, 8), *y = zeros(&b.gpu, 8);
        for (int i = 0; i < 3; i++) (void)call(&b, x);
        if (on_host)
            m.fail_at = m.requests + k;
        else
            fake.fail_at = fake.calls + k;
        gd_status first = GD_OK;
        for (int i = 0; i < 4; i++) {
            gd_tensor *value, *grad, *in = i % 2 ? y : x;
            gd_status status = gd_traced_gradient(b.t, &in, 1, &value, &grad);
            if (status && !first) first = status;
            gd_clear_error(b.s.ctx);
        }
        bool failed = on_host ? m.failed : fake.calls >= fake.fail_at;
        m.fail_at = fake.fail_at = 0;
        assert_true(!first || first == GD_NOMEM);
        plain += failed && !first;
        for (int i = 0; i < 4; i++) (void)call(&b, x);
        assert_no_error(b.s.ctx);
        end_bench(&b);
        if (!failed) break;
        points++;
    }
    print_message("%lld failures, %lld of them seen in no result\n", (long long)points, (long long)plain);
    assert_true(points >= (on_host ? 2 : 15) && plain > 0);
}

static void failing_driver_calls_leave_nothing(void **unused)
{
    (void)unused;
    fail_at_each(false);
}

static void failing_allocations_leave_nothing(void **unused)
{
    (void)unused;
    fail_at_each(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_may_be_fused),
        cmocka_unit_test(fused_kernels_compile),
        cmocka_unit_test(fused_kernels_have_the_bits_of_operators),
        cmocka_unit_test(launches_become_one_graph),
        cmocka_unit_test(a_graph_has_the_launches_of_a_plain_replay),
        cmocka_unit_test(swapped_inputs_have_graphs_of_their_own),
        cmocka_unit_test(results_that_are_kept_get_a_graph_for_their_memory),
        cmocka_unit_test(numbers_of_the_host_go_before_the_graph),
        cmocka_unit_test(work_that_no_graph_can_have_runs_plainly),
        cmocka_unit_test(a_graph_reports_an_index_out_of_range),
        cmocka_unit_test(a_graph_keeps_its_lists_of_addresses),
        cmocka_unit_test(failing_driver_calls_leave_nothing),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, prepare, clean_up);
}
