/* The README's C program is the example that the tests compile and run.  docs/samples runs its commands. */
#include "program.h"

#define START "```c\n/* rosenbrock.c */\n"

static char readme[1 << 16], example[1 << 14];

static int start(void **state)
{
    if (enter_folder(state)) return -1;
    slurp(GD_TEST_DIR "/../README.md", readme, sizeof readme);
    return *readme && symlink(GD_TEST_DIR "/../examples", "examples") == 0 ? 0 : -1;
}

static void its_program_is_the_example(void **state)
{
    (void)state;
    slurp(GD_TEST_DIR "/../examples/rosenbrock.c", example, sizeof example);
    const char *code = strstr(example, "#include"), *block = strstr(readme, START);
    assert_true(code && block);
    block += strlen(START);
    assert_true(!strncmp(block, code, strlen(code)) && !strncmp(block + strlen(code), "```", 3));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(its_program_is_the_example)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
