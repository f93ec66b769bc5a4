/* What saving and loading optimizers share. */
#ifndef GD_OPTIM_STATE_STATE_H
#define GD_OPTIM_STATE_STATE_H

#include "base/text.h"
#include "gradus/file.h"
#include "optim/step/optimizer.h"

#include <jansson.h>

#define GD_ROOT_PATH 128

/* The path of the outermost link: "" for a chain, so that paths do not change when one link becomes several. */
const char *gd__root_path(const gd_optimizer *o, char out[GD_ROOT_PATH]);
/* The name of a tensor, in out->data.  param NULL: link-wide. */
gd_status gd__state_name(gd_text *out, const char *prefix, const char *param, const char *path,
                         const char *last);
/* *map: from the path of each link here that has one in the file to the path there; new.  See state_match.c. */
gd_status gd__match_links(gd_optimizer *o, json_t *links, bool strict, json_t **map);

#endif
