/* The text of a checkpoint; see recipe.h. */
#include "train/model/metrics.h"
#include "base/text/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const task_names[] = {"auto", "classify", "regress"};
static const char *const standardise_names[] = {"none", "each", "all"};

const char *gd__task_name(gd_task task) { return task_names[task]; }
static const char *standardise_name(gd_standardise how) { return standardise_names[how]; }

/* Members of the progress, in the order of the file. */
#define PROGRESS(WHOLE, NUMBER) \
    WHOLE(epoch) WHOLE(at) NUMBER(loss_sum) NUMBER(last_loss) NUMBER(best_loss) WHOLE(best_epoch) WHOLE(bad)

/* ---- writing ---- */

static void put_words(gd_text *out, const char *key, const gd_words *words)
{
    gd__json_key(out, key);
    gd__words_print(out, words);
}

static void put_loss(gd_text *out, const gd_loss *loss)
{
    gd__json_key(out, "loss");
    gd__text_char(out, '"');
    gd__loss_print(out, loss);
    gd__text_char(out, '"');
}

void gd__recipe_print(gd_text *out, const gd_recipe *r, const gd_progress_state *p)
{
    gd__text_add(out, "{\"version\": 2");
    gd__json_put_string(out, "task", gd__task_name(r->task));
    gd__json_put_string(out, "dtype", gd_dtype_name(r->dtype));
    gd__json_put_string(out, "model", r->model);
    gd__json_put_string(out, "chain", r->chain);
    put_loss(out, &r->loss);
    gd__json_put_string(out, "class_weights", r->class_weights);
    gd__json_put_string(out, "stop_on", r->stop_on);
    gd__json_put_string(out, "split", r->split);
    gd__json_put_whole(out, "seeds", r->seeds);
    put_words(out, "groups", &r->groups);
    put_words(out, "schedules", &r->schedules);
    gd__json_put_string(out, "target", r->target);
    put_words(out, "features", &r->features);
    put_words(out, "ignored", &r->ignored);
    put_words(out, "text", &r->text);
    gd__json_key(out, "columns");
    gd__columns_print(out, &r->columns);
    put_words(out, "classes", &r->classes);
    gd__text_add(out, ", \"row\": [");
    for (int i = 0; i < r->row_axes; i++) gd__text_put(out, "%s%" PRId64, i ? ", " : "", r->row[i]);
    gd__text_char(out, ']');
    gd__json_put_whole(out, "outputs", r->outputs);
    gd__json_put_whole(out, "batch", r->batch);
    gd__json_put_whole(out, "microbatch", r->microbatch);
    gd__json_put_whole(out, "seed", r->seed);
    gd__json_put_whole(out, "epochs", r->epochs);
    gd__json_put_whole(out, "patience", r->patience);
    gd__json_put_number(out, "validation", r->validation);
    gd__json_put_whole(out, "stratified", r->stratified);
    gd__json_put_whole(out, "stream", r->stream);
    gd__json_put_string(out, "standardise", standardise_name(r->standardise));
    gd__text_put(out, ", \"data\": \"%016" PRIx64 "\"", r->data);
#define PUT_WHOLE(member)  gd__json_put_whole(out, #member, p->member);
#define PUT_NUMBER(member) gd__json_put_number(out, #member, p->member);
    PROGRESS(PUT_WHOLE, PUT_NUMBER)
#undef PUT_WHOLE
#undef PUT_NUMBER
    gd__text_char(out, '}');
}

/* ---- reading ---- */

typedef struct reader {
    gd_ctx *ctx;
    const char *source;
    const json_t *object;
    gd_status status;
    int64_t version;
} reader;

static const json_t *member(reader *r, const char *key)
{
    const json_t *value = json_object_get(r->object, key);
    if (!value && !r->status)
        r->status = gd_fail(r->ctx, GD_FORMAT, "%s: its description has no \"%s\"", r->source, key);
    return value;
}

static void bad(reader *r, const char *key)
{
    if (!r->status)
        r->status = gd_fail(r->ctx, GD_FORMAT, "%s: \"%s\" of its description cannot be read", r->source,
                            key);
}

