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
/* FORMAT: "optimizer state: WHAT is malformed". */
gd_status gd__state_malformed(gd_ctx *ctx, const char *what);
/* gd_optimizer_pack and gd_archive_save in one, for archives that hold other things too: where ranks share state all of them call
 * it, each writes what it keeps, and rank 0 the rest.  status: how making the archive went (it may be NULL then). */
GD_NODISCARD gd_status gd__optimizer_save_in(gd_optimizer *o, gd_archive *archive, const char *prefix,
                                             const char *path, gd_status status);
/* False: it is none. */
bool gd__state_read_real(const json_t *j, double *out);
bool gd__state_read_generator(const json_t *j, gd_rng *out);
/* The setting is the caller's, to free; strings are borrowed from the JSON. */
gd_status gd__state_read_schedule(gd_ctx *ctx, const json_t *text, gd_setting *out);
gd_status gd__state_read_setting(gd_ctx *ctx, const json_t *j, gd_setting *out);

/* Differences of one kind: the first few as text, all of them in the report if there is one. */
typedef struct gd_load_notes {
    gd_text text;
    int count;
    gd_load_problem kind;
    const char *verb; /* before the name, in the report's text */
    gd_load_report *report;
} gd_load_notes;

void gd__load_note(gd_load_notes *notes, const char *format, ...) GD_PRINTF(2, 3);
/* Adds them to a message: "missing: ...". */
void gd__load_say(gd_text *out, const char *what, const gd_load_notes *notes);

/* *map: from the path of each link here that has one in the file to the path there; new.  See state_match.c. */
gd_status gd__match_links(gd_optimizer *o, json_t *links, bool strict, json_t **map);

#endif
