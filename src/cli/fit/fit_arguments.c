/* Arguments of gradus fit; see fit_arguments.h. */
#include "cli/fit/fit_arguments.h"
#include "cli/problem_options.h"
#include "table/table_load.h"

#include <stdio.h>
#include <string.h>

/* ---- parameters and constants ---- */

/* NAME=VALUE of an option: the name, and the start of its value. 'A[set]=1' is for parameters only; without a value, it is guessed. */
static gd_status split(gd_fit_arguments *a, const char *option, const char *spec, gd_fit_param *p,
                       const char **value)
{
    const char *equals = strchr(spec, '='), *open = strpbrk(spec, "[=");
    p->fixed = !strcmp(option, "fix");
    if (!p->fixed && open && open > spec && *open == '[') {
        const char *close = strchr(open, ']');
        if (!close || close[1] != '=' || close - open > 90 || strlen(spec) >= 599)
            return gd_fail(a->ctx, GD_ARGUMENT, "--param: 'NAME[COLUMN]=VALUE' expected, '%.60s' found",
                           spec);
        equals = close + 1;
    }
    p->open = !equals && *spec && a->spec.guess && !p->fixed;
    if (p->open) equals = spec + strlen(spec);
    if (!equals || equals == spec)
        return gd_fail(a->ctx, GD_ARGUMENT, "--%s: NAME=VALUE expected, '%.60s' found", option, spec);
    size_t length = (size_t)(equals - spec);
    char *name = gd__alloc(a->ctx, length + 1);
    if (!name) return GD_NOMEM;
    memcpy(name, spec, length);
    name[length] = 0;
    a->name[a->spec.param_count] = name;
    p->name = name;
    *value = p->open ? "1" : equals + 1;
    return GD_OK;
}

static gd_status read_param(gd_fit_arguments *a, const char *option, const char *spec)
{
    gd_fit_param *p = &a->param[a->spec.param_count];
    const char *value = NULL;
    gd_status status = split(a, option, spec, p, &value);
    if (status) return status;
    char what[100];
    (void)snprintf(what, sizeof what, "--%s %.*s", option, (int)strcspn(p->name, "["), p->name);
    gd_tensor *t = gd__value_parse(a->ctx, what, value, GD_F64, &a->tables);
    a->value[a->spec.param_count++] = t;
    p->value = t;
    return t ? GD_OK : gd_error(a->ctx);
}

static gd_status read_params(gd_fit_arguments *a)
{
    gd_status status = GD_OK;
    a->room = (size_t)a->args->options + 1;
    a->param = gd__calloc(a->ctx, a->room * sizeof *a->param);
    a->value = gd__calloc(a->ctx, a->room * sizeof *a->value);
    a->name = gd__calloc(a->ctx, a->room * sizeof *a->name);
    if (!a->param || !a->value || !a->name) return GD_NOMEM;
    for (int fixed = 0; fixed < 2; fixed++) {
        const char *option = fixed ? "fix" : "param";
        int at = 0;
        for (const char *spec; !status && (spec = gd__args_next(a->args, option, &at));)
            status = read_param(a, option, spec);
    }
    a->spec.params = a->param;
    return status;
}

/* ---- other arguments ---- */

/* The values of a repeated option, ended by NULL. */
static gd_status read_list(gd_fit_arguments *a, int k, const char *option, const char *const **out)
{
    int at = 0, count = 0;
    a->list[k] = gd__calloc(a->ctx, ((size_t)a->args->options + 1) * sizeof(char *));
    if (!a->list[k]) return GD_NOMEM;
    for (const char *text; (text = gd__args_next(a->args, option, &at));) a->list[k][count++] = text;
    *out = a->list[k];
    return GD_OK;
}

static gd_status read_lists(gd_fit_arguments *a)
{
    gd_fit_spec *s = &a->spec;
    gd_status status = read_list(a, 0, "x-errors", &s->x_errors);
    if (!status) status = read_list(a, 1, "exclude", &s->exclude);
    if (!status) status = read_list(a, 2, "bound", &s->bounds);
    return status ? status : read_list(a, 3, "derive", &s->derive);
}

static gd_status read_settings(gd_fit_arguments *a)
{
    const gd_args *args = a->args;
    gd_fit_spec *s = &a->spec;
    int drop = 0;
    int64_t seed = 0;
    s->model = args->argument[0];
    s->y = gd__args_get(args, "y");
    s->weights = gd__args_get(args, "weights");
    s->sigma = gd__args_get(args, "sigma");
    s->absolute_sigma = gd__args_has(args, "absolute-sigma");
    s->dates = gd__args_get(args, "dates");
    s->loss = gd__args_get(args, "loss");
    s->errors = gd__args_get(args, "errors");
    s->intervals = gd__args_get(args, "intervals");
    s->guess = gd__args_has(args, "guess");
    s->chain = gd__args_get(args, "chain");
    s->device = gd__args_get(args, "device");
    gd_status status = gd__args_integer(args, "starts", 1, 100000, &s->starts);
    if (!status) status = gd__args_integer(args, "steps", 1, INT64_MAX, &s->max_steps);
    if (!status) status = gd__args_real(args, "level", 1e-6, 1 - 1e-6, &s->level);
    if (!status) status = gd__args_integer(args, "seed", 0, INT64_MAX, &seed);
    if (!status) status = gd__csv_options(args, &a->tables.csv);
    if (!status) status = gd__args_choice(args, "missing", "error drop", &drop);
    s->seed = (uint64_t)seed;
    s->drop_missing = drop;
    return status;
}

gd_status gd__fit_arguments_read(const gd_args *args, gd_fit_arguments *a)
{
    *a = (gd_fit_arguments){.ctx = args->ctx, .args = args, .spec = gd_fit_defaults()};
    gd_status status = read_settings(a);
    if (!status) status = read_lists(a);
    if (status) return status;
    a->csv = gd__table_load(a->ctx, args->argument + 1, args->arguments - 1, &a->tables.csv);
    if (!(a->spec.table = a->csv)) return gd_error(a->ctx);
    if ((status = read_params(a))) return status;
    status = gd__definitions_option(args, &a->definitions);
    a->spec.definitions = a->definitions;
    a->spec.definitions_file = a->definitions ? gd__args_get(args, "def") : NULL;
    return status ? status : gd__csv_options_used(args, a->tables.used || gd__csv_is_text(a->csv));
}

void gd__fit_arguments_close(gd_fit_arguments *a)
{
    for (int i = 0; i < a->spec.param_count; i++) gd_release(a->value[i]);
    for (size_t i = 0; i < a->room && a->name; i++) gd__strfree(a->ctx, a->name[i]);
    gd__free(a->ctx, a->param, a->param ? a->room * sizeof *a->param : 0);
    gd__free(a->ctx, a->value, a->value ? a->room * sizeof *a->value : 0);
    gd__free(a->ctx, a->name, a->name ? a->room * sizeof *a->name : 0);
    for (int k = 0; k < GD_FIT_TEXT_LISTS; k++)
        gd__free(a->ctx, a->list[k], a->list[k] ? ((size_t)a->args->options + 1) * sizeof(char *) : 0);
    gd__strfree(a->ctx, a->definitions);
    gd__csv_free(a->csv);
}
