"""The lines of a function's nodes: nodes that are alike apart from names, reasons and places in a schedule are converted and printed once.

    %s = stablehlo.add %s, %s {shard.plan = #shard.plan<typed, loops = [["dp"], []], why = [%s]>} : tensor<8x16xf32>

The layers of a model repeat the same few patterns. A pattern is made of the text that the operation itself prints, so how operations are
written is said in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from io import StringIO
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.printer import Printer

from meshgen.ir.graph import Module, Node, NodeSharding, Value
from meshgen.ir.notes import NO_NOTES, Notes, Place, Slot
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.exporter import Exporter
from meshgen.mlir.sched.attributes import BufferAttr, ItemAttr
from meshgen.mlir.shard.attributes import AnnotationAttr, SplitAttr
from meshgen.records import dataclass, replace
from meshgen.runtime.module_file.resources import LEAST_BYTES, Resources

_REASONS = "@reasons@"  # what stands in a pattern for the reasons of a plan
_QUOTED = f'"{_REASONS}"'
_NOTED = Notes(
    "@why@", (-(1 << 63),), slot=Slot(0, source="@slot@"), places=(Place(0, "@places@", "temporary", 0, 0),)
)  # stands in it for notes
_MARK = "\0"  # around the numbers of values in a pattern's text: printed text has no such character
_ESCAPES = {byte: f"\\{byte:02X}" for byte in (*range(0x20), 0x22, *range(0x7F, 0x100))} | {0x5C: "\\\\"}
_MOST_BYTES = 64  # of an array among a node's attributes: larger ones are hardly equal

_SHARED = (TensorType, SplitAttr, AnnotationAttr)  # that many values have

Types = dict[int, tuple[Attribute, str]]
"""The texts of these by identity of the attribute, which so stays."""


@dataclass(frozen=True)
class Pattern:
    """The lines of a node, `%s` for each name, for the reasons and for notes that differ between equal nodes.

    `holes` says what is at each place: for a name a number among the node's operands, results and then `inner`, what values that are only in
    the lines want to be called; None for the reasons; for a note what writes it.
    """

    lines: str
    holes: tuple[int | Callable[[Notes], str] | None, ...]
    inner: tuple[str, ...]
    own: tuple[int, ...] | None  # the holes, where all are names of operands and results


class Patterns:
    """The patterns of nodes by all that the lines depend on beside names and reasons. Stages of a program may share them."""

    def __init__(self) -> None:
        self._modules: dict[int, Module] = {}  # those whose identity is in keys, which so stay
        self._found: dict[Hashable, Pattern | None] = {}
        self._kinds: dict[Hashable, int] = {}
        self._values: dict[Value, int] = {}  # the kinds of values
        self._decisions: dict[Hashable, int] = {}
        self._plans: dict[int, tuple[NodeSharding, int]] = {}  # the decisions of plans by their identity, which so stay
        self._texts: dict[int, tuple[dict[str, Any], str | None]] = {}  # of attributes by their identity, which so stay
        self.types: Types = {}

    def place(self, module: Module) -> int:
        """What the lines of all nodes of a module depend on: its mesh, or itself where it has several."""
        self._modules[id(module)] = module
        return id(module) if module.meshes else id(module.mesh)

    def of(self, node: Node, place: int, exporter: Exporter) -> Pattern | None:
        """The pattern of a node of the module at `place`; None where it has to be printed by itself."""
        key = None if node.regions else self._key(node, place)
        if key is None:
            return None
        try:
            return self._found[key]
        except KeyError:
            found = self._found[key] = _pattern(node, exporter.apart(), self.types)
            return found

    def _key(self, node: Node, place: int) -> Hashable:
        if (found := self._texts.get(id(node.attrs))) is None:
            found = self._texts[id(node.attrs)] = node.attrs, _text_of(node.attrs)
        attrs = found[1]
        if attrs is None:
            return None
        decided = self._plan(node.sharding) if node.sharding else None
        known, values = self._values, [*node.operands, *node.results]
        kinds = [known[value] if value in known else self._kind(value) for value in values]
        return place, node.op, attrs, node.option, _kind_of(node.notes), decided, len(node.operands), *kinds

    def _plan(self, plan: NodeSharding) -> int:
        """A number for what a plan decides, and whether it has reasons."""
        if (found := self._plans.get(id(plan))) is None:
            decided = plan.operands, plan.results, plan.option, bool(plan.why)
            found = self._plans[id(plan)] = plan, self._decisions.setdefault(decided, len(self._decisions))
        return found[1]

    def _kind(self, value: Value) -> int:
        """A number for a value's type and sharding."""
        kind = self._values[value] = self._kinds.setdefault((value.type, value.sharding), len(self._kinds))
        return kind


def _kind_of(notes: Notes) -> Hashable:
    """What the lines of a node depend on beside the notes that are written in holes."""
    if notes is NO_NOTES:
        return None
    own = notes.hint, notes.reduces, notes.lazy, notes.in_memory, notes.trips
    return *own, bool(notes.why), bool(notes.edges), notes.slot is not None, bool(notes.places)


