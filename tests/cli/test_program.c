/* The program itself, run as a user runs it: exit codes, one sentence on standard error, outputs whole or absent. */
#include "problems/cute.h"
#include "program.h"
#include "gradus/version.h"

#include <time.h>

static void put_trace(const char *name)
{
    FILE *f = fopen(name, "wb");
    for (int i = 1; i <= 20; i++)
        fprintf(f, "{\"step\":%d,\"loss\":%g,\"evals\":%d,\"params\":{\"p\":[%g,%g]}}\n", i,
                100.0 / i / i / i, 2 * i, 1 - 1.0 / i, 1 - 0.5 / i);
    fclose(f);
}

/* ---- help ---- */

static void help_and_version_go_to_standard_output(void **state)
{
    (void)state;
    works("--help");
    assert_non_null(strstr(out, "commands:"));
    works("-h");
    works("--version");
    assert_string_equal(out, "gradus " GD_VERSION "\n");
    works("help");
    works("help eval");
    assert_non_null(strstr(out, "usage: gradus eval 'EXPR' [OPTIONS]"));
    works("eval --help");
    assert_non_null(strstr(out, "usage: gradus eval 'EXPR' [OPTIONS]"));
    works("help --functions");
    assert_non_null(strstr(out, "softplus"));
}

/* Sanitizers take their time, emulators more. */
#if defined(GD_TEST_EMULATED)
#define PATIENCE 100
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PATIENCE 20
#else
#define PATIENCE 1
#endif

/* Seconds from the start of the program to its end, without a shell. */
static double time_of(char *const *arguments)
{
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(126);
        execv(GD_CLI, arguments);
        _exit(127);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    clock_gettime(CLOCK_MONOTONIC, &b);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
}

/* The best of some runs: a busy machine makes any one of them slow. */
static void is_done_within(double limit, char *const *arguments)
{
    double best = INFINITY;
    for (int i = 0; i < 100 && !(best < limit * PATIENCE); i++) best = fmin(best, time_of(arguments));
    print_message("gradus %s: %.1f ms\n", arguments[1], 1e3 * best);
    if (!(best < limit * PATIENCE)) fail_msg("gradus %s takes %g s", arguments[1], best);
}

static void start_up_is_fast(void **state)
{
    (void)state;
    is_done_within(0.010, (char *[]){"gradus", "--help", NULL});
    is_done_within(0.030, (char *[]){"gradus", "minimize", "(1-p[0])^2 + 100*(p[1]-p[0]^2)^2", "--param",
                                     "p=[-1.1,2.5]", "--chain", "adam | lr(0.1)", "--steps", "50", NULL});
    is_done_within(0.030, (char *[]){"gradus", "minimize", "(1-p[0])^2 + 100*(p[1]-p[0]^2)^2", "--param",
                                     "p=[-1.1,2.5]", "--steps", "50", NULL});
}

static void wrong_usage_ends_with_2(void **state)
{
    (void)state;
    fails("evla x", 2, "unknown command 'evla', did you mean 'eval'?");
    fails("help evla", 2, "no command 'evla', did you mean 'eval'?");
    fails("eval", 2, "'EXPR' is missing");
    fails("eval 1 2", 2, "'2' is one argument too many");
    fails("eval 1 --jsno", 2, "unknown option '--jsno', did you mean '--json'?");
    fails("eval 1 --dtype f16", 2, "--dtype: 'f16' is none of: f32 f64");
    fails("eval 1 --threads 0", 2, "--threads: '0' is not a whole number from 1 to 1024");
    fails("eval 'x' --param x", 2, "--param: NAME=VALUE expected, 'x' found");
    fails("eval 'x' --param =1", 2, "--param: NAME=VALUE expected");
    fails("eval 'x' --param x=1 --data x=2", 2, "--data: 'x' is there already");
    fails("eval 'x' --param x=1 --param y=2", 2, "--param y: the expression does not use it");
    fails("eval 'x' --param x=[1,[2]]", 2, "--param x: column 4: a ragged list");
    fails("eval 'expp(x)' --param x=1", 2,
          "expression: column 1: unknown function 'expp', did you mean 'exp'?");
    fails("plot", 2, "TRACE.jsonl... is missing");
}

static void functions_of_ones_own_come_from_a_file(void **state)
{
    (void)state;
    put("shapes.gd", "# shapes\nbell(t, m, w) = exp(-0.5*((t-m)/w)^2);\n");
    works("eval 'bell(2, 2, 1)' --def shapes.gd");
    assert_non_null(strstr(out, "value  1"));
    put("bell.csv",
        "t,y\n-2,0.27067056647322541\n-1,1.2130613194252668\n0,2\n1,1.2130613194252668\n2,0.27067056647322541\n");
    works("fit 'a*bell(t, 0, w)' bell.csv --param a=1 --param w=0.8 --def shapes.gd --json");
    assert_non_null(strstr(out, "\"converged\": true"));
    fails("eval 'bell(2)' --def shapes.gd", 2, "bell takes 3 arguments, 1 given");
    fails("eval 1 --def nowhere.gd", 1, "nowhere.gd");
    put("broken.gd", "f(t) = t +;\n");
    fails("eval 'f(1)' --def broken.gd", 2, "broken.gd: line 1, column 11");
    fails("fit 'a*bell(t, 0, w)' bell.csv --param a=1 --param w=1 --def shapes.gd --out shapes.gd", 2,
          "shapes.gd");
}

