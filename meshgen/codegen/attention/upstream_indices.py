"""Walks from a value upstream to the values that it is computed from, with the index of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meshgen.codegen import expr as ex
from meshgen.codegen.attention.forward import variables_of
from meshgen.codegen.attention.indices import substituted
from meshgen.codegen.attention.layouts import Layouts, loops_of, parts_of, split_variable
from meshgen.codegen.attention.scalar_regions import UnformedError
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import LAYOUT, LEAVING, POINTWISE, REDUCTIONS

_MOST_SPLITS = 4  # most rounds of splitting loops, each of which may reveal further splits. Chosen: bounds the search
Passes = Callable[[Node], bool]


def moves(node: Node) -> bool:
    """Whether a node only moves or converts elements: its result has the same elements as its operand, perhaps in
    another dtype.
    """
    return node.op == "convert" or node.op in LAYOUT - LEAVING


@dataclass(frozen=True)
class Reach:
    """Walks from values upstream to their sources. `layouts` records the visited indices."""

    layouts: Layouts

    def chain(self, operand: tuple[Value, Index]) -> dict[Value, Index]:
        """Return the value and index of `operand`, and all values behind it through layout ops and conversions, each
        with its index.
        """
        indices, (value, index) = dict[Value, Index](), operand
        while True:
            self.layouts.seen.setdefault(index)
            indices[value] = index
            node = self.layouts.producer(value)
            if node is None or not moves(node):
                return indices
            value, index = node.operands[0], index if node.op == "convert" else backward(node, index)

    def located(self, value: Value, anchors: Mapping[Value, Index], passes: Passes) -> Index:
        """Return the index of `value`, which is computed from an anchor (a value whose index is known).

        Follows nodes that `passes` accepts.

        Raises:
            UnformedError: the anchors do not determine the index.
        """
        parts: Mapping[Var, tuple[int, ...]] = {}
        for _ in range(_MOST_SPLITS):
            table = {v: split_variable(v.text, v.high + 1, sizes) for v, sizes in parts.items()}
            variables = tuple(ex.substitute(ex.variable(f"x{d}", n), table) for d, n in enumerate(value.type.sizes))
            seen: dict[Index, None] = {}
            equation = self._anchor(value, variables, anchors, passes, seen)
            if equation is None:
                raise UnformedError
            solved = _solved(*equation)
            if solved is not None and set(variables_of(variables)) <= solved.keys():
                return substituted(variables, solved)
            new_parts = parts_of(seen)
            if not new_parts or new_parts == parts:
                raise UnformedError
            parts = new_parts
        raise UnformedError

    def _anchor(self, value: Value, value_index: Index, anchors: Mapping[Value, Index], passes: Passes,
                seen: dict[Index, None]) -> tuple[Index, Index, Sequence[int]] | None:  # fmt: skip
        """Walk from `value` with index `value_index` to an anchor.

        Returns the anchor's index in terms of `value_index`, the anchor's known index, and the anchor's sizes. Returns None if
        the walk reaches no anchor.
        """
        stack, done = [(value, value_index)], set[Value]()
        while stack:
            current, index = stack.pop()
            seen.setdefault(index)
            if current in anchors:
                return index, anchors[current], current.type.sizes
            node = self.layouts.producer(current)
            if node is None or current in done or not passes(node):
                continue
            done.add(current)
            if node.op in LAYOUT:
                stack.append((node.operands[0], backward(node, index)))
            elif node.op in POINTWISE:
                stack += [(v, index) for v in node.operands if v.type.rank]
        return None

    def shares(self, value: Value, anchors: Mapping[Value, Index]) -> bool:
        """Whether `value` is equal to an anchor, or is computed from one by layout ops and conversions only."""
        return any(source in anchors for source in self.chain((value, tuple(ex.ZERO for _ in value.type.sizes))))

    def reaches(self, value: Value, ends: set[Value], passes: Passes) -> bool:
        """Whether `value` is computed element by element from a value in `ends`, through nodes that `passes` accepts."""
        stack, done = [value], set[Value]()
        while stack:
            current = stack.pop()
            if current in ends:
                return True
            node = self.layouts.producer(current)
            if node is not None and current not in done and passes(node) and node.op not in REDUCTIONS:
                done.add(current)
                stack += node.operands
        return False

    def walked(self, value: Value, index: Index, end: Value, passes: Passes) -> Index:
        """Return the index at which `end` is read if `value`, which is computed from `end`, is computed at `index`."""
        stack, done = [(value, index)], set[Value]()
        while stack:
            current, place = stack.pop()
            if current is end:
                return place
            node = self.layouts.producer(current)
            if node is None or current in done or not passes(node) or node.op in REDUCTIONS:
                continue
            done.add(current)
            if node.op in LAYOUT:
                stack.append((node.operands[0], backward(node, place)))
            else:
                stack += [(v, place) for v in node.operands if v.type.rank]
        raise UnformedError


def _solved(index: Index, known_index: Index, sizes: Sequence[int]) -> dict[Var, Expr] | None:
    """Solve `index == known` for the variables of `index`.

    Returns None if a component of `index` is not a plain nest of variables.
    """
    solution: dict[Var, Expr] = {}
    for expr, known_expr, size in zip(index, known_index, sizes, strict=True):
        loops = loops_of(expr, size)
        if loops is None:
            return None
        parts = ex.delinearize(known_expr, [v.high + 1 for v in loops])
        solution.update(zip(loops, parts, strict=True))
    return solution
