"""What a kernel loads for one element of a value: the values in memory, and at how many indices it reads each.

    y = x[::2] * x[1::2]          2 loads of x
    z = pad(y) + pad(y, 1)        4: y is computed at two indices, and from two loads each time

What is made from nothing (iota) is counted as well, by itself: it is cheap, but what is computed from it at each index is not.
A tile of each load is in registers, which bounds kernels whose values meet at many indices, as in associative scans. Results of reductions
and products are computed once, where they are placed: their readers load nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import LOOPS, MADE, POINTWISE, PRODUCTS

# Values made from nothing for one element of a kernel's values, which it computes from others at several indices.
_MADE = 256

Needed = frozenset[tuple[Value, int]]  # values in memory or made from nothing, each with the number of an index
Maker = Callable[[Value], Node | None]
"""The node with which a kernel computes a value; None for what it loads."""

_COMPUTED_ONCE = LOOPS | PRODUCTS
_AT_ONE_INDEX = POINTWISE | _COMPUTED_ONCE  # they read their operands at the index of their result, or in a loop


class Loads:
    """What values of kernels need; the indices that equal maps make of equal ones have one number, 0 is that of the element."""

    def __init__(self) -> None:
        self._maps: dict[Hashable, int] = {}  # numbers of what nodes do to an index: equal nodes do the same
        self._map_of: dict[Node, int] = {}
        self._numbers: dict[tuple[int, int], int] = {}  # of what a map makes of an index
        self._made: set[Value] = set()  # from nothing

    def fit(self, needed: Needed) -> bool:
        """Whether a kernel has room for what an element of one of its values needs."""
        if len(needed) <= DEFAULT.fusion.loads:
            return True
        made = sum([value in self._made for value, _ in needed])
        return len(needed) - made <= DEFAULT.fusion.loads and made <= _MADE

    def by(self, node: Node, maker: Maker, known: dict[Value, Needed]) -> Needed:
        """What a kernel loads for an element of a node's results, or to reduce; `known` is what was found for the same kernel before."""
        for value in node.operands:
            if value not in known:
                self._find(value, maker, known)
        return self.joined(node, [known[value] for value in node.operands])

    def _find(self, value: Value, maker: Maker, known: dict[Value, Needed]) -> None:
        stack = [value]
        while stack:
            current = stack[-1]
            node = None if current in known else maker(current)
            if current in known:
                stack.pop()
            elif node is None:
                known[current] = frozenset({(current, 0)})
            elif node.op in _COMPUTED_ONCE:
                known[current] = frozenset()
            elif missing := [v for v in node.operands if v not in known]:
                stack += missing
            else:
                known[current] = self.joined(node, [known[v] for v in node.operands])

    def joined(self, node: Node, needed: list[Needed]) -> Needed:
        """What is loaded for an element of a node's results; `needed` is what is loaded for one of each operand."""
        if node.op in MADE:
            self._made.update(node.results)
            return frozenset([(value, 0) for value in node.results if value.type.rank])
        found = _union(needed)
        if not found or node.op in _AT_ONE_INDEX:
            return found
        if (step := self._map_of.get(node)) is None:
            key = node.op, node.attrs, node.result.type.shape, *node.operands[1:]
            step = self._map_of[node] = self._maps.setdefault(key, len(self._maps))
        numbers = self._numbers
        return frozenset([(each, numbers.setdefault((step, index), len(numbers) + 1)) for each, index in found])


def _union(many: list[Needed]) -> Needed:
    """The union, without a new set where one of them has all the others."""
    found = many[0] if many else Needed()
    for each in many[1:]:
        if each is not found and each:
            found = found if found.issuperset(each) else found | each
    return found
