"""Parse and print the text between the brackets of Shardy's meshes and shardings. White space is ignored.

mesh       ["x"=2, "y"=4], device_ids=[7, 6, 5, 4, 3, 2, 1, 0]
sharding   @mesh, [{"x", "y":(1)2}, {?}p1], replicated={"z"}, unreduced=max{"w"}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from meshgen.mesh import split_ref
from meshgen.spec import PARTIAL_KINDS, Sharding

_TOKEN = re.compile(
    r'"[^"]*"|@"[^"]*"|@[\w$.-]+|->|\d+|[A-Za-z_][\w$.]*|[\[\]{}()<>,:=?]|(?P<blank>\s+|//[^\n]*)|(?P<other>.)'
)
_BARE = re.compile(r"[\w$.-]+")
_PRIORITY = re.compile(r"p(0|[1-9]\d{0,17})")
_Item = TypeVar("_Item")


class SpelledMesh(NamedTuple):
    """A mesh as written in `#sdy.mesh`: its axes with their sizes, and its device ids or None."""

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | None = None

    def __str__(self) -> str:
        axes = ", ".join(f'"{name}"={size}' for name, size in self.axes)
        ids = "" if self.device_ids is None else f", device_ids=[{', '.join(map(str, self.device_ids))}]"
        return f"[{axes}]{ids}"


class Spelled(NamedTuple):
    """A sharding as written in `#sdy.sharding`, without the priorities, which meshgen ignores."""

    mesh: str | SpelledMesh  # the name of a declared mesh, or a mesh that is spelled out in the sharding
    dims: tuple[tuple[str, ...], ...]
    open_dims: tuple[bool, ...]
    replicated: tuple[str, ...] = ()
    unreduced: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()  # the reduction kind of each axis in `unreduced`

    def __str__(self) -> str:
        mesh = f"mesh<{self.mesh}>" if isinstance(self.mesh, SpelledMesh) else _symbol_text(self.mesh)
        replicated = f", replicated={{{spell_axes(self.replicated)}}}" if self.replicated else ""
        partial = tuple(zip(self.unreduced, self.kinds, strict=True))
        return f"{mesh}, [{_dims_text(self.dims, self.open_dims)}]{replicated}{_unreduced_text(partial)}"


class Tokens:
    """A cursor over the tokens of a text. The methods raise ValueError if the next token is not the expected one."""

    def __init__(self, text: str) -> None:
        matches = [match for match in _TOKEN.finditer(text) if match["blank"] is None]
        if invalid := next((match["other"] for match in matches if match["other"] is not None), None):
            raise ValueError(f"unexpected '{invalid}'")
        self._tokens = [match[0] for match in matches]
        self._position = 0

    @property
    def next(self) -> str:
        """The token at the cursor, or "" at the end of the text."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def take(self) -> str:
        token = self.next
        self._position += 1
        return token

    def accept(self, token: str) -> bool:
        """Skip `token` if it is the next token. Returns whether it was."""
        is_next = self.next == token
        self._position += is_next
        return is_next

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise ValueError(f"'{token}' expected")

    def string(self) -> str:
        token = self.take()
        if len(token) < 3 or token[0] != '"':
            raise ValueError("expected a name in quotes")
        return token[1:-1]

    def number(self) -> int:
        token = self.take()
        if not token.isdecimal():
            raise ValueError("expected a number")
        return int(token)

    def listed(self, opening: str, item: Callable[[], _Item], closing: str) -> tuple[_Item, ...]:
        """Parse `opening`, items separated by commas, and `closing`. The function `item` parses one item."""
        self.expect(opening)
        items: list[_Item] = []
        while self.next != closing:
            if items:
                self.expect(",")
            items.append(item())
        self.take()
        return tuple(items)

    def end(self) -> None:
        if self.next:
            raise ValueError(f"unexpected '{self.next}'")


@lru_cache(maxsize=256)
def read_mesh(body: str) -> SpelledMesh:
    """Parse the text between the brackets of a mesh. Raises ValueError if it is malformed."""
    tokens = Tokens(body)
    mesh = _mesh(tokens)
    tokens.end()
    return mesh


@lru_cache(maxsize=4096)
def read_spelled(body: str) -> Spelled:
    """Parse the text between the brackets of a sharding. Raises ValueError if it is malformed."""
    try:
        return _sharding(Tokens(body))
    except ValueError as error:
        example = '<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced={"z"}>'
        raise ValueError(f"expected a sharding, such as {example}, got '<{body}>': {error}") from error


def read_axes(body: str) -> tuple[str, ...]:
    """Parse a list of axes, such as `{"x", "y":(1)2}`. Raises ValueError if it is malformed."""
    tokens = Tokens(body)
    axes = _axes(tokens)
    tokens.end()
    return axes


def _mesh(tokens: Tokens) -> SpelledMesh:
    def axis() -> tuple[str, int]:
        name = tokens.string()
        tokens.expect("=")
        return name, tokens.number()

    axes = tokens.listed("[", axis, "]")
    if not tokens.accept(","):
        return SpelledMesh(axes)
    tokens.expect("device_ids")
    tokens.expect("=")
    return SpelledMesh(axes, tokens.listed("[", tokens.number, "]"))


