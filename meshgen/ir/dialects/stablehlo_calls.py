"""Calls of StableHLO: of custom targets, of composites by their decomposition, and packs of values (tuples, tokens).

A custom call means what its target means: a function of CHLO that older texts spell so, a note to XLA's
partitioner that changes nothing, or an operation that the user defined. Any other is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from meshgen.errors import MeshgenError
from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.bridge_payload import Builder
from meshgen.ir.custom_calls import USER_OPS
from meshgen.ir.dialects.stablehlo_attributes import ATTRIBUTES, Struct, boolean_of, integer_of
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ir.inline import copy_nodes
from meshgen.ir.parser import TextParser

_OPTIONS = ("has_side_effect", "backend_config", "api_version", "called_computations", "operand_layouts",
            "result_layouts", "output_operand_aliases")  # fmt: skip


@irdl_attr_definition
class Alias(Struct):
    name = "stablehlo.output_operand_alias"


@irdl_attr_definition
class Token(ParametrizedAttribute, TypeAttribute):
    """An order of side effects; nothing here has any."""

    name = "stablehlo.token"


ATTRIBUTES.extend((Alias, Token))


class CustomCall(HloOperation):
    """`%0 = stablehlo.custom_call @target(%a, %b) {backend_config = ""} : (...) -> ...`"""

    arguments = var_operand_def()
    call_target_name = prop_def(builtin.StringAttr)
    has_side_effect = opt_prop_def()
    backend_config = opt_prop_def()
    api_version = opt_prop_def()
    called_computations = opt_prop_def()
    operand_layouts = opt_prop_def()
    result_layouts = opt_prop_def()
    output_operand_aliases = opt_prop_def()
    outputs = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> HloOperation:
        assert isinstance(parser, TextParser)
        target = parser.parse_symbol_name()
        operands = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        kind = parser.parse_function_type()
        values = parser.resolve_operands(operands, kind.inputs.data, start)
        properties: Properties = {"call_target_name": target}
        properties |= {name: attributes.pop(name) for name in _OPTIONS if name in attributes}
        return cls.create(operands=values, result_types=kind.outputs.data, properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" @{self.call_target_name.data}(")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(")")
        printed = {name: value for name, value in self.properties.items() if name != "call_target_name"}
        printer.print_op_attributes({**printed, **self.attributes})
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


class Composite(HloOperation):
    """`stablehlo.composite "my.op" %a {decomposition = @f} : (...) -> ...`: what it calls says what it is."""

    arguments = var_operand_def()
    composite_name = opt_prop_def()
    composite_attributes = opt_prop_def()
    decomposition = prop_def()
    version = opt_prop_def()
    outputs = var_result_def()

    @classmethod
    def parse(cls, parser: Parser) -> HloOperation:
        assert isinstance(parser, TextParser)
        name = parser.parse_str_literal()
        operands = parser.parse_values() if parser.at_value() else []
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        kind = parser.parse_function_type()
        values = parser.resolve_operands(operands, kind.inputs.data, start)
        properties: Properties = {"composite_name": builtin.StringAttr(name)}
        known = ("composite_attributes", "decomposition", "version")
        properties |= {each: attributes.pop(each) for each in known if each in attributes}
        return cls.create(operands=values, result_types=kind.outputs.data, properties=properties, attributes=attributes)


class Pack(HloOperation):
    """`stablehlo.tuple %a, %b : tuple<tensor<4xf32>, tensor<i32>>`"""

    arguments = var_operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> HloOperation:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values() if parser.at_value() else []
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start, kind = parser.pos, parser.parse_type()
        types = list(kind.types.data) if isinstance(kind, builtin.TupleType) else [kind]
        values = parser.resolve_operands(operands, types, start)
        return cls.create(operands=values, result_types=[kind], attributes=attributes)


class GetTupleElement(HloOperation):
    """`stablehlo.get_tuple_element %t[1] : (tuple<...>) -> tensor<...>`"""

    operand = var_operand_def()
    index = prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        (number,) = parser.parse_integers()
        return [operand], {"index": builtin.IntegerAttr(number, builtin.i32)}


class TokenOp(IRDLOperation):
    """`stablehlo.after_all %a, %b : !stablehlo.token`, `stablehlo.create_token : !stablehlo.token`"""

    arguments = var_operand_def()
    result = result_def()

    @classmethod
    def parse(cls, parser: Parser) -> IRDLOperation:
        assert isinstance(parser, TextParser)
        operands = parser.parse_values() if parser.at_value() else []
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        kind = parser.parse_type()
        values = [parser.resolve_operand(operand, kind) for operand in operands]
        return cls.create(operands=values, result_types=[kind], attributes=attributes)


CUSTOM_CALL = define(CustomCall, "stablehlo.custom_call")
define(Composite, "stablehlo.composite")
define(Pack, "stablehlo.tuple")
define(GetTupleElement, "stablehlo.get_tuple_element")
define(TokenOp, "stablehlo.after_all")
define(TokenOp, "stablehlo.create_token")


@imports("stablehlo.after_all", "stablehlo.create_token", "stablehlo.tuple")
def _import_nothing(importer: Importer, operation: Operation) -> None:
    """A token is used by tokens only; the elements of a tuple are looked up where they are taken out."""


@imports("stablehlo.get_tuple_element")
def _import_element(importer: Importer, operation: Operation) -> None:
    pack, number = operation.operands[0].owner, integer_of(operation.properties["index"])
    if not isinstance(pack, Operation) or pack.name != "stablehlo.tuple" or not 0 <= number < len(pack.operands):
        importer.fault("MG0103", "get_tuple_element takes elements of a stablehlo.tuple of the same region", operation)
        return
    importer.bind(operation.results[0], importer.value(pack.operands[number]))


@imports("stablehlo.composite")
def _import_composite(importer: Importer, operation: Operation) -> None:
    callee = operation.properties["decomposition"]
    if not isinstance(callee, builtin.SymbolRefAttr):
        importer.fault("MG0104", "stablehlo.composite: needs decomposition = @name", operation)
        return
    importer.convert(operation, "call", {"callee": callee.string_value()})


# Custom calls -----------------------------------------------------------------------------------------------------

Target = Callable[[Importer, Operation], None]


def _same(importer: Importer, operation: Operation) -> None:
    """The results are the operands."""
    if len(operation.operands) != len(operation.results):
        importer.fault("MG0104", f"@{_target(operation)} gives as many results as it has operands", operation)
        return
    for result, operand in zip(operation.results, operation.operands, strict=True):
        importer.bind(result, importer.value(operand))


def _sharding(importer: Importer, operation: Operation) -> None:
    """XLA's older annotation. One that splits is not read: it would be lost silently."""
    text = operation.attributes.get("mhlo.sharding")
    if isinstance(text, builtin.StringAttr) and text.data not in ("{replicated}", "{manual}", ""):
        hint = "write it as sdy.sharding_constraint (JAX does so unless jax_use_shardy_partitioner is off)"
        importer.fault("MG0103", f"the sharding '{text.data}' is in XLA's older spelling", operation, hint)
    _same(importer, operation)


