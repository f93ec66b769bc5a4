/* Emitted CUDA against the interpreter: the programs of random chains of all element-wise links, and random programs of all
 * instructions, run by execute_device.c on a GPU that is none (host_gpu.h).  Tensors of 0, 1, 7, 1000 and 9000 elements lie in
 * one group, as on a GPU.  Element results must be the same bits; sums, which are added in another order, nearly so.  Sums along
 * axes of random programs are of whole numbers, which no order rounds: they must be those of an evaluator. */
#include "cuda/host_gpu.h"
#include "cuda/trials.h"
#include "program/execute.h"
#include "optim/step/optimizer.h"
#include "program/axes_property.h"

#define CHAINS   60
#define PROGRAMS 40
#define MEMBERS  6

static const int64_t sizes[MEMBERS] = {0, 1, 7, 1000, 9000, 7};

typedef struct sample {
    char text[400];
    gd_program *p;
    bool chain;  /* made by links: numbers stay within bounds */
    bool common; /* every member has the same settings */
    gd_exec g;   /* what execute_device.c sees */
    tensors want[MEMBERS], got[MEMBERS];
    double reduced[MEMBERS][GD_MAX_REDUCTIONS]; /* by the interpreter */
} sample;

/* ---- programs ---- */

typedef struct wanted_build {
    int number; /* of the builds that gd__plan_programs shows */
    int seen;
    gd_program *copy;
} wanted_build;

static gd_status copy_build(void *user, const gd_program *p, const gd_pass *pass)
{
    wanted_build *w = user;
    if (pass->level == 0 && w->seen++ == w->number) {
        w->copy = malloc(sizeof *w->copy);
        assert_non_null(w->copy);
        *w->copy = *p;
    }
    return GD_OK;
}

/* Every second array of codes is for numbers that are never negative. */
static void keep_in(gd_program *p, int k, gd_dtype dtype)
{
    gd_array *a = &p->array[k];
    a->dtype = dtype;
    a->positive = k % 2;
    if (dtype != GD_F16 && dtype != GD_BF16) return;
    a->by_chance = true;
    a->second = k % 3 == 1;
    for (int other = 0; a->second && other < k; other++) /* shares the bits of one before it */
        if (p->array[other].by_chance) {
            a->chance = p->array[other].chance;
            return;
        }
    a->chance = p->count;
    p->uniform[p->uniforms] = (gd_uniform){.kind = GD_U_DRAW, .index = 2 * (500 + k), .store = -1};
    p->instr[p->count++] = (gd_instr){
        .op = GD_I_UNIFORM, .uniform = 1, .place = -1, .a = -1, .b = -1, .c = -1, .index = p->uniforms++};
}

/* The program of a random chain; NULL when the settings do not go together. */
static gd_program *chain_program(gd_ctx *ctx, uint64_t *state, int k, char *text, size_t size)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16, GD_F16};
    static const gd_dtype states[] = {GD_U8, GD_F64, GD_BF16, GD_F16, GD_U8};
    gd_dtype dtype = dtypes[k % 7 < 6 ? k % 3 : 3], stored = states[pick(state, COUNT_OF(states))];
    wanted_build w = {.number = pick(state, 3) == 0};
    char chain[300];
    put_chain(state, chain, sizeof chain);
    if (gd__plan_programs(ctx, chain, dtype, copy_build, &w)) {
        gd_clear_error(ctx);
        free(w.copy);
        return NULL;
    }
    bool other = pick(state, 2) == 0; /* state of another dtype, as the setting 'state' gives it */
    for (int a = 0; a < w.copy->arrays && other; a++)
        if (w.copy->array[a].kind == GD_ARRAY_STATE) keep_in(w.copy, a, stored);
    snprintf(text, size, "%s, %s%s%s", chain, gd_dtype_name(dtype), other ? ", state in " : "",
             other ? gd_dtype_name(stored) : "");
    return w.copy;
}

