"""Tests whether two scalar functions are identical, by evaluation on random numbers.

Each function consists of a few additions, multiplications, divisions, exponentials and selections. Two functions that
agree on all of the independent random arguments tested here are the same up to rounding (Schwartz, JACM 27(4), 1980).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.codegen.attention.scalar_regions import Region, UnformedError
from meshgen.ir.graph import Node, TensorType, Value, is_float
from meshgen.ops.evaluate.evaluator import Evaluator

Array = np.ndarray[Any, Any]
COUNT = 2048  # number of random arguments; chosen: masks leave only few of the arguments usable
# relative tolerance for equal functions in f32. Chosen: far above the rounding errors of a few operations
_NEAR = 1e-4
_MOST = 1e4  # magnitude above which a score counts as masked
_LEAST = 1e-4  # least magnitude of p * dp (probability times gradient) as a divisor
_EDGE = 4  # number of positions at either end of a factor that are drawn more often
_ENOUGH = 32  # least number of usable arguments from which two functions are declared equal


@dataclass(frozen=True)
class SampledFunctions:
    """The functions of a region, evaluated for random arguments.

    Attributes:
        values: the values of each function, one per random argument.
        factors: the ratio of each sum over keys to the sum of probabilities times their gradients.
        total: the sum of the exponentials of each row.
        change: the expected values of `ds`.
        weights: the expected values of the matmul operand that holds the probabilities.
        scale: the magnitude of the summands of `ds`.
        is_sound: for which arguments the comparison is numerically meaningful.
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
    """Whether arrays `one` and `other` agree for the arguments in `where`, relative to `scale`, the size of their
    summands.
    """
    one, other, scale = (np.broadcast_to(np.asarray(array, np.float64), (COUNT,)) for array in (one, other, scale))
    error, allowed = np.abs(one - other), _NEAR * (np.abs(one) + np.abs(other) + scale)
    return bool(where.sum() >= _ENOUGH and np.all((error <= allowed)[where]))


