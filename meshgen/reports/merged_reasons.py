"""Merge reason texts that differ only in value names, line numbers and layer numbers, for tables with repeated layers.

dot_general '39' (model.py:11 in layer_0/mlp) gives [{}, {}] partial sum(tp) dot_general '80' (model.py:11 in
layer_1/mlp) gives [{}, {}] partial sum(tp) -> dot_general '*' (model.py:11 in layer_*/mlp) gives [{}, {}] partial
sum(tp)
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Matches value names and source locations. Other numbers are sizes, which keep rows of a table apart.
_NAMED = re.compile(r"'[^']*'|`[^`]*`|%[^\s;,)]+|\([^()\s]+:\d+(?: in (?:[^()]|\([^()]*\))+)?\)")
_OTHERS = re.compile(r"; \d+ other choices? would move more")
_NUMBER = re.compile(r"(\d+)")


def skeleton(reason: str) -> str:
    """Replace each number in a name or location of the reason text by a star.

    The reasons for repeated layers have equal skeletons.
    """
    return _NAMED.sub(lambda match: _NUMBER.sub("*", match[0]), _OTHERS.sub("", reason))


def joined(reasons: Sequence[str]) -> str:
    """Merge reasons with the same skeleton into one text, with a star for each number that differs."""
    if len({*reasons}) == 1:
        return reasons[0]
    rows = [_NUMBER.split(_OTHERS.sub("", reason)) for reason in reasons]
    return "".join(parts[0] if len({*parts}) == 1 else "*" for parts in zip(*rows, strict=True))


def without_repeated_clauses(reason: str) -> str:
    """Remove repeated clauses from a reason that was joined from several reasons by `; and`.

    The first clauses with equal skeletons become one clause with a count. Each later clause is kept once.

        slice (m.py:3) needs rows; x splits dim 0; and slice (m.py:4) needs rows; x splits dim 0 [2 in one]
            -> 2 x slice (m.py:3) needs rows; x splits dim 0 [2 in one]
    """
    parts = reason.split("; and ")
    if len(parts) == 1:
        return reason
    body, bracket, note = parts[-1].rpartition(" [")
    is_note = bool(bracket) and note.endswith("]") and "{" not in note
    clauses = [part.split("; ") for part in ([*parts[:-1], body] if is_note else parts)]
    heads: dict[str, list[str]] = {}
    for head, *_ in clauses:
        heads.setdefault(skeleton(head), []).append(head)
    counted_heads = [f"{len(alike)} x {alike[0]}" if len(alike) > 1 else alike[0] for alike in heads.values()]
    tails = dict.fromkeys(clause for _, *tail in clauses for clause in tail)
    return "; ".join([" and ".join(counted_heads), *tails]) + (f" [{note}" if is_note else "")
