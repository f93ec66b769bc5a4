/* State dicts: the tensors of a tree by name, saving and loading. */
#include "module/module_internal.h"
#include "module/report.h"

#include <stdio.h>
#include <string.h>

gd_load_options gd_load_defaults(void) { return (gd_load_options){0}; }

/* ---- out ---- */

static bool in_state(const gd_named_item *item) { return !item->attribute->transient; }

static gd_named *state_list(gd_module *module)
{
    return gd__list(module, GD_WANT_PARAMETERS | GD_WANT_BUFFERS, NULL);
}

gd_archive *gd_module_state(gd_module *module)
{
    gd_named *all = state_list(module);
    if (!all) return NULL;
    gd_archive *archive = gd_archive_new(module->head.ctx);
    gd_status status = archive ? GD_OK : GD_NOMEM;
    for (int i = 0; i < all->count && !status; i++)
        if (in_state(&all->item[i])) status = gd_archive_put(archive, all->item[i].name, all->tensors[i]);
    gd__release(all);
    if (!status) return archive;
    gd_archive_free(archive);
    return NULL;
}

gd_status gd_module_save(gd_module *module, const char *path)
{
    if (!module) return GD_ARGUMENT;
    gd_archive *archive = gd_module_state(module);
    if (!archive) return gd__failure(module, GD_NOMEM);
    gd_status status = gd_archive_save(archive, path);
    gd_archive_free(archive);
    return status;
}

/* ---- the report ---- */

typedef struct problem {
    gd_load_problem kind;
    char *name;
} problem;

struct gd_load_report {
    gd_object head;
    problem *item;
    int count, capacity;
    int of_kind[GD_LOAD_PROBLEMS];
    int64_t loaded;
    char *text;
    int length, room;
};

static void report_destroy(void *object)
{
    gd_load_report *report = object;
    gd_ctx *ctx = report->head.ctx;
    for (int i = 0; i < report->count; i++) gd__strfree(ctx, report->item[i].name);
    gd__free(ctx, report->item, (size_t)report->capacity * sizeof *report->item);
    gd__free(ctx, report->text, (size_t)report->room);
    gd__free(ctx, report, sizeof *report);
}

static const gd_object_type report_type = {"LoadReport", report_destroy};

gd_load_report *gd__load_report_new(gd_ctx *ctx)
{
    gd_load_report *report = gd__calloc(ctx, sizeof *report);
    if (!report) return NULL;
    if (gd__object_init(ctx, report, &report_type) == GD_OK) return report;
    gd__free(ctx, report, sizeof *report);
    return NULL;
}

static gd_status append(gd_load_report *report, const char *text)
{
    int length = (int)strlen(text);
    while (report->length + length + 1 > report->room)
        if (!gd__reserve(report->head.ctx, &report->text, report->room, &report->room, 1)) return GD_NOMEM;
    memcpy(report->text + report->length, text, (size_t)length + 1);
    report->length += length;
    return GD_OK;
}

gd_status gd__load_report_note(gd_load_report *report, gd_load_problem kind, const char *before,
                               const char *name, const char *after)
{
    gd_ctx *ctx = report->head.ctx;
    if (!gd__reserve(ctx, &report->item, report->count, &report->capacity, sizeof *report->item))
        return GD_NOMEM;
    char *own = gd__strdup(ctx, name);
    if (!own) return GD_NOMEM;
    report->item[report->count++] = (problem){kind, own};
    report->of_kind[kind]++;
    const char *words[] = {report->length ? "; " : "", before, "'", name, "'", after};
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof words / sizeof *words && !status; i++) status = append(report, words[i]);
    return status;
}

void gd__load_report_count_loaded(gd_load_report *report, int64_t loaded) { report->loaded += loaded; }

int64_t gd_load_report_loaded(const gd_load_report *report) { return report ? report->loaded : 0; }

int64_t gd_load_report_count(const gd_load_report *report, gd_load_problem kind)
{
    return report && (unsigned)kind < GD_LOAD_PROBLEMS ? report->of_kind[kind] : 0;
}

const char *gd_load_report_name(const gd_load_report *report, gd_load_problem kind, int64_t index)
{
    for (int i = 0; report && i < report->count; i++)
        if (report->item[i].kind == kind && index-- == 0) return report->item[i].name;
    return NULL;
}

const char *gd_load_report_text(const gd_load_report *report)
{
    return report && report->text ? report->text : "";
}

gd_load_report *gd_load_report_keep(gd_load_report *report)
{
    gd__keep(report);
    return report;
}

void gd_load_report_release(gd_load_report *report) { gd__user_release(report); }

/* ---- loading ---- */

/* The state of a load. */
typedef struct load {
    gd_module *module;
    const gd_archive *state;
    gd_load_options options;
    gd_load_report *report;
    gd_named *all;
    gd_tensor **fresh; /* the new values, owned; NULL: stays */
} load;

/* Sizes equal; names and labels equal where both sides have them. */
static bool same_axes(const gd_tensor *a, const gd_tensor *b)
{
    if (!gd__same_shape(a, b)) return false;
    for (int i = 0; i < a->ndim; i++) {
        const char *name_a = gd__name(a, i), *name_b = gd__name(b, i);
        if (name_a && name_b && strcmp(name_a, name_b) != 0) return false;
        const gd_labels *la = gd__labels(a, i), *lb = gd__labels(b, i);
        for (int64_t k = 0; la && lb && la != lb && k < a->size[i]; k++)
            if (strcmp(la->text[k], lb->text[k]) != 0) return false;
    }
    return true;
}

