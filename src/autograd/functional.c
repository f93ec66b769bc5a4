/* Derivatives of functions: products with the Hessian and the Jacobian, and both as matrices. */
#include "autograd/rows.h"
#include "gradus/autograd.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <stdio.h>

/* Fresh leaves on the storage of the inputs; NULL on failure.  Freed by leaves_free. */
static gd_tensor **leaves_of(gd_ctx *ctx, gd_tensor *const *inputs, int count)
{
    gd_tensor **leaf = gd__calloc(ctx, (size_t)count * sizeof *leaf);
    bool made = leaf != NULL;
    for (int i = 0; i < count && made; i++) made = (leaf[i] = gd_require_grad(gd__alias(inputs[i]))) != NULL;
    if (made || !leaf) return leaf;
    gd__free(ctx, leaf, (size_t)count * sizeof *leaf);
    return NULL;
}

/* Everything a derivative needs while it is computed. */
typedef struct call {
    gd_ctx *ctx;
    int count, previous;
    gd_tensor **leaf, **grad;
    gd_tensor **v; /* vectors in the order of the inputs' axes; NULL: there are none */
    gd_tensor *out;
} call;

/* One vector per input, of its shape, with its axes and labels in the input's order. */
static gd_status take_vectors(call *c, const char *what, gd_tensor *const *inputs, gd_tensor *const *v)
{
    if (!(c->v = gd__calloc(c->ctx, (size_t)c->count * sizeof *c->v))) return GD_NOMEM;
    for (int i = 0; i < c->count; i++) {
        char a[256], b[256];
        if (!(c->v[i] = gd__aligned_to(what, v[i], inputs[i]))) return gd_error(c->ctx);
        if (gd__same_shape(c->v[i], inputs[i])) continue;
        return gd_fail(c->ctx, GD_SHAPE, "%s: vector %d is %s, the input %s", what, i,
                       gd__shape_text(v[i], a, sizeof a), gd__shape_text(inputs[i], b, sizeof b));
    }
    return GD_OK;
}

/* Evaluates fn at fresh leaves inside a scope with gradients on.  v may be NULL. */
static gd_status begin(call *c, const char *what, gd_function fn, void *user, gd_tensor *const *inputs,
                       int count, gd_tensor *const *v)
{
    if (count <= 0 || !gd__given(what, inputs, count)) return GD_ARGUMENT;
    if (!fn) return gd_fail(inputs[0]->head.ctx, GD_ARGUMENT, "%s: the function is NULL", what);
    c->ctx = inputs[0]->head.ctx;
    c->count = count;
    gd_scope_begin(c->ctx);
    c->previous = gd_enable_grad_begin(c->ctx);
    c->leaf = leaves_of(c->ctx, inputs, count);
    c->grad = c->leaf ? gd__calloc(c->ctx, (size_t)count * sizeof *c->grad) : NULL;
    if (!c->grad) return gd_error(c->ctx);
    gd_status fits = v ? take_vectors(c, what, inputs, v) : GD_OK;
    if (fits) return fits;
    c->out = fn(user, c->leaf, count);
    if (c->out) return GD_OK;
    gd_status status = gd_error(c->ctx);
    return status ? status : gd_fail(c->ctx, GD_CALLBACK, "%s: the function returned NULL", what);
}

static void end(call *c)
{
    if (!c->ctx) return;
    gd__free(c->ctx, c->v, (size_t)c->count * sizeof *c->v);
    gd__free(c->ctx, c->grad, (size_t)c->count * sizeof *c->grad);
    gd__free(c->ctx, c->leaf, (size_t)c->count * sizeof *c->leaf);
    gd_enable_grad_end(c->ctx, c->previous);
    gd_scope_end(c->ctx);
}

