/* Fits of groups of rows. */
#ifndef GD_FIT_FIT_GROUPS_H
#define GD_FIT_FIT_GROUPS_H

#include "fit/fit_job.h"

/* gd_fit_by, whose errors name the options of gradus fit. */
gd_table *gd__fit_by(gd_ctx *ctx, const gd_fit_spec *spec, const char *const *by);

#endif
