/* The fingerprint: checks that all ranks make the same call. Descriptions are compared with that of rank 0, and the error names ranks that differ. */
#include "world/world_internal.h"
#include "base/system.h"

#include <stdio.h>
#include <string.h>

const char *gd__collective_name(int kind)
{
    static const char *const names[] = {"barrier",        "broadcast",  "all_gather",
                                        "reduce_scatter", "all_reduce", "all_to_all"};
    return kind >= 0 && kind < (int)(sizeof names / sizeof *names) ? names[kind] : "unknown collective";
}

static bool sums(const gd_sheet *s) { return s->kind == GD_ALL_REDUCE || s->kind == GD_REDUCE_SCATTER; }

/* A hash of the number of elements between two ranks. */
static uint64_t passage(int from, int to, int64_t count)
{
    uint64_t h = ((uint64_t)from << 32 | (uint64_t)to) * 0x9E3779B97F4A7C15u + (uint64_t)count;
    h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u;
    return h ^ h >> 32;
}

/* A checksum of the passages sent less that of the passages expected: the sum over all ranks is 0. */
static int64_t balance(const gd_world *w, const gd_collective *what)
{
    uint64_t sum = 0;
    const int64_t *cuts = what->cuts, *out = what->out_cuts;
    for (int r = 0; r < w->end.size; r++)
        sum += passage(w->end.rank, r, cuts[r + 1] - cuts[r]) - passage(r, w->end.rank, out[r + 1] - out[r]);
    return (int64_t)sum;
}

void gd__sheet_fill(gd_exchange *work)
{
    const gd_collective *what = &work->what;
    const gd_world *w = work->world;
    gd_sheet *s = &work->mine;
    memset(s, 0, sizeof *s); /* it is sent: no uninitialised padding */
    s->kind = (int32_t)what->kind;
    s->root = what->kind == GD_BROADCAST ? what->root : 0;
    s->how = sums(s) ? (int32_t)what->how : 0;
    s->total = what->microbatches ? what->microbatches->total : 0;
    s->dtype = -1;
    /* if shards differ, all have the same whole */
    const gd_tensor *t = what->cuts && what->kind == GD_ALL_GATHER ? what->out : what->tensor;
    if (t) {
        s->dtype = (int32_t)t->dtype;
        s->ndim = t->ndim;
        if (what->kind != GD_ALL_TO_ALL) memcpy(s->size, t->size, (size_t)s->ndim * sizeof *s->size);
    } else if (what->microbatches) {
        s->dtype = (int32_t)what->microbatches->dtype;
        s->ndim = what->microbatches->ndim;
        memcpy(s->size, what->microbatches->size, (size_t)s->ndim * sizeof *s->size);
    }
    bool each = what->kind == GD_ALL_TO_ALL; /* all have tensors of their own */
    if (each) s->ndim = 0;
    if (each && t && what->cuts && what->out_cuts) s->cuts = balance(w, what);
    for (int r = 0; !each && what->cuts && r <= w->end.size; r++) s->cuts = s->cuts * 31 + what->cuts[r] + 1;
    (void)snprintf(s->name, sizeof s->name, "%s", what->name ? what->name : "");
    if (sums(s) && s->how == GD_REDUCE_EXACT)
        (void)snprintf(s->machine, sizeof s->machine, "%.20s, C library %.12s", gd__isa_of(w->ctx),
                       gd__libc_version());
}

/* "f32 [4, 3] for 'weight'" */
static const char *sheet_text(const gd_sheet *s, char *buf, size_t size)
{
    bool tensor = s->dtype >= 0;
    int used = snprintf(buf, size, "%s",
                        tensor       ? gd_dtype_name((gd_dtype)s->dtype)
                        : s->name[0] ? ""
                                     : "nothing");
    for (int i = 0; i < s->ndim && used < (int)size; i++)
        used += snprintf(buf + used, size - (size_t)used, "%s%lld", i ? ", " : " [", (long long)s->size[i]);
    if (s->ndim && used < (int)size) used += snprintf(buf + used, size - (size_t)used, "]");
    if (s->name[0] && used < (int)size)
        (void)snprintf(buf + used, size - (size_t)used, tensor ? " for '%.119s'" : "%.119s", s->name);
    return buf;
}

