"""The main loop of one matmul of a kernel, which iterates over the contracted dims and adds products to an accumulator."""

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
    """The main loop of one matmul.

    Attributes:
        is_described: whether the loop copies its operands through TMA descriptors.
    """

    reuses_descriptors = True  # whether the descriptors are the same for all tiles
    more_rows = 0  # additional tiles along m, if programs store only some rows of their tile
    is_divisible = True  # whether a kernel with this loop can be warp-specialized

    def __init__(self, evaluator: Evaluator, node: Node, tile: Tile, batch: Expr, free: tuple[Var, Var],
                 edges: dict[Var, str], device: Device) -> None:  # fmt: skip
        """Initialize the loop. `free` holds the row and column variables of the tile, `edges` maps them to in-bounds
        conditions.
        """
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
        """Whether TMA descriptors copy all operands that the loop loads."""
        left, right = (load is not None and load.tma is not None for load in self.operands.loads)
        # TMA fills elements past the end of k with zeros, but values computed from these zeros may be non-zero.
        computed = self.operands.is_made_of_tma_tiles and not self._edges[self.operands.k[0]]
        return self.is_described and right and (left or computed or not self._has_left)

    def _parts(self, m: Var, n: Var) -> Mapping[Var, Int]:
        """Return the sizes, as source expressions, of variables whose size depends on data. Empty in the base class."""
        return {}

    def find_rows(self) -> str:
        """Write the range of rows that the program stores, if it stores only some rows of its tile.

        Returns:
            The condition under which row `m` is in the range, or "" if the program stores the entire tile.
        """
        return ""

    def _edge(self, k: Var) -> str:
        """Return the in-bounds condition of the contracted variable `k`, or "" if it always holds."""
        return integer(k.text).below(self.problem.k) if self.problem.k % self.tile.k else ""

    def _steps(self) -> tuple[Operand, Operand]:
        """Return the start and end of the loop over the contracted dims."""
        return 0, self.problem.k

    def describe(self) -> None:
        """Write the TMA descriptors of the operands, unless this loop has already written them."""
        if self.is_described and not self._has_descriptors:
            self.evaluator.tile.edges = dict(self._edges)
            self.operands.describe()
            self._has_descriptors = True

    def drop_left_load(self) -> None:
        """Drop the load of the left operand, because the loop of another matmul of the same rows already loads this
        tile.
        """
        self.operands.loads = (None, self.operands.loads[1])
        self._has_left = False

    def write(self, accumulators: Sequence[str], others: Sequence[tuple[MainLoop, Sequence[str]]] = ()) -> None:
        """Write the loop and the code before it.

        Args:
            accumulators: the accumulator variables, one per column subtile.
            others: further matmuls of the same rows that share the loop, each with its accumulators.
        """
        self.evaluator.tile.edges = dict(self._edges)
        self._add([(self, accumulators), *others])

    def _add(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """Write the loop that adds this matmul and further matmuls of the same rows to their accumulators.

        `products` pairs each matmul's main loop with its accumulator variables.
        """
        if uses_tensor_cores(self.problem):
            self._multiply_tiles(products)
        else:
            self._multiply_elements(products[0][1][0])

    def convert(self, accumulator: str) -> None:
        """Convert the accumulator to the dtype of the result."""
        dtype = self.node.result.type.dtype
        if dtype not in NARROW and self.problem.accumulator != dtype:
            self.evaluator.write(f"{accumulator} = {accumulator}.to({register_type(dtype)})")

    def _multiply_elements(self, accumulator: str) -> None:
        """Write `accumulator += a[m] * b[n]` for each k."""
        evaluator, dtype = self.evaluator, register_type(self.problem.accumulator)
        evaluator.tile.edges |= dict.fromkeys(self.operands.k, "")
        evaluator.loop("k", *self._steps())
        evaluator.let("k_col", full_of(integer("k"), "tl.int64") if evaluator.wide else integer("k"))
        evaluator.let("k_row", integer("k_col"))
        sides = [evaluator.value(v, self.operands.index(i)) for i, v in enumerate(self.node.operands[:2])]
        left, right = (evaluator.in_register(side) for side in sides)
        if self.problem.accumulator == "i1":
            evaluator.write(f"{accumulator} = {accumulator} | ({left.text} & {right.text})")
        else:
            evaluator.write(f"{accumulator} += {left.text}.to({dtype}) * {right.text}.to({dtype})")
        evaluator.close()

    def _multiply_tiles(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """Write the loop over k that computes `accumulator = dot(a, b, accumulator)` for each matmul."""
        evaluator = self.evaluator
        for loop, _ in products:
            loop.describe()
        sides = [(self, 0), *((loop, 1) for loop, _ in products)]
        pointers = [loop.operands.pointers(operand_index) for loop, operand_index in sides]
        descriptors = [loop.operands.descriptors[operand_index] for loop, operand_index in sides]
        self._open()
        all_advance = all(pointer or descriptor for pointer, descriptor in zip(pointers, descriptors, strict=True))
        if not all_advance or (evaluator.tile.edges[self.operands.k[0]] and not all(descriptors)):
            evaluator.let("k", integer("start") + evaluator.widened(lanes("BLOCK_K")))
            evaluator.let("k_col", integer("k").turned("[None, :]"))
            evaluator.let("k_row", integer("k").turned("[:, None]"))
        a = self.operands.tile_of(0, pointers[0])
        for (loop, accumulators), pointer in zip(products, pointers[1:], strict=True):
            for subtile, accumulator in enumerate(accumulators):
                b = loop.operands.tile_of(1, pointer, subtile)
                self.add(accumulator, a, b)
        for (loop, operand_index), pointer in zip(sides, pointers, strict=True):
            loop.operands.advance(operand_index, pointer)
        evaluator.close()

    def _open(self) -> None:
        """Open the loop over the contracted dims."""
        call, options = ("tl.range", ", warp_specialize=True") if self.tile.is_specialized else ("range", "")
        self.evaluator.loop("start", *self._steps(), "BLOCK_K", call=call, options=options)

    def write_sum(self, accumulators: Sequence[str], others: Sequence[MainLoop]) -> None:
        """Write one loop over the steps of this matmul and then of the matmuls `others`, all with the same
        accumulators.

        Each step selects the descriptors of one of the matmuls, so all operands must be TMA tiles with the same layout.
        """
        evaluator, loops = self.evaluator, [self, *others]
        for loop in loops:
            loop.describe()
        block, starts = self.tile.k, [0]
        for loop in loops:
            starts.append(starts[-1] + -(-loop.problem.k // block) * block)
        evaluator.loop("start", 0, starts[-1], "BLOCK_K", call="tl.range", options=", warp_specialize=True")
        descriptors, offset = [evaluator.names.fresh(f"{side}_box") for side in ("a", "b")], "start"
        for position, (loop, first) in enumerate(zip(loops, starts, strict=False)):
            if position:
                evaluator.branch(integer("start").compared(">=", first))
                offset = f"tl.where(start >= {first}, start - {first}, {offset})"
            for name, descriptor in zip(descriptors, loop.operands.descriptors, strict=True):
                evaluator.write(f"{name} = {descriptor}")
            if position:
                evaluator.close()
        self.operands.step = evaluator.assign("place", offset)
        left, right = (load.tma if load else None for load in self.operands.loads)
        a = self.operands.copied(0, descriptors[0], left)
        for subtile, accumulator in enumerate(accumulators):
            b = self.operands.copied(1, descriptors[1], right, subtile)
            self.add(accumulator, a, b)
        evaluator.close()

    def add(self, accumulator: str, a: str, b: str) -> None:
        """Write the matmul of tiles `a` and `b`, added to an accumulator."""
        dtype = self.problem.dtype
        if self._is_promoted:
            self.evaluator.write(f"{accumulator} += tl.dot({a}, {b})")
            return
        options = {"f64": ", out_dtype=tl.float64", "i8": ", out_dtype=tl.int32"}.get(dtype, "")
        precision = precision_option(self.problem.multiplied)
        self.evaluator.write(f"{accumulator} = tl.dot({a}, {b}, {accumulator}{precision}{options})")
