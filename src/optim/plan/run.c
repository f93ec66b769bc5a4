/* Running plans.  A plan is refreshed with changes since it last ran, and then run. Checks:
 *
 *     step counts, the loss, scalars that links keep     always
 *     settings if the optimizer's `numbers` have changed
 *     memory of state if its `slots` have changed
 *     parameters, gradients, lists of links              unless they are those of leaves, and no leaf has changed
 *     everything if the plan does not fit: a different plan is used (plan.c)
 *
 * First, repeated and captured steps differ in nothing else. */
#include "optim/plan/plan.h"
#include "base/narrow.h"

#include <math.h>

gd_status gd__missed_change(gd_ctx *ctx)
{
    return gd_fail(ctx, GD_INTERNAL,
                   "a step finds other tensors than the last one, and nothing has counted the change");
}

/* ---- refreshing ---- */

static double number_of(const gd_setting *s)
{
    return s->kind == GD_SET_REAL || s->kind == GD_SET_BOOL ? s->real : NAN;
}

static double size_along(const gd_tensor *t, unsigned axes)
{
    double product = 1;
    for (int i = 0; i < t->ndim; i++)
        if (axes >> i & 1) product *= (double)t->size[i];
    return product;
}

static void fill_settings(const gd_run_args *args, const gd_plan *plan, gd_plan_group *g)
{
    double total = 0;
    for (int i = 0; i < plan->set.tables; i++) total += (double)plan->group[i].numel;
    for (int m = 0; m < g->members; m++) {
        int i = g->position[m];
        double *input = g->run->input + m * g->run->p->uniforms;
        for (int u = 0; u < g->run->p->uniforms; u++) {
            const gd_uniform *f = &g->run->p->uniform[u];
            if (f->kind == GD_U_SETTING)
                input[u] = number_of(gd__resolve(f->owner, f->index, args->keys[i]));
            else if (f->kind == GD_U_NUMEL)
                input[u] = f->index == GD_EACH ? (double)args->params[i]->numel : total;
            else if (f->kind == GD_U_SIZE)
                input[u] = size_along(args->params[i], (unsigned)f->index);
        }
    }
}

/* A separate apply counts as its update did. */
static double counted(int64_t steps, const gd_run_input *in)
{
    int64_t count = steps + in->ahead;
    return count < 1 ? 1 : (double)count;
}

/* A random number of a tensor, or one that is the same for all; streams of elements count from the other end. */
static double drawn(const gd_run_args *args, const gd_run_input *in, int position)
{
    bool each = in->index % 2 == GD_EACH;
    double key = gd__link_key(in->owner, each ? args->keys[position] : NULL, each ? position : -1);
    uint32_t word[4];
    gd__philox_at((uint64_t)key, (uint64_t)counted(in->owner->step, in), ~(uint64_t)in->index, word);
    return gd__unit_f64(word[0], word[1]);
}

/* Scalars, step counts where a parameter may have missed some, and keys of random numbers, which follow the seed of the context
 * too. */
static double input_of_member(const gd_run_args *args, const gd_run_input *in, int m)
{
    const gd_plan_group *g = in->group;
    int position = g->position[m];
    if (in->kind == GD_U_DRAW) return drawn(args, in, position);
    if (in->kind == GD_U_KEY) return gd__link_key(in->owner, args->keys[position], position);
    const gd_entry *e = g->uniform_entry[m * g->run->p->uniforms + in->uniform];
    return in->kind == GD_U_STEP ? counted(gd__entry_steps(in->owner, e), in) : e->scalar[in->index];
}

/* True if some differ from member to member. */
static bool fill_step(const gd_run_args *args, const gd_plan *plan)
{
    bool differ = false;
    for (int k = 0; k < plan->every_runs; k++) { /* none: there is no list */
        const gd_run_input *in = &plan->every_run[k];
        bool step = in->kind == GD_U_STEP, own = step ? in->owner->uneven : in->kind != GD_U_LOSS;
        const gd_exec *x = in->group->run;
        double *to = x->input + in->uniform, same = step ? counted(in->owner->step, in) : args->loss;
        for (int m = 0; m < x->members; m++, to += x->p->uniforms)
            *to = own ? input_of_member(args, in, m) : same;
        differ = differ || own;
    }
    return differ;
}

