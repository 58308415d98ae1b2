"""The record of everything that a family of dialects adds to the reader and the printer.

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
    from meshgen.mlir.reading import Reading, Slot

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
    """Tables of a family of dialects, keyed by the names of operations or attributes in the text."""

    operations: tuple[type[Operation], ...] = ()
    attributes: tuple[type[Attribute], ...] = ()

    signatures: Mapping[str, Signature] = field(default_factory=dict[str, Signature])
    """Operation name -> operands, results, regions and properties, for operations whose xDSL definition does not fix
    them.
    """
    importers: Mapping[str, ImportOp] = field(default_factory=dict[str, ImportOp])
    """Operation name -> function that adds the nodes of the operation and binds its results."""
    self_contained: tuple[str, ...] = ()
    """Operations whose nodes and faults depend only on their own types, properties and regions, not on their context.
    """
    verifiers: Mapping[str, OnModule] = field(default_factory=dict[str, OnModule])
    """Operation name -> additional checks, beyond its xDSL definition and type inference."""
    writers: Mapping[str, WriteNode] = field(default_factory=dict[str, WriteNode])
    """`Node.op` -> function that prints a node."""

    module_ops: Mapping[str, OnModule] = field(default_factory=dict[str, OnModule])
    """Operation name -> function that reads a module-level declaration, for example of a mesh (`Reading.declare_mesh`).
    """
    module_op_writers: tuple[Callable[[Module], Sequence[str]], ...] = ()
    """Functions that print the module-level declarations in front of the function."""
    module_attrs: Mapping[str, ReadModuleAttr] = field(default_factory=dict[str, ReadModuleAttr])
    """Name of a module attribute -> function that reads it into `Reading.module`. Unknown attributes are ignored."""
    module_attr_writers: tuple[Callable[[Module], Mapping[str, str]], ...] = ()

    mesh_finders: tuple[OnModule, ...] = ()
    """Functions that declare the mesh implied by the shardings of a module without mesh declarations."""
    device_finders: tuple[OnModule, ...] = ()
    """Functions that declare the devices that operations refer to, in a module whose shardings do not imply a mesh."""
    mesh_settlers: tuple[OnModule, ...] = ()
    """Functions that run after all meshes are declared and decide, by their uses, which meshes have devices of their
    own.
    """
    rewriters: tuple[OnModule, ...] = ()
    """Functions that rewrite the operations of each function into equivalent ones before conversion."""
    whole_axes: Mapping[str, WholeAxes] = field(default_factory=dict[str, WholeAxes])
    """Operation name -> the mesh that the operation names, and its axes that must be full axes of the program's mesh,
    not sub-axes.
    """

    slot_attrs: Mapping[str, ReadSlotAttr] = field(default_factory=dict[str, ReadSlotAttr])
    """Attribute of an argument or result -> function that reads it, usually with `reading.annotate(slot, annotation)`.
    """
    slot_attr_writers: tuple[WriteSlotAttrs, ...] = ()
    """Functions that return the attributes to print on all arguments, or on all results."""
    node_attrs: Mapping[str, ReadNodeAttr] = field(default_factory=dict[str, ReadNodeAttr])
    """Discardable attribute of an operation -> function that reads it into the node. Unknown attributes are ignored."""
    node_attr_writers: tuple[WriteNodeAttrs, ...] = ()
    result_attrs: Mapping[str, ReadResultAttr] = field(default_factory=dict[str, ReadResultAttr])
    """Discardable attribute -> function called after the import of an operation that has it, for example to annotate
    results.
    """
    type_decoders: Mapping[str, DecodeType] = field(default_factory=dict[str, DecodeType])
    """Name of an encoding attribute -> function that decodes the encoding of a tensor type."""

    def signature_of(self, operation: type[Operation]) -> Signature | None:
        """Return the signature of an operation, or None if its xDSL definition is complete."""
        if issubclass(operation, TextOperation):
            return operation.signature
        return self.signatures.get(operation.name)

    def is_read(self, operation: str) -> bool:
        """Whether operations of this name are supported, at module level or in a function."""
        return operation in self.importers or operation in self.module_ops

    @cached_property
    def context(self) -> Context:
        """Return an xDSL context that contains these operations and attributes, and the dialects builtin and func."""
        context = Context()
        context.load_dialect(builtin.Builtin)
        context.load_dialect(func.Func)
        for operation in self.operations:
            context.load_op(operation)
        for attribute in self.attributes:
            context.load_attr_or_type(attribute)
        return context


def merged(*parts: Dialect) -> Dialect:
    """Merge several records into one, in order. Raises ValueError if two of them define the same name."""
    return Dialect(
        **{
            table.name: _merged_tables(table.name, [getattr(part, table.name) for part in parts])
            for table in fields(Dialect)
        }
    )


def _merged_tables(field_name: str, tables: Sequence[Any]) -> Any:
    """Concatenate tuples, or merge mappings."""
    if isinstance(tables[0], tuple):
        return tuple(chain.from_iterable(tables))
    union: dict[str, Any] = {}
    for table in tables:
        if duplicates := union.keys() & table.keys():
            raise ValueError(f"{field_name}: {', '.join(sorted(duplicates))} defined twice")
        union |= table
    return union
