/* clip_norm and normalize: scale the update by a norm of it.
 *
 * dim none: the norm of each tensor; "global": of all tensors together; a number or list: along those axes, for each
 * position on the others (then the link works on tensors, not as a rule).  Tensors with fewer than min_size elements
 * under the norm stay as they are. */
#include "gradus/link.h"

#include <math.h>
#include <stdio.h>

#define NORM_FIELDS                                                                            \
    {.name = "ord",                                                                            \
     .kinds = GD_SET_REAL,                                                                     \
     .fallback = {.kind = GD_SET_REAL, .real = 2},                                             \
     .low = 1e-3,                                                                              \
     .high = INFINITY,                                                                         \
     .structural = true,                                                                       \
     .help = "order of the norm"},                                                             \
        {.name = "dim",                                                                        \
         .kinds = GD_SET_NONE | GD_SET_REAL | GD_SET_LIST | GD_SET_STRING,                     \
         .fallback = {.kind = GD_SET_NONE},                                                    \
         .low = -GD_MAX_DIMS,                                                                  \
         .high = GD_MAX_DIMS - 1,                                                              \
         .integer = true,                                                                      \
         .choices = "global",                                                                  \
         .structural = true,                                                                   \
         .whole = true,                                                                        \
         .help = "none: each tensor has its norm; \"global\": all together have one, as "      \
                 "PyTorch's clip_grad_norm_; numbers: along those axes"},                      \
        GD_FLAG("inverse_dims", false, "take the norm along the axes that dim does not name"), \
        {.name = "min_size",                                                                   \
         .kinds = GD_SET_REAL,                                                                 \
         .fallback = {.kind = GD_SET_REAL, .real = 1},                                         \
         .low = 0,                                                                             \
         .high = INFINITY,                                                                     \
         .integer = true,                                                                      \
         .help = "tensors with fewer elements under the norm are left alone"},                 \
        GD_TARGET

static const gd_field clip_fields[] = {GD_REAL_NEEDED("max_norm", 0, INFINITY, "largest norm"), NORM_FIELDS};
static const gd_field normalize_fields[] = {
    GD_REAL("norm_value", 1, -INFINITY, INFINITY, "norm of the result"), NORM_FIELDS};

/* The norm as a uniform value, and the update times factor(norm) where the tensor is large enough. */
static gd_value norm_of(gd_rule *r, gd_value u)
{
    gd_extent extent = gd_rule_is(r, "dim", "global") ? GD_ALL : GD_EACH;
    return gd_rule_norm(r, u, gd_rule_number(r, "ord"), extent);
}

static gd_value scaled(gd_rule *r, gd_value u, gd_value factor)
{
    gd_value enough = gd_rule_ge(r, gd_rule_numel(r), gd_rule_setting(r, "min_size"));
    return gd_rule_mul(r, u, gd_rule_where(r, enough, factor, gd_rule_const(r, 1)));
}

static gd_value clip_norm_rule(gd_rule *r, gd_value u)
{
    gd_value norm = norm_of(r, u), most = gd_rule_setting(r, "max_norm");
    gd_value over = gd_rule_gt(r, norm, most);
    return scaled(r, u, gd_rule_where(r, over, gd_rule_div(r, most, norm), gd_rule_const(r, 1)));
}

/* A zero update stays zero. */
static gd_value normalize_rule(gd_rule *r, gd_value u)
{
    gd_value norm = norm_of(r, u), one = gd_rule_const(r, 1);
    gd_value divisor = gd_rule_where(r, gd_rule_eq(r, norm, gd_rule_const(r, 0)), one, norm);
    return scaled(r, u, gd_rule_div(r, gd_rule_setting(r, "norm_value"), divisor));
}

/* ---- along axes ---- */

static bool whole_tensors(const gd_link *link)
{
    unsigned kind = gd_link_get(link, "dim", NULL)->kind;
    return kind == GD_SET_NONE || kind == GD_SET_STRING;
}

