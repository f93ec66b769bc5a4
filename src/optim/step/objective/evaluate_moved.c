/* Evaluations at points near the parameters, which are restored; with bounds these points are inside. */
#include "optim/step/objective/bounds.h"
#include "optim/vector/origin.h"

#include <math.h>

static void release_list(gd_tensor **list, int count)
{
    for (int i = 0; list && i < count; i++) {
        gd__release(list[i]);
        list[i] = NULL;
    }
}

gd_status gd__var_try(gd_var *var, gd_origin *here, double alpha, gd_tensor *const *direction, double *loss,
                      gd_tensor **grads)
{
    gd_tensor *value = NULL;
    bool history = var->grad_history;
    gd_status status = gd_var_move(var, alpha, direction);
    if (!status) status = gd__var_evaluate(var, &value, grads);
    if (loss) *loss = status ? NAN : gd_item(value);
    gd_status back = gd__origin_return(here);
    var->grad_history = history && !back;
    gd__release(value);
    if (!status && back) release_list(grads, var->count);
    if (!status) status = back;
    return status ? status : gd_error(var->ctx);
}

/* x + h v and x - h v, from the point kept in `here`. */
static gd_status try_both(gd_var *var, gd_origin *here, double h, gd_tensor *const *v, double *losses,
                          gd_tensor **ahead, gd_tensor **behind)
{
    gd_status status = gd__var_try(var, here, h, v, losses, ahead);
    if (status) return status; /* the lists are the caller's as they were */
    status = gd__var_try(var, here, -h, v, losses ? losses + 1 : NULL, behind);
    if (status) release_list(ahead, var->count);
    return status;
}

/* From a middle with room on both sides. */
static gd_status try_both_inside(gd_var *var, double *h, gd_tensor *const *direction, double *losses,
                                 gd_tensor **ahead, gd_tensor **behind)
{
    gd_origin middle = {0};
    gd_tensor **v = gd__tensors_copy(var->ctx, direction, var->count);
    gd_status status = v ? gd__bounds_centre(var, v, h) : gd_error(var->ctx);
    if (!status) status = gd__origin_keep(&middle, var->ctx, var->params, var->count);
    if (!status) status = try_both(var, &middle, *h, v, losses, ahead, behind);
    gd__origin_free(&middle);
    gd__tensors_free(var->ctx, v, var->count);
    return status;
}

gd_status gd__evaluate_around(gd_var *var, double *h, gd_tensor *const *direction, double *losses,
                              gd_tensor **ahead, gd_tensor **behind)
{
    gd_origin here = {0};
    bool history = var->grad_history;
    gd_status status = gd_var_flush(var);
    if (!status) status = gd__origin_keep(&here, var->ctx, var->params, var->count);
    if (!status)
        status = var->bounded ? try_both_inside(var, h, direction, losses, ahead, behind)
                              : try_both(var, &here, *h, direction, losses, ahead, behind);
    gd_status back = gd__origin_return(&here);
    var->grad_history = history && !back;
    gd__origin_free(&here);
    if (!status && back) {
        release_list(ahead, var->count);
        release_list(behind, var->count);
    }
    return status ? status : back;
}

gd_status gd__evaluate_moved(gd_var *var, double alpha, gd_tensor *const *direction, double *loss,
                             gd_tensor **grads)
{
    gd_origin here = {0};
    gd_status status = gd__origin_keep(&here, var->ctx, var->params, var->count);
    if (!status) status = gd__var_try(var, &here, alpha, direction, loss, grads);
    gd__origin_free(&here);
    return status;
}

gd_status gd_var_evaluate_moved(gd_var *var, double alpha, gd_tensor *const *direction, double *loss,
                                gd_tensor **grads)
{
    if (!var || !direction) return gd__null(gd_var_ctx(var), "var: the direction is NULL");
    gd_status status = gd__evaluate_moved(var, alpha, direction, loss, grads);
    return status || !grads ? status : gd__give_out(var->ctx, grads, var->count);
}

gd_status gd_var_evaluate_around(gd_var *var, double *h, gd_tensor *const *direction, double *losses,
                                 gd_tensor **ahead, gd_tensor **behind)
{
    if (!var || !h || !direction) return gd__null(gd_var_ctx(var), "var: a direction or distance is NULL");
    gd_status status = gd__evaluate_around(var, h, direction, losses, ahead, behind);
    if (!status && ahead) {
        status = gd__give_out(var->ctx, ahead, var->count);
        if (status) release_list(behind, var->count);
    }
    if (!status && behind) status = gd__give_out(var->ctx, behind, var->count);
    return status;
}
