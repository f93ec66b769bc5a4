/* Fits of groups of rows: which rows belong together (fit_groups.c), where each group starts (group_starts.c), and pictures
 * of the groups (draw_groups.c). */
#ifndef GD_FIT_FIT_GROUPS_H
#define GD_FIT_FIT_GROUPS_H

#include "fit/fit_job.h"

#define GD_GROUP_COLUMNS 8 /* of `by` */

typedef struct gd_key_row {
    const double *key;
    int64_t row;
    int count;
} gd_key_row;

typedef struct gd_fit_groups {
    gd_ctx *ctx;
    const gd_fit_spec *spec;
    const char *const *by;
    int count, column[GD_GROUP_COLUMNS];
    int64_t rows, groups, n;
    double *key;        /* [rows, count] */
    gd_key_row *sorted; /* [rows], group after group */
    int64_t *first;     /* [rows + 1] where groups begin in sorted */
    int64_t *of_row;    /* [rows] group of a row */
    /* results: values and errors [groups, n]; others [groups, NUMBERS]; names [n] */
    double *x, *error, *number;
    const char **stop;
    const char **name;
    size_t result_bytes;
    struct {
        int columns;
        gd_tensor **value; /* [columns] of the table, NULL: no numbers */
        int64_t *row;      /* [groups] of the table; -1: none */
    } starts;              /* of spec->group_starts */
} gd_fit_groups;

/* Fills keys and rows of groups, whose ctx, spec and by are set.  gd__end_groups also after a failure. */
GD_NODISCARD gd_status gd__find_groups(gd_fit_groups *g);
void gd__end_groups(gd_fit_groups *g);
/* The rows of group i as a table.  New. */
gd_table *gd__rows_of_group(const gd_fit_groups *g, int64_t i);
/* "set = 3, site = north" of a group. */
const char *gd__group_text(const gd_fit_groups *g, int64_t i, char out[200]);

/* Reads spec->group_starts, if it is there; gd__end_group_starts also after a failure. */
GD_NODISCARD gd_status gd__begin_group_starts(gd_fit_groups *g);
void gd__end_group_starts(gd_fit_groups *g);
/* Starts and bounds of all elements of a group in place of those of all groups, where it has any; x ends inside. */
GD_NODISCARD gd_status gd__start_group(const gd_fit_groups *g, int64_t i, const gd_fit *j, double *x,
                                       double *low, double *high);
/* Is the fit of all rows one that gd_fit_by gives to gd_least_squares_many?  Then its columns are those of all groups. */
bool gd__fits_at_once(gd_fit *j);

/* Before any fit: refuses unknown groups and models without a picture. */
GD_NODISCARD gd_status gd__check_groups(gd_ctx *ctx, const gd_fit_spec *spec, const char *const *by,
                                        const char *const *groups);

#endif
