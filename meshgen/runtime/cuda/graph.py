"""CUDA graphs that capture a step of several devices, so that one host call launches the entire step.

The capture begins in one stream. All other streams fork from it and join it again, so every stream of every rank takes
part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device


def fork(origin: tuple[Device, int], other_streams: Sequence[tuple[Device, int]], key: object) -> None:
    """Make the streams `other_streams` wait for the work issued to the stream `origin` so far."""
    device, stream = origin
    device.record(key, stream)
    for other_device, other_stream in other_streams:
        other_device.api.cuda("cuStreamWaitEvent", other_stream, device.event(key), 0)


def join(origin: tuple[Device, int], other_streams: Sequence[tuple[Device, int]], key: object) -> None:
    """Make the stream `origin` wait for the work issued to the streams `other_streams` so far."""
    device, stream = origin
    for index, (other_device, other_stream) in enumerate(other_streams):
        other_device.record((key, index), other_stream)
        device.api.cuda("cuStreamWaitEvent", stream, other_device.event((key, index)), 0)


class StepGraph:
    """A captured step. Addresses are part of the graph, so it is captured again when they change."""

    def __init__(self, api: Api, streams: Sequence[tuple[Device, int]], issue: Callable[[], None]) -> None:
        """Capture the work of `issue`.

        `streams` lists all streams that `issue` uses, each with its device, and starts with the origin stream.
        """
        self._api, self._streams = api, streams
        self._executable = self._graph = 0
        self.nodes = 0
        self.capture(issue)

    def capture(self, issue: Callable[[], None]) -> None:
        """Capture the work of `issue` as a graph and make it executable.

        If the topology is unchanged, the existing executable graph is updated in place. The captured graph is not
        destroyed, because it owns memory that NCCL's kernels read. CUDA does not document that an update transfers this
        ownership.
        """
        graph = self._captured_graph(issue)
        self.nodes = int(self._api.cuda("cuGraphGetNodes", graph)[1])
        executable = self._executable
        if not (executable and self._is_updated(graph)):
            executable = int(self._api.cuda("cuGraphInstantiate", graph, 0))
        self._keep(executable, graph)

    def launch(self) -> None:
        """Launch a step in the origin stream."""
        self._api.cuda("cuGraphLaunch", self._executable, self._streams[0][1])

    @property
    def launch_arguments(self) -> tuple[Any, Any]:
        """Return the arguments of `cuGraphLaunch`: the executable graph and the origin stream."""
        return self._api.handle("CUgraphExec", self._executable), self._api.handle("CUstream", self._streams[0][1])

    def close(self) -> None:
        """Destroy the graph. A graph that is running is freed when it ends."""
        self._keep(0, 0)

    def _captured_graph(self, issue: Callable[[], None]) -> int:
        """Capture the work of `issue` as a graph.

        The thread-local capture mode lets other threads, such as NCCL's, call CUDA meanwhile.
        """
        origin, *other_streams = self._streams
        mode = self._api.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._api.cuda("cuStreamBeginCapture", origin[1], mode)
        try:
            fork(origin, other_streams, "fork")
            issue()
            join(origin, other_streams, "join")
        except BaseException:
            self._api.driver.cuStreamEndCapture(origin[1])
            raise
        return int(self._api.cuda("cuStreamEndCapture", origin[1]))

    def _is_updated(self, graph: int) -> bool:
        result, *_ = self._api.driver.cuGraphExecUpdate(self._executable, graph)
        return not result

    def _keep(self, executable: int, graph: int) -> None:
        """Replace the current graph and its executable instance by new ones, and destroy the old ones."""
        previous = self._executable, self._graph
        self._executable, self._graph = executable, graph
        if previous[0] not in (0, executable):
            self._api.cuda("cuGraphExecDestroy", previous[0])
        if previous[1]:
            self._api.cuda("cuGraphDestroy", previous[1])
