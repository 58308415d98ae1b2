"""Collectives grouped by cause: repeated layers form one group, and filters select groups."""

from __future__ import annotations

import pytest

from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.reports.causes import Filter, groups_of
from tests.reports.models import layers


@pytest.fixture(scope="module")
def stack() -> Executable:
    return api.plan(layers(12), target="cpu")


def test_repeated_layers_form_one_group_with_totals(stack: Executable) -> None:
    (group,) = groups_of(stack)
    assert group.times == len(stack.comms) == 12 and group.scope == "layer_*/mlp"
    assert group.ring_bytes == stack.comms.ring_bytes
    assert group.exposed_seconds == pytest.approx(stack.cost.exposed_seconds)
    assert group.title == "12 x all_reduce sum over tp, layer_*/mlp"


def test_cause_sentence_names_annotation_op_and_user(stack: Executable) -> None:
    (group,) = groups_of(stack)
    assert group.sentence == (
        "you split dim 0 of `layers.*.down` over tp and dot_general (model.py:5) sums over it, so each device has a partial sum; "
        "add (model.py:6) needs the whole"
    )


def test_filters_select_by_layer_kind_and_axis(stack: Executable) -> None:
    (group,) = groups_of(stack, Filter(layer="layer_1"))
    assert group.scope == "layer_1/mlp" and group.times == 1  # The filter does not match layer_10 and layer_11.
    assert len(groups_of(stack, Filter(layer="layer_*/mlp", kind="all-reduce", axis="tp"))[0].numbers) == 12
    assert groups_of(stack, Filter(axis="dp")) == groups_of(stack, Filter(kind="all_gather")) == []
