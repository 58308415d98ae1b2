"""Locations in MLIR text: the line of the user's program, the names of values, and the name stack that JAX gives an operation.

#loc7 = loc("/x/model.py":31:9 to :40)
#loc8 = loc("jit(f)/jvp(layer_3)/attn/dot_general"(#loc7))        model.py:31 in layer_3/attn

Of a chain of calls the innermost line counts that is in no installed package: for `callsite(".../site-packages/flax/linear.py":422 at "model.py":14)`,
in which flax computes what model.py asks for, that is model.py:14.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from meshgen.errors import Location

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)[^\S\n]*$", re.MULTILINE)
_NAME = re.compile(r'"((?:[^"\\]|\\.)*)"')
_POSITION = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)|(#loc\d*)\b')
_STACK = re.compile(r'"((?:[^"\\]|\\.)*/(?:[^"\\]|\\.)*)"\(')  # a name of several parts around a location
_UNNAMED = re.compile(
    r"p?jit\(.*\)|while|body|cond|branch_\d+_fun|closed_call|eval_jaxpr|checkpoint|rematted_computation|custom_[jv]+p_call|"
)  # that no user wrote
_TRANSFORMED = re.compile(r"p?jit\([^()]*\)|(?:jvp|vmap)\(([^()]*)\)")
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python3[.\d]*/|^<frozen ")
_DEPTH = 100  # of aliases


class Locations:
    """The locations that a text names by aliases, resolved when they are asked for."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = aliases
        self._known: dict[str, Location | None] = {}
        self._positions: dict[str, Location] = {}  # by alias, without scopes
        self._scopes: dict[str, str] = {}  # by name stack

    @staticmethod
    def taken_out(text: str) -> tuple[str, Locations]:
        """The text with blanks in place of its aliases, which MLIR prints after their uses, and the aliases."""
        aliases: dict[str, str] = {}

        def take(match: re.Match[str]) -> str:
            aliases[match[1]] = match[2]
            return " " * len(match[0])

        return _ALIAS.sub(take, text) if "loc(" in text else text, Locations(aliases)

    def place(self, text: str) -> Location | None:
        """Return the file position that a location stands for, and the scopes around it."""
        if text not in self._known:
            found = self._position(text)
            scope = self._scope(self._aliases.get(text, text)) if found else ""
            self._known[text] = Location(found.file, found.line, found.column, scope) if found and scope else found
        return self._known[text]

    def _scope(self, text: str) -> str:
        match = _STACK.search(text)
        if match is None:
            return ""
        stack = match[1].rpartition("/")[0]
        if (found := self._scopes.get(stack)) is None:
            found = self._scopes[stack] = _scope(stack)
        return found

    def name(self, text: str) -> str:
        """The name that is all of a location, as `loc("x")`; empty for other locations."""
        match = _NAME.fullmatch(self._aliases.get(text, text))
        return match[1].replace('\\"', '"') if match else ""

    def _position(self, text: str, depth: int = 0) -> Location | None:
        """Return the first position that the text names outside of installed packages, else the first one; without scopes."""
        first: Location | None = None
        for file, line, column, alias in _POSITION.findall(text):
            found = self._aliased(alias, depth) if alias else Location(file, int(line), int(column))
            if found is not None and not _LIBRARY.search(found.file):
                return found
            first = first or found
        return first

    def _aliased(self, alias: str, depth: int) -> Location | None:
        found = self._positions.get(alias)
        if found is None and depth < _DEPTH:
            found = self._position(self._aliases.get(alias, ""), depth + 1)
            if found is not None:
                self._positions[alias] = found
        return found


def _scope(stack: str) -> str:
    """The user's scopes in the name stack of an operation, without its own name.

    What differentiation computes is in the scope of what it is computed for: `jvp(layer_3)` is `layer_3`, and
    `transpose(jvp(layer_3))`, of a backward pass, `transpose(layer_3)`.
    """
    parts = map(_without_transformations, stack.split("/"))
    return "/".join(part for part in parts if not _UNNAMED.fullmatch(part))


def _without_transformations(part: str) -> str:
    """Return a part of a name stack without `jit`, `jvp` and `vmap`, from the inside outwards."""
    before = ""
    while part != before:
        before, part = part, _TRANSFORMED.sub(lambda match: match[1] or "", part)
    return part.replace("transpose()", "transpose")
