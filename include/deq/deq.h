#pragma once

// The whole public surface.

#include "deq/adjoint/adjoint.h"
#include "deq/adjoint/options.h"
#include "deq/core/error.h"
#include "deq/core/linearization.h"
#include "deq/core/report.h"
#include "deq/core/state_layout.h"
#include "deq/core/tolerance.h"
#include "deq/jacobian/frobenius.h"
#include "deq/jacobian/schedule.h"
#include "deq/jacobian/spectrum.h"
#include "deq/nn/cell.h"
#include "deq/nn/equilibrium.h"
#include "deq/solvers/method.h"
#include "deq/solvers/options.h"
#include "deq/solvers/solver.h"
#include "deq/version.h"
