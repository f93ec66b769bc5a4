/* Emitting a pass as a kernel over a table of tensors, in the words of a backend's dialect; see dialect.h. */
#include "program/emit.h"

#include <stdio.h>

#include "narrow_text.h" /* base/narrow.h and base/rng.h, made by cmake/EmbedText.cmake */
#include "rng_text.h"

/* Sources of the uniform values of a pass. */
typedef enum origin {
    NOWHERE, /* not needed, or a constant: written as a number */
    HOST,    /* the same for all tensors and known before the launch: in L.common */
    DEVICE   /* differs between tensors, or comes from a reduction: computed by the kernel */
} origin;

static bool input_differs(const gd_uniform *u, int common)
{
    return u->kind == GD_U_FRESH || u->kind == GD_U_SCALAR || u->kind == GD_U_KEY ||
           (u->kind == GD_U_DRAW && u->index % 2 == GD_EACH) || u->kind == GD_U_SIZE ||
           (u->kind == GD_U_NUMEL && u->index == GD_EACH) ||
           (u->kind == GD_U_SETTING && !(common & GD_COMMON_SETTINGS)) ||
           (u->kind == GD_U_STEP && !(common & GD_COMMON_STEPS));
}

int gd__table_inputs(const gd_program *p, int common, int32_t *list)
{
    int count = 0;
    for (int u = 0; u < p->uniforms; u++)
        if (input_differs(&p->uniform[u], common)) list[count++] = u;
    return count;
}

static bool differs(const gd_program *p, const gd_instr *in, int common)
{
    return gd__is_reduction(in->op) ||
           (in->op == GD_I_UNIFORM && input_differs(&p->uniform[in->index], common));
}

static void find_origins(const gd_program *p, const gd_pass *pass, int common, origin *from)
{
    bool wanted[GD_MAX_INSTRS] = {false};
    for (int i = 0; i < p->count; i++) {
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        bool device = differs(p, in, common);
        for (int k = 0; k < gd__opcode_operands(in->op); k++) device = device || from[operand[k]] == DEVICE;
        from[i] = !in->uniform || in->op == GD_I_CONST ? NOWHERE : device ? DEVICE : HOST;
    }
    for (int k = 0; k < pass->used_count; k++) wanted[pass->used[k]] = true;
    for (int k = 0; k < pass->randoms; k++)
        wanted[p->instr[pass->random[k]].a] = wanted[p->instr[pass->random[k]].b] = true;
    for (int k = 0; k < pass->chances; k++) wanted[p->array[pass->chance[k]].chance] = true;
    for (int i = p->count; i-- > 0;) {
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        bool here = wanted[i] && from[i] == DEVICE && !gd__is_reduction(in->op);
        for (int k = 0; here && k < gd__opcode_operands(in->op); k++) wanted[operand[k]] = true;
        if (!wanted[i]) from[i] = NOWHERE;
    }
}

int gd__table_common(const gd_program *p, const gd_pass *pass, int common, int32_t *list)
{
    origin from[GD_MAX_INSTRS];
    int count = 0;
    find_origins(p, pass, common, from);
    for (int i = 0; i < p->count; i++)
        if (from[i] == HOST) list[count++] = i;
    return count;
}

/* A uniform value, in f64 whatever the elements are computed in. */
static void write_uniform(const gd_pass_walk *wide, int32_t i, char *word)
{
    word[0] = 0;
    if (i < 0) return;
    if (wide->p->instr[i].op == GD_I_CONST)
        gd__write_literal(wide, wide->p->instr[i].imm, word);
    else
        snprintf(word, GD_WORD, "x%d", (int)i); /* not u: u16 is a type */
}

static void put_device_uniform(const gd_pass_walk *wide, int common, int32_t i)
{
    const gd_program *p = wide->p;
    const gd_instr *in = &p->instr[i];
    char line[GD_LINE], operand[3][GD_WORD];
    if (gd__is_reduction(in->op)) {
        snprintf(line, sizeof line, "L.reduced[c.member * %d + %d]", p->reductions, (int)in->index);
    } else if (in->op == GD_I_UNIFORM) {
        int32_t list[GD_MAX_UNIFORMS];
        int columns = gd__table_inputs(p, common, list), k = 0;
        while (list[k] != in->index) k++;
        snprintf(line, sizeof line, "L.input[c.member * %d + %d]", columns, k);
    } else {
        write_uniform(wide, in->a, operand[0]);
        write_uniform(wide, in->b, operand[1]);
        write_uniform(wide, in->c, operand[2]);
        gd__write_expression(wide, in->op, operand, line);
    }
    gd__text_put(wide->out, "        const double x%d = %s;\n", (int)i, line);
}

