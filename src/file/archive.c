/* Archives: named tensors and texts, loaded from safetensors files.  Saving is in save.c. */
#include "file/archive.h"
#include "file/file_internal.h"
#include "file/safetensors.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

/* The slot of a name, or the free slot where it belongs. */
static size_t find_bucket(const gd_archive *archive, const char *name)
{
    size_t mask = archive->buckets - 1, at = (size_t)gd__checksum(0, name, strlen(name)) & mask;
    while (archive->bucket[at] && strcmp(archive->slot[archive->bucket[at] - 1].name, name) != 0)
        at = (at + 1) & mask;
    return at;
}

/* Memory for one more slot and its bucket. */
static gd_status reserve(gd_archive *archive)
{
    if (archive->count < archive->capacity) return GD_OK;
    size_t old = archive->capacity, capacity = old ? old * 2 : 16, buckets = capacity * 2;
    size_t *bucket = gd__calloc(archive->ctx, buckets * sizeof *bucket);
    if (!bucket) return GD_NOMEM;
    gd_archive_slot *slots = gd__realloc(archive->ctx, archive->slot, old * sizeof *slots,
                                         capacity * sizeof *slots);
    if (!slots) {
        gd__free(archive->ctx, bucket, buckets * sizeof *bucket);
        return GD_NOMEM;
    }
    gd__free(archive->ctx, archive->bucket, archive->buckets * sizeof *bucket);
    archive->slot = slots;
    archive->capacity = capacity;
    archive->bucket = bucket;
    archive->buckets = buckets;
    for (size_t i = 0; i < archive->count; i++) bucket[find_bucket(archive, slots[i].name)] = i + 1;
    return GD_OK;
}

/* The reference of a builder's result, taken out of the scope that may hold it. */
static gd_tensor *take(gd_tensor *fresh)
{
    gd_object *object = (gd_object *)fresh;
    if (object && object->slot) gd__own(object);
    return fresh;
}

/* Adds a tensor whose reference is consumed, also on failure. */
static gd_status add(gd_archive *archive, const char *name, gd_tensor *tensor)
{
    gd_status status = reserve(archive);
    char *copy = status ? NULL : gd__strdup(archive->ctx, name);
    if (!copy) {
        gd_release(tensor);
        return GD_NOMEM;
    }
    archive->bucket[find_bucket(archive, name)] = archive->count + 1;
    archive->slot[archive->count++] = (gd_archive_slot){.name = copy, .tensor = tensor};
    return GD_OK;
}

/* ---- files whose tensors are read on request ---- */

struct gd_archive_source {
    gd_file_reader reader;
    gd_safetensors *file; /* its i-th entry is the i-th slot */
    char *path;
    char name[300]; /* for messages */
    uint64_t data_at;
};

static void close_source(gd_ctx *ctx, gd_archive_source *s)
{
    if (!s) return;
    gd__safetensors_free(s->file);
    gd__file_close(&s->reader);
    gd__strfree(ctx, s->path);
    gd__free(ctx, s, sizeof *s);
}

static gd_tensor *read_tensor(gd_file_reader *reader, const gd_safetensors *file,
                              const gd_safetensors_entry *entry);

/* The tensor of a slot; NULL with the error recorded. */
static gd_tensor *tensor_of(const gd_archive *archive, gd_archive_slot *s)
{
    gd_archive_source *from = archive->source;
    if (s->tensor || !from) return s->tensor;
    const gd_safetensors_entry *entry = &from->file->entry[s - archive->slot];
    if (gd__file_seek(&from->reader, from->data_at + entry->offset)) return NULL;
    return s->tensor = take(read_tensor(&from->reader, from->file, entry));
}

/* ---- the collection ---- */

gd_archive *gd_archive_new(gd_ctx *ctx)
{
    if (!ctx) return NULL;
    gd_archive *archive = gd__calloc(ctx, sizeof *archive);
    if (archive) archive->ctx = ctx;
    return archive;
}

