/* Newton's method with more terms of the Taylor series than two, kept short by a trust region.
 *
 *     m(d) = sum over k = 1 .. order of  T_k d^k / k!        T_k: all k-th derivatives of the loss at p
 *
 * is minimised inside the box |d| <= radius, element by element ("bounds"), or with norm(d)^(order + 1) / (radius (order + 1))
 * added and no box ("proximal"; Birgin et al. 2017).  Bounds of the parameters cut either.  The radius follows the ratio of actual to predicted
 * decrease, as in all trust regions.
 *
 * The model is no quadratic, so its minimum is found by steps: Newton's in the free elements with the sizes of the eigenvalues,
 * projected into the box and shortened until m falls (Bertsekas 1982), from d = 0; where the gradient of m is 0 and an eigenvalue
 * is not positive enough, along its eigenvector.  de_iters: also from the best of so many generations of differential evolution
 * (Storn & Price 1997), and the lower of both is taken.
 *
 * Derivatives come from autograd, one reverse pass for each sorted choice of k - 1 elements; if the objective has no graph
 * (callbacks, sam, fdm, ...), from nested central differences of gradients.  Orders that are not finite are left out.
 * Cost: n^order numbers; about n^(order - 1) / (order - 1)! passes per step. */
#include "gradus/autograd.h"
#include "gradus/link/trust_region.h"

#include <math.h>
#include <string.h>

#define MOST_ORDER 8
#define ROUNDS     200   /* of the minimiser */
#define HALVINGS   60    /* of one of its steps */
#define FLOOR      1e-13 /* of eigenvalues, by the largest */
#define EXACT      1e-15 /* residual by the first gradient, at which it is enough */
#define NOISE      1e-15 /* of values of the model, by the sizes of its terms */
#define POPULATION 10    /* members of differential evolution for each element */
#define CROSSOVER  0.7

static const gd_field fields[] = {
    GD_INT("order", 4, 1, MOST_ORDER, "terms of the Taylor series"),
    GD_CHOICE("trust_method", "bounds", "bounds|proximal",
              "a box around the point, or a power of the distance"),
    GD_REAL("nplus", 3.5, 1, INFINITY, "factor of the radius after a very good step"),
    GD_REAL("nminus", 0.25, 0, 1, "factor of the radius after a bad step"),
    GD_REAL("rho_good", 0.99, 0, INFINITY, "ratio above which the radius grows"),
    GD_REAL("rho_bad", 1e-4, 0, INFINITY, "ratio below which the radius shrinks"),
    GD_REAL_OR_NONE("init", 0, INFINITY, "first radius; none: 1"),
    GD_REAL("eta", 1e-6, 0, INFINITY, "ratio of actual to predicted decrease above which a step is taken"),
    GD_INT("max_attempts", 10, 1, 1e9, "radii tried in a step"),
    GD_REAL_OR_OFF(
        "boundary_tol", 0.01, 0, 1,
        "the radius grows only after steps of at least (1 - boundary_tol) radius; none: after any"),
    GD_INT_OR_NONE("de_iters", 1, 1e6,
                   "generations of differential evolution on the model; none: it is left out"),
    GD_FIXED_FLAG("vectorize", true, "rows of derivatives are always made together"),
};

/* ---- the model ---- */

typedef struct taylor {
    int64_t n;
    int order;
    double *t[MOST_ORDER + 1]; /* t[k]: n^k numbers, symmetric */
    double *work;              /* n^(order - 1) numbers, for contractions */
    double *low, *high;        /* of d, element by element */
    struct known *known;       /* gradients of differences */
    double radius;             /* of the power of the distance; 0: there is none */
    gd_link *link;
    gd_ctx *ctx;
} taylor;

/* Where the minimiser is. */
typedef struct place {
    double *d, *g, *h;  /* [n], [n], [n, n] */
    double value, size; /* size: of the largest term, so of the rounding error of the value */
} place;

