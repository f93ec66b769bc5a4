/* What holds for any text given to gd_chain: the fuzzer and the replay of its corpus check it. */
#ifndef GD_TESTS_OPTIM_CHAIN_PROPERTY_H
#define GD_TESTS_OPTIM_CHAIN_PROPERTY_H

#include "gradus/chain.h"

#include <stdlib.h>
#include <string.h>

/* A text is refused with PARSE, or its link prints a text that gives the same print again.  Returns NULL or what is wrong. */
static inline const char *chain_fault(gd_ctx *ctx, const char *text)
{
    gd_link *link = gd_chain(ctx, text);
    if (!link) {
        const char *fault = gd_error(ctx) == GD_PARSE ? NULL : "refused with another status than PARSE";
        if (gd_ctx_live(ctx)) fault = "a refused text left something behind";
        gd_clear_error(ctx);
        return fault;
    }
    const char *fault = gd_error(ctx) ? "accepted with an error" : NULL;
    int need = gd_link_print(link, NULL, 0);
    size_t size = (size_t)need + 1;
    char *first = malloc(size), *second = malloc(size);
    if (need < 0 || !first || !second || gd_link_print(link, first, size) != need)
        fault = "the length is wrong";
    gd_link *again = fault ? NULL : gd_chain(ctx, first);
    if (!fault && !again) fault = "the print is refused";
    if (again && (gd_link_print(again, second, size) != need || strcmp(first, second)))
        fault = "the second print differs";
    gd_link_release(again);
    gd_link_release(link);
    if (!fault && gd_ctx_live(ctx)) fault = "something is left behind";
    free(first);
    free(second);
    return fault;
}

#endif
