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
 * the folder.  When it fails, or the process dies, the file that was there before is still there; the
 * temporary file that a killed process left goes with the next save in its folder.  A symbolic link is
 * followed, and a file that is replaced keeps its permissions.
 *
 * Files written by gradus carry checksums: a file with a changed byte, or cut off anywhere, is refused with
 * FORMAT.  A tensor's is made of those of its chunks; earlier files, whose are not, load too.  They are ordinary safetensors files for other programs, and those of other programs load here,
 * without checksums, element types that gradus does not have as wider ones: i8 i16 u16 as i32, u32 u64 as i64, eight-bit
 * floats as f32.  Reading takes no more memory than the tensors and once more the largest of those that are widened. */
#ifndef GRADUS_FILE_H
#define GRADUS_FILE_H

#include "gradus/base.h"
#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered collection of named tensors, and of texts by key: what a safetensors file holds. */
typedef struct gd_archive gd_archive;

/* An empty archive.  New: gd_archive_free, before its context goes.  NULL when there is no memory. */
gd_archive *gd_archive_new(gd_ctx *ctx);
void gd_archive_free(gd_archive *archive); /* NULL is fine */

/* Adds a tensor under a name that is not there yet.  The archive holds a detached reference on the same
 * elements, not a copy: what changes before gd_archive_save is saved changed.  ARGUMENT: the name is taken,
 * not UTF-8 or "__metadata__". */
GD_NODISCARD gd_status gd_archive_put(gd_archive *archive, const char *name, gd_tensor *tensor);

int64_t gd_archive_count(const gd_archive *archive); /* tensors in it */
/* The name and the tensor at a position, in the order they were put or stand in the file.  Borrowed; NULL if
 * there is none. */
const char *gd_archive_name(const gd_archive *archive, int64_t index);
gd_tensor *gd_archive_get(const gd_archive *archive, int64_t index);
/* The tensor of a name.  Borrowed; NULL (no error) if there is none. */
gd_tensor *gd_archive_find(const gd_archive *archive, const char *name);

/* Texts by key, both UTF-8.  Setting a key again replaces its text; NULL removes it.  ARGUMENT: the key
 * begins with "gradus.", which the library keeps for itself. */
GD_NODISCARD gd_status gd_archive_set_meta(gd_archive *archive, const char *key, const char *text);
int64_t gd_archive_meta_count(const gd_archive *archive);
/* The text of a key, and key and text at a position.  Borrowed; NULL if there is none. */
const char *gd_archive_get_meta(const gd_archive *archive, const char *key);
const char *gd_archive_meta_key(const gd_archive *archive, int64_t index);
const char *gd_archive_meta_text(const gd_archive *archive, int64_t index);

/* Writes a safetensors file.  IO: the text names the path and what the system said.  VALUE: names, labels and
 * texts are longer than the format allows, or a label is not UTF-8. */
GD_NODISCARD gd_status gd_archive_save(const gd_archive *archive, const char *path);

/* Reads a safetensors file, all of it or nothing; the tensors are on the CPU.  New; NULL with IO, FORMAT
 * (malformed or damaged), DTYPE (complex numbers, floats of less than eight bits), VALUE (a u64 of 2^63 or more), SHAPE (more than 8 axes) or NOMEM
 * recorded. */
gd_archive *gd_archive_load(gd_ctx *ctx, const char *path);

/* Reads one tensor of a safetensors file, and of the file no more than its header and that tensor: the others may be large, or of
 * a type gradus does not have.  name NULL: the only one there is.  New; NULL with ARGUMENT (no such tensor; several and no name),
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
