/* Constraints; see constraints.h. */
#include "problem/constraints.h"
#include "base/spelling.h"

#include "base/trouble.h"
#include "expr/expr_advice.h"
#include "gradus/autograd.h"

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

/* An operator that contradicts its option: the error says what to write. */
static gd_status contradicts(const gd_problem *p, const gd_expr *e, const char *option, const char *text,
                             const gd_expr_relation *r)
{
    bool equality = r->sign == '=';
    char words[200];
    (void)snprintf(words, sizeof words, "'%s' is an %s; write %s '%.100s'", r->words,
                   equality ? "equality" : "inequality",
                   gd__setting_of(p->ctx, r->count > 1 ? "subject"
                                          : equality   ? "equal"
                                                       : "below"),
                   text);
    gd__expr_fail_at(e, r->at, words);
    gd__expr_blame(p->ctx, option, "");
    return gd_error(p->ctx);
}

static gd_status check(const gd_problem *p, const gd_expr *e, const char *option, const char *text,
                       const gd_expr_relation *r)
{
    bool equal = !strcmp(option, "equal"), below = !strcmp(option, "below"), any = false;
    if (!r->count) {
        gd_status status = gd__expr_refuse_truth(p->ctx, option, e, NO_CONSTRAINT);
        if (status) return status;
    }
    if (!r->count && !equal && !below)
        return gd_fail(p->ctx, GD_PARSE, "%s '%.60s': there is no comparison in it; <=, >= or = expected",
                       gd__setting_of(p->ctx, option), text);
    if (r->count && (r->sign == '=' ? below : equal)) return contradicts(p, e, option, text, r);
    for (int i = 0; i < p->params; i++) any = any || gd_expr_uses(e, i);
    if (any) return GD_OK;
    return gd_fail(p->ctx, GD_ARGUMENT, "%s '%.60s': no parameter is in it: nothing can change it",
                   gd__setting_of(p->ctx, option), text);
}

/* Errors name the option.  A count of comparisons is refused, as it has no slope. */
static gd_status try_once(const gd_problem *p, gd_expr *e, const char *option, const char *text)
{
    gd_status status = GD_OK;
    gd_scope_begin(p->ctx);
    gd_tensor *v = gd_expr_eval(e, p->value, p->spec.dtype);
    if (!v) {
        gd__expr_blame(p->ctx, option, "");
        status = gd_error(p->ctx);
    } else if (!gd_requires_grad(v)) {
        status = gd_fail(
            p->ctx, GD_ARGUMENT,
            "%s '%.60s': it has no derivative by any parameter; write it without comparisons inside",
            gd__setting_of(p->ctx, option), text);
    }
    gd_scope_end(p->ctx);
    return status;
}

/* One relation of a text, or a text without relations. */
static gd_status read_part(gd_problem *p, const char *option, const char *text, gd_expr_relation *r, int part)
{
    gd_expr *e = gd__problem_relation(p, option, text, part, r);
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
    return add_constraint(p->ctx, is_equal ? &p->equal : &p->below, item);
}

static gd_status read_list(gd_problem *p, const char *option, const gd_words *texts)
{
    gd_status status = GD_OK;
    for (int i = 0; texts && i < texts->count && !status; i++) {
        gd_expr_relation r = {0};
        int part = 0;
        do status = read_part(p, option, texts->word[i], &r, part);
        while (!status && ++part < r.count);
    }
    return status;
}

gd_status gd__problem_read_constraints(gd_problem *p)
{
    gd_status status = read_list(p, "equal", p->spec.equal);
    if (!status) status = read_list(p, "below", p->spec.below);
    return status ? status : read_list(p, "subject", p->spec.subject);
}

static void free_list(gd_ctx *ctx, gd_constraints *c)
{
    for (int i = 0; i < c->count; i++) {
        gd_expr_free(c->item[i].expr);
        gd__strfree(ctx, c->item[i].text);
    }
    gd__free(ctx, c->item, c->bytes);
    *c = (gd_constraints){0};
}

