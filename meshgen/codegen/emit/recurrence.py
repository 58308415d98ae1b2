"""Kernels of recurrences: a loop over the trips of a scan, with what is carried in registers.

    h = tl.load(h0_ptr + row)
    for k in range(0, 1024):
        a = tl.load(a_ptr + k * 8192 + row)
        h = a * h + tl.load(b_ptr + k * 8192 + row)
        tl.store(ys_ptr + k * 8192 + row, h)

The tile is that of a reduction (`reduce.py`): kept elements, and those that the body reduces, all of them. What makes the rows of an operand, and is
read by nothing else, is computed in the loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import Guard
from meshgen.codegen.emit.lanes import carried, dependent, lanes_of, reads
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, where
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

_WARP = 32  # threads, on all of NVIDIA's GPUs
_THREADS = 128  # of a block: a warp for each scheduler of a multiprocessor


def _match(body: Graph, device: Device) -> KernelPlan | None:
    found = next((node for node in body.nodes if node.op == "recurrence"), None)
    if found is None or (space := lanes_of(found)) is None:
        return None
    return KernelPlan(RECURRENCE, space, roles={"recurrence": found}, candidates=tuple(_shapes(space, device)))


def _shapes(space: Space, device: Device) -> Iterator[Shape]:
    """Blocks of lanes: four for a thread where these fill the device, one, or fewer threads where that does not; then smaller ones, which take less."""
    sizes = [[v.high + 1 for v in space.dims if (v in space.reduced) == is_reduced] for is_reduced in (False, True)]
    kept, reduced = map(math.prod, sizes)
    threads = device.multiprocessors * DEFAULT.kernels.threads
    rows_reduced = bool(space.reduced) and space.dims[-1] not in space.reduced
    found: dict[Shape, None] = {}
    for lanes, least in ((_THREADS * 4, threads * 4), (_THREADS, threads), (_WARP, 0)):
        block = min(max(1, lanes // power(reduced)), power(kept))
        if kept * reduced >= least:
            found[Shape(kept, reduced, block, power(reduced), rows_reduced)] = None
    yield from found


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write the kernel; see the module's text."""
    del device
    node, shape = plan.roles["recurrence"], plan.candidates[0]
    assert isinstance(node, Node) and plan.space is not None
    _Recurrence(evaluator, body, node, plan.space, shape).emit()
    elements = shape.kept_block * shape.reduced_block
    warps = max(1, min(_THREADS, elements) // _WARP, min(8, elements // _THREADS))
    return Launch((-(-shape.kept // shape.kept_block), 1, 1), evaluator.constants, warps, 1)


class _Recurrence:
    """State while one kernel of a recurrence is written."""

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
        evaluator.placed |= {inputs[n]: (self._place(n), Code(name, inputs[n].type.dtype)) for n, name in names.items()}
        self._hoist()
        ahead = f", num_stages={DEFAULT.kernels.trips_ahead + 1}"
        evaluator.loop("k", 0, node.attrs.trips, call="tl.range", options=ahead)
        self._tile.reduce()
        self._store_rows(rows)
        after = {n: self._whole(n, self._value(self._body.outputs[n])) for n in self._carried}
        for n, text in after.items():
            evaluator.write(f"{names[n]} = {text}")
        evaluator.close()
        for n, name in names.items():
            if (result := node.results[n]) in self._outer.outputs:
                self._put(n, self._place(n), Code(name, result.type.dtype))

    def _hoist(self) -> None:
        """Compute before the loop what is the same at each trip."""
        evaluator, body = self._evaluator, self._body
        reduced = [node.result for node in body.nodes if node.op in REDUCTIONS]  # the tile does these in the loop
        changing = dependent(body, [*body.inputs, *reduced])
        trip = {*ex.variables(self._step)}
        stack = [(value, self._where(value)) for value in self._body.outputs]
        seen = set(stack)
        while stack:
            value, index = stack.pop()
            found: Sequence[tuple[Value, Index]] = ()
            if value in evaluator.rows:
                whole, first = evaluator.rows[value]
                found = [(whole, (index[0] + first, *index[1:]))]
            elif value not in changing and not trip & {v for e in index for v in ex.variables(e)}:
                evaluator.value(value, index)
            elif (node := evaluator.producer.get(value)) is not None:
                placed = [(each, self._where(each)) for each in node.operands] if node.op in REDUCTIONS else ()
                found = reads(node, index) or placed
            stack += [each for each in found if each not in seen]
            seen.update(found)

    def _place(self, number: int) -> Index:
        """The index of what is carried, in terms of the tile's variables."""
        return self._where(self._body.outputs[number])

    def _where(self, value: Value) -> Index:
        return where(self._space, value, self._tile.table) if value.type.rank else ()

    def _value(self, value: Value) -> Code:
        return self._evaluator.in_register(self._evaluator.value(value, self._where(value)))

    def _initial(self, number: int) -> str:
        """What is carried before the first trip."""
        code = self._evaluator.value(self._node.operands[number], self._place(number))
        return self._whole(number, self._evaluator.in_register(code))

    def _whole(self, number: int, code: Code) -> str:
        """A register of all lanes that hold what is carried: a loop does not change its shape or type."""
        evaluator, sides = self._evaluator, self._sides(self._place(number))
        text = f"tl.broadcast_to({code.text}, ({sides}))" if sides else code.text
        kind = "tl.int1" if code.dtype == "i1" else register_type(code.dtype)
        return evaluator.assign(evaluator.name_of(self._node.results[number], "carried"), f"{text}.to({kind})")

    def _sides(self, place: Index) -> str:
        """The shape of registers at an index of the tile, in source; "" for one element."""
        shape, found = self._tile.shape, {v for e in place for v in ex.variables(e)}
        kept = self._tile.kept_size if found & {*ex.variables(self._tile.kept)} else "1"
        out = self._tile.out_size if found & {*ex.variables(self._tile.out)} else "1"
        if self._tile.flat:
            side = kept if shape.reduced == 1 else out
            return "" if side == "1" else f"{side},"
        return f"{out}, {kept}" if shape.rows_reduced else f"{kept}, {out}"

    def _store_rows(self, rows: Mapping[int, Expr]) -> None:
        """Write the rows of results."""
        for n, first in rows.items():
            if n >= len(self._node.results) or self._node.results[n] not in self._outer.outputs:
                continue
            value = self._body.outputs[n]
            row, *rest = self._where(value)
            self._put(n, (row + first, *rest), self._value(value))

    def _put(self, number: int, index: Index, code: Code) -> None:
        """Write elements of a result; those that all lanes share are written by the first program."""
        kept = {*ex.variables(self._tile.kept)}
        is_shared = kept and not any(kept & {*ex.variables(e)} for e in index)
        guards = (Guard("tl.program_id(0) == 0", ()),) if is_shared else ()
        self._evaluator.put(self._outer.outputs.index(self._node.results[number]), index, code, guards=guards)


RECURRENCE = Template("recurrence", _match, _emit, KernelForm.OPAQUE, fuses=False)
