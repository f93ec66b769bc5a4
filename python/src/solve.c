/* gd_minimize and gd_least_squares with Python functions. */
#include "core.h"

PyMethodDef gd_py_solve_functions[] = {{NULL, NULL, 0, NULL}};
