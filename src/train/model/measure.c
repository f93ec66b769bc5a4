/* Measures of a model; see metrics.h. */
#include "train/model/metrics.h"
#include "gradus/autograd.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

const gd_metric gd__metric[GD_METRICS] = {
    {"loss", GD_TASK_AUTO, false, offsetof(gd_metrics, loss)},
    {"accuracy", GD_TASK_CLASSIFY, true, offsetof(gd_metrics, accuracy)},
    {"f1", GD_TASK_CLASSIFY, true, offsetof(gd_metrics, f1)},
    {"auc", GD_TASK_CLASSIFY, true, offsetof(gd_metrics, auc)},
    {"rmse", GD_TASK_REGRESS, false, offsetof(gd_metrics, rmse)},
    {"mae", GD_TASK_REGRESS, false, offsetof(gd_metrics, mae)},
    {"r2", GD_TASK_REGRESS, true, offsetof(gd_metrics, r2)},
    {"below", GD_TASK_REGRESS, true, offsetof(gd_metrics, below)},
};

const gd_metric *gd__metric_find(const char *name)
{
    for (int i = 0; i < GD_METRICS; i++)
        if (!strcmp(gd__metric[i].name, name)) return &gd__metric[i];
    return NULL;
}

/* ---- answers ---- */

/* One model's: logarithms of probabilities, or numbers in their own units. */
static gd_tensor *answer_of(const gd_checkpoint *c, const gd_network *model, gd_tensor *x)
{
    gd_tensor *out = gd_cast(gd__network_call(model, x, false), GD_F64);
    if (c->recipe.task == GD_TASK_CLASSIFY) return gd_log_softmax(out, "1");
    out = gd__scaling_undo(&c->output, out);
    return c->recipe.loss.kind == GD_LOSS_POISSON ? gd_exp(out) : out;
}

gd_tensor *gd__answer(const gd_checkpoint *c, gd_tensor *x)
{
    bool classes = c->recipe.task == GD_TASK_CLASSIFY;
    gd_scope_begin(c->ctx);
    gd_tensor *sum = answer_of(c, &c->model, x);
    if (c->members && classes) sum = gd_exp(sum);
    for (int k = 0; k < c->members; k++) {
        gd_tensor *one = answer_of(c, &c->member[k], x);
        sum = gd_add(sum, classes ? gd_exp(one) : one);
    }
    if (c->members) sum = gd_mul_scalar(sum, 1.0 / (c->members + 1));
    if (c->members && classes) sum = gd_log(sum);
    return gd__scope_leave(c->ctx, sum);
}

/* ---- sums ---- */

typedef struct sums {
    double loss, right, square, absolute, below;
} sums;

static double number(gd_tensor *t) { return t ? gd_item(t) : NAN; }
static double total(gd_tensor *t) { return number(gd_sum(t, NULL, false)); }

/* Numbers to predict in their own units. */
static gd_tensor *own_numbers(const gd_checkpoint *c, gd_tensor *y)
{
    y = gd_cast(y, GD_F64);
    return c->recipe.loss.kind == GD_LOSS_POISSON ? y : gd__scaling_undo(&c->output, y);
}

static void add_classes(const gd_checkpoint *c, gd_tensor *answer, gd_tensor *y, double rows, sums *s)
{
    gd_tensor *weight = c->weight ? gd_to_device(c->weight, gd_tensor_device(answer)) : NULL;
    s->loss += rows * number(gd__loss(&c->recipe.loss, answer, y, weight));
    s->right += total(gd_cast(gd_eq(gd_argmax(answer, "1", false), y), GD_F64));
}

static void add_numbers(const gd_checkpoint *c, gd_tensor *answer, gd_tensor *y, double rows, sums *s)
{
    bool poisson = c->recipe.loss.kind == GD_LOSS_POISSON;
    gd_tensor *own = own_numbers(c, y), *error = gd_sub(own, answer);
    gd_tensor *given = poisson ? gd_log(answer) : gd__scaling_apply(&c->output, answer, GD_F64);
    s->loss += rows * number(gd__loss(&c->recipe.loss, given, gd_cast(y, GD_F64), NULL));
    s->square += total(gd_square(error));
    s->absolute += total(gd_abs(error));
    if (c->recipe.loss.kind == GD_LOSS_QUANTILE) s->below += total(gd_cast(gd_le(own, answer), GD_F64));
}

/* Squares about the mean of each output, in the numbers' own units. */
static double total_square(const gd_checkpoint *c, gd_tensor *y)
{
    gd_tensor *own = own_numbers(c, y);
    return total(gd_square(gd_sub(own, gd_mean(own, "0", true))));
}

static void conclude(const gd_checkpoint *c, const sums *s, double rows, double square, gd_metrics *out)
{
    double numbers = rows * (double)c->recipe.outputs;
    out->loss = s->loss / rows;
    if (c->recipe.task == GD_TASK_CLASSIFY) {
        out->accuracy = s->right / rows;
        return;
    }
    out->rmse = sqrt(s->square / numbers);
    out->mae = s->absolute / numbers;
    out->r2 = 1 - s->square / square;
    if (c->recipe.loss.kind == GD_LOSS_QUANTILE) out->below = s->below / numbers;
}