def _function(op: str) -> Target:
    def write(importer: Importer, operation: Operation) -> None:
        importer.convert(operation, op)

    return write


def _options(operation: Operation, name: str) -> dict[str, Attribute]:
    """The entries of a dictionary among the attributes."""
    found = operation.attributes.get(name) or operation.properties.get(name)
    return dict(found.data) if isinstance(found, builtin.DictionaryAttr) else {}


def _top_k(importer: Importer, operation: Operation) -> None:
    options = _options(operation, "mhlo.attributes")
    builder, value = Builder(importer, operation), importer.value(operation.operands[0])
    largest = "largest" not in options or boolean_of(options["largest"])
    _bind_top_k(builder, value, value.type.rank - 1, integer_of(options.get("k"), -1), largest)


def _approximate_top_k(importer: Importer, operation: Operation) -> None:
    """Exact here: a recall of 1 is within what was asked for. The comparator says which end is taken."""
    options = _options(operation, "mhlo.backend_config")
    called = operation.properties.get("called_computations")
    name = called.data[0] if isinstance(called, builtin.ArrayAttr) and called.data else None
    order = _direction(operation, name.string_value()) if isinstance(name, builtin.SymbolRefAttr) else ""
    if order not in ("GT", "LT") or len(operation.operands) != 4 or len(operation.results) != 2:
        importer.fault("MG0103", "@ApproxTopK is supported of one tensor and its positions, by GT or LT", operation)
        return
    builder, value = Builder(importer, operation), importer.value(operation.operands[0])
    dim, k = integer_of(options.get("reduction_dim")), integer_of(options.get("top_k"), -1)
    _bind_top_k(builder, value, dim, k, order == "GT")


