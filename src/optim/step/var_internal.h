/* The inside of step variables and closures: lazy loss, gradient and update, and the objective as links see and change it.
 *
 * Belongs here: one step.  Does not: data kept between steps (link/owner.h, plan/plan.h). */
#ifndef GD_OPTIM_STEP_VAR_INTERNAL_H
#define GD_OPTIM_STEP_VAR_INTERNAL_H

#include "optim/plan/run.h"
#include "optim/vector/origin.h"

/* ---- closures: the objective, possibly seen through links ---- */

enum { GD_EVAL_BACKWARD = 1, GD_EVAL_HISTORY = 2, GD_EVAL_GRAPH = 4 };

struct gd_closure {
    /* *loss and grads[0..count) are owned references; grads is NULL without BACKWARD. */
    gd_status (*eval)(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads);
    gd_closure *below; /* NULL for the objective itself */
    const gd_objective *objective;
    gd_reformulate_fn reformulate;
    gd_status (*estimate)(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads);
    gd_wrap_fn wrap;
    gd_term_fn term; /* added to factor times the loss */
    double factor;
    bool scoped; /* wrap makes new tensors, as users' functions do; else owned ones */
    void *user;
    gd_link *link;         /* target = "closure" */
    gd_closure *next_made; /* all closures of a step, freed at its end */
};

/* ---- the variable of a step ---- */

/* Data shared by a var and its clones. */
typedef struct gd_step_share {
    struct {
        gd_hook_fn fn;
        void *user;
    } * hook;
    int hooks;
    const gd_step_extra *extra;
    struct gd_attr *stored; /* what links put into the storage */
    int stores;
    bool search_failed, skipped, not_finite;
    bool flat;      /* a search began where the gradient is 0 */
    bool no_number; /* the last trial of a search was not finite: it reached the edge of the loss's domain */
    bool endless;   /* the longest step that a search would take was still downhill */
    /* bounds: largest element, 1-norm and square of the 2-norm of x - P(x - g) where it was last looked at; where that was
     * first; and whether every element has two of them */
    double kkt, kkt_sum, kkt_square, first_kkt;
    bool boxed;
    double violation, violation_tol; /* of constraints, see gd_var_note_constraints; NAN: not evaluated */
    bool solved, infeasible;
    const char *wants_residuals; /* the class of a link, static; NULL: none does; see gd_var_want_residuals */
    bool many_minima;            /* see gd_var_note_search */
    gd_outcome outcome;
    struct gd_memo *points; /* constraints in this step, if the optimizer remembers nothing; owned, or NULL */
} gd_step_share;

void gd__share_clear(gd_ctx *ctx, gd_step_share *share); /* frees what it holds */

struct gd_var {
    gd_ctx *ctx;
    gd_tensor *const *params; /* borrowed */
    gd_optimizer *optimizer;
    gd_tensor *const *keys; /* whose state links use: the parameters, unless states are given explicitly */
    int64_t step;
    int count;
    gd_var *parent; /* from here on 0 at first */
    gd_closure *closure;
    gd_tensor *loss, *loss_approx; /* owned */
    gd_tensor **grad;              /* owned array of owned tensors, or NULL */
    gd_tensor **update;            /* the same; NULL: the gradient */
    gd_tensor *const *leaf_grad; /* borrowed: gradients of leaves for which no list was needed yet, or NULL */
    gd_step_share *share;
    gd_link *curved; /* the last link that ran and has a Hessian; borrowed */
    double *last_lrs;
    uint64_t sides;    /* the optimizer's counter when held elements were determined here; 0: never */
    gd_tensor **given; /* bounded: the input of `curved`; owned or NULL */
    int64_t kept;      /* the optimizer's counter when the gradient was evaluated */
    bool shards;       /* of leaf_grad this rank has what it owns, see ranks/share.h */
    bool own;          /* the same for the update */
    bool grad_history;
    bool update_is_grad; /* no update yet */
    bool bounded;        /* its parameters have bounds, see bounds.h */
    bool masked;         /* the update is the gradient, 0 where a bound holds */
    bool answered;       /* the update is the result of `curved` for `given` */
    bool is_last, nested_is_last, stop, skip, held;
    int8_t terminate; /* -1: not set */
    int pendings;
    gd_pending pending[GD_MAX_PENDING]; /* last: only the used elements are ever written */
};

gd_status gd__var_flush(gd_var *var, gd_sink sink);
/* Has every parameter, or a shard of it, an owner among several ranks, and are all on one device? */
bool gd__var_is_cut(const gd_var *var);
/* And is that the CPU, so that links that are not rules can work on a rank's shard of the update? */
bool gd__var_is_owned(const gd_var *var);
/* And can plain loops run over their elements, the update and the gradient: all of one dtype, contiguous? */
bool gd__var_has_elements(const gd_var *var);
/* This rank's shards of the update so far (gd__share_list); borrowed, NULL with the error recorded. */
gd_tensor *const *gd__var_own_update(gd_var *var);
/* Sets the update to this list of this rank's shards; takes the list over, also on failure. */
gd_status gd__var_set_own_update(gd_var *var, gd_tensor **list);
/* Every link of a chain, or the single link. */
gd_status gd__each_link(gd_link *link, gd_var *var, gd_status (*fn)(gd_link *link, gd_var *var));
/* May a step of the link be pending with others? Of a chain, all links, unless they are too many for a program. */
bool gd__joins(gd_link *link, const gd_var *var);
/* Appends a fusable link. */
gd_status gd__var_append(gd_var *var, gd_link *link, gd_mode mode);
/* Loss and gradient if not there yet; flags as for closures. */
gd_status gd__var_need_grad(gd_var *var, bool history);
gd_tensor **gd__tensors_new(gd_ctx *ctx, int count); /* zeroed array */
void gd__tensors_free(gd_ctx *ctx, gd_tensor **t,
                      int count); /* releases entries and the array; NULL is fine */
