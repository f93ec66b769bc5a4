/* Stopping conditions; see until.h. */
#include "optim/text/until.h"
#include "base/text/compose.h"
#include "base/text/suggest.h"

#include <stdio.h>
#include <string.h>

static const char *const names[GD_UNTIL_COUNT] = {"loss",  "loss_change", "grad_norm", "step_norm",
                                                  "evals", "seconds",     "kkt"};

const char *gd__until_name(int quantity)
{
    return quantity >= 0 && quantity < GD_UNTIL_COUNT ? names[quantity] : NULL;
}

static size_t skip(const char *text, size_t at) { return at + strspn(text + at, " \t"); }

static gd_status bad(gd_ctx *ctx, size_t at, const char *text)
{
    return gd_fail(ctx, GD_PARSE, "{until}: column %zu: %s", at + 1, text);
}

static gd_status read_quantity(gd_ctx *ctx, const char *text, size_t *at, gd_quantity *out)
{
    size_t length = strspn(text + *at, "abcdefghijklmnopqrstuvwxyz_");
    for (int i = 0; i < GD_UNTIL_COUNT; i++) {
        if (strlen(names[i]) != length || memcmp(names[i], text + *at, length) != 0) continue;
        *out = (gd_quantity)i;
        *at += length;
        return GD_OK;
    }
    gd_suggest nearest = gd__suggest(text + *at, length);
    for (int i = 0; i < GD_UNTIL_COUNT; i++) gd__suggest_try(&nearest, names[i]);
    char message[256], hint[GD_HINT_SIZE];
    (void)snprintf(message, sizeof message,
                   "loss, loss_change, grad_norm, step_norm, kkt, evals or seconds expected%s",
                   gd__suggest_hint(&nearest, hint));
    return bad(ctx, *at, message);
}

static gd_status read_condition(gd_ctx *ctx, const char *text, size_t *at, gd_until *u)
{
    size_t begin = *at;
    gd_quantity quantity;
    gd_status status = read_quantity(ctx, text, at, &quantity);
    if (status) return status;
    *at = skip(text, *at);
    char sign = text[*at];
    if (sign != '<' && sign != '>') return bad(ctx, *at, "'<' or '>' expected");
    (*at)++;
    if (text[*at] == '=') {
        sign = sign == '<' ? 'l' : 'g';
        (*at)++;
    }
    *at = skip(text, *at);
    double limit = 0;
    size_t used = gd__parse_number(text + *at, strlen(text + *at), false, &limit);
    if (!used) return bad(ctx, *at, "a number expected");
    *at += used;
    u->condition[u->count].quantity = quantity;
    u->condition[u->count].sign = sign;
    u->condition[u->count].limit = limit;
    (void)snprintf(u->condition[u->count].text, sizeof u->condition[0].text, "%.*s", (int)(*at - begin),
                   text + begin);
    u->count++;
    u->uses[quantity] = true;
    return GD_OK;
}

gd_status gd__until_parse(gd_ctx *ctx, const char *text, gd_until *u)
{
    for (size_t at = skip(text, 0);; at = skip(text, at + 1)) {
        if (u->count == GD_MAX_CONDITIONS) return bad(ctx, at, "too many conditions");
        gd_status status = read_condition(ctx, text, &at, u);
        if (status) return status;
        at = skip(text, at);
        if (!text[at]) return GD_OK;
        if (text[at] != ',') return bad(ctx, at, "',' expected");
    }
}

const char *gd__until_met(const gd_until *u, const double values[GD_UNTIL_COUNT])
{
    for (int i = 0; i < u->count; i++) {
        double v = values[u->condition[i].quantity], limit = u->condition[i].limit;
        char sign = u->condition[i].sign;
        if (sign == '<' ? v < limit : sign == '>' ? v > limit : sign == 'l' ? v <= limit : v >= limit)
            return u->condition[i].text;
    }
    return NULL;
}
