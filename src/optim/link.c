/* Link instances: settings, children, state. */
#include "optim/link.h"
#include "optim/optimizer.h"
#include "gradus/autograd.h"
#include "optim/setting.h"

#include <math.h>
#include <string.h>

/* ---- classes ---- */

int gd__field_index(const gd_link_class *cls, const char *name)
{
    for (int i = 0; i < cls->field_count; i++)
        if (!strcmp(cls->fields[i].name, name)) return i;
    return -1;
}

int gd__slot_index(const gd_link_class *cls, const char *name)
{
    for (int i = 0; i < cls->slot_count; i++)
        if (!strcmp(cls->slots[i].name, name)) return i;
    return -1;
}

int gd__scalar_count(const gd_link_class *cls)
{
    int n = 0;
    while (cls->scalars && cls->scalars[n]) n++;
    return n;
}

int gd__scalar_index(const gd_link_class *cls, const char *name)
{
    for (int i = 0; cls->scalars && cls->scalars[i]; i++)
        if (!strcmp(cls->scalars[i], name)) return i;
    return -1;
}

/* ---- entries ---- */

gd_entry *gd__entry_find(const gd_link *link, const gd_tensor *param)
{
    /* parameters come in the same order again and again: start where the number in the optimizer says */
    int guess = link->optimizer ? gd__param_index(link->optimizer, param) : -1;
    if (guess >= 0 && guess < link->entries && link->entry[guess]->param == param) return link->entry[guess];
    for (int i = 0; i < link->entries; i++)
        if (link->entry[i]->param == param) return link->entry[i];
    return NULL;
}

static void entry_free(gd_link *link, gd_entry *e)
{
    gd_ctx *ctx = link->head.ctx;
    const gd_link_class *cls = link->cls;
    for (int i = 0; i < cls->slot_count; i++) gd__release(e->slot ? e->slot[i] : NULL);
    gd__free(ctx, e->slot, (size_t)cls->slot_count * sizeof *e->slot);
    gd__free(ctx, e->fresh, (size_t)cls->slot_count * sizeof *e->fresh);
    gd__free(ctx, e->scalar, (size_t)gd__scalar_count(cls) * sizeof *e->scalar);
    if (e->local)
        for (int i = 0; i < cls->field_count; i++) gd__setting_free(ctx, &e->local[i]);
    gd__free(ctx, e->local, (size_t)cls->field_count * sizeof *e->local);
    gd__release(e->param);
    gd__free(ctx, e, sizeof *e);
}

static gd_entry *entry_new(gd_link *link, gd_tensor *param)
{
    gd_ctx *ctx = link->head.ctx;
    const gd_link_class *cls = link->cls;
    gd_entry *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    gd__retain(param);
    e->param = param;
    e->slot = gd__calloc(ctx, (size_t)cls->slot_count * sizeof *e->slot);
    e->fresh = gd__calloc(ctx, (size_t)cls->slot_count * sizeof *e->fresh);
    e->scalar = gd__calloc(ctx, (size_t)gd__scalar_count(cls) * sizeof *e->scalar);
    if (e->slot && e->fresh && e->scalar) return e;
    entry_free(link, e);
    return NULL;
}

gd_entry *gd__entry(gd_link *link, gd_tensor *param)
{
    gd_entry *found = gd__entry_find(link, param);
    if (found) return found;
    gd_ctx *ctx = link->head.ctx;
    if (link->entries == link->entry_capacity) {
        size_t old = (size_t)link->entry_capacity, capacity = old ? old * 2 : 4;
        gd_entry **list = gd__realloc(ctx, link->entry, old * sizeof *list, capacity * sizeof *list);
        if (!list) return NULL;
        link->entry = list;
        link->entry_capacity = (int)capacity;
    }
    gd_entry *e = entry_new(link, param);
    if (e) link->entry[link->entries++] = e;
    return e;
}

void gd__entry_drop(gd_link *link, const gd_tensor *param)
{
    for (int i = 0; i < link->entries; i++) {
        if (link->entry[i]->param != param) continue;
        entry_free(link, link->entry[i]);
        memmove(link->entry + i, link->entry + i + 1, (size_t)(link->entries - i - 1) * sizeof *link->entry);
        link->entries--;
        link->stamp++;
        return;
    }
}

gd_tensor *gd__entry_slot(gd_link *link, gd_entry *e, int slot, gd_dtype dtype)
{
    if (e->slot[slot]) return e->slot[slot];
    gd_ctx *ctx = link->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *t = gd__new(e->param->storage->device, dtype, e->param->ndim, e->param->size);
    if (t) gd__axes_retain(t->axes = e->param->axes);
    if (t && gd_fill(t, 0)) t = NULL;
    if (t) {
        gd__own(t);
        e->slot[slot] = t;
        e->fresh[slot] = true;
    }
    gd_scope_end(ctx);
    return t;
}

