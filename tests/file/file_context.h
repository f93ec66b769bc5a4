/* A context and a folder for a group of file tests: setup and teardown for cmocka. */
#ifndef GD_TESTS_FILE_CONTEXT_H
#define GD_TESTS_FILE_CONTEXT_H

#include "file_support.h"

static gd_ctx *ctx;

static inline int start(void **state)
{
    ctx = make_ctx(NULL, NULL);
    return make_folder(state);
}

static inline int stop(void **state)
{
    assert_int_equal(gd_ctx_live(ctx), 0);
    gd_ctx_free(ctx);
    return remove_folder(state);
}

#endif
