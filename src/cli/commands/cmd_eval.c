/* gradus eval: the value and the gradient of an expression. */
#include "cli/cli.h"
#include "cli/problem_options.h"
#include "file/run_log.h"
#include "gradus/autograd.h"

static const gd_option options[] = {
    GD_PARAM_OPTION,
    GD_DATA_OPTIONS,
    GD_SWITCH("hessian", "also the matrix of second derivatives, all parameters flattened in order"),
    GD_SWITCH("check", "compare the gradient with finite differences; exit 1 when they disagree"),
    GD_SWITCH("json", "print one JSON object: value, loss, gradient {name: values}"),
    {0},
};

typedef struct results {
    gd_tensor *value, *loss, *hessian;
    gd_tensor **gradient;
} results;

static gd_tensor *loss_of(void *user, gd_tensor *const *inputs, int count)
{
    gd_problem *p = user;
    gd_tensor *values[64];
    if (p->count > 64) return NULL;
    for (int i = 0; i < p->count; i++) values[i] = i < count ? inputs[i] : p->value[i];
    return gd__problem_loss_of(gd_expr_eval(p->expr, values, p->spec.dtype));
}

static gd_status evaluate(gd_problem *p, const gd_args *args, results *r)
{
    r->value = gd__problem_value(p);
    r->loss = gd__problem_loss_of(r->value);
    if (!r->loss) return gd_error(p->ctx);
    if (p->params == 0) return GD_OK;
    gd_status status = gd_grad(r->loss, NULL, p->value, p->params, 0, r->gradient);
    bool hessian = gd__args_has(args, "hessian"), check = gd__args_has(args, "check");
    if ((hessian || check) && p->count > 64 && !status)
        status = gd_fail(p->ctx, GD_ARGUMENT, "eval: --hessian and --check take at most 64 names");
    if (hessian && !status && !(r->hessian = gd_hessian(loss_of, p, p->value, p->params)))
        status = gd_error(p->ctx);
    if (check && !status && p->spec.dtype != GD_F64)
        status = gd_fail(p->ctx, GD_ARGUMENT, "eval: --check wants --dtype f64");
    if (check && !status) status = gd_gradcheck(loss_of, p, p->value, p->params, NULL);
    return status;
}

static gd_status print_json(gd_text *out, const gd_problem *p, const results *r)
{
    gd__text_char(out, '{');
    gd__json_key(out, "value");
    gd_status status = gd__json_tensor(out, r->value);
    gd__json_put_number(out, "loss", gd_item(r->loss));
    gd__json_key(out, "gradient");
    gd__text_char(out, '{');
    for (int i = 0; i < p->params && !status; i++) {
        gd__json_key(out, p->name[i]);
        status = gd__json_tensor(out, r->gradient[i]);
    }
    gd__text_char(out, '}');
    if (r->hessian && !status) {
        gd__json_key(out, "hessian");
        status = gd__json_tensor(out, r->hessian);
    }
    gd__text_add(out, "}\n");
    return status;
}

static gd_status print_text(gd_text *out, const gd_problem *p, const results *r)
{
    gd_status status = GD_OK;
    bool vector = gd_ndim(r->value) > 0 && gd_numel(r->value) != 1;
    if (vector) {
        gd__text_add(out, "residuals  ");
        status = gd__json_tensor(out, r->value);
        gd__text_char(out, '\n');
    }
    gd__text_put(out, "%s  %.17g\n", vector ? "loss     " : "value", gd_item(r->loss));
    for (int i = 0; i < p->params && !status; i++) {
        gd__text_put(out, "d/d%s  ", p->name[i]);
        status = gd__json_tensor(out, r->gradient[i]);
        gd__text_char(out, '\n');
    }
    if (r->hessian && !status) {
        gd__text_add(out, "hessian  ");
        status = gd__json_tensor(out, r->hessian);
        gd__text_char(out, '\n');
    }
    return status;
}

static int run_eval(gd_cli *cli, const gd_args *args)
{
    gd_problem_arguments a;
    gd_problem *p = &a.problem;
    results r = {0};
    gd_status status = gd__problem_arguments_read(&a, args, args->argument[0]);
    if (!status) status = gd__problem_arguments_open(&a);
    if (!status) status = gd__problem_check_names(p);
    size_t bytes = ((size_t)p->params + 1) * sizeof *r.gradient;
    gd_scope_begin(cli->ctx);
    if (!status && !(r.gradient = gd__calloc(cli->ctx, bytes))) status = GD_NOMEM;
    if (!status) {
        cli->running = true;
        status = evaluate(p, args, &r);
    }
    if (!status)
        status = gd__args_has(args, "json") ? print_json(&cli->out, p, &r) : print_text(&cli->out, p, &r);
    gd__free(cli->ctx, r.gradient, bytes);
    gd_scope_end(cli->ctx);
    gd__problem_arguments_close(&a);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_eval = {
    .name = "eval",
    .summary = "Print the value and the gradient of an expression.",
    .arguments = "'EXPR'",
    .description =
        "EXPR is `name = expr;` bindings and a last expression: numbers, + - * / ^ @, comparisons, indexing p[0] and "
        "A[1,2:5], lists [a, b], and the functions that `gradus help --functions` lists. A vector of more "
        "than one element counts as residuals: its loss is the sum of their squares.",
    .options = options,
    .examples =
        "gradus eval '(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.1,2.5]\n"
        "gradus eval 'norm(A@x - b)^2' --param x='zeros(3)' --data A=@A.npy --data b=[1,2,3] --json\n",
    .least = 1,
    .most = 1,
    .run = run_eval,
};
