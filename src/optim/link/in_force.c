/* Settings in force: the one place that combines the levels of a setting.
 *
 *     link-local  >  the parameter's group  >  all groups  >  the link's own (chain text or default)
 *
 * A schedule writes the number of the step into its group before the links run, so readers do not see the schedule.  Links
 * that are rules have a setting per parameter.  The others mostly have one for the whole step: they read that of the first
 * parameter, and differing parameters are an error that names them: before the step has changed anything if the class declares
 * how it reads, else when it reads. */
#include "optim/link/owner.h"
#include "optim/text/setting.h"

#include <math.h>
#include <string.h>

/* ---- levels ---- */

static const gd_setting *in_group(const gd_group *g, const char *key)
{
    for (int i = 0; i < g->settings; i++)
        if (!strcmp(g->setting[i].key, key)) return &g->setting[i].value;
    return NULL;
}

static const gd_setting *for_the_step(const gd_link *link, int field);

static const gd_setting *for_parameter(const gd_link *link, int field, const gd_tensor *param)
{
    const gd_optimizer *o = link->optimizer;
    if (o && !(param = gd__param_behind(o, param))) return for_the_step(link, field);
    if (link->locals) {
        gd_entry *e = gd__entry_find(link, param);
        if (e && e->local && e->local[field].kind) return &e->local[field];
    }
    if (!o || !o->grouping.keys || link->value[field].kind == GD_SET_CHAIN) return &link->value[field];
    int index = gd__param_index(o, param);
    if (index < 0) return &link->value[field];
    const gd_field *f = &link->cls->fields[field];
    const gd_setting *s = in_group(&o->grouping.list[o->param[index].group], f->name);
    if (!s) s = in_group(&o->grouping.all, f->name);
    return s && (s->kind & f->kinds) ? s : &link->value[field];
}

/* ---- one value for the whole step ---- */

/* Does a link get a parameter, or does a link above it pass the parameter to a different child? */
static bool comes_to(const gd_link *tree, const gd_link *link, const gd_tensor *param, bool *there)
{
    bool comes = *there = tree == link;
    for (int i = 0; i < tree->children && !*there; i++)
        comes = comes_to(tree->child[i], link, param, there) &&
                (!tree->cls->part || tree->cls->part(tree, param) == i);
    return comes;
}

/* The next parameter from i on that the link gets; the number of parameters if there is none. */
static int next_param(const gd_link *link, int i)
{
    const gd_optimizer *o = link->optimizer;
    bool there = true;
    while (i < o->count && !comes_to(o->chain, link, o->param[i].tensor, &there) && there) i++;
    return i;
}

/* Two parameters of the link's whose values differ: numbers of them, or false. */
static bool disagree(const gd_link *link, int field, int *a, int *b)
{
    const gd_optimizer *o = link->optimizer;
    *a = next_param(link, 0);
    if (*a == o->count) return false;
    const gd_setting *first = for_parameter(link, field, o->param[*a].tensor);
    for (int i = *a + 1; i < o->count; i++) {
        /* without settings for single parameters, one parameter represents its group */
        if (!link->locals && o->param[i].group == o->param[*a].group) continue;
        const gd_setting *other = for_parameter(link, field, o->param[i].tensor);
        if (gd__setting_equal(first, other) || next_param(link, i) != i) continue;
        *b = i;
        return true;
    }
    return false;
}

/* newton: damping is one number for the whole step, but 0 for 'p' (group 0) and 5 for 'q' (group 1) */
static gd_status refuse(const gd_link *link, int field, int a, int b)
{
    const gd_optimizer *o = link->optimizer;
    char one[80], two[80];
    gd_print text = gd__print(one, sizeof one);
    gd__setting_print(&text, for_parameter(link, field, o->param[a].tensor));
    text = gd__print(two, sizeof two);
    gd__setting_print(&text, for_parameter(link, field, o->param[b].tensor));
    return gd_fail(o->ctx, GD_VALUE,
                   "%s: '%s' has one value for the whole step, but is %s for '%.80s' (group %d) and %s for "
                   "'%.80s' (group %d)",
                   link->cls->name, link->cls->fields[field].name, one, o->param[a].name, o->param[a].group,
                   two, o->param[b].name, o->param[b].group);
}

