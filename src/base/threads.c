/* A pool of workers.  Tasks are numbered; each thread has a share of neighbouring ones, the same in every job of that
 * size, so that it finds in its cache what it left there, and helps with the other shares when its own is done.
 * Which thread runs a task never changes a result: tasks are fixed pieces of the data.
 *
 * fork() copies the pool but not its threads.  The child notices by a page that the kernel hands to it empty
 * (MADV_WIPEONFORK; where there is none, by its process id), lets the copy go and starts workers of its own. */
#define _GNU_SOURCE /* MADV_WIPEONFORK */
#include "base/ctx.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 100000 /* a worker looks out for the next job so long before it sleeps */
#define SPINS   64     /* looks between two at the clock */

typedef struct share {
    _Atomic int64_t next;
    int64_t end;
    char apart[48]; /* a cache line each */
} share;

struct gd_thread_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t *thread;
    int count;
    bool quit;
    bool inside;               /* the owner is in gd__parallel */
    volatile const char *ours; /* a byte that is 1 here and 0 in a child; NULL: the process id tells */
    pid_t process;
    void (*fn)(void *, int64_t);
    void *arg;
    share *share;         /* [count + 1], the owner's first */
    _Atomic uint64_t job; /* number of the current job */
    _Atomic int running;  /* workers inside the current job */
    _Atomic int places;   /* shares given to threads */
};

/* ---- which process ---- */

static void mark_process(gd_thread_pool *pool)
{
    pool->process = getpid();
#ifdef MADV_WIPEONFORK
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, size, MADV_WIPEONFORK)) {
        munmap(page, size);
        return;
    }
    *page = 1;
    pool->ours = page;
#endif
}

static void unmark_process(gd_thread_pool *pool)
{
    if (pool->ours) munmap((void *)(uintptr_t)pool->ours, (size_t)sysconf(_SC_PAGESIZE));
}

/* The pool is a copy without threads. */
static inline bool is_orphan(const gd_thread_pool *pool)
{
    return pool->ours ? !*pool->ours : pool->process != getpid();
}

/* ---- tasks ---- */

static void take_tasks(gd_thread_pool *pool, int place)
{
    for (int k = 0, at = place; k <= pool->count; k++, at = at < pool->count ? at + 1 : 0) {
        share *s = &pool->share[at];
        int64_t i;
        while ((i = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed)) < s->end)
            pool->fn(pool->arg, i);
    }
}

static bool tasks_left(gd_thread_pool *pool)
{
    for (int k = 0; k <= pool->count; k++)
        if (atomic_load(&pool->share[k].next) < pool->share[k].end) return true;
    return false;
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void look_out(gd_thread_pool *pool, uint64_t seen)
{
    int64_t end = clock_ns() + SPIN_NS;
    do
        for (int spin = 0; spin < SPINS; spin++) {
            if (atomic_load_explicit(&pool->job, memory_order_acquire) != seen) return;
            pause_cpu();
        }
    while (clock_ns() < end);
}

static void *worker(void *arg)
{
    gd_thread_pool *pool = arg;
    int place = 1 + atomic_fetch_add(&pool->places, 1);
    uint64_t seen = 0;
    for (;;) {
        look_out(pool, seen);
        pthread_mutex_lock(&pool->lock);
        while (atomic_load(&pool->job) == seen && !pool->quit) pthread_cond_wait(&pool->wake, &pool->lock);
        bool quit = pool->quit;
        seen = atomic_load(&pool->job);
        /* a worker that wakes late finds no task left and does not join, so nobody waits for it */
        bool join = tasks_left(pool);
        if (join) atomic_fetch_add(&pool->running, 1);
        pthread_mutex_unlock(&pool->lock);
        if (quit) return NULL;
        if (!join) continue;
        take_tasks(pool, place);
        atomic_fetch_sub_explicit(&pool->running, 1, memory_order_release);
    }
}

static void free_pool(gd_ctx *ctx, gd_thread_pool *pool)
{
    unmark_process(pool);
    gd__free(ctx, pool->thread, (size_t)(ctx->threads - 1) * sizeof *pool->thread);
    gd__free(ctx, pool->share, (size_t)ctx->threads * sizeof *pool->share);
    gd__free(ctx, pool, sizeof *pool);
}

static gd_status start_threads(gd_ctx *ctx)
{
    gd_thread_pool *pool = gd__calloc(ctx, sizeof *pool);
    if (!pool) return GD_NOMEM;
    int wanted = ctx->threads - 1;
    pool->thread = gd__alloc_array(ctx, (size_t)wanted, sizeof *pool->thread);
    pool->share = gd__calloc(ctx, (size_t)ctx->threads * sizeof *pool->share);
    if (!pool->thread || !pool->share) {
        free_pool(ctx, pool);
        return GD_NOMEM;
    }
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    mark_process(pool);
    ctx->workers = pool;
    /* fewer threads than asked for is fine: the result does not depend on their number */
    while (pool->count < wanted && pthread_create(&pool->thread[pool->count], NULL, worker, pool) == 0)
        pool->count++;
    return GD_OK;
}

void gd__threads_stop(gd_ctx *ctx)
{
    gd_thread_pool *pool = ctx->workers;
    if (!pool) return;
    ctx->workers = NULL;
    if (is_orphan(pool)) { /* nobody to join; lock and condition are as the parent's threads left them */
        free_pool(ctx, pool);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->quit = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->count; i++) pthread_join(pool->thread[i], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free_pool(ctx, pool);
}

/* Joining happens under the lock: once it shows nobody inside and no task is left, nobody can come. */
static void wait_for_workers(gd_thread_pool *pool)
{
    bool busy = true;
    while (busy) {
        for (int spin = 0; atomic_load_explicit(&pool->running, memory_order_acquire); spin++) {
            if (spin < 2000)
                pause_cpu();
            else
                sched_yield(); /* a worker without a core cannot finish */
        }
        pthread_mutex_lock(&pool->lock);
        busy = atomic_load(&pool->running) != 0;
        pthread_mutex_unlock(&pool->lock);
    }
}

void gd__parallel(gd_ctx *ctx, int64_t count, void (*fn)(void *, int64_t), void *arg)
{
    if (count > 1 && ctx->workers && !ctx->workers->inside && is_orphan(ctx->workers)) gd__threads_stop(ctx);
    if (count > 1 && ctx->threads > 1 && !ctx->workers) {
        gd_status before = ctx->status;
        if (start_threads(ctx) && !before) gd_clear_error(ctx); /* no memory for threads: run alone */
    }
    gd_thread_pool *pool = ctx->workers;
    if (count <= 1 || !pool || !pool->count || pool->inside) {
        for (int64_t i = 0; i < count; i++) fn(arg, i);
        return;
    }
    pool->inside = true;
    pthread_mutex_lock(&pool->lock);
    pool->fn = fn;
    pool->arg = arg;
    for (int k = 0; k <= pool->count; k++) {
        pool->share[k].end = count * (k + 1) / (pool->count + 1);
        atomic_store(&pool->share[k].next, count * k / (pool->count + 1));
    }
    atomic_fetch_add(&pool->job, 1);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    take_tasks(pool, 0);
    wait_for_workers(pool);
    pool->inside = false;
}