static gd_status note_shape(gd_load_report *report, const char *name, const gd_tensor *there,
                            const gd_tensor *here)
{
    char a[256], b[256], text[640];
    bool labels = gd__same_shape(there, here) &&
                  strcmp(gd__shape_text(there, a, sizeof a), gd__shape_text(here, b, sizeof b)) == 0;
    snprintf(text, sizeof text,
             labels ? " has other labels in the state than here, shape %s"
                    : " has shape %s in the state and %s here",
             gd__shape_text(there, a, sizeof a), gd__shape_text(here, b, sizeof b));
    return gd__load_report_note(report, GD_LOAD_SHAPE, "", name, text);
}

static gd_status note_dtype(gd_load_report *report, const char *name, const gd_tensor *there,
                            const gd_tensor *here)
{
    char text[64];
    snprintf(text, sizeof text, " is %s in the state and %s here", gd_dtype_name(there->dtype),
             gd_dtype_name(here->dtype));
    return gd__load_report_note(report, GD_LOAD_DTYPE, "", name, text);
}

/* Compares one tensor of the module with the state and, if it fits, makes its new value. */
static gd_status match(load *l, int i)
{
    const char *name = l->all->item[i].name;
    gd_tensor *here = l->all->tensors[i], *there = gd_archive_find(l->state, name);
    if (!in_state(&l->all->item[i])) return GD_OK;
    if (!there) return gd__load_report_note(l->report, GD_LOAD_MISSING, "missing ", name, "");
    if (!same_axes(there, here)) return note_shape(l->report, name, there, here);
    if (there->dtype != here->dtype) {
        gd_status status = note_dtype(l->report, name, there, here);
        if (status || !l->options.cast) return status;
    }
    l->fresh[i] = gd__own_copy(there, here->dtype, gd_tensor_device(here));
    return l->fresh[i] ? GD_OK : gd__failure(l->module, GD_NOMEM);
}

static bool is_expected(const load *l, const char *name)
{
    for (int i = 0; i < l->all->count; i++)
        if (in_state(&l->all->item[i]) && strcmp(l->all->item[i].name, name) == 0) return true;
    return false;
}

/* PyTorch's batch norms also save a count of batches, which running averages with a momentum do not need. */
static bool counts_batches(const load *l, const char *name)
{
    static const char count[] = "num_batches_tracked", mean[] = "running_mean";
    char sibling[512];
    size_t size = strlen(name), end = sizeof count - 1, place = size - end;
    if (size < end || strcmp(name + place, count) != 0 || (place && name[place - 1] != '.') ||
        place + sizeof mean > sizeof sibling)
        return false;
    memcpy(sibling, name, place);
    memcpy(sibling + place, mean, sizeof mean);
    return is_expected(l, sibling);
}

static gd_status match_all(load *l)
{
    gd_status status = GD_OK;
    for (int i = 0; i < l->all->count && !status; i++) status = match(l, i);
    for (int64_t i = 0; i < gd_archive_count(l->state) && !status; i++) {
        const char *name = gd_archive_name(l->state, i);
        if (!is_expected(l, name) && !counts_batches(l, name))
            status = gd__load_report_note(l->report, GD_LOAD_UNEXPECTED, "unexpected ", name, "");
    }
    return status;
}

static gd_status verdict(const load *l)
{
    const int *n = l->report->of_kind;
    bool names = !l->options.partial && (n[GD_LOAD_MISSING] || n[GD_LOAD_UNEXPECTED]);
    bool dtypes = !l->options.cast && n[GD_LOAD_DTYPE];
    if (!names && !dtypes && !n[GD_LOAD_SHAPE]) return GD_OK;
    char place[GD_PLACE_SIZE];
    return gd_fail(l->module->head.ctx, GD_MISMATCH, "module '%s': the state does not match: %s",
                   gd__place(l->module, place), gd_load_report_text(l->report));
}

static void commit(load *l)
{
    for (int i = 0; i < l->all->count; i++) {
        if (!l->fresh[i]) continue;
        gd__swap_storage(l->all->tensors[i], l->fresh[i]);
        l->report->loaded++;
    }
}

gd_status gd_module_load_state(gd_module *module, const gd_archive *state, const gd_load_options *options,
                               gd_load_report **report)
{
    if (report) *report = NULL;
    if (!module || !state) return gd__null(gd_module_ctx(module), "module: there is no state to load");
    gd_ctx *ctx = module->head.ctx;
    load l = {.module = module, .state = state, .options = options ? *options : gd_load_defaults()};
    l.report = gd__load_report_new(ctx);
    l.all = l.report ? state_list(module) : NULL;
    size_t bytes = l.all ? (size_t)l.all->count * sizeof *l.fresh : 0;
    l.fresh = l.all ? gd__calloc(ctx, bytes) : NULL;
    gd_status status = l.fresh ? match_all(&l) : gd__failure(module, GD_NOMEM);
    bool told = !status; /* the report is complete */
    if (!status) status = verdict(&l);
    if (!status) commit(&l);
    for (int i = 0; l.fresh && i < l.all->count; i++) gd__release(l.fresh[i]);
    gd__free(ctx, l.fresh, bytes);
    gd__release(l.all);
    if (told && report)
        *report = l.report;
    else
        gd__release(l.report);
    return status;
}

gd_status gd_module_load(gd_module *module, const char *path, const gd_load_options *options,
                         gd_load_report **report)
{
    if (report) *report = NULL;
    if (!module) return GD_ARGUMENT;
    gd_archive *state = gd_archive_load(module->head.ctx, path);
    if (!state) return gd__failure(module, GD_IO);
    gd_status status = gd_module_load_state(module, state, options, report);
    gd_archive_free(state);
    return status;
}
