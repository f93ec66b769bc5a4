/* Problems; see problem.h. */
#include "file/file_internal.h"
#include "cli/problem/problem.h"
#include "expr/expr_advice.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GRID_COLUMNS 241
#define GRID_ROWS    161

/* ---- names and values ---- */

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '`' || (unsigned char)text[i] < 0x20) return false;
    return length > 0;
}

/* NAME=VALUE of an option into the next place. */
static gd_status add(gd_problem *p, const char *option, const char *spec)
{
    const char *equals = strchr(spec, '=');
    size_t length = equals ? (size_t)(equals - spec) : 0;
    if (!equals || !is_name(spec, length))
        return gd_fail(p->ctx, GD_ARGUMENT, "--%s: NAME=VALUE expected, '%.60s' found", option, spec);
    const char *name = gd__intern(p->ctx, spec, length);
    if (!name) return GD_NOMEM;
    for (int i = 0; i < p->count; i++)
        if (p->name[i] == name)
            return gd_fail(p->ctx, GD_ARGUMENT, "--%s: '%.60s' is there already", option, name);
    char what[120];
    (void)snprintf(what, sizeof what, "--%s %.80s", option, name);
    gd_tensor *t = gd__value_parse(p->ctx, what, equals + 1, p->dtype, &p->tables);
    if (t && p->device != gd_tensor_device(t)) {
        gd_tensor *moved = gd_to_device(t, p->device);
        gd_release(t);
        t = moved;
    }
    if (!t) return gd_error(p->ctx);
    p->name[p->count] = name;
    p->value[p->count++] = t;
    return GD_OK;
}

static gd_status read_settings(gd_problem *p, const gd_args *args)
{
    int choice = 1;
    int64_t seed = 0;
    gd_status status = gd__args_choice(args, "dtype", "f32 f64", &choice);
    if (!status) status = gd__csv_options(args, &p->tables.csv);
    if (!status) status = gd__args_integer(args, "seed", 0, INT64_MAX, &seed);
    if (status) return status;
    p->dtype = choice ? GD_F64 : GD_F32;
    gd_seed(p->ctx, (uint64_t)seed);
    const char *device = gd__args_get(args, "device");
    p->device = gd_device_get(p->ctx, device ? device : "cpu");
    return p->device ? GD_OK : gd_error(p->ctx);
}

static gd_status read_values(gd_problem *p, const gd_args *args, const char *const *params, int count)
{
    gd_status status = GD_OK;
    int at = 0;
    for (int i = 0; i < count && !status; i++) status = add(p, "param", params[i]);
    for (const char *spec; !params && !status && (spec = gd__args_next(args, "param", &at));)
        status = add(p, "param", spec);
    p->params = p->count;
    at = 0;
    for (const char *spec; !status && (spec = gd__args_next(args, "data", &at));)
        status = add(p, "data", spec);
    if (!status) status = gd__csv_options_used(args, p->tables.used);
    for (int i = 0; i < p->params && !status; i++)
        if (!gd_require_grad(p->value[i])) status = gd_error(p->ctx);
    return status;
}

