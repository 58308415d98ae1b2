"""Operations of StableHLO that ask for sizes or take them as operands: `dynamic_reshape`, `get_dimension_size`, ...

Where the result's type says all sizes the static form is made at once; else the node stays until sizes are given.
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import Operation
from xdsl.irdl import operand_def, result_def

from meshgen.ir.bridge import Importer, imports
from meshgen.ir.bridge_constants import known_array
from meshgen.ir.bridge_payload import Builder, finish
from meshgen.ir.dialects.stablehlo_attributes import integer_of
from meshgen.ir.dialects.stablehlo_base import GenericOperation, define_node, values_of
from meshgen.ir.dialects.stablehlo_contraction import GATHER_NUMBERS
from meshgen.ir.dialects.stablehlo_fields import Field, flag, listed, number, unread
from meshgen.ir.dialects.stablehlo_movement import Movement
from meshgen.ir.known_sizes import STATIC


class GetDimensionSize(Movement):
    """`stablehlo.get_dimension_size %x, dim = 1 : (...) -> tensor<i32>`"""

    FIELDS: ClassVar[tuple[Field, ...]] = (number("dimension", "dim", "dim"),)


class DynamicIota(Movement):
    """`stablehlo.dynamic_iota %n, dim = 0 : (...) -> ...`"""

    FIELDS: ClassVar[tuple[Field, ...]] = (number("iota_dimension", "dim", "dim"),)


class DynamicBroadcast(Movement):
    """`stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [1] : (...) -> ...`"""

    FIELDS: ClassVar[tuple[Field, ...]] = (
        listed("broadcast_dimensions", "dims", "dims"),
        *unread("known_expanding_dimensions", "known_nonexpanding_dimensions"),
    )


class DynamicGather(GenericOperation):
    operand = operand_def()
    start_indices = operand_def()
    slice_sizes = operand_def()
    result = result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (GATHER_NUMBERS, flag("indices_are_sorted", "indices_are_sorted"))


for _name in ("dynamic_reshape", "dynamic_pad", "real_dynamic_slice"):
    define_node(Movement, f"stablehlo.{_name}")
define_node(GetDimensionSize, "stablehlo.get_dimension_size")
define_node(DynamicIota, "stablehlo.dynamic_iota")
define_node(DynamicBroadcast, "stablehlo.dynamic_broadcast_in_dim")
define_node(DynamicGather, "stablehlo.dynamic_gather")


@imports("stablehlo.dynamic_pad", "stablehlo.real_dynamic_slice", "stablehlo.dynamic_gather")
def _import_of_lists(importer: Importer, operation: Operation) -> None:
    """The static form where the last operands, which say its lists, are constants."""
    name, attrs = operation.name.partition(".")[2], values_of(operation)
    op, names = STATIC[name]
    found = [known_array(importer, ssa) for ssa in operation.operands[-len(names) :]]
    lists = [tuple(int(n) for n in each.reshape(-1)) for each in found if each is not None]
    if len(lists) == len(names):
        attrs |= dict(zip(names, lists, strict=True))
        importer.convert(operation, op, attrs, operands=operation.operands[: -len(names)])
    else:
        importer.convert(operation, name, attrs)


@imports("stablehlo.dynamic_reshape", "stablehlo.dynamic_iota", "stablehlo.dynamic_broadcast_in_dim")
def _import_of_shape(importer: Importer, operation: Operation) -> None:
    """Where the type of the result has all sizes, the operand that says them is not looked at."""
    name, attrs = operation.name.partition(".")[2], values_of(operation)
    if None in importer.type(operation.results[0]).shape:
        importer.convert(operation, name, attrs)
    else:
        importer.convert(operation, name.removeprefix("dynamic_"), attrs, operands=operation.operands[:-1])


@imports("stablehlo.get_dimension_size")
def _import_size(importer: Importer, operation: Operation) -> None:
    """A number where the size is known."""
    kind, dim = importer.type(operation.operands[0]), integer_of(operation.properties.get("dimension"))
    size = kind.shape[dim] if 0 <= dim < kind.rank else None
    if size is None:
        importer.convert(operation, "get_dimension_size", {"dim": dim})
    else:
        value = Builder(importer, operation).constant(size, importer.type(operation.results[0]))
        finish(importer, operation, value)
