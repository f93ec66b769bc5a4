/* gd_einsum and gd_contract against a loop over all indices in long double; names, labels, implicit outputs, gradients,
 * errors. */
#include "support/support.h"

#include <ctype.h>
#include <math.h>

#define MOST 6 /* operands */

static gd_tensor *noise(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, int ndim, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    if (!values) abort();
    for (int64_t i = 0; i < n; i++)
        values[i] = gd_dtype_is_float(dtype) ? 2 * random_unit(state) - 1 : (double)random_below(state, 5);
    gd_tensor *t = gd_from_f64(ctx, dtype, ndim, shape, values);
    free(values);
    return t;
}

/* ---- the reference: "ab,bc->ac" by looping over every letter ---- */

static int64_t size_of_letter(char c) { return 2 + (c - 'a') % 3; }

/* The shape of a term of letters. */
static int shape_of(const char *term, int length, int64_t *shape)
{
    for (int i = 0; i < length; i++) shape[i] = size_of_letter(term[i]);
    return length;
}

static int64_t offset_of(const char *term, int length, const int64_t *value)
{
    int64_t offset = 0;
    for (int i = 0; i < length; i++) offset = offset * size_of_letter(term[i]) + value[term[i] - 'a'];
    return offset;
}

static array reference(const char *spec, const array *in)
{
    const char *out = strstr(spec, "->") + 2;
    char letters[27] = "";
    for (const char *p = spec; p < out; p++)
        if (isalpha((unsigned char)*p) && !strchr(letters, *p)) strncat(letters, p, 1);
    int64_t shape[GD_MAX_DIMS], value[26] = {0};
    array result = array_new(shape_of(out, (int)strlen(out), shape), shape);
    result.scale = calloc((size_t)result.numel + 1, sizeof(long double));
    if (!result.scale) abort();
    for (bool more = true; more;) {
        long double product = 1;
        const char *term = spec;
        for (int k = 0;; k++) {
            int length = (int)strcspn(term, ",-");
            product *= in[k].v[offset_of(term, length, value)];
            if (term[length] != ',') break;
            term += length + 1;
        }
        int64_t place = offset_of(out, (int)strlen(out), value);
        result.v[place] += product;
        result.scale[place] += fabsl(product);
        more = false;
        for (size_t i = 0; letters[i] && !more; i++) {
            int64_t *v = &value[letters[i] - 'a'];
            if (++*v < size_of_letter(letters[i]))
                more = true;
            else
                *v = 0;
        }
    }
    return result;
}

static void assert_same(const gd_tensor *t, const array *want)
{
    assert_non_null(t);
    assert_shape_at(t, want->size, want->ndim, __FILE__, __LINE__);
    array got = array_of(t);
    long double eps = epsilon_of(gd_tensor_dtype(t));
    for (int64_t i = 0; i < got.numel; i++)
        if (fabsl(got.v[i] - want->v[i]) > 64 * eps * want->scale[i])
            fail_msg("element %d: wanted %.12Lg, got %.12Lg", (int)i, want->v[i], got.v[i]);
    array_free(&got);
}

/* Operands of a spec of letters. */
static int operands_of(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, const char *spec, gd_tensor **t)
{
    int count = 0;
    for (const char *term = spec;; term++) {
        int64_t shape[GD_MAX_DIMS];
        int length = (int)strcspn(term, ",-");
        t[count++] = noise(ctx, state, dtype, shape_of(term, length, shape), shape);
        term += length;
        if (*term != ',') return count;
    }
}

static const char *const specs[] = {
    "ab,bc->ac",      "ab,cb->ac",
    "ba,bc->ac",      "ab,bc->ca",
    "a,a->",          "a,b->ab",
    "ab,ab->ab",      "ab,b->a",
    "ab,b->ab",       "ab->ba",
    "ab->a",          "ab->",
    "aa->a",          "aa->",
    "aab->b",         "aba->ab",
    "abc,bcd->ad",    "bac,bcd->bad",
    "abcd,cbe->aed",  "ab,ac->bc",
    "abc,c->ab",      "ab,bc,cd->ad",
    "ab,b,c->ac",     "a,a,a->a",
    "abc,ad,be->dec", "ab,cd->abcd",
    "ab,bc,ca->",     "->",
    ",a->a",          "ab,ab->",
    "aab,bc->ac",     "abcb,bd->acd",
    "ae,be,ce->abc",  "abcde,edf->abcf",
};