void gd__problem_free_constraints(gd_problem *p)
{
    free_list(p->ctx, &p->equal);
    free_list(p->ctx, &p->below);
}

/* ---- values ---- */

/* All elements of one as a vector. */
static gd_tensor *values_of(const gd_problem *p, const gd_constraint *item)
{
    gd_tensor *v = gd_expr_eval(item->expr, p->value, p->spec.dtype);
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

/* ---- values at the end ---- */

static double violation_of(const gd_constraint_state *f)
{
    double most = 0;
    for (int64_t i = 0; i < f->count; i++) {
        double v = f->equal ? fabs(f->value[i]) : f->value[i];
        most = isnan(v) ? INFINITY : fmax(most, v);
    }
    return most;
}

/* The constraint with its values, and of the multipliers those from *at on. */
static gd_status visit(const gd_problem *p, const gd_tensor *multipliers, gd_constraint_state *f, int64_t *at,
                       gd_constraint_visitor fn, void *user, int number)
{
    gd_ctx *ctx = p->ctx;
    int64_t all = multipliers ? gd_numel(multipliers) : 0;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *v = values_of(p, f->item);
    gd_no_grad_end(ctx);
    f->count = v ? gd_numel(v) : 0;
    bool known = v && *at + f->count <= all;
    size_t numbers = (size_t)f->count + (size_t)all + 1;
    f->value = gd__alloc_array(ctx, numbers, sizeof *f->value);
    gd_status status = !v ? gd_error(ctx) : f->value ? gd_read_f64(v, f->value, f->count) : GD_NOMEM;
    if (!status && known) status = gd_read_f64(multipliers, f->value + f->count, all);
    gd_scope_end(ctx);
    if (!status) {
        f->first = *at;
        f->multiplier = known ? f->value + f->count + *at : NULL;
        f->violation = violation_of(f);
        *at += f->count;
        fn(user, f, number);
    }
    if (f->value) gd__free(ctx, f->value, numbers * sizeof *f->value);
    return status;
}

gd_status gd__constraints_visit(const gd_problem *p, const gd_tensor *multipliers, gd_constraint_visitor fn,
                                void *user)
{
    gd_status status = GD_OK;
    int64_t at = 0;
    int number = 0;
    for (int side = 0; side < 2; side++) {
        const gd_constraints *c = side ? &p->below : &p->equal;
        int64_t begin = at;
        for (int i = 0; i < c->count && !status; i++) {
            gd_constraint_state f = {.item = &c->item[i], .equal = !side, .before = at - begin};
            status = visit(p, multipliers, &f, &at, fn, user, number++);
        }
    }
    return status;
}

/* The first constraint that is not finite. */
static void find_bad(void *user, const gd_constraint_state *f, int number)
{
    gd_constraint_state *bad = user;
    (void)number;
    for (int64_t i = 0; i < f->count && !bad->item; i++)
        if (!isfinite(f->value[i])) *bad = (gd_constraint_state){.item = f->item, .violation = f->value[i]};
}

gd_status gd__constraints_explain(const gd_problem *p, gd_status failed)
{
    gd_constraint_state bad = {.item = NULL};
    gd_trouble why = {.status = GD_OK};
    if (gd_error(p->ctx) != GD_VALUE || !gd__problem_is_constrained(p)) return failed;
    gd__put_aside(p->ctx, failed, &why);
    gd_status status = gd__constraints_visit(p, NULL, find_bad, &bad);
    if (!status && bad.item)
        return gd_fail(p->ctx, GD_VALUE,
                       "%s '%.200s': it is %s where the parameters start; start elsewhere, or bound them",
                       gd__setting_of(p->ctx, bad.item->option), bad.item->text,
                       isnan(bad.violation) ? "not a number" : "infinite");
    if (status) gd_clear_error(p->ctx);
    return gd__tell(p->ctx, &why, NULL, NULL);
}
