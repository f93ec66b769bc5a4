/* gradus minimize: an expression, its parameters, a chain. */
#include "cli/cli.h"
#include "cli/files.h"
#include "cli/problem.h"
#include "cli/trace.h"
#include "cli/tuning.h"
#include "cli/until.h"
#include "gradus/autograd.h"
#include "gradus/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_CHAIN "lbfgs | strong_wolfe"

static const gd_option options[] = {
    GD_PARAM_OPTION,
    GD_TUNING_OPTIONS(DEFAULT_CHAIN),
    GD_OPTION("steps", "N", "the most steps (100)"),
    GD_REPEATED(
        "until", "CONDITION",
        "stop before: loss<X, loss_change<X, grad_norm<X (costs an evaluation a step), step_norm<X, evals>N, seconds>X"),
    GD_OUTPUT("trace", "one JSON object a line and step: step, loss, evals, params"),
    GD_OUTPUT("plot", "the loss, or for two parameters their path over contours, as .svg or .png"),
    GD_OUTPUT("out", "the parameters, as .safetensors"),
    GD_SWITCH("json", "print one JSON object: loss, steps, evals, stopped, seconds, params"),
    GD_DATA_OPTIONS,
    {0},
};

typedef struct job {
    gd_cli *cli;
    const gd_args *args;
    gd_problem problem;
    gd_optimizer *optimizer;
    gd_tracer *tracer;
    gd_until until;
    int64_t steps, done;
    const char *stopped; /* why */
    const char *plot, *out;
    double first_loss, last_loss, loss, seconds;
    gd_tensor **before; /* parameters before the step, for step_norm */
    size_t before_bytes;
    double (*history)[4]; /* step, loss, x, y */
    size_t count, history_bytes;
    bool plane;
} job;

/* ---- preparing ---- */

static gd_status make_optimizer(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    const char *chain = gd__args_get(j->args, "chain");
    gd_link *link = gd_chain(ctx, chain ? chain : DEFAULT_CHAIN);
    j->optimizer = link ? gd_optimizer_new(ctx, link) : NULL;
    if (!j->optimizer) return gd_error(ctx);
    gd_status status = GD_OK;
    for (int i = 0; i < j->problem.params && !status; i++)
        status = gd_optimizer_add(j->optimizer, j->problem.name[i], j->problem.value[i]);
    int at = 0;
    for (const char *text; !status && (text = gd__args_next(j->args, "group", &at));)
        status = gd__tune_group(j->optimizer, text);
    at = 0;
    for (const char *text; !status && (text = gd__args_next(j->args, "schedule", &at));)
        status = gd__tune_schedule(j->optimizer, text);
    return status;
}

static gd_status check_outputs(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    gd_status status = GD_OK;
    j->plot = gd__args_get(j->args, "plot");
    j->out = gd__args_get(j->args, "out");
    if (j->plot) status = gd__plot_check_path(ctx, j->plot);
    if (j->plot && !status) status = gd__check_output(ctx, j->plot);
    if (j->out && !status) status = gd__check_file(ctx, j->out);
    return status;
}

static gd_status prepare(job *j)
{
    int at = 0;
    gd_ctx *ctx = j->cli->ctx;
    gd_status status = gd__args_integer(j->args, "steps", 0, INT64_MAX, &j->steps);
    for (const char *text; !status && (text = gd__args_next(j->args, "until", &at));)
        status = gd__until_parse(ctx, text, &j->until);
    if (!status) status = check_outputs(j);
    if (!status) status = gd__problem_open(&j->problem, ctx, j->args, j->args->argument[0], NULL, 0);
    if (!status && j->problem.params == 0)
        status = gd_fail(ctx, GD_ARGUMENT, "minimize: no --param given: nothing to change");
    if (!status) status = make_optimizer(j);
    const char *trace = gd__args_get(j->args, "trace");
    if (!status && trace && !(j->tracer = gd__tracer_open(ctx, trace))) status = gd_error(ctx);
    char axis[2][80];
    j->plane = !status && gd__problem_is_plane(&j->problem, axis);
    return status;
}

/* ---- stepping ---- */

static gd_tensor *value_of(void *user) { return gd__problem_value(user); }

