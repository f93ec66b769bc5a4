/* Plans: how pending rules run over all parameters, one pass over memory for each level of their program.
 *
 *   plan --> group: parameters whose programs are equal (dtype, device, structural settings)
 *              |--> members: the parameters, each with its entries in the links' state
 *              |--> run:     the program over them, see execute.h
 *
 * A plan is made once and kept by the optimizer; a step only refreshes pointers and scalars (run.c). */
#include "optim/plan/plan.h"
#include "tensor/elementwise.h"

#include <string.h>

#define MOST_KEPT 16 /* plans of an optimizer */

/* ---- freeing ---- */

static void group_free(gd_ctx *ctx, gd_plan_group *g)
{
    size_t members = (size_t)g->members, arrays = (size_t)g->run->p->arrays;
    size_t uniforms = (size_t)g->run->p->uniforms;
    gd__free(ctx, g->position, members * sizeof *g->position);
    gd__free(ctx, g->array_entry, members * arrays * sizeof *g->array_entry);
    gd__free(ctx, g->uniform_entry, members * uniforms * sizeof *g->uniform_entry);
}

static void plan_free(gd_ctx *ctx, gd_plan *plan)
{
    size_t count = (size_t)plan->count;
    for (int i = 0; i < plan->set.tables; i++) group_free(ctx, &plan->group[i]);
    gd__execs_free(&plan->set);
    gd__free(ctx, plan->group, count * sizeof *plan->group);
    gd__free(ctx, plan->params, count * sizeof *plan->params);
    gd__free(ctx, plan->every_run, (size_t)plan->run_room * sizeof *plan->every_run);
    gd__free(ctx, plan->counted, (size_t)plan->counts * sizeof *plan->counted);
    gd__free(ctx, plan->set.table, count * sizeof *plan->set.table);
    gd__free(ctx, plan->set.table_of, count * sizeof *plan->set.table_of);
    gd__free(ctx, plan->set.member_of, count * sizeof *plan->set.member_of);
    gd__free(ctx, plan, sizeof *plan);
}

void gd__plans_free(gd_ctx *ctx, gd_plan *plans)
{
    while (plans) {
        gd_plan *next = plans->next;
        plan_free(ctx, plans);
        plans = next;
    }
}

/* ---- sorting parameters into groups ---- */

static bool same_instr(const gd_instr *a, const gd_instr *b)
{
    return a->op == b->op && a->uniform == b->uniform && a->level == b->level && a->extent == b->extent &&
           a->a == b->a && a->b == b->b && a->c == b->c && a->index == b->index && a->along == b->along &&
           a->place == b->place && !memcmp(&a->imm, &b->imm, sizeof a->imm);
}

static bool same_array(const gd_array *a, const gd_array *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->owner == b->owner && a->slot == b->slot &&
           a->store == b->store && a->along == b->along && a->without == b->without &&
           a->positive == b->positive && a->by_chance == b->by_chance && a->chance == b->chance &&
           a->second == b->second && a->rest == b->rest && a->rest_of == b->rest_of;
}

static bool same_uniform(const gd_uniform *a, const gd_uniform *b)
{
    return a->kind == b->kind && a->owner == b->owner && a->index == b->index && a->store == b->store;
}

static bool same_program(const gd_program *a, const gd_program *b)
{
    bool same = a->compute == b->compute && a->count == b->count && a->arrays == b->arrays &&
                a->uniforms == b->uniforms && a->reductions == b->reductions && a->axes == b->axes &&
                a->full == b->full && (!a->axes || !memcmp(a->axis_of, b->axis_of, sizeof a->axis_of));
    for (int i = 0; same && i < a->count; i++) same = same_instr(&a->instr[i], &b->instr[i]);
    for (int i = 0; same && i < a->arrays; i++) same = same_array(&a->array[i], &b->array[i]);
    for (int i = 0; same && i < a->uniforms; i++) same = same_uniform(&a->uniform[i], &b->uniform[i]);
    return same;
}

