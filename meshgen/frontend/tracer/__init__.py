"""The Python frontend: functions that run once, on tensors that record what is done with them."""

from meshgen.frontend.tracer import (  # importing them enters their operations in OPS
    elementwise,
    linear,
    logic,
    manual,
    reduce,
    shapes,
)
from meshgen.frontend.tracer.functions import Traced, annotate, spec, trace
from meshgen.frontend.tracer.recording import OPS
from meshgen.frontend.tracer.tensor import Tensor

__all__ = [
    "OPS",
    "Tensor",
    "Traced",
    "annotate",
    "elementwise",
    "linear",
    "logic",
    "manual",
    "reduce",
    "shapes",
    "spec",
    "trace",
]
