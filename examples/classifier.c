/* A small classifier: which of three spirals does a point lie on?
 *
 *     ./classifier            trains, saves, loads and checks the accuracy on points it has not seen
 *
 * Shows: a multilayer perceptron, cross entropy, an optimizer over a module, state on disk. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <gradus/gradus.h>

enum { SPIRALS = 3, POINTS = 150 };

static const char *const path = "classifier.safetensors";

/* Points on three arms with a little noise, and the arm each is on. */
static gd_status spirals(gd_ctx *ctx, gd_tensor **points, gd_tensor **arms)
{
    double xy[SPIRALS * POINTS * 2];
    int64_t arm[SPIRALS * POINTS];
    gd_scope_begin(ctx);
    gd_tensor *noise = gd_randn(ctx, GD_F64, 1, (int64_t[]){SPIRALS * POINTS});
    const double *shake = gd_data(noise);
    for (int i = 0; i < SPIRALS * POINTS && shake; i++) {
        double r = (double)(i % POINTS + 1) / POINTS;
        double angle = 2 * 3.14159265 * (i / POINTS) / SPIRALS + 4 * r + 0.1 * shake[i];
        xy[2 * i] = r * cos(angle);
        xy[2 * i + 1] = r * sin(angle);
        arm[i] = i / POINTS;
    }
    if (shake) {
        *points = gd_keep(gd_from_f64(ctx, GD_F32, 2, (int64_t[]){SPIRALS * POINTS, 2}, xy));
        *arms = gd_keep(gd_from_data(ctx, GD_I64, 1, (int64_t[]){SPIRALS * POINTS}, arm));
    }
    gd_scope_end(ctx);
    return gd_error(ctx);
}

static double accuracy(gd_module *model, gd_tensor *points, gd_tensor *arms)
{
    gd_ctx *ctx = gd_module_ctx(model);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *guess = gd_argmax(gd_module_call(model, points), "-1", false);
    double share = gd_item(gd_mean(gd_cast(gd_eq(guess, arms), GD_F64), NULL, false));
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return share;
}

typedef struct task {
    gd_module *model;
    gd_tensor *points, *arms;
} task;

static gd_tensor *loss_of(void *user)
{
    task *t = user;
    return gd_cross_entropy(gd_module_call(t->model, t->points), t->arms);
}

/* adam | lr(0.01), its options checked by the compiler. */
static gd_link *chain(gd_ctx *ctx)
{
    gd_lr_options lr = gd_lr_defaults();
    lr.lr = 0.01;
    gd_link *links[] = {gd_adam_new(ctx, NULL), gd_lr_new(ctx, &lr)};
    return gd_chain_of(ctx, links, 2);
}

static gd_status train(gd_module *model, gd_tensor *points, gd_tensor *arms, int steps)
{
    gd_ctx *ctx = gd_module_ctx(model);
    task t = {model, points, arms};
    gd_objective objective = {.loss = loss_of, .user = &t};
    gd_optimizer *optimizer = gd_optimizer_new(ctx, chain(ctx));
    gd_step_info info;
    gd_status status = gd_optimizer_add_module(optimizer, model, NULL, NULL);
    for (int step = 0; step < steps && !status; step++) {
        status = gd_optimizer_step(optimizer, &objective, &info);
        if (!status && step % 50 == 0) printf("step %3d  loss %.4f\n", step, info.loss);
    }
    gd_optimizer_free(optimizer);
    return status;
}

static gd_module *make_model(gd_ctx *ctx)
{
    gd_mlp_options options = gd_mlp_defaults();
    options.activation = "tanh";
    return gd_mlp_new(ctx, (int64_t[]){2, 32, 32, SPIRALS}, 4, &options);
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    if (!ctx) return 1;
    gd_seed(ctx, 1);
    gd_scope_begin(ctx);
    gd_tensor *points = NULL, *arms = NULL, *new_points = NULL, *new_arms = NULL;
    gd_status status = spirals(ctx, &points, &arms);
    if (!status) status = spirals(ctx, &new_points, &new_arms);
    gd_module *model = make_model(ctx), *loaded = make_model(ctx);
    if (!status) status = train(model, points, arms, 300);
    if (!status) status = gd_module_save(model, path);
    if (!status) status = gd_module_load(loaded, path, NULL, NULL);
    double share = status ? 0 : accuracy(loaded, new_points, new_arms);
    if (status)
        fprintf(stderr, "classifier: %s\n", gd_error_text(ctx));
    else
        printf("%.1f %% of new points are on the right spiral\n", 100 * share);
    remove(path);
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
    return share > 0.95 ? 0 : 1;
}
