"""The lines of a function's nodes: nodes that are alike apart from names and reasons are converted and printed once.

    %s = stablehlo.add %s, %s {shard.plan = #shard.plan<typed, loops = [["dp"], []], why = [%s]>} : tensor<8x16xf32>

The layers of a model repeat the same few patterns. A pattern is made of the text that the operation itself prints, so how operations are
written is said in one place.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from io import StringIO
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.printer import Printer

from meshgen.ir.graph import Module, Node, Value
from meshgen.mlir.conversion import Exporter
from meshgen.mlir.dense import DenseElements
from meshgen.records import dataclass, replace
from meshgen.runtime.module_file.resources import LEAST_BYTES, Resources

_REASONS = "@reasons@"  # what stands in a pattern for the reasons of a plan
_QUOTED = f'"{_REASONS}"'
_MARK = "\0"  # around the numbers of values in a pattern's text: printed text has no such character
_ESCAPES = {byte: f"\\{byte:02X}" for byte in (*range(0x20), 0x22, *range(0x7F, 0x100))} | {0x5C: "\\\\"}
_MOST_BYTES = 64  # of an array among a node's attributes: larger ones are hardly equal

Types = dict[int, tuple[Attribute, str]]
"""The texts of types by identity of the type, which so stays."""


@dataclass(frozen=True)
class Pattern:
    """The lines of a node, `%s` for each name and for the reasons.

    `holes` says whose name is at each place: a number among the node's operands, results and then `inner`, what values that are only in the
    lines want to be called; None for the reasons.
    """

    lines: str
    holes: tuple[int | None, ...]
    inner: tuple[str, ...]


class Patterns:
    """The patterns of nodes by all that the lines depend on beside names and reasons. Stages of a program may share them."""

    def __init__(self) -> None:
        self._modules: dict[int, Module] = {}  # those whose identity is in keys, which so stay
        self._found: dict[Hashable, Pattern | None] = {}
        self._kinds: dict[Hashable, int] = {}
        self._values: dict[Value, int] = {}  # the kinds of values
        self._texts: dict[int, tuple[dict[str, Any], str | None]] = {}  # of attributes by their identity, which so stay
        self.types: Types = {}

    def of(self, node: Node, exporter: Exporter) -> Pattern | None:
        """The pattern of a node; None where it has to be printed by itself."""
        key = None if node.regions else self._key(node, exporter)
        if key is None:
            return None
        try:
            return self._found[key]
        except KeyError:
            found = self._found[key] = _pattern(node, exporter.apart(), self.types)
            return found

    def _key(self, node: Node, exporter: Exporter) -> Hashable:
        if (found := self._texts.get(id(node.attrs))) is None:
            found = self._texts[id(node.attrs)] = node.attrs, _text_of(node.attrs)
        attrs = found[1]
        if attrs is None:
            return None
        plan = node.sharding
        decided = plan and (plan.operands, plan.results, plan.option, bool(plan.why))
        known, values = self._values, [*node.operands, *node.results]
        kinds = [known[value] if value in known else self._kind(value) for value in values]
        module = exporter.module
        self._modules[id(module)] = module
        place = id(module) if module.meshes else id(module.mesh)
        return place, node.op, attrs, node.option, node.notes, decided, len(node.operands), *kinds

    def _kind(self, value: Value) -> int:
        """A number for a value's type and sharding."""
        kind = self._values[value] = self._kinds.setdefault((value.type, value.sharding), len(self._kinds))
        return kind


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
    """xDSL's printer, which writes a string at once and not byte by byte, and each tensor type that it `knows` as it was written before."""

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
        if isinstance(attribute, DenseElements) and self.resources and len(attribute.data.raw) >= LEAST_BYTES:
            self.print_string(f"dense_resource<{self.resources.name(attribute.data.raw)}> : ")
            attribute = attribute.data.type
        if not isinstance(attribute, TensorType):
            super().print_attribute(attribute)
            return
        if (found := self._known.get(id(attribute))) is None:
            text = StringIO()
            printer = Printer(stream=text)
            printer.print_attribute(attribute)
            found = self._known[id(attribute)] = attribute, text.getvalue()
        self.print_string(found[1])

    def print_bytes_literal(self, bytestring: bytes) -> None:
        self.print_string(quoted(bytestring))


def quoted(content: bytes) -> str:
    """A string as it is written."""
    return f'"{content.decode("latin-1").translate(_ESCAPES)}"'


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
    operations = exporter.operations(node)
    own = [exporter.ssa(value) for value in (*node.operands, *node.results)]
    printer = _MarkPrinter(own, types)
    for number, operation in enumerate(operations):
        printer.print_string("\n" if number else "")
        printer.print_op(operation)
    text = printer.text.getvalue()
    if text.count("\n") != len(operations) - 1 or text.count(_QUOTED) != (plan is not None and bool(plan.why)):
        return None
    parts = text.replace(_QUOTED, _MARK * 2).split(_MARK)
    literals, holes = [part.replace("%", "%%") for part in parts[::2]], parts[1::2]
    inner = tuple(exporter.names.get(ssa, "") or ssa.name_hint or "" for ssa in printer.values[len(own) :])
    return Pattern("%s".join(literals), tuple(int(hole) if hole else None for hole in holes), inner)
