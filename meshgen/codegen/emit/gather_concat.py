"""Ops that assemble a value from several others, or read it at data-dependent indices."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.guards import NEVER, Asked, Guard, Guards, Steps
from meshgen.codegen.expr import ZERO, Expr, Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.codegen.index_code import clamped, integer, minimum
from meshgen.errors import CodegenError
from meshgen.ir.graph import Node, Value
from meshgen.ops.triton.registers import BITS, NARROW, TRITON_TYPES, Code, both, register_type, rounded, unsupported

if TYPE_CHECKING:
    from meshgen.codegen.emit.eval import Evaluator


def emit_lookup(evaluator: Evaluator, node: Node, index: Index, guards: Guards) -> Steps:
    """Emit the result of one of `fusion_space.LOOKUPS` at an index."""
    return _EMITTERS[node.op](evaluator, node, index, guards)


def _concatenate(evaluator: Evaluator, node: Node, index: Index, guards: Guards) -> Steps:
    dim, start, joined = node.attrs.dim, 0, ""
    for operand in node.operands:
        size = operand.type.sizes[dim]
        position = index[dim] - start
        inner = (*index[:dim], position, *index[dim + 1 :])
        inside = evaluator.within(position, 0, size)
        if NEVER not in inside:
            part = (yield operand, inner, guards + inside).text
            first = ex.render(index[dim])
            joined = (
                part if not joined else evaluator.assign("joined", f"tl.where({first} < {start}, {joined}, {part})")
            )
        start += size
    return Code(joined, node.result.type.dtype)


def _data_index(evaluator: Evaluator, code: Code, size: int, index: Index) -> Expr:
    """Clamp `code`, an index that was loaded from memory, to [0, size), and return a variable for index expressions."""
    if size <= 1:
        return ZERO
    index_dtype = "tl.int64" if evaluator.wide or code.dtype in ("i64", "ui32", "ui64") else "tl.int32"
    # A ui64 index may exceed 2^63, so it is clamped as ui64, before the conversion to a signed integer.
    position = minimum(code.text, size - 1) if code.dtype == "ui64" else integer(code.text)
    var = Var(evaluator.as_index("at", clamped(position.to(index_dtype), 0, size - 1)).text, 0, size - 1)
    evaluator.data_over[var] = evaluator.over(*index)
    return Expr(((var, 1),))


def _gather(evaluator: Evaluator, node: Node, index: Index, guards: Guards) -> Steps:
    a, (operand, indices) = node.attrs, node.operands
    offset_dims = tuple(a.offset_dims)
    batch = [e for d, e in enumerate(index) if d not in offset_dims]
    hidden = (*a.collapsed_slice_dims, *a.given.get("operand_batching_dims", ()))
    window = iter(offset_dims)
    inner = [ZERO if d in hidden else index[next(window)] for d in range(operand.type.rank)]
    places = list(range(len(batch)))
    vector = a.index_vector_dim
    for d, at in zip(
        a.given.get("operand_batching_dims", ()), a.given.get("start_indices_batching_dims", ()), strict=True
    ):
        inner[d] = inner[d] + batch[places[at - (at > vector)]]
    for component, d in enumerate(a.start_index_map):
        index_of_start = list(batch)
        if vector < indices.type.rank:
            index_of_start.insert(vector, ex.constant(component))
        code = evaluator.in_register((yield indices, tuple(index_of_start), guards))
        room = operand.type.sizes[d] - a.slice_sizes[d] + 1
        inner[d] = inner[d] + _data_index(evaluator, code, room, tuple(index_of_start))
    return (yield operand, tuple(inner), guards)


def _starts(evaluator: Evaluator, starts: Sequence[Value], big: Sequence[int], window: Sequence[int]) -> Generator[Asked, Code, list[Expr]]:  # fmt: skip
    offsets: list[Expr] = []
    for start, b, w in zip(starts, big, window, strict=True):
        code = evaluator.in_register((yield start, (), ()))
        offsets.append(_data_index(evaluator, code, b - w + 1, ()))
    return offsets


def _dynamic_slice(evaluator: Evaluator, node: Node, index: Index, guards: Guards) -> Steps:
    operand = node.operands[0]
    starts = yield from _starts(evaluator, node.operands[1:], operand.type.sizes, node.result.type.sizes)
    return (yield operand, tuple(e + s for e, s in zip(index, starts, strict=True)), guards)


def _dynamic_update_slice(evaluator: Evaluator, node: Node, index: Index, guards: Guards) -> Steps:
    operand, update = node.operands[:2]
    starts = yield from _starts(evaluator, node.operands[2:], operand.type.sizes, update.type.sizes)
    inner = tuple(e - s for e, s in zip(index, starts, strict=True))
    inside = tuple(g for e, size in zip(inner, update.type.sizes, strict=True) for g in evaluator.within(e, 0, size))
    if NEVER in inside:
        return (yield operand, index, guards)
    new = yield update, inner, guards + inside
    if not inside:
        return new
    old = yield operand, index, guards
    text = both([g.text for g in inside])
    return Code(evaluator.assign("updated", f"tl.where({text}, {new.text}, {old.text})"), new.dtype)


def updated_windows(evaluator: Evaluator, nodes: Sequence[Node], index: Index) -> Iterator[tuple[Value, Index, Guards]]:
    """Yield each window that a chain of in-place updates writes.

    Yields:
        The value of the window; the position in the result of the window's element at `index`; and the condition that
        no later window of the chain overwrites this element.
    """
    starts = [_window_starts(evaluator, node) for node in nodes]
    for i, node in enumerate(nodes):
        position = tuple(e + start for e, start in zip(index, starts[i], strict=True))
        sizes = node.operands[1].type.sizes
        later = [tuple(e - s for e, s in zip(position, later_start, strict=True)) for later_start in starts[i + 1 :]]
        inside = [[g for e, size in zip(at, sizes, strict=True) for g in evaluator.within(e, 0, size)] for at in later]
        if all(inside):
            yield node.operands[1], position, tuple(_not_all(guards) for guards in inside if NEVER not in guards)


def _window_starts(evaluator: Evaluator, node: Node) -> list[Expr]:
    offsets = list[Expr]()
    for start, b, w in zip(node.operands[2:], node.result.type.sizes, node.operands[1].type.sizes, strict=True):
        offsets.append(_data_index(evaluator, evaluator.in_register(evaluator.value(start, ())), b - w + 1, ()))
    return offsets


def _not_all(guards: Guards | list[Guard]) -> Guard:
    """Return the guard that at least one of `guards` does not hold."""
    over = tuple(dict.fromkeys(v for guard in guards for v in guard.over))
    return Guard(f"(({both([guard.text for guard in guards])}) == 0)", over)


def is_resizing_bitcast(node: Node) -> bool:
    """Whether an op is a bitcast that splits each element into several narrower elements, or joins several into a wider
    one.
    """
    return node.op == "bitcast_convert" and node.operands[0].type.rank != node.result.type.rank


def emit_resizing_bitcast(evaluator: Evaluator, node: Node, index: Index, guards: Guards) -> Steps:
    """Emit an element of a bitcast that splits or joins elements (`is_resizing_bitcast`). The least significant bits come first."""
    (source,), result = node.operands, node.result
    if not {source.type.dtype, result.type.dtype} <= _WIDTHS.keys():
        raise CodegenError(unsupported(node))
    wide, narrow = _WIDTHS[source.type.dtype], _WIDTHS[result.type.dtype]
    if wide > narrow:
        code = evaluator.in_register((yield source, index[:-1], guards))
        shift = (
            (index[-1] * narrow).const
            if index[-1].is_constant
            else f"({ex.render(index[-1] * narrow)}).to(tl.uint{wide})"
        )
        text = f"({_bits(evaluator, code)} >> {shift}).to(tl.uint{narrow})"
        return _from_bits(evaluator, text, result.type.dtype)
    parts = list[str]()
    for i in range(narrow // wide):
        code = evaluator.in_register((yield source, (*index, ex.constant(i)), guards))
        parts.append(f"({_bits(evaluator, code)}.to(tl.uint{narrow}) << {i * wide})")
    return _from_bits(evaluator, f"({' | '.join(parts)})", result.type.dtype)


_WIDTHS = {**BITS, "f8E4M3FN": 8, "f8E5M2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def _bits(evaluator: Evaluator, code: Code) -> str:
    """Return the bits of a register as an unsigned integer, in the width that its dtype has in memory."""
    stored, helpers = rounded(code.text, code.dtype) if code.dtype in NARROW else (code.text, ())
    for name in helpers:
        evaluator.helper(name)
    return f"{stored}.to(tl.uint{_WIDTHS[code.dtype]}, bitcast=True)"


def _from_bits(evaluator: Evaluator, text: str, dtype: str) -> Code:
    name = evaluator.assign("bits", f"{text}.to(tl.{TRITON_TYPES[dtype]}, bitcast=True)")
    return Code(evaluator.assign("bits", f"{name}.to({register_type(dtype)})") if dtype in NARROW else name, dtype)


_EMITTERS = {
    "concatenate": _concatenate,
    "gather": _gather,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
}
