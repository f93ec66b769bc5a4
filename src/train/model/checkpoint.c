/* Checkpoints of gradus train; see recipe.h. */
#include "train/model/recipe.h"

#include "optim/ranks/share.h"
#include "optim/state/state.h"

#include <stdio.h>
#include <string.h>

#define NAME 300

void gd__checkpoint_close(gd_checkpoint *c)
{
    for (int i = 0; c->best && i < c->params; i++) gd_release(c->best[i]);
    gd__free(c->ctx, c->best, (size_t)c->params * sizeof *c->best);
    for (int k = 0; k < c->members; k++) gd__network_close(&c->member[k]);
    gd__free(c->ctx, c->member, (size_t)c->members * sizeof *c->member);
    gd__network_close(&c->model);
    gd__scaling_close(&c->input);
    gd__scaling_close(&c->output);
    gd_release(c->weight);
    gd__recipe_free(c->ctx, &c->recipe);
    *c = (gd_checkpoint){.ctx = c->ctx};
}

/* ---- the best parameters ---- */

gd_status gd__checkpoint_copy(gd_checkpoint *c, gd_tensor ***copies)
{
    gd_named *all = gd_module_parameters(c->model.module, NULL);
    if (!all) return gd_error(c->ctx);
    gd_status status = GD_OK;
    c->params = (int)gd_named_count(all);
    if (!*copies && !(*copies = gd__calloc(c->ctx, (size_t)c->params * sizeof **copies))) status = GD_NOMEM;
    for (int i = 0; i < c->params && !status; i++) {
        gd_tensor *param = gd_named_tensor(all, i), **copy = *copies + i;
        if (!*copy && !(*copy = gd_zeros_like(param))) status = gd_error(c->ctx);
        if (!status) status = gd_assign(*copy, param);
    }
    gd_named_release(all);
    return status;
}

gd_status gd__checkpoint_remember(gd_checkpoint *c) { return gd__checkpoint_copy(c, &c->best); }

void gd__checkpoint_free_copies(gd_checkpoint *c, gd_tensor ***copies)
{
    for (int i = 0; *copies && i < c->params; i++) gd_release((*copies)[i]);
    gd__free(c->ctx, *copies, (size_t)c->params * sizeof **copies);
    *copies = NULL;
}

gd_status gd__checkpoint_take_best(gd_checkpoint *c)
{
    if (!c->best) return GD_OK;
    gd_named *all = gd_module_parameters(c->model.module, NULL);
    gd_status status = all ? GD_OK : gd_error(c->ctx);
    for (int i = 0; i < c->params && !status; i++) status = gd_assign(gd_named_tensor(all, i), c->best[i]);
    gd_named_release(all);
    return status;
}

gd_status gd__checkpoint_move(gd_checkpoint *c, gd_device *device)
{
    gd_status status = gd_module_to_device(c->model.module, device);
    for (int k = 0; k < c->members && !status; k++) status = gd_module_to_device(c->member[k].module, device);
    for (int i = 0; c->best && i < c->params && !status; i++) {
        gd_tensor *moved = gd_to_device(c->best[i], device);
        if (!moved) return gd_error(c->ctx);
        gd_release(c->best[i]);
        c->best[i] = moved;
    }
    return status;
}

/* ---- other models ---- */

static gd_status open_member(gd_checkpoint *c)
{
    const gd_recipe *r = &c->recipe;
    size_t bytes = (size_t)c->members * sizeof *c->member;
    gd_network *member = gd__realloc(c->ctx, c->member, bytes, bytes + sizeof *member);
    if (!member) return GD_NOMEM;
    c->member = member;
    member[c->members] = (gd_network){0};
    return gd__network_open(c->ctx, &c->model.spec, r->row_axes, r->row, r->outputs, r->dtype,
                            &member[c->members++]);
}

gd_status gd__checkpoint_add_member(gd_checkpoint *c)
{
    gd_status status = open_member(c);
    gd_named *from = status ? NULL : gd_module_parameters(c->model.module, NULL);
    gd_named *to = from ? gd_module_parameters(c->member[c->members - 1].module, NULL) : NULL;
    if (!status && !to) status = gd_error(c->ctx);
    for (int64_t i = 0; to && i < gd_named_count(to) && !status; i++)
        status = gd_assign(gd_named_tensor(to, i), gd_named_tensor(from, i));
    gd_named_release(to);
    gd_named_release(from);
    return status;
}

