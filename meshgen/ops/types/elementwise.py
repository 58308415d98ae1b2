"""Types of the element-wise ops."""

from __future__ import annotations

from meshgen.ir.graph import COMPLEX_PARTS, TensorType, is_complex, real_dtype
from meshgen.ops.evaluate.common import bits
from meshgen.ops.types.site import Inference, Site, known, shapes_agree

_UNARY = {
    "abs": "number", "negate": "number", "sign": "number", "not": "logical", "is_finite": "float",
    "popcnt": "integer", "count_leading_zeros": "integer", "real": "inexact", "imag": "inexact",
    "reduce_precision": "float",
    **dict.fromkeys(("exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "sqrt",
                     "rsqrt", "cbrt", "sine", "cosine", "tan", "sinh", "cosh", "asin", "acos", "asinh", "acosh",
                     "atanh"), "inexact"),
    **dict.fromkeys(("floor", "ceil", "round_nearest_even", "round_nearest_afz", "erf", "erf_inv", "erfc", "lgamma",
                     "digamma", "bessel_i1e"), "float"),
}  # fmt: skip
_BINARY = {
    "add": "any", "subtract": "number", "multiply": "any", "divide": "number", "remainder": "real",
    "power": "number", "maximum": "ordered", "minimum": "ordered", "and": "logical", "or": "logical", "xor": "logical",
    "shift_left": "integer", "shift_right_logical": "integer", "shift_right_arithmetic": "integer",
    "atan2": "inexact", "polygamma": "float", "zeta": "float", "next_after": "float",
}  # fmt: skip
_COMPLEX = {part: name for name, part in COMPLEX_PARTS.items()}
_DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
_COMPARE_TYPES = {"": "any", "FLOAT": "inexact", "TOTALORDER": "float", "SIGNED": "integer", "UNSIGNED": "logical"}


def _common(site: Site, *types: TensorType) -> TensorType | None:
    """The one type of operands that must be alike, or None after a fault."""
    first, *rest = types
    sound = site.same_dtype(types)
    for other in rest:
        if not shapes_agree(first.shape, other.shape):
            site.fault(f"the operands have shapes {first} and {other}", "insert a broadcast_in_dim")
            return None
        first = first.with_shape(known(first.shape, other.shape))
    return first if sound else None


def _unary(site: Site) -> list[TensorType] | None:
    (x,) = site.operands
    site.dtype_in(x, _UNARY[site.op])
    if site.op == "reduce_precision":
        exponent, mantissa = site.attrs["exponent_bits"], site.attrs["mantissa_bits"]
        site.require(
            exponent >= 1 and mantissa >= 0, f"e{exponent}m{mantissa} is no format: it has an exponent bit at least"
        )
    if site.op == "is_finite":
        return [TensorType(x.shape, "i1")]
    return [TensorType(x.shape, real_dtype(x.dtype))] if site.op in ("abs", "real", "imag") else [x]


def _complex(site: Site) -> list[TensorType] | None:
    common = _common(site, *site.operands)
    if common is None or not site.require(common.dtype in _COMPLEX, f"{common.dtype} is no part of a complex type"):
        return None
    return [TensorType(common.shape, _COMPLEX[common.dtype])]


def _binary(site: Site) -> list[TensorType] | None:
    site.dtype_in(site.operands[0], _BINARY[site.op])
    common = _common(site, *site.operands)
    return common and [common]


def _compare(site: Site) -> list[TensorType] | None:
    direction, how = site.attrs["direction"], site.attrs.get("compare_type", "")
    site.require(direction in _DIRECTIONS, f"direction '{direction}' is none of {', '.join(_DIRECTIONS)}")
    if site.require(how in _COMPARE_TYPES, f"compare_type '{how}' is unknown"):
        site.dtype_in(site.operands[0], _COMPARE_TYPES[how])
    if is_complex(site.operands[0].dtype):
        site.require(direction in ("EQ", "NE"), "complex numbers have no order")
    common = _common(site, *site.operands)
    return common and [TensorType(common.shape, "i1")]


def _select(site: Site) -> list[TensorType] | None:
    pred, on_true, on_false = site.operands
    site.require(pred.dtype == "i1", f"the predicate has element type {pred.dtype}, not i1")
    common = _common(site, on_true, on_false)
    if common is None:
        return None
    site.require(
        pred.rank == 0 or shapes_agree(pred.shape, common.shape),
        f"the predicate is {pred}, but the choices are {common}",
    )
    return [common]


def _clamp(site: Site) -> list[TensorType] | None:
    low, x, high = site.operands
    site.same_dtype(site.operands)
    for bound, name in ((low, "min"), (high, "max")):
        site.require(
            bound.rank == 0 or shapes_agree(bound.shape, x.shape), f"the {name} is {bound}, but the operand is {x}"
        )
    return [x]


def _convert(site: Site) -> list[TensorType] | None:
    if site.results:
        same = shapes_agree(site.operands[0].shape, site.results[0].shape)
        site.require(same, f"turns {site.operands[0]} into {site.results[0]}: the shapes differ")
    return None


def _bitcast(site: Site) -> list[TensorType] | None:
    if not site.results:
        return None
    x, result = site.operands[0], site.results[0]
    source, target = bits(x.dtype), bits(result.dtype)
    same_bits = x.dtype == result.dtype or "i1" not in (x.dtype, result.dtype)
    site.require(same_bits, f"from {x.dtype} to {result.dtype}: the bits of truth values are not those of other types")
    wide, thin = (x, result) if source > target else (result, x)
    ratio = max(source, target) // min(source, target)
    expected = wide.shape if ratio == 1 else (*wide.shape, ratio)
    site.require(
        shapes_agree(expected, thin.shape), f"from {x} to {result}: {thin} should be {thin.with_shape(expected)}"
    )
    return None


def _reduce_precision(site: Site) -> list[TensorType] | None:
    for name, least in (("exponent_bits", 1), ("mantissa_bits", 0)):
        count = site.attrs[name]
        site.require(least <= count < 1 << 30, f"{name} is {count}; it should be from {least} to 2^30")
    return _unary(site)


OPTIONAL: dict[str, dict[str, str]] = {"compare": {"compare_type": "str"}}
ATTRS: dict[str, dict[str, str]] = {
    "compare": {"direction": "str"},
    "reduce_precision": {"exponent_bits": "int", "mantissa_bits": "int"},
}
ARITY = {
    **dict.fromkeys(_UNARY, 1), **dict.fromkeys(_BINARY, 2), "compare": 2, "complex": 2, "select": 3, "clamp": 3, "convert": 1,
    "bitcast_convert": 1,
}  # fmt: skip
INFERENCE: dict[str, Inference] = {
    **dict.fromkeys(_UNARY, _unary),
    "reduce_precision": _reduce_precision,
    **dict.fromkeys(_BINARY, _binary),
    "compare": _compare,
    "complex": _complex,
    "select": _select,
    "clamp": _clamp,
    "convert": _convert,
    "bitcast_convert": _bitcast,
}
