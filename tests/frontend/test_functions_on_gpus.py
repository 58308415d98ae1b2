"""GPU kernels for all functions of traced programs. Each family of functions is planned as one program, in which many
expressions read the same slices.
"""

from __future__ import annotations

import pytest

from meshgen.api import plan
from meshgen.ops.classes import COMMUNICATING
from tests.frontend import numpy_expressions as expressions
from tests.frontend import test_functions_of_dims as dims
from tests.frontend import test_functions_of_elements as elements
from tests.frontend import test_functions_of_models as models
from tests.frontend import test_functions_of_rows as rows

FAMILIES = {
    "updates": models.UPDATES, "slices": models.SLICES, "convolutions": models.CONVOLVED, "activations": models.ACTIVATIONS, "indices": dims.INDEXED,
    "joins": dims.JOINED, "created": elements.CREATED, "pairs": elements.PAIRS, "running": rows.RUNNING, "searched": rows.SEARCHED, "reduced": rows.REDUCED,
    "products": rows.PRODUCTS,
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_function_family_has_gpu_kernels(family: str) -> None:
    args = expressions.arguments(FAMILIES[family])
    specs = {f"values.{name}": "d" for name in args}
    fused = plan(
        expressions.program(FAMILIES[family]), {"d": 3}, args=[args], in_specs=specs, target="cuda:sm_90"
    ).fused
    assert fused.kernels and {node.op for node in fused.graph.nodes} <= {
        "kernel",
        "view",
        "join",
        "constant",
        "subview",
        *COMMUNICATING,
    }
