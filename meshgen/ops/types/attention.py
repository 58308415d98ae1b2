"""Type inference of attention and its gradients: operands and results from their factors, and the scalars of the
regions.
"""

from __future__ import annotations

from itertools import starmap

from meshgen.ir.graph import Graph, Node, TensorType, is_float
from meshgen.ops.factors import FORWARD, KEYS, QUERIES, QUERY_GRADIENT, VALUES, Factors, faults, fixed, parsed
from meshgen.ops.types.site import Site

POSITION = TensorType((), "i32")
STATISTIC = "f32"  # The element type of maxima, sums and their logarithms.


def attention(site: Site) -> list[TensorType] | None:
    """Infer the result types of attention or of one of its gradients.

    The operands are queries, keys and values, followed by the tensors whose elements the regions read. The results of
    attention are the output, and the log-sum-exp of each row in f32. The operands of a gradient also include the
    log-sum-exp of each row, `delta` (the sum over a row of the output times its gradient), and the gradient of the
    output.
    """
    attrs, operands = site.attrs, site.operands
    messages = faults(site.op, attrs.factors, operands, site.results)
    for message in messages:
        site.fault(message)
    if messages or not site.region_count(2 if site.op == FORWARD else 3):
        return None
    factors = Factors(site.op, *parsed(attrs.factors), {})
    sizes = {name: size for word, kind in zip(factors.operands, operands, strict=True) for name, size in zip(word, kind.shape, strict=True)}  # fmt: skip
    first = fixed(site.op)
    region_types = [kind.with_shape(()) for kind in operands[first:]] + [POSITION] * len(attrs.positions)
    is_valid = all(starmap(site.require, (
        (all(is_float(kind.dtype) for kind in operands[:first]), "queries, keys, values and the operands of each row must be floats"),
        (attrs.given.get("row_keys", 0) >= 0, "row_keys must be 0 or more"),
        (len({*attrs.positions}) == len(attrs.positions), f"positions {list(attrs.positions)} name a factor twice"),
        ({*factors.rows, *factors.keys}.issuperset(attrs.positions), f"positions {list(attrs.positions)} name a factor that the scores do not have"),
    )))  # fmt: skip
    if not is_valid or not all(_is_function(site, number, region_types) for number in range(len(site.regions))):
        return None
    sources = {FORWARD: (VALUES, None), QUERY_GRADIENT: (QUERIES,)}.get(site.op, (KEYS, VALUES))
    kinds = [STATISTIC if source is None else operands[source].dtype for source in sources]
    if site.results and len(site.results) == len(kinds):
        kinds = [result.dtype if source is not None and is_float(result.dtype) else kind
                 for result, kind, source in zip(site.results, kinds, sources, strict=True)]  # fmt: skip
    return [
        TensorType(tuple(sizes[f] for f in names), kind) for names, kind in zip(factors.results, kinds, strict=True)
    ]


def _is_function(site: Site, index: int, element_types: list[TensorType]) -> bool:
    """Whether a region maps a float, followed by elements and positions, to one float.

    The last region of a gradient takes two floats: the gradient and the score.
    """
    region = site.regions[index]
    count = 2 if index == 2 else 1
    floats = [*region.inputs[:count], *region.outputs]
    is_valid = site.require(
        len(floats) == count + 1 and all(v.type.rank == 0 and is_float(v.type.dtype) for v in floats),
        f"region {index} must take {'two floats' if count == 2 else 'a float'} first, and return a float",
    )
    leading_types = [value.type for value in region.inputs[:count]]
    return is_valid and site.region(index, [*leading_types, *element_types], [region.outputs[0].type]) and _is_scalar(site, index, region)  # fmt: skip


def _is_scalar(site: Site, number: int, region: Graph) -> bool:
    def is_scalar(node: Node) -> bool:
        return not node.regions and all(v.type.rank == 0 for v in (*node.operands, *node.results))

    return site.require(all(map(is_scalar, region.nodes)), f"region {number} must compute with single elements")
