"""The iteration space of a kernel, which gives each of its values an index.

The first node of a kernel spans the space: one variable per dim of its result (for a reduction, of its operand). Each
further node is placed (given an index) by walking forward from a placed operand. Element-wise ops keep the index,
transpose and reshape permute it, and a reduction drops components. A kernel can be generated if each value that
depends on a dot or reduction is read only at its own index. All other values can be recomputed at any index. Fusion
and code generation both use this class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from meshgen.codegen.expr import Expr, Var, delinearize, linearize, variable, variables
from meshgen.codegen.fusion.accumulators import has_ragged_rows, have_equal_tiles
from meshgen.codegen.fusion.layout_indices import Index, backward, forward
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import DOTS, GEMMS, LAYOUT, LEAVING, POINTWISE, PRODUCTS, REDUCTIONS, REGROUPING
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.row_reductions import summed_runs


class Space:
    """The iteration space of one kernel, which grows node by node.

    `producer` returns the node that produces a value, or None if the kernel would load the value instead of recomputing
    it.

    Attributes:
        dims: the variables of the space, in the order of the dims of the value that spans it.
        index: the index of each placed value. A value from outside the kernel is placed by its first use.
        fixed: values that depend on a dot or reduction of the kernel, so that the kernel can read them only at the
            index in `index`.
        reduced: variables that the reductions of the kernel eliminate; empty before the first reduction.
        sums: reductions that sum equally long runs of the reduced rows. No node of the kernel reads these sums.
        dot: the first dot or convolution of the kernel, or None.
        dots: all dots of the kernel. Their results have the same tiles.
        parts: variables of the subtile and of the column within it, if the kernel reduces subtiles of the rows of its
            dot's result.
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
        """Set the dims of the space to those of a kernel's first node.

        Args:
            columns: columns per reduced subtile of a dot's result, or 0 if no subtile is reduced.
        """
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
            result_index = self._reduce_index(node)
            assert result_index is not None, "a reduce spans its own space"
            self._take_reduce(node, result_index)
        self.members.update(node.results)

    def start_at(self, node: Node, indices: Mapping[Value, Index]) -> None:
        """Set the dims of the space to those of an attention op whose results have the indices `indices`."""
        self.dims = tuple(v for e in indices[node.results[0]] for v in variables(e))
        self.size = node.results[0].type.size
        self.dot, self.dots = node, [node]
        self.index.update(indices)
        self.fixed.update(indices)
        self.members.update(indices)

    def _in_parts(self, dot: Node, index: Index, columns: int) -> Index:
        """Return the index of a dot's result with rows split into subtiles of `columns` columns. Sets `parts`."""
        count = len(DotDims.of(dot).free[1])
        sizes = dot.result.type.sizes[-count:]
        part, column = self.parts = (Var("part", 0, math.prod(sizes) // columns - 1), Var("column", 0, columns - 1))
        return (*index[:-count], *delinearize(Expr(((part, 1),)) * columns + Expr(((column, 1),)), sizes))

    @property
    def has_reduce(self) -> bool:
        """Whether the kernel reduces rows, or subtiles of the rows of its dot's result."""
        return self._first_reduce is not None

    @property
    def columns(self) -> int:
        """Return the number of columns of each reduced subtile, or 0 if the kernel reduces no subtiles."""
        return self.parts[1].high + 1 if self.parts else 0

    def add(self, node: Node) -> bool:
        """Add `node` if one kernel can compute it with the nodes of the space. If not, return False and change nothing."""
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
        """Add a reduction if it reduces the same variables as the other reductions. Return whether it was added."""
        value = node.operands[0]
        if (operand_index := self._place_beside(node)) is not None:
            self.index[value] = operand_index
        result_index = self._reduce_index(node)
        if result_index is None or not self._readable((value, self.locate(value) or ())):
            return False
        self._take_reduce(node, result_index)
        self.members.add(node.result)
        return True

    def _place_beside(self, node: Node) -> Index | None:
        """Return the index of the first reduction's operand if `node` reduces an unplaced value of equal shape and
        dims.
        """
        first, value = self._first_reduce, node.operands[0]
        if first is None or self.locate(value) is not None or self.depends(value):
            return None
        is_alike = (value.type.sizes, node.attrs.dims) == (first.operands[0].type.sizes, first.attrs.dims)
        return self.index[first.operands[0]] if is_alike else None

    def add_all(self, nodes: Sequence[Node], around: Sequence[Node]) -> list[Node]:
        """Add nodes in any possible order, and return the rest. Operands of placed nodes in `around` are placed too."""
        unplaced = [*nodes]
        while True:
            before = len(self.index)
            self._place_operands(around)
            unplaced = [n for n in unplaced if not self.add(n)]
            if len(self.index) == before:
                return unplaced

    def _place_operands(self, nodes: Sequence[Node]) -> None:
        """Place the operands of those placed nodes whose op is element-wise or an invertible index map."""
        for node in reversed(nodes):
            index = self.index.get(node.results[0])
            if index is None or node.results[0] in self.fixed:
                continue
            if node.op in POINTWISE:
                for operand in node.operands:
                    if operand.type.shape == node.result.type.shape:
                        self.index.setdefault(operand, index)
            elif node.op in ("transpose", "reshape", "reverse", "mask_padding"):
                self.index.setdefault(node.operands[0], backward(node, index))

    def is_sibling(self, node: Node) -> bool:
        """Whether `node` is a dot that differs only in its right operand from the dots of a kernel without epilogue."""
        first = self.dot
        if first is None or first.op not in DOTS or len(self.members) != len(self.dots):
            return False
        types = [v.type for v in (*node.operands, node.result)] == [v.type for v in (*first.operands, first.result)]
        return types and node.attrs == first.attrs and node.operands[0] is first.operands[0]

    def _add_product(self, node: Node) -> bool:
        """Add a dot if its result has the same tiles as the result of the first dot. Return whether it was added."""
        first = self.dot
        if first is None or not {first.op, node.op} <= GEMMS or not have_equal_tiles(first, node):
            return False
        if first.op != node.op or (first.op not in DOTS and not has_ragged_rows(first)):
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
        """Return the index of `value`, computed through layout ops if necessary, or None if the index is undetermined."""
        through: list[Node] = []
        while value not in self.index:
            node = self._producer(value)
            if node is None or node.op not in LAYOUT:
                return None
            through.append(node)
            value = node.operands[0]
        index: Index | None = self.index[value]
        for node in reversed(through):
            index = forward(node, index, self.reduced) if index is not None else None
        return index

    def depends(self, value: Value) -> bool:
        """Whether `value` depends on a dot or reduction of this kernel, through any nodes that the kernel recomputes."""
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
        candidates = [(v, index) for v in fitting if (index := self.locate(v)) is not None]
        dependent = [index for v, index in candidates if self.depends(v)]
        return (dependent or [index for _, index in candidates] or [None])[0]

    def _operands_readable(self, node: Node, index: Index) -> bool:
        if not self.fixed:
            return True
        if node.op in LAYOUT:
            needed = self._reads_through(node, index)
            return needed is not None and self._readable(*needed)
        shape = node.result.type.shape
        return self._readable(*((v, index if v.type.shape == shape else ()) for v in node.operands))

    def _readable(self, *requested: tuple[Value, Index]) -> bool:
        """Whether the kernel can compute each value in `requested` at the index with which it is paired."""
        stack, seen = list(requested) if self.fixed else [], set(requested)
        while stack:
            needed = self._reads_for(*stack.pop())
            if needed is None:
                return False
            stack += [read for read in needed if read not in seen]
            seen.update(needed)
        return True

    def _reads_for(self, value: Value, index: Index) -> list[tuple[Value, Index]] | None:
        """Return the reads by which the kernel computes `value` at `index`, or None if it cannot compute this element."""
        if value in self.fixed:
            return [] if self.index.get(value) == index else None
        node = self._producer(value)
        if value in self.members or node is None or not self.depends(value):
            return []
        if node.op in POINTWISE:
            return [(v, index if v.type.rank else ()) for v in node.operands]
        return self._reads_through(node, index) if node.op in LAYOUT else None

    def _reads_through(self, node: Node, index: Index) -> list[tuple[Value, Index]] | None:
        """Return the reads of a layout op at `index`, or None if the op (a pad) reads computed values conditionally."""
        if node.op in LEAVING:
            return None if any(self.depends(v) for v in node.operands) else []
        return [(node.operands[0], backward(node, index))]

    def _reduce_index(self, node: Node) -> Index | None:
        """Return the index of a reduction's result, or None if it eliminates other variables than the other reductions."""
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
        """Return the value that a sum over runs of rows adds up, as it is before reshapes split the rows into runs."""
        value = node.operands[0]
        while (reshape := self._producer(value)) is not None and reshape.op in REGROUPING:
            value = reshape.operands[0]
        return value

    def _sums_rows(self, node: Node) -> bool:
        """Whether a reduction sums runs of the rows that the kernel reduces, so that a program can hold the sums of one
        run.
        """
        runs = summed_runs(node)
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
        if self.sums and summed_runs(self.sums[0]) != runs:
            return False
        initial, value = self._producer(node.operands[1]), self.rows_of_sum(node)
        if initial is None or not is_constant(initial) or initial.attrs.value.any():
            return False
        index = self._place_in_rows(value)
        return self.locate(value) in (None, index) and self._readable((value, index))

    def _place_in_rows(self, value: Value) -> Index:
        """Return the index of a value that contains the elements of all rows in row-major order."""
        flat = linearize([Expr(((v, 1),)) for v in self.dims], [v.high + 1 for v in self.dims])
        return delinearize(flat, value.type.sizes)

    def _take_sum(self, node: Node) -> None:
        value = self.rows_of_sum(node)
        self.index.setdefault(value, self._place_in_rows(value))
        self.sums.append(node)
        self.fixed.add(node.result)
        self.members.add(node.result)

    def _take_reduce(self, node: Node, index: Index) -> None:
        operand_index = self.locate(node.operands[0])
        assert operand_index is not None
        out = {v for d in node.attrs.dims for v in variables(operand_index[d])}
        kept = tuple(e for d, e in enumerate(operand_index) if d not in node.attrs.dims)
        self.reduced = tuple(v for v in self.dims if v in out)
        self.index.setdefault(node.operands[0], operand_index)
        self.index[node.result] = kept
        self.fixed.add(node.result)
        self._first_reduce = self._first_reduce or node
