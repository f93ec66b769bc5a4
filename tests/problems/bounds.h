/* Thirty problems with bounds: Hock & Schittkowski 1981, CUTEst, MINPACK-2; formulas in the expression language of the program.
 *
 * Minima: several starts of two other programs, then Newton's method over the free variables; the published ones agree in all
 * their digits (HIMMELP1 in 8).  `evals`: evaluations that L-BFGS-B (SciPy, m = 10) needs from the same start to come within the
 * target of one of the minima listed. */
#ifndef GD_PROBLEMS_BOUNDS_H
#define GD_PROBLEMS_BOUNDS_H

#include "base/text/number.h"
#include "gradus/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOUND_MOST 900
#define BOUND_DATA 7 /* names of an expression besides x */

typedef struct bound_point {
    double x[BOUND_MOST], low[BOUND_MOST], high[BOUND_MOST];
} bound_point;

/* Constants of an expression: k = 1..n, or what `data` makes. */
typedef struct bound_data {
    const char *name[BOUND_DATA];
    gd_tensor *value[BOUND_DATA];
    int count;
} bound_data;

/* start, low, high: numbers, "3*0.5, 2": three of the first and one of the second; the last goes on to the end. */
typedef struct bound_problem {
    const char *name;
    int n;
    const char *start, *low, *high, *expression;
    double minimum[4]; /* NAN ends the list */
    int evals;
    int rows; /* x is [rows, n / rows]; 0: [n] */
    void (*fill)(bound_point *p);
    void (*data)(gd_ctx *ctx, bound_data *d);
} bound_problem;

#define NONE -INFINITY

/* In every locale. */
static inline double number_at(const char *text, char **end)
{
    double value = NAN;
    size_t used;
    text += strspn(text, " ");
    used = gd__parse_number(text, strlen(text), true, &value);
    *end = (char *)(uintptr_t)(text + used);
    return value;
}

static inline void bound_fill(const char *text, double none, int n, double *out)
{
    double value = none;
    int i = 0;
    while (text && *text && i < n) {
        char *end;
        value = number_at(text, &end);
        int times = 1;
        if (*end == '*') {
            times = (int)value;
            value = number_at(end + 1, &end);
        }
        for (; times > 0 && i < n; times--) out[i++] = value;
        text = *end == ',' ? end + 1 : end;
    }
    while (i < n) out[i++] = value;
}

/* ---- data ---- */

static inline void add_data(bound_data *d, const char *name, gd_tensor *value)
{
    d->name[d->count] = name;
    d->value[d->count++] = value;
}

static inline gd_tensor *count_to(gd_ctx *ctx, int64_t n)
{
    double k[120];
    for (int64_t i = 0; i < n; i++) k[i] = (double)i + 1;
    return gd_from_f64(ctx, GD_F64, 1, &n, k);
}

static void data_k120(gd_ctx *ctx, bound_data *d) { add_data(d, "k", count_to(ctx, 120)); }

static void data_weeds(gd_ctx *ctx, bound_data *d)
{
    static const double y[] = {5.308,  7.240,  9.638,  12.866, 17.069, 23.192,
                               31.443, 38.558, 50.156, 62.948, 75.995, 91.972};
    add_data(d, "t", count_to(ctx, 12));
    add_data(d, "y", gd_from_f64(ctx, GD_F64, 1, (int64_t[]){12}, y));
}

static void data_cvxbqp(gd_ctx *ctx, bound_data *d)
{
    static double a[100 * 100];
    for (int i = 0; i < 100 * 100; i++) a[i] = 0;
    for (int i = 1; i <= 100; i++) {
        a[(i - 1) * 100 + i - 1] += 1;
        a[(i - 1) * 100 + (2 * i - 1) % 100] += 1;
        a[(i - 1) * 100 + (3 * i - 1) % 100] += 1;
    }
    add_data(d, "k", count_to(ctx, 100));
    add_data(d, "A", gd_from_f64(ctx, GD_F64, 2, (int64_t[]){100, 100}, a));
}

/* ---- points ---- */

static void fill_nonscomp(bound_point *p)
{
    for (int i = 1; i < 100; i += 2) p->low[i] = 1;
}

static void fill_harkerp(bound_point *p)
{
    for (int i = 0; i < 100; i++) p->x[i] = i + 1;
}