/* sum over inputs of <a_i, b_i>; inputs without a gradient count as 0. */
static gd_tensor *inner_product(gd_tensor *const *a, gd_tensor *const *b, int count)
{
    gd_tensor *sum = NULL;
    for (int i = 0; i < count; i++) {
        if (!a[i]) continue;
        gd_tensor *term = gd_sum(gd_mul(gd_drop_names(a[i]), gd_drop_names(b[i])), NULL, false);
        sum = sum ? gd_add(sum, term) : term;
        if (!sum) return NULL;
    }
    return sum;
}

gd_status gd_hvp(gd_function fn, void *user, gd_tensor *const *inputs, int count, gd_tensor *const *v,
                 gd_tensor **out)
{
    for (int i = 0; out && i < count; i++) out[i] = NULL;
    if (!out || !gd__given("hvp", inputs, count) || !gd__given("hvp", v, count)) return GD_ARGUMENT;
    call c = {0};
    gd_status status = begin(&c, "hvp", fn, user, inputs, count, v);
    if (!status) status = gd_grad(c.out, NULL, c.leaf, count, GD_CREATE_GRAPH, c.grad);
    gd_tensor *product = status ? NULL : inner_product(c.grad, c.v, count);
    if (!status && !product) status = gd_error(c.ctx);
    /* a gradient that does not depend on the inputs has Hessian zero */
    if (!status && gd_requires_grad(product))
        status = gd_grad(product, NULL, c.leaf, count, 0, out);
    else
        for (int i = 0; i < count && !status; i++)
            if (!(out[i] = gd_zeros_like(inputs[i]))) status = GD_NOMEM;
    for (int i = 0; i < count && !status; i++) gd_keep(out[i]);
    for (int i = 0; i < count && status; i++) out[i] = NULL;
    end(&c);
    return status;
}

/* J v as the derivative of u -> J^T u, which is linear, along v. */
gd_tensor *gd_jvp(gd_function fn, void *user, gd_tensor *const *inputs, int count, gd_tensor *const *v)
{
    if (!gd__given("jvp", inputs, count) || !gd__given("jvp", v, count)) return NULL;
    call c = {0};
    gd_tensor *result = NULL;
    if (begin(&c, "jvp", fn, user, inputs, count, v) == GD_OK) {
        gd_tensor *seed = gd_require_grad(gd_zeros_like(c.out)), *product = NULL;
        if (seed && gd_grad(c.out, seed, c.leaf, count, GD_CREATE_GRAPH, c.grad) == GD_OK)
            product = inner_product(c.grad, c.v, count);
        if (product && gd_grad(product, NULL, &seed, 1, 0, &result) == GD_OK) gd_keep(result);
    }
    end(&c);
    return result;
}

/* One matrix per input, [rows, elements of the input]. */
static gd_status make_rows(call *c, const char *what, int64_t rows, gd_tensor *const *inputs, gd_tensor **row)
{
    for (int i = 0; i < c->count; i++) {
        int64_t size[2] = {rows, inputs[i]->numel};
        row[i] = gd__new_checked(inputs[i]->storage->device, what, inputs[i]->dtype, 2, size);
        if (!row[i]) return gd_error(c->ctx);
    }
    return GD_OK;
}

/* The name, or with the first number from 2 on where axes 0..n have it already; NULL: none. */
static const char *new_name(gd_ctx *ctx, const gd_axes *axes, int n, const char *name)
{
    char text[128];
    const char *made = name;
    for (int number = 2, i = 0; made && i < n; i++) {
        if (axes->name[i] != made) continue;
        int length = snprintf(text, sizeof text, "%s%d", name, number++);
        made = length < (int)sizeof text ? gd__intern(ctx, text, (size_t)length) : NULL;
        i = -1;
    }
    return made;
}

/* Gives made the axes of a, then those of b, with names and labels; NULL, and made is released, if there is no memory. */
static gd_tensor *with_axes_of(gd_tensor *made, const gd_tensor *a, const gd_tensor *b)
{
    if (!made || (!a->axes && !b->axes)) return made;
    gd_axes *axes = gd__axes_new(made->head.ctx);
    for (int i = 0; i < made->ndim && axes; i++) {
        const gd_tensor *from = i < a->ndim ? a : b;
        int at = i < a->ndim ? i : i - a->ndim;
        axes->name[i] = new_name(made->head.ctx, axes, i, gd__name(from, at));
        if (axes->name[i]) axes->labels[i] = gd__labels_retain(gd__labels(from, at));
    }
    if (axes) {
        gd__axes_release(made->axes);
        made->axes = axes;
        return made;
    }
    gd_release(made);
    return NULL;
}

