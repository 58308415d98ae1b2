"""The main loop of one product of a kernel: it goes over the contracted dims and adds to an accumulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.codegen.emit.dot_operands import Operands
from meshgen.codegen.emit.dot_problem import precision_option, problem_of, uses_tensor_cores
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.index_code import Int, Operand, full_of, integer, lanes
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Node
from meshgen.kernels.architectures import tensor_cores
from meshgen.kernels.matmul import Tile
from meshgen.ops.triton.registers import NARROW, register_type


class MainLoop:
    """Attributes:
    is_described: whether tensor descriptors copy its operands.
    """

    reuses_descriptors = True  # whether the same descriptors serve all tiles
    more_rows = 0  # rows of tiles of which programs compute parts, besides those of the result
    is_divisible = True  # whether its kernel can be warp-specialized

    def __init__(self, evaluator: Evaluator, node: Node, tile: Tile, batch: Expr, free: tuple[Var, Var],
                 edges: dict[Var, str], device: Device) -> None:  # fmt: skip
        """`free` are the variables of the tile, `edges` the conditions under which they are inside."""
        self.evaluator, self.node, self.tile = evaluator, node, tile
        self.problem = problem_of(node)
        self.operands = Operands(evaluator, node, self.problem, tile, batch, free, self._parts(*free))
        col_k, row_k = self.operands.k
        m, n = free
        self._edges = {m: edges[m], row_k: self._edge(row_k), n: edges[n], col_k: self._edge(col_k)}
        evaluator.tile.edges = dict(self._edges)
        self.operands.arrange()
        self.is_described = uses_tensor_cores(self.problem) and self.operands.describes(device)
        self._has_descriptors = False
        self._has_left = True
        self._is_promoted = tensor_cores(device.architecture).promotes(self.problem.dtype)

    @property
    def reads_tma_tiles_only(self) -> bool:
        """Whether all of its operands that it loads are copied by tensor descriptors."""
        left, right = (load is not None and load.tma is not None for load in self.operands.loads)
        # Elements past the last of k are zero in TMA tiles, but what is computed from them may not be.
        computed = self.operands.is_made_of_tma_tiles and not self._edges[self.operands.k[0]]
        return self.is_described and right and (left or computed or not self._has_left)

    def _parts(self, m: Var, n: Var) -> Mapping[Var, Int]:
        """How many numbers of a variable count, in source, where that is data."""
        return {}

    def find_rows(self) -> str:
        """Write what the rows of a tile are, where the program computes a part of a tile, and say which rows of `m` these are."""
        return ""

    def _edge(self, k: Var) -> str:
        """The condition under which a contracted index is inside."""
        return integer(k.text).below(self.problem.k) if self.problem.k % self.tile.k else ""

    def _steps(self) -> tuple[Operand, Operand]:
        """What the loop over the contracted dims goes through, without its step."""
        return 0, self.problem.k

    def describe(self) -> None:
        """Make the tensor descriptors, if it has any, once."""
        if self.is_described and not self._has_descriptors:
            self.evaluator.tile.edges = dict(self._edges)
            self.operands.describe()
            self._has_descriptors = True

    def without_left(self) -> None:
        """The loop of another product, which multiplies the same rows, has the tile of the left operand."""
        self.operands.loads = (None, self.operands.loads[1])
        self._has_left = False

    def write(self, accumulators: Sequence[str], others: Sequence[tuple[MainLoop, Sequence[str]]] = ()) -> None:
        """The loop, and what precedes it; `accumulators` are those of parts of the columns, `others` products of the same rows with theirs."""
        self.evaluator.tile.edges = dict(self._edges)
        self._add([(self, accumulators), *others])

    def _add(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """Add products of the same rows to their accumulators."""
        if uses_tensor_cores(self.problem):
            self._by_tiles(products)
        else:
            self._by_products(products[0][1][0])

    def convert(self, accumulator: str) -> None:
        """Convert the accumulator to the type of the result."""
        dtype = self.node.result.type.dtype
        if dtype not in NARROW and self.problem.accumulator != dtype:
            self.evaluator.write(f"{accumulator} = {accumulator}.to({register_type(dtype)})")

    def _by_products(self, accumulator: str) -> None:
        """accumulator += a[m] * b[n] for each k."""
        evaluator, kind = self.evaluator, register_type(self.problem.accumulator)
        evaluator.tile.edges |= dict.fromkeys(self.operands.k, "")
        evaluator.loop("k", *self._steps())
        evaluator.let("k_col", full_of(integer("k"), "tl.int64") if evaluator.wide else integer("k"))
        evaluator.let("k_row", integer("k_col"))
        sides = [evaluator.value(v, self.operands.index(i)) for i, v in enumerate(self.node.operands[:2])]
        left, right = (evaluator.in_register(side) for side in sides)
        if self.problem.accumulator == "i1":
            evaluator.write(f"{accumulator} = {accumulator} | ({left.text} & {right.text})")
        else:
            evaluator.write(f"{accumulator} += {left.text}.to({kind}) * {right.text}.to({kind})")
        evaluator.close()

    def _by_tiles(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """accumulator = dot(a, b, accumulator) for each step of k, and for each product."""
        evaluator = self.evaluator
        for loop, _ in products:
            loop.describe()
        sides = [(self, 0), *((loop, 1) for loop, _ in products)]
        pointers = [loop.operands.pointers(number) for loop, number in sides]
        descriptors = [loop.operands.descriptors[number] for loop, number in sides]
        self._open()
        whole = all(pointer or descriptor for pointer, descriptor in zip(pointers, descriptors, strict=True))
        if not whole or (evaluator.tile.edges[self.operands.k[0]] and not all(descriptors)):
            evaluator.let("k", integer("start") + evaluator.widened(lanes("BLOCK_K")))
            evaluator.let("k_col", integer("k").turned("[None, :]"))
            evaluator.let("k_row", integer("k").turned("[:, None]"))
        a = self.operands.tile_of(0, pointers[0])
        for (loop, accumulators), pointer in zip(products, pointers[1:], strict=True):
            for part, accumulator in enumerate(accumulators):
                b = loop.operands.tile_of(1, pointer, part)
                self.add(accumulator, a, b)
        for (loop, number), pointer in zip(sides, pointers, strict=True):
            loop.operands.advance(number, pointer)
        evaluator.close()

    def _open(self) -> None:
        """Start the loop over the contracted dims."""
        call, options = ("tl.range", ", warp_specialize=True") if self.tile.is_specialized else ("range", "")
        self.evaluator.loop("start", *self._steps(), "BLOCK_K", call=call, options=options)

    def write_sum(self, accumulators: Sequence[str], others: Sequence[MainLoop]) -> None:
        """One loop for this product and others that are added to it, whose operands are all TMA tiles in one layout: a step is of one of them."""
        evaluator, loops = self.evaluator, [self, *others]
        for loop in loops:
            loop.describe()
        block, starts = self.tile.k, [0]
        for loop in loops:
            starts.append(starts[-1] + -(-loop.problem.k // block) * block)
        evaluator.loop("start", 0, starts[-1], "BLOCK_K", call="tl.range", options=", warp_specialize=True")
        descriptors, place = [evaluator.names.fresh(f"{side}_box") for side in ("a", "b")], "start"
        for number, (loop, first) in enumerate(zip(loops, starts, strict=False)):
            if number:
                evaluator.branch(integer("start").compared(">=", first))
                place = f"tl.where(start >= {first}, start - {first}, {place})"
            for name, descriptor in zip(descriptors, loop.operands.descriptors, strict=True):
                evaluator.write(f"{name} = {descriptor}")
            if number:
                evaluator.close()
        self.operands.step = evaluator.assign("place", place)
        left, right = (load.tma if load else None for load in self.operands.loads)
        a = self.operands.copied(0, descriptors[0], left)
        for part, accumulator in enumerate(accumulators):
            b = self.operands.copied(1, descriptors[1], right, part)
            self.add(accumulator, a, b)
        evaluator.close()

    def add(self, accumulator: str, a: str, b: str) -> None:
        """Add the product of two tiles to an accumulator."""
        dtype = self.problem.dtype
        if self._is_promoted:
            self.evaluator.write(f"{accumulator} += tl.dot({a}, {b})")
            return
        options = {"f64": ", out_dtype=tl.float64", "i8": ", out_dtype=tl.int32"}.get(dtype, "")
        precision = precision_option(self.problem.multiplied)
        self.evaluator.write(f"{accumulator} = tl.dot({a}, {b}, {accumulator}{precision}{options})")
