/* The operator table and the recorded graph. */
#ifndef GD_TENSOR_OP_H
#define GD_TENSOR_OP_H

#include "gradus/tensor.h"

/* How an operator is run. */
typedef enum gd_op_kind {
    GD_KIND_MAP,  /* element-wise, result of the operands' dtype: one vector kernel per compute type */
    GD_KIND_TEST, /* element-wise, result bool */
    GD_KIND_VIEW, /* no kernel: a view of the same storage */
    GD_KIND_FULL, /* its own kernel on contiguous operands */
    GD_KIND_LAID  /* its own kernel on operands with any strides */
} gd_op_kind;

/* What the gradient rule reads: bits of `needs`. */
enum {
    GD_NEEDS_NONE = 0,
    GD_NEEDS_A = 1,
    GD_NEEDS_B = 2,
    GD_NEEDS_AB = 3,
    GD_NEEDS_C = 4,
    GD_NEEDS_ABC = 7,
    GD_NEEDS_OUT = 8,
    GD_NEEDS_AO = 9,
    GD_NEEDS_ABO = 11
};

/* Dtypes that it takes without conversion: bits of `takes`. For FULL kernels others are widened, the whole tensor at once: f16 and bf16
 * to f32, small integers and bool to i64. */
enum {
    GD_TAKES_FLOATS = 0,
    GD_TAKES_INTS = 1,    /* element-wise: integers, too */
    GD_TAKES_WHOLE = 33,  /* element-wise: integers only; for bool a different operator (gd__binary) */
    GD_TAKES_ANY = 3,     /* only moves or reads elements: bool, too, without widening */
    GD_TAKES_HALVES = 4,  /* f16 and bf16 if a backend has such kernels (gd_backend.narrow) */
    GD_TAKES_SMALL = 9,   /* the same for small integers and bool */
    GD_TAKES_SUMMED = 16, /* f16 and bf16, also by backends that take them unconverted only in sums */
    GD_TAKES_NARROW = 29  /* all of these */
};

typedef enum gd_op_id {
#define OP(name, ...)  GD_OP_##name,
#define OP0(name, ...) GD_OP_##name,
#include "tensor/ops.def"
    GD_OP_COUNT
} gd_op_id;

typedef struct gd_op {
    const char *name;
    int8_t inputs, outputs; /* -1: any number */
    gd_op_kind kind;
    uint8_t needs, takes;
    bool differentiable;
} gd_op;

extern const gd_op gd__ops[GD_OP_COUNT];

#define GD_MAX_OUTPUTS 3  /* of a kernel */
#define GD_MAX_ATTRS   16 /* two numbers per axis */

/* Settings of one operator call; only the first ni and nf are used. */
typedef struct gd_attrs {
    int ni, nf;
    int64_t i[GD_MAX_ATTRS];
    double f[2];
} gd_attrs;

/* One call of a kernel: outputs are made, shaped and contiguous; those of matmul may be matrices with rows apart in a batch of
 * any strides. */
typedef struct gd_call {
    gd_op_id op;
    int nin, nout;
    gd_tensor *const *in;
    gd_tensor *const *out;
    const gd_attrs *attrs; /* never NULL */
} gd_call;

/* How a tensor was computed.  Holds references to its inputs; an input whose values no rule needs is held as a ghost
 * (shape and history without storage) when it is large. */
typedef struct gd_node {
    gd_ctx *ctx;
    uint32_t refs;
    uint8_t op, nout, ni, nf;
    int nin;
    uint64_t sequence; /* later nodes have larger numbers */
    uint64_t pass;     /* last traversal that saw it */
    size_t slot;       /* its index in that traversal */
    gd_tensor **in;    /* points into the same block, like the following members */
    gd_tensor *
        *out;   /* with NEEDS_OUT or several outputs: historyless aliases (values and shapes), NULL else */
    int64_t *i; /* attributes */
    uint32_t *version, *out_version; /* storage versions of inputs and outputs when recorded */
    double f[2];
    bool spent; /* its saved tensors were freed by a backward pass */
    size_t bytes;
} gd_node;

/* Runs the kernel of op on the device of its outputs and records it.  Outputs were made by the caller. */
gd_status gd__run(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs, gd_tensor *const *out,
                  int nout);
/* Records without running a kernel: views. */
gd_status gd__record(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs, gd_tensor *const *out,
                     int nout);
/* Kernel only. */
gd_status gd__execute(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs,
                      gd_tensor *const *out, int nout);
/* run() for the common case of one output; returns it, or releases it and returns NULL on failure. */
gd_tensor *gd__run1(gd_op_id op, gd_tensor *const *in, int nin, const gd_attrs *attrs, gd_tensor *out);

/* The head of the data of a `custom` node (autograd/custom.c): its address is the node's first attribute. */
typedef struct gd_node_user {
    void (*end)(struct gd_node_user *user);
} gd_node_user;

void gd__node_retain(gd_node *node);
void gd__node_release(gd_node *node);
/* Drops inputs and saved outputs after a backward pass that does not retain the graph. */
void gd__node_spend(gd_node *node);
bool gd__wants_grad(const gd_tensor *t);

#endif
