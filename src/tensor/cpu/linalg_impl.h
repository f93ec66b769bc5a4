/* Factorisations of one matrix, for REAL.  Included by factor.c once per type, with REAL, LOCAL(name), ABS, LOG,
 * LAPACK(name) (the LAPACKE function without its type letter and _work), TRSM and TRSV (CBLAS) and DENSE(name).
 *
 * LAPACK counts columns first, our matrices are stored row by row: it sees the transposed matrix.  So
 * a lower triangle is its upper one, an LQ factorisation its QR, and U and V of a singular value decomposition are swapped.
 * Only eigenvectors have to be transposed. */

/* Matrix number b of a contiguous tensor. */
static REAL *LOCAL(at)(const gd_tensor *t, int64_t b)
{
    int n = t->ndim;
    return (REAL *)(void *)t->data + b * t->size[n - 2] * t->size[n - 1];
}

static void LOCAL(copy)(REAL *to, const REAL *from, int64_t count)
{
    if (count) memcpy(to, from, (size_t)count * sizeof *to);
}

/* x * 0 is NaN for NaN and infinity, and lanes are added side by side. */
static bool LOCAL(finite)(const REAL *x, int64_t count)
{
    REAL lane[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; j++) lane[j] += x[i + j] * 0;
    for (; i < count; i++) lane[0] += x[i] * 0;
    for (int j = 1; j < 8; j++) lane[0] += lane[j];
    return lane[0] == 0;
}

/* Some columns of `orient`, row by row: `first` of their `cols`. */
static void LOCAL(orient_some)(REAL *v, int64_t rows, int64_t cols, int64_t count, REAL *partner,
                               int64_t width)
{
    REAL largest[TILE], chosen[TILE];
    int64_t left = count;
    for (int64_t j = 0; j < count; j++) largest[j] = chosen[j] = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < count; j++) {
            REAL size = ABS(v[i * cols + j]);
            largest[j] = size > largest[j] ? size : largest[j];
        }
    for (int64_t i = 0; i < rows && left; i++)
        for (int64_t j = 0; j < count; j++)
            if (chosen[j] == 0 && 2 * ABS(v[i * cols + j]) >= largest[j] && v[i * cols + j] != 0) {
                chosen[j] = v[i * cols + j] < 0 ? -(REAL)1 : (REAL)1;
                left--;
            }
    for (int64_t j = 0; j < count; j++) chosen[j] = chosen[j] < 0 ? -(REAL)1 : (REAL)1;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < count; j++) v[i * cols + j] *= chosen[j];
    for (int64_t j = 0; j < count && partner; j++)
        for (int64_t i = 0; i < width; i++) partner[j * width + i] *= chosen[j];
}

/* Fixes the sign of each column of v (rows x cols): its first component that is at least half as large as the largest
 * one becomes positive.  The rows of `partner` (cols x width), if there is one, follow. */
static void LOCAL(orient)(REAL *v, int64_t rows, int64_t cols, REAL *partner, int64_t width)
{
    for (int64_t j = 0; j < cols; j += TILE) LOCAL(orient_some)
    (v + j, rows, cols, cols - j < TILE ? cols - j : TILE, partner ? partner + j * width : NULL, width);
}

#ifdef GD_HAVE_BLAS
/* x = A^-1 x for a triangle A. */
static void LOCAL(back_substitute)(CBLAS_UPLO triangle, CBLAS_TRANSPOSE turn, CBLAS_DIAG diagonal, int64_t n,
                                   int64_t columns, const REAL *a, REAL *x)
{
    if (columns == 1)
        TRSV(CblasRowMajor, triangle, turn, diagonal, (int)n, a, (int)n, x, 1);
    else
        TRSM(CblasRowMajor, CblasLeft, triangle, turn, diagonal, (int)n, (int)columns, 1, a, (int)n, x,
             (int)columns);
}
#endif

/* ---- Cholesky ---- */

#ifdef GD_HAVE_BLAS
/* The lower triangle of `from` goes above the diagonal of `to`, or else the upper one below it; tile by tile. */
static void LOCAL(flip)(REAL *to, const REAL *from, int64_t n, bool above)
{
    int64_t down = above ? n : 1, right = above ? 1 : n;
    for (int64_t a = 0; a < n; a += TILE)
        for (int64_t b = 0; b <= a; b += TILE)
            for (int64_t i = a; i < n && i < a + TILE; i++)
                for (int64_t j = b; j <= i && j < b + TILE; j++)
                    to[j * down + i * right] = from[i * down + j * right];
}
#endif

