/* DLPack: the memory of other libraries' arrays, and ours for them. */
#include "core.h"
#include "arrays/dl_tensor.h"

#include <gradus/dlpack.h>
#include <stdlib.h>
#include <string.h>

/* The structs of DLPack 1.x; their layout is the format. */
struct DLManagedTensor {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *);
};
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *);
    uint64_t flags;
    dl_tensor tensor;
};

static const char *const plain_name = "dltensor", *const versioned_name = "dltensor_versioned";
static const char *const used_plain = "used_dltensor", *const used_versioned = "used_dltensor_versioned";

PyObject *gd_py_dlpack_device(PyObject *self, PyObject *unused)
{
    (void)unused;
    gd_tensor *t = gd_py_tensor_of(self);
    if (!t) return NULL;
    const char *name = gd_device_name(gd_tensor_device(t)), *colon = strchr(name, ':');
    int gpu = !strncmp(name, "gpu", 3);
    return Py_BuildValue("(ii)", gpu ? 2 : 1, gpu && colon ? (int)strtol(colon + 1, NULL, 10) : 0);
}

/* ---- ours for others ---- */

/* An exported tensor: the library's struct, and the context, which stays until the consumer deletes the tensor. */
typedef struct given {
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    } as;
    gd_py_context *context; /* a reference */
    void *library;
} given;

static void end_library_plain(void *managed)
{
    struct DLManagedTensor *m = managed;
    m->deleter(m);
}
static void end_library_versioned(void *managed)
{
    struct DLManagedTensorVersioned *m = managed;
    m->deleter(m);
}

/* Whoever took it may end it on any thread, with or without the interpreter's lock. */
static void end_given(given *g, void (*end)(void *))
{
    PyGILState_STATE state = PyGILState_Ensure();
    gd_py_release(g->context, end, g->library);
    gd_py_linger(g->context);
    Py_DECREF((PyObject *)g->context);
    PyMem_Free(g);
    PyGILState_Release(state);
}
static void end_given_plain(struct DLManagedTensor *m) { end_given(m->manager, end_library_plain); }
static void end_given_versioned(struct DLManagedTensorVersioned *m)
{
    end_given(m->manager, end_library_versioned);
}

static void end_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, versioned_name)) {
        struct DLManagedTensorVersioned *m = PyCapsule_GetPointer(capsule, versioned_name);
        m->deleter(m);
    } else if (PyCapsule_IsValid(capsule, plain_name)) {
        struct DLManagedTensor *m = PyCapsule_GetPointer(capsule, plain_name);
        m->deleter(m);
    } /* else it has been consumed */
}

/* A capsule over a tensor; NULL with an exception. */
static PyObject *capsule_of(gd_py_context *c, gd_tensor *t, int versioned)
{
    given *g = PyMem_Calloc(1, sizeof *g);
    if (!g) return PyErr_NoMemory();
    g->library = versioned ? (void *)gd_to_dlpack(t) : (void *)gd_to_dlpack_unversioned(t);
    if (!g->library) {
        PyMem_Free(g);
        return gd_py_raise(c);
    }
    g->context = (gd_py_context *)Py_NewRef((PyObject *)c);
    if (versioned) {
        g->as.versioned = *(struct DLManagedTensorVersioned *)g->library;
        g->as.versioned.manager = g;
        g->as.versioned.deleter = end_given_versioned;
    } else {
        g->as.plain = *(struct DLManagedTensor *)g->library;
        g->as.plain.manager = g;
        g->as.plain.deleter = end_given_plain;
    }
    PyObject *capsule = PyCapsule_New(&g->as, versioned ? versioned_name : plain_name, end_capsule);
    if (!capsule) end_given(g, versioned ? end_library_versioned : end_library_plain);
    return capsule;
}

static PyObject *find_keyword(PyObject *const *args, Py_ssize_t n, PyObject *names, const char *name)
{
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), name) == 0) return args[n + i];
    return NULL;
}

