/* Values that functions of the user read on the host while operators record: float(x[0]), math.sin(x), np.asarray(x).  No gradient
 * flows through what is computed from them, so a step warns, and minimize takes differences. */
#include "core.h"

#include <string.h>

void gd_py_reads_begin(gd_py_context *c, gd_py_reads *reads, int *warn)
{
    *reads = (gd_py_reads){.outer = c->reads, .warn = warn};
    c->reads = reads;
}

void gd_py_reads_end(gd_py_context *c, gd_py_reads *reads) { c->reads = reads->outer; }

/* New references; NULL where there is none. */
static PyObject *attribute(PyObject *o, const char *name)
{
    PyObject *found = o ? PyObject_GetAttrString(o, name) : NULL;
    PyErr_Clear();
    return found;
}

/* The frame that called the package, new; NULL: there is none. */
static PyObject *frame_of_caller(void)
{
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    while (frame && frame != Py_None && gd_py_is_ours(frame)) {
        PyObject *back = attribute(frame, "f_back");
        Py_DECREF(frame);
        frame = back;
    }
    if (frame == Py_None) gd_py_set(&frame, NULL);
    return frame;
}

static const char says[] =
    "a value that depends on the parameters is read on the host here: no gradient flows through what is "
    "computed from it; read detach() of it where none is to";

static int warn_at(PyObject *file, long line)
{
    const char *path = file ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
    PyErr_Clear();
    return PyErr_WarnExplicit(gd_py.warning, says, path ? path : "<unknown>", (int)line, NULL, NULL) == 0;
}

int gd_py_note_read(PyObject *tensor)
{
    gd_py_context *c = ((gd_py_tensor *)tensor)->head.owner;
    gd_tensor *t = ((gd_py_tensor *)tensor)->t;
    gd_py_reads *reads = c ? c->reads : NULL;
    if (!reads || reads->where || !t || !gd_requires_grad(t) || !gd_grad_enabled(c->ctx)) return 1;
    PyObject *frame = frame_of_caller(), *code = attribute(frame, "f_code");
    PyObject *number = attribute(frame, "f_lineno"), *file = attribute(code, "co_filename");
    long line = number ? PyLong_AsLong(number) : 0;
    PyErr_Clear();
    reads->where = file ? PyUnicode_FromFormat("%U, line %ld", file, line) : PyUnicode_FromString("unknown");
    int fine = reads->where != NULL;
    if (fine && reads->warn && *reads->warn) {
        *reads->warn = 0;
        fine = warn_at(file, line);
    }
    Py_XDECREF(frame);
    Py_XDECREF(code);
    Py_XDECREF(number);
    Py_XDECREF(file);
    return fine;
}
