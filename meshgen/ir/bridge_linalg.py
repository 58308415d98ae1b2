"""Reader of linalg: `generic` and the named operations, as StableHLO nodes.

A body without reductions is computed over the whole iteration space (`Body`). One that accumulates
`combine(acc, f(inputs))` becomes a `dot_general` where f is a product of two inputs, and otherwise a `reduce` of f
over the iteration space; what was in the output before is combined once at the end, if it is not neutral.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from meshgen.ir import bridge
from meshgen.ir.bridge import Importer, imports
from meshgen.ir.bridge_payload import LAZY, Builder, apply_operation, fill_number, mnemonic
from meshgen.ir.dialects.upstream import LINALG, GenericOp
from meshgen.ir.graph import Graph, TensorType, Value, is_float

KINDS = {
    "addf": "add", "addi": "add", "mulf": "multiply", "muli": "multiply", "maximumf": "maximum", "maxnumf": "maximum",
    "maxsi": "maximum", "minimumf": "minimum", "minnumf": "minimum", "minsi": "minimum", "andi": "and", "ori": "or",
    "xori": "xor", "subf": "add", "subi": "add",
}  # fmt: skip
Place = tuple[int | None, ...]  # loop of each dim; None: the constant 0


@dataclass
class Body:
    """The body of a structured operation over its iteration space.

    Attributes:
        block: of the body; values from outside it are the function's.
        sizes: of the loops.
        values: what is known of the body's SSA values, as tensors over the loops or 0-d ones.
    """

    builder: Builder
    block: Block | None
    sizes: tuple[int, ...]
    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])

    def value(self, ssa: SSAValue) -> Value | None:
        """The value of an SSA value; computes it, and what it needs, if it is not known. None: not possible."""
        if (found := self.values.get(ssa)) is not None:
            return found
        owner = ssa.owner
        if (owner if isinstance(owner, Block) else owner.parent_block()) is not self.block:
            return self.builder.importer.value(ssa)
        if isinstance(owner, Block):
            return None
        if owner.name == "linalg.index":
            found = self._index(owner)
        else:
            operands = [self.value(operand) for operand in owner.operands]
            known = [operand for operand in operands if operand is not None]
            found = apply_operation(self.builder, owner, known) if len(known) == len(operands) else None
        if found is not None:
            self.values[ssa] = found
        return found

    def _index(self, op: Operation) -> Value:
        dim = op.properties["dim"]
        number = getattr(getattr(dim, "value", None), "data", 0)
        return self.builder.node("iota", [], TensorType(self.sizes, "i64"), dim=number)

    def full(self, value: Value) -> Value:
        """The value over the whole iteration space."""
        return value if value.type.shape == self.sizes else self.builder.broadcast(value, self.sizes)


def place_of(map: AffineMap) -> Place | None:
    """The loop behind each dim of an operand; None where the map is no projected permutation."""
    found: list[int | None] = []
    for result in map.results:
        if isinstance(result, AffineDimExpr) and result.position not in found:
            found.append(result.position)
        elif isinstance(result, AffineConstantExpr) and result.value == 0:
            found.append(None)
        else:
            return None
    return tuple(found)


def spread(builder: Builder, value: Value, place: Place, sizes: Sequence[int]) -> Value:
    """An operand over the iteration space."""
    loops = [loop for loop in place if loop is not None]
    if len(loops) != len(place):
        shape = [size for size, loop in zip(value.type.sizes, place, strict=True) if loop is not None]
        value = builder.node("reshape", [value], value.type.with_shape(shape), **{LAZY: True})
    order = sorted(range(len(loops)), key=lambda dim: loops[dim])
    value = transposed(builder, value, order)
    if not loops:
        return value
    return builder.broadcast(value, sizes, sorted(loops))


def transposed(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    """The value with its dims in another order."""
    if list(order) == list(range(len(order))):
        return value
    kind = value.type.with_shape(value.type.shape[dim] for dim in order)
    return builder.node("transpose", [value], kind, perm=tuple(order), **{LAZY: True})


@imports("linalg.generic")
def import_generic(importer: Importer, op: Operation) -> None:
    assert isinstance(op, GenericOp)
    places = [place_of(each.data) for each in op.indexing_maps]
    known = [place for place in places if place is not None]
    if len(known) != len(places):
        maps = ", ".join(str(each.data) for each in op.indexing_maps)
        importer.fault("MG0103", f"linalg.generic with the maps {maps}: only projected permutations are supported", op)
        refuse(importer, op)
        return
    structured(importer, op, op.body.block.args, op.body.block.last_op, known, len(op.inputs), op.reduced)


def refuse(importer: Importer, op: Operation) -> None:
    """Bind the results of an operation that was refused, so that reading goes on."""
    for result in op.results:
        importer.bind(result, Builder(importer, op).constant(0, importer.type(result)))


def structured(importer: Importer, op: Operation, arguments: Sequence[BlockArgument], yielded: Operation | None,
               places: Sequence[Place], input_count: int, reduced: tuple[int, ...]) -> None:  # fmt: skip
    """Convert an operation with a body: its inputs, then its outputs, at `places` of the loops."""
    builder, operands = Builder(importer, op), importer.values(op.operands)
    sizes = _loop_sizes(operands, places)
    if sizes is None or yielded is None:
        importer.fault("MG0103", f"{op.name}: the sizes of its loops are not known or do not agree", op)
        refuse(importer, op)
        return
    body = Body(builder, yielded.parent_block(), sizes)
    for number, argument in enumerate(arguments[:input_count]):
        body.values[argument] = spread(builder, operands[number], places[number], sizes)
    for number, result in enumerate(op.results):
        out = input_count + number
        accumulator = arguments[out] if out < len(arguments) else None
        root, place = yielded.operands[number], places[out]
        if reduced:
            found = _reduction(
                body, root, accumulator, op.operands[out], place, reduced, places[:input_count], operands
            )
        else:
            if accumulator is not None and accumulator.first_use is not None:
                body.values[accumulator] = spread(builder, operands[out], place, sizes)
            found = _delivered(body, body.value(root), place)
        if found is None and reduced and number == 0:
            pairs = paired_reduction(body, yielded, arguments[input_count:], op.operands[input_count:], reduced)
            if pairs is not None and _bind_pairs(body, op, pairs, places[input_count:], reduced):
                return
        if found is None:
            importer.fault(
                "MG0103", f"{op.name}: result {number} is computed in a way that is not supported", op,
                "reductions are combine(accumulator, f(inputs)) with add, mul, max, min, and, or, xor",
            )  # fmt: skip
            found = builder.constant(0, importer.type(result))
        importer.bind(result, found)


def _bind_pairs(body: Body, op: Operation, pairs: Sequence[Value], places: Sequence[Place], reduced: tuple[int, ...]
                ) -> bool:  # fmt: skip
    """Bind the results of a joint reduction, in each output's order of dims."""
    kept = [loop for loop in range(len(body.sizes)) if loop not in reduced]
    found = [_in_order(body.builder, value, kept, place) for value, place in zip(pairs, places, strict=True)]
    known = [value for value in found if value is not None]
    for result, value in zip(op.results, known, strict=False):
        body.builder.importer.bind(result, value)
    return len(known) == len(op.results)


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


