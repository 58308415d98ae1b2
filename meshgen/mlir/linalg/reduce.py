"""Reductions of structured operations, which combine an accumulator with terms.

A sum of products becomes a `dot_general`, or a `convolution` if one factor is read through windows. A reduction over
windows becomes a `reduce_window`. In every other reduction, the term is computed over all loops and reduced by
`reduce`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation, SSAValue

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, fill_number, mnemonic
from meshgen.mlir.arith.elementwise import OF_BITS
from meshgen.mlir.arith.functions import ignoring_nan
from meshgen.mlir.linalg.body import Body, Structure, depends_on, narrow
from meshgen.mlir.linalg.maps import linear_indices_of
from meshgen.mlir.linalg.windowed import convolved, folded_windows
from meshgen.mlir.loop_values import Loops, Spread, in_order, reduced
from meshgen.ops.evaluate.common import neutral

KINDS = {
    "addf": "add", "addi": "add", "mulf": "multiply", "muli": "multiply", "maximumf": "maximum", "maxnumf": "maximum",
    "maxsi": "maximum", "minimumf": "minimum", "minnumf": "minimum", "minsi": "minimum", "andi": "and", "ori": "or",
    "xori": "xor", "subf": "add", "subi": "add", "fma": "add", "maxui": "maximum", "minui": "minimum",
}  # fmt: skip


@dataclass(frozen=True)
class Term:
    """A term of a reduction: the product of `factors`, which is subtracted if `minus` is true."""

    factors: tuple[SSAValue, ...]
    minus: bool = False


@dataclass(frozen=True)
class Fold:
    """A reduction `accumulator = combine(accumulator, terms...)` whose result does not depend on the order of the
    elements.

    Attributes:
        kind: the combining op of the graph's `reduce`.
        is_unsigned: whether integers are compared as unsigned.
        ignores_nan: whether a NaN is ignored if the other value is a number.
    """

    kind: str
    terms: tuple[Term, ...]
    is_unsigned: bool = False
    ignores_nan: bool = False


def fold_of(root: SSAValue, accumulator: BlockArgument) -> Fold | None:
    """Match `root`, the yielded value, as a reduction of terms into `accumulator`. Returns None if it has another form."""
    names: set[str] = set()
    terms: list[Term] = []
    while root is not accumulator:
        owner = root.owner
        if not isinstance(owner, Operation) or mnemonic(owner) not in KINDS:
            return None
        name, operands = mnemonic(owner), list(owner.operands)
        names.add(name)
        if name == "fma":
            remainder, new_operands = operands[2], operands[:2]
        elif name in ("subf", "subi") or depends_on(operands[0], accumulator):
            remainder, new_operands = operands[0], operands[1:]
        else:
            remainder, new_operands = operands[1], operands[:1]
        if any(depends_on(operand, accumulator) for operand in new_operands):
            return None
        terms.append(Term(_factors_of(new_operands), name in ("subf", "subi")))
        root = remainder
    is_bit = isinstance(accumulator.type, IntegerType) and accumulator.type.width.data == 1
    kinds = {OF_BITS.get(name, KINDS[name]) if is_bit else KINDS[name] for name in names} or {"add"}
    flags = {name in ("maxui", "minui") for name in names}, {name in ("maxnumf", "minnumf") for name in names}
    if len(kinds) != 1 or any(len(flag) > 1 for flag in flags):
        return None
    unsigned, ignoring = (True in flag for flag in flags)
    return Fold(kinds.pop(), tuple(terms), unsigned and not is_bit, ignoring)


def _factors_of(operands: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
    """Return the two factors if the term is a product, else the term as its only factor. `operands` of an fma are the
    factors.
    """
    owner = operands[0].owner
    if len(operands) == 1 and isinstance(owner, Operation) and mnemonic(owner) in ("mulf", "muli"):
        return tuple(owner.operands)
    return tuple(operands)


def folded(structure: Structure, body: Body, output: int, fold: Fold, out_loops: Loops) -> Value | None:
    """Compute output `output` by reducing the terms of `fold` over all loops except `out_loops`, which index the
    output.

    Returns None if a term is unsupported.
    """
    builder = structure.builder
    before = structure.values[structure.inputs + output]
    total: Value | None = None
    for term in fold.terms:
        part = _reduced_term(structure, body, fold, term, out_loops, before.type.dtype)
        if part is None:
            return None
        if term.minus and before.type.dtype != "i1":
            part = builder.apply("negate", part)
        total = part if total is None else builder.apply(fold.kind, total, part)
    if total is None:
        return before
    return _folded_into_output(
        builder,
        fold,
        builder.reshape(total, before.type.shape),
        before,
        fill_number(structure.op.operands[structure.inputs + output]),
    )


def _folded_into_output(builder: Builder, fold: Fold, total: Value, before: Value, fill_value: float | None) -> Value:
    """Combine the reduced terms (`total`) with the initial value of the output (`before`), unless that is the neutral
    element.
    """
    kind, dtype = before.type, total.type.dtype
    if fill_value is not None and np.asarray(fill_value).astype(kind.numpy_dtype) == neutral(fold.kind, dtype).astype(kind.numpy_dtype):  # fmt: skip
        return builder.bits(total, kind.dtype)
    if fold.ignores_nan:
        return ignoring_nan(builder, fold.kind, before, total)
    return builder.bits(builder.apply(fold.kind, builder.bits(before, dtype), total), kind.dtype)


def _reduced_term(
    structure: Structure, body: Body, fold: Fold, term: Term, out_loops: Loops, dtype: str
) -> Value | None:
    """Reduce a term over all loops that do not index the output, with the most specific op that supports it."""
    reduction = None
    if len(term.factors) == 1:
        reduction = folded_windows(
            structure, fold.kind, term.factors[0], out_loops, partial(prepared, structure.builder, fold)
        )
    elif fold.kind == "add" and dtype != "i1":
        reduction = _contraction(structure, body, term.factors, out_loops, dtype)
        reduction = reduction or convolved(structure, term.factors, out_loops, dtype)
    return reduction or _plain_reduction(structure.builder, body, fold, term, out_loops)


def _plain_reduction(builder: Builder, body: Body, fold: Fold, term: Term, out_loops: Loops) -> Value | None:
    """Reduce a term with `reduce` over all loops that do not index the output."""
    loops = tuple(range(len(body.sizes)))
    values = [body.full(factor, loops) for factor in term.factors]
    supported = [value for value in values if value is not None]
    if len(supported) != len(values):
        return None
    value = supported[0] if len(supported) == 1 else builder.apply("multiply", *supported)
    return in_order(
        builder, reduced(builder, Spread(prepared(builder, fold, value), loops), fold.kind, out_loops), out_loops
    )


def prepared(builder: Builder, fold: Fold, value: Value) -> Value:
    """Prepare a term for the graph's `reduce`, according to the flags of `fold`.

    For an unsigned comparison the term is bitcast to unsigned. If NaN is to be ignored, NaN becomes the neutral
    element.
    """
    if fold.is_unsigned:
        return builder.bits(value, f"u{value.type.dtype}")
    if fold.ignores_nan:
        none = builder.constant(neutral(fold.kind, value.type.dtype).item(), value.type.with_shape(()))
        return builder.select(builder.compare("NE", value, value), none, value)
    return value


def _contraction(structure: Structure, body: Body, factors: Sequence[SSAValue], out_loops: Loops, dtype: str
                 ) -> Value | None:  # fmt: skip
    """Emit a sum of products as a `dot_general`.

    Returns None if the loops of the factors do not form a `dot_general`, or if a factor is read through windows.
    """
    if any(_has_windows(structure, factor) for factor in factors):
        return None
    sides = [body.value(narrow(factor)) for factor in factors]
    if any(side is not None and sides[0] is not None and side.value.type.dtype != sides[0].value.type.dtype for side in sides):  # fmt: skip
        sides = [body.value(factor) for factor in factors]
    left, right = sides
    if left is None or right is None:
        return None
    return contract(structure.builder, left, right, range(len(body.sizes)), dtype, out_loops)


def _has_windows(structure: Structure, factor: SSAValue) -> bool:
    """Whether the factor depends on an operand with a dim that several loops index together."""
    for index, argument in enumerate(structure.block.args):
        lines = linear_indices_of(structure.maps[index].results, structure.sizes)
        if depends_on(factor, argument) and any(line is None or len(line.steps) > 1 for line in lines):
            return True
    return False


def contract(builder: Builder, left: Spread, right: Spread, loops: Sequence[int], dtype: str, out_loops: Loops
             ) -> Value | None:  # fmt: skip
    """Emit a `dot_general` over `loops`. Returns None if the loops of the operands do not form one.

    A summed loop that indexes only one operand is reduced first.
    """
    shared = set(left.loops) & set(right.loops)
    all_loops = set(left.loops) | set(right.loops)
    if all_loops != set(loops) or not shared - set(out_loops):
        return None
    left, right = (reduced(builder, side, "add", [*shared, *out_loops]) for side in (left, right))
    a_loops, b_loops = left.loops, right.loops
    batch, contracted = [x for x in a_loops if x in shared and x in out_loops], [x for x in a_loops if x in shared and x not in out_loops]  # fmt: skip
    free = [x for x in a_loops if x not in shared] + [x for x in b_loops if x not in shared]
    sizes = dict(zip(a_loops, left.value.type.shape, strict=True)) | dict(zip(b_loops, right.value.type.shape, strict=True))  # fmt: skip
    kind = TensorType(tuple(sizes[loop] for loop in batch + free), dtype)
    sums, batches = ([[side.index(x) for x in role] for side in (a_loops, b_loops)] for role in (contracted, batch))
    product = builder.dot(left.value, right.value, kind, (sums[0], sums[1]), (batches[0], batches[1]))
    return in_order(builder, Spread(product, tuple(batch + free)), out_loops)
