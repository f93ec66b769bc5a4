/* Tracking reads; see track.h. */
#include "module/track.h"
#include "module/module_internal.h"

#include <string.h>

void gd__tracker_push(gd_ctx *ctx, gd_tracker *tracker)
{
    gd_registry *registry = gd__registry(ctx); /* exists: there is a module */
    tracker->outer = registry->tracker;
    registry->tracker = tracker;
}

void gd__tracker_pop(gd_ctx *ctx, gd_tracker *tracker) { gd__registry(ctx)->tracker = tracker->outer; }

void gd__dependencies_free(gd_ctx *ctx, gd_dependencies *read)
{
    for (int i = 0; i < read->count; i++) gd__weak_release(read->item[i].module);
    gd__free(ctx, read->item, (size_t)read->capacity * sizeof *read->item);
    *read = (gd_dependencies){0};
}

/* The state of an attribute now; `module` and `name` are left to the caller. */
static gd_dependency state_of(const gd_module *module, const char *name)
{
    if (!*name) return (gd_dependency){.stamp = module->stamp};
    const gd_attribute *a = gd__attribute_find(module, name);
    gd_dependency now = {.stamp = a ? a->stamp : 0};
    if (a && a->kind == GD_ATTRIBUTE_TENSOR) {
        now.version = gd__version(a->tensor);
        now.wants_grad = gd__wants_grad(a->tensor);
    }
    return now;
}

static bool same_state(const gd_dependency *a, const gd_dependency *b)
{
    return a->stamp == b->stamp && a->version == b->version && a->wants_grad == b->wants_grad;
}

bool gd__unchanged(const gd_dependencies *read)
{
    for (int i = 0; i < read->count; i++) {
        const gd_dependency *then = &read->item[i];
        if (!then->module->module) return false;
        gd_dependency now = state_of(then->module->module, then->name);
        if (!same_state(&now, then)) return false;
    }
    return true;
}

/* Notes a read in one tracker; if an attribute changed between two reads, the value is not remembered. */
static gd_status note_in(gd_ctx *ctx, gd_tracker *tracker, gd_module *module, const gd_dependency *now)
{
    gd_dependencies *read = &tracker->read;
    for (int i = 0; i < read->count; i++) {
        if (read->item[i].module->module != module || read->item[i].name != now->name) continue;
        if (!same_state(&read->item[i], now)) tracker->too_wide = true;
        return GD_OK;
    }
    if (!gd__reserve(ctx, &read->item, read->count, &read->capacity, sizeof *read->item)) return GD_NOMEM;
    gd_dependency own = *now;
    if (!(own.module = gd__weak_of(module))) return GD_NOMEM;
    read->item[read->count++] = own;
    return GD_OK;
}

/* Notes a read in every tracker on the stack. */
static gd_status note(gd_ctx *ctx, gd_module *module, const gd_dependency *now)
{
    gd_status status = GD_OK;
    for (gd_tracker *t = gd__registry(ctx)->tracker; t; t = t->outer) {
        if (!t->remembers || t->too_wide || !note_in(ctx, t, module, now)) continue;
        t->failed = true;
        status = GD_NOMEM;
    }
    return status;
}

void gd__note_read(gd_module *module, const char *name, size_t length)
{
    gd_tracker *top = module->head.cls->registry->tracker;
    if (!top) return;
    gd_ctx *ctx = module->head.ctx;
    const char *own = gd__intern(ctx, name, length);
    if (!own) {
        for (gd_tracker *t = top; t; t = t->outer) t->failed = true;
        return;
    }
    gd_dependency now = state_of(module, own);
    now.name = own;
    (void)note(ctx, module, &now); /* the tracker knows that it failed */
}

void gd__note_names(gd_module *module) { gd__note_read(module, "", 0); }

static gd_status note_all(gd_module *module, const char *prefix, void *user)
{
    (void)prefix, (void)user;
    gd__note_names(module);
    for (int i = 0; i < module->count; i++)
        if (module->attribute[i].kind == GD_ATTRIBUTE_TENSOR)
            gd__note_read(module, module->attribute[i].name, strlen(module->attribute[i].name));
    return GD_OK;
}

void gd__note_tree(gd_module *root)
{
    gd_tracker *top = root->head.cls->registry->tracker;
    if (!top || !gd__walk(root, note_all, NULL)) return;
    for (gd_tracker *t = top; t; t = t->outer) t->failed = true;
}

gd_status gd__note_again(gd_ctx *ctx, const gd_dependencies *read)
{
    gd_status status = GD_OK;
    for (int i = 0; i < read->count && !status; i++)
        if (read->item[i].module->module) status = note(ctx, read->item[i].module->module, &read->item[i]);
    return status;
}

/* ---- histories ---- */

#define HISTORY_DEPTH 128
#define HISTORY_NODES 4096

static bool node_alive(gd_node *node, uint64_t pass, int depth, int *left)
{
    if (node->pass == pass) return true;
    if (node->spent || depth == 0 || --*left < 0) return false;
    node->pass = pass;
    for (int i = 0; i < node->nin; i++) {
        const gd_tensor *t = node->in[i];
        if (t && t->node && !node_alive(t->node, pass, depth - 1, left)) return false;
        if (t && t->storage && gd__version(t) != node->version[i]) return false; /* changed in place since */
    }
    return true;
}

bool gd__history_alive(gd_ctx *ctx, const gd_tensor *t)
{
    int left = HISTORY_NODES;
    return !t->node || node_alive(t->node, ++ctx->pass, HISTORY_DEPTH, &left);
}
