/* Programs that tell axes apart, up to the limits: values per row, sums along axes, arrays without some axes, in tensors of any
 * shape.  They run through the executor, as sums along axes are its own; the fuzzer and the replay of its corpus check that
 *   - every executor gives the same bits: interpreters of all instruction sets, kernels of the compiler, copies of a device
 *     whose memory the host may not touch;
 *   - where no sum can round (small whole numbers), they are those of an evaluator that knows nothing of passes. */
#ifndef GD_TESTS_PROGRAM_AXES_PROPERTY_H
#define GD_TESTS_PROGRAM_AXES_PROPERTY_H

#include "program/execute.h"
#include "program/program_property.h"

#define AXES_MEMBERS 2

typedef struct axes_case {
    gd_program *p;   /* as the executor gets it */
    gd_program *own; /* before its axes were joined: masks are of the tensor's axes */
    int ndim;
    int64_t size[AXES_MEMBERS][GD_MAX_DIMS];
    bool whole; /* of small whole numbers */
    int room;   /* places for values along axes that are left */
    bool placed[GD_MAX_INSTRS];
} axes_case;

/* ---- choosing ---- */

/* Two members: axes of one element are so in both.  Now and then one that is longer than a call of a kernel, or than the rows
 * that are added one after the other.  A long program runs over few elements, as it may have many passes. */
static inline void choose_shape(axes_case *a, choices *c, int length)
{
    static const int64_t sizes[] = {2, 3, 5, 7, 16, 17, 40};
    a->ndim = choose(c, 4) ? 1 + choose(c, 4) : choose(c, GD_MAX_DIMS + 1);
    int longest = choose(c, 4) ? -1 : choose(c, a->ndim ? a->ndim : 1);
    for (int m = 0; m < AXES_MEMBERS; m++) {
        int64_t n = 1;
        for (int d = 0; d < a->ndim; d++) {
            int64_t size = d == longest ? 250 + choose(c, 32) * 150 : sizes[choose(c, COUNT_OF(sizes))];
            if (n * size > (length < 30 ? 6000 : 180000 / length)) size = n > 1000 && !m ? 1 : 2;
            if (choose(c, 64) == 0) size = 0;
            if (m ? a->size[0][d] == 1 : choose(c, 5) == 0) size = 1;
            a->size[m][d] = size;
            n *= size;
        }
    }
}

/* A random part of some axes that is neither nothing nor all of them; 0: there is none. */
static inline uint16_t choose_kept(choices *c, unsigned along)
{
    unsigned kept = 0;
    along &= ~GD_AXIS_ONE;
    for (int d = 0; d < GD_MAX_DIMS; d++)
        if (along >> d & 1 && choose(c, 2)) kept |= 1u << d;
    return (uint16_t)(kept == along ? 0 : kept);
}

static inline void choose_axes_leaves(axes_case *a, choices *c)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_F16, GD_BF16};
    gd_program *p = a->p;
    int arrays = 1 + choose(c, 12), uniforms = choose(c, 8);
    for (int k = 0; k < arrays; k++) {
        int32_t at = add_array(p, a->whole || choose(c, 2) ? p->compute : dtypes[choose(c, 4)]);
        if (k && choose(c, 3) == 0) {
            uint16_t kept = choose_kept(c, p->full);
            p->array[at].along = kept ? kept : GD_AXIS_ONE;
        }
        if (k == 0 || choose(c, 4)) add_load(p, at);
    }
    for (int k = 0; k < uniforms; k++) {
        add_uniform(p);
        if (k % 2) p->uniform[p->uniforms - 1].kind = GD_U_SCALAR; /* one a member */
    }
    for (int k = choose(c, 3); k > 0 && !a->whole; k--) add_random(p, (gd_random_kind)choose(c, 3), k);
    a->room = GD_MAX_ARRAYS - p->arrays;
}

/* Does somebody who varies along `along` read value i from memory for the first time? */
static inline bool needs_place(const axes_case *a, int32_t i, uint16_t along)
{
    const gd_instr *in = &a->p->instr[i];
    return !in->uniform && !gd__is_load(in->op) && !gd__is_along(in->op) && in->along != along &&
           in->along != a->p->full && !a->placed[i];
}

