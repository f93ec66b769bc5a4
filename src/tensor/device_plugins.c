/* The plugins of a context, see plugins.def, and its devices: the CPU, which is built in, and those of plugins. */
#define _GNU_SOURCE /* dladdr */
#include "base/system.h"
#include "tensor/device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_DEVICES 16 /* of a plugin */

typedef struct plugin_row {
    gd_plugin_kind kind;
    const char *name, *file, *variable, *title;
} plugin_row;

static const plugin_row rows[] = {
#define PLUGIN(kind, name, file, variable, title) {GD_PLUGIN_##kind, name, file, variable, title},
#include "tensor/plugins.def"
#undef PLUGIN
};

#define ROWS ((int)(sizeof rows / sizeof *rows))

typedef struct plugin {
    const plugin_row *row;
    gd_device device[MOST_DEVICES];
    void *handle; /* of dlopen */
    bool searched;
    char why[512]; /* it is not there */
} plugin;

typedef struct devices {
    gd_device cpu;
    plugin plugin[ROWS];
} devices;

static const char devices_key;

static void devices_destroy(gd_ctx *ctx, void *data)
{
    devices *all = data;
    for (plugin *p = all->plugin; p < all->plugin + ROWS; p++) {
        for (int i = 0; i < MOST_DEVICES; i++)
            if (p->device[i].backend) p->device[i].backend->close(&p->device[i]);
        if (p->handle) dlclose(p->handle);
    }
    ctx->cpu = NULL;
    gd__free(ctx, all, sizeof *all);
}

static void *devices_make(gd_ctx *ctx)
{
    devices *all = gd__calloc(ctx, sizeof *all);
    if (!all) return NULL;
    gd__cpu_open(ctx, &all->cpu);
    for (int i = 0; i < ROWS; i++) all->plugin[i].row = &rows[i];
    return all;
}

static devices *devices_of(gd_ctx *ctx)
{
    return gd__extension(ctx, &devices_key, devices_make, devices_destroy);
}

gd_device *gd__cpu(gd_ctx *ctx)
{
    if (!ctx) return NULL;
    if (ctx->cpu) return ctx->cpu;
    devices *all = devices_of(ctx);
    return ctx->cpu = all ? &all->cpu : NULL;
}

/* ---- finding plugins ---- */

static bool load(plugin *p, const char *file)
{
    p->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *why = p->handle ? "" : dlerror();
    snprintf(p->why, sizeof p->why, "%s", why ? why : "unknown reason");
    return p->handle != NULL;
}

#ifndef GD_PLUGIN_DIR
#define GD_PLUGIN_DIR "" /* folder in packages of a distribution */
#endif

/* A file that exists, but does not load, ends the search: its error is reported. */
static bool found_in(plugin *p, const char *folder, int length, const char *below)
{
    char path[4400];
    snprintf(path, sizeof path, "%.*s%s/%s", length, folder, below, p->row->file);
    if (access(path, R_OK)) return false;
    (void)load(p, path);
    return true;
}

/* Beside a file and in ../lib from there, where it was installed. */
static bool found_beside(plugin *p, const char *file)
{
    const char *slash = file ? strrchr(file, '/') : NULL;
    int length = (int)(slash ? slash - file : 0);
    return slash && (found_in(p, file, length, "") || found_in(p, file, length, "/../lib"));
}

/* Beside the library's or program's own file, then beside the link that it was started or loaded by, then the loader's search path.
 * The row's variable names a different file. */
static void *find(plugin *p)
{
    const char *file = gd__trusted_env(p->row->variable);
    char own[4096];
    Dl_info self;
    if (p->searched) return p->handle;
    p->searched = true;
    if (!file && gd__file_of(&devices_key, own, sizeof own) && found_beside(p, own)) return p->handle;
    /* argv[0] can be anything */
    if (!file && !gd__is_privileged() && dladdr(&devices_key, &self) && found_beside(p, self.dli_fname))
        return p->handle;
    if (!file && GD_PLUGIN_DIR[0] && found_in(p, GD_PLUGIN_DIR, sizeof GD_PLUGIN_DIR - 1, ""))
        return p->handle;
    (void)load(p, file ? file : p->row->file);
    return p->handle;
}

static void *symbol_of(plugin *p, const char *name)
{
    void *symbol = find(p) ? dlsym(p->handle, name) : NULL;
    if (p->handle && !symbol) snprintf(p->why, sizeof p->why, "it has no '%s'", name);
    return symbol;
}

static plugin *plugin_of(gd_ctx *ctx, gd_plugin_kind kind, const char *name)
{
    devices *all = ctx ? devices_of(ctx) : NULL;
    for (int i = 0; all && i < ROWS; i++)
        if (rows[i].kind == kind && !strcmp(rows[i].name, name)) return &all->plugin[i];
    return NULL;
}

const char *gd__plugin_name(gd_plugin_kind kind, int index)
{
    for (int i = 0; i < ROWS; i++)
        if (rows[i].kind == kind && index-- == 0) return rows[i].name;
    return NULL;
}

