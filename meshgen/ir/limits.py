"""How large a program may be, and a module: what is beyond is refused before memory is spent on it.

The limits of programs are such that what is compiled fits into those of modules.
"""

from __future__ import annotations

import math
from functools import lru_cache

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType
from meshgen.ir.regions import all_nodes, nodes_with_depth

MAX_RANK = 32  # of a program's tensors: a tile takes two dims where a dim of it is held apart
MAX_LOCAL_RANK = 60  # of a module's: NumPy has 64 dims, of which operations take some for themselves
_ROOM = 4  # dims that passes on local tensors add
MAX_BYTES = 1 << 53  # 8 PiB: to where costs, which are floats, count single bytes
MAX_NESTING = 64  # regions in regions: a walk takes a few of the 1,000 frames of Python's stack at each level


@lru_cache(maxsize=4096)
def size_fault(kind: TensorType, most_dims: int = MAX_RANK) -> str:
    """What is too large about a tensor; empty where nothing is. Dims that are open or empty count as 1."""
    if kind.rank > most_dims:
        return f"a tensor of rank {kind.rank} is too large: there are {most_dims} dims at most"
    count = math.prod(size or 1 for size in kind.shape)
    width = DTYPES[kind.dtype].itemsize if kind.dtype in DTYPES else 1
    if count * width > MAX_BYTES:
        power = (count * width).bit_length() - 1
        return f"{kind} has 2^{power} bytes and more; a tensor may have 2^{MAX_BYTES.bit_length() - 1} at most"
    return ""


def program_faults(module: Module) -> list[Diagnostic]:
    """Everything about a program as it was entered that is too large; nothing else of it has to be looked at then."""
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
