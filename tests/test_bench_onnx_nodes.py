"""The node tests of the onnx package. Every case computes the expected result, also if it is sharded, or is refused for
a listed reason.
"""

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

LEAST = 0.92  # least fraction of all cases that are correct; all include those about strings, sequences and files
MOST_CONSTANTS = 290  # largest number of cases in which operands must be constants
STRIDE = 48  # chosen: every 48th correct case also runs on two devices


def sharded(cases: list[Outcome]) -> Iterator[Outcome]:
    """Return some of the correct cases whose first operand has rows to split, to run these cases on two devices too."""
    good = [
        outcome for outcome in cases if outcome.verdict == "same" and outcome.module and outcome.module.graph.inputs
    ]
    return (
        outcome
        for outcome in good[::STRIDE]
        if outcome.module and max(outcome.module.graph.inputs[0].type.sizes[:1], default=0) > 1
    )


def fused(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]


def test_onnx_node_tests_are_correct_or_refused_for_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    cases = list(outcomes())
    with capsys.disabled():
        print(f"\n{score(cases)}")  # the score of the suite  # noqa: T201  (the score of the suite)
    assert not [f"{outcome.name}: {outcome.text}" for outcome in cases if outcome.verdict == "differs"]
    refused = {outcome.name for outcome in cases if outcome.verdict == "refused"}
    assert not {name for name in refused if reason(name) is None}
    stale = [word for words in REFUSED.values() for word in words if not any(word in name for name in refused)]
    assert not stale, "reasons that no refused case has"
    assert len(cases) - len(refused) >= LEAST * len(cases)
    assert sum(outcome.has_constants for outcome in cases) <= MOST_CONSTANTS
    mesh, checked = make_mesh({"d": 2}), 0
    for outcome in sharded(cases):
        assert outcome.module
        module = Module(mesh, outcome.module.graph, name="case", in_annotations=list(outcome.module.in_annotations), out_annotations=list(outcome.module.out_annotations))  # fmt: skip
        split = annotated(module, {module.graph.inputs[0].name: "d"}, None)
        result = check(split, pipeline=fused, args=list(outcome.arguments))
        assert result.ok, f"{outcome.name}: {[str(fault) for fault in result.faults]}"
        checked += 1
    assert checked >= 25
