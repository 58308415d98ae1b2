"""Collectives in the plans of JAX programs: the steps to which each is lowered compute its result."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen import api
from meshgen.ir.graph import Node, Value
from tests.acceptance.cases import PROGRAMS, needs_cases, small
from tests.ccl.lowered import faults
from tests.ccl.random_collectives import Case

pytestmark = needs_cases


@pytest.mark.parametrize("name", [*PROGRAMS, "heat_roll", "conv_halo", "maxpool_halo", "uneven_slice", "moe_ep_nohint"])
def test_planned_collectives_are_lowered_correctly(name: str) -> None:
    executable, rng = api.plan(small(name)), np.random.default_rng(1)
    checked: set[str] = set()
    for launched in executable.plan.launches():
        item, buffers = launched.item, launched.plan.buffers
        if item.is_collective:
            inputs, outputs = ([Value(buffers[n].type) for n in numbers] for numbers in (item.inputs, item.outputs))
            case = Case(Node(item.op, inputs, outputs, dict(item.attrs)), executable.mesh)
            if str(case) not in checked:
                checked.add(str(case))
                assert faults(case, rng) == [], str(case)
