/* Groups and schedules as text: what a program or a checkpoint says about an optimizer beside its chain.
 *
 *   group      GLOB: KEY=VALUE, ...             settings of their own, or with chain=[...] a chain of their own
 *   schedule   KEY=SCHEDULE, GLOB: KEY=SCHEDULE */
#ifndef GD_OPTIM_TUNING_H
#define GD_OPTIM_TUNING_H

#include "base/text/compose.h"
#include "gradus/optim.h"

/* The chain of an optimizer that is to be made: where a group has chain=[...], its parameters go through that one and the rest
 * through *chain, which is consumed.  On failure *chain may be NULL. */
GD_NODISCARD gd_status gd__tune_split(gd_ctx *ctx, gd_link **chain, const char *text);
/* GLOB: KEY=VALUE, ...  PARSE: "--group: ..." */
GD_NODISCARD gd_status gd__tune_group(gd_optimizer *optimizer, const char *text);
/* KEY=SCHEDULE for all groups without a value of their own, or GLOB: KEY=SCHEDULE. */
GD_NODISCARD gd_status gd__tune_schedule(gd_optimizer *optimizer, const char *text);

/* ARGUMENT: two schedules are for one setting of the same parameters. */
GD_NODISCARD gd_status gd__tune_check_schedules(gd_ctx *ctx, const char *const *texts, int count);
/* Does any parameter of the optimizer go through `chain`, or has each a chain of its own?  split: what gd__tune_split has made around
 * it. */
bool gd__tune_uses(const gd_optimizer *optimizer, const gd_link *split, const gd_link *chain);

/* What a text says, in one way of writing: texts that mean the same print the same, 'lr(1e-3)' and 'lr(0.001)'.  PARSE:
 * as when it is used. */
typedef gd_status (*gd_print_option)(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_chain(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_group(gd_ctx *ctx, const char *text, gd_text *out);
GD_NODISCARD gd_status gd__tune_print_schedule(gd_ctx *ctx, const char *text, gd_text *out);

#endif
