/* Curvature where a least-squares fit stops.
 *
 * Gauss-Newton steps cannot leave a point where columns of the Jacobian coincide: two exponentials that start equal stay equal.
 * The full Hessian J^T J + sum r_i r_i'' gives a direction out, and distinguishes a saddle from undetermined parameters.
 * With D the norms of the columns and l the smallest eigenvalue of D^-1 H D^-1, relative to the largest in size:
 *
 *     l < -1e-8        a saddle, whether J v = 0 or not: search along +-v, then on
 *     |l| <= 1e-8      if a singular value of J D^-1 is zero within rounding too: not determined, and reported
 *     otherwise        a minimum
 *
 * The second line also uses J, because eigenvalues are squares: regressions of condition 6e4 have a perfectly good minimum
 * with l = 3e-10. */
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/solve/solve_fit.h"
#include "optim/vector/jacobian.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DENSE      500  /* parameters up to which the Hessian is made */
#define LANCZOS    160  /* products with it beyond */
#define ESCAPES    12   /* saddles left in one fit */
#define FIRST_MOVE 0.1  /* of a search, by the size of the scaled point */
#define MOVES      16   /* of a search, each a third of the one before */
#define SLIDE      2    /* how far along a valley the next check is made, in units of the same size */
#define HERE       1e-9 /* relative to the same size: distance within which a Hessian of many rows is reused */
#define SAME       1e-12 /* difference from 1 of the cosine of equal columns */
#define NAMED      6     /* parameters listed in a sentence */

/* ---- the smallest eigenvalue ---- */

typedef struct curvature {
    double least, most; /* smallest eigenvalue; largest in size */
    double *v;          /* vector of the smallest, [n] */
    bool known;
} curvature;

static bool all_finite(const double *v, int64_t n)
{
    bool finite = true;
    for (int64_t i = 0; i < n; i++) finite = finite && isfinite(v[i]);
    return finite;
}

/* The spectrum of a symmetric matrix [n, n]; values [n] is scratch memory. */
static gd_status spectrum(gd_tensor *h, int64_t n, double *values, curvature *out)
{
    gd_tensor *list = NULL, *vectors = NULL, *size = gd_norm(h, 2, NULL, false);
    if (!size) return gd_error(gd_tensor_ctx(h));
    if (!isfinite(gd_item(size))) return GD_OK;
    gd_status status = gd_eigh(h, &list, &vectors);
    if (!status) status = gd_read_f64(list, values, n);
    gd_tensor *first = status ? NULL : gd_index(vectors, "1", 0);
    if (!status) status = first ? gd_read_f64(first, out->v, n) : gd_error(gd_tensor_ctx(h));
    if (status) return status;
    out->least = values[0];
    out->most = fmax(fabs(values[0]), fabs(values[n - 1]));
    out->known = all_finite(out->v, n);
    return GD_OK;
}

/* Does h minus the largest flat eigenvalue have a Cholesky factor? Then all eigenvalues are larger: this costs a twentieth of computing
 * them. */
static gd_status certain(gd_tensor *h, int64_t n, curvature *out)
{
    gd_ctx *ctx = gd_tensor_ctx(h);
    gd_tensor *size = gd_norm(h, 2, NULL, false);
    double most = size ? gd_item(size) : NAN;
    gd_tensor *shift = isfinite(most) ? gd_mul_scalar(gd_eye(ctx, GD_F64, n, n), GD_FLAT_CURVED * most)
                                      : NULL;
    out->known = shift && gd_cholesky(gd_sub(h, shift)) != NULL;
    out->least = out->most = most;
    if (gd_error(ctx) == GD_SINGULAR) gd_clear_error(ctx);
    return gd_error(ctx);
}

static gd_status dense(gd_lsq *p, curvature *out)
{
    gd_scope_begin(p->ctx);
    gd_tensor *h = gd__lsq_hessian(p, HERE);
    gd_no_grad_begin(p->ctx);
    gd_status status = h ? certain(h, p->n, out) : gd_error(p->ctx);
    if (!status && !out->known) status = spectrum(h, p->n, p->a, out);
    gd_no_grad_end(p->ctx);
    gd_scope_end(p->ctx);
    return status;
}

