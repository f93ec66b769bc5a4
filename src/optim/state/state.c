/* The state of an optimizer as an archive.  Loading is in state_load.c.
 *
 *   tensors    PARAM/LINK/SLOT         state of a parameter; LINK is a path such as 1:adam.0:ema
 *              LINK/NAME               link-wide tensors
 *              attribute/NAME          tensors among the attributes
 *   metadata   "optimizer"             the rest, as JSON:
 *
 *   {"version": 1, "chain": "adam | lr(0.1)", "step": 7, "evals": 7, "terminate": false, "generator": ["0", "12"],
 *    "params": {"w": {"dtype": "f32", "shape": [2, 3], "group": 0,
 *                      "axes": [{"name": "i", "labels": ["a", "b"]}, null]}},
 *    "groups": [{"settings": {"lr": 0.1}, "schedules": {"lr": "cosine(0.1, 0, 100)"}}],
 *    "attributes": {"best": 0.5}, "attribute_tensors": ["average"],
 *    "links": {"0:adam": {"step": 7, "settings": {"beta1": 0.9, ...}, "generator": ["3", "0"],
 *                         "globals": {"gathered": 2.0}, "tensors": ["history"],
 *                         "params": {"w": {"slots": ["exp_avg"], "fresh": [], "scalars": {}, "local": {"lr": 0.2}}}}}}
 *
 * A link whose child steps over other tensors in place of the parameters lists them: "stand_ins": [{"of": "w", "tensors":
 * [{"dtype": "f64", "shape": [2, 3]}]}], "of": null for all parameters together.  Links below name the k-th tensor PARAM/LINK#k,
 * LINK#0 without a parameter, as they name a parameter.
 *
 * Numbers are written so that they read back bit for bit; those that JSON does not have, as {"real": "inf"}.  A setting of a
 * link that changes with the step is {"schedule": "linear(1, 0, 9)"}. */
#include "optim/state/state.h"
#include "base/text/number.h"
#include "file/archive.h"
#include "optim/ranks/share.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- pieces of JSON ---- */

