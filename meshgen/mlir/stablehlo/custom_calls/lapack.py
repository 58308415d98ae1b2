"""Importers of custom calls for matrix factorizations: LAPACK's, which JAX emits on CPUs, and those of other platforms.

Cholesky factorizations and triangular solves become operations of StableHLO, all others become a `lapack` node. The
layouts that a call requests are ignored. Parts of a result that LAPACK leaves undefined are undefined here too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import boolean_of, integers, string_of
from meshgen.mlir.constants import folded_array
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import dictionary
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.calls import call_text, options_of
from meshgen.ops.lapack import COMPLEX_NAMES, LETTERS, ROUTINES
from meshgen.ops.lapack import options_of as options_in

_NAME = re.compile(r"lapack_[sdcz](?P<routine>\w+)_ffi")
_OTHER_NAMES = {other: name for name, other in COMPLEX_NAMES.items()}
_TRANSPOSES = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}


def _options(operation: Operation) -> dict[str, str]:
    """Return the options of a call by name. An option that is an 8-bit integer is a letter."""
    options: dict[str, str] = {}
    for name, value in options_of(operation, "mhlo.backend_config").items():
        if not isinstance(value, builtin.IntegerAttr):
            continue
        is_letter = isinstance(value.type, builtin.IntegerType) and value.type.width.data == 8
        options[name] = chr(value.value.data % 256) if is_letter else str(value.value.data)
    return options


def _triangle(operation: Operation) -> str:
    """Return which triangle of the matrix the call reads, "L" or "U".

    LAPACK states it in the option `uplo`, and CUDA's libraries in the flag `lower`.
    """
    options = options_of(operation, "mhlo.backend_config")
    return "LU"[not boolean_of(options["lower"])] if "lower" in options else _options(operation).get("uplo", "L")


def _side(operation: Operation) -> dict[str, str]:
    """Return LAPACK's options `side` and `trans`. A call may state them by the flags `left` and `transpose` instead."""
    options = options_of(operation, "mhlo.backend_config")
    if "left" in options and "transpose" in options:
        return {"side": "RL"[boolean_of(options["left"])], "trans": "NT"[boolean_of(options["transpose"])]}
    return {name: letter for name, letter in _options(operation).items() if name in ("side", "trans")}


def _routine(name: str) -> Callable[[Importer, Operation], None]:
    def write(importer: Importer, operation: Operation) -> None:
        options = _options(operation)
        if name in ("syevd", "sytrd"):
            options = {"uplo": _triangle(operation)}
        if name == "ormqr":
            options = _side(operation)
        _factorize(importer, operation, name, options)

    return write


def matrices_of(operation: Operation) -> Sequence[SSAValue]:
    """Return the operands that are matrices. In a program with dynamic shapes, the call also has its result shapes as
    operands.
    """
    shapes = integers(operation.attributes.get("indices_of_shape_operands"))
    return [operand for index, operand in enumerate(operation.operands) if index not in shapes]


def _factorize(importer: Importer, operation: Operation, name: str, options: dict[str, str], count: int | None = None) -> list[Value]:  # fmt: skip
    """Emit the `lapack` node of the routine `name`, and bind the first `count` results of the call, by default all of
    them.

    Returns all results of the routine.

    Raises:
        Refused: the operands or results do not fit the routine.
    """
    operands = importer.values(matrices_of(operation))
    if name == "geqp3" and ((fixed := folded_array(importer, operation.operands[1])) is None or fixed.any()):
        raise Refused("MG0103", "fixed columns are not supported")
    results = operation.results if count is None else operation.results[:count]
    call_types = [importer.type(result) for result in results]
    types = ROUTINES[name].result_types([value.type for value in operands], options)
    if options.get("mode") == "N" and types and types[: len(call_types)] != call_types:
        # The call needs no singular vectors, but its result types have room for them.
        options = {**options, "vectors": "S"}
        types = ROUTINES[name].result_types([value.type for value in operands], options)
    if types is None or types[: len(call_types)] != call_types:
        operand_text, result_text = (
            ", ".join(map(str, kinds)) for kinds in ((value.type for value in operands), call_types)
        )
        expected = f"({ROUTINES[name].takes}) to ({ROUTINES[name].results})"
        raise Refused("MG0104", f"expected {expected}, got ({operand_text}) to ({result_text})")
    attrs = {"routine": name, "options": " ".join(f"{key}={value}" for key, value in sorted(options.items()))}
    routine_results = importer.emit("lapack", operands, types, attrs, operation)
    for result, value in zip(results, routine_results, strict=False):
        importer.bind(result, value)
    return routine_results


