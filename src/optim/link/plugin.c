/* Plugins: shared libraries with link classes; see gradus/link/plugin.h.
 *
 * A file is checked completely before a class of it is registered: a context gets all classes of a plugin or none.  The version
 * is read first, since the layout of the rest depends on it. */
#include "gradus/link/plugin.h"
#include "base/system.h"
#include "optim/link/classes.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOST_CLASSES 4096

/* The libraries that a context holds. */
typedef struct libraries {
    void **handle;
    int count, capacity;
} libraries;

static const char libraries_key = 0;

static void *libraries_new(gd_ctx *ctx) { return gd__calloc(ctx, sizeof(libraries)); }

static void libraries_free(gd_ctx *ctx, void *data)
{
    libraries *l = data;
    for (int i = 0; i < l->count; i++) dlclose(l->handle[i]);
    gd__free(ctx, l->handle, (size_t)l->capacity * sizeof *l->handle);
    gd__free(ctx, l, sizeof *l);
}

static void *open_library(gd_ctx *ctx, const char *path)
{
    char file[4096];
    FILE *f = fopen(path, "rbe");
    if (!f) {
        char why[128];
        if (strerror_r(errno, why, sizeof why) != 0) (void)snprintf(why, sizeof why, "error %d", errno);
        return gd__refuse(ctx, GD_IO, "plugin %.200s: cannot read: %s", path, why);
    }
    bool whole = gd__is_whole_library(f);
    (void)fclose(f);
    if (!whole)
        return gd__refuse(ctx, GD_FORMAT, "plugin %.200s: it is no shared library, or not all of one", path);
    /* without a '/' the loader would not search the current folder */
    if (snprintf(file, sizeof file, "%s%s", strchr(path, '/') ? "" : "./", path) >= (int)sizeof file)
        return gd__refuse(ctx, GD_IO, "plugin %.60s...: the path is too long", path);
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle) return handle;
    const char *why = dlerror();
    return gd__refuse(ctx, GD_FORMAT, "plugin %.200s: it cannot be loaded: %.400s", path,
                      why ? why : "unknown reason");
}

/* "0.1" of "0.1.7", and of "1.4.2" only "1": the prefix that must be equal. */
static bool same_interface(const char *a, const char *b)
{
    size_t length = strcspn(b, ".");
    if (length == 1 && *b == '0') length += 1 + strcspn(b + 2, ".");
    return !strncmp(a, b, length) && (!a[length] || a[length] == '.');
}

static gd_status check_plugin(gd_ctx *ctx, const char *path, const gd_link_plugin *p)
{
    if (!p)
        return gd_fail(ctx, GD_FORMAT,
                       "plugin %.200s: it has no '" GD_PLUGIN_ENTRY
                       "', which GD_LINK_PLUGIN of gradus/link/plugin.h defines",
                       path);
    if (!p->version || !same_interface(p->version, GD_VERSION))
        return gd_fail(ctx, GD_FORMAT, "plugin %.200s: it was compiled for gradus %.20s, this is " GD_VERSION,
                       path, p->version ? p->version : "of no version");
    if (p->class_size != sizeof(gd_link_class) || p->field_size != sizeof(gd_field))
        return gd_fail(ctx, GD_FORMAT,
                       "plugin %.200s: it was compiled with other headers than this gradus: compile it again",
                       path);
    if (!p->classes || p->count < 1 || p->count > MOST_CLASSES)
        return gd_fail(ctx, GD_FORMAT, "plugin %.200s: it brings no link", path);
    return GD_OK;
}

/* Why a class is refused, with the name of the plugin in front. */
static gd_status blame_plugin(gd_ctx *ctx, const char *path, gd_status status)
{
    char text[700];
    if (status == GD_NOMEM || !gd_error(ctx)) return status;
    (void)snprintf(text, sizeof text, "%s", gd_error_text(ctx));
    gd_clear_error(ctx);
    return gd_fail(ctx, status, "plugin %.200s: %s", path, text);
}

/* The library is consumed, also on failure. */
static gd_status hold_library(gd_ctx *ctx, void *handle)
{
    libraries *l = gd__extension(ctx, &libraries_key, libraries_new, libraries_free);
    if (l && gd__reserve(ctx, &l->handle, l->count, &l->capacity, sizeof *l->handle)) {
        l->handle[l->count++] = handle;
        return GD_OK;
    }
    dlclose(handle);
    return GD_NOMEM;
}

gd_status gd_link_plugin_load(gd_ctx *ctx, const char *path)
{
    if (!ctx || !path) return gd__null(ctx, "plugin: the path is NULL");
    if (gd_error(ctx)) return gd_error(ctx);
    void *handle = open_library(ctx, path);
    if (!handle) return gd_error(ctx);
    const gd_link_plugin *p = dlsym(handle, GD_PLUGIN_ENTRY);
    gd_status status = check_plugin(ctx, path, p);
    if (status) {
        dlclose(handle);
        return status;
    }
    /* from here on the library stays loaded: its classes may be in use */
    status = hold_library(ctx, handle);
    return status ? status : blame_plugin(ctx, path, gd__classes_add(ctx, p->classes, p->count));
}
