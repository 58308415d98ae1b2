"""Collectives of StableHLO. Devices are those of the program's mesh, by number; see `bridge/collectives.py`."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, region_def, result_def, var_operand_def, var_result_def

from meshgen.ir.dialects.stablehlo.base import HloOperation, define
from meshgen.ir.dialects.stablehlo.types import ONE, TypesForm


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


class CollectivePermute(IRDLOperation):
    """Each device sends to at most one; who receives nothing has zeros."""

    arguments = var_operand_def()
    source_target_pairs = prop_def()
    channel_handle = opt_prop_def()
    outputs = var_result_def()


class DeviceNumber(HloOperation):
    """`%0 = stablehlo.partition_id : tensor<ui32>`"""

    result = result_def()
    TYPES: ClassVar[TypesForm] = ONE


ALL_REDUCE = define(AllReduce, "stablehlo.all_reduce")
ALL_GATHER = define(AllGather, "stablehlo.all_gather")
REDUCE_SCATTER = define(ReduceScatter, "stablehlo.reduce_scatter")
ALL_TO_ALL = define(AllToAll, "stablehlo.all_to_all")
COLLECTIVE_BROADCAST = define(Grouped, "stablehlo.collective_broadcast")
COLLECTIVE_PERMUTE = define(CollectivePermute, "stablehlo.collective_permute")
PARTITION_ID = define(DeviceNumber, "stablehlo.partition_id")
