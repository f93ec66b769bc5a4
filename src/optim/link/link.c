/* Link instances: settings and children.  Their state is in link_state.c. */
#include "optim/link/classes.h"
#include "optim/link/link_internal.h"
#include "optim/link/owner.h"
#include "optim/text/setting.h"

#include <string.h>

/* ---- classes ---- */

gd_spread gd_link_spread(const gd_link *link)
{
    if (!link) return 0;
    if (gd__is_rule(link))
        return link->cls->along_axes && link->cls->along_axes(link) ? GD_SPREAD_TENSOR : GD_SPREAD_FLAT;
    return link->cls->spread ? link->cls->spread : GD_SPREAD_WHOLE;
}

const char *gd_spread_name(gd_spread spread)
{
    static const char *const names[] = {"none", "flat", "tensor", "vector", "whole"};
    return spread > 0 && spread <= GD_SPREAD_WHOLE ? names[spread] : names[0];
}

/* Most lookups succeed, and most names differ in the first or second letter. */
static inline bool same_name(const char *a, const char *b)
{
    return a == b || (a[0] == b[0] && a[0] && a[1] == b[1] && !strcmp(a, b));
}

int gd__field_index(const gd_link_class *cls, const char *name)
{
    for (int i = 0; name && i < cls->field_count; i++)
        if (same_name(cls->fields[i].name, name)) return i;
    return -1;
}

int gd__link_field_new(gd_link *link, const char *name)
{
    const gd_link_class *cls = link->cls;
    uint8_t *guess = &link->guess[gd__name_place(name)];
    int found = 0;
    while (found < cls->field_count && cls->fields[found].name != name) found++;
    if (found == cls->field_count) found = gd__field_index(cls, name);
    if (found >= 0 && found < UINT8_MAX) *guess = (uint8_t)found;
    return found;
}

bool gd_link_has_field(const gd_link *link, const char *name)
{
    return link && gd__link_field((gd_link *)(uintptr_t)link, name) >= 0;
}

int gd__slot_index(const gd_link_class *cls, const char *name)
{
    for (int i = 0; name && i < cls->slot_count; i++)
        if (same_name(cls->slots[i].name, name)) return i;
    return -1;
}

int gd__scalar_index(const gd_link_class *cls, const char *name)
{
    for (int i = 0; name && i < cls->scalar_count; i++)
        if (same_name(cls->scalars[i], name)) return i;
    return -1;
}

/* ---- life ---- */

static void link_destroy(void *object)
{
    gd_link *link = object;
    gd_ctx *ctx = link->head.ctx;
    const gd_link_class *cls = link->cls;
    if (cls->destroy && link->data) cls->destroy(link);
    gd__entries_free(link);
    gd__globals_free(link);
    gd__stand_ins_free(link);
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
    if (!ctx || !cls) return gd__none(gd__null(ctx, "link: the class is NULL"));
    if (!cls->preset) return gd__link_new(ctx, cls);
    return gd__refuse(ctx, GD_ARGUMENT,
                      "link: %s is a preset, not a link: gd_chain(ctx, \"%s\") makes its links", cls->name,
                      cls->name);
}

gd_link *gd__link_new(gd_ctx *ctx, const gd_link_class *cls)
{
    gd_link *link = gd__calloc(ctx, sizeof *link);
    if (!link) return NULL;
    gd__object_init_owned(ctx, link, &link_type);
    link->cls = cls;
    link->lr = gd__field_index(cls, "lr");
    link->value = gd__calloc(ctx, (size_t)cls->field_count * sizeof *link->value);
    if (cls->data_size) link->data = gd__calloc(ctx, cls->data_size);
    gd_status status = link->value && (link->data || !cls->data_size) ? GD_OK : GD_NOMEM;
    for (int i = 0; i < cls->field_count && !status; i++)
        if (cls->fields[i].fallback.kind)
            status = gd__setting_copy(ctx, &link->value[i], &cls->fields[i].fallback);
    if (!status) return link;
    gd_link_release(link);
    return NULL;
}

gd_link *gd_link_retain(gd_link *link)
{
    gd__user_retain(link);
    return link;
}

