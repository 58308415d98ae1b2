"""Layout ops as index maps: a source index, conditions, and the value where a condition does not hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meshgen.codegen.emit.guards import NEVER, Guard, Guards, Steps
from meshgen.codegen.expr import ZERO, Expr
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.index_code import integer
from meshgen.ir.graph import Node, Value
from meshgen.ops.triton.registers import Code, both, literal

if TYPE_CHECKING:
    from meshgen.codegen.emit.eval import Evaluator


@dataclass(frozen=True)
class Read:
    """A read by a layout op: the source of one element of the op's result.

    Attributes:
        conditions: guards under which the element is read.
        fill: the result where a guard does not hold. None if the result is undefined there.
    """

    value: Value
    index: Index
    conditions: Guards = ()
    fill: Value | str | None = None


def emit_layout(evaluator: Evaluator, node: Node, index: Index, guards: Guards) -> Steps:
    """Emit the element at `index` of the result of a layout op."""
    read = read_through(evaluator, node, index)
    fill, dtype = read.fill, node.result.type.dtype
    if not read.conditions:
        return (yield read.value, read.index, guards)
    if NEVER in read.conditions:
        return (yield fill, (), ()) if isinstance(fill, Value) else Code(fill or literal(0, dtype), dtype)
    if isinstance(fill, str) and not guards and read.value in evaluator.pointer_of:
        return evaluator.load(read.value, read.index, read.conditions, other=fill)
    other = (yield fill, (), ()).text if isinstance(fill, Value) else fill
    code = yield read.value, read.index, (*guards, *read.conditions)
    if other is None:
        return code
    inside = both([g.text for g in read.conditions])
    return Code(evaluator.assign(node.op, f"tl.where({inside}, {code.text}, {other})"), dtype)


def read_through(evaluator: Evaluator, node: Node, index: Index) -> Read:
    """Return the source element that the layout op `node` reads for the element `index` of its result."""
    source = node.operands[0]
    if node.op == "pad":
        return _unpad(evaluator, node, index)
    if node.op == "all_slice":
        dim = node.attrs.dim
        tile, size = node.result.type.sizes[dim], source.type.sizes[dim]
        position = evaluator.coordinate(tuple(node.attrs.axes)) * tile + index[dim]
        return Read(source, (*index[:dim], position, *index[dim + 1 :]), evaluator.within(position, 0, size))
    if node.op == "mask_padding":
        dim = node.attrs.dim
        position = evaluator.coordinate(tuple(node.attrs.axes)) * source.type.sizes[dim] + index[dim]
        fill = literal(node.attrs.fill, source.type.dtype)
        return Read(source, index, evaluator.within(position, 0, node.attrs.size), fill)
    return Read(source, backward(node, index))


def _unpad(evaluator: Evaluator, node: Node, index: Index) -> Read:
    inner, guards = list[Expr](), list[Guard]()
    source, fill = node.operands
    for d, e in enumerate(index):
        shifted, step = e - node.attrs.low[d], node.attrs.interior[d] + 1
        hole = shifted % step
        if hole != ZERO:
            never = hole.is_constant
            guards.append(NEVER if never else Guard(integer(hole).compared("==", 0), evaluator.over(hole)))
        guards += evaluator.within(shifted, 0, (source.type.sizes[d] - 1) * step + 1)
        inner.append(shifted // step)
    return Read(source, tuple(inner), tuple(guards), fill)
