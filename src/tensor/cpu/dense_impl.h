/* The routines of dense.h for one type, except for eigenvalues and singular values, which are in
 * dense_spectral_impl.h.  dense.c includes this file once per type, having defined REAL,
 * REAL_EPSILON, REAL_MIN, PUBLIC(name) (exported names) and LOCAL(name) (names of statics).  No include
 * guard on purpose.
 *
 * "Golub & Van Loan" is Matrix Computations, 4th edition. */

/* --- vectors --- */

/* y += f x.  Lanes are independent, so this vectorises without changing a bit. */
static void LOCAL(add_scaled)(int64_t n, REAL f, const REAL *restrict x, REAL *restrict y)
{
    for (int64_t i = 0; i < n; i++) y[i] += f * x[i];
}

/* Scalar product with a fixed set of partial sums: vectorises, and is the same on every machine. */
static REAL LOCAL(dot)(int64_t n, const REAL *x, const REAL *y)
{
    REAL lane[DOT_LANES] = {0};
    int64_t i = 0;
    for (; i + DOT_LANES <= n; i += DOT_LANES)
        for (int j = 0; j < DOT_LANES; j++) lane[j] += x[i + j] * y[i + j];
    for (int j = 0; i < n; i++, j++) lane[j] += x[i] * y[i];
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

static void LOCAL(swap)(int64_t n, REAL *x, int64_t x_stride, REAL *y, int64_t y_stride)
{
    for (int64_t i = 0; i < n; i++) {
        REAL t = x[i * x_stride];
        x[i * x_stride] = y[i * y_stride];
        y[i * y_stride] = t;
    }
}

/* x' = c x - s y, y' = s x + c y, written as corrections to x and y with h = s / (1 + c) (Rutishauser
 * 1966): many small angles then lose less orthogonality than with a c that was rounded to a neighbour
 * of 1. */
static void LOCAL(rotate_gently)(int64_t n, REAL c, REAL s, REAL *restrict x, REAL *restrict y)
{
    REAL h = s / (1 + c);
    for (int64_t i = 0; i < n; i++) {
        REAL xi = x[i], yi = y[i];
        x[i] = xi - s * (yi + h * xi);
        y[i] = yi + s * (xi - h * yi);
    }
}

/* x' = c x - s y, y' = s x + c y. */
static void LOCAL(rotate)(int64_t n, REAL c, REAL s, REAL *restrict x, REAL *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        REAL xi = x[i], yi = y[i];
        x[i] = c * xi - s * yi;
        y[i] = s * xi + c * yi;
    }
}

/* Largest magnitude, or NaN when there is one. */
static REAL LOCAL(max_abs)(int64_t n, const REAL *x, int64_t stride)
{
    REAL largest = 0;
    for (int64_t i = 0; i < n; i++) {
        REAL v = fabs(x[i * stride]);
        if (isnan(v)) return v;
        if (v > largest) largest = v;
    }
    return largest;
}

/* The power of two p with 1 <= x / p < 2; 1 for zero, NaN and infinity.  Dividing by it is exact, so that
 * squares of very large or very small numbers can be summed without overflow or underflow and without
 * extra rounding. */
static REAL LOCAL(binary_scale)(REAL x)
{
    int exponent;
    if (!(x > 0) || !isfinite(x)) return 1;
    (void)frexp(x, &exponent);
    return ldexp((REAL)1, exponent - 1);
}

static REAL LOCAL(norm)(int64_t n, const REAL *x)
{
    REAL scale = LOCAL(binary_scale)(LOCAL(max_abs)(n, x, 1)), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        REAL v = x[i] / scale;
        sum += v * v;
    }
    return scale * sqrt(sum);
}

/* --- matrices --- */

static void LOCAL(fill)(int64_t m, int64_t n, REAL value, REAL *a, int64_t lda)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) a[i * lda + j] = value;
}