/* ---- several ranks ---- */

static int64_t pieces_of(int64_t rows) { return (rows + GD_MEASURE_ROWS - 1) / GD_MEASURE_ROWS; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

void gd__measure_share(const gd_checkpoint *c, int64_t rows, int64_t *first, int64_t *count)
{
    *first = 0;
    *count = pieces_of(rows);
    gd_world_share(c->world, *count, first, count);
    int64_t end = least((*first + *count) * GD_MEASURE_ROWS, rows);
    *first = least(*first * GD_MEASURE_ROWS, rows);
    *count = end - *first;
}

gd_status gd__measure_join(const gd_checkpoint *c, gd_status failed, double *numbers, int64_t rows,
                           int64_t each, bool by_piece)
{
    if (!c->world) return failed;
    int64_t size = gd_world_size(c->world), pieces = pieces_of(rows);
    int64_t total = (by_piece ? pieces : rows) * each, piece = by_piece ? each : GD_MEASURE_ROWS * each;
    size_t bytes = (size_t)(size + 1) * sizeof(int64_t);
    int64_t *cuts = gd__alloc(c->ctx, bytes);
    for (int64_t r = 0; r <= size && cuts; r++) /* as gd_world_share */
        cuts[r] = least((pieces / size * r + least(r, pieces % size)) * piece, total);
    gd__aside_begin(c->ctx);
    gd_tensor *all = cuts && !failed ? gd_from_data(c->ctx, GD_F64, 1, &total, numbers) : NULL;
    if (!all && !failed) failed = GD_NOMEM;
    gd_exchange *work = gd_world_start(
        c->world, &(gd_collective){.kind = GD_ALL_GATHER, .out = all, .cuts = cuts, .failed = failed});
    gd_status status = work ? gd_world_wait(work) : gd_error(c->ctx);
    if (!status) status = gd_read_f64(all, numbers, total);
    gd__aside_end(c->ctx);
    gd__free(c->ctx, cuts, cuts ? bytes : 0);
    return failed ? failed : status;
}

gd_tensor *gd__measured_rows(const gd_checkpoint *c, gd_tensor *x, int64_t rows, int64_t at, int64_t end)
{
    int64_t first = 0, count;
    if (gd_size(x, 0) != rows) gd__measure_share(c, rows, &first, &count);
    return gd_slice(x, "0", at - first, end - first, 1);
}

/* ---- all of it ---- */

/* The sums of a piece. */
static gd_status measure_piece(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, int64_t at, sums *s)
{
    int64_t rows = gd_size(y, 0), end = least(at + GD_MEASURE_ROWS, rows);
    gd_scope_begin(c->ctx);
    gd_tensor *answer = gd__answer(c, gd__measured_rows(c, x, rows, at, end)),
              *wanted = gd_slice(y, "0", at, end, 1);
    bool classes = c->recipe.task == GD_TASK_CLASSIFY;
    (classes ? add_classes : add_numbers)(c, answer, wanted, (double)(end - at), s);
    gd_scope_end(c->ctx);
    return gd_error(c->ctx);
}

/* In the order of the rows, whichever thread computed them. */
static void add_pieces(const sums *piece, int64_t count, sums *out)
{
    for (int64_t k = 0; k < count; k++) {
        out->loss += piece[k].loss;
        out->right += piece[k].right;
        out->square += piece[k].square;
        out->absolute += piece[k].absolute;
        out->below += piece[k].below;
    }
}

gd_status gd__measure(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, gd_metrics *out)
{
    int64_t rows = gd_size(y, 0), pieces = pieces_of(rows), first, count;
    size_t bytes = (size_t)pieces * sizeof(sums);
    sums s = {0}, *piece = gd__calloc(c->ctx, bytes);
    gd_status status = piece ? GD_OK : GD_NOMEM;
    *out = (gd_metrics){NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    gd__measure_share(c, rows, &first, &count);
    gd_no_grad_begin(c->ctx);
    for (int64_t at = first; at < first + count && !status; at += GD_MEASURE_ROWS)
        status = measure_piece(c, x, y, at, &piece[at / GD_MEASURE_ROWS]);
    gd_scope_begin(c->ctx);
    double square = status || c->recipe.task == GD_TASK_CLASSIFY ? NAN : total_square(c, y);
    gd_scope_end(c->ctx);
    gd_no_grad_end(c->ctx);
    if (!status) status = gd_error(c->ctx);
    status = gd__measure_join(c, status, (double *)piece, rows, sizeof(sums) / sizeof(double), true);
    if (!status) add_pieces(piece, pieces, &s);
    gd__free(c->ctx, piece, piece ? bytes : 0);
    if (!status) conclude(c, &s, (double)rows, square, out);
    return status;
}
