"""The tile variables of a kernel's source, and predicates on source text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from meshgen.codegen.expr import Var
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.triton.registers import Code


class Lanes(NamedTuple):
    """A tile variable as the sum of the first lane's position, which all lanes share, and the offset of each lane."""

    first: Var
    lane: Var


@dataclass
class Tile:
    """The variables of the current tile.

    Attributes:
        edges: the in-bounds condition of each variable, or "" if it always holds.
        lanes: for each variable that is the sum of a first position and an offset per lane, these two terms.
    """

    edges: dict[Var, str] = field(default_factory=dict)
    lanes: dict[Var, Lanes] = field(default_factory=dict)


class Spans:
    """For each register name, the tile variables that the register varies with."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}

    def note(self, name: str, variables: Iterable[str]) -> None:
        self._of[name] = frozenset(variables)

    def of(self, text: str, tile: Tile) -> frozenset[str]:
        """Return the tile variables that the source expression `text` varies with."""
        names = {v.text for v in tile.edges}
        words = re.findall(r"[A-Za-z_]\w*", text)
        lanes = {summands.lane.text: frozenset((var.text,)) for var, summands in tile.lanes.items()}
        spans = lanes | self._of
        return frozenset().union(*({w} & names | spans.get(w, frozenset()) for w in words))


def needs_wide(body: Graph) -> bool:
    """Whether an index of some value of the body does not fit in 32 bits, even if the kernel keeps the value in
    registers.
    """
    return any(v.type.size >= 2**31 - 2**20 for v in body.values())


def is_literal(code: Code) -> bool:
    return bool(re.match(r"[-\d(]|float\(", code.text))


def calls_method(text: str, literal_text: str) -> bool:
    """Whether the source `text` calls a method of a literal, as in `2.to(tl.int64)`."""
    return bool(re.search(rf"(?<![\w.]){re.escape(literal_text)}\.[a-z]", text))


def neutral_number(kind: str, dtype: str) -> float | int:
    """Return the neutral element of a reduction. `kind` is an op (`add`) or a kind of partial value (`sum`)."""
    return neutral(kind, dtype).item()
