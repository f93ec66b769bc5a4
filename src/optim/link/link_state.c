/* State of links per parameter; random numbers.  State of a link as a whole is in link_global.c. */
#include "base/narrow.h"
#include "optim/link/owner.h"
#include "optim/text/setting.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- entries: what a link keeps for one parameter ---- */

gd_entry *gd__entry_find(const gd_link *link, const gd_tensor *param)
{
    int i = gd__map_find(&link->table, param);
    return i < 0 ? NULL : link->entry[i];
}

void gd__entry_free(gd_link *link, gd_entry *e)
{
    gd_ctx *ctx = link->head.ctx;
    const gd_link_class *cls = link->cls;
    for (int i = 0; i < cls->slot_count; i++) gd__release(e->slot ? e->slot[i] : NULL);
    gd__free(ctx, e->slot, (size_t)cls->slot_count * sizeof *e->slot);
    gd__free(ctx, e->fresh, (size_t)cls->slot_count * sizeof *e->fresh);
    gd__free(ctx, e->sharded, (size_t)cls->slot_count * sizeof *e->sharded);
    gd__free(ctx, e->scalar, (size_t)cls->scalar_count * sizeof *e->scalar);
    if (e->local)
        for (int i = 0; i < cls->field_count; i++) gd__setting_free(ctx, &e->local[i]);
    gd__free(ctx, e->local, (size_t)cls->field_count * sizeof *e->local);
    gd__release(e->param);
    gd__free(ctx, e, sizeof *e);
}

gd_entry *gd__entry_new(gd_link *link, gd_tensor *param)
{
    gd_ctx *ctx = link->head.ctx;
    const gd_link_class *cls = link->cls;
    gd_entry *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    gd__retain(param);
    e->param = param;
    e->dtype = param ? param->dtype : GD_F32;
    e->slot = gd__calloc(ctx, (size_t)cls->slot_count * sizeof *e->slot);
    e->fresh = gd__calloc(ctx, (size_t)cls->slot_count * sizeof *e->fresh);
    e->sharded = gd__calloc(ctx, (size_t)cls->slot_count * sizeof *e->sharded);
    e->scalar = gd__calloc(ctx, (size_t)cls->scalar_count * sizeof *e->scalar);
    if (e->slot && e->fresh && e->sharded && e->scalar) return e;
    gd__entry_free(link, e);
    return NULL;
}

gd_entry *gd__entry(gd_link *link, gd_tensor *param)
{
    gd_entry *found = gd__entry_find(link, param);
    if (found) return found;
    gd_ctx *ctx = link->head.ctx;
    if (!gd__reserve(ctx, &link->entry, link->entries, &link->entry_capacity, sizeof *link->entry))
        return NULL;
    gd_entry *e = gd__map_reserve(ctx, &link->table) ? NULL : gd__entry_new(link, param);
    if (!e) return NULL;
    gd__map_put(&link->table, param, link->entries);
    link->entry[link->entries++] = e;
    e->missed = gd__is_rule(link) && !link->unlisted ? link->step : 0; /* only rules count per parameter */
    link->uneven = link->uneven || e->missed;
    return e;
}

static void look_for_missed(gd_link *link)
{
    link->uneven = false;
    for (int i = 0; i < link->entries; i++) link->uneven = link->uneven || link->entry[i]->missed;
}

int64_t gd_link_steps_of(const gd_link *link, const gd_tensor *param)
{
    const gd_entry *e = link && param ? gd__entry_find(link, param) : NULL;
    if (e) return gd__entry_steps(link, e);
    return link && (!link->reads_step || link->unlisted) ? link->step : 0;
}

