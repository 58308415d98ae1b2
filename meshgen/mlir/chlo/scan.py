"""Importer of `chlo.scan`, a sequential loop over slices along one dim, with carried values.

The region maps a slice of each input and the carried values to a slice of each output and the next carried values.
A cumulative sum, product, maximum or minimum becomes a `reduce_window`, without a loop. Other scans become a `while`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ir.inline import copy_nodes
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.attributes import boolean_of, integer, integer_of, integers
from meshgen.mlir.constants import folded_array
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.counted_loops import counting_condition
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.loop_values import fold_region, sliced
from meshgen.mlir.parser import TextParser
from meshgen.mlir.text_operation import TextOperation, define
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.window import fold_kind

_INDEX = TensorType((), "i32")


class Scan(TextOperation):
    """The operation `%0:2 = chlo.scan(%x) inits(%c) dimension=0 attributes {is_reverse = true} {...} : (types) ->
    (types)`.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("inits")
        inits = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        parser.parse_keyword("dimension")
        parser.parse_punctuation("=")
        properties: dict[str, Attribute] = {
            "dimension": integer(parser.parse_integer()),
            "operandSegmentSizes": DenseArrayBase.from_list(i32, [len(inputs), len(inits)]),
        }
        attribute_dict = parser.parse_optional_attr_dict_with_keyword()
        attributes = dict(attribute_dict.data) if attribute_dict is not None else {}
        body = parser.parse_region()
        values, results = parser.parse_signature([*inputs, *inits])
        return cls.of(values, results, attributes, properties, [body])


class _Site(NamedTuple):
    """A parsed scan: it runs `steps` iterations along `dim` over `inputs`, with the initial carried values `inits`."""

    importer: Importer
    operation: Operation
    dim: int
    steps: int
    is_reverse: bool
    inputs: list[Value]
    inits: list[Value]
    body: Graph
    outside: list[Value]  # values that the region captures: the last inputs of `body`

    @property
    def outputs(self) -> list[TensorType]:
        """Return the types of the scanned outputs: the results without the final carried values."""
        results = self.operation.results
        return [self.importer.type(result) for result in results[: len(results) - len(self.inits)]]

    def slice_of(self, kind: TensorType) -> TensorType:
        return kind.with_shape((*kind.shape[: self.dim], *kind.shape[self.dim + 1 :]))


def _import_scan(importer: Importer, operation: Operation) -> None:
    site = _read(importer, operation)
    importer.bind_results(operation, _cumulative(site) or _as_while(site))


def _read(importer: Importer, operation: Operation) -> _Site:
    """Parse a scan. Raises Refused if it is malformed."""
    values, dim = importer.values(operation.operands), integer_of(operation.properties["dimension"])
    sizes = integers(operation.properties.get("operandSegmentSizes"))
    count = sizes[0] if len(sizes) == 2 and sum(sizes) == len(values) else len(values) // 2
    kinds = [*(value.type for value in values[:count]), *map(importer.type, operation.results)]
    scanned = kinds[: len(kinds) - (len(values) - count)]
    lengths = {kind.shape[dim] if 0 <= dim < kind.rank else -1 for kind in scanned}
    if len(lengths) != 1 or -1 in lengths or len(operation.results) < len(values) - count:
        raise Refused("MG0104", f"its inputs {', '.join(map(str, scanned))} have no dim {dim} of equal size")
    (steps,) = lengths
    if steps is None or any(None in kind.shape for kind in kinds):
        raise Refused("MG0208", "a size of its operands or results is unknown", "give it with --shape")
    body, captures = importer.region(operation.regions[0])
    flag = operation.properties.get("is_reverse")
    is_reverse = isinstance(flag, UnitAttr) or boolean_of(flag)
    site = _Site(importer, operation, dim, steps, is_reverse, values[:count], values[count:], body, importer.values(captures))  # fmt: skip
    _check_region(site, len(body.inputs) - len(captures))
    return site


def _check_region(site: _Site, argument_count: int) -> None:
    """Raise Refused unless the region takes and yields the slices and the carried values of one iteration."""
    carried = [value.type for value in site.inits]
    takes = [*(site.slice_of(value.type) for value in site.inputs), *carried]
    gives = [*map(site.slice_of, site.outputs), *carried]
    results = [site.importer.type(result) for result in site.operation.results[len(site.outputs) :]]
    pairs = (
        ("takes", [value.type for value in site.body.inputs[:argument_count]], takes),
        ("returns", [value.type for value in site.body.outputs], gives),
        ("carries", results, carried),
    )
    for verb, actual, expected in pairs:
        if actual != expected:
            texts = [", ".join(map(str, types)) for types in (actual, expected)]
            message = f"a step {verb} ({texts[0]}), but its operands and results require ({texts[1]})"
            raise Refused("MG0104", message)


