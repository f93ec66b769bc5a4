/* A context with a scope around every test. */
#ifndef GD_TESTS_AUTOGRAD_GRAPH_SUPPORT_H
#define GD_TESTS_AUTOGRAD_GRAPH_SUPPORT_H

#include "support/support.h"

static gd_ctx *ctx;
static memory m;

static inline int setup(void **state)
{
    (void)state;
    m = (memory){0};
    ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    gd_scope_end(ctx);
    end_context(ctx, &m);
    return 0;
}

static inline gd_tensor *total(gd_tensor *t) { return gd_sum(t, NULL, false); }

#define assert_ok(status) assert_int_equal(status, GD_OK)

#endif