static inline bool take_room(axes_case *a, int32_t i, uint16_t along)
{
    if (!needs_place(a, i, along)) return true;
    if (!a->room) return false;
    a->room--;
    return a->placed[i] = true;
}

/* Whole numbers stay whole. */
static inline bool is_whole_op(unsigned op)
{
    static const uint8_t ops[] = {
        GD_I_neg, GD_I_abs,     GD_I_sign,    GD_I_floor,       GD_I_logical_not, GD_I_add,
        GD_I_sub, GD_I_minimum, GD_I_maximum, GD_I_lt,          GD_I_le,          GD_I_gt,
        GD_I_ge,  GD_I_eq,      GD_I_ne,      GD_I_logical_and, GD_I_logical_or,  GD_I_where};
    return memchr(ops, (int)op, sizeof ops) || gd__is_along(op) || gd__is_reduction(op);
}

static inline void choose_sum_along(axes_case *a, choices *c, gd_opcode op)
{
    int32_t from = choose_value(a->p, c, 0);
    uint16_t kept = a->p->instr[from].uniform ? 0 : choose_kept(c, a->p->instr[from].along);
    if (kept && a->room > 0) {
        a->room--;
        add_along(a->p, op, from, kept);
    } else {
        add_op(a->p, GD_I_neg, from, -1, -1);
    }
}

static inline void choose_axes_instr(axes_case *a, choices *c)
{
    gd_program *p = a->p;
    unsigned op = (unsigned)choose(c, GD_I_COUNT + 6);
    if (op >= GD_I_COUNT) op = op % 2 ? GD_I_SUM_ALONG : GD_I_MAXIMUM_ALONG;
    if (op < GD_I_neg) {
        add_const(p, a->whole ? (double)choose(c, 9) - 4 : random_number(&c->state));
        return;
    }
    if (a->whole && !is_whole_op(op)) op = GD_I_sub;
    if (gd__is_along(op)) {
        choose_sum_along(a, c, (gd_opcode)op);
        return;
    }
    int32_t o[3] = {-1, -1, -1};
    uint16_t along = 0;
    for (int k = 0; k < gd__opcode_operands(op); k++) {
        o[k] = choose_value(p, c, k);
        along = gd__axes_union(along, p->instr[o[k]].along);
    }
    if (gd__is_reduction(op)) {
        if (p->reductions == GD_MAX_REDUCTIONS || p->instr[o[0]].uniform) op = GD_I_neg;
    } else {
        for (int k = 0; k < gd__opcode_operands(op); k++)
            if (!take_room(a, o[k], along)) o[0] = o[1] = o[2] = o[k], op = GD_I_neg;
    }
    for (int k = gd__opcode_operands(op); k < 3; k++) o[k] = -1;
    add_instr(p, (gd_instr){.op = (uint8_t)op,
                            .extent = (uint8_t)(gd__is_reduction(op) && choose(c, 2)),
                            .a = o[0],
                            .b = o[1],
                            .c = o[2],
                            .index = -1});
}

/* The value or the last one before it that an array has all axes of. */
static inline int32_t fitting(axes_case *a, uint16_t has, int32_t value)
{
    for (; value >= 0; value--) {
        if (gd__axes_union(has, a->p->instr[value].along) == has && take_room(a, value, has)) break;
    }
    return value;
}

static inline int64_t shape_numel(const axes_case *a, int m)
{
    int64_t n = 1;
    for (int d = 0; d < a->ndim; d++) n *= a->size[m][d];
    return n;
}

/* False: the program has more passes than there may be, or costs too much. */
static inline bool choose_axes_case(axes_case *a, gd_ctx *ctx, gd_dtype compute, choices *c)
{
    gd_program *p = a->p;
    int length = 1 + choose(c, choose(c, 2) ? GD_MAX_INSTRS : 60);
    choose_shape(a, c, length);
    a->whole = choose(c, 3) == 0;
    *p = (gd_program){.ctx = ctx, .compute = compute};
    p->full = gd__axes_full(a->ndim, a->size[0]);
    c->gather = choose(c, GD_MAX_INSTRS);
    choose_axes_leaves(a, c);
    while (p->count < length) choose_axes_instr(a, c);
    for (int k = 0; k < p->arrays; k++)
        if ((k == 0 || choose(c, 4)) && p->array[k].kind != GD_ARRAY_RANDOM)
            p->array[k].store = fitting(a, p->array[k].along,
                                        k == 0 ? last_element_value(p) : choose_value(p, c, 1));
    *a->own = *p;
    if (gd__program_axes(p, a->ndim) == GD_OK)
        return work_of(p, shape_numel(a, 0) + shape_numel(a, 1)) <= MOST_WORK;
    assert_int_equal(gd_error(ctx), GD_OVERFLOW);
    gd_clear_error(ctx);
    return false;
}

