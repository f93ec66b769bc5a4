/* Backtracking: shrinks the step until the condition holds (Armijo 1966).
 *
 * adaptive: after a failed search the next step continues from its last step size; after a success it starts at init again.
 * Conditions on the slope at the trial cost a gradient there; the others only a value.  Along an update that points uphill
 * any decrease is good enough, unless descent: then the search is along a direction that points downhill (line.h).
 *
 * State: step, where the next search starts. */
#include "gradus/link/line.h"

#include <math.h>

#define CONDITIONS "armijo|decrease|curvature|strong_curvature|wolfe|strong_wolfe|goldstein"

static const gd_field fields[] = {
    GD_REAL("init", 1, 0, INFINITY, "first step size"),
    GD_REAL("beta", 0.5, 0, 1, "factor of each try"),
    GD_REAL("c", 1e-4, 0, 1, "share of the promised decrease to reach"),
    GD_CHOICE("condition", "armijo", CONDITIONS, "when a step is good enough"),
    GD_INT("maxiter", 10, 1, 1e6, "tries in a step"),
    GD_FLAG("adaptive", true, "after a failure continue to shrink in the next step"),
    GD_LINE_DESCENT,
};

static const gd_field adaptive_fields[] = {
    GD_REAL("init", 1, 0, INFINITY, "first step size"),
    GD_REAL("beta", 0.5, 0, 1, "factor of each try"),
    GD_REAL("c", 1e-4, 0, 1, "share of the promised decrease to reach"),
    GD_CHOICE("condition", "armijo", CONDITIONS, "when a step is good enough"),
    GD_INT("maxiter", 20, 1, 1e6, "tries in a step"),
    GD_REAL("target_iters", 1, 0, 1e6, "rejections that the next search should need"),
    GD_REAL("nplus", 2, 1, INFINITY, "growth of the first step after none was rejected"),
    GD_REAL("scale_beta", 0, 0, 1, "inertia of the first step"),
    GD_LINE_DESCENT,
};

typedef struct condition {
    bool armijo, decrease, curvature, strong, goldstein;
    double c;
} condition;

static condition condition_of(const gd_link *link)
{
    bool wolfe = gd_link_is(link, "condition", "wolfe"),
         strong_wolfe = gd_link_is(link, "condition", "strong_wolfe");
    bool strong = strong_wolfe || gd_link_is(link, "condition", "strong_curvature");
    return (condition){.armijo = wolfe || strong_wolfe || gd_link_is(link, "condition", "armijo"),
                       .decrease = gd_link_is(link, "condition", "decrease"),
                       .curvature = wolfe || strong || gd_link_is(link, "condition", "curvature"),
                       .strong = strong,
                       .goldstein = gd_link_is(link, "condition", "goldstein"),
                       .c = gd_link_real(link, "c", NULL)};
}

/* Slope conditions use 0.9, as for quasi-Newton steps (Nocedal & Wright 2006, 3.1). */
#define CURVATURE 0.9

static bool good(const condition *c, const gd_line *line, const gd_trial *t)
{
    double promise = t->a * fmin(line->slope, 0);
    bool yes = isfinite(t->f) && (line->slope < 0 || t->f < line->value);
    if (c->armijo) yes = yes && t->f <= line->value + c->c * promise;
    if (c->decrease) yes = yes && t->f < line->value;
    if (c->goldstein)
        yes = yes && t->f <= line->value + c->c * promise && t->f >= line->value + (1 - c->c) * promise;
    if (c->curvature && !c->strong) yes = yes && t->slope >= CURVATURE * line->slope;
    if (c->strong) yes = yes && fabs(t->slope) <= -CURVATURE * line->slope;
    return yes;
}

