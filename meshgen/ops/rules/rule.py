"""The sharding rule of an operation: its loops (factors) and which dims of its operands and results they walk.

Factor notation: a word is a factor, dims that share it are sharded alike, `(a b)` is a dim made of two
factors, major to minor, and `1` a dim that no factor walks. From a rule follow the iterator types and
indexing maps of the RFC's ShardingInterface.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from meshgen.ir.graph import TensorType, is_inexact
from meshgen.ir.symbols import Expr, expressions
from meshgen.ops.evaluate.common import bits

Kind = Literal["parallel", "indexed", "reduce", "combine", "scan", "window", "whole"]
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


OP_OF_KIND = {kind: op for op, kind in _REDUCTIONS.items()}
COMBINED_KINDS = {**_REDUCTIONS, "subtract": "sum"}
"""The kind of partial values that an element-wise op combines: it may run before or after their reduction."""


def reduction_kind(combiner: str) -> str:
    """The kind of partial value that a sharded reduction by this StableHLO op leaves."""
    return _REDUCTIONS[combiner]


@dataclass(frozen=True)
class Factor:
    """One loop. `parallel` may be sharded; `indexed` too, but an operand has positions along it, which the partitioner
    makes those in the tile; `reduce` too, but leaves a partial result; `combine` too, but the op
    itself gathers and combines what the devices have; `scan` too, but the op exchanges one row per device, the total
    of its tile; `window` too, but a tile of the result needs other rows of the
    operands than their tiles have; `whole` must not be.

    `size` is that of the result's dim for a window. A `reduce` factor may have windows too: then the op sums over
    an operand's dim, and a tile of it needs other rows of another operand.
    """

    name: str
    size: int
    kind: Kind = "parallel"
    reduction: str = ""


class Linear(NamedTuple):
    """If exactly these operands are partial of one of `kinds`, the result is partial of the same kind."""

    operands: tuple[int, ...]
    kinds: tuple[str, ...] = ("sum",)


def picked_kind(dtype: str) -> str:
    """The kind of partial value whose elements are each on one device, with neutral elements on the others.

    All f8E8M0FNU values are above zero, so addition has no neutral element.
    """
    return {"i1": "or", "f8E8M0FNU": "max"}.get(dtype, "sum")


def linear_in_each(operands: Sequence[TensorType], result: TensorType) -> tuple[Linear, ...]:
    """What a sum of products is linear in: each operand but an integer one that wraps around before the result does."""

    def wraps_alike(dtype: str) -> bool:
        if is_inexact(dtype) or is_inexact(result.dtype):
            return is_inexact(dtype) and is_inexact(result.dtype)
        return bits(dtype) >= bits(result.dtype)

    return tuple(Linear((number,)) for number, kind in enumerate(operands) if wraps_alike(kind.dtype))


class Window(NamedTuple):
    """Rows [r, s) of a window factor need rows [r stride + base, (s - 1) stride + base + width) of an operand's dim.

    A stride of -1 (width 1) is that of a reversed dim, whose rows are needed in the other order. Rows outside the operand are the op's padding.
    With a dilation d the operand's rows are counted as 0, d, 2 d, ...: between them is padding.
    """

    factor: int
    operand: int
    dim: int
    base: int
    stride: int = 1
    width: int = 1
    dilation: int = 1


class Pick(NamedTuple):
    """Few rows of an operand's dim, taken by a window: the devices may instead give those that they have and zeros for
    the others, so that the result is partial. That moves nothing here, and a sum of few rows later.
    """

    window: Window
    kind: str

    def pays(self, rows: int, devices: int) -> bool:
        """Whether a sum of the rows moves no more than gathering padded tiles of them."""
        return 2 * rows <= devices


@dataclass(frozen=True)
class Rule:
    """Factors, and per operand and result the factors of each dim (major to minor; none: read whole or size 1)."""

    factors: tuple[Factor, ...]
    operands: tuple[DimMap, ...]
    results: tuple[DimMap, ...]
    linear: tuple[Linear, ...] = ()
    windows: tuple[Window, ...] = ()
    picks: tuple[Pick, ...] = ()
    _places: tuple[Any, ...] = field(init=False, repr=False, compare=False, default=())

    def notation(self) -> str:
        """The rule in factor notation, followed by the factors that are not parallel."""
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
        names = {"whole": "invalid", "indexed": "parallel", "reduce": "reduction_", "combine": "reduction_generic"}
        return tuple(names.get(f.kind, f.kind) + f.reduction for f in self.factors)


def rule(
    notation: str,
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
    *,
    reduce: Mapping[str, str] | None = None,
    indexed: Sequence[str] = (),
    combine: Sequence[str] = (),
    scan: Sequence[str] = (),
    whole: Sequence[str] = (),
    linear: Sequence[Linear] = (),
    sizes: Mapping[str, int] | None = None,
    windows: Mapping[tuple[str, int], tuple[int, ...]] | None = None,
    picks: str = "",
) -> Rule:
    """A rule from its notation; sizes of factors come from the types (`sizes` gives those of compound dims).

    `windows` has (base, stride, width), and a dilation where it is not 1, of a factor in an operand (see `Window`);
    `picks` is the kind of partial result that windows may leave (see `Pick`).
    Raises ValueError when a side names the wrong number of tensors or dims, a factor has two sizes, or
    `reduce` / `whole` name a factor that does not occur.
    """
    notes = _Notes(
        tuple(sorted((reduce or {}).items())),
        tuple(indexed),
        tuple(combine),
        tuple(scan),
        tuple(whole),
        tuple(linear),
        tuple(sorted((sizes or {}).items())),
        tuple(sorted((windows or {}).items())),
        picks,
    )
    rows = (row for _, window in notes.windows for row in window)
    sizes_of = (size for kind in (*operands, *results) for size in kind.shape)
    named = expressions(itertools.chain(sizes_of, (size for _, size in notes.sizes), rows))
    return _parsed(notation, tuple(operands), tuple(results), notes, named)


class _Notes(NamedTuple):
    """The keyword arguments of `rule`, hashable."""

    reduce: tuple[tuple[str, str], ...]
    indexed: tuple[str, ...]
    combine: tuple[str, ...]
    scan: tuple[str, ...]
    whole: tuple[str, ...]
    linear: tuple[Linear, ...]
    sizes: tuple[tuple[str, int], ...]
    windows: tuple[tuple[tuple[str, int], tuple[int, ...]], ...]
    picks: str

    @property
    def windowed(self) -> set[str]:
        return {name for (name, _), _ in self.windows}


@lru_cache(maxsize=4096)
def _parsed(
    notation: str,
    operands: tuple[TensorType, ...],
    results: tuple[TensorType, ...],
    notes: _Notes,
    named: tuple[tuple[int, Expr], ...],
) -> Rule:
    """Repeated layers have the same rules: each is parsed once. `named` tells sizes apart that are equal numbers."""
    left, arrow, right = notation.partition("->")
    sides = [_tensors(left), _tensors(right)]
    if not arrow or [len(side) for side in sides] != [len(operands), len(results)]:
        raise ValueError(f"rule '{notation}' does not name {len(operands)} operands and {len(results)} results")
    table, windowed = dict(notes.sizes), notes.windowed
    order: dict[str, None] = {}
    for dims, kind in zip(sides[1], results, strict=True):
        _collect(notation, dims, kind, table, order, set())
    for dims, kind in zip(sides[0], operands, strict=True):
        _collect(notation, dims, kind, table, order, windowed)
    for name in (*dict(notes.reduce), *notes.indexed, *notes.combine, *notes.scan, *notes.whole, *sorted(windowed)):
        if name not in order:
            raise ValueError(f"rule '{notation}' has no factor '{name}'")
    loops = tuple(_factor(name, table[name], notes) for name in _loop_order(order, sides))
    number = {loop.name: i for i, loop in enumerate(loops)}
    maps = [tuple(tuple(tuple(number[w] for w in dim) for dim in dims) for dims in tensors) for tensors in sides]
    windows = [
        Window(number[name], operand, next(d for d, part in enumerate(maps[0][operand]) if number[name] in part), *rows)
        for (name, operand), rows in notes.windows
    ]
    picks = tuple(Pick(window, notes.picks) for window in windows if notes.picks and window.stride == 1)
    return Rule(loops, maps[0], maps[1], notes.linear, tuple(windows), picks)


def _tensors(side: str) -> list[list[list[str]]]:
    parts = side.split(",") if side.strip() else []
    return [
        [[w for w in re.findall(r"\w+", dim) if w != "1"] for dim in re.findall(r"\([^)]*\)|\w+", part)]
        if part.strip() != "()"
        else []
        for part in parts
    ]


def _collect(
    notation: str,
    dims: list[list[str]],
    kind: TensorType,
    table: dict[str, int],
    order: dict[str, None],
    windowed: set[str],
) -> None:
    """Note the factors of a tensor's dims and their sizes; that of a windowed one is the result's."""
    if len(dims) != kind.rank:
        raise ValueError(f"rule '{notation}' gives {len(dims)} dims to a tensor of rank {kind.rank}")
    for names, size in zip(dims, kind.sizes, strict=True):
        order |= dict.fromkeys(names)
        if len(names) == 1 and names[0] not in windowed and table.setdefault(names[0], size) != size:
            raise ValueError(f"rule '{notation}': factor '{names[0]}' has sizes {table[names[0]]} and {size}")
        if len(names) > 1 and math.prod(table[n] for n in names) != size:
            raise ValueError(f"rule '{notation}': factors {names} do not multiply to {size}")


def _loop_order(order: Iterable[str], sides: list[list[list[list[str]]]]) -> list[str]:
    """Loops of the results first, in their order, then the others in the operands' (the RFC's order)."""
    named = (n for dims in (*sides[1], *sides[0]) for dim in dims for n in dim)
    return [*dict.fromkeys(itertools.chain(named, order))]


def _factor(name: str, size: int, notes: _Notes) -> Factor:
    if reduction := dict(notes.reduce).get(name):
        return Factor(name, size, "reduce", reduction)
    if name in notes.indexed:
        return Factor(name, size, "indexed")
    if name in notes.combine:
        return Factor(name, size, "combine")
    if name in notes.scan:
        return Factor(name, size, "scan")
    if name in notes.windowed:
        return Factor(name, size, "window")
    return Factor(name, size, "whole" if name in notes.whole else "parallel")


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def letters(count: int, start: int = 0) -> list[str]:
    """Names for `count` factors: a, b, ..., z, a1, b1, ..."""
    return [_LETTERS[i % 26] + (str(i // 26) if i >= 26 else "") for i in range(start, start + count)]
