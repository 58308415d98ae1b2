"""Tests of op records: required fields, unique names and consistent traits."""

from __future__ import annotations

from dataclasses import fields

import pytest

from meshgen.ops import FAMILIES, registry
from meshgen.ops.op import Op, Trait
from meshgen.ops.registry import OPS, evaluable_ops, with_kernel, with_trait

ADD = OPS["add"]
REQUIRED = ("name", "operands", "types", "evaluate", "error", "rule", "kernel", "flops")


@pytest.mark.parametrize("left_out", REQUIRED)
def test_op_record_requires_every_field(left_out: str) -> None:
    values = {field.name: getattr(ADD, field.name) for field in fields(Op) if field.name != left_out}
    with pytest.raises(TypeError, match=f"'{left_out}'"):
        Op(**values)


def test_op_defined_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="op 'add' is defined twice"):
        registry.register([[ADD]])
    assert len(OPS) == sum(map(len, FAMILIES))


def test_ops_with_generated_kernels_are_evaluable_or_rank_dependent() -> None:
    rank_dependent = {"process_index", "mask_padding"} | with_trait(Trait.LOCAL)
    generated = with_kernel("expression", "layout", "source", "lookup", "dot", "reduction")
    assert generated - evaluable_ops() == rank_dependent


def test_ops_computed_in_registers_are_elementwise() -> None:
    assert with_kernel("expression") - with_trait(Trait.ELEMENTWISE) == {"bitcast_convert", "to_partial"}


def test_collectives_are_not_evaluable_on_one_device() -> None:
    assert with_trait(Trait.COLLECTIVE) & evaluable_ops() == frozenset()
