/* Counted objects and the scope stack; see object.h for the layout. */
#include "base/object.h"
#include "base/ctx.h"

#include <string.h>

/* ---- slots: a pointer, and in its lowest bit whether gd_keep was called ---- */

static inline gd_object *object_in(gd_object *slot) { return (gd_object *)((uintptr_t)slot & ~(uintptr_t)1); }
static inline bool is_kept(const gd_object *slot) { return (uintptr_t)slot & 1; }
static inline gd_object *kept_slot(gd_object *object) { return (gd_object *)((uintptr_t)object | 1); }

static bool grow_items(gd_ctx *ctx)
{
    size_t capacity = ctx->scope.capacity ? ctx->scope.capacity * 2 : 64;
    gd_object **item = gd__realloc(ctx, ctx->scope.item, ctx->scope.capacity * sizeof *item,
                                   capacity * sizeof *item);
    if (!item) return false;
    ctx->scope.item = item;
    ctx->scope.capacity = capacity;
    return true;
}

void gd__object_init_owned(gd_ctx *ctx, void *object, const gd_object_type *type)
{
    *(gd_object *)object = (gd_object){.type = type, .ctx = ctx, .refs = 1};
    ctx->live++;
}

static bool room_in_scope(gd_ctx *ctx)
{
    if (ctx->scope.lost) return false; /* the scope could not be begun: nothing would free what is in it */
    return !ctx->scope.depth || ctx->scope.count < ctx->scope.capacity || grow_items(ctx);
}

static void enter_scope(gd_ctx *ctx, gd_object *object)
{
    if (!ctx->scope.depth) return;
    ctx->scope.item[ctx->scope.count++] = object;
    object->slot = (uint32_t)ctx->scope.count;
}

gd_status gd__object_init(gd_ctx *ctx, void *object, const gd_object_type *type)
{
    if (!room_in_scope(ctx)) return GD_NOMEM;
    gd__object_init_owned(ctx, object, type);
    enter_scope(ctx, object);
    return GD_OK;
}

gd_status gd__scope_take(void *object)
{
    gd_object *o = object;
    if (!o) return GD_OK;
    gd_ctx *ctx = o->ctx;
    bool again = o->slot && ctx->scope.depth;
    if (!room_in_scope(ctx)) {
        gd__release(o);
        return ctx->status ? ctx->status : GD_NOMEM;
    }
    if (again) o->more++;
    enter_scope(ctx, o);
    return GD_OK;
}

/* The highest slot of an object at or below a given one. */
static uint32_t highest_slot(const gd_object *object, uint32_t slot)
{
    while (slot && object_in(object->ctx->scope.item[slot - 1]) != object) slot--;
    return slot;
}

/* Empties the highest slot of an object; the next one below becomes its slot. */
static void leave_scope(gd_object *object)
{
    if (!object->slot) return;
    gd_object **item = object->ctx->scope.item;
    uint32_t slot = object->slot;
    item[slot - 1] = NULL;
    object->slot = 0;
    if (!object->more) return;
    object->more--;
    object->slot = highest_slot(object, slot - 1);
}

void gd__destroy(gd_object *o)
{
    leave_scope(o);
    o->ctx->live--;
    o->type->destroy(o);
}

void gd__user_retain(void *object)
{
    if (!object) return;
    ((gd_object *)object)->retained++;
    gd__retain(object);
}

void gd__user_release(void *object)
{
    gd_object *o = object;
    if (!o) return;
    if (o->retained)
        o->retained--;
    else
        leave_scope(o);
    gd__release(o);
}

/* True for an object of the innermost scope. */
static bool is_inner(const gd_object *o)
{
    gd_ctx *ctx = o->ctx;
    return o->slot && ctx->scope.depth && o->slot > ctx->scope.mark[ctx->scope.depth - 1].count;
}

void gd__keep(void *object)
{
    gd_object *o = object;
    if (o && is_inner(o) && !o->ctx->scope.lost) o->ctx->scope.item[o->slot - 1] = kept_slot(o);
}

void gd__own(void *object)
{
    gd_object *o = object;
    if (!o) return;
    if (is_inner(o))
        leave_scope(o);
    else
        o->refs++;
}

