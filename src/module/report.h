/* Reports of loads, for others that load. */
#ifndef GD_MODULE_REPORT_H
#define GD_MODULE_REPORT_H

#include "gradus/module.h"

gd_load_report *gd__load_report_new(gd_ctx *ctx); /* new, in the current scope; NULL on no memory */
/* Notes a problem; its text is before + 'name' + after. */
gd_status gd__load_report_note(gd_load_report *report, gd_load_problem kind, const char *before,
                               const char *name, const char *after);
void gd__load_report_count_loaded(gd_load_report *report, int64_t loaded);

#endif
