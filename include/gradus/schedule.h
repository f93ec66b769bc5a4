/* gradus/schedule.h: numbers that change with the step.
 *
 *     gd_schedule s = gd_schedule_warmup(100, gd_schedule_cosine(0.1, 0.001, 1000), 0);
 *     double lr = gd_schedule_value(&s, step);
 *
 * A schedule is a plain value and a pure function of the step: it has no state, so a resumed run continues with the same
 * values.  Steps count from 0.  Each has a text form, with the arguments of its constructor by position or by name:
 *
 *     warmup(100, cosine(0.1, 0.001, 1000))       step(0.1, every=30)       multistep(1, [30, 80], factor=0.5)       0.1 */
#ifndef GRADUS_SCHEDULE_H
#define GRADUS_SCHEDULE_H

#include "gradus/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GD_SCHEDULE_MILESTONES 16 /* most milestones of a multistep schedule */

/* The shapes of schedules; gd_schedule_NAME makes each. */
typedef enum gd_schedule_kind {
    GD_SCHEDULE_INVALID, /* a zeroed struct */
    GD_SCHEDULE_CONSTANT,
    GD_SCHEDULE_LINEAR,
    GD_SCHEDULE_COSINE,
    GD_SCHEDULE_COSINE_RESTARTS,
    GD_SCHEDULE_EXPONENTIAL,
    GD_SCHEDULE_POLYNOMIAL,
    GD_SCHEDULE_STEP,
    GD_SCHEDULE_MULTISTEP,
    GD_SCHEDULE_ONE_CYCLE,
    GD_SCHEDULE_WSD
} gd_schedule_kind;

/* Made by the functions below; a plain value, with nothing to free. */
typedef struct gd_schedule {
    gd_schedule_kind kind;
    double number[5]; /* the constructor's arguments in order */
    double milestone[GD_SCHEDULE_MILESTONES];
    int milestones;
    double warmup_steps, warmup_start; /* 0 steps: none */
} gd_schedule;

/* In the formulas t is the step and x = min(t / steps, 1); after its end a schedule keeps its last value. */

gd_schedule gd_schedule_constant(double value); /* the same at every step */
/* first (1 - x) + last x */
gd_schedule gd_schedule_linear(double first, double last, int64_t steps);
/* last + (first - last) (1 + cos(pi x)) / 2        (Loshchilov & Hutter 2017) */
gd_schedule gd_schedule_cosine(double first, double last, int64_t steps);
/* Cosine with restarts: the first period has `period` steps, each later one `factor` times as many as the one before,
 * factor a whole number of 1 or more (text default 1). */
gd_schedule gd_schedule_cosine_restarts(double first, double last, int64_t period, int64_t factor);
/* first factor^t */
gd_schedule gd_schedule_exponential(double first, double factor);
/* last + (first - last) (1 - x)^power        (text default of power: 1) */
gd_schedule gd_schedule_polynomial(double first, double last, int64_t steps, double power);
/* first factor^floor(t / every)        (text default of factor: 0.1) */
gd_schedule gd_schedule_step(double first, int64_t every, double factor);
/* first factor^(number of milestones <= t); at most GD_SCHEDULE_MILESTONES of them, ascending.  Text:
 * multistep(first, [m1, m2], factor=0.1) */
gd_schedule gd_schedule_multistep(double first, const int64_t *milestones, int count, double factor);
/* Smith & Topin 2018, as PyTorch's OneCycleLR: half a cosine up from peak / divide to peak until step
 * rise * steps - 1, then half a cosine down to peak / divide / final_divide at step steps - 1.  Text defaults: rise=0.3,
 * divide=25, final_divide=1e4. */
gd_schedule gd_schedule_one_cycle(double peak, int64_t steps, double rise, double divide,
                                  double final_divide);
/* Warm-up, stable, decay (Hu et al. 2024): peak t / warmup, then peak for `stable` steps, then linear to last in `decay`
 * steps. */
gd_schedule gd_schedule_wsd(double peak, double last, int64_t warmup, int64_t stable, int64_t decay);
/* A warm-up before a schedule: start (1 - t / steps) + after(0) t / steps while t < steps, then after(t - steps).  Text:
 * warmup(steps, after, start=0).  `after` must have no warm-up itself. */
gd_schedule gd_schedule_warmup(int64_t steps, gd_schedule after, double start);

/* The value at a step; negative steps count as 0.  NaN for an invalid schedule. */
double gd_schedule_value(const gd_schedule *schedule, int64_t step);
/* Are the arguments in range?  VALUE names the one that is not. */
GD_NODISCARD gd_status gd_schedule_check(gd_ctx *ctx, const gd_schedule *schedule);
bool gd_schedule_equal(const gd_schedule *a, const gd_schedule *b);

/* Reads the text form; a number alone is a constant.  *out is changed only on success.  PARSE gives the column:
 *     schedule: column 20: cosine: steps is 1.5, must be a whole number */
GD_NODISCARD gd_status gd_schedule_parse(gd_ctx *ctx, const char *text, gd_schedule *out);
/* Writes the text form as snprintf does; it reads back as an equal schedule. */
int gd_schedule_print(const gd_schedule *schedule, char *out, size_t size);

/* ---- plateau: not a function of the step, but of a measured loss ----
 * Multiplies the value by factor when the loss has not improved for more than `patience` measurements (PyTorch's
 * ReduceLROnPlateau).  All of its state is in the struct: save it to continue later. */
/* A number that falls by a factor when measurements have stopped falling. */
typedef struct gd_plateau {
    double value, factor;
    double threshold;           /* an improvement is below best - threshold |best|; 1e-4 */
    double lowest;              /* the value never falls below; 0 */
    int64_t patience, cooldown; /* measurements that do not count after a cut; 0 */
    double best;
    int64_t bad, cooling;
} gd_plateau;

gd_plateau gd_plateau_start(double value, double factor, int64_t patience); /* nothing measured yet */
/* Takes the next measurement (NaN is no improvement) and returns the value. */
double gd_plateau_measure(gd_plateau *plateau, double loss);

#ifdef __cplusplus
}
#endif
#endif
