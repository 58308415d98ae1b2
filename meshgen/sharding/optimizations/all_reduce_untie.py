"""Make an all_reduce independent of another one that it depends on only through a term whose sum is already computed.

    before   %m = all_reduce %q   %1 = multiply %q, %m   %2 = subtract %a, %1   %3 = all_reduce %2
    after    %m = all_reduce %q   %1 = all_reduce %a     %2 = multiply %m, %m   %3 = subtract %1, %2

Works on a local program (stage partition). The usual case is a variance, the mean square minus the squared mean.
Propagation leaves `%q * %m` partial, where `%m` is the sum of the partial `%q`, so one all_reduce waits for the other.
After the rewrite both are independent, and `collective-combine` merges them into one message. The bytes stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value, is_float
from meshgen.sharding.optimizations.walk import Walk, merged_notes, walk

_Sum = tuple[Value, tuple[str, ...]]  # The value that is summed over devices, and the axes in mesh order.


@module_pass("all-reduce-untie", "partition", applies="unless more expensive")
def all_reduce_untie(module: Module, context: Compilation) -> Module:
    """Return the module with all_reduces that no longer depend on a term whose sum is already computed."""
    sums: dict[_Sum, Value] = {}

    def untie(node: Node, walk: Walk) -> Sequence[Value] | None:
        if not _is_sum(node):
            return None
        untied = _untied(node, walk, sums)
        if untied is None:
            sums[node.operands[0], _ordered_axes(node, walk)] = node.result
        return untied

    return walk(module, context, untie, of={"all_reduce"})


def _is_sum(node: Node | None) -> bool:
    return node is not None and node.op == "all_reduce" and node.attrs.kind == "sum"


def _ordered_axes(node: Node, walk: Walk) -> tuple[str, ...]:
    return tuple(sorted(node.attrs.axes, key=walk.mesh.order))


def _untied(node: Node, walk: Walk, sums: Mapping[_Sum, Value]) -> Sequence[Value] | None:
    """Return the all_reduce of the other term, combined with the sum that is already computed.

    Returns None if no term of the operand has a computed sum.
    """
    sum_node = walk.producers.get(node.operands[0])
    if sum_node is None or sum_node.op not in ("add", "subtract") or not is_float(node.result.type.dtype):
        return None
    if not walk.single(sum_node.result):
        return None
    for index, term in enumerate(sum_node.operands):
        factors = _computed_factors(term, _ordered_axes(node, walk), walk, sums)
        if factors is None:
            continue
        remaining = sum_node.operands[1 - index]
        notes = merged_notes([node], "without a term whose sum is already computed")
        reduced = walk.emit("all_reduce", [remaining], node.attrs, remaining, None, loc=node.loc, notes=notes)
        total = walk.emit("multiply", factors, {}, term, None, loc=node.loc)
        ends = [total, reduced] if index == 0 else [reduced, total]
        return [walk.emit(sum_node.op, ends, sum_node.attrs, node.result, None, loc=sum_node.loc)]
    return None


def _computed_factors(term: Value, axes: tuple[str, ...], walk: Walk, sums: Mapping[_Sum, Value]) -> list[Value] | None:
    """Return the two factors of the sum of `term` over devices, or None if `term` is not a partial value times a sum.

    The factors are the computed sum of the partial value, and the sum that the partial value is multiplied by.
    """
    product = walk.producers.get(term)
    if product is None or product.op != "multiply" or not walk.single(term):
        return None
    for partial, factor in (product.operands, product.operands[::-1]):
        producer, total = walk.producers.get(factor), sums.get((partial, axes))
        if total and walk.is_made(total) and producer and _is_sum(producer) and _ordered_axes(producer, walk) == axes:
            return [total, factor]
    return None