static gd_status stale_state(const gd_array *a, const gd_tensor *param, const gd_tensor *slot)
{
    const gd_link_class *cls = ((const gd_link *)a->owner)->cls;
    char now[256], then[256];
    return gd_fail(
        param->head.ctx, GD_MISMATCH,
        "%s: a parameter is %s %s now, its state '%s' is %s %s; reset the optimizer or remove the parameter",
        cls->name, gd_dtype_name(param->dtype), gd__shape_text(param, now, sizeof now),
        cls->slots[a->slot].name, gd_dtype_name(slot->dtype), gd__shape_text(slot, then, sizeof then));
}

/* The memory of a slot, made if it is not there. */
static gd_status state_pointer(const gd_array *a, gd_entry *e, const gd_tensor *param, char **data)
{
    gd_tensor *slot = e->slot[a->slot];
    if (!slot) slot = gd__entry_slot(a->owner, e, a->slot, a->dtype, param, a->without);
    if (!slot) return GD_NOMEM;
    bool same = gd__is_coded_for(slot, param) || gd__shape_without(slot, param, a->without);
    if (!same || slot->storage->device != param->storage->device) return stale_state(a, param, slot);
    bool feedback = a->rest || a->rest_of;
    if (slot->dtype != a->dtype || (a->dtype == GD_U8 && gd__is_fed_back(slot, param) != feedback)) {
        bool fresh = e->fresh[a->slot]; /* a different dtype was chosen meanwhile */
        slot = gd__slot_in(a->owner, a->slot, slot, param, a->dtype, feedback);
        if (!slot) return gd_error(param->head.ctx);
        gd__entry_put(a->owner, e, a->slot, slot, fresh);
    }
    if (a->dtype != GD_U8 && !a->without &&
        !gd__laid_alike(slot, param)) { /* loaded, or created through the API */
        bool fresh = e->fresh[a->slot];
        slot = gd__copy_laid(slot, param);
        if (!slot) return gd_error(param->head.ctx);
        gd__entry_put(a->owner, e, a->slot, slot, fresh);
    }
    *data = (char *)slot->data + (a->rest_of ? gd__rest_begins(param->numel) : 0) +
            (a->dtype == GD_U8 ? gd__coded_before(param->numel) : 0);
    return GD_OK;
}

/* For elements from `first` on. */
static char *where_whole_begins(char *data, int64_t first, gd_dtype dtype)
{
    return (char *)((uintptr_t)data - (uintptr_t)first * (uintptr_t)gd_dtype_size(dtype));
}

/* The same of a member that this rank has a shard of. */
static gd_status own_pointer(const gd_array *a, gd_entry *e, const gd_tensor *param, const gd_exec *x, int m,
                             char **data)
{
    int64_t from = x->own_from[m], to = x->own_to[m];
    if (to - from == param->numel) {
        gd_status status = state_pointer(a, e, param, data);
        if (!status) e->sharded[a->slot] = GD_SHARDED(a->without, gd__is_fed_back(e->slot[a->slot], param));
        return status;
    }
    gd_status status = gd__share_slot(a->owner, e, a->slot, a->dtype, param, a->without, from, to);
    if (!status) *data = where_whole_begins(e->slot[a->slot]->data, from, a->dtype);
    return status;
}

/* True if it has changed. */
static bool put_pointer(char **place, char *data)
{
    bool other = *place != data;
    *place = data;
    return other;
}

/* The state of an array of one member; made if it is not there, and whole if this rank runs all of it. */
static gd_status slot_pointer(const gd_run_args *args, const gd_plan *plan, const gd_plan_group *g, int m,
                              int k, char **data)
{
    const gd_array *a = &g->run->p->array[k];
    gd_entry *e = g->array_entry[m * g->run->p->arrays + k];
    const gd_tensor *param = args->params[g->position[m]];
    if (plan->shared) return own_pointer(a, e, param, g->run, m, data);
    gd_status status = e->sharded[a->slot] ? args->optimizer->shared.call->slot_whole(a->owner, e, a->slot)
                                           : GD_OK;
    return status ? status : state_pointer(a, e, param, data);
}

