/* One table of operator cases: how to make inputs, how to apply the operator, what the result must be.
 * The suites for values, gradients, threads and failing allocations all loop over it, so a new row is
 * tested everywhere at once, and an operator of ops.def without a row fails tensor/cases. */
#ifndef GD_TESTS_OP_CASES_H
#define GD_TESTS_OP_CASES_H

#include "support/support.h"
#include "tensor/op.h"

/* How an operand lies in memory. */
typedef enum layout {
    CONTIGUOUS,
    STRIDED,   /* axes reversed in memory, every second element, maybe backwards; NaN in between */
    BROADCAST, /* shapes that broadcast, or an axis of stride 0 */
    EMPTY,     /* no elements */
    SINGLE,    /* one element, 0-dimensional where the operator takes that */
    LABELLED,  /* names and labels, the second operand in another order */
    LAYOUTS
} layout;

extern const char *const layout_names[LAYOUTS];

/* What numbers an operand holds. */
typedef enum domain {
    ANY,       /* distinct, in [-2, 2], none near 0 */
    POSITIVE,  /* distinct, in [0.3, 2.3] */
    ABOVE_ONE, /* in [-0.7, 2], for log1p */
    LOW_TAIL,  /* distinct, in [-6, -3]: where a normal distribution has next to nothing */
    INSIDE,    /* distinct, in [-0.8, 0.8], for asin */
    FEW,       /* -1, 0 or 1 */
    WITH_ZERO, /* as ANY, the first element 0 */
    GRID,      /* multiples of 1/64 */
    PLACES,    /* i64, 0 to limit - 1 */
    TRUTH,     /* bool */
    DEFINITE,  /* the last two axes are symmetric and positive definite */
    SPREAD,    /* symmetric with eigenvalues well apart; rectangular with singular values well apart */
    TRIANGLE,  /* diagonal near 1.5, small below and above */
    REGULAR    /* well-conditioned */
} domain;

/* Shapes are texts: "row=2 col=3"; the names are used in the labelled layout.  NULL: the layout does not
 * apply. */
typedef struct operand_spec {
    domain domain;
    const char *shape;
    const char *broadcast; /* a shape that broadcasts; NULL: axis 0 is expanded from size 1 */
    const char *empty;
    const char *single;
    const char *large; /* enough elements for several threads; NULL: as shape */
    int limit;
} operand_spec;

#define MAX_OPERANDS 3

enum {
    FLOATS = 1 << GD_F32 | 1 << GD_F64 | 1 << GD_F16 | 1 << GD_BF16,
    INTEGERS = 1 << GD_I32 | 1 << GD_I64 | 1 << GD_U8,
    NUMBERS = FLOATS | INTEGERS,
    EVERYTHING = NUMBERS | 1 << GD_BOOL
};

#define NO_OPERATOR (-1)

typedef struct op_case {
    const char *name; /* the public function without gd_; '/' and a variant may follow */
    int op;           /* the operator of ops.def that the case runs at least once, or NO_OPERATOR */
    gd_tensor *(*apply)(gd_ctx *ctx, gd_tensor *const *in);
    /* The result in long double from the operands; or NULL, and `holds` says whether a result is right. */
    void (*reference)(const array *in, array *out);
    const char *(*holds)(const array *in, const array *out, long double eps);
    int operands;
    operand_spec in[MAX_OPERANDS];
    unsigned dtypes;
    int order;       /* derivatives that exist and must pass gradcheck: 0, 1 or 2 */
    const char *why; /* order 1: why not 2 */
    bool scramble;   /* labelled: operands after the first come with reversed axes and labels */
    double error;    /* allowed error in units of the dtype's epsilon, times the scale; 0: 2 */
    double eps;      /* step of the difference quotient; 0: 1e-6 */
    bool apart;      /* other devices are compared element by element, not by the largest */
} op_case;

/* All rows, family after family. */
int op_case_count(void);
const op_case *op_case_at(int k);

typedef struct op_case_table {
    const op_case *row;
    int count;
} op_case_table;

extern const op_case_table elementwise_cases, reduce_cases, shape_cases, linear_cases, network_cases,
    image_cases, make_cases;

/* Operands of one case as tensors (to be handed to case_apply) and, where asked for, as plain arrays. */
typedef struct case_inputs {
    const op_case *c;
    layout layout;
    bool large;
    gd_tensor *leaf[MAX_OPERANDS];
    array value[MAX_OPERANDS];
} case_inputs;

bool case_has_layout(const op_case *c, layout l);
/* f64, or i64 for a case of integers alone. */
gd_dtype case_dtype(const op_case *c);
/* Fills inputs from a seed; everything lives in the innermost scope.  False when there was no memory. */
bool case_build(case_inputs *inputs, gd_ctx *ctx, const op_case *c, layout l, gd_dtype dtype, uint64_t seed,
                bool large, bool with_values);
/* The same operands, laid out the same way, in another context; much faster than building them anew.  No
 * names. */
bool case_clone(case_inputs *to, gd_ctx *ctx, const case_inputs *from);
void case_free(case_inputs *inputs); /* the plain arrays */
/* The operator on the operands; in the broadcast layout operands are expanded here, so that gradients meet
 * the expansion. */
gd_tensor *case_apply(const case_inputs *inputs, gd_ctx *ctx, gd_tensor *const *leaf);

/* An operand on a device, its axes in the same order in memory: views on the CPU become views there. */
gd_tensor *case_moved(gd_tensor *t, gd_device *device);

/* One test a layout, of the function run(layout). */
#define DEFINE_LAYOUT_TESTS(run)                                                   \
    static void contiguous_inputs(void **state) { (void)state, run(CONTIGUOUS); }  \
    static void strided_inputs(void **state) { (void)state, run(STRIDED); }        \
    static void broadcast_inputs(void **state) { (void)state, run(BROADCAST); }    \
    static void inputs_without_elements(void **state) { (void)state, run(EMPTY); } \
    static void single_elements(void **state) { (void)state, run(SINGLE); }        \
    static void labelled_inputs(void **state) { (void)state, run(LABELLED); }
#define LAYOUT_TESTS                                                                   \
    cmocka_unit_test(contiguous_inputs), cmocka_unit_test(strided_inputs),             \
        cmocka_unit_test(broadcast_inputs), cmocka_unit_test(inputs_without_elements), \
        cmocka_unit_test(single_elements), cmocka_unit_test(labelled_inputs)

/* For rows: the function that applies an expression of in[]; an operand without names. */
#define APPLY(name, expression)                                       \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                 \
        (void)ctx;                                                    \
        return expression;                                            \
    }
#define BARE(k) gd_drop_names(in[k])

#endif