static int64_t power_of(int64_t n, int k) { return k > 0 ? n * power_of(n, k - 1) : 1; }

/* out[i] = sum_j a[i, j] d[j] for i < rows; out may be a. */
static void contract(const double *a, const double *d, int64_t rows, int64_t n, double *out)
{
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) sum += a[i * n + j] * d[j];
        out[i] = sum;
    }
}

/* T_k d^j, n^(k - j) numbers in m->work. */
static const double *contracted(const taylor *m, int k, int times, const double *d)
{
    const double *now = m->t[k];
    for (int i = 0; i < times; i++) {
        contract(now, d, power_of(m->n, k - 1 - i), m->n, m->work);
        now = m->work;
    }
    return now;
}

static double dot_of(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void add_term(place *at, double value)
{
    at->value += value;
    at->size = fmax(at->size, fabs(value));
}

/* |d|^q / (radius q) with q = order + 1. */
static void add_distance(const taylor *m, place *at, bool derivatives)
{
    double norm = sqrt(dot_of(at->d, at->d, m->n)), q = m->order + 1;
    if (m->radius == 0 || norm == 0) return;
    add_term(at, pow(norm, q) / (m->radius * q));
    double first = pow(norm, q - 2) / m->radius, second = (q - 2) * pow(norm, q - 4) / m->radius;
    for (int64_t i = 0; i < m->n && derivatives; i++) {
        at->g[i] += first * at->d[i];
        at->h[i * m->n + i] += first;
        for (int64_t j = 0; j < m->n; j++) at->h[i * m->n + j] += second * at->d[i] * at->d[j];
    }
}

/* The model at at->d, and there its gradient and Hessian. */
static void model_at(const taylor *m, place *at, bool derivatives)
{
    int64_t n = m->n;
    double factor = 1; /* 1 / (k - 2)! */
    at->value = at->size = 0;
    add_term(at, dot_of(m->t[1], at->d, n));
    if (derivatives) {
        memcpy(at->g, m->t[1], (size_t)n * sizeof *at->g);
        memset(at->h, 0, (size_t)(n * n) * sizeof *at->h);
    }
    for (int k = 2; k <= m->order; k++) {
        const double *square = contracted(m, k, k - 2, at->d);
        if (k > 2) factor /= k - 2;
        double all = 0;
        for (int64_t i = 0; i < n; i++) {
            double along = dot_of(square + i * n, at->d, n);
            all += along * at->d[i];
            if (!derivatives) continue;
            at->g[i] += factor / (k - 1) * along;
            for (int64_t j = 0; j < n; j++) at->h[i * n + j] += factor * square[i * n + j];
        }
        add_term(at, factor / (k * (k - 1)) * all);
    }
    add_distance(m, at, derivatives);
}

/* ---- its minimum in a box ---- */

static double into(const taylor *m, int64_t i, double d)
{
    return d < m->low[i] ? m->low[i] : d > m->high[i] ? m->high[i] : d;
}

/* The largest element of d - P(d - g). */
static double residual(const taylor *m, const place *at)
{
    double most = 0;
    for (int64_t i = 0; i < m->n; i++) most = fmax(most, fabs(at->d[i] - into(m, i, at->d[i] - at->g[i])));
    return most;
}

/* Held are elements so near a side that the loss, falling towards it, will put them there: they go down the gradient. */
static int64_t free_elements(const taylor *m, const place *at, double near, int64_t *list)
{
    int64_t count = 0;
    for (int64_t i = 0; i < m->n; i++) {
        bool low = at->d[i] - m->low[i] <= near && at->g[i] > 0,
             high = m->high[i] - at->d[i] <= near && at->g[i] < 0;
        if (!low && !high && m->low[i] < m->high[i]) list[count++] = i;
    }
    return count;
}

typedef struct spectrum {
    double *values, *vectors; /* ascending; column k of [count, count] */
} spectrum;

static gd_status free_spectrum(const taylor *m, const place *at, const int64_t *list, int64_t count,
                               spectrum *s)
{
    gd_tensor *values = NULL, *vectors = NULL;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < count; j++) s->vectors[i * count + j] = at->h[list[i] * m->n + list[j]];
    gd_scope_begin(m->ctx);
    gd_tensor *h = gd_from_f64(m->ctx, GD_F64, 2, (int64_t[]){count, count}, s->vectors);
    gd_status status = h ? gd_eigh(h, &values, &vectors) : gd_error(m->ctx);
    if (!status) status = gd_read_f64(values, s->values, count);
    if (!status) status = gd_read_f64(vectors, s->vectors, count * count);
    gd_scope_end(m->ctx);
    return status;
}

