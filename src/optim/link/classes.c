/* The table of link classes, and the classes of users. */
#include "optim/link/classes.h"
#include "base/text/scan.h"
#include "optim/text/setting.h"

#include <stdio.h>
#include <string.h>

static const gd_link_class *const built_in[] = {
#define LINK(name) &gd_link_##name,
#include "optim/links.def"
#include "optim/presets.def"
#undef LINK
};

enum {
#define LINK(name) PRESET_##name,
#include "optim/presets.def"
#undef LINK
    PRESETS
};

#define BUILT_IN ((int)(sizeof built_in / sizeof *built_in))

const gd_link_class *const *gd_link_classes(int *count)
{
    if (count) *count = BUILT_IN - PRESETS;
    return built_in;
}

const gd_link_class *const *gd_link_presets(int *count)
{
    if (count) *count = PRESETS;
    return built_in + BUILT_IN - PRESETS;
}

/* Names differ in their first letters: few are compared. */
static inline bool is_named(const gd_link_class *cls, const char *name)
{
    return cls->name[0] == name[0] && !strcmp(cls->name, name);
}

const gd_link_class *gd_link_class_find(const char *name)
{
    for (int i = 0; name && i < BUILT_IN; i++)
        if (is_named(built_in[i], name)) return built_in[i];
    return NULL;
}

/* ---- classes of a context ---- */

typedef struct registry {
    const gd_link_class **item;
    int count, capacity;
} registry;

static const char registry_key = 0;

static void *registry_new(gd_ctx *ctx) { return gd__calloc(ctx, sizeof(registry)); }

static void registry_free(gd_ctx *ctx, void *data)
{
    registry *r = data;
    gd__free(ctx, r->item, (size_t)r->capacity * sizeof *r->item);
    gd__free(ctx, r, sizeof *r);
}

const gd_link_class *gd__class_at(gd_ctx *ctx, int index)
{
    if (index < BUILT_IN) return index < 0 ? NULL : built_in[index];
    const registry *r = gd__extension_find(ctx, &registry_key);
    return r && index - BUILT_IN < r->count ? r->item[index - BUILT_IN] : NULL;
}

const gd_link_class *gd__find_class(gd_ctx *ctx, const char *name)
{
    const gd_link_class *cls = gd_link_class_find(name);
    for (int i = BUILT_IN; name && !cls && (cls = gd__class_at(ctx, i)); i++)
        if (!is_named(cls, name)) cls = NULL;
    return cls;
}

/* Accepts a valid class with a new name, or one that is registered already. */
static gd_status check_new(gd_ctx *ctx, const gd_link_class *cls)
{
    gd_status status = gd__class_check(ctx, cls);
    const gd_link_class *known = status ? cls : gd__find_class(ctx, cls->name);
    if (!known || known == cls) return status;
    return gd_fail(ctx, GD_ARGUMENT, "link class '%s': there is one of that name", cls->name);
}

gd_status gd__classes_add(gd_ctx *ctx, const gd_link_class *const *classes, int count)
{
    registry *r = gd__extension(ctx, &registry_key, registry_new, registry_free);
    if (!r) return GD_NOMEM;
    int before = r->count;
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        status = check_new(ctx, classes[i]);
        if (status || gd__find_class(ctx, classes[i]->name)) continue;
        if (gd__reserve(ctx, &r->item, r->count, &r->capacity, sizeof *r->item))
            r->item[r->count++] = classes[i];
        else
            status = GD_NOMEM;
    }
    if (status) r->count = before;
    return status;
}

gd_status gd_link_class_register(gd_ctx *ctx, const gd_link_class *cls)
{
    return ctx ? gd__classes_add(ctx, &cls, 1) : GD_ARGUMENT;
}

/* ---- validity of a class ---- */

static gd_status bad_class(gd_ctx *ctx, const gd_link_class *cls, const char *why)
{
    return gd_fail(ctx, GD_ARGUMENT, "link class '%.80s': %s", cls->name, why);
}

static gd_status bad_field(gd_ctx *ctx, const gd_link_class *cls, const gd_field *field, const char *why)
{
    return gd_fail(ctx, GD_ARGUMENT, "link class '%.80s': setting '%.80s' %s", cls->name, field->name, why);
}

/* One of a rule, tensor functions and a step; element_wise chooses between the first two. */
static gd_status check_kind(gd_ctx *ctx, const gd_link_class *cls)
{
    if (cls == &gd_link_chain) return GD_OK; /* run by the core */
    bool tensors = cls->apply_tensors, step = cls->step || cls->update || cls->apply;
    if (cls->update_rule && !cls->rule) return bad_class(ctx, cls, "has an update_rule without a rule");
    if (cls->update_tensors && !tensors)
        return bad_class(ctx, cls, "has update_tensors without apply_tensors");
    if (cls->element_wise && !(cls->rule && tensors))
        return bad_class(
            ctx, cls,
            "chooses with element_wise between a rule and tensor functions that are not both there");
    int kinds = (cls->rule || tensors) + step + (cls->rule && tensors && !cls->element_wise) + !!cls->part +
                !!cls->preset;
    if (kinds == 1) return GD_OK;
    return bad_class(ctx, cls,
                     kinds ? "mixes rules, tensor functions, steps, parts and presets; it must be of one kind"
                           : "does nothing: it needs a rule, a tensor function, a step, a part or a preset");
}

