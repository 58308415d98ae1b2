"""Joint schedules of several meshes: all meshes must issue transfers in the same order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import meshgen as mg
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.pipeline import context_of, make_schedule
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.multi_mesh_checker import check_parts
from tests.sharding.multi_mesh.meshes_programs import (
    CPU,
    stages_of,
    traced,
)


def plans_of(module: Module) -> tuple[list[Schedule], list[Mesh]]:
    fused = stages_of(module)["fuse"]
    return [make_schedule(part, context_of(CPU)) for part in fused.parts], [part.mesh for part in fused.parts]


def test_transfers_in_different_orders_are_reported_as_deadlock() -> None:
    def program(x: Any) -> Any:
        h = mg.annotate(x, mg.P(mesh="a"))
        return mg.annotate(mg.tanh(h), mg.P(mesh="b")) + mg.annotate(mg.exp(h), mg.P(mesh="b"))

    plans, meshes = plans_of(traced(program, types=["f32[6]"], in_specs=None))
    assert check_parts(plans, meshes).step_seconds > 0
    items = list(plans[1].items)
    first, second = (n for n, item in enumerate(items) if item.op == "transfer_recv")
    items[first], items[second] = (
        replace(items[first], attrs=items[second].attrs),
        replace(items[second], attrs=items[first].attrs),
    )
    with pytest.raises(ScheduleError) as error:
        check_parts([plans[0], replace(plans[1], items=tuple(items))], meshes)
    assert {fault.code for fault in error.value.diagnostics} == {"MG0401"}
    assert "@a waits" in str(error.value) and "@b waits" in str(error.value)
    with pytest.raises(ScheduleError, match="one send and one recv"):
        check_parts([plans[0], replace(plans[1], items=())], meshes)
