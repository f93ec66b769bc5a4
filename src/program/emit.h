/* Common code of the emitters of C and of table kernels: the walk over the instructions of a pass, and its words. */
#ifndef GD_PROGRAM_EMIT_H
#define GD_PROGRAM_EMIT_H

#include "program/dialect.h"
#include "program/element.h"

typedef struct gd_pass_walk {
    const gd_program *p;
    const gd_pass *pass;
    const gd_dialect *d;
    gd_text *out;
    int type;                      /* of the computation */
    int16_t number[GD_MAX_INSTRS]; /* of the value or scalar an instruction becomes */
    const char *first; /* what is added to the index of an element for its number in the tensor: "start + " */
    const char *blocks; /* the index into the buffers of codes; NULL: codes are read one by one */
} gd_pass_walk;

#define GD_WORD 48  /* longest operand: a number */
#define GD_LINE 512 /* longest expression */

/* A walk over a pass: scalars and values numbered each from 0. */
gd_pass_walk gd__walk_begin(const gd_program *p, const gd_pass *pass, const gd_dialect *d, gd_text *out);
/* A number as a literal that reads back as the same bits in every locale: 3.0f, or 0x3p-2f for 0.75. */
void gd__write_literal(const gd_pass_walk *w, double value, char *word);
void gd__write_operand(const gd_pass_walk *w, int32_t instr, char *word);
/* The expression of an instruction with operands for a, b, c and functions of the walk's type. */
void gd__write_expression(const gd_pass_walk *w, unsigned op, char (*operand)[GD_WORD], char *line);
/* Joins the value `from` to `to`: adds them, or finds the larger one. */
void gd__write_joined(const gd_pass_walk *w, bool adds, const char *to, const char *from, char *line);
/* The initial value of a reduction, as a literal. */
void gd__write_nothing(const gd_pass_walk *w, bool adds, char *word);
bool gd__walk_sums(const gd_pass_walk *w, int r); /* does the r-th reduction of the pass add? */
/* The lines that compute the values of element `at`, and those that store them.  Codes are not stored but left as f32 in yK[],
 * stochastic rounding uses the key zK of its gd__noise_number and the number start + at. */
void gd__put_values(const gd_pass_walk *w, const char *indent, const char *at);
void gd__put_stores(const gd_pass_walk *w, const char *indent, const char *at);
/* The name of an array's elements in memory. */
const char *gd__memory_word(const gd_pass_walk *w, int array);
/* Is an array one of codes?  Is one of these? */
bool gd__is_coded(const gd_pass_walk *w, int array);
bool gd__has_codes(const gd_pass_walk *w, uint32_t arrays);
/* The owner of the rounding key of an array: that of the first of the pass that has the same. */
int gd__noise_number(const gd_pass_walk *w, int array);
/* "signed" or "positive". */
const char *gd__code_kind(const gd_pass_walk *w, int array);
void gd__put_lines(gd_text *out, const char *const *line);

#endif
