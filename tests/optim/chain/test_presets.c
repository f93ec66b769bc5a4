/* Presets against the updates written out by hand. */
#include "gradus/optim.h"
#include "gradus/presets.h"
#include "support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double start[3] = {1, -2, 0.5};

/* Steps an optimizer with the gradient 2 p + 1 and a loop over plain numbers beside it. */
static void follow(gd_link *(*make)(gd_ctx *), void (*by_hand)(int t, double g, double *p, double *state))
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, start));
    gd_optimizer *o = gd_optimizer_new(ctx, make(ctx));
    assert_non_null(o);
    assert_int_equal(gd_optimizer_add(o, "p", p), GD_OK);
    double q[3] = {start[0], start[1], start[2]}, state[3][3] = {{0}};
    for (int t = 1; t <= 20; t++) {
        gd_scope_begin(ctx);
        assert_int_equal(gd_set_grad(p, gd_add_scalar(gd_mul_scalar(gd_detach(p), 2), 1)), GD_OK);
        gd_scope_end(ctx);
        for (int i = 0; i < 3; i++) by_hand(t, 2 * q[i] + 1, &q[i], state[i]);
        assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
        assert_values(p, q[0], q[1], q[2]);
    }
    gd_optimizer_free(o);
    gd_zero_grad(p);
    gd_release(p);
    end_context(ctx, NULL);
}

static gd_link *make_sgd(gd_ctx *ctx)
{
    gd_sgd_options o = gd_sgd_defaults();
    o.lr = 0.05;
    o.momentum = 0.9;
    o.dampening = 0.1;
    o.weight_decay = 0.01;
    return gd_sgd(ctx, &o);
}

/* As PyTorch: the first velocity is the first gradient, not dampened (golden/torch.jsonl has runs of it). */
static void sgd_by_hand(int t, double g, double *p, double *state)
{
    g += 0.01 * *p;
    state[0] = t == 1 ? g : 0.9 * state[0] + 0.9 * g;
    *p -= 0.05 * state[0];
}

static gd_link *make_nesterov(gd_ctx *ctx)
{
    gd_sgd_options o = gd_sgd_defaults();
    o.lr = 0.05;
    o.momentum = 0.8;
    o.nesterov = true;
    return gd_sgd(ctx, &o);
}

static void nesterov_by_hand(int t, double g, double *p, double *state)
{
    (void)t;
    state[0] = 0.8 * state[0] + g;
    *p -= 0.05 * (g + 0.8 * state[0]);
}

static gd_link *make_plain(gd_ctx *ctx) { return gd_sgd(ctx, NULL); }

static void plain_by_hand(int t, double g, double *p, double *state)
{
    (void)t;
    (void)state;
    *p -= 1e-3 * g;
}

static gd_link *make_adamw(gd_ctx *ctx)
{
    gd_adamw_options o = gd_adamw_defaults();
    o.lr = 0.1;
    return gd_adamw(ctx, &o);
}

/* Kingma & Ba's efficient order: eps beside the uncorrected root. */
static void adamw_by_hand(int t, double g, double *p, double *state)
{
    state[0] += 0.1 * (g - state[0]);
    state[1] += 0.001 * (g * g - state[1]);
    double step = sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));
    *p -= 0.1 * (step * state[0] / (sqrt(state[1]) + 1e-8) + 0.01 * *p);
}

static void sgd_is_momentum_with_dampening_and_decay(void **s)
{
    (void)s;
    follow(make_sgd, sgd_by_hand);
}

static void sgd_with_nesterov_looks_ahead(void **s)
{
    (void)s;
    follow(make_nesterov, nesterov_by_hand);
}

static void sgd_by_default_is_plain_descent(void **s)
{
    (void)s;
    follow(make_plain, plain_by_hand);
}

static void adamw_takes_where_eps_is_added(void **s)
{
    (void)s;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_adamw_options o = gd_adamw_defaults();
    o.eps_at = "corrected";
    char text[200];
    gd_link *chain = gd_adamw(ctx, &o);
    gd_link_print(chain, text, sizeof text);
    assert_string_equal(text, "adam(eps_at=\"corrected\") | weight_decay(0.01) | lr(0.001)");
    gd_link_release(chain);
    o.eps_at = "there";
    assert_null(gd_adamw(ctx, &o));
    assert_error(ctx, GD_VALUE, "adam: eps_at is \"there\"");
    end_context(ctx, NULL);
}

