/* The loops over long vectors: each against plain sums, at lengths and addresses that do not fit its blocks, and the same
 * bits on every instruction set this processor has. */
#include "optim/vector/layout.h"
#include "support/support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 43, MOST = 300 };

static const int64_t lengths[] = {0, 1, 7, 8, 15, 16, 17, 31, 64, 100, 255, 256, 299};

/* What this processor can run, the plain one first. */
static int all_loops(const gd_vector_loops *list[3])
{
    int count = 0;
    list[count++] = gd__vector_loops_base;
#ifdef GD_HAVE_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        list[count++] = gd__vector_loops_avx2;
#endif
#ifdef GD_HAVE_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        list[count++] = gd__vector_loops_avx512;
#endif
    return count;
}

/* Rows of one element type, `off` elements away from 64 bytes. */
typedef struct vectors {
    char *block;
    size_t item;
    void *row[ROWS];
} vectors;

static double at(const vectors *m, const void *row, int64_t i)
{
    return m->item == 4 ? (double)((const float *)row)[i] : ((const double *)row)[i];
}

static void put(const vectors *m, void *row, int64_t i, double value)
{
    if (m->item == 4)
        ((float *)row)[i] = (float)value;
    else
        ((double *)row)[i] = value;
}

static vectors new_vectors(int dtype, int off, unsigned seed)
{
    vectors m = {.item = dtype ? 8 : 4};
    size_t stride = (MOST + 84) * 8; /* of 64 bytes */
    m.block = aligned_alloc(64, ROWS * stride);
    assert_non_null(m.block);
    for (int r = 0; r < ROWS; r++) {
        m.row[r] = m.block + (size_t)r * stride + (size_t)off * m.item;
        for (int i = 0; i < MOST; i++) {
            seed = seed * 1664525u + 1013904223u;
            put(&m, m.row[r], i, ldexp((double)(int)(seed >> 8) - (1 << 23), -(int)(seed >> 28) - 16));
        }
    }
    return m;
}

typedef void (*check_fn)(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out);

/* Results and everything in vectors must be the same for all. */
static void check_all(check_fn check, int outs)
{
    const gd_vector_loops *list[3];
    int kinds = all_loops(list);
    for (int dtype = 0; dtype < 2; dtype++)
        for (int off = 0; off < 3; off++)
            for (int k = 0; k < COUNT_OF(lengths); k++) {
                vectors first = new_vectors(dtype, off, 1 + (unsigned)k);
                double want[4 * ROWS] = {0};
                check(&list[0][dtype], &first, lengths[k], want);
                for (int kind = 1; kind < kinds; kind++) {
                    vectors m = new_vectors(dtype, off, 1 + (unsigned)k);
                    double got[4 * ROWS] = {0};
                    check(&list[kind][dtype], &m, lengths[k], got);
                    assert_memory_equal(got, want, (size_t)outs * sizeof *want);
                    for (int r = 0; r < ROWS; r++) assert_memory_equal(m.row[r], first.row[r], MOST * m.item);
                    free(m.block);
                }
                free(first.block);
            }
}

static void check_dots(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    const void *const *rows = (const void *const *)m->row;
    const void *x = m->row[ROWS - 1], *y = m->row[ROWS - 2];
    for (int count = 1; count <= ROWS - 2; count++) {
        loops->dots(rows, count, x, y, n, out);
        for (int k = 0; k < 2 * count; k++) {
            long double sum = 0, size = 0;
            for (int64_t i = 0; i < n; i++) {
                long double term = (long double)at(m, rows[k / 2], i) * at(m, k % 2 ? y : x, i);
                sum += term;
                size += fabsl(term);
            }
            assert_true(fabsl(sum - out[k]) <= 40 * DBL_EPSILON * size);
        }
    }
}

static void products_of_many_rows(void **state)
{
    (void)state;
    check_all(check_dots, 2 * (ROWS - 2));
}

