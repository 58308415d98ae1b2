"""Checks of the layouts and aliases that custom calls request. These attributes have no other effect."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation

from meshgen.mlir.attributes import integers, is_integers
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.operation_checks import Checked
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.stablehlo.attributes import Struct
from meshgen.mlir.stablehlo.calls import Alias


def _verify_custom_call(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    operands, results = [*operation.operand_types], _flattened(operation.result_types)
    layouts_by_side = [checks.property(f"{side}_layouts") for side in ("operand", "result")]
    checks.require(
        layouts_by_side.count(None) != 1, "operand_layouts and result_layouts must both be given, or neither"
    )
    for side, layouts, kinds in zip(("operand", "result"), layouts_by_side, (operands, results), strict=True):
        if layouts is not None:
            _check_layouts(checks, side, layouts, kinds)
    aliases = checks.property("output_operand_aliases")
    for alias in aliases.data if isinstance(aliases, builtin.ArrayAttr) else ():
        if checks.require(isinstance(alias, Alias), f"{alias} must be #stablehlo.output_operand_alias<...>"):
            assert isinstance(alias, Alias)
            _check_alias(checks, alias)


def _flattened(types: Sequence[Attribute]) -> list[Attribute]:
    """Return the types, or the element types if there is only one type and it is a tuple."""
    single = types[0] if len(types) == 1 else None
    return [*single.types.data] if isinstance(single, builtin.TupleType) else [*types]


def _check_layouts(checks: Checked, side: str, layouts: Attribute, kinds: Sequence[Attribute]) -> None:
    """Check that there is one layout per operand or result (`side`), and that each is a permutation of the tensor's
    dims.
    """
    entries = layouts.data if isinstance(layouts, builtin.ArrayAttr) else ()
    is_one_each = isinstance(layouts, builtin.ArrayAttr) and len(entries) == len(kinds)
    if not checks.require(is_one_each, f"{side}_layouts must have a layout for each of {len(kinds)} {side}s"):
        return
    for index, (layout, kind) in enumerate(zip(entries, kinds, strict=True)):
        rank = kind.get_num_dims() if isinstance(kind, builtin.TensorType) else 0
        is_permutation = is_integers(layout) and sorted(integers(layout)) == list(range(rank))
        checks.require(
            is_permutation, f"the layout {list(integers(layout))} of {side} {index} is not a permutation of {rank} dims"
        )


def _check_alias(checks: Checked, alias: Struct) -> None:
    """Check that an alias connects an operand and a result of the same type, or tuple elements of the same type."""
    operands, results = checks.operation.operand_types, checks.operation.result_types
    operand_index = alias.integer("operand_index")
    if not checks.require(
        0 <= operand_index < len(operands), f"an alias of operand {operand_index} of {len(operands)}"
    ):
        return
    path = alias.integers("output_tuple_indices")
    result_index, path = (0, path) if len(results) == 1 else (next(iter(path), -1), path[1:])
    result = _element_type(results[result_index], path) if 0 <= result_index < len(results) else None
    has_same_type = result is not None and result == _element_type(
        operands[operand_index], alias.integers("operand_tuple_indices")
    )
    checks.require(
        has_same_type, f"an alias of operand {operand_index} needs a part of a result of its type, got {alias}"
    )


def _element_type(kind: Attribute, path: Sequence[int]) -> Attribute | None:
    """Return the type of the element at `path` in nested tuples, or None if there is none."""
    for index in path:
        if not isinstance(kind, builtin.TupleType) or not 0 <= index < len(kind.types.data):
            return None
        kind = kind.types.data[index]
    return kind


PART = Dialect(verifiers={"stablehlo.custom_call": _verify_custom_call})
