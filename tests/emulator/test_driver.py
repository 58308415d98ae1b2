"""Devices, memory, modules and launches of the emulated driver: what it does and what it refuses, call by call."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.cuda.types import CUresult
from tests.emulator.rig import ADD_ONE, COUNT, NBYTES, Rig, ok

VALUES = np.arange(COUNT, dtype=np.float32)


def test_nothing_works_before_init() -> None:
    rig = Rig()
    rig.machine.is_initialized = False
    assert rig.driver.cuDeviceGet(0) == (CUresult.CUDA_ERROR_NOT_INITIALIZED, None)


def test_devices_say_what_they_are() -> None:
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


def test_errors_have_names_and_texts() -> None:
    driver = Rig().driver
    assert ok(driver.cuGetErrorName(700)) == b"CUDA_ERROR_ILLEGAL_ADDRESS"
    assert ok(driver.cuGetErrorString(900)) == b"operation not permitted when stream is capturing"
    assert driver.cuGetErrorName(12345)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_a_call_needs_a_context() -> None:
    rig = Rig()
    ok(rig.driver.cuCtxSetCurrent(0))
    assert rig.driver.cuMemAlloc(16) == (CUresult.CUDA_ERROR_INVALID_CONTEXT, None)


def test_memory_is_poisoned_limited_and_freed() -> None:
    rig = Rig()
    address = rig.room()
    assert np.isnan(rig.read(address)).all()
    free, total = ok(rig.driver.cuMemGetInfo())
    assert total - free == NBYTES
    assert rig.driver.cuMemAlloc(total)[0] == CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert rig.driver.cuMemAlloc(0)[0] == CUresult.CUDA_ERROR_INVALID_VALUE
    ok(rig.driver.cuMemFree(address))
    assert rig.driver.cuMemFree(address)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_a_copy_past_the_end_is_an_illegal_address_and_stays_one() -> None:
    rig = Rig()
    address = rig.room()
    outcome = rig.driver.cuMemcpyHtoD(address + 4, VALUES.ctypes.data, NBYTES)
    assert outcome == (CUresult.CUDA_ERROR_ILLEGAL_ADDRESS,)
    assert "4 bytes past" in str(rig.machine.fault)
    assert rig.driver.cuMemAlloc(16)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS  # the context is of no use any more


def test_copies_between_devices_need_peer_access() -> None:
    rig = Rig(devices=2)
    own = rig.array(VALUES)
    rig.use(1)
    stream, other = rig.stream(), rig.room()
    ok(rig.driver.cuMemcpyDtoDAsync(other, own, NBYTES, stream))
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert "of device 0, but runs on device 1" in str(rig.machine.fault)


def test_boxes_are_copied_row_by_row() -> None:
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
def test_malformed_boxes_are_refused(field: str, value: int) -> None:
    rig = Rig()
    address, stream = rig.room(), rig.stream()
    given = {"srcPitch": 8, "srcHeight": 3, "dstPitch": 8, "dstHeight": 3, "WidthInBytes": 8, "Height": 3, "Depth": 2}
    box = rig.driver.CUDA_MEMCPY3D(srcDevice=address, dstDevice=address, **(given | {field: value}))
    assert rig.driver.cuMemcpy3DAsync(box, stream)[0] == CUresult.CUDA_ERROR_INVALID_VALUE


def test_fills_by_element_size() -> None:
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


def test_page_locked_memory_is_read_when_its_turn_comes_other_memory_now() -> None:
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
    )  # the copy has not run: reading does not wait for the stream
    ok(rig.driver.cuStreamSynchronize(stream))
    assert rig.read(first, 4, np.uint8).tolist() == [2] * 4
    assert rig.read(second, 4, np.uint8).tolist() == [1] * 4


def test_a_kernel_runs_with_its_parameters_read_at_the_launch() -> None:
    rig = Rig()
    x, y, stream, function = rig.array(VALUES), rig.room(), rig.stream(), rig.function()
    rig.add_one(function, x, y, stream)
    ok(rig.driver.cuStreamSynchronize(stream))
    assert (rig.read(y) == VALUES + 1).all()


@pytest.mark.parametrize("threads, shared, result", [
    (64, 0, CUresult.CUDA_ERROR_INVALID_VALUE),  # .reqntid 32
    (2048, 0, CUresult.CUDA_ERROR_INVALID_VALUE),
    (32, 50_000, CUresult.CUDA_ERROR_INVALID_VALUE),  # more than 48 KiB without opting in
])  # fmt: skip
def test_launches_beyond_what_the_kernel_was_compiled_for(threads: int, shared: int, result: CUresult) -> None:
    rig = Rig()
    assert rig.launch(rig.function(), rig.room(), rig.room(), rig.stream(), threads, shared)[0] == result


def test_more_threads_than_maxntid_are_out_of_resources() -> None:
    rig = Rig()
    function = rig.function(ADD_ONE.replace(".reqntid", ".maxntid"))
    outcome = rig.launch(function, rig.room(), rig.room(), rig.stream(), threads=64)
    assert outcome[0] == CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES


def test_shared_memory_is_opted_in_to_up_to_the_devices_limit() -> None:
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
    (ADD_ONE.replace("sm_80", "sm_90"), CUresult.CUDA_ERROR_INVALID_PTX),  # for a later device
])  # fmt: skip
def test_texts_that_the_device_cannot_run(text: str, result: CUresult) -> None:
    assert Rig().driver.cuModuleLoadData(text.encode())[0] == result


def test_an_image_that_is_neither_cubin_nor_text() -> None:
    assert Rig().driver.cuModuleLoadData(b"\x83\xff")[0] == CUresult.CUDA_ERROR_INVALID_IMAGE


def test_ptx_of_an_architecture_only_runs_on_no_other() -> None:
    text = ADD_ONE.replace("sm_80", "sm_90a").encode()
    ok(Rig(arch="sm_90").driver.cuModuleLoadData(text))
    assert Rig(arch="sm_100").driver.cuModuleLoadData(text)[0] == CUresult.CUDA_ERROR_INVALID_PTX
    ok(Rig(arch="sm_100").driver.cuModuleLoadData(ADD_ONE.encode()))


def cubin(arch: int) -> bytes:
    """The header of a cubin, as CUDA 12 writes it."""
    header = bytearray(64)
    header[:4] = b"\x7fELF"
    header[8] = 7
    header[48:52] = arch.to_bytes(4, "little")
    return bytes(header)


@pytest.mark.parametrize("arch, device, result", [
    (80, "sm_80", CUresult.CUDA_SUCCESS),
    (90, "sm_80", CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU),
    (80, "sm_90", CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU),  # another major version
])  # fmt: skip
def test_a_cubin_runs_on_its_own_major_version_only(arch: int, device: str, result: CUresult) -> None:
    rig = Rig(arch=device)
    rig.driver.register(cubin(arch), ADD_ONE)
    assert rig.driver.cuModuleLoadData(cubin(arch))[0] == result


def test_a_cubin_without_ptx_cannot_be_emulated() -> None:
    assert Rig().driver.cuModuleLoadData(cubin(80))[0] == CUresult.CUDA_ERROR_NOT_SUPPORTED


def test_handles_of_other_things_are_refused() -> None:
    rig = Rig()
    stream = rig.stream()
    assert rig.driver.cuEventSynchronize(stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.driver.cuModuleGetFunction(12345, b"add_one")[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    module = ok(rig.driver.cuModuleLoadData(ADD_ONE.encode()))
    assert rig.driver.cuModuleGetFunction(module, b"other")[0] == CUresult.CUDA_ERROR_NOT_FOUND


def test_a_launch_needs_its_device_to_be_that_of_function_and_stream_and_current() -> None:
    rig = Rig(devices=2)
    function, x, y, stream = rig.function(), rig.room(), rig.room(), rig.stream()
    rig.use(1)
    assert rig.launch(function, x, y, rig.stream())[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.launch(function, x, y, stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.driver.cuMemsetD8Async(x, 0, 4, stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    rig.use(0)
    ok(rig.launch(function, x, y, stream))


def test_a_launch_touches_only_what_it_may() -> None:
    """Memory of the device, but not of the launch."""
    rig = Rig()
    x, y, stream, function = rig.array(VALUES), rig.room(2 * NBYTES), rig.stream(), rig.function()
    parameters = rig.parameters(x, y + 4)
    rig.machine.limit(parameters, [(x, NBYTES, False), (y, NBYTES, True)])
    ok(rig.driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, 0))
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert "1 of 32 threads write 4 bytes" in str(rig.machine.fault)


def test_a_kernel_of_one_device_does_not_touch_another_ones_memory() -> None:
    rig = Rig(devices=2)
    x = rig.array(VALUES)
    rig.use(1)
    stream = rig.stream()
    rig.add_one(rig.function(), x, rig.room(), stream)
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
    assert "32 of 32 threads read 4 bytes" in str(rig.machine.fault)