static void LOCAL(cholesky)(const problems *p, int64_t b, char *work)
{
    (void)work;
    int64_t n = p->n, info;
    const REAL *a = LOCAL(at)(p->in[0], b);
    REAL *l = LOCAL(at)(p->out[0], b);
#ifdef GD_HAVE_BLAS
    /* its lower triangle is our upper one, and its faster case: 1.5 times as fast at 200 x 200 */
    LOCAL(flip)(l, a, n, true);
    info = LAPACK(potrf)(LAPACK_COL_MAJOR, 'L', (int)n, l, (int)n);
    LOCAL(flip)(l, l, n, false);
#else
    LOCAL(copy)(l, a, n * n);
    info = DENSE(potrf_lower)(n, l, n);
#endif
    for (int64_t i = 0; i < n; i++) {
        if (!info && !(l[i * n + i] > 0)) info = i + 1; /* NaN */
        for (int64_t j = i + 1; j < n; j++) l[i * n + j] = 0;
    }
    p->info[b] = info;
}

/* ---- LU: solve, logdet ---- */

typedef struct LOCAL(lu) {
    REAL *a;
    int *pivot;
} LOCAL(lu);

static size_t LOCAL(lu_bytes)(problems *p)
{
    return (size_t)(p->n * p->n) * sizeof(REAL) + (size_t)p->n * sizeof(int);
}

#ifdef GD_HAVE_BLAS
/* With NaN, the zero pivot depends on the processor's kernels: such a matrix is not singular, its factors are NaN. */
static int64_t LOCAL(not_singular)(LOCAL(lu) * f, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++) f->a[i] = (REAL)NAN;
    for (int64_t i = 0; i < n; i++) f->pivot[i] = (int)i + 1;
    return 0;
}
#endif

/* Factors a copy of matrix b; 0, or the number of the first zero pivot. */
static int64_t LOCAL(factor)(const problems *p, int64_t b, char *work, LOCAL(lu) * f)
{
    int64_t n = p->n;
    f->a = (REAL *)(void *)work;
    f->pivot = (int *)(void *)(f->a + n * n);
    LOCAL(copy)(f->a, LOCAL(at)(p->in[0], b), n * n);
    if (n == 0) return 0;
#ifdef GD_HAVE_BLAS
    int64_t zero = LAPACK(getrf)(LAPACK_COL_MAJOR, (int)n, (int)n, f->a, (int)n, f->pivot);
    return zero > 0 && !LOCAL(finite)(LOCAL(at)(p->in[0], b), n * n) ? LOCAL(not_singular)(f, n) : zero;
#else
    return DENSE(getrf)(n, f->a, n, f->pivot);
#endif
}

/* x = A^-1 x in place.  With LAPACK, A^T = P L U, so in our rows A = U^T L^T P^T with U^T lower, L^T unit upper. */
static void LOCAL(solve_factored)(const LOCAL(lu) * f, int64_t n, int64_t columns, REAL *x)
{
#ifdef GD_HAVE_BLAS
    LOCAL(back_substitute)(CblasLower, CblasNoTrans, CblasNonUnit, n, columns, f->a, x);
    LOCAL(back_substitute)(CblasUpper, CblasNoTrans, CblasUnit, n, columns, f->a, x);
    for (int64_t i = n; i-- > 0;) {
        int64_t other = f->pivot[i] - 1;
        for (int64_t j = 0; j < columns && other != i; j++) {
            REAL swap = x[i * columns + j];
            x[i * columns + j] = x[other * columns + j];
            x[other * columns + j] = swap;
        }
    }
#else
    (void)DENSE(getrs)(n, columns, f->a, n, f->pivot, x, columns, 0);
#endif
}

static void LOCAL(solve)(const problems *p, int64_t b, char *work)
{
    LOCAL(lu) f;
    REAL *x = LOCAL(at)(p->out[0], b);
    p->info[b] = LOCAL(factor)(p, b, work, &f);
    if (p->info[b]) return;
    LOCAL(copy)(x, LOCAL(at)(p->in[1], b), p->n * p->columns);
    if (p->columns) LOCAL(solve_factored)(&f, p->n, p->columns, x);
}

