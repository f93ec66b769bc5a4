/* Completions: what the program offers at a place of a line, and what the shells make of it. */
#include "cli/cli.h"

#include "program.h"

/* Is the line, up to a tab, among those printed? */
static bool offered(const char *name)
{
    size_t length = strlen(name);
    for (const char *s = out; *s; s += strcspn(s, "\n") + 1)
        if (!strncmp(s, name, length) && (s[length] == '\n' || s[length] == '\t')) return true;
    return false;
}

static int lines(void)
{
    int count = 0;
    for (const char *s = out; *s; s++) count += *s == '\n';
    return count;
}

static void put_files(void)
{
    put("decay.csv", "t,signal,sigma [mV]\n0,1,1\n1,2,1\n");
    put("blank.txt", "  u   v\n 1 2\n 3 4\n");
    put("broken.csv", "t,\"signal\n\x01\xff,1\n");
}

/* The words of a line, the last one to be completed; what is offered, what is not. */
static const struct {
    const char *words;
    int place;
    const char *yes[4], *no[3];
} cases[] = {
    {"gradus ''", 1, {"minimize", "fit", "--help"}, {"complete"}},
    {"gradus mi", 1, {"minimize"}, {"fit"}},
    {"gradus minimize --ch", 2, {"--chain"}, {"--steps"}},
    {"gradus help e", 2, {"eval", "explain"}, {"fit"}},
    {"gradus links ad", 2, {"adam", "adamw", "adagrad"}, {"sgd"}},
    {"gradus explain sg", 2, {"sgd"}, {"adam"}},
    {"gradus explain 'clip_norm(1) | ada'", 2, {"clip_norm(1) | adam"}, {"adam"}},
    {"gradus explain 'adam(be'", 2, {"adam(beta1=", "adam(beta2="}, {"adam(bfgs"}},
    {"gradus explain 'clip_norm(1) | adam(0.9, e'", 2, {"clip_norm(1) | adam(0.9, eps="}, {NULL}},
    {"gradus explain 'lookahead([ada'", 2, {"lookahead([adam"}, {NULL}},
    {"gradus minimize 'x^2' --chain 'lb'", 4, {"lbfgs"}, {"adam"}},
    {"gradus minimize 'x^2' --chain=lb", 3, {"--chain=lbfgs"}, {"lbfgs"}},
    {"gradus minimize 'x^2' --dtype ''", 4, {"f32", "f64"}, {":files"}},
    {"gradus minimize 'x^2' --device g", 4, {"gpu"}, {"cpu"}},
    {"gradus minimize 'x^2' --gradient d", 4, {"differences"}, {"exact"}},
    {"gradus minimize 'x^2' --plot ''", 4, {":files"}, {"x"}},
    {"gradus minimize 'a*b+exp(c)' --param a=1 --param ''", 6, {"b=", "c="}, {"a=", "exp="}},
    {"gradus minimize 'a' --param a=1 --param b=@de", 6, {":files"}, {NULL}},
    {"gradus minimize 'a*b' --param al=1 --bound a", 6, {"al"}, {"b"}},
    {"gradus eval '2*ex'", 2, {"2*exp(", "2*expm1("}, {"exp("}},
    {"gradus fit 'a*t' de", 3, {":files"}, {"decay.csv"}},
    {"gradus fit 'a*t' decay.csv --y ''", 5, {"t", "signal", "sigma"}, {":files"}},
    {"gradus fit 'a*t' decay.csv --sigma si", 5, {"signal", "sigma"}, {"t"}},
    {"gradus fit 'a*t' blank.txt --y ''", 5, {"u", "v"}, {"t"}},
    {"gradus fit 'a*exp(-b*t)' decay.csv --param ''", 5, {"a=", "b="}, {"t="}},
    {"gradus fit 'a*t' decay.csv --exclude 'sig'", 5, {"signal", "sigma", "sigmoid("}, {"t"}},
    {"gradus train decay.csv --target ''", 4, {"t", "signal", ":files"}, {NULL}},
    {"gradus train decay.csv --ignore t,s", 4, {"t,signal", "t,sigma"}, {"signal"}},
    {"gradus train decay.csv --task ''", 4, {"auto", "regress"}, {NULL}},
    {"gradus minimize x --until 'loss<1,gr'", 4, {"loss<1,grad_norm<"}, {"grad_norm<"}},
    {"gradus minimize x --until ''", 4, {"loss<", "evals>", "seconds>"}, {NULL}},
    {"gradus fit 'a*t' decay.csv --loss ''", 5, {"huber", "tukey", "soft_l1"}, {"tukey[:SCALE]"}},
    {"gradus fit 'a*t' decay.csv --intervals ''", 5, {"normal", "profile", "bootstrap"}, {NULL}},
    {"gradus train decay.csv --model ''", 4, {"linear", "mlp(", "conv("}, {NULL}},
    {"gradus train decay.csv --class-weights ''", 4, {"balanced"}, {""}},
    {"gradus fit 'a*t' decay.csv --x-errors t=si", 5, {"t=signal", "t=sigma"}, {"signal"}},
    {"gradus fit 'a*t' broken.csv --y ''", 5, {NULL}, {"t"}},
    {"gradus fit 'a*t' . --y ''", 5, {NULL}, {"t"}},
    {"gradus fit 'a*(' decay.csv --param ''", 5, {NULL}, {"a="}},
    {"gradus fit 'a*t' no.csv --y ''", 5, {NULL}, {"t"}},
    {"gradus help --completions ''", 3, {"bash", "zsh", "fish"}, {NULL}},
    {"gradus nothing ''", 2, {NULL}, {"--help"}},
};