/* One that has axes, of up to 100 instructions, of whole numbers or not.  Free its p, then itself. */
static inline axes_case *random_axes_case(gd_ctx *ctx, uint64_t *state, bool whole)
{
    axes_case *a = malloc(sizeof *a);
    gd_program *both = malloc(2 * sizeof *both);
    assert_true(a && both);
    for (bool good = false; !good;) {
        uint8_t bytes[32];
        for (int i = 0; i < COUNT_OF(bytes); i++) bytes[i] = (uint8_t)pick(state, 256);
        choices c = {.data = bytes, .size = sizeof bytes, .state = random_bits(state)};
        *a = (axes_case){.p = both, .own = both + 1};
        good = choose_axes_case(a, ctx, pick(state, 2) ? GD_F32 : GD_F64, &c) && a->whole == whole &&
               a->p->axes && a->p->count < 100;
    }
    return a;
}

/* ---- running ---- */

typedef struct axes_run {
    tensors member[AXES_MEMBERS];
    double reduced[AXES_MEMBERS][GD_MAX_REDUCTIONS];
} axes_run;

static inline double axes_number(const axes_case *a, uint64_t *seed)
{
    return a->whole ? (double)random_below(seed, 9) - 4 : random_number(seed);
}

/* The same numbers for every run. */
static inline axes_run make_axes_run(const axes_case *a)
{
    axes_run r = {0};
    uint64_t seed = 11;
    for (int m = 0; m < AXES_MEMBERS; m++) {
        int64_t size[GD_MAX_DIMS + 1];
        gd__program_sizes(a->p, a->ndim, a->size[m], size);
        tensors *t = &r.member[m];
        *t = make_member(a->p, size, shape_numel(a, m), 0);
        for (int k = 0; k < a->p->arrays; k++)
            for (int64_t i = 0; i < t->count[k]; i++)
                set_number(t->array[k], a->p->array[k].dtype, i, axes_number(a, &seed));
    }
    return r;
}

static inline void free_axes_run(axes_run *r)
{
    for (int m = 0; m < AXES_MEMBERS; m++) free_tensors(&r->member[m]);
}

/* Uniform inputs of a member, most of them the same for all; keys and steps of random numbers are whole. */
static inline void axes_inputs(const axes_case *a, int m, double *input)
{
    for (int u = 0; u < a->p->uniforms; u++) {
        const gd_uniform *f = &a->p->uniform[u];
        bool random = f->kind == GD_U_KEY || (u && f[-1].kind == GD_U_KEY),
             own = f->kind == GD_U_KEY || f->kind == GD_U_SCALAR;
        uint64_t seed = 5 + 100 * (uint64_t)u + (own ? (uint64_t)m : 0);
        input[u] = random ? (double)random_below(&seed, 1000) : axes_number(a, &seed);
    }
}

/* A device whose memory means nothing to the host: every byte is turned over. */
static inline gd_status turned_copy(char *to, const char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) to[i] = (char)~from[i];
    return GD_OK;
}

static inline gd_status turned_upload(gd_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    return turned_copy(to, from, bytes);
}

static inline gd_status turned_download(gd_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    return turned_copy(to, from, bytes);
}

static const gd_backend turned_backend = {
    .name = "turned", .upload = turned_upload, .download = turned_download};

static inline void turn_over(const gd_program *p, axes_run *r)
{
    for (int m = 0; m < AXES_MEMBERS; m++)
        for (int k = 0; k < p->arrays; k++)
            turned_copy(r->member[m].array[k], r->member[m].array[k], r->member[m].bytes[k]);
}

static inline void fill_table(const axes_case *a, gd_exec *x, axes_run *r)
{
    const gd_program *p = x->p;
    for (int m = 0; m < AXES_MEMBERS; m++) {
        axes_inputs(a, m, x->input + m * p->uniforms);
        for (int k = 0; k < p->arrays; k++)
            if (p->array[k].kind != GD_ARRAY_SCRATCH) x->pointer[m * p->arrays + k] = r->member[m].array[k];
    }
}

