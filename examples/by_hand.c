/* Links configured and applied by hand, without an optimizer: gradients of two tensors through momentum.
 *
 *   cc by_hand.c $(pkg-config --cflags --libs gradus) && ./a.out
 *
 * A chain is text; a link is also an object whose settings are read and changed.  State is the link's own, one per parameter
 * (gd_link_keyed_*), or the caller's (gd_states). */
#include <gradus/gradus.h>

#include <stdio.h>

static void print_link(const char *what, gd_link *link)
{
    char text[300];
    (void)gd_link_print(link, text, sizeof text);
    printf("%-12s %s\n", what, text);
}

/* A link from text, then with every kind of setting changed. */
static gd_link *configured(gd_ctx *ctx)
{
    gd_link *ema = gd_chain(ctx, "ema(0.5, debiased=true, ema_init=\"update\")");
    if (!ema) return NULL;
    print_link("from text", ema);
    if (gd_link_set_real(ema, "momentum", 0.75) || gd_link_set_bool(ema, "debiased", false) ||
        gd_link_set_string(ema, "ema_init", "zeros")) {
        gd_link_release(ema);
        return NULL;
    }
    print_link("changed", ema);
    return ema;
}

/* Presets with typed options, and the other kinds of settings: a schedule, none, a list. */
static gd_status configured_presets(gd_ctx *ctx)
{
    gd_sgd_options sgd = gd_sgd_defaults();
    sgd.momentum = 0.9;
    gd_adamw_options adamw = gd_adamw_defaults();
    adamw.weight_decay = 0;
    gd_link *chain[] = {gd_sgd(ctx, &sgd), gd_adamw(ctx, &adamw), gd_chain(ctx, "lr(0.1)"),
                        gd_chain(ctx, "lbfgs(gtol=1e-9)")};
    gd_schedule half = gd_schedule_cosine(0.1, 0.001, 100);
    gd_status status = gd_error(ctx);
    if (!status) status = gd_link_set_schedule(chain[2], "lr", &half);
    if (!status) status = gd_link_set_none(chain[3], "gtol");
    static const char *const what[] = {"sgd", "adamw", "schedule", "none"};
    for (int i = 0; i < 4; i++) {
        if (!status) print_link(what[i], chain[i]);
        gd_link_release(chain[i]);
    }
    return status;
}

/* One link for two uses: each holds a reference.  Then a saved state is read into a longer chain, with a report. */
static gd_status optimized(gd_ctx *ctx)
{
    gd_link *shared = gd_link_retain(gd_chain(ctx, "adam"));
    gd_optimizer *first = gd_optimizer_new(ctx, shared), *second = NULL;
    gd_tensor *x = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){2}));
    gd_load_report *report = NULL;
    gd_status status = gd_optimizer_add(first, "x", x);
    if (!status) status = gd_backward(gd_sum(gd_square(x), NULL, false), NULL, 0);
    if (!status) status = gd_optimizer_step(first, NULL, NULL);
    if (!status) status = gd_optimizer_zero_grad_in_place(first);
    if (!status) printf("gradient after the step: %g\n", gd_at(gd_grad_of(x), (int64_t[]){0}));
    if (!status) status = gd_optimizer_save(first, "by_hand.safetensors");
    if (!status) second = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1) | adam"));
    if (!status) status = gd_optimizer_add(second, "x", x);
    if (!status) status = gd_optimizer_load_report(second, "by_hand.safetensors", false, &report);
    if (report)
        printf("loaded %lld tensors; %s\n", (long long)gd_load_report_loaded(report),
               gd_load_report_text(report));
    gd_optimizer_free(first), gd_optimizer_free(second);
    gd_link_release(shared);
    return status;
}

/* Two gradients through momentum, then a gradient of zero; x has a momentum of its own. */
static gd_status apply_by_key(gd_ctx *ctx, gd_link *ema, gd_tensor *const *params)
{
    gd_tensor *update[2];
    gd_status status = gd_link_set_group(ema, params, 1, "momentum=0.5");
    for (int step = 0; step < 3 && !status; step++) {
        update[0] = gd_full(ctx, GD_F64, 1, (int64_t[]){2}, step < 2 ? 1 : 0);
        update[1] = gd_full(ctx, GD_F64, 1, (int64_t[]){1}, step < 2 ? -4 : 0);
        status = gd_link_keyed_update(ema, update, params, NULL, NULL, 2);
        if (!status) status = gd_link_keyed_apply(ema, update, params, NULL, NULL, 2);
        if (!status)
            printf("step %d: x moves by %g, y by %g\n", step, gd_at(update[0], (int64_t[]){0}),
                   gd_at(update[1], (int64_t[]){0}));
    }
    if (!status) status = gd_link_unset_for(ema, params[0], "momentum");
    return status;
}

/* The same with states of one's own: two runs of one link do not meet. */
static gd_status apply_with_states(gd_ctx *ctx, gd_link *ema, gd_tensor *const *params)
{
    gd_states *run[2] = {gd_states_new(ema, 2), gd_states_new(ema, 2)};
    gd_status status = gd_error(ctx);
    for (int step = 0; step < 4 && !status; step++) {
        gd_tensor *update[2] = {gd_ones(ctx, GD_F64, 1, (int64_t[]){2}),
                                gd_ones(ctx, GD_F64, 1, (int64_t[]){1})};
        status = gd_states_update(run[step % 2], update, params, NULL, NULL);
        if (!status) status = gd_states_apply(run[step % 2], update, params, NULL, NULL);
        if (!status) printf("run %d: %g\n", step % 2, gd_at(update[1], (int64_t[]){0}));
    }
    gd_tensor *average = status ? NULL : gd_states_get(run[0], 1, "velocity");
    if (average) printf("kept: %g\n", gd_at(average, (int64_t[]){0}));
    gd_states_free(run[0]);
    gd_states_free(run[1]);
    return status;
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *params[2] = {gd_zeros(ctx, GD_F64, 1, (int64_t[]){2}),
                            gd_zeros(ctx, GD_F64, 1, (int64_t[]){1})};
    gd_link *ema = configured(ctx);
    gd_status status = ema ? apply_by_key(ctx, ema, params) : gd_error(ctx);
    if (!status) status = apply_with_states(ctx, ema, params);
    gd_link_release(ema);
    if (!status) status = configured_presets(ctx);
    if (!status) status = optimized(ctx);
    gd_scope_end(ctx);
    if (status) fprintf(stderr, "by_hand: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status != GD_OK;
}
