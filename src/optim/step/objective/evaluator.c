/* One callback for one evaluation, behind the single callbacks that the rest of the room calls; see evaluator.h.
 *
 * The results of the last point are kept until the values of the parameters change. Points are compared by value, not by versions of storages: a
 * search that returns finds the same point.  Values of operators keep their history, as long as it is intact. */
#include "optim/step/objective/evaluator.h"

#include "autograd/walk.h"
#include "gradus/autograd.h"
#include "optim/step/microbatch_loss.h"
#include "optim/vector/layout.h"
#include "tensor/shape.h"

#include <string.h>

#define QUANTITIES 9
#define VALUES     (GD_WANT_LOSS | GD_WANT_EQUAL | GD_WANT_BELOW | GD_WANT_RESIDUALS)
#define FIRST      (GD_WANT_GRADIENT | GD_WANT_EQUAL_JACOBIAN | GD_WANT_BELOW_JACOBIAN)

enum { LOSS, GRADIENT, EQUAL, BELOW, EQUAL_JACOBIAN, BELOW_JACOBIAN, HESSIAN, RESIDUALS, RESIDUAL_JACOBIAN };

static const char *const names[QUANTITIES] = {"loss",    "gradient",       "equal",
                                              "below",   "equal_jacobian", "below_jacobian",
                                              "hessian", "residuals",      "residual_jacobian"};
/* The value that a quantity is the first derivative of; itself for values. */
static const unsigned value_of[QUANTITIES] = {
    GD_WANT_LOSS,      GD_WANT_LOSS,     GD_WANT_EQUAL, GD_WANT_BELOW, GD_WANT_EQUAL, GD_WANT_BELOW, 0,
    GD_WANT_RESIDUALS, GD_WANT_RESIDUALS};

struct gd_evaluator {
    gd_ctx *ctx;
    gd_optimizer *owner;             /* counts; NULL: not yet */
    int64_t evals, constraint_evals; /* that it has not counted yet */
    gd_objective given, made;
    gd_tensor **params; /* owned references */
    int count;
    int64_t n;
    double *point, *now; /* numbers of the parameters, [n] each */
    bool called;         /* is `point` one? */
    unsigned known;
    gd_tensor *result[QUANTITIES]; /* owned */
    bool plain;                    /* the Hessian is that of the loss alone */
};

/* ---- making one ---- */

