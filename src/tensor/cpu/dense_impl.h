/* The routines of dense.h for one type.  dense.c includes this file once per type, having defined REAL,
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
 * so that the inner kernel reads both one after the other.  Edges are filled with zeros and computed like
 * the rest.
 *
 * Bits: an entry of C is, for every PACK_DEPTH terms, one sum in the order of k started from 0, scaled by
 * alpha and added to beta C or to what the earlier terms left.  Every path below keeps to that. */

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

/* C = alpha sum + beta C for a row of n; beta = 0 means that C holds nothing yet. */
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

/* Blocked substitution: what is already solved leaves the next block of right-hand sides through the product
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

/* Factors columns first .. first + size of all rows from `first` down; whole rows change places. */
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

/* Left-looking block Cholesky (Golub & Van Loan, section 4.2): a block column loses the product of what is
 * to its left, then its diagonal block is factored and the rows below are solved against it. */
int PUBLIC(potrf_lower)(int64_t n, REAL *a, int64_t lda)
{
    REAL tile[BLOCK * BLOCK];
    for (int64_t first = 0; first < n; first += BLOCK) {
        int64_t size = smaller(BLOCK, n - first), next = first + size;
        REAL *left = a + first * lda, *block = left + first, *below = a + next * lda;
        /* Through a tile, because the upper triangle of the diagonal block is not ours. */
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

/* --- symmetric eigenvalues --- */

/* Copies the lower triangle, divided by a power of two that brings the largest entry near 1, to both
 * triangles of `full`.  Returns that power, or 0 when an entry is not finite. */
static REAL LOCAL(copy_symmetric)(int64_t n, const REAL *a, int64_t lda, REAL *full)
{
    REAL largest = 0;
    for (int64_t i = 0; i < n; i++) {
        REAL v = LOCAL(max_abs)(i + 1, a + i * lda, 1);
        if (!isfinite(v)) return 0;
        if (v > largest) largest = v;
    }
    REAL scale = LOCAL(binary_scale)(largest);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) full[i * n + j] = full[j * n + i] = a[i * lda + j] / scale;
    return scale;
}

/* A = H A H for the trailing n x n block, as the rank-two update A - v w^T - w v^T with p = tau A v and w
 * = p - (tau / 2)(p . v) v.  Both triangles are kept: rows are then contiguous and stay exactly symmetric. */
static void LOCAL(reflect_both_sides)(int64_t n, REAL tau, const REAL *v, REAL *a, int64_t lda, REAL *w)
{
    if (tau == 0) return;
    LOCAL(fill)(1, n, 0, w, 0);
    for (int64_t i = 0; i < n; i++) LOCAL(add_scaled)(n, tau * v[i], a + i * lda, w);
    LOCAL(add_scaled)(n, -tau / 2 * LOCAL(dot)(n, w, v), v, w);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) a[i * lda + j] -= v[i] * w[j] + w[i] * v[j];
}

/* A = Q T Q^T by Householder reflections (Golub & Van Loan, algorithm 8.3.1).  The diagonal of T goes to
 * d, what is beside it to e; row i of a keeps reflector i right of its diagonal; Q is formed in z. */
static void LOCAL(tridiagonalise)(int64_t n, REAL *a, REAL *d, REAL *e, REAL *tau, REAL *row, REAL *z,
                                  int64_t ldz)
{
    for (int64_t i = 0; i < n; i++) {
        REAL *v = a + i * (n + 1) + 1;
        d[i] = v[-1];
        e[i] = tau[i] = 0;
        if (i + 1 == n) break;
        tau[i] = LOCAL(make_reflector)(n - i - 1, v, 1);
        e[i] = v[0];
        v[0] = 1;
        LOCAL(reflect_both_sides)(n - i - 1, tau[i], v, v + n, n, row);
    }
    LOCAL(identity)(n, n, z, ldz);
    for (int64_t i = n - 2; i >= 0; i--) LOCAL(apply_reflector)
    (n - i - 1, n - i - 1, a + i * (n + 1) + 1, 1, tau[i], z + (i + 1) * (ldz + 1), ldz, row);
}

/* The eigenvalue nearer to a of [a b; b c], b != 0 (Wilkinson's shift). */
static REAL LOCAL(wilkinson_shift)(REAL a, REAL b, REAL c)
{
    REAL half = (c - a) / 2;
    return a - b * (b / (half + copysign(hypot(half, b), half)));
}

/* One implicit QL step on the unreduced block first .. last: a rotation made from the last column of
 * T - shift, then rotations that chase the entry it puts beside the tridiagonal up and out (Golub & Van Loan
 * algorithm 8.3.2, read from the other end).  Rows of zt turn along. */
