/* The rows that ranks of `gradus train` bring each other at the beginning of an epoch. */
#include "train/run/row_parts.h"
#include "support/ranks.h"
#include "world/world_internal.h"

#include <stdatomic.h>

/* ---- a transport that counts ---- */

static _Atomic int64_t sent;
static const gd_transport *_Atomic transport_below;

static gd_status count_and_post(gd_endpoint *e, gd_message *m)
{
    if (m->sends) sent += (int64_t)m->bytes;
    const gd_transport *inner = transport_below;
    return inner->post(e, m);
}

/* ---- an epoch ---- */

typedef struct table {
    int64_t rows, width, batch, microbatch;
} table;

/* An order of its own for each number of rows: a number that has no factor with it goes round. */
static int64_t row_at(const table *of, int64_t place)
{
    int64_t step = of->rows % 7 ? 7 : 11;
    return (place * step + 3) % of->rows;
}

static gd_status check_rows(gd_world *w, gd_trainer *t, const table *of)
{
    int64_t first, microbatches, seen = 0;
    for (int64_t at = 0; at < of->rows; at += of->batch) {
        int64_t length = at + of->batch < of->rows ? of->batch : of->rows - at;
        gd_world_share(w, (length + of->microbatch - 1) / of->microbatch, &first, &microbatches);
        for (int64_t g = first; g < first + microbatches; g++) {
            int64_t from = g * of->microbatch,
                    end = from + of->microbatch < length ? from + of->microbatch : length;
            gd_tensor *rows = gd__part_rows(t, at + from, end - from);
            EXPECT(t->ctx, rows && gd_size(rows, 0) == end - from);
            for (int64_t i = 0; i < end - from; i++)
                EXPECT(t->ctx, gd_at(rows, (int64_t[]){i, of->width - 1}) ==
                                   (double)(row_at(of, at + from + i) * of->width + of->width - 1));
            seen += end - from;
        }
    }
    EXPECT(t->ctx, gd_size(t->taken, 0) == seen);
    return GD_OK;
}

static gd_status an_epoch(gd_world *w, void *user)
{
    const table *of = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_trainer t = {.ctx = ctx, .device = gd_device_get(ctx, "cpu")};
    const gd_transport *inner = w->end.transport;
    gd_transport counting = *inner;
    transport_below = inner;
    counting.post = count_and_post;
    t.point = (gd_checkpoint){.ctx = ctx, .world = w};
    t.point.recipe.batch = of->batch;
    t.point.recipe.microbatch = of->microbatch;
    gd_scope_begin(ctx);
    gd_tensor *all = gd_arange(ctx, GD_F64, 0, (double)(of->rows * of->width), 1);
    t.x = gd_keep(gd_copy(gd_reshape(all, 2, (int64_t[]){of->rows, of->width})));
    gd_status status = gd__part_keep(&t);
    t.order = malloc((size_t)of->rows * sizeof *t.order);
    for (int64_t i = 0; i < of->rows; i++) t.order[i] = row_at(of, i);
    w->end.transport = &counting;
    if (!status) status = gd__part_take(&t, of->rows);
    w->end.transport = inner;
    if (!status) status = check_rows(w, &t, of);
    free(t.order);
    gd__part_free(&t);
    gd_release(t.x);
    gd_scope_end(ctx);
    return status;
}

static void each_rank_has_the_rows_of_its_microbatches(void **state)
{
    static const table tables[] = {{.rows = 5000, .width = 3, .batch = 700, .microbatch = 64},
                                   {.rows = 130, .width = 2, .batch = 130, .microbatch = 130},
                                   {.rows = 1, .width = 4, .batch = 16, .microbatch = 4},
                                   {.rows = 3001, .width = 1, .batch = 5, .microbatch = 1}};
    for (int k = 0; k < COUNT_OF(tables); k++)
        for (int n = 1; n <= 8; n++) run_in(CTX(state), n, an_epoch, (void *)&tables[k]);
}

static void a_row_travels_once(void **state)
{
    table of = {.rows = 5000, .width = 60, .batch = 640, .microbatch = 40};
    for (int n = 2; n <= 8; n *= 2) {
        sent = 0;
        run_in(CTX(state), n, an_epoch, &of);
        int64_t rows = of.rows * of.width * (int64_t)sizeof(double), sheets = 2048 * n;
        /* of a row in n its taker keeps it already */
        if (sent > rows + sheets || sent < rows / 4)
            fail_msg("%d ranks sent %lld bytes for %lld of rows", n, (long long)sent, (long long)rows);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {TEST(each_rank_has_the_rows_of_its_microbatches),
                                       TEST(a_row_travels_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