/* ---- many parameters: Lanczos, with every vector made orthogonal to all before ---- */

typedef struct krylov {
    gd_lsq *p;
    gd_tensor **grads, **product; /* gradient with history, its products; [count] each */
    double *basis, *small;        /* [LANCZOS + 1, n]; the tridiagonal matrix, at most [LANCZOS, LANCZOS] */
    double alpha[LANCZOS], beta[LANCZOS];
} krylov;

/* out = D^-1 H D^-1 in, without the fixed parameters. */
static gd_status times(krylov *k, const double *in, double *out)
{
    gd_lsq *p = k->p;
    for (int64_t i = 0; i < p->n; i++) out[i] = p->model.fixed[i] ? 0 : in[i] / p->model.scale[i];
    gd_status status = p->blocks ? gd__blocks_product(p->blocks, out, out)
                                 : gd__squares_product(k->grads, p->params, p->count, out, k->product, out);
    for (int64_t i = 0; i < p->n; i++) out[i] = p->model.fixed[i] ? 0 : out[i] / p->model.scale[i];
    return status;
}

/* w minus its projections on the first `count` vectors, twice for rounding; returns the norm left. */
static double orthogonal(const krylov *k, int count, double *w)
{
    int64_t n = k->p->n;
    for (int pass = 0; pass < 2; pass++)
        for (const double *q = k->basis; q < k->basis + count * n; q += n) {
            double dot = 0;
            for (int64_t i = 0; i < n; i++) dot += q[i] * w[i];
            for (int64_t i = 0; i < n; i++) w[i] -= dot * q[i];
        }
    return gd__lsq_norm(w, NULL, n);
}

/* The pair of the tridiagonal matrix of `size` vectors; *defect bounds the error of its value. */
static gd_status ritz(krylov *k, int size, curvature *out, double *defect)
{
    gd_lsq *p = k->p;
    double *t = k->small, values[LANCZOS], y[LANCZOS];
    memset(t, 0, (size_t)(size * size) * sizeof *t);
    for (int i = 0; i < size; i++) {
        t[i * size + i] = k->alpha[i];
        if (i + 1 < size) t[i * size + i + 1] = t[(i + 1) * size + i] = k->beta[i];
    }
    curvature small = {.v = y};
    gd_scope_begin(p->ctx);
    gd_tensor *matrix = gd_from_f64(p->ctx, GD_F64, 2, (int64_t[]){size, size}, t);
    gd_status status = matrix ? spectrum(matrix, size, values, &small) : gd_error(p->ctx);
    gd_scope_end(p->ctx);
    if (status || !small.known) return status;
    out->least = small.least;
    out->most = small.most;
    out->known = true;
    *defect = fabs(k->beta[size - 1] * y[size - 1]);
    memset(out->v, 0, (size_t)p->n * sizeof *out->v);
    for (int j = 0; j < size; j++)
        for (int64_t i = 0; i < p->n; i++) out->v[i] += y[j] * k->basis[j * p->n + i];
    return GD_OK;
}

static gd_status walk_valley(krylov *k, curvature *out)
{
    int64_t n = k->p->n;
    gd_status status = GD_OK;
    double defect = INFINITY, norm;
    /* any vector that is not an eigenvector will do: a fixed sequence keeps the result the same */
    uint64_t bits = 1;
    for (int64_t i = 0; i < n; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        k->basis[i] = k->p->model.fixed[i] ? 0 : (double)(bits >> 11) * 0x1p-53 - 0.5;
    }
    norm = gd__lsq_norm(k->basis, NULL, n);
    for (int64_t i = 0; i < n; i++) k->basis[i] /= norm;
    for (int j = 0; j < LANCZOS && !status; j++) {
        double *q = k->basis + j * n, *w = q + n;
        status = times(k, q, w);
        if (status || !all_finite(w, n)) break;
        k->alpha[j] = 0;
        for (int64_t i = 0; i < n; i++) k->alpha[j] += q[i] * w[i];
        norm = k->beta[j] = orthogonal(k, j + 1, w);
        bool last = j + 1 == LANCZOS || j + 1 >= n || !(norm > 0);
        if (last || j % 8 == 7) status = ritz(k, j + 1, out, &defect);
        if (last || defect <= 0.01 * GD_FLAT_CURVED * out->most) break;
        for (int64_t i = 0; i < n; i++) w[i] /= norm;
    }
    return status;
}

