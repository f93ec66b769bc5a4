/* From the words of the command line to a command and an exit code. */
#include "cli/cli.h"
#include "gradus/link/plugin.h"
#include "base/text/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int gd__cli_code(const gd_cli *cli, gd_status status)
{
    /* the first error is the cause of those that follow */
    switch (status && gd_error(cli->ctx) ? gd_error(cli->ctx) : status) {
    case GD_OK: return GD_EXIT_DONE;
    case GD_NOMEM:
    case GD_IO:
    case GD_FORMAT:
    case GD_DEVICE:
    case GD_INTERRUPTED:
    case GD_INTERNAL: return GD_EXIT_FAILED;
    default: return cli->running ? GD_EXIT_FAILED : GD_EXIT_USAGE;
    }
}

/* Writes all of a text to standard output or error. */
static int write_out(int fd, const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t put = write(fd, text + at, size - at);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        at += (size_t)put;
    }
    return 0;
}

gd_status gd__cli_flush(gd_cli *cli)
{
    gd_text *out = &cli->out, plain = gd__text(cli->ctx);
    if (out->failed) return GD_NOMEM;
    if (cli->world && !gd__cli_speaks(cli)) gd__text_clear(out);
    /* a table for programs is printed verbatim; for people, control characters in the text are escaped */
    bool raw = cli->raw && !isatty(STDOUT_FILENO);
    if (!raw && out->used) {
        gd__text_plain(&plain, out->data, out->used, true);
        out = &plain;
    }
    int code = plain.failed ? 0 : write_out(STDOUT_FILENO, out->data, out->used);
    bool failed = plain.failed;
    gd__text_free(&plain);
    gd__text_clear(&cli->out);
    if (failed) return GD_NOMEM;
    if (!code) return GD_OK;
    char text[128];
    if (strerror_r(code, text, sizeof text) != 0) (void)snprintf(text, sizeof text, "error %d", code);
    return gd_fail(cli->ctx, GD_IO, "standard output: cannot write: %s", text);
}

/* "gradus: " and a sentence on standard error, in one piece, also if there is no memory. */
static void say(const char *before, const char *text)
{
    char line[8192];
    size_t size = strlen(text), used = (size_t)snprintf(line, sizeof line, "gradus: %s", before);
    for (size_t at = 0; at < size && used + GD_PLAIN_PIECE + 1 < sizeof line;)
        used += gd__plain_piece(text, size, &at, false, line + used);
    line[used++] = '\n';
    (void)write_out(STDERR_FILENO, line, used);
}

/* One sentence on standard error. */
static void complain(const gd_ctx *ctx, int code)
{
    say("", gd_error(ctx) ? gd_error_text(ctx) : code == GD_EXIT_FAILED ? "out of memory" : "failed");
}

static gd_status load_plugins(gd_cli *cli, const gd_args *args)
{
    gd_status status = GD_OK;
    int at = 0;
    for (const char *path; !status && (path = gd__args_next(args, "plugin", &at));)
        status = gd_link_plugin_load(cli->ctx, path);
    return status;
}

/* --max-bytes: a number, or one with K, M or G behind it. */
static gd_status read_limit(gd_cli *cli, const gd_args *args)
{
    static const char units[] = "KMG";
    const char *text = gd__args_get(args, "max-bytes");
    size_t length = text ? strlen(text) : 0;
    const char *unit = length ? strchr(units, text[length - 1]) : NULL;
    char digits[32] = "";
    int64_t number = 0;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (!text) return GD_OK;
    if (unit) length--;
    if (length < sizeof digits) memcpy(digits, text, length);
    if (!gd__is_integer(digits, &number) || number < 1 || number > INT64_MAX >> shift)
        return gd_fail(cli->ctx, GD_ARGUMENT,
                       "%s: --max-bytes: '%.40s' is not a number of bytes such as 500M", args->command->name,
                       text);
    cli->ctx->input_limit = (uint64_t)number << shift;
    return GD_OK;
}

static int run_command(gd_cli *cli, const gd_command *command, int argc, char *const *argv)
{
    gd_args args;
    int code;
    bool shared = gd__option_find(command, "world", 5), joins = false;
    int64_t threads = 0; /* the context has them already */
    gd_meter meter = {0};
    gd_observer observer = gd__meter_observer(&meter);
    gd_status status = gd__args_parse(cli->ctx, command, argc, argv, &args);
    args.observer = &observer;
    if (!status) status = gd__args_integer(&args, "threads", 1, 1024, &threads);
    if (status) {
        code = gd__cli_code(cli, status);
    } else if (args.help) {
        gd__help_command(&cli->out, command);
        code = GD_EXIT_DONE;
    } else if ((status = read_limit(cli, &args)) || (status = gd__paths_check(&args)) ||
               (status = load_plugins(cli, &args))) {
        code = gd__cli_code(cli, status);
    } else if ((joins = shared) && (status = gd__cli_join(cli, &args))) {
        code = gd__cli_code(cli, status);
    } else {
        code = gd__cli_leave(cli, command->run(cli, &args));
        if (code == GD_EXIT_DONE && cli->out.failed) code = GD_EXIT_FAILED;
        if (code == GD_EXIT_DONE) gd__args_warn(&args);
    }
    if (code && shared && !joins) gd__cli_tell(cli, argc, argv, code);
    gd__args_free(&args);
    return code;
}

