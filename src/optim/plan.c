/* Plans: how pending rules run over all parameters, one pass over memory for each level of their program.
 *
 *   plan --> group: parameters whose programs are equal (dtype, device, structural settings)
 *              |--> members: the parameters, each with its entries in the links' state
 *              |--> passes:  a kernel each, or the interpreter
 *              |--> chunks:  fixed pieces of members; tasks: runs of chunks worth a thread's while
 *
 * A plan is made once and kept by the optimizer; a step only refreshes pointers and scalars (run.c). */
#include "optim/plan.h"
#include "tensor/device.h"

#include <string.h>

#define CHUNK         16384 /* elements of a piece in the last pass */
#define SUM_CHUNK     4096  /* and in a pass that reduces */
#define GPU_CHUNK     4096  /* on a GPU, where many blocks at once make up for small pieces */
#define GPU_SUM_CHUNK 8192
#define TASK          32768 /* elements worth a thread */
#define MOST_KEPT     16    /* plans of an optimizer */

/* ---- freeing ---- */

static void work_free(gd_ctx *ctx, gd_work *w)
{
    gd__free(ctx, w->chunk, (size_t)w->chunks * sizeof *w->chunk);
    gd__free(ctx, w->task, (size_t)(w->chunks + 1) * sizeof *w->task);
}

static void group_free(gd_ctx *ctx, gd_plan_group *g)
{
    size_t members = (size_t)g->members, arrays = (size_t)g->p->arrays, uniforms = (size_t)g->p->uniforms;
    size_t passes = (size_t)g->p->levels + 1, reductions = (size_t)g->p->reductions;
    gd__gpu_free(g);
    work_free(ctx, &g->last);
    work_free(ctx, &g->reduce);
    gd__free(ctx, g->position, members * sizeof *g->position);
    gd__free(ctx, g->array_entry, members * arrays * sizeof *g->array_entry);
    gd__free(ctx, g->uniform_entry, members * uniforms * sizeof *g->uniform_entry);
    gd__free(ctx, g->ahead, uniforms * sizeof *g->ahead);
    gd__free(ctx, g->pass, passes * sizeof *g->pass);
    gd__free(ctx, g->kernel, passes * sizeof *g->kernel);
    gd__free(ctx, g->how, passes * sizeof *g->how);
    gd__free(ctx, g->pointer, members * arrays * sizeof *g->pointer);
    gd__free(ctx, g->input, members * uniforms * sizeof *g->input);
    gd__free(ctx, g->reduced, members * reductions * sizeof *g->reduced);
    gd__free(ctx, g->scalar, members * (size_t)g->scalar_room * sizeof *g->scalar);
    gd__free(ctx, g->stored, members * uniforms * sizeof *g->stored);
    gd__free(ctx, g->value, (size_t)g->p->count * sizeof *g->value);
    gd__free(ctx, g->partial, (size_t)g->partial_room * sizeof *g->partial);
    gd__program_free(g->p);
}

static void plan_free(gd_ctx *ctx, gd_plan *plan)
{
    size_t count = (size_t)plan->count;
    if (plan->graph) plan->gpu->backend->forget(plan->gpu, plan->graph);
    gd__gpu_list_free(ctx, &plan->list);
    for (int i = 0; i < plan->groups; i++) group_free(ctx, &plan->group[i]);
    gd__free(ctx, plan->group, count * sizeof *plan->group);
    gd__free(ctx, plan->params, count * sizeof *plan->params);
    gd__free(ctx, plan->group_of, count * sizeof *plan->group_of);
    gd__free(ctx, plan->member_of, count * sizeof *plan->member_of);
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
           a->a == b->a && a->b == b->b && a->c == b->c && a->index == b->index &&
           !memcmp(&a->imm, &b->imm, sizeof a->imm);
}

static bool same_array(const gd_array *a, const gd_array *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->link == b->link && a->slot == b->slot &&
           a->store == b->store;
}

static bool same_uniform(const gd_uniform *a, const gd_uniform *b)
{
    return a->kind == b->kind && a->link == b->link && a->index == b->index && a->store == b->store;
}

