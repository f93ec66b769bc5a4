/* Every function of every public header, called with NULL in each place and in all: it neither crashes nor says OK, and the
 * first error stays.  The calls are made from the headers by tools/gen/gen_null_calls. */
#include "api/some_values.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EVERYWHERE = -1 };
/* What is wrong with a call that came back, as exit status of the child. */
enum { RIGHT = 0, SAID_OK = 10, GAVE_HANDLE, NOT_RECORDED, REPLACED_ERROR, OTHER_STATUS };

static struct {
    const null_call *function;
    int null_at;
    bool after_error; /* an error was recorded before */
    int verdict;
} now;

#define IS_NULL(i) (now.null_at == EVERYWHERE || now.null_at == (i))

/* The handle the function is about is the first it takes. */
static bool subject_is_null(void)
{
    const char *subject = strchr(now.function->handles, '1');
    return subject && IS_NULL((int)(subject - now.function->handles));
}

static bool is_handle(int i) { return i >= 0 && now.function->handles[i] == '1'; }

static void note_status(gd_status status)
{
    if (!status && subject_is_null()) now.verdict = SAID_OK;
    if (!status || subject_is_null() || !strchr(now.function->handles, '1'))
        return; /* no context to record it in */
    if (!gd_error(world.ctx)) now.verdict = NOT_RECORDED;
    if (now.after_error && is_handle(now.null_at) && status != GD_PARSE) now.verdict = OTHER_STATUS;
}

#define GAVE_STATUS(status)   note_status(status)
#define GAVE_TEXT(text)       ((text) ? (void)strlen(text) : (void)0)
#define GAVE_POINTER(pointer) ((pointer) && subject_is_null() ? (void)(now.verdict = GAVE_HANDLE) : (void)0)

#pragma GCC diagnostic ignored "-Wformat-security" /* texts without arguments */
#include "null_calls.h"

static const char first_error[] = "chain: column 1: link 'lbgfs' unknown, did you mean 'lbfgs'?";

static void in_child(void)
{
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (int s = 0; s < COUNT_OF(fatal); s++)
        signal(fatal[s], SIG_DFL); /* cmocka's would go on with the parent's tests */
    /* The context may be gone afterwards. */
    bool ends = !strcmp(now.function->name, "gd_ctx_free") || !strcmp(now.function->name, "gd_clear_error");
    if (now.after_error) gd_fail(world.ctx, GD_PARSE, "%s", first_error);
    now.function->call();
    if (now.after_error && !now.verdict && !ends && strcmp(gd_error_text(world.ctx), first_error) != 0)
        now.verdict = REPLACED_ERROR;
    fflush(NULL);
    _exit(now.verdict);
}

static int try_call(void)
{
    static const char *const said[] = {"returned OK", "returned a handle", "failed without recording why",
                                       "replaced the first error", "did not return the first error"};
    fflush(NULL);
    pid_t child = fork();
    if (!child) in_child();
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == RIGHT) return 0;
    char place[32] = "everywhere";
    if (now.null_at >= 0) snprintf(place, sizeof place, "as argument %d", now.null_at + 1);
    int verdict = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    print_error("%s with NULL %s%s %s\n", now.function->name, place, now.after_error ? " after an error" : "",
                verdict >= SAID_OK && verdict <= OTHER_STATUS ? said[verdict - SAID_OK] : "crashed");
    return 1;
}

static int wrong;

static void try_all(void)
{
    for (int i = 0; i < COUNT_OF(null_calls); i++)
        for (int at = EVERYWHERE; at < (int)strlen(null_calls[i].pointers); at++) {
            if (at >= 0 && null_calls[i].pointers[at] == '0') continue;
            for (int after = 0; after < 2; after++) {
                now.function = &null_calls[i], now.null_at = at, now.after_error = after, now.verdict = RIGHT;
                wrong += try_call();
            }
        }
}

/* A rule and a var live only inside a step: the calls are made there. */
static gd_value rule_with_calls(gd_rule *r, gd_value update)
{
    if (!world.rule) {
        world.rule = r;
        try_all();
    }
    return update;
}
static const gd_link_class rule_class = {.name = "rule_with_calls", .rule = rule_with_calls};

static gd_status step_with_calls(gd_link *link, gd_var *var)
{
    (void)link;
    world.var = var;
    gd_optimizer *inner = gd_optimizer_new(world.ctx, gd_link_new(world.ctx, &rule_class));
    gd_status status = gd_optimizer_add(inner, "p", world.tensor);
    gd_objective objective = {.loss = some_loss, .user = world.tensor};
    if (!status) status = gd_optimizer_step(inner, &objective, NULL);
    gd_optimizer_free(inner);
    return status;
}
static const gd_link_class step_class = {.name = "step_with_calls", .step = step_with_calls};

static void every_function_takes_null(void **state)
{
    (void)state;
    make_world(NULL);
    gd_optimizer *optimizer = gd_optimizer_new(world.ctx, gd_link_new(world.ctx, &step_class));
    assert_int_equal(gd_optimizer_add(optimizer, "p", world.tensor), GD_OK);
    gd_objective objective = {.loss = some_loss, .user = world.tensor};
    assert_int_equal(gd_optimizer_step(optimizer, &objective, NULL), GD_OK);
    assert_non_null(world.rule);
    gd_optimizer_free(optimizer);
    end_world();
    if (wrong) fail_msg("%d calls with NULL went wrong", wrong);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_function_takes_null)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
