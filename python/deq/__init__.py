"""Deep equilibrium models: networks whose output is the fixed point z* = f(z*; x) of one layer."""

import torch

from deq import _torch_version

_torch_version.check(torch.__version__)

from deq import models  # noqa: E402
from deq._core import (  # noqa: E402
    Anderson,
    Broyden,
    ConstantSchedule,
    ConvergenceError,
    Equilibrated,
    EquilibriumOptions,
    EquilibriumPlan,
    Error,
    Hutchinson,
    Implicit,
    JacobianFree,
    LimitedBroyden,
    Linearization,
    LinearSchedule,
    NewtonKrylov,
    Phantom,
    Picard,
    ProbeKey,
    Progress,
    Report,
    Reversible,
    SampleReport,
    Schedule,
    Shine,
    Solution,
    Solver,
    SpectralRadius,
    SpectralRadiusOptions,
    StaircaseSchedule,
    StreamCost,
    Tangent,
    TracePoint,
    Truncated,
    Unrolled,
    __version__,
    cuda_status,
)
from deq.dropout import VariationalDropout  # noqa: E402
from deq.jacobian import (  # noqa: E402
    dense_jacobian,
    frobenius_squared,
    jacobian_penalty,
    linsley_penalty,
    spectral_penalty,
    spectral_radius,
    squared_gain,
    tangent,
)
from deq.layer import Cell, Equilibrium, fixed_point, path_distance, start_distance, step_distance  # noqa: E402
from deq.mixing import LearntMixing, mixing_loss  # noqa: E402
from deq.runs import load, read_metrics, report  # noqa: E402
from deq.stream import Stream  # noqa: E402
from deq.torchdeq import get_deq  # noqa: E402
from deq.training import Trainer  # noqa: E402

__all__ = [
    "Anderson",
    "Broyden",
    "Cell",
    "ConstantSchedule",
    "ConvergenceError",
    "Equilibrated",
    "Equilibrium",
    "EquilibriumOptions",
    "EquilibriumPlan",
    "Error",
    "Hutchinson",
    "Implicit",
    "JacobianFree",
    "LimitedBroyden",
    "LearntMixing",
    "LinearSchedule",
    "Linearization",
    "NewtonKrylov",
    "Phantom",
    "Picard",
    "ProbeKey",
    "Progress",
    "Report",
    "Reversible",
    "SampleReport",
    "Schedule",
    "Shine",
    "Solution",
    "Solver",
    "SpectralRadius",
    "SpectralRadiusOptions",
    "StaircaseSchedule",
    "Stream",
    "StreamCost",
    "Tangent",
    "TracePoint",
    "Trainer",
    "Truncated",
    "Unrolled",
    "VariationalDropout",
    "__version__",
    "cuda_status",
    "dense_jacobian",
    "fixed_point",
    "frobenius_squared",
    "get_deq",
    "jacobian_penalty",
    "linsley_penalty",
    "load",
    "mixing_loss",
    "models",
    "path_distance",
    "read_metrics",
    "report",
    "spectral_penalty",
    "spectral_radius",
    "squared_gain",
    "start_distance",
    "step_distance",
    "tangent",
]

# Messages, pickles and help() name these by where users find them.
for _name in __all__:
    if str(getattr(globals()[_name], "__module__", "")).startswith("deq."):
        globals()[_name].__module__ = "deq"
