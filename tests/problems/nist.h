/* The NIST Statistical Reference Datasets for nonlinear regression: the 27 models with gradus operators, and a reader of
 * their files. */
#ifndef GD_PROBLEMS_NIST_H
#define GD_PROBLEMS_NIST_H

#include "gradus/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NIST_MODELS 27
#define NIST_PARAMS 9

typedef struct nist_model {
    const char *name;
    /* The model at b[0..] (numbers as tensors) and x (vectors; x[1] only for Nelson). */
    gd_tensor *(*value)(gd_tensor *const *b, gd_tensor *const *x);
} nist_model;

/* What a file holds.  y is already what the model predicts (its logarithm for Nelson). */
typedef struct nist_data {
    int params, rows;
    double start[2][NIST_PARAMS], certified[NIST_PARAMS], deviation[NIST_PARAMS];
    double y[512], x[2][512];
} nist_data;

#define PI 3.14159265358979323846

/* Short names, so that a model reads like its formula. */
#define B(i)      (b[(i)-1])
#define X         (x[0])
#define ADD(p, q) gd_add(p, q)
#define SUB(p, q) gd_sub(p, q)
#define MUL(p, q) gd_mul(p, q)
#define DIV(p, q) gd_div(p, q)
#define EXP(p)    gd_exp(p)
#define NEG(p)    gd_neg(p)
#define SQ(p)     gd_square(p)

/* p * exp(-q x) */
static gd_tensor *decay(gd_tensor *p, gd_tensor *q, gd_tensor *x) { return MUL(p, EXP(NEG(MUL(q, x)))); }

/* p exp(-(x - q)^2 / s^2) */
static gd_tensor *bell(gd_tensor *p, gd_tensor *q, gd_tensor *s, gd_tensor *x)
{
    return MUL(p, EXP(NEG(DIV(SQ(SUB(x, q)), SQ(s)))));
}

/* c0 + c1 x + ... */
static gd_tensor *polynomial(gd_tensor *const *c, int count, gd_tensor *x)
{
    gd_tensor *sum = c[count - 1];
    for (int i = count - 2; i >= 0; i--) sum = ADD(c[i], MUL(x, sum));
    return sum;
}

static gd_tensor *bennett5(gd_tensor *const *b, gd_tensor *const *x)
{
    return MUL(B(1), gd_pow(ADD(B(2), X), NEG(gd_reciprocal(B(3)))));
}
static gd_tensor *boxbod(gd_tensor *const *b, gd_tensor *const *x) { return SUB(B(1), decay(B(1), B(2), X)); }
static gd_tensor *chwirut(gd_tensor *const *b, gd_tensor *const *x)
{
    return DIV(EXP(NEG(MUL(B(1), X))), ADD(B(2), MUL(B(3), X)));
}
static gd_tensor *danwood(gd_tensor *const *b, gd_tensor *const *x) { return MUL(B(1), gd_pow(X, B(2))); }
static gd_tensor *wave(gd_tensor *c, gd_tensor *s, gd_tensor *angle)
{
    return ADD(MUL(c, gd_cos(angle)), MUL(s, gd_sin(angle)));
}
static gd_tensor *enso(gd_tensor *const *b, gd_tensor *const *x)
{
    gd_tensor *turn = gd_mul_scalar(X, 2 * PI);
    gd_tensor *year = wave(B(2), B(3), gd_mul_scalar(turn, 1.0 / 12));
    return ADD(ADD(B(1), year), ADD(wave(B(5), B(6), DIV(turn, B(4))), wave(B(8), B(9), DIV(turn, B(7)))));
}
static gd_tensor *eckerle4(gd_tensor *const *b, gd_tensor *const *x)
{
    return MUL(DIV(B(1), B(2)), EXP(gd_mul_scalar(SQ(DIV(SUB(X, B(3)), B(2))), -0.5)));
}
static gd_tensor *gauss(gd_tensor *const *b, gd_tensor *const *x)
{
    return ADD(decay(B(1), B(2), X), ADD(bell(B(3), B(4), B(5), X), bell(B(6), B(7), B(8), X)));
}
static gd_tensor *cubic_ratio(gd_tensor *const *b, gd_tensor *const *x)
{
    return DIV(polynomial(b, 4, X), gd_add_scalar(MUL(X, polynomial(b + 4, 3, X)), 1));
}
static gd_tensor *kirby2(gd_tensor *const *b, gd_tensor *const *x)
{
    return DIV(polynomial(b, 3, X), gd_add_scalar(MUL(X, polynomial(b + 3, 2, X)), 1));
}
static gd_tensor *lanczos(gd_tensor *const *b, gd_tensor *const *x)
{
    return ADD(decay(B(1), B(2), X), ADD(decay(B(3), B(4), X), decay(B(5), B(6), X)));
}
static gd_tensor *mgh09(gd_tensor *const *b, gd_tensor *const *x)
{
    gd_tensor *square = SQ(X);
    return DIV(MUL(B(1), ADD(square, MUL(X, B(2)))), ADD(ADD(square, MUL(X, B(3))), B(4)));
}
static gd_tensor *mgh10(gd_tensor *const *b, gd_tensor *const *x)
{
    return MUL(B(1), EXP(DIV(B(2), ADD(X, B(3)))));
}
static gd_tensor *mgh17(gd_tensor *const *b, gd_tensor *const *x)
{
    return ADD(B(1), ADD(decay(B(2), B(4), X), decay(B(3), B(5), X)));
}
static gd_tensor *misra1b(gd_tensor *const *b, gd_tensor *const *x)
{
    gd_tensor *base = gd_add_scalar(gd_mul_scalar(MUL(B(2), X), 0.5), 1);
    return MUL(B(1), gd_add_scalar(NEG(gd_reciprocal(SQ(base))), 1));
}
static gd_tensor *misra1c(gd_tensor *const *b, gd_tensor *const *x)
{
    gd_tensor *base = gd_add_scalar(gd_mul_scalar(MUL(B(2), X), 2), 1);
    return MUL(B(1), gd_add_scalar(NEG(gd_rsqrt(base)), 1));
}
static gd_tensor *misra1d(gd_tensor *const *b, gd_tensor *const *x)
{
    gd_tensor *product = MUL(B(2), X);
    return DIV(MUL(B(1), product), gd_add_scalar(product, 1));
}
static gd_tensor *nelson(gd_tensor *const *b, gd_tensor *const *x)
{
    return SUB(B(1), MUL(x[0], decay(B(2), B(3), x[1])));
}
static gd_tensor *rat42(gd_tensor *const *b, gd_tensor *const *x)
{
    return DIV(B(1), gd_add_scalar(EXP(SUB(B(2), MUL(B(3), X))), 1));
}
static gd_tensor *rat43(gd_tensor *const *b, gd_tensor *const *x)
{
    return DIV(B(1), gd_pow(gd_add_scalar(EXP(SUB(B(2), MUL(B(3), X))), 1), gd_reciprocal(B(4))));
}
static gd_tensor *roszman1(gd_tensor *const *b, gd_tensor *const *x)
{
    gd_tensor *angle = gd_mul_scalar(gd_atan2(B(3), SUB(X, B(4))), 1 / PI);
    return SUB(SUB(B(1), MUL(B(2), X)), angle);
}

