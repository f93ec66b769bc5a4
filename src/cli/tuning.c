/* Groups and schedules; see tuning.h. */
#include "cli/tuning.h"

#include <stdio.h>
#include <string.h>

gd_status gd__tune_group(gd_optimizer *optimizer, const char *text)
{
    const char *colon = strchr(text, ':');
    char glob[256];
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof glob)
        return gd_fail(gd_optimizer_ctx(optimizer), GD_PARSE,
                       "--group: GLOB: KEY=VALUE expected, '%.60s' found", text);
    (void)snprintf(glob, sizeof glob, "%.*s", (int)(colon - text), text);
    return gd_optimizer_regroup(optimizer, glob, colon + 1 + strspn(colon + 1, " "));
}

gd_status gd__tune_schedule(gd_optimizer *optimizer, const char *text)
{
    const char *equals = strchr(text, '=');
    char key[64];
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof key)
        return gd_fail(gd_optimizer_ctx(optimizer), GD_PARSE,
                       "--schedule: KEY=SCHEDULE expected, '%.60s' found", text);
    (void)snprintf(key, sizeof key, "%.*s", (int)(equals - text), text);
    return gd_optimizer_schedule(optimizer, -1, key, equals + 1);
}
