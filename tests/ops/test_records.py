"""Records of ops: none is left half, none stands twice, and what they say agrees."""

from __future__ import annotations

from dataclasses import fields

import pytest

from meshgen.ops import FAMILIES, registry
from meshgen.ops.op import Op, Trait
from meshgen.ops.registry import OPS, with_kernel, with_meaning, with_trait

ADD = OPS["add"]
REQUIRED = ("name", "operands", "types", "evaluate", "error", "rule", "kernel", "flops")


@pytest.mark.parametrize("left_out", REQUIRED)
def test_a_field_that_is_left_out_fails(left_out: str) -> None:
    given = {field.name: getattr(ADD, field.name) for field in fields(Op) if field.name != left_out}
    with pytest.raises(TypeError, match=f"'{left_out}'"):
        Op(**given)


def test_an_op_is_defined_once() -> None:
    with pytest.raises(ValueError, match="op 'add' is defined twice"):
        registry.register([[ADD]])
    assert len(OPS) == sum(map(len, FAMILIES))


def test_generated_kernels_make_only_what_has_a_meaning_or_asks_for_the_rank() -> None:
    of_ranks = {"process_index", "mask_padding"} | with_trait(Trait.LOCAL)
    generated = with_kernel("expression", "layout", "source", "lookup", "dot", "reduction")
    assert generated - with_meaning() == of_ranks


def test_what_kernels_compute_in_registers_is_elementwise() -> None:
    assert with_kernel("expression") - with_trait(Trait.ELEMENTWISE) == {"bitcast_convert", "to_partial"}


def test_collectives_have_no_meaning_on_one_device() -> None:
    assert with_trait(Trait.COLLECTIVE) & with_meaning() == frozenset()