gd_status gd_link_set_steps_of(gd_link *link, gd_tensor *param, int64_t steps)
{
    if (!link || !param) return gd__null(gd_link_ctx(link), "link: the steps of a parameter that is NULL");
    if (steps < 0)
        return gd_fail(link->head.ctx, GD_VALUE, "%s: %lld steps of a parameter", link->cls->name,
                       (long long)steps);
    gd_entry *e = gd__entry(link, param);
    if (!e) return gd_error(link->head.ctx);
    int64_t more = steps > link->step ? steps - link->step : 0;
    for (int i = 0; i < link->entries; i++) link->entry[i]->missed += more;
    link->step += more;
    e->missed = link->step - steps;
    look_for_missed(link);
    return GD_OK;
}

void gd__entries_miss(gd_link *link, gd_tensor *const *keys, int count)
{
    for (int i = 0; i < count; i++) {
        gd_entry *e = gd__entry_find(link, keys[i]);
        if (e) e->seen = link->step;
    }
    for (int i = 0; i < link->entries; i++) link->entry[i]->missed += link->entry[i]->seen != link->step;
    look_for_missed(link);
}

void gd__entry_drop(gd_link *link, const gd_tensor *param)
{
    int gone = gd__map_find(&link->table, param);
    if (gone < 0) return;
    link->locals -= link->entry[gone]->local != NULL;
    gd__entry_free(link, link->entry[gone]);
    link->entries--;
    memmove(link->entry + gone, link->entry + gone + 1, (size_t)(link->entries - gone) * sizeof *link->entry);
    gd__map_clear(&link->table);
    for (int i = 0; i < link->entries; i++) gd__map_put(&link->table, link->entry[i]->param, i);
    gd__optimizer_changed(link->optimizer, true);
}

void gd__entries_drop(gd_link *link, const gd_tensor *param)
{
    gd__entry_drop(link, param);
    gd__stand_ins_drop(link, param);
    for (int i = 0; i < link->children; i++) gd__entries_drop(link->child[i], param);
}

void gd__entries_rekey(gd_link *link, const gd_tensor *old, gd_tensor *now)
{
    gd_entry *e = gd__entry_find(link, old);
    if (e) {
        gd__entry_drop(link, now); /* settings given to it before it was a parameter */
        gd__retain(now);
        gd__release(e->param);
        e->param = now;
        gd__map_clear(&link->table);
        for (int i = 0; i < link->entries; i++) gd__map_put(&link->table, link->entry[i]->param, i);
    }
    for (int i = 0; i < link->stand_ins; i++) {
        if (link->stand_in[i].param != old) continue;
        gd__retain(now);
        gd__release(link->stand_in[i].param);
        link->stand_in[i].param = now;
    }
    for (int i = 0; i < link->children; i++) gd__entries_rekey(link->child[i], old, now);
}

bool gd__any_local(const gd_link *link)
{
    for (int i = 0; i < link->children; i++)
        if (gd__any_local(link->child[i])) return true;
    return link->locals;
}

void gd__entries_free(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    for (int i = 0; i < link->entries; i++) gd__entry_free(link, link->entry[i]);
    gd__free(ctx, link->entry, (size_t)link->entry_capacity * sizeof *link->entry);
    gd__map_free(ctx, &link->table);
    link->entry = NULL;
    link->entries = link->entry_capacity = link->locals = 0;
}

/* ---- slots ---- */

#define FEWEST_CODED 4096 /* elements: smaller parameters would lose precision and save little */

/* The link's own setting; "": none. */
static const char *form_for(const gd_link *link, const gd_tensor *key)
{
    int field = gd__field_index(link->cls, "state");
    const gd_setting *s = field < 0 ? NULL : gd__resolve(link, field, key);
    return s && s->kind == GD_SET_STRING ? s->string : "";
}

bool gd__state_feedback(const gd_link *link, const gd_tensor *key)
{
    return !strcmp(form_for(link, key), "8bit+feedback");
}

static gd_dtype chosen_for(const gd_link *link, const gd_tensor *key)
{
    const char *form = form_for(link, key);
    return strncmp(form, "8bit", 4) ? gd_dtype_from_name(form) : GD_U8;
}