static gd_program *program_for(const gd_run_args *args, int i, gd_link **child, bool *shaped, bool *parted)
{
    gd_dtype input = args->input[i]->dtype;
    gd_build build = {.ctx = args->ctx,
                      .optimizer = args->optimizer,
                      .pending = args->pending,
                      .pendings = args->pendings,
                      .param = args->params[i],
                      .key = args->keys[i],
                      .input_dtype = input,
                      .grad_dtype = args->grad ? args->grad[i]->dtype : input,
                      .holes = args->holes,
                      .input_is_grad = args->input_is_grad,
                      .has_grad = args->grad != NULL,
                      .has_loss = args->has_loss,
                      .sink = args->sink};
    gd_program *p = gd__build(&build);
    *child = build.child;
    *shaped = build.shaped;
    *parted = build.parted;
    return p;
}

static int group_number(const gd_run_args *args, int i)
{
    const gd_optimizer *o = args->optimizer;
    int index = o ? gd__param_index(o, gd__param_behind(o, args->keys[i])) : -1;
    return index < 0 ? -1 : o->param[index].group;
}

/* Two parameters that surely have the same program: nothing about them shapes it differently. */
static bool alike(const gd_run_args *args, int i, int j)
{
    const gd_tensor *a = args->params[i], *b = args->params[j];
    return a->dtype == b->dtype && args->input[i]->dtype == args->input[j]->dtype &&
           a->storage->device == b->storage->device &&
           (!args->grad || args->grad[i]->dtype == args->grad[j]->dtype) &&
           group_number(args, i) == group_number(args, j);
}

static gd_status add_to_group(const gd_run_args *args, gd_plan *plan, int i, bool *shaped, bool *parted)
{
    gd_link *child;
    gd_program *p = program_for(args, i, &child, shaped, parted);
    if (!p) return gd_error(args->ctx);
    if (i > 0 && child != plan->child) {
        gd__program_free(p);
        return gd_fail(args->ctx, GD_NOT_IMPLEMENTED,
                       "%s: parameters whose settings call different children, which are not element-wise",
                       args->pending[0].link->cls->name);
    }
    plan->child = child;
    gd_device *device = args->params[i]->storage->device;
    gd_exec_set *set = &plan->set;
    int k = 0;
    while (k < set->tables && !(set->table[k].device == device && same_program(set->table[k].p, p))) k++;
    if (k == set->tables) {
        set->table[k] = (gd_exec){.p = p, .device = device};
        plan->group[k] = (gd_plan_group){.run = &set->table[k]};
        set->tables++;
    } else
        gd__program_free(p);
    set->table_of[i] = k;
    return GD_OK;
}

static gd_status sort_members(const gd_run_args *args, gd_plan *plan)
{
    /* the last program depends on the shape it was built for; on the parameter itself */
    bool local = false, shaped = false, parted = false;
    for (int i = 0; i < args->pendings; i++) local = local || gd__any_local(args->pending[i].link);
    gd_status status = GD_OK;
    for (int i = 0; i < args->count && !status; i++) {
        if (i > 0 && !local && !parted && alike(args, i - 1, i) &&
            (!shaped || (gd__same_shape(args->params[i - 1], args->params[i]) &&
                         gd__same_axes(args->params[i - 1], args->params[i]))))
            plan->set.table_of[i] = plan->set.table_of[i - 1];
        else
            status = add_to_group(args, plan, i, &shaped, &parted);
        if (!status) plan->set.member_of[i] = plan->group[plan->set.table_of[i]].members++;
    }
    return status;
}

/* ---- a group ---- */

static gd_status place_members(const gd_run_args *args, const gd_plan *plan, int number)
{
    gd_plan_group *g = &plan->group[number];
    g->position = gd__alloc_array(args->ctx, (size_t)g->members, sizeof *g->position);
    if (!g->position) return GD_NOMEM;
    for (int i = 0; i < args->count; i++) {
        if (plan->set.table_of[i] != number) continue;
        g->position[plan->set.member_of[i]] = i;
        g->numel += args->params[i]->numel;
    }
    return GD_OK;
}

