"""Memory functions of the emulated driver: allocations, copies and fills."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np

from meshgen.emulator.cuda.capture import Operation
from meshgen.emulator.cuda.machine import Array, Functions, call
from meshgen.emulator.cuda.streams import Stream, Streams
from meshgen.emulator.cuda.timeline import Work
from meshgen.emulator.cuda.types import CallFailed, CUmemorytype, CUresult


def host_bytes(address: int, nbytes: int) -> Array:
    """Return a view of host memory."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


class MemoryFunctions(Functions):
    """The functions `cuMemAlloc`, `cuMemFree`, `cuMemcpy*` and `cuMemset*`."""

    streams: Streams

    @call(outputs=1, unsafe=True)
    def cuMemAlloc(self, bytesize: int) -> int:
        machine, device = self.machine, self.machine.device
        if bytesize <= 0:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        if machine.used[device] + bytesize > machine.kind.memory_bytes:
            raise CallFailed(CUresult.CUDA_ERROR_OUT_OF_MEMORY)
        address = machine.memory.allocate(bytesize, f"memory of device {device}")
        machine.used[device] += bytesize
        machine.owners[address] = device
        return address

    @call(unsafe=True)
    def cuMemFree(self, dptr: int) -> None:
        """Free an allocation, after waiting for all work of its device. The real driver waits, too."""
        address, machine = int(dptr), self.machine
        if address not in machine.owners:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        self.wait_for_device(machine.owners[address])
        start, stop = machine.memory.range_of(address) or (address, address)
        machine.used[machine.owners.pop(address)] -= stop - start
        machine.forget_names(start, stop)
        machine.memory.free(address)

    @call(outputs=2)
    def cuMemGetInfo(self) -> tuple[int, int]:
        total = self.machine.kind.memory_bytes
        return total - self.machine.used[self.machine.device], total

    @call(outputs=1, unsafe=True)
    def cuMemHostAlloc(self, bytesize: int, Flags: int) -> int:
        block = np.full(bytesize, 0xFF, np.uint8)
        self.machine.objects[block.ctypes.data] = block
        return block.ctypes.data

    @call(unsafe=True)
    def cuMemFreeHost(self, p: int) -> None:
        self.machine.find(p, np.ndarray)
        for device in range(self.machine.devices):
            self.wait_for_device(device)
        del self.machine.objects[int(p)]

    @call(unsafe=True)
    def cuMemcpyHtoD(self, dstDevice: int, srcHost: int, ByteCount: int) -> None:
        """Copy from the host in the legacy stream, which is not ordered with non-blocking streams."""
        self._finish(self._upload(int(dstDevice), int(srcHost), ByteCount))

    @call(unsafe=True)
    def cuMemcpyDtoH(self, dstHost: int, srcDevice: int, ByteCount: int) -> None:
        self._finish(self._download(int(dstHost), int(srcDevice), ByteCount))

    @call()
    def cuMemcpyHtoDAsync(self, dstDevice: int, srcHost: int, ByteCount: int, hStream: int) -> None:
        """Copy from the host. Page-locked memory is read when the copy runs, and other memory during this call."""
        stream = self.streams.find(hStream)
        self.streams.issue(stream, self._upload(int(dstDevice), int(srcHost), ByteCount, stream))

    @call()
    def cuMemcpyDtoHAsync(self, dstHost: int, srcDevice: int, ByteCount: int, hStream: int) -> None:
        """Copy to the host. Returns after the copy if the host memory is not page-locked, like the real driver."""
        stream = self.streams.find(hStream)
        self.streams.issue(stream, self._download(int(dstHost), int(srcDevice), ByteCount, stream))
        if not stream.capture and not self._is_page_locked(int(dstHost)):
            self.machine.wait(stream.tail)

    @call()
    def cuMemcpyDtoDAsync(self, dstDevice: int, srcDevice: int, ByteCount: int, hStream: int) -> None:
        stream, source, target = self.streams.find(hStream), int(srcDevice), int(dstDevice)

        def run(work: Work) -> None:
            content = self.machine.read(work, stream.device, source, ByteCount).copy()
            self.machine.write(work, stream.device, target, ByteCount)[:] = content

        self.streams.issue(stream, _operation("copy", f"a copy of {ByteCount} bytes", stream, run))

    @call()
    def cuMemcpy3DAsync(self, pCopy: Any, hStream: int) -> None:
        """Copy a 3D box between memory of one device."""
        stream, rows = self.streams.find(hStream), list(_row_addresses(pCopy))
        width = int(pCopy.WidthInBytes)

        def run(work: Work) -> None:
            row_contents = [self.machine.read(work, stream.device, source, width).copy() for source, _ in rows]
            for (_, target), row in zip(rows, row_contents, strict=True):
                self.machine.write(work, stream.device, target, width)[:] = row

        self.streams.issue(stream, _operation("copy", f"a copy of {len(rows)} rows of {width} bytes", stream, run))

    @call()
    def cuMemsetD8Async(self, dstDevice: int, uc: int, N: int, hStream: int) -> None:
        self._set(int(dstDevice), np.array([uc], np.uint8), N, hStream)

    @call()
    def cuMemsetD16Async(self, dstDevice: int, us: int, N: int, hStream: int) -> None:
        self._set(int(dstDevice), np.array([us], np.uint16), N, hStream)

    @call()
    def cuMemsetD32Async(self, dstDevice: int, ui: int, N: int, hStream: int) -> None:
        self._set(int(dstDevice), np.array([ui], np.uint32), N, hStream)

    @call()
    def cuStreamWriteValue32(self, stream: int, addr: int, value: int, flags: int) -> None:
        """Write a value to page-locked host memory; other addresses are unsupported."""
        target_stream = self.streams.find(stream)
        if addr % 4 or not self._is_page_locked(int(addr)):
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        content = np.array([value], np.uint32).view(np.uint8)

        def run(work: Work) -> None:
            host_bytes(int(addr), 4)[:] = content

        self.streams.issue(target_stream, _operation("write", "a write to the host", target_stream, run))

    def wait_for_device(self, device: int) -> None:
        """Wait until all streams of the device are idle."""
        for stream in (self.streams.legacy(device), *self.streams.all.values()):
            if stream.device == device and not stream.capture:
                self.machine.wait(stream.tail)

    def _finish(self, operation: Operation) -> None:
        legacy = self.streams.legacy(self.machine.device)
        self.machine.wait(self.streams.append(legacy, operation.make()))

    def _is_page_locked(self, address: int) -> bool:
        blocks = ((start, block) for start, block in self.machine.objects.items() if isinstance(block, np.ndarray))
        return any(start <= address < start + block.nbytes for start, block in blocks)

    def _upload(self, target: int, source: int, nbytes: int, stream: Stream | None = None) -> Operation:
        target_stream = stream or self.streams.legacy(self.machine.device)
        is_read_late = target_stream.capture or self._is_page_locked(source)
        content = None if is_read_late else host_bytes(source, nbytes).copy()

        def run(work: Work) -> None:
            uploaded = host_bytes(source, nbytes) if content is None else content
            self.machine.write(work, target_stream.device, target, nbytes)[:] = uploaded

        return _operation("copy", f"a copy of {nbytes} bytes from the host", target_stream, run)

    def _download(self, target: int, source: int, nbytes: int, stream: Stream | None = None) -> Operation:
        source_stream = stream or self.streams.legacy(self.machine.device)

        def run(work: Work) -> None:
            host_bytes(target, nbytes)[:] = self.machine.read(work, source_stream.device, source, nbytes)

        return _operation("copy", f"a copy of {nbytes} bytes to the host", source_stream, run)

    def _set(self, target: int, value: Array, count: int, handle: int) -> None:
        stream, content = self.streams.find(handle), np.repeat(value, count).view(np.uint8)
        if stream.device != self.machine.device:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
        if target % value.itemsize:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)

        def run(work: Work) -> None:
            self.machine.write(work, stream.device, target, len(content))[:] = content

        self.streams.issue(stream, _operation("set", f"a fill of {len(content)} bytes", stream, run))


