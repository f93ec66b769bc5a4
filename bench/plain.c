/* What the element-wise operators are measured against: one loop a function, compiled with -O3
 * -march=native and -ffast-math (so that the compiler may use the vector exp of libmvec), the array cut
 * into one part a thread. */
#include "bench.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* In the program that is shipped (GD_BENCH_PORTABLE), the loops exist once for each instruction set instead. */
#if defined(GD_BENCH_PORTABLE) && defined(__x86_64__) && !defined(__clang__)
#define FOR_EACH_ISA __attribute__((target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define FOR_EACH_ISA
#endif

FOR_EACH_ISA
static void run_part(plain_op op, float *restrict o, const float *restrict a, const float *restrict b, long n)
{
    switch (op) {
    case PLAIN_ADD:
        for (long i = 0; i < n; i++) o[i] = a[i] + b[i];
        break;
    case PLAIN_MUL:
        for (long i = 0; i < n; i++) o[i] = a[i] * b[i];
        break;
    default:
        for (long i = 0; i < n; i++) o[i] = expf(a[i]);
        break;
    }
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

struct plain_pool {
    int threads;
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_int job, running, quit;
    void (*part)(plain_pool *pool, int place);
    plain_op op;
    float *o;
    const float *a, *b;
    long n;
    const plain_step *step;
    long steps;
    unsigned *const *stream;
    int reads, writes;
    plain_more_fn more;
    void *more_arg;
    atomic_uint sink; /* so that a pass that only reads is not left out */
};

typedef struct worker {
    plain_pool *pool;
    int place;
} worker;

static void part_of(plain_pool *p, int place)
{
    long start = p->n * place / p->threads, end = p->n * (place + 1) / p->threads;
    run_part(p->op, p->o + start, p->a + start, p->b + start, end - start);
}

static void *work(void *arg)
{
    worker w = *(worker *)arg;
    free(arg);
    int seen = 0;
    for (;;) {
        for (int spin = 0; spin < 2000 && atomic_load(&w.pool->job) == seen; spin++) pause_cpu();
        pthread_mutex_lock(&w.pool->lock);
        while (atomic_load(&w.pool->job) == seen && !atomic_load(&w.pool->quit))
            pthread_cond_wait(&w.pool->wake, &w.pool->lock);
        pthread_mutex_unlock(&w.pool->lock);
        if (atomic_load(&w.pool->quit)) return NULL;
        seen = atomic_load(&w.pool->job);
        w.pool->part(w.pool, w.place);
        atomic_fetch_sub(&w.pool->running, 1);
    }
}

plain_pool *plain_start(int threads)
{
    plain_pool *p = calloc(1, sizeof *p);
    if (!p || !(p->thread = calloc((size_t)threads, sizeof *p->thread))) abort();
    p->threads = threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    for (int i = 1; i < threads; i++) {
        worker *w = malloc(sizeof *w);
        if (!w) abort();
        *w = (worker){p, i};
        if (pthread_create(&p->thread[i], NULL, work, w)) abort();
    }
    return p;
}

static void run_parts(plain_pool *p, void (*part)(plain_pool *, int))
{
    p->part = part;
    atomic_store(&p->running, p->threads - 1);
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->job, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    part(p, 0);
    while (atomic_load(&p->running)) pause_cpu();
}

void plain_run(plain_pool *p, plain_op op, float *o, const float *a, const float *b, long n)
{
    p->op = op;
    p->o = o;
    p->a = a;
    p->b = b;
    p->n = n;
    run_parts(p, part_of);
}

/* ---- the bytes of an optimizer step ---- */

FOR_EACH_ISA
static void read_piece(plain_pool *p, const plain_step *s, long start, long end)
{
    unsigned sum = 0;
    for (long i = start; i < end; i++) sum += s->g[i];
    atomic_fetch_xor(&p->sink, sum);
}

/* The values stay what they are but for their last bit. */
FOR_EACH_ISA
static void write_piece(plain_pool *pool, const plain_step *s, long start, long end)
{
    (void)pool;
    const unsigned *restrict g = s->g;
    unsigned *restrict m = s->m, *restrict v = s->v, *restrict p = s->p;
    for (long i = start; i < end; i++) {
        unsigned bit = g[i] & 1;
        m[i] ^= bit;
        v[i] ^= bit;
        p[i] ^= bit;
    }
}

FOR_EACH_ISA
static void fill_piece(plain_pool *p, const plain_step *s, long start, long end)
{
    unsigned value = atomic_load(&p->sink);
    for (long i = start; i < end; i++) s->p[i] = value;
}

FOR_EACH_ISA
static void flip_piece(plain_pool *p, const plain_step *s, long start, long end)
{
    (void)p;
    for (long i = start; i < end; i++) s->p[i] ^= 1;
}

/* This thread's share of all elements, tensor by tensor. */
static void share_of(plain_pool *p, int place, void (*piece)(plain_pool *, const plain_step *, long, long))
{
    long start = p->n * place / p->threads, end = p->n * (place + 1) / p->threads, at = 0;
    for (long i = 0; i < p->steps && at < end; at += p->step[i++].n) {
        long from = start > at ? start - at : 0, to = end - at < p->step[i].n ? end - at : p->step[i].n;
        if (from < to) piece(p, &p->step[i], from, to);
    }
}

static void read_part(plain_pool *p, int place) { share_of(p, place, read_piece); }
static void write_part(plain_pool *p, int place) { share_of(p, place, write_piece); }

static void fill_part(plain_pool *p, int place) { share_of(p, place, fill_piece); }
static void flip_part(plain_pool *p, int place) { share_of(p, place, flip_piece); }

static void set_list(plain_pool *p, const plain_step *list, long count)
{
    p->step = list;
    p->steps = count;
    p->n = 0;
    for (long i = 0; i < count; i++) p->n += list[i].n;
}

void plain_adam(plain_pool *p, const plain_step *list, long count, bool norm)
{
    set_list(p, list, count);
    if (norm) run_parts(p, read_part);
    run_parts(p, write_part);
}

void plain_read_write(plain_pool *p, unsigned *data, long n)
{
    plain_step all = {.g = data, .p = data, .n = n};
    set_list(p, &all, 1);
    run_parts(p, read_part);
    run_parts(p, fill_part);
}

void plain_touch(plain_pool *p, unsigned *data, long n)
{
    plain_step all = {.g = data, .p = data, .n = n};
    set_list(p, &all, 1);
    run_parts(p, flip_part);
}

/* With numbers that the compiler knows, so that all streams run side by side. */
static inline __attribute__((always_inline)) void move_streams(unsigned *const *stream, long start, long end,
                                                               int reads, int writes, unsigned *sink)
{
    unsigned *s[PLAIN_STREAMS], sum = 0;
    for (int r = 0; r < reads; r++) s[r] = stream[r];
#ifndef __clang__
#pragma GCC ivdep
#endif
    for (long i = start; i < end; i++) {
        unsigned bit = 0;
        for (int r = 0; r < reads; r++) bit ^= s[r][i];
        for (int w = reads - writes; w < reads; w++) s[w][i] ^= bit & 1;
        sum += bit;
    }
    *sink = sum;
}

#define MOVE(r, w) \
    case 16 * (r) + (w): move_streams(p->stream, start, end, r, w, &sum); break;

FOR_EACH_ISA
static void move_piece(plain_pool *p, long start, long end)
{
    unsigned sum = 0;
    switch (16 * p->reads + p->writes) {
        MOVE(1, 0)
        MOVE(1, 1)
        MOVE(2, 0)
        MOVE(2, 1)
        MOVE(2, 2)
        MOVE(3, 0)
        MOVE(3, 3)
        MOVE(4, 0)
        MOVE(4, 1)
        MOVE(5, 2)
        MOVE(3, 1)
        MOVE(3, 2)
        MOVE(4, 2)
        MOVE(4, 3)
        MOVE(5, 3)
        MOVE(5, 4)
        MOVE(6, 4)
        MOVE(6, 5)
    default: move_streams(p->stream, start, end, p->reads, p->writes, &sum); break;
    }
    atomic_fetch_xor(&p->sink, sum);
}

static void move_part(plain_pool *p, int place)
{
    long start = p->n * place / p->threads, end = p->n * (place + 1) / p->threads;
    move_piece(p, start, end);
}

static void move_and_part(plain_pool *p, int place)
{
    long start = p->n * place / p->threads & ~1L, end = p->n * (place + 1) / p->threads & ~1L;
    for (; start < end; start += PLAIN_PIECE) {
        long n = end - start < PLAIN_PIECE ? end - start : PLAIN_PIECE;
        move_piece(p, start, start + n);
        p->more(p->more_arg, start, n);
    }
}

static void set_streams(plain_pool *p, unsigned *const *stream, int reads, int writes, long n)
{
    p->stream = stream;
    p->reads = reads;
    p->writes = writes < reads ? writes : reads;
    p->n = n;
}

void plain_move(plain_pool *p, unsigned *const *stream, int reads, int writes, long n)
{
    set_streams(p, stream, reads, writes, n);
    run_parts(p, move_part);
}

void plain_move_and(plain_pool *p, unsigned *const *stream, int reads, int writes, long n, plain_more_fn more,
                    void *arg)
{
    set_streams(p, stream, reads, writes, n);
    p->more = more;
    p->more_arg = arg;
    run_parts(p, move_and_part);
}

void plain_stop(plain_pool *p)
{
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->quit, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i < p->threads; i++) pthread_join(p->thread[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->wake);
    free(p->thread);
    free(p);
}
