/* gradus/gradus.h: everything. */
#ifndef GRADUS_H
#define GRADUS_H

#include "gradus/autograd.h"
#include "gradus/base.h"
#include "gradus/chain.h"
#include "gradus/class.h"
#include "gradus/dlpack.h"
#include "gradus/estimate.h"
#include "gradus/expr.h"
#include "gradus/file.h"
#include "gradus/fit.h"
#include "gradus/hessian.h"
#include "gradus/layers.h"
#include "gradus/line.h"
#include "gradus/link.h"
#include "gradus/linop.h"
#if __has_include("gradus/links.h")
#include "gradus/links.h" /* made by the build */
#endif
#include "gradus/list.h"
#include "gradus/lsq.h"
#include "gradus/matrices.h"
#include "gradus/module.h"
#include "gradus/optim.h"
#include "gradus/plot.h"
#include "gradus/plugin.h"
#include "gradus/presets.h"
#include "gradus/projection.h"
#include "gradus/quasi_newton.h"
#include "gradus/rule.h"
#include "gradus/schedule.h"
#include "gradus/search.h"
#include "gradus/solve.h"
#include "gradus/table.h"
#include "gradus/tensor.h"
#include "gradus/trace.h"
#include "gradus/train.h"
#include "gradus/trust_region.h"
#include "gradus/var.h"
#include "gradus/version.h"
#include "gradus/world.h"

#endif
