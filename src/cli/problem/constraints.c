/* Constraints; see constraints.h. */
#include "cli/problem/constraints.h"

#include "gradus/autograd.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

#define NO_CONSTRAINT \
    "the value is true or false, which is no constraint; write one comparison per option, without parentheses around it"

static gd_status add_constraint(gd_ctx *ctx, gd_constraints *c, gd_constraint item)
{
    if (!gd__grow(ctx, &c->item, &c->bytes, ((size_t)c->count + 1) * sizeof *c->item)) {
        gd_expr_free(item.expr);
        gd__strfree(ctx, item.text);
        return GD_NOMEM;
    }
    c->item[c->count++] = item;
    return GD_OK;
}

/* An operator that says otherwise than its option: what to write. */
static gd_status contradicts(const gd_problem *p, const gd_expr *e, const char *option, const char *text,
                             const gd_expr_relation *r)
{
    bool equality = r->sign == '=';
    char words[200];
    (void)snprintf(words, sizeof words, "'%s' is an %s; write --%s '%.100s'", r->words,
                   equality ? "equality" : "inequality",
                   r->count > 1 ? "subject"
                   : equality   ? "equal"
                                : "below",
                   text);
    gd__expr_fail_at(e, r->at, words);
    gd__problem_blame(p->ctx, option);
    return gd_error(p->ctx);
}

static gd_status check(const gd_problem *p, const gd_expr *e, const char *option, const char *text,
                       const gd_expr_relation *r)
{
    bool equal = !strcmp(option, "equal"), below = !strcmp(option, "below"), any = false;
    if (!r->count) {
        gd_status status = gd__problem_no_truth(p->ctx, option, e, NO_CONSTRAINT);
        if (status) return status;
    }
    if (!r->count && !equal && !below)
        return gd_fail(p->ctx, GD_PARSE, "--%s '%.60s': there is no comparison in it; <=, >= or = expected",
                       option, text);
    if (r->count && (r->sign == '=' ? below : equal)) return contradicts(p, e, option, text, r);
    for (int i = 0; i < p->params; i++) any = any || gd_expr_uses(e, i);
    if (any) return GD_OK;
    return gd_fail(p->ctx, GD_ARGUMENT, "--%s '%.60s': no parameter is in it: nothing can change it", option,
                   text);
}

/* What cannot be computed is said of the option; a count of comparisons has no slope that would lead anywhere. */
static gd_status try_once(const gd_problem *p, gd_expr *e, const char *option, const char *text)
{
    gd_status status = GD_OK;
    gd_scope_begin(p->ctx);
    gd_tensor *v = gd_expr_eval(e, p->value, p->dtype);
    if (!v) {
        gd__problem_blame(p->ctx, option);
        status = gd_error(p->ctx);
    } else if (!gd_requires_grad(v)) {
        status = gd_fail(
            p->ctx, GD_ARGUMENT,
            "--%s '%.60s': it has no derivative by any parameter; write it without comparisons inside",
            option, text);
    }
    gd_scope_end(p->ctx);
    return status;
}

/* One relation of a text, or all of a text that has none. */
static gd_status read_part(const gd_problem *p, const gd_args *args, const char *option, const char *text,
                           gd_expr_relation *r, int part, gd_constraints *equal, gd_constraints *below)
{
    gd_expr *e = gd__problem_relation(p->ctx, args, option, text, p->name, p->count, part, r);
    if (!e) return gd_error(p->ctx);
    gd_constraint item = {.expr = e, .option = option};
    size_t from = r->count ? (size_t)r->begin : 0, to = r->count ? (size_t)r->end : strlen(text);
    gd_status status = check(p, e, option, text, r);
    if (!status) status = try_once(p, e, option, text);
    if (!status && !(item.text = gd__alloc(p->ctx, to - from + 1))) status = GD_NOMEM;
    if (status) {
        gd_expr_free(e);
        return status;
    }
    memcpy(item.text, text + from, to - from);
    item.text[to - from] = 0;
    bool is_equal = r->count ? r->sign == '=' : !strcmp(option, "equal");
    return add_constraint(p->ctx, is_equal ? equal : below, item);
}

gd_status gd__constraints_read(const gd_problem *p, const gd_args *args, gd_constraints *equal,
                               gd_constraints *below)
{
    static const char *const options[] = {"equal", "below", "subject"};
    gd_status status = GD_OK;
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        int at = 0;
        for (const char *text; !status && (text = gd__args_next(args, options[k], &at));) {
            gd_expr_relation r = {0};
            int part = 0;
            do status = read_part(p, args, options[k], text, &r, part, equal, below);
            while (!status && ++part < r.count);
        }
    }
    return status;
}

static bool uses(const gd_constraints *c, int name)
{
    bool any = false;
    for (int i = 0; c && i < c->count; i++) any = any || gd_expr_uses(c->item[i].expr, name);
    return any;
}

