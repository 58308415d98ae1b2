"""Trace a Python function by running it once on tensors that record the operations on them."""

from meshgen.frontend.tracer import (  # Importing these modules registers their operations in OPS.
    control_flow,
    convolutions,
    creation,
    einsum,
    elementwise,
    fft,
    indexing,
    joining,
    linalg,
    linear,
    logic,
    manual,
    nn,
    random,
    reduce,
    rounding,
    scans,
    searching,
    shapes,
    statistics,
    updates,
)
from meshgen.frontend.tracer.dtypes import CONSTANTS
from meshgen.frontend.tracer.functions import Traced, annotate, spec, trace
from meshgen.frontend.tracer.namespaces import find
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Tensor

__all__ = [
    "CONSTANTS",
    "OPS",
    "Tensor",
    "Traced",
    "annotate",
    "control_flow",
    "convolutions",
    "creation",
    "einsum",
    "elementwise",
    "fft",
    "find",
    "indexing",
    "joining",
    "linalg",
    "linear",
    "logic",
    "manual",
    "nn",
    "random",
    "reduce",
    "rounding",
    "scans",
    "searching",
    "shapes",
    "spec",
    "statistics",
    "trace",
    "updates",
]
