/* Ordinary differential equations inside an expression.
 *
 * ode: the method of Dormand & Prince (1980), order 5 with an error of order 4, and the interpolant of order 4 that belongs to it
 * (Shampine 1986).  ode_stiff: the Rosenbrock method of order 4 with an error of order 3 and Shampine's parameters (ACM TOMS 8,
 * 1982), which ends a step at every requested time.
 *
 * Every step is recorded alone, from its own leaves; its derivatives propagate the sensitivities of the states, S := dy'/dy S +
 * dy'/dp, and the result is linear in the parameters by them: the first derivatives are exactly those of the accepted steps,
 * so loss and gradient are consistent to rounding; second ones are 0. Only the choice of step sizes reads values, and memory is
 * that of one step. If the solution diverges, or needs too many steps, the rest is NaN: a fit rejects such a point. */
#include "base/ctx.h"
#include "base/observer.h"
#include "expr/expr_parser.h"
#include "gradus/autograd.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STATES 64
#define STEPS  20000 /* forwards, or backwards */
#define RTOL   1e-10
#define STIFF  1e-9 /* the same, where order 4 costs more */
#define ATOL   1e-12
#define STAGES 7

/* The kind of a variable on a right side: the index of a name from 0 on, or one of these. */
#define IS_TIME     (-1)
#define IS_STATE(s) (-2 - (s))

struct gd_expr_ode {
    gd_ctx *ctx;
    bool stiff;
    int states, names;
    const char *state[STATES]; /* interned, as are the names */
    gd_expr *side[STATES];
    int *place[STATES]; /* of each variable of a side */
    const char **name;
    size_t name_bytes;
    int most; /* variables of a side */
};

/* ---- reading ---- */

static int find(const char *const *list, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(list[i], name)) return i;
    return -1;
}

/* "x' = " at the start of an equation: the name; the right side begins at *rest. */
static const char *read_state(gd_ctx *ctx, const char *text, const char **rest)
{
    size_t length = 0;
    while (*text == ' ' || *text == '\n' || *text == '\t') text++;
    while ((text[length] >= 'a' && text[length] <= 'z') || (text[length] >= 'A' && text[length] <= 'Z') ||
           text[length] == '_' || (length && text[length] >= '0' && text[length] <= '9'))
        length++;
    const char *s = text + length;
    if (!length || *s++ != '\'') return NULL;
    while (*s == ' ') s++;
    if (*s++ != '=') return NULL;
    *rest = s;
    return gd__intern(ctx, text, length);
}

static gd_status add_equation(gd_expr_ode *o, gd_expr_parser *outer, const char *text)
{
    const char *rest, *name = read_state(o->ctx, text, &rest);
    if (gd_error(o->ctx)) return gd_error(o->ctx);
    if (!name) return gd_fail(o->ctx, GD_PARSE, "NAME' = ... expected, '%.40s' found", text);
    if (o->states == STATES) return gd_fail(o->ctx, GD_PARSE, "more than %d equations", STATES);
    if (!strcmp(name, "t")) return gd_fail(o->ctx, GD_PARSE, "t is the time, not a state");
    if (find(o->state, o->states, name) >= 0) return gd_fail(o->ctx, GD_PARSE, "%.40s' is there twice", name);
    o->side[o->states] = gd__parser_inside(outer, rest);
    if (!o->side[o->states]) return gd_error(o->ctx);
    o->state[o->states++] = name;
    return GD_OK;
}

/* Where the values of the variables of side i come from. */
static gd_status place_variables(gd_expr_ode *o, int i)
{
    int count = gd_expr_variables(o->side[i]);
    if (!(o->place[i] = gd__calloc(o->ctx, (size_t)(count + 1) * sizeof *o->place[i]))) return GD_NOMEM;
    if (count > o->most) o->most = count;
    for (int k = 0; k < count; k++) {
        const char *name = gd_expr_variable(o->side[i], k);
        int state = find(o->state, o->states, name), known = find(o->name, o->names, name);
        if (state < 0 && strcmp(name, "t") != 0 && known < 0) {
            if (!gd__grow(o->ctx, &o->name, &o->name_bytes, ((size_t)o->names + 1) * sizeof *o->name))
                return GD_NOMEM;
            known = o->names;
            if (!(o->name[o->names++] = gd__intern(o->ctx, name, strlen(name)))) return GD_NOMEM;
        }
        o->place[i][k] = state >= 0 ? IS_STATE(state) : known >= 0 ? known : IS_TIME;
    }
    return GD_OK;
}