gd_status gd__names_check(const gd_problem *p, const gd_constraints *equal, const gd_constraints *below)
{
    for (int i = 0; i < p->count; i++)
        if (!gd_expr_uses(p->expr, i) && !uses(equal, i) && !uses(below, i))
            return gd_fail(p->ctx, GD_ARGUMENT, "--%s %.60s: the expression does not use it%s",
                           i < p->params ? "param" : "data", p->name[i],
                           (equal && equal->count) || (below && below->count) ? ", nor does a constraint"
                                                                              : "");
    return GD_OK;
}

void gd__constraints_free(gd_ctx *ctx, gd_constraints *c)
{
    for (int i = 0; i < c->count; i++) {
        gd_expr_free(c->item[i].expr);
        gd__strfree(ctx, c->item[i].text);
    }
    gd__free(ctx, c->item, c->bytes);
    *c = (gd_constraints){0};
}

/* ---- values ---- */

/* All elements of one as a vector. */
static gd_tensor *values_of(const gd_problem *p, const gd_constraint *item)
{
    gd_tensor *v = gd_expr_eval(item->expr, p->value, p->dtype);
    int64_t n = v ? gd_numel(v) : 0;
    return v ? gd_reshape(gd_drop_names(v), 1, &n) : NULL;
}

gd_tensor *gd__constraints_values(const gd_problem *p, const gd_constraints *c)
{
    gd_tensor *all = NULL;
    for (int i = 0; i < c->count; i++) {
        gd_tensor *v = values_of(p, &c->item[i]);
        all = i && all ? gd_cat((gd_tensor *[]){all, v}, 2, "0") : v;
        if (!all) return NULL;
    }
    return all;
}

/* ---- results ---- */

/* One of them where the parameters are. */
typedef struct found {
    const gd_constraint *item;
    bool equal;
    double *value, *multiplier; /* of each element; multiplier NULL: not known */
    int64_t count, before;      /* elements, and those of its side before them */
    double violation;           /* the largest; NaN counts as infinite */
} found;

typedef gd_status (*visitor)(const gd_constraints_report *r, const found *f, gd_text *out, int number);

static double violation_of(const found *f)
{
    double most = 0;
    for (int64_t i = 0; i < f->count; i++) {
        double v = f->equal ? fabs(f->value[i]) : f->value[i];
        most = isnan(v) ? INFINITY : fmax(most, v);
    }
    return most;
}

/* The constraint with its values, and of the multipliers those from *at on. */
static gd_status visit(const gd_constraints_report *r, found *f, int64_t *at, gd_text *out, visitor fn,
                       int number)
{
    gd_ctx *ctx = r->problem->ctx;
    int64_t all = r->multipliers ? gd_numel(r->multipliers) : 0;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *v = values_of(r->problem, f->item);
    gd_no_grad_end(ctx);
    f->count = v ? gd_numel(v) : 0;
    bool known = v && *at + f->count <= all;
    size_t numbers = (size_t)f->count + (size_t)all + 1;
    f->value = gd__alloc_array(ctx, numbers, sizeof *f->value);
    gd_status status = !v ? gd_error(ctx) : f->value ? gd_read_f64(v, f->value, f->count) : GD_NOMEM;
    if (!status && known) status = gd_read_f64(r->multipliers, f->value + f->count, all);
    gd_scope_end(ctx);
    if (!status) {
        f->multiplier = known ? f->value + f->count + *at : NULL;
        f->violation = violation_of(f);
        *at += f->count;
        status = fn(r, f, out, number);
    }
    if (f->value) gd__free(ctx, f->value, numbers * sizeof *f->value);
    return status;
}

static gd_status visit_all(const gd_constraints_report *r, gd_text *out, visitor fn)
{
    gd_status status = GD_OK;
    int64_t at = 0;
    int number = 0;
    for (int side = 0; side < 2; side++) {
        const gd_constraints *c = side ? r->below : r->equal;
        int64_t begin = at;
        for (int i = 0; i < c->count && !status; i++) {
            found f = {.item = &c->item[i], .equal = !side, .before = at - begin};
            status = visit(r, &f, &at, out, fn, number++);
        }
    }
    return status;
}

static void put_array(gd_text *out, const char *key, const double *v, int64_t count)
{
    gd__json_key(out, key);
    gd__text_char(out, '[');
    for (int64_t i = 0; i < count; i++) {
        if (i) gd__text_char(out, ',');
        gd__json_number(out, v[i]);
    }
    gd__text_char(out, ']');
}

/* Does the minimum lean on it?  An inequality that has room, or no multiplier, may be left out. */
static void put_active(gd_text *out, const found *f, double tolerance)
{
    gd__json_key(out, "active");
    gd__text_char(out, '[');
    for (int64_t i = 0; i < f->count; i++) {
        bool leans = f->equal || (f->value[i] >= -tolerance && f->multiplier[i] > tolerance);
        gd__text_put(out, "%s%s", i ? "," : "", leans ? "true" : "false");
    }
    gd__text_char(out, ']');
}

