/* The emitter: writes a pass as a function.
 *
 *   void NAME(int64_t start, int64_t n, char *const *array, const double *scalar, double *out)
 *   {
 *       const float *restrict a0 = (const float *)array[0];     arrays of the pass
 *       const float s0 = (float)scalar[0];                      uniform values, in the compute type
 *       for (int64_t i = 0; i < n; i++) {
 *           const float v0 = a0[i];                             one line per instruction; vector code after the compiler
 *           ...
 *
 * Arrays of codes (base/narrow.h) are processed block by block: their numbers go into a buffer y0, the loop runs over the block,
 * and the buffer is encoded again. Memory is still read once.
 *
 * Values are numbered in the order of the pass, so that equal kernels of different programs have equal text.
 * The walk over instructions is the same for all languages; a dialect defines how types, loads and stores are written. */
#include "program/emit.h"
#include "base/text/ascii.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gamma_text.h" /* headers of base, made by cmake/EmbedText.cmake */
#include "narrow_text.h"
#include "rng_text.h"
#include "short_text.h"
#include "special_text.h"
#include "vmath_text.h"

/* ---- words ---- */

void gd__write_literal(const gd_pass_walk *w, double value, char *word)
{
    const char *suffix = w->d->suffix[w->type], *letter = w->type == GD_ELEMENT_F32 ? "f" : "";
    double x = w->type == GD_ELEMENT_F32 ? (double)(float)value : value, size = fabs(x);
    char digits[GD_WORD - 4];
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
    snprintf(word, GD_WORD, x == x && signbit(x) ? "(-%s)" : "%s", digits);
}

void gd__write_operand(const gd_pass_walk *w, int32_t i, char *word)
{
    word[0] = 0;
    if (i < 0) return;
    const gd_instr *in = &w->p->instr[i];
    if (in->op == GD_I_CONST)
        gd__write_literal(w, in->imm, word);
    else
        snprintf(word, GD_WORD, "%c%d", in->uniform ? 's' : 'v', w->number[i]);
}

static const char *expression_of(unsigned op, bool *test)
{
    static const struct {
        const char *text;
        bool test;
    } element[GD_I_COUNT] = {
#define IS_MAP                      false
#define IS_TEST                     true
#define TEXT(name, operands, text_) [GD_I_##name] = {#text_, false},
#define ELEMENT(name, inputs, settings, kind, needs, takes, batch, element, ...) \
    GD_IF_##takes([GD_I_##name] = {#element, IS_##kind}, )
#define ELEMENT0(name, inputs, settings, kind, takes, element, ...) \
    GD_IF_##takes([GD_I_##name] = {#element, IS_##kind}, )
#define ELEMENT_C(...)
#include "tensor/ops.def"
        GD_MORE_ELEMENTS(TEXT)
#undef TEXT
    };
    *test = element[op].test;
    return element[op].text;
}

static size_t word_length(const char *s)
{
    size_t n = 0;
    while (gd__is_letter(s[n]) || gd__is_digit(s[n]) || s[n] == '_') n++;
    return n;
}

/* The next function that an element names, F(name) or V(name); *from moves behind it.  NULL: there is no more. */
static const char *next_function(const char **from, size_t *length, bool *varies)
{
    for (const char *s = *from; *s;) {
        size_t n = word_length(s);
        if (n == 1 && (*s == 'F' || *s == 'V') && s[1] == '(') {
            *varies = *s == 'V';
            *length = word_length(s + 2);
            *from = s + 3 + *length;
            return s + 2;
        }
        s += n ? n : 1;
    }
    return NULL;
}

/* A function of the walk's type: of C gd__exp_f32, or exp_f32 where it is the C library's; of other dialects always that. */
static int write_function(const gd_pass_walk *w, const char *name, size_t length, bool varies, char *word,
                          size_t room)
{
    const char *own = w->d->own && (w->p->eager || !varies) ? w->d->own : "";
    return snprintf(word, room, "%s%.*s%s", own, (int)length, name, w->d->suffix[w->type]);
}