/* Makes missing state; *other is set if some state has new memory. */
static gd_status fill_state(const gd_run_args *args, gd_plan *plan, gd_plan_group *g, bool *other)
{
    const gd_program *p = g->run->p;
    gd_status status = GD_OK;
    for (int u = 0; u < p->uniforms; u++) {
        if (p->uniform[u].kind != GD_U_FRESH) continue;
        int slot = p->uniform[u].index;
        for (int at = u; at < g->members * p->uniforms; at += p->uniforms) {
            const gd_entry *e = g->uniform_entry[at];
            g->run->input[at] = !e->slot[slot] || e->fresh[slot];
        }
    }
    for (int k = 0; k < p->arrays; k++) {
        if (p->array[k].kind != GD_ARRAY_STATE) continue;
        for (int m = 0; m < g->members && !status; m++) {
            int at = m * p->arrays + k;
            char *data = NULL;
            status = slot_pointer(args, plan, g, m, k, &data);
            *other = put_pointer(&g->run->pointer[at], data) || *other;
            plan->fresh = plan->fresh || g->array_entry[at]->fresh[p->array[k].slot];
        }
    }
    return status;
}

/* The same for everything except state. */
static void fill_lists(const gd_run_args *args, gd_plan_group *g, bool *other)
{
    gd_tensor *const *const list_of[] = {[GD_ARRAY_INPUT] = args->input,
                                         [GD_ARRAY_PARAM] = args->params,
                                         [GD_ARRAY_GRAD] = args->grad,
                                         [GD_ARRAY_OUTPUT] = args->output};
    const bool shards_of[] = {[GD_ARRAY_INPUT] = args->shards,
                              [GD_ARRAY_GRAD] = args->shards && args->input_is_grad,
                              [GD_ARRAY_OUTPUT] = args->keeps};
    int arrays = g->run->p->arrays;
    for (int k = 0; k < arrays; k++) {
        const gd_array *a = &g->run->p->array[k];
        gd_tensor *const *list = a->kind == GD_ARRAY_HOLE ? args->hole[a->slot] : list_of[a->kind];
        char **place = g->run->pointer + k;
        for (int m = 0, n = list ? g->members : 0; m < n; m++, place += arrays) {
            char *data = list[g->position[m]]->data;
            if (shards_of[a->kind]) data = where_whole_begins(data, g->run->own_from[m], a->dtype);
            *other |= put_pointer(place, data);
        }
    }
}

static gd_status rewrite(const gd_run_args *args, gd_plan *plan, uint64_t changes, bool inputs)
{
    gd_status status = GD_OK;
    const gd_optimizer *o = args->optimizer;
    bool numbers = !o || plan->numbers != o->numbers, slots = !o || plan->slots != o->slots;
    bool lists = !changes || plan->changes != changes, always = o && o->test.always_look;
    bool moved = false, other = false;
    if (slots) plan->fresh = false;
    if (numbers || slots || lists)
        plan->numbers = plan->slots = plan->changes = 0; /* while half of it is done */
    for (int i = 0; i < plan->set.tables && !status; i++) {
        gd_plan_group *g = &plan->group[i];
        if (numbers) fill_settings(args, plan, g);
        /* the input is one number for all parameters, but they have several */
        if (numbers && o && o->stand_ins) status = gd_error(args->ctx);
        if (!status && (slots || always)) status = fill_state(args, plan, g, &moved);
        if (lists || always) fill_lists(args, g, &other);
        if (!status) status = gd__exec_send(g->run, numbers || slots || inputs);
    }
    if (status || !o) return status;
    if ((moved && !slots) || (other && !lists)) return gd__missed_change(args->ctx);
    plan->numbers = o->numbers;
    plan->slots = o->slots;
    plan->changes = changes;
    return GD_OK;
}

