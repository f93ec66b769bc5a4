/* Nonlinear conjugate gradients: d = u + beta d, with u the update, v the one before and y = u - v.  Parameters move along
 * -d, so the direction of the literature is -d.
 *
 *   fletcher_reeves     u u / v v                          polak_ribiere       u y / v v
 *   hestenes_stiefel    -u y / d y                         dai_yuan            -u u / d y
 *   liu_storey          u y / d v                          conjugate_descent   u u / d v
 *   hager_zhang         -(u y + 2 y y (d u) / -d y) / d y   dyhs                max(0, min(dai_yuan, hestenes_stiefel))
 *
 * beta is 0 in the first step, every restart_interval steps (auto: the number of elements and one), and where its formula gives no
 * number.  They want a line search with c2 = 0.1 after them.
 *
 * State: previous_update, direction; beta from update to apply. */
#include "optim/methods/line.h"
#include "optim/step/optimizer.h"

#include <math.h>

#define RESTART                                                                                          \
    {                                                                                                    \
        .name = "restart_interval", .kinds = GD_SET_REAL | GD_SET_STRING | GD_SET_NONE,                  \
        .fallback = {.kind = GD_SET_STRING, .string = "auto"}, .low = 1, .high = 1e15, .integer = true,  \
        .choices = "auto", .help = "steps from restart to restart; auto: the number of elements and one" \
    }
#define CLIP(d) GD_FLAG("clip_beta", d, "beta is at least 0")
#define INNER   GD_INNER("links that change the update before the direction is added")

static const gd_field fields[] = {RESTART, CLIP(false), INNER};
static const gd_field polak_ribiere_fields[] = {CLIP(true), RESTART, INNER};
static const gd_slot slots[] = {{"previous_update", true}, {"direction", false}};

/* Products of the step: u update, v the one before, y their difference, d the direction before. */
typedef struct products {
    double uu, vv, uy, yy, du, dv, dy;
} products;

typedef double (*beta_fn)(const products *p);

static double fletcher_reeves(const products *p) { return p->uu / p->vv; }
static double polak_ribiere(const products *p) { return p->uy / p->vv; }
static double hestenes_stiefel(const products *p) { return -p->uy / p->dy; }
static double dai_yuan(const products *p) { return -p->uu / p->dy; }
static double liu_storey(const products *p) { return p->uy / p->dv; }
static double conjugate_descent(const products *p) { return p->uu / p->dv; }
static double hager_zhang(const products *p) { return -(p->uy - 2 * p->yy * p->du / p->dy) / p->dy; }
static double dyhs(const products *p) { return fmax(0, fmin(dai_yuan(p), hestenes_stiefel(p))); }

static gd_status multiply(const gd_layout *l, gd_tensor *const *u, gd_tensor *const *v, gd_tensor *const *d,
                          gd_tensor *const *y, products *p)
{
    const struct {
        gd_tensor *const *a, *const *b;
        double *out;
    } all[] = {{u, u, &p->uu}, {v, v, &p->vv}, {u, y, &p->uy}, {y, y, &p->yy},
               {d, u, &p->du}, {d, v, &p->dv}, {d, y, &p->dy}};
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = gd__list_dot(l, all[i].a, all[i].b, all[i].out);
    return status;
}

static bool restarts(const gd_link *link, int64_t elements)
{
    const gd_setting *s = gd_link_get(link, "restart_interval", NULL);
    int64_t interval = s->kind == GD_SET_STRING ? elements + 1
                       : s->kind == GD_SET_REAL ? (int64_t)s->real
                                                : 0;
    return interval && link->step % interval == 0;
}

static gd_status states(gd_link *link, gd_var *var, const char *slot, gd_tensor **list)
{
    for (int i = 0; i < gd_var_count(var); i++)
        if (!(list[i] = gd_link_state(link, gd_var_params(var)[i], slot))) return gd_error(gd_var_ctx(var));
    return GD_OK;
}

static bool has_all(gd_link *link, gd_var *var, const char *slot)
{
    for (int i = 0; i < gd_var_count(var); i++)
        if (!gd_link_has_state(link, gd_var_params(var)[i], slot)) return false;
    return true;
}

static gd_status keep(gd_link *link, gd_var *var, const char *slot, gd_tensor *const *list)
{
    gd_status status = GD_OK;
    for (int i = 0; i < gd_var_count(var) && !status; i++)
        status = gd_link_set_state(link, gd_var_params(var)[i], slot, list[i]);
    return status;
}

static gd_status find_beta(gd_link *link, gd_var *var, const gd_layout *l, gd_tensor *const *u, beta_fn fn,
                           double *beta)
{
    int count = gd_var_count(var);
    gd_tensor **v = gd_link_scratch(link, 3 * count);
    if (!v) return gd_error(l->ctx);
    gd_tensor **d = v + count, **y = d + count;
    products p = {0};
    gd_status status = states(link, var, "previous_update", v);
    if (!status) status = states(link, var, "direction", d);
    if (!status) status = gd__list_combined(l, u, 1, v, -1, y);
    if (!status) status = multiply(l, u, v, d, y, &p);
    *beta = status ? 0 : fn(&p);
    if (!isfinite(*beta) || (*beta < 0 && gd_link_flag(link, "clip_beta"))) *beta = 0;
    return status;
}