static void every_place_is_offered_what_fits(void **state)
{
    (void)state;
    put_files();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[600];
        snprintf(command, sizeof command, "complete zsh %d -- %s", cases[i].place, cases[i].words);
        works(command);
        for (int k = 0; k < 4 && cases[i].yes[k]; k++)
            if (!offered(cases[i].yes[k])) fail_msg("%s: no %s in\n%s", command, cases[i].yes[k], out);
        for (int k = 0; k < 3 && cases[i].no[k]; k++)
            if (offered(cases[i].no[k])) fail_msg("%s: %s in\n%s", command, cases[i].no[k], out);
    }
}

/* Through the tables: every option of every command, and values wherever the table names them or what they are. */
static void every_option_is_offered_with_its_values(void **state)
{
    (void)state;
    char command[600], option[64];
    put_files();
    for (const gd_command *const *c = gd__commands; *c; c++) {
        snprintf(command, sizeof command, "complete fish 2 -- gradus %s --", (*c)->name);
        works(command);
        for (const gd_option *o = (*c)->options; o->name; o++) {
            snprintf(option, sizeof option, "--%s", o->name);
            if (!offered(option)) fail_msg("gradus %s: %s is not offered", (*c)->name, option);
        }
        bool table = !strcmp((*c)->name, "fit"), data = !strcmp((*c)->name, "train");
        for (const gd_option *o = (*c)->options; o->name; o++) {
            bool named = o->value && (strchr(o->value, '|') || !strcmp(o->value, "CHAIN")) &&
                         !strstr(o->value, "FILE"),
                 columns = o->value && strstr(o->value, "COLUMN") && (table || data);
            if (!named && !columns) continue;
            snprintf(command, sizeof command, "complete fish %d -- gradus %s %s --%s ''", table ? 5 : 4,
                     (*c)->name, table ? "'a*t' decay.csv" : "decay.csv", o->name);
            works(command);
            if (!lines() || (columns && !offered("signal")))
                fail_msg("gradus %s --%s %s: no value is offered: %s", (*c)->name, o->name, o->value, out);
        }
    }
}

static void links_of_plugins_are_offered(void **state)
{
    (void)state;
    works("complete bash 6 -- gradus minimize 'x^2' --plugin " GD_PLUGIN_DIR
          "/plugin_good.so --chain plugin_");
    assert_true(offered("plugin_twice") && offered("plugin_gradient") && lines() == 2);
    works("complete bash 6 -- gradus minimize 'x^2' --plugin no.so --chain ad");
    assert_true(offered("adam"));
}

static void wrong_calls_are_named(void **state)
{
    (void)state;
    fails("complete tcsh 1 -- gradus x", 2, "'tcsh' is no shell that is known");
    fails("complete bash x -- gradus x", 2, "'x' is not the place of a word");
    fails("complete bash 5 -- gradus x", 2, "'5' is not the place of a word");
    fails("help --completions tcsh", 2, "--completions: 'tcsh' is none of: bash zsh fish");
}

/* ---- shells ---- */

static bool has_shell(const char *name)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s >has.txt", name);
    return system(command) == 0;
}

