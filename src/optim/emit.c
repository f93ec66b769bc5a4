/* The emitter: writes a pass as a function.
 *
 *   void NAME(int64_t n, char *const *array, const double *scalar, double *out)
 *   {
 *       const float *restrict a0 = (const float *)array[0];     arrays that the pass touches
 *       const float s0 = (float)scalar[0];                      uniform values, in the compute type
 *       for (int64_t i = 0; i < n; i++) {
 *           const float v0 = a0[i];                             one line an instruction; vector code after the compiler
 *           ...
 *
 * Values are numbered in the order of the pass, so that equal kernels have equal text whatever program they come from.
 * The walk over instructions is the same for all languages; a dialect says how types, loads and loops are written. */
#include "optim/element.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda_prelude_text.h" /* cuda_prelude.cu and */
#include "vmath_text.h"        /* base/vmath.h, made by cmake/EmbedText.cmake */

typedef struct walk walk;

typedef struct dialect {
    const char *type[GD_ELEMENT_TYPES];    /* of values */
    const char *suffix[GD_ELEMENT_TYPES];  /* of functions and constants: _T in element.h */
    const char *memory[GD_ELEMENT_DTYPES]; /* elements of an array */
    const char *load[GD_ELEMENT_DTYPES];   /* an element as f32 or f64 */
    const char *store[GD_ELEMENT_DTYPES];  /* a value as an element */
    const char *restrict_word;
    const char *head; /* of function %s */
    void (*loops)(walk *w);
} dialect;

struct walk {
    const gd_program *p;
    const gd_pass *pass;
    const dialect *d;
    gd_text *out;
    int type;                      /* of the computation */
    int16_t number[GD_MAX_INSTRS]; /* of the value or scalar an instruction becomes */
};

/* ---- words ---- */

#define WORD 48  /* longest operand: a number */
#define LINE 512 /* longest expression */

/* A number as a literal that reads back as the same bits in every locale: 3.0f, or 0x3p-2f for 0.75. */
static void write_literal(const walk *w, double value, char *word)
{
    const char *suffix = w->d->suffix[w->type], *letter = w->type == GD_ELEMENT_F32 ? "f" : "";
    double x = w->type == GD_ELEMENT_F32 ? (double)(float)value : value, size = fabs(x);
    char digits[WORD - 4];
    int exponent;
    double fraction = frexp(size, &exponent);
    if (x != x)
        snprintf(digits, sizeof digits, "nan%s", suffix);
    else if (isinf(x))
        snprintf(digits, sizeof digits, "infinity%s", suffix);
    else if (size < 65536 && size == floor(size))
        snprintf(digits, sizeof digits, "%d.0%s", (int)size, letter);
    else {
        uint64_t whole = (uint64_t)ldexp(fraction, 53);
        for (exponent -= 53; !(whole & 1); exponent++) whole >>= 1;
        snprintf(digits, sizeof digits, "0x%llxp%d%s", (unsigned long long)whole, exponent, letter);
    }
    snprintf(word, WORD, x == x && signbit(x) ? "(-%s)" : "%s", digits);
}

static void write_operand(const walk *w, int32_t i, char *word)
{
    word[0] = 0;
    if (i < 0) return;
    const gd_instr *in = &w->p->instr[i];
    if (in->op == GD_I_CONST)
        write_literal(w, in->imm, word);
    else
        snprintf(word, WORD, "%c%d", in->uniform ? 's' : 'v', w->number[i]);
}

/* An expression of element.h with operands for a, b, c, the compute type for T, and functions of that type. */
static void write_expression(const walk *w, const char *from, char (*operand)[WORD], char *to)
{
    size_t used = 0;
    while (*from && used < LINE) {
        size_t length = 0;
        while (isalnum((unsigned char)from[length]) || from[length] == '_') length++;
        bool typed = length > 2 && !strncmp(from + length - 2, "_T", 2);
        size_t room = LINE - used;
        int n;
        if (length == 1 && *from >= 'a' && *from <= 'c')
            n = snprintf(to + used, room, "%s", operand[*from - 'a']);
        else if (length == 1 && *from == 'T')
            n = snprintf(to + used, room, "%s", w->d->type[w->type]);
        else if (typed)
            n = snprintf(to + used, room, "%.*s%s", (int)length - 2, from, w->d->suffix[w->type]);
        else
            n = snprintf(to + used, room, "%.*s", length ? (int)length : 1, from);
        used += (size_t)n;
        from += length ? length : 1;
    }
}

