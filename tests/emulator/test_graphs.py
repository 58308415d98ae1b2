"""Tests of stream capture and graphs: fork and join, illegal calls during capture, launches and updates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.emulator.cuda.types import CUresult
from tests.emulator.rig import COUNT, NBYTES, Rig, ok

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
VALUES = np.arange(COUNT, dtype=np.float32)


def begin(rig: Rig, stream: int, mode: int = THREAD_LOCAL) -> None:
    ok(rig.driver.cuStreamBeginCapture(stream, mode))


def copy(rig: Rig, target: int, source: int, stream: int) -> tuple[Any, ...]:
    return rig.driver.cuMemcpyDtoDAsync(target, source, NBYTES, stream)


def executable(rig: Rig, stream: int) -> int:
    return ok(rig.driver.cuGraphInstantiate(ok(rig.driver.cuStreamEndCapture(stream)), 0))


def test_captured_work_runs_at_each_launch() -> None:
    rig = Rig()
    stream, x, y = rig.stream(), rig.array(VALUES), rig.room()
    begin(rig, stream)
    ok(copy(rig, y, x, stream))
    graph = executable(rig, stream)
    ok(rig.driver.cuStreamSynchronize(stream))
    assert np.isnan(rig.read(y)).all()
    for factor in (1, 2):
        values = factor * VALUES
        ok(rig.driver.cuMemcpyHtoD(x, values.ctypes.data, NBYTES))
        ok(rig.driver.cuGraphLaunch(graph, stream))
        ok(rig.driver.cuStreamSynchronize(stream))
        assert (rig.read(y) == values).all()


@pytest.mark.parametrize("seed", range(8))
def test_forked_streams_follow_graph_order(seed: int) -> None:
    """Copy x to a in one stream, a to b in another, and b to c in the first. Events fork and join the streams."""
    rig = Rig(seed=seed, races=True)
    first, second = rig.stream(), rig.stream()
    x, a, b, c = rig.array(VALUES), rig.room(), rig.room(), rig.room()
    begin(rig, first)
    ok(copy(rig, a, x, first))
    rig.order(first, second)
    ok(copy(rig, b, a, second))
    rig.order(second, first)
    ok(copy(rig, c, b, first))
    graph = ok(rig.driver.cuStreamEndCapture(first))
    assert ok(rig.driver.cuGraphGetNodes(graph))[1] == 3
    launched = ok(rig.driver.cuGraphInstantiate(graph, 0))
    for _ in range(3):  # launches of the same graph do not overlap
        ok(rig.driver.cuGraphLaunch(launched, first))
    ok(rig.driver.cuStreamSynchronize(first))
    assert (rig.read(c) == VALUES).all()


def test_missing_graph_edge_is_a_race() -> None:
    rig = Rig(races=True)
    first, second = rig.stream(), rig.stream()
    x, a = rig.array(VALUES), rig.room()
    begin(rig, first)
    rig.order(first, second)
    ok(copy(rig, a, x, first))
    ok(copy(rig, a, x, second))
    rig.order(second, first)
    ok(rig.driver.cuGraphLaunch(executable(rig, first), first))
    rig.driver.cuStreamSynchronize(first)
    assert "race" in str(rig.machine.fault)


def test_unjoined_fork_is_rejected() -> None:
    rig = Rig()
    first, second, x = rig.stream(), rig.stream(), rig.array(VALUES)
    begin(rig, first)
    rig.order(first, second)
    ok(copy(rig, rig_room(rig), x, second))
    assert rig.driver.cuStreamEndCapture(first) == (CUresult.CUDA_ERROR_STREAM_CAPTURE_UNJOINED, None)
    assert ok(rig.driver.cuStreamIsCapturing(second)) == 0  # the capture has ended for all streams


def rig_room(rig: Rig) -> int:
    """Return memory that was allocated before the capture."""
    return rig.machine.memory.live[0][0]


ILLEGAL = {
    "allocation": lambda rig, stream: rig.driver.cuMemAlloc(16),
    "free": lambda rig, stream: rig.driver.cuMemFree(rig_room(rig)),
    "copy that waits": lambda rig, stream: rig.driver.cuMemcpyHtoD(rig_room(rig), VALUES.ctypes.data, NBYTES),
    "synchronization": lambda rig, stream: rig.driver.cuStreamSynchronize(stream),
    "query": lambda rig, stream: rig.driver.cuStreamQuery(stream),
    "context": lambda rig, stream: rig.driver.cuCtxSynchronize(),
    "module": lambda rig, stream: rig.driver.cuModuleLoadData(b""),
    "other stream": lambda rig, stream: rig.driver.cuStreamSynchronize(rig.stream()),
}


@pytest.mark.parametrize("call_name", ILLEGAL)
def test_illegal_call_invalidates_capture(call_name: str) -> None:
    rig = Rig()
    stream, x, y = rig.stream(), rig.array(VALUES), rig.room()
    begin(rig, stream)
    assert ILLEGAL[call_name](rig, stream)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    assert ok(rig.driver.cuStreamIsCapturing(stream)) == 2
    assert copy(rig, y, x, stream)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    assert rig.driver.cuStreamEndCapture(stream)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    ok(copy(rig, y, x, stream))  # the capture has ended
    ok(rig.driver.cuStreamSynchronize(stream))


def test_relaxed_capture_allows_allocation_but_no_synchronization() -> None:
    rig = Rig()
    stream = rig.stream()
    begin(rig, stream, RELAXED)
    rig.room()
    assert ok(rig.driver.cuStreamIsCapturing(stream)) == 1
    assert rig.driver.cuStreamSynchronize(stream)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED


def test_capture_begins_and_ends_in_same_stream() -> None:
    rig = Rig()
    first, second = rig.stream(), rig.stream()
    assert rig.driver.cuStreamEndCapture(first)[0] == CUresult.CUDA_ERROR_ILLEGAL_STATE
    assert rig.driver.cuStreamBeginCapture(0, GLOBAL)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
    begin(rig, first)
    assert rig.driver.cuStreamBeginCapture(first, GLOBAL)[0] == CUresult.CUDA_ERROR_ILLEGAL_STATE
    rig.order(first, second)
    assert rig.driver.cuStreamEndCapture(second)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED


def test_dependency_across_capture_boundary_is_rejected() -> None:
    rig = Rig()
    first, second, event = rig.stream(), rig.stream(), rig.event()
    ok(rig.driver.cuEventRecord(event, second))
    begin(rig, first)
    assert rig.driver.cuStreamWaitEvent(first, event, 0)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION
    assert rig.driver.cuStreamEndCapture(first)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
    begin(rig, first)
    ok(rig.driver.cuEventRecord(event, first))
    ok(rig.driver.cuStreamEndCapture(first))
    assert rig.driver.cuStreamWaitEvent(second, event, 0)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION


def test_merging_two_captures_is_rejected() -> None:
    rig = Rig()
    first, second, event = rig.stream(), rig.stream(), rig.event()
    begin(rig, first)
    begin(rig, second)
    ok(rig.driver.cuEventRecord(event, first))
    assert rig.driver.cuStreamWaitEvent(second, event, 0)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_MERGE


def test_host_wait_for_captured_event_is_rejected() -> None:
    rig = Rig()
    stream, event = rig.stream(), rig.event()
    begin(rig, stream)
    ok(rig.driver.cuEventRecord(event, stream))
    assert rig.driver.cuEventSynchronize(event)[0] == CUresult.CUDA_ERROR_CAPTURED_EVENT


def test_legacy_stream_rejects_work_during_blocking_capture() -> None:
    rig = Rig()
    blocking, x = ok(rig.driver.cuStreamCreate(0)), rig.array(VALUES)
    begin(rig, blocking)
    assert copy(rig, x, x, 0)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT


def test_graph_launch_into_capture_is_rejected() -> None:
    rig = Rig()
    stream = rig.stream()
    begin(rig, stream)
    graph = executable(rig, stream)
    begin(rig, stream)
    assert rig.driver.cuGraphLaunch(graph, stream)[0] == CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED


def captured_copies(rig: Rig, stream: int, pairs: list[tuple[int, int]]) -> int:
    begin(rig, stream)
    for target, source in pairs:
        ok(copy(rig, target, source, stream))
    return ok(rig.driver.cuStreamEndCapture(stream))


def test_graph_update_changes_operands_but_not_topology() -> None:
    rig = Rig()
    stream, x, y, z = rig.stream(), rig.array(VALUES), rig.room(), rig.room()
    launched = ok(rig.driver.cuGraphInstantiate(captured_copies(rig, stream, [(y, x)]), 0))
    ok(rig.driver.cuGraphExecUpdate(launched, captured_copies(rig, stream, [(z, x)])))
    ok(rig.driver.cuGraphLaunch(launched, stream))
    ok(rig.driver.cuStreamSynchronize(stream))
    assert np.isnan(rig.read(y)).all() and (rig.read(z) == VALUES).all()
    longer = captured_copies(rig, stream, [(z, x), (y, x)])
    assert rig.driver.cuGraphExecUpdate(launched, longer)[0] == CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE


def test_destroyed_graph_is_invalid() -> None:
    rig = Rig()
    stream = rig.stream()
    begin(rig, stream)
    graph = ok(rig.driver.cuStreamEndCapture(stream))
    launched = ok(rig.driver.cuGraphInstantiate(graph, 0))
    ok(rig.driver.cuGraphDestroy(graph))
    ok(rig.driver.cuGraphLaunch(launched, stream))  # an executable graph is independent of its source graph
    ok(rig.driver.cuStreamSynchronize(stream))
    ok(rig.driver.cuGraphExecDestroy(launched))
    assert rig.driver.cuGraphLaunch(launched, stream)[0] == CUresult.CUDA_ERROR_INVALID_HANDLE
