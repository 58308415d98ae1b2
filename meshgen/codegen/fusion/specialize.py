"""Specialize a function of single elements to what is known about some of its values (Shannon's expansion).

before   %c = compare GE, %row, %key    %r = select %c, (%score * 0.5), -inf
after    %r = %score * 0.5                                                          where %c holds
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

_NEUTRAL = {  # the number that leaves the other operand as it is, as the second operand and as the first
    "add": (0, 0), "subtract": (0, None), "multiply": (1, 1), "divide": (1, None),
    "minimum": (math.inf, math.inf), "maximum": (-math.inf, -math.inf),
}  # fmt: skip


@dataclass(frozen=True)
class _Folder:
    """Writes a function with some values known."""

    graph: Graph
    now: dict[Value, Value]
    known: dict[Value, np.ndarray[Any, Any]]

    def write(self, node: Node) -> None:
        operands = [self.now.get(v, v) for v in node.operands]
        numbers = [self.known.get(v) for v in operands]
        if node.op == "constant":
            self._set(node, np.asarray(node.attrs.value))
        elif numbers and all(number is not None for number in numbers):
            given = [number for number in numbers if number is not None]
            self._set(node, np.asarray(evaluate_node(replace(node, operands=operands), given)[0]))
        elif (same := _same(node, operands, numbers)) is not None:
            self.now[node.result] = same
        elif node.op == "subtract" and is_float(node.result.type.dtype) and numbers[1] is not None:
            negated = self._constant(-numbers[1], operands[1].type)
            self._append(node, "add", [operands[0], negated])
        else:
            self._append(node, node.op, operands)

    def _set(self, node: Node, number: np.ndarray[Any, Any]) -> None:
        self.now[node.result] = self._constant(number, node.result.type)

    def _constant(self, number: np.ndarray[Any, Any], kind: TensorType) -> Value:
        value = Builder(self.graph).splat(number, kind)
        self.known[value] = np.asarray(number, kind.numpy_dtype)
        return value

    def _append(self, node: Node, op: str, operands: Sequence[Value]) -> None:
        attrs = dict(node.attrs.given) if op == node.op else {}
        self.now[node.result] = Builder(self.graph, node.loc).append(op, operands, [node.result.type], attrs)[0]


def _same(node: Node, operands: Sequence[Value], numbers: Sequence[np.ndarray[Any, Any] | None]) -> Value | None:
    """The operand that a node gives unchanged; None if it changes it."""
    if node.op == "select" and numbers[0] is not None:
        return operands[1 if bool(numbers[0]) else 2]
    if node.op in ("and", "or") and node.result.type.dtype == "i1":
        for number, other in zip(numbers, operands[::-1], strict=True):
            if number is not None:
                return other if bool(number) == (node.op == "and") else operands[1 - operands.index(other)]
    if node.op in _NEUTRAL and is_float(node.result.type.dtype):
        right, left = _NEUTRAL[node.op]
        if numbers[1] is not None and float(numbers[1]) == right:
            return operands[0]
        if left is not None and numbers[0] is not None and float(numbers[0]) == left:
            return operands[1]
    return None


def specialized(region: Graph, known: Mapping[Value, bool] = MappingProxyType({})) -> Graph:
    """Return the function where tests hold or do not hold as `known` says, with constants folded."""
    found = Graph(region.name, region.inputs)
    folder = _Folder(found, {}, {})
    for node in region.nodes:
        if (flag := known.get(node.result)) is not None:
            folder.now[node.result] = Builder(found).splat(flag, node.result.type)
            folder.known[folder.now[node.result]] = np.asarray(flag)
        else:
            folder.write(node)
    found.outputs = [folder.now.get(v, v) for v in region.outputs]
    found.nodes = needed_nodes(found.nodes, found.outputs, lambda _: False)
    return found
