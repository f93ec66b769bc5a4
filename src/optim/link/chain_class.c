/* A chain: links one after the other.  Mostly made by the parser. */
#include "gradus/link.h"

static const gd_field fields[] = {GD_CHILDREN("modules", "the links, in order")};

GD_LINK(core, chain,
    .spread = GD_SPREAD_VECTOR,
    .summary = "links one after the other",
    .formula = "u -> l_n(... l_2(l_1(u)))",
    .cost = "that of its links",
    .example = "chain(ema(0.9), lr(0.1))",
    GD_FIELDS(fields));