static void LOCAL(identity)(int64_t m, int64_t n, REAL *a, int64_t lda)
{
    LOCAL(fill)(m, n, 0, a, lda);
    for (int64_t i = 0; i < smaller(m, n); i++) a[i * lda + i] = 1;
}

static void LOCAL(transpose_in_place)(int64_t n, REAL *a, int64_t lda)
{
    for (int64_t i = 0; i < n; i++) LOCAL(swap)(i, a + i * lda, 1, a + i, lda);
}

static REAL LOCAL(matrix_max_abs)(int64_t m, int64_t n, const REAL *a, int64_t lda)
{
    REAL largest = 0;
    for (int64_t i = 0; i < m; i++) {
        REAL v = LOCAL(max_abs)(n, a + i * lda, 1);
        if (isnan(v)) return v;
        if (v > largest) largest = v;
    }
    return largest;
}

/* --- product --- */

/* Packed tiles as in Goto & van de Geijn, "Anatomy of high-performance matrix multiplication" (2008):
 *
 *     A: panels of TILE_ROWS rows       B: panels of TILE_COLS columns
 *        panel 0: column 0, column 1...    panel 0: row 0, row 1, ...
 *
 * so that the inner kernel reads both sequentially.  Edges are filled with zeros and computed like
 * the rest.
 *
 * Bits: an entry of C is, for every PACK_DEPTH terms, one sum in the order of k started from 0, scaled by
 * alpha and added to beta C or to the sum of earlier terms. Every path below has this order. */

typedef REAL LOCAL(vector) __attribute__((vector_size(VECTOR_BYTES)));

enum { LOCAL(LANES) = VECTOR_BYTES / sizeof(REAL), LOCAL(TILE_COLS) = 2 * LOCAL(LANES) };

/* Packs `count` rows (or columns, by the choice of strides) of `depth` terms into panels `width` wide. */
static void LOCAL(pack)(int64_t count, int64_t depth, int64_t width, const REAL *x, int64_t stride,
                        int64_t term_stride, REAL *restrict out)
{
    for (int64_t first = 0; first < count; first += width, out += width * depth) {
        const REAL *panel = x + first * stride;
        int64_t used = smaller(width, count - first);
        for (int64_t p = 0; p < depth; p++) {
            REAL *row = out + p * width;
            const REAL *from = panel + p * term_stride;
            for (int64_t i = 0; i < used; i++) row[i] = from[i * stride];
            for (int64_t i = used; i < width; i++) row[i] = 0;
        }
    }
}

/* tile = A B for one panel of each.  A lane is one column of C: lanes never mix, so vectors cannot change
 * the sums. */
static void LOCAL(multiply_tile)(int64_t depth, const REAL *a, const LOCAL(vector) * b, LOCAL(vector) * tile)
{
    LOCAL(vector) c00 = {0}, c01 = {0}, c10 = {0}, c11 = {0}, c20 = {0}, c21 = {0}, c30 = {0}, c31 = {0};
    for (int64_t p = 0; p < depth; p++, a += TILE_ROWS, b += 2) {
        LOCAL(vector) b0 = b[0], b1 = b[1];
        c00 += a[0] * b0;
        c01 += a[0] * b1;
        c10 += a[1] * b0;
        c11 += a[1] * b1;
        c20 += a[2] * b0;
        c21 += a[2] * b1;
        c30 += a[3] * b0;
        c31 += a[3] * b1;
    }
    tile[0] = c00, tile[1] = c01;
    tile[2] = c10, tile[3] = c11;
    tile[4] = c20, tile[5] = c21;
    tile[6] = c30, tile[7] = c31;
}

/* C = alpha sum + beta C for a row of n; beta = 0 means that C is uninitialised. */
static void LOCAL(store_row)(int64_t n, REAL alpha, const REAL *sum, REAL beta, REAL *c, int64_t stride)
{
    if (beta == 0)
        for (int64_t j = 0; j < n; j++) c[j * stride] = alpha * sum[j];
    else if (stride == 1)
        for (int64_t j = 0; j < n; j++) c[j] = beta * c[j] + alpha * sum[j];
    else
        for (int64_t j = 0; j < n; j++) c[j * stride] = beta * c[j * stride] + alpha * sum[j];
}

