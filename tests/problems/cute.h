/* Unconstrained problems of the CUTE collection and of Andrei's, which are no sums of squares of MGH:
 *
 *   I. Bongartz, A. R. Conn, N. Gould, Ph. L. Toint, CUTE: constrained and unconstrained testing environment, ACM TOMS 21, 1995.
 *   N. Andrei, An unconstrained optimization test functions collection, Advanced Modeling and Optimization 10, 2008.
 *
 * Written in the expression language of the program, in one vector x.  Minima follow from the formula beside each: where
 * the gradient vanishes, or 0 for sums of squares that reach it; local ones are listed too. */
#ifndef GD_PROBLEMS_CUTE_H
#define GD_PROBLEMS_CUTE_H

#include <math.h>

typedef struct cute_problem {
    const char *name, *expression, *start; /* start: a value as for --param */
    double minimum[3];                     /* known minima; NAN ends the list */
} cute_problem;

#define ONLY(value)     \
    {                   \
        value, NAN, NAN \
    }
#define TEN(value) \
    "[" value "," value "," value "," value "," value "," value "," value "," value "," value "," value "]"
#define UP_TO_TEN "[1,2,3,4,5,6,7,8,9,10]"

static const cute_problem cute_problems[] = {
    {"CUBE, White and Holst", "(x[0]-1)^2 + 100*(x[1]-x[0]^3)^2", "[-1.2,1]", ONLY(0)},
    {"extended White and Holst, 10", "sum((x[0::2]-1)^2 + 100*(x[1::2]-x[0::2]^3)^2)",
     "[-1.2,1,-1.2,1,-1.2,1,-1.2,1,-1.2,1]", ONLY(0)},
    /* the second minimum of the chain: Shang and Qiu, Evolutionary Computation 14, 2006 */
    {"chained Rosenbrock, 10",
     "sum((x[:9]-1)^2 + 100*(x[1:]-x[:9]^2)^2)",
     "[-1.2,1,-1.2,1,-1.2,1,-1.2,1,-1.2,1]",
     {0, 3.98657911, NAN}},
    {"perturbed quadratic", "sum(" UP_TO_TEN "*x^2) + sum(x)^2/100", TEN("0.5"), ONLY(0)},
    {"Raydan 1", "sum(" UP_TO_TEN "/10*(exp(x)-x))", TEN("1"), ONLY(5.5)}, /* x = 0 */
    {"Raydan 2", "sum(exp(x)-x)", TEN("1"), ONLY(10)},
    /* exp(x_i) = i: sum of i - i log i */
    {"diagonal 1", "sum(exp(x)-" UP_TO_TEN "*x)", TEN("0.1"), ONLY(-47.08283055)},
    /* exp(x_i) = 1/i: sum of (1 + log i)/i */
    {"diagonal 2", "sum(exp(x)-x/" UP_TO_TEN ")",
     "[1,0.5,0.3333333,0.25,0.2,0.1666667,0.1428571,0.125,0.1111111,0.1]", ONLY(5.621145622)},
    {"diagonal 4", "sum(x[0::2]^2 + 100*x[1::2]^2)/2", TEN("1"), ONLY(0)},
    {"diagonal 5", "sum(log(exp(x)+exp(-x)))", TEN("1.1"), ONLY(6.931471806)}, /* x = 0: 10 log 2 */
    /* exp(x_i) = sqrt(i): sum of sqrt(i) (1 - log(i)/2) */
    {"Hager", "sum(exp(x)-sqrt(" UP_TO_TEN ")*x)", TEN("1"), ONLY(3.195058932)},
    {"extended tridiagonal 1", "sum((x[0::2]+x[1::2]-3)^2 + (x[0::2]-x[1::2]+1)^4)", TEN("2"), ONLY(0)},
    /* x = -log(2)/2, y = 0: 2 sqrt(2) exp(-0.1) for each of five */
    {"three exponential terms", "a=x[0::2]; b=x[1::2]; sum(exp(a+3*b-0.1)+exp(a-3*b-0.1)+exp(-a-0.1))",
     TEN("0.1"), ONLY(12.79633348)},
    /* x = 3, 20 exp(20 (x - y)) = 1: (1 + log 20)/20 */
    {"CLIFF", "((x[0]-3)/100)^2 - (x[0]-x[1]) + exp(20*(x[0]-x[1]))", "[0,-1]", ONLY(0.1997866137)},
    {"Himmelblau", "(x[0]^2+x[1]-11)^2 + (x[0]+x[1]^2-7)^2", "[1,1]", ONLY(0)},
    /* x_4 = 0 and x_i^2 = 2.5/4 for the others */
    {"quadratic penalty 1", "sum((x[:3]^2-2)^2) + (sum(x^2)-0.5)^2", "[1,1,1,1]", ONLY(7.5625)},
    {"DIXMAANA", "1 + sum(x^2) + 0.125*sum(x[:6]^2*x[3:]^4) + 0.125*sum(x[:3]*x[6:])", "[2,2,2,2,2,2,2,2,2]",
     ONLY(1)},
    {"DIXMAANB",
     "1 + sum(x^2) + 0.0625*(sum(x[:8]^2*(x[1:]+x[1:]^2)^2) + sum(x[:6]^2*x[3:]^4) + sum(x[:3]*x[6:]))",
     "[2,2,2,2,2,2,2,2,2]", ONLY(1)},
    {"DQDRTIC", "sum(x[:8]^2 + 100*x[1:9]^2 + 100*x[2:]^2)", TEN("3"), ONLY(0)},
    /* with x_i^2 = t for all: (t-1)^2 (1 + 100 t^2) has a second minimum where 200 t^2 - 100 t + 1 = 0 */
    {"NONDIA", "(x[0]-1)^2 + 100*sum((x[0]-x[:9]^2)^2)", TEN("-1"), {0, 0.98989687, NAN}},
    {"ENGVAL1, 2", "(x[0]^2+x[1]^2)^2 - 4*x[0] + 3", "[2,2]", ONLY(0)}, /* (1, 0) */
    {"ENGVAL2",
     "s=x[0]^2+x[1]^2; (s+x[2]^2-1)^2 + (s+(x[2]-2)^2-1)^2 + (x[0]+x[1]+x[2]-1)^2 + (x[0]+x[1]-x[2]+1)^2 + "
     "(3*x[1]^2+x[0]^3+(5*x[2]-x[0]+1)^2-36)^2",
     "[1,2,0]", ONLY(0)}, /* (0, 0, 1) */
    {"ARWHEAD", "sum((x[:9]^2+x[9]^2)^2 - 4*x[:9] + 3)", TEN("1"), ONLY(0)},
    {"LIARWHD", "sum(4*(x^2-x[0])^2 + (x-1)^2)", TEN("4"), ONLY(0)},
    {"POWER", "sum((" UP_TO_TEN "*x)^2)", TEN("1"), ONLY(0)},
    {"QUARTC", "sum((x-" UP_TO_TEN ")^4)", TEN("2"), ONLY(0)},
    {"COSINE", "sum(cos(x[:9]^2-0.5*x[1:]))", TEN("1"), ONLY(-9)}, /* all terms -1 */
    {"HIMMELBG", "exp(-x[0]-x[1])*(2*x[0]^2+3*x[1]^2)", "[0.5,0.5]", ONLY(0)},
    {"HIMMELBH", "x[0]^3 + x[1]^2 - 3*x[0] - 2*x[1] + 2", "[0,2]",
     ONLY(-1)}, /* (1, 1); falls without end beyond -1 */
    {"SISSER", "3*x[0]^4 - 2*(x[0]*x[1])^2 + 3*x[1]^4", "[1,0.1]", ONLY(0)},
    {"ZANGWIL2", "(16*x[0]^2+16*x[1]^2-8*x[0]*x[1]-56*x[0]-256*x[1]+991)/15", "[3,8]",
     ONLY(-18.2)}, /* (4, 9) */
    {"DENSCHNA", "x[0]^4 + (x[0]+x[1])^2 + (exp(x[1])-1)^2", "[1,1]", ONLY(0)},
    {"DENSCHNB", "(x[0]-2)^2 + ((x[0]-2)*x[1])^2 + (x[1]+1)^2", "[1,1]", ONLY(0)},
    {"DENSCHNC", "(x[0]^2+x[1]^2-2)^2 + (exp(x[0]-1)+x[1]^3-2)^2", "[2,3]", ONLY(0)},
    {"DENSCHNF", "(2*(x[0]+x[1])^2+(x[0]-x[1])^2-8)^2 + (5*x[0]^2+(x[1]-3)^2-9)^2", "[2,0]", ONLY(0)},
};

#undef ONLY
#undef TEN
#undef UP_TO_TEN
#define CUTE_COUNT (sizeof cute_problems / sizeof *cute_problems)

#endif
