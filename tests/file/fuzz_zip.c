/* libFuzzer target: any bytes as an archive of NumPy (npz, a zip file). */
#include "file/zip.h"

#include <stdlib.h>

/* a byte of deflate becomes 1040 at most, a value of one byte four; 64 KB may be claimed by an entry, which has 46 bytes */
#define MOST_OF(size) ((int64_t)(size)*4 * (1040 + 65536 / 46))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    gd_archive *archive = gd__npz_read(ctx, "file.npz", data, size);
    if ((archive != NULL) != (gd_error(ctx) == GD_OK)) abort();
    gd_clear_error(ctx);
    int64_t all = 0;
    for (int64_t i = 0; i < gd_archive_count(archive); i++) all += gd_numel(gd_archive_get(archive, i));
    if (all > MOST_OF(size)) abort();
    gd_archive_free(archive);
    return 0;
}
