"""Test that the host can read which collectives a device has reached."""

from __future__ import annotations

from meshgen.runtime.cuda.api import emulated
from meshgen.runtime.cuda.device import Device
from meshgen.runtime.cuda.progress import Progress
from meshgen.runtime.plan import COMMUNICATION, NETWORK


def test_progress_names_last_collective_of_each_stream() -> None:
    device = Device(emulated(1, "sm_90"), 0)
    progress = Progress(device)
    assert progress.label == "what comes before the first collective"
    labels: list[str] = []
    for label, stream in (("a", COMMUNICATION), ("b", COMMUNICATION), ("c", NETWORK), ("b", NETWORK)):
        progress.note(label, device.streams[stream])
        device.api.cuda("cuStreamSynchronize", device.streams[stream])
        labels.append(progress.label)
    assert labels == ["a", "b", "b or c", "b"]
    progress.close()
    device.close()
