"""Checks of StableHLO operations that are expanded, or whose attributes are dropped, during import.

Other operations are checked as nodes (`ops/types`). Names in messages are those of the StableHLO specification.
"""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Operation

from meshgen.ir.graph import DTYPES, TensorType, is_complex, is_float
from meshgen.mlir.attributes import integer_of, integers
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.operation_checks import Checked, scalar
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.stablehlo.attributes import precision_of, word_of
from meshgen.mlir.stablehlo.contraction import DotAlgorithm
from meshgen.ops.types.site import shapes_agree, types_agree

_CONSTANTS = ("stablehlo.constant", "chlo.constant")
_LIST_OPERAND_COUNTS = {"stablehlo.dynamic_pad": 3, "stablehlo.real_dynamic_slice": 3, "stablehlo.dynamic_gather": 1}


def _verify_constant(reading: Reading, operation: Operation) -> None:
    checks, value = Checked(reading, operation), operation.properties["value"]
    (result,) = checks.results
    checks.require(
        None not in result.shape, f"the result {result} has an unknown size", "a constant needs static sizes"
    )
    has_result_type = not isinstance(value, DenseElements) or value.data.type == operation.results[0].type
    checks.require(has_result_type, f"the value must be of type {result}")


def _verify_map(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    operands, (result,) = checks.operands, checks.results
    for kind in operands:
        checks.require(shapes_agree(kind.shape, result.shape), f"maps {kind} to {result}: the shapes differ")
    dims = checks.property("dimensions")
    checks.require(
        dims is None or integers(dims) == tuple(range(result.rank)),
        f"dimensions {list(integers(dims))} must be all {result.rank} dims in order",
    )
    checks.region(0, [scalar(kind) for kind in operands], [scalar(result)])


def _verify_rng(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    low, high, shape = checks.operands
    (result,) = checks.results
    message = f"the bounds of the distribution must be scalars of the result's element type, got {low} and {high}"
    checks.require(low == high == scalar(result), message)
    is_valid = shape.rank == 1 and _is_integer(shape) and shape.shape[0] in (None, result.rank)
    if checks.require(is_valid, f"the shape must be a list of {result.rank} sizes, got {shape}"):
        _check_constant_sizes(checks, 2)
    checks.require(not is_complex(result.dtype), f"random numbers of type {result} are not supported")
    is_normal = word_of(checks.property("rng_distribution")) == "NORMAL"
    checks.require(not is_normal or is_float(result.dtype), f"a normal distribution of {result.dtype} is not supported")


def _is_integer(kind: TensorType) -> bool:
    return not is_float(kind.dtype) and not is_complex(kind.dtype) and kind.dtype != "i1"


def _verify_tuple(reading: Reading, operation: Operation) -> None:
    checks, kind = Checked(reading, operation), operation.results[0].type
    has_operand_types = isinstance(kind, builtin.TupleType) and list(kind.types.data) == list(operation.operand_types)
    checks.require(has_operand_types, "its type must be that of a tuple of its operands")


def _verify_element(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    kind, index = operation.operands[0].type, integer_of(checks.property("index"), -1)
    if not isinstance(kind, builtin.TupleType):
        checks.require(False, f"{kind} is not a tuple")
        return
    kinds = kind.types.data
    if checks.require(0 <= index < len(kinds), f"element {index} is out of range for a tuple of {len(kinds)}"):
        checks.require(
            kinds[index] == operation.results[0].type,
            f"element {index} is {kinds[index]}, not {operation.results[0].type}",
        )


# Precisions ---------------------------------------------------------------------------------------------------------


def _verify_dot(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    padding = checks.property("padding")
    is_pairs = padding is None or (
        isinstance(padding, DenseElements) and padding.data.array.ndim == 2 and padding.data.array.shape[1] == 2
    )
    checks.require(is_pairs, "padding must be a list of pairs")
    if isinstance(algorithm := checks.property("algorithm"), DotAlgorithm):
        _check_algorithm(checks, algorithm)
        plain = precision_of(checks.property("precision_config")) in ((), ("DEFAULT", "DEFAULT"))
        checks.require(plain, "the algorithm determines the precision: precision_config must be DEFAULT or be left out")


def _verify_convolution(reading: Reading, operation: Operation) -> None:
    _verify_dot(reading, operation)
    checks = Checked(reading, operation)
    image, kernel = checks.operands[:2]
    fits = image.dtype == kernel.dtype
    checks.require(fits, f"the operands differ in element type: {image.dtype} and {kernel.dtype}", "insert a convert")


_ALGORITHM_TYPES = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
_ALGORITHM_COUNTS = ("lhs_component_count", "rhs_component_count", "num_primitive_operations")


def _check_algorithm(checks: Checked, algorithm: DotAlgorithm) -> None:
    fields = algorithm.fields()
    for name in _ALGORITHM_TYPES:
        kind = fields.get(name, "")
        is_known = kind == "tf32" or (kind in DTYPES and (is_float(kind) or _is_integer(TensorType((), kind))))
        checks.require(is_known, f"algorithm: unknown element type '{kind}' as {name}")
    for name in _ALGORITHM_COUNTS:
        count = fields.get(name, "1")
        checks.require(
            count.isdecimal() and int(count) >= 1, f"algorithm: {name} must be a positive integer, got {count}"
        )
    flag = fields.get("allow_imprecise_accumulation", "false")
    checks.require(
        flag in ("true", "false"), f"algorithm: allow_imprecise_accumulation must be true or false, got {flag}"
    )
    unknown = sorted(set(fields) - {*_ALGORITHM_TYPES, *_ALGORITHM_COUNTS, "allow_imprecise_accumulation"})
    checks.require(not unknown, f"algorithm has no field {', '.join(unknown)}")


# Operands that list sizes --------------------------------------------------------------------------------------------


def _verify_shape_operand(reading: Reading, operation: Operation) -> None:
    """Check the last operand, which lists the sizes of the result, even if the result type is static."""
    checks = Checked(reading, operation)
    if _check_list(checks, checks.operands[-1], checks.results[0].rank):
        _check_constant_sizes(checks, -1)


def _verify_dynamic_broadcast(reading: Reading, operation: Operation) -> None:
    _verify_shape_operand(reading, operation)
    checks = Checked(reading, operation)
    kinds = ("known_expanding_dimensions", "known_nonexpanding_dimensions")
    dims, rank = [dim for kind in kinds for dim in integers(checks.property(kind))], checks.operands[0].rank
    is_valid = len(set(dims)) == len(dims) and all(0 <= dim < rank for dim in dims)
    checks.require(is_valid, f"{' and '.join(kinds)} must name each of {rank} dims at most once, got {dims}")


def _check_constant_sizes(checks: Checked, operand_index: int) -> None:
    """Check that the result type has the sizes that operand `operand_index` lists, if that is a constant."""
    producer, (result,) = checks.operation.operands[operand_index].owner, checks.results
    value = (
        producer.properties.get("value") if isinstance(producer, Operation) and producer.name in _CONSTANTS else None
    )
    if not isinstance(value, DenseElements) or value.data.array.ndim != 1:
        return
    sizes = [int(size) for size in value.data.array]
    fits = min(sizes, default=0) >= 0 and shapes_agree(tuple(sizes), result.shape)
    checks.require(fits, f"sizes {sizes} are not those of the result {result}")


def _verify_list_operands(reading: Reading, operation: Operation) -> None:
    """Check the operands at the end that are lists: each must have one entry per dim of the first operand."""
    checks, count = Checked(reading, operation), _LIST_OPERAND_COUNTS[operation.name]
    for kind in checks.operands[-count:]:
        _check_list(checks, kind, checks.operands[0].rank)
    has_one_dtype = len({kind.dtype for kind in checks.operands[-count:]}) == 1
    checks.require(has_one_dtype, "its lists differ in element type")


def _check_list(checks: Checked, kind: TensorType, rank: int) -> bool:
    is_list = kind.rank == 1 and _is_integer(kind)
    return checks.require(is_list, f"expected a list of sizes, got {kind}") and checks.require(
        kind.shape[0] in (None, rank), f"has {kind.shape[0]} sizes for {rank} dims"
    )


def _verify_size(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    is_query = operation.name == "stablehlo.get_dimension_size"
    dim, rank = integer_of(checks.property("dimension"), -1), checks.operands[0].rank
    checks.require(0 <= dim < rank, f"dimension {dim} is out of range for {checks.operands[0]}")
    size = checks.results[0] if is_query else checks.operands[1]
    checks.require(size == TensorType((), "i32"), f"the size must be i32[], got {size}")
    if not is_query:
        _check_reduced_dim(checks, dim)


def _check_reduced_dim(checks: Checked, dim: int) -> None:
    """Check that the result has the sizes of the operand, or a smaller size in `dim`."""
    (x, _), (result,) = checks.operands, checks.results
    fits = x.dtype == result.dtype and x.rank == result.rank
    for d, (operand_size, result_size) in enumerate(zip(x.shape, result.shape, strict=False)):
        fits &= (
            operand_size is None
            or result_size is None
            or result_size == operand_size
            or (d == dim and result_size < operand_size)
        )
    checks.require(fits, f"{x} cannot be cut to {result} along dim {dim}")


def _verify_broadcast(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    (x,), (result,), sizes = checks.operands, checks.results, integers(checks.property("broadcast_sizes"))
    checks.require(all(size >= 0 for size in sizes), f"broadcast_sizes {list(sizes)} has a negative entry")
    expected = TensorType((*sizes, *x.shape), x.dtype)
    checks.require(types_agree(result, expected), f"expected result type {expected}, got {result}")


PART = Dialect(
    verifiers={
        **dict.fromkeys(_CONSTANTS, _verify_constant),
        "stablehlo.map": _verify_map,
        "stablehlo.rng": _verify_rng,
        "stablehlo.tuple": _verify_tuple,
        "stablehlo.get_tuple_element": _verify_element,
        "stablehlo.dot_general": _verify_dot,
        "stablehlo.dot": _verify_dot,
        "stablehlo.convolution": _verify_convolution,
        "stablehlo.dynamic_conv": _verify_convolution,
        "stablehlo.dynamic_reshape": _verify_shape_operand,
        "stablehlo.dynamic_iota": _verify_shape_operand,
        "stablehlo.dynamic_broadcast_in_dim": _verify_dynamic_broadcast,
        **dict.fromkeys(_LIST_OPERAND_COUNTS, _verify_list_operands),
        "stablehlo.get_dimension_size": _verify_size,
        "stablehlo.set_dimension_size": _verify_size,
        "stablehlo.broadcast": _verify_broadcast,
    }
)