gd_dtype gd__state_chosen(const gd_link *link, const gd_tensor *key)
{
    gd_dtype chosen = chosen_for(link, key);
    return chosen == GD_DTYPE_COUNT && link->optimizer ? link->optimizer->state_dtype : chosen;
}

gd_dtype gd__slot_dtype(const gd_link *link, int slot, const gd_tensor *param, const gd_tensor *key)
{
    if (link->cls->slots[slot].flags & GD_SLOT_EXACT) return param->dtype;
    gd_dtype chosen = gd__state_chosen(link, key);
    /* blocks of codes are of neighbours in memory: a file of them would be read in a different order */
    bool wide = param->numel < FEWEST_CODED || link->cls->slots[slot].flags & GD_SLOT_WIDE ||
                !gd__contiguous(param);
    if (chosen == GD_U8 && wide) chosen = GD_F32;
    if (chosen != GD_DTYPE_COUNT) return chosen;
    return param->dtype == GD_F64 ? GD_F64 : GD_F32;
}

bool gd__is_coded_for(const gd_tensor *t, const gd_tensor *param)
{
    return t->dtype == GD_U8 && t->ndim == 1 &&
           (t->size[0] == gd__coded_bytes(param->numel) || gd__is_fed_back(t, param));
}

bool gd__is_fed_back(const gd_tensor *t, const gd_tensor *param)
{
    return t->dtype == GD_U8 && t->ndim == 1 && t->size[0] == gd__fed_back_bytes(param->numel);
}

void gd__entry_put(gd_link *link, gd_entry *e, int slot, gd_tensor *t, bool fresh)
{
    if (e->slot[slot] != t) {
        gd__release(e->slot[slot]);
        e->sharded[slot] = 0;
    }
    e->slot[slot] = t;
    e->fresh[slot] = fresh;
    if (link->optimizer) link->optimizer->slots++;
}

bool gd__shape_without(const gd_tensor *t, const gd_tensor *param, unsigned without)
{
    int n = 0;
    for (int i = 0; i < param->ndim; i++) {
        if (without >> i & 1) continue;
        if (n == t->ndim || t->size[n++] != param->size[i]) return false;
    }
    return n == t->ndim;
}

bool gd__slot_fits(const gd_link *link, int slot, const gd_tensor *t, const gd_tensor *param)
{
    unsigned partial = 0;
    for (int k = 0; k < link->cls->slot_count; k++)
        if (slot < 0 || slot == k) partial |= link->cls->slots[k].flags & GD_SLOT_PARTIAL;
    for (unsigned without = 0; without < (partial ? 1u << param->ndim : 1); without++)
        if (gd__shape_without(t, param, without)) return true;
    return false;
}

bool gd__slot_fits_as(const gd_link *link, int slot, const gd_tensor *t, const gd_tensor *param,
                      gd_dtype dtype)
{
    if (gd__is_coded_for(t, param)) return true;
    if (dtype == GD_U8)
        dtype = GD_F32; /* without some axes there are none; others become codes when a program runs */
    return t->dtype == dtype && gd__slot_fits(link, slot, t, param);
}

int gd__slot_shape(const gd_tensor *like, gd_dtype dtype, unsigned without, bool feedback, int64_t *size)
{
    int n = 0;
    if (dtype == GD_U8) {
        *size = feedback ? gd__fed_back_bytes(like->numel) : gd__coded_bytes(like->numel);
        return 1;
    }
    for (int i = 0; i < like->ndim; i++)
        if (!(without >> i & 1)) size[n++] = like->size[i];
    return n;
}

gd_tensor *gd__slot_new(const gd_tensor *like, gd_dtype dtype, unsigned without, bool feedback)
{
    int64_t size[GD_MAX_DIMS];
    if (dtype != GD_U8 && !without) return gd__new_laid(like, dtype);
    int n = gd__slot_shape(like, dtype, without, feedback, size);
    return gd__new(like->storage->device, dtype, n, size);
}

