/* Element-wise execution: the output, which is contiguous, is cut into fixed pieces; inside a piece, blocks of operands
 * are read as plain arrays of the compute type (in place if they already are), and one vector kernel runs.
 *
 *   piece of 16384 outputs -> blocks of at most 1024 -> [a as f32][b as f32] -> kernel -> [o as f32] -> stored */
#include "tensor/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define BLOCK 1024

/* One operand, seen with the axes of the output (stride 0 where it is broadcast), neighbours merged where possible. */
typedef struct operand {
    const char *data;
    const gd_tensor *t;
    int ndim;
    int64_t size[GD_MAX_DIMS], stride[GD_MAX_DIMS];
    size_t item;
    gd_convert_fn load; /* NULL: memory is the compute type */
    bool raw;           /* read bytes as they are: the condition of `where` */
    bool flat;          /* contiguous */
    bool direct;        /* dense, and raw or no conversion: used in place */
    bool constant;      /* the same element everywhere */
} operand;

typedef struct job {
    const gd_vec_table *vec;
    gd_vec_fn fn;
    gd_spaced_fn spaced; /* NULL: no operand needs it, or there is none */
    const double *f;
    int nin;
    operand in[3];
    char *out;
    size_t out_item;
    gd_convert_fn store;
    size_t compute_item;
    int64_t numel, share; /* share: elements per task */
} job;

static void merge_axes(operand *o)
{
    int n = 0;
    for (int i = 0; i < o->ndim; i++) {
        if (o->size[i] == 1) continue;
        if (n && o->stride[n - 1] == o->stride[i] * o->size[i]) {
            o->size[n - 1] *= o->size[i];
            o->stride[n - 1] = o->stride[i];
        } else {
            o->size[n] = o->size[i];
            o->stride[n++] = o->stride[i];
        }
    }
    o->ndim = n;
}

static void see(operand *o, const gd_vec_table *vec, const gd_tensor *t, int ndim, const int64_t *size,
                bool raw)
{
    o->t = t;
    o->data = t->data;
    o->item = gd__item_size(t);
    o->raw = raw;
    o->load = raw ? NULL : vec->load[t->dtype];
    o->ndim = ndim;
    int shift = ndim - t->ndim;
    for (int i = 0; i < ndim; i++) {
        o->size[i] = size[i];
        o->stride[i] = i < shift || (t->size[i - shift] == 1 && size[i] != 1) ? 0 : t->stride[i - shift];
    }
    merge_axes(o);
    o->flat = o->ndim == 0 || (o->ndim == 1 && o->stride[0] == 1);
    o->direct = o->flat && !o->load;
    o->constant = o->ndim == 0 || (o->ndim == 1 && o->stride[0] == 0);
}

#define SEED 64   /* bytes up to which single elements are stored instead of calling memcpy */
#define NEAR 4096 /* bytes that stay in the nearest cache */

/* What is there already is copied behind itself, from a certain size on always the same. */
void gd__repeat(char *to, const char *from, int64_t n, size_t item)
{
    size_t bytes = (size_t)n * item, done = item < SEED && bytes >= SEED && SEED % item == 0 ? SEED : item;
    char seed[SEED];
    if (done > item) {
#define FILL(type)                                                                              \
    {                                                                                           \
        type value;                                                                             \
        memcpy(&value, from, sizeof value);                                                     \
        for (size_t i = 0; i < SEED; i += sizeof value) memcpy(seed + i, &value, sizeof value); \
    }
        switch (item) {
        case 4: FILL(uint32_t) break;
        case 8: FILL(uint64_t) break;
        case 2: FILL(uint16_t) break;
        default:
            for (size_t i = 0; i < SEED; i += item) memcpy(seed + i, from, item);
        }
#undef FILL
        from = seed;
    }
    memcpy(to, from, done);
    for (size_t step = done; done < bytes; step = done <= NEAR ? done : step) {
        size_t more = step < bytes - done ? step : bytes - done;
        memcpy(to + done, to, more);
        done += more;
    }
}

