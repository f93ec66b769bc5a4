/* Moving averages that several links share. */
#ifndef GD_OPTIM_METHODS_MOMENTS_H
#define GD_OPTIM_METHODS_MOMENTS_H

#include "gradus/link.h"

/* The power of the second moment: 2 is a square. */
#define GD_POWER                                                                                        \
    {                                                                                                   \
        .name = "pow", .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = 2}, .low = 1e-3, \
        .high = 100, .structural = true, .help = "power of the second moment"                           \
    }

/* |x|^power and its inverse. */
gd_value gd__rule_power(gd_rule *r, gd_value x, double power);
gd_value gd__rule_root(gd_rule *r, gd_value x, double power);
/* slot = beta slot + (1 - beta) x, as a + (1 - beta)(x - a); returns the new average. */
gd_value gd__rule_average(gd_rule *r, const char *slot, gd_value x, gd_value beta);
/* 1 - beta^t: what an average that starts at zero has to be divided by. */
gd_value gd__rule_bias(gd_rule *r, gd_value beta);

#endif
