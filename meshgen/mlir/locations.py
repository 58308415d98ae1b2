"""Locations in MLIR text: source positions, value names, and the name stack that JAX attaches to each operation.

#loc7 = loc("/x/model.py":31:9 to :40)
#loc8 = loc("jit(f)/jvp(layer_3)/attn/dot_general"(#loc7))        model.py:31 in layer_3/attn

A call chain resolves to its innermost line outside of installed packages. For example,
`callsite(".../site-packages/flax/linear.py":422 at "model.py":14)` resolves to model.py:14, the line that calls flax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from meshgen.errors import Location

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)[^\S\n]*$", re.MULTILINE)
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)|(#loc\d*)\b')
# matches the opening of a location that a name stack (names separated by `/`) wraps
_STACK = re.compile(r'"((?:[^"\\]|\\.)*/(?:[^"\\]|\\.)*)"\(')
_UNNAMED = re.compile(
    r"p?jit\(.*\)|while|body|cond|branch_\d+_fun|closed_call|eval_jaxpr|checkpoint|rematted_computation|custom_[jv]+p_call|"
)  # matches a component of a name stack that JAX adds by itself
_TRANSFORMED = re.compile(r"p?jit\([^()]*\)|(?:jvp|vmap)\(([^()]*)\)")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|^<frozen ")
# Longest chain of location aliases that is followed. Chosen: MLIR prints chains of a few, and a longer one may be a
# cycle
_DEPTH = 100


class Locations:
    """The location aliases of a text, such as `#loc7 = loc(...)`. An alias is resolved when it is first looked up."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._resolved: dict[str, Location | None] = {}
        self._positions: dict[str, Location] = {}  # alias -> file position, without the scopes of name stacks
        self._scopes: dict[str, str] = {}  # name stack -> the user's scopes in it

    @staticmethod
    def extract_aliases(text: str) -> tuple[str, Locations]:
        """Extract the location aliases, whose definitions MLIR prints after their uses.

        Returns the aliases, and the text with blanks in place of the definitions, so that offsets into the text stay
        valid.
        """
        aliases: dict[str, str] = {}

        def take(match: re.Match[str]) -> str:
            aliases[match[1]] = match[2]
            return " " * len(match[0])

        return _ALIAS.sub(take, text) if "loc(" in text else text, Locations(aliases)

    def resolve(self, text: str) -> Location | None:
        """Return the file position of `text`, a location or alias, with the user's scopes around it.

        Returns None if the location has no file position.
        """
        if text not in self._resolved:
            position = self._position(text)
            scope = self._scope(self._aliases.get(text, text)) if position else ""
            self._resolved[text] = (
                Location(position.file, position.line, position.column, scope) if position and scope else position
            )
        return self._resolved[text]

    def _scope(self, text: str) -> str:
        match = _STACK.search(text)
        if match is None:
            return ""
        stack = match[1].rpartition("/")[0]
        if (scope := self._scopes.get(stack)) is None:
            scope = self._scopes[stack] = _scope(stack)
        return scope

    def name(self, text: str) -> str:
        """Return the name in a location that consists of a name only, such as `loc("x")`, or "" for other locations."""
        match = _NAME.fullmatch(self._aliases.get(text, text))
        return match[1].replace('\\"', '"') if match else ""

    def _position(self, text: str, depth: int = 0) -> Location | None:
        """Return the first file position in `text` outside of installed packages, else the first position. It has no
        scopes.
        """
        first: Location | None = None
        for file, line, column, alias in _POSITION.findall(text):
            position = self._aliased(alias, depth) if alias else Location(file, int(line), int(column))
            if position is not None and not _LIBRARY.search(position.file):
                return position
            first = first or position
        return first

    def _aliased(self, alias: str, depth: int) -> Location | None:
        position = self._positions.get(alias)
        if position is None and depth < _DEPTH:
            position = self._position(self._aliases.get(alias, ""), depth + 1)
            if position is not None:
                self._positions[alias] = position
        return position


def _scope(stack: str) -> str:
    """Return the user's scopes in a name stack, separated by `/`. `stack` excludes the name of the operation.

    An operation of a derivative belongs to the scope that is differentiated: `jvp(layer_3)` becomes `layer_3`, and
    `transpose(jvp(layer_3))`, in a backward pass, becomes `transpose(layer_3)`.
    """
    parts = map(_without_transformations, stack.split("/"))
    return "/".join(part for part in parts if not _UNNAMED.fullmatch(part))


def _without_transformations(part: str) -> str:
    """Strip `jit`, `jvp` and `vmap` from one component of a name stack, innermost first: `jvp(layer_3)` becomes
    `layer_3`.
    """
    before = ""
    while part != before:
        before, part = part, _TRANSFORMED.sub(lambda match: match[1] or "", part)
    return part.replace("transpose()", "transpose")
