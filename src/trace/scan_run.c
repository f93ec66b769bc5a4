/* All steps of a loop as one call: a replay of the step, again and again. */
#include "trace/trace_scan.h"
#include "trace/tape.h"
#include "trace/trace_loop.h"

#include <string.h>

/* The place of a state, a slice or a result: a buffer of the body, and its bytes. */
typedef struct gd_scan_place {
    int buffer;
    size_t bytes;
} gd_scan_place;

/* All steps as one function. */
typedef struct gd_scan_compiled {
    gd_tape_rounds_fn run; /* NULL: not yet, or never */
    bool tried, looked;
    double spent;                             /* operations that were interpreted */
    int from[GD_SCAN_MOST], to[GD_SCAN_MOST]; /* buffers of states */
} gd_scan_compiled;

static int places_of(const gd_scan_call *s) { return 2 * s->states + s->xs + s->ys; }

/* ---- making ---- */

static gd_scan_place input_place(const gd_recording *r, int input)
{
    for (int b = 0; b < r->buffers; b++)
        if (r->buffer[b].origin == GD_ORIGIN_INPUT && r->buffer[b].input == input)
            return (gd_scan_place){b, r->buffer[b].bytes};
    return (gd_scan_place){.buffer = -1};
}

/* Does the body read everything before it writes its results? */
static bool reads_first(const gd_replay *p) { return p->units == 1 && p->unit->tape; }

static void fill_places(gd_scan_call *s)
{
    const gd_recording *r = s->body->r;
    int n = 0;
    for (int i = 0; i < s->states + s->xs; i++) s->place[n++] = input_place(r, i);
    for (int i = 0; i < s->states + s->ys; i++)
        s->place[n++] = (gd_scan_place){r->output[i].buffer, r->buffer[r->output[i].buffer].bytes};
    for (int b = 0; b < r->buffers; b++)
        if (r->buffer[b].origin == GD_ORIGIN_CAPTURED) s->capture[s->captured++] = b;
}

static bool make_lists(gd_scan_call *s)
{
    size_t places = (size_t)places_of(s);
    s->place = gd__quiet_alloc(s->ctx, places * sizeof *s->place + 1);
    s->move = gd__quiet_alloc(s->ctx, places * sizeof *s->move + 1);
    s->capture = gd__quiet_alloc(s->ctx, (size_t)s->body->r->buffers * sizeof *s->capture + 1);
    if (!s->place || !s->move || !s->capture) return false;
    fill_places(s);
    s->compiled = reads_first(s->body) ? gd__quiet_alloc(s->ctx, sizeof *s->compiled) : NULL;
    if (s->compiled) memset(s->compiled, 0, sizeof *s->compiled);
    for (int k = 0; k < s->states && !s->keeps && !reads_first(s->body); k++)
        s->room_bytes += s->place[k].bytes;
    return !s->room_bytes || (s->room = gd__quiet_alloc(s->ctx, s->room_bytes));
}

gd_scan_call *gd__scan_new(gd_recording *r, const gd_scan_shape *shape)
{
    gd_ctx *ctx = r->ctx;
    gd_scan_call *s = gd__record_apart(r) ? gd__quiet_alloc(ctx, sizeof *s) : NULL;
    if (!s) {
        gd__recording_free(r);
        return NULL;
    }
    *s = (gd_scan_call){.ctx = ctx,
                        .refs = 1,
                        .states = shape->states,
                        .xs = shape->xs,
                        .ys = shape->ys,
                        .steps = shape->steps,
                        .keeps = shape->keeps};
    memcpy(s->back, shape->back, (size_t)(s->xs + s->ys) * sizeof *s->back);
    s->body = gd__replay_new(r, GD_TRACE_LATER);
    if (s->body && make_lists(s)) return s;
    gd__scan_release(s);
    return NULL;
}

gd_scan_call *gd__scan_share(const gd_scan_call *from, gd_ctx *ctx)
{
    gd_scan_call *s = gd__quiet_alloc(ctx, sizeof *s);
    if (!s) return NULL;
    *s = *from;
    s->ctx = ctx;
    s->refs = 1;
    s->place = NULL;
    s->move = NULL;
    s->capture = NULL;
    s->compiled = NULL;
    s->room = NULL;
    s->captured = 0;
    s->room_bytes = 0;
    s->body = gd__replay_share(from->body, ctx);
    if (s->body && make_lists(s)) {
        if (s->compiled && from->compiled) *s->compiled = *from->compiled;
        if (s->compiled) s->compiled->tried = true;
        return s;
    }
    gd__scan_release(s);
    return NULL;
}

gd_scan_call *gd__scan_retain(gd_scan_call *s)
{
    s->refs++;
    return s;
}

