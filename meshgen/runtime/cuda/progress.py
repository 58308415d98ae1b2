"""Progress of a device: each stream records the collective that it is about to begin, for the host to read.

The records are words of page-locked host memory, so they can be read even while the device hangs.
"""

from __future__ import annotations

import ctypes

from meshgen.runtime.cuda.device import Device

_FLAGS = 0  # flags of cuMemHostAlloc; no flag is needed: with unified addressing, device and host use the same address
_WORD_BYTES = 4  # bytes that `cuStreamWriteValue32` writes


class Progress:
    """The last collective that each stream of a device has reached."""

    def __init__(self, device: Device) -> None:
        device.use()
        self._device = device
        self._address = int(device.api.cuda("cuMemHostAlloc", _WORD_BYTES * len(device.streams), _FLAGS))
        self._words = (ctypes.c_uint32 * len(device.streams)).from_address(self._address)
        ctypes.memset(self._address, 0, ctypes.sizeof(self._words))
        self._label_indices = {"what comes before the first collective": 0}

    def note(self, label: str, stream: int) -> None:
        """Enqueue a write to host memory, which records that `stream` has reached the collective `label`."""
        label_index = self._label_indices.setdefault(label, len(self._label_indices))
        self._device.use()
        address = self._address + _WORD_BYTES * self._device.streams.index(stream)
        self._device.api.cuda("cuStreamWriteValue32", stream, address, label_index, 0)

    @property
    def label(self) -> str:
        """Return the label of the last collective that the device has reached.

        If several streams communicate, the labels of all of them are joined by "or".
        """
        labels = list(self._label_indices)
        return " or ".join(dict.fromkeys(labels[word] for word in self._words if word)) or labels[0]

    def close(self) -> None:
        self._device.use()
        self._device.api.cuda("cuMemFreeHost", self._address)
