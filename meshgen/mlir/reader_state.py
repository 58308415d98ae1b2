"""The state of reading one module from xDSL: meshes, types, annotations, and all faults found so far."""

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
from meshgen.ir.reduction_kinds import kind_faults
from meshgen.ir.shared_devices import device_indices_in, refined, refs_over, shared_devices
from meshgen.mesh import DEFAULT_NAME, Mesh, split_ref
from meshgen.mlir.conversion_replay import Recipe
from meshgen.mlir.dense import COMPLEX_NAMES
from meshgen.mlir.dialect import Dialect
from meshgen.spec import Sharding

NO_MESH = Mesh(())
_Decoded: TypeAlias = "tuple[TensorType, Attribute | None]"
_TYPE_HINTS = {
    "tuple": "tuples are supported between stablehlo.tuple and stablehlo.get_tuple_element in the same region; "
    "elsewhere, pass the elements separately",
    "stablehlo.future": "stablehlo.async_start needs its stablehlo.async_done in the same region",
}


@dataclass(frozen=True)
class Slot:
    """An argument (`side` is "in") or a result ("out") of the function that becomes the module's graph."""

    side: str
    index: int
    type: TensorType
    loc: Location | None = None


@dataclass(frozen=True)
class Source:
    """Functions that look up in the text: the location of an operation or value, the name of a value, and repeated
    lines.

    `like` returns the operation of the earlier line that an operation's line repeats (`repeated_lines.py`), or None.
    """

    locate: Callable[[Operation | SSAValue], Location | None] = lambda _: None
    name: Callable[[SSAValue], str] = lambda value: value.name_hint or ""
    like: Callable[[Operation], Operation | None] = lambda _: None

    def with_origins(self, operations: Mapping[Operation, Operation], values: Mapping[SSAValue, SSAValue]) -> Source:
        """Return a source for rewritten operations and values: it looks up the ones in the text that they are derived
        from.
        """

        def locate(item: Operation | SSAValue) -> Location | None:
            return self.locate(operations.get(item, item) if isinstance(item, Operation) else values.get(item, item))

        return replace(self, locate=locate, name=lambda value: self.name(values.get(value, value)))


