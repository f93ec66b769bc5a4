/* The text of a model; see train_network.h. */
#include "train/model/train_network.h"
#include "module/layers/layer.h"
#include "base/text/scan.h"
#include "base/text/suggest.h"

#include <stdio.h>
#include <string.h>

typedef enum value_kind { SIZES, SIZE, ODD, SHARE, FUNCTION } value_kind;

typedef struct setting {
    const char *name;
    value_kind kind;
    size_t at; /* in the spec */
    bool conv_only;
} setting;

static const setting settings[] = {
    {"activation", FUNCTION, offsetof(gd_network_spec, activation), false},
    {"dropout", SHARE, offsetof(gd_network_spec, dropout), false},
    {"kernel", ODD, offsetof(gd_network_spec, kernel), true},
    {"pool", SIZE, offsetof(gd_network_spec, pool), true},
    {"dense", SIZES, 0, true},
};

#define SETTINGS (sizeof settings / sizeof *settings)

typedef struct reader {
    gd_text_scan s;
    gd_network_spec *out;
    bool conv;
    bool given[SETTINGS];
} reader;

static gd_status read_whole(reader *r, const char *what, int64_t highest, int64_t *out)
{
    double value;
    (void)gd__scan_peek(&r->s);
    size_t at = r->s.at;
    if (!gd__scan_is_number(&r->s)) return gd__scan_expected(&r->s, what);
    gd_status status = gd__scan_number(&r->s, &value);
    if (status) return status;
    if (!(value >= 1 && value <= (double)highest) || value != (double)(int64_t)value)
        return gd__scan_fail(&r->s, at, "%s is a whole number from 1 to %lld", what, (long long)highest);
    *out = (int64_t)value;
    return GD_OK;
}

static gd_status add_size(reader *r, int64_t *list, int *count)
{
    if (*count == GD_NETWORK_SIZES)
        return gd__scan_fail(&r->s, r->s.at, "more than %d sizes", GD_NETWORK_SIZES);
    gd_status status = read_whole(r, "a layer's size", GD_NETWORK_WIDEST, &list[*count]);
    if (!status) ++*count;
    return status;
}

/* A number or [number, ...] */
static gd_status read_sizes(reader *r, int64_t *list, int *count)
{
    *count = 0;
    if (gd__scan_peek(&r->s) != '[') return add_size(r, list, count);
    size_t open = r->s.at;
    gd_status status = gd__scan_open(&r->s);
    if (!status && gd__scan_peek(&r->s) == ']') return gd__scan_close(&r->s, ']', open);
    while (!status) {
        status = add_size(r, list, count);
        if (!status && !gd__scan_take(&r->s, ',')) break;
    }
    return status ? status : gd__scan_close(&r->s, ']', open);
}

static gd_status read_function(reader *r, char out[16])
{
    char name[GD_NAME_SIZE];
    (void)gd__scan_peek(&r->s);
    size_t at = r->s.at;
    gd_status status = gd__scan_name(&r->s, name);
    if (status) return status;
    if (!gd__is_activation(name))
        return gd__scan_fail(
            &r->s, at, "activation '%s' unknown: relu, gelu, tanh, sigmoid, softplus or identity", name);
    (void)snprintf(out, 16, "%.15s", name);
    return GD_OK;
}

static gd_status read_share(reader *r, double *out)
{
    (void)gd__scan_peek(&r->s);
    size_t at = r->s.at;
    gd_status status = gd__scan_number(&r->s, out);
    if (!status && !(*out >= 0 && *out < 1))
        status = gd__scan_fail(&r->s, at, "dropout is a number from 0 to less than 1");
    return status;
}

static gd_status read_value(reader *r, const setting *k)
{
    void *to = (char *)r->out + k->at;
    size_t at = r->s.at;
    gd_status status = GD_OK;
    switch (k->kind) {
    case SIZES: return read_sizes(r, r->out->dense, &r->out->denses);
    case FUNCTION: return read_function(r, to);
    case SHARE: return read_share(r, to);
    case SIZE: return read_whole(r, k->name, 64, to);
    case ODD:
        status = read_whole(r, k->name, 63, to);
        if (!status && *(int64_t *)to % 2 == 0)
            status = gd__scan_fail(&r->s, at, "%s is an odd number", k->name);
    }
    return status;
}

