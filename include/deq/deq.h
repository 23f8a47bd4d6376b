#pragma once

// All that a model of your own needs, and nothing else. The models of the paper are in
// <deq/models.h>, what trains and reports in <deq/lab/…>.

#include "deq/adjoint/adjoint.h"
#include "deq/adjoint/options.h"
#include "deq/core/cell.h"
#include "deq/core/cuda.h"
#include "deq/core/error.h"
#include "deq/core/interruption.h"
#include "deq/core/linearization.h"
#include "deq/core/precision.h"
#include "deq/core/replay.h"
#include "deq/core/report.h"
#include "deq/core/state_layout.h"
#include "deq/core/tolerance.h"
#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/schedule.h"
#include "deq/jacobian/spectrum.h"
#include "deq/jacobian/tangent.h"
#include "deq/nn/equilibrium.h"
#include "deq/nn/fixed_point.h"
#include "deq/nn/variational_dropout.h"
#include "deq/nn/weight_norm.h"
#include "deq/solvers/method.h"
#include "deq/solvers/options.h"
#include "deq/solvers/solver.h"
#include "deq/version.h"
