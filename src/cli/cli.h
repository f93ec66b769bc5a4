/* Common code of the commands: the context, standard output as one text, exit codes, Ctrl-C, progress. */
#ifndef GD_CLI_CLI_H
#define GD_CLI_CLI_H

#include "cli/args.h"
#include "gradus/world.h"

enum { GD_EXIT_DONE = 0, GD_EXIT_FAILED = 1, GD_EXIT_USAGE = 2 };

struct gd_cli {
    gd_ctx *ctx;
    gd_text out;  /* goes to standard output when the command returns, or at gd__cli_flush */
    bool raw;     /* out is a table for programs: its bytes are not changed, unless they go to a terminal */
    bool running; /* the command line is understood; from here on an error is a failed run */
    gd_world *world; /* the world; NULL: this process alone */
    bool alone;      /* --world self, although a launcher has started several */
};

/* The exit code of a status: 0; 2 for a wrong command line; 1 for other errors. */
int gd__cli_code(const gd_cli *cli, gd_status status);
/* Writes cli->out to standard output.  IO when that is closed or full. */
GD_NODISCARD gd_status gd__cli_flush(gd_cli *cli);

/* ---- several processes (join.c) ---- */

/* The option of gd__cli_join: commands that have it are joined before they run. */
#define GD_WORLD_OPTION       \
    GD_OPTION(                \
        "world", "self|NAME", \
        "the processes that share the work (those that mpirun or srun has started; self: none; gradus world lists them)")

/* Joins the world of --world, or that of the launcher where it has started several processes.  Ranks above 0 drop the options that name
 * outputs, except checkpoints, which are saved by all ranks. MISMATCH: ranks have different options. */
GD_NODISCARD gd_status gd__cli_join(gd_cli *cli, gd_args *args);
/* If the words of this rank are wrong and it has not joined: other ranks may have, and must not wait for it. */
void gd__cli_tell(gd_cli *cli, int argc, char *const *argv, int code);
/* After the command: if one rank has failed, all fail, and one reports it. Returns the exit code. */
int gd__cli_leave(gd_cli *cli, int code);
/* The union of the bits (1, 2) of all ranks: for joint decisions, at the same place in the program. Alone: its own bits. */
int gd__cli_any(gd_cli *cli, int bits);
/* Broadcasts a number of the first rank. */
double gd__cli_first(gd_cli *cli, double number);
/* Is this the process that writes results and errors? */
bool gd__cli_speaks(const gd_cli *cli);

/* Every command, in the order of --help: cmd_NAME.c defines gd__command_NAME (bench/command.c that of bench). */
#define GD_COMMANDS(X) \
    X(minimize)        \
    X(fit)             \
    X(compare)         \
    X(train) X(predict) X(eval) X(links) X(explain) X(plot) X(bench) X(devices) X(world) X(help) X(complete)

#define GD_COMMAND_EXTERN(name) extern const gd_command gd__command_##name;
GD_COMMANDS(GD_COMMAND_EXTERN)
#undef GD_COMMAND_EXTERN

extern const gd_command *const gd__commands[]; /* ended by NULL */
const gd_command *gd__command_find(const char *name);

/* Runs the program with the words behind its name; text goes to standard output and error.  The exit code. */
int gd__cli_main(int argc, char *const *argv);
/* The same in the caller's context: results stay in cli->out, an error in the context. */
int gd__cli_dispatch(gd_cli *cli, int argc, char *const *argv);

/* ---- Ctrl-C (interrupt.c, the only file with a static variable) ---- */

/* From here on SIGINT, SIGTERM and SIGHUP (unless it is ignored) only set a flag, the first time; a second one ends the program
 * as usual, and so does the first where gd__interrupted has not been called `grace` seconds later. */
void gd__interrupt_catch(double grace);
/* Has a signal arrived?  For use inside a computation: the clock keeps running. */
bool gd__interrupt_pending(void);
/* The same, and suspends the clock for the work that follows, such as saving. */
bool gd__interrupted(void);

/* Grace period of a computation that saves its point after every slow step (outcome.h). */
#define GD_GRACE 0.7

/* ---- progress, on standard error if that is a terminal ---- */

typedef struct gd_meter {
    bool on;
    int64_t total; /* 0: not known */
    int64_t first; /* the count at the start */
    double begun, shown;
    char note[48];    /* in front of the line */
    const char *unit; /* the last line shown, or hidden; NULL: none */
    int64_t done;
    double loss;
    int width; /* of the line on the screen */
} gd_meter;

gd_meter gd__meter_start(int64_t total);
/* Shows work on a meter, with a label in front. meter: zeroed, borrowed. */
gd_observer gd__meter_observer(gd_meter *meter);
/* Shows "step 120/500  loss 0.0123  340 steps/s  1.1 s left", after the first second and at most ten times per second.  unit:
 * "step", "epoch".  loss NAN: "120/500 rows  340 rows/s  1.1 s left", unit: "rows", "MB". */
void gd__meter_show(gd_meter *p, const char *unit, int64_t done, double loss);
/* The same line at a later time: called from inside a unit of work.  NULL is fine. */
void gd__meter_again(gd_meter *p);
/* Clears the line. */
void gd__meter_end(gd_meter *p);

/* Seconds of a monotonic clock. */
double gd__cli_seconds(void);

#endif