/* [output axes..., input axes...] */
static gd_tensor *shaped_jacobian(gd_tensor *rows, const gd_tensor *out, const gd_tensor *input)
{
    int64_t size[2 * GD_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < out->ndim; i++) size[n++] = out->size[i];
    for (int i = 0; i < input->ndim; i++) size[n++] = input->size[i];
    if (n > GD_MAX_DIMS)
        return gd__refuse(rows->head.ctx, GD_SHAPE, "jacobian: the result would have %d axes, more than %d",
                          n, GD_MAX_DIMS);
    return with_axes_of(gd_detach(gd__reshape(rows, n, size)), out, input);
}

/* Of the output that the call has by inputs. */
static gd_status jacobians(call *c, gd_tensor *const *inputs, gd_tensor **out)
{
    gd_status status = make_rows(c, "jacobian", c->out->numel, inputs, out);
    if (!status) status = gd__fill_rows(&c->out, 1, inputs, c->count, 0, out);
    for (int i = 0; i < c->count && !status; i++)
        if (!(out[i] = gd_keep(shaped_jacobian(out[i], c->out, inputs[i])))) status = gd_error(c->ctx);
    for (int i = 0; i < c->count && status; i++) out[i] = NULL;
    return status;
}

gd_status gd_jacobian(gd_function fn, void *user, gd_tensor *const *inputs, int count, gd_tensor **out)
{
    if (!out) return GD_ARGUMENT;
    for (int i = 0; i < count; i++) out[i] = NULL;
    call c = {0};
    gd_status status = begin(&c, "jacobian", fn, user, inputs, count, NULL);
    if (!status) status = jacobians(&c, c.leaf, out);
    end(&c);
    return status;
}

gd_status gd_jacobian_of(gd_tensor *output, gd_tensor *const *inputs, int count, gd_tensor **out)
{
    if (!output) return GD_ARGUMENT;
    if (!inputs || !out) return gd__null(output->head.ctx, "jacobian: inputs or out is NULL");
    for (int i = 0; i < count; i++) out[i] = NULL;
    if (count <= 0 || !gd__given("jacobian", inputs, count)) return GD_ARGUMENT;
    call c = {.ctx = output->head.ctx, .count = count, .out = output};
    gd_scope_begin(c.ctx);
    gd_status status = jacobians(&c, inputs, out);
    gd_scope_end(c.ctx);
    return status;
}

gd_tensor *gd_hessian(gd_function fn, void *user, gd_tensor *const *inputs, int count)
{
    call c = {0};
    gd_tensor *result = NULL;
    gd_status status = begin(&c, "hessian", fn, user, inputs, count, NULL);
    size_t bytes = (size_t)(count > 0 ? count : 0) * sizeof(gd_tensor *);
    if (!status) status = gd_grad(c.out, NULL, c.leaf, count, GD_CREATE_GRAPH, c.grad);
    gd_tensor **row = status ? NULL : gd__calloc(c.ctx, bytes);
    int64_t rows = 0;
    for (int i = 0; i < count && row; i++) rows += c.grad[i]->numel;
    if (row) {
        status = make_rows(&c, "hessian", rows, inputs, row);
        if (!status) status = gd__fill_rows(c.grad, count, c.leaf, count, 0, row);
        if (!status) result = gd_detach(gd_cat(row, count, "1"));
        if (result && count == 1 && inputs[0]->ndim == 1) result = with_axes_of(result, inputs[0], inputs[0]);
        result = gd_keep(result);
        gd__free(c.ctx, row, bytes);
    }
    end(&c);
    return result;
}
