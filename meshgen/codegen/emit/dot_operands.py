"""The operands of a dot's main loop: copied as TMA tiles by tensor descriptors, loaded through pointers that advance, or computed.

A plain operand is one load seen through index maps. Where its rows are evenly spaced and aligned, a tile of it is
copied by one instruction of one thread (TMA), and what is outside of the tensor is zero.
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
    """An operand that is a plain load.

    Attributes:
        stride: elements by which the address grows with k; None: not evenly, or it is checked.
        tma: how a tensor descriptor describes the operand; None: it cannot.
    """

    value: Value
    index: Index
    guards: Guards
    stride: int | None
    tma: TmaTile | None


@dataclass(frozen=True)
class TmaTile:
    """An operand as rows of contiguous elements, a tile of which one instruction copies (TMA).

    Attributes:
        first: offset of the first element, in elements; the same in all lanes.
        row, column: the variables that count rows and columns; one of them is k.
        stride: elements from row to row.
        outer: the variable that counts matrices of such rows, and the elements from one to the next; None: there is one.
    """

    first: Expr
    row: Var
    column: Var
    stride: int
    outer: tuple[Var, int] | None


class Operands:
    """Both operands of a dot, for the variables of a tile: `batch`, m and n, and k as a column and as a row.

    Attributes:
        group: the batch where the main loop goes through it, so that descriptors are of all of it.
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
        self.step = "start"  # where the TMA tiles of a step begin along k, in source
        self.leaves: tuple[Load, ...] = ()  # TMA tiles that the left operand is computed from
        self.is_made_of_tma_tiles = False  # and of nothing else that varies
        self._leaf_descriptors: list[str] = []

    def arrange(self) -> None:
        """Choose an order of the contracted dims in which the addresses of both operands grow evenly with k, if any."""
        places = range(len(self.dims.contract[0]))
        orders = [tuple(places), *(tuple(sorted(places, key=side.__getitem__)) for side in self.dims.contract)]
        found: dict[tuple[int, ...], tuple[Load | None, Load | None]] = {}
        for self.order in dict.fromkeys(orders):
            found[self.order] = (self._plain(0), self._plain(1))
        self.order = min(found, key=lambda order: sum(load is None or load.stride is None for load in found[order]))
        self.loads = found[self.order]
        if self.loads[0] is None:
            self._find_leaves()

    def _find_leaves(self) -> None:
        """Find the TMA tiles that the left operand is computed from, element by element: of values that it reads at one index."""
        found, others = dict[Value, set[Index]](), False
        stack = [(self.node.operands[0], self.index(0))]
        while stack:
            value, index = stack.pop()
            node = self.evaluator.producer.get(value)
            if node is None:
                found.setdefault(value, set()).add(index)
            elif node.op in LAYOUT:
                read = read_through(self.evaluator, node, index)
                others |= bool(read.conditions)
                stack.append((read.value, read.index))
            elif node.op in POINTWISE:
                stack += [(operand, index if operand.type.rank else ()) for operand in node.operands]
            else:
                others |= not is_constant(node)
        tma_tiles = {v: self._leaf(v, next(iter(places))) for v, places in found.items() if len(places) == 1}
        self.leaves = tuple(load for load in tma_tiles.values() if load)
        read_once = [v for v in found if v.type.size > 1]
        self.is_made_of_tma_tiles = not others and bool(self.leaves) and all(tma_tiles.get(v) for v in read_once)

    def _leaf(self, value: Value, index: Index) -> Load | None:
        """A value that the left operand is computed from, as a TMA tile."""
        offset, k, side = ex.linearize(index, value.type.sizes), self.k[0], self.free[0]
        if set(self.evaluator.over(offset)) != {k, side} or k not in dict(offset.terms) or _is_inside(k, offset):
            return None
        tma = self._tma_tile(value, offset, k, side, (*TMA_BYTES, 4))
        return Load(value, index, (), None, tma) if tma else None

    def describes(self, device: Device) -> bool:
        """Whether operands are copied by tensor descriptors: on devices that have them, of products that need few other loads."""
        has = tensor_cores(device.architecture).has_tma and self.tile.m >= TMA_ROWS
        return has and self.problem.k >= TMA_K and (bool(self.leaves) or any(load and load.tma for load in self.loads))

    def describe(self) -> None:
        """Tensor descriptors of the operands that have them, before the loop."""
        for number, load in enumerate(self.loads):
            if load is not None and load.tma is not None:
                self.descriptors[number] = self._described(load.value, load.tma, f"{_SIDES[number]}_box")
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

    # ---- what an operand is

    def index(self, number: int) -> Index:
        """Index of operand `number` in terms of batch, m or n, and k."""
        shape = self.node.operands[number].type.sizes
        k = Expr(((self.k[number], 1),))
        batch, free = self.dims.batch[number], self.dims.free[number]
        contract = [self.dims.contract[number][place] for place in self.order]
        found: dict[int, Expr] = {}
        for dims, position in ((batch, self.batch), (free, one(self.free[number])), (contract, k)):
            parts = ex.delinearize(position, [shape[d] for d in dims]) if dims else ()
            found |= dict(zip(dims, parts, strict=True))
        return tuple(found[d] for d in range(len(shape)))

    def _plain(self, number: int) -> Load | None:
        """The operand as one load, seen through index maps; None if something must be computed."""
        value, index, guards = self.node.operands[number], self.index(number), ()
        k, side = self.k[number], self.free[number]
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
        if side not in over:  # a row, whose other rows only a TMA tile leaves zeros for
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
        """The operand as rows of a matrix; None where they are not contiguous, aligned and evenly spaced."""
        factors, nbytes = dict(offset.terms), DTYPES[value.type.dtype].itemsize
        if side.high == 0:  # the distance between rows does not matter
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
        """Of each operand that is a TMA tile whether k counts its rows."""
        return tuple(load.tma.row in self.k for load in self.loads if load and load.tma)

    # ---- the tile of a step

    def pointers(self, number: int) -> str:
        """Addresses of the first step's tile, before the loop; empty for an operand without."""
        load = self.loads[number]
        if load is None or load.stride is None or self.descriptors[number]:
            return ""
        k, evaluator = self.k[number], self.evaluator
        first = evaluator.widened(lanes("BLOCK_K")).turned("[None, :]" if number == 0 else "[:, None]")
        evaluator.bind(first)
        table = {k: one(replace(k, text=first.text))}
        address, _ = evaluator.address(load.value, tuple(ex.substitute(e, table) for e in load.index))
        return evaluator.assign(f"{_SIDES[number]}_ptrs", address)

    def advance(self, number: int, pointer: str) -> None:
        """Addresses of the next step's tile."""
        load = self.loads[number]
        if pointer and load is not None and load.stride:
            self.evaluator.advance(
                pointer, integer("BLOCK_K") if load.stride == 1 else integer("BLOCK_K") * load.stride
            )

    def tile_of(self, number: int, pointer: str, part: int = 0) -> str:
        """The tile of an operand in this step, of the type that is multiplied; of the right one's columns the `part`, where these are parted."""
        load, evaluator = self.loads[number], self.evaluator
        if load is not None and self.descriptors[number]:
            return self.copied(number, self.descriptors[number], load.tma, part)
        if load is None or self.free[number].high == 0:
            return self._computed(number)
        if not pointer:
            return evaluator.load(load.value, load.index, load.guards, raw=True).text
        evaluator.next_is_checked()  # addresses that advance are used only if no operand is computed
        _, mask = evaluator.address(load.value, load.index, load.guards)
        return evaluator.loaded(_SIDES[number], integer(pointer), mask, zero(load.value.type.dtype))

    def copied(self, number: int, name: str, tma: TmaTile | None, number_of_part: int = 0) -> str:
        """A TMA tile, and its transpose where k is on the other side of it."""
        assert tma is not None
        narrow = ".to(tl.int32)" if self.evaluator.wide else ""
        # Triton 3.6 gives the second group of warps its rows by adding to the number of the first row, which no other code may use.
        row = "tl.maximum(tile_m, 0)" if self.tile.is_specialized else "tile_m"
        after = f" + {number_of_part} * (BLOCK_N // {self.tile.parts})" if number_of_part else ""
        starts = {
            self.k[number]: self.step,
            self.free[0]: f"({row} * BLOCK_M){narrow}",
            self.free[1]: f"(tile_n * BLOCK_N{after}){narrow}",
        }
        if not narrow:
            starts = {
                var: text.removeprefix("(").removesuffix(")") if text.startswith("(") else text
                for var, text in starts.items()
            }
        sides = (tma.row, tma.column)
        place = ", ".join(starts[var] for var in sides)
        turned = ".T" if (tma.row in self.k) == (number == 0) else ""
        if tma.outer:
            place = f"{tma.outer[0].text}{narrow}, {place}"
            turned = f".reshape({', '.join(map(self._block, sides))}){turned}"
        return self.evaluator.assign(_SIDES[number], f"{name}.load([{place}]){turned}")

    def _computed(self, number: int) -> str:
        """An operand that is computed in registers: lanes past the end of k must be 0."""
        evaluator = self.evaluator
        leaves = zip(self.leaves, self._leaf_descriptors, strict=True) if number == 0 and self._leaf_descriptors else ()
        for load, name in leaves:
            tile = self.copied(0, name, load.tma)
            wide = ".to(tl.float32)" if load.value.type.dtype in NARROW else ""
            evaluator.placed[load.value] = (load.index, Code(f"{tile}{wide}", load.value.type.dtype))
        code = evaluator.in_register(evaluator.value(self.node.operands[number], self.index(number)))
        for load in self.leaves:
            evaluator.placed.pop(load.value, None)
        sizes = ("(BLOCK_M, BLOCK_K)", "(BLOCK_K, BLOCK_N)")[number]
        text = code.text
        if edge := evaluator.tile.edges[self.k[number]]:
            text = f"tl.where({edge}, {text}, 0.0)"
        if self.tile.k > 0:
            text = f"tl.broadcast_to({text}, {sizes})"
        text, helpers = rounded(text, self.problem.dtype)
        for name in helpers:
            evaluator.helper(name)
        return evaluator.assign(_SIDES[number], text)


def _is_inside(var: Var, offset: Expr) -> bool:
    """Whether a quotient or remainder varies with a variable."""
    return any(var in ex.variables(atom.of) for atom, _ in offset.terms if not isinstance(atom, Var))


def one(var: Var) -> Expr:
    """A variable as an expression; 0 where it has one value."""
    return ZERO if var.high == 0 else Expr(((var, 1),))
