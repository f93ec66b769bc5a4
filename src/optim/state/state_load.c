/* Loading the state of an optimizer; see state.c for what is in the archive.
 *
 * Everything is read and checked into staging copies: links of the same classes that do not run. Only if all of it fits,
 * copies and links swap their state, which cannot fail. */
#include "module/report.h"
#include "base/text/json.h"
#include "optim/text/setting.h"
#include "optim/state/state.h"

#include <string.h>

typedef struct staged_link {
    gd_link *link, *with;
} staged_link;

typedef struct loading {
    gd_ctx *ctx;
    gd_optimizer *o;
    const gd_archive *archive;
    const char *prefix;
    json_t *json;
    json_t *places;   /* of links: the path here, the path in the file */
    json_t *standing; /* of stand-ins: the name in the file, the address of the tensor made for it */
    bool strict;
    gd_text name;
    gd_load_notes missing, unexpected, other;
    gd_load_parts parts;
    bool unreadable;     /* a tensor of the archive */
    bool *used;          /* a tensor of the archive */
    bool *present;       /* a parameter is in the file */
    gd_state_axes *axes; /* of each parameter */
    int *group_of;       /* of each parameter */
    staged_link *staged;
    int staged_count, links;
    gd_group *group;
    int groups, group_room;
    gd_group all;
    gd_attr *attr;
    int attrs, attr_room;
    gd_rng rng;
} loading;

/* ---- reports of differences ---- */

/* Missing and unexpected names are an error in strict loading only, else a warning for those who want no report; another
 * shape or dtype never fits. */
static gd_status verdict(loading *l)
{
    if (l->missing.text.failed || l->unexpected.text.failed || l->other.text.failed) return GD_NOMEM;
    if (l->unreadable) return gd_error(l->ctx);
    int names = l->missing.count + l->unexpected.count;
    bool fails = l->other.count || (l->strict && names);
    if (!fails && (!names || l->missing.report)) return GD_OK;
    gd_status status = GD_OK;
    gd_text text = {.ctx = l->ctx};
    gd__load_say(&text, "missing", &l->missing);
    gd__load_say(&text, "unexpected", &l->unexpected);
    gd__load_say(&text, "different", &l->other);
    if (text.failed)
        status = GD_NOMEM;
    else if (fails)
        status = gd_fail(l->ctx, GD_MISMATCH, "optimizer state: %s", text.data);
    else
        gd_warn(l->ctx, "optimizer state: %s", text.data);
    gd__text_free(&text);
    return status;
}

static int param_number(const gd_optimizer *o, const char *name)
{
    for (int i = 0; i < o->count; i++)
        if (!strcmp(o->param[i].name, name)) return i;
    return -1;
}

/* ---- tensors ---- */

/* The number of a tensor of the archive, marked as used; -1 when it is not there. */
static int64_t find_tensor(loading *l, const char *param, const char *path, const char *last)
{
    if (gd__state_name(&l->name, l->prefix, param, path, last)) return -1;
    for (int64_t i = 0; i < gd_archive_count(l->archive); i++) {
        if (strcmp(gd_archive_name(l->archive, i), l->name.data)) continue;
        l->used[i] = true;
        return i;
    }
    gd__load_note(&l->missing, "tensor %s", l->name.data + strlen(l->prefix));
    return -1;
}

static gd_tensor *tensor_at(loading *l, int64_t index)
{
    gd_tensor *t = index < 0 ? NULL : gd_archive_get(l->archive, index);
    l->unreadable = l->unreadable || (index >= 0 && !t);
    return t;
}

/* NULL when it is not there, or cannot be read. */
static gd_tensor *take_tensor(loading *l, const char *param, const char *path, const char *last)
{
    return tensor_at(l, find_tensor(l, param, path, last));
}

static gd_status find_unexpected(loading *l)
{
    size_t length = strlen(l->prefix);
    for (int64_t i = 0; i < gd_archive_count(l->archive); i++) {
        const char *name = gd_archive_name(l->archive, i);
        if (l->used[i] || strncmp(name, l->prefix, length)) continue;
        /* with a prefix of nothing, tensors with unrelated names belong to other objects */
        if (!strchr(name + length, '/')) continue;
        gd__load_note(&l->unexpected, "tensor %s", name + length);
    }
    return GD_OK;
}

static gd_device *usual_device(const loading *l)
{
    return l->o->count ? l->o->param[0].tensor->storage->device : gd__cpu(l->ctx);
}

