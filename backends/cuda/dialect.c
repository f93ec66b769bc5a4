/* How fused programs are written for NVRTC: kernels/program.cu is what every kernel begins with.
 *
 * A thread moves 16 bytes of an array at a time (take, give); a block joins its reductions in a fixed order (block_join). */
#include "dialect.h"
#include "codes_text.h" /* kernels/codes.cu and program.cu, made by cmake/EmbedText.cmake */
#include "program_text.h"

#include <stddef.h>

static const char *const joins[] = {"#define JOINS", NULL};

const gd_dialect cuda_dialect = {
    .type = {"float", "double"},
    .suffix = {"_f32", "_f64"},
    .memory = {"float", "double", "u16", "u16", "u8"},
    .load = {"%s", "%s", "half_to_float(%s)", "bf16_to_float(%s)"},
    .store = {"%s", "%s", "float_to_half(%s)", "float_to_bf16(%s)"},
    .prelude = program_text,
    .joins = joins,
    .codes = codes_text,
    .codes_begin = "    __shared__ Codes codes;\n"
                   "    codes_begin(codes);\n",
    .value = "codes.value_%s[%s]",
    .code = "            code_%s<%s>(codes, a%d, y%d, e%d);\n",
    .head = "extern \"C\" __global__ void __launch_bounds__(BOUNDS) %s(const Launch L)\n{\n%s"
            "    for (i64 b = blockIdx.x; b < L.chunks; b += gridDim.x) {\n"
            "        const Chunk c = L.chunk[b];\n",
    .loop = "        for (i64 i = (i64)threadIdx.x * %s; i < c.n; i += (i64)blockDim.x * %s) {\n"
            "            const int left = c.n - i < %s ? (int)(c.n - i) : %s;\n",
    /* a warp has a block: it goes on as long as one of its threads has an element */
    .coded_loop =
        "        for (i64 i = (i64)threadIdx.x * %s; i < (c.n + 255 & ~255ll); i += (i64)blockDim.x * %s) {\n"
        "            const int left = c.n - i < %s ? (int)(c.n - i) : %s;\n"
        "            const bool whole = even && left == CODED_WIDTH;\n",
    .even = " && is_even<%s>(p%d)",
    .ahead = "        auto ahead = [&](i64 i) {\n"
             "            const int left = c.n - i < %s ? (int)(c.n - i) : %s;\n"
             "            const bool whole = even && left == %s;\n",
    .room_ahead = "        Ahead<%s, %s> b%d;\n",
    .take_ahead = "            b%d.take(p%d + i, left, whole);\n",
    .arrive = "            b%d.arrive(a%d);\n",
    .begin_ahead = "        };\n"
                   "        ahead((i64)threadIdx.x * %s);\n",
    .go_ahead = "            ahead(i + (i64)blockDim.x * %s);\n",
    .coded_give = "            give<%s>(p%d + i, a%d, left, whole);\n",
    .coded_width = "CODED_WIDTH",
    .largest = "largest_%s<%s>(y%d, left)",
    .unroll = "#pragma unroll\n",
    .take = "            take<%s>(a%d, p%d + i, left);\n",
    .give = "            give<%s>(p%d + i, a%d, left);\n",
    .join = "        block_join<%s>((double)r%d, &L.partial[b * %d + %d]);\n",
    .tail = "    }\n}\n",
    .look = "            look<%s, %d, %uu, %uu>(a%d, p%d, L.size + c.member * %d, c.start + i, left);\n",
    .tile_head = "extern \"C\" __global__ void __launch_bounds__(BOUNDS) %s(const Launch L)\n{\n%s"
                 "    for (i64 b = blockIdx.x; b < L.chunks; b += gridDim.x) {\n"
                 "        const Tile c = ((const Tile *)L.chunk)[b];\n",
    .lanes = "        const Lanes l = lanes_of<%d>(c.n);\n"
             "        const i64 column = (i64)l.lane * %d;\n",
    .rows =
        "        for (i64 r = l.group; r - l.group < c.rows; r += l.groups) {\n"
        "            const i64 i = c.first + r * c.columns + column;\n"
        "            const int left = r >= c.rows || column >= c.n ? 0 : c.n - column < %d ? (int)(c.n - column) : %d;\n",
    .join_row = "            row_join<%s>((double)q%d, l, r < c.rows, "
                "&L.along[L.along_at[c.member * %d + %d] + c.rows_at + r * c.row_step]);\n",
    .join_column = "            column_join<%s>((double)q%d[k], l, column + k < c.n, "
                   "&L.along[L.along_at[c.member * %d + %d] + c.columns_at + column + k]);\n",
};