@dataclass
class Reading:
    """The state of reading one module: the module so far, its meshes, and all faults found.

    Attributes:
        picked: sub-mesh that is one fixed slice of its parent -> the positions of its devices in the parent.
        shardy: symbols of meshes that Shardy declares. Two of them share devices if they have the same size.
        reordered: mesh whose listed device order is not kept -> its device ids, in an order that its host can express.
        numbering: symbol of the reordered mesh by whose device numbers operations are read; "" for the default mesh.
    """

    source: Source
    dialects: Dialect  # the dialects whose operations the text may contain
    module: Module = field(default_factory=lambda: Module(NO_MESH, Graph("main")))
    meshes: dict[str, Mesh] = field(default_factory=dict[str, Mesh])
    parents: dict[str, str] = field(default_factory=dict[str, str])  # sub-mesh -> the mesh that it is a part of
    picked: dict[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    devices: dict[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])  # mesh -> listed device ids
    single: dict[str, int] = field(default_factory=dict[str, int])  # mesh of a single device -> the id of the device
    shardy: list[str] = field(default_factory=list[str])
    named: set[str] = field(default_factory=set[str])  # symbols of the meshes that Shardy shardings name
    sound: set[Operation] = field(default_factory=set[Operation])  # operations whose verification found no fault
    # operation -> how to convert a line of the same form
    recipes: dict[Operation, Recipe] = field(default_factory=dict[Operation, Recipe])
    reordered: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    numbering: str = ""
    guests: frozenset[str] = frozenset()  # meshes with other axes over the devices of another mesh, their host mesh
    refused: dict[str, Diagnostic] = field(default_factory=dict[str, Diagnostic])  # unusable mesh -> the reason
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])
    replicas: int = 1  # number of replicas of the program; each replica runs on its own set of partitions
    user_meshes: Sequence[Mesh] = ()  # meshes from outside of the text
    is_part: bool = False  # whether this is the inner module of one mesh in a multi-mesh program
    _originals: list[Operation] = field(default_factory=list[Operation])
    _unreadable: set[Attribute] = field(default_factory=set[Attribute])
    _types: dict[Attribute, _Decoded] = field(default_factory=dict[Attribute, "_Decoded"])
    _same: dict[int, tuple[Attribute, _Decoded]] = field(default_factory=dict[int, "tuple[Attribute, _Decoded]"])

    def originals(self, top: Operation) -> Sequence[Operation]:
        """Return the operations of the module in order, without those whose line repeats an earlier line."""
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
        """Record a fault unless it is already recorded. All faults are raised together when the module has been read."""
        self.refuse([Diagnostic(code, message, hint=hint)], source)

    def refuse(self, faults: Iterable[Diagnostic], source: Operation | SSAValue | None, prefix: str = "") -> None:
        """Record `faults` at the location of `source`, each only once, with `prefix` before their messages."""
        loc = None if source is None else self.source.locate(source)
        located = (replace(fault, message=prefix + fault.message, loc=loc) for fault in faults)
        self.faults += [fault for fault in dict.fromkeys(located) if fault not in self.faults]

    def declare_mesh(self, symbol: str, mesh: Mesh, source: Operation) -> None:
        """Add a mesh. Axis sizes that it leaves open are copied from the user's meshes.

        The first mesh with axes becomes the default mesh. A mesh without axes is recorded only under its name.
        """
        for user_mesh in self.user_meshes:
            is_match = user_mesh.name in (symbol, DEFAULT_NAME) and set(user_mesh.names) <= set(mesh.names)
            if is_match and not mesh.is_static:
                mesh = replace(mesh.completed(user_mesh), name=mesh.name)
        if symbol in self.meshes:
            self.fault(
                "MG0201", f"@{symbol} is declared twice", source, "declare each mesh once, or give it another name"
            )
        self.meshes[symbol] = mesh
        if not self.module.mesh.axes:
            self.module.mesh = mesh

    @property
    def known_meshes(self) -> str:
        """Return a list of the declared meshes as text, for hints in diagnostics."""
        return ", ".join(f"@{name}" for name in self.meshes if name) or "none"

    def device_ids(self, symbol: str) -> tuple[int, ...] | None:
        """Return the device ids of a declared mesh, or None if its declaration lists none."""
        ids = (self.single[symbol],) if symbol in self.single else self.devices.get(symbol)
        return None if ids is None else tuple(ids)

    @property
    def distinct(self) -> tuple[Mesh, ...]:
        """Return all meshes except sub-meshes and meshes over the devices of a host mesh."""
        return tuple(
            mesh for symbol, mesh in self.meshes.items() if mesh.axes and symbol and symbol not in self.parents
        )

    def on(self, symbol: str, sharding: Sharding) -> Sharding:
        """Return the sharding with the name of its mesh, if values of the program may be on different meshes."""
        if not self.is_on_several:
            return sharding
        mesh = self.whole(symbol)
        return replace(sharding, mesh=mesh.name) if mesh else sharding

    def share_devices(self, partitions: int | None, full_axes: Sequence[tuple[str, Sequence[str]]] = ()) -> None:
        """Merge meshes over the same devices: one of them, or a refinement of it, becomes their host mesh.

        Args:
            partitions: the number of partitions that the program declares, or None.
            full_axes: pairs of a mesh and some of its axes. The host's axes are split where these would be sub-axes.
        """
        sizes = Counter(self.meshes[symbol].size for symbol in self.shardy)
        equally_large = {symbol for symbol in self.shardy if sizes[self.meshes[symbol].size] > 1}
        devices = {
            symbol: self.devices.get(symbol, range(mesh.size))
            for symbol, mesh in self.meshes.items()
            if symbol
            and mesh.is_static
            and (symbol in self.devices or symbol in equally_large or mesh.size == partitions)
        }
        hosts, self.reordered, self.refused = shared_devices(self.meshes, devices, self.named)
        self.parents |= hosts
        listed = self.named or hosts
        self.module.reordered |= {symbol: tuple(devices[symbol]) for symbol in self.reordered if symbol in listed}
        self.guests = frozenset(hosts)
        for host in dict.fromkeys(hosts.values()):
            parts = [ref for symbol, refs in full_axes if hosts.get(symbol) == host for ref in self.axes(symbol, refs)]
            if any(split_ref(ref)[2] is not None for ref in parts):
                self._replace_by_parts(host, parts)
        if (mesh := self.whole(self.module.mesh.name)) is not None:
            self.module.mesh = mesh

    def split_off_submeshes(self, used_symbols: Collection[str]) -> None:
        """Make sub-meshes independent if they share no devices and the program uses no other part of their parent."""
        for whole in dict.fromkeys(self.parents[symbol] for symbol in self.picked):
            parts = [symbol for symbol in used_symbols if self.parents.get(symbol) == whole]
            positions = [position for symbol in parts for position in self.picked.get(symbol, ())]
            are_rows_disjoint = all(symbol in self.picked for symbol in parts) and len(set(positions)) == len(positions)
            if not parts or whole in used_symbols or not are_rows_disjoint:
                continue
            for symbol in parts:
                del self.parents[symbol]
            if self.module.mesh is self.meshes[whole]:
                self.module.mesh = self.meshes[parts[0]]

    def _replace_by_parts(self, host: str, parts: Sequence[str]) -> None:
        """Replace a host mesh by a mesh whose axes are split so that each sub-axis in `parts` is a full axis."""
        symbol = f"{host}_replace_by_parts"
        while symbol in self.meshes:
            symbol += "_"
        if (mesh := refined(self.meshes[host], symbol, parts)) is None:
            return
        self.meshes[symbol] = mesh
        if host in self.devices:
            self.devices[symbol] = self.devices[host]
        members = [host, *(guest for guest, guest_host in self.parents.items() if guest_host == host)]
        self.parents |= dict.fromkeys(members, symbol)
        self.guests |= {host}

    def axes(self, symbol: str, refs: Sequence[str]) -> tuple[str, ...]:
        """Translate axes of the mesh `symbol` into axes of its host mesh, over which shardings are stored."""
        if symbol not in self.guests:
            return tuple(refs)
        host = self.parents[symbol]
        positions = device_indices_in(self._devices_of(host), self.reordered.get(symbol) or self._devices_of(symbol))
        return refs_over(self.meshes[host], self.meshes[symbol], refs, positions)

    def _devices_of(self, symbol: str) -> Sequence[int]:
        """Return the device ids of a mesh of static size."""
        return self.devices.get(symbol) or range(self.meshes[symbol].size)

    @property
    def order(self) -> Sequence[int]:
        """Return the device id at each position of the default mesh, or () if the ids are 0, 1, ... or not listed."""
        ids = self.devices.get(self.module.mesh.name, ())
        if self.numbering:
            renumbering = dict(zip(self.reordered[self.numbering], self._devices_of(self.numbering), strict=True))
            ids = [renumbering[device] for device in self._devices_of(self.parents[self.numbering])]
        return () if list(ids) == list(range(len(ids))) else ids

    def placed(self, rows: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
        """Translate groups of device ids into positions in the default mesh. An unknown id is unchanged."""
        positions = {device: position for position, device in enumerate(self.order)}
        return [tuple(positions.get(device, device) for device in row) for row in rows]

    @property
    def is_on_several(self) -> bool:
        """Whether values of the program may be on different meshes."""
        return not self.is_part and self.module.stage in ("import", "materialize") and len(self.distinct) > 1

    def whole(self, symbol: str) -> Mesh | None:
        """Return the mesh `symbol`, or for a sub-mesh or a mesh over a host, the outermost mesh that contains it."""
        while symbol in self.parents:
            symbol = self.parents[symbol]
        return self.meshes.get(symbol)

    def mesh_of(self, sharding: Sharding) -> Mesh:
        """Return the mesh that a sharding names, or the default mesh if it names none."""
        return self.meshes.get(sharding.mesh, self.module.mesh) if sharding.mesh else self.module.mesh

    @contextmanager
    def over(self, default: Mesh) -> Generator[None]:
        """Make `default` the default mesh inside the context, or, for a sub-mesh, the mesh that contains it."""
        outer = self.module.mesh, self.meshes.get("", self.module.mesh)
        self.module.mesh, self.meshes[""] = self.whole(default.name) or default, default
        try:
            yield
        finally:
            self.module.mesh, self.meshes[""] = outer

    @contextmanager
    def numbered_by(self, symbol: str) -> Generator[None]:
        """Inside the context, read device numbers of operations as those of the mesh `symbol`. "" changes nothing."""
        outer = self.numbering
        if symbol:
            self.numbering = symbol if symbol in self.reordered else ""
        try:
            yield
        finally:
            self.numbering = outer

    def callee(self, name: str) -> str:
        """Return the name of the graph of the function `name`, which has one graph per device numbering."""
        return f"{name}@{self.numbering}" if self.numbering else name

    def annotate(self, slot: Slot, annotation: Annotation) -> None:
        """Set the annotation of an argument or result. Reports a fault if the sharding does not fit its type."""
        # From stage `partition` on, types are local, whereas the annotation describes the global value.
        is_local = STAGES.index(self.module.stage) >= STAGES.index("partition")
        shape = (None,) * slot.type.rank if is_local else slot.type.shape
        wrong = annotation.sharding.faults(shape, self.mesh_of(annotation.sharding))
        for fault in (*wrong, *kind_faults(annotation.sharding, slot.type.dtype)):
            slot_name = "argument" if slot.side == "in" else "result"
            message = f"{slot_name} {slot.index} ({slot.type}): {fault.message}"
            self.faults.append(Diagnostic(fault.code, message, slot.loc, hint=fault.hint))
        table = self.module.in_annotations if slot.side == "in" else self.module.out_annotations
        table[slot.index] = annotation

    def type(self, attribute: Attribute, source: Operation | SSAValue | None = None) -> TensorType:
        """Return the tensor type of an xDSL type. A scalar is 0-d, an index i64. Reports unsupported types at `source`."""
        return self._decoded(attribute, source)[0]

    def is_readable(self, attribute: Attribute) -> bool:
        """Whether no fault was reported for this type. A value of another type causes a fault at its definition."""
        return attribute not in self._unreadable

    def sharding(self, attribute: Attribute, source: Operation | SSAValue | None = None) -> Sharding | None:
        """Return the sharding in a tensor type's encoding, or None without one. Reports each fault at `source` once."""
        kind, encoding = self._decoded(attribute)
        if encoding is None:
            return None
        fault_count = len(self.faults)
        sharding = self.dialects.type_decoders[encoding.name](self, encoding, kind)
        if new_faults := self.faults[fault_count:]:
            earlier_messages = {fault.message for fault in self.faults[:fault_count]}
            loc = None if source is None else self.source.locate(source)
            self.faults[fault_count:] = [
                replace(fault, loc=fault.loc or loc) for fault in new_faults if fault.message not in earlier_messages
            ]
        return sharding

    def _decoded(self, attribute: Attribute, source: Operation | SSAValue | None = None) -> _Decoded:
        """Return the tensor type and the encoding of an xDSL type. Cached by identity, since hashing a type is slow."""
        if (cached := self._same.get(id(attribute))) is not None:
            return cached[1]
        if (decoded := self._types.get(attribute)) is None:
            decoded = self._types[attribute] = self._decode(attribute, source)
        self._same[id(attribute)] = attribute, decoded
        return decoded

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