static const char *expression_of(unsigned op)
{
    static const char *const text[GD_I_COUNT] = {
#define TEXT(NAME, expression) [GD_I_##NAME] = #expression,
        GD_ELEMENT_LIST(TEXT)
#undef TEXT
    };
    return text[op];
}

/* ---- the body of the loop ---- */

/* Brings a value of one type to another: "(float)x", or "x" where it is of that type. */
static void write_cast(const walk *w, int to, int from, const char *value, char *word, size_t size)
{
    if (to == from)
        snprintf(word, size, "%s", value);
    else
        snprintf(word, size, "(%s)%s", w->d->type[to], value);
}

/* The type in which an array is converted: halves go through f32. */
static int type_of(gd_dtype dtype) { return dtype == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32; }

static void write_load(const walk *w, int array, const char *at, char *line, size_t size)
{
    gd_dtype dtype = w->p->array[array].dtype;
    char element[WORD], value[2 * WORD];
    snprintf(element, sizeof element, "a%d[%s]", array, at);
    snprintf(value, sizeof value, w->d->load[dtype], element);
    write_cast(w, w->type, type_of(dtype), value, line, size);
}

/* The lines that compute the values of element `at`. */
static void put_values(walk *w, const char *indent, const char *at)
{
    for (int i = 0; i < w->p->count; i++) {
        if (!w->pass->needed[i]) continue;
        const gd_instr *in = &w->p->instr[i];
        char line[LINE], operand[3][WORD];
        if (in->op == GD_I_LOAD) {
            write_load(w, in->index, at, line, sizeof line);
        } else {
            write_operand(w, in->a, operand[0]);
            write_operand(w, in->b, operand[1]);
            write_operand(w, in->c, operand[2]);
            write_expression(w, expression_of(in->op), operand, line);
        }
        gd__text_put(w->out, "%sconst %s v%d = %s;\n", indent, w->d->type[w->type], w->number[i], line);
    }
}

static void put_stores(walk *w, const char *indent, const char *at)
{
    for (int k = 0; k < w->p->arrays; k++) {
        if (!(w->pass->stores >> k & 1)) continue;
        gd_dtype dtype = w->p->array[k].dtype;
        char word[WORD], value[2 * WORD], line[LINE];
        write_operand(w, w->p->array[k].store, word);
        write_cast(w, type_of(dtype), w->type, word, value, sizeof value);
        snprintf(line, sizeof line, w->d->store[dtype], value);
        gd__text_put(w->out, "%sa%d[%s] = %s;\n", indent, k, at, line);
    }
}

/* ---- C ---- */

static const gd_instr *reduction_of(const walk *w, int r)
{
    return &w->p->instr[w->p->reduction[w->pass->reduction[r]]];
}

/* One more value for lane k of every reduction. */
static void put_lanes(walk *w, const char *indent)
{
    for (int r = 0; r < w->pass->reductions; r++) {
        const gd_instr *in = reduction_of(w, r);
        char operand[3][WORD] = {"", "", ""}, line[LINE];
        snprintf(operand[0], WORD, "r%d[k]", r);
        write_operand(w, in->a, operand[1]);
        write_expression(w, expression_of(in->op == GD_I_SUM ? GD_I_ADD : GD_I_MAX), operand, line);
        gd__text_put(w->out, "%sr%d[k] = %s;\n", indent, r, line);
    }
}

/* Joins the lanes pairwise. */
static void put_results(walk *w)
{
    for (int r = 0; r < w->pass->reductions; r++) {
        char operand[3][WORD] = {"", "", ""}, line[LINE];
        bool sum = reduction_of(w, r)->op == GD_I_SUM;
        snprintf(operand[0], WORD, "r%d[k]", r);
        snprintf(operand[1], WORD, "r%d[k + width]", r);
        write_expression(w, expression_of(sum ? GD_I_ADD : GD_I_MAX), operand, line);
        gd__text_put(w->out,
                     "    for (int width = %d; width; width /= 2)\n"
                     "        for (int k = 0; k < width; k++) r%d[k] = %s;\n"
                     "    out[%d] = r%d[0];\n",
                     GD_LANES / 2, r, line, r, r);
    }
}