static void LOCAL(logdet)(const problems *p, int64_t b, char *work)
{
    LOCAL(lu) f;
    REAL sum = 0;
    if (LOCAL(factor)(p, b, work, &f))
        sum = -(REAL)INFINITY;
    else
        for (int64_t i = 0; i < p->n; i++) sum += LOG(ABS(f.a[i * p->n + i]));
    ((REAL *)(void *)p->out[0]->data)[b] = sum;
    p->info[b] = 0;
}

/* ---- triangular ---- */

static void LOCAL(triangular)(const problems *p, int64_t b, char *work)
{
    (void)work;
    int64_t n = p->n, columns = p->columns;
    bool lower = p->attrs->i[0], transposed = p->attrs->i[1], unit = p->attrs->i[2];
    const REAL *a = LOCAL(at)(p->in[0], b);
    REAL *x = LOCAL(at)(p->out[0], b);
    for (int64_t i = 0; i < n && !unit; i++)
        if (a[i * n + i] == 0) {
            p->info[b] = i + 1;
            return;
        }
    p->info[b] = 0;
    LOCAL(copy)(x, LOCAL(at)(p->in[1], b), n * columns);
    if (n * columns == 0) return;
#ifdef GD_HAVE_BLAS
    CBLAS_UPLO triangle = lower ? CblasLower : CblasUpper;
    CBLAS_TRANSPOSE turn = transposed ? CblasTrans : CblasNoTrans;
    LOCAL(back_substitute)(triangle, turn, unit ? CblasUnit : CblasNonUnit, n, columns, a, x);
#else
    (void)DENSE(trsm)(lower, transposed, unit, n, columns, a, n, x, columns);
#endif
}

/* ---- QR ---- */

#ifdef GD_HAVE_BLAS
/* Tall matrices are factored in blocks of rows that stay in a cache, then the blocks' triangles, one above the other, are
 * (Demmel, Grigori, Hoemmen and Langou 2012).  The number of blocks, each of more rows than columns; below 2: not
 * split. */
static int64_t LOCAL(tall_blocks)(int64_t m, int64_t n)
{
    int64_t rows = TALL_BYTES / (int64_t)sizeof(REAL) / (n ? n : 1);
    if (rows < 4 * n) rows = 4 * n;
    return n && m * n >= TALL_LEAST ? m / rows : 0;
}

static size_t LOCAL(tall_bytes)(int64_t m, int64_t n)
{
    int64_t blocks = LOCAL(tall_blocks)(m, n);
    return (size_t)(m * n + blocks * n * n + n * n + (blocks + 2 + TALL_ROOM) * n) * sizeof(REAL);
}

/* The signs of columns that one sweep of Householder reflections gives: those of Q - S = L U with S = diag(+-1), which is chosen during
 * the factorisation (Ballard, Demmel, Grigori, Jacquelin, Knight and Nguyen 2015).  w: the top of Q, overwritten. */
static void LOCAL(reflected_signs)(REAL *w, int64_t n, REAL *sign)
{
    for (int64_t j = 0; j < n; j++) {
        sign[j] = w[j * n + j] < 0 ? 1 : -1;
        w[j * n + j] -= sign[j];
        for (int64_t i = j + 1; i < n; i++) {
            REAL factor = w[i * n + j] / w[j * n + j];
            for (int64_t k = j + 1; k < n; k++) w[i * n + k] -= factor * w[j * n + k];
        }
    }
}

/* The upper triangle of an m x n matrix, columns first, to `to` with rows `step` apart columns first, or rows first. */
static void LOCAL(take_triangle)(const REAL *a, int64_t m, int64_t n, REAL *to, int64_t down, int64_t right)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < n; i++) to[i * down + j * right] = i <= j ? a[i + j * m] : 0;
}

