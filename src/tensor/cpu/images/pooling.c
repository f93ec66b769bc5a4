/* Poolings of images [batch, channel, height, width] on the CPU: the highest number, or the mean, of each window.
 * attrs.i = size, stride, padding.  The mean counts padding as zeros. */
#include "tensor/cpu/images/pooling.h"
#include "tensor/cpu/cpu.h"

static gd_status run_planes(gd_device *device, const gd_call *call, const gd_tensor *image,
                            const gd_tensor *windows, void (*kernel)(void *, int64_t), gd_pooling *p)
{
    p->planes = image->size[0] * image->size[1];
    p->height = image->size[2];
    p->width = image->size[3];
    p->down = windows->size[2];
    p->across = windows->size[3];
    p->size = call->attrs->i[0];
    p->stride = call->attrs->i[1];
    p->padding = call->attrs->i[2];
    p->to = call->out[0]->data;
    if (call->out[0]->numel == 0) return GD_OK;
    int64_t work = p->height * p->width + p->down * p->across * p->size * p->size / 4;
    p->group = GD_MICROBATCH / (work + 1) + 1;
    gd__run_tasks(device->ctx, p->planes * work, (p->planes + p->group - 1) / p->group, kernel, p);
    return GD_OK;
}

static const gd_pool_table *kernels(gd_device *device, const gd_tensor *x)
{
    return &gd__vec(device)->pool[x->dtype == GD_F64];
}

gd_status gd__cpu_max_pool2d(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0];
    gd_pooling p = {.x = x->data};
    return run_planes(device, call, x, call->out[0], kernels(device, x)->highest, &p);
}

gd_status gd__cpu_avg_pool2d(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0];
    gd_pooling p = {.x = x->data};
    return run_planes(device, call, x, call->out[0], kernels(device, x)->mean, &p);
}

gd_status gd__cpu_max_pool2d_grad(gd_device *device, const gd_call *call)
{
    gd_tensor *g = call->in[0], *x = call->in[1];
    gd_pooling p = {.x = x->data, .g = g->data};
    return run_planes(device, call, x, g, kernels(device, x)->highest_grad, &p);
}

gd_status gd__cpu_avg_pool2d_grad(gd_device *device, const gd_call *call)
{
    gd_tensor *g = call->in[0];
    gd_pooling p = {.g = g->data};
    return run_planes(device, call, call->out[0], g, kernels(device, g)->mean_grad, &p);
}