def _cumulative(site: _Site) -> list[Value] | None:
    """Convert a scan that is a cumulative sum, product, maximum or minimum, without a loop. Returns None for other
    scans.
    """
    body = Graph("", site.body.inputs, site.body.nodes, site.body.outputs[:1])
    kind = fold_kind(body)
    is_plain = len(site.inputs) == len(site.inits) == 1 and not site.outside and site.steps > 0
    if not is_plain or kind is None or {*site.body.outputs} != {*body.outputs}:
        return None
    (value,), (init,) = site.inputs, site.inits
    builder, dtype = Builder(site.importer, site.operation), value.type.dtype
    fill, init_array = neutral(kind, dtype), folded_array(site.importer, site.operation.operands[1])
    cumulative = _cumulative_window(site, builder, kind, builder.constant(fill.item(), TensorType((), dtype)))
    if init_array is None or not bool((init_array == fill).all()):
        dims = [dim for dim in range(value.type.rank) if dim != site.dim]
        cumulative = builder.apply(kind, builder.broadcast(init, value.type.shape, dims), cumulative)
    last = 0 if site.is_reverse else site.steps - 1
    starts = [last if dim == site.dim else 0 for dim in range(value.type.rank)]
    ends = [last + 1 if dim == site.dim else size for dim, size in enumerate(value.type.sizes)]
    last_slice = sliced(builder, cumulative, starts, ends, [1] * value.type.rank)
    return [cumulative, builder.reshape(last_slice, site.slice_of(value.type).shape)]


def _cumulative_window(site: _Site, builder: Builder, kind: str, init: Value) -> Value:
    """Emit a `reduce_window` that combines every element with all elements before it, or after it if the scan is
    reversed.
    """
    value, rank = site.inputs[0], site.inputs[0].type.rank

    def along(number: int, other: int) -> tuple[int, ...]:
        return tuple(number if dim == site.dim else other for dim in range(rank))

    before, after = (0, site.steps - 1) if site.is_reverse else (site.steps - 1, 0)
    ones = (1,) * rank
    attrs = {
        "window_dimensions": along(site.steps, 1), "low": along(before, 0), "high": along(after, 0),
        "window_strides": ones, "base_dilations": ones, "window_dilations": ones,
    }  # fmt: skip
    region = fold_region(kind, value.type.dtype)
    (result,) = site.importer.emit("reduce_window", [value, init], [value.type], attrs, site.operation, (region,))
    return result


def _as_while(site: _Site) -> list[Value]:
    """Emit the scan as a `while` loop with a counter, which runs for `steps` iterations.

    The loop carries the counter, the carried values of the scan, the outputs, the inputs, and the captured values.
    """
    outer = Builder(site.importer, site.operation)
    results = [outer.constant(0, kind) for kind in site.outputs]
    carried = [outer.constant(0, _INDEX), *site.inits, *results, *site.inputs, *site.outside]
    condition = counting_condition(site.importer, site.operation, carried, site.steps)
    body = Graph("", [Value(value.type) for value in carried])
    _build_step(site, body)
    loop_results = site.importer.emit(
        "while", carried, [v.type for v in carried], {}, site.operation, (condition, body)
    )
    first = 1 + len(site.inits)
    return [*loop_results[first : first + len(results)], *loop_results[1:first]]


def _build_step(site: _Site, body: Graph) -> None:
    """Build one iteration in `body`, the region of the `while` that `_as_while` emits."""
    builder = Builder(Importer(site.importer.reading, body, site.importer), site.operation)
    iteration, *rest = body.inputs
    counts = (len(site.inits), len(site.outputs), len(site.inputs), len(site.outside))
    carried, results, inputs, outside = ([rest.pop(0) for _ in range(count)] for count in counts)
    position = iteration
    if site.is_reverse:
        position = builder.apply("subtract", builder.constant(site.steps - 1, _INDEX), iteration)
    slices = [_sliced(site, builder, value, position) for value in inputs]
    step_results = copy_nodes(site.body, [*slices, *carried, *outside], body)
    updated_results = [
        _update_slice(site, builder, *pair, position)
        for pair in zip(results, step_results[: len(results)], strict=True)
    ]
    next_iteration = builder.apply("add", iteration, builder.constant(1, _INDEX))
    body.outputs = [next_iteration, *step_results[len(results) :], *updated_results, *inputs, *outside]


def _starts(site: _Site, builder: Builder, rank: int, position: Value) -> list[Value]:
    return [position if dim == site.dim else builder.constant(0, _INDEX) for dim in range(rank)]


def _sliced(site: _Site, builder: Builder, value: Value, position: Value) -> Value:
    """Emit the slice of `value` at `position` along the scanned dim. The slice lacks that dim."""
    sizes = tuple(1 if dim == site.dim else size for dim, size in enumerate(value.type.sizes))
    starts = _starts(site, builder, value.type.rank, position)
    one = builder.emit("dynamic_slice", [value, *starts], value.type.with_shape(sizes), slice_sizes=sizes)
    return builder.reshape(one, site.slice_of(value.type).shape)


def _update_slice(site: _Site, builder: Builder, whole: Value, part: Value, position: Value) -> Value:
    """Return `whole` with the slice at `position` along the scanned dim replaced by `part`."""
    shape = (*part.type.shape[: site.dim], 1, *part.type.shape[site.dim :])
    starts = _starts(site, builder, whole.type.rank, position)
    return builder.emit("dynamic_update_slice", [whole, builder.reshape(part, shape), *starts], whole.type)


_SIGNATURE = (
    "m -> n {m -> n} <dimension: integer, is_reverse?: flag, is_associative?: flag, operandSegmentSizes?: counts(2), "
    "resultSegmentSizes?: counts(2)>"
)
PART = Dialect(operations=define(Scan, "chlo", {_SIGNATURE: "scan"}), importers={"chlo.scan": _import_scan})
