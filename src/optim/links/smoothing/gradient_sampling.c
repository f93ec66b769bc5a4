/* Gradient sampling: loss and gradient are those of many points near by (Burke, Lewis & Overton 2005).
 *
 * The closure gives the aggregate over n points p + sigma z, and p itself with include_x0: the mean; the largest or smallest, element by
 * element; those of the sample with the least gradient norm or the least loss.  With modules, the chain runs on that closure and its update
 * is passed on; without, all links after this one use the closure.
 * fixed: the z are kept until `termination` says stop, which multiplies sigma by decay, draws others and, with
 * reset_on_termination, lets the other links (the chain's, with modules) forget their state.  Not fixed: new ones at every step, or without
 * pre_generate at every evaluation.  sigma_strategy: after each step's first evaluation sigma times sigma_nplus where at least
 * sigma_target of the samples (a share below 1, else a number of them) have a lower gradient norm or value than p, else times sigma_nminus.
 * Samples that are not finite are left out, as long as one is.  State: the z, with fixed; sigma.  Cost: n evaluations for one. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_CHILD("modules", "a chain that runs on the aggregate; none: all links after this one do"),
    GD_REAL("sigma", 1, 0, INFINITY, "distance of the samples, at first"),
    GD_INT("n", 100, 1, 1e6, "samples"),
    GD_CHOICE("aggregate", "mean", "mean|max|min|min-norm|min-value", "how they are combined"),
    GD_CHOICE("distribution", "gaussian", GD_DISTRIBUTIONS, "of the samples"),
    GD_FLAG("include_x0", true, "the parameters themselves are a sample too"),
    GD_FLAG("fixed", true, "the same samples until `termination` says stop"),
    GD_FLAG("pre_generate", true, "the same samples for all evaluations of a step"),
    GD_CHILD("termination", "a criterion that makes sigma smaller"),
    GD_REAL("decay", 2.0 / 3, 0, INFINITY, "factor of sigma then"),
    GD_FLAG("reset_on_termination", true, "links forget their state then"),
    GD_CHOICE_OR_NONE("sigma_strategy", "grad-norm|value",
                      "what makes sigma larger or smaller every step; none: nothing"),
    GD_REAL("sigma_target", 0.2, 0, INFINITY,
            "samples that have to be lower: a share, or a number from 1 on"),
    GD_REAL("sigma_nplus", 4.0 / 3, 0, INFINITY, "factor of sigma where they are"),
    GD_REAL("sigma_nminus", 2.0 / 3, 0, INFINITY, "factor of sigma where they are not"),
    GD_SEED("of its own random numbers; none: those of the context"),
};

/* ---- the samples ---- */

/* A row per sample: all elements of its z. */
static gd_tensor *draw_samples(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var), n = (int)gd_link_real(link, "n", NULL);
    const char *kind = gd_link_get(link, "distribution", NULL)->string;
    gd_tensor **rows = gd_link_scratch(link, n), **z = gd_link_scratch(link, count);
    for (int k = 0; k < n; k++) {
        if (!rows || !z || gd_link_random_list(link, kind, gd_var_params(var), count, z)) return NULL;
        if (!(rows[k] = gd_list_vector(z, count))) return NULL;
    }
    return gd_stack(rows, n, 0, NULL);
}

static double sigma_of(const gd_link *link)
{
    return gd_link_kept(link, "sigma", gd_link_real(link, "sigma", NULL));
}

typedef struct samples {
    gd_link *link;
    gd_tensor *z; /* NULL: each evaluation draws its own */
    double sigma; /* of this step: evaluations come after what changes it for the next */
    bool judged;  /* sigma_strategy has had its evaluation */
} samples;

/* Those that are kept, or new ones. */
static gd_status open_samples(gd_link *link, gd_var *var, samples *s)
{
    bool fixed = gd_link_flag(link, "fixed");
    gd_tensor *kept = fixed ? gd_link_global_tensor(link, "z") : NULL;
    int64_t n = (int64_t)gd_link_real(link, "n", NULL), elements = 0;
    for (int i = 0; i < gd_var_count(var); i++) elements += gd_numel(gd_var_params(var)[i]);
    if (kept && (gd_size(kept, 0) != n || gd_size(kept, 1) != elements)) kept = NULL;
    *s = (samples){.link = link, .sigma = sigma_of(link)};
    if (kept && !(s->z = gd_detach(kept))) return gd_error(gd_var_ctx(var));
    if (kept || (!fixed && !gd_link_flag(link, "pre_generate"))) return GD_OK;
    if (!(s->z = draw_samples(link, var))) return gd_error(gd_var_ctx(var));
    return fixed ? gd_link_set_global_tensor(link, "z", s->z) : GD_OK;
}