static gd_status read_setting(reader *r)
{
    char name[GD_NAME_SIZE];
    size_t at = r->s.at, k = 0;
    gd_status status = gd__scan_name(&r->s, name);
    if (status) return status;
    while (k < SETTINGS && (strcmp(settings[k].name, name) != 0 || (settings[k].conv_only && !r->conv))) k++;
    if (k == SETTINGS) {
        gd_suggest nearest = gd__suggest(name, strlen(name));
        for (size_t i = 0; i < SETTINGS; i++)
            if (r->conv || !settings[i].conv_only) gd__suggest_try(&nearest, settings[i].name);
        char hint[GD_HINT_SIZE];
        return gd__scan_fail(&r->s, at, "no setting '%s'%s", name, gd__suggest_hint(&nearest, hint));
    }
    if (r->given[k]) return gd__scan_fail(&r->s, at, "'%s' is given twice", name);
    r->given[k] = true;
    if (!gd__scan_take(&r->s, '=')) return gd__scan_expected(&r->s, "'='");
    return read_value(r, &settings[k]);
}

static gd_status read_arguments(reader *r, int64_t *list, int *count)
{
    size_t open = r->s.at;
    gd_status status = gd__scan_open(&r->s);
    if (!status && gd__scan_peek(&r->s) == ')') return gd__scan_close(&r->s, ')', open);
    while (!status) {
        status = gd__scan_is_name(&r->s) ? read_setting(r) : add_size(r, list, count);
        if (!status && !gd__scan_take(&r->s, ',')) break;
    }
    return status ? status : gd__scan_close(&r->s, ')', open);
}

gd_status gd__network_parse(gd_ctx *ctx, const char *text, gd_network_spec *out)
{
    reader r = {.out = out};
    char name[GD_NAME_SIZE];
    *out = (gd_network_spec){.kernel = 3, .pool = 2, .activation = "relu"};
    gd_status status = gd__scan_begin(&r.s, ctx, "model", text);
    if (status) return status;
    (void)gd__scan_peek(&r.s);
    size_t at = r.s.at;
    if (!gd__scan_is_name(&r.s)) return gd__scan_expected(&r.s, "linear, mlp(..) or conv(..)");
    status = gd__scan_name(&r.s, name);
    if (status) return status;
    r.conv = !strcmp(name, "conv");
    if (!r.conv && strcmp(name, "mlp") != 0 && strcmp(name, "linear") != 0)
        return gd__scan_fail(&r.s, at, "model '%s' unknown: linear, mlp(..) or conv(..)", name);
    if (gd__scan_peek(&r.s) == '(' && strcmp(name, "linear") != 0)
        status = read_arguments(&r, r.conv ? out->conv : out->dense, r.conv ? &out->convs : &out->denses);
    if (!status && gd__scan_peek(&r.s)) return gd__scan_expected(&r.s, "the end");
    if (!status && strcmp(name, "linear") != 0 && !out->convs && !(out->denses && !r.conv))
        status = gd__scan_fail(&r.s, at, "%s wants the sizes of its layers, as in %s(16, 32)", name, name);
    return status;
}

/* ---- writing ---- */

static void print_sizes(gd_text *out, const int64_t *list, int count)
{
    for (int i = 0; i < count; i++) gd__text_put(out, "%s%lld", i ? ", " : "", (long long)list[i]);
}

void gd__network_print(gd_text *out, const gd_network_spec *s)
{
    if (!s->convs && !s->denses) {
        gd__text_add(out, "linear");
        return;
    }
    gd__text_add(out, s->convs ? "conv(" : "mlp(");
    if (s->convs)
        print_sizes(out, s->conv, s->convs);
    else
        print_sizes(out, s->dense, s->denses);
    if (s->convs && s->kernel != 3) gd__text_put(out, ", kernel=%lld", (long long)s->kernel);
    if (s->convs && s->pool != 2) gd__text_put(out, ", pool=%lld", (long long)s->pool);
    if (s->convs && s->denses) {
        gd__text_add(out, ", dense=[");
        print_sizes(out, s->dense, s->denses);
        gd__text_char(out, ']');
    }
    if (strcmp(s->activation, "relu") != 0) gd__text_put(out, ", activation=%s", s->activation);
    char number[GD_NUMBER_SIZE];
    if (s->dropout > 0) gd__text_put(out, ", dropout=%s", gd__number_text(s->dropout, number));
    gd__text_char(out, ')');
}