PyObject *gd_py_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *version = find_keyword(args, n, names, "max_version"),
             *copy = find_keyword(args, n, names, "copy");
    gd_tensor *t = gd_py_tensor_of(self), *shown = t;
    long major = 0;
    if (!t) return NULL;
    gd_py_context *c = ((gd_py_tensor *)self)->head.owner;
    if (version && PyTuple_Check(version) && PyTuple_Size(version) > 0)
        major = PyLong_AsLong(PyTuple_GetItem(version, 0));
    if (PyErr_Occurred()) return NULL;
    /* a consumer of the old protocol, which has no read-only flag, gets a copy unless it refuses copies */
    int copied = copy == Py_True || (major < 1 && copy != Py_False && gd_is_read_only(t));
    if (copied && !(shown = gd_copy(t))) return gd_py_raise(c);
    PyObject *capsule = capsule_of(c, shown, major > 0);
    if (shown != t) gd_release(shown);
    if (capsule && strncmp(gd_device_name(gd_tensor_device(t)), "cpu", 3))
        (void)gd_device_sync(gd_tensor_device(t));
    return capsule;
}

/* ---- others' for us ---- */

static PyObject *ask_capsule(PyObject *object)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *keywords = method ? Py_BuildValue("{s:(ii)}", "max_version", 1, 0) : NULL;
    PyObject *capsule = keywords ? PyObject_Call(method, gd_py.empty_tuple, keywords) : NULL;
    if (!capsule && method && PyErr_ExceptionMatches(PyExc_TypeError)) { /* older than versions */
        PyErr_Clear();
        capsule = PyObject_CallNoArgs(method);
    }
    Py_XDECREF(keywords);
    Py_XDECREF(method);
    return capsule;
}

static void end_fixed(struct DLManagedTensorVersioned *m)
{
    struct DLManagedTensor *plain = m->manager;
    if (plain->deleter) plain->deleter(plain); /* DLPack: NULL where there is nothing to free */
    free(m);                                   /* of C: the interpreter's lock may not be held */
}

/* Imports a capsule of the protocol without versions, as read-only; NULL with an exception, and the capsule unused. */
static struct DLManagedTensorVersioned *fixed_form(struct DLManagedTensor *plain)
{
    struct DLManagedTensorVersioned *m = malloc(sizeof *m);
    if (!m) return (void *)PyErr_NoMemory();
    *m = (struct DLManagedTensorVersioned){
        .major = 1, .manager = plain, .deleter = end_fixed, .flags = GD_READ_ONLY, .tensor = plain->tensor};
    return m;
}

/* The form without versions cannot say that memory must not be changed.  Arrays of JAX and TensorFlow never change and come in it;
 * NumPy does not give away in it what may not be changed, and tensors of PyTorch and CuPy may all be. */
static int may_change(PyObject *object)
{
    static const char *const root[] = {"numpy", "torch", "cupy"};
    PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__module__");
    const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
    int found = PyCapsule_CheckExact(object);
    for (size_t i = 0; i < sizeof root / sizeof *root && name && !found; i++) {
        size_t n = strlen(root[i]);
        found = !strncmp(name, root[i], n) && (name[n] == '.' || !name[n]);
    }
    PyErr_Clear();
    Py_XDECREF(module);
    return found;
}

static gd_tensor *take_plain(gd_py_context *c, PyObject *object, struct DLManagedTensor *managed)
{
    if (may_change(object)) return gd_from_dlpack_unversioned(c->ctx, managed);
    struct DLManagedTensorVersioned *fixed = fixed_form(managed);
    gd_tensor *t = fixed ? gd_from_dlpack(c->ctx, fixed) : NULL;
    if (!t) free(fixed);
    return t;
}

PyObject *gd_py_from_dlpack(PyObject *module, PyObject *object)
{
    (void)module;
    gd_py_context *c = gd_py_current();
    PyObject *capsule = !c ? NULL : PyCapsule_CheckExact(object) ? Py_NewRef(object) : ask_capsule(object);
    if (!capsule) return NULL;
    int versioned = PyCapsule_IsValid(capsule, versioned_name);
    void *managed = PyCapsule_GetPointer(capsule, versioned ? versioned_name : plain_name);
    PyObject *result = NULL;
    if (managed) {
        gd_tensor *t = versioned ? gd_from_dlpack(c->ctx, managed) : take_plain(c, object, managed);
        if (t) (void)PyCapsule_SetName(capsule, versioned ? used_versioned : used_plain);
        result = t || !PyErr_Occurred() ? gd_py_new_tensor(c, t) : NULL;
    }
    Py_DECREF(capsule);
    return result;
}
