/* Configure-time check of the BLAS that was found: prints openblas_get_parallel() (0 sequential, 1 pthreads, 2 OpenMP),
 * for the static one also the bytes of a buffer that it maps, and fails unless a product and a few factorisations come out right.  Also proves that everything links. */
#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

int openblas_get_parallel(void);
int openblas_get_num_threads(void);

#ifdef GD_CHECK_STATIC
void *blas_memory_alloc(int kind);
void blas_memory_free(void *buffer);

static long address_space(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

/* By how much the process grows with a second buffer. */
static long buffer_size(void)
{
    void *first = blas_memory_alloc(0);
    long before = address_space();
    void *second = blas_memory_alloc(0);
    long after = address_space();
    blas_memory_free(first);
    blas_memory_free(second);
    return after - before;
}
#endif

int main(void)
{
    double a[4] = {4, 2, 2, 3}, b[4] = {1, 0, 0, 1}, c[4] = {0}, w[2], u[4], v[4], tau[2];

    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
    if (fabs(c[1] - 2) > 1e-12) return 1;
    if (LAPACKE_dpotrf(LAPACK_ROW_MAJOR, 'L', 2, c, 2) || fabs(c[0] - 2) > 1e-12) return 2;
    if (LAPACKE_dgesdd(LAPACK_ROW_MAJOR, 'S', 2, 2, a, 2, w, u, 2, v, 2)) return 3;
    if (LAPACKE_dsyevd(LAPACK_ROW_MAJOR, 'V', 'L', 2, b, 2, w)) return 4;
    if (LAPACKE_dgeqrf(LAPACK_ROW_MAJOR, 2, 2, u, 2, tau) ||
        LAPACKE_dorgqr(LAPACK_ROW_MAJOR, 2, 2, 2, u, 2, tau)) {
        return 5;
    }
#ifdef GD_CHECK_STATIC
    long size = buffer_size();
    if (openblas_get_num_threads() != 1) return 6; /* the glue did not take */
    if (size < 1 << 20) return 7;
    printf("%ld;", size);
#endif
    printf("%d", openblas_get_parallel());
    return 0;
}
