/* Every allocation of a command fails once: exit code 1, nothing leaked, nothing crashed, files whole or absent. */
#include "cli/cli.h"

#include "program.h"

#include <inttypes.h>

static int64_t points;

/* Runs the command with its k-th allocation failing (0: none); false when there are not that many. */
static bool fails_well(const char *arguments, int64_t k, bool all_after)
{
    char text[1024], *words[64];
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    assert_non_null(ctx);
    snprintf(text, sizeof text, "%s", arguments);
    int count = split_words(text, words, 64);
    m.fail_at = k ? m.requests + k : 0;
    m.fail_on = all_after;
    gd_cli cli = {.ctx = ctx, .out = gd__text(ctx)};
    int code = gd__cli_dispatch(&cli, count, words);
    m.fail_at = 0;
    if (!m.failed && (code != 0 || gd_error(ctx))) fail_msg("gradus %s: %s", arguments, gd_error_text(ctx));
    /* something may go on without the memory it wanted, but never end without saying so */
    if (m.failed && code != 1 && !(code == 0 && !all_after))
        fail_msg("gradus %s: allocation %" PRId64 ": exit %d: %s", arguments, k, code, gd_error_text(ctx));
    if (code == 1 && gd_error(ctx) && gd_error(ctx) != GD_NOMEM)
        fail_msg("gradus %s: allocation %" PRId64 ": %s", arguments, k, gd_error_text(ctx));
    gd__text_free(&cli.out);
    end_context(ctx, &m);
    points += m.failed;
    return m.failed;
}

static void exhaust(const char *arguments)
{
    (void)fails_well(arguments, 0, false);
    int64_t before = points;
    for (int64_t k = 1, n = 1; fails_well(arguments, k, n % 16 == 0); k += emulated_share(), n++)
        assert_true(k < 20000);
    print_message("%s: %" PRId64 " failure points\n", arguments, points - before);
}

static void put_trace(const char *name)
{
    FILE *f = fopen(name, "wb");
    for (int i = 1; i <= 5; i++)
        fprintf(f, "{\"step\":%d,\"loss\":%g,\"evals\":%d,\"params\":{\"p\":[%g,%g]}}\n", i, 1.0 / i, i,
                1.0 / i, 0.5 * i);
    fclose(f);
}

#define ROWS "x,z,y\n0,1,a\n1,0,b\n2,3,a\n3,1,b\n4,0,a\n"

static void small_commands_survive(void **state)
{
    (void)state;
    exhaust("--help");
    exhaust("--version");
    exhaust("help --manual");
    exhaust("help --completions bash");
    exhaust("complete bash 2 -- gradus minimize --c");
    FILE *f = fopen("few.csv", "wb");
    fputs(ROWS, f);
    fclose(f);
    exhaust("complete zsh 5 -- gradus fit a*b*x few.csv --param a");
    exhaust("complete fish 4 -- gradus train few.csv --ignore x,z");
    exhaust("complete fish 4 -- gradus minimize x --chain adam(b");
    exhaust("help --functions");
    exhaust("devices --json");
    exhaust("world --json");
    exhaust("world --join self");
    exhaust("bench --list");
    exhaust("links adam");
    exhaust("links --search momentum --json");
    exhaust("explain 'clip_norm(1) | adam | lr(0.1)' --size zeros(3,4)");
}

static void expressions_survive(void **state)
{
    (void)state;
    put("d.csv", ROWS);
    exhaust("eval 'h = tanh(x*p[0]); sum((h - p[1])^2)' --param p=[1,2] --data x=@d.csv:x --hessian --json");
    exhaust(
        "minimize '(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.1,2.5] --chain 'adam | lr(0.1)' --steps 3 --json "
        "--trace t.jsonl --out r.safetensors --until 'grad_norm<1e-9, step_norm<0'");
}

static void fits_survive(void **state)
{
    (void)state;
    put("d.csv", ROWS);
    exhaust("fit 'a*x + b' d.csv --y z --param a=1 --param b=1 --bound a<9 --json --out r.safetensors");
    exhaust("fit 'a*x + b' d.csv --y z --param a=1 --param b=1 --chain 'lbfgs | strong_wolfe' --steps 2");
    exhaust("fit 'a*x' d.csv --y z --param a=-90 --bound a<-90 --steps 3");
    exhaust("fit 'a*x' d.csv --y z --param a=1 --bound 0<a<9 --chain 'lbfgs | strong_wolfe' --steps 2");
}

