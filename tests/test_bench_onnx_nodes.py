"""The node tests of the onnx package: all of those that are not refused for a reason compute what it says, sharded too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("onnx")

from bench.onnx_nodes import REFUSED, Outcome, outcomes, reason, score
from meshgen.frontend.specs import annotated
from meshgen.ir.graph import Module
from meshgen.mesh import make_mesh
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

LEAST = 0.92  # of all cases, also of those about strings, sequences and files
MOST_CONSTANTS = 290  # cases whose operands have to be constants
STRIDE = 48  # of the cases that are also run on two devices


def sharded(found: list[Outcome]) -> Iterator[Outcome]:
    """Some of the cases whose first operand has rows to split."""
    good = [each for each in found if each.verdict == "same" and each.module and each.module.graph.inputs]
    return (
        each
        for each in good[::STRIDE]
        if each.module and max(each.module.graph.inputs[0].type.sizes[:1], default=0) > 1
    )


def fused(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]


def test_node_tests_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    found = list(outcomes())
    with capsys.disabled():
        print(f"\n{score(found)}")  # noqa: T201  (the score of the suite)
    assert not [f"{each.name}: {each.text}" for each in found if each.verdict == "differs"]
    refused = {each.name for each in found if each.verdict == "refused"}
    assert not {name for name in refused if reason(name) is None}
    stale = [word for words in REFUSED.values() for word in words if not any(word in name for name in refused)]
    assert not stale, "reasons that no refused case has"
    assert len(found) - len(refused) >= LEAST * len(found)
    assert sum(each.has_constants for each in found) <= MOST_CONSTANTS
    mesh, checked = make_mesh({"d": 2}), 0
    for each in sharded(found):
        assert each.module
        module = Module(mesh, each.module.graph, name="case", in_annotations=list(each.module.in_annotations), out_annotations=list(each.module.out_annotations))  # fmt: skip
        split = annotated(module, {module.graph.inputs[0].name: "d"}, None)
        result = check(split, pipeline=fused, args=list(each.arguments))
        assert result.ok, f"{each.name}: {[str(fault) for fault in result.faults]}"
        checked += 1
    assert checked >= 25
