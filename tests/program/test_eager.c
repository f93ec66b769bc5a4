/* Programs with gd_program.eager: the bits of operators. */
#include "program/random_program.h"
#include "tensor/device.h"

/* One instruction on n elements of the compute type, as a program with eager's functions. */
static void run_eagerly(gd_ctx *ctx, gd_dtype dtype, unsigned op, int operands, int64_t n,
                        gd_tensor *const *in, double *result)
{
    gd_program *p = new_program();
    gd_pass pass;
    *p = (gd_program){.ctx = ctx, .compute = dtype, .eager = true};
    int32_t from[3] = {-1, -1, -1};
    char *data[4];
    for (int k = 0; k < operands; k++) {
        from[k] = add_load(p, add_array(p, dtype));
        data[k] = gd_data_mut(in[k]);
    }
    int32_t out = add_array(p, dtype);
    p->array[out].store = add_op(p, (gd_opcode)op, from[0], from[1], from[2]);
    gd_tensor *to = gd_empty_on(gd_tensor_device(in[0]), dtype, 1, &n);
    data[out] = gd_data_mut(to);
    assert_int_equal(gd__program_verify(p), GD_OK);
    gd__program_pass(p, 0, &pass);
    gd__interpret(p, &pass, 0, n, data, NULL, NULL);
    for (int64_t i = 0; i < n; i++) result[i] = get_number(data[out], dtype, i);
    free(p);
}

/* Every operator that is an instruction and has no settings. */
static void eager_programs_have_the_bits_of_operators(void **state)
{
    (void)state;
    enum { N = 500 };
    uint64_t seed = 11;
    int compared = 0;
    for (int op = 0; op < GD_OP_COUNT; op++)
        for (int wide = 0; wide < 2; wide++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            gd_scope_begin(ctx);
            gd_dtype dtype = wide ? GD_F64 : GD_F32;
            int opcode = gd__opcode_of((gd_op_id)op), inputs = gd__ops[op].inputs;
            bool plain_kernel = opcode >= 0 && gd__opcode_operands((unsigned)opcode) == inputs &&
                                gd__ops[op].kind == GD_KIND_MAP && op != GD_OP_where;
            if (plain_kernel) {
                double value[3][N], got[N];
                gd_tensor *in[3];
                for (int k = 0; k < inputs; k++) {
                    for (int i = 0; i < N; i++) value[k][i] = random_number(&seed);
                    in[k] = gd_cast(gd_from_data(ctx, GD_F64, 1, (int64_t[]){N}, value[k]), dtype);
                }
                gd_tensor *out = gd_empty_on(gd_tensor_device(in[0]), dtype, 1, (int64_t[]){N});
                assert_int_equal(gd__execute((gd_op_id)op, in, inputs, &(gd_attrs){0}, &out, 1), GD_OK);
                run_eagerly(ctx, dtype, (unsigned)opcode, inputs, N, in, got);
                for (int i = 0; i < N; i++)
                    if (!same_number(get_number(gd_data(out), dtype, i), got[i]))
                        fail_msg("%s(%a, ...): %a in a program", gd__ops[op].name, value[0][i], got[i]);
                compared++;
            }
            gd_scope_end(ctx);
            end_context(ctx, NULL);
        }
    assert_true(compared > 2 * 35);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(eager_programs_have_the_bits_of_operators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