void gd__scan_release(gd_scan_call *s)
{
    if (--s->refs) return;
    gd_ctx *ctx = s->ctx;
    size_t places = (size_t)places_of(s);
    gd__free(ctx, s->place, places * sizeof *s->place + 1);
    gd__free(ctx, s->move, places * sizeof *s->move + 1);
    if (s->body) gd__free(ctx, s->capture, (size_t)s->body->r->buffers * sizeof *s->capture + 1);
    if (s->room) gd__free(ctx, s->room, s->room_bytes);
    gd__free(ctx, s->compiled, sizeof *s->compiled);
    gd__replay_free(s->body);
    gd__free(ctx, s, sizeof *s);
}

void gd__scan_compile(gd_scan_call *s, gd_trace_compile compile)
{
    gd_replay *p = s->body;
    p->compile = compile;
    if (s->compiled && compile == GD_TRACE_INTERPRET) s->compiled->run = NULL;
    for (int i = 0; i < p->units; i++) {
        gd_tape *tape = p->unit[i].tape;
        if (tape) tape->compile = compile;
        if (tape && compile == GD_TRACE_INTERPRET) tape->compiled = NULL;
    }
    for (int i = 0; i < p->r->calls; i++)
        if (p->r->call[i].scan) gd__scan_compile(p->r->call[i].scan, compile);
}

bool gd__scans_agree(const gd_scan_call *a, const gd_scan_call *b, char *why, size_t size)
{
    bool same = a->states == b->states && a->xs == b->xs && a->ys == b->ys && a->captured == b->captured &&
                a->steps == b->steps && a->keeps == b->keeps &&
                !memcmp(a->back, b->back, (size_t)(a->xs + a->ys) * sizeof *a->back);
    return same && gd__steps_agree(a->body->r, b->body->r, why, size);
}

/* ---- running ---- */

typedef struct run {
    gd_scan_call *s;
    gd_tensor *const *in, *const *out;
} run;

/* Element t of a list of so many begins at list + t * bytes; backwards at its end. */
static void put_list(run *r, const gd_scan_place *place, char *list, bool back, bool moves)
{
    gd_scan_call *s = r->s;
    ptrdiff_t by = back ? -(ptrdiff_t)place->bytes : (ptrdiff_t)place->bytes;
    if (place->buffer < 0) return;
    gd__replay_place(s->body, place->buffer, back ? list - (s->steps - 1) * by : list);
    if (moves && by) s->move[s->moves++] = (gd_tape_move){place->buffer, by};
}

/* State k is read from the list of all states, from separate memory, or in place. */
static void put_state(run *r, int k, char *room)
{
    gd_scan_call *s = r->s;
    const gd_scan_place *from = &s->place[k], *to = &s->place[s->states + s->xs + k];
    char *list = r->out[k]->data, *first = s->keeps || !s->room ? list : room;
    if (to->bytes) memcpy(first, r->in[k]->data, to->bytes);
    put_list(r, from, first, false, s->keeps);
    put_list(r, to, s->keeps ? list + to->bytes : list, false, s->keeps);
}

static void put_all(run *r)
{
    gd_scan_call *s = r->s;
    char *room = s->room;
    s->moves = 0;
    for (int k = 0; k < s->states; k++) {
        put_state(r, k, room);
        room += s->place[k].bytes;
    }
    for (int i = 0; i < s->xs; i++)
        put_list(r, &s->place[s->states + i], r->in[s->states + i]->data, s->back[i], true);
    for (int i = 0; i < s->ys; i++)
        put_list(r, &s->place[2 * s->states + s->xs + i], r->out[s->states + i]->data, s->back[s->xs + i],
                 true);
    for (int c = 0; c < s->captured; c++)
        gd__replay_place(s->body, s->capture[c], r->in[s->states + s->xs + c]->data);
}

static void next_states(run *r)
{
    char *room = r->s->room;
    for (int k = 0; k < r->s->states; k++) {
        size_t bytes = r->s->place[k].bytes;
        if (bytes) memcpy(room, r->out[k]->data, bytes);
        room += bytes;
    }
}

/* Only tapes and loops, which use one list of addresses. */
static bool simple(const gd_replay *p)
{
    for (int i = 0; i < p->units; i++)
        if (!p->unit[i].tape && !p->unit[i].loop) return false;
    return true;
}

static void tape_steps(gd_scan_call *s)
{
    gd_tape *tape = s->body->unit->tape;
    char **base = s->body->base;
    const gd_tape_move *move = s->move, *end = move + s->moves;
    for (int64_t t = 0; t < s->steps; t++) {
        if (tape->compiled)
            (void)tape->compiled(base, tape->slot, tape->kernel, tape->setting);
        else
            gd__tape_interpret(tape, base);
        for (const gd_tape_move *m = move; m < end; m++) base[m->buffer] += m->by;
    }
}

