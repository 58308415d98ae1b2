"""Types of attention: operands and results by their factors, and the scalars that its regions take and give."""

from __future__ import annotations

from itertools import starmap

from meshgen.ir.graph import Graph, Node, TensorType, is_float
from meshgen.ops.factors import FIXED, VALUES, faults, parsed
from meshgen.ops.types.site import Site

POSITION = TensorType((), "i32")
STATISTIC = "f32"  # of maxima, sums and their logarithms


def attention(site: Site) -> list[TensorType] | None:
    """Rows of queries, keys and values, and what the regions take elements of -> results by row, and the log-sum-exp of each row in f32."""
    attrs, operands = site.attrs, site.operands
    wrong = faults(attrs.factors, operands, site.results)
    for each in wrong:
        site.fault(each)
    if wrong or not site.region_count(2):
        return None
    names, (out, rows) = parsed(attrs.factors)
    sizes = {name: size for word, kind in zip(names, operands, strict=True) for name, size in zip(word, kind.shape, strict=True)}  # fmt: skip
    known = {f for word in names for f in word}
    taken = [kind.with_shape(()) for kind in operands[FIXED:]] + [POSITION] * len(attrs.positions)
    sound = all(starmap(site.require, (
        (all(is_float(kind.dtype) for kind in operands[:FIXED]), "queries, keys and values must be floats"),
        (known.issuperset((*out, *rows, *attrs.positions)), "a factor is in no operand"),
        (all(len(words) in (0, 2) for words in (attrs.precision, attrs.value_precision)), "precisions are of two operands"),
    )))  # fmt: skip
    if not (sound and all(_is_function(site, number, taken) for number in (0, 1))):
        return None
    kind = operands[VALUES].dtype
    if site.results and is_float(site.results[0].dtype):
        kind = site.results[0].dtype
    return [
        TensorType(tuple(sizes[f] for f in out), kind),
        TensorType(tuple(sizes[f] for f in rows), STATISTIC),
    ]


def _is_function(site: Site, number: int, taken: list[TensorType]) -> bool:
    """Whether a region is a function of one float, of elements and of positions, to one float."""
    region = site.regions[number]
    floats = [*region.inputs[:1], *region.outputs]
    sound = site.require(
        len(floats) == 2 and all(v.type.rank == 0 and is_float(v.type.dtype) for v in floats),
        f"region {number} must take a float first, and give one",
    )
    return sound and site.region(number, [region.inputs[0].type, *taken], [region.outputs[0].type]) and _is_scalar(site, number, region)  # fmt: skip


def _is_scalar(site: Site, number: int, region: Graph) -> bool:
    def is_scalar(node: Node) -> bool:
        return not node.regions and all(v.type.rank == 0 for v in (*node.operands, *node.results))

    return site.require(all(map(is_scalar, region.nodes)), f"region {number} must compute with single elements")