/* Uniform values as doubles x0, x1, ... by instruction number; those that elements read in the compute type. */
static void put_uniforms(const gd_pass_walk *w, int common)
{
    origin from[GD_MAX_INSTRS];
    gd_pass_walk wide = *w;
    wide.type = GD_ELEMENT_F64;
    find_origins(w->p, w->pass, common, from);
    for (int i = 0, k = 0; i < w->p->count; i++) {
        if (from[i] == HOST) gd__text_put(w->out, "        const double x%d = L.common[%d];\n", i, k++);
        if (from[i] == DEVICE) put_device_uniform(&wide, common, i);
    }
    const char *type = w->d->type[w->type];
    for (int k = 0; k < w->pass->used_count; k++) {
        char word[GD_WORD];
        write_uniform(&wide, w->pass->used[k], word);
        gd__text_put(w->out, "        const %s s%d = (%s)%s;\n", type, k, type, word);
    }
}

static bool is_view(const gd_pass_walk *w, int k) { return w->pass->views >> k & 1; }

/* Arrays in memory that the pass reads or writes; sums along axes are only computed. */
static bool is_piece(const gd_pass_walk *w, int k)
{
    uint32_t touched = w->pass->loads | (w->pass->sums ? 0 : w->pass->stores);
    return touched >> k & 1 && w->p->array[k].kind != GD_ARRAY_RANDOM;
}

static void put_pieces(const gd_pass_walk *w)
{
    for (int k = 0; k < w->p->arrays; k++) {
        if (!is_piece(w, k)) continue;
        const char *memory = gd__memory_word(w, k);
        gd__text_put(w->out, "        %s *p%d = (%s *)L.pointer[c.member * %d + %d]%s;\n", memory, k, memory,
                     w->p->arrays, k, is_view(w, k) ? "" : " + c.start");
        if (gd__is_coded(w, k))
            gd__text_put(w->out, "        float *h%d = (float *)L.pointer[c.member * %d + %d] - 1;\n", k,
                         w->p->arrays, k);
    }
    for (int c = 0; c < w->pass->chances; c++) {
        int k = w->pass->chance[c];
        if (gd__noise_number(w, k) != k) continue;
        gd__text_put(w->out, "        const gd_noise z%d = gd__noise_of(x%d, c.start);\n", k,
                     (int)w->p->array[k].chance);
    }
}

/* Elements of a thread at a time: 16 bytes of the smallest kind, twice as many in passes that only add up. */
int gd__table_width(const gd_program *p, const gd_pass *pass)
{
    size_t least = 8;
    for (int k = 0; k < p->arrays; k++) {
        bool used = (pass->loads | pass->stores) >> k & 1;
        size_t item = gd_dtype_size(p->array[k].dtype);
        if (used && item < least) least = item;
    }
    return (least <= 2 ? 8 : 4) * (pass->last || pass->sums ? 1 : 2);
}

int gd__table_threads(const gd_program *p, const gd_pass *pass)
{
    bool codes = false;
    for (int k = 0; k < p->arrays; k++)
        codes = codes || ((pass->loads | pass->stores) >> k & 1 && p->array[k].dtype == GD_U8);
    return codes ? GD_CODED_THREADS : GD_THREADS;
}

static void put_joined(const gd_pass_walk *w)
{
    for (int r = 0; r < w->pass->reductions; r++) {
        const gd_instr *in = &w->p->instr[w->p->reduction[w->pass->reduction[r]]];
        char so_far[GD_WORD], value[GD_WORD], line[GD_LINE];
        snprintf(so_far, sizeof so_far, "r%d", r);
        gd__write_operand(w, in->a, value);
        gd__write_joined(w, in->op == GD_I_SUM, so_far, value, line);
        gd__text_put(w->out, "                if (k < left) r%d = %s;\n", r, line);
    }
}