/* ---- parameters ---- */

static gd_status read_params(loading *l)
{
    json_t *params = json_object_get(l->json, "params"), *j;
    const char *name;
    if (!json_is_object(params)) return gd__state_malformed(l->ctx, "the list of parameters");
    json_object_foreach(params, name, j)
    {
        int i = param_number(l->o, name);
        json_int_t group = json_integer_value(json_object_get(j, "group"));
        if (group < 0 || group >= l->groups) return gd__state_malformed(l->ctx, "the group of a parameter");
        if (i < 0) {
            gd__load_note(&l->unexpected, "parameter %s", name);
            continue;
        }
        gd_status status = gd__state_axes_meet(&l->other, name, j, l->o->param[i].tensor, &l->axes[i]);
        if (status) return status;
        l->present[i] = true;
        l->group_of[i] = (int)group;
    }
    for (int i = 0; i < l->o->count; i++)
        if (!l->present[i]) gd__load_note(&l->missing, "parameter %s", l->o->param[i].name);
    return GD_OK;
}

/* ---- stand-ins: tensors of links instead of parameters ---- */

/* The parameter or stand-in of a name; NULL: there is none. */
static gd_tensor *key_named(const loading *l, const char *name)
{
    int number = param_number(l->o, name);
    if (number >= 0) return l->o->param[number].tensor;
    return (gd_tensor *)(intptr_t)json_integer_value(json_object_get(l->standing, name));
}

static int64_t all_elements(const gd_optimizer *o)
{
    int64_t sum = 0;
    for (int i = 0; i < o->count; i++) sum += o->param[i].tensor->numel;
    return sum;
}

/* Zeros of a shape given in the file, owned; the link sets them before its child steps. */
static gd_tensor *make_stand_in(loading *l, const json_t *j)
{
    const char *dtype = json_string_value(json_object_get(j, "dtype"));
    const json_t *shape = json_object_get(j, "shape");
    int64_t size[GD_MAX_DIMS], most = all_elements(l->o), numel = 1;
    size_t ndim = json_array_size(shape);
    bool good = dtype && gd_dtype_is_float(gd_dtype_from_name(dtype)) && ndim <= GD_MAX_DIMS;
    for (size_t i = 0; i < ndim && good; i++) {
        size[i] = json_integer_value(json_array_get(shape, i));
        good = size[i] >= 0 && size[i] <= most && (numel *= size[i]) <= most;
    }
    if (!good) return (void)gd__state_malformed(l->ctx, "a tensor in place of a parameter"), NULL;
    gd_scope_begin(l->ctx);
    gd_tensor *t = gd_zeros(l->ctx, gd_dtype_from_name(dtype), (int)ndim, size);
    t = t ? gd_to_device(t, usual_device(l)) : NULL;
    if (t) gd__own(t);
    gd_scope_end(l->ctx);
    return t;
}

static gd_status name_stand_in(loading *l, const char *of, const char *path, int k, const gd_tensor *t)
{
    l->name.used = 0;
    gd__text_put(&l->name, "%s%s%s#%d", of ? of : "", of ? "/" : "", path, k);
    if (l->name.failed) return GD_NOMEM;
    return json_object_set_new(l->standing, l->name.data, json_integer((intptr_t)t)) ? GD_NOMEM : GD_OK;
}

static gd_status read_block(loading *l, gd_link *with, const char *path, const json_t *j)
{
    const char *of = json_string_value(json_object_get(j, "of"));
    gd_tensor *param = of ? key_named(l, of) : NULL;
    const json_t *list = json_object_get(j, "tensors");
    int count = (int)json_array_size(list);
    if (of && !param) return gd__load_note(&l->unexpected, "state of %s for %s", path, of), GD_OK;
    gd_tensor **tensor = gd__tensors_new(l->ctx, count);
    gd_status status = tensor ? GD_OK : GD_NOMEM;
    for (int k = 0; k < count && !status; k++) {
        tensor[k] = make_stand_in(l, json_array_get(list, (size_t)k));
        status = tensor[k] ? name_stand_in(l, of, path, k, tensor[k]) : gd_error(l->ctx);
    }
    if (!status) return gd__stand_ins_add(with, param, tensor, count);
    gd__tensors_free(l->ctx, tensor, count);
    return status;
}

