/* Options of problems; see problem_options.h. */
#include "cli/problem_options.h"
#include "file/file_internal.h"

#include <string.h>

gd_status gd__texts_of_option(const gd_args *args, const char *name, gd_words *out)
{
    gd_status status = GD_OK;
    int at = 0;
    for (const char *text; !status && (text = gd__args_next(args, name, &at));)
        status = gd__words_add(args->ctx, out, text, strlen(text));
    return status;
}

gd_status gd__definitions_option(const gd_args *args, char **text)
{
    const char *path = gd__args_get(args, "def");
    gd_ctx *ctx = args->ctx;
    void *bytes = NULL;
    size_t size = 0;
    *text = NULL;
    gd_status status = path ? gd__file_read_all(ctx, path, GD_EXPR_MAX_TEXT, &bytes, &size) : GD_OK;
    if (status || !path) return status;
    if (size && memchr(bytes, 0, size))
        status = gd_fail(ctx, GD_FORMAT, "--def %.200s: a byte 0 is no text", path);
    else if (!(*text = gd__alloc(ctx, size + 1)))
        status = GD_NOMEM;
    else {
        if (size) memcpy(*text, bytes, size);
        (*text)[size] = 0;
    }
    gd__free(ctx, bytes, size);
    return status;
}

static gd_status read_settings(gd_problem_arguments *a)
{
    gd_problem_spec *s = &a->spec;
    int choice = 1;
    int64_t seed = 0;
    gd_status status = gd__args_choice(a->args, "dtype", "f32 f64", &choice);
    if (!status) status = gd__csv_options(a->args, &s->csv);
    if (!status) status = gd__args_integer(a->args, "seed", 0, INT64_MAX, &seed);
    if (status) return status;
    s->dtype = choice ? GD_F64 : GD_F32;
    gd_seed(a->args->ctx, (uint64_t)seed);
    const char *device = gd__args_get(a->args, "device");
    s->device = gd_device_get(a->args->ctx, device ? device : "cpu");
    return s->device ? GD_OK : gd_error(a->args->ctx);
}

gd_status gd__problem_arguments_read(gd_problem_arguments *a, const gd_args *args, const char *expression)
{
    static const char *const lists[GD_PROBLEM_LISTS] = {"param", "data",    "equal",
                                                        "below", "subject", "bound"};
    *a = (gd_problem_arguments){.args = args, .problem = {.ctx = args->ctx}};
    a->spec = (gd_problem_spec){.expression = expression,
                                .params = &a->list[GD_LIST_PARAM],
                                .data = &a->list[GD_LIST_DATA],
                                .equal = &a->list[GD_LIST_EQUAL],
                                .below = &a->list[GD_LIST_BELOW],
                                .subject = &a->list[GD_LIST_SUBJECT],
                                .bounds = &a->list[GD_LIST_BOUND],
                                .params_are_all = !gd__option_find(args->command, "param", 5)};
    gd_status status = read_settings(a);
    for (int i = 0; i < GD_PROBLEM_LISTS && !status; i++)
        status = gd__texts_of_option(args, lists[i], &a->list[i]);
    if (!status) status = gd__definitions_option(args, &a->definitions);
    a->spec.definitions = a->definitions;
    a->spec.definitions_file = a->definitions ? gd__args_get(args, "def") : NULL;
    return status;
}

gd_status gd__problem_arguments_open(gd_problem_arguments *a)
{
    gd_status status = gd__problem_open(&a->problem, a->args->ctx, &a->spec);
    return status ? status : gd__csv_options_used(a->args, a->problem.tables.used);
}

void gd__problem_arguments_close(gd_problem_arguments *a)
{
    gd__problem_close(&a->problem);
    for (int i = 0; i < GD_PROBLEM_LISTS; i++) gd__words_free(a->args->ctx, &a->list[i]);
    gd__strfree(a->args->ctx, a->definitions);
}