static bool same_program(const gd_program *a, const gd_program *b)
{
    bool same = a->compute == b->compute && a->count == b->count && a->arrays == b->arrays &&
                a->uniforms == b->uniforms && a->reductions == b->reductions;
    for (int i = 0; same && i < a->count; i++) same = same_instr(&a->instr[i], &b->instr[i]);
    for (int i = 0; same && i < a->arrays; i++) same = same_array(&a->array[i], &b->array[i]);
    for (int i = 0; same && i < a->uniforms; i++) same = same_uniform(&a->uniform[i], &b->uniform[i]);
    return same;
}

static gd_program *program_for(const gd_run_args *args, int i, gd_link **child)
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
                      .sink = args->sink};
    gd_program *p = gd__build(&build);
    *child = build.child;
    return p;
}

static bool have_local(const gd_link *link)
{
    if (link->locals) return true;
    for (int i = 0; i < link->children; i++)
        if (have_local(link->child[i])) return true;
    return false;
}

static int group_number(const gd_run_args *args, int i)
{
    int index = args->optimizer ? gd__param_index(args->optimizer, args->keys[i]) : -1;
    return index < 0 ? -1 : args->optimizer->param[index].group;
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

static gd_status add_to_group(const gd_run_args *args, gd_plan *plan, int i)
{
    gd_link *child;
    gd_program *p = program_for(args, i, &child);
    if (!p) return gd_error(args->ctx);
    if (i > 0 && child != plan->child) {
        gd__program_free(p);
        return gd_fail(args->ctx, GD_NOT_IMPLEMENTED,
                       "%s: parameters whose settings call different children, which are not element-wise",
                       args->pending[0].link->cls->name);
    }
    plan->child = child;
    gd_device *device = args->params[i]->storage->device;
    int g = 0;
    while (g < plan->groups && !(plan->group[g].device == device && same_program(plan->group[g].p, p))) g++;
    if (g == plan->groups)
        plan->group[plan->groups++] = (gd_plan_group){.p = p, .device = device};
    else
        gd__program_free(p);
    plan->group_of[i] = g;
    return GD_OK;
}

static gd_status sort_members(const gd_run_args *args, gd_plan *plan)
{
    bool local = false;
    for (int i = 0; i < args->pendings; i++) local = local || have_local(args->pending[i].link);
    gd_status status = GD_OK;
    for (int i = 0; i < args->count && !status; i++) {
        if (i > 0 && !local && alike(args, i - 1, i))
            plan->group_of[i] = plan->group_of[i - 1];
        else
            status = add_to_group(args, plan, i);
        if (!status) plan->member_of[i] = plan->group[plan->group_of[i]].members++;
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
        if (plan->group_of[i] != number) continue;
        g->position[plan->member_of[i]] = i;
        g->numel += args->params[i]->numel;
    }
    return GD_OK;
}

static gd_status make_passes(const gd_run_args *args, gd_plan_group *g)
{
    gd_ctx *ctx = args->ctx;
    size_t passes = (size_t)g->p->levels + 1;
    g->pass = gd__calloc(ctx, passes * sizeof *g->pass);
    g->kernel = gd__calloc(ctx, passes * sizeof *g->kernel);
    g->how = gd__calloc(ctx, passes * sizeof *g->how);
    if (!g->pass || !g->kernel || !g->how) return GD_NOMEM;
    bool interpret = args->optimizer && args->optimizer->interpret;
    for (int i = 0; i <= g->p->levels; i++) {
        gd__program_pass(g->p, i, &g->pass[i]);
        g->how[i] = GD_EXEC_INTERPRETER;
        if (!interpret && g->device == ctx->cpu)
            g->kernel[i] = gd__kernel_for(ctx, g->p, &g->pass[i], &g->how[i]);
    }
    return GD_OK;
}

/* Cuts members into chunks and collects small ones into tasks. */
static gd_status make_work(const gd_run_args *args, const gd_plan_group *g, int64_t size, gd_work *w)
{
    gd_ctx *ctx = args->ctx;
    for (int m = 0; m < g->members; m++) w->chunks += (args->params[g->position[m]]->numel + size - 1) / size;
    w->chunk = gd__alloc_array(ctx, (size_t)w->chunks, sizeof *w->chunk);
    w->task = gd__alloc_array(ctx, (size_t)w->chunks + 1, sizeof *w->task);
    if (!w->chunk || !w->task) return GD_NOMEM;
    int64_t at = 0, filled = TASK;
    for (int m = 0; m < g->members; m++) {
        int64_t numel = args->params[g->position[m]]->numel;
        for (int64_t start = 0; start < numel; start += size) {
            int64_t n = numel - start < size ? numel - start : size;
            if (filled >= TASK) {
                w->task[w->tasks++] = at;
                filled = 0;
            }
            filled += n;
            w->chunk[at++] = (gd_chunk){.start = start, .n = n, .member = m};
        }
    }
    w->task[w->tasks] = at;
    return GD_OK;
}

static gd_status make_rooms(gd_ctx *ctx, gd_plan_group *g)
{
    size_t members = (size_t)g->members, arrays = (size_t)g->p->arrays, uniforms = (size_t)g->p->uniforms;
    size_t passes = (size_t)g->p->levels + 1, reductions = (size_t)g->p->reductions;
    for (size_t i = 0; i < passes; i++)
        if (g->pass[i].used_count > g->scalar_room) g->scalar_room = g->pass[i].used_count;
    g->partial_room = g->reduce.chunks * (int64_t)reductions;
    g->array_entry = gd__calloc(ctx, members * arrays * sizeof *g->array_entry);
    g->uniform_entry = gd__calloc(ctx, members * uniforms * sizeof *g->uniform_entry);
    g->ahead = gd__calloc(ctx, uniforms * sizeof *g->ahead);
    g->pointer = gd__calloc(ctx, members * arrays * sizeof *g->pointer);
    g->input = gd__calloc(ctx, members * uniforms * sizeof *g->input);
    g->reduced = gd__calloc(ctx, members * reductions * sizeof *g->reduced);
    g->scalar = gd__calloc(ctx, members * (size_t)g->scalar_room * sizeof *g->scalar);
    g->stored = gd__calloc(ctx, members * uniforms * sizeof *g->stored);
    g->value = gd__calloc(ctx, (size_t)g->p->count * sizeof *g->value);
    g->partial = gd__calloc(ctx, (size_t)g->partial_room * sizeof *g->partial);
    bool all = g->array_entry && g->uniform_entry && g->ahead && g->pointer && g->input && g->reduced &&
               g->scalar && g->stored && g->value && g->partial;
    return all ? GD_OK : GD_NOMEM;
}

/* Is the step count of a link raised by a run? */
static bool counts(const gd_link *at, gd_mode mode, const gd_link *link)
{
    bool chain = gd__is_chain(at);
    if (at == link) return mode == GD_MODE_STEP || (mode == GD_MODE_UPDATE) == (at->cls->update_rule != NULL);
    if (!chain && mode == GD_MODE_UPDATE) return false; /* the rule, which runs the children, does not run */
    for (int i = 0; i < at->children; i++)
        if (counts(at->child[i], chain ? mode : GD_MODE_STEP, link)) return true;
    return false;
}

/* The entries in links' state that members' arrays and scalars live in. */
static gd_status bind_entries(const gd_run_args *args, gd_plan_group *g)
{
    for (int m = 0; m < g->members; m++) {
        gd_tensor *key = args->keys[g->position[m]];
        for (int k = 0; k < g->p->arrays; k++) {
            const gd_array *a = &g->p->array[k];
            if (a->kind != GD_ARRAY_STATE) continue;
            gd_entry *e = gd__entry(a->link, key);
            if (!e) return GD_NOMEM;
            g->array_entry[m * g->p->arrays + k] = e;
        }
        for (int u = 0; u < g->p->uniforms; u++) {
            const gd_uniform *f = &g->p->uniform[u];
            if (f->kind != GD_U_FRESH && f->kind != GD_U_SCALAR) continue;
            gd_entry *e = gd__entry(f->link, key);
            if (!e) return GD_NOMEM;
            g->uniform_entry[m * g->p->uniforms + u] = e;
        }
    }
    for (int u = 0; u < g->p->uniforms; u++) {
        const gd_uniform *f = &g->p->uniform[u];
        for (int i = 0; i < args->pendings && f->kind == GD_U_STEP; i++)
            if (counts(args->pending[i].link, args->pending[i].mode, f->link)) g->ahead[u] = true;
    }
    return GD_OK;
}

static gd_status prepare_group(const gd_run_args *args, gd_plan_group *g)
{
    bool gpu = g->device != args->ctx->cpu;
    gd_status status = make_work(args, g, gpu ? GPU_CHUNK : CHUNK, &g->last);
    if (!status && g->p->levels) status = make_work(args, g, gpu ? GPU_SUM_CHUNK : SUM_CHUNK, &g->reduce);
    if (!status) status = make_rooms(args->ctx, g);
    return status ? status : bind_entries(args, g);
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
                                          (int)(args->grad ? args->grad[i]->dtype : 0) << 16};
}

