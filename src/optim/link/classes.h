/* The link classes a context knows: those of links.def, presets, then those its user registered. */
#ifndef GD_OPTIM_LINK_CLASSES_H
#define GD_OPTIM_LINK_CLASSES_H

#include "base/ctx.h"
#include "gradus/link.h"

#define LINK(name) extern const gd_link_class gd_link_##name;
#include "optim/links.def"
#include "optim/presets.def"
#undef LINK

/* Limits that other code may rely on. */
#define GD_MAX_FIELDS 64
#define GD_MAX_SLOTS  32

/* The class of a name; NULL without an error if there is none. */
const gd_link_class *gd__find_class(gd_ctx *ctx, const char *name);
/* Class number `index`, built-in ones first; NULL past the end. */
const gd_link_class *gd__class_at(gd_ctx *ctx, int index);
/* Registers some, all or none; the arrays stay the caller's. */
gd_status gd__classes_add(gd_ctx *ctx, const gd_link_class *const *classes, int count);
/* Checks a class. ARGUMENT, or VALUE or TYPE for a default that its own field does not accept. */
gd_status gd__class_check(gd_ctx *ctx, const gd_link_class *cls);

#endif
