/* The dtype table. */
#include "tensor/elementwise.h"

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

/* Of two floats or two integers the wider, of a float and an integer the float; f16 and bf16 give f32. */
gd_dtype gd__promoted(gd_dtype a, gd_dtype b)
{
    static const gd_dtype whole[] = {GD_BOOL, GD_U8, GD_I32, GD_I64}; /* each can represent those before it */
    bool fractions = gd_dtype_is_float(a);
    if (a == b) return a;
    if (fractions != gd_dtype_is_float(b)) return fractions ? a : b;
    if (fractions) return a == GD_F64 || b == GD_F64 ? GD_F64 : GD_F32;
    int k = 3;
    while (k > 0 && whole[k] != a && whole[k] != b) k--;
    return whole[k];
}

gd_dtype gd_dtype_from_name(const char *name)
{
    for (int i = 0; name && i < GD_DTYPE_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) return (gd_dtype)i;
    return GD_DTYPE_COUNT;
}