static void fill_torsion(bound_point *p)
{
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 20; j++) {
            int near = (int)fmin(fmin(i + 1, 20 - i), fmin(j + 1, 20 - j)), at = i * 20 + j;
            p->x[at] = p->high[at] = near / 21.0;
            p->low[at] = -near / 21.0;
        }
}

static void fill_obstacle(bound_point *p)
{
    for (int i = 0; i < 30; i++)
        for (int j = 0; j < 30; j++)
            p->x[i * 30 + j] = p->low[i * 30 + j] = sin(3.2 * (i + 1) / 31.0) * sin(3.3 * (j + 1) / 31.0);
}

/* A journal bearing: theta along rows, y along columns; linear elements. */
#define BEARING_H (2 * 3.14159265358979323846 / 31)
#define BEARING_K (20.0 / 31)

static double bearing_w(int i)
{
    double t = 1 + 0.1 * cos(i * BEARING_H);
    return t * t * t;
}
static double bearing_lam(int i) { return (2 * bearing_w(i) + bearing_w(i + 1)) / 6; }
static double bearing_mu(int i) { return (2 * bearing_w(i) + bearing_w(i - 1)) / 6; }
static double bearing_down(int i)
{
    return (bearing_lam(i) + bearing_mu(i + 1)) * BEARING_K / (2 * BEARING_H);
}
static double bearing_along(int i) { return (bearing_lam(i) + bearing_mu(i)) * BEARING_H / (2 * BEARING_K); }

static void fill_bearing(bound_point *p)
{
    for (int i = 0; i < 900; i++) p->x[i] = sin((i / 30 + 1) * BEARING_H);
}

static void data_bearing(gd_ctx *ctx, bound_data *d)
{
    double w[29], v[30], q[30], a = bearing_down(0), b = bearing_down(30);
    for (int i = 1; i < 30; i++) w[i - 1] = bearing_down(i);
    for (int i = 1; i <= 30; i++) {
        v[i - 1] = bearing_along(i);
        q[i - 1] = -0.1 * BEARING_H * BEARING_K * sin(i * BEARING_H);
    }
    add_data(d, "W", gd_from_f64(ctx, GD_F64, 2, (int64_t[]){29, 1}, w));
    add_data(d, "V", gd_from_f64(ctx, GD_F64, 2, (int64_t[]){30, 1}, v));
    add_data(d, "a", gd_scalar(ctx, GD_F64, a));
    add_data(d, "b", gd_scalar(ctx, GD_F64, b));
    add_data(d, "l", gd_from_f64(ctx, GD_F64, 1, (int64_t[]){30}, v));
    add_data(d, "r", gd_from_f64(ctx, GD_F64, 1, (int64_t[]){30}, v));
    add_data(d, "q", gd_from_f64(ctx, GD_F64, 2, (int64_t[]){30, 1}, q));
}

/* ---- the problems ---- */

#define ROSENBROCK "100*(x[1]-x[0]^2)^2+(1-x[0])^2"
#define HATFLD     "(x[0]-1)^2+sum((x[:-1]-sqrt(x[1:]))^2)"
#define MEMBRANE                                                                                              \
    "0.5*(sum((x[1:,:]-x[:-1,:])^2)+sum((x[:,1:]-x[:,:-1])^2))+0.25*(sum(x[0,:]^2)+sum(x[-1,:]^2)+sum(x[:,0]" \
    "^2)+sum(x[:,-1]^2))"

