"""Operations of StableHLO with dynamic sizes, such as `dynamic_reshape` and `get_dimension_size`.

An operation whose result type is static becomes the op without dynamic sizes. Otherwise it becomes a node with dynamic
sizes, which is replaced when the sizes are specified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.mlir import literals
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import integer_of
from meshgen.mlir.constants import folded_array
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.fields import flag, listed, number
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation, as_nodes, closed_regions
from meshgen.mlir.stablehlo.calls import called_region
from meshgen.mlir.stablehlo.contraction import GATHER_NUMBERS
from meshgen.mlir.stablehlo.convolution import Convolution, numbered
from meshgen.mlir.stablehlo.window_ops import per_dim
from meshgen.mlir.text_operation import Field, TextOperation, define, values_of
from meshgen.sizes.size_ops import STATIC, attributes_of


def _dynamic(signature: str, name: str, *fields: Field) -> Sequence[type[TextOperation]]:
    """Define an operation with the properties `fields`, such as `stablehlo.dynamic_iota %n, dim = 0 : (...) -> ...`."""
    return define(HloOperation, "stablehlo", {signature: name}, FIELDS=fields)


_DIMENSION = number("dimension", "dim", "dim")
# Example: `stablehlo.set_dimension_size %x, %n, dim = 1 : (...) -> ...`
_SET_SIZE = _dynamic("2 -> 1", "set_dimension_size", _DIMENSION)
_OPERATIONS = (
    *_dynamic("1 -> 1", "get_dimension_size", _DIMENSION),
    *_dynamic("1 -> 1", "dynamic_iota", number("iota_dimension", "dim", "dim")),
    *_dynamic("2 -> 1", "dynamic_reshape"),
    *_dynamic("4 -> 1", "real_dynamic_slice"),
    *_dynamic("5 -> 1", "dynamic_pad"),
    *_dynamic(
        "2 -> 1 <known_expanding_dimensions?: any, known_nonexpanding_dimensions?: any>",
        "dynamic_broadcast_in_dim",
        listed("broadcast_dimensions", "dims", "dims"),
    ),
    *define(GenericOperation, "stablehlo", {"3 -> 1": "dynamic_gather"}, FIELDS=(
        GATHER_NUMBERS, flag("indices_are_sorted", "indices_are_sorted"),
    )),
    # The operands are the tensors, their initial values, and then lists: window sizes, strides, dilations of the
    # operand, dilations of the window, padding. JAX writes a custom call instead, which names a function in place of
    # the region.
    *define(GenericOperation, "stablehlo", {"7+2n -> 1+n {2+2n -> 1+n}": "dynamic_reduce_window"}),
    # The last operand is the padding of the convolution.
    *define(GenericOperation, "stablehlo", {"3 -> 1": "dynamic_conv"}, FIELDS=(
        *(per_dim(name, name, 1) for name in ("window_strides", "lhs_dilation", "rhs_dilation")),
        per_dim("window_reversal", "window_reversal", 0, write=literals.flags),
        *Convolution.FIELDS[-4:],
    )),
)  # fmt: skip


def _import_with_lists(importer: Importer, operation: Operation) -> None:
    """Import an operation whose last operands list sizes or offsets. If these are constants, they become attributes."""
    _convert(importer, operation, operation.name.partition(".")[2], values_of(operation))


def _convert(importer: Importer, operation: Operation, name: str, attrs: dict[str, Any], regions: tuple[Graph, ...] = ()) -> None:  # fmt: skip
    op, names = STATIC[name]
    arrays = [folded_array(importer, ssa) for ssa in operation.operands[-len(names) :]]
    lists = [tuple(int(n) for n in array.reshape(-1)) for array in arrays if array is not None]
    if len(lists) == len(names):
        attrs |= attributes_of(names, lists)
        importer.convert(operation, op, attrs, operands=operation.operands[: -len(names)], regions=regions)
    else:
        importer.convert(operation, name, attrs, regions=regions)


def _import_window(importer: Importer, operation: Operation) -> None:
    _convert(importer, operation, "dynamic_reduce_window", {}, closed_regions(importer, operation))


def import_called_reduce_window(importer: Importer, operation: Operation) -> None:
    """Import the custom call `@stablehlo.dynamic_reduce_window`, which names a function that combines two elements."""
    region = called_region(operation)
    if region is None:
        raise Refused("MG0104", "it must name a function of the module")
    _convert(importer, operation, "dynamic_reduce_window", {}, (importer.region(region)[0],))


def _import_conv(importer: Importer, operation: Operation) -> None:
    if (attrs := numbered(importer, operation)) is not None:
        _convert(importer, operation, "dynamic_conv", attrs)


def _import_set_size(importer: Importer, operation: Operation) -> None:
    """Import `set_dimension_size` as a slice of the first elements along a dim. The second operand is how many."""
    (x, count), dim = importer.values(operation.operands), values_of(operation)["dim"]
    constant_size = folded_array(importer, operation.operands[1])
    if constant_size is not None and None not in x.type.shape:
        limit = tuple(int(constant_size) if d == dim else size for d, size in enumerate(x.type.sizes))
        attrs = {"start": (0,) * x.type.rank, "limit": limit, "stride": (1,) * x.type.rank}
        importer.convert(operation, "slice", attrs, operands=operation.operands[:1])
        return
    builder, row = Builder(importer, operation), TensorType((1,), "i32")
    sizes: list[Value] = []
    for d in range(x.type.rank):
        size = builder.emit("get_dimension_size", [x], row.with_shape(()), dim=d)
        sizes.append(builder.reshape(builder.convert(count, "i32") if d == dim else size, (1,)))
    rank = TensorType((x.type.rank,), "i32")
    limit = builder.emit("concatenate", sizes, rank, dim=0)
    start, stride = builder.constant(0, rank), builder.constant(1, rank)
    shape = [None if d == dim else size for d, size in enumerate(x.type.shape)]
    importer.bind(
        operation.results[0], builder.emit("real_dynamic_slice", [x, start, limit, stride], x.type.with_shape(shape))
    )


def _import_with_shape(importer: Importer, operation: Operation) -> None:
    """Import an operation with an operand that is the result's shape. If the result type is static, the operand is
    dropped.
    """
    name, attrs = operation.name.partition(".")[2], values_of(operation)
    if None in importer.type(operation.results[0]).shape:
        importer.convert(operation, name, attrs)
    else:
        importer.convert(operation, name.removeprefix("dynamic_"), attrs, operands=operation.operands[:-1])


def _import_size(importer: Importer, operation: Operation) -> None:
    """Import `get_dimension_size`. It becomes a constant if the size is static."""
    kind, dim = importer.type(operation.operands[0]), integer_of(operation.properties.get("dimension"))
    size = kind.shape[dim] if 0 <= dim < kind.rank else None
    if size is None:
        importer.convert(operation, "get_dimension_size", {"dim": dim})
    else:
        value = Builder(importer, operation).constant(size, importer.type(operation.results[0]))
        importer.bind(operation.results[0], value)


PART = merged(
    as_nodes(
        *_OPERATIONS,
        importers={
            "stablehlo.get_dimension_size": _import_size,
            "stablehlo.dynamic_reduce_window": _import_window,
            "stablehlo.dynamic_conv": _import_conv,
            **{
                f"stablehlo.{name}": _import_with_shape
                for name in ("dynamic_reshape", "dynamic_iota", "dynamic_broadcast_in_dim")
            },
            **{
                f"stablehlo.{name}": _import_with_lists
                for name in ("dynamic_pad", "real_dynamic_slice", "dynamic_gather")
            },
        },
    ),
    Dialect(operations=tuple(_SET_SIZE), importers={"stablehlo.set_dimension_size": _import_set_size}),
)
