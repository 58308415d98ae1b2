"""How far two executions of one program may lie apart: the tolerance that results are compared with.

An execution conforms if every op is rounded to its element type, sums are added up in any order and grouping (in
f32 at least, partial sums rounded to the element type), and functions are right to a few ulp. Each value of the
graph gets a bound of |computed - exact|, by forward error analysis on the values at hand; the difference of two
executions is at most twice that. Nothing here is tuned: the constants are unit roundoffs and counts.

A value may exist as partial sums that are larger than itself, and rounding acts on those. So a value also has a
magnitude: the sum of absolute values of everything that was added up to it through linear ops.

Source: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapter 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from meshgen.ir.evaluate import Evaluator
from meshgen.ir.evaluate_common import Array
from meshgen.ir.evaluate_control import case_branch
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.tolerance_rules import RULES, Tracked, absolute, exact, spread_bound, unknown


class _Tracker:
    def __init__(self, tf32: bool) -> None:
        self._evaluator = Evaluator()
        self._tf32 = tf32

    def graph(
        self, graph: Graph, args: Sequence[Tracked], outer: Mapping[Value, Tracked] | None = None
    ) -> list[Tracked]:
        values: dict[Value, Tracked] = {**(outer or {}), **dict(zip(graph.inputs, args, strict=True))}
        for node in graph.nodes:
            operands = [values[v] for v in node.operands]
            values.update(zip(node.results, self._node(node, operands, values), strict=True))
        return [values[v] for v in graph.outputs]

    def _node(self, node: Node, operands: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        if node.op == "while":
            return self._while(node, operands, values)
        if node.op in ("if", "case"):
            return self._branch(node, operands, values)
        outer = {value: tracked.value for value, tracked in values.items()} if node.regions else None
        results = self._evaluator.node(node, [t.value for t in operands], outer)
        with np.errstate(all="ignore"):
            if rule := RULES.get(node.op):
                found = rule(node, operands, results, self._tf32)
            else:
                found = [spread_bound(operands, result) for result in results]
            return [_cleaned(tracked) for tracked in found]

    def _while(self, node: Node, state: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        condition, body = node.regions
        while True:
            (going,) = self.graph(condition, state, values)
            if going.is_uncertain:
                return [unknown(t.value) for t in state]
            if not bool(going.value):
                return state
            state = self.graph(body, state, values)

    def _branch(self, node: Node, operands: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        choice, *rest = operands
        taken = int(not bool(choice.value)) if node.op == "if" else case_branch(choice.value, len(node.regions))
        found = self.graph(node.regions[taken], rest, values)
        return [unknown(t.value) for t in found] if choice.is_uncertain else found


def _cleaned(tracked: Tracked) -> Tracked:
    """Infinities and NaN of the values themselves are taken as exact; a bound that is NaN is no bound."""
    special = ~np.isfinite(absolute(tracked.value))
    error = np.where(special, 0.0, np.nan_to_num(tracked.error, nan=np.inf, posinf=np.inf))
    magnitude = np.where(special, 0.0, np.nan_to_num(tracked.magnitude, nan=np.inf, posinf=np.inf))
    return Tracked(tracked.value, error, magnitude)


def error_bound(graph: Graph, args: Sequence[Array], *, tf32: bool = False) -> list[Array]:
    """Per output, per element: how far two conforming executions on these arguments may lie apart.

    Integers and booleans get 0 where nothing uncertain decides them, inf where anything may come out.
    Args:
        tf32: dots of f32 may round their inputs to tf32 (11 bits).
    """
    found = _Tracker(tf32).graph(graph, [exact(np.asarray(a)) for a in args])
    return [2.0 * np.asarray(t.error) for t in found]


def largest_excess(found: Array, expected: Array, bound: Array) -> tuple[float, float]:
    """(greatest absolute error, greatest ratio of error to bound); equal infinities and NaN count as no error."""
    left, right = (x.astype(np.float64) for x in (found, expected))
    with np.errstate(all="ignore"):
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        error = np.where(same, 0.0, np.abs(left - right))
        error = np.where(np.isnan(error), np.inf, error)
        ratio = np.where(error == 0, 0.0, np.where(np.isinf(bound), 0.0, error / bound))
    return float(error.max(initial=0.0)), float(ratio.max(initial=0.0))