/* n elements with strides in bytes on both sides. Separate loops per type, because a memcpy of variable size is a call per element. */
static void move_spaced(char *to, int64_t there, const char *from, int64_t here, int64_t n, size_t item)
{
#define MOVE(type)                  \
    for (int64_t i = 0; i < n; i++) \
    *(type *)(void *)(to + i * there) = *(const type *)(const void *)(from + i * here)
    switch (item) {
    case 4: MOVE(uint32_t); break;
    case 8: MOVE(uint64_t); break;
    case 2: MOVE(uint16_t); break;
    default: MOVE(uint8_t); break;
    }
#undef MOVE
}

/* n elements spaced by `step` bytes into a dense array. */
static void collect(char *to, const char *from, int64_t n, int64_t step, size_t item)
{
    if (step == 0 && n > 0)
        gd__repeat(to, from, n, item);
    else
        move_spaced(to, (int64_t)item, from, step, n, item);
}

#define SHORT_RUN 32 /* elements of a run that is too short for a call */

/* `rows` runs of `run` elements into a dense array: runs `down` bytes apart, their elements `across`. */
static void collect_runs(char *to, const char *from, int64_t rows, int64_t run, int64_t down, int64_t across,
                         size_t item)
{
    if (down == 0 && across == (int64_t)item) {
        gd__repeat(to, from, rows, (size_t)run * item);
        return;
    }
#define RUNS(type, length)                                                           \
    for (int64_t r = 0; r < rows; r++, from += down, to += (length) * (int64_t)item) \
        for (int64_t k = 0; k < (length); k++)                                       \
    ((type *)(void *)to)[k] = *(const type *)(const void *)(from + k * across)
/* the same element all along: a column with short rows */
#define RUNS_OF(type)                                                                             \
    if (across == 0 && run == 2)                                                                  \
        for (int64_t r = 0; r < rows; r++)                                                        \
            for (int k = 0; k < 2; k++)                                                           \
                ((type *)(void *)to)[2 * r + k] = *(const type *)(const void *)(from + r * down); \
    else if (across == 0 && run == 3)                                                             \
        for (int64_t r = 0; r < rows; r++)                                                        \
            for (int k = 0; k < 3; k++)                                                           \
                ((type *)(void *)to)[3 * r + k] = *(const type *)(const void *)(from + r * down); \
    else if (across == 0 && run == 4)                                                             \
        for (int64_t r = 0; r < rows; r++)                                                        \
            for (int k = 0; k < 4; k++)                                                           \
                ((type *)(void *)to)[4 * r + k] = *(const type *)(const void *)(from + r * down); \
    else                                                                                          \
        RUNS(type, run)
    switch (item) {
    case 4: RUNS_OF(uint32_t); break;
    case 8: RUNS_OF(uint64_t); break;
    case 2: RUNS_OF(uint16_t); break;
    default: RUNS_OF(uint8_t); break;
    }
#undef RUNS_OF
#undef RUNS
}

/* Whole short runs from the start of one, at most n elements; returns the number of runs. */
static int64_t read_short_runs(const operand *o, const char *from, int64_t at, int64_t n, char *out)
{
    int last = o->ndim - 1;
    int64_t run = o->size[last], rows = o->size[last - 1] - at;
    char dense[BLOCK * 8];
    if (rows > n / run) rows = n / run;
    int64_t down = o->stride[last - 1] * (int64_t)o->item, across = o->stride[last] * (int64_t)o->item;
    collect_runs(o->load ? dense : out, from, rows, run, down, across, o->item);
    if (o->load) o->load(out, dense, rows * run);
    return rows;
}

/* The offset of linear position `start`, and its place on every axis. */
static inline int64_t place_at(const operand *o, int64_t start, int64_t *index)
{
    int64_t offset = 0;
    for (int i = o->ndim; i-- > 0; start /= o->size[i]) {
        index[i] = start % o->size[i];
        offset += index[i] * o->stride[i];
    }
    return offset;
}