class Samples:
    """Random arguments for the functions of a region.

    Scores have many magnitudes, so that a function that is nearly linear near 0 is not mistaken for a linear one.

    Args:
        probe: the region. Its first arguments are a score, a maximum, a sum of exponentials and a gradient of a
            probability.
        first: the values of which these arguments are elements, in this order.
        score, share: the regions of the score function and of the probability, each with its result.
        sizes: sizes of the factors whose positions are arguments.
    """

    def __init__(self, probe: Region, first: Sequence[Value], score: tuple[Region, Value], share: tuple[Region, Value], sizes: Mapping[str, int]) -> None:  # fmt: skip
        self.probe, self.score, self.share, self.sizes = probe, score, share, sizes
        self.scores, self.maxima, self.totals, self.change = (probe.first[value] for value in first)
        self.random = np.random.default_rng(0)
        self.elements = {key: value.type for region in (probe, score[0], share[0]) for key, value in region.arguments.items()}  # fmt: skip
        self.total = self.random.uniform(1, 9, COUNT).astype(np.float32)

    def solved(self, exponential: Value, sums: Mapping[Value, Value]) -> SampledFunctions:
        """Return the values of all functions, after determining each sum over keys.

        Each sum over keys must be a multiple of the sum over keys of the probabilities times their gradients.

        Args:
            exponential: the value of the probe that is the exponential of the softmax.
            sums: maps the argument that stands for a sum over keys to the function that is summed.
        Raises:
            UnformedError: a sum has another form, or its multiple depends on more than the row.
        """
        with np.errstate(all="ignore"):
            return self._solved(self._draws(exponential), sums)

    def _solved(self, draws: Sequence[_Draw], sums: Mapping[Value, Value]) -> SampledFunctions:
        delta = self.random.standard_normal(COUNT)
        sound, waiting, factors = np.ones(COUNT, bool), dict(sums), dict[Value, Array]()
        while waiting:
            solvable = [
                argument for argument, summand in waiting.items() if all(summand in draw.values for draw in draws)
            ]
            if not solvable:
                raise UnformedError
            for argument in solvable:
                (first, is_first_valid), (second, is_second_valid) = (
                    draw.share_of(waiting[argument]) for draw in draws
                )
                if not near(first, second, is_first_valid & is_second_valid):
                    raise UnformedError
                factors[argument], sound = (
                    np.where(is_first_valid, first, second),
                    sound & (is_first_valid | is_second_valid),
                )
                for draw in draws:
                    draw.values[argument] = (factors[argument] * delta).astype(np.float32)
                del waiting[argument]
            for draw in draws:
                draw.evaluate_available()
        draw = draws[0]
        change, scale = draw.shares * (draw.change - delta), draw.shares * (np.abs(draw.change) + np.abs(delta))
        return SampledFunctions(draw.values, factors, self.total, change, draw.weights, scale, sound)

    def _draws(self, exponential: Value) -> list[_Draw]:
        """Return two draws of arguments for the same rows. Row maxima are near the unmasked scores of the first draw."""
        sizes = 10 ** self.random.uniform(-1, 1.7, COUNT)
        scores = (sizes * self.random.standard_normal(COUNT)).astype(np.float32)
        elements = self._elements()
        region, softmaxed = self.score
        (argument,) = region.first.values()
        arguments = {value: elements[key] for key, value in region.arguments.items()} | {argument: scores}
        masked_scores = np.broadcast_to(_evaluated(region.graph.nodes, arguments)[softmaxed], (COUNT,))
        near_scores = np.where(np.abs(masked_scores) < _MOST, masked_scores, 0) + self.random.uniform(-1, 3, COUNT)
        rows = {self.maxima: near_scores.astype(np.float32), self.totals: self.total}
        other_scores = (scores + self.random.standard_normal(COUNT)).astype(np.float32)
        return [
            _Draw(self, exponential, rows | {self.scores: scores}, elements),
            _Draw(self, exponential, rows | {self.scores: other_scores}, self._elements()),
        ]

    def _elements(self) -> dict[object, Array]:
        """Return random values for all operand elements and positions that are arguments."""
        return {key: self._positions(key) if isinstance(key, str) else self._of_type(tensor_type) for key, tensor_type in self.elements.items()}  # fmt: skip

    def _positions(self, name: str) -> Array:
        """Return random positions of a factor: some near the start, some near the end, and some from the full range.

        Uniformly drawn positions would rarely be inside a narrow mask.
        """
        size = self.sizes[name]
        first = self.random.integers(0, min(_EDGE, size), COUNT)
        parts = (first, size - 1 - first, self.random.integers(0, size, COUNT))
        return np.choose(self.random.integers(0, len(parts), COUNT), parts).astype(np.int32)

    def _of_type(self, tensor_type: TensorType) -> Array:
        if is_float(tensor_type.dtype):
            return self.random.standard_normal(COUNT).astype(tensor_type.numpy_dtype)
        return self.random.integers(0, 2 if tensor_type.dtype == "i1" else 4, COUNT).astype(tensor_type.numpy_dtype)


class _Draw:
    """One draw of random arguments, and the values that functions have for them."""

    def __init__(self, of: Samples, exponential: Value, first: Mapping[Value, Array], elements: Mapping[object, Array]) -> None:  # fmt: skip
        region, weight = of.share
        raw = of.random.standard_normal(COUNT)
        self.values = {**first, of.change: raw.astype(np.float32)}
        self.values |= {value: elements[key] for key, value in of.probe.arguments.items()}
        self._nodes = of.probe.graph.nodes
        self.evaluate_available()
        if exponential not in self.values:
            raise UnformedError
        self.shares = np.asarray(self.values[exponential], np.float64) / of.total
        (argument,) = region.first.values()
        arguments_of_region = {value: elements[key] for key, value in region.arguments.items()}
        self.weights, self.change = (
            np.asarray(
                _evaluated(region.graph.nodes, arguments_of_region | {argument: each.astype(np.float32)})[weight],
                np.float64,
            )
            for each in (self.shares, raw)
        )

    def evaluate_available(self) -> None:
        """Evaluate the functions whose arguments are all available."""
        self.values = _evaluated(self._nodes, self.values)

    def share_of(self, function: Value) -> tuple[Array, Array]:
        """Return the ratio of `function` to probability times gradient, and a mask of where this divisor is large
        enough.
        """
        divisor = self.shares * self.change
        is_valid = np.abs(divisor) > _LEAST
        value = np.broadcast_to(np.asarray(self.values[function], np.float64), (COUNT,))
        return np.where(is_valid, value / np.where(is_valid, divisor, 1), 0), is_valid


def _evaluated(nodes: Sequence[Node], values: Mapping[Value, Array]) -> dict[Value, Array]:
    results, evaluator = dict(values), Evaluator()
    for node in nodes:
        if node.results[0] not in results and all(value in results for value in node.operands):
            results.update(zip(node.results, evaluator.node(node, [results[v] for v in node.operands]), strict=True))
    return results