/* ---- life ---- */

static void globals_free(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    for (int i = 0; i < link->globals; i++) gd__release(link->global[i].tensor);
    gd__free(ctx, link->global, (size_t)link->globals * sizeof *link->global);
    link->global = NULL;
    link->globals = 0;
}

static void entries_free(gd_link *link)
{
    for (int i = 0; i < link->entries; i++) entry_free(link, link->entry[i]);
    gd__free(link->head.ctx, link->entry, (size_t)link->entry_capacity * sizeof *link->entry);
    link->entry = NULL;
    link->entries = link->entry_capacity = 0;
}

static void link_destroy(void *object)
{
    gd_link *link = object;
    gd_ctx *ctx = link->head.ctx;
    const gd_link_class *cls = link->cls;
    if (cls->destroy && link->data) cls->destroy(link);
    entries_free(link);
    globals_free(link);
    gd__tensors_free(ctx, link->kept_tensors, link->kept);
    for (int i = 0; i < link->children; i++) gd__release(link->child[i]);
    gd__free(ctx, link->child, (size_t)link->child_capacity * sizeof *link->child);
    gd__free(ctx, link->child_field, (size_t)link->child_capacity * sizeof *link->child_field);
    for (int i = 0; link->value && i < cls->field_count; i++) gd__setting_free(ctx, &link->value[i]);
    gd__free(ctx, link->value, (size_t)cls->field_count * sizeof *link->value);
    gd__free(ctx, link->data, cls->data_size);
    gd__free(ctx, link, sizeof *link);
}

static const gd_object_type link_type = {"Link", link_destroy};

gd_link *gd_link_new(gd_ctx *ctx, const gd_link_class *cls)
{
    gd_link *link = gd__calloc(ctx, sizeof *link);
    if (!link) return NULL;
    gd__object_init_owned(ctx, link, &link_type);
    link->cls = cls;
    link->value = gd__calloc(ctx, (size_t)cls->field_count * sizeof *link->value);
    if (cls->data_size) link->data = gd__calloc(ctx, cls->data_size);
    gd_status status = link->value && (link->data || !cls->data_size) ? GD_OK : GD_NOMEM;
    for (int i = 0; i < cls->field_count && !status; i++)
        if (cls->fields[i].fallback.kind) status = gd__setting_copy(ctx, &link->value[i], &cls->fields[i].fallback);
    if (!status) return link;
    gd_link_release(link);
    return NULL;
}

gd_link *gd_link_retain(gd_link *link)
{
    gd__retain(link);
    return link;
}

void gd_link_release(gd_link *link)
{
    gd__release(link);
}

gd_ctx *gd_link_ctx(const gd_link *link)
{
    return link->head.ctx;
}

const gd_link_class *gd_link_class_of(const gd_link *link)
{
    return link->cls;
}

void *gd_link_data(gd_link *link)
{
    return link->data;
}

/* ---- settings ---- */

static int find_field(const gd_link *link, const char *name)
{
    int field = gd__field_index(link->cls, name);
    if (field < 0) (void)gd_fail(link->head.ctx, GD_ATTRIBUTE, "%s has no setting '%.80s'", link->cls->name, name);
    return field;
}

static bool changes_structure(const gd_field *field, const gd_setting *before, const gd_setting *after)
{
    return field->structural || before->kind != GD_SET_REAL || after->kind != GD_SET_REAL;
}

/* Checked copy of value into *place. */
static gd_status put_setting(gd_link *link, int field, gd_setting *place, const gd_setting *value)
{
    gd_ctx *ctx = link->head.ctx;
    const gd_field *f = &link->cls->fields[field];
    gd_status status = gd__field_check(ctx, "", link->cls, f, value);
    gd_setting copy = {0};
    if (!status) status = gd__setting_copy(ctx, &copy, value);
    if (status) return status;
    if (changes_structure(f, place, value)) link->stamp++;
    link->numbers++;
    gd__setting_free(ctx, place);
    *place = copy;
    return GD_OK;
}

static gd_status set_field(gd_link *link, const char *name, gd_setting value)
{
    int field = find_field(link, name);
    return field < 0 ? GD_ATTRIBUTE : put_setting(link, field, &link->value[field], &value);
}

gd_status gd_link_set_real(gd_link *link, const char *field, double value)
{
    return set_field(link, field, (gd_setting){.kind = GD_SET_REAL, .real = value});
}

