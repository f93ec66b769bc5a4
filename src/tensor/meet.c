/* Matching of the axes of operands.
 *
 *   one operand has no names     by position from the right, as in NumPy; the result has the names and labels of the other
 *   both have names              equal names match at any position, anonymous axes match anonymous ones from the right
 *   one tensor put into a second by position, names equal or absent (assignment, cat, stack)
 *
 * A size of 1 is broadcast.  Labels of matching axes are the same, in any order. The operands are brought into one order by recorded
 * views (permute, unsqueeze, label order), so gradients need no further code. */
#include "tensor/elementwise.h"
#include "tensor/linalg.h"

#include <string.h>

#define MAX_OPERANDS 3

/* The joint axes of several operands with names and their sources. */
typedef struct meeting {
    int ndim;
    const char *name[GD_MAX_DIMS * 2];
    int from[MAX_OPERANDS][GD_MAX_DIMS * 2]; /* axis of each operand, or -1 */
} meeting;

bool gd__has_names(const gd_tensor *t)
{
    for (int i = 0; t->axes && i < t->ndim; i++)
        if (t->axes->name[i]) return true;
    return false;
}

static meeting alone(const gd_tensor *t, int side)
{
    meeting m = {.ndim = t->ndim};
    for (int i = 0; i < t->ndim; i++) {
        m.name[i] = gd__name(t, i);
        for (int s = 0; s < MAX_OPERANDS; s++) m.from[s][i] = s == side ? i : -1;
    }
    return m;
}

/* The axis of b that meets axis i of a: the same name, or the same position among anonymous ones from the right. */
static int partner(const meeting *a, int i, const meeting *b)
{
    int rank = 0;
    for (int k = i + 1; k < a->ndim; k++) rank += !a->name[k];
    for (int j = b->ndim; j-- > 0;)
        if (a->name[i] ? b->name[j] == a->name[i] : !b->name[j] && rank-- == 0) return j;
    return -1;
}

static bool covers(const meeting *a, const meeting *b)
{
    for (int j = 0; j < b->ndim; j++)
        if (partner(b, j, a) < 0) return false;
    return true;
}

/* The last axis of a, with or without a name, that matches none of b; -1: all match. */
static int left_over(const meeting *a, const meeting *b, bool named)
{
    for (int i = a->ndim; i-- > 0;)
        if ((a->name[i] != NULL) == named && partner(a, i, b) < 0) return i;
    return -1;
}

/* The first operand that has axis i of a meeting. */
static int source_of(const meeting *m, int i)
{
    int s = 0;
    while (m->from[s][i] < 0) s++;
    return s;
}

/* An unmatched anonymous axis of a and an unmatched name of b: it is unknown whether they are the same axis. */
static gd_status check_left_over(const char *what, const meeting *a, const meeting *b, gd_tensor *const *in)
{
    int i = left_over(a, b, false), j = left_over(b, a, true);
    if (i < 0 || j < 0) return GD_OK;
    int s = source_of(a, i), t = source_of(b, j);
    char left[256], right[256], axis[64], name[64];
    gd__axis_text(in[s], a->from[s][i], axis);
    return gd_fail(
        in[s]->head.ctx, GD_AXIS,
        "%s: axis %s of %s has no name and axis %s of %s no partner; name axis %s or drop the names", what,
        axis, gd__shape_text(in[s], left, sizeof left), gd__axis_text(in[t], b->from[t][j], name),
        gd__shape_text(in[t], right, sizeof right), axis);
}

/* The sources of axis j of `other` become sources of axis i of m. */
static void take_sources(meeting *m, int i, const meeting *other, int j)
{
    for (int s = 0; s < MAX_OPERANDS; s++)
        if (other->from[s][j] >= 0) m->from[s][i] = other->from[s][j];
}

static void insert(meeting *m, int at, const meeting *other, int j)
{
    for (int i = m->ndim++; i > at; i--) {
        m->name[i] = m->name[i - 1];
        for (int s = 0; s < MAX_OPERANDS; s++) m->from[s][i] = m->from[s][i - 1];
    }
    m->name[at] = other->name[j];
    for (int s = 0; s < MAX_OPERANDS; s++) m->from[s][at] = -1;
    take_sources(m, at, other, j);
}

/* The result has the axes of the side that covers the other (the left one if both do).  Otherwise both have names that the
 * other lacks, and every anonymous axis has a partner: the left's axes, the right's new names after the left's last name. */
