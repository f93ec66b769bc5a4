/* Running plans.  Reductions are combined chunk by chunk in a fixed order, so results do not depend on the number of
 * threads. */
#include "optim/plan.h"
#include "tensor/device.h"

#include <math.h>
#include <string.h>

/* ---- scalars and pointers ---- */

static double number_of(const gd_setting *s)
{
    return s->kind == GD_SET_REAL || s->kind == GD_SET_BOOL ? s->real : NAN;
}

/* What stays until a setting changes. */
static void fill_settings(const gd_run_args *args, gd_plan_group *g)
{
    for (int m = 0; m < g->members; m++) {
        int i = g->position[m];
        double *input = g->input + m * g->p->uniforms;
        for (int u = 0; u < g->p->uniforms; u++) {
            const gd_uniform *f = &g->p->uniform[u];
            if (f->kind == GD_U_SETTING)
                input[u] = number_of(gd__resolve(f->link, f->index, args->keys[i]));
            else if (f->kind == GD_U_NUMEL)
                input[u] = (double)args->params[i]->numel;
        }
    }
}

/* What changes every step. */
static void fill_step_scalars(const gd_run_args *args, gd_plan_group *g, double total)
{
    int uniforms = g->p->uniforms;
    for (int u = 0; u < uniforms; u++) {
        const gd_uniform *f = &g->p->uniform[u];
        if (f->kind == GD_U_SETTING || (f->kind == GD_U_NUMEL && f->index == GD_EACH)) continue;
        double same = 0;
        if (f->kind == GD_U_STEP) {
            /* an apply after an update of its own counts as that update did */
            same = (double)(f->link->step + g->ahead[u]);
            if (same < 1) same = 1;
        } else
            same = f->kind == GD_U_LOSS ? args->loss : total;
        for (int m = 0; m < g->members; m++) {
            const gd_entry *e = g->uniform_entry[m * uniforms + u];
            double *input = &g->input[m * uniforms + u];
            if (f->kind == GD_U_FRESH)
                *input = e->slot[f->index] == NULL || e->fresh[f->index];
            else
                *input = f->kind == GD_U_SCALAR ? e->scalar[f->index] : same;
        }
    }
}

static gd_status stale_state(const gd_array *a, const gd_tensor *param, const gd_tensor *slot)
{
    char now[256], then[256];
    return gd_fail(
        param->head.ctx, GD_MISMATCH,
        "%s: a parameter is %s %s now, its state '%s' is %s %s; reset the optimizer or remove the parameter",
        a->link->cls->name, gd_dtype_name(param->dtype), gd__shape_text(param, now, sizeof now),
        a->link->cls->slots[a->slot].name, gd_dtype_name(slot->dtype),
        gd__shape_text(slot, then, sizeof then));
}

/* The memory of a slot, made if it is not there. */
static gd_status state_pointer(const gd_array *a, gd_entry *e, const gd_tensor *param, char **data)
{
    gd_tensor *slot = e->slot[a->slot];
    if (!slot) slot = gd__entry_slot(a->link, e, a->slot, a->dtype, param);
    if (!slot) return GD_NOMEM;
    if (slot->dtype != a->dtype || !gd__same_shape(slot, param) ||
        slot->storage->device != param->storage->device)
        return stale_state(a, param, slot);
    *data = slot->data;
    return GD_OK;
}

static gd_status fill_pointers(const gd_run_args *args, gd_plan_group *g)
{
    gd_status status = GD_OK;
    int arrays = g->p->arrays;
    for (int m = 0; m < g->members; m++) {
        int i = g->position[m];
        char **pointer = g->pointer + m * arrays;
        for (int k = 0; k < arrays && !status; k++) {
            const gd_array *a = &g->p->array[k];
            switch (a->kind) {
            case GD_ARRAY_INPUT: pointer[k] = args->input[i]->data; break;
            case GD_ARRAY_PARAM: pointer[k] = args->params[i]->data; break;
            case GD_ARRAY_GRAD: pointer[k] = args->grad[i]->data; break;
            case GD_ARRAY_HOLE: pointer[k] = args->hole[a->slot][i]->data; break;
            case GD_ARRAY_OUTPUT: pointer[k] = args->output[i]->data; break;
            case GD_ARRAY_STATE:
                status = state_pointer(a, g->array_entry[m * arrays + k], args->params[i], &pointer[k]);
            }
        }
    }
    return status;
}

/* ---- a pass ---- */

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
    if (r->kernel)
        r->kernel(chunk->n, array, scalar, out);
    else
        gd__interpret(g->p, r->pass, chunk->n, array, scalar, out);
}

static void run_task(void *arg, int64_t task)
{
    const pass_run *r = arg;
    for (int64_t c = r->work->task[task]; c < r->work->task[task + 1]; c++) run_chunk(r, c);
}

