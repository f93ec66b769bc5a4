/* The programs of a chain without an optimizer: for the build, which emits them into the library, and for tests. */
#include "optim/plan/run.h"

typedef gd_status (*visit_fn)(void *user, const gd_program *p, const gd_pass *pass);

static gd_status visit_passes(gd_ctx *ctx, gd_program *p, visit_fn visit, void *user)
{
    gd_pass *pass = gd__alloc(ctx, sizeof *pass);
    gd_status status = pass ? GD_OK : GD_NOMEM;
    for (int i = 0; i < gd__program_passes(p) && !status; i++) {
        gd__program_pass(p, i, pass);
        status = visit(user, p, pass);
    }
    gd__free(ctx, pass, sizeof *pass);
    return status;
}

static gd_status build_and_visit(gd_build *build, visit_fn visit, void *user)
{
    gd_program *p = gd__build(build);
    if (!p) return gd_error(build->ctx) ? gd_error(build->ctx) : GD_NOMEM;
    gd_status status = visit_passes(build->ctx, p, visit, user);
    gd__program_free(p);
    return status;
}

/* The chain as the last run of a step (subtracted from the parameters), as an earlier one (an update for the links after
 * it), and the end of a step whose update exists already. */
static gd_status visit_chain(gd_link *chain, gd_tensor *param, visit_fn visit, void *user)
{
    gd_ctx *ctx = param->head.ctx;
    gd_pending pending = {.link = chain, .mode = GD_MODE_STEP};
    gd_dtype dtype = param->dtype;
    gd_build build = {.ctx = ctx,
                      .pending = &pending,
                      .pendings = 1,
                      .param = param,
                      .key = param,
                      .input_dtype = dtype,
                      .grad_dtype = dtype,
                      .input_is_grad = true,
                      .has_grad = true,
                      .has_loss = true,
                      .sink = GD_SINK_PARAMS};
    gd_status status = build_and_visit(&build, visit, user);
    build.sink = GD_SINK_UPDATE;
    if (!status) status = build_and_visit(&build, visit, user);
    build.pendings = 0;
    build.input_is_grad = false;
    build.sink = GD_SINK_PARAMS;
    return status ? status : build_and_visit(&build, visit, user);
}

gd_status gd__plan_programs(gd_ctx *ctx, const char *text, gd_dtype dtype, visit_fn visit, void *user)
{
    gd_link *chain = gd_chain(ctx, text);
    if (!chain) return gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *param = gd_zeros(ctx, dtype, 1, (int64_t[]){4096}); /* codes are for no fewer */
    gd_status status = param ? GD_OK : gd_error(ctx);
    if (!status && !gd__fusable(chain))
        status = gd_fail(ctx, GD_ARGUMENT, "the chain '%.200s' is not element-wise", text);
    if (!status) status = visit_chain(chain, param, visit, user);
    gd_scope_end(ctx);
    gd_link_release(chain);
    return status;
}