static gd_status read_stand_ins(loading *l, gd_link *with, const char *path, const json_t *list)
{
    gd_status status = GD_OK;
    for (size_t i = 0; i < json_array_size(list) && !status; i++)
        status = read_block(l, with, path, json_array_get(list, i));
    return status;
}

/* ---- links ---- */

/* Copies of link's own settings, to be overwritten by those of the file. */
static gd_status copy_settings(gd_ctx *ctx, const gd_link *link, gd_link *with)
{
    gd_status status = GD_OK;
    for (int i = 0; i < link->cls->field_count && !status; i++) {
        gd__setting_free(ctx, &with->value[i]);
        if (link->value[i].kind == GD_SET_CHAIN)
            with->value[i].kind = GD_SET_CHAIN;
        else if (link->value[i].kind)
            status = gd__setting_copy(ctx, &with->value[i], &link->value[i]);
    }
    return status;
}

static gd_link *make_staged(loading *l, gd_link *link)
{
    gd_link *with = gd_link_new(l->ctx, link->cls);
    if (!with) return NULL;
    if (!link->cls->unpack) { /* then the link keeps the data it has */
        gd__free(l->ctx, with->data, link->cls->data_size);
        with->data = NULL;
    }
    l->staged[l->staged_count++] = (staged_link){.link = link, .with = with};
    return copy_settings(l->ctx, link, with) ? NULL : with;
}

/* Settings of a link, or of a link for one parameter. */
static gd_status read_settings(loading *l, const char *path, gd_link *with, gd_setting *place,
                               json_t *settings)
{
    const char *key;
    json_t *j;
    json_object_foreach(settings, key, j)
    {
        int field = gd__field_index(with->cls, key);
        if (field < 0) {
            gd__load_note(&l->unexpected, "setting %s of %s", key, path);
            continue;
        }
        gd_setting value, copy = {0};
        gd_status status = gd__state_read_setting(l->ctx, j, &value);
        if (status) return status;
        status = gd__field_check(l->ctx, "", with->cls, &with->cls->fields[field], &value);
        if (!status) status = gd__setting_copy(l->ctx, &copy, &value);
        gd__setting_free(l->ctx, &value);
        if (status) return status;
        if (place[field].kind == GD_SET_CHAIN) { /* a child exists here and not in the file */
            gd__setting_free(l->ctx, &copy);
            continue;
        }
        gd__setting_free(l->ctx, &place[field]);
        place[field] = copy;
    }
    return GD_OK;
}

/* Where the elements of a parameter are in the file, if anywhere else than here; NULL: all are where they are. */
static const gd_state_axes *moved_axes(const loading *l, const gd_tensor *param)
{
    int number = gd__param_index(l->o, param);
    return number >= 0 && l->axes[number].file ? &l->axes[number] : NULL;
}

/* Owned; NULL with an error, or with a note. */
static gd_tensor *slot_here(loading *l, const gd_link *link, gd_tensor *t, gd_tensor *param)
{
    const gd_state_axes *moved = moved_axes(l, param);
    if (!moved) return gd__copy_on(t, param->storage->device);
    gd_tensor *own = gd__state_axes_move(moved, link, t, param);
    if (!own && !gd_error(l->ctx))
        gd__load_note(&l->other,
                      "%s cannot follow its parameter, whose elements are in a different order here",
                      l->name.data + strlen(l->prefix));
    return own;
}

/* Rules run over the memory of a slot: it must have the format that they create. */
static void check_slot(loading *l, gd_link *link, int slot, const gd_tensor *t, const gd_tensor *param)
{
    char got[256], want[256];
    gd_dtype dtype = gd__slot_dtype(link, slot, param, param);
    if (!link->cls->rule || gd__slot_fits_as(link, slot, t, param, dtype)) return;
    gd__load_note(&l->other, "%s is %s %s here and %s %s in the file", l->name.data + strlen(l->prefix),
                  gd_dtype_name(dtype), gd__shape_text(param, want, sizeof want), gd_dtype_name(t->dtype),
                  gd__shape_text(t, got, sizeof got));
}