/* Where a place is at the end of an axis it moves to the next one of the axis before: what that adds to the offset. */
static inline int64_t carried(const operand *o, int64_t *index, int axis)
{
    int64_t offset = 0;
    for (int i = axis; i > 0 && index[i] == o->size[i]; i--) {
        index[i] = 0;
        index[i - 1]++;
        offset += o->stride[i - 1] - o->size[i] * o->stride[i];
    }
    return offset;
}

/* Reads n elements from linear position `start` into out, as the compute type (or raw). */
static void read_block(const operand *o, int64_t start, int64_t n, char *out, size_t out_item)
{
    int64_t index[GD_MAX_DIMS], offset = place_at(o, start, index);
    int last = o->ndim - 1;
    char dense[BLOCK * 8];
    while (n > 0) {
        int64_t run = last < 0 ? n : o->size[last] - index[last];
        if (run > n) run = n;
        int64_t step = last < 0 ? 0 : o->stride[last];
        const char *from = o->data + offset * (int64_t)o->item;
        bool packed = step == 1 || run == 1;
        if (last > 0 && index[last] == 0 && o->size[last] <= SHORT_RUN && n >= 2 * o->size[last]) {
            int64_t rows = read_short_runs(o, from, index[last - 1], n, out);
            out += (size_t)(rows * run) * out_item;
            n -= rows * run;
            if (n == 0) return;
            offset += rows * o->stride[last - 1];
            index[last - 1] += rows;
            offset += carried(o, index, last - 1);
            continue;
        }
        if (!o->load) {
            if (packed)
                memcpy(out, from, (size_t)run * o->item);
            else
                collect(out, from, run, step * (int64_t)o->item, o->item);
        } else {
            if (!packed) {
                collect(dense, from, run, step * (int64_t)o->item, o->item);
                from = dense;
            }
            o->load(out, from, run);
        }
        out += (size_t)run * out_item;
        n -= run;
        if (last < 0 || n == 0) return;
        /* carry to the next run */
        offset += run * step;
        index[last] += run;
        offset += carried(o, index, last);
    }
}

#define LONG_RUN 64  /* elements of a run that is long enough for a call of the kernel */
#define REPEATED 256 /* of a run that has the same element all along, the most that a buffer is filled with */

static bool has_long_runs(const operand *o)
{
    int last = o->ndim - 1;
    return !o->constant && !o->direct && last > 0 && o->size[last] >= LONG_RUN && o->stride[last] <= 1 &&
           o->stride[last] >= 0;
}

/* The number of elements from position i that can be processed together: up to the end of a row of each operand with long rows. */
static int64_t to_end_of_runs(const job *j, int64_t i, int64_t n)
{
    for (int k = 0; k < j->nin; k++) {
        const operand *o = &j->in[k];
        if (!(j->spaced ? o->ndim > 0 : has_long_runs(o))) continue;
        int64_t left = o->size[o->ndim - 1] - i % o->size[o->ndim - 1];
        if (!j->spaced && o->stride[o->ndim - 1] == 0 && left > REPEATED) left = REPEATED;
        n = left < n ? left : n;
    }
    return n;
}

static const char *element_at(const operand *o, int64_t i)
{
    int64_t offset = 0;
    for (int a = o->ndim; a-- > 0; i /= o->size[a]) offset += i % o->size[a] * o->stride[a];
    return o->data + offset * (int64_t)o->item;
}

