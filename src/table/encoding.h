/* Conversion of text to UTF-8, the only encoding of the other readers. */
#ifndef GD_TABLE_ENCODING_H
#define GD_TABLE_ENCODING_H

#include "base/ctx.h"
#include "gradus/table.h"

#define GD_ENCODINGS "utf-8 latin1 windows-1252 utf-16" /* in the order of gd_encoding, for gd__args_choice */

/* Do the bytes begin with a mark of UTF-16? */
bool gd__is_utf16(const char *data, size_t size);
/* Converts a block of bytes in place of the caller's: *data, *size and *block are replaced, with a NUL behind the last byte.
 * UTF-8 is left as it is, unchecked, except for a byte-order mark at its start, which is removed; a mark of UTF-16 is trusted.  FORMAT:
 * a mark that contradicts the encoding, a byte or a pair that the encoding does not have. */
GD_NODISCARD gd_status gd__to_utf8(gd_ctx *ctx, const char *source, gd_encoding encoding, char **data,
                                   size_t *size, size_t *block);

#endif