gd_tensor *gd__entry_slot(gd_link *link, gd_entry *e, int slot, gd_dtype dtype, const gd_tensor *like,
                          unsigned without)
{
    if (e->slot[slot]) return e->slot[slot];
    gd_ctx *ctx = link->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *t = gd__slot_new(like, dtype, without, gd__state_feedback(link, e->param));
    if (t && gd_fill(t, 0)) t = NULL;
    if (t) {
        gd__own(t);
        gd__entry_put(link, e, slot, t, true);
    }
    gd_scope_end(ctx);
    return t;
}

static int64_t bytes_of(const gd_tensor *t) { return t ? t->numel * (int64_t)gd__item_size(t) : 0; }

int64_t gd__state_held(const gd_link *link)
{
    int64_t bytes = 0;
    for (int i = 0; i < link->entries; i++)
        for (int k = 0; k < link->cls->slot_count; k++) bytes += bytes_of(link->entry[i]->slot[k]);
    for (int i = 0; i < link->globals; i++) bytes += bytes_of(link->global[i]->tensor);
    return bytes;
}

int64_t gd_link_slot_bytes(int slots, gd_tensor *const *params, int count)
{
    int64_t bytes = 0;
    for (int i = 0; params && i < count; i++) bytes += slots * bytes_of(params[i]);
    return bytes;
}

int64_t gd__state_expected(const gd_link *link, gd_tensor *const *params, int count)
{
    if (link->cls->state_bytes) return link->cls->state_bytes(link, params, count);
    return gd_link_slot_bytes(link->cls->slot_count, params, count);
}

/* Can this rank use what the link keeps for a parameter?  False with the error recorded. */
static bool is_here(gd_link *link, gd_entry *e)
{
    const gd_optimizer *o = link->optimizer;
    return e && (!e->parted || !o || o->shared.alone || !o->shared.call->slot_whole(link, e, -1));
}

/* The number of a slot, -1 with the error recorded. */
static int find_slot(const gd_link *link, const char *name)
{
    int slot = gd__slot_index(link->cls, name);
    if (slot < 0)
        (void)gd_fail(link->head.ctx, GD_ATTRIBUTE, "%s declares no state '%.80s'", link->cls->name, name);
    return slot;
}

static bool has_axis(const gd_tensor *t, const char *name)
{
    for (int i = 0; i < t->ndim; i++)
        if (gd__name(t, i) == name) return true;
    return false;
}

static bool has_axes_of(const gd_tensor *t, const gd_tensor *param)
{
    bool all = t->ndim == param->ndim;
    for (int i = 0; i < t->ndim && all; i++) all = !gd__name(t, i) || has_axis(param, gd__name(t, i));
    return all;
}

static bool keeps_own(const gd_link *link) { return link->optimizer && link->optimizer->shared.own_elements; }

/* A value for a slot in the order of the parameter: tensors with its axes are matched by name and label. The link checks state of a
 * different shape. */
static gd_tensor *fit_slot(const gd_link *link, gd_tensor *param, gd_tensor *value)
{
    bool must = gd__is_rule(link);
    if (keeps_own(link)) return value;
    if (value && must && !gd__same_shape(value, param) && gd__slot_fits(link, -1, value, param)) return value;
    char what[80], got[256], want[256];
    (void)snprintf(what, sizeof what, "%.40s: the state", link->cls->name);
    if (gd__may_differ(value, param) && (must || gd__same_shape(value, param) || has_axes_of(value, param)))
        value = gd__aligned_to(what, value, param);
    if (!value || !must || gd__same_shape(value, param)) return value;
    return gd__refuse(link->head.ctx, GD_SHAPE, "%s is %s, its parameter %s", what,
                      gd__shape_text(value, got, sizeof got), gd__shape_text(param, want, sizeof want));
}

/* A slot is the link's own memory, without history. */
static gd_tensor *own_copy(const gd_link *link, gd_tensor *param, gd_tensor *value)
{
    gd_ctx *ctx = link->head.ctx;
    gd__aside_begin(ctx);
    gd_tensor *copy = gd_copy(fit_slot(link, param, value));
    if (copy) gd__own(copy);
    gd__aside_end(ctx);
    return copy;
}

