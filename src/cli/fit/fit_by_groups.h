/* gradus fit --by. */
#ifndef GD_CLI_FIT_BY_GROUPS_H
#define GD_CLI_FIT_BY_GROUPS_H

#include "cli/cli.h"
#include "gradus/fit.h"

/* Fits each group of rows, writes --out and --plot, prints a table or JSON.  VALUE, after printing everything: some did not converge. */
GD_NODISCARD gd_status gd__fit_by_groups(gd_cli *cli, const gd_args *args, const gd_fit_spec *spec);

#endif