static void LOCAL(ql_step)(int64_t n, int64_t first, int64_t last, REAL *d, REAL *e, REAL *zt, int64_t ldz)
{
    REAL x = d[last] - LOCAL(wilkinson_shift)(d[first], e[first], d[first + 1]), bulge = e[last - 1];
    for (int64_t i = last - 1; i >= first; i--) {
        REAL r = hypot(x, bulge), c = r == 0 ? 1 : x / r, s = r == 0 ? 0 : bulge / r;
        if (i + 1 < last) e[i + 1] = r;
        REAL t = s * (d[i] - d[i + 1]) + 2 * c * e[i], b = e[i];
        d[i + 1] += s * t;
        d[i] -= s * t;
        e[i] = x = c * t - b;
        if (i > first) {
            bulge = s * e[i - 1];
            e[i - 1] *= c;
        }
        LOCAL(rotate)(n, c, s, zt + i * ldz, zt + (i + 1) * ldz);
    }
}

/* Turns the block first .. last end for end: a permutation, so still the same eigenproblem. */
static void LOCAL(reverse_block)(int64_t n, int64_t first, int64_t last, REAL *d, REAL *e, REAL *zt,
                                 int64_t ldz)
{
    for (int64_t i = first, j = last; i < j; i++, j--) {
        LOCAL(swap)(1, d + i, 1, d + j, 1);
        LOCAL(swap)(n, zt + i * ldz, 1, zt + j * ldz, 1);
    }
    for (int64_t i = first, j = last - 1; i < j; i++, j--) LOCAL(swap)(1, e + i, 1, e + j, 1);
}

/* The end of the unreduced block that starts at first.  What is cut is rounding error beside its
 * neighbours, or beside the whole matrix (whose largest entry is near 1) even after squaring. */
static int64_t LOCAL(block_end)(int64_t n, int64_t first, const REAL *d, const REAL *e)
{
    int64_t last = first;
    while (last + 1 < n &&
           fabs(e[last]) > REAL_EPSILON / 2 * (fabs(d[last]) + fabs(d[last + 1]) + REAL_EPSILON))
        last++;
    return last;
}

/* Diagonalises the tridiagonal (d, e), turning the rows of zt along.  0, or the 1-based index that did not
 * converge.  A step starts at the last entry and must not start among the small ones: there the shift
 * drowns them and the first rotations underflow.  So a block is turned, once, to have its larger end last
 * (LAPACK's steqr chooses between QL and QR for the same reason; here e counts too, for diagonals of
 * zeros). */
static int LOCAL(diagonalise)(int64_t n, REAL *d, REAL *e, REAL *zt, int64_t ldz)
{
    int64_t steps = QL_STEPS * n, first = 0, seen_first = -1, seen_last = -1;
    while (first < n) {
        int64_t last = LOCAL(block_end)(n, first, d, e);
        if (last == first) {
            first++;
            continue;
        }
        if (steps-- == 0) return (int)(first + 1);
        if ((first != seen_first || last != seen_last) &&
            fabs(d[first]) + fabs(e[first]) > fabs(d[last]) + fabs(e[last - 1]))
            LOCAL(reverse_block)(n, first, last, d, e, zt, ldz);
        seen_first = first;
        seen_last = last;
        LOCAL(ql_step)(n, first, last, d, e, zt, ldz);
    }
    return 0;
}

/* Selection sort by key, `sign` > 0 ascending; the rows of x, and of y where there is one, move with their
 * keys. */
static void LOCAL(sort_rows)(int64_t n, int sign, REAL *key, int64_t cols, REAL *x, int64_t ldx, REAL *y)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++)
            if (sign > 0 ? key[j] < key[best] : key[j] > key[best]) best = j;
        if (best == i) continue;
        LOCAL(swap)(1, key + i, 1, key + best, 1);
        LOCAL(swap)(cols, x + i * ldx, 1, x + best * ldx, 1);
        if (y) LOCAL(swap)(cols, y + i * cols, 1, y + best * cols, 1);
    }
}

