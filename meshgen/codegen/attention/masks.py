"""A mask by position is the last thing that the function of a score does, whichever way it is written.

    before   %m = convert (compare GE, %row, %key)    %r = %score * 0.5 - 1e9 * (1 - %m)
    after    %r = select (compare GE, %row, %key), %score * 0.5, %score * 0.5 - 1e9

The function is specialized to a comparison of positions that holds, and to one that does not (Shannon's expansion). Where it is a large negative number
in one of both, or has one added, kernels need not compute it there (`codegen/fusion/attention_mask.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshgen.codegen.fusion.attention_mask import LARGE_FILL
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value, is_float
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import needed_nodes
from meshgen.ops.evaluate.evaluator import evaluate_node

_INVERSE = {"GE": "LT", "LT": "GE", "GT": "LE", "LE": "GT", "EQ": "NE", "NE": "EQ"}
_NEUTRAL = {  # the number that leaves the other operand as it is, as the second operand and as the first
    "add": (0, 0), "subtract": (0, None), "multiply": (1, 1), "divide": (1, None),
    "minimum": (math.inf, math.inf), "maximum": (-math.inf, -math.inf),
}  # fmt: skip


def with_masks_last(region: Graph, positions: int) -> Graph:
    """The function with masks by position in selects at its end; the last `positions` arguments are positions."""
    whole, masks = region, list[_Mask]()
    while (mask := _first(whole, positions)) is not None:
        masks.append(mask)
        whole = mask.inside
    if not masks or (len(masks) == 1 and _is_last(region, masks[0])):
        return region
    return _joined(whole, masks)


def _is_last(region: Graph, mask: _Mask) -> bool:
    """Whether a function ends with a select by a mask's test."""
    last = region.index.producers.get(region.outputs[0])
    return last is not None and last.op == "select" and last.operands[0] is mask.test.result


@dataclass(frozen=True)
class _Mask:
    """A function as one where a test compares positions as `direction` says, and one elsewhere; `nodes` are those of the whole function."""

    test: Node
    direction: str
    inside: Graph
    outside: Graph
    nodes: Sequence[Node]


def _first(whole: Graph, positions: int) -> _Mask | None:
    """The first mask by position of a function."""
    for test in _tests(whole, positions):
        direction = str(test.attrs.direction)
        holds, fails = (_specialized(whole, test.result, flag) for flag in (True, False))
        if _is_low(fails):
            return _Mask(test, direction, holds, fails, whole.nodes)
        if _is_low(holds):
            return _Mask(test, _INVERSE[direction], fails, holds, whole.nodes)
    return None


def _tests(region: Graph, positions: int) -> list[Node]:
    """The comparisons that depend on positions alone."""
    known = set(region.inputs[len(region.inputs) - positions :])
    found: list[Node] = []
    for node in region.nodes:
        if all(value in known for value in node.operands):
            known.update(node.results)
            is_test = node.op == "compare" and not is_float(node.operands[0].type.dtype)
            found += [node] * (is_test and node.operands[0].type.dtype != "i1")
    return found


def _is_low(region: Graph) -> bool:
    """Whether a function is a large negative number, or has one added."""
    (output,) = region.outputs
    producer = region.index.producers
    node = producer.get(output)
    if node is not None and node.op == "add":
        return any((number := _number(producer.get(v))) is not None and number <= LARGE_FILL for v in node.operands)
    number = _number(node)
    return number is not None and number <= LARGE_FILL


def _number(node: Node | None) -> float | None:
    return float(np.asarray(node.attrs.value).astype(np.float64)) if is_constant(node) else None


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
        elif all(number is not None for number in numbers):
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


def _specialized(region: Graph, test: Value, flag: bool) -> Graph:
    """The function where a test holds, or where it does not."""
    found = Graph(region.name, region.inputs)
    folder = _Folder(found, {}, {})
    for node in region.nodes:
        if test in node.results:
            folder.now[test] = Builder(found).splat(flag, test.type)
            folder.known[folder.now[test]] = np.asarray(flag)
        else:
            folder.write(node)
    found.outputs = [folder.now.get(v, v) for v in region.outputs]
    found.nodes = needed_nodes(found.nodes, found.outputs, lambda _: False)
    return found


def _joined(inside: Graph, masks: Sequence[_Mask]) -> Graph:
    """What the function is where all tests hold, and what it is where one does not: of tests that fill alike one select."""
    found = Graph(inside.name, inside.inputs)
    for graph in (*(mask.nodes for mask in masks), *(mask.outside.nodes for mask in masks), inside.nodes):
        found.nodes += graph
    builder, (output,) = Builder(found), inside.outputs
    last: tuple[Value, Value, float | None] | None = (
        None  # the condition of the last select, what it chooses, and its fill
    )
    for mask in reversed(masks):
        test, (other,) = mask.test, mask.outside.outputs
        is_same = mask.direction == test.attrs.direction
        condition = test.result if is_same else builder.compare(mask.direction, *test.operands)
        fill = _number(mask.outside.index.producers.get(other))
        if last is not None and fill is not None and fill == last[2]:
            condition, output = builder.elementwise("and", condition, last[0]), last[1]
        last = condition, output, fill
        output = builder.elementwise("select", condition, output, other)
    found.outputs = [output]
    found.nodes = needed_nodes(found.nodes, found.outputs, lambda _: False)
    return found
