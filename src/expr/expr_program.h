/* An expression as a program: nodes, each after its operands.
 *
 *   (1 - x)^2      0  VARIABLE x
 *                  1  NUMBER 1
 *                  2  BINARY sub   1 0
 *                  3  UNARY square 2          <- root */
#ifndef GD_EXPR_PROGRAM_H
#define GD_EXPR_PROGRAM_H

#include "expr/expr_internal.h"
#include "expr/expr_ode.h"
#include "base/text/suggest.h"
#include "tensor/op.h"

typedef gd_tensor *(*gd_expr_unary)(gd_tensor *);
typedef gd_tensor *(*gd_expr_binary)(gd_tensor *, gd_tensor *);
typedef gd_tensor *(*gd_expr_scalar)(gd_tensor *, double);
typedef gd_tensor *(*gd_expr_reduce)(gd_tensor *, const char *, bool);
typedef gd_tensor *(*gd_expr_along)(gd_tensor *, const char *);

typedef enum gd_expr_op {
    EXPR_NUMBER,
    EXPR_VARIABLE,
    EXPR_UNARY,
    EXPR_BINARY,
    EXPR_SCALAR, /* a tensor and `number` */
    EXPR_REDUCE, /* over `axis`, NULL: all */
    EXPR_ALONG,  /* softmax and its like: `axis` is one */
    EXPR_NORM,   /* of order `number` over `axis` */
    EXPR_INDEX,  /* integers: four per axis, see gd_expr_place */
    EXPR_GATHER, /* elements of the first axis by an array of numbers */
    EXPR_RESHAPE,
    EXPR_TRANSPOSE,
    EXPR_WHERE,
    EXPR_STACK,
    EXPR_ODE /* start values, times, start, values of its names; integers: which */
} gd_expr_op;

typedef struct gd_expr_node {
    uint8_t op;
    bool fixed;          /* the same in every evaluation: computed once */
    bool truth;          /* true or false: the result of comparisons, or slices of it */
    int at;              /* place in the text, for errors */
    int first, operands; /* in e->operand */
    int integer, integers;
    double number;
    const char *axis; /* interned */
    union {
        gd_expr_unary unary;
        gd_expr_binary binary;
        gd_expr_scalar scalar;
        gd_expr_reduce reduce;
        gd_expr_along along;
        int variable;
    } u;
} gd_expr_node;

/* One axis of an EXPR_INDEX as four integers: is it a range?  start or index, stop, step */
enum { PLACE_RANGE, PLACE_START, PLACE_STOP, PLACE_STEP, PLACE_SIZE };

struct gd_expr {
    gd_ctx *ctx;
    char *text;       /* definitions, then the expression */
    size_t own;       /* where the expression begins */
    const char *file; /* that the definitions are from; interned */
    bool equation;
    const char *left; /* the name on the left side of an equation, interned; NULL: something else */
    gd_expr_relation relation;
    gd_expr_node *node;
    int nodes;
    size_t node_bytes;
    int *operand;
    int operands;
    size_t operand_bytes;
    int64_t *integer;
    int integers;
    size_t integer_bytes;
    char **name; /* of the variables */
    bool *used;
    bool *fixed;
    int variables;
    size_t name_bytes, used_bytes, fixed_bytes;
    gd_expr_ode **ode; /* differential equations */
    int odes;
    size_t ode_bytes;
    gd_tensor **slot; /* one per node; those of fixed nodes hold a reference once computed */
    size_t slot_bytes;
    gd_dtype dtype; /* that the fixed slots were computed with */
    gd_device *device;
    int evaluations;               /* without gradients, since values of fixed nodes were forgotten */
    struct gd_expr_replays *again; /* recordings of such; NULL: none yet */
};

/* Functions by name. */
typedef enum gd_expr_kind {
    CALL_ELEMENT, /* element-wise, of one or two numbers */
    CALL_UNARY,
    CALL_BINARY,
    CALL_REDUCE,
    CALL_EXTREME, /* max, min: reduction of one, element-wise for several */
    CALL_ALONG,
    CALL_NORM,
    CALL_TRANSPOSE,
    CALL_RESHAPE,
    CALL_WHERE,
    CALL_BESSEL,
    CALL_ODE /* its first argument is a text */
} gd_expr_kind;

