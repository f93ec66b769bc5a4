/* Schedules: learning rates over 100 steps, from C and as text, and one that follows a measured loss.
 *
 *   cc schedules.c $(pkg-config --cflags --libs gradus) && ./a.out */
#include <gradus/gradus.h>

#include <stdio.h>

#define STEPS 100

static int print_schedules(gd_ctx *ctx)
{
    const struct {
        const char *use;
        gd_schedule schedule;
    } row[] = {
        {"nothing changes", gd_schedule_constant(0.1)},
        {"a straight line", gd_schedule_linear(0.1, 0, STEPS)},
        {"half a cosine", gd_schedule_cosine(0.1, 0.001, STEPS)},
        {"again and again, twice as long", gd_schedule_cosine_restarts(0.1, 0.001, 15, 2)},
        {"5 % less at each step", gd_schedule_exponential(0.1, 0.95)},
        {"a square root", gd_schedule_polynomial(0.1, 0, STEPS, 0.5)},
        {"a tenth every 30 steps", gd_schedule_step(0.1, 30, 0.1)},
        {"a half at two steps", gd_schedule_multistep(0.1, (int64_t[]){40, 80}, 2, 0.5)},
        {"up and down once", gd_schedule_one_cycle(0.1, STEPS, 0.3, 25, 1e4)},
        {"up, level, down", gd_schedule_wsd(0.1, 0, 10, 60, 30)},
        {"warm-up in front of another",
         gd_schedule_warmup(10, gd_schedule_cosine(0.1, 0.001, STEPS - 10), 0)},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[200];
        gd_schedule again;
        (void)gd_schedule_print(&row[i].schedule, text, sizeof text);
        if (gd_schedule_parse(ctx, text, &again) || !gd_schedule_equal(&again, &row[i].schedule)) return 1;
        printf("%-31s %-52s", row[i].use, text);
        for (int step = 0; step <= STEPS; step += 25) printf(" %8.5f", gd_schedule_value(&again, step));
        printf("\n");
    }
    return 0;
}

/* The learning rate of a chain by a schedule; when that ends, the number of its last step stays. */
static int change_a_rate(gd_ctx *ctx)
{
    gd_tensor *p = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){1}));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.5)"));
    int failed = gd_optimizer_add(o, "p", p) || gd_optimizer_schedule(o, -1, "lr", "linear(1, 0, 4)");
    for (int step = 0; step < 3 && !failed; step++) {
        if (step == 2) failed = gd_optimizer_unschedule(o, -1, "lr") != GD_OK;
        gd_optimizer_zero_grad(o);
        gd_scope_begin(ctx); /* ends the sum */
        failed = failed || gd_backward(gd_sum(p, NULL, false), NULL, 0) || gd_optimizer_step(o, NULL, NULL);
        gd_scope_end(ctx);
        printf("step %d: p = %g\n", step, gd_at(p, (int64_t[]){0}));
    }
    gd_optimizer_free(o);
    gd_release(p);
    return failed;
}

static void follow_a_loss(void)
{
    static const double loss[] = {3, 2, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5};
    gd_plateau rate = gd_plateau_start(0.1, 0.5, 2);
    printf("plateau:");
    for (size_t i = 0; i < sizeof loss / sizeof *loss; i++) printf(" %g", gd_plateau_measure(&rate, loss[i]));
    printf("\n");
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    int status = print_schedules(ctx) || change_a_rate(ctx);
    if (!status) follow_a_loss();
    if (gd_error(ctx)) fprintf(stderr, "schedules: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status;
}