static gd_status read_slots(loading *l, gd_link *link, const char *path, gd_entry *e, const char *param,
                            json_t *slots)
{
    size_t i;
    json_t *j;
    json_array_foreach(slots, i, j)
    {
        const char *name = json_string_value(j);
        int slot = name ? gd__slot_index(link->cls, name) : -1;
        int64_t index = name ? find_tensor(l, param, path, name) : -1;
        bool taken = false;
        if (!name) return gd__state_malformed(l->ctx, "a list of state");
        if (slot < 0) gd__load_note(&l->unexpected, "state %s of %s", name, path);
        gd_status status = slot < 0 || index < 0 || moved_axes(l, e->param)
                               ? GD_OK
                               : gd__load_part(&l->parts, link, e, slot, index, &taken);
        if (status) return status;
        gd_tensor *t = slot < 0 || taken ? NULL : tensor_at(l, index);
        if (!t) continue;
        gd__release(e->slot[slot]);
        e->slot[slot] = slot_here(l, link, t, e->param);
        if (!e->slot[slot] && gd_error(l->ctx)) return gd_error(l->ctx);
        if (e->slot[slot]) check_slot(l, link, slot, e->slot[slot], e->param);
    }
    return GD_OK;
}

static gd_status read_entry(loading *l, gd_link *link, gd_link *with, const char *path, const char *param,
                            json_t *j)
{
    gd_tensor *key = key_named(l, param);
    if (!key) {
        gd__load_note(&l->unexpected, "state of %s for %s", path, param);
        return GD_OK;
    }
    gd_entry *e = gd__entry(with, key);
    gd_status status = e ? read_slots(l, link, path, e, param, json_object_get(j, "slots")) : GD_NOMEM;
    if (status) return status;
    json_t *fresh = json_object_get(j, "fresh"), *scalars = json_object_get(j, "scalars"), *item;
    json_t *local = json_object_get(j, "local");
    for (size_t i = 0; i < json_array_size(fresh); i++) {
        const char *name = json_string_value(json_array_get(fresh, i));
        int slot = name ? gd__slot_index(link->cls, name) : -1;
        if (slot >= 0) e->fresh[slot] = true;
    }
    const char *name;
    json_object_foreach(scalars, name, item)
    {
        int k = gd__scalar_index(link->cls, name);
        if (k < 0)
            gd__load_note(&l->unexpected, "number %s of %s", name, path);
        else if (!gd__state_read_real(item, &e->scalar[k]))
            return gd__state_malformed(l->ctx, "a number");
    }
    e->missed = json_integer_value(json_object_get(j, "missed"));
    if (e->missed < 0 || e->missed > with->step) return gd__state_malformed(l->ctx, "a count of steps");
    with->uneven = with->uneven || e->missed;
    if (!local) return GD_OK;
    if (moved_axes(l, key)) gd__state_axes_lists(&l->other, path, param, local);
    e->local = gd__calloc(l->ctx, (size_t)link->cls->field_count * sizeof *e->local);
    if (!e->local) return GD_NOMEM;
    with->locals++;
    return read_settings(l, path, with, e->local, local);
}

static gd_status read_globals(loading *l, gd_link *with, const char *path, const json_t *j)
{
    json_t *globals = json_object_get(j, "globals"), *tensors = json_object_get(j, "tensors"), *item;
    const char *name;
    json_object_foreach(globals, name, item)
    {
        double value, *place;
        if (!gd__state_read_real(item, &value)) return gd__state_malformed(l->ctx, "a number");
        if (!(place = gd_link_global(with, name, 0))) return GD_NOMEM;
        *place = value;
    }
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        name = json_string_value(json_array_get(tensors, i));
        if (!name) return gd__state_malformed(l->ctx, "a list of tensors");
        gd_tensor *t = take_tensor(l, NULL, path, name);
        if (!t) continue;
        gd_tensor *copy = gd__copy_on(t, usual_device(l));
        gd_status status = copy ? gd_link_set_global_tensor(with, name, copy) : gd_error(l->ctx);
        gd__release(copy);
        if (status) return status;
    }
    return GD_OK;
}

