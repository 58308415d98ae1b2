"""Ragged dots: each row is multiplied by the matrix of its group, or summed into the matrix of its group.

If the result keeps the rows, tiles of rows are split where groups start and end. All rows of a part then
have the same groups, usually a single one:

    rows      0        128        256        384
    tiles     |         |          |          |
    groups    |  0  |       1         |   2   |
    parts     |  0  | 4 |    1    | 2 |   5   |        parts 0 to 2 begin at tiles, 3 to 5 at group starts

A program computes the entire tile that contains its part, for the groups of the part, but stores only the
rows of the part. So only the matrix depends on the group, for TMA copies as for loads, and one main loop
without conditions iterates over it. If the rows are contracted, the main loop of each group iterates over
the rows of the group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot import GemmWriter
from meshgen.codegen.emit.dot_loop import MainLoop
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.gemm import gemm_of
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.matmul_tiles import is_usable, matmul_tiles
from meshgen.codegen.emit.plan import KernelPlan, Template, common_space, loops_of
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.accumulators import joint_products
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.index_code import Int, Operand, all_of, clamped, integer, lanes, maximum, minimum, where
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node
from meshgen.kernels.matmul import Tile

_NAMES = ("group", "groups", "starts", "ends", "bound", "is_new", "has_rows", "is_inside", "first_group", "last_group", "first_row", "start_row",
          "end_row", "in_rows", "step")  # fmt: skip
_MOST_GROUPS = 128  # groups of a warp-specialized kernel: one per lane of four warps (Triton 3.6 rejects more)


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Match a ragged dot, or two ragged dots that share their main loop, followed by element-wise ops."""
    dots = [node for node in loops_of(body) if node.op == "ragged_dot"]
    if len(dots) != (len(joint_products(body)) or 1) or (space := common_space(body, dots)) is None:
        return None
    return KernelPlan(RAGGED, space, {"dot": dots[0]}, matmul_tiles(body, dots, device))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch | None:
    assert plan.space is not None and plan.space.dot is not None
    evaluator.names.take(*_NAMES)
    loop = _OverRows if plan.space.dot.attrs.contracts else _ByRows
    gemm = gemm_of(evaluator, body, plan.space, plan.candidates[0], device, loop)
    return GemmWriter(evaluator, gemm).emit() if is_usable(gemm) else None


class _Ragged(MainLoop):
    """Base class of the main loops of ragged dots, which computes the range of rows of a group."""

    @property
    def _count(self) -> int:
        """Return the number of groups."""
        return self.node.operands[2].type.size

    def _bounds(self, group: Expr) -> list[Int]:
        """Return the first and the end row of the group `group`. If `group` is a variable over all groups, return one
        row each.
        """
        rows = self.node.operands[0].type.sizes[0]
        values = (self.evaluator.value(value, (group,)) for value in self.node.operands[2:])
        texts = [self.evaluator.in_register(code).text for code in values]
        return [clamped(integer(text).to("tl.int32"), 0, rows) for text in texts]