/* q (m x n) and r (n x n), row by row. */
static void LOCAL(tall_qr)(int64_t m, int64_t n, const REAL *from, REAL *q, REAL *r, REAL *work)
{
    int64_t blocks = LOCAL(tall_blocks)(m, n), high = blocks * n;
    REAL *factors = work, *stack = factors + m * n, *tau = stack + high * n;
    REAL *sign = tau + (blocks + 1) * n, *top = sign + n, *room = top + n * n;
    const int size = (int)(TALL_ROOM * n);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t first = b * m / blocks, rows = (b + 1) * m / blocks - first;
        REAL *a = factors + first * n;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < n; j++) a[i + j * rows] = from[(first + i) * n + j];
        (void)LAPACK(geqrf)(LAPACK_COL_MAJOR, (int)rows, (int)n, a, (int)rows, tau + b * n, room, size);
        LOCAL(take_triangle)(a, rows, n, stack + b * n, 1, high);
    }
    (void)LAPACK(geqrf)(LAPACK_COL_MAJOR, (int)high, (int)n, stack, (int)high, tau + high, room, size);
    LOCAL(take_triangle)(stack, high, n, r, n, 1);
    (void)LAPACK(orgqr)(LAPACK_COL_MAJOR, (int)high, (int)n, (int)n, stack, (int)high, tau + high, room,
                        size);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t first = b * m / blocks, rows = (b + 1) * m / blocks - first;
        REAL *a = factors + first * n;
        (void)LAPACK(orgqr)(LAPACK_COL_MAJOR, (int)rows, (int)n, (int)n, a, (int)rows, tau + b * n, room,
                            size);
        if (b == 0) { /* signs are known from the first rows, and belong to the stack's columns */
            GEMM(CblasRowMajor, CblasTrans, CblasTrans, (int)n, (int)n, (int)n, 1, a, (int)rows, stack,
                 (int)high, 0, top, (int)n);
            LOCAL(reflected_signs)(top, n, sign);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < high; i++) stack[i + j * high] *= sign[j];
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++) r[i * n + j] *= sign[i];
        }
        GEMM(CblasRowMajor, CblasTrans, CblasTrans, (int)rows, (int)n, (int)n, 1, a, (int)rows, stack + b * n,
             (int)high, 0, q + first * n, (int)n);
    }
}
#endif

static size_t LOCAL(qr_bytes)(problems *p)
{
    int64_t m = p->m, n = p->n;
#ifdef GD_HAVE_BLAS
    if (LOCAL(tall_blocks)(m, n) > 1) return LOCAL(tall_bytes)(m, n);
    REAL lq = 0, q = 0, none = 0;
    (void)LAPACK(gelqf)(LAPACK_COL_MAJOR, (int)n, (int)m, &none, (int)n, &none, &lq, -1);
    (void)LAPACK(orglq)(LAPACK_COL_MAJOR, (int)p->k, (int)m, (int)p->k, &none, (int)n, &none, &q, -1);
    p->room = room_for((double)(lq > q ? lq : q));
    return (size_t)(m * n + p->k + p->room) * sizeof(REAL);
#else
    return (size_t)gd__dense_qr_work(m, n) * sizeof(REAL);
#endif
}

static void LOCAL(qr)(const problems *p, int64_t b, char *work)
{
    int64_t m = p->m, n = p->n, k = p->k;
    const REAL *from = LOCAL(at)(p->in[0], b);
    REAL *q = LOCAL(at)(p->out[0], b), *r = LOCAL(at)(p->out[1], b), *a = (REAL *)(void *)work;
    p->info[b] = 0;
#ifdef GD_HAVE_BLAS
    if (LOCAL(tall_blocks)(m, n) > 1) {
        LOCAL(tall_qr)(m, n, from, q, r, a);
        return;
    }
    REAL *tau = a + m * n, *room = tau + k;
    LOCAL(copy)(a, from, m * n);
    (void)LAPACK(gelqf)(LAPACK_COL_MAJOR, (int)n, (int)m, a, (int)n, tau, room, (int)p->room);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) r[i * n + j] = j < i ? 0 : a[i * n + j];
    (void)LAPACK(orglq)(LAPACK_COL_MAJOR, (int)k, (int)m, (int)k, a, (int)n, tau, room, (int)p->room);
    for (int64_t i = 0; i < m; i++) LOCAL(copy)(q + i * k, a + i * n, k);
#else
    (void)k;
    (void)DENSE(qr)(m, n, from, n, q, k, r, n, a);
#endif
}

/* ---- eigenvalues ---- */

#ifdef GD_HAVE_BLAS
static void LOCAL(transpose)(REAL *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) {
            REAL swap = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = swap;
        }
}
#endif

static size_t LOCAL(eigh_bytes)(problems *p)
{
#ifdef GD_HAVE_BLAS
    REAL room = 0, none = 0;
    int whole = 0, n = (int)p->n;
    (void)LAPACK(syevd)(LAPACK_COL_MAJOR, 'V', 'U', n, &none, n, &none, &room, -1, &whole, -1);
    p->room = room_for((double)room);
    p->whole = whole;
    return (size_t)p->room * sizeof(REAL) + (size_t)whole * sizeof(int);
#else
    return (size_t)gd__dense_eigh_work(p->n) * sizeof(REAL);
#endif
}

