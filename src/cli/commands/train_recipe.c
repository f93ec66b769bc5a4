/* The recipe of gradus train; see train_job.h. */
#include "cli/commands/train_job.h"
#include "base/text/number.h"

#include <stdio.h>
#include <string.h>

typedef gd_train_job job;

/* ---- the recipe: options, or the checkpoint where they are not given ---- */

/* has: what the checkpoint was made with, given: the option. */
gd_status gd__train_differs(const job *j, const char *option, const char *has, const char *given)
{
    return gd_fail(j->t.ctx, GD_ARGUMENT,
                   "train: --%s is '%.200s', %s was made with '%.200s'; leave it out, or train anew without "
                   "--resume",
                   option, given, j->resume, has);
}

static gd_status number_differs(const job *j, const char *option, double has)
{
    char text[40];
    gd__format(text, sizeof text, "%.15g", has);
    return gd__train_differs(j, option, text, gd__args_get(j->args, option));
}

/* A resumed run that does something in another way says so. */
static gd_status note_change(job *j, const char *option, const char *has, const char *given)
{
    gd_text text = gd__text(j->t.ctx);
    gd__text_put(&text, "--%s was %.200s and is now %.200s", option, has, given);
    gd_status status = text.failed ? GD_NOMEM : gd__words_add(j->t.ctx, &j->changed, text.data, text.used);
    gd__text_free(&text);
    return status;
}

/* Numbers that may change. */
static gd_status set_number(job *j, const char *option, int64_t *value)
{
    char has[24], given[24];
    int64_t before = *value;
    gd_status status = gd__args_integer(j->args, option, 0, INT64_MAX / 4, value);
    if (status || !j->resume || *value == before) return status;
    snprintf(has, sizeof has, "%lld", (long long)before);
    snprintf(given, sizeof given, "%lld", (long long)*value);
    return note_change(j, option, has, given);
}

static gd_status words_differ(job *j, const char *option, const gd_words *has, const gd_words *given,
                              bool may)
{
    gd_text there = gd__text(j->t.ctx), here = gd__text(j->t.ctx);
    gd__words_print(&there, has);
    gd__words_print(&here, given);
    gd_status status = there.failed || here.failed ? GD_NOMEM
                       : may                       ? note_change(j, option, there.data, here.data)
                                                   : gd__train_differs(j, option, there.data, here.data);
    gd__text_free(&there);
    gd__text_free(&here);
    return status;
}

/* Do two texts of an option say the same?  One that cannot be read fails as when it is used. */
static gd_status compare_texts(job *j, gd_print_option print, const char *a, const char *b, bool *same)
{
    gd_text one = gd__text(j->t.ctx), other = gd__text(j->t.ctx);
    gd_status status = print(j->t.ctx, a, &one);
    if (!status) status = print(j->t.ctx, b, &other);
    *same = !status && !strcmp(gd__text_string(&one), gd__text_string(&other));
    gd__text_free(&one);
    gd__text_free(&other);
    return status;
}

static gd_status set_chain(job *j)
{
    const char **chain = &j->t.point.recipe.chain, *given = gd__args_get(j->args, "chain");
    bool same = true;
    if (j->resume && !given) return GD_OK;
    gd_status status = j->resume ? compare_texts(j, gd__tune_print_chain, *chain, given, &same) : GD_OK;
    if (!status && !same) status = note_change(j, "chain", *chain, given);
    if (status || (j->resume && same)) return status;
    if (!given) given = GD_TRAIN_CHAIN;
    *chain = gd__intern(j->t.ctx, given, strlen(given));
    return *chain ? GD_OK : GD_NOMEM;
}

static gd_status set_whole(job *j, const char *option, int64_t low, int64_t *value)
{
    int64_t before = *value;
    gd_status status = gd__args_integer(j->args, option, low, INT64_MAX / 4, value);
    return !status && j->resume && *value != before ? number_differs(j, option, (double)before) : status;
}

