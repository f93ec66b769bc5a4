/* The models: see trace_models.h.  Each is written as its formula is; nothing is rearranged for speed. */
#include "trace/trace_models.h"
#include "transformer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- statistics and physics, f64 ---- */

/* Minus the mean log likelihood of points [n, d]: weights [k], means [k, d], logarithms of deviations [k, d]. */
static gd_tensor *mixture(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    gd_tensor *const *data = user;
    gd_tensor *apart = gd_sub(gd_unsqueeze(data[0], 1, NULL), in[1]);
    gd_tensor *z = gd_mul(apart, gd_exp(gd_neg(in[2])));
    gd_tensor *near = gd_mul_scalar(gd_sum(gd_square(z), "2", false), -0.5);
    gd_tensor *level = gd_sub(gd_log_softmax(in[0], "0"), gd_sum(in[2], "1", false));
    return gd_neg(gd_mean(gd_logsumexp(gd_add(near, level), "1", false), NULL, false));
}

/* Squared distances of points [n, d], [n, n]. */
static gd_tensor *squares_between(gd_tensor *x)
{
    gd_tensor *apart = gd_sub(gd_unsqueeze(x, 1, NULL), gd_unsqueeze(x, 0, NULL));
    return gd_sum(gd_square(apart), "2", false);
}

/* Stress of a map: how far distances are from those wanted, [n, n]. */
static gd_tensor *stress(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    gd_tensor *const *data = user;
    gd_tensor *distance = gd_sqrt(gd_add_scalar(squares_between(in[0]), 1e-3));
    return gd_mean(gd_square(gd_sub(distance, data[0])), NULL, false);
}

/* Lennard-Jones energy of atoms [n, 3]. */
static gd_tensor *lennard_jones(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    gd_tensor *same = gd_eye(gd_tensor_ctx(in[0]), GD_F64, gd_size(in[0], 0), gd_size(in[0], 0));
    gd_tensor *square = gd_add(squares_between(in[0]), same);
    gd_tensor *sixth = gd_pow_scalar(square, -3);
    gd_tensor *pairs = gd_mul(gd_sub(gd_square(sixth), sixth), gd_add_scalar(gd_neg(same), 1));
    return gd_mul_scalar(gd_sum(pairs, NULL, false), 2);
}

/* ---- networks, f32 ---- */

static gd_tensor *layer(gd_tensor *x, gd_tensor *weight, gd_tensor *bias)
{
    return gd_add(gd_matmul(x, weight), bias);
}

/* Three layers with tanh, mean square error. */
static gd_tensor *perceptron(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    gd_tensor *const *data = user, *x = data[0];
    for (int k = 0; k < 2; k++) x = gd_tanh(layer(x, in[2 * k], in[2 * k + 1]));
    return gd_mse(layer(x, in[4], in[5]), data[1]);
}

static gd_status recurrent_step(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                                gd_tensor **y)
{
    (void)y;
    gd_tensor *const *weight = user;
    next[0] = gd_tanh(gd_add(gd_matmul(x[0], weight[0]), layer(state[0], weight[1], weight[2])));
    return next[0] ? GD_OK : GD_NOMEM;
}

static void end_weights(void *user)
{
    gd_tensor **weight = user;
    for (int k = 0; k < 3; k++) gd_release(weight[k]);
    free(weight);
}

/* A recurrent network over 200 steps, by gd_scan: the square of its last state. */
static gd_tensor *recurrent(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    gd_tensor *const *data = user, *last;
    gd_tensor **weight = malloc(3 * sizeof *weight);
    for (int k = 0; k < 3 && weight; k++) gd_retain(weight[k] = in[k]);
    gd_scan_body body = {
        .step = recurrent_step, .user = weight, .destroy = end_weights, .states = 1, .xs = 1};
    gd_tensor *begin = gd_zeros(gd_tensor_ctx(in[0]), GD_F32, 2,
                                (int64_t[]){gd_size(data[0], 1), gd_size(in[1], 0)});
    if (!weight || gd_scan(gd_tensor_ctx(in[0]), &body, &begin, data, gd_size(data[0], 0), &last, NULL))
        return NULL;
    return gd_mean(gd_square(last), NULL, false);
}

