"""Streams and events of the emulated driver."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.emulator.cuda.capture import Capture, Node, Operation
from meshgen.emulator.cuda.machine import Functions, Machine, call
from meshgen.emulator.cuda.timeline import Work
from meshgen.emulator.cuda.types import CallFailed, CUevent_flags, CUresult, CUstream_flags, CUstreamCaptureStatus


@dataclass(eq=False)
class Stream:
    """A queue of work on one device.

    Attributes:
        is_blocking: whether the stream and the legacy stream of the device wait for each other.
        tail: the last work item in the stream.
        capture: the capture that records the operations of the stream; None if they are executed.
    """

    handle: int
    device: int
    is_blocking: bool
    tail: Work | None = None
    capture: Capture | None = None


@dataclass(eq=False)
class Event:
    """A CUDA event: a point in a stream after the preceding work, or a point in a capture after some nodes.

    Attributes:
        work: the work item that the event follows; None if it was never recorded, or last in a capture.
    """

    device: int
    is_timed: bool
    work: Work | None = None
    capture: Capture | None = None
    nodes: tuple[Node, ...] = ()


class Streams:
    """All streams of a machine; issues operations to them."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._legacy: dict[int, Stream] = {}
        self.all: dict[int, Stream] = {}

    def find(self, handle: int) -> Stream:
        """Return the stream of a handle; 0 is the legacy stream of the current device.

        Raises CallFailed for an unknown handle.
        """
        if int(handle):
            return self._machine.find(handle, Stream)
        return self.legacy(self._machine.device)

    def legacy(self, device: int) -> Stream:
        """Return the default stream of a device.

        It waits for the blocking streams of the device, and they wait for it.
        """
        if device not in self._legacy:
            self._legacy[device] = Stream(0, device, is_blocking=True)
        return self._legacy[device]

    def issue(self, stream: Stream, operation: Operation) -> None:
        """Append an operation to a stream, or to its capture. Raises CallFailed if the capture is invalid."""
        if stream.capture:
            stream.capture.add(stream.handle, operation)
        else:
            self.append(stream, operation.make())

    def append(self, stream: Stream, work: Work, *after: Work) -> Work:
        """Append work to a stream that is not captured. The work also depends on `after`."""
        stream.tail = self._machine.timeline.issue(work, [*after, *self.before_next(stream)])
        return stream.tail

    def before_next(self, stream: Stream) -> list[Work]:
        """Return the work items on which the next item in a stream depends. Raises CallFailed if one of their streams
        is captured.
        """
        peers = self._legacy_peers(stream)
        for peer in peers:
            if peer.capture:
                raise peer.capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return [peer.tail for peer in (stream, *peers) if peer.tail]

    def _legacy_peers(self, stream: Stream) -> list[Stream]:
        if not stream.is_blocking:
            return []
        if stream.handle:
            return [self.legacy(stream.device)]
        return [s for s in self.all.values() if s.is_blocking and s.device == stream.device]


