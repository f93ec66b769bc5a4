/* From the arguments of gradus fit to its spec. */
#ifndef GD_CLI_FIT_FIT_ARGUMENTS_H
#define GD_CLI_FIT_FIT_ARGUMENTS_H

#include "cli/cli.h"
#include "fit/fit_job.h"
#include "table/value.h"

#define GD_FIT_TEXT_LISTS 4 /* options that are lists of texts */

typedef struct gd_fit_arguments {
    gd_ctx *ctx;
    const gd_args *args;
    gd_fit_spec spec;
    gd_value_tables tables; /* how tables are read */
    gd_csv *csv;            /* owned, as all that follows */
    char *definitions;
    gd_fit_param *param;
    gd_tensor **value; /* of the parameters */
    char **name;       /* theirs */
    size_t room;       /* of each of these lists */
    const char **list[GD_FIT_TEXT_LISTS];
} gd_fit_arguments;

/* Reads table, parameters and settings; gd__fit_arguments_close also after a failure. */
GD_NODISCARD gd_status gd__fit_arguments_read(const gd_args *args, gd_fit_arguments *out);
void gd__fit_arguments_close(gd_fit_arguments *a);

#endif
