"""`chlo.scan`: a step after the other along a dim, with values carried from step to step.

A region gets a slice of each input and what is carried; it gives a slice of each result and what is carried on. Cumulative
sums, products, maxima and minima become a `reduce_window`, which needs no loop; everything else becomes a `while`.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from xdsl.dialects.builtin import DenseArrayBase, UnitAttr, i32
from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ir.inline import copy_nodes
from meshgen.mlir.arith.payload import Builder
from meshgen.mlir.attributes import boolean_of, integer, integer_of, integers
from meshgen.mlir.constants import known_array
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.counted_loops import counting_condition
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.parser import TextParser
from meshgen.mlir.spread import fold_region, sliced
from meshgen.mlir.text_operation import TextOperation, define
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.window import fold_kind

_INDEX = TensorType((), "i32")


class Scan(TextOperation):
    """`%0:2 = chlo.scan(%x) inits(%c) dimension=0 attributes {is_reverse = true} {...} : (types) -> (types)`"""

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
        given = parser.parse_optional_attr_dict_with_keyword()
        attributes = dict(given.data) if given is not None else {}
        body = parser.parse_region()
        values, results = parser.parse_signature([*inputs, *inits])
        return cls.of(values, results, attributes, properties, [body])


class _Site(NamedTuple):
    """A scan as it is read: `steps` along `dim`, over `inputs`, carrying what starts as `inits`."""

    importer: Importer
    operation: Operation
    dim: int
    steps: int
    is_reverse: bool
    inputs: list[Value]
    inits: list[Value]
    body: Graph
    outside: list[Value]  # what the region uses from around it: the last inputs of `body`

    @property
    def outputs(self) -> list[TensorType]:
        """The types of what is not carried."""
        results = self.operation.results
        return [self.importer.type(result) for result in results[: len(results) - len(self.inits)]]

    def slice_of(self, kind: TensorType) -> TensorType:
        return kind.with_shape((*kind.shape[: self.dim], *kind.shape[self.dim + 1 :]))


def _import_scan(importer: Importer, operation: Operation) -> None:
    site = _read(importer, operation)
    importer.bind_results(operation, _folded(site) or _looped(site))


def _read(importer: Importer, operation: Operation) -> _Site:
    """The scan. Raises Refused where it is malformed."""
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


def _check_region(site: _Site, own: int) -> None:
    """Raise Refused unless the region takes and gives what belongs to a step."""
    carried = [value.type for value in site.inits]
    takes = [*(site.slice_of(value.type) for value in site.inputs), *carried]
    gives = [*map(site.slice_of, site.outputs), *carried]
    results = [site.importer.type(result) for result in site.operation.results[len(site.outputs) :]]
    pairs = (
        ("takes", [value.type for value in site.body.inputs[:own]], takes),
        ("gives", [value.type for value in site.body.outputs], gives),
        ("carries", results, carried),
    )
    for what, said, wanted in pairs:
        if said != wanted:
            texts = [", ".join(map(str, types)) for types in (said, wanted)]
            message = f"a step {what} ({texts[0]}), but its operands and results require ({texts[1]})"
            raise Refused("MG0104", message)


def _folded(site: _Site) -> list[Value] | None:
    """A cumulative sum, product, maximum or the like, without a loop; None where the scan is none."""
    body = Graph("", site.body.inputs, site.body.nodes, site.body.outputs[:1])
    kind = fold_kind(body)
    is_plain = len(site.inputs) == len(site.inits) == 1 and not site.outside and site.steps > 0
    if not is_plain or kind is None or {*site.body.outputs} != {*body.outputs}:
        return None
    (value,), (init,) = site.inputs, site.inits
    builder, dtype = Builder(site.importer, site.operation), value.type.dtype
    fill, known = neutral(kind, dtype), known_array(site.importer, site.operation.operands[1])
    found = _cumulative_window(site, builder, kind, builder.constant(fill.item(), TensorType((), dtype)))
    if known is None or not bool((known == fill).all()):
        dims = [dim for dim in range(value.type.rank) if dim != site.dim]
        found = builder.apply(kind, builder.broadcast(init, value.type.shape, dims), found)
    last = 0 if site.is_reverse else site.steps - 1
    starts = [last if dim == site.dim else 0 for dim in range(value.type.rank)]
    ends = [last + 1 if dim == site.dim else size for dim, size in enumerate(value.type.sizes)]
    row = sliced(builder, found, starts, ends, [1] * value.type.rank)
    return [found, builder.reshape(row, site.slice_of(value.type).shape)]


def _cumulative_window(site: _Site, builder: Builder, kind: str, init: Value) -> Value:
    """Every element combined with all before it, or after it."""
    value, rank = site.inputs[0], site.inputs[0].type.rank

    def along(number: int, other: int) -> tuple[int, ...]:
        return tuple(number if dim == site.dim else other for dim in range(rank))

    before, behind = (0, site.steps - 1) if site.is_reverse else (site.steps - 1, 0)
    ones = (1,) * rank
    attrs = {
        "window_dimensions": along(site.steps, 1), "low": along(before, 0), "high": along(behind, 0),
        "window_strides": ones, "base_dilations": ones, "window_dilations": ones,
    }  # fmt: skip
    region = fold_region(kind, value.type.dtype)
    (found,) = site.importer.emit("reduce_window", [value, init], [value.type], attrs, site.operation, (region,))
    return found


def _looped(site: _Site) -> list[Value]:
    """`for n in range(steps)` over the number of the step, what is carried, the results so far, inputs, and the outside."""
    outer = Builder(site.importer, site.operation)
    results = [outer.constant(0, kind) for kind in site.outputs]
    carried = [outer.constant(0, _INDEX), *site.inits, *results, *site.inputs, *site.outside]
    condition = counting_condition(site.importer, site.operation, carried, site.steps)
    body = Graph("", [Value(value.type) for value in carried])
    _build_step(site, body)
    found = site.importer.emit("while", carried, [v.type for v in carried], {}, site.operation, (condition, body))
    first = 1 + len(site.inits)
    return [*found[first : first + len(results)], *found[1:first]]


def _build_step(site: _Site, body: Graph) -> None:
    """One step of the loop."""
    builder = Builder(Importer(site.importer.reading, body, site.importer), site.operation)
    number, *rest = body.inputs
    counts = (len(site.inits), len(site.outputs), len(site.inputs), len(site.outside))
    carried, results, inputs, outside = ([rest.pop(0) for _ in range(count)] for count in counts)
    place = number
    if site.is_reverse:
        place = builder.apply("subtract", builder.constant(site.steps - 1, _INDEX), number)
    slices = [_sliced(site, builder, value, place) for value in inputs]
    made = copy_nodes(site.body, [*slices, *carried, *outside], body)
    grown = [_put(site, builder, *pair, place) for pair in zip(results, made[: len(results)], strict=True)]
    following = builder.apply("add", number, builder.constant(1, _INDEX))
    body.outputs = [following, *made[len(results) :], *grown, *inputs, *outside]


def _starts(site: _Site, builder: Builder, rank: int, place: Value) -> list[Value]:
    return [place if dim == site.dim else builder.constant(0, _INDEX) for dim in range(rank)]


def _sliced(site: _Site, builder: Builder, value: Value, place: Value) -> Value:
    """The slice of a value at a place along the dim, without it."""
    sizes = tuple(1 if dim == site.dim else size for dim, size in enumerate(value.type.sizes))
    starts = _starts(site, builder, value.type.rank, place)
    one = builder.emit("dynamic_slice", [value, *starts], value.type.with_shape(sizes), slice_sizes=sizes)
    return builder.reshape(one, site.slice_of(value.type).shape)


def _put(site: _Site, builder: Builder, whole: Value, part: Value, place: Value) -> Value:
    """A value with this slice at a place along the dim."""
    shape = (*part.type.shape[: site.dim], 1, *part.type.shape[site.dim :])
    starts = _starts(site, builder, whole.type.rank, place)
    return builder.emit("dynamic_update_slice", [whole, builder.reshape(part, shape), *starts], whole.type)


_SIGNATURE = (
    "m -> n {m -> n} <dimension: integer, is_reverse?: flag, is_associative?: flag, operandSegmentSizes?: counts(2), "
    "resultSegmentSizes?: counts(2)>"
)
PART = Dialect(operations=define(Scan, "chlo", {_SIGNATURE: "scan"}), importers={"chlo.scan": _import_scan})
