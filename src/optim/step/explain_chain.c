/* Explaining a chain: how its links become passes over memory.
 *
 *   chain: clip_norm(1) | adam | lr(0.001)
 *   parameters: 2 tensors, 1010 elements
 *   segment 1: clip_norm, adam, lr; subtracted from the parameters
 *     pass 1: 4 bytes per element: reads gradient (4); built in
 *     pass 2: 28 bytes per element: reads gradient, ... (16), writes ... (12); built in
 *     state: 8 bytes per element (exp_avg, exp_avg_sq), 8080 bytes
 *   total: 2 passes, 32 bytes per element and step, 8080 bytes of state
 *
 * The plans are made as a step would make them, without running anything. */
#include "base/narrow.h"
#include "base/text/text.h"
#include "gradus/autograd.h"
#include "gradus/link/projection.h"
#include "optim/plan/plan.h"
#include "optim/step/var_internal.h"
#include "optim/step/transform.h"
#include "optim/vector/layout.h"
#include "tensor/device.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct explaining {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_text text;
    bool source;
    gd_tensor **params; /* those that want gradients */
    int count;
    gd_pending pending[GD_MAX_PENDING];
    int pendings;
    bool input_is_grad;
    int depth; /* of links inside links */
    int segments, passes;
    int64_t elements, state, traffic; /* traffic: bytes per step */
} explaining;

/* ---- passes ---- */

static void indent(explaining *x, int more)
{
    for (int i = 0; i < x->depth + more; i++) gd__text_add(&x->text, "  ");
}

static const char *array_name(const explaining *x, const gd_array *a)
{
    switch (a->kind) {
    case GD_ARRAY_INPUT: return x->input_is_grad ? "gradient" : "update";
    case GD_ARRAY_PARAM: return "parameter";
    case GD_ARRAY_GRAD: return "gradient";
    case GD_ARRAY_STATE:
        return a->rest_of ? "what its codes leave out"
                          : ((const gd_link *)a->owner)->cls->slots[a->slot].name;
    case GD_ARRAY_HOLE: return "result of a child";
    case GD_ARRAY_SCRATCH: return "values along axes";
    case GD_ARRAY_RANDOM: return "random numbers";
    default: return "update";
    }
}

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

/* Elements of an array over all members of a group: fewer if it lacks some axes. */
static int64_t numel_of(const explaining *x, const gd_plan_group *g, uint16_t along)
{
    const gd_program *p = g->run->p;
    int64_t numel = 0, size[GD_MAX_DIMS + 1];
    if (along == p->full) return g->numel;
    for (int m = 0; m < g->members; m++) {
        const gd_tensor *t = x->params[g->position[m]];
        gd__program_sizes(p, t->ndim, t->size, size);
        numel += gd__axes_numel(p, size, along, t->numel);
    }
    return numel;
}

/* Bytes per element. */
static double bytes_of(const explaining *x, const gd_plan_group *g, uint32_t arrays)
{
    const gd_program *p = g->run->p;
    double bytes = 0;
    for (int k = 0; k < p->arrays; k++) {
        if (!(arrays >> k & 1) || p->array[k].kind == GD_ARRAY_RANDOM) continue;
        double share = p->array[k].along == p->full ? 1
                       : g->numel ? (double)numel_of(x, g, p->array[k].along) / (double)g->numel
                                  : 0;
        double scale = p->array[k].dtype == GD_U8 ? 4.0 / GD_CODED_BLOCK : 0;
        bytes += share * ((double)gd_dtype_size(p->array[k].dtype) + scale);
    }
    return bytes;
}

static void put_arrays(explaining *x, const gd_plan_group *g, const char *verb, uint32_t arrays)
{
    const gd_program *p = g->run->p;
    const char *between = verb;
    for (int k = 0; k < p->arrays; k++) {
        if (!(arrays >> k & 1)) continue;
        gd__text_put(&x->text, "%s %s", between, array_name(x, &p->array[k]));
        between = ",";
    }
    if (arrays) gd__text_put(&x->text, " (%.4g)", bytes_of(x, g, arrays));
}

