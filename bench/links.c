/* A row per link: a step of it over twenty million numbers against loops that only move the bytes of its passes, as gd_explain
 * counts them; where it takes exponentials, logarithms, powers or random numbers, against loops that move the bytes and call the
 * same vector functions as often, piece by piece.  Links that evaluate, factorise or decide have no such floor and no row. */
#include "bench.h"
#include "gradus/chain.h"
#include "gradus/optim.h"
#include "program/element.h"

#include <stdlib.h>
#include <string.h>

#define ELEMENTS   20000000
#define MOST       1.25 /* times the floor */
#define MOST_HALF  1.5  /* with state in halves, rounded by chance */
#define MOST_CODED 2    /* with state in codes of eight bits, on the CPU */
#define PASSES     8

/* What costs more than the bytes, as it stands in the source of a pass, and the instruction that does it. */
static const struct function {
    const char *word;
    gd_opcode op;
} functions[] = {
    {"= exp_f32(", GD_I_exp}, {"= log_f32(", GD_I_log}, {"= tanh_f32(", GD_I_tanh}, {"pow_wide(", GD_I_pow}};
#define FUNCTIONS (int)(sizeof functions / sizeof *functions)

/* One pass: streams of 4 bytes, calls of functions, and random numbers per element. */
typedef struct pass_of {
    int reads, writes, calls[FUNCTIONS], randoms;
    long numbers; /* in a stream */
    const gd_block_table *table;
} pass_of;

typedef struct step_of {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
    plain_pool *pool;
    unsigned *stream[PLAIN_STREAMS];
    int passes;
    pass_of pass[PASSES];
    char text[65536];
} step_of;

static void run_step(void *arg)
{
    step_of *s = arg;
    if (gd_optimizer_step(s->o, NULL, NULL)) bench_check(s->ctx);
}

static void call_functions(void *arg, long start, long n)
{
    const pass_of *p = arg;
    float x[PLAIN_PIECE], y[PLAIN_PIECE];
    gd_stream stream = {.key = 1, .high = 1};
    for (int i = 0; i < PLAIN_PIECE; i++) x[i] = 0.5f;
    for (int k = 0; k < p->randoms; k++) p->table->random[GD_ELEMENT_F32](y, &stream, start, n);
    for (int f = 0; f < FUNCTIONS; f++)
        for (int k = 0; k < p->calls[f]; k++)
            p->table->op[GD_ELEMENT_F32][functions[f].op](y, x, x, x, n, NULL);
}

static bool is_expensive(const pass_of *p)
{
    int calls = p->randoms;
    for (int f = 0; f < FUNCTIONS; f++) calls += p->calls[f];
    return calls > 0;
}

static void run_floor(void *arg)
{
    step_of *s = arg;
    for (int i = 0; i < s->passes; i++) {
        pass_of *p = &s->pass[i];
        if (is_expensive(p))
            plain_move_and(s->pool, s->stream, p->reads, p->writes, p->numbers, call_functions, p);
        else
            plain_move(s->pool, s->stream, p->reads, p->writes, p->numbers);
    }
}

/* The number in the parentheses after a word: "reads gradient, parameter (8), writes parameter (4)". */
static int bytes_after(const char *line, const char *end, const char *word)
{
    const char *at = strstr(line, word);
    at = at && at < end ? strchr(at, '(') : NULL;
    return at && at < end ? atoi(at + 1) : 0;
}

static int count_words(const char *from, const char *end, const char *word)
{
    int count = 0;
    for (const char *at = strstr(from, word); at && at < end; at = strstr(at + 1, word)) count++;
    return count;
}

