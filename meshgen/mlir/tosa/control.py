"""Importers of tosa's conditionals, loops and variables.

A read of a variable becomes a constant. Writes are unsupported, since a module has no state between runs.
"""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.ir.graph import Value
from meshgen.mlir.arith.builder import Builder, computed
from meshgen.mlir.attributes import name_of
from meshgen.mlir.conversion import Importer, Refused, import_nothing
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.scf.control import branch, while_loop

_WRITES = ("tosa.variable.write", "tosa.variable_write")


def import_cond_if(importer: Importer, op: Operation) -> None:
    """Convert a conditional to an `if`. Its operands are the values that the branches use, including the branch
    arguments.
    """
    condition, *inputs = importer.values(op.operands)
    if any(len(region.block.args) not in (0, len(inputs)) for region in op.regions):
        importer.fault("MG0104", f"tosa.cond_if: its branches must take its {len(inputs)} operands", op)
    # A branch may use the operands directly or through its arguments. Replace the arguments by the operands.
    for region in op.regions:
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
    accesses = [
        operation
        for operation in top.walk()
        if name in (name_of(operation.properties.get(key)) for key in ("sym_name", "name"))
    ]
    declared = next((operation for operation in accesses if operation.name == "tosa.variable"), None)
    value = declared.properties.get("initial_value") if declared is not None else None
    if isinstance(value, DenseElements) and value.data.type == b.source.results[0].type:
        return b.emit("constant", [], b.result, value=value.data.array)
    if not any(operation.name in _WRITES for operation in accesses):
        fault = "is not declared" if declared is None else f"has no initial value of type {b.result}"
        raise Refused("MG0104", f"@{name} {fault}", "declare it as tosa.variable @name = dense<...>")
    return b.constant(0, b.result)  # The value does not matter: `import_write` reports the program as unsupported.


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
