"""Kernels of recurrences: a loop over the iterations of a scan, with the carried values in registers.

    h = tl.load(h0_ptr + row)
    for k in range(0, 1024):
        a = tl.load(a_ptr + k * 8192 + row)
        h = a * h + tl.load(b_ptr + k * 8192 + row)
        tl.store(ys_ptr + k * 8192 + row, h)

The tile is the same as for a reduction (`reduce.py`): kept elements, and all elements that the body reduces. If the
scan is the only user of an operand that is sliced into rows, the loop computes this operand's rows itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import Guard
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, where
from meshgen.codegen.emit.recurrence_space import carried, dependent, lanes_of, reads
from meshgen.codegen.emit.reduce import Reduction
from meshgen.codegen.emit.rows import power
from meshgen.codegen.expr import Expr
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.fusion.tiles import Shape
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import REDUCTIONS
from meshgen.ops.triton.registers import Code, register_type

_WARP = 32  # threads per warp, on all NVIDIA GPUs
_THREADS = 128  # threads per block: one warp for each scheduler of a multiprocessor


def _match(body: Graph, device: Device) -> KernelPlan | None:
    recurrence = next((node for node in body.nodes if node.op == "recurrence"), None)
    if recurrence is None or (space := lanes_of(recurrence)) is None:
        return None
    return KernelPlan(RECURRENCE, space, roles={"recurrence": recurrence}, candidates=tuple(_shapes(space, device)))


def _shapes(space: Space, device: Device) -> Iterator[Shape]:
    """Yield tile shapes in the order in which they are tried.

    The order is: four elements per thread (if these tiles occupy the whole device), one element per thread, fewer
    threads. Smaller tiles need fewer registers.
    """
    sizes = [[v.high + 1 for v in space.dims if (v in space.reduced) == is_reduced] for is_reduced in (False, True)]
    kept, reduced = map(math.prod, sizes)
    threads = device.multiprocessors * DEFAULT.kernels.threads
    rows_reduced = bool(space.reduced) and space.dims[-1] not in space.reduced
    shapes: dict[Shape, None] = {}
    for lanes, min_elements in ((_THREADS * 4, threads * 4), (_THREADS, threads), (_WARP, 0)):
        block = min(max(1, lanes // power(reduced)), power(kept))
        if kept * reduced >= min_elements:
            shapes[Shape(kept, reduced, block, power(reduced), rows_reduced)] = None
    yield from shapes


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel and return its launch parameters."""
    del device
    node, shape = plan.roles["recurrence"], plan.candidates[0]
    assert isinstance(node, Node) and plan.space is not None
    _Recurrence(evaluator, body, node, plan.space, shape).emit()
    elements = shape.kept_block * shape.reduced_block
    warps = max(1, min(_THREADS, elements) // _WARP, min(8, elements // _THREADS))
    return Launch((-(-shape.kept // shape.kept_block), 1, 1), evaluator.constants, warps, 1)


class _Recurrence:
    """Writer of the source of one recurrence kernel."""

    def __init__(self, evaluator: Evaluator, body: Graph, node: Node, space: Space, shape: Shape) -> None:
        self._evaluator, self._outer, self._node = evaluator, body, node
        self._body = node.regions[0]
        self._tile = Reduction(evaluator, self._body, space, shape)
        self._space = space
        self._carried = carried(node)
        self._step = ex.variable("k", node.attrs.trips)

    def emit(self) -> None:
        evaluator, node = self._evaluator, self._node
        evaluator.producer = {**evaluator.producer, **self._body.index.producers}
        self._tile.begin()
        names = {n: self._initial(n) for n in self._carried}
        rows = {n: self._step * stride + offset for n, (offset, stride) in node.attrs.steps.items()}
        inputs = self._body.inputs
        evaluator.rows |= {inputs[n]: (node.operands[n], first) for n, first in rows.items()}
        evaluator.placed |= {
            inputs[n]: (self._carried_index(n), Code(name, inputs[n].type.dtype)) for n, name in names.items()
        }
        self._hoist()
        ahead = f", num_stages={DEFAULT.kernels.trips_ahead + 1}"
        evaluator.loop("k", 0, node.attrs.trips, call="tl.range", options=ahead)
        self._tile.reduce()
        self._store_rows(rows)
        next_names = {n: self._carried_variable(n, self._value(self._body.outputs[n])) for n in self._carried}
        for n, text in next_names.items():
            evaluator.write(f"{names[n]} = {text}")
        evaluator.close()
        for n, name in names.items():
            if (result := node.results[n]) in self._outer.outputs:
                self._put(n, self._carried_index(n), Code(name, result.type.dtype))

    def _hoist(self) -> None:
        """Write the loop-invariant computations before the loop."""
        evaluator, body = self._evaluator, self._body
        # Reductions of the body run on the tile inside the loop, so values that depend on them are not hoisted.
        reduced = [node.result for node in body.nodes if node.op in REDUCTIONS]
        changing = dependent(body, [*body.inputs, *reduced])
        step_vars = {*ex.variables(self._step)}
        stack = [(value, self._where(value)) for value in self._body.outputs]
        seen = set(stack)
        while stack:
            value, index = stack.pop()
            accesses: Sequence[tuple[Value, Index]] = ()
            if value in evaluator.rows:
                source, first = evaluator.rows[value]
                accesses = [(source, (index[0] + first, *index[1:]))]
            elif value not in changing and not step_vars & {v for e in index for v in ex.variables(e)}:
                evaluator.value(value, index)
            elif (node := evaluator.producer.get(value)) is not None:
                placed = [(operand, self._where(operand)) for operand in node.operands] if node.op in REDUCTIONS else ()
                accesses = reads(node, index) or placed
            stack += [access for access in accesses if access not in seen]
            seen.update(accesses)

    def _carried_index(self, position: int) -> Index:
        """Return the index of the carried value at operand `position`, in terms of the tile's variables."""
        return self._where(self._body.outputs[position])

    def _where(self, value: Value) -> Index:
        return where(self._space, value, self._tile.table) if value.type.rank else ()

    def _value(self, value: Value) -> Code:
        return self._evaluator.in_register(self._evaluator.value(value, self._where(value)))

    def _initial(self, position: int) -> str:
        """Write the carried value at operand `position` as it is before the first iteration, and return its variable."""
        code = self._evaluator.value(self._node.operands[position], self._carried_index(position))
        return self._carried_variable(position, self._evaluator.in_register(code))

    def _carried_variable(self, position: int, code: Code) -> str:
        """Broadcast the carried value `code` to all lanes that hold it, and return its variable.

        A Triton loop must not change the shape or dtype of a variable.
        """
        evaluator, sides = self._evaluator, self._register_shape(self._carried_index(position))
        text = f"tl.broadcast_to({code.text}, ({sides}))" if sides else code.text
        dtype = "tl.int1" if code.dtype == "i1" else register_type(code.dtype)
        return evaluator.assign(evaluator.name_of(self._node.results[position], "carried"), f"{text}.to({dtype})")

    def _register_shape(self, index: Index) -> str:
        """Return the shape of a register at an index of the tile, in source, or "" for a single element."""
        shape, varying = self._tile.shape, {v for e in index for v in ex.variables(e)}
        kept = self._tile.kept_size if varying & {*ex.variables(self._tile.kept)} else "1"
        out = self._tile.out_size if varying & {*ex.variables(self._tile.out)} else "1"
        if self._tile.flat:
            side = kept if shape.reduced == 1 else out
            return "" if side == "1" else f"{side},"
        return f"{out}, {kept}" if shape.rows_reduced else f"{kept}, {out}"

    def _store_rows(self, rows: Mapping[int, Expr]) -> None:
        """Store the rows of the stacked results that the current iteration computes."""
        for n, first in rows.items():
            if n >= len(self._node.results) or self._node.results[n] not in self._outer.outputs:
                continue
            value = self._body.outputs[n]
            row, *rest = self._where(value)
            self._put(n, (row + first, *rest), self._value(value))

    def _put(self, position: int, index: Index, code: Code) -> None:
        """Store elements of result `position`. Only the first program stores elements that do not vary with the tile."""
        kept = {*ex.variables(self._tile.kept)}
        is_shared = kept and not any(kept & {*ex.variables(e)} for e in index)
        guards = (Guard("tl.program_id(0) == 0", ()),) if is_shared else ()
        self._evaluator.put(self._outer.outputs.index(self._node.results[position]), index, code, guards=guards)


RECURRENCE = Template("recurrence", _match, _emit, KernelForm.OPAQUE, fuses=False)