static gd_status iterate(gd_lsq *p, curvature *out)
{
    gd_ctx *ctx = p->ctx;
    size_t list = (size_t)p->count * 2 * sizeof(gd_tensor *), room = (size_t)p->n * (LANCZOS + 1);
    krylov k = {.p = p, .grads = gd__calloc(ctx, list)};
    gd_status status = k.grads ? GD_OK : GD_NOMEM;
    if (!status) k.basis = gd__alloc_array(ctx, room + LANCZOS * LANCZOS, sizeof(double));
    if (!k.basis) status = GD_NOMEM;
    gd_scope_begin(ctx);
    if (!status) {
        k.small = k.basis + room;
        k.product = k.grads + p->count;
        int previous = gd_enable_grad_begin(ctx);
        if (!p->blocks) status = gd__squares_gradient(p->r, p->params, p->count, k.grads);
        gd_enable_grad_end(ctx, previous);
    }
    if (!status) status = walk_valley(&k, out);
    gd_scope_end(ctx);
    if (k.basis) gd__free(ctx, k.basis, (room + LANCZOS * LANCZOS) * sizeof(double));
    if (k.grads) gd__free(ctx, k.grads, list);
    return status;
}

/* Into p->d its vector; known is false where the Hessian is not finite. */
static gd_status measure(gd_lsq *p, curvature *out)
{
    *out = (curvature){.v = p->d};
    return p->n > DENSE ? iterate(p, out) : dense(p, out);
}

/* ---- leaving ---- */

/* The loss at x + t v, in the box. */
static gd_status probe(gd_lsq *p, const double *v, double t, gd_tensor **r, double *f)
{
    for (int64_t i = 0; i < p->n; i++)
        p->trial[i] = p->x[i] + (p->model.fixed[i] ? 0 : t * v[i] / p->model.scale[i]);
    return gd__lsq_try(p, r, f);
}

/* The best of +-t v for t falling by thirds, until it gets worse again; *best 0 where none is lower. */
static gd_status look_along(gd_lsq *p, const curvature *c, double first, double *best)
{
    gd_status status = GD_OK;
    double lowest = p->f, t = first;
    bool found = false, worse = false;
    *best = 0;
    for (int i = 0; i < MOVES && !status && !worse; i++, t /= 3) {
        worse = found;
        for (int side = 1; side >= -1 && !status && !gd__lsq_spent(p); side -= 2) {
            gd_tensor *r;
            double f;
            status = probe(p, c->v, side * t, &r, &f);
            gd_status back = gd__lsq_go_back(p, r);
            if (!status) status = back;
            /* a small fraction of the decrease that the curvature predicts */
            if (!(f < lowest && f <= p->f + 1e-4 * c->least * t * t)) continue;
            lowest = f;
            *best = side * t;
            found = true;
            worse = false;
        }
    }
    return status;
}

static gd_status leave(gd_lsq *p, const curvature *c, bool *left)
{
    double size = gd__lsq_norm(p->x, p->model.scale, p->n), best = 0, f = NAN;
    gd_tensor *r = NULL;
    *left = false;
    gd__box_forget(p);
    gd_status status = look_along(p, c, FIRST_MOVE * (size > 0 ? size : sqrt(p->f)), &best);
    if (status || best == 0) return status;
    status = probe(p, c->v, best, &r, &f);
    bool finite = !status && f < p->f;
    if (finite) status = gd__lsq_model_from(p, r, false, &finite);
    if (status || !finite) {
        gd_status back = gd__lsq_go_back(p, r);
        return status ? status : back;
    }
    gd__lsq_settle(p, r, f);
    p->fresh = *left = true;
    p->escapes++;
    p->steps++;
    p->radius = fabs(best);
    p->lambda = 0;
    return GD_OK;
}

/* Model and curvature where p->x is. */
static gd_status look_here(gd_lsq *p, curvature *out)
{
    bool finite = true;
    out->known = false;
    gd_status status = gd__lsq_model_here(p, &finite);
    if (!status && finite) status = gd__box_free(p);
    return status || !finite || p->model.free == 0 ? status : measure(p, out);
}