def _require_counts(importer: Importer, operation: Operation, operands: int, results: int) -> None:
    """Raise Refused unless the call has `operands` matrix operands and `results` results, and its first operand is a
    matrix.
    """
    counts = len(matrices_of(operation)), len(operation.results)
    if counts != (operands, results) or importer.type(operation.operands[0]).rank < 2:
        raise Refused("MG0104", f"needs {operands} matrix operands and {results} results")


def _cholesky(importer: Importer, operation: Operation) -> None:
    """Import a Cholesky factorization.

    The first result has the factor in one triangle and the input in the other. The second result is 0, or the number of
    the first pivot that is not positive, counted from 1.
    """
    _require_counts(importer, operation, 1, 2)
    builder, (matrix,) = Builder(importer, operation), importer.values(matrices_of(operation))
    is_lower = _triangle(operation) == "L"
    factor = builder.emit("cholesky", [matrix], matrix.type, lower=is_lower)
    rows, columns = (
        builder.emit("iota", [], TensorType(matrix.type.shape, "i32"), dim=matrix.type.rank - side) for side in (2, 1)
    )
    in_triangle = builder.compare("GE" if is_lower else "LE", rows, columns)
    importer.bind(operation.results[0], builder.select(in_triangle, factor, matrix))
    good_pivots = _good_pivots(builder, factor, builder.compare("EQ", rows, columns))
    size = builder.constant(matrix.type.shape[-1] or 0, good_pivots.type)
    failed_pivot = builder.apply("add", good_pivots, builder.constant(1, good_pivots.type))
    has_failed = builder.compare("LT", good_pivots, size)
    importer.bind(operation.results[1], builder.select(has_failed, failed_pivot, builder.constant(0, good_pivots.type)))


def _good_pivots(builder: Builder, factor: Value, diagonal: Value) -> Value:
    """Return how many elements on the diagonal of a Cholesky factor are not NaN."""
    is_number = builder.apply("and", builder.apply("compare", factor, factor, dtype="i1", direction="EQ", compare_type=""), diagonal)  # fmt: skip
    ones, rank = builder.convert(is_number, "i32"), factor.type.rank
    return builder.reduce("add", ones, (rank - 2, rank - 1))


def _solve(importer: Importer, operation: Operation) -> None:
    _require_counts(importer, operation, 2, 1)
    options = _options(operation)
    attrs = {
        "left_side": options.get("side", "L") == "L",
        "lower": options.get("uplo", "L") == "L",
        "unit_diagonal": options.get("diag", "N") == "U",
        "transpose_a": _TRANSPOSES.get(options.get("trans_x", "N"), ""),
    }
    importer.convert(operation, "triangular_solve", attrs, operands=matrices_of(operation))


def _lu(importer: Importer, operation: Operation) -> None:
    """Import an LU factorization in the form of TPUs: its pivots count rows from 0, and it also returns the
    permutation.
    """
    _require_counts(importer, operation, 1, 3)
    builder, pivots = Builder(importer, operation), _factorize(importer, operation, "getrf", {}, 1)[1]
    rows = builder.apply("subtract", pivots, builder.constant(1, pivots.type))
    importer.bind(operation.results[1], rows)
    importer.bind(operation.results[2], _permutation(builder, rows, importer.type(operation.results[2])))