/* ---- eval ---- */

static void eval_prints_value_and_gradient(void **state)
{
    (void)state;
    works("eval '(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.1,2.5] --json");
    assert_non_null(strstr(out, "\"loss\": 170.81999999999994"));
    assert_non_null(strstr(out, "\"gradient\": {\"p\": [563.39999999999986,257.99999999999994]}"));
    works("eval '[10*(p[1]-p[0]^2), 1-p[0]]' --param p=[-1.1,2.5]");
    assert_non_null(strstr(out, "residuals  ["));
    works("eval '2+3'");
    assert_string_equal(out, "value  5\n");
    works("eval 'a*b' --param a=2 --param b=3 --hessian --check");
    assert_non_null(strstr(out, "hessian  [[0,1],[1,0]]"));
    works("eval '-x^2' --param x=3");
    assert_non_null(strstr(out, "value  -9"));
    works("eval 'sum(x)' --param x='randn(3)' --seed 4 --dtype f32 --threads 2");
    char first[256];
    strcpy(first, out);
    works("eval 'sum(x)' --param x='randn(3)' --seed 4 --dtype f32 --threads 1");
    assert_string_equal(out, first);
}

static void broken_inputs_of_eval_are_named(void **state)
{
    (void)state;
    put("bad.csv", "x,y\n1,2\n3,abc\n");
    put("ragged.csv", "x,y\n1,2\n3\n");
    put("nan.csv", "x,y\n1,nan\n");
    put("none.csv", "x,y\n");
    put("empty.csv", "");
    fails("eval 'sum(x)' --param x=@missing.npy", 1, "missing.npy");
    fails("eval 'sum(x)' --param x=@missing.csv", 1, "missing.csv: cannot open: No such file or directory");
    fails("eval 'sum(x)' --param x=@.", 1, "");
    fails("eval 'sum(x)' --param x=@empty.csv", 1, "empty.csv: the file is empty");
    fails("eval 'sum(x)' --param x=@bad.csv", 1, "bad.csv: line 3, column 'y': 'abc' is not a number");
    fails("eval 'sum(x)' --param x=@bad.csv:z", 2, "bad.csv: no column 'z', the columns are x, y");
    fails("eval 'sum(x)' --param x=@ragged.csv", 1, "ragged.csv: line 3: 1 cell, but line 1 has 2");
    fails("eval 'sum(x)' --param x=@nan.csv", 1,
          "nan.csv: line 2, column 'y': 'nan' stands for a missing number");
    fails("eval 'x+y' --param x=[1,2] --param y=[1,2,3]", 1, "expression: column 2: add: ");
    fails("eval 'x' --param x=1 --device gpu:77", 1, "gpu");
    works("eval 'sum(x)' --param x=@none.csv");
    put("plain.npy", "not an npy file");
    fails("eval 'sum(x)' --param x=@plain.npy", 1, "plain.npy");
}

/* ---- minimize ---- */

#define ROSENBROCK "'(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.1,2.5]"

/* Against the closed form: gradient descent on x^2 with rate r multiplies x by 1 - 2 r. */
static void minimize_takes_steps_and_writes_the_trace(void **state)
{
    (void)state;
    works(
        "minimize 'x^2' --param x=3 --chain 'lr(0.1)' --steps 4 --trace t.jsonl --json --out r.safetensors");
    double x = 3;
    FILE *f = fopen("t.jsonl", "r");
    assert_non_null(f);
    long step, evals;
    double loss, after, value;
    assert_int_equal(fscanf(f, " {\"step\":%ld,\"loss\":%lf,\"evals\":%ld,\"params\":{\"x\":%lf}}", &step,
                            &loss, &evals, &value),
                     4);
    assert_true(step == 0 && evals == 0 && loss == 9 && value == 3);
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(
            fscanf(f, " {\"step\":%ld,\"loss\":%lf,\"loss_after\":%lf,\"evals\":%ld,\"params\":{\"x\":%lf}}",
                   &step, &loss, &after, &evals, &value),
            5);
        assert_true(step == i && evals == i);
        assert_true(fabs(loss - x * x) < 1e-12);
        x *= 0.8;
        assert_true(fabs(value - x) < 1e-12 && fabs(after - x * x) < 1e-12);
    }
    fclose(f);
    assert_true(fabs(json_number("loss") - x * x) < 1e-12);
    assert_true(fabs(json_number("gradient_norm") - 2 * x) < 1e-12);
    /* the end has been evaluated too */
    assert_true(json_number("steps") == 4 && json_number("evals") == 5);
    assert_non_null(strstr(out, "\"stopped\": \"steps\""));
    assert_non_null(strstr(out, "\"converged\": false"));
    works("eval 'x' --param x=@r.safetensors --json");
    assert_true(fabs(json_number("value") - x) < 1e-12);
    /* a vector is residuals: its sum of squares is minimised */
    works("minimize '[x, 2*x]' --param x=1 --chain 'lr(0.01)' --steps 1 --json");
    assert_true(fabs(json_number("x") - 0.9) < 1e-12);
}