static bool stores_scalars(const gd_program *p)
{
    for (int u = 0; u < p->uniforms; u++)
        if (p->uniform[u].store >= 0) return true;
    return false;
}

static bool same_numbers(const double *a, const double *b, int count)
{
    for (int i = 0; i < count; i++)
        if (memcmp(&a[i], &b[i], sizeof *a)) return false;
    return true;
}

/* The uniform part of a pass, member by member; mostly all have the same numbers. */
static void fill_scalars(gd_plan_group *g, const gd_pass *pass)
{
    const gd_program *p = g->p;
    bool stores = pass->last && stores_scalars(p);
    if (!pass->used_count && !stores) return;
    for (int m = 0; m < g->members; m++) {
        const double *input = g->input + m * p->uniforms, *reduced = g->reduced + m * p->reductions;
        if (m == 0 || !same_numbers(input, input - p->uniforms, p->uniforms) ||
            !same_numbers(reduced, reduced - p->reductions, p->reductions))
            gd__program_uniforms(p, pass->level, input, reduced, g->value);
        double *scalar = g->scalar + (int64_t)m * g->scalar_room;
        for (int k = 0; k < pass->used_count; k++) scalar[k] = g->value[pass->used[k]];
        for (int u = 0; stores && u < p->uniforms; u++)
            if (p->uniform[u].store >= 0) g->stored[m * p->uniforms + u] = g->value[p->uniform[u].store];
    }
}

static bool on_cpu(const gd_plan_group *g) { return g->device == g->device->ctx->cpu; }

static gd_status run_pass(gd_ctx *ctx, gd_plan_group *g, int level, gd_gpu_list *list)
{
    if (!on_cpu(g)) return gd__gpu_pass(g, level, list);
    pass_run r = {.g = g, .pass = &g->pass[level], .kernel = g->kernel[level]};
    r.work = r.pass->last ? &g->last : &g->reduce;
    fill_scalars(g, r.pass);
    gd__parallel(ctx, r.work->tasks, run_task, &r);
    return GD_OK;
}

/* ---- reductions ---- */

static double join(int op, double a, double b)
{
    if (op == GD_I_SUM) return a + b;
    return a != a ? a : b > a || b != b ? b : a;
}

static double nothing(int op) { return op == GD_I_SUM ? 0 : -INFINITY; }

/* Chunk results of a member, pairwise. */
static double join_chunks(gd_plan_group *g, const gd_pass *pass, int k, int64_t first, int64_t count, int op)
{
    double *p = g->partial + first * pass->reductions + k;
    int64_t step = pass->reductions;
    for (int64_t width = 1; width < count; width *= 2)
        for (int64_t c = 0; c + width < count; c += 2 * width)
            p[c * step] = join(op, p[c * step], p[(c + width) * step]);
    return count ? p[0] : nothing(op);
}

static void join_on_cpu(gd_plan_group *g, int level)
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

static double *reduced_at(gd_plan *plan, int i, int number)
{
    gd_plan_group *g = &plan->group[plan->group_of[i]];
    return &g->reduced[plan->member_of[i] * g->p->reductions + number];
}

/* Reductions over all parameters: in their order, whatever the groups. */
static void join_all(gd_plan *plan, int number, int op)
{
    double all = nothing(op);
    for (int i = 0; i < plan->count; i++) all = join(op, all, *reduced_at(plan, i, number));
    for (int i = 0; i < plan->count; i++) *reduced_at(plan, i, number) = all;
}

static bool reduces_all(const gd_program *p)
{
    for (int k = 0; k < p->reductions; k++)
        if (p->instr[p->reduction[k]].extent == GD_ALL) return true;
    return false;
}

/* Reductions over all parameters need the same reductions in every group. */
static gd_status check_alike(const gd_run_args *args, const gd_plan *plan)
{
    const gd_program *first = plan->group[0].p;
    bool all = reduces_all(first);
    for (int i = 1; i < plan->groups; i++) all = all || reduces_all(plan->group[i].p);
    for (int i = 1; all && i < plan->groups; i++) {
        const gd_program *p = plan->group[i].p;
        bool same = p->reductions == first->reductions && p->levels == first->levels;
        for (int k = 0; same && k < p->reductions; k++) {
            const gd_instr *a = &p->instr[p->reduction[k]], *b = &first->instr[first->reduction[k]];
            same = a->extent == b->extent && a->level == b->level && a->op == b->op;
        }
        if (!same)
            return gd_fail(
                args->ctx, GD_NOT_IMPLEMENTED,
                "a norm over all parameters meets parameters whose settings shape the chain differently");
    }
    return GD_OK;
}