void gd__write_expression(const gd_pass_walk *w, unsigned op, char (*operand)[GD_WORD], char *line)
{
    bool test;
    const char *from = expression_of(op, &test);
    size_t used = test ? (size_t)snprintf(line, GD_LINE, "(%s)(", w->d->type[w->type]) : 0;
    while (*from && used < GD_LINE) {
        size_t length = word_length(from), room = GD_LINE - used;
        int n;
        bool function = length == 1 && (*from == 'F' || *from == 'V') && from[1] == '(';
        if (length == 1 && *from >= 'a' && *from <= 'c')
            n = snprintf(line + used, room, "%s", operand[*from - 'a']);
        else if (length == 1 && *from == 'T')
            n = snprintf(line + used, room, "%s", w->d->type[w->type]);
        else if (function) {
            bool varies;
            const char *name = next_function(&from, &length, &varies);
            n = write_function(w, name, length, varies, line + used, room);
            length = 0;
            from--; /* one further below */
        } else
            n = snprintf(line + used, room, "%.*s", length ? (int)length : 1, from);
        used += (size_t)n;
        from += length ? length : 1;
    }
    if (test && used < GD_LINE) snprintf(line + used, GD_LINE - used, ")");
}

/* ---- the body of the loop ---- */

/* Converts a value to a type: "(float)x", or "x" where it is of that type. */
static void write_cast(const gd_pass_walk *w, int to, int from, const char *value, char *word, size_t size)
{
    if (to == from)
        snprintf(word, size, "%s", value);
    else
        snprintf(word, size, "(%s)%s", w->d->type[to], value);
}

/* The type in which an array is converted: halves go through f32. */
static int type_of(gd_dtype dtype) { return dtype == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32; }

bool gd__is_coded(const gd_pass_walk *w, int array) { return w->p->array[array].dtype == GD_U8; }

bool gd__has_codes(const gd_pass_walk *w, uint32_t arrays)
{
    for (int k = 0; k < w->p->arrays; k++)
        if (arrays >> k & 1 && gd__is_coded(w, k)) return true;
    return false;
}

const char *gd__code_kind(const gd_pass_walk *w, int array)
{
    return w->p->array[array].positive ? "positive" : "signed";
}

const char *gd__memory_word(const gd_pass_walk *w, int array)
{
    return w->d->memory[gd__is_coded(w, array) ? GD_DIALECT_DTYPES - 1 : w->p->array[array].dtype];
}

static void write_decoded(const gd_pass_walk *w, int array, const char *code, char *value, size_t size)
{
    char words[GD_WORD];
    snprintf(words, sizeof words, w->d->value, gd__code_kind(w, array), code);
    snprintf(value, size, "c%d * %s", array, words);
}

static void write_load(const gd_pass_walk *w, int array, const char *at, char *line, size_t size)
{
    gd_dtype dtype = w->p->array[array].dtype;
    char element[GD_WORD], value[2 * GD_WORD];
    snprintf(element, sizeof element, "a%d[%s]", array, at);
    if (!gd__is_coded(w, array))
        snprintf(value, sizeof value, w->d->load[dtype], element);
    else if (w->blocks)
        snprintf(value, sizeof value, "y%d[%s]", array, w->blocks);
    else
        write_decoded(w, array, element, value, sizeof value);
    char whole[2 * GD_WORD + 2];
    bool product = gd__is_coded(w, array) && !w->blocks && w->type != type_of(dtype);
    snprintf(whole, sizeof whole, product ? "(%s)" : "%s", value);
    write_cast(w, w->type, type_of(dtype), whole, line, size);
}