static gd_status read_equations(gd_expr_ode *o, gd_expr_parser *outer, char *text)
{
    gd_status status = GD_OK;
    for (char *next; text && !status; text = next) {
        next = strchr(text, ';');
        if (next) *next++ = 0;
        if (text[strspn(text, " \t\n")]) status = add_equation(o, outer, text);
    }
    if (!status && !o->states) status = gd_fail(o->ctx, GD_PARSE, "no equation");
    for (int i = 0; i < o->states && !status; i++) status = place_variables(o, i);
    return status;
}

gd_expr_ode *gd__expr_ode_parse(gd_expr_parser *outer, const char *text, size_t length, bool stiff)
{
    gd_ctx *ctx = outer->e->ctx;
    gd_expr_ode *o = gd__calloc(ctx, sizeof *o);
    char *copy = o ? gd__alloc(ctx, length + 1) : NULL;
    if (o) o->ctx = ctx, o->stiff = stiff;
    gd_status status = copy ? GD_OK : GD_NOMEM;
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
        status = read_equations(o, outer, copy);
        gd__free(ctx, copy, length + 1);
    }
    if (!status) return o;
    gd__expr_ode_free(o);
    return NULL;
}

void gd__expr_ode_free(gd_expr_ode *o)
{
    if (!o) return;
    for (int i = 0; i < o->states; i++) {
        if (o->place[i])
            gd__free(o->ctx, o->place[i], (size_t)(gd_expr_variables(o->side[i]) + 1) * sizeof *o->place[i]);
        gd_expr_free(o->side[i]);
    }
    gd__free(o->ctx, o->name, o->name_bytes);
    gd__free(o->ctx, o, sizeof *o);
}

int gd__expr_ode_names(const gd_expr_ode *o) { return o->names; }
const char *gd__expr_ode_name(const gd_expr_ode *o, int i) { return o->name[i]; }

/* ---- the state of a solution ---- */

typedef struct point {
    double time;
    int64_t row;
} point;

typedef struct flow {
    const gd_expr_ode *o;
    gd_ctx *ctx;
    gd_dtype dtype;
    gd_tensor *const *values; /* of the names */
    gd_tensor **room;         /* of the variables of a side */
    gd_tensor *y, *f;         /* where a step begins, and the right side there; [states] */
    point *point;
    int64_t points, next;         /* all on this side of the start; the first not reached yet */
    double t, h, end, at[STATES]; /* numbers of y */
    double factor;                /* the most that a step may grow */
    /* Sensitivities of the states with respect to the start, then the names: all elements of those that want gradients. */
    gd_tensor **leaf, **grad; /* of the names; of all */
    int leaves;
    int64_t wide;                        /* elements of all; 0: nothing wants gradients */
    bool moving;                         /* the times want gradients */
    double *sens, *after;                /* [states, wide] now and after the step */
    double *value, *rate, *slope, *part; /* [points, states] twice, [points, states, wide]; a row of a step */
} flow;

static gd_tensor *numbers(const flow *w, int64_t rows, int64_t columns, const double *v)
{
    return gd_from_f64(w->ctx, w->dtype, columns ? 2 : 1, (int64_t[]){rows, columns}, v);
}

/* The right sides at a state and time, [states]. */
static gd_tensor *right_side(flow *w, gd_tensor *y, gd_tensor *time)
{
    const gd_expr_ode *o = w->o;
    gd_tensor *side[STATES], *state[STATES];
    for (int s = 0; s < o->states; s++)
        if (!(state[s] = gd_index(y, "0", s))) return NULL;
    for (int i = 0; i < o->states; i++) {
        for (int k = 0; k < gd_expr_variables(o->side[i]); k++) {
            int place = o->place[i][k];
            w->room[k] = place >= 0 ? w->values[place] : place == IS_TIME ? time : state[-2 - place];
        }
        if (!(side[i] = gd_expr_eval(o->side[i], w->room, w->dtype))) return NULL;
        if (gd_ndim(side[i]) != 0)
            return gd__refuse(w->ctx, GD_SHAPE,
                              "ode: the right side of %.40s' is an array, one number is needed", o->state[i]);
    }
    return gd_stack(side, o->states, 0, NULL);
}

