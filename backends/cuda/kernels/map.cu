/* Element-wise operators.  Defined before: DT (dtype of the operands), OUT (dtype of the result), FIRST (dtype of the
 * first operand: bool for where), NIN, EXPR(x, y, z, f). */
typedef Compute<DT>::type C;
typedef Memory<DT>::type M;
typedef Memory<OUT>::type O;
typedef Memory<FIRST>::type F;
typedef Compute<FIRST>::type FC;

struct Args {
    i64 n;
    int ndim;
    i64 size[8], stride[3][8];
    const void *in[3];
    void *out;
    double f[2];
    bool wide[3]; /* rows: four neighbours of an operand are one aligned piece */
};

__device__ inline O element(F a, M b, M c, const double *f)
{
    FC x = load<FIRST>(a);
    C y = NIN > 1 ? load<DT>(b) : (C)0, z = NIN > 2 ? load<DT>(c) : (C)0;
    (void)y;
    (void)z;
    (void)f;
    return store<OUT>((Compute<OUT>::type)(EXPR(x, y, z, f)));
}

/* Same shape, contiguous: WIDE elements per thread in 16-byte pieces of the widest operand. */
#define WIDE (sizeof(M) == 2 && sizeof(O) == 2 ? 8 : 4)
extern "C" __global__ void map_contiguous(const Args A)
{
    const F *a = (const F *)A.in[0];
    const M *b = (const M *)A.in[1], *c = (const M *)A.in[2];
    O *o = (O *)A.out;
    i64 wide = A.n / WIDE;
    struct alignas(sizeof(F) * WIDE) VF { F v[WIDE]; };
    struct alignas(sizeof(M) * WIDE) VM { M v[WIDE]; };
    struct alignas(sizeof(O) * WIDE) VO { O v[WIDE]; };
    EACH(i, wide)
    {
        VF va = ((const VF *)a)[i];
        VM vb, vc;
        if (NIN > 1) vb = ((const VM *)b)[i];
        if (NIN > 2) vc = ((const VM *)c)[i];
        VO vo;
#pragma unroll
        for (int k = 0; k < WIDE; k++) vo.v[k] = element(va.v[k], NIN > 1 ? vb.v[k] : (M)0, NIN > 2 ? vc.v[k] : (M)0, A.f);
        ((VO *)o)[i] = vo;
    }
    if (blockIdx.x == 0 && threadIdx.x < A.n - wide * WIDE) {
        i64 i = wide * WIDE + threadIdx.x;
        o[i] = element(a[i], NIN > 1 ? b[i] : (M)0, NIN > 2 ? c[i] : (M)0, A.f);
    }
}

template <class T> struct alignas(sizeof(T) * 4) Four { T v[4]; };

template <class T> __device__ inline Four<T> four(const T *p, i64 step, bool wide)
{
    if (wide) return *(const Four<T> *)p;
    Four<T> out;
#pragma unroll
    for (int k = 0; k < 4; k++) out.v[k] = p[k * step];
    return out;
}

/* Two axes, the last a multiple of four: four neighbours of a row per thread. */
extern "C" __global__ void map_rows(const Args A)
{
    unsigned columns = (unsigned)A.size[1];
    EACH(i, A.n / 4)
    {
        unsigned first = (unsigned)i * 4, row = first / columns, column = first - row * columns;
#define PLACE(j) (row * A.stride[j][0] + column * A.stride[j][1])
        Four<F> a = four((const F *)A.in[0] + PLACE(0), A.stride[0][1], A.wide[0]);
        Four<M> b, c;
        if (NIN > 1) b = four((const M *)A.in[1] + PLACE(1), A.stride[1][1], A.wide[1]);
        if (NIN > 2) c = four((const M *)A.in[2] + PLACE(2), A.stride[2][1], A.wide[2]);
        Four<O> out;
#pragma unroll
        for (int k = 0; k < 4; k++)
            out.v[k] = element(a.v[k], NIN > 1 ? b.v[k] : (M)0, NIN > 2 ? c.v[k] : (M)0, A.f);
        ((Four<O> *)A.out)[i] = out;
    }
}

extern "C" __global__ void map_strided(const Args A)
{
    EACH(i, A.n)
    {
        i64 rest = i, at[3] = {0, 0, 0};
        for (int d = A.ndim - 1; d >= 0; d--) {
            i64 k;
            if (rest < 0x7fffffff && A.size[d] < 0x7fffffff) {
                unsigned r = (unsigned)rest, s = (unsigned)A.size[d];
                k = r % s;
                rest = r / s;
            } else {
                k = rest % A.size[d];
                rest /= A.size[d];
            }
#pragma unroll
            for (int j = 0; j < NIN; j++) at[j] += k * A.stride[j][d];
        }
        ((O *)A.out)[i] = element(((const F *)A.in[0])[at[0]], NIN > 1 ? ((const M *)A.in[1])[at[1]] : (M)0,
                                  NIN > 2 ? ((const M *)A.in[2])[at[2]] : (M)0, A.f);
    }
}
