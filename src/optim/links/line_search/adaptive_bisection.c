/* Adaptive bisection: from where the last search ended the step grows while the loss falls, or shrinks until it does and then
 * while the loss keeps falling.  Values only.  The lowest point is taken.
 *
 * adaptive: the next search starts at the step found, or where this one gave up; otherwise each starts at init.
 * State: step, where the next search starts. */
#include "gradus/link/line.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("init", 1, 0, INFINITY, "first step size"),
    GD_REAL("nplus", 2, 1, INFINITY, "factor of longer steps"),
    GD_REAL("nminus", 0.5, 0, 1, "factor of shorter steps"),
    GD_INT("maxiter", 10, 1, 1e6, "longer or shorter steps tried"),
    GD_FLAG("adaptive", true, "start where the last search ended"),
    GD_LINE_DESCENT,
};

/* Tries a, then longer or shorter ones; *last is the last that was tried or taken. */
static gd_status bisect(gd_line *line, double a, double *last)
{
    double f = 0, next = 0;
    int most = (int)gd_link_real(line->link, "maxiter", NULL);
    gd_status status = gd_line_value(line, a, &f);
    double factor = gd_link_real(line->link, f < line->value ? "nplus" : "nminus", NULL);
    *last = a;
    for (int i = 0; i < most && !status; i++) {
        status = gd_line_value(line, a * factor, &next);
        if (status || (f < line->value && !(next < f))) break;
        *last = a *= factor;
        f = next;
    }
    return status;
}

static gd_status adaptive_bisection_step(gd_link *link, gd_var *var)
{
    double init = gd_link_real(link, "init", NULL), last = 0, accepted = 0;
    gd_line *line = gd_line_begin(link, var);
    if (!line) return gd_error(gd_var_ctx(var));
    gd_status status = gd_link_flag(link, "descent") ? gd_line_descend(line) : GD_OK;
    if (!status && isfinite(line->value) && isfinite(line->slope)) {
        status = bisect(line, gd_link_kept(link, "step", init), &last);
        if (line->best.f < line->value) accepted = line->best.a;
        bool go_on = gd_link_flag(link, "adaptive") && last > 0 && isfinite(last);
        if (!status) status = gd_link_keep(link, "step", go_on ? accepted > 0 ? accepted : last : init);
    }
    return gd_line_end(line, accepted, status);
}

GD_LINK(line_search, adaptive_bisection,
    .spread = GD_SPREAD_VECTOR,
    .summary = "doubles or halves the last step while the loss falls",
    .formula = "a u with the lowest f(p - a u) of a nplus^k, or of a nminus^k where f(p - a u) >= f(p)",
    .cost = "1 evaluation per trial step without gradient, two or three per step; a copy of the parameters",
    .example = "lbfgs | adaptive_bisection",
    GD_FIELDS(fields),
    .step = adaptive_bisection_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);