def _pivots_to_permutation(importer: Importer, operation: Operation) -> None:
    (rows,), kind = importer.values(operation.operands), importer.type(operation.results[0])
    builder = Builder(importer, operation)
    rows = builder.apply("subtract", rows, builder.constant(1, rows.type))
    importer.bind(operation.results[0], _permutation(builder, rows, kind))


def _permutation(builder: Builder, rows: Value, kind: TensorType) -> Value:
    """Return the permutation of rows that results if, for each i in order, row i is exchanged with row `rows[i]`."""
    positions = builder.emit("iota", [], kind, dim=kind.rank - 1)
    order, batch = positions, kind.sizes[:-1]
    for step in range(rows.type.sizes[-1]):
        bounds = {"start": (*[0] * len(batch), step), "limit": (*batch, step + 1), "stride": (1,) * kind.rank}
        exchanged_row = builder.broadcast(
            builder.reshape(builder.emit("slice", [rows], rows.type.with_shape((*batch, 1)), **bounds), batch),
            kind.shape,
            range(len(batch)),
        )
        step_row = builder.constant(step, kind)
        first, second = (
            _selected_element(builder, order, builder.compare("EQ", positions, x)) for x in (step_row, exchanged_row)
        )
        order = builder.select(builder.compare("EQ", positions, exchanged_row), first, order)
        order = builder.select(builder.compare("EQ", positions, step_row), second, order)
    return order


def _selected_element(builder: Builder, values: Value, chosen: Value) -> Value:
    """Return the element that `chosen` selects in each row of `values`, broadcast along the row."""
    kind, dim = values.type, values.type.rank - 1
    masked = builder.select(chosen, values, builder.constant(0, kind))
    return builder.broadcast(builder.reduce("add", masked, (dim,)), kind.shape, range(dim))


def _eigh(importer: Importer, operation: Operation) -> None:
    """Import an eigendecomposition in the form of TPUs. Its options begin with "0" for the upper triangle, "1" for the
    lower.
    """
    text = string_of(operation.properties.get("backend_config"))
    _factorize(importer, operation, "syevd", {"mode": "V", "uplo": "U" if text.startswith("0") else "L"})


def _write(printer: TextPrinter, node: Node) -> str:
    """Return the text of a `lapack` node as the custom call that JAX emits on CPUs."""
    routine, dtype = node.attrs.routine, node.operands[0].type.dtype
    if dtype.startswith("c"):
        routine = COMPLEX_NAMES.get(routine, routine)
    options = {
        name: f"{value} : i32" if value.isdecimal() else f"{ord(value[0])} : ui8"
        for name, value in options_in(node.attrs.options).items()
    }
    attributes = {"mhlo.backend_config": dictionary(options)}
    return call_text(printer, node, f"lapack_{LETTERS[dtype]}{routine}_ffi", attributes)


def _lapack_targets() -> dict[str, Callable[[Importer, Operation], None]]:
    importers = {name: _routine(name) for name in ROUTINES} | {"potrf": _cholesky, "trsm": _solve}
    importers |= {name: importers[real_name] for name, real_name in _OTHER_NAMES.items()}
    return {
        f"lapack_{letter}{name}_ffi": importer for letter in LETTERS.values() for name, importer in importers.items()
    }


TARGETS: dict[str, Callable[[Importer, Operation], None]] = {
    **_lapack_targets(),
    **{f"cusolver_{name}_ffi": _routine(name) for name in ("getrf", "geqrf", "orgqr", "ormqr", "syevd", "sytrd")},
    "cusolver_potrf_ffi": _cholesky,
    "cu_lu_pivots_to_permutation": _pivots_to_permutation,
    "Qr": _routine("geqrf"),
    "ProductOfElementaryHouseholderReflectors": _routine("orgqr"),
    "Eigh": _eigh,
    "LuDecomposition": _lu,
}


PART = Dialect(writers={"lapack": _write})