void gd_archive_free(gd_archive *archive)
{
    if (!archive) return;
    gd_ctx *ctx = archive->ctx;
    for (size_t i = 0; i < archive->count; i++) {
        gd__strfree(ctx, archive->slot[i].name);
        gd_release(archive->slot[i].tensor);
        gd__release(archive->slot[i].axes_of);
        gd__free(ctx, archive->slot[i].whole, sizeof *archive->slot[i].whole);
    }
    for (size_t i = 0; i < archive->meta_count; i++) {
        gd__strfree(ctx, archive->meta[i].key);
        gd__strfree(ctx, archive->meta[i].text);
    }
    gd__free(ctx, archive->slot, archive->capacity * sizeof *archive->slot);
    gd__free(ctx, archive->bucket, archive->buckets * sizeof *archive->bucket);
    gd__free(ctx, archive->meta, archive->meta_bytes);
    close_source(ctx, archive->source);
    gd__free(ctx, archive, sizeof *archive);
}

static gd_status check_new(const gd_archive *archive, const char *name, const gd_tensor *tensor)
{
    if (!archive) return GD_ARGUMENT;
    gd_ctx *ctx = archive->ctx;
    if (!tensor)
        return gd_error(ctx) ? gd_error(ctx) : gd_fail(ctx, GD_ARGUMENT, "archive_put: no tensor given");
    if (!name) return gd_fail(ctx, GD_ARGUMENT, "archive_put: no name given");
    if (!gd__is_utf8(name)) return gd_fail(ctx, GD_ARGUMENT, "archive_put: the name '%s' is not UTF-8", name);
    if (strcmp(name, "__metadata__") == 0)
        return gd_fail(ctx, GD_ARGUMENT, "archive_put: the format keeps the name '__metadata__' for itself");
    if (gd_archive_find(archive, name))
        return gd_fail(ctx, GD_ARGUMENT, "archive_put: there is a tensor '%s' already", name);
    return GD_OK;
}

gd_status gd_archive_put(gd_archive *archive, const char *name, gd_tensor *tensor)
{
    gd_status status = check_new(archive, name, tensor);
    if (status) return status;
    gd_tensor *detached = take(gd_detach(tensor));
    if (detached) return add(archive, name, detached);
    return gd_error(archive->ctx) ? gd_error(archive->ctx) : GD_NOMEM;
}

gd_status gd__archive_put_part(gd_archive *archive, const char *name, gd_tensor *part,
                               const gd_archive_whole *whole, gd_tensor *axes_of)
{
    gd_archive_whole *copy = gd__alloc(archive->ctx, sizeof *copy);
    gd_status status = copy ? gd_archive_put(archive, name, part) : GD_NOMEM;
    if (status) {
        gd__free(archive->ctx, copy, copy ? sizeof *copy : 0);
        return status;
    }
    gd_archive_slot *s = &archive->slot[archive->count - 1];
    *copy = *whole;
    s->whole = copy;
    if (axes_of) gd__retain(s->axes_of = axes_of);
    return GD_OK;
}

int64_t gd_archive_count(const gd_archive *archive) { return archive ? (int64_t)archive->count : 0; }

static gd_archive_slot *slot_at(const gd_archive *archive, int64_t index)
{
    return archive && index >= 0 && (uint64_t)index < archive->count ? &archive->slot[index] : NULL;
}

const char *gd_archive_name(const gd_archive *archive, int64_t index)
{
    const gd_archive_slot *s = slot_at(archive, index);
    return s ? s->name : NULL;
}

gd_tensor *gd_archive_get(const gd_archive *archive, int64_t index)
{
    gd_archive_slot *s = slot_at(archive, index);
    return s ? tensor_of(archive, s) : NULL;
}

gd_tensor *gd_archive_find(const gd_archive *archive, const char *name)
{
    if (!archive || !archive->count || !name) return NULL;
    size_t found = archive->bucket[find_bucket(archive, name)];
    return found ? tensor_of(archive, &archive->slot[found - 1]) : NULL;
}

/* ---- texts ---- */

static gd_archive_meta *find_meta(const gd_archive *archive, const char *key)
{
    for (size_t i = 0; archive && key && i < archive->meta_count; i++)
        if (strcmp(archive->meta[i].key, key) == 0) return &archive->meta[i];
    return NULL;
}

static void remove_meta(gd_archive *archive, gd_archive_meta *m)
{
    gd__strfree(archive->ctx, m->key);
    gd__strfree(archive->ctx, m->text);
    size_t after = (size_t)(archive->meta + archive->meta_count - (m + 1));
    memmove(m, m + 1, after * sizeof *m);
    archive->meta_count--;
}