static gd_status exclusive(gd_ctx *ctx, const gd_objective *o)
{
    const struct {
        bool given;
        const char *name;
    } others[] = {{o->loss, "loss"},           {o->value, "value"},
                  {o->gradient, "gradient"},   {o->gradient_kept, "gradient_kept"},
                  {o->residuals, "residuals"}, {o->jacobian, "jacobian"},
                  {o->rows, "rows"},           {o->batch, "batch"},
                  {o->equal, "equal"},         {o->below, "below"},
                  {o->traced, "traced"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return gd_fail(ctx, GD_ARGUMENT, "objective: `evaluate` and `%s` exclude each other",
                           others[i].name);
    unsigned gives = o->gives;
    if (gives >= 1u << QUANTITIES || !(gives & (GD_WANT_LOSS | GD_WANT_RESIDUALS)))
        return gd_fail(ctx, GD_ARGUMENT,
                       "objective: `gives` of `evaluate` is %u; it is a sum of gd_want with GD_WANT_LOSS or "
                       "GD_WANT_RESIDUALS",
                       gives);
    for (int i = 0; i < QUANTITIES; i++)
        if (gives >> i & 1 && value_of[i] && !(gives & value_of[i]))
            return gd_fail(ctx, GD_ARGUMENT, "objective: `evaluate` gives %s without its values", names[i]);
    unsigned needed = GD_WANT_GRADIENT | (gives & GD_WANT_EQUAL ? GD_WANT_EQUAL_JACOBIAN : 0u) |
                      (gives & GD_WANT_BELOW ? GD_WANT_BELOW_JACOBIAN : 0u);
    if (gives & GD_WANT_HESSIAN && (gives & needed) != needed)
        return gd_fail(
            ctx, GD_ARGUMENT,
            "objective: `evaluate` gives the Hessian without the gradient, or without the Jacobian of constraints");
    return GD_OK;
}

static void forget(gd_evaluator *e, unsigned quantities)
{
    for (int i = 0; i < QUANTITIES; i++) {
        if (!(quantities >> i & 1)) continue;
        gd__release(e->result[i]);
        e->result[i] = NULL;
    }
    e->known &= ~quantities;
}

void gd__evaluator_free(gd_evaluator *e)
{
    if (!e) return;
    forget(e, ~0u);
    gd__tensors_free(e->ctx, e->params, e->count);
    gd__free(e->ctx, e->point, 2 * (size_t)e->n * sizeof *e->point);
    gd__free(e->ctx, e, sizeof *e);
}

static void fill_made(gd_evaluator *e);

const gd_objective *gd__evaluator_new(gd_ctx *ctx, gd_tensor *const *params, int count,
                                      const gd_objective *given, gd_evaluator **out)
{
    *out = NULL;
    if (!given->evaluate) return given;
    if (exclusive(ctx, given)) return NULL;
    gd_evaluator *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    *e = (gd_evaluator){.ctx = ctx, .given = *given, .count = count};
    e->n = gd__list_numel(params, count);
    e->params = gd__tensors_share(ctx, params, count);
    e->point = gd__alloc_array(ctx, 2 * (size_t)e->n, sizeof *e->point);
    if (!e->params || !e->point) {
        e->count = e->params ? count : 0;
        e->n = e->point ? e->n : 0;
        gd__evaluator_free(e);
        return NULL;
    }
    e->now = e->point + e->n;
    fill_made(e);
    *out = e;
    return &e->made;
}

static bool serves(const gd_evaluator *e, gd_tensor *const *params, int count, const gd_objective *o)
{
    const gd_objective *g = e ? &e->given : NULL;
    if (!g || g->evaluate != o->evaluate || g->user != o->user || g->gives != o->gives) return false;
    if (g->values != o->values || g->hvp != o->hvp || g->constraint_name != o->constraint_name) return false;
    return e->count == count && !memcmp(e->params, params, (size_t)count * sizeof *params);
}

const gd_objective *gd__evaluator_for(gd_optimizer *o, gd_tensor *const *params, int count,
                                      const gd_objective *given)
{
    gd_evaluator *e = o->asked.evaluator, *made;
    if (!given->evaluate || gd__evaluator_of(o, given)) return given;
    if (!exclusive(o->ctx, given) && serves(e, params, count, given)) return &e->made;
    if (gd_error(o->ctx)) return NULL;
    const gd_objective *out = gd__evaluator_new(o->ctx, params, count, given, &made);
    if (out) gd__evaluator_give(o, made);
    return out;
}

void gd__evaluator_give(gd_optimizer *o, gd_evaluator *e)
{
    if (!e || e == o->asked.evaluator) return;
    gd__evaluator_free(o->asked.evaluator);
    o->asked.evaluator = e;
    e->owner = o;
}

void gd__evaluator_forget(gd_optimizer *o)
{
    gd_evaluator *e = o->asked.evaluator;
    if (!e) return;
    forget(e, ~0u);
    e->called = false;
}

gd_evaluator *gd__evaluator_of(const gd_optimizer *o, const gd_objective *objective)
{
    gd_evaluator *e = o ? o->asked.evaluator : NULL;
    return e && objective == &e->made ? e : NULL;
}

bool gd__evaluator_gives(const gd_evaluator *e, unsigned quantities)
{
    return e && (e->given.gives & quantities) == quantities;
}

bool gd__evaluator_bends(const gd_evaluator *e)
{
    const unsigned gives = e->given.gives, constraints = GD_WANT_EQUAL_JACOBIAN | GD_WANT_BELOW_JACOBIAN;
    bool loss = e->made.loss || e->made.hvp;
    return gives & GD_WANT_HESSIAN || (loss && !(gives & constraints));
}

/* Is the value computed by operators that autograd differentiates? */
static bool has_history(const gd_evaluator *e, unsigned value)
{
    static const unsigned slopes[] = {GD_WANT_GRADIENT, GD_WANT_EQUAL_JACOBIAN, GD_WANT_BELOW_JACOBIAN,
                                      GD_WANT_RESIDUAL_JACOBIAN};
    static const unsigned values[] = {GD_WANT_LOSS, GD_WANT_EQUAL, GD_WANT_BELOW, GD_WANT_RESIDUALS};
    for (int i = 0; i < 4; i++)
        if (value & values[i] && e->given.gives & values[i] && !(e->given.gives & slopes[i])) return true;
    return false;
}

bool gd__evaluator_shares_graphs(const gd_evaluator *e) { return e && has_history(e, VALUES); }

/* ---- calling it ---- */

/* Are the parameters where the last call was? */
static gd_status find_point(gd_evaluator *e, bool *same)
{
    gd_status status = gd__list_read(e->params, e->count, e->now);
    *same = !status && e->called && !memcmp(e->now, e->point, (size_t)e->n * sizeof *e->now);
    return status;
}

static void count_calls(gd_evaluator *e, bool point, bool constraints)
{
    e->evals += point;
    e->constraint_evals += constraints;
    if (!e->owner) return;
    e->owner->evals += e->evals;
    e->owner->constraint_evals += e->constraint_evals;
    e->evals = e->constraint_evals = 0;
}

/* The shape that a result must have. */
static gd_status check_shape(const gd_evaluator *e, int i, const gd_tensor *t)
{
    int64_t n = e->n;
    bool fits = true;
    if (!gd__is_float(t))
        return gd_fail(e->ctx, GD_DTYPE, "evaluate: %s is of dtype %s, it needs a floating one", names[i],
                       gd_dtype_name(t->dtype));
    if (i == LOSS) fits = t->numel == 1;
    if (i == GRADIENT) fits = t->numel == n;
    if (i == HESSIAN) fits = t->ndim == 2 && t->size[0] == n && t->size[1] == n;
    if (i == EQUAL_JACOBIAN || i == BELOW_JACOBIAN || i == RESIDUAL_JACOBIAN) {
        const gd_tensor *v = e->result[i == RESIDUAL_JACOBIAN ? RESIDUALS : i - 2];
        fits = t->ndim == 2 && t->size[1] == n && (!v || t->size[0] == v->numel);
    }
    if (fits) return GD_OK;
    return gd_fail(e->ctx, GD_SHAPE, "evaluate: %s has %d axes and %lld elements; %s", names[i], t->ndim,
                   (long long)t->numel,
                   i == LOSS       ? "it is one number"
                   : i == GRADIENT ? "it has one element per element of the parameters"
                   : i == HESSIAN  ? "it is [n, n] for n elements of the parameters"
                                   : "it is [rows, n] for n elements of the parameters");
}

/* A parameter, or a part of one, would change with the next step. */
static bool is_of_params(const gd_evaluator *e, const gd_tensor *t)
{
    for (int i = 0; i < e->count; i++)
        if (t->storage == e->params[i]->storage) return true;
    return false;
}

/* An owned result, values before derivatives, which are compared with them. */
static gd_status take_result(gd_evaluator *e, int i, gd_tensor *t)
{
    if (!t) return gd_fail(e->ctx, GD_CALLBACK, "evaluate: %s is wanted, and is NULL", names[i]);
    gd_status status = check_shape(e, i, t);
    if (status) return status;
    t = gd_drop_names(t);
    if (t && is_of_params(e, t)) t = gd_copy(t);
    if (t && (VALUES >> i & 1)) t = i == LOSS ? gd__reshape(t, 0, NULL) : gd__reshape(t, 1, &t->numel);
    if (!t) return gd_error(e->ctx);
    gd__own(t);
    gd__release(e->result[i]);
    e->result[i] = t;
    e->known |= 1u << i;
    return GD_OK;
}

static gd_status take_all(gd_evaluator *e, unsigned wanted, const gd_answer *out)
{
    gd_tensor *const made[QUANTITIES] = {out->loss,    out->gradient,       out->equal,
                                         out->below,   out->equal_jacobian, out->below_jacobian,
                                         out->hessian, out->residuals,      out->residual_jacobian};
    gd_status status = GD_OK;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < QUANTITIES && !status; i++)
            if (wanted >> i & 1 && (bool)(VALUES >> i & 1) == !pass) status = take_result(e, i, made[i]);
    return status;
}

static gd_status call(gd_evaluator *e, gd_request *request)
{
    gd_ctx *ctx = e->ctx;
    gd_answer out = {0};
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    bool history = has_history(e, request->wanted);
    if (!history) gd_no_grad_begin(ctx);
    count_calls(e, request->new_point, request->wanted & (GD_WANT_EQUAL | GD_WANT_BELOW));
    gd_status status = gd__callback_status(ctx, e->given.evaluate(e->given.user, request, &out));
    if (!status) status = take_all(e, request->wanted, &out);
    if (!history) gd_no_grad_end(ctx);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    if (status) {
        forget(e, ~0u);
        e->called = false; /* what the callback has kept for this point is unknown */
    }
    return status;
}

/* Values whose graph was freed, or whose parameters have moved and returned. */
static void drop_broken(gd_evaluator *e, unsigned wanted)
{
    for (int i = 0; i < QUANTITIES; i++)
        if (wanted & e->known & VALUES & 1u << i && e->result[i]->node && !gd__graph_intact(e->result[i])) {
            forget(e, ~0u);
            e->called = false;
            return;
        }
}

/* Completes the request of a call: all values at a new point, and all first derivatives with one of them. */
static unsigned with_others(const gd_evaluator *e, unsigned missing)
{
    unsigned gives = e->given.gives, values = gives & VALUES;
    if (gives & GD_WANT_LOSS)
        values &= ~(unsigned)GD_WANT_RESIDUALS; /* only links for least squares want both */
    if (!(e->known & VALUES)) missing |= values;
    if (missing & FIRST) missing |= gives & FIRST;
    return missing & ~e->known;
}

static gd_status ensure(gd_evaluator *e, unsigned wanted, double weight, const double *y, int64_t count)
{
    bool same;
    gd_status status = find_point(e, &same);
    if (status) return status;
    if (!same) forget(e, ~0u);
    if (gd_grad_enabled(e->ctx)) drop_broken(e, wanted);
    unsigned missing = wanted & ~e->known;
    if (!missing) {
        count_calls(e, false, false);
        return GD_OK;
    }
    gd_request request = {.wanted = with_others(e, missing),
                          .new_point = !same || !e->called,
                          .weight = weight,
                          .multipliers = y,
                          .multiplier_count = count};
    memcpy(e->point, e->now, (size_t)e->n * sizeof *e->point);
    e->called = true;
    return call(e, &request);
}

static gd_status ensure_plain(gd_evaluator *e, unsigned wanted)
{
    if (wanted & GD_WANT_HESSIAN && !e->plain) forget(e, GD_WANT_HESSIAN);
    gd_status status = ensure(e, wanted, 1, NULL, 0);
    if (!status && wanted & GD_WANT_HESSIAN) e->plain = true;
    return status;
}

/* ---- the single callbacks ---- */

/* A view, in the caller's scope: the kept value may be dropped before the caller is done. */
static gd_tensor *shown(gd_evaluator *e, int i)
{
    if (ensure_plain(e, 1u << i)) return NULL;
    gd_tensor *t = e->result[i];
    return t->node && gd_grad_enabled(e->ctx) ? gd__reshape(t, t->ndim, t->size) : gd__alias(t);
}

static gd_tensor *loss_of(void *user) { return shown(user, LOSS); }
static gd_tensor *equal_of(void *user) { return shown(user, EQUAL); }
static gd_tensor *below_of(void *user) { return shown(user, BELOW); }
static gd_tensor *residuals_of(void *user) { return shown(user, RESIDUALS); }

static gd_tensor *squares_of(void *user)
{
    gd_tensor *r = residuals_of(user);
    return r ? gd_sum(gd_square(r), NULL, false) : NULL;
}

static gd_status value_at(void *user, double *loss)
{
    gd_evaluator *e = user;
    gd_status status = ensure_plain(e, GD_WANT_LOSS);
    if (!status) *loss = gd_item(e->result[LOSS]);
    return status;
}

static gd_status gradient_at(void *user, double *loss, gd_tensor *const *grads)
{
    gd_evaluator *e = user;
    gd_status status = ensure_plain(e, GD_WANT_LOSS | GD_WANT_GRADIENT);
    if (status) return status;
    *loss = gd_item(e->result[LOSS]);
    double *g = gd__alloc_array(e->ctx, (size_t)e->n, sizeof *g);
    status = g ? gd_read_f64(e->result[GRADIENT], g, e->n) : GD_NOMEM;
    if (!status) status = gd__list_write(grads, e->count, g);
    gd__free(e->ctx, g, (size_t)e->n * sizeof *g);
    return status;
}

static gd_status jacobian_at(void *user, gd_tensor **j, gd_tensor **r)
{
    gd_evaluator *e = user;
    gd_status status = ensure_plain(e, GD_WANT_RESIDUALS | GD_WANT_RESIDUAL_JACOBIAN);
    if (status) return status;
    *j = gd__alias(e->result[RESIDUAL_JACOBIAN]);
    *r = gd__alias(e->result[RESIDUALS]);
    return *j && *r ? GD_OK : gd_error(e->ctx);
}

/* out = H v by plain sums. */
static gd_status product_at(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    gd_evaluator *e = user;
    int64_t n = e->n;
    gd_status status = ensure_plain(e, GD_WANT_HESSIAN);
    if (status) return status;
    double *h = gd__alloc_array(e->ctx, (size_t)(n * (n + 2)), sizeof *h);
    status = h ? gd_read_f64(e->result[HESSIAN], h, n * n) : GD_NOMEM;
    if (!status) status = gd__list_read(v, e->count, h + n * n);
    for (int64_t i = 0; i < n && !status; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++) sum += h[i * n + k] * h[n * n + k];
        h[n * n + n + i] = sum;
    }
    if (!status) status = gd__list_write(out, e->count, h + n * n + n);
    gd__free(e->ctx, h, (size_t)(n * (n + 2)) * sizeof *h);
    return status;
}

