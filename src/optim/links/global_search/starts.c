/* A chain from several starts; the end is at the lowest point of all.
 *
 * A step is a step of inner.  If inner has got to a minimum (no element of the gradient, inside bounds of the way back into them,
 * is above tol), or no further (it says stop, fails twice in a row, the loss stays for some steps with gradients, its steps are used up), its
 * state is forgotten and the parameters go elsewhere; links after this one do not see that step.
 *
 *   multi_start     the given start, then n - 1 spread evenly between the bounds, around the start if there are none
 *   basin_hopping   a random step of at most `reach`, by the sizes of the elements, from the last minimum that was accepted: one
 *                   that is not higher, or with probability exp(-rise / temperature) one that is (Wales & Doye 1997).  reach
 *                   shrinks to 0.9 of itself where one is refused and grows again where one is accepted
 *
 * After the last one the parameters are at the lowest point, nothing moves any more, and the link says stop.
 *
 * Under constraints inner is a link that satisfies them, as augmented_lagrangian.  Inner is done where that link is: solved,
 * infeasible, or stuck.  Only points where inner is done are compared, by violation, then by loss; a start at which a constraint is
 * not finite is over at once.
 *
 * The attribute `solved` says at the end whether inner was solved at the best of them.
 *
 * State: start and best, with its multipliers; all starts but the first, or the accepted minimum; numbers. */
#include "gradus/autograd.h"
#include "gradus/link/search.h"

#include <math.h>
#include <string.h>

#define COMMON                                                                              \
    GD_REAL("tol", 1e-8, 0, INFINITY, "largest element of the gradient at a minimum"),      \
        GD_INT_OR_NONE("steps", 1, 1e15,                                                    \
                       "most steps of inner from a start; none: until it gets no further"), \
        GD_SEED("of its own random numbers; none: those of the context")

static const gd_field start_fields[] = {
    GD_CHILD_NEEDED("inner", "the chain that minimises"),
    GD_INT("n", 10, 1, 1e6, "starts, with the given one"),
    COMMON,
};

static const gd_field hop_fields[] = {
    GD_CHILD_NEEDED("inner", "the chain that minimises"),
    GD_INT("n", 100, 1, 1e15, "minima to look at"),
    GD_REAL("reach", 0.25, 0, 1e6, "largest first step of an element, by its size"),
    GD_REAL("temperature", 1, 0, INFINITY, "rise of the loss that is accepted once in e times"),
    COMMON,
};

#define STILL 5 /* steps in a row without a change of the loss */
#define FAILS 2 /* in a row */
#define FAILS_CONSTRAINED \
    3 /* augmented_lagrangian answers a failure with other multipliers, and tries again */

/* ---- is inner done here? ---- */

static gd_status count_in_a_row(gd_link *link, const char *name, bool happens, double *times)
{
    *times = happens ? gd_link_kept(link, name, 0) + 1 : 0;
    return gd_link_keep(link, name, *times);
}

/* The same loss as at the step before, within rounding. */
static bool stays(const gd_link *link, const gd_search *s, double loss)
{
    double last = gd_link_kept(link, "last_loss", NAN), eps = gd_vector_epsilon(gd_var_params(s->var)[0]);
    return fabs(loss - last) <= 4 * eps * fabs(loss);
}

/* After a step of inner; loss NAN: not known.  stop: inner said so. */
static gd_status is_done(gd_link *link, gd_search *s, double loss, bool stop, bool *done)
{
    double still = 0, fails = 0, steps = gd_link_kept(link, "inner_steps", 0) + 1;
    bool failed = gd_var_failed(s->var);
    /* without gradients many steps may find nothing lower; under constraints the loss and its gradient do not say when to stop */
    bool descends = gd_var_has_grad(s->var) && !s->constrained;
    gd_constraints_note note = {0};
    bool noted = s->constrained && gd_var_noted_constraints(s->var, &note);
    double kkt = descends ? gd_var_kkt(s->var) : NAN;
    gd_status status = count_in_a_row(link, "still", descends && stays(link, s, loss), &still);
    if (!status) status = count_in_a_row(link, "fails", failed, &fails);
    if (!status) status = gd_link_keep(link, "last_loss", loss);
    if (!status) status = gd_link_keep(link, "inner_steps", steps);
    bool limit = !gd_link_is_none(link, "steps") && steps >= gd_link_real(link, "steps", NULL);
    *done = stop || kkt <= gd_link_real(link, "tol", NULL) || still >= STILL || limit ||
            fails >= (s->constrained ? FAILS_CONSTRAINED : FAILS) ||
            (noted && (note.solved || note.infeasible || note.outcome)) ||
            (gd_var_has_loss(s->var) && !isfinite(loss));
    /* the learnt state may have misled inner */
    if (failed && !*done && !s->constrained) gd_link_reset(gd_link_child(link, "inner"));
    return status ? status : gd_error(gd_var_ctx(s->var));
}

