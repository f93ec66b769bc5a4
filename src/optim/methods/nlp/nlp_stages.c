/* The link nlp: its problem as plain numbers, the two stages, and what continues from step to step.
 *
 * Stage 1 is sequential quadratic programming (sqp.c), for as many evaluations as suitable problems take; if it reports SOLVED, that is
 * the end; every other outcome is ignored: stage 2, the interior point (interior_point.c, restoration.c), begins at the start of
 * the run. Elements whose bounds are equal are not variables.  A step is one accepted point of a stage, or of a restoration; the
 * parameters are the point, all else is kept as one vector of doubles, so a run that is saved continues with the same bits. */
#include "gradus/link/hessian.h"

#include "optim/methods/nlp/restoration.h"
#include "optim/methods/nlp/sqp.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/objective/lagrangian.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <string.h>

#define SMALL    300  /* variables and rows for which subproblems are cheap */
#define ROUNDING 64   /* residuals of so many roundings count as 0 */
#define NEAR     1e-6 /* below this error, a lack of progress is due to rounding */
#define TRUSTED  1e-6 /* of f: if a relaxed row changes it by more, no multiplier exists */

typedef enum stage { NEW, SQP, BEGIN_IP, INTERIOR, RESTORING, OVER } stage;

/* The saved state: doubles only. */
typedef struct kept {
    double all, n, equal, rows, exact;
    double hessians;
    double stage, end, judged; /* judged: y was computed for the result */
    gd_sqp_numbers sqp;
    gd_ip_numbers ip, inner;
    double theta, zeta;
} kept;

typedef struct nlp {
    gd_link *link;
    gd_var *var;
    gd_ctx *ctx;
    int64_t all, n, equal, rows, count; /* elements, variables, constraints; doubles that are kept */
    bool exact, small;
    gd_ip_problem p;
    int64_t *variable; /* [n] their places */
    double *full, *low, *high, *low_all, *high_all;
    double *g, *j, *w;      /* over all elements, as they were given */
    double f, *c;           /* the last values */
    double *y, *multiplier; /* [rows] as they were given, [all] of bounds */
    double *data;           /* what is kept, the struct first */
    kept *k;
    double *start, *last, *bfgs, *old, *sqp_kept, *ip_kept, *inner_kept;
    double tol, violation, kkt, loss; /* where the step begins; loss NAN: not known */
    gd_ip ip;
    gd_sqp sqp;
    gd_restoration restoration;
} nlp;

/* ---- the problem ---- */

static double *numbers(nlp *s, int64_t count)
{
    return gd_link_memory(s->link, ((size_t)count + 1) * sizeof(double));
}

/* Writes x into the parameters, and reads x back as they hold it. */
static gd_status move_to(nlp *s, double *x)
{
    gd_tensor *const *params = gd_var_params(s->var);
    int count = gd_var_count(s->var);
    for (int64_t i = 0; i < s->n; i++) s->full[s->variable[i]] = x[i];
    gd_no_grad_begin(s->ctx);
    gd_status status = gd__list_write(params, count, s->full);
    gd_no_grad_end(s->ctx);
    if (!status) status = gd__list_read(params, count, s->full);
    for (int64_t i = 0; i < s->n; i++) x[i] = s->full[s->variable[i]];
    return status;
}

static gd_status values(void *user, double *x, double *f, double *c)
{
    nlp *s = user;
    gd_status status = move_to(s, x);
    if (!status) status = gd__lagrangian_values(s->var, s->exact, &s->f, s->c);
    *f = s->f;
    memcpy(c, s->c, (size_t)s->rows * sizeof *c);
    return status;
}

/* The point that was evaluated last, a correction, may not be the accepted one. */
static gd_status stand_at(nlp *s, const double *x)
{
    bool there = true;
    for (int64_t i = 0; i < s->n; i++) there = there && s->full[s->variable[i]] == x[i];
    if (there) return GD_OK;
    double *copy = numbers(s, s->n + s->rows), f;
    if (!copy) return gd_error(s->ctx);
    memcpy(copy, x, (size_t)s->n * sizeof *copy);
    return values(s, copy, &f, copy + s->n);
}