gd_status gd_link_set_bool(gd_link *link, const char *field, bool value)
{
    return set_field(link, field, (gd_setting){.kind = GD_SET_BOOL, .real = value});
}

gd_status gd_link_set_string(gd_link *link, const char *field, const char *value)
{
    return set_field(link, field, (gd_setting){.kind = GD_SET_STRING, .string = value});
}

gd_status gd_link_set_none(gd_link *link, const char *field)
{
    return set_field(link, field, (gd_setting){.kind = GD_SET_NONE});
}

gd_status gd_link_set_list(gd_link *link, const char *field, const double *values, int count)
{
    return set_field(link, field, (gd_setting){.kind = GD_SET_LIST, .list = values, .list_count = count});
}

gd_status gd_link_set_for(gd_link *link, gd_tensor *param, const char *name, gd_setting value)
{
    int field = find_field(link, name);
    if (field < 0) return GD_ATTRIBUTE;
    gd_entry *e = gd__entry(link, param);
    if (!e) return GD_NOMEM;
    if (!e->local) e->local = gd__calloc(link->head.ctx, (size_t)link->cls->field_count * sizeof *e->local);
    return e->local ? put_setting(link, field, &e->local[field], &value) : GD_NOMEM;
}

static gd_status append_child(gd_link *link, int field, gd_link *child)
{
    gd_ctx *ctx = link->head.ctx;
    if (link->children == link->child_capacity) {
        size_t old = (size_t)link->child_capacity, capacity = old ? old * 2 : 4;
        gd_link **list = gd__alloc(ctx, capacity * sizeof *list);
        int *fields = gd__alloc(ctx, capacity * sizeof *fields);
        if (!list || !fields) {
            gd__free(ctx, list, capacity * sizeof *list);
            gd__free(ctx, fields, capacity * sizeof *fields);
            return GD_NOMEM;
        }
        if (old) {
            memcpy(list, link->child, old * sizeof *list);
            memcpy(fields, link->child_field, old * sizeof *fields);
        }
        gd__free(ctx, link->child, old * sizeof *list);
        gd__free(ctx, link->child_field, old * sizeof *fields);
        link->child = list;
        link->child_field = fields;
        link->child_capacity = (int)capacity;
    }
    link->child[link->children] = child;
    link->child_field[link->children++] = field;
    return GD_OK;
}

gd_status gd_link_set_child(gd_link *link, const char *name, gd_link *child)
{
    gd_ctx *ctx = link->head.ctx;
    int field = child ? find_field(link, name) : -1;
    gd_status status = field < 0 ? GD_ATTRIBUTE : GD_OK;
    if (!status && !(link->cls->fields[field].kinds & GD_SET_CHAIN))
        status = gd_fail(ctx, GD_TYPE, "%s: '%s' takes no link", link->cls->name, name);
    if (!status && child->owned)
        status = gd_fail(ctx, GD_STATE, "%s: the link '%s' is already in a chain", link->cls->name, child->cls->name);
    if (!status && child == link) status = gd_fail(ctx, GD_CYCLE, "%s: a link cannot be its own child", link->cls->name);
    int old = -1;
    for (int i = 0; i < link->children; i++)
        if (link->child_field[i] == field && !link->cls->fields[field >= 0 ? field : 0].variadic) old = i;
    if (!status && old >= 0) {
        gd__release(link->child[old]);
        link->child[old] = child;
    } else if (!status) status = append_child(link, field, child);
    if (status) {
        gd_link_release(child);
        return status;
    }
    link->value[field].kind = GD_SET_CHAIN;
    child->owned = true;
    link->stamp++;
    return GD_OK;
}

const gd_setting *gd__resolve(const gd_link *link, int field, const gd_tensor *param)
{
    if (!param) return &link->value[field];
    gd_entry *e = gd__entry_find(link, param);
    if (e && e->local && e->local[field].kind) return &e->local[field];
    const gd_field *f = &link->cls->fields[field];
    const gd_setting *group = link->optimizer ? gd__group_setting(link->optimizer, param, f->name) : NULL;
    return group && (group->kind & f->kinds) ? group : &link->value[field];
}

const gd_setting *gd_link_get(const gd_link *link, const char *name, const gd_tensor *param)
{
    int field = find_field(link, name);
    return field < 0 ? NULL : gd__resolve(link, field, param);
}

double gd_link_real(const gd_link *link, const char *name, const gd_tensor *param)
{
    const gd_setting *s = gd_link_get(link, name, param);
    return s && (s->kind == GD_SET_REAL || s->kind == GD_SET_BOOL) ? s->real : NAN;
}

