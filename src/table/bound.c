/* Bounded parameters; see bound.h. */
#include "table/bound.h"
#include "base/spelling.h"
#include "table/value.h"
#include "base/text/compose.h"
#include "base/text/suggest.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

typedef struct reader {
    gd_ctx *ctx;
    const char *text;
    size_t at;
} reader;

static gd_status bad_bound(const reader *r, const char *expected)
{
    return gd_fail(r->ctx, GD_PARSE, "{bounds}: column %zu: %s expected", r->at + 1, expected);
}

static void skip(reader *r) { r->at += strspn(r->text + r->at, " \t"); }

static bool read_number(reader *r, double *value)
{
    skip(r);
    size_t used = gd__parse_number(r->text + r->at, strlen(r->text + r->at), false, value);
    r->at += used;
    return used > 0;
}

/* '<' or '>', with or without '='; 0 if there is none. */
static char read_sign(reader *r)
{
    skip(r);
    char c = r->text[r->at];
    if (c != '<' && c != '>') return 0;
    r->at += r->text[r->at + 1] == '=' ? 2 : 1;
    return c;
}

static void set(gd_bound *b, bool low, double value)
{
    if (low)
        b->has_low = true, b->low = value;
    else
        b->has_high = true, b->high = value;
}

/* [2] or [1,2] behind a name. */
static bool read_indices(reader *r, gd_bound *b)
{
    if (r->text[r->at] != '[') return true;
    do {
        double value = -1;
        r->at++;
        if (b->indices == 8 || !read_number(r, &value) || !(value >= 0 && value < 1e15)) return false;
        b->index[b->indices++] = (int64_t)value;
        if ((double)b->index[b->indices - 1] != value) return false;
        skip(r);
    } while (r->text[r->at] == ',');
    return r->text[r->at++] == ']';
}

/* The number after a sign, or the value instead of it. */
static bool read_limit(reader *r, bool only, gd_bound *b, double *value)
{
    skip(r);
    char c = r->text[r->at];
    if (only && (c == '[' || c == '@')) {
        b->value = r->text + r->at;
        r->at += strlen(b->value);
        return true;
    }
    return read_number(r, value);
}

gd_status gd__bound_parse(gd_ctx *ctx, const char *text, const char **name, size_t *length, gd_bound *out)
{
    reader r = {.ctx = ctx, .text = text};
    double value = 0;
    *out = (gd_bound){0};
    bool number_first = read_number(&r, &value);
    if (number_first) {
        char sign = read_sign(&r);
        if (!sign) return bad_bound(&r, "'<' or '>'");
        set(out, sign == '<', value);
    }
    skip(&r);
    *name = text + r.at;
    *length = strcspn(*name, " \t<>=[");
    if (!*length) return bad_bound(&r, "a parameter");
    r.at += *length;
    if (!read_indices(&r, out)) return bad_bound(&r, "the number of an element, from 0, and ']'");
    char sign = read_sign(&r);
    if (!sign && !number_first) return bad_bound(&r, "'<' or '>'");
    if (sign && !read_limit(&r, !number_first && !out->indices, out, &value))
        return bad_bound(&r, "a number");
    if (sign) {
        if (number_first && (sign == '<') != out->has_low)
            return bad_bound(&r, "0 < x < 1: both signs the same way");
        set(out, sign == '>', value);
    }
    skip(&r);
    if (text[r.at]) return bad_bound(&r, "nothing more");
    if (out->has_low && out->has_high && !(out->low <= out->high))
        return gd_fail(ctx, GD_PARSE, "{bounds}: no number is between %g and %g", out->low, out->high);
    return GD_OK;
}

/* ---- elements ---- */

/* The elements of a parameter in a bound: from *at, returns their number; 0 if its indices are out of range. */
static int64_t elements_of(const gd_bound *b, const gd_tensor *t, int64_t *at)
{
    *at = 0;
    if (!b->indices) return gd_numel(t);
    if (b->indices != gd_ndim(t)) return 0;
    for (int i = 0; i < b->indices; i++) {
        if (b->index[i] >= gd_size(t, i)) return 0;
        *at = *at * gd_size(t, i) + b->index[i];
    }
    return 1;
}

/* A number for every element: those of a value, or one for all. */
static gd_status limits(const gd_bound *b, const char *name, const gd_tensor *t, double number, double *out,
                        int64_t count)
{
    gd_ctx *ctx = gd_tensor_ctx(t);
    for (int64_t i = 0; i < count; i++) out[i] = number;
    if (!b->value) return GD_OK;
    gd_tensor *v = gd__value_parse(ctx, gd__setting_of(ctx, "bounds"), b->value, GD_F64, NULL);
    gd_status status = v ? GD_OK : gd_error(ctx);
    if (!status && gd_numel(v) != count)
        status = gd_fail(ctx, GD_PARSE, "{bounds}: %lld numbers for '%.60s', which has %lld elements",
                         (long long)gd_numel(v), name, (long long)count);
    if (!status) status = gd_read_f64(v, out, count);
    gd_release(v);
    return status;
}

/* Sets the bounds of elements without one on this side. */
static gd_status set_side(const gd_bound *b, const char *name, const gd_tensor *t, bool low, double *side)
{
    gd_ctx *ctx = gd_tensor_ctx(t);
    int64_t at, count = elements_of(b, t, &at);
    if (!count && gd_numel(t)) return gd_fail(ctx, GD_PARSE, "{bounds}: '%.60s' has no such element", name);
    double *v = gd__alloc_array(ctx, (size_t)count + 1, sizeof *v);
    gd_status status = v ? limits(b, name, t, low ? b->low : b->high, v, count) : GD_NOMEM;
    for (int64_t i = 0; i < count && !status; i++) {
        if (!isinf(side[at + i]))
            status = gd_fail(ctx, GD_PARSE, "{bounds}: '%.60s' has one already; write low<%.60s<high", name,
                             name);
        else
            side[at + i] = v[i];
    }
    if (v) gd__free(ctx, v, ((size_t)count + 1) * sizeof *v);
    return status;
}

gd_status gd__bounds_read(gd_ctx *ctx, const char *text, const char *const *names, gd_tensor *const *params,
                          int count, double *low, double *high)
{
    const char *name;
    size_t length;
    gd_bound b;
    gd_status status = gd__bound_parse(ctx, text, &name, &length, &b);
    if (status) return status;
    gd_suggest nearest = gd__suggest(name, length);
    for (int i = 0; i < count; low += gd_numel(params[i]), high += gd_numel(params[i]), i++) {
        gd__suggest_try(&nearest, names[i]);
        if (strlen(names[i]) != length || memcmp(names[i], name, length) != 0) continue;
        if (b.has_low) status = set_side(&b, names[i], params[i], true, low);
        if (b.has_high && !status) status = set_side(&b, names[i], params[i], false, high);
        for (int64_t k = 0; k < gd_numel(params[i]) && !status; k++)
            if (!(low[k] <= high[k]))
                status = gd_fail(ctx, GD_PARSE, "{bounds}: no number is between %g and %g", low[k], high[k]);
        return status;
    }
    char hint[GD_HINT_SIZE];
    return gd_fail(ctx, GD_PARSE, "{bounds}: no parameter '%.*s'%s", length > 60 ? 60 : (int)length, name,
                   gd__suggest_hint(&nearest, hint));
}