static gd_program *random_program(gd_ctx *ctx, uint64_t *state, int k, char *text, size_t size)
{
    static const gd_uniform_kind kinds[] = {GD_U_SETTING, GD_U_STEP, GD_U_FRESH, GD_U_SCALAR, GD_U_EXTERNAL};
    gd_program *p = malloc(sizeof *p);
    assert_non_null(p);
    make_random(p, ctx, state, 20 + pick(state, 60));
    p->eager = false;                     /* devices have functions of their own */
    bool step[GD_MAX_UNIFORMS] = {false}; /* of random numbers, after their key */
    for (int u = 0; u < p->uniforms; u++) {
        if (u && p->uniform[u - 1].kind == GD_U_KEY) step[u] = true;
        if (p->uniform[u].kind != GD_U_KEY)
            p->uniform[u].kind = step[u] ? GD_U_STEP : kinds[pick(state, COUNT_OF(kinds))];
    }
    snprintf(text, size, "random program %d", k);
    return p;
}

/* ---- groups ---- */

static void make_group(sample *s, gd_device *device)
{
    gd_exec *g = &s->g;
    int64_t *numel = gd__alloc_array(device->ctx, MEMBERS, sizeof *numel),
            *size = gd__alloc_array(device->ctx, 0, sizeof *size);
    assert_true(numel && size);
    memcpy(numel, sizes, sizeof sizes);
    *g = (gd_exec){.p = gd__alloc(device->ctx, sizeof *g->p), .device = device};
    assert_non_null(g->p);
    *g->p = *s->p;
    assert_int_equal(gd__exec_passes(g, false), GD_OK);
    assert_int_equal(gd__exec_members(g, MEMBERS, numel, size), GD_OK);
}

static void free_sample(sample *s)
{
    gd__exec_free(&s->g);
    free(s->p);
}

static double input_for(const sample *s, uint64_t *state, const gd_uniform *f, int m, int64_t step)
{
    double any = s->chain ? 0.05 + 0.9 * random_unit(state) : random_number(state);
    switch (f->kind) {
    case GD_U_STEP: return (double)step;
    case GD_U_DRAW: return random_unit(state);
    case GD_U_KEY: return (double)(random_bits(state) >> 11);
    case GD_U_NUMEL: return f->index == GD_EACH ? (double)sizes[m] : 10015;
    case GD_U_FRESH: return step == 1 || pick(state, 3) == 0;
    default: return any;
    }
}

/* New numbers for a step, in memory of their own; what differs between members is what may. */
static void fill_inputs(sample *s, uint64_t *state, int64_t step)
{
    gd_exec *g = &s->g;
    const gd_program *p = g->p;
    for (int u = 0; u < p->uniforms; u++) {
        gd_uniform_kind kind = p->uniform[u].kind;
        bool each = kind == GD_U_KEY || (kind == GD_U_DRAW && p->uniform[u].index % 2 == GD_EACH) ||
                    kind == GD_U_FRESH || kind == GD_U_SCALAR || kind == GD_U_NUMEL ||
                    (kind == GD_U_SETTING && !s->common);
        for (int m = 0; m < MEMBERS; m++)
            g->input[m * p->uniforms + u] = m && !each ? g->input[u]
                                                       : input_for(s, state, &p->uniform[u], m, step);
    }
    for (int m = 0; m < MEMBERS; m++) {
        uint64_t seed = random_bits(state);
        s->want[m] = make_tensors(p, sizes[m], seed);
        s->got[m] = make_tensors(p, sizes[m], seed);
        for (int k = 0; k < p->arrays; k++) {
            bool coded = p->array[k].dtype == GD_U8;
            for (int64_t i = 0; s->chain && !coded && i < sizes[m]; i++) {
                double x = (random_unit(&seed) - 0.5) * 4;
                if (p->array[k].kind == GD_ARRAY_STATE) x = x < 0 ? -x : x; /* squares are kept there */
                set_number(s->want[m].array[k], p->array[k].dtype, i, x);
                set_number(s->got[m].array[k], p->array[k].dtype, i, x);
            }
            g->pointer[m * p->arrays + k] = s->got[m].array[k];
        }
    }
}

/* ---- the interpreter ---- */