/* Random numbers are made in pairs.  A piece begins with an even element, so a pair belongs to one piece; rows of tiles may begin with
 * an odd element and make each pair again for each of its elements. */
static void put_randoms(const gd_pass_walk *w, const char *width)
{
    gd_pass_walk wide = *w;
    wide.type = GD_ELEMENT_F64;
    bool single = w->pass->sums > 0;
    for (int r = 0; r < w->pass->randoms; r++) {
        const gd_instr *in = &w->p->instr[w->pass->random[r]];
        gd_stream s = gd__stream(w->p, in, 0, 0);
        const char *scale = w->type == GD_ELEMENT_F32 ? "16777216.0" : "9007199254740992.0",
                   *type = w->d->type[w->type];
        char key[GD_WORD], step[GD_WORD];
        write_uniform(&wide, in->a, key);
        write_uniform(&wide, in->b, step);
        gd__text_put(w->out,
                     "%s            for (int k = 0; k < %s; k += %d) {\n"
                     "                uint32_t word[4];\n"
                     "                double pair[2];\n"
                     "                gd__philox_at((uint64_t)%s, (uint64_t)(c.start + i + k) / 2, "
                     "(uint64_t)%d << 32 | (uint32_t)(uint64_t)%s, word);\n"
                     "                gd__random_pair(%d, %s, word, pair);\n",
                     w->d->unroll, width, single ? 1 : 2, key, (int)(s.high >> 32), step, s.kind, scale);
        if (single)
            gd__text_put(w->out, "                a%d[k] = (%s)pair[(c.start + i + k) & 1];\n",
                         (int)in->index, type);
        else
            gd__text_put(w->out,
                         "                a%d[k] = (%s)pair[0];\n                a%d[k + 1] = (%s)pair[1];\n",
                         (int)in->index, type, (int)in->index, type);
        gd__text_put(w->out, "            }\n");
    }
}

static bool is_read_ahead(const gd_pass_walk *w, int k)
{
    return gd__has_codes(w, w->pass->stores) && is_piece(w, k) && w->pass->loads >> k & 1 && !is_view(w, k);
}

/* Arrays whose codes take long to decode are loaded one piece ahead. */
static void put_ahead(const gd_pass_walk *w, const char *width)
{
    gd__text_put(w->out, "        const bool even = true");
    for (int k = 0; k < w->p->arrays; k++)
        if (is_piece(w, k) && !is_view(w, k)) gd__text_put(w->out, w->d->even, width, k);
    gd__text_put(w->out, ";\n");
    for (int k = 0; k < w->p->arrays; k++) {
        if (!is_read_ahead(w, k)) continue;
        gd__text_put(w->out, w->d->room_ahead, gd__memory_word(w, k), width, k);
        if (gd__is_coded(w, k)) gd__text_put(w->out, "        float o%d;\n", k);
    }
    gd__text_put(w->out, w->d->ahead, width, width, width);
    for (int k = 0; k < w->p->arrays; k++) {
        if (!is_read_ahead(w, k)) continue;
        gd__text_put(w->out, w->d->take_ahead, k, k);
        if (gd__is_coded(w, k))
            gd__text_put(w->out, "            o%d = left > 0 ? h%d[-((c.start + i) >> 8)] : 0.0f;\n", k, k);
    }
    gd__text_put(w->out, w->d->begin_ahead, width);
}

static void put_arrived(const gd_pass_walk *w, const char *width)
{
    for (int k = 0; k < w->p->arrays; k++) {
        if (!is_read_ahead(w, k)) continue;
        gd__text_put(w->out, w->d->arrive, k, k);
        if (gd__is_coded(w, k)) gd__text_put(w->out, "            const float c%d = o%d;\n", k, k);
    }
    gd__text_put(w->out, w->d->go_ahead, width);
}

/* The elements of every array that the pass reads, and memory for its results. */
static void put_taken(const gd_pass_walk *w, const char *width)
{
    const gd_program *p = w->p;
    for (int k = 0; k < p->arrays; k++) {
        bool random = p->array[k].kind == GD_ARRAY_RANDOM && w->pass->loads >> k & 1;
        if (!is_piece(w, k) && !random) continue;
        gd__text_put(w->out, "            %s a%d[%s];\n", gd__memory_word(w, k), k, width);
        if (random || !(w->pass->loads >> k & 1) || is_read_ahead(w, k)) continue;
        if (is_view(w, k))
            gd__text_put(w->out, w->d->look, width, p->axes, (unsigned)w->pass->along,
                         (unsigned)(p->array[k].along & w->pass->along), k, k, p->axes);
        else
            gd__text_put(w->out, w->d->take, width, k, k);
    }
    put_randoms(w, width);
}

