"""Gradients of max pooling: each element sums the sources of the windows that selected it.

    windows of 2 over [1, 3, 2] with sources [a, b] select 3 and 3        result [0, a + b, 0]

At most ceil(window / stride) windows per dim contain an element. For each of these windows, the kernel searches for
the selected element again, in the order of the reference implementation. The search costs arithmetic on cached data,
but needs neither atomics nor another pass over memory.
"""

from __future__ import annotations

import math

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.guards import NEVER, Guards
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.regions import from_region_dtype, held, held_type, region_function, several
from meshgen.codegen.emit.windows import elements, flat_tile, full, named
from meshgen.codegen.expr import Expr
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import integer
from meshgen.ir.graph import Node
from meshgen.ops.triton.registers import both


def emit_select_and_scatter(evaluator: Evaluator, node: Node) -> Launch:
    """Write the kernel of a `select_and_scatter`."""
    a, (operand, source, init) = node.attrs, node.operands
    select = region_function(evaluator, node.regions[0], "keeps")
    combine = region_function(evaluator, node.regions[1], "combine")
    index, launch = flat_tile(evaluator, operand.type.sizes)
    first = held(evaluator.in_register(evaluator.value(init, ())))
    total = full(evaluator, launch, first)
    reach = [-(-w // s) for w, s in zip(a.window_dimensions, a.window_strides, strict=True)]
    covering = math.prod(reach)
    evaluator.loop("u", 0, covering)
    back = ex.delinearize(ex.variable("u", covering), reach)
    window, exists = _window(evaluator, node, index, back)
    if NEVER not in exists:
        chosen = _selected_element(evaluator, node, launch, window, exists, select)
        flat_index = evaluator.assign("mine", integer(ex.linearize(index, operand.type.sizes)))
        (window_source,) = elements(evaluator, [source], [first], window, exists)
        taken = both([*(g.text for g in exists), f"{chosen} == {flat_index}"])
        evaluator.write(f"{total} = tl.where({taken}, {combine}({total}, {window_source}), {total})")
    evaluator.close()
    evaluator.put(0, index, from_region_dtype(total, node.result.type.dtype))
    return launch


def _window(evaluator: Evaluator, node: Node, index: Index, back: Index) -> tuple[Index, Guards]:
    """Return the window that starts `back` windows before the last window that contains the element at `index`.

    The returned guards hold if this window exists and contains the element.
    """
    a, window_index = node.attrs, list[Expr]()
    exists: Guards = ()
    for d, size in enumerate(node.operands[1].type.sizes):
        padded_position = index[d] + a.low[d]
        window = padded_position // a.window_strides[d] - back[d]
        exists += evaluator.within(window, 0, size)
        inside = padded_position - window * a.window_strides[d]
        exists += evaluator.within(inside, 0, a.window_dimensions[d])
        window_index.append(window)
    return tuple(window_index), named(evaluator, exists, "covered")


def _selected_element(
    evaluator: Evaluator, node: Node, launch: Launch, window: Index, exists: Guards, select: str
) -> str:
    """Return the flat index of the element that `window` selects, or -1 if the window contains only padding."""
    a, operand = node.attrs, node.operands[0]
    best = full(evaluator, launch, f"tl.full([], 0, {held_type(operand.type.dtype)})")
    index_dtype = "tl.int64" if evaluator.wide else "tl.int32"
    chosen = evaluator.assign("chosen", f"tl.full({'(BLOCK,)' if launch.constants else '[]'}, -1, {index_dtype})")
    window_size = math.prod(a.window_dimensions)
    evaluator.loop("w", 0, window_size)
    offset = ex.delinearize(ex.variable("w", window_size), a.window_dimensions)
    inner = tuple(e * s + p - low for e, s, p, low in zip(window, a.window_strides, offset, a.low, strict=True))
    guards = exists
    for e, size in zip(inner, operand.type.sizes, strict=True):
        guards += evaluator.within(e, 0, size)
    guards = named(evaluator, guards, "inside")
    if NEVER not in guards:
        value = held(evaluator.in_register(evaluator.value(operand, inner, guards)))
        flat_index = ex.render(ex.linearize(inner, operand.type.sizes))
        better = f"({chosen} < 0) | ({select}({several([best, value])}) == 0)"
        taken = evaluator.assign("taken", both([*(g.text for g in guards), better]))
        evaluator.write(f"{best} = tl.where({taken}, {value}, {best})")
        evaluator.write(f"{chosen} = tl.where({taken}, {flat_index}, {chosen})")
    evaluator.close()
    return chosen
