"""Clocks and throttling of a GPU, as NVML has them: a slow clock explains a slow kernel."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint, c_ulonglong, c_void_p
from typing import Any

from meshgen.benchmarks.environment import nvidia_smi_library

_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
# Source: nvml.h, nvmlClocksEventReasons: why clocks are lower than they could be
REASONS = {
    0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "synchronised", 0x20: "temperature (software)",
    0x40: "temperature (hardware)", 0x80: "power brake", 0x100: "display",
}  # fmt: skip


class Nvml:
    """The library for one GPU. Raises OSError where it cannot be used."""

    def __init__(self, library: Any, ordinal: int = 0) -> None:
        """`library`: has NVML's functions."""
        self._library, self._handle = library, c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(ordinal), byref(self._handle))

    def clocks(self) -> dict[str, Any]:
        """`sm_mhz` and `memory_mhz` now, and `throttled`: why they are not higher, empty where nothing holds them."""
        found = {"sm_mhz": self._clock(_SM), "memory_mhz": self._clock(_MEMORY)}
        bits = c_ulonglong()
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle, byref(bits))
        return found | {"throttled": ", ".join(text for bit, text in REASONS.items() if bits.value & bit)}

    def _clock(self, kind: int) -> int:
        found = c_uint()
        self._call("nvmlDeviceGetClockInfo", self._handle, c_uint(kind), byref(found))
        return found.value

    def _call(self, name: str, *args: Any) -> None:
        if result := getattr(self._library, name)(*args):
            raise OSError(f"{name} failed with {result}")


def find_nvml(ordinal: int = 0) -> Nvml | None:
    """NVML of this machine; None where it has none, or it does not work."""
    name = nvidia_smi_library()
    try:
        return Nvml(ctypes.CDLL(name), ordinal) if name else None
    except (OSError, AttributeError):
        return None