/* C = alpha A B + beta C for packed A (m rows) and packed B (n columns). */
static void LOCAL(multiply_packed)(int64_t m, int64_t n, int64_t depth, REAL alpha, const REAL *a,
                                   const LOCAL(vector) * b, REAL beta, REAL *c, int64_t ldc)
{
    LOCAL(vector) tile[2 * TILE_ROWS];
    REAL sum[TILE_ROWS * LOCAL(TILE_COLS)];
    for (int64_t j = 0; j < n; j += LOCAL(TILE_COLS))
        for (int64_t i = 0; i < m; i += TILE_ROWS) {
            LOCAL(multiply_tile)(depth, a + i * depth, b + j / LOCAL(LANES) * depth, tile);
            memcpy(sum, tile, sizeof sum);
            for (int64_t r = 0; r < smaller(TILE_ROWS, m - i); r++) LOCAL(store_row)
            (smaller(LOCAL(TILE_COLS), n - j), alpha, sum + r * LOCAL(TILE_COLS), beta, c + (i + r) * ldc + j,
             1);
        }
}

static void LOCAL(multiply_blocked)(int64_t m, int64_t n, int64_t k, REAL alpha, const REAL *a,
                                    int64_t a_row_stride, int64_t a_col_stride, const REAL *b,
                                    int64_t b_row_stride, int64_t b_col_stride, REAL beta, REAL *c,
                                    int64_t ldc)
{
    REAL packed_a[PACK_ROWS * PACK_DEPTH];
    LOCAL(vector) packed_b[PACK_COLS * PACK_DEPTH / LOCAL(LANES)];
    for (int64_t j = 0; j < n; j += PACK_COLS)
        for (int64_t p = 0; p < k; p += PACK_DEPTH) {
            int64_t cols = smaller(PACK_COLS, n - j), depth = smaller(PACK_DEPTH, k - p);
            LOCAL(pack)
            (cols, depth, LOCAL(TILE_COLS), b + p * b_row_stride + j * b_col_stride, b_col_stride,
             b_row_stride, (REAL *)packed_b);
            for (int64_t i = 0; i < m; i += PACK_ROWS) {
                int64_t rows = smaller(PACK_ROWS, m - i);
                LOCAL(pack)
                (rows, depth, TILE_ROWS, a + i * a_row_stride + p * a_col_stride, a_row_stride, a_col_stride,
                 packed_a);
                LOCAL(multiply_packed)
                (rows, cols, depth, alpha, packed_a, packed_b, p == 0 ? beta : 1, c + i * ldc + j, ldc);
            }
        }
}

/* One row of C: c (stride c_stride) = alpha x B + beta c, B k x n with unit column stride. */
static void LOCAL(multiply_row)(int64_t n, int64_t k, REAL alpha, const REAL *x, int64_t x_stride,
                                const REAL *b, int64_t b_row_stride, REAL beta, REAL *c, int64_t c_stride)
{
    REAL sum[PACK_COLS];
    for (int64_t j = 0; j < n; j += PACK_COLS)
        for (int64_t p = 0; p < k; p += PACK_DEPTH) {
            int64_t cols = smaller(PACK_COLS, n - j), end = smaller(p + PACK_DEPTH, k);
            LOCAL(fill)(1, cols, 0, sum, 0);
            for (int64_t q = p; q < end; q++)
                LOCAL(add_scaled)(cols, x[q * x_stride], b + q * b_row_stride + j, sum);
            LOCAL(store_row)(cols, alpha, sum, p == 0 ? beta : 1, c + j * c_stride, c_stride);
        }
}

