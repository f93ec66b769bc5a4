/* From a spec to a recipe; see job.h. */
#include "train/run/job.h"
#include "base/spelling.h"
#include "base/text/number.h"
#include "optim/state/tuning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef gd_train_job job;

gd_train_spec gd_train_defaults(void)
{
    return (gd_train_spec){.epochs = -1,
                           .batch = -1,
                           .patience = -1,
                           .seed = -1,
                           .seeds = 1,
                           .microbatch = -1,
                           .time = NAN,
                           .validation = NAN,
                           .save_every = NAN};
}

/* ---- the recipe: the spec, or the checkpoint for unset members ---- */

/* has: of the checkpoint, given: the option. */
gd_status gd__train_differs(const job *j, const char *option, const char *has, const char *given)
{
    return gd_fail(j->t.ctx, GD_ARGUMENT,
                   "train: %s is '%.200s', %s was made with '%.200s'; leave it out, or train anew without "
                   "{resume}",
                   gd__setting_of(j->t.ctx, option), given, j->resume, has);
}

static gd_status number_differs(const job *j, const char *option, double has, double given)
{
    char before[40], now[40];
    gd__format(before, sizeof before, "%.15g", has);
    gd__format(now, sizeof now, "%.15g", given);
    return gd__train_differs(j, option, before, now);
}

/* Whole numbers of the spec are at least 0, or -1: not set. */
static gd_status check_whole(const job *j, const char *option, int64_t given)
{
    if (given >= -1 && given <= INT64_MAX / 4) return GD_OK;
    return gd_fail(j->t.ctx, GD_ARGUMENT, "train: %s: '%lld' is not a whole number from 0 to %lld",
                   gd__setting_of(j->t.ctx, option), (long long)given, (long long)(INT64_MAX / 4));
}

/* One of some words; its number.  NULL: *value stays. */
static gd_status read_choice(const job *j, const char *option, const char *given, const char *choices,
                             int *value)
{
    int k = 0;
    if (!given) return GD_OK;
    for (const char *word = choices; *word; k++) {
        size_t length = strcspn(word, " ");
        if (strlen(given) == length && !memcmp(word, given, length)) {
            *value = k;
            return GD_OK;
        }
        word += length + (word[length] == ' ');
    }
    return gd_fail(j->t.ctx, GD_ARGUMENT, "train: %s: '%.60s' is none of: %s",
                   gd__setting_of(j->t.ctx, option), given, choices);
}

/* Reports the differences of a resumed run. */
static gd_status note_change(job *j, const char *option, const char *has, const char *given)
{
    gd_text text = gd__text(j->t.ctx);
    gd__text_put(&text, "%s was %.200s and is now %.200s", gd__setting_of(j->t.ctx, option), has, given);
    gd_status status = text.failed ? GD_NOMEM : gd__words_add(j->t.ctx, &j->changed, text.data, text.used);
    gd__text_free(&text);
    return status;
}

/* Numbers that may change. */
static gd_status set_number(job *j, const char *option, int64_t given, int64_t *value)
{
    char has[24], now[24];
    int64_t before = *value;
    gd_status status = check_whole(j, option, given);
    if (!status && given >= 0) *value = given;
    if (status || !j->resume || *value == before) return status;
    snprintf(has, sizeof has, "%lld", (long long)before);
    snprintf(now, sizeof now, "%lld", (long long)*value);
    return note_change(j, option, has, now);
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

/* Do two texts of an option mean the same? An invalid one fails as in its use. */
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
    const char **chain = &j->t.point.recipe.chain, *given = j->spec.chain;
    bool same = true;
    if (j->resume && !given) return GD_OK;
    gd_status status = j->resume ? compare_texts(j, gd__tune_print_chain, *chain, given, &same) : GD_OK;
    if (!status && !same) status = note_change(j, "chain", *chain, given);
    if (status || (j->resume && same)) return status;
    if (!given) given = GD_TRAIN_CHAIN;
    *chain = gd__intern(j->t.ctx, given, strlen(given));
    return *chain ? GD_OK : GD_NOMEM;
}

static gd_status set_whole(job *j, const char *option, int64_t given, int64_t *value)
{
    int64_t before = *value;
    gd_status status = check_whole(j, option, given);
    if (!status && given >= 0) *value = given;
    return !status && j->resume && *value != before
               ? number_differs(j, option, (double)before, (double)*value)
               : status;
}

static gd_status set_choice(job *j, const char *option, const char *given, const char *choices, int *value)
{
    int before = *value;
    gd_status status = read_choice(j, option, given, choices, value);
    if (status || !j->resume || *value == before || !given) return status;
    char has[32];
    for (; before > 0; before--) choices += strcspn(choices, " ") + 1;
    snprintf(has, sizeof has, "%.*s", (int)strcspn(choices, " "), choices);
    return gd__train_differs(j, option, has, given);
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

/* Takes a list; print: its items are compared by meaning, and may change in a resumed run. */
static gd_status set_words(job *j, const char *option, const char *const *list, gd_print_option print,
                           gd_words *words)
{
    gd_words given = {0};
    bool same = true;
    gd_status status = GD_OK;
    for (int i = 0; list && list[i] && !status; i++)
        status = gd__words_add(j->t.ctx, &given, list[i], strlen(list[i]));
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
static gd_status set_model(job *j, gd_network_spec *network)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *given = j->spec.model;
    gd_status status = gd__network_parse(j->t.ctx,
                                         given      ? given
                                         : r->model ? r->model
                                                    : GD_TRAIN_MODEL,
                                         network);
    if (status) return status;
    gd_text text = gd__text(j->t.ctx);
    gd__network_print(&text, network);
    if (j->resume && strcmp(text.data ? text.data : "", r->model) != 0)
        status = gd__train_differs(j, "model", r->model, text.data ? text.data : "");
    else if (text.failed || !(r->model = gd__intern(j->t.ctx, text.data, text.used)))
        status = GD_NOMEM;
    gd__text_free(&text);
    return status;
}

/* A loss for numbers means that the target is numeric. */
static gd_status set_loss(job *j, int *task)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *text = j->spec.loss;
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
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {loss} %.60s is for %s, {task} says %s", text,
                       classes ? "classes" : "numbers", classes ? "numbers" : "classes");
    *task = classes ? GD_TASK_CLASSIFY : GD_TASK_REGRESS;
    return GD_OK;
}