static const char *get_text(reader *r, const char *key)
{
    const char *text = json_string_value(member(r, key));
    const char *kept = text ? gd__intern(r->ctx, text, strlen(text)) : NULL;
    if (!text) bad(r, key);
    if (text && !kept && !r->status) r->status = GD_NOMEM;
    return kept;
}

static int64_t get_whole(reader *r, const char *key, int64_t low, int64_t high)
{
    const json_t *value = member(r, key);
    int64_t whole = json_integer_value(value);
    if (!json_is_integer(value) || whole < low || whole > high) bad(r, key);
    return whole;
}

static double get_number(reader *r, const char *key)
{
    const json_t *value = member(r, key);
    const char *text = json_string_value(value);
    if (json_is_number(value)) return json_number_value(value);
    if (text && !strcmp(text, "NaN")) return NAN;
    if (text && !strcmp(text, "Infinity")) return INFINITY;
    if (text && !strcmp(text, "-Infinity")) return -INFINITY;
    bad(r, key);
    return NAN;
}

static int get_choice(reader *r, const char *key, const char *const *names, int count)
{
    const char *text = get_text(r, key);
    for (int i = 0; i < count && text; i++)
        if (!strcmp(names[i], text)) return i;
    bad(r, key);
    return 0;
}

/* Adds the name of the file to errors of readers. */
static void read_part(reader *r, const char *key, gd_status status)
{
    r->status = status;
    if (status != GD_FORMAT) return;
    gd_clear_error(r->ctx);
    r->status = GD_OK;
    bad(r, key);
}

static void get_words(reader *r, const char *key, gd_words *out)
{
    const json_t *list = member(r, key);
    if (!r->status) read_part(r, key, gd__words_read(r->ctx, list, out));
}

/* Files of version 1 have only the members of that version. */
static void get_loss(reader *r, gd_recipe *out)
{
    out->loss.kind = out->task == GD_TASK_CLASSIFY ? GD_LOSS_CROSS_ENTROPY : GD_LOSS_SQUARES;
    out->class_weights = "";
    out->stop_on = "loss";
    out->seeds = 1;
    if (r->version == 1) return;
    const char *loss = get_text(r, "loss");
    out->class_weights = get_text(r, "class_weights");
    out->stop_on = get_text(r, "stop_on");
    out->seeds = get_whole(r, "seeds", 1, 1000);
    if (r->status) return;
    if (!gd__metric_find(out->stop_on)) bad(r, "stop_on");
    if (gd__loss_parse(r->ctx, loss, &out->loss)) {
        gd_clear_error(r->ctx);
        bad(r, "loss");
    }
    if ((out->loss.kind == GD_LOSS_CROSS_ENTROPY) != (out->task == GD_TASK_CLASSIFY)) bad(r, "loss");
}

/* Files of version 1 have only numbers. */
static void get_columns(reader *r, gd_recipe *out)
{
    if (r->status) return;
    if (r->version == 1) {
        r->status = gd__columns_numbers(r->ctx, out->features.count, &out->columns);
        return;
    }
    get_words(r, "text", &out->text);
    const json_t *list = member(r, "columns");
    if (r->status) return;
    read_part(r, "columns", gd__columns_read(r->ctx, list, &out->columns));
    if (!r->status && out->columns.count != out->features.count) bad(r, "columns");
}

/* The numbers of a row are those that its columns give. */
static bool row_fits(const gd_recipe *r)
{
    int64_t numbers = 1;
    for (int i = 0; i < r->row_axes; i++) numbers *= r->row[i];
    return !r->columns.count || numbers == r->columns.numbers + r->columns.codes;
}

static void get_row(reader *r, gd_recipe *out)
{
    const json_t *list = member(r, "row");
    size_t axes = json_array_size(list);
    if (axes < 1 || axes >= GD_MAX_DIMS) {
        bad(r, "row");
        return;
    }
    int64_t numbers = 1;
    out->row_axes = (int)axes;
    for (size_t i = 0; i < axes; i++) {
        out->row[i] = json_integer_value(json_array_get(list, i));
        if (out->row[i] < 1 || __builtin_mul_overflow(numbers, out->row[i], &numbers)) bad(r, "row");
    }
}

