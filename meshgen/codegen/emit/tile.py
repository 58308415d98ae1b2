"""The variables of the tile that a kernel's source is about, and what its numbers look like in source."""

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
    """A variable of a tile as the number of its first lane, the same in all lanes, and what each lane adds to it."""

    first: Var
    lane: Var


@dataclass
class Tile:
    """The variables of the tile in hand.

    Attributes:
        edges: the condition under which each is inside its range ("": always).
        lanes: what some of them are sums of.
    """

    edges: dict[Var, str] = field(default_factory=dict)
    lanes: dict[Var, Lanes] = field(default_factory=dict)


class Spans:
    """Which variables of the tile the registers that a name stands for vary with."""

    def __init__(self) -> None:
        self._of: dict[str, frozenset[str]] = {}

    def note(self, name: str, variables: Iterable[str]) -> None:
        self._of[name] = frozenset(variables)

    def of(self, text: str, tile: Tile) -> frozenset[str]:
        """Those of a piece of source."""
        names = {v.text for v in tile.edges}
        words = re.findall(r"[A-Za-z_]\w*", text)
        lanes = {each.lane.text: frozenset((var.text,)) for var, each in tile.lanes.items()}
        known = lanes | self._of
        return frozenset().union(*({w} & names | known.get(w, frozenset()) for w in words))


def needs_wide(body: Graph) -> bool:
    """Whether some position does not fit 32 bits, in what the kernel touches or in what it only computes."""
    return any(v.type.size >= 2**31 - 2**20 for v in body.values())


def is_literal(code: Code) -> bool:
    return bool(re.match(r"[-\d(]|float\(", code.text))


def calls_method(text: str, literal_text: str) -> bool:
    """Whether source calls a method of a literal: `2.to(tl.int64)`."""
    return bool(re.search(rf"(?<![\w.]){re.escape(literal_text)}\.[a-z]", text))


def neutral_number(kind: str, dtype: str) -> float | int:
    """The neutral element of a reduction, spelt as an op (`add`) or as a partial kind (`sum`)."""
    return neutral(kind, dtype).item()
