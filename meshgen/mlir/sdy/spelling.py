"""Shardy's syntax of meshes and shardings between the brackets, as tokens, independent of white space.

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
    """A mesh as `#sdy.mesh` spells it."""

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | None = None

    def __str__(self) -> str:
        axes = ", ".join(f'"{name}"={size}' for name, size in self.axes)
        ids = "" if self.device_ids is None else f", device_ids=[{', '.join(map(str, self.device_ids))}]"
        return f"[{axes}]{ids}"


class Spelled(NamedTuple):
    """A sharding as `#sdy.sharding` spells it; priorities are left out, for they mean nothing here."""

    mesh: str | SpelledMesh  # the symbol, or a mesh that is written in place
    dims: tuple[tuple[str, ...], ...]
    open_dims: tuple[bool, ...]
    replicated: tuple[str, ...] = ()
    unreduced: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()  # of the unreduced axes

    def __str__(self) -> str:
        mesh = f"mesh<{self.mesh}>" if isinstance(self.mesh, SpelledMesh) else _symbol_text(self.mesh)
        replicated = f", replicated={{{spell_axes(self.replicated)}}}" if self.replicated else ""
        partial = tuple(zip(self.unreduced, self.kinds, strict=True))
        return f"{mesh}, [{_dims_text(self.dims, self.open_dims)}]{replicated}{_unreduced_text(partial)}"


class Tokens:
    """A text, token by token. Raises ValueError where another one is expected."""

    def __init__(self, text: str) -> None:
        found = [match for match in _TOKEN.finditer(text) if match["blank"] is None]
        if wrong := next((match["other"] for match in found if match["other"] is not None), None):
            raise ValueError(f"unexpected '{wrong}'")
        self._tokens = [match[0] for match in found]
        self._place = 0

    @property
    def next(self) -> str:
        """The token at this place; empty at the end."""
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def take(self) -> str:
        token = self.next
        self._place += 1
        return token

    def accept(self, token: str) -> bool:
        """Skip a token if it is the next one."""
        is_next = self.next == token
        self._place += is_next
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
        """Items with commas between them."""
        self.expect(opening)
        found: list[_Item] = []
        while self.next != closing:
            if found:
                self.expect(",")
            found.append(item())
        self.take()
        return tuple(found)

    def end(self) -> None:
        if self.next:
            raise ValueError(f"unexpected '{self.next}'")


@lru_cache(maxsize=256)
def read_mesh(body: str) -> SpelledMesh:
    """Parse the text between the brackets of a mesh. Raises ValueError for a malformed one."""
    tokens = Tokens(body)
    found = _mesh(tokens)
    tokens.end()
    return found


@lru_cache(maxsize=4096)
def read_spelled(body: str) -> Spelled:
    """Parse the text between the brackets of a sharding. Raises ValueError for a malformed one."""
    try:
        return _sharding(Tokens(body))
    except ValueError as error:
        example = '<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced={"z"}>'
        raise ValueError(f"expected a sharding, such as {example}, got '<{body}>': {error}") from error


def read_axes(body: str) -> tuple[str, ...]:
    """Parse a list of axes, `{"x", "y":(1)2}`. Raises ValueError where it is none."""
    tokens = Tokens(body)
    found = _axes(tokens)
    tokens.end()
    return found


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
    """The axes by clause and kind: `, replicated={"x"}, unreduced=max{"y"}`; a sum needs no kind."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    while tokens.accept(","):
        name, kind = tokens.take(), "sum"
        if name not in ("replicated", "unreduced"):
            raise ValueError(f"unknown field '{name}'")
        tokens.expect("=")
        if name == "unreduced" and tokens.next in PARTIAL_KINDS:
            kind = tokens.take()
        if (name, kind) in found:
            raise ValueError(f"'{name}' is given twice")
        found[name, kind] = _axes(tokens)
    return found


def _dim(tokens: Tokens) -> tuple[tuple[str, ...], bool]:
    """The axes of a dim, and whether it is open: `{"x", "y", ?}p1`."""
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
    """An axis, or a part of one: `"x"`, `"x":(1)2`."""
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
    """The text between the brackets of a sharding over the mesh of this name."""
    opened = [*open_dims, *[False] * (sharding.rank - len(open_dims))]
    return f"{_symbol_text(mesh)}, [{_dims_text(sharding.dims, opened)}]{_unreduced_text(sharding.partial)}"


def spell_axes(axes: Sequence[str]) -> str:
    """`"x", "y":(1)2`"""
    return ", ".join(f'"{name}"' + axis.removeprefix(name) for axis, name in ((a, split_ref(a)[0]) for a in axes))


def _dims_text(dims: Sequence[Sequence[str]], open_dims: Sequence[bool]) -> str:
    texts = [
        ", ".join(filter(None, (spell_axes(axes), "?" if is_open else "")))
        for axes, is_open in zip(dims, open_dims, strict=True)
    ]
    return ", ".join(f"{{{text}}}" for text in texts)


def _unreduced_text(partial: Sequence[tuple[str, str]]) -> str:
    """A clause per kind; Shardy knows one, which is a sum where it is not said."""
    kinds = dict.fromkeys(kind for _, kind in partial)
    texts = {kind: spell_axes([axis for axis, each in partial if each == kind]) for kind in kinds}
    return "".join(f", unreduced={'' if kind == 'sum' else kind}{{{text}}}" for kind, text in texts.items())
