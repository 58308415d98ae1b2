"""The greatest of long rows are those of the greatest of their parts: a kernel compares all elements of a row with each other.

    before   top_k f32[8,50000] {k = 10}
    after    parts = top_k (pad, reshape: f32[8,49,1024]) {k = 10}
             top_k (reshape parts: f32[8,490]) {k = 10}, and the numbers that the parts had for these

Of equals the first one still wins: parts are in order. The padding is the least value in total order, so it comes after all others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value, is_float

_GATHERED = {
    "offset_dims": (2,), "collapsed_slice_dims": (), "operand_batching_dims": (0,), "start_indices_batching_dims": (0,),
    "start_index_map": (1,), "index_vector_dim": 2, "slice_sizes": (1, 1), "indices_are_sorted": False,
}  # fmt: skip
"""One number of each row."""


@module_pass("top-k-to-parts", "partition")
def top_k_to_parts(module: Module, context: Compilation) -> Module:
    """A local program whose `top_k`s are of rows of some thousand elements; their results keep their identity."""
    return on_graphs(module, _with_parts)


def _with_parts(graph: Graph) -> Graph:
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        if node.op == "top_k" and _is_long(node):
            _TopKWriter(found, node).write()
        else:
            found.nodes.append(node)
    return found


def _is_long(node: Node) -> bool:
    size, part = node.operands[0].type.sizes[-1], DEFAULT.fusion.compared_row
    return size > 2 * part and 4 * node.attrs.k <= part and node.operands[0].type.size > 0


class _TopKWriter:
    """Writes one `top_k`; rows are the dims before the last one."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node
        (self.value,), self.k = node.operands, node.attrs.k
        self.size = self.value.type.sizes[-1]
        self.rows = self.value.type.size // self.size
        self.part = DEFAULT.fusion.compared_row
        self.parts = -(-self.size // self.part)

    def write(self) -> None:
        dtype = self.value.type.dtype
        values, numbers = self._top(self._padded(), (self.rows, self.parts, self.k))
        count = self.parts * self.k
        starts = self._add("iota", [], TensorType((self.parts,), "i32"), dim=0)
        starts = self._add("multiply", [starts, self._splat(self.part, starts.type)], starts.type)
        starts = self._add("broadcast_in_dim", [starts], numbers.type, dims=(1,))
        numbers = self._reshaped(self._add("add", [numbers, starts], numbers.type), (self.rows, count))
        candidates = self._reshaped(values, (self.rows, count))
        last: Node = Node("top_k", [candidates], [Value(TensorType((self.rows, self.k), t)) for t in (dtype, "i32")], {"k": self.k}, self.node.loc)  # fmt: skip
        more = DEFAULT.fusion.compared_row
        if count > 2 * more and 4 * self.k <= more:
            _TopKWriter(self.graph, last).write()
        else:
            self.graph.nodes.append(last)
        at = self._reshaped(last.results[1], (self.rows, self.k, 1))
        taken = self._add("gather", [numbers, at], TensorType((self.rows, self.k, 1), "i32"), **_GATHERED)
        for value, result in zip((last.results[0], taken), self.node.results, strict=True):
            self.graph.nodes.append(Node("reshape", [value], [result], {}, self.node.loc))

    def _top(self, value: Value, shape: tuple[int, ...]) -> tuple[Value, Value]:
        results = [Value(TensorType(shape, t)) for t in (value.type.dtype, "i32")]
        self.graph.nodes.append(Node("top_k", [value], results, {"k": self.k}, self.node.loc))
        return results[0], results[1]

    def _padded(self) -> Value:
        """The rows in parts of one size."""
        value, more = self._reshaped(self.value, (self.rows, self.size)), self.parts * self.part - self.size
        if more:
            kind = value.type.with_shape((self.rows, self.parts * self.part))
            pads = {"low": (0, 0), "high": (0, more), "interior": (0, 0)}
            value = self._add("pad", [value, self._least()], kind, **pads)
        return self._reshaped(value, (self.rows, self.parts, self.part))

    def _least(self) -> Value:
        """The least number of the type: of floats the negative NaN with all bits set."""
        dtype = self.value.type.dtype
        if is_float(dtype):
            whole = f"i{8 * DTYPES[dtype].itemsize}"
            ones = self._add("constant", [], TensorType((), whole), value=np.array(-1, DTYPES[whole]))
            return self._add("bitcast_convert", [ones], TensorType((), dtype))
        least = 0 if dtype == "i1" else np.iinfo(DTYPES[dtype]).min
        return self._add("constant", [], TensorType((), dtype), value=np.array(least, DTYPES[dtype]))

    # ---- nodes

    def _add(self, op: str, operands: list[Value], kind: TensorType, **attrs: Any) -> Value:
        return self.graph.add(op, operands, [kind], attrs, loc=self.node.loc).result

    def _splat(self, number: int, kind: TensorType) -> Value:
        scalar = self._add("constant", [], TensorType((), kind.dtype), value=np.array(number, kind.numpy_dtype))
        return self._add("broadcast_in_dim", [scalar], kind, dims=())

    def _reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        return value if value.type.sizes == shape else self._add("reshape", [value], value.type.with_shape(shape))