static gd_status first(void *user, const double *x, double *g, double *j)
{
    nlp *s = user;
    gd_status status = stand_at(s, x);
    if (!status) status = gd__lagrangian_first(s->var, s->g, s->j);
    for (int64_t i = 0; i < s->n; i++) {
        g[i] = s->g[s->variable[i]];
        for (int64_t r = 0; r < s->rows; r++) j[r * s->n + i] = s->j[r * s->all + s->variable[i]];
    }
    return status;
}

static gd_status second(void *user, const double *x, double weight, const double *y, double *w)
{
    nlp *s = user;
    (void)x;
    if (!s->exact) {
        for (int64_t i = 0; i < s->n * s->n; i++) w[i] = weight * s->bfgs[i];
        return GD_OK;
    }
    s->k->hessians++;
    gd_status status = gd__lagrangian_second(s->var, weight, y, s->w);
    for (int64_t i = 0; i < s->n && !status; i++)
        for (int64_t k = 0; k < s->n; k++) w[i * s->n + k] = s->w[s->variable[i] * s->all + s->variable[k]];
    return status;
}

/* ---- opening it ---- */

static gd_status read_bounds(nlp *s)
{
    gd_status status = gd__var_bound_numbers(s->var, s->low_all, s->high_all);
    for (int64_t i = 0; i < s->all; i++) {
        if (!(s->low_all[i] < s->high_all[i])) continue;
        s->low[s->n] = s->low_all[i];
        s->high[s->n] = s->high_all[i];
        s->variable[s->n++] = i;
    }
    return status;
}

static bool is_exact(const nlp *s)
{
    return !gd_link_is(s->link, "hessian", "bfgs") &&
           (gd__lagrangian_bends(s->var) || gd_link_is(s->link, "hessian", "exact"));
}

static bool is_small(const gd_link *link, int64_t order)
{
    return order <= SMALL && !gd_link_is(link, "method", "interior_point");
}

static gd_status open_problem(nlp *s, gd_link *link, gd_var *var)
{
    int64_t below;
    *s = (nlp){.link = link, .var = var, .ctx = gd_var_ctx(var), .loss = NAN};
    s->all = gd__list_numel(gd_var_params(var), gd_var_count(var));
    gd_status status = gd__lagrangian_counts(var, &s->equal, &below);
    if (status) return status;
    s->rows = s->equal + below;
    double *room = numbers(s, 9 * s->all + 2 * s->rows + s->rows * s->all), *slack = numbers(s, 3 * below);
    if (!room || !slack) return gd_error(s->ctx);
    s->full = room, s->low = room + s->all, s->high = s->low + s->all, s->low_all = s->high + s->all;
    s->high_all = s->low_all + s->all, s->g = s->high_all + s->all, s->multiplier = s->g + s->all;
    s->variable = (int64_t *)(void *)(s->multiplier + s->all);
    s->c = s->multiplier + 3 * s->all, s->y = s->c + s->rows, s->j = s->y + s->rows;
    status = gd__list_read(gd_var_params(var), gd_var_count(var), s->full);
    if (!status) status = read_bounds(s);
    s->exact = is_exact(s);
    s->tol = gd_link_real(link, "tol", NULL);
    for (int i = 0; i < gd_var_count(var); i++) /* no smaller than the resolution of the parameters */
        s->tol = fmax(s->tol, ROUNDING * gd_vector_epsilon(gd_var_params(var)[i]));
    s->small = is_small(link, s->n + s->rows);
    if (s->exact && !(s->w = numbers(s, s->all * s->all))) return gd_error(s->ctx);
    s->p = (gd_ip_problem){.n = s->n, .rows = s->rows, .tails = below, .slacks = below, .user = s};
    s->p.low = s->low, s->p.high = s->high;
    int64_t *row = (int64_t *)(void *)(slack + 2 * below);
    for (int64_t i = 0; i < below; i++) slack[i] = 1, row[i] = s->equal + i;
    s->p.sign = slack, s->p.cost = slack + below, s->p.row = row;
    s->p.values = values, s->p.first = first, s->p.second = second;
    return status;
}