static gd_tensor *right_side_at(flow *w, gd_tensor *y, double time)
{
    gd_tensor *t = gd_scalar(w->ctx, w->dtype, time);
    return t ? right_side(w, y, t) : NULL;
}

/* The error relative to the tolerance, a root mean square; INFINITY if a number is not finite. */
static double size_of(const flow *w, const double *error, const double *there)
{
    double sum = 0;
    for (int s = 0; s < w->o->states; s++) {
        double e = error[s] / (ATOL + (w->o->stiff ? STIFF : RTOL) * fmax(fabs(w->at[s]), fabs(there[s])));
        sum += e * e / w->o->states;
    }
    return isfinite(sum) ? sqrt(sum) : INFINITY;
}

/* ---- Dormand and Prince ---- */

static const double nodes[STAGES] = {0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1};
static const double weights[STAGES][STAGES - 1] = {
    {0},
    {1.0 / 5},
    {3.0 / 40, 9.0 / 40},
    {44.0 / 45, -56.0 / 15, 32.0 / 9},
    {19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561, -212.0 / 729},
    {9017.0 / 3168, -355.0 / 33, 46732.0 / 5247, 49.0 / 176, -5103.0 / 18656},
    {35.0 / 384, 0, 500.0 / 1113, 125.0 / 192, -2187.0 / 6784, 11.0 / 84}};
static const double errors[STAGES] = {71.0 / 57600,      0,          -71.0 / 16695, 71.0 / 1920,
                                      -17253.0 / 339200, 22.0 / 525, -1.0 / 40};
/* Powers 1 to 4 of the part of a step, by stages. */
static const double between[4][STAGES] = {
    {1, 0, 0, 0, 0, 0, 0},
    {-8048581381.0 / 2820520608, 0, 131558114200.0 / 32700410799, -1754552775.0 / 470086768,
     127303824393.0 / 49829197408, -282668133.0 / 205662961, 40617522.0 / 29380423},
    {8663915743.0 / 2820520608, 0, -68118460800.0 / 10900136933, 14199869525.0 / 1410260304,
     -318862633887.0 / 49829197408, 2019193451.0 / 616988883, -110615467.0 / 29380423},
    {-12715105075.0 / 11282082432, 0, 87487479700.0 / 32700410799, -10690763975.0 / 1880347072,
     701980252875.0 / 199316789632, -1453857185.0 / 822651844, 69997945.0 / 29380423}};

/* The states inside the step that begins at y. */
static gd_tensor *interpolated(const flow *w, gd_tensor *stages, double time)
{
    double part = (time - w->t) / w->h, share[STAGES] = {0};
    for (int i = 0; i < STAGES; i++)
        for (int k = 4; k-- > 0;) share[i] = part * (share[i] + between[k][i]);
    for (int i = 0; i < STAGES; i++) share[i] *= w->h;
    return gd_add(w->y, gd_matmul(numbers(w, STAGES, 0, share), stages));
}

/* A step of size h; *error relative to the tolerance. *there: its end; *stages: for the points inside. */
static gd_status dormand_prince(flow *w, double *error, double *there, gd_tensor **y, gd_tensor **stages)
{
    int states = w->o->states;
    gd_tensor *k[STAGES] = {w->f};
    double wrong[STATES] = {0}, v[STATES];
    for (int s = 1; s < STAGES; s++) {
        double row[STAGES];
        for (int i = 0; i < s; i++) row[i] = w->h * weights[s][i];
        gd_tensor *all = gd_stack(k, s, 0, NULL);
        *y = gd_add(w->y, gd_matmul(numbers(w, s, 0, row), all));
        if (!*y || !(k[s] = right_side_at(w, *y, w->t + nodes[s] * w->h))) return gd_error(w->ctx);
    }
    for (int s = 0; s < STAGES; s++) {
        gd_status status = gd_read_f64(k[s], v, states);
        if (status) return status;
        for (int i = 0; i < states; i++) wrong[i] += w->h * errors[s] * v[i];
    }
    gd_status status = gd_read_f64(*y, there, states);
    *stages = status ? NULL : gd_stack(k, STAGES, 0, NULL);
    *error = size_of(w, wrong, there);
    return status || *stages ? status : gd_error(w->ctx);
}

/* ---- Rosenbrock ---- */

