/* Bounded parameters; see bound.h. */
#include "cli/bound.h"
#include "cli/text.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

typedef struct reader {
    gd_ctx *ctx;
    const char *text;
    size_t at;
} reader;

static gd_status bad(const reader *r, const char *expected)
{
    return gd_fail(r->ctx, GD_PARSE, "--bound: column %zu: %s expected", r->at + 1, expected);
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

gd_status gd__bound_parse(gd_ctx *ctx, const char *text, const char **name, size_t *length, gd_bound *out)
{
    reader r = {.ctx = ctx, .text = text};
    double value = 0;
    *out = (gd_bound){0};
    bool number_first = read_number(&r, &value);
    if (number_first) {
        char sign = read_sign(&r);
        if (!sign) return bad(&r, "'<' or '>'");
        set(out, sign == '<', value);
    }
    skip(&r);
    *name = text + r.at;
    *length = strcspn(*name, " \t<>=");
    if (!*length) return bad(&r, "a parameter");
    r.at += *length;
    char sign = read_sign(&r);
    if (!sign && !number_first) return bad(&r, "'<' or '>'");
    if (sign && !read_number(&r, &value)) return bad(&r, "a number");
    if (sign) {
        if (number_first && (sign == '<') != out->has_low)
            return bad(&r, "0 < x < 1: both signs the same way");
        set(out, sign == '>', value);
    }
    skip(&r);
    if (text[r.at]) return bad(&r, "nothing more");
    if (out->has_low && out->has_high && !(out->low < out->high))
        return gd_fail(ctx, GD_PARSE, "--bound: nothing lies between %g and %g", out->low, out->high);
    return GD_OK;
}

/* ---- transforming ---- */

static double free_value(const gd_bound *b, double x)
{
    if (b->has_low && b->has_high) return log((x - b->low) / (b->high - x));
    return log(b->has_low ? x - b->low : b->high - x);
}

gd_tensor *gd__bound_free(const gd_bound *b, const char *name, gd_tensor *value)
{
    gd_ctx *ctx = gd_tensor_ctx(value);
    gd_tensor *u = gd_zeros_like(value);
    int64_t count = gd_numel(value);
    size_t bytes = (size_t)count * sizeof(double);
    double *v = gd__alloc(ctx, bytes);
    gd_status status = u && v ? gd_read_f64(value, v, count) : GD_NOMEM;
    for (int64_t i = 0; i < count && !status; i++) {
        if ((b->has_low && v[i] <= b->low) || (b->has_high && v[i] >= b->high))
            status = gd_fail(ctx, GD_VALUE, "--bound: %.60s starts at %g, which is not inside its bound",
                             name, v[i]);
        v[i] = free_value(b, v[i]);
    }
    if (!status) status = gd_write_f64(u, v, count);
    gd__free(ctx, v, bytes);
    if (!status) return u;
    gd_release(u);
    return NULL;
}

gd_tensor *gd__bound_value(const gd_bound *b, gd_tensor *u)
{
    if (b->has_low && b->has_high)
        return gd_add_scalar(gd_mul_scalar(gd_sigmoid(u), b->high - b->low), b->low);
    if (b->has_low) return gd_add_scalar(gd_exp(u), b->low);
    if (b->has_high) return gd_add_scalar(gd_neg(gd_exp(u)), b->high);
    return u;
}

double gd__bound_slope(const gd_bound *b, double u)
{
    if (b->has_low && b->has_high) {
        double s = 1 / (1 + exp(-u));
        return (b->high - b->low) * s * (1 - s);
    }
    return b->has_low ? exp(u) : b->has_high ? -exp(u) : 1;
}
