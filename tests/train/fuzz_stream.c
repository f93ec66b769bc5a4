/* libFuzzer target: any bytes as a table that is read in blocks (train --stream): what memory takes, the blocks take, with the
 * same rows.
 *
 *   ./dev fuzz stream 60 */
#include "train/data/learnt_columns.h"
#include "train/data/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCKS = 64 };

/* All blocks: how many rows they have; -1: they were refused. */
static int64_t read_all(gd_ctx *ctx, const gd_data_request *q)
{
    gd_row_stream s = {.ctx = ctx};
    gd_dataset d = {.ctx = ctx};
    gd_columns columns = {.ctx = ctx};
    int64_t list[BLOCKS], rows = 0;
    gd_status status = gd__stream_open(ctx, q, &s);
    int64_t count = s.blocks < BLOCKS ? s.blocks : BLOCKS;
    for (int64_t i = 0; i < count; i++) list[i] = i;
    if (!status) status = gd__stream_sample(&s, q, list, count, &d);
    if (!status) status = gd__dataset_encode(&d, &columns, NULL, 0);
    if (!status) status = gd__stream_survey(&s, &d, &columns, false);
    for (int64_t k = 0; k < count && !status; k++) {
        gd_tensor *x = NULL, *y = NULL;
        status = gd__stream_read(&s, k, &columns, &d, &x, &y);
        if (!status && (gd_size(x, 0) != gd_size(y, 0) || gd_size(x, 0) != s.block[k].rows)) abort();
        if (!status) rows += gd_size(x, 0);
        gd_release(x);
        gd_release(y);
    }
    if (status != gd_error(ctx)) abort();
    if (!status && rows != s.rows) abort();
    gd__columns_close(&columns);
    gd__dataset_close(&d);
    gd__stream_close(&s);
    gd_clear_error(ctx);
    return status ? -1 : rows;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    static char path[] = "/tmp/gradus_fuzz_XXXXXX";
    static int file = -1;
    if (!ctx) {
        gd_options options = gd_options_default();
        options.threads = 1;
        ctx = gd_ctx_new(&options);
        file = mkstemp(path);
        if (file < 0) abort();
    }
    if (!size) return 0;
    if (ftruncate(file, 0) || pwrite(file, data + 1, size - 1, 0) != (ssize_t)(size - 1)) abort();
    gd_data_request q = {
        .path = path, .target = data[0] & 1 ? "y" : "c1", .task = (gd_task)(data[0] >> 1 & 3) % 3};
    q.csv.no_header = !(data[0] & 1);
    gd_dataset whole = {.ctx = ctx};
    gd_status status = gd__dataset_open_text(ctx, &q, (const char *)data + 1, size - 1, &whole);
    int64_t rows = whole.rows;
    gd__dataset_close(&whole);
    gd_clear_error(ctx);
    int64_t streamed = read_all(ctx, &q);
    if (!status && streamed >= 0 && streamed != rows) {
        fprintf(stderr, "%lld rows, in blocks %lld\n", (long long)rows, (long long)streamed);
        abort();
    }
    if (gd_ctx_live(ctx) != 0) abort();
    return 0;
}
