/* f32 products of which a triangle is not needed, as in causal attention: tiles without a share in the rest are left out, which
 * no library does.  part: 1, only the lower triangle of the result is looked at; 2, the left is zero above the diagonal;
 * 3, it is zero below.
 *
 * A block of 128 threads makes 64 x 64 numbers of the result, a thread 8 x 4 of them, from slices of 16 along what is summed
 * over, which wait in shared memory while the next ones are on their way from global memory:
 *
 *     left  [64 rows]    -> from[k][row ^ 8 (k / 8)]      two buffers each; the exchange of groups of eight keeps the stores
 *     right [64 columns] -> from[k][column ^ 8 (k / 8)]   of turned operands off each other's banks
 *
 * Sums are made in the order of k by fused multiply-adds, so bits depend on nothing else. */
#define TILE  64
#define SLICE 16
#define PITCH 68

struct Args {
    const float *left, *right;
    float *result;
    int rows, columns, inner, part;
    i64 left_ld, right_ld, result_ld; /* all multiples of 4, as are the sizes; all addresses of 16 bytes */
    int left_along, right_along;      /* is what is summed over adjacent in memory? */
    int across, batches;              /* tiles in a row of the result, matrices */
    int inside;                       /* size of the inner batch axis */
    i64 outer_step[3], inner_step[3]; /* of left, right and result, in elements */
};

struct alignas(16) Four { float v[4]; };

struct Room {
    float left[2][SLICE][PITCH], right[2][SLICE][PITCH];
};

/* A tile's 64 rows of an operand, 16 of what is summed over: element (o, k) is at o * ld + k, or k * ld + o. */
template <bool ALONG> struct Slice {
    Four held[2];

    __device__ void read(const float *from, i64 ld, int first, int most, int k0, int end)
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int i = (int)threadIdx.x + 128 * r;
            int o = first + (ALONG ? i / 4 : i % 16 * 4), k = k0 + (ALONG ? i % 4 * 4 : i / 16);
            if (o < most && k < end)
                held[r] = *(const Four *)(from + (ALONG ? o * ld + k : k * ld + o));
            else
                held[r] = Four{{0, 0, 0, 0}};
        }
    }

    __device__ void write(float (*to)[PITCH]) const
    {
#pragma unroll
        for (int r = 0; r < 2; r++) {
            int i = (int)threadIdx.x + 128 * r;
            if (ALONG) {
                int o = i / 4, k = i % 4 * 4;
#pragma unroll
                for (int e = 0; e < 4; e++) to[k + e][o ^ (k & 8)] = held[r].v[e];
            } else {
                int o = i % 16 * 4, k = i / 16;
                *(Four *)&to[k][o ^ (k & 8)] = held[r];
            }
        }
    }
};

__device__ inline void multiply_slices(const float (*left)[PITCH], const float (*right)[PITCH], int row, int column,
                                       float (*sum)[4])
{
#pragma unroll
    for (int k = 0; k < SLICE; k++) {
        Four a0 = *(const Four *)&left[k][row ^ (k & 8)], a1 = *(const Four *)&left[k][(row ^ (k & 8)) + 4];
        Four b = *(const Four *)&right[k][column ^ (k & 8)];
#pragma unroll
        for (int i = 0; i < 8; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) sum[i][j] = fmaf(i < 4 ? a0.v[i & 3] : a1.v[i & 3], b.v[j], sum[i][j]);
    }
}

template <bool LEFT, bool RIGHT>
__device__ inline void make_tile(const Args &A, Room &room, const float *left, const float *right, float *result, int top,
                                 int side, int begin, int end)
{
    int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    int row = (warp / 2 * 4 + lane / 8) * 8, column = (warp % 2 * 8 + lane % 8) * 4;
    float sum[8][4];
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sum[i][j] = 0;
    Slice<LEFT> l;
    Slice<RIGHT> r;
    int at = 0;
    l.read(left, A.left_ld, top, A.rows, begin, end);
    r.read(right, A.right_ld, side, A.columns, begin, end);
    l.write(room.left[0]);
    r.write(room.right[0]);
    __syncthreads();
    for (int k = begin; k < end; k += SLICE, at ^= 1) {
        bool more = k + SLICE < end;
        if (more) {
            l.read(left, A.left_ld, top, A.rows, k + SLICE, end);
            r.read(right, A.right_ld, side, A.columns, k + SLICE, end);
        }
        multiply_slices(room.left[at], room.right[at], row, column, sum);
        if (more) {
            l.write(room.left[at ^ 1]);
            r.write(room.right[at ^ 1]);
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (top + row + i < A.rows && side + column < A.columns)
            *(Four *)(result + (top + row + i) * A.result_ld + side + column) =
                Four{{sum[i][0], sum[i][1], sum[i][2], sum[i][3]}};
}

/* One tile a block; blocks with the most to do come first. */
extern "C" __global__ void __launch_bounds__(128) triangle_product(const Args A)
{
    __shared__ Room room;
    int tile = (int)(blockIdx.x / (unsigned)A.batches), batch = (int)(blockIdx.x % (unsigned)A.batches);
    i64 outer = batch / A.inside, inner = batch % A.inside;
    int down = 0, across = 0, begin = 0, end = A.inner;
    if (A.part == 1) {
        for (; tile > down; down++) tile -= down + 1;
        across = tile;
    } else {
        down = tile / A.across;
        across = tile % A.across;
        if (A.part == 2) down = (A.rows + TILE - 1) / TILE - 1 - down;
    }
    int top = down * TILE, side = across * TILE;
    if (A.part == 2 && top + TILE < end) end = top + TILE;
    if (A.part == 3) begin = top;
    const float *left = A.left + outer * A.outer_step[0] + inner * A.inner_step[0];
    const float *right = A.right + outer * A.outer_step[1] + inner * A.inner_step[1];
    float *result = A.result + outer * A.outer_step[2] + inner * A.inner_step[2];
    if (A.left_along) {
        if (A.right_along) make_tile<true, true>(A, room, left, right, result, top, side, begin, end);
        else make_tile<true, false>(A, room, left, right, result, top, side, begin, end);
    } else {
        if (A.right_along) make_tile<false, true>(A, room, left, right, result, top, side, begin, end);
        else make_tile<false, false>(A, room, left, right, result, top, side, begin, end);
    }
}
