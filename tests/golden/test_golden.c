/* Recorded runs of another implementation, step by step: losses and parameters must agree, evaluations not be more.
 *
 * traces.jsonl holds the runs, torch.jsonl those of PyTorch's optimizers (tools/record_torch.py), data/ their arrays, EXPECTED_DIFFERENCES the runs that we follow only so far, with the
 * reason.  Runs with links that do not exist here yet are counted and skipped. */
#include "expr/expr_internal.h"
#include "gradus/gradus.h"
#include "gradus/optim.h"
#include "tensor/tensor_internal.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_NAMES 32

typedef struct problem {
    gd_ctx *ctx;
    gd_expr *expr;
    const char *name[MAX_NAMES];
    gd_tensor *value[MAX_NAMES];
    int params, names;
} problem;

static gd_tensor *load_array(gd_ctx *ctx, const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/data/%s.npy", GD_TEST_DIR, name);
    return gd_npy_load(ctx, path);
}

static gd_tensor *literal(gd_ctx *ctx, const json_t *v)
{
    if (json_is_number(v)) return gd_scalar(ctx, GD_F64, json_number_value(v));
    if (json_is_string(v)) return load_array(ctx, json_string_value(v) + 1);
    double flat[16];
    int64_t n = (int64_t)json_array_size(v);
    for (int64_t i = 0; i < n; i++) flat[i] = json_number_value(json_array_get(v, (size_t)i));
    return gd_from_f64(ctx, GD_F64, 1, &n, flat);
}

/* GD_TEST_DEVICE=gpu runs the recordings there: on a GPU, or as plain/golden on the device of backends/plain.  Links that look at
 * a tensor's data, or make tensors on the CPU to go with them, fail on both. */
static gd_device *place(gd_ctx *ctx)
{
    const char *name = getenv("GD_TEST_DEVICE");
    return gd_device_get(ctx, name ? name : "cpu");
}

static gd_tensor *placed(gd_device *device, gd_tensor *t)
{
    gd_tensor *moved = gd_to_device(t, device);
    gd_release(t);
    return moved;
}

static void open_problem(problem *p, const json_t *run)
{
    const char *key;
    json_t *v;
    gd_device *device = place(p->ctx);
    json_object_foreach(json_object_get(run, "params"), key, v)
    {
        p->name[p->names] = key;
        p->value[p->names++] = gd_require_grad(placed(device, literal(p->ctx, v)));
        p->params++;
    }
    json_object_foreach(json_object_get(run, "data"), key, v)
    {
        p->name[p->names] = key;
        p->value[p->names++] = placed(device, load_array(p->ctx, json_string_value(v)));
    }
    p->expr = gd_expr_parse(p->ctx, json_string_value(json_object_get(run, "expr")),
                            &(gd_expr_options){.names = p->name, .count = p->names});
}

static void close_problem(problem *p)
{
    gd_expr_free(p->expr);
    for (int i = 0; i < p->names; i++) gd_release(p->value[i]);
}

static gd_tensor *loss_of(void *user)
{
    problem *p = user;
    return gd_expr_eval(p->expr, p->value, GD_F64);
}

static bool close_to(double got, double want, double rtol)
{
    return isfinite(got) && fabs(got - want) <= fmin(1e-9, rtol) + rtol * fabs(want);
}

/* A run may say it; chains with finite differences reproduce fewer digits. */
static double tolerance(const json_t *run, const char *chain)
{
    const json_t *said = json_object_get(run, "rtol");
    if (said) return json_number_value(said);
    const char *const loose[] = {"fdm", "central", "forward", "two_point", "hpu"};
    for (size_t i = 0; i < sizeof loose / sizeof *loose; i++)
        if (strstr(chain, loose[i])) return 1e-3;
    return 1e-6;
}

/* On another device or processor sums are added in another order: once the loss changes by no more than rounding, whether a
 * line search finds it lower, and so how often it looks, is chance. */
static bool settled(const json_t *run, size_t i)
{
    if (i == 0) return false;
    const json_t *losses = json_object_get(run, "losses");
    double now = json_number_value(json_array_get(losses, i)),
           before = json_number_value(json_array_get(losses, i - 1));
    return fabs(now - before) <= 1e-13 * fabs(now);
}

/* Compares one step; false with a text that says what differs. */
static bool same_step(const problem *p, const json_t *run, size_t i, const gd_step_info *info, double rtol,
                      char *why, size_t size)
{
    double want = json_number_value(json_array_get(json_object_get(run, "losses"), i));
    if (!close_to(info->loss, want, rtol)) {
        snprintf(why, size, "step %zu: loss %.12g, want %.12g", i + 1, info->loss, want);
        return false;
    }
    const json_t *row = json_array_get(json_object_get(run, "trace"), i);
    size_t at = 0;
    for (int k = 0; k < p->params; k++) {
        double flat[256];
        int64_t n = gd_numel(p->value[k]);
        assert_int_equal(gd_read_f64(p->value[k], flat, n), GD_OK);
        for (int64_t j = 0; j < n; j++, at++) {
            want = json_number_value(json_array_get(row, at));
            if (close_to(flat[j], want, rtol)) continue;
            snprintf(why, size, "step %zu: parameter %zu is %.12g, want %.12g", i + 1, at, flat[j], want);
            return false;
        }
    }
    if (settled(run, i)) return true;
    int64_t evals = json_integer_value(json_array_get(json_object_get(run, "evals"), i));
    if (info->evals <= evals) return true;
    snprintf(why, size, "step %zu: %lld evaluations, want at most %lld", i + 1, (long long)info->evals,
             (long long)evals);
    return false;
}

