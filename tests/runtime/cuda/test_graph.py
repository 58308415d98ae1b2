"""Steps captured in graphs: captured again when pointers change, in place where the form is the same."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.errors import RuntimeFailure
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.graph import StepGraph


class TwoDevices:
    """Copies from one buffer to another on each of two devices; `places` are read when the step is issued."""

    def __init__(self) -> None:
        self.api = emulated(2, "sm_80", races=True)
        self.devices = [Device(self.api, n) for n in range(2)]
        self.source = [device.allocate(16, "source") for device in self.devices]
        self.places = [device.allocate(16, "target") for device in self.devices]
        for device, address in zip(self.devices, self.source, strict=True):
            device.upload(address, np.arange(4, dtype=np.int32) + 10 * device.ordinal)
        self.repeat = 1
        streams = [(device, stream) for device in self.devices for stream in device.streams]
        self.graph = StepGraph(self.api, streams, self.issue)

    def issue(self) -> None:
        for device, source, target in zip(self.devices, self.source, self.places, strict=True):
            for _ in range(self.repeat):
                self.api.cuda("cuMemcpyDtoDAsync", target, source, 16, device.streams[1])

    def step(self) -> list[list[int]]:
        self.graph.launch()
        self.api.cuda("cuStreamSynchronize", self.devices[0].streams[0])
        return [
            device.download(target, np.empty(4, np.int32)).tolist()
            for device, target in zip(self.devices, self.places, strict=True)
        ]


WANT = [[0, 1, 2, 3], [10, 11, 12, 13]]


def calls_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    cuda = Api.cuda
    monkeypatch.setattr(Api, "cuda", lambda self, name, *args: (calls.append(name), cuda(self, name, *args))[1])
    return calls


def test_one_launch_runs_the_work_of_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = TwoDevices()
    assert pair.graph.nodes == 2
    calls = calls_of(monkeypatch)
    assert pair.step() == WANT
    assert calls.count("cuGraphLaunch") == 1


def test_other_pointers_are_captured_into_the_same_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = TwoDevices()
    pair.places = [device.allocate(16, "other target") for device in pair.devices]
    calls = calls_of(monkeypatch)
    pair.graph.capture(pair.issue)
    assert "cuGraphInstantiate" not in calls
    assert pair.step() == WANT


def test_another_form_makes_another_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = TwoDevices()
    pair.repeat = 3
    calls = calls_of(monkeypatch)
    pair.graph.capture(pair.issue)
    assert calls.count("cuGraphInstantiate") == 1 and calls.count("cuGraphExecDestroy") == 1
    assert pair.graph.nodes == 6 and pair.step() == WANT
    pair.graph.close()
    pair.graph.close()  # twice is once


def test_a_capture_that_fails_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = TwoDevices()
    monkeypatch.setattr(pair, "issue", lambda: pair.devices[0].allocate(8, "more"))
    streams = [(device, stream) for device in pair.devices for stream in device.streams]
    with pytest.raises(RuntimeFailure, match="cuMemAlloc failed with 900"):
        StepGraph(pair.api, streams, lambda: pair.issue())
    assert pair.step() == WANT  # what was captured before is still there
