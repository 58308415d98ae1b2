"""The record `Dialect`: all tables through which a folder of `mlir/` extends the reader and the printer.

Each folder has such a record in `dialect.py`, merged from the `PART` records of its files. `families.py` lists the
folders. The reader and the printer look everything up in the merged record of all folders:

    part     Dialect(importers={"scf.if": import_if}, ...)      of a file
    family   merged(control.PART, parallel.PART)                of a folder
    all      merged(func.DIALECT, shard.DIALECT, ...)           `families.dialects`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import Module, Node, TensorType
from meshgen.mlir.operation_signature import Signature
from meshgen.mlir.text_operation import TextOperation
from meshgen.spec import Sharding

if TYPE_CHECKING:
    from meshgen.mlir.conversion import Importer
    from meshgen.mlir.printer import TextPrinter
    from meshgen.mlir.reader_state import Reading, Slot

ImportOp: TypeAlias = "Callable[[Importer, Operation], None]"
WriteNode: TypeAlias = "Callable[[TextPrinter, Node], str]"
OnModule: TypeAlias = "Callable[[Reading, Operation], None]"
ReadModuleAttr: TypeAlias = "Callable[[Reading, Attribute], None]"
ReadSlotAttr: TypeAlias = "Callable[[Reading, Attribute, Slot], None]"
WriteSlotAttrs: TypeAlias = "Callable[[Module, Sequence[Slot]], Sequence[Mapping[str, str]]]"
ReadNodeAttr: TypeAlias = "Callable[[Importer, Node, Attribute], None]"
WriteNodeAttrs: TypeAlias = "Callable[[TextPrinter, Node], Mapping[str, str]]"
ReadResultAttr: TypeAlias = "Callable[[Importer, Operation, Attribute], None]"
DecodeType: TypeAlias = "Callable[[Reading, Attribute, TensorType], Sharding]"
WholeAxes: TypeAlias = "Callable[[Reading, Operation], tuple[str, Sequence[str]]]"


@dataclass(frozen=True, eq=False, kw_only=True)
class Dialect:
    """Tables that define how dialects are read and printed, keyed by names of operations or attributes in the text."""

    operations: tuple[type[Operation], ...] = ()
    attributes: tuple[type[Attribute], ...] = ()

    signatures: Mapping[str, Signature] = field(default_factory=dict[str, Signature])
    """Operation name -> signature (operands, results, regions, properties), if its xDSL definition leaves these open.
    """
    importers: Mapping[str, ImportOp] = field(default_factory=dict[str, ImportOp])
    """Operation name -> function that adds nodes to the graph for the operation and binds its results."""
    self_contained: tuple[str, ...] = ()
    """Operations whose nodes and faults depend only on their types, properties and regions, not on their context."""
    verifiers: Mapping[str, OnModule] = field(default_factory=dict[str, OnModule])
    """Operation name -> function that checks the operation, in addition to its xDSL definition and type inference."""
    writers: Mapping[str, WriteNode] = field(default_factory=dict[str, WriteNode])
    """Name of a graph op (`Node.op`) -> function that prints a node."""

    module_ops: Mapping[str, OnModule] = field(default_factory=dict[str, OnModule])
    """Operation name -> function that reads a module-level declaration, for example of a mesh (`Reading.declare_mesh`).
    """
    module_op_writers: tuple[Callable[[Module], Sequence[str]], ...] = ()
    """Functions that return the module-level declarations to print in front of the function, such as meshes."""
    module_attrs: Mapping[str, ReadModuleAttr] = field(default_factory=dict[str, ReadModuleAttr])
    """Name of a module attribute -> function that reads it into `Reading.module`. Other module attributes are ignored.
    """
    module_attr_writers: tuple[Callable[[Module], Mapping[str, str]], ...] = ()

    mesh_finders: tuple[OnModule, ...] = ()
    """Functions that declare a mesh for a module without mesh declarations, if the shardings in it imply one."""
    device_finders: tuple[OnModule, ...] = ()
    """Functions that declare the devices that collectives name by id, in a module whose shardings do not imply a mesh.
    """
    mesh_settlers: tuple[OnModule, ...] = ()
    """Functions that run after all meshes are declared. They decide whether a mesh is independent of the other meshes
    or uses their devices.
    """
    rewriters: tuple[OnModule, ...] = ()
    """Functions that rewrite the operations of each function before conversion, into equivalent operations."""
    whole_axes: Mapping[str, WholeAxes] = field(default_factory=dict[str, WholeAxes])
    """Operation name -> function that returns a mesh and axes of it. The program's mesh must have these as full axes,
    not as
    sub-axes.
    """

    slot_attrs: Mapping[str, ReadSlotAttr] = field(default_factory=dict[str, ReadSlotAttr])
    """Name of an attribute of an argument or result -> function that reads it, usually with `reading.annotate(slot,
    annotation)`.
    """
    slot_attr_writers: tuple[WriteSlotAttrs, ...] = ()
    """Functions that return the attributes to print on each argument or on each result of the function."""
    node_attrs: Mapping[str, ReadNodeAttr] = field(default_factory=dict[str, ReadNodeAttr])
    """Name of a discardable attribute of an operation -> function that reads it into the node. Others are ignored."""
    node_attr_writers: tuple[WriteNodeAttrs, ...] = ()
    result_attrs: Mapping[str, ReadResultAttr] = field(default_factory=dict[str, ReadResultAttr])
    """Name of a discardable attribute -> function that is called after the import of each operation that has it, for
    example to annotate its results.
    """
    type_decoders: Mapping[str, DecodeType] = field(default_factory=dict[str, DecodeType])
    """Name of an attribute -> function that decodes it as the encoding of a tensor type, into a sharding."""

    def signature_of(self, operation: type[Operation]) -> Signature | None:
        """Return the signature that the tables have for an operation, or None if its xDSL definition is complete."""
        if issubclass(operation, TextOperation):
            return operation.signature
        return self.signatures.get(operation.name)

    def is_read(self, operation: str) -> bool:
        """Whether operations with the name of `operation` are supported, at module level or in a function."""
        return operation in self.importers or operation in self.module_ops

    @cached_property
    def context(self) -> Context:
        """Return an xDSL context with the operations and attributes of this record, and the dialects builtin and func."""
        context = Context()
        context.load_dialect(builtin.Builtin)
        context.load_dialect(func.Func)
        for operation in self.operations:
            context.load_op(operation)
        for attribute in self.attributes:
            context.load_attr_or_type(attribute)
        return context


def merged(*parts: Dialect) -> Dialect:
    """Merge several `Dialect` records into one, in order. Raises ValueError if two of them define the same name."""
    return Dialect(
        **{
            table.name: _merged_tables(table.name, [getattr(part, table.name) for part in parts])
            for table in fields(Dialect)
        }
    )


def _merged_tables(field_name: str, tables: Sequence[Any]) -> Any:
    """Merge the values of one field of several records: concatenate tuples, or merge dicts."""
    if isinstance(tables[0], tuple):
        return tuple(chain.from_iterable(tables))
    union: dict[str, Any] = {}
    for table in tables:
        if duplicates := union.keys() & table.keys():
            raise ValueError(f"{field_name}: {', '.join(sorted(duplicates))} defined twice")
        union |= table
    return union
