/* Keyword arguments: making, finding, checking. */
#include "module/class_internal.h"

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

/* Sets *out, of `size` bytes, to the value of the argument if given; TYPE if it is of a different kind. */
static gd_status take_value(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, gd_argument_kind kind,
                            void *out, size_t size)
{
    if (!ctx || !name || !out) return gd__null(ctx, "keyword: its name or the place for it is NULL");
    const gd_argument *found = gd_kwargs_find(kwargs, name);
    if (found && found->kind != kind)
        return gd_fail(ctx, GD_TYPE, "keyword '%s' must be %s, got %s", name, kind_name(kind),
                       kind_name(found->kind));
    if (found) memcpy(out, &found->as, size); /* all members of the union begin where it does */
    return GD_OK;
}

gd_status gd_kwargs_int(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, int64_t *out)
{
    return take_value(ctx, kwargs, name, GD_ARGUMENT_INT, out, sizeof *out);
}

gd_status gd_kwargs_real(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, double *out)
{
    const gd_argument *whole = gd_kwargs_find(kwargs, name);
    if (!ctx || !out || !whole || whole->kind != GD_ARGUMENT_INT)
        return take_value(ctx, kwargs, name, GD_ARGUMENT_REAL, out, sizeof *out);
    *out = (double)whole->as.integer;
    return GD_OK;
}

gd_status gd_kwargs_string(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, const char **out)
{
    return take_value(ctx, kwargs, name, GD_ARGUMENT_STRING, out, sizeof *out);
}

gd_status gd_kwargs_pointer(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, void **out)
{
    return take_value(ctx, kwargs, name, GD_ARGUMENT_POINTER, out, sizeof *out);
}

gd_status gd_kwargs_object(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, gd_object **out)
{
    return take_value(ctx, kwargs, name, GD_ARGUMENT_OBJECT, out, sizeof *out);
}

gd_status gd_kwargs_tensor(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, gd_tensor **out)
{
    gd_object *object = NULL;
    gd_status status = gd_kwargs_object(ctx, kwargs, name, out ? &object : NULL);
    if (status || !gd_kwargs_find(kwargs, name)) return status;
    if (object && object->type != &gd__tensor_type)
        return gd_fail(ctx, GD_TYPE, "keyword '%s' must be a tensor, got %s", name,
                       gd__class_of(object)->name);
    *out = (gd_tensor *)object;
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
