/* Every command against every kind of broken input and output: exit code 1 or 2, one sentence on standard error that names the
 * place, nothing on standard output, and what was on disk before is still there, with nothing new beside it. */
#include "program.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

/* ---- files to stumble over ---- */

#define GOOD_ROWS "0,1.1\n1,2.9\n2,5.2\n3,6.8\n4,9.1\n5,11\n"

/* Rows of `width` numbers 0, 1, 2, ... as .npy. */
static void put_npy(const char *name, int rows, int width)
{
    char file[1024];
    memcpy(file, "\x93NUMPY\x01\0\x76\0", 10);
    int used = snprintf(file + 10, 119, "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }", rows,
                        width);
    memset(file + 10 + used, ' ', (size_t)(117 - used));
    file[127] = '\n';
    for (int i = 0; i < rows * width; i++) {
        double value = i;
        memcpy(file + 128 + 8 * i, &value, 8);
    }
    put_bytes(name, file, (size_t)(128 + 8 * rows * width));
}

static void make_files(void)
{
    put("good.csv", "x,y\n" GOOD_ROWS);
    put("long.csv", "x,y\n" GOOD_ROWS GOOD_ROWS GOOD_ROWS GOOD_ROWS GOOD_ROWS);
    put("kinds.csv", "x,k\n1,a\n2,b\n3,a\n4,b\n5,a\n6,b\n7,a\n8,b\n");
    put("empty.csv", "");
    put("rowless.csv", "x,y\n");
    put("single.csv", "x,y\n1,2\n");
    put("other.csv", "u,v\n" GOOD_ROWS);
    put("words.csv", "x,y\n1,2\n2,abc\n3,4\n");
    put("ragged.csv", "x,y\n1,2\n3\n4,5\n");
    put("nan.csv", "x,y\n1,2\n2,NaN\n3,4\n");
    put("hole.csv", "x,y\n1,2\n2,\n3,4\n");
    put("infinite.csv", "x,y\n1,2\n2,inf\n3,4\n");
    put_bytes("binary.csv", "x,y\n1,\0\x80\n", 9);
    put("open_quote.csv", "x,y\n1,\"2\n3,4\n");
    put("empty.npy", "");
    put("garbage.npy", "not a NumPy file at all, only text");
    put("empty.idx", "");
    put_bytes("cut.idx", "\0\0\x08\x03\0\0\0\x02", 8);
    put_bytes("packed.csv.gz", "\x1f\x8b\x08\0\0\0\0\0", 8);
    put("empty.safetensors", "");
    put("garbage.safetensors", "0123456789");
    put("empty.jsonl", "");
    put("garbage.jsonl", "{\"step\": 1, \"loss\"\n");
    put("lossless.jsonl", "{\"step\": 1}\n");
    put("trace.jsonl", "{\"step\":1,\"loss\":2,\"evals\":1,\"params\":{\"p\":[1,2]}}\n");
    assert_int_equal(mkdir("folder.csv", 0777) | mkdir("folder.npy", 0777) | mkdir("folder.idx", 0777) |
                         mkdir("folder.safetensors", 0777) | mkdir("folder.jsonl", 0777) |
                         mkdir("folder.svg", 0777),
                     0);
    works("train good.csv --target y --model linear --epochs 1 --validation 0 --out model.safetensors");
    put("colours.csv", "w,y\nred,1\nblue,2\nred,1\nblue,2\nred,1\nblue,2\n");
    works(
        "train colours.csv --target y --task regress --model linear --epochs 1 --validation 0 --out words.safetensors");
    put_npy("x.npy", 4, 1);
    put_npy("wide.npy", 4, 3);
    works("minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 1 --save run.safetensors");
    works("minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 1 --out end.safetensors");
    works("minimize 'x^2*y^2' --param x=1 --data y=1 --chain 'lr(0.1)' --steps 1 --save two.safetensors");
    works("fit 'a*x' good.csv --param a=1 --out fit.safetensors");
    works("fit 'a*x' good.csv --param a=1 --out small.safetensors");
    works("fit 'a*x + b' good.csv --param a=1 --param b=0 --out large.safetensors");
    works("fit 'a*x' good.csv --param a=1 --exclude 'x > 4' --out fewer.safetensors");
    put("comma.csv", "x;y\n0,5;1,1\n1;2.9\n2;5,2\n");
    put("holes.csv", "x,y\n1,\n2,\n");
    put("functions.txt", "twice(x) = 2*x\n");
    put("broken.txt", "twice(x = 2*x\n");
    put("endless.txt", "f(x) = f(x) + 1\n");
    put_bytes("binary.txt", "f(x) = \0\n", 9);
    put("old", "what was there before");
}

/* ---- what must hold ---- */

/* Names of all files of the folder, but those of the test itself. */
static void list_folder(char *into, size_t size)
{
    struct dirent **entry;
    int count = scandir(".", &entry, NULL, alphasort);
    assert_true(count > 0);
    into[0] = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(entry[i]->d_name, "stdout.txt") != 0 && strcmp(entry[i]->d_name, "stderr.txt") != 0)
            snprintf(into + strlen(into), size - strlen(into), "%s\n", entry[i]->d_name);
        free(entry[i]);
    }
    free(entry);
}

