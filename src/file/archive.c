/* Archives: named tensors and texts, saved as and loaded from safetensors files. */
#include "gradus/file.h"
#include "file/file.h"
#include "file/safetensors.h"

#include <stdio.h>
#include <string.h>

typedef struct slot {
    char *name;
    gd_tensor *tensor; /* owned, outside every scope */
} slot;

typedef struct meta {
    char *key, *text;
} meta;

struct gd_archive {
    gd_ctx *ctx;
    slot *slot;
    size_t count, capacity;
    size_t *bucket; /* open addressing: 1 + slot number, 0 is free; at most half full */
    size_t buckets;
    meta *meta;
    size_t meta_count, meta_bytes;
};

/* ---- names ---- */

/* Where a name is, or the free place where it belongs. */
static size_t find_bucket(const gd_archive *archive, const char *name)
{
    size_t mask = archive->buckets - 1, at = (size_t)gd__checksum(0, name, strlen(name)) & mask;
    while (archive->bucket[at] && strcmp(archive->slot[archive->bucket[at] - 1].name, name) != 0)
        at = (at + 1) & mask;
    return at;
}

/* Room for one more slot and its bucket. */
static gd_status reserve(gd_archive *archive)
{
    if (archive->count < archive->capacity) return GD_OK;
    size_t old = archive->capacity, capacity = old ? old * 2 : 16, buckets = capacity * 2;
    size_t *bucket = gd__calloc(archive->ctx, buckets * sizeof *bucket);
    if (!bucket) return GD_NOMEM;
    slot *slots = gd__realloc(archive->ctx, archive->slot, old * sizeof *slots, capacity * sizeof *slots);
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

/* The reference that a builder just returned, taken out of the scope that may hold it. */
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
    archive->slot[archive->count++] = (slot){copy, tensor};
    return GD_OK;
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
    }
    for (size_t i = 0; i < archive->meta_count; i++) {
        gd__strfree(ctx, archive->meta[i].key);
        gd__strfree(ctx, archive->meta[i].text);
    }
    gd__free(ctx, archive->slot, archive->capacity * sizeof *archive->slot);
    gd__free(ctx, archive->bucket, archive->buckets * sizeof *archive->bucket);
    gd__free(ctx, archive->meta, archive->meta_bytes);
    gd__free(ctx, archive, sizeof *archive);
}

gd_status gd_archive_put(gd_archive *archive, const char *name, gd_tensor *tensor)
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
    gd_tensor *detached = take(gd_detach(tensor));
    if (!detached) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    return add(archive, name, detached);
}

int64_t gd_archive_count(const gd_archive *archive) { return archive ? (int64_t)archive->count : 0; }

static const slot *slot_at(const gd_archive *archive, int64_t index)
{
    return archive && index >= 0 && (uint64_t)index < archive->count ? &archive->slot[index] : NULL;
}

const char *gd_archive_name(const gd_archive *archive, int64_t index)
{
    const slot *s = slot_at(archive, index);
    return s ? s->name : NULL;
}

gd_tensor *gd_archive_get(const gd_archive *archive, int64_t index)
{
    const slot *s = slot_at(archive, index);
    return s ? s->tensor : NULL;
}

gd_tensor *gd_archive_find(const gd_archive *archive, const char *name)
{
    if (!archive || !archive->count || !name) return NULL;
    size_t found = archive->bucket[find_bucket(archive, name)];
    return found ? archive->slot[found - 1].tensor : NULL;
}

/* ---- texts ---- */

static meta *find_meta(const gd_archive *archive, const char *key)
{
    for (size_t i = 0; archive && key && i < archive->meta_count; i++)
        if (strcmp(archive->meta[i].key, key) == 0) return &archive->meta[i];
    return NULL;
}

static void remove_meta(gd_archive *archive, meta *m)
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
    meta added = {gd__strdup(ctx, key), gd__strdup(ctx, text)};
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
    meta *found = find_meta(archive, key);
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
    const meta *m = find_meta(archive, key);
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

/* ---- elements as bytes ---- */

gd_status gd__bytes_of(const gd_tensor *t, gd_bytes *bytes)
{
    gd_ctx *ctx = gd_tensor_ctx(t);
    *bytes = (gd_bytes){.size = (size_t)gd_numel(t) * gd_dtype_size(gd_tensor_dtype(t))};
    if (bytes->size == 0) return GD_OK;
    if (gd_is_contiguous(t) && strcmp(gd_device_name(gd_tensor_device(t)), "cpu") == 0) {
        bytes->data = gd_data(t);
        return bytes->data ? GD_OK : GD_DEVICE;
    }
    bytes->scratch = gd__alloc(ctx, bytes->size);
    if (!bytes->scratch) return GD_NOMEM;
    gd_status status = gd_read(t, bytes->scratch, bytes->size);
    if (status)
        gd__bytes_free(ctx, bytes);
    else
        bytes->data = bytes->scratch;
    return status;
}

void gd__bytes_free(gd_ctx *ctx, gd_bytes *bytes)
{
    gd__free(ctx, bytes->scratch, bytes->size);
    *bytes = (gd_bytes){0};
}

void gd__normalise_bools(void *data, size_t size)
{
    unsigned char *byte = data;
    for (size_t i = 0; i < size; i++) byte[i] = byte[i] != 0;
}

/* ---- saving ---- */