static gd_status forget_inner(gd_link *link)
{
    gd_link_reset(gd_link_child(link, "inner"));
    gd_status status = gd_link_keep(link, "inner_steps", 0);
    if (!status) status = gd_link_keep(link, "still", 0);
    if (!status) status = gd_link_keep(link, "fails", 0);
    return status ? status : gd_link_keep(link, "last_loss", NAN);
}

/* ---- the step of both ---- */

/* Where to go from a point where inner is done (loss INFINITY: it violates constraints), as the number of starts so far says; out: n numbers. */
typedef gd_status (*next_fn)(gd_link *link, gd_search *s, double loss, double starts, double *out);

/* What differs between the two links. */
typedef struct kind {
    gd_status (*prepare)(gd_link *link, gd_search *s); /* at the first step */
    next_fn next;
} kind;

/* Under constraints: the point where inner is done is offered, with what belongs to it.  *loss becomes INFINITY where the point violates
 * constraints. */
static gd_status offer_end(gd_link *link, gd_search *s, double *loss)
{
    gd_constraints_note note;
    if (!s->constrained || !gd_var_noted_constraints(s->var, &note)) return GD_OK;
    gd_tensor *multipliers = gd_var_attr_tensor(s->var, "multipliers");
    bool taken = gd_search_offer_constrained(s, s->x, *loss, note.violation, note.tol);
    gd_status status = taken ? gd_link_keep(link, "best_kkt", note.kkt) : GD_OK;
    if (!status && taken) status = gd_link_keep(link, "best_solved", note.solved);
    if (!status && taken && multipliers)
        status = gd_link_set_global_tensor(link, "best_multipliers", multipliers);
    if (!status) status = gd_link_keep(link, "violation_tol", note.tol);
    if (!(note.violation <= note.tol)) *loss = INFINITY;
    return status;
}

/* Under constraints: what the step says is true of the best point, to which the parameters go. */
static gd_status note_best(gd_link *link, gd_search *s)
{
    gd_tensor *multipliers = gd_link_global_tensor(link, "best_multipliers");
    double tol = gd_link_kept(link, "violation_tol", 0);
    if (!s->constrained) return GD_OK;
    bool broken = !(s->best_violation <= tol), solved = gd_link_kept(link, "best_solved", 0) != 0;
    gd_var_note_constraints(s->var, s->best_violation, tol, gd_link_kept(link, "best_kkt", NAN), solved,
                            broken);
    gd_status status = gd_var_set_attr(s->var, "solved", solved);
    return status || !multipliers ? status : gd_var_set_attr_tensor(s->var, "multipliers", multipliers);
}

/* Inner is done at this point: on to the next, or to the lowest. */
static gd_status go_on(gd_link *link, gd_search *s, double loss, next_fn next)
{
    double starts = gd_link_kept(link, "starts", 0) + 1;
    double *to = gd_search_numbers(s, s->n);
    bool last = starts >= gd_link_real(link, "n", NULL);
    gd_status status = to ? GD_OK : gd_error(gd_var_ctx(s->var));
    if (!status) status = offer_end(link, s, &loss);
    if (!status) status = next(link, s, loss, starts, to);
    if (!status) status = forget_inner(link);
    if (!status) status = gd_link_keep(link, "starts", starts);
    if (!status) status = gd_var_set_attr(s->var, "starts", starts);
    if (!status && last) gd_var_terminate(s->var, true);
    if (!status && last) status = note_best(link, s);
    return status ? status : gd_search_jump(s, last ? s->best : to);
}

