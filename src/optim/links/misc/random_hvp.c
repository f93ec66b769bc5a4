/* A product of the Hessian with random numbers in place of the update: u = mean over samples of H z, kept for update_freq steps.
 * State: the product, with update_freq above 1.  Cost: n_samples products when it is renewed. */
#include "gradus/autograd.h"
#include "gradus/link/hessian.h"

static const gd_field fields[] = {
    GD_INT("n_samples", 1, 1, 1e6, "products to average over"),
    GD_CHOICE("distribution", "normal", GD_DISTRIBUTIONS, "of the vectors"),
    GD_INT("update_freq", 1, 1, 1e9, "steps that a product serves"),
    GD_HVP_CHOICE("autograd", "autograd|batched_autograd|forward|central|fd_forward|fd_central"),
    GD_REAL("h", 1e-3, 1e-300, INFINITY, "step of differences"),
    GD_SEED("of its own random numbers; none: those of the context"),
};

static const gd_slot slots[] = {{"product", 0}};

static gd_status draw(gd_link *link, gd_var *var, gd_tensor **sum)
{
    int count = gd_var_count(var), samples = (int)gd_link_real(link, "n_samples", NULL);
    const char *kind = gd_link_get(link, "distribution", NULL)->string;
    gd_status status = gd_link_expect_products(link, var);
    for (int s = 0; s < samples && !status; s++) {
        gd_tensor **z = gd_link_scratch(link, 2 * count), **hz = z + count;
        status = z ? gd_link_random_list(link, kind, gd_var_params(var), count, z)
                   : gd_error(gd_var_ctx(var));
        if (!status) status = gd_link_hessian_times(link, var, z, hz);
        for (int i = 0; i < count && !status; i++) {
            gd_tensor *share = gd_mul_scalar(hz[i], 1.0 / samples);
            if (!(sum[i] = sum[i] ? gd_add(sum[i], share) : share)) status = gd_error(gd_var_ctx(var));
        }
    }
    return status;
}

static gd_status random_hvp_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    double every = gd_link_real(link, "update_freq", NULL), left = gd_link_kept(link, "left", 0);
    gd_tensor **u = gd_link_scratch(link, count);
    bool fresh = left <= 0 || !count || !gd_link_has_state(link, gd_var_params(var)[0], "product");
    gd_no_grad_begin(ctx);
    gd_status status = !u ? gd_error(ctx) : fresh ? draw(link, var, u) : GD_OK;
    for (int i = 0; i < count && !status; i++) {
        gd_tensor *key = gd_var_params(var)[i];
        if (!fresh && !(u[i] = gd_link_state(link, key, "product"))) status = gd_error(ctx);
        if (!status && fresh && every > 1) status = gd_link_set_state(link, key, "product", u[i]);
    }
    if (!status) status = gd_var_set_update(var, u);
    gd_no_grad_end(ctx);
    return status ? status : gd_link_keep(link, "left", (fresh ? every : left) - 1);
}

/* One that is made again every step is not kept. */
static int64_t random_hvp_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return gd_link_slot_bytes(gd_link_real(link, "update_freq", NULL) > 1, params, count);
}

GD_LINK(misc, random_hvp,
    .spread = GD_SPREAD_VECTOR,
    .summary = "a product of the Hessian with a random vector",
    .formula = "u = mean H z",
    .cost = "n_samples products with the Hessian every update_freq steps, each about two gradients",
    .example = "random_hvp | clip_norm(1) | lr(0.01)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = random_hvp_step,
    .state_bytes = random_hvp_bytes,
    .traits.needs_closure = true,
    .traits.restores_params = true);
