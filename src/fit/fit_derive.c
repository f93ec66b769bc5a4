/* Quantities derived from fitted parameters, --derive 'thalf=log(2)/b': value and standard error to first order,
 * sqrt(g' C g) with the gradient g by the parameters and their covariance C. */
#include "base/text/ascii.h"
#include "expr/expr_advice.h"
#include "fit/fit_job.h"
#include "gradus/autograd.h"

#include <math.h>
#include <string.h>

/* The gradient by all elements of the parameters, 0 for those it does not depend on. */
static gd_status gradient(gd_fit *j, gd_expr *e, gd_tensor *value, double *g)
{
    int64_t at = 0;
    for (int i = 0; i < j->params; at += gd_numel(j->param[i++])) {
        gd_tensor *grad = NULL;
        if (!gd_expr_uses(e, i)) continue;
        gd_status status = gd_grad(value, NULL, &j->param[i], 1, GD_RETAIN_GRAPH, &grad);
        if (!status && grad) status = gd_read_f64(grad, g + at, gd_numel(grad));
        if (status) return status;
    }
    return GD_OK;
}

/* Its value at the parameters, one number; in the innermost scope. */
static gd_tensor *value_of(gd_fit *j, gd_expr *e, const gd_derived *d)
{
    for (int i = 0; i < j->params; i++) j->value[i] = j->param[i];
    gd_tensor *value = gd_expr_eval(e, j->value, GD_F64);
    if (value && gd_numel(value) != 1) {
        (void)gd_fail(j->ctx, GD_ARGUMENT, "{derive} %.60s: %lld numbers, one is wanted", d->name,
                      (long long)gd_numel(value));
        return NULL;
    }
    return value;
}

static gd_status derive(gd_fit *j, gd_derived *d, double *g)
{
    memset(g, 0, (size_t)j->element.count * sizeof *g);
    gd_expr *e = gd__fit_parse(j, "derive", d->text, j->name, j->names);
    if (!e) return gd_error(j->ctx);
    gd_scope_begin(j->ctx);
    gd_tensor *value = value_of(j, e, d);
    gd_status status = value ? GD_OK : gd_error(j->ctx);
    if (!status) d->value = gd_item(value);
    if (!status && gd_requires_grad(value)) status = gradient(j, e, value, g);
    gd_scope_end(j->ctx);
    gd_expr_free(e);
    if (!status)
        d->error = j->fit.covariance ? gd__fit_error(gd_data(j->fit.covariance), j->element.count, g) : NAN;
    return status;
}

/* Errors of the expression are reported before the fit, not after it. */
static gd_status check_derived(gd_fit *j, const gd_derived *d)
{
    gd_expr *e = gd__fit_parse(j, "derive", d->text, j->name, j->names);
    if (!e) return gd_error(j->ctx);
    gd_status status = gd__expr_refuse_truth(
        j->ctx, "derive", e, "the value is true or false, whose standard error would say nothing");
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv) && !status; i++)
        if (gd_expr_uses(e, i))
            status = gd_fail(j->ctx, GD_ARGUMENT, "{derive} %.60s: '%.60s' is a column; parameters only",
                             d->name, j->name[i]);
    gd_scope_begin(j->ctx);
    if (!status && !value_of(j, e, d)) status = gd_error(j->ctx);
    gd_scope_end(j->ctx);
    gd_expr_free(e);
    return status;
}

/* The tied ones of the parameters. */
static gd_status read_tied(gd_fit *j)
{
    for (int i = 0; i < j->spec.param_count; i++) {
        const gd_fit_param *p = &j->spec.params[i];
        if (!p->tied) continue;
        if (j->derived_count == GD_FIT_DERIVED)
            return gd_fail(j->ctx, GD_ARGUMENT, "{tied}: more than %d", GD_FIT_DERIVED);
        gd_derived *d = &j->derived[j->derived_count];
        *d = (gd_derived){.name = p->name, .text = p->tied};
        gd_status status = check_derived(j, d);
        if (status) return status;
        j->derived_count++;
    }
    return GD_OK;
}

/* "half = ...": the name without the blanks around it. */
static size_t name_of(const char **spec, const char *equals)
{
    const char *end = equals;
    while (*spec < end && gd__is_space(**spec)) ++*spec;
    while (end > *spec && gd__is_space(end[-1])) end--;
    return (size_t)(end - *spec);
}

gd_status gd__fit_read_derived(gd_fit *j)
{
    gd_status tied = read_tied(j);
    if (tied) return tied;
    for (const char *const *each = j->spec.derive; each && *each; each++) {
        const char *spec = *each, *equals = strchr(spec, '=');
        size_t before = equals ? name_of(&spec, equals) : 0;
        if (!before || equals[1] == '=' || !equals[1])
            return gd_fail(j->ctx, GD_ARGUMENT, "{derive}: NAME=EXPRESSION expected, '%.60s' found", spec);
        if (j->derived_count == GD_FIT_DERIVED)
            return gd_fail(j->ctx, GD_ARGUMENT, "{derive}: more than %d", GD_FIT_DERIVED);
        gd_derived *d = &j->derived[j->derived_count];
        *d = (gd_derived){.name = gd__intern(j->ctx, spec, before), .text = equals + 1};
        if (!d->name) return GD_NOMEM;
        bool again = false;
        for (int i = 0; i < j->params; i++) again = again || j->name[i] == d->name;
        for (int i = 0; i < j->derived_count; i++) again = again || j->derived[i].name == d->name;
        if (again) return gd_fail(j->ctx, GD_ARGUMENT, "{derive}: '%.60s' is there already", d->name);
        gd_status status = check_derived(j, d);
        if (status) return status;
        j->derived_count++;
    }
    return GD_OK;
}

gd_status gd__fit_derive(gd_fit *j)
{
    size_t bytes = (size_t)j->element.count * sizeof(double);
    double *g = j->derived_count ? gd__alloc(j->ctx, bytes) : NULL;
    gd_status status = j->derived_count && !g ? GD_NOMEM : GD_OK;
    for (int i = 0; i < j->derived_count && !status; i++) status = derive(j, &j->derived[i], g);
    gd__free(j->ctx, g, bytes);
    return status;
}