static bool one_sentence(void)
{
    size_t length = strlen(err);
    return !strncmp(err, "gradus: ", 8) && length > 12 && strchr(err, '\n') == err + length - 1;
}

/* Runs a command that cannot succeed; `text` is part of the sentence.  results: it had them when it failed, and prints them. */
static void fails_and_prints(const char *arguments, const char *text, bool results)
{
    char before[4096], after[4096], old[64];
    list_folder(before, sizeof before);
    int code = gradus(arguments);
    list_folder(after, sizeof after);
    if (code != 1 && code != 2) fail_msg("gradus %s: exit %d: %s", arguments, code, err);
    if (!one_sentence() || !strstr(err, text))
        fail_msg("gradus %s says\n  %swant\n  %s", arguments, err, text);
    if (!*out == results) fail_msg("gradus %s prints '%s'", arguments, out);
    if (strcmp(before, after) != 0) fail_msg("gradus %s leaves\n%s", arguments, after);
    slurp("old", old, sizeof old);
    assert_string_equal(old, "what was there before");
}

static void refuses(const char *arguments, const char *text) { fails_and_prints(arguments, text, false); }

/* Minimising and fitting may have taken long: what came out is not lost for a file that cannot be written. */
static bool prints_results(const char *command)
{
    return !strncmp(command, "minimize", 8) || !strncmp(command, "fit", 3);
}

/* ---- inputs ---- */

/* '%' is the file.  Every command that reads one, with outputs that must not be touched. */
static const char *const table_readers[] = {
    "minimize 'sum((a*X - X)^2)' --param a=1 --data X=@% --steps 2 --out old --trace new.jsonl --plot new.svg",
    "minimize 'sum((a*y)^2)' --param a=1 --data y=@%:y --steps 2 --out old",
    "fit 'a*x' % --y y --param a=1 --out old --plot new.svg",
    "train % --target y --model linear --epochs 1 --out old --trace new.jsonl --events new_folder",
    "predict model.safetensors % --out old --score",
    "predict model.safetensors % --score",
    "fit 'a*x' % --y y --param a=1 --residuals old",
    "predict fit.safetensors % --score",
    "eval 'sum(X)' --data X=@%",
    "plot trace.jsonl --expr 'p[0]*sum(X)' --data X=@% --out new.svg",
};

static const struct {
    const char *file, *text;
} broken_tables[] = {
    {"missing.csv", "missing.csv: cannot open: No such file or directory"},
    {"empty.csv", "empty.csv: the file is empty"},
    {"folder.csv", "folder.csv: cannot read: Is a directory"},
    {"words.csv", "words.csv: line 3, column 'y': 'abc' is not a number"},
    {"ragged.csv", "ragged.csv: line 3: 1 cell, but line 1 has 2"},
    {"nan.csv", "nan.csv: line 3, column 'y': 'NaN' stands for a missing number"},
    {"hole.csv", "hole.csv: line 3, column 'y': the cell is empty"},
    {"infinite.csv", "infinite.csv: line 3, column 'y': 'inf' is not finite"},
    {"binary.csv", "binary.csv: line 2"},
    {"open_quote.csv", "open_quote.csv: line 2"},
    {"packed.csv.gz", "packed.csv.gz: the gzip data is cut off"},
};

/* Puts a file into a template. */
static const char *fill(const char *template, const char *file, char into[1024])
{
    size_t used = 0;
    for (const char *s = template; *s; s++) {
        if (*s == '%')
            used += (size_t)snprintf(into + used, 1024 - used, "%s", file);
        else
            into[used++] = *s;
    }
    into[used] = 0;
    return into;
}

static void broken_tables_are_refused_by_every_command(void **state)
{
    (void)state;
    char arguments[1024];
    make_files();
    for (int c = 0; c < COUNT_OF(table_readers); c++) {
        /* --out and --score exclude each other: a row of its own checks that */
        if (strstr(table_readers[c], "--out old --score")) {
            refuses(fill(table_readers[c], "good.csv", arguments), "--score prints no predictions for --out");
            continue;
        }
        for (int i = 0; i < COUNT_OF(broken_tables); i++)
            refuses(fill(table_readers[c], broken_tables[i].file, arguments), broken_tables[i].text);
    }
}

