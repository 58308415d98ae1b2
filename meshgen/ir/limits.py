"""Limits on the size of programs and modules, checked before memory is allocated for them.

A program within its limits compiles to a module within the module's limits.
"""

from __future__ import annotations

import math
from functools import lru_cache

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType
from meshgen.ir.regions import all_nodes, nodes_with_depth

# Maximum number of dims of a tensor in a program. Chosen: partition may split each dim of a tile in two, so a local
# tensor may have twice as many dims.
MAX_RANK = 32
# Maximum number of dims of a tensor in a module. NumPy allows 64 (NPY_MAXDIMS of NumPy 2), and evaluation adds a few.
MAX_LOCAL_RANK = 60
_ROOM = 4  # dims that passes may add to local tensors; chosen: above the most that any pass adds
# Maximum number of bytes in a tensor (8 PiB). Costs are floats, and a float64 represents integers exactly up to 2^53.
MAX_BYTES = 1 << 53
# Maximum nesting depth of regions. Chosen: a recursive walk takes a few of Python's 1,000 stack frames per level.
MAX_NESTING = 64


@lru_cache(maxsize=4096)
def size_fault(tensor_type: TensorType, most_dims: int = MAX_RANK) -> str:
    """Return a message about the limit that a tensor exceeds, or "" if there is none.

    Dims of unknown or zero size count as 1.
    """
    if tensor_type.rank > most_dims:
        return f"rank {tensor_type.rank} is too large: a tensor may have {most_dims} dims at most"
    elements = math.prod(size or 1 for size in tensor_type.shape)
    item_bytes = DTYPES[tensor_type.dtype].itemsize if tensor_type.dtype in DTYPES else 1
    if elements * item_bytes > MAX_BYTES:
        log2_bytes = (elements * item_bytes).bit_length() - 1
        return (
            f"{tensor_type} has 2^{log2_bytes} bytes and more; a tensor may have 2^{MAX_BYTES.bit_length() - 1} at most"
        )
    return ""


def program_faults(module: Module) -> list[Diagnostic]:
    """Return a diagnostic for each limit that a program exceeds. If there are any, other checks can be skipped."""
    max_dims = MAX_RANK if module.stage == "import" else MAX_LOCAL_RANK - _ROOM
    graphs = (module.graph, *module.kernels.values())
    return [fault for graph in graphs for fault in _nesting_faults(graph) or _graph_faults(graph, max_dims)]


def _nesting_faults(graph: Graph) -> list[Diagnostic]:
    """Return a diagnostic for the first operation whose regions are nested too deeply."""
    for node, depth in nodes_with_depth(graph):
        if node.regions and depth >= MAX_NESTING:
            return [too_deep(f"'{node.op}': regions are nested {depth + 1} deep", node.loc)]
    return []


def _graph_faults(graph: Graph, most_dims: int) -> list[Diagnostic]:
    """Return a diagnostic for each input and each result that is too large."""
    tensors = [(f"argument '{value.name}'", value.type, value.loc) for value in graph.inputs]
    tensors += [(f"'{node.op}'", value.type, node.loc) for node in all_nodes(graph) for value in node.results]
    return [
        Diagnostic("MG0108", f"{name}: {message}", loc)
        for name, tensor_type, loc in tensors
        if (message := size_fault(tensor_type, most_dims))
    ]


def too_deep(message: str, loc: Location | None) -> Diagnostic:
    """Return the diagnostic for regions that are nested too deeply."""
    return Diagnostic("MG0006", message, loc, hint=f"regions can be nested {MAX_NESTING} deep")
