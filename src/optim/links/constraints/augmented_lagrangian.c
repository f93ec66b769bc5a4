/* Augmented Lagrangian: constraints for a chain without them (Hestenes 1969; Powell 1969; Rockafellar 1973).
 *
 * With h = 0 and g <= 0 the constraints of the objective, l and m their multipliers and r the penalty, inner minimises
 *
 *     f + l h + r/2 |h|^2 + (|max(0, m + r g)|^2 - |m|^2) / (2 r)
 *
 * A step is a step of inner.  If the residual of this function is at most w, or inner is stuck: l += r h, m = max(0, m + r g);
 * r becomes ten times as large only where the violation did not fall to half of what it was then; w a tenth of its value. Inner
 * restarts: no pair of a quasi-Newton link spans two functions.  f and every constraint are divided by the largest element of their
 * gradient at the start, at least 1.  If no constraint is violated, and none that has a multiplier is left, by more than tol, and
 * the residual of the Lagrangian is at most tol max(1, |f|), nothing moves any more. The residual must be small compared with |f| / |x|
 * too: far out on a slope |f| is large without a minimum near.
 *
 * Bounds are a `box` inside inner. Without constraints the link does the same as inner.  The attribute `multipliers` of the optimizer has l, then
 * m >= 0, of the constraints as they were given: the gradient of f is - l grad h - m grad g at the solution.
 *
 * State: multipliers, scales, penalty, w, the violation at the last change. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_CHILD_NEEDED("inner", "the chain that minimises"),
    GD_REAL("tol", 1e-6, 0, INFINITY, "violation and residual that are small enough"),
    GD_REAL("penalty", 10, 1e-12, 1e12, "first penalty"),
    GD_REAL("max_penalty", 1e9, 1e-12, 1e15,
            "largest penalty: where it does not help the constraints are infeasible"),
};

#define FIRST_W 0.1  /* residual of the first function that is small enough */
#define MOST    1e12 /* of a multiplier */
#define FLAT \
    1e-4 /* of the loss, at most, that a change of all parameters by themselves would make at a solution */

/* The constraints at a point, scaled, with their residuals. */
typedef struct state {
    gd_link *link;
    gd_var *var;
    gd_tensor *multipliers, *scales; /* [equal + below]; [1 + equal + below] */
    int64_t equal, below;
    double penalty;
} state;

/* ---- scales ---- */

/* The largest element of the gradient of a number, at least 1. */
static double slope_of(gd_var *var, gd_tensor *number, gd_tensor **grads)
{
    double most = 1;
    if (!gd_requires_grad(number)) return 1;
    if (gd_grad(number, NULL, gd_var_params(var), gd_var_count(var), GD_RETAIN_GRAPH, grads)) return NAN;
    return gd_list_norm(grads, gd_var_count(var), INFINITY, &most) ? NAN : isfinite(most) ? fmax(most, 1) : 1;
}

static gd_status scales_of(state *s, double *scale)
{
    gd_var *var = s->var;
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *const *grad = gd_var_grad(var), *c[2];
    gd_tensor **grads = gd_link_scratch(s->link, gd_var_count(var));
    if (!grad || !grads || gd_list_norm(grad, gd_var_count(var), INFINITY, &scale[0])) return gd_error(ctx);
    scale[0] = isfinite(scale[0]) ? fmax(scale[0], 1) : 1;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_status status = gd_var_constraints(var, &c[0], &c[1]);
    int64_t at = 1;
    for (int k = 0; k < 2 && !status; k++)
        for (int64_t i = 0; c[k] && i < gd_numel(c[k]); i++)
            scale[at++] = slope_of(var, gd_index(c[k], "0", i), grads);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status ? status : gd_error(ctx);
}

/* State from step to step, made at the first step. */
static gd_status open_state(state *s, gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *c[2];
    *s = (state){.link = link, .var = var};
    gd_no_grad_begin(ctx);
    gd_status status = gd_var_constraints(var, &c[0], &c[1]);
    gd_no_grad_end(ctx);
    if (status) return status;
    s->equal = c[0] ? gd_numel(c[0]) : 0;
    s->below = c[1] ? gd_numel(c[1]) : 0;
    int64_t n = s->equal + s->below, more = n + 1;
    s->multipliers = gd_link_global_tensor(link, "multipliers");
    s->scales = gd_link_global_tensor(link, "scales");
    s->penalty = fmin(gd_link_kept(link, "current_penalty", gd_link_real(link, "penalty", NULL)),
                      gd_link_real(link, "max_penalty", NULL));
    bool fits = s->multipliers && s->scales && gd_numel(s->multipliers) == n && gd_numel(s->scales) == more;
    if (fits || !n) return GD_OK;
    double *scale = gd_link_memory(link, (size_t)more * sizeof *scale);
    status = scale ? scales_of(s, scale) : gd_error(ctx);
    gd_tensor *zeros = gd_zeros(ctx, GD_F64, 1, &n),
              *scales = status ? NULL : gd_from_f64(ctx, GD_F64, 1, &more, scale);
    if (!status)
        status = zeros && scales ? gd_link_set_global_tensor(link, "multipliers", zeros) : gd_error(ctx);
    if (!status) status = gd_link_set_global_tensor(link, "scales", scales);
    s->multipliers = gd_link_global_tensor(link, "multipliers");
    s->scales = gd_link_global_tensor(link, "scales");
    return status;
}

