"""Kernels that reduce rows and also sum over rows: the gradients of a norm's input and of its weights in one
pass.

    run = tl.program_id(0)
    for start in range(0, 32, KEPT):           a run of 32 rows, KEPT of them at a time
        row = run * 32 + start + ...
        ...                                     reductions over each row, in registers; stores of element-wise outputs
        partial += ...                          the sums over rows, one partial sum per element of the tile
    tl.store(..., tl.sum(partial, 0))           the sums of the run, in a fixed order

Another kernel adds up the sums of the runs.
"""

from __future__ import annotations

from typing import NamedTuple

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, where
from meshgen.codegen.emit.reduce import Reduction
from meshgen.codegen.emit.rows import power
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.reconstructed_space import space_of_row_sums
from meshgen.codegen.fusion.row_passes import levels
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.fusion.tiles import Shape
from meshgen.codegen.index_code import integer, lanes
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.matchers import transitive_operands
from meshgen.ops.classes import REDUCTIONS
from meshgen.ops.row_reductions import Runs, summed_runs
from meshgen.ops.triton.registers import Code

_ELEMENTS = 4096  # elements of a tile: 16 of each value per thread, which take half the registers of a multiprocessor
# Elements of a tile per thread. Each thread holds addresses, so fewer threads need fewer registers in total.
_PER_THREAD = (16, 32)


class _Tile(NamedTuple):
    """The number of rows that a program processes at a time, and the number of warps."""

    rows: int
    num_warps: int


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Match reductions over rows together with sums over runs of rows, and element-wise ops around both."""
    del device
    if (space := space_of_row_sums(body)) is None:
        return None
    return KernelPlan(ROW_SUMS, space, candidates=_tiles(_runs(space)))


def _runs(space: Space) -> Runs:
    runs = summed_runs(space.sums[0])
    assert runs is not None, "of a sum of rows"
    return runs


def _tiles(runs: Runs) -> tuple[_Tile, ...]:
    """Return the tiles to try, in order: as many rows as fit in registers, then fewer rows or more threads.

    The later tiles are used if the registers of the earlier tiles spill.
    """
    columns = power(runs.length)
    rows = max(1, min(_ELEMENTS // columns, runs.rows & -runs.rows))
    fewer = [rows >> halves for halves in range(3) if rows >> halves]
    tiles = [_Tile(n, min(32, max(1, n * columns // (32 * elements)))) for n in fewer for elements in _PER_THREAD]
    return tuple(dict.fromkeys(tiles))


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel and return its launch parameters."""
    del device
    assert plan.space is not None
    tile: _Tile = plan.candidates[0]
    runs = _runs(plan.space)
    _RowSums(evaluator, body, plan.space, runs, tile.rows).emit()
    return Launch((runs.count, 1, 1), evaluator.constants, tile.num_warps, 1)


class _RowSums(Reduction):
    """Writer of the source of one kernel that reduces rows and sums over rows."""

    def __init__(self, evaluator: Evaluator, body: Graph, space: Space, runs: Runs, rows: int) -> None:
        shape = Shape(runs.count * runs.rows, runs.length, rows, power(runs.length), False)
        super().__init__(evaluator, body, space, shape)
        self.runs = runs
        self.added = {node: space.rows_of_sum(node) for node in space.sums}

    def emit(self) -> None:
        """Write the entire kernel, and return its launch parameters."""
        evaluator, runs = self.evaluator, self.runs
        evaluator.let("run", evaluator.widened(evaluator.program), f"  # of {runs.count}, of {runs.rows} rows each")
        evaluator.let("col", evaluator.widened(lanes(self.out_size)).turned("[None, :]"))
        evaluator.tile.edges = self._edges()
        partial = {node: self._initial(node) for node in self.added}
        evaluator.loop("start", 0, runs.rows, self.kept_size)
        first = integer("run") * runs.rows + integer("start")
        evaluator.let("row", first + evaluator.widened(lanes(self.kept_size)).turned("[:, None]"))
        pending = list(self.added)
        for nodes in [[], *levels(self.body)]:
            self._level([node for node in nodes if node not in self.added])
            for node in [node for node in pending if self._is_ready(self.added[node])]:
                self._add_up(node, partial[node])
                pending.remove(node)
        results = {node.result: node for node in self.added}
        for position, value in enumerate(self.body.outputs):
            if value not in results:
                self._store(position)
        evaluator.close()
        for position, value in enumerate(self.body.outputs):
            if value in results:
                self._store_sum(position, partial[results[value]])

    def _is_ready(self, value: Value) -> bool:
        """Whether the kernel has already written all reductions that `value` depends on."""
        producers, placed = self.evaluator.producer, self.evaluator.placed
        needed = transitive_operands([value], producers.get, placed.__contains__)
        return not any(
            (node := producers.get(current)) is not None and node.op in REDUCTIONS and current not in placed
            for current in needed
        )

    def _add_up(self, node: Node, partial: str) -> None:
        value = self.added[node]
        code = self.evaluator.value(value, where(self.space, value, self.table))
        self.evaluator.write(f"{partial} += {code.text}")

    def _store_sum(self, output_position: int, partial: str) -> None:
        value = self.body.outputs[output_position]
        total = self.evaluator.assign(f"{partial}_sum", f"tl.sum({partial}, axis=0, keep_dims=True)")
        position = ex.variable("run", self.runs.count) * self.runs.length + self.out
        index = ex.delinearize(position, value.type.sizes)
        self.evaluator.put(output_position, index, Code(total, value.type.dtype))


ROW_SUMS = Template("row_sums", _match, _emit, KernelForm.REDUCE)