static void check_combine(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out, bool past)
{
    double coef[ROWS];
    for (int r = 0; r < ROWS; r++) coef[r] = 1.7 / (r + 1) - 0.3;
    for (int count = 0; count <= 21; count += count == 9 ? 11 : 1) {
        void *o = m->row[ROWS - 1 - count];
        const void *x = count % 2 ? m->row[ROWS - 1] : o; /* also in place */
        long double want[MOST], size[MOST];
        for (int64_t i = 0; i < n; i++) {
            want[i] = 0.37L * at(m, x, i);
            size[i] = fabsl(want[i]);
            for (int r = 0; r < count; r++) {
                want[i] += (long double)coef[r] * at(m, m->row[r], i);
                size[i] += fabsl((long double)coef[r] * at(m, m->row[r], i));
            }
        }
        double after = at(m, o, n);
        loops->combine(o, x, 0.37, (const void *const *)m->row, coef, count, n, past);
        long double unit = m->item == 4 ? FLT_EPSILON : DBL_EPSILON;
        for (int64_t i = 0; i < n; i++)
            assert_true(fabsl(want[i] - at(m, o, i)) <= unit * fabsl(want[i]) + 20 * DBL_EPSILON * size[i]);
        assert_true(at(m, o, n) == after);
        *out = n ? at(m, o, n - 1) : 0;
    }
}

static void check_combine_kept(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    check_combine(loops, m, n, out, false);
}

/* Past the caches: the same. */
static void check_combine_past(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    vectors kept = new_vectors(m->item == 8, 0, 99), streamed = new_vectors(m->item == 8, 0, 99);
    check_combine(loops, &kept, n, out, false);
    check_combine(loops, &streamed, n, out, true);
    for (int r = 0; r < ROWS; r++) assert_memory_equal(kept.row[r], streamed.row[r], MOST * m->item);
    free(kept.block);
    free(streamed.block);
    check_combine(loops, m, n, out, true);
}

static void combinations_of_rows(void **state)
{
    (void)state;
    check_all(check_combine_kept, 1);
    check_all(check_combine_past, 1);
}

/* far: s and y are written twice. */
static void check_pair(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out,
                       void *const *far)
{
    void *s = m->row[0], *y = m->row[1], *bp = m->row[2], *bg = m->row[3];
    const void *p = m->row[4], *g = m->row[5];
    double old[2][MOST], most[2] = {0}, after = at(m, s, n);
    for (int64_t i = 0; i < n; i++) {
        old[0][i] = at(m, bp, i);
        old[1][i] = at(m, bg, i);
    }
    loops->pair(s, y, bp, bg, p, g, n, out, far);
    for (int64_t i = 0; i < n; i++) {
        double si = at(m, p, i) - old[0][i], yi = at(m, g, i) - old[1][i];
        if (m->item == 4) si = (float)si, yi = (float)yi;
        assert_true(at(m, s, i) == si && at(m, y, i) == yi);
        assert_true(at(m, bp, i) == at(m, p, i) && at(m, bg, i) == at(m, g, i));
        most[0] = fmax(most[0], fabs(si));
        most[1] = fmax(most[1], fabs(yi));
    }
    assert_true(at(m, s, n) == after);
    assert_true(out[0] == most[0] && out[1] == most[1]);
    if (!n) return;
    put(m, (void *)(uintptr_t)p, n - 1, NAN);
    put(m, (void *)(uintptr_t)g, n / 2, -INFINITY);
    loops->pair(s, y, bp, bg, p, g, n, out, far);
    assert_true(isnan(out[0]) && isinf(out[1]) && out[1] > 0);
    out[0] = 0; /* one NaN is like another */
    put(m, s, n - 1, 0);
    put(m, bp, n - 1, 0);
    put(m, (void *)(uintptr_t)p, n - 1, 0);
}

static void check_near_pair(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    check_pair(loops, m, n, out, NULL);
}

static void check_far_pair(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    vectors aligned = new_vectors(m->item == 8, 0, 7);
    double after[2] = {at(&aligned, aligned.row[0], n), at(&aligned, aligned.row[1], n)};
    check_pair(loops, m, n, out, aligned.row);
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n - !k; i++) /* check_pair takes its NaN away */
            assert_true(at(&aligned, aligned.row[k], i) == at(m, m->row[k], i));
        assert_true(at(&aligned, aligned.row[k], n) == after[k]);
    }
    free(aligned.block);
}

static void new_pairs(void **state)
{
    (void)state;
    check_all(check_near_pair, 2);
    check_all(check_far_pair, 2);
}

