/* Weights of classes; see recipe.h. */
#include "train/model/recipe.h"
#include "base/text/suggest.h"

#include <string.h>

static void balance(const gd_checkpoint *c, gd_tensor *y, double *weight)
{
    const int64_t *of = gd_data(y);
    int64_t rows = gd_numel(y), classes = c->recipe.outputs;
    for (int64_t k = 0; k < classes; k++) weight[k] = 0;
    for (int64_t i = 0; i < rows; i++) weight[of[i]]++;
    for (int64_t k = 0; k < classes; k++)
        weight[k] = weight[k] > 0 ? (double)rows / ((double)classes * weight[k]) : 1;
}

static gd_status no_class(const gd_checkpoint *c, const char *name, size_t length)
{
    gd_suggest nearest = gd__suggest(name, length);
    for (int i = 0; i < c->recipe.classes.count; i++) gd__suggest_try(&nearest, c->recipe.classes.word[i]);
    char hint[GD_HINT_SIZE];
    return gd_fail(c->ctx, GD_ARGUMENT, "train: {class_weights}: no class '%.*s'%s",
                   length < 60 ? (int)length : 60, name, gd__suggest_hint(&nearest, hint));
}

/* CLASS=WEIGHT; split at the last '=', because a class may contain others. */
static gd_status read_weight(const gd_checkpoint *c, const char *item, size_t length, double *weight)
{
    size_t name = length;
    double value = 0;
    while (name > 0 && item[name - 1] != '=') name--;
    if (name < 2 || !gd__is_number(item + name, length - name, false, &value) || !(value > 0 && value < 1e30))
        return gd_fail(
            c->ctx, GD_ARGUMENT,
            "train: {class_weights}: '%.*s' is not CLASS=WEIGHT with a weight above 0, nor is it 'balanced'",
            length < 60 ? (int)length : 60, item);
    for (int k = 0; k < c->recipe.classes.count; k++) {
        const char *word = c->recipe.classes.word[k];
        if (strlen(word) != name - 1 || memcmp(word, item, name - 1) != 0) continue;
        weight[k] = value;
        return GD_OK;
    }
    return no_class(c, item, name - 1);
}

gd_status gd__class_weights(gd_checkpoint *c, gd_tensor *y)
{
    const char *text = c->recipe.class_weights;
    gd_release(c->weight);
    if (!(c->weight = gd_ones(c->ctx, GD_F64, 1, &c->recipe.outputs))) return gd_error(c->ctx);
    double *weight = gd_data_mut(c->weight);
    if (!strcmp(text, "balanced")) {
        balance(c, y, weight);
        return GD_OK;
    }
    gd_status status = GD_OK;
    for (const char *at = text; !status; at++) {
        size_t length = strcspn(at, ",");
        status = read_weight(c, at, length, weight);
        at += length;
        if (!*at) break;
    }
    return status;
}
