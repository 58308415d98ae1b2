"""Reader of tosa's conditionals and loops."""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.scf.control import branch, read_blocks, while_loop
from meshgen.mlir.tosa.operations import Control


def import_cond_if(importer: Importer, op: Operation) -> None:
    """Branches over the operands after the condition, and captured values."""
    assert isinstance(op, Control)
    condition, *given = importer.values(op.operands)
    if any(len(region.block.args) not in (0, len(given)) for region in op.regions):
        importer.fault("MG0104", f"tosa.cond_if: its branches must take its {len(given)} operands", op)
    for region in op.regions:  # a branch may also use the values themselves
        for argument, ssa in zip(list(region.block.args), op.operands[1:], strict=False):
            argument.replace_all_uses_with(ssa)
            region.block.erase_arg(argument)
    graphs, captured = read_blocks(importer, [region.block for region in op.regions])
    if condition.type.rank:
        (condition,) = importer.emit("reshape", [condition], [condition.type.with_shape(())], {}, op)
    branch(importer, op, "if", condition, graphs, captured)


def import_while_loop(importer: Importer, op: Operation) -> None:
    assert isinstance(op, Control)
    (condition, body), captured = read_blocks(importer, [region.block for region in op.regions])
    operands = [*importer.values(op.operands), *captured]
    if condition.outputs and condition.outputs[0].type.rank:
        value = condition.outputs[0]
        condition.outputs = condition.add("reshape", [value], [value.type.with_shape(())]).results
    results = while_loop(importer, op, operands, (condition, body))
    for result, value in zip(op.results, results, strict=False):
        importer.bind(result, value)


def import_yield(importer: Importer, op: Operation) -> None:
    """Read with the operation around it."""
    del importer, op


PART = Dialect(
    importers={"tosa.cond_if": import_cond_if, "tosa.while_loop": import_while_loop, "tosa.yield": import_yield}
)