/* Sixteen lanes, each taking every sixteenth element: the order of sums does not depend on the width of vectors. */
static void put_lane_loops(walk *w)
{
    const char *type = w->d->type[w->type];
    for (int r = 0; r < w->pass->reductions; r++) {
        char word[WORD];
        write_literal(w, reduction_of(w, r)->op == GD_I_SUM ? 0 : -INFINITY, word);
        gd__text_put(w->out, "    %s r%d[%d];\n    for (int k = 0; k < %d; k++) r%d[k] = %s;\n", type, r,
                     GD_LANES, GD_LANES, r, word);
    }
    gd__text_put(w->out,
                 "    int64_t i = 0;\n"
                 "    for (; i + %d <= n; i += %d)\n"
                 "        for (int k = 0; k < %d; k++) {\n",
                 GD_LANES, GD_LANES, GD_LANES);
    put_values(w, "            ", "i + k");
    put_lanes(w, "            ");
    gd__text_put(w->out, "        }\n    for (int k = 0; i + k < n; k++) {\n        NO_VECTOR;\n");
    put_values(w, "        ", "i + k");
    put_lanes(w, "        ");
    gd__text_put(w->out, "    }\n");
    put_results(w);
}

static void c_loops(walk *w)
{
    if (w->pass->reductions) {
        put_lane_loops(w);
    } else {
        gd__text_put(w->out, "    (void)out;\n    INDEPENDENT\n    for (int64_t i = 0; i < n; i++) {\n");
        put_values(w, "        ", "i");
        put_stores(w, "        ", "i");
        gd__text_put(w->out, "    }\n");
    }
    gd__text_put(w->out, "}\n");
}

static const dialect c_dialect = {
    .type = {"float", "double"},
    .suffix = {"_f32", "_f64"},
    .memory = {"float", "double", "uint16_t", "uint16_t"},
    .load = {"%s", "%s", "gd__f16_to_f32(%s)", "gd__bf16_to_f32(%s)"},
    .store = {"%s", "%s", "gd__f32_to_f16(%s)", "gd__f32_to_bf16(%s)"},
    .restrict_word = "restrict",
    .head = "void %s(int64_t n, char *const *array, const double *scalar, double *out)\n{\n",
    .loops = c_loops,
};

/* ---- CUDA ----
 *
 * A block works on one chunk of one tensor; a thread on four or more neighbouring elements, moved 16 bytes at a time:
 *
 *   const Chunk c = L.chunk[block];
 *   s0, s1, ...          uniform values of this tensor: the host's (L.common), or computed here from norms on the device
 *   float a0[4] ...      those elements of every array the pass reads
 *   v0, v1, ...          as in C, for each of them
 *   a1[4] -> memory      the arrays it writes */

/* Where the uniform values that a pass needs come from. */
typedef enum origin {
    NOWHERE, /* not needed, or a constant: written as a number */
    HOST,    /* the same for all tensors and known before the launch: in L.common */
    DEVICE   /* differs between tensors, or comes from a reduction: computed by the kernel */
} origin;

static bool input_differs(const gd_uniform *u, bool common_settings)
{
    return u->kind == GD_U_FRESH || u->kind == GD_U_SCALAR ||
           (u->kind == GD_U_NUMEL && u->index == GD_EACH) || (u->kind == GD_U_SETTING && !common_settings);
}

int gd__cuda_inputs(const gd_program *p, bool common_settings, int32_t *list)
{
    int count = 0;
    for (int u = 0; u < p->uniforms; u++)
        if (input_differs(&p->uniform[u], common_settings)) list[count++] = u;
    return count;
}

static bool differs(const gd_program *p, const gd_instr *in, bool common_settings)
{
    return gd__is_reduction(in->op) ||
           (in->op == GD_I_UNIFORM && input_differs(&p->uniform[in->index], common_settings));
}