static gd_status fill_plan(const gd_run_args *args, gd_plan *plan)
{
    gd_ctx *ctx = args->ctx;
    size_t count = (size_t)args->count;
    plan->group_of = gd__calloc(ctx, count * sizeof *plan->group_of);
    plan->member_of = gd__calloc(ctx, count * sizeof *plan->member_of);
    plan->params = gd__calloc(ctx, count * sizeof *plan->params);
    plan->group = gd__calloc(ctx, count * sizeof *plan->group);
    if (!plan->group_of || !plan->member_of || !plan->params || !plan->group) return GD_NOMEM;
    for (int i = 0; i < args->count; i++) plan->params[i] = signature(args, i);
    gd_status status = sort_members(args, plan);
    for (int g = 0; g < plan->groups && !status; g++) {
        status = place_members(args, plan, g);
        if (!status) status = make_passes(args, &plan->group[g]);
    }
    return status;
}

gd_plan *gd__plan_look(const gd_run_args *args)
{
    gd_plan *plan = gd__calloc(args->ctx, sizeof *plan);
    if (!plan) return NULL;
    plan->count = args->count;
    plan->pendings = args->pendings;
    plan->holes = args->holes;
    plan->sink = args->sink;
    plan->input_is_grad = args->input_is_grad;
    plan->stamp = args->optimizer ? args->optimizer->stamp : 0;
    plan->numbers = UINT64_MAX;
    if (args->pendings) memcpy(plan->pending, args->pending, (size_t)args->pendings * sizeof *plan->pending);
    if (fill_plan(args, plan) == GD_OK) return plan;
    plan_free(args->ctx, plan);
    return NULL;
}