/* Lists the links whose step count a run of this link, which is fusable, raises. */
static gd_status list_counted(gd_plan *plan, gd_link *link, gd_mode mode)
{
    bool chain = gd__is_chain(link);
    gd_status status = GD_OK;
    if (!chain && (mode == GD_MODE_STEP || (mode == GD_MODE_UPDATE) == (link->cls->update_rule != NULL))) {
        size_t n = (size_t)plan->counts, size = sizeof *plan->counted;
        gd_counted *list = gd__realloc(plan->set.ctx, plan->counted, n * size, (n + 1) * size);
        if (!list) return GD_NOMEM;
        plan->counted = list;
        list[plan->counts++] = (gd_counted){.link = link};
    }
    if (!chain && mode == GD_MODE_UPDATE) return GD_OK; /* the rule that runs the children does not run */
    for (int i = 0; i < link->children && !status; i++)
        if (gd__fusable(link->child[i]))
            status = list_counted(plan, link->child[i], chain ? mode : GD_MODE_STEP);
    return status;
}

/* Step counts of these links are one ahead of them while the run is under way. */
static bool is_counted(const gd_plan *plan, const gd_uniform *f)
{
    for (int i = 0; i < plan->counts; i++)
        if ((f->kind == GD_U_STEP || f->kind == GD_U_DRAW) && f->owner == plan->counted[i].link) return true;
    return false;
}

/* The entries in links' state that members' arrays and scalars live in. */
static gd_status bind_member(gd_plan_group *g, int m, gd_tensor *key)
{
    const gd_program *p = g->run->p;
    for (int k = 0; k < p->arrays; k++) {
        if (p->array[k].kind != GD_ARRAY_STATE) continue;
        gd_entry *e = gd__entry(p->array[k].owner, key);
        if (!e) return GD_NOMEM;
        g->array_entry[m * p->arrays + k] = e;
    }
    for (int u = 0; u < p->uniforms; u++) {
        const gd_uniform *f = &p->uniform[u];
        if (f->kind != GD_U_FRESH && f->kind != GD_U_SCALAR && f->kind != GD_U_STEP) continue;
        gd_entry *e = gd__entry(f->owner, key);
        if (!e) return GD_NOMEM;
        g->uniform_entry[m * p->uniforms + u] = e;
    }
    return GD_OK;
}

static gd_status bind_entries(gd_ctx *ctx, gd_plan_group *g)
{
    size_t members = (size_t)g->members, uniforms = (size_t)g->run->p->uniforms;
    g->array_entry = gd__calloc(ctx, members * (size_t)g->run->p->arrays * sizeof *g->array_entry);
    g->uniform_entry = gd__calloc(ctx, members * uniforms * sizeof *g->uniform_entry);
    return g->array_entry && g->uniform_entry ? GD_OK : GD_NOMEM;
}

/* The members of a group that every run fills. */
static gd_status list_run_inputs(gd_plan *plan, gd_plan_group *g)
{
    const gd_program *p = g->run->p;
    for (int u = 0; u < p->uniforms; u++) {
        const gd_uniform *f = &p->uniform[u];
        if (!gd__changes_each_run(f->kind)) continue;
        if (!gd__reserve(p->ctx, &plan->every_run, plan->every_runs, &plan->run_room,
                         sizeof *plan->every_run))
            return GD_NOMEM;
        plan->every_run[plan->every_runs++] = (gd_run_input){.group = g,
                                                             .owner = f->owner,
                                                             .kind = f->kind,
                                                             .uniform = u,
                                                             .index = f->index,
                                                             .ahead = is_counted(plan, f)};
    }
    return GD_OK;
}

/* The elements of the members that this rank runs. */
static gd_status own_members(const gd_run_args *args, gd_plan_group *g)
{
    gd_exec *x = g->run;
    x->own_from = gd__alloc_array(args->ctx, (size_t)g->members, sizeof *x->own_from);
    x->own_to = gd__alloc_array(args->ctx, (size_t)g->members, sizeof *x->own_to);
    if (!x->own_from || !x->own_to) return GD_NOMEM;
    for (int m = 0; m < g->members; m++)
        (void)gd__share_of(args->optimizer, args->keys[g->position[m]], &x->own_from[m], &x->own_to[m]);
    x->share = &args->optimizer->shared.share->exec;
    return GD_OK;
}