/* Data of any kind that is larger than --max-bytes, also after unpacking, and what has no end. */
static void large_data_are_refused_by_every_command(void **state)
{
    (void)state;
    static const char *const files[] = {"long.csv", "long.csv.gz", "zeros.csv.gz"};
    static const struct {
        const char *command, *text;
    } rows[] = {
        {"eval 'sum(X)' --data X=@wide.npy --max-bytes 200",
         "wide.npy: has more than 200 bytes; --max-bytes"},
        {"eval 'sum(X)' --data X=@wide.npy.gz --max-bytes 200",
         "wide.npy.gz: its header wants more than 200"},
        {"train wide.npy --target good.csv --out old --max-bytes 200", "wide.npy: has more than 200 bytes"},
        {"eval 'sum(X)' --data X=@fit.safetensors:a --max-bytes 20",
         "fit.safetensors: has more than 20 bytes"},
        {"fit 'a*c1' wide.npy --param a=1 --max-bytes 20 --out old", "wide.npy: has more than 20 bytes"},
        {"eval 'sum(X)' --data X=@good.csv --max-bytes 1X", "--max-bytes: '1X' is not a number of bytes"},
        {"fit 'a*x' good.csv --param a=1 --out old --max-bytes 0", "fit: --max-bytes: '0' is not a number"},
        {"predict fit.safetensors /dev/zero", "/dev/zero: line 1: a zero byte: this is not a text file"},
        {"eval 'sum(X)' --data X=@zeros.csv.gz", "zeros.csv.gz: line 2: a zero byte"},
    };
    char command[1024], arguments[1200], text[200];
    make_files();
    put("zeros.csv", "x,y\n");
    assert_int_equal(truncate("zeros.csv", 1 << 20), 0);
    assert_int_equal(system("gzip -k long.csv wide.npy; gzip -k zeros.csv"), 0);
    for (int c = 0; c < COUNT_OF(table_readers); c++) {
        if (strstr(table_readers[c], "--out old --score") || strstr(table_readers[c], "trace.jsonl "))
            continue;
        for (int i = 0; i < COUNT_OF(files); i++) {
            snprintf(arguments, sizeof arguments, "%s --max-bytes 90",
                     fill(table_readers[c], files[i], command));
            snprintf(text, sizeof text, "%s: %s", files[i], i == 2 ? "" : i ? "unpacks to more" : "has more");
            refuses(arguments, text);
            if (i < 2 && !strstr(err, "more than 90 bytes; --max-bytes allows more")) fail_msg("%s", err);
        }
    }
    for (int i = 0; i < COUNT_OF(rows); i++) refuses(rows[i].command, rows[i].text);
    works("eval 'sum(X)' --data X=@long.csv.gz --max-bytes 1K");
}

static void absent_columns_and_rows_are_named(void **state)
{
    (void)state;
    make_files();
    refuses("minimize 'sum((a*y)^2)' --param a=1 --data y=@other.csv:y --out old",
            "other.csv: no column 'y'");
    refuses("fit 'a*x' other.csv --y y --param a=1 --out old", "unknown name 'x'");
    refuses("fit 'a*u' other.csv --y y --param a=1 --out old",
            "other.csv: no column 'y', the columns are u, v");
    refuses("fit 'a*u' other.csv --y v --sigma s --param a=1 --out old", "other.csv: no column 's'");
    refuses("train other.csv --target y --out old", "other.csv: no column 'y'");
    refuses("train other.csv --target u --features x --out old", "other.csv: no column 'x'");
    refuses("predict model.safetensors other.csv --out old", "other.csv: no column 'x'");
    refuses("eval 'sum(y)' --data y=@other.csv:y", "other.csv: no column 'y'");
    refuses("fit 'a*x' rowless.csv --param a=1 --out old", "rowless.csv: no rows");
    refuses("fit 'a*x' good.csv long.csv ./good.csv --param a=1 --out old",
            "./good.csv: given twice, its rows would count twice");
    refuses("train rowless.csv --target y --out old", "rowless.csv: no rows");
    refuses("predict model.safetensors rowless.csv --out old", "rowless.csv: no rows");
    refuses("predict fit.safetensors rowless.csv --out old", "rowless.csv: no rows");
    refuses("predict fit.safetensors other.csv --out old", "other.csv: no column 'x'");
}

/* One row is little, but not wrong everywhere. */
static void one_row_ends_well_or_with_a_sentence(void **state)
{
    (void)state;
    char arguments[1024];
    make_files();
    static const char *const readers[] = {
        "minimize 'sum((a*X - 2)^2)' --param a=1 --data X=@% --steps 2 --out new.safetensors --plot new.svg",
        "fit 'a*x' % --y y --param a=1 --out new.safetensors --plot new.svg",
        "fit 'a*x + b' % --y y --param a=1 --param b=0",
        "train % --target y --model linear --epochs 2 --out new.safetensors",
        "predict model.safetensors % --score",
        "predict model.safetensors %",
        "eval 'sum(X)' --data X=@%",
    };
    for (int c = 0; c < COUNT_OF(readers); c++) {
        int code = gradus(fill(readers[c], "single.csv", arguments));
        if (code == 0 ? *err != 0 : (code != 1 && code != 2) || !one_sentence())
            fail_msg("gradus %s: exit %d: %s", arguments, code, err);
    }
}