/* Tries a, a beta, ...; *accepted is 0 if none was good, *tried the number of tries, *next the step after the last. */
static gd_status shrink(gd_line *line, double a, double beta, int *tried, double *accepted, double *next)
{
    condition c = condition_of(line->link);
    int most = (int)gd_link_real(line->link, "maxiter", NULL);
    *accepted = 0;
    a = fmin(a, line->most);
    gd_status status = GD_OK;
    for (*tried = 0; *tried < most && *accepted == 0 && !status; (*tried)++) {
        gd_trial t = {.a = a, .slope = NAN};
        status = c.curvature ? gd_line_try(line, a, &t) : gd_line_value(line, a, &t.f);
        if (!status && good(&c, line, &t)) *accepted = a;
        a *= beta;
    }
    *next = a;
    return status;
}

static bool searchable(const gd_line *line) { return isfinite(line->value) && isfinite(line->slope); }

static gd_status backtracking_step(gd_link *link, gd_var *var)
{
    double init = gd_link_real(link, "init", NULL), accepted = 0, next = 0;
    int tried;
    gd_line *line = gd_line_begin(link, var);
    if (!line) return gd_error(gd_var_ctx(var));
    gd_status status = gd_link_flag(link, "descent") ? gd_line_descend(line) : GD_OK;
    if (!status && searchable(line)) {
        status = shrink(line, gd_link_kept(link, "step", init), gd_link_real(link, "beta", NULL), &tried,
                        &accepted, &next);
        bool go_on = gd_link_flag(link, "adaptive") && accepted == 0 && next > 0;
        if (!status) status = gd_link_keep(link, "step", go_on ? next : init);
    }
    return gd_line_end(line, accepted, status);
}

/* Where the next search starts: such that target_iters rejections lead to the step just found, counted from init.  After
 * a failure the tries shrink faster, by factors of 2/3, and recover by its root. */
static gd_status adapt(gd_link *link, double start, double beta, int rejected, bool found)
{
    double init = gd_link_real(link, "init", NULL), inertia = gd_link_real(link, "scale_beta", NULL);
    double target = gd_link_real(link, "target_iters", NULL), widest = gd_link_real(link, "beta", NULL);
    if (!found)
        beta *= 2.0 / 3;
    else {
        double aim = init * pow(beta, rejected - target);
        start = rejected == 0 ? start * pow(gd_link_real(link, "nplus", NULL), target)
                              : aim + inertia * (start - aim);
        beta = fmin(widest, beta * sqrt(1.5));
    }
    gd_status status = gd_link_keep(link, "step", start);
    return status ? status : gd_link_keep(link, "beta", beta);
}

static gd_status adaptive_step(gd_link *link, gd_var *var)
{
    double start = gd_link_kept(link, "step", gd_link_real(link, "init", NULL));
    double beta = gd_link_kept(link, "beta", gd_link_real(link, "beta", NULL)), accepted = 0, next = 0;
    int tried;
    gd_line *line = gd_line_begin(link, var);
    if (!line) return gd_error(gd_var_ctx(var));
    gd_status status = gd_link_flag(link, "descent") ? gd_line_descend(line) : GD_OK;
    if (!status && searchable(line)) {
        status = shrink(line, start, beta, &tried, &accepted, &next);
        if (!status) status = adapt(link, start, beta, tried - 1, accepted > 0);
    }
    return gd_line_end(line, accepted, status);
}

GD_LINK(line_search, backtracking,
    .spread = GD_SPREAD_VECTOR,
    .summary = "shrinks the step until the loss decreases enough",
    .formula = "a u with the first a = init beta^k such that f(p - a u) <= f(p) - c a <g, u>",
    .paper = "Armijo, Minimization of functions having Lipschitz continuous first partial derivatives, 1966",
    .cost =
        "1 evaluation per trial step without gradient, mostly one or two per step; a copy of the parameters",
    .example = "lbfgs | backtracking",
    GD_FIELDS(fields),
    .step = backtracking_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);

GD_LINK(line_search, adaptive_backtracking,
    .spread = GD_SPREAD_VECTOR,
    .summary = "backtracking that learns where to start",
    .formula = "as backtracking; the next search starts target_iters tries above what this one found",
    .cost =
        "1 evaluation per trial step without gradient, mostly one or two per step; a copy of the parameters",
    .example = "lbfgs | adaptive_backtracking",
    GD_FIELDS(adaptive_fields),
    .step = adaptive_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);