/* n elements at position i of an operand: in place, or in the buffer, which holds the element of the run *held if it is constant. */
static const void *take_block(const operand *o, int64_t i, int64_t n, char *buffer, size_t compute_item,
                              int64_t *held)
{
    if (o->direct) return o->data + i * (int64_t)o->item;
    if (has_long_runs(o)) {
        int64_t run = i / o->size[o->ndim - 1];
        if (o->stride[o->ndim - 1] == 0) {
            int64_t left = (run + 1) * o->size[o->ndim - 1] - i;
            if (run != *held)
                read_block(o, i, left < REPEATED ? left : REPEATED, buffer, o->raw ? 1 : compute_item);
            *held = run;
            return buffer;
        }
        if (!o->load) return element_at(o, i);
    }
    read_block(o, i, n, buffer, o->raw ? 1 : compute_item);
    return buffer;
}

static int64_t across(const operand *o) { return o->ndim ? o->stride[o->ndim - 1] : 0; }

/* Two operands in place, run by run. */
static void run_spaced(const job *j, int64_t start, int64_t end)
{
    for (int64_t i = start, n; i < end; i += n) {
        n = to_end_of_runs(j, i, end - i);
        j->spaced(j->out + i * (int64_t)j->out_item, element_at(&j->in[0], i), across(&j->in[0]),
                  element_at(&j->in[1], i), across(&j->in[1]), n);
    }
}

/* Some operand is not dense, and no conversion is needed; runs are long enough that calls cost less than copies. */
#define NEAR_BYTES 64 /* elements further apart are read by rows, several per block */

static gd_spaced_fn spaced_kernel(const gd_vec_table *vec, const job *j, gd_op_id op, int type)
{
    bool apart = false;
    if (type == GD_AS_I64 || j->nin != 2 || j->store) return NULL;
    for (int k = 0; k < 2; k++) {
        const operand *o = &j->in[k];
        int64_t bytes = across(o) * (int64_t)o->item;
        if (o->load || bytes < 0 || bytes > NEAR_BYTES || (o->ndim > 1 && o->size[o->ndim - 1] < LONG_RUN))
            return NULL;
        apart = apart || across(o) != 1;
    }
    return apart ? vec->spaced[op][type] : NULL;
}

static void run_piece(const job *j, int64_t start, int64_t end)
{
    if (j->spaced) {
        run_spaced(j, start, end);
        return;
    }
    _Alignas(64) char buffer[3][BLOCK * 8], result[BLOCK * 8];
    const void *a[3] = {NULL, NULL, NULL};
    int64_t held[3] = {-1, -1, -1};
    bool in_place = !j->store;
    for (int k = 0; k < j->nin; k++) {
        const operand *o = &j->in[k];
        in_place = in_place && o->direct && !o->constant;
        if (!o->constant) continue;
        int64_t n = end - start < BLOCK ? end - start : BLOCK;
        read_block(o, 0, n, buffer[k], o->raw ? 1 : j->compute_item);
        a[k] = buffer[k];
    }
    int64_t step = in_place ? end - start : BLOCK, n;
    for (int64_t i = start; i < end; i += n) {
        n = to_end_of_runs(j, i, end - i < step ? end - i : step);
        for (int k = 0; k < j->nin; k++)
            if (!j->in[k].constant) a[k] = take_block(&j->in[k], i, n, buffer[k], j->compute_item, &held[k]);
        char *to = j->out + i * (int64_t)j->out_item;
        j->fn(j->store ? result : to, a[0], a[1], a[2], n, j->f);
        if (j->store) j->store(to, result, n);
    }
}

/* Elements per task: long ranges of memory for each thread, but enough tasks that no thread waits long for the others.  This
 * split changes no result. */
static int64_t share_of(const gd_ctx *ctx, int64_t numel)
{
    int64_t pieces = (numel + GD_MICROBATCH - 1) / GD_MICROBATCH, tasks = 8 * (int64_t)ctx->threads;
    return (pieces <= tasks ? 1 : (pieces + tasks - 1) / tasks) * GD_MICROBATCH;
}

static void piece_task(void *arg, int64_t k)
{
    const job *j = arg;
    int64_t start = k * j->share, end = start + j->share;
    run_piece(j, start, end < j->numel ? end : j->numel);
}

