/* Layers of a model; see train_network.h. */
#include "train/model/train_network.h"
#include "gradus/layers.h"
#include "module/layers/layer.h"

#include <math.h>
#include <stdio.h>

/* ---- making ---- */

static gd_status add_layer(gd_network *m, int *count, const char *kind, int number, gd_module *layer)
{
    char name[24];
    (void)snprintf(name, sizeof name, number < 0 ? "%s" : "%s%d", kind, number);
    gd_status status = gd__add_child(m->module, name, layer);
    if (status) return status;
    m->layer[(*count)++] = gd_module_get_module(m->module, name);
    return GD_OK;
}

/* ---- codes ---- */

static int64_t codes_of(const gd_network_spec *s) { return s->columns ? s->columns->codes : 0; }

/* A table for each code. Its outputs have unit size, whatever its width. */
static gd_status add_embeddings(gd_ctx *ctx, gd_network *m, gd_dtype dtype, int64_t *inputs)
{
    int64_t codes = codes_of(&m->spec);
    gd_embedding_options o = gd_embedding_defaults();
    o.dtype = dtype;
    if (codes && !(m->embed = gd__calloc(ctx, (size_t)codes * sizeof *m->embed))) return GD_NOMEM;
    m->embeds = codes;
    for (int64_t k = 0; k < codes; k++) {
        const gd_column *c = gd__columns_code(m->spec.columns, k);
        char name[24];
        o.std = 1 / sqrt((double)c->size);
        (void)snprintf(name, sizeof name, "embed%d", (int)k);
        gd_status status = gd__add_child(m->module, name,
                                         gd_embedding_new(ctx, c->words.count + 1, c->size, &o));
        if (status) return status;
        m->embed[k] = gd_module_get_module(m->module, name);
        *inputs += c->size - 1; /* in place of the code */
    }
    return GD_OK;
}

/* [rows, numbers + codes] becomes [rows, numbers + embeddings]. */
static gd_tensor *look_up(const gd_network *m, gd_tensor *x)
{
    int64_t numbers = m->spec.columns->numbers, codes = m->spec.columns->codes;
    gd_tensor *all = numbers ? gd_slice(x, "1", 0, numbers, 1) : NULL;
    for (int64_t k = 0; k < codes; k++) {
        gd_tensor *code = gd_cast(gd_detach(gd_index(x, "1", numbers + k)), GD_I64);
        gd_tensor *found = gd_module_call(m->embed[k], code);
        all = numbers || k ? gd_cat((gd_tensor *[]){all, found}, 2, "1") : found;
    }
    return all;
}

/* ---- all layers ---- */

/* Rows as [channels, height, width]. */
static gd_status shape_images(gd_ctx *ctx, gd_network *m, int row_axes, const int64_t *row)
{
    if (codes_of(&m->spec))
        return gd_fail(ctx, GD_SHAPE, "model: conv wants numbers, and the table has a column of many words");
    if (row_axes != 2 && row_axes != 3)
        return gd_fail(
            ctx, GD_SHAPE,
            "model: conv wants rows of height x width or channels x height x width, these have %d %s; "
            "{row} 28,28 says what they are",
            row_axes, row_axes == 1 ? "axis" : "axes");
    m->row_axes = 3;
    m->row[0] = row_axes == 3 ? row[0] : 1;
    m->row[1] = row[row_axes - 2];
    m->row[2] = row[row_axes - 1];
    return GD_OK;
}

static bool pools(const gd_network_spec *s, int64_t height, int64_t width)
{
    return s->pool > 1 && height >= s->pool && width >= s->pool;
}

static gd_status add_convolutions(gd_ctx *ctx, gd_network *m, gd_dtype dtype, int *count, int64_t *inputs)
{
    gd_conv2d_options o = gd_conv2d_defaults();
    int64_t channels = m->row[0], height = m->row[1], width = m->row[2];
    o.padding = (int)(m->spec.kernel / 2);
    o.dtype = dtype;
    for (int i = 0; i < m->spec.convs; i++) {
        gd_status status = add_layer(m, count, "conv", i,
                                     gd_conv2d_new(ctx, channels, m->spec.conv[i], m->spec.kernel, &o));
        if (status) return status;
        channels = m->spec.conv[i];
        if (pools(&m->spec, height, width)) height /= m->spec.pool, width /= m->spec.pool;
    }
    *inputs = channels * height * width;
    return GD_OK;
}