static void minimize_stops_when_told(void **state)
{
    (void)state;
    works("minimize 'x^2' --param x=3 --chain 'lr(0.1)' --steps 1000 --until 'loss<0.01' --json");
    assert_non_null(strstr(out, "\"stopped\": \"loss<0.01\""));
    works("minimize 'x^2' --param x=3 --chain 'lr(0.1)' --steps 1000 --until 'grad_norm<1e-3' --json");
    /* |2 x| < 1e-3 after the step: 6 * 0.8^n < 1e-3 */
    assert_true(json_number("steps") == 39);
    works(
        "minimize 'x^2' --param x=3 --chain 'lr(0.1)' --steps 1000 --until 'step_norm<=0.1,evals>500' --json");
    assert_non_null(strstr(out, "\"stopped\": \"step_norm<=0.1\""));
    works("minimize 'x^2' --param x=3 --chain 'lr(0.1)' --steps 0");
    assert_non_null(strstr(out, "loss 9 after 0 steps"));
    works(
        "minimize 'sum((w-1)^2)+sum((v-1)^2)' --param w=0 --param v=[0,0] --chain 'lr(0.1)' --steps 1 --group 'v: lr=0.2' --json");
    assert_non_null(strstr(out, "\"v\": [0.4"));
    assert_true(fabs(json_number("w") - 0.2) < 1e-12);
    /* a later group says more about v, and takes nothing back: its velocity is 1.5 * -2, then 0.5 * -3 - 0.8 */
    works("minimize '(w-1)^2+(v-1)^2' --param w=0 --param v=0 --chain 'heavy_ball(0) | lr(0.1)' --steps 2 "
          "--group '*: lr=0.2' --group 'v: momentum=0.5' --json");
    assert_true(fabs(json_number("v") - (0.2 * 3 + 0.2 * 2.3)) < 1e-12);
    assert_true(fabs(json_number("w") - 0.64) < 1e-12);
}

/* Signs of momentum for w, the gradient for the rest; the later of two that match wins; settings go to the same group. */
static void a_group_may_have_a_chain_of_its_own(void **state)
{
    (void)state;
    works(
        "minimize 'sum((w-1)^2)+(v-1)^2+(b-1)^2' --param w=[0,3] --param v=0 --param b=0 --chain 'lr(0.1)' --steps 2 "
        "--group 'w: chain=[sign | clip(max=0.5) | lr(0.25)]' --json");
    assert_non_null(strstr(out, "\"w\": [0.5,2.75"));
    assert_true(fabs(json_number("v") - 0.36) < 1e-12);
    int code = gradus(
        "minimize '(w-1)^2+(v-1)^2+(b-1)^2' --param w=0 --param v=0 --param b=0 --chain 'lr(0.1)' --steps 1 "
        "--group '[wb]: lr=0.5, chain = [ negate | lr(2) ]' --group 'v: chain=sign' --group 'b: lr=0.125' --json");
    assert_true(code == 0 && strstr(err, "warning: minimize: --chain has no effect"));
    assert_true(fabs(json_number("w") + 1) < 1e-12); /* -(-(-2) * 0.5) */
    assert_true(fabs(json_number("v") - 1) < 1e-12);
    assert_true(fabs(json_number("b") + 0.25) < 1e-12);
}

static void mistakes_in_the_chain_of_a_group_are_named(void **state)
{
    (void)state;
#define TWO "minimize '(w-1)^2+(v-1)^2' --param w=0 --param v=0 --steps 1 --group "
    fails(TWO "'w: chain=[adm | lr(0.1)]'", 2,
          "--group 'w': chain: column 1: link 'adm' unknown, did you mean 'adam'?");
    fails(TWO "'w: chain=[]'", 2, "--group 'w': its chain is empty");
    fails(TWO "'w: lr=2, chain='", 2, "--group 'w': its chain is empty");
    fails(TWO "'w: chain=adam, chain=lion'", 2, "--group 'w': it has two chains");
    fails(TWO "'x: chain=[adam | lr(0.1)]'", 2, "no parameter matches 'x'");
    fails(TWO "'axes>: chain=[adam | lr(0.1)]'", 2, "");
    fails(TWO "'w: chain=[adam | lr(0.1)'", 2, "--group 'w': chain: ");
#undef TWO
}

