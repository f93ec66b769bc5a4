/* A pool of workers.  Tasks are numbered; each thread has a share of neighbouring ones, the same in every job of that
 * size, so that it finds in its cache what it left there, and helps with the other shares when its own is done.
 * Which thread runs a task never changes a result: tasks are fixed pieces of the data.
 *
 * Jobs of a few microseconds follow each other closely, on cores that may share no cache, so a thread finds all it needs in its own
 * cache line, its post, and no lock is taken:
 *
 *     post   | number of the job, tasks left | end | fn | arg | tasks finished, ever | asleep |
 *
 * The owner writes the post of each thread, the first word last, works too, and waits until all tasks are finished. A thread takes a task,
 * of its own or another post, by decrementing the first word if it still has the number of the job: then the job is not over, and the data that the
 * thread has read are valid. The lock is for sleeping threads.
 *
 * fork() copies the pool but not its threads.  The child notices by a page that the kernel hands to it empty
 * (MADV_WIPEONFORK; if there is none, by its process id), drops the copy and starts its own workers. */
#define _GNU_SOURCE /* MADV_WIPEONFORK */
#include "base/system.h"
#include "base/ctx.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NS 100000 /* a worker spins this long for the next job before it sleeps */
#define SPINS   64     /* checks between two reads of the clock */

typedef void (*task_fn)(void *, int64_t);

typedef struct post {
    _Atomic uint64_t
        left; /* number of the job << 32 | tasks that no thread has taken yet, the last of which ends at */
    _Atomic int64_t end;
    _Atomic task_fn fn;
    _Atomic(void *) arg;
    _Atomic int64_t finished;
    _Atomic bool asleep;
    char apart[64 - 4 * 8 - sizeof(task_fn)]; /* a cache line */
    pthread_cond_t wake;
    char further[128 - 64 - sizeof(pthread_cond_t)];
} post;

