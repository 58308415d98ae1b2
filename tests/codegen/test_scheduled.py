"""A schedule as text: what is read from it is the same schedule."""

from dataclasses import replace
from pathlib import Path

import pytest

from meshgen.codegen.fuse import fuse
from meshgen.codegen.schedule import schedule
from meshgen.codegen.scheduled import plan_of, scheduled
from meshgen.ir.text import parse_text, print_text
from meshgen.sharding.materialize import materialize
from meshgen.sharding.partition import partition
from meshgen.sharding.propagate import propagate

DATA = Path(__file__).parent.parent / "data"
FILES = ["rfc_fig2a.mlir", "rfc_fig2b_annotated.mlir", "rfc_fig2b_plain.mlir"]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_schedule_reads_back(name: str, fused: bool) -> None:
    module = partition(materialize(propagate(parse_text((DATA / name).read_text(), name))))
    module = fuse(module) if fused else module
    plan = schedule(module)
    again = parse_text(print_text(scheduled(module, plan)))
    assert again.stage == "schedule"
    found = plan_of(again)
    assert list(found.kernels) == list(plan.kernels)
    assert replace(found, kernels={}) == replace(plan, kernels={})
