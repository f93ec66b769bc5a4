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
    gd_scope_end(ctx);
    if (status) fprintf(stderr, "by_hand: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status != GD_OK;
}
