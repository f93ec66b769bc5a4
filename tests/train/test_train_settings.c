/* Errors of trainings name settings as the caller writes them. */
#include <gradus/train.h>

#include "support/spellings.h"

static gd_table *rows(gd_ctx *ctx)
{
    static const char text[] = "a,word,g,y\n1,p,1,1\n2,q,1,3\n3,p,1,5\n4,q,1,7\n5,p,1,9\n6,q,1,11\n";
    return gd_table_parse(ctx, text, sizeof text - 1, NULL);
}

/* A member is set by name, so that the table needs no sentinel for the others. */
typedef struct mistake {
    void (*spoil)(gd_train_spec *s);
    const char *want;
} mistake;

#define SPOIL(name, ...) \
    static void name(gd_train_spec *s) { __VA_ARGS__; }
#define SPOIL_LIST(name, member, text)                  \
    static void name(gd_train_spec *s)                  \
    {                                                   \
        static const char *const list[] = {text, NULL}; \
        s->member = list;                               \
    }
SPOIL(target, s->target = NULL)
SPOIL(task, s->task = "sort")
SPOIL(task_and_loss, s->task = "class"; s->loss = "squares")
SPOIL(epochs, s->epochs = -2)
SPOIL(batch, s->batch = -2)
SPOIL(patience, s->patience = 5; s->validation = 0)
SPOIL(seed, s->seed = -2)
SPOIL(microbatch, s->microbatch = -2)
SPOIL(validation, s->validation = 0.95)
SPOIL(seconds, s->time = -1)
SPOIL(save_every, s->save_every = -1)
SPOIL(seeds, s->seeds = 0)
SPOIL(stream, s->stream = true)
SPOIL(row, s->row_axes = 9)
SPOIL(stop_on, s->stop_on = "accuracy")
SPOIL(stop_on_what, s->stop_on = "luck")
SPOIL(stop_on_nothing, s->stop_on = "loss"; s->validation = 0)
SPOIL(loss, s->loss = "quantile:2")
SPOIL(loss_name, s->loss = "sum")
SPOIL(loss_number, s->loss = "squares:2")
SPOIL(class_weights, s->class_weights = "balanced")
SPOIL(weights_of_classes, s->target = "word"; s->class_weights = "p=-1")
SPOIL(no_class, s->target = "word"; s->class_weights = "z=1")
SPOIL(dtype, s->dtype = "f16")
SPOIL(standardise, s->standardise = "some")
SPOIL(split, s->split = "half")
SPOIL(split_nothing, s->split = "ordered"; s->validation = 0)
SPOIL(split_words, s->split = "ordered:word"; s->validation = 0.3)
SPOIL(split_group, s->split = "group:g"; s->validation = 0.3)
SPOIL_LIST(groups, groups, "weight")
SPOIL_LIST(groups_setting, groups, "*: chain=[], lr=1")
SPOIL_LIST(schedules, schedules, "lr")
static void text(gd_train_spec *s)
{
    static const char *const list[] = {"a", NULL};
    s->text = s->ignore = list;
}

static const mistake mistakes[] = {
    {target, "train: <target> is missing"},
    {task, "train: <task>: 'sort' is none of"},
    {task_and_loss, "train: <loss> squares is for numbers, <task> says classes"},
    {epochs, "train: <epochs>: '-2' is not a whole number"},
    {batch, "train: <batch>: '-2' is not a whole number"},
    {patience, "train: <patience> wants rows to validate with"},
    {seed, "train: <seed>: '-2' is not a whole number"},
    {microbatch, "train: <microbatch>: '-2' is not a whole number"},
    {validation, "train: <validation>: '0.95' is not a number"},
    {seconds, "train: <time>: '-1' is not a number"},
    {save_every, "train: <save_every>: '-1' is not a number"},
    {seeds, "train: <seeds>: '0' is not a whole number"},
    {stream, "train: <stream> reads a file"},
    {row, "train: <row>: sizes are whole numbers"},
    {stop_on, "train: <stop_on> accuracy is for classes"},
    {stop_on_what, "train: <stop_on>: 'luck' is none of"},
    {stop_on_nothing, "train: <stop_on> loss wants rows to validate with"},
    {loss, "<loss>: 'quantile:2'"},
    {loss_name, "<loss>: 'sum' is none of"},
    {loss_number, "<loss>: squares takes no number"},
    {class_weights, "train: <class_weights> is for classes"},
    {weights_of_classes, "train: <class_weights>: 'p=-1' is not"},
    {no_class, "train: <class_weights>: no class 'z'"},
    {dtype, "train: <dtype>: 'f16' is none of"},
    {standardise, "train: <standardise>: 'some' is none of"},
    {split, "<split>: 'half' is none of"},
    {split_nothing, "train: <split> wants rows to validate with"},
    {split_words, "<split>: column 'word' holds words"},
    {split_group, "<split>: column 'g' has one group"},
    {groups, "<groups>: GLOB: KEY=VALUE expected"},
    {groups_setting, "<groups> '*': "},
    {schedules, "<schedules>: KEY=SCHEDULE"},
    {text, "<text> 'a': nothing is learnt"}};

static gd_train_spec plain(void)
{
    gd_train_spec s = gd_train_defaults();
    s.target = "y";
    s.model = "linear";
    s.epochs = 1;
    return s;
}

static void mistakes_are_named_as_the_caller_writes_them(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_table *table = rows(ctx);
    for (int k = 0; k < COUNT_OF(spellings); k++)
        for (int i = 0; i < COUNT_OF(mistakes); i++) {
            gd_train_spec s = plain();
            mistakes[i].spoil(&s);
            ctx->vocabulary = &spellings[k];
            gd_model *m = gd_train(ctx, table, &s);
            if (m) fail_msg("%s: accepted", mistakes[i].want);
            expect_spelling(ctx, &spellings[k], mistakes[i].want, false);
        }
    gd_table_free(table);
}

static void what_does_not_go_together_is_named(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_table *table = rows(ctx);
    for (int k = 0; k < COUNT_OF(spellings); k++) {
        gd_train_spec s = plain();
        gd_metrics each[7];
        ctx->vocabulary = &spellings[k];
        s.events = "folder";
        assert_int_equal(gd_train_folds(ctx, table, &s, 2, each, NULL, NULL), GD_ARGUMENT);
        expect_spelling(ctx, &spellings[k], "train: folds and <events> do not go together", false);
        s.events = NULL;
        assert_int_equal(gd_train_folds(ctx, table, &s, 1, each, NULL, NULL), GD_ARGUMENT);
        expect_spelling(ctx, &spellings[k], "train: <folds>: '1' is not a whole number", false);
    }
    gd_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mistakes_are_named_as_the_caller_writes_them, begin_test, end_test),
        cmocka_unit_test_setup_teardown(what_does_not_go_together_is_named, begin_test, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
