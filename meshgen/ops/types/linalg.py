"""Type inference of matrix factorizations and Fourier transforms.

The attributes of each op: cholesky: `lower`. triangular_solve: `left_side`, `lower`, `unit_diagonal`, `transpose_a`.
fft: `kind`, `length`. lapack: `routine`, `options`.
"""

from __future__ import annotations

from meshgen.ir.graph import COMPLEX_PARTS, TensorType, is_complex, is_float, real_dtype
from meshgen.ops.lapack import ROUTINES, options_of
from meshgen.ops.types.site import Site, agree, shapes_agree

_COMPLEX = {part: name for name, part in COMPLEX_PARTS.items()}
_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
_TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


def _is_square(site: Site, a: TensorType) -> bool:
    square = a.rank >= 2 and agree(a.shape[-1], a.shape[-2])
    return site.require(square, f"{a} must hold square matrices") & site.dtype_in(a, "inexact")


def cholesky(site: Site) -> list[TensorType] | None:
    (a,) = site.operands
    return [a] if _is_square(site, a) else None


def triangular_solve(site: Site) -> list[TensorType] | None:
    a, b = site.operands
    how = site.attrs.transpose_a
    site.require(how in _TRANSPOSES, f"unknown transpose_a '{how}'; expected one of {', '.join(_TRANSPOSES)}")
    if not (_is_square(site, a) and site.same_dtype(site.operands)):
        return None
    side = -2 if site.attrs.left_side else -1
    fits = a.rank == b.rank and shapes_agree(a.shape[:-2], b.shape[:-2]) and agree(a.shape[-1], b.shape[side])
    site.require(fits, f"{a} does not fit {b}")
    return [b]


def fft(site: Site) -> list[TensorType] | None:
    (x,) = site.operands
    kind, length = site.attrs.kind, site.ints("length")
    is_valid = site.require(kind in _KINDS, f"unknown type '{kind}'; expected one of {', '.join(_KINDS)}")
    is_valid &= site.require(1 <= len(length) <= min(3, x.rank), f"length has {len(length)} entries; {x} allows 1 to 3")
    is_valid &= site.require(all(n > 0 for n in length), f"length {list(length)} has an entry below 1")
    has_valid_dtype = is_float(x.dtype) and x.dtype in _COMPLEX if kind == "RFFT" else is_complex(x.dtype)
    if not site.require(has_valid_dtype, f"{kind} of {x.dtype} elements") or not is_valid:
        return None
    batch, half = x.shape[: x.rank - len(length)], (*length[:-1], length[-1] // 2 + 1)
    input_dims = half if kind == "IRFFT" else length
    site.require(shapes_agree(x.shape[len(batch) :], input_dims), f"{kind} of length {list(length)} needs dims {list(input_dims)}, not {x}")  # fmt: skip
    if kind == "RFFT":
        return [TensorType((*batch, *half), _COMPLEX[x.dtype])]
    return [TensorType((*batch, *length), real_dtype(x.dtype) if kind == "IRFFT" else x.dtype)]


def lapack(site: Site) -> list[TensorType] | None:
    name = site.attrs.routine
    if not site.require(name in ROUTINES, f"unknown routine '{name}'; expected one of {', '.join(ROUTINES)}"):
        return None
    if any("=" not in pair for pair in site.attrs.options.split()):
        site.fault(f"expected options name=value, got '{site.attrs.options}'")
        return None
    result_types = ROUTINES[name].result_types(site.operands, options_of(site.attrs.options))
    if result_types is not None and name == "gehrd":
        _check_balanced(site, site.operands[0].shape[-1] or 0)
    operand_types = ", ".join(map(str, site.operands))
    site.require(
        result_types is not None, f"expected operands ({ROUTINES[name].takes}) of {name}, got ({operand_types})"
    )
    return result_types


def _check_balanced(site: Site, size: int) -> None:
    """Check that `low` and `high`, the 1-based rows of the part that is not triangular yet, are rows of the matrix."""
    options = options_of(site.attrs.options)
    low, high = options.get("low", "1"), options.get("high", str(size))
    are_integers = low.isdecimal() and high.isdecimal() and max(len(low), len(high)) < 10
    fits = are_integers and (1 <= int(low) <= int(high) <= size or (size == 0 and int(low) == 1 and int(high) == 0))
    site.require(fits, f"rows '{low}' to '{high}' are not among {size}")