/* One column of C: c = alpha A x + beta c, several rows in flight because each is a chain of dependent
 * additions. */
static void LOCAL(multiply_column)(int64_t m, int64_t k, REAL alpha, const REAL *a, int64_t a_row_stride,
                                   int64_t a_col_stride, const REAL *x, int64_t x_stride, REAL beta, REAL *c,
                                   int64_t ldc)
{
    for (int64_t i = 0; i < m; i += DOT_ROWS) {
        const REAL *row[DOT_ROWS];
        int64_t rows = smaller(DOT_ROWS, m - i);
        for (int64_t r = 0; r < DOT_ROWS; r++) row[r] = a + (i + smaller(r, rows - 1)) * a_row_stride;
        for (int64_t p = 0; p < k; p += PACK_DEPTH) {
            REAL sum[DOT_ROWS] = {0};
            int64_t end = smaller(p + PACK_DEPTH, k);
            for (int64_t q = p; q < end; q++) {
                REAL factor = x[q * x_stride];
                for (int r = 0; r < DOT_ROWS; r++) sum[r] += row[r][q * a_col_stride] * factor;
            }
            LOCAL(store_row)(rows, alpha, sum, p == 0 ? beta : 1, c + i * ldc, ldc);
        }
    }
}

int PUBLIC(gemm)(int64_t m, int64_t n, int64_t k, REAL alpha, const REAL *a, int64_t a_row_stride,
                 int64_t a_col_stride, const REAL *b, int64_t b_row_stride, int64_t b_col_stride, REAL beta,
                 REAL *c, int64_t ldc)
{
    if (m <= 0 || n <= 0) return 0;
    if (k <= 0 || alpha == 0) {
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) c[i * ldc + j] = beta == 0 ? 0 : beta * c[i * ldc + j];
    } else if (m <= THIN && b_col_stride == 1) {
        for (int64_t i = 0; i < m; i++) LOCAL(multiply_row)
        (n, k, alpha, a + i * a_row_stride, a_col_stride, b, b_row_stride, beta, c + i * ldc, 1);
    } else if (n <= THIN && a_row_stride == 1) {
        for (int64_t j = 0; j < n; j++) LOCAL(multiply_row)
        (m, k, alpha, b + j * b_col_stride, b_row_stride, a, a_col_stride, beta, c + j, ldc);
    } else if (n <= THIN) {
        for (int64_t j = 0; j < n; j++) LOCAL(multiply_column)
        (m, k, alpha, a, a_row_stride, a_col_stride, b + j * b_col_stride, b_row_stride, beta, c + j, ldc);
    } else {
        LOCAL(multiply_blocked)
        (m, n, k, alpha, a, a_row_stride, a_col_stride, b, b_row_stride, b_col_stride, beta, c, ldc);
    }
    return 0;
}

/* --- triangular solve --- */

/* 1-based index of the first zero on the diagonal, or 0. */
static int LOCAL(first_zero_pivot)(int64_t n, const REAL *a, int64_t lda)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i * lda + i] == 0) return (int)(i + 1);
    return 0;
}

/* Substitution in one block of n rows; t(i, j) = a[i * rows + j * cols], forward for a lower t, else
 * backward. */
static void LOCAL(substitute)(int forward, int unit, int64_t n, int64_t nrhs, const REAL *a, int64_t rows,
                              int64_t cols, REAL *b, int64_t ldb)
{
    for (int64_t step = 0; step < n; step++) {
        int64_t i = forward ? step : n - 1 - step;
        REAL *x = b + i * ldb;
        for (int64_t j = forward ? 0 : i + 1; j < (forward ? i : n); j++)
            LOCAL(add_scaled)(nrhs, -a[i * rows + j * cols], b + j * ldb, x);
        if (!unit)
            for (int64_t j = 0; j < nrhs; j++) x[j] /= a[i * rows + i * cols];
    }
}

/* Blocked substitution: the solved part is subtracted from the next block of right-hand sides by a product
 * (Golub & Van Loan, section 3.1). */