static gd_status read_link(void *user, gd_link *link, const char *place)
{
    loading *l = user;
    if (gd__is_chain(link)) return GD_OK; /* it has no state */
    const char *path = json_string_value(json_object_get(l->places, place));
    json_t *j = json_object_get(json_object_get(l->json, "links"), path), *params, *item;
    if (!j) {
        gd__load_note(&l->missing, "link %s", place);
        return GD_OK;
    }
    gd_link *with = make_staged(l, link);
    gd_status status = with ? read_settings(l, path, with, with->value, json_object_get(j, "settings"))
                            : GD_NOMEM;
    if (!status) status = read_globals(l, with, path, j);
    if (!status) status = read_stand_ins(l, with, path, json_object_get(j, "stand_ins"));
    gd__state_axes_joint(&l->other, l->o, l->axes, path, j);
    params = json_object_get(j, "params");
    const char *name;
    if (!status && !json_is_object(params)) status = gd__state_malformed(l->ctx, "the state of a link");
    if (status) return status;
    with->step = json_integer_value(json_object_get(j, "step"));
    with->unlisted = !json_object_size(params);
    with->seeded = gd__state_read_generator(json_object_get(j, "generator"), &with->rng);
    json_object_foreach(params, name, item)
    {
        status = read_entry(l, link, with, path, name, item);
        if (status) return status;
    }
    return link->cls->unpack ? link->cls->unpack(with) : GD_OK;
}

static gd_status count_link(void *user, gd_link *link, const char *path)
{
    (void)link;
    (void)path;
    ((loading *)user)->links++;
    return GD_OK;
}

/* Links of the file without a counterpart here. */
static gd_status note_left(loading *l, json_t *links)
{
    json_t *left = json_copy(links), *j;
    const char *path;
    if (!left) return GD_NOMEM;
    json_object_foreach(l->places, path, j)(void) json_object_del(left, json_string_value(j));
    json_object_foreach(left, path, j)
    {
        const char *dot = strrchr(path, '.'), *colon = strchr(dot ? dot : path, ':');
        if (!colon || strcmp(colon, ":chain") != 0) gd__load_note(&l->unexpected, "link %s", path);
    }
    json_decref(left);
    return GD_OK;
}

/* Every link of the chain, and additional links of the file. */
static gd_status read_links(loading *l)
{
    char root[GD_ROOT_PATH];
    json_t *links = json_object_get(l->json, "links");
    if (!json_is_object(links)) return gd__state_malformed(l->ctx, "the list of links");
    (void)gd__root_path(l->o, root);
    gd_status status = gd__match_links(l->o, links, l->strict, &l->places);
    if (!status) status = note_left(l, links);
    if (!status) status = gd__visit_links(l->o->chain, root, count_link, l);
    l->staged = status ? NULL : gd__calloc(l->ctx, (size_t)l->links * sizeof *l->staged);
    if (!status && !l->staged) status = GD_NOMEM;
    return status ? status : gd__visit_links(l->o->chain, root, read_link, l);
}

/* ---- groups and attributes ---- */

static gd_status read_group_setting(loading *l, gd_group *g, const char *key, const json_t *j,
                                    const json_t *schedule)
{
    gd_group_setting *s = gd__group_key(l->o, g, key);
    gd_setting value = {0};
    gd_status status = !s         ? GD_NOMEM
                       : schedule ? gd__state_read_schedule(l->ctx, schedule, &value)
                                  : gd__state_read_setting(l->ctx, j, &value);
    double now;
    if (schedule && !status && gd__state_read_real(j, &now)) value.real = now; /* of the saved step */
    if (!status) status = gd__group_check(l->o, key, &value);
    if (!status) status = gd__setting_copy(l->ctx, &s->value, &value);
    gd__setting_free(l->ctx, &value);
    return status;
}

static gd_status read_group(loading *l, gd_group *g, const json_t *j)
{
    json_t *settings = json_object_get(j, "settings"), *schedules = json_object_get(j, "schedules"), *item;
    const char *key;
    if (!json_is_object(settings) || !json_is_object(schedules))
        return gd__state_malformed(l->ctx, "a group");
    json_object_foreach(settings, key, item)
    {
        const json_t *schedule = json_object_get(schedules, key);
        gd_status status = read_group_setting(l, g, key, item, schedule);
        if (status) return status;
    }
    return GD_OK;
}

static gd_status read_groups(loading *l)
{
    const json_t *groups = json_object_get(l->json, "groups");
    size_t n = json_array_size(groups);
    if (!n) return gd__state_malformed(l->ctx, "the list of groups");
    l->group = gd__calloc(l->ctx, n * sizeof *l->group);
    if (!l->group) return GD_NOMEM;
    gd_status status = GD_OK;
    l->groups = l->group_room = (int)n;
    for (size_t i = 0; i < n && !status; i++) status = read_group(l, &l->group[i], json_array_get(groups, i));
    /* older files have the settings of all groups in each group */
    const json_t *all = json_object_get(l->json, "all");
    return status || !all ? status : read_group(l, &l->all, all);
}

