/* Hessian-vector products for Krylov methods. */
#include "optim/methods/products.h"

#include "optim/vector/vectors.h"
#include "optim/step/optimizer.h"

gd_products gd__products_of(gd_link *link, gd_var *var)
{
    bool forward = gd_link_is(link, "hvp_method", "forward") || gd_link_is(link, "hvp_method", "fd_forward");
    bool central = gd_link_is(link, "hvp_method", "central") || gd_link_is(link, "hvp_method", "fd_central");
    return (gd_products){.link = link,
                         .var = var,
                         .method = forward   ? GD_HVP_FORWARD
                                   : central ? GD_HVP_CENTRAL
                                             : GD_HVP_AUTOGRAD,
                         .h = gd_link_real(link, "h", NULL)};
}

static bool evaluates(const gd_link *link)
{
    if (link && gd_link_class_of(link)->needs_closure) return true;
    for (int i = 0; link && i < gd_link_children(link); i++)
        if (evaluates(gd_link_child_at(link, i))) return true;
    return false;
}

void gd__products_prepare(const gd_products *p)
{
    /* inner links that move the parameters, even there and back, would leave the history of another point behind */
    if (evaluates(gd_link_child(p->link, "inner"))) return;
    if (p->method != GD_HVP_AUTOGRAD || !gd_var_has_closure(p->var) || gd_var_has_grad(p->var)) return;
    if (!gd__var_gives_products(p->var)) (void)gd_var_grad_graph(p->var);
}

gd_tensor *gd__products_apply(void *user, gd_tensor *x)
{
    gd_products *p = user;
    int count = gd_var_count(p->var);
    gd_ctx *ctx = gd_var_ctx(p->var);
    gd_tensor **v = gd_link_scratch(p->link, count), **hv = gd_link_scratch(p->link, count), *out = NULL;
    if (!v || !hv) return NULL;
    gd_scope_begin(ctx);
    if (gd__vector_split(x, gd_var_params(p->var), count, v) == GD_OK &&
        gd_var_hvp(p->var, p->method, p->h, true, v, hv) == GD_OK) {
        out = gd__vector_of(ctx, hv, count);
        if (out && count == 1) out = gd_copy(out); /* not a view of what is released here */
        gd_keep(out);
        for (int i = 0; i < count; i++) gd_release(hv[i]);
    }
    gd_scope_end(ctx);
    return out;
}
