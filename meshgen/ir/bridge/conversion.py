"""From xDSL functions to graphs and back: the registries that dialects fill, and the state of one conversion.

A dialect module registers, when it is imported, how its operations become nodes (`@imports`) and which
nodes it can print (`@exports`). Further registries hold what stands beside the operations: declarations
and attributes of the module, attributes of arguments, results and operations, encodings of tensor types.
`bridge/module.py` runs the conversion of a whole module.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from meshgen.errors import Diagnostic, Location
from meshgen.ir.dense import COMPLEX_NAMES
from meshgen.ir.graph import (
    DTYPES,
    STAGES,
    Annotation,
    Graph,
    Module,
    Node,
    TensorType,
    Value,
    is_complex,
)
from meshgen.ir.shared_devices import refs_over, shared_devices
from meshgen.mesh import DEFAULT_NAME, Mesh
from meshgen.spec import Sharding

DIALECTS: list[Dialect] = []
"""What the text may hold beside builtin and func; `ir/text.py` imports the modules that add to it."""
IMPORTERS: dict[str, Callable[[Importer, Operation], None]] = {}
"""By MLIR operation name: adds the nodes of an operation and binds its results."""
EXPORTERS: dict[str, Callable[[Exporter, Node], Operation]] = {}
"""By `Node.op`: the operation of a node; its results are bound, named and decorated by the caller."""

MODULE_OPS: dict[str, Callable[[Reading, Operation], None]] = {}
"""By MLIR operation name: reads a declaration at module level, for example of a mesh (`Reading.declare_mesh`)."""
MESH_FINDERS: list[Callable[[Reading, Operation], None]] = []
"""Called for a module that declares no mesh: declares the one that its shardings say."""
MODULE_HEAD: list[Callable[[Module], Sequence[Operation]]] = []
"""The declarations to print before the function."""
MODULE_ATTRS: dict[str, Callable[[Reading, Attribute], None]] = {}
"""By name: reads an attribute of the module operation into `Reading.module`; unknown ones are ignored."""
MODULE_ATTR_WRITERS: list[Callable[[Module], Mapping[str, Attribute]]] = []

ARG_ATTRS: dict[str, Callable[[Reading, Attribute, Slot], None]] = {}
"""By name: reads an attribute of an argument or result, usually `reading.annotate(slot, annotation)`."""
ARG_ATTR_WRITERS: list[Callable[[Module, Slot], Mapping[str, Attribute]]] = []
NODE_ATTRS: dict[str, Callable[[Importer, Node, Attribute], None]] = {}
"""By name: reads a discardable attribute of an operation into its node; unknown ones are ignored."""
NODE_ATTR_WRITERS: list[Callable[[Exporter, Node], Mapping[str, Attribute]]] = []
RESULT_ATTRS: dict[str, Callable[[Importer, Operation, Attribute], None]] = {}
"""By name: called when an operation that has the attribute was imported, for example to annotate its results."""
TYPE_DECODERS: dict[str, Callable[[Reading, Attribute, TensorType], Sharding]] = {}
"""By attribute name: reads the encoding of a tensor type."""
TYPE_ENCODERS: list[Callable[[Sharding, Mesh], Attribute]] = []
"""The last one prints `Value.sharding` as the encoding of a tensor type."""

NO_MESH = Mesh(())


def imports(*names: str) -> Callable[[Callable[[Importer, Operation], None]], Callable[[Importer, Operation], None]]:
    """Register a function as the importer of the MLIR operations `names`."""

    def register(function: Callable[[Importer, Operation], None]) -> Callable[[Importer, Operation], None]:
        IMPORTERS.update(dict.fromkeys(names, function))
        return function

    return register


def exports(*ops: str) -> Callable[[Callable[[Exporter, Node], Operation]], Callable[[Exporter, Node], Operation]]:
    """Register a function as the exporter of nodes whose `op` is one of `ops`."""

    def register(function: Callable[[Exporter, Node], Operation]) -> Callable[[Exporter, Node], Operation]:
        EXPORTERS.update(dict.fromkeys(ops, function))
        return function

    return register


@dataclass(frozen=True)
class Slot:
    """One argument (`side` is "in") or result ("out") of the function that becomes `Module.graph`."""

    side: str
    index: int
    type: TensorType
    loc: Location | None = None


@dataclass(frozen=True)
class Source:
    """What the text says beyond the IR: where operations and arguments stand and what values are called."""

    locate: Callable[[Operation | SSAValue], Location | None] = lambda _: None
    name: Callable[[SSAValue], str] = lambda value: value.name_hint or ""


@dataclass
class Reading:
    """State of reading one module: the module so far, its meshes, and all faults found."""

    source: Source
    module: Module = field(default_factory=lambda: Module(NO_MESH, Graph("main")))
    meshes: dict[str, Mesh] = field(default_factory=dict[str, Mesh])
    parents: dict[str, str] = field(default_factory=dict[str, str])  # of meshes that are a part of another
    devices: dict[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])  # of meshes that say them
    guests: frozenset[str] = frozenset()  # meshes over the devices of another one, under other axes
    refused: dict[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])  # meshes that nothing may be on
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])
    given: Sequence[Mesh] = ()  # what the user said of the meshes
    is_part: bool = False  # whether it is the program of one mesh among several
    _types: dict[Attribute, tuple[TensorType, Attribute | None]] = field(
        default_factory=dict[Attribute, tuple[TensorType, Attribute | None]]
    )

    def fault(self, code: str, message: str, source: Operation | SSAValue | None, hint: str = "") -> None:
        """Collect a fault; all are reported together when the module has been read."""
        loc = None if source is None else self.source.locate(source)
        self.faults.append(Diagnostic(code, message, loc, hint=hint))

    def declare_mesh(self, symbol: str, mesh: Mesh, source: Operation) -> None:
        """Add a mesh, with sizes that it leaves open from the user.

        The first one with axes is that of what names none. One without axes is only known by name.
        """
        for given in self.given:
            is_meant = given.name in (symbol, DEFAULT_NAME) and set(given.names) <= set(mesh.names)
            if is_meant and not mesh.is_static:
                mesh = replace(mesh.completed(given), name=mesh.name)
        if symbol in self.meshes:
            self.fault(
                "MG0201", f"@{symbol} is declared twice", source, "declare each mesh once, or give it another name"
            )
        self.meshes[symbol] = mesh
        if not self.module.mesh.axes:
            self.module.mesh = mesh

    @property
    def distinct(self) -> tuple[Mesh, ...]:
        """The meshes that have devices of their own: not those that are a part of another."""
        return tuple(
            mesh for symbol, mesh in self.meshes.items() if mesh.axes and symbol and symbol not in self.parents
        )

    def on(self, symbol: str, sharding: Sharding) -> Sharding:
        """The sharding with the mesh that it is over, where a program that is not in parts declares several."""
        if not self.is_on_several:
            return sharding
        mesh = self.whole(symbol)
        return replace(sharding, mesh=mesh.name) if mesh else sharding

    def share_devices(self, partitions: int | None) -> None:
        """Take meshes over the same devices as one; `partitions` is how many the program says that it runs on."""
        devices = {
            symbol: self.devices.get(symbol, range(mesh.size))
            for symbol, mesh in self.meshes.items()
            if symbol and mesh.is_static and (symbol in self.devices or mesh.size == partitions)
        }
        hosts, self.refused = shared_devices(self.meshes, devices)
        self.parents |= hosts
        self.guests = frozenset(hosts)
        if (host := hosts.get(self.module.mesh.name)) is not None:
            self.module.mesh = self.meshes[host]

    def axes(self, symbol: str, refs: Sequence[str]) -> tuple[str, ...]:
        """Axes as a sharding over the mesh of this name has them: those of the mesh whose devices it shares."""
        if symbol not in self.guests:
            return tuple(refs)
        return refs_over(self.meshes[self.parents[symbol]], self.meshes[symbol], refs)

    @property
    def is_on_several(self) -> bool:
        """Whether values may be on one mesh or another."""
        return not self.is_part and self.module.stage in ("import", "materialize") and len(self.distinct) > 1

    def whole(self, symbol: str) -> Mesh | None:
        """The mesh of this name, or of which it names a part."""
        while symbol in self.parents:
            symbol = self.parents[symbol]
        return self.meshes.get(symbol)

    def mesh_of(self, sharding: Sharding) -> Mesh:
        """The mesh that a sharding is over."""
        return self.meshes.get(sharding.mesh, self.module.mesh) if sharding.mesh else self.module.mesh

    @contextmanager
    def over(self, default: Mesh) -> Generator[None]:
        """Inside, what names no mesh is over this one; where it is a part of another, its axes are the whole one's."""
        outer = self.module.mesh, self.meshes.get("", self.module.mesh)
        self.module.mesh, self.meshes[""] = self.whole(default.name) or default, default
        try:
            yield
        finally:
            self.module.mesh, self.meshes[""] = outer

    def annotate(self, slot: Slot, annotation: Annotation) -> None:
        """Set the annotation of an argument or result; a sharding that does not fit is a fault."""
        is_local = STAGES.index(self.module.stage) >= STAGES.index("partition")  # the annotation is of the global value
        shape = (None,) * slot.type.rank if is_local else slot.type.shape
        for found in annotation.sharding.faults(shape, self.mesh_of(annotation.sharding)):
            place = "argument" if slot.side == "in" else "result"
            message = f"{place} {slot.index} ({slot.type}): {found.message}"
            self.faults.append(Diagnostic(found.code, message, slot.loc, hint=found.hint))
        table = self.module.in_annotations if slot.side == "in" else self.module.out_annotations
        table[slot.index] = annotation

    def type(self, attribute: Attribute, source: Operation | SSAValue | None = None) -> TensorType:
        """The tensor type of an xDSL type; a scalar is a 0-d tensor, an index an i64. Collects a fault at `source` for others."""
        return self._decoded(attribute, source)[0]

    def sharding(self, attribute: Attribute) -> Sharding | None:
        """The sharding that a tensor type carries as its encoding."""
        kind, encoding = self._decoded(attribute)
        if encoding is None:
            return None
        return TYPE_DECODERS[encoding.name](self, encoding, kind)

    def _decoded(
        self, attribute: Attribute, source: Operation | SSAValue | None = None
    ) -> tuple[TensorType, Attribute | None]:
        if (found := self._types.get(attribute)) is None:
            found = self._types[attribute] = self._decode(attribute, source)
        return found

    def _decode(self, attribute: Attribute, source: Operation | SSAValue | None) -> tuple[TensorType, Attribute | None]:
        is_tensor = isinstance(attribute, builtin.TensorType)
        element = attribute.element_type if is_tensor else attribute
        name = "i64" if isinstance(element, builtin.IndexType) else str(element)
        dtype = COMPLEX_NAMES.get(name, name)
        shape = tuple(None if size < 0 else size for size in attribute.get_shape()) if is_tensor else ()
        if dtype not in DTYPES:
            self.fault("MG0103", f"type {attribute} is not supported", source, f"element types: {', '.join(DTYPES)}")
            return TensorType(shape, "f32"), None
        encoding = attribute.encoding if is_tensor else None
        if encoding is None or encoding.name not in TYPE_DECODERS:
            return TensorType(shape, dtype), None
        return TensorType(shape, dtype), encoding


