/* The tree of modules: walking it, and lists of its contents. */
#include "module/module_internal.h"

#include <string.h>

/* ---- walking ----
 * An explicit stack instead of recursion: trees may be deep.  `text` holds the path to the module on top. */

typedef struct step {
    gd_module *module;
    int next;   /* attribute to look at */
    int length; /* of its prefix in text */
} step;

typedef struct walk {
    gd_ctx *ctx;
    uint64_t number;
    step *stack;
    int depth, capacity;
    char *text;
    int length, room;
} walk;

static bool append(walk *w, const char *name, int length)
{
    while (w->length + length + 2 > w->room)
        if (!gd__reserve(w->ctx, &w->text, w->room, &w->room, 1)) return false;
    memcpy(w->text + w->length, name, (size_t)length);
    w->length += length;
    w->text[w->length] = 0;
    return true;
}

static gd_status enter(walk *w, gd_module *module, gd_visitor fn, void *user)
{
    module->visit = w->number;
    if (!gd__reserve(w->ctx, &w->stack, w->depth, &w->capacity, sizeof *w->stack)) return GD_NOMEM;
    w->stack[w->depth++] = (step){module, 0, w->length};
    return fn(module, w->text, user);
}

/* Goes to the next child of the module on top, or back up. */
static gd_status advance(walk *w, gd_visitor fn, void *user)
{
    step *top = &w->stack[w->depth - 1];
    w->length = top->length;
    w->text[w->length] = 0;
    while (top->next < top->module->count) {
        const gd_attribute *a = &top->module->attribute[top->next++];
        if (a->kind != GD_ATTRIBUTE_MODULE || a->module->visit == w->number) continue;
        if (!append(w, a->name, (int)strlen(a->name)) || !append(w, ".", 1)) return GD_NOMEM;
        return enter(w, a->module, fn, user);
    }
    w->depth--;
    return GD_OK;
}

gd_status gd__walk(gd_module *root, gd_visitor fn, void *user)
{
    walk w = {.ctx = root->head.ctx, .number = ++root->head.cls->registry->visit};
    gd_status status = append(&w, "", 0) ? enter(&w, root, fn, user) : GD_NOMEM;
    while (!status && w.depth) status = advance(&w, fn, user);
    gd__free(w.ctx, w.stack, (size_t)w.capacity * sizeof *w.stack);
    gd__free(w.ctx, w.text, (size_t)w.room);
    return status;
}

/* ---- lists ---- */

void gd__named_item_end(gd_ctx *ctx, const gd_named_item *item)
{
    if (item->registered != item->name) gd__strfree(ctx, item->registered);
    gd__strfree(ctx, item->name);
    gd__release(item->object);
}

static void named_destroy(void *object)
{
    gd_named *named = object;
    gd_ctx *ctx = named->head.ctx;
    for (int i = 0; i < named->count; i++) gd__named_item_end(ctx, &named->item[i]);
    gd__free(ctx, named->item, (size_t)named->capacity * sizeof *named->item);
    gd__free(ctx, named->tensors, (size_t)named->tensors_capacity * sizeof *named->tensors);
    gd__free(ctx, named, sizeof *named);
}

static const gd_object_type named_type = {"Named", named_destroy};

static gd_named *named_new(gd_ctx *ctx)
{
    gd_named *named = gd__calloc(ctx, sizeof *named);
    if (!named) return NULL;
    if (gd__object_init(ctx, named, &named_type) == GD_OK) return named;
    gd__free(ctx, named, sizeof *named);
    return NULL;
}

static char *join(gd_ctx *ctx, const char *a, const char *b, const char *c)
{
    size_t na = strlen(a), nb = strlen(b), nc = strlen(c);
    char *text = gd__alloc(ctx, na + nb + nc + 1);
    if (!text) return NULL;
    memcpy(text, a, na);
    memcpy(text + na, b, nb);
    memcpy(text + na + nb, c, nc + 1);
    return text;
}

/* Adds `object` as prefix + name, registered as prefix + registered_prefix + name; takes a reference. */
static gd_named_item *named_add(gd_named *named, const char *prefix, const char *registered_prefix,
                                const char *name, void *object)
{
    gd_ctx *ctx = named->head.ctx;
    if (!gd__reserve(ctx, &named->item, named->count, &named->capacity, sizeof *named->item)) return NULL;
    if (!gd__reserve(ctx, &named->tensors, named->count, &named->tensors_capacity, sizeof *named->tensors))
        return NULL;
    gd_named_item item = {.object = object};
    item.name = join(ctx, prefix, "", name);
    item.registered = *registered_prefix ? join(ctx, prefix, registered_prefix, name) : item.name;
    gd__retain(object);
    if (!item.name || !item.registered) {
        gd__named_item_end(ctx, &item);
        return NULL;
    }
    named->tensors[named->count] = item.object->type == &gd__tensor_type ? object : NULL;
    named->item[named->count] = item;
    return &named->item[named->count++];
}