static gd_status prepare_group(const gd_run_args *args, gd_plan *plan, gd_plan_group *g)
{
    int axes = g->run->p->axes;
    int64_t *numel = gd__alloc_array(args->ctx, (size_t)g->members, sizeof *numel), *size = NULL;
    if (axes) size = gd__alloc_array(args->ctx, (size_t)(g->members * axes), sizeof *size);
    for (int m = 0; m < g->members && numel; m++) {
        const gd_tensor *t = args->params[g->position[m]];
        numel[m] = t->numel;
        if (size) gd__program_sizes(g->run->p, t->ndim, t->size, size + m * axes);
    }
    gd_status status = numel && (size || !axes) ? gd__exec_members(g->run, g->members, numel, size)
                                                : GD_NOMEM;
    if (!status && plan->shared) status = own_members(args, g);
    if (!g->run->numel) gd__free(args->ctx, numel, (size_t)g->members * sizeof *numel);
    if (!g->run->numel) gd__free(args->ctx, size, (size_t)(g->members * axes) * sizeof *size);
    if (!status) status = bind_entries(args->ctx, g);
    return status ? status : list_run_inputs(plan, g);
}

/* ---- a plan ---- */

static gd_param_signature signature(const gd_run_args *args, int i)
{
    const gd_tensor *p = args->params[i];
    return (gd_param_signature){.param = p,
                                .key = args->keys[i],
                                .numel = p->numel,
                                .device = p->storage->device,
                                .dtypes = (int)p->dtype | (int)args->input[i]->dtype << 8 |
                                          (int)(args->grad ? args->grad[i]->dtype : 0) << 16 |
                                          (int)gd__contiguous(p) << 24};
}

/* Does the result for an element depend on the element's position? */
static bool tells_places(const gd_program *p)
{
    bool tells = p->axes > 0;
    for (int k = 0; k < p->arrays && !tells; k++)
        tells = p->array[k].kind == GD_ARRAY_RANDOM || p->array[k].by_chance;
    return tells;
}

static bool must_be_in_order(const gd_run_args *args, const gd_plan *plan)
{
    bool must = false;
    for (int i = 0; i < args->count && !must; i++)
        must = !gd__contiguous(args->params[i]) && tells_places(plan->set.table[plan->set.table_of[i]].p);
    return must;
}

/* Can ranks run a shard of each? All ranks run lists on several devices, and stand-ins. */
static bool is_shared(const gd_run_args *args, const gd_plan *plan)
{
    const gd_optimizer *o = args->optimizer;
    bool shared = gd__shares_state(o);
    int64_t from, to;
    for (int i = 0; i < args->count && shared; i++) {
        const gd_exec *x = &plan->set.table[plan->set.table_of[i]];
        const gd_tensor *t = args->params[i];
        shared = x->device == plan->set.table[0].device && gd__share_of(o, args->keys[i], &from, &to) &&
                 gd__same_shape(args->keys[i], t) &&
                 ((!x->p->axes && gd__contiguous(t)) || gd__share_owner(o, args->keys[i]) >= 0);
    }
    return shared;
}

static gd_status fill_plan(const gd_run_args *args, gd_plan *plan)
{
    gd_ctx *ctx = args->ctx;
    size_t count = (size_t)args->count;
    gd_exec_set *set = &plan->set;
    set->table = gd__calloc(ctx, count * sizeof *set->table);
    set->table_of = gd__calloc(ctx, count * sizeof *set->table_of);
    set->member_of = gd__calloc(ctx, count * sizeof *set->member_of);
    plan->params = gd__calloc(ctx, count * sizeof *plan->params);
    plan->group = gd__calloc(ctx, count * sizeof *plan->group);
    if (!set->table || !set->table_of || !set->member_of || !plan->params || !plan->group) return GD_NOMEM;
    for (int i = 0; i < args->count; i++) plan->params[i] = signature(args, i);
    gd_status status = sort_members(args, plan);
    if (!status) plan->in_order = must_be_in_order(args, plan);
    plan->shared = !status && is_shared(args, plan);
    if (!status) gd__execs_align(set);
    for (int i = 0; i < args->pendings && !status; i++)
        status = list_counted(plan, args->pending[i].link, args->pending[i].mode);
    bool interpret = args->optimizer && args->optimizer->test.interpret;
    for (int g = 0; g < set->tables && !status; g++) {
        status = place_members(args, plan, g);
        if (!status) status = gd__exec_passes(&set->table[g], interpret);
    }
    return status;
}

