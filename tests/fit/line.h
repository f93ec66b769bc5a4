/* Five points about a line, and what SciPy and the formulas of linear regression say of it. */
#ifndef GD_TESTS_FIT_LINE_H
#define GD_TESTS_FIT_LINE_H

#include "gradus/fit.h"
#include "support/support.h"

#include <math.h>

static const double line_x[] = {0, 1, 2, 3, 4}, line_y[] = {1.1, 2.9, 5.2, 6.8, 9.1};

#define LINE_A   1.04
#define LINE_B   1.99
#define LINE_SA  0.14628738838327807
#define LINE_SB  0.05972157622389644
#define LINE_RSS 0.107
#define T_95     3.1824463052837078 /* Student's, 3 degrees of freedom */
#define T_90     2.3533634348018233

static inline gd_table *line_table(gd_ctx *ctx)
{
    gd_table *table = gd_table_new(ctx, "line");
    if (gd_table_add_numbers(table, "x", line_x, 5, 1, NULL, NULL) ||
        gd_table_add_numbers(table, "y", line_y, 5, 1, NULL, NULL)) {
        gd_table_free(table);
        return NULL;
    }
    return table;
}

static inline gd_fit_spec line_spec(gd_table *table)
{
    static const gd_fit_param params[] = {{.name = "a", .start = 1}, {.name = "b", .start = 1}};
    gd_fit_spec spec = gd_fit_defaults();
    spec.model = "a + b*x";
    spec.table = table;
    spec.params = params;
    spec.param_count = 2;
    return spec;
}

#endif