def _loop_sizes(operands: Sequence[Value], places: Sequence[Place]) -> tuple[int, ...] | None:
    """Sizes of the loops from the operands' shapes."""
    found: dict[int, int] = {}
    for value, place in zip(operands, places, strict=True):
        if len(place) != value.type.rank:
            return None
        for loop, size in zip(place, value.type.shape, strict=True):
            if size is None or (loop is not None and found.setdefault(loop, size) != size):
                return None
    return tuple(found[loop] for loop in range(len(found))) if sorted(found) == list(range(len(found))) else None


def _delivered(body: Body, value: Value | None, place: Place) -> Value | None:
    """A value over all loops in the output's order of dims."""
    loops = [loop for loop in place if loop is not None]
    if value is None or len(loops) != len(body.sizes):
        return None
    found = transposed(body.builder, body.full(value), loops)
    return _with_ones(body.builder, found, place)


def _with_ones(builder: Builder, value: Value, place: Place) -> Value:
    """The value with a dim of size 1 wherever the place has none."""
    if None not in place:
        return value
    rest = iter(value.type.sizes)
    return builder.node(
        "reshape", [value], value.type.with_shape([1 if loop is None else next(rest) for loop in place])
    )


def _reduction(body: Body, root: SSAValue, accumulator: BlockArgument | None, output: SSAValue, place: Place,
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


def neutral(kind: str, dtype: str) -> float | int:
    """The number that a reduction of this kind leaves as it is."""
    if kind in ("add", "or", "xor"):
        return 0
    if kind == "multiply":
        return 1
    if kind == "and":
        return -1 if dtype != "i1" else 1
    if is_float(dtype):
        return float("-inf") if kind == "maximum" else float("inf")
    info = np.iinfo(np.dtype(TensorType((), dtype).numpy_dtype)) if dtype != "i1" else None
    low, high = (0, 1) if info is None else (int(info.min), int(info.max))
    return low if kind == "maximum" else high


def _reduced(body: Body, term: Value | None, kind: str, place: Place, reduced: tuple[int, ...]) -> Value | None:
    """A `reduce` of a value over the iteration space."""
    if term is None:
        return None
    builder = body.builder
    kept = [loop for loop in range(len(body.sizes)) if loop not in reduced]
    init = builder.constant(neutral(kind, term.type.dtype), term.type.with_shape(()))
    shape = term.type.with_shape(body.sizes[loop] for loop in kept)
    found = builder.node("reduce", [body.full(term), init], shape, dims=reduced, kind=kind)
    return _in_order(builder, found, kept, place)


def _in_order(builder: Builder, value: Value, loops: Sequence[int], place: Place) -> Value | None:
    """A value whose dims are `loops`, in the output's order of dims."""
    wanted = [loop for loop in place if loop is not None]
    if sorted(wanted) != sorted(loops):
        return None
    return _with_ones(builder, transposed(builder, value, [list(loops).index(loop) for loop in wanted]), place)


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
    return _in_order(builder, found, batch + free, place)


@imports("linalg.yield", "linalg.index")
def import_inner(importer: Importer, op: Operation) -> None:
    """Read with the operation around it."""
    del importer, op


bridge.DIALECTS.append(LINALG)