void gd__put_values(const gd_pass_walk *w, const char *indent, const char *at)
{
    for (int i = 0; i < w->p->count; i++) {
        if (!w->pass->needed[i]) continue;
        const gd_instr *in = &w->p->instr[i];
        char line[GD_LINE], operand[3][GD_WORD];
        int read = gd__array_read(w->p, w->pass, i);
        if (read >= 0) {
            write_load(w, read, at, line, sizeof line);
        } else {
            gd__write_operand(w, in->a, operand[0]);
            gd__write_operand(w, in->b, operand[1]);
            gd__write_operand(w, in->c, operand[2]);
            gd__write_expression(w, in->op, operand, line);
        }
        gd__text_put(w->out, "%sconst %s v%d = %s;\n", indent, w->d->type[w->type], w->number[i], line);
    }
}

int gd__noise_number(const gd_pass_walk *w, int array)
{
    int c = 0;
    while (w->p->array[w->pass->chance[c]].chance != w->p->array[array].chance) c++;
    return w->pass->chance[c];
}

static void write_store(const gd_pass_walk *w, int k, const char *at, const char *value, char *line)
{
    const gd_array *a = &w->p->array[k];
    if (a->by_chance)
        snprintf(line, GD_LINE, "gd__f32_to_%s_by_chance(%s, gd__noise_bits(z%d, (uint32_t)(%s%s))%s)",
                 gd_dtype_name(a->dtype), value, gd__noise_number(w, k), w->first, at,
                 a->second ? " << 16" : "");
    else
        snprintf(line, GD_LINE, w->d->store[a->dtype], value);
}

void gd__put_stores(const gd_pass_walk *w, const char *indent, const char *at)
{
    for (int k = 0; k < w->p->arrays; k++) {
        if (!(w->pass->stores >> k & 1)) continue;
        char word[GD_WORD], value[2 * GD_WORD], line[GD_LINE];
        gd__write_operand(w, w->p->array[k].store, word);
        write_cast(w, type_of(w->p->array[k].dtype), w->type, word, value, sizeof value);
        if (w->p->array[k].rest_of) continue; /* known when there are codes */
        if (gd__is_coded(w, k)) {
            gd__text_put(w->out, "%sy%d[%s] = %s;\n", indent, k, w->blocks ? w->blocks : at, value);
            continue;
        }
        write_store(w, k, at, value, line);
        gd__text_put(w->out, "%sa%d[%s] = %s;\n", indent, k, at, line);
    }
}

/* ---- C ---- */

bool gd__walk_sums(const gd_pass_walk *w, int r)
{
    return w->p->instr[w->p->reduction[w->pass->reduction[r]]].op == GD_I_SUM;
}

void gd__write_joined(const gd_pass_walk *w, bool adds, const char *to, const char *from, char *line)
{
    char operand[3][GD_WORD] = {"", "", ""};
    snprintf(operand[0], GD_WORD, "%s", to);
    snprintf(operand[1], GD_WORD, "%s", from);
    gd__write_expression(w, adds ? GD_I_add : GD_I_maximum, operand, line);
}

void gd__write_nothing(const gd_pass_walk *w, bool adds, char *word)
{
    gd__write_literal(w, adds ? 0 : -INFINITY, word);
}

/* One more value for lane k of every reduction. */
static void put_lanes(const gd_pass_walk *w, const char *indent)
{
    for (int r = 0; r < w->pass->reductions; r++) {
        char lane[GD_WORD], value[GD_WORD], line[GD_LINE];
        snprintf(lane, sizeof lane, "r%d[k]", r);
        gd__write_operand(w, w->p->instr[w->p->reduction[w->pass->reduction[r]]].a, value);
        gd__write_joined(w, gd__walk_sums(w, r), lane, value, line);
        gd__text_put(w->out, "%sr%d[k] = %s;\n", indent, r, line);
    }
}