/* ---- the aggregate ---- */

typedef struct gathered {
    gd_tensor *loss, **grads; /* so far */
    double least;             /* the value by which the best sample is chosen */
    int used, lower;          /* samples; those below p */
    double here;              /* norm or value at p */
} gathered;

static gd_tensor *larger(gd_tensor *a, gd_tensor *b, bool max)
{
    return gd_where(max ? gd_gt(b, a) : gd_lt(b, a), b, a);
}

/* Adds one sample. By size: keeps the better of both; else sum, or element by element. */
static gd_status take_in(gd_link *link, gd_var *var, gathered *g, gd_tensor *loss, gd_tensor **grads,
                         double key)
{
    bool by_norm = gd_link_is(link, "aggregate", "min-norm"),
         by_value = gd_link_is(link, "aggregate", "min-value");
    bool mean = gd_link_is(link, "aggregate", "mean"), max = gd_link_is(link, "aggregate", "max");
    bool first = !g->used++, better = first || key < g->least;
    int count = grads ? gd_var_count(var) : 0;
    if (better) g->least = key;
    if (first || ((by_norm || by_value) && better)) {
        g->loss = loss;
        for (int i = 0; i < count; i++) g->grads[i] = grads[i];
        return GD_OK;
    }
    if (by_norm || by_value) return GD_OK;
    g->loss = mean ? gd_add(g->loss, loss) : larger(g->loss, loss, max);
    for (int i = 0; i < count; i++) {
        g->grads[i] = mean ? gd_add(g->grads[i], grads[i]) : larger(g->grads[i], grads[i], max);
        if (!g->grads[i]) return gd_error(gd_var_ctx(var));
    }
    return g->loss ? GD_OK : gd_error(gd_var_ctx(var));
}

/* One point: alpha z away, or p itself. */
static gd_status sample(samples *s, gd_var *var, gd_tensor *row, gathered *g, bool backward)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_link *link = s->link;
    int count = gd_var_count(var);
    gd_tensor *loss = NULL, **list = gd_link_scratch(link, 2 * count), **z = list + count;
    if (!list) return gd_error(ctx);
    gd_status status = row ? gd_list_split(row, gd_var_params(var), count, z) : GD_OK;
    if (!status)
        status = row ? gd_var_inner_evaluate_at(var, s->sigma, z, &loss, backward ? list : NULL)
                     : gd_var_inner_evaluate(var, &loss, backward ? list : NULL);
    double value = status ? NAN : gd_item(loss), norm = value;
    if (!status && backward) status = gd_list_norm(list, count, 2, &norm);
    if (status || !isfinite(value) || !isfinite(norm)) return status;
    bool by_norm = gd_link_is(link, "sigma_strategy", "grad-norm");
    if (!row) g->here = by_norm ? norm : value;
    g->lower += row && (by_norm ? norm : value) < g->here;
    if (!row && !gd_link_flag(link, "include_x0")) return GD_OK;
    return take_in(link, var, g, loss, backward ? list : NULL,
                   gd_link_is(link, "aggregate", "min-norm") ? norm : value);
}

/* sigma after the first evaluation of a step. */
static gd_status judge(samples *s, const gathered *g, int n, bool backward)
{
    gd_link *link = s->link;
    if (s->judged || gd_link_is_none(link, "sigma_strategy")) return GD_OK;
    if (!backward && gd_link_is(link, "sigma_strategy", "grad-norm")) return GD_OK;
    s->judged = true;
    double target = gd_link_real(link, "sigma_target", NULL), needed = target < 1 ? target * n : target;
    return gd_link_keep(link, "sigma",
                        sigma_of(link) *
                            gd_link_real(link, g->lower >= needed ? "sigma_nplus" : "sigma_nminus", NULL));
}

static gd_status scale(gd_link *link, gd_var *var, gathered *g, bool backward)
{
    if (!gd_link_is(link, "aggregate", "mean") || g->used < 2) return GD_OK;
    g->loss = gd_mul_scalar(g->loss, 1.0 / g->used);
    for (int i = 0; backward && i < gd_var_count(var); i++)
        if (!(g->grads[i] = gd_mul_scalar(g->grads[i], 1.0 / g->used))) return gd_error(gd_var_ctx(var));
    return g->loss ? GD_OK : gd_error(gd_var_ctx(var));
}