class _ByRows(_Ragged):
    """Main loop in which each row is multiplied by the matrix of its group."""

    def __init__(self, evaluator: Evaluator, node: Node, tile: Tile, batch: Expr, free: tuple[Var, Var],
                 edges: dict[Var, str], device: Device) -> None:  # fmt: skip
        self.group = ex.variable("group", node.operands[2].type.size)
        super().__init__(evaluator, node, tile, self.group, free, {**edges, free[0]: "in_rows"}, device)

    @property
    def more_rows(self) -> int:
        """Return the maximum number of parts besides the full tiles: a part may begin wherever a group starts or ends."""
        return 2 * self._count

    @property
    def is_divisible(self) -> bool:
        return self._count <= _MOST_GROUPS

    def find_rows(self) -> str:
        """Write the rows of the part, from `first_row` to `end_row`, and the groups that the main loop iterates over.

        If another part already contains these rows, the written range is empty.

        Returns:
            The condition under which row `m` belongs to the part.
        """
        evaluator, let, count, rows = self.evaluator, self.evaluator.let, self._count, self.problem.m
        tiles, padded = -(-rows // self.tile.m), 1 << (count - 1).bit_length()
        tile_m, first_row = integer("tile_m"), integer("first_row")
        groups = Var("groups", 0, count - 1)
        let("groups", lanes(padded))
        evaluator.tile.edges = {groups: integer("groups").below(count) if padded > count else ""}
        for name, value in zip(("starts", "ends"), self._bounds(Expr(((groups, 1),))), strict=True):
            let(name, value)
        let("bound", tile_m - tiles)
        text = f"tl.sum(tl.where(groups == bound, starts, 0) + tl.where(groups == bound - {count}, ends, 0))"
        let("first_row", where("bound < 0", tile_m * "BLOCK_M", integer(text).to("tl.int32")))
        let("first_row", clamped(first_row, 0, rows))
        same = f"((starts == first_row) & (groups < bound)) | ((ends == first_row) & (groups < bound - {count}))"
        let("is_new", f"(bound < 0) | ((first_row % BLOCK_M > 0) & (tl.max(tl.where({same}, 1, 0)) == 0))")
        let("tile_m", first_row // "BLOCK_M")
        after = f"tl.minimum(tl.where(starts > first_row, starts, {rows}), tl.where(ends > first_row, ends, {rows}))"
        let("end_row", minimum(integer(f"tl.min({after})").to("tl.int32"), tile_m * "BLOCK_M" + "BLOCK_M"))
        let("end_row", minimum(where("is_new", "end_row", 0), rows))
        let("has_rows", "(starts <= first_row) & (first_row < ends) & is_new")
        for name, text in (
            ("first", f"tl.min(tl.where(has_rows, groups, {count - 1}))"),
            ("last", "tl.max(tl.where(has_rows, groups, -1))"),
        ):
            let(f"{name}_group", clamped(integer(text).to("tl.int32"), -1, count - 1))
        return all_of([integer("m").compared(">=", "first_row"), integer("m").below("end_row")])

    def _add(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """Write the main loops: one per group that has rows in the part, or, with warp specialization, one loop for all
        groups.
        """
        for loop, _ in products:
            loop.describe()
        if self.tile.is_specialized:
            super()._add(products)
            return
        self.evaluator.loop("group", "first_group", integer("last_group") + 1)
        self._write_group(integer("group"))
        self.evaluator.branch("is_inside")
        super()._add(products)
        self.evaluator.close()
        self.evaluator.close()

    def _open(self) -> None:
        """Open one loop over all groups of the part and over k. For a group without rows, k starts at its end."""
        if not self.tile.is_specialized:
            super()._open()
            return
        depth = -(-self.problem.k // self.tile.k) * self.tile.k
        steps, step = (integer("last_group") - "first_group" + 1) * depth, integer("step")
        self.evaluator.loop("step", 0, steps, "BLOCK_K", call="tl.range", options=", warp_specialize=True")
        self._write_group(integer("first_group") + step // depth)
        self.evaluator.let("start", where("is_inside", step % depth, depth))

    def _write_group(self, position: Int) -> None:
        """Write the current group, and whether it has rows in the part."""
        self.evaluator.let("group", self.evaluator.widened(clamped(position, 0, self._count - 1)))
        start, end = self._bounds(self.group)
        self.evaluator.write(f"is_inside = ({start} <= first_row) & (first_row < {end})")


class _OverRows(_Ragged):
    """Main loop that sums over the rows of each group. The groups are a batch dim of the result."""

    reuses_descriptors = False

    def __init__(self, evaluator: Evaluator, node: Node, tile: Tile, batch: Expr, free: tuple[Var, Var],
                 edges: dict[Var, str], device: Device) -> None:  # fmt: skip
        self.group = batch
        super().__init__(evaluator, node, tile, batch, free, edges, device)

    def _parts(self, m: Var, n: Var) -> Mapping[Var, Int]:
        last = self.problem.k - 1
        return dict.fromkeys((Var("k_col", 0, last), Var("k_row", 0, last)), maximum("end_row", 1))

    def _edge(self, k: Var) -> str:
        return integer(k.text).below("end_row")

    def _steps(self) -> tuple[Operand, Operand]:
        return "start_row", "end_row"

    def _add(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """Write the main loop over the rows of the current group.

        For an empty group the loop has no iterations. Its descriptor still covers one row, because a descriptor cannot
        be empty.
        """
        for name, text in zip(("start_row", "end_row"), self._bounds(self.group), strict=True):
            self.evaluator.let(name, text)
        super()._add(products)


RAGGED = Template("ragged", _match, _emit, KernelForm.GEMM)
