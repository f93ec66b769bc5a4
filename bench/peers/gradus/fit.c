/* A curve through many rows, by ranges of them. */
#include "decay.h"
#include "work.h"

#include <string.h>

typedef struct curve {
    gd_ctx *ctx;
    gd_tensor *p[DECAY_PARAMS], *data[2];
    gd_rows rows;
} curve;

static gd_tensor *residuals(void *user, gd_tensor *const *p, gd_tensor *const *data, int64_t first)
{
    (void)user, (void)first;
    gd_tensor *fall = gd_mul(p[0], gd_exp(gd_mul(gd_neg(p[1]), data[0])));
    gd_tensor *peak = gd_exp(gd_neg(gd_square(gd_div(gd_sub(data[0], p[3]), p[4]))));
    return gd_sub(gd_add(gd_add(fall, gd_mul(p[2], peak)), p[5]), data[1]);
}

static void *open_fit(void)
{
    curve *c = gradus_memory(sizeof *c);
    int64_t rows = (int64_t)peer_number("rows", 1000);
    c->ctx = gradus_context();
    for (int i = 0; i < 2; i++) c->data[i] = gd_empty(c->ctx, GD_F64, 1, &rows);
    for (int i = 0; i < DECAY_PARAMS; i++)
        c->p[i] = gd_require_grad(gd_scalar(c->ctx, GD_F64, decay_start[i]));
    gradus_check(c->ctx);
    decay_fill(rows, gd_data_mut(c->data[0]), gd_data_mut(c->data[1]));
    c->rows = (gd_rows){.count = rows, .data = c->data, .columns = 2, .residuals = residuals};
    return c;
}

static void run_fit(void *job)
{
    curve *c = job;
    gd_lsq_options options = gd_lsq_defaults();
    gd_lsq_result result;
    options.rows = &c->rows;
    gd_status status = GD_OK;
    gd_scope_begin(c->ctx);
    for (int i = 0; i < DECAY_PARAMS && !status; i++) status = gd_write_f64(c->p[i], &decay_start[i], 1);
    if (!status) status = gd_least_squares(c->p, DECAY_PARAMS, NULL, NULL, &options, &result);
    if (status) gradus_check(c->ctx);
    gd_lsq_result_clear(&result);
    gd_scope_end(c->ctx);
}

static void check_fit(void *job, peer_result *out) { out->check = gd_item(((curve *)job)->p[1]); }

static void close_fit(void *job)
{
    curve *c = job;
    gradus_end(c->ctx);
    free(c);
}

const peer_kind gradus_fit = {"fit", open_fit, run_fit, check_fit, close_fit};
