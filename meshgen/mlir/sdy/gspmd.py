"""Rewrite the per-device parts of GSPMD programs into manual computations.

    before   %1 = custom_call @Sharding(%0) {mhlo.sharding = "{devices=[8,1]<=[8]}"} : f32[16,4] -> f32[16,4]
             %2 = custom_call @SPMDFullToShardShape(%1) {mhlo.sharding = "{manual}"} : f32[16,4] -> f32[2,4]
             %3 = sine %2
             %4 = custom_call @SPMDShardToFullShape(%3) {mhlo.sharding = "{devices=[8,1]<=[8]}"} : f32[2,4] -> f32[16,4]
    after    %4 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
                    manual_axes={"x"} (%2: f32[2,4]) { %3 = sine %2; sdy.return %3 }

JAX emits such parts for shard_map without Shardy, and PyTorch/XLA emits them for manual sharding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from meshgen.mlir.attributes import string_of
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.sdy.attributes import ManualAxesAttr, ShardingPerValueAttr
from meshgen.mlir.sdy.gspmd_parts import END, START, Part, is_conversion, parts_of, used_by
from meshgen.mlir.sdy.operations import MANUAL_COMPUTATION, RETURN
from meshgen.mlir.sdy.spelling import spell
from meshgen.mlir.stablehlo.mhlo_sharding import HINT, NAME, open_dims_of
from meshgen.mlir.stablehlo.xla_shardings import MANUAL, manual_axes_of, sharding_of
from meshgen.spec import Sharding

_PAIR_HINT = f"a per-device part begins with @{START} for each global value that it uses, and ends with @{END} in the same function or region"


@dataclass(frozen=True)
class _Rewriting:
    """The state of rewriting a module: it maps new operations and values to those in the text, for locations and names.

    Attributes:
        operations: new operation -> the operation that it replaces or copies.
        values: new value -> the value in the text that it replaces.
    """

    reading: Reading
    operations: dict[Operation, Operation] = field(default_factory=dict[Operation, Operation])
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def attribute(self, value: SSAValue) -> Attribute | None:
        """Return the attribute `mhlo.sharding` of the operation that defines `value` or of the function argument
        `value`.
        """
        owner = self.values.get(value, value).owner
        if isinstance(owner, Operation):
            return owner.attributes.get(NAME)
        function = owner.parent_op()
        entries = function.properties.get("arg_attrs") if function is not None else None
        if not isinstance(entries, builtin.ArrayAttr):
            return None
        entry = entries.data[owner.args.index(value)]
        return entry.data.get(NAME) if isinstance(entry, builtin.DictionaryAttr) else None


def _rewrite_conversions(reading: Reading, function: Operation) -> None:
    """Replace each per-device part of `function` with a manual computation."""
    if not any(is_conversion(operation, END) or is_conversion(operation, START) for operation in function.walk()):
        return
    rewriting = _Rewriting(reading)
    reading.source = reading.source.with_origins(rewriting.operations, rewriting.values)
    _rewrite_inside(rewriting, function)


def _rewrite_inside(rewriting: _Rewriting, operation: Operation) -> None:
    for block in (block for region in operation.regions for block in region.blocks):
        refused = set[Operation]()
        for part in parts_of(block):
            if part.foreign:
                _refuse_foreign(rewriting.reading, part)
                refused |= part.starts
            else:
                _rewrite_part(rewriting, part, block)
        _erase_unused(block)
        for start in (
            candidate for candidate in block.ops if is_conversion(candidate, START) and candidate not in refused
        ):
            message = f"no @{END} ends the per-device part that this @{START} begins"
            rewriting.reading.fault("MG0104", message, start, _PAIR_HINT)
        for inner in list(block.ops):
            _rewrite_inside(rewriting, inner)


def _refuse_foreign(reading: Reading, part: Part) -> None:
    name = reading.source.name(part.foreign[0])
    message = f"the per-device part that this @{END} ends uses {f'%{name}' if name else 'a value'}, which no @{START} converts"
    reading.fault("MG0104", message, part.ends[0], _PAIR_HINT)


def _erase_unused(block: Block) -> None:
    """Erase unused conversions that begin a per-device part, and unused operations that depend on such a conversion."""
    dependent_values = {operation.results[0] for operation in block.ops if is_conversion(operation, START)}
    for operation in block.ops if dependent_values else ():
        if not dependent_values.isdisjoint(used_by(operation)):
            dependent_values.update(operation.results)
    for operation in reversed(list(block.ops)):
        if (
            operation.results
            and dependent_values.issuperset(operation.results)
            and not any(result.first_use for result in operation.results)
        ):
            _erase(operation)


def _erase(operation: Operation) -> None:
    operation.detach()
    operation.erase()


def _rewrite_part(rewriting: _Rewriting, part: Part, block: Block) -> None:
    starts = [operation for operation in block.ops if operation in part.starts]
    axes = _manual_axes(rewriting, starts, part.ends)
    if not axes:  # Without manual axes, local and global shapes are equal, so the conversions can be dropped.
        _drop_conversions(rewriting.reading, [*starts, *part.ends])
        return
    body, first = _build_body(rewriting, part, starts, block), part.ends[0]
    properties = {
        "in_shardings": _shardings(rewriting, [(start, start.operands[0]) for start in starts]),
        "out_shardings": _shardings(rewriting, [(end, end.results[0]) for end in part.ends]),
        "manual_axes": ManualAxesAttr(axes),
    }
    computation = MANUAL_COMPUTATION.create(
        operands=[start.operands[0] for start in starts],
        result_types=[end.results[0].type for end in part.ends],
        properties=properties,
        regions=[Region(body)],
    )
    block.insert_op_before(computation, first)
    rewriting.operations[computation] = starts[0] if starts else first
    for end, result in zip(part.ends, computation.results, strict=True):
        rewriting.values[result] = end.results[0]
        end.results[0].replace_all_uses_with(result)
        _erase(end)


def _build_body(rewriting: _Rewriting, part: Part, starts: list[Operation], block: Block) -> Block:
    """Move the operations of a part into a new block. Operations that also have users outside of the part are copied."""
    body = Block(arg_types=[start.results[0].type for start in starts])
    local_values = dict[SSAValue, SSAValue](zip((start.results[0] for start in starts), body.args, strict=True))
    rewriting.values.update((argument, value) for value, argument in local_values.items())
    order = [operation for operation in block.ops if operation in part.body]
    movable = {*part.ends}
    for operation in reversed(order):
        if {block.find_ancestor_op_in_block(use.operation) for r in operation.results for use in r.uses} <= movable:
            movable.add(operation)
    for operation in order:
        if operation in movable:
            operation.detach()
            for inner in operation.walk():
                inner.operands = [local_values.get(value, value) for value in inner.operands]
            body.add_op(operation)
            continue
        copy = operation.clone(local_values)
        rewriting.operations.update(zip(copy.walk(), operation.walk(), strict=True))
        body.add_op(copy)
    body.add_op(RETURN.create(operands=[local_values.get(v, v) for v in (end.operands[0] for end in part.ends)]))
    return body


def _drop_conversions(reading: Reading, conversions: list[Operation]) -> None:
    for conversion in conversions:
        (operand,), (result,) = conversion.operands, conversion.results
        if operand.type != result.type:
            message = f"a conversion from {operand.type} to {result.type}, but no axis is manual"
            reading.fault("MG0204", message, conversion, HINT)
        result.replace_all_uses_with(operand)
        _erase(conversion)


def _manual_axes(rewriting: _Rewriting, starts: list[Operation], ends: list[Operation]) -> tuple[str, ...]:
    """Return the axes that are manual inside a part but not around it. Reports a fault if the part's conversions
    disagree.
    """
    reading, agreed = rewriting.reading, None
    for conversion, around, within in _stated_shardings(rewriting, starts, ends):
        try:
            outer, inner = (manual_axes_of(text, reading.module.mesh) for text in (around, within))
        except ValueError as error:
            reading.fault("MG0204", f"the sharding '{within}': {error}", conversion, HINT)
            continue
        axes = tuple(axis for axis in inner if axis not in outer)
        agreed = axes if agreed is None else agreed
        if {*axes} != {*agreed}:
            message = f"the axes {list(axes)} are manual according to '{within}', but {list(agreed)} at another conversion of the same part"
            reading.fault("MG0204", message, conversion, "write the same manual axes at all conversions of a part")
    return reading.module.mesh.names if agreed is None else agreed


def _stated_shardings(
    rewriting: _Rewriting, starts: list[Operation], ends: list[Operation]
) -> Iterator[tuple[Operation, str, str]]:
    """Yield each conversion of a part that states manual axes, with two sharding texts: around the part, and inside it."""
    for start in starts:
        yield start, string_of(rewriting.attribute(start.operands[0])), string_of(start.attributes.get(NAME)) or MANUAL
    for end in ends:
        if within := string_of(rewriting.attribute(end.operands[0])):
            yield end, string_of(end.attributes.get(NAME)), within


def _shardings(rewriting: _Rewriting, values: list[tuple[Operation, SSAValue]]) -> ShardingPerValueAttr:
    """Return the shardings of the operands or results of a part. `values` pairs each conversion with its global value."""
    reading, mesh, texts = rewriting.reading, rewriting.reading.module.mesh, list[str]()
    for conversion, value in values:
        text, kind = string_of(rewriting.attribute(value)), reading.type(value.type, value)
        owner = rewriting.values.get(value, value).owner
        opened = open_dims_of(owner, kind.rank) if isinstance(owner, Operation) else ()
        try:
            sharding = sharding_of(text, kind.rank, mesh)
        except ValueError as error:
            reading.fault("MG0204", f"the sharding '{text}': {error}", conversion, HINT)
            sharding = Sharding.replicated(kind.rank)
        texts.append(spell(sharding, mesh.name, opened))
    return ShardingPerValueAttr(tuple(texts))


PART = Dialect(rewriters=(_rewrite_conversions,))
