"""Copy an operand of a dot to a layout that tensor cores support, if copy and dot together are predicted to be faster.

    before   %2 = dot_general %x, %w        f8E4M3FN[4096, 4096] x f8E4M3FN[4096, 4096], contract = 1 with 0
    after    %1 = transpose %w {in memory}
             %w' = transpose %1             an index map: the same values, now contiguous along the contracted dim
             %2 = dot_general %x, %w'

Warpgroup MMA instructions multiply 8-bit operands only if they are contiguous along the contracted dim. TMA descriptors
need rows that begin at multiples of 16 bytes, so rows of 1,003 elements are padded. Index maps undo the copy, so the
dot itself does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.codegen.roofline.kernel_time import device_of, dot_seconds, memory_seconds
from meshgen.codegen.roofline.operand_layout import layout_slowdown, supported_layout
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ir.notes import Notes
from meshgen.ops.classes import LAYOUT
from meshgen.ops.dot_dims import DotDims

Producer = Callable[[Value], Node | None]


@module_pass("copy-operands", "partition")
def copy_operands(module: Module, context: Compilation) -> Module:
    """Copy the dot operands whose layout tensor cores do not support, if this is predicted to be faster.

    The rewritten dots define the same result `Value` objects.
    """
    return on_graphs(module, _with_copies)


def _with_copies(graph: Graph) -> Graph:
    producer = graph.index.producers
    rewritten = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    copies: dict[_Copy, Value] = {}
    for node in graph.nodes:
        if node.op != "dot_general":
            rewritten.nodes.append(node)
            continue
        operands = list(node.operands)
        for side, copy in enumerate(_copies(node, producer.get)):
            if copy is not None:
                if copy not in copies:
                    copies[copy] = copy.emit(rewritten)
                operands[side] = copy.restore(rewritten, copies[copy], node.operands[side])
        same = operands == list(node.operands)
        rewritten.nodes.append(
            node if same else Node(node.op, operands, node.results, node.attrs, node.loc, notes=node.notes)
        )
    return rewritten


class _Copy(NamedTuple):
    """A copy of `source` in memory with its dims permuted by `perm` and its last dim padded to `columns` elements."""

    source: Value
    perm: tuple[int, ...]
    columns: int

    def emit(self, graph: Graph) -> Value:
        value, loc = self.source, self.source.loc
        sizes = tuple(value.type.sizes[d] for d in self.perm)
        is_padded, in_memory = self.columns != sizes[-1], Notes(in_memory=True)
        if self.perm != tuple(range(len(sizes))):
            notes = Notes() if is_padded else in_memory
            result_type = value.type.with_shape(sizes)
            value = graph.add("transpose", [value], [result_type], {"perm": self.perm}, loc=loc, notes=notes).result
        if is_padded:
            dtype = value.type.dtype
            zero = graph.add("constant", [], [TensorType((), dtype)], {"value": np.zeros((), DTYPES[dtype])}).result
            no_padding = (0,) * len(sizes)
            high = (*no_padding[:-1], self.columns - sizes[-1])
            result_type = value.type.with_shape((*sizes[:-1], self.columns))
            attrs = {"low": no_padding, "high": high, "interior": no_padding}
            value = graph.add("pad", [value, zero], [result_type], attrs, loc=loc, notes=in_memory).result
        return value

    def restore(self, graph: Graph, value: Value, like: Value) -> Value:
        """Return `value`, a copy in memory, with padding and permutation undone by index maps. `like` gives the source
        location.
        """
        sizes = tuple(self.source.type.sizes[d] for d in self.perm)
        if self.columns != sizes[-1]:
            zeros = (0,) * len(sizes)
            attrs = {"start": zeros, "limit": sizes, "stride": (1,) * len(sizes)}
            value = graph.add("slice", [value], [value.type.with_shape(sizes)], attrs, loc=like.loc).result
        inverse = tuple(int(d) for d in np.argsort(self.perm))
        if inverse != tuple(range(len(inverse))):
            value = graph.add("transpose", [value], [self.source.type], {"perm": inverse}, loc=like.loc).result
        return value


def _copies(node: Node, producer: Producer) -> list[_Copy | None]:
    """Return for each operand of a dot the copy that makes the program faster, or None to use the operand directly."""
    device = device_of("cpu")  # The plan must not depend on the target, so all targets use the time model of "cpu".
    if node.operands[0].type.dtype not in device.peaks:
        return [None, None]
    return [
        None if _is_map(value, producer) else _copy_of(node, side, device) for side, value in enumerate(node.operands)
    ]


def _is_map(value: Value, producer: Producer) -> bool:
    """Whether `value` is an index map of another value, so that the rows of `value` do not exist in memory."""
    node = producer(value)
    return node is not None and node.op in LAYOUT


def _copy_of(node: Node, side: int, device: Device) -> _Copy | None:
    """Return the copy of operand `side`, or None if the dot supports the operand's layout or a copy saves no time."""
    if not (saved_share := layout_slowdown(node, side)):
        return None
    value = node.operands[side]
    order, columns = supported_layout(value, DotDims.of(node).contract[side])
    written = value.type.nbytes // value.type.sizes[order[-1]] * columns
    copy_seconds = device.launch_seconds + memory_seconds(value.type.nbytes + written, device)
    return _Copy(value, order, columns) if saved_share * dot_seconds(node, device) > copy_seconds else None