class StreamFunctions(Functions):
    """The functions `cuStream*`, except for capture (see `graphs.py`), and `cuEvent*`."""

    streams: Streams

    @call(outputs=1)
    def cuStreamCreateWithPriority(self, flags: int, priority: int) -> int:
        stream = Stream(0, self.machine.device, int(flags) != CUstream_flags.CU_STREAM_NON_BLOCKING)
        stream.handle = self.machine.handle(stream)
        self.streams.all[stream.handle] = stream
        return stream.handle

    @call(outputs=1)
    def cuStreamCreate(self, Flags: int) -> int:
        return self.cuStreamCreateWithPriority(Flags, 0)[1]

    @call()
    def cuStreamDestroy(self, hStream: int) -> None:
        """Destroy the handle of a stream. Its pending work is still executed."""
        stream = self.machine.find(hStream, Stream)
        if stream.capture:
            raise stream.capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        del self.machine.objects[stream.handle], self.streams.all[stream.handle]

    @call()
    def cuStreamSynchronize(self, hStream: int) -> None:
        stream = self._idle_stream(hStream)
        self.machine.refuse_in_capture()
        self.machine.wait(self.streams.append(stream, Work("a synchronization")))

    @call()
    def cuStreamQuery(self, hStream: int) -> None:
        stream = self._idle_stream(hStream)
        self.machine.refuse_in_capture()
        if not self.machine.timeline.poll(stream.tail):
            raise CallFailed(CUresult.CUDA_ERROR_NOT_READY)

    @call()
    def cuCtxSynchronize(self) -> None:
        device = self.machine.device
        for capture in self.machine.captures:
            raise capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        for stream in (self.streams.legacy(device), *self.streams.all.values()):
            if stream.device == device:
                self.machine.wait(self.streams.append(stream, Work("a synchronization")))

    @call()
    def cuStreamWaitEvent(self, hStream: int, hEvent: int, Flags: int) -> None:
        """Make a stream wait for an event. If the event was recorded in a capture, the stream joins the capture."""
        stream, event = self.streams.find(hStream), self.machine.find(hEvent, Event)
        if event.capture:
            self._wait_in_capture(stream, event, event.capture)
        elif stream.capture and event.work:
            raise stream.capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
        elif event.work:  # waiting for an event that was never recorded has no effect, as on a GPU
            self.streams.append(stream, Work("a wait for an event"), event.work)

    def _wait_in_capture(self, stream: Stream, event: Event, capture: Capture) -> None:
        if capture not in self.machine.captures:
            raise CallFailed(CUresult.CUDA_ERROR_STREAM_CAPTURE_ISOLATION)
        capture.require_valid()
        if stream.capture not in (None, capture):
            raise capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_MERGE)
        if not stream.handle:
            raise capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        capture.join(stream.handle, event.nodes)
        stream.capture = capture

    @call(outputs=1)
    def cuEventCreate(self, Flags: int) -> int:
        timed = not int(Flags) & CUevent_flags.CU_EVENT_DISABLE_TIMING
        return self.machine.handle(Event(self.machine.device, timed))

    @call()
    def cuEventDestroy(self, hEvent: int) -> None:
        self.machine.find(hEvent, Event)
        del self.machine.objects[int(hEvent)]

    @call()
    def cuEventRecord(self, hEvent: int, hStream: int) -> None:
        event, stream = self.machine.find(hEvent, Event), self.streams.find(hStream)
        if event.device != stream.device:
            raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
        if stream.capture:
            stream.capture.require_valid()
            event.work, event.capture, event.nodes = None, stream.capture, stream.capture.ends[stream.handle]
        else:
            event.work, event.capture = self.streams.append(stream, Work("the record of an event")), None

    @call()
    def cuEventQuery(self, hEvent: int) -> None:
        event = self._event_outside_capture(hEvent)
        if not self.machine.timeline.poll(event.work):
            raise CallFailed(CUresult.CUDA_ERROR_NOT_READY)

    @call()
    def cuEventSynchronize(self, hEvent: int) -> None:
        self.machine.wait(self._event_outside_capture(hEvent).work)

    @call(outputs=1)
    def cuEventElapsedTime(self, hStart: int, hEnd: int) -> float:
        """Return 0 ms: emulated work takes no time."""
        for handle in (hStart, hEnd):
            event = self._event_outside_capture(handle)
            if not event.is_timed or not event.work:
                raise CallFailed(CUresult.CUDA_ERROR_INVALID_HANDLE)
            if not event.work.done:
                raise CallFailed(CUresult.CUDA_ERROR_NOT_READY)
        return 0.0

    @call(outputs=1)
    def cuStreamIsCapturing(self, hStream: int) -> int:
        capture = self.streams.find(hStream).capture
        if capture is None:
            return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE
        if capture.is_invalid:
            return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_INVALIDATED
        return CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_ACTIVE

    def _idle_stream(self, handle: int) -> Stream:
        """Return a stream that the host may wait for. Raises CallFailed if the stream is captured."""
        stream = self.streams.find(handle)
        if stream.capture:
            raise stream.capture.invalidate(CUresult.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return stream

    def _event_outside_capture(self, handle: int) -> Event:
        event = self.machine.find(handle, Event)
        if event.capture:
            event.capture.is_invalid = True
            raise CallFailed(CUresult.CUDA_ERROR_CAPTURED_EVENT)
        self.machine.refuse_in_capture()
        return event