static void interpret(sample *s, int level)
{
    const gd_program *p = s->p;
    const gd_pass *pass = &s->g.pass[level];
    double value[GD_MAX_INSTRS] = {0}, scalar[GD_MAX_UNIFORMS + GD_MAX_INSTRS + 3 * GD_MAX_ARRAYS],
           out[GD_MAX_REDUCTIONS];
    for (int m = 0; m < MEMBERS; m++) {
        all_uniforms(p, level, s->g.input + m * p->uniforms, s->reduced[m], value);
        for (int k = 0; k < pass->used_count; k++) scalar[k] = value[pass->used[k]];
        make_randoms(p, pass, value, &s->want[m]);
        put_chances(p, pass, value, scalar);
        gd__interpret(p, pass, 0, sizes[m], s->want[m].array, scalar, out);
        for (int r = 0; r < pass->reductions; r++) s->reduced[m][pass->reduction[r]] = out[r];
    }
    for (int r = 0; r < pass->reductions; r++) {
        int number = pass->reduction[r];
        const gd_instr *in = &p->instr[p->reduction[number]];
        double all = in->op == GD_I_SUM ? 0 : -INFINITY;
        for (int m = 0; m < MEMBERS; m++) {
            double x = s->reduced[m][number];
            all = in->op == GD_I_SUM ? all + x : all != all ? all : x > all || x != x ? x : all;
        }
        for (int m = 0; m < MEMBERS && in->extent == GD_ALL; m++) s->reduced[m][number] = all;
    }
}

/* ---- comparing ---- */

static bool reductions_agree(const sample *s, int level)
{
    const gd_program *p = s->p;
    const gd_pass *pass = &s->g.pass[level];
    for (int r = 0; r < pass->reductions; r++)
        for (int m = 0; m < MEMBERS; m++) {
            int number = pass->reduction[r];
            const gd_instr *in = &p->instr[p->reduction[number]];
            double want = s->reduced[m][number], got = s->g.reduced[m * p->reductions + number];
            double eps = p->compute == GD_F64 ? 2e-16 : 1.2e-7,
                   n = in->extent == GD_ALL ? 10015 : (double)sizes[m];
            bool sum = in->op == GD_I_SUM;
            if (sum && !s->chain) continue; /* of anything: the order decides what overflows */
            bool same = same_number(want, got) || (want == got);
            if (same || (sum && fabs(want - got) <= 8 * eps * (4 * n + 8 * fabs(want)))) continue;
            print_error("level %d, reduction %d, member %d: %.17g and %.17g\n", level, number, m, want, got);
            return false;
        }
    return true;
}

/* One step: every pass, the results of reductions handed on as the interpreter has them. */
static bool step_agrees(sample *s)
{
    gd_exec *g = &s->g;
    bool good = gd__exec_send(g, true) == GD_OK;
    for (int level = 0; level <= s->p->levels && good; level++) {
        interpret(s, level);
        good = gd__device_pass(g, level, NULL) == GD_OK;
        if (level == s->p->levels || !good) break;
        good = gd__device_join(g, level, NULL) == GD_OK;
        for (int k = 0; k < g->pass[level].reductions && good; k++) {
            int r = g->pass[level].reduction[k];
            if (g->p->instr[g->p->reduction[r]].extent == GD_ALL)
                good = gd__device_join_all(g, 1, r, NULL) == GD_OK;
        }
        good = good && gd__device_fetch_reduced(g) == GD_OK && reductions_agree(s, level);
        for (int m = 0; m < MEMBERS; m++)
            for (int r = 0; r < s->p->reductions; r++)
                g->reduced[m * s->p->reductions + r] = s->reduced[m][r];
        good = good && gd__device_send_reduced(g) == GD_OK;
    }
    for (int m = 0; m < MEMBERS && good; m++) {
        good = same_tensors(s->p, &s->want[m], &s->got[m]);
        if (!good) print_error("member %d\n", m);
    }
    return good;
}

static void free_memory(sample *s)
{
    for (int m = 0; m < MEMBERS; m++) {
        free_tensors(&s->want[m]);
        free_tensors(&s->got[m]);
    }
}