/* The kernel for all operands and the result in place; NULL: a conversion is needed. */
static gd_vec_fn straight_kernel(const gd_vec_table *vec, const gd_call *call, gd_vec_fn fn)
{
    gd_dtype dtype = call->out[0]->dtype;
    if (gd__is_half(dtype)) {
        for (int k = 0; k < call->nin; k++)
            if (call->in[k]->dtype != dtype) return NULL;
        bool squares = call->op == GD_OP_pow_scalar && call->attrs->f[0] == 2;
        return vec->halves[squares ? GD_OP_square : call->op][gd__half_at(dtype)];
    }
    if (gd__ops[call->op].kind != GD_KIND_TEST && vec->store[dtype]) return NULL;
    for (int k = call->op == GD_OP_where; k < call->nin; k++)
        if (vec->load[call->in[k]->dtype]) return NULL;
    return fn;
}

/* Same shape, contiguous, no conversion: straight to the kernel.  Most small calls end here. */
static bool run_direct(const gd_call *call, gd_vec_fn straight)
{
    gd_tensor *out = call->out[0];
    const void *a[3] = {NULL, NULL, NULL};
    if (out->numel >= 2 * GD_MICROBATCH || !straight) return false;
    for (int k = 0; k < call->nin; k++) {
        gd_tensor *t = call->in[k];
        if (!gd__same_shape(t, out) || !gd__contiguous(t)) return false;
        a[k] = t->data;
    }
    straight(out->data, a[0], a[1], a[2], out->numel, call->attrs->f);
    return true;
}

/* The same for many: pieces of operands that are all contiguous. */
static void go_straight(job *j, gd_vec_fn straight)
{
    for (int k = 0; k < j->nin; k++)
        if (!j->in[k].flat || j->in[k].constant) return;
    for (int k = 0; k < j->nin; k++) j->in[k].direct = true;
    j->fn = straight;
    j->store = NULL;
}

gd_status gd__cpu_map(gd_device *device, const gd_call *call)
{
    const gd_vec_table *vec = gd__vec(device);
    gd_tensor *out = call->out[0];
    bool test = gd__ops[call->op].kind == GD_KIND_TEST;
    gd_tensor *typed = call->in[call->op == GD_OP_where ? 1 : 0];
    int type = gd__compute_type(typed->dtype);
    bool slope = call->op == GD_OP_slope;
    gd_vec_fn fn = !slope              ? vec->map[call->op][type]
                   : type == GD_AS_I64 ? NULL
                                       : vec->slopes[call->attrs->i[0]][type];
    if (!fn)
        return gd_fail(device->ctx, GD_DTYPE, "%s: not defined for %s", gd__ops[call->op].name,
                       gd_dtype_name(typed->dtype));
    gd_vec_fn straight = straight_kernel(vec, call, fn);
    if (out->numel == 0 || run_direct(call, straight)) return GD_OK;
    job j = {.vec = vec,
             .fn = fn,
             .f = call->attrs->f,
             .nin = call->nin,
             .out = out->data,
             .out_item = gd__item_size(out),
             .store = test ? NULL : vec->store[out->dtype],
             .compute_item = type == GD_AS_F32 ? 4 : 8,
             .numel = out->numel};
    for (int k = 0; k < call->nin; k++)
        see(&j.in[k], vec, call->in[k], out->ndim, out->size, call->op == GD_OP_where && k == 0);
    if (straight) go_straight(&j, straight);
    j.spaced = spaced_kernel(vec, &j, call->op, type);
    j.share = share_of(device->ctx, out->numel);
    gd__run_tasks(device->ctx, out->numel, (out->numel + j.share - 1) / j.share, piece_task, &j);
    return GD_OK;
}

gd_status gd__cpu_slope(gd_device *device, const gd_call *call) { return gd__cpu_map(device, call); }

bool gd__has_slope(gd_op_id op) { return gd__vec_base.slopes[op][GD_AS_F32] != NULL; }