static void find_origins(const gd_program *p, const gd_pass *pass, bool common_settings, origin *from)
{
    bool wanted[GD_MAX_INSTRS] = {false};
    for (int i = 0; i < p->count; i++) {
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        bool device = differs(p, in, common_settings);
        for (int k = 0; k < gd__opcode_operands(in->op); k++) device = device || from[operand[k]] == DEVICE;
        from[i] = !in->uniform || in->op == GD_I_CONST ? NOWHERE : device ? DEVICE : HOST;
    }
    for (int k = 0; k < pass->used_count; k++) wanted[pass->used[k]] = true;
    for (int i = p->count; i-- > 0;) {
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        bool here = wanted[i] && from[i] == DEVICE && !gd__is_reduction(in->op);
        for (int k = 0; here && k < gd__opcode_operands(in->op); k++) wanted[operand[k]] = true;
        if (!wanted[i]) from[i] = NOWHERE;
    }
}

int gd__cuda_common(const gd_program *p, const gd_pass *pass, bool common_settings, int32_t *list)
{
    origin from[GD_MAX_INSTRS];
    int count = 0;
    find_origins(p, pass, common_settings, from);
    for (int i = 0; i < p->count; i++)
        if (from[i] == HOST) list[count++] = i;
    return count;
}

/* A uniform value, in f64 whatever the elements are computed in. */
static void write_uniform(const walk *wide, int32_t i, char *word)
{
    word[0] = 0;
    if (i < 0) return;
    if (wide->p->instr[i].op == GD_I_CONST)
        write_literal(wide, wide->p->instr[i].imm, word);
    else
        snprintf(word, WORD, "x%d", (int)i); /* not u: u16 is a type */
}

static void put_device_uniform(const walk *wide, bool common_settings, int32_t i)
{
    const gd_program *p = wide->p;
    const gd_instr *in = &p->instr[i];
    char line[LINE], operand[3][WORD];
    if (gd__is_reduction(in->op)) {
        snprintf(line, sizeof line, "L.reduced[c.member * %d + %d]", p->reductions, (int)in->index);
    } else if (in->op == GD_I_UNIFORM) {
        int32_t list[GD_MAX_UNIFORMS];
        int columns = gd__cuda_inputs(p, common_settings, list), k = 0;
        while (list[k] != in->index) k++;
        snprintf(line, sizeof line, "L.input[c.member * %d + %d]", columns, k);
    } else {
        write_uniform(wide, in->a, operand[0]);
        write_uniform(wide, in->b, operand[1]);
        write_uniform(wide, in->c, operand[2]);
        write_expression(wide, expression_of(in->op), operand, line);
    }
    gd__text_put(wide->out, "        const double x%d = %s;\n", (int)i, line);
}

/* Uniform values as doubles x0, x1, ... by instruction number; those that elements read in the compute type. */
static void put_uniforms(const walk *w, bool common_settings)
{
    origin from[GD_MAX_INSTRS];
    walk wide = *w;
    wide.type = GD_ELEMENT_F64;
    find_origins(w->p, w->pass, common_settings, from);
    for (int i = 0, k = 0; i < w->p->count; i++) {
        if (from[i] == HOST) gd__text_put(w->out, "        const double x%d = L.common[%d];\n", i, k++);
        if (from[i] == DEVICE) put_device_uniform(&wide, common_settings, i);
    }
    const char *type = w->d->type[w->type];
    for (int k = 0; k < w->pass->used_count; k++) {
        char word[WORD];
        write_uniform(&wide, w->pass->used[k], word);
        gd__text_put(w->out, "        const %s s%d = (%s)%s;\n", type, k, type, word);
    }
}

static void put_pieces(walk *w)
{
    for (int k = 0; k < w->p->arrays; k++) {
        if (!((w->pass->loads | w->pass->stores) >> k & 1)) continue;
        const char *memory = w->d->memory[w->p->array[k].dtype];
        gd__text_put(w->out, "        %s *p%d = (%s *)L.pointer[c.member * %d + %d] + c.start;\n", memory, k,
                     memory, w->p->arrays, k);
    }
}