static gd_status update(gd_link *link, gd_var *var, beta_fn fn)
{
    gd_layout l;
    gd_tensor *const *u = gd_var_read_update(var);
    gd_status status = gd__layout_init(&l, gd_var_ctx(var), gd_var_params(var), gd_var_count(var));
    if (status || !u) {
        gd__layout_free(&l);
        return gd_error(l.ctx);
    }
    double beta = 0;
    bool go_on = has_all(link, var, "previous_update") && has_all(link, var, "direction");
    if (go_on && !restarts(link, l.total)) status = find_beta(link, var, &l, u, fn, &beta);
    if (!status) status = keep(link, var, "previous_update", u);
    if (!status) status = gd__keep_number(link, "beta", beta);
    if (!status) link->step++;
    gd__layout_free(&l);
    return status;
}

static gd_status apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    double beta = gd__kept(link, "beta", 0);
    gd_link *inner = gd_link_child(link, "inner");
    gd_tensor *const *u = gd_var_read_update(var);
    gd_tensor **out = gd_link_scratch(link, 3 * count);
    gd_layout l;
    gd_status status = gd__layout_init(&l, ctx, gd_var_params(var), count);
    if (status || !u || !out) {
        gd__layout_free(&l);
        return gd_error(ctx);
    }
    gd_tensor **d = out + count, **list = d + count;
    for (int i = 0; i < count && inner; i++) {
        gd__retain(u[i]);
        list[i] = u[i];
    }
    if (inner) status = gd__link_transform(inner, list, gd_var_params(var), gd_var_grad(var), var, count);
    if (inner) u = list;
    if (!status && beta != 0) {
        status = states(link, var, "direction", d);
        if (!status) status = gd__list_combined(&l, u, 1, d, beta, out);
    } else if (!status)
        status = gd__list_scaled(&l, u, 1, out);
    if (!status) status = keep(link, var, "direction", out);
    if (!status) status = gd_var_set_update(var, out);
    for (int i = 0; i < count && inner; i++) gd__release(list[i]);
    gd__layout_free(&l);
    return status;
}

#define CONJUGATE(NAME, FIELDS, SUMMARY, FORMULA, PAPER)                                           \
    static gd_status NAME##_update(gd_link *link, gd_var *var) { return update(link, var, NAME); } \
    const gd_link_class gd_link_##NAME = {                                                         \
        .spread = GD_SPREAD_VECTOR,                                                                \
        .name = #NAME,                                                                             \
        .family = "conjugate_gradient",                                                            \
        .summary = SUMMARY,                                                                        \
        .formula = FORMULA,                                                                        \
        .cost = "a few dot products; two vectors",                                                 \
        .example = #NAME " | strong_wolfe",                                                        \
        .paper = PAPER,                                                                            \
        GD_FIELDS(FIELDS),                                                                         \
        GD_SLOTS(slots),                                                                           \
        .update = NAME##_update,                                                                   \
        .apply = apply,                                                                            \
    };

CONJUGATE(conjugate_descent, fields, "conjugate gradients, Fletcher's conjugate descent", "beta = u u / d v",
          "Fletcher, Practical methods of optimization, 1987")
CONJUGATE(dai_yuan, fields, "conjugate gradients of Dai and Yuan", "beta = -u u / d y",
          "Dai & Yuan, A nonlinear conjugate gradient method with a strong global convergence property, 1999")
CONJUGATE(dyhs, fields, "conjugate gradients, Dai-Yuan and Hestenes-Stiefel together",
          "beta = max(0, min(dai_yuan, hestenes_stiefel))",
          "Dai & Yuan, An efficient hybrid conjugate gradient method for unconstrained optimization, 2001")
CONJUGATE(fletcher_reeves, fields, "conjugate gradients of Fletcher and Reeves", "beta = u u / v v",
          "Fletcher & Reeves, Function minimization by conjugate gradients, 1964")
CONJUGATE(
    hager_zhang, fields, "conjugate gradients of Hager and Zhang", "beta = -(u y - 2 y y (d u) / d y) / d y",
    "Hager & Zhang, A new conjugate gradient method with guaranteed descent and an efficient line search, 2005")
CONJUGATE(hestenes_stiefel, fields, "conjugate gradients of Hestenes and Stiefel", "beta = -u y / d y",
          "Hestenes & Stiefel, Methods of conjugate gradients for solving linear systems, 1952")
CONJUGATE(liu_storey, fields, "conjugate gradients of Liu and Storey", "beta = u y / d v",
          "Liu & Storey, Efficient generalized conjugate gradient algorithms, 1991")
CONJUGATE(polak_ribiere, polak_ribiere_fields, "conjugate gradients of Polak and Ribiere",
          "beta = max(0, u y / v v)",
          "Polak & Ribiere, Note sur la convergence de methodes de directions conjuguees, 1969")