double gd__element_f64(gd_op_id op, double a, double b, double setting)
{
    gd_vec_fn fn = gd__vec_base.map[op][GD_AS_F64];
    double number = NAN;
    uint8_t truth = 0;
    bool test = gd__ops[op].kind == GD_KIND_TEST;
    if (fn) fn(test ? (void *)&truth : &number, &a, &b, NULL, 1, &setting);
    return test ? truth : number;
}

/* ---- copies: strided to strided, with cast and broadcast ---- */

typedef struct copy_job {
    operand from, to;
    gd_convert_fn store, between;
    gd_dtype from_type, to_type;
    int64_t numel;
} copy_job;

/* Writes n elements of the memory dtype at linear position `start` of a strided destination. */
static void write_block(const operand *o, int64_t start, int64_t n, const char *data)
{
    int64_t index[GD_MAX_DIMS], offset = place_at(o, start, index);
    int last = o->ndim - 1;
    while (n > 0) {
        int64_t run = last < 0 ? n : o->size[last] - index[last], step = last < 0 ? 1 : o->stride[last];
        if (run > n) run = n;
        char *to = (char *)(uintptr_t)o->data + offset * (int64_t)o->item;
        if (step == 1)
            memcpy(to, data, (size_t)run * o->item);
        else
            move_spaced(to, step * (int64_t)o->item, data, (int64_t)o->item, run, o->item);
        data += (size_t)run * o->item;
        n -= run;
        if (last < 0 || n == 0) return;
        offset += run * step;
        index[last] += run;
        offset += carried(o, index, last);
    }
}

/* Bytes that are dense on both sides in long runs: without buffers. */
static bool copy_runs(const copy_job *j, int64_t start, int64_t end)
{
    const operand *sides[2] = {&j->from, &j->to};
    for (int s = 0; s < 2; s++) {
        int last = sides[s]->ndim - 1;
        if (last < 0 || sides[s]->stride[last] != 1 || (last > 0 && sides[s]->size[last] < SHORT_RUN))
            return false;
    }
    while (start < end) {
        const char *at[2];
        int64_t n = end - start;
        for (int s = 0; s < 2; s++) {
            const operand *o = sides[s];
            int64_t offset = 0, rest = start, left = o->size[o->ndim - 1] - start % o->size[o->ndim - 1];
            for (int a = o->ndim; a-- > 0; rest /= o->size[a]) offset += rest % o->size[a] * o->stride[a];
            at[s] = o->data + offset * (int64_t)o->item;
            n = left < n ? left : n;
        }
        memmove((char *)(uintptr_t)at[1], at[0], (size_t)n * j->to.item);
        start += n;
    }
    return true;
}

/* Dense on both sides, with one conversion. */
static gd_convert_fn only_conversion(const copy_job *j)
{
    gd_convert_fn steps[3] = {j->from.load, j->between, j->store}, only = NULL;
    if (!j->from.flat || j->from.constant || !j->to.direct || j->from.raw) return NULL;
    for (int k = 0; k < 3; k++) {
        if (steps[k] && only) return NULL;
        only = steps[k] ? steps[k] : only;
    }
    return only;
}

