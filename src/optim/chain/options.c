/* Links from options: the same checks as from text. */
#include "gradus/chain.h"
#include "optim/chain/preset.h"
#include "optim/link/classes.h"
#include "optim/link/link_internal.h"

static gd_status set_children(gd_link *link, const gd_link_option *o)
{
    /* NULL, or a link whose construction failed */
    gd_status status = o->child_count ? GD_OK : gd_error(link->head.ctx);
    for (int i = 0; i < o->child_count; i++) {
        gd_link *child = o->children ? o->children[i] : o->child;
        if (!child && !status)
            status = gd__null(link->head.ctx, "a link among the options is NULL");
        else if (status)
            gd_link_release(child);
        else
            status = gd_link_set_child(link, o->field, child);
    }
    return status;
}

static gd_status set_option(gd_link *link, const gd_link_option *o)
{
    if (o->value.kind == GD_SET_CHAIN) return set_children(link, o);
    int index = gd__field_index(link->cls, o->field);
    bool needed = index >= 0 && !link->cls->fields[index].fallback.kind;
    bool left_out = !o->value.kind || (needed && o->value.kind == GD_SET_NONE);
    return left_out ? GD_OK : gd_link_set(link, o->field, o->value);
}

/* Are all required settings given, and are they consistent? */
static gd_status check_whole(gd_link *link)
{
    const char *missing = gd__is_chain(link) ? NULL : gd__link_needs(link);
    if (missing) return gd_fail(link->head.ctx, GD_ARGUMENT, "%s: needs '%s'", link->cls->name, missing);
    return link->cls->check ? link->cls->check(link) : GD_OK;
}

/* The chain of a preset with its settings. */
static gd_link *expanded(gd_link *settings)
{
    gd_text text = {.ctx = settings->head.ctx};
    gd__preset_expand(settings, &text);
    gd_link *chain = text.failed ? NULL : gd_chain(text.ctx, text.data);
    gd__text_free(&text);
    gd_link_release(settings);
    return chain;
}

gd_link *gd_link_with(gd_ctx *ctx, const char *name, const gd_link_option *options, int count)
{
    if (!ctx || !name) return (void)gd__null(ctx, "link: the name of a class is NULL"), NULL;
    const gd_link_class *cls = gd__find_class(ctx, name);
    gd_link *link = cls ? gd__link_new(ctx, cls) : NULL;
    if (!cls) (void)gd_fail(ctx, GD_ATTRIBUTE, "link '%s' unknown", name);
    gd_status status = link ? GD_OK : GD_ARGUMENT;
    for (int i = 0; options && i < count; i++) {
        if (!status) {
            status = set_option(link, &options[i]);
            continue;
        }
        for (int k = 0; k < options[i].child_count; k++)
            gd_link_release(options[i].children ? options[i].children[k] : options[i].child);
    }
    if (!status) status = check_whole(link);
    if (!status) return cls->preset ? expanded(link) : link;
    gd_link_release(link);
    return NULL;
}