static void LOCAL(eigh)(const problems *p, int64_t b, char *work)
{
    int64_t n = p->n;
    const REAL *from = LOCAL(at)(p->in[0], b);
    REAL *w = (REAL *)(void *)p->out[0]->data + b * n, *v = LOCAL(at)(p->out[1], b),
         *room = (REAL *)(void *)work;
    p->info[b] = LOCAL(finite)(from, n * n) ? 0 : NOT_FINITE;
    if (p->info[b]) return;
#ifdef GD_HAVE_BLAS
    int *whole = (int *)(void *)(room + p->room);
    LOCAL(copy)(v, from, n * n);
    p->info[b] = LAPACK(syevd)(LAPACK_COL_MAJOR, 'V', 'U', (int)n, v, (int)n, w, room, (int)p->room, whole,
                               (int)p->whole);
    LOCAL(transpose)(v, n);
#else
    p->info[b] = DENSE(eigh)(n, from, n, w, v, n, room);
#endif
    LOCAL(orient)(v, n, n, NULL, 0);
}

/* ---- singular values ---- */

static size_t LOCAL(svd_bytes)(problems *p)
{
    int64_t m = p->m, n = p->n, k = p->k;
#ifdef GD_HAVE_BLAS
    REAL room = 0, none = 0;
    int whole = 0;
    size_t tall = LOCAL(tall_blocks)(m, n) > 1
                      ? LOCAL(tall_bytes)(m, n) + (size_t)(m * n + n * n) * sizeof(REAL)
                      : 0;
    if (tall) m = n; /* of the triangle */
    (void)LAPACK(gesdd)(LAPACK_COL_MAJOR, 'S', (int)n, (int)m, &none, (int)n, &none, &none, (int)n, &none,
                        (int)k, &room, -1, &whole);
    p->room = room_for((double)room);
    return (size_t)(m * n + p->room) * sizeof(REAL) + (size_t)(8 * k + 16) * sizeof(int) + tall;
#else
    (void)k;
    return (size_t)gd__dense_svd_work(m, n) * sizeof(REAL);
#endif
}

#ifdef GD_HAVE_BLAS
/* A = Q R, R = W diag(s) V^T: u = Q W. */
static void LOCAL(tall_svd)(const problems *p, int64_t b, const REAL *from, REAL *u, REAL *s, REAL *vt,
                            REAL *work)
{
    int64_t m = p->m, n = p->n;
    REAL *q = work, *r = q + m * n, *w = r + n * n, *room = w + n * n;
    LOCAL(tall_qr)(m, n, from, q, r, room);
    int *whole = (int *)(void *)(room + p->room + p->room % 2);
    p->info[b] = LAPACK(gesdd)(LAPACK_COL_MAJOR, 'S', (int)n, (int)n, r, (int)n, s, vt, (int)n, w, (int)n,
                               room, (int)p->room, whole);
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)m, (int)n, (int)n, 1, q, (int)n, w, (int)n, 0, u,
         (int)n);
    LOCAL(orient)(u, m, n, vt, n);
}
#endif

static void LOCAL(svd)(const problems *p, int64_t b, char *work)
{
    int64_t m = p->m, n = p->n, k = p->k;
    const REAL *from = LOCAL(at)(p->in[0], b);
    REAL *u = LOCAL(at)(p->out[0], b), *s = (REAL *)(void *)p->out[1]->data + b * k;
    REAL *vt = LOCAL(at)(p->out[2], b), *a = (REAL *)(void *)work;
    p->info[b] = LOCAL(finite)(from, m * n) ? 0 : NOT_FINITE;
    if (p->info[b]) return;
#ifdef GD_HAVE_BLAS
    if (LOCAL(tall_blocks)(m, n) > 1) {
        LOCAL(tall_svd)(p, b, from, u, s, vt, a);
        return;
    }
    REAL *room = a + m * n;
    int *whole = (int *)(void *)(room + p->room);
    LOCAL(copy)(a, from, m * n);
    p->info[b] = LAPACK(gesdd)(LAPACK_COL_MAJOR, 'S', (int)n, (int)m, a, (int)n, s, vt, (int)n, u, (int)k,
                               room, (int)p->room, whole);
#else
    p->info[b] = DENSE(svd)(m, n, from, n, u, k, s, vt, n, a);
#endif
    LOCAL(orient)(u, m, k, vt, n);
}