struct gd_thread_pool {
    post *post; /* [count + 1], the owner's first */
    int count;
    uint32_t job;
    int64_t given;             /* tasks that workers have run, ever */
    bool inside;               /* the owner is in gd__parallel */
    volatile const char *ours; /* a byte that is 1 here and 0 in a child; NULL: the process id tells */
    pid_t process;
    pthread_mutex_t lock;
    pthread_t *thread;
    bool quit;
    _Atomic int places; /* posts given to threads */
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

static bool take_task(post *at, uint32_t job, int64_t *task)
{
    uint64_t left = atomic_load(&at->left);
    while (left >> 32 == job && (uint32_t)left) {
        *task = atomic_load_explicit(&at->end, memory_order_relaxed) - (uint32_t)left;
        if (atomic_compare_exchange_weak(&at->left, &left, left - 1)) return true;
    }
    return false;
}

/* Takes tasks of its own post, then tasks left by others. The job that it has read is valid if it gets a task. */
static int64_t take_tasks(gd_thread_pool *pool, int place, uint32_t job)
{
    post *own = &pool->post[place];
    task_fn fn = atomic_load_explicit(&own->fn, memory_order_relaxed);
    void *arg = atomic_load_explicit(&own->arg, memory_order_relaxed);
    int64_t all = 0;
    for (int k = 0, at = place; k <= pool->count; k++, at = at < pool->count ? at + 1 : 0) {
        int64_t task, ran = 0;
        for (; take_task(&pool->post[at], job, &task); ran++) fn(arg, task);
        if (ran) atomic_fetch_add(&own->finished, ran);
        all += ran;
    }
    return all;
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

static uint32_t job_at(post *own) { return (uint32_t)(atomic_load(&own->left) >> 32); }

/* Is there a job other than that one? */
static bool look_out(post *own, uint32_t seen)
{
    int64_t end = clock_ns() + SPIN_NS;
    do
        for (int spin = 0; spin < SPINS; spin++) {
            if (job_at(own) != seen) return true;
            pause_cpu();
        }
    while (clock_ns() < end);
    return false;
}

/* Waits for a new job; false: there will be none.  The owner writes the job and then checks which workers sleep, a worker announces that it
 * sleeps and then checks for a job: one of them sees the other. */
static bool sleep_for_job(gd_thread_pool *pool, post *own, uint32_t seen)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store(&own->asleep, true);
    while (job_at(own) == seen && !pool->quit) pthread_cond_wait(&own->wake, &pool->lock);
    atomic_store(&own->asleep, false);
    bool quit = pool->quit;
    pthread_mutex_unlock(&pool->lock);
    return !quit;
}

static void *worker(void *arg)
{
    gd_thread_pool *pool = arg;
    int place = 1 + atomic_fetch_add(&pool->places, 1);
    post *own = &pool->post[place];
    uint32_t seen = 0;
    while (look_out(own, seen) || sleep_for_job(pool, own, seen)) {
        seen = job_at(own);
        take_tasks(pool, place, seen);
    }
    return NULL;
}

static void free_pool(gd_ctx *ctx, gd_thread_pool *pool)
{
    unmark_process(pool);
    gd__free(ctx, pool->thread, (size_t)(ctx->threads - 1) * sizeof *pool->thread);
    gd__free(ctx, pool->post, (size_t)ctx->threads * sizeof *pool->post);
    gd__free(ctx, pool, sizeof *pool);
}

static gd_status start_threads(gd_ctx *ctx)
{
    gd_thread_pool *pool = gd__calloc(ctx, sizeof *pool);
    if (!pool) return GD_NOMEM;
    int wanted = ctx->threads - 1;
    pool->thread = gd__alloc_array(ctx, (size_t)wanted, sizeof *pool->thread);
    pool->post = gd__calloc(ctx, (size_t)ctx->threads * sizeof *pool->post);
    if (!pool->thread || !pool->post) {
        free_pool(ctx, pool);
        return GD_NOMEM;
    }
    pthread_mutex_init(&pool->lock, NULL);
    for (int i = 0; i < ctx->threads; i++) pthread_cond_init(&pool->post[i].wake, NULL);
    mark_process(pool);
    ctx->workers = pool;
    /* fewer threads than asked for is fine: the result does not depend on their number */
    while (pool->count < wanted && gd__thread_start(&pool->thread[pool->count], worker, pool)) pool->count++;
    return GD_OK;
}

void gd__threads_stop(gd_ctx *ctx)
{
    gd_thread_pool *pool = ctx->workers;
    if (!pool) return;
    ctx->workers = NULL;
    if (is_orphan(pool)) { /* no thread to join; lock and condition are as the parent's threads left them */
        free_pool(ctx, pool);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->quit = true;
    for (int i = 0; i < ctx->threads; i++) pthread_cond_signal(&pool->post[i].wake);
    pthread_mutex_unlock(&pool->lock);
    for (int i = 0; i < pool->count; i++) pthread_join(pool->thread[i], NULL);
    for (int i = 0; i < ctx->threads; i++) pthread_cond_destroy(&pool->post[i].wake);
    pthread_mutex_destroy(&pool->lock);
    free_pool(ctx, pool);
}

static int64_t finished_by_workers(const gd_thread_pool *pool)
{
    int64_t sum = 0;
    for (int k = 1; k <= pool->count; k++) sum += atomic_load(&pool->post[k].finished);
    return sum;
}

static void wait_for_workers(const gd_thread_pool *pool)
{
    for (int spin = 0; finished_by_workers(pool) != pool->given; spin++) {
        if (spin < 2000)
            pause_cpu();
        else
            sched_yield(); /* a worker without a core cannot finish */
    }
}

/* The tasks up to `end`, of which `count` are this thread's. */
static void write_post(gd_thread_pool *pool, int place, int64_t end, int64_t count, task_fn fn, void *arg)
{
    post *at = &pool->post[place];
    atomic_store_explicit(&at->end, end, memory_order_relaxed);
    atomic_store_explicit(&at->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&at->arg, arg, memory_order_relaxed);
    atomic_store(&at->left, (uint64_t)pool->job << 32 | (uint32_t)count);
}

static void wake_worker(gd_thread_pool *pool, int place)
{
    pthread_mutex_lock(&pool->lock);
    pthread_cond_signal(&pool->post[place].wake);
    pthread_mutex_unlock(&pool->lock);
}

/* The pool, with its threads started if needed and worth it; NULL: the caller works alone. */
static gd_thread_pool *pool_of(gd_ctx *ctx, bool light)
{
    if (ctx->workers && !ctx->workers->inside && is_orphan(ctx->workers)) gd__threads_stop(ctx);
    if (ctx->threads > 1 && !ctx->workers && !light) {
        gd_status before = ctx->status;
        if (start_threads(ctx) && !before) gd_clear_error(ctx); /* no memory for threads: run alone */
    }
    gd_thread_pool *pool = ctx->workers;
    if (!pool || pool->inside || !pool->count) return NULL;
    return light && atomic_load_explicit(&pool->post[1].asleep, memory_order_relaxed) ? NULL : pool;
}

static void run_job(gd_ctx *ctx, int64_t count, task_fn fn, void *arg, bool light)
{
    gd_thread_pool *pool = count > 1 && count <= UINT32_MAX ? pool_of(ctx, light) : NULL;
    if (!pool) {
        for (int64_t i = 0; i < count; i++) fn(arg, i);
        return;
    }
    pool->inside = true;
    pool->job++;
    int64_t threads = count <= pool->count ? count : pool->count + 1;
    for (int k = (int)threads; k-- > 0;) {
        int64_t first = count * k / threads, end = count * (k + 1) / threads;
        write_post(pool, k, end, end - first, fn, arg);
    }
    for (int k = 1; k < threads && !light; k++)
        if (atomic_load(&pool->post[k].asleep)) wake_worker(pool, k);
    pool->given += count - take_tasks(pool, 0, pool->job);
    wait_for_workers(pool);
    pool->inside = false;
}

void gd__parallel(gd_ctx *ctx, int64_t count, void (*fn)(void *, int64_t), void *arg)
{
    run_job(ctx, count, fn, arg, false);
}

void gd__parallel_light(gd_ctx *ctx, int64_t count, void (*fn)(void *, int64_t), void *arg)
{
    run_job(ctx, count, fn, arg, true);
}
