/* What `gradus train` is made of: texts of models, their layers against plain loops, order, standardisation. */
#include "train/run/trainer.h"
#include "model_property.h"
#include "support/corpus.h"
#include "support/own_context.h"

#include <math.h>
#include <unistd.h>

/* ---- texts ---- */

static void texts_of_models_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text, *print;
    } cases[] = {{"linear", "linear"},
                 {" mlp ( 64,64 ) ", "mlp(64, 64)"},
                 {"mlp(3, dropout=0.5, activation=tanh)", "mlp(3, activation=tanh, dropout=0.5)"},
                 {"mlp(3, activation=relu, dropout=0)", "mlp(3)"},
                 {"conv(8, 16)", "conv(8, 16)"},
                 {"conv(8, dense=64)", "conv(8, dense=[64])"},
                 {"conv(kernel=5, 8, pool=1, dense=[64, 32])", "conv(8, kernel=5, pool=1, dense=[64, 32])"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gd_network_spec spec;
        gd_text print = gd__text(ctx);
        assert_int_equal(gd__network_parse(ctx, cases[i].text, &spec), GD_OK);
        gd__network_print(&print, &spec);
        assert_string_equal(print.data, cases[i].print);
        gd__text_free(&print);
    }
}

static void mistakes_in_models_are_pointed_at(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "model: column 1: expected linear, mlp(..) or conv(..)"},
        {"mpl(3)", "model: column 1: model 'mpl' unknown: linear, mlp(..) or conv(..)"},
        {"mlp", "model: column 1: mlp wants the sizes of its layers, as in mlp(16, 32)"},
        {"conv(dense=3)", "model: column 1: conv wants the sizes of its layers"},
        {"mlp(0)", "model: column 5: a layer's size is a whole number from 1 to 1000000"},
        {"mlp(2.5)", "model: column 5: a layer's size is a whole number"},
        {"mlp(3, actvation=relu)", "model: column 8: no setting 'actvation', did you mean 'activation'?"},
        {"mlp(3, kernel=3)", "model: column 8: no setting 'kernel'"},
        {"mlp(3, activation=rlu)", "model: column 19: activation 'rlu' unknown"},
        {"mlp(3, dropout=1)", "model: column 16: dropout is a number from 0 to less than 1"},
        {"mlp(3, dropout=0, dropout=0)", "model: column 19: 'dropout' is given twice"},
        {"conv(3, kernel=4)", "model: column 16: kernel is an odd number"},
        {"conv(3, dense=[1, 2)", "model: column "},
        {"linear(3)", "model: column 7: expected the end"},
        {"mlp(3) mlp(3)", "model: column 8: expected the end"},
        {"mlp(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17)", "model: column 44: more than 16 sizes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gd_network_spec spec;
        if (gd__network_parse(ctx, cases[i].text, &spec) != GD_PARSE)
            fail_msg("'%s' is accepted", cases[i].text);
        assert_error(ctx, GD_PARSE, cases[i].error);
    }
}

/* Pieces of models in random order: mostly nearly right. */
static void random_texts_hold_the_property(void **state)
{
    (void)state;
    static const char *const pieces[] = {"mlp",   "conv",  "linear",  "(",      ")",  ",",    "64",
                                         "3",     "dense", "=",       "[",      "]",  " ",    "activation",
                                         "tanh",  "0.5",   "dropout", "kernel", "5",  "pool", "1",
                                         "1e300", "-1",    "inf",     "\xff",   "\"", "relu"};
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        char text[256] = "";
        strcat(text, random_below(&seed, 2) ? "mlp(8" : "conv(4, 2");
        for (int64_t k = random_below(&seed, 12); k > 0; k--)
            strcat(text, pieces[random_below(&seed, COUNT_OF(pieces))]);
        if (random_below(&seed, 2)) strcat(text, ")");
        const char *fault = model_fault(ctx, text);
        if (fault) fail_msg("'%s': %s", text, fault);
    }
}

static void check_model(gd_ctx *own, const corpus_file *file)
{
    const char *fault = model_fault(own, (const char *)file->data);
    if (fault) fail_msg("%s: %s", file->path, fault);
}

