/* Running plans: what a step changes goes into the tables of their programs, what it makes comes back to the links. */
#include "optim/plan/plan.h"

#include <math.h>

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
        double *input = g->run->input + m * g->run->p->uniforms;
        for (int u = 0; u < g->run->p->uniforms; u++) {
            const gd_uniform *f = &g->run->p->uniform[u];
            if (f->kind == GD_U_SETTING)
                input[u] = number_of(gd__resolve(f->owner, f->index, args->keys[i]));
            else if (f->kind == GD_U_NUMEL)
                input[u] = (double)args->params[i]->numel;
        }
    }
}

/* What changes every step. */
static void fill_step_scalars(const gd_run_args *args, gd_plan_group *g, double total)
{
    int uniforms = g->run->p->uniforms;
    for (int u = 0; u < uniforms; u++) {
        const gd_uniform *f = &g->run->p->uniform[u];
        if (f->kind == GD_U_SETTING || (f->kind == GD_U_NUMEL && f->index == GD_EACH)) continue;
        double same = 0;
        if (f->kind == GD_U_STEP) {
            /* an apply after an update of its own counts as that update did */
            same = (double)(((const gd_link *)f->owner)->step + g->ahead[u]);
            if (same < 1) same = 1;
        } else
            same = f->kind == GD_U_LOSS ? args->loss : total;
        for (int m = 0; m < g->members; m++) {
            const gd_entry *e = g->uniform_entry[m * uniforms + u];
            double *input = &g->run->input[m * uniforms + u];
            if (f->kind == GD_U_KEY)
                *input = gd__link_key(f->owner, args->keys[g->position[m]], g->position[m]);
            else if (f->kind == GD_U_FRESH)
                *input = e->slot[f->index] == NULL || e->fresh[f->index];
            else
                *input = f->kind == GD_U_SCALAR ? e->scalar[f->index] : same;
        }
    }
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
    if (!slot) slot = gd__entry_slot(a->owner, e, a->slot, a->dtype, param);
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
    int arrays = g->run->p->arrays;
    for (int m = 0; m < g->members; m++) {
        int i = g->position[m];
        char **pointer = g->run->pointer + m * arrays;
        for (int k = 0; k < arrays && !status; k++) {
            const gd_array *a = &g->run->p->array[k];
            switch (a->kind) {
            case GD_ARRAY_INPUT: pointer[k] = args->input[i]->data; break;
            case GD_ARRAY_PARAM: pointer[k] = args->params[i]->data; break;
            case GD_ARRAY_GRAD: pointer[k] = args->grad[i]->data; break;
            case GD_ARRAY_HOLE: pointer[k] = args->hole[a->slot][i]->data; break;
            case GD_ARRAY_RANDOM: break;
            case GD_ARRAY_OUTPUT: pointer[k] = args->output[i]->data; break;
            case GD_ARRAY_STATE:
                status = state_pointer(a, g->array_entry[m * arrays + k], args->params[i], &pointer[k]);
            }
        }
    }
    return status;
}

/* ---- after the run ---- */

static void count_link(void *user, gd_link *link)
{
    (void)user;
    link->step++;
}

static void count_steps(const gd_pending *pending, int pendings)
{
    for (int i = 0; i < pendings; i++) gd__each_counted(pending[i].link, pending[i].mode, count_link, NULL);
}

/* What was stored: slots are no longer fresh, scalars go into their entries. */
static gd_status settle(gd_plan_group *g)
{
    const gd_program *p = g->run->p;
    gd_status status = gd__exec_fetch_stored(g->run);
    for (int k = 0; k < p->arrays; k++) {
        if (p->array[k].kind != GD_ARRAY_STATE || p->array[k].store < 0) continue;
        for (int m = 0; m < g->members; m++)
            g->array_entry[m * p->arrays + k]->fresh[p->array[k].slot] = false;
    }
    for (int u = 0; u < p->uniforms && !status; u++) {
        if (p->uniform[u].store < 0) continue;
        for (int m = 0; m < g->members; m++)
            g->uniform_entry[m * p->uniforms + u]->scalar[p->uniform[u].index] =
                g->run->stored[m * p->uniforms + u];
    }
    return status;
}

