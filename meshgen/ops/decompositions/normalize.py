"""The decomposition of `normalize` and its gradient.

    mean = sum(x) / n, or 0 unless `centered`       over the factors that the statistics lack; n: their sizes' product
    variance = sum((x - mean)^2) / n
    result = (x - mean) * rsqrt(variance + epsilon) * scale + bias

If the elements of a row are sharded, each device sums its elements and their squared distances from its own mean. All
devices exchange both sums at once. With c elements of mean u and squared distances s on a device, the total sum of
(x - m)^2 is the sum of s + c (u - m)^2 over all devices.
Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Value
from meshgen.ops.decompositions.writer import TILES, FactorWriter, Spread
from meshgen.ops.factors import Names


def normalize(writer: FactorWriter) -> Sequence[Value]:
    """Append a normalization. Returns the result, the mean if `centered`, and the variance."""
    attrs, results = writer.node.attrs, writer.node.results
    x, *affine = writer.operands
    wide = writer.convert(x, results[-1].type.dtype)
    over = tuple(f for f in x.names if f not in writer.results[-1])
    statistics: list[Spread] = []
    if attrs.centered:
        wide, mean, squares = _moments(writer, wide, over)
        statistics.append(mean)
    else:
        squares = writer.total("add", writer.masked(writer.apply("multiply", wide, wide), over, 0), over)
    variance = writer.apply("divide", squares, writer.count(over))
    factor = writer.apply("rsqrt", writer.apply("add", variance, attrs.epsilon))
    normal = writer.apply("multiply", wide, factor)
    for op, operand in zip(("multiply", "add"), affine, strict=False):
        normal = writer.apply(op, normal, writer.convert(operand, wide.dtype))
    result = writer.convert(normal, results[0].type.dtype)
    return [part.value for part in (result, *statistics, variance)]


def _moments(writer: FactorWriter, x: Spread, over: Names) -> tuple[Spread, Spread, Spread]:
    """Append the mean over the factors `over`. Returns `x` minus the mean, the mean, and the sum of (x - mean)^2."""
    total = writer.reduced("add", writer.masked(x, over, 0), over)
    mean = writer.apply("divide", total, writer.tile_count(over, x.dtype))
    centered = writer.apply("subtract", x, mean)
    squares = writer.reduced("add", writer.masked(writer.apply("multiply", centered, centered), over, 0), over)

    def finish(parts: Sequence[Spread]) -> Sequence[Spread]:
        means, squares = parts
        counts = writer.tile_counts(over, x.dtype)
        sums = writer.reduced("add", writer.apply("multiply", means, counts), (TILES,))
        mean = writer.apply("divide", sums, writer.count(over))
        apart = writer.apply("subtract", means, mean)
        between = writer.apply("multiply", writer.apply("multiply", apart, apart), counts)
        return mean, writer.reduced("add", writer.apply("add", squares, between), (TILES,))

    global_mean, squares = writer.combined((mean, squares), over, finish)
    return (centered if global_mean is mean else writer.apply("subtract", x, global_mean)), global_mean, squares


def normalize_gradient(writer: FactorWriter) -> Sequence[Value]:
    """Append the gradient of the normalized operand, and return it.

    The operands of the node are the gradient of the result, the normalized operand, the mean if `centered`,
    rsqrt(variance + epsilon), and an optional scale.
    """
    attrs, result = writer.node.attrs, writer.node.results[0]
    gradient, x, *statistics = writer.operands
    mean = statistics.pop(0) if attrs.centered else None
    factor, *scale = statistics
    wide, back = (writer.convert(part, factor.dtype) for part in (x, gradient))
    over = tuple(f for f in x.names if f not in factor.names)
    if mean is not None:
        wide = writer.apply("subtract", wide, mean)
    normal = writer.apply("multiply", wide, factor)
    for factor_of_scale in scale:
        back = writer.apply("multiply", back, writer.convert(factor_of_scale, factor.dtype))
    projection = _mean(writer, writer.apply("multiply", back, normal), over)
    gradient_sum = back if mean is None else writer.apply("subtract", back, _mean(writer, back, over))
    gradient_sum = writer.apply("subtract", gradient_sum, writer.apply("multiply", normal, projection))
    return [writer.convert(writer.apply("multiply", gradient_sum, factor), result.type.dtype).value]


def _mean(writer: FactorWriter, part: Spread, over: Names) -> Spread:
    return writer.apply("divide", writer.total("add", writer.masked(part, over, 0), over), writer.count(over))
