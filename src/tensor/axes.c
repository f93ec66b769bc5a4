/* Axes: names, labels, and the texts that choose them. */
#include "tensor/tensor_internal.h"
#include "base/text/ascii.h"
#include "tensor/shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shared, immutable blocks ---- */

gd_labels *gd__labels_retain(gd_labels *labels)
{
    if (labels) labels->refs++;
    return labels;
}

gd_labels *gd__labels_new(gd_ctx *ctx, int64_t count)
{
    gd_labels *labels = gd__calloc(ctx, sizeof *labels);
    const char **text = labels ? gd__alloc_array(ctx, (size_t)count, sizeof *text) : NULL;
    if (text)
        *labels = (gd_labels){.ctx = ctx, .refs = 1, .count = count, .text = text};
    else
        gd__free(ctx, labels, sizeof *labels);
    return text ? labels : NULL;
}

void gd__labels_put(gd_tensor *t, int axis, gd_labels *labels)
{
    gd__labels_release(t->axes ? t->axes->labels[axis] : labels);
    if (t->axes) t->axes->labels[axis] = labels;
}

void gd__labels_release(gd_labels *labels)
{
    if (!labels || --labels->refs) return;
    gd__free(labels->ctx, labels->text, (size_t)labels->count * sizeof *labels->text);
    gd__free(labels->ctx, labels, sizeof *labels);
}

gd_axes *gd__axes_new(gd_ctx *ctx)
{
    gd_axes *axes = gd__calloc(ctx, sizeof *axes);
    if (!axes) return NULL;
    axes->ctx = ctx;
    axes->refs = 1;
    return axes;
}

void gd__axes_retain(gd_axes *axes)
{
    if (axes) axes->refs++;
}

void gd__axes_release(gd_axes *axes)
{
    if (!axes || --axes->refs) return;
    for (int i = 0; i < GD_MAX_DIMS; i++) gd__labels_release(axes->labels[i]);
    gd__free(axes->ctx, axes, sizeof *axes);
}

static gd_labels *copy_labels(gd_ctx *ctx, const gd_labels *labels)
{
    gd_labels *copy = gd__labels_new(ctx, labels->count);
    for (int64_t i = 0; copy && i < labels->count; i++) {
        const char *text = labels->text[i];
        copy->text[i] = text ? gd__intern(ctx, text, strlen(text)) : NULL;
        if (!text || copy->text[i]) continue;
        gd__labels_release(copy);
        copy = NULL;
    }
    return copy;
}

gd_axes *gd__axes_copy(gd_ctx *ctx, const gd_axes *axes)
{
    gd_axes *copy = gd__axes_new(ctx);
    bool made = copy != NULL;
    for (int i = 0; i < GD_MAX_DIMS && made; i++) {
        const char *name = axes->name[i];
        if (name) made = (copy->name[i] = gd__intern(ctx, name, strlen(name))) != NULL;
        if (axes->labels[i] && made) made = (copy->labels[i] = copy_labels(ctx, axes->labels[i])) != NULL;
    }
    if (made) return copy;
    gd__axes_release(copy);
    return NULL;
}

gd_status gd__axes_map(gd_tensor *out, const gd_tensor *from, const int *map)
{
    if (!from->axes) return GD_OK;
    gd_axes *axes = gd__axes_new(out->head.ctx);
    if (!axes) return GD_NOMEM;
    for (int i = 0; i < out->ndim; i++) {
        int at = map ? map[i] : i;
        if (at < 0) continue;
        axes->name[i] = from->axes->name[at];
        if (out->size[i] == from->size[at]) axes->labels[i] = gd__labels_retain(from->axes->labels[at]);
    }
    gd__axes_release(out->axes);
    out->axes = axes;
    return GD_OK;
}

gd_tensor *gd__mapped(gd_tensor *out, const gd_tensor *from, const int *map)
{
    if (!out || gd__axes_map(out, from, map) == GD_OK) return out;
    gd_release(out);
    return NULL;
}

/* ---- looking ---- */

const char *gd_axis_name(const gd_tensor *t, int axis)
{
    if (!t) return NULL;
    if (axis < 0) axis += t->ndim;
    return axis >= 0 && axis < t->ndim ? gd__name(t, axis) : NULL;
}

const char *gd_axis_label(const gd_tensor *t, int axis, int64_t index)
{
    if (!t) return NULL;
    if (axis < 0) axis += t->ndim;
    gd_labels *labels = axis >= 0 && axis < t->ndim ? gd__labels(t, axis) : NULL;
    return labels && index >= 0 && index < labels->count ? labels->text[index] : NULL;
}

int gd_axis_find(const gd_tensor *t, const char *name)
{
    if (!t || !t->axes || !name) return -1;
    for (int i = 0; i < t->ndim; i++)
        if (t->axes->name[i] && strcmp(t->axes->name[i], name) == 0) return i;
    return -1;
}

int64_t gd_axis_index(const gd_tensor *t, int axis, const char *label)
{
    if (!t) return -1;
    if (axis < 0) axis += t->ndim;
    gd_labels *labels = axis >= 0 && axis < t->ndim ? gd__labels(t, axis) : NULL;
    for (int64_t i = 0; labels && label && i < labels->count; i++)
        if (strcmp(labels->text[i], label) == 0) return i;
    return -1;
}

