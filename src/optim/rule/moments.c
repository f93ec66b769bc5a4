/* Moving averages and powers, for rules. */
#include "gradus/link/rule.h"

#include <math.h>

gd_value gd_rule_power(gd_rule *r, gd_value x, double power)
{
    if (power == 1) return gd_rule_abs(r, x);
    if (power == 2) return gd_rule_square(r, x);
    if (fmod(power, 2) == 0) return gd_rule_pow(r, x, gd_rule_const(r, power));
    return gd_rule_pow(r, gd_rule_abs(r, x), gd_rule_const(r, power));
}

gd_value gd_rule_root(gd_rule *r, gd_value x, double power)
{
    if (power == 1) return x;
    if (power == 2) return gd_rule_sqrt(r, x);
    return gd_rule_pow(r, x, gd_rule_const(r, 1 / power));
}

gd_value gd_rule_average(gd_rule *r, const char *slot, gd_value x, gd_value beta)
{
    gd_value weight = gd_rule_sub(r, gd_rule_const(r, 1), beta);
    gd_value average = gd_rule_lerp(r, gd_rule_state(r, slot), x, weight);
    gd_rule_set(r, slot, average);
    return average;
}

gd_value gd_rule_bias(gd_rule *r, gd_value beta)
{
    return gd_rule_sub(r, gd_rule_const(r, 1), gd_rule_pow(r, beta, gd_rule_step(r)));
}