/* ---- what is kept ---- */

#define HEADER (int64_t)(sizeof(kept) / sizeof(double))

static int64_t kept_count(const nlp *s)
{
    return HEADER + 2 * s->all + (s->exact ? 0 : s->n * s->n) + (s->small ? gd__sqp_kept(&s->p) : 0) +
           gd__ip_kept(&s->p) + gd__restoration_kept(&s->p);
}

/* Depends only on the link and its parameters, as objective and bounds are not known before the first step. */
int64_t gd_link_nlp_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t n = link && params && count > 0 ? gd__list_numel(params, count) : 0;
    if (!n) return 0;
    nlp s = {.all = n, .n = n, .exact = !gd_link_is(link, "hessian", "bfgs"), .small = is_small(link, n)};
    s.p = (gd_ip_problem){.n = n};
    return kept_count(&s) * (int64_t)sizeof(double);
}

static void lay_out(nlp *s)
{
    s->k = (kept *)(void *)s->data;
    s->start = s->data + HEADER;
    s->last = s->start + s->all;
    s->bfgs = s->last + s->all;
    s->sqp_kept = s->bfgs + (s->exact ? 0 : s->n * s->n);
    s->ip_kept = s->sqp_kept + (s->small ? gd__sqp_kept(&s->p) : 0);
    s->inner_kept = s->ip_kept + gd__ip_kept(&s->p);
}

/* A new run from where the parameters are. */
static void begin_run(nlp *s)
{
    memset(s->data, 0, (size_t)s->count * sizeof *s->data);
    *s->k = (kept){.all = (double)s->all,
                   .n = (double)s->n,
                   .equal = (double)s->equal,
                   .rows = (double)s->rows,
                   .exact = s->exact,
                   .stage = s->small ? SQP : BEGIN_IP};
    memcpy(s->start, s->full, (size_t)s->all * sizeof *s->start);
    for (int64_t i = 0; i < s->n && !s->exact; i++) s->bfgs[i * s->n + i] = 1;
}

static bool same_problem(const nlp *s)
{
    const kept *k = s->k;
    return k->all == (double)s->all && k->n == (double)s->n && k->equal == (double)s->equal &&
           k->rows == (double)s->rows && k->exact == (double)s->exact;
}

static gd_status load_run(nlp *s)
{
    gd_tensor *t = gd_link_global_tensor(s->link, "progress");
    s->count = kept_count(s);
    if (!(s->data = numbers(s, s->count))) return gd_error(s->ctx);
    lay_out(s);
    bool known = t && gd_numel(t) == s->count && gd_read_f64(t, s->data, s->count) == GD_OK &&
                 same_problem(s);
    /* a run that is over restarts where the parameters were moved */
    if (known && (int)s->k->stage == OVER)
        known = !memcmp(s->last, s->full, (size_t)s->all * sizeof *s->full);
    if (!known) begin_run(s);
    return gd_error(s->ctx);
}

static gd_status save_run(nlp *s)
{
    memcpy(s->last, s->full, (size_t)s->all * sizeof *s->last);
    gd_tensor *t = gd_from_f64(s->ctx, GD_F64, 1, &s->count, s->data);
    return t ? gd_link_set_global_tensor(s->link, "progress", t) : gd_error(s->ctx);
}

static void here(const nlp *s, double *x)
{
    for (int64_t i = 0; i < s->n; i++) x[i] = s->full[s->variable[i]];
}

/* ---- results at a point ---- */

static double violation_at(const nlp *s)
{
    double most = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        double over = i < s->equal ? fabs(s->c[i]) : fmax(s->c[i], 0);
        most = isnan(s->c[i]) ? INFINITY : fmax(most, over);
    }
    return most;
}