static gd_status read_attributes(loading *l)
{
    json_t *attrs = json_object_get(l->json, "attributes"),
           *tensors = json_object_get(l->json, "attribute_tensors"), *j;
    const char *name;
    if (!json_is_object(attrs)) return gd__state_malformed(l->ctx, "the list of attributes");
    size_t n = json_object_size(attrs);
    l->attr = gd__calloc(l->ctx, n * sizeof *l->attr);
    if (!l->attr) return GD_NOMEM;
    l->attr_room = (int)n;
    json_object_foreach(attrs, name, j)
    {
        gd_attr *a = &l->attr[l->attrs++];
        a->name = gd__intern(l->ctx, name, strlen(name));
        if (!a->name) return GD_NOMEM;
        if (!gd__state_read_real(j, &a->value)) return gd__state_malformed(l->ctx, "an attribute");
        for (size_t i = 0; i < json_array_size(tensors); i++) {
            const char *with = json_string_value(json_array_get(tensors, i));
            gd_tensor *t = with && !strcmp(with, name) ? take_tensor(l, NULL, "attribute", name) : NULL;
            if (t && !a->tensor && !(a->tensor = gd__copy_on(t, usual_device(l)))) return gd_error(l->ctx);
        }
    }
    return GD_OK;
}

/* ---- the swap ---- */

static bool is_stand_in(const loading *l, const gd_tensor *t)
{
    bool is = false;
    for (int i = 0; i < l->staged_count && !is; i++)
        is = gd__map_find(&l->staged[i].link->standing, t) >= 0 ||
             gd__map_find(&l->staged[i].with->standing, t) >= 0;
    return is;
}

/* State of links for stand-ins is dropped with the stand-ins, which are made again. */
static bool stays(const loading *l, const gd_tensor *param)
{
    int number = gd__param_index(l->o, param);
    return number < 0 ? !is_stand_in(l, param) : !l->present[number];
}

/* Memory in the staging copy for entries of parameters missing in the file. */
static gd_status reserve_entries(loading *l)
{
    for (int i = 0; i < l->staged_count; i++) {
        gd_link *link = l->staged[i].link, *with = l->staged[i].with;
        size_t have = (size_t)with->entry_capacity, need = (size_t)(with->entries + link->entries);
        gd_entry **list = gd__realloc(l->ctx, with->entry, have * sizeof *list, need * sizeof *list);
        if (!list) return GD_NOMEM;
        with->entry = list;
        with->entry_capacity = (int)need;
        for (int k = 0; k < link->entries; k++) {
            if (!stays(l, link->entry[k]->param)) continue;
            if (gd__map_reserve(l->ctx, &with->table)) return GD_NOMEM;
            gd__map_put(&with->table, link->entry[k]->param, with->entries + k); /* the number is set below */
        }
    }
    return GD_OK;
}

#define SWAP(a, b)               \
    do {                         \
        __typeof__(a) swap_ = a; \
        a = b;                   \
        b = swap_;               \
    } while (0)

static void swap_link(gd_link *a, gd_link *b)
{
    SWAP(a->value, b->value);
    SWAP(a->entry, b->entry);
    SWAP(a->entries, b->entries);
    SWAP(a->entry_capacity, b->entry_capacity);
    SWAP(a->locals, b->locals);
    SWAP(a->table, b->table);
    SWAP(a->global, b->global);
    SWAP(a->globals, b->globals);
    SWAP(a->stand_in, b->stand_in);
    SWAP(a->stand_ins, b->stand_ins);
    SWAP(a->stand_in_room, b->stand_in_room);
    SWAP(a->standing, b->standing);
    SWAP(a->step, b->step);
    SWAP(a->uneven, b->uneven);
    SWAP(a->unlisted, b->unlisted);
    SWAP(a->rng, b->rng);
    SWAP(a->seeded, b->seeded);
    if (a->cls->unpack) SWAP(a->data, b->data);
}

static void number_entries(gd_link *link)
{
    gd__map_clear(&link->table);
    for (int i = 0; i < link->entries; i++) gd__map_put(&link->table, link->entry[i]->param, i);
}