static meeting joined(const meeting *a, const meeting *b)
{
    bool left = covers(a, b) || !covers(b, a);
    const meeting *lead = left ? a : b, *other = left ? b : a;
    meeting m = *lead;
    int named_end = 0;
    for (int i = 0; i < lead->ndim; i++) {
        int j = partner(lead, i, other);
        if (j >= 0) take_sources(&m, i, other, j);
        if (lead->name[i]) named_end = i + 1;
    }
    for (int j = 0; j < other->ndim; j++)
        if (partner(other, j, lead) < 0) insert(&m, named_end++, other, j);
    return m;
}

/* ---- sizes and labels ---- */

/* Equal sizes, or 1, on axes that meet by name. */
static gd_status check_sizes(const char *what, const meeting *m, gd_tensor *const *in, int count)
{
    for (int k = 0; k < m->ndim; k++) {
        int wide = -1; /* the first operand whose size there is not 1 */
        for (int s = 0; s < count && m->name[k]; s++) {
            int axis = m->from[s][k];
            if (axis < 0 || in[s]->size[axis] == 1) continue;
            if (wide < 0) wide = s;
            int64_t size = in[wide]->size[m->from[wide][k]];
            char text[64];
            if (in[s]->size[axis] != size)
                return gd_fail(
                    in[s]->head.ctx, GD_SHAPE, "%s: axis %s has %lld on the left and %lld on the right", what,
                    gd__axis_text(in[s], axis, text), (long long)size, (long long)in[s]->size[axis]);
        }
    }
    return GD_OK;
}

/* One labelled element is not broadcast to other labels. */
static gd_status check_broadcast(const char *what, const gd_tensor *a, int i, const gd_tensor *b, int j)
{
    const gd_labels *x = gd__labels(a, i), *y = gd__labels(b, j);
    if (x->count == y->count || (x->count != 1 && y->count != 1)) return GD_OK;
    const gd_labels *many = x->count == 1 ? y : x, *one = x->count == 1 ? x : y;
    const char *alone = many->count ? many->text[many->text[0] == one->text[0]] : one->text[0];
    char axis[64];
    return gd_fail(a->head.ctx, GD_LABEL, "%s: axis %s has the label '%.80s' only on one side", what,
                   gd__axis_text(a, i, axis), alone);
}

/* Labels on axes at one position, counted from the right, in the order of the first operand that has some there. */
static gd_status match_places(const char *what, gd_tensor **in, int count)
{
    for (int place = 0; place < GD_MAX_DIMS; place++) {
        int first = -1;
        for (int s = 0; s < count; s++) {
            int axis = in[s]->ndim - 1 - place;
            if (axis < 0 || !gd__labels(in[s], axis)) continue;
            if (first < 0) {
                first = s;
                continue;
            }
            int lead = in[first]->ndim - 1 - place;
            gd_status status = check_broadcast(what, in[first], lead, in[s], axis);
            if (status) return status;
            gd_tensor *seen = gd__match_labels(what, in[first], lead, in[s], axis);
            if (!seen) return gd_error(in[s]->head.ctx);
            in[s] = seen;
        }
    }
    return GD_OK;
}

/* ---- meeting ---- */

/* t seen with the axes of the meeting: permuted, with axes of size 1 where it has none. */
static gd_tensor *seen_as(gd_tensor *t, const meeting *m, int side)
{
    int order[GD_MAX_DIMS], n = 0;
    bool in_order = true;
    for (int k = 0; k < m->ndim; k++) {
        int axis = m->from[side][k];
        if (axis < 0) continue;
        if (axis != n) in_order = false;
        order[n++] = axis;
    }
    if (!in_order) t = gd_permute(t, order);
    /* leading missing axes need nothing: the broadcast adds them */
    int lead = 0;
    while (lead < m->ndim && m->from[side][lead] < 0) lead++;
    for (int k = lead; k < m->ndim && t; k++)
        if (m->from[side][k] < 0) t = gd_unsqueeze(t, k - lead, NULL);
    return t;
}

