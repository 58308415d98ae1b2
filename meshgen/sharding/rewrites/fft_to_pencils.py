"""A Fourier transform over several dims becomes one along each dim, all of whose other dims may be split.

Devices that split a grid by rows then transform their rows, exchange tiles (an all_to_all), and transform their columns: a pencil
decomposition (Foster and Worley, "Parallel algorithms for the spectral transform method", 1997). A transform over both dims at once
needs the whole grid on each device.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.ir.builder import Builder
from meshgen.ir.graph import COMPLEX_PARTS, Graph, Node, TensorType, Value
from meshgen.sharding.rewrites.graph_passes import graph_pass

_COMPLEX = {part: name for name, part in COMPLEX_PARTS.items()}


@graph_pass("fft-to-pencils", applies="if cheaper")
def fft_to_pencils(graph: Graph) -> Graph | None:
    """Before: `fft %x, RFFT, length = [4, 6]`.   After: `transpose (fft (transpose (fft %x, RFFT, [6])), FFT, [4])`. None if there is none."""
    found = Graph(graph.name, [])
    for node in graph.nodes:
        if node.op == "fft" and len(node.attrs.length) > 1 and node.option is None:
            _pencils(Builder(found, node.loc), node)
        else:
            found.nodes.append(node)
    return replace(graph, nodes=found.nodes) if len(found.nodes) > len(graph.nodes) else None


def _pencils(builder: Builder, node: Node) -> None:
    """Forward from the last dim to the first, back from the first to the last: the dim that is whole at one end is so at the other."""
    kind, length, value = node.attrs.kind, node.attrs.length, node.operands[0]
    first = value.type.rank - len(length)
    forward = [*reversed(range(first, value.type.rank))]
    for dim in forward if kind in ("FFT", "RFFT") else reversed(forward):
        is_real = kind in ("RFFT", "IRFFT") and dim == value.type.rank - 1
        value = _along(builder, value, dim, kind if is_real else kind.replace("R", ""), length[dim - first])
    builder.make(node.results)


def _along(builder: Builder, value: Value, dim: int, kind: str, size: int) -> Value:
    """The transform along a dim, which is brought to the end for it."""
    last = value.type.rank - 1
    perm = [*range(value.type.rank)]
    perm[dim], perm[last] = last, dim
    rows = value if dim == last else builder.transpose(value, perm)
    dtype = {"RFFT": _COMPLEX.get(value.type.dtype), "IRFFT": COMPLEX_PARTS.get(value.type.dtype)}.get(kind)
    result = TensorType((*rows.type.shape[:-1], size // 2 + 1 if kind == "RFFT" else size), dtype or value.type.dtype)
    found = builder.emit("fft", [rows], result, kind=kind, length=(size,))
    return found if dim == last else builder.transpose(found, perm)