/* Moves entries that stay from the old ones, which the staging copy now has. */
static void keep_entries(const loading *l, gd_link *link, gd_link *old)
{
    int left = 0;
    for (int i = 0; i < old->entries; i++) {
        gd_entry *e = old->entry[i];
        if (!stays(l, e->param)) {
            old->entry[left++] = e;
            continue;
        }
        e->missed += link->step - old->step; /* its step count is unchanged */
        link->uneven = link->uneven || e->missed;
        link->entry[link->entries++] = e;
        link->locals += e->local != NULL;
    }
    old->entries = left;
    number_entries(link);
}

/* Groups of parameters that the file does not know come after those of the file.  *appended: how many. */
static gd_status append_groups(loading *l, int *appended)
{
    gd_optimizer *o = l->o;
    bool all_present = true;
    for (int i = 0; i < o->count; i++) all_present = all_present && l->present[i];
    *appended = all_present ? 0 : o->grouping.count;
    if (all_present) return GD_OK;
    size_t n = (size_t)l->groups, all = n + (size_t)o->grouping.count;
    gd_group *list = gd__realloc(l->ctx, l->group, n * sizeof *list, all * sizeof *list);
    if (!list) return GD_NOMEM;
    memset(list + n, 0, (all - n) * sizeof *list);
    l->group = list;
    l->groups = l->group_room = (int)all;
    for (int i = 0; i < o->count; i++)
        if (!l->present[i]) l->group_of[i] = (int)n + o->param[i].group;
    return GD_OK;
}

static void swap_optimizer(loading *l, int appended)
{
    gd_optimizer *o = l->o;
    for (int g = 0; g < appended; g++) SWAP(l->group[l->groups - appended + g], o->grouping.list[g]);
    for (int i = 0; i < o->count; i++) o->param[i].group = l->group_of[i];
    SWAP(l->group, o->grouping.list);
    SWAP(l->groups, o->grouping.count);
    SWAP(l->group_room, o->grouping.room);
    SWAP(l->all, o->grouping.all);
    SWAP(l->attr, o->attr);
    SWAP(l->attrs, o->attrs);
    l->attr_room = l->attrs;
    o->step = json_integer_value(json_object_get(l->json, "step"));
    o->held = json_integer_value(json_object_get(l->json, "held"));
    o->evals = json_integer_value(json_object_get(l->json, "evals"));
    o->constraint_evals = json_integer_value(json_object_get(l->json, "constraint_evals"));
    o->should_terminate = json_is_true(json_object_get(l->json, "terminate"));
    o->ctx->rng = l->rng;
    o->shared.partial = false;
    gd__optimizer_changed(o, true);
}

/* Settings that came from the file must fit together too; if not, all links get back what they had. */
static gd_status swap_links(loading *l)
{
    gd_status status = GD_OK;
    for (int i = 0; i < l->staged_count; i++) swap_link(l->staged[i].link, l->staged[i].with);
    for (int i = 0; i < l->staged_count && !status; i++) {
        gd_link *link = l->staged[i].link;
        if (link->cls->check) status = link->cls->check(link);
    }
    for (int i = 0; i < l->staged_count; i++) {
        if (status)
            swap_link(l->staged[i].link, l->staged[i].with);
        else
            keep_entries(l, l->staged[i].link, l->staged[i].with);
        l->o->stand_ins = l->o->stand_ins || l->staged[i].link->stand_ins;
    }
    return status;
}

/* ---- all of it ---- */

static gd_status parse(loading *l)
{
    l->name.used = 0;
    gd__text_put(&l->name, "%soptimizer", l->prefix);
    const char *text = l->name.failed ? NULL : gd_archive_get_meta(l->archive, l->name.data);
    if (!text) return gd_fail(l->ctx, GD_FORMAT, "optimizer state: there is none in the file");
    json_error_t error;
    l->json = gd__json_read(text, strlen(text), &error);
    if (!l->json) return gd_fail(l->ctx, GD_FORMAT, "optimizer state: line %d: %s", error.line, error.text);
    if (json_integer_value(json_object_get(l->json, "version")) != 1)
        return gd_fail(l->ctx, GD_FORMAT, "optimizer state: of a version that this one does not know");
    return gd__state_read_generator(json_object_get(l->json, "generator"), &l->rng)
               ? GD_OK
               : gd__state_malformed(l->ctx, "the generator");
}