/* A chain owns the reference of its links: adding a link twice must not release it. */
void gd_link_release(gd_link *link)
{
    if (link && (!link->owned || link->head.retained)) gd__user_release(link);
}

gd_ctx *gd_link_ctx(const gd_link *link) { return link ? link->head.ctx : NULL; }

const gd_link_class *gd_link_class_of(const gd_link *link) { return link ? link->cls : NULL; }

int64_t gd_link_steps(const gd_link *link) { return link ? link->step : 0; }

void *gd_link_data(gd_link *link) { return link ? link->data : NULL; }

/* ---- settings ---- */

static int find_field(const gd_link *link, const char *name)
{
    int field = gd__field_index(link->cls, name);
    if (!name) (void)gd__null(link->head.ctx, "link: the name of a setting is NULL");
    if (name && field < 0) (void)gd__no_such_field(link->head.ctx, NULL, link->cls, name);
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
    gd__optimizer_changed(link->optimizer, changes_structure(f, place, value));
    gd__setting_free(ctx, place);
    *place = copy;
    return GD_OK;
}

static void drop_children(gd_link *link, int field)
{
    int kept = 0;
    for (int i = 0; i < link->children; i++) {
        gd_link *child = link->child[i];
        if (link->child_field[i] != field) {
            link->child[kept] = child;
            link->child_field[kept++] = link->child_field[i];
            continue;
        }
        (void)!gd__link_adopt(child, NULL);
        child->owned = false;
        gd__release(child);
    }
    link->children = kept;
}

/* A number among a list of children becomes a child that returns it. */
static gd_status add_number(gd_link *link, const gd_field *field, const gd_setting *value)
{
    gd_status status = gd__field_check(link->head.ctx, "", link->cls, field, value);
    gd_link *fill = status ? NULL : gd_link_new(link->head.ctx, gd__find_class(link->head.ctx, "fill"));
    if (!fill) return status ? status : GD_NOMEM;
    fill->value[0] = *value;
    return gd_link_set_child(link, field->name, fill);
}

static gd_status set_field(gd_link *link, const char *name, gd_setting value)
{
    if (!link) return GD_ARGUMENT;
    int field = find_field(link, name);
    if (field < 0) return GD_ATTRIBUTE;
    if (value.kind == GD_SET_LIST && value.list_count > 0 && !value.list)
        return gd__null(link->head.ctx, "link: the numbers of a list are NULL");
    if (link->cls->fields[field].variadic) return add_number(link, &link->cls->fields[field], &value);
    bool child = link->value[field].kind == GD_SET_CHAIN;
    gd_status status = put_setting(link, field, &link->value[field], &value);
    if (!status && child) drop_children(link, field);
    return status;
}

gd_status gd_link_set_real(gd_link *link, const char *field, double value)
{
    return set_field(link, field, gd_setting_real(value));
}

gd_status gd_link_set_schedule(gd_link *link, const char *field, const gd_schedule *schedule)
{
    if (!link || !schedule) return gd__null(gd_link_ctx(link), "link: the schedule is NULL");
    gd_status status = gd_schedule_check(link->head.ctx, schedule);
    if (status) return status;
    int64_t step = link->optimizer ? gd__schedule_step(link->optimizer) : 0;
    gd_setting value = {.kind = GD_SET_REAL, .real = gd_schedule_value(schedule, step), .schedule = schedule};
    return set_field(link, field, value);
}

gd_status gd_link_set(gd_link *link, const char *field, gd_setting value)
{
    bool changes = value.kind == GD_SET_REAL && value.schedule;
    return changes ? gd_link_set_schedule(link, field, value.schedule) : set_field(link, field, value);
}

gd_status gd_link_set_bool(gd_link *link, const char *field, bool value)
{
    return set_field(link, field, gd_setting_bool(value));
}

gd_status gd_link_set_string(gd_link *link, const char *field, const char *value)
{
    return set_field(link, field, gd_setting_string(value));
}

gd_status gd_link_set_none(gd_link *link, const char *field)
{
    return set_field(link, field, gd_setting_none());
}

gd_status gd_link_set_list(gd_link *link, const char *field, const double *values, int count)
{
    return set_field(link, field, gd_setting_list(values, count));
}

