/* One table for all formulas: a letter means the same in all links of a family, and mostly in all families. */
#include "optim/link/symbols.h"
#include "optim/link/link_internal.h"

#include <string.h>

#define DENSE                                                                                            \
    " bfgs dfp fletcher_vmm horisho sr1 ssvm new_ssm shor_r broyden_good broyden_bad mccormick pearson " \
    "greenstadt1 greenstadt2 icum thomas_optimal_method "

/* If several rows have the same name, the first one for the link counts. */
static const struct row {
    const char *name;
    const char *of; /* families and links, with a blank before and behind each; NULL: all */
    const char *meaning;
    bool assigned; /* also if the formula defines its change: its initial value is explained */
} rows[] = {
    {"u", " orthogonalize laplacian_smoothing basin_hopping multi_start ", "the update that comes in", true},
    {"u", NULL, "the update that comes in", false},
    {"g", " augmented_lagrangian nlp ", "the constraints that are at most 0", false},
    {"g", " svrg ", "the gradient that links see", true},
    {"g_b", NULL, "the gradient of the batch", false},
    {"G", " svrg ", "the mean of the gradients of all batches at p_0", false},
    {"g", NULL, "the gradient", false},
    {"p_0", " svrg ", "the parameters at the start of a round", false},
    {"p", NULL, "the parameter", false},
    {"t", NULL, "the number of the step, from 1", false},
    {"f", NULL, "the loss", false},
    {"k", " adahessian esgd ", "how often products were made", false},
    {"z", NULL, "a random vector", false},
    {"e_i", NULL, "the unit vector of element i", false},
    {"e_j", NULL, "the unit vector of element j", false},
    {"I", NULL, "the identity", false},
    {"n", " weighted_averaging ", "how many weights there are", false},
    {"w", " weighted_averaging ", "the weights", false},
    {"n", NULL, "the number of elements", false},
    {"k", " line_search ", "0, 1, 2, ...", false},
    {"k", " higher_order ", "1 to order", false},
    {"l", " chain ", "a link", false},
    {"c", " terminate_all terminate_any ", "a criterion", false},
    {"i", " escape_annealing ", "the number of the try, from 1", false},
    {"i", " sequential ", "the number of a link, from 0", false},
    {"i", " laplacian_smoothing ", "the number of an element", false},
    {"D", " laplacian_smoothing ", "the second difference", false},
    {"U", " orthogonalize ", "the left singular vectors", false},
    {"S", " orthogonalize ", "the singular values", false},
    {"V", " orthogonalize ", "the right singular vectors", false},
    {"E", " psgd ", "the expectation", false},
    {"v", " psgd ", "a random vector", false},
    {"d", " psgd ", "a vector", false},
    {"G_d", NULL, "u as a matrix with axis d first", false},
    {"H", DENSE, "the estimate of the inverse Hessian, initially init_scale^-1 I", true},
    {"B", " psb ", "the estimate of the Hessian, initially init_scale I", true},
    {"b", " diagonal_quasi_cauchi diagonal_weighted_quasi_cauchi dnrtr new_dqn ",
     "the estimate of the Hessian's diagonal, initially init_scale", true},
    {"h", " diagonal_bfgs diagonal_sr1 ",
     "the estimate of the inverse Hessian's diagonal, initially 1 / init_scale", true},
    {"a", " ssvm ", "the scale, as switch chooses it", false},
    {"b", " ssvm ", "the share of BFGS, as switch chooses it", false},
    {"P", " projected_gradient_method ", "at first I", true},
    {"R", " projected_newton_raphson ", "gives the direction, at first I", true},
    {"A", " projected_newton_raphson ", "becomes the inverse Hessian, at first I", true},
    {"H", " trust_region ", "the Hessian that hess_module knows", false},
    {"H", NULL, "the Hessian", false},
    {"s", " global_search ", "the sizes of the elements", false},
    {"s", " quasi_newton second_order step_size adaptive ",
     "how the parameters have changed since the last step", false},
    {"y", " second_order step_size ", "how the gradient has changed since", false},
    {"y", " quasi_newton conjugate_gradient ", "how the update has changed since the last step", false},
    {"v", " conjugate_gradient ", "the update of the step before", false},
    {"d", " conjugate_gradient ", "the direction: parameters move along -d", true},
    {"d", " trust_region second_order higher_order least_squares ", "the step that is subtracted", true},
    {"radius", " trust_region second_order higher_order ",
     "grows where the loss falls as predicted, shrinks where it does not", false},
    {"T_k", NULL, "all k-th derivatives of the loss", false},
    {"F", " second_order ", "the gradient", false},
    {"J", " second_order ", "the Hessian", false},
    {"J", " least_squares ", "the Jacobian of the residuals", false},
    {"r", " least_squares ", "the residuals", false},
    {"S", " second_order ", "the directions of the sketch, as columns", false},
    {"Q", " second_order ", "eigenvectors of the Hessian as the sketch sees it", false},
    {"L", " second_order ", "their eigenvalues", false},
    {"a", " line_search ", "how far along the update", false},
    {"a", " adgd bb_stab ", "the step size, at first alpha_0", true},
    {"h", " augmented_lagrangian nlp ", "the constraints that are to be 0", false},
    {"l", " augmented_lagrangian ", "the multipliers of h, += r h at each minimum", false},
    {"m", " augmented_lagrangian ", "the multipliers of g, max(0, m + r g) at each minimum", false},
    {"r", " augmented_lagrangian ", "the penalty", false},
    {"best", " global_search ", "the lowest point so far", false},
    {"F", " differential_evolution ", "drawn anew in each step", false},
    {"a", " differential_evolution ", "any member of the population", false},
    {"b", " differential_evolution ", "any other member", false},
    {"w_k", " cma_es ", "weights of the better half, the lowest first", false},
    {"best", " nelder_mead ", "the lowest point of the simplex", false},
    {"c", " nelder_mead ", "the centre of all points but the highest", false},
    {"w", " nelder_mead ", "the highest point of the simplex", false},
    {"b", " nelder_mead ", "1, 1 + 2 / n, 3/4 - 1 / (2 n) or minus that, as the losses say", false},
    {"C", " cma_es ", "the covariance, at first I", true},
};