static void fits_of_several_tables_survive(void **state)
{
    (void)state;
    put("d.csv", "x [s],y\n0,1\n1,0\n2,3\n");
    put("e.csv", "x [s],y\n0,1\n1,0\n2,3\n");
    exhaust("fit 'a[set]*x' d.csv e.csv --param 'a[set]=1' --steps 1 --plot s.svg");
    exhaust("fit 'a*x' " GD_TEST_DIR "/cli/tables/line_packed.npz --param a=1 --steps 1");
}

static void fits_of_long_tables_survive(void **state)
{
    (void)state;
    FILE *f = fopen("long.csv", "w");
    assert_non_null(f);
    fprintf(f, "x,y\n");
    for (int i = 0; i < 1100; i++) fprintf(f, "%d,%d\n", i, 2 * i + i % 5);
    assert_int_equal(fclose(f), 0);
    exhaust("fit 'a*x + k' long.csv --param a=1 --fix k=2 --steps 1");
}

static void saved_fits_survive(void **state)
{
    (void)state;
    put("d.csv", ROWS);
    put("f.gd", "f(x, a) = a*x;");
    exhaust(
        "fit 'f(x, a) + k*b' d.csv --y z --param a=1 --param b=1 --fix k=2 --def f.gd --out r.safetensors --residuals r.csv");
    exhaust("fit 'a*x' d.csv --y z --param a=1 --loss huber:9 --steps 1 --json");
    for (int64_t k = 1;
         fails_well("fit 'a*x = z' d.csv --param a=1 --x-errors z=2 --steps 1 --plot e.svg", k, false);)
        k += 37;
    (void)fails_well("fit 'a*x' d.csv --y z --param a=1 --intervals bootstrap:100", 0, false);
    for (int64_t k = 1; fails_well("fit 'a*x' d.csv --y z --param a=1 --intervals bootstrap:100", k, false);)
        k += 97;
    exhaust("fit 'a*x' d.csv --y z --param a=1 --starts 2 --steps 1");
    for (int64_t k = 1; fails_well("fit 'a*x' d.csv --y z --param a=-1 --guess --steps 1", k, false);)
        k += 41;
    for (int64_t k = 1; fails_well("fit 'a*x' d.csv --y z --param a=1 --plot p.pdf --log y", k, false);)
        k += 7;
    for (int64_t k = 1;
         fails_well("fit 'a*x' d.csv --y z --param a=1 --export f.c --export f.py --export f.tex", k, false);)
        k += 5;
    exhaust("predict r.safetensors d.csv --out p.csv");
    exhaust("predict r.safetensors d.csv --json");
    exhaust("predict r.safetensors d.csv --score");
    (void)fails_well(
        "fit 'a*x' d.csv --y z --param a=1 --x-errors 1 --steps 1 --plot e.svg --out n.safetensors", 0,
        false);
    for (int64_t k = 1;
         fails_well("fit 'a*x' d.csv --y z --param a=1 --x-errors 1 --steps 1 --plot e.svg", k, false);)
        k += 17;
    exhaust("predict n.safetensors d.csv");
}

static void bounds_and_constraints_survive(void **state)
{
    (void)state;
    put("f.txt", "twice(x) = 2*x\n");
    exhaust(
        "minimize 'sum((x-3)^2)' --param x=[1,2] --bound '0<x[0]<2' --bound 'x[1]>1.5' --chain 'lbfgs | strong_wolfe' "
        "--steps 2 --json");
    exhaust(
        "minimize 'sum((x-3)^2)' --param x=[1,2] --bound 'x<[2,5]' --chain 'newton | backtracking' --steps 1");
    exhaust(
        "minimize 'twice(x)^2 + y^2' --param x=1 --param y=2 --def f.txt --equal 'twice(x) + y - 1' --below 'y - 5' "
        "--subject '0 <= y <= 9' --steps 2 --json");
    exhaust("eval 'twice(a)' --param a=1 --def f.txt");
    exhaust("minimize 'x^2' --param x=1 --bound '-2<x<2' --starts 2 --chain 'lr(0.1)' --steps 2");
    exhaust("minimize 'x^2' --param x=1 --gradient none --chain 'cma_es(population=4)' --steps 1 --json");
    exhaust("minimize 'x^2' --param x=1 --chain 'adam | lr(0.1)' --steps 1 --save s.safetensors");
    exhaust(
        "minimize 'x^2' --param x=1 --chain 'adam | lr(0.1)' --steps 1 --resume s.safetensors --save t.safetensors");
    exhaust("minimize 'x^2' --param x=1 --gradient differences --chain 'lr(0.1)' --steps 1");
    exhaust(
        "minimize 'mean((a*v)^2)' --param a=1 --data v=[1,2,3] --split v --microbatch 2 --chain 'lr(0.1)' --steps 1");
}

