"""Streams and events: work runs in any order that they allow, and accesses that they do not order are races."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.cuda.types import CUresult
from tests.emulator.rig import COUNT, NBYTES, Rig, ok

VALUES = np.arange(COUNT, dtype=np.float32)


def chain(rig: Rig, ordered: bool) -> np.ndarray:
    """y = x + 1 in one stream, z = y + 1 in another one, with or without an event between them."""
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


def test_without_the_event_some_order_gives_other_numbers() -> None:
    right = [bool((chain(Rig(seed=seed), ordered=False) == VALUES + 2).all()) for seed in range(16)]
    assert any(right) and not all(right)


@pytest.mark.parametrize("seed", range(4))
def test_without_the_event_every_order_is_a_race(seed: int) -> None:
    rig = Rig(seed=seed, races=True)
    chain(rig, ordered=False)
    message = str(rig.machine.fault)
    assert "race" in message and message.count("kernel 'add_one' on device 0") == 2
    assert "reads" in message and "writes" in message and f"bytes [0, {NBYTES})" in message
    assert rig.driver.cuCtxSynchronize()[0] == CUresult.CUDA_ERROR_LAUNCH_FAILED


def test_races_name_the_buffers() -> None:
    rig = Rig(races=True)
    x, y, function = rig.array(VALUES), rig.room(), rig.function()
    rig.machine.name(y, NBYTES, "hidden")
    for stream in (rig.stream(), rig.stream()):
        rig.add_one(function, x, y, stream)
        rig.driver.cuEventRecord(rig.event(), stream)
    rig.driver.cuCtxSynchronize()
    assert "writes bytes [0, 128) of 'memory of device 0' ('hidden')" in str(rig.machine.fault)


def test_reads_of_the_same_bytes_are_no_race() -> None:
    rig = Rig(races=True)
    x, function = rig.array(VALUES), rig.function()
    for stream in (rig.stream(), rig.stream()):
        rig.add_one(function, x, rig.room(), stream)
    ok(rig.driver.cuCtxSynchronize())


def test_neighbouring_bytes_are_no_race() -> None:
    rig = Rig(races=True)
    x, y, function = rig.array(VALUES), rig.room(2 * NBYTES), rig.function()
    for place, stream in enumerate((rig.stream(), rig.stream())):
        rig.add_one(function, x, y + place * NBYTES, stream)
    ok(rig.driver.cuCtxSynchronize())
    rig.add_one(function, x, y + 4, rig.stream())  # the host has waited: everything is before this
    ok(rig.driver.cuCtxSynchronize())


def test_a_synchronisation_orders_what_comes_later_and_only_that() -> None:
    rig = Rig(races=True)
    x, y, function = rig.array(VALUES), rig.room(), rig.function()
    first, second = rig.stream(), rig.stream()
    rig.add_one(function, x, y, first)
    ok(rig.driver.cuStreamSynchronize(first))
    rig.add_one(function, x, y, second)  # after the first
    ok(rig.driver.cuStreamSynchronize(second))
    rig.add_one(function, x, y, first)
    assert (
        rig.driver.cuMemcpyDtoH(VALUES.copy().ctypes.data, y, NBYTES)[0] == CUresult.CUDA_SUCCESS or rig.machine.fault
    )
    rig.driver.cuStreamSynchronize(first)
    assert "race" in str(rig.machine.fault)  # the copy did not wait for a stream that is not blocking


def test_blocking_streams_and_the_legacy_stream_wait_for_each_other() -> None:
    for seed in range(8):
        rig = Rig(seed=seed, races=True)
        x, y, z, function = rig.array(VALUES), rig.room(), rig.room(), rig.function()
        blocking = ok(rig.driver.cuStreamCreate(0))
        rig.add_one(function, x, y, 0)
        rig.add_one(function, y, z, blocking)
        rig.add_one(function, z, y, 0)
        assert (rig.read(y) == VALUES + 3).all()


def test_an_event_that_was_never_recorded_is_no_wait() -> None:
    rig = Rig()
    stream = rig.stream()
    ok(rig.driver.cuStreamWaitEvent(stream, rig.event(), 0))
    ok(rig.driver.cuStreamSynchronize(stream))


def test_a_wait_is_for_the_last_record_before_it() -> None:
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


def test_a_stream_that_waits_is_not_idle_before_the_event() -> None:
    for seed in range(8):
        rig = Rig(seed=seed, races=True)
        x, y, function, first, second = rig.array(VALUES), rig.room(), rig.function(), rig.stream(), rig.stream()
        rig.add_one(function, x, y, first)
        rig.order(first, second)
        while rig.driver.cuStreamQuery(second)[0]:
            pass
        assert (rig.read(y) == VALUES + 1).all()  # the host knows that the kernel is done: this is no race


def test_queries_say_whether_work_is_done() -> None:
    rig = Rig()
    stream, event = rig.stream(), rig.event()
    rig.add_one(rig.function(), rig.array(VALUES), rig.room(), stream)
    ok(rig.driver.cuEventRecord(event, stream))
    seen = [rig.driver.cuEventQuery(event)[0] for _ in range(20)]
    assert seen[-1] == CUresult.CUDA_SUCCESS
    assert set(seen) <= {CUresult.CUDA_SUCCESS, CUresult.CUDA_ERROR_NOT_READY}
    ok(rig.driver.cuStreamQuery(stream))


def test_events_belong_to_the_device_of_their_stream() -> None:
    rig = Rig(devices=2)
    event = rig.event()
    rig.use(1)
    stream = rig.stream()
    assert rig.driver.cuEventRecord(event, stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    ok(rig.driver.cuStreamWaitEvent(stream, event, 0))  # waiting across devices is allowed


def test_destroyed_handles_are_gone() -> None:
    rig = Rig()
    stream, event = rig.stream(), rig.event()
    ok(rig.driver.cuStreamDestroy(stream))
    ok(rig.driver.cuEventDestroy(event))
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
    assert rig.driver.cuEventQuery(event)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE


def test_elapsed_time_needs_events_that_measure() -> None:
    rig = Rig()
    start, end, stream = ok(rig.driver.cuEventCreate(0)), ok(rig.driver.cuEventCreate(0)), rig.stream()
    for event in (start, end):
        ok(rig.driver.cuEventRecord(event, stream))
    assert rig.driver.cuEventElapsedTime(start, end)[0] == CUresult.CUDA_ERROR_NOT_READY
    ok(rig.driver.cuStreamSynchronize(stream))
    assert ok(rig.driver.cuEventElapsedTime(start, end)) == 0.0
    assert rig.driver.cuEventElapsedTime(start, rig.event())[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