static void programs_agree_with_the_interpreter(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    uint64_t state = 20;
    sample *all = room(CHAINS + PROGRAMS, sizeof *all);
    int refused = 0, failures = 0;
    for (int k = 0; k < CHAINS + PROGRAMS; k += test_share()) {
        sample *s = &all[k];
        s->chain = k < CHAINS;
        s->common = pick(&state, 2);
        while (!s->p) {
            s->p = s->chain ? chain_program(ctx, &state, k, s->text, sizeof s->text)
                            : random_program(ctx, &state, k, s->text, sizeof s->text);
            if (!s->p) refused++;
            assert_true(refused < 10 * CHAINS);
        }
        assert_int_equal(gd__program_verify(s->p), GD_OK);
        make_group(s, &gpu->device);
        /* all sources first: one run of the compiler for all */
        fill_inputs(s, &state, 1);
        assert_int_equal(gd__exec_send(&s->g, true), GD_OK);
        free_memory(s);
    }
    for (int k = 0; k < CHAINS + PROGRAMS; k += test_share()) {
        sample *s = &all[k];
        bool good = true;
        for (int64_t step = 1; step <= 3 && good; step++) {
            fill_inputs(s, &state, step);
            good = step_agrees(s);
            free_memory(s);
        }
        if (!good) print_error("%s%s: %s\n", s->text, s->common ? "" : ", own settings", gd_error_text(ctx));
        failures += !good;
        gd_clear_error(ctx);
        free_sample(s);
    }
    print_message("%d chains (%d more were refused), %d random programs, %d kernels\n", CHAINS, refused,
                  PROGRAMS, gpu->kernels);
    free(all);
    host_gpu_close(gpu);
    end_context(ctx, NULL);
    assert_int_equal(failures, 0);
}

/* ---- along axes ---- */

#define AXES_PROGRAMS 80

static void sums_along_axes_are_those_of_an_evaluator(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    uint64_t state = 31;
    axes_case *all[AXES_PROGRAMS];
    int sums = 0, failures = 0;
    for (int k = 0; k < AXES_PROGRAMS; k += test_share()) {
        axes_case *a = all[k] = random_axes_case(ctx, &state, true);
        assert_int_equal(gd__program_verify(a->p), GD_OK);
        for (int i = 0; i < a->p->count; i++) sums += gd__is_along(a->p->instr[i].op);
        axes_run run = run_axes(a, ctx, &gpu->device, false, true); /* all sources first, as above */
        free_axes_run(&run);
    }
    for (int k = 0; k < AXES_PROGRAMS; k += test_share()) {
        axes_case *a = all[k];
        axes_run run = run_axes(a, ctx, &gpu->device, false, false);
        const char *fault = evaluator_fault(a, &run);
        if (fault) print_error("program %d: %s\n", k, fault), print_axes_case(a);
        failures += fault != NULL;
        free_axes_run(&run);
        free(a->p);
        free(a);
    }
    print_message("%d programs, %d sums along axes, %d kernels\n", AXES_PROGRAMS, sums, gpu->kernels);
    assert_true(sums > (test_share() > 1 ? 0 : AXES_PROGRAMS / 4)); /* a share of 8 has only ten programs */
    host_gpu_close(gpu);
    end_context(ctx, NULL);
    assert_int_equal(failures, 0);
}

/* ---- whole steps ---- */

static void optimizers_step_as_on_the_cpu(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    int failures = run_trials(ctx, &gpu->device, test_share(), 6);
    host_gpu_close(gpu);
    end_context(ctx, NULL);
    assert_int_equal(failures, 0);
}

static void links_along_axes_step_as_on_the_cpu(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    int failures = run_axes_trials(ctx, &gpu->device);
    host_gpu_close(gpu);
    end_context(ctx, NULL);
    assert_int_equal(failures, 0);
}

static void replayed_steps_have_the_bits_of_eager_ones(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    all_replays_agree(ctx, &gpu->device);
    captures_are_refused(ctx, &gpu->device);
    host_gpu_close(gpu);
    end_context(ctx, NULL);
}

static void parameters_count_their_own_steps_and_lie_as_they_like(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    all_skips_agree(ctx, &gpu->device);
    all_layouts_agree(ctx, &gpu->device);
    host_gpu_close(gpu);
    end_context(ctx, NULL);
}

static void state_and_checkpoints_go_from_device_to_device(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    states_and_checkpoints_cross(ctx, &gpu->device);
    random_numbers_agree(ctx, &gpu->device);
    host_gpu_close(gpu);
    end_context(ctx, NULL);
}

