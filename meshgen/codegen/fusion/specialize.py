"""Specialization of a scalar function to the truth values of some of its comparisons (Shannon expansion).

before   %c = compare GE, %row, %key    %r = select %c, (%score * 0.5), -inf
after    %r = %score * 0.5                                                          if %c holds
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value, is_float
from meshgen.ir.regions import needed_nodes
from meshgen.ops.evaluate.evaluator import evaluate_node

# For each op, the numbers that leave the other operand unchanged: as the second operand, and as the first operand.
_NEUTRAL = {
    "add": (0, 0), "subtract": (0, None), "multiply": (1, 1), "divide": (1, None),
    "minimum": (math.inf, math.inf), "maximum": (-math.inf, -math.inf),
}  # fmt: skip


@dataclass(frozen=True)
class _Folder:
    """Copies nodes to `graph` and folds nodes whose operands are constant.

    `known` maps values of the copy to constants.
    """

    graph: Graph
    now: dict[Value, Value]
    known: dict[Value, np.ndarray[Any, Any]]

    def write(self, node: Node) -> None:
        operands = [self.now.get(v, v) for v in node.operands]
        constants = [self.known.get(v) for v in operands]
        if node.op == "constant":
            self._set(node, np.asarray(node.attrs.value))
        elif constants and all(constant is not None for constant in constants):
            arguments = [constant for constant in constants if constant is not None]
            self._set(node, np.asarray(evaluate_node(replace(node, operands=operands), arguments)[0]))
        elif (same := _same(node, operands, constants)) is not None:
            self.now[node.result] = same
        elif node.op == "subtract" and is_float(node.result.type.dtype) and constants[1] is not None:
            negated = self._constant(-constants[1], operands[1].type)
            self._append(node, "add", [operands[0], negated])
        else:
            self._append(node, node.op, operands)

    def _set(self, node: Node, constant: np.ndarray[Any, Any]) -> None:
        self.now[node.result] = self._constant(constant, node.result.type)

    def _constant(self, constant: np.ndarray[Any, Any], tensor_type: TensorType) -> Value:
        value = Builder(self.graph).splat(constant, tensor_type)
        self.known[value] = np.asarray(constant, tensor_type.numpy_dtype)
        return value

    def _append(self, node: Node, op: str, operands: Sequence[Value]) -> None:
        attrs = dict(node.attrs.given) if op == node.op else {}
        self.now[node.result] = Builder(self.graph, node.loc).append(op, operands, [node.result.type], attrs)[0]


def _same(node: Node, operands: Sequence[Value], constants: Sequence[np.ndarray[Any, Any] | None]) -> Value | None:
    """Return the operand that always equals the result of `node`, or None if no operand does."""
    if node.op == "select" and constants[0] is not None:
        return operands[1 if bool(constants[0]) else 2]
    if node.op in ("and", "or") and node.result.type.dtype == "i1":
        for constant, other in zip(constants, operands[::-1], strict=True):
            if constant is not None:
                return other if bool(constant) == (node.op == "and") else operands[1 - operands.index(other)]
    if node.op in _NEUTRAL and is_float(node.result.type.dtype):
        right, left = _NEUTRAL[node.op]
        if constants[1] is not None and float(constants[1]) == right:
            return operands[0]
        if left is not None and constants[0] is not None and float(constants[0]) == left:
            return operands[1]
    return None


def specialized(region: Graph, known: Mapping[Value, bool] = MappingProxyType({})) -> Graph:
    """Return the function `region` with the values in `known` replaced by their truth values, and with constants
    folded.
    """
    folded = Graph(region.name, region.inputs)
    folder = _Folder(folded, {}, {})
    for node in region.nodes:
        if (flag := known.get(node.result)) is not None:
            folder.now[node.result] = Builder(folded).splat(flag, node.result.type)
            folder.known[folder.now[node.result]] = np.asarray(flag)
        else:
            folder.write(node)
    folded.outputs = [folder.now.get(v, v) for v in region.outputs]
    folded.nodes = needed_nodes(folded.nodes, folded.outputs, lambda _: False)
    return folded
