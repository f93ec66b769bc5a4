/* Files that are whole in memory, read as the library reads them from disk. */
#ifndef TEST_FILE_FROM_MEMORY_H
#define TEST_FILE_FROM_MEMORY_H

#include "file/npy.h"

static inline gd_status parse_npy(gd_ctx *own, const void *data, size_t size, gd_npy *npy)
{
    size_t at = 0, length = 0;
    gd_status status = gd__npy_prefix(own, "npy", data, size, &at, &length);
    return status ? status : gd__npy_header(own, "npy", (const char *)data + at, at, length, size, npy);
}

#endif
