"""The state of reading one module from xDSL: its meshes, types, annotations, and all faults found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, SSAValue

from meshgen.errors import Diagnostic, Location
from meshgen.ir.graph import DTYPES, STAGES, TOKEN, Annotation, Graph, Module, TensorType
from meshgen.ir.partial_kinds import kind_faults
from meshgen.ir.shared_devices import places_in, refined, refs_over, shared_devices
from meshgen.mesh import DEFAULT_NAME, Mesh, split_ref
from meshgen.mlir.dense import COMPLEX_NAMES
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.recipes import Recipe
from meshgen.spec import Sharding

NO_MESH = Mesh(())
_Decoded: TypeAlias = "tuple[TensorType, Attribute | None]"
_TYPE_HINTS = {
    "tuple": "a tuple is read where stablehlo.get_tuple_element takes apart what stablehlo.tuple has made in the same region: "
    "give its elements one by one",
    "stablehlo.future": "stablehlo.async_start needs its stablehlo.async_done in the same region",
}


@dataclass(frozen=True)
class Slot:
    """One argument (`side` is "in") or result ("out") of the function that becomes `Module.graph`."""

    side: str
    index: int
    type: TensorType
    loc: Location | None = None


@dataclass(frozen=True)
class Source:
    """What the text says beyond the IR: where operations and arguments stand and what values are called.

    `like` gives the operation before one that is the same but for the values, where the text tells.
    """

    locate: Callable[[Operation | SSAValue], Location | None] = lambda _: None
    name: Callable[[SSAValue], str] = lambda value: value.name_hint or ""
    like: Callable[[Operation], Operation | None] = lambda _: None

    def with_origins(self, operations: Mapping[Operation, Operation], values: Mapping[SSAValue, SSAValue]) -> Source:
        """The source in which operations and values that the text does not have stand for those that they were made of."""

        def locate(item: Operation | SSAValue) -> Location | None:
            return self.locate(operations.get(item, item) if isinstance(item, Operation) else values.get(item, item))

        return replace(self, locate=locate, name=lambda value: self.name(values.get(value, value)))


@dataclass
class Reading:
    """State of reading one module: the module so far, its meshes, and all faults found."""

    source: Source
    dialects: Dialect  # all that the text may name
    module: Module = field(default_factory=lambda: Module(NO_MESH, Graph("main")))
    meshes: dict[str, Mesh] = field(default_factory=dict[str, Mesh])
    parents: dict[str, str] = field(default_factory=dict[str, str])  # of meshes that are a part of another
    picked: dict[str, Sequence[int]] = field(
        default_factory=dict[str, Sequence[int]]
    )  # places in the parent, of one part of it
    devices: dict[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])  # of meshes that say them
    single: dict[str, int] = field(default_factory=dict[str, int])  # meshes that are one device: which
    shardy: list[str] = field(
        default_factory=list[str]
    )  # meshes which, where they are equally large, have the same devices
    named: set[str] = field(default_factory=set[str])  # meshes that shardings of Shardy name
    sound: set[Operation] = field(default_factory=set[Operation])  # operations without faults
    recipes: dict[Operation, Recipe] = field(
        default_factory=dict[Operation, Recipe]
    )  # of operations that others are like
    reordered: dict[str, list[int]] = field(
        default_factory=dict[str, list[int]]
    )  # devices of meshes whose order is dropped, in an order that axes of their hosts have
    numbering: str = ""  # the reordered mesh whose device numbers operations use; empty: the default mesh's
    guests: frozenset[str] = frozenset()  # meshes over the devices of another one, under other axes
    refused: dict[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])  # meshes that nothing may be on
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])
    replicas: int = 1  # the number of replicas of the program, each on its own partitions
    given: Sequence[Mesh] = ()  # the user's meshes
    is_part: bool = False  # whether it is the program of one mesh among several
    _originals: list[Operation] = field(default_factory=list[Operation])
    _unreadable: set[Attribute] = field(default_factory=set[Attribute])
    _types: dict[Attribute, _Decoded] = field(default_factory=dict[Attribute, "_Decoded"])
    _same: dict[int, tuple[Attribute, _Decoded]] = field(default_factory=dict[int, "tuple[Attribute, _Decoded]"])

    def originals(self, top: Operation) -> Sequence[Operation]:
        """The operations of the module that is read, in order, without those that are like one before."""
        if not self._originals:
            self._add_originals(top)
        return self._originals

    def _add_originals(self, operation: Operation) -> None:
        if self.source.like(operation) is not None:
            return
        self._originals.append(operation)
        for block in (block for region in operation.regions for block in region.blocks):
            for inner in block.ops:
                self._add_originals(inner)

    def fault(self, code: str, message: str, source: Operation | SSAValue | None, hint: str = "") -> None:
        """Collect a fault, once; all are reported together when the module has been read."""
        self.refuse([Diagnostic(code, message, hint=hint)], source)

    def refuse(self, faults: Iterable[Diagnostic], source: Operation | SSAValue | None, prefix: str = "") -> None:
        """Collect faults that were found without their location, each once."""
        loc = None if source is None else self.source.locate(source)
        located = (replace(fault, message=prefix + fault.message, loc=loc) for fault in faults)
        self.faults += [fault for fault in dict.fromkeys(located) if fault not in self.faults]

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
    def known_meshes(self) -> str:
        """The names of the declared meshes, for hints."""
        return ", ".join(f"@{name}" for name in self.meshes if name) or "none"

    def device_ids(self, symbol: str) -> tuple[int, ...] | None:
        """Return the device ids of a declared mesh, or None if its declaration has none."""
        found = (self.single[symbol],) if symbol in self.single else self.devices.get(symbol)
        return None if found is None else tuple(found)

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

    def share_devices(self, partitions: int | None, wholes: Sequence[tuple[str, Sequence[str]]] = ()) -> None:
        """Take meshes over the same devices as one; `partitions` is how many the program says that it runs on.

        `wholes` are axes of meshes that must be whole axes of the one: where they are parts, its axes are cut.
        """
        sizes = Counter(self.meshes[symbol].size for symbol in self.shardy)
        same = {symbol for symbol in self.shardy if sizes[self.meshes[symbol].size] > 1}
        devices = {
            symbol: self.devices.get(symbol, range(mesh.size))
            for symbol, mesh in self.meshes.items()
            if symbol and mesh.is_static and (symbol in self.devices or symbol in same or mesh.size == partitions)
        }
        hosts, self.reordered, self.refused = shared_devices(self.meshes, devices, self.named)
        self.parents |= hosts
        listed = self.named or hosts
        self.module.reordered |= {symbol: tuple(devices[symbol]) for symbol in self.reordered if symbol in listed}
        self.guests = frozenset(hosts)
        for host in dict.fromkeys(hosts.values()):
            parts = [ref for symbol, refs in wholes if hosts.get(symbol) == host for ref in self.axes(symbol, refs)]
            if any(split_ref(ref)[2] is not None for ref in parts):
                self._replace_by_parts(host, parts)
        if (mesh := self.whole(self.module.mesh.name)) is not None:
            self.module.mesh = mesh

    def part_ways(self, named: Collection[str]) -> None:
        """Let parts of a mesh be meshes with devices of their own, where these are all that a program names of it and share none."""
        for whole in dict.fromkeys(self.parents[symbol] for symbol in self.picked):
            parts = [symbol for symbol in named if self.parents.get(symbol) == whole]
            places = [place for symbol in parts for place in self.picked.get(symbol, ())]
            are_apart = all(symbol in self.picked for symbol in parts) and len(set(places)) == len(places)
            if not parts or whole in named or not are_apart:
                continue
            for symbol in parts:
                del self.parents[symbol]
            if self.module.mesh is self.meshes[whole]:
                self.module.mesh = self.meshes[parts[0]]

    def _replace_by_parts(self, host: str, parts: Sequence[str]) -> None:
        """Put a mesh whose axes are these parts in the place of the one of which they are."""
        symbol = f"{host}_replace_by_parts"
        while symbol in self.meshes:
            symbol += "_"
        if (mesh := refined(self.meshes[host], symbol, parts)) is None:
            return
        self.meshes[symbol] = mesh
        if host in self.devices:
            self.devices[symbol] = self.devices[host]
        members = [host, *(each for each, over in self.parents.items() if over == host)]
        self.parents |= dict.fromkeys(members, symbol)
        self.guests |= {host}

    def axes(self, symbol: str, refs: Sequence[str]) -> tuple[str, ...]:
        """Axes as a sharding over the mesh of this name has them: those of the mesh whose devices it shares."""
        if symbol not in self.guests:
            return tuple(refs)
        host = self.parents[symbol]
        places = places_in(self._devices_of(host), self.reordered.get(symbol) or self._devices_of(symbol))
        return refs_over(self.meshes[host], self.meshes[symbol], refs, places)

    def _devices_of(self, symbol: str) -> Sequence[int]:
        """The devices of a mesh of static size."""
        return self.devices.get(symbol) or range(self.meshes[symbol].size)

    @property
    def order(self) -> Sequence[int]:
        """The devices of the mesh that is meant, by their places in it; empty where they are in order, or it does not say them."""
        found = self.devices.get(self.module.mesh.name, ())
        if self.numbering:
            own = dict(zip(self.reordered[self.numbering], self._devices_of(self.numbering), strict=True))
            found = [own[device] for device in self._devices_of(self.parents[self.numbering])]
        return () if list(found) == list(range(len(found))) else found

    def placed(self, rows: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Rows of devices as rows of places in the mesh that is meant; a number that is none of its devices stays."""
        places = {device: place for place, device in enumerate(self.order)}
        return [tuple(places.get(device, device) for device in row) for row in rows]

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

    @contextmanager
    def numbered_by(self, symbol: str) -> Generator[None]:
        """Inside, operations use the device numbers of this mesh; an empty symbol keeps those of the mesh around."""
        outer = self.numbering
        if symbol:
            self.numbering = symbol if symbol in self.reordered else ""
        try:
            yield
        finally:
            self.numbering = outer

    def callee(self, name: str) -> str:
        """Return the name of the graph of a function: it has one for each numbering of devices."""
        return f"{name}@{self.numbering}" if self.numbering else name

    def annotate(self, slot: Slot, annotation: Annotation) -> None:
        """Set the annotation of an argument or result; a sharding that does not fit is a fault."""
        is_local = STAGES.index(self.module.stage) >= STAGES.index("partition")  # the annotation is of the global value
        shape = (None,) * slot.type.rank if is_local else slot.type.shape
        wrong = annotation.sharding.faults(shape, self.mesh_of(annotation.sharding))
        for found in (*wrong, *kind_faults(annotation.sharding, slot.type.dtype)):
            place = "argument" if slot.side == "in" else "result"
            message = f"{place} {slot.index} ({slot.type}): {found.message}"
            self.faults.append(Diagnostic(found.code, message, slot.loc, hint=found.hint))
        table = self.module.in_annotations if slot.side == "in" else self.module.out_annotations
        table[slot.index] = annotation

    def type(self, attribute: Attribute, source: Operation | SSAValue | None = None) -> TensorType:
        """The tensor type of an xDSL type; a scalar is a 0-d tensor, an index an i64. Collects a fault at `source` for others."""
        return self._decoded(attribute, source)[0]

    def is_readable(self, attribute: Attribute) -> bool:
        """Whether an xDSL type is supported for values; others are refused at their definition."""
        return attribute not in self._unreadable

    def sharding(self, attribute: Attribute, source: Operation | SSAValue | None = None) -> Sharding | None:
        """The sharding that a tensor type carries as its encoding; what is wrong with it is a fault at `source`, once."""
        kind, encoding = self._decoded(attribute)
        if encoding is None:
            return None
        known = len(self.faults)
        found = self.dialects.type_decoders[encoding.name](self, encoding, kind)
        if wrong := self.faults[known:]:
            said = {fault.message for fault in self.faults[:known]}
            loc = None if source is None else self.source.locate(source)
            self.faults[known:] = [replace(fault, loc=fault.loc or loc) for fault in wrong if fault.message not in said]
        return found

    def _decoded(self, attribute: Attribute, source: Operation | SSAValue | None = None) -> _Decoded:
        """By identity first: a type is an object of its own for each spelling, and its hash is that of all its parts."""
        if (same := self._same.get(id(attribute))) is not None:
            return same[1]
        if (found := self._types.get(attribute)) is None:
            found = self._types[attribute] = self._decode(attribute, source)
        self._same[id(attribute)] = attribute, found
        return found

    def _decode(self, attribute: Attribute, source: Operation | SSAValue | None) -> _Decoded:
        if attribute.name == "stablehlo.token":
            return TensorType(*TOKEN), None
        is_tensor = isinstance(attribute, builtin.TensorType)
        element = attribute.element_type if is_tensor else attribute
        name = "i64" if isinstance(element, builtin.IndexType) else str(element)
        dtype = COMPLEX_NAMES.get(name, name)
        shape = tuple(None if size < 0 else size for size in attribute.get_shape()) if is_tensor else ()
        if dtype not in DTYPES:
            hint = _TYPE_HINTS.get(attribute.name, f"element types: {', '.join(DTYPES)}")
            self.fault("MG0103", f"type {attribute} is not supported", source, hint)
            self._unreadable.add(attribute)
            return TensorType(shape, "f32"), None
        encoding = attribute.encoding if is_tensor else None
        if encoding is None or encoding.name not in self.dialects.type_decoders:
            return TensorType(shape, dtype), None
        return TensorType(shape, dtype), encoding
