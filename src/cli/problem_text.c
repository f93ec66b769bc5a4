/* Constraints and bounds as text and JSON; see problem_options.h. */
#include "cli/problem_options.h"
#include "optim/vector/layout.h"

#include <math.h>

/* ---- constraints ---- */

typedef struct report {
    gd_text *out;
    const gd_problem *problem;
    double tolerance;
    bool equal;           /* the side that is printed */
    const double *slopes; /* sensitivities [elements, rows], or NULL */
    int64_t rows;
} report;

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

/* Is it active at the minimum?  An inequality with slack, or without a multiplier, may be left out. */
static void put_active(gd_text *out, const gd_constraint_state *f, double tolerance)
{
    gd__json_key(out, "active");
    gd__text_char(out, '[');
    for (int64_t i = 0; i < f->count; i++) {
        bool active = f->equal || (f->value[i] >= -tolerance && f->multiplier[i] > tolerance);
        gd__text_put(out, "%s%s", i ? "," : "", active ? "true" : "false");
    }
    gd__text_char(out, ']');
}

/* For each element of the constraint, how the elements of a parameter move with its right-hand side. */
static void put_slopes(const report *r, const gd_constraint_state *f)
{
    int64_t at = 0;
    gd__json_key(r->out, "sensitivities");
    gd__text_char(r->out, '{');
    for (int i = 0; i < r->problem->params; i++) {
        int64_t size = gd_numel(r->problem->value[i]);
        gd__json_key(r->out, r->problem->name[i]);
        for (int64_t k = 0; k < f->count; k++) {
            gd__text_add(r->out, k ? ", [" : "[[");
            for (int64_t e = 0; e < size; e++) {
                if (e) gd__text_char(r->out, ',');
                gd__json_number(r->out, r->slopes[(at + e) * r->rows + f->first + k]);
            }
            gd__text_char(r->out, ']');
        }
        gd__text_add(r->out, f->count ? "]" : "[]");
        at += size;
    }
    gd__text_char(r->out, '}');
}

static void put_object(void *user, const gd_constraint_state *f, int number)
{
    const report *r = user;
    gd__text_add(r->out, number ? ", {" : "{");
    gd__json_put_string(r->out, "text", f->item->text);
    gd__json_put_string(r->out, "option", f->item->option);
    gd__json_put_string(r->out, "kind", f->equal ? "equal" : "below");
    put_array(r->out, "values", f->value, f->count);
    gd__json_put_number(r->out, "violation", f->violation);
    if (f->multiplier) put_active(r->out, f, r->tolerance);
    if (f->multiplier) put_array(r->out, "multipliers", f->multiplier, f->count);
    if (f->multiplier && r->slopes) put_slopes(r, f);
    gd__text_char(r->out, '}');
}

/* All multipliers of a side as one array. */
static void put_side(void *user, const gd_constraint_state *f, int number)
{
    const report *r = user;
    (void)number;
    if (f->equal != r->equal || !f->multiplier) return;
    for (int64_t i = 0; i < f->count; i++) {
        if (f->before + i) gd__text_char(r->out, ',');
        gd__json_number(r->out, f->multiplier[i]);
    }
}

gd_status gd__constraints_json(const gd_problem *p, const gd_tensor *multipliers, const double *sensitivities,
                               double tolerance, gd_text *out)
{
    report r = {.out = out, .problem = p, .tolerance = tolerance, .equal = true, .slopes = sensitivities};
    r.rows = multipliers ? gd_numel(multipliers) : 0;
    gd__json_key(out, "multipliers");
    gd__text_add(out, "{\"equal\": [");
    gd_status status = gd__constraints_visit(p, multipliers, put_side, &r);
    gd__text_add(out, "], \"below\": [");
    r.equal = false;
    if (!status) status = gd__constraints_visit(p, multipliers, put_side, &r);
    gd__text_add(out, "]}");
    gd__json_key(out, "constraints");
    gd__text_char(out, '[');
    if (!status) status = gd__constraints_visit(p, multipliers, put_object, &r);
    gd__text_char(out, ']');
    return status;
}

/* A line per element of the constraint and parameter; of parameters with many elements none. */
static void put_slope_lines(const report *r, const gd_constraint_state *f)
{
    for (int64_t k = 0; k < f->count; k++)
        for (int64_t at = 0, i = 0; i < r->problem->params; i++) {
            int64_t size = gd_numel(r->problem->value[i]);
            for (int64_t e = 0; e < size && size <= 12; e++)
                gd__text_put(r->out, "%s%s %.7g", e ? "" : "  moves ", e ? "" : r->problem->name[i],
                             r->slopes[(at + e) * r->rows + f->first + k]);
            if (size && size <= 12) gd__text_put(r->out, " per unit of its right-hand side\n");
            at += size;
        }
}

static void put_line(void *user, const gd_constraint_state *f, int number)
{
    const report *r = user;
    (void)number;
    gd__text_put(r->out, "multiplier%s of --%s '%s':", f->count == 1 ? "" : "s", f->item->option,
                 f->item->text);
    for (int64_t i = 0; i < f->count && f->multiplier; i++) gd__text_put(r->out, " %.7g", f->multiplier[i]);
    if (!f->multiplier) gd__text_add(r->out, " not known");
    if (f->violation > r->tolerance) gd__text_put(r->out, "; violated by %.3g", f->violation);
    gd__text_char(r->out, '\n');
    if (f->multiplier && r->slopes) put_slope_lines(r, f);
}

gd_status gd__constraints_print(const gd_problem *p, const gd_tensor *multipliers,
                                const double *sensitivities, double tolerance, gd_text *out)
{
    report r = {.out = out, .problem = p, .tolerance = tolerance, .slopes = sensitivities};
    r.rows = multipliers ? gd_numel(multipliers) : 0;
    return gd__constraints_visit(p, multipliers, put_line, &r);
}

/* ---- multipliers of bounds ---- */

/* The multipliers as numbers, one per element of the parameters; NULL if they are not known, or with an error. */
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

#define LINES 20 /* of bounds that hold an element */

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
