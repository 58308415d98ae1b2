"""An operand of a product that tensor cores cannot take as it is in memory is copied first, where that is predicted to take less time.

    before   %2 = dot_general %x, %w        f8E4M3FN[4096, 4096] x f8E4M3FN[4096, 4096], contract = 1 with 0
    after    %1 = transpose %w {in memory}
             %w' = transpose %1             an index map: the same numbers, by rows of the contracted dim
             %2 = dot_general %x, %w'

Instructions of warp groups multiply 8-bit elements by rows of the contracted dim only, and tensor descriptors copy rows that begin at multiples of 16
bytes only: rows of 1,003 elements are padded. Index maps undo the copy, so the product stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.codegen.roofline.kernel_time import device_of, dot_seconds, memory_seconds
from meshgen.codegen.roofline.operand_layout import longer_share, wanted_layout
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ir.notes import Notes
from meshgen.ops.classes import LAYOUT
from meshgen.ops.dot_dims import DotDims

Producer = Callable[[Value], Node | None]


@module_pass("copy-operands", "partition")
def copy_operands(module: Module, context: Compilation) -> Module:
    """A local program with copies of such operands; values that outlive them keep their identity."""
    return on_graphs(module, _with_copies)


def _with_copies(graph: Graph) -> Graph:
    producer = graph.index.producers
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    copies: dict[_Copy, Value] = {}
    for node in graph.nodes:
        if node.op != "dot_general":
            found.nodes.append(node)
            continue
        operands = list(node.operands)
        for side, copy in enumerate(_copies(node, producer.get)):
            if copy is not None:
                if copy not in copies:
                    copies[copy] = copy.emit(found)
                operands[side] = copy.restore(found, copies[copy], node.operands[side])
        same = operands == list(node.operands)
        found.nodes.append(
            node if same else Node(node.op, operands, node.results, node.attrs, node.loc, notes=node.notes)
        )
    return found


class _Copy(NamedTuple):
    """A value in memory with its dims in another order, the last one padded to so many elements."""

    source: Value
    perm: tuple[int, ...]
    columns: int

    def emit(self, graph: Graph) -> Value:
        value, loc = self.source, self.source.loc
        sizes = tuple(value.type.sizes[d] for d in self.perm)
        is_padded, in_memory = self.columns != sizes[-1], Notes(in_memory=True)
        if self.perm != tuple(range(len(sizes))):
            notes = Notes() if is_padded else in_memory
            kind = value.type.with_shape(sizes)
            value = graph.add("transpose", [value], [kind], {"perm": self.perm}, loc=loc, notes=notes).result
        if is_padded:
            dtype = value.type.dtype
            zero = graph.add("constant", [], [TensorType((), dtype)], {"value": np.zeros((), DTYPES[dtype])}).result
            none = (0,) * len(sizes)
            high = (*none[:-1], self.columns - sizes[-1])
            kind = value.type.with_shape((*sizes[:-1], self.columns))
            attrs = {"low": none, "high": high, "interior": none}
            value = graph.add("pad", [value, zero], [kind], attrs, loc=loc, notes=in_memory).result
        return value

    def restore(self, graph: Graph, value: Value, like: Value) -> Value:
        """The source's numbers in its own order, read from the copy; then the index maps between the source and an operand."""
        sizes = tuple(self.source.type.sizes[d] for d in self.perm)
        if self.columns != sizes[-1]:
            none = (0,) * len(sizes)
            attrs = {"start": none, "limit": sizes, "stride": (1,) * len(sizes)}
            value = graph.add("slice", [value], [value.type.with_shape(sizes)], attrs, loc=like.loc).result
        back = tuple(int(d) for d in np.argsort(self.perm))
        if back != tuple(range(len(back))):
            value = graph.add("transpose", [value], [self.source.type], {"perm": back}, loc=like.loc).result
        return value


def _copies(node: Node, producer: Producer) -> list[_Copy | None]:
    """The copies of a product's operands that are worth their time."""
    device = device_of("cpu")  # plans are the same for all targets
    if node.operands[0].type.dtype not in device.peaks:
        return [None, None]
    return [
        None if _is_map(value, producer) else _copy_of(node, side, device) for side, value in enumerate(node.operands)
    ]


def _is_map(value: Value, producer: Producer) -> bool:
    """Whether it is an index map of something else: what its rows are in memory is another question."""
    node = producer(value)
    return node is not None and node.op in LAYOUT


def _copy_of(node: Node, side: int, device: Device) -> _Copy | None:
    """The copy of operand `side`; None where the product takes it as it is, or in less time."""
    if not (share := longer_share(node, side)):
        return None
    value = node.operands[side]
    order, columns = wanted_layout(value, DotDims.of(node).contract[side])
    written = value.type.nbytes // value.type.sizes[order[-1]] * columns
    takes = device.launch_seconds + memory_seconds(value.type.nbytes + written, device)
    return _Copy(value, order, columns) if share * dot_seconds(node, device) > takes else None