void gd__own_made(void *object)
{
    if (object && ((gd_object *)object)->slot) gd__own(object);
}

static __attribute__((noinline)) bool grow_marks(gd_ctx *ctx)
{
    size_t old = ctx->scope.mark_capacity;
    gd_scope_mark *mark = gd__alloc(ctx, 2 * old * sizeof *mark);
    if (!mark) return false;
    memcpy(mark, ctx->scope.mark, old * sizeof *mark);
    if (ctx->scope.mark != ctx->scope.first_marks) gd__free(ctx, ctx->scope.mark, old * sizeof *mark);
    ctx->scope.mark = mark;
    ctx->scope.mark_capacity = 2 * old;
    return true;
}

void gd_scope_begin(gd_ctx *ctx)
{
    if (!ctx) return;
    if (ctx->scope.lost || (ctx->scope.depth == ctx->scope.mark_capacity && !grow_marks(ctx)))
        ctx->scope.lost++; /* objects go to the scope around it; the error is recorded */
    else
        ctx->scope.mark[ctx->scope.depth++] = (gd_scope_mark){ctx->scope.count, ctx->scope.used};
}

bool gd__scope_room(gd_ctx *ctx, size_t bytes, void **out)
{
    *out = NULL;
    /* without a pool every block is one of its own, for tools that look at memory */
    if (!ctx->pool_on || !ctx->scope.depth || ctx->scope.lost || bytes > GD_SCOPE_ROOM) return true;
    size_t size = (bytes + 15) & ~(size_t)15;
    if (!ctx->scope.room && !(ctx->scope.room = gd__alloc(ctx, GD_SCOPE_ROOM))) return false;
    if (size > GD_SCOPE_ROOM - ctx->scope.used) return true;
    *out = ctx->scope.room + ctx->scope.used;
    ctx->scope.used += size;
    return true;
}

void gd_scope_end(gd_ctx *ctx)
{
    if (!ctx) return;
    if (ctx->scope.lost) {
        ctx->scope.lost--;
        return;
    }
    if (!ctx->scope.depth) return;
    size_t mark = ctx->scope.mark[ctx->scope.depth - 1].count, end = ctx->scope.count, kept = mark;
    ctx->scope.used = ctx->scope.mark[ctx->scope.depth - 1].used;
    bool outer = ctx->scope.depth > 1;
    /* kept objects move to the front, then the rest is released: a destructor may release others of the scope */
    for (size_t i = mark; i < end; i++) {
        gd_object *slot = ctx->scope.item[i], *o = object_in(slot);
        if (!is_kept(slot)) continue;
        bool highest = o->slot == i + 1;
        if (!outer) { /* this reference belongs to the caller now */
            if (highest)
                leave_scope(o);
            else
                o->more--;
            ctx->scope.item[i] = NULL;
            continue;
        }
        gd_object *other = object_in(ctx->scope.item[kept]);
        ctx->scope.item[i] = ctx->scope.item[kept];
        ctx->scope.item[kept] = o;
        if (other && other != o && other->slot < i + 1) other->slot = (uint32_t)(i + 1);
        kept++;
        if (highest) o->slot = o->more ? highest_slot(o, (uint32_t)(i + 1)) : (uint32_t)kept;
    }
    for (size_t i = end; i-- > kept;) {
        gd_object *o = object_in(ctx->scope.item[i]);
        if (!o) continue;
        leave_scope(o); /* from the end: this slot is its highest */
        gd__release(o);
    }
    ctx->scope.count = kept;
    ctx->scope.depth--;
}

void *gd__scope_leave(gd_ctx *ctx, void *object)
{
    gd__keep(object);
    gd_scope_end(ctx);
    return object;
}

void gd__aside_begin(gd_ctx *ctx)
{
    gd_scope_begin(ctx);
    ctx->grad_off++;
}

void gd__aside_end(gd_ctx *ctx)
{
    if (ctx->grad_off) ctx->grad_off--;
    gd_scope_end(ctx);
}

void *gd__aside_leave(gd_ctx *ctx, void *object)
{
    gd__keep(object);
    gd__aside_end(ctx);
    return object;
}
