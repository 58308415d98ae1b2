"""Devices and primary contexts of the emulated driver, and its error texts."""

from __future__ import annotations

from meshgen.emulator.cuda.machine import STATIC_SHARED_BYTES, THREADS_PER_BLOCK, Functions, call
from meshgen.emulator.cuda.types import ERROR_TEXTS, CallFailed, CUdevice_attribute, CUresult

DRIVER_VERSION = 13000  # CUDA 13.0
CONTEXT = 0x100  # handle of the primary context of device 0; chosen: any value that is not a device index


def attributes_of(
    capability: tuple[int, int], multiprocessors: int, shared_bytes: int, l2_bytes: int
) -> dict[int, int]:
    """Return the results of `cuDeviceGetAttribute`, by attribute."""
    name = CUdevice_attribute
    return {
        name.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: THREADS_PER_BLOCK,
        name.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: 2**31 - 1,
        name.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y: 65_535,
        name.CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: 65_535,
        name.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: STATIC_SHARED_BYTES,
        name.CU_DEVICE_ATTRIBUTE_WARP_SIZE: 32,
        name.CU_DEVICE_ATTRIBUTE_MAX_PITCH: 2**31 - 1,
        name.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: multiprocessors,
        name.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: l2_bytes,
        name.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: 1,
        name.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: capability[0],
        name.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: capability[1],
        name.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: shared_bytes,
    }


class DeviceFunctions(Functions):
    """The functions `cuInit`, `cuDevice*`, `cuCtx*` and `cuGetError*`."""

    @call()
    def cuInit(self, flags: int) -> None:
        if flags:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        self.machine.is_initialized = True

    @call(outputs=1)
    def cuDriverGetVersion(self) -> int:
        return DRIVER_VERSION

    @call(outputs=1)
    def cuDeviceGetCount(self) -> int:
        self._require_initialized()
        return self.machine.devices

    @call(outputs=1)
    def cuDeviceGet(self, ordinal: int) -> int:
        self._require_initialized()
        return self._device(ordinal)

    @call(outputs=1)
    def cuDeviceGetName(self, length: int, dev: int) -> bytes:
        self._device(dev)
        return self.machine.kind.name.encode()[: length - 1]

    @call(outputs=1)
    def cuDeviceTotalMem(self, dev: int) -> int:
        self._device(dev)
        return self.machine.kind.memory_bytes

    @call(outputs=1)
    def cuDeviceGetAttribute(self, attrib: int, dev: int) -> int:
        self._device(dev)
        kind = self.machine.kind
        attributes = attributes_of(kind.capability, kind.multiprocessors, kind.shared_bytes, kind.l2_bytes)
        if int(attrib) not in attributes:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE)
        return attributes[int(attrib)]

    @call(outputs=1)
    def cuDevicePrimaryCtxRetain(self, dev: int) -> int:
        self._require_initialized()
        return CONTEXT + self._device(dev)

    @call()
    def cuDevicePrimaryCtxRelease(self, dev: int) -> None:
        if self.machine.current == self._device(dev):
            self.machine.current = None

    @call(sticky=False)
    def cuCtxSetCurrent(self, ctx: int) -> None:
        self._require_initialized()
        self.machine.current = None if not int(ctx) else self._device(int(ctx) - CONTEXT)

    @call(outputs=1, sticky=False)
    def cuCtxGetCurrent(self) -> int:
        self._require_initialized()
        return 0 if self.machine.current is None else CONTEXT + self.machine.current

    @call(outputs=1, sticky=False)
    def cuGetErrorName(self, error: int) -> bytes:
        return _result_code(error).name.encode()

    @call(outputs=1, sticky=False)
    def cuGetErrorString(self, error: int) -> bytes:
        return ERROR_TEXTS[_result_code(error)].encode()

    def _require_initialized(self) -> None:
        if not self.machine.is_initialized:
            raise CallFailed(CUresult.CUDA_ERROR_NOT_INITIALIZED)

    def _device(self, ordinal: int) -> int:
        index = int(ordinal)
        if not 0 <= index < self.machine.devices:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_DEVICE)
        return index


def _result_code(error: int) -> CUresult:
    try:
        return CUresult(int(error))
    except ValueError:
        raise CallFailed(CUresult.CUDA_ERROR_INVALID_VALUE) from None