static void put_executor(explaining *x, const gd_plan_group *g, int level)
{
    const char *trouble = gd__kernel_trouble(x->ctx);
    if (!gd__exec_by_host(g->run))
        gd__text_put(&x->text, "compiled for %s", g->run->device->name);
    else if (g->run->device != x->ctx->cpu)
        gd__text_put(&x->text, "interpreted by the host, %s cannot run programs", g->run->device->name);
    else if (g->run->how[level] == GD_EXEC_BUILT_IN)
        gd__text_add(&x->text, "built in");
    else if (g->run->how[level] == GD_EXEC_COMPILED)
        gd__text_add(&x->text, "compiled");
    else {
        gd__text_add(&x->text, "interpreted");
        if (*trouble && !x->o->test.interpret) gd__text_put(&x->text, " (%s)", trouble);
    }
}

/* Passes over elements have numbers; work between them, over rows or columns, is small. */
static void put_pass(explaining *x, const gd_plan_group *g, int i)
{
    const gd_pass *pass = &g->run->pass[i];
    double bytes = bytes_of(x, g, pass->loads) + bytes_of(x, g, pass->stores);
    indent(x, 1);
    if (pass->along == g->run->p->full) {
        int number = 1;
        for (int k = 0; k < i; k++) number += g->run->pass[k].along == g->run->p->full;
        gd__text_put(&x->text, "pass %d: %.4g bytes per element:", number, bytes);
        x->passes++;
    } else
        gd__text_put(&x->text, "between: %" PRId64 " values along axes, %.4g bytes per element:",
                     numel_of(x, g, pass->along), bytes);
    put_arrays(x, g, " reads", pass->loads);
    put_arrays(x, g, pass->loads ? ", writes" : " writes", pass->stores);
    gd__text_add(&x->text, "; ");
    put_executor(x, g, i);
    gd__text_add(&x->text, "\n");
    x->traffic += (int64_t)(bytes * (double)g->numel + 0.5);
    if (!x->source) return;
    char name[32];
    snprintf(name, sizeof name, "pass_%d", i + 1);
    gd__emit_c(g->run->p, pass, name, &x->text);
    gd__text_add(&x->text, "\n");
}

/* Elements of which this rank keeps the state. */
static int64_t kept_here(const explaining *x, const gd_run_args *args, const gd_plan *plan,
                         const gd_plan_group *g)
{
    int64_t kept = 0, from, to;
    if (!plan->shared) return g->numel;
    for (int m = 0; m < g->members; m++)
        if (gd__share_of(x->o, args->keys[g->position[m]], &from, &to)) kept += to - from;
    return kept;
}

static void put_state(explaining *x, const gd_plan_group *g, int64_t kept)
{
    uint32_t slots = 0;
    for (int k = 0; k < g->run->p->arrays; k++)
        if (g->run->p->array[k].kind == GD_ARRAY_STATE) slots |= 1u << k;
    if (!slots) return;
    double bytes = bytes_of(x, g, slots);
    int64_t all = (int64_t)(bytes * (double)g->numel + 0.5);
    indent(x, 1);
    gd__text_put(&x->text, "state: %.4g bytes per element (", bytes);
    bool any = false;
    for (int k = 0; k < g->run->p->arrays; k++) {
        if (!(slots >> k & 1)) continue;
        gd__text_put(&x->text, "%s%s", any ? ", " : "", array_name(x, &g->run->p->array[k]));
        any = true;
    }
    gd__text_put(&x->text, "), %" PRId64 " bytes", all);
    if (kept != g->numel) {
        all = (int64_t)(bytes * (double)kept + 0.5);
        gd__text_put(&x->text, ", %" PRId64 " of them here", all);
    }
    gd__text_add(&x->text, "\n");
    x->state += all;
}

/* ---- segments ---- */

/* Finds the inputs of rules, as a step does. */
static gd_plan *plan_seen(explaining *x, gd_run_args *args)
{
    gd_needs needs = gd__rules_need(args->pending, args->pendings);
    gd_plan *plan;
    do {
        args->grad = needs.grad ? args->params : NULL;
        args->has_loss = needs.loss;
        plan = gd__plan_look(args);
    } while (!plan && gd__rules_need_more(x->ctx, args->pending, args->pendings, &needs));
    return plan;
}

