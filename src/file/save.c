/* Saving archives: by one process, or by several into one file (archive.h). */
#include "file/archive.h"
#include "file/file_internal.h"
#include "file/safetensors.h"

#include <string.h>

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

gd_status gd__archive_axes(gd_text *text, const gd_tensor *t, const char *tensor)
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

/* ---- the file ---- */

/* The saving of an archive. */
typedef struct writing {
    const gd_archive *archive;
    gd_safetensors_item *item;
    gd_text *axes;
    gd_safetensors_meta *meta;
    size_t *order; /* of the data */
    char *header;
    size_t header_size;
    uint64_t *sum; /* of all chunks of sharded tensors, one tensor after the other */
    size_t sums;
} writing;

static size_t chunks_of(const gd_safetensors_item *item)
{
    size_t count = 1;
    for (int i = 0; i < item->ndim; i++) count *= (size_t)item->shape[i];
    return (count + GD_CHECKSUM_CHUNK - 1) / GD_CHECKSUM_CHUNK;
}

static gd_status describe(const gd_archive_slot *s, gd_safetensors_item *item, gd_text *axes)
{
    const gd_tensor *like = s->whole ? s->axes_of : s->tensor;
    *item = (gd_safetensors_item){.name = s->name,
                                  .dtype = gd_tensor_dtype(s->tensor),
                                  .ndim = s->whole ? s->whole->ndim : gd_ndim(s->tensor),
                                  .shape = s->whole ? s->whole->size : gd_shape(s->tensor)};
    axes->ctx = gd_tensor_ctx(s->tensor);
    gd_status status = like ? gd__archive_axes(axes, like, s->name) : GD_OK;
    item->axes = axes->data;
    return status;
}

/* Checksums: of a whole tensor; of a shard those of its chunks, in their places. */
static gd_status sum_up(const gd_archive_slot *s, gd_safetensors_item *item, uint64_t *chunk)
{
    gd_bytes bytes;
    gd_status status = gd__bytes_of(s->tensor, &bytes);
    size_t size = gd_dtype_size(item->dtype), step = size * GD_CHECKSUM_CHUNK;
    if (!status && !s->whole) item->sum = gd__tensor_sum(bytes.data, bytes.size, size);
    if (!status && s->whole)
        gd__chunk_sums(bytes.data, bytes.size, size, chunk + s->whole->first * (int64_t)size / (int64_t)step);
    gd__bytes_free(gd_tensor_ctx(s->tensor), &bytes);
    return status;
}

/* whole: sums also of tensors that all processes have. */
static gd_status describe_all(writing *w, bool whole)
{
    const gd_archive *archive = w->archive;
    gd_status status = GD_OK;
    for (size_t i = 0; i < archive->count && !status; i++) {
        status = describe(&archive->slot[i], &w->item[i], &w->axes[i]);
        if (archive->slot[i].whole) w->sums += chunks_of(&w->item[i]);
    }
    for (size_t i = 0; i < archive->meta_count; i++)
        w->meta[i] = (gd_safetensors_meta){archive->meta[i].key, archive->meta[i].text};
    if (!status && !(w->sum = gd__calloc(archive->ctx, w->sums * sizeof *w->sum))) status = GD_NOMEM;
    uint64_t *next = w->sum;
    for (size_t i = 0; i < archive->count && !status; i++) {
        const gd_archive_slot *s = &archive->slot[i];
        if (s->whole || whole) status = sum_up(s, &w->item[i], next);
        if (s->whole) next += chunks_of(&w->item[i]);
    }
    return status;
}

static gd_status begin_writing(writing *w, const gd_archive *archive, bool whole)
{
    gd_ctx *ctx = archive->ctx;
    *w = (writing){.archive = archive,
                   .item = gd__calloc(ctx, archive->count * sizeof *w->item),
                   .axes = gd__calloc(ctx, archive->count * sizeof *w->axes),
                   .meta = gd__calloc(ctx, archive->meta_count * sizeof *w->meta),
                   .order = gd__calloc(ctx, archive->count * sizeof *w->order)};
    return w->item && w->axes && w->meta && w->order ? describe_all(w, whole) : GD_NOMEM;
}

static gd_status make_header(writing *w)
{
    const gd_archive *archive = w->archive;
    return gd__safetensors_write(archive->ctx, w->item, archive->count, w->meta, archive->meta_count,
                                 w->order, &w->header, &w->header_size);
}

static void end_writing(writing *w)
{
    if (!w->archive) return;
    gd_ctx *ctx = w->archive->ctx;
    size_t count = w->archive->count;
    for (size_t i = 0; w->axes && i < count && w->axes[i].ctx; i++) gd__text_free(&w->axes[i]);
    gd__free(ctx, w->header, w->header_size);
    gd__free(ctx, w->axes, count * sizeof *w->axes);
    gd__free(ctx, w->item, count * sizeof *w->item);
    gd__free(ctx, w->meta, w->archive->meta_count * sizeof *w->meta);
    gd__free(ctx, w->order, count * sizeof *w->order);
    gd__free(ctx, w->sum, w->sums * sizeof *w->sum);
}

static gd_status write_tensor(gd_file_writer *writer, const gd_tensor *t)
{
    gd_bytes bytes;
    gd_status status = gd__bytes_of(t, &bytes);
    if (!status) status = gd__file_write(writer, bytes.data, bytes.size);
    gd__bytes_free(writer->ctx, &bytes);
    return status;
}

/* ---- by one process ---- */

