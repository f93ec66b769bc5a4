/* Programs: what the verifier refuses, and which passes they have. */
#include "program/axes_property.h"

/* ---- the verifier ---- */

typedef struct fault {
    const char *text; /* in the message */
    void (*make)(gd_program *p);
} fault;

static void last_reads_itself(gd_program *p) { p->instr[p->count - 1].a = p->count - 1; }
static void reads_later(gd_program *p) { p->instr[p->count - 2].a = p->count - 1; }
static void negative_operand(gd_program *p) { p->instr[p->count - 1].a = -2; }
static void operand_missing(gd_program *p) { p->instr[p->count - 1].b = -1; }
static void operand_too_many(gd_program *p) { p->instr[p->count - 1].c = 0; }
static void unknown_op(gd_program *p) { p->instr[p->count - 1].op = GD_I_COUNT; }
static void array_outside(gd_program *p) { p->instr[0].index = p->arrays; }
static void array_negative(gd_program *p) { p->instr[0].index = -1; }
static void uniform_outside(gd_program *p) { p->instr[4].index = p->uniforms; }
static void element_said_uniform(gd_program *p) { p->instr[p->count - 1].uniform = 1; }
static void load_said_uniform(gd_program *p) { p->instr[0].uniform = 1; }
static void uniform_said_element(gd_program *p) { p->instr[4].uniform = 0; }
static void level_too_low(gd_program *p) { p->instr[p->count - 1].level = 0; }
static void level_too_high(gd_program *p) { p->instr[0].level = 1; }
static void levels_wrong(gd_program *p) { p->levels = 2; }
static void reduction_unlisted(gd_program *p) { p->reductions = 0; }
static void reduction_elsewhere(gd_program *p) { p->reduction[0] = 0; }
static void extent_unknown(gd_program *p) { p->instr[p->reduction[0]].extent = 9; }
static void not_marked_loaded(gd_program *p) { p->array[0].loaded = false; }
static void marked_loaded(gd_program *p) { add_array(p, GD_F32), p->array[p->arrays - 1].loaded = true; }
static void integer_array(gd_program *p) { p->array[0].dtype = GD_I32; }
static void array_kind(gd_program *p) { p->array[0].kind = (gd_array_kind)17; }
static void store_outside(gd_program *p) { p->array[1].store = p->count; }
static void store_below(gd_program *p) { p->array[1].store = -2; }
static void array_twice(gd_program *p) { p->array[2].slot = p->array[3].slot; }
static void uniform_kind(gd_program *p) { p->uniform[0].kind = (gd_uniform_kind)17; }
static void uniform_stores(gd_program *p) { p->uniform[0].store = 4; }
static void scalar_stores_element(gd_program *p)
{
    p->uniform[0].kind = GD_U_SCALAR, p->uniform[0].store = 0;
}
static void scalar_stores_nothing(gd_program *p)
{
    p->uniform[0].kind = GD_U_SCALAR, p->uniform[0].store = p->count;
}
static void compute_in_f16(gd_program *p) { p->compute = GD_F16; }
static void too_many(gd_program *p) { p->count = GD_MAX_INSTRS + 1; }
static void less_than_none(gd_program *p) { p->arrays = -1; }

static void verifier_names_what_is_wrong(void **state)
{
    (void)state;
    static const fault faults[] = {
        {"reads what comes later", last_reads_itself},
        {"reads what comes later", reads_later},
        {"lacks an operand", negative_operand},
        {"lacks an operand", operand_missing},
        {"too many operands", operand_too_many},
        {"is not an instruction", unknown_op},
        {"array that is not there", array_outside},
        {"array that is not there", array_negative},
        {"input that is not there", uniform_outside},
        {"cannot be uniform", element_said_uniform},
        {"cannot be uniform", load_said_uniform},
        {"should be uniform", uniform_said_element},
        {"wrong level", level_too_low},
        {"wrong level", level_too_high},
        {"number of levels", levels_wrong},
        {"list of reductions", reduction_unlisted},
        {"list of reductions", reduction_elsewhere},
        {"unknown extent", extent_unknown},
        {"not marked", not_marked_loaded},
        {"marked as loaded but", marked_loaded},
        {"dtype", integer_array},
        {"unknown kind", array_kind},
        {"stores a missing value", store_outside},
        {"stores a missing value", store_below},
        {"there twice", array_twice},
        {"unknown kind", uniform_kind},
        {"is no scalar", uniform_stores},
        {"stores an element", scalar_stores_element},
        {"stores a missing", scalar_stores_nothing},
        {"neither f32 nor f64", compute_in_f16},
        {"count", too_many},
        {"count", less_than_none},
    };
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    for (int i = 0; i < COUNT_OF(faults); i++) {
        make_adamw(p, ctx, GD_F32, GD_F32, true);
        assert_int_equal(gd__program_verify(p), GD_OK);
        faults[i].make(p);
        assert_int_equal(gd__program_verify(p), GD_INTERNAL);
        if (!strstr(gd_error_text(ctx), faults[i].text)) fail_msg("case %d: %s", i, gd_error_text(ctx));
        gd_clear_error(ctx);
    }
    free(p);
    end_context(ctx, NULL);
}