static void check_sums(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    const void *x = m->row[0], *y = m->row[1];
    long double dot = 0, size = 0, sum = 0;
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        dot += (long double)at(m, x, i) * at(m, y, i);
        size += fabsl((long double)at(m, x, i) * at(m, y, i));
        sum += fabs(at(m, x, i));
        most = fmax(most, fabs(at(m, x, i)));
    }
    out[0] = loops->dot(x, y, n);
    out[1] = loops->sum(x, NULL, n);
    out[2] = loops->largest(x, NULL, n);
    assert_true(fabsl(dot - out[0]) <= 40 * DBL_EPSILON * size);
    assert_true(fabsl(sum - out[1]) <= 40 * DBL_EPSILON * sum);
    assert_true(out[2] == most);
}

static void sums_of_one_vector(void **state)
{
    (void)state;
    check_all(check_sums, 3);
}

static void check_free(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    uint8_t block[MOST + 1], *side = block + 1; /* at any address */
    void *o = m->row[0];
    const void *x = m->row[1];
    for (int64_t i = 0; i < MOST; i++) side[i] = (uint8_t)(i * i % 7 < 3 ? 0 : i % 3);
    double behind = n < MOST ? at(m, o, n) : 0;
    loops->free_part(o, x, side, n);
    for (int64_t i = 0; i < n; i++) assert_true(at(m, o, i) == (side[i] ? 0 : at(m, x, i)));
    assert_true(n == MOST || at(m, o, n) == behind);
    out[0] = 0;
}

static void parts_that_are_free(void **state)
{
    (void)state;
    check_all(check_free, 1);
}

/* Bounds: one number for all, or of each element. */
static void check_bounds(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out, bool each)
{
    void *x = m->row[1], *u = m->row[2], *low = m->row[3], *high = m->row[4], *o = m->row[0];
    gd_edges edges = {.low = low, .high = high, .low_step = each, .high_step = each};
    double a = 0.5, far = 1e-6;
    for (int64_t i = 0; i < MOST; i++) {
        put(m, low, i, each ? at(m, x, i) - 1 : -300);
        put(m, high, i, each ? at(m, x, i) + 200 : 300);
    }
    assert_false(loops->outside(x, &edges, n));
    int64_t freely = loops->move_inside(o, x, u, a, far, &edges, n), first = n;
    assert_true(freely >= 0 && freely <= n);
    for (int64_t i = 0; i < n; i++) {
        double to = at(m, x, i) - a * at(m, u, i), edge = far * (fabs(at(m, x, i)) + fabs(to));
        double l = at(m, low, each ? i : 0), h = at(m, high, each ? i : 0);
        bool free = to - l > edge && h - to > edge;
        if (!free && i < first) first = i;
        if (i < freely) assert_true(free && at(m, o, i) == (m->item == 4 ? (double)(float)to : to));
    }
    assert_true(freely % 8 == 0 && first - freely < 8); /* it ends with the eight that one is near in */
    out[0] = (double)freely;
    /* one element outside, wherever it is; -0 on a bound of 0, and NaN, are not */
    for (int64_t i = 0; i < n; i++) {
        double save = at(m, x, i);
        put(m, x, i, i % 2 ? 301 + 300 * fabs(save) : -301 - 300 * fabs(save));
        assert_true(loops->outside(x, &edges, n));
        put(m, x, i, NAN);
        assert_false(loops->outside(x, &edges, n));
        put(m, x, i, save);
    }
    if (!each) put(m, high, 0, 0), put(m, low, 0, 0);
    for (int64_t i = 0; i < n && !each; i++) put(m, x, i, i % 2 ? -0.0 : 0.0);
    assert_false(loops->outside(x, &edges, n));
}

static void check_one_bound(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    check_bounds(loops, m, n, out, false);
}

static void check_each_bound(const gd_vector_loops *loops, const vectors *m, int64_t n, double *out)
{
    check_bounds(loops, m, n, out, true);
}

static void moves_inside_bounds(void **state)
{
    (void)state;
    check_all(check_one_bound, 1);
    check_all(check_each_bound, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_inside_bounds),  cmocka_unit_test(products_of_many_rows),
        cmocka_unit_test(combinations_of_rows), cmocka_unit_test(new_pairs),
        cmocka_unit_test(sums_of_one_vector),   cmocka_unit_test(parts_that_are_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