/* d f / d y [states, states] and d f / d t [states], with history: of the right side at y + u and t + v, by u and v at 0. */
static gd_status slopes(flow *w, gd_tensor **jacobian, gd_tensor **drift)
{
    int states = w->o->states;
    gd_tensor *row[STATES], *rate[STATES];
    gd_tensor *u = gd_require_grad(gd_zeros(w->ctx, w->dtype, 1, (int64_t[]){states}));
    gd_tensor *v = gd_require_grad(gd_scalar(w->ctx, w->dtype, 0));
    if (!u || !v) return gd_error(w->ctx);
    gd_tensor *f = right_side(w, gd_add(w->y, u), gd_add_scalar(v, w->t));
    if (!f) return gd_error(w->ctx);
    for (int i = 0; i < states; i++) {
        gd_tensor *by[2] = {NULL, NULL}, *one = gd_index(f, "0", i);
        bool moves = one && gd_requires_grad(one);
        if (moves && gd_grad(one, NULL, (gd_tensor *[]){u, v}, 2, GD_CREATE_GRAPH | GD_ALLOW_UNUSED, by))
            return gd_error(w->ctx);
        row[i] = by[0] ? by[0] : gd_zeros(w->ctx, w->dtype, 1, (int64_t[]){states});
        rate[i] = by[1] ? by[1] : gd_scalar(w->ctx, w->dtype, 0);
        if (!row[i] || !rate[i]) return gd_error(w->ctx);
    }
    *jacobian = gd_stack(row, states, 0, NULL);
    *drift = gd_stack(rate, states, 0, NULL);
    return *jacobian && *drift ? GD_OK : gd_error(w->ctx);
}

/* A^-1 (f + c h df/dt + sum of shares g / h) */
static gd_tensor *stage(const flow *w, gd_tensor *a, gd_tensor *f, gd_tensor *drift, double c,
                        gd_tensor *const *g, const double *share, int count)
{
    gd_tensor *b = gd_add(f, gd_mul_scalar(drift, c * w->h));
    for (int i = 0; i < count; i++) b = gd_add(b, gd_mul_scalar(g[i], share[i] / w->h));
    return b ? gd_solve(a, b) : NULL;
}

static gd_tensor *moved(gd_tensor *y, gd_tensor *const *g, const double *share, int count)
{
    for (int i = 0; i < count; i++) y = gd_add(y, gd_mul_scalar(g[i], share[i]));
    return y;
}

static gd_status rosenbrock(flow *w, double *error, double *there, gd_tensor **y)
{
    static const double to_second[] = {2}, to_third[] = {48.0 / 25, 6.0 / 25}, second[] = {-8},
                        third[] = {372.0 / 25, 12.0 / 5}, fourth[] = {-112.0 / 125, -54.0 / 125, -2.0 / 5},
                        result[] = {19.0 / 9, 0.5, 25.0 / 108, 125.0 / 108},
                        wrong[] = {17.0 / 54, 7.0 / 36, 0, 125.0 / 108};
    int states = w->o->states;
    double v[STATES], off[STATES] = {0};
    gd_tensor *j = NULL, *drift = NULL, *g[4] = {NULL};
    gd_status status = slopes(w, &j, &drift);
    if (status) return status;
    gd_tensor *a = gd_sub(gd_mul_scalar(gd_eye(w->ctx, w->dtype, states, states), 2 / w->h), j);
    g[0] = a ? stage(w, a, w->f, drift, 0.5, NULL, NULL, 0) : NULL;
    gd_tensor *f = g[0] ? right_side_at(w, moved(w->y, g, to_second, 1), w->t + w->h) : NULL;
    g[1] = f ? stage(w, a, f, drift, -1.5, g, second, 1) : NULL;
    f = g[1] ? right_side_at(w, moved(w->y, g, to_third, 2), w->t + 0.6 * w->h) : NULL;
    g[2] = f ? stage(w, a, f, drift, 121.0 / 50, g, third, 2) : NULL;
    g[3] = g[2] ? stage(w, a, f, drift, 29.0 / 250, g, fourth, 3) : NULL;
    *y = g[3] ? moved(w->y, g, result, 4) : NULL;
    if (!*y) return gd_error(w->ctx);
    for (int s = 0; s < 4 && !status; s++) {
        status = gd_read_f64(g[s], v, states);
        for (int i = 0; i < states && !status; i++) off[i] += wrong[s] * v[i];
    }
    if (!status) status = gd_read_f64(*y, there, states);
    *error = status ? INFINITY : size_of(w, off, there);
    return status;
}

