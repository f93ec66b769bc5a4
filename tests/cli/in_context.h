/* Tests in a folder of their own, each with a context whose memory is counted: TEST(f) in the list of a suite. */
#ifndef GD_TESTS_CLI_IN_CONTEXT_H
#define GD_TESTS_CLI_IN_CONTEXT_H

#include "program.h"

static memory counted;
static gd_ctx *ctx;

static int start(void **state)
{
    if (enter_folder(state)) return -1;
    ctx = context(&counted, 1, NULL);
    gd_scope_begin(ctx);
    return 0;
}

static int stop(void **state)
{
    gd_scope_end(ctx);
    end_context(ctx, &counted);
    return leave_folder(state);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

#endif