/* ---- the function ---- */

/* A piece of a vector of numbers, as the tensor `like` has them. */
static gd_tensor *piece(gd_tensor *v, int64_t from, int64_t count, const gd_tensor *like)
{
    return gd_to_device(gd_cast(gd_slice(v, "0", from, from + count, 1), gd_tensor_dtype(like)),
                        gd_tensor_device(like));
}

/* The constraints as vectors of the scaled problem; NULL if there are none. */
static gd_status scaled(const state *s, gd_tensor **h, gd_tensor **g)
{
    gd_status status = gd_var_constraints(s->var, h, g);
    if (!status && *h) *h = gd_div(*h, piece(s->scales, 1, s->equal, *h));
    if (!status && *g) *g = gd_div(*g, piece(s->scales, 1 + s->equal, s->below, *g));
    return status ? status : gd_error(gd_var_ctx(s->var));
}

static gd_tensor *sum_of(gd_tensor *x) { return gd_sum(x, NULL, false); }

/* l h + r/2 |h|^2 + (|max(0, m + r g)|^2 - |m|^2) / (2 r) */
static gd_tensor *penalty_term(void *user)
{
    const state *s = user;
    double r = s->penalty;
    gd_tensor *h, *g, *term = NULL;
    if (scaled(s, &h, &g)) return NULL;
    if (h) {
        gd_tensor *l = piece(s->multipliers, 0, s->equal, h);
        term = sum_of(gd_add(gd_mul(l, h), gd_mul_scalar(gd_square(h), r / 2)));
    }
    if (g) {
        gd_tensor *m = piece(s->multipliers, s->equal, s->below, g),
                  *over = gd_relu(gd_add(m, gd_mul_scalar(g, r)));
        gd_tensor *part = gd_mul_scalar(sum_of(gd_sub(gd_square(over), gd_square(m))), 1 / (2 * r));
        term = term ? gd_add(term, part) : part;
    }
    return term;
}

static gd_status scale_of_loss(const state *s, double *f)
{
    gd_tensor *first = gd_slice(s->scales, "0", 0, 1, 1);
    return first ? gd_read_f64(first, f, 1) : gd_error(gd_var_ctx(s->var));
}

/* A var for the function, without evaluations yet. */
static gd_var *wrapped(state *s)
{
    gd_var *clone = gd_var_clone(s->var, false, s->var);
    double f;
    if (!clone) return NULL;
    gd_var_set_loss(clone, NULL);
    gd_var_set_loss_approx(clone, NULL);
    gd_status status = gd_var_set_grad(clone, NULL);
    if (!status) status = gd_var_set_update(clone, NULL);
    if (!status) status = scale_of_loss(s, &f);
    if (!status) status = gd_var_add_term(clone, 1 / f, penalty_term, s);
    if (!status) return clone;
    gd_var_free(clone);
    return NULL;
}

/* ---- multipliers ---- */

/* The values of the constraints at this point. */
typedef struct look {
    double violation; /* as they were given */
    double gap;       /* max(|h|, |max(g, -m/r)|), the same */
    double progress;  /* and scaled */
} look;