static gd_status given_product(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    gd_evaluator *e = user;
    return e->given.hvp(e->given.user, v, out);
}

static gd_tensor *given_values(void *user, gd_tensor *points)
{
    gd_evaluator *e = user;
    return e->given.values(e->given.user, points);
}

static const char *given_name(void *user, bool below, int64_t index)
{
    gd_evaluator *e = user;
    return e->given.constraint_name ? e->given.constraint_name(e->given.user, below, index) : NULL;
}

static void fill_made(gd_evaluator *e)
{
    unsigned gives = e->given.gives;
    bool squares = !(gives & GD_WANT_LOSS);
    gd_objective *m = &e->made;
    *m = (gd_objective){.user = e, .constraint_name = given_name};
    if (gives & GD_WANT_RESIDUAL_JACOBIAN)
        m->jacobian = jacobian_at;
    else if (gives & GD_WANT_RESIDUALS)
        m->residuals = residuals_of;
    if (gives & GD_WANT_GRADIENT) {
        m->value = value_at;
        m->gradient = gradient_at;
    } else if (!squares)
        m->loss = loss_of;
    else if (m->residuals)
        m->loss = squares_of;
    if (gives & GD_WANT_EQUAL) m->equal = equal_of;
    if (gives & GD_WANT_BELOW) m->below = below_of;
    if (e->given.hvp)
        m->hvp = given_product;
    else if (gives & GD_WANT_HESSIAN)
        m->hvp = product_at;
    if (e->given.values) m->values = given_values;
}

/* ---- derivatives of constraints ---- */

gd_tensor *gd__evaluator_jacobian(gd_evaluator *e, bool below)
{
    int i = below ? BELOW_JACOBIAN : EQUAL_JACOBIAN;
    return ensure_plain(e, 1u << i) ? NULL : e->result[i];
}

gd_tensor *gd__evaluator_with_slopes(gd_evaluator *e, bool below, gd_tensor *c)
{
    gd_tensor *j = gd__evaluator_jacobian(e, below);
    return j ? gd__with_slopes(e->params, e->count, c, j) : NULL;
}

gd_tensor *gd__evaluator_hessian(gd_evaluator *e, double weight, const double *y, int64_t count)
{
    forget(e, GD_WANT_HESSIAN);
    e->plain = weight == 1 && !y;
    return ensure(e, GD_WANT_HESSIAN, weight, y, count) ? NULL : e->result[HESSIAN];
}
