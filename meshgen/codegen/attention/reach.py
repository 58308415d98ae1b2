"""Indices of values that are read from others with a known index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meshgen.codegen import expr as ex
from meshgen.codegen.attention.forward import variables_of
from meshgen.codegen.attention.indices import substituted
from meshgen.codegen.attention.layouts import Layouts, loops_of, parts_of, split_variable
from meshgen.codegen.attention.scalars import UnformedError
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import LAYOUT, LEAVING, POINTWISE, REDUCTIONS

_MOST_SPLITS = 4  # of loops, each of which shows others
Passes = Callable[[Node], bool]


def moves(node: Node) -> bool:
    """Whether the elements of a node's result are those of its operand, perhaps in another type."""
    return node.op == "convert" or node.op in LAYOUT - LEAVING


@dataclass(frozen=True)
class Reach:
    """Walks from values to what they are read from; `layouts` notes indices on the way."""

    layouts: Layouts

    def chain(self, operand: tuple[Value, Index]) -> dict[Value, Index]:
        """An operand, and what it is read from through layout ops and conversions, with indices."""
        found, (value, index) = dict[Value, Index](), operand
        while True:
            self.layouts.seen.setdefault(index)
            found[value] = index
            node = self.layouts.producer(value)
            if node is None or not moves(node):
                return found
            value, index = node.operands[0], index if node.op == "convert" else backward(node, index)

    def located(self, value: Value, anchors: Mapping[Value, Index], passes: Passes) -> Index:
        """The index of a value that is read from one with a known index, through the nodes that pass."""
        parts: Mapping[Var, tuple[int, ...]] = {}
        for _ in range(_MOST_SPLITS):
            table = {v: split_variable(v.text, v.high + 1, sizes) for v, sizes in parts.items()}
            own = tuple(ex.substitute(ex.variable(f"x{d}", n), table) for d, n in enumerate(value.type.sizes))
            seen: dict[Index, None] = {}
            found = self._anchor(value, own, anchors, passes, seen)
            if found is None:
                raise UnformedError
            solved = _solved(*found)
            if solved is not None and set(variables_of(own)) <= solved.keys():
                return substituted(own, solved)
            more = parts_of(seen)
            if not more or more == parts:
                raise UnformedError
            parts = more
        raise UnformedError

    def _anchor(self, value: Value, own: Index, anchors: Mapping[Value, Index], passes: Passes,
                seen: dict[Index, None]) -> tuple[Index, Index, Sequence[int]] | None:  # fmt: skip
        """The index of an anchor in terms of that of the value, its known index, and its sizes."""
        stack, done = [(value, own)], set[Value]()
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
        """Whether a value is read from an anchor, through layout ops and conversions."""
        return any(each in anchors for each in self.chain((value, tuple(ex.ZERO for _ in value.type.sizes))))

    def reaches(self, value: Value, ends: set[Value], passes: Passes) -> bool:
        """Whether a value is computed from one of the ends through nodes that pass, element by element."""
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
        """The index of `end` where a value that is computed from it is at an index."""
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


def _solved(index: Index, known: Index, sizes: Sequence[int]) -> dict[Var, Expr] | None:
    """The variables of an index as expressions, where it is the known one; None if it says no variable by itself."""
    found: dict[Var, Expr] = {}
    for place, there, size in zip(index, known, sizes, strict=True):
        loops = loops_of(place, size)
        if loops is None:
            return None
        parts = ex.delinearize(there, [v.high + 1 for v in loops])
        found.update(zip(loops, parts, strict=True))
    return found
