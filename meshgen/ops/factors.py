"""Factors: what each dim of the operands and results of a composite is, those of attention in particular.

"b t k g d, b s k d, b s k e, t s -> b t k g e, b k g t": `d` is summed in the scores, `s` are the keys, `e` is the width of the values; batch,
heads and rows are all other factors. Two operands that have the same factors need not have them in the same order.

The gradient has the log-sum-exp of each row, `delta` and the gradient of the result as further operands:
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
"""The log-sum-exp of a row below which all of its scores are masked by large numbers: its sum is lost in it, and its probabilities are equal."""
RESULTS = {FORWARD: 2, QUERY_GRADIENT: 1, KEY_GRADIENT: 2}
"""How many results each op has: the result and the log-sum-exp; the gradient of the queries; those of keys and values."""


def fixed(op: str) -> int:
    """The number of operands before those of which the regions take elements."""
    return VALUES + 1 if op == FORWARD else GRADIENT + 1


@dataclass(frozen=True)
class Factors:
    """The factors of each operand and result of an op, in the order of their dims, and the size of each."""

    op: str
    operands: tuple[Names, ...]
    results: tuple[Names, ...]
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, node: Node) -> Factors:
        """Return the factors of a well-formed node, whose sizes are known."""
        operands, results = parsed(node.attrs.factors)
        types = (value.type for value in (*node.operands, *node.results))
        sizes: dict[str, int] = {}
        for names, kind in zip((*operands, *results), types, strict=True):
            sizes.update(zip(names, kind.sizes, strict=True))
        return cls(node.op, operands, results, sizes)

    @property
    def out(self) -> Names:
        """The factors of attention's result, or of its gradient."""
        return self.results[0] if self.op == FORWARD else self.operands[GRADIENT]

    @property
    def rows(self) -> Names:
        """The factors of the rows of scores: batch, heads and queries."""
        return self.results[1] if self.op == FORWARD else self.operands[ROWS]

    @property
    def depth(self) -> Names:
        """The factors that the product of queries and keys sums over."""
        kept = {*self.operands[VALUES], *self.out}
        return tuple(f for f in self.operands[QUERIES] if f in self.operands[KEYS] and f not in kept)

    @property
    def keys(self) -> Names:
        """The factors that the softmax and the product with the values sum over, in the order of the keys."""
        return tuple(f for f in self.operands[KEYS] if f in self.operands[VALUES] and f not in self.out)

    @property
    def width(self) -> Names:
        """The factors of a row of values."""
        return tuple(f for f in self.operands[VALUES] if f not in self.rows and f not in self.keys)

    @property
    def elements(self) -> tuple[Names, ...]:
        """The factors of the operands of which the regions take elements."""
        return self.operands[fixed(self.op) :]

    def shape(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.sizes[name] for name in names)


def parsed(text: str) -> tuple[tuple[Names, ...], tuple[Names, ...]]:
    """The factors of operands and results. Raises ValueError for a malformed text."""
    left, arrow, right = text.partition("->")
    sides = [[word.strip() for word in side.split(",")] for side in (left, right)]
    if not arrow or not all(_TEXT.fullmatch(word) for side in sides for word in side):
        raise ValueError(f"'{text}' is not of the form 'a b, b c -> a c'")
    operands, results = (tuple(() if word == "()" else tuple(word.split()) for word in side) for side in sides)
    return operands, results


def notation(operands: Sequence[Names], results: Sequence[Names]) -> str:
    """The inverse of `parsed`."""
    sides = (", ".join(" ".join(names) or "()" for names in side) for side in (operands, results))
    return " -> ".join(sides)


def faults(op: str, text: str, operands: Sequence[TensorType], results: Sequence[TensorType] | None) -> list[str]:
    """What is wrong with the factors of attention or a gradient for these types, in words; result types may be unknown."""
    found = size_faults(text, operands, results, RESULTS[op])
    if found:
        return found
    left, right = parsed(text)
    if len(left) < fixed(op):
        return [f"factors '{text}' are not those of {fixed(op)} operands or more"]
    return _role_faults(Factors(op, left, right, {}))


def size_faults(
    text: str, operands: Sequence[TensorType], results: Sequence[TensorType] | None, result_count: int
) -> list[str]:
    """What is wrong with a text of factors for operands and results of these types, in words; result types may be unknown."""
    try:
        left, right = parsed(text)
    except ValueError as error:
        return [str(error)]
    if len(left) != len(operands) or len(right) != result_count:
        return [f"factors '{text}' are not those of {len(operands)} operands and {result_count} results"]
    sizes: dict[str, int | None] = {}
    found: list[str] = []
    for names, kind in zip((*left, *right), (*operands, *(results or ())), strict=False):
        if len(set(names)) != len(names) or len(names) != kind.rank:
            found.append(f"factors '{' '.join(names)}' are not the dims of {kind}")
            continue
        for name, size in zip(names, kind.shape, strict=True):
            if size is not None and sizes.setdefault(name, size) not in (size, None):
                found.append(f"factor '{name}' has sizes {sizes[name]} and {size}")
    missing = dict.fromkeys(f for names in right for f in names if all(f not in words for words in left))
    return found or [f"factor '{name}' of a result is in no operand" for name in missing]


def _role_faults(factors: Factors) -> list[str]:
    queries, keys = (set(names) for names in factors.operands[:VALUES])
    rows, summed, depth, width = set(factors.rows), set(factors.keys), set(factors.depth), set(factors.width)
    checks = [
        (bool(summed) and not summed & (queries | rows), "keys and values share no factor of their own"),
        (queries == depth | (queries & rows), "a factor of the queries is neither of the rows nor summed"),
        (keys == depth | summed | (keys & rows), "a factor of the keys is neither summed nor of the rows"),
        (not width & (queries | keys), "a factor of the width of the values is one of queries or keys"),
        (rows <= queries | keys, "a factor of the rows is neither one of the queries nor one of the keys"),
        (set(factors.out) == rows | width, "the result has not the factors of the rows and of the width"),
        (all({*names} <= rows | summed for names in factors.elements), "an element has a factor that the scores have not"),
    ]  # fmt: skip
    if factors.op != FORWARD:
        per_row = factors.operands[ROWS] == factors.operands[DELTA]
        checks.append((per_row, "log-sum-exp and delta differ in factors"))
        of_queries = (
            [(depth, rows)] if factors.op == QUERY_GRADIENT else [(depth | summed, rows), (width | summed, rows)]
        )
        fits = all(
            least <= {*names} <= least | more for names, (least, more) in zip(factors.results, of_queries, strict=True)
        )
        checks.append((fits, "a gradient has not the factors of what it is the gradient of"))
    return [text for holds, text in checks if not holds]


def packing_factor(operands: Sequence[Names], result: Names) -> str:
    """Return the factor that counts the numbers in a byte of the second operand. Only the first operand has it; "" if none is like that."""
    first, *others = operands
    alone = [f for f in first if f not in result and all(f not in names for names in others)]
    return alone[0] if len(alone) == 1 else ""
