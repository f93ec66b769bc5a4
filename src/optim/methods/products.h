/* Hessian-vector products of a var as the product of a Krylov method. */
#ifndef GD_LINKS_PRODUCTS_H
#define GD_LINKS_PRODUCTS_H

#include "gradus/link.h"

typedef struct gd_products {
    gd_link *link;
    gd_var *var;
    gd_hvp_method method;
    double h;
} gd_products;

#define GD_HVP_CHOICE(fallback, choices) \
    GD_CHOICE("hvp_method", fallback, choices, "products by autograd or by differences of gradients")

/* From the settings hvp_method and h of a link. */
gd_products gd__products_of(gd_link *link, gd_var *var);
/* Before the gradient is asked for otherwise: products by autograd need it with its history, and so it is evaluated once.
 * A failure is recorded in the context. */
void gd__products_prepare(const gd_products *p);
/* H x for vectors of all parameters; user is a gd_products.  New. */
gd_tensor *gd__products_apply(void *user, gd_tensor *x);

#endif
