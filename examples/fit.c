/* Fits y = a exp(-b t) + c to measurements by gradient descent with momentum.
 *
 * Shows the whole of a small program: labelled tensors, a model as plain expressions, gradients, a step in
 * place, and one error check for everything. */
#include <gradus/autograd.h>

#include <stdio.h>

/* Temperature over time of something that cools: seconds, degrees above the room's 20. */
static const double seconds[] = {0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5};
static const double degrees[] = {3.02, 2.31, 1.82, 1.48, 1.19, 1.01, 0.87, 0.76, 0.71, 0.64, 0.62, 0.58};
enum { COUNT = sizeof seconds / sizeof *seconds, STEPS = 3000 };

/* The model: parameters are found by their labels, times meet them by broadcasting. */
static gd_tensor *model(gd_tensor *parameters, gd_tensor *t)
{
    gd_tensor *a = gd_index_label(parameters, "parameter", "a");
    gd_tensor *b = gd_index_label(parameters, "parameter", "b");
    gd_tensor *c = gd_index_label(parameters, "parameter", "c");
    return gd_add(gd_mul(a, gd_exp(gd_neg(gd_mul(b, t)))), c);
}

/* velocity = 0.9 velocity + gradient; parameters -= 0.05 velocity */
static gd_status descend(gd_tensor *parameters, gd_tensor *velocity)
{
    gd_status status = gd_add_into(velocity, velocity, -0.1);
    if (!status) status = gd_add_into(velocity, gd_grad_of(parameters), 1);
    if (!status) status = gd_add_into(parameters, velocity, -0.05);
    gd_zero_grad(parameters);
    return status;
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    if (!ctx) return 1;
    gd_scope_begin(ctx);

    int64_t count = COUNT, three = 3;
    gd_tensor *t = gd_rename(gd_from_f64(ctx, GD_F64, 1, &count, seconds), "time");
    gd_tensor *y = gd_rename(gd_from_f64(ctx, GD_F64, 1, &count, degrees), "time");
    gd_tensor *parameters = gd_rename(gd_ones(ctx, GD_F64, 1, &three), "parameter");
    parameters = gd_require_grad(gd_with_labels(parameters, "parameter", (const char *[]){"a", "b", "c"}));
    gd_tensor *velocity = gd_zeros_like(parameters);

    double loss = 0;
    for (int step = 0; step < STEPS && !gd_error(ctx); step++) {
        gd_scope_begin(ctx); /* everything made in a step goes with it */
        gd_tensor *error = gd_mse(model(parameters, t), y);
        loss = gd_item(error);
        if (gd_backward(error, NULL, 0) == GD_OK) (void)descend(parameters, velocity);
        if (step % 1000 == 0) printf("step %4d  loss %.6f\n", step, loss);
        gd_scope_end(ctx);
    }

    gd_status status = gd_error(ctx);
    if (status)
        fprintf(stderr, "%s: %s\n", gd_status_name(status), gd_error_text(ctx));
    else {
        printf("step %4d  loss %.6f\n\ny = a exp(-b t) + c\n", STEPS, loss);
        for (int64_t i = 0; i < three; i++)
            printf("  %s = %.4f\n", gd_axis_label(parameters, 0, i), gd_at(parameters, &i));
    }
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
    return status ? 1 : 0;
}