def _mesh_or_symbol(tokens: Tokens) -> str | SpelledMesh:
    if tokens.accept("mesh"):
        tokens.expect("<")
        mesh = _mesh(tokens)
        tokens.expect(">")
        return mesh
    symbol = tokens.take()
    if not symbol.startswith("@"):
        raise ValueError("expected the name of a mesh, or mesh<...>")
    return symbol[1:].strip('"')


def _sharding(tokens: Tokens) -> Spelled:
    mesh = _mesh_or_symbol(tokens)
    tokens.expect(",")
    dims = tokens.listed("[", lambda: _dim(tokens), "]")
    clauses = _clauses(tokens)
    tokens.end()
    replicated = clauses.pop(("replicated", "sum"), ())
    partial = [(axis, kind) for (_, kind), axes in clauses.items() for axis in axes]
    return Spelled(
        mesh,
        tuple(axes for axes, _ in dims),
        tuple(is_open for _, is_open in dims),
        replicated,
        tuple(axis for axis, _ in partial),
        tuple(kind for _, kind in partial),
    )


def _clauses(tokens: Tokens) -> dict[tuple[str, str], tuple[str, ...]]:
    """Parse the clauses after the dims, such as `, replicated={"x"}, unreduced=max{"y"}`.

    Returns:
        (clause name, reduction kind) -> axes. The kind is "sum" if the text has none.
    """
    clauses: dict[tuple[str, str], tuple[str, ...]] = {}
    while tokens.accept(","):
        name, kind = tokens.take(), "sum"
        if name not in ("replicated", "unreduced"):
            raise ValueError(f"unknown field '{name}'")
        tokens.expect("=")
        if name == "unreduced" and tokens.next in PARTIAL_KINDS:
            kind = tokens.take()
        if (name, kind) in clauses:
            raise ValueError(f"'{name}' is given twice")
        clauses[name, kind] = _axes(tokens)
    return clauses


def _dim(tokens: Tokens) -> tuple[tuple[str, ...], bool]:
    """Parse a dim, such as `{"x", "y", ?}p1`. Returns its axes, and whether it is open (`?`)."""
    tokens.expect("{")
    axes: list[str] = []
    is_open = False
    while not is_open and tokens.next != "}":
        if axes:
            tokens.expect(",")
        is_open = tokens.accept("?")
        if not is_open:
            axes.append(_axis(tokens))
    tokens.expect("}")
    if _PRIORITY.fullmatch(tokens.next):
        if not axes and not is_open:
            raise ValueError(f"a dim that is closed and has no axes has no priority, got '{tokens.next}'")
        tokens.take()
    return tuple(axes), is_open


def _axes(tokens: Tokens) -> tuple[str, ...]:
    return tokens.listed("{", lambda: _axis(tokens), "}")


def _axis(tokens: Tokens) -> str:
    """Parse an axis `"x"` or a sub-axis such as `"x":(1)2`."""
    name = tokens.string()
    if not tokens.accept(":"):
        return name
    tokens.expect("(")
    before = tokens.number()
    tokens.expect(")")
    return f"{name}:({before}){tokens.number()}"


def _symbol_text(name: str) -> str:
    return f"@{name}" if _BARE.fullmatch(name) else f'@"{name}"'


def spell(sharding: Sharding, mesh: str, open_dims: Sequence[bool] = ()) -> str:
    """Return the text of `sharding` between the brackets of `#sdy.sharding<...>`, over the mesh named `mesh`."""
    opened = [*open_dims, *[False] * (sharding.rank - len(open_dims))]
    return f"{_symbol_text(mesh)}, [{_dims_text(sharding.dims, opened)}]{_unreduced_text(sharding.partial)}"


def spell_axes(axes: Sequence[str]) -> str:
    """Return the text of a list of axes, such as `"x", "y":(1)2`."""
    return ", ".join(f'"{name}"' + axis.removeprefix(name) for axis, name in ((a, split_ref(a)[0]) for a in axes))


def _dims_text(dims: Sequence[Sequence[str]], open_dims: Sequence[bool]) -> str:
    texts = [
        ", ".join(filter(None, (spell_axes(axes), "?" if is_open else "")))
        for axes, is_open in zip(dims, open_dims, strict=True)
    ]
    return ", ".join(f"{{{text}}}" for text in texts)


def _unreduced_text(partial: Sequence[tuple[str, str]]) -> str:
    """Return one `unreduced` clause per reduction kind. The kind "sum" is omitted: Shardy knows no other kind."""
    kinds = dict.fromkeys(kind for _, kind in partial)
    texts = {kind: spell_axes([axis for axis, axis_kind in partial if axis_kind == kind]) for kind in kinds}
    return "".join(f", unreduced={'' if kind == 'sum' else kind}{{{text}}}" for kind, text in texts.items())
