/* The view of a step for the functions of a link written in Python.
 *
 * Python holds a capsule and asks by name (_var_call): var.c answers what the step is about, link_view.c what belongs to the link,
 * closures.c changes the objective.  The capsule ends with the call, so that what somebody keeps says so when it is used; variables
 * that were made during the call (clones, parents) end with it. */
#ifndef GD_PYTHON_VIEW_H
#define GD_PYTHON_VIEW_H

#include "core.h"

typedef struct gd_py_view {
    gd_link *link;
    gd_var *var;           /* NULL: outside a step */
    const gd_transform *t; /* NULL: the link sees no lists of tensors */
    gd_py_context *c;
    PyObject *hooks;         /* functions that wait for the end of a step; borrowed */
    struct gd_py_view *root; /* of what was made during the call; NULL: this is the call's own */
    PyObject *made;          /* capsules of that; NULL: none */
    int owned;               /* the variable is freed with the call */
} gd_py_view;

typedef struct gd_py_question {
    const char *name;
    PyObject *(*fn)(gd_py_view *, PyObject *arguments);
    int of_step; /* is it an error outside a step? */
} gd_py_question;

extern const gd_py_question gd_py_link_questions[], gd_py_closure_questions[]; /* end with a NULL name */

/* The capsule of a view, new; and its end, with all that was made. */
PyObject *gd_py_view_open(gd_py_view *v);
void gd_py_view_close(gd_py_view *v, PyObject *capsule);
/* The view in a capsule; NULL with an exception if its call is over. */
gd_py_view *gd_py_view_of(PyObject *capsule);
/* Calls a method with the capsule of a view.  New; NULL with an exception. */
PyObject *gd_py_call_with_view(PyObject *object, const char *method, gd_py_view *v);
/* The same for a function of the library without results. */
gd_status gd_py_run_with_view(PyObject *object, const char *method, gd_py_view *v);

/* Lists of as many tensors as the variable has parameters. */
PyObject *gd_py_borrowed_list(gd_py_view *v, gd_tensor *const *t, int count);
/* Borrowed, for PyMem_Free; NULL with an exception, which names `what`. */
gd_tensor **gd_py_tensors_of(PyObject *list, const char *what, int count);
/* (loss, gradients or None) of an evaluation; args: backward. */
PyObject *gd_py_evaluate(gd_py_view *v, PyObject *args,
                         gd_status (*evaluate)(gd_var *var, gd_tensor **loss, gd_tensor **grads));
PyObject *gd_py_none_or_raise(gd_py_view *v, gd_status status);

/* closures.c: the Hessian that a link's get_H gives; NULL without an error if it gives none. */
gd_linop *gd_py_hessian_of(PyObject *object, gd_py_view *v);

#endif
