"""Reader of tosa's variables: what the program only reads is a constant; what it writes would have to outlive a run."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation

from meshgen.mlir.arith.payload import Builder, finish
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.structured import refuse
from meshgen.mlir.operation_signature import attribute_of
from meshgen.mlir.reading import Reading

_WRITES = ("tosa.variable.write", "tosa.variable_write")


def import_variable(importer: Importer, op: Operation) -> None:
    """Looked up where it is read."""
    del importer, op


def import_read(importer: Importer, op: Operation) -> None:
    top, name = op, _symbol(attribute_of(op, "name"))
    while (parent := top.parent_op()) is not None:
        top = parent
    same = [each for each in top.walk() if name in (_symbol(attribute_of(each, key)) for key in ("sym_name", "name"))]
    declared = next((each for each in same if each.name == "tosa.variable"), None)
    value = attribute_of(declared, "initial_value") if declared is not None else None
    kind = importer.type(op.results[0])
    if isinstance(value, DenseElements) and value.data.type == op.results[0].type:
        finish(importer, op, Builder(importer, op).emit("constant", [], kind, value=value.data.array))
        return
    if not any(each.name in _WRITES for each in same):
        what = "is not declared" if declared is None else f"has no initial value of type {kind}"
        importer.fault("MG0104", f"{op.name}: @{name} {what}", op, "declare it as tosa.variable @name = dense<...>")
    refuse(importer, op)


def import_write(importer: Importer, op: Operation) -> None:
    name = _symbol(attribute_of(op, "name"))
    message = f"{op.name}: a module has no state between runs, so @{name} cannot be written"
    hint = "make the variable an argument of the function and its new value a result, which the caller passes on"
    importer.fault("MG0103", message, op, hint)


def _symbol(attribute: Attribute | None) -> str | None:
    if isinstance(attribute, SymbolRefAttr):
        return attribute.string_value()
    return attribute.data if isinstance(attribute, StringAttr) else None


def _read_declaration(reading: Reading, op: Operation) -> None:
    """Looked up where it is read."""
    del reading, op


PART = Dialect(
    importers={
        "tosa.variable": import_variable,
        "tosa.variable.read": import_read,
        "tosa.variable_read": import_read,
        **dict.fromkeys(_WRITES, import_write),
    },
    module_ops={"tosa.variable": _read_declaration},
)
