/* Hessian-vector products at the parameters as an operator. */
#include "gradus/link/hessian.h"
#include "optim/step/optimizer.h"

typedef struct products {
    gd_link *link;
    gd_var *var;
    gd_hvp_method method;
    double h;
} products;

/* "auto": the objective's products, else differences. */
static gd_hvp_method method_of(const gd_link *link, const gd_var *var)
{
    if (!gd_link_has_field(link, "hvp_method")) return GD_HVP_AUTOGRAD;
    if (gd_link_is(link, "hvp_method", "auto"))
        return gd__var_has_products(var) ? GD_HVP_AUTOGRAD : GD_HVP_CENTRAL;
    bool forward = gd_link_is(link, "hvp_method", "forward") || gd_link_is(link, "hvp_method", "fd_forward");
    bool central = gd_link_is(link, "hvp_method", "central") || gd_link_is(link, "hvp_method", "fd_central");
    return forward ? GD_HVP_FORWARD : central ? GD_HVP_CENTRAL : GD_HVP_AUTOGRAD;
}

static bool evaluates(const gd_link *link)
{
    if (link && gd_link_class_of(link)->traits.needs_closure) return true;
    for (int i = 0; link && i < gd_link_children(link); i++)
        if (evaluates(gd_link_child_at(link, i))) return true;
    return false;
}

static gd_status refused(const gd_link *link, const gd_var *var)
{
    return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var),
                    "products with the Hessian: the link or the step is NULL");
}

/* Products by autograd need the gradient with its graph: if it is requested first, it is evaluated once. */
gd_status gd_link_expect_products(gd_link *link, gd_var *var)
{
    if (!link || !var) return refused(link, var);
    /* inner links that move the parameters, even back again, would leave the graph of a different point behind */
    if (evaluates(gd_link_child(link, "inner"))) return GD_OK;
    if (method_of(link, var) != GD_HVP_AUTOGRAD || !gd_var_has_closure(var)) return GD_OK;
    if (gd__var_keeps_products(var)) return gd__var_need_grad(var, true);
    if (gd__var_gives_products(var) || !gd__var_has_graph(var)) return GD_OK;
    return gd_var_grad_graph(var) ? GD_OK : gd_error(gd_var_ctx(var));
}

static double step_of(const gd_link *link)
{
    const char *name = gd_link_has_field(link, "h") ? "h" : "fd_h";
    return gd_link_has_field(link, name) ? gd_link_real(link, name, NULL) : 1e-3;
}

gd_status gd_link_hessian_times(gd_link *link, gd_var *var, gd_tensor *const *v, gd_tensor **out)
{
    if (!link || !var) return refused(link, var);
    gd_status status = gd_var_flush(var);
    return status ? status : gd_var_hvp(var, method_of(link, var), step_of(link), true, v, out);
}

/* Inside bounds held elements take no part. */
static gd_tensor *free_part(const products *p, gd_tensor *x)
{
    gd_tensor *mask = gd_var_free_mask(p->var);
    return mask && x ? gd_mul(x, gd_cast(mask, gd_tensor_dtype(x))) : x;
}

static gd_tensor *multiply(void *user, gd_tensor *x)
{
    products *p = user;
    int count = gd_var_count(p->var);
    gd_ctx *ctx = gd_var_ctx(p->var);
    gd_tensor **v = gd_link_scratch(p->link, 2 * count), **hv = v ? v + count : NULL, *out = NULL;
    if (!v) return NULL;
    gd_scope_begin(ctx);
    x = free_part(p, x);
    if (gd_list_split(x, gd_var_params(p->var), count, v) == GD_OK &&
        gd_var_hvp(p->var, p->method, p->h, true, v, hv) == GD_OK) {
        out = gd_list_vector(hv, count);
        if (out && count == 1) out = gd_copy(out); /* not a view of what is released here */
        gd_keep(out = free_part(p, out));
        for (int i = 0; i < count; i++) gd_release(hv[i]);
    }
    gd_scope_end(ctx);
    return out;
}

gd_linop *gd_link_hessian_products(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    products *p = ctx ? gd_link_memory(link, sizeof *p) : NULL;
    if (!p) return NULL;
    *p = (products){.link = link, .var = var, .method = method_of(link, var), .h = step_of(link)};
    /* an existing gradient is evaluated again only for the first product */
    if (!gd_var_has_grad(var) && gd_link_expect_products(link, var)) return NULL;
    int64_t n = 0;
    for (int i = 0; i < gd_var_count(var); i++) n += gd_numel(gd_var_params(var)[i]);
    return gd_error(ctx) ? NULL : gd_linop_function(ctx, n, multiply, p, NULL);
}
