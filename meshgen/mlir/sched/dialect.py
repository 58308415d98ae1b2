"""The dialect `sched`: the schedule of a program and composite operations.

The schedule consists of attributes: `sched.item` and `sched.buffers` (`mlir/sched/attributes.py`), and `sched.trips`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr
from xdsl.ir import Attribute

from meshgen.ir.graph import Node
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.literals import listed
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.sched.attention import PART as ATTENTION
from meshgen.mlir.sched.attributes import ATTRIBUTES, BufferAttr, ItemAttr, buffer_text, item_text
from meshgen.mlir.sched.composites import PART as COMPOSITES
from meshgen.mlir.sched.ragged_dot import PART as RAGGED_DOT
from meshgen.mlir.sched.scan import PART as SCAN


def read_slot(importer: Importer, node: Node, attribute: Attribute) -> None:
    """Read `sched.item` into the node: the stream on which it runs, its events and its times."""
    if isinstance(attribute, ItemAttr):
        node.notes = replace(node.notes, slot=attribute.data)


def read_places(importer: Importer, node: Node, attribute: Attribute) -> None:
    """Read `sched.buffers` into the node: the arena allocations of its results."""
    if isinstance(attribute, ArrayAttr):
        places = tuple(item.data for item in attribute if isinstance(item, BufferAttr))
        node.notes = replace(node.notes, places=places)


def read_trips(importer: Importer, node: Node, attribute: Attribute) -> None:
    """Read `sched.trips` into a `while` node: the trip count of a loop whose condition does not determine it."""
    if isinstance(attribute, IntegerAttr) and node.op == "while":
        node.notes = replace(node.notes, trips=max(1, attribute.value.data))


def write_schedule(printer: TextPrinter, node: Node) -> Mapping[str, str]:
    """Return the attributes that state the schedule of a node: `sched.item`, `sched.buffers` and `sched.trips`."""
    attributes: dict[str, str] = {}
    if node.notes.trips is not None:
        attributes["sched.trips"] = f"{node.notes.trips} : i64"
    if node.notes.slot is not None:
        attributes["sched.item"] = item_text(node.notes.slot)
    if node.notes.places:
        attributes["sched.buffers"] = listed(map(buffer_text, node.notes.places))
    return attributes


_PART = Dialect(
    attributes=ATTRIBUTES,
    node_attrs={"sched.trips": read_trips, "sched.item": read_slot, "sched.buffers": read_places},
    node_attr_writers=(write_schedule,),
)

DIALECT = merged(_PART, ATTENTION, COMPOSITES, RAGGED_DOT, SCAN)
