"""Operands of a GEMM main loop: copied as TMA tiles, loaded through advancing pointers, or computed in registers.

A plain operand is one load seen through index maps. If its rows are evenly spaced and aligned, one instruction of
one thread copies a tile of it (TMA). TMA fills elements outside of the tensor with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot_problem import Problem
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import NEVER, Guards
from meshgen.codegen.emit.index_maps import read_through
from meshgen.codegen.expr import ZERO, Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import Int, integer, lanes, moved
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import DTYPES, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.kernels.architectures import tensor_cores
from meshgen.kernels.matmul import TMA_ALIGNMENT, TMA_BYTES, TMA_K, TMA_ROWS, Tile
from meshgen.ops.classes import LAYOUT, POINTWISE
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.triton.registers import NARROW, Code, rounded, zero

_SIDES = ("a", "b")


@dataclass(frozen=True)
class Load:
    """An operand of the main loop that a single load produces.

    Attributes:
        stride: address increment per step of k, in elements. None if the increment is not constant or the access is
            bounds-checked.
        tma: the layout for a TMA descriptor, or None if the operand cannot have a descriptor.
    """

    value: Value
    index: Index
    guards: Guards
    stride: int | None
    tma: TmaTile | None


@dataclass(frozen=True)
class TmaTile:
    """An operand as a matrix with contiguous rows, of which one TMA instruction copies a tile.

    Attributes:
        first: offset of the matrix in the operand, in elements; the same in all lanes.
        row, column: the variables over the rows and the columns of the matrix. One of them is k.
        stride: elements between the starts of two rows.
        outer: the batch variable and the elements between two matrices, or None if there is one matrix.
    """

    first: Expr
    row: Var
    column: Var
    stride: int
    outer: tuple[Var, int] | None


class Operands:
    """The two operands of a dot, indexed by the tile variables: `batch`, m, n, and k (laid out along columns and along
    rows).

    Attributes:
        group: the batch variable if the main loop iterates over it, or None. Descriptors then cover all matrices of the
            batch.
    """

    def __init__(self, evaluator: Evaluator, node: Node, problem: Problem, tile: Tile, batch: Expr,
                 free: tuple[Var, Var], parts: Mapping[Var, Int]) -> None:  # fmt: skip
        self.evaluator, self.node, self.problem, self.tile = evaluator, node, problem, tile
        self.batch, self.free, self.parts = batch, free, parts
        self.group = next(iter(ex.variables(batch)), None) if problem.batch == 1 else None
        self.k = (Var("k_col", 0, problem.k - 1), Var("k_row", 0, problem.k - 1))
        self.dims = DotDims.of(node)
        self.order = tuple(range(len(self.dims.contract[0])))
        self.loads: tuple[Load | None, Load | None] = (None, None)
        self.descriptors: list[str] = ["", ""]
        self.step = "start"  # source of the offset along k of the TMA tiles that this step copies
        self.leaves: tuple[Load, ...] = ()  # TMA tiles that the left operand is computed from
        self.is_made_of_tma_tiles = False  # whether the left operand is computed only from `leaves` and constants
        self._leaf_descriptors: list[str] = []

    def arrange(self) -> None:
        """Choose an order of the contracted dims for which the addresses of as many operands as possible have a
        constant stride along k.
        """
        positions = range(len(self.dims.contract[0]))
        orders = [tuple(positions), *(tuple(sorted(positions, key=side.__getitem__)) for side in self.dims.contract)]
        loads_by_order: dict[tuple[int, ...], tuple[Load | None, Load | None]] = {}
        for self.order in dict.fromkeys(orders):
            loads_by_order[self.order] = (self._plain(0), self._plain(1))
        self.order = min(
            loads_by_order, key=lambda order: sum(load is None or load.stride is None for load in loads_by_order[order])
        )
        self.loads = loads_by_order[self.order]
        if self.loads[0] is None:
            self._find_leaves()

    def _find_leaves(self) -> None:
        """Find the TMA tiles that the left operand is computed from element by element.

        A value that is read at several indices is not a TMA tile.
        """
        read_indices, has_other_inputs = dict[Value, set[Index]](), False
        stack = [(self.node.operands[0], self.index(0))]
        while stack:
            value, index = stack.pop()
            node = self.evaluator.producer.get(value)
            if node is None:
                read_indices.setdefault(value, set()).add(index)
            elif node.op in LAYOUT:
                read = read_through(self.evaluator, node, index)
                has_other_inputs |= bool(read.conditions)
                stack.append((read.value, read.index))
            elif node.op in POINTWISE:
                stack += [(operand, index if operand.type.rank else ()) for operand in node.operands]
            else:
                has_other_inputs |= not is_constant(node)
        tma_tiles = {v: self._leaf(v, next(iter(indices))) for v, indices in read_indices.items() if len(indices) == 1}
        self.leaves = tuple(load for load in tma_tiles.values() if load)
        read_once = [v for v in read_indices if v.type.size > 1]
        self.is_made_of_tma_tiles = (
            not has_other_inputs and bool(self.leaves) and all(tma_tiles.get(v) for v in read_once)
        )

    def _leaf(self, value: Value, index: Index) -> Load | None:
        """Return the TMA load of a value that the left operand is computed from, or None if TMA cannot copy it."""
        offset, k, side = ex.linearize(index, value.type.sizes), self.k[0], self.free[0]
        if set(self.evaluator.over(offset)) != {k, side} or k not in dict(offset.terms) or _is_inside(k, offset):
            return None
        tma = self._tma_tile(value, offset, k, side, (*TMA_BYTES, 4))
        return Load(value, index, (), None, tma) if tma else None

    def describes(self, device: Device) -> bool:
        """Whether TMA descriptors copy operands: the device has TMA, the matmul is large, and an operand is a TMA tile."""
        has_tma = tensor_cores(device.architecture).has_tma and self.tile.m >= TMA_ROWS
        return (
            has_tma and self.problem.k >= TMA_K and (bool(self.leaves) or any(load and load.tma for load in self.loads))
        )

    def describe(self) -> None:
        """Write the TMA descriptors of the operands that can have one, before the loop."""
        for operand_index, load in enumerate(self.loads):
            if load is not None and load.tma is not None:
                self.descriptors[operand_index] = self._described(load.value, load.tma, f"{_SIDES[operand_index]}_box")
        self._leaf_descriptors = [self._described(load.value, load.tma, "a_box") for load in self.leaves if load.tma]

    def _described(self, value: Value, tma: TmaTile, preferred: str) -> str:
        pointer = integer(self.evaluator.pointer_of[value])
        start = pointer if tma.first == ZERO else moved(pointer, tma.first)
        sides = (tma.row, tma.column)
        sizes = [self.parts.get(var) or integer(var.high + 1) for var in sides]
        strides, blocks = [tma.stride, 1], [self._block(var) for var in sides]
        if tma.outer:
            var, distance = tma.outer
            sizes, strides, blocks = [integer(var.high + 1), *sizes], [distance, *strides], ["1", *blocks]
        return self.evaluator.described(preferred, start, sizes, strides, blocks)

    def _block(self, var: Var) -> str:
        columns = f"BLOCK_N // {self.tile.parts}" if self.tile.is_specialized and self.tile.parts > 1 else "BLOCK_N"
        return "BLOCK_K" if var in self.k else "BLOCK_M" if var is self.free[0] else columns

    # ---- analysis of the operands

    def index(self, operand_index: int) -> Index:
        """Return the index of operand `operand_index` in terms of batch, m or n, and k."""
        shape = self.node.operands[operand_index].type.sizes
        k = Expr(((self.k[operand_index], 1),))
        batch, free = self.dims.batch[operand_index], self.dims.free[operand_index]
        contract = [self.dims.contract[operand_index][position] for position in self.order]
        index_by_dim: dict[int, Expr] = {}
        for dims, flat in ((batch, self.batch), (free, one(self.free[operand_index])), (contract, k)):
            coordinates = ex.delinearize(flat, [shape[d] for d in dims]) if dims else ()
            index_by_dim |= dict(zip(dims, coordinates, strict=True))
        return tuple(index_by_dim[d] for d in range(len(shape)))

    def _plain(self, operand_index: int) -> Load | None:
        """Return the operand as one load seen through index maps, or None if it must be computed."""
        value, index, guards = self.node.operands[operand_index], self.index(operand_index), ()
        k, side = self.k[operand_index], self.free[operand_index]
        producer = self.evaluator.producer
        while (node := producer.get(value)) is not None:
            if node.op not in LAYOUT:
                return None
            read = read_through(self.evaluator, node, index)
            value, index, fill = read.value, read.index, read.fill
            if NEVER in read.conditions or (read.conditions and not (fill is None or self._is_zero(fill))):
                return None
            guards = (*guards, *read.conditions)
        if value.type.dtype != self.problem.dtype:
            return None
        offset = ex.linearize(index, value.type.sizes)
        over = {k} if side.high == 0 else {k, side}
        if set(self.evaluator.over(offset)) != over:
            return None
        factors = dict(offset.terms)
        is_even = k in factors and not any(k in g.over for g in guards) and not _is_inside(k, offset)
        tma = self._tma_tile(value, offset, k, side) if is_even and not guards else None
        # The operand is a single row. Only a TMA copy fills the other rows of its tile with zeros.
        if side not in over:
            return Load(value, index, guards, None, tma) if tma else None
        advances = is_even and not self.evaluator.checked and k not in self.parts
        return Load(value, index, guards, factors[k] if advances else None, tma)

    def _is_zero(self, fill: Value | str) -> bool:
        if isinstance(fill, str):
            return fill in ("0", "0.0")
        node = self.evaluator.producer.get(fill)
        return is_constant(node) and not node.attrs.value.any()

    def _tma_tile(
        self, value: Value, offset: Expr, k: Var, side: Var, sizes: Sequence[int] = TMA_BYTES
    ) -> TmaTile | None:
        """Return the operand as rows of a matrix, or None if rows are not contiguous, aligned and evenly spaced."""
        factors, nbytes = dict(offset.terms), DTYPES[value.type.dtype].itemsize
        if side.high == 0:  # A TMA descriptor of a single row may have any row stride.
            factors[side] = k.high + 1
        if side not in factors or _is_inside(side, offset) or nbytes not in sizes:
            return None
        row, column = (side, k) if factors[k] == 1 else (k, side)
        stride = factors[row]
        first = Expr(tuple((atom, factor) for atom, factor in offset.terms if atom not in (k, side)), offset.const)
        steps = [stride, first.const, *(factor for _, factor in first.terms)]
        outer = next(
            ((atom, f) for atom, f in first.terms if isinstance(atom, Var) and atom == self.group and f > 0), None
        )
        if factors[column] != 1 or stride <= 0 or any(step * nbytes % TMA_ALIGNMENT for step in steps):
            return None
        low, high = first.bounds
        is_inside = low >= 0 and high + row.high * stride + column.high < value.type.size
        if outer:
            first -= Expr((outer,))
        return TmaTile(first, row, column, stride, outer) if is_inside else None

    @property
    def layout(self) -> tuple[bool, ...]:
        """Return for each operand that is a TMA tile whether k is the tile's row variable (if not, it is the column's)."""
        return tuple(load.tma.row in self.k for load in self.loads if load and load.tma)

    # ---- the tile of a step

    def pointers(self, operand_index: int) -> str:
        """Write the addresses of the first step's tile and return their variable, or "" if the operand has no advancing
        pointers.
        """
        load = self.loads[operand_index]
        if load is None or load.stride is None or self.descriptors[operand_index]:
            return ""
        k, evaluator = self.k[operand_index], self.evaluator
        first = evaluator.widened(lanes("BLOCK_K")).turned("[None, :]" if operand_index == 0 else "[:, None]")
        evaluator.bind(first)
        table = {k: one(replace(k, text=first.text))}
        address, _ = evaluator.address(load.value, tuple(ex.substitute(e, table) for e in load.index))
        return evaluator.assign(f"{_SIDES[operand_index]}_ptrs", address)

    def advance(self, operand_index: int, pointer: str) -> None:
        """Write the increment of an operand's addresses to the next step's tile."""
        load = self.loads[operand_index]
        if pointer and load is not None and load.stride:
            self.evaluator.advance(
                pointer, integer("BLOCK_K") if load.stride == 1 else integer("BLOCK_K") * load.stride
            )

    def tile_of(self, operand_index: int, pointer: str, part: int = 0) -> str:
        """Return this step's tile of an operand in the matmul dtype. `part`: the column subtile of the right operand."""
        load, evaluator = self.loads[operand_index], self.evaluator
        if load is not None and self.descriptors[operand_index]:
            return self.copied(operand_index, self.descriptors[operand_index], load.tma, part)
        if load is None or self.free[operand_index].high == 0:
            return self._computed(operand_index)
        if not pointer:
            return evaluator.load(load.value, load.index, load.guards, raw=True).text
        evaluator.next_is_checked()  # Only counts the access: advancing addresses are never bounds-checked.
        _, mask = evaluator.address(load.value, load.index, load.guards)
        return evaluator.loaded(_SIDES[operand_index], integer(pointer), mask, zero(load.value.type.dtype))

    def copied(self, operand_index: int, name: str, tma: TmaTile | None, subtile: int = 0) -> str:
        """Write the TMA copy of a tile, transposed if the matmul needs k in the other dim, and return the variable."""
        assert tma is not None
        narrow = ".to(tl.int32)" if self.evaluator.wide else ""
        # Triton 3.6 derives the rows of the second warp group from this expression, so no other variable may use this
        # expression.
        row = "tl.maximum(tile_m, 0)" if self.tile.is_specialized else "tile_m"
        column_offset = f" + {subtile} * (BLOCK_N // {self.tile.parts})" if subtile else ""
        starts = {
            self.k[operand_index]: self.step,
            self.free[0]: f"({row} * BLOCK_M){narrow}",
            self.free[1]: f"(tile_n * BLOCK_N{column_offset}){narrow}",
        }
        if not narrow:
            starts = {
                var: text.removeprefix("(").removesuffix(")") if text.startswith("(") else text
                for var, text in starts.items()
            }
        sides = (tma.row, tma.column)
        offsets = ", ".join(starts[var] for var in sides)
        suffix = ".T" if (tma.row in self.k) == (operand_index == 0) else ""
        if tma.outer:
            offsets = f"{tma.outer[0].text}{narrow}, {offsets}"
            suffix = f".reshape({', '.join(map(self._block, sides))}){suffix}"
        return self.evaluator.assign(_SIDES[operand_index], f"{name}.load([{offsets}]){suffix}")

    def _computed(self, operand_index: int) -> str:
        """Return the tile of an operand that is computed in registers. Lanes past the end of k are 0."""
        evaluator = self.evaluator
        leaves = (
            zip(self.leaves, self._leaf_descriptors, strict=True)
            if operand_index == 0 and self._leaf_descriptors
            else ()
        )
        for load, name in leaves:
            tile = self.copied(0, name, load.tma)
            conversion = ".to(tl.float32)" if load.value.type.dtype in NARROW else ""
            evaluator.placed[load.value] = (load.index, Code(f"{tile}{conversion}", load.value.type.dtype))
        code = evaluator.in_register(evaluator.value(self.node.operands[operand_index], self.index(operand_index)))
        for load in self.leaves:
            evaluator.placed.pop(load.value, None)
        sizes = ("(BLOCK_M, BLOCK_K)", "(BLOCK_K, BLOCK_N)")[operand_index]
        text = code.text
        if edge := evaluator.tile.edges[self.k[operand_index]]:
            text = f"tl.where({edge}, {text}, 0.0)"
        if self.tile.k > 0:
            text = f"tl.broadcast_to({text}, {sizes})"
        text, helpers = rounded(text, self.problem.dtype)
        for name in helpers:
            evaluator.helper(name)
        return evaluator.assign(_SIDES[operand_index], text)


def _is_inside(var: Var, offset: Expr) -> bool:
    """Whether `var` occurs in the dividend of a quotient or remainder of `offset`."""
    return any(var in ex.variables(atom.of) for atom, _ in offset.terms if not isinstance(atom, Var))


def one(var: Var) -> Expr:
    """Return `var` as an index expression, or 0 if the variable has only one value."""
    return ZERO if var.high == 0 else Expr(((var, 1),))
