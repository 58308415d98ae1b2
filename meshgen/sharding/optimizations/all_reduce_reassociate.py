"""Operands that are reduced and then added are added first and reduced once (the RFC's Reassociate passes).

In a local program (stage partition) also across layouts, signs or factors that are the same on all devices: the
gradient of a tied embedding is a sum of one over tokens and the transpose of another over activations, and is reduced once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node, Value
from meshgen.ops.classes import REDUCED_ALIKE
from meshgen.ops.rules.rule import COMBINED_KINDS
from meshgen.sharding.optimizations.rewrite import Walk, is_bound, merged_notes, walk
from meshgen.sharding.optimizations.tiled import linear_operands

_COMBINING = {"select", *COMBINED_KINDS}


@module_pass(
    "all-reduce-reassociate",
    "materialize",
    "optimize",
    "partition",
    applies="unless dearer",
    requires_ops=REDUCED_ALIKE,
)
def all_reduce_reassociate(module: Module, context: Compilation) -> Module:
    """Before: `add(all_reduce(x), all_reduce(y))`, `add(all_reduce(x), transpose(all_reduce(y)))`.

    After: `all_reduce(add(x, y))`, `all_reduce(add(x, transpose(y)))`; reduce_scatter alike, and `select` for `add` if the
    predicate is the same on all devices. Both reductions must be alike and have no other use, and the op
    must combine as they do. Sums of floats are added in another order.
    """
    return walk(module, context, _reassociate, of=_COMBINING)


class _Term(NamedTuple):
    """A reduction and the ops from it to an operand, each with the operand that it passes on."""

    reduction: Node
    ways: tuple[tuple[Node, int], ...] = ()

    def written(self, walk: Walk) -> Value:
        """The same ops on the value before its reduction."""
        value = self.reduction.operands[0]
        for node, number in self.ways:
            operands = [value if n == number else other for n, other in enumerate(node.operands)]
            like = node.result if self.reduction.op == "all_reduce" else value
            value = walk.emit(node.op, operands, node.attrs, like, None, loc=node.loc, notes=node.notes)
        return value


def _reassociate(node: Node, walk: Walk) -> Sequence[Value] | None:
    pair = (1, 2) if node.op == "select" else (0, 1)
    first = _term(node.operands[pair[0]], node, walk)
    second = _term(node.operands[pair[1]], node, walk) if first is not None else None
    if first is None or second is None or not _may_join(node, first.reduction, second.reduction, walk):
        return None
    if node.op == "select" and not _is_common(node.operands[0], first.reduction, walk):
        return None
    if (
        not first.ways
        and not second.ways
        and first.reduction.operands[0].sharding != second.reduction.operands[0].sharding
    ):
        return None
    operands = list(node.operands)
    if first.reduction is second.reduction and not first.ways and not second.ways:
        operands[pair[0]] = operands[pair[1]] = first.written(walk)
    else:
        operands[pair[0]], operands[pair[1]] = first.written(walk), second.written(walk)
    x = operands[pair[0]]
    like = Value(x.type, node.result.name, None, node.result.loc)
    combined = walk.emit(node.op, operands, node.attrs, like, x.sharding, loc=node.loc)
    makers = [first.reduction, second.reduction]
    first, notes = makers[0], merged_notes(makers, "reduced once, after the operands are combined")
    sharding = node.result.sharding
    return [walk.emit(first.op, [combined], first.attrs, node.result, sharding, loc=node.loc, notes=notes)]


def _may_join(node: Node, first: Node, second: Node, walk: Walk) -> bool:
    kind = first.attrs.kind
    if first.op != second.op or _reduction_key(first, walk) != _reduction_key(second, walk):
        return False
    if first.op == "reduce_scatter" and first.operands[0].type != second.operands[0].type:
        return False  # tiles of as many rows, the last one short
    if kind in ("sum", "product") and node.result.type.dtype == "i1":  # booleans: adding wraps, so it is not a sum
        return False
    return node.op == "select" or COMBINED_KINDS[node.op] == kind


def _reduction_key(reduction: Node, walk: Walk) -> dict[str, Any]:
    """What must be equal for two reductions to be alike; an all_reduce does not depend on the order of its group."""
    attrs = reduction.attrs
    ordered = tuple(sorted(attrs.axes, key=walk.mesh.order)) if reduction.op == "all_reduce" else attrs.axes
    return attrs | {"axes": ordered}


def _is_common(chosen: Value, reduction: Node, walk: Walk) -> bool:
    return chosen.sharding is None and walk.is_uniform(chosen, tuple(reduction.attrs.axes))


def _term(value: Value, user: Node, walk: Walk) -> _Term | None:
    """The reduction that an operand comes from; no value in between has another use."""
    ways: list[tuple[Node, int]] = []
    users = user.operands.count(value)
    for _ in range(DEFAULT.search.chain):
        made = walk.producers.get(value)
        if made is None or walk.uses[value] != users:
            return None
        if made.op in REDUCED_ALIKE:
            return _Term(made, tuple(ways[::-1])) if all(_passes(made, *way, walk) for way in ways) else None
        number = _passed_on(made, walk)
        if number is None:
            return None
        ways.append((made, number))
        value, users = made.operands[number], 1
    return None


def _passed_on(node: Node, walk: Walk) -> int | None:
    """The operand, of an op of one result, of the same size and dtype as the result; None unless exactly one is."""
    if len(node.results) != 1 or node.regions or is_bound(node) or node.result.sharding is not None:
        return None
    numbers = [n for n, v in enumerate(node.operands) if _extent(v) == _extent(node.result)]
    if node.op == "multiply" and len(numbers) == 2:
        return int(_is_factor(node.operands[0], walk))
    return 0 if node.op == "divide" else numbers[0] if len(numbers) == 1 else None


def _is_factor(value: Value, walk: Walk) -> bool:
    """Whether a value is the factor of a product rather than the scaled value."""
    made = walk.producers.get(value)
    return made is None or made.op in ("constant", "broadcast_in_dim")


def _extent(value: Value) -> tuple[int, str]:
    return value.type.size, value.type.dtype


def _passes(reduction: Node, node: Node, number: int, walk: Walk) -> bool:
    """Whether a reduction may be done after an op; a reduce_scatter only after a negation."""
    if reduction.op == "reduce_scatter" and node.op != "negate":
        return False
    kind, axes = reduction.attrs.kind, tuple(reduction.attrs.axes)
    return linear_operands(node, [number], kind, axes, walk)
