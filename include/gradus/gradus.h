/* gradus/gradus.h: everything. */
#ifndef GRADUS_H
#define GRADUS_H

#include "gradus/autograd.h"
#include "gradus/base.h"
#include "gradus/class.h"
#include "gradus/file.h"
#include "gradus/layers.h"
#include "gradus/module.h"
#include "gradus/tensor.h"

#endif
