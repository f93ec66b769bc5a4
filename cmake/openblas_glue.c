/* Glue for an OpenBLAS (pthread build) that is linked statically into libgradus and hidden there.
 *
 * gradus does its own threading over fixed tiles, so the private copy of OpenBLAS must never start threads, whatever
 * the environment says: these functions replace the ones in OpenBLAS that read OPENBLAS_NUM_THREADS and friends.
 * The serial build of OpenBLAS is no alternative: Debian's is built without USE_LOCKING and returns wrong products when
 * two threads call it at once.
 *
 * OpenBLAS maps a buffer for every call that runs at a time and keeps it; where there is no memory for one it tries again
 * for ever, holding nothing that could be given back and deaf to signals that only leave a note.  So buffers are mapped
 * before they are needed, after a look whether they can be: gd__openblas_promise.
 *
 * LAPACK's Fortran objects need two functions of libgfortran; the one that is called is here, so that the library
 * does not depend on a Fortran run time. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

int openblas_verbose(void);
unsigned int openblas_thread_timeout(void);
int openblas_block_factor(void);
int openblas_num_threads_env(void);
int openblas_goto_num_threads_env(void);
int openblas_omp_num_threads_env(void);
int openblas_omp_adaptive_env(void);
void openblas_read_env(void);
void _gfortran_concat_string(size_t size, char *to, size_t left_size, const char *left, size_t right_size,
                             const char *right);
void *blas_memory_alloc(int kind);
void blas_memory_free(void *buffer);
int gd__openblas_promise(int more);
void gd__openblas_release(int count);

int openblas_verbose(void) { return 0; }
unsigned int openblas_thread_timeout(void) { return 0; }
int openblas_block_factor(void) { return 0; }
int openblas_num_threads_env(void) { return 1; }
int openblas_goto_num_threads_env(void) { return 1; }
int openblas_omp_num_threads_env(void) { return 1; }
int openblas_omp_adaptive_env(void) { return 0; }
void openblas_read_env(void) {}

/* to = left // right, cut or padded with blanks to size characters. */
void _gfortran_concat_string(size_t size, char *to, size_t left_size, const char *left, size_t right_size,
                             const char *right)
{
    size_t n = left_size < size ? left_size : size;
    size_t m = right_size < size - n ? right_size : size - n;

    memcpy(to, left, n);
    memcpy(to + n, right, m);
    memset(to + n + m, ' ', size - n - m);
}

/* ---- memory ---- */

#ifdef GD_OPENBLAS_BUFFER
#define MOST   96                 /* OpenBLAS has places for 128 and looks after more itself */
#define MARGIN ((size_t)16 << 20) /* so that what other threads map meanwhile does not matter */

/* The pool is OpenBLAS's own and so one a process: these count it. */
static atomic_int promised, mapped;

static int is_room(void)
{
    size_t size = (size_t)GD_OPENBLAS_BUFFER + MARGIN;
    void *place = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return place != MAP_FAILED && munmap(place, size) == 0;
}

/* Holds `count` buffers at a time and lets them go: from then on OpenBLAS has as many. */
static int map_buffers(int count)
{
    void *held[MOST];
    int n = 0;
    while (n < count && is_room()) held[n++] = blas_memory_alloc(0);
    for (int i = 0; i < n; i++) blas_memory_free(held[i]);
    int had = atomic_load(&mapped);
    while (n == count && had < count && !atomic_compare_exchange_weak(&mapped, &had, count)) {}
    return n == count;
}

/* Memory for so many more calls at a time, until it is released; 0 when there is none. */
int gd__openblas_promise(int more)
{
    int wanted = atomic_fetch_add(&promised, more) + more;
    if (wanted > MOST) wanted = MOST;
    if (wanted <= atomic_load(&mapped) || map_buffers(wanted)) return 1;
    gd__openblas_release(more);
    return 0;
}

void gd__openblas_release(int count) { atomic_fetch_sub(&promised, count); }
#endif
