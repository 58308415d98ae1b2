"""Type inference of element-wise ops."""

from __future__ import annotations

from meshgen.ir.graph import COMPLEX_PARTS, TensorType, is_complex, real_dtype
from meshgen.ops.evaluate.common import bits
from meshgen.ops.types.site import Inference, Site, known, shapes_agree

_COMPLEX = {part: name for name, part in COMPLEX_PARTS.items()}
_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
_COMPARE_TYPES = {"": "any", "FLOAT": "inexact", "TOTALORDER": "float", "SIGNED": "integer", "UNSIGNED": "logical"}


def _common(site: Site, *types: TensorType) -> TensorType | None:
    """Return the common type of operands that must have equal types, or None after a fault."""
    first, *rest = types
    has_one_dtype = site.same_dtype(types)
    for operand in rest:
        if not shapes_agree(first.shape, operand.shape):
            site.fault(f"the operands differ in shape: {first} and {operand}", "insert a broadcast_in_dim")
            return None
        first = first.with_shape(known(first.shape, operand.shape))
    return first if has_one_dtype else None


def unary(family: str) -> Inference:
    """Return the inference of a unary op whose element type belongs to `family` (`Site.dtype_in`)."""

    def infer(site: Site) -> list[TensorType] | None:
        (x,) = site.operands
        site.dtype_in(x, family)
        return [x]

    return infer


def part(family: str) -> Inference:
    """Return the inference of abs, real or imag: as for `unary`, but a complex operand has a real result."""

    def infer(site: Site) -> list[TensorType] | None:
        (x,) = site.operands
        site.dtype_in(x, family)
        return [TensorType(x.shape, real_dtype(x.dtype))]

    return infer


def is_finite(site: Site) -> list[TensorType] | None:
    (x,) = site.operands
    site.dtype_in(x, "float")
    return [TensorType(x.shape, "i1")]


def complex_number(site: Site) -> list[TensorType] | None:
    common = _common(site, *site.operands)
    if common is None or not site.require(
        common.dtype in _COMPLEX, f"{common.dtype} is not the part type of a complex type"
    ):
        return None
    return [TensorType(common.shape, _COMPLEX[common.dtype])]


def binary(family: str) -> Inference:
    """Return the inference of a binary op with equal operand types, whose element type belongs to `family`."""

    def infer(site: Site) -> list[TensorType] | None:
        site.dtype_in(site.operands[0], family)
        common = _common(site, *site.operands)
        return common and [common]

    return infer


def compare(site: Site) -> list[TensorType] | None:
    direction, how = site.attrs.direction, site.attrs.compare_type
    site.require(direction in _DIRECTIONS, f"unknown direction '{direction}'; expected one of {', '.join(_DIRECTIONS)}")
    if site.require(how in _COMPARE_TYPES, f"unknown compare_type '{how}'"):
        site.dtype_in(site.operands[0], _COMPARE_TYPES[how])
    if is_complex(site.operands[0].dtype):
        site.require(direction in ("EQ", "NE"), "complex numbers have no order")
    common = _common(site, *site.operands)
    return common and [TensorType(common.shape, "i1")]


def select(site: Site) -> list[TensorType] | None:
    pred, on_true, on_false = site.operands
    site.require(pred.dtype == "i1", f"the predicate must have element type i1, got {pred.dtype}")
    common = _common(site, on_true, on_false)
    if common is None:
        return None
    site.require(
        pred.rank == 0 or shapes_agree(pred.shape, common.shape),
        f"the predicate is {pred}, but the choices are {common}",
    )
    return [common]


def clamp(site: Site) -> list[TensorType] | None:
    low, x, high = site.operands
    site.same_dtype(site.operands)
    for bound, name in ((low, "min"), (high, "max")):
        site.require(
            bound.rank == 0 or shapes_agree(bound.shape, x.shape), f"the {name} is {bound}, but the operand is {x}"
        )
    return [x]


def convert(site: Site) -> list[TensorType] | None:
    if site.results:
        same = shapes_agree(site.operands[0].shape, site.results[0].shape)
        site.require(same, f"cannot convert {site.operands[0]} to {site.results[0]}: the shapes differ")
    return None


def bitcast_convert(site: Site) -> list[TensorType] | None:
    if not site.results:
        return None
    x, result = site.operands[0], site.results[0]
    source, target = bits(x.dtype), bits(result.dtype)
    is_valid = x.dtype == result.dtype or "i1" not in (x.dtype, result.dtype)
    site.require(is_valid, f"from {x.dtype} to {result.dtype}: booleans cannot be bitcast to other types")
    site.require(
        is_complex(x.dtype) == is_complex(result.dtype),
        f"from {x.dtype} to {result.dtype}: complex numbers cannot be bitcast to real ones",
        "use real, imag and complex",
    )
    wider, narrower = (x, result) if source > target else (result, x)
    ratio = max(source, target) // min(source, target)
    expected = wider.shape if ratio == 1 else (*wider.shape, ratio)
    site.require(
        shapes_agree(expected, narrower.shape),
        f"from {x} to {result}: {narrower} should be {narrower.with_shape(expected)}",
    )
    return None


def reduce_precision(site: Site) -> list[TensorType] | None:
    for name, least in (("exponent_bits", 1), ("mantissa_bits", 0)):
        count = getattr(site.attrs, name)
        site.require(least <= count < 1 << 30, f"{name} is {count}; it should be from {least} to 2^30")
    (x,) = site.operands
    site.dtype_in(x, "float")
    return [x]
