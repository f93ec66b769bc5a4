/* Adam (Kingma & Ba 2015) in twenty lines, on the parameters of a module. */
#ifndef EXAMPLES_ADAM_H
#define EXAMPLES_ADAM_H

#include <math.h>

#include <gradus/module.h>

typedef struct adam {
    gd_named *parameters;
    gd_module *mean, *square; /* plain containers of tensors, one a parameter */
    int step;
} adam;

static inline gd_status adam_begin(adam *a, gd_module *model)
{
    gd_ctx *ctx = gd_module_ctx(model);
    *a = (adam){.parameters = gd_module_parameters(model, NULL),
                .mean = gd_module_new(gd_class_module(ctx)),
                .square = gd_module_new(gd_class_module(ctx))};
    gd_scope_begin(ctx);
    for (int64_t i = 0; i < gd_named_count(a->parameters); i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        gd_tensor *zeros = gd_zeros_like(gd_named_tensor(a->parameters, i));
        if (gd_module_set_tensor(a->mean, name, zeros) || gd_module_set_tensor(a->square, name, zeros)) break;
    }
    gd_scope_end(ctx);
    return gd_error(ctx);
}

/* One step with the gradients the parameters have; then they have none. */
static inline gd_status adam_step(adam *a, double rate)
{
    gd_ctx *ctx = gd_module_ctx(a->mean);
    gd_status status = GD_OK;
    a->step++;
    double bias1 = 1 - pow(0.9, a->step), bias2 = 1 - pow(0.999, a->step);
    gd_scope_begin(ctx);
    for (int64_t i = 0; i < gd_named_count(a->parameters) && !status; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        gd_tensor *p = gd_named_tensor(a->parameters, i), *g = gd_grad_of(p);
        gd_tensor *m = gd_module_get_tensor(a->mean, name), *v = gd_module_get_tensor(a->square, name);
        if (!g) continue;
        status = gd_assign(m, gd_add(gd_mul_scalar(m, 0.9), gd_mul_scalar(g, 0.1)));
        if (!status)
            status = gd_assign(v, gd_add(gd_mul_scalar(v, 0.999), gd_mul_scalar(gd_square(g), 0.001)));
        gd_tensor *root = gd_add_scalar(gd_sqrt(gd_mul_scalar(v, 1 / bias2)), 1e-8);
        if (!status) status = gd_add_into(p, gd_div(m, root), -rate / bias1);
        gd_zero_grad(p);
    }
    gd_scope_end(ctx);
    return status;
}

static inline void adam_end(adam *a)
{
    gd_named_release(a->parameters);
    gd_module_release(a->mean);
    gd_module_release(a->square);
}

#endif
