"""Type inference of ops that return sizes or take sizes as operands.

`sizes/size_ops.py` replaces these ops by static ones when all sizes are known.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.ir.graph import TensorType
from meshgen.ops.types.contraction import convolved
from meshgen.ops.types.site import Inference, Site, agree
from meshgen.ops.types.structure import gathered


def get_dimension_size(site: Site) -> list[TensorType]:
    site.one_dim("dim", site.operands[0].rank)
    return [TensorType((), "i32")]


def axis_size(site: Site) -> list[TensorType]:
    return [TensorType((), "i64")]


def _check_sizes(site: Site, count: int, rank: int | None) -> None:
    """Check that each of the last `count` operands is a 1-d integer tensor with one size per dim."""
    for kind in site.operands[-count:]:
        if site.require(kind.rank == 1, f"the sizes must be a list, got {kind}") and rank is not None:
            site.require(agree(kind.shape[0], rank), f"has {kind.shape[0]} sizes for {rank} dims")
        site.dtype_in(kind, "integer")


def sized(count: int, static: Inference | None = None) -> Inference:
    """Return the inference of an op whose result type is declared, and whose last `count` operands hold the sizes.

    `static` checks the other operands.
    """

    def infer(site: Site) -> list[TensorType] | None:
        _check_sizes(site, count, site.results[0].rank if site.results else None)
        static_operands = site.operands[:-count]
        if static is not None:
            static(replace(site, operands=static_operands))
        elif site.results:
            x, result = static_operands[0], site.results[0]
            site.require(x.dtype == result.dtype, f"cannot turn {x} into {result}: the element types differ")
        return None

    return infer


def padded(site: Site) -> None:
    """Check the operands of a pad with dynamic sizes."""
    x, value = site.operands
    site.require(value.rank == 0, f"the padding value {value} is not a scalar")
    site.same_dtype(site.operands)
    if site.results:
        site.require(x.dtype == site.results[0].dtype, f"cannot pad {x} to {site.results[0]}: the element types differ")


def dynamic_gather(site: Site) -> list[TensorType] | None:
    """Infer the result type of a gather whose slice sizes are an operand."""
    rank = site.operands[0].rank
    _check_sizes(site, 1, rank)
    return gathered(replace(site, operands=site.operands[:2]), (None,) * rank)


def _check_padding(site: Site, rank: int) -> None:
    """Check that the last operand is an integer tensor with one (low, high) pair per dim."""
    pairs = site.operands[-1]
    fits = pairs.rank == 2 and agree(pairs.shape[0], rank) and agree(pairs.shape[1], 2)
    site.require(fits, f"the padding must be a pair for each of {rank} dims, got {pairs}")
    site.dtype_in(pairs, "integer")


def dynamic_conv(site: Site) -> list[TensorType] | None:
    """Infer the result type of a convolution whose padding is an operand. The spatial sizes of the result are unknown."""
    _check_padding(site, site.operands[0].rank - 2)
    return convolved(replace(site, operands=site.operands[:2]), None)


def dynamic_reduce_window(site: Site) -> list[TensorType] | None:
    """Check the operands: n tensors, n initial values, four 1-d operands with one integer per dim, and the padding."""
    count = len(site.operands) - 5
    if site.require(count % 2 == 0, f"has {count} tensors and initial values") and site.regions:
        _check_padding(site, site.operands[0].rank)
        for kind in site.operands[count:-1]:
            site.require(
                kind.rank == 1 and agree(kind.shape[0], site.operands[0].rank),
                f"expected a list of the dims, got {kind}",
            )
    return None


def shape_assertion(site: Site) -> list[TensorType]:
    for index, kind in enumerate(site.operands):
        site.require(kind.rank == 0, f"operand {index} ({kind}) is not a scalar")
    site.require(site.operands[0].dtype == "i1", f"the condition must be i1[], got {site.operands[0]}")
    return []
