"""Measurement of the duration of a launch on a device, with events in its stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from meshgen.runtime.cuda.device import Device, Launch

# bytes written per byte of L2 cache to evict all other data; more than 1 because replacement is not strict LRU
FLUSHES = 2


@dataclass(frozen=True)
class Timing:
    """Seconds of a launch.

    `warm`: the operands are in the L2 cache as far as they fit. `cold`: the cache holds other data.
    """

    warm: float
    cold: float

    @property
    def seconds(self) -> float:
        """Return the mean of `warm` and `cold`: in a step, activations are in the cache, but weights are not."""
        return (self.warm + self.cold) / 2


class Timer(Protocol):
    """A timer of launches on a device."""

    def seconds(self, launch: Launch) -> Timing:
        """Measure a launch once."""
        ...


class EventTimer:
    """A timer based on driver events, which have a resolution of about 0.5 us (CUDA driver API, `cuEventElapsedTime`).

    The host issues everything while the device is still writing the cache, so no host time is measured.
    """

    def __init__(self, device: Device) -> None:
        """Allocate memory of twice the L2 cache's size on the device. Raises RuntimeFailure MG0604."""
        self._device, cuda = device, device.api.cuda
        size = device.api.driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
        self._nbytes = FLUSHES * int(cuda("cuDeviceGetAttribute", size, cuda("cuDeviceGet", device.ordinal)))
        self._memory = device.allocate(self._nbytes, "memory that empties the cache")
        self._events = [device.event(("time", index), is_timed=True) for index in range(3)]

    def seconds(self, launch: Launch) -> Timing:
        """Time a cold launch, then a warm launch. Raises RuntimeFailure MG0604."""
        cuda, stream = self._device.api.cuda, self._device.streams[0]
        self._device.clear(self._memory, self._nbytes, stream)
        first, second, third = self._events
        cuda("cuEventRecord", first, stream)
        self._device.launch(launch, stream)
        cuda("cuEventRecord", second, stream)
        self._device.launch(launch, stream)
        cuda("cuEventRecord", third, stream)
        cuda("cuEventSynchronize", third)
        cold, warm = (
            1e-3 * float(cuda("cuEventElapsedTime", *pair)) for pair in ((first, second), (second, third))
        )  # of ms
        return Timing(warm, cold)