static gd_status put_plan(explaining *x, gd_run_args *args, gd_link **child)
{
    gd_plan *plan = plan_seen(x, args);
    if (!plan) return gd_error(x->ctx) ? gd_error(x->ctx) : GD_NOMEM;
    for (int i = 0; i < plan->set.tables; i++) {
        const gd_plan_group *g = &plan->group[i];
        if (plan->set.tables > 1) {
            indent(x, 1);
            gd__text_put(&x->text, "for %d tensor%s of %s, %" PRId64 " element%s:\n", g->members,
                         plural(g->members), gd_dtype_name(args->params[g->position[0]]->dtype), g->numel,
                         plural(g->numel));
        }
        for (int k = 0; k < g->run->passes; k++) put_pass(x, g, k);
        if (!plan->child) put_state(x, g, kept_here(x, args, plan, g));
    }
    *child = plan->child;
    gd__plans_free(x->ctx, plan);
    return GD_OK;
}

static gd_run_args args_for(explaining *x, gd_sink sink)
{
    return (gd_run_args){.ctx = x->ctx,
                         .optimizer = x->o,
                         .pending = x->pending,
                         .pendings = x->pendings,
                         .params = x->params,
                         .keys = x->params,
                         .input = x->params, /* gradients and updates have the parameters' dtypes */
                         .count = x->count,
                         .sink = sink,
                         .input_is_grad = x->input_is_grad};
}

static void put_names(explaining *x, const gd_link *link, bool *any)
{
    if (gd__is_chain(link)) {
        for (int i = 0; i < link->children; i++) put_names(x, link->child[i], any);
        return;
    }
    gd__text_put(&x->text, "%s %s", *any ? "," : "", link->cls->name);
    *any = true;
}

static gd_status put_halves(explaining *x, gd_sink sink, size_t before);

/* The pending links become a segment. */
static gd_status put_segment(explaining *x, gd_sink sink)
{
    bool any = false;
    gd_link *child;
    size_t before = x->text.used;
    if (!x->pendings && sink == GD_SINK_UPDATE) return GD_OK;
    indent(x, 0);
    gd__text_put(&x->text, "segment %d:", ++x->segments);
    for (int i = 0; i < x->pendings; i++) put_names(x, x->pending[i].link, &any);
    gd__text_add(&x->text, any ? "; " : " ");
    gd__text_add(&x->text,
                 sink == GD_SINK_PARAMS ? "subtracted from the parameters\n" : "an update in memory\n");
    gd_run_args args = args_for(x, sink);
    gd_status status = put_plan(x, &args, &child);
    if (status == GD_OVERFLOW && x->pendings > 1) return put_halves(x, sink, before);
    x->pendings = 0;
    x->input_is_grad = false;
    return status;
}

/* Splits a program that is too large, as a step does. */
static gd_status put_halves(explaining *x, gd_sink sink, size_t before)
{
    gd_pending rest[GD_MAX_PENDING];
    gd_clear_error(x->ctx);
    x->text.used = before;
    x->segments--;
    int half = x->pendings / 2, left = x->pendings - half;
    memcpy(rest, x->pending + half, (size_t)left * sizeof *rest);
    x->pendings = half;
    gd_status status = put_segment(x, GD_SINK_UPDATE);
    memcpy(x->pending, rest, (size_t)left * sizeof *rest);
    x->pendings = left;
    return status ? status : put_segment(x, sink);
}

/* ---- links that cannot be fused ---- */

static gd_status walk(explaining *x, gd_link *link);

/* Does each rank run the link over the tensors that it owns?  Those of this rank go into own (unless NULL) and *count. */
static bool own_params(explaining *x, const gd_link *link, gd_tensor **own)
{
    int count = 0;
    bool shared = gd__shares_state(x->o) && gd__spreads_by_tensors(link);
    for (int i = 0; i < x->count && shared; i++) {
        int owner = gd__share_owner(x->o, x->params[i]);
        shared = owner >= 0;
        if (own && owner == gd_world_rank(x->o->shared.share->world)) own[count++] = x->params[i];
    }
    if (own) own[count] = NULL;
    return shared;
}

/* Does each rank process the elements that it owns? */
static bool by_elements(const explaining *x, const gd_link *link)
{
    bool plain = gd__keeps_columns(link) || gd__spreads_by_elements(link);
    for (int i = 0; i < x->count && plain; i++) {
        gd_dtype dtype = x->params[i]->dtype;
        plain = dtype == x->params[0]->dtype && (dtype == GD_F32 || dtype == GD_F64) &&
                gd__contiguous(x->params[i]) && x->params[i]->storage->device == x->ctx->cpu;
    }
    return plain;
}