static gd_status refresh(const gd_run_args *args, gd_plan *plan)
{
    const gd_optimizer *o = args->optimizer;
    uint64_t changes = args->leaves ? args->ctx->changes : 0;
    bool same = o && plan->numbers == o->numbers && plan->slots == o->slots && changes &&
                plan->changes == changes && !o->test.always_look;
    bool inputs = fill_step(args, plan);
    return same && !inputs ? GD_OK : rewrite(args, plan, changes, inputs);
}

/* ---- running ---- */

/* Results that are computed in shards and that all ranks get. */
static gd_tensor *const *shared_results(const gd_run_args *args, const gd_plan *plan)
{
    bool update = args->output && (plan->child || args->sink == GD_SINK_UPDATE);
    if (!plan->shared || args->keeps) return NULL;
    return update ? args->output : args->sink == GD_SINK_PARAMS ? args->params : NULL;
}

static gd_status run_set(const gd_run_args *args, gd_plan *plan)
{
    gd_optimizer *o = args->optimizer;
    gd_tensor *const *shared = shared_results(args, plan);
    gd_exec_run run = {.replay = o && o->capture && args->sink == GD_SINK_PARAMS};
    gd_status status = shared ? gd__share_run(o, args->keys, shared, args->count, &plan->set, &run)
                              : gd__execs_run(&plan->set, &run);
    if (run.replayed) o->replays++;
    if (run.not_finite && args->not_finite) *args->not_finite = true;
    return status;
}

/* Slots that were stored are no longer fresh. */
static void settle_slots(gd_plan_group *g)
{
    const gd_program *p = g->run->p;
    for (int k = 0; k < p->arrays; k++) {
        const gd_array *a = &p->array[k];
        if (a->kind != GD_ARRAY_STATE || a->store < 0) continue;
        for (int at = k; at < g->members * p->arrays; at += p->arrays) {
            gd_entry *e = g->array_entry[at];
            if (e->fresh[a->slot]) gd__entry_put(a->owner, e, a->slot, e->slot[a->slot], false);
        }
    }
}

/* Scalars that were stored go into their entries. */
static gd_status settle_scalars(gd_plan_group *g)
{
    const gd_program *p = g->run->p;
    gd_status status = gd__exec_fetch_stored(g->run);
    for (int u = 0; u < p->uniforms && !status; u++) {
        if (p->uniform[u].store < 0) continue;
        for (int at = u; at < g->members * p->uniforms; at += p->uniforms)
            g->uniform_entry[at]->scalar[p->uniform[u].index] = g->run->stored[at];
    }
    return status;
}

static void count_runs(const gd_run_args *args, const gd_plan *plan)
{
    for (int i = 0; i < plan->counts; i++) {
        gd_link *link = plan->counted[i].link;
        link->step++;
        link->unlisted = false;
        if (link->entries > plan->counted[i].served && (link->reads_step || link->cls->update_rule))
            gd__entries_miss(link, args->keys, args->count);
    }
}

static gd_status settle(const gd_run_args *args, gd_plan *plan)
{
    gd_status status = GD_OK;
    for (int i = 0; (plan->fresh || plan->stores) && i < plan->set.tables; i++) {
        if (plan->fresh) settle_slots(&plan->group[i]);
        if (!status && plan->set.table[i].stores_scalars) status = settle_scalars(&plan->group[i]);
    }
    count_runs(args, plan);
    for (int i = 0; args->sink == GD_SINK_PARAMS && i < args->count; i++) gd__touch(args->params[i]);
    return status;
}

/* ---- parameters whose memory is not in the order of their axes ---- */

/* An owned tensor of the same elements in the order of the axes. */
static gd_tensor *ordered(gd_tensor *t)
{
    if (!gd__contiguous(t)) return gd__own_copy(t, t->dtype, t->storage->device);
    gd__retain(t);
    return t;
}

/* Replaces a list by such a list; NULL stays NULL. */
static gd_status in_order(gd_ctx *ctx, gd_tensor *const **list, int count)
{
    if (!*list) return GD_OK;
    gd_tensor **copies = gd__calloc(ctx, (size_t)count * sizeof *copies);
    if (!copies) return GD_NOMEM;
    for (int i = 0; i < count; i++)
        if (!(copies[i] = ordered((*list)[i]))) {
            while (i-- > 0) gd__release(copies[i]);
            gd__free(ctx, copies, (size_t)count * sizeof *copies);
            return gd_error(ctx);
        }
    *list = copies;
    return GD_OK;
}

