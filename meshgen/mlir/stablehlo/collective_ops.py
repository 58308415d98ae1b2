"""Declarations of StableHLO's collectives, which number the devices of the mesh. `collectives.py` converts most of
them.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from meshgen.mlir.dialect import Dialect
from meshgen.mlir.stablehlo.base import HloOperation
from meshgen.mlir.stablehlo.types import ONE
from meshgen.mlir.text_operation import TextOperation, define


@irdl_attr_definition
class Future(ParametrizedAttribute, TypeAttribute):
    """The type of the result of `async_start`: `!stablehlo.future<tensor<4xf32>>`."""

    name = "stablehlo.future"
    types: ArrayAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        return [ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_type))]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_list(self.types.data, printer.print_attribute)
        printer.print_string(">")


_GROUPS = "replica_groups: any, channel_handle?: stablehlo.channel_handle"
_ON_DEVICES = f"{_GROUPS}, use_global_device_ids?: unit"
_CHANNEL = "channel_handle: stablehlo.channel_handle, source_target_pairs?: any, is_host_transfer?: any"
PART = Dialect(
    operations=(
        *define(TextOperation, "stablehlo", {
            # The groups of devices are `replica_groups = dense<[[0, 1], [2, 3]]>`. There is one result per operand.
            f"1+n -> 1+n <all_gather_dim: integer, {_ON_DEVICES}>": "all_gather",
            f"1+n -> 1+n {{2 -> 1}} <{_ON_DEVICES}>": "all_reduce collective_reduce",
            f"1+n -> 1+n {{2 -> 1}} <scatter_dimension: integer, {_ON_DEVICES}>": "reduce_scatter",
            f"1+n -> 1+n <split_dimension: integer, concat_dimension: integer, split_count: integer, {_GROUPS}>": "all_to_all",
            f"1+n -> 1+n <has_dynamic_root?: any, {_GROUPS}>": "collective_broadcast",
            # Each device sends to at most one device. A device to which no device sends gets zeros.
            "1+n -> 1+n <source_target_pairs: any, channel_handle?: stablehlo.channel_handle>": "collective_permute",
            # A send and a recv with the same channel belong together. The last operand of both is a token.
            f"1 -> 1+n <{_CHANNEL}>": "recv",
            f"1+n -> 1 <{_CHANNEL}>": "send",
            # `async_start` runs its region asynchronously, and `async_done` returns the results.
            "m -> 1 {m -> n}": "async_start",
            "1 -> _": "async_done",
        }),
        *define(HloOperation, "stablehlo", {"0 -> 1": "partition_id replica_id"}, TYPES=ONE),
    ),
    attributes=(Future,),
)  # fmt: skip