/* l + r h, and max(0, m + r g); the largest violation. */
static gd_status estimate(const state *s, double *value, look *out)
{
    gd_ctx *ctx = gd_var_ctx(s->var);
    int64_t n = s->equal + s->below;
    gd_tensor *c[2];
    *out = (look){0};
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_status status = scaled(s, &c[0], &c[1]);
    double *here = gd_link_memory(s->link, 2 * (size_t)(n + 1) * sizeof *here),
           *scale = here ? here + n : NULL;
    if (!here) status = gd_error(ctx);
    if (!status && c[0]) status = gd_read_f64(c[0], here, s->equal);
    if (!status && c[1]) status = gd_read_f64(c[1], here + s->equal, s->below);
    if (!status) status = gd_read_f64(s->multipliers, value, n);
    if (!status) status = gd_read_f64(s->scales, scale, n + 1);
    for (int64_t i = 0; i < n && !status; i++) {
        double c_i = here[i], before = value[i];
        bool equal = i < s->equal;
        double part = equal ? fabs(c_i) : fabs(fmax(c_i, -before / s->penalty));
        value[i] = before + s->penalty * c_i;
        value[i] = fmin(fmax(value[i], equal ? -MOST : 0), MOST);
        if (!(part <= out->progress)) out->progress = part;
        if (!(part * scale[i + 1] <= out->gap)) out->gap = part * scale[i + 1];
        double over = (equal ? fabs(c_i) : c_i) * scale[i + 1];
        if (!(over <= out->violation)) out->violation = over;
    }
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

/* The estimates become the multipliers; the penalty grows where the violation did not fall enough. */
static gd_status next_function(state *s, const double *value, const look *now, bool *infeasible)
{
    gd_link *link = s->link;
    int64_t n = s->equal + s->below;
    double before = gd_link_kept(link, "last_progress", INFINITY),
           most = gd_link_real(link, "max_penalty", NULL);
    double w = gd_link_kept(link, "w", FIRST_W), tol = gd_link_real(link, "tol", NULL), least = 1e-3 * tol;
    gd_tensor *t = gd_from_f64(gd_var_ctx(s->var), GD_F64, 1, &n, value);
    gd_status status = t ? gd_link_set_global_tensor(link, "multipliers", t) : gd_error(gd_var_ctx(s->var));
    s->multipliers = gd_link_global_tensor(link, "multipliers");
    bool slow = now->progress > 0.5 * before && now->progress > tol;
    *infeasible = slow && s->penalty >= most && now->violation > tol;
    if (slow) s->penalty = fmin(10 * s->penalty, most);
    if (!status) status = gd_link_keep(link, "current_penalty", s->penalty);
    if (!status) status = gd_link_keep(link, "last_progress", now->progress);
    if (!status) status = gd_link_keep(link, "w", fmax(0.1 * w, least));
    if (slow)
        gd_link_reset(gd_link_child(link, "inner"));
    else
        gd_link_reset_for_online(gd_link_child(link, "inner"));
    return status;
}

/* Publishes the multipliers of the constraints as the user gave them, without scales. */
static gd_status publish(state *s, const double *value)
{
    int64_t n = s->equal + s->below;
    double *out = gd_link_memory(s->link, (2 * (size_t)n + 1) * sizeof *out), *scale = out ? out + n : NULL;
    gd_status status = out ? gd_read_f64(s->scales, scale, n + 1) : gd_error(gd_var_ctx(s->var));
    for (int64_t i = 0; i < n && !status; i++) out[i] = value[i] * scale[0] / scale[i + 1];
    gd_tensor *t = status ? NULL : gd_from_f64(gd_var_ctx(s->var), GD_F64, 1, &n, out);
    if (!status && !t) status = gd_error(gd_var_ctx(s->var));
    return status ? status : gd_var_set_attr_tensor(s->var, "multipliers", t);
}

/* ---- the step ---- */

static gd_status inner_step(state *s, gd_var *clone)
{
    gd_status status = gd_link_step(gd_link_child(s->link, "inner"), clone);
    if (!status) status = gd_var_take_update(s->var, clone);
    return status ? status : gd_link_keep(s->link, "failed", gd_var_failed(s->var));
}

static gd_status constrained_step(state *s)
{
    gd_ctx *ctx = gd_var_ctx(s->var);
    gd_link *link = s->link;
    look now = {0};
    bool infeasible = false;
    double *value = gd_link_memory(link, (size_t)(s->equal + s->below + 1) * sizeof *value), f = 1;
    gd_var *clone = value ? wrapped(s) : NULL;
    if (!clone) return gd_error(ctx);
    double kkt = gd_var_kkt(clone), tol = gd_link_real(link, "tol", NULL);
    gd_status status = gd_error(ctx);
    if (!status) status = estimate(s, value, &now);
    if (!status) status = publish(s, value);
    if (!status) status = scale_of_loss(s, &f);
    double loss = fmax(1, fabs(gd_var_loss_value(s->var, false))), size = 0;
    if (!status) status = gd_error(ctx);
    if (!status) status = gd_list_norm(gd_var_params(s->var), gd_var_count(s->var), INFINITY, &size);
    bool small = kkt * f <= tol * loss && kkt * f * size <= fmax(FLAT, tol) * loss;
    bool done = now.gap <= tol && small, first = !gd_link_has_global(link, "failed");
    bool next = !first && (kkt <= gd_link_kept(link, "w", FIRST_W) || gd_link_kept(link, "failed", 0) != 0);
    if (!status && next && !done) {
        gd_var_free(clone);
        status = next_function(s, value, &now, &infeasible);
        clone = status ? NULL : wrapped(s);
        if (!clone) return gd_error(ctx);
    }
    if (!status) status = done ? gd_var_set_zero_update(s->var) : inner_step(s, clone);
    gd_var_note_constraints(s->var, now.violation, tol, kkt * f, done, infeasible);
    gd_var_free(clone);
    return status;
}

static gd_status augmented_step(gd_link *link, gd_var *var)
{
    state s;
    gd_status status = open_state(&s, link, var);
    if (status) return status;
    if (s.equal + s.below) return constrained_step(&s);
    return gd_link_step(gd_link_child(link, "inner"), var);
}

GD_LINK(constraints, augmented_lagrangian,
    .spread = GD_SPREAD_WHOLE,
    .summary = "minimises under the constraints of the objective",
    .formula = "inner on f + l h + r/2 |h|^2 + (|max(0, m + r g)|^2 - |m|^2) / (2 r)",
    .paper = "Bertsekas, Constrained Optimization and Lagrange Multiplier Methods, 1982",
    .cost = "that of inner, with the constraints and their gradients at every evaluation",
    .example = "augmented_lagrangian([lbfgs | strong_wolfe])",
    GD_FIELDS(fields),
    .step = augmented_step,
    .traits.needs_closure = true);