typedef struct gd_expr_call {
    const char *name; /* of a function if there is a help */
    gd_expr_kind kind;
    int least, most; /* arguments without axis= */
    gd_expr_unary unary;
    gd_expr_binary binary;
    gd_expr_reduce reduce;
    gd_expr_along along;
    gd_op_id op; /* CALL_ELEMENT */
    const char *help;
    char over; /* sum(k = 1..5, ...): how terms are joined; 0: it takes no range */
} gd_expr_call;

/* ---- building; a node number, or -1 with the error recorded (an operand of -1 means the same) ---- */

gd_expr_node gd__expr_node(gd_expr_op op, int at);
int gd__expr_number(gd_expr *e, int at, double value);
int gd__expr_add_variable(gd_expr *e, const char *name, size_t length);
int gd__expr_variable_node(gd_expr *e, int at, int variable);
/* A node as given, with its operands and integers; an existing equal node is reused. */
int gd__expr_add(gd_expr *e, gd_expr_node node, const int *operand, int operands, const int64_t *integer,
                 int integers);
/* Of numbers: a number, of the operator's own bits in f64. */
int gd__expr_unary_node(gd_expr *e, int at, gd_expr_unary fn, int x);
/* op: + - * / % ^ @ & | < > and l for <=, g for >=, = for ==, ! for != */
int gd__expr_binary_node(gd_expr *e, int at, char op, int a, int b);
int gd__expr_scalar_node(gd_expr *e, int at, gd_expr_scalar fn, int x, double value);
int gd__expr_function_node(gd_expr *e, int at, gd_expr_binary fn, int a, int b);
/* The position in characters, not bytes, from 1: "expression: column 9", or of the file of definitions
 * "decay.gd: line 2, column 9".  Returns out. */
#define GD_EXPR_PLACE 160
const char *gd__expr_place(const gd_expr *e, int at, char out[GD_EXPR_PLACE]);
/* Room for `more` items in an array that knows its size in bytes. */
bool gd__expr_room(gd_expr *e, void *array, size_t *bytes, int count, int more, size_t item);
/* Is it a number? */
bool gd__expr_value(const gd_expr *e, int node, double *value);
/* Drops nodes that the root does not need; the root becomes the last node. */
gd_status gd__expr_finish(gd_expr *e, int root);

/* Is the value true or false rather than a number?  operand: numbers of nodes that are there. */
bool gd__expr_truth(const gd_expr *e, const gd_expr_node *node, const int *operand, int operands);

/* ---- element-wise operators ---- */

/* The precedence of a text in the target language. */
enum {
    GD_EXPR_LOOSE,
    GD_EXPR_COMPARED,
    GD_EXPR_SUM,
    GD_EXPR_PRODUCT,
    GD_EXPR_SIGNED,
    GD_EXPR_POWER,
    GD_EXPR_ATOM
};

typedef struct gd_expr_form_text {
    const char *text;   /* NULL: there is none */
    int8_t binds;       /* the whole */
    int8_t left, right; /* what operands must bind at least as tightly as */
} gd_expr_form_text;

typedef struct gd_expr_element {
    const char *name;
    int inputs;
    const char *help; /* of a function of that name, NULL: it is written otherwise */
    gd_expr_form_text form[GD_EXPR_LANGUAGES];
} gd_expr_element;

/* Of an element-wise operator; others have neither help nor forms. */
const gd_expr_element *gd__expr_element(gd_op_id op);
/* The operator of a function of tensors, GD_OP_COUNT: not element-wise; and vice versa, NULL: none. */
gd_op_id gd__expr_unary_op(gd_expr_unary fn);
gd_op_id gd__expr_binary_op(gd_expr_binary fn);
gd_expr_unary gd__expr_unary_of(gd_op_id op);
gd_expr_binary gd__expr_binary_of(gd_op_id op);
bool gd__expr_tests(gd_op_id op); /* Is its result true or false? */

/* ---- functions ---- */

const gd_expr_call *gd__expr_find_call(const char *name, size_t length);
/* ", did you mean 'exp'?": the nearest of those tried already and of the functions. */
void gd__expr_suggest_call(gd_suggest *nearest, char hint[GD_HINT_SIZE]);

#endif
