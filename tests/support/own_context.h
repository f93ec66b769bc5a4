/* A context of its own for every test, with counted memory: setup and teardown for cmocka.  It comes after headers
 * with inline functions that have a parameter `ctx`, which would shadow this one. */
#ifndef GD_TESTS_OWN_CONTEXT_H
#define GD_TESTS_OWN_CONTEXT_H

#include "support/support.h"

static gd_ctx *ctx;

static inline int start(void **state)
{
    int failed = begin_test(state);
    ctx = *state;
    return failed;
}

static inline int stop(void **state) { return end_test(state); }

/* The same, with a scope around the test. */
static inline int start_scope(void **state)
{
    int failed = begin_scoped_test(state);
    ctx = *state;
    return failed;
}

static inline int stop_scope(void **state) { return end_scoped_test(state); }

#endif