static bool is_saddle(const curvature *c) { return c->known && c->least < -GD_FLAT_CURVED * c->most; }

/* A valley without slope may become a ridge further on: two exponentials of one rate fit as well whatever their shares, and
 * bend down to a better fit only where the shares differ in sign.  So before a valley is called the end, the loss is looked at
 * on both sides; where it bends down there, the way is found from there, else p->x is as it was. */
static gd_status slide(gd_lsq *p, const curvature *flat, bool *left)
{
    double size = SLIDE * gd__lsq_norm(p->x, p->model.scale, p->n), before = p->f;
    double *here = p->s, *along = p->slide;
    gd_status status = GD_OK;
    gd__box_forget(p);
    memcpy(here, p->x, (size_t)p->n * sizeof *here);
    for (int64_t i = 0; i < p->n; i++) along[i] = p->model.fixed[i] ? 0 : flat->v[i] / p->model.scale[i];
    for (int side = 1; side >= -1 && !status && !*left && !gd__lsq_spent(p); side -= 2) {
        curvature c;
        gd_tensor *r;
        double f;
        for (int64_t i = 0; i < p->n; i++) p->trial[i] = here[i] + side * size * along[i];
        status = gd__lsq_try(p, &r, &f);
        if (status || !(f <= before + 1e-9 * before)) {
            gd_status back = gd__lsq_go_back(p, r);
            if (!status) status = back;
            continue;
        }
        gd__lsq_settle(p, r, f);
        status = look_here(p, &c);
        if (!status && is_saddle(&c)) status = leave(p, &c, left);
        if (status || *left) break;
        memcpy(p->trial, here, (size_t)p->n * sizeof *here);
        status = gd__lsq_try(p, &r, &f);
        if (!status) gd__lsq_settle(p, r, f);
    }
    return status;
}

/* Two columns that point the same way, whatever their signs. */
static bool coincide(const gd_lsq *p)
{
    const gd_lm_model *a = &p->model;
    if (gd__lm_rank(a, GD_FLAT_SINGULAR) >= a->free) return false;
    if (p->n > DENSE) return p->m >= p->n;
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t j = i + 1; j < p->n && !a->fixed[i]; j++)
            if (!a->fixed[j] && gd__lm_alike(a, i, j) >= 1 - SAME) return true;
    return false;
}

gd_status gd__saddle_leave_start(gd_lsq *p)
{
    curvature c;
    bool left;
    gd_status status = gd__box_free(p);
    if (status || !coincide(p)) return status;
    status = measure(p, &c);
    if (status || !c.known || c.least >= -GD_FLAT_CURVED * c.most) return status;
    return leave(p, &c, &left);
}

/* ---- undetermined parameters ---- */

bool gd__saddle_flat(const gd_lsq *p, int64_t i)
{
    return p->reason == GD_STOP_UNDETERMINED &&
           gd__lm_undetermined(&p->model, gd__lm_rank(&p->model, GD_FLAT_SINGULAR), i);
}

typedef struct sentence {
    const gd_lsq *p;
    char *text;
    size_t used;
    bool *told; /* [n] */
} sentence;

static void put(sentence *s, const char *text)
{
    int wrote = snprintf(s->text + s->used, GD_LSQ_TEXT - s->used, "%s", text);
    s->used += (size_t)wrote < GD_LSQ_TEXT - s->used ? (size_t)wrote : GD_LSQ_TEXT - s->used - 1;
}

/* "a", or "p[3]" for an element of several. */
static void put_name(sentence *s, int64_t element)
{
    const gd_lsq *p = s->p;
    char text[64], name[24];
    int i = 0;
    for (; element >= p->params[i]->numel; i++) element -= p->params[i]->numel;
    (void)snprintf(name, sizeof name, "p%d", i);
    const char *given = p->options->names ? p->options->names[i] : name;
    if (p->params[i]->ndim == 0)
        (void)snprintf(text, sizeof text, "%.40s", given);
    else
        (void)snprintf(text, sizeof text, "%.40s[%lld]", given, (long long)element);
    put(s, text);
}