static bool letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool letter(char c) { return letter_or_digit(c) || c == '_'; }

/* "_i", "_0", "_(t-1)" behind a name; not "_tol". */
static bool is_index(const char *s)
{
    return s[0] == '_' && (s[1] == '(' || (letter_or_digit(s[1]) && !letter(s[2])));
}

/* Where the name stands in the text next; a name without an index also stands for each of its elements, g_i. */
static const char *find(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *s = text; (s = strstr(s, name)); s++)
        if ((s == text || !letter(s[-1])) && (!letter(s[length]) || is_index(s + length))) return s;
    return NULL;
}

/* Does the formula define it: "v = ", "v_0 = ", "m += ", "Y <- "? */
static bool is_assigned(const char *formula, const char *name)
{
    for (const char *s = formula; (s = find(s, name)); s++) {
        const char *end = s + strlen(name);
        if (*end == '_')
            while (letter(*end)) end++;
        if (!strncmp(end, " = ", 3) || !strncmp(end, " += ", 4) || !strncmp(end, " <- ", 4)) return true;
    }
    return false;
}

static bool names(const char *list, const char *name)
{
    size_t length = name ? strlen(name) : 0;
    for (const char *s = list; length && (s = strstr(s, name)); s++)
        if (s[-1] == ' ' && s[length] == ' ') return true;
    return false;
}

static const struct row *row_of(const gd_link_class *cls, const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name) &&
            (!rows[i].of || names(rows[i].of, cls->name) || names(rows[i].of, cls->family)))
            return &rows[i];
    return NULL;
}

bool gd__formula_symbol(const gd_link_class *cls, int *next, gd_symbol *out)
{
    int count = cls->formula ? (int)(sizeof rows / sizeof *rows) : 0;
    while (*next < count) {
        const struct row *row = &rows[(*next)++];
        if (row != row_of(cls, row->name) || !find(cls->formula, row->name)) continue;
        if (gd__field_index(cls, row->name) >= 0) continue;
        if (!row->assigned && is_assigned(cls->formula, row->name)) continue;
        *out = (gd_symbol){row->name, row->meaning};
        return true;
    }
    return false;
}