static int unknown_command(gd_cli *cli, const char *name)
{
    gd_suggest nearest = gd__suggest(name, strlen(name));
    for (const gd_command *const *c = gd__commands; *c; c++)
        if (!(*c)->hidden) gd__suggest_try(&nearest, (*c)->name);
    char hint[GD_HINT_SIZE];
    (void)gd_fail(cli->ctx, GD_ARGUMENT, "unknown command '%.60s'%s%s", name,
                  gd__suggest_hint(&nearest, hint), nearest.best ? "" : "; see gradus --help");
    return GD_EXIT_USAGE;
}

int gd__cli_dispatch(gd_cli *cli, int argc, char *const *argv)
{
    const char *word = argc ? argv[0] : "";
    if (!argc) {
        gd__help_start(&cli->out);
        return GD_EXIT_DONE;
    }
    if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        gd__help_all(&cli->out, gd__commands);
        return GD_EXIT_DONE;
    }
    if (!strcmp(word, "--version")) {
        gd__text_add(&cli->out, "gradus " GD_VERSION "\n");
        return GD_EXIT_DONE;
    }
    const gd_command *command = gd__command_find(word);
    return command ? run_command(cli, command, argc - 1, argv + 1) : unknown_command(cli, word);
}

/* --threads is needed before there is a context; the command checks it again and complains. */
static int threads_wanted(int argc, char *const *argv)
{
    int64_t threads = 0;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        const char *value = !strncmp(argv[i], "--threads=", 10)             ? argv[i] + 10
                            : !strcmp(argv[i], "--threads") && i + 1 < argc ? argv[i + 1]
                                                                            : NULL;
        if (value && gd__is_integer(value, &threads) && threads > 0 && threads <= 1024) return (int)threads;
    }
    return 0;
}

static void warn(void *user, const char *text)
{
    const gd_cli *cli = user;
    if (gd__cli_speaks(cli)) say("warning: ", text);
}

/* Output of links (print_loss) goes to standard error, apart from the results. */
static void tell(void *user, const char *text)
{
    const gd_cli *cli = user;
    if (gd__cli_speaks(cli)) (void)fprintf(stderr, "%s\n", text);
}

/* A closed standard stream is replaced by an unusable one: otherwise the first file opened would get its number, and text for the
 * terminal would go into it. */
static void hold_standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
}

/* Members of specs, and arguments of functions, whose option has a different name. */
static const char *const options_of[][2] = {{"params", "--param"},
                                            {"fixed", "--fix"},
                                            {"bounds", "--bound"},
                                            {"max_steps", "--steps"},
                                            {"drop_missing", "--missing"},
                                            {"definitions", "--def"},
                                            {"groups", "--group"},
                                            {"chosen_groups", "--groups"},
                                            {"schedules", "--schedule"},
                                            {"row", "--shape"},
                                            {NULL, NULL}};
static const gd_vocabulary in_the_shell = {.before = "--", .after = "", .join = '-', .names = options_of};

int gd__cli_main(int argc, char *const *argv)
{
    hold_standard_streams();
    /* a closed pipe and a limit on the size of files are errors to report, not signals to die of */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN);
    gd_cli cli = {0};
    gd_options options = gd_options_default();
    options.threads = threads_wanted(argc, argv);
    options.warn = warn;
    options.tell = tell;
    options.warn_user = options.tell_user = &cli;
    options.vocabulary = &in_the_shell;
    gd_ctx *ctx = gd_ctx_new(&options);
    if (!ctx) {
        (void)fputs("gradus: out of memory\n", stderr);
        return GD_EXIT_FAILED;
    }
    cli.ctx = ctx;
    cli.out = gd__text(ctx);
    int code = gd__cli_dispatch(&cli, argc, argv);
    if (code == GD_EXIT_DONE) code = gd__cli_code(&cli, gd__cli_flush(&cli)) ? GD_EXIT_FAILED : GD_EXIT_DONE;
    bool speaks = gd__cli_speaks(&cli);
    if (code && speaks) complain(ctx, code);
    /* launchers end all processes when one fails: rank 0 must have reported the error before */
    if (code && !speaks && !cli.world) code = GD_EXIT_DONE;
    gd_world_free(cli.world);
    gd__text_free(&cli.out);
    gd_ctx_free(ctx);
    return code;
}
