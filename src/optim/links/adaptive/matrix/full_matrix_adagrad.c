/* Adagrad with the whole matrix of products of gradients instead of its diagonal (Duchi, Hazan & Singer 2011).
 *
 * G gathers g g^T over the steps: their sum, with beta their moving average; decay times the old value.  The update is
 * G^(-1/2) u, with sqrt=false G^(-1) u; G is divided by the number of products with `divide`.  Eigenvalues below the rounding
 * error of the largest are taken for it, so that a singular G gives a finite update.
 *
 * State: two n x n matrices, n the number of all elements (of a tensor with concat_params=false).  Cost: a factorisation of
 * n^3 every precond_freq steps, 4 n^2 else.  A gradient that is not finite, or whose products overflow, is passed on and leaves
 * the state as it was. */
#include "gradus/link.h"
#include "gradus/link/matrices.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL_OR_NONE("beta", 0, 1, "decay of the moving average; none: the sum of all products"),
    GD_REAL_OR_NONE("decay", 0, 1, "factor of the sum before each added product"),
    GD_FLAG("sqrt", true, "the inverse root of the matrix, else its inverse"),
    GD_CONCAT_PARAMS("one matrix for all parameters, else one for each"),
    GD_INT("precond_freq", 1, 1, 1e9, "steps between factorisations"),
    GD_CHOICE("init", "identity", "identity|zeros|ones|GGT", "the matrix before the first product"),
    GD_REAL("reg", 1e-12, 0, INFINITY, "added to the eigenvalues"),
    GD_FLAG("divide", false, "divide the matrix by the number of products"),
    GD_INNER("acts on the update before the matrix does"),
};
static const gd_slot slots[] = {{"matrix", 0}, {"root", 0}};
static const char *const scalars[] = {"products", "step"};

static gd_dtype dtype_for(const gd_tensor *x) { return gd_tensor_dtype(x) == GD_F64 ? GD_F64 : GD_F32; }

static gd_tensor *column_of(gd_tensor *x)
{
    return gd_cast(gd_reshape(gd_drop_names(x), 2, (int64_t[]){gd_numel(x), 1}), dtype_for(x));
}

/* [n, n] before the first product; user is that product. */
static gd_tensor *first_matrix(void *user, gd_tensor *param)
{
    gd_tensor *gg = ((gd_tensor **)user)[0], *zeros = gd_zeros_like(gg);
    const gd_link *link = ((void **)user)[1];
    (void)param;
    if (gd_link_is(link, "init", "zeros")) return zeros;
    if (gd_link_is(link, "init", "ones")) return gd_ones_like(gg);
    if (gd_link_is(link, "init", "GGT")) return gd_copy(gg);
    int64_t n = gd_size(gg, 0);
    return gd_to_device(gd_eye(gd_tensor_ctx(gg), gd_tensor_dtype(gg), n, n), gd_tensor_device(gg));
}

/* The next matrix; the old one if the next is not finite. */
static gd_tensor *gathered(const gd_link *link, gd_tensor *old, gd_tensor *gg)
{
    double beta = gd_link_real(link, "beta", NULL), decay = gd_link_real(link, "decay", NULL);
    gd_tensor *next = isnan(decay) ? old : gd_mul_scalar(old, decay);
    next = isnan(beta) ? gd_add(next, gg) : gd_add(gd_mul_scalar(next, beta), gd_mul_scalar(gg, 1 - beta));
    return next ? gd_where(gd_all(gd_isfinite(next), NULL, false), next, old) : NULL;
}

static gd_status gather_products(const gd_transform *t, int i)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor *g = column_of(t->tensors[i]), *gg = gd_matmul(g, gd_transpose(g, 0, 1));
    if (!gg) return gd_error(ctx);
    void *user[2] = {gg, t->link};
    gd_init init = {.kind = GD_INIT_FUNCTION, .make = first_matrix, .user = user};
    gd_tensor *matrix = gd_link_state_from(t->link, t->keys[i], "matrix", init);
    double *products = gd_link_scalar(t->link, t->keys[i], "products");
    gd_tensor *next = matrix && products ? gathered(t->link, matrix, gg) : NULL;
    if (!next) return gd_error(ctx);
    gd_status status = gd_assign(matrix, next);
    if (!status) *products += 1;
    return status;
}

static gd_status full_matrix_update(const gd_transform *t)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++)
        if (gd_numel(t->tensors[i])) status = gather_products(t, i);
    return status;
}

static gd_tensor *new_root(const gd_transform *t, int i)
{
    gd_tensor *matrix = gd_link_state(t->link, t->keys[i], "matrix");
    double *products = gd_link_scalar(t->link, t->keys[i], "products");
    if (!matrix || !products) return NULL;
    if (gd_link_flag(t->link, "divide")) matrix = gd_mul_scalar(matrix, 1 / *products);
    double exponent = gd_link_flag(t->link, "sqrt") ? -0.5 : -1;
    return gd_squeeze(
        gd_matrix_power(gd_unsqueeze(matrix, 0, NULL), gd_link_real(t->link, "reg", NULL), exponent), "0");
}

/* The root of this step: kept, or new when it is due. */
static gd_tensor *root_of(const gd_transform *t, int i)
{
    double *step = gd_link_scalar(t->link, t->keys[i], "step");
    if (!step) return NULL;
    bool due = fmod(*step, gd_link_real(t->link, "precond_freq", NULL)) == 0;
    if (due || !gd_link_has_state(t->link, t->keys[i], "root")) {
        gd_tensor *root = new_root(t, i);
        if (!root || gd_link_set_state(t->link, t->keys[i], "root", root)) return NULL;
    }
    *step += 1;
    return gd_link_state(t->link, t->keys[i], "root");
}

static gd_status full_matrix_apply(const gd_transform *t)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) {
        if (!gd_link_has_state(t->link, t->keys[i], "matrix")) continue; /* there is no element */
        gd_tensor *root = root_of(t, i), *u = gd_matmul(root, column_of(t->tensors[i]));
        int64_t size[GD_MAX_DIMS];
        for (int k = 0; k < gd_ndim(t->tensors[i]); k++) size[k] = gd_size(t->tensors[i], k);
        u = gd_reshape(u, gd_ndim(t->tensors[i]), size);
        status = u ? gd_assign(t->tensors[i], u) : gd_error(gd_link_ctx(t->link));
    }
    return status;
}

static int64_t full_matrix_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t all = 0, total = 0, widest = 4;
    bool one = gd_link_flag(link, "concat_params");
    for (int i = 0; i < count; i++) {
        int64_t n = gd_numel(params[i]), item = dtype_for(params[i]) == GD_F64 ? 8 : 4;
        if (item > widest) widest = item;
        total += n;
        all += 2 * n * n * item;
    }
    return one ? 2 * total * total * widest : all;
}

GD_LINK(adaptive, full_matrix_adagrad,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Adagrad with the whole matrix of products of gradients",
    .formula = "G += g g^T;  (G + reg)^(-1/2) u",
    .paper =
        "Duchi, Hazan & Singer, Adaptive subgradient methods for online learning and stochastic optimization, JMLR 2011",
    .cost = "n^3 every precond_freq steps, 4 n^2 else; two n x n matrices, n the number of elements",
    .example = "full_matrix_adagrad | lr(1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .update_tensors = full_matrix_update,
    .apply_tensors = full_matrix_apply,
    .state_bytes = full_matrix_bytes,
    .traits.concat_params = true,
    .traits.whole_settings = true);
