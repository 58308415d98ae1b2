"""Reader of `meshgen.grouped`, which runs a collective on several operands in one launch, from stage `fuse` on."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation

from meshgen.ir.graph import STAGES
from meshgen.ir.group_calls import VARIADIC
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.shard.attributes import ReductionKindAttr
from meshgen.mlir.shard.collective_ops import KINDS
from meshgen.mlir.shard.collectives import axes_of, note_reasons
from meshgen.mlir.shard.grid import mesh_of


def import_grouped(importer: Importer, op: Operation) -> None:
    name = op.properties["collective"]
    assert isinstance(name, StringAttr)
    if name.data not in VARIADIC:
        importer.fault(
            "MG0104", f"{op.name}: unknown collective '{name.data}'; expected one of {', '.join(VARIADIC)}", op
        )
    if STAGES.index(importer.reading.module.stage) < STAGES.index("fuse"):
        importer.fault(
            "MG0103", f"{op.name} is not allowed before stage 'fuse'", op, "write a collective for each operand"
        )
    attrs: dict[str, object] = {"axes": axes_of(op, mesh_of(importer, op))}
    if isinstance(axis := op.properties.get("axis"), IntegerAttr):
        attrs["dim"] = axis.value.data
    if isinstance(kind := op.properties.get("reduction"), ReductionKindAttr):
        if kind.data not in KINDS:
            importer.fault("MG0103", f"{op.name}: unknown reduction '{kind.data}'", op)
        attrs["kind"] = KINDS.get(kind.data, "sum")
    operands, types = [importer.value(value) for value in op.operands], [importer.type(value) for value in op.results]
    results = importer.emit(name.data if name.data in VARIADIC else VARIADIC[0], operands, types, attrs, op)
    note_reasons(importer.graph.nodes[-1], op)
    importer.bind_results(op, results)


PART = Dialect(importers={"meshgen.grouped": import_grouped})