/* The elements of the parameters that this rank owns. */
static int64_t own_elements(const explaining *x)
{
    int64_t own = 0, from, to;
    for (int i = 0; i < x->count; i++)
        if (gd__share_of(x->o, x->params[i], &from, &to)) own += to - from;
    return own;
}

static int64_t expected_here(explaining *x, const gd_link *link)
{
    int64_t all = gd__list_numel(x->params, x->count);
    if (by_elements(x, link) && gd__shares_state(x->o) && all)
        return (int64_t)((double)gd__state_expected(link, x->params, x->count) * (double)own_elements(x) /
                         (double)all);
    gd_tensor **own = gd__tensors_new(x->ctx, x->count + 1);
    int64_t bytes = 0;
    int count = 0;
    bool shared = own && own_params(x, link, own);
    while (shared && own[count]) count++;
    if (own) bytes = gd__state_expected(link, shared ? own : x->params, shared ? count : x->count);
    gd__free(x->ctx, own, (size_t)(x->count + 1) * sizeof *own);
    return bytes;
}

/* The state that the link keeps, or will keep once it runs; added to x. */
static void put_own_state(explaining *x, const gd_link *link)
{
    int64_t held = gd__state_held(link), expected = expected_here(x, link);
    int64_t bytes = held > expected ? held : expected;
    if (!bytes) return;
    gd__text_put(&x->text, "; holds %" PRId64 " bytes of state", bytes);
    x->state += bytes;
}

/* A child that is not a rule, with its own passes and state, between two passes of a rule. */
static gd_status put_hole(explaining *x, gd_link *child)
{
    gd_pending before = x->pending[0];
    bool grad = x->input_is_grad;
    indent(x, 1);
    gd__text_put(&x->text, "child: %s\n", child->cls->name);
    x->depth += 2;
    x->pendings = 0;
    x->input_is_grad = false;
    gd_status status = walk(x, child);
    if (!status) status = put_segment(x, GD_SINK_UPDATE);
    x->depth -= 2;
    x->pending[0] = before;
    x->pendings = 1;
    x->input_is_grad = grad;
    return status;
}

/* A rule alone: between children that are not rules, or with a different target. */
static gd_status put_lone_rule(explaining *x, gd_link *link)
{
    gd_link *child = NULL;
    x->pending[0] = (gd_pending){.link = link, .mode = GD_MODE_STEP};
    x->pendings = 1;
    gd_run_args args = args_for(x, GD_SINK_UPDATE);
    gd_status status = GD_OK;
    do {
        status = put_plan(x, &args, &child);
        if (status || !child) break;
        status = put_hole(x, child);
        args.holes++;
    } while (!status && args.holes < 8);
    x->pendings = 0;
    return status;
}

/* A child with its own parameters. */
static void see_part(explaining *x, const gd_link *link, int child, gd_tensor *const *all, int count,
                     gd_tensor **some)
{
    int64_t elements = 0;
    x->params = some;
    x->count = 0;
    for (int i = 0; i < count; i++) {
        if (link->cls->part(link, all[i]) != child) continue;
        elements += all[i]->numel;
        some[x->count++] = all[i];
    }
    gd__text_put(&x->text, " %d tensor%s, %" PRId64 " element%s", x->count, plural(x->count), elements,
                 plural(elements));
}

/* The tensors that children step over instead of the parameters, of the innermost scope. Very many tensors of one element each
 * are not made: the cost per element is the same. */
static gd_status project(explaining *x, gd_link *link)
{
    const gd_projection *by = link->cls->projection;
    int64_t count = by->parts ? 0 : 1;
    for (int i = 0; by->parts && i < x->count; i++) count += by->parts(x->params[i]);
    if (count > 4096) return GD_OK;
    gd_tensor **list = gd_link_scratch(link, (int)count);
    gd_no_grad_begin(x->ctx);
    gd_status status = list ? by->project(link, x->params, x->count, list) : gd_error(x->ctx);
    gd_no_grad_end(x->ctx);
    for (int i = 0; i < count && !status; i++)
        if (!list[i]) status = gd_error(x->ctx);
    if (status) return status;
    x->params = list;
    x->count = (int)count;
    return GD_OK;
}