/* A run ends by itself, and its exit code says whether it got there. */
static void minimize_admits_failure(void **state)
{
    (void)state;
    static const struct {
        const char *arguments;
        int code;
        const char *words; /* of standard output, or of standard error where the code is 1 */
    } cases[] = {
        {"'(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.2,1]", 0, "converged, gradient "},
        {"'(x-5)^2' --param x=1 --bound '0<x<2'", 0, "converged, KKT residual 0"},
        {"'(x-5)^2' --param x=1 --chain 'box(high=2) | lbfgs | strong_wolfe'", 0,
         "converged, KKT residual 0"},
        {"'-x^2' --param x=1", 1, "diverged after "},
        {"'x' --param x=1", 1, "diverged after "},
        {"'log(p[0])' --param p=[1]", 1, "diverged after "},
        {"'(x-3)^2' --param x=0 --chain 'lr(1e-6)'", 1, "not converged after 1000 steps"},
        {"'log(x)' --param x=-1", 1, "after 1 steps"},
        /* what was asked for was done */
        {"'(x-3)^2' --param x=0 --chain 'lr(1e-6)' --steps 20", 0,
         "not converged, gradient 6: the steps are used up"},
        {"'(x-3)^2' --param x=0 --chain newton --steps 20", 0,
         "\nconverged, gradient 0: the steps are used up"},
        {"'(x-3)^2' --param x=0 --chain 'lr(1e-6)' --steps 20 --until 'loss<1'", 0, "not converged"},
        {"'(x-3)^2' --param x=0 --chain 'lr(0.1)' --until 'loss<1'", 0, ": loss<1"},
        {"'-x^2' --param x=1 --steps 2", 0, "not converged"},
        /* a search that fails is no small step: this one stopped at the start, with a loss of 749 */
        {"'(p[0]-1)^2+100*(p[1]-p[0]^3)^2' --param p=[-1.2,1] --chain 'bfgs | strong_wolfe' --until 'step_norm<1e-10'",
         0, "converged, gradient "},
        {"'(p[0]-1)^2+100*(p[1]-p[0]^3)^2' --param p=[-1.2,1] --chain 'bfgs | strong_wolfe' --until "
         "'loss_change<1e-12'",
         0, "p = [1, 1]"},
        {"'x^2' --param x=1 --chain 'lr(-1) | strong_wolfe(descent=false)' --until 'step_norm<1,loss_change<1'",
         1, "stuck after "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[400];
        snprintf(command, sizeof command, "minimize %s", cases[i].arguments);
        int code = gradus(command);
        if (code != cases[i].code || !strstr(code ? err : out, cases[i].words))
            fail_msg("%s: exit %d, %s%s", command, code, out, err);
    }
}

/* Published problems with known minima, with the chain that is there by default and others: where the program ends with 0, it
 * is at one of them. */
static void exit_code_0_means_a_minimum(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe", "newton | strong_wolfe",
                                         "bfgs | backtracking"};
    int done = 0;
    for (size_t i = 0; i < CUTE_COUNT; i++)
        for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
            const cute_problem *p = &cute_problems[i];
            char command[800];
            snprintf(command, sizeof command, "minimize '%s' --param 'x=%s' --chain '%s' --json",
                     p->expression, p->start, chains[k]);
            if (gradus(command)) continue;
            double loss = json_number("loss");
            bool there = false;
            for (int m = 0; m < 3 && !isnan(p->minimum[m]); m++)
                there = there || fabs(loss - p->minimum[m]) <= 1e-4 * fmax(1e-4, fabs(p->minimum[m]));
            /* the only other one: a saddle of cosines, where the gradient is 0 */
            if (!there && strcmp(p->name, "COSINE")) fail_msg("%s: exit 0 at %.9g", command, loss);
            done++;
        }
    assert_true(done >= 3 * (int)CUTE_COUNT - 2);
}

static void minimize_evaluates_no_point_twice(void **state)
{
    (void)state;
    works("minimize '(1-p[0])^2+100*(p[1]-p[0]^2)^2' --param p=[-1.2,1] --json");
    assert_true(json_number("evals") <= 47 && json_number("loss") < 1e-16);
    assert_true(json_number("gradient_norm") <= 1e-8);
    assert_non_null(strstr(out, "\"converged\": true"));
    assert_non_null(strstr(out, "\"stopped\": \"gradient\""));
}

/* The rates are 0.1, 0.09 and 0.08. */
static void schedules_change_settings_with_the_step(void **state)
{
    (void)state;
    works("minimize 'x^2' --param x=3 --chain 'lr(5)' --schedule 'lr=linear(0.1, 0, 10)' --steps 3 --json");
    assert_true(fabs(json_number("x") - 3 * 0.8 * 0.82 * 0.84) < 1e-12);
    fails("minimize 'x^2' --param x=3 --schedule 'lr' --chain 'lr(1)'", 2,
          "--schedule: KEY=SCHEDULE or GLOB: KEY=SCHEDULE expected, 'lr'");
    fails("minimize 'x^2' --param x=3 --schedule 'lr=coz(1)' --chain 'lr(1)'", 2, "schedule: column 1: ");
    fails("minimize 'x^2' --param x=3 --schedule 'beta9=1' --chain 'lr(1)'", 2, "beta9");
    fails("minimize 'x^2' --param x=3 --schedule 'beta1=linear(0.5, 1.5, 4)' --chain 'adam | lr(1)'", 2,
          "schedule: step 3: adam: beta1 is 1.25, must be from 0 to 1");
}