static gd_status set_choice(job *j, const char *option, const char *choices, int *value)
{
    int before = *value;
    gd_status status = gd__args_choice(j->args, option, choices, value);
    if (status || !j->resume || *value == before || !gd__args_has(j->args, option)) return status;
    char has[32];
    for (; before > 0; before--) choices += strcspn(choices, " ") + 1;
    snprintf(has, sizeof has, "%.*s", (int)strcspn(choices, " "), choices);
    return gd__train_differs(j, option, has, gd__args_get(j->args, option));
}

static gd_status compare_words(job *j, gd_print_option print, const gd_words *a, const gd_words *b,
                               bool *same)
{
    gd_status status = GD_OK;
    *same = print ? a->count == b->count : gd__words_equal(a, b);
    for (int i = 0; print && i < a->count && *same && !status; i++)
        status = compare_texts(j, print, a->word[i], b->word[i], same);
    return status;
}

/* Takes the values of a repeated option; print: they are compared by what they say, and may change in a resumed run. */
static gd_status set_words(job *j, const char *option, bool split, gd_print_option print, gd_words *words)
{
    gd_words given = {0};
    bool same = true;
    gd_status status = gd__words_of_option(j->args, option, split, &given);
    if (!status && j->resume && given.count) status = compare_words(j, print, words, &given, &same);
    if (!status && !same) status = words_differ(j, option, words, &given, print != NULL);
    if (status || (j->resume && same)) {
        gd__words_free(j->t.ctx, &given);
        return status;
    }
    gd__words_free(j->t.ctx, words);
    *words = given;
    return GD_OK;
}

/* The model's text as it is printed, so that equal models have equal texts. */
static gd_status set_model(job *j, gd_model_spec *spec)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *given = gd__args_get(j->args, "model");
    gd_status status = gd__model_parse(j->t.ctx, given ? given : r->model ? r->model : GD_TRAIN_MODEL, spec);
    if (status) return status;
    gd_text text = gd__text(j->t.ctx);
    gd__model_print(&text, spec);
    if (j->resume && strcmp(text.data ? text.data : "", r->model) != 0)
        status = gd__train_differs(j, "model", r->model, text.data ? text.data : "");
    else if (text.failed || !(r->model = gd__intern(j->t.ctx, text.data, text.used)))
        status = GD_NOMEM;
    gd__text_free(&text);
    return status;
}

/* A loss of numbers says that the target is numbers. */
static gd_status set_loss(job *j, int *task)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *text = gd__args_get(j->args, "loss");
    gd_loss before = r->loss;
    gd_status status = text ? gd__loss_parse(j->t.ctx, text, &r->loss) : GD_OK;
    if (status || !text) return status;
    bool classes = r->loss.kind == GD_LOSS_CROSS_ENTROPY;
    if (j->resume && (before.kind != r->loss.kind || before.number != r->loss.number)) {
        gd_text has = gd__text(j->t.ctx);
        gd__loss_print(&has, &before);
        status = has.failed ? GD_NOMEM : gd__train_differs(j, "loss", has.data, text);
        gd__text_free(&has);
        return status;
    }
    if (*task && classes != (*task == GD_TASK_CLASSIFY))
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --loss %.60s is for %s, --task says %s", text,
                       classes ? "classes" : "numbers", classes ? "numbers" : "classes");
    *task = classes ? GD_TASK_CLASSIFY : GD_TASK_REGRESS;
    return GD_OK;
}

/* A text that cannot change in a resumed run. */
static gd_status set_text(job *j, const char *option, const char **value)
{
    const char *given = gd__args_get(j->args, option);
    if (given && j->resume && strcmp(given, *value) != 0) return gd__train_differs(j, option, *value, given);
    if (given && !(*value = gd__intern(j->t.ctx, given, strlen(given)))) return GD_NOMEM;
    return GD_OK;
}

static gd_status set_stop_on(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    int k = 0;
    gd_status status = gd__args_choice(j->args, "stop-on", "loss accuracy f1 auc rmse mae r2", &k);
    if (status || !gd__args_has(j->args, "stop-on")) return status;
    if (!(r->validation > 0))
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --stop-on %s wants rows to validate with",
                       gd__metric[k].name);
    return set_text(j, "stop-on", &r->stop_on);
}

static gd_status set_split(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    gd_status status = set_text(j, "split", &r->split);
    if (!status) status = gd__split_parse(j->t.ctx, r->split, &j->split);
    if (!status && gd__args_has(j->args, "split") && !(r->validation > 0) && !j->folds)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --split wants rows to validate with");
    return status;
}