static void broken_arrays_models_and_traces_are_refused(void **state)
{
    (void)state;
    char arguments[1024];
    make_files();
    static const struct {
        const char *command, *files[5];
    } rows[] = {
        {"minimize 'sum((a*X)^2)' --param a=1 --data X=@% --out old",
         {"missing.npy", "empty.npy", "folder.npy", "garbage.npy"}},
        {"minimize 'sum((a*X)^2)' --param a=1 --data X=@% --out old",
         {"missing.idx", "empty.idx", "folder.idx", "cut.idx"}},
        {"minimize 'sum((a*X)^2)' --param a=1 --data X=@%:x --out old",
         {"missing.safetensors", "empty.safetensors", "folder.safetensors", "garbage.safetensors",
          "model.safetensors"}},
        {"eval 'sum(X)' --data X=@%", {"missing.npy", "empty.npy", "folder.npy", "garbage.npy", "cut.idx"}},
        {"train % --target good.csv --out old",
         {"missing.npy", "empty.npy", "folder.npy", "garbage.npy", "cut.idx"}},
        {"train good.csv --target y --resume % --out old",
         {"missing.safetensors", "empty.safetensors", "folder.safetensors", "garbage.safetensors"}},
        {"predict % good.csv --out old",
         {"missing.safetensors", "empty.safetensors", "folder.safetensors", "garbage.safetensors",
          "good.csv"}},
        {"predict model.safetensors % --out old",
         {"missing.npy", "empty.npy", "folder.npy", "garbage.npy", "cut.idx"}},
        {"plot % --out new.svg",
         {"missing.jsonl", "empty.jsonl", "folder.jsonl", "garbage.jsonl", "lossless.jsonl"}},
        {"plot trace.jsonl % --out new.svg",
         {"missing.jsonl", "empty.jsonl", "folder.jsonl", "garbage.jsonl"}},
    };
    for (int r = 0; r < COUNT_OF(rows); r++)
        for (int i = 0; i < 5 && rows[r].files[i]; i++)
            refuses(fill(rows[r].command, rows[r].files[i], arguments), rows[r].files[i]);
}

/* ---- the command line itself ---- */

static const char *const commands[] = {
    "minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2",
    "fit 'a*x' good.csv --param a=1",
    "compare small.safetensors large.safetensors",
    "train good.csv --target y --model linear --epochs 2",
    "predict model.safetensors good.csv",
    "eval '1+1'",
    "links",
    "explain 'adam | lr(0.1)'",
    "plot trace.jsonl --out picture.svg",
    "bench small",
    "devices",
    "world",
    "help",
};

static void options_that_are_not_there_are_refused(void **state)
{
    (void)state;
    make_files();
    for (int c = 0; c < COUNT_OF(commands); c++) {
        char arguments[1024];
        snprintf(arguments, sizeof arguments, "%s --frobnicate 3", commands[c]);
        refuses(arguments, "unknown option '--frobnicate'");
        assert_int_equal(gradus(arguments), 2);
        snprintf(arguments, sizeof arguments, "%s --jsn", commands[c]);
        refuses(arguments, "unknown option '--jsn'");
    }
}

