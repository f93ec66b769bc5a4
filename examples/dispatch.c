/* Functions chosen by the classes of two objects: a resampling that knows images and signals, and a model that owns a grid.
 *
 *   cc dispatch.c $(pkg-config --cflags --libs gradus) && ./a.out
 *
 * A functional of class Smooth is applied to objects of class Signal.  Spectrum is added below Signal later, with a function
 * of its own; the function for Signal still serves all other classes below it. */
#include <gradus/gradus.h>

#include <stdio.h>
#include <stdlib.h>

/* ---- a struct of one's own as an object ---- */

typedef struct grid {
    int points;
    double spacing;
} grid;

static gd_object *grid_object(gd_class *cls, int points, double spacing)
{
    grid *g = malloc(sizeof *g);
    if (!g) return NULL;
    *g = (grid){points, spacing};
    gd_object *object = gd_instance_new(cls, g, free);
    if (!object) free(g);
    return object;
}

static gd_object *grid_length(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_object_ctx(self);
    const grid *g = gd_instance_pointer(self);
    double scale = 1;
    const char *unit = "m";
    void *note = NULL;        /* any pointer */
    gd_object *beside = NULL; /* a second grid, whose length is added */
    if (gd_kwargs_only(ctx, kwargs, "scale, unit, note, beside") ||
        gd_kwargs_real(ctx, kwargs, "scale", &scale) || gd_kwargs_string(ctx, kwargs, "unit", &unit) ||
        gd_kwargs_pointer(ctx, kwargs, "note", &note) || gd_kwargs_object(ctx, kwargs, "beside", &beside))
        return NULL;
    double length = scale * (g->points - 1) * g->spacing;
    if (beside) {
        const grid *second = gd_instance_pointer(beside);
        length += scale * (second->points - 1) * second->spacing;
    }
    printf("length in %s%s: %g%s%s\n", unit, gd_kwargs_find(kwargs, "scale") ? ", scaled" : "", length,
           note ? "; " : "", note ? (const char *)note : "");
    return gd_tensor_object(gd_from_f64(ctx, GD_F64, 0, NULL, &length));
}

/* A grid follows its module to another dtype with half the points where numbers have half the bytes: a new instance, the old one
 * stays as it was. */
static gd_object *grid_moved(gd_object *object, gd_device *device, gd_dtype dtype, void *user)
{
    (void)device, (void)user;
    const grid *g = gd_instance_pointer(object);
    if (dtype != GD_F32) return object;
    return grid_object(user, g->points / 2, g->spacing * 2);
}

/* ---- functionals ---- */

/* The mean of neighbours; `other` (a tensor) is added where it is given. */
static gd_object *smooth_signal(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs,
                                void *user)
{
    (void)functional, (void)user;
    gd_tensor *x = gd_object_tensor(argument), *other = NULL;
    if (gd_kwargs_tensor(gd_object_ctx(argument), kwargs, "other", &other)) return NULL;
    int64_t n = gd_size(x, 0);
    gd_tensor *mean = gd_mul_scalar(gd_add(gd_slice(x, "0", 0, n - 1, 1), gd_slice(x, "0", 1, n, 1)), 0.5);
    return gd_tensor_object(other ? gd_add(mean, other) : mean);
}

/* A spectrum is not smoothed, it is cut: the upper half becomes 0. */
static gd_object *cut_spectrum(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs,
                               void *user)
{
    (void)functional, (void)kwargs, (void)user;
    gd_tensor *x = gd_object_tensor(argument);
    return gd_tensor_object(gd_slice(x, "0", 0, gd_size(x, 0) / 2, 1));
}

static void print_result(const char *what, gd_object *result)
{
    gd_tensor *t = gd_object_tensor(result);
    printf("%s:", what);
    for (int64_t i = 0; i < gd_numel(t); i++) printf(" %g", gd_at(t, &i));
    printf("\n");
}

static void print_classes(const char *what, const gd_class *const *cls, int count)
{
    printf("%s:", what);
    for (int i = 0; i < count; i++) printf(" %s", gd_class_name(cls[i]));
    printf("\n");
}