static gd_status aggregate(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    samples *s = user;
    gd_ctx *ctx = gd_var_ctx(var);
    int n = (int)gd_link_real(s->link, "n", NULL);
    gathered g = {.grads = grads, .here = -INFINITY};
    bool at_p = gd_link_flag(s->link, "include_x0") || !gd_link_is_none(s->link, "sigma_strategy");
    gd_no_grad_begin(ctx);
    gd_tensor *z = s->z ? s->z : draw_samples(s->link, var);
    gd_status status = !z ? gd_error(ctx) : at_p ? sample(s, var, NULL, &g, backward) : GD_OK;
    for (int k = 0; k < n && !status; k++) status = sample(s, var, gd_index(z, "0", k), &g, backward);
    if (!status) status = judge(s, &g, n, backward);
    if (!status) status = scale(s->link, var, &g, backward);
    gd_no_grad_end(ctx);
    *loss = g.loss;
    /* nothing was finite: what there is at p */
    return status || g.used ? status : gd_var_inner_evaluate(var, loss, backward ? grads : NULL);
}

/* ---- the step ---- */

static gd_status run_chain(gd_link *link, gd_var *var, samples *s)
{
    gd_link *chain = gd_link_child(link, "modules");
    if (!chain) return gd_var_wrap_closure(var, aggregate, s);
    gd_var *clone = gd_var_clone(var, false, NULL);
    if (!clone) return gd_error(gd_var_ctx(var));
    /* what is known is of p alone, not of the samples */
    gd_var_set_loss(clone, NULL);
    gd_status status = gd_var_set_grad(clone, NULL);
    if (!status) status = gd_var_set_update(clone, NULL);
    if (!status) status = gd_var_wrap_closure(clone, aggregate, s);
    if (!status) status = gd_link_step(chain, clone);
    gd_tensor *const *update = status ? NULL : gd_var_read_update(clone);
    if (!status) status = update ? gd_var_set_update(var, update) : gd_error(gd_var_ctx(var));
    gd_var_free(clone);
    return status;
}

static gd_status shrink(gd_link *link)
{
    gd_status status = gd_link_keep(link, "sigma", sigma_of(link) * gd_link_real(link, "decay", NULL));
    if (!status) status = gd_link_set_global_tensor(link, "z", NULL);
    if (!status && gd_link_flag(link, "reset_on_termination")) {
        if (gd_link_child(link, "modules"))
            gd_link_reset(gd_link_child(link, "modules"));
        else
            gd_link_reset_others(link);
    }
    return status;
}

static gd_status gradient_sampling_step(gd_link *link, gd_var *var)
{
    gd_link *criterion = gd_link_child(link, "termination");
    samples *s = gd_link_memory(link, sizeof *s);
    gd_status status = s ? open_samples(link, var, s) : gd_error(gd_var_ctx(var));
    if (!status) status = run_chain(link, var, s);
    bool stop = false;
    if (!status && criterion) status = gd_var_ask(var, criterion, &stop);
    return !status && stop ? shrink(link) : status;
}

/* The samples, and nothing else: tensors of all parameters. */
static int64_t sampling_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t elements = 0, size = 4;
    for (int i = 0; i < count; i++) {
        elements += gd_numel(params[i]);
        if (gd_tensor_dtype(params[i]) == GD_F64) size = 8;
    }
    return gd_link_flag(link, "fixed") ? elements * size * (int64_t)gd_link_real(link, "n", NULL) : 0;
}

GD_LINK(smoothing, gradient_sampling,
    .spread = GD_SPREAD_VECTOR,
    .summary = "loss and gradient of many points near by",
    .formula = "g = mean of g(p + sigma z)",
    .paper =
        "Burke, Lewis & Overton, A robust gradient sampling algorithm for nonsmooth, nonconvex optimization, 2005",
    .cost = "n evaluations with gradient for one; the samples in memory with fixed",
    .example = "gradient_sampling(sigma=0.1, n=5) | lr(0.01)",
    GD_FIELDS(fields),
    .step = gradient_sampling_step,
    .state_bytes = sampling_bytes,
    .traits.needs_closure = true,
    .traits.restores_params = true);
