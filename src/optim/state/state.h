/* Code shared by saving and loading optimizers. */
#ifndef GD_OPTIM_STATE_STATE_H
#define GD_OPTIM_STATE_STATE_H

#include "base/text/text.h"
#include "file/archive.h"
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
/* gd_optimizer_save_in.  status: of making the archive (it may be NULL then). */
GD_NODISCARD gd_status gd__optimizer_save_in(gd_optimizer *o, gd_archive *archive, const char *prefix,
                                             const char *path, gd_status status);
/* gd_together.join; user is the share.  As bits; all ranks except one have zeros. */
gd_status gd__join_ranks(void *share, gd_status mine, uint64_t *number, size_t count);
/* False: it is not one. */
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

/* ---- state_axes.c: matches state and parameter by the names and labels in the file ---- */

/* Where the axes and elements of a parameter are in the file. */
typedef struct gd_state_axes {
    gd_tensor *file;        /* its axes in the file, elements unset; owned; NULL: same order as here */
    int order[GD_MAX_DIMS]; /* axis order[i] of the file is axis i here */
} gd_state_axes;

/* *out, zeroed before, from the file's description of a parameter; notes mismatches. */
GD_NODISCARD gd_status gd__state_axes_meet(gd_load_notes *other, const char *name, const json_t *j,
                                           const gd_tensor *here, gd_state_axes *out);
/* State of the file in the order of the parameter here, on its device; new, owned.  NULL, without an error: it is not one number
 * for each element. */
gd_tensor *gd__state_axes_move(const gd_state_axes *axes, const gd_link *link, gd_tensor *t, gd_tensor *here);

/* Notes the state of a link that cannot be reordered: vectors over all parameters, tensors in place of them. */
void gd__state_axes_joint(gd_load_notes *other, const gd_optimizer *o, const gd_state_axes *axes,
                          const char *path, const json_t *link);
/* And lists among its settings for one parameter. */
void gd__state_axes_lists(gd_load_notes *other, const char *path, const char *param, json_t *settings);

/* ---- load_parts.c: of state that ranks share each reads what it keeps ---- */

typedef struct gd_load_parts {
    gd_optimizer *o;
    const gd_archive *archive; /* NULL: all of it is read by every rank */
    struct gd_load_part {
        int64_t index;    /* in the archive */
        size_t at, count; /* checksums of its chunks */
    } * part;
    int parts, part_room;
    uint64_t *sum; /* those of this rank's data; 0 for others */
    size_t sums, sum_room;
} gd_load_parts;

/* All ranks begin and end it; a failure on one rank becomes an error on all at the end, before anything has changed. */
gd_status gd__load_parts_begin(gd_load_parts *p, gd_optimizer *o, const gd_archive *archive);
gd_status gd__load_parts_end(gd_load_parts *p, gd_status status);
void gd__load_parts_free(gd_load_parts *p);
/* Is the slot sharded? Then the entry of a staging copy of the link gets this rank's shard, *taken. */
gd_status gd__load_part(gd_load_parts *p, gd_link *link, gd_entry *e, int slot, int64_t index, bool *taken);

/* *map: from the path of each link here that has one in the file to the path there; new.  See state_match.c. */
gd_status gd__match_links(gd_optimizer *o, json_t *links, bool strict, json_t **map);

#endif