static gd_status take(const gd_archive *archive, const char *path, const char *group, const char *name,
                      gd_tensor *to);

/* ---- saving ---- */

static gd_status put(gd_archive *archive, const char *group, const char *name, gd_tensor *t)
{
    char full[NAME];
    if (!t) return GD_OK;
    (void)snprintf(full, sizeof full, "%s.%.250s", group, name);
    return gd_archive_put(archive, full, t);
}

static gd_status put_parameters(gd_checkpoint *c, gd_archive *archive, bool best_alone)
{
    gd_named *all = gd_module_parameters(c->model.module, NULL);
    gd_status status = all ? GD_OK : gd_error(c->ctx);
    for (int64_t i = 0; all && !best_alone && i < gd_named_count(all) && !status; i++)
        status = put(archive, "model", gd_named_name(all, i), gd_named_tensor(all, i));
    for (int i = 0; c->best && i < c->params && !status; i++)
        status = put(archive, "best", gd_named_name(all, i), c->best[i]);
    gd_named_release(all);
    return status;
}

/* Reads or writes the parameters of the k-th member under its own names. */
static gd_status exchange_member(gd_checkpoint *c, int k, gd_archive *to, const gd_archive *from,
                                 const char *path)
{
    char group[24];
    gd_named *all = gd_module_parameters(c->member[k].module, NULL);
    gd_status status = all ? GD_OK : gd_error(c->ctx);
    (void)snprintf(group, sizeof group, "member%d", k + 1);
    for (int64_t i = 0; all && i < gd_named_count(all) && !status; i++)
        status = to ? put(to, group, gd_named_name(all, i), gd_named_tensor(all, i))
                    : take(from, path, group, gd_named_name(all, i), gd_named_tensor(all, i));
    gd_named_release(all);
    return status;
}

static gd_status put_all(gd_checkpoint *c, gd_archive *archive)
{
    gd_status status = put_parameters(c, archive, false);
    for (int k = 0; k < c->members && !status; k++) status = exchange_member(c, k, archive, NULL, NULL);
    if (!status) status = put(archive, "class", "weight", c->weight);
    if (!status) status = put(archive, "input", "mean", c->input.mean);
    if (!status) status = put(archive, "input", "scale", c->input.scale);
    if (!status) status = put(archive, "output", "mean", c->output.mean);
    return status ? status : put(archive, "output", "scale", c->output.scale);
}

static gd_status put_recipe(const gd_checkpoint *c, const gd_progress_state *progress, gd_archive *archive)
{
    gd_text text = gd__text(c->ctx);
    gd__recipe_print(&text, &c->recipe, progress);
    gd_status status = text.failed ? GD_NOMEM : gd_archive_set_meta(archive, "train", text.data);
    gd__text_free(&text);
    return status;
}

static gd_status pack(gd_checkpoint *c, gd_optimizer *optimizer, gd_archive *archive)
{
    gd_status status = put_all(c, archive);
    if (!status) status = put_recipe(c, &c->progress, archive);
    return !status && optimizer ? gd_optimizer_pack(optimizer, archive, "optimizer/") : status;
}

gd_status gd__checkpoint_save(gd_checkpoint *c, gd_optimizer *optimizer, const char *path)
{
    gd_archive *archive = gd_archive_new(c->ctx);
    gd_status status = archive ? pack(c, NULL, archive) : GD_NOMEM;
    if (optimizer && (gd__checkpoint_writes(c) || gd__shares_state(optimizer)))
        status = gd__optimizer_save_in(optimizer, archive, "optimizer/", path, status);
    else if (!status && gd__checkpoint_writes(c))
        status = gd_archive_save(archive, path);
    gd_archive_free(archive);
    return c->world ? gd_world_agree(c->world, status) : status;
}

bool gd__checkpoint_writes(const gd_checkpoint *c) { return !c->world || gd_world_rank(c->world) == 0; }

/* ---- checkpoints in memory ---- */

static bool is_best(const char *name) { return !strncmp(name, "best.", 5); }

