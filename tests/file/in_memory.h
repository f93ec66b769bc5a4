/* A safetensors file that is in memory. */
#ifndef GD_TESTS_FILE_IN_MEMORY_H
#define GD_TESTS_FILE_IN_MEMORY_H

#include "base/ctx.h"
#include "file/safetensors.h"

/* Its header; entries point into data, which must outlive the result.  The elements are not looked at.  New. */
static inline gd_safetensors *parse_in_memory(gd_ctx *c, const void *data, size_t size)
{
    size_t length = 0;
    if (size < 8)
        return gd__refuse(c, GD_FORMAT, "safetensors: cut off: %zu bytes, not even a header length", size);
    if (gd__safetensors_length(c, "safetensors", data, size, &length)) return NULL;
    gd_safetensors *file = gd__safetensors_header(c, "safetensors", data, length, size);
    for (size_t i = 0; file && i < file->count; i++)
        file->entry[i].data = (const char *)data + 8 + length + file->entry[i].offset;
    return file;
}

#endif
