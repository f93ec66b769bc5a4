/* Resuming with a different chain; see resume.h.
 *
 * What an archive says about an optimizer is state (steps, averages) and settings side by side, link by link.  The settings of
 * the new optimizer take the place of the old ones in that text, and then it is read as always. */
#include "optim/state/resume.h"
#include "base/ctx.h"
#include "base/text/json.h"

#include <stdio.h>
#include <string.h>

static json_t *read_meta(const gd_archive *archive, const char *key)
{
    const char *text = gd_archive_get_meta(archive, key);
    return text ? gd__json_read(text, strlen(text), NULL) : NULL;
}

/* The settings as the optimizer would save them now.  New; NULL: no memory. */
static json_t *describe(gd_optimizer *optimizer)
{
    gd_archive *archive = gd_archive_new(gd_optimizer_ctx(optimizer));
    json_t *text = NULL;
    if (archive && !gd_optimizer_pack(optimizer, archive, NULL)) text = read_meta(archive, "optimizer");
    gd_archive_free(archive);
    return text;
}

static const char *class_of(const char *path)
{
    const char *colon = strrchr(path, ':');
    return colon ? colon + 1 : path;
}

/* The link of the new chain for an old one: at the same place, or with the same class and rank among its class. */
static const json_t *counterpart(json_t *old, json_t *new, const char *path)
{
    const json_t *same = json_object_get(new, path);
    if (same) return same;
    int before = 0;
    const char *key;
    json_t *link;
    json_object_foreach(old, key, link)
    {
        if (!strcmp(key, path)) break;
        before += !strcmp(class_of(key), class_of(path));
    }
    json_object_foreach(new, key, link)
    {
        if (!strcmp(class_of(key), class_of(path)) && before-- == 0) return link;
    }
    return NULL;
}

static bool take_member(json_t *to, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    return !value || json_object_set(to, key, value) == 0;
}

/* Settings, groups and schedules of the new one; the rest stays the old one's. */
static bool take_settings(json_t *old, json_t *new)
{
    json_t *links = json_object_get(old, "links"), *link;
    const char *path;
    bool ok = take_member(old, new, "groups") && take_member(old, new, "all") &&
              take_member(old, new, "chain");
    json_object_foreach(links, path, link)
    {
        const json_t *other = counterpart(links, json_object_get(new, "links"), path);
        ok = ok && (!other || take_member(link, other, "settings"));
    }
    /* the group of each parameter is written next to it */
    json_t *params = json_object_get(old, "params");
    json_object_foreach(params, path, link)
    {
        const json_t *other = json_object_get(json_object_get(new, "params"), path);
        ok = ok && (!other || take_member(link, other, "group"));
    }
    return ok;
}

gd_status gd__optimizer_keep_settings(gd_optimizer *optimizer, gd_archive *archive, const char *key)
{
    gd_ctx *ctx = gd_optimizer_ctx(optimizer);
    json_t *old = read_meta(archive, key), *new = describe(optimizer);
    bool taken = old && new &&take_settings(old, new);
    /* members of both, each at most once; a number may take more letters than it did */
    size_t size = 4 * strlen(gd_archive_get_meta(archive, key)) + 4096;
    char *text = taken ? gd__alloc(ctx, size) : NULL;
    if (text) (void)gd__json_write(old, text, size);
    gd_status status = !text                      ? GD_NOMEM
                       : strlen(text) + 1 == size ? gd_fail(ctx, GD_OVERFLOW, "{groups}: too many of them")
                                                  : gd_archive_set_meta(archive, key, text);
    gd__free(ctx, text, text ? size : 0);
    json_decref(old);
    json_decref(new);
    return status;
}

gd_status gd__optimizer_resume(gd_optimizer *optimizer, gd_archive *archive, const char *prefix, bool changed)
{
    char key[80];
    (void)snprintf(key, sizeof key, "%soptimizer", prefix);
    /* gd_optimizer_unpack reports a file without an optimizer */
    if (!changed || !gd_archive_get_meta(archive, key))
        return gd_optimizer_unpack(optimizer, archive, prefix, true);
    gd_status status = gd__optimizer_keep_settings(optimizer, archive, key);
    gd_load_report *report = NULL;
    if (!status) status = gd_optimizer_unpack_report(optimizer, archive, prefix, false, &report);
    gd_load_report_release(report);
    return status;
}