static void smooth_signals(gd_ctx *ctx)
{
    gd_class *signal = gd_class_new(ctx, "Signal", (gd_class *[]){gd_class_tensor(ctx)}, 1);
    gd_class *spectrum = gd_class_new(ctx, "Spectrum", &signal, 1);
    gd_class *smooth = gd_class_new(ctx, "Smooth", (gd_class *[]){gd_class_functional(ctx)}, 1);
    if (gd_register(smooth, signal, smooth_signal, NULL)) return;
    gd_tensor *x = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){4}, (double[]){1, 3, 5, 9});
    gd_object *f = gd_instance_new(smooth, NULL, NULL), *object = gd_tensor_object(x);
    printf("a plain tensor is taken: %s\n", gd_allows(f, object) ? "yes" : "no");
    if (gd_tensor_set_class(x, spectrum)) return;
    print_result("as a signal", gd_invoke(f, object, NULL));
    gd_tensor *one = gd_ones(ctx, GD_F64, 0, NULL);
    print_result("and one", gd_invoke(f, object, GD_KWARGS(gd_tensor_argument("other", one))));
    if (gd_register(smooth, spectrum, cut_spectrum, NULL)) return;
    print_result("as a spectrum", gd_invoke(f, object, NULL));

    int count = 0;
    const gd_class *const *order = gd_class_order(gd_object_class(object), &count);
    print_classes("searched", order, count);
    const gd_class *taken[4];
    count = gd_applicable_types(smooth, taken, 4);
    print_classes("registered", taken, count);
}

/* ---- a model that owns an object and a derived tensor ---- */

static gd_tensor *doubled(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    return gd_mul_scalar(gd_module_get_tensor(owner, "weight"), 2);
}

/* A virtual tensor that leaves the scope it was made in. */
static void derive_a_tensor(gd_ctx *ctx, gd_module *model)
{
    gd_virtual_options options = gd_virtual_defaults();
    options.fn = doubled;
    gd_scope_begin(ctx);
    gd_virtual *twice = gd_virtual_keep(gd_virtual_new(model, "twice", &options));
    gd_scope_end(ctx);
    printf("the virtual tensor belongs to the model: %s, sum %g\n",
           gd_virtual_owner(twice) == model ? "yes" : "no",
           gd_item(gd_sum(gd_virtual_value(twice), NULL, false)));
    gd_virtual_release(twice);
}

/* An object made in a scope and kept. */
static gd_object *kept_grid(gd_ctx *ctx, gd_class *cls)
{
    gd_scope_begin(ctx);
    gd_object *grid_of_three = gd_object_keep(grid_object(cls, 3, 0.5));
    gd_scope_end(ctx);
    return grid_of_three;
}

static void own_a_grid(gd_ctx *ctx)
{
    gd_class *grid_class = gd_class_new(ctx, "Grid", (gd_class *[]){gd_class_object(ctx)}, 1);
    if (gd_class_add_method(grid_class, "length", grid_length, NULL) ||
        gd_class_on_move(grid_class, grid_moved, grid_class))
        return;
    gd_module *model = gd_module_new(gd_class_module(ctx)), *part = gd_module_new(gd_class_module(ctx));
    if (gd_module_set_parameter(model, "weight", gd_ones(ctx, GD_F64, 1, (int64_t[]){3})) ||
        gd_module_set_object(model, "grid", grid_object(grid_class, 101, 0.5)) ||
        gd_module_set_module(model, "part", part) ||
        gd_module_set_pointer(model, "note", "kept for the caller", NULL))
        return;
    for (int i = 0; i < gd_module_count(model); i++)
        printf("%s%s", i ? ", " : "attributes: ", gd_module_name(model, i));
    gd_named *modules = gd_module_modules(model, NULL);
    for (int64_t i = 0; i < gd_named_count(modules); i++)
        printf("%s'%s' %s", i ? ", " : "; modules: ", gd_named_name(modules, i),
               gd_class_name(gd_module_class(gd_named_module(modules, i))));
    void *note = NULL;
    if (gd_module_get_pointer(model, "note", &note)) return;
    printf("; note: %s\n", (const char *)note);

    gd_object *before = gd_object_retain(gd_module_get_object(model, "grid"));
    if (gd_class_has_method(gd_object_class(before), "length"))
        (void)gd_call_method(before, "length",
                             GD_KWARGS(gd_real_argument("scale", 100), gd_string_argument("unit", "cm"),
                                       gd_pointer_argument("note", note),
                                       gd_object_argument("beside", kept_grid(ctx, grid_class))));
    derive_a_tensor(ctx, model);
    if (gd_module_to(model, GD_F32)) return;
    const grid *was = gd_instance_pointer(before),
               *is = gd_instance_pointer(gd_module_get_object(model, "grid"));
    printf("f32: %d points became %d\n", was->points, is->points);
    gd_object_release(before);
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    smooth_signals(ctx);
    own_a_grid(ctx);
    gd_scope_end(ctx);
    int status = gd_error(ctx) != GD_OK;
    if (status) fprintf(stderr, "dispatch: %s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status;
}