/* The GPU that all groups are on, if it can join their norms. */
static gd_device *only_gpu(const gd_ctx *ctx, const gd_plan *plan)
{
    gd_device *device = plan->group[0].device;
    bool only = device != ctx->cpu && plan->groups <= GD_GPU_GROUPS;
    for (int g = 1; g < plan->groups && only; g++) only = plan->group[g].device == device;
    return only ? device : NULL;
}

static gd_plan *plan_new(const gd_run_args *args)
{
    gd_plan *plan = gd__plan_look(args);
    gd_status status = plan ? GD_OK : GD_NOMEM;
    for (int g = 0; !status && g < plan->groups; g++) status = prepare_group(args, &plan->group[g]);
    if (!status) {
        plan->gpu = only_gpu(args->ctx, plan);
        return plan;
    }
    if (plan) plan_free(args->ctx, plan);
    return NULL;
}

static bool fits(const gd_plan *plan, const gd_run_args *args)
{
    if (plan->count != args->count || plan->pendings != args->pendings || plan->holes != args->holes ||
        plan->sink != args->sink || plan->input_is_grad != args->input_is_grad ||
        plan->stamp != args->optimizer->stamp)
        return false;
    for (int i = 0; i < args->pendings; i++)
        if (plan->pending[i].link != args->pending[i].link || plan->pending[i].mode != args->pending[i].mode)
            return false;
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
        if (plan->stamp == o->stamp && kept++ < MOST_KEPT - 1) {
            at = &plan->next;
            continue;
        }
        *at = plan->next;
        plan_free(o->ctx, plan);
    }
}

gd_plan *gd__plan_for(const gd_run_args *args)
{
    gd_optimizer *o = args->optimizer;
    if (!o) return plan_new(args);
    for (gd_plan **at = &o->plans; *at; at = &(*at)->next) {
        gd_plan *found = *at;
        if (!fits(found, args)) continue;
        *at = found->next;
        found->next = o->plans;
        return o->plans = found;
    }
    gd_plan *plan = plan_new(args);
    if (!plan) return NULL;
    tidy(o);
    plan->next = o->plans;
    return o->plans = plan;
}
