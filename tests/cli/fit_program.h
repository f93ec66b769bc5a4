/* What suites of gradus fit share: a line whose answer is known, and what of a printed object is looked at. */
#ifndef GD_TESTS_CLI_FIT_PROGRAM_H
#define GD_TESTS_CLI_FIT_PROGRAM_H

#include "in_context.h"

static inline void near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want))) fail_msg("%.17g, want %.17g", value, want);
}

/* Prints its results, then fails with one sentence. */
static inline void admits(const char *arguments, const char *text)
{
    int got = gradus(arguments);
    if (got != 1) fail_msg("gradus %s: exit %d, want 1: %s", arguments, got, err);
    if (strncmp(err, "gradus: fit: not converged: ", 28) != 0 || !strstr(err, text))
        fail_msg("gradus %s says\n  %swant\n  %s", arguments, err, text);
    if (!*out) fail_msg("gradus %s prints nothing", arguments);
}

/* The number behind "key": in an object named by `object` ("" for the outer one). */
static inline void check(const char *object, const char *key, double want, double tolerance)
{
    double got = json_number_in(object, key);
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s.%s is %.15g, want %.15g", object, key, got, want);
}

#define LINE_A    1.040000000000001
#define LINE_B    1.9899999999999998
#define LINE_SA   0.14628738838327787
#define LINE_SB   0.059721576223896365
#define LINE_RSS  0.10699999999999991
#define LINE_R2   0.9973053289009771
#define SIGMA_A   1.0145383104125743
#define SIGMA_B   2.0078585461689586
#define SIGMA_RSS 0.04658153241650304
#define SIGMA_SB  0.04133152035119252

static const char line_data[] = "x,y,s\n0,1.1,1\n1,2.9,1\n2,5.2,2\n3,6.8,2\n4,9.1,1\n";

#endif
