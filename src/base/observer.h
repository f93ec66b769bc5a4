/* Reports of long work to its caller (gd_observer, gradus/base.h); the observer may be NULL everywhere. */
#ifndef GD_BASE_OBSERVER_H
#define GD_BASE_OBSERVER_H

#include "gradus/base.h"

#include <math.h>

static inline void gd__progress(const gd_observer *o, const char *what, const char *unit, int64_t done,
                                int64_t total, double loss)
{
    if (o && o->progress) o->progress(o->user, what, unit, done, total, loss);
}

/* Clears the progress shown. */
static inline void gd__progress_end(const gd_observer *o)
{
    if (o && o->progress) o->progress(o->user, NULL, NULL, 0, 0, NAN);
}

static inline bool gd__is_interrupted(const gd_observer *o)
{
    return o && o->interrupted && o->interrupted(o->user);
}

static inline void gd__remark(const gd_observer *o, const char *text)
{
    if (o && o->message) o->message(o->user, text);
}

#endif
