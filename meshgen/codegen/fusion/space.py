"""The indices of a kernel's values in its iteration space.

The first node of a kernel spans the space: one variable per dim of its result (of its operand where it is a
reduce). Every further node is placed by walking forwards from a placed operand: element-wise ops keep the
index, transpose and reshape permute it, a reduce drops components. A kernel can be generated exactly if each
value that depends on a dot or reduce is read only at the index where it is placed; all else can be computed
again at any index. Fusion and code generation ask this one class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from meshgen.codegen.expr import Expr, Var, delinearize, linearize, variable, variables
from meshgen.codegen.fusion.accumulators import by_rows, have_equal_tiles
from meshgen.codegen.fusion.layout_indices import Index, backward, forward
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import DOTS, LAYOUT, LEAVING, MATRIX_PRODUCTS, POINTWISE, PRODUCTS, REDUCTIONS, REGROUPING
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.rows import runs_of_rows


class Space:
    """The iteration space of one kernel as it grows node by node.

    `producer` gives the node that makes a value, where the kernel would copy it rather than read the value.

    Attributes:
        dims: the space's variables, in the order of the dims of the value that spans it.
        index: the index of each placed value; values from outside are placed by their first use.
        fixed: values that depend on a dot or a reduce of the kernel: readable only at their index.
        reduced: variables that the kernel's reduces sum out; empty before the first.
        sums: sums of runs of the rows that are reduced, over equally many runs; nothing in the kernel reads them.
        dot: the kernel's first dot, or its convolution, if any; `dots` all: their results have the same tiles.
        parts: where the kernel reduces parts of the rows of its dot's result, the number of the part and of the column in it.
    """

    def __init__(self, producer: Callable[[Value], Node | None]) -> None:
        self.dims: tuple[Var, ...] = ()
        self.size = 0
        self.index: dict[Value, Index] = {}
        self.members: set[Value] = set()
        self.fixed: set[Value] = set()
        self.reduced: tuple[Var, ...] = ()
        self._first_reduce: Node | None = None
        self.sums: list[Node] = []
        self.dot: Node | None = None
        self.dots: list[Node] = []
        self.parts: tuple[Var, ...] = ()
        self._producer = producer

    def start(self, node: Node, columns: int = 0) -> None:
        """Span the space by a kernel's first node; by a dot with parts of so many columns, which are reduced."""
        spanning = node.operands[0] if node.op in REDUCTIONS else node.result
        index = tuple(variable(f"d{i}", size) for i, size in enumerate(spanning.type.sizes))
        if columns:
            index = self._in_parts(node, index, columns)
        self.dims = tuple(v for e in index for v in variables(e))
        self.size = math.prod(spanning.type.sizes)
        self.index[spanning] = index
        if node.op in PRODUCTS:
            self.dot = node
            self.dots.append(node)
            self.fixed.add(node.result)
        if node.op in REDUCTIONS:
            placed = self._reduce_index(node)
            assert placed is not None, "a reduce spans its own space"
            self._take_reduce(node, placed)
        self.members.update(node.results)

    def start_at(self, node: Node, indices: Mapping[Value, Index]) -> None:
        """Span the space by an attention, with its results at these indices."""
        self.dims = tuple(v for e in indices[node.results[0]] for v in variables(e))
        self.size = node.results[0].type.size
        self.dot, self.dots = node, [node]
        self.index.update(indices)
        self.fixed.update(indices)
        self.members.update(indices)

    def _in_parts(self, dot: Node, index: Index, columns: int) -> Index:
        """The index of a dot's result, of whose rows each part of so many columns is reduced."""
        count = len(DotDims.of(dot).free[1])
        sizes = dot.result.type.sizes[-count:]
        part, column = self.parts = (Var("part", 0, math.prod(sizes) // columns - 1), Var("column", 0, columns - 1))
        return (*index[:-count], *delinearize(Expr(((part, 1),)) * columns + Expr(((column, 1),)), sizes))

    @property
    def has_reduce(self) -> bool:
        """Whether the kernel reduces anything, or parts of rows of its dot's result."""
        return self._first_reduce is not None

    @property
    def columns(self) -> int:
        """Those of each part that is reduced; 0 where nothing is."""
        return self.parts[1].high + 1 if self.parts else 0

    def add(self, node: Node) -> bool:
        """Take a further node in if it can be generated with the rest; otherwise change nothing."""
        if node.op in PRODUCTS:
            return self._add_product(node)
        if node.op in REDUCTIONS:
            if self._sums_rows(node):
                self._take_sum(node)
                return True
            return self._add_reduce(node)
        index = self._result_index(node)
        if index is None or not self._operands_readable(node, index):
            return False
        self.index[node.result] = index
        self.members.add(node.result)
        if any(self.depends(v) for v in node.operands):
            self.fixed.add(node.result)
        for operand in node.operands:
            if operand.type.shape == node.result.type.shape and node.op in POINTWISE:
                self.index.setdefault(operand, index)
        return True

    def _add_reduce(self, node: Node) -> bool:
        """Take in a reduction over the variables that others sum out."""
        value = node.operands[0]
        if (place := self._place_beside(node)) is not None:
            self.index[value] = place
        placed = self._reduce_index(node)
        if placed is None or not self._readable((value, self.locate(value) or ())):
            return False
        self._take_reduce(node, placed)
        self.members.add(node.result)
        return True

    def _place_beside(self, node: Node) -> Index | None:
        """Where the first reduction reads its operand, for one like it of a value that has no place yet and may have any."""
        first, value = self._first_reduce, node.operands[0]
        if first is None or self.locate(value) is not None or self.depends(value):
            return None
        is_alike = (value.type.sizes, node.attrs.dims) == (first.operands[0].type.sizes, first.attrs.dims)
        return self.index[first.operands[0]] if is_alike else None

    def add_all(self, nodes: Sequence[Node], around: Sequence[Node]) -> list[Node]:
        """Take nodes in, in any order that fits; those that cannot be are returned.

        Args:
            around: nodes in program order through which an operand may be placed by its use: these and the index maps between.
        """
        left = [*nodes]
        while True:
            before = len(self.index)
            self._place_operands(around)
            left = [n for n in left if not self.add(n)]
            if len(self.index) == before:
                return left

    def _place_operands(self, nodes: Sequence[Node]) -> None:
        """Place what placed values are made from by that use."""
        for node in reversed(nodes):
            place = self.index.get(node.results[0])
            if place is None or node.results[0] in self.fixed:
                continue
            if node.op in POINTWISE:
                for operand in node.operands:
                    if operand.type.shape == node.result.type.shape:
                        self.index.setdefault(operand, place)
            elif node.op in ("transpose", "reshape", "reverse", "mask_padding"):
                self.index.setdefault(node.operands[0], backward(node, place))

    def is_sibling(self, node: Node) -> bool:
        """Whether a dot differs from those of a kernel without epilogue in its right operand only."""
        first = self.dot
        if first is None or first.op not in DOTS or len(self.members) != len(self.dots):
            return False
        types = [v.type for v in (*node.operands, node.result)] == [v.type for v in (*first.operands, first.result)]
        return types and node.attrs == first.attrs and node.operands[0] is first.operands[0]

    def _add_product(self, node: Node) -> bool:
        """Take in a dot whose result has the tiles of the first one's."""
        first = self.dot
        if first is None or not {first.op, node.op} <= MATRIX_PRODUCTS or not have_equal_tiles(first, node):
            return False
        if first.op != node.op or (first.op not in DOTS and not by_rows(first)):
            return False
        if any(self.depends(v) for v in node.operands):
            return False
        self.dots.append(node)
        position = linearize(self.index[first.result], first.result.type.sizes)
        self.index[node.result] = delinearize(position, node.result.type.sizes)
        self.fixed.add(node.result)
        self.members.add(node.result)
        return True

    def locate(self, value: Value) -> Index | None:
        """The index of a value, seen through layout ops; None if undetermined."""
        through: list[Node] = []
        while value not in self.index:
            node = self._producer(value)
            if node is None or node.op not in LAYOUT:
                return None
            through.append(node)
            value = node.operands[0]
        place: Index | None = self.index[value]
        for node in reversed(through):
            place = forward(node, place, self.reduced) if place is not None else None
        return place

    def depends(self, value: Value) -> bool:
        """Whether a value depends on a dot or reduce of this kernel, over nodes that the kernel would copy too."""
        stack, seen = [value] if self.fixed else [], set[Value]()
        while stack:
            current = stack.pop()
            if current in self.fixed:
                return True
            node = None if current in self.members or current in seen else self._producer(current)
            seen.add(current)
            if node is not None:
                stack += node.operands
        return False

    def _result_index(self, node: Node) -> Index | None:
        if node.op in LAYOUT:
            source = self.locate(node.operands[0])
            return None if source is None else forward(node, source, self.reduced)
        if node.op not in POINTWISE:
            return None
        fitting = [v for v in node.operands if v.type.shape == node.result.type.shape]
        places = [(v, place) for v in fitting if (place := self.locate(v)) is not None]
        firm = [place for v, place in places if self.depends(v)]
        return (firm or [place for _, place in places] or [None])[0]

    def _operands_readable(self, node: Node, index: Index) -> bool:
        if not self.fixed:
            return True
        if node.op in LAYOUT:
            needed = self._reads_through(node, index)
            return needed is not None and self._readable(*needed)
        shape = node.result.type.shape
        return self._readable(*((v, index if v.type.shape == shape else ()) for v in node.operands))

    def _readable(self, *wanted: tuple[Value, Index]) -> bool:
        """Whether the kernel can have values at these indices."""
        stack, seen = list(wanted) if self.fixed else [], set(wanted)
        while stack:
            needed = self._reads_for(*stack.pop())
            if needed is None:
                return False
            stack += [each for each in needed if each not in seen]
            seen.update(needed)
        return True

    def _reads_for(self, value: Value, index: Index) -> list[tuple[Value, Index]] | None:
        """The values and indices that the kernel needs to compute the value at an index; None if it cannot."""
        if value in self.fixed:
            return [] if self.index.get(value) == index else None
        node = self._producer(value)
        if value in self.members or node is None or not self.depends(value):
            return []
        if node.op in POINTWISE:
            return [(v, index if v.type.rank else ()) for v in node.operands]
        return self._reads_through(node, index) if node.op in LAYOUT else None

    def _reads_through(self, node: Node, index: Index) -> list[tuple[Value, Index]] | None:
        """The same for the result of a layout op; what has conditions is computed from memory only."""
        if node.op in LEAVING:
            return None if any(self.depends(v) for v in node.operands) else []
        return [(node.operands[0], backward(node, index))]

    def _reduce_index(self, node: Node) -> Index | None:
        """The index of the result of a reduce; None if it does not sum out the same variables as the others."""
        value = node.operands[0]
        index = self.locate(value)
        if index is None or value.type.size != self.size:
            return None
        out = {v for d in node.attrs.dims for v in variables(index[d])}
        if self.dot is not None and out != {*self.parts[1:]}:
            return None
        kept = tuple(e for d, e in enumerate(index) if d not in node.attrs.dims)
        if any(v in out for e in kept for v in variables(e)):
            return None
        reduced = tuple(v for v in self.dims if v in out)
        if self.has_reduce and reduced != self.reduced:
            return None
        return kept

    def rows_of_sum(self, node: Node) -> Value:
        """What a sum of runs of rows adds up, before it is cut into runs."""
        value = node.operands[0]
        while (maker := self._producer(value)) is not None and maker.op in REGROUPING:
            value = maker.operands[0]
        return value

    def _sums_rows(self, node: Node) -> bool:
        """Whether a reduction sums runs of the rows that the kernel reduces: a program may have each run, and its sums in registers."""
        runs = runs_of_rows(node)
        if (
            runs is None
            or not self.has_reduce
            or self.dot is not None
            or self.dims[-len(self.reduced) :] != self.reduced
        ):
            return False
        limits, length = DEFAULT.fusion, math.prod(v.high + 1 for v in self.reduced)
        size = (runs.count * runs.rows * runs.length, runs.length)
        if size != (self.size, length) or runs.count < limits.least_programs:
            return False
        if max(2, len(self.sums) + 1) * length > limits.summed_elements:
            return False
        if self.sums and runs_of_rows(self.sums[0]) != runs:
            return False
        initial, value = self._producer(node.operands[1]), self.rows_of_sum(node)
        if initial is None or not is_constant(initial) or initial.attrs.value.any():
            return False
        place = self._place_in_rows(value)
        return self.locate(value) in (None, place) and self._readable((value, place))

    def _place_in_rows(self, value: Value) -> Index:
        """The index of a value that has the elements of the rows, in their order."""
        flat = linearize([Expr(((v, 1),)) for v in self.dims], [v.high + 1 for v in self.dims])
        return delinearize(flat, value.type.sizes)

    def _take_sum(self, node: Node) -> None:
        value = self.rows_of_sum(node)
        self.index.setdefault(value, self._place_in_rows(value))
        self.sums.append(node)
        self.fixed.add(node.result)
        self.members.add(node.result)

    def _take_reduce(self, node: Node, index: Index) -> None:
        place = self.locate(node.operands[0])
        assert place is not None
        out = {v for d in node.attrs.dims for v in variables(place[d])}
        kept = tuple(e for d, e in enumerate(place) if d not in node.attrs.dims)
        self.reduced = tuple(v for v in self.dims if v in out)
        self.index.setdefault(node.operands[0], place)
        self.index[node.result] = kept
        self.fixed.add(node.result)
        self._first_reduce = self._first_reduce or node