static void LOCAL(solve_triangle)(int lower, int transpose, int unit, int64_t n, int64_t nrhs, const REAL *a,
                                  int64_t lda, REAL *b, int64_t ldb)
{
    int64_t rows = transpose ? 1 : lda, cols = transpose ? lda : 1, blocks = (n + BLOCK - 1) / BLOCK;
    int forward = !lower == !!transpose;
    for (int64_t step = 0; step < blocks; step++) {
        int64_t first = BLOCK * (forward ? step : blocks - 1 - step), size = smaller(BLOCK, n - first);
        int64_t done = forward ? 0 : first + size, count = forward ? first : n - done;
        if (count > 0) PUBLIC(gemm)
        (size, nrhs, count, -1, a + first * rows + done * cols, rows, cols, b + done * ldb, ldb, 1, 1,
         b + first * ldb, ldb);
        LOCAL(substitute)(forward, unit, size, nrhs, a + first * (lda + 1), rows, cols, b + first * ldb, ldb);
    }
}

int PUBLIC(trsm)(int lower, int transpose, int unit, int64_t n, int64_t nrhs, const REAL *a, int64_t lda,
                 REAL *b, int64_t ldb)
{
    int info = unit ? 0 : LOCAL(first_zero_pivot)(n, a, lda);
    if (info == 0) LOCAL(solve_triangle)(lower, transpose, unit, n, nrhs, a, lda, b, ldb);
    return info;
}

/* --- LU --- */

/* Factors columns first .. first + size of all rows from `first` down; swaps whole rows. */
static void LOCAL(factor_panel)(int64_t n, int64_t first, int64_t size, REAL *a, int64_t lda, int *piv)
{
    int64_t end = first + size;
    for (int64_t j = first; j < end; j++) {
        int64_t best = j;
        for (int64_t i = j + 1; i < n; i++)
            if (fabs(a[i * lda + j]) > fabs(a[best * lda + j])) best = i;
        piv[j] = (int)(best + 1);
        REAL *pivot_row = a + j * lda;
        if (best != j) LOCAL(swap)(n, pivot_row, 1, a + best * lda, 1);
        /* A zero pivot means that the column is zero: there is nothing to eliminate. */
        if (pivot_row[j] == 0) continue;
        for (int64_t i = j + 1; i < n; i++) {
            REAL *row = a + i * lda;
            row[j] /= pivot_row[j];
            LOCAL(add_scaled)(end - j - 1, -row[j], pivot_row + j + 1, row + j + 1);
        }
    }
}

/* Right-looking block elimination with partial pivoting (Golub & Van Loan, section 3.4). */
int PUBLIC(getrf)(int64_t n, REAL *a, int64_t lda, int *piv)
{
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t size = smaller(BLOCK, n - first), next = first + size, rest = n - next;
        LOCAL(factor_panel)(n, first, size, a, lda, piv);
        if (rest == 0) break;
        REAL *right = a + first * lda + next;
        LOCAL(solve_triangle)(1, 0, 1, size, rest, a + first * (lda + 1), lda, right, lda);
        PUBLIC(gemm)
        (rest, rest, size, -1, a + next * lda + first, lda, 1, right, lda, 1, 1, a + next * (lda + 1), lda);
    }
    return LOCAL(first_zero_pivot)(n, a, lda);
}

int PUBLIC(getrs)(int64_t n, int64_t nrhs, const REAL *lu, int64_t lda, const int *piv, REAL *b, int64_t ldb,
                  int transpose)
{
    int info = LOCAL(first_zero_pivot)(n, lu, lda);
    if (info != 0) return info;
    if (transpose) {
        LOCAL(solve_triangle)(0, 1, 0, n, nrhs, lu, lda, b, ldb);
        LOCAL(solve_triangle)(1, 1, 1, n, nrhs, lu, lda, b, ldb);
    }
    for (int64_t step = 0; step < n; step++) {
        int64_t i = transpose ? n - 1 - step : step, other = piv[i] - 1;
        if (other != i) LOCAL(swap)(nrhs, b + i * ldb, 1, b + other * ldb, 1);
    }
    if (!transpose) {
        LOCAL(solve_triangle)(1, 0, 1, n, nrhs, lu, lda, b, ldb);
        LOCAL(solve_triangle)(0, 0, 0, n, nrhs, lu, lda, b, ldb);
    }
    return 0;
}

