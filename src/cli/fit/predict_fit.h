/* gradus predict with a saved fit. */
#ifndef GD_CLI_FIT_PREDICT_FIT_H
#define GD_CLI_FIT_PREDICT_FIT_H

#include "cli/cli.h"
#include "fit/fit_job.h"

GD_NODISCARD gd_status gd__cli_predict_fit(gd_cli *cli, const gd_args *args, const gd_archive *archive);

#endif