/* Has every parameter the link's own settings? */
static inline bool is_alike(const gd_link *link)
{
    const gd_optimizer *o = link->optimizer;
    return !o || !o->count || !(o->grouping.keys || link->locals);
}

static const gd_setting *for_the_step(const gd_link *link, int field)
{
    const gd_optimizer *o = link->optimizer;
    if (is_alike(link)) return &link->value[field];
    int a, b;
    /* a getter between steps only reads; a link in a step must not continue with incomplete settings */
    if (o->stepping && o->grouping.mixed && disagree(link, field, &a, &b)) (void)refuse(link, field, a, b);
    a = next_param(link, 0);
    return a == o->count ? &link->value[field] : for_parameter(link, field, o->param[a].tensor);
}

const gd_setting *gd__resolve(const gd_link *link, int field, const gd_tensor *param)
{
    return param ? for_parameter(link, field, param) : for_the_step(link, field);
}

const gd_setting *gd__in_force(const gd_link *link, const char *name)
{
    int field = gd__field_index(link->cls, name);
    return field < 0 ? NULL : for_the_step(link, field);
}

/* ---- readers ---- */

static inline const gd_setting *get(const gd_link *link, const char *name, const gd_tensor *param)
{
    int field = link ? gd__link_field((gd_link *)(uintptr_t)link, name) : -1;
    if (field >= 0 && !param && is_alike(link)) return &link->value[field];
    if (field >= 0) return gd__resolve(link, field, param);
    if (!link || !name)
        (void)gd__null(gd_link_ctx(link), "link: the name of a setting is NULL");
    else
        (void)gd__no_such_field(link->head.ctx, NULL, link->cls, name);
    return NULL;
}

const gd_setting *gd_link_get(const gd_link *link, const char *name, const gd_tensor *param)
{
    return get(link, name, param);
}

double gd_link_real(const gd_link *link, const char *name, const gd_tensor *param)
{
    const gd_setting *s = get(link, name, param);
    return s && (s->kind == GD_SET_REAL || s->kind == GD_SET_BOOL) ? s->real : NAN;
}

bool gd_link_flag(const gd_link *link, const char *name)
{
    const gd_setting *s = get(link, name, NULL);
    if (s && s->kind == GD_SET_NONE) return link->optimizer && link->optimizer->searching.careful;
    return s && s->kind == GD_SET_BOOL && s->real != 0;
}

bool gd_link_is(const gd_link *link, const char *name, const char *string)
{
    const gd_setting *s = gd_link_get(link, name, NULL);
    return s && string && s->kind == GD_SET_STRING && !strcmp(s->string, string);
}

bool gd_link_selects(const gd_link *link, const char *name, const gd_tensor *param)
{
    const gd_setting *s = gd_link_get(link, name, param);
    if (!s || s->kind != GD_SET_STRING) return false;
    const gd_optimizer *o = link->optimizer;
    int index = o && param ? gd__param_index(o, gd__param_behind(o, param)) : -1;
    bool yes = false;
    gd_status status = gd_select(link->head.ctx, s->string, index < 0 ? NULL : o->param[index].name, param,
                                 &yes);
    return !status && yes;
}

bool gd_link_is_none(const gd_link *link, const char *name)
{
    const gd_setting *s = gd_link_get(link, name, NULL);
    return !s || s->kind == GD_SET_NONE;
}

/* ---- before a step ---- */

static void run_group(gd_optimizer *o, gd_group *g, int64_t step)
{
    for (int i = 0; i < g->settings; i++) {
        gd_group_setting *s = &g->setting[i];
        if (s->value.schedule && gd__setting_advance(&s->value, step, s->whole))
            gd__optimizer_changed(o, s->shapes);
    }
}