/* --- Cholesky --- */

/* Factors one diagonal block row by row (Golub & Van Loan, section 4.2); 1-based index of a bad pivot, or
 * 0. */
static int LOCAL(factor_cholesky_block)(int64_t n, REAL *a, int64_t lda)
{
    for (int64_t i = 0; i < n; i++) {
        REAL *row = a + i * lda;
        for (int64_t j = 0; j < i; j++) row[j] = (row[j] - LOCAL(dot)(j, row, a + j * lda)) / a[j * lda + j];
        REAL pivot = row[i] - LOCAL(dot)(i, row, row);
        if (!(pivot > 0)) return (int)(i + 1);
        row[i] = sqrt(pivot);
    }
    return 0;
}

/* Left-looking block Cholesky (Golub & Van Loan, section 4.2): the product of the columns to its left is
 * subtracted from a block column, then its diagonal block is factored and the rows below are solved against it. */
int PUBLIC(potrf_lower)(int64_t n, REAL *a, int64_t lda)
{
    REAL tile[BLOCK * BLOCK];
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t size = smaller(BLOCK, n - first), next = first + size;
        REAL *left = a + first * lda, *block = left + first, *below = a + next * lda;
        /* Through a tile, because the upper triangle of the diagonal block must not change. */
        PUBLIC(gemm)(size, size, first, 1, left, lda, 1, left, 1, lda, 0, tile, BLOCK);
        for (int64_t i = 0; i < size; i++) LOCAL(add_scaled)(i + 1, -1, tile + i * BLOCK, block + i * lda);
        int info = LOCAL(factor_cholesky_block)(size, block, lda);
        if (info != 0) return (int)first + info;
        if (first > 0)
            PUBLIC(gemm)(n - next, size, first, -1, below, lda, 1, left, 1, lda, 1, below + first, lda);
        for (int64_t i = 0; i < n - next; i++) {
            REAL *row = below + first + i * lda;
            for (int64_t j = 0; j < size; j++)
                row[j] = (row[j] - LOCAL(dot)(j, row, block + j * lda)) / block[j * lda + j];
        }
    }
    return 0;
}

/* --- Householder QR --- */

/* Makes H = I - tau v v^T, v(0) = 1, with H x = (beta, 0, ...): x(0) becomes beta, the rest of x the rest
 * of v. beta has the sign opposite to x(0), so that nothing cancels; a zero tail leaves H = I.  As
 * LAPACK's larfg, but with a power-of-two scale instead of repeated rescaling.  Returns tau. */
static REAL LOCAL(make_reflector)(int64_t n, REAL *x, int64_t stride)
{
    REAL largest = n < 2 ? 0 : LOCAL(max_abs)(n - 1, x + stride, stride), sum = 0;
    if (largest == 0) return 0;
    if (fabs(x[0]) > largest) largest = fabs(x[0]);
    REAL scale = LOCAL(binary_scale)(largest);
    for (int64_t i = 0; i < n; i++) {
        REAL v = x[i * stride] / scale;
        sum += v * v;
    }
    REAL alpha = x[0] / scale, beta = -copysign(sqrt(sum), alpha);
    x[0] = beta * scale;
    for (int64_t i = 1; i < n; i++) x[i * stride] = x[i * stride] / scale / (alpha - beta);
    return (beta - alpha) / beta;
}

