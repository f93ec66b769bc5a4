/* Differences found while loading. */
#include "base/text/number.h"
#include "module/report.h"
#include "optim/state/state.h"

#include <stdarg.h>

#define MOST_SAID 4 /* differences of one kind that the message names */

void gd__load_note(gd_load_notes *l, const char *format, ...)
{
    char item[512];
    va_list args;
    va_start(args, format);
    gd__vformat(item, sizeof item, format, args);
    va_end(args);
    if (l->report && gd__load_report_note(l->report, l->kind, l->verb, item, "")) l->text.failed = true;
    if (l->count++ >= MOST_SAID) return;
    gd__text_put(&l->text, "%s%s", l->count > 1 ? ", " : "", item);
}

void gd__load_say(gd_text *out, const char *what, const gd_load_notes *l)
{
    if (!l->count) return;
    gd__text_put(out, "%s%s: %.600s", out->used ? "; " : "", what, l->text.data ? l->text.data : "");
    if (l->count > MOST_SAID) gd__text_put(out, " and %d more", l->count - MOST_SAID);
}
