"""What a family of dialects contributes to reading and printing, as one record.

Each folder has its own in `dialect.py`, merged from the parts that its files define (`PART`); `families.py` lists
them. What the reader and the printer look up is all of them merged:

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
    """Tables of a family of dialects. Names are those in the text: of operations, or of attributes."""

    operations: tuple[type[Operation], ...] = ()
    attributes: tuple[type[Attribute], ...] = ()

    signatures: Mapping[str, Signature] = field(default_factory=dict[str, Signature])
    """By operation: operands, results, regions and properties, where its definition in xDSL leaves them open."""
    importers: Mapping[str, ImportOp] = field(default_factory=dict[str, ImportOp])
    """By operation: adds its nodes and binds its results."""
    self_contained: tuple[str, ...] = ()
    """Operations whose nodes and faults follow from their types, properties and regions alone, not from what is around them."""
    verifiers: Mapping[str, OnModule] = field(default_factory=dict[str, OnModule])
    """By operation: faults beyond its definition in xDSL and the types of its nodes."""
    writers: Mapping[str, WriteNode] = field(default_factory=dict[str, WriteNode])
    """By `Node.op`: the text of a node."""

    module_ops: Mapping[str, OnModule] = field(default_factory=dict[str, OnModule])
    """By operation: reads a declaration at module level, for example of a mesh (`Reading.declare_mesh`)."""
    module_op_writers: tuple[Callable[[Module], Sequence[str]], ...] = ()
    """The declarations to print before the function."""
    module_attrs: Mapping[str, ReadModuleAttr] = field(default_factory=dict[str, ReadModuleAttr])
    """By attribute of the module operation: reads it into `Reading.module`; unknown ones are ignored."""
    module_attr_writers: tuple[Callable[[Module], Mapping[str, str]], ...] = ()

    mesh_finders: tuple[OnModule, ...] = ()
    """Called for a module that declares no mesh: each declares the one that its shardings imply."""
    device_finders: tuple[OnModule, ...] = ()
    """Called for a module whose shardings imply no mesh either: each declares the devices that its operations refer to."""
    mesh_settlers: tuple[OnModule, ...] = ()
    """Called when all meshes are declared: each decides by the program's uses which of them have devices of their own."""
    rewriters: tuple[OnModule, ...] = ()
    """Called for each function before it is converted: they replace operations by others that mean the same."""
    whole_axes: Mapping[str, WholeAxes] = field(default_factory=dict[str, WholeAxes])
    """By operation: the mesh that it names, and those of its axes that are not sub-axes of the program's mesh."""

    slot_attrs: Mapping[str, ReadSlotAttr] = field(default_factory=dict[str, ReadSlotAttr])
    """By attribute of an argument or result: reads it, usually with `reading.annotate(slot, annotation)`."""
    slot_attr_writers: tuple[WriteSlotAttrs, ...] = ()
    """The attributes of all arguments, or of all results."""
    node_attrs: Mapping[str, ReadNodeAttr] = field(default_factory=dict[str, ReadNodeAttr])
    """By discardable attribute of an operation: reads it into its node; unknown ones are ignored."""
    node_attr_writers: tuple[WriteNodeAttrs, ...] = ()
    result_attrs: Mapping[str, ReadResultAttr] = field(default_factory=dict[str, ReadResultAttr])
    """By discardable attribute: called when an operation that has it was imported, for example to annotate its results."""
    type_decoders: Mapping[str, DecodeType] = field(default_factory=dict[str, DecodeType])
    """By attribute: reads the encoding of a tensor type."""

    def signature_of(self, operation: type[Operation]) -> Signature | None:
        """The signature of an operation; None where its definition in xDSL leaves nothing open."""
        if issubclass(operation, TextOperation):
            return operation.signature
        return self.signatures.get(operation.name)

    def is_read(self, operation: str) -> bool:
        """Whether an operation of this name means something, at module level or in a function."""
        return operation in self.importers or operation in self.module_ops

    @cached_property
    def context(self) -> Context:
        """xDSL's context with these operations and attributes, and those of builtin and func."""
        context = Context()
        context.load_dialect(builtin.Builtin)
        context.load_dialect(func.Func)
        for operation in self.operations:
            context.load_op(operation)
        for attribute in self.attributes:
            context.load_attr_or_type(attribute)
        return context


def merged(*parts: Dialect) -> Dialect:
    """All parts as one, in order. Raises ValueError for a name that two of them define."""
    return Dialect(
        **{
            each.name: _merged_tables(each.name, [getattr(part, each.name) for part in parts])
            for each in fields(Dialect)
        }
    )


def _merged_tables(what: str, tables: Sequence[Any]) -> Any:
    """Tuples or mappings as one."""
    if isinstance(tables[0], tuple):
        return tuple(chain.from_iterable(tables))
    found: dict[str, Any] = {}
    for table in tables:
        if twice := found.keys() & table.keys():
            raise ValueError(f"{what}: {', '.join(sorted(twice))} defined twice")
        found |= table
    return found
