"""Limits on the size of programs and modules; larger ones are refused before memory is spent on them.

Programs within their limits compile to modules within theirs.
"""

from __future__ import annotations

import math
from functools import lru_cache

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType
from meshgen.ir.regions import all_nodes, nodes_with_depth

MAX_RANK = 32  # of a program's tensors: partition may split a dim of a tile in two
MAX_LOCAL_RANK = 60  # of a module's: NumPy has 64 dims, of which operations need some
_ROOM = 4  # dims that passes on local tensors add
MAX_BYTES = 1 << 53  # 8 PiB: up to here costs, which are floats, are exact in bytes
MAX_NESTING = 64  # levels of regions: a walk takes a few of the 1,000 frames of Python's stack at each level


@lru_cache(maxsize=4096)
def size_fault(kind: TensorType, most_dims: int = MAX_RANK) -> str:
    """The limit that a tensor exceeds; empty if none. Dims that are open or empty count as 1."""
    if kind.rank > most_dims:
        return f"rank {kind.rank} is too large: a tensor may have {most_dims} dims at most"
    count = math.prod(size or 1 for size in kind.shape)
    width = DTYPES[kind.dtype].itemsize if kind.dtype in DTYPES else 1
    if count * width > MAX_BYTES:
        power = (count * width).bit_length() - 1
        return f"{kind} has 2^{power} bytes and more; a tensor may have 2^{MAX_BYTES.bit_length() - 1} at most"
    return ""


def program_faults(module: Module) -> list[Diagnostic]:
    """All limits that a program exceeds; if any, no other check is needed."""
    most = MAX_RANK if module.stage == "import" else MAX_LOCAL_RANK - _ROOM
    graphs = (module.graph, *module.kernels.values())
    return [fault for graph in graphs for fault in _nesting_faults(graph) or _graph_faults(graph, most)]


def _nesting_faults(graph: Graph) -> list[Diagnostic]:
    """The first operation whose regions are nested too deeply, if any."""
    for node, depth in nodes_with_depth(graph):
        if node.regions and depth >= MAX_NESTING:
            return [too_deep(f"'{node.op}': regions are nested {depth + 1} deep", node.loc)]
    return []


def _graph_faults(graph: Graph, most_dims: int) -> list[Diagnostic]:
    """Inputs and results that are too large; operands are one or the other."""
    places = [(f"argument '{value.name}'", value.type, value.loc) for value in graph.inputs]
    places += [(f"'{node.op}'", value.type, node.loc) for node in all_nodes(graph) for value in node.results]
    return [
        Diagnostic("MG0108", f"{what}: {message}", loc)
        for what, kind, loc in places
        if (message := size_fault(kind, most_dims))
    ]


def too_deep(message: str, loc: Location | None) -> Diagnostic:
    """The fault of a program whose regions are nested too deeply."""
    return Diagnostic("MG0006", message, loc, hint=f"regions can be nested {MAX_NESTING} deep")
