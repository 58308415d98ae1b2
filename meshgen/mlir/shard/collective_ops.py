"""The collectives of the `shard` dialect, upstream's and ours, and what tells devices apart or counts them.

Types are local shapes, or global ones with a `#shard.split` encoding on both sides (stages `materialize` and
`optimize`); `ops/collective_checks.py` says which shapes and encodings each op allows. A group over parts of axes is
given by the further attribute `axes = ["x:(1)2"]`, which then stands for `grid_axes`.

    all_gather      concatenate the group's tensors along `gather_axis`, on every device of the group
    all_reduce      reduce element-wise over the group, in the result's element type, on every device of the group
    reduce          reduce element-wise over the group, on its `root`; undefined on the other devices
    all_slice       keep the part of the own tensor along `slice_axis` that belongs to the device's position in its group
    all_to_all      split along `split_axis`, send part i to device i of the group, concatenate along `concat_axis`
    reduce_scatter  reduce over the group; the device at position i keeps part i along `scatter_axis`
    shift           the device at coordinate c + offset of `shift_axis` receives the tensor of the one at c; upstream's example
                    (`offset = 2 rotate` on four devices) leaves the direction open. Without `rotate` the result is undefined on
                    devices without a source

Upstream does not have:

    permute_pairs   for each [source, target] of `pairs`, devices by number, the target receives the source's tensor; other
                    devices have zeros. `grid_axes` are the axes along which pairs move
    to_partial      a replicated value as a reduction: the first device of each group keeps it, the others hold the neutral element
    grouped         one launch of `collective` (all_reduce, all_gather, reduce_scatter) on several operands, each of which has its own
                    result; `axis` is the tensor axis of the latter two. From stage `fuse` on
    permute         the same tiles on other devices; without encodings it has the attributes `source`, `target` and `shape` (global)
    retile          directly to another sharding: each device fetches missing elements from the nearest holder
    mask_padding    rows of `dim` whose global index is `size` or more become `fill`: row i has the index (device index) * (local size) + i
    fetch_rows      rows [(index * step + base) / divisor, ...) of the group's tiles joined along `dim`, as many as the result has. The
                    joined tensor has `limit` rows; with `wrap` rows are counted modulo `limit`, without it rows outside are
                    undefined. The quotient is rounded up; the divisor is 1 where none is written. `parts` are several fetches
                    in one message, each start, tile, base, step, rows, limit: of the rows [start, start + tile) of the input;
                    the result has their rows one after the other
    process_index   the device's number in its group over `grid_axes`, mixed radix, as a 0-d tensor
    axis_size       the number of devices of a group over `grid_axes`, where the grid leaves that open, as a 0-d tensor
    transfer_send   send the tensor to the devices of another grid: `source` is its sharding here, `target` its sharding there. The
                    result, and the operand of `after`, is an order token: transfers run in the order of their tokens
    transfer_recv   take the tensor that the `transfer_send` with the same channel hands over, and the token of the next transfer
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, StringAttr, SymbolRefAttr, UnitAttr, i64
from xdsl.dialects.shard import BroadcastOp, GatherOp, RecvOp, ScatterOp, SendOp, ShardAxesArrayAttr
from xdsl.dialects.utils.dynamic_index_list import parse_dynamic_index_list_without_types
from xdsl.ir import Attribute
from xdsl.parser import UnresolvedOperand

from meshgen.mlir.attributes import array, integer
from meshgen.mlir.parser import TextParser
from meshgen.mlir.shard.attributes import ReductionKindAttr
from meshgen.mlir.text_operation import TextOperation, define

_CLAUSES: dict[str, Callable[[TextParser], Attribute]] = {
    "integer": lambda parser: integer(parser.parse_integer()),
    "integers": lambda parser: array(parser.parse_integers()),
    "number": lambda parser: parser.parse_attribute(),
    ReductionKindAttr.name: lambda parser: ReductionKindAttr(ReductionKindAttr.parse_parameter(parser)),
    ShardAxesArrayAttr.name: lambda parser: ShardAxesArrayAttr.new(ShardAxesArrayAttr.parse_parameters(parser)),
}
"""How the value of a property is read, by its kind."""


class OnGroup(TextOperation):
    """`%x on @mesh grid_axes = [0] gather_axis = 1 {...} : type -> type`: clauses in the order of the signature's properties.

    With several operands the types are those of a function, without operands the result's alone.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties: dict[str, Attribute] = {}
        if (collective := parser.parse_optional_str_literal()) is not None:  # of `grouped`
            properties["collective"] = StringAttr(collective)
        operands = parser.parse_values() if parser.at_value() else []
        parser.parse_keyword("on")
        properties["grid"] = SymbolRefAttr(parser.parse_symbol_name())
        for each in cls.signature.properties:
            if each.name in properties or (each.is_optional and parser.parse_optional_keyword(each.name) is None):
                continue
            if not each.is_optional:
                parser.parse_keyword(each.name)
            if each.kinds == ("unit",):
                properties[each.name] = UnitAttr()
                continue
            parser.parse_punctuation("=")
            properties[each.name] = _root(parser, operands) if each.name == "root" else _CLAUSES[each.kinds[0]](parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        if (function := parser.parse_optional_function_type()) is not None:
            given, results = function.inputs.data, function.outputs.data
        else:
            given = results = (parser.parse_type(),)
            if operands:
                parser.parse_punctuation("->")
                results = (parser.parse_type(),)
        values = parser.resolve_operands(operands, given if operands else (), start)
        return cls.of(values, results, attributes, properties)


def _root(parser: TextParser, operands: list[UnresolvedOperand]) -> Attribute:
    """`[0, %n]`: a device's coordinates; values are further operands."""
    names, numbers = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    operands += names
    return DenseArrayBase.from_list(i64, numbers)


class TransferSend(TextOperation):
    """`%x after %token to @mesh channel = 1 {...} : type, type -> type`"""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        operands = [parser.parse_unresolved_operand()]
        if parser.parse_optional_keyword("after") is not None:
            operands.append(parser.parse_unresolved_operand())
        properties, attributes = _channel(parser, "to")
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation("->")
        return cls.of(
            parser.resolve_operands(operands, types, parser.pos), [parser.parse_type()], attributes, properties
        )


class TransferRecv(TextOperation):
    """`after %token : type from @mesh channel = 1 {...} -> type, type`"""

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        operands = parser.parse_typed_values() if parser.parse_optional_keyword("after") is not None else []
        properties, attributes = _channel(parser, "from")
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.of(operands, results, attributes, properties)


def _channel(parser: TextParser, word: str) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """`to @mesh channel = 1 {...}`: properties and attributes."""
    parser.parse_keyword(word)
    grid = SymbolRefAttr(parser.parse_symbol_name())
    parser.parse_keyword("channel")
    parser.parse_punctuation("=")
    return {"grid": grid, "channel": integer(parser.parse_integer())}, parser.parse_optional_attr_dict()


_GROUP = "grid: symbol, grid_axes?: integers"
_KIND = f"reduction?: {ReductionKindAttr.name}"
_FETCH = "dim: integer, base: integer, step: integer, divisor?: integer, limit: integer, wrap?: unit, parts?: integers"
COLLECTIVES = (
    BroadcastOp, GatherOp, RecvOp, ScatterOp, SendOp,
    *define(OnGroup, "shard", {
        f"1 -> 1 <{_GROUP}, {_KIND}>": "all_reduce",  # a memref is refused by name
        f"1 tensor -> 1 tensor <{_GROUP}, {_KIND}>": "to_partial",
        f"1 tensor -> 1 tensor <{_GROUP}, gather_axis: integer>": "all_gather",
        f"1 tensor -> 1 tensor <{_GROUP}, slice_axis: integer>": "all_slice",
        f"1 tensor -> 1 tensor <{_GROUP}, split_axis: integer, concat_axis: integer>": "all_to_all",
        f"1 tensor -> 1 tensor <{_GROUP}, {_KIND}, scatter_axis: integer>": "reduce_scatter",
        f"1.. -> 1 tensor <{_GROUP}, {_KIND}, root: integers>": "reduce",
        f"1 tensor -> 1 tensor <{_GROUP}, shift_axis: integer, offset: integer, rotate?: unit>": "shift",
        f"1 tensor -> 1 tensor <{_GROUP}, pairs: {ShardAxesArrayAttr.name}>": "permute_pairs",
        f"1 tensor -> 1 tensor <{_GROUP}, dim: integer, size: integer, fill: number>": "mask_padding",
        f"1 tensor -> 1 tensor <{_GROUP}, {_FETCH}>": "fetch_rows",
        f"n tensor -> n tensor <collective: string, {_GROUP}, axis?: integer, {_KIND}>": "grouped",
        "1 tensor -> 1 tensor <grid: symbol>": "permute retile",
        f"0 -> 1 tensor <{_GROUP}>": "process_index axis_size",
    }),
    *define(TransferSend, "shard", {"1..2 tensor -> 1 tensor <grid: symbol, channel: integer>": "transfer_send"}),
    *define(TransferRecv, "shard", {"0..1 tensor -> 2 tensor <grid: symbol, channel: integer>": "transfer_recv"}),
)  # fmt: skip
