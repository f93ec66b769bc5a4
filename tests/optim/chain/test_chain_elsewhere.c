/* Names of other systems, and settings without parentheses, in chains: what to write is said. */
#include "gradus/chain.h"
#include "gradus/link.h"
#include "optim/chain/elsewhere.h"
#include "support/own_context.h"

typedef struct elsewhere {
    const char *name, *chain, *rate;
} elsewhere;

static const elsewhere table[] = {
#define ELSEWHERE(name, chain, rate) {name, chain, rate},
#include "optim/chain/elsewhere.def"
#undef ELSEWHERE
};

/* The chain with the default rate in it. */
static void with_default(const elsewhere *row, char out[GD_ELSEWHERE_SIZE])
{
    const char *place = strchr(row->chain, '$');
    if (place)
        snprintf(out, GD_ELSEWHERE_SIZE, "%.*s%s%s", (int)(place - row->chain), row->chain, row->rate,
                 place + 1);
    else
        snprintf(out, GD_ELSEWHERE_SIZE, "%s", row->chain);
}

static void every_chain_that_is_suggested_can_be_written(void **state)
{
    (void)state;
    for (const elsewhere *row = table; row < table + COUNT_OF(table); row++) {
        char text[GD_ELSEWHERE_SIZE];
        with_default(row, text);
        gd_link *link = gd_chain(ctx, text);
        if (!link) fail_msg("%s: '%s': %s", row->name, text, gd_error_text(ctx));
        gd_link_release(link);
        if (!*row->rate != !strchr(row->chain, '$')) fail_msg("%s: a rate and a place for it", row->name);
        for (const char *c = row->name; *c; c++)
            if (!(*c >= 'a' && *c <= 'z') && !(*c >= '0' && *c <= '9'))
                fail_msg("%s: small letters", row->name);
        for (const elsewhere *before = table; before < row; before++)
            assert_string_not_equal(before->name, row->name);
    }
    assert_true(COUNT_OF(table) > 60);
}

/* Every row, with a module in front and capitals. */
static void every_name_is_answered_with_its_chain(void **state)
{
    (void)state;
    for (const elsewhere *row = table; row < table + COUNT_OF(table); row++) {
        char chain[GD_ELSEWHERE_SIZE], text[80], error[256];
        with_default(row, chain);
        snprintf(text, sizeof text, "some.module.%s", row->name);
        for (char *c = text + 12; *c; c++)
            *c = (char)(*c >= 'a' && *c <= 'z' && (c - text) % 2 ? *c - 32 : *c);
        snprintf(error, sizeof error, "chain: column 1: link '%s' unknown: write %s", text, chain);
        assert_null(gd_chain(ctx, text));
        assert_error(ctx, GD_PARSE, error);
    }
}

static const struct {
    const char *text, *write;
} said[] = {
    {"torch.optim.NAdam", "write nadam(momentum_decay=0.004) | lr(0.002)"},
    {"torch.optim.RAdam", "write radam(eps_at=\"raw\") | lr(0.001)"},
    {"torch.optim.Rprop(lr=0.02)", "write rprop(alpha=0.02, backtrack=false)"},
    {"AdamW", "write adamw(lr=0.001, eps_at=\"corrected\")"},
    {"SGD", "write sgd(lr=0.01)"},
    {"RMSprop", "write rmsprop | lr(0.01)"},
    {"Adam(lr=0.1)", "write adam(eps_at=\"corrected\") | lr(0.1)"},
    {"torch.optim.Adam(model.parameters(), lr=3e-4)", "write adam(eps_at=\"corrected\") | lr(3e-4)"},
    {"torch.optim.SGD(p, 0.5, lr = 0.25, momentum=0.9)", "write sgd(lr=0.25)"},
    {"optax.adam(1e-2)", "write adam(eps_at=\"corrected\") | lr(1e-2)"},
    {"optax.adamw(learning_rate=0.5)", "write adamw(lr=0.5, eps_at=\"corrected\")"},
    {"clip_norm(1) | keras.optimizers.Nadam(0.002)", "column 16: link 'keras.optimizers.Nadam'"},
    {"L-BFGS-B", "link 'L-BFGS-B' unknown: write lbfgs | strong_wolfe"},
    {"BFGS", "write bfgs | strong_wolfe"},
    {"Nelder-Mead", "write nelder_mead"},
    {"newton-cg", "link 'newton-cg' unknown: write newton_cg | strong_wolfe"},
    {"[newton-cg]", "column 2: link 'newton-cg' unknown"},
    {"trust-ncg", "write trust_cg(newton)"},
    {"LD_LBFGS", "write lbfgs | strong_wolfe"},
    {"NLOPT_LD_SLSQP", "write lbfgs | strong_wolfe"},
    {"nlopt.LN_BOBYQA", "write cma_es"},
    {"lr 0.1", "chain: column 4: settings stand in parentheses: write lr(0.1)"},
    {"adam | lr=0.1", "chain: column 10: settings stand in parentheses: write lr(0.1)"},
    {"[adam | lr = 1e-3]", "settings stand in parentheses: write lr(1e-3)"},
    {"adam(lr=0.1)", "chain: column 6: adam has no setting 'lr', which is a link: write adam | lr(0.1)"},
    {"adam(learning_rate=0.1)", "adam has no setting 'learning_rate', which is a link: write adam | lr(0.1)"},
    {"adam(weight_decay=0.01)", "which is a link: write adam | weight_decay(0.01)"},
    {"sgd(learning_rate=0.1)", "sgd has no setting 'learning_rate', did you mean 'lr'?"},
    {"adm", "link 'adm' unknown, did you mean 'adam'?"},
    {"some.thing.else", "link 'some' unknown"},
    {"adam lr(0.1)", "chain: column 6: expected '|' or the end, got 'lr'"},
};

static void what_to_write_is_said(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        assert_null(gd_chain(ctx, said[i].text));
        if (!strstr(gd_error_text(ctx), said[i].write))
            fail_msg("'%s': %s\nwant %s", said[i].text, gd_error_text(ctx), said[i].write);
        gd_clear_error(ctx);
    }
}

/* As their manuals list them: methods of scipy.optimize.minimize, of torch.optim, and of nlopt's common ones. */
static void the_lists_of_other_systems_are_known(void **state)
{
    (void)state;
    static const char *const names[] = {
        "Nelder-Mead", "Powell",    "CG",       "BFGS",         "Newton-CG", "L-BFGS-B",    "TNC",
        "COBYLA",      "COBYQA",    "SLSQP",    "trust-constr", "trust-ncg", "trust-exact", "trust-krylov",
        "Adadelta",    "Adafactor", "Adagrad",  "Adam",         "AdamW",     "SparseAdam",  "Adamax",
        "ASGD",        "LBFGS",     "Muon",     "NAdam",        "RAdam",     "RMSprop",     "Rprop",
        "SGD",         "LD_MMA",    "LD_LBFGS", "LD_TNEWTON",   "LN_COBYLA", "GN_CRS2_LM",  "GD_MLSL",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_null(gd_chain(ctx, names[i]));
        if (!strstr(gd_error_text(ctx), "unknown: write ")) fail_msg("%s: %s", names[i], gd_error_text(ctx));
        gd_clear_error(ctx);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_chain_that_is_suggested_can_be_written),
        TEST(every_name_is_answered_with_its_chain),
        TEST(what_to_write_is_said),
        TEST(the_lists_of_other_systems_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