/* The first value of a slot, owned. */
static gd_tensor *first_value(const gd_link *link, gd_tensor *param, const gd_init *init)
{
    gd_ctx *ctx = link->head.ctx;
    gd__aside_begin(ctx);
    gd_tensor *like = init->tensor ? init->tensor : param, *t = NULL;
    switch (init->kind) {
    case GD_INIT_ZEROS: t = gd_zeros_like(like); break;
    case GD_INIT_CONSTANT: t = gd_full_like(like, init->value); break;
    case GD_INIT_COPY: t = like; break;
    case GD_INIT_FUNCTION: t = init->make(init->user, param); break;
    }
    t = t ? own_copy(link, param, t) : NULL;
    gd__aside_end(ctx);
    return t;
}

gd_tensor *gd_link_state_from(gd_link *link, gd_tensor *param, const char *name, gd_init init)
{
    if (!link) return NULL;
    int slot = find_slot(link, name);
    gd_entry *e = slot < 0 ? NULL : gd__entry(link, param);
    if (!is_here(link, e)) return NULL;
    if (!e->slot[slot] || e->fresh[slot]) {
        if (gd_error(link->head.ctx))
            return NULL; /* the input of init may be missing because of that error */
        gd_tensor *t = first_value(link, param, &init);
        if (!t) return NULL;
        gd__entry_put(link, e, slot, t, false);
    }
    gd_status status = keeps_own(link)    ? link->optimizer->shared.call->slot_own(link, e, slot)
                       : e->sharded[slot] ? link->optimizer->shared.call->slot_whole(link, e, slot)
                                          : GD_OK;
    return status ? NULL : e->slot[slot];
}

gd_tensor *gd_link_state(gd_link *link, gd_tensor *param, const char *name)
{
    return gd_link_state_from(link, param, name, (gd_init){.kind = GD_INIT_ZEROS});
}

bool gd_link_has_state(const gd_link *link, const gd_tensor *param, const char *name)
{
    if (!link) return false;
    int slot = gd__slot_index(link->cls, name);
    gd_entry *e = slot < 0 ? NULL : gd__entry_find(link, param);
    return e && is_here((gd_link *)link, e) && e->slot[slot] && !e->fresh[slot];
}

gd_status gd_link_set_state(gd_link *link, gd_tensor *param, const char *name, gd_tensor *value)
{
    if (!link || !param) return gd__null(gd_link_ctx(link), "link: state of a parameter that is NULL");
    gd_ctx *ctx = link->head.ctx;
    int slot = find_slot(link, name);
    if (slot < 0) return GD_ATTRIBUTE;
    if (!value && gd_error(ctx)) return gd_error(ctx); /* a value that could not be made is not "none" */
    gd_entry *e = gd__entry(link, param);
    bool here = is_here(link, e);
    gd_tensor *copy = here && value ? own_copy(link, param, value) : NULL;
    if (!here || (value && !copy)) return gd_error(ctx);
    gd__entry_put(link, e, slot, copy, false);
    if (copy && keeps_own(link)) e->sharded[slot] = GD_SHARDED(0, false);
    return GD_OK;
}

double *gd_link_scalar(gd_link *link, gd_tensor *param, const char *name)
{
    if (!link) return NULL;
    int index = gd__scalar_index(link->cls, name);
    if (index < 0)
        return gd__refuse(link->head.ctx, GD_ATTRIBUTE, "%s declares no scalar '%.80s'", link->cls->name,
                          name);
    gd_entry *e = gd__entry(link, param);
    return is_here(link, e) ? &e->scalar[index] : NULL;
}

/* ---- random numbers and scratch ---- */