/* ---- steps ---- */

static double rms(const flow *w, const double *v)
{
    double sum = 0;
    for (int s = 0; s < w->o->states; s++) {
        double x = v[s] / (ATOL + RTOL * fabs(w->at[s]));
        sum += x * x / w->o->states;
    }
    return sqrt(sum);
}

/* The first step: so long that the state changes by one percent (Hairer, Norsett & Wanner 1993, II.4). */
static gd_status first_step(flow *w)
{
    double slope[STATES], whole = w->end - w->t;
    gd_status status = gd_read_f64(w->f, slope, w->o->states);
    double size = rms(w, w->at), speed = rms(w, slope),
           h = size < 1e-5 || speed < 1e-5 ? 1e-6 : 0.01 * size / speed;
    if (!(h <= fabs(whole))) h = fabs(whole);
    w->h = copysign(h, whole);
    w->factor = 10;
    return status;
}

/* After a rejected step; true if the next becomes too short. */
static bool shorten(flow *w, double error, double power)
{
    w->h *= isfinite(error) ? fmax(0.9 * pow(error, power), 0.2) : 0.1;
    w->factor = 1;
    return fabs(w->h) < 16 * DBL_EPSILON * fmax(fabs(w->t), DBL_MIN / DBL_EPSILON);
}

/* ---- sensitivities ---- */

/* The derivatives of a number of a step, by its states and by the names: part[0 .. states) and behind. */
static gd_status differentiate(flow *w, gd_tensor *one)
{
    int states = w->o->states;
    bool moves = gd_requires_grad(one);
    w->leaf[w->leaves] = w->y;
    for (int k = 0; k <= w->leaves; k++) w->grad[k] = NULL;
    gd_status status = moves ? gd_grad(one, NULL, w->leaf, w->leaves + 1, GD_RETAIN_GRAPH | GD_ALLOW_UNUSED,
                                       w->grad)
                             : GD_OK;
    double *to = w->part + states;
    for (int k = 0; k <= w->leaves && !status; k++) {
        int64_t size = gd_numel(w->leaf[k]);
        double *into = k == w->leaves ? w->part : to;
        memset(into, 0, (size_t)size * sizeof *into);
        if (w->grad[k]) status = gd_read_f64(w->grad[k], into, size);
        if (k < w->leaves) to += size;
    }
    return status;
}

/* The sensitivities of states y of the step, [states, wide]: dy/dy0 S + [0, dy/dp]; the first columns are the start's. */
static gd_status carry(flow *w, gd_tensor *y, double *out)
{
    int states = w->o->states;
    gd_status status = GD_OK;
    for (int i = 0; i < states && !status && w->wide; i++) {
        double *row = out + i * w->wide;
        gd_tensor *one = gd_index(y, "0", i);
        status = one ? differentiate(w, one) : gd_error(w->ctx);
        for (int64_t k = 0; k < w->wide && !status; k++) {
            row[k] = k < states ? 0 : w->part[k];
            for (int s = 0; s < states; s++) row[k] += w->part[s] * w->sens[s * w->wide + k];
        }
    }
    return status;
}

/* Point `next` is at y, with sensitivities `from`, or computed ones. */
static gd_status note_point(flow *w, gd_tensor *y, const double *from)
{
    int64_t states = w->o->states, place = w->next * states;
    double *slope = w->slope + place * w->wide;
    gd_status status = gd_read_f64(y, w->value + place, states);
    gd_tensor *f = w->moving ? right_side_at(w, y, w->point[w->next].time) : NULL;
    if (w->moving && !status) status = f ? gd_read_f64(f, w->rate + place, states) : gd_error(w->ctx);
    if (!status && from && w->wide) memcpy(slope, from, (size_t)(states * w->wide) * sizeof *slope);
    if (!status && !from) status = carry(w, y, slope);
    w->next++;
    return status;
}

/* ---- steps, each recorded alone ---- */

/* The points that a step to y at `end` has passed. */
static gd_status note_points(flow *w, gd_tensor *y, gd_tensor *stages, double end)
{
    gd_status status = GD_OK;
    while (w->next < w->points && !status) {
        double time = w->point[w->next].time;
        if (time == end)
            status = note_point(w, y, w->after);
        else if (stages && (w->h > 0 ? time < end : time > end)) {
            gd_tensor *inside = interpolated(w, stages, time);
            status = inside ? note_point(w, inside, NULL) : gd_error(w->ctx);
        } else
            break;
    }
    return status;
}

