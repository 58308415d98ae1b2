"""Joint reductions: outputs that one comparison chooses together, as in an argmax, become one `reduce_region`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, SSAValue

from meshgen.ir.graph import Graph, Value, is_float
from meshgen.mlir.arith.elementwise import predicate_of
from meshgen.mlir.arith.payload import Builder, fill_number, mnemonic
from meshgen.mlir.conversion import Importer
from meshgen.mlir.linalg.body import Body, Structure, depends_on
from meshgen.mlir.spread import Loops, Spread, in_order
from meshgen.ops.evaluate.common import neutral

# Predicates by which a new element is taken: whether it must be greater, and whether an equal one is taken.
ORDERS = {"ogt": (True, False), "oge": (True, True), "olt": (False, False), "ole": (False, True),
          "sgt": (True, False), "sge": (True, True), "slt": (False, False), "sle": (False, True)}  # fmt: skip
FLIPPED = {"ogt": "olt", "olt": "ogt", "oge": "ole", "ole": "oge", "sgt": "slt", "slt": "sgt", "sge": "sle", "sle": "sge"}  # fmt: skip
OPPOSITE = {"sgt": "sle", "sle": "sgt", "slt": "sge", "sge": "slt"}
EXTREMES = {"maximumf": True, "maxsi": True, "minimumf": False, "minsi": False}


@dataclass(frozen=True)
class Choice:
    """All accumulators are replaced by `terms` where the term `key` goes before its accumulator.

    Attributes:
        greater: whether greater elements go first.
        equal: whether of equal elements the later one is kept.
        extreme: numbers of outputs that are the greatest (least) element itself: a NaN stays there.
    """

    terms: tuple[SSAValue, ...]
    key: int
    greater: bool
    equal: bool
    extreme: tuple[int, ...]


def choice_of(structure: Structure) -> Choice | None:
    """The choice that a body makes; None if it makes none, or one whose result depends on the grouping."""
    accumulators = structure.block.args[structure.inputs :]
    roots = structure.terminator.operands
    pairs = [_picked(root, acc) for root, acc in zip(roots, accumulators, strict=True)]
    known = [pair for pair in pairs if pair is not None]
    conditions = {(c, first) for _, c, first in known if c is not None}
    terms = tuple(term for term, _, _ in known)
    if len(known) != len(pairs) or len(conditions) != 1:
        return None
    if any(depends_on(term, acc) for term in terms for acc in accumulators):
        return None
    ((condition, taken_if_true),) = conditions
    found = _order(condition, terms, accumulators, taken_if_true) if condition else None
    if found is None:
        return None
    key, (greater, equal) = found
    extreme = tuple(n for n, (_, c, _) in enumerate(known) if c is None)
    agree = all(terms[n] is terms[key] and EXTREMES[_defining_mnemonic(roots[n])] == greater for n in extreme)
    return Choice(terms, key, greater, equal, extreme) if agree else None


def _picked(root: SSAValue, accumulator: BlockArgument) -> tuple[SSAValue, SSAValue | None, bool] | None:
    """New value, condition (None: it is the greater or lesser of the two), and whether it is taken where that holds."""
    owner, name = root.owner, _defining_mnemonic(root)
    if not isinstance(owner, Operation):
        return None
    if name in EXTREMES:
        left, right = owner.operands
        return (left if right is accumulator else right, None, True) if accumulator in (left, right) else None
    if name != "select":
        return None
    condition, left, right = owner.operands
    if right is accumulator:
        return left, condition, True
    return (right, condition, False) if left is accumulator else None


def _defining_mnemonic(value: SSAValue) -> str:
    return mnemonic(value.owner) if isinstance(value.owner, Operation) else ""


def _order(condition: SSAValue, terms: Sequence[SSAValue], accumulators: Sequence[SSAValue], taken_if_true: bool
           ) -> tuple[int, tuple[bool, bool]] | None:  # fmt: skip
    """The output whose term and accumulator the condition compares, and how."""
    comparison = condition.owner
    if not isinstance(comparison, Operation) or mnemonic(comparison) not in ("cmpf", "cmpi"):
        return None
    word = predicate_of(comparison)
    left, right = comparison.operands
    for number, (term, accumulator) in enumerate(zip(terms, accumulators, strict=True)):
        if (left, right) == (accumulator, term):
            word = FLIPPED.get(word, "")
        elif (left, right) != (term, accumulator):
            continue
        word = word if taken_if_true else OPPOSITE.get(word, "")
        return (number, ORDERS[word]) if word in ORDERS else None
    return None


def chosen(structure: Structure, body: Body, choice: Choice, place: Loops) -> list[Value] | None:
    """The outputs, whose dims are the loops of `place`: the choice among all elements, then against what was there."""
    builder, loops = structure.builder, tuple(range(len(structure.sizes)))
    elements = [body.full(term, loops) for term in choice.terms]
    known = [element for element in elements if element is not None]
    if len(known) != len(elements):
        return None
    before = structure.values[structure.inputs :]
    filled = [fill_number(ssa) for ssa in structure.op.operands[structure.inputs :]]
    starts = [number for number in filled if number is not None]
    is_filled = len(starts) == len(filled)
    if not is_filled:
        if choice.equal:  # what was there could not be told from a start that compares equal
            return None
        starts = [0] * len(filled)
        dtype = before[choice.key].type.dtype
        starts[choice.key] = neutral("maximum" if choice.greater else "minimum", dtype).item()
    scalars = [builder.constant(start, x.type.with_shape(())) for start, x in zip(starts, known, strict=True)]
    known = _without_nan(builder, choice, known, scalars)
    kept = [loop for loop in loops if loop in place]
    types = [x.type.with_shape(structure.sizes[loop] for loop in kept) for x in known]
    region = _choice_region(builder.importer, builder.source, choice, known)
    dims = {"dims": tuple(loop for loop in loops if loop not in place)}
    found = builder.importer.emit("reduce_region", [*known, *scalars], types, dims, builder.source, (region,))
    found = [in_order(builder, Spread(value, tuple(kept)), place) for value in found]
    found = [builder.reshape(value, old.type.shape) for value, old in zip(found, before, strict=True)]
    return found if is_filled else _pick(builder, choice, before, found)


def _without_nan(builder: Builder, choice: Choice, elements: Sequence[Value], starts: Sequence[Value]) -> list[Value]:
    """Elements whose key is a NaN become the start: an ordered comparison never takes them. An extreme keeps them."""
    key = elements[choice.key]
    if not is_float(key.type.dtype):
        return list(elements)
    is_nan = builder.compare("NE", key, key)
    return [
        x if n in choice.extreme else builder.select(is_nan, builder.broadcast(start, x.type.shape), x)
        for n, (x, start) in enumerate(zip(elements, starts, strict=True))
    ]


def _choice_region(outer: Importer, op: Operation, choice: Choice, elements: Sequence[Value]) -> Graph:
    """The region over (accumulators, elements)."""
    inner = Importer(outer.reading, Graph(""), outer)
    old, new = ([Value(x.type.with_shape(())) for x in elements] for _ in range(2))
    inner.graph.inputs = [*old, *new]
    inner.graph.outputs = _pick(Builder(inner, op), choice, old, new)
    return inner.graph


def _pick(builder: Builder, choice: Choice, old: Sequence[Value], new: Sequence[Value]) -> list[Value]:
    """One step of the choice."""
    direction = ("GE" if choice.equal else "GT") if choice.greater else ("LE" if choice.equal else "LT")
    taken = builder.compare(direction, new[choice.key], old[choice.key])
    extreme = "maximum" if choice.greater else "minimum"
    return [
        builder.apply(extreme, o, n) if number in choice.extreme else builder.select(taken, n, o)
        for number, (o, n) in enumerate(zip(old, new, strict=True))
    ]