gd_plugin_found gd__plugin_symbol(gd_ctx *ctx, gd_plugin_kind kind, const char *name, const char *symbol)
{
    plugin *p = plugin_of(ctx, kind, name);
    if (!p) return (gd_plugin_found){0};
    return (gd_plugin_found){symbol_of(p, symbol), p->row->title, p->why};
}

/* ---- the GPUs ---- */

static plugin *gpus_of(gd_ctx *ctx) { return plugin_of(ctx, GD_PLUGIN_DEVICE, "gpu"); }

int gd_gpu_count(gd_ctx *ctx)
{
    plugin *p = gpus_of(ctx);
    void *symbol = p ? symbol_of(p, "gd_plugin_count") : NULL;
    if (!symbol) return 0;
    gd_plugin_count_fn count;
    memcpy(&count, &symbol, sizeof count);
    return count(ctx);
}

bool gd_gpu_describe(gd_ctx *ctx, int index, char *text, size_t size)
{
    plugin *p = text && size ? gpus_of(ctx) : NULL;
    void *symbol = p ? symbol_of(p, "gd_plugin_describe") : NULL;
    if (!symbol) return false;
    gd_plugin_describe_fn describe;
    memcpy(&describe, &symbol, sizeof describe);
    return describe(index, text, size);
}

/* ---- devices by name ---- */

static const gd_host host = {.layout = GD_PLUGIN_LAYOUT,
                             .fail = gd_fail,
                             .alloc = gd__alloc,
                             .free = gd__free,
                             .ops = gd__ops,
                             .plain = gd__plain_run,
                             .device = gd_device_get};

const gd_host *gd__plugin_host(void) { return &host; }

static gd_device *open_device(gd_ctx *ctx, plugin *p, int index)
{
    gd_device *device = &p->device[index];
    if (device->backend) return device;
    void *symbol = symbol_of(p, "gd_plugin_open");
    if (!symbol)
        return gd__refuse(ctx, GD_DEVICE, "device '%s:%d': the %s plugin could not be loaded (%s)",
                          p->row->name, index, p->row->title, p->why);
    gd_plugin_open_fn open;
    memcpy(&open, &symbol, sizeof open);
    *device = (gd_device){.ctx = ctx, .index = index, .host = &host};
    snprintf(device->name, sizeof device->name, "%s:%d", p->row->name, index);
    if (open(device) == GD_OK) return device;
    device->backend = NULL;
    return NULL;
}

/* The number behind the name of a kind of devices, "gpu" or "gpu:3"; -1: it is not of this kind. */
static int number_behind(const char *name, const char *kind)
{
    size_t length = strlen(kind);
    char *end = NULL;
    if (!name || strncmp(name, kind, length) || (name[length] && name[length] != ':')) return -1;
    if (!name[length]) return 0;
    const char *digits = name + length + 1;
    long index = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
    return end && !*end && index >= 0 && index < MOST_DEVICES ? (int)index : -1;
}

gd_device *gd_device_get(gd_ctx *ctx, const char *name)
{
    if (!ctx || (name && !strcmp(name, "cpu"))) return gd__cpu(ctx);
    devices *all = devices_of(ctx);
    char known[256] = "'cpu'";
    for (int i = 0; all && i < ROWS; i++) {
        const char *kind = rows[i].name;
        if (rows[i].kind != GD_PLUGIN_DEVICE) continue;
        int index = number_behind(name, kind);
        if (index >= 0) return open_device(ctx, &all->plugin[i], index);
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, ", '%s', '%s:0' to '%s:%d'", kind, kind, kind,
                 MOST_DEVICES - 1);
    }
    if (all) (void)gd_fail(ctx, GD_DEVICE, "device '%.40s' is not one of %s", name ? name : "", known);
    return NULL;
}

gd_device *gd__device_of_dlpack(gd_ctx *ctx, int32_t type, int32_t index)
{
    devices *all = devices_of(ctx);
    if (all && type == all->cpu.backend->dlpack) return gd__cpu(ctx);
    for (int i = 0; all && i < ROWS && index >= 0 && index < MOST_DEVICES; i++) {
        gd_device *device = &all->plugin[i].device[index];
        if (device->backend && device->backend->dlpack && device->backend->dlpack == type) return device;
    }
    return NULL;
}

const char *gd_device_name(const gd_device *device) { return device ? device->name : "none"; }

gd_status gd_device_sync(gd_device *device) { return device ? device->backend->sync(device) : GD_ARGUMENT; }

gd_status gd_device_use_stream(gd_device *device, void *stream)
{
    if (!device) return GD_ARGUMENT;
    if (!device->backend->use_stream)
        return gd_fail(device->ctx, GD_DEVICE, "use_stream: %s has no streams", device->name);
    return device->backend->use_stream(device, stream);
}

void *gd_device_stream(const gd_device *device)
{
    return device && device->backend->stream ? device->backend->stream(device) : NULL;
}

int64_t gd_device_host_calls(const gd_device *device) { return device ? device->host_calls : 0; }