static void adamw_decays_beside_adam(void **s)
{
    (void)s;
    follow(make_adamw, adamw_by_hand);
}

static void a_preset_prints_as_the_chain_it_is(void **s)
{
    (void)s;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_link *chain = gd_sgd(ctx, NULL);
    char text[64];
    gd_link_print(chain, text, sizeof text);
    assert_string_equal(text, "lr(0.001)");
    gd_link_release(chain);
    end_context(ctx, NULL);
}

/* ---- as text ---- */

static void expands(gd_ctx *ctx, const char *text, const char *expected)
{
    char printed[512];
    gd_link *chain = gd_chain(ctx, text);
    if (!chain) fail_msg("%s: %s", text, gd_error_text(ctx));
    gd_link_print(chain, printed, sizeof printed);
    assert_string_equal(printed, expected);
    gd_link_release(chain);
}

static void refused(gd_ctx *ctx, const char *text, const char *why)
{
    assert_null(gd_chain(ctx, text));
    if (gd_error(ctx) != GD_PARSE || !strstr(gd_error_text(ctx), why))
        fail_msg("%s: %s", text, gd_error_text(ctx));
    gd_clear_error(ctx);
}

static void a_preset_in_a_text_is_its_chain(void **s)
{
    (void)s;
    gd_ctx *ctx = context(NULL, 1, NULL);
    expands(ctx, "adamw", "adam | weight_decay(0.01) | lr(0.001)");
    expands(ctx, "clip_norm(1) | adamw(0.1, eps_at=\"corrected\", weight_decay=0)",
            "clip_norm(1) | adam(eps_at=\"corrected\") | lr(0.1)");
    expands(ctx, "sgd", "lr(0.001)");
    expands(ctx, "sgd(0.5, weight_decay=1/4)", "weight_decay(0.25) | lr(0.5)");
    expands(ctx, "multistep(sgd(momentum=0.8, nesterov=true), 3)",
            "multistep([nag(momentum=0.8) | lr(0.001)], 3)");
    refused(ctx, "sgd(nesterof=true)", "column 5: sgd has no setting 'nesterof', did you mean 'nesterov'?");
    refused(ctx, "lr(1) | adamw(beta1=2)", "column 21: adamw: beta1 is 2");
    refused(ctx, "adamw(1e-3, 0.9, 0.999, 1e-8, 0, true, \"raw\", 1)", "adamw takes at most 7 settings");
    assert_null(gd_link_new(ctx, gd_link_class_find("sgd")));
    assert_non_null(strstr(gd_error_text(ctx), "sgd is a preset"));
    gd_clear_error(ctx);
    end_context(ctx, NULL);
}

/* A value that a field takes and that is not its default. */
static void other_value(const gd_field *f, char *out, size_t size)
{
    if (f->integer)
        snprintf(out, size, "%s=%.17g", f->name, f->fallback.real + 1);
    else if (f->kinds & GD_SET_REAL)
        snprintf(out, size, "%s=%.17g", f->name, f->fallback.real != 0 ? f->fallback.real / 2 : 0.25);
    else if (f->kinds & GD_SET_BOOL)
        snprintf(out, size, "%s=%s", f->name, f->fallback.real != 0 ? "false" : "true");
    else if (f->selection)
        snprintf(out, size, "%s=\"*.weight\"", f->name);
    else {
        const char *second = strchr(f->choices, '|') + 1;
        snprintf(out, size, "%s=\"%.*s\"", f->name, (int)strcspn(second, "|"), second);
    }
}