gd_plan *gd__plan_look(const gd_run_args *args)
{
    gd_plan *plan = gd__calloc(args->ctx, sizeof *plan);
    if (!plan) return NULL;
    plan->count = args->count;
    plan->set.ctx = args->ctx;
    plan->set.count = args->count;
    plan->pendings = args->pendings;
    plan->holes = args->holes;
    plan->sink = args->sink;
    plan->input_is_grad = args->input_is_grad;
    plan->structure = args->optimizer ? args->optimizer->structure : 0;
    if (args->pendings) memcpy(plan->pending, args->pending, (size_t)args->pendings * sizeof *plan->pending);
    if (fill_plan(args, plan) == GD_OK) return plan;
    plan_free(args->ctx, plan);
    return NULL;
}

/* Which parameters count a step of the links. A rule in two halves counts in the first, although perhaps only the second reads the
 * count: its parameters are noted before. */
static gd_status serve(const gd_run_args *args, gd_plan *plan)
{
    for (int i = 0; i < plan->counts; i++) {
        gd_counted *c = &plan->counted[i];
        for (int k = 0; k < args->count; k++) {
            gd_tensor *key = args->keys[k];
            bool noted = c->link->cls->update_rule ? gd__entry(c->link, key) != NULL
                                                   : gd__entry_find(c->link, key) != NULL;
            if (!noted && c->link->cls->update_rule) return GD_NOMEM;
            c->served += noted;
        }
    }
    return GD_OK;
}

static gd_plan *plan_new(const gd_run_args *args)
{
    gd_plan *plan = gd__plan_look(args);
    gd_status status = plan ? GD_OK : GD_NOMEM;
    for (int g = 0; !status && g < plan->set.tables; g++) {
        status = prepare_group(args, plan, &plan->group[g]);
        plan->stores = plan->stores || plan->set.table[g].stores_scalars;
    }
    /* in the order of parameters: the grouping does not affect the links */
    for (int i = 0; !status && i < args->count; i++)
        status = bind_member(&plan->group[plan->set.table_of[i]], plan->set.member_of[i], args->keys[i]);
    if (!status) status = serve(args, plan);
    if (!status) status = gd__execs_join(&plan->set);
    if (!status) return plan;
    if (plan) plan_free(args->ctx, plan);
    return NULL;
}

static inline bool fits(const gd_plan *plan, const gd_run_args *args)
{
    if (plan->count != args->count || plan->pendings != args->pendings || plan->holes != args->holes ||
        plan->sink != args->sink || plan->input_is_grad != args->input_is_grad ||
        plan->structure != args->optimizer->structure)
        return false;
    for (int i = 0; i < args->pendings; i++)
        if (plan->pending[i].link != args->pending[i].link || plan->pending[i].mode != args->pending[i].mode)
            return false;
    if (args->leaves && plan->form == args->optimizer->form) return true;
    for (int i = 0; i < args->count; i++) {
        gd_param_signature s = signature(args, i), *t = &plan->params[i];
        if (s.param != t->param || s.key != t->key || s.numel != t->numel || s.device != t->device ||
            s.dtypes != t->dtypes)
            return false;
    }
    return true;
}

/* Drops plans that can never fit again, and the longest unused ones of too many. */
static void tidy(gd_optimizer *o)
{
    int kept = 0;
    for (gd_plan **at = &o->plans; *at;) {
        gd_plan *plan = *at;
        if (plan->structure == o->structure && kept++ < MOST_KEPT - 1) {
            at = &plan->next;
            continue;
        }
        *at = plan->next;
        plan_free(o->ctx, plan);
    }
}

/* Moves the plan to the front of the list. */
static __attribute__((noinline)) gd_plan *other_plan(const gd_run_args *args)
{
    gd_optimizer *o = args->optimizer;
    gd_plan **at = &o->plans, *plan;
    while (*at && !fits(*at, args)) at = &(*at)->next;
    if ((plan = *at))
        *at = plan->next;
    else if ((plan = plan_new(args)))
        tidy(o);
    else
        return NULL;
    plan->next = o->plans;
    return o->plans = plan;
}

gd_plan *gd__plan_for(const gd_run_args *args)
{
    gd_optimizer *o = args->optimizer;
    if (!o) return plan_new(args);
    gd_plan *plan = o->plans && fits(o->plans, args) ? o->plans : other_plan(args);
    if (plan && args->leaves) plan->form = o->form;
    return plan;
}