def _operation(kind: str, label: str, stream: Stream, run: Any) -> Operation:
    text = f"{label} on device {stream.device}"
    return Operation(kind, text, lambda: Work(text, run))


def _row_addresses(copy: Any) -> Iterator[tuple[int, int]]:
    """Yield the source and target address of each row of a 3D copy.

    Raises:
        CallFailed: the copy is malformed, or its source or target is not device memory.
    """
    kinds, device = (copy.srcMemoryType, copy.dstMemoryType), CUmemorytype.CU_MEMORYTYPE_DEVICE
    width, height, depth = int(copy.WidthInBytes), int(copy.Height), int(copy.Depth)
    if any(int(kind) != device for kind in kinds):
        raise CallFailed(CUresult.CUDA_ERROR_NOT_SUPPORTED)
    pitches = (int(copy.srcPitch), int(copy.dstPitch))
    heights = (int(copy.srcHeight), int(copy.dstHeight))
    too_narrow = height * depth > 1 and min(pitches) < width
    if not width * height * depth or too_narrow or (depth > 1 and min(heights) < height):
        raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
    source = int(copy.srcDevice) + int(copy.srcXInBytes)
    target = int(copy.dstDevice) + int(copy.dstXInBytes)
    for z in range(depth):
        for y in range(height):
            source_row = (z + int(copy.srcZ)) * heights[0] + y + int(copy.srcY)
            target_row = (z + int(copy.dstZ)) * heights[1] + y + int(copy.dstY)
            yield source + source_row * pitches[0], target + target_row * pitches[1]