/* A text that cannot change in a resumed run. */
static gd_status set_text(job *j, const char *option, const char *given, const char **value)
{
    if (given && j->resume && strcmp(given, *value) != 0) return gd__train_differs(j, option, *value, given);
    if (given && !(*value = gd__intern(j->t.ctx, given, strlen(given)))) return GD_NOMEM;
    return GD_OK;
}

static gd_status set_stop_on(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *given = j->spec.stop_on;
    int k = 0;
    gd_status status = read_choice(j, "stop_on", given, "loss accuracy f1 auc rmse mae r2", &k);
    if (status || !given) return status;
    if (!(r->validation > 0))
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {stop_on} %s wants rows to validate with",
                       gd__metric[k].name);
    return set_text(j, "stop_on", given, &r->stop_on);
}

static gd_status set_split(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    gd_status status = set_text(j, "split", j->spec.split, &r->split);
    if (!status) status = gd__split_parse(j->t.ctx, r->split, &j->split);
    if (!status && j->spec.split && !(r->validation > 0) && !j->folds)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {split} wants rows to validate with");
    return status;
}

/* class is the word, classify an older one. */
static gd_status set_task(job *j, int *task)
{
    static const char *const names[] = {"auto", "class", "regress"};
    int before = *task;
    gd_status status = read_choice(j, "task", j->spec.task, "auto class regress classify", task);
    if (*task == 3) *task = GD_TASK_CLASSIFY;
    if (status || !j->resume || *task == before) return status;
    return gd__train_differs(j, "task", names[before], j->spec.task);
}

static gd_status set_validation(job *j)
{
    double before = j->t.point.recipe.validation, given = j->spec.validation;
    if (isnan(given)) return GD_OK;
    if (!(given >= 0 && given <= 0.9))
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: {validation}: '%g' is not a number from 0 to 0.9",
                       given);
    j->t.point.recipe.validation = given;
    return j->resume && given != before ? number_differs(j, "validation", before, given) : GD_OK;
}

/* A run without a set end stops by the validation; one with a set length uses all of it. */
static void default_length(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    if (j->spec.epochs >= 0) return;
    bool timed = !isnan(j->spec.time);
    if (timed) r->epochs = INT64_MAX / 4;
    if (!timed && r->validation > 0) r->patience = GD_TRAIN_PATIENCE;
}

/* A resumed run keeps the microbatch of its file unless the spec names one; if neither does, the number of processes decides. */
static gd_status set_world(job *j)
{
    gd_status status = set_number(j, "microbatch", j->spec.microbatch, &j->t.point.recipe.microbatch);
    j->t.shard = j->spec.shard;
    j->t.reduce = j->spec.reduce;
    if (!status && j->t.point.world && j->t.shard == GD_SHARD_GRADIENTS && j->t.reduce == GD_REDUCE_FAST)
        status = gd_fail(j->t.ctx, GD_ARGUMENT,
                         "train: {reduce} fast is not for {shard} gradients, which sums exactly");
    return status;
}

/* How long it trains: may change in a resumed run. */
static gd_status set_length(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    gd_status status = set_number(j, "epochs", j->spec.epochs, &r->epochs);
    if (!status && !j->resume) default_length(j);
    if (!status) status = set_number(j, "patience", j->spec.patience, &r->patience);
    if (!status && j->spec.patience > 0 && !(r->validation > 0))
        status = gd_fail(j->t.ctx, GD_ARGUMENT, "train: {patience} wants rows to validate with");
    return status;
}

/* Settings that depend on neither data nor model. */
gd_status gd__train_settings(job *j, int *task, int *standardise)
{
    gd_recipe *r = &j->t.point.recipe;
    const gd_train_spec *s = &j->spec;
    int dtype = r->dtype == GD_F64;
    gd_status status = set_choice(j, "dtype", s->dtype, "f32 f64", &dtype);
    r->dtype = dtype ? GD_F64 : GD_F32;
    if (!status) status = set_model(j, &j->network);
    if (!status) status = set_chain(j);
    if (!status) status = set_words(j, "group", s->groups, gd__tune_print_group, &r->groups);
    if (!status) status = set_words(j, "schedule", s->schedules, gd__tune_print_schedule, &r->schedules);
    if (!status) status = set_words(j, "features", s->features, NULL, &r->features);
    if (!status) status = set_words(j, "ignore", s->ignore, NULL, &r->ignored);
    if (!status) status = set_words(j, "text", s->text, NULL, &r->text);
    if (!status) status = set_whole(j, "batch", s->batch, &r->batch);
    if (!status) status = set_whole(j, "seed", s->seed, &r->seed);
    if (!status) status = set_validation(j);
    if (!status) status = set_task(j, task);
    if (!status) status = set_loss(j, task);
    if (!status) status = set_text(j, "class_weights", s->class_weights, &r->class_weights);
    if (!status) status = set_stop_on(j);
    if (!status) status = set_split(j);
    if (!status) status = set_choice(j, "standardise", s->standardise, "none each all auto", standardise);
    /* these may change */
    j->other_steps = j->changed.count > 0;
    if (!status) status = set_world(j);
    return status ? status : set_length(j);
}
