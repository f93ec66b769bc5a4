/* Glue for an OpenBLAS (pthread build) that is linked statically into libgradus and hidden there.
 *
 * gradus does its own threading over fixed tiles, so the private copy of OpenBLAS must never start threads, whatever
 * the environment says: these functions replace the ones in OpenBLAS that read OPENBLAS_NUM_THREADS and friends.
 * The serial build of OpenBLAS is no alternative: Debian's is built without USE_LOCKING and returns wrong products when
 * two threads call it at once.
 *
 * LAPACK's Fortran objects need two functions of libgfortran; the one that is called is here, so that the library
 * does not depend on a Fortran run time. */
#include <stddef.h>
#include <string.h>

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
