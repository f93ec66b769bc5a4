/* Nonlinear conjugate gradients: d = u + beta d, with u the update, v the one before and y = u - v.  Parameters move along
 * -d, so the direction of the literature is -d.
 *
 *   fletcher_reeves     u u / v v                          polak_ribiere       u y / v v
 *   hestenes_stiefel    -u y / d y                         dai_yuan            -u u / d y
 *   liu_storey          u y / d v                          conjugate_descent   u u / d v
 *   hager_zhang         -(u y + 2 y y (d u) / -d y) / d y   dyhs                max(0, min(dai_yuan, hestenes_stiefel))
 *
 * beta is 0 in the first step, every restart_interval steps (auto: the number of elements and one), and when its formula gives no finite
 * number. They need a line search with c2 = 0.1 after them.
 *
 * State: previous_update, direction; beta from update to apply. */
#include "gradus/link.h"

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

/* Products of the step: u update, v the previous one, y their difference, d the previous direction. */
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

static gd_status multiply(gd_tensor *const *u, gd_tensor *const *v, gd_tensor *const *d, gd_tensor *const *y,
                          int count, products *p)
{
    const struct {
        gd_tensor *const *a, *const *b;
        double *out;
    } all[] = {{u, u, &p->uu}, {v, v, &p->vv}, {u, y, &p->uy}, {y, y, &p->yy},
               {d, u, &p->du}, {d, v, &p->dv}, {d, y, &p->dy}};
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = gd_list_dot(all[i].a, all[i].b, count, all[i].out);
    return status;
}

static bool restarts(const gd_transform *t)
{
    const gd_setting *s = gd_link_get(t->link, "restart_interval", NULL);
    int64_t interval = s->kind == GD_SET_REAL ? (int64_t)s->real : s->kind == GD_SET_STRING ? 1 : 0;
    for (int i = 0; s->kind == GD_SET_STRING && i < t->count; i++) interval += gd_numel(t->keys[i]);
    return interval && gd_link_steps(t->link) % interval == 0;
}

/* The kept tensors; *all is false if one parameter has none. */
static gd_status states(const gd_transform *t, const char *slot, gd_tensor **list, bool *all)
{
    for (int i = 0; i < t->count && *all; i++) {
        *all = gd_link_has_state(t->link, t->keys[i], slot);
        if (*all && !(list[i] = gd_link_state(t->link, t->keys[i], slot)))
            return gd_error(gd_link_ctx(t->link));
    }
    return GD_OK;
}

static gd_status keep(const gd_transform *t, const char *slot, gd_tensor *const *list)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++)
        status = gd_link_set_state(t->link, t->keys[i], slot, list[i]);
    return status;
}

static gd_status update(const gd_transform *t, beta_fn fn)
{
    gd_tensor *const *u = t->tensors, **v = gd_link_scratch(t->link, 3 * t->count);
    if (!v) return gd_error(gd_link_ctx(t->link));
    gd_tensor **d = v + t->count, **y = d + t->count;
    products p = {0};
    double beta = 0;
    bool go_on = !restarts(t);
    gd_status status = states(t, "previous_update", v, &go_on);
    if (!status) status = states(t, "direction", d, &go_on);
    if (!status && go_on) {
        status = gd_list_combined(u, 1, v, -1, t->count, y);
        if (!status) status = multiply(u, v, d, y, t->count, &p);
        beta = fn(&p);
    }
    if (!isfinite(beta) || (beta < 0 && gd_link_flag(t->link, "clip_beta"))) beta = 0;
    if (!status) status = keep(t, "previous_update", u);
    return status ? status : gd_link_keep(t->link, "beta", beta);
}

static gd_status conjugate_apply(const gd_transform *t)
{
    double beta = gd_link_kept(t->link, "beta", 0);
    gd_tensor **d = gd_link_scratch(t->link, 2 * t->count), **out = d ? d + t->count : NULL;
    bool go_on = beta != 0;
    gd_status status = d ? states(t, "direction", d, &go_on) : gd_error(gd_link_ctx(t->link));
    if (!status)
        status = go_on ? gd_list_combined(t->tensors, 1, d, beta, t->count, out)
                       : gd_list_scaled(t->tensors, 1, t->count, out);
    if (!status) status = keep(t, "direction", out);
    for (int i = 0; i < t->count && !status; i++) t->tensors[i] = out[i];
    return status;
}

#define CONJUGATE(NAME, FIELDS, SUMMARY, FORMULA, PAPER)                              \
    static gd_status NAME##_update(const gd_transform *t) { return update(t, NAME); } \
    GD_LINK(conjugate_gradient, NAME, .spread = GD_SPREAD_VECTOR, .summary = SUMMARY, \
            .formula = FORMULA ";  d = u + beta d;  d", \
            .cost = "a few dot products; two vectors", .example = #NAME " | strong_wolfe", \
            .paper = PAPER, GD_FIELDS(FIELDS), GD_SLOTS(slots), .update_tensors = NAME##_update, \
            .apply_tensors = conjugate_apply, .traits.whole_settings = true, \
            .traits.reads_only = true);

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
