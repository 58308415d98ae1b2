"""Clocks and throttling of a GPU, read from NVML: a slow clock explains a slow kernel."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint, c_ulonglong, c_void_p
from typing import Any

from meshgen.benchmarks.environment import nvidia_smi_library

_SM, _MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM in nvml.h
# Reasons for lower clocks. Source: nvml.h, nvmlClocksEventReasons.
REASONS = {
    0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown", 0x10: "synchronized", 0x20: "temperature (software)",
    0x40: "temperature (hardware)", 0x80: "power brake", 0x100: "display",
}  # fmt: skip


class Nvml:
    """NVML for one GPU. Raises OSError if the library cannot be used."""

    def __init__(self, library: Any, ordinal: int = 0) -> None:
        """Open NVML for the GPU `ordinal`. `library` is an object with NVML's functions."""
        self._library, self._handle = library, c_void_p()
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(ordinal), byref(self._handle))

    def clocks(self) -> dict[str, Any]:
        """Return the current `sm_mhz` and `memory_mhz`, and `throttled`: why they are not higher, or an empty text."""
        clocks = {"sm_mhz": self._clock(_SM), "memory_mhz": self._clock(_MEMORY)}
        bits = c_ulonglong()
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle, byref(bits))
        return clocks | {"throttled": ", ".join(text for bit, text in REASONS.items() if bits.value & bit)}

    def _clock(self, kind: int) -> int:
        megahertz = c_uint()
        self._call("nvmlDeviceGetClockInfo", self._handle, c_uint(kind), byref(megahertz))
        return megahertz.value

    def _call(self, name: str, *args: Any) -> None:
        if result := getattr(self._library, name)(*args):
            raise OSError(f"{name} failed with {result}")


def find_nvml(ordinal: int = 0) -> Nvml | None:
    """Return NVML of this machine, or None if it is missing or does not work."""
    name = nvidia_smi_library()
    try:
        return Nvml(ctypes.CDLL(name), ordinal) if name else None
    except (OSError, AttributeError):
        return None
