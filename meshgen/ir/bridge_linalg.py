"""Reader of linalg: `generic` and the named operations, as StableHLO nodes.

A body without reductions is computed over the whole iteration space (`Body`). One that accumulates
`combine(acc, f(inputs))` becomes a `dot_general` where f is a product of two inputs, and otherwise a `reduce` of f
over the iteration space; what was in the output before is combined once at the end, if it is not neutral.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import BlockArgument, Operation

from meshgen.ir import bridge
from meshgen.ir.bridge import Importer, imports
from meshgen.ir.bridge_linalg_body import Body, Place, in_order, loop_sizes, place_of, spread, transposed, with_ones
from meshgen.ir.bridge_linalg_reduce import paired_reduction, reduction
from meshgen.ir.bridge_payload import Builder
from meshgen.ir.dialects.upstream import LINALG, GenericOp
from meshgen.ir.graph import Value


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
    sizes = loop_sizes(operands, places)
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
            found = reduction(body, root, accumulator, op.operands[out], place, reduced, places[:input_count], operands)
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
    found = [in_order(body.builder, value, kept, place) for value, place in zip(pairs, places, strict=True)]
    known = [value for value in found if value is not None]
    for result, value in zip(op.results, known, strict=False):
        body.builder.importer.bind(result, value)
    return len(known) == len(op.results)


def _delivered(body: Body, value: Value | None, place: Place) -> Value | None:
    """A value over all loops in the output's order of dims."""
    loops = [loop for loop in place if loop is not None]
    if value is None or len(loops) != len(body.sizes):
        return None
    found = transposed(body.builder, body.full(value), loops)
    return with_ones(body.builder, found, place)


@imports("linalg.yield", "linalg.index")
def import_inner(importer: Importer, op: Operation) -> None:
    """Read with the operation around it."""
    del importer, op


bridge.DIALECTS.append(LINALG)