static void copy_piece(void *arg, int64_t k)
{
    const copy_job *j = arg;
    _Alignas(64) char loaded[BLOCK * 8], converted[BLOCK * 8], stored[BLOCK * 8];
    int64_t start = k * GD_MICROBATCH,
            end = start + GD_MICROBATCH < j->numel ? start + GD_MICROBATCH : j->numel;
    size_t item = j->from.load || !j->from.raw ? (gd__compute_type(j->from_type) == GD_AS_F32 ? 4u : 8u)
                                               : j->from.item;
    const char *data = loaded;
    gd_convert_fn only = only_conversion(j);
    if (only) {
        only((char *)(uintptr_t)j->to.data + start * (int64_t)j->to.item,
             j->from.data + start * (int64_t)j->from.item, end - start);
        return;
    }
    if (j->from.raw && copy_runs(j, start, end)) return;
    if (j->from.raw && j->from.direct && !j->from.constant) {
        write_block(&j->to, start, end - start, j->from.data + start * (int64_t)j->from.item);
        return;
    }
    if (j->from.raw && j->to.direct) {
        read_block(&j->from, start, end - start, (char *)(uintptr_t)j->to.data + start * (int64_t)j->to.item,
                   j->to.item);
        return;
    }
    for (int64_t i = start; i < end; i += BLOCK) {
        int64_t n = end - i < BLOCK ? end - i : BLOCK;
        if (i > start && j->from.constant) { /* one number everywhere: already in the buffer */
            write_block(&j->to, i, n, data);
            continue;
        }
        data = loaded;
        read_block(&j->from, i, n, loaded, item);
        if (j->between) {
            j->between(converted, data, n);
            data = converted;
        }
        if (j->store) {
            j->store(stored, data, n);
            data = stored;
        }
        write_block(&j->to, i, n, data);
    }
}

/* ---- rows made of columns ---- */

#define TURNED_ROWS    64
#define TURNED_COLUMNS 16 /* cache lines that are read together */

/* Squares of vectors of 16 bytes: columns of `from`, `apart` elements from each other, become rows of `to`. */
typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint64_t two __attribute__((vector_size(16), aligned(8), may_alias));

static inline void turn_four(uint32_t *to, int64_t columns, const uint32_t *from, int64_t apart)
{
#define COLUMN(k) (*(const four *)(const void *)(from + (k)*apart))
#define ROW(k)    (*(four *)(void *)(to + (k)*columns))
    four a = COLUMN(0), b = COLUMN(1), c = COLUMN(2), d = COLUMN(3);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    ROW(0) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    ROW(1) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
    ab = __builtin_shufflevector(a, b, 2, 6, 3, 7), cd = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    ROW(2) = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
    ROW(3) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#undef COLUMN
#undef ROW
}

static inline void turn_two(uint64_t *to, int64_t columns, const uint64_t *from, int64_t apart)
{
    two a = *(const two *)(const void *)from, b = *(const two *)(const void *)(from + apart);
    *(two *)(void *)to = __builtin_shufflevector(a, b, 0, 2);
    *(two *)(void *)(to + columns) = __builtin_shufflevector(a, b, 1, 3);
}

/* Rows first..last of a matrix of `columns` columns that are dense, `apart` elements from each other. */
#define TURN(name, type, width, square)                                                                    \
    static void name(type *to, const type *from, int64_t first, int64_t last, int64_t columns,             \
                     int64_t apart)                                                                        \
    {                                                                                                      \
        for (int64_t c = 0; c < columns; c += TURNED_COLUMNS) {                                            \
            int64_t end = c + TURNED_COLUMNS < columns ? c + TURNED_COLUMNS : columns, r = first;          \
            for (; r + (width) <= last; r += width) {                                                      \
                int64_t k = c;                                                                             \
                for (; k + (width) <= end; k += width)                                                     \
                    square(to + r * columns + k, columns, from + r + k * apart, apart);                    \
                for (; k < end; k++)                                                                       \
                    for (int i = 0; i < (width); i++) to[(r + i) * columns + k] = from[r + i + k * apart]; \
            }                                                                                              \
            for (; r < last; r++)                                                                          \
                for (int64_t k = c; k < end; k++) to[r * columns + k] = from[r + k * apart];               \
        }                                                                                                  \
    }
TURN(turn_rows_4, uint32_t, 4, turn_four)
TURN(turn_rows_8, uint64_t, 2, turn_two)

static bool is_turned(const copy_job *j)
{
    int last = j->from.ndim - 1;
    return j->from.raw && j->to.direct && j->from.item >= 4 && last > 0 && j->from.stride[last - 1] == 1 &&
           j->from.stride[last] >= TURNED_COLUMNS && j->from.size[last - 1] >= TURNED_COLUMNS &&
           j->from.size[last] >= TURNED_COLUMNS;
}

