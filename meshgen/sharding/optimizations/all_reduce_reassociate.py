"""Add operands before they are reduced, so that they are reduced once instead of twice (the RFC's Reassociate passes).

    before   %1 = all_reduce %x   %2 = all_reduce %y   %3 = add %1, %2
    after    %1 = add %x, %y   %3 = all_reduce %1

    before   %1 = all_reduce %x   %2 = all_reduce %y   %3 = transpose %2   %4 = add %1, %3
    after    %1 = transpose %y   %2 = add %x, %1   %4 = all_reduce %2

In a local program (stage partition) there may be layout changes, negations, or factors that are equal on all devices in
between. For example, the gradient of a tied embedding is one sum over tokens plus the transpose of another over
activations; both are reduced together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node, Value
from meshgen.ops.classes import REDUCED_EVERYWHERE
from meshgen.ops.rules.rule import COMBINED_KINDS
from meshgen.sharding.optimizations.loops_on_tiles import linear_operands
from meshgen.sharding.optimizations.walk import Walk, is_bound, merged_notes, walk

_COMBINING = {"select", *COMBINED_KINDS}


@module_pass(
    "all-reduce-reassociate",
    "materialize",
    "optimize",
    "partition",
    applies="unless more expensive",
    requires_ops=REDUCED_EVERYWHERE,
)
def all_reduce_reassociate(module: Module, context: Compilation) -> Module:
    """Return the module with reductions after the ops that combine their operands.

    The same rewrite applies to reduce_scatter, and to `select` instead of `add` if its predicate is equal on all
    devices. Both reductions must have equal attributes and no other use, and the op must combine as they do. Sums of
    floats are added in another order.
    """
    return walk(module, context, _reassociate, of=_COMBINING)


class _Term(NamedTuple):
    """A reduction, and the ops on the path from the reduction to an operand of the combining op.

    Each op comes with the index of its operand on the path.
    """

    reduction: Node
    path: tuple[tuple[Node, int], ...] = ()

    def written(self, walk: Walk) -> Value:
        """Apply the ops of the path to the value before its reduction."""
        value = self.reduction.operands[0]
        for node, number in self.path:
            operands = [value if n == number else other for n, other in enumerate(node.operands)]
            like = node.result if self.reduction.op == "all_reduce" else value
            value = walk.emit(node.op, operands, node.attrs, like, None, loc=node.loc, notes=node.notes)
        return value


def _reassociate(node: Node, walk: Walk) -> Sequence[Value] | None:
    pair = (1, 2) if node.op == "select" else (0, 1)
    first = _term(node.operands[pair[0]], node, walk)
    second = _term(node.operands[pair[1]], node, walk) if first is not None else None
    if first is None or second is None or not _can_join(node, first.reduction, second.reduction, walk):
        return None
    if node.op == "select" and not _is_uniform_predicate(node.operands[0], first.reduction, walk):
        return None
    if (
        not first.path
        and not second.path
        and first.reduction.operands[0].sharding != second.reduction.operands[0].sharding
    ):
        return None
    operands = list(node.operands)
    if first.reduction is second.reduction and not first.path and not second.path:
        operands[pair[0]] = operands[pair[1]] = first.written(walk)
    else:
        operands[pair[0]], operands[pair[1]] = first.written(walk), second.written(walk)
    x = operands[pair[0]]
    like = Value(x.type, node.result.name, None, node.result.loc)
    combined = walk.emit(node.op, operands, node.attrs, like, x.sharding, loc=node.loc)
    reductions = [first.reduction, second.reduction]
    first, notes = reductions[0], merged_notes(reductions, "reduced once, after the operands are combined")
    sharding = node.result.sharding
    return [walk.emit(first.op, [combined], first.attrs, node.result, sharding, loc=node.loc, notes=notes)]


def _can_join(node: Node, first: Node, second: Node, walk: Walk) -> bool:
    kind = first.attrs.kind
    if first.op != second.op or _reduction_key(first, walk) != _reduction_key(second, walk):
        return False
    if first.op == "reduce_scatter" and first.operands[0].type != second.operands[0].type:
        return False  # equal tiles may belong to tensors of different sizes, since the last tile may be short
    if kind in ("sum", "product") and node.result.type.dtype == "i1":  # adding booleans wraps, so it is not a sum
        return False
    return node.op == "select" or COMBINED_KINDS[node.op] == kind


def _reduction_key(reduction: Node, walk: Walk) -> dict[str, Any]:
    """Return a key that is equal for reductions that can be joined. For an all_reduce, the order of the group does not
    matter.
    """
    attrs = reduction.attrs
    ordered = tuple(sorted(attrs.axes, key=walk.mesh.order)) if reduction.op == "all_reduce" else attrs.axes
    return attrs | {"axes": ordered}


def _is_uniform_predicate(predicate: Value, reduction: Node, walk: Walk) -> bool:
    return predicate.sharding is None and walk.is_uniform(predicate, tuple(reduction.attrs.axes))


def _term(value: Value, user: Node, walk: Walk) -> _Term | None:
    """Return the reduction that `value` is computed from, with the path to `value`.

    Returns None if no reduction is found, or if a value on the path has another use.
    """
    path: list[tuple[Node, int]] = []
    users = user.operands.count(value)
    for _ in range(DEFAULT.search.chain):
        producer = walk.producers.get(value)
        if producer is None or walk.uses[value] != users:
            return None
        if producer.op in REDUCED_EVERYWHERE:
            return (
                _Term(producer, tuple(path[::-1])) if all(_commutes(producer, *step, walk) for step in path) else None
            )
        number = _path_operand(producer, walk)
        if number is None:
            return None
        path.append((producer, number))
        value, users = producer.operands[number], 1
    return None


def _path_operand(node: Node, walk: Walk) -> int | None:
    """Return the index of the only operand of `node` that has the size and dtype of the result, or None.

    If both operands of a multiplication qualify, the index is that of the operand that is not a scale factor
    (`_is_factor`).
    """
    if len(node.results) != 1 or node.regions or is_bound(node) or node.result.sharding is not None:
        return None
    numbers = [n for n, v in enumerate(node.operands) if _extent(v) == _extent(node.result)]
    if node.op == "multiply" and len(numbers) == 2:
        return int(_is_factor(node.operands[0], walk))
    return 0 if node.op == "divide" else numbers[0] if len(numbers) == 1 else None


def _is_factor(value: Value, walk: Walk) -> bool:
    """Whether an operand of a multiplication is the scale factor: an input, a constant or a broadcast value."""
    producer = walk.producers.get(value)
    return producer is None or producer.op in ("constant", "broadcast_in_dim")


def _extent(value: Value) -> tuple[int, str]:
    return value.type.size, value.type.dtype


def _commutes(reduction: Node, node: Node, number: int, walk: Walk) -> bool:
    """Whether a reduction can be moved after an op. A reduce_scatter can only be moved after a negation."""
    if reduction.op == "reduce_scatter" and node.op != "negate":
        return False
    kind, axes = reduction.attrs.kind, tuple(reduction.attrs.axes)
    return linear_operands(node, [number], kind, axes, walk)