bool gd_link_flag(const gd_link *link, const char *name)
{
    const gd_setting *s = gd_link_get(link, name, NULL);
    return s && s->kind == GD_SET_BOOL && s->real != 0;
}

bool gd_link_is(const gd_link *link, const char *name, const char *string)
{
    const gd_setting *s = gd_link_get(link, name, NULL);
    return s && s->kind == GD_SET_STRING && !strcmp(s->string, string);
}

bool gd_link_is_none(const gd_link *link, const char *name)
{
    const gd_setting *s = gd_link_get(link, name, NULL);
    return !s || s->kind == GD_SET_NONE;
}

/* ---- children ---- */

int gd_link_children(const gd_link *link)
{
    return link->children;
}

gd_link *gd_link_child_at(const gd_link *link, int index)
{
    return index >= 0 && index < link->children ? link->child[index] : NULL;
}

gd_link *gd_link_child(const gd_link *link, const char *name)
{
    int field = gd__field_index(link->cls, name);
    for (int i = 0; i < link->children; i++)
        if (link->child_field[i] == field) return link->child[i];
    return NULL;
}

/* ---- state ---- */

gd_tensor *gd_link_state(gd_link *link, gd_tensor *param, const char *name)
{
    int slot = gd__slot_index(link->cls, name);
    if (slot < 0) {
        (void)gd_fail(link->head.ctx, GD_ATTRIBUTE, "%s declares no state '%.80s'", link->cls->name, name);
        return NULL;
    }
    gd_entry *e = gd__entry(link, param);
    if (!e) return NULL;
    bool had = e->slot[slot] != NULL;
    gd_tensor *t = gd__entry_slot(link, e, slot, param->dtype);
    if (t && !had) link->stamp++;
    return t;
}

bool gd_link_has_state(const gd_link *link, const gd_tensor *param, const char *name)
{
    int slot = gd__slot_index(link->cls, name);
    gd_entry *e = slot < 0 ? NULL : gd__entry_find(link, param);
    return e && e->slot[slot] && !e->fresh[slot];
}

gd_status gd_link_set_state(gd_link *link, gd_tensor *param, const char *name, gd_tensor *value)
{
    int slot = gd__slot_index(link->cls, name);
    if (slot < 0)
        return gd_fail(link->head.ctx, GD_ATTRIBUTE, "%s declares no state '%.80s'", link->cls->name, name);
    gd_entry *e = gd__entry(link, param);
    if (!e) return GD_NOMEM;
    if (value) {
        /* a slot is the link's own memory, without history */
        gd_ctx *ctx = link->head.ctx;
        gd_no_grad_begin(ctx);
        gd_scope_begin(ctx);
        value = gd_copy(value);
        if (value) gd__own(value);
        gd_scope_end(ctx);
        gd_no_grad_end(ctx);
        if (!value) return gd_error(ctx);
    }
    gd__release(e->slot[slot]);
    e->slot[slot] = value;
    e->fresh[slot] = false;
    link->stamp++;
    return GD_OK;
}

double *gd_link_scalar(gd_link *link, gd_tensor *param, const char *name)
{
    int index = gd__scalar_index(link->cls, name);
    if (index < 0) {
        (void)gd_fail(link->head.ctx, GD_ATTRIBUTE, "%s declares no scalar '%.80s'", link->cls->name, name);
        return NULL;
    }
    gd_entry *e = gd__entry(link, param);
    return e ? &e->scalar[index] : NULL;
}

static gd_global *find_global(const gd_link *link, const char *name)
{
    for (int i = 0; i < link->globals; i++)
        if (!strcmp(link->global[i].name, name)) return &link->global[i];
    return NULL;
}

static gd_global *add_global(gd_link *link, const char *name)
{
    gd_ctx *ctx = link->head.ctx;
    size_t n = (size_t)link->globals;
    const char *interned = gd__intern(ctx, name, strlen(name));
    gd_global *list = interned ? gd__realloc(ctx, link->global, n * sizeof *list, (n + 1) * sizeof *list) : NULL;
    if (!list) return NULL;
    link->global = list;
    list[n] = (gd_global){.name = interned};
    return &list[link->globals++];
}

double *gd_link_global(gd_link *link, const char *name, double first)
{
    gd_global *g = find_global(link, name);
    if (!g && (g = add_global(link, name))) g->value = first;
    return g ? &g->value : NULL;
}

bool gd_link_has_global(const gd_link *link, const char *name)
{
    return find_global(link, name) != NULL;
}

