"""Collectives of StableHLO. Devices are those of the program's mesh, by number; see `mlir/stablehlo/collectives.py`."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.base import HloOperation, define
from meshgen.mlir.stablehlo.types import ONE, TypesForm


class Grouped(IRDLOperation):
    """A collective in groups of devices, `replica_groups = dense<[[0, 1], [2, 3]]>`; one result per operand."""

    arguments = var_operand_def()
    replica_groups = prop_def()
    channel_handle = opt_prop_def()
    outputs = var_result_def()


class GlobalIds(Grouped):
    use_global_device_ids = opt_prop_def()


class AllReduce(GlobalIds):
    computation = region_def()


class AllGather(GlobalIds):
    all_gather_dim = prop_def()


class ReduceScatter(GlobalIds):
    scatter_dimension = prop_def()
    computation = region_def()


class AllToAll(Grouped):
    split_dimension = prop_def()
    concat_dimension = prop_def()
    split_count = prop_def()


class Broadcast(Grouped):
    has_dynamic_root = opt_prop_def()


class CollectivePermute(IRDLOperation):
    """Each device sends to at most one; who receives nothing has zeros."""

    arguments = var_operand_def()
    source_target_pairs = prop_def()
    channel_handle = opt_prop_def()
    outputs = var_result_def()


class Crossing(IRDLOperation):
    """`send` or `recv` on a channel; the value is the operand before the token."""

    arguments = var_operand_def()
    channel_handle = prop_def()
    source_target_pairs = opt_prop_def()
    is_host_transfer = opt_prop_def()
    outputs = var_result_def()


@irdl_attr_definition
class Future(ParametrizedAttribute, TypeAttribute):
    """`!stablehlo.future<tensor<4xf32>>`: what an operation gives that has been started."""

    name = "stablehlo.future"
    types: ArrayAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        return [ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_type))]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_list(self.types.data, printer.print_attribute)
        printer.print_string(">")


class AsyncStart(IRDLOperation):
    """Starts what its region says; `async_done` gives the results."""

    arguments = var_operand_def()
    body = region_def()
    future = result_def()


class AsyncDone(IRDLOperation):
    future = operand_def()
    outputs = var_result_def()


class DeviceNumber(HloOperation):
    """`%0 = stablehlo.partition_id : tensor<ui32>`"""

    result = result_def()
    TYPES: ClassVar[TypesForm] = ONE


ALL_REDUCE = define(AllReduce, "stablehlo.all_reduce")
ALL_GATHER = define(AllGather, "stablehlo.all_gather")
COLLECTIVE_REDUCE = define(AllReduce, "stablehlo.collective_reduce")
REDUCE_SCATTER = define(ReduceScatter, "stablehlo.reduce_scatter")
ALL_TO_ALL = define(AllToAll, "stablehlo.all_to_all")
COLLECTIVE_BROADCAST = define(Broadcast, "stablehlo.collective_broadcast")
COLLECTIVE_PERMUTE = define(CollectivePermute, "stablehlo.collective_permute")
SEND, RECV = define(Crossing, "stablehlo.send"), define(Crossing, "stablehlo.recv")
ASYNC_START, ASYNC_DONE = define(AsyncStart, "stablehlo.async_start"), define(AsyncDone, "stablehlo.async_done")
PARTITION_ID = define(DeviceNumber, "stablehlo.partition_id")

PART = Dialect(
    operations=(
        ALL_REDUCE, ALL_GATHER, COLLECTIVE_REDUCE, REDUCE_SCATTER, ALL_TO_ALL, COLLECTIVE_BROADCAST, COLLECTIVE_PERMUTE, SEND, RECV,
        ASYNC_START, ASYNC_DONE, PARTITION_ID,
    ),
    attributes=(Future,),
)  # fmt: skip
