/* What the tests of graphs share. */
#ifndef GD_TESTS_AUTOGRAD_GRAPH_SUPPORT_H
#define GD_TESTS_AUTOGRAD_GRAPH_SUPPORT_H

#include "support/own_context.h"

static inline gd_tensor *total(gd_tensor *t) { return gd_sum(t, NULL, false); }

#define assert_ok(status) assert_int_equal(status, GD_OK)

#endif