/* Memory of a minimisation. */
typedef struct search {
    place at, next;
    double *to;
    int64_t *list;
    spectrum s;
    double width, enough,
        least; /* of the box; residual that is enough; curvature that leads across the whole box */
} search;

/* -|H|^-1 g in the free elements; if their gradient is 0, the eigenvector of the lowest eigenvalue, if that is negative.  False: neither. */
static bool direction(const taylor *m, const place *at, const search *w, int64_t count, bool still,
                      double *to)
{
    const int64_t *list = w->list;
    const spectrum *s = &w->s;
    double most = fmax(fabs(s->values[0]), fabs(s->values[count - 1])), least = fmax(FLOOR * most, w->least);
    for (int64_t i = 0; i < m->n; i++) to[i] = -at->g[i];
    for (int64_t i = 0; i < count; i++)
        to[list[i]] = still ? s->vectors[i * count] : least > 0 ? 0 : to[list[i]];
    if (still) return s->values[0] < -1e-10 * most;
    for (int64_t k = 0; k < count && least > 0; k++) {
        double along = 0, by = fmax(fabs(s->values[k]), least);
        for (int64_t i = 0; i < count; i++) along += s->vectors[i * count + k] * at->g[list[i]];
        for (int64_t i = 0; i < count; i++) to[list[i]] -= along / by * s->vectors[i * count + k];
    }
    return true;
}

/* P(d + t to), with the decrease to reach there. */
static double stride(const taylor *m, search *w, double t)
{
    double slope = 0;
    for (int64_t i = 0; i < m->n; i++) {
        w->next.d[i] = into(m, i, w->at.d[i] + t * w->to[i]);
        slope += w->at.g[i] * (w->next.d[i] - w->at.d[i]);
    }
    return slope;
}

/* Is next an improvement? If values no longer differ, the residual decides. */
static bool is_better(const taylor *m, search *w, double slope, double left)
{
    model_at(m, &w->next, false);
    if (!isfinite(w->next.value)) return false;
    if (w->next.value <= w->at.value + 1e-4 * fmin(slope, 0) && w->next.value < w->at.value) return true;
    if (w->next.value > w->at.value + NOISE * (double)m->n * (w->at.size + w->next.size)) return false;
    model_at(m, &w->next, true);
    return residual(m, &w->next) < 0.5 * left;
}

static bool advance(const taylor *m, search *w, double left)
{
    double t = 1;
    for (int i = 0; i < HALVINGS; i++, t /= 2) {
        double slope = stride(m, w, t);
        if (!is_better(m, w, slope, left)) continue;
        memcpy(w->at.d, w->next.d, (size_t)m->n * sizeof *w->at.d);
        return true;
    }
    return false;
}

static void measure_box(const taylor *m, search *w)
{
    double steepest = 0;
    w->width = INFINITY;
    for (int64_t i = 0; i < m->n; i++) {
        steepest = fmax(steepest, fabs(m->t[1][i]));
        if (m->low[i] < m->high[i]) w->width = fmin(w->width, m->high[i] - m->low[i]);
    }
    w->enough = EXACT * steepest;
    w->least = isfinite(w->width) ? FLOOR * steepest / w->width : 0;
}

