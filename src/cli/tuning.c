/* Groups and schedules; see tuning.h. */
#include "cli/tuning.h"

#include <stdio.h>
#include <string.h>

/* What stands before `end` in a text; false: nothing, or too much. */
static bool before(const char *text, const char *end, char *out, size_t size)
{
    if (!end || end == text || (size_t)(end - text) >= size) return false;
    (void)snprintf(out, size, "%.*s", (int)(end - text), text);
    return true;
}

gd_status gd__tune_group(gd_optimizer *optimizer, const char *text)
{
    const char *colon = strchr(text, ':');
    char glob[256];
    if (!before(text, colon, glob, sizeof glob))
        return gd_fail(gd_optimizer_ctx(optimizer), GD_PARSE,
                       "--group: GLOB: KEY=VALUE expected, '%.60s' found", text);
    return gd_optimizer_regroup(optimizer, glob, colon + 1 + strspn(colon + 1, " "));
}

gd_status gd__tune_schedule(gd_optimizer *optimizer, const char *text)
{
    const char *equals = strchr(text, '='), *colon = strchr(text, ':'), *rest = text;
    char key[64], glob[256];
    bool some = colon && equals && colon < equals;
    if (some) rest = colon + 1 + strspn(colon + 1, " ");
    if (!before(rest, equals, key, sizeof key) || (some && !before(text, colon, glob, sizeof glob)))
        return gd_fail(gd_optimizer_ctx(optimizer), GD_PARSE,
                       "--schedule: KEY=SCHEDULE or GLOB: KEY=SCHEDULE expected, '%.60s' found", text);
    return some ? gd_optimizer_schedule_matching(optimizer, glob, key, equals + 1)
                : gd_optimizer_schedule(optimizer, -1, key, equals + 1);
}