def _direction(operation: Operation, name: str) -> str:
    """How the first operation of a function compares; empty where it does not."""
    top: Operation | None = operation
    while top is not None and top.name != "builtin.module":
        top = top.parent_op()
    functions = top.walk() if top is not None else ()
    for function in functions:
        symbol = function.properties.get("sym_name")
        if function.name == "func.func" and isinstance(symbol, builtin.StringAttr) and symbol.data == name:
            first = function.regions[0].block.first_op
            direction = first.properties.get("comparison_direction") if first is not None else None
            return str(getattr(direction, "data", ""))
    return ""


def _bind_top_k(builder: Builder, value: Value, dim: int, k: int, largest: bool) -> None:
    """The k greatest or least along a dim: top_k takes the greatest along the last."""
    rank = value.type.rank
    operation = builder.source
    if not 0 <= dim < rank or k < 0:
        builder.importer.fault("MG0104", f"@{_target(operation)}: no dim or no k", operation)
        return
    order = [d for d in range(rank) if d != dim] + [dim]
    moved = _transposed(builder, value if largest else builder.apply("negate", value), order)
    kinds = [TensorType((*moved.type.shape[:-1], k), dtype) for dtype in (value.type.dtype, "i32")]
    found = builder.importer.emit("top_k", [moved], kinds, {"k": k}, operation)
    back = sorted(range(rank), key=order.__getitem__)
    values, places = (_transposed(builder, each, back) for each in found)
    builder.importer.bind(operation.results[0], values if largest else builder.apply("negate", values))
    builder.importer.bind(
        operation.results[1], builder.convert(places, builder.importer.type(operation.results[1]).dtype)
    )


