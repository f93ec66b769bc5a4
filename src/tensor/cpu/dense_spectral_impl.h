/* Eigenvalues and singular values of dense.h for one type: included after dense_impl.h, with the same definitions and
 * built on its routines.  No include guard on purpose. */

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
 * d, the off-diagonal to e; row i of a keeps reflector i right of its diagonal; Q is formed in z. */
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
 * algorithm 8.3.2, read from the other end).  Rows of zt are rotated too. */
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

/* Reverses the block first .. last: a permutation, so still the same eigenproblem. */
static void LOCAL(reverse_block)(int64_t n, int64_t first, int64_t last, REAL *d, REAL *e, REAL *zt,
                                 int64_t ldz)
{
    for (int64_t i = first, j = last; i < j; i++, j--) {
        LOCAL(swap)(1, d + i, 1, d + j, 1);
        LOCAL(swap)(n, zt + i * ldz, 1, zt + j * ldz, 1);
    }
    for (int64_t i = first, j = last - 1; i < j; i++, j--) LOCAL(swap)(1, e + i, 1, e + j, 1);
}

/* The end of the unreduced block that starts at first.  The neglected entry is rounding error relative
 * to its neighbours, or relative to the whole matrix (whose largest entry is near 1) even after squaring. */
static int64_t LOCAL(block_end)(int64_t n, int64_t first, const REAL *d, const REAL *e)
{
    int64_t last = first;
    while (last + 1 < n &&
           fabs(e[last]) > REAL_EPSILON / 2 * (fabs(d[last]) + fabs(d[last + 1]) + REAL_EPSILON))
        last++;
    return last;
}

/* Diagonalises the tridiagonal (d, e), rotating the rows of zt too.  0, or the 1-based index that did not
 * converge.  A step starts at the last entry and must not start among the small ones: there they are lost
 * against the shift and the first rotations underflow. So a block is reversed, once, to have its larger end last
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

/* Selection sort by key, `sign` > 0 ascending; the rows of x, and of y if there is one, move with their
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

/* Makes rows p and q of w orthogonal, the longer first (de Rijk 1989); returns whether they were not. */
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

/* u = Q J and vt = W P^T, or vice versa for a transposed problem. */
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