/* Loss at the start of the step as inner found it. Unknown if inner did not evaluate it and has moved the parameters itself. */
static gd_status loss_here(gd_search *s, double *loss)
{
    double *now = gd_search_numbers(s, s->n);
    int64_t at = 0;
    gd_status status = now ? gd_search_refresh(s) : gd_error(gd_var_ctx(s->var));
    for (int i = 0; i < gd_var_count(s->var) && !status; i++) {
        gd_tensor *p = gd_var_params(s->var)[i];
        status = gd_read_f64(p, now + at, gd_numel(p));
        at += gd_numel(p);
    }
    if (status) return status;
    bool stayed = !memcmp(now, s->x, (size_t)s->n * sizeof *now);
    *loss = gd_var_has_loss(s->var) || stayed ? gd_var_loss_value(s->var, false) : NAN;
    if (!s->constrained) gd_search_offer(s, s->x, *loss);
    return gd_error(gd_var_ctx(s->var));
}

/* A random start where a constraint is not a number cannot be used. At the given start this is the caller's mistake: inner reports it. */
static gd_status look_at_start(gd_link *link, gd_search *s, bool *hopeless)
{
    gd_tensor *side[2] = {NULL, NULL};
    *hopeless = false;
    if (!s->constrained || gd_link_kept(link, "starts", 0) == 0 || gd_link_kept(link, "inner_steps", 0) > 0)
        return GD_OK;
    gd_no_grad_begin(gd_var_ctx(s->var));
    gd_status status = gd_var_constraints(s->var, &side[0], &side[1]);
    gd_no_grad_end(gd_var_ctx(s->var));
    for (int k = 0; k < 2 && !status; k++) *hopeless = *hopeless || (side[k] && !gd_vector_finite(side[k]));
    if (*hopeless)
        gd_var_note_constraints(s->var, INFINITY, gd_link_kept(link, "violation_tol", 0), NAN, false, false);
    return status ? status : gd_error(gd_var_ctx(s->var));
}

static gd_status starts_step(gd_link *link, gd_var *var, gd_search *s, const kind *way)
{
    bool stop = false, done = false;
    double loss = NAN;
    if (gd_link_kept(link, "starts", 0) >= gd_link_real(link, "n", NULL)) {
        gd_var_terminate(var, true);
        gd_status status = gd_search_here(s);
        if (!status) status = note_best(link, s);
        return status ? status : gd_search_end(s);
    }
    gd_status status = look_at_start(link, s, &done);
    if (!status && done) return go_on(link, s, INFINITY, way->next);
    if (!status) status = gd_var_ask(var, gd_link_child(link, "inner"), &stop);
    if (!status) status = gd_var_flush(var);
    if (!status) status = loss_here(s, &loss);
    if (!status && s->first) status = way->prepare(link, s);
    if (!status) status = is_done(link, s, loss, stop, &done);
    if (!status && done) return go_on(link, s, loss, way->next);
    return status ? status : gd_search_stay(s);
}

static gd_status step_of_kind(gd_link *link, gd_var *var, const kind *way)
{
    gd_search s;
    gd_status status = gd_search_begin_constrained(&s, link, var);
    if (!status && !s.n) return gd_link_step(gd_link_child(link, "inner"), var);
    return status ? status : starts_step(link, var, &s, way);
}

/* ---- multi_start ---- */

/* All of them at first: a Latin hypercube needs their number. */
static gd_status draw_starts(gd_link *link, gd_search *s)
{
    int64_t others = (int64_t)gd_link_real(link, "n", NULL) - 1;
    double *all = gd_search_numbers(s, others * s->n);
    gd_status status = all ? gd_search_spread(s, others, all) : gd_error(gd_var_ctx(s->var));
    return status ? status : gd_search_keep(s, "starts_left", others * s->n, all);
}