gd_tensor *gd_link_global_tensor(gd_link *link, const char *name)
{
    gd_global *g = find_global(link, name);
    return g ? g->tensor : NULL;
}

gd_status gd_link_set_global_tensor(gd_link *link, const char *name, gd_tensor *value)
{
    gd_global *g = find_global(link, name);
    if (!g && !(g = add_global(link, name))) return GD_NOMEM;
    gd__retain(value);
    gd__release(g->tensor);
    g->tensor = value;
    return GD_OK;
}

gd_tensor *gd_link_random(gd_link *link, int kind, gd_tensor *like)
{
    gd_ctx *ctx = link->head.ctx;
    gd_rng *rng = &ctx->rng;
    int field = gd__field_index(link->cls, "seed");
    if (field >= 0 && link->value[field].kind == GD_SET_REAL) {
        if (!link->seeded) link->rng = (gd_rng){.key = (uint64_t)(int64_t)link->value[field].real};
        link->seeded = true;
        rng = &link->rng;
    }
    return gd__random(like->storage->device, rng, link->cls->name, kind, like->dtype, like->ndim, like->size);
}

/* An array that dies with the innermost scope. */
typedef struct scratch {
    gd_object head;
    int count;
    gd_tensor *t[];
} scratch;

static void scratch_destroy(void *object)
{
    scratch *s = object;
    gd__free(s->head.ctx, s, sizeof *s + (size_t)s->count * sizeof s->t[0]);
}

static const gd_object_type scratch_type = {"Scratch", scratch_destroy};

gd_tensor **gd_link_scratch(gd_link *link, int count)
{
    gd_ctx *ctx = link->head.ctx;
    size_t bytes = sizeof(scratch) + (size_t)count * sizeof(gd_tensor *);
    scratch *s = gd__calloc(ctx, bytes);
    if (!s) return NULL;
    s->count = count;
    if (gd__object_init(ctx, s, &scratch_type) == GD_OK) return s->t;
    gd__free(ctx, s, bytes);
    return NULL;
}

void gd_link_reset(gd_link *link)
{
    /* local settings are no state: they stay */
    for (int i = 0; i < link->entries; i++) {
        gd_entry *e = link->entry[i];
        for (int k = 0; k < link->cls->slot_count; k++) {
            gd__release(e->slot[k]);
            e->slot[k] = NULL;
        }
        memset(e->scalar, 0, (size_t)gd__scalar_count(link->cls) * sizeof *e->scalar);
    }
    globals_free(link);
    gd__tensors_free(link->head.ctx, link->kept_tensors, link->kept);
    link->kept_tensors = NULL;
    link->kept = 0;
    link->step = 0;
    link->seeded = false;
    link->stamp++;
    if (link->cls->reset) link->cls->reset(link);
    for (int i = 0; i < link->children; i++) gd_link_reset(link->child[i]);
}

void gd_link_reset_for_online(gd_link *link)
{
    for (int i = 0; i < link->entries; i++) {
        gd_entry *e = link->entry[i];
        for (int k = 0; k < link->cls->slot_count; k++) {
            if (!link->cls->slots[k].online) continue;
            gd__release(e->slot[k]);
            e->slot[k] = NULL;
            link->stamp++;
        }
    }
    if (link->cls->reset_for_online) link->cls->reset_for_online(link);
    for (int i = 0; i < link->children; i++) gd_link_reset_for_online(link->child[i]);
}

gd_linop *gd_link_hessian(gd_link *link, gd_var *var)
{
    if (link->cls->hessian) return link->cls->hessian(link, var);
    gd_linop *found = NULL;
    for (int i = 0; i < link->children && !link->cls->no_child_hessian; i++) {
        gd_linop *h = gd_link_hessian(link->child[i], var);
        if (h && found) {
            (void)gd_fail(link->head.ctx, GD_STATE, "%s: two children have a Hessian, the second is '%s'",
                          link->cls->name, link->child[i]->cls->name);
            gd_linop_release(h);
            gd_linop_release(found);
            return NULL;
        }
        if (h) found = h;
    }
    return found;
}

gd_status gd__visit_links(gd_link *link, const char *path, gd_visit_fn fn, void *user)
{
    gd_status status = fn(user, link, path);
    for (int i = 0; i < link->children && !status; i++) {
        gd_text name = {.ctx = link->head.ctx};
        gd_link *child = link->child[i];
        gd__text_put(&name, "%s%s%d:%s", path, *path ? "." : "", i, child->cls->name);
        status = name.failed ? GD_NOMEM : gd__visit_links(child, name.data, fn, user);
        gd__text_free(&name);
    }
    return status;
}
