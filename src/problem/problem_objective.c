/* A problem for the solvers: objective, and the chain with links for bounds and constraints; see problem.h. */
#include "problem/problem.h"

#include "gradus/solve.h"
#include "optim/chain/bounds_chain.h"
#include "optim/vector/layout.h"
#include "problem/constraints.h"
#include "problem/problem_rows.h"
#include "table/bound.h"

#include <math.h>
#include <string.h>

/* ---- the objective ---- */

static gd_tensor *value_of(void *user)
{
    gd_problem *p = user;
    if (!p->spec.interrupted || !p->spec.interrupted(p->spec.user)) return gd__problem_value(p);
    (void)gd_fail(p->ctx, GD_INTERRUPTED, "interrupted");
    return NULL;
}

/* The same as a number, for links that need one number. */
static gd_status number_of(void *user, double *loss)
{
    gd_problem *p = user;
    gd_tensor *v = value_of(p), *number = v ? gd__problem_loss_of(v) : NULL;
    *loss = number ? gd_item(number) : NAN;
    return gd_error(p->ctx);
}

static gd_tensor *equal_values(void *user)
{
    gd_problem *p = user;
    return gd__constraints_values(p, &p->equal);
}

static gd_tensor *below_values(void *user)
{
    gd_problem *p = user;
    return gd__constraints_values(p, &p->below);
}

gd_objective gd__problem_objective(gd_problem *p)
{
    bool none = p->spec.gradients == GD_GRADIENTS_NONE, by_rows = p->rows && p->rows->batch.rows > 0;
    return (gd_objective){.loss = none || by_rows ? NULL : value_of,
                          .value = none ? number_of : NULL,
                          .batch = by_rows ? &p->rows->batch : NULL,
                          .user = p,
                          .traced = true,
                          .equal = p->equal.count ? equal_values : NULL,
                          .below = p->below.count ? below_values : NULL};
}

/* ---- the chain ---- */

static bool has_link(const gd_link *link, const char *name)
{
    if (!strcmp(gd_link_class_of(link)->name, name)) return true;
    for (int i = 0; i < gd_link_children(link); i++)
        if (has_link(gd_link_child_at(link, i), name)) return true;
    return false;
}

gd_status gd__problem_choose_chain(gd_problem *p, const char **chain)
{
    *chain = NULL;
    if (!gd__problem_is_constrained(p) || p->spec.gradients != GD_GRADIENTS_EXACT) return GD_OK;
    gd_objective objective = gd__problem_objective(p);
    gd_link *link = gd_chain_for(p->value, p->params, &objective, false);
    if (link && has_link(link, "nlp")) *chain = "nlp";
    gd_link_release(link);
    return link ? GD_OK : gd_error(p->ctx);
}

/* The chain behind a box; consumed. */
static gd_link *bounded(gd_problem *p, gd_link *chain)
{
    int64_t n = gd__list_numel(p->value, p->params);
    size_t bytes = (2 * (size_t)n + 1) * sizeof(double);
    double *low = gd__alloc(p->ctx, bytes), *high = low ? low + n : NULL;
    gd_status status = low ? GD_OK : GD_NOMEM;
    for (int64_t i = 0; i < n && !status; i++) low[i] = -INFINITY, high[i] = INFINITY;
    for (int i = 0; i < p->spec.bounds->count && !status; i++)
        status = gd__bounds_read(p->ctx, p->spec.bounds->word[i], p->name, p->value, p->params, low, high);
    if (!status)
        chain = gd__bounds_chain(p->ctx, chain, p->value, p->params, low, high);
    else {
        gd_link_release(chain);
        chain = NULL;
    }
    gd__free(p->ctx, low, low ? bytes : 0);
    return chain;
}

gd_status gd__problem_restrict(gd_problem *p, int64_t starts, int64_t steps, gd_link **link)
{
    bool limits = gd__problem_is_constrained(p);
    if (p->spec.gradients == GD_GRADIENTS_DIFFERENCES)
        *link = gd_chain_of(p->ctx, (gd_link *[]){gd_chain(p->ctx, "fdm"), *link}, 2);
    if (*link && limits && !has_link(*link, "augmented_lagrangian") && !has_link(*link, "nlp")) {
        const gd_link_option inner = gd_child_option("inner", *link);
        *link = gd_link_with(p->ctx, "augmented_lagrangian", &inner, 1);
    }
    if (*link && starts > 1) {
        const gd_link_option both[] = {gd_child_option("inner", *link), gd_number_option("n", (double)starts),
                                       gd_number_option("steps", (double)steps)};
        *link = gd_link_with(p->ctx, "multi_start", both, limits ? 3 : 2);
    }
    if (*link && p->spec.bounds && p->spec.bounds->count) *link = bounded(p, *link);
    return *link ? GD_OK : gd_error(p->ctx);
}
