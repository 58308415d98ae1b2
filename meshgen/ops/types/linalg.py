"""Types of matrix factorisations and Fourier transforms.

cholesky: `lower`. triangular_solve: `left_side`, `lower`, `unit_diagonal`, `transpose_a`. fft: `kind`, `length`.
lapack: `routine`, `options`.
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
    known = site.require(kind in _KINDS, f"unknown type '{kind}'; expected one of {', '.join(_KINDS)}")
    known &= site.require(1 <= len(length) <= min(3, x.rank), f"length has {len(length)} entries; {x} allows 1 to 3")
    known &= site.require(all(n > 0 for n in length), f"length {list(length)} has an entry below 1")
    right = is_float(x.dtype) and x.dtype in _COMPLEX if kind == "RFFT" else is_complex(x.dtype)
    if not site.require(right, f"{kind} of {x.dtype} elements") or not known:
        return None
    batch, half = x.shape[: x.rank - len(length)], (*length[:-1], length[-1] // 2 + 1)
    given = half if kind == "IRFFT" else length
    site.require(shapes_agree(x.shape[len(batch) :], given), f"{kind} of length {list(length)} needs dims {list(given)}, not {x}")  # fmt: skip
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
    found = ROUTINES[name].result_types(site.operands, options_of(site.attrs.options))
    if found is not None and name == "gehrd":
        _check_balanced(site, site.operands[0].shape[-1] or 0)
    given = ", ".join(map(str, site.operands))
    site.require(found is not None, f"expected operands ({ROUTINES[name].takes}) of {name}, got ({given})")
    return found


def _check_balanced(site: Site, size: int) -> None:
    """Rows low to high, counted from 1, are not triangular yet."""
    options = options_of(site.attrs.options)
    low, high = options.get("low", "1"), options.get("high", str(size))
    whole = low.isdecimal() and high.isdecimal() and max(len(low), len(high)) < 10
    fits = whole and (1 <= int(low) <= int(high) <= size or (size == 0 and int(low) == 1 and int(high) == 0))
    site.require(fits, f"rows '{low}' to '{high}' are not among {size}")