/* Header, then the elements in their order. */
static gd_status write_file(const writing *w, const char *path)
{
    gd_file_writer writer;
    gd_status status = gd__file_create(w->archive->ctx, path, &writer);
    if (status) return status;
    status = gd__file_write(&writer, w->header, w->header_size);
    for (size_t i = 0; i < w->archive->count && !status; i++)
        status = write_tensor(&writer, w->archive->slot[w->order[i]].tensor);
    if (!status) return gd__file_commit(&writer);
    gd__file_discard(&writer);
    return status;
}

gd_status gd_archive_save(const gd_archive *archive, const char *path)
{
    if (!archive) return GD_ARGUMENT;
    writing w;
    gd_status status = begin_writing(&w, archive, true);
    if (!status) status = make_header(&w);
    if (!status) status = write_file(&w, path);
    end_writing(&w);
    return status;
}

/* ---- by several ---- */

/* Data of the file that the first process has created. */
typedef struct place {
    uint64_t data_at;  /* the first byte behind the header */
    uint64_t contents; /* a hash of names and shapes */
    uint64_t target;   /* and one of the name of the file */
    char name[GD_FILE_TEMP_NAME];
} place;

_Static_assert(sizeof(place) % sizeof(uint64_t) == 0, "it travels as numbers");

static uint64_t contents_of(const writing *w)
{
    uint64_t number = w->archive->count;
    for (size_t i = 0; i < w->archive->count; i++) {
        const gd_safetensors_item *item = &w->item[i];
        number = gd__checksum(number, item->name, strlen(item->name));
        number = gd__checksum(number, item->shape, (size_t)item->ndim * sizeof *item->shape);
        number = gd__checksum(number, &item->dtype, sizeof item->dtype);
    }
    return number;
}

/* The sums of tensors, once those of all chunks are known. */
static void join_sums(writing *w)
{
    const uint64_t *next = w->sum;
    for (size_t i = 0; i < w->archive->count; i++) {
        if (!w->archive->slot[i].whole) continue;
        size_t chunks = chunks_of(&w->item[i]);
        w->item[i].sum = gd__sum_of_sums(next, chunks);
        next += chunks;
    }
}

/* Writes this process's shards to their places. */
static gd_status write_own(const writing *w, const char *path, const place *p, bool first)
{
    gd_file_writer writer;
    gd_status status = gd__file_join(w->archive->ctx, path, p->name, &writer);
    uint64_t at = 0, next = p->data_at;
    for (size_t i = 0; i < w->archive->count && !status; i++) {
        const gd_archive_slot *s = &w->archive->slot[w->order[i]];
        const gd_safetensors_item *item = &w->item[w->order[i]];
        uint64_t size = gd_dtype_size(item->dtype), bytes = (uint64_t)gd_numel(s->tensor) * size;
        uint64_t from = next + (s->whole ? (uint64_t)s->whole->first * size : 0);
        next += gd__safetensors_bytes(item);
        if (!bytes || (!s->whole && !first)) continue;
        status = gd__file_pass(&writer, from - at);
        if (!status) status = write_tensor(&writer, s->tensor);
        at = from + bytes;
    }
    return gd__file_leave(&writer, status);
}

/* The name of the file in its real folder, as a number. */
static gd_status target_of(gd_ctx *ctx, const char *path, uint64_t *number)
{
    char target[GD_FILE_PATH];
    if (!path) return gd_fail(ctx, GD_ARGUMENT, "save: no path given");
    if (!gd__file_target(path, target)) return gd_fail(ctx, GD_IO, "save '%s': cannot follow it", path);
    const char *slash = strrchr(target, '/'), *name = slash ? slash + 1 : target;
    *number = gd__checksum(0, name, strlen(name));
    return GD_OK;
}

/* The file exists, all write into it. */
static gd_status write_together(writing *w, const char *path, const gd_together *t, gd_file_writer *writer)
{
    place p = {0};
    uint64_t contents = contents_of(w), target = 0;
    join_sums(w);
    gd_status status = target_of(w->archive->ctx, path, &target);
    if (!status) status = make_header(w); /* of the others only for the order of the data */
    if (!status && t->first) status = gd__file_create(w->archive->ctx, path, writer);
    if (!status && t->first) {
        p = (place){.data_at = w->header_size, .contents = contents, .target = target};
        gd__file_temp_name(writer, p.name);
    }
    status = t->join(t->user, status, (uint64_t *)&p, sizeof p / sizeof(uint64_t));
    if (status) return status;
    if (p.contents != contents)
        status = gd_fail(w->archive->ctx, GD_MISMATCH,
                         "save '%s': other tensors than those of the process that makes the file", path);
    else if (p.target != target)
        status = gd_fail(w->archive->ctx, GD_MISMATCH,
                         "save '%s': the process that makes the file calls it otherwise", path);
    if (!status) status = write_own(w, path, &p, t->first);
    return t->join(t->user, status, NULL, 0);
}

gd_status gd__archive_save_together(const gd_archive *archive, const char *path, gd_status status,
                                    const gd_together *t)
{
    writing w = {0};
    gd_file_writer writer = {.fd = -1, .folder = -1};
    if (!status) status = begin_writing(&w, archive, t->first);
    status = t->join(t->user, status, w.sum, w.sums);
    if (!status) status = write_together(&w, path, t, &writer);
    if (!status && t->first) {
        /* everything else is on the disk */
        status = gd__file_write(&writer, w.header, w.header_size);
        if (!status) status = gd__file_commit(&writer);
        status = t->join(t->user, status, NULL, 0);
    } else if (!status)
        status = t->join(t->user, GD_OK, NULL, 0);
    if (t->first && writer.ctx) gd__file_discard(&writer);
    end_writing(&w);
    return status;
}
