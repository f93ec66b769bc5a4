/* The regressions of NIST, two starts each.  Their files are no part of the repository: GRADUS_NIST names the folder that has them. */
#include "problem_parts.h"
#include "problems/nist.h"

#include <stdlib.h>

typedef struct regression {
    const nist_model *model;
    gd_tensor *b[NIST_PARAMS], *x[2], *y;
} regression;

static bool read_model(long number, nist_data *data)
{
    const char *folder = getenv("GRADUS_NIST");
    return folder && nist_read(folder, nist_models[number / 2].name, data);
}

static int count(void)
{
    nist_data data;
    for (long i = 0; i < 2L * NIST_MODELS; i += 2)
        if (!read_model(i, &data)) return 0;
    return 2 * NIST_MODELS;
}

static bool open_nist(problem *p, long number)
{
    nist_data data;
    if (!read_model(number, &data)) return false;
    regression *r = p->job = calloc(1, sizeof *r);
    if (!r) abort();
    r->model = &nist_models[number / 2];
    int64_t rows = p->rows = data.rows;
    p->name = r->model->name;
    p->n = data.params;
    p->start = problem_numbers(p->n);
    p->certified = problem_numbers(p->n);
    for (int i = 0; i < p->n; i++) {
        p->start[i] = data.start[number % 2][i];
        p->certified[i] = data.certified[i];
        r->b[i] = gd_require_grad(gd_scalar(p->ctx, GD_F64, p->start[i]));
    }
    for (int i = 0; i < 2; i++) r->x[i] = gd_from_f64(p->ctx, GD_F64, 1, &rows, data.x[i]);
    r->y = gd_from_f64(p->ctx, GD_F64, 1, &rows, data.y);
    return true;
}

static gd_tensor *residual_of(void *user, gd_tensor *const *inputs, int many)
{
    (void)many;
    regression *r = user;
    return gd_sub(r->model->value(inputs, r->x), r->y);
}

gd_tensor *const *problem_params(problem *p) { return ((regression *)p->job)->b; }

gd_tensor *problem_operators(void *user)
{
    problem *p = user;
    gd_tensor *r = residual_of(p->job, problem_params(p), p->n);
    problem_record(p, r ? gd_item(gd_sum(gd_square(r), NULL, false)) : NAN);
    return r;
}

static void residuals(problem *p, const double *x, double *out, double *j)
{
    regression *r = p->job;
    gd_tensor *column[NIST_PARAMS] = {0};
    gd_scope_begin(p->ctx);
    for (int i = 0; i < p->n; i++)
        if (gd_write_f64(r->b[i], &x[i], 1)) problem_check(p->ctx);
    gd_tensor *value = residual_of(r, r->b, p->n);
    gd_status status = gd_read_f64(value, out, p->rows);
    if (!status && j) status = gd_jacobian(residual_of, r, r->b, p->n, column);
    double *one = problem_numbers(p->rows);
    for (int i = 0; i < p->n && j && !status; i++) {
        status = gd_read_f64(column[i], one, p->rows);
        for (int k = 0; k < p->rows; k++) j[k * p->n + i] = one[k];
    }
    free(one);
    gd_scope_end(p->ctx);
    problem_check(p->ctx);
}

static void close_nist(problem *p) { free(p->job); }

const problem_class problem_nist = {.name = "nist",
                                    .count = count,
                                    .open = open_nist,
                                    .residuals = residuals,
                                    .digits = nist_digits,
                                    .close = close_nist};