/* From w->at.d to a minimum of the model. */
static gd_status descend(const taylor *m, search *w)
{
    measure_box(m, w);
    for (int round = 0; round < ROUNDS; round++) {
        model_at(m, &w->at, true);
        double left = residual(m, &w->at);
        int64_t count = free_elements(m, &w->at, fmin(left, 1e-3 * w->width), w->list);
        bool still = left <= w->enough;
        if (!isfinite(w->at.value) || (still && !count)) break;
        gd_status status = count ? free_spectrum(m, &w->at, w->list, count, &w->s) : GD_OK;
        if (status) return status;
        if (!count)
            for (int64_t i = 0; i < m->n; i++) w->to[i] = -w->at.g[i];
        else if (!direction(m, &w->at, w, count, still, w->to))
            break;
        if (!advance(m, w, left)) break;
    }
    model_at(m, &w->at, false);
    return gd_error(m->ctx);
}

static bool open_search(const taylor *m, search *w)
{
    size_t n = (size_t)m->n;
    double *room = gd_link_memory(m->link, (7 * n + 4 * n * n) * sizeof *room);
    w->list = gd_link_memory(m->link, n * sizeof *w->list);
    if (!room || !w->list) return false;
    w->at = (place){.d = room, .g = room + n, .h = room + 7 * n};
    w->next = (place){.d = room + 2 * n, .g = room + 3 * n, .h = room + 7 * n + n * n};
    w->to = room + 4 * n;
    w->s = (spectrum){.values = room + 5 * n, .vectors = room + 7 * n + 2 * n * n};
    return true;
}

/* ---- differential evolution on the model ---- */

/* count numbers in 0 .. 1. */
static gd_status draw(const taylor *m, double *out, int64_t count)
{
    gd_scope_begin(m->ctx);
    gd_tensor *like = gd_zeros(m->ctx, GD_F64, 1, &count);
    gd_tensor *drawn = like ? gd_link_random(m->link, GD_RANDOM_UNIFORM, like) : NULL;
    gd_status status = drawn ? gd_read_f64(drawn, out, count) : gd_error(m->ctx);
    gd_scope_end(m->ctx);
    return status;
}

/* Inside the box; without one inside the radius. */
static double spread_to(const taylor *m, int64_t i, double share)
{
    double low = isfinite(m->low[i]) ? m->low[i] : -m->radius,
           high = isfinite(m->high[i]) ? m->high[i] : m->radius;
    return low + share * (high - low);
}

static int64_t pick(double share, int64_t count)
{
    int64_t i = (int64_t)(share * (double)count);
    return i < count ? i : count - 1;
}

/* One trial for member k: a + F (b - c) in randomly chosen elements (rand/1/bin), in next; u: n + 5 numbers. */
static void cross(const taylor *m, const double *members, int64_t all, int64_t k, const double *u,
                  double *next)
{
    int64_t n = m->n, sure = pick(u[4], n);
    const double *a = members + pick(u[0], all) * n, *b = members + pick(u[1], all) * n,
                 *c = members + pick(u[2], all) * n;
    double by = 0.5 + 0.5 * u[3];
    for (int64_t i = 0; i < n; i++) {
        bool taken = i == sure || u[5 + i] < CROSSOVER;
        next[i] = taken ? into(m, i, a[i] + by * (b[i] - c[i])) : members[k * n + i];
    }
}

