/* Conjugate gradients and minimal residuals for A x = b, stopped at the edge of a ball (Steihaug 1983).
 *
 * Both build x step by step with growing norm.  Products with A are kept, so that the point where the path leaves a
 * smaller ball is found by going along it again without a new product:
 *
 *     gd_krylov k = {.product = f, .user = u, .tolerance = 1e-8, .most = n, .kept_most = 100};
 *     gd__krylov_begin(&k, b);
 *     gd__krylov_at(&k, radius, &x, &ax);         then with smaller radii as often as needed
 *     gd__krylov_end(&k); */
#ifndef GD_LINKS_KRYLOV_H
#define GD_LINKS_KRYLOV_H

#include "gradus/link.h"

typedef struct gd_krylov {
    gd_tensor *(*product)(void *user, gd_tensor *x); /* A x, new; NULL on failure */
    void *user;
    gd_tensor *start;      /* x_0 for an unbounded run; NULL: 0 */
    double tolerance;      /* norm of the residual at which it is enough */
    double shift;          /* added to the diagonal of A */
    int64_t least, most;   /* steps */
    int64_t kept_most;     /* products to keep */
    bool minres;           /* minimal residuals instead of conjugate gradients */
    bool stop_at_negative; /* at negative curvature stay there, instead of following it to the edge */

    /* how the last run went */
    int64_t steps;
    bool negative;     /* a direction without positive curvature was met */
    gd_tensor *before; /* an unbounded run: x when that happened first, NULL if x was still 0; owned */

    /* inside */
    gd_tensor *b, **kept;
    int64_t keeps;
} gd_krylov;

GD_NODISCARD gd_status gd__krylov_begin(gd_krylov *k, gd_tensor *b);
/* The point of the path inside the ball (radius INFINITY: its end), and its product with A (shift included).  New. */
GD_NODISCARD gd_status gd__krylov_at(gd_krylov *k, double radius, gd_tensor **x, gd_tensor **ax);
void gd__krylov_end(gd_krylov *k);

#endif
