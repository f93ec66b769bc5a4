#include "optim/solve/solve_budget.h"
#include "optim/solve/solve_internal.h"

gd_budget gd__budget_begin(const gd_solve_options *whole, bool each)
{
    return (gd_budget){.whole = whole, .each = each, .begun = gd__seconds()};
}

static bool tell_whole(void *user, const gd_progress *progress)
{
    const gd_budget *b = user;
    gd_progress whole = *progress;
    whole.step += b->steps;
    whole.evals += b->evals;
    whole.seconds = gd__seconds() - b->begun;
    return b->whole->callback(b->whole->callback_user, &whole);
}

static void spend(gd_budget *b, gd_stop reason)
{
    if (!b->spent) b->reason = reason;
    b->spent = true;
}

bool gd__budget_left(gd_budget *b, gd_solve_options *o)
{
    const gd_solve_options *whole = b->whole;
    double seconds = gd__seconds() - b->begun;
    if (whole->max_steps && !b->each && b->steps >= whole->max_steps) spend(b, GD_STOP_MAX_STEPS);
    if (whole->max_evals && b->evals >= whole->max_evals) spend(b, GD_STOP_MAX_EVALS);
    if (whole->max_seconds > 0 && seconds >= whole->max_seconds) spend(b, GD_STOP_TIME);
    *o = *whole;
    if (whole->callback) o->callback = tell_whole, o->callback_user = b;
    if (b->spent) return false;
    if (whole->max_steps && !b->each) o->max_steps = whole->max_steps - b->steps;
    if (whole->max_evals) o->max_evals = whole->max_evals - b->evals;
    if (whole->max_seconds > 0) o->max_seconds = whole->max_seconds - seconds;
    return true;
}

void gd__budget_add(gd_budget *b, const gd_solve_result *result)
{
    b->steps += result->steps;
    b->evals += result->evals;
    if (result->reason == GD_STOP_CALLER) spend(b, GD_STOP_CALLER);
}
