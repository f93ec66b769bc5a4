/* Traces: one JSON object per line and step, {"step":1,"loss":L,"loss_after":M,"evals":E,"params":{"p":[...]}}.
 *
 * loss is that of the start of the step, loss_after and params are those of its end; loss_after is left out if it is unknown.
 * Step 0 is the start, with its loss. */
#ifndef GD_FILE_RUN_LOG_H
#define GD_FILE_RUN_LOG_H

#include "base/text/compose.h"
#include "file/input.h"
#include "gradus/tensor.h"

/* ---- writing ---- */

typedef struct gd_run_numbers {
    int64_t step;
    double loss, loss_after; /* loss_after NAN: not known */
    int64_t evals;
} gd_run_numbers;

/* Appends one line.  Numbers as %.17g; parameters as nested lists, a scalar as a number. */
gd_status gd__run_log_line(gd_text *out, const gd_run_numbers *numbers, const char *const *names,
                           gd_tensor *const *params, int count);
/* Appends a tensor as nested lists. */
gd_status gd__json_tensor(gd_text *out, const gd_tensor *t);

/* A trace file being written.  Lines reach the file whole: a run that ends early leaves the lines of the steps it took, and
 * if the disk is full, an incomplete line is removed. */
typedef struct gd_run_writer gd_run_writer;

gd_run_writer *gd__run_writer_open(gd_ctx *ctx, const char *path); /* new; NULL with IO recorded */
/* Where a run begins: written as step 0 before the first step, whose loss is its too.  A step whose loss_after is not known waits
 * for the loss of the next in the same way. */
GD_NODISCARD gd_status gd__run_writer_start(gd_run_writer *t, const char *const *names,
                                            gd_tensor *const *params, int count);
GD_NODISCARD gd_status gd__run_writer_step(gd_run_writer *t, const gd_run_numbers *numbers,
                                           const char *const *names, gd_tensor *const *params, int count);
/* The end of a run: what waits gets the loss, if the parameters are still those of its line. */
GD_NODISCARD gd_status gd__run_writer_last(gd_run_writer *t, double loss, const char *const *names,
                                           gd_tensor *const *params, int count);
/* Opens a trace to continue after a step: lines of later steps, and half a line at the end, are dropped.  A missing file is created.
 * FORMAT for a file that is not a trace. */
gd_run_writer *gd__run_writer_resume(gd_ctx *ctx, const char *path, int64_t step);
/* To write a line: append it, with its line end, to the text of gd__run_writer_begin (borrowed), then call gd__run_writer_end. */
gd_text *gd__run_writer_begin(gd_run_writer *t);
GD_NODISCARD gd_status gd__run_writer_end(gd_run_writer *t);
GD_NODISCARD gd_status gd__run_writer_flush(gd_run_writer *t);
gd_status
gd__run_writer_close(gd_run_writer *t); /* writes what is left; frees also when that fails; NULL is fine */

/* ---- reading ---- */

typedef struct gd_run_log {
    gd_ctx *ctx;
    size_t count;
    double *step, *loss, *evals, *epoch; /* NaN where a line has none; loss: the number asked for */
    double *x, *y;                       /* with two parameters in all, theirs; else NULL */
    double *block;                       /* all of them */
    size_t bytes;
    char axis[2][80]; /* names of the two: "p[0]", "x" */
} gd_run_log;

/* Reads NUL-terminated lines; `key` names the number that every line must have ("loss").  FORMAT with `source` and line in
 * front.  gd__run_log_free also after a failure. */
GD_NODISCARD gd_status gd__run_log_parse(gd_ctx *ctx, const char *source, const char *data, size_t size,
                                         const char *key, gd_run_log *out);
GD_NODISCARD gd_status gd__run_log_load(gd_ctx *ctx, const char *path, const gd_input *how, const char *key,
                                        gd_run_log *out);
void gd__run_log_free(gd_run_log *trace);

#endif