int PUBLIC(eigh)(int64_t n, const REAL *a, int64_t lda, REAL *w, REAL *v, int64_t ldv, REAL *work)
{
    if (n <= 0) return 0;
    REAL *full = work, *e = full + n * n, *tau = e + n, *row = tau + n;
    REAL scale = LOCAL(copy_symmetric)(n, a, lda, full);
    if (scale == 0) {
        LOCAL(fill)(1, n, (REAL)NAN, w, 0);
        LOCAL(fill)(n, n, (REAL)NAN, v, ldv);
        return 1;
    }
    LOCAL(tridiagonalise)(n, full, w, e, tau, row, v, ldv);
    /* Eigenvectors are rows while they are rotated and sorted, so that both run along memory. */
    LOCAL(transpose_in_place)(n, v, ldv);
    int info = LOCAL(diagonalise)(n, w, e, v, ldv);
    LOCAL(sort_rows)(n, 1, w, n, v, ldv, NULL);
    LOCAL(transpose_in_place)(n, v, ldv);
    for (int64_t i = 0; i < n; i++) w[i] *= scale;
    return info;
}

/* --- singular values --- */

/* One-sided Jacobi (Hestenes 1958; Drmac & Veselic, "New fast and accurate Jacobi SVD algorithm", 2008) on
 * the transposed factor of a pivoted QR, for B = A or A^T with at least as many rows as columns:
 *
 *     B P = Q R,   J^T R = diag(s) W with orthonormal rows W   =>   B = (Q J) diag(s) (W P^T)
 *
 * Columns of R^T are rows of R, so every rotation runs along memory. */
typedef struct {
    int64_t rows, cols;
    REAL *factor, *q;    /* rows x cols: reflectors; Q */
    REAL *w, *turns;     /* cols x cols: R, then W; J^T */
    REAL *tau, *swaps;   /* cols; swaps holds indices, exact in float up to 2^24 columns */
    REAL *squares, *row; /* cols: squared lengths of the rows of w; scratch */
} LOCAL(svd_space);

static LOCAL(svd_space) LOCAL(divide_svd_work)(int64_t m, int64_t n, REAL *work)
{
    LOCAL(svd_space) s = {.rows = larger(m, n), .cols = smaller(m, n)};
    s.factor = work;
    s.q = s.factor + s.rows * s.cols;
    s.w = s.q + s.rows * s.cols;
    s.turns = s.w + s.cols * s.cols;
    s.tau = s.turns + s.cols * s.cols;
    s.swaps = s.tau + s.cols;
    s.squares = s.swaps + s.cols;
    s.row = s.squares + s.cols;
    return s;
}

/* Makes rows p and q of w orthogonal, the longer first (de Rijk 1989); returns whether there was anything
 * to do. */
static int LOCAL(orthogonalise_pair)(LOCAL(svd_space) * s, int64_t p, int64_t q, REAL tolerance)
{
    int64_t n = s->cols;
    REAL *x = s->w + p * n, *y = s->w + q * n;
    if (s->squares[p] < s->squares[q]) {
        LOCAL(swap)(n, x, 1, y, 1);
        LOCAL(swap)(n, s->turns + p * n, 1, s->turns + q * n, 1);
        LOCAL(swap)(1, s->squares + p, 1, s->squares + q, 1);
    }
    /* Rows so short that their products underflow are dealt with in normalise_rows. */
    REAL a = s->squares[p], b = s->squares[q];
    if (b < REAL_MIN / REAL_EPSILON) return 0;
    REAL product = LOCAL(dot)(n, x, y);
    if (fabs(product) <= tolerance * sqrt(a) * sqrt(b)) return 0;
    /* The smaller root of t^2 + 2 zeta t - 1 = 0 (Golub & Van Loan, section 8.5). */
    REAL zeta = (b - a) / 2 / product;
    REAL t = copysign((REAL)1, zeta) / (fabs(zeta) + hypot((REAL)1, zeta));
    REAL cosine = 1 / sqrt(1 + t * t), sine = cosine * t;
    LOCAL(rotate_gently)(n, cosine, sine, x, y);
    LOCAL(rotate_gently)(n, cosine, sine, s->turns + p * n, s->turns + q * n);
    s->squares[p] = LOCAL(dot)(n, x, x);
    s->squares[q] = LOCAL(dot)(n, y, y);
    return 1;
}

/* Cyclic sweeps until one finds every pair orthogonal to working precision.  Result 1: too many sweeps. */
static int LOCAL(orthogonalise_rows)(LOCAL(svd_space) * s)
{
    int64_t n = s->cols;
    REAL tolerance = REAL_EPSILON * sqrt((REAL)n);
    LOCAL(identity)(n, n, s->turns, n);
    for (int64_t i = 0; i < n; i++) s->squares[i] = LOCAL(dot)(n, s->w + i * n, s->w + i * n);
    for (int sweep = 0; sweep < JACOBI_SWEEPS; sweep++) {
        int turned = 0;
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) turned |= LOCAL(orthogonalise_pair)(s, p, q, tolerance);
        if (!turned) return 0;
    }
    return 1;
}

