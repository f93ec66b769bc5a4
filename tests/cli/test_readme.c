/* What the README shows is so: its commands run, its C program is the example that the tests compile and run. */
#include "program.h"

static char readme[1 << 16], example[1 << 14];

static int start(void **state)
{
    if (enter_folder(state)) return -1;
    slurp(GD_TEST_DIR "/../README.md", readme, sizeof readme);
    return *readme && symlink(GD_TEST_DIR "/../examples", "examples") == 0 ? 0 : -1;
}

static void its_commands_run(void **state)
{
    (void)state;
    int commands = 0;
    for (const char *s = readme; (s = strstr(s, "\n    gradus ")); s++) {
        char arguments[1024];
        const char *begin = s + strlen("\n    gradus "), *end = strchr(begin, '\n');
        snprintf(arguments, sizeof arguments, "%.*s", (int)(end - begin), begin);
        char *comment = strstr(arguments, "  #");
        if (comment) *comment = 0;
        works(arguments);
        commands++;
    }
    assert_true(commands >= 6);
    assert_true(exists("path.svg") && exists("fit.svg") && exists("arms.safetensors") && exists("arms.csv"));
}

static void its_program_is_the_example(void **state)
{
    (void)state;
    slurp(GD_TEST_DIR "/../examples/rosenbrock.c", example, sizeof example);
    const char *code = strstr(example, "#include"), *block = strstr(readme, "```c\n");
    assert_true(code && block);
    block += 5;
    assert_true(!strncmp(block, code, strlen(code)) && !strncmp(block + strlen(code), "```", 3));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(its_commands_run), TEST(its_program_is_the_example)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
