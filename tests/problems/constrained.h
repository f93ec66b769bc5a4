/* Twenty problems with constraints of W. Hock & K. Schittkowski, Test Examples for Nonlinear Programming Codes, 1981, in the
 * expression language of the program.
 *
 * Minima: several starts of two other programs, then Newton's method with the active set fixed; the published ones agree in all
 * their digits.  Multipliers: of those that are to be 0, then of those that are to be at most 0, with the gradient of f = - sum of
 * multiplier times gradient of constraint.  `evals`: SLSQP's; `ipopt`: IPOPT's. */
#ifndef GD_PROBLEMS_CONSTRAINED_H
#define GD_PROBLEMS_CONSTRAINED_H

#include <stddef.h>

#define CONSTRAINTS_MOST 29

typedef struct constrained_problem {
    const char *name;
    int n;
    const char *start, *low, *high, *expression;
    const char *equal[CONSTRAINTS_MOST + 1], *below[CONSTRAINTS_MOST + 1]; /* NULL ends them */
    double minimum, multipliers[2 * CONSTRAINTS_MOST];
    int evals, ipopt;
} constrained_problem;

static const constrained_problem constrained_problems[] = {
    {"HS6", 2, "-1.2,1", NULL, NULL, "(1-x[0])^2", .equal = {"10*(x[1]-x[0]^2)"}, .below = {NULL},
     .minimum = 0, .multipliers = {0}, .evals = 11},
    {"HS7", 2, "2,2", NULL, NULL, "log(1+x[0]^2)-x[1]", .equal = {"(1+x[0]^2)^2+x[1]^2-4"}, .below = {NULL},
     .minimum = -1.73205080757, .multipliers = {0.2886751}, .evals = 12},
    {"HS10", 2, "-10,10", NULL, NULL, "x[0]-x[1]", .equal = {NULL},
     .below = {"-(-3*x[0]^2+2*x[0]*x[1]-x[1]^2+1)"}, .minimum = -1, .multipliers = {0.5}, .evals = 12},
    {"HS11", 2, "4.9,0.1", NULL, NULL, "(x[0]-5)^2+x[1]^2-25", .equal = {NULL}, .below = {"-(x[1]-x[0]^2)"},
     .minimum = -8.49846422315, .multipliers = {3.049328}, .evals = 9},
    {"HS14", 2, "2,2", NULL, NULL, "(x[0]-2)^2+(x[1]-1)^2", .equal = {"x[0]-2*x[1]+1"},
     .below = {"-(1-0.25*x[0]^2-x[1]^2)"}, .minimum = 1.39346498069, .multipliers = {1.594491, 1.846591},
     .evals = 6},
    {"HS22", 2, "2,2", NULL, NULL, "(x[0]-2)^2+(x[1]-1)^2", .equal = {NULL},
     .below = {"-(2-x[0]-x[1])", "-(x[1]-x[0]^2)"}, .minimum = 1, .multipliers = {0.6666667, 0.6666667},
     .evals = 8},
    {"HS26", 3, "-2.6,2,2", NULL, NULL, "(x[0]-x[1])^2+(x[1]-x[2])^4", .equal = {"(1+x[1]^2)*x[0]+x[2]^4-3"},
     .below = {NULL}, .minimum = 0, .multipliers = {0}, .evals = 26},
    {"HS28", 3, "-4,1,1", NULL, NULL, "(x[0]+x[1])^2+(x[1]+x[2])^2", .equal = {"x[0]+2*x[1]+3*x[2]-1"},
     .below = {NULL}, .minimum = 0, .multipliers = {0}, .evals = 5},
    {"HS29", 3, "1,1,1", NULL, NULL, "-x[0]*x[1]*x[2]", .equal = {NULL},
     .below = {"-(48-x[0]^2-2*x[1]^2-4*x[2]^2)"}, .minimum = -22.627416998, .multipliers = {0.7071068},
     .evals = 16},
    {"HS35", 3, "0.5,0.5,0.5", "0,0,0", NULL,
     "9-8*x[0]-6*x[1]-4*x[2]+2*x[0]^2+2*x[1]^2+x[2]^2+2*x[0]*x[1]+2*x[0]*x[2]", .equal = {NULL},
     .below = {"-(3-x[0]-x[1]-2*x[2])"}, .minimum = 0.111111111111, .multipliers = {0.2222222}, .evals = 7},
    {"HS40", 4, "0.8,0.8,0.8,0.8", NULL, NULL, "-x[0]*x[1]*x[2]*x[3]",
     .equal = {"x[0]^3+x[1]^2-1", "x[0]^2*x[3]-x[2]", "x[3]^2-x[1]"}, .below = {NULL}, .minimum = -0.25,
     .multipliers = {0.5, -0.4719372, 0.3535534}, .evals = 6},
    {"HS43", 4, "0,0,0,0", NULL, NULL, "x[0]^2+x[1]^2+2*x[2]^2+x[3]^2-5*x[0]-5*x[1]-21*x[2]+7*x[3]",
     .equal = {NULL},
     .below = {"-(8-x[0]^2-x[1]^2-x[2]^2-x[3]^2-x[0]+x[1]-x[2]+x[3])",
               "-(10-x[0]^2-2*x[1]^2-x[2]^2-2*x[3]^2+x[0]+x[3])",
               "-(5-2*x[0]^2-x[1]^2-x[2]^2-2*x[0]+x[1]+x[3])"},
     .minimum = -44, .multipliers = {1, 0, 2}, .evals = 12},
    {"HS60", 3, "2,2,2", "-10,-10,-10", "10,10,10", "(x[0]-1)^2+(x[0]-x[1])^2+(x[1]-x[2])^4",
     .equal = {"x[0]*(1+x[1]^2)+x[2]^4-4-3*sqrt(2)"}, .below = {NULL}, .minimum = 0.0325682002551,
     .multipliers = {-0.01072673}, .evals = 10},
    {"HS64", 3, "1,1,1", "1e-05,1e-05,1e-05", NULL,
     "5*x[0]+50000/x[0]+20*x[1]+72000/x[1]+10*x[2]+144000/x[2]", .equal = {NULL},
     .below = {"-(1-4/x[0]-32/x[1]-120/x[2])"}, .minimum = 6299.84242792, .multipliers = {2279.045},
     .evals = 43},
    {"HS65", 3, "-5,5,0", "-4.5,-4.5,-5", "4.5,4.5,5", "(x[0]-x[1])^2+(x[0]+x[1]-10)^2/9+(x[2]-5)^2",
     .equal = {NULL}, .below = {"-(48-x[0]^2-x[1]^2-x[2]^2)"}, .minimum = 0.953528856805,
     .multipliers = {0.08215328}, .evals = 8},
    {"HS71", 4, "1,5,5,1", "1,1,1,1", "5,5,5,5", "x[0]*x[3]*(x[0]+x[1]+x[2])+x[2]",
     .equal = {"x[0]^2+x[1]^2+x[2]^2+x[3]^2-40"}, .below = {"-(x[0]*x[1]*x[2]*x[3]-25)"},
     .minimum = 17.0140172892, .multipliers = {0.1614686, 0.5522937}, .evals = 5},
    {"HS77", 5, "2,2,2,2,2", NULL, NULL, "(x[0]-1)^2+(x[0]-x[1])^2+(x[2]-1)^2+(x[3]-1)^4+(x[4]-1)^6",
     .equal = {"x[0]^2*x[3]+sin(x[3]-x[4])-2*sqrt(2)", "x[1]+x[2]^4*x[3]^2-8-sqrt(2)"}, .below = {NULL},
     .minimum = 0.24150512879, .multipliers = {-0.0855396, -0.0318784}, .evals = 16},
    {"HS80", 5, "-2,2,2,-1,-1", "-2.3,-2.3,-3.2,-3.2,-3.2", "2.3,2.3,3.2,3.2,3.2",
     "exp(x[0]*x[1]*x[2]*x[3]*x[4])",
     .equal = {"x[0]^2+x[1]^2+x[2]^2+x[3]^2+x[4]^2-10", "x[1]*x[2]-5*x[3]*x[4]", "x[0]^3+x[1]^3+1"},
     .below = {NULL}, .minimum = 0.0539498477703, .multipliers = {0.04016274, -0.03795777, 0.005222643},
     .evals = 7},
    {"HS100", 7, "1,2,0,4,0,1,1", NULL, NULL,
     "(x[0]-10)^2+5*(x[1]-12)^2+x[2]^4+3*(x[3]-11)^2+10*x[4]^6+7*x[5]^2+x[6]^4-4*x[5]*x[6]-10*x[5]-8*x[6]",
     .equal = {NULL},
     .below = {"-(127-2*x[0]^2-3*x[1]^4-x[2]-4*x[3]^2-5*x[4])", "-(282-7*x[0]-3*x[1]-10*x[2]^2-x[3]+x[4])",
               "-(196-23*x[0]-x[1]^2-6*x[5]^2+8*x[6])",
               "-(-4*x[0]^2-x[1]^2+3*x[0]*x[1]-2*x[2]^2-5*x[5]+11*x[6])"},
     .minimum = 680.630057374, .multipliers = {1.13972, 0, 0, 0.3686145}, .evals = 20},
    {"HS113", 10, "2,3,5,5,1,2,7,3,6,10", NULL, NULL,
     "x[0]^2+x[1]^2+x[0]*x[1]-14*x[0]-16*x[1]+(x[2]-10)^2+4*(x[3]-5)^2+(x[4]-3)^2+2*(x[5]-1)^2+5*x[6]^2+7*(x[7]-11)^2+2*(x[8]-10)^2+(x[9]-7)^2+45",
     .equal = {NULL},
     .below = {"-(105-4*x[0]-5*x[1]+3*x[6]-9*x[7])", "-(-10*x[0]+8*x[1]+17*x[6]-2*x[7])",
               "-(8*x[0]-2*x[1]-5*x[8]+2*x[9]+12)", "-(-3*(x[0]-2)^2-4*(x[1]-3)^2-2*x[2]^2+7*x[3]+120)",
               "-(-5*x[0]^2-8*x[1]-(x[2]-6)^2+2*x[3]+40)", "-(-0.5*(x[0]-8)^2-2*(x[1]-4)^2-3*x[4]^2+x[5]+30)",
               "-(-x[0]^2-2*(x[1]-2)^2+2*x[0]*x[1]-14*x[4]+6*x[5])", "-(3*x[0]-6*x[1]-12*(x[8]-8)^2+7*x[9])"},
     .minimum = 24.3062090682,
     .multipliers = {1.716533, 0.4745201, 1.375927, 0.02054556, 0.3120285, 0, 0.2870493, 0}, .evals = 15},
};
#define CONSTRAINED_COUNT (int)(sizeof constrained_problems / sizeof *constrained_problems)

#endif
