"""Targets: what is no target is refused with what was meant."""

from __future__ import annotations

import pytest

import meshgen as mg
from meshgen.codegen.targets import ARCHITECTURES, architectures_of, target_faults
from meshgen.errors import UsageError


def test_every_architecture_is_a_target() -> None:
    for name in ARCHITECTURES:
        assert target_faults(f"cuda:{name}") == [] and architectures_of(f"cuda:{name}") == (name,)
    assert target_faults("cuda:sm_90,sm_80") == [] and architectures_of("cuda:sm_90,sm_80") == ("sm_90", "sm_80")
    assert target_faults("cpu") == [] and architectures_of("cpu") == ()


WRONG = {
    "cuda:": "an architecture is missing", "cuda:,": "an architecture is missing", "cuda:sm_90,": "an architecture is missing",
    "cuda": "unknown target 'cuda'", "CPU": "did you mean 'cpu'", "cpu:": "did you mean 'cpu'", "": "unknown target ''",
    "CUDA:SM_90": "did you mean 'cuda:sm_90'", "cuda:sm_9": "did you mean 'sm_90'", "cuda:sm90": "did you mean 'sm_90'",
    "cuda:sm_90a": "did you mean 'sm_90'", "cuda:sm_90, sm_80": "' sm_80'", "cuda:sm_90,sm_90": "'sm_90' is named twice",
    "cuda:sm_70": "unknown GPU architecture 'sm_70'", "cuda:sm_\u0669\u0660": "unknown GPU architecture", "tpu": "unknown target 'tpu'",
    "x" * 1000: "unknown target 'xxx",
}  # fmt: skip


@pytest.mark.parametrize("target", WRONG, ids=lambda target: ascii(target)[:20])
def test_what_is_no_target_is_refused(target: str) -> None:
    with pytest.raises(UsageError) as caught:
        mg.lower(lambda x: x, {"a": 2}, args=["f32[4]"], stage="import", target=target)
    text = str(caught.value)
    assert WRONG[target] in text and "the architectures are sm_80, " in text and "MG0001" in text
    assert len(text) < 500


@pytest.mark.parametrize("target", [5, ["cuda:sm_90"], b"cpu"])
def test_a_target_is_a_text(target: object) -> None:
    with pytest.raises(UsageError, match="unknown target"):
        mg.lower(lambda x: x, {"a": 2}, args=["f32[4]"], stage="import", target=target)  # type: ignore[arg-type]


def test_all_faults_are_told_at_once() -> None:
    assert len(target_faults("cuda:sm_1,,sm_90,sm_90,sm_2")) == 4
