/* One tile of a matrix product, for REAL.  Included by matmul.c once per type, with REAL and LOCAL(name), and for the
 * floating types GEMM, GEMV (CBLAS) and DENSE_GEMM (the plain kernel). */

/* Results of few columns stay in registers; the order of the sums is the same. */
static inline __attribute__((always_inline)) void LOCAL(narrow)(const tile *t, const int n)
{
    const REAL *a = t->a, *b = t->b;
    REAL *c = t->c;
    for (int64_t i = 0; i < t->m; i++, c += t->ldc) {
        REAL sum[4] = {0};
        for (int64_t l = 0; l < t->k; l++) {
            const REAL scale = a[i * t->a_row + l * t->a_col], *other = b + l * t->b_row;
            for (int j = 0; j < n; j++) sum[j] += scale * other[j * t->b_col];
        }
        for (int j = 0; j < n; j++) c[j] = sum[j];
    }
}

/* Plain loops: cheaper than any call if the tile is tiny, and the only implementation for integers. */
static void LOCAL(direct)(const tile *t)
{
    const REAL *a = t->a, *b = t->b;
    REAL *c = t->c;
    switch (t->n) {
    case 2: LOCAL(narrow)(t, 2); return;
    case 3: LOCAL(narrow)(t, 3); return;
    case 4: LOCAL(narrow)(t, 4); return;
    default: break;
    }
    for (int64_t i = 0; i < t->m; i++) {
        REAL *row = c + i * t->ldc;
        for (int64_t j = 0; j < t->n; j++) row[j] = 0;
        for (int64_t l = 0; l < t->k; l++) {
            REAL scale = a[i * t->a_row + l * t->a_col];
            const REAL *other = b + l * t->b_row;
            for (int64_t j = 0; j < t->n; j++) row[j] += scale * other[j * t->b_col];
        }
    }
}

#ifdef DENSE_GEMM
#ifdef GD_HAVE_BLAS
/* False when the strides or sizes are beyond BLAS. */
static bool LOCAL(blas)(const tile *t)
{
    layout a, b;
    if (!blas_layout(t->m, t->k, t->a_row, t->a_col, &a) || !blas_layout(t->k, t->n, t->b_row, t->b_col, &b))
        return false;
    const int m = (int)t->m, n = (int)t->n, k = (int)t->k, ldc = (int)t->ldc;
    const CBLAS_TRANSPOSE yes = CblasTrans, no = CblasNoTrans;
    if (n == 1) /* c = A b */
        GEMV(CblasRowMajor, a.transposed ? yes : no, a.transposed ? k : m, a.transposed ? m : k, 1, t->a,
             a.ld, t->b, b.ld, 0, t->c, ldc);
    else if (m == 1) /* c = B^T a */
        GEMV(CblasRowMajor, b.transposed ? no : yes, b.transposed ? n : k, b.transposed ? k : n, 1, t->b,
             b.ld, t->a, a.transposed ? a.ld : 1, 0, t->c, 1);
    else {
        clear_rows(t->c, m, (size_t)n * sizeof(REAL), (size_t)ldc * sizeof(REAL));
        GEMM(CblasRowMajor, a.transposed ? yes : no, b.transposed ? yes : no, m, n, k, 1, t->a, a.ld, t->b,
             b.ld, 1, t->c, ldc);
    }
    return true;
}
#endif

static void LOCAL(multiply)(const tile *t)
{
    if (is_tiny(t)) {
        LOCAL(direct)(t);
        return;
    }
#ifdef GD_HAVE_BLAS
    if (LOCAL(blas)(t)) return;
#endif
    (void)DENSE_GEMM(t->m, t->n, t->k, 1, t->a, t->a_row, t->a_col, t->b, t->b_row, t->b_col, 0, t->c,
                     t->ldc);
}
#else
static void LOCAL(multiply)(const tile *t) { LOCAL(direct)(t); }
#endif

/* Adds the partial products of a split along k, first to last. */
static void LOCAL(add_slabs)(void *out, const void *slabs, int64_t count, int64_t size)
{
    REAL *c = out;
    const REAL *slab = slabs;
    for (int64_t i = 0; i < size; i++) c[i] = slab[i];
    for (int64_t p = 1; p < count; p++)
        for (int64_t i = 0; i < size; i++) c[i] += slab[p * size + i];
}