static gd_status put_object(const gd_constraints_report *r, const found *f, gd_text *out, int number)
{
    gd__text_add(out, number ? ", {" : "{");
    gd__json_put_string(out, "text", f->item->text);
    gd__json_put_string(out, "option", f->item->option);
    gd__json_put_string(out, "kind", f->equal ? "equal" : "below");
    put_array(out, "values", f->value, f->count);
    gd__json_put_number(out, "violation", f->violation);
    if (f->multiplier) put_active(out, f, r->tolerance);
    if (f->multiplier) put_array(out, "multipliers", f->multiplier, f->count);
    gd__text_char(out, '}');
    return GD_OK;
}

/* All multipliers of a side as one array. */
static gd_status put_side(const gd_constraints_report *r, const found *f, gd_text *out, bool equal)
{
    (void)r;
    if (f->equal != equal || !f->multiplier) return GD_OK;
    for (int64_t i = 0; i < f->count; i++) {
        if (f->before + i) gd__text_char(out, ',');
        gd__json_number(out, f->multiplier[i]);
    }
    return GD_OK;
}

static gd_status put_equal(const gd_constraints_report *r, const found *f, gd_text *out, int number)
{
    (void)number;
    return put_side(r, f, out, true);
}

static gd_status put_below(const gd_constraints_report *r, const found *f, gd_text *out, int number)
{
    (void)number;
    return put_side(r, f, out, false);
}

gd_status gd__constraints_json(const gd_constraints_report *r, gd_text *out)
{
    gd__json_key(out, "multipliers");
    gd__text_add(out, "{\"equal\": [");
    gd_status status = visit_all(r, out, put_equal);
    gd__text_add(out, "], \"below\": [");
    if (!status) status = visit_all(r, out, put_below);
    gd__text_add(out, "]}");
    gd__json_key(out, "constraints");
    gd__text_char(out, '[');
    if (!status) status = visit_all(r, out, put_object);
    gd__text_char(out, ']');
    return status;
}

static gd_status put_line(const gd_constraints_report *r, const found *f, gd_text *out, int number)
{
    (void)number;
    gd__text_put(out, "multiplier%s of --%s '%s':", f->count == 1 ? "" : "s", f->item->option, f->item->text);
    for (int64_t i = 0; i < f->count && f->multiplier; i++) gd__text_put(out, " %.7g", f->multiplier[i]);
    if (!f->multiplier) gd__text_add(out, " not known");
    if (f->violation > r->tolerance) gd__text_put(out, "; violated by %.3g", f->violation);
    gd__text_char(out, '\n');
    return GD_OK;
}

gd_status gd__constraints_print(const gd_constraints_report *r, gd_text *out)
{
    return visit_all(r, out, put_line);
}

/* ---- multipliers of bounds ---- */

/* They as numbers, with as many as the parameters have elements; NULL where they are not known, or with an error. */
static double *bound_numbers(const gd_problem *p, const gd_tensor *multipliers, int64_t *count)
{
    *count = gd__list_numel(p->value, p->params);
    if (!multipliers || gd_numel(multipliers) != *count) return NULL;
    double *m = gd__alloc_array(p->ctx, (size_t)*count + 1, sizeof *m);
    if (!m || !gd_read_f64(multipliers, m, *count)) return m;
    gd__free(p->ctx, m, ((size_t)*count + 1) * sizeof *m);
    return NULL;
}

gd_status gd__bounds_json(const gd_problem *p, const gd_tensor *multipliers, gd_text *out)
{
    int64_t count, at = 0;
    double *m = bound_numbers(p, multipliers, &count);
    if (!m) return gd_error(p->ctx);
    gd__json_key(out, "bound_multipliers");
    gd__text_char(out, '{');
    for (int i = 0; i < p->params; i++) {
        put_array(out, p->name[i], m + at, gd_numel(p->value[i]));
        at += gd_numel(p->value[i]);
    }
    gd__text_char(out, '}');
    gd__free(p->ctx, m, ((size_t)count + 1) * sizeof *m);
    return GD_OK;
}

#define LINES 20 /* of bounds that hold something */

gd_status gd__bounds_print(const gd_problem *p, const gd_tensor *multipliers, gd_text *out)
{
    int64_t count, at = 0;
    int lines = 0;
    double *m = bound_numbers(p, multipliers, &count);
    if (!m) return gd_error(p->ctx);
    for (int i = 0; i < p->params; i++) {
        int64_t n = gd_numel(p->value[i]);
        for (int64_t k = 0; k < n && lines < LINES; k++) {
            if (m[at + k] == 0) continue;
            gd__text_put(out, "multiplier of the %s bound of %s", m[at + k] > 0 ? "low" : "high", p->name[i]);
            if (gd_ndim(p->value[i])) gd__text_put(out, "[%lld]", (long long)k);
            gd__text_put(out, ": %.7g\n", fabs(m[at + k]));
            lines++;
        }
        at += n;
    }
    gd__free(p->ctx, m, ((size_t)count + 1) * sizeof *m);
    return GD_OK;
}