static const bound_problem bound_problems[] = {
    {"HS1", 2, "-2,1", "-inf,-1.5", NULL, ROSENBROCK, {0, NAN}, .evals = 46},
    {"HS2", 2, "-2,1", "-inf,1.5", NULL, ROSENBROCK, {0.0504261878936, 4.941229318, NAN}, .evals = 15},
    {"HS3", 2, "10,1", "-inf,0", NULL, "x[1]+1e-5*(x[1]-x[0])^2", {0, NAN}, .evals = 4},
    {"HS4", 2, "1.125,0.125", "1,0", NULL, "(x[0]+1)^3/3+x[1]", {8.0 / 3, NAN}, .evals = 2},
    {"HS5",
     2,
     "0",
     "-1.5,-3",
     "4,3",
     "sin(x[0]+x[1])+(x[0]-x[1])^2-1.5*x[0]+2.5*x[1]+1",
     {-1.91322295498, 1.2283697, NAN},
     .evals = 6},
    {"HS38",
     4,
     "-3,-1,-3,-1",
     "-10",
     "10",
     "100*(x[1]-x[0]^2)^2+(1-x[0])^2+90*(x[3]-x[2]^2)^2+(1-x[2])^2+10.1*((x[1]-1)^2+(x[3]-1)^2)+19.8*(x[1]-1)*"
     "(x[3]-1)",
     {0, NAN},
     .evals = 30},
    {"HS45", 5, "2", "0", "1,2,3,4,5", "2-prod(x)/120", {1, NAN}, .evals = 10},
    {"HS110",
     10,
     "9",
     "2.001",
     "9.999",
     "sum(log(x-2)^2+log(10-x)^2)-prod(x)^0.2",
     {-45.7784697074, NAN},
     .evals = 5},
    {"HATFLDA", 4, "0.1", "1e-7", NULL, HATFLD, {0, NAN}, .evals = 39},
    {"HATFLDB", 4, "0.1", "1e-7", "inf,0.8,inf", HATFLD, {0.00557280900008, NAN}, .evals = 29},
    {"HATFLDC",
     25,
     "0.9",
     "24*0,-inf",
     "24*10,inf",
     "(x[0]-1)^2+sum((x[2:]-x[1:-1]^2)^2)+(x[24]-1)^2",
     {0, NAN},
     .evals = 19},
    {"HIMMELP1",
     2,
     "95,10",
     "0",
     "95,75",
     "u=x[0]; v=x[1]; A=0.0302344793*u-0.0012813448*u^2+0.352599e-4*u^3-0.2266e-6*u^4; "
     "B=0.0003405462*u-0.52375e-5*u^2-0.63e-8*u^3; C=0.1269366345*u^2-0.0020567665*u^3+0.103450e-4*u^4; "
     "F=0.2564581253*v^2-0.003460403*v^3+0.135139e-4*v^4; G=0.7e-9*u^3-0.16638e-5*u; "
     "3.8112755343*u+6.8306567613*v-75.1963666677-(C+v*A+F-28.1064434908/(1+v)+B*v^2+G*v^3-2.8673112392*exp(0."
     "0005*u*v))",
     {-62.0538693754, -51.7378463, -23.8974078, 81.1773412},
     .evals = 11},
    {"LOGROS", 2, "-1.2,1", "0", NULL, "log(1+10000*(x[1]-x[0]^2)^2+(1-x[0])^2)", {0, NAN}, .evals = 114},
    {"MCCORMCK",
     50,
     "0",
     "-1.5",
     "3",
     "u=x[:-1]; v=x[1:]; sum((v-u)^2+sin(u+v)-1.5*u+2.5*v+1)",
     {-46.1269256442, NAN},
     .evals = 8},
    {"NONSCOMP",
     100,
     "3",
     "-100",
     "100",
     "(x[0]-1)^2+4*sum((x[1:]-x[:-1]^2)^2)",
     {0, NAN},
     29,
     .fill = fill_nonscomp},
    {"PSPDOC",
     4,
     "3",
     NULL,
     "-1,inf",
     "sqrt(1+x[0]^2+(x[1]-x[2])^2)+sqrt(1+x[1]^2+(x[2]-x[3])^2)",
     {2.41421356237, NAN},
     .evals = 10},
    {"EXPLIN",
     120,
     "0",
     "0",
     "10",
     "sum(exp(0.1*x[:10]*x[1:11]))-10*dot(k,x)",
     {-723756.265493, -723639.539, -723521.777, NAN},
     31,
     .data = data_k120},
    {"EXPQUAD",
     120,
     "0",
     "10*0,-inf",
     "10*10,inf",
     "sum(exp(0.01*k[:10]*x[:10]*x[1:11]))+sum(4*x[10:119]^2+2*x[119]^2+x[10:119]*x[119])-10*dot(k,x)",
     {-3625962.13686, NAN},
     31,
     .data = data_k120},
    {"MDHOLE", 2, "10,1", "0,-inf", NULL, "100*(sin(x[0])-x[1])^2+x[0]", {0, NAN}, .evals = 91},
    {"CHEBYQAD",
     8,
     "0.1111111111,0.2222222222,0.3333333333,0.4444444444,0.5555555556,0.6666666667,0.7777777778,0.8888888889",
     "0",
     "1",
     "t=2*x-1; T2=2*t^2-1; T3=2*t*T2-t; T4=2*t*T3-T2; T5=2*t*T4-T3; T6=2*t*T5-T4; T7=2*t*T6-T5; T8=2*t*T7-T6; "
     "mean(t)^2+(mean(T2)+1/3)^2+mean(T3)^2+(mean(T4)+1/15)^2+mean(T5)^2+(mean(T6)+1/35)^2+mean(T7)^2+(mean(T8)+"
     "1/63)^2",
     {0.00351687372568, NAN},
     .evals = 25},
    {"TORSION1",
     400,
     NULL,
     NULL,
     NULL,
     MEMBRANE "-0.011337868480725622*sum(x)",
     {-0.456087712732, NAN},
     15,
     .rows = 20,
     .fill = fill_torsion},
    {"OBSTCLAL",
     900,
     NULL,
     NULL,
     NULL,
     MEMBRANE "-0.0010405827263267429*sum(x)",
     {1.74827003225, NAN},
     25,
     .rows = 30,
     .fill = fill_obstacle},
    {"JNLBRNG1",
     900,
     NULL,
     "0",
     NULL,
     "sum(W*(x[1:,:]-x[:-1,:])^2)+sum(V*(x[:,1:]-x[:,:-1])^2)+sum(a*x[0,:]^2)+sum(b*x[-1,:]^2)+sum(l*x[:,0]^2)+"
     "sum(r*x[:,-1]^2)+sum(q*x)",
     {-0.180301539767, NAN},
     69,
     .rows = 30,
     .fill = fill_bearing,
     .data = data_bearing},
    {"HARKERP2",
     100,
     NULL,
     "0",
     NULL,
     "s=cumsum(x); r=s[99]-s[:99]; s[99]^2-s[99]-0.5*sum(x^2)+2*sum(r^2)",
     {-0.5, NAN},
     22,
     .fill = fill_harkerp},
    {"OSLBQP",
     8,
     "0.5",
     "2.5,0,0,0,0.5,0",
     "inf,4.1,inf,inf,4,inf,inf,4.3",
     "x[0]+2*x[4]-x[7]+0.5*sum(x^2)",
     {6.25, NAN},
     .evals = 3},
    {"ALLINIT",
     4,
     "0",
     "-inf,1,-1e10,2",
     "inf,inf,1,2",
     "x[2]-1+x[0]^2+x[1]^2+(x[2]+x[3])^2+sin(x[2])^2+x[0]^2*x[1]^2+x[3]-3+sin(x[2])^2+(x[3]-1)^2+(x[1]^2)^2+(x[2]"
     "^2+(x[3]+x[0])^2)^2+(x[0]-4+sin(x[3])^2+x[1]^2*x[2]^2)^2+sin(x[3])^4",
     {16.7059684329, NAN},
     .evals = 13},
    {"EG1",
     3,
     "0",
     "-inf,-1,1",
     "inf,1,2",
     "x[0]^2+(x[1]*x[2])^4+x[1]*sin(x[0]+x[2])+x[0]*x[2]+x[1]",
     {-1.42930675358, -1.13280078, NAN},
     .evals = 8},
    {"WEEDS",
     3,
     "1",
     "0",
     "inf,inf,3",
     "sum((x[0]/(1+x[1]*exp(-x[2]*t))-y)^2)",
     {2.58727739528, NAN},
     56,
     .data = data_weeds},
    {"BIGGSB1",
     100,
     "0",
     "99*0,-inf",
     "99*0.9,inf",
     "(x[0]-1)^2+sum((x[1:]-x[:-1])^2)+(1-x[99])^2",
     {0.015, NAN},
     .evals = 109},
    {"CVXBQP1", 100, "0.5", "0.1", "10", "0.5*sum(k*(A@x)^2)", {227.25, NAN}, 2, .data = data_cvxbqp},
};
#define BOUND_COUNT (int)(sizeof bound_problems / sizeof *bound_problems)

#endif
