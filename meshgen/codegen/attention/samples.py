"""Functions of single elements on random numbers, by which identities of them are decided.

Each function is a few additions, products, quotients, exponentials and choices. Two that agree on as many independent random arguments as are tried
here are the same (Schwartz, JACM 27(4), 1980), up to rounding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.codegen.attention.scalars import Region, UnformedError
from meshgen.ir.graph import Node, TensorType, Value, is_float
from meshgen.ops.evaluate.evaluator import Evaluator

Array = np.ndarray[Any, Any]
COUNT = 2048  # arguments that are tried: masks leave few of them
_NEAR = 1e-4  # by which equal functions may differ in f32, relative to what they are sums of
_MOST = 1e4  # scores beyond it are masked
_LEAST = 1e-4  # products below it say nothing
_EDGE = 4  # positions at either end
_ENOUGH = 32  # arguments that must say something


@dataclass(frozen=True)
class Found:
    """Values of all functions, `ds` as `change`, what is multiplied as `weights`, and which arguments say something.

    Attributes:
        factors: each sum over keys as a factor of the sum of probabilities times their gradients; `total`: of each row, the sum of exponentials.
    """

    values: Mapping[Value, Array]
    factors: Mapping[Value, Array]
    total: Array
    change: Array
    weights: Array
    scale: Array
    is_sound: Array

    def are_equal(self, one: Array, other: Array) -> bool:
        with np.errstate(all="ignore"):
            return near(one, other, self.is_sound, self.scale)


def near(one: Array, other: Array, where: Array, scale: Array | float = 0.0) -> bool:
    """Whether functions agree; `scale` is the size of what they are sums of."""
    one, other, scale = (np.broadcast_to(np.asarray(each, np.float64), (COUNT,)) for each in (one, other, scale))
    error, allowed = np.abs(one - other), _NEAR * (np.abs(one) + np.abs(other) + scale)
    return bool(where.sum() >= _ENOUGH and np.all((error <= allowed)[where]))


class Samples:
    """Random arguments of the functions of a region.

    Scores are of many sizes, so that functions that are only nearly linear near 0 are not taken for linear ones.

    Args:
        probe: the region, whose functions have scores, maxima, sums of exponentials and gradients of probabilities as first arguments.
        first: the values that these are elements of, in this order.
        score, share: the regions of an attention, each with its result.
        sizes: of the factors of which positions are taken.
    """

    def __init__(self, probe: Region, first: Sequence[Value], score: tuple[Region, Value], share: tuple[Region, Value], sizes: Mapping[str, int]) -> None:  # fmt: skip
        self.probe, self.score, self.share, self.sizes = probe, score, share, sizes
        self.scores, self.maxima, self.totals, self.change = (probe.first[value] for value in first)
        self.random = np.random.default_rng(0)
        self.elements = {key: value.type for region in (probe, score[0], share[0]) for key, value in region.arguments.items()}  # fmt: skip
        self.total = self.random.uniform(1, 9, COUNT).astype(np.float32)

    def solved(self, exponential: Value, sums: Mapping[Value, Value]) -> Found:
        """Values where each sum over keys is that of probabilities times their gradients, but for a factor of the row.

        Args:
            exponential: the function of the probe that is the exponential.
            sums: the argument that stands for each sum over keys, and the function that is summed.
        Raises:
            UnformedError: a sum is another one.
        """
        with np.errstate(all="ignore"):
            return self._solved(self._draws(exponential), sums)

    def _solved(self, draws: Sequence[_Draw], sums: Mapping[Value, Value]) -> Found:
        delta = self.random.standard_normal(COUNT)
        sound, waiting, factors = np.ones(COUNT, bool), dict(sums), dict[Value, Array]()
        while waiting:
            ready = [each for each, made in waiting.items() if all(made in draw.values for draw in draws)]
            if not ready:
                raise UnformedError
            for each in ready:
                (first, says), (second, also) = (draw.share_of(waiting[each]) for draw in draws)
                if not near(first, second, says & also):
                    raise UnformedError
                factors[each], sound = np.where(says, first, second), sound & (says | also)
                for draw in draws:
                    draw.values[each] = (factors[each] * delta).astype(np.float32)
                del waiting[each]
            for draw in draws:
                draw.go_on()
        draw = draws[0]
        change, scale = draw.shares * (draw.change - delta), draw.shares * (np.abs(draw.change) + np.abs(delta))
        return Found(draw.values, factors, self.total, change, draw.weights, scale, sound)

    def _draws(self, exponential: Value) -> list[_Draw]:
        """Two, of the same rows: maxima are near the scores of the first one, unless those are masked."""
        sizes = 10 ** self.random.uniform(-1, 1.7, COUNT)
        scores = (sizes * self.random.standard_normal(COUNT)).astype(np.float32)
        elements = self._elements()
        region, softmaxed = self.score
        (argument,) = region.first.values()
        given = {value: elements[key] for key, value in region.arguments.items()} | {argument: scores}
        found = np.broadcast_to(_evaluated(region.graph.nodes, given)[softmaxed], (COUNT,))
        near_scores = np.where(np.abs(found) < _MOST, found, 0) + self.random.uniform(-1, 3, COUNT)
        rows = {self.maxima: near_scores.astype(np.float32), self.totals: self.total}
        others = (scores + self.random.standard_normal(COUNT)).astype(np.float32)
        return [
            _Draw(self, exponential, rows | {self.scores: scores}, elements),
            _Draw(self, exponential, rows | {self.scores: others}, self._elements()),
        ]

    def _elements(self) -> dict[object, Array]:
        """Random elements and positions."""
        return {key: self._positions(key) if isinstance(key, str) else self._of_type(kind) for key, kind in self.elements.items()}  # fmt: skip

    def _positions(self, name: str) -> Array:
        """Positions of a factor: some of the first ones, some of the last ones, and some of all, since masks leave few pairs of them."""
        size = self.sizes[name]
        first = self.random.integers(0, min(_EDGE, size), COUNT)
        parts = (first, size - 1 - first, self.random.integers(0, size, COUNT))
        return np.choose(self.random.integers(0, len(parts), COUNT), parts).astype(np.int32)

    def _of_type(self, kind: TensorType) -> Array:
        if is_float(kind.dtype):
            return self.random.standard_normal(COUNT).astype(kind.numpy_dtype)
        return self.random.integers(0, 2 if kind.dtype == "i1" else 4, COUNT).astype(kind.numpy_dtype)


class _Draw:
    """Random arguments, and the values of functions of them."""

    def __init__(self, of: Samples, exponential: Value, first: Mapping[Value, Array], elements: Mapping[object, Array]) -> None:  # fmt: skip
        region, weight = of.share
        raw = of.random.standard_normal(COUNT)
        self.values = {**first, of.change: raw.astype(np.float32)}
        self.values |= {value: elements[key] for key, value in of.probe.arguments.items()}
        self._nodes = of.probe.graph.nodes
        self.go_on()
        if exponential not in self.values:
            raise UnformedError
        self.shares = np.asarray(self.values[exponential], np.float64) / of.total
        (argument,) = region.first.values()
        given = {value: elements[key] for key, value in region.arguments.items()}
        self.weights, self.change = (
            np.asarray(_evaluated(region.graph.nodes, given | {argument: each.astype(np.float32)})[weight], np.float64)
            for each in (self.shares, raw)
        )

    def go_on(self) -> None:
        """Evaluate the functions whose arguments are all there."""
        self.values = _evaluated(self._nodes, self.values)

    def share_of(self, made: Value) -> tuple[Array, Array]:
        """A function over that of a probability times its gradient, and where it says something."""
        whole = self.shares * self.change
        says = np.abs(whole) > _LEAST
        value = np.broadcast_to(np.asarray(self.values[made], np.float64), (COUNT,))
        return np.where(says, value / np.where(says, whole, 1), 0), says


def _evaluated(nodes: Sequence[Node], values: Mapping[Value, Array]) -> dict[Value, Array]:
    found, evaluator = dict(values), Evaluator()
    for node in nodes:
        if node.results[0] not in found and all(value in found for value in node.operands):
            found.update(zip(node.results, evaluator.node(node, [found[v] for v in node.operands]), strict=True))
    return found
