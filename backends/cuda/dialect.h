/* The words of emitted programs; needs no CUDA header, so that tests can run them without a GPU. */
#ifndef GD_CUDA_DIALECT_H
#define GD_CUDA_DIALECT_H

#include "program/dialect.h"

extern const gd_dialect cuda_dialect;

#endif
