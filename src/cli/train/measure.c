/* How good a model is; see trainer.h. */
#include "cli/train/trainer.h"
#include "gradus/autograd.h"

#include <math.h>

#define ROWS 1024 /* at a time; a fixed number, so that sums are the same each time */

typedef struct sums {
    double loss, right, square; /* square: of errors in the numbers' own units */
} sums;

static double number(gd_tensor *t) { return t ? gd_item(t) : NAN; }

static void add_classes(gd_tensor *out, gd_tensor *y, double rows, sums *s)
{
    s->loss += rows * number(gd_cross_entropy(out, y));
    s->right += number(gd_sum(gd_cast(gd_eq(gd_argmax(out, "1", false), y), GD_F64), NULL, false));
}

static void add_numbers(const gd_checkpoint *c, gd_tensor *out, gd_tensor *y, double rows, sums *s)
{
    gd_tensor *error = gd_cast(gd_sub(out, y), GD_F64);
    s->loss += rows * number(gd_mean(gd_square(error), NULL, false));
    if (c->output.scale) error = gd_mul(error, gd_to_device(c->output.scale, gd_tensor_device(error)));
    s->square += number(gd_sum(gd_square(error), NULL, false));
}

/* Squares about the mean of each output, in the numbers' own units. */
static double total_square(const gd_checkpoint *c, gd_tensor *y)
{
    y = gd_cast(y, GD_F64);
    gd_tensor *off = gd_sub(y, gd_mean(y, "0", true));
    if (c->output.scale) off = gd_mul(off, gd_to_device(c->output.scale, gd_tensor_device(off)));
    return number(gd_sum(gd_square(off), NULL, false));
}

gd_status gd__measure(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, gd_metrics *out)
{
    int64_t rows = gd_size(x, 0);
    bool classes = c->recipe.task == GD_TASK_CLASSIFY;
    sums s = {0};
    *out = (gd_metrics){NAN, NAN, NAN, NAN};
    gd_no_grad_begin(c->ctx);
    for (int64_t at = 0; at < rows && !gd_error(c->ctx); at += ROWS) {
        int64_t end = at + ROWS < rows ? at + ROWS : rows;
        gd_scope_begin(c->ctx);
        gd_tensor *result = gd__model_call(&c->model, gd_slice(x, "0", at, end, 1), false);
        gd_tensor *wanted = gd_slice(y, "0", at, end, 1);
        if (classes)
            add_classes(result, wanted, (double)(end - at), &s);
        else
            add_numbers(c, result, wanted, (double)(end - at), &s);
        gd_scope_end(c->ctx);
    }
    gd_scope_begin(c->ctx);
    double total = classes ? NAN : total_square(c, y);
    gd_scope_end(c->ctx);
    gd_no_grad_end(c->ctx);
    if (gd_error(c->ctx)) return gd_error(c->ctx);
    out->loss = s.loss / (double)rows;
    if (classes) {
        out->accuracy = s.right / (double)rows;
    } else {
        out->rmse = sqrt(s.square / (double)(rows * c->recipe.outputs));
        out->r2 = 1 - s.square / total;
    }
    return GD_OK;
}

void gd__metrics_print(gd_text *out, gd_task task, const gd_metrics *m)
{
    gd__text_put(out, "loss %.6g, ", m->loss);
    if (task == GD_TASK_CLASSIFY)
        gd__text_put(out, "accuracy %.2f %%\n", 100 * m->accuracy);
    else
        gd__text_put(out, "rmse %.6g, R2 %.6f\n", m->rmse, m->r2);
}

void gd__json_metrics(gd_text *out, gd_task task, const gd_metrics *m)
{
    gd__json_put_number(out, "loss", m->loss);
    if (task == GD_TASK_CLASSIFY) {
        gd__json_put_number(out, "accuracy", m->accuracy);
        return;
    }
    gd__json_put_number(out, "rmse", m->rmse);
    gd__json_put_number(out, "r2", m->r2);
}