static int64_t turned_blocks(const copy_job *j)
{
    return (j->from.size[j->from.ndim - 2] + TURNED_ROWS - 1) / TURNED_ROWS;
}

static void turned_task(void *arg, int64_t task)
{
    const copy_job *j = arg;
    const operand *o = &j->from;
    int64_t rows = o->size[o->ndim - 2], columns = o->size[o->ndim - 1], blocks = turned_blocks(j);
    int64_t matrix = task / blocks, first = task % blocks * TURNED_ROWS,
            last = first + TURNED_ROWS < rows ? first + TURNED_ROWS : rows;
    char *to = (char *)(uintptr_t)j->to.data + matrix * rows * columns * (int64_t)o->item;
    const void *from = element_at(o, matrix * rows * columns);
    if (o->item == 4)
        turn_rows_4((uint32_t *)(void *)to, from, first, last, columns, o->stride[o->ndim - 1]);
    else
        turn_rows_8((uint64_t *)(void *)to, from, first, last, columns, o->stride[o->ndim - 1]);
}

static gd_status copy_strided(gd_device *device, gd_tensor *dst, const gd_tensor *src);

/* What is not 0, of both operands of `or`. */
static gd_status float_to_bool(gd_device *device, gd_tensor *dst, const gd_tensor *src)
{
    gd_scope_begin(device->ctx);
    gd_tensor *in = (gd_tensor *)(uintptr_t)src, *both[2] = {in, in}, *mask = dst;
    bool there = gd__same_shape(dst, src) && gd__contiguous(dst);
    if (!there) mask = gd__new(device, GD_BOOL, src->ndim, src->size);
    gd_status status = mask ? gd__execute(GD_OP_logical_or, both, 2, &(gd_attrs){0}, &mask, 1) : GD_NOMEM;
    if (!status && !there) status = copy_strided(device, dst, mask);
    gd_scope_end(device->ctx);
    return status;
}

static gd_status copy_strided(gd_device *device, gd_tensor *dst, const gd_tensor *src)
{
    if (dst->numel == 0) return GD_OK;
    const gd_vec_table *vec = gd__vec(device);
    bool same = dst->dtype == src->dtype;
    copy_job j = {.from_type = src->dtype, .to_type = dst->dtype, .numel = dst->numel};
    see(&j.from, vec, src, dst->ndim, dst->size, same);
    see(&j.to, vec, dst, dst->ndim, dst->size, true);
    bool flat = j.from.direct && !j.from.constant && j.to.direct && same;
    if (flat && dst->numel < 2 * GD_MICROBATCH) {
        memmove(dst->data, src->data, (size_t)dst->numel * gd__item_size(dst));
        return GD_OK;
    }
    /* a number is true if it is not zero, not if its integer part is not */
    if (dst->dtype == GD_BOOL && gd_dtype_is_float(src->dtype)) return float_to_bool(device, dst, src);
    if (!same) {
        j.between = vec->between[gd__compute_type(src->dtype)][gd__compute_type(dst->dtype)];
        j.store = vec->store[dst->dtype];
    }
    if (is_turned(&j)) {
        int64_t matrices = dst->numel / (j.from.size[j.from.ndim - 2] * j.from.size[j.from.ndim - 1]);
        gd__run_tasks(device->ctx, dst->numel, matrices * turned_blocks(&j), turned_task, &j);
    } else
        gd__run_pieces(device->ctx, dst->numel, copy_piece, &j);
    return GD_OK;
}

gd_status gd__cpu_copy(gd_device *device, const gd_call *call)
{
    return copy_strided(device, call->out[0], call->in[0]);
}

gd_status gd__cpu_cast(gd_device *device, const gd_call *call)
{
    return copy_strided(device, call->out[0], call->in[0]);
}