/* One run of the whole program by the executor, over both members; only_send: all but the run itself. */
static inline axes_run run_axes(const axes_case *a, gd_ctx *ctx, gd_device *device, bool interpret,
                                bool only_send)
{
    axes_run r = make_axes_run(a);
    int table_of[AXES_MEMBERS] = {0}, member_of[AXES_MEMBERS] = {0, 1};
    gd_exec x = {.p = gd__alloc(ctx, sizeof *x.p), .device = device};
    gd_exec_set set = {.ctx = ctx,
                       .table = &x,
                       .tables = 1,
                       .count = AXES_MEMBERS,
                       .table_of = table_of,
                       .member_of = member_of};
    size_t axes = (size_t)a->p->axes;
    int64_t *numel = gd__alloc_array(ctx, AXES_MEMBERS, sizeof *numel),
            *size = gd__alloc_array(ctx, AXES_MEMBERS * axes, sizeof *size);
    assert_true(x.p && numel && size);
    *x.p = *a->p;
    x.p->ctx = ctx;
    for (int m = 0; m < AXES_MEMBERS; m++) {
        numel[m] = shape_numel(a, m);
        gd__program_sizes(x.p, a->ndim, a->size[m], size + (size_t)m * axes);
    }
    gd__execs_align(&set);
    assert_int_equal(gd__exec_passes(&x, interpret), GD_OK);
    assert_int_equal(gd__exec_members(&x, AXES_MEMBERS, numel, size), GD_OK);
    assert_int_equal(gd__execs_join(&set), GD_OK);
    fill_table(a, &x, &r);
    bool turned = device->backend == &turned_backend;
    if (turned) turn_over(x.p, &r);
    assert_int_equal(gd__exec_send(&x, true), GD_OK);
    if (!only_send) assert_int_equal(gd__execs_run(&set, &(gd_exec_run){0}), GD_OK);
    if (turned) turn_over(x.p, &r);
    for (int m = 0; m < AXES_MEMBERS; m++)
        for (int k = 0; k < x.p->reductions; k++) r.reduced[m][k] = x.reduced[m * x.p->reductions + k];
    gd__execs_free(&set);
    return r;
}

static inline bool same_axes_runs(const axes_case *a, const axes_run *want, const axes_run *got)
{
    bool same = true;
    for (int m = 0; m < AXES_MEMBERS && same; m++) {
        same = same_tensors(a->p, &want->member[m], &got->member[m]);
        for (int k = 0; k < a->p->reductions; k++)
            same = same && same_number(want->reduced[m][k], got->reduced[m][k]);
    }
    return same;
}

/* ---- an evaluator that knows nothing of passes ---- */

/* Values of every instruction at every element of every member, as if nothing were coarser: a sum is looked up by the place
 * of its element on the axes that are kept. */
typedef struct axes_values {
    const axes_case *a;
    double *value[AXES_MEMBERS]; /* [instructions, elements] */
    double *sum;                 /* [elements] */
    bool exact;                  /* no value is so large that a sum of such could round */
} axes_values;

/* The place of element i on the axes of a mask. */
static inline int64_t place_on(const axes_case *a, int m, unsigned along, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (along >> d & 1) {
            at += i % a->size[m][d] * step;
            step *= a->size[m][d];
        }
        i /= a->size[m][d];
    }
    return at;
}

static inline double whole_op(unsigned op, double a, double b, double c)
{
    switch (op) {
    case GD_I_neg: return -a;
    case GD_I_abs: return fabs(a);
    case GD_I_sign: return (a > 0) - (a < 0);
    case GD_I_floor: return a;
    case GD_I_logical_not: return a == 0;
    case GD_I_add: return a + b;
    case GD_I_sub: return a - b;
    case GD_I_minimum: return b < a ? b : a;
    case GD_I_maximum: return b > a ? b : a;
    case GD_I_lt: return a < b;
    case GD_I_le: return a <= b;
    case GD_I_gt: return a > b;
    case GD_I_ge: return a >= b;
    case GD_I_eq: return a == b;
    case GD_I_ne: return a != b;
    case GD_I_logical_and: return a != 0 && b != 0;
    case GD_I_logical_or: return a != 0 || b != 0;
    default: return a != 0 ? b : c;
    }
}