/* ---- texts for messages ---- */

const char *gd__axis_text(const gd_tensor *t, int axis, char buf[64])
{
    const char *name = gd__name(t, axis);
    if (name)
        snprintf(buf, 64, "'%.60s'", name);
    else
        snprintf(buf, 64, "%d", axis);
    return buf;
}

const char *gd__shape_text(const gd_tensor *t, char *buf, size_t size)
{
    size_t used = 0;
    int n = snprintf(buf, size, "[");
    for (int i = 0; i < t->ndim && n > 0; i++) {
        used += (size_t)n;
        if (used >= size) return buf;
        const char *name = gd__name(t, i);
        n = snprintf(buf + used, size - used, "%s%.40s%s%lld", i ? ", " : "", name ? name : "",
                     name ? "=" : "", (long long)t->size[i]);
    }
    used += n > 0 ? (size_t)n : 0;
    if (used < size) snprintf(buf + used, size - used, "]");
    return buf;
}

/* ---- choosing axes by text ---- */

/* The next comma-separated word; returns its length, moves *text behind it; 0 at the end, -1 if it is empty. */
static int next_word(const char **text, const char **word)
{
    const char *p = *text;
    while (gd__is_space(*p)) p++;
    if (!*p) return 0;
    const char *start = p;
    while (*p && *p != ',') p++;
    const char *end = p;
    while (end > start && gd__is_space(end[-1])) end--;
    *text = *p ? p + 1 : p;
    *word = start;
    return end > start ? (int)(end - start) : -1;
}

static bool is_number(const char *word, int length)
{
    int i = word[0] == '-' ? 1 : 0;
    if (i == length || length > 6) return false;
    for (; i < length; i++)
        if (!gd__is_digit(word[i])) return false;
    return true;
}

static int find_word(const char *what, const gd_tensor *t, const char *word, int length)
{
    char shape[256];
    if (is_number(word, length)) {
        int axis = atoi(word);
        if (axis < 0) axis += t->ndim;
        if (axis >= 0 && axis < t->ndim) return axis;
    } else {
        for (int i = 0; i < t->ndim; i++) {
            const char *name = gd__name(t, i);
            if (name && strncmp(name, word, (size_t)length) == 0 && !name[length]) return i;
        }
    }
    (void)gd_fail(t->head.ctx, GD_AXIS, "%s: no axis '%.*s' in %s", what, length, word,
                  gd__shape_text(t, shape, sizeof shape));
    return -1;
}

int gd__parse_axes(const char *what, const gd_tensor *t, const char *text, int out[GD_MAX_DIMS])
{
    bool chosen[GD_MAX_DIMS] = {false};
    const char *word, *rest = text ? text : "";
    int length, words = 0;
    while ((length = next_word(&rest, &word)) != 0) {
        int axis = length < 0 ? -1 : find_word(what, t, word, length);
        if (length < 0) (void)gd_fail(t->head.ctx, GD_AXIS, "%s: an empty axis name in '%.80s'", what, text);
        if (axis < 0) return -1;
        if (chosen[axis]) {
            (void)gd_fail(t->head.ctx, GD_AXIS, "%s: axis '%.*s' is named twice", what, length, word);
            return -1;
        }
        chosen[axis] = true;
        words++;
    }
    int count = 0;
    for (int i = 0; i < t->ndim; i++)
        if (chosen[i] || !words) out[count++] = i;
    return count;
}

int gd__parse_axis(const char *what, const gd_tensor *t, const char *text)
{
    int axes[GD_MAX_DIMS];
    int count = gd__parse_axes(what, t, text, axes);
    if (count == 1) return axes[0];
    char shape[256];
    if (count >= 0)
        (void)gd_fail(t->head.ctx, GD_AXIS, "%s: needs one axis, '%.80s' names %d of %s", what,
                      text ? text : "", count, gd__shape_text(t, shape, sizeof shape));
    return -1;
}

/* ---- naming ---- */

/* A view of x with the given axes block (consumed, also on failure). */
static gd_tensor *with_axes(gd_tensor *x, gd_axes *axes)
{
    gd_tensor *out = gd__bare(x);
    if (out)
        out->axes = axes;
    else
        gd__axes_release(axes);
    return gd__recorded(GD_OP_relabel, x, &(gd_attrs){0}, out);
}

static gd_axes *axes_copy(gd_ctx *ctx, const gd_axes *from)
{
    gd_axes *axes = gd__axes_new(ctx);
    for (int i = 0; axes && from && i < GD_MAX_DIMS; i++) {
        axes->name[i] = from->name[i];
        axes->labels[i] = gd__labels_retain(from->labels[i]);
    }
    return axes;
}

static bool name_taken(const gd_axes *axes, int ndim, int but, const char *name)
{
    for (int i = 0; i < ndim; i++)
        if (i != but && name && axes->name[i] == name) return true;
    return false;
}

