/* A rule of one's own: sign momentum with a floor, written once and run in the same pass over memory as its neighbours.
 *
 *   cc own_rule.c -lgradus && ./a.out
 *
 * prints how the chain runs (one pass) and how far it gets. */
#include <gradus/gradus.h>

#include <math.h>
#include <stdio.h>

/* ---- the rule: velocity v <- decay v + (1 - decay) u, the step is sign(v) where |v| is above the floor ---- */

static const gd_field fields[] = {GD_REAL("decay", 0.9, 0, 1, "weight of the past"),
                                  GD_REAL("floor", 1e-3, 0, INFINITY, "velocities below it do not move")};
static const gd_slot slots[] = {{"velocity", 0}};

static gd_value sign_momentum(gd_rule *r, gd_value u)
{
    gd_value weight = gd_rule_sub(r, gd_rule_const(r, 1), gd_rule_setting(r, "decay"));
    gd_value v = gd_rule_lerp(r, gd_rule_state(r, "velocity"), u, weight);
    gd_rule_set(r, "velocity", v);
    gd_value moves = gd_rule_ge(r, gd_rule_abs(r, v), gd_rule_setting(r, "floor"));
    return gd_rule_mul(r, gd_rule_sign(r, v), moves);
}

static const gd_link_class sign_momentum_class = {.name = "sign_momentum",
                                                  .summary = "sign of a velocity above a floor",
                                                  GD_FIELDS(fields),
                                                  GD_SLOTS(slots),
                                                  .rule = sign_momentum};

/* ---- its use ---- */

static gd_tensor *loss(void *user)
{
    gd_tensor *p = user;
    return gd_sum(gd_square(gd_add_scalar(p, -1)), NULL, false);
}

static int report(gd_ctx *ctx, const char *what)
{
    if (gd_error(ctx)) fprintf(stderr, "own_rule: %s: %s\n", what, gd_error_text(ctx));
    return gd_error(ctx) != GD_OK;
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    if (gd_link_class_register(ctx, &sign_momentum_class)) return report(ctx, "class");
    gd_tensor *p = gd_require_grad(gd_randn(ctx, GD_F32, 1, (int64_t[]){1000}));
    gd_optimizer *opt = gd_optimizer_new(
        ctx, gd_chain(ctx, "clip_value(1) | sign_momentum(decay=0.8) | weight_decay(1e-4) | lr(0.02)"));
    if (!opt || gd_optimizer_add(opt, "p", p)) return report(ctx, "optimizer");

    char text[2000];
    gd_explain(opt, false, text, sizeof text);
    fputs(text, stdout);

    gd_step_info info = {0};
    for (int i = 0; i < 200; i++)
        if (gd_optimizer_step(opt, &(gd_objective){.loss = loss, .user = p}, &info))
            return report(ctx, "step");
    printf("after %lld steps: loss %.3g\n", (long long)info.step, info.loss);

    gd_optimizer_free(opt);
    gd_release(p);
    gd_ctx_free(ctx);
    return info.loss < 1 ? 0 : 1;
}