/* Scales of codes that are read: of the block that a piece is in, or a tile's element k. */
static void put_scales(const gd_pass_walk *w, const char *indent, const char *there, const char *at)
{
    for (int k = 0; k < w->p->arrays; k++)
        if (gd__is_coded(w, k) && w->pass->loads >> k & 1)
            gd__text_put(w->out, "%sconst float c%d = %s ? h%d[-((c.start + %s) >> 8)] : 0.0f;\n", indent, k,
                         there, k, at);
}

/* The rounding errors of a different array's codes. */
static void put_rest(const gd_pass_walk *w, int of, int k, const char *width)
{
    char code[GD_WORD], value[GD_LINE];
    snprintf(code, sizeof code, "a%d[k]", of);
    snprintf(value, sizeof value, w->d->value, gd__code_kind(w, of), code);
    gd__text_put(w->out, "%s            for (int k = 0; k < %s; k++) y%d[k] = y%d[k] - d%d * %s;\n",
                 w->d->unroll, width, k, of, of, value);
}

/* Encodes the values in y: every thread of a block knows its largest value, one thread writes the scale. */
static void put_codes(const gd_pass_walk *w, int k, const char *width)
{
    int of = w->p->array[k].rest_of - 1;
    if (of >= 0) put_rest(w, of, k, width);
    const char *kind = gd__code_kind(w, k);
    char largest[GD_LINE];
    snprintf(largest, sizeof largest, w->d->largest, kind, width, k);
    gd__text_put(
        w->out,
        "            const float d%d = gd__code_scale(%s), e%d = gd__code_inverse(d%d);\n"
        "            if (left > 0 && ((c.start + i) & 255) == 0) h%d[-((c.start + i) >> 8)] = d%d;\n",
        k, largest, k, k, k, k);
    gd__text_put(w->out, w->d->code, kind, width, k, k, k);
}

static void put_piece_loop(const gd_pass_walk *w)
{
    bool codes = gd__has_codes(w, w->pass->stores);
    char number[GD_WORD];
    const char *width = codes ? w->d->coded_width : number;
    snprintf(number, sizeof number, "%d", gd__table_width(w->p, w->pass));
    if (codes) put_ahead(w, width);
    gd__text_put(w->out, codes ? w->d->coded_loop : w->d->loop, width, width, width, width);
    if (!codes) put_scales(w, "            ", "left > 0", "i");
    put_taken(w, width);
    if (codes) put_arrived(w, width);
    for (int k = 0; k < w->p->arrays; k++)
        if (w->pass->stores >> k & 1 && gd__is_coded(w, k))
            gd__text_put(w->out, "            float y%d[%s];\n", k, width);
    gd__text_put(w->out, "%s            for (int k = 0; k < %s; k++) {\n", w->d->unroll, width);
    gd__put_values(w, "                ", "k");
    gd__put_stores(w, "                ", "k");
    put_joined(w);
    gd__text_put(w->out, "            }\n");
    for (int coded = 0; coded < 2;
         coded++) /* codes at the end, when other values are no longer in registers */
        for (int k = 0; k < w->p->arrays; k++) {
            if (!(w->pass->stores >> k & 1) || gd__is_coded(w, k) != coded) continue;
            if (coded) put_codes(w, k, width);
            gd__text_put(w->out, codes ? w->d->coded_give : w->d->give, width, k, k);
        }
    gd__text_put(w->out, "        }\n");
}

static void put_reductions(const gd_pass_walk *w)
{
    for (int r = 0; r < w->pass->reductions; r++) {
        char word[GD_WORD];
        gd__write_nothing(w, gd__walk_sums(w, r), word);
        gd__text_put(w->out, "        %s r%d = %s;\n", w->d->type[w->type], r, word);
    }
    put_piece_loop(w);
    for (int r = 0; r < w->pass->reductions; r++)
        gd__text_put(w->out, w->d->join, gd__walk_sums(w, r) ? "false" : "true", r, w->pass->reductions, r);
}

