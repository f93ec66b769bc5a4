/* P'AP = L D L' of a symmetric indefinite matrix, with the signs of its eigenvalues (Bunch & Kaufman 1977). */
#ifndef GD_OPTIM_METHODS_NLP_LDL_H
#define GD_OPTIM_METHODS_NLP_LDL_H

#include <stdint.h>

/* A matrix, then its factors in its place. */
typedef struct gd_ldl {
    int64_t n;
    double *a; /* [n, n], column j at a + j n, of which rows j and below count; work: and all are written */
    int64_t *pivot;                   /* [n] */
    double *work;                     /* [2 n], for large matrices; NULL: column by column */
    int64_t positive, negative, zero; /* eigenvalues */
} gd_ldl;

/* Factors in place.  A column of zeros is a pivot of zero: then the factors cannot be used to solve. */
void gd__ldl_factor(gd_ldl *f);
/* b becomes the solution. */
void gd__ldl_solve(const gd_ldl *f, double *b);

#endif
