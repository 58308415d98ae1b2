"""Steps of several devices captured in one CUDA graph, so that one call of the host launches all of it.

The capture begins in one stream; all others fork from it and join it again, so every stream of every rank takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device


def fork(origin: tuple[Device, int], others: Sequence[tuple[Device, int]], key: object) -> None:
    """Streams of devices wait for the work issued to the origin so far."""
    device, stream = origin
    device.record(key, stream)
    for other, its_stream in others:
        other.api.cuda("cuStreamWaitEvent", its_stream, device.event(key), 0)


def join(origin: tuple[Device, int], others: Sequence[tuple[Device, int]], key: object) -> None:
    """The origin waits for the work issued to all the others so far."""
    device, stream = origin
    for number, (other, its_stream) in enumerate(others):
        other.record((key, number), its_stream)
        device.api.cuda("cuStreamWaitEvent", stream, other.event((key, number)), 0)


class StepGraph:
    """A captured step. Pointers are part of it: when they change, it is captured again."""

    def __init__(self, api: Api, streams: Sequence[tuple[Device, int]], issue: Callable[[], None]) -> None:
        """`streams`: all that `issue` uses, each with its device; the first is the origin."""
        self._api, self._streams = api, streams
        self._executable = self._graph = 0
        self.nodes = 0
        self.capture(issue)

    def capture(self, issue: Callable[[], None]) -> None:
        """Capture the work of `issue` and instantiate it, as an update of the last graph if its topology is the same.

        The captured graph stays: it owns what NCCL's kernels read, and CUDA does not say that an update takes it over.
        """
        graph = self._recorded(issue)
        self.nodes = int(self._api.cuda("cuGraphGetNodes", graph)[1])
        executable = self._executable
        if not (executable and self._is_updated(graph)):
            executable = int(self._api.cuda("cuGraphInstantiate", graph, 0))
        self._keep(executable, graph)

    def launch(self) -> None:
        """One step, in the origin."""
        self._api.cuda("cuGraphLaunch", self._executable, self._streams[0][1])

    @property
    def launched(self) -> tuple[Any, Any]:
        """The arguments of `cuGraphLaunch`: the executable graph and the origin."""
        return self._api.handle("CUgraphExec", self._executable), self._api.handle("CUstream", self._streams[0][1])

    def close(self) -> None:
        """Destroy it, also while it runs: it is freed when it ends."""
        self._keep(0, 0)

    def _recorded(self, issue: Callable[[], None]) -> int:
        """The graph of a capture. Other threads (NCCL has some) may call what they like meanwhile."""
        origin, *others = self._streams
        mode = self._api.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._api.cuda("cuStreamBeginCapture", origin[1], mode)
        try:
            fork(origin, others, "fork")
            issue()
            join(origin, others, "join")
        except BaseException:
            self._api.driver.cuStreamEndCapture(origin[1])
            raise
        return int(self._api.cuda("cuStreamEndCapture", origin[1]))

    def _is_updated(self, graph: int) -> bool:
        result, *_ = self._api.driver.cuGraphExecUpdate(self._executable, graph)
        return not result

    def _keep(self, executable: int, graph: int) -> None:
        """Have these graphs in place of those of before."""
        old = self._executable, self._graph
        self._executable, self._graph = executable, graph
        if old[0] not in (0, executable):
            self._api.cuda("cuGraphExecDestroy", old[0])
        if old[1]:
            self._api.cuda("cuGraphDestroy", old[1])