/* Which axes of an ndim-dimensional tensor the norm runs along: a bit each. */
static unsigned chosen_axes(const gd_link *link, const gd_tensor *key, int ndim)
{
    const gd_setting *dim = gd_link_get(link, "dim", NULL);
    const double *list = dim->kind == GD_SET_LIST ? dim->list : &dim->real;
    int count = dim->kind == GD_SET_LIST ? dim->list_count : 1;
    unsigned mask = 0;
    for (int i = 0; i < count; i++) {
        int axis = (int)list[i] + (list[i] < 0 ? ndim : 0);
        if (axis >= 0 && axis < ndim) mask |= 1u << axis;
    }
    return gd_link_real(link, "inverse_dims", key) != 0 ? ~mask & ((1u << ndim) - 1) : mask;
}

static gd_tensor *scaled_along(const gd_link *link, const gd_tensor *key, gd_tensor *x, unsigned mask,
                               bool clip)
{
    char axes[4 * GD_MAX_DIMS] = "";
    size_t used = 0;
    double count = 1;
    for (int i = 0; i < gd_ndim(x); i++) {
        if (!(mask >> i & 1)) continue;
        used += (size_t)snprintf(axes + used, sizeof axes - used, "%d,", i);
        count *= (double)gd_size(x, i);
    }
    if (!mask || count < gd_link_real(link, "min_size", key)) return x;
    gd_tensor *bare = gd_drop_names(x), *norm = gd_norm(bare, gd_link_real(link, "ord", key), axes, true);
    if (!norm) return NULL;
    gd_tensor *one = gd_ones_like(norm), *factor;
    if (clip) {
        gd_tensor *most = gd_full_like(norm, gd_link_real(link, "max_norm", key));
        factor = gd_where(gd_gt(norm, most), gd_div(most, norm), one);
    } else {
        gd_tensor *divisor = gd_where(gd_eq(norm, gd_zeros_like(norm)), one, norm);
        factor = gd_div(gd_full_like(norm, gd_link_real(link, "norm_value", key)), divisor);
    }
    return gd_mul(bare, factor);
}

static gd_status along_axes(const gd_transform *t, bool clip)
{
    for (int i = 0; i < t->count; i++) {
        unsigned mask = chosen_axes(t->link, t->keys[i], gd_ndim(t->tensors[i]));
        t->tensors[i] = scaled_along(t->link, t->keys[i], t->tensors[i], mask, clip);
        if (!t->tensors[i]) return gd_error(gd_link_ctx(t->link));
    }
    return GD_OK;
}

static gd_status clip_norm_apply(const gd_transform *t) { return along_axes(t, true); }

static gd_status normalize_apply(const gd_transform *t) { return along_axes(t, false); }

const gd_link_class gd_link_clip_norm = {
    .spread = GD_SPREAD_TENSOR,
    .name = "clip_norm",
    .family = "clipping",
    .summary = "scales the update down to a largest norm",
    .formula = "u * min(1, max_norm / norm(u))",
    .paper = "Pascanu, Mikolov & Bengio, On the difficulty of training recurrent neural networks, ICML 2013",
    .cost = "one more pass, for the norm; with dim a few passes over every tensor",
    .example = "clip_norm(1, dim=\"global\") | adam | lr(0.001)",
    GD_FIELDS(clip_fields),
    .rule = clip_norm_rule,
    .element_wise = whole_tensors,
    .apply_tensors = clip_norm_apply,
    .reads_only = true,
};

const gd_link_class gd_link_normalize = {
    .spread = GD_SPREAD_TENSOR,
    .name = "normalize",
    .family = "clipping",
    .summary = "scales the update to a norm",
    .formula = "u * norm_value / norm(u)",
    .cost = "one more pass, for the norm; with dim a few passes over every tensor",
    .example = "normalize | lr(0.1)",
    GD_FIELDS(normalize_fields),
    .rule = normalize_rule,
    .element_wise = whole_tensors,
    .apply_tensors = normalize_apply,
    .reads_only = true,
};