/* Copies tensors and texts of an archive to a second one, without the best parameters; copies: on the CPU. */
static gd_status add_entries(gd_ctx *ctx, gd_archive *to, const gd_archive *from, bool copies)
{
    gd_status status = GD_OK;
    gd_device *cpu = gd_device_get(ctx, "cpu");
    gd__aside_begin(ctx);
    for (int64_t i = 0; i < gd_archive_count(from) && !status; i++) {
        gd_tensor *t = gd_archive_get(from, i);
        if (is_best(gd_archive_name(from, i))) continue;
        if (copies) t = gd_tensor_device(t) == cpu ? gd_copy(t) : gd_to_device(t, cpu);
        status = t ? gd_archive_put(to, gd_archive_name(from, i), t) : gd_error(ctx);
    }
    gd__aside_end(ctx);
    for (int64_t i = 0; i < gd_archive_meta_count(from) && !status; i++)
        status = gd_archive_set_meta(to, gd_archive_meta_key(from, i), gd_archive_meta_text(from, i));
    return status;
}

gd_archive *gd__checkpoint_keep(gd_checkpoint *c, gd_optimizer *optimizer)
{
    gd_archive *packed = gd_archive_new(c->ctx), *kept = packed ? gd_archive_new(c->ctx) : NULL;
    gd_status status = kept ? pack(c, optimizer, packed) : GD_NOMEM;
    if (!status) status = add_entries(c->ctx, kept, packed, true);
    gd_archive_free(packed);
    if (!status) return kept;
    gd_archive_free(kept);
    return NULL;
}

bool gd__checkpoint_kept_finite(gd_ctx *ctx, const gd_archive *kept)
{
    bool finite = true;
    gd__aside_begin(ctx);
    for (int64_t i = 0; i < gd_archive_count(kept) && finite; i++) {
        if (strncmp(gd_archive_name(kept, i), "model.", 6) != 0) continue;
        gd_tensor *all = gd_all(gd_isfinite(gd_archive_get(kept, i)), NULL, false);
        finite = all && gd_item(all) != 0;
    }
    gd__aside_end(ctx);
    return finite;
}

gd_status gd__checkpoint_save_kept(gd_checkpoint *c, const gd_archive *kept, const gd_progress_state *then,
                                   const char *path)
{
    gd_progress_state progress = *then;
    progress.best_loss = c->progress.best_loss;
    progress.best_epoch = c->progress.best_epoch;
    gd_archive *archive = gd_archive_new(c->ctx);
    gd_status status = archive ? add_entries(c->ctx, archive, kept, false) : GD_NOMEM;
    if (!status) status = put_parameters(c, archive, true);
    if (!status) status = put_recipe(c, &progress, archive);
    if (!status && gd__checkpoint_writes(c)) status = gd_archive_save(archive, path);
    gd_archive_free(archive);
    return status;
}

/* ---- loading ---- */

static gd_status take(const gd_archive *archive, const char *path, const char *group, const char *name,
                      gd_tensor *to)
{
    char full[NAME];
    gd_ctx *ctx = gd_tensor_ctx(to);
    (void)snprintf(full, sizeof full, "%s.%.250s", group, name);
    gd_tensor *from = gd_archive_find(archive, full);
    if (!from) return gd_fail(ctx, GD_FORMAT, "%s: no tensor '%s'", path, full);
    bool fits = gd_tensor_dtype(from) == gd_tensor_dtype(to) && gd_ndim(from) == gd_ndim(to);
    for (int i = 0; i < gd_ndim(to) && fits; i++) fits = gd_size(from, i) == gd_size(to, i);
    return fits ? gd_assign(to, from)
                : gd_fail(ctx, GD_FORMAT, "%s: tensor '%s' does not fit the model", path, full);
}

static gd_status take_parameters(gd_checkpoint *c, const gd_archive *archive, const char *path)
{
    gd_named *all = gd_module_parameters(c->model.module, NULL);
    gd_status status = all ? GD_OK : gd_error(c->ctx);
    char first[NAME] = "";
    for (int64_t i = 0; all && i < gd_named_count(all) && !status; i++)
        status = take(archive, path, "model", gd_named_name(all, i), gd_named_tensor(all, i));
    if (!status) (void)snprintf(first, sizeof first, "best.%.250s", gd_named_name(all, 0));
    if (!status && gd_archive_find(archive, first)) status = gd__checkpoint_remember(c);
    for (int i = 0; c->best && i < c->params && !status; i++)
        status = take(archive, path, "best", gd_named_name(all, i), c->best[i]);
    gd_named_release(all);
    return status;
}