static gd_status add_meta(gd_archive *archive, const char *key, const char *text)
{
    gd_ctx *ctx = archive->ctx;
    size_t need = (archive->meta_count + 1) * sizeof *archive->meta;
    if (!gd__grow(ctx, &archive->meta, &archive->meta_bytes, need)) return GD_NOMEM;
    gd_archive_meta added = {gd__strdup(ctx, key), gd__strdup(ctx, text)};
    if (!added.key || !added.text) {
        gd__strfree(ctx, added.key);
        gd__strfree(ctx, added.text);
        return GD_NOMEM;
    }
    archive->meta[archive->meta_count++] = added;
    return GD_OK;
}

gd_status gd_archive_set_meta(gd_archive *archive, const char *key, const char *text)
{
    if (!archive) return GD_ARGUMENT;
    gd_ctx *ctx = archive->ctx;
    if (!key) return gd_fail(ctx, GD_ARGUMENT, "archive_set_meta: no key given");
    if (strncmp(key, "gradus.", 7) == 0)
        return gd_fail(ctx, GD_ARGUMENT,
                       "archive_set_meta: the key '%s' begins with 'gradus.', which is taken", key);
    if (!gd__is_utf8(key) || (text && !gd__is_utf8(text)))
        return gd_fail(ctx, GD_ARGUMENT, "archive_set_meta: the key or text of '%s' is not UTF-8", key);
    gd_archive_meta *found = find_meta(archive, key);
    if (!text) {
        if (found) remove_meta(archive, found);
        return GD_OK;
    }
    if (!found) return add_meta(archive, key, text);
    char *copy = gd__strdup(ctx, text);
    if (!copy) return GD_NOMEM;
    gd__strfree(ctx, found->text);
    found->text = copy;
    return GD_OK;
}

const char *gd_archive_get_meta(const gd_archive *archive, const char *key)
{
    const gd_archive_meta *m = find_meta(archive, key);
    return m ? m->text : NULL;
}

int64_t gd_archive_meta_count(const gd_archive *archive)
{
    return archive ? (int64_t)archive->meta_count : 0;
}

const char *gd_archive_meta_key(const gd_archive *archive, int64_t index)
{
    return index >= 0 && index < gd_archive_meta_count(archive) ? archive->meta[index].key : NULL;
}

const char *gd_archive_meta_text(const gd_archive *archive, int64_t index)
{
    return index >= 0 && index < gd_archive_meta_count(archive) ? archive->meta[index].text : NULL;
}

/* ---- loading ---- */

/* Replaces *t by `next`, derived from it. */
static bool replace(gd_tensor **t, gd_tensor *next)
{
    gd_release(*t);
    *t = next;
    return next != NULL;
}

static gd_tensor *with_labels(gd_tensor *t, const gd_safetensors_entry *entry, int axis,
                              const char *axis_text)
{
    gd_ctx *ctx = gd_tensor_ctx(t);
    size_t count = (size_t)entry->shape[axis];
    const char **labels = gd__alloc_array(ctx, count, sizeof *labels);
    if (!labels) return NULL;
    for (size_t i = 0; i < count; i++) labels[i] = gd__safetensors_label(entry, axis, (int64_t)i);
    gd_tensor *labelled = gd_with_labels(t, axis_text, labels);
    gd__free(ctx, labels, count * sizeof *labels);
    return labelled;
}

/* The axes of the entry on t, which is consumed.  NULL on failure. */
static gd_tensor *with_axes(gd_tensor *t, const gd_safetensors_entry *entry)
{
    for (int i = 0; i < entry->ndim; i++) {
        char axis[16];
        snprintf(axis, sizeof axis, "%d", i);
        const char *name = gd__safetensors_axis(entry, i);
        if (entry->shape[i] > 0 && gd__safetensors_label(entry, i, 0) &&
            !replace(&t, with_labels(t, entry, i, axis)))
            return NULL;
        if (name && !replace(&t, gd_rename_axis(t, axis, name))) return NULL;
    }
    return t;
}

/* Elements of a dtype that gradus lacks: the bytes of the file, then wider elements made of them. */
static gd_status read_widened(gd_file_reader *reader, const gd_safetensors *file,
                              const gd_safetensors_entry *entry, void *out, size_t count)
{
    size_t size = (size_t)entry->size;
    void *bytes = gd__alloc(file->ctx, size);
    if (!bytes) return GD_NOMEM;
    gd_status status = gd__file_read(reader, bytes, size);
    if (!status) status = gd__safetensors_check(file, entry, bytes);
    size_t fit = status ? count : entry->widen(bytes, count, out);
    gd__free(file->ctx, bytes, size);
    if (fit == count) return status;
    return gd_fail(file->ctx, GD_VALUE, "load '%s': tensor '%s': element %zu of %s does not fit %s",
                   reader->path, entry->name, fit, entry->dtype_name, gd_dtype_name(entry->dtype));
}