/* C = H C for C m x n; v has a stride, its first entry counts as 1; row holds n elements of scratch. */
static void LOCAL(apply_reflector)(int64_t m, int64_t n, const REAL *v, int64_t stride, REAL tau, REAL *c,
                                   int64_t ldc, REAL *row)
{
    if (tau == 0 || n == 0) return;
    for (int64_t j = 0; j < n; j++) row[j] = c[j];
    for (int64_t i = 1; i < m; i++) LOCAL(add_scaled)(n, v[i * stride], c + i * ldc, row);
    for (int64_t j = 0; j < n; j++) {
        row[j] *= tau;
        c[j] -= row[j];
    }
    for (int64_t i = 1; i < m; i++) LOCAL(add_scaled)(n, -v[i * stride], row, c + i * ldc);
}

/* Index of the column from `first` on with the longest part below row `first`; row holds n elements of
 * scratch. */
static int64_t LOCAL(longest_column)(int64_t m, int64_t n, int64_t first, const REAL *a, int64_t lda,
                                     REAL *row)
{
    int64_t best = first;
    LOCAL(fill)(1, n, 0, row, 0);
    for (int64_t i = first; i < m; i++)
        for (int64_t j = first; j < n; j++) row[j] += a[i * lda + j] * a[i * lda + j];
    for (int64_t j = first + 1; j < n; j++)
        if (row[j] > row[best]) best = j;
    return best;
}

/* Householder QR in place (Golub & Van Loan, algorithm 5.2.1): R on and above the diagonal, reflectors
 * below, their factors in tau.  With `swaps`, columns are pivoted (section 5.4): swaps[j] is the column
 * that changed places with column j. */
static void LOCAL(factor_qr)(int64_t m, int64_t n, REAL *a, int64_t lda, REAL *tau, REAL *swaps, REAL *row)
{
    for (int64_t j = 0; j < smaller(m, n); j++) {
        if (swaps) {
            int64_t best = LOCAL(longest_column)(m, n, j, a, lda, row);
            LOCAL(swap)(m, a + j, lda, a + best, lda);
            swaps[j] = (REAL)best;
        }
        REAL *x = a + j * (lda + 1);
        tau[j] = LOCAL(make_reflector)(m - j, x, lda);
        LOCAL(apply_reflector)(m - j, n - j - 1, x, lda, tau[j], x + 1, lda, row);
    }
}

/* The first k columns of Q: reflectors applied to the identity, last first, so that zeros stay out of the
 * work. */
static void LOCAL(form_q)(int64_t m, int64_t k, const REAL *a, int64_t lda, const REAL *tau, REAL *q,
                          int64_t ldq, REAL *row)
{
    LOCAL(identity)(m, k, q, ldq);
    for (int64_t j = k - 1; j >= 0; j--)
        LOCAL(apply_reflector)(m - j, k - j, a + j * (lda + 1), lda, tau[j], q + j * (ldq + 1), ldq, row);
}

/* Copies the upper triangle of the first k rows and puts zeros below it. */
static void LOCAL(copy_upper)(int64_t k, int64_t n, const REAL *a, int64_t lda, REAL *r, int64_t ldr)
{
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n; j++) r[i * ldr + j] = j < i ? 0 : a[i * lda + j];
}

int PUBLIC(qr)(int64_t m, int64_t n, const REAL *a, int64_t lda, REAL *q, int64_t ldq, REAL *r, int64_t ldr,
               REAL *work)
{
    int64_t k = smaller(m, n);
    if (k <= 0) return 0;
    REAL *factor = work, *tau = factor + m * n, *row = tau + k;
    for (int64_t i = 0; i < m; i++) memcpy(factor + i * n, a + i * lda, (size_t)n * sizeof *a);
    LOCAL(factor_qr)(m, n, factor, n, tau, NULL, row);
    LOCAL(copy_upper)(k, n, factor, n, r, ldr);
    LOCAL(form_q)(m, k, factor, n, tau, q, ldq, row);
    return 0;
}