static void letters_agree_with_loops(void **unused)
{
    (void)unused;
    static const gd_dtype dtypes[] = {GD_F64, GD_F32, GD_I64, GD_I32};
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 1;
    for (int d = 0; d < COUNT_OF(dtypes); d++)
        for (int s = 0; s < COUNT_OF(specs); s++) {
            gd_scope_begin(ctx);
            gd_tensor *t[MOST];
            int count = operands_of(ctx, &state, dtypes[d], specs[s], t);
            array in[MOST];
            for (int i = 0; i < count; i++) in[i] = array_of(t[i]);
            array want = reference(specs[s], in);
            gd_tensor *got = gd_einsum(specs[s], t, count);
            if (gd_error(ctx)) print_error("%s\n", specs[s]);
            assert_no_error(ctx);
            if (dtypes[d] != GD_I32) assert_int_equal(gd_tensor_dtype(got), dtypes[d]);
            assert_same(got, &want);
            for (int i = 0; i < count; i++) array_free(&in[i]);
            array_free(&want);
            gd_scope_end(ctx);
        }
    end_context(ctx, &m);
}

static void without_an_arrow_single_letters_come_in_alphabetical_order(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6), *b = MATRIX(ctx, 3, 2, 1, 0, 0, 1, 1, 1),
              *t[2] = {a, b};
    assert_values(gd_einsum("ij,jk", t, 2), 4, 5, 10, 11);
    assert_values(gd_einsum("kj,ji", t, 2), 4, 10, 5, 11); /* i before k */
    assert_values(gd_einsum("ba", t, 1), 1, 4, 2, 5, 3, 6);
    assert_values(gd_einsum("ij,ji", t, 2), 4 + 11);
    gd_tensor *square = MATRIX(ctx, 2, 2, 1, 2, 3, 4);
    assert_values(gd_einsum("ii", &square, 1), 5);
    assert_values(gd_einsum(" i j , j k -> i k ", t, 2), 4, 5, 10, 11);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- names ---- */

