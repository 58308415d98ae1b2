"""Matrix factorizations by LAPACK: a table of routines, with their result types and SciPy calls.

JAX calls these routines for LU, QR, eigenvalues and singular values. A node `lapack` has the name of the routine
without the letter of the element type, and `options` such as "uplo=L mode=V". Leading dims are batch dims. Each matrix
is factorized separately, so the bits of its factors do not depend on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.ir.graph import COMPLEX_PARTS, TensorType, dtype_name, is_complex, real_dtype
from meshgen.ops.evaluate.common import Array

Options = Mapping[str, str]
Sizes = Mapping[str, int]
_COMPLEX = {part: name for name, part in COMPLEX_PARTS.items()}
COMPLEX_NAMES = {"orgqr": "ungqr", "ormqr": "unmqr", "sytrd": "hetrd", "syevd": "heevd"}
LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}


class Routine(NamedTuple):
    """A LAPACK routine.

    Attributes:
        operands, results: the dims of each operand / result, as `m n`. A prefix `int`, `real` or `complex` sets
            another element type than that of the node.
        compute: `compute(call, arrays, options)` factorizes one matrix. `call(name)` returns the LAPACK function `name`
            for the element type.
        is_iterative: the routine iterates, so it may not terminate or return arbitrary numbers for NaN or infinity.
        jumps: indices of the results that are discontinuous, such as the signs and the order of vectors.
        needs: constraints on the sizes, as text. `holds(sizes, options)` checks them.
        is_product: the routine multiplies its last operand by the matrix that the other operands represent.
    """

    operands: str
    results: str
    compute: Callable[[Callable[[str], Any], Sequence[Array], Options], Sequence[Any]]
    is_iterative: bool = False
    jumps: tuple[int, ...] = ()
    needs: str = ""
    holds: Callable[[Sizes, Options], bool] = lambda *_: True
    is_product: bool = False

    @property
    def takes(self) -> str:
        """The operand dims and the size constraints, as text for error messages."""
        return f"{self.operands}; {self.needs}" if self.needs else self.operands

    @property
    def rank(self) -> int:
        """The rank of the first operand, not counting batch dims."""
        return _rank(self.operands.split(", ")[0].split())

    def result_types(self, operands: Sequence[TensorType], options: Options) -> list[TensorType] | None:
        """Return the result types, or None if the operand types are invalid for the routine."""
        names = [words.split() for words in self.operands.split(", ")]
        if not operands or operands[0].dtype not in LETTERS or operands[0].rank < self.rank:
            return None
        if len(operands) != len(names):
            return None
        dtype, batch = operands[0].dtype, operands[0].shape[: operands[0].rank - self.rank]
        sizes: dict[str, int | None] = {}
        for kind, words in zip(operands, names, strict=True):
            dims = [word for word in words if word not in ("int", "real", "complex")]
            if kind.rank != len(batch) + len(dims) or kind.shape[: len(batch)] != batch:
                return None
            if kind.dtype != _dtype_from_words(words, dtype) or None in kind.shape[len(batch) :]:
                return None
            for dim, size in zip(dims, kind.shape[len(batch) :], strict=True):
                if sizes.setdefault(dim, size) != size:
                    return None
        known_sizes = {dim: size for dim, size in sizes.items() if size is not None}
        if not self.holds(known_sizes, options):
            return None
        all_sizes = _with_result_sizes(known_sizes, options)
        types: list[TensorType] = []
        for words in self._results(dtype):
            dims = [all_sizes[word] for word in words if word not in ("int", "real", "complex")]
            types.append(TensorType((*batch, *dims), _dtype_from_words(words, dtype)))
        return types

    def _results(self, dtype: str) -> list[list[str]]:
        text = self.results
        # A complex matrix has one result for the eigenvalues; a real matrix has two, for real and imaginary parts.
        if is_complex(dtype):
            text = text.replace("real parts n, real parts n", "n")
        return [[word for word in words.split() if word != "parts"] for words in text.split(", ")]


def _rank(words: Sequence[str]) -> int:
    return sum(word not in ("int", "real", "complex") for word in words)


def _dtype_from_words(words: Sequence[str], dtype: str) -> str:
    if "int" in words:
        return "i32"
    if "real" in words:
        return real_dtype(dtype)
    return _COMPLEX.get(dtype, dtype) if "complex" in words else dtype


def _with_result_sizes(sizes: Sizes, options: Options) -> dict[str, int]:
    """Return `sizes`, the sizes of the operand dims by name, with the result sizes that follow from them."""
    m, n = sizes.get("m", 0), sizes.get("n", 0)
    thin = "S" in (options.get("mode"), options.get("vectors"))
    least = min(m, n)
    return {**sizes, "k": least, "u": least if thin else m, "v": least if thin else n, "n-1": max(n - 1, 0)}


def options_of(text: str) -> dict[str, str]:
    """Parse the `options` of a node: "uplo=L mode=V" -> {"uplo": "L", "mode": "V"}."""
    return dict(pair.split("=", 1) for pair in text.split())


def factorize(routine: Routine, args: Sequence[Array], types: Sequence[TensorType], options: Options) -> list[Array]:
    """Run the routine on each matrix of the batch, and return the results. Raises ImportError if SciPy is missing."""
    from scipy.linalg import lapack  # Imported on demand, because the import is slow and few programs need it.

    letter = LETTERS[dtype_name(args[0].dtype)]
    batch = args[0].shape[: args[0].ndim - routine.rank]
    results = [np.zeros(kind.sizes, kind.numpy_dtype) for kind in types]
    for batch_index in np.ndindex(*batch):
        matrices = [np.ascontiguousarray(x[batch_index]) for x in args]
        if matrices[0].size == 0:  # LAPACK rejects empty matrices. Their orthogonal factors are identity matrices.
            for result in results:
                if result[batch_index].ndim != 2:
                    result[batch_index] = 0
                else:
                    result[batch_index] = matrices[-1] if routine.is_product else np.eye(*result[batch_index].shape)
            continue
        if routine.is_iterative and not np.isfinite(matrices[0]).all():
            for result in results:
                result[batch_index] = 1 if result.dtype.kind == "i" else np.nan
            continue
        parts = routine.compute(lambda name: getattr(lapack, letter + name), matrices, options)
        for result, part in zip(results, parts, strict=True):
            result[batch_index] = 0 if part is None else part
    return results


def _unitary(call: Callable[[str], Any], name: str) -> Any:
    """Call a routine that has another name for complex numbers."""
    try:
        return call(name)
    except AttributeError:
        return call(COMPLEX_NAMES[name])


def _lu(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    factors, pivots, info = call("getrf")(args[0])
    return factors, pivots + 1, info


def _qr(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    factors, scales, _, _ = call("geqrf")(args[0])
    return factors, scales


def _pivoted_qr(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    factors, order, scales, _, _ = call("geqp3")(args[0])
    return factors, order, scales


def _reflectors(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    return [_unitary(call, "orgqr")(args[0], args[1])[0]] if args[1].size else [np.eye(*args[0].shape)]


def _multiplied(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    """Return Q C or C Q for an orthogonal matrix Q, represented by reflectors, and the last operand C.

    With option `trans`, Q is transposed, and conjugated if it is complex.
    """
    reflectors, scales, matrix = args
    if not scales.size or not matrix.size:
        return [matrix]
    transposition = {"N": "N", "T": "C" if np.iscomplexobj(matrix) else "T"}[options.get("trans", "N")]
    multiplied, _, _ = _unitary(call, "ormqr")(
        options.get("side", "L"),
        transposition,
        reflectors[:, : scales.size],
        scales,
        matrix,
        max(64, *matrix.shape) ** 2,
    )
    return [multiplied]


def _eigh(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    values, vectors, info = _unitary(call, "syevd")(args[0], compute_v=1, lower=options.get("uplo", "L") == "L")
    return vectors, values, info


def _svd(call: Any, args: Sequence[Array], options: Options, name: str = "gesdd") -> Sequence[Any]:
    mode = options.get("mode", "A")
    u, s, vt, info = call(name)(args[0], compute_uv=mode != "N", full_matrices=mode == "A")
    return (args[0], s, None, None, info) if mode == "N" else (args[0], s, u, vt, info)


def _eig(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    sides = {f"compute_v{side[0]}": options.get(f"compute_{side}", "V") == "V" for side in ("left", "right")}
    *values, left, right, info = call("geev")(args[0], **sides)
    vectors = [_complex_vectors(values[1], vector) if len(values) == 2 else vector for vector in (left, right)]
    requested = [vector if is_requested else None for vector, is_requested in zip(vectors, sides.values(), strict=True)]
    return *values, *requested, info


def _complex_vectors(imaginary: Array, packed: Array) -> Array:
    """Unpack the eigenvectors of a real matrix into complex vectors.

    LAPACK stores a conjugate pair in two columns: the real parts, then the imaginary parts of the first vector.
    """
    vectors = packed.astype(np.result_type(packed.dtype, np.complex64))
    if packed.shape[-1] != imaginary.size:
        return vectors
    for first in np.flatnonzero(imaginary > 0):
        vectors[:, first] = packed[:, first] + 1j * packed[:, first + 1]
        vectors[:, first + 1] = vectors[:, first].conj()
    return vectors


def _schur(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    form, selected, *values, vectors, _, info = call("gees")(lambda *_: 0, args[0])
    return form, vectors, *values, selected, info


def _hessenberg(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    low, high = int(options.get("low", 1)) - 1, int(options.get("high", args[0].shape[0])) - 1
    return call("gehrd")(args[0], lo=low, hi=high)


def _tridiagonal(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    form, diagonal, beside, scales, info = _unitary(call, "sytrd")(args[0], lower=options.get("uplo", "L") == "L")
    return form, diagonal, beside, scales, info


def _tridiagonal_solve(call: Any, args: Sequence[Array], options: Options) -> Sequence[Any]:
    """Solve a tridiagonal system. The first number of the lower and the last of the upper diagonal are unused."""
    below, diagonal, above, right = args
    if diagonal.size == 1:  # SciPy rejects empty diagonals next to the main diagonal.
        is_singular = not diagonal.any()
        return below, diagonal, above, right if is_singular else right / diagonal, int(is_singular)
    *_, solution, info = call("gtsv")(below[1:], diagonal, above[:-1], right)
    return below, diagonal, above, solution, info


def _is_range(sizes: Sizes, options: Options) -> bool:
    """Whether options `low` and `high` are missing, or are decimal numbers that denote rows of the matrix, from 1."""
    low, high = options.get("low", "1"), options.get("high", str(sizes["n"]))
    return low.isdecimal() and high.isdecimal() and (not sizes["n"] or 1 <= int(low) <= int(high) <= sizes["n"])


def _has_reflectors(sizes: Sizes, options: Options) -> bool:
    return sizes["m"] >= sizes["n"] >= sizes["r"]


def _can_multiply(sizes: Sizes, options: Options) -> bool:
    is_left, trans = options.get("side", "L") == "L", options.get("trans", "N")
    return (
        sizes["m"] == sizes["p" if is_left else "q"] and sizes["m"] >= sizes["n"] >= sizes["r"] and trans in ("N", "T")
    )


ROUTINES: dict[str, Routine] = {
    "getrf": Routine("m n", "m n, int k, int", _lu),
    "geqrf": Routine("m n", "m n, k", _qr),
    "geqp3": Routine("m n, int n", "m n, int n, k", _pivoted_qr),
    "orgqr": Routine("m n, r", "m n", _reflectors, needs="m >= n >= r", holds=_has_reflectors),
    "ormqr": Routine(
        "m n, r, p q",
        "p q",
        _multiplied,
        needs="m >= n >= r; m = p, on the right m = q",
        holds=_can_multiply,
        is_product=True,
    ),
    "syevd": Routine("n n", "n n, real n, int", _eigh, is_iterative=True, jumps=(0,)),
    "gesdd": Routine("m n", "m n, real k, m u, v n, int", _svd, is_iterative=True, jumps=(0, 2, 3)),
    "gesvd": Routine(
        "m n",
        "m n, real k, m u, v n, int",
        lambda call, args, options: _svd(call, args, options, "gesvd"),
        is_iterative=True,
        jumps=(0, 2, 3),
    ),
    "geev": Routine("n n", "real parts n, real parts n, complex n n, complex n n, int", _eig, True, (0, 1, 2, 3)),
    "gees": Routine("n n", "n n, n n, real parts n, real parts n, int, int", _schur, True, (0, 1, 2, 3)),
    "gehrd": Routine("n n", "n n, n-1, int", _hessenberg, needs="1 <= low <= high <= n", holds=_is_range),
    "sytrd": Routine("n n", "n n, real n, real n-1, n-1, int", _tridiagonal),
    "gtsv": Routine("n, n, n, n r", "n, n, n, n r, int", _tridiagonal_solve),
}
