/* Operator cases as functions to trace: what the suites of the CPU and of devices share. */
#ifndef GD_TESTS_TRACE_CASES_H
#define GD_TESTS_TRACE_CASES_H

#include "support/op_cases.h"
#include "trace/trace_support.h"

typedef struct job {
    const op_case *c;
    case_inputs *now;
    gd_ctx *ctx;
    gd_tensor *there[MAX_OPERANDS];
} job;

static inline gd_tensor *operator_of(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    const job *j = user;
    return case_apply(j->now, j->ctx, in);
}

static inline gd_tensor *loss_of(void *user, gd_tensor *const *in, int count)
{
    return gd_sum(gd_square(gd_drop_names(operator_of(user, in, count))), NULL, false);
}

/* Functions that replayed, that were refused, and failures. */
static int traced, untraced, wrong;

static inline void differs(const job *j, const char *what, int call)
{
    print_message("%s of %s in layout %s differs in call %d\n", what, j->c->name,
                  layout_names[j->now->layout], call + 1);
    wrong++;
}

/* Counts what became of a function.  One that was refused is a failure unless it may be. */
static inline void settle_as(const job *j, const char *what, const gd_traced *f, bool may_be_refused)
{
    traced += replays(f);
    if (!explained(f, "not traced")) return;
    untraced++;
    if (may_be_refused) return;
    char text[2048];
    (void)gd_explain_trace(f, text, sizeof text);
    print_message("%s of %s: %s", what, j->c->name, text);
    wrong++;
}

#endif
