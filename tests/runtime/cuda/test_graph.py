"""Tests of CUDA graphs of steps: captured again if pointers change, and updated in place if the topology is the same."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.errors import RuntimeFailure
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.graph import StepGraph


class TwoDevices:
    """Two devices, on each of which a step copies one buffer to the address in `targets`."""

    def __init__(self) -> None:
        self.api = emulated(2, "sm_80", races=True)
        self.devices = [Device(self.api, n) for n in range(2)]
        self.source = [device.allocate(16, "source") for device in self.devices]
        self.targets = [device.allocate(16, "target") for device in self.devices]
        for device, address in zip(self.devices, self.source, strict=True):
            device.upload(address, np.arange(4, dtype=np.int32) + 10 * device.ordinal)
        self.repeat = 1
        streams = [(device, stream) for device in self.devices for stream in device.streams]
        self.graph = StepGraph(self.api, streams, self.issue)

    def issue(self) -> None:
        for device, source, target in zip(self.devices, self.source, self.targets, strict=True):
            for _ in range(self.repeat):
                self.api.cuda("cuMemcpyDtoDAsync", target, source, 16, device.streams[1])

    def step(self) -> list[list[int]]:
        self.graph.launch()
        self.api.cuda("cuStreamSynchronize", self.devices[0].streams[0])
        return [
            device.download(target, np.empty(4, np.int32)).tolist()
            for device, target in zip(self.devices, self.targets, strict=True)
        ]


EXPECTED = [[0, 1, 2, 3], [10, 11, 12, 13]]


def single_operand_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    cuda = Api.cuda
    monkeypatch.setattr(Api, "cuda", lambda self, name, *args: (calls.append(name), cuda(self, name, *args))[1])
    return calls


def test_graph_launch_runs_work_of_all_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    two_devices = TwoDevices()
    assert two_devices.graph.nodes == 2
    calls = single_operand_calls(monkeypatch)
    assert two_devices.step() == EXPECTED
    assert calls.count("cuGraphLaunch") == 1


def test_recapture_with_new_pointers_updates_graph_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    two_devices = TwoDevices()
    two_devices.targets = [device.allocate(16, "other target") for device in two_devices.devices]
    calls = single_operand_calls(monkeypatch)
    two_devices.graph.capture(two_devices.issue)
    assert "cuGraphInstantiate" not in calls
    assert two_devices.step() == EXPECTED


def test_recapture_with_new_topology_instantiates_new_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    two_devices = TwoDevices()
    two_devices.repeat = 3
    calls = single_operand_calls(monkeypatch)
    two_devices.graph.capture(two_devices.issue)
    assert calls.count("cuGraphInstantiate") == 1 and calls.count("cuGraphExecDestroy") == 1
    assert two_devices.graph.nodes == 6 and two_devices.step() == EXPECTED
    two_devices.graph.close()
    two_devices.graph.close()  # closing twice is harmless


def test_failed_capture_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    two_devices = TwoDevices()
    monkeypatch.setattr(two_devices, "issue", lambda: two_devices.devices[0].allocate(8, "more"))
    streams = [(device, stream) for device in two_devices.devices for stream in device.streams]
    with pytest.raises(RuntimeFailure, match="cuMemAlloc failed with 900"):
        StepGraph(two_devices.api, streams, lambda: two_devices.issue())
    assert two_devices.step() == EXPECTED  # the earlier capture still works
