/* Plans: how pending rules run over all parameters, one pass over memory for each level of their program.
 *
 *   plan --> group: parameters whose programs are equal (dtype, device, structural settings)
 *              |--> members: the parameters, each with its entries in the links' state
 *              |--> passes:  a kernel each, or the interpreter
 *              |--> chunks:  fixed pieces of members; tasks: runs of chunks worth a thread's while
 *
 * A plan is made once and kept by the optimizer; a step only refreshes pointers and scalars.  Reductions are combined
 * chunk by chunk in a fixed order, so results do not depend on the number of threads. */
#include "optim/plan.h"
#include "tensor/device.h"

#include <math.h>
#include <string.h>

#define CHUNK 16384      /* elements of a piece in the last pass */
#define SUM_CHUNK 4096   /* and in a pass that reduces */
#define TASK 32768       /* elements worth a thread */

/* ---- making ---- */

static void work_free(gd_ctx *ctx, gd_work *w)
{
    gd__free(ctx, w->chunk, (size_t)w->chunks * sizeof *w->chunk);
    gd__free(ctx, w->task, (size_t)(w->tasks + 1) * sizeof *w->task);
}

static void group_free(gd_ctx *ctx, gd_plan_group *g)
{
    size_t members = (size_t)g->members, arrays = (size_t)g->p->arrays, uniforms = (size_t)g->p->uniforms;
    size_t passes = (size_t)g->p->levels + 1, reductions = (size_t)g->p->reductions;
    work_free(ctx, &g->last);
    work_free(ctx, &g->reduce);
    gd__free(ctx, g->position, members * sizeof *g->position);
    gd__free(ctx, g->array_entry, members * arrays * sizeof *g->array_entry);
    gd__free(ctx, g->uniform_entry, members * uniforms * sizeof *g->uniform_entry);
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
    for (int i = 0; i < plan->groups; i++) group_free(ctx, &plan->group[i]);
    gd__free(ctx, plan->group, (size_t)plan->count * sizeof *plan->group);
    gd__free(ctx, plan->params, (size_t)plan->count * sizeof *plan->params);
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

/* Cuts members into chunks and collects small ones into tasks. */
static gd_status make_work(gd_ctx *ctx, const gd_plan_group *g, gd_tensor *const *params, int64_t size, gd_work *w)
{
    int64_t chunks = 0;
    for (int m = 0; m < g->members; m++) chunks += (params[g->position[m]]->numel + size - 1) / size;
    w->chunks = chunks;
    w->chunk = gd__alloc_array(ctx, (size_t)chunks, sizeof *w->chunk);
    w->task = gd__alloc_array(ctx, (size_t)chunks + 1, sizeof *w->task);
    w->tasks = chunks; /* what was allocated, for freeing after a failure below */
    if (!w->chunk || !w->task) return GD_NOMEM;
    int64_t at = 0, tasks = 0, filled = TASK;
    for (int m = 0; m < g->members; m++) {
        int64_t numel = params[g->position[m]]->numel;
        for (int64_t start = 0; start < numel; start += size) {
            int64_t n = numel - start < size ? numel - start : size;
            if (filled >= TASK) {
                w->task[tasks++] = at;
                filled = 0;
            }
            filled += n;
            w->chunk[at++] = (gd_chunk){.start = start, .n = n, .member = m};
        }
    }
    for (int64_t t = tasks; t <= chunks; t++) w->task[t] = at;
    w->used_tasks = tasks;
    return GD_OK;
}

static gd_status make_rooms(gd_ctx *ctx, gd_plan_group *g)
{
    size_t members = (size_t)g->members, arrays = (size_t)g->p->arrays, uniforms = (size_t)g->p->uniforms;
    size_t passes = (size_t)g->p->levels + 1, reductions = (size_t)g->p->reductions;
    for (size_t i = 0; i < passes; i++)
        if (g->pass[i].used_count > g->scalar_room) g->scalar_room = g->pass[i].used_count;
    g->partial_room = (g->reduce.chunks > 0 ? g->reduce.chunks : 1) * (int64_t)(reductions ? reductions : 1);
    g->array_entry = gd__calloc(ctx, members * arrays * sizeof *g->array_entry);
    g->uniform_entry = gd__calloc(ctx, members * uniforms * sizeof *g->uniform_entry);
    g->pointer = gd__calloc(ctx, members * arrays * sizeof *g->pointer);
    g->input = gd__calloc(ctx, members * uniforms * sizeof *g->input);
    g->reduced = gd__calloc(ctx, members * reductions * sizeof *g->reduced);
    g->scalar = gd__calloc(ctx, members * (size_t)g->scalar_room * sizeof *g->scalar);
    g->stored = gd__calloc(ctx, members * uniforms * sizeof *g->stored);
    g->value = gd__calloc(ctx, (size_t)g->p->count * sizeof *g->value);
    g->partial = gd__calloc(ctx, (size_t)g->partial_room * sizeof *g->partial);
    bool all = g->array_entry && g->uniform_entry && g->pointer && g->input && g->reduced && g->scalar && g->stored &&
               g->value && g->partial;
    return all ? GD_OK : GD_NOMEM;
}

static gd_status stale_state(const gd_array *a, const gd_tensor *param, const gd_tensor *slot)
{
    char now[256], then[256];
    return gd_fail(param->head.ctx, GD_MISMATCH,
                   "%s: a parameter is %s now, its state '%s' is %s %s; reset the optimizer or remove the parameter",
                   a->link->cls->name, gd__shape_text(param, now, sizeof now), a->link->cls->slots[a->slot].name,
                   gd_dtype_name(slot->dtype), gd__shape_text(slot, then, sizeof then));
}

/* The entries in links' state that members' arrays and scalars live in. */
static gd_status bind_entries(gd_plan_group *g, gd_tensor *const *params)
{
    for (int m = 0; m < g->members; m++) {
        gd_tensor *param = params[g->position[m]];
        for (int k = 0; k < g->p->arrays; k++) {
            const gd_array *a = &g->p->array[k];
            if (a->kind != GD_ARRAY_STATE) continue;
            gd_entry *e = gd__entry(a->link, param);
            gd_tensor *slot = e ? gd__entry_slot(a->link, e, a->slot, a->dtype) : NULL;
            if (!slot) return GD_NOMEM;
            if (slot->numel != param->numel || slot->dtype != a->dtype) return stale_state(a, param, slot);
            g->array_entry[m * g->p->arrays + k] = e;
        }
        for (int u = 0; u < g->p->uniforms; u++) {
            const gd_uniform *f = &g->p->uniform[u];
            if (f->kind != GD_U_FRESH && f->kind != GD_U_SCALAR) continue;
            gd_entry *e = gd__entry(f->link, param);
            if (!e) return GD_NOMEM;
            g->uniform_entry[m * g->p->uniforms + u] = e;
        }
    }
    return GD_OK;
}

static gd_status make_passes(gd_ctx *ctx, gd_plan_group *g)
{
    size_t passes = (size_t)g->p->levels + 1;
    g->pass = gd__calloc(ctx, passes * sizeof *g->pass);
    g->kernel = gd__calloc(ctx, passes * sizeof *g->kernel);
    g->how = gd__calloc(ctx, passes * sizeof *g->how);
    if (!g->pass || !g->kernel || !g->how) return GD_NOMEM;
    for (int i = 0; i <= g->p->levels; i++) {
        gd__program_pass(g->p, i, &g->pass[i]);
        g->kernel[i] = gd__kernel_for(ctx, g->p, &g->pass[i], &g->how[i]);
    }
    return GD_OK;
}

/* Programs are equal for two parameters when their kernels are, and so are the uniform parts. */
static bool same_program(const gd_program *a, const gd_program *b)
{
    return a->compute == b->compute && a->count == b->count && a->arrays == b->arrays && a->uniforms == b->uniforms &&
           a->reductions == b->reductions && !memcmp(a->instr, b->instr, (size_t)a->count * sizeof *a->instr) &&
           !memcmp(a->array, b->array, (size_t)a->arrays * sizeof *a->array) &&
           !memcmp(a->uniform, b->uniform, (size_t)a->uniforms * sizeof *a->uniform);
}

static gd_program *program_for(const gd_run_args *args, int i)
{
    gd_dtype input = args->input[i]->dtype;
    gd_build build = {.ctx = args->ctx,
                      .optimizer = args->optimizer,
                      .pending = args->pending,
                      .pendings = args->pendings,
                      .param = args->params[i],
                      .input_dtype = input,
                      .grad_dtype = args->grad ? args->grad[i]->dtype : input,
                      .state_dtype = args->params[i]->dtype == GD_F64 ? GD_F64 : GD_F32,
                      .input_is_grad = args->input_is_grad,
                      .sink = args->sink};
    return gd__build(&build);
}

/* Two parameters that surely have the same program: nothing about them shapes it differently. */
static bool alike(const gd_run_args *args, int i, int j)
{
    return args->params[i]->dtype == args->params[j]->dtype && args->input[i]->dtype == args->input[j]->dtype &&
           args->params[i]->storage->device == args->params[j]->storage->device &&
           (!args->grad || args->grad[i]->dtype == args->grad[j]->dtype) && !gd__own_settings(args, i) &&
           !gd__own_settings(args, j);
}

static bool links_have_local(const gd_link *link, const gd_tensor *param)
{
    gd_entry *e = gd__entry_find(link, param);
    if (e && e->local) return true;
    for (int i = 0; i < link->children; i++)
        if (links_have_local(link->child[i], param)) return true;
    return false;
}

/* True when a link or a group says something about this parameter that may shape its program. */
bool gd__own_settings(const gd_run_args *args, int i)
{
    gd_tensor *param = args->params[i];
    if (args->optimizer) {
        int index = gd__param_index(args->optimizer, param);
        gd_group *group = index < 0 ? NULL : &args->optimizer->group[args->optimizer->param[index].group];
        for (int k = 0; group && k < group->settings; k++)
            if (group->setting[k].value.kind != GD_SET_REAL) return true;
    }
    for (int k = 0; k < args->pendings; k++)
        if (links_have_local(args->pending[k].link, param)) return true;
    return false;
}

/* Sorts the parameters into groups of equal programs: group_of[i]. */
static gd_status sort_members(const gd_run_args *args, gd_plan *plan, int *group_of)
{
    int previous = -1;
    for (int i = 0; i < args->count; i++) {
        if (previous >= 0 && alike(args, previous, i)) {
            group_of[i] = group_of[previous];
            plan->group[group_of[i]].members++;
            continue;
        }
        gd_program *p = program_for(args, i);
        if (!p) return gd_error(args->ctx);
        int g = 0;
        gd_device *device = args->params[i]->storage->device;
        while (g < plan->groups && !(plan->group[g].device == device && same_program(plan->group[g].p, p))) g++;
        if (g == plan->groups) plan->group[plan->groups++] = (gd_plan_group){.p = p, .device = device};
        else gd__program_free(p);
        plan->group[g].members++;
        group_of[i] = g;
        previous = i;
    }
    return GD_OK;
}

static gd_status finish_group(const gd_run_args *args, gd_plan_group *g, const int *group_of, int number)
{
    gd_ctx *ctx = args->ctx;
    g->position = gd__alloc_array(ctx, (size_t)g->members, sizeof *g->position);
    if (!g->position) return GD_NOMEM;
    int m = 0;
    for (int i = 0; i < args->count; i++) {
        if (group_of[i] != number) continue;
        g->position[m++] = i;
        g->numel += args->params[i]->numel;
    }
    gd_status status = make_work(ctx, g, args->params, CHUNK, &g->last);
    if (!status && g->p->levels) status = make_work(ctx, g, args->params, SUM_CHUNK, &g->reduce);
    if (!status) status = make_passes(ctx, g);
    if (!status) status = make_rooms(ctx, g);
    if (!status) status = bind_entries(g, args->params);
    return status;
}

static uint64_t numbers_of(const gd_link *link)
{
    uint64_t sum = link->numbers;
    for (int i = 0; i < link->children; i++) sum += numbers_of(link->child[i]);
    return sum;
}

static uint64_t stamps(const gd_run_args *args, bool numbers)
{
    uint64_t sum = numbers && args->optimizer ? args->optimizer->group_stamp : 0;
    for (int i = 0; i < args->pendings; i++) {
        const gd_link *link = args->pending[i].link;
        sum += numbers ? numbers_of(link) : gd__tree_stamp(link);
    }
    return sum;
}

static gd_plan *plan_new(const gd_run_args *args)
{
    gd_ctx *ctx = args->ctx;
    gd_plan *plan = gd__calloc(ctx, sizeof *plan);
    if (!plan) return NULL;
    plan->count = args->count;
    plan->pendings = args->pendings;
    plan->sink = args->sink;
    plan->input_is_grad = args->input_is_grad;
    memcpy(plan->pending, args->pending, (size_t)args->pendings * sizeof *plan->pending);
    size_t count = (size_t)args->count;
    int *group_of = gd__calloc(ctx, count * sizeof *group_of);
    plan->params = gd__calloc(ctx, count * sizeof *plan->params);
    plan->group = gd__calloc(ctx, count * sizeof *plan->group);
    gd_status status = group_of && plan->params && plan->group ? GD_OK : GD_NOMEM;
    for (int i = 0; i < args->count && !status; i++) plan->params[i] = gd__signature(args, i);
    if (!status) status = sort_members(args, plan, group_of);
    for (int g = 0; g < plan->groups && !status; g++) status = finish_group(args, &plan->group[g], group_of, g);
    gd__free(ctx, group_of, count * sizeof *group_of);
    plan->stamp = stamps(args, false);
    plan->numbers = UINT64_MAX;
    if (!status) return plan;
    plan_free(ctx, plan);
    return NULL;
}

/* ---- finding ---- */

gd_param_signature gd__signature(const gd_run_args *args, int i)
{
    const gd_tensor *p = args->params[i];
    return (gd_param_signature){.param = p,
                                .numel = p->numel,
                                .device = p->storage->device,
                                .dtypes = (int)p->dtype | (int)args->input[i]->dtype << 8 |
                                          (int)(args->grad ? args->grad[i]->dtype : 0) << 16};
}

static bool fits(const gd_plan *plan, const gd_run_args *args)
{
    if (plan->count != args->count || plan->pendings != args->pendings || plan->sink != args->sink ||
        plan->input_is_grad != args->input_is_grad)
        return false;
    for (int i = 0; i < args->pendings; i++)
        if (plan->pending[i].link != args->pending[i].link || plan->pending[i].mode != args->pending[i].mode) return false;
    for (int i = 0; i < args->count; i++) {
        gd_param_signature s = gd__signature(args, i), *t = &plan->params[i];
        if (s.param != t->param || s.numel != t->numel || s.device != t->device || s.dtypes != t->dtypes) return false;
    }
    return plan->stamp == stamps(args, false);
}

/* The plan for these arguments; made, and put first, if there is none that fits.  Stale ones are dropped. */
static gd_plan *find_plan(const gd_run_args *args)
{
    gd_plan **list = args->optimizer ? &args->optimizer->plans : NULL;
    for (gd_plan **at = list; at && *at; at = &(*at)->next) {
        if (!fits(*at, args)) continue;
        gd_plan *found = *at;
        *at = found->next;
        found->next = *list;
        return *list = found;
    }
    gd_plan *plan = plan_new(args);
    if (!plan || !list) return plan;
    int kept = 0;
    for (gd_plan **at = list; *at;) {
        gd_plan *old = *at;
        bool stale = old->pendings == args->pendings && old->sink == args->sink &&
                     !memcmp(old->pending, args->pending, (size_t)args->pendings * sizeof *old->pending);
        if (!stale && ++kept < 16) {
            at = &old->next;
            continue;
        }
        *at = old->next;
        plan_free(args->ctx, old);
    }
    plan->next = *list;
    return *list = plan;
}

/* ---- scalars ---- */

static double number_of(const gd_setting *s)
{
    return s->kind == GD_SET_REAL || s->kind == GD_SET_BOOL ? s->real : NAN;
}

static void fill_settings(const gd_run_args *args, gd_plan_group *g)
{
    for (int m = 0; m < g->members; m++) {
        gd_tensor *param = args->params[g->position[m]];
        double *input = g->input + m * g->p->uniforms;
        for (int u = 0; u < g->p->uniforms; u++) {
            const gd_uniform *f = &g->p->uniform[u];
            if (f->kind == GD_U_SETTING) input[u] = number_of(gd__resolve(f->link, f->index, param));
            else if (f->kind == GD_U_NUMEL) input[u] = (double)param->numel;
        }
    }
}

/* What changes every step. */
static void fill_step_scalars(const gd_run_args *args, gd_plan_group *g, double total)
{
    for (int u = 0; u < g->p->uniforms; u++) {
        const gd_uniform *f = &g->p->uniform[u];
        if (f->kind == GD_U_SETTING) continue;
        for (int m = 0; m < g->members; m++) {
            gd_entry *e = g->uniform_entry[m * g->p->uniforms + u];
            double *input = &g->input[m * g->p->uniforms + u];
            switch (f->kind) {
            case GD_U_STEP: *input = (double)(f->link->step + 1); break;
            case GD_U_NUMEL:
                if (f->index == GD_ALL) *input = total;
                break;
            case GD_U_FRESH: *input = e->slot[f->index] == NULL || e->fresh[f->index]; break;
            case GD_U_SCALAR: *input = e->scalar[f->index]; break;
            case GD_U_LOSS: *input = args->loss; break;
            default: break;
            }
        }
    }
}

static void fill_pointers(const gd_run_args *args, gd_plan_group *g)
{
    for (int m = 0; m < g->members; m++) {
        int i = g->position[m];
        for (int k = 0; k < g->p->arrays; k++) {
            char *data = NULL;
            switch (g->p->array[k].kind) {
            case GD_ARRAY_INPUT: data = args->input[i]->data; break;
            case GD_ARRAY_PARAM: data = args->params[i]->data; break;
            case GD_ARRAY_GRAD: data = args->grad[i]->data; break;
            case GD_ARRAY_STATE: data = g->array_entry[m * g->p->arrays + k]->slot[g->p->array[k].slot]->data; break;
            case GD_ARRAY_OUTPUT: data = args->output[i]->data; break;
            }
            g->pointer[m * g->p->arrays + k] = data;
        }
    }
}

/* ---- running a pass ---- */

typedef struct pass_run {
    gd_plan_group *g;
    const gd_pass *pass;
    gd_kernel_fn kernel;
    const gd_work *work;
} pass_run;

static void run_chunk(const pass_run *r, int64_t c)
{
    const gd_plan_group *g = r->g;
    const gd_chunk *chunk = &r->work->chunk[c];
    int arrays = g->p->arrays;
    char *array[GD_MAX_ARRAYS];
    for (int k = 0; k < arrays; k++) {
        char *base = g->pointer[chunk->member * arrays + k];
        array[k] = base ? base + chunk->start * (int64_t)gd_dtype_size(g->p->array[k].dtype) : NULL;
    }
    const double *scalar = g->scalar + (int64_t)chunk->member * g->scalar_room;
    double *out = r->pass->last ? NULL : g->partial + c * r->pass->reductions;
    if (r->kernel) r->kernel(chunk->n, array, scalar, out);
    else gd__interpret(g->p, r->pass, chunk->n, array, scalar, out);
}

static void run_task(void *arg, int64_t task)
{
    const pass_run *r = arg;
    for (int64_t c = r->work->task[task]; c < r->work->task[task + 1]; c++) run_chunk(r, c);
}

static void run_pass(gd_ctx *ctx, gd_plan_group *g, int level)
{
    pass_run r = {.g = g, .pass = &g->pass[level], .kernel = g->kernel[level]};
    r.work = r.pass->last ? &g->last : &g->reduce;
    for (int m = 0; m < g->members; m++) {
        gd__program_uniforms(g->p, level, g->input + m * g->p->uniforms, g->reduced + m * g->p->reductions, g->value);
        double *scalar = g->scalar + (int64_t)m * g->scalar_room;
        for (int k = 0; k < r.pass->used_count; k++) scalar[k] = g->value[r.pass->used[k]];
        for (int u = 0; r.pass->last && u < g->p->uniforms; u++)
            if (g->p->uniform[u].store >= 0) g->stored[m * g->p->uniforms + u] = g->value[g->p->uniform[u].store];
    }
    gd__parallel(ctx, r.work->used_tasks, run_task, &r);
}

static double join(int op, double a, double b)
{
    if (op == GD_I_SUM) return a + b;
    return a != a ? a : b > a || b != b ? b : a;
}

/* Chunk results of a member, pairwise. */
static double join_chunks(gd_plan_group *g, const gd_pass *pass, int k, int64_t first, int64_t count, int op)
{
    double *p = g->partial + first * pass->reductions + k;
    int64_t step = pass->reductions;
    for (int64_t width = 1; width < count; width *= 2)
        for (int64_t c = 0; c + width < count; c += 2 * width) p[c * step] = join(op, p[c * step], p[(c + width) * step]);
    return count ? p[0] : op == GD_I_SUM ? 0 : -INFINITY;
}

static void join_members(gd_plan_group *g, int level)
{
    const gd_pass *pass = &g->pass[level];
    for (int k = 0; k < pass->reductions; k++) {
        int number = pass->reduction[k], op = g->p->instr[g->p->reduction[number]].op;
        int64_t c = 0;
        for (int m = 0; m < g->members; m++) {
            int64_t first = c;
            while (c < g->reduce.chunks && g->reduce.chunk[c].member == m) c++;
            g->reduced[m * g->p->reductions + number] = join_chunks(g, pass, k, first, c - first, op);
        }
    }
}

/* Reductions over all parameters: members in order, group after group. */
static void join_all(gd_plan *plan, int number, int op)
{
    double all = op == GD_I_SUM ? 0 : -INFINITY;
    for (int i = 0; i < plan->groups; i++) {
        gd_plan_group *g = &plan->group[i];
        for (int m = 0; m < g->members; m++) all = join(op, all, g->reduced[m * g->p->reductions + number]);
    }
    for (int i = 0; i < plan->groups; i++) {
        gd_plan_group *g = &plan->group[i];
        for (int m = 0; m < g->members; m++) g->reduced[m * g->p->reductions + number] = all;
    }
}

/* Reductions over all parameters need the same reductions in every group. */
static gd_status check_alike(const gd_run_args *args, const gd_plan *plan)
{
    const gd_program *first = plan->group[0].p;
    for (int i = 1; i < plan->groups; i++) {
        const gd_program *p = plan->group[i].p;
        bool same = p->reductions == first->reductions && p->levels == first->levels;
        for (int k = 0; same && k < p->reductions; k++)
            same = p->instr[p->reduction[k]].extent == first->instr[first->reduction[k]].extent &&
                   p->instr[p->reduction[k]].level == first->instr[first->reduction[k]].level;
        if (!same)
            return gd_fail(args->ctx, GD_NOT_IMPLEMENTED,
                           "a norm over all parameters meets parameters whose settings shape the chain differently");
    }
    return GD_OK;
}

static bool reduces_all(const gd_plan *plan)
{
    for (int i = 0; i < plan->groups; i++)
        for (int k = 0; k < plan->group[i].p->reductions; k++)
            if (plan->group[i].p->instr[plan->group[i].p->reduction[k]].extent == GD_ALL) return true;
    return false;
}

static gd_status run_levels(const gd_run_args *args, gd_plan *plan)
{
    int levels = 0;
    for (int i = 0; i < plan->groups; i++)
        if (plan->group[i].p->levels > levels) levels = plan->group[i].p->levels;
    if (plan->groups > 1 && reduces_all(plan)) {
        gd_status status = check_alike(args, plan);
        if (status) return status;
    }
    for (int level = 0; level < levels; level++) {
        for (int i = 0; i < plan->groups; i++) {
            gd_plan_group *g = &plan->group[i];
            if (level >= g->p->levels) continue;
            run_pass(args->ctx, g, level);
            join_members(g, level);
        }
        const gd_plan_group *g = &plan->group[0];
        for (int k = 0; level < g->p->levels && k < g->pass[level].reductions; k++) {
            int number = g->pass[level].reduction[k];
            const gd_instr *i = &g->p->instr[g->p->reduction[number]];
            if (i->extent == GD_ALL) join_all(plan, number, i->op);
        }
    }
    for (int i = 0; i < plan->groups; i++) run_pass(args->ctx, &plan->group[i], plan->group[i].p->levels);
    return GD_OK;
}

/* ---- after the run ---- */

static void count_step(gd_link *link, gd_mode mode)
{
    bool counts = mode == GD_MODE_STEP || (mode == GD_MODE_UPDATE) == (link->cls->update_rule != NULL);
    if (counts) link->step++;
    bool chain = !link->cls->rule;
    if (!chain && mode == GD_MODE_UPDATE) return; /* the rule, which runs the children, did not run */
    for (int i = 0; i < link->children; i++) count_step(link->child[i], chain ? mode : GD_MODE_STEP);
}

static void settle(gd_plan_group *g)
{
    for (int m = 0; m < g->members; m++) {
        for (int k = 0; k < g->p->arrays; k++) {
            gd_entry *e = g->array_entry[m * g->p->arrays + k];
            if (e && g->p->array[k].store >= 0) e->fresh[g->p->array[k].slot] = false;
        }
        for (int u = 0; u < g->p->uniforms; u++) {
            gd_entry *e = g->uniform_entry[m * g->p->uniforms + u];
            if (g->p->uniform[u].store >= 0) e->scalar[g->p->uniform[u].index] = g->stored[m * g->p->uniforms + u];
        }
    }
}

static gd_status on_cpu(const gd_run_args *args, const gd_plan *plan)
{
    for (int i = 0; i < plan->groups; i++)
        if (plan->group[i].device != args->ctx->cpu)
            return gd_fail(args->ctx, GD_DEVICE, "rules do not run on %s yet", plan->group[i].device->name);
    return GD_OK;
}

gd_status gd__run_rules(const gd_run_args *args)
{
    if (args->count == 0) return GD_OK;
    gd_plan *plan = find_plan(args);
    if (!plan) return gd_error(args->ctx) ? gd_error(args->ctx) : GD_NOMEM;
    gd_status status = on_cpu(args, plan);
    uint64_t numbers = stamps(args, true);
    double total = 0;
    for (int i = 0; i < plan->groups; i++) total += (double)plan->group[i].numel;
    for (int i = 0; i < plan->groups && !status; i++) {
        if (plan->numbers != numbers) fill_settings(args, &plan->group[i]);
        fill_step_scalars(args, &plan->group[i], total);
        fill_pointers(args, &plan->group[i]);
    }
    plan->numbers = numbers;
    if (!status) status = run_levels(args, plan);
    if (!status) {
        for (int i = 0; i < plan->groups; i++) settle(&plan->group[i]);
        for (int i = 0; i < args->pendings; i++) count_step(args->pending[i].link, args->pending[i].mode);
        for (int i = 0; args->sink == GD_SINK_PARAMS && i < args->count; i++) gd__touch(args->params[i]);
    }
    if (!args->optimizer) plan_free(args->ctx, plan);
    return status;
}
