/* Every writer of the program in a locale with a decimal comma: what the commands print and write is what they print and write
 * in the C locale, byte for byte, and later commands read it back.  CTest runs the suite as locale/<locale>/cli/locale. */
#include "cli/cli.h"

#include "program.h"

#include <dirent.h>
#include <locale.h>

/* In this order: a command reads what those above it wrote. */
static const char *const lines[] = {
    "minimize '(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.1,2.5] --chain 'adam(eps=1e-7) | lr(0.1)' --steps 7 --json "
    "--schedule lr=linear(1,0.25,9) --trace t.jsonl --plot t.svg --out t.safetensors",
    "minimize 'sum((p-0.5)^2)' --param p=@t.safetensors:p --until 'grad_norm<1.5e-3' --json",
    "plot t.jsonl --out loss.svg",
    "plot t.jsonl --out loss.png",
    "plot t.jsonl --out path.svg --expr '(1-p[0])^2 + 1.5*p[1]^2'",
    "fit 'a*exp(-b*t)+c' " DATA
    "decay.csv --param a=1.5 --param b=1 --param c=0 --bound 0.25<b<2.5 --json --plot f.svg --out "
    "f.safetensors",
    "fit 'a*exp(-b*t)' " DATA
    "decay.csv --param a=1.5 --param b=1 --derive h=log(2)/b --out s.safetensors --json",
    "compare s.safetensors f.safetensors --json",
    "compare f.safetensors f.safetensors",
    "train " DATA
    "decay.csv --target y --model 'mlp(3, dropout=0.1)' --epochs 2 --json --chain 'clip_norm(1.5) | adam | "
    "lr(0.01)' --schedule lr=linear(1,0.25,9) --group 'out.*: lr=0.125' --trace e.jsonl --out m.safetensors --events "
    "runs",
    "train " DATA "decay.csv --resume m.safetensors --epochs 4 --json --trace e.jsonl --out n.safetensors",
    "predict n.safetensors " DATA "decay.csv --out p.csv",
    "predict n.safetensors " DATA "decay.csv --score",
    "predict n.safetensors " DATA "decay.csv --json",
    "eval 'sum((y - p)^2)' --data y=@p.csv:y --param p=0.75 --hessian --check",
    "eval 'sum((y - p)^2)' --data y=@p.csv:y --param p=0.75 --hessian --json",
    "fit 'a + 0*y' p.csv --y y --param a=0.5 --json",
    "links adam",
    "links adam --json",
    "explain 'adam(0.85) | lr(0.1)' --size zeros(3,4) --source",
    "help --manual",
};

/* ---- running ---- */

/* Times are the only numbers that are not the same again: "seconds": 0.25 becomes "seconds": _. */
static void take_out_times(char *text)
{
    char *to = text;
    for (char *s = text; *s;) {
        bool time = !strncmp(s, "\"seconds\": ", 11);
        for (int i = 0; i < (time ? 11 : 1); i++) *to++ = *s++;
        if (!time) continue;
        s += strspn(s, "0123456789.e+-");
        *to++ = '_';
    }
    *to = 0;
}

/* What the command prints goes to line<N>.txt. */
static void run_line(int n)
{
    char text[1024], *words[64], name[32];
    gd_ctx *ctx = context(NULL, 1, NULL);
    snprintf(text, sizeof text, "%s", lines[n]);
    gd_cli cli = {.ctx = ctx, .out = gd__text(ctx)};
    int code = gd__cli_dispatch(&cli, split_words(text, words, 64), words);
    if (code || gd_error(ctx)) fail_msg("gradus %s: %s", lines[n], gd_error_text(ctx));
    snprintf(out, sizeof out, "%s", gd__text_string(&cli.out));
    take_out_times(out);
    snprintf(name, sizeof name, "line%d.txt", n);
    put(name, out);
    gd__text_free(&cli.out);
    end_context(ctx, NULL);
}

/* ---- event files: records of protocol buffers, read here as their format says ---- */

