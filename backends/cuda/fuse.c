/* Neighbouring element-wise operators as one kernel.  Each step is the operator's own expression (map.c), and its result is rounded
 * to its dtype, so the bits are those of one kernel per operator. */
#include "plugin.h"

#include "common_bytes.h"

#include <stdio.h>

typedef struct writer {
    char *text;
    size_t size, used; /* used is `size` where it does not fit */
} writer;

#define PUT(w, ...) add(w, snprintf((w)->text + (w)->used, (w)->size - (w)->used, __VA_ARGS__))

static void add(writer *w, int length)
{
    size_t left = w->size - w->used;
    w->used = length < 0 || (size_t)length >= left ? w->size : w->used + (size_t)length;
}

/* step_K: memory of the operands to memory of the result. */
static bool put_function(writer *w, const gd_fused_step *s, int k)
{
    const char *expression = s->op == GD_OP_cast ? "x" : cuda_expression(s->op);
    if (s->op == GD_OP_copy)
        PUT(w, "__device__ inline Memory<%d>::type step_%d(Memory<%d>::type a) { return a; }\n", (int)s->out,
            k, (int)s->first);
    if (s->op == GD_OP_copy || !expression) return s->op == GD_OP_copy;
    PUT(w, "__device__ inline Memory<%d>::type step_%d(Memory<%d>::type a", (int)s->out, k, (int)s->first);
    for (int i = 1; i < s->nin; i++) PUT(w, ", Memory<%d>::type %c", (int)s->other, 'a' + i);
    PUT(w, s->op == GD_OP_cast ? ")\n{\n" : ", const double *f)\n{\n    (void)f;\n");
    PUT(w, "    typedef Compute<%d>::type C;\n    Compute<%d>::type x = load<%d>(a);\n",
        (int)(s->op == GD_OP_cast ? s->out : s->other), (int)s->first, (int)s->first);
    for (int i = 1; i < s->nin; i++) PUT(w, "    C %c = load<%d>(%c);\n", 'x' + i, (int)s->other, 'a' + i);
    PUT(w, "    return store<%d>((Compute<%d>::type)(%s));\n}\n", (int)s->out, (int)s->out, expression);
    return true;
}

static void put_read(writer *w, const gd_fusion *f, int k)
{
    int dtype = (int)f->read[k].dtype;
    PUT(w, "        const Memory<%d>::type r%d = ((const Memory<%d>::type *)A.in[%d])[", dtype, k, dtype, k);
    if (f->read[k].way == GD_READ_STRIDED)
        PUT(w, "place(A, A.stride[%d], i)];\n", k);
    else
        PUT(w, f->read[k].way == GD_READ_DENSE ? "i];\n" : "0];\n");
}

static void put_step(writer *w, const gd_fused_step *s, int k)
{
    PUT(w, "        const Memory<%d>::type v%d = step_%d(", (int)s->out, k, k);
    for (int i = 0; i < s->nin; i++) {
        bool made = s->in[i] < 0;
        PUT(w, i ? ", %c%d" : "%c%d", made ? 'v' : 'r', made ? -1 - s->in[i] : s->in[i]);
    }
    PUT(w, s->op == GD_OP_copy || s->op == GD_OP_cast ? ");\n" : ", A.f[%d]);\n", k);
    if (s->store >= 0)
        PUT(w, "        ((Memory<%d>::type *)A.out[%d])[i] = v%d;\n", (int)s->out, s->store, k);
}

/* As gd_fused_launch; the place of element i among those of an operand, whose axes are those of the result. */
static const char arguments[] = "struct Args {\n"
                                "    i64 n, ndim, size[8];\n"
                                "    const void *in[16];\n"
                                "    i64 stride[16][8];\n"
                                "    void *out[32];\n"
                                "    double f[32][2];\n"
                                "};\n"
                                "__device__ inline i64 place(const Args &A, const i64 *stride, i64 i)\n"
                                "{\n"
                                "    i64 at = 0;\n"
                                "    for (int d = (int)A.ndim - 1; d >= 0; d--) {\n"
                                "        i64 k;\n"
                                "        if (i < 0x7fffffff && A.size[d] < 0x7fffffff) {\n"
                                "            unsigned r = (unsigned)i, s = (unsigned)A.size[d];\n"
                                "            k = r % s;\n"
                                "            i = r / s;\n"
                                "        } else {\n"
                                "            k = i % A.size[d];\n"
                                "            i /= A.size[d];\n"
                                "        }\n"
                                "        at += k * stride[d];\n"
                                "    }\n"
                                "    return at;\n"
                                "}\n";
_Static_assert(GD_MAX_DIMS == 8 && GD_FUSED_READS == 16 && GD_FUSED_STEPS == 32, "as the text above says");

size_t cuda_fuse_source(const gd_fusion *f, char *text, size_t size)
{
    writer w = {text, size, 0};
    bool written = true;
    PUT(&w, "%s\n%s", common_text, arguments);
    for (int k = 0; k < f->steps && written; k++) written = put_function(&w, &f->step[k], k);
    PUT(&w, "extern \"C\" __global__ void fused(const Args A)\n{\n    EACH(i, A.n)\n    {\n");
    for (int k = 0; k < f->reads; k++) put_read(&w, f, k);
    for (int k = 0; k < f->steps; k++) put_step(&w, &f->step[k], k);
    PUT(&w, "    }\n}\n");
    return written && w.used < size ? w.used : 0;
}

void *cuda_fuse(gd_device *device, const gd_fusion *fusion)
{
    char source[CUDA_SOURCE_SIZE];
    CUfunction kernel = NULL;
    if (!cuda_fuse_source(fusion, source, sizeof source)) {
        (void)device->host->fail(device->ctx, GD_INTERNAL, "%s: the kernel of %d operators is too long",
                                 device->name, fusion->steps);
        return NULL;
    }
    return cuda_kernel(device, "fused", source, "fused", &kernel) ? NULL : kernel;
}
