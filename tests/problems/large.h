/* Unconstrained problems of a hundred to a thousand numbers, from the collections that cute.h names and from
 *
 *   J. J. Moré, B. S. Garbow, K. E. Hillstrom, Testing unconstrained optimization software, ACM TOMS 7, 1981 (problems 21 to 30).
 *
 * Expressions in x and in k = 1, 2, ..., n; so are the starts, in k alone.  Minima are 0 for sums of squares that reach it, or
 * follow from the formula beside them; where there is none they are those of two methods of SciPy run to the end (L-BFGS-B and
 * Newton-CG), which agree in all digits given. */
#ifndef GD_PROBLEMS_LARGE_H
#define GD_PROBLEMS_LARGE_H

typedef struct large_problem {
    const char *name;
    int n;
    const char *expression, *start;
    double minimum;
} large_problem;

#define ROSENBROCK          "sum(100*(x[1::2]-x[0::2]^2)^2 + (1-x[0::2])^2)"
#define BY_TWO(a, b)        "where(k%2==1, " a ", " b ")"
#define BY_FOUR(a, b, c, d) "where(k%4==1, " a ", where(k%4==2, " b ", where(k%4==3, " c ", " d ")))"
#define SINGULAR \
    "a=x[0::4]; b=x[1::4]; c=x[2::4]; d=x[3::4]; sum((a+10*b)^2 + 5*(c-d)^2 + (b-2*c)^4 + 10*(a-d)^4)"
#define WOODS                                                                                             \
    "a=x[0::4]; b=x[1::4]; c=x[2::4]; d=x[3::4]; sum(100*(b-a^2)^2 + (1-a)^2 + 90*(d-c^2)^2 + (1-c)^2 + " \
    "10*(b+d-2)^2 + 0.1*(b-d)^2)"
#define TRIDIAGONAL "r=(3-2*x)*x+1; sum((r[1:-1]-x[:-2]-2*x[2:])^2) + (r[0]-2*x[1])^2 + (r[-1]-x[-2])^2"
#define PENALTY     "1e-5*sum((x-1)^2) + (sum(x^2)-0.25)^2"
#define ENGVAL      "sum((x[:-1]^2+x[1:]^2)^2 - 4*x[:-1] + 3)"

