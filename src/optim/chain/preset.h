/* Presets: names for chains; see the field `preset` of gd_link_class. */
#ifndef GD_OPTIM_CHAIN_PRESET_H
#define GD_OPTIM_CHAIN_PRESET_H

#include "base/text/text.h"
#include "gradus/link.h"
#include "base/text/scan.h"

/* Writes the chain of a preset with these settings.  The link only holds settings and belongs to no chain. */
void gd__preset_expand(const gd_link *settings, gd_text *out);
/* The value of a setting in the syntax of chains. */
void gd__print_value(gd_print *p, const gd_link *link, int field);

#endif