/* The best member after so many generations in w->at.d. */
static gd_status evolve(const taylor *m, search *w, int generations)
{
    int64_t n = m->n, all = POPULATION * n;
    double *members = gd_link_memory(m->link, (size_t)(all * n + all + n + 5) * sizeof *members);
    if (!members) return gd_error(m->ctx);
    double *values = members + all * n, *u = values + all;
    gd_status status = draw(m, members, all * n);
    int64_t best = 0;
    for (int64_t k = 0; k < all && !status; k++) {
        for (int64_t i = 0; i < n; i++) members[k * n + i] = spread_to(m, i, members[k * n + i]);
        memcpy(w->next.d, members + k * n, (size_t)n * sizeof *members);
        model_at(m, &w->next, false);
        values[k] = w->next.value;
    }
    for (int64_t trial = 0; trial < generations * all && !status; trial++) {
        int64_t k = trial % all;
        if ((status = draw(m, u, n + 5))) break;
        cross(m, members, all, k, u, w->next.d);
        model_at(m, &w->next, false);
        if (!(w->next.value <= values[k])) continue;
        memcpy(members + k * n, w->next.d, (size_t)n * sizeof *members);
        values[k] = w->next.value;
    }
    for (int64_t k = 1; k < all; k++)
        if (values[k] < values[best]) best = k;
    memcpy(w->at.d, members + best * n, (size_t)n * sizeof *members);
    return status;
}

/* The lowest point found; *out has m's value there, NULL on failure. */
static double *minimum(const taylor *m, double *out)
{
    search w;
    if (!open_search(m, &w) || descend(m, &w)) return NULL;
    double *d = gd_link_memory(m->link, (size_t)m->n * sizeof *d);
    if (!d) return NULL;
    memcpy(d, w.at.d, (size_t)m->n * sizeof *d);
    *out = w.at.value;
    double generations = gd_link_real(m->link, "de_iters", NULL);
    if (isnan(generations)) return d;
    if (evolve(m, &w, (int)generations) || descend(m, &w)) return NULL;
    if (w.at.value < *out) {
        memcpy(d, w.at.d, (size_t)m->n * sizeof *d);
        *out = w.at.value;
    }
    return d;
}

/* ---- derivatives ---- */

/* The index of a choice of elements in t[k]. */
static int64_t offset_of(const int64_t *index, int k, int64_t n)
{
    int64_t at = 0;
    for (int i = 0; i < k; i++) at = at * n + index[i];
    return at;
}

/* Only elements with falling indices are stored: the others are equal to these. */
static void spread_symmetric(double *t, int k, int64_t n)
{
    int64_t index[MOST_ORDER], sorted[MOST_ORDER], all = power_of(n, k);
    for (int64_t at = 0; at < all; at++) {
        int64_t rest = at;
        for (int i = k - 1; i >= 0; i--, rest /= n) index[i] = rest % n;
        for (int i = 0; i < k; i++) {
            int j = i;
            for (; j > 0 && sorted[j - 1] < index[i]; j--) sorted[j] = sorted[j - 1];
            sorted[j] = index[i];
        }
        t[at] = t[offset_of(sorted, k, n)];
    }
}

static gd_status read_list(gd_tensor *const *list, int count, double *to)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        int64_t numel = gd_numel(list[i]);
        status = numel ? gd_read_f64(list[i], to, numel) : GD_OK;
        to += numel;
    }
    return status;
}

/* A row of derivatives, a list like the parameters, goes to t[k] behind `index`, k - 1 elements. */
static gd_status put_row(taylor *m, gd_tensor *const *row, int count, const int64_t *index, int k)
{
    return read_list(row, count, m->t[k] + offset_of(index, k - 1, m->n) * m->n);
}

/* Rows of order k + 1 and above from a row of order k with its history: elements up to the last of index, falling. */
static gd_status deepen(taylor *m, gd_var *var, gd_tensor *const *row, int64_t *index, int k)
{
    int count = gd_var_count(var);
    gd_status status = GD_OK;
    int64_t at = 0, most = k > 1 ? index[k - 2] : m->n - 1;
    for (int i = 0; i < count && !status; i++) {
        int64_t numel = gd_numel(row[i]);
        for (int64_t j = 0; j < numel && at <= most && !status; j++, at++) {
            gd_scope_begin(m->ctx);
            gd_tensor **next = gd_link_scratch(m->link, count);
            gd_tensor *flat = next ? gd_reshape(gd_drop_names(row[i]), 1, &numel) : NULL;
            gd_tensor *one = flat ? gd_index(flat, "0", j) : NULL;
            bool last = k + 1 == m->order;
            index[k - 1] = at;
            status = one ? GD_OK : gd_error(m->ctx);
            /* without history: the same everywhere, its derivatives are 0 */
            if (!status && gd_requires_grad(one)) {
                status = gd_grad(one, NULL, gd_var_params(var), count,
                                 last ? GD_RETAIN_GRAPH : GD_CREATE_GRAPH, next);
                if (!status) status = put_row(m, next, count, index, k + 1);
                if (!status && !last) status = deepen(m, var, next, index, k + 1);
            }
            gd_scope_end(m->ctx);
        }
    }
    return status;
}

