"""Registries that dialect modules fill on import: conversions of operations to nodes, and of nodes to operations.

Further registries: declarations and attributes of the module, attributes of arguments,
results and operations, encodings of tensor types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xdsl.ir import Attribute, Dialect, Operation

from meshgen.ir.graph import (
    Module,
    Node,
    TensorType,
)
from meshgen.mesh import Mesh
from meshgen.spec import Sharding

if TYPE_CHECKING:
    from meshgen.mlir.conversion import Exporter, Importer
    from meshgen.mlir.reading import Reading, Slot

DIALECTS: list[Dialect] = []
"""The dialects besides builtin and func; `families.py` imports the modules that add to it."""
IMPORTERS: dict[str, Callable[[Importer, Operation], None]] = {}
"""By MLIR operation name: adds the nodes of an operation and binds its results."""
VERIFIERS: dict[str, Callable[[Reading, Operation], None]] = {}
"""By MLIR operation name: faults of an operation beyond its definition in xDSL and the types of its nodes."""
EXPORTERS: dict[str, Callable[[Exporter, Node], Operation]] = {}
"""By `Node.op`: the operation of a node; its results are bound, named and decorated by the caller."""

CALL_FAULTS: list[Callable[[str], tuple[str, str] | None]] = []
"""Called with the target of a custom call: its fault and a hint, or None."""
MODULE_OPS: dict[str, Callable[[Reading, Operation], None]] = {}
"""By MLIR operation name: reads a declaration at module level, for example of a mesh (`Reading.declare_mesh`)."""
MESH_FINDERS: list[Callable[[Reading, Operation], None]] = []
"""Called for a module that declares no mesh: declares the one that its shardings imply."""
DEVICE_FINDERS: list[Callable[[Reading, Operation], None]] = []
"""Called for a module whose shardings imply no mesh either: declares the devices that its operations refer to."""
MESH_SETTLERS: list[Callable[[Reading, Operation], None]] = []
"""Called when all meshes are declared: decides by the program's uses which of them have devices of their own."""
WHOLE_AXES: dict[str, Callable[[Operation], tuple[str, Sequence[str]]]] = {}
"""By MLIR operation name: the mesh that an operation names, and those of its axes that are not sub-axes of the program's mesh."""
MODULE_HEAD: list[Callable[[Module], Sequence[Operation]]] = []
"""The declarations to print before the function."""
MODULE_ATTRS: dict[str, Callable[[Reading, Attribute], None]] = {}
"""By name: reads an attribute of the module operation into `Reading.module`; unknown ones are ignored."""
MODULE_ATTR_WRITERS: list[Callable[[Module], Mapping[str, Attribute]]] = []

SlotReader: TypeAlias = "Callable[[Reading, Attribute, Slot], None]"
ARG_ATTRS: dict[str, SlotReader] = {}
"""By name: reads an attribute of an argument or result, usually `reading.annotate(slot, annotation)`."""
ARG_ATTR_WRITERS: list[Callable[[Module, Sequence[Slot]], Sequence[Mapping[str, Attribute]]]] = []
"""The attributes of all arguments, or of all results."""
NODE_ATTRS: dict[str, Callable[[Importer, Node, Attribute], None]] = {}
"""By name: reads a discardable attribute of an operation into its node; unknown ones are ignored."""
NODE_ATTR_WRITERS: list[Callable[[Exporter, Node], Mapping[str, Attribute]]] = []
RESULT_ATTRS: dict[str, Callable[[Importer, Operation, Attribute], None]] = {}
"""By name: called when an operation that has the attribute was imported, for example to annotate its results."""
TYPE_DECODERS: dict[str, Callable[[Reading, Attribute, TensorType], Sharding]] = {}
"""By attribute name: reads the encoding of a tensor type."""
TYPE_ENCODERS: list[Callable[[Sharding, Mesh], Attribute]] = []
"""The last one prints `Value.sharding` as the encoding of a tensor type."""


def imports(*names: str) -> Callable[[Callable[[Importer, Operation], None]], Callable[[Importer, Operation], None]]:
    """Register a function as the importer of the MLIR operations `names`."""

    def register(function: Callable[[Importer, Operation], None]) -> Callable[[Importer, Operation], None]:
        IMPORTERS.update(dict.fromkeys(names, function))
        return function

    return register


def verifies(*names: str) -> Callable[[Callable[[Reading, Operation], None]], Callable[[Reading, Operation], None]]:
    """Register a function as the verifier of the MLIR operations `names`, before any operation is converted."""

    def register(function: Callable[[Reading, Operation], None]) -> Callable[[Reading, Operation], None]:
        VERIFIERS.update(dict.fromkeys(names, function))
        return function

    return register


def exports(*ops: str) -> Callable[[Callable[[Exporter, Node], Operation]], Callable[[Exporter, Node], Operation]]:
    """Register a function as the exporter of nodes whose `op` is one of `ops`."""

    def register(function: Callable[[Exporter, Node], Operation]) -> Callable[[Exporter, Node], Operation]:
        EXPORTERS.update(dict.fromkeys(ops, function))
        return function

    return register
