"""Progress of a device: its stream records each collective before it begins, and the host can read that at any time.

The record is a word of page-locked memory, so it can be read while the device hangs.
"""

from __future__ import annotations

import ctypes

from meshgen.runtime.cuda.device import Device

_FLAGS = 0  # of cuMemHostAlloc: with unified addressing the device address is the host's
_WORD_BYTES = 4


class Progress:
    """Of one device."""

    def __init__(self, device: Device) -> None:
        device.use()
        self._device = device
        self._address = int(device.api.cuda("cuMemHostAlloc", _WORD_BYTES, _FLAGS))
        self._word = ctypes.c_uint32.from_address(self._address)
        self._word.value = 0
        self._numbers = {"what comes before the first collective": 0}

    def note(self, label: str, stream: int) -> None:
        """Record in the stream that it reaches this collective."""
        number = self._numbers.setdefault(label, len(self._numbers))
        self._device.use()
        self._device.api.cuda("cuStreamWriteValue32", stream, self._address, number, 0)

    @property
    def label(self) -> str:
        """The label of the last collective that the device has reached."""
        return list(self._numbers)[self._word.value]

    def close(self) -> None:
        self._device.use()
        self._device.api.cuda("cuMemFreeHost", self._address)