/* Options that take more than a number: every way to say something that cannot be meant. */
static void broken_bounds_constraints_and_conditions_are_refused(void **state)
{
    (void)state;
    make_files();
    static const struct {
        const char *command, *option, *text;
    } rows[] = {
#define MINIMIZE "minimize 'sum(x^2)' --param x=[1,2] --out old --trace new.jsonl "
#define FIT      "fit 'a*x' good.csv --param a=1 --out old --plot new.svg "
#define PREDICT  "predict fit.safetensors good.csv "
#define TRAIN    "train good.csv --target y --model linear "
        {MINIMIZE, "--bound 'y>0'", "--bound: no parameter 'y'"},
        {MINIMIZE, "--bound x", "--bound: column 2: '<' or '>' expected"},
        {MINIMIZE, "--bound 'x>'", "--bound: column 3: a number expected"},
        {MINIMIZE, "--bound 'x>nan'", "--bound: column 3: a number expected"},
        {MINIMIZE, "--bound ''", "--bound: column 1: a parameter expected"},
        {MINIMIZE, "--bound '0<x>1'", "both signs the same way"},
        {MINIMIZE, "--bound '3<x<2'", "--bound: no number is between 3 and 2"},
        {MINIMIZE, "--bound 'x>0 1'", "--bound: column 5: nothing more expected"},
        {MINIMIZE, "--bound 'x[7]>0'", "--bound: 'x' has no such element"},
        {MINIMIZE, "--bound 'x[0.5]>0'", "the number of an element, from 0, and ']'"},
        {MINIMIZE, "--bound 'x>[1,2,3]'", "--bound: 3 numbers for 'x', which has 2 elements"},
        {MINIMIZE, "--bound 'x>@missing.npy'", "'missing.npy': cannot open"},
        {MINIMIZE, "--bound 'x>@garbage.npy'", "garbage.npy"},
        {MINIMIZE, "--bound 'x>0' --bound 'x>1'", "--bound: 'x' has one already; write low<x<high"},
        {MINIMIZE, "--equal 'y - 1'", "--equal: column 1: unknown name 'y'"},
        {MINIMIZE, "--equal 'x -'", "--equal: column 4: a number, a name or '(' expected"},
        {MINIMIZE, "--equal ''", "--equal: column 1"},
        {MINIMIZE, "--below 'x +'", "--below: column 4"},
        {MINIMIZE, "--below 'sum(k=1..3, k)'", "--below 'sum(k=1..3, k)': no parameter is in it"},
        {MINIMIZE, "--equal 1", "--equal '1': no parameter is in it"},
        {MINIMIZE, "--equal 'x <= 1'", "--equal: column 3: '<=' is an inequality; write --below 'x <= 1'"},
        {MINIMIZE, "--below 'x == 1'", "--below: column 3: '==' is an equality; write --equal 'x == 1'"},
        {MINIMIZE, "--subject 'x'", "--subject 'x': there is no comparison in it"},
        {MINIMIZE, "--subject '(x <= 1)'", "--subject: column 4: the value is true or false"},
        {MINIMIZE, "--starts 0", "--starts: '0' is not a whole number from 1 to 1000000"},
        {MINIMIZE, "--starts many", "--starts: 'many' is not a whole number from 1"},
        {MINIMIZE, "--resume missing.safetensors", "missing.safetensors"},
        {MINIMIZE, "--resume garbage.safetensors", "garbage.safetensors"},
        {MINIMIZE, "--resume empty.safetensors", "empty.safetensors"},
        {MINIMIZE, "--resume fit.safetensors", "fit.safetensors: no run that minimize has saved, but a fit"},
        {MINIMIZE, "--resume model.safetensors",
         "model.safetensors: no run that minimize has saved, but a model"},
        {"minimize 'x^2' --param x=1 --out old ", "--resume end.safetensors",
         "end.safetensors: no run that minimize has saved, but parameters alone, as --out writes them"},
        {MINIMIZE, "--resume run.safetensors", "run.safetensors: a run of a different expression, 'x^2'"},
        {"minimize 'x^2*y^2' --param y=1 --data x=1 --out old ", "--resume two.safetensors",
         "two.safetensors: the run has no parameter 'y'"},
        {"minimize 'x^2' --param x=[1,2] --out old ", "--resume run.safetensors",
         "run.safetensors: the run has a parameter 'x' of a different shape"},
        {"minimize 'x^2' --param x=1 --chain 'adam | lr(0.1)' --out old ", "--resume run.safetensors",
         "link"},
        {MINIMIZE, "--save nowhere/run.safetensors", "nowhere/run.safetensors: cannot write"},
        {MINIMIZE, "--gradient rough", "--gradient: 'rough' is none of: exact differences none"},
        {MINIMIZE, "--gradient none --equal 'sum(x)'", "--equal and --below need gradients"},
        {MINIMIZE, "--gradient none --until 'grad_norm<1'", "--until asks for the gradient"},
        {MINIMIZE, "--def missing.txt", "'missing.txt': cannot open"},
        {MINIMIZE, "--def folder.csv", "'folder.csv': cannot read: Is a directory"},
        {MINIMIZE, "--def broken.txt", "broken.txt: line 1, column 1"},
        {MINIMIZE, "--def endless.txt", "endless.txt: line 1, column 8: 'f' needs itself: f -> f"},
        {MINIMIZE, "--def binary.txt", "binary.txt: a byte 0 is no text"},
        {MINIMIZE, "--def functions.txt --below 'thrice(x)'", "--below: column 1: unknown function 'thrice'"},
        {"eval 'twice(2)' ", "--def broken.txt", "broken.txt: line 1, column 1"},
        {FIT, "--def broken.txt", "broken.txt: line 1, column 1"},
        {MINIMIZE, "--data q=1", "--data q: the expression does not use it"},
        {MINIMIZE, "--param y=1e400", "--param y: column 1: the number 1e400 is too large"},
        {MINIMIZE, "--below 'x - 1e400'", "--below: column 5: the number 1e400 is too large"},
        {MINIMIZE, "--chain 'adam | lr(0.1)' --group 'x: '", "--group 'x': it has no setting"},
        {MINIMIZE, "--chain 'adam | lr(0.1)' --schedule 'rate=constant(1)'",
         "schedule: no link of the chain has a setting 'rate'"},
        {MINIMIZE, "--chain 'adam | lr(0.1)' --schedule 'lr=constant(1)' --schedule 'lr=constant(2)'",
         "--schedule: lr is given twice"},
        {MINIMIZE, "--chain 'adam | lr(0.1)' --schedule 'x: lr=constant(1)' --schedule 'x: lr=constant(2)'",
         "--schedule: x: lr is given twice"},
        {TRAIN, "--schedule 'lr=constant(1)' --schedule 'lr=constant(2)'", "--schedule: lr is given twice"},
        {"predict words.safetensors ", "x.npy", "x.npy: the model wants a table: its column 'w' is of words"},
        {"predict model.safetensors ", "wide.npy",
         "wide.npy: rows have 3 numbers, 1 are wanted: x, in this order"},
        {"predict model.safetensors ", "other.csv",
         "other.csv: no column 'x', the columns are u, v; the model has learnt from x"},
        {"bench --list ", "smal", "bench: no benchmark 'smal', did you mean 'small'?"},
        {"eval '1+1' ", "--data q=1", "--data q: the expression does not use it"},
        {"plot trace.jsonl --out new.svg ", "--expr 'p[0]*p[1]' --data q=1",
         "--data q: the expression does not use it"},
        {FIT, "--bound 'b>0'", "--bound: no parameter 'b'"},
        {FIT, "--bound 'a>5'", "--bound: a starts at 1, outside its bound"},
        {FIT, "--exclude 'q>1'", "--exclude: column 1: unknown name 'q'"},
        {FIT, "--exclude 'a>1'", "--exclude: column 1: unknown name 'a'"},
        {FIT, "--exclude 'x>'", "--exclude: column 3"},
        {FIT, "--exclude '1>0'", "--exclude: '1>0' is not one condition a row"},
        {FIT, "--exclude 'x>-1'", "good.csv: no row is left to fit"},
        {FIT, "--missing maybe", "--missing: 'maybe' is none of: error drop"},
        {"fit 'a*x' holes.csv --param a=1 --out old ", "--missing drop", "holes.csv: no row is left to fit"},
        {"fit 'a*x' hole.csv --param a=1 --out old ", "--missing error",
         "hole.csv: line 3, column 'y': the cell"},
        {FIT, "--fix b", "--fix: NAME=VALUE expected, 'b' found"},
        {FIT, "--fix x=1", "--fix: 'x' is also a column of good.csv"},
        {FIT, "--fix a=1", "--fix: 'a' is there already"},
        {FIT, "--fix c=1", "--fix c: the model does not use it"},
        {FIT, "--fix c=@missing.npy", "'missing.npy': cannot open"},
        {"fit 'a*x+c' good.csv --param a=1 --out old ", "--fix 'c=[1,2]'", "axis 0 has 6 on the left and 2"},
        {FIT, "--derive b", "--derive: NAME=EXPRESSION expected, 'b' found"},
        {FIT, "--derive 'b='", "--derive: NAME=EXPRESSION expected, 'b=' found"},
        {FIT, "--derive 'b=q'", "--derive: column 1: unknown name 'q'"},
        {FIT, "--derive 'b=x'", "--derive b: 'x' is a column; parameters only"},
        {FIT, "--derive 'b=[a,a]'", "--derive b: 2 numbers, one is wanted"},
        {FIT, "--derive 'a=2*a'", "--derive: 'a' is there already"},
        {FIT, "--derive 'b=a' --derive 'b=2*a'", "--derive: 'b' is there already"},
        {FIT, "--decimal dot", "--decimal: 'dot' is none of: point comma"},
        {FIT, "--decimal comma --separator ,", "--separator and --decimal are both a comma"},
        {"fit 'a*x' comma.csv --param a=1 --out old ", "--decimal comma",
         "comma.csv: line 3, column 'y': '2.9' is not a number (--decimal comma was asked for)"},
        {"fit 'a*x' comma.csv --param a=1 --out old ", "", "(--decimal comma if this is a decimal comma)"},
        {"eval '1+1' ", "--decimal comma", "--decimal: no value is a table"},
        {FIT, "--absolute-sigma", "--absolute-sigma says something of --sigma, which is not given"},
        {FIT, "--absolute-sigma --weights x", "--absolute-sigma says something of --sigma"},
        {PREDICT, "--proba", "--proba is for models of gradus train, fit.safetensors is a fit"},
        {PREDICT, "--score --roc new.svg", "--roc is for models of gradus train"},
        {PREDICT, "--score --calibration new.svg", "--calibration is for models of gradus train"},
        {"predict model.safetensors good.csv --score ", "--proba",
         "--score prints no predictions for --proba"},
        {PREDICT, "--threads 0", "--threads: '0' is not a whole number from 1"},
        {"devices ", "--threads many", "--threads: 'many' is not a whole number from 1"},
        {TRAIN, "--epochs 1 --validation 0 --patience 2", "--patience wants rows to validate with"},
        {TRAIN, "--save-every 3", "--save-every is for --out, which is not given"},
        {TRAIN, "--features x --ignore y", "--features and --ignore do not go together"},
        {"train array.npy --target array.npy ", "--features x",
         "--features is for tables, array.npy is an array"},
        {"train array.npy --target array.npy ", "--ignore x", "--ignore is for tables"},
        {"train array.npy --target array.npy ", "--text x", "--text is for tables"},
        {"compare small.safetensors ", "", "compare: FIT_A.safetensors FIT_B.safetensors is missing"},
        {"compare small.safetensors large.safetensors ", "old", "'old' is one argument too many"},
        {"compare small.safetensors ", "missing.safetensors", "'missing.safetensors': cannot open"},
        {"compare small.safetensors ", "folder.safetensors", "'folder.safetensors': cannot read"},
        {"compare small.safetensors ", "garbage.safetensors", "garbage.safetensors"},
        {"compare small.safetensors ", "empty.safetensors", "empty.safetensors"},
        {"compare small.safetensors ", "model.safetensors", "model.safetensors: no 'fit.rss'"},
        {"compare small.safetensors ", "fewer.safetensors", "the fits are of different data: 6 and 5 rows"},
#undef MINIMIZE
#undef FIT
#undef PREDICT
#undef TRAIN
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        char arguments[1024];
        snprintf(arguments, sizeof arguments, "%s%s", rows[i].command, rows[i].option);
        refuses(arguments, rows[i].text);
    }
}