static const nist_model nist_models[NIST_MODELS] = {
    {"Bennett5", bennett5}, {"BoxBOD", boxbod},     {"Chwirut1", chwirut},    {"Chwirut2", chwirut},
    {"DanWood", danwood},   {"ENSO", enso},         {"Eckerle4", eckerle4},   {"Gauss1", gauss},
    {"Gauss2", gauss},      {"Gauss3", gauss},      {"Hahn1", cubic_ratio},   {"Kirby2", kirby2},
    {"Lanczos1", lanczos},  {"Lanczos2", lanczos},  {"Lanczos3", lanczos},    {"MGH09", mgh09},
    {"MGH10", mgh10},       {"MGH17", mgh17},       {"Misra1a", boxbod},      {"Misra1b", misra1b},
    {"Misra1c", misra1c},   {"Misra1d", misra1d},   {"Nelson", nelson},       {"Rat42", rat42},
    {"Rat43", rat43},       {"Roszman1", roszman1}, {"Thurber", cubic_ratio},
};

#undef B
#undef X
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef EXP
#undef NEG
#undef SQ

/* ---- files ---- */

/* "  b1 =   500   250   2.3894E+02  2.7070E+00": starts, certified value, its standard deviation. */
static void read_parameter(const char *line, nist_data *out)
{
    int k;
    double v[4];
    if (sscanf(line, " b%d = %lf %lf %lf %lf", &k, &v[0], &v[1], &v[2], &v[3]) != 5 || k < 1 ||
        k > NIST_PARAMS)
        return;
    out->start[0][k - 1] = v[0];
    out->start[1][k - 1] = v[1];
    out->certified[k - 1] = v[2];
    out->deviation[k - 1] = v[3];
    if (k > out->params) out->params = k;
}

static void read_row(const char *line, bool nelson_data, nist_data *out)
{
    double y, x0, x1 = 0;
    int got = sscanf(line, "%lf %lf %lf", &y, &x0, &x1);
    if (got < (nelson_data ? 3 : 2) || out->rows == 512) return;
    out->y[out->rows] = nelson_data ? log(y) : y;
    out->x[0][out->rows] = x0;
    out->x[1][out->rows++] = x1;
}

/* False when the file is not there or not as expected. */
static bool nist_read(const char *folder, const char *name, nist_data *out)
{
    char path[1024], line[256];
    snprintf(path, sizeof path, "%s/%s.dat", folder, name);
    FILE *f = fopen(path, "r");
    memset(out, 0, sizeof *out);
    if (!f) return false;
    bool rows = false, nelson_data = !strcmp(name, "Nelson");
    while (fgets(line, sizeof line, f)) {
        /* the last line that begins so is the one above the numbers */
        if (!strncmp(line, "Data:", 5))
            rows = true, out->rows = 0;
        else if (strchr(line, '='))
            read_parameter(line, out);
        else if (rows)
            read_row(line, nelson_data, out);
    }
    fclose(f);
    return out->params > 0 && out->rows > out->params;
}

/* -log10 of the largest relative error, 0 .. 11. */
static double nist_digits(const double *got, const double *want, int count)
{
    double worst = 0;
    for (int i = 0; i < count; i++) {
        double error = want[i] != 0 ? fabs(got[i] - want[i]) / fabs(want[i]) : fabs(got[i]);
        if (!(error <= worst)) worst = error;
    }
    if (!(worst < 1)) return 0;
    return worst == 0 ? 11 : fmin(11, -log10(worst));
}

#endif