static void bash_completes(void **state)
{
    (void)state;
    put_files();
    assert_int_equal(symlink(GD_CLI, "gradus"), 0);
    works("help --completions bash");
    put("rc", out);
    put("try.sh", "PATH=$PWD:$PATH; . ./rc\n"
                  "try() { COMP_WORDS=(\"$@\"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gradus; "
                  "local IFS=,; echo \"${COMPREPLY[*]}\"; }\n"
                  "try gradus ev\n"
                  "try gradus eval --he\n"
                  "try gradus minimize x^2 --chain lbf\n"
                  "try gradus minimize x^2 --chain = lbf\n"
                  "try gradus minimize x^2 --chain \"'adam | lion\"\n"
                  "try gradus minimize x^2 --dtype =\n"
                  "try gradus fit \"'a*t'\" decay.csv --y sig\n"
                  "try gradus fit \"'a*t'\" decay.csv --param a = 1 --y sig\n"
                  "try gradus fit \"'a*t'\" dec\n"
                  "try gradus minimize x --param x = @dec\n");
    assert_int_equal(system("bash -n rc && bash try.sh >got.txt"), 0);
    slurp("got.txt", out, sizeof out);
    assert_string_equal(out, "eval\n--hessian,--help\nlbfgs\nlbfgs\nadam | lion\nf32,f64\nsignal,sigma\n"
                             "signal,sigma\ndecay.csv\n@decay.csv\n");
}

static void zsh_completes(void **state)
{
    (void)state;
    if (!has_shell("zsh")) {
        print_message("no zsh: left out\n");
        skip();
    }
    put_files();
    assert_int_equal(symlink(GD_CLI, "gradus"), 0);
    works("help --completions zsh");
    put("_gradus", out);
    /* completion functions run in the line editor only: a second zsh on a pseudo-terminal types the line and a tab */
    put("try.zsh",
        "zmodload zsh/zpty || exit 9\n"
        "await() {\n"
        "    local piece all= i\n"
        "    for i in {1..300}; do\n"
        "        while zpty -r -t shell piece; do print -rn -- $piece; all+=$piece; done\n"
        "        [[ $all == *$1* ]] && return\n"
        "        sleep 0.05\n"
        "    done\n"
        "}\n"
        "zpty shell 'zsh -f -i'\n"
        "zpty -w shell \"PS1=; PATH=$PWD:\\$PATH; autoload -Uz compinit; compinit -u -D; source ./_gradus\"\n"
        "zpty -w shell 'print READ''Y'\n"
        "await READY\n"
        "zpty -n -w shell $'gradus mini\\t'; await minimize\n"
        "zpty -n -w shell $'\\x15gradus minimize x --chain lbf\\t'; await lbfgs\n"
        "zpty -n -w shell $'\\x15gradus fit a decay.csv --y sigm\\t'; await sigma\n"
        "zpty -d shell\n");
    assert_int_equal(system("zsh -n _gradus && timeout 60 zsh -f try.zsh >got.txt 2>&1"), 0);
    slurp("got.txt", out, sizeof out);
    const char *typed = strstr(out, "gradus mini");
    if (!typed || !strstr(typed, "minimize") || !strstr(typed, "lbfgs") || !strstr(typed, "sigma"))
        fail_msg("zsh shows %s", out);
}

static void fish_completes(void **state)
{
    (void)state;
    if (!has_shell("fish")) {
        print_message("no fish: left out\n");
        skip();
    }
    put_files();
    assert_int_equal(symlink(GD_CLI, "gradus"), 0);
    works("help --completions fish");
    put("gradus.fish", out);
    put("try.fish",
        "set -x PATH $PWD $PATH\nsource gradus.fish\ncomplete -C 'gradus mini'\n"
        "complete -C 'gradus minimize x --chain lbf'\ncomplete -C 'gradus fit a decay.csv --y sigm'\n"
        "complete -C 'gradus fit a dec'\n");
    assert_int_equal(system("HOME=$PWD timeout 20 fish --no-config try.fish >got.txt 2>&1"), 0);
    slurp("got.txt", out, sizeof out);
    const char *const wanted[] = {"minimize", "lbfgs", "sigma", "decay.csv"};
    for (int i = 0; i < 4; i++)
        if (!offered(wanted[i])) fail_msg("fish: no %s in\n%s", wanted[i], out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(every_place_is_offered_what_fits),
        PROGRAM_TEST(every_option_is_offered_with_its_values),
        PROGRAM_TEST(links_of_plugins_are_offered),
        PROGRAM_TEST(wrong_calls_are_named),
        PROGRAM_TEST(bash_completes),
        PROGRAM_TEST(zsh_completes),
        PROGRAM_TEST(fish_completes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