/* A different seed in force starts a new stream. */
gd_rng *gd__link_rng(gd_link *link)
{
    const gd_setting *seed = gd__in_force(link, "seed");
    if (!seed || seed->kind != GD_SET_REAL) return &link->head.ctx->rng;
    uint64_t key = (uint64_t)(int64_t)seed->real;
    if (!link->seeded || link->rng.key != key) link->rng = (gd_rng){.key = key};
    link->seeded = true;
    return &link->rng;
}

/* Number of a link among those of a tree, parents first; the remaining count if the link is not found. */
static bool find_number(const gd_link *tree, const gd_link *link, uint64_t *number)
{
    bool found = tree == link;
    for (int i = 0; i < tree->children && !found; i++) {
        ++*number;
        found = find_number(tree->child[i], link, number);
    }
    return found;
}

double gd__link_key(gd_link *link, const gd_tensor *param, int position)
{
    const gd_optimizer *o = link->optimizer;
    int index = o ? gd__param_index(o, param) : -1;
    uint64_t name = 0xcbf29ce484222325u, number = 0;
    for (const char *c = index < 0 ? "" : o->param[index].name; *c; c++)
        name = (name ^ (unsigned char)*c) * 0x100000001b3u;
    if (o) (void)find_number(o->chain, link, &number);
    uint32_t word[4];
    gd__philox_at(gd__link_rng(link)->key, index < 0 ? (uint64_t)position : name, ~number, word);
    return (double)(((uint64_t)word[0] << 32 | word[1]) >> 11);
}

gd_tensor *gd_link_random(gd_link *link, gd_random_kind kind, gd_tensor *like)
{
    if (!link || !like) return gd__none(gd__null(gd_link_ctx(link), "link: random numbers like NULL"));
    if (link->optimizer && link->optimizer->shared.alone) /* other ranks would not draw as many */
        return gd__refuse(link->head.ctx, GD_STATE, "%s: spreads by tensors, and draws", link->cls->name);
    if (keeps_own(link)) /* or not the same numbers for an element */
        return gd__refuse(link->head.ctx, GD_STATE, "%s: spreads as a vector, and draws", link->cls->name);
    return gd__random(like->storage->device, gd__link_rng(link), link->cls->name, kind, like->dtype,
                      like->ndim, like->size);
}

/* One of a list: uniform numbers are in [0, 1), and names are those of the model tensor. */
static gd_tensor *drawn_like(gd_link *link, gd_random_kind kind, gd_tensor *like)
{
    gd_tensor *z = gd_link_random(link, kind, like);
    if (z && kind == GD_RANDOM_UNIFORM) z = gd_add_scalar(gd_mul_scalar(z, 2), -1);
    return z ? gd__relabel_like(z, like) : NULL;
}

static gd_status draw_list(gd_link *link, const char *name, gd_tensor *const *like, int count,
                           gd_tensor **out)
{
    bool sphere = !strcmp(name, "sphere"), uniform = !strcmp(name, "uniform");
    gd_random_kind kind = uniform                       ? GD_RANDOM_UNIFORM
                          : !strcmp(name, "rademacher") ? GD_RANDOM_SIGN
                                                        : GD_RANDOM_NORMAL;
    double square = 0;
    for (int i = 0; i < count; i++) {
        if (!(out[i] = drawn_like(link, kind, like[i]))) return gd_error(link->head.ctx);
        double norm = sphere && gd_numel(out[i]) ? gd_item(gd_norm(gd_drop_names(out[i]), 2, NULL, false))
                                                 : 0;
        square += norm * norm;
    }
    for (int i = 0; i < count && sphere && square > 0; i++)
        if (!(out[i] = gd_mul_scalar(out[i], 1 / sqrt(square)))) return gd_error(link->head.ctx);
    return gd_error(link->head.ctx);
}