/* Joins the lanes pairwise. */
static void put_results(const gd_pass_walk *w)
{
    for (int r = 0; r < w->pass->reductions; r++) {
        char lane[GD_WORD], other[GD_WORD], line[GD_LINE];
        snprintf(lane, sizeof lane, "r%d[k]", r);
        snprintf(other, sizeof other, "r%d[k + width]", r);
        gd__write_joined(w, gd__walk_sums(w, r), lane, other, line);
        gd__text_put(w->out,
                     "    for (int width = %d; width; width /= 2)\n"
                     "        for (int k = 0; k < width; k++) r%d[k] = %s;\n"
                     "    out[%d] = r%d[0];\n",
                     GD_LANES / 2, r, line, r, r);
    }
}

/* Scales of the block that element `at` is in; lanes, of which blocks have a whole number, all have the same. */
static void put_scales(const gd_pass_walk *w, const char *indent, const char *at)
{
    for (int k = 0; k < w->p->arrays; k++)
        if (w->pass->loads >> k & 1 && gd__is_coded(w, k))
            gd__text_put(w->out, "%sconst float c%d = %s < n ? h%d[-((start + %s) >> 8)] : 0.0f;\n", indent,
                         k, at, k, at);
}

/* Sixteen lanes, each taking every sixteenth element: the order of sums does not depend on the width of vectors. */
static void put_lane_loops(const gd_pass_walk *w)
{
    const char *type = w->d->type[w->type];
    for (int r = 0; r < w->pass->reductions; r++) {
        char word[GD_WORD];
        gd__write_nothing(w, gd__walk_sums(w, r), word);
        gd__text_put(w->out, "    %s r%d[%d];\n    for (int k = 0; k < %d; k++) r%d[k] = %s;\n", type, r,
                     GD_LANES, GD_LANES, r, word);
    }
    gd__text_put(w->out,
                 "    int64_t i = 0;\n"
                 "    for (; i + %d <= n; i += %d) {\n",
                 GD_LANES, GD_LANES);
    put_scales(w, "        ", "i");
    gd__text_put(w->out, "        SIDE_BY_SIDE\n        for (int k = 0; k < %d; k++) {\n", GD_LANES);
    gd__put_values(w, "            ", "i + k");
    put_lanes(w, "            ");
    gd__text_put(w->out, "        }\n    }\n");
    put_scales(w, "    ", "i");
    gd__text_put(w->out, "    for (int k = 0; i + k < n; k++) {\n        NO_VECTOR;\n");
    gd__put_values(w, "        ", "i + k");
    put_lanes(w, "        ");
    gd__text_put(w->out, "    }\n");
    put_results(w);
}

/* One block of codes after the other, or the rest of one. */
static void put_block_loops(gd_pass_walk *w)
{
    uint32_t coded = 0;
    for (int k = 0; k < w->p->arrays; k++)
        if (gd__is_coded(w, k)) coded |= 1u << k;
    gd__text_put(w->out, "    (void)out;\n"
                         "    for (int64_t b = 0, m; b < n; b += m) {\n"
                         "        m = 256 - ((start + b) & 255);\n"
                         "        m = m < n - b ? m : n - b;\n");
    for (int k = 0; k < w->p->arrays; k++) {
        if (!((w->pass->loads | w->pass->stores) & coded & 1u << k)) continue;
        gd__text_put(w->out, "        _Alignas(64) float y%d[256];\n", k);
        if (w->pass->loads >> k & 1)
            gd__text_put(w->out,
                         "        gd__value_block_%s(a%d + b, (int)m, h%d[-((start + b) >> 8)], y%d);\n",
                         gd__code_kind(w, k), k, k, k);
    }
    gd__text_put(w->out, "        INDEPENDENT\n        for (int64_t i = b; i < b + m; i++) {\n");
    w->blocks = "i - b";
    gd__put_values(w, "            ", "i");
    gd__put_stores(w, "            ", "i");
    w->blocks = NULL;
    gd__text_put(w->out, "        }\n");
    for (int k = 0; k < w->p->arrays; k++) {
        if (!(w->pass->stores & coded & 1u << k)) continue;
        int of = w->p->array[k].rest_of - 1;
        if (of >= 0)
            gd__text_put(w->out,
                         "        gd__rest_block_%s(y%d, (int)m, h%d[-((start + b) >> 8)], a%d + b, y%d);\n",
                         gd__code_kind(w, of), of, of, of, k);
        gd__text_put(w->out, "        gd__code_block_%s(y%d, (int)m, &h%d[-((start + b) >> 8)], a%d + b);\n",
                     gd__code_kind(w, k), k, k, k);
    }
    gd__text_put(w->out, "    }\n");
}