/* Steps of (H + 1e9)^-1 g: next to none.  They were full Newton steps. */
static void a_schedule_reaches_a_link_that_is_no_rule(void **state)
{
    (void)state;
    works(
        "minimize 'sum((x-3)^2)' --param x=0 --chain 'newton | lr(1)' --schedule damping=1e9 --steps 2 --json");
    assert_true(fabs(json_number("x")) < 1e-7);
    works(
        "minimize 'sum((x-3)^2)' --param x=0 --chain 'newton | lr(1)' --group '*: damping=1e9' --steps 2 --json");
    assert_true(fabs(json_number("x")) < 1e-7);
    fails(
        "minimize 'x^2+y^2' --param x=3 --param y=1 --chain 'newton | lr(1)' --group 'y: damping=2'", 1,
        "newton: 'damping' has one value for the whole step, but is 0 for 'x' (group 0) and 2 for 'y' (group 1)");
}

/* x' = x - lr 2 x */
static void some_parameters_have_a_schedule_and_a_groups_value_wins(void **state)
{
    (void)state;
    works(
        "minimize 'x^2+y^2' --param x=1 --param y=1 --chain 'lr(0.25)' --schedule 'y: lr=0.5' --steps 1 --json");
    assert_true(json_number("x") == 0.5);
    assert_true(json_number("y") == 0);
    works("minimize 'x^2+y^2' --param x=1 --param y=1 --chain 'lr(7)' --group 'y: lr=0.25' --schedule lr=0.5 "
          "--steps 1 --json");
    assert_true(json_number("x") == 0);
    assert_true(json_number("y") == 0.5);
    fails("minimize 'x^2' --param x=1 --chain 'lr(7)' --group 'x: lr=0.25' --schedule lr=0.5", 2,
          "schedule: every group has its own 'lr'");
    fails("minimize 'x^2' --param x=1 --chain 'lr(7)' --schedule 'z: lr=0.5'", 2, "no parameter matches 'z'");
}

static void minimize_draws(void **state)
{
    (void)state;
    works("minimize " ROSENBROCK " --chain 'adam | lr(0.05)' --steps 200 --plot path.svg");
    works("minimize 'sum(x^2)' --param x='ones(3)' --chain 'lr(0.1)' --steps 20 --plot loss.png --dtype f32");
    assert_true(exists("path.svg") && exists("loss.png"));
    assert_non_null(strstr(out, "x = ["));
}

/* Two wells, the lower one at the left; 4 x (x^2 - 1) + 0.3 = 0 at both. */
#define WELLS "'(x^2-1)^2+0.3*x' --param x=1 --bound '-2<x<2' "

static double slope_of_wells(void)
{
    double x = json_number("x");
    return 4 * x * (x * x - 1) + 0.3;
}

static void minimize_looks_for_the_lowest_of_many_minima(void **state)
{
    (void)state;
    static const char *const searches[] = {
        "--starts 8",      "--starts 8 --gradient differences",
        "--chain cma_es",  "--chain differential_evolution",
        "--gradient none", "--chain 'basin_hopping([lbfgs | strong_wolfe], 30)'"};
    works("minimize " WELLS "--json");
    assert_true(json_number("x") > 0.9 && fabs(slope_of_wells()) < 1e-6);
    for (int i = 0; i < COUNT_OF(searches); i++) {
        char command[300];
        snprintf(command, sizeof command, "minimize " WELLS "%s --json", searches[i]);
        works(command);
        if (!(json_number("x") < -1) || !(fabs(slope_of_wells()) < 1e-4))
            fail_msg("%s: %s", searches[i], out);
        assert_non_null(strstr(out, "\"reason\": \"the lowest of "));
    }
    works("minimize " WELLS "--starts 8");
    assert_non_null(strstr(out, ": the lowest of 8 starts\n"));
    works("minimize 'abs(x-1)+floor(y)^2' --param x=5 --param y=3 --gradient none");
    assert_non_null(strstr(out, "\nended: the lowest of 6 runs\n"));
    /* a limit is reported as the reason of the stop */
    works("minimize " WELLS "--chain cma_es --until 'evals>100'");
    assert_non_null(strstr(out, "not converged"));
    assert_non_null(strstr(out, "evals>100"));
    /* random numbers follow from the seed */
    works("minimize " WELLS "--chain 'cma_es(restarts=0)' --steps 5 --seed 3 --json");
    double x = json_number("x");
    works("minimize " WELLS "--chain 'cma_es(restarts=0)' --steps 5 --seed 3 --json");
    assert_true(json_number("x") == x);
    works("minimize " WELLS "--chain 'cma_es(restarts=0)' --steps 5 --seed 4 --json");
    assert_true(json_number("x") != x);
}