gd_status gd__problem_definitions(gd_ctx *ctx, const gd_args *args, char **text)
{
    const char *path = gd__args_get(args, "def");
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

/* Was the name given by this option? */
static bool is_given_by(const gd_args *args, const char *option, const char *name)
{
    size_t length = strlen(name);
    int at = 0;
    for (const char *spec; (spec = gd__args_next(args, option, &at));)
        if (!strncmp(spec, name, length) && strchr("=[", spec[length])) return true;
    return false;
}

static bool has_option(const gd_args *args, const char *name)
{
    return gd__option_find(args->command, name, strlen(name));
}

static gd_expr_name_kind kind_of(const void *user, const char *name)
{
    const gd_args *args = user;
    if (is_given_by(args, "param", name)) return GD_EXPR_NAME_PARAMETER;
    return is_given_by(args, "data", name) || is_given_by(args, "fix", name) ? GD_EXPR_NAME_CONSTANT
                                                                             : GD_EXPR_NAME_COLUMN;
}

/* What is said of a name that an expression does not know. */
static gd_expr_advice advice_of(const gd_args *args, const char *option)
{
    return (gd_expr_advice){.option = option,
                            .kind = kind_of,
                            .user = args,
                            .params = has_option(args, "param"),
                            .constants = has_option(args, "fix")    ? "fix"
                                         : has_option(args, "data") ? "data"
                                                                    : NULL};
}

void gd__problem_blame(gd_ctx *ctx, const char *option) { gd__expr_blame(ctx, option, ""); }

/* The definitions of --def, to be read with an expression. */
typedef struct definitions {
    char *text;
    const char *file;
} definitions;

static gd_status open_definitions(gd_ctx *ctx, const gd_args *args, definitions *d)
{
    gd_status status = gd__problem_definitions(ctx, args, &d->text);
    d->file = d->text ? gd__args_get(args, "def") : NULL;
    return status;
}

static gd_expr *read_expression(gd_ctx *ctx, const gd_args *args, const char *option, const char *text,
                                const char *const *names, int count, gd_expr_form form)
{
    definitions d;
    if (open_definitions(ctx, args, &d)) return NULL;
    gd_expr_options options = {.names = names, .count = count, .definitions = d.text, .file = d.file};
    gd_expr_advice advice = advice_of(args, option);
    gd_expr *e = gd__expr_parse_form(ctx, text, &options, form);
    gd__strfree(ctx, d.text);
    if (!e) gd__expr_advise(ctx, &advice, names, count);
    return e;
}

gd_expr *gd__problem_relation(gd_ctx *ctx, const gd_args *args, const char *option, const char *text,
                              const char *const *names, int count, int part, gd_expr_relation *out)
{
    definitions d;
    if (open_definitions(ctx, args, &d)) return NULL;
    gd_expr_options options = {.names = names, .count = count, .definitions = d.text, .file = d.file};
    gd_expr_advice advice = advice_of(args, option);
    gd_expr *e = gd__expr_parse_relation(ctx, text, &options, part, out);
    gd__strfree(ctx, d.text);
    if (!e) gd__expr_advise(ctx, &advice, names, count);
    return e;
}

gd_status gd__problem_no_truth(gd_ctx *ctx, const char *option, const gd_expr *e, const char *text)
{
    return gd__expr_refuse_truth(ctx, option, e, text);
}

gd_expr *gd__problem_form(gd_ctx *ctx, const gd_args *args, const char *text, const char *const *names,
                          int count, gd_expr_form form)
{
    return read_expression(ctx, args, NULL, text, names, count, form);
}

gd_expr *gd__problem_expression(gd_ctx *ctx, const gd_args *args, const char *option, const char *text,
                                const char *const *names, int count)
{
    return read_expression(ctx, args, option, text, names, count, GD_EXPR_VALUE);
}

gd_status gd__problem_open(gd_problem *p, gd_ctx *ctx, const gd_args *args, const char *expr,
                           const char *const *params, int count)
{
    *p = (gd_problem){.ctx = ctx};
    gd_status status = read_settings(p, args);
    if (status) return status;
    p->bytes = ((size_t)args->options + (size_t)count + 1) * sizeof(void *);
    p->name = gd__alloc(ctx, p->bytes);
    p->value = gd__calloc(ctx, p->bytes);
    if (!p->name || !p->value) return GD_NOMEM;
    status = read_values(p, args, params, count);
    if (status) return status;
    p->expr = gd__problem_expression(ctx, args, NULL, expr, p->name, p->count);
    if (!p->expr) return gd_error(ctx);
    for (int i = p->params; i < p->count; i++) gd_expr_fix(p->expr, i);
    return GD_OK;
}

void gd__problem_close(gd_problem *p)
{
    gd_expr_free(p->expr);
    for (int i = 0; i < p->count; i++) gd_release(p->value[i]);
    gd__free(p->ctx, p->name, p->bytes);
    gd__free(p->ctx, p->value, p->bytes);
    *p = (gd_problem){.ctx = p->ctx};
}

/* ---- evaluating ---- */

gd_tensor *gd__problem_value(gd_problem *p) { return gd_expr_eval(p->expr, p->value, p->dtype); }

gd_tensor *gd__problem_loss_of(gd_tensor *value)
{
    if (!value || gd_ndim(value) == 0) return value;
    if (gd_numel(value) == 1) return gd_sum(value, NULL, false); /* the loss itself, whatever its shape */
    return gd_sum(gd_square(value), NULL, false);
}

gd_tensor *gd__problem_loss(gd_problem *p)
{
    gd_scope_begin(p->ctx);
    return gd__scope_leave(p->ctx, gd__problem_loss_of(gd__problem_value(p)));
}

/* ---- two numbers as a plane ---- */

/* Which parameter and element the k-th number is. */
static void find_number(const gd_problem *p, int k, int *param, int64_t *element)
{
    *param = 0;
    *element = k;
    while (*element >= gd_numel(p->value[*param])) *element -= gd_numel(p->value[(*param)++]);
}

bool gd__problem_is_plane(const gd_problem *p, char axis[2][80])
{
    if (gd__list_numel(p->value, p->params) != 2) return false;
    for (int k = 0; k < 2; k++) {
        int param;
        int64_t element;
        find_number(p, k, &param, &element);
        if (gd_ndim(p->value[param]) == 0)
            (void)snprintf(axis[k], 80, "%.70s", p->name[param]);
        else
            (void)snprintf(axis[k], 80, "%.50s[%lld]", p->name[param], (long long)element);
    }
    return true;
}

static gd_status fill_grid(gd_problem *p, const double box[4], double *z)
{
    gd_status status = GD_OK;
    for (int row = 0; row < GRID_ROWS && !status; row++) {
        for (int column = 0; column < GRID_COLUMNS && !status; column++) {
            double point[2] = {box[0] + (box[1] - box[0]) * column / (GRID_COLUMNS - 1),
                               box[2] + (box[3] - box[2]) * row / (GRID_ROWS - 1)};
            status = gd__list_write(p->value, p->params, point);
            if (status) break;
            gd_scope_begin(p->ctx);
            gd_tensor *loss = gd__problem_loss(p);
            if (loss)
                z[row * GRID_COLUMNS + column] = gd_item(loss);
            else
                status = gd_error(p->ctx);
            gd_scope_end(p->ctx);
        }
    }
    return status;
}

gd_status gd__problem_contours(gd_problem *p, gd_plot *plot, const double box[4])
{
    double before[2], *z = gd__alloc_array(p->ctx, GRID_COLUMNS * GRID_ROWS, sizeof *z);
    gd_status status = z ? gd__list_read(p->value, p->params, before) : GD_NOMEM;
    if (!status) {
        gd_no_grad_begin(p->ctx);
        status = fill_grid(p, box, z);
        gd_status restored = gd__list_write(p->value, p->params, before);
        if (!status) status = restored;
        gd_no_grad_end(p->ctx);
    }
    if (!status) gd_plot_contours(plot, box[0], box[1], GRID_COLUMNS, box[2], box[3], GRID_ROWS, z);
    gd__free(p->ctx, z, GRID_COLUMNS * GRID_ROWS * sizeof *z);
    return status;
}

/* One side of a box: the points, and a fifth of their spread on either end. */
static void side(const double *v, size_t count, double out[2])
{
    out[0] = INFINITY;
    out[1] = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(v[i])) continue;
        out[0] = fmin(out[0], v[i]);
        out[1] = fmax(out[1], v[i]);
    }
    if (!(out[0] <= out[1])) out[0] = -1, out[1] = 1;
}

void gd__plane_box(const double *x, const double *y, size_t count, double box[4])
{
    side(x, count, box);
    side(y, count, box + 2);
    double wide = fmax(box[1] - box[0], box[3] - box[2]);
    if (!(wide > 0)) wide = fmax(1, fmax(fabs(box[0]), fabs(box[2])));
    for (int k = 0; k < 4; k += 2) {
        double spread = fmax(box[k + 1] - box[k], 0.2 * wide), middle = (box[k] + box[k + 1]) / 2;
        box[k] = middle - 0.7 * spread;
        box[k + 1] = middle + 0.7 * spread;
    }
}
