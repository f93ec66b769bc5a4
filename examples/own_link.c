/* A link of one's own that makes whole steps: the mean of gradients at several points, given to a chain of its own.
 *
 *   cc own_link.c -lgradus && ./a.out
 *
 * The loss is a valley with ripples: gradient descent ends in a ripple, on smoothed gradients it reaches the bottom. */
#include <gradus/gradus.h>

#include <math.h>
#include <stdio.h>

/* ---- the link: smoothed([heavy_ball(0.9)], offsets=[-0.4, 0, 0.4]) ---- */

#define MOST 8 /* parameters */

static const gd_field fields[] = {GD_CHILD_NEEDED("inner", "runs on the mean of the gradients"),
                                  {.name = "offsets",
                                   .kinds = GD_SET_LIST,
                                   .low = -10,
                                   .high = 10,
                                   .help = "where gradients are taken: at the parameters plus each"}};

/* The parameters are afterwards where they were. */
static gd_status mean_of_gradients(gd_link *link, gd_var *var, gd_tensor **mean)
{
    const gd_setting *offsets = gd_link_get(link, "offsets", NULL);
    int count = gd_var_count(var);
    gd_tensor *ones[MOST], *grads[MOST];
    gd_status status = offsets ? GD_OK : gd_error(gd_var_ctx(var));
    for (int k = 0; k < count; k++) {
        ones[k] = gd_ones_like(gd_var_params(var)[k]);
        mean[k] = gd_zeros_like(ones[k]);
    }
    for (int i = 0; !status && i < offsets->list_count; i++) {
        status = gd_var_evaluate_moved(var, offsets->list[i], ones, NULL, grads);
        for (int k = 0; k < count && !status; k++)
            mean[k] = gd_add(mean[k], gd_mul_scalar(grads[k], 1.0 / offsets->list_count));
    }
    return status;
}

static gd_status smoothed_step(gd_link *link, gd_var *var)
{
    gd_tensor *mean[MOST];
    gd_link *inner = gd_link_child(link, "inner");
    if (gd_var_count(var) > MOST)
        return gd_fail(gd_var_ctx(var), GD_ARGUMENT, "smoothed: more than %d parameters", MOST);
    gd_status status = mean_of_gradients(link, var, mean);
    if (!status) status = gd_link_transform(inner, mean, gd_var_params(var), NULL, var, gd_var_count(var));
    return status ? status : gd_var_set_update(var, mean);
}

static const gd_link_class smoothed_class = {
    .name = "smoothed",
    .summary = "the mean of the gradients at several points, through a chain",
    GD_FIELDS(fields),
    .step = smoothed_step,
    .traits.needs_closure = true};

/* ---- its use ---- */

static gd_tensor *loss(void *user)
{
    gd_tensor *p = user;
    gd_tensor *ripples = gd_mul_scalar(gd_cos(gd_mul_scalar(p, 6)), -0.5);
    return gd_sum(gd_add(gd_mul_scalar(gd_square(p), 0.5), ripples), NULL, false);
}

/* The distance from the bottom after 200 steps from (2, -3).  The chain is consumed. */
static double distance(gd_ctx *ctx, gd_link *chain)
{
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){2, -3}));
    gd_optimizer *opt = gd_optimizer_new(ctx, chain);
    gd_objective objective = {.loss = loss, .user = p};
    gd_status status = opt ? gd_optimizer_add(opt, "p", p) : gd_error(ctx);
    for (int i = 0; i < 200 && !status; i++) status = gd_optimizer_step(opt, &objective, NULL);
    double far = status ? NAN : hypot(gd_at(p, (int64_t[]){0}), gd_at(p, (int64_t[]){1}));
    gd_optimizer_free(opt);
    gd_release(p);
    return far;
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    if (gd_link_class_register(ctx, &smoothed_class)) return 1;
    double plain = distance(ctx, gd_chain(ctx, "heavy_ball(0.5) | lr(0.05)"));

    gd_link *link = gd_link_new(ctx, &smoothed_class);
    gd_status status = gd_link_set_list(link, "offsets", (double[]){-0.39, -0.13, 0.13, 0.39}, 4);
    if (!status) status = gd_link_set_child(link, "inner", gd_chain(ctx, "heavy_ball(0.5)"));
    gd_link *links[] = {link, gd_chain(ctx, "lr(0.05)")};
    double smooth = status ? NAN : distance(ctx, gd_chain_of(ctx, links, 2));

    printf("distance from the bottom: %.3f, with smoothed gradients %.3f\n", plain, smooth);
    if (gd_error(ctx)) fprintf(stderr, "own_link: %s\n", gd_error_text(ctx));
    bool good = smooth < 0.1 && plain > 1;
    gd_ctx_trim(ctx); /* before other work: memory kept for reuse goes back to the system */
    gd_ctx_free(ctx);
    return !good;
}