/* Loss at the parameters as they are, and the norm of its gradient where asked for. */
static gd_status evaluate(job *j, double *loss, double *grad_norm)
{
    gd_problem *p = &j->problem;
    gd_ctx *ctx = p->ctx;
    gd_tensor *few[16], **gradient = few;
    size_t bytes = (size_t)p->params * sizeof *gradient;
    if (p->params > 16 && !(gradient = gd__alloc(ctx, bytes))) return GD_NOMEM;
    gd_scope_begin(ctx);
    gd_tensor *t = gd__problem_loss(p);
    gd_status status = t ? GD_OK : gd_error(ctx);
    if (!status) *loss = gd_item(t);
    if (!status && grad_norm) {
        double sum = 0;
        status = gd_grad(t, NULL, p->value, p->params, 0, gradient);
        gd_no_grad_begin(ctx);
        for (int i = 0; i < p->params && !status; i++) {
            gd_tensor *norm = gd_norm(gradient[i], 2, NULL, false);
            double v = norm ? gd_item(norm) : NAN;
            sum += v * v;
            status = gd_error(ctx);
        }
        gd_no_grad_end(ctx);
        *grad_norm = sqrt(sum);
    }
    gd_scope_end(ctx);
    if (gradient != few) gd__free(ctx, gradient, bytes);
    return status;
}

/* Copies of the parameters, to measure a step with. */
static gd_status remember(job *j)
{
    gd_problem *p = &j->problem;
    gd_status status = GD_OK;
    for (int i = 0; i < p->params && !status; i++) {
        if (!j->before[i] && !(j->before[i] = gd_zeros_like(p->value[i]))) return gd_error(p->ctx);
        status = gd_assign(j->before[i], p->value[i]);
    }
    return status;
}

static double step_norm(job *j)
{
    gd_problem *p = &j->problem;
    double sum = 0;
    gd_scope_begin(p->ctx);
    gd_no_grad_begin(p->ctx);
    for (int i = 0; i < p->params; i++) {
        gd_tensor *norm = gd_norm(gd_sub(p->value[i], j->before[i]), 2, NULL, false);
        double v = norm ? gd_item(norm) : NAN;
        sum += v * v;
    }
    gd_no_grad_end(p->ctx);
    gd_scope_end(p->ctx);
    return sqrt(sum);
}

/* A row for the plot: the loss of a step, and where the parameters are. */
static gd_status add_history(job *j, int64_t step, double loss)
{
    if (!j->plot) return GD_OK;
    if ((j->count + 1) * sizeof *j->history > j->history_bytes) {
        size_t bytes = j->history_bytes ? j->history_bytes * 2 : 256 * sizeof *j->history;
        void *grown = gd__realloc(j->cli->ctx, j->history, j->history_bytes, bytes);
        if (!grown) return GD_NOMEM;
        j->history = grown;
        j->history_bytes = bytes;
    }
    double *row = j->history[j->count++];
    row[0] = (double)step;
    row[1] = loss;
    int64_t at = 2;
    gd_status status = GD_OK;
    for (int i = 0; i < j->problem.params && j->plane && !status; i++) {
        status = gd_read_f64(j->problem.value[i], row + at, gd_numel(j->problem.value[i]));
        at += gd_numel(j->problem.value[i]);
    }
    return status;
}

/* Why to stop after this step, if so. */
static gd_status look_for_stop(job *j, const gd_step_info *info, double last_loss)
{
    double values[GD_UNTIL_COUNT] = {[GD_UNTIL_LOSS] = info->loss,
                                     [GD_UNTIL_LOSS_CHANGE] = fabs(info->loss - last_loss),
                                     [GD_UNTIL_EVALS] = (double)info->evals,
                                     [GD_UNTIL_SECONDS] = gd__cli_seconds() - j->seconds};
    gd_status status = GD_OK;
    if (j->until.uses[GD_UNTIL_GRAD_NORM])
        status = evaluate(j, &values[GD_UNTIL_LOSS], &values[GD_UNTIL_GRAD_NORM]);
    if (j->until.uses[GD_UNTIL_STEP_NORM]) values[GD_UNTIL_STEP_NORM] = step_norm(j);
    if (!status) j->stopped = gd__until_met(&j->until, values);
    if (info->terminate && !j->stopped) j->stopped = "terminated by a link";
    if (gd__interrupted()) j->stopped = "interrupted";
    return status;
}

static gd_status one_step(job *j, gd_meter *progress)
{
    gd_step_info info = {.loss = NAN};
    gd_status status = j->until.uses[GD_UNTIL_STEP_NORM] ? remember(j) : GD_OK;
    if (!status)
        status = gd_optimizer_step(j->optimizer, &(gd_objective){.loss = value_of, .user = &j->problem},
                                   &info);
    if (status) return status;
    double last_loss = j->done ? j->last_loss : NAN;
    j->done++;
    j->last_loss = info.loss;
    if (j->done == 1) j->first_loss = info.loss;
    if (j->tracer)
        status = gd__tracer_step(j->tracer, j->done, info.loss, info.evals, j->problem.name, j->problem.value,
                                 j->problem.params);
    if (!status) status = add_history(j, j->done, info.loss);
    if (!status) status = look_for_stop(j, &info, last_loss);
    gd__meter_show(progress, "step", j->done, info.loss);
    return status;
}

