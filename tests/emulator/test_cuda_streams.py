"""Tests of streams and events: work runs in any order that they allow, and accesses that they do not order are races."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.cuda.types import CUresult
from tests.emulator.rig import COUNT, NBYTES, Rig, ok

VALUES = np.arange(COUNT, dtype=np.float32)


def chain(rig: Rig, ordered: bool) -> np.ndarray:
    """Run y = x + 1 in one stream and z = y + 1 in another. The second waits for an event of the first if `ordered`."""
    x, y, z = rig.array(VALUES), rig.room(), rig.room()
    first, second, function = rig.stream(), rig.stream(), rig.function()
    rig.add_one(function, x, y, first)
    if ordered:
        rig.order(first, second)
    rig.add_one(function, y, z, second)
    for stream in (first, second):
        rig.driver.cuStreamSynchronize(stream)
    return rig.read(z) if rig.machine.fault is None else np.empty(0)


def test_events_order_streams_in_every_random_order() -> None:
    for seed in range(16):
        assert (chain(Rig(seed=seed), ordered=True) == VALUES + 2).all()


def test_missing_event_changes_results_in_some_order() -> None:
    right = [bool((chain(Rig(seed=seed), ordered=False) == VALUES + 2).all()) for seed in range(16)]
    assert any(right) and not all(right)


@pytest.mark.parametrize("seed", range(4))
def test_missing_event_is_a_race_in_every_order(seed: int) -> None:
    rig = Rig(seed=seed, races=True)
    chain(rig, ordered=False)
    message = str(rig.machine.fault)
    assert "race" in message and message.count("kernel 'add_one' on device 0") == 2
    assert "reads" in message and "writes" in message and f"bytes [0, {NBYTES})" in message
    assert rig.driver.cuCtxSynchronize()[0] == CUresult.CUDA_ERROR_LAUNCH_FAILED


def test_race_message_names_buffer() -> None:
    rig = Rig(races=True)
    x, y, function = rig.array(VALUES), rig.room(), rig.function()
    rig.machine.name(y, NBYTES, "hidden")
    for stream in (rig.stream(), rig.stream()):
        rig.add_one(function, x, y, stream)
        rig.driver.cuEventRecord(rig.event(), stream)
    rig.driver.cuCtxSynchronize()
    assert "writes bytes [0, 128) of 'memory of device 0' ('hidden')" in str(rig.machine.fault)


def test_reads_of_same_bytes_are_no_race() -> None:
    rig = Rig(races=True)
    x, function = rig.array(VALUES), rig.function()
    for stream in (rig.stream(), rig.stream()):
        rig.add_one(function, x, rig.room(), stream)
    ok(rig.driver.cuCtxSynchronize())


def test_adjacent_writes_are_no_race() -> None:
    rig = Rig(races=True)
    x, y, function = rig.array(VALUES), rig.room(2 * NBYTES), rig.function()
    for index, stream in enumerate((rig.stream(), rig.stream())):
        rig.add_one(function, x, y + index * NBYTES, stream)
    ok(rig.driver.cuCtxSynchronize())
    # the host has waited, so work issued later is ordered after all earlier work
    rig.add_one(function, x, y + 4, rig.stream())
    ok(rig.driver.cuCtxSynchronize())


def test_synchronization_orders_only_later_work() -> None:
    rig = Rig(races=True)
    x, y, function = rig.array(VALUES), rig.room(), rig.function()
    first, second = rig.stream(), rig.stream()
    rig.add_one(function, x, y, first)
    ok(rig.driver.cuStreamSynchronize(first))
    rig.add_one(function, x, y, second)  # ordered after the first kernel
    ok(rig.driver.cuStreamSynchronize(second))
    rig.add_one(function, x, y, first)
    assert (
        rig.driver.cuMemcpyDtoH(VALUES.copy().ctypes.data, y, NBYTES)[0] == CUresult.CUDA_SUCCESS or rig.machine.fault
    )
    rig.driver.cuStreamSynchronize(first)
    assert "race" in str(rig.machine.fault)  # the copy did not wait for a nonblocking stream


def test_blocking_and_legacy_streams_wait_for_each_other() -> None:
    for seed in range(8):
        rig = Rig(seed=seed, races=True)
        x, y, z, function = rig.array(VALUES), rig.room(), rig.room(), rig.function()
        blocking = ok(rig.driver.cuStreamCreate(0))
        rig.add_one(function, x, y, 0)
        rig.add_one(function, y, z, blocking)
        rig.add_one(function, z, y, 0)
        assert (rig.read(y) == VALUES + 3).all()


def test_wait_for_unrecorded_event_does_not_wait() -> None:
    rig = Rig()
    stream = rig.stream()
    ok(rig.driver.cuStreamWaitEvent(stream, rig.event(), 0))
    ok(rig.driver.cuStreamSynchronize(stream))


def test_wait_uses_last_record_before_it() -> None:
    for seed in range(8):
        rig = Rig(seed=seed, races=True)
        x, y, z, function = rig.array(VALUES), rig.room(), rig.room(), rig.function()
        first, second, event = rig.stream(), rig.stream(), rig.event()
        ok(rig.driver.cuEventRecord(event, first))
        rig.add_one(function, x, y, first)
        ok(rig.driver.cuEventRecord(event, first))
        ok(rig.driver.cuStreamWaitEvent(second, event, 0))
        rig.add_one(function, y, z, second)
        ok(rig.driver.cuStreamSynchronize(second))
        assert (rig.read(z) == VALUES + 2).all()


def test_waiting_stream_is_not_idle_before_event() -> None:
    for seed in range(8):
        rig = Rig(seed=seed, races=True)
        x, y, function, first, second = rig.array(VALUES), rig.room(), rig.function(), rig.stream(), rig.stream()
        rig.add_one(function, x, y, first)
        rig.order(first, second)
        while rig.driver.cuStreamQuery(second)[0]:
            pass
        assert (rig.read(y) == VALUES + 1).all()  # no race: the host knows that the kernel has finished


def test_event_query_reports_completion() -> None:
    rig = Rig()
    stream, event = rig.stream(), rig.event()
    rig.add_one(rig.function(), rig.array(VALUES), rig.room(), stream)
    ok(rig.driver.cuEventRecord(event, stream))
    statuses = [rig.driver.cuEventQuery(event)[0] for _ in range(20)]
    assert statuses[-1] == CUresult.CUDA_SUCCESS
    assert set(statuses) <= {CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_NOT_READY}
    ok(rig.driver.cuStreamQuery(stream))


def test_event_is_recorded_only_on_its_device() -> None:
    rig = Rig(devices=2)
    event = rig.event()
    rig.use(1)
    stream = rig.stream()
    assert rig.driver.cuEventRecord(event, stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    ok(rig.driver.cuStreamWaitEvent(stream, event, 0))  # waiting across devices is allowed


def test_destroyed_handles_are_invalid() -> None:
    rig = Rig()
    stream, event = rig.stream(), rig.event()
    ok(rig.driver.cuStreamDestroy(stream))
    ok(rig.driver.cuEventDestroy(event))
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.driver.cuEventQuery(event)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE


def test_elapsed_time_requires_completed_timing_events() -> None:
    rig = Rig()
    start, end, stream = ok(rig.driver.cuEventCreate(0)), ok(rig.driver.cuEventCreate(0)), rig.stream()
    for event in (start, end):
        ok(rig.driver.cuEventRecord(event, stream))
    assert rig.driver.cuEventElapsedTime(start, end)[0] == CUresult.CUDA_ERROR_NOT_READY
    ok(rig.driver.cuStreamSynchronize(stream))
    assert ok(rig.driver.cuEventElapsedTime(start, end)) == 0.0
    assert rig.driver.cuEventElapsedTime(start, rig.event())[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
