/* The table of operator cases is complete and honest: every operator of ops.def and every public function
 * that makes a tensor has a row, and every row really runs the operator it is there for. */
#include "support/op_cases.h"
#include "tensor/device.h"

#include <ctype.h>

/* ---- watching which operators run ---- */

static int64_t ran[GD_OP_COUNT];
static const gd_backend *real;

static gd_status counting_run(gd_device *device, const gd_call *call)
{
    ran[call->op]++;
    return real->run(device, call);
}

/* Views leave no call, but a node in the graph. */
static void count_nodes(const gd_tensor *t)
{
    if (!t || !t->node) return;
    ran[t->node->op]++;
    for (int k = 0; k < t->node->nin; k++) count_nodes(t->node->in[k]);
}

static void run_counted(gd_ctx *ctx, const op_case *c, layout l)
{
    case_inputs inputs;
    gd_scope_begin(ctx);
    assert_true(case_build(&inputs, ctx, c, l, case_dtype(c), 1, false, false));
    for (int k = 0; k < c->operands; k++)
        if (gd_dtype_is_float(gd_tensor_dtype(inputs.leaf[k]))) (void)gd_require_grad(inputs.leaf[k]);
    memset(ran, 0, sizeof ran);
    count_nodes(case_apply(&inputs, ctx, inputs.leaf));
    assert_no_error(ctx);
    gd_scope_end(ctx);
}

static void every_operator_has_a_case(void **state)
{
    (void)state;
    int missing = 0;
    for (int op = 0; op < GD_OP_COUNT; op++) {
        bool found = false;
        for (int k = 0; k < op_case_count() && !found; k++) found = op_case_at(k)->op == op;
        if (!found) print_error("operator '%s' has no case in tests/support/cases_*.c\n", gd__ops[op].name);
        missing += !found;
    }
    assert_int_equal(missing, 0);
    print_message("%d operators, %d cases\n", (int)GD_OP_COUNT, op_case_count());
}

static void every_case_runs_its_operator(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_device *cpu = gd_device_get(ctx, "cpu");
    gd_backend watched = *cpu->backend;
    real = cpu->backend;
    watched.run = counting_run;
    cpu->backend = &watched;
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        bool seen = c->op == NO_OPERATOR;
        for (layout l = 0; l < LAYOUTS && !seen; l++) {
            if (!case_has_layout(c, l)) continue;
            run_counted(ctx, c, l);
            seen = ran[c->op] > 0;
        }
        if (!seen) fail_msg("case '%s' does not run '%s'", c->name, gd__ops[c->op].name);
    }
    cpu->backend = real;
    end_context(ctx, NULL);
}

/* Differentiable operators have a case whose gradients are checked, and a reason stands where order 2 is
 * not. */
static void every_differentiable_operator_is_checked(void **state)
{
    (void)state;
    for (int op = 0; op < GD_OP_COUNT; op++) {
        bool found = !gd__ops[op].differentiable;
        for (int k = 0; k < op_case_count() && !found; k++)
            found = op_case_at(k)->op == op && op_case_at(k)->order > 0;
        if (!found) fail_msg("no case checks the gradient of '%s'", gd__ops[op].name);
    }
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        if (c->order == 1 && !c->why) fail_msg("case '%s' gives no reason for order 1", c->name);
        assert_true(c->reference || c->holds);
    }
}

/* ---- the public header ---- */

static bool has_case(const char *name, size_t length)
{
    for (int k = 0; k < op_case_count(); k++) {
        const char *title = op_case_at(k)->name;
        if (strncmp(title, name, length) == 0 && (!title[length] || title[length] == '/')) return true;
    }
    return false;
}

/* Functions that return a tensor without making one. */
static bool no_operator(const char *name, size_t length)
{
    static const char *const known[] = {"retain", "keep", "empty_on"};
    for (int i = 0; i < COUNT_OF(known); i++)
        if (strlen(known[i]) == length && strncmp(known[i], name, length) == 0) return true;
    return false;
}

static int check_name(const char *name)
{
    size_t length = 0;
    while (isalnum((unsigned char)name[length]) || name[length] == '_') length++;
    /* macros that stamp out prototypes paste a name; their lists are checked below */
    if (length == 0 || name[length] != '(' || no_operator(name, length) || has_case(name, length)) return 0;
    print_error("gd_%.*s has no case in tests/support/cases_*.c\n", (int)length, name);
    return 1;
}

static void every_public_operator_has_a_case(void **state)
{
    (void)state;
    FILE *file = fopen(GD_TEST_DIR "/../include/gradus/tensor.h", "r");
    assert_non_null(file);
    char line[512];
    int missing = 0, found = 0;
    while (fgets(line, sizeof line, file)) {
        static const char *const starts[] = {"gd_tensor *gd_", "GD_NODISCARD gd_status gd_"};
        for (int i = 0; i < COUNT_OF(starts); i++) {
            bool several = i == 1;
            if (strncmp(line, starts[i], strlen(starts[i])) != 0) continue;
            const char *name = line + strlen(starts[i]);
            /* of the verbs only those with several results are operators */
            if (several && !strstr(line, "gd_tensor **")) continue;
            missing += check_name(name);
            found++;
        }
    }
    (void)fclose(file);
#define LISTED(name) missing += check_name(#name "(");
    GD_UNARY_LIST(LISTED)
    GD_BINARY_LIST(LISTED)
    assert_int_equal(missing, 0);
    assert_true(found > 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_has_a_case),
        cmocka_unit_test(every_case_runs_its_operator),
        cmocka_unit_test(every_differentiable_operator_is_checked),
        cmocka_unit_test(every_public_operator_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
