"""Float reductions over devices that NCCL lacks, maxima with NaN and narrow sums, become reductions of types that it has.

    before   %1 = all_reduce %0 {kind = max}                                       f32[64]
    after    %2 = select (%0 != %0), 2147483647, (%0 as an ordered integer)        i32[64]
             %3 = all_reduce %2 {kind = max}
             %1 = %3 as the float that it stands for

Maxima and minima: NCCL takes `fmaxf` and `fminf`, which give the other operand where one is NaN; StableHLO gives NaN. The bits of a
float as a signed integer, all but the sign inverted where it is negative, are in the order of the numbers, and a NaN is put behind all
of them (before, for a minimum). Floats of 8 bits and less have no type in NCCL, or one that it rounds to after every device: they are
reduced as f32, and so are 16-bit maxima, because NCCL has no 16-bit integers. Kernels convert where they make the operand and read
the result. A `reduce_to` of maxima goes by messages (`ccl/lower_groups.py`).

Source: `src/device/reduce_kernel.h` of NCCL 2.30, `FuncMinMax`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshgen.ccl.lower_groups import NCCL_TYPES
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_float
from meshgen.mesh import Mesh
from meshgen.ops.classes import REDUCED_ALIKE, REDUCING

_EXTREMES = ("max", "min")
_INTEGERS = {"f32": "i32", "f64": "i64"}  # of as many bits


@module_pass("all-reduce-promote", "partition")
def all_reduce_promote(module: Module, context: Compilation) -> Module:
    """A local program with such reductions rewritten; their results keep their identity."""
    return on_graphs(module, lambda graph: _promoted(graph, module.mesh))


def _promoted(graph: Graph, mesh: Mesh) -> Graph:
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        if _is_other(node) and mesh.group_size(node.attrs.axes) > 1:
            _emit_reduction(found, node)
        else:
            found.nodes.append(node)
    return found


def _is_other(node: Node) -> bool:
    """Whether NCCL lacks the reduction, or has other semantics."""
    if node.op not in REDUCING or len(node.operands) > 1 or not node.result.type.size:
        return False
    types = {node.operands[0].type.dtype, node.result.type.dtype}
    (dtype, *others) = types
    kind = node.attrs.kind
    if others or not is_float(dtype) or (kind in _EXTREMES and node.op not in REDUCED_ALIKE):
        return False  # results off the root are undefined, and must not be interpreted as ordered integers
    return kind in _EXTREMES or (kind in ("sum", "product") and dtype not in NCCL_TYPES)


def _emit_reduction(graph: Graph, node: Node) -> None:
    emit = _Emitter(graph, node)
    wide = "f64" if node.result.type.dtype == "f64" else "f32"
    value = emit.converted(node.operands[0], wide)
    if is_extreme := node.attrs.kind in _EXTREMES:
        value = emit.as_ordered(value, is_nan_last=node.attrs.kind == "max")
    kind = TensorType(node.result.type.shape, value.type.dtype)
    value = graph.add(node.op, [value], [kind], node.attrs, loc=node.loc, notes=node.notes).result
    if is_extreme:
        value = emit.as_float(value, wide)
    emit.converted(value, node.result.type.dtype)
    graph.nodes[-1].results[:] = node.results


@dataclass(frozen=True)
class _Emitter:
    """Adds element-wise operations to `graph`, which are there because of `node`."""

    graph: Graph
    node: Node

    def converted(self, value: Value, dtype: str) -> Value:
        return value if value.type.dtype == dtype else self._emit("convert", dtype, value)

    def as_ordered(self, value: Value, *, is_nan_last: bool) -> Value:
        """Integers in the order of the floats; a NaN is the last of all, or the first."""
        dtype = _INTEGERS[value.type.dtype]
        limits = np.iinfo(TensorType((), dtype).numpy_dtype)
        is_nan = self._emit("compare", "i1", value, value, direction="NE", compare_type="FLOAT")
        nan = self._splat(limits.max if is_nan_last else limits.min, value.type, dtype)
        return self._emit("select", dtype, is_nan, nan, self._folded(self._emit("bitcast_convert", dtype, value)))

    def as_float(self, value: Value, dtype: str) -> Value:
        """The floats that ordered integers stand for; both extreme ones are NaN."""
        return self._emit("bitcast_convert", dtype, self._folded(value))

    def _folded(self, bits: Value) -> Value:
        """All bits but the sign inverted where that is set: done twice it is undone."""
        dtype = bits.type.dtype
        most = np.iinfo(bits.type.numpy_dtype).max
        count = self._splat(most.bit_length(), bits.type, dtype)
        signs = self._emit("shift_right_arithmetic", dtype, bits, count)
        inverted = self._emit("and", dtype, signs, self._splat(most, bits.type, dtype))
        return self._emit("xor", dtype, bits, inverted)

    def _splat(self, number: int, like: TensorType, dtype: str) -> Value:
        scalar = TensorType((), dtype)
        value = np.array(number, scalar.numpy_dtype)
        constant = self.graph.add("constant", [], [scalar], {"value": value}, loc=self.node.loc).result
        return self.graph.add("broadcast_in_dim", [constant], [TensorType(like.shape, dtype)], {"dims": ()}).result

    def _emit(self, op: str, dtype: str, *operands: Value, **attrs: str) -> Value:
        kind = TensorType(operands[0].type.shape, dtype)
        return self.graph.add(op, operands, [kind], attrs, loc=self.node.loc).result
