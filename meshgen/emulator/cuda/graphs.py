"""Stream capture and graphs of the emulated driver."""

from __future__ import annotations

from meshgen.emulator.cuda.capture import Capture, Graph, GraphExec
from meshgen.emulator.cuda.machine import Functions, call
from meshgen.emulator.cuda.streams import Streams
from meshgen.emulator.cuda.types import CallFailed, CUgraphExecUpdateResult, CUgraphExecUpdateResultInfo, CUresult


class GraphFunctions(Functions):
    """The functions `cuStreamBeginCapture`, `cuStreamEndCapture` and `cuGraph*`."""

    streams: Streams

    @call()
    def cuStreamBeginCapture(self, hStream: int, mode: int) -> None:
        stream = self.streams.find(hStream)
        if not stream.handle:
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        if stream.capture:
            raise CallFailed(CUresult.CUDA_ERROR_ILLEGAL_STATE)
        stream.capture = Capture(stream.handle, int(mode))
        stream.capture.join(stream.handle, ())
        self.machine.captures.append(stream.capture)

    @call(outputs=1)
    def cuStreamEndCapture(self, hStream: int) -> int:
        stream = self.streams.find(hStream)
        if not stream.capture:
            raise CallFailed(CUresult.CUDA_ERROR_ILLEGAL_STATE)
        capture = stream.capture
        if capture.origin != stream.handle:
            raise capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNMATCHED)
        self.machine.captures.remove(capture)
        for handle in capture.ends:
            if handle in self.streams.all:
                self.streams.all[handle].capture = None
        return self.machine.handle(Graph(capture.finish()))

    @call(outputs=1)
    def cuGraphInstantiate(self, hGraph: int, flags: int) -> int:
        return self.machine.handle(GraphExec(self.machine.find(hGraph, Graph)))

    @call(outputs=1)
    def cuGraphExecUpdate(self, hGraphExec: int, hGraph: int) -> CUgraphExecUpdateResultInfo:
        """Replace the operations of an executable graph. The kinds and dependencies of its nodes must not change."""
        executable, graph = self.machine.find(hGraphExec, GraphExec), self.machine.find(hGraph, Graph)
        if executable.graph.shape() != graph.shape():
            raise CallFailed(CUresult.CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE)
        executable.graph = graph
        return CUgraphExecUpdateResultInfo(CUgraphExecUpdateResult.CU_GRAPH_EXEC_UPDATE_SUCCESS)

    @call()
    def cuGraphLaunch(self, hGraphExec: int, hStream: int) -> None:
        executable, stream = self.machine.find(hGraphExec, GraphExec), self.streams.find(hStream)
        if stream.capture:
            raise stream.capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        stream.tail = executable.launch(self.machine.timeline, self.streams.before_next(stream))

    @call(outputs=2)
    def cuGraphGetNodes(self, hGraph: int, numNodes: int = 0) -> tuple[list[int], int]:
        nodes = self.machine.find(hGraph, Graph).nodes
        count = min(numNodes, len(nodes)) if numNodes else len(nodes)
        return list(range(count if numNodes else 0)), count

    @call()
    def cuGraphDestroy(self, hGraph: int) -> None:
        self.machine.find(hGraph, Graph)
        del self.machine.objects[int(hGraph)]

    @call()
    def cuGraphExecDestroy(self, hGraphExec: int) -> None:
        self.machine.find(hGraphExec, GraphExec)
        del self.machine.objects[int(hGraphExec)]
