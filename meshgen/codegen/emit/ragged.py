"""Products of groups of rows: a dot whose rows each take the matrix of their group, or sum up for it.

Where rows are kept, each tile goes through the groups that it has rows of, which are a few neighbours: of the left operand it then
sees the rows of one group, and zeros in place of the others, which copies of boxes and masked loads leave behind. Sums of all groups
are in one accumulator, so the epilogue is that of a dot. Where rows are contracted, the main loop of each group goes over its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot import Dot
from meshgen.codegen.emit.dot_loop import MainLoop
from meshgen.codegen.emit.dot_operands import Part
from meshgen.codegen.emit.dot_problem import joint_tiles_of, tiles_of
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, common_space, loops_of
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.accumulators import joint_products
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node
from meshgen.kernels.matmul import Tile
from meshgen.ops.triton.registers import both

_NAMES = (
    "group",
    "groups",
    "group_start",
    "group_end",
    "first_group",
    "last_group",
    "has_rows",
    "start_row",
    "end_row",
    "in_group",
)


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """One product of groups of rows, or two that share their main loop, with element-wise ops after it."""
    dots = [node for node in loops_of(body) if node.op == "ragged_dot"]
    joint = joint_products(body)
    if len(dots) != (len(joint) or 1) or (space := common_space(body, dots)) is None:
        return None
    tiles = joint_tiles_of(body, joint, device) if joint else tiles_of(body, dots, device)
    return KernelPlan("ragged", space, {"dot": dots[0]}, tiles)


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    assert plan.space is not None and plan.space.dot is not None
    evaluator.names.take(*_NAMES)
    loop = _OverRows if plan.space.dot.attrs.contracts else _ByRows
    return Dot(evaluator, body, plan.space, plan.candidates[0], device, loop).emit()


class _Ragged(MainLoop):
    """What both have in common: the rows of one group, which its descriptors are of."""

    keeps_boxes = False

    @property
    def _count(self) -> int:
        """Groups."""
        return self.node.operands[2].type.size

    def _bounds(self, group: Expr) -> list[str]:
        """Where a group, or each of several, starts and ends, as registers."""
        values = (self.evaluator.value(value, (group,)) for value in self.node.operands[2:])
        return [self.evaluator.in_register(code).text for code in values]

    def _find_rows(self, group: Expr) -> None:
        """The rows of a group: from `start_row` to `end_row`, which are numbers of rows."""
        rows = self.node.operands[0].type.sizes[0]
        for name, text in zip(("start_row", "end_row"), self._bounds(group), strict=True):
            self.evaluator.write(f"{name} = tl.minimum(tl.maximum({text}.to(tl.int32), 0), {rows})")


class _ByRows(_Ragged):
    """Each row by the matrix of its group."""

    is_straight = False

    def __init__(self, evaluator: Evaluator, node: Node, tile: Tile, batch: Expr, free: tuple[Var, Var],
                 edges: dict[Var, str], device: Device) -> None:  # fmt: skip
        self.group = ex.variable("group", node.operands[2].type.size)
        super().__init__(evaluator, node, tile, self.group, free, edges, device)

    def _parts(self, m: Var, n: Var) -> Mapping[Var, Part]:
        return {m: Part("end_row - start_row", "start_row", "in_group")}

    def _add(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """The main loop for each group between the first and the last that the tile has rows of."""
        evaluator, tile = self.evaluator, self.evaluator.tile
        self._find_groups()
        evaluator.open("for group in range(first_group, last_group + 1):")
        if evaluator.wide:
            evaluator.write(f"group = group{evaluator.wide}")
        self._find_rows(self.group)
        evaluator.open("if end_row > start_row:")
        evaluator.write("in_group = (m >= start_row) & (m < end_row)")
        m = self.operands.free[0]
        self._edges = {**tile.edges, m: both([*filter(None, [tile.edges[m]]), "in_group"])}
        tile.edges = dict(self._edges)
        super()._add(products)
        evaluator.close()
        evaluator.close()

    def _find_groups(self) -> None:
        """The first and the last group that the tile has rows of."""
        evaluator, edges, count = self.evaluator, self.evaluator.tile.edges, self._count
        lanes = 1 << (count - 1).bit_length()
        groups = Var("groups", 0, count - 1)
        evaluator.write(f"groups = tl.arange(0, {lanes})")
        evaluator.tile.edges = {groups: f"groups < {count}" if lanes > count else ""}
        start, end = self._bounds(Expr(((groups, 1),)))
        evaluator.tile.edges = edges
        evaluator.write(f"group_start = tl.maximum({start}, tile_m * BLOCK_M)")
        evaluator.write(f"group_end = tl.minimum({end}, tile_m * BLOCK_M + BLOCK_M)")
        evaluator.write(f"has_rows = {both([f'groups < {count}', 'group_start < group_end'])}")
        evaluator.write(f"first_group = tl.min(tl.where(has_rows, groups, {lanes})).to(tl.int32)")
        evaluator.write("last_group = tl.max(tl.where(has_rows, groups, -1)).to(tl.int32)")
        evaluator.write("first_group = tl.maximum(first_group, 0)")
        evaluator.write(f"last_group = tl.minimum(last_group, {count - 1})")


class _OverRows(_Ragged):
    """A product per group, summed over its rows; groups are the batch."""

    def __init__(self, evaluator: Evaluator, node: Node, tile: Tile, batch: Expr, free: tuple[Var, Var],
                 edges: dict[Var, str], device: Device) -> None:  # fmt: skip
        self.group = batch
        super().__init__(evaluator, node, tile, batch, free, edges, device)

    def _parts(self, m: Var, n: Var) -> Mapping[Var, Part]:
        last = self.problem.k - 1
        return dict.fromkeys((Var("k_col", 0, last), Var("k_row", 0, last)), Part("tl.maximum(end_row, 1)"))

    def _edge(self, k: Var) -> str:
        return f"{k.text} < end_row"

    def _steps(self) -> str:
        return "start_row, end_row"

    def _add(self, products: Sequence[tuple[MainLoop, Sequence[str]]]) -> None:
        """The main loop, which has no steps where the group has no rows; a descriptor has one row at least."""
        self._find_rows(self.group)
        super()._add(products)


RAGGED = Template("ragged", _match, _emit)