gd_status gd_link_random_list(gd_link *link, const char *distribution, gd_tensor *const *like, int count,
                              gd_tensor **out)
{
    if (!link || !distribution || (count > 0 && (!like || !out)))
        return gd__null(gd_link_ctx(link), "link: random numbers like NULL");
    if (!gd__is_choice(GD_DISTRIBUTIONS, distribution))
        return gd_fail(link->head.ctx, GD_ARGUMENT, "%s: there is no distribution '%.80s'", link->cls->name,
                       distribution);
    gd_ctx *ctx = link->head.ctx;
    gd_no_grad_begin(ctx);
    gd_scope_begin(ctx);
    gd_status status = draw_list(link, distribution, like, count, out);
    for (int i = 0; i < count; i++) out[i] = status ? NULL : gd_keep(out[i]);
    gd_scope_end(ctx);
    gd_no_grad_end(ctx);
    return status ? status : gd_error(ctx);
}

/* Memory of the innermost scope. */
typedef struct scratch {
    gd_object head;
    size_t bytes;
    _Alignas(max_align_t) char room[];
} scratch;

static void scratch_destroy(void *object)
{
    scratch *s = object;
    gd__free(s->head.ctx, s, sizeof *s + s->bytes);
}

static const gd_object_type scratch_type = {"Scratch", scratch_destroy};

void *gd_link_memory(gd_link *link, size_t bytes)
{
    if (!link) return NULL;
    gd_ctx *ctx = link->head.ctx;
    void *room;
    if (!gd__scope_room(ctx, bytes, &room)) return NULL;
    if (room) return memset(room, 0, bytes);
    scratch *s = gd__calloc(ctx, sizeof *s + bytes);
    if (!s) return NULL;
    s->bytes = bytes;
    if (gd__object_init(ctx, s, &scratch_type) == GD_OK) return s->room;
    gd__free(ctx, s, sizeof *s + bytes);
    return NULL;
}

gd_tensor **gd_link_scratch(gd_link *link, int count)
{
    return gd_link_memory(link, (size_t)(count > 0 ? count : 0) * sizeof(gd_tensor *));
}

/* ---- following parameters to other devices and dtypes ---- */

/* The dtype in which vectors of parameters of a dtype are computed. */
static gd_dtype wide(gd_dtype dtype) { return dtype == GD_F64 ? GD_F64 : GD_F32; }

/* The dtype of a slot after its parameter was cast: as if it were created now.  State that a link keeps in a
 * dtype of its own choice stays. */
static gd_dtype slot_dtype_after(const gd_link *link, const gd_entry *e, int slot)
{
    const gd_tensor *t = e->slot[slot], *param = e->param;
    if (e->dtype == param->dtype || !gd_dtype_is_float(t->dtype)) return t->dtype;
    if (gd__is_rule(link)) return gd__slot_dtype(link, slot, param, param);
    if (t->dtype == e->dtype && gd__same_shape(t, param)) return param->dtype;
    return t->dtype == wide(e->dtype) ? wide(param->dtype) : t->dtype;
}

gd_status gd__slots_follow(gd_link *link, gd_entry *e)
{
    gd_device *device = e->param->storage->device;
    for (int k = 0; k < link->cls->slot_count; k++) {
        gd_tensor *t = e->slot[k];
        gd_dtype dtype = t ? slot_dtype_after(link, e, k) : e->dtype;
        if (!t || (t->storage->device == device && t->dtype == dtype)) continue;
        gd_tensor *moved = gd__own_copy(t, dtype, device);
        if (!moved) return gd_error(link->head.ctx);
        uint16_t sharded = e->sharded[k];
        gd__entry_put(link, e, k, moved, e->fresh[k]);
        e->sharded[k] = sharded;
    }
    e->dtype = e->param->dtype;
    return GD_OK;
}

gd_dtype gd__vectors_dtype(const gd_optimizer *o)
{
    for (int i = 0; i < o->count; i++)
        if (o->param[i].tensor->dtype == GD_F64) return GD_F64;
    return GD_F32;
}

static bool some_param_is_on(const gd_optimizer *o, const gd_device *device)
{
    for (int i = 0; i < o->count; i++)
        if (o->param[i].tensor->storage->device == device) return true;
    return false;
}