class Importer:
    """Conversion of one function body, or of one region of an operation, into a graph.

    A region may use values from outside; they become further inputs of its graph, in order of their first
    use, and `captures` lists them.
    """

    def __init__(self, reading: Reading, graph: Graph, outer: Importer | None = None) -> None:
        self.reading = reading
        self.graph = graph
        self.captures: list[SSAValue] = []
        self.outer = outer
        self._values: dict[SSAValue, Value] = {}

    def value(self, ssa: SSAValue) -> Value:
        """The graph's value of an SSA value."""
        if (found := self._values.get(ssa)) is not None:
            return found
        if self.outer is None:  # the parser lets a value be used before its definition
            self.reading.fault("MG0104", "the value is used before it is defined here", ssa)
            found = self._values[ssa] = Value(self.type(ssa))
            return found
        outside = self.outer.value(ssa)
        self.captures.append(ssa)
        inner = self._values[ssa] = Value(outside.type, outside.name, outside.sharding, outside.loc)
        return inner

    def values(self, ssa: Sequence[SSAValue]) -> list[Value]:
        return [self.value(each) for each in ssa]

    def bind(self, ssa: SSAValue, value: Value) -> None:
        """Let an SSA value mean `value`, which takes its name and its sharding if it has none."""
        self._values[ssa] = value
        value.sharding = value.sharding or self.reading.sharding(ssa.type)
        value.name = value.name or self.reading.source.name(ssa)

    def type(self, ssa: SSAValue) -> TensorType:
        return self.reading.type(ssa.type, ssa)

    def fault(self, code: str, message: str, source: Operation, hint: str = "") -> None:
        """Collect a fault at `source`; all are reported together."""
        self.reading.fault(code, message, source, hint)

    def emit(self, op: str, operands: Sequence[Value], types: Sequence[TensorType], attrs: Mapping[str, Any],
             source: Operation, regions: tuple[Graph, ...] = ()) -> list[Value]:  # fmt: skip
        """Add a node with the location and the discardable attributes of `source`; binds nothing."""
        node = self.graph.add(op, operands, types, attrs, loc=self.reading.source.locate(source))
        node.regions = regions
        for name, attribute in source.attributes.items():
            if (reader := NODE_ATTRS.get(name)) is not None:
                reader(self, node, attribute)
        return node.results

    def convert(self, source: Operation, op: str, attrs: Mapping[str, Any] | None = None, *,
                operands: Sequence[SSAValue] | None = None, regions: tuple[Graph, ...] = ()) -> Node:  # fmt: skip
        """One node for one operation: emit with its operands and result types, and bind its results."""
        arguments = self.values(source.operands if operands is None else operands)
        types = [self.type(result) for result in source.results]
        for result, value in zip(
            source.results, self.emit(op, arguments, types, attrs or {}, source, regions), strict=True
        ):
            self.bind(result, value)
        return self.graph.nodes[-1]

    def region(self, region: Region) -> tuple[Graph, list[SSAValue]]:
        """The graph of a region of one block, and what it uses from outside (its last inputs)."""
        inner = Importer(self.reading, Graph(""), self)
        inner.body(region.block)
        inner.graph.inputs += [inner.value(ssa) for ssa in inner.captures]
        return inner.graph, inner.captures

    def body(self, block: Block) -> None:
        """Convert a block: its arguments, operations, and the operands of its terminator as outputs."""
        for argument in block.args:
            value = Value(self.type(argument), loc=self.reading.source.locate(argument))
            self.bind(argument, value)
            self.graph.inputs.append(value)
        if block.last_op is None or not block.last_op.has_trait(IsTerminator):
            self.reading.fault("MG0104", "the body does not end with a return", block.last_op or block.parent_op())
            return
        *operations, terminator = block.ops
        for operation in operations:
            with self._on_mesh_of(operation):
                IMPORTERS[operation.name](self, operation)
                for name, attribute in operation.attributes.items():
                    if (reader := RESULT_ATTRS.get(name)) is not None:
                        reader(self, operation, attribute)
        self.graph.outputs = self.values(terminator.operands)

    def _on_mesh_of(self, operation: Operation) -> AbstractContextManager[None]:
        """Where types say on which of several meshes values are, the operation is on that of its results, else operands."""
        if not self.reading.is_on_several:
            return nullcontext()
        types = (value.type for value in (*operation.results, *operation.operands))
        found = (self.reading.sharding(type) for type in types if isinstance(type, builtin.TensorType))
        named = next((sharding for sharding in found if sharding and sharding.mesh), None)
        return self.reading.over(self.reading.mesh_of(named)) if named else nullcontext()


