"""Number of loads that a kernel needs per element of a value: (value in memory, index) pairs.

    y = x[::2] * x[1::2]          2 loads of x
    z = pad(y) + pad(y, 1)        4: y is computed at two indices, with two loads each time

A generated value (iota) counts as a load of itself: it is cheap, but values computed from it at each index are not. A
kernel keeps a tile of each load in registers. This limits kernels whose values are read at many indices, as in
associative scans. Results of reductions and matmuls are computed once, so their readers load nothing for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import LOOPS, MADE, POINTWISE, PRODUCTS

# Most generated values, counted once per index, for one element of a value. Chosen: bounds the size of the generated
# code.
_MOST_GENERATED = 256

# the loads of an element: pairs of a value (in memory or generated) and the number of the index at which it is read
Needed = frozenset[tuple[Value, int]]
Maker = Callable[[Value], Node | None]
"""Returns the node with which a kernel computes a value, or None if the kernel loads the value."""

_COMPUTED_ONCE = LOOPS | PRODUCTS
_AT_ONE_INDEX = POINTWISE | _COMPUTED_ONCE  # Ops that read operands at the same index as their result, or in a loop.


class Loads:
    """Computes the loads that values of kernels need.

    Indices are numbered: 0 is the index of the element itself. Equal index maps of equal indices have equal numbers.
    """

    def __init__(self) -> None:
        self._maps: dict[Hashable, int] = {}  # number of each index map; equal layout ops are equal maps
        self._map_of: dict[Node, int] = {}
        # number of the index that map m yields for index i, by (number of m, number of i)
        self._numbers: dict[tuple[int, int], int] = {}
        self._made: set[Value] = set()  # generated values so far

    def fit(self, needed: Needed) -> bool:
        """Whether a kernel may need the loads `needed` for one element: they do not exceed the limits."""
        if len(needed) <= DEFAULT.fusion.loads:
            return True
        generated = sum([value in self._made for value, _ in needed])
        return len(needed) - generated <= DEFAULT.fusion.loads and generated <= _MOST_GENERATED

    def by(self, node: Node, producer: Maker, cache: dict[Value, Needed]) -> Needed:
        """Return the loads for one element of a node's results or, for a reduction, for one reduced element.

        `cache` holds the loads of other values of the same kernel.
        """
        for value in node.operands:
            if value not in cache:
                self._find(value, producer, cache)
        return self.joined(node, [cache[value] for value in node.operands])

    def _find(self, value: Value, producer: Maker, cache: dict[Value, Needed]) -> None:
        stack = [value]
        while stack:
            current = stack[-1]
            node = None if current in cache else producer(current)
            if current in cache:
                stack.pop()
            elif node is None:
                cache[current] = frozenset({(current, 0)})
            elif node.op in _COMPUTED_ONCE:
                cache[current] = frozenset()
            elif missing := [v for v in node.operands if v not in cache]:
                stack += missing
            else:
                cache[current] = self.joined(node, [cache[v] for v in node.operands])

    def joined(self, node: Node, needed: list[Needed]) -> Needed:
        """Return the loads per element of the node's result. `needed` lists the loads per element of each operand."""
        if node.op in MADE:
            self._made.update(node.results)
            return frozenset([(value, 0) for value in node.results if value.type.rank])
        operand_loads = _union(needed)
        if not operand_loads or node.op in _AT_ONE_INDEX:
            return operand_loads
        if (step := self._map_of.get(node)) is None:
            key = node.op, node.attrs, node.result.type.shape, *node.operands[1:]
            step = self._map_of[node] = self._maps.setdefault(key, len(self._maps))
        index_numbers = self._numbers
        return frozenset(
            [
                (source, index_numbers.setdefault((step, index), len(index_numbers) + 1))
                for source, index in operand_loads
            ]
        )


def _union(many: list[Needed]) -> Needed:
    """Return the union of the sets in `many`, without a new set if one of them contains all others."""
    union = many[0] if many else Needed()
    for loads in many[1:]:
        if loads is not union and loads:
            union = union if union.issuperset(loads) else union | loads
    return union
