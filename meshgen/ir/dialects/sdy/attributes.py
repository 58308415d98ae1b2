"""Attributes of Shardy's dialect, whose text is kept, and shardings as it spells them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from xdsl.ir import Data, OpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.ir.parser import TextParser
from meshgen.mesh import split_ref
from meshgen.spec import Sharding

_BODY = re.compile(r"<((?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>")
_RULE = re.compile(r"<([^{}]*\{[^{}]*\}[^{}<>]*)>")
_AXIS = re.compile(r'"([^"]+)"(?::(\(\d+\)\d+))?')
_DIM = re.compile(r"\{([^{}]*)\}")
_CLAUSE = re.compile(r"(replicated|unreduced)\s*=\s*\{([^{}]*)\}")
_PER_VALUE = re.compile(r"<((?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*)>")


@dataclass(frozen=True)
class Spelled:
    """A sharding as `#sdy.sharding` spells it."""

    mesh: str  # the symbol, or the axes of a mesh written in place
    dims: tuple[tuple[str, ...], ...]
    open_dims: tuple[bool, ...]
    replicated: tuple[str, ...]
    unreduced: tuple[str, ...]


class Body(Data[str]):
    """An attribute whose text between the brackets is kept as it is."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        assert isinstance(parser, TextParser)
        return parser.scan(_BODY, "'<...>' expected")[1]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


@irdl_attr_definition
class ShardingRuleAttr(Body):
    """What JAX says of a custom call; the call itself has to be known, and then has a rule of its own."""

    name = "sdy.op_sharding_rule"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        assert isinstance(parser, TextParser)
        return parser.scan(_RULE, "'<(...)->(...) {...}>' expected")[1]


@irdl_attr_definition
class MeshAttr(Body):
    name = "sdy.mesh"


@irdl_attr_definition
class ShardingAttr(Body):
    name = "sdy.sharding"


@irdl_attr_definition
class ShardingPerValueAttr(Body):
    """`<[<@mesh, [{"x"}]>, ...]>`: one sharding per operand or result."""

    name = "sdy.sharding_per_value"

    @property
    def bodies(self) -> list[str]:
        """What stands between the brackets of each sharding."""
        return _PER_VALUE.findall(self.data)


@irdl_attr_definition
class ManualAxesAttr(OpaqueSyntaxAttribute, Data[tuple[str, ...]]):
    """`#sdy<manual_axes{"x", "y"}>`"""

    name = "sdy.manual_axes"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, ...]:
        assert isinstance(parser, TextParser)
        return _axes(parser.scan(_DIM, "'{...}' expected")[1])

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"{{{_spelled_axes(self.data)}}}")


@lru_cache(maxsize=4096)
def read_spelled(body: str) -> Spelled:
    """Parse the text between the brackets of a sharding. Raises ValueError where it is no sharding."""
    head, bracket, rest = body.partition(", [") if body.startswith("@") else body.rpartition(", [")
    dims_text, closing, tail = rest.partition("]")
    if not bracket or not closing:
        raise ValueError(f"'<{body}>' is no sharding")
    dims = [match[1] for match in _DIM.finditer(dims_text)]
    clauses = {name: _axes(text) for name, text in _CLAUSE.findall(tail)}
    is_open = tuple("?" in _AXIS.sub("", dim) for dim in dims)
    none: tuple[str, ...] = ()
    return Spelled(
        head.removeprefix("@"),
        tuple(_axes(dim) for dim in dims),
        is_open,
        clauses.get("replicated", none),
        clauses.get("unreduced", none),
    )


def _axes(text: str) -> tuple[str, ...]:
    return tuple(f"{name}:{part}" if part else name for name, part in _AXIS.findall(text))


def spell(sharding: Sharding, mesh: str, open_dims: Sequence[bool] = ()) -> str:
    """What stands between the brackets of a sharding over the mesh of this name."""
    opened = [*open_dims, *[False] * (sharding.rank - len(open_dims))]
    texts = [_spelled_axes(axes) for axes in sharding.dims]
    marked = [", ".join(filter(None, (text, "?" if o else ""))) for text, o in zip(texts, opened, strict=True)]
    dims = ", ".join(f"{{{text}}}" for text in marked)
    partial = f", unreduced={{{_spelled_axes(sharding.partial_axes)}}}" if sharding.partial else ""
    return f"@{mesh}, [{dims}]{partial}"


def _spelled_axes(axes: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' + axis.removeprefix(name) for axis, name in ((a, split_ref(a)[0]) for a in axes))