static void put_real(gd_text *t, double value)
{
    if (!isfinite(value)) {
        gd__text_put(t, "{\"real\": \"%s\"}", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    char digits[40];
    gd__format(digits, sizeof digits, "%.17g", value);
    gd__text_add(t, digits);
    if (!strpbrk(digits, ".e")) gd__text_add(t, ".0"); /* an integer would lose the sign of zero */
}

static void put_schedule(gd_text *t, const gd_schedule *schedule)
{
    char text[1024]; /* sixteen milestones and seven numbers fit */
    (void)gd_schedule_print(schedule, text, sizeof text);
    gd__text_quote(t, text);
}

static void put_setting(gd_text *t, const gd_setting *s)
{
    switch (s->kind) {
    case GD_SET_REAL: put_real(t, s->real); break;
    case GD_SET_BOOL: gd__text_add(t, s->real != 0 ? "true" : "false"); break;
    case GD_SET_STRING: gd__text_quote(t, s->string); break;
    case GD_SET_LIST:
        gd__text_add(t, "[");
        for (int i = 0; i < s->list_count; i++) {
            gd__text_comma(t);
            put_real(t, s->list[i]);
        }
        gd__text_add(t, "]");
        break;
    default: gd__text_add(t, "null");
    }
}

static void put_name(gd_text *t, const char *name)
{
    gd__text_comma(t);
    gd__text_quote(t, name);
}

static void put_key(gd_text *t, const char *key)
{
    put_name(t, key);
    gd__text_add(t, ": ");
}

static void put_generator(gd_text *t, const gd_rng *rng)
{
    gd__text_put(t, "[\"%" PRIu64 "\", \"%" PRIu64 "\"]", rng->key, rng->counter);
}

/* ---- names ---- */

const char *gd__root_path(const gd_optimizer *o, char out[GD_ROOT_PATH])
{
    *out = 0;
    if (!gd__is_chain(o->chain)) snprintf(out, GD_ROOT_PATH, "0:%s", o->chain->cls->name);
    return out;
}

gd_status gd__state_name(gd_text *out, const char *prefix, const char *param, const char *path,
                         const char *last)
{
    out->used = 0;
    gd__text_put(out, "%s%s%s%s/%s", prefix, param ? param : "", param ? "/" : "", path, last);
    return out->failed ? GD_NOMEM : GD_OK;
}

/* ---- links ---- */

typedef struct saving {
    gd_optimizer *o;
    gd_archive *archive;
    const char *prefix;
    bool parts; /* each rank puts its own shards; else rank 0 gathers them */
    gd_text text, name;
    gd_map standing; /* from stand-ins to their names */
    char **stand_in;
    int stand_ins, stand_in_room;
    bool parted; /* the owner of the parameter has the whole tensor */
} saving;

static void put_settings(gd_text *t, const gd_link *link, const gd_setting *value)
{
    gd__text_add(t, "{");
    for (int i = 0; i < link->cls->field_count; i++) {
        if (!value[i].kind || value[i].kind == GD_SET_CHAIN) continue;
        put_key(t, link->cls->fields[i].name);
        if (value[i].schedule) {
            gd__text_add(t, "{\"schedule\": ");
            put_schedule(t, value[i].schedule);
            gd__text_add(t, "}");
        } else
            put_setting(t, &value[i]);
    }
    gd__text_add(t, "}");
}

/* This rank's shard of it. */
static gd_status put_part(saving *s, const gd_entry *e, int slot)
{
    const gd_param *p = &s->o->param[gd__param_index(s->o, e->param)];
    gd_tensor *own = e->slot[slot];
    unsigned without = (unsigned)(e->sharded[slot] & 0x7fff) >> 1;
    gd_archive_whole whole;
    whole.ndim = gd__slot_shape(p->tensor, own->dtype, without, e->sharded[slot] >> 15, whole.size);
    int64_t numel = 1, from = p->cut[gd_world_rank(s->o->shared.share->world)];
    for (int i = 0; i < whole.ndim; i++) numel *= whole.size[i];
    whole.first = from == p->tensor->numel ? numel : from;
    return gd__archive_put_part(s->archive, s->name.data, own, &whole,
                                without || own->dtype == GD_U8 ? NULL : p->tensor);
}

/* State of several ranks is gathered at rank 0, whose archive has all of it; the archives of other ranks have none. */
static gd_status put_sharded(saving *s, const gd_entry *e, int slot)
{
    gd_tensor *whole = NULL;
    if (s->parts) return put_part(s, e, slot);
    gd_scope_begin(s->o->ctx);
    gd_status status = gd__share_whole(s->o, e, slot, &whole);
    if (!status && !gd_world_rank(s->o->shared.share->world))
        status = gd_archive_put(s->archive, s->name.data, whole);
    gd_scope_end(s->o->ctx);
    return status;
}

/* All of it, or nothing if a different rank owns it. */
static gd_status put_whole(saving *s, const gd_entry *e, int slot)
{
    gd_tensor *own = e->slot[slot];
    int owner = gd__share_owner(s->o, e->param), rank = gd_world_rank(s->o->shared.share->world);
    if (!s->parts) return rank ? GD_OK : gd_archive_put(s->archive, s->name.data, own);
    gd_archive_whole whole = {.ndim = own->ndim, .first = rank > owner ? own->numel : 0};
    for (int i = 0; i < own->ndim; i++) whole.size[i] = own->size[i];
    gd_scope_begin(s->o->ctx);
    if (rank != owner) own = gd__new(gd__cpu(s->o->ctx), own->dtype, 1, (int64_t[]){0});
    gd_status status = own ? gd__archive_put_part(s->archive, s->name.data, own, &whole,
                                                  e->slot[slot]->axes ? e->param : NULL)
                           : gd_error(s->o->ctx);
    gd_scope_end(s->o->ctx);
    return status;
}

static gd_status put_slots(saving *s, gd_link *link, const char *path, const gd_entry *e, const char *param)
{
    gd_status status = GD_OK;
    gd__text_add(&s->text, "\"slots\": [");
    for (int k = 0; k < link->cls->slot_count && !status; k++) {
        if (!e->slot[k]) continue;
        put_name(&s->text, link->cls->slots[k].name);
        status = gd__state_name(&s->name, s->prefix, param, path, link->cls->slots[k].name);
        if (status) continue;
        status = s->parted       ? put_whole(s, e, k)
                 : e->sharded[k] ? put_sharded(s, e, k)
                                 : gd_archive_put(s->archive, s->name.data, e->slot[k]);
    }
    gd__text_add(&s->text, "], \"fresh\": [");
    for (int k = 0; k < link->cls->slot_count; k++) {
        if (!e->slot[k] || !e->fresh[k]) continue;
        put_name(&s->text, link->cls->slots[k].name);
    }
    gd__text_add(&s->text, "]");
    return status;
}

static gd_status put_entry(saving *s, gd_link *link, const char *path, const gd_entry *e, const char *param)
{
    gd__text_add(&s->text, "{");
    gd_status status = put_slots(s, link, path, e, param);
    gd__text_add(&s->text, ", \"scalars\": {");
    for (int k = 0; k < link->cls->scalar_count; k++) {
        put_key(&s->text, link->cls->scalars[k]);
        put_real(&s->text, e->scalar[k]);
    }
    gd__text_add(&s->text, "}");
    if (e->missed) gd__text_put(&s->text, ", \"missed\": %" PRId64, e->missed);
    if (e->local) {
        gd__text_add(&s->text, ", \"local\": ");
        put_settings(&s->text, link, e->local);
    }
    gd__text_add(&s->text, "}");
    return status;
}

/* While the archive is written, all ranks know names and shapes of state that only the owner of its parameter keeps. */
static gd_status put_parted(saving *s, gd_link *link, const char *path, gd_entry *e, const char *param)
{
    gd_status status = gd__share_entry(link, e, !s->parts);
    s->parted = true;
    if (!status) status = put_entry(s, link, path, e, param);
    s->parted = false;
    gd__share_part(link, e);
    return status;
}

/* A matrix whose columns are at several ranks: rank 0 has all of it until it is written. */
static gd_status put_columns(saving *s, gd_link *link, const gd_global *g)
{
    gd_ctx *ctx = s->o->ctx;
    gd_tensor *t = NULL;
    gd_archive_whole whole = {.ndim = 2, .size = {g->tensor->size[0], g->columns->total}};
    bool first = !gd_world_rank(s->o->shared.share->world);
    gd_scope_begin(ctx);
    gd_status status = gd__columns_whole(link, g, false, &t);
    if (!first) whole.first = whole.size[0] * whole.size[1];
    if (!first && !status && s->parts) t = gd__new(gd__cpu(ctx), g->tensor->dtype, 1, (int64_t[]){0});
    if (!status && s->parts)
        status = t ? gd__archive_put_part(s->archive, s->name.data, t, &whole, NULL) : gd_error(ctx);
    else if (!status && first)
        status = gd_archive_put(s->archive, s->name.data, t);
    gd_scope_end(ctx);
    return status;
}

static gd_status put_globals(saving *s, gd_link *link, const char *path)
{
    gd_status status = GD_OK;
    gd__text_add(&s->text, "\"globals\": {");
    for (int i = 0; i < link->globals; i++) {
        put_key(&s->text, link->global[i]->name);
        put_real(&s->text, link->global[i]->value);
    }
    gd__text_add(&s->text, "}, \"tensors\": [");
    for (int i = 0; i < link->globals && !status; i++) {
        if (!link->global[i]->tensor) continue;
        put_name(&s->text, link->global[i]->name);
        status = gd__state_name(&s->name, s->prefix, NULL, path, link->global[i]->name);
        if (status) continue;
        status = link->global[i]->columns ? put_columns(s, link, link->global[i])
                                          : gd_archive_put(s->archive, s->name.data, link->global[i]->tensor);
    }
    gd__text_add(&s->text, "]");
    return status;
}

/* The name of a parameter or stand-in; NULL: the optimizer does not know it. */
static const char *name_of(const saving *s, const gd_tensor *t)
{
    int number = gd__param_index(s->o, t), other = gd__map_find(&s->standing, t);
    return number >= 0 ? s->o->param[number].name : other >= 0 ? s->stand_in[other] : NULL;
}

static gd_status name_stand_in(saving *s, const gd_tensor *t, const char *of, const char *path, int k)
{
    gd_ctx *ctx = s->o->ctx;
    if (!gd__reserve(ctx, &s->stand_in, s->stand_ins, &s->stand_in_room, sizeof *s->stand_in))
        return GD_NOMEM;
    s->name.used = 0;
    gd__text_put(&s->name, "%s%s%s#%d", of ? of : "", of ? "/" : "", path, k);
    if (s->name.failed || gd__map_reserve(ctx, &s->standing)) return GD_NOMEM;
    if (!(s->stand_in[s->stand_ins] = gd__strdup(ctx, s->name.data))) return GD_NOMEM;
    gd__map_put(&s->standing, t, s->stand_ins++);
    return GD_OK;
}

static void put_shape(gd_text *t, const gd_tensor *tensor)
{
    gd__text_put(t, "\"dtype\": \"%s\", \"shape\": [", gd_dtype_name(tensor->dtype));
    for (int k = 0; k < tensor->ndim; k++) gd__text_put(t, "%s%" PRId64, k ? ", " : "", tensor->size[k]);
    gd__text_add(t, "]");
}

static gd_status put_stand_ins(saving *s, const gd_link *link, const char *path)
{
    gd_status status = GD_OK;
    gd__text_add(&s->text, ", \"stand_ins\": [");
    for (int i = 0; i < link->stand_ins && !status; i++) {
        const gd_stand_in *block = &link->stand_in[i];
        const char *of = block->param ? name_of(s, block->param) : NULL;
        if (block->param && !of) continue; /* of tensors outside the optimizer */
        gd__text_comma(&s->text);
        gd__text_add(&s->text, "{\"of\": ");
        if (of)
            gd__text_quote(&s->text, of);
        else
            gd__text_add(&s->text, "null");
        gd__text_add(&s->text, ", \"tensors\": [");
        for (int k = 0; k < block->count && !status; k++) {
            gd__text_put(&s->text, "%s{", k ? ", " : "");
            put_shape(&s->text, block->tensor[k]);
            gd__text_add(&s->text, "}");
            status = name_stand_in(s, block->tensor[k], of, path, k);
        }
        gd__text_add(&s->text, "]}");
    }
    gd__text_add(&s->text, "]");
    return status;
}

static gd_status put_link(void *user, gd_link *link, const char *path)
{
    saving *s = user;
    if (!*path) return GD_OK; /* the chain itself has no state */
    put_key(&s->text, path);
    gd__text_put(&s->text, "{\"step\": %" PRId64 ", \"settings\": ", link->step);
    put_settings(&s->text, link, link->value);
    if (link->seeded) {
        gd__text_add(&s->text, ", \"generator\": ");
        put_generator(&s->text, &link->rng);
    }
    gd__text_add(&s->text, ", ");
    gd_status status = link->cls->pack ? link->cls->pack(link) : GD_OK;
    if (!status) status = put_globals(s, link, path);
    if (!status && link->stand_ins) status = put_stand_ins(s, link, path);
    gd__text_add(&s->text, ", \"params\": {");
    for (int i = 0; i < link->entries && !status; i++) {
        /* states of other owners are not the optimizer's */
        const char *name = name_of(s, link->entry[i]->param);
        if (!name) continue;
        put_key(&s->text, name);
        gd_entry *e = link->entry[i];
        status = e->parted ? put_parted(s, link, path, e, name) : put_entry(s, link, path, e, name);
    }
    gd__text_add(&s->text, "}}");
    return status;
}

/* ---- the rest ---- */

static gd_status put_axes(gd_text *t, const gd_param *p)
{
    gd_text axes = {.ctx = t->ctx};
    gd_status status = gd__archive_axes(&axes, p->tensor, p->name);
    if (!status && axes.used) gd__text_put(t, ", \"axes\": %s", axes.data);
    gd__text_free(&axes);
    return status;
}

static gd_status put_params(saving *s)
{
    gd_status status = GD_OK;
    gd__text_add(&s->text, "\"params\": {");
    for (int i = 0; i < s->o->count && !status; i++) {
        const gd_param *p = &s->o->param[i];
        put_key(&s->text, p->name);
        gd__text_add(&s->text, "{");
        put_shape(&s->text, p->tensor);
        status = put_axes(&s->text, p);
        gd__text_put(&s->text, ", \"group\": %d}", p->group);
    }
    gd__text_add(&s->text, "}");
    return status;
}

static void put_group(gd_text *t, const gd_group *g)
{
    gd__text_add(t, "{\"settings\": {");
    for (int i = 0; i < g->settings; i++) {
        put_key(t, g->setting[i].key);
        put_setting(t, &g->setting[i].value);
    }
    gd__text_add(t, "}, \"schedules\": {");
    for (int i = 0; i < g->settings; i++) {
        if (!g->setting[i].value.schedule) continue;
        put_key(t, g->setting[i].key);
        put_schedule(t, g->setting[i].value.schedule);
    }
    gd__text_add(t, "}}");
}

static gd_status put_attributes(saving *s)
{
    gd_status status = GD_OK;
    gd__text_add(&s->text, "\"attributes\": {");
    for (int i = 0; i < s->o->attrs; i++) {
        put_key(&s->text, s->o->attr[i].name);
        put_real(&s->text, s->o->attr[i].value);
    }
    gd__text_add(&s->text, "}, \"attribute_tensors\": [");
    for (int i = 0; i < s->o->attrs && !status; i++) {
        const gd_attr *a = &s->o->attr[i];
        if (!a->tensor) continue;
        put_name(&s->text, a->name);
        status = gd__state_name(&s->name, s->prefix, NULL, "attribute", a->name);
        if (!status) status = gd_archive_put(s->archive, s->name.data, a->tensor);
    }
    gd__text_add(&s->text, "]");
    return status;
}

static gd_status put_chain_text(gd_text *t, const gd_link *chain)
{
    size_t size = (size_t)gd_link_print(chain, NULL, 0) + 1;
    char *text = gd__alloc(t->ctx, size);
    if (!text) return GD_NOMEM;
    (void)gd_link_print(chain, text, size);
    gd__text_quote(t, text);
    gd__free(t->ctx, text, size);
    return GD_OK;
}

static gd_status put_all(saving *s)
{
    gd_optimizer *o = s->o;
    gd_text *t = &s->text;
    char root[GD_ROOT_PATH];
    gd__text_add(t, "{\"version\": 1, \"chain\": ");
    gd_status status = put_chain_text(t, o->chain);
    gd__text_put(t,
                 ", \"step\": %" PRId64 ", \"held\": %" PRId64 ", \"evals\": %" PRId64
                 ", \"terminate\": %s, \"generator\": ",
                 o->step, o->held, o->evals, o->should_terminate ? "true" : "false");
    put_generator(t, &o->ctx->rng);
    if (o->constraint_evals) gd__text_put(t, ", \"constraint_evals\": %" PRId64, o->constraint_evals);
    gd__text_add(t, ", ");
    if (!status) status = put_params(s);
    gd__text_add(t, ", \"groups\": [");
    for (int g = 0; g < o->grouping.count && !status; g++) {
        gd__text_comma(t);
        put_group(t, &o->grouping.list[g]);
    }
    gd__text_add(t, "], \"all\": ");
    put_group(t, &o->grouping.all);
    gd__text_add(t, ", ");
    if (!status) status = put_attributes(s);
    gd__text_add(t, ", \"links\": {");
    if (!status) status = gd__visit_links(o->chain, gd__root_path(o, root), put_link, s);
    gd__text_add(t, "}}");
    return status ? status : t->failed ? GD_NOMEM : GD_OK;
}

static gd_status pack(gd_optimizer *o, gd_archive *archive, const char *prefix, bool parts)
{
    if (o->evaluating)
        return gd__not_stepping(o, "saving"); /* the parameters saved with it would be different */
    if (o->shared.partial) return gd__refuse_partial(o, "saving");
    gd_ctx *ctx = o->ctx;
    saving s = {.o = o,
                .archive = archive,
                .prefix = prefix ? prefix : "",
                .parts = parts,
                .text = {.ctx = ctx},
                .name = {.ctx = ctx}};
    gd_status status = put_all(&s);
    s.name.used = 0;
    gd__text_put(&s.name, "%soptimizer", s.prefix);
    if (!status) status = s.name.failed ? GD_NOMEM : gd_archive_set_meta(archive, s.name.data, s.text.data);
    for (int i = 0; i < s.stand_ins; i++) gd__strfree(ctx, s.stand_in[i]);
    gd__free(ctx, s.stand_in, (size_t)s.stand_in_room * sizeof *s.stand_in);
    gd__map_free(ctx, &s.standing);
    gd__text_free(&s.text);
    gd__text_free(&s.name);
    return status;
}

gd_status gd_optimizer_pack(gd_optimizer *o, gd_archive *archive, const char *prefix)
{
    if (!o || !archive) return gd__null(gd_optimizer_ctx(o), "optimizer: the archive is NULL");
    return pack(o, archive, prefix, false);
}

gd_status gd__join_ranks(void *user, gd_status mine, uint64_t *number, size_t count)
{
    gd_share *share = user;
    gd_ctx *ctx = gd_world_ctx(share->world);
    if (mine && gd_error(ctx))
        mine = gd_error(ctx); /* the first error: a text looks malformed if memory runs out */
    gd_collective what = {
        .kind = count && !mine ? GD_ALL_REDUCE : GD_BARRIER, .failed = mine, .name = "a checkpoint"};
    gd_scope_begin(ctx);
    if (count && !mine) what.tensor = gd__share_memory(gd__cpu(ctx), GD_I64, number, (int64_t)count);
    gd_status status = gd__share_call(share, &what);
    gd_scope_end(ctx);
    return status;
}

gd_status gd__optimizer_save_in(gd_optimizer *o, gd_archive *archive, const char *prefix, const char *path,
                                gd_status status)
{
    bool shared = gd__shares_state(o);
    if (shared) o->shared.share->told = false;
    if (!status) status = pack(o, archive, prefix, shared);
    if (!shared) return status ? status : gd_archive_save(archive, path);
    if (status && o->shared.share->told) return status; /* on all ranks */
    o->shared.share->told = false;
    gd_together all = {
        .join = gd__join_ranks, .user = o->shared.share, .first = !gd_world_rank(o->shared.share->world)};
    return gd__archive_save_together(archive, path, status, &all);
}

gd_status gd_optimizer_save_in(gd_optimizer *o, gd_archive *archive, const char *prefix, const char *path)
{
    if (!o) return GD_ARGUMENT;
    gd_status status = archive ? GD_OK : gd__null(o->ctx, "optimizer: the archive is NULL");
    return gd__optimizer_save_in(o, archive, prefix, path, status);
}

gd_status gd_optimizer_save(gd_optimizer *o, const char *path)
{
    if (!o) return GD_ARGUMENT;
    gd_archive *archive = gd_archive_new(o->ctx);
    gd_status status = gd__optimizer_save_in(o, archive, NULL, path, archive ? GD_OK : GD_NOMEM);
    gd_archive_free(archive);
    return status;
}