/* y and multipliers of bounds as they were given, violation, and x - P(x - gradient of L). */
static void describe(nlp *s, const double *y, const double *scale, double weight)
{
    s->kkt = 0;
    s->violation = violation_at(s);
    for (int64_t i = 0; i < s->rows; i++) {
        s->y[i] = y[i] * scale[i] / weight;
        if (i >= s->equal) s->y[i] = fmax(s->y[i], 0);
    }
    for (int64_t i = 0; i < s->all; i++) {
        double g = s->g[i], x = s->full[i];
        for (int64_t r = 0; r < s->rows; r++) g += s->j[r * s->all + i] * s->y[r];
        double to = fmin(fmax(x - g, s->low_all[i]), s->high_all[i]);
        s->kkt = isnan(g) ? INFINITY : fmax(s->kkt, fabs(x - to));
        bool low = x - s->low_all[i] <= 1e-6 * fmax(1, fabs(x)),
             high = s->high_all[i] - x <= 1e-6 * fmax(1, fabs(x));
        s->multiplier[i] = (low && g > 0) || (high && g < 0) || (low && high) ? g : 0;
    }
}

static gd_status publish_one(nlp *s, const char *name, int64_t count, const double *values_of)
{
    gd_tensor *t = gd_from_f64(s->ctx, GD_F64, 1, &count, values_of);
    return t ? gd_var_set_attr_tensor(s->var, name, t) : gd_error(s->ctx);
}

static gd_status publish(nlp *s)
{
    gd_status status = publish_one(s, "multipliers", s->rows, s->y);
    if (!status) status = gd_var_set_attr(s->var, "hessians", s->k->hessians);
    return status ? status : publish_one(s, "bound_multipliers", s->all, s->multiplier);
}

/* The error of f caused by relaxed or violated rows. */
static bool has_no_multiplier(const nlp *s)
{
    double worth = 0;
    for (int64_t i = 0; i < s->rows; i++) {
        double over = i < s->equal ? fabs(s->c[i]) : fmax(s->c[i], 0);
        worth += fabs(s->y[i]) * fmax(over, s->ip.relaxed[i]);
    }
    return worth > TRUSTED * fmax(1, fabs(s->f));
}

static gd_outcome outcome_of(const nlp *s, gd_ip_end end)
{
    switch (end) {
    case GD_IP_SOLVED: return has_no_multiplier(s) ? GD_OUTCOME_DEGENERATE : GD_OUTCOME_SOLVED;
    case GD_IP_UNBOUNDED: return GD_OUTCOME_UNBOUNDED;
    case GD_IP_INFEASIBLE: return GD_OUTCOME_INFEASIBLE;
    case GD_IP_STALLED:
        if (s->ip.error <= NEAR && s->violation <= s->ip.o.violation_tol) return GD_OUTCOME_FLAT;
        return GD_OUTCOME_STUCK;
    default: return GD_OUTCOME_STUCK;
    }
}

static void is_over(nlp *s, gd_ip_end end)
{
    s->k->end = outcome_of(s, end);
    s->k->stage = OVER;
}

/* ---- BFGS ---- */

/* Powell's damped update of the Hessian of the Lagrangian, 1978.  x, g and j: before. */
static void learn(nlp *s, const double *x, const double *g, const double *j)
{
    int64_t n = s->n;
    double *d = s->old + s->all * (s->rows + 2), *q = d + n, *bd = q + n, dbd = 0, dq = 0, qq = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = s->variable[i];
        d[i] = s->full[at] - x[at];
        q[i] = s->g[at] - g[at];
        for (int64_t r = 0; r < s->rows; r++) q[i] += (s->j[r * s->all + at] - j[r * s->all + at]) * s->y[r];
    }
    for (int64_t i = 0; i < n; i++) {
        bd[i] = 0;
        for (int64_t k = 0; k < n; k++) bd[i] += s->bfgs[i * n + k] * d[k];
        dbd += d[i] * bd[i];
        dq += d[i] * q[i];
        qq += q[i] * q[i];
    }
    if (!(dbd > 0) || !isfinite(dq) || !isfinite(qq)) return;
    double theta = dq >= 0.2 * dbd ? 1 : 0.8 * dbd / (dbd - dq), damped = theta * dq + (1 - theta) * dbd;
    if (s->k->judged == 0 && dq > 0) { /* the first pair gives the scale of the identity */
        for (int64_t i = 0; i < n; i++) {
            for (int64_t k = 0; k < n; k++) s->bfgs[i * n + k] = i == k ? qq / dq : 0;
            bd[i] = qq / dq * d[i];
        }
        dbd = qq / dq * dbd, theta = 1, damped = dq;
        for (int64_t i = 0, k = 0; i < n; i++, k++) dbd = i ? dbd + d[i] * bd[i] : d[i] * bd[i];
    }
    s->k->judged = 1;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            double qi = theta * q[i] + (1 - theta) * bd[i], qk = theta * q[k] + (1 - theta) * bd[k];
            s->bfgs[i * n + k] += qi * qk / damped - bd[i] * bd[k] / dbd;
        }
}