/* Once the tables are there, a step sends nothing but what changed, and waits for nothing. */
static void a_step_without_closure_waits_for_nothing(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    gd_ctx *ctx = context(NULL, 1, NULL);
    host_gpu *gpu = host_gpu_open(ctx);
    trial t;
    gd_scope_begin(ctx);
    make_trial(&t, ctx, &gpu->device, "clip_norm(1) | adam | weight_decay(0.01) | lr(0.1)", "gggg", "ssss");
    gd_tensor *loss = distance(&t);
    assert_int_equal(gd_backward(loss, NULL, 0), GD_OK);
    for (int i = 0; i < 2; i++) assert_int_equal(gd_optimizer_step(t.optimizer, NULL, NULL), GD_OK);
    for (int i = 0; i < 3; i++) {
        int64_t launches = gpu->launches, uploads = gpu->uploads, downloads = gpu->downloads;
        assert_int_equal(gd_optimizer_step(t.optimizer, NULL, NULL), GD_OK);
        assert_in_range(gpu->launches - launches, 3, 4); /* the norm, its joins, the rest */
        assert_int_equal(gpu->uploads - uploads, 0);
        assert_int_equal(gpu->downloads - downloads, 0);
    }
    for (int i = 0; i < PARAMS; i++) gd_zero_grad(t.param[i]);
    gd_optimizer_free(t.optimizer);
    gd_scope_end(ctx);
    host_gpu_close(gpu);
    end_context(ctx, NULL);
}

/* Memory, transfers, kernels and launches fail, each once: the step is refused, parameters are as they were, and the same
 * step done again gives what it would have given. */
/* exact: all parameters share a program, so that one launch writes all of them or none. */
static int64_t fail_everywhere(gd_ctx *ctx, host_gpu *gpu, const char *chain, bool exact)
{
    bool failed = true;
    int64_t points = 0;
    for (int64_t k = 1; failed; k += test_share()) {
        trial want, t;
        gd_scope_begin(ctx);
        make_trial(&want, ctx, &gpu->device, chain, "gggg", "dddd");
        make_trial(&t, ctx, &gpu->device, chain, "gggg", "dddd");
        failed = false;
        for (int step = 0; step < 2; step++) {
            gpu->fail_at = step == 0 ? gpu->calls + k : 0;
            gd_status status = trial_step(&t);
            gpu->fail_at = 0;
            if (status) {
                failed = true;
                assert_int_equal(gd_error(ctx), status);
                assert_non_null(strstr(gd_error_text(ctx), "failed on purpose"));
                gd_clear_error(ctx);
                if (exact && !trials_agree(&want, &t, 0))
                    fail_msg("failure %lld has changed parameters", (long long)k);
                assert_int_equal(trial_step(&t), GD_OK);
            }
            assert_int_equal(trial_step(&want), GD_OK);
            if (exact && !trials_agree(&want, &t, 0))
                fail_msg("failure %lld has changed the step after it", (long long)k);
        }
        points += failed;
        gd_optimizer_free(want.optimizer);
        gd_optimizer_free(t.optimizer);
        gd_scope_end(ctx);
    }
    return points;
}

static void a_refused_step_can_be_done_again(void **unused)
{
    (void)unused;
    if (!host_can_compile()) skip();
    static const char *const chains[] = {"clip_norm(1) | adam | lr(0.1)", "centralize(dim=1) | lr(0.1)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        host_gpu *gpu = host_gpu_open(ctx);
        int64_t points = fail_everywhere(ctx, gpu, chains[i], i == 0);
        print_message("%s: %lld failures\n", chains[i], (long long)points);
        assert_true(points * test_share() > 20);
        host_gpu_close(gpu);
        end_context(ctx, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_agree_with_the_interpreter),
        cmocka_unit_test(sums_along_axes_are_those_of_an_evaluator),
        cmocka_unit_test(optimizers_step_as_on_the_cpu),
        cmocka_unit_test(links_along_axes_step_as_on_the_cpu),
        cmocka_unit_test(replayed_steps_have_the_bits_of_eager_ones),
        cmocka_unit_test(parameters_count_their_own_steps_and_lie_as_they_like),
        cmocka_unit_test(state_and_checkpoints_go_from_device_to_device),
        cmocka_unit_test(a_step_without_closure_waits_for_nothing),
        cmocka_unit_test(a_refused_step_can_be_done_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
