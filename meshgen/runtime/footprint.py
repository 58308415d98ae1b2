"""The memory that the reference device needs for a step, estimated before any of it is taken.

Systems overcommit memory and kill processes that use it, so a step that cannot fit is refused instead. The memory
of a kernel is that of NumPy's arrays: live values, and the working memory of each operation.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from meshgen.errors import Diagnostic, RuntimeFailure
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.predicates import is_control
from meshgen.ops.evaluate.evaluator import last_uses
from meshgen.runtime.host_memory import free_bytes
from meshgen.runtime.module_file.manifest import Manifest

_RANK_BYTES = 1 << 15  # of Python objects for each simulated rank
_VIEWS = ("constant", "broadcast_in_dim", "transpose", "slice", "reverse", "iota")  # take no memory for elements
_COMPUTED_BYTES = 4  # at least, of an element: narrow types are computed in f32


def require_memory(manifests: Iterable[Manifest], *, alone: bool = False) -> None:
    """Raise RuntimeFailure MG0604 if a step of these modules, run together, does not fit into free memory.

    `alone`: this process runs one rank only, of any of them.
    """
    free, parts = free_bytes(), list(manifests)
    if alone:
        needed = max(step_bytes(part, 1) for part in parts)
        if free is not None and needed > free:
            text = (
                f"a rank needs about {needed} bytes, which do not fit into this machine's memory: {free} bytes are free"
            )
            raise RuntimeFailure(Diagnostic("MG0604", text))
        return
    needed = sum(step_bytes(part, part.mesh.size) for part in parts)
    if free is None or needed <= free:
        return
    ranks, arena = sum(part.mesh.size for part in parts), sum(part.plan.arena_bytes * part.mesh.size for part in parts)
    text = f"{ranks} ranks with {arena} bytes of buffers need about {needed} bytes to be simulated"
    hint = "the reference device runs all ranks in one process"
    fault = f"{text}, which do not fit into this machine's memory: {free} bytes are free"
    raise RuntimeFailure(Diagnostic("MG0604", fault, hint=hint))


@contextmanager
def out_of_memory() -> Generator[None]:
    """Convert MemoryError to RuntimeFailure MG0604."""
    try:
        yield
    except MemoryError as error:
        text = f"not enough memory on this machine: {error}".rstrip(": ")
        raise RuntimeFailure(Diagnostic("MG0604", text)) from error


def step_bytes(manifest: Manifest, ranks: int) -> int:
    """Bytes of a step: the arenas of all ranks, global arguments and results, and the kernel that needs most."""
    ends = sum(binding.type.nbytes for binding in (*manifest.inputs, *manifest.outputs))
    kernel = max((body_bytes(body) for body in manifest.plan.kernels.values()), default=0)
    return ranks * (manifest.plan.arena_bytes + _RANK_BYTES) + ends + kernel


def body_bytes(graph: Graph) -> int:
    """Peak live bytes while a graph is evaluated, without its inputs."""
    held: dict[Value, int] = {}
    last, live, most = last_uses(graph), 0, 0
    for number, node in enumerate(graph.nodes):
        made = {value: 0 if node.op in _VIEWS else value.type.nbytes for value in node.results}
        live += sum(made.values())
        held |= made
        most = max(most, live + _working_bytes(node))
        live -= sum(held.pop(value, 0) for value in last.get(number, ()))
    return most


def _working_bytes(node: Node) -> int:
    """Bytes of an operation besides its results."""
    types = [value.type for value in (*node.operands, *node.results)]
    if node.op == "iota":
        return 8 * node.result.type.sizes[node.attrs["dim"]]
    if node.op in _VIEWS:
        return 0
    computed = sum(map(_computed_bytes, types))
    if is_control(node):
        return computed + max(map(body_bytes, node.regions))
    if node.regions:  # run on whole arrays
        computed *= 2 + sum(len(region.nodes) + len(region.inputs) for region in node.regions)
    return computed + 2 * _padded_bytes(node)


def _computed_bytes(kind: TensorType) -> int:
    return kind.size * max(_COMPUTED_BYTES, kind.numpy_dtype.itemsize)


def _padded_bytes(node: Node) -> int:
    """Of an operand with padding and dilation, which may be far larger than operand and result."""
    attrs, kind = node.attrs, node.operands[0].type if node.operands else TensorType((), "i1")
    if node.op == "pad":
        shape = _padded(kind.sizes, attrs["low"], attrs["high"], attrs["interior"])
    elif node.op in ("reduce_window", "select_and_scatter"):
        apart = attrs.get("base_dilations", (1,) * kind.rank) if node.op == "reduce_window" else (1,) * kind.rank
        shape = _padded(kind.sizes, attrs["low"], attrs["high"], [d - 1 for d in apart])
    elif node.op == "convolution":
        spatial = [kind.sizes[d] for d in attrs["input_spatial"]]
        others = math.prod(kind.sizes[attrs[name]] for name in ("input_batch", "input_feature"))
        shape = [others, *_padded(spatial, attrs["low"], attrs["high"], [d - 1 for d in attrs["lhs_dilation"]])]
    else:
        return 0
    return math.prod(shape) * max(_COMPUTED_BYTES, kind.numpy_dtype.itemsize)


def _padded(sizes: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> list[int]:
    parts = zip(sizes, low, high, interior, strict=True)
    return [n + max(n - 1, 0) * between + max(before, 0) + max(after, 0) for n, before, after, between in parts]
