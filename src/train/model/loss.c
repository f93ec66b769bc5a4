/* Losses; see loss.h. */
#include "train/model/loss.h"
#include "base/text/suggest.h"
#include "base/text/scan.h"

#include <math.h>
#include <string.h>

typedef struct loss_name {
    const char *name;
    bool takes;                  /* a number behind a colon */
    double otherwise, low, high; /* default (NAN: required), and its open range */
} loss_name;

static const loss_name names[GD_LOSS_KINDS] = {
    {"cross_entropy", false, 0, 0, 0}, {"squares", false, 0, 0, 0},   {"absolute", false, 0, 0, 0},
    {"huber", true, 1, 0, INFINITY},   {"quantile", true, NAN, 0, 1}, {"poisson", false, 0, 0, 0},
};

static gd_status unknown(gd_ctx *ctx, const char *text, size_t length)
{
    gd_suggest nearest = gd__suggest(text, length);
    for (int k = 0; k < GD_LOSS_KINDS; k++) gd__suggest_try(&nearest, names[k].name);
    char hint[GD_HINT_SIZE];
    return gd_fail(
        ctx, GD_PARSE,
        "{loss}: '%.60s' is none of cross_entropy, squares, absolute, huber:D, quantile:Q, poisson%s", text,
        gd__suggest_hint(&nearest, hint));
}

gd_status gd__loss_parse(gd_ctx *ctx, const char *text, gd_loss *out)
{
    size_t length = strcspn(text, ":");
    int k = 0;
    while (k < GD_LOSS_KINDS && (strlen(names[k].name) != length || memcmp(names[k].name, text, length) != 0))
        k++;
    if (k == GD_LOSS_KINDS) return unknown(ctx, text, length);
    *out = (gd_loss){.kind = (gd_loss_kind)k, .number = names[k].otherwise};
    const char *number = text[length] ? text + length + 1 : NULL;
    if (number && !names[k].takes) return gd_fail(ctx, GD_PARSE, "{loss}: %s takes no number", names[k].name);
    if (number && !gd__is_number(number, strlen(number), false, &out->number)) out->number = NAN;
    if (!names[k].takes || (out->number > names[k].low && out->number < names[k].high)) return GD_OK;
    return gd_fail(ctx, GD_PARSE, "{loss}: '%.60s': %s", text,
                   k == GD_LOSS_QUANTILE ? "a share between 0 and 1, as in quantile:0.9"
                                         : "a number above 0, as in huber:1.5");
}

void gd__loss_print(gd_text *out, const gd_loss *l)
{
    char number[GD_NUMBER_SIZE];
    gd__text_add(out, names[l->kind].name);
    if (names[l->kind].takes) gd__text_put(out, ":%s", gd__number_text(l->number, number));
}

/* - log of the probability of the right class, each times its weight. */
static gd_tensor *weighted(gd_tensor *given, gd_tensor *y, gd_tensor *weight)
{
    gd_tensor *right = gd_squeeze(gd_gather(gd_log_softmax(given, "1"), "1", gd_unsqueeze(y, 1, NULL)), "1");
    return gd_neg(gd_mean(gd_mul(right, gd_index_select(weight, "0", y)), NULL, false));
}

static gd_tensor *of_numbers(const gd_loss *l, gd_tensor *given, gd_tensor *y)
{
    gd_tensor *off = gd_sub(y, given), *size;
    switch (l->kind) {
    case GD_LOSS_ABSOLUTE: return gd_abs(off);
    case GD_LOSS_HUBER: /* m (|r| - m / 2), m = min(|r|, d) */
        size = gd_abs(off);
        off = gd_clamp(size, 0, l->number);
        return gd_mul(off, gd_sub(size, gd_mul_scalar(off, 0.5)));
    case GD_LOSS_QUANTILE:
        return gd_maximum(gd_mul_scalar(off, l->number), gd_mul_scalar(off, l->number - 1));
    case GD_LOSS_POISSON: return gd_sub(gd_exp(given), gd_mul(y, given));
    default: return gd_square(off);
    }
}

gd_tensor *gd__loss(const gd_loss *l, gd_tensor *given, gd_tensor *y, gd_tensor *weight)
{
    if (l->kind == GD_LOSS_CROSS_ENTROPY)
        return weight ? weighted(given, y, weight) : gd_cross_entropy(given, y);
    if (l->kind == GD_LOSS_SQUARES) return gd_mse(given, y);
    return gd_mean(of_numbers(l, given, y), NULL, false);
}
