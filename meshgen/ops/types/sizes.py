"""Types of the ops that ask for sizes or take them as operands: `known_sizes.py` replaces them once sizes are given."""

from __future__ import annotations

from meshgen.ir.graph import TensorType
from meshgen.ops.types.site import Inference, Site, agree


def _get_dimension_size(site: Site) -> list[TensorType]:
    site.one_dim("dim", site.operands[0].rank)
    return [TensorType((), "i32")]


def _axis_size(site: Site) -> list[TensorType]:
    return [TensorType((), "i64")]


def _given_sizes(site: Site, count: int, rank: int | None) -> None:
    """The last `count` operands are lists of integers, one per dim."""
    for kind in site.operands[-count:]:
        if site.require(kind.rank == 1, f"the sizes {kind} are no list") and rank is not None:
            site.require(agree(kind.shape[0], rank), f"has {kind.shape[0]} sizes for {rank} dims")
        site.dtype_in(kind, "integer")


def _sized(count: int) -> Inference:
    """The result type is as declared: `count` operands say its sizes, dim by dim."""

    def rule(site: Site) -> list[TensorType] | None:
        _given_sizes(site, count, site.results[0].rank if site.results else None)
        if site.results and len(site.operands) > count:
            x, result = site.operands[0], site.results[0]
            site.require(x.dtype == result.dtype, f"turns {x} into {result}: the element types differ")
        return None

    return rule


def _dynamic_gather(site: Site) -> list[TensorType] | None:
    _given_sizes(site, 1, site.operands[0].rank)
    return None


def _pairs(site: Site, rank: int) -> None:
    """The last operand is a pair of integers for each dim."""
    pairs = site.operands[-1]
    fits = pairs.rank == 2 and agree(pairs.shape[0], rank) and agree(pairs.shape[1], 2)
    site.require(fits, f"the padding {pairs} is no pair for each of {rank} dims")


def _dynamic_conv(site: Site) -> list[TensorType] | None:
    _pairs(site, site.operands[0].rank - 2)
    return None


def _dynamic_reduce_window(site: Site) -> list[TensorType] | None:
    """Operands are tensors, as many initial values, four lists and the padding."""
    count = len(site.operands) - 5
    if site.require(count % 2 == 0, f"has {count} tensors and initial values") and site.regions:
        _pairs(site, site.operands[0].rank)
        for kind in site.operands[count:-1]:
            site.require(
                kind.rank == 1 and agree(kind.shape[0], site.operands[0].rank), f"{kind} is no list of the dims"
            )
    return None


def _shape_assertion(site: Site) -> list[TensorType]:
    for number, kind in enumerate(site.operands):
        site.require(kind.rank == 0, f"operand {number} ({kind}) is not a scalar")
    site.require(site.operands[0].dtype == "i1", f"{site.operands[0]} is no condition")
    return []


_INTS = "ints"
ATTRS: dict[str, dict[str, str]] = {
    "get_dimension_size": {"dim": "int"},
    "axis_size": {"axes": "names"},
    "dynamic_iota": {"dim": "int"},
    "dynamic_broadcast_in_dim": {"dims": _INTS},
    "dynamic_gather": {"offset_dims": _INTS, "collapsed_slice_dims": _INTS, "operand_batching_dims": _INTS,
                       "start_indices_batching_dims": _INTS, "start_index_map": _INTS, "index_vector_dim": "int"},
    "dynamic_conv": {"window_strides": _INTS, "lhs_dilation": _INTS, "rhs_dilation": _INTS},
    "shape_assertion": {"message": "str"},
}  # fmt: skip
ARITY = {"axis_size": 0, "get_dimension_size": 1, "dynamic_iota": 1, "dynamic_reshape": 2, "dynamic_broadcast_in_dim": 2,
         "dynamic_pad": 5, "real_dynamic_slice": 4, "dynamic_gather": 3, "dynamic_conv": 3}  # fmt: skip
AT_LEAST = {"shape_assertion": 1, "dynamic_reduce_window": 7}
WITH_REGIONS = ("dynamic_reduce_window",)
RESULTS = {"dynamic_reduce_window": None}
INFERENCE: dict[str, Inference] = {
    "axis_size": _axis_size,
    "get_dimension_size": _get_dimension_size,
    "dynamic_iota": _sized(1),
    "dynamic_reshape": _sized(1),
    "dynamic_broadcast_in_dim": _sized(1),
    "dynamic_pad": _sized(3),
    "real_dynamic_slice": _sized(3),
    "dynamic_gather": _dynamic_gather,
    "dynamic_conv": _dynamic_conv,
    "dynamic_reduce_window": _dynamic_reduce_window,
    "shape_assertion": _shape_assertion,
}
