"""Reductions of linalg: sums of products as dot_general, others as reduce, joint choices (argmax) as reduce_region."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from meshgen.ir.bridge import Importer
from meshgen.ir.bridge_linalg_body import Body, Place, in_order, neutral
from meshgen.ir.bridge_payload import Builder, apply_operation, fill_number, mnemonic
from meshgen.ir.graph import Graph, TensorType, Value

KINDS = {
    "addf": "add", "addi": "add", "mulf": "multiply", "muli": "multiply", "maximumf": "maximum", "maxnumf": "maximum",
    "maxsi": "maximum", "minimumf": "minimum", "minnumf": "minimum", "minsi": "minimum", "andi": "and", "ori": "or",
    "xori": "xor", "subf": "add", "subi": "add",
}  # fmt: skip


def paired_reduction(body: Body, yielded: Operation, accumulators: Sequence[BlockArgument], outputs: Sequence[SSAValue],
                     reduced: tuple[int, ...]) -> list[Value] | None:  # fmt: skip
    """Accumulators that are all chosen by one comparison, as in an argmax: a `reduce_region` of all together.

    Each is `select(c, x, accumulator)`, or the other way round, and c compares one x with its accumulator: such a
    choice may be made in any grouping of the elements. None where the body is of another form.
    """
    choices = [_choice(root, accumulator) for root, accumulator in zip(yielded.operands, accumulators, strict=True)]
    known = [choice for choice in choices if choice is not None]
    if len(known) != len(choices) or len({(condition, first) for condition, _, first in known}) != 1:
        return None
    condition, _, first = known[0]
    comparison, terms = condition.owner, [term for _, term, _ in known]
    pairs = list(zip(terms, accumulators, strict=True))
    if not isinstance(comparison, Operation) or mnemonic(comparison) not in ("cmpf", "cmpi"):
        return None
    compared = tuple(comparison.operands)
    number = next((n for n, (x, acc) in enumerate(pairs) if compared in ((x, acc), (acc, x))), None)
    values = [body.value(term) for term in terms]
    elements = [body.full(value) for value in values if value is not None]
    inits = [fill_number(output) for output in outputs]
    if number is None or len(elements) != len(terms) or None in inits:
        return None
    region = _choosing(body, comparison, elements, number, compared[0] is terms[number], first)
    scalars = [body.builder.constant(init or 0, x.type.with_shape(())) for init, x in zip(inits, elements, strict=True)]
    kept = [size for loop, size in enumerate(body.sizes) if loop not in reduced]
    types = [x.type.with_shape(kept) for x in elements]
    attrs = {"dims": reduced}
    return body.builder.importer.emit(
        "reduce_region", [*elements, *scalars], types, attrs, body.builder.source, (region,)
    )


def _choice(root: SSAValue, accumulator: BlockArgument) -> tuple[SSAValue, SSAValue, bool] | None:
    """Condition, new value, and whether it is taken where the condition holds."""
    select = root.owner
    if not isinstance(select, Operation) or mnemonic(select) != "select":
        return None
    condition, left, right = select.operands
    if right is accumulator:
        return condition, left, True
    return (condition, right, False) if left is accumulator else None


def _choosing(body: Body, comparison: Operation, elements: Sequence[Value], number: int, term_first: bool, first: bool
              ) -> Graph:  # fmt: skip
    """The region over (accumulators, elements)."""
    outer = body.builder.importer
    inner = Importer(outer.reading, Graph(""), outer)
    builder = Builder(inner, body.builder.source)
    old, new = ([Value(x.type.with_shape(())) for x in elements] for _ in range(2))
    inner.graph.inputs = [*old, *new]
    pair = (new[number], old[number]) if term_first else (old[number], new[number])
    condition = apply_operation(builder, comparison, pair)
    assert condition is not None, "comparisons are element-wise"
    chosen = [(n, o) if first else (o, n) for o, n in zip(old, new, strict=True)]
    inner.graph.outputs = [builder.select(condition, *choice) for choice in chosen]
    return inner.graph


def reduction(body: Body, root: SSAValue, accumulator: BlockArgument | None, output: SSAValue, place: Place,
               reduced: tuple[int, ...], inputs: Sequence[Place], operands: Sequence[Value]) -> Value | None:  # fmt: skip
    """`combine(accumulator, f)` over the reduced loops."""
    combine = root.owner
    kind = KINDS.get(mnemonic(combine)) if isinstance(combine, Operation) else None
    if kind is None or accumulator is None or not isinstance(combine, Operation):
        return None
    left, right = combine.operands
    minus = mnemonic(combine) in ("subf", "subi")
    if left is accumulator:
        term = right
    elif right is accumulator and not minus:
        term = left
    else:
        return None
    builder, init = body.builder, body.builder.importer.value(output)
    found = None
    if kind == "add":
        found = _contraction(body, term, init.type.dtype, place, reduced, inputs, operands)
    if found is None:
        found = _reduced(body, body.value(term), kind, place, reduced)
    if found is None:
        return None
    if minus:
        found = builder.apply("negate", found)
    return _joined(builder, found, init, fill_number(output), kind)


def _joined(builder: Builder, found: Value, init: Value, number: float | int | None, kind: str) -> Value:
    """The reduction and what was in the output before; nothing to do where that is neutral."""
    if number is not None and number == neutral(kind, found.type.dtype):
        return found
    return builder.apply(kind, init, found)


def _reduced(body: Body, term: Value | None, kind: str, place: Place, reduced: tuple[int, ...]) -> Value | None:
    """A `reduce` of a value over the iteration space."""
    if term is None:
        return None
    builder = body.builder
    kept = [loop for loop in range(len(body.sizes)) if loop not in reduced]
    init = builder.constant(neutral(kind, term.type.dtype), term.type.with_shape(()))
    shape = term.type.with_shape(body.sizes[loop] for loop in kept)
    found = builder.node("reduce", [body.full(term), init], shape, dims=reduced, kind=kind)
    return in_order(builder, found, kept, place)


def _contraction(body: Body, term: SSAValue, dtype: str, place: Place, reduced: tuple[int, ...],
                 inputs: Sequence[Place], operands: Sequence[Value]) -> Value | None:  # fmt: skip
    """The product of two inputs, summed, as a `dot_general`; None if it is none."""
    product = term.owner
    if not isinstance(product, Operation) or mnemonic(product) not in ("mulf", "muli", "andi"):
        return None
    factors = [_input(factor) for factor in product.operands]
    numbers = [n for n in factors if n is not None and n < len(inputs) and None not in inputs[n]]
    if len(numbers) != 2 or mnemonic(product) == "andi":
        return None
    left, right = ([loop for loop in inputs[n] if loop is not None] for n in numbers)
    return contract(body.builder, (operands[numbers[0]], left), (operands[numbers[1]], right), reduced, dtype, place)


def _input(value: SSAValue) -> int | None:
    """Number of the block argument that a factor is, through a widening cast."""
    while isinstance(value.owner, Operation) and mnemonic(value.owner) in ("extf", "extsi"):
        value = value.owner.operands[0]
    return value.index if isinstance(value, BlockArgument) else None


def contract(builder: Builder, left: tuple[Value, list[int]], right: tuple[Value, list[int]], reduced: Sequence[int],
             dtype: str, place: Place) -> Value | None:  # fmt: skip
    """A `dot_general` of two values whose dims are the given loops; None where the loops do not make one."""
    (a, a_loops), (b, b_loops) = left, right
    both = [loop for loop in a_loops if loop in b_loops]
    batch, contracted = [x for x in both if x not in reduced], [x for x in both if x in reduced]
    if set(contracted) != set(reduced) or len(set(a_loops)) != len(a_loops) or len(set(b_loops)) != len(b_loops):
        return None
    free = [x for x in a_loops if x not in both] + [x for x in b_loops if x not in both]
    sizes = dict(zip(a_loops, a.type.sizes, strict=True)) | dict(zip(b_loops, b.type.sizes, strict=True))
    found = builder.node(
        "dot_general",
        [a, b],
        TensorType(tuple(sizes[loop] for loop in batch + free), dtype),
        lhs_batch=tuple(a_loops.index(x) for x in batch),
        rhs_batch=tuple(b_loops.index(x) for x in batch),
        lhs_contract=tuple(a_loops.index(x) for x in contracted),
        rhs_contract=tuple(b_loops.index(x) for x in contracted),
        precision=(),
    )
    return in_order(builder, found, batch + free, place)
