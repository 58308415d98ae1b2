"""Joint reductions: a single comparison updates several outputs, such as the value and the position of an argmax.

A joint reduction becomes one `reduce_region`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, Operation, SSAValue

from meshgen.ir.graph import Graph, Value, is_float
from meshgen.mlir.arith.builder import Builder, fill_number, mnemonic
from meshgen.mlir.arith.elementwise import predicate_of
from meshgen.mlir.conversion import Importer
from meshgen.mlir.linalg.body import Body, Structure, depends_on
from meshgen.mlir.loop_values import Loops, Spread, in_order
from meshgen.ops.evaluate.common import neutral

# Comparison `new element OP accumulator` -> whether the greater element wins, and whether the new one wins if both are
# equal.
ORDERS = {"ogt": (True, False), "oge": (True, True), "olt": (False, False), "ole": (False, True),
          "sgt": (True, False), "sge": (True, True), "slt": (False, False), "sle": (False, True)}  # fmt: skip
FLIPPED = {"ogt": "olt", "olt": "ogt", "oge": "ole", "ole": "oge", "sgt": "slt", "slt": "sgt", "sge": "sle", "sle": "sge"}  # fmt: skip
OPPOSITE = {"sgt": "sle", "sle": "sgt", "slt": "sge", "sge": "slt"}
EXTREMES = {"maximumf": True, "maxsi": True, "minimumf": False, "minsi": False}


@dataclass(frozen=True)
class JointReduction:
    """A joint reduction over elements with several terms, one per output.

    If term `key` of an element wins against its accumulator, all accumulators are replaced by the terms of the element.

    Attributes:
        terms: the value that replaces each accumulator.
        key: index of the term that the comparison reads.
        greater: whether the greater element wins.
        equal: whether the later of two equal elements wins.
        extreme: indices of the outputs that a `maximum` or `minimum` computes. Such an output is NaN if any element is
            NaN.
    """

    terms: tuple[SSAValue, ...]
    key: int
    greater: bool
    equal: bool
    extreme: tuple[int, ...]


def match_joint_reduction(structure: Structure) -> JointReduction | None:
    """Match the body as a joint reduction.

    Returns None if the body has another form, or if its result would depend on the order of the reduction.
    """
    accumulators = structure.block.args[structure.inputs :]
    roots = structure.terminator.operands
    pairs = [_match_update(root, acc) for root, acc in zip(roots, accumulators, strict=True)]
    matched = [pair for pair in pairs if pair is not None]
    conditions = {(c, first) for _, c, first in matched if c is not None}
    terms = tuple(term for term, _, _ in matched)
    if len(matched) != len(pairs) or len(conditions) != 1:
        return None
    if any(depends_on(term, acc) for term in terms for acc in accumulators):
        return None
    ((condition, taken_if_true),) = conditions
    order = _order(condition, terms, accumulators, taken_if_true) if condition else None
    if order is None:
        return None
    key, (greater, equal) = order
    extreme = tuple(n for n, (_, c, _) in enumerate(matched) if c is None)
    agree = all(terms[n] is terms[key] and EXTREMES[_defining_mnemonic(roots[n])] == greater for n in extreme)
    return JointReduction(terms, key, greater, equal, extreme) if agree else None


def _match_update(root: SSAValue, accumulator: BlockArgument) -> tuple[SSAValue, SSAValue | None, bool] | None:
    """Match `root` as an update of `accumulator`.

    Returns the new value, the condition that selects it (None for a maximum or minimum), and whether the new value is
    selected if the condition is true. Returns None if `root` has another form.
    """
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
    """Return the index of the output whose term and accumulator `condition` compares, and the entry in `ORDERS`.

    Returns None if `condition` is not such a comparison.
    """
    comparison = condition.owner
    if not isinstance(comparison, Operation) or mnemonic(comparison) not in ("cmpf", "cmpi"):
        return None
    word = predicate_of(comparison)
    left, right = comparison.operands
    for index, (term, accumulator) in enumerate(zip(terms, accumulators, strict=True)):
        if (left, right) == (accumulator, term):
            word = FLIPPED.get(word, "")
        elif (left, right) != (term, accumulator):
            continue
        word = word if taken_if_true else OPPOSITE.get(word, "")
        return (index, ORDERS[word]) if word in ORDERS else None
    return None


def joint_reduction(structure: Structure, body: Body, choice: JointReduction, out_loops: Loops) -> list[Value] | None:
    """Emit the joint reduction `choice` over all loops except `out_loops`, the loops that index the outputs.

    The result is combined with the initial values of the outputs. Returns None if a term is unsupported.
    """
    builder, loops = structure.builder, tuple(range(len(structure.sizes)))
    elements = [body.full(term, loops) for term in choice.terms]
    supported = [element for element in elements if element is not None]
    if len(supported) != len(elements):
        return None
    before = structure.values[structure.inputs :]
    fill_values = [fill_number(ssa) for ssa in structure.op.operands[structure.inputs :]]
    starts = [number for number in fill_values if number is not None]
    is_filled = len(starts) == len(fill_values)
    if not is_filled:
        # Without a fill value, the reduction starts from the neutral element. If an initial output value equals that
        # and equal elements win, the result would be wrong.
        if choice.equal:
            return None
        starts = [0] * len(fill_values)
        dtype = before[choice.key].type.dtype
        starts[choice.key] = neutral("maximum" if choice.greater else "minimum", dtype).item()
    scalars = [builder.constant(start, x.type.with_shape(())) for start, x in zip(starts, supported, strict=True)]
    supported = _without_nan(builder, choice, supported, scalars)
    kept = [loop for loop in loops if loop in out_loops]
    types = [x.type.with_shape(structure.sizes[loop] for loop in kept) for x in supported]
    region = _choice_region(builder.importer, builder.source, choice, supported)
    dims = {"dims": tuple(loop for loop in loops if loop not in out_loops)}
    results = builder.importer.emit("reduce_region", [*supported, *scalars], types, dims, builder.source, (region,))
    results = [in_order(builder, Spread(value, tuple(kept)), out_loops) for value in results]
    results = [builder.reshape(value, old.type.shape) for value, old in zip(results, before, strict=True)]
    return results if is_filled else _reduction_step(builder, choice, before, results)


def _without_nan(
    builder: Builder, choice: JointReduction, elements: Sequence[Value], starts: Sequence[Value]
) -> list[Value]:
    """Replace each element whose key is NaN by the start value, since an ordered comparison is false for NaN.

    Outputs in `choice.extreme` are unchanged: they propagate NaN.
    """
    key = elements[choice.key]
    if not is_float(key.type.dtype):
        return list(elements)
    is_nan = builder.compare("NE", key, key)
    return [
        x if n in choice.extreme else builder.select(is_nan, builder.broadcast(start, x.type.shape), x)
        for n, (x, start) in enumerate(zip(elements, starts, strict=True))
    ]


def _choice_region(outer: Importer, op: Operation, choice: JointReduction, elements: Sequence[Value]) -> Graph:
    """Return the region of the reduction: it takes the accumulators and the terms of one element."""
    inner = Importer(outer.reading, Graph(""), outer)
    old, new = ([Value(x.type.with_shape(())) for x in elements] for _ in range(2))
    inner.graph.inputs = [*old, *new]
    inner.graph.outputs = _reduction_step(Builder(inner, op), choice, old, new)
    return inner.graph


def _reduction_step(
    builder: Builder, choice: JointReduction, old: Sequence[Value], new: Sequence[Value]
) -> list[Value]:
    """Return the accumulators after one element: `old` are the accumulators, `new` the terms of the element."""
    direction = ("GE" if choice.equal else "GT") if choice.greater else ("LE" if choice.equal else "LT")
    taken = builder.compare(direction, new[choice.key], old[choice.key])
    extreme = "maximum" if choice.greater else "minimum"
    return [
        builder.apply(extreme, o, n) if index in choice.extreme else builder.select(taken, n, o)
        for index, (o, n) in enumerate(zip(old, new, strict=True))
    ]