static void note_finite(const gd_run_args *args, const gd_plan_group *g, int level)
{
    if (!args->not_finite || !on_cpu(g)) return; /* looking on a GPU would wait for it */
    const gd_pass *pass = &g->pass[level];
    for (int k = 0; k < pass->reductions; k++)
        for (int m = 0; m < g->members; m++)
            if (!isfinite(g->reduced[m * g->p->reductions + pass->reduction[k]])) {
                /* the largest of no elements is no number either */
                if (args->params[g->position[m]]->numel) *args->not_finite = true;
            }
}

/* Members of groups on several devices are joined by the host. */
static gd_status join_members(gd_plan *plan, int level)
{
    gd_status status = GD_OK;
    const gd_plan_group *first = &plan->group[0];
    for (int i = 0; i < plan->groups && !status; i++)
        if (!on_cpu(&plan->group[i])) status = gd__gpu_fetch_reduced(&plan->group[i]);
    for (int k = 0; k < first->pass[level].reductions && !status; k++) {
        int number = first->pass[level].reduction[k];
        const gd_instr *in = &first->p->instr[first->p->reduction[number]];
        if (in->extent == GD_ALL) join_all(plan, number, in->op);
    }
    for (int i = 0; i < plan->groups && !status; i++)
        if (!on_cpu(&plan->group[i])) status = gd__gpu_send_reduced(&plan->group[i]);
    return status;
}

/* Chunks of every member of every group, then members where the reduction is over all of them. */
static gd_status join_level(const gd_run_args *args, gd_plan *plan, int level, gd_gpu_list *list)
{
    gd_status status = GD_OK;
    for (int i = 0; i < plan->groups && !status; i++) {
        gd_plan_group *g = &plan->group[i];
        if (level >= g->p->levels) continue;
        if (on_cpu(g))
            join_on_cpu(g, level);
        else
            status = gd__gpu_join(g, level, list);
        note_finite(args, g, level);
    }
    const gd_plan_group *first = &plan->group[0];
    if (status || level >= first->p->levels || !reduces_all(first->p)) return status;
    return plan->gpu ? gd__gpu_join_all(plan->group, plan->groups, level, list) : join_members(plan, level);
}

/* Launches are collected where one GPU does all of them. */
static gd_status run_levels(const gd_run_args *args, gd_plan *plan)
{
    int levels = 0;
    gd_gpu_list *list = plan->gpu ? &plan->list : NULL;
    if (list) list->count = 0;
    for (int i = 0; i < plan->groups; i++)
        if (plan->group[i].p->levels > levels) levels = plan->group[i].p->levels;
    gd_status status = GD_OK;
    for (int level = 0; level < levels && !status; level++) {
        for (int i = 0; i < plan->groups && !status; i++)
            if (level < plan->group[i].p->levels) status = run_pass(args->ctx, &plan->group[i], level, list);
        if (!status) status = join_level(args, plan, level, list);
    }
    for (int i = 0; i < plan->groups && !status; i++)
        status = run_pass(args->ctx, &plan->group[i], plan->group[i].p->levels, list);
    if (status || !list) return status;
    gd_optimizer *o = args->optimizer;
    bool capture = o && o->capture && args->sink == GD_SINK_PARAMS;
    status = gd__gpu_run(plan->gpu, list, capture ? &plan->graph : NULL);
    if (capture && plan->graph && !status) o->replays++;
    return status;
}

/* ---- after the run ---- */

static void count_step(gd_link *link, gd_mode mode)
{
    bool chain = gd__is_chain(link);
    if (!chain && (mode == GD_MODE_STEP || (mode == GD_MODE_UPDATE) == (link->cls->update_rule != NULL)))
        link->step++;
    if (!chain && mode == GD_MODE_UPDATE) return; /* the rule, which runs the children, did not run */
    for (int i = 0; i < link->children; i++)
        if (gd__fusable(link->child[i])) count_step(link->child[i], chain ? mode : GD_MODE_STEP);
}

/* A GPU computes the numbers that links keep a parameter for itself only: again, here. */
static gd_status fetch_stored(gd_plan_group *g)
{
    if (on_cpu(g) || !stores_scalars(g->p)) return GD_OK;
    gd_status status = gd__gpu_fetch_reduced(g);
    if (!status) fill_scalars(g, &g->pass[g->p->levels]);
    return status;
}

/* What was stored: slots are no longer fresh, scalars go into their entries. */
static gd_status settle(gd_plan_group *g)
{
    const gd_program *p = g->p;
    gd_status status = fetch_stored(g);
    for (int k = 0; k < p->arrays; k++) {
        if (p->array[k].kind != GD_ARRAY_STATE || p->array[k].store < 0) continue;
        for (int m = 0; m < g->members; m++)
            g->array_entry[m * p->arrays + k]->fresh[p->array[k].slot] = false;
    }
    for (int u = 0; u < p->uniforms && !status; u++) {
        if (p->uniform[u].store < 0) continue;
        for (int m = 0; m < g->members; m++)
            g->uniform_entry[m * p->uniforms + u]->scalar[p->uniform[u].index] =
                g->stored[m * p->uniforms + u];
    }
    return status;
}