/* ---- the usual body, one tape, compiled with all its steps ---- */

/* Nanoseconds, roughly: of an interpreted operation; of starting the compiler, and of compiling an operation. */
#define INTERPRETED 2.0
#define STARTED     60e6
#define COMPILED    200e3

static gd_tape_rounds_fn compiled(gd_scan_call *s, bool stored)
{
    gd_scan_compiled *c = s->compiled;
    for (int k = 0; k < s->states; k++) {
        c->from[k] = s->place[k].buffer;
        c->to[k] = s->place[s->states + s->xs + k].buffer;
    }
    gd_tape_rounds r = {
        .move = s->move, .moves = s->moves, .carries = s->states, .from = c->from, .to = c->to};
    return gd__tape_compile_rounds(s->body->unit->tape, &r, stored);
}

static size_t result_bytes(const gd_scan_call *s, int k)
{
    const gd_scan_place *p = &s->place[s->states + s->xs + k];
    int64_t count = k >= s->states ? s->steps : s->keeps ? s->steps + 1 : 1;
    return p->bytes * (size_t)count;
}

/* Does it give the interpreter's last results? They are also in place afterwards. */
static bool agrees(run *r, gd_tape_rounds_fn fn)
{
    gd_scan_call *s = r->s;
    const gd_tape *tape = s->body->unit->tape;
    size_t bytes = 1, at = 0;
    for (int k = 0; k < s->states + s->ys; k++) bytes += result_bytes(s, k);
    char *copy = gd__quiet_alloc(s->ctx, bytes);
    if (!copy) return false;
    for (int k = 0; k < s->states + s->ys; at += result_bytes(s, k++))
        if (result_bytes(s, k)) memcpy(copy + at, r->out[k]->data, result_bytes(s, k));
    put_all(r);
    (void)fn(s->body->base, tape->slot, tape->kernel, tape->setting, s->steps);
    bool same = true;
    at = 0;
    for (int k = 0; k < s->states + s->ys; at += result_bytes(s, k++)) {
        same = same && (!result_bytes(s, k) || !memcmp(copy + at, r->out[k]->data, result_bytes(s, k)));
        if (result_bytes(s, k)) memcpy(r->out[k]->data, copy + at, result_bytes(s, k));
    }
    gd__free(s->ctx, copy, bytes);
    return same;
}

/* After all steps were interpreted: is it time to compile? */
static void consider(run *r)
{
    gd_scan_call *s = r->s;
    gd_scan_compiled *c = s->compiled;
    const gd_tape *tape = s->body->unit->tape;
    gd_tape_rounds_fn fn = NULL;
    c->spent += (double)s->steps * tape->values * INTERPRETED;
    if (!s->ctx->compile || tape->compile == GD_TRACE_INTERPRET)
        c->tried = true;
    else if (tape->compile == GD_TRACE_AT_ONCE || c->spent > STARTED + tape->values * COMPILED) {
        c->tried = true;
        fn = compiled(s, false);
    } else if (!c->looked) {
        c->looked = true;
        fn = compiled(s, true);
    }
    if (fn && agrees(r, fn)) c->run = fn;
}

static void run_tape(run *r)
{
    gd_scan_call *s = r->s;
    const gd_tape *tape = s->body->unit->tape;
    if (s->compiled && s->compiled->run)
        (void)s->compiled->run(s->body->base, tape->slot, tape->kernel, tape->setting, s->steps);
    else {
        tape_steps(s);
        if (s->compiled && !s->compiled->tried) consider(r);
    }
}

static gd_status run_steps(run *r)
{
    gd_scan_call *s = r->s;
    gd_replay *p = s->body;
    bool direct = simple(p);
    gd_status status = GD_OK;
    for (int64_t t = 0; t < s->steps && !status; t++) {
        for (int i = 0; i < s->moves && t; i++) {
            const gd_tape_move *m = &s->move[i];
            char *at = p->base[m->buffer] + m->by;
            if (direct)
                p->base[m->buffer] = at;
            else
                gd__replay_place(p, m->buffer, at);
        }
        if (s->room && t) next_states(r);
        status = gd__replay_body(p);
    }
    return status;
}

gd_status gd__scan_run(gd_scan_call *s, gd_tensor *const *in, gd_tensor *const *out)
{
    run r = {.s = s, .in = in, .out = out};
    put_all(&r);
    gd_status status = gd__replay_prologue(s->body);
    if (status) return status;
    if (!reads_first(s->body)) return run_steps(&r);
    run_tape(&r);
    return GD_OK;
}