static gd_status read_elements(gd_file_reader *reader, const gd_safetensors *file,
                               const gd_safetensors_entry *entry, gd_tensor *t)
{
    size_t size = (size_t)entry->size;
    void *data = size ? gd_data_mut(t) : NULL;
    if (size && !data) return GD_NOMEM;
    if (size && entry->widen) return read_widened(reader, file, entry, data, (size_t)gd_numel(t));
    gd_status status = gd__file_read(reader, data, size);
    if (!status) status = gd__safetensors_check(file, entry, data);
    if (!status && entry->dtype == GD_BOOL) gd__normalise_bools(data, size);
    return status;
}

/* One tensor, whose bytes are next in the file.  New. */
static gd_tensor *read_tensor(gd_file_reader *reader, const gd_safetensors *file,
                              const gd_safetensors_entry *entry)
{
    if (entry->dtype == GD_DTYPE_COUNT)
        return gd__refuse(file->ctx, GD_DTYPE,
                          "load '%s': tensor '%s' has dtype %s, which gradus does not have", reader->path,
                          entry->name, entry->dtype_name);
    gd_tensor *t = gd_empty(file->ctx, entry->dtype, entry->ndim, entry->shape);
    if (!t) return NULL;
    if (!read_elements(reader, file, entry, t)) return with_axes(t, entry);
    gd_release(t);
    return NULL;
}

/* Tensors are read in the order of the data and added in that of the header. */
static gd_status read_tensors(gd_archive *archive, gd_file_reader *reader, const gd_safetensors *file)
{
    gd_ctx *ctx = archive->ctx;
    size_t bytes = file->count * sizeof(gd_tensor *);
    gd_tensor **tensor = gd__calloc(ctx, bytes);
    gd_status status = tensor ? GD_OK : GD_NOMEM;
    for (size_t i = 0; i < file->count && !status; i++) {
        size_t index = file->by_offset[i];
        tensor[index] = take(read_tensor(reader, file, &file->entry[index]));
        if (!tensor[index]) status = GD_FORMAT; /* the true one is recorded */
    }
    if (!status) status = gd__file_at_end(reader);
    for (size_t i = 0; tensor && i < file->count; i++) {
        if (status)
            gd_release(tensor[i]);
        else
            status = add(archive, file->entry[i].name, tensor[i]);
    }
    gd__free(ctx, tensor, bytes);
    for (size_t i = 0; i < file->meta_count && !status; i++)
        status = add_meta(archive, file->meta[i].key, file->meta[i].value);
    return status;
}

/* The parsed header of an opened file; NULL on failure. */
static gd_safetensors *read_file_header(gd_file_reader *reader, const char *source)
{
    gd_ctx *ctx = reader->ctx;
    char first[8];
    size_t length = 0;
    if (gd__file_read(reader, first, sizeof first)) return NULL;
    if (gd__safetensors_length(ctx, source, first, reader->size, &length)) return NULL;
    char *header = gd__alloc(ctx, 8 + length);
    if (!header) return NULL;
    memcpy(header, first, 8);
    gd_safetensors *file = NULL;
    if (!gd__file_read(reader, header + 8, length))
        file = gd__safetensors_header(ctx, source, header, length, reader->size);
    gd__free(ctx, header, 8 + length);
    return file;
}

gd_archive *gd_archive_load(gd_ctx *ctx, const char *path)
{
    if (!ctx) return NULL;
    gd_file_reader reader;
    if (gd__file_open(ctx, path, UINT64_MAX, &reader)) return NULL;
    char source[300];
    snprintf(source, sizeof source, "load '%.280s'", path);
    gd_archive *archive = gd_archive_new(ctx);
    gd_safetensors *file = archive ? read_file_header(&reader, source) : NULL;
    gd_status status = file ? read_tensors(archive, &reader, file) : GD_FORMAT;
    gd__safetensors_free(file);
    gd__file_close(&reader);
    if (!status) return archive;
    gd_archive_free(archive);
    return NULL;
}

/* ---- reading on request ---- */