/* The names people know, whether links or presets: each is a chain as it stands. */
static void the_usual_names_are_chains_on_their_own(void **s)
{
    (void)s;
    gd_ctx *ctx = context(NULL, 1, NULL);
    static const char *const names[] = {"adafactor", "adagrad", "adam", "adamw", "lamb",          "lars",
                                        "muon",      "nadamw",  "sgd",  "soap",  "schedule_free", "shampoo"};
    for (int i = 0; i < COUNT_OF(names); i++) {
        gd_link *chain = gd_chain(ctx, names[i]);
        if (!chain) fail_msg("%s: %s", names[i], gd_error_text(ctx));
        gd_link_release(chain);
    }
    gd_ctx_free(ctx);
}

/* Every setting of every preset reaches the chain: with all others away from their defaults too, so that those which
 * matter together (dampening with momentum) do. */
static void every_setting_of_every_preset_acts(void **s)
{
    (void)s;
    gd_ctx *ctx = context(NULL, 1, NULL);
    int count;
    const gd_link_class *const *presets = gd_link_presets(&count);
    assert_true(count >= 2);
    for (int i = 0; i < count; i++)
        for (int k = 0; k < presets[i]->field_count; k++) {
            bool acts = false;
            for (int others = 0; others < 2 && !acts; others++) {
                char given[2][512], printed[2][512];
                for (int with = 0; with < 2; with++) {
                    int at = snprintf(given[with], sizeof given[with], "%s(", presets[i]->name), any = 0;
                    for (int j = 0; j < presets[i]->field_count; j++) {
                        const gd_field *f = &presets[i]->fields[j];
                        char one[64];
                        if (j == k ? !with : !(others && f->kinds & GD_SET_REAL)) continue;
                        other_value(f, one, sizeof one);
                        at += snprintf(given[with] + at, sizeof given[with] - (size_t)at, "%s%s",
                                       any++ ? ", " : "", one);
                    }
                    snprintf(given[with] + at, sizeof given[with] - (size_t)at, ")");
                    gd_link *chain = gd_chain(ctx, given[with]);
                    if (!chain) fail_msg("%s: %s", given[with], gd_error_text(ctx));
                    gd_link_print(chain, printed[with], sizeof printed[with]);
                    gd_link_release(chain);
                }
                acts = strcmp(printed[0], printed[1]) != 0;
            }
            if (!acts) fail_msg("%s: %s does nothing", presets[i]->name, presets[i]->fields[k].name);
        }
    end_context(ctx, NULL);
}

static const gd_field own_fields[] = {GD_CHILD("first", "a chain"), GD_REAL("size", 2, 0, 10, "of the step")};
static const gd_link_class own = {
    .name = "own", GD_FIELDS(own_fields), .preset = "first: $first | !size: clip_value(1) | sgd($size)"};
static const gd_link_class endless = {.name = "endless", .preset = "lr(1) | endless"};
static const gd_link_class wrong = {.name = "wrong", .preset = "lr(1) | nothing_of_the_kind"};

static void a_user_has_presets_too(void **s)
{
    (void)s;
    gd_ctx *ctx = context(NULL, 1, NULL);
    assert_int_equal(gd_link_class_register(ctx, &own), GD_OK);
    assert_int_equal(gd_link_class_register(ctx, &endless), GD_OK);
    assert_int_equal(gd_link_class_register(ctx, &wrong), GD_OK);
    expands(ctx, "own", "lr(2)");
    expands(ctx, "own([adam | clip_norm(1)], size=0)", "adam | clip_norm(1) | clip_value(1) | lr(0)");
    refused(ctx, "endless", "presets nest too deep");
    refused(ctx, "wrong", "link 'nothing_of_the_kind' unknown");
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_momentum_with_dampening_and_decay),
        cmocka_unit_test(sgd_with_nesterov_looks_ahead),
        cmocka_unit_test(sgd_by_default_is_plain_descent),
        cmocka_unit_test(adamw_decays_beside_adam),
        cmocka_unit_test(adamw_takes_where_eps_is_added),
        cmocka_unit_test(a_preset_prints_as_the_chain_it_is),
        cmocka_unit_test(a_preset_in_a_text_is_its_chain),
        cmocka_unit_test(the_usual_names_are_chains_on_their_own),
        cmocka_unit_test(every_setting_of_every_preset_acts),
        cmocka_unit_test(a_user_has_presets_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