/* Adds up, or finds the largest, of a value over the places of a mask; a coarser value counts once for each of its places. */
static inline void sum_places(axes_values *v, int m, int32_t i, unsigned kept)
{
    const axes_case *a = v->a;
    const gd_instr *in = &a->own->instr[i];
    int64_t n = shape_numel(a, m);
    bool largest = in->op == GD_I_MAXIMUM || in->op == GD_I_MAXIMUM_ALONG;
    const double *x = v->value[m] + in->a * n;
    uint16_t along = a->own->instr[in->a].along;
    bool *counted = calloc((size_t)n + 1, sizeof *counted);
    assert_non_null(counted);
    for (int64_t e = 0; e < n; e++) v->sum[e] = largest ? -INFINITY : 0;
    for (int64_t e = 0; e < n; e++) {
        int64_t from = place_on(a, m, along, e), to = place_on(a, m, kept, e);
        if (counted[from]) continue;
        counted[from] = true;
        v->sum[to] = largest ? fmax(v->sum[to], x[e]) : v->sum[to] + x[e];
    }
    free(counted);
}

static inline void evaluate_instr(axes_values *v, axes_run *r, int32_t i)
{
    const axes_case *a = v->a;
    const gd_instr *in = &a->own->instr[i];
    double input[GD_MAX_UNIFORMS], all = in->op == GD_I_MAXIMUM ? -INFINITY : 0;
    for (int m = 0; m < AXES_MEMBERS; m++) {
        int64_t n = shape_numel(a, m);
        double *to = v->value[m] + i * n;
        if (in->op == GD_I_UNIFORM) axes_inputs(a, m, input);
        bool sums = gd__is_along(in->op) || gd__is_reduction(in->op);
        if (sums) sum_places(v, m, i, in->along);
        for (int64_t e = 0; e < n; e++) {
            if (in->op == GD_I_CONST)
                to[e] = in->imm;
            else if (in->op == GD_I_UNIFORM)
                to[e] = input[in->index];
            else if (in->op == GD_I_LOAD)
                to[e] = get_number(r->member[m].array[in->index], a->own->compute,
                                   place_on(a, m, a->own->array[in->index].along, e));
            else if (sums)
                to[e] = v->sum[place_on(a, m, in->along, e)];
            else
                to[e] = whole_op(in->op, v->value[m][in->a * n + e],
                                 in->b < 0 ? 0 : v->value[m][in->b * n + e],
                                 in->c < 0 ? 0 : v->value[m][in->c * n + e]);
            v->exact = v->exact && fabs(to[e]) < (a->own->compute == GD_F64 ? 0x1p40 : 0x1p12);
        }
        if (n && gd__is_reduction(in->op)) all = in->op == GD_I_SUM ? all + to[0] : fmax(all, to[0]);
    }
    for (int m = 0; m < AXES_MEMBERS && in->extent == GD_ALL; m++)
        for (int64_t e = 0; e < shape_numel(a, m); e++) v->value[m][i * shape_numel(a, m) + e] = all;
}

/* What the arrays hold in the end; members without elements are left as they were, and looked at by nobody here. */
static inline const char *evaluator_fault(const axes_case *a, const axes_run *got)
{
    axes_run r = make_axes_run(a);
    axes_values v = {.a = a, .exact = true};
    int64_t most = 1;
    for (int m = 0; m < AXES_MEMBERS; m++) {
        int64_t n = shape_numel(a, m);
        most = n > most ? n : most;
        v.value[m] = calloc((size_t)(n * a->own->count) + 1, sizeof(double));
        assert_non_null(v.value[m]);
    }
    v.sum = calloc((size_t)most, sizeof *v.sum);
    assert_non_null(v.sum);
    for (int32_t i = 0; i < a->own->count; i++) evaluate_instr(&v, &r, i);
    for (int m = 0; m < AXES_MEMBERS && v.exact; m++)
        for (int k = 0; k < a->own->arrays; k++) {
            int32_t store = a->own->array[k].store;
            for (int64_t e = 0, n = shape_numel(a, m); store >= 0 && e < n; e++)
                set_number(r.member[m].array[k], a->own->compute, place_on(a, m, a->own->array[k].along, e),
                           v.value[m][store * n + e]);
        }
    bool same = true;
    for (int m = 0; m < AXES_MEMBERS && v.exact; m++)
        for (int k = 0; k < a->own->arrays; k++)
            for (int64_t e = 0; shape_numel(a, m) && e < r.member[m].count[k]; e++) {
                double x = get_number(r.member[m].array[k], a->own->compute, e),
                       y = get_number(got->member[m].array[k], a->own->compute, e);
                if (x == y || !same) continue;
                same = false;
                print_error("member %d, array %d, element %lld: %g, not %g\n", m, k, (long long)e, y, x);
            }
    for (int m = 0; m < AXES_MEMBERS; m++) free(v.value[m]);
    free(v.sum);
    free_axes_run(&r);
    return same ? NULL : "the evaluator finds other numbers";
}