/* What a command has no use for on the way it went is not passed over in silence. */
static void options_that_nobody_asked_for_are_told(void **state)
{
    (void)state;
    make_files();
    static const struct {
        const char *command, *text;
    } rows[] = {
        {"links adam --search moments", "links: --search moments has no effect here"},
        {"plot trace.jsonl --out a.svg --label one --label two", "plot: --label two has no effect here"},
        {"plot trace.jsonl --out a.svg --data q=1", "plot: --data q=1 has no effect here"},
        {"plot trace.jsonl --out a.svg --seed 1", "plot: --seed 1 has no effect here"},
        {"train good.csv --target y --find-lr --patience 3",
         "train: --patience has no effect with --find-lr"},
        {"train good.csv --target y --find-lr --epochs 3", "train: --epochs has no effect with --find-lr"},
        {"train good.csv --target y --find-lr --time 3", "train: --time has no effect with --find-lr"},
        {"train good.csv --target y --find-lr --stop-on loss",
         "train: --stop-on has no effect with --find-lr"},
        {"train good.csv --target y --model linear --epochs 2 --chain 'lion | lr(0.1)' --group '*: chain=[adam | lr(0.1)]'",
         "train: --chain has no effect: every parameter is in a group with a chain of its own"},
        {"minimize 'x^2+y^2' --param x=1 --param y=1 --chain 'lion | lr(0.1)' --steps 2 --group 'x: chain=[adam | lr(0.1)]' "
         "--group 'y: chain=[sign | lr(0.1)]'",
         "minimize: --chain has no effect"},
        {"predict model.safetensors x.npy",
         "x.npy has no names of columns: its numbers are taken as x, in this order"},
    };
    for (int i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(gradus(rows[i].command), 0);
        if (strncmp(err, "gradus: warning: ", 17) != 0 || !strstr(err, rows[i].text))
            fail_msg("gradus %s says '%s'", rows[i].command, err);
    }
}