/* A vector of all parameters, or a matrix of such rows.  Other state of a link (a table of products in f64, say) has its own dtype. */
static bool is_of_vectors(const gd_optimizer *o, const gd_tensor *t)
{
    int64_t total = 0;
    bool as_long = false;
    for (int i = 0; i < o->count; i++) total += o->param[i].tensor->numel;
    for (int i = 0; i < t->ndim; i++) as_long = as_long || t->size[i] == total;
    return as_long && t->dtype == o->vectors;
}

/* Moves link-wide state to the device of the parameters. */
static gd_status globals_follow(gd_optimizer *o, gd_link *link)
{
    for (int i = 0; i < link->globals && o->count; i++) {
        gd_tensor *t = link->global[i]->tensor;
        bool stays = !t || some_param_is_on(o, t->storage->device), cast = t && is_of_vectors(o, t);
        if (stays && (!cast || o->vectors == gd__vectors_dtype(o))) continue;
        gd_tensor *moved = gd__own_copy(t, cast ? gd__vectors_dtype(o) : t->dtype,
                                        stays ? t->storage->device : o->param[0].tensor->storage->device);
        if (!moved) return gd_error(o->ctx);
        gd__release(t);
        link->global[i]->tensor = moved;
    }
    return GD_OK;
}

static gd_status link_follows(void *user, gd_link *link, const char *path)
{
    (void)path;
    gd_status status = globals_follow(user, link);
    for (int i = 0; i < link->entries && !status; i++) status = gd__slots_follow(link, link->entry[i]);
    return status;
}

gd_status gd__state_follow(gd_optimizer *o)
{
    gd_status status = gd__visit_links(o->chain, "", link_follows, o);
    if (status) return status;
    for (int i = 0; i < o->count; i++) {
        o->param[i].dtype = o->param[i].tensor->dtype;
        o->param[i].device = o->param[i].tensor->storage->device;
    }
    o->vectors = gd__vectors_dtype(o);
    return GD_OK;
}

/* ---- forgetting ---- */

static void forget_slots(gd_link *link, unsigned flags)
{
    for (int i = 0; i < link->entries; i++)
        for (int k = 0; k < link->cls->slot_count; k++)
            if ((link->cls->slots[k].flags & flags) == flags)
                gd__entry_put(link, link->entry[i], k, NULL, false);
}

/* Settings for single parameters are not state: they stay. */
void gd_link_reset(gd_link *link)
{
    if (!link) return;
    forget_slots(link, 0);
    for (int i = 0; i < link->entries; i++) {
        memset(link->entry[i]->scalar, 0, (size_t)link->cls->scalar_count * sizeof(double));
        link->entry[i]->missed = link->entry[i]->seen = 0;
    }
    gd__globals_free(link);
    gd__stand_ins_reset(link);
    link->step = 0;
    link->seeded = link->uneven = link->unlisted = false;
    if (link->cls->reset) link->cls->reset(link);
    for (int i = 0; i < link->children; i++) gd_link_reset(link->child[i]);
}

void gd_link_reset_for_online(gd_link *link)
{
    if (!link) return;
    forget_slots(link, GD_SLOT_ONLINE);
    if (link->cls->reset_for_online) link->cls->reset_for_online(link);
    for (int i = 0; i < link->children; i++) gd_link_reset_for_online(link->child[i]);
}

static bool is_in(const gd_link *tree, const gd_link *link)
{
    bool in = tree == link;
    for (int i = 0; i < tree->children && !in; i++) in = is_in(tree->child[i], link);
    return in;
}

static void reset_but(gd_link *tree, const gd_link *link)
{
    if (tree == link) return;
    if (!is_in(tree, link)) gd_link_reset(tree);
    for (int i = 0; i < tree->children; i++)
        if (is_in(tree, link)) reset_but(tree->child[i], link);
}

void gd_link_reset_others(gd_link *link)
{
    if (link && link->optimizer) reset_but(link->optimizer->chain, link);
}
