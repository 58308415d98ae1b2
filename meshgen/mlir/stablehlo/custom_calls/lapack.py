"""Custom calls of matrix factorizations: LAPACK's, as JAX calls them on CPUs, and those of other platforms.

Cholesky factors and triangular systems become the operations of StableHLO, any other a node `lapack`. Layouts that
the calls ask for are XLA's affair. What of a result LAPACK leaves open is not promised here either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.attributes import boolean_of, integers, string_of
from meshgen.mlir.constants import known_array
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
    """Letters are encoded as 8-bit numbers."""
    found: dict[str, str] = {}
    for name, value in options_of(operation, "mhlo.backend_config").items():
        if not isinstance(value, builtin.IntegerAttr):
            continue
        is_letter = isinstance(value.type, builtin.IntegerType) and value.type.width.data == 8
        found[name] = chr(value.value.data % 256) if is_letter else str(value.value.data)
    return found


def _triangle(operation: Operation) -> str:
    """`uplo` of LAPACK, or the flag `lower` of CUDA's libraries."""
    options = options_of(operation, "mhlo.backend_config")
    return "LU"[not boolean_of(options["lower"])] if "lower" in options else _options(operation).get("uplo", "L")


def _side(operation: Operation) -> dict[str, str]:
    """`side` and `trans` of LAPACK, or JAX's flags for them."""
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
    """The operands, without trailing shapes of results, which are given where they depend on unknown sizes."""
    shapes = integers(operation.attributes.get("indices_of_shape_operands"))
    return [operand for number, operand in enumerate(operation.operands) if number not in shapes]


def _factorize(importer: Importer, operation: Operation, name: str, options: dict[str, str], count: int | None = None) -> list[Value]:  # fmt: skip
    """Bind the results of a routine as far as the call has them, `count` at most; returns all. Raises Refused where it does not fit."""
    operands = importer.values(matrices_of(operation))
    if name == "geqp3" and ((fixed := known_array(importer, operation.operands[1])) is None or fixed.any()):
        raise Refused("MG0103", "fixed columns are not supported")
    results = operation.results if count is None else operation.results[:count]
    given = [importer.type(result) for result in results]
    types = ROUTINES[name].result_types([value.type for value in operands], options)
    if options.get("mode") == "N" and types and types[: len(given)] != given:
        options = {**options, "vectors": "S"}  # they are not computed, but have a shape
        types = ROUTINES[name].result_types([value.type for value in operands], options)
    if types is None or types[: len(given)] != given:
        found, made = (", ".join(map(str, kinds)) for kinds in ((value.type for value in operands), given))
        wanted = f"({ROUTINES[name].takes}) to ({ROUTINES[name].results})"
        raise Refused("MG0104", f"expected {wanted}, got ({found}) to ({made})")
    attrs = {"routine": name, "options": " ".join(f"{key}={value}" for key, value in sorted(options.items()))}
    found = importer.emit("lapack", operands, types, attrs, operation)
    for result, value in zip(results, found, strict=False):
        importer.bind(result, value)
    return found


def _require_counts(importer: Importer, operation: Operation, operands: int, results: int) -> None:
    """Raise Refused unless the call has these numbers of operands, of which the first is a matrix, and results."""
    counts = len(matrices_of(operation)), len(operation.results)
    if counts != (operands, results) or importer.type(operation.operands[0]).rank < 2:
        raise Refused("MG0104", f"needs {operands} matrix operands and {results} results")


def _cholesky(importer: Importer, operation: Operation) -> None:
    """The factor in one triangle, what was there in the other, and at which step a matrix turned out not to be positive."""
    _require_counts(importer, operation, 1, 2)
    builder, (matrix,) = Builder(importer, operation), importer.values(matrices_of(operation))
    is_lower = _triangle(operation) == "L"
    factor = builder.emit("cholesky", [matrix], matrix.type, lower=is_lower)
    rows, columns = (
        builder.emit("iota", [], TensorType(matrix.type.shape, "i32"), dim=matrix.type.rank - side) for side in (2, 1)
    )
    inside = builder.compare("GE" if is_lower else "LE", rows, columns)
    importer.bind(operation.results[0], builder.select(inside, factor, matrix))
    numbers = _good_pivots(builder, factor, builder.compare("EQ", rows, columns))
    size = builder.constant(matrix.type.shape[-1] or 0, numbers.type)
    following = builder.apply("add", numbers, builder.constant(1, numbers.type))
    ends = builder.compare("LT", numbers, size)
    importer.bind(operation.results[1], builder.select(ends, following, builder.constant(0, numbers.type)))


def _good_pivots(builder: Builder, factor: Value, diagonal: Value) -> Value:
    """How many places of the diagonal are numbers."""
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
    """As TPUs have it: rows are counted from 0, and the last result is where they come from."""
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
    """Where rows come from after the exchanges of row i with row rows[i], one after the other."""
    places = builder.emit("iota", [], kind, dim=kind.rank - 1)
    order, batch = places, kind.sizes[:-1]
    for step in range(rows.type.sizes[-1]):
        at = {"start": (*[0] * len(batch), step), "limit": (*batch, step + 1), "stride": (1,) * kind.rank}
        other = builder.broadcast(
            builder.reshape(builder.emit("slice", [rows], rows.type.with_shape((*batch, 1)), **at), batch),
            kind.shape,
            range(len(batch)),
        )
        here = builder.constant(step, kind)
        first, second = (_at(builder, order, builder.compare("EQ", places, x)) for x in (here, other))
        order = builder.select(builder.compare("EQ", places, other), first, order)
        order = builder.select(builder.compare("EQ", places, here), second, order)
    return order


def _at(builder: Builder, values: Value, chosen: Value) -> Value:
    """The one chosen element of each row, everywhere in the row."""
    kind, dim = values.type, values.type.rank - 1
    only = builder.select(chosen, values, builder.constant(0, kind))
    return builder.broadcast(builder.reduce("add", only, (dim,)), kind.shape, range(dim))


def _eigh(importer: Importer, operation: Operation) -> None:
    """As TPUs have it: the text of its options begins with 1 where the lower triangle is read."""
    text = string_of(operation.properties.get("backend_config"))
    _factorize(importer, operation, "syevd", {"mode": "V", "uplo": "U" if text.startswith("0") else "L"})


def _write(printer: TextPrinter, node: Node) -> str:
    """The call that JAX makes on CPUs."""
    routine, dtype = node.attrs.routine, node.operands[0].type.dtype
    if dtype.startswith("c"):
        routine = COMPLEX_NAMES.get(routine, routine)
    options = {
        name: f"{value} : i32" if value.isdecimal() else f"{ord(value[0])} : ui8"
        for name, value in options_in(node.attrs.options).items()
    }
    said = {"mhlo.backend_config": dictionary(options)}
    return call_text(printer, node, f"lapack_{LETTERS[dtype]}{routine}_ffi", said)


def _lapack_targets() -> dict[str, Callable[[Importer, Operation], None]]:
    found = {name: _routine(name) for name in ROUTINES} | {"potrf": _cholesky, "trsm": _solve}
    found |= {name: found[same] for name, same in _OTHER_NAMES.items()}
    return {f"lapack_{letter}{name}_ffi": write for letter in LETTERS.values() for name, write in found.items()}


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