typedef struct collection {
    gd_named *named;
    int wanted;
    const char *glob;
} collection;

/* Does the glob match prefix + name?  Uses the list's own joined text. */
static gd_status take(const collection *c, gd_module *module, const char *prefix, const char *registered,
                      const char *name, void *object, const gd_attribute *a)
{
    if (a && a->kind == GD_ATTRIBUTE_TENSOR && a->tied) c->named->ties = true;
    for (int i = 0; c->named->ties && i < c->named->count; i++)
        if (c->named->item[i].object == object) return GD_OK; /* one parameter, by its first name */
    gd_named_item *item = named_add(c->named, prefix, registered, name, object);
    if (!item) return GD_NOMEM;
    item->module = module;
    item->attribute = a;
    if (!c->glob || gd_glob_match(c->glob, item->name)) return GD_OK;
    c->named->count--;
    gd__named_item_end(c->named->head.ctx, item);
    return GD_OK;
}

static gd_status collect(gd_module *module, const char *prefix, void *user)
{
    const collection *c = user;
    gd_status status = GD_OK;
    if (c->wanted & GD_WANT_MODULES) { /* the prefix without its last dot is the name */
        size_t length = strlen(prefix);
        char *own = gd__strdup(module->head.ctx, prefix);
        if (!own) return GD_NOMEM;
        if (length) own[length - 1] = 0;
        status = take(c, module, "", "", own, module, NULL);
        if (length) own[length - 1] = '.';
        gd__strfree(module->head.ctx, own);
    }
    for (int i = 0; i < module->count && !status; i++) {
        const gd_attribute *a = &module->attribute[i];
        if (a->kind == GD_ATTRIBUTE_TENSOR &&
            (c->wanted & (a->buffer ? GD_WANT_BUFFERS : GD_WANT_PARAMETERS)))
            status = take(c, module, prefix, a->buffer ? GD_BUFFER_PREFIX : GD_PARAMETER_PREFIX, a->name,
                          a->tensor, a);
        if (a->kind == GD_ATTRIBUTE_VIRTUAL && (c->wanted & GD_WANT_VIRTUAL))
            status = take(c, module, prefix, "", a->name, a->virtual_tensor, a);
    }
    return status;
}

gd_named *gd__list(gd_module *root, int wanted, const char *glob)
{
    if (!root || gd__glob_check(root->head.ctx, glob)) return NULL;
    gd__note_tree(root);
    gd_named *named = named_new(root->head.ctx);
    if (!named) return NULL;
    if (gd__walk(root, collect, &(collection){named, wanted, glob}) == GD_OK) return named;
    gd__release(named);
    return NULL;
}

gd_named *gd_module_parameters(gd_module *module, const char *glob)
{
    return gd__list(module, GD_WANT_PARAMETERS, glob);
}

gd_named *gd_module_buffers(gd_module *module, const char *glob)
{
    return gd__list(module, GD_WANT_BUFFERS, glob);
}

gd_named *gd_module_modules(gd_module *module, const char *glob)
{
    return gd__list(module, GD_WANT_MODULES, glob);
}

/* ---- reading a list ---- */

static const gd_named_item *item_at(const gd_named *named, int64_t index)
{
    return named && index >= 0 && index < named->count ? &named->item[index] : NULL;
}

int64_t gd_named_count(const gd_named *named) { return named ? named->count : 0; }

const char *gd_named_name(const gd_named *named, int64_t index)
{
    const gd_named_item *item = item_at(named, index);
    return item ? item->name : NULL;
}

const char *gd_named_registered(const gd_named *named, int64_t index)
{
    const gd_named_item *item = item_at(named, index);
    return item ? item->registered : NULL;
}

gd_tensor *gd_named_tensor(const gd_named *named, int64_t index)
{
    return item_at(named, index) ? named->tensors[index] : NULL;
}

gd_module *gd_named_module(const gd_named *named, int64_t index)
{
    const gd_named_item *item = item_at(named, index);
    return item && item->object->type == &gd__module_type ? (gd_module *)item->object : NULL;
}

gd_tensor *gd_named_find(const gd_named *named, const char *name)
{
    for (int i = 0; named && name && i < named->count; i++)
        if (strcmp(named->item[i].name, name) == 0) return named->tensors[i];
    return NULL;
}

gd_tensor *const *gd_named_tensors(const gd_named *named) { return named ? named->tensors : NULL; }

gd_named *gd_named_keep(gd_named *named)
{
    gd__keep(named);
    return named;
}

void gd_named_release(gd_named *named) { gd__user_release(named); }