/* One line of what is explained, and the source after it, up to the next. */
static bool read_pass(step_of *s, const char *line, const char *end)
{
    pass_of *p = &s->pass[s->passes];
    const char *next = strstr(end, "\n  pass ");
    if (!next) next = end + strlen(end);
    int reads = bytes_after(line, end, "reads "), writes = bytes_after(line, end, "writes ");
    /* bytes that make no whole streams, as those of state in eight bits, are in twice as many of half the length */
    int item = reads % 4 || writes % 4 ? 2 : 4;
    *p = (pass_of){.reads = reads / item, .writes = writes / item, .table = gd__blocks(s->ctx)};
    p->numbers = ELEMENTS * item / 4;
    p->randoms = count_words(line, end, "random numbers");
    for (int f = 0; f < FUNCTIONS; f++) p->calls[f] = count_words(end, next, functions[f].word);
    s->passes++;
    return reads % item == 0 && writes % item == 0 && p->reads <= PLAIN_STREAMS;
}

/* False where something of the chain is no pass over elements of 4 bytes. */
static bool read_passes(step_of *s)
{
    if (gd_explain(s->o, true, s->text, sizeof s->text) < 0) return false;
    s->passes = 0;
    for (const char *line = s->text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *end = strchr(line, '\n');
        if (!end) break;
        if (strncmp(line, "segment ", 8) == 0 && line[8] != '1') return false;
        if (strncmp(line, "  pass ", 7) != 0) continue;
        if (s->passes == PASSES || !read_pass(s, line, end)) return false;
    }
    return s->passes > 0;
}

static bool open_step(step_of *s, const char *chain)
{
    const int64_t size = ELEMENTS;
    gd_link *links = gd_chain(s->ctx, chain);
    s->o = links ? gd_optimizer_new(s->ctx, links) : NULL;
    s->p = gd_require_grad(gd_full(s->ctx, GD_F32, 1, &size, 0.5));
    gd_tensor *g = gd_full(s->ctx, GD_F32, 1, &size, 1e-3);
    bool good = s->o && !gd_set_grad(s->p, g) && !gd_optimizer_add(s->o, "p", s->p) &&
                !gd_optimizer_step(s->o, NULL, NULL) && read_passes(s);
    gd_release(g);
    gd_clear_error(s->ctx);
    return good;
}

static void close_step(step_of *s)
{
    gd_optimizer_free(s->o);
    gd_zero_grad(s->p);
    gd_release(s->p);
}

static void measure(step_of *s, const char *name, const char *chain, double most)
{
    if (open_step(s, chain)) {
        double ours, floor;
        bool expensive = false;
        for (int i = 0; i < s->passes; i++) expensive = expensive || is_expensive(&s->pass[i]);
        bench_compare(run_step, s, run_floor, s, &ours, &floor);
        bench_report((report){.name = name,
                              .value = 1e3 * ours,
                              .unit = "ms",
                              .against = expensive ? "its bytes and functions" : "its bytes",
                              .other = 1e3 * floor,
                              .ratio_limit = 1 / most});
    }
    close_step(s);
}

void bench_links(void)
{
    int threads = bench_threads(), count;
    const gd_link_class *const *all = gd_link_classes(&count);
    step_of s = {.ctx = bench_context(threads), .pool = plain_start(threads)};
    /* tensors, so that both sides have the same kind of pages */
    gd_tensor *memory[PLAIN_STREAMS];
    for (int i = 0; i < PLAIN_STREAMS; i++) {
        memory[i] = gd_full(s.ctx, GD_F32, 1, (int64_t[]){ELEMENTS}, 1);
        bench_check(s.ctx);
        s.stream[i] = gd_data_mut(memory[i]);
    }
    for (int i = 0; i < count; i++)
        if (all[i]->rule) measure(&s, all[i]->name, all[i]->example ? all[i]->example : all[i]->name, MOST);
    measure(&s, "adam, state in bf16", "adam(state=\"bf16\") | lr(0.001)", MOST_HALF);
    measure(&s, "adam, state in 8 bits", "adam(state=\"8bit\") | lr(0.001)", MOST_CODED);
    for (int i = 0; i < PLAIN_STREAMS; i++) gd_release(memory[i]);
    plain_stop(s.pool);
    gd_ctx_free(s.ctx);
}
