/* Advice on wrong expressions; see expr_advice.h. */
#include "expr/expr_advice.h"
#include "base/spelling.h"
#include "base/text/compose.h"

#include <stdio.h>
#include <string.h>

#define MOST_NAMED 12 /* names of a kind that are listed */

/* "; parameters: a, b" */
static int list_names(gd_text *out, const gd_expr_advice *a, const char *const *names, int count, int kind)
{
    static const char *const titles[] = {"; parameters: ", "; constants: ", "; columns: "};
    int found = 0;
    for (int i = 0; i < count; i++) {
        if ((int)a->kind(a->user, names[i]) != kind || found++ >= MOST_NAMED) continue;
        gd__text_put(out, "%s%.40s", found == 1 ? titles[kind] : ", ", names[i]);
    }
    if (found > MOST_NAMED) gd__text_put(out, " and %d more", found - MOST_NAMED);
    return found;
}

/* Lists the known names and how to define this one; nothing if the option takes columns only. */
static void put_advice(gd_text *out, const gd_expr_advice *a, const char *name, const char *const *names,
                       int count)
{
    int params = list_names(out, a, names, count, GD_EXPR_NAME_PARAMETER), length = (int)strcspn(name, "'");
    (void)list_names(out, a, names, count, GD_EXPR_NAME_CONSTANT);
    (void)list_names(out, a, names, count, GD_EXPR_NAME_COLUMN);
    bool open = a->params && (params || !a->option);
    if (open)
        gd__text_put(out, "; %s %.*s=1 makes it a parameter", gd__setting_of(out->ctx, "params"), length,
                     name);
    if (open && a->constants)
        gd__text_put(out, ", %s %.*s=1 a constant", gd__setting_of(out->ctx, a->constants), length, name);
}

void gd__expr_blame(gd_ctx *ctx, const char *option, const char *advice)
{
    static const char own[] = "expression: ";
    char text[1024];
    gd_status status = gd_error(ctx);
    (void)snprintf(text, sizeof text, "%s", gd_error_text(ctx));
    bool at_fault = option && !strncmp(text, own, sizeof own - 1);
    if (!at_fault && !*advice) return;
    gd_clear_error(ctx);
    (void)gd_fail(ctx, status, "%s%s%s%.600s", at_fault ? gd__setting_of(ctx, option) : "",
                  at_fault ? ": " : "", text + (at_fault ? sizeof own - 1 : 0), advice);
}

void gd__expr_advise(gd_ctx *ctx, const gd_expr_advice *a, const char *const *names, int count)
{
    if (gd_error(ctx) != GD_PARSE) return;
    gd_text advice = gd__text(ctx);
    char text[1024];
    (void)snprintf(text, sizeof text, "%s", gd_error_text(ctx));
    const char *unknown = strstr(text, ": " GD_EXPR_UNKNOWN);
    if (unknown) {
        gd_clear_error(ctx); /* for the memory of the advice */
        put_advice(&advice, a, unknown + 2 + strlen(GD_EXPR_UNKNOWN), names, count);
        gd_clear_error(ctx);
        (void)gd_fail(ctx, GD_PARSE, "%s", text);
    }
    gd__expr_blame(ctx, a->option, gd__text_string(&advice));
    gd__text_free(&advice);
}

gd_status gd__expr_refuse_truth(gd_ctx *ctx, const char *option, const gd_expr *e, const char *text)
{
    int at;
    if (!gd__expr_is_truth(e, &at)) return GD_OK;
    gd__expr_fail_at(e, at, text);
    gd__expr_blame(ctx, option, "");
    return gd_error(ctx);
}