static void put_loops(gd_pass_walk *w)
{
    if (w->pass->reductions) {
        put_lane_loops(w);
    } else if (gd__has_codes(w, w->pass->loads | w->pass->stores)) {
        put_block_loops(w);
    } else {
        gd__text_put(w->out, "    (void)out;\n    INDEPENDENT\n    for (int64_t i = 0; i < n; i++) {\n");
        gd__put_values(w, "        ", "i");
        gd__put_stores(w, "        ", "i");
        gd__text_put(w->out, "    }\n");
    }
    gd__text_put(w->out, "}\n");
}

static const gd_dialect c_dialect = {
    .type = {"float", "double"},
    .suffix = {"_f32", "_f64"},
    .memory = {"float", "double", "uint16_t", "uint16_t", "uint8_t"},
    .load = {"%s", "%s", "gd__f16_to_f32(%s)", "gd__bf16_to_f32(%s)"},
    .store = {"%s", "%s", "gd__f32_to_f16(%s)", "gd__f32_to_bf16(%s)"},
    .value = "gd__value_%s(%s)",
    .own = "gd__",
};

/* ---- the function ---- */

gd_pass_walk gd__walk_begin(const gd_program *p, const gd_pass *pass, const gd_dialect *d, gd_text *out)
{
    gd_pass_walk w = {.p = p, .pass = pass, .d = d, .out = out, .first = "start + "};
    int values = 0;
    w.type = p->compute == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32;
    for (int i = 0; i < p->count; i++)
        if (pass->needed[i]) w.number[i] = (int16_t)values++;
    for (int k = 0; k < pass->used_count; k++) w.number[pass->used[k]] = (int16_t)k;
    return w;
}

static void put_inputs(const gd_pass_walk *w)
{
    const char *type = w->d->type[w->type];
    for (int k = 0; k < w->p->arrays; k++) {
        if (!((w->pass->loads | w->pass->stores) >> k & 1)) continue;
        const char *constant = w->pass->stores >> k & 1 ? "" : "const ", *memory = gd__memory_word(w, k);
        bool coded = gd__is_coded(w, k);
        gd__text_put(w->out, "    %s%s *restrict a%d = (%s%s *)array[%d]%s;\n", constant, memory, k, constant,
                     memory, k, coded ? " + start" : "");
        if (coded) gd__text_put(w->out, "    float *const h%d = (float *)(void *)array[%d] - 1;\n", k, k);
    }
    for (int c = 0; c < w->pass->chances; c++)
        if (gd__noise_number(w, w->pass->chance[c]) == w->pass->chance[c])
            gd__text_put(w->out, "    const gd_noise z%d = gd__noise_of(scalar[%d], start);\n",
                         (int)w->pass->chance[c], gd__chances_at(w->pass) + c);
    gd__text_put(w->out, "    (void)start;\n");
    if (!w->pass->used_count) gd__text_put(w->out, "    (void)scalar;\n");
    for (int k = 0; k < w->pass->used_count; k++)
        gd__text_put(w->out, "    const %s s%d = (%s)scalar[%d];\n", type, k, type, k);
}

void gd__emit_c(const gd_program *p, const gd_pass *pass, const char *name, gd_text *out)
{
    gd_pass_walk w = gd__walk_begin(p, pass, &c_dialect, out);
    gd__text_put(
        out, "void %s(int64_t start, int64_t n, char *const *array, const double *scalar, double *out)\n{\n",
        name);
    put_inputs(&w);
    put_loops(&w);
}