/* Settings of a link, or those of one parameter. */
static void run_fields(gd_link *link, gd_setting *value, int64_t step)
{
    for (int i = 0; i < link->cls->field_count; i++) {
        const gd_field *f = &link->cls->fields[i];
        if (value[i].schedule && gd__setting_advance(&value[i], step, f->integer))
            gd__optimizer_changed(link->optimizer, gd__field_shapes(f));
    }
}

static void run_link(gd_link *link, int64_t step)
{
    run_fields(link, link->value, step);
    for (int i = 0; link->locals && i < link->entries; i++)
        if (link->entry[i]->local) run_fields(link, link->entry[i]->local, step);
    for (int i = 0; i < link->children; i++) run_link(link->child[i], step);
}

static bool any_schedule(const gd_link *link, const gd_setting *value)
{
    for (int i = 0; i < link->cls->field_count; i++)
        if (value[i].schedule) return true;
    return false;
}

static bool has_schedule(const gd_link *link)
{
    bool has = any_schedule(link, link->value);
    for (int i = 0; link->locals && i < link->entries && !has; i++)
        has = link->entry[i]->local && any_schedule(link, link->entry[i]->local);
    for (int i = 0; i < link->children && !has; i++) has = has_schedule(link->child[i]);
    return has;
}

/* Does the class read this setting once for all parameters, whatever its rule? */
static bool is_whole(const gd_link *link, int field)
{
    static const char *const engine[] = {"target", "update_freq", "concat_params", "seed"};
    const gd_link_class *cls = link->cls;
    if (cls->fields[field].kinds & GD_SET_CHAIN) return false;
    for (size_t i = 0; i < sizeof engine / sizeof *engine; i++)
        if (!strcmp(cls->fields[field].name, engine[i])) return true;
    bool lists = cls->rule || cls->update_tensors || cls->apply_tensors || cls->part;
    return cls->fields[field].whole || (!lists && !cls->traits.own_settings) || cls->traits.concat_params ||
           cls->traits.whole_settings;
}

static gd_status check_link(const gd_link *link)
{
    int a, b;
    for (int i = 0; i < link->cls->field_count; i++)
        if (is_whole(link, i) && disagree(link, i, &a, &b)) return refuse(link, i, a, b);
    return GD_OK;
}

static gd_status check_links(gd_optimizer *o, gd_link *link)
{
    gd_status status = o->grouping.mixed ? check_link(link) : GD_OK;
    if (!status && link->cls->check) status = link->cls->check(link);
    for (int i = 0; i < link->children && !status; i++) status = check_links(o, link->child[i]);
    return status;
}

/* Could two parameters have different settings? */
static bool is_mixed(const gd_optimizer *o)
{
    for (int i = 1; i < o->count && o->grouping.keys; i++)
        if (o->param[i].group != o->param[0].group) return true;
    return gd__any_local(o->chain);
}

gd_status gd__settings_begin(gd_optimizer *o)
{
    if (o->grouping.settled == o->numbers && !o->grouping.scheduled && !o->grouping.keys) return GD_OK;
    int64_t step = gd__schedule_step(o);
    if (o->grouping.settled != o->numbers) o->grouping.scheduled = has_schedule(o->chain);
    if (o->grouping.scheduled) run_link(o->chain, step);
    if (o->grouping.keys) {
        run_group(o, &o->grouping.all, step);
        for (int g = 0; g < o->grouping.count; g++) run_group(o, &o->grouping.list[g], step);
    }
    if (o->grouping.settled == o->numbers) return GD_OK;
    o->grouping.mixed = o->count && is_mixed(o);
    gd_status status = o->grouping.mixed || o->grouping.keys || o->grouping.scheduled
                           ? check_links(o, o->chain)
                           : GD_OK;
    if (!status) o->grouping.settled = o->numbers;
    return status;
}
