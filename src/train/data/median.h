/* The median of many numbers without sorting them. */
#ifndef GD_TRAIN_MEDIAN_H
#define GD_TRAIN_MEDIAN_H

#include "gradus/base.h"

/* The mean of the two in the middle of value[0..count), count > 0, none of them NaN; their order is changed. */
double gd__median(double *value, int64_t count);

#endif