static gd_status run_set(const gd_run_args *args, gd_plan *plan)
{
    gd_optimizer *o = args->optimizer;
    gd_exec_run run = {.replay = o && o->capture && args->sink == GD_SINK_PARAMS};
    gd_status status = gd__execs_run(&plan->set, &run);
    if (run.replayed) o->replays++;
    if (run.not_finite && args->not_finite) *args->not_finite = true;
    return status;
}

static gd_status run_plan(const gd_run_args *args, gd_plan *plan)
{
    gd_status status = GD_OK;
    double total = 0;
    for (int i = 0; i < plan->set.tables; i++) total += (double)plan->group[i].numel;
    uint64_t numbers = args->optimizer ? args->optimizer->numbers : 0;
    for (int i = 0; i < plan->set.tables && !status; i++) {
        gd_plan_group *g = &plan->group[i];
        if (plan->numbers != numbers) fill_settings(args, g);
        fill_step_scalars(args, g, total);
        status = fill_pointers(args, g);
        if (!status) status = gd__exec_send(g->run);
    }
    if (status) return status;
    plan->numbers = numbers;
    return run_set(args, plan);
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
        for (int i = 0; i < plan->set.tables && !status; i++) status = settle(&plan->group[i]);
        count_steps(args->pending, args->pendings);
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
    const gd_program *p = g->run->p;
    for (int k = 0; k < p->arrays; k++)
        if (p->array[k].kind == GD_ARRAY_HOLE || p->array[k].kind == GD_ARRAY_OUTPUT) return false;
    for (int u = 0; u < p->uniforms; u++) {
        const gd_uniform *f = &p->uniform[u];
        if (f->kind == GD_U_KEY || f->kind == GD_U_LOSS || f->kind == GD_U_SCALAR || f->kind == GD_U_EXTERNAL)
            return false;
        if (f->kind != GD_U_FRESH) continue;
        for (int m = 0; m < g->members; m++) {
            const gd_entry *e = g->uniform_entry[m * p->uniforms + u];
            if (g->run->input[m * p->uniforms + u] != 0 || !e->slot[f->index] || e->fresh[f->index])
                return false;
        }
    }
    return true;
}

bool gd__plan_repeats(const gd_plan *plan)
{
    bool repeats = plan->sink == GD_SINK_PARAMS && !plan->child;
    for (int i = 0; i < plan->set.tables && repeats; i++) repeats = group_repeats(&plan->group[i]);
    return repeats;
}

/* Step counts are the same for all members: kernels of a device get those of the first. */
static void fill_step_counts(gd_plan_group *g)
{
    int members = gd__exec_by_host(g->run) ? g->members : 1;
    for (int u = 0; u < g->run->p->uniforms; u++) {
        const gd_uniform *f = &g->run->p->uniform[u];
        if (f->kind != GD_U_STEP) continue;
        double count = (double)(((const gd_link *)f->owner)->step + g->ahead[u]);
        for (int m = 0; m < members; m++) g->run->input[m * g->run->p->uniforms + u] = count < 1 ? 1 : count;
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
    for (int i = 0; i < plan->set.tables && !status; i++) {
        gd_plan_group *g = &plan->group[i];
        fill_step_counts(g);
        if (plan->numbers == o->numbers) continue;
        fill_settings(&args, g);
        status = gd__exec_send(g->run);
    }
    if (!status) plan->numbers = o->numbers;
    if (!status) status = run_set(&args, plan);
    if (status) return status;
    count_steps(plan->pending, plan->pendings);
    for (int i = 0; i < plan->count; i++) gd__touch(o->active[i]);
    return GD_OK;
}