/* The joint axes of the operands with names, from left to right. */
static gd_status join_named(const char *what, gd_tensor *const *in, int count, meeting *m)
{
    m->ndim = -1;
    for (int s = 0; s < count; s++) {
        if (!gd__has_names(in[s])) continue;
        meeting next = alone(in[s], s);
        if (m->ndim < 0) {
            *m = next;
            continue;
        }
        gd_status status = check_left_over(what, m, &next, in);
        if (!status) status = check_left_over(what, &next, m, in);
        if (status) return status;
        *m = joined(m, &next);
        if (m->ndim > GD_MAX_DIMS)
            return gd_fail(in[s]->head.ctx, GD_SHAPE, "%s: the result would have %d axes, more than %d", what,
                           m->ndim, GD_MAX_DIMS);
    }
    return GD_OK;
}

/* No reordering needed: at most one has names or labels, or all have the same. */
static bool in_order(gd_tensor *const *in, int count)
{
    const gd_tensor *first = NULL;
    for (int s = 0; s < count; s++) {
        if (!in[s]->axes) continue;
        if (first && (in[s]->axes != first->axes || in[s]->ndim != first->ndim)) return false;
        if (!first) first = in[s];
    }
    return true;
}

gd_status gd__meet(const char *what, gd_tensor **in, int count)
{
    if (in_order(in, count)) return GD_OK;
    meeting m;
    gd_status status = join_named(what, in, count, &m);
    if (!status && m.ndim >= 0) status = check_sizes(what, &m, in, count);
    for (int s = 0; s < count && !status && m.ndim >= 0; s++) {
        gd_tensor *seen = gd__has_names(in[s]) ? seen_as(in[s], &m, s) : in[s];
        if (seen)
            in[s] = seen;
        else
            status = gd_error(in[s]->head.ctx);
    }
    return status ? status : match_places(what, in, count);
}

/* ---- one tensor in place of a second ---- */

static bool same_labels(const gd_labels *a, const gd_labels *b)
{
    if (a == b || !a || !b) return true;
    return a->count == b->count && !memcmp(a->text, b->text, (size_t)a->count * sizeof *a->text);
}

bool gd__same_axes(const gd_tensor *x, const gd_tensor *like)
{
    bool same = x->ndim == like->ndim;
    for (int i = 0; i < x->ndim && same; i++)
        same = gd__name(x, i) == gd__name(like, i) && same_labels(gd__labels(x, i), gd__labels(like, i));
    return same;
}

gd_status gd__same_name(const char *what, const gd_tensor *a, int i, const gd_tensor *b, int j)
{
    const char *left = gd__name(a, i), *right = gd__name(b, j);
    char x[256], y[256];
    if (!left || !right || left == right) return GD_OK;
    return gd_fail(a->head.ctx, GD_AXIS,
                   "%s: axis '%.60s' of %s stands where %s has '%.60s'; names must be equal or absent", what,
                   right, gd__shape_text(b, y, sizeof y), gd__shape_text(a, x, sizeof x), left);
}

gd_tensor *gd__placed_in(const char *what, gd_tensor *x, const gd_tensor *like, int but)
{
    gd_tensor *lead = (gd_tensor *)(uintptr_t)like; /* not consumed */
    for (int j = x->ndim; j-- > 0 && x;) {
        int i = j + like->ndim - x->ndim;
        if (i < 0 || i == but) continue;
        if (gd__same_name(what, like, i, x, j)) return NULL;
        if (!gd__labels(like, i) || !gd__labels(x, j)) continue;
        x = check_broadcast(what, like, i, x, j) ? NULL : gd__match_labels(what, lead, i, x, j);
    }
    return x;
}

gd_tensor *gd__aligned_to(const char *what, gd_tensor *x, const gd_tensor *like)
{
    if (!gd__may_differ(x, like) || gd__same_axes(x, like)) return x;
    if (!gd__has_names(x) || !gd__has_names(like)) return gd__placed_in(what, x, like, -1);
    gd_tensor *lead = (gd_tensor *)(uintptr_t)like; /* not consumed */
    meeting to = alone(lead, 0), from = alone(x, 1);
    if (!covers(&to, &from)) {
        char a[256], b[256];
        return gd__refuse(x->head.ctx, GD_AXIS, "%s: not every axis of %s is one of %s", what,
                          gd__shape_text(x, a, sizeof a), gd__shape_text(like, b, sizeof b));
    }
    meeting m = joined(&to, &from);
    for (int k = 0; k < m.ndim && x; k++)
        if (m.from[1][k] >= 0) x = gd__match_labels(what, lead, k, x, m.from[1][k]);
    return x ? seen_as(x, &m, 1) : NULL;
}