static void random_from_memory(gd_program *p)
{
    p->array[p->instr[p->count - 1].index].kind = GD_ARRAY_STATE;
}
static void random_stored(gd_program *p) { p->array[p->arrays - 1].store = 0; }
static void random_in_another_dtype(gd_program *p) { p->array[p->arrays - 1].dtype = GD_F16; }
static void random_key_differs(gd_program *p) { p->instr[p->count - 1].a = 0; }

static void verifier_looks_at_random_numbers(void **state)
{
    (void)state;
    static const fault faults[] = {{"mistakes memory for random", random_from_memory},
                                   {"cannot hold random", random_stored},
                                   {"cannot hold random", random_in_another_dtype},
                                   {"key that differs", random_key_differs}};
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    for (int i = 0; i < COUNT_OF(faults); i++) {
        make_adamw(p, ctx, GD_F32, GD_F32, true);
        add_random(p, GD_RANDOM_NORMAL, 0);
        assert_int_equal(gd__program_verify(p), GD_OK);
        faults[i].make(p);
        assert_int_equal(gd__program_verify(p), GD_INTERNAL);
        if (!strstr(gd_error_text(ctx), faults[i].text)) fail_msg("case %d: %s", i, gd_error_text(ctx));
        gd_clear_error(ctx);
    }
    free(p);
    end_context(ctx, NULL);
}

static void verifier_accepts_random_programs(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    for (uint64_t seed = 0; seed < 300; seed++) {
        uint64_t s = seed;
        make_random(p, ctx, &s, seed % 50 == 0 ? GD_MAX_INSTRS : 20 + pick(&s, 60));
        (void)gd__program_verify(p);
        assert_no_error(ctx);
    }
    free(p);
    end_context(ctx, NULL);
}

/* ---- passes ---- */

static void a_reduction_is_a_pass_of_its_own(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    gd_pass pass;
    make_adamw(p, ctx, GD_F32, GD_F32, true);
    assert_int_equal(p->levels, 1);
    gd__program_pass(p, 0, &pass);
    assert_false(pass.last);
    assert_int_equal(pass.loads, 1); /* the gradient alone */
    assert_int_equal(pass.stores, 0);
    assert_int_equal(pass.reductions, 1);
    assert_int_equal(pass.used_count, 0);
    gd__program_pass(p, 1, &pass);
    assert_true(pass.last);
    assert_int_equal(pass.loads, 15);
    assert_int_equal(pass.stores, 14);
    assert_int_equal(pass.reductions, 0);
    assert_int_equal(pass.used_count,
                     6); /* five settings and the clip factor; constants are part of the kernel */
    for (int k = 0; k < pass.used_count; k++) assert_int_not_equal(p->instr[pass.used[k]].op, GD_I_CONST);
    free(p);
    end_context(ctx, NULL);
}

static void a_program_that_stores_nothing_has_an_empty_pass(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    gd_pass pass;
    *p = (gd_program){.ctx = ctx, .compute = GD_F64};
    add_load(p, add_array(p, GD_F64));
    assert_int_equal(gd__program_verify(p), GD_OK);
    gd__program_pass(p, 0, &pass);
    assert_int_equal(pass.loads | pass.stores, 0);
    tensors t = make_tensors(p, 5, 1), before = make_tensors(p, 5, 1);
    gd__interpret(p, &pass, 0, 5, t.array, NULL, NULL);
    assert_true(same_tensors(p, &t, &before));
    free_tensors(&t);
    free_tensors(&before);
    free(p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verifier_names_what_is_wrong),
        cmocka_unit_test(verifier_looks_at_random_numbers),
        cmocka_unit_test(verifier_accepts_random_programs),
        cmocka_unit_test(a_reduction_is_a_pass_of_its_own),
        cmocka_unit_test(a_program_that_stores_nothing_has_an_empty_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
