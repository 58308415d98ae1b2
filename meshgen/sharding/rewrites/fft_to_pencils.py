"""Replace a Fourier transform over several dims by one transform per dim, which can be sharded along the other dims.

    before   %y = fft %x, RFFT, length = [4, 6]
    after    %1 = fft %x, RFFT, length = [6]   %2 = transpose %1   %3 = fft %2, FFT, length = [4]   %y = transpose %3

Devices that split a grid by rows then transform their rows, exchange tiles (an all_to_all), and transform their
columns. This is the pencil decomposition (Foster and Worley, "Parallel algorithms for the spectral transform method",
1997). A transform over both dims at once needs the entire grid on each device.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.ir.builder import Builder
from meshgen.ir.graph import COMPLEX_PARTS, Graph, Node, TensorType, Value
from meshgen.sharding.rewrites.graph_passes import graph_pass

_COMPLEX = {part: name for name, part in COMPLEX_PARTS.items()}


@graph_pass("fft-to-pencils", applies="if cheaper")
def fft_to_pencils(graph: Graph) -> Graph | None:
    """Return the graph with one transform per dim, or None if it has no transform over several dims."""
    rewritten = Graph(graph.name, [])
    for node in graph.nodes:
        if node.op == "fft" and len(node.attrs.length) > 1 and node.option is None:
            _pencils(Builder(rewritten, node.loc), node)
        else:
            rewritten.nodes.append(node)
    return replace(graph, nodes=rewritten.nodes) if len(rewritten.nodes) > len(graph.nodes) else None


def _pencils(builder: Builder, node: Node) -> None:
    """Emit the transforms: forward ones from the last dim to the first, inverse ones from the first to the last.

    In this order, the dim that is unsharded at the end of a forward transform is unsharded at the start of its inverse.
    """
    kind, length, value = node.attrs.kind, node.attrs.length, node.operands[0]
    first = value.type.rank - len(length)
    forward = [*reversed(range(first, value.type.rank))]
    for dim in forward if kind in ("FFT", "RFFT") else reversed(forward):
        is_real = kind in ("RFFT", "IRFFT") and dim == value.type.rank - 1
        value = _along(builder, value, dim, kind if is_real else kind.replace("R", ""), length[dim - first])
    builder.make(node.results)


def _along(builder: Builder, value: Value, dim: int, kind: str, size: int) -> Value:
    """Return the transform along `dim`, which is transposed to the last dim for it."""
    last = value.type.rank - 1
    perm = [*range(value.type.rank)]
    perm[dim], perm[last] = last, dim
    rows = value if dim == last else builder.transpose(value, perm)
    dtype = {"RFFT": _COMPLEX.get(value.type.dtype), "IRFFT": COMPLEX_PARTS.get(value.type.dtype)}.get(kind)
    result = TensorType((*rows.type.shape[:-1], size // 2 + 1 if kind == "RFFT" else size), dtype or value.type.dtype)
    transformed = builder.emit("fft", [rows], result, kind=kind, length=(size,))
    return transformed if dim == last else builder.transpose(transformed, perm)
