/* A row a link: a step of it over twenty million numbers against loops that only move the bytes of its passes, as gd_explain
 * counts them.  Links that evaluate, factorise or decide have no such floor and no row. */
#include "bench.h"
#include "gradus/chain.h"
#include "gradus/optim.h"

#include <stdlib.h>
#include <string.h>

#define ELEMENTS 20000000
#define MOST     1.25 /* times the floor; see expensive() */

typedef struct step_of {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
    plain_pool *pool;
    unsigned *stream[PLAIN_STREAMS];
    int passes, reads[8], writes[8]; /* streams of 4 bytes */
    char text[4096];
} step_of;

static void run_step(void *arg)
{
    step_of *s = arg;
    if (gd_optimizer_step(s->o, NULL, NULL)) bench_check(s->ctx);
}

static void run_floor(void *arg)
{
    step_of *s = arg;
    for (int i = 0; i < s->passes; i++) plain_move(s->pool, s->stream, s->reads[i], s->writes[i], ELEMENTS);
}

/* The number in the parentheses after a word: "reads gradient, parameter (8), writes parameter (4)". */
static int bytes_after(const char *line, const char *end, const char *word)
{
    const char *at = strstr(line, word);
    at = at && at < end ? strchr(at, '(') : NULL;
    return at && at < end ? atoi(at + 1) : 0;
}

/* Passes and their streams; false where something of the chain is no pass over elements of 4 bytes. */
static bool read_passes(step_of *s)
{
    if (gd_explain(s->o, false, s->text, sizeof s->text) < 0) return false;
    s->passes = 0;
    for (const char *line = s->text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *end = strchr(line, '\n');
        if (!end) break;
        if (strncmp(line, "segment ", 8) == 0 && line[8] != '1') return false;
        if (strncmp(line, "  pass ", 7) != 0) continue;
        int reads = bytes_after(line, end, "reads "), writes = bytes_after(line, end, "writes ");
        if (s->passes == 8 || reads % 4 || writes % 4 || reads / 4 > PLAIN_STREAMS) return false;
        s->reads[s->passes] = reads / 4;
        s->writes[s->passes++] = writes / 4;
    }
    return s->passes > 0;
}

/* Links whose arithmetic is more than + - * / sqrt min max and comparisons: the bytes are no measure of them. */
static bool expensive(const gd_link_class *cls)
{
    static const char *const words[] = {"exp(", "log(", "tanh(", "^", "pow", "random", "~"};
    for (size_t i = 0; cls->formula && i < sizeof words / sizeof *words; i++)
        if (strstr(cls->formula, words[i])) return true;
    return !cls->formula;
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

static void measure(step_of *s, const gd_link_class *cls)
{
    char chain[300], name[80];
    (void)snprintf(chain, sizeof chain, "%s", cls->example ? cls->example : cls->name);
    if (!cls->rule) return;
    if (open_step(s, chain)) {
        double ours, floor;
        bench_compare(run_step, s, run_floor, s, &ours, &floor);
        (void)snprintf(name, sizeof name, "%s", cls->name);
        bench_report((report){.name = name,
                              .value = 1e3 * ours,
                              .unit = "ms",
                              .against = expensive(cls) ? "its bytes, not its arithmetic" : "its bytes",
                              .other = 1e3 * floor,
                              .ratio_limit = expensive(cls) ? 0 : 1 / MOST});
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
    for (int i = 0; i < count; i++) measure(&s, all[i]);
    for (int i = 0; i < PLAIN_STREAMS; i++) gd_release(memory[i]);
    plain_stop(s.pool);
    gd_ctx_free(s.ctx);
}
