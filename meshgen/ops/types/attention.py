"""Types of attention and of its gradients: operands and results by their factors, and the scalars that regions take and give."""

from __future__ import annotations

from itertools import starmap

from meshgen.ir.graph import Graph, Node, TensorType, is_float
from meshgen.ops.factors import FORWARD, KEYS, QUERIES, QUERY_GRADIENT, VALUES, Factors, faults, fixed, parsed
from meshgen.ops.types.site import Site

POSITION = TensorType((), "i32")
STATISTIC = "f32"  # of maxima, sums and their logarithms


def attention(site: Site) -> list[TensorType] | None:
    """Rows of queries, keys and values, and what the regions take elements of -> results by row, and the log-sum-exp of each row in f32.

    Gradients also take the log-sum-exp of each row, the sum of the elements of the result times those of its gradient, and this gradient.
    """
    attrs, operands = site.attrs, site.operands
    wrong = faults(site.op, attrs.factors, operands, site.results)
    for each in wrong:
        site.fault(each)
    if wrong or not site.region_count(2 if site.op == FORWARD else 3):
        return None
    factors = Factors(site.op, *parsed(attrs.factors), {})
    sizes = {name: size for word, kind in zip(factors.operands, operands, strict=True) for name, size in zip(word, kind.shape, strict=True)}  # fmt: skip
    first = fixed(site.op)
    taken = [kind.with_shape(()) for kind in operands[first:]] + [POSITION] * len(attrs.positions)
    sound = all(starmap(site.require, (
        (all(is_float(kind.dtype) for kind in operands[:first]), "queries, keys, values and what there is of each row must be floats"),
        (attrs.given.get("row_keys", 0) >= 0, "row_keys must be 0 or more"),
        (len({*attrs.positions}) == len(attrs.positions), f"positions {list(attrs.positions)} name a factor twice"),
        ({*factors.rows, *factors.keys}.issuperset(attrs.positions), f"positions {list(attrs.positions)} name a factor that the scores do not have"),
    )))  # fmt: skip
    if not sound or not all(_is_function(site, number, taken) for number in range(len(site.regions))):
        return None
    sources = {FORWARD: (VALUES, None), QUERY_GRADIENT: (QUERIES,)}.get(site.op, (KEYS, VALUES))
    kinds = [STATISTIC if source is None else operands[source].dtype for source in sources]
    if site.results and len(site.results) == len(kinds):
        kinds = [result.dtype if source is not None and is_float(result.dtype) else kind
                 for result, kind, source in zip(site.results, kinds, sources, strict=True)]  # fmt: skip
    return [
        TensorType(tuple(sizes[f] for f in names), kind) for names, kind in zip(factors.results, kinds, strict=True)
    ]


def _is_function(site: Site, number: int, taken: list[TensorType]) -> bool:
    """Whether a region is a function of a float, of elements and of positions, to one float; that of a gradient also takes the score."""
    region = site.regions[number]
    count = 2 if number == 2 else 1
    floats = [*region.inputs[:count], *region.outputs]
    sound = site.require(
        len(floats) == count + 1 and all(v.type.rank == 0 and is_float(v.type.dtype) for v in floats),
        f"region {number} must take {'two floats' if count == 2 else 'a float'} first, and give one",
    )
    given = [value.type for value in region.inputs[:count]]
    return sound and site.region(number, [*given, *taken], [region.outputs[0].type]) and _is_scalar(site, number, region)  # fmt: skip


def _is_scalar(site: Site, number: int, region: Graph) -> bool:
    def is_scalar(node: Node) -> bool:
        return not node.regions and all(v.type.rank == 0 for v in (*node.operands, *node.results))

    return site.require(all(map(is_scalar, region.nodes)), f"region {number} must compute with single elements")