static gd_status back_again(gd_tensor *const *to, gd_tensor *const *from, int count)
{
    gd_status status = GD_OK;
    for (int i = 0; to && i < count && !status; i++)
        if (to[i] != from[i]) status = gd__copy_into(to[i], from[i]);
    return status;
}

static void end_copies(gd_ctx *ctx, gd_tensor *const *list, gd_tensor *const *of, int count)
{
    if (!list || list == of) return;
    for (int i = 0; i < count; i++) gd__release(list[i]);
    gd__free(ctx, (gd_tensor **)(uintptr_t)list, (size_t)count * sizeof *list);
}

#define MOST_LISTS 16

/* Copies of the arguments in the order of their axes, for programs that need that order; results are copied back. */
typedef struct in_order_run {
    gd_run_args args;
    gd_tensor *const *hole[MOST_LISTS];
} in_order_run;

static gd_status order_lists(const gd_run_args *args, in_order_run *run)
{
    gd_run_args *copy = &run->args;
    int n = args->count, holes = args->holes;
    *copy = *args;
    copy->leaves = false;
    copy->hole = run->hole;
    if (holes > MOST_LISTS)
        return gd_fail(args->ctx, GD_INTERNAL, "a rule has %d children that are no rules", holes);
    for (int i = 0; i < holes; i++) run->hole[i] = args->hole[i];
    gd_status status = in_order(args->ctx, &copy->params, n);
    if (!status) status = in_order(args->ctx, &copy->input, n);
    if (!status && args->grad == args->input)
        copy->grad = copy->input;
    else if (!status)
        status = in_order(args->ctx, &copy->grad, n);
    if (!status) status = in_order(args->ctx, &copy->output, n);
    for (int i = 0; i < holes && !status; i++) status = in_order(args->ctx, &run->hole[i], n);
    return status;
}

/* Ends the copies; on success copies the results back. */
static gd_status put_back(const gd_run_args *args, in_order_run *run, gd_status status)
{
    gd_run_args *copy = &run->args;
    int n = args->count;
    if (!status) status = back_again(args->output, copy->output, n);
    if (!status && args->sink == GD_SINK_PARAMS) {
        status = back_again(args->params, copy->params, n);
        for (int i = 0; i < n; i++) gd__touch(args->params[i]);
    }
    for (int i = 0; i < args->holes && i < MOST_LISTS; i++)
        end_copies(args->ctx, run->hole[i], args->hole[i], n);
    if (copy->grad != copy->input) end_copies(args->ctx, copy->grad, args->grad, n);
    end_copies(args->ctx, copy->input, args->input, n);
    end_copies(args->ctx, copy->output, args->output, n);
    end_copies(args->ctx, copy->params, args->params, n);
    return status;
}

gd_status gd__run_rules(const gd_run_args *args, gd_link **child)
{
    if (child) *child = NULL;
    if (args->count == 0) return GD_OK;
    gd_ctx *ctx = args->ctx;
    gd_plan *plan = gd__plan_for(args);
    if (!plan) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    gd_status status = GD_OK;
    if (plan->child && !child)
        status = gd_fail(ctx, GD_INTERNAL, "a rule meets the child '%s', which is no rule",
                         plan->child->cls->name);
    if ((args->shards || args->keeps) && !plan->shared && !status)
        status = gd_fail(ctx, GD_INTERNAL, "a plan that every rank runs whole is given shards of tensors");
    in_order_run other;
    const gd_run_args *run = args;
    if (plan->in_order && !status) {
        status = order_lists(args, &other);
        run = &other.args;
    }
    if (!status) status = refresh(run, plan);
    if (!status) status = run_set(run, plan);
    if (!status && plan->child)
        *child = plan->child;
    else if (!status)
        status = settle(run, plan);
    if (run != args) status = put_back(args, &other, status);
    if (!args->optimizer) gd__plans_free(ctx, plan);
    return status;
}
