/* The dtype table. */
#include "gradus/tensor.h"

#include <string.h>

typedef struct dtype_row {
    const char *name;
    size_t bytes;
    char kind;
} dtype_row;

static const dtype_row rows[] = {
#define DTYPE_ROW(NAME, name, bytes, kind, st, np) {#name, bytes, kind},
    GD_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

const char *gd_dtype_name(gd_dtype dtype)
{
    return (unsigned)dtype < GD_DTYPE_COUNT ? rows[dtype].name : "unknown";
}

size_t gd_dtype_size(gd_dtype dtype) { return (unsigned)dtype < GD_DTYPE_COUNT ? rows[dtype].bytes : 0; }

bool gd_dtype_is_float(gd_dtype dtype) { return (unsigned)dtype < GD_DTYPE_COUNT && rows[dtype].kind == 'f'; }

gd_dtype gd_dtype_from_name(const char *name)
{
    for (int i = 0; name && i < GD_DTYPE_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) return (gd_dtype)i;
    return GD_DTYPE_COUNT;
}