/* A gradient at p + offset. */
struct known {
    struct known *next;
    double numbers[]; /* the offset, then the gradient */
};

static gd_status evaluate_at(taylor *m, gd_var *var, const double *offset, double *to)
{
    int count = gd_var_count(var);
    gd_scope_begin(m->ctx);
    gd_tensor **list = gd_link_scratch(m->link, 2 * count), **grad = list ? list + count : NULL;
    gd_tensor *p = list ? gd_list_vector(gd_var_params(var), count) : NULL;
    gd_tensor *way = p ? gd_cast(gd_from_f64(m->ctx, GD_F64, 1, &m->n, offset), gd_tensor_dtype(p)) : NULL;
    way = way ? gd_to_device(way, gd_tensor_device(p)) : NULL;
    gd_status status = way ? gd_list_split(way, gd_var_params(var), count, list) : gd_error(m->ctx);
    if (!status) status = gd_var_evaluate_moved(var, 1, list, NULL, grad);
    if (!status) status = read_list(grad, count, to);
    gd_scope_end(m->ctx);
    return status;
}

/* The gradient at p + offset, evaluated once, because several differences use the same points. */
static const double *gradient_at(taylor *m, gd_var *var, const double *offset)
{
    size_t n = (size_t)m->n;
    for (const struct known *k = m->known; k; k = k->next)
        if (!memcmp(k->numbers, offset, n * sizeof *offset)) return k->numbers + n;
    struct known *made = gd_link_memory(m->link, sizeof *made + 2 * n * sizeof *offset);
    if (!made) return NULL;
    memcpy(made->numbers, offset, n * sizeof *offset);
    double largest = 0;
    for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(offset[i]));
    if (largest == 0)
        memcpy(made->numbers + n, m->t[1], n * sizeof *offset);
    else if (evaluate_at(m, var, offset, made->numbers + n))
        return NULL;
    made->next = m->known;
    m->known = made;
    return made->numbers + n;
}

/* A row of order k by central differences in each of the k - 1 chosen elements, then those of the next choices. */
static gd_status difference(taylor *m, gd_var *var, double eps, int64_t *index, int chosen, int k)
{
    gd_status status = GD_OK;
    int64_t most = chosen ? index[chosen - 1] : m->n - 1;
    if (chosen < k - 1) {
        for (index[chosen] = 0; index[chosen] <= most && !status; index[chosen]++)
            status = difference(m, var, eps, index, chosen + 1, k);
        return status;
    }
    double h = pow(eps, 1.0 / (k + 2)), *offset = gd_link_memory(m->link, (size_t)m->n * sizeof *offset);
    double *row = m->t[k] + offset_of(index, k - 1, m->n) * m->n;
    if (!offset) return gd_error(m->ctx);
    for (unsigned signs = 0; signs < 1u << chosen && !status; signs++) {
        double by = 1;
        memset(offset, 0, (size_t)m->n * sizeof *offset);
        for (int i = 0; i < chosen; i++) {
            double sign = signs >> i & 1 ? -1 : 1;
            offset[index[i]] += sign * h;
            by *= sign / (2 * h);
        }
        const double *g = gradient_at(m, var, offset);
        for (int64_t i = 0; i < m->n && g; i++) row[i] += by * g[i];
        status = g ? GD_OK : gd_error(m->ctx);
    }
    return status;
}