static void the_corpus_holds_the_property(void **state)
{
    (void)state;
    replay_corpus(ctx, GD_TEST_DIR "/train/corpus/model", 18, check_model);
}

/* ---- layers against plain loops ---- */

static double at(gd_network *m, const char *name, int64_t i, int64_t j, int64_t k, int64_t l)
{
    gd_tensor *t = gd_module_get_tensor(m->module, name);
    assert_non_null(t);
    return gd_at(t, (int64_t[]){i, j, k, l});
}

static void an_mlp_computes_what_it_should(void **state)
{
    (void)state;
    gd_network_spec spec;
    gd_network m;
    assert_int_equal(gd__network_parse(ctx, "mlp(4, activation=tanh)", &spec), GD_OK);
    assert_int_equal(gd__network_open(ctx, &spec, 1, (int64_t[]){3}, 2, GD_F64, &m), GD_OK);
    assert_int_equal(gd__network_parameters(&m), 3 * 4 + 4 + 4 * 2 + 2);
    const double row[3] = {0.5, -1, 2};
    gd_tensor *y = gd__network_call(&m, MATRIX(ctx, 1, 3, 0.5, -1, 2), true);
    for (int64_t o = 0; o < 2; o++) {
        double sum = at(&m, "out.bias", o, 0, 0, 0);
        for (int64_t h = 0; h < 4; h++) {
            double inner = at(&m, "dense0.bias", h, 0, 0, 0);
            for (int64_t i = 0; i < 3; i++) inner += at(&m, "dense0.weight", h, i, 0, 0) * row[i];
            sum += at(&m, "out.weight", o, h, 0, 0) * tanh(inner);
        }
        assert_true(fabs(sum - gd_at(y, (int64_t[]){0, o})) < 1e-12);
    }
    gd__network_close(&m);
}

/* One channel in, two out, 3 x 3 with a border of zeros, relu, the largest of 2 x 2, then linear. */
static void a_convolution_computes_what_it_should(void **state)
{
    (void)state;
    gd_network_spec spec;
    gd_network m;
    assert_int_equal(gd__network_parse(ctx, "conv(2)", &spec), GD_OK);
    assert_int_equal(gd__network_open(ctx, &spec, 2, (int64_t[]){4, 5}, 3, GD_F64, &m), GD_OK);
    gd_tensor *x = gd_randn(ctx, GD_F64, 3, (int64_t[]){2, 4, 5}), *y = gd__network_call(&m, x, true);
    for (int64_t n = 0; n < 2; n++) {
        double pooled[2][2][2];
        for (int64_t c = 0; c < 2; c++)
            for (int64_t r = 0; r < 4; r++)
                for (int64_t q = 0; q < 4; q++) {
                    double sum = at(&m, "conv0.bias", c, 0, 0, 0);
                    for (int64_t i = 0; i < 3; i++)
                        for (int64_t k = 0; k < 3; k++)
                            if (r + i >= 1 && r + i <= 4 && q + k >= 1 && q + k <= 5)
                                sum += at(&m, "conv0.weight", c, 0, i, k) *
                                       gd_at(x, (int64_t[]){n, r + i - 1, q + k - 1});
                    double *cell = &pooled[c][r / 2][q / 2];
                    if (r % 2 == 0 && q % 2 == 0) *cell = 0;
                    *cell = fmax(*cell, sum);
                }
        for (int64_t o = 0; o < 3; o++) {
            double sum = at(&m, "out.bias", o, 0, 0, 0);
            for (int64_t k = 0; k < 8; k++)
                sum += at(&m, "out.weight", o, k, 0, 0) * pooled[k / 4][k / 2 % 2][k % 2];
            assert_true(fabs(sum - gd_at(y, (int64_t[]){n, o})) < 1e-12);
        }
    }
    gd__network_close(&m);
    assert_int_equal(gd__network_open(ctx, &spec, 1, (int64_t[]){20}, 3, GD_F64, &m), GD_SHAPE);
    gd__network_close(&m);
    assert_error(ctx, GD_SHAPE, "model: conv wants rows of height x width");
}