static const large_problem large_problems[] = {
    {"extended Rosenbrock, 100", 100, ROSENBROCK, BY_TWO("-1.2", "1"), 0},
    {"extended Rosenbrock, 1000", 1000, ROSENBROCK, BY_TWO("-1.2", "1"), 0},
    {"extended Powell singular, 100", 100, SINGULAR, BY_FOUR("3", "-1", "0", "1"), 0},
    {"extended Powell singular, 1000", 1000, SINGULAR, BY_FOUR("3", "-1", "0", "1"), 0},
    {"WOODS, 100", 100, WOODS, BY_TWO("-3", "-1"), 0},
    {"WOODS, 1000", 1000, WOODS, BY_TWO("-3", "-1"), 0},
    {"Broyden tridiagonal, 100", 100, TRIDIAGONAL, "0*k-1", 0},
    {"Broyden tridiagonal, 1000", 1000, TRIDIAGONAL, "0*k-1", 0},
    /* all x_i are the t with 1e-5 (t-1) + 2 t (n t^2 - 1/4) = 0 */
    {"penalty I, 100", 100, PENALTY, "k", 9.0249097680e-4},
    {"penalty I, 1000", 1000, PENALTY, "k", 9.6861754324e-3},
    {"variably dimensioned, 100", 100, "s=sum(k*(x-1)); sum((x-1)^2) + s^2 + s^4", "1-k/100", 0},
    {"TRIDIA, 100", 100, "(x[0]-1)^2 + sum(k[1:]*(2*x[1:]-x[:-1])^2)", "0*k+1", 0},
    {"TRIDIA, 1000", 1000, "(x[0]-1)^2 + sum(k[1:]*(2*x[1:]-x[:-1])^2)", "0*k+1", 0},
    {"DIXON3DQ, 100", 100, "(x[0]-1)^2 + sum((x[1:-1]-x[2:])^2) + (x[-1]-1)^2", "0*k-1", 0},
    {"DQDRTIC, 1000", 1000, "sum(x[:-2]^2 + 100*x[1:-1]^2 + 100*x[2:]^2)", "0*k+3", 0},
    {"ENGVAL1, 100", 100, ENGVAL, "0*k+2", 109.088136143},
    {"ENGVAL1, 1000", 1000, ENGVAL, "0*k+2", 1108.194718785},
    {"ARWHEAD, 1000", 1000, "sum((x[:-1]^2+x[-1]^2)^2 - 4*x[:-1] + 3)", "0*k+1", 0},
    {"LIARWHD, 1000", 1000, "sum(4*(x^2-x[0])^2 + (x-1)^2)", "0*k+4", 0},
    {"POWER, 100", 100, "sum((k*x)^2)", "0*k+1", 0},
    {"QUARTC, 100", 100, "sum((x-k)^4)", "0*k+2", 0},
    {"COSINE, 1000", 1000, "sum(cos(x[:-1]^2-0.5*x[1:]))", "0*k+1", -999}, /* all terms -1 */
    {"EDENSCH, 1000", 1000, "16 + sum((x[:-1]-2)^4 + (x[:-1]*x[1:]-2*x[1:])^2 + (x[1:]+1)^2)", "0*k",
     6003.284592021},
    {"BDQRTIC, 100", 100, "sum((3-4*x[:-4])^2 + (x[:-4]^2+2*x[1:-3]^2+3*x[2:-2]^2+4*x[3:-1]^2+5*x[-1]^2)^2)",
     "0*k+1", 378.769191809},
    {"GENROSE, 100", 100, "1 + sum(100*(x[1:]-x[:-1]^2)^2 + (x[1:]-1)^2)", "k/101", 1},
    {"TQUARTIC, 100", 100, "(x[0]-1)^2 + sum((x[0]^2-x[1:]^2)^2)", "0*k+0.1", 0},
    {"NONDQUAR, 100", 100, "(x[0]-x[1])^2 + sum((x[:-2]+x[1:-1]+x[-1])^4) + (x[-2]+x[-1])^2",
     BY_TWO("1", "-1"), 0},
    {"FLETCHCR, 100", 100, "100*sum((x[1:]-x[:-1]+1-x[:-1]^2)^2)", "0*k", 0},
    {"DIXMAANA, 300", 300, "1 + sum(x^2) + 0.125*sum(x[:200]^2*x[100:]^4) + 0.125*sum(x[:100]*x[200:])",
     "0*k+2", 1},
    {"DIXMAANE, 300", 300,
     "1 + sum(k/300*x^2) + 0.125*sum(x[:200]^2*x[100:]^4) + 0.125*sum(k[:100]/300*x[:100]*x[200:])", "0*k+2",
     1},
    {"DIXMAANI, 300", 300,
     "1 + sum((k/300)^2*x^2) + 0.125*sum(x[:200]^2*x[100:]^4) + 0.125*sum((k[:100]/300)^2*x[:100]*x[200:])",
     "0*k+2", 1},
    {"Raydan 1, 100", 100, "sum(k/10*(exp(x)-x))", "0*k+1", 505},          /* x = 0 */
    {"Hager, 100", 100, "sum(exp(x)-sqrt(k)*x)", "0*k+1", -653.078672733}, /* exp(x_i) = sqrt(i) */
    {"diagonal 4, 1000", 1000, "sum(x[0::2]^2 + 100*x[1::2]^2)/2", "0*k+1", 0},
    {"extended White and Holst, 100", 100, "sum(100*(x[1::2]-x[0::2]^3)^2 + (1-x[0::2])^2)",
     BY_TWO("-1.2", "1"), 0},
    {"extended Beale, 100", 100,
     "a=x[0::2]; b=x[1::2]; sum((1.5-a*(1-b))^2 + (2.25-a*(1-b^2))^2 + (2.625-a*(1-b^3))^2)",
     BY_TWO("1", "0.8"), 0},
    {"extended Himmelblau, 100", 100, "a=x[0::2]; b=x[1::2]; sum((a^2+b-11)^2 + (a+b^2-7)^2)", "0*k+1", 0},
    {"extended PSC1, 100", 100, "a=x[0::2]; b=x[1::2]; sum((a^2+b^2+a*b)^2 + sin(a)^2 + cos(b)^2)",
     BY_TWO("3", "0.1"), 38.659952825},
};

#undef ROSENBROCK
#undef BY_TWO
#undef BY_FOUR
#undef SINGULAR
#undef WOODS
#undef TRIDIAGONAL
#undef PENALTY
#undef ENGVAL
#define LARGE_COUNT ((int)(sizeof large_problems / sizeof *large_problems))

#endif