static uint64_t varint_at(const unsigned char **at)
{
    uint64_t value = 0;
    int shift = 0;
    for (;; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
}

/* "step tag value" of one Event, the time left out; the first one names the format. */
static void put_event(FILE *to, const unsigned char *at, const unsigned char *end)
{
    uint64_t step = 0;
    while (at < end) {
        unsigned key = (unsigned)varint_at(&at);
        size_t length = key % 8 == 2 ? (size_t)varint_at(&at) : 0;
        if (key == (1 << 3 | 1)) at += 8;
        if (key == (2 << 3 | 0)) step = varint_at(&at);
        if (key == (3 << 3 | 2)) fprintf(to, "%.*s\n", (int)length, at);
        if (key == (5 << 3 | 2)) {
            /* Summary { Value { tag, simple_value } } */
            const unsigned char *in = at + 1;
            (void)varint_at(&in);
            assert_int_equal(*in++, 1 << 3 | 2);
            size_t name = (size_t)varint_at(&in);
            float value;
            assert_int_equal(in[name], 2 << 3 | 5);
            memcpy(&value, in + name + 1, 4);
            fprintf(to, "%d %.*s %.9g\n", (int)step, (int)name, in, (double)value);
        }
        at += length;
    }
}

/* The event file of a run, whose name has the time in it, becomes events.txt. */
static void read_events(void)
{
    static unsigned char bytes[1 << 16];
    assert_int_equal(system("cat runs/events.out.tfevents.* >events && rm -r runs"), 0);
    FILE *from = fopen("events", "rb"), *to = fopen("events.txt", "w");
    assert_true(from && to);
    size_t size = fread(bytes, 1, sizeof bytes, from);
    int records = 0;
    for (size_t at = 0; at < size; records++) {
        uint64_t length;
        memcpy(&length, bytes + at, 8);
        assert_true(at + 16 + length <= size);
        put_event(to, bytes + at + 12, bytes + at + 12 + length);
        at += 16 + length;
    }
    assert_int_equal(fclose(from) | fclose(to), 0);
    assert_int_equal(unlink("events"), 0);
    assert_true(records >= 5); /* the format, and two losses for each of two epochs */
}

static void run_all(const char *into)
{
    assert_int_equal(mkdir(into, 0777), 0);
    assert_int_equal(chdir(into), 0);
    for (int n = 0; n < COUNT_OF(lines); n++) run_line(n);
    read_events();
    assert_int_equal(chdir(".."), 0);
}

/* ---- comparing ---- */

static int compare_folders(const char *a, const char *b)
{
    int files = 0;
    DIR *dir = opendir(a);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));) {
        char one[100], other[100];
        if (e->d_name[0] == '.') continue;
        snprintf(one, sizeof one, "%s/%.80s", a, e->d_name);
        snprintf(other, sizeof other, "%s/%.80s", b, e->d_name);
        if (!same_files(one, other)) fail_msg("%s is different in this locale", e->d_name);
        files++;
    }
    closedir(dir);
    return files;
}

static void all_that_is_written_is_the_same_and_read_back(void **state)
{
    (void)state;
    if (!getenv("GD_TEST_LOCALE")) skip();
    assert_string_not_equal(localeconv()->decimal_point, ".");
    char *own = strdup(setlocale(LC_ALL, NULL));
    run_all("own");
    setlocale(LC_ALL, "C");
    run_all("c");
    setlocale(LC_ALL, own);
    free(own);
    /* thirteen files beside what each line prints */
    assert_int_equal(compare_folders("c", "own"), COUNT_OF(lines) + 14);
}

/* A new command gets a line above; these write no number with a fraction that is not a time or a property of the machine. */
static bool writes_no_number(const char *command)
{
    return !strcmp(command, "bench") || !strcmp(command, "devices") || !strcmp(command, "world") ||
           !strcmp(command, "complete");
}

static void every_command_is_there(void **state)
{
    (void)state;
    for (int i = 0; gd__commands[i]; i++) {
        size_t length = strlen(gd__commands[i]->name);
        bool there = writes_no_number(gd__commands[i]->name);
        for (int n = 0; n < COUNT_OF(lines) && !there; n++)
            there = !strncmp(lines[n], gd__commands[i]->name, length) && lines[n][length] == ' ';
        if (!there) fail_msg("no line for gradus %s", gd__commands[i]->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(all_that_is_written_is_the_same_and_read_back),
        PROGRAM_TEST(every_command_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
