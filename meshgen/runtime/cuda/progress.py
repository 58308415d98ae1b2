"""How far a device has come: its stream notes each collective before it begins, and the host reads that at any time.

The note is a word of page-locked memory, so it can be read while the device waits for ever for a peer.
"""

from __future__ import annotations

import ctypes

from meshgen.runtime.cuda.device import Device

_FLAGS = 0  # of cuMemHostAlloc: with unified addresses the device sees the memory where the host does
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
        """The stream comes to this collective."""
        number = self._numbers.setdefault(label, len(self._numbers))
        self._device.use()
        self._device.api.cuda("cuStreamWriteValue32", stream, self._address, number, 0)

    @property
    def label(self) -> str:
        """Of the last collective that the device has come to."""
        return list(self._numbers)[self._word.value]

    def close(self) -> None:
        self._device.use()
        self._device.api.cuda("cuMemFreeHost", self._address)
