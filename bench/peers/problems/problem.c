#include "problem_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const problem_class *const classes[] = {&problem_minimize, &problem_bounds, &problem_nist,
                                               &problem_chained,  &problem_paired, &problem_quadratic};

static const problem_class *class_of(const char *set)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (!strcmp(classes[i]->name, set)) return classes[i];
    return NULL;
}

static double by_clock(clockid_t clock)
{
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void) { return by_clock(CLOCK_MONOTONIC); }
static double used(void) { return by_clock(CLOCK_PROCESS_CPUTIME_ID); }

/* ---- for the classes ---- */

double *problem_numbers(int n)
{
    double *made = calloc((size_t)n, sizeof *made);
    if (!made) abort();
    return made;
}

void problem_check(gd_ctx *ctx)
{
    if (!gd_error(ctx)) return;
    fprintf(stderr, "problems: %s\n", gd_error_text(ctx));
    exit(1);
}

/* What headers of the tests ask for. */
void assert_no_error_at(gd_ctx *ctx, const char *file, int line);
void assert_no_error_at(gd_ctx *ctx, const char *file, int line)
{
    (void)file, (void)line;
    problem_check(ctx);
}

double problem_value_of(problem *p, gd_tensor *at, gd_tensor *(*fn)(void *job), const double *x, double *g)
{
    gd_tensor *grad = NULL;
    gd_scope_begin(p->ctx);
    bool good = gd_write_f64(at, x, p->n) == GD_OK;
    gd_tensor *value = good ? fn(p->job) : NULL;
    if (value && gd_ndim(value)) value = gd_sum(gd_square(value), NULL, false); /* residuals */
    good = value && gd_grad(value, NULL, &at, 1, 0, &grad) == GD_OK && gd_read_f64(grad, g, p->n) == GD_OK;
    double loss = good ? gd_item(value) : NAN;
    gd_scope_end(p->ctx);
    problem_check(p->ctx);
    return loss;
}

/* ---- for the peers ---- */

int problem_count(const char *set)
{
    const problem_class *cls = class_of(set);
    return !cls ? 0 : cls->count ? cls->count() : 1;
}

problem *problem_open(const char *set, long number)
{
    gd_options options = gd_options_default();
    problem *p = calloc(1, sizeof *p);
    if (!p || !(p->cls = class_of(set))) abort();
    options.threads = 1;
    p->ctx = gd_ctx_new(&options);
    gd_scope_begin(p->ctx);
    p->loss = problem_numbers(PROBLEM_EVALS);
    p->time = problem_numbers(PROBLEM_EVALS);
    bool there = p->cls->open(p, number);
    problem_check(p->ctx);
    if (!there) {
        problem_close(p);
        return NULL;
    }
    p->begun = now();
    p->used = used();
    return p;
}

void problem_close(problem *p)
{
    if (p->cls->close && p->job) p->cls->close(p);
    gd_scope_end(p->ctx);
    gd_ctx_free(p->ctx);
    double *all[] = {p->start, p->low, p->high, p->certified, p->loss, p->time};
    for (int i = 0; i < 6; i++) free(all[i]);
    free(p);
}

const char *problem_name(const problem *p) { return p->name; }
int problem_size(const problem *p) { return p->n; }
int problem_rows(const problem *p) { return p->rows; }
const double *problem_start(const problem *p) { return p->start; }
const double *problem_low(const problem *p) { return p->low; }
const double *problem_high(const problem *p) { return p->high; }
int problem_evals(const problem *p) { return p->evals; }
double problem_seconds(const problem *p) { return p->n > 1000 ? 10 : 1; }

/* The clock of the processor is a call of the system: by another clock it is not asked in vain for short problems. */
static bool is_late(const problem *p)
{
    return now() - p->begun > problem_seconds(p) / 8 && used() - p->used > problem_seconds(p);
}

int problem_over(const problem *p)
{
    bool told = !p->minima && !p->certified; /* by the gradient, and not by where it ends */
    return p->evals >= PROBLEM_EVALS - 100 || (told && p->reached) || is_late(p);
}

void problem_record(problem *p, double loss)
{
    if (p->evals < PROBLEM_EVALS) {
        p->loss[p->evals] = loss;
        p->time[p->evals] = now() - p->begun;
    }
    p->evals++;
    if (p->reached == p->evals && !(p->reached_at > 0)) p->reached_at = now() - p->begun;
}

double problem_evaluate(problem *p, const double *x, double *g)
{
    double loss = p->cls->evaluate(p, x, g);
    problem_record(p, loss);
    return loss;
}

void problem_residuals(problem *p, const double *x, double *r, double *j)
{
    double sum = 0;
    p->cls->residuals(p, x, r, j);
    for (int i = 0; i < p->rows; i++) sum += r[i] * r[i];
    problem_record(p, sum);
}

/* The parameters are those certified, or the loss is that of a minimum. */
static double target_of(const problem *p, const double *x, double loss)
{
    if (p->certified) return problem_digits(p, x) >= 4 ? loss * (1 + 1e-6) : -INFINITY;
    for (int k = 0; k < p->minima; k++)
        if (fabs(loss - p->minimum[k]) <= p->margin[k]) return p->minimum[k] + p->margin[k];
    return -INFINITY;
}

int problem_solved(problem *p, const double *x, double loss, double *seconds)
{
    *seconds = p->reached_at;
    if (!p->minima && !p->certified) return p->reached;
    double target = target_of(p, x, loss);
    for (int i = 0; i < p->evals && i < PROBLEM_EVALS; i++)
        if (p->loss[i] <= target) {
            *seconds = p->time[i];
            return i + 1;
        }
    return 0;
}

double problem_digits(const problem *p, const double *x)
{
    return p->cls->digits ? p->cls->digits(x, p->certified, p->n) : 0;
}
