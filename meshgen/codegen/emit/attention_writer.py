"""Base class for writers of attention and attention-gradient kernels.

Each program owns a tile of rows and loops over blocks of the summed dim (keys, or rows for the gradients of keys and
values).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.attention_functions import Functions
from meshgen.codegen.emit.attention_mask import write_block_ranges
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

_NAMES = (  # Variables of the generated source, in addition to the variables that all templates use.
    "last", "begin", "end", "whole", "full_begin", "full_end", "is_low", "n_row", "block",
)  # fmt: skip
Table = dict[str, Expr]
"""Index expression of each factor (einsum-style dim), by name."""


class AttentionWriter(ABC):
    """Base class for the writer of one attention kernel.

    Attributes:
        m: the row variable of the tile.
        n: the variable over a block of the summed dim, laid out along columns.
        n_row: the same positions as `n`, laid out along rows.
        by_column: index expressions of the row and key factors in terms of `n`.
        by_row: index expressions of the row and key factors in terms of `n_row`.
    """

    def __init__(self, evaluator: Evaluator, body: Graph, plan: KernelPlan, outer: Table) -> None:
        """`outer`: index expressions of the summed factors that the kernel loops over one element at a time."""
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
        """Write one iteration of the loop over blocks. If `mask` is not None, the entire block is unmasked."""

    def launch(self, widths: Mapping[str, int]) -> Launch:
        """Return the launch parameters. `widths` maps the name of each feature-block constant to the operand's feature
        size.
        """
        constants = {"BLOCK_M": self.tile.m, "BLOCK_N": self.tile.n}
        constants |= {name: power_of_two(size) for name, size in widths.items()}
        programs = -(-self.loops.rows // self.tile.m) * self.loops.batch
        return Launch((programs, 1, 1), constants, self.tile.num_warps, self.tile.num_stages)

    def start(self) -> None:
        """Write the batch index and the row indices of the current program."""
        let, tile, batch = self.evaluator.let, integer("tile"), self.loops.batch
        blocks = -(-self.loops.rows // self.tile.m)
        let("tile", self.evaluator.widened(program_id()))
        if batch > 1:
            let("batch", tile // blocks if blocks > 1 else tile, f"  # over {batch}")
        let("first", (tile if batch == 1 else tile % blocks) * "BLOCK_M" if blocks > 1 else integer(0))
        rows = integer("first") + self.evaluator.widened(lanes("BLOCK_M"))
        let("m", rows.turned("[:, None]"), f"  # over {self.loops.rows}")

    def edges(self, wide: Mapping[Var, int]) -> dict[Var, str]:
        """Return the in-bounds condition of each tile variable, or "" if it always holds. `wide` maps feature variables
        to block sizes.
        """
        blocks = {self.m: self.tile.m, self.n_row: self.tile.n, self.n: self.tile.n, **wide}
        sizes = {var: var.high + 1 for var in blocks}
        return {var: integer(var.text).below(sizes[var]) if sizes[var] % block else "" for var, block in blocks.items()}

    def index(self, operand_index: int, table: Table) -> tuple[Expr, ...]:
        """Return the index of an operand, built from the index expressions of its factors in `table`."""
        return tuple(table[f] for f in self.factors.operands[operand_index])

    @property
    def blocks(self) -> int:
        """Return the number of blocks of the summed dim."""
        return -(-self.loops.steps // self.tile.n)

    def sum(self, widen: Callable[[Mask], None] | None = None) -> Mask | None:
        """Write the loops over all blocks of the summed dim except the blocks that the mask excludes.

        Args:
            widen: writes wider loop bounds, for rows in which masked elements have non-zero weights.
        Returns:
            The mask, or None if the attention has none.
        """
        whole, blocks = self.loops.steps // self.tile.n, self.blocks
        mask = self.functions.positions.mask(self.node.regions[0], self.n, self.m)
        if mask is None:
            if whole:
                self.loop(0, whole, is_whole=True)
            if whole < blocks:
                self.loop(whole, blocks)
            return None
        write_block_ranges(self.evaluator, mask, self.m, whole, blocks)
        if widen is not None:
            widen(mask)
        if mask.least:
            self.loop("begin", "full_begin")
        self.loop("full_begin", "full_end", mask, is_whole=True)
        if mask.most or whole < blocks:
            self.loop("full_end", "end")
        return mask

    def loop(self, begin: Operand, end: Operand, mask: Mask | None = None, *, is_whole: bool = False) -> None:
        """Write a loop over the blocks [begin, end). `is_whole`: no block reaches past the last element of the summed
        dim.
        """
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
        """Bind a result of the attention op to the variable `name`, indexed by the factors in `table`."""
        names = self.factors.results[self.node.results.index(result)]
        self.evaluator.placed[result] = tuple(table[f] for f in names), Code(name, result.type.dtype)

    def store(self, outputs: Collection[Value], table: Table, span: tuple[Var, ...]) -> None:
        """Store those outputs of the kernel that are in `outputs`. `span`: the variables that the stored registers vary
        with.
        """
        variables = {Var(f, 0, self.factors.sizes[f] - 1): index for f, index in table.items()}
        for position, value in enumerate(self.body.outputs):
            if value in outputs:
                self.evaluator.store(position, where(self.space, value, variables), span)

    def dependent(self, result: Value) -> set[Value]:
        """Return `result` and all values of the kernel that depend on it."""
        dependents = {result}
        for node in self.body.nodes:
            if dependents.intersection(node.operands):
                dependents.update(node.results)
        return dependents


def power_of_two(size: int) -> int:
    """Round `size` up to a power of two, at least 16 (`tl.dot` needs 16 in each dim)."""
    return 1 << max(4, (size - 1).bit_length())


def along(var: Var) -> Expr:
    """Return the index expression `var`, or 0 if the variable has only one value."""
    return ex.ZERO if var.high == 0 else Expr(((var, 1),))
