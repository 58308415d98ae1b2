"""Reductions of structured operations: an accumulator that is combined with terms.

A sum of products of two factors is a `dot_general`, or a `convolution` where one of them is read through windows; a
fold of windows is a `reduce_window`; every other fold is a `reduce` of the term over the loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.elementwise import OF_BITS
from meshgen.mlir.arith.functions import ignoring_nan
from meshgen.mlir.arith.payload import Builder, fill_number, mnemonic
from meshgen.mlir.linalg.body import Body, Structure, depends_on, narrow
from meshgen.mlir.linalg.maps import lines_of
from meshgen.mlir.linalg.windowed import convolved, folded_windows
from meshgen.mlir.spread import Loops, Spread, in_order, reduced
from meshgen.ops.evaluate.common import neutral

KINDS = {
    "addf": "add", "addi": "add", "mulf": "multiply", "muli": "multiply", "maximumf": "maximum", "maxnumf": "maximum",
    "maxsi": "maximum", "minimumf": "minimum", "minnumf": "minimum", "minsi": "minimum", "andi": "and", "ori": "or",
    "xori": "xor", "subf": "add", "subi": "add", "fma": "add", "maxui": "maximum", "minui": "minimum",
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """One summand or factor of a fold: the product of `factors`, taken away where `minus`."""

    factors: tuple[SSAValue, ...]
    minus: bool = False


@dataclass(frozen=True)
class Fold:
    """`accumulator = combine(accumulator, terms...)`, in any order.

    Attributes:
        kind: of the graph's `reduce`.
        is_unsigned: integers are compared as unsigned ones.
        ignores_nan: a NaN gives way to the other operand.
    """

    kind: str
    terms: tuple[Term, ...]
    is_unsigned: bool = False
    ignores_nan: bool = False


def fold_of(root: SSAValue, accumulator: BlockArgument) -> Fold | None:
    """How a yielded value folds its accumulator; None if it does not."""
    names: set[str] = set()
    terms: list[Term] = []
    while root is not accumulator:
        owner = root.owner
        if not isinstance(owner, Operation) or mnemonic(owner) not in KINDS:
            return None
        name, operands = mnemonic(owner), list(owner.operands)
        names.add(name)
        if name == "fma":
            rest, others = operands[2], operands[:2]
        elif name in ("subf", "subi") or depends_on(operands[0], accumulator):
            rest, others = operands[0], operands[1:]
        else:
            rest, others = operands[1], operands[:1]
        if any(depends_on(other, accumulator) for other in others):
            return None
        terms.append(Term(_factors(others), name in ("subf", "subi")))
        root = rest
    is_bit = isinstance(accumulator.type, IntegerType) and accumulator.type.width.data == 1
    kinds = {OF_BITS.get(name, KINDS[name]) if is_bit else KINDS[name] for name in names} or {"add"}
    flags = {name in ("maxui", "minui") for name in names}, {name in ("maxnumf", "minnumf") for name in names}
    if len(kinds) != 1 or any(len(flag) > 1 for flag in flags):
        return None
    unsigned, ignoring = (True in flag for flag in flags)
    return Fold(kinds.pop(), tuple(terms), unsigned and not is_bit, ignoring)


def _factors(others: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
    """The two factors of a product that is added up."""
    owner = others[0].owner
    if len(others) == 1 and isinstance(owner, Operation) and mnemonic(owner) in ("mulf", "muli"):
        return tuple(owner.operands)
    return tuple(others)


def folded(structure: Structure, body: Body, number: int, fold: Fold, place: Loops) -> Value | None:
    """Output `number`, whose dims are the loops of `place`; all other loops are folded."""
    builder = structure.builder
    before = structure.values[structure.inputs + number]
    found: Value | None = None
    for term in fold.terms:
        part = _term(structure, body, fold, term, place, before.type.dtype)
        if part is None:
            return None
        if term.minus and before.type.dtype != "i1":
            part = builder.apply("negate", part)
        found = part if found is None else builder.apply(fold.kind, found, part)
    if found is None:
        return before
    return _folded_into_output(
        builder,
        fold,
        builder.reshape(found, before.type.shape),
        before,
        fill_number(structure.op.operands[structure.inputs + number]),
    )


def _folded_into_output(builder: Builder, fold: Fold, found: Value, before: Value, filled: float | None) -> Value:
    """The fold and what was in the output before; nothing to do where that is neutral."""
    kind, dtype = before.type, found.type.dtype
    if filled is not None and np.asarray(filled).astype(kind.numpy_dtype) == neutral(fold.kind, dtype).astype(kind.numpy_dtype):  # fmt: skip
        return builder.bits(found, kind.dtype)
    if fold.ignores_nan:
        return ignoring_nan(builder, fold.kind, before, found)
    return builder.bits(builder.apply(fold.kind, builder.bits(before, dtype), found), kind.dtype)


def _term(structure: Structure, body: Body, fold: Fold, term: Term, place: Loops, dtype: str) -> Value | None:
    """A term folded over all loops but those of the output."""
    found = None
    if len(term.factors) == 1:
        found = folded_windows(structure, fold.kind, term.factors[0], place, partial(prepared, structure.builder, fold))
    elif fold.kind == "add" and dtype != "i1":
        found = _contraction(structure, body, term.factors, place, dtype)
        found = found or convolved(structure, term.factors, place, dtype)
    return found or _plain(structure.builder, body, fold, term, place)


def _plain(builder: Builder, body: Body, fold: Fold, term: Term, place: Loops) -> Value | None:
    """A `reduce` of the term over all loops that the output does not have."""
    loops = tuple(range(len(body.sizes)))
    values = [body.full(factor, loops) for factor in term.factors]
    known = [value for value in values if value is not None]
    if len(known) != len(values):
        return None
    value = known[0] if len(known) == 1 else builder.apply("multiply", *known)
    return in_order(builder, reduced(builder, Spread(prepared(builder, fold, value), loops), fold.kind, place), place)


def prepared(builder: Builder, fold: Fold, value: Value) -> Value:
    """A term as the graph's fold of its kind takes it: unsigned as such, neutral where a NaN is to give way."""
    if fold.is_unsigned:
        return builder.bits(value, f"u{value.type.dtype}")
    if fold.ignores_nan:
        none = builder.constant(neutral(fold.kind, value.type.dtype).item(), value.type.with_shape(()))
        return builder.select(builder.compare("NE", value, value), none, value)
    return value