static void letters_carry_the_names_of_the_operands(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    const char *labels[] = {"x", "y"};
    gd_tensor *a = gd_with_labels(gd_rename(MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6), "row, inner"), "row",
                                  labels);
    gd_tensor *b = MATRIX(ctx, 3, 2, 1, 0, 0, 1, 1, 1), *c = gd_einsum("ij,jk->ki", (gd_tensor *[]){a, b}, 2);
    assert_null(gd_axis_name(c, 0));
    assert_string_equal(gd_axis_name(c, 1), "row");
    assert_string_equal(gd_axis_label(c, 1, 1), "y");
    assert_values(c, 4, 10, 5, 11);
    gd_tensor *same = gd_einsum("ij->ij", &a, 1);
    assert_string_equal(gd_axis_name(same, 1), "inner");
    gd_tensor *plain = gd_einsum("ij->ij", &b, 1);
    assert_true(plain != b);
    assert_values(plain, 1, 0, 0, 1, 1, 1);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void words_choose_axes_by_name_in_any_order(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    uint64_t state = 2;
    gd_tensor *a = noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 3, 4}),
              *b = noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 4, 5});
    gd_tensor *want = gd_matmul(a, b);
    double values[2 * 3 * 5];
    assert_int_equal(gd_read_f64(want, values, 30), GD_OK);
    gd_tensor *t[2] = {a, b}, *c = gd_einsum("batch i j, batch j k -> batch i k", t, 2);
    assert_values_at(c, values, 30, 1e-12, __FILE__, __LINE__);
    assert_string_equal(gd_axis_name(c, 0), "batch");
    assert_string_equal(gd_axis_name(c, 2), "k");
    t[0] = gd_rename(gd_permute(a, (int[]){2, 0, 1}), "j, batch, i");
    t[1] = gd_rename(gd_permute(b, (int[]){1, 2, 0}), "j, k, batch");
    c = gd_einsum("batch i j, batch j k -> batch i k", t, 2);
    assert_values_at(c, values, 30, 1e-12, __FILE__, __LINE__);
    /* one word twice is a diagonal, also where an axis has that name */
    gd_tensor *named = gd_rename(MATRIX(ctx, 2, 2, 1, 2, 3, 4), "row, column");
    c = gd_einsum("column column ->", &named, 1);
    assert_values(c, 5);
    c = gd_einsum("time,time->", (gd_tensor *[]){VECTOR(ctx, 1, 2), VECTOR(ctx, 3, 4)}, 2);
    assert_values(c, 11);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void contract_sums_over_shared_names(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_rename(MATRIX(ctx, 2, 3, 1, 2, 3, 4, 5, 6), "i, k");
    gd_tensor *b = gd_rename(MATRIX(ctx, 2, 3, 1, 0, 1, 0, 1, 1), "j, k"), *c = gd_contract(a, b, "k");
    assert_shape(c, 2, 2);
    assert_string_equal(gd_axis_name(c, 0), "i");
    assert_string_equal(gd_axis_name(c, 1), "j");
    assert_values(c, 4, 5, 10, 11);
    assert_values(gd_contract(a, b, NULL), 4, 5, 10, 11);
    /* shared names that are not summed over walk together, in the left's order */
    gd_tensor *d = gd_rename(MATRIX(ctx, 3, 2, 1, 4, 2, 5, 3, 6), "k, i");
    assert_values(gd_contract(a, d, "k"), 14, 77);
    assert_string_equal(gd_axis_name(gd_contract(a, d, "k"), 0), "i");
    assert_values(gd_contract(a, d, "i, k"), 91);
    assert_values(gd_contract(a, d, ""), 91);
    /* anonymous axes stay apart */
    gd_tensor *e = gd_rename(MATRIX(ctx, 3, 2, 1, 0, 0, 1, 0, 0), "k, _");
    assert_shape(gd_contract(gd_rename(a, "_, k"), e, "k"), 2, 2);
    assert_values(gd_contract(gd_rename(a, "_, k"), e, "k"), 1, 2, 4, 5);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void labels_are_matched(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    const char *abc[] = {"a", "b", "c"}, *cab[] = {"c", "a", "b"}, *abd[] = {"a", "b", "d"};
    gd_tensor *x = gd_with_labels(gd_rename(VECTOR(ctx, 1, 2, 3), "k"), "k", abc);
    gd_tensor *y = gd_with_labels(gd_rename(VECTOR(ctx, 30, 10, 20), "k"), "k", cab);
    assert_values(gd_contract(x, y, "k"), 10 + 40 + 90);
    assert_values(gd_einsum("i,i->i", (gd_tensor *[]){x, y}, 2), 10, 40, 90);
    assert_string_equal(gd_axis_label(gd_einsum("i,i->i", (gd_tensor *[]){y, x}, 2), 0, 0), "c");
    assert_null(gd_contract(x, gd_with_labels(y, "k", abd), "k"));
    assert_error(ctx, GD_LABEL, "contract: axis 'k' has the label 'c' only on one side");
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- gradients, determinism, errors ---- */

static gd_tensor *einsum_of(void *user, gd_tensor *const *in, int count)
{
    return gd_einsum(user, in, count);
}

static gd_tensor *contract_of(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    return gd_contract(in[0], in[1], user);
}

static void gradients_pass_the_check_to_second_order(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 2, NULL);
    uint64_t state = 3;
    gd_gradcheck_options o = gd_gradcheck_defaults();
    for (int s = 0; s < COUNT_OF(specs); s++) {
        if (!strcmp(specs[s], "abcde,edf->abcf")) continue;
        gd_scope_begin(ctx);
        gd_tensor *t[MOST];
        char spec[32];
        strcpy(spec, specs[s]);
        int count = operands_of(ctx, &state, GD_F64, spec, t);
        int64_t elements = 0;
        for (int i = 0; i < count; i++) elements += gd_numel(t[i]);
        o.order = elements < 40 ? 2 : 1;
        assert_int_equal(gd_gradcheck(einsum_of, spec, t, count, &o), GD_OK);
        assert_no_error(ctx);
        gd_scope_end(ctx);
    }
    gd_scope_begin(ctx);
    gd_tensor *t[2] = {gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 3, 2}), "b, i, k"),
                       gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 2, 2}), "k, j, b")};
    char axes[] = "k";
    o.order = 2;
    assert_int_equal(gd_gradcheck(contract_of, axes, t, 2, &o), GD_OK);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void bits_do_not_depend_on_the_threads(void **unused)
{
    (void)unused;
    double first[40 * 30], other[40 * 30];
    for (int threads = 1; threads <= 4; threads *= 2) {
        gd_ctx *ctx = context(NULL, threads, NULL);
        gd_scope_begin(ctx);
        uint64_t state = 4;
        gd_tensor *t[2] = {noise(ctx, &state, GD_F64, 3, (int64_t[]){70, 40, 90}),
                           noise(ctx, &state, GD_F64, 3, (int64_t[]){90, 30, 70})};
        assert_int_equal(gd_read_f64(gd_einsum("kil,ljk->ij", t, 2), threads == 1 ? first : other, 1200),
                         GD_OK);
        if (threads > 1) assert_memory_equal(first, other, sizeof first);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

static void bad_texts_and_sizes_are_named(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_ones(ctx, GD_F64, 2, (int64_t[]){2, 3}),
              *b = gd_ones(ctx, GD_F64, 2, (int64_t[]){4, 5}), *t[2] = {a, b};
    assert_null(gd_einsum("ij,jk->ik", t, 2));
    assert_error(ctx, GD_SHAPE, "einsum: axis 'j' has 3 on the left and 4 on the right");
    assert_null(gd_einsum("ii->i", t, 1));
    assert_error(ctx, GD_SHAPE, "einsum: axis 'i' has 2 in operand 0 and 3 in operand 0");
    assert_null(gd_einsum("ijk,kl->il", t, 2));
    assert_error(ctx, GD_SHAPE, "einsum: term 0 has 3 axes, operand [2, 3] has 2");
    assert_null(gd_einsum("ij->ik", t, 1));
    assert_error(ctx, GD_AXIS, "einsum: 'k' is in the output, but in no operand");
    assert_null(gd_einsum("ij->ii", t, 1));
    assert_error(ctx, GD_AXIS, "einsum: 'i' is twice in the output");
    assert_null(gd_einsum("ij,kl->ik", t, 1));
    assert_error(ctx, GD_ARGUMENT, "einsum: more than 1 terms for 1 operands");
    assert_null(gd_einsum("ij->i", t, 2));
    assert_error(ctx, GD_ARGUMENT, "einsum: 1 terms for 2 operands");
    assert_null(gd_einsum("i.->i", t, 1));
    assert_error(ctx, GD_PARSE, "einsum: column 2: unexpected '.'");
    assert_null(gd_einsum("ij->i->j", t, 1));
    assert_error(ctx, GD_PARSE, "einsum: column 6: the output is one term");
    assert_null(gd_einsum(NULL, t, 1));
    assert_error(ctx, GD_ARGUMENT, "einsum: no text");
    assert_null(gd_einsum("abcdefghi->a", t, 1));
    assert_error(ctx, GD_SHAPE, "einsum: column 9: a term with more than 8 axes");
    assert_null(gd_einsum("ij,jk", (gd_tensor *[]){a, NULL}, 2));
    assert_error(ctx, GD_ARGUMENT, "einsum: an operand is NULL");
    gd_tensor *x = gd_rename(a, "i, k"), *y = gd_rename(b, "j, k");
    assert_null(gd_contract(x, y, "k"));
    assert_error(ctx, GD_SHAPE, "contract: axis 'k' has 3 on the left and 5 on the right");
    assert_null(gd_contract(x, y, "i"));
    assert_error(ctx, GD_AXIS, "contract: no axis 'i' in [j=4, k=5]");
    assert_null(gd_contract(x, y, "z"));
    assert_error(ctx, GD_AXIS, "contract: no axis 'z' in [i=2, k=3]");
    assert_null(gd_contract(a, y, "1"));
    assert_error(ctx, GD_AXIS, "contract: axis 1 has no name");
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

/* Sums over letters, words and names; true when all of it worked. */
static bool touch_everything(gd_ctx *ctx)
{
    uint64_t state = 5;
    gd_tensor *a = gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 3, 4}), "b, i, k");
    gd_tensor *b = noise(ctx, &state, GD_F64, 3, (int64_t[]){4, 4, 2});
    gd_tensor *x = gd_einsum("bik,kkb,i->ib", (gd_tensor *[]){a, b, gd_einsum("bik->i", &a, 1)}, 3);
    gd_tensor *y = gd_einsum("b i k, k l b -> l i", (gd_tensor *[]){a, b}, 2);
    gd_tensor *z = gd_contract(a, gd_rename(b, "k, l, b"), "k");
    return x && y && z;
}

static void every_failed_allocation_is_an_error_without_a_leak(void **unused)
{
    (void)unused;
    fail_each_allocation(1, touch_everything);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_agree_with_loops),
        cmocka_unit_test(without_an_arrow_single_letters_come_in_alphabetical_order),
        cmocka_unit_test(letters_carry_the_names_of_the_operands),
        cmocka_unit_test(words_choose_axes_by_name_in_any_order),
        cmocka_unit_test(contract_sums_over_shared_names),
        cmocka_unit_test(labels_are_matched),
        cmocka_unit_test(gradients_pass_the_check_to_second_order),
        cmocka_unit_test(bits_do_not_depend_on_the_threads),
        cmocka_unit_test(bad_texts_and_sizes_are_named),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
