/* Resuming an optimizer from a checkpoint, possibly with a different chain. */
#ifndef GD_OPTIM_RESUME_H
#define GD_OPTIM_RESUME_H

#include "gradus/optim.h"

/* Gives the optimizer the state that the archive holds under the prefix.  changed: the optimizer has settings, links, groups or
 * schedules of its own, which stay; new links start from the beginning. */
GD_NODISCARD gd_status gd__optimizer_resume(gd_optimizer *optimizer, gd_archive *archive, const char *prefix,
                                            bool changed);

/* The settings in the archive's text about an optimizer, at `key` (the prefix and "optimizer"), become those of this one. */
GD_NODISCARD gd_status gd__optimizer_keep_settings(gd_optimizer *optimizer, gd_archive *archive,
                                                   const char *key);

#endif
