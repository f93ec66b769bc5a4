/* Settings: copies, comparison, text, and the one place that knows which values a field accepts. */
#ifndef GD_OPTIM_TEXT_SETTING_H
#define GD_OPTIM_TEXT_SETTING_H

#include "base/ctx.h"
#include "gradus/link.h"
#include "gradus/schedule.h"
#include "base/text/scan.h"

/* A copy that owns its list and schedule; strings are interned.  On failure *out holds nothing. */
gd_status gd__setting_copy(gd_ctx *ctx, gd_setting *out, const gd_setting *in);
/* Frees what a copy owns and makes it the setting of kind 0. */
void gd__setting_free(gd_ctx *ctx, gd_setting *setting);
/* Same kind and value; children are not compared. */
bool gd__setting_equal(const gd_setting *a, const gd_setting *b);
/* As chain texts write it: 0.5, linear(1, 0, 9), true, "zeros", [1, 2], none; "a chain" for a child. */
void gd__setting_print(gd_print *p, const gd_setting *setting);

/* Does the field take this value?  Kind, range, whole numbers, choices:
 *     adam: beta1 is 1.5, must be from 0 to 1
 * where NULL or "": TYPE or VALUE is recorded.  Otherwise where leads the text and PARSE is recorded. */
gd_status gd__field_check(gd_ctx *ctx, const char *where, const gd_link_class *cls, const gd_field *field,
                          const gd_setting *setting);
/* The same for fields of something else than a class. */
gd_status gd__field_check_of(gd_ctx *ctx, const char *where, const char *owner, const gd_field *field,
                             const gd_setting *setting);
/* Is a number within the range of a field?  Does not check whether it must be whole. */
bool gd__field_in_range(const gd_field *field, double value);
/* Does the field take every value of the schedule, at whatever step?  PARSE names the first step where it does not:
 *     schedule: step 3: adam: beta1 is 1.25, must be from 0 to 1
 * where NULL or "": "schedule: " leads the text. */
gd_status gd__schedule_fits(gd_ctx *ctx, const char *where, const char *owner, const gd_field *field,
                            const gd_schedule *schedule);
/* Is it a schedule's name? Reads the next one, prints one. */
bool gd__is_schedule(const char *name);
gd_status gd__scan_schedule(gd_text_scan *s, gd_schedule *out);
/* The same for a setting, whose schedule the caller keeps. */
gd_status gd__scan_scheduled(gd_text_scan *s, gd_schedule *schedule, gd_setting *out);
/* After a word in place of a number: does a number or a call follow? Its reader can report a typo such as cosin(1, 0, 9). */
bool gd__scan_is_schedule(gd_text_scan *s, const char *word);
void gd__schedule_print(gd_print *p, const gd_schedule *schedule);
/* The number that a setting with a schedule has at a step; whole: it must be whole.  False: unchanged. */
bool gd__setting_advance(gd_setting *setting, int64_t step, bool whole);
/* Rounds a number that is whole except for rounding errors. */
double gd__snap(double value);

/* Is `string` one of the choices "a|b|c"?  NULL choices: any is. */
bool gd__is_choice(const char *choices, const char *string);
/* The values that a field accepts, for messages and help: "a number from 0 to 1 or none".  Returns out. */
const char *gd__field_kinds(const gd_field *field, char *out, size_t size);

/* Records that a class has no such setting, with the nearest name; ATTRIBUTE, or PARSE with `where` as above. */
gd_status gd__no_such_field(gd_ctx *ctx, const char *where, const gd_link_class *cls, const char *name);

/* Reads "lr=0.1, amsgrad=true" and calls fn for each pair. */
gd_status gd__settings_parse(gd_ctx *ctx, const char *text,
                             gd_status (*fn)(void *user, const char *key, const gd_setting *value),
                             void *user);

#endif