/* A pair of tensors that broadcast to a row of that shape, or none. */
static gd_status take_scaling(const gd_archive *archive, const char *path, const char *group, int axes,
                              const int64_t *row, gd_scaling *out)
{
    char name[2][32];
    gd_tensor *stored[2];
    for (int k = 0; k < 2; k++) {
        (void)snprintf(name[k], sizeof name[k], "%s.%s", group, k ? "scale" : "mean");
        stored[k] = gd_archive_find(archive, name[k]);
    }
    if (!stored[0] && !stored[1]) return GD_OK;
    gd_tensor *any = stored[0] ? stored[0] : stored[1];
    for (int k = 0; k < 2; k++) {
        bool fits = stored[k] && gd_tensor_dtype(stored[k]) == GD_F64 &&
                    (gd_ndim(stored[k]) == 0 || gd_ndim(stored[k]) == axes);
        for (int i = 0; fits && i < gd_ndim(stored[k]); i++) fits = gd_size(stored[k], i) == row[i];
        if (!fits)
            return gd_fail(gd_tensor_ctx(any), GD_FORMAT, "%s: tensor '%s' does not fit", path, name[k]);
    }
    out->mean = gd_copy(stored[0]);
    out->scale = gd_copy(stored[1]);
    return out->mean && out->scale ? GD_OK : gd_error(gd_tensor_ctx(any));
}

/* Does the size of the model match the data? Checked before it is built, because a damaged description may say anything. */
static bool sizes_agree(const gd_archive *archive, const gd_recipe *r, const gd_network_spec *spec)
{
    double numbers = 0;
    for (int64_t i = 0; i < gd_archive_count(archive); i++)
        if (!strncmp(gd_archive_name(archive, i), "model.", 6))
            numbers += (double)gd_numel(gd_archive_get(archive, i));
    return gd__network_numbers(spec, r->row_axes, r->row, r->outputs) == numbers;
}

static gd_status take_weight(gd_checkpoint *c, const gd_archive *archive, const char *path)
{
    gd_tensor *stored = gd_archive_find(archive, "class.weight");
    if (!stored) return GD_OK;
    if (gd_tensor_dtype(stored) != GD_F64 || gd_ndim(stored) != 1 || gd_size(stored, 0) != c->recipe.outputs)
        return gd_fail(c->ctx, GD_FORMAT, "%s: tensor 'class.weight' does not fit", path);
    c->weight = gd_copy(stored);
    return c->weight ? GD_OK : gd_error(c->ctx);
}

static gd_status load(gd_checkpoint *c, const gd_archive *archive, const char *path)
{
    const char *text = gd_archive_get_meta(archive, "train");
    gd_recipe *r = &c->recipe;
    if (!text) return gd_fail(c->ctx, GD_FORMAT, "%s: not a model of gradus train", path);
    gd_status status = gd__recipe_parse(c->ctx, path, text, r, &c->progress);
    gd_network_spec spec;
    if (!status && gd__network_parse(c->ctx, r->model, &spec)) {
        gd_clear_error(c->ctx);
        status = gd_fail(c->ctx, GD_FORMAT, "%s: its model '%.60s' cannot be read", path, r->model);
    }
    if (!status) spec.columns = &r->columns;
    if (!status && !sizes_agree(archive, r, &spec))
        status = gd_fail(c->ctx, GD_FORMAT, "%s: its tensors do not fit its model", path);
    if (!status)
        status = gd__network_open(c->ctx, &spec, r->row_axes, r->row, r->outputs, r->dtype, &c->model);
    if (!status) status = take_parameters(c, archive, path);
    for (int64_t k = 1; k < r->seeds && !status; k++) {
        status = open_member(c);
        if (!status) status = exchange_member(c, c->members - 1, NULL, archive, path);
    }
    if (!status) status = take_weight(c, archive, path);
    if (!status) status = take_scaling(archive, path, "input", r->row_axes, r->row, &c->input);
    return status ? status : take_scaling(archive, path, "output", 1, &r->outputs, &c->output);
}

gd_status gd__checkpoint_read(gd_ctx *ctx, const char *path, const gd_archive *archive, gd_checkpoint *out)
{
    *out = (gd_checkpoint){.ctx = ctx};
    return load(out, archive, path);
}

gd_status gd__checkpoint_load(gd_ctx *ctx, const char *path, bool parts, gd_checkpoint *out,
                              gd_archive **archive)
{
    *out = (gd_checkpoint){.ctx = ctx};
    *archive = parts ? gd__archive_open(ctx, path) : gd_archive_load(ctx, path);
    return *archive ? load(out, *archive, path) : gd_error(ctx);
}