/* A bound whose ends are the same holds the parameter, however it is written; one start is the one that is given. */
static void the_least_of_what_can_be_asked_for_works(void **state)
{
    (void)state;
    make_files();
    works("fit 'a*x + b' good.csv --param a=2 --param b=0 --bound '2<a<2' --json");
    assert_non_null(strstr(out, "\"params\": {\"a\": 2,"));
    works("minimize '(x-1)^2+(y-x)^2' --param x=2 --param y=1 --bound '2<=x<=2' --json");
    assert_non_null(strstr(out, "\"params\": {\"x\": 2, \"y\": 2}"));
    works("fit 'a*x' good.csv --param a=1 --starts 1");
    assert_null(strstr(out, "starts"));
}

/* ---- outputs ---- */

/* '%' is the output. */
static const struct {
    const char *command, *ending;
    bool direct; /* a device may be written to */
} writers[] = {
    {"minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2 --out %", ".safetensors", false},
    {"minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2 --save %", ".safetensors", false},
    {"minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2 --plot %", ".svg", true},
    {"minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2 --plot %", ".png", true},
    {"minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2 --trace %", ".jsonl", true},
    {"fit 'a*x' good.csv --param a=1 --out %", ".safetensors", false},
    {"fit 'a*x' good.csv --param a=1 --plot %", ".svg", true},
    {"fit 'a*x' good.csv --param a=1 --plot %", ".pdf", true},
    {"fit 'a*x' good.csv --param a=1 --residuals %", ".csv", true},
    {"fit 'a*x' good.csv --param a=1 --export %", ".c", true},
    {"fit 'a*x' good.csv --param a=1 --export %", ".tex", true},
    {"predict fit.safetensors good.csv --out %", ".csv", true},
    {"train good.csv --target y --model linear --epochs 2 --json --out %", ".safetensors", false},
    {"train good.csv --target y --model linear --epochs 2 --json --trace %", ".jsonl", true},
    {"train kinds.csv --target k --model linear --epochs 1 --validation 0.5 --json --roc %", ".svg", true},
    {"train kinds.csv --target k --model linear --epochs 1 --validation 0.5 --json --calibration %", ".pdf",
     true},
    {"train long.csv --target y --model linear --json --find-lr --plot %", ".svg", true},
    {"predict model.safetensors good.csv --out %", ".csv", true},
    {"plot trace.jsonl --out %", ".svg", true},
    {"plot trace.jsonl --out %", ".png", true},
};

static void outputs_that_cannot_be_written_are_reported(void **state)
{
    (void)state;
    make_files();
    for (int w = 0; w < COUNT_OF(writers); w++) {
        char arguments[1024], path[64];
        snprintf(path, sizeof path, "nowhere/x%s", writers[w].ending);
        refuses(fill(writers[w].command, path, arguments), path);
        snprintf(path, sizeof path, "good.csv/x%s", writers[w].ending);
        refuses(fill(writers[w].command, path, arguments), path);
        snprintf(path, sizeof path, "target_folder%s", writers[w].ending);
        (void)mkdir(path, 0777);
        refuses(fill(writers[w].command, path, arguments), "Is a directory");
        snprintf(path, sizeof path, "full%s", writers[w].ending);
        if (access("/dev/full", W_OK) != 0) continue;
        (void)symlink("/dev/full", path);
        fails_and_prints(fill(writers[w].command, path, arguments),
                         writers[w].direct ? "No space left on device" : "not a regular file",
                         writers[w].direct && prints_results(writers[w].command));
    }
    refuses("train good.csv --target y --model linear --epochs 1 --events good.csv/runs", "good.csv");
}