class Exporter:
    """Conversion of graphs into operations. `names` holds the name that each SSA value should print as."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.mesh = module.mesh  # of what names none
        self.names: dict[SSAValue, str] = {}
        self._before: list[Operation] = []
        self._values: dict[Value, SSAValue] = {}
        self._types: dict[tuple[TensorType, Sharding | None], builtin.TensorType[Any]] = {}

    def mesh_of(self, sharding: Sharding) -> Mesh:
        """The mesh that a sharding is over."""
        return next((mesh for mesh in self.module.meshes if mesh.name == sharding.mesh), self.mesh)

    @contextmanager
    def over(self, mesh: Mesh) -> Generator[None]:
        """Inside, what names no mesh is over this one."""
        outer, self.mesh = self.mesh, mesh
        try:
            yield
        finally:
            self.mesh = outer

    def ssa(self, value: Value) -> SSAValue:
        """The SSA value of a graph's value."""
        return self._values[value]

    def operands(self, node: Node) -> list[SSAValue]:
        return [self._values[value] for value in node.operands]

    def bind(self, value: Value, ssa: SSAValue) -> None:
        self._values[value] = ssa
        self.names[ssa] = value.name

    def type(self, value: Value) -> builtin.TensorType[Any]:
        """The tensor type of a value; it carries the value's sharding, where there is one."""
        return self.tensor(value.type, value.sharding)

    def types(self, values: Sequence[Value]) -> list[builtin.TensorType[Any]]:
        return [self.type(value) for value in values]

    def tensor(self, kind: TensorType, sharding: Sharding | None = None) -> builtin.TensorType[Any]:
        """The xDSL type of a tensor."""
        if (found := self._types.get((kind, sharding))) is None:
            shape = [builtin.DYNAMIC_INDEX if size is None else size for size in kind.shape]
            encoding = TYPE_ENCODERS[-1](sharding, self.mesh) if sharding and TYPE_ENCODERS else None
            found = builtin.TensorType(element_type(kind.dtype), shape, encoding or builtin.NoneAttr())
            self._types[kind, sharding] = found
        return found

    def before(self, operation: Operation) -> None:
        """Put an operation before the one that is being exported."""
        self._before.append(operation)

    def operations(self, node: Node) -> list[Operation]:
        """The operation of a node, its results bound and its discardable attributes written, after what it needs."""
        with self.over(self._mesh_of_node(node)):
            operation = EXPORTERS[node.op](self, node)
            for writer in NODE_ATTR_WRITERS:
                operation.attributes.update(writer(self, node))
        for value, ssa in zip(node.results, operation.results, strict=True):
            self.bind(value, ssa)
        found = [*self._before, operation]
        self._before.clear()
        return found

    def _mesh_of_node(self, node: Node) -> Mesh:
        """Where values say on which of several meshes they are, that of the results, else of the operands."""
        shardings = (value.sharding for value in (*node.results, *node.operands)) if self.module.meshes else ()
        return self.mesh_of(next((each for each in shardings if each and each.mesh), Sharding(())))

    def block(self, graph: Graph, terminator: type[Operation], outside: Sequence[SSAValue] | None = None) -> Block:
        """The block of a graph, closed by `terminator` over its outputs.

        Its inputs are the arguments of the block, or the values `outside` where the block is to have none.
        """
        block = Block(arg_types=self.types(graph.inputs) if outside is None else ())
        if outside is not None:
            self._values.update(zip(graph.inputs, outside, strict=True))
        for value, argument in zip(graph.inputs, block.args, strict=False):
            self.bind(value, argument)
        for node in graph.nodes:
            block.add_ops(self.operations(node))
        block.add_op(terminator.create(operands=[self.ssa(value) for value in graph.outputs]))
        return block


def element_type(dtype: str) -> Attribute:
    """The xDSL element type of a dtype name."""
    if is_complex(dtype):
        return builtin.ComplexType(builtin.f32 if dtype == "c64" else builtin.f64)
    floats: dict[str, Attribute] = {
        "f16": builtin.f16, "f32": builtin.f32, "f64": builtin.f64, "bf16": builtin.bf16,
        "f8E4M3FN": builtin.Float8E4M3FNType(), "f8E5M2": builtin.Float8E5M2Type(),
        "f8E4M3": builtin.Float8E4M3Type(), "f8E3M4": builtin.Float8E3M4Type(),
        "f8E4M3FNUZ": builtin.Float8E4M3FNUZType(), "f8E5M2FNUZ": builtin.Float8E5M2FNUZType(),
        "f8E4M3B11FNUZ": builtin.Float8E4M3B11FNUZType(), "f8E8M0FNU": builtin.Float8E8M0FNUType(),
    }  # fmt: skip
    if dtype in floats:
        return floats[dtype]
    unsigned = dtype.startswith("u")
    signedness = builtin.Signedness.UNSIGNED if unsigned else builtin.Signedness.SIGNLESS
    return builtin.IntegerType(int(dtype[1 + unsigned :]), signedness)