static gd_status step_all(job *j)
{
    gd_meter progress = gd__meter_start(j->steps);
    gd__interrupt_catch();
    j->seconds = gd__cli_seconds();
    /* the path of two parameters begins where they start; a loss curve begins with the first step */
    gd_status status = j->plane ? add_history(j, 0, NAN) : GD_OK;
    while (j->done < j->steps && !j->stopped && !status) status = one_step(j, &progress);
    gd__meter_end(&progress);
    j->seconds = gd__cli_seconds() - j->seconds;
    if (!j->stopped) j->stopped = "steps";
    return status ? status : evaluate(j, &j->loss, NULL);
}

/* ---- results ---- */

static gd_status print_json(job *j)
{
    gd_text *out = &j->cli->out;
    bool first = true;
    gd_status status = GD_OK;
    gd__text_char(out, '{');
    gd__json_key(out, &first, "loss");
    gd__json_number(out, j->loss);
    gd__json_key(out, &first, "steps");
    gd__text_put(out, "%lld", (long long)j->done);
    gd__json_key(out, &first, "evals");
    gd__text_put(out, "%lld", (long long)gd_optimizer_evals(j->optimizer));
    gd__json_key(out, &first, "stopped");
    gd__json_string(out, j->stopped);
    gd__json_key(out, &first, "seconds");
    gd__json_number(out, j->seconds);
    gd__json_key(out, &first, "params");
    gd__text_char(out, '{');
    first = true;
    for (int i = 0; i < j->problem.params && !status; i++) {
        gd__json_key(out, &first, j->problem.name[i]);
        status = gd__json_tensor(out, j->problem.value[i]);
    }
    gd__text_add(out, "}}\n");
    return status;
}

/* A parameter with ten digits; of a large one only the shape. */
static gd_status print_param(gd_text *out, const char *name, const gd_tensor *t)
{
    double v[12];
    int64_t count = gd_numel(t);
    gd__text_put(out, "%s = ", name);
    if (count > 12 || gd_ndim(t) > 1) {
        gd__text_add(out, "array");
        for (int i = 0; i < gd_ndim(t); i++)
            gd__text_put(out, "%s%lld", i ? " x " : " of ", (long long)gd_size(t, i));
        gd__text_char(out, '\n');
        return GD_OK;
    }
    gd_status status = gd_read_f64(t, v, count);
    if (gd_ndim(t)) gd__text_char(out, '[');
    for (int64_t i = 0; i < count && !status; i++) gd__text_put(out, "%s%.10g", i ? ", " : "", v[i]);
    gd__text_add(out, gd_ndim(t) ? "]\n" : "\n");
    return status;
}

static gd_status print_text(job *j)
{
    gd_text *out = &j->cli->out;
    gd_status status = GD_OK;
    gd__text_put(out, "loss %.10g after %lld steps, %lld evaluations, %.3g s", j->loss, (long long)j->done,
                 (long long)gd_optimizer_evals(j->optimizer), j->seconds);
    if (strcmp(j->stopped, "steps") != 0) gd__text_put(out, " (%s)", j->stopped);
    gd__text_char(out, '\n');
    for (int i = 0; i < j->problem.params && !status; i++)
        status = print_param(out, j->problem.name[i], j->problem.value[i]);
    return status;
}

static gd_status save(job *j)
{
    char number[40];
    gd_ctx *ctx = j->cli->ctx;
    gd_archive *archive = gd_archive_new(ctx);
    if (!archive) return GD_NOMEM;
    gd_status status = GD_OK;
    for (int i = 0; i < j->problem.params && !status; i++)
        status = gd_archive_put(archive, j->problem.name[i], j->problem.value[i]);
    const char *chain = gd__args_get(j->args, "chain");
    (void)snprintf(number, sizeof number, "%.17g", j->loss);
    if (!status) status = gd_archive_set_meta(archive, "expression", j->args->argument[0]);
    if (!status) status = gd_archive_set_meta(archive, "chain", chain ? chain : DEFAULT_CHAIN);
    if (!status) status = gd_archive_set_meta(archive, "loss", number);
    if (!status) status = gd_archive_save(archive, j->out);
    gd_archive_free(archive);
    return status;
}

