/* TensorBoard event files: scalars by tag and step.
 *
 *   gd_events *events = gd__events_open(ctx, "runs/adam");
 *   gd__events_scalar(events, "train/loss", step, loss);
 *   gd__events_close(events);
 *
 * The file is runs/adam/events.out.tfevents.SECONDS.HOST.PID, a new one each time, whole records only: the file of a killed run can be
 * read. */
#ifndef GD_TRAIN_EVENTS_H
#define GD_TRAIN_EVENTS_H

#include "base/text/compose.h"

typedef struct gd_events gd_events;

/* Makes the folder if it does not exist, and a file in it.  New; NULL with IO recorded. */
gd_events *gd__events_open(gd_ctx *ctx, const char *folder);
/* Adds one number.  Kept in memory until 64 KB are together or gd__events_flush. */
GD_NODISCARD gd_status gd__events_scalar(gd_events *events, const char *tag, int64_t step, double value);
GD_NODISCARD gd_status gd__events_flush(gd_events *events);
/* Writes what is left.  Frees the events also when that fails; NULL is fine. */
gd_status gd__events_close(gd_events *events);

/* ---- the format ---- */

/* Appends the Event message with a scalar, or with the version where tag is NULL. */
void gd__event_message(gd_text *out, double wall_time, int64_t step, const char *tag, double value);
/* CRC-32C (Castagnoli). */
uint32_t gd__crc32c(const void *data, size_t size);

#endif