/* Ten steps, and five that are saved and five that go on. */
static void minimize_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const chains[] = {"adam | lr(warmup(3, 0.1))", "lbfgs | strong_wolfe",
                                         "box(-3, 3) | cma_es", "box(-3, 3) | differential_evolution(8)",
                                         "multi_start([lbfgs | strong_wolfe], steps=3)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        char command[300];
        double x[2], loss[2];
        snprintf(command, sizeof command, "minimize " ROSENBROCK " --chain '%s' --steps 10 --json",
                 chains[i]);
        works(command);
        x[0] = json_number("p");
        loss[0] = json_number("loss");
        for (int part = 0; part < 2; part++) {
            snprintf(command, sizeof command,
                     "minimize " ROSENBROCK " --chain '%s' --steps 5 --json --%s run.safetensors", chains[i],
                     part ? "resume" : "save");
            if (part) assert_int_equal(system("cp run.safetensors half.safetensors"), 0);
            works(command);
        }
        double with = json_number("p");
        /* the file knows the chain */
        works("minimize " ROSENBROCK " --steps 5 --json --resume half.safetensors");
        if (json_number("p") != with) fail_msg("%s: %.17g without --chain", chains[i], json_number("p"));
        x[1] = json_number("p");
        loss[1] = json_number("loss");
        if (x[0] != x[1] || loss[0] != loss[1])
            fail_msg("%s: %.17g at once, %.17g in two parts", chains[i], loss[0], loss[1]);
    }
}

/* Settings that are given hold; a chain of other links is refused, and says which one would do. */
static void settings_may_change_where_minimize_goes_on(void **state)
{
    (void)state;
#define BOWL "minimize '(x-3)^2' --param x=1 --steps 5 --json "
    static const struct {
        const char *option;
        bool moves;
    } rows[] = {
        {"", true},
        {"--chain 'adam | lr(0.1)'", true},
        {"--chain 'adam | lr(0)'", false},
        {"--schedule 'lr=constant(0)'", false},
        {"--group 'x: lr=0'", false},
    };
    works(BOWL "--chain 'adam | lr(0.1)' --save start.safetensors");
    double at = json_number("x"), usual = NAN;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[300];
        snprintf(command, sizeof command, BOWL "--resume start.safetensors --save end.safetensors %s",
                 rows[i].option);
        works(command);
        double x = json_number("x");
        if (i == 0) usual = x;
        if (x != (rows[i].moves ? usual : at)) fail_msg("gradus %s ends at %.17g", command, x);
    }
    fails(BOWL "--resume start.safetensors --chain 'lbfgs | strong_wolfe'", 2,
          "--chain 'lbfgs | strong_wolfe': the run in start.safetensors has the chain 'adam | lr(0.1)'");
}

static void failed_runs_and_wrong_usage_of_minimize(void **state)
{
    (void)state;
    fails("minimize " ROSENBROCK " --chain 'adm | lr(1)'", 2,
          "chain: column 1: link 'adm' unknown, did you mean 'adam'?");
    fails("minimize '1+1'", 2, "no --param given");
    fails("minimize " ROSENBROCK " --chain cma_es --below 'sum(p)'", 1,
          "cma_es: it searches inside bounds, not under constraints");
    fails("minimize " ROSENBROCK " --until 'lss<1'", 2, "--until: column 1: ");
    fails("minimize " ROSENBROCK " --steps -1", 2, "--steps: '-1' is not a whole number from 0");
    fails("minimize " ROSENBROCK " --chain 'lr(0.0001)' --group lr", 2, "--group: GLOB: KEY=VALUE expected");
    fails("minimize " ROSENBROCK " --plot x.gif", 2, "x.gif: a picture ends in .svg, .png or .pdf");
    fails("minimize " ROSENBROCK " --plot nowhere/x.svg", 1, "nowhere/x.svg: cannot write");
    fails("minimize " ROSENBROCK " --chain 'lr(0.0001)' --trace nowhere/x.jsonl", 1,
          "nowhere/x.jsonl: cannot open");
    fails("minimize " ROSENBROCK " --out nowhere/x.safetensors", 1, "nowhere/x.safetensors: cannot write");
    assert_int_equal(gradus("minimize " ROSENBROCK " --chain 'lr(0.0001)' --trace /dev/full"), 1);
    assert_string_equal(err, "gradus: /dev/full: cannot write: No space left on device\n");
    fails("minimize " ROSENBROCK " --chain 'lr(0.0001)' --out /dev/full", 1,
          "/dev/full: cannot write: not a regular file");
    assert_int_equal(gradus("minimize 'x^4' --param x=3 --chain 'lr(10)' --steps 30"), 1);
    assert_non_null(strstr(err, "after 30 steps"));
}

/* ---- links ---- */

static void links_are_listed_and_explained(void **state)
{
    (void)state;
    works("links");
    assert_non_null(strstr(out, "  adam "));
    works("links adam");
    assert_non_null(strstr(out, "beta1"));
    works("links adam --json");
    assert_non_null(strstr(out, "\"name\": \"beta1\""));
    works("links --search ADAM --json");
    fails("links adm", 2, "link 'adm' unknown, did you mean 'adam'?");
    fails("links --search zzzz", 2, "no link has 'zzzz'");
}