/* Puts into row i of w (n columns) a unit vector orthogonal to rows 0 .. i-1: the axis that those cover
 * least, twice orthogonalised ("twice is enough", Parlett, The Symmetric Eigenvalue Problem, 6.9). */
static void LOCAL(complete_row)(int64_t n, int64_t i, REAL *w, REAL *covered)
{
    int64_t axis = 0;
    REAL *x = w + i * n;
    LOCAL(fill)(1, n, 0, covered, 0);
    for (int64_t r = 0; r < i; r++)
        for (int64_t j = 0; j < n; j++) covered[j] += w[r * n + j] * w[r * n + j];
    for (int64_t j = 1; j < n; j++)
        if (covered[j] < covered[axis]) axis = j;
    LOCAL(fill)(1, n, 0, x, 0);
    x[axis] = 1;
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t r = 0; r < i; r++) LOCAL(add_scaled)(n, -LOCAL(dot)(n, x, w + r * n), w + r * n, x);
        REAL length = LOCAL(norm)(n, x);
        for (int64_t j = 0; j < n; j++) x[j] /= length;
    }
}

/* Lengths of the rows of w to `lengths`, descending, and the rows to unit length.  Rows too short to have
 * a direction (below about 1e-146, in float 1e-16, of the longest: far under its rounding error) get one
 * from the complement. */
static void LOCAL(normalise_rows)(LOCAL(svd_space) * s, REAL *lengths)
{
    int64_t n = s->cols;
    REAL negligible = sqrt(REAL_MIN / REAL_EPSILON);
    for (int64_t i = 0; i < n; i++) lengths[i] = LOCAL(norm)(n, s->w + i * n);
    LOCAL(sort_rows)(n, -1, lengths, n, s->w, n, s->turns);
    for (int64_t i = 0; i < n; i++) {
        REAL *row = s->w + i * n;
        if (lengths[i] <= negligible)
            LOCAL(complete_row)(n, i, s->w, s->row);
        else
            for (int64_t j = 0; j < n; j++) row[j] /= lengths[i];
    }
}

/* u = Q J and vt = W P^T, or the other way round for a transposed problem. */
static void LOCAL(write_svd)(const LOCAL(svd_space) * s, int transposed, REAL *u, int64_t ldu, REAL *vt,
                             int64_t ldvt)
{
    int64_t n = s->cols;
    for (int64_t j = n - 1; j >= 0; j--) LOCAL(swap)(n, s->w + j, n, s->w + (int64_t)s->swaps[j], n);
    if (transposed)
        PUBLIC(gemm)(n, s->rows, n, 1, s->turns, n, 1, s->q, 1, n, 0, vt, ldvt);
    else
        PUBLIC(gemm)(s->rows, n, n, 1, s->q, n, 1, s->turns, 1, n, 0, u, ldu);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) *(transposed ? u + j * ldu + i : vt + i * ldvt + j) = s->w[i * n + j];
}

int PUBLIC(svd)(int64_t m, int64_t n, const REAL *a, int64_t lda, REAL *u, int64_t ldu, REAL *s, REAL *vt,
                int64_t ldvt, REAL *work)
{
    int64_t k = smaller(m, n);
    if (k <= 0) return 0;
    LOCAL(svd_space) space = LOCAL(divide_svd_work)(m, n, work);
    REAL largest = LOCAL(matrix_max_abs)(m, n, a, lda);
    if (!isfinite(largest)) {
        LOCAL(fill)(1, k, (REAL)NAN, s, 0);
        LOCAL(fill)(m, k, (REAL)NAN, u, ldu);
        LOCAL(fill)(k, n, (REAL)NAN, vt, ldvt);
        return 1;
    }
    REAL scale = LOCAL(binary_scale)(largest);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) space.factor[m < n ? j * k + i : i * k + j] = a[i * lda + j] / scale;
    LOCAL(factor_qr)(space.rows, k, space.factor, k, space.tau, space.swaps, space.row);
    LOCAL(copy_upper)(k, k, space.factor, k, space.w, k);
    LOCAL(form_q)(space.rows, k, space.factor, k, space.tau, space.q, k, space.row);
    int info = LOCAL(orthogonalise_rows)(&space);
    LOCAL(normalise_rows)(&space, s);
    LOCAL(write_svd)(&space, m < n, u, ldu, vt, ldvt);
    for (int64_t i = 0; i < k; i++) s[i] *= scale;
    return info;
}
