/* Small objectives for tests of links that evaluate, and an optimizer around them. */
#ifndef GD_TESTS_OPTIM_PROBLEM_H
#define GD_TESTS_OPTIM_PROBLEM_H

#include "gradus/optim.h"
#include "support/support.h"

#include <math.h>

/* One vector, an objective on it, and what it should do wrong. */
typedef struct problem {
    gd_ctx *ctx;
    gd_tensor *p;
    gd_optimizer *optimizer;
    gd_tensor *(*loss)(gd_tensor *p);
    int evals, fail_at; /* the evaluation that fails; 0: none */
    int nan_from;       /* evaluations from here on are not finite; 0: none */
    double worse;       /* added to every evaluation after the first of a step */
    int step_start;     /* evals when the step began */
    gd_step_info info;
} problem;

static inline gd_tensor *problem_loss(void *user)
{
    problem *q = user;
    q->evals++;
    if (q->evals == q->fail_at) {
        (void)gd_fail(q->ctx, GD_CALLBACK, "made to fail");
        return NULL;
    }
    gd_tensor *loss = q->loss(q->p);
    if (q->nan_from && q->evals >= q->nan_from) return gd_mul_scalar(loss, NAN);
    return q->worse != 0 && q->evals > q->step_start + 1 ? gd_add_scalar(loss, q->worse) : loss;
}

static inline problem problem_open(const char *chain, gd_tensor *(*loss)(gd_tensor *p), int n,
                                   const double *start)
{
    problem q = {.ctx = context(NULL, 1, NULL), .loss = loss};
    q.p = gd_require_grad(gd_from_f64(q.ctx, GD_F64, 1, (int64_t[]){n}, start));
    q.optimizer = gd_optimizer_new(q.ctx, gd_chain(q.ctx, chain));
    assert_no_error(q.ctx);
    assert_int_equal(gd_optimizer_add(q.optimizer, "p", q.p), GD_OK);
    return q;
}

static inline gd_status problem_step(problem *q)
{
    q->step_start = q->evals;
    return gd_optimizer_step(q->optimizer, &(gd_objective){.loss = problem_loss, .user = q}, &q->info);
}

static inline void problem_steps(problem *q, int count)
{
    for (int i = 0; i < count; i++) {
        gd_status status = problem_step(q);
        assert_no_error(q->ctx);
        assert_int_equal(status, GD_OK);
    }
}

static inline void problem_close(problem *q)
{
    gd_optimizer_free(q->optimizer);
    gd_release(q->p);
    end_context(q->ctx, NULL);
}

static inline void read_point(const problem *q, double *x)
{
    assert_int_equal(gd_read_f64(q->p, x, gd_numel(q->p)), GD_OK);
}

static inline double norm_between(const double *a, const double *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum = hypot(sum, a[i] - b[i]);
    return sum;
}

/* ---- objectives ---- */

static inline gd_tensor *item(gd_tensor *p, int64_t i) { return gd_index(p, "0", i); }

/* 100 (y - x^2)^2 + (1 - x)^2 */
static inline gd_tensor *rosenbrock(gd_tensor *p)
{
    gd_tensor *valley = gd_sub(item(p, 1), gd_square(item(p, 0)));
    return gd_add(gd_mul_scalar(gd_square(valley), 100), gd_square(gd_add_scalar(gd_neg(item(p, 0)), 1)));
}

static inline gd_tensor *rosenbrock_residuals(gd_tensor *p)
{
    gd_tensor *valley = gd_mul_scalar(gd_sub(item(p, 1), gd_square(item(p, 0))), 10);
    return gd_stack((gd_tensor *[]){valley, gd_add_scalar(gd_neg(item(p, 0)), 1)}, 2, 0, NULL);
}

/* x^2 + 2 y^2 + 4.5 z^2 + x y - y z - x + 3: a positive definite quadratic */
#define QUADRATIC_MINIMUM 35.0 / 61, -9.0 / 61, -1.0 / 61
static inline gd_tensor *quadratic(gd_tensor *p)
{
    gd_tensor *x = item(p, 0), *y = item(p, 1), *z = item(p, 2);
    gd_tensor *square = gd_add(gd_square(x),
                               gd_add(gd_mul_scalar(gd_square(y), 2), gd_mul_scalar(gd_square(z), 4.5)));
    gd_tensor *mixed = gd_sub(gd_mul(x, y), gd_mul(y, z));
    return gd_add_scalar(gd_sub(gd_add(square, mixed), x), 3);
}

#endif
