"""The sharding rule of an operation: its loops (factors) and which dims of its operands and results they walk.

Factor notation: a word is a factor, dims that share it are sharded alike, `(a b)` is a dim made of two
factors, major to minor, and `1` a dim that no factor walks. From a rule follow the iterator types and
indexing maps of the RFC's ShardingInterface.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from meshgen.ir.graph import TensorType

Kind = Literal["parallel", "reduce", "whole"]
DimMap = tuple[tuple[int, ...], ...]
_REDUCTIONS = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "product",
    "and": "and",
    "or": "or",
    "xor": "xor",
}
ALL_KINDS = tuple(_REDUCTIONS.values())


def reduction_kind(combiner: str) -> str:
    """The kind of partial value that a sharded reduction by this StableHLO op leaves."""
    return _REDUCTIONS[combiner]


@dataclass(frozen=True)
class Factor:
    """One loop. `parallel` may be sharded, `reduce` too but leaves a partial result, `whole` must not be."""

    name: str
    size: int
    kind: Kind = "parallel"
    reduction: str = ""


@dataclass(frozen=True)
class Linear:
    """If exactly these operands are partial of one of `kinds`, the result is partial of the same kind."""

    operands: tuple[int, ...]
    kinds: tuple[str, ...] = ("sum",)


@dataclass(frozen=True)
class Rule:
    """Factors, and per operand and result the factors of each dim (major to minor; none: read whole or size 1)."""

    factors: tuple[Factor, ...]
    operands: tuple[DimMap, ...]
    results: tuple[DimMap, ...]
    linear: tuple[Linear, ...] = ()
    _places: tuple[Any, ...] = field(init=False, repr=False, compare=False, default=())

    def notation(self) -> str:
        """The rule in factor notation, with what is not parallel behind it."""
        sides = [", ".join(self._dims(m) for m in side) for side in (self.operands, self.results)]
        tail = "".join(
            f" {f.kind}({f.name}{': ' + f.reduction if f.reduction else ''})"
            for f in self.factors
            if f.kind != "parallel"
        )
        return f"{sides[0]} -> {sides[1]}{tail}".strip()

    def _dims(self, dims: DimMap) -> str:
        words = [" ".join(self.factors[f].name for f in part) or "1" for part in dims]
        return " ".join(f"({w})" if " " in w else w for w in words) or "()"

    def __post_init__(self) -> None:
        def find(dims: DimMap, factor: int) -> int | None:
            return next((d for d, part in enumerate(dims) if factor in part), None)

        sides = (self.operands, self.results)
        table = tuple(tuple(tuple(find(m, f) for m in side) for side in sides) for f in range(len(self.factors)))
        object.__setattr__(self, "_places", table)

    def places(self, factor: int) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
        """The dim of each operand and of each result that has the factor."""
        return self._places[factor]

    def iterator_types(self) -> tuple[str, ...]:
        """The RFC's loop types: parallel, reduction_KIND or invalid."""
        names = {"parallel": "parallel", "whole": "invalid"}
        return tuple(names.get(f.kind) or f"reduction_{f.reduction}" for f in self.factors)


def rule(
    notation: str,
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
    *,
    reduce: Mapping[str, str] | None = None,
    whole: Sequence[str] = (),
    linear: Sequence[Linear] = (),
    sizes: Mapping[str, int] | None = None,
) -> Rule:
    """A rule from its notation; sizes of factors come from the types (`sizes` gives those of compound dims).

    Raises ValueError when a side names the wrong number of tensors or dims, a factor has two sizes, or
    `reduce` / `whole` name a factor that does not occur.
    """
    named = (tuple(sorted((reduce or {}).items())), tuple(whole), tuple(linear), tuple(sorted((sizes or {}).items())))
    return _parsed(notation, tuple(operands), tuple(results), *named)


@lru_cache(maxsize=4096)
def _parsed(
    notation: str,
    operands: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    reduced: tuple[tuple[str, str], ...],
    whole: tuple[str, ...],
    linear: tuple[Linear, ...],
    sizes: tuple[tuple[str, int], ...],
) -> Rule:
    """Repeated layers have the same rules: each is parsed once."""
    reduce = dict(reduced)
    left, arrow, right = notation.partition("->")
    sides = [_tensors(left), _tensors(right)]
    types = [list(operands), list(results)]
    if not arrow or [len(s) for s in sides] != [len(t) for t in types]:
        raise ValueError(f"rule '{notation}' does not name {len(operands)} operands and {len(results)} results")
    table = dict(sizes)
    order: list[str] = []
    for tensors, kinds in zip(sides, types, strict=True):
        for dims, kind in zip(tensors, kinds, strict=True):
            _collect(notation, dims, kind, table, order)
    for name in (*reduce, *whole):
        if name not in order:
            raise ValueError(f"rule '{notation}' has no factor '{name}'")
    loops = tuple(_factor(n, table[n], reduce, whole) for n in _loop_order(order, sides[1]))
    number = {f.name: i for i, f in enumerate(loops)}
    maps = [tuple(tuple(tuple(number[w] for w in dim) for dim in dims) for dims in tensors) for tensors in sides]
    return Rule(loops, maps[0], maps[1], linear)


def _tensors(side: str) -> list[list[list[str]]]:
    parts = side.split(",") if side.strip() else []
    return [
        [[w for w in re.findall(r"\w+", dim) if w != "1"] for dim in re.findall(r"\([^)]*\)|\w+", part)]
        if part.strip() != "()"
        else []
        for part in parts
    ]


def _collect(notation: str, dims: list[list[str]], kind: TensorType, table: dict[str, int], order: list[str]) -> None:
    if len(dims) != kind.rank:
        raise ValueError(f"rule '{notation}' gives {len(dims)} dims to a tensor of rank {kind.rank}")
    for names, size in zip(dims, kind.sizes, strict=True):
        order += [n for n in names if n not in order]
        if len(names) == 1 and table.setdefault(names[0], size) != size:
            raise ValueError(f"rule '{notation}': factor '{names[0]}' has sizes {table[names[0]]} and {size}")
        if len(names) > 1 and math.prod(table[n] for n in names) != size:
            raise ValueError(f"rule '{notation}': factors {names} do not multiply to {size}")


def _loop_order(order: list[str], results: list[list[list[str]]]) -> list[str]:
    """Loops of the results first, in their order, then the others (the RFC's order)."""
    first: list[str] = []
    for dims in results:
        first += [n for dim in dims for n in dim if n not in first]
    return first + [n for n in order if n not in first]


def _factor(name: str, size: int, reduce: Mapping[str, str], whole: Sequence[str]) -> Factor:
    if name in reduce:
        return Factor(name, size, "reduce", reduce[name])
    return Factor(name, size, "whole" if name in whole else "parallel")