/* Owned tensors become new ones: the innermost scope's, or the caller's.  All of them or, when there is no memory, none. */
gd_status gd__give_out(gd_ctx *ctx, gd_tensor **t, int count);
void gd__var_init(gd_var *var, gd_optimizer *optimizer, gd_ctx *ctx, gd_tensor *const *params, int count);
void gd__var_clear(gd_var *var);

/* Owned references of all in a new list; NULL for NULL, or with NOMEM recorded. */
gd_tensor **gd__tensors_share(gd_ctx *ctx, gd_tensor *const *t, int count);
/* Owned copies of all in a new list, without history; NULL with the error recorded. */
gd_tensor **gd__tensors_copy(gd_ctx *ctx, gd_tensor *const *t, int count);
/* Input for kernels, which stream memory in the order of the parameters' elements: t itself, or if one has a different layout than its
 * parameter *copies, a list of owned tensors and else NULL.  NULL for NULL, or with the error recorded. */
gd_tensor *const *gd__tensors_laid(gd_ctx *ctx, gd_tensor *const *t, gd_tensor *const *params, int count,
                                   gd_tensor ***copies);
/* Owned, uninitialised tensors like these in a new list; NULL with the error recorded. */
gd_tensor **gd__tensors_like(gd_ctx *ctx, gd_tensor *const *t, int count);
/* Brings the entries of an owned list into the order of their parameters' names and labels, then checks them as below. */
gd_status gd__lsq_like(gd_ctx *ctx, const char *what, gd_tensor **t, gd_tensor *const *params, int count);

/* On failure everything is released and NULL. */
/* True when the objective itself has products with its Hessian, and no link has changed it. */
bool gd__var_gives_products(const gd_var *var);
/* And do they belong to a gradient that it has kept? */
bool gd__var_keeps_products(const gd_var *var);
/* True when products come from the objective or from a graph; false: only gradients are available. */
bool gd__var_has_products(const gd_var *var);
bool gd__var_has_graph(const gd_var *var); /* false: products are differences of gradients */
/* The objective behind the closures; NULL without one. */
const gd_objective *gd__objective_of(const gd_var *var);
/* SHAPE where the step wants residuals and the objective returned one number. */
gd_status gd__check_residuals(gd_var *var, bool one_number);
/* The largest violation of its constraints where the parameters are; 0 if there are none. */
gd_status gd__violation(gd_var *var, double *most);
gd_status gd__closure_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads);
gd_closure *gd__closure_push(gd_var *var);
/* Loss and gradients with their graph, by autograd's chain rule, of the function `make` of the inner loss: new, or NULL. */
gd_status gd__closure_graph(gd_closure *c, gd_var *var, gd_tensor *(*make)(gd_closure *c, gd_tensor *below),
                            gd_tensor **loss, gd_tensor **grads);
/* A var over some of the parameters of another, in their order: evaluates the other's closure and takes the gradients of its
 * own. */
gd_status gd__closure_part(gd_var *part, gd_var *whole);
/* Like the public functions of these names, but their results, or those of fn, are owned by the caller whatever the scope. */
gd_status gd__var_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
gd_status gd__var_inner_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
gd_status gd__var_wrap_closure(gd_var *var, gd_wrap_fn fn, void *user);
/* Loss and gradients (owned; either may be NULL) at params + alpha * direction, and back to the origin that was kept. */
GD_NODISCARD gd_status gd__var_try(gd_var *var, gd_origin *here, double alpha, gd_tensor *const *direction,
                                   double *loss, gd_tensor **grads);
/* gd_var_evaluate_moved and gd_var_evaluate_around with owned gradients. */
GD_NODISCARD gd_status gd__evaluate_moved(gd_var *var, double alpha, gd_tensor *const *direction,
                                          double *loss, gd_tensor **grads);
GD_NODISCARD gd_status gd__evaluate_around(gd_var *var, double *h, gd_tensor *const *direction,
                                           double *losses, gd_tensor **ahead, gd_tensor **behind);
/* Zeros like the parameters, of the innermost scope. */
gd_status gd__zeros_like_params(gd_var *var, gd_tensor **out);
/* Entries of tensors are owned: each is released and a new one put in its place. */
gd_status gd__link_transform(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                             gd_tensor *const *grads, gd_var *var, int count);
gd_status gd__objective_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss,
                             gd_tensor **grads);

#endif