static gd_status remember(nlp *s)
{
    if (s->exact) return GD_OK;
    if (!s->old && !(s->old = numbers(s, s->all * (s->rows + 5)))) return gd_error(s->ctx);
    memcpy(s->old, s->full, (size_t)s->all * sizeof *s->old);
    memcpy(s->old + s->all, s->g, (size_t)s->all * sizeof *s->old);
    memcpy(s->old + 2 * s->all, s->j, (size_t)(s->rows * s->all) * sizeof *s->old);
    return GD_OK;
}

/* ---- the stages ---- */

/* Names the evaluation of the start that is not finite. */
static gd_status bad_start(nlp *s)
{
    for (int64_t i = 0; i < s->rows; i++) {
        if (isfinite(s->c[i])) continue;
        bool equal = i < s->equal;
        const gd_objective *o = gd__objective_of(s->var);
        int64_t index = equal ? i : i - s->equal;
        const char *name = o && o->constraint_name ? o->constraint_name(o->user, !equal, index) : NULL,
                   *why = isnan(s->c[i]) ? "not a number" : "infinite";
        if (name)
            return gd_fail(s->ctx, GD_VALUE, "nlp: the constraint '%.200s' is %s where the parameters start",
                           name, why);
        return gd_fail(s->ctx, GD_VALUE, "nlp: constraint %lld of '%s' is %s where the parameters start",
                       (long long)index, equal ? "equal" : "below", why);
    }
    gd_var_note_failed_search(s->var);
    s->k->stage = NEW; /* the next step tries again */
    return GD_OK;
}

/* The start of the interior point is a separate step, which moves the parameters inside. */
static gd_status begin_interior(nlp *s, const double *from)
{
    gd_ip_end end;
    bool fresh = (int)s->k->stage == BEGIN_IP && s->k->sqp.begun == 0;
    double *x = numbers(s, s->n + s->rows), f, violation;
    if (!x) return gd_error(s->ctx);
    for (int64_t i = 0; i < s->n; i++) x[i] = from[s->variable[i]];
    gd_status status = fresh ? values(s, x, &f, x + s->n) : GD_OK; /* the loss of the step */
    bool finite = fresh && !status && isfinite(f);
    if (finite) s->loss = f;
    violation = violation_at(s);
    if (!status) status = gd__ip_start(&s->ip, x, &end);
    if (status) return status;
    if (end == GD_IP_BAD_START) {
        memcpy(s->full, s->start, (size_t)s->all * sizeof *s->full);
        here(s, x);
        status = values(s, x, &f, s->c);
        return status ? status : bad_start(s);
    }
    if (fresh && !finite) gd__forget_first(s->var);
    s->k->stage = INTERIOR;
    describe(s, s->ip.y, s->ip.scale, s->ip.k.weight);
    if (fresh) s->violation = finite ? violation : INFINITY;
    return GD_OK;
}