static gd_status by_differences(taylor *m, gd_var *var)
{
    int64_t index[MOST_ORDER] = {0};
    gd_tensor *const *grad = gd_var_grad(var);
    gd_status status = grad ? put_row(m, grad, gd_var_count(var), NULL, 1) : gd_error(m->ctx);
    double eps = 0;
    for (int i = 0; i < gd_var_count(var); i++) eps = fmax(eps, gd_vector_epsilon(gd_var_params(var)[i]));
    for (int k = 2; k <= m->order && !status; k++) status = difference(m, var, eps, index, 0, k);
    return status;
}

static gd_status by_autograd(taylor *m, gd_var *var, gd_tensor *const *grad)
{
    int64_t index[MOST_ORDER] = {0};
    gd_status status = put_row(m, grad, gd_var_count(var), NULL, 1);
    int previous = gd_enable_grad_begin(m->ctx);
    if (!status && m->order > 1) status = deepen(m, var, grad, index, 1);
    gd_enable_grad_end(m->ctx, previous);
    return status;
}

/* Numbers of all orders; false with an error if there are too many. */
static bool open_model(taylor *m, int order)
{
    double most = pow((double)m->n, order);
    if (most > 1e12) {
        (void)gd_fail(m->ctx, GD_VALUE, "higher_order_newton: %g derivatives of order %d are too many", most,
                      order);
        return false;
    }
    m->order = order;
    for (int k = 1; k <= order; k++)
        if (!(m->t[k] = gd_link_memory(m->link, (size_t)power_of(m->n, k) * sizeof(double)))) return false;
    m->work = gd_link_memory(m->link, (size_t)power_of(m->n, order > 1 ? order - 1 : 1) * sizeof(double));
    m->low = gd_link_memory(m->link, 2 * (size_t)m->n * sizeof(double));
    m->high = m->low ? m->low + m->n : NULL;
    return m->work && m->low;
}

static bool finite_numbers(const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return false;
    return true;
}

/* All derivatives up to the last order that is finite. */
static gd_status derive(taylor *m, gd_var *var)
{
    gd_tensor *const *grad = m->order > 1 ? gd_var_grad_graph(var) : gd_var_grad(var);
    if (!grad && gd_error(m->ctx) != GD_NOT_IMPLEMENTED) return gd_error(m->ctx);
    if (!grad) gd_clear_error(m->ctx);
    gd_status status = grad ? by_autograd(m, var, grad) : by_differences(m, var);
    for (int k = 1; k <= m->order && !status; k++) {
        if (k > 1) spread_symmetric(m->t[k], k, m->n);
        if (!finite_numbers(m->t[k], power_of(m->n, k))) m->order = k - 1;
    }
    return status;
}

/* ---- the step ---- */

/* Sides of the box: the radius and the bounds of the parameters; held elements stay. */
static gd_status set_sides(taylor *m, gd_var *var, double radius)
{
    double *x = gd_link_memory(m->link, 2 * (size_t)m->n * sizeof *x), *held = x ? x + m->n : NULL;
    gd_tensor *mask = x ? gd_var_free_mask(var) : NULL;
    gd_status status = x ? gd_error(m->ctx) : GD_NOMEM;
    if (!status && mask) status = gd_read_f64(mask, held, m->n);
    int64_t at = 0;
    for (int k = 0; k < gd_var_count(var) && !status; k++) {
        gd_tensor *p = gd_var_params(var)[k], *side[2];
        int64_t numel = gd_numel(p);
        (void)gd_var_bounds(var, k, &side[0], &side[1]);
        status = numel ? gd_read_f64(p, x + at, numel) : GD_OK;
        for (int64_t i = 0; i < numel && !status; i++, at++) {
            double low = side[0] ? ((const double *)gd_data(side[0]))[gd_numel(side[0]) > 1 ? i : 0]
                                 : -INFINITY;
            double high = side[1] ? ((const double *)gd_data(side[1]))[gd_numel(side[1]) > 1 ? i : 0]
                                  : INFINITY;
            bool stays = mask && held[at] == 0;
            m->low[at] = stays ? 0 : fmin(0, fmax(-radius, low - x[at]));
            m->high[at] = stays ? 0 : fmax(0, fmin(radius, high - x[at]));
        }
    }
    return status;
}