/* Elements of a thread at a time: 16 bytes of the smallest kind, twice as many in passes that only add up. */
static int piece_width(const walk *w)
{
    size_t least = 8;
    for (int k = 0; k < w->p->arrays; k++) {
        bool used = (w->pass->loads | w->pass->stores) >> k & 1;
        size_t item = gd_dtype_size(w->p->array[k].dtype);
        if (used && item < least) least = item;
    }
    return (least == 2 ? 8 : 4) * (w->pass->last ? 1 : 2);
}

static void put_piece_loop(walk *w)
{
    int width = piece_width(w);
    gd__text_put(w->out,
                 "        for (i64 i = (i64)threadIdx.x * %d; i < c.n; i += (i64)blockDim.x * %d) {\n"
                 "            const int left = c.n - i < %d ? (int)(c.n - i) : %d;\n",
                 width, width, width, width);
    for (int k = 0; k < w->p->arrays; k++) {
        if (!((w->pass->loads | w->pass->stores) >> k & 1)) continue;
        const char *memory = w->d->memory[w->p->array[k].dtype];
        gd__text_put(w->out, "            %s a%d[%d];\n", memory, k, width);
        if (w->pass->loads >> k & 1)
            gd__text_put(w->out, "            take<%d>(a%d, p%d + i, left);\n", width, k, k);
    }
    gd__text_put(w->out, "#pragma unroll\n            for (int k = 0; k < %d; k++) {\n", width);
    put_values(w, "                ", "k");
    put_stores(w, "                ", "k");
    for (int r = 0; r < w->pass->reductions; r++) {
        const gd_instr *in = reduction_of(w, r);
        char operand[3][WORD] = {"", "", ""}, line[LINE];
        snprintf(operand[0], WORD, "r%d", r);
        write_operand(w, in->a, operand[1]);
        write_expression(w, expression_of(in->op == GD_I_SUM ? GD_I_ADD : GD_I_MAX), operand, line);
        gd__text_put(w->out, "                if (k < left) r%d = %s;\n", r, line);
    }
    gd__text_put(w->out, "            }\n");
    for (int k = 0; k < w->p->arrays; k++)
        if (w->pass->stores >> k & 1)
            gd__text_put(w->out, "            give<%d>(p%d + i, a%d, left);\n", width, k, k);
    gd__text_put(w->out, "        }\n");
}

static const dialect cuda_dialect = {
    .type = {"float", "double"},
    .suffix = {"_f32", "_f64"},
    .memory = {"float", "double", "u16", "u16"},
    .load = {"%s", "%s", "half_to_float(%s)", "bf16_to_float(%s)"},
    .store = {"%s", "%s", "float_to_half(%s)", "float_to_bf16(%s)"},
    .restrict_word = "__restrict__",
};

static void number_values(walk *w);

void gd__emit_cuda(const gd_program *p, const gd_pass *pass, const char *name, bool common_settings,
                   gd_text *out)
{
    walk w = {.p = p, .pass = pass, .d = &cuda_dialect, .out = out};
    w.type = p->compute == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32;
    number_values(&w);
    gd__text_put(out,
                 "extern \"C\" __global__ void __launch_bounds__(256) %s(const Launch L)\n{\n"
                 "    for (i64 b = blockIdx.x; b < L.chunks; b += gridDim.x) {\n"
                 "        const Chunk c = L.chunk[b];\n",
                 name);
    put_uniforms(&w, common_settings);
    put_pieces(&w);
    for (int r = 0; r < pass->reductions; r++) {
        char word[WORD];
        write_literal(&w, reduction_of(&w, r)->op == GD_I_SUM ? 0 : -INFINITY, word);
        gd__text_put(out, "        %s r%d = %s;\n", w.d->type[w.type], r, word);
    }
    put_piece_loop(&w);
    for (int r = 0; r < pass->reductions; r++)
        gd__text_put(out, "        block_join<%s>((double)r%d, &L.partial[b * %d + %d]);\n",
                     reduction_of(&w, r)->op == GD_I_SUM ? "false" : "true", r, pass->reductions, r);
    gd__text_put(out, "    }\n}\n");
}

/* ---- the function ---- */