def _transposed(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    if list(order) == sorted(order):
        return value
    return builder.node(
        "transpose", [value], value.type.with_shape(value.type.shape[d] for d in order), perm=tuple(order)
    )


def _threefry(importer: Importer, operation: Operation) -> None:
    """The hash of JAX's random numbers, as CUDA builds of JAX call it: two keys and two counters, two results."""
    if len(operation.operands) != 4 or len(operation.results) != 2:
        importer.fault("MG0104", f"@{_target(operation)} has 4 operands and 2 results", operation)
        return
    b = Builder(importer, operation)
    key_1, key_2, x, y = b.together(importer.values(operation.operands))

    def rotated(value: Value, count: int) -> Value:
        left = b.apply("shift_left", value, b.constant(count, value.type))
        return b.apply("or", left, b.apply("shift_right_logical", value, b.constant(32 - count, value.type)))

    keys = (key_1, key_2, b.apply("xor", b.apply("xor", key_1, key_2), b.constant(0x1BD11BDA, key_1.type)))
    x, y = b.apply("add", x, key_1), b.apply("add", y, key_2)
    for group in range(5):
        for count in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = b.apply("add", x, y)
            y = b.apply("xor", rotated(y, count), x)
        x = b.apply("add", x, keys[(group + 1) % 3])
        y = b.apply("add", b.apply("add", y, keys[(group + 2) % 3]), b.constant(group + 1, y.type))
    for result, value in zip(operation.results, (x, y), strict=True):
        importer.bind(result, value)


def _shape_assertion(importer: Importer, operation: Operation) -> None:
    """A check of sizes, made once they are given."""
    message = operation.attributes.get("error_message")
    text = message.data if isinstance(message, builtin.StringAttr) else ""
    importer.convert(operation, "shape_assertion", {"message": text})


@exports("shape_assertion")
def _export_shape_assertion(exporter: Exporter, node: Node) -> Operation:
    properties = {
        "call_target_name": builtin.StringAttr("shape_assertion"),
        "api_version": builtin.IntegerAttr(2, builtin.i32),
        "has_side_effect": builtin.IntegerAttr(1, builtin.i1),
    }
    attributes = {"error_message": builtin.StringAttr(node.attrs["message"])}
    return CUSTOM_CALL.create(operands=exporter.operands(node), properties=properties, attributes=attributes)


TARGETS: dict[str, Target] = {
    "shape_assertion": _shape_assertion,
    "Sharding": _sharding, "annotate_device_placement": _same, "mhlo.topk": _top_k, "ApproxTopK": _approximate_top_k,
    **dict.fromkeys(("cu_threefry2x32", "cu_threefry2x32_ffi"), _threefry),
    **{f"mhlo.{op}": _function(op) for op in ("erf", "tan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh")},
}  # fmt: skip


def _target(operation: Operation) -> str:
    name = operation.properties["call_target_name"]
    return name.data if isinstance(name, builtin.StringAttr) else ""


@imports("stablehlo.custom_call")
def _import_custom_call(importer: Importer, operation: Operation) -> None:
    target = _target(operation)
    if target in USER_OPS:
        _inline(importer, operation, target)
    elif target in TARGETS:
        TARGETS[target](importer, operation)
    else:
        hint = _LINALG_HINT if target.startswith(_LIBRARIES) else _HINT
        importer.fault("MG0103", f"custom_call @{target} has no known meaning", operation, hint.format(target))
        _bind_nothing(importer, operation)


_LIBRARIES = ("lapack_", "cusolver", "cublas", "hipsolver", "Qr", "Eigh", "LuDecomposition", "ProductOfElementary")
_HINT = "define a function {} in Python with @mg.op_rule before the program is read, or write the call with other operations"
_LINALG_HINT = (
    "a factorisation by a library of the platform that the program was lowered for; Cholesky and triangular solves are "
    'operations of StableHLO where it is lowered with lowering_platforms=("tpu",), others are not supported'
)


def _bind_nothing(importer: Importer, operation: Operation) -> None:
    """Let the results of a refused call be read, so that they are no further faults."""
    for result in operation.results:
        importer.bind(result, Value(importer.type(result)))


def _inline(importer: Importer, operation: Operation, target: str) -> None:
    """The body of a user's operation, in place."""
    operands = importer.values(operation.operands)
    try:
        body = USER_OPS[target]([value.type for value in operands])
    except MeshgenError as error:
        importer.reading.faults += error.diagnostics
        _bind_nothing(importer, operation)
        return
    wanted, made = [importer.type(r) for r in operation.results], [value.type for value in body.outputs]
    if wanted != made:
        texts = (", ".join(map(str, types)) for types in (made, wanted))
        importer.fault("MG0104", "@{} gives ({}), but the call has ({})".format(target, *texts), operation)
        _bind_nothing(importer, operation)
        return
    first = len(importer.graph.nodes)
    loc = importer.reading.source.locate(operation)
    for result, value in zip(operation.results, copy_nodes(body, operands, importer.graph), strict=True):
        importer.bind(result, value)
    for node in importer.graph.nodes[first:]:
        node.loc = loc