static gd_tensor *lowest_step(gd_trust *t)
{
    taylor *m = t->memo;
    bool box = gd_link_is(t->link, "trust_method", "bounds");
    double value = 0, most = 0, tolerance = gd_link_real(t->link, "boundary_tol", NULL);
    m->radius = box ? 0 : t->radius;
    double *d = set_sides(m, t->var, box ? t->radius : INFINITY) ? NULL : minimum(m, &value);
    if (!d) return NULL;
    for (int64_t i = 0; i < m->n; i++) {
        most = box ? fmax(most, fabs(d[i])) : hypot(most, d[i]);
        d[i] = -d[i];
    }
    gd_tensor *u = gd_cast(gd_from_f64(m->ctx, GD_F64, 1, &m->n, d), gd_tensor_dtype(t->b));
    u = gd_to_device(u, gd_tensor_device(t->b));
    if (!u) return NULL;
    /* b u - less is the decrease that the whole model predicts */
    t->hd = gd_zeros_like(u);
    t->less = gd_vector_dot(t->b, u) + value;
    t->inside = !isnan(tolerance) && most < (1 - tolerance) * t->radius;
    return t->hd ? u : NULL;
}

static gd_status higher_order_newton_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int order = (int)gd_link_real(link, "order", NULL);
    gd_tensor *p = gd_list_vector(gd_var_params(var), gd_var_count(var));
    taylor m = {.n = p ? gd_numel(p) : 0, .link = link, .ctx = ctx};
    if (!p) return gd_error(ctx);
    if (!m.n) return gd_var_set_zero_update(var);
    gd_status status = open_model(&m, order) ? derive(&m, var) : gd_error(ctx);
    if (status) return status;
    if (!m.order) {
        /* no model without a gradient */
        gd_var_note_failed_search(var);
        return gd_var_set_zero_update(var);
    }
    gd_tensor *const *grad = gd_var_grad(var);
    gd_tensor *h = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){m.n, m.n},
                               m.order > 1 ? m.t[2]
                                           : gd_link_memory(link, (size_t)(m.n * m.n) * sizeof(double)));
    gd_trust t = {.link = link, .var = var, .memo = &m};
    t.b = grad ? gd_list_vector(grad, gd_var_count(var)) : NULL;
    h = t.b && h ? gd_to_device(gd_cast(h, gd_tensor_dtype(t.b)), gd_tensor_device(t.b)) : NULL;
    t.hessian = h ? gd_linop_dense(h) : NULL;
    status = t.hessian ? gd_trust_search(&t, &(gd_trust_method){.propose = lowest_step}, 1) : gd_error(ctx);
    gd_linop_release(t.hessian);
    return status;
}

GD_LINK(higher_order, higher_order_newton,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Newton's method with third and higher derivatives in a trust region",
    .formula = "argmin of sum_k T_k d^k / k!, k <= order, in |d_i| <= radius",
    .paper =
        "Birgin, Gardenghi, Martinez, Santos & Toint, Worst-case evaluation complexity for unconstrained nonlinear "
        "optimization using high-order regularized models, Math. Program. 163, 2017",
    .cost =
        "n^order numbers and about n^(order - 1) / (order - 1)! reverse passes per step for n elements; an evaluation a "
        "trial step",
    .example = "higher_order_newton(3)",
    GD_FIELDS(fields),
    .step = higher_order_newton_step,
    .traits.needs_closure = true);