static void rows_constants_and_derived_quantities_survive(void **state)
{
    (void)state;
    put("d.csv", "x;z;s\n0;1,5;1\n1;0,5;2\n2;;1\n3;4,5;1\n4;6;2\n5;7,5;1\n");
    exhaust(
        "fit 'a*x + b + c' d.csv --decimal comma --missing drop --exclude 'x > 4' --y z --param a=1 --param b=1 --fix c=0.5 "
        "--derive 'half=b/a' --sigma s --absolute-sigma --json --out a.safetensors");
    exhaust("fit 'a*x' d.csv --decimal comma --missing drop --exclude 'x > 4' --y z --param a=1 --sigma s "
            "--out b.safetensors");
    exhaust("compare a.safetensors b.safetensors");
    exhaust("compare a.safetensors b.safetensors --json");
}

static void pictures_survive(void **state)
{
    (void)state;
    put_trace("t.jsonl");
    exhaust("plot t.jsonl --out t.svg");
    exhaust("plot t.jsonl --out t.png --dark");
    exhaust("plot t.jsonl --path --out t.svg");
}

static void training_survives(void **state)
{
    (void)state;
    put("d.csv", ROWS);
    exhaust(
        "train d.csv --target y --model 'mlp(3, dropout=0.1)' --epochs 2 --batch 2 --validation 0.2 --json "
        "--out m.safetensors --trace t.jsonl --events runs --group 'out.*: lr=0.1' --chain 'adam | lr(0.01)' "
        "--schedule lr=linear(1,0,9)");
    exhaust("train d.csv --resume m.safetensors --epochs 3 --json --trace t.jsonl --out n.safetensors");
    exhaust("predict m.safetensors d.csv --probabilities --out p.csv");
    exhaust("predict m.safetensors d.csv --score --json");
    exhaust("train d.csv --target z --ignore y --model linear --epochs 1 --json");
    /* of what is done again and again every seventh or so */
    put("mixed.csv", "w,d,n,y\nu,2024-01-02,1,0.5\nv,2024-01-09,,1.5\nu,,3,2.5\n,2024-01-05,4,0.5\n");
    static const char *const others[] = {
        "train d.csv --target y --model linear --epochs 1 --folds 2 --validation 0 --json",
        "train d.csv --target y --model linear --epochs 1 --seeds 2 --validation 0 --out e.safetensors",
        "predict e.safetensors d.csv",
        "train d.csv --target y --model linear --epochs 1 --validation 0.4 --importance --stop-on auc --class-weights "
        "balanced",
        "train d.csv --target z --ignore y --model linear --epochs 1 --loss poisson",
        "train d.csv --target y --model linear --find-lr --plot l.svg",
        "train d.csv --target y --model linear --epochs 1 --microbatch 3 --validation 0.4",
        "predict m.safetensors d.csv --score --roc r.svg --calibration c.svg",
        "train d.csv --resume m.safetensors --epochs 3 --chain 'adam | lr(0.1)' --out n.safetensors",
        "train d.csv --target y --stream --model linear --epochs 1",
        "train mixed.csv --target y --stream --model linear --epochs 1",
    };
    for (int i = 0; i < COUNT_OF(others); i++) {
        (void)fails_well(others[i], 0, false);
        for (int64_t k = 1 + i; fails_well(others[i], k, false);) k += i == 5 ? 53 : 7;
    }
    exhaust("train mixed.csv --target y --validation 0 --model linear --epochs 1 --out x.safetensors");
    exhaust("predict x.safetensors mixed.csv --out p.csv");
    FILE *f = fopen("many.csv", "w");
    fprintf(f, "w,y\n");
    for (int i = 0; i < 104; i++) fprintf(f, "w%d,%d.5\n", i % 52, i);
    fclose(f);
    for (int64_t k = 1; fails_well("train many.csv --target y --model linear --epochs 1", k, false);) k += 11;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(small_commands_survive),
        PROGRAM_TEST(expressions_survive),
        PROGRAM_TEST(fits_survive),
        PROGRAM_TEST(bounds_and_constraints_survive),
        PROGRAM_TEST(rows_constants_and_derived_quantities_survive),
        PROGRAM_TEST(saved_fits_survive),
        PROGRAM_TEST(fits_of_long_tables_survive),
        PROGRAM_TEST(fits_of_several_tables_survive),
        PROGRAM_TEST(pictures_survive),
        PROGRAM_TEST(training_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