/* ---- the property ---- */

/* For whoever looks at a fault: the program as it was chosen. */
static inline void print_axes_case(const axes_case *a)
{
    for (int m = 0; m < AXES_MEMBERS; m++) {
        print_error("member %d:", m);
        for (int d = 0; d < a->ndim; d++) print_error(" %lld", (long long)a->size[m][d]);
        print_error("\n");
    }
    for (int i = 0; i < a->own->count; i++) {
        const gd_instr *in = &a->own->instr[i];
        print_error("v%d = %s(%d, %d, %d) index %d along %x level %d extent %d\n", i, gd__opcode_name(in->op),
                    (int)in->a, (int)in->b, (int)in->c, (int)in->index, in->along, in->level, in->extent);
    }
    for (int k = 0; k < a->own->arrays; k++)
        print_error("array %d of kind %d along %x stores v%d\n", k, (int)a->own->array[k].kind,
                    a->own->array[k].along, (int)a->own->array[k].store);
}

static inline const char *axes_runs_fault(const axes_case *a, gd_ctx *const *ctx, int contexts,
                                          gd_ctx *compiler)
{
    const char *fault = NULL;
    axes_run want = run_axes(a, ctx[0], gd_device_get(ctx[0], "cpu"), true, false), got;
    for (int k = 1; k < contexts + 2 && !fault; k++) {
        gd_ctx *own = k < contexts ? ctx[k] : k == contexts ? ctx[0] : compiler;
        gd_device turned = {.backend = &turned_backend, .ctx = own, .name = "turned"};
        if (!own) continue;
        got = run_axes(a, own, k == contexts ? &turned : gd_device_get(own, "cpu"), k <= contexts, false);
        if (!same_axes_runs(a, &want, &got))
            fault = k < contexts    ? "instruction sets give other bits"
                    : k == contexts ? "copies of a device give other bits"
                                    : "compiled kernels give other bits";
        free_axes_run(&got);
    }
    if (!fault && a->whole) fault = evaluator_fault(a, &want);
    free_axes_run(&want);
    return fault;
}

static inline const char *axes_fault(gd_ctx *const *ctx, int contexts, gd_ctx *compiler, gd_dtype compute,
                                     choices *c)
{
    axes_case *a = calloc(1, sizeof *a);
    gd_program *both = malloc(2 * sizeof *both);
    assert_true(a && both);
    a->p = both, a->own = both + 1;
    const char *fault = NULL;
    if (choose_axes_case(a, ctx[0], compute, c)) {
        if (gd__program_verify(a->p))
            fault = gd_error_text(ctx[0]);
        else
            fault = axes_runs_fault(a, ctx, contexts, compiler);
        if (fault) print_axes_case(a);
    }
    free(both);
    free(a);
    return fault;
}

/* Builds a program of the bytes, with axes or without, and runs it everywhere: on the interpreter of every instruction set in
 * `ctx` and, where `compiler` is given, compiled.  Memory is exactly as long as the arrays, so that a sanitizer sees every
 * overrun.  Returns NULL or what is wrong. */
static inline const char *program_fault(gd_ctx *const *ctx, int contexts, gd_ctx *compiler,
                                        const uint8_t *data, size_t size)
{
    choices c = {.data = data, .size = size, .state = size};
    int form = choose(&c, 256);
    gd_dtype compute = form % 2 ? GD_F32 : GD_F64;
    return form < 128 ? flat_fault(ctx, contexts, compiler, compute, &c)
                      : axes_fault(ctx, contexts, compiler, compute, &c);
}

#endif
