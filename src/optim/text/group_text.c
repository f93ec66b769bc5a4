/* The text of group settings: "lr=0.1, amsgrad=true". */
#include "base/text/scan.h"
#include "optim/text/setting.h"

#include <string.h>

/* The caller keeps ownership of a schedule. */
static gd_status read_word(gd_text_scan *s, gd_schedule *schedule, gd_setting *value)
{
    size_t at = s->at;
    char word[GD_NAME_SIZE];
    gd_status status = gd__scan_name(s, word);
    if (status) return status;
    if (!strcmp(word, "none"))
        value->kind = GD_SET_NONE;
    else if (!strcmp(word, "true") || !strcmp(word, "false"))
        *value = (gd_setting){.kind = GD_SET_BOOL, .real = word[0] == 't'};
    else if (gd__scan_is_schedule(s, word)) {
        s->at = at;
        return gd__scan_scheduled(s, schedule, value);
    } else
        return gd__scan_fail(s, at, "expected a value, got '%s'", word);
    return GD_OK;
}

gd_status gd__settings_parse(gd_ctx *ctx, const char *text,
                             gd_status (*fn)(void *user, const char *key, const gd_setting *value),
                             void *user)
{
    gd_text_scan s;
    gd_status status = gd__scan_begin(&s, ctx, "group", text);
    while (!status && gd__scan_peek(&s)) {
        char key[GD_NAME_SIZE], *string = NULL;
        size_t size = 0;
        gd_setting value = {0};
        gd_schedule schedule;
        status = gd__scan_name(&s, key);
        if (!status && !gd__scan_take(&s, '=')) status = gd__scan_expected(&s, "'='");
        if (status) break;
        if (gd__scan_is_number(&s)) {
            value.kind = GD_SET_REAL;
            status = gd__scan_number(&s, &value.real);
        } else if (gd__scan_peek(&s) == '"') {
            status = gd__scan_string(&s, &string, &size);
            value = (gd_setting){.kind = GD_SET_STRING, .string = string};
        } else
            status = read_word(&s, &schedule, &value);
        if (!status) status = fn(user, key, &value);
        gd__free(ctx, string, size);
        if (!status && !gd__scan_take(&s, ',') && gd__scan_peek(&s)) status = gd__scan_expected(&s, "','");
    }
    return status;
}
