/* gradus/file.h: tensors on disk, as safetensors and npy files.
 *
 *     gd_archive *archive = gd_archive_new(ctx);
 *     if (gd_archive_put(archive, "weight", weight) || gd_archive_set_meta(archive, "epoch", "12") ||
 *         gd_archive_save(archive, "model.safetensors"))
 *         puts(gd_error_text(ctx));
 *     gd_archive_free(archive);
 *
 *     archive = gd_archive_load(ctx, "model.safetensors");
 *     gd_tensor *read = gd_archive_find(archive, "weight");          axis names and labels as they were
 *
 * A save is atomic and durable: it writes `.gradus-*.tmp` beside the target, syncs it, renames it and syncs
 * the folder.  If it fails, or the process is killed, the previous file is still there; the
 * next save in the folder removes the temporary file of a killed process.  Symbolic links are followed,
 * and a replaced file keeps its permissions.
 *
 * Files written by gradus carry checksums: a file with a changed byte, or a truncated one, is refused with
 * FORMAT.  A tensor's checksum combines those of its chunks.  Other programs read these files as ordinary safetensors files.
 * gradus also loads files of other programs, without checksums; element types that it lacks are widened: i8 i16 u16 to i32, u32
 * u64 to i64, eight-bit floats to f32.  Peak memory is that of the tensors plus a second copy of the largest widened one. */
#ifndef GRADUS_FILE_H
#define GRADUS_FILE_H

#include "gradus/base.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered collection of named tensors, and of texts by key: what a safetensors file holds. */
typedef struct gd_archive gd_archive;

/* An empty archive.  New: gd_archive_free, before its context is freed.  NULL if there is no memory. */
gd_archive *gd_archive_new(gd_ctx *ctx);
void gd_archive_free(gd_archive *archive); /* NULL is fine */

/* Adds a tensor under a new name.  The archive holds a detached reference to the same elements, not a
 * copy: changes before gd_archive_save are saved.  ARGUMENT: the name is taken,
 * not UTF-8 or "__metadata__". */
GD_NODISCARD gd_status gd_archive_put(gd_archive *archive, const char *name, gd_tensor *tensor);

int64_t gd_archive_count(const gd_archive *archive); /* number of tensors */
/* The name and the tensor at a position, in the order of the file or of gd_archive_put.  Borrowed; NULL if
 * there is none. */
const char *gd_archive_name(const gd_archive *archive, int64_t index);
gd_tensor *gd_archive_get(const gd_archive *archive, int64_t index);
/* The tensor of a name.  Borrowed; NULL (no error) if there is none. */
gd_tensor *gd_archive_find(const gd_archive *archive, const char *name);

/* Texts by key, both UTF-8.  Setting a key again replaces its text; NULL removes it.  ARGUMENT: the key
 * begins with "gradus.", which is reserved. */
GD_NODISCARD gd_status gd_archive_set_meta(gd_archive *archive, const char *key, const char *text);
int64_t gd_archive_meta_count(const gd_archive *archive);
/* The text of a key, and key and text at a position.  Borrowed; NULL if there is none. */
const char *gd_archive_get_meta(const gd_archive *archive, const char *key);
const char *gd_archive_meta_key(const gd_archive *archive, int64_t index);
const char *gd_archive_meta_text(const gd_archive *archive, int64_t index);

/* Writes a safetensors file.  IO: the text names the path and the system's error.  VALUE: names, labels and
 * texts are longer than the format allows, or a label is not UTF-8. */
GD_NODISCARD gd_status gd_archive_save(const gd_archive *archive, const char *path);

/* Reads a safetensors file, all of it or nothing; the tensors are on the CPU.  New; NULL with IO, FORMAT
 * (malformed or corrupt), DTYPE (complex numbers, floats of less than eight bits), VALUE (a u64 of 2^63 or more), SHAPE (more than 8 axes) or NOMEM
 * recorded. */
gd_archive *gd_archive_load(gd_ctx *ctx, const char *path);

/* Reads one tensor of a safetensors file.  Only the header and that tensor are read: others may be large, or of a type that
 * gradus lacks.  name NULL: the only tensor of the file.  New; NULL with ARGUMENT (no such tensor; several and no name),
 * or what gd_archive_load records. */
gd_tensor *gd_archive_load_tensor(gd_ctx *ctx, const char *path, const char *name);

/* Writes one tensor as a NumPy file (version 1, C order); axis names and labels are not kept.  DTYPE for
 * bf16. */
GD_NODISCARD gd_status gd_npy_save(const gd_tensor *tensor, const char *path);

/* Reads a NumPy file: versions 1 to 3, C and Fortran order, little and big endian.  f2 f4 f8 i4 i8 u1 b1 as
 * they are; i1 i2 u2 become i32 and u4 becomes i64.  New; NULL with IO, FORMAT, DTYPE (uint64, complex, text,
 * objects, records), SHAPE or NOMEM recorded. */
gd_tensor *gd_npy_load(gd_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