/* A disk that is full after a kilobyte: the file that was there stays, or there is none.  (Whole lines of a trace may be.) */
static void a_disk_that_fills_up_leaves_the_old_file(void **state)
{
    (void)state;
    make_files();
    static const struct {
        const char *command, *file;
    } rows[] = {
        {"minimize 'sum(x^2)' --param x='ones(1000)' --chain 'lr(0.1)' --steps 2 --out big.safetensors",
         "big.safetensors"},
        {"minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2 --plot big.svg", "big.svg"},
        {"minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2 --plot big.png", "big.png"},
        {"fit 'a*x' good.csv --param a=1 --plot big.svg", "big.svg"},
        {"fit 'a*x' long.csv --param a=1 --residuals big.csv", "big.csv"},
        {"train good.csv --target y --epochs 1 --json --out big.safetensors", "big.safetensors"},
        {"plot trace.jsonl --out big.svg", "big.svg"},
    };
    for (int r = 0; r < COUNT_OF(rows); r++) {
        char command[2048], content[64];
        for (int old = 0; old < 2; old++) {
            (void)remove(rows[r].file);
            if (old) put(rows[r].file, "old");
            snprintf(
                command, sizeof command,
                "bash -c \"trap '' XFSZ; ulimit -f 1; exec %s \\\"\\$@\\\"\" - %s >stdout.txt 2>stderr.txt",
                GD_CLI, rows[r].command);
            int status = system(command);
            slurp("stdout.txt", out, sizeof out);
            slurp("stderr.txt", err, sizeof err);
            slurp(rows[r].file, content, sizeof content);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || !one_sentence() ||
                !strstr(err, "cannot write") || !*out == prints_results(rows[r].command))
                fail_msg("gradus %s: %d: %s", rows[r].command, status, err);
            assert_string_equal(content, old ? "old" : "");
            assert_int_equal(exists(rows[r].file), old);
            assert_int_equal(system("test -z \"$(ls -A | grep tmp)\""), 0);
        }
    }
    /* two thousand steps do not fit: what is there are whole lines */
    assert_int_equal(system("bash -c \"trap '' XFSZ; ulimit -f 2; exec " GD_CLI
                            " minimize 'x^2' --param x=1 --chain 'lr(0.1)' --steps 2000 --trace long.jsonl\" "
                            ">stdout.txt 2>stderr.txt") >>
                         8,
                     1);
    slurp("stderr.txt", err, sizeof err);
    slurp("long.jsonl", out, sizeof out);
    assert_true(one_sentence());
    assert_true(!*out || out[strlen(out) - 1] == '\n');
}

/* ---- standard output ---- */

/* Runs with that descriptor as standard output; the exit code. */
static int run_into(const char *arguments, int descriptor)
{
    char command[2048];
    snprintf(command, sizeof command, "exec %s %s 2>stderr.txt", GD_CLI, arguments);
    pid_t child = fork();
    if (child == 0) {
        if (descriptor >= 0)
            (void)dup2(descriptor, 1);
        else
            (void)close(1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    slurp("stderr.txt", err, sizeof err);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void expect_failed_output(const char *arguments, int descriptor, const char *reason)
{
    char want[128];
    int code = run_into(arguments, descriptor);
    snprintf(want, sizeof want, "gradus: standard output: cannot write: %s\n", reason);
    if (code != 1 || strcmp(err, want) != 0) fail_msg("gradus %s: exit %d: %s", arguments, code, err);
}

static void every_command_reports_a_standard_output_that_fails(void **state)
{
    (void)state;
    make_files();
    int ends[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    for (int c = 0; c < COUNT_OF(commands); c++) {
        char arguments[1024];
        expect_failed_output(commands[c], ends[1], "Broken pipe");
        expect_failed_output(commands[c], -1, "Bad file descriptor");
        if (full >= 0) expect_failed_output(commands[c], full, "No space left on device");
        snprintf(arguments, sizeof arguments, "%.*s --help", (int)strcspn(commands[c], " "), commands[c]);
        expect_failed_output(arguments, ends[1], "Broken pipe");
    }
    if (full >= 0) close(full);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(broken_tables_are_refused_by_every_command),
        PROGRAM_TEST(large_data_are_refused_by_every_command),
        PROGRAM_TEST(large_data_are_refused_by_every_command),
        PROGRAM_TEST(absent_columns_and_rows_are_named),
        PROGRAM_TEST(one_row_ends_well_or_with_a_sentence),
        PROGRAM_TEST(broken_arrays_models_and_traces_are_refused),
        PROGRAM_TEST(options_that_are_not_there_are_refused),
        PROGRAM_TEST(broken_bounds_constraints_and_conditions_are_refused),
        PROGRAM_TEST(options_that_nobody_asked_for_are_told),
        PROGRAM_TEST(the_least_of_what_can_be_asked_for_works),
        PROGRAM_TEST(outputs_that_cannot_be_written_are_reported),
        PROGRAM_TEST(a_disk_that_fills_up_leaves_the_old_file),
        PROGRAM_TEST(every_command_reports_a_standard_output_that_fails),
    };
    /* children shall see a closed pipe as the program itself arranges it */
    (void)signal(SIGPIPE, SIG_DFL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