/* ---- checkpoints with any description ---- */

static const char recipe_text[] =
    "{\"version\": 1, \"task\": \"classify\", \"dtype\": \"f64\", \"model\": \"mlp(4)\", \"chain\": \"adam\", "
    "\"groups\": [], \"schedules\": [], \"target\": \"k\", \"features\": [\"a\", \"b\", \"c\"], \"ignored\": [], "
    "\"classes\": [\"u\", \"v\"], \"row\": [3], \"outputs\": 2, \"batch\": 32, \"seed\": 0, \"epochs\": 20, "
    "\"patience\": 0, \"validation\": 0.1, \"standardise\": \"each\", \"data\": \"00000000000000ff\", \"epoch\": 1, "
    "\"at\": 0, \"loss_sum\": 0, \"last_loss\": 1, \"best_loss\": \"Infinity\", \"best_epoch\": 0, \"bad\": 0}";

/* Loads a file with that description and the tensors of mlp(4) for rows of 3 and 2 classes. */
static int64_t loaded_microbatch;

static gd_status load_described(const char *description)
{
    char path[] = "/tmp/gradus_recipe_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    gd_archive *archive = gd_archive_new(ctx), *loaded = NULL;
    static const struct {
        const char *name;
        int ndim;
        int64_t shape[2];
    } tensors[] = {
        {"model.dense0.weight", 2, {4, 3}}, {"model.dense0.bias", 1, {4}}, {"model.out.weight", 2, {2, 4}},
        {"model.out.bias", 1, {2}},         {"input.mean", 1, {3}},        {"input.scale", 1, {3}}};
    for (int i = 0; i < COUNT_OF(tensors); i++)
        assert_int_equal(
            gd_archive_put(archive, tensors[i].name, gd_ones(ctx, GD_F64, tensors[i].ndim, tensors[i].shape)),
            GD_OK);
    assert_int_equal(gd_archive_set_meta(archive, "train", description), GD_OK);
    assert_int_equal(gd_archive_save(archive, path), GD_OK);
    gd_archive_free(archive);
    gd_checkpoint point;
    gd_status status = gd__checkpoint_load(ctx, path, false, &point, &loaded);
    loaded_microbatch = status ? -1 : point.recipe.microbatch;
    gd__checkpoint_close(&point);
    gd_archive_free(loaded);
    remove(path);
    return status;
}

static void the_older_name_of_a_microbatch_is_read(void **state)
{
    (void)state;
    static const char *const more[] = {", \"microbatch\": 8}", ", \"grain\": 8}",
                                       ", \"grain\": 5, \"microbatch\": 8}"};
    for (int i = 0; i < COUNT_OF(more); i++) {
        char text[2048];
        snprintf(text, sizeof text, "%.*s%s", (int)strlen(recipe_text) - 1, recipe_text, more[i]);
        assert_int_equal(load_described(text), GD_OK);
        assert_int_equal(loaded_microbatch, 8);
    }
}

/* Every value of the description replaced by every kind of JSON: an error that names the file, or a model that fits. */
static void any_description_is_read_or_refused(void **state)
{
    (void)state;
    static const char *const values[] = {"null",
                                         "-1",
                                         "0",
                                         "1",
                                         "7",
                                         "1e999",
                                         "9223372036854775807",
                                         "1e12",
                                         "\"x\"",
                                         "[]",
                                         "[9000000000000000000, 9]",
                                         "[1000000, 1000000]",
                                         "[\"a\"]",
                                         "{}",
                                         "true",
                                         "\"linear\"",
                                         "\"conv(3)\"",
                                         "\"mlp(1000000, 1000000)\""};
    assert_int_equal(load_described(recipe_text), GD_OK);
    int refused = 0;
    for (const char *key = recipe_text; (key = strstr(key, "\": ")); key++) {
        const char *value = key + 3, *end = value;
        for (int depth = 0; depth || !strchr(",}", *end); end++)
            depth += *end == '[' ? 1 : *end == ']' ? -1 : 0;
        for (int i = 0; i < COUNT_OF(values); i++) {
            char text[2048];
            snprintf(text, sizeof text, "%.*s%s%s", (int)(value - recipe_text), recipe_text, values[i], end);
            gd_scope_begin(ctx);
            gd_status status = load_described(text);
            if (status && !strstr(gd_error_text(ctx), "/tmp/gradus_recipe_"))
                fail_msg("%s: %s", text, gd_error_text(ctx));
            refused += status != GD_OK;
            gd_clear_error(ctx);
            gd_scope_end(ctx);
        }
    }
    assert_true(refused > 300);
    for (size_t length = 0; length < strlen(recipe_text); length += 7) {
        char text[2048];
        snprintf(text, sizeof text, "%.*s", (int)length, recipe_text);
        assert_int_not_equal(load_described(text), GD_OK);
        gd_clear_error(ctx);
    }
}