static gd_status make_rooms(loading *l)
{
    size_t params = (size_t)l->o->count, tensors = (size_t)gd_archive_count(l->archive);
    l->used = gd__calloc(l->ctx, tensors * sizeof *l->used);
    l->present = gd__calloc(l->ctx, params * sizeof *l->present);
    l->axes = gd__calloc(l->ctx, params * sizeof *l->axes);
    l->group_of = gd__calloc(l->ctx, params * sizeof *l->group_of);
    l->standing = json_object();
    return l->used && l->present && l->axes && l->group_of && l->standing ? GD_OK : GD_NOMEM;
}

static void loading_free(loading *l)
{
    gd_ctx *ctx = l->ctx;
    for (int i = 0; i < l->staged_count; i++) gd_link_release(l->staged[i].with);
    gd__load_parts_free(&l->parts);
    gd__free(ctx, l->staged, (size_t)l->links * sizeof *l->staged);
    for (int i = 0; i < l->groups; i++) gd__group_free(ctx, &l->group[i]);
    gd__group_free(ctx, &l->all);
    gd__free(ctx, l->group, (size_t)l->group_room * sizeof *l->group);
    for (int i = 0; i < l->attrs; i++) gd__release(l->attr[i].tensor);
    gd__free(ctx, l->attr, (size_t)l->attr_room * sizeof *l->attr);
    gd__free(ctx, l->used, (size_t)gd_archive_count(l->archive) * sizeof *l->used);
    gd__free(ctx, l->present, (size_t)l->o->count * sizeof *l->present);
    for (int i = 0; l->axes && i < l->o->count; i++) gd__release(l->axes[i].file);
    gd__free(ctx, l->axes, (size_t)l->o->count * sizeof *l->axes);
    gd__free(ctx, l->group_of, (size_t)l->o->count * sizeof *l->group_of);
    gd__text_free(&l->name);
    gd__text_free(&l->missing.text);
    gd__text_free(&l->unexpected.text);
    gd__text_free(&l->other.text);
    json_decref(l->places);
    json_decref(l->standing);
    json_decref(l->json);
}

static gd_load_notes notes_of(loading *l, gd_load_problem kind, const char *verb, gd_load_report *report)
{
    return (gd_load_notes){.text = {.ctx = l->ctx}, .kind = kind, .verb = verb, .report = report};
}

static gd_status unpack(gd_optimizer *o, const gd_archive *archive, const char *prefix, bool strict,
                        gd_load_report *report, gd_status status)
{
    gd_ctx *ctx = o->ctx;
    loading l = {.ctx = ctx, .o = o, .archive = archive, .prefix = prefix ? prefix : "", .strict = strict};
    l.name.ctx = ctx;
    l.missing = notes_of(&l, GD_LOAD_MISSING, "missing ", report);
    l.unexpected = notes_of(&l, GD_LOAD_UNEXPECTED, "unexpected ", report);
    l.other = notes_of(&l, GD_LOAD_SHAPE, "", report);
    int appended = 0;
    gd_status begun = gd__load_parts_begin(&l.parts, o, archive);
    if (!status) status = begun ? begun : make_rooms(&l);
    if (!status) status = parse(&l);
    if (!status) status = read_groups(&l);
    if (!status) status = read_params(&l);
    if (!status) status = read_attributes(&l);
    if (!status) status = read_links(&l);
    if (!status) status = find_unexpected(&l);
    if (!status) status = verdict(&l);
    if (!status) status = reserve_entries(&l);
    if (!status) status = append_groups(&l, &appended);
    status = gd__load_parts_end(&l.parts, status);
    if (!status) status = swap_links(&l);
    if (!status) swap_optimizer(&l, appended);
    for (int64_t i = 0; l.used && report && !status && i < gd_archive_count(archive); i++)
        gd__load_report_count_loaded(report, l.used[i]);
    loading_free(&l);
    return status;
}

gd_status gd_optimizer_unpack_report(gd_optimizer *o, const gd_archive *archive, const char *prefix,
                                     bool strict, gd_load_report **report)
{
    if (report) *report = NULL;
    if (!o || !archive) return gd__null(gd_optimizer_ctx(o), "optimizer: the archive is NULL");
    gd_status status = gd__not_stepping(o, "loading");
    if (!status && report && !(*report = gd__load_report_new(o->ctx))) status = gd_error(o->ctx);
    return unpack(o, archive, prefix, strict, report ? *report : NULL, status);
}

gd_status gd_optimizer_unpack(gd_optimizer *o, const gd_archive *archive, const char *prefix, bool strict)
{
    return gd_optimizer_unpack_report(o, archive, prefix, strict, NULL);
}
