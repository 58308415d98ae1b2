"""What kernels of attention and of its gradients have in common: a tile of rows per program, and loops over blocks of what is summed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.attention_functions import Functions
from meshgen.codegen.emit.attention_mask import write_ends
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, where
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.attention_bounds import Mask
from meshgen.codegen.fusion.attention_loops import Loops
from meshgen.codegen.index_code import Operand, integer, lanes, program_id
from meshgen.ir.graph import Graph, Node, Value
from meshgen.kernels.attention import AttentionTile
from meshgen.ops.triton.registers import Code

_NAMES = (  # of variables, beside those of all templates
    "last", "begin", "end", "whole", "full_begin", "full_end", "is_low", "n_row", "block",
)  # fmt: skip
Table = dict[str, Expr]
"""The index of each factor."""


class AttentionWriter(ABC):
    """Writes one kernel.

    Attributes:
        m, n, n_row: the rows of a tile, and a block of what is summed along columns and along rows.
        by_column, by_row: the factors of rows and keys, with a block along columns or along rows.
    """

    def __init__(self, evaluator: Evaluator, body: Graph, plan: KernelPlan, outer: Table) -> None:
        """`outer`: what goes on inside of a loop over single elements of what is summed."""
        node, tile = plan.roles["composite"], plan.candidates[0]
        assert isinstance(node, Node) and isinstance(tile, AttentionTile) and plan.space is not None, "it was matched"
        self.evaluator, self.body, self.node, self.tile, self.space = evaluator, body, node, tile, plan.space
        self.loops = loops = Loops.of(node)
        self.factors = loops.factors
        evaluator.names.take(*_NAMES)
        self.m = Var("m", 0, loops.rows - 1)
        self.n, self.n_row = (Var(name, 0, loops.steps - 1) for name in ("n", "n_row"))
        rows = loops.table(loops.programs, ex.variable("batch", loops.batch)) | loops.table(loops.tile, along(self.m))
        self.by_column, self.by_row = (
            {**rows, **outer, **loops.table(loops.blocks, along(var))} for var in (self.n, self.n_row)
        )
        self.functions = Functions(evaluator, node, self.by_column)

    @abstractmethod
    def step(self, mask: Mask | None) -> None:
        """Take a block in; `mask`: the bounds that all of it is inside of, if any."""

    def launch(self, widths: Mapping[str, int]) -> Launch:
        """Return how the kernel is launched; `widths`: the lengths of rows of operands, by the names of their blocks."""
        constants = {"BLOCK_M": self.tile.m, "BLOCK_N": self.tile.n}
        constants |= {name: power_of_two(size) for name, size in widths.items()}
        programs = -(-self.loops.rows // self.tile.m) * self.loops.batch
        return Launch((programs, 1, 1), constants, self.tile.num_warps, self.tile.num_stages)

    def start(self) -> None:
        """Write which rows a program has."""
        let, tile, batch = self.evaluator.let, integer("tile"), self.loops.batch
        blocks = -(-self.loops.rows // self.tile.m)
        let("tile", self.evaluator.widened(program_id()))
        if batch > 1:
            let("batch", tile // blocks if blocks > 1 else tile, f"  # over {batch}")
        let("first", (tile if batch == 1 else tile % blocks) * "BLOCK_M" if blocks > 1 else integer(0))
        rows = integer("first") + self.evaluator.widened(lanes("BLOCK_M"))
        let("m", rows.turned("[:, None]"), f"  # over {self.loops.rows}")

    def edges(self, wide: Mapping[Var, int]) -> dict[Var, str]:
        """The conditions of variables of a tile; `wide`: variables along rows of operands, with the sizes of their blocks."""
        blocks = {self.m: self.tile.m, self.n_row: self.tile.n, self.n: self.tile.n, **wide}
        sizes = {var: var.high + 1 for var in blocks}
        return {var: integer(var.text).below(sizes[var]) if sizes[var] % block else "" for var, block in blocks.items()}

    def index(self, number: int, table: Table) -> tuple[Expr, ...]:
        """The index of an operand."""
        return tuple(table[f] for f in self.factors.operands[number])

    @property
    def blocks(self) -> int:
        """The number of blocks of what is summed."""
        return -(-self.loops.steps // self.tile.n)

    def sum(self, widen: Callable[[Mask], None] | None = None) -> Mask | None:
        """Take all blocks in but those that a mask leaves out; returns the mask.

        Args:
            widen: writes other bounds under a mask, where what it leaves out counts.
        """
        whole, blocks = self.loops.steps // self.tile.n, self.blocks
        mask = self.functions.positions.mask(self.node.regions[0], self.n, self.m)
        if mask is None:
            if whole:
                self.loop(0, whole, is_whole=True)
            if whole < blocks:
                self.loop(whole, blocks)
            return None
        write_ends(self.evaluator, mask, self.m, whole, blocks)
        if widen is not None:
            widen(mask)
        if mask.least:
            self.loop("begin", "full_begin")
        self.loop("full_begin", "full_end", mask, is_whole=True)
        if mask.most or whole < blocks:
            self.loop("full_end", "end")
        return mask

    def loop(self, begin: Operand, end: Operand, mask: Mask | None = None, *, is_whole: bool = False) -> None:
        """Take blocks in; `is_whole`: none of them reaches past the last step."""
        evaluator, edges = self.evaluator, self.evaluator.tile.edges
        if is_whole:
            evaluator.tile.edges = edges | {self.n: "", self.n_row: ""}
        evaluator.loop("block", begin, end)
        position = integer("block") * "BLOCK_N" + evaluator.widened(lanes("BLOCK_N"))
        evaluator.let("n", position.turned("[None, :]"))
        evaluator.let("n_row", position.turned("[:, None]"))
        self.step(mask)
        evaluator.close()
        evaluator.tile.edges = edges

    def place(self, result: Value, name: str, table: Table) -> None:
        """Let a variable be a result of the node."""
        names = self.factors.results[self.node.results.index(result)]
        self.evaluator.placed[result] = tuple(table[f] for f in names), Code(name, result.type.dtype)

    def store(self, outputs: Collection[Value], table: Table, span: tuple[Var, ...]) -> None:
        """Write these outputs of the kernel, whose registers vary with `span`."""
        variables = {Var(f, 0, self.factors.sizes[f] - 1): place for f, place in table.items()}
        for number, value in enumerate(self.body.outputs):
            if value in outputs:
                self.evaluator.store(number, where(self.space, value, variables), span)

    def dependent(self, result: Value) -> set[Value]:
        """The values of the kernel that depend on a result of the node, and that one."""
        found = {result}
        for node in self.body.nodes:
            if found.intersection(node.operands):
                found.update(node.results)
        return found


def power_of_two(size: int) -> int:
    """The least power of two from 16 on that is not below `size`: products of tiles need 16 of each dim."""
    return 1 << max(4, (size - 1).bit_length())


def along(var: Var) -> Expr:
    """The values of a variable; 0 of one that has no other."""
    return ex.ZERO if var.high == 0 else Expr(((var, 1),))