static gd_status run_plan(const gd_run_args *args, gd_plan *plan)
{
    gd_status status = plan->groups > 1 ? check_alike(args, plan) : GD_OK;
    double total = 0;
    for (int i = 0; i < plan->groups; i++) total += (double)plan->group[i].numel;
    uint64_t numbers = args->optimizer ? args->optimizer->numbers : 0;
    for (int i = 0; i < plan->groups && !status; i++) {
        gd_plan_group *g = &plan->group[i];
        if (plan->numbers != numbers) fill_settings(args, g);
        fill_step_scalars(args, g, total);
        status = fill_pointers(args, g);
        if (!status && !on_cpu(g)) status = gd__gpu_prepare(g);
    }
    if (status) return status;
    plan->numbers = numbers;
    return run_levels(args, plan);
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
    if (!status) status = run_plan(args, plan);
    if (!status && plan->child) *child = plan->child;
    if (!status && !plan->child) {
        for (int i = 0; i < plan->groups && !status; i++) status = settle(&plan->group[i]);
        for (int i = 0; i < args->pendings; i++) count_step(args->pending[i].link, args->pending[i].mode);
        for (int i = 0; args->sink == GD_SINK_PARAMS && i < args->count; i++) gd__touch(args->params[i]);
    }
    if (args->optimizer) {
        args->optimizer->runs++;
        args->optimizer->last_plan = status ? NULL : plan;
    } else
        gd__plans_free(ctx, plan);
    return status;
}

/* ---- steps like the last one ---- */

/* What a group's tables hold stays: nothing comes from the host every step but step counts. */
static bool group_repeats(const gd_plan_group *g)
{
    const gd_program *p = g->p;
    for (int k = 0; k < p->arrays; k++)
        if (p->array[k].kind == GD_ARRAY_HOLE || p->array[k].kind == GD_ARRAY_OUTPUT) return false;
    for (int u = 0; u < p->uniforms; u++) {
        const gd_uniform *f = &p->uniform[u];
        if (f->kind == GD_U_LOSS || f->kind == GD_U_SCALAR || f->kind == GD_U_EXTERNAL) return false;
        if (f->kind != GD_U_FRESH) continue;
        for (int m = 0; m < g->members; m++) {
            const gd_entry *e = g->uniform_entry[m * p->uniforms + u];
            if (g->input[m * p->uniforms + u] != 0 || !e->slot[f->index] || e->fresh[f->index]) return false;
        }
    }
    return true;
}

bool gd__plan_repeats(const gd_plan *plan)
{
    bool repeats = plan->sink == GD_SINK_PARAMS && !plan->child;
    for (int i = 0; i < plan->groups && repeats; i++) repeats = group_repeats(&plan->group[i]);
    return repeats;
}

/* Step counts are the same for all members: kernels of a GPU get those of the first. */
static void fill_step_counts(gd_plan_group *g)
{
    int members = on_cpu(g) ? g->members : 1;
    for (int u = 0; u < g->p->uniforms; u++) {
        const gd_uniform *f = &g->p->uniform[u];
        if (f->kind != GD_U_STEP) continue;
        double count = (double)(f->link->step + g->ahead[u]);
        for (int m = 0; m < members; m++) g->input[m * g->p->uniforms + u] = count < 1 ? 1 : count;
    }
}

gd_status gd__plan_again(gd_optimizer *o, gd_plan *plan, bool *not_finite)
{
    gd_run_args args = {.ctx = o->ctx,
                        .optimizer = o,
                        .params = o->active,
                        .keys = o->active,
                        .count = plan->count,
                        .sink = plan->sink,
                        .not_finite = not_finite};
    gd_status status = GD_OK;
    for (int i = 0; i < plan->groups && !status; i++) {
        gd_plan_group *g = &plan->group[i];
        fill_step_counts(g);
        if (plan->numbers == o->numbers) continue;
        fill_settings(&args, g);
        if (!on_cpu(g)) status = gd__gpu_prepare(g);
    }
    if (!status) plan->numbers = o->numbers;
    if (!status) status = run_levels(&args, plan);
    if (status) return status;
    for (int i = 0; i < plan->pendings; i++) count_step(plan->pending[i].link, plan->pending[i].mode);
    for (int i = 0; i < plan->count; i++) gd__touch(o->active[i]);
    return GD_OK;
}
