/* Output of gradus train: lines about epochs, progress, results as text and JSON. */
#ifndef GD_CLI_COMMANDS_TRAIN_SCREEN_H
#define GD_CLI_COMMANDS_TRAIN_SCREEN_H

#include "cli/cli.h"
#include "cli/table_options.h"
#include "train/run/job.h"

#define GD_TRAIN_LISTS 5 /* options that are lists */

typedef struct gd_train_screen {
    gd_cli *cli;
    const gd_args *args;
    bool json;
    gd_train_spec spec;
    gd_csv_options csv;
    gd_words list[GD_TRAIN_LISTS];
    int64_t folds; /* 0: none */
    gd_observer observer;
    gd_meter meter; /* of steps */
    gd_train_job job;
} gd_train_screen;

/* Shows reading and steps on the terminal, and passes on signals. */
gd_observer gd__train_observer(gd_train_screen *s);
/* Prints the job's events as they occur. */
void gd__train_watch(gd_train_screen *s);

/* Results. */
GD_NODISCARD gd_status gd__train_print(gd_train_screen *s);
void gd__train_print_folds(gd_train_screen *s, const gd_metrics *all, const gd_metrics *mean,
                           const gd_metrics *deviation);
void gd__train_print_rates(gd_train_screen *s, const gd_rates *rates, const char *plot);

#endif