/* Numbers scalars and values each from 0. */
static void number_values(walk *w)
{
    int values = 0;
    for (int i = 0; i < w->p->count; i++)
        if (w->pass->needed[i]) w->number[i] = (int16_t)values++;
    for (int k = 0; k < w->pass->used_count; k++) w->number[w->pass->used[k]] = (int16_t)k;
}

static void put_inputs(walk *w)
{
    const char *type = w->d->type[w->type];
    for (int k = 0; k < w->p->arrays; k++) {
        if (!((w->pass->loads | w->pass->stores) >> k & 1)) continue;
        const char *constant = w->pass->stores >> k & 1 ? "" : "const ",
                   *memory = w->d->memory[w->p->array[k].dtype];
        gd__text_put(w->out, "    %s%s *%s a%d = (%s%s *)array[%d];\n", constant, memory, w->d->restrict_word,
                     k, constant, memory, k);
    }
    if (!w->pass->used_count) gd__text_put(w->out, "    (void)scalar;\n");
    for (int k = 0; k < w->pass->used_count; k++)
        gd__text_put(w->out, "    const %s s%d = (%s)scalar[%d];\n", type, k, type, k);
}

static void emit(const gd_program *p, const gd_pass *pass, const dialect *d, const char *name, gd_text *out)
{
    walk w = {.p = p, .pass = pass, .d = d, .out = out};
    w.type = p->compute == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32;
    number_values(&w);
    gd__text_put(out, d->head, name);
    put_inputs(&w);
    d->loops(&w);
}

void gd__emit_c(const gd_program *p, const gd_pass *pass, const char *name, gd_text *out)
{
    emit(p, pass, &c_dialect, name, out);
}

uint64_t gd__program_hash(const gd_program *p, const gd_pass *pass)
{
    gd_text text = {.hash_only = true};
    emit(p, pass, &c_dialect, "kernel", &text);
    return text.hash;
}

/* ---- the prelude ---- */

/* Names used by expressions.  Functions of the C library go by another name here, so that the compiler does not replace
 * them by what it holds for equal: pow(x, 2) must be what the interpreter's call gives. */
static const char *const c_names[] = {"#define abs_f32 __builtin_fabsf",
                                      "#define abs_f64 __builtin_fabs",
                                      "#define sqrt_f32 __builtin_sqrtf",
                                      "#define sqrt_f64 __builtin_sqrt",
                                      "#define floor_f32 __builtin_floorf",
                                      "#define floor_f64 __builtin_floor",
                                      "#define copysign_f32 __builtin_copysignf",
                                      "#define copysign_f64 __builtin_copysign",
                                      "#define largest_f32 3.40282347e38f",
                                      "#define largest_f64 1.7976931348623157e308",
                                      "#define infinity_f32 __builtin_inff()",
                                      "#define infinity_f64 __builtin_inf()",
                                      "#define nan_f32 __builtin_nanf(\"\")",
                                      "#define nan_f64 __builtin_nan(\"\")",
                                      "#define exp_f32 gd__exp_f32",
                                      "#define log_f32 gd__log_f32",
                                      "#define tanh_f32 gd__tanh_f32",
                                      "double exp_f64(double) __asm__(\"exp\");",
                                      "double log_f64(double) __asm__(\"log\");",
                                      "double tanh_f64(double) __asm__(\"tanh\");",
                                      "double pow_wide(double, double) __asm__(\"pow\");",
                                      "#ifdef __clang__",
                                      "#define INDEPENDENT",
                                      "#else",
                                      "#define INDEPENDENT _Pragma(\"GCC ivdep\")",
                                      "#endif",
                                      "#define NO_VECTOR __asm__ volatile(\"\")",
                                      "",
                                      0};

static void put_lines(gd_text *out, const char *const *line)
{
    for (; *line; line++) gd__text_put(out, "%s\n", *line);
}

void gd__emit_c_prelude(gd_text *out)
{
    put_lines(out, vmath_text);
    gd__emit_c_names(out);
}

void gd__emit_c_names(gd_text *out) { put_lines(out, c_names); }

void gd__emit_cuda_prelude(gd_text *out) { put_lines(out, cuda_prelude_text); }

void gd__emit_cuda_joins(gd_text *out)
{
    gd__text_put(out, "#define JOINS\n");
    gd__emit_cuda_prelude(out);
}