/* "a, b and c" of the elements for which `belongs` holds and that were not named yet, then one or many. */
static void put_clause(sentence *s, bool (*belongs)(const gd_lsq *p, int64_t i, int64_t first), int64_t first,
                       const char *one, const char *many)
{
    int64_t count = 0, at = 0;
    for (int64_t i = 0; i < s->p->n; i++) count += !s->told[i] && belongs(s->p, i, first);
    if (!count) return;
    if (s->used) put(s, "; ");
    for (int64_t i = 0; i < s->p->n; i++) {
        if (s->told[i] || !belongs(s->p, i, first)) continue;
        s->told[i] = true;
        if (at >= NAMED) continue;
        if (at) put(s, at + 1 == count ? " and " : ", ");
        put_name(s, i);
        at++;
    }
    if (count > at) {
        char more[40];
        (void)snprintf(more, sizeof more, " and %lld more", (long long)(count - at));
        put(s, more);
    }
    put(s, count == 1 ? one : many);
}

static bool is_idle(const gd_lsq *p, int64_t i, int64_t first)
{
    (void)first;
    return gd__saddle_flat(p, i) && p->model.columns[i] == 0;
}

static bool is_flat(const gd_lsq *p, int64_t i, int64_t first)
{
    (void)first;
    return gd__saddle_flat(p, i);
}

/* Has element i the column of the first? */
static bool is_alike(const gd_lsq *p, int64_t i, int64_t first)
{
    return gd__saddle_flat(p, i) && (i == first || gd__lm_alike(&p->model, first, i) >= 1 - 100 * SAME);
}

static bool has_partner(const gd_lsq *p, int64_t i)
{
    for (int64_t j = i + 1; j < p->n; j++)
        if (is_alike(p, j, i)) return true;
    return false;
}

static gd_status tell(gd_lsq *p)
{
    sentence s = {.p = p, .text = p->says, .told = gd__calloc(p->ctx, (size_t)p->n * sizeof(bool))};
    if (!s.told) return GD_NOMEM;
    p->says[0] = 0;
    put_clause(&s, is_idle, 0, " has no effect", " have no effect");
    /* a table of all pairs only if it is read */
    for (int64_t i = 0; i < p->n && p->n <= DENSE; i++)
        if (!s.told[i] && gd__saddle_flat(p, i) && has_partner(p, i))
            put_clause(&s, is_alike, i, "", " cannot be told apart");
    put_clause(&s, is_flat, 0, " is not determined", " are not determined together");
    gd__free(p->ctx, s.told, (size_t)p->n * sizeof(bool));
    return GD_OK;
}

/* ---- the decision ---- */

/* A stop far from stationary: the loss does not change because the trial steps are too short. */
static bool is_early(gd_lsq *p)
{
    double inside, step;
    gd__lm_full(&p->model, &inside, &step);
    return inside > 1e-6 * p->f && step > 1e-3 * gd__lsq_norm(p->x, p->model.scale, p->n);
}

static bool may_leave(const gd_lsq *p)
{
    return p->options->leave_saddles && p->escapes < ESCAPES && !gd__lsq_out_of_steps(p) && !gd__lsq_spent(p);
}

gd_status gd__saddle_judge(gd_lsq *p, bool *again)
{
    curvature c;
    bool asked = p->reason == GD_STOP_GRADIENT;
    gd_status status = look_here(p, &c);
    if (status || !p->fresh || p->model.free == 0) return status;
    if (is_saddle(&c) && may_leave(p)) status = leave(p, &c, again);
    bool bent = c.known && c.least > GD_FLAT_CURVED * c.most;
    bool flat = !bent && gd__lm_rank(&p->model, GD_FLAT_SINGULAR) < p->model.free;
    if (!status && !*again && flat && c.known && p->f > 0 && p->m >= p->n && may_leave(p))
        status = slide(p, &c, again);
    if (!status && !*again && !p->fresh) status = look_here(p, &c);
    if (status || *again) {
        p->stopped = !*again;
        p->reason = GD_STOP_ERROR;
        return status;
    }
    if (flat) {
        p->reason = GD_STOP_UNDETERMINED;
        return tell(p);
    }
    if (!asked && is_early(p)) p->reason = GD_STOP_STUCK;
    return GD_OK;
}