static gd_tensor *classifier(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    gd_tensor *const *data = user;
    return gd_cross_entropy(layer(gd_relu(layer(data[0], in[0], in[1])), in[2], in[3]), data[1]);
}

/* Two convolutions of 3 x 3, each with relu and the largest of 2 x 2. */
static gd_tensor *convolutions(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    gd_tensor *const *data = user, *x = data[0];
    for (int k = 0; k < 2; k++)
        x = gd_max_pool2d(gd_relu(gd_conv2d(x, in[2 * k], in[2 * k + 1], 1, 1)), 2, 2, 0);
    x = gd_reshape(x, 2, (int64_t[]){gd_size(x, 0), -1});
    return gd_cross_entropy(layer(x, in[4], in[5]), data[1]);
}

const bench_model bench_models[] = {
    {"mixture", "Gaussian mixture, 10000 x 4, 8 parts", mixture, GD_F64, "8 8x4 8x4", "10000x4", 0.5, false,
     1},
    {"stress", "pairwise loss, 500 x 500", stress, GD_F64, "500x3", "500x500", 1, false, 1},
    {"atoms", "Lennard-Jones, 100 atoms", lennard_jones, GD_F64, "100x3", "", 3, false, 1},
    {"perceptron", "MLP 32-64-64-1, batch 1024", perceptron, GD_F32, "32x64 64 64x64 64 64x1 1",
     "1024x32 1024x1", 0.2, false, 1},
    {"recurrent", "RNN of 200 steps, 16 x 32", recurrent, GD_F32, "8x32 32x32 32", "200x16x8", 0.2, false, 1},
    {"classifier", "784-256-10 network, batch 128", classifier, GD_F32, "784x256 256 256x10 10",
     "128x784 i128:10", 0.05, true, 0.8},
    {"convolutions", "convolutional network, batch 128", convolutions, GD_F32,
     "16x1x3x3 16 32x16x3x3 32 1568x10 10", "128x1x28x28 i128:10", 0.1, true, 1},
    {0},
};

/* ---- running ---- */

static gd_tensor *drawn(gd_ctx *ctx, const bench_model *model, const char **at, double scale)
{
    int64_t size[GD_MAX_DIMS];
    int n = 0, length;
    long count, below;
    if (sscanf(*at, "i%ld:%ld%n", &count, &below, &length) == 2) {
        *at += length;
        return bench_labels(ctx, count, below);
    }
    do {
        size[n++] = strtol(*at, (char **)(uintptr_t)at, 10);
    } while (*(*at) == 'x' && *++*at);
    gd_tensor *raw = gd_randn(ctx, model->dtype, n, size), *made = gd_mul_scalar(raw, scale);
    gd_release(raw);
    return made;
}

static int draw_all(gd_ctx *ctx, const bench_model *model, const char *text, double scale, gd_tensor **out)
{
    int count = 0;
    while (*text && count < MODEL_TENSORS) {
        out[count++] = drawn(ctx, model, &text, scale);
        text += *text == ' ';
    }
    return count;
}

void bench_model_open(model_run *run, gd_ctx *ctx, const bench_model *model)
{
    gd_trace_options o = gd_trace_defaults();
    *run = (model_run){.ctx = ctx};
    o.compile = GD_TRACE_AT_ONCE;
    gd_seed(ctx, 1);
    run->inputs = draw_all(ctx, model, model->inputs, model->scale, run->input);
    run->captured = draw_all(ctx, model, model->data, 1, run->data);
    run->traced = gd_trace(ctx, model->function, run->data, &o);
}

void bench_model_gradient(void *arg)
{
    model_run *run = arg;
    (void)!gd_traced_gradient(run->traced, run->input, run->inputs, &run->value, run->grad);
}

void bench_model_close(model_run *run)
{
    gd_traced_free(run->traced);
    for (int i = 0; i < run->inputs; i++) gd_release(run->input[i]);
    for (int i = 0; i < run->captured; i++) gd_release(run->data[i]);
}