static bool same_tensor(const gd_sheet *a, const gd_sheet *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->size, b->size, sizeof a->size) &&
           !strcmp(a->name, b->name);
}

#define JUDGE(code, ...) ((void)snprintf(v->text, sizeof v->text, __VA_ARGS__), (void)(v->status = (code)))

static void compare(const gd_sheet *a, const gd_sheet *b, int rank, gd_verdict *v)
{
    const char *what = gd__collective_name(a->kind);
    char one[240], other[240];
    if (a->kind != b->kind)
        JUDGE(GD_MISMATCH, "world: rank %d is at %s where rank 0 is at %s", rank,
              gd__collective_name(b->kind), what);
    else if (!same_tensor(a, b))
        JUDGE(GD_MISMATCH, "%s: rank %d brings %s, rank 0 %s", what, rank, sheet_text(b, one, sizeof one),
              sheet_text(a, other, sizeof other));
    else if (a->cuts != b->cuts && a->kind != GD_ALL_TO_ALL)
        JUDGE(GD_MISMATCH, "%s: rank %d cuts it elsewhere than rank 0", what, rank);
    else if (a->root != b->root)
        JUDGE(GD_MISMATCH, "%s: the root is %d for rank %d and %d for rank 0", what, b->root, rank, a->root);
    else if (a->how != b->how)
        JUDGE(GD_MISMATCH, "%s: rank %d asks for a%s sum, rank 0 for a%s one", what, rank,
              b->how == GD_REDUCE_FAST ? " fast" : "n exact", a->how == GD_REDUCE_FAST ? " fast" : "n exact");
    else if (a->total != b->total)
        JUDGE(GD_MISMATCH, "%s: rank %d sums over %lld microbatches, rank 0 over %lld (0: over ranks)", what,
              rank, (long long)b->total, (long long)a->total);
    else if (strcmp(a->machine, b->machine))
        JUDGE(GD_MISMATCH,
              "%s: rank %d computes with %s, rank 0 with %s: an exact sum needs the same everywhere", what,
              rank, b->machine, a->machine);
}

/* A barrier that receives a failure returns that error, which is not about the barrier. */
static void judge_failure(const gd_sheet *s, int rank, gd_verdict *v)
{
    if (s->fills)
        JUDGE(s->failed, "%s", s->why); /* as it was reported before */
    else if (s->kind == GD_BARRIER)
        JUDGE(s->failed, "rank %d: %s", rank, s->why);
    else
        JUDGE(s->failed, "%s: rank %d cannot take part: %s", gd__collective_name(s->kind), rank, s->why);
}

void gd__fingerprint_judge(gd_exchange *work)
{
    gd_verdict *v = &work->verdict;
    int size = work->world->end.size;
    memset(v, 0, sizeof *v);
    work->sheet[work->world->end.rank] = work->mine;
    for (int r = 0; r < size && !v->status; r++)
        if (work->sheet[r].failed) judge_failure(&work->sheet[r], r, v);
    for (int r = 1; r < size && !v->status; r++) compare(&work->sheet[0], &work->sheet[r], r, v);
    for (int r = 1; r < size; r++)
        if (work->sheet[r].kind != work->sheet[0].kind || strcmp(work->sheet[r].name, work->sheet[0].name))
            v->uneven = true;
    for (int r = 0; r < size; r++)
        if (work->sheet[r].fills) v->uneven = false; /* counts are compared */
    uint64_t over = 0;
    for (int r = 0; r < size; r++) over += (uint64_t)work->sheet[r].cuts;
    if (!v->status && work->mine.kind == GD_ALL_TO_ALL && over)
        JUDGE(GD_MISMATCH, "all_to_all: some rank sends more or less than a different rank expects of it");
}

/* ---- the same text everywhere ---- */

gd_status gd__world_same(gd_world *w, const char *who, const char *text)
{
    if (!w) return GD_OK;
    gd_status status = gd__world_call(w, &(gd_collective){.kind = GD_BARRIER, .name = text});
    /* a failure of a different rank elsewhere is reported unchanged */
    if (!strncmp(gd_error_text(w->ctx), "barrier: ", 9)) gd__blame(w->ctx, GD_OK, who);
    return status;
}
