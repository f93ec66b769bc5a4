/* gradus/gradus.h: everything. */
#ifndef GRADUS_H
#define GRADUS_H

#include "gradus/autograd.h"
#include "gradus/base.h"
#include "gradus/chain.h"
#include "gradus/class.h"
#include "gradus/dlpack.h"
#include "gradus/expr.h"
#include "gradus/file.h"
#include "gradus/fit.h"
#include "gradus/layers.h"
#include "gradus/link.h"
#include "gradus/link/estimate.h"
#include "gradus/link/hessian.h"
#include "gradus/link/line.h"
#include "gradus/link/linop.h"
#include "gradus/link/list.h"
#include "gradus/link/matrices.h"
#include "gradus/link/plugin.h"
#include "gradus/link/projection.h"
#include "gradus/link/quasi_newton.h"
#include "gradus/link/rule.h"
#include "gradus/link/search.h"
#include "gradus/link/trust_region.h"
#include "gradus/link/var.h"
#if __has_include("gradus/links.h")
#include "gradus/links.h" /* made by the build */
#endif
#include "gradus/lsq.h"
#include "gradus/module.h"
#include "gradus/optim.h"
#include "gradus/plot.h"
#include "gradus/presets.h"
#include "gradus/schedule.h"
#include "gradus/solve.h"
#include "gradus/table.h"
#include "gradus/tensor.h"
#include "gradus/trace.h"
#include "gradus/train.h"
#include "gradus/version.h"
#include "gradus/world.h"

#endif