/* The inner links, each as a separate chain. */
static gd_status put_children(explaining *x, gd_link *link)
{
    gd_status status = GD_OK;
    bool grad = x->input_is_grad;
    x->depth++;
    gd_tensor **all = x->params, **some = link->cls->part ? gd__tensors_new(x->ctx, x->count) : NULL;
    int count = x->count;
    if (link->cls->part && !some) status = GD_NOMEM;
    gd_scope_begin(x->ctx);
    if (link->cls->projection) status = project(x, link);
    for (int i = 0; i < link->children && !status; i++) {
        indent(x, 0);
        gd__text_put(&x->text, "%s:", link->cls->fields[link->child_field[i]].name);
        if (some) see_part(x, link, i, all, count, some);
        gd__text_add(&x->text, "\n");
        x->depth++;
        status = x->count ? walk(x, link->child[i]) : GD_OK;
        if (!status && x->count) status = put_segment(x, GD_SINK_UPDATE);
        x->depth--;
    }
    gd_scope_end(x->ctx);
    gd__free(x->ctx, some, (size_t)count * sizeof *some);
    x->params = all;
    x->count = count;
    x->depth--;
    x->input_is_grad = grad;
    return status;
}

static gd_status put_break(explaining *x, gd_link *link)
{
    const char *target = gd__is_transform(link) ? gd__target_of(link) : "update";
    bool closure = !strcmp(target, "closure");
    gd_status status = closure ? GD_OK : put_segment(x, GD_SINK_UPDATE);
    if (status) return status;
    indent(x, 0);
    gd__text_put(&x->text, "break: %s", link->cls->name);
    if (gd__is_transform(link) && strcmp(target, "update"))
        gd__text_put(&x->text, "; target %s", target);
    else if (link->cls->part)
        gd__text_add(&x->text, "; a step of its own for each part of the parameters");
    else if (!gd__is_rule(link))
        gd__text_add(&x->text, "; works on whole tensors");
    if (!gd__is_rule(link) && !link->cls->part && gd__shares_state(x->o))
        gd__text_add(&x->text, own_params(x, link, NULL) ? "; each rank does the tensors it owns"
                               : by_elements(x, link)    ? "; each rank does the elements it owns"
                                                         : "; every rank does all of it");
    if (!gd__is_rule(link)) put_own_state(x, link);
    gd__text_add(&x->text, "\n");
    status = gd__is_rule(link) ? put_lone_rule(x, link) : put_children(x, link);
    if (!closure) x->input_is_grad = false;
    return status;
}

static gd_status walk(explaining *x, gd_link *link)
{
    gd_status status = GD_OK;
    if (gd__is_chain(link)) {
        for (int i = 0; i < link->children && !status; i++) status = walk(x, link->child[i]);
        return status;
    }
    bool fused = gd__is_transform(link) && gd__fusable_inside(link);
    if (!fused) return put_break(x, link);
    if (x->pendings == GD_MAX_PENDING || (x->o->test.no_fusion && x->pendings))
        status = put_segment(x, GD_SINK_UPDATE);
    x->pending[x->pendings++] = (gd_pending){.link = link, .mode = GD_MODE_STEP};
    return status;
}

/* ---- all of it ---- */

static gd_status gather(explaining *x)
{
    x->params = gd__tensors_new(x->ctx, x->o->count);
    if (!x->params) return GD_NOMEM;
    for (int i = 0; i < x->o->count; i++) {
        gd_tensor *t = x->o->param[i].tensor;
        if (!t->leaf_grad) continue;
        x->params[x->count++] = t;
        x->elements += t->numel;
    }
    return GD_OK;
}

static gd_status put_chain(explaining *x)
{
    size_t size = (size_t)gd_link_print(x->o->chain, NULL, 0) + 1;
    char *text = gd__alloc(x->ctx, size);
    if (!text) return GD_NOMEM;
    (void)gd_link_print(x->o->chain, text, size);
    gd__text_add(&x->text, "chain: ");
    gd__text_add(&x->text, text);
    gd__free(x->ctx, text, size);
    gd__text_put(&x->text, "\nparameters: %d tensor%s, %" PRId64 " element%s\n", x->count, plural(x->count),
                 x->elements, plural(x->elements));
    return GD_OK;
}