def _text_of(attrs: dict[str, Any]) -> str | None:
    """The attributes of a node as text that is equal for equal ones only; None where there may be no such text."""
    if arrays := {name: value for name, value in attrs.items() if isinstance(value, np.ndarray)}:
        if any(value.nbytes > _MOST_BYTES or value.dtype.hasobject for value in arrays.values()):
            return None
        exact = {name: (value.dtype.name, value.shape, value.tobytes()) for name, value in arrays.items()}
        attrs = attrs | exact
    text = repr(attrs)
    return None if "array(" in text else text


class QuickPrinter(Printer):
    """xDSL's printer, which writes a string at once and not byte by byte, and each type or sharding that it `knows` as it was written before."""

    resources: Resources | None = None
    """Where large constants go, to which the text refers; None: they are in the text."""

    def __init__(self, known: Types) -> None:
        self.text = StringIO()
        super().__init__(stream=self.text)
        self._known = known

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        """Lines and columns, which xDSL counts for its messages, are not."""
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self.text.write(text)

    def print_attribute(self, attribute: Attribute) -> None:
        if (found := self._known.get(id(attribute))) is not None:
            self.text.write(found[1])
        elif isinstance(attribute, _SHARED):
            text = StringIO()
            printer = Printer(stream=text)
            printer.print_attribute(attribute)
            self._known[id(attribute)] = attribute, text.getvalue()
            self.text.write(text.getvalue())
        elif isinstance(attribute, DenseElements) and self.resources and len(attribute.data.raw) >= LEAST_BYTES:
            self.text.write(f"dense_resource<{self.resources.name(attribute.data.raw)}> : ")
            self.print_attribute(attribute.data.type)
        else:
            super().print_attribute(attribute)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        self.print_string(quoted(bytestring))


def quoted(content: bytes) -> str:
    """A string as it is written."""
    return f'"{content.decode("latin-1").translate(_ESCAPES)}"'


def _written(attribute: Attribute) -> str:
    printer = QuickPrinter({})
    printer.print_attribute(attribute)
    return printer.text.getvalue()


def _why_text(notes: Notes) -> str:
    return quoted(notes.why.encode())


def _edges_text(notes: Notes) -> str:
    return f"edges = {_written(DenseArrayBase.from_list(i64, notes.edges))}"


def _slot_text(notes: Notes) -> str:
    assert notes.slot is not None, "the pattern is of nodes with a slot"
    return _written(ItemAttr(notes.slot))


def _places_text(notes: Notes) -> str:
    return f"[{', '.join(_written(BufferAttr(place)) for place in notes.places)}]"


_NOTES: Mapping[str, Callable[[Notes], str]] = {
    write(_NOTED): write for write in (_why_text, _edges_text, _slot_text, _places_text)
}
"""What writes a note, by its text in a pattern."""


class _MarkPrinter(QuickPrinter):
    """Prints marks instead of names: the number of a value among `values`, others behind them."""

    def __init__(self, values: Sequence[SSAValue], known: Types) -> None:
        super().__init__(known)
        self.values = list(values)

    def print_ssa_value(self, value: SSAValue) -> str:
        if value not in self.values:
            self.values.append(value)
        mark = f"%{_MARK}{self.values.index(value)}{_MARK}"
        self.print_string(mark)
        return mark


def _pattern(node: Node, exporter: Exporter, types: Types) -> Pattern | None:
    """Print a node on values that stand for its own, each operand for itself; `exporter` is for it alone."""
    plan = node.sharding
    node = replace(node, operands=[replace(value) for value in node.operands])
    if plan is not None and plan.why:
        node.sharding = replace(plan, why=(_REASONS,))
    if (notes := node.notes) is not NO_NOTES:
        own = {name: getattr(_NOTED, name) for name in ("why", "edges", "slot", "places") if getattr(notes, name)}
        node.notes = replace(notes, **own)
    operations = exporter.operations(node)
    own = [exporter.ssa(value) for value in (*node.operands, *node.results)]
    printer = _MarkPrinter(own, types)
    for number, operation in enumerate(operations):
        printer.print_string("\n" if number else "")
        printer.print_op(operation)
    text = printer.text.getvalue()
    if text.count("\n") != len(operations) - 1 or text.count(_QUOTED) != (plan is not None and bool(plan.why)):
        return None
    text = text.replace(_QUOTED, _MARK * 2)
    for note in _NOTES:
        text = text.replace(note, f"{_MARK}{note}{_MARK}")
    parts = text.split(_MARK)
    literals, holes = [part.replace("%", "%%") for part in parts[::2]], parts[1::2]
    inner = tuple(exporter.names.get(ssa, "") or ssa.name_hint or "" for ssa in printer.values[len(own) :])
    found = tuple([_hole(hole) for hole in holes])
    numbers = tuple([hole for hole in found if isinstance(hole, int) and hole < len(own)])
    return Pattern("%s".join(literals), found, inner, numbers if len(numbers) == len(found) else None)


def _hole(text: str) -> int | Callable[[Notes], str] | None:
    return _NOTES[text] if text in _NOTES else int(text) if text else None
