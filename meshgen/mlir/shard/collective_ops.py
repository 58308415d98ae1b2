"""Operations that communicate between devices or query them: those of the `shard` dialect, and meshgen's own
(`meshgen.`).

Operand types are local shapes, or global shapes with a `#meshgen.split` encoding on both sides (stages `materialize`
and `optimize`). `ops/collective_checks.py` checks the shapes and encodings of each operation. A group over sub-axes is
written as the attribute `axes = ["x:(1)2"]` instead of `grid_axes`.

    all_gather      concatenate the group's tensors along `gather_axis`, on every device of the group
    all_reduce      reduce element-wise over the group, in the result's element type, on every device of the group
    reduce          reduce element-wise over the group, on its `root`; the result is undefined on the other devices
    all_slice       keep the part of the local tensor along `slice_axis` at the device's position in its group
    all_to_all      split along `split_axis`, send part i to device i of the group, concatenate along `concat_axis`
    reduce_scatter  reduce over the group; the device at position i keeps part i along `scatter_axis`
    shift           the device at coordinate c + offset of `shift_axis` receives the tensor of the device at c.
                    Upstream's example (`offset = 2 rotate` on four devices) leaves the direction open. Without
                    `rotate`, the result is undefined on devices to which no device sends

Operations that upstream lacks:

    permute_pairs   for each [source, target] in `pairs` (device numbers), the target receives the source's tensor;
                    devices that are not a target get zeros. Source and target differ only along `grid_axes`
    to_partial      turn a replicated value into an unreduced one: the first device of each group keeps it, the other
                    devices hold the neutral element
    grouped         run `collective` (all_reduce, all_gather or reduce_scatter) on several operands in one launch, with
                    one result per operand. `axis` is the tensor dim of all_gather and reduce_scatter. Valid from stage
                    `fuse` on
    permute         move the tiles to other devices without changing them. If the types have no encodings, the
                    attributes `source`, `target` and `shape` state the shardings and the global shape
    retile          reshard directly: each device fetches the elements that it lacks from the nearest holder
    mask_padding    fill with `fill` the rows of `dim` whose global index is at least `size`. The global index of the
                    local row i is (device index) * (local size) + i
    fetch_rows      fetch rows from the tiles of the group, joined along `dim`: as many as the result has, from row
                    (index * step + base) / divisor on, rounded up. `index` is the device's index in the group, and
                    the default divisor is 1. The joined tensor has `limit` rows. With `wrap`, row numbers are taken
                    modulo `limit`; without it, rows outside are undefined. `parts` lists several fetches in one
                    message, each with start, tile, base, step, rows and limit: a fetch reads from the rows
                    [start, start + tile) of the input. The result concatenates the fetched rows
    process_index   return the device's index in its group over `grid_axes` (row-major) as a 0-d tensor
    axis_size       return the number of devices in a group over `grid_axes` as a 0-d tensor, for a grid of dynamic size
    transfer_send   send the tensor to the devices of another grid: `source` is its sharding on this grid, `target` its
                    sharding on the other. The result, and the operand after `after`, is an order token: transfers run
                    in the order of their tokens
    transfer_recv   receive the tensor of the `transfer_send` with the same channel, and return an order token as well
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FloatAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f64,
    i64,
)
from xdsl.dialects.shard import ReductionKind, ShardAxesArrayAttr
from xdsl.dialects.utils.dynamic_index_list import parse_dynamic_index_list_without_types
from xdsl.ir import Attribute, Operation
from xdsl.parser import UnresolvedOperand

from meshgen.ir.op_names import TEXT_NAMES
from meshgen.mlir.arith.builder import scalar_of
from meshgen.mlir.attributes import integer, integer_of, integers
from meshgen.mlir.fields import listed, number
from meshgen.mlir.parser import TextParser
from meshgen.mlir.shard.attributes import ReductionKindAttr
from meshgen.mlir.text_operation import Field, TextOperation, Values, define

KINDS = {
    ReductionKind.SUM: "sum", ReductionKind.MAX: "max", ReductionKind.MIN: "min", ReductionKind.PRODUCT: "product",
    ReductionKind.BITWISE_AND: "and", ReductionKind.BITWISE_OR: "or", ReductionKind.BITWISE_XOR: "xor",
}  # fmt: skip
KIND_NAMES = {name: kind for kind, name in KINDS.items()}
OF_SIZE = {ReductionKind.AVERAGE: "sum"}  # An average is computed as a sum that is divided by the size of the group.
ROOTS = {
    **dict.fromkeys(("shard.broadcast", "shard.gather", "shard.reduce", "shard.scatter"), "root"),
    "shard.send": "destination",
    "shard.recv": "source",
}
"""Operations that name a device of each group -> the property, and node attribute, with the coordinates of that device.
"""


class OnGroup(TextOperation):
    """An operation on groups of devices: `%x on @mesh grid_axes = [0] gather_axis = 1 {...} : type -> type`.

    Each property in `FIELDS` is written as a clause such as `gather_axis = 1`. After the colon, an operation with
    several operands or with a root has a function type, and one without operands has only the result type.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        properties: dict[str, Attribute] = {}
        # Only `meshgen.grouped` has a string here: the name of the collective.
        if (collective := parser.parse_optional_str_literal()) is not None:
            properties["collective"] = StringAttr(collective)
        operands = parser.parse_values() if parser.at_value() else []
        parser.parse_keyword("on")
        properties["grid"] = SymbolRefAttr(parser.parse_symbol_name())
        for field in cls.FIELDS:
            if field.is_required:
                parser.parse_keyword(field.keyword)
            elif parser.parse_optional_keyword(field.keyword) is None:
                continue
            if field.kind == "unit":
                properties[field.prop] = UnitAttr()
                continue
            parser.parse_punctuation("=")
            is_root = field.prop == ROOTS.get(cls.name)
            properties[field.prop] = _coordinates(parser, operands) if is_root else field.read(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        if (function := parser.parse_optional_function_type()) is not None:
            operand_types, results = function.inputs.data, function.outputs.data
        else:
            operand_types = results = (parser.parse_type(),)
            if operands:
                parser.parse_punctuation("->")
                results = (parser.parse_type(),)
        values = parser.resolve_operands(operands, operand_types if operands else (), start)
        return cls.of(values, results, attributes, properties)

    @classmethod
    def clauses(cls, attrs: Values) -> str:
        """Return the text of the properties that have a value in `attrs`, such as ` gather_axis = 1`."""
        texts = ((field, text) for field in cls.FIELDS if (text := field.text(attrs)))
        return "".join(f" {text}" if field.kind == "unit" else f" {field.keyword} = {text}" for field, text in texts)


def node_of(operation: str) -> str:
    """Return the graph op (`Node.op`) of a collective, given the name of the operation."""
    mnemonic = operation.partition(".")[2]
    return next((op for op, text in TEXT_NAMES.items() if text == mnemonic), mnemonic)


def _coordinates(parser: TextParser, operands: list[UnresolvedOperand]) -> Attribute:
    """Parse the coordinates of a device, such as `[0, %n]`. Each SSA value in them is appended to `operands`."""
    values, numbers = parse_dynamic_index_list_without_types(parser, DYNAMIC_INDEX)
    operands += values
    return DenseArrayBase.from_list(i64, numbers)


class TransferSend(TextOperation):
    """The operation that sends a tensor to another grid.

    meshgen.transfer_send %x after %token to @mesh channel = 1 {...} : type, type -> type
    """

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
    """The operation that receives a tensor from another grid.

    meshgen.transfer_recv after %token : type from @mesh channel = 1 {...} -> type, type
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        operands = parser.parse_typed_values() if parser.parse_optional_keyword("after") is not None else []
        properties, attributes = _channel(parser, "from")
        parser.parse_punctuation("->")
        results = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        return cls.of(operands, results, attributes, properties)


def _channel(parser: TextParser, word: str) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Parse `WORD @mesh channel = 1 {...}`, where WORD is `to` or `from`. Returns the properties and the attributes."""
    parser.parse_keyword(word)
    grid = SymbolRefAttr(parser.parse_symbol_name())
    parser.parse_keyword("channel")
    parser.parse_punctuation("=")
    return {"grid": grid, "channel": integer(parser.parse_integer())}, parser.parse_optional_attr_dict()


def _dim(prop: str, attr: str = "") -> Field:
    """Return the field of an integer property, which is written `prop = 1`."""
    return number(prop, attr or prop, prop)


def _root(prop: str, *, is_required: bool = True) -> Field:
    """Return the field of the property with a device's coordinates in its group.

    A `recv` may omit it, and then receives from any device.
    """
    return Field(prop, keyword=prop, text=lambda attrs: str(list(attrs[prop])) if is_required or attrs[prop] else "",
                 is_required=is_required, kind="integers")  # fmt: skip


def _unit(prop: str) -> Field:
    """Return the field of a flag, which is written as the word `prop`."""
    return Field(prop, lambda attribute: {} if attribute is None else {prop: True}, keyword=prop,
                 text=lambda attrs: prop if attrs.get(prop) else "", is_required=False, kind="unit")  # fmt: skip


def _kind_of(attribute: Attribute | None) -> Values:
    kind = attribute.data if isinstance(attribute, ReductionKindAttr) else ReductionKind.SUM
    return {"kind": KINDS.get(kind) or OF_SIZE.get(kind, "sum")}


def _pairs_of(attribute: Attribute | None) -> Values:
    rows = attribute.axes if isinstance(attribute, ShardAxesArrayAttr) else ()
    return {"pairs": tuple(tuple(map(int, row.get_values())) for row in rows)}


def _fill_text(attrs: Values) -> str:
    fill: Any = np.asarray(attrs["fill"]).item()
    return str(FloatAttr(fill, f64)) if isinstance(fill, float) else f"{int(fill)} : i64"


_AXES = listed("grid_axes", "", "grid_axes")._replace(values=lambda _: {}, text=lambda _: "", is_required=False)
_KIND = Field(
    "reduction", _kind_of, keyword="reduction", is_required=False, kind=ReductionKindAttr.name,
    read=lambda parser: ReductionKindAttr(ReductionKindAttr.parse_parameter(parser)),
    text=lambda attrs: "" if attrs["kind"] == "sum" else str(KIND_NAMES[attrs["kind"]]),
)  # fmt: skip
_PAIRS = Field(
    "pairs", _pairs_of, keyword="pairs", kind=ShardAxesArrayAttr.name,
    read=lambda parser: ShardAxesArrayAttr.new(ShardAxesArrayAttr.parse_parameters(parser)),
    text=lambda attrs: str([list(pair) for pair in attrs["pairs"]]),
)  # fmt: skip
_FILL = Field("fill", lambda attribute: {"fill": scalar_of(attribute)}, keyword="fill", text=_fill_text, kind="number")
_DIVISOR = _dim("divisor")._replace(
    values=lambda attribute: {} if attribute is None else {"divisor": max(1, integer_of(attribute))},
    text=lambda attrs: "" if attrs["divisor"] == 1 else str(attrs["divisor"]),
    is_required=False,
)
_PARTS = listed("parts", "parts", "parts")._replace(
    values=lambda attribute: {"parts": parts} if (parts := integers(attribute)) else {},
    text=lambda attrs: str(list(attrs["parts"])) if attrs["parts"] else "",
    is_required=False,
)
_AXIS = Field(
    "axis", keyword="axis", read=lambda parser: integer(parser.parse_integer()), is_required=False, kind="integer"
)


def _on_group(
    name: str, *fields: Field, signature: str = "1 tensor -> 1 tensor", dialect: str = "shard"
) -> tuple[type[OnGroup], ...]:
    return define(OnGroup, dialect, {f"{signature} <grid: symbol>": name}, FIELDS=(_AXES, *fields))


COLLECTIVES: tuple[type[OnGroup], ...] = (
    # The signature also admits memrefs, so that the importer reports them with a better message.
    *_on_group("all_reduce", _KIND, signature="1 -> 1"),
    *_on_group("to_partial", _KIND, dialect="meshgen"),
    *_on_group("all_gather", _dim("gather_axis", "dim")),
    *_on_group("all_slice", _dim("slice_axis", "dim")),
    *_on_group("all_to_all", _dim("split_axis", "split_dim"), _dim("concat_axis", "concat_dim")),
    *_on_group("reduce_scatter", _KIND, _dim("scatter_axis", "dim")),
    *_on_group("permute_pairs", _PAIRS, dialect="meshgen"),
    *_on_group("mask_padding", _dim("dim"), _dim("size"), _FILL, dialect="meshgen"),
    *_on_group(
        "fetch_rows",
        *map(_dim, ("dim", "base", "step")),
        _DIVISOR,
        _dim("limit"),
        _unit("wrap"),
        _PARTS,
        dialect="meshgen",
    ),
)
ROOTED: tuple[type[OnGroup], ...] = (
    *_on_group("broadcast", _root("root"), signature="1.. -> 1 tensor"),
    *_on_group("gather", _dim("gather_axis", "dim"), _root("root"), signature="1.. -> 1 tensor"),
    *_on_group("reduce", _KIND, _root("root"), signature="1.. -> 1 tensor"),
    *_on_group("scatter", _dim("scatter_axis", "dim"), _root("root"), signature="1.. -> 1 tensor"),
    *_on_group("send", _root("destination"), signature="1.. -> 1 tensor"),
    *_on_group("recv", _root("source", is_required=False), signature="1.. -> 1 tensor"),
)
QUERIES = _on_group("process_index axis_size", signature="0 -> 1 tensor", dialect="meshgen")
(SHIFT,) = _on_group("shift", _dim("shift_axis"), _dim("offset"), _unit("rotate"))
OPERATIONS: tuple[type[Operation], ...] = (
    *COLLECTIVES,
    *ROOTED,
    *QUERIES,
    SHIFT,
    *define(OnGroup, "meshgen", {"1 tensor -> 1 tensor <grid: symbol>": "permute retile"}),
    *define(OnGroup, "meshgen", {"n tensor -> n tensor <collective: string, grid: symbol>": "grouped"}, FIELDS=(_AXES, _AXIS, _KIND)),
    *define(TransferSend, "meshgen", {"1..2 tensor -> 1 tensor <grid: symbol, channel: integer>": "transfer_send"}),
    *define(TransferRecv, "meshgen", {"0..1 tensor -> 2 tensor <grid: symbol, channel: integer>": "transfer_recv"}),
)  # fmt: skip
