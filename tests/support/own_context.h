/* A context of its own for every test, with counted memory: setup and teardown for cmocka.  It comes after headers
 * with inline functions that have a parameter `ctx`, which would shadow this one. */
#ifndef GD_TESTS_OWN_CONTEXT_H
#define GD_TESTS_OWN_CONTEXT_H

#include "support/support.h"

static gd_ctx *ctx;
static memory counted;

static inline int start(void **state)
{
    (void)state;
    counted = (memory){0};
    ctx = context(&counted, 1, NULL);
    return ctx ? 0 : -1;
}

static inline int stop(void **state)
{
    (void)state;
    end_context(ctx, &counted);
    return 0;
}

/* The same, with a scope around the test. */
static inline int start_scope(void **state)
{
    if (start(state)) return -1;
    gd_scope_begin(ctx);
    return 0;
}

static inline int stop_scope(void **state)
{
    gd_scope_end(ctx);
    return stop(state);
}

#endif
