"""Reader of linalg's structured operations: a body over loops becomes nodes over whole tensors.

Outputs that have all loops are the body computed over all of them. An output that lacks some is folded over those
(`reduce.py`), chosen together with others (`choice.py`), or accumulated by a loop
(`loop.py`) where the body does not say that the order of its elements is free.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineMap

from meshgen.ir.graph import Value
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.attributes import integers
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.body import Body, Structure, depends_on, loop_sizes
from meshgen.mlir.linalg.choice import choice_of, chosen
from meshgen.mlir.linalg.loop import looped
from meshgen.mlir.linalg.maps import UnreadableMap, line_of
from meshgen.mlir.linalg.reduce import Fold, fold_of, folded
from meshgen.mlir.spread import Loops


def import_generic(importer: Importer, op: Operation) -> None:
    structured(importer, op, op.regions[0].block, own_maps(op), input_count(op))


def input_count(op: Operation) -> int:
    """How many of the operands are inputs."""
    if sizes := integers(op.properties.get("operandSegmentSizes")):
        return sizes[0]
    return len(op.operands) // 2 if op.name == "linalg.reduce" else len(op.operands) - 1


def own_maps(op: Operation) -> list[AffineMap]:
    """The indexing maps that an operation says."""
    maps = op.properties.get("indexing_maps")
    return [each.data for each in maps if isinstance(each, AffineMapAttr)] if isinstance(maps, ArrayAttr) else []


def structured(importer: Importer, op: Operation, block: Block, maps: Sequence[AffineMap], inputs: int) -> None:
    """Convert an operation whose operands are `inputs` inputs, then its outputs, read and written at `maps`."""
    structure = Structure(Builder(importer, op), op, importer.values(op.operands), list(maps), inputs, block)
    first = len(importer.graph.nodes)
    found = _outputs(structure)
    importer.bind_results(op, found)
    _drop_unused(importer, first, found)


def _outputs(structure: Structure) -> list[Value]:
    """The results. Raises Refused where the operation cannot be computed."""
    values, maps, block = structure.values, structure.maps, structure.block
    if len(maps) != len(values) or len(block.args) < structure.inputs or block.last_op is None:
        counts = f"{len(values)} operands, {len(maps)} maps and a body of {len(block.args)} arguments"
        raise Refused("MG0103", f"has {counts}")
    counts = len(values) - structure.inputs, len(structure.op.results), len(structure.terminator.operands)
    if len(set(counts)) > 1:
        raise Refused("MG0103", "has {} outputs, {} results and {} yielded values".format(*counts))
    structure.sizes = loop_sizes(values, maps)
    loops = [_output_loops(map) for map in maps[structure.inputs :]]
    known = [each for each in loops if each is not None]
    if len(known) != len(loops):
        written = maps[structure.inputs + loops.index(None)]
        raise Refused("MG0103", f"writes at {written}; a dim of an output must be one loop, or 0")
    try:
        return _computed(structure, known)
    except UnreadableMap as error:
        raise Refused("MG0103", f"the map {' or '.join(map(str, maps[: structure.inputs]))} {error}") from error


def _output_loops(map: AffineMap) -> Loops | None:
    """The loop of each dim of an output; dims of size 1 that are written at 0 have none."""
    lines = [line_of(expression) for expression in map.results]
    loops = [line.loop if line is not None and (line.steps or line.offset) else -1 for line in lines]
    found = tuple(loop for loop in loops if loop is not None and loop >= 0)
    return found if None not in loops and len(set(found)) == len(found) and None not in lines else None


def _computed(structure: Structure, places: Sequence[Loops]) -> list[Value]:
    body, count = structure.body(), len(structure.sizes)
    found: list[Value | None] = []
    for number, place in enumerate(places):
        root = structure.terminator.operands[number]
        if len(place) == count and not _accumulates(structure, places, number):
            value = body.full(root, place)
            found.append(value and structure.builder.reshape(value, structure.values[structure.inputs + number].type.shape))  # fmt: skip
        elif (fold := _fold(structure, number)) is not None and len(place) < count:
            found.append(folded(structure, body, number, fold, place))
        else:
            found.append(None)
    known = [value for value in found if value is not None]
    if len(known) == len(found):
        return known
    if joint := _joint(structure, body, places):
        return joint
    raise Refused("MG0103", f"the computation of result {found.index(None)} is not supported{_unknown(structure)}")


def _accumulates(structure: Structure, places: Sequence[Loops], number: int) -> bool:
    """Whether an output that has all loops is computed from one that is still being accumulated."""
    root, count = structure.terminator.operands[number], len(structure.sizes)
    pairs = zip(structure.block.args[structure.inputs :], places, strict=False)
    return any(len(place) < count and depends_on(root, argument) for argument, place in pairs)


def _fold(structure: Structure, number: int) -> Fold | None:
    arguments = structure.block.args[structure.inputs :]
    return fold_of(structure.terminator.operands[number], arguments[number]) if number < len(arguments) else None


def _joint(structure: Structure, body: Body, places: Sequence[Loops]) -> list[Value] | None:
    """Outputs that are accumulated together."""
    if len(structure.block.args) != len(structure.values):
        return None
    if len(set(places)) == 1 and (choice := choice_of(structure)) is not None:
        found = chosen(structure, body, choice, places[0])
        if found is not None:
            return found
    return looped(structure, places) if len(places[0]) < len(structure.sizes) else None


def _unknown(structure: Structure) -> str:
    """The operation of the body that could not be read, if there is one."""
    body = structure.body()
    for operation in structure.block.ops:
        accumulates = any(
            depends_on(x, a) for x in operation.operands for a in structure.block.args[structure.inputs :]
        )
        if operation.results and not accumulates and any(body.value(result) is None for result in operation.results):
            return f": {operation.name}"
    return ""


def _drop_unused(importer: Importer, first: int, found: Sequence[Value]) -> None:
    """Remove the unused nodes from number `first` on, left by failed attempts."""
    nodes, used = importer.graph.nodes, set(found)
    kept = nodes[:first]
    rest = list(reversed(nodes[first:]))
    needed = []
    for node in rest:
        if any(result in used for result in node.results):
            used.update(node.operands)
            needed.append(node)
    nodes[:] = [*kept, *reversed(needed)]


PART = Dialect(
    importers={"linalg.generic": import_generic, "linalg.yield": import_nothing, "linalg.index": import_nothing}
)
