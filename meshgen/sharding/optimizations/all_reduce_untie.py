"""A reduction that depends on another one only through a term whose sum is known no longer depends on it.

Works on a local program (stage partition). Mean square minus squared mean is the usual case: propagation leaves
`%q * %m` partial, where `%m` is the sum of the partial `%q`; reducing that term again makes one sum wait for the other.
Without it the two are independent, and `collective-combine` makes one message of them. The bytes stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value, is_float
from meshgen.sharding.optimizations.rewrite import Walk, merged_notes, walk

_Sum = tuple[Value, tuple[str, ...]]  # summed value, axes in mesh order


@module_pass("all-reduce-untie", "partition", applies="unless dearer")
def all_reduce_untie(module: Module, context: Compilation) -> Module:
    """Before: `%m = all_reduce %q   all_reduce (%a - %q * %m)`.   After: `(all_reduce %a) - %m * %m`."""
    sums: dict[_Sum, Value] = {}

    def untie(node: Node, walk: Walk) -> Sequence[Value] | None:
        if not _is_sum(node):
            return None
        found = _untied(node, walk, sums)
        if found is None:
            sums[node.operands[0], _ordered_axes(node, walk)] = node.result
        return found

    return walk(module, context, untie, of={"all_reduce"})


def _is_sum(node: Node | None) -> bool:
    return node is not None and node.op == "all_reduce" and node.attrs.kind == "sum"


def _ordered_axes(node: Node, walk: Walk) -> tuple[str, ...]:
    return tuple(sorted(node.attrs.axes, key=walk.mesh.order))


def _untied(node: Node, walk: Walk, sums: Mapping[_Sum, Value]) -> Sequence[Value] | None:
    """The reduction of the unknown terms, with the known sum added; None if no term has a known sum."""
    made = walk.producers.get(node.operands[0])
    if made is None or made.op not in ("add", "subtract") or not is_float(node.result.type.dtype):
        return None
    if not walk.single(made.result):
        return None
    for number, term in enumerate(made.operands):
        factors = _known_factors(term, _ordered_axes(node, walk), walk, sums)
        if factors is None:
            continue
        other = made.operands[1 - number]
        notes = merged_notes([node], "without a term whose sum is known")
        rest = walk.emit("all_reduce", [other], node.attrs, other, None, loc=node.loc, notes=notes)
        whole = walk.emit("multiply", factors, {}, term, None, loc=node.loc)
        ends = [whole, rest] if number == 0 else [rest, whole]
        return [walk.emit(made.op, ends, made.attrs, node.result, None, loc=made.loc)]
    return None


def _known_factors(term: Value, axes: tuple[str, ...], walk: Walk, sums: Mapping[_Sum, Value]) -> list[Value] | None:
    """For a product of a partial value with a known sum and a factor that is itself a sum: both sums."""
    known = walk.producers.get(term)
    if known is None or known.op != "multiply" or not walk.single(term):
        return None
    for part, whole in (known.operands, known.operands[::-1]):
        made, total = walk.producers.get(whole), sums.get((part, axes))
        if total and walk.is_made(total) and made and _is_sum(made) and _ordered_axes(made, walk) == axes:
            return [total, whole]
    return None
