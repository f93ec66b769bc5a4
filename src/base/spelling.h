/* Settings in errors and warnings.  A message writes a member of a spec as {max_steps} in its format; the context's vocabulary
 * spells it for the caller: ".max_steps" in C, "--steps" in the shell, "steps=" in Python.  Only formats are searched, so a column
 * named {y} is not changed. */
#ifndef GD_BASE_SPELLING_H
#define GD_BASE_SPELLING_H

#include "base/ctx.h"

#define GD_SETTING 120

/* The spelling of a member that is known only at run time.  Text behind its name stays: "tied a" is ".tied a".  Returns out. */
const char *gd__setting(const gd_ctx *ctx, const char *name, char out[GD_SETTING]);
/* The same in memory of the enclosing block. */
#define gd__setting_of(ctx, name) gd__setting(ctx, name, (char[GD_SETTING]){0})

/* A format with the settings in it spelled; the format itself if it has none, or if they do not fit. */
const char *gd__spell(const gd_ctx *ctx, const char *format, char *out, size_t size);
/* The same for a short text that is an argument of a message. */
#define gd__spell_of(ctx, text) gd__spell(ctx, text, (char[240]){0}, 240)

#endif
