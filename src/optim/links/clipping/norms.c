/* clip_norm and normalize: scale the update by a norm of it.
 *
 * dim none: the norm of each tensor; "global": of all tensors together; a number or list: along those axes, for each
 * position on the others.  Tensors with fewer than min_size elements per norm stay as they are. */
#include "gradus/link.h"

#include <math.h>

#define NORM_FIELDS                                                                                      \
    GD_NORM_ORDER,                                                                                       \
        {.name = "dim",                                                                                  \
         .kinds = GD_SET_NONE | GD_SET_REAL | GD_SET_LIST | GD_SET_STRING,                               \
         .fallback = {.kind = GD_SET_NONE},                                                              \
         .low = -GD_MAX_DIMS,                                                                            \
         .high = GD_MAX_DIMS - 1,                                                                        \
         .integer = true,                                                                                \
         .choices = "global",                                                                            \
         .structural = true,                                                                             \
         .whole = true,                                                                                  \
         .help = "none: each tensor has its norm; \"global\": all together have one, as "                \
                 "PyTorch's clip_grad_norm_; numbers: along those axes"},                                \
        GD_FLAG("inverse_dims", false, "take the norm along the axes that dim does not name"),           \
        GD_INT("min_size", 1, 0, INFINITY, "tensors with fewer elements under the norm are left alone"), \
        GD_TARGET

static const gd_field clip_fields[] = {GD_REAL_NEEDED("max_norm", 0, INFINITY, "largest norm"), NORM_FIELDS};
static const gd_field normalize_fields[] = {
    GD_REAL("norm_value", 1, -INFINITY, INFINITY, "norm of the result"), NORM_FIELDS};

/* The axes of the norm. */
typedef struct scope {
    bool axes;     /* along some axes, for each position on the others */
    unsigned mask; /* those */
} scope;

static scope scope_of(gd_rule *r)
{
    bool whole = gd_rule_is_none(r, "dim") || gd_rule_is(r, "dim", "global");
    return (scope){.axes = !whole, .mask = whole ? 0 : gd_rule_axes(r, "dim", "inverse_dims")};
}

static gd_value norm_of(gd_rule *r, scope s, gd_value u)
{
    double ord = gd_rule_number(r, "ord");
    if (s.axes) return gd_rule_norm_along(r, u, ord, s.mask);
    return gd_rule_norm(r, u, ord, gd_rule_is(r, "dim", "global") ? GD_ALL : GD_EACH);
}

/* The update times a factor if there are enough elements per norm. */
static gd_value scaled(gd_rule *r, scope s, gd_value u, gd_value factor)
{
    gd_value count = s.axes ? gd_rule_count_along(r, s.mask) : gd_rule_numel(r);
    gd_value enough = gd_rule_ge(r, count, gd_rule_setting(r, "min_size"));
    return gd_rule_mul(r, u, gd_rule_where(r, enough, factor, gd_rule_const(r, 1)));
}

static gd_value clip_norm_rule(gd_rule *r, gd_value u)
{
    scope s = scope_of(r);
    if (s.axes && !s.mask) return u;
    gd_value norm = norm_of(r, s, u), most = gd_rule_setting(r, "max_norm");
    gd_value over = gd_rule_gt(r, norm, most);
    return scaled(r, s, u, gd_rule_where(r, over, gd_rule_div(r, most, norm), gd_rule_const(r, 1)));
}

/* A zero update stays zero. */
static gd_value normalize_rule(gd_rule *r, gd_value u)
{
    scope s = scope_of(r);
    if (s.axes && !s.mask) return u;
    gd_value norm = norm_of(r, s, u), one = gd_rule_const(r, 1);
    gd_value divisor = gd_rule_where(r, gd_rule_eq(r, norm, gd_rule_const(r, 0)), one, norm);
    return scaled(r, s, u, gd_rule_div(r, gd_rule_setting(r, "norm_value"), divisor));
}

static bool along_axes(const gd_link *link)
{
    unsigned kind = gd_link_get(link, "dim", NULL)->kind;
    return kind != GD_SET_NONE && kind != GD_SET_STRING;
}

GD_LINK(clipping, clip_norm,
    .summary = "scales the update down to a largest norm",
    .formula = "u * min(1, max_norm / norm(u))",
    .paper = "Pascanu, Mikolov & Bengio, On the difficulty of training recurrent neural networks, ICML 2013",
    .cost = "one more pass, for the norm",
    .example = "clip_norm(1, dim=\"global\") | adam | lr(0.001)",
    GD_FIELDS(clip_fields),
    .rule = clip_norm_rule,
    .along_axes = along_axes);

GD_LINK(clipping, normalize,
    .summary = "scales the update to a norm",
    .formula = "u * norm_value / norm(u)",
    .cost = "one more pass, for the norm",
    .example = "normalize | lr(0.1)",
    GD_FIELDS(normalize_fields),
    .rule = normalize_rule,
    .along_axes = along_axes);