/* One attempt; true if a further attempt makes no sense.  A stiff step ends at every point. */
static gd_status attempt(flow *w, bool *hopeless)
{
    double error = INFINITY, there[STATES], target = w->o->stiff ? w->point[w->next].time : w->end;
    double wanted = w->h, power = w->o->stiff ? -0.25 : -0.2;
    bool last = fabs(w->h) >= fabs(target - w->t);
    gd_tensor *y = NULL, *stages = NULL;
    if (last) w->h = target - w->t;
    double end = last ? target : w->t + w->h;
    gd_status status = w->o->stiff ? rosenbrock(w, &error, there, &y)
                                   : dormand_prince(w, &error, there, &y, &stages);
    if (status == GD_SINGULAR) gd_clear_error(w->ctx), status = GD_OK, error = INFINITY;
    if (status) return status;
    if (!(error <= 1)) {
        *hopeless = shorten(w, error, power);
        return GD_OK;
    }
    status = carry(w, y, w->after);
    if (!status) status = note_points(w, y, stages, end);
    double size = w->h * fmin(fmax(0.9 * pow(error, power), 0.2), w->factor), *swap = w->sens;
    w->sens = w->after;
    w->after = swap;
    w->t = end;
    w->h = last && fabs(wanted) > fabs(size) ? wanted : size;
    w->factor = 10;
    memcpy(w->at, there, sizeof w->at);
    return status;
}

/* The start as a leaf with its right side, then a computation from there. */
static gd_status from_here(flow *w, gd_status (*then)(flow *w, bool *hopeless), bool *hopeless)
{
    gd_scope_begin(w->ctx);
    int previous = gd_enable_grad_begin(w->ctx);
    w->y = gd_require_grad(numbers(w, w->o->states, 0, w->at));
    w->f = w->y ? right_side_at(w, w->y, w->t) : NULL;
    gd_status status = w->f ? then(w, hopeless) : gd_error(w->ctx);
    gd_enable_grad_end(w->ctx, previous);
    gd_scope_end(w->ctx);
    return status;
}

static gd_status begin(flow *w, bool *hopeless)
{
    gd_status status = first_step(w);
    (void)hopeless;
    while (w->next < w->points && !status && w->point[w->next].time == w->t)
        status = note_point(w, w->y, w->sens);
    return status;
}

/* Before a pole, steps become too short to reach the end of the interval.  If this many steps in a row cover less than this fraction
 * of the remaining interval, the solution is given up, long before the limit of steps.  A fit avoids such a point. */
#define STEPS_TO_JUDGE 1000
#define LEAST_PROGRESS 0.01

/* from: start of the present sequence of steps. */
static bool gets_nowhere(const flow *w, double *from, int steps)
{
    if (steps % STEPS_TO_JUDGE != STEPS_TO_JUDGE - 1) return false;
    bool stuck = fabs(w->t - *from) < LEAST_PROGRESS * fabs(w->end - *from);
    *from = w->t;
    return stuck;
}

static gd_status listen(const flow *w)
{
    if (!gd__is_interrupted(w->ctx->observer)) return GD_OK;
    return gd_fail(w->ctx, GD_INTERRUPTED, "ode: interrupted");
}

/* From the start through all points on one side of it; unreachable points are NaN. */
static gd_status integrate(flow *w)
{
    bool hopeless = false;
    int64_t states = w->o->states;
    memset(w->sens, 0, (size_t)(states * w->wide) * sizeof(double));
    for (int s = 0; s < states && w->wide; s++) w->sens[s * w->wide + s] = 1;
    w->end = w->point[w->points - 1].time;
    double from = w->t;
    gd_status status = from_here(w, begin, &hopeless);
    for (int i = 0; i < STEPS && !status && w->next < w->points && !hopeless; i++) {
        status = listen(w);
        if (!status) status = from_here(w, attempt, &hopeless);
        hopeless = hopeless || gets_nowhere(w, &from, i);
    }
    for (int64_t i = w->next * states; i < w->points * states; i++) w->value[i] = w->rate[i] = NAN;
    for (int64_t i = w->next * states * w->wide; i < w->points * states * w->wide; i++) w->slope[i] = 0;
    return status;
}