/* Which rank keeps which state, and the messages of a step. */
static void put_world(explaining *x)
{
    const gd_share *share = x->o->shared.share;
    static const char *const shards[] = {"nothing is sharded", "state is sharded",
                                         "state and gradients are sharded"};
    gd__text_put(&x->text, "world: rank %d of %d in %s, %s", gd_world_rank(share->world),
                 gd_world_size(share->world), gd_world_name(share->world), shards[share->options.shard]);
    if (gd__shares_state(x->o)) gd__text_put(&x->text, ": %" PRId64 " elements here", own_elements(x));
    gd__text_add(&x->text, "\n");
}

/* ---- distribution over processes ---- */

typedef struct spreading {
    explaining *x;
    gd_spread which;
    int named;
} spreading;

/* The work of a link over several processes: rules and functions may need whole tensors, other links run on every process. */
static gd_spread spread_of(const explaining *x, const gd_link *link)
{
    if (gd__is_rule(link)) return gd_link_spread(link);
    return gd__spreads_by_tensors(link) ? GD_SPREAD_TENSOR
           : by_elements(x, link)       ? GD_SPREAD_VECTOR
                                        : GD_SPREAD_WHOLE;
}

static gd_status put_spread(void *user, gd_link *link, const char *path)
{
    spreading *s = user;
    (void)path;
    if (gd__is_chain(link) || link->cls->part || spread_of(s->x, link) != s->which) return GD_OK;
    gd__text_put(&s->x->text, "%s%s", s->named++ ? ", " : "", link->cls->name);
    return GD_OK;
}

/* Which links cut tensors, which need them whole, and which every process runs completely; nothing if all cut. */
static void put_spreads(explaining *x)
{
    static const char *const how[] = {[GD_SPREAD_FLAT] = " by shards of tensors",
                                      [GD_SPREAD_TENSOR] = " by whole tensors",
                                      [GD_SPREAD_VECTOR] = " by elements, their products joined",
                                      [GD_SPREAD_WHOLE] = " done by each"};
    bool any = false, cut = true;
    size_t begin = x->text.used;
    gd__text_add(&x->text, "over several processes: ");
    for (int which = GD_SPREAD_FLAT; which <= GD_SPREAD_WHOLE; which++) {
        spreading s = {.x = x, .which = (gd_spread)which};
        size_t before = x->text.used;
        if (any) gd__text_add(&x->text, "; ");
        (void)!gd__visit_links(x->o->chain, "", put_spread, &s);
        if (s.named)
            gd__text_add(&x->text, how[which]);
        else
            x->text.used = before;
        any = any || s.named;
        cut = cut && (!s.named || which == GD_SPREAD_FLAT);
    }
    gd__text_add(&x->text, "\n");
    if (cut) x->text.used = begin; /* the usual */
}

static gd_status explain(explaining *x)
{
    gd_status status = gather(x);
    /* later it may need all ranks */
    if (!status && gd__shares_state(x->o) && !x->o->shared.share->structure) status = gd__share_own(x->o);
    if (!status) status = put_chain(x);
    if (!status && x->o->shared.share) put_world(x);
    if (!status && x->count) {
        status = walk(x, x->o->chain);
        if (!status) status = put_segment(x, GD_SINK_PARAMS);
        put_spreads(x);
        double each = x->elements ? (double)x->traffic / (double)x->elements : 0;
        gd__text_put(&x->text,
                     "total: %d pass%s, %g bytes per element and step, %" PRId64 " bytes of state\n",
                     x->passes, x->passes == 1 ? "" : "es", each, x->state);
    }
    return status ? status : x->text.failed ? GD_NOMEM : GD_OK;
}

int gd_explain(gd_optimizer *o, bool source, char *out, size_t size)
{
    if (!o) return -1;
    explaining x = {.ctx = o->ctx, .o = o, .text = {.ctx = o->ctx}, .source = source, .input_is_grad = true};
    gd_status status = explain(&x);
    int length = status ? -1 : (int)x.text.used;
    if (!status && out && size) {
        size_t n = x.text.used < size ? x.text.used : size - 1;
        memcpy(out, x.text.data, n);
        out[n] = 0;
    }
    gd__free(o->ctx, x.params, (size_t)o->count * sizeof *x.params);
    gd__text_free(&x.text);
    return length;
}
