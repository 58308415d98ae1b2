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
_AXES_TEXT = r'(?:"[^"]+"(?::\(\d+\)\d+)?(?:\s*,\s*(?="))?)*'
_DIM_TEXT = rf"\{{\s*{_AXES_TEXT}\s*,?\s*\??\s*\}}(?:p\d+)?"
_SHARDING = re.compile(
    rf"\s*(?:@(?P<symbol>[\w$.-]+)|@\"(?P<quoted>[^\"]*)\"|(?P<mesh>mesh<[^<>]*>))\s*,"
    rf"\s*\[\s*(?P<dims>(?:{_DIM_TEXT}(?:\s*,\s*(?=\{{))?)*)\s*\]"
    rf"(?P<clauses>(?:\s*,\s*(?:replicated|unreduced)\s*=\s*\{{\s*{_AXES_TEXT}\s*\}})*)\s*"
)
_MESH = re.compile(r'\s*\[\s*(?:"[^"]+"\s*=\s*\d+(?:\s*,\s*(?="))?)*\s*\]\s*(?:,\s*device_ids\s*=\s*\[[\d,\s]*\]\s*)?')
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

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        body = super().parse_parameter(parser)
        if _MESH.fullmatch(body) is None:
            parser.raise_error(f'\'<{body}>\' is no mesh, such as <["x"=2, "y"=4]> or <["x"=2], device_ids=[1, 0]>')
        return body


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
    match = _SHARDING.fullmatch(body)
    if match is None:
        raise ValueError(
            f'\'<{body}>\' is no sharding, such as <@mesh, [{{"x"}}, {{?}}], replicated={{"y"}}, unreduced={{"z"}}>'
        )
    dims = [dim[1] for dim in _DIM.finditer(match["dims"])]
    clauses = {name: _axes(text) for name, text in _CLAUSE.findall(match["clauses"])}
    is_open = tuple("?" in _AXIS.sub("", dim) for dim in dims)
    none: tuple[str, ...] = ()
    return Spelled(
        match["symbol"] or match["quoted"] or match["mesh"] or "",
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
