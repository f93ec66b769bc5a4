/* Every allocation of a training, and of what is done with its model, fails once: the error is NOMEM and nothing leaks. */
#include <gradus/train.h>

#include "support/support.h"

#include <unistd.h>

static char path[64];

static gd_table *small(gd_ctx *ctx)
{
    const char *text = "a,colour,kind\n1,red,x\n2,green,y\n3,red,x\n4,green,y\n,red,x\n6,green,y\n";
    return gd_table_parse(ctx, text, strlen(text), NULL);
}

static gd_train_spec recipe(void)
{
    gd_train_spec s = gd_train_defaults();
    s.target = "kind";
    s.model = "mlp(2)";
    s.epochs = 1;
    s.validation = 0.34;
    return s;
}

static bool train_save_and_predict(gd_ctx *ctx)
{
    gd_table *t = small(ctx);
    gd_train_spec s = recipe();
    s.seeds = 2;
    gd_model *m = t ? gd_train(ctx, t, &s) : NULL;
    gd_model *again = m && !gd_model_save(m, path) ? gd_model_load(ctx, path) : NULL;
    gd_tensor *p = again ? gd_model_predict(again, t) : NULL;
    gd_model_free(m);
    gd_model_free(again);
    gd_table_free(t);
    return p != NULL;
}

static bool measure(gd_ctx *ctx)
{
    gd_table *t = small(ctx);
    gd_train_spec s = recipe();
    gd_metrics measured;
    gd_importance all[2];
    gd_model *m = t ? gd_train(ctx, t, &s) : NULL;
    bool good = m && !gd_model_score(m, t, NULL, &measured) && !gd_model_importance(m, t, NULL, NULL, all);
    gd_model_free(m);
    gd_table_free(t);
    return good;
}

static bool folds(gd_ctx *ctx)
{
    gd_table *t = small(ctx);
    gd_train_spec s = recipe();
    gd_metrics mean;
    bool good = t && !gd_train_folds(ctx, t, &s, 2, NULL, &mean, NULL);
    gd_table_free(t);
    return good;
}

static void trainings_survive(void **state)
{
    (void)state;
    fail_each_allocation(1, train_save_and_predict);
}

static void measures_survive(void **state)
{
    (void)state;
    fail_each_allocation(1, measure);
}

static void folds_survive(void **state)
{
    (void)state;
    fail_each_allocation(1, folds);
}

static int name_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/gradus_oom_train_%ld.safetensors", (long)getpid());
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    (void)unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainings_survive),
        cmocka_unit_test(measures_survive),
        cmocka_unit_test(folds_survive),
    };
    return cmocka_run_group_tests(tests, name_file, remove_file);
}
