/* Counted objects and the scope stack; see object.h for the layout. */
#include "base/object.h"
#include "base/ctx.h"

#include <string.h>

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

gd_status gd__object_init(gd_ctx *ctx, void *object, const gd_object_type *type)
{
    if (ctx->scope.lost) return GD_NOMEM; /* its scope could not be begun: nothing would free it */
    if (ctx->scope.depth && ctx->scope.count == ctx->scope.capacity && !grow_items(ctx)) return GD_NOMEM;
    gd__object_init_owned(ctx, object, type);
    if (ctx->scope.depth) {
        ctx->scope.item[ctx->scope.count++] = object;
        ((gd_object *)object)->slot = (uint32_t)ctx->scope.count;
    }
    return GD_OK;
}

void gd__retain(void *object)
{
    if (object) ((gd_object *)object)->refs++;
}

static void leave_scope(gd_object *object)
{
    if (!object->slot) return;
    object->ctx->scope.item[object->slot - 1] = NULL;
    object->slot = 0;
}

void gd__release(void *object)
{
    gd_object *o = object;
    if (!o || --o->refs) return;
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
    return o->slot && ctx->scope.depth && o->slot > ctx->scope.mark[ctx->scope.depth - 1];
}

void gd__keep(void *object)
{
    gd_object *o = object;
    if (o && is_inner(o) && !o->ctx->scope.lost) o->keep = 1;
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

static bool grow_marks(gd_ctx *ctx)
{
    size_t old = ctx->scope.mark_capacity, *mark = gd__alloc(ctx, 2 * old * sizeof *mark);
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
        ctx->scope.mark[ctx->scope.depth++] = ctx->scope.count;
}

void gd_scope_end(gd_ctx *ctx)
{
    if (!ctx) return;
    if (ctx->scope.lost) {
        ctx->scope.lost--;
        return;
    }
    if (!ctx->scope.depth) return;
    size_t mark = ctx->scope.mark[ctx->scope.depth - 1], end = ctx->scope.count, kept = mark;
    bool outer = ctx->scope.depth > 1;
    /* kept objects move to the front, then the rest is released: a destructor may release others of the scope */
    for (size_t i = mark; i < end; i++) {
        gd_object *o = ctx->scope.item[i];
        if (!o || !o->keep) continue;
        o->keep = 0;
        ctx->scope.item[i] = NULL;
        o->slot = 0;
        if (!outer) continue;
        gd_object *other = ctx->scope.item[kept];
        ctx->scope.item[kept] = o;
        o->slot = (uint32_t)(kept + 1);
        if (other) {
            ctx->scope.item[i] = other;
            other->slot = (uint32_t)(i + 1);
        }
        kept++;
    }
    for (size_t i = end; i-- > kept;) {
        gd_object *o = ctx->scope.item[i];
        if (!o) continue;
        ctx->scope.item[i] = NULL;
        o->slot = 0;
        gd__release(o);
    }
    ctx->scope.count = kept;
    ctx->scope.depth--;
}
