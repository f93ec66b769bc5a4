/* Groups of parameters: their settings and schedules, and how they apply to links. */
#include "optim/link/owner.h"
#include "optim/text/setting.h"

#include <string.h>

void gd__group_free(gd_ctx *ctx, gd_group *g)
{
    for (int i = 0; i < g->settings; i++) gd__setting_free(ctx, &g->setting[i].value);
    gd__free(ctx, g->setting, (size_t)g->room * sizeof *g->setting);
}

void gd__optimizer_changed(gd_optimizer *o, bool structure)
{
    if (!o) return;
    o->grouping.keys = o->grouping.all.settings;
    for (int g = 0; g < o->grouping.count; g++) o->grouping.keys += o->grouping.list[g].settings;
    o->numbers++;
    o->structure += structure;
}

/* The engine itself reads update_freq when it decides what can be fused. */
bool gd__field_shapes(const gd_field *field)
{
    return field->structural || !strcmp(field->name, "update_freq");
}

bool gd__shapes(const gd_link *link, const char *key)
{
    int field = gd__field_index(link->cls, key);
    if (field >= 0 && gd__field_shapes(&link->cls->fields[field])) return true;
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

/* Which links have a setting of that name, and whether the value fits. One name may be a number in some links, a text or a link
 * in others: the kind of the value decides which are meant. */
typedef struct key_check {
    const char *key;
    const gd_setting *value;
    gd_ctx *ctx;
    int links;
    const gd_link *child_of; /* one whose setting is a link, which stays */
    const gd_link *other;    /* one that accepts a different kind of value */
} key_check;

/* A child, or only a child; some settings are a number or a child. */
static bool is_child(const gd_link *link, int field)
{
    const gd_field *f = &link->cls->fields[field];
    if (link->value[field].kind == GD_SET_CHAIN) return true;
    return f->kinds & GD_SET_CHAIN && (f->variadic || !(f->kinds & GD_SET_REAL));
}

static const char *asker(const key_check *k) { return k->value->schedule ? "schedule: " : "group: "; }

static gd_status check_key(void *user, gd_link *link, const char *path)
{
    (void)path;
    key_check *k = user;
    int field = gd__field_index(link->cls, k->key);
    if (field < 0) return GD_OK;
    if (k->value->kind == GD_SET_CHAIN || is_child(link, field)) {
        k->child_of = link;
        return GD_OK;
    }
    if (!(k->value->kind & link->cls->fields[field].kinds)) {
        k->other = link;
        return GD_OK;
    }
    k->links++;
    return gd__field_check(k->ctx, asker(k), link->cls, &link->cls->fields[field], k->value);
}

static gd_group_setting *find_key(const gd_group *g, const char *key)
{
    for (int i = 0; i < g->settings; i++)
        if (!strcmp(g->setting[i].key, key)) return &g->setting[i];
    return NULL;
}

bool gd__groups_have(const gd_optimizer *o, const char *key)
{
    for (int g = 0; g < o->grouping.count; g++)
        if (find_key(&o->grouping.list[g], key)) return true;
    return find_key(&o->grouping.all, key);
}

static gd_status check_all(gd_optimizer *o, key_check *k)
{
    gd_status status = gd__visit_links(o->chain, "", check_key, k);
    if (status || k->links) return status;
    if (k->other)
        return gd__field_check(o->ctx, asker(k), k->other->cls,
                               &k->other->cls->fields[gd__field_index(k->other->cls, k->key)], k->value);
    if (k->child_of)
        return gd_fail(o->ctx, GD_TYPE, "%s'%s' of %s is a link, which groups cannot have", asker(k), k->key,
                       k->child_of->cls->name);
    return gd_fail(o->ctx, GD_ATTRIBUTE, "%sno link of the chain has a setting '%.80s'", asker(k), k->key);
}

gd_status gd__group_check(gd_optimizer *o, const char *key, const gd_setting *value)
{
    key_check k = {.key = key, .value = value, .ctx = o->ctx};
    return check_all(o, &k);
}

/* Links whose setting of that name applies to one parameter, without those with settings for single parameters: of chains with their own
 * parameters, it goes through one. Given: only if it differs from the default. */
static int count_met(const gd_link *link, const char *key, bool given)
{
    int field = gd__field_index(link->cls, key), all = 0, most = 0;
    for (int i = 0; i < link->children; i++) {
        int below = count_met(link->child[i], key, given);
        all += below;
        most = below > most ? below : most;
    }
    bool met = field >= 0 && !gd__has_local(link, field) && !is_child(link, field);
    if (met && given) met = !gd__setting_equal(&link->value[field], &link->cls->fields[field].fallback);
    return met + (link->cls->part ? most : all);
}

void gd__warn_of_rates(const gd_optimizer *o)
{
    int met = count_met(o->chain, "lr", true);
    if (met > 1)
        gd_warn(
            o->ctx,
            "optimizer: %d links of the chain have a setting 'lr': their rates multiply, and an lr of a group "
            "or schedule goes to all of them",
            met);
}

static gd_status check_group_key(gd_optimizer *o, const char *key, const gd_setting *value)
{
    key_check k = {.key = key, .value = value, .ctx = o->ctx};
    gd_status status = check_all(o, &k);
    /* reported once per key */
    int met = status || gd__groups_have(o, key) ? 0 : count_met(o->chain, key, false);
    if (met > 1) gd_warn(o->ctx, "group: %d links have a setting '%s'; all of them get it", met, key);
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

/* Every setting of groups, and those for all groups: group -1. */
static gd_group_setting *setting_at(gd_optimizer *o, int group, int i)
{
    gd_group *g = group < 0 ? &o->grouping.all : &o->grouping.list[group];
    return i < g->settings ? &g->setting[i] : NULL;
}

gd_status gd__groups_fit(gd_optimizer *o, gd_link *child)
{
    gd_status status = GD_OK;
    const gd_group_setting *s;
    for (int g = -1; g < o->grouping.count; g++)
        for (int i = 0; !status && (s = setting_at(o, g, i)); i++) {
            key_check k = {.key = s->key, .value = &s->value, .ctx = o->ctx};
            status = gd__visit_links(child, "", check_key, &k);
        }
    return status;
}

void gd__groups_look_again(gd_optimizer *o)
{
    gd_group_setting *s;
    for (int g = -1; g < o->grouping.count; g++)
        for (int i = 0; (s = setting_at(o, g, i)); i++) {
            s->shapes = gd__shapes(o->chain, s->key);
            s->whole = takes_whole(o->chain, s->key);
        }
    gd__optimizer_changed(o, true);
}

/* Replaces the old value, and frees its memory. */
static void put_group_setting(gd_optimizer *o, gd_group_setting *s, gd_setting value)
{
    bool number = value.kind == GD_SET_REAL && s->value.kind == GD_SET_REAL && !s->shapes;
    gd__setting_free(o->ctx, &s->value);
    s->value = value;
    if (value.schedule) (void)gd__setting_advance(&s->value, gd__schedule_step(o), s->whole);
    gd__optimizer_changed(o, !number);
}

static gd_status set_key(gd_optimizer *o, gd_group *g, const char *key, const gd_setting *value)
{
    gd_status status = check_group_key(o, key, value);
    gd_setting copy = {0};
    if (!status) status = gd__setting_copy(o->ctx, &copy, value);
    gd_group_setting *s = status ? NULL : gd__group_key(o, g, key);
    if (!s) {
        gd__setting_free(o->ctx, &copy);
        return status ? status : GD_NOMEM;
    }
    put_group_setting(o, s, copy);
    return GD_OK;
}

static gd_status check_group(gd_optimizer *o, int group)
{
    if (group >= -1 && group < o->grouping.count) return GD_OK;
    return gd_fail(o->ctx, GD_INDEX, "group %d is not one of %d", group, o->grouping.count);
}

static gd_group *group_at(gd_optimizer *o, int group)
{
    return group < 0 ? &o->grouping.all : &o->grouping.list[group];
}

/* True if it existed. */
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

/* A setting for all groups that applies to no link is an error. */
static gd_status check_reach(gd_optimizer *o, const char *what, const char *key)
{
    for (int i = 0; i < o->count; i++)
        if (!find_key(&o->grouping.list[o->param[i].group], key)) return GD_OK;
    if (!o->count) return GD_OK;
    return gd_fail(o->ctx, GD_VALUE,
                   "%s: every group has its own '%.80s', which wins; %s the groups or unset theirs", what,
                   key, what);
}

gd_status gd_optimizer_set(gd_optimizer *o, int group, const char *key, double value)
{
    if (!o) return GD_ARGUMENT;
    gd_setting s = {.kind = GD_SET_REAL, .real = value};
    gd_status status = check_group(o, group);
    if (!status && group < 0) status = check_reach(o, "set", key);
    return status ? status : set_key(o, group_at(o, group), key, &s);
}

/* Reads a schedule, for the caller to keep: the setting only points to it. */
static gd_status read_schedule(gd_optimizer *o, const char *text, gd_schedule *schedule, gd_setting *now)
{
    gd_status status = gd_schedule_parse(o->ctx, text, schedule);
    *now = (gd_setting){.kind = GD_SET_REAL, .schedule = schedule};
    if (!status) now->real = gd_schedule_value(schedule, gd__schedule_step(o));
    return status;
}

gd_status gd_optimizer_schedule(gd_optimizer *o, int group, const char *key, const char *text)
{
    if (!o) return GD_ARGUMENT;
    gd_schedule schedule;
    gd_setting now;
    gd_status status = check_group(o, group);
    if (!status) status = read_schedule(o, text, &schedule, &now);
    if (!status && group < 0) status = check_reach(o, "schedule", key);
    return status ? status : set_key(o, group_at(o, group), key, &now);
}

/* Moves the settings of a group to another list, or moves nothing. */
static gd_status copy_group(gd_optimizer *o, const gd_group *from, gd_group *to)
{
    for (int i = 0; i < from->settings; i++) {
        gd_group_setting *s = gd__group_key(o, to, from->setting[i].key);
        if (!s || gd__setting_copy(o->ctx, &s->value, &from->setting[i].value)) return GD_NOMEM;
    }
    return GD_OK;
}

/* A text that gd_select has read before. */
static bool selected(const gd_optimizer *o, int param, const char *selection)
{
    bool yes = false;
    return !gd_select(o->ctx, selection, o->param[param].name, o->param[param].tensor, &yes) && yes;
}

static int members(const gd_optimizer *o, int group, const char *glob)
{
    int count = 0;
    for (int i = 0; i < o->count; i++) count += o->param[i].group == group && (!glob || selected(o, i, glob));
    return count;
}

/* Settings for a group: a text, values, or one value for a key. */
typedef struct said {
    gd_optimizer *o;
    const char *settings, *key;
    gd_group *group;
    gd_setting now;
    const gd_link_option *option;
    int options;
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

/* Options without a value are left out. */
static gd_status say_options(void *user, gd_group *group)
{
    said *s = user;
    gd_status status = GD_OK;
    for (int i = 0; i < s->options && !status; i++) {
        const gd_link_option *given = &s->option[i];
        if (!given->field)
            status = gd__null(s->o->ctx, "group: the name of a setting is NULL");
        else if (given->value.kind)
            status = set_key(s->o, group, given->field, &given->value);
    }
    return status;
}

static gd_status new_group(gd_optimizer *o, int *number)
{
    if (o->grouping.count == o->grouping.room) {
        size_t room = (size_t)o->grouping.room, size = sizeof *o->grouping.list;
        gd_group *list = gd__realloc(o->ctx, o->grouping.list, room * size, 2 * room * size);
        if (!list) return GD_NOMEM;
        o->grouping.list = list;
        o->grouping.room = (int)(2 * room);
    }
    o->grouping.list[o->grouping.count] = (gd_group){0};
    *number = o->grouping.count++;
    return GD_OK;
}

static void drop_last_group(gd_optimizer *o)
{
    gd__group_free(o->ctx, &o->grouping.list[--o->grouping.count]);
    gd__optimizer_changed(o, true);
}

/* An empty group with settings; nothing is left behind on failure. */
static gd_status group_from(gd_optimizer *o, said *settings, int *number)
{
    gd_status status = gd__not_stepping(o, "adding a group");
    if (!status) status = new_group(o, number);
    if (status) return status;
    gd_group *group = &o->grouping.list[*number];
    status = say_settings(settings, group);
    if (!status) status = say_options(settings, group);
    if (status) drop_last_group(o);
    return status;
}

static gd_status add_group(gd_optimizer *o, const char *const *names, gd_tensor *const *params, int count,
                           said *settings, int *group)
{
    if (!o || (count > 0 && (!names || !params)))
        return gd__null(gd_optimizer_ctx(o), "optimizer: the names or parameters of a group are NULL");
    int number = 0, before = o->count;
    gd_status status = group_from(o, settings, &number);
    for (int i = 0; i < count && !status; i++) {
        status = gd__param_add(o, names[i], params[i], number);
        if (!status) continue;
        gd__params_truncate(o, before);
        drop_last_group(o);
    }
    if (!status && group) *group = number;
    return status;
}

gd_status gd_optimizer_add_group(gd_optimizer *o, const char *const *names, gd_tensor *const *params,
                                 int count, const char *settings, int *group)
{
    said s = {.o = o, .settings = settings};
    return add_group(o, names, params, count, &s, group);
}

gd_status gd_optimizer_add_group_with(gd_optimizer *o, const char *const *names, gd_tensor *const *params,
                                      int count, const gd_link_option *settings, int settings_count,
                                      int *group)
{
    if (settings_count > 0 && !settings)
        return gd__null(gd_optimizer_ctx(o), "optimizer: the settings of a group are NULL");
    said s = {.o = o, .option = settings, .options = settings_count};
    return add_group(o, names, params, count, &s, group);
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
    int before = o->count, groups = o->grouping.count, group = 0;
    gd_named *named = gd_module_parameters(module, glob);
    if (!named) return gd_error(o->ctx) ? gd_error(o->ctx) : GD_ARGUMENT;
    said s = {.o = o, .settings = settings};
    gd_status status = settings ? group_from(o, &s, &group) : GD_OK;
    int64_t count = gd_named_count(named);
    for (int64_t i = 0; i < count && !status; i++)
        status = gd__param_add(o, gd_named_name(named, i), gd_named_tensor(named, i), group);
    if (!status && !count)
        status = gd_fail(o->ctx, GD_ATTRIBUTE, "optimizer: no parameter of the module matches '%.80s'",
                         glob ? glob : "*");
    gd_named_release(named);
    if (status) {
        gd__params_truncate(o, before);
        if (o->grouping.count > groups) drop_last_group(o);
    } else
        take_model(o, module);
    return status;
}

gd_module *gd_optimizer_model(const gd_optimizer *o) { return o ? o->model : NULL; }

/* Room for so many more groups. */
static gd_status group_rooms(gd_optimizer *o, int more)
{
    size_t room = (size_t)o->grouping.room, need = (size_t)(o->grouping.count + more),
           size = sizeof *o->grouping.list;
    if (need <= room) return GD_OK;
    gd_group *list = gd__realloc(o->ctx, o->grouping.list, room * size, need * size);
    if (!list) return GD_NOMEM;
    o->grouping.list = list;
    o->grouping.room = (int)need;
    return GD_OK;
}

/* Settings of the parameters that match. */
typedef struct regrouping {
    gd_optimizer *o;
    const char *glob;
    gd_status (*say)(void *user, gd_group *group); /* puts it into a group */
    void *user;
    bool first_stays; /* the first group, which new parameters join, is split even if all of them match */
    gd_group *made;   /* copies each group with matching members, with the new settings */
} regrouping;

/* Does the copy replace the group? Else the matching members move to the copy. */
static bool takes_place(const regrouping *r, int group)
{
    return (group || !r->first_stays) && members(r->o, group, r->glob) == members(r->o, group, NULL);
}

static gd_status make_copies(regrouping *r)
{
    gd_status status = GD_OK;
    int splits = 0;
    for (int g = 0; g < r->o->grouping.count && !status; g++) {
        if (!members(r->o, g, r->glob)) continue;
        splits += !takes_place(r, g);
        status = copy_group(r->o, &r->o->grouping.list[g], &r->made[g]);
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
            gd_group before = o->grouping.list[g];
            o->grouping.list[g] = r->made[g];
            r->made[g] = before;
            continue;
        }
        for (int i = 0; i < o->count; i++)
            if (o->param[i].group == g && selected(o, i, r->glob)) o->param[i].group = o->grouping.count;
        o->grouping.list[o->grouping.count++] = r->made[g];
        r->made[g] = (gd_group){0};
    }
    gd__optimizer_changed(o, true);
}

/* All of it or, on failure, nothing. */
static gd_status regroup(regrouping *r)
{
    int count = r->o->grouping.count;
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
    gd_status status = gd_select(o->ctx, glob, NULL, NULL, NULL);
    if (status) return status;
    for (int i = 0; i < o->count; i++)
        if (selected(o, i, glob)) return GD_OK;
    return gd_fail(o->ctx, GD_ATTRIBUTE, "%s: no parameter matches '%.80s'", what, glob);
}

static gd_status split_off(gd_optimizer *o, const char *glob, gd_status (*say)(void *, gd_group *), said *s)
{
    regrouping r = {.o = o, .glob = glob, .say = say, .user = s, .first_stays = true};
    gd_status status = check_match(o, "group", glob);
    if (!status) status = gd__not_stepping(o, "splitting a group");
    return status ? status : regroup(&r);
}

gd_status gd_optimizer_regroup(gd_optimizer *o, const char *glob, const char *settings)
{
    if (!o) return GD_ARGUMENT;
    said s = {.o = o, .settings = settings};
    return split_off(o, glob, say_settings, &s);
}

gd_status gd_optimizer_regroup_with(gd_optimizer *o, const char *glob, const gd_link_option *settings,
                                    int count)
{
    if (!o || (count > 0 && !settings))
        return gd__null(gd_optimizer_ctx(o), "optimizer: the settings of a group are NULL");
    said s = {.o = o, .option = settings, .options = count};
    return split_off(o, glob, say_options, &s);
}

gd_status gd_optimizer_group_settings(gd_optimizer *o, int group, const gd_link_option *settings, int count)
{
    if (!o || (count > 0 && !settings))
        return gd__null(gd_optimizer_ctx(o), "optimizer: the settings of a group are NULL");
    gd_group copy = {0};
    said s = {.o = o, .option = settings, .options = count};
    gd_status status = group < 0
                           ? gd_fail(o->ctx, GD_INDEX, "group %d is not one of %d", group, o->grouping.count)
                           : check_group(o, group);
    if (!status) status = copy_group(o, &o->grouping.list[group], &copy);
    if (!status) status = say_options(&s, &copy);
    if (!status) {
        gd_group before = o->grouping.list[group];
        o->grouping.list[group] = copy;
        copy = before;
    }
    gd__group_free(o->ctx, &copy);
    gd__optimizer_changed(o, true);
    return status;
}

static gd_status say_schedule(void *user, gd_group *group)
{
    said *s = user;
    return set_key(s->o, group, s->key, &s->now);
}

gd_status gd_optimizer_schedule_matching(gd_optimizer *o, const char *glob, const char *key, const char *text)
{
    if (!o || !glob || !key)
        return gd__null(gd_optimizer_ctx(o), "optimizer: the glob or the name of a setting is NULL");
    gd_schedule schedule;
    said s = {.o = o, .key = key};
    regrouping r = {.o = o, .glob = glob, .say = say_schedule, .user = &s};
    gd_status status = gd__not_stepping(o, "splitting a group");
    if (!status) status = check_match(o, "schedule", glob);
    if (!status) status = read_schedule(o, text, &schedule, &s.now);
    if (!status) status = check_group_key(o, key, &s.now);
    return status ? status : regroup(&r);
}

/* ---- removing settings ---- */

static gd_status no_such_key(gd_optimizer *o, int group, const char *what, const char *key)
{
    if (group < 0) return gd_fail(o->ctx, GD_ATTRIBUTE, "group: no group has a %s '%.80s'", what, key);
    return gd_fail(o->ctx, GD_ATTRIBUTE, "group: group %d has no %s '%.80s'", group, what, key);
}

/* Takes something of a setting back in a group, or in all (group < 0) and what holds for all. */
static gd_status take_back(gd_optimizer *o, int group, const char *key,
                           bool (*fn)(gd_optimizer *o, gd_group *g, const char *key), const char *what)
{
    if (!o || !key) return gd__null(gd_optimizer_ctx(o), "optimizer: the name of a setting is NULL");
    gd_status status = check_group(o, group);
    if (status) return status;
    bool found = group < 0 && fn(o, &o->grouping.all, key);
    for (int g = 0; g < o->grouping.count; g++)
        if (group < 0 || g == group) found = fn(o, &o->grouping.list[g], key) || found;
    return found ? GD_OK : no_such_key(o, group, what, key);
}

gd_status gd_optimizer_unset(gd_optimizer *o, int group, const char *key)
{
    gd_status status = take_back(o, group, key, drop_key, "setting");
    if (!status) gd__optimizer_changed(o, true);
    return status;
}

static bool stop_schedule(gd_optimizer *o, gd_group *g, const char *key)
{
    gd_group_setting *s = find_key(g, key);
    if (!s || !s->value.schedule) return false;
    double last = s->value.real;
    gd__setting_free(o->ctx, &s->value);
    s->value = (gd_setting){.kind = GD_SET_REAL, .real = last};
    return true;
}

gd_status gd_optimizer_unschedule(gd_optimizer *o, int group, const char *key)
{
    return take_back(o, group, key, stop_schedule, "schedule of");
}