/* ---- order and scale ---- */

static void a_shuffle_is_a_permutation_of_its_own(void **state)
{
    (void)state;
    int64_t a[1000], b[1000];
    bool seen[1000] = {false};
    gd__shuffle(a, 1000, 5, 3);
    for (int i = 0; i < 1000; i++) {
        assert_true(a[i] >= 0 && a[i] < 1000 && !seen[a[i]]);
        seen[a[i]] = true;
    }
    gd__shuffle(b, 1000, 5, 3);
    assert_memory_equal(a, b, sizeof a);
    gd__shuffle(b, 1000, 5, 4);
    assert_memory_not_equal(a, b, sizeof a);
    gd__shuffle(b, 1000, 6, 3);
    assert_memory_not_equal(a, b, sizeof a);
    /* where the first one goes: a thousandth of the time to each place, four deviations allowed for ten places together */
    int early = 0;
    for (int64_t stream = 0; stream < 20000; stream++) {
        gd__shuffle(b, 100, 1, stream);
        early += b[0] < 10;
    }
    assert_true(abs(early - 2000) < 4 * 43);
}

static void standardised_numbers_have_mean_0_and_deviation_1(void **state)
{
    (void)state;
    /* far from zero: f32 alone would lose the differences */
    gd_tensor *x = MATRIX(ctx, 4, 3, 1e9 + 1, 5, 7, 1e9 + 2, 5, 8, 1e9 + 3, 5, 9, 1e9 + 4, 5, 10);
    gd_scaling s;
    assert_int_equal(gd__scaling_measure(x, GD_SCALE_EACH, &s), GD_OK);
    assert_values(s.mean, 1e9 + 2.5, 5, 8.5);
    double d = sqrt(1.25);
    assert_values(s.scale, d, 1, d);
    gd_tensor *z = gd__scaling_apply(&s, x, GD_F32);
    assert_values_near(z, 1e-6, -1.5 / d, 0, -1.5 / d, -0.5 / d, 0, -0.5 / d, 0.5 / d, 0, 0.5 / d, 1.5 / d, 0,
                       1.5 / d);
    assert_int_equal(gd_tensor_dtype(z), GD_F32);
    assert_values_near(gd__scaling_undo(&s, gd__scaling_apply(&s, x, GD_F64)), 1e-5, 1e9 + 1, 5, 7, 1e9 + 2,
                       5, 8, 1e9 + 3, 5, 9, 1e9 + 4, 5, 10);
    gd__scaling_close(&s);
    assert_int_equal(gd__scaling_measure(VECTOR(ctx, 1, 3, 5, 7), GD_SCALE_ALL, &s), GD_OK);
    assert_values(s.mean, 4);
    assert_values(s.scale, sqrt(5));
    gd__scaling_close(&s);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(texts_of_models_are_read),
        TEST(mistakes_in_models_are_pointed_at),
        TEST(random_texts_hold_the_property),
        TEST(the_corpus_holds_the_property),
        TEST(an_mlp_computes_what_it_should),
        TEST(a_convolution_computes_what_it_should),
        TEST(the_older_name_of_a_microbatch_is_read),
        TEST(any_description_is_read_or_refused),
        TEST(a_shuffle_is_a_permutation_of_its_own),
        TEST(standardised_numbers_have_mean_0_and_deviation_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
