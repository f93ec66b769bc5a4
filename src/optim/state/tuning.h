/* Groups and schedules as text: the settings of an optimizer besides its chain, in a program or a checkpoint.
 *
 *   group      GLOB: KEY=VALUE, ... separate settings, or with chain=[...] a separate chain
 *   schedule   KEY=SCHEDULE, GLOB: KEY=SCHEDULE */
#ifndef GD_OPTIM_TUNING_H
#define GD_OPTIM_TUNING_H

#include "base/text/compose.h"
#include "gradus/optim.h"

/* The chain of an optimizer that is to be made: if a group has chain=[...], its parameters go through that chain and the rest through
 * *chain, which is consumed.  On failure *chain may be NULL. */
GD_NODISCARD gd_status gd__tune_split(gd_ctx *ctx, gd_link **chain, const char *text);
/* GLOB: KEY=VALUE, ...  PARSE: "--group: ..." */
GD_NODISCARD gd_status gd__tune_group(gd_optimizer *optimizer, const char *text);
/* KEY=SCHEDULE for all groups without a value of their own, or GLOB: KEY=SCHEDULE. */
GD_NODISCARD gd_status gd__tune_schedule(gd_optimizer *optimizer, const char *text);

/* ARGUMENT: two schedules for one setting of the same parameters. */
GD_NODISCARD gd_status gd__tune_check_schedules(gd_ctx *ctx, const char *const *texts, int count);
/* Does any parameter of the optimizer go through `chain`, or has each its own chain? split: the result of gd__tune_split around it. */
bool gd__tune_uses(const gd_optimizer *optimizer, const gd_link *split, const gd_link *chain);

/* The canonical form of a text: texts with the same meaning print the same, 'lr(1e-3)' and 'lr(0.001)'.  PARSE: as in
 * its use. */
typedef gd_status (*gd_print_option)(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_chain(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_group(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_schedule(gd_ctx *ctx, const char *text, gd_text *out);

#endif
