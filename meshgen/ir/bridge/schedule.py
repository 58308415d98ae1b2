"""The schedule in the text: when an operation runs, and where its results lie (`dialects/schedule.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute

from meshgen.ir.bridge import registries
from meshgen.ir.bridge.conversion import Exporter, Importer
from meshgen.ir.dialects.schedule import SCHED, BufferAttr, ItemAttr
from meshgen.ir.graph import Node


def read_slot(importer: Importer, node: Node, attribute: Attribute) -> None:
    """When an item runs."""
    if isinstance(attribute, ItemAttr):
        node.attrs["slot"] = attribute.data


def read_places(importer: Importer, node: Node, attribute: Attribute) -> None:
    """Where a node's results lie."""
    if isinstance(attribute, ArrayAttr):
        node.attrs["places"] = tuple(item.data for item in attribute if isinstance(item, BufferAttr))


def write_schedule(exporter: Exporter, node: Node) -> Mapping[str, Attribute]:
    """Slot and places of a node."""
    found: dict[str, Attribute] = {}
    if (slot := node.attrs.get("slot")) is not None:
        found["sched.item"] = ItemAttr(slot)
    if places := node.attrs.get("places"):
        found["sched.buffers"] = ArrayAttr(BufferAttr(place) for place in places)
    return found


registries.DIALECTS.append(SCHED)
registries.NODE_ATTRS["sched.item"] = read_slot
registries.NODE_ATTRS["sched.buffers"] = read_places
registries.NODE_ATTR_WRITERS.append(write_schedule)
