"""References to mesh axes: a name, or `name:(m)k` for the part of size k below a more major part of size m.

What two references have to do with each other is decided here, without a mesh: `x:(1)2` and `x:(2)4` are parts of one
division of their axis, `x:(1)2` and `x:(1)4` overlap, and `x:(1)2` and `x:(3)2` (of 6 devices) are parts of none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import lru_cache

from meshgen.errors import Diagnostic
from meshgen.names import PART_OF_AXIS


@lru_cache(maxsize=4096)
def split_ref(ref: str) -> tuple[str, int, int | None]:
    """An axis reference as (name, size of the more major part, own size; None for a whole axis)."""
    if match := PART_OF_AXIS.fullmatch(ref):
        return match[1], int(match[2]), int(match[3])
    return ref, 1, None


def nests(left: str, right: str) -> bool:
    """Whether two references are parts in one division of their axis: of 6 devices, 2 x 3 and 3 x 2 have none in common.

    Source: Shardy, `AxisRefAttr::canCoexist`.
    """
    (name, pre, size), (other, other_pre, other_size) = split_ref(left), split_ref(right)
    if name != other or size in (None, 1) or other_size in (None, 1):
        return True
    ends = sorted((pre, pre * size, other_pre, other_pre * other_size))
    return all(b % a == 0 for a, b in itertools.pairwise(ends))


def overlaps(left: str, right: str) -> bool:
    """Whether two references depend on each other: they share a part of an axis, or do not nest."""
    (name, pre, size), (other, other_pre, other_size) = split_ref(left), split_ref(right)
    if name != other or size is None or other_size is None:
        return name == other
    if size == 1 or other_size == 1:
        return False
    return (pre < other_pre * other_size and other_pre < pre * size) or not nests(left, right)


def contains(whole: str, part: str) -> bool:
    """Whether `part` is a part of the axis that `whole` refers to, or all of it."""
    (name, pre, size), (other, other_pre, other_size) = split_ref(whole), split_ref(part)
    if name != other or size is None or other_size is None:
        return name == other and size is None
    return other_pre % pre == 0 and (pre * size) % (other_pre * other_size) == 0


def parts_left(ref: str, size: int, used: Iterable[str]) -> tuple[str, ...]:
    """The parts of an axis that `used` leave of `ref`, which refers to `size` devices; none where divisions are mixed.

    Of `x` with 8 devices `x:(2)2` leaves `x:(1)2` and `x:(4)2`.
    """
    name, pre, _ = split_ref(ref)
    end, taken = pre * size, list[tuple[int, int]]()
    for other in used:
        other_name, other_pre, other_size = split_ref(other)
        if other_name != name:
            continue
        if other_size is None or not nests(ref, other):
            return ()
        taken.append((other_pre, other_pre * other_size))
    cuts = sorted({pre, end, *(cut for span in taken for cut in span if pre < cut < end)})
    left = [(a, b) for a, b in itertools.pairwise(cuts) if not any(low <= a and b <= high for low, high in taken)]
    return tuple(ref if (a, b) == (pre, end) else f"{name}:({a}){b // a}" for a, b in left)


def overlap_fault(first: str, second: str) -> Diagnostic:
    """The fault of two references to sub-axes of an axis in one sharding."""
    if nests(first, second):
        again = f" (as '{first}' too)" if first != second else ""
        hint = "an axis splits at most one dim of a value, or makes it partial"
        return Diagnostic("MG0203", f"mesh axis '{second}' is used more than once{again}", hint=hint)
    (_, pre, size), (_, other_pre, other_size) = split_ref(first), split_ref(second)
    ends = sorted({pre, pre * (size or 1), other_pre, other_pre * (other_size or 1)})
    low, high = next((a, b) for a, b in itertools.pairwise(ends) if b % a)
    text = (
        f"'{first}' and '{second}' are not sub-axes of one factorisation of their axis ({high} % {low} = {high % low})"
    )
    hint = "factor the axis in one way within a sharding: for 6 devices 2 x 3 is 'x:(1)2' and 'x:(2)3', 3 x 2 is 'x:(1)3' and 'x:(3)2'"
    return Diagnostic("MG0203", text, hint=hint)
