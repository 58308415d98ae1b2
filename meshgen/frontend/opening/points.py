"""Numbers for the sizes that a program leaves open, at which it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Point = Mapping[str, int]  # a number for each symbol
Ranges = Mapping[str, tuple[int, int | None]]  # the least and the largest number of each symbol (None: any)
COUNT = 5  # a formula has up to four coefficients, so at least one point is left to check it
LARGEST_DIVISOR = 16  # of quotients that are recognised: strides of convolutions and pools of a few levels
_MORE = 17  # of other points, and their distance: a prime above the largest divisor
# Numbers are taken from the first on where the range allows: apart from ranks, and from most lists of sizes in a model. Most models have
# tables of at least `_LAST` positions; `_FAR` is above most numbers that lengths are padded to a multiple of.
_FIRST, _LAST, _FAR = 67, 250, 1103


def points_of(ranges: Ranges) -> list[Point] | None:
    """Numbers to read a program at; None where a range has too few. Sizes 0 and 1 are left out: programs may treat them differently.

    Most are primes, other ones for each symbol, so that no product or sum is another one by chance; two are neighbours,
    so that no remainder is the same at all of them.
    """
    taken: set[int] = set()
    columns: list[list[int]] = []
    for low, high in ranges.values():
        column = _spread(max(low, 2), high, taken) or _spread(max(low, 2), high, set())
        if column is None:
            return None
        taken |= {*column}
        columns.append(column)
    return _permuted_points(ranges, columns, COUNT)


def far_point_of(ranges: Ranges) -> Point:
    """Larger numbers, where the ranges allow; a model may not hold for them."""
    found: dict[str, int] = {}
    for name, (low, high) in ranges.items():
        most = max(low, _FAR if high is None else min(high, _FAR))
        found[name] = _nearest(most, max(low, 2), high, {*found.values()}, primes=True) or most
    return found


def more_points_of(ranges: Ranges) -> list[Point]:
    """Points at which the numbers of a symbol have all remainders by each divisor up to the largest; for a small range all its numbers."""
    return _permuted_points(ranges, [_evenly(number, max(low, 2), high) for number, (low, high) in enumerate(ranges.values())], _MORE)  # fmt: skip


def _permuted_points(names: Ranges, columns: Sequence[Sequence[int]], count: int) -> list[Point]:
    """Points of these numbers, in another order for each symbol; `count` is a prime, so that each order has all of them."""
    orders = [[(i * (n % (count - 1) + 1) + n // (count - 1)) % count for i in range(count)] for n in range(len(columns))]  # fmt: skip
    return [{name: column[order[i] % len(column)] for name, column, order in zip(names, columns, orders, strict=True)} for i in range(count)]  # fmt: skip


def _spread(low: int, high: int | None, taken: set[int]) -> list[int] | None:
    """Numbers of a range whose distances grow, and a neighbour of the first one."""
    top = max(_LAST, 4 * low) if high is None else min(high, max(_LAST, 4 * low))
    least = max(low, min(_FIRST, top // 2))
    found: list[int] = []
    for target in [round(least * (top / least) ** (n / (COUNT - 2))) for n in range(COUNT - 1)]:
        number = _nearest(target, low, high, taken | {*found}, primes=True) or _nearest(target, low, high, taken | {*found})  # fmt: skip
        if number is None:
            return None
        found.append(number)
    beside = _nearest(found[0], low, high, taken | {*found})
    return None if beside is None else [*found, beside]


def _nearest(target: int, low: int, high: int | None, taken: set[int], *, primes: bool = False) -> int | None:
    """The number of a range nearest to a target, of those that are not taken."""
    for distance in range(target if high is None else high - low + 1):
        for number in (target + distance, target - distance):
            if low <= number and (high is None or number <= high) and number not in taken and (not primes or _is_prime(number)):  # fmt: skip
                return number
    return None


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def _evenly(number: int, low: int, high: int | None) -> list[int]:
    """Numbers at even distances, in a large range none of another symbol."""
    first = max(low, _FIRST) + number
    if high is None or first + (_MORE - 1) * _MORE <= high:
        return [first + n * _MORE for n in range(_MORE)]
    return [*range(max(low, high - _MORE + 1), high + 1)]