/* The lower of the two sides of a saddle at which stage 1 has ended. */
static gd_status beside(nlp *s, const double *d, double *best)
{
    double low = INFINITY, f, *x = s->sqp.trial;
    gd_status status = GD_OK;
    memcpy(best, s->full, (size_t)s->all * sizeof *best);
    for (int k = 0; k < 2 && !status; k++) {
        for (int64_t i = 0; i < s->n; i++)
            x[i] = fmin(fmax(s->sqp.x[i] + (k ? -1e-2 : 1e-2) * d[i], s->low[i]), s->high[i]);
        status = values(s, x, &f, s->sqp.ct);
        if (status || !(f < low)) continue;
        low = f;
        memcpy(best, s->full, (size_t)s->all * sizeof *best);
    }
    return status;
}

/* Curvature on the null space of the active constraints. */
static gd_status look_at_curvature(nlp *s, double *d, bool *found)
{
    gd_sqp *q = &s->sqp;
    int64_t active = 0, n = s->n;
    double *rows = numbers(s, s->rows * n);
    bool *held = gd_link_memory(s->link, (size_t)n + 1);
    gd_status status = rows && held ? second(s, q->x, 1, s->y, q->w) : gd_error(s->ctx);
    if (status) return status;
    for (int64_t r = 0; r < s->rows; r++)
        if (r < s->equal || s->c[r] > -1e-7)
            memcpy(rows + active++ * n, q->j + r * n, (size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n; i++) held[i] = q->x[i] - s->low[i] < 1e-9 || s->high[i] - q->x[i] < 1e-9;
    *found = gd__falling_direction(n, active, q->w, rows, held, 1e-6, d, q->qp.room);
    return GD_OK;
}

static gd_status end_sqp(nlp *s, gd_ip_end end)
{
    gd_sqp *q = &s->sqp;
    bool saddle = false;
    double *d = numbers(s, s->n), *from = numbers(s, s->all);
    if (!d || !from) return gd_error(s->ctx);
    /* trials may have been rejected since x was accepted: the run does not end there */
    gd_status status = end == GD_IP_SOLVED || end == GD_IP_UNBOUNDED ? stand_at(s, q->x) : GD_OK;
    memcpy(from, s->start, (size_t)s->all * sizeof *from);
    if (!status && end == GD_IP_SOLVED) {
        describe(s, q->y, q->scale, q->k.weight);
        status = look_at_curvature(s, d, &saddle);
        if (!status && !saddle) is_over(s, end);
        if (!status && saddle) status = beside(s, d, from);
    } else if (end == GD_IP_UNBOUNDED && q->violation <= 1e-6)
        is_over(s, end);
    double violation = s->violation, kkt = s->kkt;
    if (!status && (int)s->k->stage != OVER) status = begin_interior(s, from);
    s->violation = violation, s->kkt = kkt;
    return status;
}

static gd_status sqp_step(nlp *s)
{
    gd_ip_end end;
    gd_sqp *q = &s->sqp;
    here(s, q->x);
    gd_status status = gd__sqp_look(q, &end);
    if (status) return status;
    if (end != GD_IP_GOES_ON) {
        s->k->stage = BEGIN_IP;
        q->k.begun = 0;
        return begin_interior(s, s->start);
    }
    s->loss = s->f;
    describe(s, q->y, q->scale, q->k.weight);
    if ((status = publish(s))) return status;
    double violation = s->violation, kkt = s->kkt;
    status = remember(s);
    if (!status) status = gd__sqp_step(q, &end);
    if (!status && end != GD_IP_GOES_ON) return end_sqp(s, end);
    if (status) return status;
    describe(s, q->y, q->scale, q->k.weight);
    if (!s->exact) learn(s, s->old, s->old + s->all, s->old + 2 * s->all);
    s->violation = violation, s->kkt = kkt;
    return GD_OK;
}

static gd_status restore(nlp *s, gd_ip_end *end)
{
    gd_status status = GD_OK;
    if ((int)s->k->stage != RESTORING) {
        status = gd__restoration_start(&s->restoration, end);
        s->k->stage = RESTORING;
        if (!status && *end == GD_IP_BAD_START) *end = GD_IP_STALLED;
        if (status || *end != GD_IP_RESTORE) return status;
    }
    status = gd__restoration_step(&s->restoration, end);
    if (*end == GD_IP_GOES_ON) s->k->stage = INTERIOR;
    return status;
}

static gd_status interior_step(nlp *s)
{
    gd_ip_end end = GD_IP_RESTORE;
    bool restoring = (int)s->k->stage == RESTORING;
    gd_ip *e = &s->ip;
    here(s, restoring ? s->restoration.ip.x : e->x);
    gd_status status = restoring ? gd__ip_look(&s->restoration.ip) : gd__ip_look(e);
    if (status) return status;
    s->loss = s->f;
    describe(s, e->y, e->scale, e->k.weight);
    if ((status = publish(s))) return status;
    double violation = s->violation, kkt = s->kkt;
    status = remember(s);
    if (!status && !restoring) status = gd__ip_step(e, &end);
    if (!status && end == GD_IP_RESTORE) status = restore(s, &end);
    if (status) return status;
    /* the last values and slopes are those of the point only after it was accepted */
    double *x = (int)s->k->stage == RESTORING && end == GD_IP_RESTORE ? s->restoration.ip.x : e->x,
           *copy = numbers(s, s->n), f;
    if (!copy) return gd_error(s->ctx);
    memcpy(copy, x, (size_t)s->n * sizeof *copy);
    if (end != GD_IP_GOES_ON && end != GD_IP_RESTORE) status = values(s, copy, &f, s->c);
    if (!status) status = move_to(s, copy);
    if (status) return status;
    if (end != GD_IP_GOES_ON && end != GD_IP_RESTORE) {
        describe(s, e->y, e->scale, e->k.weight);
        violation = s->violation, kkt = s->kkt;
        is_over(s, end);
    } else if (!s->exact && end == GD_IP_GOES_ON && !restoring) {
        describe(s, e->y, e->scale, e->k.weight);
        learn(s, s->old, s->old + s->all, s->old + 2 * s->all);
    }
    s->violation = violation, s->kkt = kkt;
    return GD_OK;
}

/* A finished run: its end is checked again. */
static gd_status look_again(nlp *s)
{
    double f;
    gd_status status = gd__lagrangian_values(s->var, false, &f, s->c);
    s->loss = f;
    if (!status) status = gd__lagrangian_first(s->var, s->g, s->j);
    gd_tensor *y = gd_optimizer_attr_tensor(gd_var_optimizer(s->var), "multipliers");
    bool known = y && gd_numel(y) == s->rows;
    if (!status && known) status = gd_read_f64(y, s->y, s->rows);
    for (int64_t i = 0; i < s->rows; i++) s->ip.scale[i] = 1;
    if (!status) {
        memcpy(s->ip.dy, s->y, (size_t)s->rows * sizeof *s->y);
        describe(s, s->ip.dy, s->ip.scale, 1);
    }
    return status;
}

/* ---- engines and what is kept ---- */

static gd_status open_engines(nlp *s)
{
    gd_ip_options o = gd__ip_defaults();
    o.tol = o.violation_tol = s->tol;
    o.adaptive =
        false; /* after a failure of stage 1 the adaptive barrier fails more often too: 71 problems, 64 solved alone and not 62 */
    double *room = numbers(s, gd__ip_room(&s->p));
    double *inner = numbers(s, gd__restoration_room(&s->p));
    double *sqp = s->small ? numbers(s, gd__sqp_room(&s->p)) : NULL;
    if (!room || !inner || (s->small && !sqp)) return gd_error(s->ctx);
    memcpy(room, s->ip_kept, (size_t)gd__ip_kept(&s->p) * sizeof *room);
    memcpy(inner, s->inner_kept, (size_t)gd__restoration_kept(&s->p) * sizeof *room);
    gd__ip_open(&s->ip, &s->p, &o, room);
    gd__restoration_open(&s->restoration, &s->ip, inner);
    s->ip.k = s->k->ip;
    s->restoration.ip.k = s->k->inner;
    s->restoration.k.theta = s->k->theta;
    s->restoration.k.zeta = s->k->zeta;
    if (!s->small) return GD_OK;
    memcpy(sqp, s->sqp_kept, (size_t)gd__sqp_kept(&s->p) * sizeof *room);
    gd__sqp_open(&s->sqp, &s->p, sqp);
    s->sqp.k = s->k->sqp;
    s->sqp.tol = s->sqp.violation_tol = o.tol;
    return GD_OK;
}

static void keep_engines(nlp *s)
{
    s->k->ip = s->ip.k;
    s->k->inner = s->restoration.ip.k;
    s->k->theta = s->restoration.k.theta;
    s->k->zeta = s->restoration.k.zeta;
    memcpy(s->ip_kept, s->ip.x, (size_t)gd__ip_kept(&s->p) * sizeof *s->ip_kept);
    memcpy(s->inner_kept, s->restoration.from, (size_t)gd__restoration_kept(&s->p) * sizeof *s->ip_kept);
    if (!s->small) return;
    s->k->sqp = s->sqp.k;
    memcpy(s->sqp_kept, s->sqp.x, (size_t)gd__sqp_kept(&s->p) * sizeof *s->ip_kept);
}

static gd_status run_stage(nlp *s)
{
    switch ((stage)s->k->stage) {
    case SQP: return sqp_step(s);
    case BEGIN_IP: return begin_interior(s, s->start);
    case INTERIOR:
    case RESTORING: return interior_step(s);
    default: return look_again(s);
    }
}

/* As the last link it sets the parameters itself, exactly; else the update leads there. */
static gd_status end_step(nlp *s, const double *from)
{
    gd_var *var = s->var;
    gd_tensor *const *params = gd_var_params(var);
    int count = gd_var_count(var);
    bool last = gd_var_is_last(var) && !gd_var_last_lrs(var);
    gd_status status = GD_OK;
    if (last) {
        gd_var_skip_update(var);
        return gd_var_set_zero_update(var);
    }
    double *u = numbers(s, s->all);
    for (int64_t i = 0; i < s->all && u; i++) u[i] = from[i] - s->full[i];
    gd_no_grad_begin(s->ctx);
    status = u ? gd__list_write(params, count, from) : gd_error(s->ctx);
    gd_no_grad_end(s->ctx);
    gd_tensor *v = status ? NULL : gd_from_f64(s->ctx, GD_F64, 1, &s->all, u);
    v = v ? gd_to_device(v, gd_tensor_device(params[0])) : NULL;
    return v ? gd_var_set_update_vector(var, v) : gd_error(s->ctx);
}

gd_status gd_link_step_nlp(gd_link *link, gd_var *var)
{
    nlp s;
    if (!link || !var)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "nlp: the link or the step is NULL");
    if (!gd_var_has_closure(var)) return gd_fail(gd_var_ctx(var), GD_STATE, "nlp: the step has no objective");
    if (!gd_var_count(var)) return GD_OK;
    gd_status status = gd_var_flush(var);
    if (!status) status = open_problem(&s, link, var);
    if (!status) status = load_run(&s);
    if (!status) status = open_engines(&s);
    double *from = status ? NULL : numbers(&s, s.all);
    if (!from) return status ? status : gd_error(gd_var_ctx(var));
    memcpy(from, s.full, (size_t)s.all * sizeof *from);
    status = run_stage(&s);
    if (status) return status;
    keep_engines(&s);
    gd_outcome outcome = (int)s.k->stage == OVER ? (gd_outcome)s.k->end : GD_OUTCOME_NONE;
    gd_var_note_constraints(var, s.violation, s.tol, s.kkt, outcome == GD_OUTCOME_SOLVED,
                            outcome == GD_OUTCOME_INFEASIBLE);
    gd_var_note_outcome(var, outcome);
    gd_tensor *loss = isnan(s.loss) ? NULL : gd_scalar(s.ctx, GD_F64, s.loss);
    if (loss) gd_var_set_loss(var, loss);
    status = gd_error(s.ctx);
    if (!status && outcome) status = publish(&s);
    if (!status) status = save_run(&s);
    return status ? status : end_step(&s, from);
}