/* The kinds, range and default of a field must agree. */
static const char *field_fault(const gd_field *f)
{
    const unsigned all = GD_SET_NONE | GD_SET_REAL | GD_SET_BOOL | GD_SET_STRING | GD_SET_LIST | GD_SET_CHAIN;
    unsigned kind = (unsigned)f->fallback.kind;
    if (!f->kinds || f->kinds & ~all) return "has no known kind";
    if (f->kinds & GD_SET_REAL && !(f->low <= f->high)) return "has an empty range";
    if (f->integer && !(f->kinds & (GD_SET_REAL | GD_SET_LIST))) return "is whole but not a number";
    if (f->choices && !(f->kinds & GD_SET_STRING)) return "has choices but is not a string";
    if (f->only && (!kind || kind & (GD_SET_STRING | GD_SET_LIST)))
        return "takes its default only, which is neither a number nor a flag";
    if (f->variadic && (f->kinds | GD_SET_REAL) != (GD_SET_CHAIN | GD_SET_REAL))
        return "takes any number of values that are not links";
    if (f->variadic && kind) return "takes any number of links and has a default";
    if (kind && (kind & (kind - 1) || !(f->kinds & kind))) return "has a default of a different kind";
    if (kind == GD_SET_CHAIN) return "has a chain as default; it may only have none";
    return NULL;
}

static gd_status check_field(gd_ctx *ctx, const gd_link_class *cls, int index)
{
    const gd_field *f = &cls->fields[index];
    if (!gd__is_link_name(f->name))
        return gd_fail(ctx, GD_ARGUMENT, "link class '%s': setting %d has no proper name", cls->name, index);
    const char *fault = field_fault(f);
    if (fault) return bad_field(ctx, cls, f, fault);
    for (int i = 0; i < index; i++) {
        if (!strcmp(cls->fields[i].name, f->name)) return bad_field(ctx, cls, f, "is there twice");
        if (cls->fields[i].variadic && f->variadic)
            return bad_field(ctx, cls, f, "is the second for any number of links");
    }
    if (!f->fallback.kind) return GD_OK;
    char owner[GD_NAME_SIZE + 16];
    (void)snprintf(owner, sizeof owner, "link class '%s'", cls->name);
    return gd__field_check_of(ctx, NULL, owner, f, &f->fallback);
}

/* An array without its length would be ignored silently. */
static bool miscounted(const void *array, int count, int most)
{
    return count < 0 || count > most || !array != !count;
}

static gd_status check_slots(gd_ctx *ctx, const gd_link_class *cls)
{
    if (miscounted(cls->slots, cls->slot_count, GD_MAX_SLOTS))
        return bad_class(ctx, cls, "has a wrong number of state slots: GD_SLOTS(array) counts them");
    if (miscounted(cls->scalars, cls->scalar_count, GD_MAX_SLOTS))
        return bad_class(ctx, cls, "has a wrong number of scalars: GD_SCALARS(array) counts them");
    for (int i = 0; i < cls->slot_count; i++) {
        if (!gd__is_link_name(cls->slots[i].name))
            return bad_class(ctx, cls, "has a state slot without a proper name");
        for (int k = 0; k < i; k++)
            if (!strcmp(cls->slots[i].name, cls->slots[k].name))
                return bad_class(ctx, cls, "has two state slots of one name");
    }
    for (int i = 0; i < cls->scalar_count; i++)
        if (!gd__is_link_name(cls->scalars[i]))
            return bad_class(ctx, cls, "has a scalar without a proper name");
    return GD_OK;
}

gd_status gd__class_check(gd_ctx *ctx, const gd_link_class *cls)
{
    if (!cls || !cls->name) return gd_fail(ctx, GD_ARGUMENT, "link class: none, or one without a name");
    if (!gd__is_link_name(cls->name) || gd__is_reserved(cls->name))
        return bad_class(ctx, cls,
                         "the name must be letters, digits and '_', and no word of the chain language");
    if (miscounted(cls->fields, cls->field_count, GD_MAX_FIELDS))
        return bad_class(ctx, cls, "has a wrong number of settings: GD_FIELDS(array) counts them");
    gd_status status = check_kind(ctx, cls);
    for (int i = 0; i < cls->field_count && !status; i++) status = check_field(ctx, cls, i);
    return status ? status : check_slots(ctx, cls);
}