/* class is the word, classify an older one. */
static gd_status set_task(job *j, int *task)
{
    static const char *const names[] = {"auto", "class", "regress"};
    int before = *task;
    gd_status status = gd__args_choice(j->args, "task", "auto class regress classify", task);
    if (*task == 3) *task = GD_TASK_CLASSIFY;
    if (status || !j->resume || *task == before) return status;
    return gd__train_differs(j, "task", names[before], gd__args_get(j->args, "task"));
}

/* A run that is told no end ends where the validation says so; one that is told how long takes all of it. */
static void default_length(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    if (gd__args_has(j->args, "epochs")) return;
    bool timed = gd__args_has(j->args, "time");
    if (timed) r->epochs = INT64_MAX / 4;
    if (!timed && r->validation > 0) r->patience = GD_TRAIN_PATIENCE;
}

/* A resumed run keeps the microbatch of its file unless the options name one; if neither does, the number of processes decides. */
static gd_status set_world(job *j)
{
    static const char *const shared[] = {"shard", "reduce"};
    int shard = 0, reduce = 0;
    gd_status status = set_number(j, "microbatch", &j->t.point.recipe.microbatch);
    if (!status) status = gd__args_choice(j->args, "shard", "none state gradients", &shard);
    if (!status) status = gd__args_choice(j->args, "reduce", "exact fast", &reduce);
    j->t.shard = (gd_shard)shard;
    j->t.reduce = (gd_reduce)reduce;
    for (int i = 0; i < 2 && !status && !j->t.point.world; i++)
        if (gd__args_has(j->args, shared[i]))
            gd_warn(j->t.ctx, "train: --%s has no effect: this process is alone", shared[i]);
    if (!status && j->t.point.world && shard == GD_SHARD_GRADIENTS && reduce == GD_REDUCE_FAST)
        status = gd_fail(j->t.ctx, GD_ARGUMENT,
                         "train: --reduce fast is not for --shard gradients, which sums exactly");
    return status;
}

/* What depends on neither data nor model. */
gd_status gd__train_settings(job *j, int *task, int *standardise)
{
    gd_recipe *r = &j->t.point.recipe;
    int dtype = r->dtype == GD_F64;
    double validation = r->validation;
    gd_status status = set_choice(j, "dtype", "f32 f64", &dtype);
    r->dtype = dtype ? GD_F64 : GD_F32;
    if (!status) status = set_model(j, &j->spec);
    if (!status) status = set_chain(j);
    if (!status) status = set_words(j, "group", false, gd__tune_print_group, &r->groups);
    if (!status) status = set_words(j, "schedule", false, gd__tune_print_schedule, &r->schedules);
    if (!status) status = set_words(j, "features", true, NULL, &r->features);
    if (!status) status = set_words(j, "ignore", true, NULL, &r->ignored);
    if (!status) status = set_words(j, "text", true, NULL, &r->text);
    if (!status) status = set_whole(j, "batch", 0, &r->batch);
    if (!status) status = set_whole(j, "seed", 0, &r->seed);
    if (!status) status = gd__args_real(j->args, "validation", 0, 0.9, &r->validation);
    if (!status && j->resume && r->validation != validation)
        status = number_differs(j, "validation", validation);
    if (!status) status = set_task(j, task);
    if (!status) status = set_loss(j, task);
    if (!status) status = set_text(j, "class-weights", &r->class_weights);
    if (!status) status = set_stop_on(j);
    if (!status) status = set_split(j);
    if (!status) status = set_choice(j, "standardise", "none each all auto", standardise);
    /* these may change */
    j->other_steps = j->changed.count > 0;
    if (!status) status = set_world(j);
    if (!status) status = set_number(j, "epochs", &r->epochs);
    if (!status && !j->resume) default_length(j);
    if (!status) status = set_number(j, "patience", &r->patience);
    if (!status && gd__args_has(j->args, "patience") && r->patience > 0 && !(r->validation > 0))
        status = gd_fail(j->t.ctx, GD_ARGUMENT, "train: --patience wants rows to validate with");
    return status;
}
