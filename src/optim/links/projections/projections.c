/* Chains that step over other tensors than the parameters: all elements as one vector, each element as a tensor of its own,
 * copies of a different dtype or on a different device.
 *
 *     vector_projection([shampoo])             one vector: norms over all, matrices between any two elements
 *     scalar_projection([normalize | lr(1)])   a tensor per element: operations per tensor become operations per element
 *     to([adam], "f64")                        a step in a different precision
 *
 * What the chain keeps is of the projected tensors.  A line search inside moves the projected tensors; the objective is evaluated at
 * the parameters that they represent. scalar_projection keeps a tensor and an entry of state per element: use it for few elements. */
#include "gradus/link/projection.h"

#define CHAIN(h) GD_CHILD_NEEDED("modules", h)

static const gd_field fields[] = {
    CHAIN("the chain that steps over the projected tensors"),
    GD_FLAG("project_update", true, "the chain is given the update; else it begins with the gradient"),
    GD_FLAG("project_params", true, "it is given the parameters, and may evaluate; else they are zeros"),
    GD_FLAG("project_grad", true,
            "it is given the gradient where that is there; else it evaluates to have it"),
};

static unsigned wanted(const gd_link *link)
{
    return (gd_link_flag(link, "project_update") ? GD_PROJECT_UPDATE : 0u) |
           (gd_link_flag(link, "project_params") ? GD_PROJECT_PARAMS : 0u) |
           (gd_link_flag(link, "project_grad") ? GD_PROJECT_GRAD : 0u);
}

/* ---- one vector ---- */

static gd_status to_vector(gd_link *link, gd_tensor *const *tensors, int count, gd_tensor **out)
{
    (void)link;
    out[0] = gd_list_vector(tensors, count);
    return GD_OK;
}

static gd_status from_vector(gd_link *link, gd_tensor *const *stand_ins, gd_tensor *const *params, int count,
                             gd_tensor **out)
{
    (void)link;
    return gd_list_split(stand_ins[0], params, count, out);
}

static const gd_projection vector = {.project = to_vector, .unproject = from_vector};

/* ---- scalars ---- */

static int64_t elements(const gd_tensor *param) { return gd_numel(param); }

static gd_status to_scalars(gd_link *link, gd_tensor *const *tensors, int count, gd_tensor **out)
{
    (void)link;
    for (int i = 0; i < count; i++) {
        int64_t n = gd_numel(tensors[i]);
        gd_tensor *flat = gd_reshape(gd_drop_names(tensors[i]), 1, &n);
        for (int64_t k = 0; k < n; k++) *out++ = gd_index(flat, "0", k);
    }
    return GD_OK;
}

static gd_status from_scalars(gd_link *link, gd_tensor *const *stand_ins, gd_tensor *const *params, int count,
                              gd_tensor **out)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        int64_t n = gd_numel(params[i]);
        gd_tensor *flat = n ? gd_stack(stand_ins, (int)n, 0, NULL) : gd_zeros_like(params[i]);
        status = flat ? gd_list_split(gd_reshape(gd_drop_names(flat), 1, &n), &params[i], 1, &out[i])
                      : gd_error(gd_link_ctx(link));
        stand_ins += n;
    }
    return status;
}

static const gd_projection scalar = {.parts = elements, .project = to_scalars, .unproject = from_scalars};

static gd_status projected_step(gd_link *link, gd_var *var)
{
    return gd_link_step_projected(link, gd_link_child(link, "modules"), var,
                                  gd_link_class_of(link)->projection, wanted(link));
}

/* ---- copies ---- */

static const gd_field to_fields[] = {
    CHAIN("the chain that steps over the copies"),
    {.name = "dtype",
     .kinds = GD_SET_STRING,
     .choices = "f32|f64|f16|bf16",
     .help = "of the copies of parameters, gradients and update"},
    {.name = "device",
     .kinds = GD_SET_STRING | GD_SET_NONE,
     .fallback = {.kind = GD_SET_NONE},
     .help = "where they are, as cpu or gpu:1; none: where each parameter is"},
};

static gd_tensor *converted(gd_link *link, gd_tensor *t)
{
    const gd_setting *device = gd_link_get(link, "device", NULL);
    gd_tensor *cast = gd_cast(t, gd_dtype_from_name(gd_link_get(link, "dtype", NULL)->string));
    if (device->kind != GD_SET_STRING) return cast;
    gd_device *place = gd_device_get(gd_link_ctx(link), device->string);
    return place ? gd_to_device(cast, place) : NULL;
}

static gd_status to_copies(gd_link *link, gd_tensor *const *tensors, int count, gd_tensor **out)
{
    for (int i = 0; i < count; i++) out[i] = converted(link, tensors[i]);
    return GD_OK;
}

static gd_status from_copies(gd_link *link, gd_tensor *const *stand_ins, gd_tensor *const *params, int count,
                             gd_tensor **out)
{
    (void)link;
    for (int i = 0; i < count; i++)
        out[i] = gd_cast(gd_to_device(stand_ins[i], gd_tensor_device(params[i])), gd_tensor_dtype(params[i]));
    return GD_OK;
}

static const gd_projection copies = {
    .parts = gd_project_each, .project = to_copies, .unproject = from_copies};

static gd_status to_step(gd_link *link, gd_var *var)
{
    return gd_link_step_projected(link, gd_link_child(link, "modules"), var, &copies, GD_PROJECT_ALL);
}

/* ---- parameters without work ---- */

static const gd_field real_fields[] = {CHAIN("the chain that steps over real tensors")};

static gd_status real_step(gd_link *link, gd_var *var)
{
    if (!gd_link_has_global(link, "told")) {
        gd_warn(gd_link_ctx(link), "view_as_real: there are no complex parameters, its chain runs as it is");
        gd_status status = gd_link_keep(link, "told", 1);
        if (status) return status;
    }
    return gd_link_step(gd_link_child(link, "modules"), var);
}

#define PROJECTION(link_name, what, text, example_text, cost_text, by) \
    GD_LINK(projections, link_name, .spread = GD_SPREAD_WHOLE, .summary = what, .formula = text, \
            .cost = cost_text, .example = example_text, GD_FIELDS(fields), \
            .step = projected_step, .projection = by, .traits.no_child_hessian = true)

PROJECTION(vector_projection, "a chain over all parameters as one vector",
           "modules(all of u as one vector), cut apart", "vector_projection([normalize | lr(0.1)])",
           "that of the chain; a vector of all parameters, copies both ways", &vector);
PROJECTION(scalar_projection, "a chain over every element as a tensor of its own",
           "modules(u_i) for each element i", "scalar_projection([adam | lr(0.1)])",
           "that of the chain for a tensor per element: for few elements", &scalar);

GD_LINK(projections, to,
    .spread = GD_SPREAD_WHOLE,
    .summary = "a chain over copies of a different dtype or on a different device",
    .formula = "modules(u as dtype), cast back",
    .cost = "that of the chain; a copy of the parameters, copies of gradient and update both ways",
    .example = "to([adam | lr(0.001)], \"f64\")",
    GD_FIELDS(to_fields),
    .step = to_step,
    .projection = &copies,
    .traits.no_child_hessian = true);

GD_LINK(projections, view_as_real,
    .spread = GD_SPREAD_WHOLE,
    .summary =
        "a chain over complex parameters as real ones; there are no complex dtypes: the chain itself, with a warning",
    .formula = "modules(u)",
    .cost = "that of the chain",
    .example = "view_as_real([adam | lr(0.001)])",
    GD_FIELDS(real_fields),
    .step = real_step);