static void chains_are_explained(void **state)
{
    (void)state;
    works("explain 'clip_norm(1) | adam | lr(1e-3)'");
    assert_true(strlen(out) > 40);
    works("explain 'adam | lr(1e-3)' --source --dtype f64 --size 'zeros(10)'");
    fails("explain 'adm'", 2, "chain: column 1: link 'adm' unknown, did you mean 'adam'?");
    fails("explain 'adam' --size x", 2, "--size: column 1: ");
    fails("explain 'adam' --dtype f8", 2, "--dtype: 'f8' is none of: f32 f64");
}

/* ---- plot ---- */

static void plot_draws_losses_and_paths(void **state)
{
    (void)state;
    put_trace("a.jsonl");
    put_trace("b.jsonl");
    works("plot a.jsonl");
    assert_string_equal(out, "a.svg\n");
    assert_true(exists("a.svg"));
    works(
        "plot a.jsonl b.jsonl --out both.png --label first --label second --title 'two runs' --x evals --scale linear");
    assert_true(exists("both.png"));
    works("plot a.jsonl --expr '(1-p[0])^2 + 10*(p[1]-p[0]^2)^2' --out path.svg");
    assert_true(exists("path.svg"));
    works("plot a.jsonl b.jsonl --path --out path.png --dark");
    put("xy.jsonl",
        "{\"step\":1,\"loss\":2,\"params\":{\"x\":1,\"y\":2}}\n{\"step\":2,\"loss\":1,\"params\":{\"x\":0,\"y\":1}}\n");
    works("plot xy.jsonl --expr 'x^2+s*y^2' --data s=3 --out xy.svg");
    put("train.jsonl",
        "{\"step\":9,\"epoch\":1,\"loss\":2,\"val_loss\":3}\n{\"step\":18,\"epoch\":2,\"loss\":1,\"val_loss\":2}\n");
    works("plot train.jsonl --y loss,val_loss --x epoch --out both.svg");
    slurp("both.svg", out, sizeof out);
    assert_true(strstr(out, ">train: loss</text>") && strstr(out, ">train: val_loss</text>") &&
                strstr(out, ">epoch</text>"));
    fails("plot train.jsonl --y val_los --out t.svg", 1, "train.jsonl: line 1: no number \"val_los\"");
    fails("plot a.jsonl --y loss --path --out t.svg", 2, "--y is for curves, not for paths");
    fails("plot - --y loss,evals --out t.svg < a.jsonl", 2, "standard input can be read for one --y only");
    works("plot - --out piped.svg < a.jsonl");
    assert_true(exists("piped.svg"));
}

static void broken_traces_leave_no_picture(void **state)
{
    (void)state;
    put_trace("a.jsonl");
    put("empty.jsonl", "");
    put("text.jsonl", "hello\n");
    put("one.jsonl", "{\"step\":1,\"loss\":2,\"params\":{\"x\":1}}\n");
    put("nan.jsonl", "{\"step\":1,\"loss\":\"NaN\",\"params\":{\"x\":[\"NaN\",1]}}\n");
    fails("plot missing.jsonl", 1, "missing.jsonl: cannot open: No such file or directory");
    fails("plot empty.jsonl", 1, "empty.jsonl: the trace is empty");
    fails("plot text.jsonl --out t.svg", 1, "text.jsonl: line 1: ");
    fails("plot . --out t.svg", 1, ".: cannot read: Is a directory");
    fails("plot one.jsonl --path --out t.svg", 1, "a path wants two numbers as parameters in every line");
    fails("plot a.jsonl --out t.gif", 2, "t.gif: a picture ends in .svg, .png or .pdf");
    fails("plot a.jsonl --out nowhere/t.svg", 1, "nowhere/t.svg: cannot write: No such file or directory");
    fails("plot a.jsonl --expr 'q[0]' --out t.svg", 2, "unknown name 'q'");
    fails("plot a.jsonl --expr 'p[0]' --out t.svg --scale odd", 2,
          "--scale: 'odd' is none of: auto log linear");
    assert_false(exists("t.svg"));
    works("plot nan.jsonl --out nan.svg");
    works("plot one.jsonl --out one.svg");
    assert_int_equal(mkdir("d.svg", 0777), 0);
    fails("plot a.jsonl --out d.svg", 1, "d.svg: cannot write: Is a directory");
}

/* ---- bench ---- */

static void benchmarks_are_listed_and_run(void **state)
{
    (void)state;
    works("bench --list");
    assert_non_null(strstr(out, "optim "));
    works("bench --list small");
    assert_true(!strncmp(out, "small ", 6) && strchr(out, '\n') == out + strlen(out) - 1);
    works("bench small rosenbrock --json");
    assert_true(out[0] == '[' && strstr(out, "\"name\": \"add, 2 elements\"") && json_number("value") > 0);
    fails("bench smal", 2, "bench: no benchmark 'smal', did you mean 'small'?");
    fails("bench --device tpu", 2, "--device: 'tpu' is none of: cpu gpu");
}

/* ---- outputs that cannot be written ---- */