static void read_recipe(reader *r, gd_recipe *out)
{
    out->task = (gd_task)get_choice(r, "task", task_names, 3);
    const char *dtype = get_text(r, "dtype");
    out->dtype = dtype ? gd_dtype_from_name(dtype) : GD_DTYPE_COUNT;
    if (out->dtype != GD_F32 && out->dtype != GD_F64) bad(r, "dtype");
    out->model = get_text(r, "model");
    out->chain = get_text(r, "chain");
    get_loss(r, out);
    get_words(r, "groups", &out->groups);
    get_words(r, "schedules", &out->schedules);
    out->target = get_text(r, "target");
    get_words(r, "features", &out->features);
    get_words(r, "ignored", &out->ignored);
    get_words(r, "classes", &out->classes);
    get_columns(r, out);
    get_row(r, out);
    if (!r->status && !row_fits(out)) bad(r, "row");
    out->outputs = get_whole(r, "outputs", 1, INT64_C(1) << 40);
    out->batch = get_whole(r, "batch", 0, INT64_MAX);
    /* earlier files have it under an older name, or not at all */
    const char *rows = json_object_get(r->object, "microbatch") ? "microbatch" : "grain";
    if (json_object_get(r->object, rows)) out->microbatch = get_whole(r, rows, 0, INT64_MAX);
    out->seed = get_whole(r, "seed", 0, INT64_MAX);
    out->epochs = get_whole(r, "epochs", 0, INT64_MAX / 2);
    out->patience = get_whole(r, "patience", 0, INT64_MAX / 2);
    out->validation = get_number(r, "validation");
    /* files older than other splits */
    out->split = json_object_get(r->object, "split") ? get_text(r, "split") : "random";
    out->stratified = r->version > 1 && get_whole(r, "stratified", 0, 1);
    out->stream = r->version > 1 && get_whole(r, "stream", 0, 1);
    out->standardise = (gd_standardise)get_choice(r, "standardise", standardise_names, 3);
    const char *sum = get_text(r, "data");
    int used = 0;
    if (sum && (sscanf(sum, "%16" SCNx64 "%n", &out->data, &used) != 1 || used != 16)) bad(r, "data");
    if (out->task == GD_TASK_AUTO) bad(r, "task");
    if (out->task == GD_TASK_CLASSIFY && out->classes.count != out->outputs) bad(r, "classes");
    if (!(out->validation >= 0 && out->validation < 1)) bad(r, "validation");
}

static void read_progress(reader *r, gd_progress_state *out)
{
#define GET_WHOLE(member)  out->member = get_whole(r, #member, 0, INT64_MAX / 2);
#define GET_NUMBER(member) out->member = get_number(r, #member);
    PROGRESS(GET_WHOLE, GET_NUMBER)
#undef GET_WHOLE
#undef GET_NUMBER
}

gd_status gd__recipe_parse(gd_ctx *ctx, const char *source, const char *text, gd_recipe *recipe,
                           gd_progress_state *progress)
{
    *recipe = (gd_recipe){.columns = {.ctx = ctx}};
    *progress = (gd_progress_state){0};
    json_t *object = gd__json_read(text, strlen(text), NULL);
    reader r = {.ctx = ctx, .source = source, .object = object};
    if (!json_is_object(object)) {
        json_decref(object);
        return gd_fail(ctx, GD_FORMAT, "%s: its description is not JSON", source);
    }
    r.version = get_whole(&r, "version", 1, 2);
    read_recipe(&r, recipe);
    read_progress(&r, progress);
    json_decref(object);
    return r.status;
}

void gd__recipe_free(gd_ctx *ctx, gd_recipe *r)
{
    gd_words *const lists[] = {&r->groups, &r->schedules, &r->features, &r->ignored, &r->text, &r->classes};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) gd__words_free(ctx, lists[i]);
    gd__columns_close(&r->columns);
    *r = (gd_recipe){0};
}