/* ---- results ---- */

/* Zeros with the history of the start and the names, [wide]. */
static gd_tensor *differences(const flow *w, gd_tensor *const *values, gd_tensor *x0)
{
    gd_tensor **term = w->grad;
    term[0] = gd_sub(x0, gd_detach(x0));
    for (int k = 0, n = 0; n < w->o->names; n++) {
        gd_tensor *t = values[n];
        if (!gd_requires_grad(t)) continue;
        term[++k] = gd_reshape(gd_sub(t, gd_detach(t)), 1, (int64_t[]){gd_numel(t)});
        if (!term[k]) return NULL;
    }
    return term[0] ? gd_cat(term, w->leaves + 1, "0") : NULL;
}

/* Values [points, states] from numbers, linear in the start and the names. */
static gd_tensor *with_slopes(const flow *w, gd_tensor *const *values, gd_tensor *x0, gd_tensor *times,
                              int64_t points)
{
    int64_t states = w->o->states, all = points * states;
    gd_tensor *v = numbers(w, all, 0, w->value);
    if (w->wide && v) {
        gd_tensor *by = differences(w, values, x0), *slope = numbers(w, all, w->wide, w->slope);
        v = by && slope ? gd_add(v, gd_matmul(slope, by)) : NULL;
    }
    v = v ? gd_reshape(v, 2, (int64_t[]){points, states}) : NULL;
    if (!w->moving || !v) return v;
    gd_tensor *moved_by = gd_unsqueeze(gd_sub(times, gd_detach(times)), 1, NULL);
    gd_tensor *rate = gd_reshape(numbers(w, all, 0, w->rate), 2, (int64_t[]){points, states});
    return moved_by && rate ? gd_add(v, gd_mul(rate, moved_by)) : NULL;
}

/* The names as leaves. */
static gd_status make_leaves(flow *w, gd_tensor *x0, gd_tensor *const *values, gd_tensor **own)
{
    bool any = gd_requires_grad(x0);
    w->wide = w->o->states;
    for (int n = 0; n < w->o->names; n++) {
        own[n] = values[n];
        if (!gd_requires_grad(values[n])) continue;
        any = true;
        if (!(own[n] = gd_require_grad(gd_copy(gd_detach(values[n]))))) return gd_error(w->ctx);
        w->leaf[w->leaves++] = own[n];
        w->wide += gd_numel(values[n]);
    }
    if (!any) w->wide = 0;
    w->values = own;
    return GD_OK;
}

/* ---- points ---- */

static int earlier(const void *a, const void *b)
{
    const point *x = a, *y = b;
    return x->time < y->time ? -1 : x->time > y->time ? 1 : x->row < y->row ? -1 : x->row > y->row;
}

/* Rows of `all` [points, states], which are sorted by point, back to their original order; then states first. */
static gd_tensor *in_order(const flow *w, gd_tensor *all, const point *list, int64_t count, int64_t *room)
{
    bool sorted = true;
    for (int64_t i = 0; i < count; i++) {
        room[list[i].row] = i;
        sorted = sorted && list[i].row == i;
    }
    if (!sorted && all) all = gd_index_select(all, "0", gd_from_data(w->ctx, GD_I64, 1, &count, room));
    if (!all) return NULL;
    return w->o->states == 1 ? gd_index(all, "1", 0) : gd_transpose(all, 0, 1);
}

/* Points before the start backwards from it, the others forwards. */
static gd_status both_ways(flow *w, point *list, int64_t count, gd_tensor *x0, double t0)
{
    int64_t before = 0, states = w->o->states;
    gd_status status = GD_OK;
    while (before < count && list[before].time < t0) before++;
    for (int64_t i = 0, k = before - 1; i < k; i++, k--) {
        point other = list[i];
        list[i] = list[k];
        list[k] = other;
    }
    for (int side = 0; side < 2 && !status; side++) {
        flow part = *w;
        int64_t first = side ? before : 0, last = side ? count : before;
        part.t = t0;
        part.point = list + first;
        part.points = last - first;
        part.value += first * states;
        part.rate += first * states;
        part.slope += first * states * w->wide;
        status = gd_read_f64(x0, part.at, states);
        if (!status && part.points) status = integrate(&part);
    }
    return status;
}