const char *gd__link_needs(const gd_link *link)
{
    for (int i = 0; i < link->cls->field_count; i++)
        if (!link->cls->fields[i].fallback.kind && !link->value[i].kind) return link->cls->fields[i].name;
    return NULL;
}

gd_status gd_link_set_for(gd_link *link, gd_tensor *param, const char *name, gd_setting value)
{
    if (!link) return GD_ARGUMENT;
    gd_ctx *ctx = link->head.ctx;
    int field = find_field(link, name);
    if (field < 0) return GD_ATTRIBUTE;
    if (!param) return gd__null(ctx, "link: a setting for a parameter that is NULL");
    if (value.kind == GD_SET_CHAIN || link->value[field].kind == GD_SET_CHAIN)
        return gd_fail(ctx, GD_TYPE, "%s: '%s' is a link, which no single parameter can have",
                       link->cls->name, name);
    gd_entry *e = gd__entry(link, param);
    if (!e) return GD_NOMEM;
    if (!e->local) {
        e->local = gd__calloc(ctx, (size_t)link->cls->field_count * sizeof *e->local);
        if (!e->local) return GD_NOMEM;
        link->locals++;
    }
    return put_setting(link, field, &e->local[field], &value);
}

typedef struct local_group {
    gd_link *link;
    gd_tensor *const *params;
    int count;
} local_group;

static gd_status set_local(void *user, const char *key, const gd_setting *value)
{
    const local_group *g = user;
    gd_status status = GD_OK;
    for (int i = 0; i < g->count && !status; i++)
        status = gd_link_set_for(g->link, g->params[i], key, *value);
    return status;
}

gd_status gd_link_set_group(gd_link *link, gd_tensor *const *params, int count, const char *settings)
{
    if (!link) return GD_ARGUMENT;
    if (!params && count > 0) return gd__null(link->head.ctx, "link: the parameters are NULL");
    local_group g = {.link = link, .params = params, .count = count};
    return gd__settings_parse(link->head.ctx, settings, set_local, &g);
}

gd_status gd_link_unset_for(gd_link *link, gd_tensor *param, const char *name)
{
    if (!link || !param) return gd__null(gd_link_ctx(link), "link: a setting of a parameter that is NULL");
    gd_ctx *ctx = link->head.ctx;
    int field = name ? find_field(link, name) : -1, fields = link->cls->field_count, left = 0;
    gd_entry *e = gd__entry_find(link, param);
    if (name && field < 0) return GD_ATTRIBUTE;
    if (!e || !e->local || (name && !e->local[field].kind))
        return gd_fail(ctx, GD_ATTRIBUTE, "%s: the parameter has no %s'%.80s' of its own", link->cls->name,
                       name ? "" : "setting of ", name ? name : link->cls->name);
    for (int i = 0; i < fields; i++) {
        if (!name || i == field) gd__setting_free(ctx, &e->local[i]);
        left += e->local[i].kind != 0;
    }
    if (!left) {
        gd__free(ctx, e->local, (size_t)fields * sizeof *e->local);
        e->local = NULL;
        link->locals--;
    }
    gd__optimizer_changed(link->optimizer, true);
    return GD_OK;
}

/* ---- children ---- */