/* Columns of the history as arrays. */
static double *column(job *j, int k)
{
    double *out = gd__alloc_array(j->cli->ctx, j->count + 1, sizeof *out);
    for (size_t i = 0; out && i < j->count; i++) out[i] = j->history[i][k];
    return out;
}

static bool spans_decades(const double *loss, size_t count)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < count; i++) {
        if (loss[i] <= 0) return false;
        if (isfinite(loss[i])) low = fmin(low, loss[i]), high = fmax(high, loss[i]);
    }
    return high > 100 * low;
}

static gd_status draw(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    char axis[2][80] = {"step", "loss"};
    size_t bytes = (j->count + 1) * sizeof(double);
    double *x = column(j, j->plane ? 2 : 0), *y = column(j, j->plane ? 3 : 1), box[4];
    if (j->plane) (void)gd__problem_is_plane(&j->problem, axis);
    const char *chain = gd__args_get(j->args, "chain");
    gd_plot *plot = gd__plot_new(ctx, j->args->argument[0], axis[0], axis[1]);
    gd_status status = x && y && plot ? GD_OK : GD_NOMEM;
    if (!status && j->plane) {
        gd__plane_box(x, y, j->count, box);
        gd__plot_limits(plot, box[0], box[1], box[2], box[3]);
        status = gd__problem_contours(&j->problem, plot, box);
        gd__plot_path(plot, chain ? chain : DEFAULT_CHAIN, x, y, j->count);
    } else if (!status) {
        gd__plot_log(plot, false, spans_decades(y, j->count));
        gd__plot_line(plot, chain ? chain : DEFAULT_CHAIN, x, y, j->count);
    }
    if (!status) status = gd__plot_save(plot, j->plot, false);
    gd__plot_free(plot);
    gd__free(ctx, x, bytes);
    gd__free(ctx, y, bytes);
    return status;
}

static gd_status finish(job *j)
{
    gd_status status = gd__tracer_close(j->tracer);
    j->tracer = NULL;
    if (!status && j->out) status = save(j);
    if (!status && j->plot) status = draw(j);
    if (!status) status = gd__args_has(j->args, "json") ? print_json(j) : print_text(j);
    if (!status && j->cli->out.failed) status = GD_NOMEM;
    if (status) return status;
    if (!strcmp(j->stopped, "interrupted")) {
        status = gd__cli_flush(j->cli);
        return status
                   ? status
                   : gd_fail(j->cli->ctx, GD_INTERRUPTED, "interrupted after %lld steps", (long long)j->done);
    }
    if (isfinite(j->loss)) return GD_OK;
    status = gd__cli_flush(j->cli);
    return status ? status
                  : gd_fail(j->cli->ctx, GD_VALUE, "the loss is %g after %lld steps", j->loss,
                            (long long)j->done);
}

static void close_job(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    (void)gd__tracer_close(j->tracer);
    gd_optimizer_free(j->optimizer);
    for (int i = 0; j->before && i < j->problem.params; i++) gd_release(j->before[i]);
    gd__free(ctx, j->before, j->before_bytes);
    gd__free(ctx, j->history, j->history_bytes);
    gd__problem_close(&j->problem);
}

static int run(gd_cli *cli, const gd_args *args)
{
    job j = {.cli = cli, .args = args, .steps = 100, .problem = {.ctx = cli->ctx}, .loss = NAN};
    gd_status status = prepare(&j);
    j.before_bytes = ((size_t)j.problem.params + 1) * sizeof *j.before;
    if (!status && !(j.before = gd__calloc(cli->ctx, j.before_bytes))) status = GD_NOMEM;
    if (!status) {
        cli->running = true;
        status = step_all(&j);
    }
    if (!status) status = finish(&j);
    close_job(&j);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_minimize = {
    .name = "minimize",
    .summary = "Minimise an expression over its parameters.",
    .arguments = "'EXPR'",
    .description =
        "EXPR is as for `gradus eval`. A vector counts as residuals: the sum of their squares is minimised. Prints the "
        "loss and the parameters at the end.",
    .options = options,
    .examples =
        "gradus minimize '(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.1,2.5] --plot path.svg\n"
        "gradus minimize 'mean((X@W+b-Y)^2)' --param W='zeros(4,2)' --param b='zeros(2)' --data X=@X.npy --data Y=@Y.npy "
        "--chain 'adam | lr(0.1)' --steps 500 --trace run.jsonl\n",
    .least = 1,
    .most = 1,
    .run = run,
};