/* Puts a name ("_" or empty: anonymous) on one axis. */
static gd_status set_name(const char *what, gd_axes *axes, const gd_tensor *x, int axis, const char *word,
                          int length)
{
    gd_ctx *ctx = x->head.ctx;
    bool anonymous = length == 0 || (length == 1 && word[0] == '_');
    if (!anonymous && is_number(word, length))
        return gd_fail(ctx, GD_AXIS, "%s: '%.*s' is a number, not a name", what, length, word);
    const char *name = anonymous ? NULL : gd__intern(ctx, word, (size_t)length);
    if (!anonymous && !name) return GD_NOMEM;
    if (name_taken(axes, x->ndim, axis, name))
        return gd_fail(ctx, GD_AXIS, "%s: two axes would be named '%s'", what, name);
    axes->name[axis] = name;
    return GD_OK;
}

gd_tensor *gd_rename(gd_tensor *x, const char *names)
{
    if (!x) return NULL;
    gd_ctx *ctx = x->head.ctx;
    gd_axes *axes = axes_copy(ctx, x->axes);
    if (!axes) return NULL;
    memset(axes->name, 0, sizeof axes->name);
    const char *word, *rest = names ? names : "";
    int length, axis = 0;
    gd_status status = GD_OK;
    while (!status && (length = next_word(&rest, &word)) != 0) {
        if (axis < x->ndim) status = set_name("rename", axes, x, axis, word, length < 0 ? 0 : length);
        axis++;
    }
    if (!status && axis != x->ndim)
        status = gd_fail(ctx, GD_AXIS, "rename: %d names for %d axes", axis, (int)x->ndim);
    if (!status) return with_axes(x, axes);
    gd__axes_release(axes);
    return NULL;
}

gd_tensor *gd__rename_axis(gd_tensor *x, const char *what, int axis, const char *name)
{
    gd_axes *axes = axes_copy(x->head.ctx, x->axes);
    if (!axes) return NULL;
    const char *word = name ? name : "";
    if (set_name(what, axes, x, axis, word, (int)strlen(word)) == GD_OK) return with_axes(x, axes);
    gd__axes_release(axes);
    return NULL;
}

gd_tensor *gd_rename_axis(gd_tensor *x, const char *axis, const char *name)
{
    if (!x) return NULL;
    int at = gd__parse_axis("rename_axis", x, axis);
    return at < 0 ? NULL : gd__rename_axis(x, "rename_axis", at, name);
}

gd_tensor *gd_drop_names(gd_tensor *x)
{
    if (!x) return NULL;
    return with_axes(x, NULL);
}

static int compare_pointers(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

/* Equal labels are equal pointers: sorted, two neighbours would meet. */
gd_status gd__labels_repeat(const gd_labels *labels, const char **twice)
{
    size_t bytes = (size_t)labels->count * sizeof *labels->text;
    const char **sorted = gd__alloc(labels->ctx, bytes);
    *twice = NULL;
    if (!sorted) return GD_NOMEM;
    memcpy(sorted, labels->text, bytes);
    qsort(sorted, (size_t)labels->count, sizeof *sorted, compare_pointers);
    for (int64_t i = 1; i < labels->count; i++)
        if (sorted[i] == sorted[i - 1]) *twice = sorted[i];
    gd__free(labels->ctx, sorted, bytes);
    return GD_OK;
}

static gd_status check_distinct(gd_ctx *ctx, const gd_labels *labels, const char *axis)
{
    const char *twice;
    gd_status status = gd__labels_repeat(labels, &twice);
    if (status || !twice) return status;
    return gd_fail(ctx, GD_LABEL, "with_labels: axis %s has the label '%.80s' twice", axis, twice);
}

static gd_labels *interned_labels(gd_ctx *ctx, int64_t count, const char *const *text, const char *axis)
{
    gd_labels *labels = gd__labels_new(ctx, count);
    gd_status status = labels ? GD_OK : GD_NOMEM;
    for (int64_t i = 0; i < count && !status; i++) {
        if (!text[i])
            status = gd_fail(ctx, GD_LABEL, "with_labels: label %lld is NULL", (long long)i);
        else if (!(labels->text[i] = gd__intern(ctx, text[i], strlen(text[i]))))
            status = GD_NOMEM;
    }
    if (!status) status = check_distinct(ctx, labels, axis);
    if (!status) return labels;
    gd__labels_release(labels);
    return NULL;
}

gd_tensor *gd_with_labels(gd_tensor *x, const char *axis, const char *const *labels)
{
    if (!x) return NULL;
    gd_ctx *ctx = x->head.ctx;
    int at = gd__parse_axis("with_labels", x, axis);
    if (at < 0) return NULL;
    char text[64];
    gd_labels *made = NULL;
    if (labels && !(made = interned_labels(ctx, x->size[at], labels, gd__axis_text(x, at, text))))
        return NULL;
    gd_axes *axes = axes_copy(ctx, x->axes);
    if (!axes) {
        gd__labels_release(made);
        return NULL;
    }
    gd__labels_release(axes->labels[at]);
    axes->labels[at] = made;
    return with_axes(x, axes);
}
