/* Keyword arguments: making, finding, checking. */
#include "module/class.h"

#include <string.h>

gd_argument gd_int_argument(const char *name, int64_t value)
{
    return (gd_argument){.name = name, .kind = GD_ARGUMENT_INT, .as.integer = value};
}

gd_argument gd_real_argument(const char *name, double value)
{
    return (gd_argument){.name = name, .kind = GD_ARGUMENT_REAL, .as.real = value};
}

gd_argument gd_string_argument(const char *name, const char *value)
{
    return (gd_argument){.name = name, .kind = GD_ARGUMENT_STRING, .as.string = value};
}

gd_argument gd_pointer_argument(const char *name, void *value)
{
    return (gd_argument){.name = name, .kind = GD_ARGUMENT_POINTER, .as.pointer = value};
}

gd_argument gd_object_argument(const char *name, gd_object *value)
{
    return (gd_argument){.name = name, .kind = GD_ARGUMENT_OBJECT, .as.object = value};
}

gd_argument gd_tensor_argument(const char *name, gd_tensor *value)
{
    return gd_object_argument(name, gd_tensor_object(value));
}

const gd_argument *gd_kwargs_find(const gd_kwargs *kwargs, const char *name)
{
    for (int i = 0; kwargs && name && i < kwargs->count; i++)
        if (strcmp(kwargs->argument[i].name, name) == 0) return &kwargs->argument[i];
    return NULL;
}

static const char *kind_name(gd_argument_kind kind)
{
    static const char *const names[] = {"an int", "a real", "a string", "a pointer", "an object"};
    return names[kind];
}

/* The argument of a name if it is of the kind; *status says what went wrong. */
static const gd_argument *of_kind(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name,
                                  gd_argument_kind kind, const void *out, gd_status *status)
{
    const gd_argument *found = ctx && name && out ? gd_kwargs_find(kwargs, name) : NULL;
    *status = ctx && name && out ? GD_OK : gd__null(ctx, "keyword: its name or the place for it is NULL");
    if (!found || found->kind == kind) return found;
    *status = gd_fail(ctx, GD_TYPE, "keyword '%s' must be %s, got %s", name, kind_name(kind),
                      kind_name(found->kind));
    return NULL;
}

gd_status gd_kwargs_int(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, int64_t *out)
{
    gd_status status;
    const gd_argument *found = of_kind(ctx, kwargs, name, GD_ARGUMENT_INT, out, &status);
    if (found) *out = found->as.integer;
    return status;
}

gd_status gd_kwargs_real(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, double *out)
{
    const gd_argument *whole = gd_kwargs_find(kwargs, name);
    if (ctx && out && whole && whole->kind == GD_ARGUMENT_INT) {
        *out = (double)whole->as.integer;
        return GD_OK;
    }
    gd_status status;
    const gd_argument *found = of_kind(ctx, kwargs, name, GD_ARGUMENT_REAL, out, &status);
    if (found) *out = found->as.real;
    return status;
}

gd_status gd_kwargs_string(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, const char **out)
{
    gd_status status;
    const gd_argument *found = of_kind(ctx, kwargs, name, GD_ARGUMENT_STRING, out, &status);
    if (found) *out = found->as.string;
    return status;
}

gd_status gd_kwargs_pointer(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, void **out)
{
    gd_status status;
    const gd_argument *found = of_kind(ctx, kwargs, name, GD_ARGUMENT_POINTER, out, &status);
    if (found) *out = found->as.pointer;
    return status;
}

gd_status gd_kwargs_object(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, gd_object **out)
{
    gd_status status;
    const gd_argument *found = of_kind(ctx, kwargs, name, GD_ARGUMENT_OBJECT, out, &status);
    if (found) *out = found->as.object;
    return status;
}

gd_status gd_kwargs_tensor(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, gd_tensor **out)
{
    gd_status status;
    const gd_argument *found = of_kind(ctx, kwargs, name, GD_ARGUMENT_OBJECT, out, &status);
    if (!found) return status;
    if (found->as.object && found->as.object->type != &gd__tensor_type)
        return gd_fail(ctx, GD_TYPE, "keyword '%s' must be a tensor, got %s", name,
                       gd__class_of(found->as.object)->name);
    *out = (gd_tensor *)found->as.object;
    return GD_OK;
}

static bool listed(const char *names, const char *name)
{
    size_t length, wanted = strlen(name);
    for (const char *at; (at = gd__next_name(&names, &length));)
        if (length == wanted && memcmp(at, name, length) == 0) return true;
    return false;
}

gd_status gd_kwargs_only(gd_ctx *ctx, const gd_kwargs *kwargs, const char *names)
{
    if (!ctx) return GD_ARGUMENT;
    for (int i = 0; kwargs && i < kwargs->count; i++)
        if (!listed(names, kwargs->argument[i].name))
            return gd_fail(ctx, GD_ARGUMENT, "keyword '%s' is not expected here%s%s",
                           kwargs->argument[i].name, names && *names ? "; there are " : "",
                           names ? names : "");
    return GD_OK;
}

gd_status gd__kwargs_check(gd_ctx *ctx, const char *what, const gd_kwargs *kwargs)
{
    for (int i = 0; kwargs && i < kwargs->count; i++) {
        if (!kwargs->argument[i].name)
            return gd_fail(ctx, GD_ARGUMENT, "%s: keyword %d has no name", what, i);
        for (int earlier = 0; earlier < i; earlier++)
            if (strcmp(kwargs->argument[earlier].name, kwargs->argument[i].name) == 0)
                return gd_fail(ctx, GD_ARGUMENT, "%s: keyword '%s' is given twice", what,
                               kwargs->argument[i].name);
    }
    return GD_OK;
}