static bool has_labels(const gd_tensor *t, int axis)
{
    return gd_size(t, axis) > 0 && gd_axis_label(t, axis, 0);
}

/* {"name":"..","labels":["..",..]}, without what the axis does not have; null when it has neither. */
static gd_status print_axis(gd_text *text, const gd_tensor *t, const char *tensor, int axis)
{
    const char *name = gd_axis_name(t, axis);
    bool labels = has_labels(t, axis);
    if (!name && !labels) {
        gd__text_add(text, "null");
        return GD_OK;
    }
    if (name && !gd__is_utf8(name))
        return gd_fail(text->ctx, GD_VALUE, "save: tensor '%s': the name of axis %d is not UTF-8", tensor,
                       axis);
    gd__text_add(text, name ? "{\"name\":" : "{");
    if (name) gd__text_quote(text, name);
    if (labels) gd__text_add(text, name ? ",\"labels\":[" : "\"labels\":[");
    for (int64_t i = 0; labels && i < gd_size(t, axis); i++) {
        const char *label = gd_axis_label(t, axis, i);
        if (!gd__is_utf8(label))
            return gd_fail(text->ctx, GD_VALUE, "save: tensor '%s': label %lld of axis %d is not UTF-8",
                           tensor, (long long)i, axis);
        if (i) gd__text_add(text, ",");
        gd__text_quote(text, label);
    }
    gd__text_add(text, labels ? "]}" : "}");
    return GD_OK;
}

/* The axes as JSON; no text when none has a name or labels. */
static gd_status print_axes(gd_text *text, const gd_tensor *t, const char *tensor)
{
    bool any = false;
    for (int i = 0; i < gd_ndim(t); i++) any |= gd_axis_name(t, i) || has_labels(t, i);
    for (int i = 0; any && i < gd_ndim(t); i++) {
        gd__text_add(text, i ? "," : "[");
        gd_status status = print_axis(text, t, tensor, i);
        if (status) return status;
    }
    if (any) gd__text_add(text, "]");
    return text->failed ? GD_NOMEM : GD_OK;
}

static gd_status describe(const slot *s, gd_safetensors_item *item, gd_text *axes)
{
    *item = (gd_safetensors_item){.name = s->name,
                                  .dtype = gd_tensor_dtype(s->tensor),
                                  .ndim = gd_ndim(s->tensor),
                                  .shape = gd_shape(s->tensor)};
    gd_bytes bytes;
    gd_status status = gd__bytes_of(s->tensor, &bytes);
    if (status) return status;
    item->sum = gd__tensor_sum(bytes.data, bytes.size, gd_dtype_size(item->dtype));
    gd__bytes_free(gd_tensor_ctx(s->tensor), &bytes);
    axes->ctx = gd_tensor_ctx(s->tensor);
    status = print_axes(axes, s->tensor, s->name);
    item->axes = axes->data;
    return status;
}

/* Header, then the elements in their order. */
static gd_status write_file(const gd_archive *archive, const char *path, const char *header, size_t size,
                            const size_t *order)
{
    gd_file_writer writer;
    gd_status status = gd__file_create(archive->ctx, path, &writer);
    if (status) return status;
    status = gd__file_write(&writer, header, size);
    for (size_t i = 0; i < archive->count && !status; i++) {
        gd_bytes bytes;
        status = gd__bytes_of(archive->slot[order[i]].tensor, &bytes);
        if (!status) status = gd__file_write(&writer, bytes.data, bytes.size);
        gd__bytes_free(archive->ctx, &bytes);
    }
    if (!status) return gd__file_commit(&writer);
    gd__file_discard(&writer);
    return status;
}

gd_status gd_archive_save(const gd_archive *archive, const char *path)
{
    if (!archive) return GD_ARGUMENT;
    gd_ctx *ctx = archive->ctx;
    size_t count = archive->count, meta_count = archive->meta_count, header_size = 0;
    gd_safetensors_item *item = gd__calloc(ctx, count * sizeof *item);
    gd_text *axes = gd__calloc(ctx, count * sizeof *axes);
    gd_safetensors_meta *metas = gd__calloc(ctx, meta_count * sizeof *metas);
    size_t *order = gd__calloc(ctx, count * sizeof *order);
    char *header = NULL;
    gd_status status = item && axes && metas && order ? GD_OK : GD_NOMEM;
    for (size_t i = 0; i < count && !status; i++) status = describe(&archive->slot[i], &item[i], &axes[i]);
    for (size_t i = 0; i < meta_count && !status; i++)
        metas[i] = (gd_safetensors_meta){archive->meta[i].key, archive->meta[i].text};
    if (!status)
        status = gd__safetensors_write(ctx, item, count, metas, meta_count, order, &header, &header_size);
    if (!status) status = write_file(archive, path, header, header_size, order);
    gd__free(ctx, header, header_size);
    for (size_t i = 0; axes && i < count && axes[i].ctx; i++) gd__text_free(&axes[i]);
    gd__free(ctx, axes, count * sizeof *axes);
    gd__free(ctx, item, count * sizeof *item);
    gd__free(ctx, metas, meta_count * sizeof *metas);
    gd__free(ctx, order, count * sizeof *order);
    return status;
}

/* ---- loading ---- */

/* Replaces *t by `next`, which was made from it. */
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

/* Elements of a dtype that gradus has not: the bytes of the file, then the wider ones made of them. */
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
