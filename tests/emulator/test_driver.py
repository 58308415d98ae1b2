"""Tests of devices, memory, modules and launches of the emulated driver: effects and error codes of each call."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.cuda.types import CUresult
from tests.emulator.rig import ADD_ONE, COUNT, NBYTES, Rig, ok

VALUES = np.arange(COUNT, dtype=np.float32)


def test_calls_before_init_fail() -> None:
    rig = Rig()
    rig.machine.is_initialized = False
    assert rig.driver.cuDeviceGet(0) == (CUresult.CUDA_ERROR_NOT_INITIALIZED, None)


def test_device_reports_name_and_attributes() -> None:
    rig, names = Rig(devices=3, arch="sm_90"), Rig().driver.CUdevice_attribute
    assert ok(rig.driver.cuDeviceGetCount()) == 3
    assert ok(rig.driver.cuDeviceGetName(64, 2)) == b"Emulated H100"
    capability = [
        ok(rig.driver.cuDeviceGetAttribute(names[f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"], 0))
        for part in ("MAJOR", "MINOR")
    ]
    assert capability == [9, 0]
    assert rig.driver.cuDeviceGet(3)[0] == CUresult.CUDA_ERROR_INVALID_DEVICE
    assert rig.driver.cuDeviceGetAttribute(9999, 0)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_error_codes_have_names_and_texts() -> None:
    driver = Rig().driver
    assert ok(driver.cuGetErrorName(700)) == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    assert ok(driver.cuGetErrorString(900)) == b"operation not permitted when stream is capturing"
    assert driver.cuGetErrorName(12345)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_call_without_context_fails() -> None:
    rig = Rig()
    ok(rig.driver.cuCtxSetCurrent(0))
    assert rig.driver.cuMemAlloc(16) == (CUresult.CUDA_ERROR_INVALID_CONTEXT, None)


def test_device_memory_is_poisoned_limited_and_freed() -> None:
    rig = Rig()
    address = rig.room()
    assert np.isnan(rig.read(address)).all()
    free, total = ok(rig.driver.cuMemGetInfo())
    assert total - free == NBYTES
    assert rig.driver.cuMemAlloc(total)[0] == CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert rig.driver.cuMemAlloc(0)[0] == CUresult.CUDA_ERROR_INVALID_VALUE
    ok(rig.driver.cuMemFree(address))
    assert rig.driver.cuMemFree(address)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_copy_past_end_is_sticky_illegal_address() -> None:
    rig = Rig()
    address = rig.room()
    outcome = rig.driver.cuMemcpyHtoD(address + 4, VALUES.ctypes.data, NBYTES)
    assert outcome == (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
    assert "4 bytes past" in str(rig.machine.fault)
    # after the fault, every call in the context fails
    assert rig.driver.cuMemAlloc(16)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS


def test_copy_between_devices_requires_peer_access() -> None:
    rig = Rig(devices=2)
    source = rig.array(VALUES)
    rig.use(1)
    stream, target = rig.stream(), rig.room()
    ok(rig.driver.cuMemcpyDtoDAsync(target, source, NBYTES, stream))
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert "of device 0, but runs on device 1" in str(rig.machine.fault)


def test_memcpy3d_copies_box() -> None:
    rig = Rig()
    values = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
    source, target, stream = rig.array(values), rig.room(2 * 3 * 8), rig.stream()
    box = rig.driver.CUDA_MEMCPY3D(
        srcDevice=source, srcXInBytes=2 * 2, srcY=1, srcZ=2, srcPitch=12, srcHeight=5,
        dstDevice=target, dstPitch=8, dstHeight=3, WidthInBytes=8, Height=3, Depth=2,
    )  # fmt: skip
    ok(rig.driver.cuMemcpy3DAsync(box, stream))
    ok(rig.driver.cuStreamSynchronize(stream))
    assert (rig.read(target, 24, np.int16).reshape(2, 3, 4) == values[2:4, 1:4, 2:6]).all()


@pytest.mark.parametrize("field, value", [("srcPitch", 4), ("dstHeight", 2), ("Height", 0)])
def test_malformed_memcpy3d_is_rejected(field: str, value: int) -> None:
    rig = Rig()
    address, stream = rig.room(), rig.stream()
    fields = {"srcPitch": 8, "srcHeight": 3, "dstPitch": 8, "dstHeight": 3, "WidthInBytes": 8, "Height": 3, "Depth": 2}
    box = rig.driver.CUDA_MEMCPY3D(srcDevice=address, dstDevice=address, **(fields | {field: value}))
    assert rig.driver.cuMemcpy3DAsync(box, stream)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_memset_supports_every_element_size() -> None:
    rig = Rig()
    address, stream = rig.room(), rig.stream()
    ok(rig.driver.cuMemsetD8Async(address, 7, 4, stream))
    ok(rig.driver.cuMemsetD16Async(address + 4, 0x3F80, 2, stream))
    ok(rig.driver.cuMemsetD32Async(address + 8, 0x3F800000, 2, stream))
    ok(rig.driver.cuStreamSynchronize(stream))
    assert rig.read(address, 4, np.uint8).tolist() == [7] * 4
    assert rig.read(address + 4, 2, np.uint16).tolist() == [0x3F80] * 2
    assert rig.read(address + 8, 2).tolist() == [1.0, 1.0]
    assert rig.driver.cuMemsetD32Async(address + 2, 0, 1, stream)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_async_copy_reads_page_locked_memory_late() -> None:
    rig = Rig()
    locked, stream = ok(rig.driver.cuMemHostAlloc(4, 0)), rig.stream()
    content = rig.machine.find(locked, np.ndarray)
    content[:] = 1
    plain, first, second = np.ones(4, np.uint8), rig.room(4), rig.room(4)
    ok(rig.driver.cuMemcpyHtoDAsync(first, locked, 4, stream))
    ok(rig.driver.cuMemcpyHtoDAsync(second, plain.ctypes.data, 4, stream))
    content[:], plain[:] = 2, 2
    assert (
        rig.read(first, 4, np.uint8).tolist() != [2] * 4
    )  # reading does not wait for the stream, so the copy has not run yet
    ok(rig.driver.cuStreamSynchronize(stream))
    assert rig.read(first, 4, np.uint8).tolist() == [2] * 4
    assert rig.read(second, 4, np.uint8).tolist() == [1] * 4


def test_kernel_parameters_are_read_at_launch() -> None:
    rig = Rig()
    x, y, stream, function = rig.array(VALUES), rig.room(), rig.stream(), rig.function()
    rig.add_one(function, x, y, stream)
    ok(rig.driver.cuStreamSynchronize(stream))
    assert (rig.read(y) == VALUES + 1).all()


@pytest.mark.parametrize("threads, shared, result", [
    (64, 0, CUresult.CUDA_ERROR_INVALID_VALUE),  # the kernel has .reqntid 32, so 64 threads are invalid
    (2048, 0, CUresult.CUDA_ERROR_INVALID_VALUE),
    (32, 50_000, CUresult.CUDA_ERROR_INVALID_VALUE),  # more than 48 KiB of shared memory without opting in
])  # fmt: skip
def test_launch_beyond_compiled_limits_is_rejected(threads: int, shared: int, result: CUresult) -> None:
    rig = Rig()
    assert rig.launch(rig.function(), rig.room(), rig.room(), rig.stream(), threads, shared)[0] == result


def test_launch_beyond_maxntid_is_out_of_resources() -> None:
    rig = Rig()
    function = rig.function(ADD_ONE.replace(".reqntid", ".maxntid"))
    outcome = rig.launch(function, rig.room(), rig.room(), rig.stream(), threads=64)
    assert outcome[0] == CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES


def test_large_shared_memory_requires_opt_in() -> None:
    rig, attribute = Rig(), Rig().driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    function = rig.function()
    assert rig.driver.cuFuncSetAttribute(function, attribute, 166_913)[0] == CUresult.CUDA_ERROR_INVALID_VALUE
    ok(rig.driver.cuFuncSetAttribute(function, attribute, 100_000))
    assert ok(rig.driver.cuFuncGetAttribute(attribute, function)) == 100_000
    stream = rig.stream()
    ok(rig.launch(function, rig.array(VALUES), rig.room(), stream, shared=100_000))
    ok(rig.driver.cuStreamSynchronize(stream))


@pytest.mark.parametrize("text, result", [
    ("no PTX at all", CUresult.CUDA_ERROR_INVALID_PTX),
    (ADD_ONE.replace("sm_80", "sm_90"), CUresult.CUDA_ERROR_INVALID_PTX),  # PTX for a newer device
])  # fmt: skip
def test_unsupported_ptx_is_rejected(text: str, result: CUresult) -> None:
    assert Rig().driver.cuModuleLoadData(text.encode())[0] == result


def test_invalid_image_is_rejected() -> None:
    assert Rig().driver.cuModuleLoadData(b"\x83\xff")[0] == CUresult.CUDA_ERROR_INVALID_IMAGE


def test_arch_specific_ptx_runs_only_on_its_architecture() -> None:
    text = ADD_ONE.replace("sm_80", "sm_90a").encode()
    ok(Rig(arch="sm_90").driver.cuModuleLoadData(text))
    assert Rig(arch="sm_100").driver.cuModuleLoadData(text)[0] == CUresult.CUDA_ERROR_INVALID_PTX
    ok(Rig(arch="sm_100").driver.cuModuleLoadData(ADD_ONE.encode()))


def cubin(arch: int) -> bytes:
    """Return the header of a cubin as CUDA 12 writes it."""
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    header[8] = 7
    header[48:52] = arch.to_bytes(4, "little")
    return bytes(header)


@pytest.mark.parametrize("arch, device, result", [
    (80, "sm_80", CUresult.CUDA_SUCCESS),
    (90, "sm_80", CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU),
    (80, "sm_90", CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU),  # the device has another major version
])  # fmt: skip
def test_cubin_runs_only_on_its_major_version(arch: int, device: str, result: CUresult) -> None:
    rig = Rig(arch=device)
    rig.driver.register(cubin(arch), ADD_ONE)
    assert rig.driver.cuModuleLoadData(cubin(arch))[0] == result


def test_cubin_without_ptx_is_not_supported() -> None:
    assert Rig().driver.cuModuleLoadData(cubin(80))[0] == CUresult.CUDA_ERROR_NOT_SUPPORTED


def test_handle_of_wrong_kind_is_rejected() -> None:
    rig = Rig()
    stream = rig.stream()
    assert rig.driver.cuEventSynchronize(stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.driver.cuModuleGetFunction(12345, b"add_one")[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    module = ok(rig.driver.cuModuleLoadData(ADD_ONE.encode()))
    assert rig.driver.cuModuleGetFunction(module, b"other")[0] == CUresult.CUDA_ERROR_NOT_FOUND


def test_launch_requires_current_device_of_function_and_stream() -> None:
    rig = Rig(devices=2)
    function, x, y, stream = rig.function(), rig.room(), rig.room(), rig.stream()
    rig.use(1)
    assert rig.launch(function, x, y, rig.stream())[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.launch(function, x, y, stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.driver.cuMemsetD8Async(x, 0, 4, stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    rig.use(0)
    ok(rig.launch(function, x, y, stream))


def test_launch_outside_its_ranges_faults() -> None:
    """The address is valid on the device, but outside of the ranges that the launch may access."""
    rig = Rig()
    x, y, stream, function = rig.array(VALUES), rig.room(2 * NBYTES), rig.stream(), rig.function()
    parameters = rig.parameters(x, y + 4)
    rig.machine.limit(parameters, [(x, NBYTES, False), (y, NBYTES, True)])
    ok(rig.driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, 0))
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert "1 of 32 threads write 4 bytes" in str(rig.machine.fault)


def test_kernel_access_to_other_device_faults() -> None:
    rig = Rig(devices=2)
    x = rig.array(VALUES)
    rig.use(1)
    stream = rig.stream()
    rig.add_one(rig.function(), x, rig.room(), stream)
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert "32 of 32 threads read 4 bytes" in str(rig.machine.fault)
