"""Tests of targets: invalid ones are rejected with a suggestion."""

from __future__ import annotations

from dataclasses import replace

import pytest

import meshgen as mg
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.targets import DEFAULT_TARGET, architectures_of, predicted_machine, target_faults
from meshgen.errors import UsageError
from meshgen.kernels.architectures import ARCHITECTURES
from meshgen.machine.profiles import DEFAULT_MACHINE, MACHINES


def test_every_architecture_is_a_target() -> None:
    for name in ARCHITECTURES:
        assert target_faults(f"cuda:{name}") == [] and architectures_of(f"cuda:{name}") == (name,)
    assert target_faults("cuda:sm_90,sm_80") == [] and architectures_of("cuda:sm_90,sm_80") == ("sm_90", "sm_80")
    assert target_faults("cpu") == [] and architectures_of("cpu") == ()


def test_architecture_is_modeled_by_gpu_with_equal_tensor_cores() -> None:
    for name, architecture in ARCHITECTURES.items():
        device = device_of(f"cuda:{name}")
        assert device.name == architecture.tensor_cores.device
        assert ARCHITECTURES[device.architecture].tensor_cores is architecture.tensor_cores


WRONG = {
    "cuda:": "an architecture is missing", "cuda:,": "an architecture is missing", "cuda:sm_90,": "an architecture is missing",
    "cuda": "unknown target 'cuda'", "CPU": "did you mean 'cpu'", "cpu:": "did you mean 'cpu'", "": "unknown target ''",
    "CUDA:SM_90": "did you mean 'cuda:sm_90'", "cuda:sm_9": "did you mean 'sm_90'", "cuda:sm90": "did you mean 'sm_90'",
    "cuda:sm_90a": "did you mean 'sm_90'", "cuda:sm_90, sm_80": "' sm_80'", "cuda:sm_90,sm_90": "'sm_90' is named twice",
    "cuda:sm_70": "unknown GPU architecture 'sm_70'", "cuda:sm_\u0669\u0660": "unknown GPU architecture", "tpu": "unknown target 'tpu'",
    "x" * 1000: "unknown target 'xxx",
}  # fmt: skip


@pytest.mark.parametrize("target", WRONG, ids=lambda target: ascii(target)[:20])
def test_invalid_target_is_rejected_with_suggestion(target: str) -> None:
    with pytest.raises(UsageError) as caught:
        mg.lower(lambda x: x, {"a": 2}, args=["f32[4]"], stage="import", target=target)
    text = str(caught.value)
    assert WRONG[target] in text and "the architectures are sm_80, " in text and "MG0001" in text
    assert len(text) < 500


@pytest.mark.parametrize("target", [5, ["cuda:sm_90"], b"cpu"])
def test_target_that_is_no_string_is_rejected(target: object) -> None:
    with pytest.raises(UsageError, match="unknown target"):
        mg.lower(lambda x: x, {"a": 2}, args=["f32[4]"], stage="import", target=target)  # type: ignore[arg-type]


def test_all_target_faults_are_reported_together() -> None:
    assert len(target_faults("cuda:sm_1,,sm_90,sm_90,sm_2")) == 4


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80", "cuda:sm_90,sm_80"])
def test_predicted_machine_has_gpu_of_machine_or_target(target: str) -> None:
    for machine in (None, *MACHINES.values()):
        predicted = predicted_machine(target, machine)
        first = DEFAULT_TARGET if target == "cpu" else architectures_of(target)[0]
        assert predicted.device == ((machine and machine.device) or device_of(first).name)
        assert predicted.links == (machine or MACHINES[DEFAULT_MACHINE]).links
    assert predicted_machine(target, replace(MACHINES[DEFAULT_MACHINE], device="L4")).device == "L4"
