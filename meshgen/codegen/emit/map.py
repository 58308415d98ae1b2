"""Kernels without a reduction: every output element is computed from scratch."""

from __future__ import annotations

import math

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.pieces import emit_pieces, pieces_of
from meshgen.codegen.emit.plan import KernelPlan, Template, loops_of
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.space import backward
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph, Value
from meshgen.ops.classes import LAYOUT, LEAVING, POINTWISE
from meshgen.runtime.in_place import UPDATE, updates, written

BLOCK = 1024  # elements of a flat tile: 8 per thread, one 16-byte vector of bf16
SQUARE = 32  # side of the tile of a transposing kernel


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Bodies without loops that write equally many elements of each output."""
    del device
    is_map = not loops_of(body) and len({v.type.size for v in written(body)}) == 1
    return KernelPlan("map") if is_map else None


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """One flat tile over the outputs or each of their pieces, or a square one where a big operand is read across its rows."""
    del plan, device
    body = _windows_alone(body)
    shape = body.outputs[0].type.sizes
    if (across := _transposed_dim(body)) is not None:
        return _emit_square(evaluator, body, across)
    if (pieces := pieces_of(body)) is not None:
        return Launch((emit_pieces(evaluator, body, pieces, _block), 1, 1), evaluator.constants, BLOCK // 256, 1)
    size = math.prod(shape)
    block = _block(size)
    if size > 1:
        name = evaluator.constant("BLOCK", block)
        evaluator.write(
            f"i = {evaluator.program}{evaluator.wide} * {name} + tl.arange(0, {name})  # [{name}] over {size} elements"
        )
        evaluator.tile.edges = {Var("i", 0, size - 1): f"i < {size}" if size % block else ""}
    position = ex.variable("i", size)
    for number, value in enumerate(body.outputs):
        evaluator.store(number, ex.delinearize(position, value.type.sizes))
    return Launch((-(-size // block), 1, 1), evaluator.constants, max(1, min(4, block // 256)), 1)


def _windows_alone(body: Graph) -> Graph:
    """The body with what updates in place write as its outputs; itself without any."""
    if not (found := updates(body)):
        return body
    rest = {node.operands[0] for node in found.values()}
    nodes = [node for node in body.nodes if node.op != UPDATE]
    return Graph(body.name, [v for v in body.inputs if v not in rest], nodes, written(body))


def _block(size: int) -> int:
    """Elements of a program, of so many in all."""
    return min(BLOCK, 1 << max(0, size - 1).bit_length())


def _transposed_dim(body: Graph) -> int | None:
    """The dim of the outputs along which the largest operand is contiguous, if that is not the last."""
    shape = body.outputs[0].type.sizes
    if any(v.type.shape != body.outputs[0].type.shape for v in body.outputs) or len(shape) < 2 or not body.inputs:
        return None
    index = tuple(ex.variable(f"d{d}", size) for d, size in enumerate(shape))
    big = max(v.type.size for v in body.inputs)
    for value, place in _reads(body, index):
        if value.type.size < big or big < 4096:
            continue
        strides = {v: f for v, f in ex.linearize(place, value.type.sizes).terms if isinstance(v, Var)}
        last = next((e.terms[0][0] for e in reversed(index) if e.terms), None)
        if isinstance(last, Var) and strides.get(last, 0) > 1:
            fast = [d for d, e in enumerate(index) if e.terms and strides.get(_only(e), 0) == 1]
            if fast and shape[fast[0]] >= 8:
                return fast[0]
    return None


def _only(expr: Expr) -> Var:
    var = expr.terms[0][0]
    assert isinstance(var, Var)
    return var


def _reads(body: Graph, index: tuple[Expr, ...]) -> list[tuple[Value, tuple[Expr, ...]]]:
    """Operands and the indices at which they are read, found through pointwise ops and plain index maps."""
    producer, found = body.producers(), dict[tuple[Value, tuple[Expr, ...]], None]()
    stack = [(v, index) for v in body.outputs]
    seen: set[tuple[Value, tuple[Expr, ...]]] = set()
    while stack:
        value, place = stack.pop()
        if (value, place) in seen:
            continue
        seen.add((value, place))
        node = producer.get(value)
        if node is None:
            found[value, place] = None
        elif node.op in POINTWISE:
            stack += [(v, place if v.type.rank else ()) for v in node.operands if v.type.rank in (0, len(place))]
        elif node.op in LAYOUT - LEAVING:
            stack.append((node.operands[0], backward(node, place)))
    return list(found)


def _emit_square(evaluator: Evaluator, body: Graph, across: int) -> Launch:
    """Tile the last dim and the dim `across`; the other dims are spread over programs."""
    shape = body.outputs[0].type.sizes
    last = max(d for d, size in enumerate(shape) if size > 1)
    others = [d for d in range(len(shape)) if d not in (across, last)]
    rows, cols = shape[across], shape[last]
    steps = (-(-rows // SQUARE), -(-cols // SQUARE))
    outer = math.prod(shape[d] for d in others)
    write = evaluator.write
    side = evaluator.constant("SIDE", SQUARE)
    write(f"tile = {evaluator.program}{evaluator.wide}")
    write(
        f"row = tile // {steps[1]} % {steps[0]} * {side} + tl.arange(0, {side})[:, None]  # over {rows}: dim {across}"
    )
    write(f"col = tile % {steps[1]} * {side} + tl.arange(0, {side})[None, :]  # over {cols}: dim {last}")
    write(f"batch = tile // {steps[0] * steps[1]}  # over {outer}: the other dims")
    evaluator.tile.edges = {
        Var("row", 0, rows - 1): f"row < {rows}" if rows % SQUARE else "",
        Var("col", 0, cols - 1): f"col < {cols}" if cols % SQUARE else "",
    }
    parts = dict(zip(others, ex.delinearize(ex.variable("batch", outer), [shape[d] for d in others]), strict=True))
    parts |= {across: ex.variable("row", rows), last: ex.variable("col", cols)}
    for number in range(len(body.outputs)):
        evaluator.store(number, tuple(parts[d] for d in range(len(shape))))
    return Launch((steps[0] * steps[1] * outer, 1, 1), evaluator.constants, 4, 1)


MAP = Template("map", _match, _emit)