static gd_status fill(gd_ctx *ctx, gd_network *m, int64_t inputs, int64_t outputs, gd_dtype dtype)
{
    int count = 0;
    gd_linear_options o = gd_linear_defaults();
    o.dtype = dtype;
    gd_status status = m->spec.convs ? add_convolutions(ctx, m, dtype, &count, &inputs)
                                     : add_embeddings(ctx, m, dtype, &inputs);
    for (int i = 0; i < m->spec.denses && !status; i++) {
        status = add_layer(m, &count, "dense", i, gd_linear_new(ctx, inputs, m->spec.dense[i], &o));
        inputs = m->spec.dense[i];
    }
    return status ? status : add_layer(m, &count, "out", -1, gd_linear_new(ctx, inputs, outputs, &o));
}

gd_status gd__network_open(gd_ctx *ctx, const gd_network_spec *spec, int row_axes, const int64_t *row,
                           int64_t outputs, gd_dtype dtype, gd_network *out)
{
    *out = (gd_network){.spec = *spec, .row_axes = 1};
    int64_t inputs = 1;
    for (int i = 0; i < row_axes; i++) inputs *= row[i];
    out->row[0] = inputs;
    gd_status status = spec->convs ? shape_images(ctx, out, row_axes, row) : GD_OK;
    if (status) return status;
    out->module = gd_module_new(gd_class_module(ctx));
    return out->module ? fill(ctx, out, inputs, outputs, dtype) : gd_error(ctx);
}

void gd__network_close(gd_network *m)
{
    if (m->embed) gd__free(gd_module_ctx(m->module), m->embed, (size_t)m->embeds * sizeof *m->embed);
    gd_module_release(m->module);
    m->module = NULL;
    m->embed = NULL;
}

int64_t gd__network_parameters(const gd_network *m)
{
    int64_t numbers = 0;
    gd_named *all = gd_module_parameters(m->module, NULL);
    for (int64_t i = 0; all && i < gd_named_count(all); i++) numbers += gd_numel(gd_named_tensor(all, i));
    gd_named_release(all);
    return numbers;
}

double gd__network_numbers(const gd_network_spec *s, int row_axes, const int64_t *row, int64_t outputs)
{
    double inputs = 1, numbers = 0, channels = row_axes == 3 ? (double)row[0] : 1;
    for (int i = 0; i < row_axes; i++) inputs *= (double)row[i];
    for (int64_t k = 0; k < codes_of(s); k++) {
        const gd_column *c = gd__columns_code(s->columns, k);
        inputs += (double)c->size - 1;
        numbers += (double)c->size * (c->words.count + 1.0);
    }
    if (s->convs) {
        if (row_axes != 2 && row_axes != 3) return NAN;
        int64_t height = row[row_axes - 2], width = row[row_axes - 1];
        for (int i = 0; i < s->convs; i++) {
            numbers += (channels * (double)(s->kernel * s->kernel) + 1) * (double)s->conv[i];
            channels = (double)s->conv[i];
            if (pools(s, height, width)) height /= s->pool, width /= s->pool;
        }
        inputs = channels * (double)height * (double)width;
    }
    for (int i = 0; i < s->denses; i++) {
        numbers += (inputs + 1) * (double)s->dense[i];
        inputs = (double)s->dense[i];
    }
    return numbers + (inputs + 1) * (double)outputs;
}

/* ---- calling ---- */

static gd_tensor *activate(const gd_network *m, gd_tensor *x, bool training)
{
    x = gd__activate(m->spec.activation, x);
    return training && m->spec.dropout > 0 ? gd_dropout(x, m->spec.dropout) : x;
}

gd_tensor *gd__network_call(const gd_network *m, gd_tensor *x, bool training)
{
    if (!x) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(x);
    int64_t shape[4] = {gd_size(x, 0), m->row[0], m->row[1], m->row[2]}, rows = shape[0];
    int at = 0, pool = (int)m->spec.pool;
    gd_scope_begin(ctx);
    x = gd_reshape(x, m->row_axes + 1, shape);
    if (m->embed) x = look_up(m, x);
    for (int i = 0; i < m->spec.convs; i++) {
        x = activate(m, gd_module_call(m->layer[at++], x), training);
        if (x && pools(&m->spec, gd_size(x, 2), gd_size(x, 3))) x = gd_max_pool2d(x, pool, pool, 0);
    }
    if (m->spec.convs) x = gd_reshape(x, 2, (int64_t[]){rows, -1});
    for (int i = 0; i < m->spec.denses; i++) x = activate(m, gd_module_call(m->layer[at++], x), training);
    return gd__scope_leave(ctx, gd_module_call(m->layer[at], x));
}
