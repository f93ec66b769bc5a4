/* The floor: loops that only move the bytes that an ideal step must, or compute what a hand would write. */
#include "bench.h"
#include "peer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- optimizer steps ---- */

#define ALONE 30000 /* elements for which a second thread is not worth its waking */

typedef struct moves {
    plain_pool *pool;
    plain_step *step;
    unsigned *memory;
    int count;
    bool norm, lion;
} moves;

/* Two numbers of bf16 to a word. */
static long words_for(long size) { return strcmp(peer_word("dtype", "f32"), "bf16") ? size : (size + 1) / 2; }

/* In large pages, where the system has them: with small ones the same loop takes a fifth more or less from run to run. */
static unsigned *memory_of(size_t bytes)
{
    const size_t page = (size_t)1 << 21;
    void *block = NULL;
    if (posix_memalign(&block, page, bytes)) exit(1);
#ifdef MADV_HUGEPAGE
    if (bytes >= page) (void)madvise(block, bytes & ~(page - 1), MADV_HUGEPAGE);
#endif
    return memset(block, 1, bytes);
}

static void *open_step(void)
{
    long sizes[PEER_TENSORS], all = 0;
    moves *m = calloc(1, sizeof *m);
    m->count = peer_sizes(sizes);
    m->norm = !strcmp(peer_word("rule", ""), "adamw");
    m->lion = !strcmp(peer_word("rule", ""), "lion");
    for (int i = 0; i < m->count; i++) all += words_for(sizes[i]);
    size_t bytes = 4 * sizeof(unsigned) * (size_t)all;
    m->memory = memory_of(bytes);
    m->step = calloc((size_t)m->count, sizeof *m->step);
    if (!m->step) exit(1);
    unsigned *at = m->memory;
    for (int i = 0; i < m->count; i++) {
        long n = words_for(sizes[i]);
        m->step[i] = (plain_step){.g = at, .m = at + n, .v = at + 2 * n, .p = at + 3 * n, .n = n};
        at += 4 * n;
    }
    m->pool = plain_start(all < ALONE ? 1 : peer_threads());
    return m;
}

static void run_step(void *job)
{
    moves *m = job;
    if (!m->lion) {
        plain_adam(m->pool, m->step, m->count, m->norm);
        return;
    }
    for (int i = 0; i < m->count; i++) {
        unsigned *stream[] = {(unsigned *)(uintptr_t)m->step[i].g, m->step[i].m, m->step[i].p};
        plain_move(m->pool, stream, 3, 2, m->step[i].n);
    }
}

static void close_step(void *job)
{
    moves *m = job;
    plain_stop(m->pool);
    free(m->memory);
    free(m->step);
    free(m);
}

/* ---- value and gradient of the chained Rosenbrock function, by hand ---- */

typedef struct chained {
    long n;
    double *x, *g, f;
} chained;

static void *open_gradient(void)
{
    chained *c = calloc(1, sizeof *c);
    c->n = (long)peer_number("size", 2);
    c->x = malloc((size_t)c->n * sizeof *c->x);
    c->g = malloc((size_t)c->n * sizeof *c->g);
    if (!c->x || !c->g) exit(1);
    for (long i = 0; i < c->n; i++) c->x[i] = i % 2 ? 1 : -1.2;
    return c;
}

static void run_gradient(void *job)
{
    chained *c = job;
    const double *restrict x = c->x;
    double *restrict g = c->g, f = 0, before = 0;
    for (long i = 0; i + 1 < c->n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] = before - 400 * a * x[i] - 2 * b;
        before = 200 * a;
    }
    g[c->n - 1] = before;
    c->f = f;
}

static void check_gradient(void *job, peer_result *out) { out->check = ((chained *)job)->f; }

static void close_gradient(void *job)
{
    chained *c = job;
    free(c->x);
    free(c->g);
    free(c);
}

int main(void)
{
    static const peer_kind kinds[] = {
        {"step", open_step, run_step, NULL, close_step},
        {"gradient", open_gradient, run_gradient, check_gradient, close_gradient},
        {0},
    };
    return peer_main("", kinds);
}