/* ---- along axes ---- */

typedef struct table_sum {
    bool adds; /* and does not look for the largest */
    bool columns;
    int32_t operand;
} table_sum;

static table_sum table_sum_of(const gd_pass_walk *w, int s)
{
    const gd_instr *in = &w->p->instr[w->pass->sum[s]];
    return (table_sum){
        .adds = in->op == GD_I_SUM_ALONG, .columns = gd__tiling(w->p, in).columns_kept, .operand = in->a};
}

/* One more value for the sum of a row, or of one of a thread's columns. */
static void put_sums(const gd_pass_walk *w)
{
    for (int s = 0; s < w->pass->sums; s++) {
        table_sum sum = table_sum_of(w, s);
        char so_far[GD_WORD], value[GD_WORD], line[GD_LINE];
        snprintf(so_far, sizeof so_far, sum.columns ? "q%d[k]" : "q%d", s);
        gd__write_operand(w, sum.operand, value);
        gd__write_joined(w, sum.adds, so_far, value, line);
        gd__text_put(w->out, "                if (k < left) %s = %s;\n", so_far, line);
    }
}

static void put_begun(const gd_pass_walk *w, bool columns, int width)
{
    for (int s = 0; s < w->pass->sums; s++) {
        table_sum sum = table_sum_of(w, s);
        char word[GD_WORD];
        gd__write_nothing(w, sum.adds, word);
        if (sum.columns != columns) continue;
        if (columns)
            gd__text_put(w->out, "        %s q%d[%d];\n%s        for (int k = 0; k < %d; k++) q%d[k] = %s;\n",
                         w->d->type[w->type], s, width, w->d->unroll, width, s, word);
        else
            gd__text_put(w->out, "            %s q%d = %s;\n", w->d->type[w->type], s, word);
    }
}

static void put_ended(const gd_pass_walk *w, bool columns, int width)
{
    for (int s = 0; s < w->pass->sums; s++) {
        table_sum sum = table_sum_of(w, s);
        if (sum.columns != columns) continue;
        if (columns) gd__text_put(w->out, "%s        for (int k = 0; k < %d; k++)\n", w->d->unroll, width);
        gd__text_put(w->out, columns ? w->d->join_column : w->d->join_row, sum.adds ? "false" : "true", s,
                     w->pass->sums, s);
    }
}

static void put_tile_loop(const gd_pass_walk *w)
{
    int width = gd__table_width(w->p, w->pass);
    gd__text_put(w->out, w->d->lanes, width, width);
    put_begun(w, true, width);
    gd__text_put(w->out, w->d->rows, width, width);
    put_begun(w, false, width);
    char number[GD_WORD];
    snprintf(number, sizeof number, "%d", width);
    put_taken(w, number);
    gd__text_put(w->out, "%s            for (int k = 0; k < %d; k++) {\n", w->d->unroll, width);
    put_scales(w, "                ", "k < left", "i + k");
    gd__put_values(w, "                ", "k");
    put_sums(w);
    gd__text_put(w->out, "            }\n");
    put_ended(w, false, width);
    gd__text_put(w->out, "        }\n");
    put_ended(w, true, width);
}

void gd__emit_table(const gd_program *p, const gd_pass *pass, const gd_dialect *d, const char *name,
                    int common, gd_text *out)
{
    gd_pass_walk w = gd__walk_begin(p, pass, d, out);
    gd__put_lines(out, d->prelude);
    w.first = "c.start + i + ";
    if (pass->randoms) gd__put_lines(out, rng_text);
    bool codes = gd__has_codes(&w, pass->loads | pass->stores);
    if (pass->chances || codes) gd__put_lines(out, narrow_text);
    if (codes) gd__put_lines(out, d->codes);
    gd__text_put(out, pass->sums ? d->tile_head : d->head, name, codes ? d->codes_begin : "");
    put_uniforms(&w, common);
    put_pieces(&w);
    if (pass->sums)
        put_tile_loop(&w);
    else
        put_reductions(&w);
    gd__text_put(out, "%s", d->tail);
}

void gd__emit_joins(const gd_dialect *d, gd_text *out)
{
    gd__put_lines(out, d->joins);
    gd__put_lines(out, d->prelude);
}
