"""Factor notation: names for the dims of a composite's operands and results, and their roles in attention.

"b t k g d, b s k d, b s k e, t s -> b t k g e, b k g t": `d` is contracted in the scores, `s` enumerates
the keys, and `e` is the width of the values. All other factors are batch, heads and rows. The order of
factors may differ per operand.

The gradients have further operands: the log-sum-exp of each row, `delta`, and the gradient of the result:
"b t k g d, b s k d, b s k e, b k g t, b k g t, b t k g e, t s -> b t k g d".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meshgen.ir.graph import Node, TensorType

Names = tuple[str, ...]
_TEXT = re.compile(r"[a-z]\w*( [a-z]\w*)*|\(\)")
QUERIES, KEYS, VALUES, ROWS, DELTA, GRADIENT = range(6)
FORWARD = "attention"
QUERY_GRADIENT, KEY_GRADIENT = "attention_gradient_queries", "attention_gradient_keys"
KEYLESS = -5e7
"""A bound on the log-sum-exp of a row, in natural log units: below it, all scores of the row are masked by large
negative numbers. The log of the sum is then lost to f32 rounding (spacing 4), and the probabilities are equal.
"""
RESULTS = {FORWARD: 2, QUERY_GRADIENT: 1, KEY_GRADIENT: 2}
"""Results per op: the output and the log-sum-exp; the gradient of the queries; the gradients of keys and values."""


def fixed(op: str) -> int:
    """Return the number of leading operands whose elements are not arguments of the regions."""
    return VALUES + 1 if op == FORWARD else GRADIENT + 1


@dataclass(frozen=True)
class Factors:
    """The factors of each operand and result of an op, in dim order, and the size of each factor."""

    op: str
    operands: tuple[Names, ...]
    results: tuple[Names, ...]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, node: Node) -> Factors:
        """Return the factors of a well-formed node with known sizes."""
        operands, results = parsed(node.attrs.factors)
        types = (value.type for value in (*node.operands, *node.results))
        sizes: dict[str, int] = {}
        for names, kind in zip((*operands, *results), types, strict=True):
            sizes.update(zip(names, kind.sizes, strict=True))
        return cls(node.op, operands, results, sizes)

    @property
    def out(self) -> Names:
        """The factors of the output of attention, in dim order. A gradient takes the gradient of this output."""
        return self.results[0] if self.op == FORWARD else self.operands[GRADIENT]

    @property
    def rows(self) -> Names:
        """The factors of the rows of the scores: batch, heads and queries."""
        return self.results[1] if self.op == FORWARD else self.operands[ROWS]

    @property
    def depth(self) -> Names:
        """The factors that the matmul of queries and keys contracts."""
        kept = {*self.operands[VALUES], *self.out}
        return tuple(f for f in self.operands[QUERIES] if f in self.operands[KEYS] and f not in kept)

    @property
    def keys(self) -> Names:
        """The factors that the softmax and the matmul with the values reduce, in the dim order of the keys."""
        return tuple(f for f in self.operands[KEYS] if f in self.operands[VALUES] and f not in self.out)

    @property
    def width(self) -> Names:
        """The factors along one row of the values operand: the dims of the vector that belongs to a key."""
        return tuple(f for f in self.operands[VALUES] if f not in self.rows and f not in self.keys)

    @property
    def elements(self) -> tuple[Names, ...]:
        """The factors of the operands whose elements are arguments of the regions."""
        return self.operands[fixed(self.op) :]

    def shape(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in names)


def parsed(text: str) -> tuple[tuple[Names, ...], tuple[Names, ...]]:
    """Parse factor notation into the factors of operands and results. Raises ValueError for malformed text."""
    left, arrow, right = text.partition("->")
    sides = [[word.strip() for word in side.split(",")] for side in (left, right)]
    if not arrow or not all(_TEXT.fullmatch(word) for side in sides for word in side):
        raise ValueError(f"'{text}' is not of the form 'a b, b c -> a c'")
    operands, results = (tuple(() if word == "()" else tuple(word.split()) for word in side) for side in sides)
    return operands, results


def notation(operands: Sequence[Names], results: Sequence[Names]) -> str:
    """Print factors as text: the inverse of `parsed`."""
    sides = (", ".join(" ".join(names) or "()" for names in side) for side in (operands, results))
    return " -> ".join(sides)


def faults(op: str, text: str, operands: Sequence[TensorType], results: Sequence[TensorType] | None) -> list[str]:
    """Return messages about wrong factors of attention or of a gradient. `results` is None if the types are unknown."""
    messages = size_faults(text, operands, results, RESULTS[op])
    if messages:
        return messages
    left, right = parsed(text)
    if len(left) < fixed(op):
        return [f"factors '{text}' are not those of {fixed(op)} operands or more"]
    return _role_faults(Factors(op, left, right, {}))


def size_faults(
    text: str, operands: Sequence[TensorType], results: Sequence[TensorType] | None, result_count: int
) -> list[str]:
    """Return messages about factors that do not match the types. `results` is None if the types are unknown."""
    try:
        left, right = parsed(text)
    except ValueError as error:
        return [str(error)]
    if len(left) != len(operands) or len(right) != result_count:
        return [f"factors '{text}' are not those of {len(operands)} operands and {result_count} results"]
    sizes: dict[str, int | None] = {}
    messages: list[str] = []
    for names, kind in zip((*left, *right), (*operands, *(results or ())), strict=False):
        if len(set(names)) != len(names) or len(names) != kind.rank:
            messages.append(f"factors '{' '.join(names)}' are not the dims of {kind}")
            continue
        for name, size in zip(names, kind.shape, strict=True):
            if size is not None and sizes.setdefault(name, size) not in (size, None):
                messages.append(f"factor '{name}' has sizes {sizes[name]} and {size}")
    missing = dict.fromkeys(f for names in right for f in names if all(f not in words for words in left))
    return messages or [f"factor '{name}' of a result is in no operand" for name in missing]


def _role_faults(factors: Factors) -> list[str]:
    queries, keys = (set(names) for names in factors.operands[:VALUES])
    rows, summed, depth, width = set(factors.rows), set(factors.keys), set(factors.depth), set(factors.width)
    checks = [
        (bool(summed) and not summed & (queries | rows), "keys and values share no factor that queries and rows lack"),
        (queries == depth | (queries & rows), "a factor of the queries is neither contracted nor a factor of the rows"),
        (keys == depth | summed | (keys & rows), "a factor of the keys is neither contracted nor a factor of the rows"),
        (not width & (queries | keys), "a width factor of the values occurs in the queries or keys"),
        (rows <= queries | keys, "a factor of the rows occurs neither in the queries nor in the keys"),
        (set(factors.out) == rows | width, "the factors of the result are not those of the rows and the width"),
        (all({*names} <= rows | summed for names in factors.elements), "an element-wise operand has a factor that the scores lack"),
    ]  # fmt: skip
    if factors.op != FORWARD:
        per_row = factors.operands[ROWS] == factors.operands[DELTA]
        checks.append((per_row, "log-sum-exp and delta have different factors"))
        required_and_optional = (
            [(depth, rows)] if factors.op == QUERY_GRADIENT else [(depth | summed, rows), (width | summed, rows)]
        )
        fits = all(
            required <= {*names} <= required | optional
            for names, (required, optional) in zip(factors.results, required_and_optional, strict=True)
        )
        checks.append((fits, "a gradient has other factors than its operand"))
    return [text for holds, text in checks if not holds]


def packing_factor(operands: Sequence[Names], result: Names) -> str:
    """Return the factor that enumerates the packed numbers in a byte of the second operand, or "" if there is none.

    It is the only factor that occurs in the first operand alone.
    """
    first, *other_operands = operands
    exclusive = [f for f in first if f not in result and all(f not in names for names in other_operands)]
    return exclusive[0] if len(exclusive) == 1 else ""