/* 1: agrees, 0: differs, -1: has links that do not exist here. */
static int replay(const json_t *run, size_t steps, char *why, size_t size)
{
    const char *chain = json_string_value(json_object_get(run, "chain"));
    gd_options options = gd_options_default();
    options.threads = 1;
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_link *link = gd_chain(ctx, chain);
    if (!link) {
        bool unknown = strstr(gd_error_text(ctx), "unknown") != NULL;
        snprintf(why, size, "%s", gd_error_text(ctx));
        gd_ctx_free(ctx);
        return unknown ? -1 : 0;
    }
    problem p = {.ctx = ctx};
    open_problem(&p, run);
    gd_optimizer *o = gd_optimizer_new(ctx, link);
    bool good = o && p.expr;
    for (int i = 0; i < p.params && good; i++) good = gd_optimizer_add(o, p.name[i], p.value[i]) == GD_OK;
    gd_objective objective = {.loss = loss_of, .user = &p};
    for (size_t i = 0; i < steps && good; i++) {
        gd_step_info info;
        good = gd_optimizer_step(o, &objective, &info) == GD_OK;
        if (good && !same_step(&p, run, i, &info, tolerance(run, chain), why, size)) good = false;
    }
    if (gd_error(ctx)) snprintf(why, size, "%s", gd_error_text(ctx));
    gd_optimizer_free(o);
    close_problem(&p);
    assert_int_equal(gd_ctx_live(ctx), 0);
    gd_ctx_free(ctx);
    return good;
}

/* Steps of a run that EXPECTED_DIFFERENCES says we follow; -1: all. */
static long expected_steps(const char *id)
{
    char path[1024], line[512];
    snprintf(path, sizeof path, "%s/golden/EXPECTED_DIFFERENCES", GD_TEST_DIR);
    FILE *f = fopen(path, "r");
    long steps = -1;
    while (f && fgets(line, sizeof line, f)) {
        char found[16];
        long n;
        if (sscanf(line, "%15s %ld", found, &n) == 2 && !strcmp(found, id)) steps = n;
    }
    if (f) fclose(f);
    return steps;
}

static void all_runs_agree(const char *file)
{
    char path[1024], why[1200] = "";
    snprintf(path, sizeof path, "%s/golden/%s", GD_TEST_DIR, file);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    int agreed = 0, differ = 0, missing = 0;
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, f) > 0) {
        json_t *run = json_loads(line, 0, NULL);
        assert_non_null(run);
        const char *id = json_string_value(json_object_get(run, "id"));
        long limit = expected_steps(id);
        size_t steps = (size_t)json_integer_value(json_object_get(run, "reliable"));
        int outcome = replay(run, limit >= 0 && (size_t)limit < steps ? (size_t)limit : steps, why,
                             sizeof why);
        agreed += outcome == 1;
        missing += outcome == -1;
        differ += outcome == 0;
        if (outcome == 0)
            print_message("%s %s %s\n     %s\n", id, json_string_value(json_object_get(run, "problem")),
                          json_string_value(json_object_get(run, "chain")), why);
        json_decref(run);
    }
    free(line);
    fclose(f);
    print_message("%d recorded runs agree, %d differ, %d use links that do not exist yet\n", agreed, differ,
                  missing);
    assert_int_equal(differ, 0);
    assert_true(agreed > 0);
}

static void recorded_runs_agree(void **state)
{
    (void)state;
    all_runs_agree("traces.jsonl");
}

static void runs_of_pytorch_agree(void **state)
{
    (void)state;
    all_runs_agree("torch.jsonl");
}

/* The device itself: a child that reads its memory is killed. */
static void the_host_cannot_touch_the_memory_of_a_device(void **state)
{
    (void)state;
    if (!getenv("GD_TEST_DEVICE")) skip();
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_tensor *t = placed(place(ctx), gd_scalar(ctx, GD_F64, 3));
    assert_non_null(t);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(*(volatile double *)(void *)t->data == 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(!WIFEXITED(status) || WEXITSTATUS(status) > 1); /* a signal, or a sanitizer's word about it */
    gd_release(t);
    gd_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_cannot_touch_the_memory_of_a_device),
        cmocka_unit_test(recorded_runs_agree),
        cmocka_unit_test(runs_of_pytorch_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