/* Memory for all points in one block. */
static gd_tensor *solve_points(flow *w, gd_tensor *const *values, gd_tensor *x0, gd_tensor *t, double t0,
                               point *list, int64_t *room)
{
    int64_t count = gd_numel(t), states = w->o->states;
    size_t doubles = (size_t)(count * states * (2 + w->wide) + 2 * states * w->wide + states + w->wide + 1);
    double *block = gd__alloc_array(w->ctx, doubles, sizeof *block);
    if (!block) return NULL;
    w->value = block;
    w->rate = w->value + count * states;
    w->slope = w->rate + count * states;
    w->sens = w->slope + count * states * w->wide;
    w->after = w->sens + states * w->wide;
    w->part = w->after + states * w->wide;
    gd_status status = both_ways(w, list, count, x0, t0);
    for (int64_t i = 0; i < count; i++) room[i] = list[i].row;
    gd_tensor *times = !status && w->moving
                           ? gd_index_select(t, "0", gd_from_data(w->ctx, GD_I64, 1, &count, room))
                           : t;
    gd_tensor *out = status || !times
                         ? NULL
                         : in_order(w, with_slopes(w, values, x0, times, count), list, count, room);
    gd__free(w->ctx, block, doubles * sizeof *block);
    return out;
}

static gd_tensor *solve(flow *w, gd_tensor *const *values, gd_tensor *x0, gd_tensor *t, double t0)
{
    gd_ctx *ctx = w->ctx;
    int64_t count = gd_numel(t), names = w->o->names + 2;
    size_t bytes = (size_t)count * (sizeof(point) + sizeof(int64_t) + sizeof(double)),
           lists = (size_t)(3 * names + w->o->most + 1) * sizeof(gd_tensor *);
    point *list = gd__alloc(ctx, bytes);
    w->leaf = gd__calloc(ctx, lists);
    gd_tensor *out = NULL;
    if (list && w->leaf) {
        int64_t *room = (int64_t *)(void *)(list + count);
        double *time = (double *)(void *)(room + count);
        w->grad = w->leaf + names;
        w->room = w->grad + 2 * names;
        gd_status status = gd_read_f64(t, time, count);
        for (int64_t i = 0; i < count; i++) list[i] = (point){time[i], i};
        qsort(list, (size_t)count, sizeof *list, earlier);
        if (!status) status = make_leaves(w, x0, values, w->grad + names);
        if (!status) out = solve_points(w, values, x0, t, t0, list, room);
    }
    gd__free(ctx, list, list ? bytes : 0);
    gd__free(ctx, w->leaf, w->leaf ? lists : 0);
    return out;
}

gd_tensor *gd__expr_ode_solve(const gd_expr_ode *o, gd_tensor *x0, gd_tensor *t, gd_tensor *t0,
                              gd_tensor *const *values, gd_dtype dtype)
{
    gd_ctx *ctx = o->ctx;
    flow w = {.o = o, .ctx = ctx, .dtype = dtype, .moving = gd_requires_grad(t)};
    if (gd_tensor_device(t) != gd_device_get(ctx, "cpu"))
        return gd__refuse(ctx, GD_DEVICE, "ode: on the CPU only");
    if (gd_ndim(t) > 1 || gd_ndim(t0) != 0)
        return gd__refuse(ctx, GD_SHAPE, "ode: times are a number or a vector, the start is a number");
    bool one = gd_ndim(x0) == 0 && o->states == 1;
    if (!one && (gd_ndim(x0) != 1 || gd_numel(x0) != o->states))
        return gd__refuse(ctx, GD_SHAPE, "ode: %d equations and %lld start values", o->states,
                          (long long)gd_numel(x0));
    if (gd_requires_grad(t0))
        return gd__refuse(ctx, GD_ARGUMENT, "ode: the time of the start may not depend on parameters");
    if (gd_numel(t) == 0) return gd__refuse(ctx, GD_SHAPE, "ode: no times");
    gd_tensor *start = gd_reshape(x0, 1, (int64_t[]){o->states});
    gd_tensor *times = gd_reshape(t, 1, (int64_t[]){gd_numel(t)});
    gd_tensor *out = start && times ? solve(&w, values, start, times, gd_item(t0)) : NULL;
    return out && gd_ndim(t) == 0 ? gd_index(out, o->states == 1 ? "0" : "1", 0) : out;
}
