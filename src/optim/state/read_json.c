/* Pieces of the JSON that the state of an optimizer is saved in. */
#include "optim/state/state.h"
#include "optim/text/setting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

gd_status gd__state_malformed(gd_ctx *ctx, const char *what)
{
    return gd_fail(ctx, GD_FORMAT, "optimizer state: %s is malformed", what);
}

bool gd__state_read_real(const json_t *j, double *out)
{
    const char *name = json_string_value(json_object_get(j, "real"));
    if (json_is_number(j))
        *out = json_number_value(j);
    else if (name && !strcmp(name, "nan"))
        *out = NAN;
    else if (name && !strcmp(name, "inf"))
        *out = INFINITY;
    else if (name && !strcmp(name, "-inf"))
        *out = -INFINITY;
    else
        return false;
    return true;
}

static bool read_u64(const json_t *j, uint64_t *out)
{
    const char *text = json_string_value(j);
    if (!text || *text < '0' || *text > '9') return false;
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return !*end;
}

bool gd__state_read_generator(const json_t *j, gd_rng *out)
{
    return read_u64(json_array_get(j, 0), &out->key) && read_u64(json_array_get(j, 1), &out->counter);
}

/* A setting that owns its list; strings are borrowed from the JSON. */
gd_status gd__state_read_schedule(gd_ctx *ctx, const json_t *text, gd_setting *out)
{
    gd_schedule schedule;
    if (!json_is_string(text)) return gd__state_malformed(ctx, "a schedule");
    gd_status status = gd_schedule_parse(ctx, json_string_value(text), &schedule);
    gd_setting read = {.kind = GD_SET_REAL, .real = gd_schedule_value(&schedule, 0), .schedule = &schedule};
    return status ? status : gd__setting_copy(ctx, out, &read);
}

/* The setting is the caller's, to free. */
gd_status gd__state_read_setting(gd_ctx *ctx, const json_t *j, gd_setting *out)
{
    *out = (gd_setting){0};
    const json_t *schedule = json_object_get(j, "schedule");
    if (schedule) return gd__state_read_schedule(ctx, schedule, out);
    if (json_is_null(j))
        out->kind = GD_SET_NONE;
    else if (json_is_boolean(j))
        *out = (gd_setting){.kind = GD_SET_BOOL, .real = json_is_true(j)};
    else if (json_is_string(j))
        *out = (gd_setting){.kind = GD_SET_STRING, .string = json_string_value(j)};
    else if (gd__state_read_real(j, &out->real))
        out->kind = GD_SET_REAL;
    else if (json_is_array(j)) {
        size_t n = json_array_size(j);
        double *values = n ? gd__alloc_array(ctx, n, sizeof *values) : NULL;
        if (n && !values) return GD_NOMEM;
        *out = (gd_setting){.kind = GD_SET_LIST, .list = values, .list_count = (int)n};
        bool good = true;
        for (size_t i = 0; i < n; i++) good = gd__state_read_real(json_array_get(j, i), &values[i]) && good;
        if (good) return GD_OK;
        gd__setting_free(ctx, out);
    }
    return out->kind ? GD_OK : gd__state_malformed(ctx, "a setting");
}
