"""Conditionals, loops and variables of tosa.

A variable that the program only reads is a constant; one that it writes would have to outlive a run.
"""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.ir.graph import Value
from meshgen.mlir.arith.payload import Builder, computed
from meshgen.mlir.attributes import name_of
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.scf.control import branch, while_loop

_WRITES = ("tosa.variable.write", "tosa.variable_write")


def import_cond_if(importer: Importer, op: Operation) -> None:
    """Branches over the operands after the condition, and captured values."""
    condition, *given = importer.values(op.operands)
    if any(len(region.block.args) not in (0, len(given)) for region in op.regions):
        importer.fault("MG0104", f"tosa.cond_if: its branches must take its {len(given)} operands", op)
    for region in op.regions:  # a branch may also use the values themselves
        for argument, ssa in zip(list(region.block.args), op.operands[1:], strict=False):
            argument.replace_all_uses_with(ssa)
            region.block.erase_arg(argument)
    graphs, captured = importer.blocks([region.block for region in op.regions])
    condition = Builder(importer, op).reshape(condition, ())
    branch(importer, op, "if", condition, graphs, importer.values(captured))


def import_while_loop(importer: Importer, op: Operation) -> None:
    (condition, body), captured = importer.blocks([region.block for region in op.regions])
    operands = importer.values([*op.operands, *captured])
    if condition.outputs and condition.outputs[0].type.rank:
        value = condition.outputs[0]
        condition.outputs = condition.add("reshape", [value], [value.type.with_shape(())]).results
    importer.bind_results(op, while_loop(importer, op, operands, (condition, body)))


def _read_variable(b: Builder) -> Value:
    top, name = b.source, name_of(b.attribute("name"))
    while (parent := top.parent_op()) is not None:
        top = parent
    same = [each for each in top.walk() if name in (name_of(each.properties.get(key)) for key in ("sym_name", "name"))]
    declared = next((each for each in same if each.name == "tosa.variable"), None)
    value = declared.properties.get("initial_value") if declared is not None else None
    if isinstance(value, DenseElements) and value.data.type == b.source.results[0].type:
        return b.emit("constant", [], b.result, value=value.data.array)
    if not any(each.name in _WRITES for each in same):
        what = "is not declared" if declared is None else f"has no initial value of type {b.result}"
        raise Refused("MG0104", f"@{name} {what}", "declare it as tosa.variable @name = dense<...>")
    return b.constant(0, b.result)  # what writes it is refused


def import_write(importer: Importer, op: Operation) -> None:
    message = f"a module has no state between runs, so @{name_of(op.properties.get('name'))} cannot be written"
    hint = "make the variable an argument of the function and its new value a result, which the caller passes on"
    raise Refused("MG0103", message, hint)


PART = Dialect(
    importers={
        "tosa.cond_if": import_cond_if,
        "tosa.while_loop": import_while_loop,
        "tosa.yield": import_nothing,
        "tosa.variable": import_nothing,
        "tosa.variable.read": computed(_read_variable),
        "tosa.variable_read": computed(_read_variable),
        **dict.fromkeys(_WRITES, import_write),
    },
    module_ops={"tosa.variable": lambda reading, op: None},
)
