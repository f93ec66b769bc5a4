/* Optimizers: parameters and groups. */
#include "optim/step/optimizer.h"
#include "gradus/autograd.h"
#include "optim/plan/plan.h"
#include "optim/text/setting.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"

#include <string.h>

int gd__param_index(const gd_optimizer *o, const gd_tensor *param)
{
    return gd__table_find(&o->table, param);
}

/* ---- life ---- */

static gd_status count_lrs(void *user, gd_link *link, const char *path)
{
    (void)path;
    *(int *)user += gd__field_index(link->cls, "lr") >= 0;
    return GD_OK;
}

/* The chain becomes the optimizer's, if it can. */
static gd_status take_chain(gd_optimizer *o, gd_link *chain)
{
    gd_ctx *ctx = o->ctx;
    if (chain->head.ctx != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: the chain is of another context");
    if (chain->owned)
        return gd_fail(ctx, GD_STATE, "optimizer: the link '%s' is already in use", chain->cls->name);
    if (gd__is_chain(chain) && !chain->children)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: the chain is empty");
    gd_status status = gd__link_adopt(chain, o);
    if (status) return status;
    o->chain = chain;
    chain->owned = true;
    return GD_OK;
}

gd_optimizer *gd_optimizer_new(gd_ctx *ctx, gd_link *chain)
{
    if (!ctx) gd_link_release(chain);
    if (!ctx || !chain) return gd__null(ctx, "optimizer: there is no chain"), NULL;
    gd_optimizer *o = gd__calloc(ctx, sizeof *o);
    gd_group *group = o ? gd__calloc(ctx, sizeof *group) : NULL;
    if (!group) {
        gd__free(ctx, o, sizeof *o);
        gd_link_release(chain);
        return NULL;
    }
    *o = (gd_optimizer){.ctx = ctx,
                        .group = group,
                        .groups = 1,
                        .group_room = 1,
                        .stamp = 1,
                        .moves = ctx->moves,
                        .most_pending = GD_MAX_PENDING,
                        .state_dtype = GD_DTYPE_COUNT};
    ctx->live++;
    if (take_chain(o, chain)) {
        gd_link_release(chain);
        gd_optimizer_free(o);
        return NULL;
    }
    int lrs = 0;
    if (gd__visit_links(chain, "", count_lrs, &lrs) == GD_OK && lrs > 1)
        gd_warn(ctx,
                "optimizer: %d links have a learning rate; groups and schedules of 'lr' reach all of them",
                lrs);
    return o;
}

void gd__group_free(gd_ctx *ctx, gd_group *g)
{
    for (int i = 0; i < g->settings; i++) gd__setting_free(ctx, &g->setting[i].value);
    gd__free(ctx, g->setting, (size_t)g->room * sizeof *g->setting);
}

void gd_optimizer_free(gd_optimizer *o)
{
    if (!o) return;
    gd_ctx *ctx = o->ctx;
    gd__plans_free(ctx, o->plans);
    if (o->chain) {
        (void)!gd__link_adopt(o->chain, NULL);
        o->chain->owned = false;
        gd__release(o->chain);
    }
    for (int i = 0; i < o->count; i++) {
        gd__release(o->param[i].tensor);
        gd__strfree(ctx, o->param[i].name);
    }
    gd__free(ctx, o->param, (size_t)o->capacity * sizeof *o->param);
    gd__table_free(ctx, &o->table);
    for (int i = 0; i < o->groups; i++) gd__group_free(ctx, &o->group[i]);
    gd__group_free(ctx, &o->all);
    gd__free(ctx, o->group, (size_t)o->group_room * sizeof *o->group);
    for (int i = 0; i < o->attrs; i++) gd__release(o->attr[i].tensor);
    gd__free(ctx, o->attr, (size_t)o->attrs * sizeof *o->attr);
    gd__free(ctx, o->active, (size_t)o->active_capacity * sizeof *o->active);
    gd__release(o->first_loss);
    gd__release(o->model);
    ctx->live--;
    gd__free(ctx, o, sizeof *o);
}

gd_ctx *gd_optimizer_ctx(const gd_optimizer *o) { return o ? o->ctx : NULL; }
gd_link *gd_optimizer_chain(const gd_optimizer *o) { return o ? o->chain : NULL; }
int gd_optimizer_count(const gd_optimizer *o) { return o ? o->count : 0; }
int gd_optimizer_groups(const gd_optimizer *o) { return o ? o->groups : 0; }
int64_t gd_optimizer_steps(const gd_optimizer *o) { return o ? o->step : 0; }
int64_t gd_optimizer_evals(const gd_optimizer *o) { return o ? o->evals : 0; }
bool gd_optimizer_should_terminate(const gd_optimizer *o) { return o && o->should_terminate; }

gd_tensor *gd_optimizer_param(const gd_optimizer *o, int i)
{
    if (!o) return NULL;
    return i >= 0 && i < o->count ? o->param[i].tensor : NULL;
}

const char *gd_optimizer_param_name(const gd_optimizer *o, int i)
{
    if (!o) return NULL;
    return i >= 0 && i < o->count ? o->param[i].name : NULL;
}

void gd_optimizer_zero_grad(gd_optimizer *o)
{
    if (!o) return;
    for (int i = 0; i < o->count; i++) gd_zero_grad(o->param[i].tensor);
}

gd_status gd_optimizer_zero_grad_in_place(gd_optimizer *o)
{
    if (!o) return GD_ARGUMENT;
    gd_status status = GD_OK;
    for (int i = 0; i < o->count && !status; i++) status = gd_zero_grad_in_place(o->param[i].tensor);
    return status;
}

void gd_optimizer_reset(gd_optimizer *o)
{
    if (!o) return;
    gd_link_reset(o->chain);
    o->step = o->evals = o->held = 0;
    o->should_terminate = false;
}

bool gd__open_flag(const gd_link *link, const char *name)
{
    return gd_link_is_none(link, name) ? link->optimizer && link->optimizer->careful
                                       : gd_link_flag(link, name);
}

/* ---- attributes ---- */

gd_status gd__set_attr(gd_optimizer *o, const char *name, double value, gd_tensor *tensor)
{
    int i = 0;
    while (i < o->attrs && strcmp(o->attr[i].name, name)) i++;
    if (i == o->attrs) {
        size_t n = (size_t)o->attrs, size = sizeof *o->attr;
        const char *interned = gd__intern(o->ctx, name, strlen(name));
        gd_attr *list = interned ? gd__realloc(o->ctx, o->attr, n * size, (n + 1) * size) : NULL;
        if (!list) return GD_NOMEM;
        o->attr = list;
        list[o->attrs++] = (gd_attr){.name = interned};
    }
    gd__retain(tensor);
    gd__release(o->attr[i].tensor);
    o->attr[i].value = value;
    o->attr[i].tensor = tensor;
    return GD_OK;
}

double gd_optimizer_attr(const gd_optimizer *o, const char *name, double otherwise)
{
    for (int i = 0; o && name && i < o->attrs; i++)
        if (!strcmp(o->attr[i].name, name)) return o->attr[i].value;
    return otherwise;
}

gd_tensor *gd_optimizer_attr_tensor(const gd_optimizer *o, const char *name)
{
    for (int i = 0; o && name && i < o->attrs; i++)
        if (!strcmp(o->attr[i].name, name)) return o->attr[i].tensor;
    return NULL;
}

/* ---- parameters ---- */

/* Parameters and groups stay as they are while a step runs. */
gd_status gd__not_stepping(gd_optimizer *o, const char *what)
{
    return o->stepping ? gd_fail(o->ctx, GD_STATE, "optimizer: %s is not possible inside a step", what)
                       : GD_OK;
}

static gd_status check_param(gd_optimizer *o, const char *name, gd_tensor *t)
{
    gd_ctx *ctx = o->ctx;
    gd_status status = gd__not_stepping(o, "adding a parameter");
    if (status) return status;
    if (!t || !name)
        return gd_error(ctx) ? gd_error(ctx)
                             : gd_fail(ctx, GD_ARGUMENT, "optimizer: a parameter or its name is NULL");
    if (t->head.ctx != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: parameter '%.80s' is of another context", name);
    if (!gd_dtype_is_float(t->dtype))
        return gd_fail(ctx, GD_DTYPE, "optimizer: parameter '%.80s' is %s, not floating", name,
                       gd_dtype_name(t->dtype));
    if (t->node) return gd_fail(ctx, GD_GRAPH, "optimizer: parameter '%.80s' is a result, not a leaf", name);
    if (!gd__contiguous(t))
        return gd_fail(ctx, GD_SHAPE, "optimizer: parameter '%.80s' is not contiguous", name);
    for (int i = 0; i < o->count; i++)
        if (!strcmp(o->param[i].name, name))
            return gd_fail(ctx, GD_ARGUMENT, "optimizer: there is already a parameter '%.80s'", name);
    if (gd__param_index(o, t) >= 0)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: parameter '%.80s' is already there under another name",
                       name);
    return GD_OK;
}

static gd_status add_param(gd_optimizer *o, const char *name, gd_tensor *t, int group)
{
    gd_status status = check_param(o, name, t);
    if (status) return status;
    if (o->count == o->capacity) {
        size_t old = (size_t)o->capacity, capacity = old ? old * 2 : 8;
        gd_param *list = gd__realloc(o->ctx, o->param, old * sizeof *list, capacity * sizeof *list);
        if (!list) return GD_NOMEM;
        o->param = list;
        o->capacity = (int)capacity;
    }
    if (gd__table_reserve(o->ctx, &o->table)) return GD_NOMEM;
    char *copy = gd__strdup(o->ctx, name);
    if (!copy) return GD_NOMEM;
    gd__retain(t);
    gd__table_put(&o->table, t, o->count);
    o->param[o->count++] = (gd_param){.tensor = t, .name = copy, .group = group};
    o->vectors = gd__vectors_dtype(o);
    o->drops--; /* it may be one that a module has dropped: count anew */
    o->ctx->changes++;
    gd__groups_changed(o);
    return GD_OK;
}

gd_status gd_optimizer_add(gd_optimizer *o, const char *name, gd_tensor *param)
{
    if (!o) return GD_ARGUMENT;
    return add_param(o, name, param, 0);
}

/* Forgets the last parameters down to `count`: a group is added whole or not at all. */
static void truncate_params(gd_optimizer *o, int count)
{
    while (o->count > count) {
        gd_param *p = &o->param[--o->count];
        gd__release(p->tensor);
        gd__strfree(o->ctx, p->name);
    }
    gd__table_clear(&o->table);
    for (int i = 0; i < o->count; i++) gd__table_put(&o->table, o->param[i].tensor, i);
    o->ctx->changes++;
    gd__groups_changed(o);
}

static void drop_entries(gd_link *link, const gd_tensor *param)
{
    gd__entry_drop(link, param);
    for (int i = 0; i < link->children; i++) drop_entries(link->child[i], param);
}

gd_status gd_optimizer_remove(gd_optimizer *o, const char *name)
{
    if (!o || !name) return gd__null(gd_optimizer_ctx(o), "optimizer: the name of a parameter is NULL");
    int i = 0;
    gd_status status = gd__not_stepping(o, "removing a parameter");
    if (status) return status;
    while (i < o->count && strcmp(o->param[i].name, name)) i++;
    if (i == o->count) return gd_fail(o->ctx, GD_ATTRIBUTE, "optimizer: there is no parameter '%.80s'", name);
    gd_tensor *t = o->param[i].tensor;
    drop_entries(o->chain, t);
    gd__strfree(o->ctx, o->param[i].name);
    memmove(&o->param[i], &o->param[i + 1], (size_t)(o->count - i - 1) * sizeof *o->param);
    o->count--;
    truncate_params(o, o->count);
    gd__release(t);
    return GD_OK;
}

/* ---- taking the tensors a module has now ---- */

/* What a link keeps for one parameter becomes that of another; needs no memory. */
static void rekey_entries(gd_link *link, const gd_tensor *old, gd_tensor *now)
{
    gd_entry *e = gd__entry_find(link, old);
    if (e) {
        gd__entry_drop(link, now); /* settings given to it before it was a parameter */
        gd__retain(now);
        gd__release(e->param);
        e->param = now;
        gd__table_clear(&link->table);
        for (int i = 0; i < link->entries; i++) gd__table_put(&link->table, link->entry[i]->param, i);
    }
    for (int i = 0; i < link->children; i++) rekey_entries(link->child[i], old, now);
}

static gd_status check_rebind(gd_optimizer *o, int i, gd_tensor *now)
{
    const gd_tensor *old = o->param[i].tensor;
    char a[256], b[256];
    if (!gd__same_shape(old, now) || !gd__same_axes(now, old))
        return gd_fail(o->ctx, GD_SHAPE, "rebind: parameter '%.80s' was %s and is %s now", o->param[i].name,
                       gd__shape_text(old, a, sizeof a), gd__shape_text(now, b, sizeof b));
    if (gd__param_index(o, now) >= 0)
        return gd_fail(o->ctx, GD_ARGUMENT, "rebind: '%.80s' is already there under another name",
                       o->param[i].name);
    return GD_OK;
}

static void rebind_one(gd_optimizer *o, int i, gd_tensor *now)
{
    gd_tensor *old = o->param[i].tensor;
    rekey_entries(o->chain, old, now);
    gd__retain(now);
    o->param[i].tensor = now;
    gd__release(old);
}

gd_status gd_optimizer_rebind(gd_optimizer *o, gd_module *module)
{
    if (!o || !module) return gd__null(gd_optimizer_ctx(o), "rebind: the module is NULL");
    gd_status status = gd__not_stepping(o, "rebinding");
    gd_named *named = status ? NULL : gd_module_parameters(module, NULL);
    if (!named) return status ? status : gd_error(o->ctx);
    int found = 0;
    for (int i = 0; i < o->count && !status; i++) {
        gd_tensor *now = gd_named_find(named, o->param[i].name);
        found += now != NULL;
        if (now && now != o->param[i].tensor) status = check_rebind(o, i, now);
    }
    if (!status && !found)
        status = gd_fail(o->ctx, GD_ATTRIBUTE,
                         "rebind: the module has no parameter of the optimizer's names");
    for (int i = 0; i < o->count && !status; i++) {
        gd_tensor *now = gd_named_find(named, o->param[i].name);
        if (now && now != o->param[i].tensor) rebind_one(o, i, now);
    }
    gd_named_release(named);
    if (status) return status;
    truncate_params(o, o->count); /* the table of addresses anew */
    o->moves--;                   /* state follows to the new devices and dtypes */
    o->drops--;
    o->stamp++;
    return GD_OK;
}

/* ---- groups ---- */

void gd__groups_changed(gd_optimizer *o)
{
    o->keys = o->all.settings;
    for (int g = 0; g < o->groups; g++) o->keys += o->group[g].settings;
    o->numbers++;
}

/* The engine itself reads update_freq when it decides what can be fused. */
bool gd__shapes(const gd_link *link, const char *key)
{
    int field = gd__field_index(link->cls, key);
    if (field >= 0 && (link->cls->fields[field].structural || !strcmp(key, "update_freq"))) return true;
    for (int i = 0; i < link->children; i++)
        if (gd__shapes(link->child[i], key)) return true;
    return false;
}

static bool takes_whole(const gd_link *link, const char *key)
{
    int field = gd__field_index(link->cls, key);
    if (field >= 0 && link->cls->fields[field].integer) return true;
    for (int i = 0; i < link->children; i++)
        if (takes_whole(link->child[i], key)) return true;
    return false;
}

/* Who has a setting of that name, and whether the value fits them. */
typedef struct key_check {
    const char *key;
    const gd_setting *value;
    const gd_schedule *schedule; /* NULL: none */
    gd_ctx *ctx;
    int links, open; /* open: without settings of single parameters under that name */
} key_check;

static bool has_local(const gd_link *link, int field)
{
    for (int i = 0; link->locals && i < link->entries; i++)
        if (link->entry[i]->local && link->entry[i]->local[field].kind) return true;
    return false;
}

static gd_status check_key(void *user, gd_link *link, const char *path)
{
    (void)path;
    key_check *k = user;
    int field = gd__field_index(link->cls, k->key);
    if (field < 0) return GD_OK;
    k->links++;
    k->open += !has_local(link, field);
    if (k->value->kind == GD_SET_CHAIN || link->cls->fields[field].kinds & GD_SET_CHAIN)
        return gd_fail(k->ctx, GD_TYPE, "group: '%s' of %s is a link, which groups cannot have", k->key,
                       link->cls->name);
    gd_status status = gd__field_check(k->ctx, "group: ", link->cls, &link->cls->fields[field], k->value);
    if (status || !k->schedule) return status;
    return gd__schedule_fits(k->ctx, link->cls->name, &link->cls->fields[field], k->schedule);
}

static gd_group_setting *find_key(const gd_group *g, const char *key)
{
    for (int i = 0; i < g->settings; i++)
        if (!strcmp(g->setting[i].key, key)) return &g->setting[i];
    return NULL;
}

static bool some_group_has(const gd_optimizer *o, const char *key)
{
    for (int g = 0; g < o->groups; g++)
        if (find_key(&o->group[g], key)) return true;
    return find_key(&o->all, key);
}

static gd_status check_all(gd_optimizer *o, key_check *k)
{
    gd_status status = gd__visit_links(o->chain, "", check_key, k);
    if (status || k->links) return status;
    return gd_fail(o->ctx, GD_ATTRIBUTE, "group: no link of the chain has a setting '%.80s'", k->key);
}

gd_status gd__group_check(gd_optimizer *o, const char *key, const gd_setting *value,
                          const gd_schedule *schedule)
{
    key_check k = {.key = key, .value = value, .schedule = schedule, .ctx = o->ctx};
    return check_all(o, &k);
}

static gd_status check_group_key(gd_optimizer *o, const char *key, const gd_setting *value,
                                 const gd_schedule *schedule)
{
    key_check k = {.key = key, .value = value, .schedule = schedule, .ctx = o->ctx};
    gd_status status = check_all(o, &k);
    /* said once a key; several learning rates have had their own warning */
    if (!status && k.open > 1 && strcmp(key, "lr") && !some_group_has(o, key))
        gd_warn(o->ctx, "group: %d links have a setting '%s'; all of them get it", k.open, key);
    return status;
}

gd_group_setting *gd__group_key(gd_optimizer *o, gd_group *g, const char *key)
{
    gd_group_setting *found = find_key(g, key);
    if (found) return found;
    const char *interned = gd__intern(o->ctx, key, strlen(key));
    if (!interned) return NULL;
    if (g->settings == g->room) {
        size_t n = (size_t)g->room, size = sizeof *g->setting;
        gd_group_setting *list = gd__realloc(o->ctx, g->setting, n * size, (n + 1) * size);
        if (!list) return NULL;
        g->setting = list;
        g->room++;
    }
    g->setting[g->settings] = (gd_group_setting){
        .key = interned, .shapes = gd__shapes(o->chain, key), .whole = takes_whole(o->chain, key)};
    return &g->setting[g->settings++];
}

/* Every setting of groups, and what is for all: those of group -1. */
static gd_group_setting *setting_at(gd_optimizer *o, int group, int i)
{
    gd_group *g = group < 0 ? &o->all : &o->group[group];
    return i < g->settings ? &g->setting[i] : NULL;
}

gd_status gd__groups_fit(gd_optimizer *o, gd_link *child)
{
    gd_status status = GD_OK;
    const gd_group_setting *s;
    for (int g = -1; g < o->groups; g++)
        for (int i = 0; !status && (s = setting_at(o, g, i)); i++) {
            bool scheduled = s->schedule.kind != GD_SCHEDULE_INVALID;
            key_check k = {.key = s->key, .value = &s->value, .ctx = o->ctx};
            k.schedule = scheduled ? &s->schedule : NULL;
            status = gd__visit_links(child, "", check_key, &k);
        }
    return status;
}

void gd__groups_look_again(gd_optimizer *o)
{
    gd_group_setting *s;
    for (int g = -1; g < o->groups; g++)
        for (int i = 0; (s = setting_at(o, g, i)); i++) {
            s->shapes = gd__shapes(o->chain, s->key);
            s->whole = takes_whole(o->chain, s->key);
        }
    gd__groups_changed(o);
}

/* Puts a value, whose list it takes, and a schedule or none in place of what was there. */
static void put_group_setting(gd_optimizer *o, gd_group_setting *s, gd_setting value, gd_schedule schedule)
{
    bool number = value.kind == GD_SET_REAL && s->value.kind == GD_SET_REAL && !s->shapes;
    gd__setting_free(o->ctx, &s->value);
    s->value = value;
    s->schedule = schedule;
    gd__groups_changed(o);
    if (!number) o->stamp++;
}

static gd_status set_key(gd_optimizer *o, gd_group *g, const char *key, const gd_setting *value)
{
    gd_status status = check_group_key(o, key, value, NULL);
    gd_setting copy = {0};
    if (!status) status = gd__setting_copy(o->ctx, &copy, value);
    gd_group_setting *s = status ? NULL : gd__group_key(o, g, key);
    if (!s) {
        gd__setting_free(o->ctx, &copy);
        return status ? status : GD_NOMEM;
    }
    put_group_setting(o, s, copy, (gd_schedule){0});
    return GD_OK;
}

static gd_status check_group(gd_optimizer *o, int group)
{
    if (group >= -1 && group < o->groups) return GD_OK;
    return gd_fail(o->ctx, GD_INDEX, "group %d is not one of %d", group, o->groups);
}

static gd_group *group_at(gd_optimizer *o, int group) { return group < 0 ? &o->all : &o->group[group]; }

/* True if it was there. */
static bool drop_key(gd_optimizer *o, gd_group *g, const char *key)
{
    gd_group_setting *s = find_key(g, key);
    if (!s) return false;
    size_t behind = (size_t)(g->setting + g->settings - (s + 1));
    gd__setting_free(o->ctx, &s->value);
    memmove(s, s + 1, behind * sizeof *s);
    g->settings--;
    return true;
}

gd_status gd_optimizer_set(gd_optimizer *o, int group, const char *key, double value)
{
    if (!o) return GD_ARGUMENT;
    gd_setting s = {.kind = GD_SET_REAL, .real = value};
    gd_status status = check_group(o, group);
    if (!status) status = set_key(o, group_at(o, group), key, &s);
    /* a number for all is one for those too that had their own */
    for (int g = 0; g < o->groups && group < 0 && !status; g++)
        if (drop_key(o, &o->group[g], key)) {
            gd__groups_changed(o);
            o->stamp++;
        }
    return status;
}

/* A schedule for all groups that would reach none is a mistake. */
static gd_status check_reach(gd_optimizer *o, const char *key)
{
    for (int i = 0; i < o->count; i++)
        if (!find_key(&o->group[o->param[i].group], key)) return GD_OK;
    if (!o->count) return GD_OK;
    return gd_fail(
        o->ctx, GD_VALUE,
        "schedule: every group has its own '%.80s', which wins; schedule the groups or unset theirs", key);
}

/* Reads a schedule for a key, whose every value the links must take; *now is its value at this step. */
static gd_status read_schedule(gd_optimizer *o, const char *key, const char *text, gd_schedule *schedule,
                               gd_setting *now)
{
    gd_status status = gd_schedule_parse(o->ctx, text, schedule);
    if (status) return status;
    double value = gd_schedule_value(schedule, o->step - o->held);
    if (takes_whole(o->chain, key)) value = gd__snap(value);
    *now = (gd_setting){.kind = GD_SET_REAL, .real = value};
    return check_group_key(o, key, now, schedule);
}

gd_status gd_optimizer_schedule(gd_optimizer *o, int group, const char *key, const char *text)
{
    if (!o) return GD_ARGUMENT;
    gd_schedule schedule;
    gd_setting now;
    gd_status status = check_group(o, group);
    if (!status) status = read_schedule(o, key, text, &schedule, &now);
    if (!status && group < 0) status = check_reach(o, key);
    if (status) return status;
    gd_group_setting *s = gd__group_key(o, group_at(o, group), key);
    if (!s) return GD_NOMEM;
    put_group_setting(o, s, now, schedule);
    return GD_OK;
}

/* The settings of a group under way to another list, or nothing. */
static gd_status copy_group(gd_optimizer *o, const gd_group *from, gd_group *to)
{
    for (int i = 0; i < from->settings; i++) {
        gd_group_setting *s = gd__group_key(o, to, from->setting[i].key);
        if (!s || gd__setting_copy(o->ctx, &s->value, &from->setting[i].value)) return GD_NOMEM;
        s->schedule = from->setting[i].schedule;
    }
    return GD_OK;
}

static int members(const gd_optimizer *o, int group, const char *glob)
{
    int count = 0;
    for (int i = 0; i < o->count; i++)
        count += o->param[i].group == group && (!glob || gd_glob_match(glob, o->param[i].name));
    return count;
}

static gd_status new_group(gd_optimizer *o, int *number)
{
    if (o->groups == o->group_room) {
        size_t room = (size_t)o->group_room, size = sizeof *o->group;
        gd_group *list = gd__realloc(o->ctx, o->group, room * size, 2 * room * size);
        if (!list) return GD_NOMEM;
        o->group = list;
        o->group_room = (int)(2 * room);
    }
    o->group[o->groups] = (gd_group){0};
    *number = o->groups++;
    return GD_OK;
}

static gd_status apply_key(void *user, const char *key, const gd_setting *value)
{
    gd_optimizer *o = user;
    return set_key(o, &o->group[o->groups - 1], key, value);
}

static void drop_last_group(gd_optimizer *o)
{
    gd__group_free(o->ctx, &o->group[--o->groups]);
    gd__groups_changed(o);
}

/* An empty group with settings from text; nothing is left behind on failure. */
static gd_status group_from(gd_optimizer *o, const char *settings, int *number)
{
    gd_status status = gd__not_stepping(o, "adding a group");
    if (!status) status = new_group(o, number);
    if (status) return status;
    if (settings) status = gd__settings_parse(o->ctx, settings, apply_key, o);
    if (status) drop_last_group(o);
    return status;
}

gd_status gd_optimizer_add_group(gd_optimizer *o, const char *const *names, gd_tensor *const *params,
                                 int count, const char *settings, int *group)
{
    if (!o || (count > 0 && (!names || !params)))
        return gd__null(gd_optimizer_ctx(o), "optimizer: the names or parameters of a group are NULL");
    int number = 0, before = o->count;
    gd_status status = group_from(o, settings, &number);
    for (int i = 0; i < count && !status; i++) {
        status = add_param(o, names[i], params[i], number);
        if (!status) continue;
        truncate_params(o, before);
        drop_last_group(o);
    }
    if (!status && group) *group = number;
    return status;
}

static void take_model(gd_optimizer *o, gd_module *module)
{
    if (o->model == module || o->several_models) return;
    o->several_models = o->model != NULL;
    gd__release(o->model);
    o->model = o->several_models ? NULL : module;
    gd__retain(o->model);
}

gd_status gd_optimizer_add_module(gd_optimizer *o, gd_module *module, const char *glob, const char *settings)
{
    if (!o || !module) return gd__null(gd_optimizer_ctx(o), "optimizer: the module is NULL");
    int before = o->count, groups = o->groups, group = 0;
    gd_named *named = gd_module_parameters(module, glob);
    if (!named) return gd_error(o->ctx) ? gd_error(o->ctx) : GD_ARGUMENT;
    gd_status status = settings ? group_from(o, settings, &group) : GD_OK;
    int64_t count = gd_named_count(named);
    for (int64_t i = 0; i < count && !status; i++)
        status = add_param(o, gd_named_name(named, i), gd_named_tensor(named, i), group);
    if (!status && !count)
        status = gd_fail(o->ctx, GD_ATTRIBUTE, "optimizer: no parameter of the module matches '%.80s'",
                         glob ? glob : "*");
    gd_named_release(named);
    if (status) {
        truncate_params(o, before);
        if (o->groups > groups) drop_last_group(o);
    } else
        take_model(o, module);
    return status;
}

gd_module *gd_optimizer_model(const gd_optimizer *o) { return o ? o->model : NULL; }

/* Room for so many more groups. */
static gd_status group_rooms(gd_optimizer *o, int more)
{
    size_t room = (size_t)o->group_room, need = (size_t)(o->groups + more), size = sizeof *o->group;
    if (need <= room) return GD_OK;
    gd_group *list = gd__realloc(o->ctx, o->group, room * size, need * size);
    if (!list) return GD_NOMEM;
    o->group = list;
    o->group_room = (int)need;
    return GD_OK;
}

/* What is said about the parameters that match. */
typedef struct regrouping {
    gd_optimizer *o;
    const char *glob;
    gd_status (*say)(void *user, gd_group *group); /* puts it into a group */
    void *user;
    bool first_stays; /* the first group, where parameters join, is split even when all of them match */
    gd_group *made;   /* a copy of each group that has members which match, with what is said */
} regrouping;

/* Does the copy take the group's place?  Else those that match leave it for the copy. */
static bool takes_place(const regrouping *r, int group)
{
    return (group || !r->first_stays) && members(r->o, group, r->glob) == members(r->o, group, NULL);
}

static gd_status make_copies(regrouping *r)
{
    gd_status status = GD_OK;
    int splits = 0;
    for (int g = 0; g < r->o->groups && !status; g++) {
        if (!members(r->o, g, r->glob)) continue;
        splits += !takes_place(r, g);
        status = copy_group(r->o, &r->o->group[g], &r->made[g]);
        if (!status) status = r->say(r->user, &r->made[g]);
    }
    return status ? status : group_rooms(r->o, splits);
}

static void take_copies(regrouping *r, int count)
{
    gd_optimizer *o = r->o;
    for (int g = 0; g < count; g++) {
        if (!members(o, g, r->glob)) continue;
        if (takes_place(r, g)) {
            gd_group before = o->group[g];
            o->group[g] = r->made[g];
            r->made[g] = before;
            continue;
        }
        for (int i = 0; i < o->count; i++)
            if (o->param[i].group == g && gd_glob_match(r->glob, o->param[i].name))
                o->param[i].group = o->groups;
        o->group[o->groups++] = r->made[g];
        r->made[g] = (gd_group){0};
    }
    gd__groups_changed(o);
    o->stamp++;
}

/* All of it or, on failure, nothing. */
static gd_status regroup(regrouping *r)
{
    int count = r->o->groups;
    r->made = gd__calloc(r->o->ctx, (size_t)count * sizeof *r->made);
    if (!r->made) return GD_NOMEM;
    gd_status status = make_copies(r);
    if (!status) take_copies(r, count);
    for (int g = 0; g < count; g++) gd__group_free(r->o->ctx, &r->made[g]);
    gd__free(r->o->ctx, r->made, (size_t)count * sizeof *r->made);
    return status;
}

static gd_status check_match(gd_optimizer *o, const char *what, const char *glob)
{
    for (int i = 0; i < o->count; i++)
        if (gd_glob_match(glob, o->param[i].name)) return GD_OK;
    return gd_fail(o->ctx, GD_ATTRIBUTE, "%s: no parameter matches '%.80s'", what, glob);
}

typedef struct said {
    gd_optimizer *o;
    const char *settings, *key;
    gd_group *group;
    gd_setting now;
    gd_schedule schedule;
} said;

static gd_status say_key(void *user, const char *key, const gd_setting *value)
{
    said *s = user;
    return set_key(s->o, s->group, key, value);
}

static gd_status say_settings(void *user, gd_group *group)
{
    said *s = user;
    s->group = group;
    return s->settings ? gd__settings_parse(s->o->ctx, s->settings, say_key, s) : GD_OK;
}

gd_status gd_optimizer_regroup(gd_optimizer *o, const char *glob, const char *settings)
{
    if (!o) return GD_ARGUMENT;
    said s = {.o = o, .settings = settings};
    regrouping r = {.o = o, .glob = glob, .say = say_settings, .user = &s, .first_stays = true};
    gd_status status = check_match(o, "group", glob);
    if (!status) status = gd__not_stepping(o, "splitting a group");
    return status ? status : regroup(&r);
}

static gd_status say_schedule(void *user, gd_group *group)
{
    said *s = user;
    gd_group_setting *setting = gd__group_key(s->o, group, s->key);
    if (!setting) return GD_NOMEM;
    gd__setting_free(s->o->ctx, &setting->value);
    setting->value = s->now;
    setting->schedule = s->schedule;
    return GD_OK;
}

gd_status gd_optimizer_schedule_matching(gd_optimizer *o, const char *glob, const char *key, const char *text)
{
    if (!o || !glob || !key)
        return gd__null(gd_optimizer_ctx(o), "optimizer: the glob or the name of a setting is NULL");
    said s = {.o = o, .key = key};
    regrouping r = {.o = o, .glob = glob, .say = say_schedule, .user = &s};
    gd_status status = gd__not_stepping(o, "splitting a group");
    if (!status) status = check_match(o, "schedule", glob);
    if (!status) status = read_schedule(o, key, text, &s.schedule, &s.now);
    return status ? status : regroup(&r);
}

/* ---- taking settings back ---- */

static gd_status no_such_key(gd_optimizer *o, int group, const char *what, const char *key)
{
    if (group < 0) return gd_fail(o->ctx, GD_ATTRIBUTE, "group: no group has a %s '%.80s'", what, key);
    return gd_fail(o->ctx, GD_ATTRIBUTE, "group: group %d has no %s '%.80s'", group, what, key);
}

gd_status gd_optimizer_unset(gd_optimizer *o, int group, const char *key)
{
    if (!o || !key) return gd__null(gd_optimizer_ctx(o), "optimizer: the name of a setting is NULL");
    bool found = false;
    gd_status status = check_group(o, group);
    if (status) return status;
    if (group < 0) found = drop_key(o, &o->all, key);
    for (int g = 0; g < o->groups; g++)
        if (group < 0 || g == group) found = drop_key(o, &o->group[g], key) || found;
    if (!found) return no_such_key(o, group, "setting", key);
    gd__groups_changed(o);
    o->stamp++;
    return GD_OK;
}

static bool stop_schedule(gd_group *g, const char *key)
{
    gd_group_setting *s = find_key(g, key);
    if (!s || s->schedule.kind == GD_SCHEDULE_INVALID) return false;
    s->schedule = (gd_schedule){0};
    return true;
}

gd_status gd_optimizer_unschedule(gd_optimizer *o, int group, const char *key)
{
    if (!o || !key) return gd__null(gd_optimizer_ctx(o), "optimizer: the name of a setting is NULL");
    bool found = false;
    gd_status status = check_group(o, group);
    if (status) return status;
    if (group < 0) found = stop_schedule(&o->all, key);
    for (int g = 0; g < o->groups; g++)
        if (group < 0 || g == group) found = stop_schedule(&o->group[g], key) || found;
    return found ? GD_OK : no_such_key(o, group, "schedule of", key);
}

/* ---- state ---- */

static bool has_state(const gd_link *link)
{
    for (int i = 0; i < link->entries; i++)
        for (int k = 0; k < link->cls->slot_count; k++)
            if (link->entry[i]->slot[k]) return true;
    for (int i = 0; i < link->children; i++)
        if (has_state(link->child[i])) return true;
    return false;
}

gd_status gd_optimizer_state_dtype(gd_optimizer *o, gd_dtype dtype)
{
    if (!o) return GD_ARGUMENT;
    if (dtype != GD_DTYPE_COUNT && !gd_dtype_is_float(dtype))
        return gd_fail(o->ctx, GD_DTYPE, "optimizer: state cannot be %s", gd_dtype_name(dtype));
    if (dtype == o->state_dtype) return GD_OK;
    if (has_state(o->chain))
        return gd_fail(o->ctx, GD_STATE,
                       "optimizer: there is state already; reset it before choosing another dtype");
    o->state_dtype = dtype;
    o->stamp++;
    return GD_OK;
}
