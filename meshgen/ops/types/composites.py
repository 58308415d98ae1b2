"""Type inference of composites that store their factor notation as an attribute."""

from __future__ import annotations

from collections.abc import Iterable

from meshgen.ir.graph import TensorType, is_complex, is_float
from meshgen.ops.factors import Names, packing_factor, parsed, size_faults
from meshgen.ops.types.site import Site


def normalize(site: Site) -> list[TensorType] | None:
    """Infer the result types of a normalization: the result, the mean (if it is subtracted) and the variance of each
    row.

    The operands are the input, then an optional scale and bias. The statistics are f32, or f64 for an f64 operand.
    """
    count = 3 if site.attrs.centered else 2
    if not site.require(len(site.operands) <= 3, "takes 1 to 3 operands") or not _has_factors(site, count):
        return None
    (x, *affine), (out, *rows) = parsed(site.attrs.factors)
    if not _has_rows(site, 0, x, rows) or not site.require(out == x, "the result must have the dims of the operand"):
        return None
    if not _are_in_order(site, affine, x):
        return None
    kind = site.operands[0]
    return [kind, *[_statistic(kind, x, names) for names in rows]]


def normalize_gradient(site: Site) -> list[TensorType] | None:
    """Infer the type of the gradient of a normalization's operand.

    The operands are the gradient of the result, the normalized operand, its statistics, and an optional scale.
    """
    min_operands = 4 if site.attrs.centered else 3
    if not site.require(
        min_operands <= len(site.operands) <= min_operands + 1, f"takes {min_operands} or {min_operands + 1} operands"
    ):
        return None
    if not _has_factors(site, 1):
        return None
    (gradient, x, *more), (out,) = parsed(site.attrs.factors)
    rows, affine = more[: min_operands - 2], more[min_operands - 2 :]
    if not site.require(gradient == x == out, "gradients must have the dims of the operand"):
        return None
    if not _has_rows(site, 1, x, rows) or not _are_in_order(site, affine, x):
        return None
    kind = site.operands[1]
    for index, names in enumerate(rows, 2):
        expected = _statistic(kind, x, names).dtype
        site.require(site.operands[index].dtype == expected, f"statistics must be {expected}")
    return [kind]


def softmax_cross_entropy(site: Site) -> list[TensorType] | None:
    """Infer the loss and the log-sum-exp of each row (f32 or f64) from logits and a class index per row."""
    if not _are_factors(site, 2):
        return None
    (logits, labels), rows = parsed(site.attrs.factors)
    kind, numbers = site.operands
    site.require(is_float(kind.dtype), "logits must be floats")
    site.dtype_in(numbers, "integer")
    site.require(len(logits) == len(labels) + 1, "labels must have all factors of the logits except the classes")
    if not _are_in_order(site, (labels,), logits) or not site.require({*rows} == {labels}, "results must have the dims of the labels"):  # fmt: skip
        return None
    return [_statistic(kind, logits, labels)] * 2


def scaled_dot(site: Site) -> list[TensorType] | None:
    """Infer the result of a block-scaled matmul, whose element type is the type of the first operand.

    The operands are floats, then numbers or bytes with packed numbers, their scales, and optional zero points.
    """
    if not site.require(3 <= len(site.operands) <= 4, "takes 3 or 4 operands") or not _are_factors(site, 1):
        return None
    operands, (out,) = parsed(site.attrs.factors)
    x, numbers, *beside = operands
    bits, packing = site.attrs.bits, ""
    if bits:
        packing = packing_factor(operands, out)
        sizes = dict(zip(x, site.operands[0].shape, strict=True))
        is_packed = bits in (1, 2, 4) and packing and sizes[packing] in (8 // bits, None)
        if not site.require(bool(is_packed), f"bits {bits} must be 0, 1, 2 or 4, and one factor of the first operand alone must count the elements of a byte"):  # fmt: skip
            return None
        site.require(site.operands[1].dtype == "ui8", f"packed numbers must be ui8, not {site.operands[1].dtype}")
    weights = {*numbers, packing} - {""}
    kinds = site.operands
    site.require(is_float(kinds[0].dtype) and is_float(kinds[2].dtype), "the first operand and scales must be floats")
    site.require(not any(is_complex(kind.dtype) or kind.dtype == "i1" for kind in (kinds[1], *kinds[3:])), "numbers and zero points must be integers or floats")  # fmt: skip
    site.require(bool({*x} & weights - {*out}), "the operands share no factor that is summed")
    site.require({*x} ^ weights <= {*out}, "a factor of one operand is neither in the result nor summed")
    _are_in_order(site, beside, numbers)
    sizes = {
        f: size for names, kind in zip(operands, kinds, strict=True) for f, size in zip(names, kind.shape, strict=True)
    }
    return [kinds[0].with_shape(sizes[f] for f in out)]


def _are_factors(site: Site, results: int) -> bool:
    messages = size_faults(site.attrs.factors, site.operands, site.results, results)
    for message in messages:
        site.fault(message)
    return not messages


def _has_factors(site: Site, results: int) -> bool:
    are_floats = all(is_float(kind.dtype) for kind in site.operands)
    return _are_factors(site, results) and site.require(are_floats, "operands must be floats")


def _has_rows(site: Site, index: int, x: Names, rows: list[Names]) -> bool:
    """Whether the factors of the statistics are a proper subset of the factors of operand `index`."""
    sizes = dict(zip(x, site.operands[index].shape, strict=True))
    reduced = [f for f in x if f not in rows[0]]
    return (
        site.require(all(names == rows[0] for names in rows), "statistics differ in factors")
        and _are_in_order(site, rows[:1], x)
        and site.require(bool(reduced), "the statistics have all factors of the operand: none is reduced")
        and site.require(all(sizes[f] != 0 for f in reduced), "a factor that is reduced has no elements")
    )


def _are_in_order(site: Site, words: Iterable[Names], x: Names) -> bool:
    is_sound = all(names == tuple(f for f in x if f in names) for names in words)
    return site.require(is_sound, "dims must be in the order of the reduced operand's dims")


def _statistic(kind: TensorType, x: Names, names: Names) -> TensorType:
    sizes = dict(zip(x, kind.shape, strict=True))
    return TensorType(tuple(sizes[f] for f in names), "f64" if kind.dtype == "f64" else "f32")
