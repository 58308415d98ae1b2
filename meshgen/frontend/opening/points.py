"""Choose the sizes at which a program with open sizes is imported, in order to fit formulas to the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Point = Mapping[str, int]  # A size for each symbol.
# The minimum and the maximum of each symbol; a maximum of None means unbounded.
Ranges = Mapping[str, tuple[int, int | None]]
COUNT = 5  # Number of points. A formula has at most four coefficients, so at least one more point checks the formula.
# The largest divisor of a quotient that is recognized: strides of convolutions and pools of a few levels, multiplied.
LARGEST_DIVISOR = 16
_MORE = 17  # Number of points for fitting quotients, and distance of their sizes: a prime above `LARGEST_DIVISOR`.
# The smallest and largest usual size, and a far one. Chosen: `_FIRST` exceeds ranks and most lists of sizes in a model,
# most models have tables of at least `_LAST` positions, and `_FAR` exceeds most multiples to which lengths are padded.
_FIRST, _LAST, _FAR = 67, 250, 1103


def fitting_points(ranges: Ranges) -> list[Point] | None:
    """Return the points (a size for each symbol) at which to import a program, or None if a range has too few numbers.

    Sizes 0 and 1 are excluded, because programs may treat them differently. Most sizes are primes, distinct for each
    symbol, so that no product or sum equals another by chance. Two sizes of each symbol are adjacent, so that no
    remainder is the same at all points.
    """
    used_numbers: set[int] = set()
    columns: list[list[int]] = []
    for low, high in ranges.values():
        column = _spread(max(low, 2), high, used_numbers) or _spread(max(low, 2), high, set())
        if column is None:
            return None
        used_numbers |= {*column}
        columns.append(column)
    return _permuted_points(ranges, columns, COUNT)


def far_fitting_point(ranges: Ranges) -> Point:
    """Return a point with larger sizes, as far as the ranges allow. The model may not support sizes that large."""
    point: dict[str, int] = {}
    for name, (low, high) in ranges.items():
        largest = max(low, _FAR if high is None else min(high, _FAR))
        point[name] = _nearest(largest, max(low, 2), high, {*point.values()}, primes=True) or largest
    return point


def quotient_points(ranges: Ranges) -> list[Point]:
    """Return points for fitting quotients: each symbol has all remainders by each divisor up to `LARGEST_DIVISOR`.

    For a small range, the points contain all numbers of the range.
    """
    return _permuted_points(ranges, [_evenly(number, max(low, 2), high) for number, (low, high) in enumerate(ranges.values())], _MORE)  # fmt: skip


def _permuted_points(names: Ranges, columns: Sequence[Sequence[int]], count: int) -> list[Point]:
    """Return `count` points. Symbol i takes the numbers in `columns[i]`, in a different order for each symbol.

    `count` is prime, so that each order contains all numbers.
    """
    orders = [[(i * (n % (count - 1) + 1) + n // (count - 1)) % count for i in range(count)] for n in range(len(columns))]  # fmt: skip
    return [{name: column[order[i] % len(column)] for name, column, order in zip(names, columns, orders, strict=True)} for i in range(count)]  # fmt: skip


def _spread(low: int, high: int | None, used_numbers: set[int]) -> list[int] | None:
    """Return numbers of a range at growing distances, and a neighbor of the first one. None if the range is too small."""
    top = max(_LAST, 4 * low) if high is None else min(high, max(_LAST, 4 * low))
    least = max(low, min(_FIRST, top // 2))
    numbers: list[int] = []
    for target in [round(least * (top / least) ** (n / (COUNT - 2))) for n in range(COUNT - 1)]:
        number = _nearest(target, low, high, used_numbers | {*numbers}, primes=True) or _nearest(target, low, high, used_numbers | {*numbers})  # fmt: skip
        if number is None:
            return None
        numbers.append(number)
    neighbor = _nearest(numbers[0], low, high, used_numbers | {*numbers})
    return None if neighbor is None else [*numbers, neighbor]


def _nearest(target: int, low: int, high: int | None, taken: set[int], *, primes: bool = False) -> int | None:
    """Return the number from `low` to `high` that is nearest to `target` and not in `taken`, or None if all are taken."""
    for distance in range(target if high is None else high - low + 1):
        for number in (target + distance, target - distance):
            if low <= number and (high is None or number <= high) and number not in taken and (not primes or _is_prime(number)):  # fmt: skip
                return number
    return None


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def _evenly(number: int, low: int, high: int | None) -> list[int]:
    """Return equally spaced numbers of a range. In a large range, each symbol (by `number`) gets other numbers."""
    first = max(low, _FIRST) + number
    if high is None or first + (_MORE - 1) * _MORE <= high:
        return [first + n * _MORE for n in range(_MORE)]
    return [*range(max(low, high - _MORE + 1), high + 1)]