static gd_status child_room(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    if (link->children < link->child_capacity) return GD_OK;
    size_t old = (size_t)link->child_capacity, capacity = old ? old * 2 : 4;
    gd_link **list = gd__alloc(ctx, capacity * sizeof *list);
    int *fields = list ? gd__alloc(ctx, capacity * sizeof *fields) : NULL;
    if (!fields) {
        gd__free(ctx, list, capacity * sizeof *list);
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
    return GD_OK;
}

static bool is_below(const gd_link *link, const gd_link *top)
{
    if (link == top) return true;
    for (int i = 0; i < top->children; i++)
        if (is_below(link, top->child[i])) return true;
    return false;
}

bool gd__has_local(const gd_link *link, int field)
{
    for (int i = 0; link->locals && i < link->entries; i++)
        if (link->entry[i]->local && link->entry[i]->local[field].kind) return true;
    return false;
}

static bool is_number_for_some(const gd_link *link, int field)
{
    if (gd__has_local(link, field)) return true;
    return link->optimizer && gd__groups_have(link->optimizer, link->cls->fields[field].name);
}

static gd_status check_child(gd_link *link, int field, gd_link *child)
{
    gd_ctx *ctx = link->head.ctx;
    const char *name = link->cls->name;
    if (!(link->cls->fields[field].kinds & GD_SET_CHAIN))
        return gd_fail(ctx, GD_TYPE, "%s: '%s' takes no link", name, link->cls->fields[field].name);
    if (is_number_for_some(link, field))
        return gd_fail(ctx, GD_STATE,
                       "%s: '%s' cannot become a link while parameters or groups have a number for it", name,
                       link->cls->fields[field].name);
    if (child->owned)
        return gd_fail(ctx, GD_STATE, "%s: the link '%s' is already in a chain", name, child->cls->name);
    if (is_below(link, child)) return gd_fail(ctx, GD_CYCLE, "%s: a link cannot be below itself", name);
    if (!link->optimizer) return GD_OK;
    gd_status status = gd__groups_fit(link->optimizer, child);
    return status ? status : gd__link_adopt(child, link->optimizer);
}

/* After the children of this field and of those before it: paths of links in files are numbers of children, so they may
 * not depend on the order in which a program set them. */
static void place_child(gd_link *link, int field, gd_link *child)
{
    int at = link->children++;
    for (; at > 0 && link->child_field[at - 1] > field; at--) {
        link->child[at] = link->child[at - 1];
        link->child_field[at] = link->child_field[at - 1];
    }
    link->child[at] = child;
    link->child_field[at] = field;
}

gd_status gd_link_set_child(gd_link *link, const char *name, gd_link *child)
{
    if (!link) gd_link_release(child);
    if (!link || !child) return gd__null(gd_link_ctx(link), "link: the child is NULL");
    int field = find_field(link, name);
    gd_status status = field < 0 ? GD_ATTRIBUTE : child_room(link);
    if (!status) status = check_child(link, field, child);
    if (status) {
        gd_link_release(child);
        return status;
    }
    if (!link->cls->fields[field].variadic) drop_children(link, field);
    place_child(link, field, child);
    link->value[field].kind = GD_SET_CHAIN;
    child->owned = true;
    if (link->optimizer) gd__groups_look_again(link->optimizer);
    return GD_OK;
}

int gd_link_children(const gd_link *link) { return link ? link->children : 0; }

gd_link *gd_link_child_at(const gd_link *link, int index)
{
    if (!link) return NULL;
    return index >= 0 && index < link->children ? link->child[index] : NULL;
}

gd_link *gd_link_child(const gd_link *link, const char *name)
{
    if (!link || !name || !link->children) return NULL;
    int field = gd__field_index(link->cls, name);
    for (int i = 0; i < link->children; i++)
        if (link->child_field[i] == field) return link->child[i];
    return NULL;
}

/* ---- trees ---- */

gd_status gd__link_adopt(gd_link *link, gd_optimizer *optimizer)
{
    link->optimizer = optimizer;
    link->found.structure = 0;
    gd_status status = optimizer && link->cls->check ? link->cls->check(link) : GD_OK;
    for (int i = 0; i < link->children; i++) {
        gd_status below = gd__link_adopt(link->child[i], optimizer);
        if (!status) status = below;
    }
    if (status && optimizer) (void)!gd__link_adopt(link, NULL);
    return status;
}

gd_linop *gd_link_hessian(gd_link *link, gd_var *var)
{
    if (!link) return NULL;
    if (link->cls->hessian) return link->cls->hessian(link, var);
    gd_ctx *ctx = link->head.ctx;
    gd_linop *found = NULL;
    gd_status status = gd_error(ctx);
    for (int i = 0; i < link->children && !link->cls->traits.no_child_hessian && !status; i++) {
        gd_linop *h = gd_link_hessian(link->child[i], var);
        status = gd_error(ctx);
        if (!h) continue;
        if (found)
            status = gd_fail(ctx, GD_STATE, "%s: two children have a Hessian, the second is '%s'",
                             link->cls->name, link->child[i]->cls->name);
        if (found)
            gd_linop_release(h);
        else
            found = h;
    }
    if (!status) return found;
    if (found) gd_linop_release(found);
    return NULL;
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
