"""Products of groups of rows: a dot whose rows each take the matrix of their group, or sum up for it.

Where rows are kept, each tile goes through the groups that it has rows of, which are a few neighbours: of the left operand it then
sees the rows of one group, and zeros in place of the others, which copies of boxes and masked loads leave behind. Sums of all groups
are in one accumulator, so the epilogue is that of a dot. Where rows are contracted, the main loop of each group goes over its rows.
"""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.dot import Dot
from meshgen.codegen.emit.dot_operands import Part
from meshgen.codegen.emit.dot_problem import problem_of, tiles_of
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, common_space, loops_of
from meshgen.codegen.expr import Expr, Var
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph
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
    """One product of groups of rows, with element-wise ops after it."""
    dots = [node for node in loops_of(body) if node.op == "ragged_dot"]
    if len(dots) != 1 or (space := common_space(body, dots)) is None:
        return None
    return KernelPlan("ragged", space, {"dot": dots[0]}, tiles_of(dots[0], 1, device))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    assert plan.space is not None
    node = plan.space.dot
    assert node is not None
    kind = _OverRows if node.attrs.contracts else _ByRows
    evaluator.names.take(*_NAMES)
    return kind(evaluator, body, plan.space, node, problem_of(node), plan.candidates[0], device).emit()


class _Ragged(Dot):
    """What both have in common: the rows of one group."""

    @property
    def count(self) -> int:
        """Groups."""
        return self.node.operands[2].type.size

    @property
    def rows(self) -> int:
        return self.node.operands[0].type.sizes[0]

    def bounds(self, group: Expr) -> list[str]:
        """Where a group, or each of several, starts and ends, as registers."""
        values = (self.evaluator.value(value, (group,)) for value in self.node.operands[2:])
        return [self.evaluator.in_register(code).text for code in values]

    def open_group(self, group: Expr) -> None:
        """Begin what is done for a group that has rows: `start_row` and `end_row` are theirs."""
        evaluator = self.evaluator
        for name, text in zip(("start_row", "end_row"), self.bounds(group), strict=True):
            evaluator.write(f"{name} = tl.minimum(tl.maximum({text}.to(tl.int32), 0), {self.rows})")
        evaluator.open("if end_row > start_row:")


class _ByRows(_Ragged):
    """Each row by the matrix of its group."""

    def _batch(self) -> Expr:
        return ex.variable("group", self.count)

    def _parts(self) -> Mapping[Var, Part]:
        return {self.m: Part("end_row - start_row", "start_row", "in_group")}

    def sum_products(self) -> None:
        """The main loop for each group between the first and the last that the tile has rows of."""
        evaluator, tile = self.evaluator, self.evaluator.tile
        self._find_groups()
        evaluator.open("for group in range(first_group, last_group + 1):")
        if evaluator.wide:
            evaluator.write(f"group = group{evaluator.wide}")
        self.open_group(self.batch)
        evaluator.write("in_group = (m >= start_row) & (m < end_row)")
        tile.edges = {**tile.edges, self.m: both([*filter(None, [tile.edges[self.m]]), "in_group"])}
        super().sum_products()
        evaluator.close()
        evaluator.close()

    def _find_groups(self) -> None:
        """The first and the last group that the tile has rows of."""
        evaluator, edges = self.evaluator, self.evaluator.tile.edges
        lanes = 1 << (self.count - 1).bit_length()
        groups = Var("groups", 0, self.count - 1)
        evaluator.write(f"groups = tl.arange(0, {lanes})")
        evaluator.tile.edges = {groups: f"groups < {self.count}" if lanes > self.count else ""}
        start, end = self.bounds(Expr(((groups, 1),)))
        evaluator.tile.edges = edges
        evaluator.write(f"group_start = tl.maximum({start}, tile_m * BLOCK_M)")
        evaluator.write(f"group_end = tl.minimum({end}, tile_m * BLOCK_M + BLOCK_M)")
        evaluator.write(f"has_rows = {both([f'groups < {self.count}', 'group_start < group_end'])}")
        evaluator.write(f"first_group = tl.min(tl.where(has_rows, groups, {lanes})).to(tl.int32)")
        evaluator.write("last_group = tl.max(tl.where(has_rows, groups, -1)).to(tl.int32)")
        evaluator.write("first_group = tl.maximum(first_group, 0)")
        evaluator.write(f"last_group = tl.minimum(last_group, {self.count - 1})")


class _OverRows(_Ragged):
    """A product per group, summed over its rows."""

    def _parts(self) -> Mapping[Var, Part]:
        return dict.fromkeys(
            (Var("k_col", 0, self.problem.k - 1), Var("k_row", 0, self.problem.k - 1)), Part("end_row")
        )

    def _edge(self, name: str, size: int, block: int) -> str:
        return f"{name} < end_row" if name.startswith("k_") else super()._edge(name, size, block)

    def steps(self) -> str:
        return "start_row, end_row"

    def sum_products(self) -> None:
        """The main loop, where the group has rows."""
        self.open_group(self.batch)
        super().sum_products()
        self.evaluator.close()


RAGGED = Template("ragged", _match, _emit)
