"""StableHLO's constraints on what custom calls say of memory: layouts and aliases, which are not read beyond that."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation

from meshgen.mlir.attributes import integers, is_integers
from meshgen.mlir.checked import Checked
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reading import Reading
from meshgen.mlir.stablehlo.attributes import Struct
from meshgen.mlir.stablehlo.calls import Alias


def _verify_custom_call(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    operands, results = [*operation.operand_types], _flattened(operation.result_types)
    said = [found.property(f"{side}_layouts") for side in ("operand", "result")]
    found.require(said.count(None) != 1, "operand_layouts and result_layouts must both be given, or neither")
    for side, layouts, kinds in zip(("operand", "result"), said, (operands, results), strict=True):
        if layouts is not None:
            _check_layouts(found, side, layouts, kinds)
    aliases = found.property("output_operand_aliases")
    for alias in aliases.data if isinstance(aliases, builtin.ArrayAttr) else ():
        if found.require(isinstance(alias, Alias), f"{alias} must be #stablehlo.output_operand_alias<...>"):
            assert isinstance(alias, Alias)
            _check_alias(found, alias)


def _flattened(kinds: Sequence[Attribute]) -> list[Attribute]:
    """The types of results; a tuple that is the only one stands for its parts."""
    only = kinds[0] if len(kinds) == 1 else None
    return [*only.types.data] if isinstance(only, builtin.TupleType) else [*kinds]


def _check_layouts(found: Checked, side: str, layouts: Attribute, kinds: Sequence[Attribute]) -> None:
    """A layout is a permutation of the dims of a tensor."""
    entries = layouts.data if isinstance(layouts, builtin.ArrayAttr) else ()
    is_one_each = isinstance(layouts, builtin.ArrayAttr) and len(entries) == len(kinds)
    if not found.require(is_one_each, f"{side}_layouts must have a layout for each of {len(kinds)} {side}s"):
        return
    for number, (layout, kind) in enumerate(zip(entries, kinds, strict=True)):
        rank = kind.get_num_dims() if isinstance(kind, builtin.TensorType) else 0
        sound = is_integers(layout) and sorted(integers(layout)) == list(range(rank))
        found.require(
            sound, f"the layout {list(integers(layout))} of {side} {number} is not a permutation of {rank} dims"
        )


def _check_alias(found: Checked, alias: Struct) -> None:
    """An alias is of a part of a result and a part of an operand, of one type."""
    operands, results = found.operation.operand_types, found.operation.result_types
    number = alias.integer("operand_index")
    if not found.require(0 <= number < len(operands), f"an alias of operand {number} of {len(operands)}"):
        return
    path = alias.integers("output_tuple_indices")
    which, path = (0, path) if len(results) == 1 else (next(iter(path), -1), path[1:])
    result = _part(results[which], path) if 0 <= which < len(results) else None
    same = result is not None and result == _part(operands[number], alias.integers("operand_tuple_indices"))
    found.require(same, f"an alias of operand {number} needs a part of a result of its type, got {alias}")


def _part(kind: Attribute, path: Sequence[int]) -> Attribute | None:
    """The part of a tuple's type at a path; None where there is none."""
    for number in path:
        if not isinstance(kind, builtin.TupleType) or not 0 <= number < len(kind.types.data):
            return None
        kind = kind.types.data[number]
    return kind


PART = Dialect(verifiers={"stablehlo.custom_call": _verify_custom_call})
