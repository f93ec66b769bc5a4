/* What holds for any text given to gd__network_parse: the fuzzer, the replay of its corpus and random texts check it. */
#ifndef GD_TESTS_TRAIN_MODEL_PROPERTY_H
#define GD_TESTS_TRAIN_MODEL_PROPERTY_H

#include "train/model/train_network.h"

#include <string.h>

/* A text is refused with PARSE, or its print reads as an equal model that prints the same.  NULL or what is wrong. */
static inline const char *model_fault(gd_ctx *ctx, const char *text)
{
    gd_network_spec first, second;
    if (gd__network_parse(ctx, text, &first)) {
        const char *fault = gd_error(ctx) == GD_PARSE ? NULL : "refused with another status than PARSE";
        gd_clear_error(ctx);
        return fault;
    }
    const char *fault = gd_error(ctx) ? "accepted with an error" : NULL;
    gd_text a = gd__text(ctx), b = gd__text(ctx);
    gd__network_print(&a, &first);
    if (!fault && gd__network_parse(ctx, a.data, &second)) fault = "the print is refused";
    if (!fault) gd__network_print(&b, &second);
    if (!fault && strcmp(a.data, b.data) != 0) fault = "the second print differs";
    bool equal = !fault && first.convs == second.convs && first.denses == second.denses &&
                 first.dropout == second.dropout && !strcmp(first.activation, second.activation) &&
                 (!first.convs || (first.kernel == second.kernel && first.pool == second.pool));
    for (int i = 0; equal && i < first.convs; i++) equal = first.conv[i] == second.conv[i];
    for (int i = 0; equal && i < first.denses; i++) equal = first.dense[i] == second.dense[i];
    if (!fault && !equal) fault = "the print is a different model";
    gd__text_free(&a);
    gd__text_free(&b);
    gd_clear_error(ctx);
    return fault;
}

#endif