static void a_full_disk_and_a_closed_pipe_are_reported(void **state)
{
    (void)state;
    char command[1024];
    put_trace("a.jsonl");
    static const char *const commands[] = {"eval '1+1'", "--help", "help --manual", "devices",
                                           "plot a.jsonl --out a.svg"};
    for (size_t i = 0; access("/dev/full", W_OK) == 0 && i < sizeof commands / sizeof *commands; i++) {
        snprintf(command, sizeof command, "%s %s >/dev/full 2>stderr.txt", GD_CLI, commands[i]);
        int status = system(command);
        slurp("stderr.txt", err, sizeof err);
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_string_equal(err, "gradus: standard output: cannot write: No space left on device\n");
        snprintf(command, sizeof command, "%s %s >&- 2>stderr.txt", GD_CLI, commands[i]);
        status = system(command);
        slurp("stderr.txt", err, sizeof err);
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_string_equal(err, "gradus: standard output: cannot write: Bad file descriptor\n");
    }
    snprintf(command, sizeof command,
             "bash -c '(sleep 0.2; %s --help; echo $? >code.txt) 2>stderr.txt | true'", GD_CLI);
    assert_int_equal(system(command), 0);
    for (int i = 0; i < 100 && !exists("code.txt"); i++) usleep(20000);
    usleep(50000);
    slurp("code.txt", out, sizeof out);
    slurp("stderr.txt", err, sizeof err);
    assert_string_equal(out, "1\n");
    assert_string_equal(err, "gradus: standard output: cannot write: Broken pipe\n");
}

static void devices_are_not_replaced_by_files(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    put_trace("a.jsonl");
    assert_int_equal(symlink("/dev/full", "full.svg"), 0);
    fails("plot a.jsonl --out full.svg", 1, "full.svg: cannot write: No space left on device");
    struct stat info;
    assert_true(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode));
    assert_true(lstat("full.svg", &info) == 0 && S_ISLNK(info.st_mode));
    put("real.svg", "old");
    assert_int_equal(symlink("real.svg", "link.svg"), 0);
    works("plot a.jsonl --out link.svg");
    assert_true(lstat("link.svg", &info) == 0 && S_ISLNK(info.st_mode));
    assert_true(stat("real.svg", &info) == 0 && info.st_size > 100);
}

/* ---- without arguments ---- */

/* Five, each as it is printed, in a folder that has nothing. */
static void what_is_shown_to_try_runs_as_it_is(void **state)
{
    (void)state;
    int lines = 0;
    works("");
    char shown[4096], command[4096];
    snprintf(shown, sizeof shown, "%s", out);
    char *line = strtok(shown, "\n");
    assert_int_equal(symlink(GD_CLI, "gradus"), 0);
    for (; line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "  ", 2) != 0) continue;
        snprintf(command, sizeof command, "PATH=.:$PATH; { %s; } >tried.txt 2>said.txt", line);
        if (system(command) != 0) fail_msg("%s fails", line);
        slurp("tried.txt", out, sizeof out);
        slurp("said.txt", err, sizeof err);
        if (!*out || *err) fail_msg("%s prints %s says %s", line, out, err);
        lines++;
    }
    assert_int_equal(lines, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(help_and_version_go_to_standard_output),
        PROGRAM_TEST(start_up_is_fast),
        PROGRAM_TEST(wrong_usage_ends_with_2),
        PROGRAM_TEST(eval_prints_value_and_gradient),
        PROGRAM_TEST(broken_inputs_of_eval_are_named),
        PROGRAM_TEST(functions_of_ones_own_come_from_a_file),
        PROGRAM_TEST(minimize_takes_steps_and_writes_the_trace),
        PROGRAM_TEST(minimize_stops_when_told),
        PROGRAM_TEST(schedules_change_settings_with_the_step),
        PROGRAM_TEST(a_group_may_have_a_chain_of_its_own),
        PROGRAM_TEST(mistakes_in_the_chain_of_a_group_are_named),
        PROGRAM_TEST(minimize_admits_failure),
        PROGRAM_TEST(minimize_evaluates_no_point_twice),
        PROGRAM_TEST(exit_code_0_means_a_minimum),
        PROGRAM_TEST(a_schedule_reaches_a_link_that_is_no_rule),
        PROGRAM_TEST(some_parameters_have_a_schedule_and_a_groups_value_wins),
        PROGRAM_TEST(minimize_draws),
        PROGRAM_TEST(minimize_looks_for_the_lowest_of_many_minima),
        PROGRAM_TEST(minimize_goes_on_with_the_same_bits),
        PROGRAM_TEST(settings_may_change_where_minimize_goes_on),
        PROGRAM_TEST(failed_runs_and_wrong_usage_of_minimize),
        PROGRAM_TEST(links_are_listed_and_explained),
        PROGRAM_TEST(chains_are_explained),
        PROGRAM_TEST(plot_draws_losses_and_paths),
        PROGRAM_TEST(broken_traces_leave_no_picture),
        PROGRAM_TEST(benchmarks_are_listed_and_run),
        PROGRAM_TEST(a_full_disk_and_a_closed_pipe_are_reported),
        PROGRAM_TEST(devices_are_not_replaced_by_files),
        PROGRAM_TEST(what_is_shown_to_try_runs_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