def _contraction(structure: Structure, body: Body, factors: Sequence[SSAValue], place: Loops, dtype: str
                 ) -> Value | None:  # fmt: skip
    """The sum of a product as a `dot_general`; None where the loops do not make one or an operand is read in windows."""
    if any(_has_windows(structure, factor) for factor in factors):
        return None
    sides = [body.value(narrow(factor)) for factor in factors]
    if any(side is not None and sides[0] is not None and side.value.type.dtype != sides[0].value.type.dtype for side in sides):  # fmt: skip
        sides = [body.value(factor) for factor in factors]
    left, right = sides
    if left is None or right is None:
        return None
    return contract(structure.builder, left, right, range(len(body.sizes)), dtype, place)


def _has_windows(structure: Structure, factor: SSAValue) -> bool:
    """Whether an operand that a factor is computed from is read at sums of loops."""
    for number, argument in enumerate(structure.block.args):
        lines = lines_of(structure.maps[number].results, structure.sizes)
        if depends_on(factor, argument) and any(line is None or len(line.steps) > 1 for line in lines):
            return True
    return False


def contract(builder: Builder, left: Spread, right: Spread, loops: Sequence[int], dtype: str, place: Loops
             ) -> Value | None:  # fmt: skip
    """A `dot_general` of two values; None where they do not make one.

    A loop that is summed over and that only one of them has is summed there first.
    """
    shared = set(left.loops) & set(right.loops)
    everything = set(left.loops) | set(right.loops)
    if everything != set(loops) or not shared - set(place):
        return None
    left, right = (reduced(builder, side, "add", [*shared, *place]) for side in (left, right))
    a_loops, b_loops = left.loops, right.loops
    batch, contracted = [x for x in a_loops if x in shared and x in place], [x for x in a_loops if x in shared and x not in place]  # fmt: skip
    free = [x for x in a_loops if x not in shared] + [x for x in b_loops if x not in shared]
    sizes = dict(zip(a_loops, left.value.type.shape, strict=True)) | dict(zip(b_loops, right.value.type.shape, strict=True))  # fmt: skip
    kind = TensorType(tuple(sizes[loop] for loop in batch + free), dtype)
    sums, batches = ([[side.index(x) for x in role] for side in (a_loops, b_loops)] for role in (contracted, batch))
    found = builder.dot(left.value, right.value, kind, (sums[0], sums[1]), (batches[0], batches[1]))
    return in_order(builder, Spread(found, tuple(batch + free)), place)
