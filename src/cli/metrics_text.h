/* Measures of a model as text and JSON. */
#ifndef GD_CLI_METRICS_TEXT_H
#define GD_CLI_METRICS_TEXT_H

#include "train/model/metrics.h"

/* A line, and members of a JSON object. */
void gd__metrics_print(gd_text *out, gd_task task, const gd_metrics *m);
void gd__json_metrics(gd_text *out, const gd_metrics *m);

/* A table of classes (up to 30) and the confusion matrix (up to 12), for people; all of it as members of a JSON object. */
void gd__report_print(gd_text *out, const gd_report *report, const gd_words *names);
void gd__json_report(gd_text *out, const gd_report *report, const gd_words *names);

#endif
