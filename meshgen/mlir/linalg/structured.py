"""Importer of linalg's structured operations: nodes on whole tensors replace the loops around a scalar body.

An output that all loops index is the yielded value over all loops. An output that some loops do not index is reduced
over them (`reduce.py`), computed by a joint reduction (`joint_reduction.py`), or, if the order of the elements may matter,
accumulated by a sequential loop (`loop.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr
from xdsl.ir import Block, Operation
from xdsl.ir.affine import AffineMap

from meshgen.ir.graph import Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import integers
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.body import Body, Structure, depends_on, loop_sizes
from meshgen.mlir.linalg.joint_reduction import joint_reduction, match_joint_reduction
from meshgen.mlir.linalg.loop import sequential_loop
from meshgen.mlir.linalg.maps import UnreadableMap, linear_index_of
from meshgen.mlir.linalg.reduce import Fold, fold_of, folded
from meshgen.mlir.loop_values import Loops


def import_generic(importer: Importer, op: Operation) -> None:
    structured(importer, op, op.regions[0].block, explicit_maps(op), input_count(op))


def input_count(op: Operation) -> int:
    """Return how many operands of the operation are inputs. The others are outputs."""
    if sizes := integers(op.properties.get("operandSegmentSizes")):
        return sizes[0]
    return len(op.operands) // 2 if op.name == "linalg.reduce" else len(op.operands) - 1


def explicit_maps(op: Operation) -> list[AffineMap]:
    """Return the indexing maps in the attribute `indexing_maps`, or [] if the operation lacks it."""
    maps = op.properties.get("indexing_maps")
    return [item.data for item in maps if isinstance(item, AffineMapAttr)] if isinstance(maps, ArrayAttr) else []


def structured(importer: Importer, op: Operation, block: Block, maps: Sequence[AffineMap], inputs: int) -> None:
    """Convert an operation with the scalar body `block`.

    The first `inputs` operands are inputs, the others outputs. `maps` are the indexing maps of all operands.
    """
    structure = Structure(Builder(importer, op), op, importer.values(op.operands), list(maps), inputs, block)
    first = len(importer.graph.nodes)
    results = _outputs(structure)
    importer.bind_results(op, results)
    _drop_unused(importer, first, results)


def _outputs(structure: Structure) -> list[Value]:
    """Return the results of a structured operation. Raises Refused if the operation is unsupported."""
    values, maps, block = structure.values, structure.maps, structure.block
    if len(maps) != len(values) or len(block.args) < structure.inputs or block.last_op is None:
        counts = f"{len(values)} operands, {len(maps)} maps and a body of {len(block.args)} arguments"
        raise Refused("MG0103", f"has {counts}")
    counts = len(values) - structure.inputs, len(structure.op.results), len(structure.terminator.operands)
    if len(set(counts)) > 1:
        raise Refused("MG0103", "has {} outputs, {} results and {} yielded values".format(*counts))
    structure.sizes = loop_sizes(values, maps)
    loops = [_output_loops(map) for map in maps[structure.inputs :]]
    output_loops = [loops_of_output for loops_of_output in loops if loops_of_output is not None]
    if len(output_loops) != len(loops):
        written = maps[structure.inputs + loops.index(None)]
        raise Refused("MG0103", f"writes at {written}; a dim of an output must be one loop, or 0")
    try:
        return _compute_outputs(structure, output_loops)
    except UnreadableMap as error:
        raise Refused("MG0103", f"the map {' or '.join(map(str, maps[: structure.inputs]))} {error}") from error


def _output_loops(map: AffineMap) -> Loops | None:
    """Return the loop that indexes each dim of an output, without dims of size 1 whose index is 0.

    Returns None if a dim has another index.
    """
    lines = [linear_index_of(expression) for expression in map.results]
    loops = [line.loop if line is not None and (line.steps or line.offset) else -1 for line in lines]
    kept_loops = tuple(loop for loop in loops if loop is not None and loop >= 0)
    return kept_loops if None not in loops and len(set(kept_loops)) == len(kept_loops) and None not in lines else None


def _compute_outputs(structure: Structure, out_loops: Sequence[Loops]) -> list[Value]:
    body, count = structure.body(), len(structure.sizes)
    results: list[Value | None] = []
    for index, loops_of_output in enumerate(out_loops):
        root = structure.terminator.operands[index]
        if len(loops_of_output) == count and not _accumulates(structure, out_loops, index):
            value = body.full(root, loops_of_output)
            results.append(value and structure.builder.reshape(value, structure.values[structure.inputs + index].type.shape))  # fmt: skip
        elif (fold := _fold(structure, index)) is not None and len(loops_of_output) < count:
            results.append(folded(structure, body, index, fold, loops_of_output))
        else:
            results.append(None)
    computed = [value for value in results if value is not None]
    if len(computed) == len(results):
        return computed
    if joint := _joint_outputs(structure, body, out_loops):
        return joint
    raise Refused(
        "MG0103", f"the computation of result {results.index(None)} is not supported{_unsupported_operation(structure)}"
    )


def _accumulates(structure: Structure, out_loops: Sequence[Loops], index: int) -> bool:
    """Whether an output that varies over all loops depends on the accumulator of another output that is being reduced.

    `index` is the number of the output.
    """
    root, count = structure.terminator.operands[index], len(structure.sizes)
    pairs = zip(structure.block.args[structure.inputs :], out_loops, strict=False)
    return any(len(loops_of_output) < count and depends_on(root, argument) for argument, loops_of_output in pairs)


def _fold(structure: Structure, index: int) -> Fold | None:
    arguments = structure.block.args[structure.inputs :]
    return fold_of(structure.terminator.operands[index], arguments[index]) if index < len(arguments) else None


def _joint_outputs(structure: Structure, body: Body, out_loops: Sequence[Loops]) -> list[Value] | None:
    """Compute outputs whose accumulators depend on each other. Returns None if that is unsupported."""
    if len(structure.block.args) != len(structure.values):
        return None
    if len(set(out_loops)) == 1 and (choice := match_joint_reduction(structure)) is not None:
        results = joint_reduction(structure, body, choice, out_loops[0])
        if results is not None:
            return results
    return sequential_loop(structure, out_loops) if len(out_loops[0]) < len(structure.sizes) else None


def _unsupported_operation(structure: Structure) -> str:
    """Return ": NAME" for the first unsupported operation in the body, for an error message, or "" if all are
    supported.
    """
    body = structure.body()
    for operation in structure.block.ops:
        accumulates = any(
            depends_on(x, a) for x in operation.operands for a in structure.block.args[structure.inputs :]
        )
        if operation.results and not accumulates and any(body.value(result) is None for result in operation.results):
            return f": {operation.name}"
    return ""


def _drop_unused(importer: Importer, first: int, results: Sequence[Value]) -> None:
    """Remove the unused nodes from index `first` on: attempts that failed have left them."""
    nodes, used = importer.graph.nodes, set(results)
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