/* If the setting has grown, indices beyond those drawn wrap to the first. */
static gd_status next_start(gd_link *link, gd_search *s, double loss, double starts, double *out)
{
    gd_tensor *kept = gd_link_global_tensor(link, "starts_left");
    int64_t all = kept ? gd_numel(kept) : 0, others = all / s->n;
    double *list = gd_search_numbers(s, all);
    (void)loss;
    if (!list) return gd_error(gd_var_ctx(s->var));
    memcpy(out, s->best, (size_t)s->n * sizeof *out);
    if (others && gd_search_kept(s, "starts_left", all, list))
        memcpy(out, list + ((int64_t)starts - 1) % others * s->n, (size_t)s->n * sizeof *out);
    return gd_error(gd_var_ctx(s->var));
}

static gd_status multi_start_step(gd_link *link, gd_var *var)
{
    static const kind starts = {draw_starts, next_start};
    return step_of_kind(link, var, &starts);
}

static int64_t elements(gd_tensor *const *params, int count)
{
    int64_t n = 0;
    for (int i = 0; i < count; i++) n += gd_numel(params[i]);
    return n;
}

static int64_t multi_start_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return (int64_t)(gd_link_real(link, "n", NULL) + 1) * elements(params, count) * (int64_t)sizeof(double);
}

/* ---- basin_hopping ---- */

static gd_status begin_hops(gd_link *link, gd_search *s)
{
    (void)link;
    return gd_search_keep(s, "accepted", s->n, s->x);
}

static gd_status next_hop(gd_link *link, gd_search *s, double loss, double starts, double *out)
{
    double *at = gd_search_numbers(s, s->n), *draw = gd_search_numbers(s, s->n + 1);
    if (!at || !draw) return gd_error(gd_var_ctx(s->var));
    double before = gd_link_kept(link, "accepted_loss", INFINITY),
           reach = gd_link_kept(link, "reach", gd_link_real(link, "reach", NULL));
    double temperature = gd_link_real(link, "temperature", NULL);
    gd_status status = gd_search_draw(s, GD_RANDOM_UNIFORM, s->n + 1, draw);
    bool first = starts <= 1, known = gd_search_kept(s, "accepted", s->n, at);
    bool accept = first || !known || loss <= before || draw[s->n] < exp(-(loss - before) / temperature);
    if (accept) memcpy(at, s->x, (size_t)s->n * sizeof *at);
    if (!first) reach = accept ? reach / 0.9 : reach * 0.9;
    if (!status) status = gd_search_keep(s, "accepted", s->n, at);
    if (!status) status = gd_link_keep(link, "accepted_loss", accept ? loss : before);
    if (!status) status = gd_link_keep(link, "reach", reach);
    for (int64_t i = 0; i < s->n && !status; i++)
        out[i] = gd_search_reflect(s, i, at[i] + reach * gd_search_scale(s, i) * (2 * draw[i] - 1));
    return status;
}

static gd_status basin_hopping_step(gd_link *link, gd_var *var)
{
    static const kind hops = {begin_hops, next_hop};
    return step_of_kind(link, var, &hops);
}

static int64_t basin_hopping_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    (void)link;
    return 3 * elements(params, count) * (int64_t)sizeof(double);
}

/* ---- classes ---- */

GD_LINK(global_search, basin_hopping,
    .spread = GD_SPREAD_WHOLE,
    .summary =
        "a chain again and again, each time a random step away from the last minimum that was accepted",
    .formula =
        "u = inner(u);  at a minimum: x = accepted + reach s U(-1, 1), accepted = x where f <= f_accepted or rand < exp((f_accepted - f) / temperature)",
    .paper = "Wales & Doye 1997, Global optimization by basin-hopping",
    .cost = "that of inner, for n minima",
    .example = "box(-5, 5) | basin_hopping([lbfgs | strong_wolfe])",
    GD_FIELDS(hop_fields),
    .step = basin_hopping_step,
    .state_bytes = basin_hopping_bytes,
    .traits.needs_closure = true);

GD_LINK(global_search, multi_start,
    .spread = GD_SPREAD_WHOLE,
    .summary = "a chain from several starts, spread evenly; the lowest minimum counts",
    .formula = "u = inner(u);  at a minimum: the next of n starts",
    .cost = "that of inner, for n minima; n starts",
    .example = "box(-5, 5) | multi_start([lbfgs | strong_wolfe], n=20)",
    GD_FIELDS(start_fields),
    .step = multi_start_step,
    .state_bytes = multi_start_bytes,
    .traits.needs_closure = true);
