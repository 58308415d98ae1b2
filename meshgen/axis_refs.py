"""References to mesh axes: a name, or `name:(m)k` for the subaxis of size k below a more major part of size m.

The functions here compare two references without a mesh. `x:(1)2` and `x:(2)4` belong to one factorization of axis x,
and `x:(1)2` and `x:(1)4` overlap. `x:(1)2` and `x:(3)2` (of 6 devices) belong to no common factorization.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import lru_cache

from meshgen.errors import Diagnostic
from meshgen.names import PART_OF_AXIS


@lru_cache(maxsize=4096)
def split_ref(ref: str) -> tuple[str, int, int | None]:
    """Split a reference such as `x:(2)4` into axis name, size of the more major part, and size: ("x", 2, 4). The size
    is None for an entire axis.
    """
    if match := PART_OF_AXIS.fullmatch(ref):
        return match[1], int(match[2]), int(match[3])
    return ref, 1, None


def nests(left: str, right: str) -> bool:
    """Whether two references to one axis belong to a common factorization of the axis.

    For example, with 6 devices, `x:(1)2` of 2 x 3 and `x:(1)3` of 3 x 2 do not.

    Source: Shardy, `AxisRefAttr::canCoexist`.
    """
    (name, pre, size), (other, other_pre, other_size) = split_ref(left), split_ref(right)
    if name != other or size in (None, 1) or other_size in (None, 1):
        return True
    boundaries = sorted((pre, pre * size, other_pre, other_pre * other_size))
    return all(b % a == 0 for a, b in itertools.pairwise(boundaries))


def overlaps(left: str, right: str) -> bool:
    """Whether two references conflict: they share a part of an axis, or belong to no common factorization of it."""
    (name, pre, size), (other, other_pre, other_size) = split_ref(left), split_ref(right)
    if name != other or size is None or other_size is None:
        return name == other
    if size == 1 or other_size == 1:
        return False
    return (pre < other_pre * other_size and other_pre < pre * size) or not nests(left, right)


def contains(whole: str, part: str) -> bool:
    """Whether the axis or subaxis `whole` contains the subaxis `part`, or is equal to it."""
    (name, pre, size), (other, other_pre, other_size) = split_ref(whole), split_ref(part)
    if name != other or size is None or other_size is None:
        return name == other and size is None
    return other_pre % pre == 0 and (pre * size) % (other_pre * other_size) == 0


def uncovered_parts(ref: str, size: int, used: Iterable[str]) -> tuple[str, ...]:
    """Return references to the parts of `ref` that the references in `used` leave free.

    For `x` with 8 devices, `x:(2)2` leaves `x:(1)2` and `x:(4)2`. Returns an empty list if a reference in `used`
    belongs to another factorization.

    Args:
        size: number of devices along `ref`.
    """
    name, pre, _ = split_ref(ref)
    end, used_spans = pre * size, list[tuple[int, int]]()
    for other in used:
        other_name, other_pre, other_size = split_ref(other)
        if other_name != name:
            continue
        if other_size is None or not nests(ref, other):
            return ()
        used_spans.append((other_pre, other_pre * other_size))
    cuts = sorted({pre, end, *(cut for span in used_spans for cut in span if pre < cut < end)})
    free_spans = [
        (a, b) for a, b in itertools.pairwise(cuts) if not any(low <= a and b <= high for low, high in used_spans)
    ]
    return tuple(ref if (a, b) == (pre, end) else f"{name}:({a}){b // a}" for a, b in free_spans)


def overlap_fault(first: str, second: str) -> Diagnostic:
    """Return the diagnostic for two conflicting references to one axis in a sharding."""
    if nests(first, second):
        again = f" (as '{first}' too)" if first != second else ""
        hint = "an axis splits at most one dim of a value, or makes it partial"
        return Diagnostic("MG0203", f"mesh axis '{second}' is used more than once{again}", hint=hint)
    (_, pre, size), (_, other_pre, other_size) = split_ref(first), split_ref(second)
    boundaries = sorted({pre, pre * (size or 1), other_pre, other_pre * (other_size or 1)})
    low, high = next((a, b) for a, b in itertools.pairwise(boundaries) if b % a)
    text = (
        f"'{first}' and '{second}' are not sub-axes of one factorization of their axis ({high} % {low} = {high % low})"
    )
    hint = "factor the axis in one way within a sharding: for 6 devices 2 x 3 is 'x:(1)2' and 'x:(2)3', 3 x 2 is 'x:(1)3' and 'x:(3)2'"
    return Diagnostic("MG0203", text, hint=hint)
