"""StableHLO's constraints on operations that are expanded, or lose attributes, when they are read.

The constraints of the others are those of their nodes (`ops/types`). Names are those of the specification.
"""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Operation

from meshgen.ir.graph import DTYPES, TensorType, is_complex, is_float
from meshgen.mlir.attributes import integer_of, integers
from meshgen.mlir.checked import Checked, scalar
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reading import Reading
from meshgen.mlir.stablehlo.attributes import precision_of, word_of
from meshgen.mlir.stablehlo.contraction import DotAlgorithm
from meshgen.ops.types.site import shapes_agree, types_agree

_CONSTANTS = ("stablehlo.constant", "chlo.constant")
_PARTS_OF_SIZES = {"stablehlo.dynamic_pad": 3, "stablehlo.real_dynamic_slice": 3, "stablehlo.dynamic_gather": 1}


def _verify_constant(reading: Reading, operation: Operation) -> None:
    found, value = Checked(reading, operation), operation.properties["value"]
    (result,) = found.results
    found.require(None not in result.shape, f"the result {result} has an unknown size", "a constant needs static sizes")
    same = not isinstance(value, DenseElements) or value.data.type == operation.results[0].type
    found.require(same, f"the value must be of type {result}")


def _verify_map(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    operands, (result,) = found.operands, found.results
    for kind in operands:
        found.require(shapes_agree(kind.shape, result.shape), f"maps {kind} to {result}: the shapes differ")
    dims = found.property("dimensions")
    found.require(
        dims is None or integers(dims) == tuple(range(result.rank)),
        f"dimensions {list(integers(dims))} must be all {result.rank} dims in order",
    )
    found.region(0, [scalar(kind) for kind in operands], [scalar(result)])


def _verify_rng(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    low, high, shape = found.operands
    (result,) = found.results
    ends = f"the bounds of the distribution must be scalars of the result's element type, got {low} and {high}"
    found.require(low == high == scalar(result), ends)
    sound = shape.rank == 1 and _is_integer(shape) and shape.shape[0] in (None, result.rank)
    if found.require(sound, f"the shape must be a list of {result.rank} sizes, got {shape}"):
        _check_constant_sizes(found, 2)
    found.require(not is_complex(result.dtype), f"random numbers of type {result} are not supported")
    is_normal = word_of(found.property("rng_distribution")) == "NORMAL"
    found.require(not is_normal or is_float(result.dtype), f"a normal distribution of {result.dtype} is not supported")


def _is_integer(kind: TensorType) -> bool:
    return not is_float(kind.dtype) and not is_complex(kind.dtype) and kind.dtype != "i1"


def _verify_tuple(reading: Reading, operation: Operation) -> None:
    found, kind = Checked(reading, operation), operation.results[0].type
    same = isinstance(kind, builtin.TupleType) and list(kind.types.data) == list(operation.operand_types)
    found.require(same, "its type must be that of a tuple of its operands")


def _verify_element(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    kind, number = operation.operands[0].type, integer_of(found.property("index"), -1)
    if not isinstance(kind, builtin.TupleType):
        found.require(False, f"{kind} is not a tuple")
        return
    kinds = kind.types.data
    if found.require(0 <= number < len(kinds), f"element {number} is out of range for a tuple of {len(kinds)}"):
        found.require(
            kinds[number] == operation.results[0].type,
            f"element {number} is {kinds[number]}, not {operation.results[0].type}",
        )


# Precisions ---------------------------------------------------------------------------------------------------------


def _verify_product(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    padding = found.property("padding")
    is_pairs = padding is None or (
        isinstance(padding, DenseElements) and padding.data.array.ndim == 2 and padding.data.array.shape[1] == 2
    )
    found.require(is_pairs, "padding must be a list of pairs")
    if isinstance(algorithm := found.property("algorithm"), DotAlgorithm):
        _check_algorithm(found, algorithm)
        plain = precision_of(found.property("precision_config")) in ((), ("DEFAULT", "DEFAULT"))
        found.require(plain, "an algorithm says the precision: precision_config must be DEFAULT, or be left out")


def _verify_convolution(reading: Reading, operation: Operation) -> None:
    _verify_product(reading, operation)
    found = Checked(reading, operation)
    image, kernel = found.operands[:2]
    fits = image.dtype == kernel.dtype
    found.require(fits, f"the operands differ in element type: {image.dtype} and {kernel.dtype}", "insert a convert")


_ALGORITHM_TYPES = ("lhs_precision_type", "rhs_precision_type", "accumulation_type")
_ALGORITHM_COUNTS = ("lhs_component_count", "rhs_component_count", "num_primitive_operations")


def _check_algorithm(found: Checked, algorithm: DotAlgorithm) -> None:
    fields = algorithm.fields()
    for name in _ALGORITHM_TYPES:
        kind = fields.get(name, "")
        known = kind == "tf32" or (kind in DTYPES and (is_float(kind) or _is_integer(TensorType((), kind))))
        found.require(known, f"algorithm: unknown element type '{kind}' as {name}")
    for name in _ALGORITHM_COUNTS:
        count = fields.get(name, "1")
        found.require(
            count.isdecimal() and int(count) >= 1, f"algorithm: {name} must be a positive integer, got {count}"
        )
    flag = fields.get("allow_imprecise_accumulation", "false")
    found.require(
        flag in ("true", "false"), f"algorithm: allow_imprecise_accumulation must be true or false, got {flag}"
    )
    unknown = sorted(set(fields) - {*_ALGORITHM_TYPES, *_ALGORITHM_COUNTS, "allow_imprecise_accumulation"})
    found.require(not unknown, f"algorithm has no field {', '.join(unknown)}")


# Sizes that are operands ----------------------------------------------------------------------------------------------


def _verify_of_shape(reading: Reading, operation: Operation) -> None:
    """The last operand lists the sizes of the result, also where the result's type has them all."""
    found = Checked(reading, operation)
    if _check_list(found, found.operands[-1], found.results[0].rank):
        _check_constant_sizes(found, -1)


def _verify_dynamic_broadcast(reading: Reading, operation: Operation) -> None:
    _verify_of_shape(reading, operation)
    found = Checked(reading, operation)
    kinds = ("known_expanding_dimensions", "known_nonexpanding_dimensions")
    dims, rank = [dim for kind in kinds for dim in integers(found.property(kind))], found.operands[0].rank
    sound = len(set(dims)) == len(dims) and all(0 <= dim < rank for dim in dims)
    found.require(sound, f"{' and '.join(kinds)} must name each of {rank} dims at most once, got {dims}")


def _check_constant_sizes(found: Checked, number: int) -> None:
    """Where an operand that lists the sizes of the result is a constant, they are those of the result."""
    maker, (result,) = found.operation.operands[number].owner, found.results
    value = maker.properties.get("value") if isinstance(maker, Operation) and maker.name in _CONSTANTS else None
    if not isinstance(value, DenseElements) or value.data.array.ndim != 1:
        return
    sizes = [int(size) for size in value.data.array]
    fits = min(sizes, default=0) >= 0 and shapes_agree(tuple(sizes), result.shape)
    found.require(fits, f"sizes {sizes} are not those of the result {result}")


def _verify_of_lists(reading: Reading, operation: Operation) -> None:
    """The last operands have an entry for each dim of the first."""
    found, count = Checked(reading, operation), _PARTS_OF_SIZES[operation.name]
    for kind in found.operands[-count:]:
        _check_list(found, kind, found.operands[0].rank)
    same = len({kind.dtype for kind in found.operands[-count:]}) == 1
    found.require(same, "its lists differ in element type")


def _check_list(found: Checked, kind: TensorType, rank: int) -> bool:
    sound = kind.rank == 1 and _is_integer(kind)
    return found.require(sound, f"expected a list of sizes, got {kind}") and found.require(
        kind.shape[0] in (None, rank), f"has {kind.shape[0]} sizes for {rank} dims"
    )


def _verify_size(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    is_asked = operation.name == "stablehlo.get_dimension_size"
    dim, rank = integer_of(found.property("dimension"), -1), found.operands[0].rank
    found.require(0 <= dim < rank, f"dimension {dim} is out of range for {found.operands[0]}")
    size = found.results[0] if is_asked else found.operands[1]
    found.require(size == TensorType((), "i32"), f"the size must be i32[], got {size}")
    if not is_asked:
        _check_cut(found, dim)


def _check_cut(found: Checked, dim: int) -> None:
    """A dim of the result has no more rows than that of the operand, all others have as many."""
    (x, _), (result,) = found.operands, found.results
    fits = x.dtype == result.dtype and x.rank == result.rank
    for d, (here, there) in enumerate(zip(x.shape, result.shape, strict=False)):
        fits &= here is None or there is None or there == here or (d == dim and there < here)
    found.require(fits, f"{x} cannot be cut to {result} along dim {dim}")


def _verify_broadcast(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    (x,), (result,), sizes = found.operands, found.results, integers(found.property("broadcast_sizes"))
    found.require(all(size >= 0 for size in sizes), f"broadcast_sizes {list(sizes)} has a negative entry")
    wanted = TensorType((*sizes, *x.shape), x.dtype)
    found.require(types_agree(result, wanted), f"expected result type {wanted}, got {result}")


PART = Dialect(
    verifiers={
        **dict.fromkeys(_CONSTANTS, _verify_constant),
        "stablehlo.map": _verify_map,
        "stablehlo.rng": _verify_rng,
        "stablehlo.tuple": _verify_tuple,
        "stablehlo.get_tuple_element": _verify_element,
        "stablehlo.dot_general": _verify_product,
        "stablehlo.dot": _verify_product,
        "stablehlo.convolution": _verify_convolution,
        "stablehlo.dynamic_conv": _verify_convolution,
        "stablehlo.dynamic_reshape": _verify_of_shape,
        "stablehlo.dynamic_iota": _verify_of_shape,
        "stablehlo.dynamic_broadcast_in_dim": _verify_dynamic_broadcast,
        **dict.fromkeys(_PARTS_OF_SIZES, _verify_of_lists),
        "stablehlo.get_dimension_size": _verify_size,
        "stablehlo.set_dimension_size": _verify_size,
        "stablehlo.broadcast": _verify_broadcast,
    }
)
