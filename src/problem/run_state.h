/* The saved state of a run over the parameters of a problem, for a run that resumes it. */
#ifndef GD_PROBLEM_RUN_STATE_H
#define GD_PROBLEM_RUN_STATE_H

#include "problem/problem.h"
#include "gradus/optim.h"

#include "gradus/file.h"

/* Parameters, optimizer and random numbers, with the texts of expression and chain, in one file. */
GD_NODISCARD gd_status gd__run_save(const gd_problem *p, gd_optimizer *optimizer, const char *expression,
                                    const char *chain, const char *path);
/* The file of a run of the expression over the parameters of p.  New; NULL with the error: VALUE: the file has no run, or one of a
 * different expression, or a parameter is missing or has a different shape; or what gd_archive_load records. */
gd_archive *gd__run_open(const gd_problem *p, const char *expression, const char *path);
/* Its chain; NULL in files written before there was one.  Borrowed. */
const char *gd__run_chain(const gd_archive *run);
/* Parameters, optimizer and random numbers become those of the file; keep: settings stay those of the optimizer.  MISMATCH: the optimizer
 * has a different chain; given: the requested chain, NULL: that of the file. */
GD_NODISCARD gd_status gd__run_load(gd_problem *p, gd_optimizer *optimizer, gd_archive *run,
                                    const char *given, bool keep, const char *path);

#endif