uint64_t gd__program_hash(const gd_program *p, const gd_pass *pass)
{
    gd_text text = {.hash_only = true};
    gd__emit_c(p, pass, "kernel", &text);
    return text.hash;
}

/* ---- the prelude ---- */

/* Names used by expressions.  Functions of the C library have different names here, so that the compiler does not replace them by
 * equivalents: pow(x, 2) must be what the interpreter's call gives. */
static const char *const c_names[] = {
    "#define infinity_f32 __builtin_inff()", "#define infinity_f64 __builtin_inf()",
    "#define nan_f32 __builtin_nanf(\"\")", "#define nan_f64 __builtin_nan(\"\")",
    "#define exp_f32 gd__exp_f32", "#define log_f32 gd__log_f32", "#define tanh_f32 gd__tanh_f32",
    "#define pow_f32(a, b) ((float)pow_f64((double)(a), (double)(b)))",
    "double exp_f64(double) __asm__(\"exp\");", "double log_f64(double) __asm__(\"log\");",
    "double tanh_f64(double) __asm__(\"tanh\");", "double pow_f64(double, double) __asm__(\"pow\");",
    "#ifdef __clang__", "#define INDEPENDENT", "#define SIDE_BY_SIDE", "#else",
    "#define INDEPENDENT _Pragma(\"GCC ivdep\")",
    /* unrolled, lanes of several sums are not vectorised: ten times slower */
    "#define SIDE_BY_SIDE _Pragma(\"GCC unroll 1\")", "#endif", "#define NO_VECTOR __asm__ volatile(\"\")",
    "", 0};

void gd__put_lines(gd_text *out, const char *const *line)
{
    for (; *line; line++) gd__text_put(out, "%s\n", *line);
}

static bool text_has(const char *const *line, const char *word)
{
    for (; *line; line++)
        if (strstr(*line, word)) return true;
    return false;
}

/* Does the pass use a function of base/vmath_special.h, math/short.h or math/gamma.h: one of the library's own that base/vmath.h has not? */
static bool needs_special(const gd_pass_walk *w)
{
    for (int i = 0; i < w->p->count; i++) {
        if (!w->pass->needed[i] || gd__array_read(w->p, w->pass, i) >= 0) continue;
        bool test, varies;
        size_t length;
        const char *from = expression_of(w->p->instr[i].op, &test), *name;
        while (from && (name = next_function(&from, &length, &varies))) {
            char word[GD_WORD];
            write_function(w, name, length, varies, word, sizeof word - 1);
            strcat(word, "(");
            if (!strncmp(word, w->d->own, strlen(w->d->own)) && !text_has(vmath_text, word)) return true;
        }
    }
    return false;
}

void gd__emit_c_prelude(const gd_kernel_wish *list, int count, gd_text *out)
{
    bool codes = false, chances = false, special = false;
    for (int i = 0; i < count; i++) {
        gd_pass_walk w = gd__walk_begin(list[i].p, list[i].pass, &c_dialect, out);
        codes = codes || gd__has_codes(&w, list[i].pass->loads | list[i].pass->stores);
        chances = chances || list[i].pass->chances;
        special = special || needs_special(&w);
    }
    gd__put_lines(out, vmath_text);
    if (special) {
        gd__text_put(out, "#define GD_PROGRAM_TEXT\n");
        gd__put_lines(out, rng_text);
        gd__put_lines(out, special_text);
        gd__put_lines(out, short_text);
        gd__put_lines(out, gamma_text);
    }
    if (!codes) gd__text_put(out, "#define GD_NO_CODES\n");
    if (codes || chances) gd__put_lines(out, narrow_text);
    gd__emit_c_names(out);
}

void gd__emit_c_names(gd_text *out) { gd__put_lines(out, c_names); }
