"""The operations `sched.scan` and `sched.recurrence`, which are printed in generic form from stage `partition` on.

A recurrence is a scan that runs as a single kernel.

%0, %1 = "sched.scan"(%state, %stack, %weights) <{trips = 24, sliced = [1, 2], offsets = [0, 0], strides = [1, 1]}> ({
^bb0(%s: tensor<8xf32>, %before: tensor<1x8xf32>, %row: tensor<1x8x8xf32>):
  ...
  stablehlo.return %next, %now : tensor<8xf32>, tensor<1x8xf32>
}) : (...) -> (tensor<8xf32>, tensor<24x8xf32>)
"""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.ir.graph import STAGES, Node
from meshgen.ir.loops import capture_arguments
from meshgen.mlir.attributes import integer_of, integers
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import array
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.base import generic_text
from meshgen.mlir.text_operation import TextOperation, define

LISTS = ("sliced", "offsets", "strides")


def _import_scan(importer: Importer, operation: Operation) -> None:
    if STAGES.index(importer.reading.module.stage) < STAGES.index("partition"):
        importer.fault(
            "MG0103", f"{operation.name} is not allowed before stage 'partition'", operation, "write a while"
        )
    graph, captures = importer.region(operation.regions[0])
    outside = dict(zip(graph.inputs[len(operation.operands) :], importer.values(captures), strict=True))
    attrs = {name: tuple(integers(operation.properties[name])) for name in LISTS}
    trips = integer_of(operation.properties["trips"])
    op = operation.name.removeprefix("sched.")
    importer.convert(operation, op, {**attrs, "trips": trips}, regions=(capture_arguments(graph, outside),))


def _write_scan(printer: TextPrinter, node: Node) -> str:
    properties = {"trips": f"{node.attrs.trips} : i64"} | {name: array(node.attrs[name]) for name in LISTS}
    return generic_text(printer, node, f"sched.{node.op}", properties)


# The body runs for `trips` iterations.
# `sliced` are the indices of operands that are read in slices: each iteration reads from row `offset + stride *
# iteration` on.
# In a recurrence, each element of a carried value depends only on the same element after the previous iteration.
_SIGNATURE = "m -> n {m -> n} <trips: integer, sliced: integers, offsets: integers, strides: integers>"
_NAMES = ("scan", "recurrence")

PART = Dialect(
    operations=define(TextOperation, "sched", {_SIGNATURE: " ".join(_NAMES)}),
    importers={f"sched.{name}": _import_scan for name in _NAMES},
    writers=dict.fromkeys(_NAMES, _write_scan),
)
