"""Tests of kernel times between events: a cold launch and then a warm one, with event times prescribed by the test."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.emulator.cuda.machine import DEVICE_KINDS
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.cuda.device import Device, Launch, ParameterBlock
from meshgen.runtime.cuda.timing import FLUSHES, EventTimer, Timing


class Recorded:
    """A driver that records the calls issued to streams. The n-th event is recorded at time `TIMES[n]` in milliseconds."""

    TIMES = (0.0, 0.5, 0.75)

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.calls: list[str] = []
        self.cleared: list[int] = []
        self._events: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def cuLaunchKernel(self, *args: Any) -> Any:
        self.calls.append("launch")
        return self._driver.cuLaunchKernel(*args)

    def cuMemsetD8Async(self, *args: Any) -> Any:
        self.calls.append("clear")
        self.cleared.append(args[2])
        return self._driver.cuMemsetD8Async(*args)

    def cuEventRecord(self, event: int, stream: int) -> Any:
        self.calls.append("event")
        self._events.append(event)
        return self._driver.cuEventRecord(event, stream)

    def cuEventElapsedTime(self, start: int, end: int) -> Any:
        # the emulated driver rejects events without timing and events that have not happened
        result, _ = self._driver.cuEventElapsedTime(start, end)
        order = self._events[-3:]
        return result, self.TIMES[order.index(end)] - self.TIMES[order.index(start)]


def test_timing_sample_is_cold_launch_then_warm_launch() -> None:
    real = emulated(1, "sm_90")
    driver = Recorded(real.driver)
    device = Device(Api(driver, real.machine), 0)
    launched_devices: list[int] = []
    image = real.driver.define("kernel", [], lambda work, device, values: launched_devices.append(device))
    launch = Launch(device.function(image, "kernel", 0), (1, 1, 1), 1, 0, ParameterBlock([]))
    timer = EventTimer(device)
    for _ in range(2):
        assert timer.seconds(launch) == Timing(warm=0.25e-3, cold=0.5e-3)
    assert driver.calls == ["clear", "event", "launch", "event", "launch", "event"] * 2
    assert driver.cleared == [FLUSHES * DEVICE_KINDS["sm_90"].l2_bytes] * 2 and len(launched_devices) == 4
    device.close()


def test_timing_is_mean_of_cold_and_warm() -> None:
    assert np.isclose(Timing(warm=1.0, cold=2.0).seconds, 1.5)