static gd_status open_source(gd_archive *archive, const char *path)
{
    gd_ctx *ctx = archive->ctx;
    gd_archive_source *s = gd__calloc(ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    archive->source = s;
    s->reader.fd = -1;
    s->reader.ctx = ctx;
    snprintf(s->name, sizeof s->name, "load '%.280s'", path ? path : "");
    if (path && !(s->path = gd__strdup(ctx, path))) return GD_NOMEM;
    gd_status status = gd__file_open(ctx, s->path, UINT64_MAX, &s->reader);
    if (status) return status;
    if (!(s->file = read_file_header(&s->reader, s->name))) return GD_FORMAT; /* the true one is recorded */
    s->data_at = s->reader.position;
    return GD_OK;
}

gd_archive *gd__archive_open(gd_ctx *ctx, const char *path)
{
    gd_archive *archive = gd_archive_new(ctx);
    if (!archive) return NULL;
    gd_status status = open_source(archive, path);
    const gd_safetensors *file = status ? NULL : archive->source->file;
    for (size_t i = 0; file && i < file->count && !status; i++)
        status = add(archive, file->entry[i].name, NULL);
    for (size_t i = 0; file && i < file->meta_count && !status; i++)
        status = add_meta(archive, file->meta[i].key, file->meta[i].value);
    if (!status) return archive;
    gd_archive_free(archive);
    return NULL;
}

bool gd__archive_unread(const gd_archive *archive, int64_t index, gd_archive_unread *out)
{
    const gd_archive_slot *s = slot_at(archive, index);
    if (!s || s->tensor || !archive->source) return false;
    const gd_safetensors *file = archive->source->file;
    const gd_safetensors_entry *entry = &file->entry[index];
    *out = (gd_archive_unread){entry->dtype, entry->ndim, entry->shape};
    return !entry->widen && entry->dtype != GD_DTYPE_COUNT && entry->dtype != GD_BOOL &&
           (!entry->sum || file->by_chunk);
}

gd_status gd__archive_read_part(const gd_archive *archive, int64_t index, int64_t first, int64_t count,
                                void *out, uint64_t *sum)
{
    gd_archive_source *s = archive->source;
    const gd_safetensors_entry *entry = &s->file->entry[index];
    size_t bytes = (size_t)count * entry->item;
    if (!bytes) return GD_OK;
    gd_status status = gd__file_seek(&s->reader, s->data_at + entry->offset + (uint64_t)first * entry->item);
    if (!status) status = gd__file_read(&s->reader, out, bytes);
    if (!status) gd__chunk_sums(out, bytes, entry->item, sum);
    return status;
}

gd_status gd__archive_check(const gd_archive *archive, int64_t index, const uint64_t *sum, size_t count)
{
    const gd_safetensors *file = archive->source->file;
    return gd__safetensors_compare(file, &file->entry[index], gd__sum_of_sums(sum, count));
}

/* ---- one tensor ---- */

gd_tensor *gd__archive_pick(gd_ctx *ctx, const char *path, gd_pick_fn *pick, void *user)
{
    gd_file_reader reader;
    if (gd__file_open(ctx, path, UINT64_MAX, &reader)) return NULL;
    char source[300];
    snprintf(source, sizeof source, "load '%.280s'", path);
    gd_tensor *t = NULL;
    gd_safetensors *file = read_file_header(&reader, source);
    int64_t index = file ? pick(user, file) : -1;
    /* the header is read: the data begins here */
    if (index >= 0 && !gd__file_skip(&reader, file->entry[index].offset))
        t = read_tensor(&reader, file, &file->entry[index]);
    gd__safetensors_free(file);
    gd__file_close(&reader);
    return t;
}

static int64_t pick_name(void *user, const gd_safetensors *file)
{
    const char *name = user;
    for (size_t i = 0; i < file->count; i++)
        if (name ? strcmp(file->entry[i].name, name) == 0 : file->count == 1) return (int64_t)i;
    if (name)
        (void)gd_fail(file->ctx, GD_ARGUMENT, "%s: no tensor '%s'", file->source, name);
    else
        (void)gd_fail(file->ctx, GD_ARGUMENT, "%s: %zu tensors, and no name given", file->source,
                      file->count);
    return -1;
}

gd_tensor *gd_archive_load_tensor(gd_ctx *ctx, const char *path, const char *name)
{
    return ctx ? gd__archive_pick(ctx, path, pick_name, (char *)(uintptr_t)name) : NULL;
}
