"""Compute float all-reduces that NCCL does not support (NaN-propagating maxima, 8-bit floats) in a supported type.

    before   %1 = all_reduce %0 {kind = max}                                       f32[64]
    after    %2 = select (%0 != %0), 2147483647, (%0 as an ordered integer)        i32[64]
             %3 = all_reduce %2 {kind = max}
             %1 = %3 converted back to the float that it encodes

Maxima and minima: NCCL uses `fmaxf` and `fminf`, which return the other operand if one is NaN, but StableHLO propagates
NaN. The pass therefore reduces integers. It interprets the bits of a float as a signed integer. For negative numbers it
inverts all bits but the sign, so that the integers compare as the floats do. A NaN becomes the largest integer (the
smallest, for a minimum).

Floats of 8 bits: NCCL has no such type, or rounds to it after every device, so they are reduced as f32. 16-bit maxima
are reduced as f32 too, because NCCL has no 16-bit integers. The kernels that produce the operand and use the result do
the conversions. A `reduce_to` of maxima is left alone: it is implemented by messages (`ccl/lower_groups.py`).

Source: `src/device/reduce_kernel.h` of NCCL 2.30, `FuncMinMax`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshgen.ccl.lower_groups import NCCL_TYPES
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value, is_float
from meshgen.mesh import Mesh
from meshgen.ops.classes import REDUCED_EVERYWHERE, REDUCING

_EXTREMES = ("max", "min")
_INTEGERS = {"f32": "i32", "f64": "i64"}  # For each float type, the integer type of the same width.


@module_pass("all-reduce-promote", "partition")
def all_reduce_promote(module: Module, context: Compilation) -> Module:
    """Rewrite the float all-reduces that NCCL does not support. The results remain the same `Value` objects."""
    return on_graphs(module, lambda graph: _promoted(graph, module.mesh))


def _promoted(graph: Graph, mesh: Mesh) -> Graph:
    promoted = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        if _is_unsupported(node) and mesh.group_size(node.attrs.axes) > 1:
            _emit_reduction(promoted, node)
        else:
            promoted.nodes.append(node)
    return promoted


def _is_unsupported(node: Node) -> bool:
    """Whether NCCL does not support an all-reduce, or computes a result that differs from StableHLO's semantics."""
    if node.op not in REDUCING or len(node.operands) > 1 or not node.result.type.size:
        return False
    types = {node.operands[0].type.dtype, node.result.type.dtype}
    (dtype, *mixed_dtypes) = types
    kind = node.attrs.kind
    if mixed_dtypes or not is_float(dtype) or (kind in _EXTREMES and node.op not in REDUCED_EVERYWHERE):
        # Results on devices other than the root are undefined, so the program must not decode them as ordered integers.
        return False
    return kind in _EXTREMES or (kind in ("sum", "product") and dtype not in NCCL_TYPES)


def _emit_reduction(graph: Graph, node: Node) -> None:
    emit = _Emitter(graph, node)
    wide = "f64" if node.result.type.dtype == "f64" else "f32"
    value = emit.converted(node.operands[0], wide)
    if is_extreme := node.attrs.kind in _EXTREMES:
        value = emit.as_ordered(value, is_nan_last=node.attrs.kind == "max")
    result_type = TensorType(node.result.type.shape, value.type.dtype)
    value = graph.add(node.op, [value], [result_type], node.attrs, loc=node.loc, notes=node.notes).result
    if is_extreme:
        value = emit.as_float(value, wide)
    emit.converted(value, node.result.type.dtype)
    graph.nodes[-1].results[:] = node.results


@dataclass(frozen=True)
class _Emitter:
    """Adds element-wise ops to `graph` with the source location of `node`."""

    graph: Graph
    node: Node

    def converted(self, value: Value, dtype: str) -> Value:
        return value if value.type.dtype == dtype else self._emit("convert", dtype, value)

    def as_ordered(self, value: Value, *, is_nan_last: bool) -> Value:
        """Return integers that compare as the floats do, with NaN as the largest or the smallest integer."""
        dtype = _INTEGERS[value.type.dtype]
        limits = np.iinfo(TensorType((), dtype).numpy_dtype)
        is_nan = self._emit("compare", "i1", value, value, direction="NE", compare_type="FLOAT")
        nan = self._splat(limits.max if is_nan_last else limits.min, value.type, dtype)
        return self._emit("select", dtype, is_nan, nan, self._folded(self._emit("bitcast_convert", dtype, value)))

    def as_float(self, value: Value, dtype: str) -> Value:
        """Return the floats that ordered integers encode; the largest and the smallest integer decode to NaN."""
        return self._emit("bitcast_convert", dtype, self._folded(value))

    def _folded(self, bits: Value) -> Value:
        """Invert all bits but the sign of negative integers. Applying the function twice returns the original bits."""
        dtype = bits.type.dtype
        magnitude_mask = np.iinfo(bits.type.numpy_dtype).max
        shift = self._splat(magnitude_mask.bit_length(), bits.type, dtype)
        signs = self._emit("shift_right_arithmetic", dtype, bits, shift)
        inverted = self._emit("and", dtype, signs, self._splat(magnitude_mask, bits.type, dtype))
        return self._emit("xor", dtype, bits, inverted)

    def _splat(self, number: int, like: TensorType, dtype: str) -> Value:
        scalar = TensorType((), dtype)
        value = np.array(number, scalar.numpy_dtype)
        constant = self.graph.add("constant", [], [scalar], {"value": value}, loc=self.node.loc).result
        return self.graph.add("broadcast_in_dim", [constant], [TensorType(like.shape, dtype)], {"dims": ()}).result

    def _emit(self, op: str, dtype: str, *operands: Value, **attrs: str) -> Value:
        result_type = TensorType(operands[0].type.shape, dtype)
        return self.graph.add(op, operands, [result_type], attrs, loc=self.node.loc).result
