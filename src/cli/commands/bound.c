/* Bounded parameters; see bound.h. */
#include "cli/commands/bound.h"
#include "cli/text.h"

#include <math.h>
#include <string.h>

#define START 1e-3 /* of the measure of near: how far inside a transformation starts at least */
#define NEAR  1e-6 /* what one has brought so near is meant to be on its bound */

/* ---- reading ---- */

typedef struct reader {
    gd_ctx *ctx;
    const char *text;
    size_t at;
} reader;

static gd_status bad_bound(const reader *r, const char *expected)
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
        if (!sign) return bad_bound(&r, "'<' or '>'");
        set(out, sign == '<', value);
    }
    skip(&r);
    *name = text + r.at;
    *length = strcspn(*name, " \t<>=");
    if (!*length) return bad_bound(&r, "a parameter");
    r.at += *length;
    char sign = read_sign(&r);
    if (!sign && !number_first) return bad_bound(&r, "'<' or '>'");
    if (sign && !read_number(&r, &value)) return bad_bound(&r, "a number");
    if (sign) {
        if (number_first && (sign == '<') != out->has_low)
            return bad_bound(&r, "0 < x < 1: both signs the same way");
        set(out, sign == '>', value);
    }
    skip(&r);
    if (text[r.at]) return bad_bound(&r, "nothing more");
    if (out->has_low && out->has_high && !(out->low < out->high))
        return gd_fail(ctx, GD_PARSE, "--bound: nothing lies between %g and %g", out->low, out->high);
    return GD_OK;
}

/* ---- transforming ---- */

/* Where both sides are bounded their distance is the measure of near, else the size of the bound. */
static double inside(const gd_bound *b, double x)
{
    double width = b->has_low && b->has_high ? b->high - b->low : fmax(1, fabs(x));
    if (b->has_low) x = fmax(x, b->low + START * width);
    return b->has_high ? fmin(x, b->high - START * width) : x;
}

static double free_value(const gd_bound *b, double bounded)
{
    double x = inside(b, bounded);
    if (b->has_low && b->has_high) return log((x - b->low) / (b->high - x));
    return b->has_low ? log(x - b->low) : b->has_high ? log(b->high - x) : x;
}

gd_status gd__bound_check(const gd_bound *b, const char *name, gd_tensor *value)
{
    gd_ctx *ctx = gd_tensor_ctx(value);
    int64_t count = gd_numel(value);
    double *v = gd__alloc_array(ctx, (size_t)count + 1, sizeof *v);
    gd_status status = v ? gd_read_f64(value, v, count) : GD_NOMEM;
    for (int64_t i = 0; i < count && !status; i++)
        if ((b->has_low && v[i] < b->low) || (b->has_high && v[i] > b->high))
            status = gd_fail(ctx, GD_VALUE, "--bound: %.60s starts at %g, outside its bound", name, v[i]);
    if (v) gd__free(ctx, v, ((size_t)count + 1) * sizeof *v);
    return status;
}

gd_tensor *gd__bound_free(const gd_bound *b, gd_tensor *value)
{
    gd_ctx *ctx = gd_tensor_ctx(value);
    gd_tensor *u = gd_zeros_like(value);
    int64_t count = gd_numel(value);
    double *v = gd__alloc_array(ctx, (size_t)count + 1, sizeof *v);
    gd_status status = u && v ? gd_read_f64(value, v, count) : GD_NOMEM;
    for (int64_t i = 0; i < count && !status; i++) v[i] = free_value(b, v[i]);
    if (!status) status = gd_write_f64(u, v, count);
    if (v) gd__free(ctx, v, ((size_t)count + 1) * sizeof *v);
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

double gd__bound_snap(double low, double high, double x)
{
    double near = NEAR * (isfinite(low) && isfinite(high) ? high - low : fmax(1, fabs(x)));
    return x - low <= near ? low : high - x <= near ? high : x;
}
